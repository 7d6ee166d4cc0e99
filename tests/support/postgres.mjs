// A real PostgreSQL server on a database of its own, in a temporary folder: it can be stopped at once, and started again. It
// listens on a socket in that folder and nowhere else.

import { execFile, execFileSync, spawn } from 'node:child_process';
import { chown, mkdtemp, open, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

import pg from 'pg';

const exec = promisify(execFile);

/** One of PostgreSQL's programs; by hand, the one of the PATH. */
const program = (name) => path.join(process.env.RUNCONTEXT_POSTGRES ?? '', name);

/** Makes a database and starts a server on it. */
export async function postgresServer() {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'runcontext-postgres-'));
    const user = lesser();
    if (user.uid !== undefined) await chown(folder, user.uid, user.gid);
    const data = path.join(folder, 'data');
    const where = { ...user, cwd: folder };
    // What it does not wait for are the files of an empty database: a server that is stopped takes none of them with it.
    const options = ['--username=postgres', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync'];
    await exec(program('initdb'), [`--pgdata=${data}`, ...options], where);
    const log = path.join(folder, 'log');
    let child, exited;
    const pools = [];
    const server = {
        /** For a `Pool` of `pg`, in any process. */
        connection: { host: folder, port: 5432, user: 'postgres', database: 'postgres' },
        /** A pool that is ended with the server; what it says of connections that are lost while idle, nobody needs to know. */
        pool(options = {}) {
            const pool = new pg.Pool({ ...server.connection, ...options });
            pool.on('error', () => {});
            pools.push(pool);
            return pool;
        },
        /** Does nothing where it runs. */
        async start() {
            if (child?.exitCode === null && child.signalCode === null) return;
            const output = await open(log, 'a');
            const settings = ['-k', folder, '-p', '5432', '-c', 'listen_addresses='];
            child = spawn(program('postgres'), ['-D', data, ...settings], { ...where, stdio: ['ignore', output.fd, output.fd] });
            exited = new Promise((resolve, reject) => child.once('exit', resolve).once('error', reject));
            exited.catch(() => {});
            await output.close();
            await answers(server.connection, child).catch(async (error) => {
                throw new Error(`${error.message}\n${await readFile(log, 'utf8')}`);
            });
        },
        /** As `pg_ctl stop -m immediate`: it writes nothing and says nothing to anybody, as after a crash. */
        async stopNow() {
            child.kill('SIGQUIT');
            await exited;
        },
        async close() {
            await Promise.all(pools.map((pool) => pool.end()));
            await server.stopNow();
            await rm(folder, { recursive: true, force: true });
        },
    };
    process.once('exit', () => child?.kill('SIGQUIT'));
    await server.start();
    return server;
}

/** PostgreSQL refuses to run as root: then the user of Debian's package, or nobody. */
function lesser() {
    if (process.getuid?.() !== 0) return {};
    for (const name of ['postgres', 'nobody']) {
        try {
            const [uid, gid] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, name], { stdio: ['ignore', 'pipe', 'ignore'] })));
            return { uid, gid };
        } catch {
            // No such user.
        }
    }
    throw new Error('PostgreSQL refuses to run as root, and there is neither a user `postgres` nor `nobody`');
}

/** Until it takes connections, which after a crash is when it has repaired its files. */
async function answers(connection, child) {
    for (let tries = 0; child.exitCode === null; tries++) {
        const client = new pg.Client(connection);
        client.on('error', () => {});
        try {
            await client.connect();
            await client.end();
            return;
        } catch (error) {
            if (tries === 600) throw error;
            await sleep(50);
        }
    }
    throw new Error(`postgres ended with ${child.exitCode}`);
}
