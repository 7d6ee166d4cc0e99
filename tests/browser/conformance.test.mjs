// The suite for storage adapters in a page. What it finds out is in tests/hosts/conformance.test.mjs.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { launch } from '../support/chromium.mjs';
import { openPage, servePackage } from '../support/page.mjs';

let browser, server;
before(async () => {
    browser = await launch();
    server = await servePackage();
});
after(async () => {
    await browser?.close();
    await server?.close();
});

test('storage in memory does what every adapter has to do', async () => {
    const page = await openPage(browser, server);
    const found = await page.run(async () => {
        const { conformance } = await import('/pkg/storage/conformance.js');
        const found = {};
        for (const { name, run } of conformance({ open: rc.memoryStorage, reopen: (adapter) => ({ ...adapter }) })) {
            found[name] = await run().then(() => 'right', (error) => error.message);
        }
        return found;
    });
    assert.ok(Object.keys(found).length > 40, `${Object.keys(found).length} cases`);
    assert.deepEqual(found, Object.fromEntries(Object.keys(found).map((name) => [name, 'right'])));
    assert.deepEqual(await page.unhandled(), []);
});
