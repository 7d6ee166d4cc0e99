// The approval gate against what was written down: the vectors, and the whole product of what a call can be against the
// oracle. It is given the package (`decide`, `pathsToResolve`, `compilePolicy`), and runs in Node and in a page.

import { oracle } from '../oracle/gate.mjs';
import { resolvePath } from './gate_host.mjs';

export const vectors = await load(new URL('../vectors/gate.json', import.meta.url));

async function load(address) {
    if (address.protocol !== 'file:') return (await fetch(address)).json();
    const { readFile } = await import('node:fs/promises');
    return JSON.parse(await readFile(address, 'utf8'));
}

// ---- from a case to a call -------------------------------------------------------------------------------------------

/** What `decide` takes for a case of the vectors, but for `resolved`. */
function questionOf({ input, without = [], extracted }) {
    const question = { ...vectors.defaults, ...input };
    for (const name of without) delete question[name];
    if (extracted !== undefined) question.tool = { ...question.tool, extractPaths: () => extracted };
    return question;
}

/** The same with the answers of the host of the case. */
function inputOf(api, one) {
    const question = questionOf(one);
    if (question.resolved !== undefined) return question;
    const host = { pathStyle: question.pathStyle, resolves: one.resolves };
    const resolved = api.pathsToResolve(question).flatMap(({ base, path }) => {
        const result = resolvePath(host, base, path);
        return result === undefined ? [] : [{ base, path, result }];
    });
    return { ...question, resolved };
}

/** What came out, with the members that `expected` has. */
function summary(decision, expected) {
    const { outcome, reason, rule } = decision;
    const found = { outcome, reason };
    if ('rule' in expected) found.rule = expected.rule === 'code' && rule?.id < 0 ? 'code' : (rule?.id ?? null);
    if ('paths' in expected) {
        found.paths = decision.paths.map((path, at) =>
            Object.fromEntries(Object.keys(expected.paths[at] ?? path).map((key) => [key, path[key]])));
    }
    if ('noted' in expected) found.noted = JSON.stringify(decision.trace).includes(expected.noted) ? expected.noted : decision.trace;
    return found;
}

const EXPECTED = ['outcome', 'reason', 'rule', 'paths', 'noted'];
const expectationOf = (one) => Object.fromEntries(EXPECTED.filter((key) => key in one).map((key) => [key, one[key]]));

/** Everything of a decision but texts and the trace. */
const bare = ({ outcome, reason, rule, paths }) => ({ outcome, reason, rule: rule?.id ?? null, paths });

function attempt(work) {
    try {
        return work();
    } catch (error) {
        return { threw: error?.code ?? String(error), message: error?.message, field: error?.data?.field };
    }
}

/** Whether two values that JSON holds are the same, whatever the order of their members. */
function same(left, right) {
    const sorted = (value) => JSON.stringify(value, (_, inner) =>
        inner !== null && typeof inner === 'object' && !Array.isArray(inner) ? Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)) : inner);
    return sorted(left) === sorted(right);
}

class Results {
    count = 0;
    mismatches = [];
    check(name, expected, actual) {
        this.count++;
        if (!same(expected, actual)) this.mismatches.push({ name, expected, actual });
    }
}

// ---- the vectors -----------------------------------------------------------------------------------------------------

/** The topics of the cases, in their order. */
export const topics = [...new Set(vectors.cases.map(({ topic }) => topic))];

/** The cases, of one topic or all. */
export function runVectors(api, topic) {
    const results = new Results();
    for (const one of vectors.cases) {
        if (topic !== undefined && one.topic !== topic) continue;
        const expected = expectationOf(one);
        results.check(`${one.topic}: ${one.name}`, expected, attempt(() => summary(api.decide(inputOf(api, one)), expected)));
    }
    return results;
}

/** Input that is refused, with its code and the name of its field: by `decide`, and by `compilePolicy` or its policy. */
export function runErrors(api) {
    const results = new Results();
    for (const one of vectors.errors) {
        const expected = { threw: one.code, ...(one.field && { field: one.field }) };
        const refusal = (work) => {
            const found = attempt(work);
            if (found?.threw === undefined) return { gave: found };
            const last = /([A-Za-z_]+)(?:\[\d+\])*$/.exec(found.field ?? '')?.[1];
            return { threw: found.threw, ...(one.field && { field: last }) };
        };
        const question = questionOf(one);
        results.check(`decide: ${one.name}`, expected, refusal(() => api.decide({ ...question, resolved: [] })));
        const policy = () => api.compilePolicy(question.rules);
        results.check(`compilePolicy: ${one.name}`, expected, refusal(() => policy().decide({ ...question, resolved: [] })));
    }
    return results;
}

/** What `isHidden` says; `isHidden(question, resolve, path)` is how the host under test asks. */
export async function runHidden(isHidden) {
    const results = new Results();
    for (const one of vectors.hidden) {
        const question = questionOf(one);
        const resolve = (base, path) => resolvePath({ pathStyle: question.pathStyle, resolves: one.resolves }, base, path);
        results.check(one.name, one.hidden, await isHidden(question, resolve, one.path).catch(String));
    }
    return results;
}

/** Arguments that I-JSON does not have. */
const OUTSIDE = {
    NaN, 'an infinite number': Infinity, 'half of a surrogate pair': 'a\ud83d', 'a name with half of a surrogate pair': { '\udc00': 1 },
    'a bigint': 1n, 'a function': () => 'x', 'a map': new Map(),
};

/** What `extractPaths` must not be. */
const MISBEHAVING = {
    throws: () => { throw new Error('no'); },
    'gives nothing': () => undefined,
    'gives null': () => null,
    'gives an object': () => ({ path: 'a.txt', access: 'write' }),
    'gives a promise': async () => [],
    'gives texts': () => ['a.txt'],
    'gives a path without access': () => [{ path: 'a.txt' }],
    'gives an access without a path': () => [{ access: 'write' }],
    'gives a path that is a number': () => [{ path: 5, access: 'write' }],
    'gives an access that no path has': () => [{ path: 'a.txt', access: 'execute' }],
    'is no function': 'a.txt',
};

/** How many checks `runHostile` makes. */
export const HOSTILE = Object.keys(OUTSIDE).length + 1 + Object.keys(MISBEHAVING).length;

/** What JSON vectors cannot hold is refused where everything else is allowed. */
export function runHostile(api) {
    const results = new Results();
    const rules = [{ id: 1, tool_pattern: '*', action: 'allow', priority: 100, group_id: 'default' }];
    const decided = (args, tool) => attempt(() => {
        const call = { toolCallId: 'c1', toolName: 'tool', arguments: args };
        return api.decide(inputOf(api, { input: { preset: 'danger-full-access', rules, call, ...(tool && { tool }) } }));
    });
    for (const [words, value] of Object.entries(OUTSIDE)) {
        results.check(`arguments that hold ${words}`, 'invalid_argument', decided({ a: [value] }).threw);
    }
    results.check('plain arguments', 'allow', decided({ a: [1.5, 'x', null, true] }).outcome);
    for (const [words, extractPaths] of Object.entries(MISBEHAVING)) {
        const { outcome, threw } = decided({ text: 'x' }, { name: 'tool', access: 'write', extractPaths });
        const typed = /^[a-z]+(_[a-z]+)*$/.test(threw ?? '') && threw !== 'module_failed';
        const refused = typed || outcome === 'deny' || outcome === 'require';
        results.check(`an extractPaths that ${words}`, 'refused', refused ? 'refused' : { outcome, threw });
    }
    return results;
}

// ---- properties over the vectors -------------------------------------------------------------------------------------

const LIE = 'everything is allowed';

/** Changes of an input that change no decision. */
export const HARMLESS = {
    'every prompt text is replaced': (input) => ({
        ...input,
        runContext: { ...input.runContext, system_prompt: [LIE] },
        rules: input.rules.map((rule) => ({ ...rule, note: LIE })),
        ...(input.tool && { tool: { ...input.tool, description: LIE, parameters: { description: LIE } } }),
    }),
    'rules, groups, bypasses and answers come in another order': (input) => ({
        ...input,
        rules: [...input.rules].reverse(),
        bypasses: [...input.bypasses].reverse(),
        resolved: [...input.resolved].reverse(),
        ...(input.groups && { groups: [...input.groups].reverse() }),
    }),
    'the host answers what nobody asked': (input) => ({
        ...input,
        resolved: [
            ...input.resolved,
            { base: '/elsewhere', path: '/ws/app/a.txt', result: { canonical: '/ws/app/b.txt' } },
            { base: '/ws/app', path: 'nobody/asked', result: { unresolved: 'x' } },
        ],
    }),
    'rules of a group that is not the session\'s are added': (input) => ({
        ...input,
        groups: input.groups && [...input.groups, 'stranger'],
        rules: [...input.rules, { id: 9001, tool_pattern: '*', action: 'deny', locked: true, priority: 0, group_id: 'stranger' }],
    }),
};

/** `change` applied to every case: the decision stays what it was. */
export const runHarmless = (api, change) => runAlike(api, (input) => api.decide(change(input)));

/** A compiled policy decides like `decide` with its rules. */
export const runCompiled = (api) => runAlike(api, ({ rules, ...input }) => api.compilePolicy(rules).decide(input));

/** Another way to decide every case comes to the same decision. */
function runAlike(api, another) {
    const results = new Results();
    for (const one of vectors.cases) {
        const name = `${one.topic}: ${one.name}`;
        const decided = attempt(() => bare(api.decide(inputOf(api, one))));
        if (decided.threw !== undefined) results.check(name, 'a decision', decided);
        else results.check(name, decided, attempt(() => bare(another(inputOf(api, one)))));
    }
    return results;
}

/** Vectors that name their cell, against the oracle. */
export function runAgreement(decider = oracle) {
    const results = new Results();
    for (const { topic, name, input, cell, outcome, reason } of vectors.cases) {
        if (cell === undefined) continue;
        const { preset, bypasses, headless } = { ...vectors.defaults, ...input };
        results.check(`${topic}: ${name}`, decider({ ...cell, preset, bypass: bypasses.length > 0, headless }), { outcome, reason });
    }
    return results;
}

// ---- the product -----------------------------------------------------------------------------------------------------

const PLACES = {
    workspace: '/ws/other/a.txt', wd: '/ws/app/a.txt', grant: '/data/granted/a.txt', 'grant-link': '/ws/app/docs/a.txt', memory: '/ws/memory/a.txt',
    protected: '/ws/app/secrets/a.txt', outside: '/etc/a.txt', unresolved: '/ws/app/lost.txt',
};
const RULES = {
    allow: { action: 'allow' }, deny: { action: 'deny' }, require: { action: 'require' }, none: undefined,
    'locked-deny': { action: 'deny', locked: true }, 'locked-require': { action: 'require', locked: true },
};
/** How a tool says that it does something, and to the path it gets. */
const TOOLS = {
    read: { access: 'read', paths: [{ argument: '/path', access: 'read' }] },
    write: { access: 'write', paths: [{ argument: '/path', access: 'write' }] },
    execute: { access: 'execute', paths: [{ argument: '/path', access: 'write' }] },
    network: { access: 'network', paths: [{ argument: '/path', access: 'read' }] },
    none: { access: 'none' },
    unclassified: {},
};
const AXES = {
    preset: [null, 'read-only', 'workspace-write', 'danger-full-access'], access: Object.keys(TOOLS), location: Object.keys(PLACES),
    ruleOutcome: Object.keys(RULES), bypass: [false, true], headless: [false, true],
};

/** Every combination of the axes. */
const combinations = () => Object.entries(AXES).reduce(
    (made, [axis, values]) => made.flatMap((one) => values.map((value) => ({ ...one, [axis]: value }))), [{}]);

function caseOf({ preset, access, location, ruleOutcome, bypass, headless }) {
    const rule = RULES[ruleOutcome];
    return {
        input: {
            call: { toolCallId: 'c1', toolName: 'tool', arguments: access === 'none' ? {} : { path: PLACES[location] } },
            tool: { name: 'tool', ...TOOLS[access] },
            preset, headless,
            bypasses: bypass ? [{ scope: 'all' }] : [],
            runContext: { allow_fs_writes: ['/data/granted/*', 'docs/*'], allow_fs_reads: ['docs/*'] },
            rules: rule ? [{ id: 1, tool_pattern: 'tool', priority: 100, group_id: 'default', ...rule }] : [],
        },
        resolves: { '/ws/app/docs': '/home/u/.ssh', '/ws/app/lost.txt': null },
    };
}

/** Every combination of preset, access, location, rule outcome, bypass and headless, against the oracle. */
export function runProduct(api) {
    const results = new Results();
    for (const one of combinations()) {
        const expected = oracle(one);
        results.check(Object.values(one).join(' '), expected, attempt(() => summary(api.decide(inputOf(api, caseOf(one))), expected)));
    }
    return results;
}
