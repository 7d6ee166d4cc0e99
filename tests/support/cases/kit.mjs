// What the tests have on the page's side of the browser, and in Node: dumps, scripted models and tools, text for the
// way to the test. It runs as it is, without a build step and without a package.

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
                if (store === 'message_outlines') record.outlines = JSON.parse(record.outlines);
                return [keys[at], record];
            });
        }
        return found;
    } finally {
        database.close();
    }
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

export const skillFile = (name, body, description = `What ${name} is for.`) =>
    `---\nname: ${name}\ndescription: ${description}\n---\n\n${body}\n`;
