// @ts-check
// What the hosts have in common: their options, and one answer per path.

import { errorText, isRecord, listLength } from '../plain.js';
import { RunContextError } from '../shim.js';
import { problemOf } from './styles.js';

/** @typedef {import('../index.js').ResolvedPath} ResolvedPath */

/** @param {string} field @param {string} problem */
export const invalid = (field, problem) =>
    new RunContextError('invalid_argument', `\`${field}\` ${problem}`, { field });

/**
 * The options of these names. One that is null is absent.
 *
 * @param {unknown} options
 * @param {string[]} names
 * @returns {Record<string, unknown>}
 */
export function given(options, names) {
    if (options !== undefined && options !== null && !isRecord(options)) {
        throw invalid('options', 'must be an object of named members');
    }
    /** @type {Record<string, unknown>} */
    const read = {};
    for (const name of names) {
        try {
            read[name] = /** @type {any} */ (options)?.[name] ?? undefined;
        } catch (error) {
            throw invalid(`options.${name}`, `cannot be read: ${errorText(error)}`);
        }
    }
    return read;
}

/** The options that `folders` reads. */
export const FOLDERS = ['cwd', 'workspaceRoot', 'dataDir'];

/**
 * The folders that a host knows, each an absolute path.
 *
 * @param {import('./styles.js').Style} style
 * @param {Record<string, unknown>} options
 * @returns {{ cwd: string, workspaceRoot?: string, dataDir?: string }}
 */
export function folders(style, options) {
    /** @type {any} */
    const found = {};
    for (const name of FOLDERS) {
        const value = options[name];
        if (value === undefined && name !== 'cwd') continue;
        const written = problemOf(value) === undefined ? style.parse(/** @type {string} */ (value)) : undefined;
        if (written === undefined || 'unresolved' in written || !written.root) {
            throw invalid(`options.${name}`, `must be an absolute ${style.name} path`);
        }
        found[name] = value;
    }
    return found;
}

/**
 * The paths as a list of whatever was given; nothing for what is no list.
 *
 * @param {unknown} paths
 * @returns {unknown[]}
 */
export function listed(paths) {
    /** @type {unknown[]} */
    const list = [];
    const length = listLength(paths);
    for (let at = 0; at < length; at++) {
        try {
            list.push(/** @type {unknown[]} */ (paths)[at]);
        } catch {
            list.push(undefined);
        }
    }
    return list;
}

/** Why something could not be looked at, in the words of whoever failed. @param {unknown} error */
export const failure = (error) => ({ unresolved: `cannot be looked at: ${errorText(error)}` });
