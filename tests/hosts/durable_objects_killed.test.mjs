// workerd is killed at random moments while a request commits to the adapter, another one prompts in a session of a runtime, and
// a third one asks a person in ever more sessions; another workerd on the same storage finds all that was acknowledged, at most
// one more, and nothing that is half.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { workers } from '../support/workerd.mjs';

const KILLS = process.env.RUNCONTEXT_DEEP === '1' ? 100 : 20;
/** So many commits are acknowledged at least. A prompt is three: the message, the answer, the end. */
const ACKNOWLEDGED = 50;
const PROMPTS = Math.ceil(ACKNOWLEDGED / 3);
/** So many commits there are for one of each: who is ahead waits, and leaves the disk to the others. */
const PACE = { commits: 1, prompts: 3, approvals: 10 };

/** Commits and prompts without end, and reports each one that was acknowledged before the next; looks what is there. */
const WORKER = `
import { Runtime } from 'runcontext';
import { durableObjects } from 'runcontext/storage/durable-objects';

export { DirectoryObject, SessionObject, SharedObject } from 'runcontext/storage/durable-objects';

const bytes = (text) => new TextEncoder().encode(text);
/** Every tenth message is larger than a row. */
const body = (at) => JSON.stringify({ at, text: 'x'.repeat(at % 10 === 9 ? 1_100_000 : 100) });
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

const answer = (to) => ({ role: 'assistant', content: [{ type: 'text', text: 'answer to ' + to }], stopReason: 'stop' });

const WORK = {
    async commit({ adapter, report }) {
        const session = adapter.session('s');
        await session.commit({
            sessionId: 's', operationId: 'made', origin: 'made', timestamp: 0, records: [], approvals: [], settings: {},
            create: { header: bytes('header'), settings: { made: bytes('made') } },
        });
        for (let at = 0; ; at++) {
            const { status } = await session.commit(commit(at));
            await report('commits', status === 'applied');
        }
    },
    async prompt({ adapter, report }) {
        const model = { complete: async ({ messages }) => answer(messages.at(-1).content) };
        const runtime = await Runtime.open({ storage: adapter, model });
        const session = await runtime.createSession({ id: 'p', cwd: '/w' });
        for (let at = 0; ; at++) {
            const { outcome, saved } = await session.prompt('question ' + at);
            await report('prompts', saved && outcome === 'success');
        }
    },
    /** Session after session whose turn waits for a person. */
    async ask({ adapter, report }) {
        const call = { role: 'assistant', content: [{ type: 'toolCall', id: 'c', name: 'look', arguments: {} }], stopReason: 'toolUse' };
        const tools = [{ name: 'look', execute: () => 'seen' }];
        const runtime = await Runtime.open({ storage: adapter, model: { complete: async () => call }, tools });
        for (let at = 0; ; at++) {
            const session = await runtime.createSession({ id: 'asks-' + at, cwd: '/w' });
            const asked = new Promise((resolve) => session.subscribe(({ type }) => type === 'approval-requested' && resolve(true)));
            await report('approvals', await Promise.race([asked, session.prompt('Look').then(() => false)]));
        }
    },
    /** What is listed, before anybody opens a session. */
    async list({ adapter }) {
        const runtime = await Runtime.open({ storage: adapter });
        const [sessions, approvals] = [await runtime.listSessions(), await runtime.approvals.list()];
        return { sessions: sessions.map(({ id }) => id).sort(), approvals: approvals.map(({ sessionId }) => sessionId).sort() };
    },
    async look({ adapter }) {
        const session = adapter.session('s');
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
    /** The session of the runtime; the turn that was cut off is ended, and another one is begun. */
    async open({ adapter }) {
        const model = { complete: async () => answer('the last one') };
        const runtime = await Runtime.open({ storage: adapter, model });
        const session = await runtime.openSession('p');
        const { messages, interrupted, state, header } = session;
        const contents = (list) => list.map(({ content }) => (typeof content === 'string' ? content : content[0].text));
        const found = { contents: contents(messages), count: state.messageCount, isInterrupted: interrupted !== undefined, id: header.id };
        if (found.isInterrupted) await session.abandon();
        const { saved } = await session.prompt('the last question');
        return { ...found, saved, later: contents(session.messages).slice(messages.length) };
    },
};

export default {
    async fetch(request, env) {
        const space = await request.json();
        const { SessionObject: sessions, SharedObject: shared, DirectoryObject: directory } = env;
        const adapter = durableObjects({ sessions, shared, directory, space });
        const report = (what, isRight) => env.REPORT.fetch('http://report/' + what, { method: 'POST', body: '' + isRight });
        return Response.json(await WORK[new URL(request.url).pathname.slice(1)]({ adapter, report }));
    },
};
`;

let server, made, workerd;
/** What was acknowledged in this run, and who waits for more of it. */
let acknowledged, heard;
before(async () => {
    server = createServer(async (request, response) => {
        let isRight = '';
        for await (const part of request) isRight += part;
        assert.equal(isRight, 'true');
        const what = request.url.slice(1);
        const count = ++acknowledged[what];
        heard();
        while (!request.socket.destroyed && acknowledged.commits < count * PACE[what]) await sleep(5);
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

/** Both work until enough is acknowledged, and are killed somewhat later. */
async function work(space) {
    const until = ACKNOWLEDGED + Math.floor(Math.random() * 20);
    acknowledged = { commits: 0, prompts: 0, approvals: 0 };
    const enough = new Promise((resolve) => {
        heard = () => acknowledged.commits >= until && acknowledged.prompts >= PROMPTS && resolve();
    });
    const ended = ['/commit', '/prompt', '/ask'].map((path) => workerd.ask('main', path, space).catch((error) => error));
    await Promise.race([enough, ...ended.map((end) => end.then((error) => Promise.reject(error)))]);
    // A commit takes a few milliseconds: the kill comes anywhere in it.
    await sleep(Math.random() * 8);
    await workerd.kill();
    await Promise.all(ended);
    return acknowledged;
}

for (let run = 1; run <= KILLS; run++) {
    test(`kill ${run} of ${KILLS}: what was acknowledged is there, at most one more, and all of it agrees`, async (t) => {
        const space = `run ${run}`;
        const { commits, prompts, approvals } = await work(space);
        workerd = await made.start();

        const listed = await workerd.ask('main', '/list', space);
        const asking = Array.from({ length: approvals }, (_, at) => `asks-${at}`);
        // The one that was being made may be there too, or not yet, or not yet have asked.
        const known = (list) => list.filter((id) => id !== `asks-${approvals}`);
        assert.deepEqual([known(listed.sessions), known(listed.approvals)], [[...asking, 'p'].sort(), asking.sort()]);

        const { found, messages, wrong, again, next } = await workerd.ask('main', '/look', space);
        const count = found.counters.conversation;
        assert.ok(count === commits || count === commits + 1, `${commits} commits were acknowledged, ${count} are there`);
        const last = `${count - 1}`;
        assert.deepEqual(found, {
            header: 'header', origin: 'made', updatedAt: count - 1, messageCount: count, counters: { conversation: count, settings: count },
            settings: { made: 'made', [`even${(count - 1) % 2}`]: last, [`even${count % 2}`]: `${count - 2}` },
            outlines: [last], snapshots: numbers(count), checkpoints: numbers(count), compactions: [],
            approvals: [{ id: 'a', version: count, value: last }],
        });
        assert.deepEqual([messages, wrong], [count, -1]);
        assert.deepEqual([again, next], ['already-applied', 'applied']);

        const opened = await workerd.ask('main', '/open', space);
        const { contents } = opened;
        const expected = contents.map((_, at) => (at % 2 ? `answer to question ${(at - 1) / 2}` : `question ${at / 2}`));
        assert.ok(contents.length >= 2 * prompts && contents.length <= 2 * prompts + 2, `${prompts} prompts were acknowledged, ${contents.length} messages are there`);
        assert.deepEqual([contents, opened.count, opened.id], [expected, contents.length, 'p']);
        // The last prompt may be whole: then its end is there, or it is interrupted all the same.
        if (contents.length === 2 * prompts) assert.equal(opened.isInterrupted, false);
        if (contents.length % 2) assert.equal(opened.isInterrupted, true);
        assert.deepEqual([opened.saved, opened.later], [true, ['the last question', 'answer to the last one']]);
        t.diagnostic(`${commits} commits and ${prompts} prompts acknowledged, ${count} commits and ${contents.length / 2} prompts there`);
    });
}
