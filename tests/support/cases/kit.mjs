// What the tests have on the page's side of the browser, and in Node: dumps, scripted models and tools, text for the
// way to the test. It runs as it is, without a build step and without a package.

import { outlinesOf } from './outlines.js';

/** The package under test; whoever loads this sets it with `use`. */
export let rc;
export function use(module) {
    rc = module;
}

// ---- values as text, code unit for code unit ---------------------------------------------------------------------

/** JSON text of a value; bytes, undefined, errors and numbers that JSON cannot hold are marked. */
export function toText(value) {
    return JSON.stringify(marked(value)) ?? 'null';
}

function marked(value) {
    if (value === undefined) return { $: 'undefined' };
    if (typeof value === 'number' && !Number.isFinite(value)) return { $: String(value) };
    if (typeof value === 'bigint' || typeof value === 'symbol' || typeof value === 'function') return { $: String(value) };
    if (typeof value !== 'object' || value === null) return value;
    if (value instanceof Uint8Array) return { $: 'bytes', bytes: [...value] };
    if (Array.isArray(value)) return Array.from(value, marked);
    if (value instanceof Error) return { $: 'error', ...marked(plainError(value)) };
    return Object.fromEntries(Object.keys(value).map((key) => [key, marked(value[key])]));
}

/** A value that was marked. */
export function fromText(text) {
    return JSON.parse(text, (_, value) => {
        if (typeof value !== 'object' || value === null || !('$' in value)) return value;
        if (value.$ === 'bytes') return Uint8Array.from(value.bytes);
        if (value.$ === 'NaN' || value.$.endsWith('Infinity')) return Number(value.$);
        return value;
    });
}

/** What a test compares of an error. */
export function plainError(error) {
    return {
        typed: rc !== undefined && error instanceof rc.RunContextError,
        code: error?.code,
        message: String(error?.message ?? error),
        data: error?.data,
    };
}

/** What became of a call: `{ gave }`, or `{ threw }` or `{ rejected }` with the error. */
export async function outcome(work) {
    let returned;
    try {
        returned = work();
    } catch (error) {
        return { threw: plainError(error) };
    }
    try {
        return { gave: await returned };
    } catch (error) {
        return { rejected: plainError(error) };
    }
}

// ---- what is stored ----------------------------------------------------------------------------------------------

const settled = (request) =>
    new Promise((resolve, reject) => {
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
    });

/**
 * Every record of every store, read past the package: `{ store: [[key, value], ...] }`. Packs of outlines are shown as
 * what their text says.
 */
export async function dump(name) {
    const database = await settled(indexedDB.open(name));
    try {
        const stores = [...database.objectStoreNames];
        const transaction = database.transaction(stores, 'readonly');
        const found = {};
        for (const store of stores) {
            const source = transaction.objectStore(store);
            const [keys, records] = await Promise.all([settled(source.getAllKeys()), settled(source.getAll())]);
            found[store] = records.map((record, at) => {
                if (store === 'message_outlines') record.outlines = outlinesOf(record.outlines);
                return [keys[at], record];
            });
        }
        return found;
    } finally {
        database.close();
    }
}

/** Makes the database that a file of `tests/fixtures/schema` describes, past the package. */
export async function makeDatabase(name, { version, stores }) {
    const request = indexedDB.open(name, version);
    request.onupgradeneeded = () => {
        for (const [store, { keyPath, indexes, records }] of Object.entries(stores)) {
            const made = request.result.createObjectStore(store, { keyPath });
            for (const [index, { keyPath, unique }] of Object.entries(indexes)) made.createIndex(index, keyPath, { unique });
            for (const [key, record] of records) keyPath === null ? made.put(record, key) : made.put(record);
        }
    };
    (await settled(request)).close();
}

/** Changes a record; what is changed to nothing is removed. */
export async function edit(name, store, key, change) {
    const database = await settled(indexedDB.open(name));
    const records = database.transaction(store, 'readwrite').objectStore(store);
    const changed = change(await settled(records.get(key)));
    if (changed === undefined) await settled(records.delete(key));
    else await settled(records.keyPath === null ? records.put(changed, key) : records.put(changed));
    database.close();
}

// ---- scripted host -----------------------------------------------------------------------------------------------

/** A clock that shows `first`, then one millisecond more each time it is read. */
export function clock(first = 1000) {
    let now = first;
    return () => now++;
}

/** A clock that a test sets. */
export function handClock(now) {
    const clock = () => clock.now;
    clock.now = now;
    return clock;
}

/** A promise with its ends in the open. */
export function deferred() {
    const ends = {};
    ends.promise = new Promise((resolve, reject) => Object.assign(ends, { resolve, reject }));
    return ends;
}

/** The abort of a signal as a rejection, as `fetch` has it. */
export function aborted(signal) {
    return new Promise((_, reject) => {
        const fail = () => reject(signal.reason);
        if (signal.aborted) fail();
        else signal.addEventListener('abort', fail);
    });
}

/**
 * A model that gives its answers in order: messages, or functions of the call. It counts what was asked of it, and keeps
 * every request as text.
 */
export function scripted(...answers) {
    const model = {
        calls: 0,
        checks: 0,
        requests: [],
        reports: [],
        check() {
            model.checks++;
        },
        async complete(request, options) {
            const answer = answers[Math.min(model.calls++, answers.length - 1)];
            model.requests.push(toText(request));
            model.reports.push(options.report);
            return typeof answer === 'function' ? await answer(request, options) : answer;
        },
    };
    return model;
}

/** A tool that touches nothing, and counts. */
export function tool(name, execute, more = {}) {
    const made = {
        name,
        access: 'none',
        ...more,
        runs: 0,
        async execute(args, context) {
            made.runs++;
            return await execute(args, context);
        },
    };
    return made;
}

export const assistant = (text, more = {}) => ({
    role: 'assistant',
    content: [{ type: 'text', text }],
    stopReason: 'stop',
    ...more,
});

export const calling = (...calls) => ({
    role: 'assistant',
    content: calls.map(([id, name, args = {}]) => ({ type: 'toolCall', id, name, arguments: args })),
    stopReason: 'toolUse',
});

export const resultOf = (id, name, text, more = {}) => ({
    role: 'toolResult',
    toolCallId: id,
    toolName: name,
    content: [{ type: 'text', text }],
    isError: false,
    ...more,
});

/** A text of this length that does not compress to nothing, always the same. */
export function noise(length) {
    let state = 1;
    const letters = [];
    for (let at = 0; at < length; at++) {
        state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
        letters.push(String.fromCharCode(33 + ((state >> 16) % 90)));
    }
    return letters.join('');
}

export const skillFile = (name, body, description = `What ${name} is for.`) =>
    `---\nname: ${name}\ndescription: ${description}\n---\n\n${body}\n`;

// ---- writes that fail ----------------------------------------------------------------------------------------------

const undo = [];
function replace(object, name, value) {
    const before = Object.getOwnPropertyDescriptor(object, name);
    Object.defineProperty(object, name, { ...before, value });
    undo.push(() => Object.defineProperty(object, name, before));
}

/** Ends every disturbance. */
export function calm() {
    while (undo.length > 0) undo.pop()();
}

/** How a transaction that writes can fail. */
const FAILURES = {
    /** It cannot be begun. */
    refuse() {
        throw new DOMException('out of order', 'UnknownError');
    },
    /** Its second record cannot be put. */
    put(transaction) {
        transaction.puts = 0;
    },
    /** Everything is asked for, and then the browser takes it back. */
    quota(transaction) {
        transaction.full = true;
    },
    /** It is complete, but what the page hears is that it failed. */
    unheard(transaction) {
        transaction.addEventListener('complete', (event) => {
            event.stopImmediatePropagation();
            Object.defineProperty(transaction, 'error', { value: new DOMException('no answer', 'UnknownError') });
            transaction.dispatchEvent(new Event('abort'));
        });
    },
    /** The same, and without a reason, as when the connection is gone. */
    lost(transaction) {
        transaction.addEventListener('complete', (event) => {
            event.stopImmediatePropagation();
            transaction.dispatchEvent(new Event('abort'));
        });
    },
};

/**
 * Lets transactions that write fail: `times` of them from the `first` one on (the next is 1).
 *
 * @param {keyof FAILURES} how
 * @returns {{ writes: number }} counts the transactions that write
 */
export function failWrites(how, first = 1, times = Infinity) {
    const seen = { writes: 0 };
    const begin = IDBDatabase.prototype.transaction;
    replace(IDBDatabase.prototype, 'transaction', function (stores, mode, options) {
        const fails = mode === 'readwrite' && ++seen.writes >= first && seen.writes < first + times;
        if (fails && how === 'refuse') FAILURES.refuse();
        const transaction = begin.call(this, stores, mode, options);
        if (fails) FAILURES[how](transaction);
        return transaction;
    });
    for (const method of ['put', 'delete']) {
        const before = IDBObjectStore.prototype[method];
        replace(IDBObjectStore.prototype, method, function (...args) {
            const { transaction } = this;
            if (method === 'put' && transaction.puts++ === 1) throw new DOMException('no such key', 'DataError');
            const request = before.apply(this, args);
            if (transaction.full) {
                request.onsuccess = () => {
                    Object.defineProperty(transaction, 'error', { value: new DOMException('no more', 'QuotaExceededError') });
                    transaction.abort();
                };
            }
            return request;
        });
    }
    return seen;
}

/** Calls back whenever a transaction puts its first record: a commit is under way. */
export function onCommit(call) {
    const seen = new WeakSet();
    const put = IDBObjectStore.prototype.put;
    replace(IDBObjectStore.prototype, 'put', function (...args) {
        if (!seen.has(this.transaction)) call();
        seen.add(this.transaction);
        return put.apply(this, args);
    });
}
