import type { StorageAdapter } from './adapter.js';

/** What is used of a binding of a worker to Durable Objects. */
export interface Namespace {
    idFromName(name: string): any;
    get(id: any): { fetch(url: string, init: any): Promise<{ arrayBuffer(): Promise<ArrayBuffer> }> };
}

export interface DurableObjectsOptions {
    /** Of {@link SessionObject}: one object per session. */
    sessions: Namespace;
    /** Of {@link SharedObject}: one object for groups, rules, skills and what else sessions share. */
    shared: Namespace;
    /** Of {@link DirectoryObject}: one object for the list of sessions and of approvals that wait. */
    directory: Namespace;
    /**
     * Whose sessions: each space has sessions, rules, skills and a directory of its own. By default `default`. Every decision
     * of a space asks its one object for `shared`, and every commit tells its one for the directory, so that many users
     * have a space each.
     */
    space?: string;
}

/**
 * Sessions on Cloudflare's Durable Objects, for workers that are bound to the three namespaces. The worker that has the
 * objects exports their classes, with SQLite storage (`new_sqlite_classes`):
 *
 * ```js
 * export { DirectoryObject, SessionObject, SharedObject } from 'runcontext/storage/durable-objects';
 * ```
 *
 * A call may be larger than the 32 MiB of an RPC message, but takes twice its size of the 128 MB of memory that a worker
 * has. An object that was lost in the middle of a call is `storage_lost`, one that is full `storage_quota`, one that has too
 * much to do `storage_failed`.
 */
export function durableObjects(options: DurableObjectsOptions): StorageAdapter;

/** Answers the adapter, and nobody else: do not pass it the requests of users. */
declare class StorageObject {
    constructor(state: any, env?: any);
    fetch(request: Request): Promise<Response>;
}
export class SessionObject extends StorageObject {}
export class SharedObject extends StorageObject {}
export class DirectoryObject extends StorageObject {}
export {};
