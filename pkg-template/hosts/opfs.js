// @ts-check
// Paths in the browser's Origin Private File System. It knows no links: what is asked for is what is there.

import { errorText } from '../plain.js';
import { failure, folders, given, invalid, listed } from './common.js';
import * as reason from './reasons.js';
import { collapsed, format, locate, posix } from './styles.js';
import { followLater } from './walk.js';

/**
 * @param {import('./opfs.js').OpfsHostOptions} [options]
 * @returns {import('./opfs.js').OpfsHost}
 */
export function opfsHost(options) {
    const { root, cwd = '/', workspaceRoot } = /** @type {any} */ (given(options, ['root', 'cwd', 'workspaceRoot']));
    if (root !== undefined && typeof root.getDirectoryHandle !== 'function') {
        throw invalid('options.root', 'must be the handle of a directory');
    }
    // A directory that a person picked from a disk may hold links, and nothing here would see them.
    let isInside = root === undefined;
    /** @type {import('./opfs.js').OpfsHost} */
    const host = {
        ...folders(posix, { cwd, workspaceRoot }),
        pathStyle: 'posix',
        async resolvePaths(base, paths) {
            const list = listed(paths);
            try {
                // Asked anew each time: what failed once may be allowed later.
                const top = await navigator.storage.getDirectory();
                isInside ||= (await top.resolve(root)) !== null;
                if (!isInside) return list.map(() => ({ unresolved: reason.OUTSIDE }));
                return await Promise.all(list.map((path) => resolve(root ?? top, base, path)));
            } catch (error) {
                return list.map(() => failure(error));
            }
        },
        resolvePathsSync: (base, paths) =>
            listed(paths).map((path) => (isInside ? written(base, path) : { unresolved: reason.NOT_LOOKED_AT })),
    };
    return Object.freeze(host);
}

/**
 * Without links a path leads to what it is by its text, or nowhere.
 *
 * @param {unknown} base
 * @param {unknown} path
 * @returns {import('./common.js').ResolvedPath}
 */
function written(base, path) {
    const location = locate(posix, base, path);
    if ('unresolved' in location) return location;
    const names = collapsed(location.names);
    return { canonical: format(posix, '/', names.filter((name) => name !== '.')) };
}

/**
 * @param {FileSystemDirectoryHandle} top
 * @param {unknown} base
 * @param {unknown} path
 * @returns {Promise<import('./common.js').ResolvedPath>}
 */
async function resolve(top, base, path) {
    const location = locate(posix, base, path);
    if ('unresolved' in location) return location;
    try {
        const names = collapsed(location.names);
        const place = await followLater(posix, { root: '/', names }, ({ at, name }) => look(top, at, name));
        if ('unresolved' in place) return place;
        for (const name of place.names.slice(place.known)) await look(top, place.last.at, name);
        return { canonical: format(posix, '/', place.names) };
    } catch (error) {
        return error instanceof TypeError ? { unresolved: `${reason.REFUSED_NAME}: ${errorText(error)}` } : failure(error);
    }
}

/**
 * Throws a TypeError for a name that can be none here, also where nothing has it.
 *
 * @param {FileSystemDirectoryHandle} top
 * @param {FileSystemDirectoryHandle | undefined} at
 * @param {string} name
 * @returns {Promise<import('./walk.js').Entry<FileSystemDirectoryHandle> | undefined>}
 */
async function look(top, at, name) {
    if (at === undefined) return { kind: 'directory', at: top };
    try {
        return { kind: 'directory', at: await at.getDirectoryHandle(name) };
    } catch (error) {
        const { name: kind } = /** @type {DOMException} */ (error);
        if (kind === 'NotFoundError') return undefined;
        // Nobody asks for what is in a file.
        if (kind === 'TypeMismatchError') return { kind: 'file', at };
        throw error;
    }
}
