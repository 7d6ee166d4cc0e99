// A real Chromium with a profile on disk, as a process of its own: it can be ended, or killed, and another one
// started on the same profile.

import { spawn } from 'node:child_process';
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { chromium } from 'playwright-core';

const ARGUMENTS = [
    '--headless',
    '--no-sandbox',
    '--disable-dev-shm-usage',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--no-default-browser-check',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--remote-debugging-port=0',
];

/** A profile folder; the caller removes it. */
export function newProfile() {
    return mkdtemp(path.join(os.tmpdir(), 'runcontext-profile-'));
}

/**
 * Starts a browser.
 *
 * @param {object} [options]
 * @param {string} [options.profile] folder of the profile; without one a new profile is made and removed at the end
 * @param {string[]} [options.args] further arguments
 */
export async function launch(options = {}) {
    try {
        return await start(options);
    } catch (error) {
        // Seen once in hundreds of starts on a profile whose browser was killed: it hangs before it opens anything. A person starts
        // it again.
        if (error.message !== SILENT) throw error;
        console.log(`${SILENT}; it is started again`);
        return await start(options);
    }
}

const SILENT = 'Chromium did not listen within a minute';

async function start({ profile, args = [] }) {
    const binary = process.env.RUNCONTEXT_CHROMIUM ?? 'chromium';
    const folder = profile ?? (await newProfile());
    const portFile = path.join(folder, 'DevToolsActivePort');
    await rm(portFile, { force: true });
    const child = spawn(binary, [...ARGUMENTS, ...args, `--user-data-dir=${folder}`, 'about:blank'], { stdio: 'ignore' });
    const exited = new Promise((resolve, reject) => {
        child.once('exit', resolve);
        child.once('error', reject);
    });
    exited.catch(() => {});
    const end = async () => {
        await exited;
        if (profile === undefined) await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    };
    /** Kills all of its processes, as when the machine goes down; once it resolves, none of them runs. */
    const kill = async () => {
        const family = child.pid === undefined ? [] : await descendants(child.pid);
        child.kill('SIGKILL');
        for (const pid of family) killProcess(pid);
        await end();
        for (const pid of family) await gone(pid);
    };
    try {
        const port = await debuggingPort(portFile, child);
        const browser = await chromium.connectOverCDP(`http://127.0.0.1:${port}`);
        const [context] = browser.contexts();
        return {
            context,
            /** A new page whose uncaught errors are kept in `page.uncaught`. */
            async newPage() {
                const page = await context.newPage();
                page.uncaught = [];
                page.on('pageerror', (error) => page.uncaught.push(String(error)));
                return page;
            },
            /** Ends the process the ordinary way, as when a person closes the browser. */
            async close() {
                const session = await browser.newBrowserCDPSession();
                await session.send('Browser.close').catch(() => {});
                await Promise.race([exited, sleep(15_000, undefined, { ref: false })]);
                child.kill('SIGKILL');
                await end();
            },
            kill,
        };
    } catch (error) {
        await kill();
        throw error;
    }
}

async function debuggingPort(file, child) {
    for (let waited = 0; waited < 60_000; waited += 50) {
        if (child.exitCode !== null) throw new Error(`Chromium ended with ${child.exitCode} before it listened`);
        const text = await readFile(file, 'utf8').catch(() => '');
        const port = Number(text.split('\n')[0]);
        if (port > 0) return port;
        await sleep(50);
    }
    throw new Error(SILENT);
}

function killProcess(pid) {
    try {
        process.kill(pid, 'SIGKILL');
    } catch (error) {
        // It has ended already.
        if (error.code !== 'ESRCH') throw error;
    }
}

/** State and parent of a process, or undefined where there is none. */
async function processState(pid) {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
    // The name in brackets may hold anything.
    const [state, parent] = stat?.slice(stat.lastIndexOf(')') + 2).split(' ') ?? [];
    return state === undefined ? undefined : { state, parent: Number(parent) };
}

/** The processes that a process started, those that they started, and so on. */
async function descendants(pid) {
    const children = new Map();
    for (const name of await readdir('/proc')) {
        if (!/^\d+$/.test(name)) continue;
        const found = await processState(name);
        if (found) children.set(found.parent, [...(children.get(found.parent) ?? []), Number(name)]);
    }
    const below = (parent) => (children.get(parent) ?? []).flatMap((child) => [child, ...below(child)]);
    return below(pid);
}

/** Once a process has ended: one that still writes would meet the next browser on the same profile. */
async function gone(pid) {
    for (let waited = 0; waited < 10_000; waited += 10) {
        const { state = 'X' } = (await processState(pid)) ?? {};
        if (state === 'Z' || state === 'X') return;
        await sleep(10);
    }
    throw new Error(`process ${pid} of the browser does not end`);
}
