// Session files in Node, on the packed tarball: real conversations come in and go out whole, hostile lines do not come in, and
// a long file needs no more memory than a short one.

import assert from 'node:assert/strict';
import { cp } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { installed } from '../support/project.mjs';
import { HEADER, conversations, fileOf, fullHeader, hostileLines, skip } from '../support/session_files.mjs';

if (skip) console.log(`SKIPPED: transfer: ${skip}`);

let project, rc;
before(async () => {
    project = await installed();
    await cp(fileURLToPath(new URL('../support/cases', import.meta.url)), path.join(project.folder, 'cases'), { recursive: true });
    rc = await import(pathToFileURL(path.join(project.folder, 'node_modules', 'runcontext', 'node.js')));
});
after(() => project?.remove());

const exported = async (runtime, id) =>
    (await new Response(runtime.exportSession(id)).text()).trimEnd().split('\n').map((line) => JSON.parse(line));

test('real conversations go out as they came in, with every field of the header', { skip }, async () => {
    for (const [name, messages] of Object.entries(conversations())) {
        const header = fullHeader(messages.length);
        const runtime = await rc.Runtime.open({ storage: 'memory' });
        const info = await runtime.importSession(fileOf(header, messages));
        assert.equal(info.messageCount, messages.length, name);
        assert.deepEqual(await exported(runtime, 'in'), [header, ...messages], name);
        const session = await runtime.openSession('in');
        const loaded = session.state.loadedFrom;
        assert.equal(JSON.stringify(session.messages), JSON.stringify(messages.slice(loaded)), name);
        assert.equal(session.permissionPreset, 'workspace-write');
        assert.equal('placement' in session.getRuntimeContexts()[0], false);

        const { id } = await runtime.importSession(runtime.exportSession('in'), { id: 'new' });
        assert.deepEqual(await exported(runtime, id), [{ ...header, id }, ...messages], name);
        await runtime.close();
    }
});

test('each hostile line is refused with its number, and nothing is stored', { skip }, async () => {
    const runtime = await rc.Runtime.open({ storage: 'memory' });
    const good = { role: 'user', content: 'Hello', timestamp: 1 };
    const lines = hostileLines();
    assert.equal(lines.length, 19);
    for (const line of lines) {
        await assert.rejects(
            runtime.importSession(`${fileOf(HEADER, [good])}${line}\n${JSON.stringify(good)}`),
            ({ code, data }) => code === 'import_invalid' && data.line === 3,
            line,
        );
    }
    assert.deepEqual(await runtime.listSessions({}), []);
    await runtime.close();
});

test('a file that ends in mid-line is refused wherever it ends', { skip }, async () => {
    const text = fileOf(HEADER, conversations().replay);
    const lines = text.trimEnd().split('\n');
    const last = lines.at(-1);
    const before = text.slice(0, text.length - last.length - 1);
    const runtime = await rc.Runtime.open({ storage: 'memory' });
    for (let length = 1; length < last.length; length += 7) {
        await assert.rejects(
            runtime.importSession(before + last.slice(0, length)),
            ({ code, data }) => code === 'import_invalid' && data.line === lines.length,
        );
    }
    assert.equal((await runtime.importSession(before + last)).messageCount, lines.length - 1);
    await runtime.close();
});

/** Runs in the project: imports messages of 10 kB and prints what is in use at most, of garbage freed, in bytes. */
const MEASURE = `
const memories = [];
const { Instance } = WebAssembly;
WebAssembly.Instance = function (...args) {
    const instance = new Instance(...args);
    memories.push(...Object.values(instance.exports).filter((it) => it instanceof WebAssembly.Memory));
    return instance;
};
const rc = await import('runcontext');
const { longFile } = await import('./cases/long_file.mjs');
const inner = rc.memoryStorage();
let bodies = 0;
// Keeps everything but the messages, which are counted.
const storage = { ...inner, session: (id) => {
    const session = inner.session(id);
    return { ...session, commit: (commit) => session.commit({ ...commit, records: commit.records.filter(({ store }) => {
        if (store === 'messages') bodies++;
        return store !== 'messages';
    }) }) };
} };
const runtime = await rc.Runtime.open({ storage });
const count = Number(process.argv[2]);
let peak = 0;
const measure = () => {
    // Twice: what the first one freed may hold bytes beside the heap.
    gc();
    gc();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    peak = Math.max(peak, heapUsed + arrayBuffers + memories.reduce((sum, { buffer }) => sum + buffer.byteLength, 0));
};
const info = await runtime.importSession(longFile(count, measure));
process.stdout.write(JSON.stringify({ count: info.messageCount, bodies, peak, memories: memories.length }));
process.exit(0);
`;

test('a file of 100 MB needs at most half as much memory again as one of 10 MB', async () => {
    const measured = [];
    for (const count of [1_000, 10_000]) {
        const output = await project.node('--expose-gc', '--input-type=module', '--eval', MEASURE, 'measure', String(count));
        const { peak, ...rest } = JSON.parse(output);
        assert.deepEqual(rest, { count, bodies: count, memories: 1 });
        measured.push(peak);
    }
    const [short, long] = measured;
    console.log(`memory: ${short} bytes for 10 MB, ${long} bytes for 100 MB`);
    assert.ok(long <= 1.5 * short, `${long} bytes after ${short}`);
});
