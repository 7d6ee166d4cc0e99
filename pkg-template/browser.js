// @ts-check
// The entry for browsers and bundlers. Nothing is loaded until `init()` is called.

import { compile, start } from './lifecycle.js';

export * from './api.js';

/**
 * Loads the module. Safe to call twice and at the same time; safe to call again after a failure.
 *
 * @param {any} [input]
 * @returns {Promise<void>}
 */
export function init(input) {
    // Written out in full: bundlers look for exactly this and put the file beside their output.
    return start(input, () => compile(new URL('./runcontext.wasm', import.meta.url)));
}
