import type { StorageAdapter } from './adapter.js';

/** What is asked of a connection: one of `pg` has it. */
export interface PostgresClient {
    query(text: string, values?: any[]): Promise<any>;
    release(destroy?: boolean): void;
    on(event: 'error', listener: (error: Error) => void): unknown;
    removeListener(event: 'error', listener: (error: Error) => void): unknown;
}

/** What is asked of a pool: `Pool` of `pg` has it. The package itself depends on no driver. */
export interface PostgresPool {
    connect(): Promise<PostgresClient>;
    query(text: string, values?: any[]): Promise<any>;
}

export interface PostgresOptions {
    /** The host's own: it makes it and ends it. */
    pool: PostgresPool;
    /** The schema that the tables are in: `a-z`, `0-9` and `_`, at most 63. By default `runcontext`. */
    schema?: string | null;
}

/**
 * Sessions in PostgreSQL (12 or newer; tested with 15), for `Runtime.open({ storage })`. {@link migratePostgres} makes the tables.
 *
 * What is answered is durable, also where the database has `synchronous_commit` off. A commit is one short transaction that locks
 * its session, so that any number of processes may work on the same tables. No connection is kept between two transactions,
 * and none is changed: PgBouncer may pool by transaction. All connections have to lead to the primary: what was written has
 * to be seen by whoever reads next.
 *
 * Methods reject with `storage_lost` where the connection is gone or does not answer within the pool's `query_timeout`,
 * `storage_blocked` where none is free within its `connectionTimeoutMillis` or a lock is not for 10 seconds, `storage_quota` where
 * the disk is full, `storage_schema_newer` where a newer version of this package has changed the tables, and `storage_failed`
 * otherwise; `cause` is what the driver said. The runtime waits 30 seconds for an answer; without the two timeouts of the pool, a
 * connection to a server or a network that says nothing stays taken without end.
 *
 * Who restores a backup under processes that run raises `version` of the table `policy` above all that it ever was, or restarts them:
 * rules that were read at a version decide until it is another.
 *
 * `storage_schema_newer` is what every write looks for, in its transaction, so that none is made to tables that are newer. Of the
 * methods that only read, the first one of an adapter looks; what the later ones find in newer tables is not looked after.
 *
 * @example
 * import pg from 'pg';
 * import { Runtime } from 'runcontext';
 * import { migratePostgres, postgresStorage } from 'runcontext/storage/postgres';
 *
 * // A commit waits 10 seconds for a lock: `query_timeout` has to be longer, and counts for migrations too.
 * const timeouts = { connectionTimeoutMillis: 5000, query_timeout: 25_000 };
 * const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, ...timeouts });
 * // `pg` ends a process that does not listen when the server closes a connection that is idle.
 * pool.on('error', console.error);
 * await migratePostgres({ pool });
 * const runtime = await Runtime.open({ storage: postgresStorage({ pool }) });
 *
 * @throws {RunContextError} `invalid_argument` for options of the wrong type
 */
export function postgresStorage(options: PostgresOptions): StorageAdapter;

/**
 * Makes the schema and its tables, or brings older ones up to date, in one transaction. Does nothing where there is nothing
 * to do, and may be called by any number of processes at once, at each start. Where there is something to do it waits for the
 * writes under way, and those that come meanwhile wait for it.
 *
 * With `partitions`, each table that holds sessions consists of so many partitions, by the hash of the session's id: 1 to 1,024,
 * by default 1, which is a plain table. It counts where the tables are made and never later.
 *
 * Rejects as the methods of {@link postgresStorage} do: with `storage_schema_newer` where the tables are of a newer version; they
 * are not touched then.
 */
export function migratePostgres(options: PostgresOptions & { partitions?: number | null }): Promise<void>;
