// Approvals in real pages: they outlive the browser, whoever answers first counts, and a tool runs at most once whatever
// happens between the answer and the run. The tool is a counter on the server, which outlives every page.

import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { after, before, test } from 'node:test';

import { launch, newProfile } from '../support/chromium.mjs';
import { openPage, servePackage } from '../support/page.mjs';

const DEEP = process.env.RUNCONTEXT_DEEP === '1';
/** How often two pages answer the same approval. */
const RACES = DEEP ? 200 : 50;
/** How often two pages resume the same turn. */
const RESUMED = DEEP ? 40 : 8;

let profile, server, browser;
/** How often the tool ran, by what it was asked to count. */
const counted = new Map();

const serve = () => servePackage({
    first(request, response) {
        if (!request.url.startsWith('/count/')) return false;
        const what = decodeURIComponent(request.url.slice('/count/'.length));
        counted.set(what, (counted.get(what) ?? 0) + 1);
        response.writeHead(204).end();
        return true;
    },
});

before(async () => {
    profile = await newProfile();
    server = await serve();
    browser = await launch({ profile });
});
after(async () => {
    await browser?.close();
    await server?.close();
    if (profile) await rm(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
});

/** A page that can open runtimes whose tool counts on the server. */
async function counting() {
    const page = await openPage(browser, server);
    await page.evaluate(() => {
        delete globalThis.BroadcastChannel;
        /** A runtime on the database; `answers` are the model's. */
        window.opened = async (name, answers = [kit.assistant('Done.')], during = async () => {}) => {
            window.count = kit.tool('count', async ({ what }) => {
                await fetch(`/count/${encodeURIComponent(what)}`, { method: 'POST' });
                await during();
                return 'counted';
            }, { access: 'write' });
            const options = { storage: { kind: 'indexeddb', name }, tools: [window.count], model: kit.scripted(...answers) };
            window.runtime = await rc.Runtime.open(options);
            return window.runtime;
        };
        /** Says something to the test, and stands still. */
        window.stop = (what) => {
            console.log(what);
            return new Promise(() => {});
        };
        /** A prompt of a new session in which a person is asked whether to count. */
        window.asked = async (id, what) => {
            const session = await window.runtime.createSession({ id, cwd: '/w' });
            const asked = new Promise((resolve) => {
                session.subscribe((event) => event.type === 'approval-requested' && resolve(event.requestId));
            });
            const prompt = session.prompt(what);
            return { session, prompt, requestId: await asked };
        };
        /** Answers, in a word. */
        window.answer = async (requestId, action = 'approve') => {
            const told = await kit.outcome(() => window.runtime.approvals.resolve(requestId, { action }));
            return told.gave?.outcome ?? told.rejected.code;
        };
        /** A model that counts what it was told in the prompt, and then is done. */
        window.counts = ({ messages }) => {
            const last = messages.at(-1);
            return last.role === 'user' ? kit.calling(['c1', 'count', { what: last.content }]) : kit.assistant('Done.');
        };
    });
    return page;
}

/** The same in a new origin: in one in which it was killed before, Chromium may find its own files damaged (`crash.test.mjs`). */
async function elsewhere() {
    await server.close();
    server = await serve();
    return await counting();
}

/** Ends the browser as when the machine goes down, once the page has said so, and starts another on the same profile. */
async function killedWhen(page, says, begin, ...args) {
    const there = new Promise((resolve) => page.on('console', (message) => message.text() === says && resolve()));
    const source = args.map((arg) => JSON.stringify(arg)).join(', ');
    await page.evaluate(`void (${begin})(${source})`);
    await there;
    await browser.kill();
    browser = await launch({ profile });
    return await counting();
}

/** The result of the one call, in the stored conversation. */
const resultOf = async (page, name) => await page.run(async (name) => {
    const dump = await kit.dump(name);
    const results = dump.messages.map(([, { body }]) => body).filter(({ role }) => role === 'toolResult');
    return { approvals: dump.approvals.length, results: results.map(({ isError, content }) => [isError, content[0].text]) };
}, name);

const INTERRUPTED = 'The tool call was interrupted before it finished. It may be retried.';

const prompting = async (name) => {
    await window.opened(name, [window.counts]);
    await window.asked('s', name);
    await window.stop('asked');
};

for (const first of ['resume', 'answer']) {
    test(`an approval outlives the browser and goes on by resumePrompt(), the ${first} coming first`, async () => {
        const name = `outlives, ${first} first`;
        const page = await killedWhen(await elsewhere(), 'asked', prompting, name);
        const found = await page.run(async (name, first) => {
            const runtime = await window.opened(name);
            const [{ requestId, status, arguments: args }, ...more] = await runtime.approvals.list();
            const before = first === 'answer' && (await window.answer(requestId));
            const session = await runtime.openSession('s');
            const { interrupted } = session;
            const resumed = session.resumePrompt();
            const after = first === 'resume' && (await window.answer(requestId));
            return {
                status, args, more: more.length, answered: before || after, result: await resumed,
                waited: interrupted.pendingApprovals[0] === requestId, unanswered: interrupted.unanswered,
                left: [await runtime.approvals.list(), session.interrupted === undefined, session.state.outcome],
            };
        }, name, first);
        assert.deepEqual(found, {
            status: 'pending', args: { what: name }, more: 0, answered: 'approved', result: { outcome: 'success', saved: true },
            waited: true, unanswered: [{ toolCallId: 'c1', toolName: 'count', arguments: { what: name } }],
            left: [[], true, 'success'],
        });
        assert.equal(counted.get(name), 1);
        assert.deepEqual(await resultOf(page, name), { approvals: 0, results: [[false, 'counted']] });
        assert.deepEqual(await page.unhandled(), []);
    });
}

test('an approval outlives the browser and goes on by resume() in a loop of the host', async () => {
    const name = 'outlives, own loop';
    const page = await killedWhen(await elsewhere(), 'asked', prompting, name);
    const found = await page.run(async (name) => {
        const runtime = await window.opened(name);
        const session = await runtime.openSession('s');
        const [requestId] = session.interrupted.pendingApprovals;
        const turn = await session.resume();
        const [call] = turn.openCalls;
        const gated = await turn.gate(call);
        const waiting = turn.approval(requestId);
        await window.answer(requestId);
        const { outcome } = await waiting;
        await window.count.execute(call.arguments);
        await turn.append(kit.resultOf('c1', 'count', 'counted'));
        return { same: gated.requestId === requestId, outcome, result: await turn.finish(), left: await runtime.approvals.list() };
    }, name);
    assert.deepEqual(found, { same: true, outcome: 'approved', result: { outcome: 'success', saved: true }, left: [] });
    assert.equal(counted.get(name), 1);
});

/** Between the answer and the result: where the browser is killed, and how often the tool has run in the end. */
const BETWEEN = {
    'answered and not claimed': [async (name) => {
        const runtime = await window.opened(name);
        const session = await runtime.createSession({ id: 's', cwd: '/w' });
        const turn = await session.begin(name);
        await turn.request();
        await turn.dispatched();
        await turn.append(kit.calling(['c1', 'count', { what: name }]));
        const { requestId } = await turn.gate(turn.openCalls[0]);
        await window.answer(requestId);
        await window.stop('now');
    }, 1, [[false, 'counted']]],
    'claimed and not begun': [async (name) => {
        const runtime = await window.opened(name);
        const session = await runtime.createSession({ id: 's', cwd: '/w' });
        const turn = await session.begin(name);
        await turn.request();
        await turn.dispatched();
        await turn.append(kit.calling(['c1', 'count', { what: name }]));
        const { requestId } = await turn.gate(turn.openCalls[0]);
        await window.answer(requestId);
        await turn.approval(requestId);
        await window.stop('now');
    }, 0, [[true, INTERRUPTED]]],
    'it runs': [async (name) => {
        await window.opened(name, [window.counts], () => window.stop('now'));
        const { requestId } = await window.asked('s', name);
        await window.answer(requestId);
    }, 1, [[true, INTERRUPTED]]],
};

for (const [stage, [begin, runs, results]] of Object.entries(BETWEEN)) {
    test(`killed between answer and result (${stage}): the tool runs at most once`, async () => {
        const page = await killedWhen(await elsewhere(), 'now', begin, stage);
        const found = await page.run(async (name) => {
            const runtime = await window.opened(name);
            const listed = await runtime.approvals.list();
            const result = await (await runtime.openSession('s')).resumePrompt();
            return [listed, result];
        }, stage);
        assert.deepEqual(found, [[], { outcome: 'success', saved: true }]);
        assert.equal(counted.get(stage) ?? 0, runs);
        assert.deepEqual(await resultOf(page, stage), { approvals: 0, results });
    });
}

test('killed at any moment after an answer: the tool ran at most once, and what is stored fits', async () => {
    const stages = new Set();
    for (let attempt = 0; attempt < (DEEP ? 30 : 5); attempt++) {
        const name = `any moment ${attempt}`;
        // The answer, the claim, the result, the last words, the end: when the nth commit was begun.
        const page = await killedWhen(await elsewhere(), 'now', async (name, nth) => {
            await window.opened(name, [window.counts]);
            const { requestId } = await window.asked('s', name);
            let commits = 0;
            kit.onCommit(() => {
                if (commits++ !== nth) return;
                console.log('now');
                // Nothing goes on until the browser is killed.
                for (const until = performance.now() + 5000; performance.now() < until; );
            });
            await window.answer(requestId);
        }, name, attempt % 5);
        const found = await page.run(async (name) => {
            const runtime = await window.opened(name);
            const session = await runtime.openSession('s');
            const listed = await runtime.approvals.list();
            const { interrupted } = session;
            for (const { requestId } of listed) await window.answer(requestId);
            if (interrupted) await session.resumePrompt();
            return { asked: listed.length, interrupted: interrupted !== undefined };
        }, name);
        const { approvals, results } = await resultOf(page, name);
        assert.ok((counted.get(name) ?? 0) <= 1, `it ran ${counted.get(name)} times`);
        assert.equal(approvals, 0);
        assert.equal(results.length, 1);
        if (!results[0][0]) assert.equal(counted.get(name), 1);
        stages.add(JSON.stringify([found, results[0][0]]));
    }
    console.log(`killed at ${stages.size} different stages`);
    assert.ok(stages.size >= 2, [...stages].join(' '));
});

test('two pages that answer the same approval let the tool run once, every time', async () => {
    const name = 'races';
    const [one, two] = await Promise.all([counting(), counting()]);
    await one.run(async (name) => void (await window.opened(name, [window.counts])), name);
    await two.run(async (name) => void (await window.opened(name, [window.counts])), name);
    const won = [0, 0];
    for (let from = 0; from < RACES; from += 10) {
        const asked = await one.run(async (from) => {
            const numbers = Array.from({ length: 10 }, (_, at) => from + at);
            window.races = await Promise.all(numbers.map((number) => window.asked(`s${number}`, 'races')));
            return window.races.map(({ requestId }) => requestId);
        }, from);
        // The other page has the sessions open, too; then both answer at the same moment, give or take some milliseconds.
        await two.run(async (from) => {
            const numbers = Array.from({ length: 10 }, (_, at) => from + at);
            window.held = await Promise.all(numbers.map((number) => window.runtime.openSession(`s${number}`)));
        }, from);
        const answer = async (asked, start) => await Promise.all(asked.map(async (requestId) => {
            await new Promise((resolve) => setTimeout(resolve, start - Date.now() + Math.random() * 25));
            return await window.answer(requestId);
        }));
        const start = Date.now() + 100;
        const told = await Promise.all([one, two].map((page) => page.run(answer, asked, start)));
        for (let at = 0; at < 10; at++) {
            const pair = told.map((answers) => answers[at]);
            assert.deepEqual([...pair].sort(), ['approval_not_found', 'approved']);
            won[pair.indexOf('approved')]++;
        }
        const results = await one.run(async () => await Promise.all(window.races.map(({ prompt }) => prompt)));
        assert.deepEqual(results, Array(10).fill({ outcome: 'success', saved: true }));
    }
    assert.equal(counted.get('races'), RACES);
    const { approvals, results } = await resultOf(one, name);
    assert.equal(approvals, 0);
    assert.deepEqual(results, Array(RACES).fill([false, 'counted']));
    assert.ok(won[0] > 0 && won[1] > 0, 'one page was always the first');
    console.log(`of ${RACES} answers the page that waited gave ${won[0]}, the other ${won[1]}`);
    for (const page of [one, two]) assert.deepEqual(await page.unhandled(), []);
});

test('two pages that resume the same turn and answer its approval let the tool run once, every time', async () => {
    for (let round = 0; round < RESUMED; round++) {
        const name = `resumed twice ${round}`;
        const first = await counting();
        await first.run(async (name) => {
            await window.opened(name, [window.counts]);
            await window.asked('s', name);
        }, name);
        await first.close();
        const pages = await Promise.all([counting(), counting()]);
        const open = async (name) => {
            // Who runs a turn cannot be said: storage alone decides.
            Object.defineProperty(navigator, 'locks', { value: undefined });
            const runtime = await window.opened(name);
            window.session = await runtime.openSession('s');
        };
        await Promise.all(pages.map((page) => page.run(open, name)));
        const resume = async () => {
            const [requestId] = window.session.interrupted.pendingApprovals;
            const resumed = window.session.resumePrompt();
            await new Promise((resolve) => setTimeout(resolve, Math.random() * 10));
            return [await window.answer(requestId), (await resumed).outcome];
        };
        const told = await Promise.all(pages.map((page) => page.run(resume)));
        assert.deepEqual(told.map(([answer]) => answer).sort(), ['approval_not_found', 'approved']);
        assert.equal(counted.get(name), 1);
        assert.equal((await resultOf(pages[0], name)).approvals, 0);
        await Promise.all(pages.map((page) => page.close()));
    }
});

/** Two pages with the same session open. */
async function sideBySide(name, options) {
    const pages = await Promise.all([counting(), counting()]);
    const open = async (name, options, creates) => {
        const cwd = '/w';
        const resolvePaths = (base, paths) => paths.map((path) => ({ canonical: path.startsWith('/') ? path : `${base}/${path}` }));
        const file = kit.tool('write_file', () => 'written', { access: undefined, paths: [{ argument: '/path', access: 'write' }] });
        const run = kit.tool('run', () => 'done', { access: 'execute' });
        window.runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name }, tools: [file, run], host: { cwd, resolvePaths } });
        window.session = creates ? await runtime.createSession({ id: 's', cwd, ...options }) : await runtime.openSession('s');
        return typeof BroadcastChannel;
    };
    assert.equal(await pages[0].run(open, name, options, true), 'undefined');
    await pages[1].run(open, name, options, false);
    return pages;
}

const decided = async (page, toolName, args) => await page.run(async (toolName, args) => {
    const { outcome, reason } = await session.explain({ toolCallId: 'c', toolName, arguments: args });
    return [outcome, reason];
}, toolName, args);

test('a deny rule that is added in another tab decides the very next call', async () => {
    const [one, two] = await sideBySide('deny elsewhere', { permissionPreset: 'danger-full-access' });
    for (let round = 0; round < 10; round++) {
        assert.deepEqual(await decided(one, 'run', {}), ['allow', 'preset']);
        const id = await two.run(() => runtime.permissions.addRule({ tool_pattern: 'run', action: 'deny' }));
        assert.deepEqual(await decided(one, 'run', {}), ['deny', 'rule']);
        await two.run((id) => runtime.permissions.deleteRule(id), id);
    }
    assert.deepEqual(await one.unhandled(), []);
});

test('a RunContext that is tightened in another tab decides the very next call', async () => {
    const granted = { allow_fs_writes: ['logs'] };
    const [one, two] = await sideBySide('tightened elsewhere', { runContext: granted });
    for (let round = 0; round < 10; round++) {
        assert.deepEqual(await decided(one, 'write_file', { path: 'logs/a' }), ['allow', 'run_context']);
        await two.run(() => session.setRunContext({ allow_fs_writes: ['other'] }));
        assert.deepEqual(await decided(one, 'write_file', { path: 'logs/a' }), ['require', 'rule']);
        await two.run(() => session.setRunContext({ allow_fs_writes: ['logs'] }));
    }
    assert.deepEqual(await one.unhandled(), []);
});

test('a RunContext that is loosened in another tab loosens nothing in a running turn', async () => {
    const [one, two] = await sideBySide('loosened elsewhere', { runContext: { allow_fs_writes: ['logs'] } });
    const write = (path) => decided(one, 'write_file', { path });
    await one.run(async () => {
        window.turn = await session.begin('Hello');
        await turn.request();
        await turn.dispatched();
    });
    await two.run(() => session.setRunContext({ allow_fs_writes: ['logs', 'other'] }));
    assert.deepEqual(await write('other/a'), ['require', 'rule']);
    await two.run(() => session.setRunContext({ allow_fs_writes: ['other'] }));
    assert.deepEqual([await write('logs/a'), await write('other/a')], [['require', 'rule'], ['require', 'rule']]);
    await one.run(() => turn.cancel());
    assert.deepEqual([await write('logs/a'), await write('other/a')], [['require', 'rule'], ['allow', 'run_context']]);
});
