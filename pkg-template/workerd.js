// @ts-check
// The entry for workerd, which compiles no bytes at run time: the module is imported, and the first use starts it.

// @ts-expect-error workerd, and the bundlers for it, give the compiled module
import module from './runcontext.wasm';
import { start, startWhenUsed } from './lifecycle.js';

export * from './api.js';

const load = () => /** @type {WebAssembly.Module} */ (module);

startWhenUsed(load);

/**
 * Not needed before the first use; makes a new instance after `module_failed`.
 *
 * @param {any} [input]
 * @returns {Promise<void>}
 */
export function init(input) {
    return start(input, load);
}
