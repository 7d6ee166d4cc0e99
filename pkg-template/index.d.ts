import type { StorageAdapter } from './storage/adapter.js';

/** The version of this package, for example `0.1.0`. */
export const version: string;

/**
 * Loads the module. Safe to call twice and at the same time, safe to call again after a failure. On Node and on workerd
 * the import alone suffices. After `module_failed` it makes a new instance; what was saved is still in storage.
 *
 * @param input where the module comes from; by default the file of this package, beside the code
 * @throws {RunContextError} `module_failed` when it cannot be loaded, `invalid_argument` when it is another module
 */
export function init(
    input?: URL | Request | Response | BufferSource | WebAssembly.Module | Promise<any>,
): Promise<void>;

export * from './storage/adapter.js';
export { memoryStorage } from './storage/memory.js';
