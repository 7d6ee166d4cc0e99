// The adapter for Durable Objects in a real workerd, with SQLite storage on disk: the suite that every adapter has to pass,
// and what happens to calls when an object is lost, full or busy.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { installed } from '../support/project.mjs';
import { workers } from '../support/workerd.mjs';

/** Does what it is asked for, in a space of its own. */
const WORKER = `
import { conformance } from 'runcontext/storage/conformance';
import { durableObjects, SessionObject as Sessions } from 'runcontext/storage/durable-objects';

export { DirectoryObject, SharedObject } from 'runcontext/storage/durable-objects';

/** What goes wrong with the next commit, and where. */
let fault;
export class SessionObject extends Sessions {
    #state;
    constructor(state, env) {
        const { storage } = state;
        const transactionSync = (work) => {
            if (fault?.[0] === 'at once') throw new Error(fault[1]);
            return storage.transactionSync(work);
        };
        super({ storage: { sql: storage.sql, deleteAll: () => storage.deleteAll(), transactionSync } }, env);
        this.#state = state;
    }
    async fetch(request) {
        const [when, message] = request.url.endsWith('/commit') ? (fault ?? []) : [];
        if (when === 'before') this.#state.abort(message);
        const response = await super.fetch(request);
        if (when === 'after') {
            await this.#state.storage.sync();
            this.#state.abort(message);
        }
        return response;
    }
}

const commit = (operationId, parts) => ({
    sessionId: 's', operationId, origin: 'made', timestamp: 1, records: [], approvals: [], settings: {}, ...parts,
});
const message = (position, length = 3) => ({ store: 'messages', position, value: new Uint8Array(length).fill(position) });
const told = (promise) => promise.then((result) => result, ({ code, message }) => ({ code, message }));

const WORK = {
    async case({ adapter, body }) {
        const { run } = conformance({ open: adapter, reopen: adapter }).find(({ name }) => name === body);
        return run().then(() => 'right', (error) => error.stack);
    },
    /** A commit in the middle of which the object is lost, the same one again, and what is there then. */
    async lost({ adapter, body }) {
        const session = adapter().session('s');
        await session.commit(commit('made', { create: { header: new Uint8Array(1), settings: {} } }));
        const change = commit('change', { expected: 0, messageCount: 1, records: [message(0)] });
        fault = body;
        const first = await told(session.commit(change));
        fault = undefined;
        const there = (await session.readMessages({ from: 0, to: 9 })).length;
        const second = await told(session.commit(change));
        return { first, there, second: second.status, after: (await session.readMessages({ from: 0, to: 9 })).length };
    },
    /** A namespace whose objects have too much to do, as the runtime says it, and ones of which something else is thrown. */
    async thrown({ env, body }) {
        const overloaded = Object.assign(new Error('Too many requests queued.'), { overloaded: true, retryable: true });
        const thrown = { overloaded, text: 'a text', nothing: undefined, number: 7, object: { message: 7 } }[body];
        const fetch = () => Promise.reject(thrown);
        const sessions = { idFromName: (name) => env.SessionObject.idFromName(name), get: () => ({ fetch }) };
        return told(durableObjects({ ...env, sessions }).session('s').counters());
    },
    /** Bytes that JSON takes for something else. */
    async buffers({ adapter }) {
        class Buffer extends Uint8Array {
            toJSON() {
                return { type: 'Buffer', data: [...this] };
            }
        }
        const session = adapter().session('s');
        await session.commit(commit('made', { create: { header: Buffer.of(1, 2), settings: { one: Buffer.of(3) } } }));
        await session.commit(commit('more', { expected: 0, records: [{ store: 'messages', position: 0, value: Buffer.of(4) }] }));
        const { header, settings } = await session.load();
        return [header, settings.one, ...(await session.readMessages({ from: 0, to: 1 }))].map((value) => [...value]);
    },
    /** More in one commit, and in one page, than a call of an RPC method holds. */
    async large({ adapter }) {
        const session = adapter().session('s');
        await session.commit(commit('made', { create: { header: new Uint8Array(1), settings: {} } }));
        const records = Array.from({ length: 20 }, (_, position) => message(position, 2_000_000));
        const { status } = await session.commit(commit('large', { expected: 0, messageCount: 20, records }));
        const found = await session.readMessages({ from: 0, to: 20 });
        return { status, right: found.every((value, at) => value.length === 2_000_000 && value[0] === at && value.at(-1) === at), length: found.length };
    },
};

export default {
    async fetch(request, env) {
        const space = crypto.randomUUID();
        const adapter = () => durableObjects({ sessions: env.SessionObject, shared: env.SharedObject, directory: env.DirectoryObject, space });
        const work = WORK[new URL(request.url).pathname.slice(1)];
        return Response.json(await work({ adapter, env, body: await request.json() }));
    },
};
`;

const project = await installed();
const { conformance } = await project.import('runcontext/storage/conformance');
await project.remove();

let made, workerd;
before(async () => {
    made = await workers({ main: WORKER }, { classes: ['SessionObject', 'SharedObject', 'DirectoryObject'] });
    workerd = await made.start();
});
after(async () => {
    await workerd?.kill();
    await made?.remove();
});

for (const { name } of conformance({ open() {}, reopen() {} })) {
    test(`on Durable Objects: ${name}`, async () => {
        assert.equal(await workerd.ask('main', '/case', name), 'right');
    });
}

test('an object that is lost before it commits is storage_lost, and the same commit is applied by the next one', async () => {
    assert.deepEqual(await workerd.ask('main', '/lost', ['before', 'gone']), {
        first: { code: 'storage_lost', message: 'the durable object was lost in the middle of a call, try again: gone' },
        there: 0, second: 'applied', after: 1,
    });
});

test('an object that is lost after it committed is storage_lost, and the next one knows the commit', async () => {
    assert.deepEqual(await workerd.ask('main', '/lost', ['after', 'gone']), {
        first: { code: 'storage_lost', message: 'the durable object was lost in the middle of a call, try again: gone' },
        there: 1, second: 'already-applied', after: 1,
    });
});

test('an object that is full is storage_quota', async () => {
    // In these words workerd says it, where the disk is full.
    const full = 'database or disk is full: SQLITE_FULL';
    for (const when of ['at once', 'before']) {
        const { first } = await workerd.ask('main', '/lost', [when, full]);
        assert.deepEqual(first, { code: 'storage_quota', message: `the durable object is full, delete what is not needed: ${full}` });
    }
});

test('an object that has too much to do is not asked again at once', async () => {
    assert.deepEqual(await workerd.ask('main', '/thrown', 'overloaded'), {
        code: 'storage_failed', message: 'the durable object has too much to do, try again later: Too many requests queued.',
    });
});

test('whatever is thrown of a call that was lost, it is storage_lost', async () => {
    const unsaid = 'it was not said why';
    for (const [thrown, why] of Object.entries({ text: 'a text', nothing: unsaid, number: unsaid, object: unsaid })) {
        assert.deepEqual(await workerd.ask('main', '/thrown', thrown), {
            code: 'storage_lost', message: `the durable object was lost in the middle of a call, try again: ${why}`,
        });
    }
});

test('bytes that have a `toJSON`, as a Buffer has one, are stored as bytes', async () => {
    assert.deepEqual(await workerd.ask('main', '/buffers'), [[1, 2], [3], [4]]);
});

test('a commit of 40 MB is applied, and read in one page', async () => {
    assert.deepEqual(await workerd.ask('main', '/large'), { status: 'applied', right: true, length: 20 });
});
