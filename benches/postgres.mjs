// What a commit costs in PostgreSQL, for docs/scale.md: bytes of log and milliseconds on a session of 100 messages and on one of
// 20,000, beside a bare insert of one row with the same durability; and what whole sessions take that a Runtime made. It makes a
// database and a server of its own. `cargo xtask bench postgres`.

import path from 'node:path';
import { pathToFileURL } from 'node:url';

import { postgresServer } from '../tests/support/postgres.mjs';

const folder = process.env.RUNCONTEXT_PKG ?? path.join(import.meta.dirname, '..', 'pkg');
const load = (file) => import(pathToFileURL(path.join(folder, file)).href);
const { Runtime } = await load('node.js');
const { migratePostgres, postgresStorage } = await load('storage/postgres.js');

const MESSAGE = 1000;
const OUTLINES_PER_PACK = 128;
const COMMITS = 400;

const server = await postgresServer();
const pool = server.pool();
const one = async (text, values) => Object.values((await pool.query(text, values)).rows[0])[0];
// A checkpoint of its own accord would put whole pages into the log of whatever is measured just then.
await pool.query(`ALTER SYSTEM SET checkpoint_timeout = '1h'`);
await pool.query(`ALTER SYSTEM SET max_wal_size = '8GB'`);
await pool.query('SELECT pg_reload_conf()');
await migratePostgres({ pool });
const storage = postgresStorage({ pool });

/** JSON of about so many bytes, which packs as text does and not as one letter would. */
function json(length, seed) {
    const words = [];
    for (let state = seed + 1; words.join(' ').length < length - 20;) {
        state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
        words.push((state >>> 8).toString(36));
    }
    return new TextEncoder().encode(JSON.stringify({ role: 'assistant', content: words.join(' ') }));
}
const outlines = (count) => new TextEncoder().encode(JSON.stringify({
    outlines: Array.from({ length: count }, (_, at) => ({ role: 'assistant', textLen: 900 + at, tokens: 225 })),
}));

/** A session of so many messages, and what appends to it. */
async function filled(id, count) {
    const session = storage.session(id);
    let messages = 0, commits = 0;
    const append = async (number) => {
        const to = messages + number;
        const pack = (at) => ({ store: 'message_outlines', position: at, value: outlines(Math.min(OUTLINES_PER_PACK, to - at * OUTLINES_PER_PACK)) });
        const packs = [];
        for (let at = Math.floor(messages / OUTLINES_PER_PACK); at * OUTLINES_PER_PACK < to; at++) packs.push(pack(at));
        const result = await session.commit({
            sessionId: id, operationId: crypto.randomUUID(), timestamp: 1.7e12 + commits, origin: commits ? origin : (origin = `${id}-first`),
            ...(commits === 0 && { operationId: `${id}-first`, create: { header: json(300, 1), settings: { title: json(60, 2), preset: json(40, 3) } } }),
            expected: commits, messageCount: to, approvals: [], settings: { outcome: json(30, commits) },
            records: [
                ...Array.from({ length: number }, (_, at) => ({ store: 'messages', position: messages + at, value: json(MESSAGE, messages + at) })),
                ...packs,
            ],
        });
        if (result.status !== 'applied') throw new Error(result.status);
        messages = to;
        commits += 1;
    };
    let origin;
    for (let left = count; left > 0; left -= 1000) await append(Math.min(left, 1000));
    return { id, session, append: () => append(1), count: () => messages };
}

const median = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
async function timed(work) {
    const start = performance.now();
    await work();
    return performance.now() - start;
}
/** Bytes of the log that is written to disk and sent to copies, each time. */
async function logged(times, work) {
    const before = await one('SELECT pg_current_wal_insert_lsn()');
    for (let at = 0; at < times; at++) await work(at);
    return Math.round(Number(await one('SELECT pg_current_wal_insert_lsn() - $1::pg_lsn', [before])) / times);
}

/** Many sessions, in turns, so that one of 100 messages stays one of about 100. */
async function several(number, count) {
    const sessions = [];
    for (let at = 0; at < number; at++) sessions.push(await filled(crypto.randomUUID(), count));
    let turn = 0;
    return { first: sessions[0], append: () => sessions[turn++ % number].append() };
}
const short = await several(50, 100);
const long = await several(1, 20_000);
await pool.query('CREATE TABLE bare (id serial PRIMARY KEY, value bytea)');
const bare = () => pool.query('INSERT INTO bare (value) VALUES ($1)', [Buffer.from(json(MESSAGE, 7))]);
const entry = (at) => {
    const id = `40000000-0000-4000-8000-${String(at % 200).padStart(12, '0')}`;
    return storage.directory.put({ kind: 'session', id, sessionId: id, cwd: '/home/me/project', updatedAt: 1.7e12 + at, value: json(300, 1) });
};

// Turn by turn, so that whatever else the machine does is in all of them alike.
const times = { short: [], long: [], bare: [], entry: [] };
for (let at = 0; at < COMMITS; at++) {
    times.short.push(await timed(short.append));
    times.long.push(await timed(long.append));
    times.bare.push(await timed(bare));
    times.entry.push(await timed(() => entry(at)));
}
const log = {
    short: await logged(100, short.append),
    long: await logged(100, long.append),
    bare: await logged(100, bare),
    entry: await logged(100, () => entry(COMMITS)),
};
const ms = Object.fromEntries(Object.entries(times).map(([name, list]) => [name, median(list)]));
const f = (number) => number.toFixed(1);
console.log(`commit of one message of ${MESSAGE} bytes, median of ${COMMITS}, and bytes of log, mean of 100:`);
console.log(`  on 100 messages      ${f(ms.short)} ms  ${log.short} bytes`);
console.log(`  on 20,000 messages   ${f(ms.long)} ms  ${log.long} bytes`);
console.log(`  a bare insert        ${f(ms.bare)} ms  ${log.bare} bytes`);
console.log(`  an entry of the list ${f(ms.entry)} ms  ${log.entry} bytes`);

const loads = { short: [], long: [], page: [] };
for (let at = 0; at < 20; at++) {
    loads.short.push(await timed(() => short.first.session.load()));
    loads.long.push(await timed(() => long.first.session.load()));
    const to = long.first.count();
    loads.page.push(await timed(() => long.first.session.readMessages({ from: to - 100, to })));
}
const rows = ({ id }) => one(`SELECT count(*)::int FROM runcontext.records WHERE session = convert_to($1, 'UTF8')`, [id]);
console.log(`load() on 100 messages: ${f(median(loads.short))} ms from ${await rows(short.first)} rows`);
console.log(`load() on 20,000: ${f(median(loads.long))} ms from ${await rows(long.first)} rows`);
console.log(`the last 100 messages of it: ${f(median(loads.page))} ms`);

for (const count of [4, 16]) {
    const writers = await Promise.all(Array.from({ length: count }, () => filled(crypto.randomUUID(), 100)));
    let commits = 0;
    const end = performance.now() + 5000;
    await Promise.all(writers.map(async ({ append }) => {
        for (; performance.now() < end; commits++) await append();
    }));
    console.log(`${count} sessions at once over ${pool.options.max} connections: ${Math.round(commits / 5)} commits a second`);
}

// What sessions take that are as they are in use: turns without tools, one after another.
await pool.query('TRUNCATE runcontext.sessions, runcontext.messages, runcontext.records, runcontext.operations, runcontext.entries CASCADE');
const SESSIONS = 100;
const TURNS = 50;
let said = 0;
const words = () => JSON.parse(new TextDecoder().decode(json(MESSAGE - 60, said++))).content;
const model = { complete: async () => ({ role: 'assistant', content: [{ type: 'text', text: words() }], stopReason: 'stop' }) };
const runtime = await Runtime.open({ storage, model });
const made = [];
for (let at = 0; at < SESSIONS; at += 10) {
    await Promise.all(Array.from({ length: 10 }, async () => {
        const session = await runtime.createSession({ cwd: '/home/me/project' });
        for (let turn = 0; turn < TURNS; turn++) await session.prompt(words());
        made.push(session);
    }));
}
await pool.query('VACUUM');
console.log(`of ${SESSIONS} sessions of ${TURNS} turns, on the disk with indexes, per session:`);
const size = async (table) => Math.round(Number(await one(`SELECT pg_total_relation_size('runcontext.${table}')`)) / SESSIONS);
for (const table of ['sessions', 'messages', 'records', 'operations', 'entries', 'entry_values']) {
    const count = await one(`SELECT count(*)::int FROM runcontext.${table}`);
    console.log(`  ${table.padEnd(13)} ${f(count / SESSIONS)} rows, ${await size(table)} bytes`);
}
await pool.query('VACUUM FULL runcontext.entries');
console.log(`  entries       ${await size('entries')} bytes when packed anew`);
// After a checkpoint, the first change of a page writes all of it to the log.
await pool.query('CHECKPOINT');
const turn = (at) => made[at].prompt(words());
console.log(`log of the first turn of each after a checkpoint: ${await logged(SESSIONS, turn)} bytes, of the next: ${await logged(SESSIONS, turn)} bytes`);
const commits = () => one('SELECT sum(commits)::int FROM runcontext.sessions');
const before = await commits();
const turns = [];
for (let at = 0; at < SESSIONS; at++) turns.push(await timed(() => turn(at)));
console.log(`a turn: ${((await commits()) - before) / SESSIONS} commits, ${f(median(turns))} ms`);
await runtime.close();
await server.close();
