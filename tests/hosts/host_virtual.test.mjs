// `runcontext/hosts/virtual`: the same paths as on a disk, in memory, in the styles of posix and of Windows.

import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { documented } from '../support/documented.mjs';
import { installed } from '../support/project.mjs';

const LOOP = { unresolved: 'has too many links, or a loop of them' };
const NOT_A_DIRECTORY = { unresolved: 'uses a file as a directory' };
const NO_BASE = { unresolved: 'is relative, and its base is not an absolute path' };
const NO_ROOT = { unresolved: 'has a root that does not exist' };
const DEVICE = { unresolved: 'is a device path' };
const DRIVE_RELATIVE = { unresolved: 'is relative to the working directory of a drive' };
const NO_SHARE = { unresolved: 'names no share of a server' };
const WINDOWS_NAME = { unresolved: 'has a name that Windows refuses or changes' };

let project, link, virtualHost, RunContextError;
before(async () => {
    project = await installed();
    ({ link, virtualHost } = await project.import('runcontext/hosts/virtual'));
    ({ RunContextError } = await project.import('runcontext'));
});
after(() => project?.remove());

/** Where paths lead: what is a text stands for a canonical path. */
function leads(host, expected, base = host.cwd) {
    const wanted = Object.values(expected).map((to) => (typeof to === 'string' ? { canonical: to } : to));
    assert.deepEqual(host.resolvePaths(base, Object.keys(expected)), wanted);
}

/** A call is refused with a code, and says of what. */
function refuses(work, code, data, message) {
    assert.throws(work, (error) => {
        assert.ok(error instanceof RunContextError, String(error));
        assert.deepEqual([error.code, error.data], [code, data]);
        if (message !== undefined) assert.equal(error.message, message);
        return true;
    });
}

const posix = (options) =>
    virtualHost({
        cwd: '/ws',
        tree: {
            ws: {
                'notes.txt': 'a note', src: { 'main.js': '' }, docs: link('../home/keys'), absolute: link('/outside'), into: link('../outside/inner'),
                fresh: link('/outside/not-yet'), 'fresh-twice': link('fresh'), 'fresh-above': link('../outside/gone/../other'), loop: link('back'),
                back: link('loop'), 'to-file-as-directory': link('notes.txt/'), here: link('.'),
            },
            outside: { inner: {}, secret: 'x' },
            home: { keys: { id: 'x' } },
        },
        ...options,
    });

test('what exists is resolved, and what does not is its nearest existing ancestor plus the rest', () =>
    leads(posix(), {
        'notes.txt': '/ws/notes.txt', 'src//./main.js': '/ws/src/main.js', 'docs/id': '/home/keys/id', absolute: '/outside', 'here/here/src/': '/ws/src',
        new: '/ws/new', 'new/': '/ws/new', 'docs/new/file': '/home/keys/new/file', '/': '/', '//ws': '/ws', '../../..': '/',
        'new/../x': '/ws/x', 'new/../docs/new': '/home/keys/new', '': '/ws', '.': '/ws', '~': '/ws/~', 'a\\b': '/ws/a\\b',
    }));

test('`..` after a link is where the link led', () =>
    leads(posix(), { 'into/..': '/outside', 'into/../secret': '/outside/secret', 'into/../../ws/new': '/ws/new', 'docs/../..': '/' }));

test('a link to what does not exist yet leads there', () =>
    leads(posix(), {
        fresh: '/outside/not-yet', 'fresh-twice': '/outside/not-yet', 'fresh/x': '/outside/not-yet/x', 'fresh/..': '/outside', 'fresh-above': '/outside/other',
        'new/../fresh': '/outside/not-yet',
    }));

test('loops and files used as directories are unresolved', () =>
    leads(posix(), {
        loop: LOOP, 'loop/..': LOOP, 'notes.txt/': NOT_A_DIRECTORY, 'notes.txt/.': NOT_A_DIRECTORY, 'notes.txt/..': NOT_A_DIRECTORY,
        'notes.txt/x': NOT_A_DIRECTORY, 'to-file-as-directory': NOT_A_DIRECTORY,
    }));

test('40 links in one path are followed, 41 are not', () => {
    const ws = { end: {} };
    for (let at = 1; at <= 41; at++) ws[`l${at}`] = link(at === 1 ? 'end' : `l${at - 1}`);
    const host = virtualHost({ cwd: '/ws', tree: { ws } });
    leads(host, { l40: '/ws/end', 'l40/x': '/ws/end/x', l41: LOOP, 'l20/../l20': '/ws/end', 'l20/../l20/../l1': LOOP });
});

test('paths that are no paths are unresolved, and never an exception', () => {
    const host = posix();
    const odd = [undefined, null, 7, {}, ['notes.txt'], Symbol('x')];
    assert.deepEqual(host.resolvePaths('/ws', [...odd, 'a\0', '\ud800', 'x'.repeat(32_768), 'notes.txt']), [
        ...odd.map(() => ({ unresolved: 'is no text' })), { unresolved: 'holds a NUL' }, { unresolved: 'holds half of a surrogate pair' },
        { unresolved: 'is too long' }, { canonical: '/ws/notes.txt' },
    ]);
    for (const base of [null, 7, 'ws', '', 'C:\\ws']) leads(host, { '/ws/docs': '/home/keys', docs: NO_BASE }, base);
    for (const none of [undefined, null, 'x', 7, {}]) assert.deepEqual(host.resolvePaths('/ws', none), []);
});

test('names of what every object has are names like others', () => {
    const host = virtualHost({ cwd: '/', tree: JSON.parse('{ "__proto__": { "x": "y" }, "constructor": "z" }') });
    leads(host, { '__proto__/x': '/__proto__/x', 'constructor/x': NOT_A_DIRECTORY, 'toString/x': '/toString/x', hasOwnProperty: '/hasOwnProperty' });
    assert.equal(host.read('__proto__/x'), 'y');
    host.write('toString', 'mine');
    assert.equal(host.read('toString'), 'mine');
});

test('where case does not count, what exists comes back as it is stored, and what does not as it was asked for', () => {
    const host = posix({ caseSensitive: false });
    leads(host, {
        'NOTES.TXT': '/ws/notes.txt', 'Src/MAIN.JS': '/ws/src/main.js', 'DOCS/ID': '/home/keys/id', '/WS': '/ws', 'SRC/New.js': '/ws/src/New.js',
        '/HOME/\u212aeys/id': '/home/keys/id', '/out\u017fide/\u017fecret': '/outside/secret',
    });
    leads(posix(), { 'NOTES.TXT': '/ws/NOTES.TXT', '/WS/docs/id': '/WS/docs/id' });
    host.write('Notes.txt', 'another');
    assert.equal(host.read('notes.TXT'), 'another');
    leads(host, { 'nOTES.txt': '/ws/notes.txt' });
});

test('case is all that is folded: composed and decomposed letters are two names', () => {
    const host = virtualHost({ cwd: '/', caseSensitive: false, tree: { '\u00e9': 'composed', 'e\u0301': 'decomposed' } });
    assert.deepEqual([host.read('\u00c9'), host.read('E\u0301')], ['composed', 'decomposed']);
});

test('files are written, read, linked and removed, through links, while it runs', () => {
    const host = posix();
    assert.equal(host.read('docs/id'), 'x');
    host.write('docs/id', 'changed');
    assert.equal(host.read('/home/keys/id'), 'changed');
    host.write('new/deep/file', 'made');
    assert.equal(host.read('/ws/new/deep/file'), 'made');
    host.write('fresh', 'through the link');
    assert.equal(host.read('/outside/not-yet'), 'through the link');
    host.mkdir('new/other');
    host.mkdir('new/other');
    leads(host, { 'new/other/..': '/ws/new', 'new/deep/file/x': NOT_A_DIRECTORY });

    host.link('logs', '/var/log');
    leads(host, { 'logs/x': '/var/log/x' });
    host.link('logs', '../etc');
    leads(host, { 'logs/x': '/etc/x', logs: '/etc' });
    host.link('made/on/the/way', '/etc');
    leads(host, { 'made/on/the/way/x': '/etc/x' });
    host.remove('logs');
    leads(host, { 'logs/x': '/ws/logs/x' });

    assert.deepEqual(host.list('new'), ['deep', 'other']);
    assert.deepEqual(host.list('into/..'), ['inner', 'not-yet', 'secret']);
    host.list('src').push('x');
    assert.deepEqual([host.list('src'), host.list('/outside/inner')], [['main.js'], []]);

    host.remove('docs');
    assert.equal(host.read('/home/keys/id'), 'changed');
    host.remove('/home/keys');
    refuses(() => host.read('/home/keys/id'), 'not_found', { path: '/home/keys/id' }, '`/home/keys/id` does not exist');
    host.remove('loop');
    leads(host, { loop: '/ws/loop', back: '/ws/loop' });
});

test('bytes are copies on their way in and out, and a text stays the text that it was', () => {
    const first = Uint8Array.of(1, 2);
    const second = Uint8Array.of(3);
    const host = virtualHost({ cwd: '/', tree: { first } });
    host.write('second', second);
    first[0] = second[0] = 9;
    host.read('first')[1] = 9;
    assert.deepEqual([host.read('first'), host.read('second')], [Uint8Array.of(1, 2), Uint8Array.of(3)]);
    host.write('text', '\ud800');
    assert.equal(host.read('text'), '\ud800');
});

test('two hosts made of one tree, and the tree itself, do not change each other', () => {
    const tree = { ws: { docs: link('/a') } };
    const hosts = [virtualHost({ cwd: '/ws', tree }), virtualHost({ cwd: '/ws', tree })];
    hosts[0].link('docs', '/b');
    hosts[0].write('x', 'y');
    tree.ws.docs = link('/c');
    assert.throws(() => { 'use strict'; tree.ws.docs.target = 7; }, TypeError);
    leads(hosts[0], { docs: '/b' });
    leads(hosts[1], { docs: '/a' });
    refuses(() => hosts[1].read('x'), 'not_found', { path: 'x' });
});

test('what cannot be done is a typed error, and changes nothing', () => {
    const host = posix();
    const field = { field: 'path' };
    refuses(() => host.write('src', 'x'), 'invalid_argument', field, '`src` is a directory');
    refuses(() => host.write('new/', 'x'), 'invalid_argument', field, '`new/` is a directory');
    refuses(() => host.write('notes.txt/x', 'x'), 'invalid_argument', field, '`notes.txt/x` uses a file as a directory');
    refuses(() => host.write('loop', 'x'), 'invalid_argument', field, '`loop` has too many links, or a loop of them');
    refuses(() => host.write('x', 7), 'invalid_argument', { field: 'content' }, '`content` must be a text or a Uint8Array');
    refuses(() => host.write('x', link('y')), 'invalid_argument', { field: 'content' });
    refuses(() => host.write(7, 'x'), 'invalid_argument', field, '`path` is no text');
    refuses(() => host.mkdir('notes.txt'), 'invalid_argument', field, '`notes.txt` is a file, or below one');
    refuses(() => host.link('notes.txt', '/etc'), 'invalid_argument', field, '`notes.txt` exists, and is no link');
    refuses(() => host.link('src', '/etc'), 'invalid_argument', field);
    refuses(() => host.link('notes.txt/x', '/etc'), 'invalid_argument', field);
    refuses(() => host.link('x', ''), 'invalid_argument', { field: 'target' }, '`target` is empty');
    refuses(() => host.link('x', 'a\0'), 'invalid_argument', { field: 'target' });
    refuses(() => host.link('x/..', '/etc'), 'invalid_argument', field, '`x/..` does not end in a name');
    refuses(() => host.remove('/'), 'invalid_argument', field, '`/` does not end in a name');
    refuses(() => host.remove('src/.'), 'invalid_argument', field);
    for (const path of ['x', 'no/notes.txt', 'notes.txt/x']) refuses(() => host.remove(path), 'not_found', { path });
    refuses(() => host.read('src'), 'invalid_argument', field, '`src` is a directory');
    refuses(() => host.read('fresh'), 'not_found', { path: 'fresh' });
    refuses(() => host.list('notes.txt'), 'invalid_argument', field, '`notes.txt` is a file');
    refuses(() => host.list('fresh'), 'not_found', { path: 'fresh' });
    refuses(() => host.read('a\0'), 'invalid_argument', field);
    assert.equal(host.read('notes.txt'), 'a note');
    leads(host, { x: '/ws/x', 'x/y': '/ws/x/y', new: '/ws/new', 'src/main.js': '/ws/src/main.js' });
});

const windows = (options) =>
    virtualHost({
        cwd: 'C:\\ws',
        pathStyle: 'windows',
        tree: {
            'C:': {
                ws: {
                    'Notes.txt': 'a note', Src: { 'Main.js': '' }, docs: link('..\\Home'), absolute: link('c:/Outside'), rooted: link('\\Outside'),
                    share: link('\\\\Server\\Share\\data'), into: link('..\\Outside\\inner'), fresh: link('D:\\new'), loop: link('loop'), 'C#': {},
                    device: link('\\\\?\\C:\\Outside'), nowhere: link('E:\\x'),
                },
                Outside: { inner: {}, secret: 'x' },
                Home: {},
            },
            'd:\\': {},
            '//Server/Share': { data: { Deep: {} } },
        },
        ...options,
    });

test('on windows style both separators count, case does not, and paths come back with the style’s own separator', () =>
    leads(windows(), {
        'notes.TXT': 'C:\\ws\\Notes.txt', 'src/main.js': 'C:\\ws\\Src\\Main.js', 'SRC\\new.js': 'C:\\ws\\Src\\new.js', 'c:/WS/src/': 'C:\\ws\\Src',
        'c:\\': 'C:\\', 'C:/': 'C:\\', '': 'C:\\ws', '.': 'C:\\ws', '..': 'C:\\', '..\\..\\..': 'C:\\', 'D:\\New\\x': 'D:\\New\\x', 'd:/': 'D:\\',
        '\\outside\\SECRET': 'C:\\Outside\\secret', '/outside': 'C:\\Outside', '%2e%2e': 'C:\\ws\\%2e%2e', '~': 'C:\\ws\\~', 'c#\\x': 'C:\\ws\\C#\\x',
    }));

test('on windows style links lead to drives, to shares, and from the root of their own drive', () => {
    leads(windows(), {
        docs: 'C:\\Home', 'absolute/new': 'C:\\Outside\\new', 'rooted\\secret': 'C:\\Outside\\secret', 'share\\deep': '\\\\Server\\Share\\data\\Deep',
        fresh: 'D:\\new', 'fresh\\x': 'D:\\new\\x', loop: LOOP, device: DEVICE, nowhere: NO_ROOT, 'notes.txt\\x': NOT_A_DIRECTORY,
        'notes.txt\\': NOT_A_DIRECTORY,
    });
});

test('on windows style `..` is taken out before links are looked for, as Windows does', () =>
    leads(windows(), { 'into\\..\\secret': 'C:\\ws\\secret', 'into/../../outside/secret': 'C:\\Outside\\secret', 'notes.txt\\..\\x': 'C:\\ws\\x', 'no\\..\\..': 'C:\\' }));

test('on windows style a share is a root, and nothing is above it', () => {
    leads(windows(), {
        '\\\\server\\SHARE': '\\\\Server\\Share\\', '//server/share/data/deep/x': '\\\\Server\\Share\\data\\Deep\\x', '\\\\server\\share\\..\\..': '\\\\Server\\Share\\',
        '\\\\server\\other\\x': NO_ROOT, '\\\\server': NO_SHARE, '\\\\': NO_SHARE, '\\\\server\\': NO_SHARE, '\\\\\\server\\share': NO_SHARE, 'E:\\x': NO_ROOT,
    });
    leads(windows(), { '\\data': '\\\\Server\\Share\\data', x: '\\\\Server\\Share\\data\\x' }, '//server/share/data');
});

test('on windows style what names no plain file is unresolved', () => {
    const paths = {};
    for (const path of ['\\\\?\\C:\\ws', '\\\\.\\C:', '//?/C:/ws', '//./pipe/x', '\\??\\C:\\ws', '\\\\?\\UNC\\server\\share']) paths[path] = DEVICE;
    for (const path of ['C:', 'C:x', 'c:..\\x', 'a:b']) paths[path] = DRIVE_RELATIVE;
    for (const name of ['x.', 'x ', '...', 'Notes.txt::$DATA', 'no:stream', 'a?', 'a*', 'a<b', 'a>b', 'a|b', 'a"b', 'a\u0001', 'NUL', 'con.txt', 'Aux', 'com1', 'LPT9.x', 'com\u00b9', 'prn .x', 'conin$']) {
        paths[`src\\${name}\\y`] = WINDOWS_NAME;
    }
    paths['\\\\server.\\share'] = WINDOWS_NAME;
    leads(windows(), paths);
    leads(windows(), { 'console.txt': 'C:\\ws\\console.txt', com10: 'C:\\ws\\com10', '.env': 'C:\\ws\\.env', 'a.b': 'C:\\ws\\a.b', 'nul-1': 'C:\\ws\\nul-1' });
});

test('on windows style a base has to have a root, too', () => {
    for (const base of ['ws', '\\ws', '/ws', 'C:ws', '\\\\?\\C:\\ws']) leads(windows(), { 'C:\\WS': 'C:\\ws', x: NO_BASE, '\\x': NO_BASE }, base);
});

test('on windows style files are written and removed by any of their spellings', () => {
    const host = windows({ caseSensitive: true });
    leads(host, { 'notes.txt': 'C:\\ws\\notes.txt', 'Notes.txt': 'C:\\ws\\Notes.txt', 'c:\\ws': 'C:\\ws' });
    const loose = windows();
    loose.write('SHARE/new/file', 'x');
    assert.equal(loose.read('\\\\server\\share\\DATA\\New\\FILE'), 'x');
    loose.remove('//server/share/data');
    leads(loose, { 'share\\deep': '\\\\Server\\Share\\data\\deep' });
    refuses(() => loose.write('E:\\x', 'x'), 'invalid_argument', { field: 'path' }, '`E:\\x` has a root that does not exist');
    refuses(() => loose.write('x.', 'x'), 'invalid_argument', { field: 'path' });
    refuses(() => loose.remove('C:\\'), 'invalid_argument', { field: 'path' });
});

test('the folders are those that were given, and the style is told', () => {
    const given = { cwd: '/ws', workspaceRoot: '/', dataDir: '/data' };
    const told = ({ cwd, workspaceRoot, dataDir, pathStyle }) => ({ cwd, workspaceRoot, dataDir, pathStyle });
    assert.deepEqual(told(virtualHost({ ...given, tree: {} })), { ...given, pathStyle: 'posix' });
    assert.equal('dataDir' in posix({ dataDir: null }), false);
    assert.equal(windows().pathStyle, 'windows');
});

test('options of the wrong type are typed errors that name the field', () => {
    const good = { cwd: '/', tree: {} };
    const deep = {};
    deep.again = deep;
    const inner = 'options.tree.a';
    for (const [options, field] of [
        [undefined, 'options.cwd'], [7, 'options'], [{ tree: {} }, 'options.cwd'], [{ ...good, cwd: 'ws' }, 'options.cwd'], [{ ...good, cwd: 'C:\\' }, 'options.cwd'],
        [{ ...good, dataDir: 7 }, 'options.dataDir'], [{ ...good, pathStyle: 'win32' }, 'options.pathStyle'], [{ ...good, caseSensitive: 1 }, 'options.caseSensitive'],
        [{ cwd: '/' }, 'options.tree'], [{ ...good, tree: [] }, 'options.tree'], [{ ...good, tree: 'x' }, 'options.tree'], [{ ...good, tree: new Map() }, 'options.tree'],
        [{ ...good, tree: { a: 7 } }, inner], [{ ...good, tree: { a: { b: null } } }, `${inner}.b`], [{ ...good, tree: { a: { 'b/c': '' } } }, `${inner}["b/c"]`],
        [{ ...good, tree: { '': '' } }, 'options.tree[""]'], [{ ...good, tree: { '.': {} } }, 'options.tree["."]'], [{ ...good, tree: { '..': {} } }, 'options.tree[".."]'],
        [{ ...good, tree: { 'a\0': {} } }, 'options.tree["a\\u0000"]'], [{ ...good, tree: { a: new Uint16Array(1) } }, inner],
        [{ ...good, tree: { a: '', A: '' }, caseSensitive: false }, 'options.tree.A'], [{ ...good, tree: deep }, `options.tree${'.again'.repeat(129)}`],
        [{ pathStyle: 'windows', cwd: '/', tree: {} }, 'options.cwd'], [{ pathStyle: 'windows', cwd: 'C:\\', tree: { ws: {} } }, 'options.tree.ws'],
        [{ pathStyle: 'windows', cwd: 'C:\\', tree: { 'C:\\ws': {} } }, 'options.tree["C:\\\\ws"]'], [{ pathStyle: 'windows', cwd: 'C:\\', tree: { 'C:': {}, 'c:\\': {} } }, 'options.tree["c:\\\\"]'],
        [{ pathStyle: 'windows', cwd: 'C:\\', tree: { 'C:': 'x' } }, 'options.tree["C:"]'], [{ pathStyle: 'windows', cwd: 'C:\\', tree: { 'C:': { 'x.': '' } } }, 'options.tree["C:"]["x."]'],
    ]) {
        refuses(() => virtualHost(options), 'invalid_argument', { field });
    }
    for (const target of [undefined, 7, '', 'a\0', '\ud800', {}]) refuses(() => link(target), 'invalid_argument', { field: 'target' });
});

test('the modules of all hosts export what their types say, and can be imported side by side by name', async () => {
    const output = await project.node('--input-type=module', '--eval', `
        const names = {};
        for (const name of ['node', 'opfs', 'virtual']) names[name] = Object.keys(await import('runcontext/hosts/' + name));
        process.stdout.write(JSON.stringify(names));
    `);
    assert.deepEqual(JSON.parse(output), { node: ['nodeHost'], opfs: ['opfsHost'], virtual: ['link', 'virtualHost'] });
});

test('the example of its types runs as it is written', async () => {
    const folder = path.join(project.folder, 'example');
    await mkdir(folder);
    await writeFile(path.join(folder, 'example.mjs'), await documented(path.join(project.folder, 'node_modules/runcontext/hosts/virtual.d.ts')));
    const output = await project.node('--input-type=module', '--eval', `
        const told = [];
        console.log = (value) => told.push(value);
        await import('./example/example.mjs');
        process.stdout.write(JSON.stringify(told));
    `);
    assert.deepEqual(JSON.parse(output), [
        [{ canonical: '/ws/notes.txt' }, { canonical: '/var/log/today' }, { canonical: '/var/secret' }],
        'all quiet',
    ]);
});
