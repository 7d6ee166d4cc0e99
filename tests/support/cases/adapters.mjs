// Storage that the host supplies: a life on it, everything that an adapter can do wrong, and what is stored to the last bit.

import { faultOf, fails, ok, same, soon } from './check.mjs';
import { assistant, calling, clock, deferred, outcome, rc, scripted, skillFile, tool } from './kit.mjs';

const SUCCESS = Object.freeze({ outcome: 'success', saved: true });
const METHODS = {
    session: ['counters', 'load', 'readMessages', 'commit', 'delete'],
    shared: ['policyVersion', 'get', 'list', 'write'],
    directory: ['put', 'remove', 'list'],
};

/** The same adapter, with every method going through `around(name, args, run)`. */
function through(adapter, around) {
    const part = (name, target) => Object.fromEntries(
        METHODS[name].map((method) => [method, (...args) => around(`${name}.${method}`, args, () => target[method](...args))]),
    );
    return {
        kind: 'wrapped', persistent: true,
        session: (id) => part('session', adapter.session(id)),
        shared: part('shared', adapter.shared),
        directory: part('directory', adapter.directory),
    };
}

const coded = (code, more) => Object.assign(new Error(`The ${code} of an adapter.`), { code, ...more });
const open = (storage, more) => rc.Runtime.open({ storage, model: scripted(assistant('Done.')), now: clock(), ...more });
const bodies = async (session) => JSON.stringify(await session.readMessages({ limit: 100 }));
const listed = async (runtime, filter) => (await runtime.listSessions(filter)).map(({ id }) => id);
const text = (value) => new TextDecoder().decode(value);
const bytes = (value) => new TextEncoder().encode(value);

const entries = async (adapter, kind = 'session') => (await adapter.directory.list({ kind, limit: 500 })).map(({ id }) => id);

/** A session in which a person is asked about a call. */
async function asking(runtime, id) {
    const session = await runtime.createSession({ id, cwd: '/w' });
    const turn = await session.begin('Hello');
    await turn.request();
    await turn.dispatched();
    await turn.append(calling(['c', 'write_file', { path: 'a' }]));
    return turn.gate({ toolCallId: 'c', toolName: 'write_file', arguments: { path: 'a' } });
}

/** What is handed out, with bytes told apart. */
const exact = (value) => JSON.stringify(value, (_, inner) => (inner instanceof Uint8Array ? [...inner] : Object.is(inner, -0) ? '-0' : inner));

/** Everything that one session does: the texts of what was said, and what others saw of it. */
async function life(storage) {
    const write = tool('write_file', () => 'written', { access: undefined, paths: [{ argument: '/path', access: 'write' }] });
    const host = { cwd: '/w', resolvePaths: (base, paths) => paths.map((path) => ({ canonical: path.startsWith('/') ? path : `${base}/${path}` })) };
    const model = scripted(calling(['c1', 'write_file', { path: 'a.txt' }]), assistant('Written.'), assistant('Bye.'));
    const now = clock();
    const more = { model, tools: [write], host, now };
    const runtime = await open(storage, more);
    await runtime.skills.add({ content: skillFile('demo', 'Do.'), location: '/d/SKILL.md' });
    await runtime.permissions.createGroup({ id: 'g', name: 'G' });
    const rule = await runtime.permissions.addRule({ tool_pattern: 'write_file', action: 'require', group_id: 'g' });
    const session = await runtime.createSession({ id: 's', cwd: '/w', runContext: { security_group: 'g' } });
    const asked = new Promise((resolve) => session.subscribe((event) => event.type === 'approval-requested' && resolve(event.requestId)));
    const prompted = session.prompt('Write it, $demo');
    const requestId = await soon(asked, 'the question');

    const other = await open(storage, more);
    const pending = (await other.approvals.list()).map((approval) => [approval.requestId === requestId, approval.sessionId, approval.toolName]);
    const answer = await other.approvals.resolve(requestId, { action: 'approve' });
    const result = await prompted;
    await session.setTitle('Notes');
    await runtime.permissions.updateRule(rule, { action: 'deny' });
    await session.reload();
    await session.dispose();
    await runtime.close();

    const again = await other.openSession('s');
    await again.reload();
    const told = {
        pending, answer: answer.outcome, result, runs: write.runs, left: (await other.approvals.list()).length,
        said: again.messages.map(({ role, content }) => [role, typeof content === 'string' ? content : content.map((block) => block.text ?? block.name).join()]),
        skills: again.getRuntimeContexts().map(({ skills }) => skills.map(({ name }) => name)),
        sections: again.getSystemPromptCheckpoints().length, title: again.state.title, outcome: again.state.outcome,
        listed: (await other.listSessions()).map(({ id, title, messageCount, cwd }) => [id, title, messageCount, cwd]),
        kept: other.skills.list().map(({ name }) => name),
        decided: (await again.explain({ toolCallId: 'x', toolName: 'write_file', arguments: { path: 'b' } })).outcome,
    };
    await other.deleteSession('s');
    told.gone = [await listed(other), (await outcome(() => other.openSession('s'))).rejected?.code];
    await other.close();
    return told;
}

const LIFE = {
    pending: [[true, 's', 'write_file']], answer: 'approved', result: SUCCESS, runs: 1, left: 0,
    said: [['user', 'Write it, $demo'], ['assistant', 'write_file'], ['toolResult', 'written'], ['assistant', 'Written.']],
    skills: [['demo']], sections: 1, title: 'Notes', outcome: 'success', listed: [['s', 'Notes', 4, '/w']], kept: ['demo'], decided: 'deny',
    gone: [[], 'not_found'],
};

export const cases = {
    async 'a whole life is the same on an adapter, on one that is wrapped, and on one with methods of a class'() {
        class Wrapped {
            #inner = rc.memoryStorage();
            kind = 'mine';
            persistent = false;
            shared = this.#inner.shared;
            get directory() {
                return this.#inner.directory;
            }
            session(id) {
                return this.#inner.session(id);
            }
        }
        const inner = rc.memoryStorage();
        const spread = { ...inner, session: (id) => ({ ...inner.session(id) }) };
        for (const storage of [rc.memoryStorage(), spread, through(rc.memoryStorage(), (name, args, run) => run()), new Wrapped()]) {
            same(await life(storage), LIFE);
        }
    },

    async 'storageInfo says what the adapter says'() {
        const runtime = await open(through(rc.memoryStorage(), (name, args, run) => run()));
        same({ ...runtime.storageInfo }, { kind: 'wrapped', persistent: true });
        await runtime.close();
        const memory = await open('memory');
        same({ ...memory.storageInfo }, { kind: 'memory', persistent: false });
        await memory.close();
    },

    async 'half an adapter is refused by the name of what is missing, before anything is called'() {
        const called = [];
        const whole = () => through(rc.memoryStorage(), (name, args, run) => (called.push(name), run()));
        for (const part of ['session', 'shared', 'directory', 'kind', 'persistent']) {
            for (const wrong of [undefined, null, 5n]) {
                const error = await fails(() => open({ ...whole(), [part]: wrong }), 'invalid_argument');
                same(error.data.field, `options.storage.${part}`);
            }
        }
        for (const part of ['shared', 'directory']) {
            for (const method of METHODS[part]) {
                const adapter = whole();
                const error = await fails(() => open({ ...adapter, [part]: { ...adapter[part], [method]: 'text' } }), 'invalid_argument');
                same(error.data.field, `options.storage.${part}.${method}`);
            }
        }
        const error = await fails(() => open({ kind: 'disk' }), 'invalid_argument');
        ok(/StorageAdapter/.test(error.message), error.message);
        same(called, []);
    },

    async 'a session without its methods, or that cannot be had, is a storage that failed'() {
        for (const session of [() => undefined, () => ({}), () => { throw new Error('No.'); }, async () => ({}), () => ({ commit: 5 })]) {
            const runtime = await open({ ...rc.memoryStorage(), session });
            const error = await fails(() => runtime.createSession(), 'storage_failed');
            ok(/`memory` failed in `\w+`/.test(error.message), error.message);
            await runtime.close();
        }
    },

    async 'values come back as they were, to the last bit, in the messages of another runtime'() {
        const awkward = {
            role: 'user', content: 'half \ud83d, \udc00 half, \u0000, \u{1f980}, \uffff, \u2028', ['\ud83d']: 'a name', ['\u0000']: 0,
            numbers: [0.1, -0, 5e-324, 1.7976931348623157e308, 2 ** 53 + 2, -1, 0], minus: -0,
            bytes: new Uint8Array([0, 1, 127, 128, 255]), none: new Uint8Array(), list: [new Uint8Array([7]), [[-0]]],
            tags: [{ $: 1 }, { $: '-0' }, { $: { bytes: 'AA==' } }, { $: { object: { $: null } } }, { $: -0, more: 1 }, { $: { $: { $: new Uint8Array([1]) } } }, { $: [] }],
            z: 1, a: 2, 10: 3, 9: 4, toJSON: 'text', constructor: {}, nothing: null, empty: [{}, [], ''], timestamp: 5,
        };
        Object.defineProperty(awkward, '__proto__', { value: { polluted: [-0] }, enumerable: true });
        const storage = rc.memoryStorage();
        const runtime = await open(storage, { model: scripted({ ...awkward, role: 'assistant', content: [{ type: 'text', text: '\udfff' }] }) });
        const session = await runtime.createSession({ id: 's' });
        same(await session.prompt(awkward), SUCCESS);
        const other = await open(storage);
        const [typed, answered] = (await other.openSession('s')).messages;
        const [first, second] = session.messages;
        for (const [stored, shown] of [[typed, first], [answered, second]]) {
            same(stored, shown);
            same(exact(stored), exact(shown));
            ok(Object.isFrozen(stored) && Object.isFrozen(stored.tags[1]) && Object.isFrozen(stored.list), 'what is stored is frozen');
        }
        same(exact(typed), exact(awkward));
        await runtime.close();
        await other.close();
    },

    async 'what is stored is JSON text, with two kinds of tags for what JSON lacks'() {
        const storage = rc.memoryStorage();
        const runtime = await open(storage);
        const session = await runtime.createSession({ id: 's', cwd: '/w' });
        await session.prompt({ role: 'user', content: '\ud800', timestamp: -0, data: new Uint8Array([1, 2]), odd: { $: true } });
        const [message] = await storage.session('s').readMessages({ from: 0, to: 1 });
        same(text(message), '{"role":"user","content":"\\ud800","timestamp":{"$":"-0"},"data":{"$":{"bytes":"AQI="}},"odd":{"$":{"object":{"$":true}}}}');
        const stored = await storage.session('s').load();
        same(text(stored.header), '{"cwd":"/w","createdAt":1000}');
        same([text(stored.settings.dialect), 'origin' in stored.settings, stored.messageCount], ['"loop"', false, 2]);
        await runtime.close();
    },

    async 'a message of 20 MB of bytes, and one of 20 MB of text, are stored and read'() {
        const data = new Uint8Array(20 * 1024 * 1024).map((_, at) => at * 7919);
        const content = '\u{1f980}x\ud800'.repeat(5 * 1024 * 1024);
        const storage = rc.memoryStorage();
        const runtime = await open(storage);
        const session = await runtime.createSession({ id: 's' });
        same(await session.prompt({ role: 'user', content: 'x', data }), SUCCESS);
        same(await session.prompt(content), SUCCESS);
        const other = await open(storage);
        const opened = await other.openSession('s');
        const stored = opened.messages[0].data;
        ok(stored.length === data.length && stored.every((byte, at) => byte === data[at]), 'the bytes differ');
        ok(opened.messages[2].content === content, 'the text differs');
        await runtime.close();
        await other.close();
    },

    async 'the code of an error is taken over, with the numbers of a quota, and what else it says is the cause'() {
        let failure;
        const storage = through(rc.memoryStorage(), (name, args, run) => {
            if (name === 'session.commit' && failure) throw failure;
            return run();
        });
        const runtime = await open(storage);
        const session = await runtime.createSession({ id: 's' });
        const thrown = [
            [coded('storage_quota', { usage: 90, quota: 100 }), 'storage_quota', { usage: 90, quota: 100 }],
            [coded('storage_quota', { usage: '90', quota: {} }), 'storage_quota', {}],
            [coded('storage_lost'), 'storage_lost', {}],
            [coded('storage_blocked'), 'storage_blocked', {}],
            [coded('storage_schema_newer'), 'storage_schema_newer', {}],
            [coded('not_found'), 'not_found'],
            [coded('conflict'), 'storage_failed', {}],
            [coded('23505'), 'storage_failed', {}],
            [coded({ toString: () => 'storage_quota' }), 'storage_failed', {}],
            [new Error(''), 'storage_failed', {}],
            ['a text', 'storage_failed', {}],
            [{ get code() { throw new Error('no'); } }, 'storage_failed', {}],
            [Object.create(null), 'storage_failed', {}],
        ];
        for (const [error, code, data] of thrown) {
            failure = error;
            const rejected = await fails(() => session.setTitle('x'), code);
            if (data) {
                const { cause, ...more } = rejected.data;
                same([typeof cause, more], ['string', data]);
            }
            same(session.state.hasPendingSave, true);
            failure = undefined;
            await session.flush();
        }
        await runtime.close();
    },

    async 'a lost connection is tried once more, a commit is then applied once, and a write of rules is not repeated'() {
        const calls = [];
        let losing;
        const storage = through(rc.memoryStorage(), async (name, args, run) => {
            calls.push(name);
            if (name !== losing) return run();
            losing = undefined;
            if (name !== 'shared.list') await run();
            throw coded('storage_lost');
        });
        const runtime = await open(storage);
        const session = await runtime.createSession({ id: 's' });
        for (const name of ['session.commit', 'session.counters', 'directory.put', 'session.readMessages', 'shared.list']) {
            losing = name;
            same(await session.prompt('Hi'), SUCCESS, name);
            await session.explain({ toolCallId: 'c', toolName: 't', arguments: {} });
            const other = await open(storage);
            await other.openSession('s');
            same(losing, undefined, `${name} was not called`);
            await other.close();
        }
        same([session.state.messageCount, (await storage.session('s').load()).messageCount], [10, 10]);
        losing = 'shared.write';
        calls.length = 0;
        await fails(() => runtime.permissions.createGroup({ id: 'g', name: 'G' }), 'storage_lost');
        same(calls.filter((name) => name === 'shared.write').length, 1);
        await runtime.close();
    },

    async 'a commit that is applied while its answer is lost is pending, and saved once'() {
        let losing = false;
        const storage = through(rc.memoryStorage(), async (name, args, run) => {
            const answer = await run();
            if (name === 'session.commit' && losing) throw new Error('Reset by peer.');
            return answer;
        });
        const runtime = await open(storage);
        const session = await runtime.createSession({ id: 's' });
        losing = true;
        const result = await session.prompt('Hi');
        same([result.saved, result.saveError.code, session.state.hasPendingSave], [false, 'storage_failed', true]);
        losing = false;
        await session.flush();
        same(session.state.hasPendingSave, false);
        const other = await open(storage);
        same(await bodies(await other.openSession('s')), await bodies(session));
        await runtime.close();
        await other.close();
    },

    async 'a second runtime that writes first is a conflict, and the turn can be forked or discarded'() {
        const storage = rc.memoryStorage();
        const [one, two] = [await open(storage), await open(storage)];
        const first = await one.createSession({ id: 's', cwd: '/w' });
        await first.prompt('Before');
        const second = await two.openSession('s');
        same(await second.prompt('Theirs'), SUCCESS);
        const result = await first.prompt('Mine');
        same([result.outcome, result.saved, result.saveError.code], ['error', false, 'conflict']);
        const { forked } = await first.reload({ pending: 'fork' });
        same(await bodies(first), await bodies(second));
        const fork = await one.openSession(forked);
        same(fork.messages.filter(({ role }) => role === 'user').map(({ content }) => content), ['Before', 'Mine']);
        same((await listed(two)).sort(), ['s', forked].sort());
        await second.prompt('Again');
        same((await first.prompt('Lost')).saveError.code, 'conflict');
        same(await first.reload({ pending: 'discard' }), {});
        same(await bodies(first), await bodies(second));
        same((await listed(one)).sort(), ['s', forked].sort());
        await fails(() => two.createSession({ id: 's' }), 'conflict');
        const kept = (await two.listSessions({ cwd: '/w' })).find(({ id }) => id === 's');
        same(kept.messageCount, 6);
        await one.close();
        await two.close();
    },

    async 'settings of a second runtime and a turn of the first go together, and the list tells both'() {
        const storage = rc.memoryStorage();
        const [one, two] = [await open(storage), await open(storage)];
        const first = await one.createSession({ id: 's' });
        const second = await two.openSession('s');
        await second.setTitle('Theirs');
        same(await first.prompt('Hi'), SUCCESS);
        same((await two.listSessions()).map(({ title, messageCount }) => [title, messageCount]), [['Theirs', 2]]);
        await one.close();
        await two.close();
    },

    async 'a session is listed before it is stored; where it never is, no list shows it, and its id is free'() {
        for (const how of ['throws', 'dies']) {
            const inner = rc.memoryStorage();
            const never = deferred();
            let failing = true;
            const storage = through(inner, (name, args, run) => {
                if (name === 'session.commit' && failing) return how === 'dies' ? never.promise : Promise.reject(new Error('No.'));
                return run();
            });
            const runtime = await open(storage);
            const created = outcome(() => runtime.createSession({ id: 's', cwd: '/w' }));
            if (how === 'throws') same((await created).rejected.code, 'storage_failed');
            else await soon((async () => { while ((await inner.directory.list({ kind: 'session', limit: 1 })).length === 0) await 0; })(), 'the entry');
            const other = await open(inner);
            same([await listed(other), await listed(other, { cwd: '/w' })], [[], []]);
            await fails(() => other.openSession('s'), 'not_found');
            // It may still be stored: whoever looks takes nothing away.
            same((await entries(inner)).length, 1);
            failing = false;
            await other.createSession({ id: 's' });
            same([await listed(other), await entries(inner)], [['s'], ['s']]);
            await other.close();
        }
    },

    async 'a session whose maker dies after its commit is listed at last, also where the first look at it fails'() {
        const inner = rc.memoryStorage();
        let isDead = false, failing = true;
        const dying = through(inner, async (name, args, run) => {
            if (isDead) return new Promise(() => {});
            const answer = await run();
            isDead = name === 'session.commit';
            return answer;
        });
        (await open(dying)).createSession({ id: 's', cwd: '/w' });
        await soon((async () => { while (!isDead) await new Promise((resolve) => setTimeout(resolve)); })(), 'the commit');
        const runtime = await open(through(inner, (name, args, run) => (name === 'session.load' && failing ? Promise.reject(new Error('No.')) : run())));
        await fails(() => runtime.listSessions(), 'storage_failed');
        failing = false;
        same((await runtime.listSessions({ cwd: '/w' })).map(({ id, updatedAt }) => [id, updatedAt]), [['s', Number((await inner.session('s').load()).updatedAt)]]);
        same(await entries(inner), ['s']);
        await runtime.close();
    },

    async 'who wants to create a session that exists changes nothing in the list, also where it fails or dies'() {
        for (const method of ['session.load', 'session.commit', 'directory.put', 'directory.remove']) {
            const inner = rc.memoryStorage();
            const runtime = await open(inner);
            await runtime.createSession({ id: 's', cwd: '/w' });
            const before = JSON.stringify(await inner.directory.list({ kind: 'session', limit: 1, cwd: '/w' }));
            let calls = 0;
            const hangs = through(inner, (name, args, run) => (name === method && (calls++, true) ? new Promise(() => {}) : run()));
            const late = await open(hangs, { now: () => 9000 });
            outcome(() => late.createSession({ id: 's', cwd: '/other' }));
            await soon((async () => { while (calls === 0) await new Promise((resolve) => setTimeout(resolve)); })(), method);
            same(JSON.stringify(await inner.directory.list({ kind: 'session', limit: 1, cwd: '/w' })), before, method);
            same([await listed(runtime, { cwd: '/other' }), await listed(runtime), await listed(runtime, { cwd: '/w' })], [[], ['s'], ['s']], method);
            same((await runtime.continueRecent('/w')).id, 's', method);
            await runtime.close();
        }
    },

    async 'an entry put in advance that leads nowhere leaves the list after an hour, and the session that is stored just then is listed'() {
        const inner = rc.memoryStorage();
        let commit, now = 1000;
        const late = through(inner, (name, args, run) => (name === 'session.commit' ? new Promise(() => { commit = run; }) : run()));
        const before = await open(late, { now: () => 1000 });
        outcome(() => before.createSession({ id: 's', cwd: '/w' }));
        await soon((async () => { while (!commit) await new Promise((resolve) => setTimeout(resolve)); })(), 'the commit');
        const between = through(inner, async (name, args, run) => {
            if (name === 'directory.remove' && args[0] === 's//late') await commit();
            return run();
        });
        const runtime = await open(between, { now: () => now });
        now += 3_600_000;
        same([await listed(runtime), (await entries(inner)).length], [[], 1]);
        now += 1;
        same([await listed(runtime), await entries(inner)], [[], []]);
        await inner.directory.put({ kind: 'session', id: 's//late', sessionId: 's', cwd: '', updatedAt: 1000, value: bytes('false') });
        same([await listed(runtime), await entries(inner)], [['s'], ['s']]);
        await runtime.close();
    },

    async 'after the clock was set back the list says what is stored, and time stands still'() {
        const storage = rc.memoryStorage();
        let now = 2000;
        const runtime = await open(storage, { now: () => now });
        const session = await runtime.createSession({ id: 's' });
        await session.setTitle('First');
        now = 1000;
        await session.setTitle('Second');
        same((await runtime.listSessions()).map(({ title, updatedAt }) => [title, updatedAt]), [['Second', 2000]]);
        same((await storage.session('s').load()).updatedAt, 2000);
        await runtime.close();
    },

    async 'a list that never answers keeps no commit from being saved, and a runtime from being closed'() {
        const inner = rc.memoryStorage();
        let isHanging = false;
        const storage = through(inner, (name, args, run) => (isHanging && name.startsWith('directory.') ? new Promise(() => {}) : run()));
        const runtime = await open(storage);
        const session = await runtime.createSession({ id: 's' });
        isHanging = true;
        same((await soon(session.prompt('Hi'), 'the end of the turn')).saved, true);
        await soon(session.setTitle('T'), 'the title');
        await soon(runtime.close(), 'the end');
        same(text((await inner.session('s').load()).settings.title), '"T"');
    },

    async 'a delete whose answer is lost is not made again: the id may be another session\'s by then'() {
        const inner = rc.memoryStorage();
        const other = await open(inner);
        await (await other.createSession({ id: 's' })).dispose();
        let deletes = 0;
        const runtime = await open(through(inner, async (name, args, run) => {
            const answer = await run();
            if (name !== 'session.delete') return answer;
            deletes += 1;
            await other.createSession({ id: 's', cwd: '/anew' });
            throw coded('storage_lost');
        }));
        await fails(() => runtime.deleteSession('s'), 'storage_lost');
        same([deletes, await listed(other, { cwd: '/anew' })], [1, ['s']]);
        await runtime.close();
        await other.close();
    },

    async 'a page of a list is whole also where entries of sessions that were never stored stand in it'() {
        const inner = rc.memoryStorage();
        const runtime = await open(inner);
        for (const id of ['a', 'b', 'c']) await runtime.createSession({ id });
        for (let at = 0; at < 7; at++) {
            await inner.directory.put({ kind: 'session', id: `ghost-${at}`, sessionId: `ghost-${at}`, cwd: '', updatedAt: 5000 + at, value: bytes('false') });
        }
        same(await listed(runtime, { limit: 2 }), ['c', 'b']);
        const [last] = (await runtime.listSessions({ limit: 2 })).slice(-1);
        same(await listed(runtime, { limit: 2, before: last.cursor }), ['a']);
        await runtime.close();
    },

    async 'a list that cannot be written before a commit fails it, and after it fails nothing'() {
        const inner = rc.memoryStorage();
        let refusing = () => false;
        const storage = through(inner, (name, args, run) => (refusing(name, args) ? Promise.reject(new Error('No.')) : run()));
        const runtime = await open(storage);
        refusing = (name) => name === 'directory.put';
        await fails(() => runtime.createSession({ id: 'never' }), 'storage_failed');
        same(await inner.session('never').counters(), undefined);
        refusing = () => false;
        const session = await runtime.createSession({ id: 's' });
        refusing = (name) => name.startsWith('directory.');
        same(await session.prompt('Hi'), SUCCESS);
        refusing = () => false;
        same((await runtime.listSessions()).map(({ messageCount }) => messageCount), [0]);
        const other = await open(inner);
        await other.openSession('s');
        same((await runtime.listSessions()).map(({ messageCount }) => messageCount), [2]);
        refusing = (name) => name.startsWith('directory.');
        await runtime.deleteSession('s');
        refusing = () => false;
        same(await inner.session('s').counters(), undefined);
        await fails(() => runtime.deleteSession('s'), 'not_found');
        same(await listed(runtime), []);
        await runtime.close();
        await other.close();
    },

    async 'an entry of an approval that is not there leaves the list after an hour, and one of a session that is gone'() {
        const inner = rc.memoryStorage();
        let now = 3_600_001;
        const runtime = await open(inner, { now: () => now });
        await runtime.createSession({ id: 's' });
        for (const id of ['s/r', 'gone/r']) {
            await inner.directory.put({ kind: 'approval', id, sessionId: id.split('/')[0], cwd: '', updatedAt: 1, value: bytes('null') });
        }
        same([(await runtime.approvals.list()).length, (await entries(inner, 'approval')).length], [0, 2]);
        now += 1;
        same([(await runtime.approvals.list()).length, await entries(inner, 'approval')], [0, []]);
        await runtime.close();
    },

    async 'a session that is deleted while it is opened is not found, and one that is made again is opened as it is'() {
        for (const again of [false, true]) {
            const inner = rc.memoryStorage();
            const other = await open(inner);
            await (await other.createSession({ id: 's' })).prompt('Hi');
            let meanwhile = async () => {
                meanwhile = undefined;
                await other.deleteSession('s');
                if (again) await (await other.createSession({ id: 's' })).setTitle('New');
            };
            const runtime = await open(through(inner, async (name, args, run) => {
                if (name === 'session.readMessages') await meanwhile?.();
                return run();
            }));
            const found = await outcome(() => runtime.openSession('s'));
            same(meanwhile, undefined, 'nothing was read');
            if (again) same([found.gave.state.title, found.gave.state.messageCount], ['New', 0]);
            else same([found.rejected.code, await listed(runtime)], ['not_found', []]);
            await runtime.close();
        }
    },

    async 'calls of a session ask where it was deleted, also where another has its id and its counters'() {
        const memory = rc.memoryStorage();
        // One whose counters do not say which session they are of.
        const silent = rc.memoryStorage();
        const counters = (session) => async () => {
            const found = await session.counters();
            return found && { conversation: found.conversation, settings: found.settings };
        };
        const spread = { ...silent, session: (id) => ({ ...silent.session(id), counters: counters(silent.session(id)) }) };
        for (const storage of [memory, spread]) {
            const [runtime, other] = [await open(storage), await open(storage)];
            await runtime.permissions.addRule({ tool_pattern: 'look', action: 'allow' });
            const session = await runtime.createSession({ id: 's', permissionPreset: 'danger-full-access' });
            const decided = async () => {
                const { outcome, reason } = await session.explain({ toolCallId: 'c', toolName: 'look', arguments: {} });
                return [outcome, reason];
            };
            const before = await storage.session('s').load();
            same(await decided(), ['allow', 'rule']);
            await other.deleteSession('s');
            same(await decided(), ['require', 'policy_unverified']);
            await other.createSession({ id: 's', permissionPreset: 'danger-full-access' });
            const after = await storage.session('s').load();
            same([after.origin === before.origin, after.counters], [false, before.counters]);
            same(await decided(), ['require', 'policy_unverified']);
            await Promise.all([runtime.close(), other.close()]);
        }
    },

    async 'an approval that lost its entry is listed again by whoever opens its session'() {
        const inner = rc.memoryStorage();
        const { requestId } = await asking(await open(inner), 's');
        await inner.directory.remove(`s/${requestId}`);
        const other = await open(inner);
        same((await other.approvals.list()).length, 0);
        await other.openSession('s');
        const third = await open(inner);
        same((await third.approvals.list()).map((approval) => approval.requestId), [requestId]);
        same((await third.approvals.resolve(requestId, { action: 'reject' })).outcome, 'rejected');
    },

    async 'a session that fails hides no approval of another, and an answer asks no session but its own'() {
        const inner = rc.memoryStorage();
        const asked = {};
        for (const id of ['a', 'b', 'c']) asked[id] = (await asking(await open(inner), id)).requestId;
        const loads = [];
        let failing = ['b'];
        const runtime = await open({
            ...inner,
            session: (id) => ({ ...inner.session(id), load: () => (loads.push(id), failing.includes(id) ? Promise.reject(coded('storage_lost')) : inner.session(id).load()) }),
        });
        same((await runtime.approvals.list()).map(({ sessionId }) => sessionId).sort(), ['a', 'c']);
        failing = ['a', 'b', 'c'];
        await fails(() => runtime.approvals.list(), 'storage_lost');
        failing = ['b'];
        loads.length = 0;
        same((await runtime.approvals.resolve(asked.c, { action: 'reject' })).outcome, 'rejected');
        same([...new Set(loads)], ['c']);
        await fails(() => runtime.approvals.resolve('nobody', { action: 'reject' }), 'approval_not_found');
    },

    async 'opening a session loads it once'() {
        const inner = rc.memoryStorage();
        await (await open(inner)).createSession({ id: 's' });
        const calls = [];
        const runtime = await open(through(inner, (name, args, run) => (calls.push(name), run())));
        calls.length = 0;
        await runtime.openSession('s');
        same(calls, ['session.load', 'directory.put']);
        await runtime.close();
    },

    async 'a session whose header or a setting cannot be read is listed as damaged once somebody has looked, and can be deleted'() {
        for (const change of [(stored) => ({ ...stored, header: bytes('{') }), (stored) => ({ ...stored, settings: { title: bytes('') } })]) {
            const inner = rc.memoryStorage();
            const runtime = await open(inner);
            await runtime.createSession({ id: 's', cwd: '/w' });
            await runtime.close();
            let isDamaged = true;
            const other = await open(through(inner, async (name, args, run) => {
                const answer = await run();
                return name === 'session.load' && answer && isDamaged ? change(answer) : answer;
            }));
            await (await other.openSession('s')).dispose();
            same((await other.listSessions()).map(({ id, damaged }) => [id, damaged]), [['s', true]]);
            isDamaged = false;
            await (await other.openSession('s')).dispose();
            same((await other.listSessions({ cwd: '/w' })).map(({ id, damaged }) => [id, damaged]), [['s', undefined]]);
            isDamaged = true;
            await other.deleteSession('s');
            same([await listed(other), await entries(inner)], [[], []]);
            await other.close();
        }
    },

    async 'what cannot be decoded is a damaged session, listed as such, and can be deleted'() {
        const inner = rc.memoryStorage();
        const damage = {};
        const storage = through(inner, async (name, args, run) => {
            const answer = await run();
            return damage[name]?.(answer) ?? answer;
        });
        const runtime = await open(storage);
        await (await runtime.createSession({ id: 's' })).prompt('Hi');
        await runtime.close();
        const junk = [bytes('{'), bytes(''), new Uint8Array([0xff]), bytes('{"$":5}'), bytes('{"$":{"bytes":"!"}}'), bytes('{"$":{"object":{}}}'), 'text', undefined, [1]];
        for (const value of junk) {
            damage['session.readMessages'] = () => [value, value];
            const other = await open(storage);
            const unreadable = await other.openSession('s');
            same(unreadable.state.damage.map(({ store, key }) => [store, key]), [['messages', 0], ['messages', 1]]);
            same(unreadable.messages, [{ role: 'missing' }, { role: 'missing' }]);
            same((await fails(() => unreadable.prompt('On'), 'storage_failed')).data.sessionId, 's');
            await unreadable.dispose();
            delete damage['session.readMessages'];
            for (const [change, ...reported] of [
                [(stored) => ({ ...stored, header: value }), ['chat_sessions', undefined]],
                [(stored) => ({ ...stored, outlines: [value] }), ['message_outlines', 0], ['message_outlines', undefined]],
                [(stored) => ({ ...stored, checkpoints: [value] }), ['system_prompt_checkpoints', 0]],
                [(stored) => ({ ...stored, settings: { ...stored.settings, title: value } }), ['chat_sessions', undefined]],
                [(stored) => ({ ...stored, approvals: [{ id: 'a', version: 1, value }] }), ['approvals', undefined]],
            ]) {
                damage['session.load'] = change;
                const opened = await other.openSession('s');
                same(opened.state.damage.map(({ store, key }) => [store, key]), reported);
                same((await fails(() => opened.prompt('On'), 'storage_failed')).data.sessionId, 's');
                await opened.dispose();
            }
            delete damage['session.load'];
            await (await other.openSession('s')).dispose();
            damage['directory.list'] = (found) => found.map((entry) => ({ ...entry, value }));
            same((await other.listSessions()).map(({ id, damaged }) => [id, damaged]), [['s', true]]);
            delete damage['directory.list'];
            await other.close();
        }
        damage['session.load'] = (stored) => ({ ...stored, header: bytes('5') });
        const other = await open(storage);
        const recent = await other.continueRecent();
        ok(recent.id !== 's', 'one that is damaged is passed over');
        await other.deleteSession('s');
        same(await listed(other), [recent.id]);
        await other.close();
    },

    async 'an entry that is none is left out of the list, which says so, also where it is the last of a page'() {
        const inner = rc.memoryStorage();
        let junk = [];
        const now = clock();
        const runtime = await open(through(inner, async (name, args, run) => {
            const found = await run();
            return name === 'directory.list' && !args[0].before ? [...found.slice(0, args[0].limit - junk.length), ...junk] : found;
        }), { now });
        const told = [];
        runtime.subscribe((event) => {
            if (event.type === 'list-incomplete') told.push([event.error instanceof rc.RunContextError, event.error.code, event.error.data.cause]);
        });
        for (const id of ['a', 'b', 'c', 'd']) await runtime.createSession({ id, cwd: '/w' });
        const { requestId } = await asking(runtime, 'e');
        const [newest] = await inner.directory.list({ kind: 'session', limit: 1 });
        for (const wrong of [{ ...newest, cwd: 5 }, { ...newest, sessionId: {} }, { ...newest, updatedAt: 'now' }, { ...newest, id: undefined }, null, 5]) {
            for (const limit of [2, 10]) {
                [junk, told.length] = [[wrong], 0];
                const found = await runtime.listSessions({ limit });
                ok(found.length > 0 && found.every(({ id }) => 'abcde'.includes(id)), JSON.stringify(found));
                same(new Set(found.map(({ id }) => id)).size, found.length);
                same(told.length, 1, exact(wrong));
                same(told[0].slice(0, 2), [true, 'storage_failed']);
                ok(/`answer(\.(cwd|sessionId|updatedAt|id))?`/.test(told[0][2]), told[0][2]);
            }
            told.length = 0;
            same([(await runtime.approvals.list()).map((approval) => approval.requestId), told.length], [[requestId], 1]);
        }
        junk = [];
        same((await runtime.approvals.resolve(requestId, { action: 'reject' })).outcome, 'rejected');
        same((await listed(runtime)).sort(), ['a', 'b', 'c', 'd', 'e']);
        same(runtime.listenerErrors, []);
        await (await runtime.openSession('e')).abort();
        await runtime.close();
    },

    async 'what the listeners of a runtime throw can be read'() {
        const runtime = await open(rc.memoryStorage());
        runtime.subscribe(() => { throw new Error('Tired.'); });
        runtime.subscribe(async () => { throw new Error('Later.'); });
        await runtime.createSession({ id: 's' });
        await 0;
        same(runtime.listenerErrors.sort(), ['Later.', 'Tired.']);
        await runtime.close();
    },

    async 'a list shows the rest where one session cannot be asked, and says why'() {
        const inner = rc.memoryStorage();
        const runtime = await open(inner);
        await runtime.createSession({ id: 's' });
        await runtime.close();
        await inner.directory.put({ kind: 'session', id: 'lost//1', sessionId: 'lost', cwd: '', updatedAt: 5000, value: bytes('false') });
        const failing = await open({ ...inner, session: (id) => (id === 'lost' ? { ...inner.session(id), load: () => Promise.reject(coded('storage_lost')) } : inner.session(id)) });
        const told = [];
        failing.subscribe((event) => told.push([event.type, event.error.code]));
        same([await listed(failing), told], [['s'], [['list-incomplete', 'storage_lost']]]);
        await failing.close();
    },

    async 'answers that are none are said, with the storage and the method, and are nobody\'s exception'() {
        const garbage = [
            undefined, null, 5, 'text', true, [], {}, [[]], [5], () => {}, 7n, new Proxy({}, { get() { throw new Error('Trap.'); }, ownKeys() { throw new Error('Trap.'); } }),
            { status: 'maybe', counters: { conversation: 0, settings: 0 } }, { status: 'applied', counters: null }, { status: 'applied', counters: { conversation: '1', settings: {} } },
            { policyVersion: -1 }, { policyVersion: 1.5 }, { conflict: 'x' }, { header: 5, outlines: 5 }, new Date(0), new Map(), new Error('x'),
        ];
        const methods = Object.entries(METHODS).flatMap(([part, names]) => names.map((name) => `${part}.${name}`));
        for (const method of methods) {
            for (const [at, answer] of garbage.entries()) {
                let on = false;
                const storage = through(rc.memoryStorage(), (name, args, run) => (on && name === method ? answer : run()));
                const runtime = await open(storage);
                const session = await runtime.createSession({ id: 's' });
                await session.prompt('Hi');
                const other = await open(storage);
                on = true;
                const found = [
                    await outcome(() => open(storage)), await outcome(() => other.openSession('s')), await outcome(() => session.prompt('Hi')),
                    await outcome(() => session.reload()), await outcome(() => runtime.listSessions()), await outcome(() => runtime.approvals.list()),
                    await outcome(() => runtime.permissions.listGroups()), await outcome(() => runtime.permissions.createGroup({ id: 'g', name: 'G' })),
                    await outcome(() => runtime.createSession({ id: 'new' })), await outcome(() => runtime.deleteSession('s')),
                ];
                for (const { rejected, threw, gave } of found) {
                    const error = rejected ?? gave?.saveError;
                    const fault = threw ? 'it threw' : rejected && faultOf(rejected);
                    if (fault) throw new Error(`${method}, answer ${at}: ${fault}`);
                    if (error?.code === 'storage_failed') ok(/`wrapped`|`s` is damaged|`new` is damaged/.test(error.message), `${method}, answer ${at}: ${error.message}`);
                }
            }
        }
    },

    async 'whatever fails, once or always, at once or late, is typed, loses nothing, and is over when it is over'() {
        const methods = Object.entries(METHODS).flatMap(([part, names]) => names.map((name) => `${part}.${name}`));
        const failures = {
            rejects: () => Promise.reject(new Error('No.')),
            throws: () => { throw new Error('No.'); },
            late: async (run) => { await run(); await new Promise((resolve) => setTimeout(resolve)); throw new Error('No.'); },
            lost: async () => { throw coded('storage_lost'); },
            thenable: () => ({ then(resolve, reject) { reject(new Error('No.')); } }),
        };
        for (const method of methods) {
            for (const [how, fail] of Object.entries(failures)) {
                for (const times of [1, Infinity]) {
                    const what = `${method} ${how} ${times}`;
                    let left = 0;
                    const inner = rc.memoryStorage();
                    const storage = through(inner, (name, args, run) => (name === method && left-- > 0 ? fail(run) : run()));
                    const runtime = await open(storage);
                    const session = await runtime.createSession({ id: 's', cwd: '/w' });
                    left = times;
                    const found = [
                        await outcome(() => session.prompt('One')), await outcome(() => session.setTitle('T')), await outcome(() => runtime.listSessions()),
                        await outcome(() => runtime.approvals.list()), await outcome(() => runtime.permissions.createGroup({ id: 'g', name: 'G' })),
                        await outcome(() => session.reload()), await outcome(() => runtime.createSession({ id: 't' })), await outcome(() => runtime.deleteSession('t')),
                    ];
                    for (const { rejected, threw } of found) {
                        const fault = threw ? `it threw ${threw.message}` : rejected && faultOf(rejected);
                        if (fault) throw new Error(`${what}: ${fault}`);
                    }
                    left = 0;
                    if (session.state.hasPendingSave) await session.flush();
                    same((await session.prompt('Two')).saved, true, what);
                    const other = await open(inner);
                    const again = await other.openSession('s');
                    same(await bodies(again), await bodies(session), what);
                    same(again.messages.filter(({ role }) => role === 'user').map(({ content }) => content), ['One', 'Two'], what);
                    ok((await listed(other)).includes('s'), what);
                    await other.close();
                    await runtime.close();
                }
            }
        }
    },

    async 'a runtime that is closed settles what an adapter never answers'() {
        const never = new Promise(() => {});
        let hanging = false;
        const storage = through(rc.memoryStorage(), (name, args, run) => (hanging ? never : run()));
        const runtime = await open(storage);
        await runtime.createSession({ id: 's' });
        hanging = true;
        const waiting = [() => runtime.listSessions(), () => runtime.approvals.list(), () => runtime.permissions.listRules(), () => runtime.openSession('t')].map(outcome);
        await 0;
        await soon(runtime.close(), 'the end');
        same((await soon(Promise.all(waiting), 'the answers')).map(({ rejected }) => rejected.code), Array(4).fill('disposed'));
    },

    async 'in whatever order two runtimes are answered, all that is stored is listed, and so is every question'() {
        for (let round = 0; round < 40; round++) {
            const seed = Math.floor(Math.random() * 2 ** 31);
            try {
                await interleaved(seed);
            } catch (error) {
                throw new Error(`seed ${seed}: ${error.stack}`);
            }
        }
    },
};

/** Two runtimes that do what they like with three sessions, on an adapter whose answers take any time. */
async function interleaved(seed) {
    let state = seed;
    const random = (below) => {
        state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
        return (state >> 8) % below;
    };
    const pause = async () => {
        for (let left = random(12); left > 0; left--) await 0;
        if (random(8) === 0) await new Promise((resolve) => setTimeout(resolve));
    };
    const inner = rc.memoryStorage();
    const storage = through(inner, async (name, args, run) => {
        await pause();
        const answer = await run();
        await pause();
        return answer;
    });
    const now = clock();
    const asks = tool('ask', () => 'x', { access: 'network' });
    const more = () => ({ now, tools: [asks], model: scripted(calling(['c', 'ask']), assistant('Done.')) });
    const runtimes = [await open(storage, more()), await open(storage, more())];
    const ids = ['a', 'b', 'c'];
    const step = async (runtime) => {
        const id = ids[random(3)];
        switch (random(8)) {
            case 0:
            case 1:
                return runtime.createSession({ id });
            case 2:
                return runtime.deleteSession(id);
            case 3:
                return runtime.listSessions();
            case 4:
                return runtime.approvals.list();
            case 5:
                return (await runtime.openSession(id)).setTitle(`title ${random(100)}`);
            default: {
                const session = await runtime.openSession(id);
                const asked = new Promise((resolve) => session.subscribe(({ type }) => (type === 'approval-requested' || type === 'turn-end') && resolve()));
                const prompted = session.prompt('Hi').catch((error) => error);
                return Promise.race([asked, prompted]);
            }
        }
    };
    const expected = new Set(['conflict', 'not_found', 'session_busy', 'session_interrupted', 'pending_save', 'disposed']);
    const steps = Array.from({ length: 24 }, async (_, at) => {
        for (let left = at; left > 0; left--) await pause();
        const { rejected } = await outcome(() => step(runtimes[at % 2]));
        if (rejected && !expected.has(rejected.code)) throw new Error(`${rejected.code}: ${rejected.message}`);
    });
    await soon(Promise.all(steps), 'the steps');

    const other = await open(inner);
    const stored = [];
    const asking = [];
    for (const id of ids) {
        const session = await inner.session(id).load();
        if (session === undefined) continue;
        stored.push(id);
        for (const approval of session.approvals) {
            if (JSON.parse(text(approval.value)).status === 'pending') asking.push(approval.id);
        }
    }
    const shown = await listed(other);
    same(stored.filter((id) => !shown.includes(id)), [], 'what is not listed');
    const questions = (await other.approvals.list()).map(({ requestId }) => requestId);
    same(asking.filter((id) => !questions.includes(id)), [], 'questions that are not listed');
    for (const id of shown) same((await outcome(() => other.openSession(id))).rejected?.code, stored.includes(id) ? undefined : 'not_found', id);
    same((await listed(other)).sort(), stored, 'the list afterwards');
    await other.close();
}

// ---- damaged sessions ----------------------------------------------------------------------------------------------------

const MISSING = { role: 'missing' };
const loaded = (change) => ({ 'session.load': change });
const replaced = (name, at, value) => loaded((stored) => ({ ...stored, [name]: stored[name].with(at, value) }));
/** What is read of the messages, where it begins at 0 or not. */
const read = (change) => ({ 'session.readMessages': (found, { from }) => change(found, from) });
const role = (value, role) => bytes(JSON.stringify({ ...JSON.parse(text(value)), role }));

/** What an adapter answers of a session of three turns, and what is reported: as of a database (`stored_sessions.mjs`). */
const DAMAGE = {
    'a header that cannot be decoded': { answers: loaded((stored) => ({ ...stored, header: bytes('{') })), reported: [['chat_sessions']] },
    'a setting that cannot be decoded': {
        answers: loaded((stored) => ({ ...stored, settings: { ...stored.settings, runContext: bytes('{') } })), reported: [['chat_sessions']],
    },
    'settings that make no sense': {
        answers: loaded((stored) => ({ ...stored, settings: { ...stored.settings, permissionPreset: bytes('"all"'), title: bytes('5') } })),
        reported: [['chat_sessions'], ['chat_sessions']],
    },
    'a count that is too large': {
        answers: loaded((stored) => ({ ...stored, messageCount: 8 })),
        reported: [['messages', 6], ['messages', 7], ['message_outlines']], shown: (all) => [...all, MISSING, MISSING],
    },
    'a count that is too small': { answers: loaded((stored) => ({ ...stored, messageCount: 1 })), reported: [['message_outlines']] },
    'a count that is no number': {
        answers: loaded((stored) => ({ ...stored, messageCount: 'six' })), reported: [['chat_sessions'], ['message_outlines']],
    },
    'counters that are none': { answers: loaded((stored) => ({ ...stored, counters: { conversation: 'x' } })), reported: [['chat_sessions']] },
    'outlines that are not there': { answers: loaded((stored) => ({ ...stored, outlines: [] })), reported: [['message_outlines']] },
    'outlines that cannot be decoded': { answers: replaced('outlines', 0, bytes('{')), reported: [['message_outlines', 0], ['message_outlines']] },
    'a snapshot that cannot be read': { answers: replaced('snapshots', 0, bytes('{"userTurn":"x"}')), reported: [['runtime_contexts', 0]], snapshots: 1 },
    'a checkpoint that cannot be read': { answers: replaced('checkpoints', 0, bytes('{"sections":5}')), reported: [['system_prompt_checkpoints', 0]] },
    'a checkpoint of messages that are not there': {
        answers: loaded((stored) => ({ ...stored, checkpoints: stored.checkpoints.with(0, bytes(JSON.stringify({ ...JSON.parse(text(stored.checkpoints[0])), messageCount: 99 }))) })),
        reported: [['system_prompt_checkpoints', 0]],
    },
    'checkpoints that were all taken away': { answers: loaded((stored) => ({ ...stored, checkpoints: [] })), reported: [['system_prompt_checkpoints']] },
    'a compaction that cannot be read': { answers: loaded((stored) => ({ ...stored, compactions: [bytes('{"id":5}')] })), reported: [['compactions', 0]] },
    'an approval that cannot be read, though it says that it was approved': {
        answers: loaded((stored) => ({ ...stored, approvals: [{ id: 'a', version: 1, value: bytes('{"status":"approved","toolCallId":"c"}') }] })),
        reported: [['approvals']],
    },
    'a message that is not there': {
        answers: read((found, from) => found.filter((_, at) => from + at !== 2)), reported: [['messages', 2]], shown: (all) => all.with(2, MISSING),
    },
    'a message that cannot be decoded': {
        answers: read((found, from) => found.map((value, at) => (from + at === 2 ? bytes('{') : value))), reported: [['messages', 2]], shown: (all) => all.with(2, MISSING),
    },
    'a message that another role says than its outline': {
        answers: read((found, from) => found.map((value, at) => (from + at === 1 ? role(value, 'user') : value))),
        reported: [['messages', 1]], shown: (all) => all.with(1, { ...all[1], role: 'user' }),
    },
};

for (const [what, { answers, reported, shown = (all) => all, snapshots = 2 }] of Object.entries(DAMAGE)) {
    cases[`a damaged session of an adapter is opened and says where: ${what}; the rest is there, and nothing is decided, sent or saved by it`] = async () => {
        const inner = rc.memoryStorage();
        const runtime = await open(inner);
        await runtime.skills.add({ content: skillFile('demo', 'Do.'), location: '/d/SKILL.md' });
        const made = await runtime.createSession({ id: 's', cwd: '/w' });
        for (const typed of ['One $demo', 'Two', 'Three $demo']) same(await made.prompt(typed), SUCCESS);
        const [all, kept] = [made.messages, made.getRuntimeContexts()];
        await made.dispose();
        await runtime.createSession({ id: 'whole', cwd: '/w' });
        const before = exact(await inner.session('s').load());

        const asked = [];
        let isDamaged = true;
        const storage = {
            ...inner,
            session: (id) => Object.fromEntries(Object.entries(inner.session(id)).map(([method, run]) => [method, async (...args) => {
                asked.push(`${id} ${method}`);
                const answer = await run(...args);
                return (id === 's' && isDamaged && answer && answers[`session.${method}`]?.(answer, ...args)) || answer;
            }])),
        };
        const model = scripted(assistant('Done.'));
        const other = await open(storage, { model });
        const session = await other.openSession('s');
        const { damage, messageCount, loadedFrom } = session.state;
        same(damage.map(({ store, key }) => (key === undefined ? [store] : [store, key])), reported);
        ok(damage.every(({ message }) => message.length > 0), 'each says what is wrong');
        same(session.messages, shown(all));
        same([messageCount, loadedFrom], [session.messages.length, 0]);
        same(session.getRuntimeContexts(), kept.slice(2 - snapshots));
        for (const refused of [
            () => session.prompt('Go on'), () => session.begin('Go on'), () => session.setPermissionPreset(null), () => session.setTitle('x'),
            () => session.setRunContext(null), () => session.gate({ toolCallId: 'c', toolName: 'look', arguments: {} }),
        ]) {
            const error = await fails(refused, 'storage_failed');
            ok(/session `s` is damaged.*`state.damage`.*deleteSession/.test(error.message), error.message);
        }
        same([model.calls, asked.includes('s commit'), exact(await inner.session('s').load())], [0, false, before]);
        same((await listed(other)).sort(), ['s', 'whole']);
        same((await other.continueRecent()).id, 'whole');
        same(await (await other.openSession('whole')).prompt('Hi'), SUCCESS);

        // What was repaired is whole again.
        isDamaged = false;
        await session.reload();
        same([session.state.damage, session.messages], [[], all]);
        isDamaged = true;
        await session.dispose();
        await other.deleteSession('s');
        same(await listed(other), ['whole']);
        await Promise.all([other.close(), runtime.close()]);
    };
}
