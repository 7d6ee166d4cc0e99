// The server of the demo site: what it serves, how, and to whom.

import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, test } from 'node:test';

import { demo } from '../support/demo.mjs';

let site;
before(async () => {
    site = await demo();
});
after(() => site?.close());

test('it listens on this machine only and serves a page under the strict policy', async () => {
    assert.match(site.url, /^http:\/\/127\.0\.0\.1:\d+$/);
    const response = await fetch(`${site.url}/`);
    assert.equal(response.status, 200);
    assert.match(response.headers.get('content-type'), /^text\/html/);
    const policy = response.headers.get('content-security-policy').split('; ');
    assert.ok(policy.includes("script-src 'self' 'wasm-unsafe-eval'"));
    assert.ok(policy.includes("object-src 'none'"));
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
});

test('the package is at /pkg/, the module with its type', async () => {
    const module = await fetch(`${site.url}/pkg/runcontext.wasm`);
    assert.equal(module.headers.get('content-type'), 'application/wasm');
    assert.ok(WebAssembly.validate(await module.arrayBuffer()));
    const entry = await fetch(`${site.url}/pkg/browser.js`);
    assert.match(entry.headers.get('content-type'), /^text\/javascript/);
});

/** Sends a path as it is; `fetch` would tidy it up. */
function status(path, method = 'GET') {
    return new Promise((resolve, reject) => {
        const { hostname, port } = new URL(site.url);
        request({ hostname, port, path, method }, (response) => {
            response.resume();
            resolve(response.statusCode);
        })
            .on('error', reject)
            .end();
    });
}

test('nothing outside www/ and pkg/ is served', async () => {
    const outside = [
        '/../Cargo.toml', '/%2e%2e/Cargo.toml', '/..%2fCargo.toml', '/..%5cCargo.toml', '/pkg/../Cargo.toml',
        '/pkg/..%2fCargo.toml', '/pkg/%2e%2e%2fCargo.toml', '//etc/passwd', '/pkg//etc/passwd', '/%00', '/nothing-here',
    ];
    for (const path of outside) assert.ok([400, 404].includes(await status(path)), path);
    assert.equal(await status('/%zz'), 400);
    assert.equal(await status('/', 'POST'), 405);
});

test('it answers many requests at once', async () => {
    const answers = await Promise.all(Array.from({ length: 64 }, () => status('/pkg/runcontext.wasm')));
    assert.deepEqual(answers, Array(64).fill(200));
});

test('it ends on ctrl-c', async () => {
    const other = await demo();
    await other.close();
    await assert.rejects(fetch(`${other.url}/`));
});
