// Runs the cases of `cases/*.mjs` where a test wants them: in a page, or in Node on the installed tarball.

import assert from 'node:assert/strict';
import { cp } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { launch } from './chromium.mjs';
import { openPage, servePackage } from './page.mjs';
import { installed } from './project.mjs';

const folder = fileURLToPath(new URL('./cases', import.meta.url));
const vectors = fileURLToPath(new URL('../vectors', import.meta.url));

const namesOf = async (file) => Object.keys((await import(`./cases/${file}.mjs`)).cases);

const CHROMIUM = { launch, serve: servePackage, open: openPage };

/** One test per case, in a real browser on IndexedDB. */
export async function inBrowser(files, { launch, serve, open } = CHROMIUM) {
    let browser, server;
    before(async () => {
        browser = await launch();
        server = await serve();
    });
    after(async () => {
        await browser?.close();
        await server?.close();
    });
    for (const file of files) {
        let page;
        for (const name of await namesOf(file)) {
            test(`${file}: ${name}`, async () => {
                page ??= await open(browser, server);
                try {
                    await page.run(async (file, name) => {
                        const { soon } = await import('/cases/check.mjs');
                        await soon((await import(`/cases/${file}.mjs`)).cases[name](), 'the end of the case', 30_000);
                    }, file, name);
                    assert.deepEqual(await page.unhandled(), []);
                } catch (error) {
                    // The next case gets a new page, whatever state this one is in.
                    await page.close();
                    page = undefined;
                    throw error;
                }
            });
        }
    }
}

/** Runs in the project: every case of the files named as arguments, each result as a line of JSON. */
const RUNNER = `
import * as rc from 'runcontext';
import * as kit from './cases/kit.mjs';
import { soon } from './cases/check.mjs';
kit.use(rc);
const unhandled = [];
process.on('unhandledRejection', (reason) => unhandled.push(String(reason)));
process.on('uncaughtException', (error) => unhandled.push(String(error)));
for (const file of process.argv.slice(2)) {
    const { cases } = await import('./cases/' + file + '.mjs');
    for (const [name, run] of Object.entries(cases)) {
        let problem = null;
        try {
            await soon(run(), 'the end of the case', 30_000);
        } catch (error) {
            problem = error?.stack ?? String(error);
        }
        await new Promise((resolve) => setTimeout(resolve));
        await new Promise((resolve) => setTimeout(resolve));
        if (unhandled.length > 0) problem ??= 'nobody handled ' + unhandled.splice(0).join('; ');
        process.stdout.write('\\n' + JSON.stringify({ file, name, problem }) + '\\n');
    }
}
process.exit(0);
`;

/** One test per case, in Node, on the packed tarball in a project of its own. */
export async function inNode(files) {
    let project;
    const results = new Map();
    before(async () => {
        project = await installed({ 'runner.mjs': RUNNER });
        await cp(folder, path.join(project.folder, 'cases'), { recursive: true });
        await cp(vectors, path.join(project.folder, 'vectors'), { recursive: true });
        const output = await project.node('runner.mjs', ...files);
        for (const line of output.split('\n')) {
            if (!line.startsWith('{"file"')) continue;
            const { file, name, problem } = JSON.parse(line);
            results.set(`${file}: ${name}`, problem);
        }
    });
    after(() => project?.remove());
    for (const file of files) {
        for (const name of await namesOf(file)) {
            test(`${file}: ${name}`, () => {
                assert.ok(results.has(`${file}: ${name}`), 'it was not run');
                const problem = results.get(`${file}: ${name}`);
                if (problem !== null) throw new Error(problem);
            });
        }
    }
}
