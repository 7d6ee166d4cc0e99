// Where sessions are kept: IndexedDB by default, memory only where there is no IndexedDB or the browser forbids it, and
// never instead of what was named, or of a database that is merely in trouble. `storageInfo` always says which.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { launch } from '../support/chromium.mjs';
import { openPage, servePackage } from '../support/page.mjs';

let browser, server, page;

before(async () => {
    browser = await launch();
    server = await servePackage({
        // A frame without an origin of its own may load nothing but what is for everybody.
        policy: null,
        first(request, response) {
            response.setHeader('Access-Control-Allow-Origin', '*');
            return false;
        },
        pages: {
            '/': '<!doctype html><title>runcontext</title>',
            '/framed/': '<!doctype html><title>framed</title><iframe sandbox="allow-scripts" src="/"></iframe>',
        },
    });
});
after(async () => {
    await browser?.close();
    await server?.close();
});
afterEach(async () => {
    if (page) assert.deepEqual(page.uncaught, []);
    await page?.close();
    page = undefined;
});

/** Opens a runtime in every way, and uses it; runs in the page. */
async function ways() {
    const rc = await import('/pkg/browser.js');
    await rc.init();
    const found = {};
    for (const [way, options] of Object.entries({
        nothing: undefined, indexeddb: { storage: 'indexeddb' }, object: { storage: { kind: 'indexeddb', name: 'named' } }, memory: { storage: 'memory' },
    })) {
        try {
            const runtime = await rc.Runtime.open(options);
            const session = await runtime.createSession();
            await session.setTitle('kept');
            found[way] = { info: runtime.storageInfo, listed: (await runtime.listSessions()).length };
            await runtime.close();
        } catch (error) {
            found[way] = { typed: error instanceof rc.RunContextError, code: error.code, message: error.message };
        }
    }
    return found;
}

const KEPT = { info: { kind: 'indexeddb', persistent: true }, listed: 1 };
const MEMORY = { info: { kind: 'memory', persistent: false }, listed: 1 };

test('IndexedDB is the default, and memory is used where it is named', async () => {
    page = await browser.newPage();
    await page.goto(`${server.url}/`);
    // The first two are one database.
    assert.deepEqual(await page.evaluate(ways), { nothing: KEPT, indexeddb: { ...KEPT, listed: 2 }, object: KEPT, memory: MEMORY });
    const databases = await page.evaluate(async () => (await indexedDB.databases()).map((database) => database.name).sort());
    assert.deepEqual(databases, ['named', 'runcontext']);
});

test('where there is no IndexedDB memory is used, and that is said; but not where IndexedDB is named', async () => {
    page = await browser.newPage();
    await page.addInitScript(() => {
        delete window.indexedDB;
        delete Window.prototype.indexedDB;
    });
    await page.goto(`${server.url}/`);
    assert.equal(await page.evaluate(() => typeof indexedDB), 'undefined');
    const { nothing, indexeddb, object, memory } = await page.evaluate(ways);
    assert.deepEqual(nothing, { info: { ...MEMORY.info, reason: 'this environment has no IndexedDB' }, listed: 1 });
    assert.deepEqual(memory, MEMORY);
    for (const refused of [indexeddb, object]) {
        assert.deepEqual(refused, { typed: true, code: 'storage_failed', message: 'this environment has no IndexedDB' });
    }
});

test('in a sandboxed frame, where IndexedDB is forbidden, memory is used, and that is said; but not where IndexedDB is named', async () => {
    page = await browser.newPage();
    await page.goto(`${server.url}/framed/`);
    const frame = page.frames().find((frame) => frame !== page.mainFrame());
    assert.equal(await frame.evaluate(() => self.origin), 'null');
    const { nothing, indexeddb, object, memory } = await frame.evaluate(ways);
    assert.deepEqual(nothing, { info: { ...MEMORY.info, reason: 'the browser forbids IndexedDB here' }, listed: 1 });
    assert.deepEqual(memory, MEMORY);
    for (const refused of [indexeddb, object]) {
        assert.deepEqual(refused, { typed: true, code: 'storage_failed', message: 'the browser forbids IndexedDB here' });
    }
});

for (const [what, prepare, code] of [
    ['written by a newer version', () => {
        const request = indexedDB.open('runcontext', 1000);
        return new Promise((resolve, reject) => {
            request.onsuccess = () => resolve(request.result.close());
            request.onerror = () => reject(request.error);
        });
    }, 'storage_schema_newer'],
    ['that does not open', () => {
        IDBFactory.prototype.open = function () {
            throw new DOMException('Internal error opening backing store for indexedDB.open.', 'UnknownError');
        };
    }, 'storage_failed'],
]) {
    test(`memory never stands in for a database ${what}`, async () => {
        // An origin of its own.
        const elsewhere = await servePackage();
        try {
            page = await openPage(browser, elsewhere);
            await page.evaluate(prepare);
            const found = await page.run(async () => [
                await kit.outcome(() => rc.Runtime.open()), await kit.outcome(() => rc.Runtime.open({ storage: 'indexeddb' })),
            ]);
            for (const outcome of found) assert.deepEqual([outcome.rejected?.typed, outcome.rejected?.code], [true, code]);
            assert.deepEqual(await page.unhandled(), []);
        } finally {
            await page.close();
            page = undefined;
            await elsewhere.close();
        }
    });
}

test('transactions that write are strict, unless told to be relaxed', async () => {
    page = await openPage(browser, server);
    const found = await page.run(async () => {
        const seen = [];
        const begin = IDBDatabase.prototype.transaction;
        IDBDatabase.prototype.transaction = function (stores, mode, options) {
            const transaction = begin.call(this, stores, mode, options);
            if (mode === 'readwrite') seen.push(transaction.durability);
            return transaction;
        };
        for (const durability of [undefined, 'strict', 'relaxed']) {
            seen.push('-');
            const runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name: 'durable', durability } });
            const session = await runtime.createSession();
            await session.setTitle('x');
            await runtime.close();
        }
        IDBDatabase.prototype.transaction = begin;
        return seen.join(' ');
    });
    // The first one writes the group `default`, too.
    assert.equal(found, '- strict strict strict - strict strict - relaxed relaxed');
});

test('two databases of one page have nothing in common', async () => {
    page = await openPage(browser, server);
    const found = await page.run(async () => {
        const runtimes = [];
        for (const name of ['one', 'two']) {
            const runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name } });
            await runtime.skills.add({ content: kit.skillFile(name, 'Do.'), location: `/${name}` });
            await (await runtime.createSession({ id: 's' })).setTitle(name);
            runtimes.push(runtime);
        }
        const found = [];
        for (const runtime of runtimes) {
            found.push([runtime.skills.list().map((skill) => skill.name), (await runtime.listSessions()).map((session) => session.title)]);
            await runtime.close();
        }
        return found;
    });
    assert.deepEqual(found, [[['one'], ['one']], [['two'], ['two']]]);
});

test('in a worker sessions are kept in the same IndexedDB as in the page', async () => {
    const elsewhere = await servePackage({
        pages: {
            '/': '<!doctype html><title>runcontext</title>',
            '/worker.js': `
                import * as rc from '/pkg/browser.js';
                import * as kit from '/cases/kit.mjs';
                await rc.init();
                kit.use(rc);
                const runtime = await rc.Runtime.open({ model: kit.scripted(kit.assistant('Done.')) });
                const session = await runtime.createSession({ id: 'w' });
                const result = await session.prompt([{ type: 'image', data: new Uint8Array([1, 2]) }]);
                postMessage(kit.toText([runtime.storageInfo, result]));
            `,
        },
    });
    page = await openPage(browser, elsewhere);
    const found = await page.run(async () => {
        const worker = new Worker('/worker.js', { type: 'module' });
        const [info, result] = JSON.parse(await new Promise((resolve, reject) => {
            worker.onmessage = (event) => resolve(event.data);
            worker.onerror = (event) => reject(new Error(event.message));
        }));
        worker.terminate();
        const runtime = await rc.Runtime.open();
        return { info, result, messages: (await runtime.openSession('w')).messages };
    });
    assert.deepEqual(found, {
        info: KEPT.info,
        result: { outcome: 'success', saved: true },
        messages: [
            { role: 'user', content: [{ type: 'image', data: Uint8Array.from([1, 2]) }], timestamp: found.messages[0].timestamp },
            { role: 'assistant', content: [{ type: 'text', text: 'Done.' }], stopReason: 'stop' },
        ],
    });
    await page.close();
    page = undefined;
    await elsewhere.close();
});
