// A real conversation of 914 messages, replayed turn by turn through the JavaScript surface on IndexedDB, and projected
// as it is and changed three ways. What is expected is counted from the file, here.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { launch } from '../support/chromium.mjs';
import { openPage, servePackage } from '../support/page.mjs';
import { dataFolder } from '../support/project.mjs';

const file = path.join(dataFolder(), 'sessions', 'pi-large-session.jsonl');
const skip = existsSync(file) ? false : `there is no ${path.basename(file)}; RUNCONTEXT_DATA names the folder of the test data`;
if (skip) console.log(`SKIPPED: real_session: ${skip}`);

const entries = skip ? [] : readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
const messages = entries.filter((entry) => entry.type === 'message').map((entry) => entry.message);

// ---- counted from the file -------------------------------------------------------------------------------------------------

const failed = (message) => message.role === 'assistant' && ['error', 'aborted'].includes(message.stopReason);
const callsOf = (message) =>
    message.role === 'assistant' ? message.content.filter((block) => block.type === 'toolCall') : [];
const count = (list, which) => list.filter(which).length;

/** What a projection of a conversation without snapshots has to hold: positions in it, and made-up results. */
function expectedProjection(conversation) {
    const sources = [];
    let leftOut = 0;
    for (let at = 0; at < conversation.length; at++) {
        const message = conversation[at];
        if (failed(message)) continue;
        if (message.role === 'toolResult') {
            leftOut++;
            continue;
        }
        sources.push(at);
        const open = callsOf(message).map((call) => call.id);
        if (message.role !== 'assistant') continue;
        while (conversation[at + 1]?.role === 'toolResult') {
            at++;
            const answered = open.indexOf(conversation[at].toolCallId);
            if (answered === -1) {
                leftOut++;
            } else {
                open.splice(answered, 1);
                sources.push(at);
            }
        }
        sources.push(...open.map((id) => `interrupted ${id}`));
    }
    return { sources, leftOut, interrupted: count(sources, (source) => typeof source === 'string') };
}

/** Every call is answered exactly once, by the results directly behind it, and no result stands elsewhere. */
function assertPaired(projected) {
    let calls = 0;
    for (let at = 0; at < projected.length; at++) {
        assert.notEqual(projected[at].role, 'toolResult', `message ${at} answers no call in front of it`);
        const open = callsOf(projected[at]).map((call) => call.id);
        calls += open.length;
        while (open.length > 0) {
            const result = projected[++at];
            assert.equal(result?.role, 'toolResult', `message ${at} should answer one of ${open}`);
            assert.ok(open.includes(result.toolCallId), `${result.toolCallId} is not open`);
            open.splice(open.indexOf(result.toolCallId), 1);
        }
    }
    return calls;
}

// ---- the three changes -------------------------------------------------------------------------------------------------------

function withoutEvery7thResult() {
    let results = 0;
    return messages.filter((message) => message.role !== 'toolResult' || ++results % 7 !== 0);
}

const has16Calls = (message) => failed(message) && callsOf(message).length === 16;

const withToolUse = () =>
    messages.map((message) => (has16Calls(message) ? { ...message, stopReason: 'toolUse' } : message));

/** Every result stands behind the next user message; after the last one they stay where they are. */
function withLateResults() {
    const late = [];
    const moved = [];
    const last = messages.findLastIndex((message) => message.role === 'user');
    for (const [at, message] of messages.entries()) {
        if (message.role === 'toolResult' && at < last) {
            late.push(message);
            continue;
        }
        moved.push(message);
        if (message.role === 'user') moved.push(...late.splice(0));
    }
    return moved;
}

// ---- in the browser ------------------------------------------------------------------------------------------------------------

let browser, server, page, replayed;

before(async () => {
    if (skip) return;
    browser = await launch();
    server = await servePackage({
        first(request, response) {
            if (request.url !== '/session.jsonl') return false;
            response.writeHead(200, { 'Content-Type': 'text/plain; charset=utf-8' }).end(readFileSync(file));
            return true;
        },
    });
    page = await openPage(browser, server);
    replayed = await page.run(async () => {
        const lines = (await (await fetch('/session.jsonl')).text()).trim().split('\n').map((line) => JSON.parse(line));
        const messages = lines.filter((line) => line.type === 'message').map((line) => line.message);
        const begun = performance.now();
        const runtime = await rc.Runtime.open({ strict: false });
        const session = await runtime.createSession({ id: 'real' });
        const results = [];
        let appends = 0;
        for (let at = 0; at < messages.length; ) {
            const turn = await session.begin(messages[at++]);
            await turn.request();
            await turn.dispatched();
            // An answer alone, then its results together, as they come in.
            while (at < messages.length && messages[at].role !== 'user') {
                const batch = [messages[at++]];
                while (batch[0].role === 'toolResult' && messages[at]?.role === 'toolResult') batch.push(messages[at++]);
                await turn.append(...batch);
                appends++;
            }
            results.push(await turn.finish());
        }
        return {
            results,
            appends,
            milliseconds: Math.round(performance.now() - begun),
            count: session.state.messageCount,
            titles: session.titleInputs(),
        };
    });
});
after(async () => {
    if (skip) return;
    assert.deepEqual(await page.unhandled(), []);
    await browser?.close();
    await server?.close();
});

test('914 messages in 88 user turns are replayed, and each turn is saved', { skip }, () => {
    assert.equal(messages.length, 914);
    assert.equal(count(messages, (message) => message.role === 'user'), 88);
    assert.deepEqual(replayed.results, Array(88).fill({ outcome: 'success', saved: true }));
    assert.equal(replayed.count, 914);
    console.log(`replayed 914 messages as 88 turns in ${replayed.milliseconds} ms, with ${replayed.appends} appends`);
});

test('all 914 come out of storage identical after reopening, to the order of their members', { skip }, async () => {
    const again = await openPage(browser, server);
    const found = await again.run(async () => {
        const runtime = await rc.Runtime.open({ strict: false });
        const session = await runtime.openSession('real');
        const pages = [];
        for (let before = session.state.messageCount; before > 0; before -= 100) {
            pages.unshift(...(await session.readMessages({ before, limit: 100 })));
        }
        const dumped = (await kit.dump('runcontext')).messages.map(([, record]) => record.body);
        const outlines = (await kit.dump('runcontext')).message_outlines.map(([, record]) => record.outlines.length);
        return {
            messages: session.messages, pages, dumped, outlines, interrupted: session.interrupted,
            header: session.header.messageCount, titles: session.titleInputs(),
        };
    });
    await again.close();
    const lines = messages.map((message) => JSON.stringify(message));
    assert.deepEqual(found.messages.map((message) => JSON.stringify(message)), lines);
    assert.deepEqual(found.pages.map((message) => JSON.stringify(message)), lines);
    assert.deepEqual(found.dumped.map((message) => JSON.stringify(message)), lines);
    assert.deepEqual(found.outlines, [128, 128, 128, 128, 128, 128, 128, 18]);
    assert.equal(found.header, 914);
    assert.deepEqual(found.interrupted, { $: 'undefined' });
    const typed = (message) =>
        typeof message.content === 'string'
            ? message.content
            : message.content.filter((block) => block.type === 'text').map((block) => block.text).join('\n');
    assert.deepEqual(found.titles, messages.filter((message) => message.role === 'user').map(typed));
    assert.deepEqual(replayed.titles, found.titles);
});

for (const [what, change] of [
    ['as it is', () => messages],
    ['without every 7th result', withoutEvery7thResult],
    ['with the failed message of 16 calls set to `toolUse`', withToolUse],
    ['with results moved behind the next user message', withLateResults],
]) {
    test(`projected ${what}: no failed answer, and every call answered once, right after it`, { skip }, async () => {
        const conversation = change();
        const expected = expectedProjection(conversation);
        const { messages: shown, projection, notices } = await page.run(
            (messages) => rc.projectModelInput(messages, []), conversation,
        );
        const sources = projection.sources.map((source) =>
            source.type === 'history' ? source.messageIndex : `interrupted ${source.toolCallId}`);
        assert.deepEqual(sources, expected.sources);
        assert.equal(projection.historyMessageCount, conversation.length);
        assert.equal(shown.length, sources.length);
        for (const [at, source] of sources.entries()) {
            // What was stored goes through unchanged; what is made up is an error result that says so.
            if (typeof source === 'number') {
                assert.equal(JSON.stringify(shown[at]), JSON.stringify(conversation[source]));
            } else {
                assert.deepEqual([shown[at].role, shown[at].isError], ['toolResult', true]);
                assert.equal(`interrupted ${shown[at].toolCallId}`, source);
                assert.match(shown[at].content[0].text, /interrupted/);
            }
        }
        const calls = assertPaired(shown);
        const results = count(shown, (message) => message.role === 'toolResult');
        assert.equal(results, calls);
        assert.equal(count(shown, failed), 0);
        assert.deepEqual(new Set(notices.map((notice) => notice.code)), new Set(expected.leftOut ? ['result_left_out'] : []));
        assert.equal(notices.length, expected.leftOut);
        console.log(
            `${what}: ${conversation.length} messages, ${count(conversation, failed)} failed answers, ${calls} calls projected, ` +
            `${expected.interrupted} interrupted results, ${expected.leftOut} results left out, ${shown.length} model messages`,
        );
    });
}

test('the changes are what they say', { skip }, () => {
    const results = count(messages, (message) => message.role === 'toolResult');
    const unanswered = expectedProjection(messages).interrupted;
    assert.equal(messages.length - withoutEvery7thResult().length, Math.floor(results / 7));
    assert.equal(count(messages, has16Calls), 1);
    assert.equal(expectedProjection(withToolUse()).interrupted, unanswered + 16);
    const lastTurn = messages.slice(messages.findLastIndex((message) => message.role === 'user'));
    const late = results - count(lastTurn, (message) => message.role === 'toolResult');
    assert.equal(expectedProjection(withLateResults()).leftOut, late);
    assert.equal(expectedProjection(withLateResults()).interrupted, unanswered + late);
    console.log(`counted from the file: ${results} results, ${unanswered} calls of projected answers without one, ${late} results before the last turn`);
});

test('chosen skills change the messages that they were chosen for, and no other', { skip }, async () => {
    const turns = [0, 40, 87];
    const skill = { id: 'p:/s', name: 's', path: '/s', content: 'Do.', revision: 'r' };
    const snapshots = turns.map((userTurn) => ({
        userTurn, content: `<skill name="s" location="/s">\nDo ${userTurn}.\n</skill>`, timestamp: 1, skills: [skill], placement: 'user',
    }));
    const [plain, expanded] = await page.run(
        (messages, snapshots) => [rc.projectModelInput(messages, []), rc.projectModelInput(messages, snapshots)],
        messages, snapshots,
    );
    const users = messages.map((message, at) => [message, at]).filter(([message]) => message.role === 'user').map(([, at]) => at);
    const changed = expanded.messages
        .map((message, at) => (JSON.stringify(message) === JSON.stringify(plain.messages[at]) ? undefined : at))
        .filter((at) => at !== undefined);
    assert.deepEqual(changed.map((at) => plain.projection.sources[at].messageIndex), turns.map((turn) => users[turn]));
    for (const [at, position] of changed.entries()) {
        const { content, ...rest } = messages[users[turns[at]]];
        const block = snapshots[at].content;
        assert.deepEqual(expanded.messages[position], {
            ...rest,
            content: typeof content === 'string' ? `${block}\n\n${content}` : [{ type: 'text', text: block }, ...content],
        });
    }
    assert.deepEqual(expanded.projection.sources, plain.projection.sources);
    assert.deepEqual(expanded.projection.skillExpansions.map((expansion) => expansion.messageIndex), turns.map((turn) => users[turn]));
});
