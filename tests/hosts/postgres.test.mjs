// `runcontext/storage/postgres` on a real server: the suite that every adapter runs, and what only a server does: it is
// stopped, it ends connections, it says no.

import assert from 'node:assert/strict';
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { documented } from '../support/documented.mjs';
import { postgresServer } from '../support/postgres.mjs';
import { installed, testPackages } from '../support/project.mjs';

const project = await installed();
const { conformance } = await project.import('runcontext/storage/conformance');
const { migratePostgres, postgresStorage } = await project.import('runcontext/storage/postgres');

let server, pool, schemas = 0;
before(async () => {
    server = await postgresServer();
    pool = server.pool();
});
after(async () => {
    await server?.close();
    await project.remove();
});

/** Tables of their own, and an adapter on them. */
async function fresh({ over = pool, partitions } = {}) {
    const schema = `case_${++schemas}`;
    await migratePostgres({ pool: over, schema, partitions });
    return { schema, storage: postgresStorage({ pool: over, schema }) };
}

const bytes = (text) => new TextEncoder().encode(text);
const text = (value) => new TextDecoder().decode(value);

/** The commits of one session; `next` is the one that follows. */
function writer(storage, id = 's') {
    const session = storage.session(id);
    let conversation = 0;
    const commit = (parts) => ({
        sessionId: id, operationId: `${id} ${conversation}`, timestamp: 1000 + conversation, origin: `${id} 0`,
        expected: conversation, messageCount: conversation + 1, approvals: [], settings: {},
        create: conversation === 0 ? { header: bytes('{}'), settings: {} } : undefined,
        records: [{ store: 'messages', position: conversation, value: bytes(`message ${conversation}`) }],
        ...parts,
    });
    return {
        session,
        commit,
        async next(parts) {
            const result = await session.commit(commit(parts));
            if (result.status === 'applied') conversation = result.counters.conversation;
            return result;
        },
        messages: async () => (await session.readMessages({ from: 0, to: 1e6 })).map(text),
    };
}

/** Rows of a table, or what a statement gives, on a connection that is not the adapter's. */
let watching;
const sql = async (statement, values) => (await (watching ??= server.pool({ max: 2 })).query(statement, values)).rows;

/** Everything in a schema, as text. */
async function dump(schema) {
    const tables = await sql('SELECT tablename FROM pg_tables WHERE schemaname = $1 ORDER BY 1', [schema]);
    const rows = {};
    for (const { tablename } of tables) rows[tablename] = await sql(`SELECT t::text FROM ${schema}.${tablename} AS t ORDER BY 1`);
    return rows;
}

/** Until a statement gives a row. */
async function seen(statement, values) {
    for (;;) {
        const [row] = await sql(statement, values);
        if (row !== undefined) return row;
        await sleep(10);
    }
}

/** Every client is back, and nothing of ours hangs on it: the pool listens for errors itself. */
function allBack(pool) {
    assert.deepEqual([pool.idleCount, pool.waitingCount], [pool.totalCount, 0]);
    for (const client of pool._clients) assert.equal(client.listenerCount('error'), 1);
}

const rejects = (promise, code, message = /./) =>
    assert.rejects(promise, (error) => {
        assert.equal(error.code, code, error.message);
        assert.match(error.message, message);
        return true;
    });

describe('the suite of every adapter', () => {
    const opened = new Map();
    let second;
    const open = async () => {
        const { schema, storage } = await fresh();
        opened.set(storage, schema);
        return storage;
    };
    const reopen = (storage) => postgresStorage({ pool: (second ??= server.pool()), schema: opened.get(storage) });
    for (const { name, run } of conformance({ open, reopen })) test(name, run);
});

test('tables are made once, whoever comes at the same time, and again nothing is done', async () => {
    const pools = Array.from({ length: 8 }, () => server.pool({ max: 1 }));
    for (const partitions of [undefined, 3]) {
        const schema = `raced_${partitions ?? 1}`;
        await Promise.all(pools.map((pool) => migratePostgres({ pool, schema, partitions })));
        assert.deepEqual(await sql(`SELECT version FROM ${schema}.migrations`), [{ version: 1 }]);
        assert.deepEqual(await sql(`SELECT version FROM ${schema}.policy`), [{ version: '0' }]);
        const before = await dump(schema);
        await migratePostgres({ pool, schema, partitions: 7 });
        assert.deepEqual(await dump(schema), before);
        await writer(postgresStorage({ pool, schema })).next();
    }
});

test('who may use the tables and not make any can call `migratePostgres` all the same', async () => {
    const { schema } = await fresh();
    await sql(`CREATE ROLE clerk LOGIN`);
    await sql(`GRANT USAGE ON SCHEMA ${schema} TO clerk`);
    await sql(`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO clerk`);
    const clerk = server.pool({ user: 'clerk' });
    await migratePostgres({ pool: clerk, schema });
    const storage = postgresStorage({ pool: clerk, schema });
    const { session, next } = writer(storage);
    assert.equal((await next()).status, 'applied');
    await session.delete();
    assert.deepEqual(await storage.shared.write([{ store: 'approval_rules', key: 'k', value: bytes('1') }]), { policyVersion: 1 });
    await storage.directory.put({ kind: 'session', id: 's', sessionId: 's', cwd: '/', updatedAt: 1, value: bytes('1') });
    await storage.directory.remove('s');
    assert.deepEqual([await session.load(), await storage.directory.list({ kind: 'session', limit: 1 })], [undefined, []]);
    await rejects(migratePostgres({ pool: clerk, schema: 'others' }), 'storage_failed', /permission denied/);
    allBack(clerk);
});

test('a schema that is not there is said to be so, and found once it is', async () => {
    const storage = postgresStorage({ pool, schema: 'late' });
    const absent = /^the schema `late` is not prepared; call `migratePostgres` first$/;
    await rejects(storage.session('s').counters(), 'storage_failed', absent);
    await rejects(writer(storage).next(), 'storage_failed', absent);
    await rejects(storage.directory.remove('e'), 'storage_failed', absent);
    await migratePostgres({ pool, schema: 'late' });
    assert.equal(await storage.session('s').counters(), undefined);
    assert.equal((await writer(storage).next()).status, 'applied');
    allBack(pool);
});

test('a newer schema is refused untouched, also by who has used the older one until now', async () => {
    const { schema, storage } = await fresh();
    const known = writer(storage);
    await known.next();
    const entry = { kind: 'session', id: 's', sessionId: 's', cwd: '/', updatedAt: 1, value: bytes('1') };
    await storage.directory.put(entry);
    assert.equal((await storage.directory.list({ kind: 'session', limit: 1 })).length, 1);
    await sql(`INSERT INTO ${schema}.migrations (version) VALUES (2)`);
    const before = await dump(schema);
    const newer = /has version 2, and this package knows up to 1; use a newer package$/;
    await rejects(known.next(), 'storage_schema_newer', newer);
    await rejects(storage.shared.write([{ store: 'skills', key: 'k', value: bytes('1') }]), 'storage_schema_newer', newer);
    await rejects(known.session.delete(), 'storage_schema_newer', newer);
    await rejects(storage.directory.put({ ...entry, updatedAt: 2 }), 'storage_schema_newer', newer);
    await rejects(storage.directory.remove('s'), 'storage_schema_newer', newer);
    await rejects(migratePostgres({ pool, schema }), 'storage_schema_newer', newer);
    const late = postgresStorage({ pool, schema });
    for (const work of [
        () => late.session('s').load(), () => late.session('s').counters(), () => late.session('s').readMessages({ from: 0, to: 1 }),
        () => late.shared.policyVersion(), () => late.shared.get('skills', 'k'), () => late.shared.list('skills'),
        () => late.directory.put(entry), () => late.directory.remove('s'), () => late.directory.list({ kind: 'session', limit: 1 }),
    ]) {
        await rejects(work(), 'storage_schema_newer', newer);
    }
    assert.deepEqual(await dump(schema), before);
    allBack(pool);
});

test('a migration waits for who writes by the older version', async () => {
    await sql(`CREATE SCHEMA older`);
    await sql(`CREATE TABLE older.migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`);
    const writing = await server.pool().connect();
    await writing.query('BEGIN');
    await writing.query('SELECT max(version) FROM older.migrations');
    let isDone = false;
    const migrated = migratePostgres({ pool, schema: 'older' }).then(() => (isDone = true));
    await Promise.race([migrated, seen(`SELECT FROM pg_locks WHERE relation = 'older.migrations'::regclass AND NOT granted`)]);
    const wasDone = isDone;
    await writing.query('COMMIT');
    writing.release();
    await migrated;
    assert.equal(wasDone, false);
    assert.deepEqual(await sql(`SELECT version FROM older.migrations`), [{ version: 1 }]);
});

test('a session that is made between two statements of its deletion is not touched by the second', async () => {
    const { schema, storage } = await fresh();
    const deleting = postgresStorage({ pool: server.pool({ application_name: 'deleting' }), schema });
    // Who makes the session holds what the second statement needs, and gives it back with its commit.
    const client = await pool.connect();
    const making = writer(postgresStorage({ pool: { query: (...args) => pool.query(...args), connect: async () => client }, schema }));
    await client.query('BEGIN');
    await client.query(`LOCK TABLE ${schema}.messages`);
    const deleted = deleting.session('s').delete();
    await seen(`SELECT FROM pg_stat_activity WHERE application_name = 'deleting' AND (wait_event_type = 'Lock' OR (state, query) = ('idle', 'COMMIT'))`);
    const create = making.commit();
    assert.equal((await making.next()).status, 'applied');
    await deleted;
    const { session, messages } = writer(storage);
    assert.deepEqual([(await session.load()).header, await messages()], [bytes('{}'), ['message 0']]);
    assert.equal((await session.commit(create)).status, 'already-applied');
});

test('options that are none are refused', async () => {
    for (const schema of ['', 'a"b', 'a b', 'A', '1a', 'pg_x', 'a'.repeat(64), 'ä', 'a;', 7]) {
        assert.throws(() => postgresStorage({ pool, schema }), { code: 'invalid_argument', message: /^`options.schema` must have/ });
        await rejects(migratePostgres({ pool, schema }), 'invalid_argument', /^`options.schema` must have/);
    }
    for (const partitions of [0, -1, 1.5, 1025, '2']) {
        await rejects(migratePostgres({ pool, schema: 'none', partitions }), 'invalid_argument', /^`options.partitions` must be/);
    }
    for (const options of [undefined, {}, { pool: {} }, { pool: 'postgres://' }]) {
        assert.throws(() => postgresStorage(options), { code: 'invalid_argument', message: /^`options.pool` must be a pool of `pg`/ });
    }
    assert.deepEqual(await sql(`SELECT to_regnamespace('none') AS found`), [{ found: null }]);
});

test('with partitions, sessions are spread over them and behave as without', async () => {
    const { schema, storage } = await fresh({ partitions: 4 });
    const writers = Array.from({ length: 24 }, (_, at) => writer(storage, `session ${at}`));
    for (const one of writers) {
        const results = await Promise.all([one.session.commit(one.commit()), one.session.commit({ ...one.commit(), operationId: 'o', origin: 'o' })]);
        assert.deepEqual(results.map(({ status }) => status).sort(), ['applied', 'conflict']);
    }
    for (const table of ['sessions', 'messages', 'records', 'operations']) {
        const spread = await sql(`SELECT tableoid::regclass::text AS part, count(*)::int AS rows FROM ${schema}.${table} GROUP BY 1 ORDER BY 1`);
        assert.deepEqual(spread.map(({ part }) => part), [0, 1, 2, 3].map((number) => `${schema}.${table}_${number}`));
        assert.equal(spread.reduce((sum, { rows }) => sum + rows, 0), 24, table);
    }
    const [one, other] = writers;
    await one.session.delete();
    assert.equal(await one.session.load(), undefined);
    assert.equal((await other.session.load()).messageCount, 1);
    assert.deepEqual(await other.messages(), ['message 0']);
    for (const table of ['sessions', 'messages', 'records', 'operations']) {
        assert.deepEqual(await sql(`SELECT count(*)::int AS rows FROM ${schema}.${table}`), [{ rows: 23 }]);
    }
});

test('no row holds more than 1 MiB of a value, and a value comes back from its rows', async () => {
    const { schema, storage } = await fresh();
    const MIB = 1024 * 1024;
    const { session, next } = writer(storage);
    /** By its length, the sizes of its rows. */
    const lengths = { 0: [0], [MIB - 1]: [MIB - 1], [MIB]: [MIB], [MIB + 1]: [MIB, 1], [2 * MIB]: [MIB, MIB], [2 * MIB + 1]: [MIB, MIB, 1] };
    let position = 0;
    for (const [length, rows] of Object.entries(lengths)) {
        const value = new Uint8Array(Number(length)).map((_, at) => at % 251);
        await next({
            records: ['messages', 'message_outlines'].map((store) => ({ store, position, value })),
            settings: { large: value }, approvals: [{ id: 'a', value }],
        });
        await storage.shared.write([{ store: 'skills', key: 'k', value }]);
        await storage.directory.put({ kind: 'session', id: 'e', sessionId: 's', cwd: '/', updatedAt: 1, value });

        const stored = await session.load();
        const [message] = await session.readMessages({ from: position, to: position + 1 });
        const [entry] = await storage.directory.list({ kind: 'session', limit: 1 });
        const found = [message, stored.outlines[position], stored.settings.large, stored.approvals[0].value, await storage.shared.get('skills', 'k'), entry.value];
        for (const [at, one] of found.entries()) assert.ok(Buffer.from(one).equals(value), `value ${at} of ${length} bytes`);

        const sizes = async (from) => (await sql(`SELECT octet_length(value) AS size FROM ${schema}.${from} ORDER BY chunk`)).map(({ size }) => size);
        const places = [
            `messages WHERE position = ${position}`, `records WHERE store = 'message_outlines' AND position = ${position}`,
            `records WHERE store = 'settings'`, `records WHERE store = 'approvals'`, 'shared',
        ];
        for (const place of places) assert.deepEqual(await sizes(place), rows, `${length} bytes in ${place}`);
        position += 1;
    }
    // It becomes smaller again, and what it no longer needs goes.
    await next({ records: [], settings: { large: bytes('small') }, approvals: [{ id: 'a', value: null }] });
    const left = await sql(`SELECT octet_length(value) AS size FROM ${schema}.records WHERE store IN ('settings', 'approvals')`);
    assert.deepEqual(left, [{ size: 5 }]);
    await storage.directory.put({ kind: 'session', id: 'e', sessionId: 's', cwd: '/', updatedAt: 2, value: bytes('small') });
    assert.deepEqual((await storage.directory.list({ kind: 'session', limit: 1 })).map(({ value }) => text(value)), ['small']);
    await storage.directory.remove('e');
    assert.deepEqual(await sql(`SELECT * FROM ${schema}.entry_values`), []);
});

test('keys and directories are longer than what an index takes', async () => {
    const { storage } = await fresh();
    // Random, so that it cannot be packed.
    const long = Array.from({ length: 20_000 }, () => String.fromCharCode(Math.random() * 65_536)).join('');
    await storage.shared.write([`${long}a`, `${long}b`].map((key) => ({ store: 'skills', key, value: bytes(key.at(-1)) })));
    await storage.shared.write([{ store: 'skills', key: `${long}a`, value: bytes('A') }]);
    assert.equal(text(await storage.shared.get('skills', `${long}a`)), 'A');
    assert.deepEqual((await storage.shared.list('skills', long)).map(([key, value]) => [key === `${long}${text(value).toLowerCase()}`, text(value)]), [
        [true, 'A'], [true, 'b'],
    ]);
    await storage.directory.put({ kind: 'session', id: 'e', sessionId: 's', cwd: long, updatedAt: 1, value: bytes('1') });
    assert.equal((await storage.directory.list({ kind: 'session', cwd: long, limit: 2 })).length, 1);
    assert.equal((await storage.directory.list({ kind: 'session', cwd: `${long}a`, limit: 2 })).length, 0);
});

test('old operations are forgotten in heaps, and never one of the last 1,024', async () => {
    const { schema, storage } = await fresh();
    const { session, next, commit } = writer(storage);
    await next();
    // As if it had had 2,046 commits.
    await sql(`INSERT INTO ${schema}.operations SELECT session, convert_to('old ' || number, 'UTF8'), number
        FROM ${schema}.operations, generate_series(2, 2046) AS number`);
    await sql(`UPDATE ${schema}.sessions SET commits = 2046`);
    const oldest = async () => (await sql(`SELECT min(commit)::int AS oldest, count(*)::int AS count FROM ${schema}.operations`))[0];
    await next({ records: [] });
    assert.deepEqual(await oldest(), { oldest: 1, count: 2047 });
    await next({ records: [] });
    assert.deepEqual(await oldest(), { oldest: 1025, count: 1024 });
    assert.equal((await session.commit({ ...commit(), operationId: 'old 1025' })).status, 'already-applied');
    assert.equal((await session.commit({ ...commit(), operationId: 'old 1024', expected: 0 })).status, 'conflict');
});

test('a server that is stopped at once and started again in mid-session loses nothing that was answered', async () => {
    const { storage } = await fresh();
    const { session, next, messages } = writer(storage);
    await next();
    await next();
    await server.stopNow();
    await rejects(next(), 'storage_lost');
    await rejects(session.load(), 'storage_lost');
    await rejects(storage.shared.policyVersion(), 'storage_lost');
    await rejects(migratePostgres({ pool, schema: 'stopped' }), 'storage_lost');
    await server.start();
    assert.deepEqual(await session.counters(), { conversation: 2, settings: 0, origin: 's 0' });
    assert.equal((await next()).status, 'applied');
    assert.deepEqual(await messages(), ['message 0', 'message 1', 'message 2']);
    allBack(pool);
});

test('a connection that is ended in mid-commit is lost, the commit may be sent again, and the process lives', async () => {
    const mine = server.pool({ application_name: 'ended' });
    const { schema, storage } = await fresh({ over: mine });
    const { session, next, commit, messages } = writer(storage);
    await next();
    // Somebody holds the session, so that the commit waits in its transaction.
    const other = await server.pool().connect();
    await other.query('BEGIN');
    await other.query(`SELECT FROM ${schema}.sessions FOR UPDATE`);
    const waiting = rejects(next(), 'storage_lost', /^PostgreSQL: /);
    await seen(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ended' AND wait_event_type = 'Lock'`);
    await waiting;
    await other.query('ROLLBACK');
    other.release();
    const again = commit();
    assert.equal((await next()).status, 'applied');
    assert.equal((await session.commit(again)).status, 'already-applied');
    assert.deepEqual(await messages(), ['message 0', 'message 1']);
    allBack(mine);
});

test('a connection that is ended between two statements of a commit is lost, and the process lives', async () => {
    const mine = server.pool({ application_name: 'between' });
    // Ends it once it has read, and waits until the client knows.
    let armed = false;
    const destroyed = [];
    const over = {
        query: (...args) => mine.query(...args),
        async connect() {
            const client = await mine.connect();
            return {
                on: (...args) => client.on(...args),
                removeListener: (...args) => client.removeListener(...args),
                release(destroy) {
                    destroyed.push(destroy);
                    client.release(destroy);
                },
                async query(statement, values) {
                    const result = await client.query(statement, values);
                    if (armed && statement.includes('FOR UPDATE')) {
                        armed = false;
                        const gone = new Promise((resolve) => client.once('end', resolve));
                        await sql(`SELECT pg_terminate_backend($1)`, [client.processID]);
                        await gone;
                    }
                    return result;
                },
            };
        },
    };
    const { storage } = await fresh({ over });
    const { next, messages } = writer(storage);
    await next();
    armed = true;
    await rejects(next(), 'storage_lost');
    assert.equal(armed, false);
    assert.equal((await next()).status, 'applied');
    // Of the tables, of the first commit, of the one that was lost, of the one that came again.
    assert.deepEqual(destroyed, [false, false, true, false]);
    assert.deepEqual(await messages(), ['message 0', 'message 1']);
    allBack(mine);
});

test('a connection that does not answer in time is destroyed, with what it was about to do', async () => {
    const mine = server.pool({ max: 1, query_timeout: 300 });
    const { schema, storage } = await fresh({ over: mine });
    const { next, messages } = writer(storage);
    await next();
    const other = await server.pool().connect();
    await other.query('BEGIN');
    await other.query(`SELECT FROM ${schema}.sessions FOR UPDATE`);
    await rejects(next(), 'storage_lost', /timeout/);
    assert.equal(mine.totalCount, 0);
    await other.query('ROLLBACK');
    other.release();
    assert.equal((await next()).status, 'applied');
    assert.deepEqual(await messages(), ['message 0', 'message 1']);
});

test('one connection serves everything at once, and one that is not given back is waited for no longer than the pool says', async () => {
    const mine = server.pool({ max: 1, connectionTimeoutMillis: 500 });
    const { storage } = await fresh({ over: mine });
    const sessions = await Promise.all(
        Array.from({ length: 12 }, async (_, at) => {
            const one = writer(storage, `s${at}`);
            await one.next();
            const [stored] = await Promise.all([one.session.load(), storage.shared.list('skills'), storage.shared.write([])]);
            return stored.messageCount;
        }),
    );
    assert.deepEqual(sessions, Array(12).fill(1));
    allBack(mine);
    const client = await mine.connect();
    await rejects(storage.session('s0').load(), 'storage_blocked');
    await rejects(writer(storage).next(), 'storage_blocked');
    client.release();
    assert.equal((await writer(storage).next()).status, 'applied');
});

test('who waits for a lock for ten seconds is blocked', async () => {
    const { schema, storage } = await fresh();
    const { next } = writer(storage);
    await next();
    const other = await server.pool().connect();
    await other.query('BEGIN');
    await other.query(`SELECT FROM ${schema}.sessions FOR UPDATE`);
    await rejects(next(), 'storage_blocked', /lock timeout/);
    await other.query('ROLLBACK');
    other.release();
    assert.equal((await next()).status, 'applied');
    allBack(pool);
});

/** The server does this at each new message. */
async function atEachMessage(schema, does) {
    await sql(`CREATE FUNCTION ${schema}.does() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${does} RETURN NEW; END $$`);
    await sql(`CREATE TRIGGER does BEFORE INSERT ON ${schema}.messages FOR EACH ROW EXECUTE FUNCTION ${schema}.does()`);
}

test('what the server refuses has a code, changes nothing, and may come again', async () => {
    for (const [state, code] of Object.entries({ 53100: 'storage_quota', 54000: 'storage_failed', '08006': 'storage_lost', '25006': 'storage_lost' })) {
        const { schema, storage } = await fresh();
        const { next, messages } = writer(storage);
        await next();
        const before = await dump(schema);
        await atEachMessage(schema, `RAISE 'no more' USING ERRCODE = '${state}';`);
        await rejects(next({ settings: { a: bytes('1') }, approvals: [{ id: 'a', value: bytes('1') }] }), code, /^PostgreSQL: no more$/);
        assert.deepEqual(await dump(schema), before);
        await sql(`DROP TRIGGER does ON ${schema}.messages`);
        assert.equal((await next()).status, 'applied');
        assert.deepEqual(await messages(), ['message 0', 'message 1']);
    }
    allBack(pool);
});

test('a transaction that the server ends for the sake of others is tried again, and not for ever', async () => {
    for (const state of ['40001', '40P01']) {
        const { schema, storage } = await fresh();
        const { next, messages } = writer(storage);
        await next();
        // Unlike everything else, a sequence keeps what a transaction that was rolled back did to it.
        await sql(`CREATE SEQUENCE ${schema}.tries`);
        await atEachMessage(schema, `IF nextval('${schema}.tries') <= 2 THEN RAISE 'others first' USING ERRCODE = '${state}'; END IF;`);
        assert.equal((await next()).status, 'applied');
        assert.deepEqual(await sql(`SELECT last_value::int FROM ${schema}.tries`), [{ last_value: 3 }]);
        await sql(`ALTER SEQUENCE ${schema}.tries MINVALUE -1000 RESTART WITH -1000`);
        await rejects(next(), 'storage_failed', /others first/);
        assert.deepEqual(await messages(), ['message 0', 'message 1']);
    }
    allBack(pool);
});

test('a commit is durable when it answers, whatever is usual in the database', async () => {
    const { schema } = await fresh();
    await sql(`CREATE TABLE ${schema}.seen (number serial, setting text)`);
    await atEachMessage(schema, `INSERT INTO ${schema}.seen (setting) VALUES (current_setting('synchronous_commit'));`);
    for (const [usual, then] of [['off', 'on'], ['on', 'on'], ['remote_apply', 'remote_apply']]) {
        const mine = server.pool({ options: `-c synchronous_commit=${usual}` });
        await writer(postgresStorage({ pool: mine, schema }), usual).next();
        assert.deepEqual(await sql(`SELECT setting FROM ${schema}.seen ORDER BY number DESC LIMIT 1`), [{ setting: then }]);
        // And nothing of it is left on the connection.
        assert.deepEqual((await mine.query('SHOW synchronous_commit')).rows, [{ synchronous_commit: usual }]);
    }
});

test('settings of a database that are not usual make no difference', async () => {
    const options = ['bytea_output=escape', 'default_transaction_isolation=serializable', 'standard_conforming_strings=off'];
    const mine = server.pool({ options: options.map((option) => `-c ${option}`).join(' ') });
    const { storage } = await fresh({ over: mine });
    const { session, next } = writer(storage, 'a\\b\0\ud800');
    const value = new Uint8Array(256).map((_, at) => at);
    await next({ timestamp: 0.1 + 0.2, records: [{ store: 'messages', position: 0, value }], settings: { 'a\\': value } });
    const stored = await session.load();
    assert.deepEqual([stored.updatedAt, stored.settings], [0.1 + 0.2, { 'a\\': value }]);
    assert.deepEqual(await session.readMessages({ from: 0, to: 1 }), [value]);
    const results = await Promise.all(Array.from({ length: 30 }, (_, at) => session.commit({
        sessionId: 'a\\b\0\ud800', operationId: `${at}`, origin: 'a\\b\0\ud800 0', timestamp: 1, records: [], approvals: [], settings: { at: value },
    })));
    assert.deepEqual(results.map(({ status }) => status), Array(30).fill('applied'));
});

test('of two changes of one thing in one write the last one counts', async () => {
    const { storage } = await fresh();
    const { session, next } = writer(storage);
    await next({ approvals: [{ id: 'a', value: bytes('1') }, { id: 'b', value: bytes('1') }, { id: 'a', value: bytes('2') }, { id: 'b', value: null }] });
    assert.deepEqual((await session.load()).approvals, [{ id: 'a', version: 1, value: bytes('2') }]);
    await storage.shared.write([['k', '1'], ['l', '1'], ['k', '2'], ['l', null]].map(([key, value]) => ({ store: 'skills', key, value: value && bytes(value) })));
    assert.deepEqual(await storage.shared.list('skills'), [['k', bytes('2')]]);
});

test('the example of the types runs as it is written', async () => {
    const folder = path.join(project.folder, 'node_modules');
    await symlink(path.join(testPackages, 'pg'), path.join(folder, 'pg'));
    const example = await documented(path.join(folder, 'runcontext/storage/postgres.d.ts'));
    const then = 'console.log(JSON.stringify([runtime.storageInfo, await runtime.listSessions()]));\nawait runtime.close();\nawait pool.end();';
    await writeFile(path.join(project.folder, 'example.mjs'), `${example}\n${then}\n`);
    process.env.DATABASE_URL = `postgres://postgres@/postgres?host=${server.connection.host}`;
    assert.deepEqual(JSON.parse(await project.node('example.mjs')), [{ kind: 'postgres', persistent: true }, []]);
});

test('a pool of `pg` is one by its types, and an adapter is one', async () => {
    const folder = path.join(project.folder, 'types');
    await mkdir(path.join(folder, 'node_modules'), { recursive: true });
    await cp(path.join(project.folder, 'node_modules/runcontext'), path.join(folder, 'node_modules/runcontext'), { recursive: true });
    for (const name of ['@types', 'undici-types', 'pg-types', 'pg-protocol']) {
        await symlink(path.join(testPackages, name), path.join(folder, 'node_modules', name));
    }
    await writeFile(path.join(folder, 'use.ts'), `
        import { Pool } from 'pg';
        import type { StorageAdapter } from 'runcontext';
        import { migratePostgres, postgresStorage, type PostgresOptions, type PostgresPool, type PostgresClient } from 'runcontext/storage/postgres';
        const pool: PostgresPool = new Pool();
        const options: PostgresOptions = { pool, schema: 'mine' };
        export const done: Promise<void> = migratePostgres({ ...options, partitions: 16 });
        export const storage: StorageAdapter = postgresStorage({ pool: new Pool(), schema: null });
        export const client: Promise<PostgresClient> = pool.connect();
        // @ts-expect-error a pool is needed
        postgresStorage({ schema: 'mine' });
        // @ts-expect-error a name is a text
        postgresStorage({ pool, schema: 7 });
        // @ts-expect-error tables are split where they are made
        postgresStorage({ pool, partitions: 16 });
    `);
    const compilerOptions = { strict: true, noEmit: true, skipLibCheck: true, target: 'ES2022', module: 'NodeNext', lib: ['ES2022', 'DOM'], types: ['node'] };
    await writeFile(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
    await project.tsc('-p', folder);
});
