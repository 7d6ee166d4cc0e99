// `runcontext/hosts/opfs` in a real browser: paths in its Origin Private File System, seen from windows and from workers.

import assert from 'node:assert/strict';
import path from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { launch } from '../support/chromium.mjs';
import { documented } from '../support/documented.mjs';
import { packageFolder } from '../support/project.mjs';
import { servePackage } from '../support/page.mjs';

/** Resolves what it is told, and tells the answers. */
const WORKER = `
import { opfsHost } from '/pkg/hosts/opfs.js';
addEventListener('message', async ({ data: { options, base, paths } }) => {
    postMessage(await opfsHost(options).resolvePaths(base, paths));
});
`;

/** The example of the types, for the page: names as an import map has them, what is logged is kept. */
async function example() {
    const code = await documented(path.resolve(packageFolder(), 'hosts/opfs.d.ts'));
    return code.replace("'runcontext/hosts/opfs'", "'/pkg/hosts/opfs.js'").replaceAll('console.log(', '(window.told ??= []).push(');
}

const NOT_A_DIRECTORY = { unresolved: 'uses a file as a directory' };
const NO_BASE = { unresolved: 'is relative, and its base is not an absolute path' };

let browser, server, page;
before(async () => {
    browser = await launch();
    server = await servePackage({ pages: { '/': '<!doctype html><title>opfs</title>', '/worker.js': WORKER, '/example.js': await example() } });
    const first = await open();
    await first.evaluate(async () => {
        const root = await navigator.storage.getDirectory();
        const directory = (at, name) => at.getDirectoryHandle(name, { create: true });
        const file = async (at, name) => {
            const writable = await (await at.getFileHandle(name, { create: true })).createWritable();
            await writable.write(name);
            await writable.close();
        };
        const notes = await directory(root, 'notes');
        await file(notes, 'today.txt');
        await directory(await directory(notes, 'old'), 'older');
        await file(root, 'Top.md');
    });
    await first.close();
});
after(async () => {
    await browser?.close();
    await server?.close();
});

async function open() {
    const opened = await browser.newPage();
    await opened.goto(`${server.url}/`);
    await opened.evaluate(async () => {
        window.hosts = await import('/pkg/hosts/opfs.js');
        window.rc = await import('/pkg/browser.js');
    });
    return opened;
}

beforeEach(async () => {
    page = await open();
});
afterEach(async () => {
    assert.deepEqual(page.uncaught, []);
    await page.close();
});

/** What is a text stands for a canonical path. */
const answers = (expected) => Object.values(expected).map((to) => (typeof to === 'string' ? { canonical: to } : to));

/** Asks in a window and in a worker, which have to agree. */
async function leads(expected, { base = '/notes', options } = {}) {
    const question = { options, base, paths: Object.keys(expected) };
    const inWindow = await page.evaluate(({ options, base, paths }) => hosts.opfsHost(options).resolvePaths(base, paths), question);
    const inWorker = await page.evaluate((question) => new Promise((resolve, reject) => {
        const worker = new Worker('/worker.js', { type: 'module' });
        worker.onmessage = ({ data }) => resolve(data);
        worker.onerror = (event) => reject(new Error(event.message));
        worker.postMessage(question);
    }), question);
    assert.deepEqual(inWindow, answers(expected));
    assert.deepEqual(inWorker, answers(expected));
}

test('what exists and what does not yet exist is found below its base or below the root', () =>
    leads({
        'today.txt': '/notes/today.txt', 'old/older': '/notes/old/older', 'old//./older/': '/notes/old/older', '/Top.md': '/Top.md', '/': '/', '//notes': '/notes',
        new: '/notes/new', 'new/deep/file': '/notes/new/deep/file', 'old/new.txt': '/notes/old/new.txt', '/new/': '/new', '': '/notes', '.': '/notes', '~': '/notes/~',
        '%2e%2e': '/notes/%2e%2e', ['__proto__']: '/notes/__proto__',
    }));

test('`..` is taken out by the text alone, and nothing is above the root', () =>
    leads({
        '..': '/', '../..': '/', '../../../Top.md': '/Top.md', 'old/../today.txt': '/notes/today.txt', 'no/../today.txt': '/notes/today.txt', 'today.txt/../x': '/notes/x',
        'old/older/..': '/notes/old', '/../notes/./..': '/',
    }));

test('the case of a name counts', () =>
    leads({ 'Today.txt': '/notes/Today.txt', 'Today.txt/x': '/notes/Today.txt/x', '/NOTES/today.txt/x': '/NOTES/today.txt/x', '/top.md/x': '/top.md/x' }));

test('a file used as a directory is unresolved', () =>
    leads({ 'today.txt/': NOT_A_DIRECTORY, 'today.txt/.': NOT_A_DIRECTORY, 'today.txt/x': NOT_A_DIRECTORY, '/Top.md/x/y': NOT_A_DIRECTORY }));

test('a base has to be absolute, where a path is not', async () => {
    for (const base of ['', 'notes', null, 7]) await leads({ '/Top.md': '/Top.md', 'today.txt': NO_BASE }, { base });
    await leads({ x: NOT_A_DIRECTORY, '': NOT_A_DIRECTORY, '../x': '/notes/x' }, { base: '/notes/today.txt' });
    await leads({ x: '/no/base/x' }, { base: '/no/base' });
});

test('a name that the browser refuses is unresolved, also below what does not exist', async () => {
    const paths = ['a\\b', 'old/a\\b', 'new/a\\b', 'new/deep/a\\b/x'];
    const found = await page.evaluate(async (paths) => {
        const host = hosts.opfsHost();
        // What the browser itself says of such a name.
        const root = await navigator.storage.getDirectory();
        const error = await root.getFileHandle('a\\b', { create: true }).catch((error) => error);
        return [error.constructor.name, await host.resolvePaths('/notes', paths)];
    }, paths);
    assert.equal(found[0], 'TypeError');
    assert.equal(found[1].length, paths.length);
    for (const { unresolved } of found[1]) assert.match(unresolved, /^has a name that this file system refuses: /);
});

test('what is no path is unresolved, and never an exception', async () => {
    const found = await page.evaluate(async () => {
        const host = hosts.opfsHost();
        const none = [];
        for (const paths of [undefined, null, 'x', 7, {}]) none.push(await host.resolvePaths('/', paths));
        return [await host.resolvePaths('/', [undefined, null, 7, {}, Symbol('x'), 'a\0', '\ud800', 'x'.repeat(40_000), 'x']), none];
    });
    assert.deepEqual(found, [
        [
            ...Array(5).fill({ unresolved: 'is no text' }), { unresolved: 'holds a NUL' }, { unresolved: 'holds half of a surrogate pair' },
            { unresolved: 'is too long' }, { canonical: '/x' },
        ],
        [[], [], [], [], []],
    ]);
});

test('a directory can be the root', async () => {
    const found = await page.evaluate(async () => {
        const root = await (await navigator.storage.getDirectory()).getDirectoryHandle('notes');
        return hosts.opfsHost({ root }).resolvePaths('/', ['today.txt', 'today.txt/x', '../Top.md/x', '/notes/new']);
    });
    assert.deepEqual(found, answers({ a: '/today.txt', b: NOT_A_DIRECTORY, c: '/Top.md/x', d: '/notes/new' }));
});

test('what can be said at once is where the text leads, since there are no links', async () => {
    const expected = answers({
        'today.txt': '/notes/today.txt', 'old//./older/': '/notes/old/older', '/Top.md': '/Top.md', '/': '/', 'new/deep/': '/notes/new/deep', '': '/notes', '.': '/notes',
        '../../x': '/x', 'today.txt/../x': '/notes/x', 'Today.txt': '/notes/Today.txt',
    });
    const paths = ['today.txt', 'old//./older/', '/Top.md', '/', 'new/deep/', '', '.', '../../x', 'today.txt/../x', 'Today.txt'];
    const found = await page.evaluate(async (paths) => {
        const host = hosts.opfsHost();
        // Nobody asked for anything before.
        const atOnce = host.resolvePathsSync('/notes', paths);
        return [atOnce, await host.resolvePaths('/notes', paths)];
    }, paths);
    assert.deepEqual(found, [expected, expected]);
    const none = await page.evaluate(() => {
        const host = hosts.opfsHost();
        return [...host.resolvePathsSync('/', [undefined, 7, 'a\0', '\ud800', 'x'.repeat(40_000)]), ...host.resolvePathsSync('notes', ['x']), ...host.resolvePathsSync('/', null)];
    });
    assert.deepEqual(none, [
        { unresolved: 'is no text' }, { unresolved: 'is no text' }, { unresolved: 'holds a NUL' }, { unresolved: 'holds half of a surrogate pair' }, { unresolved: 'is too long' }, NO_BASE,
    ]);
});

test('a directory as the root says nothing at once before it was found in the file system', async () => {
    const found = await page.evaluate(async () => {
        const root = await (await navigator.storage.getDirectory()).getDirectoryHandle('notes');
        const host = hosts.opfsHost({ root });
        const before = host.resolvePathsSync('/', ['today.txt']);
        await host.resolvePaths('/', []);
        return [before, host.resolvePathsSync('/', ['today.txt', 7])];
    });
    assert.deepEqual(found, [[{ unresolved: 'is below a directory that nobody has looked at yet' }], [{ canonical: '/today.txt' }, { unresolved: 'is no text' }]]);
});

test('below a root that is not in the file system nothing is resolved, since it may hold links', async () => {
    const found = await page.evaluate(async () => {
        // A directory of another bucket is not below this one's, as one from a disk is not.
        const elsewhere = await (await navigator.storageBuckets.open('elsewhere')).getDirectory();
        const lookalike = { kind: 'directory', getDirectoryHandle: (name) => elsewhere.getDirectoryHandle(name) };
        const all = [];
        for (const root of [elsewhere, lookalike]) {
            const host = hosts.opfsHost({ root });
            all.push(await host.resolvePaths('/', ['a', 7]), host.resolvePathsSync('/', ['a']));
        }
        return all;
    });
    const outside = { unresolved: 'is below a directory that is not in the Origin Private File System, and may hold links' };
    const unknown = { unresolved: 'is below a directory that nobody has looked at yet' };
    assert.deepEqual(found.slice(0, 2), [[outside, outside], [unknown]]);
    assert.equal(found[2].length, 2);
    for (const { unresolved } of found[2]) assert.match(unresolved, /^cannot be looked at: /);
    assert.deepEqual(found[3], [unknown]);
});

test('a tool that lists a tree is shown what is there, and not what is closed', async () => {
    const found = await page.evaluate(async () => {
        await rc.init();
        const paths = ['today.txt', 'old/older', '/notes/old', 'secrets', 'old/secrets/key', '/Top.md', '../Top.md'];
        let hidden;
        const list = {
            name: 'list', paths: [{ argument: '/path', access: 'read', kind: 'tree' }],
            execute: (_, { isHidden }) => void (hidden = paths.map((path) => [path, isHidden(path)])),
        };
        let asked = 0;
        const model = {
            async complete() {
                const call = { type: 'toolCall', id: 'c1', name: 'list', arguments: { path: '.' } };
                return { role: 'assistant', content: asked++ > 0 ? 'Done.' : [call] };
            },
        };
        const runtime = await rc.Runtime.open({ storage: 'memory', tools: [list], model, host: hosts.opfsHost({ cwd: '/notes', workspaceRoot: '/' }) });
        const session = await runtime.createSession({ permissionPreset: 'workspace-write', headless: true });
        await session.prompt('List it.');
        await session.dispose();
        await runtime.close();
        return hidden;
    });
    assert.deepEqual(Object.fromEntries(found), {
        'today.txt': false, 'old/older': false, '/notes/old': false, secrets: true, 'old/secrets/key': true,
        // Not below the tree that was listed.
        '/Top.md': true, '../Top.md': true,
    });
});

test('each answer is of its own moment', async () => {
    const found = await page.evaluate(async () => {
        const host = hosts.opfsHost();
        const ask = () => host.resolvePaths('/', ['changing/x']);
        const root = await navigator.storage.getDirectory();
        const seen = [await ask()];
        await root.getFileHandle('changing', { create: true });
        seen.push(await ask());
        await root.removeEntry('changing');
        await root.getDirectoryHandle('changing', { create: true });
        seen.push(await ask());
        await root.removeEntry('changing');
        return seen.flat();
    });
    assert.deepEqual(found, answers({ a: '/changing/x', b: NOT_A_DIRECTORY, c: '/changing/x' }));
});

test('where the browser gives no access everything is unresolved, and is found again when it does', async () => {
    const found = await page.evaluate(async () => {
        const host = hosts.opfsHost();
        const { getDirectory } = StorageManager.prototype;
        StorageManager.prototype.getDirectory = () => Promise.reject(new DOMException('not here', 'SecurityError'));
        const refused = await host.resolvePaths('/', ['x', 7]);
        StorageManager.prototype.getDirectory = undefined;
        const absent = await host.resolvePaths('/', ['x']);
        StorageManager.prototype.getDirectory = getDirectory;
        return { refused, absent, again: await host.resolvePaths('/', ['x']) };
    });
    assert.deepEqual(found.refused, Array(2).fill({ unresolved: 'cannot be looked at: not here' }));
    assert.match(found.absent[0].unresolved, /^cannot be looked at: /);
    assert.deepEqual(found.again, [{ canonical: '/x' }]);
});

test('a handle that fails in another way makes what it was asked for unresolved', async () => {
    const found = await page.evaluate(async () => {
        const { getDirectoryHandle } = FileSystemDirectoryHandle.prototype;
        FileSystemDirectoryHandle.prototype.getDirectoryHandle = function (name) {
            if (name === 'secret') return Promise.reject(new DOMException('ask first', 'NotAllowedError'));
            return getDirectoryHandle.call(this, name);
        };
        try {
            return await hosts.opfsHost().resolvePaths('/', ['secret', 'secret/x', 'notes/today.txt']);
        } finally {
            FileSystemDirectoryHandle.prototype.getDirectoryHandle = getDirectoryHandle;
        }
    });
    const refused = { unresolved: 'cannot be looked at: ask first' };
    assert.deepEqual(found, [refused, refused, { canonical: '/notes/today.txt' }]);
});

test('the folders are those that were given; the working directory is the root where none is', async () => {
    const found = await page.evaluate(() =>
        [hosts.opfsHost(), hosts.opfsHost({ cwd: '/notes', workspaceRoot: '/' }), hosts.opfsHost({ cwd: null, root: null })]
            .map(({ resolvePaths, resolvePathsSync, ...told }) => told));
    assert.deepEqual(found, [{ cwd: '/', pathStyle: 'posix' }, { cwd: '/notes', workspaceRoot: '/', pathStyle: 'posix' }, { cwd: '/', pathStyle: 'posix' }]);
});

test('options of the wrong type are typed errors that name the field', async () => {
    const found = await page.evaluate(async () => {
        const root = await navigator.storage.getDirectory();
        const fileHandle = await root.getFileHandle('Top.md');
        return [7, [], { cwd: 'notes' }, { cwd: 7 }, { workspaceRoot: '../x' }, { root: {} }, { root: fileHandle }, { root: '/notes' }].map((options) => {
            try {
                hosts.opfsHost(options);
                return 'no error';
            } catch (error) {
                return [error instanceof rc.RunContextError, error.code, error.data.field];
            }
        });
    });
    const fields = ['options', 'options', 'options.cwd', 'options.cwd', 'options.workspaceRoot', 'options.root', 'options.root', 'options.root'];
    assert.deepEqual(found, fields.map((field) => [true, 'invalid_argument', field]));
});

test('importing the hosts for browsers asks the server for none of the module', async () => {
    const fresh = await browser.newPage();
    await fresh.goto(`${server.url}/`);
    server.requests.length = 0;
    const found = await fresh.evaluate(async () => {
        const { opfsHost } = await import('/pkg/hosts/opfs.js');
        const { link, virtualHost } = await import('/pkg/hosts/virtual.js');
        const host = virtualHost({ cwd: '/', tree: { a: link('b') } });
        return [...(await opfsHost().resolvePaths('/', ['Top.md'])), ...host.resolvePaths('/', ['a/c'])];
    });
    await fresh.close();
    assert.deepEqual(found, [{ canonical: '/Top.md' }, { canonical: '/b/c' }]);
    const files = server.requests.filter((path) => path.startsWith('/pkg/')).sort();
    assert.deepEqual(files, [
        ...['common', 'opfs', 'reasons', 'styles', 'tree', 'virtual', 'walk'].map((name) => `/pkg/hosts/${name}.js`), '/pkg/plain.js', '/pkg/shim.js',
    ]);
});

test('the example of its types runs as it is written', async () => {
    const told = await page.evaluate(async () => {
        await import('/example.js');
        return window.told;
    });
    assert.deepEqual(told, [{ canonical: '/notes/draft.txt' }, { canonical: '/shared' }, true]);
});
