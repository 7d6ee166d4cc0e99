// @ts-check
// Sessions on Cloudflare's Durable Objects with SQLite storage: one object per session, one for what sessions share, one
// for the directory. The upper half runs in the objects, the lower half in whoever uses them.

import { REMEMBERED, answerTo, coded, countersAfter, position, raisesPolicyVersion } from './commit.js';

/** @typedef {import('./adapter.js').Encoded} Encoded */
/** @typedef {import('./durable_objects.js').Namespace} Namespace */
/** @typedef {{ exec(query: string, ...bindings: unknown[]): { toArray(): any[] } }} Sql */
/** @typedef {{ sql: Sql, transactionSync<T>(work: () => T): T, deleteAll(): Promise<void> }} Storage */

/** A row of a Durable Object ends at 2 MB, so that values are cut into parts. */
const PART = 2 ** 20;

const VALUES = 'create table if not exists parts (store text, key, part integer, value blob, primary key (store, key, part))';

/**
 * Values in parts, by store and key. A key is a position, or a text that SQLite can hold.
 *
 * @param {Sql} sql
 */
const values = (sql) => ({
    /** Where nothing is: the table refuses a key that is taken. */
    add(/** @type {string} */ store, /** @type {string | number} */ key, /** @type {Encoded} */ value) {
        // An empty value has a part too.
        for (let at = 0; at === 0 || at < value.length; at += PART) {
            sql.exec('insert into parts values (?, ?, ?, ?)', store, key, at / PART, value.slice(at, at + PART));
        }
    },
    remove(/** @type {string} */ store, /** @type {string | number} */ key) {
        sql.exec('delete from parts where store = ? and key = ?', store, key);
    },
    put(/** @type {string} */ store, /** @type {string | number} */ key, /** @type {Encoded} */ value) {
        this.remove(store, key);
        this.add(store, key, value);
    },
    /**
     * In the order of the keys.
     *
     * @param {string} store
     * @param {string} [where]
     * @param {(string | number)[]} bound
     * @returns {[any, Encoded][]}
     */
    list(store, where = 'true', ...bound) {
        /** @type {Map<string | number, Uint8Array[]>} */
        const found = new Map();
        const query = `select key, value from parts where store = ? and ${where} order by key, part`;
        for (const { key, value } of sql.exec(query, store, ...bound).toArray()) {
            const parts = found.get(key) ?? [];
            found.set(key, parts);
            parts.push(new Uint8Array(value));
        }
        return [...found].map(([key, parts]) => [key, parts.length === 1 ? parts[0] : joined(parts)]);
    },
});

/** @param {Uint8Array[]} parts */
function joined(parts) {
    const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
    let at = 0;
    for (const part of parts) {
        whole.set(part, at);
        at += part.length;
    }
    return whole;
}

/** SQLite's texts hold no half pairs. This one holds any code unit, and is ordered as they are. */
const hex = (/** @type {string} */ text) => Array.from({ length: text.length }, (_, at) => text.charCodeAt(at).toString(16).padStart(4, '0')).join('');

const unhex = (/** @type {string} */ text) => (text.match(/.{4}/g) ?? []).map((unit) => String.fromCharCode(parseInt(unit, 16))).join('');

/**
 * The storage of one session, in its object. Nothing waits in the middle of a method, so that nothing comes in between.
 *
 * @param {Storage} storage
 */
function sessionIn(storage) {
    const { sql } = storage;
    const parts = values(sql);

    // An object that holds nothing costs nothing: the tables come with the first commit.
    const record = () => {
        if (sql.exec("select 1 from sqlite_master where name = 'session'").toArray().length === 0) return undefined;
        const [{ origin, updated_at, message_count, conversation, settings }] = sql.exec('select * from session').toArray();
        return { origin, updatedAt: updated_at, messageCount: message_count, counters: { conversation, settings } };
    };

    /** @type {(operationId: string, create: NonNullable<import('./adapter.js').EncodedCommit['create']>) => void} */
    const begin = (operationId, create) => {
        sql.exec(VALUES);
        sql.exec('create table approvals (id text primary key, version integer)');
        sql.exec('create table operations (number integer primary key, id text unique)');
        sql.exec('create table session (origin text, updated_at integer, message_count integer, conversation integer, settings integer)');
        sql.exec('insert into session values (?, 0, 0, 0, 0)', operationId);
        parts.add('header', 0, create.header);
        for (const [name, value] of Object.entries(create.settings)) parts.put('settings', name, value);
    };

    return {
        counters() {
            const stored = record();
            return stored && { ...stored.counters, origin: stored.origin };
        },
        load() {
            const stored = record();
            if (stored === undefined) return undefined;
            const list = (/** @type {string} */ store) => parts.list(store).map(([, value]) => value);
            const asked = new Map(parts.list('approvals'));
            return {
                ...stored,
                header: list('header')[0],
                settings: Object.fromEntries(parts.list('settings')),
                outlines: list('message_outlines'),
                snapshots: list('runtime_contexts'),
                checkpoints: list('system_prompt_checkpoints'),
                compactions: list('compactions'),
                approvals: sql.exec('select id, version from approvals').toArray().map((approval) => ({ ...approval, value: asked.get(approval.id) })),
            };
        },
        /** @param {{ from: number, to: number }} page */
        readMessages({ from, to }) {
            if (record() === undefined) return [];
            return parts.list('messages', 'key >= ? and key < ?', from, to).map(([, value]) => value);
        },
        /** @param {import('./adapter.js').EncodedCommit} commit */
        commit: (commit) => storage.transactionSync(() => {
            const before = record();
            const isKnown = before !== undefined && sql.exec('select 1 from operations where id = ?', commit.operationId).toArray().length > 0;
            const versions = commit.approvals.map(({ id }) => {
                const [approval] = before === undefined ? [] : sql.exec('select version from approvals where id = ?', id).toArray();
                return approval?.version ?? 0;
            });
            const answer = answerTo(commit, before, isKnown, versions);
            if (answer !== undefined) return answer;
            if (commit.create !== undefined) begin(commit.operationId, commit.create);
            const counters = countersAfter(commit, before?.counters);
            const { timestamp, messageCount = before?.messageCount ?? 0 } = commit;
            const changed = [timestamp, messageCount, counters.conversation, counters.settings];
            sql.exec('update session set updated_at = ?, message_count = ?, conversation = ?, settings = ?', ...changed);
            for (const { store, position, value } of commit.records) {
                if (store === 'message_outlines') parts.put(store, position, value);
                else parts.add(store, position, value);
            }
            commit.approvals.forEach(({ id, value }, at) => {
                parts.remove('approvals', id);
                sql.exec('delete from approvals where id = ?', id);
                if (value === null) return;
                parts.add('approvals', id, value);
                sql.exec('insert into approvals values (?, ?)', id, versions[at] + 1);
            });
            for (const [name, value] of Object.entries(commit.settings)) parts.put('settings', name, value);
            sql.exec('insert into operations (id) values (?)', commit.operationId);
            sql.exec('delete from operations where number <= (select max(number) from operations) - ?', REMEMBERED);
            return { status: 'applied', counters };
        }),
        delete: () => storage.deleteAll(),
    };
}

/**
 * What sessions share, in its object.
 *
 * @param {Storage} storage
 */
function sharedIn(storage) {
    const { sql } = storage;
    const parts = values(sql);
    sql.exec(VALUES);
    sql.exec('create table if not exists policy (version integer)');
    const policyVersion = () => sql.exec('select version from policy').toArray()[0]?.version ?? 0;
    return {
        policyVersion,
        get: (/** @type {string} */ store, /** @type {string} */ key) => parts.list(store, 'key = ?', hex(key))[0]?.[1],
        list(/** @type {string} */ store, prefix = '') {
            // `g` is behind every digit.
            const found = parts.list(store, 'key >= ? and key < ?', hex(prefix), `${hex(prefix)}g`);
            return found.map(([key, value]) => [unhex(key), value]);
        },
        /**
         * @param {{ store: string, key: string, value: Encoded | null }[]} changes
         * @param {number} [expected]
         */
        write: (changes, expected) => storage.transactionSync(() => {
            const version = policyVersion();
            if (expected !== undefined && expected !== version) return { conflict: version };
            for (const { store, key, value } of changes) {
                if (value === null) parts.remove(store, hex(key));
                else parts.put(store, hex(key), value);
            }
            if (!raisesPolicyVersion(changes)) return { policyVersion: version };
            sql.exec('delete from policy');
            sql.exec('insert into policy values (?)', version + 1);
            return { policyVersion: version + 1 };
        }),
    };
}

/**
 * The directory, in its object.
 *
 * @param {Storage} storage
 */
function directoryIn(storage) {
    const { sql } = storage;
    const parts = values(sql);
    sql.exec(VALUES);
    sql.exec('create table if not exists entries (id text primary key, kind text, session_id text, cwd text, updated_at integer)');
    sql.exec('create index if not exists by_time on entries (kind, updated_at, id)');
    sql.exec('create index if not exists by_folder on entries (kind, cwd, updated_at, id)');
    const remove = (/** @type {string} */ id) => {
        sql.exec('delete from entries where id = ?', id);
        parts.remove('values', id);
    };
    return {
        /** @param {import('./adapter.js').DirectoryEntry} entry */
        put: ({ id, kind, sessionId, cwd, updatedAt, value }) => storage.transactionSync(() => {
            const [there] = sql.exec('select updated_at from entries where id = ?', id).toArray();
            if (there?.updated_at > updatedAt) return;
            remove(id);
            sql.exec('insert into entries values (?, ?, ?, ?, ?)', id, kind, sessionId, hex(cwd), updatedAt);
            parts.add('values', id, value);
        }),
        remove: (/** @type {string} */ id) => storage.transactionSync(() => remove(id)),
        /** @param {{ kind: string, cwd?: string, limit: number, before?: string }} filter */
        list({ kind, cwd, limit, before }) {
            const conditions = ['kind = ?'];
            /** @type {(string | number)[]} */
            const bound = [kind];
            if (cwd !== undefined) {
                conditions.push('cwd = ?');
                bound.push(hex(cwd));
            }
            if (before !== undefined) {
                conditions.push('(updated_at, id) < (?, ?)');
                bound.push(...position(before));
            }
            const query = `select * from entries where ${conditions.join(' and ')} order by updated_at desc, id desc limit ?`;
            return sql.exec(query, ...bound, limit).toArray().map(({ id, kind, session_id, cwd, updated_at }) => ({
                kind,
                id,
                sessionId: session_id,
                cwd: unhex(cwd),
                updatedAt: updated_at,
                value: parts.list('values', 'key = ?', id)[0][1],
            }));
        },
    };
}

// ---- from one side to the other ------------------------------------------------------------------------------------------
//
// Calls are requests: one of them carries what a session holds, however much that is, where RPC ends at 32 MiB.

/** Plain data with bytes in it, as bytes: the length of a JSON text, the text, the bytes that it refers to by their place. */
function pack(/** @type {unknown} */ value) {
    /** @type {Uint8Array[]} */
    const bytes = [];
    let length = 0;
    /** @type {(this: any, key: string, part: unknown) => unknown} */
    const replace = function (key, part) {
        // Not `part`: a Buffer has been asked for its `toJSON` by then.
        const own = this[key];
        if (!(own instanceof Uint8Array)) return part;
        bytes.push(own);
        return { $bytes: [length, (length += own.length)] };
    };
    const text = JSON.stringify(value, replace);
    const encoded = new TextEncoder().encode(text);
    return joined([new Uint8Array(Uint32Array.of(encoded.length).buffer), encoded, ...bytes]);
}

function unpack(/** @type {ArrayBuffer} */ packed) {
    const [length] = new Uint32Array(packed, 0, 1);
    const bytes = new Uint8Array(packed, 4 + length);
    return JSON.parse(new TextDecoder().decode(new Uint8Array(packed, 4, length)), (_, part) =>
        Array.isArray(part?.$bytes) ? bytes.slice(...part.$bytes) : part,
    );
}

/** What an error says. Anything may be thrown. */
const saidBy = (/** @type {any} */ error) => [error?.message, error].find((said) => typeof said === 'string') ?? 'it was not said why';

/** Where it says that an object is full, the error for that: a write says so, or the object is lost as it is made durable. */
const full = (/** @type {string} */ message) =>
    message.includes('SQLITE_FULL') ? coded('storage_quota', `the durable object is full, delete what is not needed: ${message}`) : undefined;

/** An object that answers calls of its methods. Its namespace is a binding: only the workers that have it can call it. */
class Answering {
    #methods;

    /** @param {Record<string, (...args: any[]) => unknown>} methods */
    constructor(methods) {
        this.#methods = methods;
    }

    /** @param {Request} request */
    async fetch(request) {
        const args = unpack(await request.arrayBuffer());
        let answer;
        try {
            answer = { gave: await this.#methods[new URL(request.url).pathname.slice(1)](...args) };
        } catch (error) {
            const { code = 'storage_failed' } = /** @type {{ code?: string }} */ (error ?? {});
            answer = { refused: { code, message: saidBy(error) } };
        }
        // The answer leaves when what was written is durable: the runtime holds it back until then.
        return new Response(pack(answer));
    }
}

export class SessionObject extends Answering {
    constructor(/** @type {{ storage: Storage }} */ { storage }) {
        super(sessionIn(storage));
    }
}

export class SharedObject extends Answering {
    constructor(/** @type {{ storage: Storage }} */ { storage }) {
        super(sharedIn(storage));
    }
}

export class DirectoryObject extends Answering {
    constructor(/** @type {{ storage: Storage }} */ { storage }) {
        super(directoryIn(storage));
    }
}

/**
 * @param {Namespace} namespace
 * @param {string} name
 * @returns {(method: string, ...args: unknown[]) => Promise<any>}
 */
const caller = (namespace, name) => async (method, ...args) => {
    const body = pack(args);
    let answer;
    try {
        // A stub stays broken after its object was lost, so that each call takes a new one.
        const stub = namespace.get(namespace.idFromName(name));
        const response = await stub.fetch(`https://object/${method}`, { method: 'POST', body });
        answer = unpack(await response.arrayBuffer());
    } catch (error) {
        const message = saidBy(error);
        // What is overloaded must not be asked again at once, as what is lost is.
        const [code, what] = /** @type {{ overloaded?: boolean } | undefined} */ (error)?.overloaded
            ? ['storage_failed', 'has too much to do, try again later']
            : ['storage_lost', 'was lost in the middle of a call, try again'];
        throw full(message) ?? coded(code, `the durable object ${what}: ${message}`);
    }
    const { gave, refused } = answer;
    if (refused !== undefined) throw full(refused.message) ?? coded(refused.code, refused.message);
    return gave;
};

/**
 * @param {import('./durable_objects.js').DurableObjectsOptions} options
 * @returns {import('./adapter.js').StorageAdapter}
 */
export function durableObjects({ sessions, shared, directory, space = 'default' }) {
    const callShared = caller(shared, space);
    const callDirectory = caller(directory, space);
    return {
        kind: 'durable-objects',
        persistent: true,
        session(id) {
            const call = caller(sessions, `${space}/${id}`);
            return {
                counters: () => call('counters'),
                load: () => call('load'),
                readMessages: (page) => call('readMessages', page),
                commit: (commit) => call('commit', commit),
                delete: () => call('delete'),
            };
        },
        shared: {
            policyVersion: () => callShared('policyVersion'),
            get: (store, key) => callShared('get', store, key),
            list: (store, prefix = '') => callShared('list', store, prefix),
            write: (changes, expected) => callShared('write', changes, ...(expected === undefined ? [] : [expected])),
        },
        directory: {
            put: (entry) => callDirectory('put', entry),
            remove: (id) => callDirectory('remove', id),
            list: (filter) => callDirectory('list', filter),
        },
    };
}
