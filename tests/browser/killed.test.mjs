// The browser is killed in mid-turn, at every stage of it; another one on the same profile finds what was committed, and
// the turn interrupted. `abandon()` ends it.

import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { after, before, test } from 'node:test';

import { launch, newProfile } from '../support/chromium.mjs';
import { openPage, servePackage } from '../support/page.mjs';
import * as stored from '../support/stored.mjs';
import { tokens } from '../support/tokens.mjs';

/**
 * Where the browser is killed: the page begins a turn and reports `now` there. Each in a database of its own, all in one
 * browser, so that one kill serves them all.
 */
const STAGES = {
    preflight: () => window.prompting({ check: window.stop }),
    model: () => window.prompting({ answers: [window.stop] }),
    partial: () => window.prompting({ answers: [(request, { onUpdate }) => {
        onUpdate(kit.assistant('I will'));
        return window.stop();
    }] }),
    tools: () => window.prompting({
        answers: [kit.calling(['c1', 'wait'], ['c2', 'look'])],
        tools: [kit.tool('wait', window.stop), kit.tool('look', () => 'seen')],
    }),
    'second model call': () => window.prompting({
        answers: [kit.calling(['c1', 'look']), window.stop],
        tools: [kit.tool('look', () => 'seen')],
    }),
    'own loop': async () => {
        const { session } = await window.started({});
        const turn = await session.begin('Hello');
        await turn.request();
        await turn.dispatched();
        await turn.append(kit.calling(['c1', 'look', { at: 'x' }], ['c2', 'look', { at: 'y' }]));
        await turn.append(kit.resultOf('c1', 'look', 'seen', { timestamp: 2000 }));
        return window.stop();
    },
    'own loop, not on its way': async () => {
        const { session } = await window.started({});
        await (await session.begin('Hello')).request();
        return window.stop();
    },
};

let profile, server, browser, page;
const found = {};

before(async () => {
    profile = await newProfile();
    server = await servePackage();
    browser = await launch({ profile });
    for (const [stage, begin] of Object.entries(STAGES)) {
        const victim = await openPage(browser, server);
        const there = new Promise((resolve) => victim.once('console', resolve));
        await victim.evaluate(`(() => {
            const name = ${JSON.stringify(stage)};
            window.stop = () => {
                console.log('now');
                return new Promise(() => {});
            };
            window.started = async ({ answers = [], tools = [], check }) => {
                const now = kit.handClock(1000);
                const model = kit.scripted(...answers);
                if (check) model.check = check;
                const runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name }, model, tools, now, strict: false });
                const session = await runtime.createSession({ id: 's', cwd: '/w' });
                session.bypass('all');
                now.now = 2000;
                return { session };
            };
            window.prompting = async (made) => {
                const { session } = await window.started(made);
                await session.prompt('Hello');
            };
            (${begin})();
        })()`);
        await there;
    }
    await browser.kill();
    browser = await launch({ profile });
    page = await openPage(browser, server);
    for (const stage of Object.keys(STAGES)) {
        found[stage] = await page.run(async (name) => {
            const model = kit.scripted(kit.assistant('Done.'));
            const tools = [kit.tool('look', () => 'seen'), kit.tool('wait', () => 'waited')];
            const before = await kit.dump(name);
            const runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name }, model, tools, now: () => 5000 });
            const session = await runtime.openSession('s');
            const found = { before, interrupted: session.interrupted, state: session.state, shown: session.messages };
            const code = async (work) => (await kit.outcome(work)).rejected?.code;
            found.refused = [];
            for (const work of [
                () => session.prompt('Go on'), () => session.begin('Go on'),
                () => session.setPermissionPreset(null), () => session.configure({ systemPrompt: 'x' }),
            ]) {
                if (found.interrupted) found.refused.push(await code(work));
            }
            found.untouched = kit.toText(await kit.dump(name)) === kit.toText(before);
            found.abandoned = await kit.outcome(() => session.abandon());
            found.after = await kit.dump(name);
            found.counts = [model.calls, model.checks, ...tools.map((tool) => tool.runs)];
            found.twice = await code(() => session.abandon());
            found.later = [session.interrupted, session.state.outcome];
            found.next = await session.prompt('Go on');
            found.request = JSON.parse(model.requests.at(-1)).messages;
            return found;
        }, stage);
    }
    assert.deepEqual(await page.unhandled(), []);
});
after(async () => {
    await browser?.close();
    await server?.close();
    if (profile) await rm(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
});

const USER = [{ role: 'user', content: 'Hello', timestamp: 2000 }, { role: 'user', userTurn: true, textLen: 5, tokens: tokens('Hello') }];
const NEXT = { role: 'user', content: 'Go on', timestamp: 5000 };
const block = ([id, name, args]) => ({ type: 'toolCall', id, name, arguments: args });
const called = (...calls) => [
    {
        role: 'assistant',
        content: calls.map(block),
        stopReason: 'toolUse',
    },
    {
        role: 'assistant',
        calls: calls.map(([id, name]) => ({ id, name })),
        textLen: 0,
        tokens: calls.reduce((sum, call) => sum + tokens(JSON.stringify(block(call))), 0),
    },
];
const SEEN = [
    {
        role: 'toolResult', toolCallId: 'c1', toolName: 'look', content: [{ type: 'text', text: 'seen' }],
        isError: false, timestamp: 2000,
    },
    { role: 'toolResult', answers: [{ id: 'c1', name: 'look' }], textLen: 4, tokens: tokens('seen') },
];
const interrupted = (id, name) => [
    {
        role: 'toolResult', toolCallId: id, toolName: name,
        content: [{ type: 'text', text: 'The tool call was interrupted before it finished. It may be retried.' }],
        isError: true,
    },
    { role: 'toolResult', answers: [{ id, name, isError: true }], textLen: 68, tokens: 17 },
];

const CHECKPOINT = {
    messageCount: 1,
    timestamp: 2000,
    sections: { cwd: 'Current working directory: /w', permissions: 'Permission preset: read-only.' },
};
/** What is stored of a turn under way: its user message, and what was in force as it began. */
const OPEN_TURN = { userMessage: 0, runContext: null, permissionPreset: 'read-only' };
const turn = (messages, commits, more = {}) => stored.session({
    commits: 1 + commits, updatedAt: 2000, conversation: 1 + commits, settings: 1, set: { openTurn: OPEN_TURN }, skills: [],
    messages: [USER, ...messages], checkpoints: [CHECKPOINT], ...more,
});
const END = { updatedAt: 5000, settings: 2, set: { openTurn: null, outcome: 'cancelled' } };

const BATCH = [called(['c1', 'wait', {}], ['c2', 'look', {}])];
const LOOK = [called(['c1', 'look', {}]), SEEN];
const OWN = [called(['c1', 'look', { at: 'x' }], ['c2', 'look', { at: 'y' }]), SEEN];

/** What is there after the kill, how many commits made it, what is unanswered, and what `abandon()` adds. */
const EXPECTED = {
    model: [[], 1, [], []],
    partial: [[], 1, [], []],
    tools: [
        BATCH, 2,
        [{ toolCallId: 'c1', toolName: 'wait', arguments: {} }, { toolCallId: 'c2', toolName: 'look', arguments: {} }],
        [interrupted('c1', 'wait'), interrupted('c2', 'look')],
    ],
    'second model call': [LOOK, 3, [], []],
    'own loop': [
        OWN, 3,
        [{ toolCallId: 'c2', toolName: 'look', arguments: { at: 'y' } }],
        [interrupted('c2', 'look')],
    ],
};

for (const [stage, [messages, commits, unanswered, added]] of Object.entries(EXPECTED)) {
    test(`killed at the stage \`${stage}\`: what was committed is there, the turn is interrupted, and abandon() ends it`, () => {
        const { before, state, refused, untouched, abandoned, after, counts, twice, later, next, request, shown } = found[stage];
        assert.deepEqual(stored.normal(before), turn(messages, commits));
        assert.deepEqual(shown, [USER, ...messages].map(([message]) => message));
        assert.deepEqual(found[stage].interrupted, { unanswered, pendingApprovals: [] });
        assert.deepEqual([state.isRunning, state.hasPendingSave, state.outcome], [false, false, { $: 'undefined' }]);
        assert.deepEqual(refused, Array(4).fill('session_interrupted'));
        assert.equal(untouched, true);
        assert.deepEqual(abandoned, { gave: { outcome: 'cancelled', saved: true } });
        assert.deepEqual(stored.normal(after), turn([...messages, ...added], commits + 1, END));
        // Nothing was run again.
        assert.deepEqual(counts, [0, 0, 0, 0]);
        assert.equal(twice, 'invalid_argument');
        assert.deepEqual(later, [{ $: 'undefined' }, 'cancelled']);
        assert.deepEqual(next, { outcome: 'success', saved: true });
        assert.deepEqual(request, [...[USER, ...messages, ...added].map(([message]) => message), NEXT]);
    });
}

for (const stage of ['preflight', 'own loop, not on its way']) {
    test(`killed at the stage \`${stage}\`: nothing was kept, and nothing is interrupted`, () => {
        const { before, refused, abandoned, next, request } = found[stage];
        assert.deepEqual(stored.normal(before), stored.session({ commits: 1, skills: [] }));
        assert.deepEqual(found[stage].interrupted, { $: 'undefined' });
        assert.deepEqual(refused, []);
        assert.equal(abandoned.rejected.code, 'invalid_argument');
        assert.deepEqual(next, { outcome: 'success', saved: true });
        assert.deepEqual(request, [NEXT]);
    });
}

test('killed while a commit is under way: the whole of it is there, or nothing', async () => {
    const name = 'under way';
    const there = new Promise((resolve) => page.once('console', resolve));
    await page.evaluate((name) => {
        (async () => {
            const model = kit.scripted(kit.calling(['c1', 'look', {}]), kit.assistant('Done.'));
            const tools = [kit.tool('look', () => 'seen')];
            const now = kit.handClock(1000);
            const runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name }, model, tools, now });
            const session = await runtime.createSession({ id: 's', cwd: '/w' });
            session.bypass('all');
            now.now = 2000;
            // The commit of the result is the third from here.
            let commits = 0;
            kit.onCommit(() => {
                if (++commits === 3) console.log('now');
            });
            await session.prompt('Hello');
        })();
    }, name);
    await there;
    await browser.kill();
    browser = await launch({ profile });
    page = await openPage(browser, server);
    const dump = stored.normal(await page.run((name) => kit.dump(name), name));
    const done = [
        { role: 'assistant', content: [{ type: 'text', text: 'Done.' }], stopReason: 'stop' },
        { role: 'assistant', textLen: 5, tokens: tokens('Done.') },
    ];
    const possible = [
        turn(LOOK.slice(0, 1), 2),
        turn(LOOK, 3),
        turn([...LOOK, done], 4),
        turn([...LOOK, done], 5, { settings: 2, set: { openTurn: null, outcome: 'success' } }),
    ];
    const which = dump.chat_sessions[0][1].commitCount - 3;
    assert.deepEqual(dump, possible[which]);
    console.log(`killed while commit 3 was under way: ${which} more of 3 commits are there`);
});
