import type { StorageAdapter } from './adapter.js';

/** Storage that ends with the page, as an adapter: to wrap, and to compare with. */
export function memoryStorage(): StorageAdapter;
