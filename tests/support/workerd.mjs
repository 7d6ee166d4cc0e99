// A real workerd: workers that import the packed package, bundled as wrangler does it, and Durable Objects whose storage is on
// disk. It is a process of its own, which can be killed, and another one started on the same storage.

import { spawn } from 'node:child_process';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { createInterface } from 'node:readline';

import { build } from 'esbuild';

import { installed, testPackages } from './project.mjs';

/** The binary is in the package of the platform. */
function binary() {
    const kind = { 'linux x64': 'linux-64', 'linux arm64': 'linux-arm64', 'darwin x64': 'darwin-64', 'darwin arm64': 'darwin-arm64' };
    const name = `@cloudflare/workerd-${kind[`${process.platform} ${process.arch}`]}/bin/workerd`;
    return createRequire(path.join(testPackages, 'any.js')).resolve(name);
}

/**
 * Workers, ready to be started.
 *
 * @param {Record<string, string>} workers the source of each, by name; the first one has the Durable Objects
 * @param {object} [options]
 * @param {string[]} [options.classes] the classes of Durable Objects that it exports; each is a binding of every worker, by its name
 * @param {number} [options.report] a port of this machine, that the workers reach by their binding `REPORT`
 * @param {Record<string, string>} [options.texts] further bindings of every worker
 */
export async function workers(workers, { classes = [], report, texts = {} } = {}) {
    const sources = Object.entries(workers).map(([name, source]) => [`${name}.js`, source]);
    const project = await installed(Object.fromEntries(sources));
    await mkdir(path.join(project.folder, 'disk'));
    const names = Object.keys(workers);
    const services = [`( name = "disk", disk = ( path = "${project.folder}/disk", writable = true ) )`];
    if (report) services.push(`( name = "report", external = ( address = "127.0.0.1:${report}", http = () ) )`);
    for (const name of names) {
        const outdir = path.join(project.folder, 'bundled', name);
        await build({
            absWorkingDir: project.folder, entryPoints: [`${name}.js`], outdir, bundle: true, format: 'esm', target: 'es2022',
            conditions: ['workerd', 'worker', 'browser'], loader: { '.wasm': 'copy' }, external: ['cloudflare:*', 'node:*'], logLevel: 'silent',
        });
        // The first module is the worker.
        const files = (await readdir(outdir)).sort((file) => (file === `${name}.js` ? -1 : 1));
        const modules = files.map((file) => `( name = "${file}", ${file.endsWith('.wasm') ? 'wasm' : 'esModule'} = embed "bundled/${name}/${file}" )`);
        const bindings = classes.map((made) => `( name = "${made}", durableObjectNamespace = ( className = "${made}", serviceName = "${names[0]}" ) )`);
        for (const [name, text] of Object.entries(texts)) bindings.push(`( name = "${name}", text = "${text}" )`);
        if (report) bindings.push('( name = "REPORT", service = "report" )');
        const objects = classes.map((made) => `( className = "${made}", uniqueKey = "${made}", enableSql = true )`);
        const storage = `durableObjectNamespaces = [ ${objects.join(', ')} ], durableObjectStorage = ( localDisk = "disk" ),`;
        services.push(`( name = "${name}", worker = (
            compatibilityDate = "2025-01-01", modules = [ ${modules.join(', ')} ],
            bindings = [ ${bindings.join(', ')} ], ${name === names[0] ? storage : ''}
        ) )`);
    }
    const sockets = names.map((name) => `( name = "${name}", address = "127.0.0.1:0", http = (), service = "${name}" )`);
    const config = path.join(project.folder, 'config.capnp');
    await writeFile(config, `
        using Workerd = import "/workerd/workerd.capnp";
        const config :Workerd.Config = ( services = [ ${services.join(',\n')} ], sockets = [ ${sockets.join(', ')} ] );
    `);
    return { start: () => start(config, names), remove: project.remove };
}

/**
 * @param {string} config
 * @param {string[]} names
 */
async function start(config, names) {
    // On this channel it says which ports it listens on.
    const child = spawn(binary(), ['serve', '--experimental', '--control-fd=3', config], { stdio: ['ignore', 'pipe', 'pipe', 'pipe'] });
    let said = '';
    for (const output of [child.stdout, child.stderr]) output.on('data', (text) => (said += text));
    const exited = new Promise((resolve, reject) => {
        child.once('exit', (code, signal) => resolve(`${code ?? signal}`));
        child.once('error', reject);
    });
    const ports = {};
    for await (const line of createInterface({ input: child.stdio[3] })) {
        const { socket, port } = JSON.parse(line);
        ports[socket] = port;
        if (names.every((name) => name in ports)) break;
    }
    if (!names.every((name) => name in ports)) throw new Error(`workerd ended with ${await exited}: ${said}`);
    const ends = exited.then((how) => Promise.reject(new Error(`workerd ended with ${how}: ${said}`)));
    ends.catch(() => {});
    return {
        pid: child.pid,
        /** Rejects when it ends, with what it said. */
        ends,
        /** Where a worker is, without a slash at the end. */
        url: (/** @type {string} */ name) => `http://127.0.0.1:${ports[name]}`,
        /**
         * Posts JSON to a worker and gives the JSON that it answered.
         *
         * @param {string} name
         * @param {string} path
         * @param {unknown} [body]
         */
        async ask(name, path, body = null) {
            const response = await fetch(`http://127.0.0.1:${ports[name]}${path}`, { method: 'POST', body: JSON.stringify(body) });
            const text = await response.text();
            if (!response.ok) throw new Error(`${response.status} ${text} ${said}`);
            return JSON.parse(text);
        },
        /** Ends it as when the machine goes down; once this resolves, it no longer runs. */
        async kill() {
            child.kill('SIGKILL');
            await exited;
        },
    };
}
