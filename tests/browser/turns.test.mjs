// The rows of the table of turns, through the JavaScript surface, on real IndexedDB: for each, every record of every
// store is read past the package and compared, and the scripted model and tools count what was asked of them.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { launch } from '../support/chromium.mjs';
import { noise } from '../support/cases/kit.mjs';
import { openPage, servePackage } from '../support/page.mjs';
import * as stored from '../support/stored.mjs';
import { tokens } from '../support/tokens.mjs';

let browser, server, page;
/** Each test has a database of its own. */
let number = 0, name;

before(async () => {
    browser = await launch();
    server = await servePackage();
    page = await prepared(server);
});

/** A page with `start`. */
async function prepared(server) {
    const page = await openPage(browser, server);
    await page.evaluate(() => {
        /** A runtime with a session `s` and the skill `demo` in a new database. The clock stands at 1000, then at 2000. */
        window.start = async (name, { model, tools = [], ...options }) => {
            const now = kit.handClock(1000);
            const runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name }, model, tools, now, ...options });
            const skill = await runtime.skills.add({ content: kit.skillFile('demo', 'Do.'), location: '/d/SKILL.md' });
            const session = await runtime.createSession({ id: 's', cwd: '/w' });
            // Nobody is asked: these are tests of turns, and a bypass is not stored.
            session.bypass('all');
            now.now = 2000;
            return { runtime, session, skill, now, counts: () => ({
                model: model.calls, checks: model.checks, tools: tools.map((tool) => tool.runs ?? 0),
            }) };
        };
    });
    return page;
}

after(async () => {
    await browser?.close();
    await server?.close();
});
beforeEach(() => {
    name = `turns-${number++}`;
});
afterEach(async () => {
    await page.evaluate(() => kit.calm());
    assert.deepEqual(await page.unhandled(), []);
});

const EMPTY = stored.session({ commits: 1 });

// ---- nothing is kept ---------------------------------------------------------------------------------------------------

for (const [what, expected, work] of [
    ['a skill that is not there', { code: 'skill_unavailable', checks: 0 }, ({ session }) =>
        session.prompt('Hello', { skills: ['personal:/nowhere/SKILL.md'] })],
    ['a skill that was removed', { code: 'skill_unavailable', checks: 0 }, async ({ session, skill, runtime }) => {
        await runtime.skills.remove(skill.id);
        await runtime.skills.add({ content: kit.skillFile('other', 'Do.'), location: '/o/SKILL.md' });
        try {
            return await session.prompt('Hello', { skills: ['personal:/o/SKILL.md', skill.id] });
        } finally {
            await runtime.skills.remove('personal:/o/SKILL.md');
            await runtime.skills.add({ content: kit.skillFile('demo', 'Do.'), location: '/d/SKILL.md' });
        }
    }],
    ['a preflight that fails', { code: 'model_failed', checks: 1 }, ({ session, model }) => {
        model.check = async () => {
            model.checks++;
            throw new Error('no key');
        };
        return session.prompt('Hello $demo');
    }],
    ['a preflight that throws', { code: 'model_failed', checks: 1 }, ({ session, model }) => {
        model.check = () => {
            model.checks++;
            throw new Error('no key');
        };
        return session.prompt('Hello');
    }],
    ['a signal that was aborted before', { code: 'aborted', checks: 0 }, ({ session }) =>
        session.prompt('Hello', { signal: AbortSignal.abort() })],
    ['a signal that is aborted during the preflight', { code: 'aborted', checks: 1 }, ({ session, model }) => {
        const controller = new AbortController();
        model.check = () => {
            model.checks++;
            controller.abort();
            return new Promise(() => {});
        };
        return session.prompt('Hello', { signal: controller.signal });
    }],
    ['abort() during the preflight', { code: 'aborted', checks: 1 }, async ({ session, model }) => {
        model.check = () => {
            model.checks++;
            session.abort();
            return new Promise(() => {});
        };
        return session.prompt('Hello');
    }],
    ['an aborted signal of begin()', { code: 'aborted', checks: 0 }, ({ session }) =>
        session.begin('Hello', { signal: AbortSignal.abort() })],
    ['a message that is none', { code: 'invalid_argument', checks: 0 }, ({ session }) =>
        session.prompt({ role: 'assistant', content: 'Hello' })],
    ['a message that cannot be stored', { code: 'message_not_storable', checks: 0 }, ({ session }) =>
        session.prompt([{ type: 'text', text: 'Hello', then() {} }])],
]) {
    test(`nothing is kept after ${what}`, async () => {
        const found = await page.run(async (name, work) => {
            const model = kit.scripted(kit.assistant('Done.'));
            const started = await start(name, { model });
            const before = await kit.dump(name);
            const events = [];
            started.session.subscribe((event) => events.push(event.type));
            const outcome = await kit.outcome(() => window.work({ ...started, model }));
            const { state } = started.session;
            const counts = started.counts();
            const after = await kit.dump(name);
            model.check = undefined;
            return { before, after, outcome, events: [...events], state, counts, next: await started.session.prompt('Again') };
        }, name, await setWork(work));
        assert.deepEqual(stored.normal(found.before), EMPTY);
        assert.deepEqual(found.after, found.before);
        assert.equal(found.outcome.rejected?.typed, true, JSON.stringify(found.outcome));
        assert.equal(found.outcome.rejected.code, expected.code);
        assert.deepEqual(found.counts, { model: 0, checks: expected.checks, tools: [] });
        assert.deepEqual(found.events, []);
        assert.deepEqual(
            [found.state.messageCount, found.state.isRunning, found.state.hasPendingSave, found.state.outcome],
            [0, false, false, { $: 'undefined' }],
        );
        // The session is as free as before.
        assert.deepEqual(found.next, { outcome: 'success', saved: true });
    });
}

/** Puts a function of a test into the page, as `window.work`. */
async function setWork(work) {
    await page.evaluate(`window.work = ${work}`);
    return undefined;
}

test('nothing is kept of a turn that its host cancels before it is on its way', async () => {
    const found = await page.run(async (name) => {
        const { session } = await start(name, { model: kit.scripted() });
        const before = await kit.dump(name);
        const results = [];
        results.push(await (await session.begin('Hello $demo')).cancel());
        const turn = await session.begin('Hello $demo');
        await turn.request();
        results.push(await turn.cancel());
        const controller = new AbortController();
        const aborted = await session.begin('Hello $demo', { signal: controller.signal });
        await aborted.request();
        controller.abort();
        await session.abort();
        results.push(await kit.outcome(() => aborted.dispatched()));
        return { before, after: await kit.dump(name), results, state: session.state };
    }, name);
    assert.deepEqual(stored.normal(found.before), EMPTY);
    assert.deepEqual(found.after, found.before);
    assert.deepEqual(found.results.slice(0, 2), Array(2).fill({ outcome: 'cancelled', saved: true }));
    assert.equal(found.results[2].rejected.code, 'invalid_argument');
    assert.equal(found.state.isRunning, false);
});

// ---- dispatched ----------------------------------------------------------------------------------------------------------

const USER = { role: 'user', content: 'Hello $demo', timestamp: 2000 };
const USER_OUTLINE = { role: 'user', userTurn: true, textLen: 11, tokens: tokens('Hello $demo') };
const SNAPSHOT = {
    userTurn: 0,
    content: '<skill name="demo" location="/d/SKILL.md">\nDo.\n</skill>',
    timestamp: 2000,
    skills: [{
        id: 'personal:/d/SKILL.md',
        name: 'demo',
        path: '/d/SKILL.md',
        content: '---\nname: demo\ndescription: What demo is for.\n---\n\nDo.\n',
        // printf -- '---\nname: demo\ndescription: What demo is for.\n---\n\nDo.\n' | sha256sum
        revision: 'e76e07adba137acd1c56dab40e0fd92b8c238be47c6e6c91f6f4ea419d2e242a',
        description: 'What demo is for.',
    }],
    placement: 'user',
};
const CHECKPOINT = {
    messageCount: 1,
    timestamp: 2000,
    sections: {
        cwd: 'Current working directory: /w',
        permissions: 'Permission preset: read-only.',
        skills: stored.offered('demo', 'What demo is for.'),
    },
};
/** What is stored of a turn under way: its user message, and what was in force as it began. */
const OPEN_TURN = { userMessage: 0, runContext: null, permissionPreset: 'read-only' };

/** What the dispatch of `Hello $demo` leaves. */
const DISPATCHED = {
    commits: 2,
    updatedAt: 2000,
    conversation: 2,
    settings: 1,
    set: { openTurn: OPEN_TURN },
    messages: [[USER, USER_OUTLINE]],
    snapshots: [SNAPSHOT],
    checkpoints: [CHECKPOINT],
};
/** The same and more: messages and commits of the conversation after the dispatch. */
const then = (messages, commits, more = {}) => ({
    ...DISPATCHED,
    commits: 2 + commits,
    conversation: 2 + commits,
    ...more,
    messages: [...DISPATCHED.messages, ...messages],
});
/** How a settled turn leaves the settings. */
const ended = (outcome, error = null) => ({ settings: 2, set: { openTurn: null, outcome, error } });

const said = (text, more = {}) => [
    { role: 'assistant', content: [{ type: 'text', text }], stopReason: 'stop', ...more },
    { role: 'assistant', textLen: text.length, tokens: tokens(text) },
];
/** One call without arguments. */
const called = (...calls) => [
    {
        role: 'assistant',
        content: calls.map(([id, name]) => ({ type: 'toolCall', id, name, arguments: {} })),
        stopReason: 'toolUse',
    },
    {
        role: 'assistant',
        calls: calls.map(([id, name]) => ({ id, name })),
        textLen: 0,
        tokens: calls.reduce((sum, [id, name]) => sum + tokens(JSON.stringify({ type: 'toolCall', id, name, arguments: {} })), 0),
    },
];
const answered = (id, name, text, more = {}) => [
    {
        role: 'toolResult', toolCallId: id, toolName: name, content: [{ type: 'text', text }], isError: false,
        timestamp: 2000, ...more,
    },
    {
        role: 'toolResult',
        answers: [{ id, name, ...(more.isError ? { isError: true } : {}) }],
        textLen: text.length,
        tokens: tokens(text),
    },
];
const INTERRUPTED = 'The tool call was interrupted before it finished. It may be retried.';
/** Its time is that of the message with the call, which has none here. */
const interrupted = (id, name) => {
    const [{ timestamp, ...message }, outline] = answered(id, name, INTERRUPTED, { isError: true });
    return [message, outline];
};

test('the dispatch keeps the user message, the snapshot and the checkpoint in one commit, before the model is asked', async () => {
    const found = await page.run(async (name) => {
        const seen = {};
        const model = kit.scripted(async () => {
            seen.dump = await kit.dump(name);
            seen.state = started.session.state;
            return kit.assistant('Done.');
        });
        const started = await start(name, { model });
        const events = [];
        started.session.subscribe((event) => events.push(event));
        const result = await started.session.prompt('Hello $demo');
        return { seen, events, result, after: await kit.dump(name), counts: started.counts() };
    }, name);
    assert.deepEqual(stored.normal(found.seen.dump), stored.session(DISPATCHED));
    assert.deepEqual([found.seen.state.isRunning, found.seen.state.messageCount], [true, 1]);
    assert.deepEqual(found.result, { outcome: 'success', saved: true });
    assert.deepEqual(found.counts, { model: 1, checks: 1, tools: [] });
    assert.deepEqual(stored.normal(found.after), stored.session(then([said('Done.')], 2, ended('success'))));
    const [{ budget, ...first }, ...events] = found.events;
    assert.deepEqual([first, budget], [{ type: 'budget' }, found.seen.state.contextBudget]);
    assert.deepEqual(events, [
        { type: 'turn-start', userTurn: 0 },
        { type: 'message', messageIndex: 0, message: USER },
        { type: 'saved' },
        { type: 'message', messageIndex: 1, message: said('Done.')[0] },
        { type: 'saved' },
        { type: 'saved' },
        { type: 'turn-end', result: { outcome: 'success', saved: true } },
    ]);
});

test('a turn of a host with its own loop keeps nothing at request(), and the same at dispatched()', async () => {
    const found = await page.run(async (name) => {
        const { session } = await start(name, { model: kit.scripted(), strict: false });
        const dumps = [];
        const turn = await session.begin('Hello $demo');
        const one = await turn.request();
        const two = await turn.request();
        dumps.push(await kit.dump(name));
        await turn.dispatched();
        dumps.push(await kit.dump(name));
        await turn.append(kit.calling(['c1', 'look']));
        const open = turn.openCalls;
        dumps.push(await kit.dump(name));
        await turn.append(kit.resultOf('c1', 'look', 'seen', { timestamp: 2000 }), kit.assistant('Done.'));
        dumps.push(await kit.dump(name));
        const result = await turn.finish();
        dumps.push(await kit.dump(name));
        return { dumps, same: kit.toText(one) === kit.toText(two), one, open, result };
    }, name);
    const messages = [called(['c1', 'look']), answered('c1', 'look', 'seen'), said('Done.')];
    assert.deepEqual(found.dumps.map(stored.normal), [
        EMPTY,
        stored.session(DISPATCHED),
        stored.session(then(messages.slice(0, 1), 1)),
        // What is appended together is one commit.
        stored.session(then(messages, 2)),
        stored.session(then(messages, 3, ended('success'))),
    ]);
    assert.equal(found.same, true);
    assert.deepEqual(found.one.request.messages, [{ ...USER, content: `${SNAPSHOT.content}\n\nHello $demo` }]);
    assert.deepEqual(found.open, [{ toolCallId: 'c1', toolName: 'look', arguments: {} }]);
    assert.deepEqual(found.result, { outcome: 'success', saved: true });
});

// ---- after the dispatch ----------------------------------------------------------------------------------------------------

/** A prompt `Hello $demo` with this model and these tools, dumped at its end. `make` runs in the page. */
async function prompted(make) {
    return page.run(async (name, make) => {
        const made = window.work();
        const started = await start(name, made);
        const controller = new AbortController();
        made.session = started.session;
        made.controller = controller;
        const outcome = await kit.outcome(() => started.session.prompt('Hello $demo', { signal: controller.signal }));
        const after = await kit.dump(name);
        const { session } = started;
        return { outcome, after, counts: started.counts(), requests: made.model.requests.map((text) => JSON.parse(text)), state: session.state };
    }, name, await setWork(make));
}

const interruptedIn = (found) => [found.state.isRunning, found.state.hasPendingSave];

test('calls of one message run side by side, and their results are one commit', async () => {
    const found = await prompted(() => {
        const started = [];
        const both = kit.deferred();
        const run = (text) => async () => {
            if (started.push(text) === 2) both.resolve();
            await both.promise;
            return text;
        };
        const tools = [kit.tool('look', run('seen')), kit.tool('smell', run('roses'))];
        return { tools, model: kit.scripted(kit.calling(['c1', 'look'], ['c2', 'smell']), kit.assistant('Done.')) };
    });
    const messages = [
        called(['c1', 'look'], ['c2', 'smell']),
        answered('c1', 'look', 'seen'),
        answered('c2', 'smell', 'roses'),
        said('Done.'),
    ];
    assert.deepEqual(found.outcome, { gave: { outcome: 'success', saved: true } });
    assert.deepEqual(stored.normal(found.after), stored.session(then(messages, 4, ended('success'))));
    assert.deepEqual(found.counts, { model: 2, checks: 1, tools: [1, 1] });
    assert.deepEqual(found.requests[1].messages.slice(1), messages.slice(0, 3).map(([message]) => message));
});

test('a model that fails at once leaves the user message', async () => {
    const found = await prompted(() => ({ model: kit.scripted(() => Promise.reject(new Error('overloaded'))) }));
    assert.deepEqual(found.outcome, { gave: { outcome: 'error', error: 'overloaded', saved: true } });
    assert.deepEqual(stored.normal(found.after), stored.session(then([], 1, ended('error', 'overloaded'))));
    assert.deepEqual(interruptedIn(found), [false, false]);
});

test('a model that fails half way leaves its last partial answer, and calls in it are not open', async () => {
    const found = await prompted(() => ({
        tools: [kit.tool('look', () => 'seen')],
        model: kit.scripted((request, { onUpdate }) => {
            onUpdate({ role: 'assistant', content: [{ type: 'text', text: 'I' }] });
            onUpdate({
                role: 'assistant',
                content: [{ type: 'text', text: 'I will' }, { type: 'toolCall', id: 'c1', name: 'look', arguments: {} }],
            });
            throw new Error('connection reset');
        }),
    }));
    const partial = [
        {
            role: 'assistant',
            content: [{ type: 'text', text: 'I will' }, { type: 'toolCall', id: 'c1', name: 'look', arguments: {} }],
            stopReason: 'error',
            errorMessage: 'connection reset',
        },
        { role: 'assistant', calls: [{ id: 'c1', name: 'look' }], stop: 'error', textLen: 6, tokens: tokens('I will') + called(['c1', 'look'])[1].tokens },
    ];
    assert.deepEqual(found.outcome, { gave: { outcome: 'error', error: 'connection reset', saved: true } });
    assert.deepEqual(stored.normal(found.after), stored.session(then([partial], 1, ended('error', 'connection reset'))));
    assert.deepEqual(found.counts, { model: 1, checks: 1, tools: [0] });
});

test('an answer that says that it failed ends the turn, and its calls are not run', async () => {
    const found = await prompted(() => ({
        tools: [kit.tool('look', () => 'seen')],
        model: kit.scripted({ ...kit.calling(['c1', 'look']), stopReason: 'error', errorMessage: 'too long' }),
    }));
    const [message, outline] = called(['c1', 'look']);
    const failed = [{ ...message, stopReason: 'error', errorMessage: 'too long' }, { ...outline, stop: 'error' }];
    assert.deepEqual(found.outcome, { gave: { outcome: 'error', error: 'too long', saved: true } });
    assert.deepEqual(stored.normal(found.after), stored.session(then([failed], 2, ended('error', 'too long'))));
    assert.deepEqual(found.counts.tools, [0]);
});

for (const [what, stop] of [
    ['the signal', (made) => made.controller.abort()],
    ['abort()', (made) => void made.session.abort()],
]) {
    test(`stopped by ${what} while the model answers: the partial answer is kept, with its stop reason`, async () => {
        const found = await prompted(`() => {
            const made = {
                model: kit.scripted(async (request, { signal, onUpdate }) => {
                    onUpdate({ role: 'assistant', content: [{ type: 'text', text: 'I will' }] });
                    (${stop})(made);
                    await kit.aborted(signal);
                }),
            };
            return made;
        }`);
        const partial = [
            { role: 'assistant', content: [{ type: 'text', text: 'I will' }], stopReason: 'aborted' },
            { role: 'assistant', stop: 'aborted', textLen: 6, tokens: tokens('I will') },
        ];
        assert.deepEqual(found.outcome, { gave: { outcome: 'cancelled', saved: true } });
        assert.deepEqual(stored.normal(found.after), stored.session(then([partial], 1, ended('cancelled'))));
        assert.deepEqual(found.counts, { model: 1, checks: 1, tools: [] });
    });
}

test('stopped while tools run: what has finished is kept, every open call is answered as interrupted', async () => {
    const found = await prompted(() => {
        let waiting = 0;
        const made = {
            tools: [
                kit.tool('look', () => 'seen'),
                kit.tool('wait', async (args, { signal }) => {
                    // When both wait, and one task later, so that the other tool has answered.
                    if (++waiting === 2) setTimeout(() => made.controller.abort());
                    await kit.aborted(signal);
                }),
            ],
            model: kit.scripted(kit.calling(['c1', 'wait'], ['c2', 'look'], ['c3', 'wait'])),
        };
        return made;
    });
    const messages = [
        called(['c1', 'wait'], ['c2', 'look'], ['c3', 'wait']),
        answered('c2', 'look', 'seen'),
        interrupted('c1', 'wait'),
        interrupted('c3', 'wait'),
    ];
    assert.deepEqual(found.outcome, { gave: { outcome: 'cancelled', saved: true } });
    assert.deepEqual(stored.normal(found.after), stored.session(then(messages, 3, ended('cancelled'))));
    assert.deepEqual(found.counts, { model: 1, checks: 1, tools: [1, 2] });
});

test('a tool that throws, is not there or has no execute gives an error result, and the turn goes on', async () => {
    const found = await prompted(() => ({
        tools: [
            kit.tool('breaks', () => {
                throw new Error('out of paper');
            }),
            { name: 'declared', access: 'none' },
        ],
        model: kit.scripted(
            kit.calling(['c1', 'breaks'], ['c2', 'missing'], ['c3', 'declared']),
            kit.assistant('Done.'),
        ),
    }));
    const failed = (id, name, text) => answered(id, name, text, { isError: true });
    const messages = [
        called(['c1', 'breaks'], ['c2', 'missing'], ['c3', 'declared']),
        failed('c1', 'breaks', 'out of paper'),
        failed('c2', 'missing', 'there is no tool named `missing`'),
        failed('c3', 'declared', 'the tool `declared` cannot be run here: it has no `execute`'),
        said('Done.'),
    ];
    assert.deepEqual(found.outcome, { gave: { outcome: 'success', saved: true } });
    assert.deepEqual(stored.normal(found.after), stored.session(then(messages, 4, ended('success'))));
    assert.deepEqual(found.counts, { model: 2, checks: 1, tools: [1, 0] });
});

test('a call that a rule forbids is not run, and the model is told', async () => {
    const found = await page.run(async (name) => {
        const tools = [kit.tool('writes', () => 'written', { access: 'write' })];
        const model = kit.scripted(kit.calling(['c1', 'writes']), kit.assistant('Done.'));
        const { runtime, session } = await start(name, { model, tools });
        await runtime.permissions.addRule({ tool_pattern: 'writes', action: 'deny' });
        return { result: await session.prompt('Hello'), messages: session.messages, runs: tools[0].runs };
    }, name);
    assert.deepEqual(found.result, { outcome: 'success', saved: true });
    const [told] = answered('c1', 'writes', '`writes` is denied: a rule says so', { isError: true });
    assert.deepEqual(found.messages[2], told);
    assert.equal(found.runs, 0);
});

// ---- writes that fail ------------------------------------------------------------------------------------------------------

/** The turn that the next tests disturb, and what is stored after each of its commits. */
const TURN = [called(['c1', 'look'], ['c2', 'look']), answered('c1', 'look', 'seen'), answered('c2', 'look', 'seen'), said('Done.')];
const AFTER = [
    EMPTY,
    stored.session(DISPATCHED),
    stored.session(then(TURN.slice(0, 1), 1)),
    stored.session(then(TURN.slice(0, 3), 2)),
    stored.session(then(TURN, 3)),
    stored.session(then(TURN, 4, ended('success'))),
];

/** Runs it with writes that fail, then flushes. */
function disturbed(how, first, times) {
    return page.run(async (name, how, first, times) => {
        const tools = [kit.tool('look', () => 'seen')];
        const model = kit.scripted(kit.calling(['c1', 'look'], ['c2', 'look']), kit.assistant('Done.'));
        const started = await start(name, { model, tools });
        const { session } = started;
        const events = [];
        session.subscribe((event) => events.push(event.type));
        const seen = kit.failWrites(how, first, times ?? Infinity);
        const result = await session.prompt('Hello $demo');
        const found = { result, writes: seen.writes, between: await kit.dump(name), state: session.state, counts: started.counts() };
        found.shown = { snapshots: session.getRuntimeContexts(), checkpoints: session.getSystemPromptCheckpoints() };
        found.refused = [];
        for (const refused of [
            () => session.prompt('Again'), () => session.begin('Again'), () => session.setPermissionPreset(null),
            () => session.configure({ systemPrompt: 'x' }), () => session.dispose(), () => started.runtime.close(),
        ]) {
            if (result.saved) break;
            found.refused.push((await kit.outcome(refused)).rejected?.code);
        }
        found.early = times === null ? await kit.outcome(() => session.flush()) : undefined;
        found.still = await kit.dump(name);
        kit.calm();
        found.flushed = await kit.outcome(() => session.flush());
        found.again = await kit.outcome(() => session.flush());
        found.after = await kit.dump(name);
        found.later = { state: session.state, counts: started.counts() };
        found.events = events;
        const ids = [found.still, found.after].map((dump) => dump.commits.map(([, record]) => record.operationId));
        found.kept = ids[0].every((id, at) => ids[1][at] === id);
        found.distinct = new Set(ids[1]).size;
        return found;
    }, name, how, first, times ?? null);
}

const COUNTS = { model: 2, checks: 1, tools: [2] };
const CODES = { refuse: 'storage_failed', put: 'storage_failed', quota: 'storage_quota', unheard: 'storage_failed' };

for (const how of Object.keys(CODES)) {
    for (const first of [1, 2, 3, 4, 5]) {
        test(`writes fail from commit ${first} on (${how}): the turn goes on, all of it is pending, flush() saves it in order and asks nobody`, async () => {
            const found = await disturbed(how, first);
            assert.equal(found.result.outcome, 'success');
            assert.equal(found.result.saved, false);
            assert.deepEqual([found.result.saveError.typed, found.result.saveError.code], [true, CODES[how]]);
            // Whole commits or nothing. Where only the answers get lost, each commit finds its predecessor applied.
            const reached = how === 'unheard' ? 5 : first - 1;
            assert.deepEqual(stored.normal(found.between), AFTER[reached]);
            assert.deepEqual(stored.normal(found.still), AFTER[reached]);
            assert.equal(found.early.rejected?.code ?? 'saved', how === 'unheard' ? 'saved' : CODES[how]);
            assert.deepEqual([found.state.hasPendingSave, found.state.messageCount, found.state.outcome], [true, 5, 'success']);
            assert.deepEqual(found.shown.snapshots, [SNAPSHOT]);
            assert.equal(found.shown.checkpoints.length, 1);
            assert.deepEqual(found.refused, Array(6).fill('pending_save'));
            assert.deepEqual(found.counts, COUNTS);
            assert.deepEqual(found.flushed, { gave: { $: 'undefined' } });
            assert.deepEqual(found.again, { gave: { $: 'undefined' } });
            assert.deepEqual(stored.normal(found.after), AFTER[5]);
            assert.deepEqual(found.later.counts, COUNTS);
            assert.equal(found.later.state.hasPendingSave, false);
            // Each commit was applied once, under its own name.
            assert.deepEqual([found.kept, found.distinct], [true, 6]);
        });
    }
    for (const first of [1, 2, 3, 4]) {
        test(`commit ${first} fails once (${how}): the next one brings it along`, async () => {
            const found = await disturbed(how, first, 1);
            assert.deepEqual(found.result, { outcome: 'success', saved: true });
            assert.deepEqual(stored.normal(found.between), AFTER[5]);
            assert.deepEqual(found.counts, COUNTS);
            assert.equal(found.state.hasPendingSave, false);
            assert.ok(found.events.includes('save-failed'));
            assert.deepEqual(found.after, found.between);
        });
    }
}

for (const first of [1, 2, 3, 4, 5]) {
    test(`the connection is lost at commit ${first}, with the answer to it: it is opened again, and the commit is applied once`, async () => {
        const found = await disturbed('lost', first, 1);
        assert.deepEqual(found.result, { outcome: 'success', saved: true });
        assert.deepEqual(stored.normal(found.between), AFTER[5]);
        assert.deepEqual(found.counts, COUNTS);
        assert.ok(!found.events.includes('save-failed'));
    });
}

test('where every answer gets lost, every commit is applied once all the same', async () => {
    const found = await disturbed('lost', 1);
    assert.deepEqual(found.result, { outcome: 'success', saved: true });
    assert.deepEqual(stored.normal(found.between), AFTER[5]);
    assert.deepEqual(found.counts, COUNTS);
    // Each was tried twice, and the second time it was there.
    assert.equal(found.writes, 10);
});

for (const lost of [1, 2, 3, 4]) {
    test(`commit ${lost} is applied but reported as failed, and all behind it fail: flush() finds it applied, and the queue follows in order`, async () => {
        const found = await page.run(async (name, lost) => {
            const tools = [kit.tool('look', () => 'seen')];
            const model = kit.scripted(kit.calling(['c1', 'look'], ['c2', 'look']), kit.assistant('Done.'));
            const started = await start(name, { model, tools });
            kit.failWrites('unheard', lost, 1);
            kit.failWrites('refuse', lost + 1);
            const result = await started.session.prompt('Hello $demo');
            const between = await kit.dump(name);
            const counts = started.counts();
            kit.calm();
            const order = [];
            const put = IDBObjectStore.prototype.put;
            IDBObjectStore.prototype.put = function (record) {
                if (this.name === 'chat_sessions') order.push(record.commitCount);
                return put.call(this, record);
            };
            await started.session.flush();
            IDBObjectStore.prototype.put = put;
            const applied = (dump) => dump.commits.map(([, record]) => record.operationId);
            const after = await kit.dump(name);
            return { result, between, order, after, kept: applied(after).slice(0, lost + 1), was: applied(between), counts, later: started.counts() };
        }, name, lost);
        assert.deepEqual([found.result.outcome, found.result.saved], ['success', false]);
        assert.deepEqual(stored.normal(found.between), AFTER[lost]);
        assert.deepEqual(found.order, [3, 4, 5, 6].slice(lost - 1));
        assert.deepEqual(found.kept, found.was);
        assert.deepEqual(stored.normal(found.after), AFTER[5]);
        assert.deepEqual([found.counts, found.later], [COUNTS, COUNTS]);
    });
}

test('a real quota is used up in mid-session: the turn ends, the error has its numbers, and flush() saves it all when there is room', async () => {
    // An origin of its own, with a quota of its own.
    const elsewhere = await servePackage();
    const page = await prepared(elsewhere);
    const devtools = await page.context().newCDPSession(page);
    const quota = (quotaSize) => devtools.send('Storage.overrideQuotaForOrigin', { origin: elsewhere.url, quotaSize });
    // What it has been told last counts for half a minute: a larger message asks it again.
    await quota(4_000_000);
    await page.run(async (name) => {
        window.model = kit.scripted(kit.assistant('Hello.'), kit.calling(['c1', 'look']), kit.assistant('Done.'));
        window.started = await start(name, { model: window.model, tools: [kit.tool('look', () => 'seen')] });
        await started.session.prompt('Hello');
        window.padding = kit.noise(5_000_000);
    }, name);
    await quota(1_000_000);
    const full = await page.run(async (name) => {
        const before = kit.toText(await kit.dump(name));
        const result = await started.session.prompt(padding);
        const early = await kit.outcome(() => started.session.flush());
        const same = before === kit.toText(await kit.dump(name));
        return { result, early, same, estimate: await navigator.storage.estimate(), counts: started.counts(), state: started.session.state };
    }, name);
    await quota(undefined);
    const room = await page.run(async (name) => {
        const flushed = await kit.outcome(() => started.session.flush());
        return { flushed, dump: await kit.dump(name), counts: started.counts() };
    }, name);
    assert.deepEqual(await page.unhandled(), []);
    await page.close();
    await elsewhere.close();
    assert.deepEqual([full.result.outcome, full.result.saved, full.result.saveError.code], ['success', false, 'storage_quota']);
    for (const { data } of [full.result.saveError, full.early.rejected]) {
        // Of the quota that DevTools sets, Chromium tells the page nothing.
        assert.deepEqual([data.usage, data.quota], [full.estimate.usage, full.estimate.quota]);
        assert.ok(data.usage > 0 && data.quota > data.usage, JSON.stringify(data));
    }
    assert.equal(full.same, true);
    assert.deepEqual([full.state.messageCount, full.state.hasPendingSave], [6, true]);
    assert.deepEqual(room.flushed, { gave: { $: 'undefined' } });
    assert.deepEqual(room.counts, { model: 3, checks: 2, tools: [1] });
    assert.deepEqual(room.counts, full.counts);
    const user = (text) => [{ role: 'user', content: text, timestamp: 2000 }, { role: 'user', userTurn: true, textLen: text.length, tokens: tokens(text) }];
    assert.deepEqual(stored.normal(room.dump), stored.session({
        ...then([], 7, ended('success')), settings: 4,
        messages: [user('Hello'), said('Hello.'), user(noise(5_000_000)), called(['c1', 'look']), answered('c1', 'look', 'seen'), said('Done.')],
        snapshots: [],
    }));
});

test('where the browser cannot be asked how much room there is, an exceeded quota is told without numbers', async () => {
    const found = await page.run(async (name) => {
        const { session } = await start(name, { model: kit.scripted() });
        kit.failWrites('quota', 1, 1);
        Object.defineProperty(navigator, 'storage', { value: undefined, configurable: true });
        const outcome = await kit.outcome(() => session.setTitle('A title'));
        delete navigator.storage;
        return outcome.rejected;
    }, name);
    assert.deepEqual([found.code, found.data], ['storage_quota', { cause: 'QuotaExceededError: no more' }]);
});

test('a setting that cannot be saved is live and pending, and flush() saves it', async () => {
    const found = await page.run(async (name) => {
        const { session } = await start(name, { model: kit.scripted() });
        kit.failWrites('quota');
        const outcomes = [
            await kit.outcome(() => session.setPermissionPreset('workspace-write')),
            await kit.outcome(() => session.setTitle('A title')),
            await kit.outcome(() => session.setPermissionPreset('danger-full-access')),
        ];
        const between = { dump: await kit.dump(name), state: session.state };
        kit.calm();
        await session.flush();
        return { outcomes, between, after: await kit.dump(name), state: session.state };
    }, name);
    assert.deepEqual(found.outcomes.map((outcome) => outcome.rejected.code), ['storage_quota', 'storage_quota', 'pending_save']);
    assert.deepEqual(stored.normal(found.between.dump), EMPTY);
    const { hasPendingSave, permissionPreset, title } = found.between.state;
    assert.deepEqual([hasPendingSave, permissionPreset, title], [true, 'workspace-write', 'A title']);
    assert.deepEqual(stored.normal(found.after), stored.session({
        commits: 3, updatedAt: 2000, settings: 2,
        set: { permissionPreset: 'workspace-write', presetChosen: true, title: 'A title' },
    }));
    assert.equal(found.state.hasPendingSave, false);
});

test('a person clears the site data in mid-session: what is lost is said, nothing hangs, and a new session can be kept', async () => {
    const elsewhere = await servePackage();
    const page = await prepared(elsewhere);
    const devtools = await page.context().newCDPSession(page);
    await page.run(async (name) => {
        window.model = kit.scripted(kit.assistant('Done.'));
        window.started = await start(name, { model: window.model });
        window.events = [];
        started.runtime.subscribe((event) => event.type.startsWith('storage') && events.push({ ...event }));
        await started.session.prompt('One');
    }, name);
    await devtools.send('Storage.clearDataForOrigin', { origin: elsewhere.url, storageTypes: 'indexeddb' });
    const found = await page.run(async () => {
        const result = await started.session.prompt('Two');
        const flushed = await kit.outcome(() => started.session.flush());
        const { session, runtime } = started;
        const shown = [session.state.messageCount, session.state.hasPendingSave];
        const fresh = await runtime.createSession({ id: 'fresh' });
        const next = await fresh.prompt('Three');
        return { events, result, flushed, shown, next, listed: (await runtime.listSessions()).map((entry) => entry.id), calls: window.model.calls };
    });
    assert.deepEqual(found.events, [{ type: 'storage-closed', reason: 'lost' }]);
    assert.deepEqual([found.result.outcome, found.result.saved, found.result.saveError.code], ['success', false, 'not_found']);
    assert.equal(found.flushed.rejected.code, 'not_found');
    assert.deepEqual(found.shown, [4, true]);
    assert.deepEqual(found.next, { outcome: 'success', saved: true });
    assert.deepEqual([found.listed, found.calls], [['fresh'], 3]);
    assert.deepEqual(await page.unhandled(), []);
    await page.close();
    await elsewhere.close();
});

// ---- another tab -----------------------------------------------------------------------------------------------------------

test('a turn that meets another tab\'s writes there runs on in memory, says conflict, and overwrites nothing', async () => {
    const found = await page.run(async (name) => {
        const answers = () => kit.scripted(kit.assistant('Done.'));
        const { session, runtime } = await start(name, { model: answers() });
        const model = answers();
        const other = await rc.Runtime.open({ storage: { kind: 'indexeddb', name }, model, now: () => 3000 });
        const late = await other.openSession('s');
        const first = await session.prompt('Hello $demo');
        const dumped = await kit.dump(name);
        const result = await late.prompt('Hello too');
        return {
            first, dumped, result, after: await kit.dump(name), calls: model.calls,
            refused: await kit.outcome(() => late.prompt('Again')), flushed: await kit.outcome(() => late.flush()),
            shown: late.state.messageCount, own: session.state.messageCount, next: await session.prompt('On'),
            closed: await kit.outcome(() => runtime.close()),
        };
    }, name);
    assert.deepEqual(found.first, { outcome: 'success', saved: true });
    assert.deepEqual([found.result.outcome, found.result.saved, found.result.saveError.code], ['error', false, 'conflict']);
    assert.deepEqual(found.after, found.dumped);
    assert.equal(found.calls, 1);
    assert.equal(found.refused.rejected.code, 'pending_save');
    assert.equal(found.flushed.rejected.code, 'conflict');
    assert.deepEqual([found.shown, found.own], [2, 2]);
    assert.deepEqual(found.next, { outcome: 'success', saved: true });
    assert.deepEqual(found.closed, { gave: { $: 'undefined' } });
});
