// Session files in real Chromium, on IndexedDB: what a killed page leaves is seen by nobody and goes at the next opening, what
// another tab is importing is left alone, and a long file needs no more memory than a short one.

import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { after, before, test } from 'node:test';

import { launch, newProfile } from '../support/chromium.mjs';
import { openPage, servePackage } from '../support/page.mjs';
import { inBrowser } from '../support/run_cases.mjs';

await inBrowser(['transfer']);

const DEEP = process.env.RUNCONTEXT_DEEP === '1';

let profile, server, browser;
before(async () => {
    profile = await newProfile();
    server = await servePackage();
    browser = await launch({ profile });
});
after(async () => {
    await browser?.close();
    await server?.close();
    if (profile) await rm(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
});

/** Runs in a page: begins an import that waits in its middle, and resolves once a part of it is stored. */
async function begin(name) {
    const header = { format: 'loop-session', version: 2, id: 'in', createdAt: '2026-01-31T12:00:00.000Z' };
    const message = { role: 'user', content: 'Hello' };
    const file = new TextEncoder().encode([header, ...Array(600).fill(message)].map((line) => `${JSON.stringify(line)}\n`).join(''));
    window.runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name } });
    let sent = false;
    const source = new ReadableStream({
        async pull(controller) {
            if (sent) {
                await new Promise((resolve) => (window.goOn = resolve));
                controller.enqueue(file.subarray(-100));
                controller.close();
            } else {
                sent = true;
                controller.enqueue(file.subarray(0, -100));
            }
        },
    }, { highWaterMark: 0 });
    await new Promise((resolve) => (window.importing = runtime.importSession(source, { onProgress: resolve })));
    return (await kit.dump(name)).messages.length;
}

/** Runs in a page: opens the database, waits until it is clear, and says what is there. */
async function look(name) {
    const runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name } });
    const listed = (await runtime.listSessions()).map(({ id }) => id);
    const opened = await kit.outcome(() => runtime.openSession('in'));
    let left;
    for (let turn = 0; turn < 100 && left !== 0; turn++) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        const stored = await kit.dump(name);
        left = stored.chat_sessions.length + stored.messages.length + stored.message_outlines.length + stored.commits.length;
    }
    await runtime.close();
    return { listed, opened: opened.rejected?.code, left };
}

test('what a killed browser was importing is seen by nobody, and is gone after the next opening', async () => {
    const victim = await openPage(browser, server);
    assert.ok((await victim.run(begin, 'killed')) > 500);
    await browser.kill();
    browser = await launch({ profile });
    const page = await openPage(browser, server);
    assert.ok((await page.run(async (name) => (await kit.dump(name)).messages.length, 'killed')) > 500, 'it is there');
    assert.deepEqual(await page.run(look, 'killed'), { listed: [], opened: 'not_found', left: 0 });
    await page.close();
});

test('what another tab is importing is left alone, and is there when that is done', async () => {
    const one = await openPage(browser, server);
    const stored = await one.run(begin, 'two tabs');
    const two = await openPage(browser, server);
    const found = await two.run(async (name) => {
        window.runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name } });
        const again = await kit.outcome(() => runtime.importSession('{"format":"loop-session","version":2,"id":"in","createdAt":1}'));
        await new Promise((resolve) => setTimeout(resolve, 200));
        return { code: again.rejected?.code, listed: await runtime.listSessions(), stored: (await kit.dump(name)).messages.length };
    }, 'two tabs');
    assert.deepEqual(found, { code: 'conflict', listed: [], stored });
    await one.run(async () => {
        window.goOn();
        await window.importing;
    });
    assert.equal(await two.run(async () => (await runtime.openSession('in')).state.messageCount), 600);
    for (const page of [one, two]) {
        assert.deepEqual(await page.unhandled(), []);
        await page.close();
    }
});

test('a long file needs at most half as much memory again as one of a tenth', { skip: !DEEP && 'RUNCONTEXT_DEEP is not 1' }, async () => {
    const measured = [];
    for (const count of [1_000, 10_000]) {
        const page = await openPage(browser, server);
        const devtools = await page.context().newCDPSession(page);
        const memories = await devtools.send('Runtime.evaluate', { expression: 'WebAssembly.Memory.prototype' });
        const found = await devtools.send('Runtime.queryObjects', { prototypeObjectId: memories.result.objectId });
        let peak = 0;
        await page.exposeFunction('measure', async () => {
            await devtools.send('HeapProfiler.collectGarbage');
            const { usedSize, backingStorageSize = 0 } = await devtools.send('Runtime.getHeapUsage');
            const { result } = await devtools.send('Runtime.callFunctionOn', {
                objectId: found.objects.objectId,
                functionDeclaration: 'function () { return this.map(({ buffer }) => buffer.byteLength); }',
                returnByValue: true,
            });
            assert.equal(result.value.length, 1);
            peak = Math.max(peak, usedSize + backingStorageSize + result.value[0]);
        });
        const stored = await page.run(async (count) => {
            const { longFile } = await import('/cases/long_file.mjs');
            const runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name: `long ${count}` } });
            return (await runtime.importSession(longFile(count, window.measure))).messageCount;
        }, count);
        assert.equal(stored, count);
        measured.push(peak);
        await page.close();
    }
    const [short, long] = measured;
    console.log(`memory: ${short} bytes for 10 MB, ${long} bytes for 100 MB`);
    assert.ok(long <= 1.5 * short, `${long} bytes after ${short}`);
});
