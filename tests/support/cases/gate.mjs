// The gate as JavaScript sees it: what comes out is frozen and stays what it was, what goes in may change afterwards, and a
// host that answers oddly opens nothing.

import { fail, fails, ok, same, soon } from './check.mjs';
import { assistant, calling, deferred, outcome, rc, resultOf, scripted, tool, toText } from './kit.mjs';
import { world } from './world.mjs';

const READS = { name: 'read_file', paths: [{ argument: '/path', access: 'read' }] };
const WRITES = { name: 'write_file', category: 'files', paths: [{ argument: '/path', access: 'write' }] };
const FETCH = { name: 'fetch', access: 'network', mcpServer: 'web' };
const PATCH = {
    name: 'patch',
    extractPaths: ({ text }) => [...text.matchAll(/^\+\+\+ (.*)$/gm)].map(([, path]) => ({ path, access: 'write' })),
};
const TOOLS = [READS, WRITES, FETCH, PATCH, { name: 'look', access: 'none' }];

/** The truth about a file system without links. */
const absolute = (base, path) => {
    const names = [];
    for (const name of (path.startsWith('/') ? path : `${base}/${path}`).split('/')) {
        if (name === '..') names.pop();
        else if (name !== '' && name !== '.') names.push(name);
    }
    return { canonical: `/${names.join('/')}` };
};
const HOST = { cwd: '/w', resolvePaths: (base, paths) => paths.map((path) => absolute(base, path)) };

const call = (toolName, args = {}) => ({ toolCallId: 'c1', toolName, arguments: args });
const place = (more) => world({ host: HOST, tools: TOOLS, asks: true, ...more });

/** A question for `decide` with every member, and what the host answered. */
const question = () => ({
    call: call('write_file', { path: 'logs/a.txt' }),
    tool: { ...WRITES, paths: [{ ...WRITES.paths[0] }] },
    group: 'cron', groups: ['cron'], preset: 'workspace-write', agentId: 'main', source: 'chat', headless: false,
    runContext: { security_group: 'cron', allow_fs_writes: ['logs/*', 'linked'], allow_fs_reads: ['docs'] },
    bypasses: [{ scope: { category: 'shell' }, expiresAt: 5 }], protectedNames: ['secrets'],
    cwd: '/w', workspaceRoot: '/', pathStyle: 'posix', now: 1,
    rules: [
        { id: 1, tool_pattern: 'write_*', path_pattern: 'logs/*', action: 'require', note: 'why', group_id: 'cron', priority: 5 },
        { id: 2, tool_pattern: '*', action: 'require', group_id: 'default', priority: 1000 },
    ],
    resolved: [
        ['/', '/'], ['/w', '/w'], ['logs', '/w/logs'], ['linked', '/etc'], ['docs', '/w/docs'], ['logs/a.txt', '/w/logs/a.txt'],
    ].map(([path, canonical]) => ({ base: '/w', path, result: { canonical } })),
});

const DECISION = {
    outcome: 'allow',
    reason: 'run_context',
    message: '`write_file` on `logs/a.txt` is allowed: the run context grants it',
    paths: [{ argument: '/path', access: 'write', requested: 'logs/a.txt', lexical: '/w/logs/a.txt', canonical: '/w/logs/a.txt' }],
    workingDirectory: '/w',
};
const TRACE = [
    { step: 'run_context', outcome: 'require', note: 'grant_through_link: `linked` opens nothing' },
    { step: 'rules', outcome: 'require', note: 'rule', rule: 1, path: 0 },
    { step: 'rules', outcome: 'require', note: 'shadowed', rule: 2, path: 0 },
    { step: 'run_context', outcome: 'allow', note: 'run_context', path: 0 },
];
/** As a value of its own: the trace of a decision is made when it is read. */
const plain = (decision) => JSON.parse(JSON.stringify(decision));

function frozen(value, path = 'it') {
    if (typeof value !== 'object' || value === null) return;
    ok(Object.isFrozen(value), `${path} is not frozen`);
    for (const key of Object.keys(value)) frozen(value[key], `${path}.${key}`);
}

/** Changes everything in plain data. */
function ruin(value) {
    if (typeof value !== 'object' || value === null) return;
    for (const inner of Object.values(value)) ruin(inner);
    for (const key of Object.keys(value)) delete value[key];
    if (Array.isArray(value)) value.length = 0;
    else value.ruined = true;
}

export const cases = {};

// ---- decisions -----------------------------------------------------------------------------------------------------

cases['a decision holds what was decided and how, for decide and for a compiled policy'] = async () => {
    const input = question();
    const { rules, groups, ...rest } = input;
    for (const decision of [rc.decide(input), rc.compilePolicy(rules).decide(rest)]) {
        same(plain(decision), { ...DECISION, trace: TRACE });
    }
    const asked = rc.decide({ ...input, runContext: null, preset: null });
    same(asked.outcome, 'require');
    same(plain(asked.rule), { id: 1, agent_id: null, source: null, tool_pattern: 'write_*', path_pattern: 'logs/*', action: 'require', note: 'why', priority: 5, group_id: 'cron' });
};

cases['a decision and its trace are frozen through and through'] = async () => {
    const at = await place();
    frozen(rc.decide(question()));
    frozen(rc.decide({ ...question(), runContext: null, preset: null }));
    frozen(await at.session.gate(call('write_file', { path: 'a' })));
    frozen(await at.session.explain(call('patch', { text: '+++ a\n+++ secrets/b' })));
    frozen(at.session.visibleTools());
    await at.close();
};

cases['what else the gate gives out is a copy'] = async () => {
    const at = await place();
    await at.session.setRunContext({ allow_fs_writes: ['logs'] });
    for (const get of [() => rc.seededRules(), () => rc.pathsToResolve(question()), () => at.session.runContext]) {
        const before = plain(get());
        try {
            ruin(get());
        } catch (error) {
            ok(error instanceof TypeError, String(error));
        }
        same(plain(get()), before);
    }
    await at.close();
};

cases['a trace that is read later is the one that was read at once, whatever became of the input'] = async () => {
    for (const read of ['at once', 'later']) {
        const input = question();
        const { rules, groups, ...rest } = input;
        const policy = rc.compilePolicy(rules);
        const decisions = [rc.decide(input), policy.decide(rest)];
        if (read === 'at once') decisions.forEach((decision) => decision.trace);
        ruin(input);
        ruin(rest);
        policy.decide({ call: call('other'), cwd: '/w', resolved: [] });
        rc.decide({ call: call('other'), cwd: '/w', resolved: [], rules: [{ tool_pattern: '*', action: 'deny' }] });
        for (const decision of decisions) {
            same(plain(decision.trace), TRACE, read);
            ok(decision.trace === decision.trace, 'it is made anew');
        }
    }
};

cases['the trace of a session\'s decision is of its moment, whatever changes afterwards'] = async () => {
    const at = await place({ session: { permissionPreset: 'workspace-write' } });
    const { session } = at;
    const input = call('write_file', { path: 'a', deep: [{ x: 1 }] });
    const [read, unread] = [await session.gate(input), await session.gate(input)];
    const before = plain(read.trace);
    ruin(input);
    await session.setPermissionPreset('read-only');
    await session.setRunContext({ security_group: 'nowhere' });
    session.bypass('all');
    same(plain(unread.trace), before);
    same(before.at(-1), { step: 'preset', outcome: 'allow', note: 'preset', path: 0 });
    same((await session.gate(call('write_file', { path: 'a' }))).reason, 'group_missing');
    await session.dispose();
    same(plain(unread.trace), before);
    await at.close();
    same(plain(unread.trace), before);
};

cases['a decision goes through JSON.stringify and structuredClone, its trace with it'] = async () => {
    const at = await place();
    const decisions = [rc.decide(question()), await at.session.gate(call('write_file', { path: '/far' }))];
    for (const decision of decisions) {
        const clone = structuredClone(decision);
        same(plain(clone), plain(decision));
        ok(clone.trace.length > 0, 'there is no trace');
        same({ ...decision }.trace, decision.trace);
        same(Object.keys(decision).includes('trace'), true);
        // A clone is the caller's.
        clone.outcome = 'other';
    }
    same(decisions[0].outcome, 'allow');
    await at.close();
};

cases['a decision on odd texts keeps them'] = async () => {
    const odd = '\u{1f980}/\u00e9e\u0301/__proto__/\u2028"\\';
    const input = { ...question(), call: call('write_file', { path: odd }) };
    const decision = rc.decide(input);
    same(decision.paths[0].requested, odd);
    same(decision.paths[0].unresolved, 'the host gave no answer');
    same(plain(rc.pathsToResolve(input)).at(-1), { base: '/w', path: odd });
};

cases['members of Object.prototype are no paths, rules, tools or groups'] = async () => {
    const at = await place({ session: { permissionPreset: 'danger-full-access' } });
    for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
        // A tool that nobody declared.
        const decision = await at.session.gate(call(name, JSON.parse(`{ "${name}": 1 }`)));
        same(decision.paths, Object.freeze([]));
        const path = await at.session.gate(call('write_file', { path: name }));
        same([path.outcome, path.paths[0].canonical], ['allow', `/w/${name}`]);
        await at.session.setRunContext({ security_group: name });
        same((await at.session.gate(call('look'))).reason, 'group_missing', name);
        await at.session.setRunContext(null);
    }
    // An argument that is only inherited is none: it stands for the working directory.
    const inherited = Object.create({ path: 'secrets/key' });
    const found = await outcome(() => at.session.gate(call('write_file', inherited)));
    ok(found.rejected?.code === 'invalid_argument' || found.gave?.paths[0].requested === '', toText(found));
    await at.close();
};

// ---- many decisions by one policy ----------------------------------------------------------------------------------

const BOTH = { name: 'move', paths: [{ argument: '/path', access: 'read' }, { argument: '/to', access: 'write' }] };

/** What hosts make of the answers. */
const ANSWERS = {
    links: (list) => list.map((entry) => (entry.path.includes('logs') ? { ...entry, result: { canonical: '/etc/x' } } : entry)),
    unresolved: (list) => list.map((entry) => (entry.path.includes('logs') ? { ...entry, result: { unresolved: 'nobody knows' } } : entry)),
    reversed: (list) => [...list].reverse(),
    short: (list) => list.slice(0, -1),
    contradicting: (list) => [...list, ...list.map((entry) => ({ ...entry, result: { canonical: '/w/logs' } }))],
    'contradicting first': (list) => [...list.map((entry) => ({ ...entry, result: { unresolved: 'nobody knows' } })), ...list],
    'of another base': (list) => list.map((entry) => ({ ...entry, base: '/' })),
    both: (list) => list.map((entry) => ({ ...entry, result: { ...entry.result, unresolved: 'nobody knows' } })),
    neither: (list) => list.map((entry) => ({ ...entry, result: {} })),
    'with NUL': (list) => list.map((entry) => ({ ...entry, result: { canonical: '/w/logs\0c/w/logs' } })),
};

/** An input that counts how often it is looked at: once to compare it with the one before, and again to read it whole. */
const watched = ({ resolved, ...input }, looks) => Object.defineProperty(input, 'resolved', { enumerable: true, get: () => (looks.count++, resolved) });

/** One of a list after the other. */
let turns = 0;
const another = (list) => list[turns++ % list.length];

/** A change of a question in place, and whether it is still one. */
const CHANGES = [
    (input) => (input.preset = input.preset === null ? 'danger-full-access' : null),
    (input) => (input.runContext = { allow_fs_writes: ['logs'] }),
    (input) => input.runContext?.allow_fs_writes?.pop(),
    (input) => input.runContext?.allow_fs_writes?.push('/data'),
    (input) => (input.runContext = null),
    (input) => (input.bypasses = [{ scope: 'all', expiresAt: null }]),
    (input) => input.bypasses?.length && (input.bypasses[0].expiresAt = 10),
    (input) => (input.now = (input.now ?? 0) + 6),
    (input) => delete input.bypasses,
    (input) => (input.headless = !input.headless),
    (input) => (input.call.arguments.path = another(['/etc/x', 'logs/a', 'secrets/x', '\0', 'a\0clogs/a', '/data/x', 5, null])),
    (input) => (input.call.toolName = input.call.toolName === 'read_file' ? 'write_file' : 'read_file'),
    (input) => (input.tool = { ...WRITES }),
    (input) => (input.tool = BOTH),
    (input) => (input.call.arguments.to = another(['logs/b', '/w', 'secrets/b', ''])),
    (input) => (input.call.arguments.more = another([{ deep: [1, 'two', null] }, '\ud800', [,], 2 ** 70])),
    (input) => (input.tool = { name: 'x', access: 'network' }),
    (input) => delete input.tool,
    (input) => (input.tool = PATCH),
    (input) => (input.protectedNames = ['data']),
    (input) => delete input.protectedNames,
    (input) => (input.group = 'cron'),
    (input) => (input.groups = ['cron']),
    (input) => (input.groups = ['other']),
    (input) => (delete input.group, delete input.groups),
    (input) => (input.resolved = []),
    ...Object.keys(ANSWERS).map((name) => (input) => (input.answers = name)),
    (input) => (input.answers = 'all'),
];

cases['a compiled policy decides each of many calls as decide does, whatever changed in place since the last'] = async () => {
    const rules = question().rules;
    let state = 1;
    const below = (limit) => (state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff) % limit;
    const found = (work) => {
        try {
            return plain(work());
        } catch (error) {
            return { code: error.code, field: error.data?.field };
        }
    };
    const seen = {};
    const policy = rc.compilePolicy(rules);
    const looks = { count: 0 };
    let [decisions, quick] = [0, 0];
    let input;
    for (let turn = 0; turn < 4000; turn++) {
        if (turn % 12 === 0) input = { call: call('write_file', { path: 'logs/a', to: 'logs/b', text: '+++ a' }), cwd: '/w', preset: null, tool: BOTH };
        CHANGES[below(CHANGES.length)](input);
        const { answers, ...asked } = input;
        asked.resolved = found(() => rc.pathsToResolve(asked));
        if (!Array.isArray(asked.resolved)) asked.resolved = [];
        const truth = asked.resolved.map(({ base, path }) => ({ base, path, result: absolute(base, path) }));
        asked.resolved = answers in ANSWERS ? ANSWERS[answers](truth) : truth;
        // Of each a few: the first is read whole, the next are like it.
        for (let times = 0; times < 2; times++) {
            const expected = found(() => rc.decide({ ...asked, rules }));
            looks.count = 0;
            const given = watched(asked, looks);
            same(found(() => policy.decide(given)), expected, toText(asked));
            decisions++;
            if (looks.count === 1) quick++;
            const kind = expected.code ?? `${expected.outcome} ${expected.reason}`;
            seen[kind] = (seen[kind] ?? 0) + 1;
        }
    }
    ok(quick > decisions / 10 && quick < decisions / 2, `${quick} of ${decisions} were like the one before`);
    for (const kind of ['allow run_context', 'allow bypass', 'allow preset', 'require rule', 'require group_missing', 'deny headless', 'deny locked_rule', 'deny path_unsafe']) {
        ok(seen[kind] >= 5, `${kind}: ${toText(seen)}`);
    }
};

/** What a policy knows, and decides without reading it whole: one call after another. */
const known = () => ({
    call: call('write_file', { path: 'logs/a', content: 'x' }), tool: WRITES, cwd: '/w', workspaceRoot: '/', preset: 'danger-full-access', now: 1,
    runContext: { allow_fs_writes: ['logs'] }, bypasses: [],
    resolved: [['/', '/'], ['/w', '/w'], ['logs', '/w/logs'], ['logs/a', '/w/logs/a']].map(([path, canonical]) => ({ base: '/w', path, result: { canonical } })),
});

/** Whether a policy that knows an input decides this one without reading it whole. */
function isQuick(policy, input) {
    const looks = { count: 0 };
    policy.decide(watched(input, looks));
    return looks.count === 1;
}

cases['an input like the one before is not read whole'] = async () => {
    const policy = rc.compilePolicy([]);
    policy.decide(known());
    same([isQuick(policy, known()), isQuick(policy, { ...known(), preset: null }), isQuick(policy, known())], [true, false, false]);
    same(isQuick(policy, { ...known(), call: call('other', { path: 'logs/a', content: [{ x: 'y' }], more: null }) }), true);
};

cases['what is no plain JSON is refused also by a policy that knows the rest'] = async () => {
    for (const [name, change] of Object.entries({
        'a preset that is a function': (input) => (input.preset = () => {}),
        'a headless that is a symbol': (input) => (input.headless = Symbol('x')),
        'a map for a run context': (input) => (input.runContext = new Map()),
        'an instance in it': (input) => (input.runContext.allow_fs_writes = new Set(['logs'])),
        'a function in it': (input) => (input.runContext.security_group = () => {}),
        'a date for an agent': (input) => (input.agentId = new Date(0)),
        'answers that are no list': (input) => (input.resolved = new Set(input.resolved)),
        'an answer that is a map': (input) => (input.resolved[3].result = new Map()),
        'an answer that is an instance': (input) => (input.resolved[3].result = Object.assign(new (class Answer {})(), { canonical: '/w/logs/a' })),
        'an answer of two kinds': (input) => (input.resolved[3].result.unresolved = 'why'),
        'an answer that is null': (input) => (input.resolved[3].result = null),
        'an entry that is null': (input) => (input.resolved[2] = null),
        'an answer of no kind': (input) => (input.resolved[1].result = {}),
        'an answer that is a number': (input) => (input.resolved[3].result.canonical = 5),
        'a call that is no record': (input) => (input.call = Object.assign([], input.call)),
        'a call with a member that is none of JSON': (input) => (input.call.toolCallId = 10n),
        'a call whose id is half a character': (input) => (input.call.toolCallId = '\ud800'),
        'a call in itself': (input) => (input.call.self = input.call),
        'a call that inherits everything': (input) => (input.call = Object.create(input.call)),
        'a name that is hidden': (input) => Object.defineProperty(input.call, 'toolName', { enumerable: false }),
        'an answer that inherits what it says': (input) => (input.resolved[3].result = Object.create(input.resolved[3].result)),
        'an answer that hides what it says': (input) => Object.defineProperty(input.resolved[3].result, 'canonical', { enumerable: false }),
        'an entry that inherits its answer': (input) => (input.resolved[0] = Object.create(input.resolved[0])),
        'an answer with a member that is none of JSON': (input) => (input.resolved[1].result.more = 1n),
        'arguments with a hole': (input) => (input.call.arguments.content = [,]),
        'arguments with half a character': (input) => (input.call.arguments.content = ['\ud800']),
        'an argument whose name is half a character': (input) => (input.call.arguments['\udc00'] = 1),
        'arguments with bytes': (input) => (input.call.arguments.content = new Uint8Array(2)),
        'arguments with a function': (input) => (input.call.arguments.content = { toString() {} }),
        'arguments in themselves': (input) => (input.call.arguments.content = input.call.arguments),
        'arguments that are endless': (input) => (input.call.arguments.content = [NaN]),
        'a tool whose name is half a character': (input) => (input.call.toolName = '\ud800'),
        'a time that is never': (input) => (input.now = Infinity),
        'a time that is text': (input) => (input.now = '1'),
    })) {
        const policy = rc.compilePolicy([]);
        policy.decide(known());
        ok(isQuick(policy, known()), name);
        const input = known();
        change(input);
        await fails(() => rc.decide({ ...input, rules: [] }), 'invalid_argument', 'threw').catch((error) => fail(`${name}: ${error.message}`));
        await fails(() => policy.decide(input), 'invalid_argument', 'threw').catch((error) => fail(`${name}: ${error.message}`));
        same([policy.decide(known()).outcome, isQuick(policy, known())], ['allow', true], name);
    }
};

cases['a path that holds NUL brings no answers of its own'] = async () => {
    const policy = rc.compilePolicy([]);
    policy.decide(known());
    const path = '/etc/x\0c/w/logs/a';
    const input = { ...known(), call: call('write_file', { path }), resolved: known().resolved.slice(0, 3) };
    same(plain(policy.decide(input)), plain(rc.decide({ ...input, rules: [] })));
    same(policy.decide(input).reason, 'path_unsafe');
};

cases['arguments that are hidden are none, also for a policy that knows the rest'] = async () => {
    const policy = rc.compilePolicy([]);
    policy.decide(known());
    const input = { ...known(), preset: null };
    policy.decide(input);
    Object.defineProperty(input.call.arguments, 'path', { enumerable: false, value: '/etc/x' });
    same(plain(policy.decide(input)), plain(rc.decide({ ...input, rules: [] })));
    same(policy.decide(input).paths[0].requested, '');
};

cases['of two answers to one question the first counts, also for a policy that knows the rest'] = async () => {
    const entry = (path, canonical) => ({ base: '/w', path, result: { canonical } });
    // The path is one of those that are always asked.
    const root = { ...known(), call: call('write_file', { path: '/w' }), preset: null };
    root.resolved[3] = entry('/w', '/w/logs');
    // Two arguments are one path.
    const twice = { ...known(), tool: BOTH, preset: null };
    const both = (path, to, ...answers) => ({ ...twice, call: call('move', { path, to }), resolved: [...known().resolved.slice(0, 3), ...answers] });
    const answered = [entry('logs/a', '/w/logs/a'), entry('logs/b', '/w/logs/b')];
    const alike = both('x', 'x', entry('x', '/etc/x'), entry('x', '/w/logs/x'));
    for (const [before, input] of [[{ ...known(), preset: null }, root], [both('logs/a', 'logs/b', ...answered), alike]]) {
        const policy = rc.compilePolicy([]);
        same(policy.decide(before).outcome, 'allow');
        same(plain(policy.decide(input)), plain(rc.decide({ ...input, rules: [] })));
        same(policy.decide(input).outcome, 'require');
    }
};

cases['an input that answers otherwise the second time, or decides another one meanwhile, confuses no policy'] = async () => {
    const strict = () => ({ ...known(), preset: 'read-only' });
    const open = known;
    same([rc.compilePolicy([]).decide(strict()).outcome, rc.compilePolicy([]).decide(open()).outcome], ['require', 'allow']);
    // Read as open, then looked at again as strict.
    for (const flips of [1, 2, 3, 4]) {
        const policy = rc.compilePolicy([]);
        let looks = 0;
        const shifty = { ...strict() };
        Object.defineProperty(shifty, 'preset', { enumerable: true, get: () => (looks++ < flips ? 'danger-full-access' : 'read-only') });
        policy.decide(shifty);
        same([policy.decide(strict()).outcome, policy.decide(open()).outcome], ['require', 'allow'], `${flips}`);
    }
    // While the strict one is looked at, the open one is decided.
    for (const name of ['call', 'now', 'resolved', 'preset', 'tool']) {
        const policy = rc.compilePolicy([]);
        policy.decide(strict());
        const nested = strict();
        const value = nested[name];
        Object.defineProperty(nested, name, { enumerable: true, get: () => (policy.decide(open()).outcome, value) });
        same(policy.decide(nested).outcome, 'require', name);
        same(policy.decide(strict()).outcome, 'require', name);
    }
    // An argument that is another path each time: what was decided on is what is shown.
    const policy = rc.compilePolicy([]);
    policy.decide(known());
    const input = known();
    let looks = 0;
    Object.defineProperty(input.call.arguments, 'path', { enumerable: true, get: () => (looks++ === 0 ? 'logs/a' : '/etc/x') });
    same(policy.decide(input).paths[0].requested, 'logs/a');
};

cases['a page that meddles with how texts are folded can come back to the policy that folds them'] = async () => {
    const policy = rc.compilePolicy([{ id: 1, tool_pattern: '*', path_pattern: 'x', action: 'deny', priority: 1, group_id: 'default' }]);
    const input = () => ({ ...known(), call: call('write_file', { path: 'logs/Ä' }), resolved: [...known().resolved.slice(0, 3), { base: '/w', path: 'logs/Ä', result: { canonical: '/w/logs/Ä' } }] });
    policy.decide(input());
    const { normalize } = String.prototype;
    let depth = 0;
    String.prototype.normalize = function (form) {
        if (depth++ === 0) same(policy.decide(input()).outcome, 'allow');
        return normalize.call(this, form);
    };
    try {
        const decision = policy.decide(input());
        same([decision.outcome, decision.paths[0].requested, depth > 1], ['allow', 'logs/Ä', true]);
    } finally {
        String.prototype.normalize = normalize;
    }
    same(policy.decide(input()).outcome, 'allow');
};

// ---- the host ------------------------------------------------------------------------------------------------------

cases['the host is asked once for a decision, as a method, with texts, and may answer at once or later'] = async () => {
    for (const later of [false, true]) {
        const asked = [];
        const host = {
            cwd: '/w', workspaceRoot: '/',
            resolvePaths(base, paths, ...more) {
                ok(this === host, 'it is not called on the host');
                asked.push({ base, paths, more });
                const answers = paths.map((path) => absolute(base, path));
                return later ? new Promise((resolve) => setTimeout(resolve, 1, answers)) : answers;
            },
        };
        const at = await place({ host, session: { permissionPreset: 'workspace-write' } });
        const decision = await at.session.gate(call('patch', { text: '+++ a\n+++ /far/b' }));
        same(asked, [{ base: '/w', paths: ['/', '/w', 'a', '/far/b'], more: [] }]);
        same(decision.paths.map(({ argument, canonical }) => [argument, canonical]), [['extractPaths[0]', '/w/a'], ['extractPaths[1]', '/far/b']]);
        decision.trace;
        same(asked.length, 1);
        await Promise.all(Array.from({ length: 16 }, (_, at_) => at.session.explain(call('write_file', { path: `${at_}` }))));
        same(asked.length, 17);
        await at.close();
    }
};

/** What `resolvePaths` may give that is no answer. */
const ODD = {
    'throws': () => { throw new Error('no'); },
    'throws nothing': () => { throw undefined; },
    'rejects': () => Promise.reject(new Error('no')),
    'rejects with nothing': () => Promise.reject(),
    'gives nothing': () => undefined,
    'gives null': () => null,
    'gives a text': () => '/w',
    'gives a number': () => 5,
    'gives an object': () => ({ canonical: '/w' }),
    'gives a Map': () => new Map([[0, { canonical: '/w' }]]),
    'gives no answers': () => [],
    'gives one answer': () => [{ canonical: '/w' }],
    'gives holes': (base, paths) => Array(paths.length),
    'gives nulls': (base, paths) => paths.map(() => null),
    'gives texts': (base, paths) => paths.map((path) => absolute(base, path).canonical),
    'gives answers that say nothing': (base, paths) => paths.map(() => ({})),
    'gives canonical paths that are no texts': (base, paths) => paths.map(() => ({ canonical: { toString: () => '/w/a' } })),
    'gives canonical paths that are text objects': (base, paths) => paths.map((path) => ({ canonical: new String(absolute(base, path).canonical) })),
    'gives half a pair': (base, paths) => paths.map(() => ({ canonical: '/w/\ud83d' })),
    'gives both': (base, paths) => paths.map((path) => ({ ...absolute(base, path), unresolved: 'x' })),
    'gives relative paths': (base, paths) => paths.map(() => ({ canonical: 'w/a' })),
    'gives getters that throw': (base, paths) => paths.map(() => ({ get canonical() { throw new Error('no'); } })),
    'gives inherited answers': (base, paths) => paths.map((path) => Object.create(absolute(base, path))),
    'gives a list that throws': (base, paths) => new Proxy(paths.map((path) => absolute(base, path)), { get(target, name) {
        if (name === '1') throw new Error('no');
        return target[name];
    } }),
    'gives a thenable that throws': () => ({ get then() { throw new Error('no'); } }),
    'gives a promise of nothing': async () => undefined,
    'gives a cycle': () => {
        const list = [];
        list.push(list);
        return list;
    },
};

cases['whatever the host gives that is no answer, no path is allowed and what has no path is'] = async () => {
    for (const [what, resolvePaths] of Object.entries(ODD)) {
        const at = await place({ host: { cwd: '/w', resolvePaths }, session: { permissionPreset: 'danger-full-access' } });
        at.session.bypass('all');
        for (const asked of [call('write_file', { path: 'a' }), call('read_file'), call('patch', { text: '+++ a' }), call('write_file', { path: '/w/memory/a' })]) {
            const decision = await soon(at.session.gate(asked), `the answer where it ${what}`);
            if (decision.outcome !== 'require') fail(`a host that ${what}: ${toText(plain(decision))}`);
            same(plain(decision.trace).some((step) => step.outcome === 'allow' && 'path' in step), false, what);
        }
        for (const asked of [call('fetch', { url: 'x' }), call('look')]) same((await at.session.gate(asked)).outcome, 'allow', what);
        same((await at.session.gate(call('write_file', { path: 'secrets/key' }))).outcome, 'deny', what);
        await at.close();
    }
};

cases['a host that never answers holds up nobody else, and can be left'] = async () => {
    const hanging = deferred();
    let hangs = true;
    const host = { cwd: '/w', resolvePaths: (base, paths) => (hangs ? hanging.promise : HOST.resolvePaths(base, paths)) };
    const at = await place({ host, session: { permissionPreset: 'workspace-write' } });
    const first = at.session.gate(call('write_file', { path: 'a' }));
    hangs = false;
    const other = await at.runtime.createSession({ cwd: '/w', permissionPreset: 'workspace-write' });
    for (const session of [other, at.session]) same((await soon(session.gate(call('write_file', { path: 'a' })), 'a decision')).outcome, 'allow');
    same((await at.session.prompt('Hello')).saved, true);
    await at.session.abort();
    at.session.bypass('all');
    hanging.resolve([{ canonical: '/w' }, { canonical: '/w' }, { canonical: '/w/a' }]);
    same((await first).outcome, 'allow');
    await at.close();
};

cases['a decision that waits for a host that never answers ends with its session, its runtime or its turn'] = async () => {
    for (const [end, code] of Object.entries({ dispose: 'disposed', delete: 'disposed', close: 'disposed', cancel: 'aborted', abort: 'aborted' })) {
        const host = { cwd: '/w', resolvePaths: () => new Promise(() => {}) };
        const at = await place({ host, session: { permissionPreset: 'workspace-write' } });
        const asked = call('write_file', { path: 'a' });
        const waiting = [];
        if (code === 'aborted') {
            const turn = await at.session.begin('Go');
            await turn.request();
            await turn.dispatched();
            await turn.append(calling(['c1', 'write_file', asked.arguments]));
            waiting.push(outcome(() => turn.gate(asked)));
            await (end === 'cancel' ? turn.cancel() : at.session.abort());
        } else {
            waiting.push(outcome(() => at.session.gate(asked)), outcome(() => at.session.explain(asked)));
            if (end === 'dispose') await at.session.dispose();
            else if (end === 'delete') await at.runtime.deleteSession('s');
            else await at.runtime.close();
        }
        // Whoever waits hears of it while the end is still being saved.
        for (const decision of waiting) same((await soon(decision, `the end after ${end}`)).rejected?.code, code, end);
        if (end !== 'close') await at.close();
    }
};

cases['extractPaths is called as a method, with a copy of the arguments, and what it gives is decided'] = async () => {
    const seen = [];
    const patch = {
        name: 'patch', access: 'write',
        extractPaths(args) {
            seen.push(this === patch);
            const found = args.files.map((path) => ({ path, access: 'write' }));
            try {
                args.files.length = 0;
            } catch {}
            return found;
        },
    };
    const at = await place({ tools: [patch], session: { permissionPreset: 'workspace-write' } });
    const args = { files: ['a', '/far/b'] };
    const decision = await at.session.gate(call('patch', args));
    same([decision.outcome, decision.paths.map(({ requested }) => requested)], ['require', ['a', '/far/b']]);
    same(args, { files: ['a', '/far/b'] });
    same(new Set(seen), new Set([true]));
    for (const extractPaths of [() => { throw new Error('no'); }, async () => [], () => undefined, () => [{ path: 5, access: 'read' }], () => [{ path: 'a' }]]) {
        const bad = await place({ tools: [{ name: 'patch', extractPaths }], session: { permissionPreset: 'danger-full-access' } });
        await fails(() => bad.session.gate(call('patch', { text: '' })), 'host_failed');
        await bad.close();
    }
    await at.close();
};

// ---- sessions ------------------------------------------------------------------------------------------------------

cases['in a turn the gate lets a result in, and its errors change nothing'] = async () => {
    const at = await place({ session: { permissionPreset: 'workspace-write' } });
    const turn = await at.session.begin('Go');
    await turn.request();
    await turn.dispatched();
    const open = call('write_file', { path: 'a' });
    await turn.append(calling(['c1', 'write_file', open.arguments]));
    same(plain(turn.openCalls), [open]);
    const before = await at.stored();
    await at.session.explain(open);
    await fails(() => turn.append(resultOf('c1', 'write_file', 'done')), 'tool_not_gated');
    await fails(() => turn.gate({ ...open, toolName: 'look' }), 'invalid_argument');
    await fails(() => turn.gate(null), 'invalid_argument');
    same(await at.stored(), before);
    same((await turn.gate(turn.openCalls[0])).outcome, 'allow');
    await turn.append(resultOf('c1', 'write_file', 'done'), assistant('Done.'));
    await turn.finish();
    await fails(() => turn.gate(open), 'invalid_argument');
    same((await at.session.gate(open)).outcome, 'allow');
    await at.session.dispose();
    await fails(() => at.session.gate(open), 'disposed');
    await fails(() => at.session.explain(open), 'disposed');
    await fails(() => at.session.bypass('all'), 'disposed', 'threw');
    await fails(() => at.session.setRunContext(null), 'disposed');
    await at.close();
};

cases['bypasses count at once, end by the clock, and fall with clearBypass'] = async () => {
    const at = await place({ session: { permissionPreset: 'read-only' } });
    const asked = call('write_file', { path: '/far' });
    const found = async () => (await at.session.gate(asked)).outcome;
    same(await found(), 'require');
    const before = await at.stored();
    at.session.bypass({ category: 'files' }, 60);
    same(await found(), 'allow');
    same((await at.session.gate(call('fetch'))).outcome, 'require');
    at.now.now += 59_999;
    same(await found(), 'allow');
    at.now.now += 1;
    same(await found(), 'require');
    at.session.bypass({ mcpServer: 'web' });
    same((await at.session.gate(call('fetch'))).outcome, 'allow');
    at.session.bypass('all');
    same(await found(), 'allow');
    same(at.session.clearBypass(), undefined);
    same(await found(), 'require');
    at.session.bypass('all');
    same(await at.stored(), before);
    await at.session.dispose();
    same((await (await at.runtime.openSession('s')).gate(asked)).outcome, 'require');
    await at.close();
};

cases['a run context is what was set, wherever it is shown, and null again'] = async () => {
    const at = await place();
    const context = { security_group: 'cron', system_prompt: ['One.', 'Two.'], allow_fs_writes: ['logs/*'], allow_fs_reads: ['docs/'], working_directory: '/tmp' };
    same(at.session.runContext, null);
    const given = structuredClone(context);
    const saving = at.session.setRunContext(given);
    ruin(given);
    await saving;
    for (const shown of [at.session.runContext, at.session.state.runContext, at.session.header.runContext]) same(plain(shown), context);
    same(at.session.permissionPreset, null);
    await at.session.setRunContext({});
    same(plain(at.session.runContext), { security_group: null, system_prompt: [], allow_fs_writes: [], allow_fs_reads: [], working_directory: null });
    await at.session.setRunContext(null);
    same([at.session.runContext, at.session.state.runContext, at.session.header.runContext], [null, null, null]);
    same(at.session.permissionPreset, 'read-only');
    const made = await at.runtime.createSession({ cwd: '/w', runContext: context });
    same(plain(made.runContext), context);
    await at.close();
};

cases['protected names of the runtime are closed whatever is allowed'] = async () => {
    const at = await place({ protectedNames: ['Vault', '.ENV'], session: { permissionPreset: 'danger-full-access', runContext: { allow_fs_writes: ['vault'] } } });
    at.session.bypass('all');
    for (const path of ['vault/x', 'a/VAULT', '/w/.env', 'x/.Env/y']) {
        const decision = await at.session.gate(call('write_file', { path }));
        same([decision.outcome, decision.reason, decision.rule.id < 0], ['deny', 'locked_rule', true], path);
        same(decision.rule.locked, true);
    }
    for (const path of ['secrets/x', 'vaults/x', '/vault/x', '.envrc']) same((await at.session.gate(call('write_file', { path }))).outcome, 'allow', path);
    await at.close();
};

cases['no tool starts once abort() was called, at whatever moment'] = async () => {
    let began = 0;
    for (let moment = 0; moment < 40; moment++) {
        const asked = deferred();
        let late = false, stopped = false;
        const at = await place({
            host: { ...HOST, resolvePaths: async (...batch) => HOST.resolvePaths(...batch) },
            model: scripted(() => (asked.resolve(), calling(['c1', 'write_file', { path: 'a' }])), assistant('Done.')),
            storage: 'memory',
            tools: [{ ...WRITES, execute: () => { late ||= stopped; began += 1; return 'ok'; } }],
        });
        at.session.bypass('all');
        const prompted = at.session.prompt('Hello');
        await asked.promise;
        for (let turn = 0; turn < moment; turn++) await null;
        const over = at.session.abort();
        stopped = true;
        await over;
        await prompted;
        same(late, false, `${moment}`);
        await at.close();
    }
    ok(began > 0, 'no moment was late enough for the tool to run');
};

cases['visibleTools are the declared tools, without what only the library needs'] = async () => {
    const shown = { name: 'shown', description: 'What it does.', parameters: { type: 'object' } };
    const at = await place({ tools: [tool('a', () => 1), { ...WRITES, ...shown, advisory: ['/note'] }] });
    const [a, b, ...rest] = plain(at.session.visibleTools());
    same([a, b, rest.map(({ name }) => name)], [{ name: 'a' }, shown, ['load_skill']]);
    await at.close();
};

cases['seeded rules are rows that compilePolicy takes'] = async () => {
    const rules = rc.seededRules();
    same(plain(rules).map(({ id, tool_pattern, action, priority, group_id }) => [id, tool_pattern, action, priority, group_id]), [
        [1, 'execute_cmd', 'require', 100, 'default'], [2, 'restart', 'require', 100, 'default'], [3, 'load_skill', 'allow', 100, 'default'], [4, '*', 'require', 1000, 'default'],
    ]);
    const policy = rc.compilePolicy(rules);
    const decided = (toolName) => policy.decide({ call: call(toolName), tool: { name: toolName, access: 'none' }, cwd: '/w', resolved: [] }).outcome;
    same(['load_skill', 'execute_cmd', 'other'].map(decided), ['allow', 'require', 'require']);
};

cases['a session whose storage was put back to an earlier state decides nothing by what it knew'] = async () => {
    let stored = rc.memoryStorage();
    const commits = [];
    /** The adapter that can be put back under the session. */
    const storage = {
        kind: 'restored', persistent: true, shared: stored.shared, directory: stored.directory,
        session: (id) => ({
            counters: () => stored.session(id).counters(), load: () => stored.session(id).load(),
            readMessages: (page) => stored.session(id).readMessages(page), delete: () => stored.session(id).delete(),
            commit: (commit) => (commits.push(commit), stored.session(id).commit(commit)),
        }),
    };
    const at = await place({ storage });
    await at.runtime.permissions.addRule({ tool_pattern: 'look', action: 'allow', priority: 1 });
    same((await at.session.gate(call('look'))).outcome, 'allow');
    for (const title of ['one', 'two', 'three']) await at.session.setTitle(title);

    const earlier = commits.slice(0, -2);
    stored = rc.memoryStorage();
    for (const commit of earlier) await stored.session(at.session.id).commit(commit);
    const other = await rc.Runtime.open({ storage });
    await (await other.openSession(at.session.id)).setRunContext({ security_group: 'nobody-has-this' });

    const found = await at.session.gate(call('look'));
    same([found.outcome, found.reason], ['require', 'policy_unverified']);
    await at.session.reload();
    same((await at.session.gate(call('look'))).reason, 'group_missing');
    await other.close();
    await at.close();
};
