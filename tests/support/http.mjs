// The HTTP routes, asked as a client does; and the servers of the README, each a process of its own.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { createRequire } from 'node:module';
import path from 'node:path';
import { createInterface } from 'node:readline';

import { testPackages } from './project.mjs';

/**
 * Asks the routes below a URL, and looks at what every answer has to have.
 *
 * @param {string} url
 * @param {string} token
 */
export const client = (url, token = 'all') => async (method, at, body, headers = {}) => {
    const isRaw = typeof body === 'string' || body instanceof Uint8Array || body instanceof ReadableStream;
    const response = await fetch(url + at, {
        method, body: body === undefined || isRaw ? body : JSON.stringify(body), duplex: 'half',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
        // None hangs.
        signal: AbortSignal.timeout(60_000),
    });
    return seen(response.status, Object.fromEntries(response.headers), await response.text(), method);
};

function seen(status, headers, text, method) {
    assert.equal(headers['content-type'], 'application/json', `${status} ${text}`);
    assert.equal(headers['cache-control'], 'no-store');
    assert.deepEqual(Object.keys(headers).filter((name) => name.startsWith('access-control')), []);
    assert.equal('allow' in headers, status === 405);
    const body = text === '' ? undefined : JSON.parse(text);
    assert.equal(body === undefined, status === 204 || method === 'HEAD');
    if (status >= 400 && body !== undefined) {
        assert.deepEqual(Object.keys(body), ['error']);
        assert.match(body.error.code, /^[a-z_]+$/);
        assert.equal(typeof body.error.message, 'string');
    }
    return { status, body, allow: headers.allow };
}

/**
 * Sends exactly this, and gives the status of the answer; undefined where the server hangs up.
 *
 * @param {string} url
 * @param {string | Uint8Array} request
 * @returns {Promise<number | undefined>}
 */
export function raw(url, request) {
    const { hostname, port } = new URL(url);
    return new Promise((resolve, reject) => {
        let said = '';
        const socket = connect(Number(port), hostname, () => socket.write(request));
        socket.on('data', (data) => {
            said += data;
            const [, status] = /^HTTP\/1\.[01] (\d{3})/.exec(said) ?? [];
            if (status === undefined) return;
            socket.destroy();
            resolve(Number(status));
        });
        socket.once('close', () => resolve(undefined));
        socket.once('error', (error) => (error.code === 'ECONNRESET' || error.code === 'EPIPE' ? resolve(undefined) : reject(error)));
    });
}

/** Code that makes a project `p`, its ticket `t` and a job `j`, where they are not there since an earlier start. */
export const WORK = `
const there = ({ code }) => code === 'conflict' || Promise.reject(code);
await runtime.projects.createProject({ id: 'p', name: 'P', path: '/w/p' }).catch(there);
await runtime.projects.createTicket({ id: 't', project_id: 'p', title: 'T' }).catch(there);
await runtime.jobs.createJob({ id: 'j', name: 'J' }).catch(there);
`;

/** A worker that does so on the objects of `examples/worker`. */
export const WORKS = `
import { Runtime } from 'runcontext';
import { durableObjects } from 'runcontext/storage/durable-objects';
export default {
    async fetch(request, env) {
        const runtime = await Runtime.open({ storage: durableObjects({ sessions: env.SessionObject, shared: env.SharedObject, directory: env.DirectoryObject }) });
        ${WORK}
        return Response.json(null);
    },
};
`;

/** The blocks of the README's part about HTTP: the runtime, and the servers for Node, Deno and Bun. */
export async function documented() {
    const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8');
    const [, part] = readme.split('\n## Over HTTP\n');
    return [...part.split('\n## ')[0].matchAll(/```js\n([\s\S]*?)```/g)].map(([, code]) => code);
}

/** Binaries that are in npm packages, as `[package, file, arguments]`. */
const PROGRAMS = {
    deno: [`@deno/linux-${process.arch}-glibc`, 'deno', ['run', '--quiet', '--no-remote', '--node-modules-dir=manual', '--allow-net=127.0.0.1', '--allow-read=.']],
    bun: [`@oven/bun-linux-${process.arch === 'arm64' ? 'aarch64' : process.arch}`, 'bin/bun', ['run']],
};

/** How `node`, `deno` or `bun` is started, or nothing where there is none for this machine. */
function program(kind) {
    if (kind === 'node') return [process.execPath, []];
    const [name, file, args] = PROGRAMS[kind];
    try {
        const found = createRequire(path.join(testPackages, 'any.js')).resolve(`${name}/package.json`);
        return [path.join(path.dirname(found), file), args];
    } catch {
        return undefined;
    }
}

/**
 * A server of the README in a project with the package.
 *
 * @param {{ folder: string }} project
 * @param {'node' | 'deno' | 'bun'} kind
 * @param {string} runtime code that makes `runtime`
 */
export async function served(project, kind, runtime) {
    const [, ...servers] = await documented();
    const code = { node: servers[0], deno: servers[1], bun: servers[2] }[kind];
    const port = { node: 'server.address().port', deno: 'server.addr.port', bun: 'server.port' }[kind];
    const [binary, args] = program(kind) ?? [];
    if (binary === undefined) return undefined;
    const file = path.join(project.folder, `${kind}.mjs`);
    const listening = kind === 'node' ? "await new Promise((resolve) => server.once('listening', resolve));" : '';
    // On this machine alone, and on a port that is free.
    assert.equal(code.split('8787').length, 2);
    const here = code.replace(kind === 'node' ? '8787' : 'port: 8787', kind === 'node' ? "0, '127.0.0.1'" : "port: 0, hostname: '127.0.0.1'");
    await writeFile(file, `${runtime}\n${here}\n${listening}\nconsole.log('at ' + ${port});\n`);
    const home = path.join(project.folder, 'home');
    await mkdir(home, { recursive: true });
    const child = spawn(binary, [...args, file], { cwd: project.folder, stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, DENO_DIR: home } });
    const exited = new Promise((resolve) => child.once('exit', resolve));
    for await (const line of createInterface({ input: child.stdout })) {
        const [, at] = /^at (\d+)$/.exec(line) ?? [];
        if (at === undefined) continue;
        child.stdout.resume();
        return {
            url: `http://127.0.0.1:${at}`,
            async stop() {
                child.kill('SIGKILL');
                await exited;
            },
        };
    }
    throw new Error(`${kind} ended with ${await exited}`);
}
