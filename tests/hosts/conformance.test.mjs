// The suite for storage adapters, run on the one in memory, and on ones that break a rule each: every case must find one.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { installed } from '../support/project.mjs';

const project = await installed();
after(() => project.remove());
const { conformance } = await project.import('runcontext/storage/conformance');
const { memoryStorage } = await project.import('runcontext');

/** Another connection to what is in memory. */
const reopen = (adapter) => ({ ...adapter });

for (const { name, run } of conformance({ open: memoryStorage, reopen })) test(`in memory: ${name}`, run);

const text = (value) => new TextDecoder().decode(value);
const bytes = (value) => new TextEncoder().encode(value);
/** An adapter whose sessions do some things in another way. */
const sessions = (change) => () => {
    const adapter = memoryStorage();
    const session = (id) => adapter.session(id);
    const state = {};
    return { ...adapter, session: (id) => ({ ...session(id), ...change(session(id), { session, id, state }) }) };
};
const commits = (change) => sessions((session, more) => ({ commit: (commit) => change(commit, session, more) }));
const loads = (change) => sessions((session) => ({
    async load() {
        const stored = await session.load();
        return stored && (await change(stored, session));
    },
}));
const shared = (change) => () => {
    const adapter = memoryStorage();
    return { ...adapter, shared: { ...adapter.shared, ...change(adapter.shared) } };
};
const directory = (change) => () => {
    const adapter = memoryStorage();
    return { ...adapter, directory: { ...adapter.directory, ...change(adapter.directory) } };
};
/** Every value of a commit, changed. */
const values = (change) => {
    const all = (settings) => Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, change(value)]));
    return commits((commit, session) => session.commit({
        ...commit,
        ...(commit.create && { create: { header: change(commit.create.header), settings: all(commit.create.settings) } }),
        records: commit.records.map((record) => ({ ...record, value: change(record.value) })),
        settings: all(commit.settings),
    }));
};
/** Looks first and writes a moment later, as without a transaction. */
const unlocked = (fits) => commits(async (commit, session) => {
    const stored = await session.load();
    await sleep(1);
    return fits(commit, stored) ? session.commit(await late(commit, session)) : session.commit(commit);
});
const late = async (commit, session) => {
    const stored = await session.load();
    const versions = new Map(stored?.approvals.map(({ id, version }) => [id, version]));
    return {
        ...commit,
        ...(commit.expected !== undefined && { expected: stored?.counters.conversation ?? 0 }),
        approvals: commit.approvals.map((approval) => ({ ...approval, expected: versions.get(approval.id) ?? 0 })),
    };
};

/** What is wrong with an adapter, what makes it, and the case that must find it. `reopen` where connections matter. */
const FAULTS = [
    ['says that it keeps what it loses', () => ({ ...memoryStorage(), persistent: true }), 'an adapter says its kind, and whether it is persistent'],
    ['gives null for what is not there', shared((real) => ({ get: async (...key) => (await real.get(...key)) ?? null })),
        'what is not there is undefined, empty or nought'],
    ['forgets the settings of a new session',
        commits((commit, session) => session.commit({ ...commit, ...(commit.create && { create: { ...commit.create, settings: {} } }) })),
        'the first commit makes the session with everything in it'],
    ['makes no session that is empty',
        sessions((session) => ({ load: async () => ((await session.counters())?.settings === 0 ? undefined : session.load()) })),
        'a session may be made with nothing in it'],
    ['gives no code with what is not found',
        commits((commit, session) => session.commit(commit).catch((error) => Promise.reject(new Error(error.message)))),
        'a commit to a session that is not there is not found, and makes none'],
    ['makes a session anew that is there', commits(async (commit, session) => {
        if (commit.create) await session.delete();
        return session.commit(commit);
    }), 'a session is made once'],
    ['looks for the session before it makes it', commits(async (commit, session) => {
        const there = await session.counters();
        await sleep(1);
        if (commit.create && !there) await session.delete();
        return session.commit(commit);
    }), 'of many who make one session at the same time, one makes it'],
    ['compares the counter before it writes',
        unlocked((commit, stored) => commit.expected !== undefined && commit.expected === stored?.counters.conversation),
        'of many commits on one counter at the same time, one is applied'],
    ['looks for the operation before it writes', commits(async (commit, session, { state }) => {
        const known = (state[commit.operationId] ??= 0);
        await sleep(1);
        state[commit.operationId]++;
        const result = await session.commit(commit);
        return known === 0 && result.status === 'already-applied' ? { ...result, status: 'conflict' } : result;
    }), 'of many replays of one commit at the same time, one is applied'],
    ['lets settings raise what a turn depends on',
        commits(async (commit, session) => session.commit({ ...commit, expected: commit.expected ?? (await session.counters())?.conversation })),
        'a commit of settings meets a turn at the same time, and neither conflicts'],
    ['takes a counter of the future', commits(async (commit, session) => {
        const now = (await session.counters())?.conversation;
        return session.commit(commit.expected > now ? { ...commit, expected: now } : commit);
    }), 'a commit on another counter is a conflict that changes nothing'],
    ['writes the settings of a commit that conflicts', commits(async (commit, session) => {
        const result = await session.commit(commit);
        if (result.status === 'conflict') await session.commit({ ...commit, expected: undefined, create: undefined, approvals: [], records: [] });
        return result;
    }), 'a commit on another counter is a conflict that changes nothing'],
    ['remembers the operation of a commit that conflicts', commits(async (commit, session, { state }) => {
        const result = await session.commit(commit);
        if (state[commit.operationId]) return { ...result, status: 'already-applied' };
        state[commit.operationId] = result.status === 'conflict';
        return result;
    }), 'a commit on another counter is a conflict that changes nothing'],
    ['counts the fields and not the commits', loads((stored) => ({
        ...stored, counters: { ...stored.counters, settings: Object.keys(stored.settings).length },
    })), 'what is loaded is of one moment, while others commit'],
    ['raises a counter for approvals', commits((commit, session) =>
        session.commit(commit.approvals.length > 0 ? { ...commit, settings: { x: bytes('1'), ...commit.settings } } : commit)),
        'each counter rises by what is in the commit'],
    ['knows no time before the epoch', loads((stored) => ({ ...stored, updatedAt: Math.max(stored.updatedAt, 0) })), 'the time and the number of messages are those of the last commit that says them'],
    ['keeps times in 32 bits', loads((stored) => ({ ...stored, updatedAt: stored.updatedAt | 0 })), 'the time and the number of messages are those of the last commit that says them'],
    ['lets no clock be set back', commits(async (commit, session) =>
        session.commit({ ...commit, timestamp: Math.max(commit.timestamp, (await session.load())?.updatedAt ?? 0) })),
        'the time and the number of messages are those of the last commit that says them'],
    ['replaces all settings by those of a commit', commits(async (commit, session) => {
        const before = Object.keys((await session.load())?.settings ?? {});
        const rest = commit.settings && Object.keys(commit.settings).length > 0 ? before : [];
        return session.commit({ ...commit, settings: { ...Object.fromEntries(rest.map((name) => [name, bytes('null')])), ...commit.settings } });
    }), 'the last write of a setting wins, and the other settings stay'],
    ['writes record by record', commits(async (commit, session) => {
        try {
            return await session.commit(commit);
        } catch (error) {
            const records = commit.records.slice(0, 1);
            if (records.length > 0) await session.commit({ ...commit, operationId: `${commit.operationId} half`, records }).catch(() => {});
            throw error;
        }
    }), 'a commit with a position that is taken is refused and leaves nothing'],
    ['ignores a position that is taken', commits((commit, session) => session.commit(commit).catch((error) => {
        if (error.code !== 'storage_failed') throw error;
        return session.commit({ ...commit, records: [] });
    })), 'a commit with a position that is taken is refused and leaves nothing'],
    ['replaces no outlines', commits((commit, session, { state }) => {
        const records = commit.records.filter(({ store, position }) => {
            const place = `${store} ${position}`;
            const first = store !== 'message_outlines' || !state[place];
            state[place] = true;
            return first;
        });
        return session.commit({ ...commit, records });
    }), 'a record of message_outlines replaces the one at its position'],
    ['sorts positions as text', loads((stored) => ({ ...stored, snapshots: stored.snapshots.sort((one, other) => (text(one) < text(other) ? -1 : 1)) })),
        'records are given by their position as a number, in whatever order they came'],
    ['answers conflict before already-applied', commits(async (commit, session) => {
        const { counters } = (await session.load()) ?? {};
        const late = counters && commit.expected !== undefined && commit.expected !== counters.conversation;
        return late ? { status: 'conflict', counters } : session.commit(commit);
    }), 'a commit that is sent again is answered by its id, whatever is in it'],
    ['knows a commit again by what is in it',
        commits((commit, session) => session.commit({ ...commit, operationId: JSON.stringify([commit.operationId, commit.timestamp, commit.settings]) })),
        'a commit that is sent again is answered by its id, whatever is in it'],
    ['remembers the last operation alone', commits((commit, session, { state }) => {
        state.runs = (state.runs ?? 0) + Number(state.last !== commit.operationId);
        state.last = commit.operationId;
        return session.commit({ ...commit, operationId: `${state.runs} ${commit.operationId}` });
    }), 'commits are known again in any order'],
    ['remembers 1,000 operations', commits((commit, session, { state }) => {
        state.seen ??= new Map();
        state.count = (state.count ?? 0) + 1;
        const forgotten = state.seen.has(commit.operationId) && state.count - state.seen.get(commit.operationId) > 1000;
        state.seen.set(commit.operationId, state.count);
        return session.commit(forgotten ? { ...commit, operationId: `${commit.operationId} anew` } : commit);
    }), 'the last 1,024 operations of a session are remembered'],
    ['deletes what begins with the id', sessions((session, { session: other, id }) => ({
        async delete() {
            await session.delete();
            await other(`${id}1`).delete();
        },
    })), 'deleting removes all of the session and nothing of another'],
    ['refuses to delete what is not there', sessions((session) => ({
        async delete() {
            if (!(await session.counters())) throw new Error('not there');
            await session.delete();
        },
    })), 'deleting removes all of the session and nothing of another'],
    ['deletes the messages of a session that was made meanwhile', sessions((session, { state }) => ({
        async delete() {
            await session.delete();
            await sleep(1);
            state.isHollow = (await session.counters()) !== undefined;
        },
        readMessages: async (page) => (state.isHollow ? [] : session.readMessages(page)),
    })), 'a session that is made while it is deleted is there whole, or not at all'],
    ['remembers the operations of a deleted session', commits(async (commit, session, { state }) => {
        const known = state[commit.operationId];
        state[commit.operationId] = true;
        const result = await session.commit(commit);
        return known ? { ...result, status: 'already-applied' } : result;
    }), 'a session that is made anew under an old id is another one'],
    ['ignores the origin', commits(async (commit, session) => session.commit({ ...commit, origin: (await session.load())?.origin ?? commit.origin })),
        'a session that is made anew under an old id is another one'],
    ['says the origin that an id had first', sessions((session, { state, id }) => ({
        async commit(commit) {
            if (commit.create) state[id] ??= commit.operationId;
            return session.commit(commit);
        },
        async counters() {
            const now = await session.counters();
            return now && { ...now, origin: state[id] };
        },
    })), 'a session that is made anew under an old id is another one'],
    ['takes ids without their case', sessions((_, { session, id }) => session(id.toLowerCase())), 'sessions whose ids look alike do not see each other'],
    ['cuts long ids', sessions((_, { session, id }) => session(id.slice(0, 127))), 'sessions whose ids look alike do not see each other'],
    ['gives no versions', loads((stored) => ({ ...stored, approvals: stored.approvals.map((approval) => ({ ...approval, version: 1 })) })),
        'the version of an approval rises with each change, from 1'],
    ['compares no versions', commits((commit, session) =>
        session.commit({ ...commit, approvals: commit.approvals.map(({ id, value }) => ({ id, value })) })),
        'a commit on another version of an approval is a conflict that changes nothing'],
    ['keeps approvals that ended', commits((commit, session) =>
        session.commit({ ...commit, approvals: commit.approvals.map((approval) => ({ ...approval, value: approval.value ?? bytes('null') })) })),
        'an approval that ended is gone, and may begin again'],
    ['compares the version before it writes', unlocked((commit, stored) =>
        commit.approvals.some(({ id, expected }) => expected === stored?.approvals.find((approval) => approval.id === id)?.version)),
        'of many answers to one approval at the same time, one is applied'],
    ['gives one message too many', sessions((session) => ({ readMessages: ({ from, to }) => session.readMessages({ from, to: to + 1 }) })),
        'a page of messages is what is there of it, in order'],
    ['reads the counters a moment later', loads(async (stored, session) => {
        await sleep(1);
        const { conversation, settings } = (await session.counters()) ?? stored.counters;
        return { ...stored, counters: { conversation, settings } };
    }), 'what is loaded is of one moment, while others commit'],
    ['reads JSON and writes it anew', values((value) => {
        try {
            return bytes(JSON.stringify(JSON.parse(text(value))));
        } catch {
            return value;
        }
    }), 'values keep every byte'],
    ['keeps values as text', values((value) => bytes(text(value))), 'values keep every byte'],
    ['takes no value over 16 MiB', values((value) => {
        if (value.length > 2 ** 24) throw new Error('too large');
        return value;
    }), 'a message of 20 MB comes back as it was'],
    ['loses what is behind the first MiB', values((value) => value.slice(0, 2 ** 20)), 'large values come back whole wherever they are, and give way to smaller ones'],
    ['writes at most 5,000 records', commits((commit, session) => session.commit({ ...commit, records: commit.records.slice(0, 5000) })),
        'ten thousand messages go into one commit'],
    ['takes the buffer for the value', values((value) => new Uint8Array(value.buffer)), 'a value may be a part of a larger buffer'],
    ['keeps what the caller gave', shared((real) => {
        const kept = new Map();
        return {
            async write(changes, expected) {
                for (const { key, value } of changes) kept.set(key, value);
                return real.write(changes, expected);
            },
            get: async (_, key) => kept.get(key),
        };
    }), 'who changes a value that was stored, or that was read, changes nothing that is stored'],
    ['gives the same bytes to all', sessions((session, { state }) => ({
        readMessages: async (page) => (state[`${page.from} ${page.to}`] ??= await session.readMessages(page)),
    })), 'who changes a value that was stored, or that was read, changes nothing that is stored'],
    ['has one store for all that is shared', shared((real) => ({
        get: (_, key) => real.get('skills', key),
        list: (_, prefix) => real.list('skills', prefix),
        write: (changes, expected) => real.write(changes.map((change) => ({ ...change, store: 'skills' })), expected),
    })), 'shared values are put, replaced and removed, each store by itself'],
    ['sorts keys by code point', shared((real) => ({
        async list(...of) {
            const units = (key) => Array.from(key, (one) => String(one.codePointAt(0)).padStart(8, '0')).join();
            return (await real.list(...of)).sort(([one], [other]) => (units(one) < units(other) ? -1 : 1));
        },
    })), 'keys are any code units, listed in the order of their code units'],
    ['makes keys well-formed', shared((real) => ({
        write: (changes, expected) => real.write(changes.map((change) => ({ ...change, key: change.key.toWellFormed() })), expected),
    })), 'keys are any code units, listed in the order of their code units'],
    ['takes a prefix for a pattern', shared((real) => ({
        async list(store, prefix = '') {
            const pattern = new RegExp(`^${prefix.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&').replaceAll('%', '[^]*').replaceAll('_', '[^]')}`);
            return (await real.list(store)).filter(([key]) => pattern.test(key));
        },
    })), 'a prefix is what a key begins with, and no pattern'],
    ['lists a thousand keys', shared((real) => ({ list: async (...of) => (await real.list(...of)).slice(0, 1000) })), 'a list of thousands of keys is whole'],
    ['raises the policy version for skills', shared((real) => ({
        write: (changes, expected) => real.write([...changes, { store: 'approval_rules', key: 'x', value: null }], expected),
    })), 'writes to groups and rules raise the policy version by one, and no others do'],
    ['raises the policy version by each rule', shared((real) => ({
        async write(changes, expected) {
            for (const change of changes) await real.write([change], expected);
            return { policyVersion: await real.policyVersion() };
        },
    })), 'writes to groups and rules raise the policy version by one, and no others do'],
    ['writes skills whatever version is expected', shared((real) => ({
        async write(changes, expected) {
            await real.write(changes.filter(({ store }) => store === 'skills'));
            return real.write(changes.filter(({ store }) => store !== 'skills'), expected);
        },
    })), 'a write that expects another policy version changes nothing in any store'],
    ['compares the policy version before it writes', shared((real) => ({
        async write(changes, expected) {
            const now = await real.policyVersion();
            await sleep(1);
            return expected === undefined || expected === now ? real.write(changes) : { conflict: now };
        },
    })), 'of many writes that expect one policy version at the same time, one is applied'],
    ['tells the version that it read before', shared((real) => ({
        async write(changes, expected) {
            const now = await real.policyVersion();
            await sleep(1);
            const result = await real.write(changes, expected);
            return 'conflict' in result ? result : { policyVersion: now + 1 };
        },
    })), 'no write at the same time as another is lost'],
    ['lists while it is written to', shared((real) => ({
        async write(changes, expected) {
            for (const change of changes) {
                await real.write([change], expected);
                await sleep(0);
            }
            return { policyVersion: await real.policyVersion() };
        },
    })), 'a shared list is of one moment, while others write'],
    ['lists all where none is asked for', directory((real) => ({ list: (filter) => real.list({ ...filter, limit: filter.limit || 50 }) })),
        'entries are listed by kind and working directory, newest first, then by id'],
    ['sorts ids without their case', directory((real) => ({
        list: async (filter) => (await real.list(filter)).sort((one, other) =>
            other.updatedAt - one.updatedAt || (one.id.toLowerCase() < other.id.toLowerCase() ? 1 : -1)),
    })), 'entries are listed by kind and working directory, newest first, then by id'],
    ['finds what is below a working directory', directory((real) => ({
        list: async ({ cwd = '', ...filter }) => (await real.list(filter)).filter((entry) => entry.cwd.startsWith(cwd)),
    })), 'entries are listed by kind and working directory, newest first, then by id'],
    ['makes working directories well-formed', directory((real) => ({ put: (entry) => real.put({ ...entry, cwd: entry.cwd.toWellFormed() }) })),
        'a working directory is any code units'],
    ['cuts working directories at a NUL', directory((real) => ({ put: (entry) => real.put({ ...entry, cwd: entry.cwd.split('\0')[0] }) })),
        'a working directory is any code units'],
    ['puts entries that are older', directory((real) => ({
        async put(entry) {
            await real.remove(entry.id);
            await real.put(entry);
        },
    })), 'an entry takes the place of the one with its id, unless it is older'],
    ['puts no entry of the same time', directory((real) => ({
        async put(entry) {
            const all = await real.list({ kind: entry.kind, limit: 1000 });
            if (!all.some(({ id, updatedAt }) => id === entry.id && updatedAt === entry.updatedAt)) await real.put(entry);
        },
    })), 'an entry takes the place of the one with its id, unless it is older'],
    ['remembers what was removed', directory((real) => {
        const removed = new Set();
        return {
            async remove(id) {
                removed.add(id);
                await real.remove(id);
            },
            async put(entry) {
                if (!removed.has(entry.id)) await real.put(entry);
            },
        };
    }), 'an entry that was removed is gone, and may come again'],
    ['pages by time alone', directory((real) => ({
        list: ({ before, ...filter }) => real.list({ ...filter, ...(before && { before: `${before.split(':')[0]}:` }) }),
    })), 'pages over thousands of entries, many of one time, hold each entry once'],
    ['begins a page with the last entry of the one before', directory((real) => ({
        list: ({ before, ...filter }) => real.list({ ...filter, ...(before && { before: `${before}\0` }) }),
    })), 'pages over thousands of entries, many of one time, hold each entry once'],
    ['does again what comes again, but for its last commit', commits(async (commit, session, { state }) => {
        const seen = (state.seen ??= []);
        const settings = seen.slice(0, -1).includes(commit.operationId) && commit.settings;
        if (settings) await session.commit({ ...commit, operationId: `again ${seen.length}`, expected: undefined, messageCount: undefined, records: [], approvals: [] });
        seen.push(commit.operationId);
        return session.commit(commit);
    }), 'a commit that arrives late, behind what was made of it and after it, changes nothing'],
    ['opens anew with nothing', memoryStorage, 'another connection sees all that was stored', memoryStorage],
    ['keeps its commits from other connections', memoryStorage, 'another connection knows what was committed, and the first one what it commits',
        (adapter) => {
            const copy = memoryStorage();
            return { ...adapter, session: (id) => ({ ...adapter.session(id), commit: (commit) => copy.session(id).commit(commit) }) };
        }],
    ['remembers the policy version that it read', memoryStorage, 'a write of another connection is seen by the very next read', (adapter) => {
        let version;
        return { ...adapter, shared: { ...adapter.shared, policyVersion: async () => (version ??= await adapter.shared.policyVersion()) } };
    }],
];

for (const [what, open, name, other = reopen] of FAULTS) {
    test(`found out: an adapter that ${what}`, async () => {
        const place = what === 'says that it keeps what it loses' ? { open } : { open, reopen: other };
        const found = conformance(place).find((one) => one.name === name);
        assert.ok(found, name);
        await assert.rejects(found.run(), (error) => {
            assert.equal(error.constructor, Error);
            return true;
        });
    });
}

test('an adapter that never answers a call is found out after thirty seconds, whichever call it is', async () => {
    const parts = {
        counters: sessions, load: sessions, readMessages: sessions, commit: sessions, delete: sessions,
        policyVersion: shared, get: shared, list: shared, write: shared, put: directory, remove: directory,
    };
    const cases = {
        commit: 'a session is made once', delete: 'deleting removes all of the session and nothing of another',
        write: 'shared values are put, replaced and removed, each store by itself', put: 'an entry that was removed is gone, and may come again',
        remove: 'an entry that was removed is gone, and may come again',
    };
    const wait = globalThis.setTimeout;
    globalThis.setTimeout = (after, time, ...more) => wait(after, time === 30_000 ? 50 : time, ...more);
    try {
        for (const [method, part] of Object.entries(parts)) {
            const name = cases[method] ?? 'what is not there is undefined, empty or nought';
            const open = part(() => ({ [method]: () => new Promise(() => {}) }));
            const { run } = conformance({ open }).find((one) => one.name === name);
            await assert.rejects(run(), { message: `${method}() gave no answer within 30 seconds` });
        }
    } finally {
        globalThis.setTimeout = wait;
    }
});

test('every case finds an adapter out', () => {
    const names = conformance({ open: memoryStorage, reopen }).map(({ name }) => name);
    assert.equal(new Set(names).size, names.length);
    const finding = new Set(FAULTS.map(([, , name]) => name));
    assert.deepEqual(names.filter((name) => !finding.has(name)), []);
});

test('a case that fails in two places at once rejects, and leaves no other rejection behind', async () => {
    let reads = 0;
    const open = sessions((session) => ({
        commit: async (commit) => {
            if (!commit.create && reads > 0) throw new Error('no more commits');
            return session.commit(commit);
        },
        load: async () => {
            reads += 1;
            return { ...(await session.load()), counters: { conversation: 50 - reads, settings: 0 } };
        },
    }));
    const unhandled = [];
    const hear = (reason) => unhandled.push(String(reason));
    process.on('unhandledRejection', hear);
    for (const { run } of conformance({ open, reopen }).filter(({ name }) => /while others (commit|write)|at the same time, and neither/.test(name))) {
        await run().catch(() => {});
        await sleep(20);
    }
    process.off('unhandledRejection', hear);
    assert.ok(reads > 0);
    assert.deepEqual(unhandled, []);
});
