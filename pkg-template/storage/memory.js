// @ts-check
// Storage that ends with the page, as an adapter: to wrap, and to compare with.

import { REMEMBERED, answerTo, coded, countersAfter, position, raisesPolicyVersion } from './commit.js';

/** @typedef {import('./adapter.js').Encoded} Encoded */
/** @typedef {import('./adapter.js').RecordStore} RecordStore */
/** @typedef {{ origin: string, header: Encoded, updatedAt: number, messageCount: number, counters: import('./adapter.js').Counters, settings: Map<string, Encoded>, records: Record<RecordStore, Map<number, Encoded>>, approvals: Map<string, { version: number, value: Encoded }>, operations: Set<string> }} Session */

/** What goes in and what comes out are copies: who holds one cannot change what is stored. */
const copy = (/** @type {Encoded} */ value) => value.slice();

/** @returns {import('./adapter.js').StorageAdapter} */
export function memoryStorage() {
    /** @type {Map<string, Session>} */
    const sessions = new Map();
    return {
        kind: 'memory',
        persistent: false,
        session: (id) => session(sessions, id),
        shared: shared(),
        directory: directory(),
    };
}

/**
 * @param {Map<string, Session>} sessions
 * @param {string} id
 * @returns {import('./adapter.js').SessionStorage}
 */
function session(sessions, id) {
    return {
        async counters() {
            const stored = sessions.get(id);
            return stored && { ...stored.counters, origin: stored.origin };
        },
        async load() {
            const stored = sessions.get(id);
            if (stored === undefined) return undefined;
            const list = (/** @type {RecordStore} */ store) =>
                [...stored.records[store]].sort(([one], [other]) => one - other).map(([, value]) => copy(value));
            return {
                header: copy(stored.header),
                origin: stored.origin,
                updatedAt: stored.updatedAt,
                messageCount: stored.messageCount,
                counters: { ...stored.counters },
                settings: Object.fromEntries([...stored.settings].map(([name, value]) => [name, copy(value)])),
                outlines: list('message_outlines'),
                snapshots: list('runtime_contexts'),
                checkpoints: list('system_prompt_checkpoints'),
                compactions: list('compactions'),
                approvals: [...stored.approvals].map(([id, { version, value }]) => ({ id, version, value: copy(value) })),
            };
        },
        async readMessages({ from, to }) {
            const stored = sessions.get(id);
            const found = [];
            for (let at = from; stored !== undefined && at < to; at++) {
                const value = stored.records.messages.get(at);
                if (value !== undefined) found.push(copy(value));
            }
            return found;
        },
        async commit(commit) {
            const before = sessions.get(id);
            const versions = commit.approvals.map(({ id }) => before?.approvals.get(id)?.version ?? 0);
            const answer = answerTo(commit, before, before?.operations.has(commit.operationId) ?? false, versions);
            if (answer !== undefined) return answer;
            const after = before ?? begun(commit);
            free(after, commit.records);
            // Nothing fails from here on.
            sessions.set(id, after);
            after.counters = countersAfter(commit, before?.counters);
            after.updatedAt = commit.timestamp;
            after.messageCount = commit.messageCount ?? after.messageCount;
            for (const { store, position, value } of commit.records) after.records[store].set(position, copy(value));
            commit.approvals.forEach(({ id, value }, at) => {
                if (value === null) after.approvals.delete(id);
                else after.approvals.set(id, { version: versions[at] + 1, value: copy(value) });
            });
            for (const [name, value] of Object.entries(commit.settings)) after.settings.set(name, copy(value));
            after.operations.add(commit.operationId);
            const [oldest] = after.operations;
            if (after.operations.size > REMEMBERED) after.operations.delete(oldest);
            return { status: 'applied', counters: { ...after.counters } };
        },
        async delete() {
            sessions.delete(id);
        },
    };
}

/**
 * @param {import('./adapter.js').EncodedCommit} commit
 * @returns {Session}
 */
const begun = ({ operationId, timestamp, create }) => ({
    origin: operationId,
    header: copy(/** @type {{ header: Encoded }} */ (create).header),
    updatedAt: timestamp,
    messageCount: 0,
    counters: { conversation: 0, settings: 0 },
    settings: new Map(Object.entries(create?.settings ?? {}).map(([name, value]) => [name, copy(value)])),
    records: {
        messages: new Map(),
        message_outlines: new Map(),
        runtime_contexts: new Map(),
        system_prompt_checkpoints: new Map(),
        compactions: new Map(),
    },
    approvals: new Map(),
    operations: new Set(),
});

/**
 * What is stored is never overwritten: new records take free positions, one each.
 *
 * @param {Session} stored
 * @param {import('./adapter.js').EncodedCommit['records']} records
 */
function free(stored, records) {
    const taken = new Set();
    for (const { store, position } of records) {
        const place = `${store} ${position}`;
        if (taken.has(place) || (store !== 'message_outlines' && stored.records[store].has(position))) {
            throw coded('storage_failed', `position ${position} of \`${store}\` is taken; nothing was saved`);
        }
        taken.add(place);
    }
}

/** @returns {import('./adapter.js').SharedStorage} */
function shared() {
    /** @type {Map<string, Map<string, Encoded>>} */
    const stores = new Map();
    let version = 0;
    return {
        async policyVersion() {
            return version;
        },
        async get(store, key) {
            const value = stores.get(store)?.get(key);
            return value && copy(value);
        },
        async list(store, prefix = '') {
            const found = [...(stores.get(store) ?? [])].filter(([key]) => key.startsWith(prefix));
            return found.sort(([one], [other]) => (one < other ? -1 : 1)).map(([key, value]) => [key, copy(value)]);
        },
        async write(changes, expected) {
            if (expected !== undefined && expected !== version) return { conflict: version };
            version += Number(raisesPolicyVersion(changes));
            for (const { store, key, value } of changes) {
                const values = stores.get(store) ?? new Map();
                stores.set(store, values);
                if (value === null) values.delete(key);
                else values.set(key, copy(value));
            }
            return { policyVersion: version };
        },
    };
}

/** @returns {import('./adapter.js').DirectoryStorage} */
function directory() {
    /** @type {Map<string, import('./adapter.js').DirectoryEntry>} */
    const entries = new Map();
    const isBefore = (/** @type {[number, string]} */ one, /** @type {[number, string]} */ other) =>
        one[0] < other[0] || (one[0] === other[0] && one[1] < other[1]);
    return {
        async put(entry) {
            const there = entries.get(entry.id);
            if (there !== undefined && there.updatedAt > entry.updatedAt) return;
            entries.set(entry.id, { ...entry, value: copy(entry.value) });
        },
        async remove(id) {
            entries.delete(id);
        },
        async list({ kind, cwd, limit, before }) {
            return [...entries.values()]
                .filter((entry) => entry.kind === kind && (cwd === undefined || entry.cwd === cwd))
                .filter(({ updatedAt, id }) => before === undefined || isBefore([updatedAt, id], position(before)))
                .sort((one, other) => (isBefore([one.updatedAt, one.id], [other.updatedAt, other.id]) ? 1 : -1))
                .slice(0, limit)
                .map((entry) => ({ ...entry, value: copy(entry.value) }));
        },
    };
}
