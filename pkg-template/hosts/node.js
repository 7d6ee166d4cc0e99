// @ts-check
// Paths on the disk, as Node and the system below it see them.

import { realpathSync } from 'node:fs';
import { lstat, readlink, realpath, stat } from 'node:fs/promises';
import process from 'node:process';

import { FOLDERS, failure, folders, given, invalid, listed } from './common.js';
import * as reason from './reasons.js';
import { format, locate, posix, windows } from './styles.js';
import { followLater } from './walk.js';

/** In bytes, as Linux counts; other posix systems take less. */
const LONGEST_PATH = 4095;
const LONGEST_NAME = 255;

/**
 * @param {import('./node.js').NodeHostOptions} [options]
 * @returns {import('./node.js').NodeHost}
 */
export function nodeHost(options) {
    const style = process.platform === 'win32' ? windows : posix;
    const read = given(options, FOLDERS);
    read.cwd ??= workingDirectory();
    /** @type {import('./node.js').NodeHost} */
    const host = {
        ...folders(style, read),
        pathStyle: style.name,
        async resolvePaths(base, paths) {
            return Promise.all(listed(paths).map((path) => resolve(style, base, path)));
        },
        resolvePathsSync: (base, paths) => listed(paths).map((path) => resolveNow(style, base, path)),
    };
    return Object.freeze(host);
}

function workingDirectory() {
    try {
        return process.cwd();
    } catch {
        throw invalid('options.cwd', 'must be given: the working directory of this process does not exist any more');
    }
}

/**
 * @param {import('./styles.js').Style} style
 * @param {unknown} base
 * @param {unknown} path
 * @returns {Promise<import('./common.js').ResolvedPath>}
 */
async function resolve(style, base, path) {
    try {
        const location = locate(style, base, path);
        if ('unresolved' in location) return location;
        const whole = format(style, location.root, location.names);
        if (style === posix && Buffer.byteLength(whole) > LONGEST_PATH) return { unresolved: reason.TOO_LONG };
        const real = await ifThere(realName(whole));
        if (real !== undefined) return { canonical: real };

        const place = await followLater(style, location, (question) => look(style, question));
        if ('unresolved' in place) return place;
        const missing = place.names.slice(place.known);
        if (style === posix && missing.some((name) => Buffer.byteLength(name) > LONGEST_NAME)) {
            return { unresolved: reason.TOO_LONG };
        }
        return { canonical: below(style, await realName(place.last.at), missing) };
    } catch (error) {
        const known = REASONS[/** @type {NodeJS.ErrnoException} */ (error).code ?? ''];
        return known === undefined ? failure(error) : { unresolved: known };
    }
}

/**
 * The same at once, for what exists.
 *
 * @param {import('./styles.js').Style} style
 * @param {unknown} base
 * @param {unknown} path
 * @returns {import('./common.js').ResolvedPath}
 */
function resolveNow(style, base, path) {
    try {
        const location = locate(style, base, path);
        if ('unresolved' in location) return location;
        const whole = format(style, location.root, location.names);
        return { canonical: decoded(realpathSync.native(whole, { encoding: 'buffer' })) };
    } catch (error) {
        const { code } = /** @type {NodeJS.ErrnoException} */ (error);
        if (code === 'ENOENT') return { unresolved: 'it does not exist' };
        const known = REASONS[code ?? ''];
        return known === undefined ? failure(error) : { unresolved: known };
    }
}

/** @type {Record<string, string>} */
const REASONS = Object.assign(Object.create(null), {
    ENOTDIR: reason.NOT_A_DIRECTORY,
    ELOOP: reason.TOO_MANY_LINKS,
    EACCES: reason.NO_PERMISSION,
    EPERM: reason.NO_PERMISSION,
    ENAMETOOLONG: reason.TOO_LONG,
    ERR_ENCODING_INVALID_ENCODED_DATA: reason.NOT_UNICODE,
});

/**
 * What is at a place all of whose names but the last are real.
 *
 * @param {import('./styles.js').Style} style
 * @param {import('./walk.js').Question<string>} question
 * @returns {Promise<import('./walk.js').Entry<string> | undefined>}
 */
async function look(style, { at, name }) {
    const place = at === undefined ? name : below(style, at, [name]);
    const found = await ifThere(lstat(place));
    if (found === undefined) return undefined;
    if (!found.isSymbolicLink()) return { kind: found.isDirectory() ? 'directory' : 'file', at: place };
    // Some of /proc only look like links: their text names nothing, and still the system gets somewhere.
    if ((await ifThere(realName(place))) === undefined && (await ifThere(stat(place))) !== undefined) {
        throw new Error('it is a link that only the system can follow');
    }
    return { kind: 'link', target: decoded(await readlink(place, { encoding: 'buffer' })) };
}

/** Only a root ends with a separator. @param {import('./styles.js').Style} style @param {string} at @param {string[]} names */
const below = (style, at, names) =>
    format(style, names.length === 0 || at.endsWith(style.separator) ? at : at + style.separator, names);

/** The system's own answer. Not that of `fs.realpath`, which takes `..` out before it looks for links. @param {string} path */
const realName = async (path) => decoded(await realpath(path, { encoding: 'buffer' }));

/** A name that is no Unicode would come back as another one. @param {Buffer} bytes */
const decoded = (bytes) => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);

/**
 * Undefined for what does not exist.
 *
 * @template T
 * @param {Promise<T>} looking
 * @returns {Promise<T | undefined>}
 */
async function ifThere(looking) {
    try {
        return await looking;
    } catch (error) {
        if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ENOENT') return undefined;
        throw error;
    }
}
