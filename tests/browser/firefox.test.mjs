// The package in Firefox.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { outlivesThePage } from '../support/life.mjs';
import { inBrowser } from '../support/run_cases.mjs';
import { driven, firefox, inDriven } from '../support/webdriver.mjs';

test('a session outlives the page', () => inDriven(firefox, outlivesThePage));

test('a session outlives the page in a private window', () =>
    inDriven(() => firefox({ 'browser.privatebrowsing.autostart': true }), outlivesThePage));

test('a real quota that is used up: the turn goes on, and flush() saves it when there is room', () =>
    // In units of 1,024 bytes.
    inDriven(() => firefox({ 'dom.quotaManager.temporaryStorage.fixedLimit': 8_192 }), async (open) => {
        const page = await open();
        const full = await page.run(async () => {
            window.look = kit.tool('look', () => 'seen');
            window.model = kit.scripted(kit.calling(['c1', 'look']), kit.assistant('Done.'));
            const runtime = await rc.Runtime.open({ model, tools: [look] });
            window.session = await runtime.createSession({ id: 's' });
            session.bypass('all');

            const request = indexedDB.open('another', 1);
            request.onupgradeneeded = () => request.result.createObjectStore('things', { autoIncrement: true });
            await new Promise((resolve) => (request.onsuccess = resolve));
            window.another = request.result;
            const filled = () => new Promise((resolve) => {
                const transaction = another.transaction('things', 'readwrite');
                transaction.objectStore('things').put(kit.noise(1_000_000));
                transaction.oncomplete = () => resolve();
                transaction.onabort = () => resolve(transaction.error.name);
            });
            let why;
            while (why === undefined) why = await filled();

            const result = await session.prompt(kit.noise(2_000_000));
            const early = await kit.outcome(() => session.flush());
            return { why, result, early, state: session.state, counts: [model.calls, look.runs] };
        });
        assert.equal(full.why, 'QuotaExceededError');
        assert.equal(full.result.saved, false);
        assert.equal(full.result.saveError.code, 'storage_quota');
        assert.equal(full.early.rejected.code, 'storage_quota');
        assert.deepEqual([full.state.messageCount, full.state.hasPendingSave], [4, true]);
        assert.deepEqual(full.counts, [2, 1]);

        const room = await page.run(async () => {
            another.close();
            const request = indexedDB.deleteDatabase('another');
            await new Promise((resolve) => (request.onsuccess = resolve));
            const flushed = await kit.outcome(() => session.flush());
            return { flushed, pending: session.state.hasPendingSave, counts: [model.calls, look.runs], messages: session.messages };
        });
        assert.deepEqual(room.flushed, { gave: { $: 'undefined' } });
        assert.equal(room.pending, false);
        assert.deepEqual(room.counts, full.counts);
        assert.deepEqual(await page.unhandled(), []);

        const later = await (await open()).run(async () => (await (await rc.Runtime.open()).openSession('s')).messages);
        assert.deepEqual(later, room.messages);
        assert.equal(later[0].content.length, 2_000_000);
    }));

await inBrowser(['copies', 'sessions', 'stored_sessions', 'degraded', 'approvals', 'skills'], driven(firefox));
