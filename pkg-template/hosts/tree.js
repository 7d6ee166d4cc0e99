// @ts-check
// Files, directories and links in memory.

import { isBytes, isRecord, member } from '../plain.js';
import { invalid } from './common.js';
import { problemOf } from './styles.js';

/** Deeper than this a tree probably contains itself. */
const DEEPEST = 128;

/** @typedef {Directory | File | Link} Node */

export class File {
    /** @param {string | Uint8Array} content */
    constructor(content) {
        this.content = content;
    }
}

export class Link {
    /** @param {string} target */
    constructor(target) {
        this.target = target;
        Object.freeze(this);
    }
}

/** Entries by name. One that is found in another case has the spelling that it was made with. */
export class Directory {
    /** @type {Map<string, { name: string, node: Node }>} */
    #entries = new Map();
    #key;

    /** @param {boolean} caseSensitive */
    constructor(caseSensitive) {
        // Upper case first: some letters have the same one, and different lower ones.
        this.#key = caseSensitive
            ? (/** @type {string} */ name) => name
            : (/** @type {string} */ name) => name.toUpperCase().toLowerCase();
    }

    /** @param {string} name */
    get(name) {
        return this.#entries.get(this.#key(name));
    }

    /** @param {string} name @param {Node} node */
    set(name, node) {
        this.#entries.set(this.#key(name), { name, node });
    }

    /** The names, as they were made, in order. */
    names() {
        return [...this.#entries.values()].map(({ name }) => name).sort();
    }

    /** Whether there was one. @param {string} name */
    delete(name) {
        return this.#entries.delete(this.#key(name));
    }
}

/**
 * The roots of a file system, as entries of a directory of their own.
 *
 * @param {unknown} tree
 * @param {import('./styles.js').Style} style
 * @param {boolean} caseSensitive
 */
export function rootsOf(tree, style, caseSensitive) {
    const roots = new Directory(style.name === 'posix');
    if (style.name === 'posix') {
        roots.set('/', directoryOf(tree, 'options.tree', style, caseSensitive, 0));
        return roots;
    }
    if (!isRecord(tree)) throw invalid('options.tree', 'must be an object');
    for (const [name, inner] of Object.entries(/** @type {object} */ (tree))) {
        const field = member('options.tree', name);
        const written = style.parse(name.endsWith('\\') ? name : `${name}\\`);
        if ('unresolved' in written || !written.root || written.names.some((part) => part !== '.')) {
            throw invalid(field, 'must be a root: a drive such as `C:`, or a share such as `\\\\server\\share`');
        }
        if (roots.get(written.root) !== undefined) throw invalid(field, 'is there in another spelling');
        roots.set(written.root, directoryOf(inner, field, style, caseSensitive, 0));
    }
    return roots;
}

/**
 * @param {unknown} tree
 * @param {string} field
 * @param {import('./styles.js').Style} style
 * @param {boolean} caseSensitive
 * @param {number} depth
 */
function directoryOf(tree, field, style, caseSensitive, depth) {
    if (!isRecord(tree) || depth > DEEPEST) {
        throw invalid(field, depth > DEEPEST ? 'is nested too deep' : 'must be a text, a Uint8Array, a link() or an object');
    }
    const directory = new Directory(caseSensitive);
    for (const [name, inner] of Object.entries(/** @type {object} */ (tree))) {
        const inside = member(field, name);
        if (!isName(style, name)) throw invalid(inside, 'must be one name of a path');
        if (directory.get(name) !== undefined) throw invalid(inside, 'is there in another spelling');
        directory.set(name, leaf(inner) ?? directoryOf(inner, inside, style, caseSensitive, depth + 1));
    }
    return directory;
}

/** @param {import('./styles.js').Style} style @param {string} name */
function isName(style, name) {
    if (name === '.' || name === '..' || problemOf(name) !== undefined) return false;
    const written = style.parse(name);
    return 'names' in written && written.root === undefined && written.names[0] === name;
}

/** The file or the link that a value stands for; bytes are copied. @param {unknown} value */
export function leaf(value) {
    if (typeof value === 'string') return new File(value);
    if (isBytes(value)) return new File(new Uint8Array(/** @type {Uint8Array} */ (value)));
    return value instanceof Link ? value : undefined;
}
