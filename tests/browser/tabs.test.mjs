// Two real pages on one database, with the browser's locks and channels and without them: a turn that runs in one is no
// interrupted turn in the other, what one stores the other shows, and whatever is acknowledged is there, once.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { launch } from '../support/chromium.mjs';
import { openPage, servePackage } from '../support/page.mjs';

/** How many commits each page is to have acknowledged. */
const COMMITS = process.env.RUNCONTEXT_DEEP === '1' ? 500 : 50;

const BOTH = { locks: true, channel: true };
const NEITHER = { locks: false, channel: false };
/** What a page has of the browser, by what a test is called. */
const WITH = {
    'with locks and channels': BOTH, 'with neither': NEITHER,
    'with locks alone': { locks: true, channel: false }, 'with channels alone': { locks: false, channel: true },
};

let browser, server;
/** Each test has a database of its own. */
let number = 0;

before(async () => {
    browser = await launch();
    server = await servePackage();
});
after(async () => {
    await browser?.close();
    await server?.close();
});

/** A page with the session `s` of a database. The first one creates it. */
async function aPage(name, { locks, channel }, creates) {
    const page = await openPage(browser, server);
    await page.run(async (name, locks, channel, creates) => {
        if (!locks) Object.defineProperty(navigator, 'locks', { value: undefined });
        if (!channel) delete globalThis.BroadcastChannel;
        window.later = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
        /** Waits until something holds, and says whether it came to that. */
        window.until = async (holds, patience = 5000) => {
            for (const end = performance.now() + patience; performance.now() < end; await later(5)) if (await holds()) return true;
            return false;
        };
        const ask = kit.tool('ask', () => 'ran', { access: 'write' });
        const model = kit.scripted(({ messages }) => {
            const { role, content } = messages.at(-1);
            if (role !== 'user') return kit.assistant('done');
            return content === 'ask' ? kit.calling(['c1', 'ask', {}]) : kit.assistant(`heard ${content}`);
        });
        window.runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name }, tools: [ask], model });
        window.session = creates ? await runtime.createSession({ id: 's', cwd: '/w' }) : await runtime.openSession('s');
        window.model = model;
        window.events = [];
        session.subscribe(({ type }) => events.push(type));
        runtime.subscribe(({ type }) => events.push(type));
        /** A turn whose first request is on its way. */
        window.dispatched = async (text) => {
            const turn = await session.begin(text);
            await turn.request();
            await turn.dispatched();
            return turn;
        };
    }, name, locks, channel, creates);
    return page;
}

async function twoPages(there) {
    const name = `tabs ${number++}`;
    const one = await aPage(name, there, true);
    const two = await aPage(name, there, false);
    const end = async () => {
        for (const page of [one, two]) {
            assert.deepEqual(await page.unhandled(), []);
            await page.close();
        }
    };
    return { name, one, two, end };
}

/** The messages of each stored session, read past the package; positions have no gap, and counts agree. */
async function conversations(page, name) {
    const dump = await page.run((name) => kit.dump(name), name);
    const found = {};
    for (const [id, { messageCount }] of dump.chat_sessions) {
        const own = dump.messages.filter(([[session]]) => session === id).map(([, record]) => record);
        assert.deepEqual(own.map(({ index }) => index), own.map((_, at) => at));
        assert.equal(own.length, messageCount);
        const outlines = dump.message_outlines.filter(([[session]]) => session === id).flatMap(([, pack]) => pack.outlines);
        assert.equal(outlines.length, messageCount);
        found[id] = own.map(({ body: { content } }) => (typeof content === 'string' ? content : content[0].text));
    }
    return { found, dump };
}

// ---- a turn that runs elsewhere -----------------------------------------------------------------------------------

const tries = async () => {
    const tried = [];
    for (const work of [
        () => session.prompt('more'), () => session.begin('more'), () => session.resume(), () => session.resumePrompt(),
        () => session.abandon(), () => session.setPermissionPreset('workspace-write'),
    ]) tried.push(await kit.outcome(work));
    return {
        tried: tried.map(({ rejected }) => [rejected.code, rejected.data.elsewhere]),
        interrupted: session.interrupted === undefined, runsElsewhere: session.state.runsElsewhere, calls: model.calls,
    };
};
const BUSY = { tried: Array(6).fill(['session_busy', true]), interrupted: true, runsElsewhere: true, calls: 0 };

for (const [what, there] of Object.entries(WITH).filter(([, { locks }]) => locks)) {
    test(`a turn that runs in another tab is not taken for interrupted, until that tab is gone, ${what}`, async () => {
        const { name, one, two, end } = await twoPages(there);
        await one.run(async () => void (window.turn = await dispatched('hello')));
        const late = await aPage(name, there, false);
        assert.deepEqual(await late.run(tries), BUSY);
        if (there.channel) {
            assert.ok(await two.run(() => until(() => session.state.runsElsewhere)));
            assert.deepEqual(await two.run(tries), BUSY);
        }
        const ended = await one.run(async () => {
            await turn.append(kit.assistant('hi'));
            return await turn.finish();
        });
        assert.deepEqual(ended, { outcome: 'success', saved: true });
        // Who is not told finds out when it matters.
        assert.equal((await late.run(() => session.prompt('more'))).saved, true);
        // This tab dies in mid-turn: now it was cut off.
        await late.run(() => void dispatched('again'));
        assert.ok(await two.run(() => until(async () => {
            await session.reload();
            return session.state.runsElsewhere;
        })));
        await late.close();
        assert.ok(await two.run(() => until(async () => {
            await session.reload();
            return session.interrupted !== undefined;
        })));
        assert.deepEqual(await two.run(() => session.resumePrompt()), { outcome: 'success', saved: true });
        const { found } = await conversations(two, name);
        assert.deepEqual(found, { s: ['hello', 'hi', 'more', 'heard more', 'again', 'heard again'] });
        await end();
    });
}

test('where nobody can say who runs a turn, the counters of storage decide', async () => {
    const { name, one, two, end } = await twoPages(NEITHER);
    await one.run(async () => void (window.turn = await dispatched('hello')));
    const found = await two.run(async () => {
        await session.reload();
        const interrupted = session.interrupted !== undefined;
        return { interrupted, elsewhere: session.state.runsElsewhere, resumed: await session.resumePrompt() };
    });
    assert.deepEqual(found, { interrupted: true, elsewhere: false, resumed: { outcome: 'success', saved: true } });
    const result = await one.run(async () => {
        await turn.append(kit.assistant('hi'));
        const { outcome, saved, saveError } = await turn.finish();
        return [outcome, saved, saveError.code, Object.keys(await session.reload({ pending: 'fork' }))];
    });
    assert.deepEqual(result, ['error', false, 'conflict', ['forked']]);
    const stored = Object.values((await conversations(two, name)).found).sort();
    assert.deepEqual(stored, [['hello', 'heard hello'], ['hello', 'hi']]);
    await end();
});

test('a turn is marked by a lock as long as it runs, and a module that failed holds none', async () => {
    const { name, one, end } = await twoPages(BOTH);
    const held = () => one.run(async () => {
        const { held } = await navigator.locks.query();
        return held.map(({ name, mode }) => [name, mode]);
    });
    const lock = [`runcontext:${name}:s`, 'shared'];
    assert.deepEqual(await held(), []);
    await one.run(async () => void (window.turn = await dispatched('hello')));
    assert.deepEqual(await held(), [lock]);
    await one.run(() => turn.cancel());
    assert.ok(await one.run(() => until(async () => (await navigator.locks.query()).held.length === 0)));
    await one.run(async () => void (window.turn = await dispatched('again')));
    assert.deepEqual(await held(), [lock]);
    // What the guard does when an instance traps.
    await one.run(async () => (await import('/pkg/tabs.js')).letGo());
    assert.ok(await one.run(() => until(async () => (await navigator.locks.query()).held.length === 0)));
    await end();
});

// ---- hints ---------------------------------------------------------------------------------------------------------

/** What happens in one page, and what another one hears of it without doing anything. */
const FELT = {
    'a turn': [() => session.prompt('hello'), 'reloaded', () => session.messages.length === 2],
    'a title': [() => session.setTitle('t'), 'settings', () => session.state.title === 't'],
    'a run context': [() => session.setRunContext({ working_directory: '/w/x' }), 'settings', () => session.runContext?.working_directory === '/w/x'],
    'a preset': [() => session.setPermissionPreset('workspace-write'), 'settings', () => session.permissionPreset === 'workspace-write'],
    'a rule': [() => runtime.permissions.addRule({ tool_pattern: 'ask', action: 'allow' }), 'permissions-changed', () => true],
    'a question': [async () => {
        window.turn = await dispatched('ask');
        await turn.append(kit.calling(['c1', 'ask', {}]));
        window.requestId = (await turn.gate(turn.openCalls[0])).requestId;
    }, 'approval-requested', () => session.state.pendingApprovals.length === 1],
    'a deletion': [() => runtime.deleteSession('s'), 'session-deleted', () => true],
    'a new session': [() => runtime.createSession({ id: 'new' }), 'session-changed', () => true],
};

for (const [what, [work, event, holds]] of Object.entries(FELT)) {
    test(`${what} in one tab is felt in another, and without a channel nothing is`, async () => {
        for (const there of [BOTH, NEITHER]) {
            const { one, two, end } = await twoPages(there);
            await two.run(() => void (events.length = 0));
            await one.run(`async () => void (await (${work})())`);
            const patience = there.channel ? 5000 : 300;
            const felt = await two.run(`() => until(() => events.includes('${event}') && (${holds})(), ${patience})`);
            assert.equal(felt, there.channel);
            await end();
        }
    });
}

for (const [what, there] of Object.entries(WITH)) {
    test(`another tab marks read, sets a title, answers, and changes the run context, and the turn commits all the same, ${what}`, async () => {
        const { name, one, two, end } = await twoPages(there);
        await one.run(async () => {
            window.prompted = session.prompt('ask');
            await until(() => session.state.pendingApprovals.length === 1);
        });
        const told = await two.run(async () => {
            const [{ requestId }] = await runtime.approvals.list();
            await session.reload();
            const read = await session.markRead(1);
            await session.setTitle('theirs');
            // Not the directory: what is asked about would be another call then.
            await session.setRunContext({ allow_fs_writes: ['logs'] });
            const { outcome } = await runtime.approvals.resolve(requestId, { action: 'approve' });
            await session.setPinned(true);
            return [read, outcome];
        });
        assert.deepEqual(told, [true, 'approved']);
        assert.deepEqual(await one.run(() => prompted), { outcome: 'success', saved: true });
        const { found, dump } = await conversations(one, name);
        assert.deepEqual(found.s.length, 4);
        const [[, { settings }]] = dump.chat_sessions;
        assert.deepEqual(
            [settings.readCount, settings.title, settings.runContext.allow_fs_writes, settings.pinned, settings.outcome, dump.approvals],
            [1, 'theirs', ['logs'], true, 'success', []],
        );
        await end();
    });
}

// ---- both write ----------------------------------------------------------------------------------------------------

/**
 * Runs turns until so many commits are acknowledged: what was pending is dropped, what others stored is read. Gives the texts
 * that were acknowledged, by session.
 */
async function races(mark, wanted, ids) {
    const sessions = [];
    for (const id of ids) sessions.push(await runtime.openSession(id));
    const acked = Object.fromEntries(ids.map((id) => [id, []]));
    const met = { commits: 0, conflicts: 0, refusals: 0 };
    for (let number = 0; met.commits < wanted; number++) {
        const session = sessions[Math.floor(Math.random() * sessions.length)];
        const text = `${mark} ${number}`;
        const saved = (...texts) => {
            if (session.state.hasPendingSave) return;
            met.commits++;
            acked[session.id].push(...texts);
        };
        let turn;
        try {
            turn = await session.begin(text);
        } catch ({ code }) {
            if (code !== 'session_busy' && code !== 'session_interrupted') throw new Error(code);
            met.refusals++;
            await later(Math.random() * 10);
            await session.reload();
            continue;
        }
        await turn.request();
        await turn.dispatched();
        saved(text);
        await turn.append(kit.assistant(`to ${text}`));
        saved(`to ${text}`);
        const { saved: whole, saveError } = await turn.finish();
        saved();
        if (!whole) {
            if (saveError.code !== 'conflict') throw new Error(saveError.code);
            met.conflicts++;
            await session.reload({ pending: 'discard' });
        }
    }
    return { acked, met };
}

for (const [what, there] of Object.entries({ 'with locks and channels': BOTH, 'with neither': NEITHER })) {
    for (const ids of [['s'], ['s', 't']]) {
        const count = ids.length === 1 ? 'one session' : 'two sessions';
        test(`two tabs on ${count}, ${what}: every acknowledged commit is there once, and nobody waits for ever`, async () => {
            const { name, one, two, end } = await twoPages(there);
            if (ids.length === 2) await one.run(async () => void (await runtime.createSession({ id: 't', cwd: '/w' })));
            const told = await Promise.all([one.run(races, 'one', COMMITS, ids), two.run(races, 'two', COMMITS, ids)]);
            const { found } = await conversations(one, name);
            assert.deepEqual(Object.keys(found).sort(), ids);
            for (const { acked, met } of told) {
                assert.ok(met.commits >= COMMITS);
                for (const id of ids) {
                    for (const text of acked[id]) assert.equal(found[id].filter((other) => other === text).length, 1, text);
                }
            }
            // And nothing else is there.
            for (const id of ids) assert.equal(found[id].length, told.reduce((sum, { acked }) => sum + acked[id].length, 0));
            console.log(`${count}, ${what}: ${told.map(({ met }) => JSON.stringify(met)).join(' and ')}`);
            await end();
        });
    }
}

for (const [what, there] of Object.entries(WITH)) {
    test(`both tabs run a turn on one session: one commits, the other forks, and neither is renumbered, ${what}`, async () => {
        const { name, one, two, end } = await twoPages(there);
        await one.run(() => session.prompt('before'));
        await two.run(() => session.reload());
        const begin = async (text) => {
            window.turn = await session.begin(text);
            await turn.request();
        };
        await Promise.all([one.run(begin, 'from one'), two.run(begin, 'from two')]);
        const runs = async (text) => {
            await turn.dispatched();
            await turn.append(kit.assistant(`to ${text}`));
            const { saved, saveError } = await turn.finish();
            if (saved) return { saved };
            const { forked } = await session.reload({ pending: 'fork' });
            const fork = await runtime.openSession(forked);
            return { code: saveError.code, forked, shown: session.messages.length, next: (await fork.prompt('on')).saved };
        };
        const told = await Promise.all([one.run(runs, 'from one'), two.run(runs, 'from two')]);
        const [won, lost] = told[0].saved ? ['one', 'two'] : ['two', 'one'];
        const other = told.find(({ forked }) => forked);
        assert.deepEqual(told.filter(({ saved }) => saved), [{ saved: true }]);
        assert.deepEqual([other.code, other.next], ['conflict', true]);
        const { found } = await conversations(one, name);
        assert.deepEqual(found, {
            s: ['before', 'heard before', `from ${won}`, `to from ${won}`],
            [other.forked]: ['before', 'heard before', `from ${lost}`, `to from ${lost}`, 'on', 'heard on'],
        });
        await end();
    });
}
