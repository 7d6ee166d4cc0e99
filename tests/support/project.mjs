// The packed package, as a user gets it.

import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

const exec = promisify(execFile);

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The folder `pkg/`, by default as the last `cargo xtask build` left it. */
export const packageFolder = () => process.env.RUNCONTEXT_PKG ?? path.join(root, 'pkg');

/** The folder with real sessions and skills. It is no part of the project, and may be absent. */
export const dataFolder = () => process.env.RUNCONTEXT_DATA ?? path.join(root, '..', 'shared', 'data');

/** The tarball that `cargo xtask package` made; by hand, `pkg/` packed anew. */
export async function tarball() {
    return process.env.RUNCONTEXT_TARBALL ?? (packed ??= await pack());
}

let packed;
async function pack() {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'runcontext-tarball-'));
    process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
    const { stdout } = await exec('npm', ['pack', '--json', '--pack-destination', folder, packageFolder()]);
    return path.join(folder, JSON.parse(stdout)[0].filename);
}

/** The folder with what the tests install from npm. */
export const testPackages = fileURLToPath(new URL('../node_modules', import.meta.url));

/**
 * An empty project with the tarball installed in it, without a network and without scripts.
 *
 * @param {Record<string, string>} files further files, by path
 */
export async function installed(files = {}) {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'runcontext-project-'));
    await writeFile(path.join(folder, 'package.json'), '{ "private": true, "type": "module" }\n');
    for (const [name, content] of Object.entries(files)) await writeFile(path.join(folder, name), content);
    const flags = ['--offline', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
    await exec('npm', ['install', ...flags, await tarball()], { cwd: folder });
    return {
        folder,
        /** Runs Node there and gives what it printed. */
        async node(...args) {
            const { stdout } = await exec(process.execPath, args, { cwd: folder });
            return stdout;
        },
        /** Imports a module into this process, by the name that it has for the project. */
        import: (name) => import(pathToFileURL(createRequire(path.join(folder, 'any.js')).resolve(name)).href),
        /** Runs the TypeScript compiler there; its complaints are the error's message. */
        async tsc(...args) {
            const compiler = path.join(testPackages, 'typescript', 'bin', 'tsc');
            await exec(process.execPath, [compiler, ...args], { cwd: folder }).catch((error) => {
                throw new Error(error.stdout || error.message);
            });
        },
        remove: () => rm(folder, { recursive: true, force: true }),
    };
}
