// `reload()` in real pages on real IndexedDB: what could not be saved is forked or dropped, and every write may fail.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { launch } from '../support/chromium.mjs';
import { openPage, servePackage } from '../support/page.mjs';

let browser, server, pages;
/** Each test has a database of its own. */
let number = 0;

before(async () => {
    browser = await launch();
    server = await servePackage();
    pages = await Promise.all([aPage(), aPage()]);
});
after(async () => {
    await browser?.close();
    await server?.close();
});

/** A page in which only the counters of storage say what others did. */
async function aPage() {
    const page = await openPage(browser, server);
    await page.evaluate(() => {
        delete globalThis.BroadcastChannel;
        /** The session `s` of a database. */
        window.opened = async (name, creates) => {
            const model = kit.scripted(({ messages }) => kit.assistant(`heard ${messages.at(-1).content}`, { timestamp: 7 }));
            window.runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name }, model, now: () => 3000 });
            window.session = creates ? await runtime.createSession({ id: 's', cwd: '/w' }) : await runtime.openSession('s');
            window.model = model;
        };
    });
    return page;
}

/** Two pages that both ran a turn of one session: the first one's is stored. */
async function conflict() {
    const name = `reload ${number++}`;
    const [one, two] = pages;
    await one.run((name) => window.opened(name, true), name);
    await two.run((name) => window.opened(name, false), name);
    assert.equal((await one.run(() => session.prompt('from one'))).saved, true);
    const result = await two.run(() => session.prompt('from two'));
    assert.deepEqual([result.outcome, result.saved, result.saveError.code], ['error', false, 'conflict']);
    return { name, one, two };
}

const typed = (content) => ({ role: 'user', content, timestamp: 3000 });
const heard = (text) => ({ role: 'assistant', content: [{ type: 'text', text: `heard ${text}` }], stopReason: 'stop', timestamp: 7 });
const FIRST = [typed('from one'), heard('from one')];
const SECOND = [typed('from two'), heard('from two')];

/** What is stored of a session, read past the package. */
const conversation = (page, name, id) => page.run(async (name, id) => {
    const dump = await kit.dump(name);
    const own = (store) => dump[store].filter(([key]) => key === id || key[0] === id).map(([, record]) => record);
    const [{ counters, messageCount, settings: { outcome, openTurn } }] = own('chat_sessions');
    return {
        messages: own('messages').map(({ body }) => body), counters, messageCount, outcome, openTurn,
        indices: own('messages').map(({ index }) => index), checkpoints: own('system_prompt_checkpoints').length,
        commits: own('commits').length, approvals: own('approvals').length,
    };
}, name, id);

const whole = (messages, conversation, settings, commits) => ({
    messages, counters: { conversation, settings }, messageCount: messages.length, outcome: 'success', openTurn: null,
    indices: messages.map((_, at) => at), checkpoints: 1, commits, approvals: 0,
});

test('what is pending becomes a session of its own, and this one shows what is stored', async () => {
    const { name, one, two } = await conflict();
    const found = await two.run(async () => {
        const events = [];
        session.subscribe(({ type }) => events.push(type));
        const refused = await kit.outcome(() => session.reload());
        const both = session.reload({ pending: 'fork' });
        const busy = [await kit.outcome(() => session.reload({ pending: 'fork' })), await kit.outcome(() => session.prompt('more'))];
        const { forked, ...more } = await both;
        const fork = await runtime.openSession(forked);
        const { messages, state } = session;
        return {
            refused, busy, more, events, forked, messages, calls: model.calls, fork: fork.messages, pending: state.hasPendingSave,
            listed: (await runtime.listSessions()).map(({ id }) => id).sort(),
        };
    });
    assert.equal(found.refused.rejected.code, 'pending_save');
    assert.deepEqual(found.busy.map(({ rejected }) => rejected.code), ['session_busy', 'session_busy']);
    assert.deepEqual([found.more, found.events, found.calls, found.pending], [{}, ['reloaded'], 1, false]);
    assert.deepEqual([found.messages, found.fork], [FIRST, SECOND]);
    assert.deepEqual(found.listed, ['s', found.forked].sort());
    assert.deepEqual(await conversation(one, name, 's'), whole(FIRST, 4, 2, 4));
    assert.deepEqual(await conversation(one, name, found.forked), whole(SECOND, 1, 0, 1));
    const next = await two.run(async (forked) => [
        await session.prompt('on'), await (await runtime.openSession(forked)).prompt('on'),
    ], found.forked);
    assert.deepEqual(next.map(({ saved }) => saved), [true, true]);
});

test('what is pending is dropped, and the list of messages is another one though it is as long', async () => {
    const { name, one, two } = await conflict();
    const found = await two.run(async () => {
        const before = session.messages;
        const answer = await session.reload({ pending: 'discard' });
        return { answer, before, after: session.messages, state: session.state.messages, next: await session.prompt('on') };
    });
    assert.deepEqual([found.answer, found.before, found.after, found.state], [{}, SECOND, FIRST, FIRST]);
    assert.equal(found.next.saved, true);
    const { messages } = await conversation(one, name, 's');
    assert.deepEqual(messages, [...FIRST, typed('on'), heard('on')]);
});

// How three attempts fail. A fork that is there, though its answer was not heard, is found by its operation id: by the next
// attempt, or where the connection was lost, at once.
const FAILURES = {
    refuse: Array(3).fill('storage_failed'), put: Array(3).fill('storage_failed'), quota: Array(3).fill('storage_quota'),
    unheard: ['storage_failed'], lost: [],
};

for (const [how, codes] of Object.entries(FAILURES)) {
    test(`a fork whose write fails (${how}) leaves all of it pending, and is made once`, async () => {
        const { name, one, two } = await conflict();
        const found = await two.run(async (how) => {
            const answers = [];
            for (let attempt = 0; attempt < 3 && answers.at(-1)?.gave === undefined; attempt++) {
                kit.failWrites(how, 1, 1);
                answers.push(await kit.outcome(() => session.reload({ pending: 'fork' })));
                kit.calm();
                if (answers.at(-1).rejected) answers.push(session.messages.map(({ content }) => content), session.state.hasPendingSave);
            }
            const last = answers.at(-1).gave ?? (await session.reload({ pending: 'fork' }));
            return { answers, last, listed: (await runtime.listSessions()).length, messages: session.messages };
        }, how);
        const failed = found.answers.filter((answer) => answer.rejected);
        assert.deepEqual(failed.map(({ rejected }) => rejected.code), codes);
        for (const messages of found.answers.filter(Array.isArray)) assert.deepEqual(messages[0], 'from two');
        assert.ok(found.answers.every((answer) => answer !== false));
        assert.deepEqual(found.messages, FIRST);
        assert.equal(found.listed, 2);
        assert.deepEqual(await conversation(one, name, 's'), whole(FIRST, 4, 2, 4));
        assert.deepEqual(await conversation(one, name, found.last.forked), whole(SECOND, 1, 0, 1));
    });
}

test('options that are none are refused, and change nothing', async () => {
    const { two } = await conflict();
    const found = await two.run(async () => {
        const wrong = [{ pending: 'keep' }, { pending: 1 }, { pending: '' }, 'fork', 7, []];
        const refused = [];
        for (const options of wrong) refused.push((await kit.outcome(() => session.reload(options))).rejected.code);
        const none = [];
        for (const options of [undefined, null, {}, { pending: undefined }, { pending: null }]) {
            none.push((await kit.outcome(() => session.reload(options))).rejected.code);
        }
        return { refused, none, messages: session.messages };
    });
    assert.deepEqual(found.refused, Array(6).fill('invalid_argument'));
    assert.deepEqual(found.none, Array(5).fill('pending_save'));
    assert.deepEqual(found.messages, SECOND);
    for (const page of pages) assert.deepEqual(await page.unhandled(), []);
});
