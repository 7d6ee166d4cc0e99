// `runcontext/hosts/node` on a real disk: a temporary folder full of links. What is expected is written by hand, from what
// a kernel makes of such paths.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { documented } from '../support/documented.mjs';
import { installed } from '../support/project.mjs';

const LOOP = 'has too many links, or a loop of them';
const NOT_A_DIRECTORY = 'uses a file as a directory';
const TOO_LONG = 'is too long';
const NO_BASE = 'is relative, and its base is not an absolute path';

let project, nodeHost, RunContextError, top, host;
before(async () => {
    project = await installed();
    ({ nodeHost } = await project.import('runcontext/hosts/node'));
    ({ RunContextError } = await project.import('runcontext'));
    top = await realpath(await mkdtemp(path.join(os.tmpdir(), 'runcontext-host-')));
    for (const folder of ['ws/src', 'ws/logs', 'outside/inner', 'home/keys']) await mkdir(path.join(top, folder), { recursive: true });
    for (const file of ['ws/notes.txt', 'ws/src/main.js', 'outside/secret', 'home/keys/id']) await writeFile(path.join(top, file), file);
    const links = {
        'to-file': 'notes.txt',
        'to-file-as-directory': 'notes.txt/',
        'to-folder': 'src',
        docs: '../home/keys',
        absolute: `${top}/outside`,
        into: '../outside/inner',
        up: '..',
        fresh: `${top}/outside/not-yet.txt`,
        'fresh-deep': '../outside/no/such/folder',
        'fresh-twice': 'fresh',
        'fresh-above': '../outside/gone/../other',
        loop: 'loop-back',
        'loop-back': 'loop',
        marked: '\ufeffgone',
        self: 'self',
        'self-inside': 'self-inside/x',
    };
    for (const [name, target] of Object.entries(links)) await symlink(target, path.join(top, 'ws', name));
    host = nodeHost({ cwd: `${top}/ws` });
});
after(async () => {
    if (top !== undefined) await rm(top, { recursive: true, force: true });
    await project?.remove();
});

/** Paths below `ws`, each with where it leads below the folder of this test, or `{ unresolved }`. */
async function leads(expected) {
    const paths = Object.keys(expected);
    const wanted = Object.values(expected).map((to) => (typeof to === 'string' ? { canonical: path.join(top, to) } : to));
    assert.deepEqual(await host.resolvePaths(host.cwd, paths), wanted);
}

test('what exists is resolved, links and all, one answer per path in their order', () =>
    leads({
        'notes.txt': 'ws/notes.txt',
        'src/main.js': 'ws/src/main.js',
        'to-file': 'ws/notes.txt',
        'to-folder/main.js': 'ws/src/main.js',
        'docs/id': 'home/keys/id',
        absolute: 'outside',
        'absolute/secret': 'outside/secret',
        './src//main.js': 'ws/src/main.js',
        'src/': 'ws/src',
        'src/.': 'ws/src',
    }));

test('`..` after a link is where the link led, not where its name is', () =>
    leads({
        'into/..': 'outside',
        'into/../secret': 'outside/secret',
        'into/../new': 'outside/new',
        'into/../../ws/notes.txt': 'ws/notes.txt',
        'up/outside/secret': 'outside/secret',
        'src/../notes.txt': 'ws/notes.txt',
        '../outside/secret': 'outside/secret',
    }));

test('nothing is above the root', async () => {
    assert.deepEqual(await host.resolvePaths('/', ['..', '../..', '/../no-such-folder-here/x', '//']), [
        { canonical: '/' }, { canonical: '/' }, { canonical: '/no-such-folder-here/x' }, { canonical: '/' },
    ]);
});

test('what does not exist yet is its nearest existing ancestor, resolved, plus the rest', () =>
    leads({
        new: 'ws/new',
        'new/': 'ws/new',
        'new/deep/file.txt': 'ws/new/deep/file.txt',
        'docs/new/file': 'home/keys/new/file',
        'to-folder/new.js': 'ws/src/new.js',
        'new/./x': 'ws/new/x',
        'new/../x': 'ws/x',
        'new/../docs/id': 'home/keys/id',
        'new/../docs/new': 'home/keys/new',
        'new/more/../../../outside/secret': 'outside/secret',
    }));

test('a link to what does not exist yet leads there, never to its own place', () =>
    leads({
        fresh: 'outside/not-yet.txt',
        'fresh-twice': 'outside/not-yet.txt',
        'fresh-deep': 'outside/no/such/folder',
        'fresh-deep/x/y': 'outside/no/such/folder/x/y',
        'fresh-deep/..': 'outside/no/such',
        'fresh-above': 'outside/other',
        'to-folder/../fresh': 'outside/not-yet.txt',
        'new/../fresh': 'outside/not-yet.txt',
        'fresh/': 'outside/not-yet.txt',
        marked: 'ws/\ufeffgone',
    }));

test('loops of links are unresolved, wherever they are met', async () => {
    const loop = { unresolved: LOOP };
    await leads({ loop, self: loop, 'self-inside': loop, 'loop/x': loop, 'loop/..': loop, 'docs/../../ws/loop': loop, 'new/../loop/x': loop });
});

test('a file used as a directory is unresolved', async () => {
    const file = { unresolved: NOT_A_DIRECTORY };
    await leads({
        'notes.txt/': file, 'notes.txt/x': file, 'notes.txt/..': file, 'notes.txt/.': file, 'to-file/x': file, 'to-file/': file,
        'to-file-as-directory': file, 'new/../notes.txt/': file, 'new/../notes.txt/x': file,
    });
    assert.deepEqual(await host.resolvePaths(`${top}/ws/notes.txt`, ['', 'x', '..', '/']), [file, file, file, { canonical: '/' }]);
});

test('an empty path is its base, and nothing that a shell or a browser would read into a path is read into it', async () => {
    const escape = encodeURIComponent('../');
    await leads({
        '': 'ws', '.': 'ws', '~': 'ws/~', '~/x': 'ws/~/x', '$HOME': 'ws/$HOME', [`${escape}outside`]: `ws/${escape}outside`,
        'file:///etc': 'ws/file:/etc', 'a\\..\\b': 'ws/a\\..\\b', 'C:\\x': 'ws/C:\\x', ['__proto__']: 'ws/__proto__', '\ufeffnotes.txt': 'ws/\ufeffnotes.txt',
    });
});

test('absolute paths do not depend on the base, relative ones need an absolute one', async () => {
    for (const base of ['ws', '', undefined, null, 7, {}, '/a\0', '/\ud800']) {
        assert.deepEqual(await host.resolvePaths(base, [`${top}/ws/docs`, 'docs']), [{ canonical: `${top}/home/keys` }, { unresolved: NO_BASE }], String(base));
    }
    assert.deepEqual(await host.resolvePaths(`${top}/ws/docs/`, ['id', '../../outside']), [
        { canonical: `${top}/home/keys/id` }, { canonical: `${top}/outside` },
    ]);
    assert.deepEqual(await host.resolvePaths(`${top}/ws/no/base`, ['x', '../../src']), [
        { canonical: `${top}/ws/no/base/x` }, { canonical: `${top}/ws/src` },
    ]);
});

test('names and paths that are too long are unresolved, whether or not what is above them exists', async () => {
    const long = { unresolved: TOO_LONG };
    const [fits, over] = ['x'.repeat(255), 'x'.repeat(256)];
    await leads({ [fits]: `ws/${fits}`, [over]: long, [`new/${fits}`]: `ws/new/${fits}`, [`new/${over}`]: long, [`new/${'ä'.repeat(128)}`]: long });
    const room = 4095 - `${top}/ws/`.length;
    const deep = (length) => 'a/'.repeat(length).slice(0, length - 1) + 'b';
    const [found, tooLong] = await host.resolvePaths(host.cwd, [deep(room), deep(room + 1)]);
    assert.equal(found.canonical.length, 4095);
    assert.deepEqual(tooLong, long);
    assert.deepEqual(await host.resolvePaths(host.cwd, ['src/../'.repeat(1000), 'x'.repeat(10_000_000)]), [long, long]);
});

test('a NUL, half of a surrogate pair and what is no text are unresolved, and never an exception', async () => {
    const odd = [undefined, null, 7, NaN, {}, ['notes.txt'], Symbol('x'), new String('notes.txt'), () => 'notes.txt'];
    const answers = await host.resolvePaths(host.cwd, [...odd, 'notes.txt\0', 'a\0/../notes.txt', 'x\ud800', '\udc00', 'notes.txt']);
    assert.deepEqual(answers, [
        ...odd.map(() => ({ unresolved: 'is no text' })),
        ...Array(2).fill({ unresolved: 'holds a NUL' }),
        ...Array(2).fill({ unresolved: 'holds half of a surrogate pair' }),
        { canonical: `${top}/ws/notes.txt` },
    ]);
    const sparse = [];
    sparse[1] = 'notes.txt';
    const unreadable = ['notes.txt', 'x'];
    Object.defineProperty(unreadable, 1, { get() { throw new Error('mine'); } });
    const text = { unresolved: 'is no text' };
    assert.deepEqual(await host.resolvePaths(host.cwd, sparse), [text, { canonical: `${top}/ws/notes.txt` }]);
    assert.deepEqual(await host.resolvePaths(host.cwd, unreadable), [{ canonical: `${top}/ws/notes.txt` }, text]);
    for (const none of [undefined, null, 'notes.txt', 7, {}, { length: 1, 0: 'notes.txt' }]) assert.deepEqual(await host.resolvePaths(host.cwd, none), []);
});

test('a name on the disk that is no Unicode is unresolved, and not taken for another one', async () => {
    const bytes = (...parts) => Buffer.concat(parts.map((part) => Buffer.from(part)));
    await mkdir(bytes(top, '/odd-', [0xff]));
    await symlink(bytes('odd-', [0xff]), `${top}/to-odd`);
    await symlink(bytes('gone-', [0xff]), `${top}/to-odd-gone`);
    // The name that a careless decoder makes of it.
    await mkdir(`${top}/odd-\ufffd`);
    const unresolved = { unresolved: 'leads to a name that is not Unicode' };
    assert.deepEqual(await host.resolvePaths(top, ['to-odd', 'to-odd/x', 'to-odd-gone', 'odd-\ufffd']), [
        unresolved, unresolved, unresolved, { canonical: `${top}/odd-\ufffd` },
    ]);
});

test('each answer is of its own moment: a link that is pointed elsewhere leads elsewhere', async () => {
    const link = `${top}/ws/moving`;
    const seen = [];
    for (const target of ['logs', '../outside', '../outside/later']) {
        await symlink(target, `${link}.new`);
        await rename(`${link}.new`, link);
        seen.push(...(await host.resolvePaths(host.cwd, ['moving/today'])));
    }
    assert.deepEqual(seen, [
        { canonical: `${top}/ws/logs/today` }, { canonical: `${top}/outside/today` }, { canonical: `${top}/outside/later/today` },
    ]);
});

test('a directory that may not be searched makes what is below it unresolved, existing or not', async () => {
    await mkdir(`${top}/closed/inner`, { recursive: true });
    await symlink(`${top}/closed/inner`, `${top}/ws/to-closed`);
    await symlink(`${top}/closed/new`, `${top}/ws/to-closed-new`);
    await chmod(`${top}/closed`, 0o000);
    await chmod(top, 0o755);
    // Root may look everywhere: the process that looks becomes nobody first.
    const output = await project.node('--input-type=module', '--eval', `
        import { nodeHost } from 'runcontext/hosts/node';
        if (process.getuid() === 0) { process.setegid(65534); process.seteuid(65534); }
        const paths = ['closed', 'closed/inner', 'closed/new', 'ws/to-closed', 'ws/to-closed/x', 'ws/to-closed-new', 'no/../closed/x', 'outside/secret'];
        process.stdout.write(JSON.stringify(await nodeHost().resolvePaths(${JSON.stringify(top)}, paths)));
    `);
    await chmod(`${top}/closed`, 0o755);
    const closed = { unresolved: 'leads through a directory that may not be searched' };
    const [itself, ...below] = JSON.parse(output);
    assert.deepEqual(itself, { canonical: `${top}/closed` });
    assert.deepEqual(below, [closed, closed, closed, closed, closed, closed, { canonical: `${top}/outside/secret` }]);
});

if (existsSync('/proc/self/fd')) {
    test('a link of /proc whose text names nothing is unresolved: the system follows it to somewhere else', async () => {
        const script = `
            import { nodeHost } from 'runcontext/hosts/node';
            process.stdout.write(JSON.stringify(await nodeHost().resolvePaths('/proc/self', ['fd/0', './fd/0', 'exe'])));
        `;
        const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { cwd: project.folder, stdio: ['pipe', 'pipe', 'inherit'] });
        let output = '';
        for await (const chunk of child.stdout) output += chunk;
        const odd = { unresolved: 'cannot be looked at: it is a link that only the system can follow' };
        assert.deepEqual(JSON.parse(output), [odd, odd, { canonical: await realpath(process.execPath) }]);
    });
}

test('the folders are those that were given; the working directory is that of the process where none is', async () => {
    const given = { cwd: '/a', workspaceRoot: '/b', dataDir: '/c' };
    const { resolvePaths, resolvePathsSync, ...told } = nodeHost(given);
    assert.deepEqual(told, { ...given, pathStyle: 'posix' });
    assert.deepEqual([typeof resolvePaths, typeof resolvePathsSync], ['function', 'function']);
    for (const options of [undefined, null, {}, { cwd: null, workspaceRoot: undefined }]) {
        const { resolvePaths, resolvePathsSync, ...told } = nodeHost(options);
        assert.deepEqual(told, { cwd: process.cwd(), pathStyle: 'posix' });
    }
});

test('resolvePaths needs no `this`', async () => {
    const { resolvePaths } = host;
    assert.deepEqual(await resolvePaths(host.cwd, ['docs']), [{ canonical: `${top}/home/keys` }]);
});

test('options of the wrong type and relative folders are typed errors that name the field', () => {
    for (const [options, field] of [
        [7, 'options'], ['/a', 'options'], [[], 'options'], [new Map(), 'options'], [{ cwd: 'a' }, 'options.cwd'], [{ cwd: '' }, 'options.cwd'],
        [{ cwd: 7 }, 'options.cwd'], [{ workspaceRoot: './a' }, 'options.workspaceRoot'], [{ dataDir: {} }, 'options.dataDir'],
        [{ dataDir: '/a\0' }, 'options.dataDir'], [{ cwd: '/\ud800' }, 'options.cwd'], [{ get cwd() { throw new Error('mine'); } }, 'options.cwd'],
    ]) {
        assert.throws(() => nodeHost(options), (error) => {
            assert.ok(error instanceof RunContextError);
            assert.equal(error.code, 'invalid_argument');
            assert.deepEqual(error.data, { field });
            assert.ok(error.message.startsWith(`\`${field}\` `), error.message);
            return true;
        });
    }
});

test('a process whose working directory is gone has to name one', async () => {
    const gone = path.join(top, 'gone');
    await mkdir(gone);
    const output = await project.node('--input-type=module', '--eval', `
        import { rmdirSync } from 'node:fs';
        import { nodeHost } from 'runcontext/hosts/node';
        process.chdir(${JSON.stringify(gone)});
        rmdirSync(${JSON.stringify(gone)});
        const told = [];
        try { nodeHost(); } catch (error) { told.push(error.name, error.code, error.data.field); }
        told.push(nodeHost({ cwd: '/' }).cwd);
        process.stdout.write(JSON.stringify(told));
    `);
    assert.deepEqual(JSON.parse(output), ['RunContextError', 'invalid_argument', 'options.cwd', '/']);
});

test('on Windows it speaks the style of Windows', async () => {
    // Only what is decided before anybody looks at the disk: this is no Windows.
    const output = await project.node('--input-type=module', '--eval', `
        import { nodeHost } from 'runcontext/hosts/node';
        Object.defineProperty(process, 'platform', { value: 'win32' });
        const host = nodeHost({ cwd: 'C:\\\\ws' });
        const told = [host.pathStyle];
        try { nodeHost({ cwd: '/ws' }); } catch (error) { told.push(error.code); }
        told.push(...await host.resolvePaths(host.cwd, ['C:x', '\\\\\\\\?\\\\C:\\\\x', 'nul.txt', 'x.', '\\\\\\\\server', 'x']));
        process.stdout.write(JSON.stringify(told));
    `);
    const name = { unresolved: 'has a name that Windows refuses or changes' };
    assert.deepEqual(JSON.parse(output), [
        'windows', 'invalid_argument', { unresolved: 'is relative to the working directory of a drive' }, { unresolved: 'is a device path' }, name, name,
        { unresolved: 'names no share of a server' }, { unresolved: 'has a root that does not exist' },
    ]);
});

test('a runtime takes it as its host', async () => {
    const output = await project.node('--input-type=module', '--eval', `
        import { Runtime } from 'runcontext';
        import { nodeHost } from 'runcontext/hosts/node';
        const runtime = await Runtime.open({ storage: 'memory', host: nodeHost({ cwd: '/ws' }) });
        const session = await runtime.createSession();
        process.stdout.write(JSON.stringify(session.header.cwd));
    `);
    assert.equal(JSON.parse(output), '/ws');
});

test('the example of its types runs as it is written', async () => {
    const folder = path.join(project.folder, 'example');
    await mkdir(folder);
    await writeFile(path.join(folder, 'example.mjs'), await documented(path.join(project.folder, 'node_modules/runcontext/hosts/node.d.ts')));
    const output = await project.node('--input-type=module', '--eval', `
        const told = [];
        console.log = (value) => told.push(value);
        process.chdir('example');
        await import('./example/example.mjs');
        process.stdout.write(JSON.stringify(told));
    `);
    assert.deepEqual(JSON.parse(output), [
        { canonical: path.join(await realpath(folder), 'notes/new.txt') },
        { canonical: path.join(await realpath('/etc'), 'passwd') },
    ]);
});
