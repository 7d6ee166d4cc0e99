// @ts-check
// The entry for Node. The import alone suffices: the first use reads the file beside this one and starts the module.

import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';

import { start, startWhenUsed } from './lifecycle.js';

export * from './api.js';

const load = () => new WebAssembly.Module(readFileSync(new URL('./runcontext.wasm', import.meta.url)));

startWhenUsed(load);

/**
 * Not needed before the first use; makes a new instance after `module_failed`.
 *
 * @param {any} [input]
 * @returns {Promise<void>}
 */
export function init(input) {
    const isFile = input instanceof URL && input.protocol === 'file:';
    return start(isFile ? readFile(input) : input, load);
}
