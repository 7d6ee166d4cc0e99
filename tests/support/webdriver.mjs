// Firefox and WebKitGTK, each with its driver as a process of its own, steered over WebDriver. The profile is new, and gone
// with the browser.

import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { fromText } from './cases/kit.mjs';
import { servePackage } from './page.mjs';
import { STRICT } from './server.mjs';

/** The server of `servePackage`, whose pages may run what a test sends as text. */
const serveDriven = () => servePackage({ policy: STRICT.replace("'wasm-unsafe-eval'", "'wasm-unsafe-eval' 'unsafe-eval'") });

/** How the cases are run in one of these browsers: see `inBrowser`. */
export const driven = (launch) => ({ launch, serve: serveDriven, open: (browser, server) => browser.openPage(server) });

/**
 * Runs a test in a browser of its own, on a server of its own.
 *
 * @param {(open: () => Promise<any>) => Promise<void>} work `open` loads the page, anew where it is loaded
 */
export async function inDriven(launch, work) {
    const server = await serveDriven();
    const browser = await launch();
    try {
        await work(() => browser.openPage(server));
    } finally {
        await browser.close();
        await server.close();
    }
}

/** @param {Record<string, unknown>} [prefs] settings of Firefox, as in `about:config` */
export function firefox(prefs = {}) {
    const binary = process.env.RUNCONTEXT_FIREFOX ?? 'firefox-esr';
    const options = { binary, args: ['-headless'], prefs };
    return start(process.env.RUNCONTEXT_GECKODRIVER ?? 'geckodriver', { 'moz:firefoxOptions': options });
}

/** It needs a `DISPLAY`. */
export const webkit = () => start(process.env.RUNCONTEXT_WEBKIT_DRIVER ?? 'WebKitWebDriver', {});

async function start(program, capabilities) {
    const port = await freePort();
    const driver = spawn(program, [`--port=${port}`], { stdio: 'ignore' });
    const exited = new Promise((resolve, reject) => {
        driver.once('exit', (code) => resolve(code));
        driver.once('error', reject);
    });
    exited.catch(() => {});
    const call = async (method, path, body) => {
        const headers = { 'Content-Type': 'application/json' };
        const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers, body: body && JSON.stringify(body) });
        const { value } = await response.json();
        if (!response.ok) throw new Error(`${method} ${path}: ${value.error}: ${value.message}`);
        return value;
    };
    try {
        await Promise.race([listening(call), exited.then((code) => Promise.reject(new Error(`${program} ended with ${code}`)))]);
        const alwaysMatch = { timeouts: { script: 60_000 }, ...capabilities };
        const { sessionId } = await call('POST', '/session', { capabilities: { alwaysMatch } });
        const session = `/session/${sessionId}`;
        return {
            /** Loads the page, anew where it is loaded: whatever lived in it is gone. */
            async openPage(server) {
                await call('POST', `${session}/url`, { url: `${server.url}/` });
                await script(`
                    const start = document.createElement('script');
                    Object.assign(start, { type: 'module', src: '/cases/driven.mjs', onload: done, onerror: done });
                    document.head.append(start);`);
                /** Runs a function in the page, with arguments that JSON can hold, and gives what it returned. */
                const run = async (work, ...args) => {
                    const source = `(${work})(${args.map((arg) => JSON.stringify(arg) ?? 'undefined').join(', ')})`;
                    const { gave, failed } = await script('window.answer(arguments[0]).then(done);', source);
                    if (failed !== undefined) throw new Error(failed);
                    return fromText(gave);
                };
                return {
                    run,
                    /** Rejections that nobody handled, and errors that nobody caught. */
                    unhandled: () => run(async () => {
                        // A rejection is reported one task after it happened.
                        for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setTimeout(resolve));
                        return window.unhandled;
                    }),
                    close: () => call('POST', `${session}/url`, { url: 'about:blank' }),
                };
            },
            async close() {
                await call('DELETE', session);
                driver.kill('SIGKILL');
                await exited;
            },
        };
        function script(text, ...args) {
            return call('POST', `${session}/execute/async`, { script: `const done = arguments[arguments.length - 1];${text}`, args });
        }
    } catch (error) {
        driver.kill('SIGKILL');
        throw error;
    }
}

async function freePort() {
    const server = createServer();
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address();
    await new Promise((resolve) => server.close(resolve));
    return port;
}

async function listening(call) {
    for (let waited = 0; waited < 60_000; waited += 100) {
        if (await call('GET', '/status').then(() => true, () => false)) return;
        await sleep(100);
    }
    throw new Error('the driver did not listen within a minute');
}
