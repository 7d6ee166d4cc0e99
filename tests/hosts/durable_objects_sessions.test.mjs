// Whole sessions on Durable Objects, in a real workerd: two workers, each an isolate of its own, on the same objects, which
// may be lost.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';

import { workers } from '../support/workerd.mjs';

/** Both workers do what they are asked for. The first one has the objects. */
const worker = (objects) => `
import { Runtime } from 'runcontext';
import { durableObjects } from 'runcontext/storage/durable-objects';
${objects}

const assistant = (text) => ({ role: 'assistant', content: [{ type: 'text', text }], stopReason: 'stop' });
const call = (...ids) => ({ role: 'assistant', content: ids.map((id) => ({ type: 'toolCall', id, name: 'look', arguments: {} })), stopReason: 'toolUse' });

const WORK = {
    /** A session that prompts, and calls a tool. */
    async prompt({ open }) {
        const answers = [call('c'), assistant('Done.')];
        const tools = [{ name: 'look', access: 'none', execute: () => 'seen' }];
        const runtime = await open({ model: { complete: async () => answers.shift() }, tools });
        const session = await runtime.createSession({ id: 's', cwd: '/w' });
        session.bypass('all');
        const result = await session.prompt('Hello');
        await session.setTitle('A title');
        return { info: runtime.storageInfo, result, messages: session.messages, outcome: session.state.outcome };
    },
    async look({ open }) {
        const runtime = await open();
        const session = await runtime.openSession('s');
        const { outcome, title, hasPendingSave } = session.state;
        const listed = (await runtime.listSessions()).map(({ id, title, messageCount }) => ({ id, title, messageCount }));
        return { messages: session.messages, page: await session.readMessages({ before: 3, limit: 2 }), outcome, title, hasPendingSave, listed };
    },
    /** A session whose calls are gated before and after another worker denies them. */
    async gate({ open, report }) {
        const runtime = await open({ tools: [{ name: 'look', access: 'none' }] });
        const session = await runtime.createSession({ id: 'live', cwd: '/w' });
        session.bypass('all');
        const turn = await session.begin('Hello');
        await turn.request();
        await turn.dispatched();
        await turn.append(call('c0', 'c1', 'c2'));
        const gate = async (toolCallId) => {
            const { outcome, reason, rule } = await turn.gate({ toolCallId, toolName: 'look', arguments: {} });
            return { outcome, reason, rule: rule?.note };
        };
        const decisions = [await gate('c0')];
        await report('deny');
        decisions.push(await gate('c1'));
        await report('allow');
        decisions.push(await gate('c2'));
        return decisions;
    },
    async deny({ open }) {
        await (await open()).permissions.addRule({ tool_pattern: 'look', action: 'deny', note: 'from elsewhere', priority: 1 });
        return null;
    },
    async allow({ open }) {
        const { permissions } = await open();
        for (const { id, note } of await permissions.listRules()) if (note === 'from elsewhere') await permissions.deleteRule(id);
        return null;
    },
    /** A prompt while the session's object is lost, so many times, each time after it committed. */
    async lost({ open, body: { id, times } }) {
        const model = { calls: 0, complete: async () => assistant('answer ' + ++model.calls) };
        const session = await (await open({ model })).createSession({ id, cwd: '/w' });
        globalThis.losses = times;
        const { saved, saveError } = await session.prompt('Hello');
        const pending = session.state.hasPendingSave;
        globalThis.losses = 0;
        await session.flush();
        const stored = await (await open()).openSession(id);
        return { saved, code: saveError?.code, pending, later: session.state.hasPendingSave, calls: model.calls, stored: stored.messages.length };
    },
    async remove({ open }) {
        const runtime = await open();
        await runtime.deleteSession('s');
        return { listed: (await runtime.listSessions()).map(({ id }) => id), opened: await runtime.openSession('s').catch(({ code }) => code) };
    },
    isolate() {
        globalThis.times = (globalThis.times ?? 0) + 1;
        return globalThis.times;
    },
};

export default {
    async fetch(request, env) {
        const storage = durableObjects({ sessions: env.SessionObject, shared: env.SharedObject, directory: env.DirectoryObject });
        const open = (options) => Runtime.open({ storage, ...options });
        const report = (what) => env.REPORT.fetch('http://report/' + what);
        return Response.json(await WORK[new URL(request.url).pathname.slice(1)]({ open, report, body: await request.json() }));
    },
};
`;

const OBJECTS = `
import { SessionObject as Sessions } from 'runcontext/storage/durable-objects';
export { DirectoryObject, SharedObject } from 'runcontext/storage/durable-objects';

export class SessionObject extends Sessions {
    #state;
    constructor(state, env) {
        super(state, env);
        this.#state = state;
    }
    async fetch(request) {
        const response = await super.fetch(request);
        if (request.url.endsWith('/commit') && globalThis.losses-- > 0) {
            await this.#state.storage.sync();
            this.#state.abort('gone');
        }
        return response;
    }
}
`;

let server, made, workerd;
before(async () => {
    // What the first worker reports, the second one does, before the first one goes on.
    server = createServer(async (request, response) => {
        await workerd.ask('two', request.url);
        response.end();
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    made = await workers({ one: worker(OBJECTS), two: worker('') }, { classes: ['SessionObject', 'SharedObject', 'DirectoryObject'], report: server.address().port });
    workerd = await made.start();
});
after(async () => {
    await workerd?.kill();
    await made?.remove();
    server?.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
});

test('the two workers are two isolates', async () => {
    assert.deepEqual([await workerd.ask('one', '/isolate'), await workerd.ask('one', '/isolate'), await workerd.ask('two', '/isolate')], [1, 2, 1]);
});

test('a session prompts with a model and a tool; another worker, and another workerd, find all of it', async () => {
    const { info, result, messages, outcome } = await workerd.ask('one', '/prompt');
    assert.deepEqual(info, { kind: 'durable-objects', persistent: true });
    assert.deepEqual([result, outcome], [{ outcome: 'success', saved: true }, 'success']);
    assert.deepEqual(messages.map(({ role }) => role), ['user', 'assistant', 'toolResult', 'assistant']);
    const there = {
        messages, page: messages.slice(1, 3), outcome: 'success', title: 'A title', hasPendingSave: false,
        listed: [{ id: 's', title: 'A title', messageCount: 4 }],
    };
    assert.deepEqual(await workerd.ask('two', '/look'), there);
    await workerd.kill();
    workerd = await made.start();
    assert.deepEqual(await workerd.ask('one', '/look'), there);
});

test('a deny rule of another isolate decides the very next call of a live session, and so does its end', async () => {
    assert.deepEqual(await workerd.ask('one', '/gate'), [
        { outcome: 'allow', reason: 'bypass' },
        { outcome: 'deny', reason: 'rule', rule: 'from elsewhere' },
        { outcome: 'allow', reason: 'bypass' },
    ]);
});

test('a session whose object is lost after a commit asks the next one, and saves', async () => {
    assert.deepEqual(await workerd.ask('one', '/lost', { id: 'once', times: 1 }), { saved: true, pending: false, later: false, calls: 1, stored: 2 });
});

test('a session whose object stays lost keeps what is pending, and flush() saves it without the model', async () => {
    assert.deepEqual(await workerd.ask('one', '/lost', { id: 'long', times: 1000 }), {
        saved: false, code: 'storage_lost', pending: true, later: false, calls: 1, stored: 2,
    });
});

test('a session that one worker deletes is gone for the other one', async () => {
    assert.deepEqual(await workerd.ask('one', '/remove'), { listed: ['long', 'once', 'live'], opened: 'not_found' });
    await assert.rejects(workerd.ask('two', '/look'), /not_found|there is no session/);
});
