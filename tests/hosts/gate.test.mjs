// The approval gate of the packed tarball in Node: against the vectors, the oracle, and what changes no decision.

import assert from 'node:assert/strict';
import { cp, mkdir } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { HARMLESS, HOSTILE, runAgreement, topics, vectors } from '../support/gate.mjs';
import { installed } from '../support/project.mjs';

/** Runs in the project: every list of checks, its result as a line of JSON. */
const RUNNER = `
import * as rc from 'runcontext';
import * as gate from './tests/support/gate.mjs';
import { hiddenBySession } from './tests/support/gate_session.mjs';
const say = (name, { count, mismatches }) =>
    process.stdout.write('\\n' + JSON.stringify({ gate: name, count, wrong: mismatches.length, mismatches: mismatches.slice(0, 40) }) + '\\n');
for (const topic of gate.topics) say('vectors: ' + topic, gate.runVectors(rc, topic));
say('errors', gate.runErrors(rc));
say('hostile', gate.runHostile(rc));
say('product', gate.runProduct(rc));
say('compiled', gate.runCompiled(rc));
for (const [name, change] of Object.entries(gate.HARMLESS)) say('harmless: ' + name, gate.runHarmless(rc, change));
say('hidden', await gate.runHidden(hiddenBySession(rc)));
process.exit(0);
`;

let project;
const results = new Map();
before(async () => {
    project = await installed({ 'runner.mjs': RUNNER });
    for (const file of ['support/gate.mjs', 'support/gate_host.mjs', 'support/gate_session.mjs', 'oracle/gate.mjs', 'vectors/gate.json']) {
        const target = path.join(project.folder, 'tests', file);
        await mkdir(path.dirname(target), { recursive: true });
        await cp(fileURLToPath(new URL(`../${file}`, import.meta.url)), target);
    }
    for (const line of (await project.node('runner.mjs')).split('\n')) {
        if (!line.startsWith('{"gate"')) continue;
        const { gate, ...result } = JSON.parse(line);
        results.set(gate, result);
    }
});
after(() => project?.remove());

const casesOf = (topic) => vectors.cases.filter((one) => one.topic === topic).length;

/** All of `count` checks were made, and none went wrong. */
function passed({ count, wrong = 0, mismatches } = {}, expected) {
    const lines = mismatches?.map((one) => `${one.name}\n    expected ${JSON.stringify(one.expected)}\n    but got  ${JSON.stringify(one.actual)}`);
    assert.equal(wrong, 0, `${wrong} of ${count}:\n${lines?.join('\n')}`);
    assert.equal(count, expected);
}

for (const topic of topics) {
    test(`the gate decides as the vectors say: ${topic}`, () => passed(results.get(`vectors: ${topic}`), casesOf(topic)));
}

test('bad input is refused with a code that names the field', () => passed(results.get('errors'), 2 * vectors.errors.length));

test('arguments outside I-JSON and misbehaving extractPaths are never allowed', () => passed(results.get('hostile'), HOSTILE));

test('every combination of preset, access, location, rule, bypass and headless decides as the oracle says', () => passed(results.get('product'), 4608));

test('a compiled policy decides like decide with its rules', () => passed(results.get('compiled'), vectors.cases.length));

for (const name of Object.keys(HARMLESS)) {
    test(`no decision changes when ${name}`, () => passed(results.get(`harmless: ${name}`), vectors.cases.length));
}

test('the tool of a tree read is told what is hidden', () => passed(results.get('hidden'), vectors.hidden.length));

test('the vectors and the oracle agree wherever a vector is a cell', () => {
    const { count, mismatches } = runAgreement();
    passed({ count, wrong: mismatches.length, mismatches }, vectors.cases.filter(({ cell }) => cell !== undefined).length);
    assert.ok(count >= 60, `only ${count} cells`);
});

test('the names of the vectors are unique, and every topic has cases on both sides of it', () => {
    const names = [
        ...vectors.cases.map(({ topic, name }) => `${topic}: ${name}`),
        ...vectors.errors.map(({ name }) => `error: ${name}`),
        ...vectors.hidden.map(({ name }) => `hidden: ${name}`),
    ];
    assert.equal(new Set(names).size, names.length);
    for (const topic of topics) {
        const outcomes = new Set(vectors.cases.filter((one) => one.topic === topic).map(({ outcome }) => outcome));
        assert.ok(outcomes.size >= 2, `${topic}: ${[...outcomes]}`);
    }
});
