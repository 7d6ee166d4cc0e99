// Whole sessions on PostgreSQL, by processes that know nothing of each other but what is stored.

import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { postgresServer } from '../support/postgres.mjs';
import { installed } from '../support/project.mjs';

const file = fileURLToPath(new URL('../support/postgres_process.mjs', import.meta.url));

/** What processes get of the installed package. */
const PARTS = `
export * as rc from 'runcontext';
export { migratePostgres, postgresStorage } from 'runcontext/storage/postgres';
`;

let project, server, pool, parts;
const children = new Set();
before(async () => {
    project = await installed({ 'parts.mjs': PARTS });
    parts = pathToFileURL(path.join(project.folder, 'parts.mjs')).href;
    server = await postgresServer();
    pool = server.pool();
    const { migratePostgres } = await import(parts);
    await migratePostgres({ pool, partitions: 2 });
});
after(async () => {
    for (const child of children) child.kill('SIGKILL');
    await server?.close();
    await project?.remove();
});

/** Another process. `run` runs a function there, on a scope that stays, and gives what it gives. */
async function another() {
    const child = fork(file, [parts, JSON.stringify(server.connection)]);
    children.add(child);
    child.once('exit', () => children.delete(child));
    const [{ ready }] = await once(child, 'message');
    assert.ok(ready);
    return {
        async run(work, argument) {
            child.send({ source: String(work), argument });
            const [{ gave, threw }] = await once(child, 'message');
            if (threw !== undefined) throw new Error(threw);
            return JSON.parse(gave);
        },
        async kill() {
            child.kill('SIGKILL');
            await once(child, 'exit');
        },
    };
}

/** Opens a runtime in a process, with a model that has so many answers, and a tool that may be asked about. */
const opened = async (scope, answers) => {
    const { rc, kit } = scope;
    scope.model = kit.scripted(...answers.map((answer) => (typeof answer === 'string' ? kit.assistant(answer) : kit.calling(answer))));
    scope.tools = [kit.tool('note', ({ text }) => `noted ${text}`, { access: undefined })];
    scope.runtime = await rc.Runtime.open({ storage: scope.storage, model: scope.model, tools: scope.tools });
    return scope.runtime.storageInfo;
};
const texts = async (scope, id) => {
    const session = await scope.runtime.openSession(id);
    const found = session.messages.map(({ role, content }) => [role, typeof content === 'string' ? content : content.map(({ type, text, name }) => text ?? `${type} ${name}`).join()]);
    await session.dispose();
    return found;
};

test('a session lives in one process, waits for its person, and goes on in another after the first was killed', async () => {
    const one = await another();
    assert.deepEqual(await one.run(opened, [['c1', 'note', { text: 'a\0b' }], 'Noted.']), { kind: 'postgres', persistent: true });
    await one.run(async (scope) => {
        scope.session = await scope.runtime.createSession({ id: 'whole', cwd: '/w\0\u{1f600}' });
        const asked = new Promise((resolve) => scope.session.subscribe((event) => event.type === 'approval-requested' && resolve()));
        scope.turn = scope.session.prompt('Note it, \ud800\0.');
        // A turn that ends before is told, and not waited for.
        await Promise.race([asked, scope.turn.then((result) => Promise.reject(new Error(scope.kit.toText(result))))]);
    });

    // Who decides is somewhere else.
    const two = await another();
    await two.run(opened, ['Welcome back.']);
    const waiting = await two.run(async ({ runtime }) => {
        const [approval] = await runtime.approvals.list();
        const result = await runtime.approvals.resolve(approval.requestId, { action: 'approve' });
        return [approval.sessionId, approval.toolName, approval.arguments.text, result.outcome];
    });
    assert.deepEqual(waiting, ['whole', 'note', 'a\0b', 'approved']);
    const ended = await one.run(async (scope) => {
        const { outcome, saved } = await scope.turn;
        await scope.session.setTitle('A note');
        return { outcome, saved, runs: scope.tools[0].runs };
    });
    assert.deepEqual(ended, { outcome: 'success', saved: true, runs: 1 });
    await one.kill();

    const SAID = [
        ['user', 'Note it, \ud800\0.'], ['assistant', 'toolCall note'], ['toolResult', 'noted a\0b'], ['assistant', 'Noted.'],
    ];
    assert.deepEqual(await two.run(texts, 'whole'), SAID);
    const listed = await two.run(async ({ runtime }) => {
        const found = await runtime.listSessions({ cwd: '/w\0\u{1f600}' });
        return found.map(({ id, title, messageCount }) => [id, title, messageCount]);
    });
    assert.deepEqual(listed, [['whole', 'A note', 4]]);
    const next = await two.run(async (scope) => {
        const session = await scope.runtime.openSession('whole');
        const { outcome, saved } = await session.prompt('Go on');
        await session.dispose();
        return [session.interrupted, outcome, saved];
    });
    assert.deepEqual(next, [{ $: 'undefined' }, 'success', true]);
    assert.deepEqual(await two.run(texts, 'whole'), [...SAID, ['user', 'Go on'], ['assistant', 'Welcome back.']]);

    const left = await two.run(async ({ runtime }) => {
        await runtime.deleteSession('whole');
        return [await runtime.listSessions(), await runtime.approvals.list()];
    });
    assert.deepEqual(left, [[], []]);
    for (const table of ['sessions', 'messages', 'records', 'operations', 'entries', 'entry_values']) {
        const { rows } = await pool.query(`SELECT * FROM runcontext.${table}`);
        assert.deepEqual(rows, [], table);
    }
    await two.kill();
});

test('two processes run a turn on one session: one commits, the other forks, and neither is renumbered', async () => {
    const processes = [await another(), await another()];
    for (const one of processes) await one.run(opened, ['heard']);
    await processes[0].run(async (scope) => {
        scope.session = await scope.runtime.createSession({ id: 'both' });
        await scope.session.prompt('before');
    });
    await processes[1].run(async (scope) => {
        scope.session = await scope.runtime.openSession('both');
    });
    const begin = async (scope, text) => {
        scope.turn = await scope.session.begin(text);
        await scope.turn.request();
    };
    const end = async (scope, text) => {
        await scope.turn.dispatched();
        await scope.turn.append(scope.kit.assistant(`to ${text}`));
        const { saved, saveError } = await scope.turn.finish();
        if (saved) return { saved };
        const { forked } = await scope.session.reload({ pending: 'fork' });
        return { code: saveError.code, forked };
    };
    await Promise.all(processes.map((one, at) => one.run(begin, `from ${at}`)));
    const told = await Promise.all(processes.map((one, at) => one.run(end, `from ${at}`)));
    const won = told.findIndex(({ saved }) => saved);
    const lost = 1 - won;
    assert.deepEqual(told[won], { saved: true });
    assert.equal(told[lost].code, 'conflict');
    const BEFORE = [['user', 'before'], ['assistant', 'heard']];
    const turn = (from) => [['user', `from ${from}`], ['assistant', `to from ${from}`]];
    assert.deepEqual(await processes[won].run(texts, told[lost].forked), [...BEFORE, ...turn(lost)]);
    for (const one of processes) {
        await one.run((scope) => scope.session.dispose());
        assert.deepEqual(await one.run(texts, 'both'), [...BEFORE, ...turn(won)]);
        await one.kill();
    }
});

test('a rule that another process adds decides the very next call of a live session', async () => {
    const [one, two] = [await another(), await another()];
    for (const each of [one, two]) await each.run(opened, ['heard']);
    await two.run(({ runtime }) => runtime.permissions.addRule({ tool_pattern: 'note', action: 'allow' }));
    await one.run(async (scope) => {
        scope.session = await scope.runtime.createSession({ id: 'gated', permissionPreset: null });
        scope.turn = await scope.session.begin('Go');
        await scope.turn.request();
        await scope.turn.dispatched();
        await scope.turn.append(scope.kit.calling(['c1', 'note', { text: 'a' }], ['c2', 'note', { text: 'b' }]));
    });
    const gate = async ({ turn }, at) => {
        const { outcome, reason } = await turn.gate(turn.openCalls[at]);
        return { outcome, reason };
    };
    assert.deepEqual(await one.run(gate, 0), { outcome: 'allow', reason: 'rule' });
    await two.run(({ runtime }) => runtime.permissions.addRule({ tool_pattern: 'note', action: 'deny', priority: 1 }));
    assert.deepEqual(await one.run(gate, 1), { outcome: 'deny', reason: 'rule' });
    await one.kill();
    await two.kill();
});
