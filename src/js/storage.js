// What crosses between the core and an adapter of the host: values as UTF-8 JSON text, and answers, which are somebody
// else's data. An answer is read here once, member by member; what is wrong with it is thrown, and a text is thrown for a
// value that cannot be decoded.

import { base64, errorText, isBytes, set } from './plain.js';

const UNREADABLE = 'a value is no JSON text as it was stored';

/** A value as it is stored. What JSON lacks is an object whose only member is `$`. */
export const encoded = (value) => new TextEncoder().encode(JSON.stringify(tagged(value)));

/** The same, as plain data of JSON. */
export function tagged(value) {
    if (Object.is(value, -0)) return { $: '-0' };
    if (typeof value !== 'object' || value === null) return value;
    if (isBytes(value)) return { $: { bytes: base64(value) } };
    if (Array.isArray(value)) return value.map(tagged);
    const object = {};
    for (const key of Object.keys(value)) set(object, key, tagged(value[key]));
    return isTag(value) ? { $: { object } } : object;
}

function isTag(value) {
    const keys = Object.keys(value);
    return keys.length === 1 && keys[0] === '$';
}

/** What was stored, frozen all the way down. */
function decoded(bytes) {
    try {
        if (isBytes(bytes)) return untagged(parsed(bytes));
    } catch {
        // Told below, as for what is no bytes at all.
    }
    throw UNREADABLE;
}

const parsed = (bytes) => JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));

/** A record that has nothing beyond JSON, as its text: one text crosses faster than every value in it. */
function jsonText(bytes) {
    try {
        return isBytes(bytes) ? JSON.stringify(parsed(bytes)) : null;
    } catch {
        return null;
    }
}

/** Of what JSON text said, which is nobody else's. */
export function untagged(value) {
    if (typeof value !== 'object' || value === null) return value;
    if (!Array.isArray(value) && isTag(value)) return ofTag(value.$);
    // Each name is a member of the value's own, so that none is a setter.
    for (const key of Object.keys(value)) value[key] = untagged(value[key]);
    return Object.freeze(value);
}

function ofTag(tag) {
    if (tag === '-0') return -0;
    const { bytes, object } = tag;
    if (typeof bytes === 'string') return bytesOf(atob(bytes));
    if (!isTag(object)) throw UNREADABLE;
    return Object.freeze({ $: untagged(object.$) });
}

function bytesOf(binary) {
    const bytes = new Uint8Array(binary.length);
    for (let at = 0; at < bytes.length; at++) bytes[at] = binary.charCodeAt(at);
    return bytes;
}

/** What stands alone may be damaged alone: then it reads as nothing, or as what the caller says. */
function decodedAlone(bytes, otherwise = null) {
    try {
        return decoded(bytes);
    } catch {
        return otherwise;
    }
}

function list(items, read) {
    if (!Array.isArray(items)) throw new TypeError('a list is missing');
    return Array.from(items, (item) => read(item));
}

/** Numbers and texts of an answer. An object in the place of one is none. */
function flat(answer, ...names) {
    const found = names.map((name) => [name, answer[name]]);
    return Object.fromEntries(found.filter(([, value]) => typeof value !== 'object'));
}

/** One that cannot be decoded is there all the same: whoever asks for it is told. */
const approvals = (answer) => list(answer.approvals, (item) => ({ ...flat(item, 'id', 'version'), value: decodedAlone(item.value) }));

const counters = (answer) => flat(answer, 'conversation', 'settings');

/**
 * A session's record, and beside it the lists that belong to it. Its id is known to whoever asks. What cannot be decoded is null,
 * or for a setting its name among those that are `unreadable`.
 */
function session(answer) {
    const [settings, unreadable] = [{}, []];
    for (const name of Object.keys(answer.settings)) {
        const value = decodedAlone(answer.settings[name], unreadable);
        if (value === unreadable) unreadable.push(name);
        else set(settings, name, value);
    }
    const values = (name) => list(answer[name], (value) => decodedAlone(value));
    const record = {
        ...decodedAlone(answer.header), id: '', ...flat(answer, 'updatedAt', 'messageCount'), counters: counters(answer.counters),
        settings: { ...settings, ...flat(answer, 'origin') },
    };
    return {
        record, unreadable, outlines: list(answer.outlines, jsonText), snapshots: values('snapshots'),
        checkpoints: values('checkpoints'), compactions: values('compactions'), approvals: approvals(answer),
    };
}

/** Nothing is an answer where there is nothing. */
const orNothing = (read) => (answer) => (answer === undefined || answer === null ? undefined : read(answer));

/** How the answer to each question is read. */
const READ = {
    counters: orNothing((answer) => ({ ...counters(answer), ...flat(answer, 'origin') })),
    session: orNothing(session),
    approvals: orNothing(approvals),
    messages: (answer) => list(answer, decoded),
    commit: (answer) => ({ ...flat(answer, 'status'), counters: counters(answer.counters) }),
    nothing: () => undefined,
    version: (policyVersion) => flat({ policyVersion }, 'policyVersion'),
    value: orNothing((value) => decodedAlone(value)),
    values: (answer) => list(answer, ([key, value]) => ({ ...flat({ key }, 'key'), value: decodedAlone(value) })),
    write: (answer) => flat(answer, 'policyVersion', 'conflict'),
    entries: (answer) => list(answer, (item) => ({ ...flat(item ?? {}, 'id', 'sessionId', 'cwd', 'updatedAt'), value: decodedAlone(item?.value) })),
};

/**
 * An adapter's answer, as data of ours.
 *
 * @param {keyof READ} question
 */
export const answered = (question, answer) => READ[question](answer);

/** What an adapter says of a failure. Never throws. */
export function failure(error) {
    const cause = errorText(error);
    try {
        return { cause, ...flat(error, 'code', 'usage', 'quota') };
    } catch {
        return { cause };
    }
}
