// What docs/scale.md says of a million sessions is what its script computes.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const docs = new URL('../../docs/', import.meta.url);

test('the tables of a million sessions in docs/scale.md are what docs/scale.mjs prints', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [fileURLToPath(new URL('scale.mjs', docs))]);
    const page = await readFile(new URL('scale.md', docs), 'utf8');
    const begin = page.indexOf('| assumed |');
    assert.equal(page.slice(begin, begin + stdout.length), stdout);
});
