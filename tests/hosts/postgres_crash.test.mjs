// A process commits to PostgreSQL without end, and says which commits were acknowledged. It is killed, or the server is
// stopped as by a crash, at a moment of which nobody knows where in a commit it falls. What is there afterwards is every
// acknowledged commit, at most one more, and each of them whole.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { postgresServer } from '../support/postgres.mjs';
import { installed } from '../support/project.mjs';

const DEEP = process.env.RUNCONTEXT_DEEP === '1';
/** Of each kind. */
const RUNS = DEEP ? 50 : 10;
const AT_LEAST = 50;

const writerFile = fileURLToPath(new URL('../support/postgres_writer.mjs', import.meta.url));
const parsed = (value) => JSON.parse(new TextDecoder().decode(value));

let project, module, server, pool, storage;
before(async () => {
    project = await installed();
    module = pathToFileURL(createRequire(path.join(project.folder, 'any.js')).resolve('runcontext/storage/postgres')).href;
    const { migratePostgres, postgresStorage } = await import(module);
    server = await postgresServer();
    pool = server.pool();
    await migratePostgres({ pool });
    storage = postgresStorage({ pool });
});
after(async () => {
    await server?.close();
    await project?.remove();
});

/** Starts a writer. `acknowledged` rises; `enough` resolves at the fiftieth, `ended` when the process is gone. */
function start(id) {
    const child = spawn(process.execPath, [writerFile, module, JSON.stringify(server.connection), id], { stdio: ['ignore', 'pipe', 'pipe'] });
    const writer = { id, child, acknowledged: 0, complaint: '' };
    let unfinished = '';
    child.stderr.on('data', (data) => (writer.complaint += data));
    writer.enough = new Promise((resolve, reject) => {
        child.stdout.on('data', (data) => {
            const lines = (unfinished + data).split('\n');
            unfinished = lines.pop();
            for (const line of lines) writer.acknowledged = Number(line);
            if (writer.acknowledged >= AT_LEAST) resolve();
        });
        child.once('close', () => reject(new Error(`the writer ended: ${writer.complaint}`)));
    });
    writer.ended = new Promise((resolve) => child.once('close', resolve));
    return writer;
}

/** What is stored, and that it is what so many commits make: no more, no less, and all parts of the same one. */
async function commitsOf(id) {
    const stored = await storage.session(id).load();
    const commits = stored.counters.conversation;
    const said = Array.from({ length: commits }, (_, number) => `message ${number}`);
    const numbers = said.map((_, number) => number);
    const messages = await storage.session(id).readMessages({ from: 0, to: commits + 10 });
    assert.deepEqual(messages.map(parsed), said);
    assert.deepEqual(stored.outlines.map((outline) => parsed(outline).said), [said]);
    assert.deepEqual(stored.snapshots.map(parsed), numbers);
    assert.deepEqual(stored.approvals.map(({ id, version, value }) => [id, version, parsed(value)]), [['approval', commits, commits - 1]]);
    assert.deepEqual(
        [stored.messageCount, stored.updatedAt, stored.counters.settings, parsed(stored.settings.last), parsed(stored.header).id],
        [commits, commits - 1, commits, commits - 1, id],
    );
    const operations = await pool.query(`SELECT count(*)::int AS count FROM runcontext.operations WHERE session = convert_to($1, 'UTF8')`, [id]);
    assert.equal(operations.rows[0].count, commits);
    return commits;
}

/** Until the server has noticed that a writer is gone. */
async function forgotten(id) {
    for (;;) {
        const { rows } = await pool.query('SELECT FROM pg_stat_activity WHERE application_name = $1', [id]);
        if (rows.length === 0) return;
        await sleep(5);
    }
}

/** Two writers on sessions of their own, so that one end serves both. */
async function runs(name, end) {
    const writers = [start(`${name} a`), start(`${name} b`)];
    await Promise.all(writers.map(({ enough }) => enough));
    await sleep(Math.random() * 40);
    await end(writers);
    // What had been said before the end is known only then.
    await Promise.all(writers.map(({ ended }) => ended));
    await server.start();
    return Promise.all(writers.map(judged));
}

/** How many commits were acknowledged, and how many more are there. */
async function judged({ id, acknowledged }) {
    await forgotten(id);
    const commits = await commitsOf(id);
    assert.ok(commits === acknowledged || commits === acknowledged + 1, `${acknowledged} were acknowledged, ${commits} are there`);
    // The session goes on, and the one that was lost may be sent again.
    const again = { sessionId: id, origin: `${id} 0`, timestamp: 0, records: [], approvals: [], settings: {} };
    const last = await storage.session(id).commit({ ...again, operationId: `${id} ${commits - 1}`, expected: commits - 1 });
    assert.equal(last.status, 'already-applied');
    const next = await storage.session(id).commit({ ...again, operationId: `${id} ${commits}`, expected: commits });
    assert.deepEqual(next, { status: 'applied', counters: { conversation: commits + 1, settings: commits } });
    return [acknowledged, commits - acknowledged];
}

const ENDS = {
    'a client is killed': async (writers) => writers.forEach(({ child }) => child.kill('SIGKILL')),
    'the server is stopped at once': () => server.stopNow(),
};

for (const [what, end] of Object.entries(ENDS)) {
    test(`${what}, ${RUNS} times: what was acknowledged is there, and at most one commit more`, async () => {
        const results = [];
        while (results.length < RUNS) results.push(...(await runs(`${what} ${results.length}`, end)));
        const more = results.filter(([, more]) => more > 0).length;
        const acknowledged = results.map(([acknowledged]) => acknowledged).join(' ');
        console.log(`${what}: ${acknowledged} acknowledged; one more was there in ${more} of ${results.length} runs`);
    });
}
