import type { StorageAdapter } from './adapter.js';

/** Where the suite gets adapters to try. */
export interface Place {
    /** A fresh adapter with nothing stored, for each case one. */
    open(): StorageAdapter | Promise<StorageAdapter>;
    /** One more adapter, over a connection of its own, to what `adapter` stored. Persistent adapters need it. */
    reopen?(adapter: StorageAdapter): StorageAdapter | Promise<StorageAdapter>;
}

/** One rule that an adapter has to keep. */
export interface Case {
    /** A sentence, unique in the suite. */
    name: string;
    /** Opens an adapter and tries it. Rejects with an error that says what was expected and what came. */
    run(): Promise<void>;
}

/**
 * What every adapter has to do, as cases for any test runner on any host. They may run at the same time, and in any order.
 *
 * ```js
 * for (const { name, run } of conformance({ open: () => myStorage(newDatabase()) })) test(name, run);
 * ```
 */
export function conformance(place: Place): Case[];
