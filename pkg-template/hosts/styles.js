// @ts-check
// How paths are written, on posix and on windows: from text to a root and names, and back.

import { text } from '../plain.js';
import * as reason from './reasons.js';

/**
 * A root and the names below it. A last `.` says that the path must be a directory: it was written with a separator at its end.
 *
 * @typedef {{ root: string, names: string[] }} Location
 */

/**
 * What a text says by itself. Without a root it is relative; the root `''` is that of its base.
 *
 * @typedef {{ root: string | undefined, names: string[] }} Written
 */

/** @typedef {{ unresolved: string }} Unresolved */

/**
 * @typedef {object} Style
 * @property {'posix' | 'windows'} name
 * @property {string} separator
 * @property {boolean} lexical whether the system takes `..` out of a path before it looks for links
 * @property {(path: string) => Written | Unresolved} parse
 */

/** More than any system takes, in UTF-16 units. */
const LONGEST = 32_767;

/** @type {Style} */
export const posix = {
    name: 'posix',
    separator: '/',
    lexical: false,
    parse: (path) => ({ root: path.startsWith('/') ? '/' : undefined, names: namesIn(path, '/') }),
};

/** @type {Style} */
export const windows = {
    name: 'windows',
    separator: '\\',
    lexical: true,
    parse(path) {
        const whole = path.replaceAll('/', '\\');
        if (/^\\[\\?][?.](\\|$)/.test(whole)) return { unresolved: reason.DEVICE };
        let root;
        let rest = whole;
        if (whole.startsWith('\\\\')) {
            const share = /^\\\\([^\\]+)\\([^\\]+)(?:\\|$)/.exec(whole);
            if (share === null) return { unresolved: reason.NO_SHARE };
            const [start, server, name] = share;
            if (isRefused(server) || isRefused(name)) return { unresolved: reason.WINDOWS_NAME };
            root = `\\\\${server}\\${name}\\`;
            rest = whole.slice(start.length);
        } else if (/^[a-z]:/i.test(whole)) {
            if (whole[2] !== '\\') return { unresolved: reason.DRIVE_RELATIVE };
            root = `${whole[0].toUpperCase()}:\\`;
            rest = whole.slice(3);
        } else if (whole.startsWith('\\')) {
            root = '';
        }
        const names = namesIn(rest, '\\');
        const refused = names.some((name) => name !== '.' && name !== '..' && isRefused(name));
        return refused ? { unresolved: reason.WINDOWS_NAME } : { root, names };
    },
};

/** @param {string} path @param {string} separator */
function namesIn(path, separator) {
    const parts = path.split(separator);
    const names = parts.filter((part) => part !== '');
    if (parts[parts.length - 1] === '') names.push('.');
    return names;
}

const FORBIDDEN = /[\u0000-\u001f<>:"|?*]|[. ]$/;
const DEVICES = /^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3]) *(\.|$)/i;

/** Whether Windows refuses a name, takes it for a device, or makes another name of it. @param {string} name */
const isRefused = (name) => FORBIDDEN.test(name) || DEVICES.test(name);

/** @param {Style} style @param {string} root @param {string[]} names */
export const format = (style, root, names) => root + names.join(style.separator);

/**
 * Why a value that came in cannot be a path.
 *
 * @param {unknown} value
 * @returns {string | undefined}
 */
export function problemOf(value) {
    if (typeof value !== 'string') return reason.NOT_TEXT;
    if (value.length > LONGEST) return reason.TOO_LONG;
    if (value.includes('\0')) return reason.NUL;
    return text(value) === undefined ? reason.ILL_FORMED : undefined;
}

/**
 * Where a path is, before anybody looked for links. An empty path is its base.
 *
 * @param {Style} style
 * @param {unknown} base
 * @param {unknown} path
 * @returns {Location | Unresolved}
 */
export function locate(style, base, path) {
    const problem = problemOf(path);
    if (problem !== undefined) return { unresolved: problem };
    const written = style.parse(/** @type {string} */ (path));
    if ('unresolved' in written) return written;
    let { root, names } = written;
    if (!root) {
        const above = problemOf(base) === undefined ? style.parse(/** @type {string} */ (base)) : undefined;
        if (above === undefined || 'unresolved' in above || !above.root) return { unresolved: reason.NO_BASE };
        if (root === undefined) names = [...above.names, ...names];
        root = above.root;
    }
    return { root, names: style.lexical ? collapsed(names) : names };
}

/** Without `.` and `..`, by the text alone. Nothing is above a root. @param {string[]} names */
export function collapsed(names) {
    /** @type {string[]} */
    const kept = [];
    for (const name of names) {
        if (name === '..') kept.pop();
        else if (name !== '.') kept.push(name);
    }
    if (names[names.length - 1] === '.') kept.push('.');
    return kept;
}
