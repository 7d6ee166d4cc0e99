// @ts-check
// A file system in memory, with links: for tests and demos.

import { RunContextError } from '../shim.js';
import { FOLDERS, folders, given, invalid, listed } from './common.js';
import { format, locate, posix, problemOf, windows } from './styles.js';
import { Directory, File, Link, leaf, rootsOf } from './tree.js';
import { follow } from './walk.js';

/** @typedef {Directory | File} Inode */

/**
 * A link in a tree.
 *
 * @param {string} target absolute, or relative to the directory that the link is in
 * @returns {Link}
 */
export function link(target) {
    const problem = target === '' ? 'is empty' : problemOf(target);
    if (problem !== undefined) throw invalid('target', problem);
    return new Link(target);
}

/**
 * @param {import('./virtual.js').VirtualHostOptions} options
 * @returns {import('./virtual.js').VirtualHost}
 */
export function virtualHost(options) {
    const read = given(options, [...FOLDERS, 'tree', 'pathStyle', 'caseSensitive']);
    const { pathStyle = 'posix', caseSensitive = pathStyle === 'posix' } = read;
    if (pathStyle !== 'posix' && pathStyle !== 'windows') throw invalid('options.pathStyle', 'must be `posix` or `windows`');
    if (typeof caseSensitive !== 'boolean') throw invalid('options.caseSensitive', 'must be true or false');
    const style = pathStyle === 'posix' ? posix : windows;
    const known = folders(style, read);
    const roots = rootsOf(read.tree, style, caseSensitive);

    /** @type {(question: import('./walk.js').Question<Inode>) => import('./walk.js').Entry<Inode> | undefined} */
    const look = ({ at, name }) => {
        const found = (at === undefined ? roots : /** @type {Directory} */ (at)).get(name);
        if (found === undefined) return undefined;
        const { node } = found;
        if (node instanceof Link) return { kind: 'link', target: node.target };
        return { kind: node instanceof File ? 'file' : 'directory', at: node, name: found.name };
    };
    /** @param {unknown} base @param {unknown} path */
    const resolve = (base, path) => {
        const location = locate(style, base, path);
        const place = 'unresolved' in location ? location : follow(style, location, look);
        return 'unresolved' in place ? place : { canonical: format(style, place.root, place.names) };
    };

    /** @param {string} path */
    const located = (path) => {
        const location = locate(style, known.cwd, path);
        if ('unresolved' in location) throw refused(path, location.unresolved);
        return location;
    };
    /** @param {string} path @param {import('./styles.js').Location} location */
    const placed = (path, location) => {
        const place = follow(style, location, look);
        if ('unresolved' in place) throw refused(path, place.unresolved);
        return place;
    };
    /** The directory that an entry is in, and the entry's own name: what a link leads to is another entry. @param {string} path */
    const entry = (path) => {
        const { root, names } = located(path);
        const name = names[names.length - 1] ?? '.';
        if (name === '.' || name === '..') throw refused(path, 'does not end in a name');
        return { place: placed(path, { root, names: names.slice(0, -1) }), name };
    };
    /** The directory at a place, made where it is missing. @param {string} path @param {import('./walk.js').Place<Inode>} place */
    const directory = (path, { names, known, last: { at } }) => {
        if (at instanceof File) throw refused(path, 'is a file, or below one');
        for (const name of names.slice(known)) {
            const inner = new Directory(caseSensitive);
            at.set(name, inner);
            at = inner;
        }
        return at;
    };

    /** @type {import('./virtual.js').VirtualHost} */
    const host = {
        ...known,
        pathStyle,
        resolvePaths: (base, paths) => listed(paths).map((path) => resolve(base, path)),
        resolvePathsSync: (base, paths) => listed(paths).map((path) => resolve(base, path)),
        write(path, content) {
            const file = leaf(content);
            if (!(file instanceof File)) throw invalid('content', 'must be a text or a Uint8Array');
            const location = located(path);
            const place = placed(path, location);
            const isDirectory = place.last.at instanceof Directory && place.known === place.names.length;
            if (isDirectory || location.names[location.names.length - 1] === '.') throw refused(path, 'is a directory');
            if (place.last.at instanceof File) {
                place.last.at.content = file.content;
            } else {
                const name = place.names[place.names.length - 1];
                directory(path, { ...place, names: place.names.slice(0, -1) }).set(name, file);
            }
        },
        mkdir(path) {
            directory(path, placed(path, located(path)));
        },
        link(path, target) {
            const made = link(target);
            const { place, name } = entry(path);
            const above = directory(path, place);
            const there = above.get(name);
            if (there !== undefined && !(there.node instanceof Link)) throw refused(path, 'exists, and is no link');
            above.set(name, made);
        },
        remove(path) {
            const { place, name } = entry(path);
            const { at } = place.last;
            const isThere = place.known === place.names.length && at instanceof Directory && at.delete(name);
            if (!isThere) throw notFound(path);
        },
        read(path) {
            const { names, known, last } = placed(path, located(path));
            if (known < names.length) throw notFound(path);
            if (!(last.at instanceof File)) throw refused(path, 'is a directory');
            const { content } = last.at;
            return typeof content === 'string' ? content : new Uint8Array(content);
        },
        list(path) {
            const { names, known, last } = placed(path, located(path));
            if (known < names.length) throw notFound(path);
            if (last.at instanceof File) throw refused(path, 'is a file');
            return last.at.names();
        },
    };
    return Object.freeze(host);
}

/** @param {unknown} path */
const quoted = (path) => (typeof path === 'string' ? `\`${path}\`` : '`path`');

/** @param {unknown} path @param {string} why */
const refused = (path, why) => new RunContextError('invalid_argument', `${quoted(path)} ${why}`, { field: 'path' });

/** @param {unknown} path */
const notFound = (path) => new RunContextError('not_found', `${quoted(path)} does not exist`, { path });
