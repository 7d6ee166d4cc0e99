// @ts-check
// Sessions in PostgreSQL, over a pool of `pg` that the host gives. Every key begins with the session, so that its tables can
// be partitions; every statement names its schema, so that any connection does.

import { given, invalid } from '../hosts/common.js';
import { REMEMBERED, answerTo, coded, countersAfter, position, raisesPolicyVersion } from './commit.js';

/** @typedef {import('./adapter.js').Encoded} Encoded */
/** @typedef {import('./postgres.js').PostgresPool} PostgresPool */
/** @typedef {(text: string, values?: unknown[]) => Promise<any>} Query */
/** @typedef {ReturnType<typeof database>} Database */

/** What a value is cut into: bytes. */
const CHUNK = 1024 * 1024;

/** How often something is tried that the server ended for the sake of others. */
const ATTEMPTS = 5;

/** Serialisation failure, deadlock. */
const AGAIN = ['40001', '40P01'];

/** What the server's codes mean, the first two letters for the whole of a class. Any other is `storage_failed`. */
const MEANING = /** @type {Record<string, string>} */ ({
    '08': 'storage_lost',
    // The server stops, or starts; it is another's copy now; it ended a connection that was idle for too long.
    '57P01': 'storage_lost',
    '57P02': 'storage_lost',
    '57P03': 'storage_lost',
    '57P05': 'storage_lost',
    '25006': 'storage_lost',
    '25P03': 'storage_lost',
    '53100': 'storage_quota',
    '53300': 'storage_blocked',
    '55P03': 'storage_blocked',
});

/**
 * One step per version of the schema: what turns the one before into it. A step that was released is never changed.
 * `split` makes a table whose rows belong to sessions, by the column that names the session.
 *
 * @type {((at: string, split: (name: string, by: string, columns: string) => string) => string)[]}
 */
const MIGRATIONS = [
    (at, split) => `
        ${split('sessions', 'id', `
            id bytea PRIMARY KEY,
            origin bytea NOT NULL,
            updated_at double precision NOT NULL,
            message_count bigint NOT NULL,
            conversation bigint NOT NULL,
            settings bigint NOT NULL,
            commits bigint NOT NULL`)}
        ${split('messages', 'session', `
            session bytea NOT NULL,
            position bigint NOT NULL,
            chunk integer NOT NULL,
            value bytea NOT NULL,
            PRIMARY KEY (session, position, chunk)`)}
        ${split('records', 'session', `
            session bytea NOT NULL,
            store text COLLATE "C" NOT NULL,
            position bigint NOT NULL,
            name bytea NOT NULL,
            chunk integer NOT NULL,
            version bigint,
            value bytea NOT NULL,
            PRIMARY KEY (session, store, position, name, chunk)`)}
        ${split('operations', 'session', `
            session bytea NOT NULL,
            id bytea NOT NULL,
            commit bigint NOT NULL,
            PRIMARY KEY (session, id)`)}

        CREATE TABLE ${at}.policy (version bigint NOT NULL);
        INSERT INTO ${at}.policy VALUES (0);
        CREATE TABLE ${at}.shared (
            store text COLLATE "C" NOT NULL,
            key bytea NOT NULL,
            chunk integer NOT NULL,
            value bytea NOT NULL
        );
        -- Keys and directories have any length; what an index holds has not.
        CREATE UNIQUE INDEX ON ${at}.shared (store, sha256(key), chunk);

        CREATE TABLE ${at}.entries (
            id bytea PRIMARY KEY,
            kind text COLLATE "C" NOT NULL,
            session bytea NOT NULL,
            cwd bytea NOT NULL,
            updated_at double precision NOT NULL,
            chunks integer NOT NULL
        );
        CREATE INDEX ON ${at}.entries (kind, updated_at, id);
        CREATE INDEX ON ${at}.entries (kind, sha256(cwd), updated_at, id);
        CREATE TABLE ${at}.entry_values (
            entry bytea NOT NULL REFERENCES ${at}.entries ON DELETE CASCADE,
            chunk integer NOT NULL,
            value bytea NOT NULL,
            PRIMARY KEY (entry, chunk)
        );`,
];

/** The stores whose values are replaced. What is in the others stays as it was written. */
const REPLACED = `('message_outlines', 'settings', 'approvals')`;

/**
 * @param {import('./postgres.js').PostgresOptions} options
 * @returns {import('./adapter.js').StorageAdapter}
 */
export function postgresStorage(options) {
    const { pool, schema } = target(given(options, ['pool', 'schema']));
    const db = database(pool, schema);
    return {
        kind: 'postgres',
        persistent: true,
        session: (id) => session(db, id),
        shared: shared(db),
        directory: directory(db),
    };
}

/**
 * @param {import('./postgres.js').PostgresOptions & { partitions?: number }} options
 * @returns {Promise<void>}
 */
export async function migratePostgres(options) {
    const read = given(options, ['pool', 'schema', 'partitions']);
    const { pool, schema } = target(read);
    const partitions = /** @type {number} */ (read.partitions ?? 1);
    if (!Number.isInteger(partitions) || partitions < 1 || partitions > 1024) {
        throw invalid('options.partitions', 'must be a whole number from 1 to 1024');
    }
    const at = `"${schema}"`;
    /** @type {Parameters<typeof MIGRATIONS[0]>[1]} */
    const split = (name, by, columns) => {
        const table = `CREATE TABLE ${at}.${name} (${columns}\n)`;
        if (partitions === 1) return `${table};`;
        const parts = Array.from({ length: partitions }, (_, number) => {
            const bounds = `FOR VALUES WITH (MODULUS ${partitions}, REMAINDER ${number})`;
            return `CREATE TABLE ${at}.${name}_${number} PARTITION OF ${at}.${name} ${bounds};`;
        });
        return [`${table} PARTITION BY HASH (${by});`, ...parts].join('\n');
    };
    const work = async (/** @type {Query} */ query) => {
        await query('BEGIN ISOLATION LEVEL READ COMMITTED');
        // Whoever comes second waits here, and finds everything done.
        await query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`runcontext ${schema}`]);
        // What is there is not made again: a process may be allowed to use it and not to make it.
        const [there] = (
            await query('SELECT to_regnamespace($1) AS schema, to_regclass($2) AS migrations', [at, `${at}.migrations`])
        ).rows;
        if (there.schema === null) await query(`CREATE SCHEMA ${at}`);
        if (there.migrations === null) {
            await query(`CREATE TABLE ${at}.migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`);
        }
        const version = notNewer(schema, (await query(versionOf(at))).rows);
        // Whoever writes has looked for the version, and goes by it until the end.
        if (version < MIGRATIONS.length) await query(`LOCK TABLE ${at}.migrations IN ACCESS EXCLUSIVE MODE`);
        for (const [number, migration] of [...MIGRATIONS.entries()].slice(version)) {
            await query(migration(at, split));
            await query(`INSERT INTO ${at}.migrations (version) VALUES ($1)`, [number + 1]);
        }
    };
    await tried(schema, () => transaction(pool, work));
}

/** @param {Record<string, unknown>} options */
function target({ pool, schema = 'runcontext' }) {
    if (typeof (/** @type {any} */ (pool)?.connect) !== 'function' || typeof (/** @type {any} */ (pool).query) !== 'function') {
        throw invalid('options.pool', 'must be a pool of `pg`, as `new Pool()` makes it');
    }
    if (typeof schema !== 'string' || !/^(?!pg_)[a-z_][a-z0-9_]{0,62}$/.test(schema)) {
        throw invalid('options.schema', 'must have 1 to 63 of `a-z`, `0-9` and `_`, and begin with neither a digit nor `pg_`');
    }
    return { pool: /** @type {PostgresPool} */ (pool), schema };
}

/**
 * Two ways into the database: a statement that reads, which is of one moment by itself, and a transaction, for all that writes.
 *
 * @param {PostgresPool} pool
 * @param {string} schema
 */
function database(pool, schema) {
    const at = `"${schema}"`;
    const begin = [
        // Locks make the order here: who has waited for one has to see what was written meanwhile.
        'BEGIN ISOLATION LEVEL READ COMMITTED',
        // No lock is waited for for ever: not behind a long queue, nor behind a process that was frozen or cut off in mid-commit.
        // On a server that does not answer the pool gives up, as its host has said.
        `SET LOCAL lock_timeout = '10s'`,
        `SET LOCAL idle_in_transaction_session_timeout = '30s'`,
        // What was answered is durable, whatever is usual in this database; one that waits for its copies too goes on doing so.
        `SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'`,
        // Each time: another process may have brought a newer schema since. None comes before the end: this locks the table of
        // the versions for reading, and a migration waits for that.
        versionOf(at),
    ].join(';\n');
    /** @type {Promise<void> | undefined} */
    let checked;
    const check = async () => suits(schema, (await pool.query(versionOf(at))).rows);
    return {
        at,
        /**
         * For what reads: the first one looks for the version, the others trust it.
         *
         * @type {(text: string, values?: unknown[]) => Promise<any[]>} the rows
         */
        statement: (text, values) =>
            tried(schema, async () => {
                try {
                    await (checked ??= check());
                } catch (error) {
                    checked = undefined;
                    throw error;
                }
                return (await pool.query(text, values)).rows;
            }),
        /**
         * @template T
         * @param {(query: Query) => Promise<T>} work
         * @returns {Promise<T>}
         */
        transaction: (work) =>
            tried(schema, () =>
                transaction(pool, async (query) => {
                    suits(schema, (await query(begin)).at(-1).rows);
                    return work(query);
                }),
            ),
    };
}

/**
 * Again, where the server ended it for the sake of others. Rejects with an error of the contract.
 *
 * @template T
 * @param {string} schema
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
async function tried(schema, work) {
    for (let left = ATTEMPTS - 1; ; left--) {
        try {
            return await work();
        } catch (error) {
            if (left === 0 || !AGAIN.includes(/** @type {any} */ (error)?.code)) throw failure(error, schema);
        }
    }
}

/**
 * Runs what begins a transaction, and ends it. The client goes back in every case, a broken one to be destroyed.
 *
 * @template T
 * @param {PostgresPool} pool
 * @param {(query: Query) => Promise<T>} work
 * @returns {Promise<T>}
 */
async function transaction(pool, work) {
    const client = await pool.connect();
    // A connection that is lost between two queries says so in an event, which ends the process where nobody listens. The
    // next query rejects.
    const ignore = () => {};
    client.on('error', ignore);
    let broken = false;
    try {
        const result = await work((text, values) => client.query(text, values));
        await client.query('COMMIT');
        return result;
    } catch (error) {
        broken = await client.query('ROLLBACK').then(
            () => false,
            () => true,
        );
        throw error;
    } finally {
        client.removeListener('error', ignore);
        client.release(broken);
    }
}

/** @param {string} at */
const versionOf = (at) => `SELECT max(version) AS version FROM ${at}.migrations`;

/**
 * @param {string} schema
 * @param {{ version: number | null }[]} rows
 * @returns {number}
 */
function notNewer(schema, rows) {
    const version = Number(rows[0].version ?? 0);
    if (version <= MIGRATIONS.length) return version;
    throw coded(
        'storage_schema_newer',
        `the schema \`${schema}\` has version ${version}, and this package knows up to ${MIGRATIONS.length}; use a newer package`,
    );
}

/** @param {string} schema @param {{ version: number | null }[]} rows */
function suits(schema, rows) {
    if (notNewer(schema, rows) < MIGRATIONS.length) throw unprepared(schema);
}

/** @param {string} schema @param {unknown} [cause] */
const unprepared = (schema, cause) =>
    Object.assign(coded('storage_failed', `the schema \`${schema}\` is not prepared; call \`migratePostgres\` first`), { cause });

/** @param {unknown} [cause] */
const taken = (cause) =>
    Object.assign(coded('storage_failed', 'a position of the commit is taken; nothing was saved'), { cause });

/**
 * The error to reject with: one of the contract's codes, and what the server or its driver said.
 *
 * @param {any} error
 * @param {string} schema
 */
function failure(error, schema) {
    const { code, severity, message } = error ?? {};
    if (/^(storage_|not_found$)/.test(code)) return error;
    // Of what is written once, all else being locked: a place that is taken, or named twice in one commit.
    if (code === '23505' || code === '21000') return taken(error);
    if (code === '42P01' || code === '3F000') return unprepared(schema, error);
    let meaning = 'storage_failed';
    // What has no severity is not from the server: the driver and the system complain of connections.
    if (severity !== undefined) meaning = MEANING[code] ?? MEANING[code.slice(0, 2)] ?? meaning;
    else if (message === 'timeout exceeded when trying to connect') meaning = 'storage_blocked';
    else if (!(error instanceof TypeError || error instanceof RangeError)) meaning = 'storage_lost';
    return Object.assign(coded(meaning, `PostgreSQL: ${message || code}`), { cause: error });
}

/**
 * A text as bytes. They hold every code unit, as a `text` of PostgreSQL does not, sort as the units do, and begin with the bytes of
 * whatever the text begins with: UTF-8, but that a half of a pair, or of none, becomes the three bytes of its own number.
 *
 * @param {string} text
 */
const toBytes = (text) =>
    Buffer.concat(
        text.split(/([\ud800-\udfff])/).map((part, at) => {
            if (at % 2 === 0) return Buffer.from(part);
            const unit = part.charCodeAt(0);
            return Buffer.from([0xed, 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f)]);
        }),
    );

/**
 * The text again.
 *
 * @param {string} encoded its bytes, as base64
 */
const toText = (encoded) =>
    Buffer.from(encoded, 'base64')
        .toString('latin1')
        .split(/(\xed[\xa0-\xbf][\x80-\xbf])/)
        .map((part, at) => {
            if (at % 2 === 0) return Buffer.from(part, 'latin1').toString();
            return String.fromCharCode(0xd000 | ((part.charCodeAt(1) & 0x3f) << 6) | (part.charCodeAt(2) & 0x3f));
        })
        .join('');

/**
 * Columns for `unnest`, and all bytes as one: an array of them would be sent as text, twice as long. A row without a size ends
 * a value: what is stored of it from that chunk on goes.
 *
 * @template Key
 * @param {{ key: Key, value: Encoded | null, replaces: boolean }[]} entries
 */
function cut(entries) {
    /** @type {{ key: Key, chunk: number, start: number, size: number | null }[]} */
    const rows = [];
    let start = 0;
    for (const { key, value, replaces } of entries) {
        let chunk = 0;
        for (let from = 0; value !== null && (chunk === 0 || from < value.length); from += CHUNK) {
            const size = Math.min(CHUNK, value.length - from);
            // Positions in SQL begin at 1.
            rows.push({ key, chunk, start: start + 1, size });
            start += size;
            chunk += 1;
        }
        if (replaces) rows.push({ key, chunk, start: 0, size: null });
    }
    return { rows, bytes: Buffer.concat(entries.flatMap(({ value }) => value ?? [])) };
}

/**
 * Values from rows that hold their chunks, one after another.
 *
 * @template {{ chunk: number, value: string }} Row
 * @param {Row[]} rows
 * @returns {(Omit<Row, 'value'> & { value: Encoded })[]}
 */
function whole(rows) {
    /** @type {{ row: Row, parts: Buffer[] }[]} */
    const found = [];
    for (const row of rows) {
        if (row.chunk === 0) found.push({ row, parts: [] });
        found.at(-1)?.parts.push(Buffer.from(row.value, 'base64'));
    }
    // Memory of its own: a small Buffer is a view of what others use too.
    return found.map(({ row, parts }) => ({ ...row, value: new Uint8Array(Buffer.concat(parts)) }));
}

/**
 * @param {Database} db
 * @param {string} sessionId
 * @returns {import('./adapter.js').SessionStorage}
 */
function session({ at, statement, transaction }, sessionId) {
    const id = toBytes(sessionId);
    return {
        async counters() {
            const [row] = await statement(
                `SELECT conversation, settings, encode(origin, 'base64') AS origin FROM ${at}.sessions WHERE id = $1`,
                [id],
            );
            return row && { ...countersOf(row), origin: toText(row.origin) };
        },
        async load() {
            const rows = await statement(
                `SELECT s.updated_at, s.message_count, s.conversation, s.settings, encode(s.origin, 'base64') AS origin,
                     r.store, encode(r.name, 'base64') AS name, r.version, r.chunk, encode(r.value, 'base64') AS value
                 FROM ${at}.sessions AS s LEFT JOIN ${at}.records AS r ON r.session = s.id
                 WHERE s.id = $1 ORDER BY r.store, r.position, r.name, r.chunk`,
                [id],
            );
            const [row] = rows;
            if (row === undefined) return undefined;
            const records = whole(rows.filter(({ chunk }) => chunk !== null));
            const of = (/** @type {string} */ store) => records.filter((record) => record.store === store);
            const list = (/** @type {string} */ store) => of(store).map(({ value }) => value);
            return {
                // One that was deleted by hand is as one that cannot be read.
                header: list('header')[0] ?? new Uint8Array(),
                origin: toText(row.origin),
                updatedAt: Number(row.updated_at),
                messageCount: Number(row.message_count),
                counters: countersOf(row),
                settings: Object.fromEntries(of('settings').map(({ name, value }) => [toText(name), value])),
                outlines: list('message_outlines'),
                snapshots: list('runtime_contexts'),
                checkpoints: list('system_prompt_checkpoints'),
                compactions: list('compactions'),
                approvals: of('approvals').map(({ name, version, value }) => ({ id: toText(name), version: Number(version), value })),
            };
        },
        async readMessages({ from, to }) {
            const rows = await statement(
                `SELECT chunk, encode(value, 'base64') AS value FROM ${at}.messages
                 WHERE session = $1 AND position >= $2 AND position < $3 ORDER BY position, chunk`,
                [id, from, to],
            );
            return whole(rows).map(({ value }) => value);
        },
        commit: (commit) =>
            transaction(async (query) => {
                const [row] = (
                    await query(
                        `SELECT encode(origin, 'base64') AS origin, message_count, conversation, settings, commits
                         FROM ${at}.sessions WHERE id = $1 FOR UPDATE`,
                        [id],
                    )
                ).rows;
                // In a statement after the one that waits for the lock, which sees things as they were before.
                const [known] = row === undefined ? [] : (
                    await query(
                        `SELECT EXISTS (SELECT FROM ${at}.operations WHERE session = $1 AND id = $2) AS remembered,
                             ARRAY(SELECT coalesce(r.version, 0)
                                 FROM unnest($3::bytea[]) WITH ORDINALITY AS asked (name, number)
                                 LEFT JOIN ${at}.records AS r ON r.session = $1 AND r.store = 'approvals' AND r.position = 0
                                     AND r.name = asked.name AND r.chunk = 0
                                 ORDER BY number) AS versions`,
                        [id, toBytes(commit.operationId), commit.approvals.map(({ id }) => toBytes(id))],
                    )
                ).rows;
                const before = row && { origin: toText(row.origin), counters: countersOf(row) };
                const versions = commit.approvals.map((_, number) => Number(known?.versions[number] ?? 0));
                const answer = answerTo(commit, before, known?.remembered ?? false, versions);
                if (answer !== undefined) return answer;

                if (before === undefined) {
                    const { rowCount } = await query(
                        `INSERT INTO ${at}.sessions (id, origin, updated_at, message_count, conversation, settings, commits)
                         VALUES ($1, $2, 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING`,
                        [id, toBytes(commit.operationId)],
                    );
                    // Somebody else created it just now: the next attempt sees that one.
                    if (rowCount === 0) throw coded(AGAIN[0], 'created by somebody else');
                }
                const counters = countersAfter(commit, before?.counters);
                const commits = Number(row?.commits ?? 0) + 1;
                const { rows, bytes } = cut(entriesOf(commit, versions));
                const { rowCount } = await query(
                    `WITH session AS (
                         UPDATE ${at}.sessions SET updated_at = $2, message_count = $3, conversation = $4, settings = $5, commits = $6
                         WHERE id = $1
                     ), operation AS (
                         INSERT INTO ${at}.operations (session, id, commit) VALUES ($1, $7, $6)
                     ), given AS NOT MATERIALIZED (
                         SELECT * FROM unnest($9::text[], $10::bigint[], $11::bytea[], $12::bigint[], $13::integer[], $14::integer[], $15::integer[])
                             AS given (store, position, name, version, chunk, start, size)
                     ), ended AS (
                         DELETE FROM ${at}.records AS r USING given AS g
                         WHERE g.size IS NULL AND r.session = $1 AND r.store = g.store AND r.position = g.position
                             AND r.name = g.name AND r.chunk >= g.chunk
                     ), message AS (
                         INSERT INTO ${at}.messages (session, position, chunk, value)
                         SELECT $1, position, chunk, substring($8::bytea FROM start FOR size) FROM given WHERE store = 'messages'
                     )
                     INSERT INTO ${at}.records AS r (session, store, position, name, version, chunk, value)
                     SELECT $1, store, position, name, version, chunk, substring($8::bytea FROM start FOR size)
                     FROM given WHERE size IS NOT NULL AND store <> 'messages'
                     ON CONFLICT (session, store, position, name, chunk)
                     DO UPDATE SET version = excluded.version, value = excluded.value WHERE r.store IN ${REPLACED}`,
                    [
                        id,
                        commit.timestamp,
                        commit.messageCount ?? row?.message_count ?? 0,
                        counters.conversation,
                        counters.settings,
                        commits,
                        toBytes(commit.operationId),
                        bytes,
                        rows.map(({ key }) => key.store),
                        rows.map(({ key }) => key.position),
                        rows.map(({ key }) => key.name),
                        rows.map(({ key }) => key.version),
                        ...places(rows),
                    ],
                );
                const written = rows.filter(({ key, size }) => size !== null && key.store !== 'messages');
                if (rowCount !== written.length) throw taken();
                // Now and then, so that nothing has to be sorted by age for it.
                if (commits % REMEMBERED === 0) {
                    await query(`DELETE FROM ${at}.operations WHERE session = $1 AND commit <= $2`, [id, commits - REMEMBERED]);
                }
                return { status: 'applied', counters };
            }),
        delete: () =>
            transaction(async (query) => {
                // First the row that a commit under way holds: what that one writes is seen afterwards.
                const { rowCount } = await query(`DELETE FROM ${at}.sessions WHERE id = $1`, [id]);
                // Nothing is locked then: what the next statements would find is of a session that was made meanwhile.
                if (rowCount === 0) return;
                for (const table of ['messages', 'records', 'operations']) {
                    await query(`DELETE FROM ${at}.${table} WHERE session = $1`, [id]);
                }
            }),
    };
}

/** @param {{ conversation: string, settings: string }} row whole numbers of 64 bits come as text */
const countersOf = ({ conversation, settings }) => ({ conversation: Number(conversation), settings: Number(settings) });

/**
 * What a commit writes, each value under its key. The last change of an approval counts.
 *
 * @param {import('./adapter.js').EncodedCommit} commit
 * @param {number[]} versions of its approvals
 */
function entriesOf({ create, records, approvals, settings }, versions) {
    const named = (/** @type {string} */ store, /** @type {string} */ name, /** @type {number | null} */ version) =>
        ({ store, position: 0, name: toBytes(name), version });
    const changed = new Map(approvals.map(({ id, value }, number) => [id, { value, version: versions[number] + 1 }]));
    return [
        ...(create === undefined ? [] : [{ key: named('header', '', null), value: create.header, replaces: false }]),
        ...Object.entries({ ...create?.settings, ...settings }).map(([name, value]) => ({
            key: named('settings', name, null), value, replaces: true,
        })),
        ...[...changed].map(([id, { value, version }]) => ({ key: named('approvals', id, version), value, replaces: true })),
        ...records.map(({ store, position, value }) => ({
            key: { store, position, name: Buffer.alloc(0), version: null }, value, replaces: store === 'message_outlines',
        })),
    ];
}

/**
 * The columns that `cut` made.
 *
 * @param {{ chunk: number, start: number, size: number | null }[]} rows
 */
const places = (rows) => [rows.map(({ chunk }) => chunk), rows.map(({ start }) => start), rows.map(({ size }) => size)];

/**
 * @param {Database} db
 * @returns {import('./adapter.js').SharedStorage}
 */
function shared({ at, statement, transaction }) {
    const version = `SELECT version FROM ${at}.policy`;
    return {
        async policyVersion() {
            return Number((await statement(version, []))[0].version);
        },
        async get(store, key) {
            const rows = await statement(
                `SELECT chunk, encode(value, 'base64') AS value FROM ${at}.shared
                 WHERE store = $1 AND sha256(key) = sha256($2) AND key = $2 ORDER BY chunk`,
                [store, toBytes(key)],
            );
            return whole(rows)[0]?.value;
        },
        async list(store, prefix = '') {
            const rows = await statement(
                `SELECT encode(key, 'base64') AS key, chunk, encode(value, 'base64') AS value FROM ${at}.shared
                 WHERE store = $1 AND substring(key FROM 1 FOR length($2::bytea)) = $2 ORDER BY shared.key, chunk`,
                [store, toBytes(prefix)],
            );
            return whole(rows).map(({ key, value }) => [toText(key), value]);
        },
        write: (changes, expected) =>
            transaction(async (query) => {
                // One writer at a time: each sees all that the one before wrote.
                const before = Number((await query(`${version} FOR UPDATE`)).rows[0].version);
                if (expected !== undefined && expected !== before) return { conflict: before };
                const last = new Map(changes.map((change) => [`${change.store} ${change.key}`, change]));
                const { rows, bytes } = cut(
                    [...last.values()].map(({ store, key, value }) => ({ key: { store, key: toBytes(key) }, value, replaces: true })),
                );
                await query(
                    `WITH given AS NOT MATERIALIZED (
                         SELECT * FROM unnest($2::text[], $3::bytea[], $4::integer[], $5::integer[], $6::integer[])
                             AS given (store, key, chunk, start, size)
                     ), ended AS (
                         DELETE FROM ${at}.shared AS s USING given AS g
                         WHERE g.size IS NULL AND s.store = g.store AND sha256(s.key) = sha256(g.key) AND s.key = g.key
                             AND s.chunk >= g.chunk
                     )
                     INSERT INTO ${at}.shared (store, key, chunk, value)
                     SELECT store, key, chunk, substring($1::bytea FROM start FOR size) FROM given WHERE size IS NOT NULL
                     ON CONFLICT (store, sha256(key), chunk) DO UPDATE SET value = excluded.value`,
                    [bytes, rows.map(({ key }) => key.store), rows.map(({ key }) => key.key), ...places(rows)],
                );
                const policyVersion = before + Number(raisesPolicyVersion(changes));
                if (policyVersion > before) await query(`UPDATE ${at}.policy SET version = $1`, [policyVersion]);
                return { policyVersion };
            }),
    };
}

/**
 * @param {Database} db
 * @returns {import('./adapter.js').DirectoryStorage}
 */
function directory({ at, statement, transaction }) {
    return {
        async put({ kind, id, sessionId, cwd, updatedAt, value }) {
            const { rows, bytes } = cut([{ key: null, value, replaces: false }]);
            // How many chunks there are is said in the entry: what another one left behind does not count.
            await transaction((query) => query(
                `WITH put AS (
                     INSERT INTO ${at}.entries AS e (id, kind, session, cwd, updated_at, chunks) VALUES ($1, $2, $3, $4, $5, $6)
                     ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, session = excluded.session, cwd = excluded.cwd,
                         updated_at = excluded.updated_at, chunks = excluded.chunks
                     WHERE e.updated_at <= excluded.updated_at RETURNING id
                 )
                 INSERT INTO ${at}.entry_values (entry, chunk, value)
                 SELECT id, chunk, substring($7::bytea FROM start FOR size)
                 FROM put, unnest($8::integer[], $9::integer[], $10::integer[]) AS given (chunk, start, size)
                 ON CONFLICT (entry, chunk) DO UPDATE SET value = excluded.value`,
                [toBytes(id), kind, toBytes(sessionId), toBytes(cwd), updatedAt, rows.length, bytes, ...places(rows)],
            ));
        },
        async remove(id) {
            await transaction((query) => query(`DELETE FROM ${at}.entries WHERE id = $1`, [toBytes(id)]));
        },
        async list({ kind, cwd, limit, before }) {
            const [updatedAt, id] = before === undefined ? [null, null] : position(before);
            const rows = await statement(
                `SELECT encode(e.id, 'base64') AS id, encode(e.session, 'base64') AS session, encode(e.cwd, 'base64') AS cwd,
                     e.updated_at, v.chunk, encode(v.value, 'base64') AS value
                 FROM (
                     SELECT * FROM ${at}.entries
                     WHERE kind = $1 AND ($2::bytea IS NULL OR (sha256(cwd) = sha256($2) AND cwd = $2))
                         AND ($3::double precision IS NULL OR (updated_at, id) < ($3, $4::bytea))
                     ORDER BY updated_at DESC, id DESC LIMIT $5
                 ) AS e JOIN ${at}.entry_values AS v ON v.entry = e.id AND v.chunk < e.chunks
                 ORDER BY e.updated_at DESC, e.id DESC, v.chunk`,
                [kind, cwd === undefined ? null : toBytes(cwd), updatedAt, id === null ? null : toBytes(id), limit],
            );
            return whole(rows).map((row) => ({
                kind, id: toText(row.id), sessionId: toText(row.session), cwd: toText(row.cwd), updatedAt: Number(row.updated_at), value: row.value,
            }));
        },
    };
}
