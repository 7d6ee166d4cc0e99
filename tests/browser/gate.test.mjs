// The approval gate in a real browser: the vectors, bad input, the whole product against the oracle, and what changes nothing.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { launch } from '../support/chromium.mjs';
import { HARMLESS, HOSTILE, topics, vectors } from '../support/gate.mjs';
import { openPage, servePackage } from '../support/page.mjs';
import { packageFolder } from '../support/project.mjs';

let browser, server, page;
before(async () => {
    const folder = (name) => fileURLToPath(new URL(`../${name}/`, import.meta.url));
    server = await servePackage({
        folders: {
            '/pkg/': packageFolder(), '/cases/': folder('support/cases'), '/support/': folder('support'), '/oracle/': folder('oracle'),
            '/vectors/': folder('vectors'),
        },
    });
    browser = await launch();
    page = await openPage(browser, server);
});
after(async () => {
    await browser?.close();
    await server?.close();
});

/** Runs checks in the page: all of them were made, and none went wrong. */
async function passed(expected, name, ...args) {
    const { count, mismatches } = await page.run(async (name, ...args) => {
        const gate = await import('/support/gate.mjs');
        const [first] = args;
        const results = gate[name](rc, name === 'runHarmless' ? gate.HARMLESS[first] : first);
        return { count: results.count, mismatches: results.mismatches };
    }, name, ...args);
    const lines = mismatches.map((one) => `${one.name}\n    expected ${JSON.stringify(one.expected)}\n    but got  ${JSON.stringify(one.actual)}`);
    assert.equal(mismatches.length, 0, `${mismatches.length} of ${count}:\n${lines.slice(0, 40).join('\n')}`);
    assert.equal(count, expected);
    assert.deepEqual(await page.unhandled(), []);
}

const casesOf = (topic) => vectors.cases.filter((one) => one.topic === topic).length;

for (const topic of topics) {
    test(`in Chromium the gate decides as the vectors say: ${topic}`, () => passed(casesOf(topic), 'runVectors', topic));
}

test('in Chromium bad input is refused with a code that names the field', () => passed(2 * vectors.errors.length, 'runErrors'));

test('in Chromium arguments outside I-JSON and misbehaving extractPaths are never allowed', () => passed(HOSTILE, 'runHostile'));

test('in Chromium every combination of preset, access, location, rule, bypass and headless decides as the oracle says', () => passed(4608, 'runProduct'));

test('in Chromium a compiled policy decides like decide with its rules', () => passed(vectors.cases.length, 'runCompiled'));

for (const name of Object.keys(HARMLESS)) {
    test(`in Chromium no decision changes when ${name}`, () => passed(vectors.cases.length, 'runHarmless', name));
}
