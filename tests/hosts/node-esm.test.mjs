// The packed package in an empty project, used from Node as an ES module.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';

import { installed, tarball } from '../support/project.mjs';

let project;
before(async () => {
    project = await installed();
});
after(() => project?.remove());

/** Runs a module in the project and gives what it returned. */
async function run(body) {
    const output = await project.node('--input-type=module', '--eval', `
        const result = await (async () => { ${body} })();
        process.stdout.write('\\n' + JSON.stringify(result));
    `);
    return JSON.parse(output.split('\n').at(-1));
}

test('the tarball holds exactly one .wasm, and the texts of the project', async () => {
    const { stdout } = await promisify(execFile)('tar', ['-tzf', await tarball()]);
    const files = stdout.trim().split('\n');
    assert.deepEqual(files.filter((file) => file.endsWith('.wasm')), ['package/runcontext.wasm']);
    for (const name of ['README.md', 'CHANGELOG.md', 'LICENSE-MIT', 'LICENSE-APACHE', 'index.d.ts']) {
        assert.ok(files.includes(`package/${name}`), name);
    }
});

test('the import alone suffices', async () => {
    const text = await run(`
        const { renderSystemPrompt } = await import('runcontext');
        return renderSystemPrompt([{ name: 'preamble', content: 'Be brief.' }]);
    `);
    assert.equal(text, 'Be brief.');
});

test('the version is that of the package', async () => {
    const { version } = JSON.parse(await readFile(`${project.folder}/node_modules/runcontext/package.json`, 'utf8'));
    assert.equal(await run(`return (await import('runcontext')).version;`), version);
});

test('what was saved leaves no timer behind, and a process that has nothing more to do ends', async () => {
    const timers = await run(`
        const { Runtime } = await import('runcontext');
        const runtime = await Runtime.open({ storage: 'memory' });
        const session = await runtime.createSession({ id: 's' });
        await session.setTitle('T');
        return process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout');
    `);
    assert.deepEqual(timers, []);
});

test('init() still works, twice and at once', async () => {
    const result = await run(`
        const { init, renderSystemPrompt } = await import('runcontext');
        const results = await Promise.all([init(), init()]);
        await init();
        renderSystemPrompt([]);
        return results.map((value) => value === undefined);
    `);
    assert.deepEqual(result, [true, true]);
});

test('init() takes bytes, a compiled module and a file address', async () => {
    for (const input of ['bytes', 'new WebAssembly.Module(bytes)', 'address', 'Promise.resolve(bytes)']) {
        const text = await run(`
            const { init, renderSystemPrompt } = await import('runcontext');
            const { readFileSync } = await import('node:fs');
            const address = new URL(import.meta.resolve('runcontext/wasm'));
            const bytes = readFileSync(address);
            await init(${input});
            return renderSystemPrompt([{ name: 'preamble', content: 'a' }]);
        `);
        assert.equal(text, 'a', input);
    }
});

test('init() with the address of a file that is not there rejects, and does nothing where the module already runs', async () => {
    const result = await run(`
        const { init, renderSystemPrompt, RunContextError } = await import('runcontext');
        const missing = new URL('file:///nope.wasm');
        const early = init(missing);
        const error = await early.catch((error) => error);
        renderSystemPrompt([]);
        return [error instanceof RunContextError, error.code, await init(missing) === undefined];
    `);
    assert.deepEqual(result, [true, 'module_failed', true]);
});

test('init() refuses what is no module, with a code, and can be called again', async () => {
    const result = await run(`
        const { init, renderSystemPrompt, RunContextError } = await import('runcontext');
        const codes = [];
        for (const input of [17, {}, null, new Uint8Array(8)]) {
            const error = await init(input).catch((error) => error);
            codes.push([error instanceof RunContextError, error.code]);
        }
        await init();
        return [codes, renderSystemPrompt([{ name: 'preamble', content: 'a' }])];
    `);
    const refused = [true, 'invalid_argument'];
    assert.deepEqual(result, [[refused, refused, refused, [true, 'module_failed']], 'a']);
});

test('an error is a RunContextError with a code, data and its own name', async () => {
    const result = await run(`
        const { renderSystemPrompt, RunContextError } = await import('runcontext');
        try {
            renderSystemPrompt('no sections');
            return 'no error';
        } catch (error) {
            const { name, code, data } = error;
            return [error instanceof RunContextError, error instanceof Error, name, code, typeof data, Object.keys(error)];
        }
    `);
    assert.deepEqual(result, [true, true, 'RunContextError', 'invalid_argument', 'object', ['code', 'data']]);
});
