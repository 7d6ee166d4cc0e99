// The packed package, as a user gets it.

import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const exec = promisify(execFile);

function fromEnvironment(name) {
    const value = process.env[name];
    if (!value) throw new Error(`${name} is not set: run the tests with \`cargo xtask test\``);
    return value;
}

/** The tarball that `cargo xtask package` made. */
export const tarball = () => fromEnvironment('RUNCONTEXT_TARBALL');

/** The folder `pkg/`. */
export const packageFolder = () => fromEnvironment('RUNCONTEXT_PKG');

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
    await exec('npm', ['install', ...flags, tarball()], { cwd: folder });
    return {
        folder,
        /** Runs Node there and gives what it printed. */
        async node(...args) {
            const { stdout } = await exec(process.execPath, args, { cwd: folder });
            return stdout;
        },
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
