// The browser is killed at random moments while a page commits without end. The page tells the server of each commit that
// was acknowledged, before it makes the next: what is stored afterwards is exactly what so many commits make, or one more.

import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { noise } from '../support/cases/kit.mjs';
import { launch, newProfile } from '../support/chromium.mjs';
import { openPage, servePackage } from '../support/page.mjs';
import * as stored from '../support/stored.mjs';
import { tokens } from '../support/tokens.mjs';

const RUNS = process.env.RUNCONTEXT_DEEP === '1' ? 100 : 20;
/** So many commits are acknowledged before a run is killed. */
const AT_LEAST = 50;
/** And at most so many more, and so many milliseconds. */
const [MORE, DELAY_MS] = [60, 12];

let profile, browser;

before(async () => {
    profile = await newProfile();
    browser = await launch({ profile });
});
after(async () => {
    await browser?.close();
    if (profile) await rm(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
});

/** Calls of a turn that nobody is asked about; one more asks. */
const LOOKS = 6;

/** Runs in the page: one session, and turn after turn of it, one commit at a time. */
async function commitWithoutEnd(name, looks) {
    const told = () => fetch('/acknowledged', { method: 'POST' });
    const tools = [{ ...kit.tool('look', () => ''), category: 'looking' }, kit.tool('write', () => '', { access: 'write' })];
    const runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name }, tools, now: () => 1000 });
    const session = await runtime.createSession({ id: 's', cwd: '/w' });
    session.bypass({ category: 'looking' });
    await told();
    for (let turns = 0; ; turns++) {
        await session.setTitle(`Title ${turns}`);
        await told();
        const turn = await session.begin(`Question ${turns}`);
        await turn.request();
        await turn.dispatched();
        await told();
        const calls = Array.from({ length: looks }, (_, at) => [`l${turns}-${at}`, 'look']);
        await turn.append(kit.calling(...calls, [`w${turns}`, 'write']));
        await told();
        for (const call of turn.openCalls.slice(0, -1)) await turn.gate(call);
        const { requestId } = await turn.gate(turn.openCalls.at(-1));
        await told();
        await runtime.approvals.resolve(requestId, { action: 'approve' });
        await told();
        await turn.approval(requestId);
        await told();
        const results = [...calls, [`w${turns}`, 'write']].map(([id, tool]) => kit.resultOf(id, tool, kit.noise(4000), { timestamp: 1 }));
        await turn.append(...results);
        await told();
        await turn.append(kit.assistant(`Answer ${turns}`));
        await told();
        const { saved } = await turn.finish();
        if (!saved) throw new Error('a turn was not saved');
        await told();
    }
}

const CHECKPOINT = {
    messageCount: 1, timestamp: 1000,
    sections: { cwd: 'Current working directory: /w', permissions: 'Permission preset: read-only.' },
};
const outline = (role, text, more) => ({ role, textLen: text.length, tokens: tokens(text), ...more });

/** The messages of a turn, with their outlines. */
function messagesOf(turn) {
    const calls = [...Array.from({ length: LOOKS }, (_, at) => [`l${turn}-${at}`, 'look']), [`w${turn}`, 'write']];
    const [question, answer, seen] = [`Question ${turn}`, `Answer ${turn}`, noise(4000)];
    return [
        [{ role: 'user', content: question, timestamp: 1000 }, outline('user', question, { userTurn: true })],
        [
            { role: 'assistant', content: calls.map(([id, name]) => ({ type: 'toolCall', id, name, arguments: {} })), stopReason: 'toolUse' },
            {
                role: 'assistant', calls: calls.map(([id, name]) => ({ id, name })), textLen: 0,
                tokens: calls.reduce((sum, [id, name]) => sum + tokens(JSON.stringify({ type: 'toolCall', id, name, arguments: {} })), 0),
            },
        ],
        ...calls.map(([id, name]) => [
            { role: 'toolResult', toolCallId: id, toolName: name, content: [{ type: 'text', text: seen }], isError: false, timestamp: 1 },
            outline('toolResult', seen, { answers: [{ id, name }] }),
        ]),
        [{ role: 'assistant', content: [{ type: 'text', text: answer }], stopReason: 'stop' }, outline('assistant', answer)],
    ];
}

/** What is there after each commit of a turn: messages, changes of the conversation and of settings, the approval's state. */
const COMMITS = [
    { what: 'title', messages: 0, conversation: 0, settings: 1 },
    { what: 'dispatch', messages: 1, conversation: 1, settings: 2 },
    { what: 'calls', messages: 2, conversation: 2, settings: 2 },
    { what: 'asked', messages: 2, conversation: 2, settings: 2, approval: [1, 'pending'] },
    { what: 'answered', messages: 2, conversation: 2, settings: 2, approval: [2, 'approved'] },
    { what: 'claimed', messages: 2, conversation: 2, settings: 2, approval: [3, 'claimed'] },
    { what: 'results', messages: LOOKS + 3, conversation: 3, settings: 2 },
    { what: 'answer', messages: LOOKS + 4, conversation: 4, settings: 2 },
    { what: 'end', messages: LOOKS + 4, conversation: 5, settings: 3 },
];
const TURN = COMMITS.at(-1);

/** The whole database after so many commits. */
function holding(commits) {
    const turns = Math.floor((commits - 1) / COMMITS.length);
    const done = COMMITS[(commits - 1) % COMMITS.length - 1] ?? { messages: 0, conversation: 0, settings: 0 };
    const running = done.messages > 0;
    const messages = Array.from({ length: turns + 1 }, (_, turn) => messagesOf(turn)).flat();
    const titled = done.settings > 0 ? turns : turns - 1;
    return {
        ...stored.session({
            commits, conversation: 1 + turns * TURN.conversation + done.conversation, settings: turns * TURN.settings + done.settings,
            set: {
                title: titled < 0 ? null : `Title ${titled}`,
                outcome: turns > 0 ? 'success' : null,
                openTurn: running ? { userMessage: turns * TURN.messages, runContext: null, permissionPreset: 'read-only' } : null,
            },
            messages: messages.slice(0, turns * TURN.messages + done.messages),
            checkpoints: turns > 0 || running ? [CHECKPOINT] : [],
            skills: [],
        }),
        approvals: done.approval ? [done.approval] : [],
    };
}

/**
 * One run, in an origin of its own: what a kill cuts off at the end of Chromium's log, Chromium goes on behind when it runs
 * again, and the next time it finds that log damaged and throws the whole origin away.
 */
async function killedOnce(run) {
    const count = AT_LEAST + Math.floor(Math.random() * MORE);
    let acknowledged = 0, reached;
    const enough = new Promise((resolve) => (reached = resolve));
    const server = await servePackage({
        first(request, response) {
            if (request.url !== '/acknowledged') return false;
            if (++acknowledged === count) reached();
            response.writeHead(204).end();
            return true;
        },
    });
    const victim = await openPage(browser, server);
    const stopped = victim.evaluate(`(${commitWithoutEnd})('crash', ${LOOKS})`).catch((error) => {
        if (acknowledged < count) throw error;
    });
    await Promise.race([enough, stopped]);
    await sleep(Math.random() * DELAY_MS);
    await browser.kill();
    await stopped;
    browser = await launch({ profile });
    const page = await openPage(browser, server);

    const dump = await page.run(() => kit.dump('crash'));
    const commits = dump.chat_sessions[0]?.[1].commitCount ?? 0;
    const more = commits - acknowledged;
    assert.ok(acknowledged >= AT_LEAST);
    assert.ok(more === 0 || more === 1, `run ${run}: ${acknowledged} commits were acknowledged, ${commits} are there`);
    const found = stored.normal(dump);
    found.approvals = found.approvals.map(([, { version, approval }]) => [version, approval.status]);
    assert.deepEqual(found, holding(commits), `run ${run}, after ${commits} commits`);

    // The session goes on.
    const next = await page.run(async () => {
        const model = kit.scripted(kit.assistant('Done.'));
        const runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name: 'crash' }, model, tools: [kit.tool('look'), kit.tool('write')] });
        const session = await runtime.openSession('s');
        if (session.interrupted) await session.abandon();
        const result = await session.prompt('Go on');
        await runtime.close();
        return [result, model.calls];
    });
    assert.deepEqual(next, [{ outcome: 'success', saved: true }, 1]);
    assert.deepEqual(await page.unhandled(), []);
    await page.close();
    await server.close();
    return { acknowledged, last: `${COMMITS[(commits - 2) % COMMITS.length].what}${more ? ', not yet acknowledged' : ''}` };
}

test(`killed at ${RUNS} random moments: every acknowledged commit is there, at most one more, and all records agree`, async () => {
    const kills = new Map();
    let most = 0;
    for (let run = 0; run < RUNS; run++) {
        const { acknowledged, last } = await killedOnce(run);
        kills.set(last, (kills.get(last) ?? 0) + 1);
        most = Math.max(most, acknowledged);
    }
    console.log(`killed after at most ${most} commits, the last one being: ${[...kills].map(([last, times]) => `${last} ${times}`).join('; ')}`);
});
