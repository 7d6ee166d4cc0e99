// Loading the package in a real browser, under the strictest policy that lets WebAssembly run.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { launch } from '../support/chromium.mjs';
import { packageFolder } from '../support/project.mjs';
import { serve } from '../support/server.mjs';

const PAGE = '<!doctype html><meta charset="utf-8"><title>runcontext</title>';

let browser, server, page;
/** Answers of the server to requests for the module, before it serves it: a status, or a content. */
let failures;

before(async () => {
    browser = await launch();
    server = await serve({
        folders: { '/pkg/': packageFolder() },
        pages: { '/': PAGE },
        first(request, response) {
            if (!request.url.endsWith('.wasm') || failures.length === 0) return false;
            const { status = 200, type = 'text/html', body = '<!doctype html>' } = failures.shift();
            response.writeHead(status, { 'Content-Type': type }).end(body);
            return true;
        },
    });
});
after(async () => {
    await browser?.close();
    await server?.close();
});
beforeEach(async () => {
    failures = [];
    server.requests.length = 0;
    page = await browser.newPage();
    await page.goto(`${server.url}/`);
    await page.evaluate(async () => {
        window.rc = await import('/pkg/browser.js');
        window.render = () => window.rc.renderSystemPrompt([{ name: 'preamble', content: 'Be brief.' }]);
        /** What became of a call: its value, or its error as plain data. */
        window.outcome = async (work) => {
            let returned;
            try {
                returned = work();
            } catch (error) {
                return { how: 'threw', ...window.plain(error) };
            }
            try {
                const value = await returned;
                return { how: 'gave', value: typeof value === 'object' ? typeof value : value };
            } catch (error) {
                return { how: 'rejected', ...window.plain(error) };
            }
        };
        window.plain = (error) => ({
            typed: error instanceof window.rc.RunContextError,
            code: error.code,
            message: error.message,
            cause: error.cause?.constructor?.name,
        });
    });
});
afterEach(() => page?.close());

const modulesServed = () => server.requests.filter((path) => path.endsWith('.wasm')).length;

test('a call before init() says what to do, and asks the server for nothing', async () => {
    const found = await page.evaluate(async () => [
        await outcome(() => render()),
        await outcome(() => rc.Runtime.open()),
        await outcome(() => rc.Runtime.open({ storage: 'memory' })),
    ]);
    for (const error of found) {
        assert.equal(error.typed, true);
        assert.equal(error.code, 'not_initialized');
        assert.match(error.message, /`await init\(\)` first/);
    }
    assert.deepEqual(found.map((error) => error.how), ['threw', 'rejected', 'rejected']);
    assert.equal(modulesServed(), 0);
});

test('the version is there before init()', async () => {
    assert.match(await page.evaluate(() => rc.version), /^\d+\.\d+\.\d+/);
});

test('after init() calls work, and no policy was violated', async () => {
    const violations = [];
    page.on('console', (message) => message.type() === 'error' && violations.push(message.text()));
    const found = await page.evaluate(async () => {
        await rc.init();
        return [await outcome(() => render()), await outcome(() => rc.Runtime.open({ storage: 'memory' }))];
    });
    assert.deepEqual(found, [{ how: 'gave', value: 'Be brief.' }, { how: 'gave', value: 'object' }]);
    assert.deepEqual(violations, []);
    assert.deepEqual(page.uncaught, []);
});

test('init() at the same time and again loads the module once', async () => {
    const found = await page.evaluate(async () => {
        const results = await Promise.all([rc.init(), rc.init(), rc.init()]);
        await rc.init();
        return [results.every((value) => value === undefined), await outcome(() => render())];
    });
    assert.deepEqual(found, [true, { how: 'gave', value: 'Be brief.' }]);
    assert.equal(modulesServed(), 1);
});

for (const [what, failure] of [
    ['an error of the server', { status: 500 }],
    ['a missing file', { status: 404 }],
    ['a page instead of the module', {}],
    ['a cut-off module', { type: 'application/wasm', body: Buffer.from('0061736d01', 'hex') }],
]) {
    test(`init() works after ${what}`, async () => {
        failures = [failure];
        const found = await page.evaluate(async () => {
            const both = await Promise.all([outcome(() => rc.init()), outcome(() => rc.init())]);
            const before = await outcome(() => render());
            await rc.init();
            return { both, before, after: await outcome(() => render()) };
        });
        for (const error of found.both) {
            assert.equal(error.how, 'rejected');
            assert.equal(error.typed, true);
            assert.equal(error.code, 'module_failed');
            assert.match(error.message, /call init\(\) again/);
        }
        assert.equal(found.before.code, 'not_initialized');
        assert.deepEqual(found.after, { how: 'gave', value: 'Be brief.' });
        assert.equal(modulesServed(), 2);
    });
}

test('init() works after the network failed', async () => {
    await page.context().setOffline(true);
    const first = await page.evaluate(() => outcome(() => rc.init()));
    await page.context().setOffline(false);
    assert.equal(first.code, 'module_failed');
    assert.deepEqual(await page.evaluate(async () => (await rc.init(), render())), 'Be brief.');
});

test('a server that does not know the type of the module is good enough', async () => {
    const module = await (await fetch(`${server.url}/pkg/runcontext.wasm`)).arrayBuffer();
    failures = [{ type: 'application/octet-stream', body: Buffer.from(module) }];
    assert.equal(await page.evaluate(async () => (await rc.init(), render())), 'Be brief.');
});

for (const input of [
    "'/pkg/runcontext.wasm'",
    "new URL('/pkg/runcontext.wasm', location.href)",
    "new Request('/pkg/runcontext.wasm')",
    "fetch('/pkg/runcontext.wasm')",
    "await fetch('/pkg/runcontext.wasm')",
    "fetch('/pkg/runcontext.wasm').then((response) => response.arrayBuffer())",
    "await WebAssembly.compileStreaming(fetch('/pkg/runcontext.wasm'))",
]) {
    test(`init() takes ${input}`, async () => {
        // Not a string for the page: its policy forbids it to evaluate one.
        await page.evaluate(`(async () => { await rc.init(${input}); })()`);
        assert.equal(await page.evaluate(() => render()), 'Be brief.');
        assert.equal(modulesServed(), 1);
    });
}

/** From here on every call into an instance traps, for real, when `window.trap` is set. */
async function makeTrappable() {
    await page.evaluate(() => {
        // (module (func (export "t") unreachable))
        const bytes = '0061736d0100000001040160000003020100070501017400000a05010300000b';
        const module = new WebAssembly.Module(Uint8Array.from(bytes.match(/../g), (digits) => parseInt(digits, 16)));
        const unreachable = new WebAssembly.Instance(module).exports.t;
        window.trap = false;
        window.instances = 0;
        const instantiate = WebAssembly.instantiate;
        WebAssembly.instantiate = async (...args) => {
            const instance = await instantiate(...args);
            window.instances++;
            const exports = {};
            for (const [name, value] of Object.entries(instance.exports)) {
                exports[name] = value;
                if (typeof value !== 'function') continue;
                exports[name] = (...args) => (window.trap ? unreachable() : value(...args));
                Object.defineProperty(exports[name], 'length', { value: value.length });
            }
            return { exports };
        };
    });
}

test('after a trap every call is module_failed until init() makes a new instance', async () => {
    await makeTrappable();
    const found = await page.evaluate(async () => {
        await rc.init();
        const runtime = await rc.Runtime.open({ storage: 'memory' });
        window.trap = true;
        const trapped = await outcome(() => render());
        window.trap = false;
        const later = [
            await outcome(() => render()),
            await outcome(() => rc.Runtime.open({ storage: 'memory' })),
            await outcome(() => runtime.close()),
        ];
        await Promise.all([rc.init(), rc.init()]);
        return {
            trapped,
            later,
            old: await outcome(() => runtime.close()),
            fresh: [await outcome(() => render()), await outcome(() => rc.Runtime.open({ storage: 'memory' }))],
            instances: window.instances,
        };
    });
    assert.deepEqual([found.trapped.how, found.trapped.code, found.trapped.cause], ['threw', 'module_failed', 'RuntimeError']);
    assert.deepEqual(found.later.map((error) => [error.how, error.typed, error.code]), [
        ['threw', true, 'module_failed'],
        ['rejected', true, 'module_failed'],
        ['rejected', true, 'module_failed'],
    ]);
    assert.deepEqual([found.old.how, found.old.code], ['rejected', 'module_failed']);
    assert.deepEqual(found.fresh, [{ how: 'gave', value: 'Be brief.' }, { how: 'gave', value: 'object' }]);
    assert.equal(found.instances, 2);
    assert.equal(modulesServed(), 1);
    assert.deepEqual(page.uncaught, []);
});

test('a trap between two steps of an operation rejects it, and is nobody’s uncaught error', async () => {
    await makeTrappable();
    const found = await page.evaluate(async () => {
        await rc.init();
        // Its first step was taken when it returns, the next one is the event loop's.
        const opening = rc.Runtime.open({ storage: 'memory' });
        window.trap = true;
        const result = await outcome(() => opening);
        window.trap = false;
        await new Promise((resolve) => setTimeout(resolve, 50));
        const later = await outcome(() => render());
        await rc.init();
        return { result, later, fresh: await outcome(() => render()) };
    });
    assert.deepEqual([found.result.how, found.result.code], ['rejected', 'module_failed']);
    assert.equal(found.later.code, 'module_failed');
    assert.deepEqual(found.fresh, { how: 'gave', value: 'Be brief.' });
    assert.deepEqual(page.uncaught, []);
});

test('an instance can fail and be replaced again and again', async () => {
    await makeTrappable();
    const found = await page.evaluate(async () => {
        const codes = [];
        for (let round = 0; round < 5; round++) {
            await rc.init();
            codes.push(render());
            window.trap = true;
            codes.push((await outcome(() => render())).code);
            window.trap = false;
        }
        return codes;
    });
    assert.deepEqual(found, Array(5).fill(['Be brief.', 'module_failed']).flat());
});

test('an instance that failed runs no turn any more, for those who look at its locks', async () => {
    await makeTrappable();
    const found = await page.evaluate(async () => {
        await rc.init();
        const runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name: 'failed in mid-turn' } });
        const session = await runtime.createSession({ id: 's' });
        const turn = await session.begin('Hello');
        await turn.request();
        await turn.dispatched();
        const held = async () => (await navigator.locks.query()).held.map(({ name, mode }) => [name, mode]);
        const before = await held();
        window.trap = true;
        await outcome(() => turn.finish());
        window.trap = false;
        for (let look = 0; look < 100 && (await held()).length > 0; look++) await new Promise((resolve) => setTimeout(resolve, 10));
        const after = await held();
        await rc.init();
        const again = await rc.Runtime.open({ storage: { kind: 'indexeddb', name: 'failed in mid-turn' } });
        const { interrupted } = await again.openSession('s');
        return { before, after, interrupted };
    });
    assert.deepEqual(found.before, [['runcontext:failed in mid-turn:s', 'shared']]);
    assert.deepEqual(found.after, []);
    assert.deepEqual(found.interrupted, { unanswered: [], pendingApprovals: [] });
    assert.deepEqual(page.uncaught, []);
});
