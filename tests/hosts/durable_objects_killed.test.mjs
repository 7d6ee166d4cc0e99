// workerd is killed at random moments while a worker commits; another one on the same storage finds every commit that was
// acknowledged, at most one more, and nothing that is half.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { workers } from '../support/workerd.mjs';

const KILLS = process.env.RUNCONTEXT_DEEP === '1' ? 100 : 20;
const ACKNOWLEDGED = 50;

/** Commits without end, and reports each commit that was acknowledged before the next; looks what is there. */
const WORKER = `
import { durableObjects } from 'runcontext/storage/durable-objects';

export { DirectoryObject, SessionObject, SharedObject } from 'runcontext/storage/durable-objects';

const bytes = (text) => new TextEncoder().encode(text);
/** Every fifth message is larger than a row. */
const body = (at) => JSON.stringify({ at, text: 'x'.repeat(at % 5 === 4 ? 1_500_000 : 100) });
const commit = (at) => ({
    sessionId: 's', operationId: 'commit ' + at, origin: 'made', timestamp: at, expected: at, messageCount: at + 1,
    records: [
        { store: 'messages', position: at, value: bytes(body(at)) },
        { store: 'message_outlines', position: 0, value: bytes('' + at) },
        { store: 'runtime_contexts', position: at, value: bytes('' + at) },
        { store: 'system_prompt_checkpoints', position: at, value: bytes('' + at) },
    ],
    approvals: [{ id: 'a', expected: at, value: bytes('' + at) }],
    settings: { ['even' + at % 2]: bytes('' + at) },
});

const WORK = {
    async commit({ session, env }) {
        await session.commit({
            sessionId: 's', operationId: 'made', origin: 'made', timestamp: 0, records: [], approvals: [], settings: {},
            create: { header: bytes('header'), settings: { made: bytes('made') } },
        });
        for (let at = 0; ; at++) {
            const { status } = await session.commit(commit(at));
            await env.REPORT.fetch('http://report/', { method: 'POST', body: status });
        }
    },
    async look({ session }) {
        const stored = await session.load();
        const text = (value) => new TextDecoder().decode(value);
        const read = (part) => (part instanceof Uint8Array ? text(part) : part);
        const count = stored.counters.conversation;
        const messages = await session.readMessages({ from: 0, to: count + 10 });
        const found = JSON.parse(JSON.stringify(stored, (_, part) => read(part)));
        const wrong = messages.findIndex((value, at) => text(value) !== body(at));
        const again = await session.commit(commit(count - 1));
        const next = await session.commit(commit(count));
        return { found, messages: messages.length, wrong, again: again.status, next: next.status };
    },
};

export default {
    async fetch(request, env) {
        const space = await request.json();
        const { SessionObject: sessions, SharedObject: shared, DirectoryObject: directory } = env;
        const session = durableObjects({ sessions, shared, directory, space }).session('s');
        return Response.json(await WORK[new URL(request.url).pathname.slice(1)]({ session, env }));
    },
};
`;

let server, made, workerd;
/** How many commits of this run were acknowledged, and who waits for the next one. */
let acknowledged, heard;
before(async () => {
    server = createServer(async (request, response) => {
        let status = '';
        for await (const part of request) status += part;
        assert.equal(status, 'applied');
        acknowledged++;
        heard();
        response.end();
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    made = await workers({ main: WORKER }, { classes: ['SessionObject', 'SharedObject', 'DirectoryObject'], report: server.address().port });
    workerd = await made.start();
});
after(async () => {
    await workerd?.kill();
    await made?.remove();
    server?.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
});

const numbers = (count) => Array.from({ length: count }, (_, at) => `${at}`);

for (let run = 1; run <= KILLS; run++) {
    test(`kill ${run} of ${KILLS}: what was acknowledged is there, at most one commit more, and all of it agrees`, async (t) => {
        const space = `run ${run}`;
        const until = ACKNOWLEDGED + Math.floor(Math.random() * 20);
        acknowledged = 0;
        const enough = new Promise((resolve) => (heard = () => acknowledged === until && resolve()));
        const ended = workerd.ask('main', '/commit', space).catch((error) => error);
        await Promise.race([enough, ended.then((error) => Promise.reject(error))]);
        // A commit takes a few milliseconds: the kill comes anywhere in it.
        await sleep(Math.random() * 8);
        await workerd.kill();
        await ended;
        const sure = acknowledged;
        workerd = await made.start();
        const { found, messages, wrong, again, next } = await workerd.ask('main', '/look', space);
        const count = found.counters.conversation;
        assert.ok(count === sure || count === sure + 1, `${sure} were acknowledged, ${count} are there`);
        t.diagnostic(`${sure} acknowledged, ${count} there`);
        const last = `${count - 1}`;
        assert.deepEqual(found, {
            header: 'header', origin: 'made', updatedAt: count - 1, messageCount: count, counters: { conversation: count, settings: count },
            settings: { made: 'made', [`even${(count - 1) % 2}`]: last, [`even${count % 2}`]: `${count - 2}` },
            outlines: [last], snapshots: numbers(count), checkpoints: numbers(count), compactions: [],
            approvals: [{ id: 'a', version: count, value: last }],
        });
        assert.deepEqual([messages, wrong], [count, -1]);
        assert.deepEqual([again, next], ['already-applied', 'applied']);
    });
}
