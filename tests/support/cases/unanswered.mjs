// Storage of the host that does not answer: everybody settles, nothing is allowed by it, and nothing is lost or doubled.

import { fails, ok, same, soon } from './check.mjs';
import { assistant, calling, clock, outcome, rc, scripted, tool } from './kit.mjs';

/** What is given up after thirty seconds is given up a little earlier. */
async function impatient(work) {
    const wait = globalThis.setTimeout;
    globalThis.setTimeout = (after, time, ...more) => wait(after, time === 30_000 ? 200 : time, ...more);
    try {
        return await work();
    } finally {
        globalThis.setTimeout = wait;
    }
}

/** An adapter in memory of which some methods answer as `storage.around` has it. */
function adapter() {
    const inner = rc.memoryStorage();
    const storage = { ...inner, inner, asked: [], around: (name, run) => run() };
    const part = (name, target) => Object.fromEntries(
        Object.keys(target).map((method) => [method, (...args) => {
            storage.asked.push(`${name}.${method}`);
            return storage.around(`${name}.${method}`, () => target[method](...args));
        }]),
    );
    storage.session = (id) => part('session', inner.session(id));
    storage.shared = part('shared', inner.shared);
    storage.directory = part('directory', inner.directory);
    return storage;
}

const never = new Promise(() => {});
const hangs = (...names) => (name, run) => (names.includes(name) ? never : run());
const look = () => tool('look', () => 'seen');
const open = (storage, more) => rc.Runtime.open({ storage, model: scripted(calling(['c1', 'look']), assistant('Done.')), tools: [look()], now: clock(), ...more });
const said = async (session) => (await session.readMessages({ limit: 100 })).map(({ role }) => role);
const call = { toolCallId: 'c1', toolName: 'look', arguments: {} };
const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));

/** The error of a call that was given up. */
function gaveUp({ code, message, data }, method) {
    same([code, data.unanswered], ['storage_failed', true], message);
    if (method) same(message, `the storage \`memory\` gave no answer to \`${method}\` within 30 seconds; try again`);
}

export const cases = {
    async 'whatever an adapter does not answer is given up, and says so'() {
        const storage = adapter();
        const runtime = await open(storage);
        const session = await runtime.createSession({ id: 's', cwd: '/w' });
        session.bypass('all');
        await session.prompt('Hello');
        await (await runtime.createSession({ id: 'closed' })).dispose();
        const calls = {
            'shared.list': () => open(storage),
            'directory.list': () => runtime.listSessions(),
            'session.load': () => runtime.openSession('closed'),
            'session.delete': () => runtime.deleteSession('closed'),
            'directory.put': () => runtime.createSession({ id: 'new' }),
            'session.commit': () => runtime.createSession({ id: 'other' }),
            'shared.write': () => runtime.permissions.addRule({ tool_pattern: 'look', action: 'allow' }),
            'shared.policyVersion': () => runtime.permissions.listRules(),
        };
        for (const [name, run] of Object.entries(calls)) {
            storage.around = hangs(name);
            const found = await soon(impatient(() => outcome(run)), name);
            gaveUp(found.rejected ?? {}, name.split('.')[1]);
        }
        storage.around = (name, run) => run();
        same((await runtime.listSessions()).map(({ id }) => id).sort(), ['closed', 's']);
        await runtime.close();
    },

    async 'the gate asks a person where storage does not answer, and asks no second time what was not answered'() {
        const storage = adapter();
        const runtime = await open(storage);
        await runtime.permissions.addRule({ tool_pattern: 'look', action: 'allow', priority: 1 });
        const session = await runtime.createSession({ id: 's', cwd: '/w' });
        same((await session.gate(call)).outcome, 'allow');
        for (const name of ['shared.policyVersion', 'session.counters']) {
            storage.around = hangs(name);
            storage.asked = [];
            const { outcome, reason } = await soon(impatient(() => session.gate(call)), name);
            same([outcome, reason], ['require', 'policy_unverified'], name);
            same(storage.asked.filter((asked) => asked === 'shared.policyVersion').length, Number(name !== 'session.counters'), name);
        }
        storage.around = (name, run) => run();
        same((await session.gate(call)).outcome, 'allow');
        await runtime.close();
    },

    async 'a commit that is not answered in time is pending, and is there once, whatever becomes of it later'() {
        const late = {
            'it is applied at once, and answered too late': (run) => run().then((answer) => pause(400).then(() => answer)),
            'it is applied too late': (run) => pause(400).then(run),
            'it is applied, and never answered': (run) => run().then(() => never),
            'it fails too late': () => pause(400).then(() => Promise.reject(new Error('too late'))),
            'it is never heard of again': () => never,
        };
        for (const [what, happens] of Object.entries(late)) {
            const storage = adapter();
            const [model, looked] = [scripted(calling(['c1', 'look']), assistant('Done.')), look()];
            const runtime = await open(storage, { model, tools: [looked] });
            const session = await runtime.createSession({ id: 's', cwd: '/w' });
            session.bypass('all');
            storage.around = (name, run) => (name === 'session.commit' ? happens(run) : run());
            const result = await soon(impatient(() => session.prompt('Hello')), 'the turn', 20_000);
            same([result.outcome, result.saved], ['success', false], what);
            gaveUp(result.saveError);
            ok(session.state.hasPendingSave, what);
            const counts = [model.calls, looked.runs];
            // Some of it is on its way still, and may come in any order.
            storage.around = (name, run) => run();
            await session.flush();
            await pause(500);
            await session.setTitle('Afterwards');
            same([session.state.hasPendingSave, model.calls, looked.runs], [false, ...counts], what);
            const other = await open(storage.inner);
            const stored = await other.openSession('s');
            same(await said(stored), ['user', 'assistant', 'toolResult', 'assistant'], what);
            same([stored.state.title, stored.state.outcome, stored.getSystemPromptCheckpoints().length], ['Afterwards', 'success', 1], what);
            // The session's own commit and five of the turn.
            same((await storage.inner.session('s').load()).counters.conversation, 6, what);
            await Promise.all([runtime.close(), other.close()]);
        }
    },

    async 'who stops a turn does not wait for storage'() {
        for (const by of ['abort', 'signal']) {
            const storage = adapter();
            const runtime = await open(storage);
            const session = await runtime.createSession({ id: 's', cwd: '/w' });
            storage.around = hangs('session.commit');
            const controller = new AbortController();
            const prompt = session.prompt('Hello', { signal: controller.signal });
            await pause(1_200);
            const began = Date.now();
            if (by === 'abort') await soon(session.abort(), 'the abort');
            else controller.abort();
            const result = await soon(prompt, 'the turn');
            ok(Date.now() - began < 900, `it waited for ${Date.now() - began} ms`);
            same([result.outcome, result.saved, session.state.isRunning, session.state.hasPendingSave], ['cancelled', false, false, true], by);
            gaveUp(result.saveError);
            await fails(() => soon(session.dispose(), 'letting go'), 'pending_save');
            await fails(() => soon(runtime.close(), 'the end'), 'pending_save');
            storage.around = (name, run) => run();
            await session.flush();
            same(await said(session), ['user'], by);
            await runtime.close();
        }
    },

    async 'who lets go of a session that is being saved is told that it could not be'() {
        const storage = adapter();
        const runtime = await open(storage);
        const session = await runtime.createSession({ id: 's', cwd: '/w' });
        storage.around = hangs('session.commit');
        await impatient(async () => {
            const titled = outcome(() => session.setTitle('T'));
            await fails(() => soon(session.dispose(), 'letting go'), 'pending_save');
            await fails(() => soon(runtime.close(), 'the end'), 'pending_save');
            gaveUp((await titled).rejected, 'commit');
            gaveUp(await fails(() => soon(session.flush(), 'another try'), 'storage_failed'), 'commit');
        });
        storage.around = (name, run) => run();
        await session.flush();
        await runtime.close();
        same(new TextDecoder().decode((await storage.inner.session('s').load()).settings.title), '"T"');
    },

    async 'a question whose answer cannot be stored is not answered, and can be answered again'() {
        const storage = adapter();
        const runtime = await open(storage);
        const session = await runtime.createSession({ id: 's', cwd: '/w' });
        await runtime.permissions.addRule({ tool_pattern: 'look', action: 'require', priority: 1 });
        const turn = await session.begin('Hello');
        await turn.request();
        await turn.dispatched();
        await turn.append(calling(['c1', 'look']));
        const { requestId } = await turn.gate(call);
        storage.around = hangs('session.commit');
        const answered = await soon(impatient(() => outcome(() => runtime.approvals.resolve(requestId, { action: 'approve' }))), 'the answer');
        gaveUp(answered.rejected, 'commit');
        const waiting = turn.approval(requestId);
        storage.around = (name, run) => run();
        same((await runtime.approvals.resolve(requestId, { action: 'approve' })).outcome, 'approved');
        // What is claimed, and stopped while that is on its way, does not run.
        storage.around = hangs('session.commit');
        await pause(1_200);
        await soon(session.abort(), 'the abort');
        same((await soon(waiting, 'the claim')).outcome, 'cancelled');
        storage.around = (name, run) => run();
        await session.flush();
        same(await said(session), ['user', 'assistant', 'toolResult']);
        await runtime.close();
    },
};
