// Plain data: JSON values plus Uint8Array. Everything that comes in is copied once, here, and frozen; everything the
// core reads afterwards is such a copy, so that reading it runs no foreign code.

const MAX_DEPTH = 128;
const MAX_SIZE = 32 * 1024 * 1024;
/** In a value that degrades, a text or bytes up to this length always fit, */
const SHORT = 1024;
/** and so much of what is short beyond the largest size. */
const RESERVE = 1024 * 1024;
/** More places than this are not given up one by one. */
const MAX_DEGRADED = 1000;

class NotPlain extends Error {
    constructor(path, why) {
        super(why);
        this.path = path;
    }
}

const hasOwn = (object, name) => Object.prototype.hasOwnProperty.call(object, name);

// Answers for what is a Uint8Array indeed, of another frame or realm too, and runs no foreign code.
const typedArray = Object.getPrototypeOf(Uint8Array.prototype);
const nameOfTypedArray = Object.getOwnPropertyDescriptor(typedArray, Symbol.toStringTag).get;
const lengthOfTypedArray = Object.getOwnPropertyDescriptor(typedArray, 'byteLength').get;

export const isBytes = (value) => nameOfTypedArray.call(value) === 'Uint8Array';

export function isPlainObject(value) {
    const prototype = Object.getPrototypeOf(value);
    // An object of another frame or realm has that realm's Object.prototype, whose own prototype is null too.
    return prototype === Object.prototype || prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Whether a value can hold options: an object of named members, not a list, a Map or another special object. */
export function isRecord(value) {
    try {
        const kind = Object.prototype.toString.call(value);
        return typeof value === 'object' && (kind === '[object Object]' || kind === '[object Module]');
    } catch {
        return false;
    }
}

/** The length of a list that somebody else made; -1 for what is no list, or cannot be read. */
export function listLength(value) {
    try {
        return Array.isArray(value) ? value.length : -1;
    } catch {
        return -1;
    }
}

export function set(object, name, value) {
    // Assigning what Object.prototype has would call its setter, or fail: `__proto__`, or what a page added or froze there.
    if (name in object) {
        Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
    } else {
        object[name] = value;
    }
}

/** The path of a member. */
export function member(path, key) {
    if (!/^[A-Za-z_$][\w$]*$/.test(key)) return `${path}[${JSON.stringify(key)}]`;
    return path === '' ? key : `${path}.${key}`;
}

/** Stands for a member whose getter threw. */
const UNREADABLE = Symbol('unreadable');
/** Thrown by a list or an object that holds more than it may. */
const TOO_MUCH = Symbol('too much');

/**
 * Copies a value that somebody else made.
 *
 * To degrade is to make `null` of what cannot be kept, and to list where it stood. A text or bytes that no longer fit
 * take nothing with them. What is short always fits, so that no role, id or stop reason is ever lost to what stands
 * beside it; a list or an object that holds too much that is short, or too many places that were given up, is given up
 * itself. Only the outermost one is refused instead.
 *
 * @param {unknown} source
 * @param {string} name what the caller calls it, the root of the path of a refusal
 * @param {boolean} degrade whether to degrade instead of refusing all
 * @returns {[unknown, string[], string | undefined, string | undefined]} copy, degraded places in it, path and reason of a refusal
 */
export function copyIn(source, name, degrade) {
    const degraded = [];
    /** Objects that are being copied, from the outermost in, and the names of the members that lead on. */
    const above = new Set();
    const trail = [];
    let size = 0;
    let thrown;

    const here = (root) => trail.reduce(member, root);
    const give = (why) => {
        if (!degrade) throw new NotPlain(here(name), why);
        degraded.push(here(''));
        return null;
    };
    /** Takes room for a value, where there is some. */
    const fits = (length) => {
        if (size + length > MAX_SIZE && !(degrade && length <= SHORT)) return false;
        size += length;
        return true;
    };
    const tooLarge = () => give('makes it larger than 32 MiB; send less, or keep large data elsewhere');
    const unreadable = (error) => give(`cannot be read: ${errorText(error)}`);
    // Foreign code runs here: a getter, or a trap of a proxy.
    const read = (owner, key) => {
        try {
            return owner[key];
        } catch (error) {
            thrown = error;
            return UNREADABLE;
        }
    };
    const copyBytes = (bytes) => {
        if (!fits(lengthOfTypedArray.call(bytes))) return tooLarge();
        try {
            return new Uint8Array(bytes);
        } catch (error) {
            // They were handed to somebody else.
            return unreadable(error);
        }
    };
    const copyMember = (value, key, listed) => {
        trail.push(key);
        const copied = copy(value);
        trail.pop();
        const most = trail.length > 0 ? MAX_DEGRADED : MAX_DEGRADED * 10;
        if (size > MAX_SIZE + RESERVE || degraded.length - listed > most) throw TOO_MUCH;
        return copied;
    };
    const copyList = (list, listed) => {
        const copies = [];
        for (let i = 0; i < list.length; i++) copies.push(copyMember(read(list, i), i, listed));
        return Object.freeze(copies);
    };
    const copyObject = (object, listed) => {
        if (object instanceof URL) return String(object.href);
        if (!isPlainObject(object)) {
            const kind = object.constructor?.name;
            return give(`is a ${typeof kind === 'string' && kind !== '' ? kind : 'special object'}; use plain JSON values and Uint8Array`);
        }
        const copied = {};
        for (const key of Object.keys(object)) {
            const inner = read(object, key);
            if (inner === undefined) continue;
            size += key.length;
            set(copied, key, copyMember(inner, key, listed));
        }
        return Object.freeze(copied);
    };
    const copyInner = (value) => {
        const [depth, before, listed] = [trail.length, size, degraded.length];
        above.add(value);
        try {
            return Array.isArray(value) ? copyList(value, listed) : copyObject(value, listed);
        } catch (error) {
            if (error instanceof NotPlain) throw error;
            if (error === TOO_MUCH && depth === 0) {
                throw new NotPlain(name, 'holds too many values, or too many that cannot be stored; send less, as plain JSON values and Uint8Array');
            }
            trail.length = depth;
            size = before;
            degraded.length = listed;
            return unreadable(error);
        } finally {
            above.delete(value);
        }
    };
    const copy = (value) => {
        if (!fits(8)) return tooLarge();
        switch (typeof value) {
            case 'string':
                return fits(value.length) ? value : tooLarge();
            case 'boolean':
                return value;
            case 'number':
                return Number.isFinite(value) ? value : give(`is ${value}, which JSON cannot hold; use null or text`);
            case 'object':
                break;
            default:
                if (value === UNREADABLE) return unreadable(thrown);
                return give(`is of the type ${typeof value}; use plain JSON values and Uint8Array`);
        }
        if (value === null) return null;
        if (isBytes(value)) return copyBytes(value);
        if (above.has(value)) return give('contains itself; remove the cycle');
        if (above.size >= MAX_DEPTH) return give(`is nested deeper than ${MAX_DEPTH} levels; flatten it`);
        return copyInner(value);
    };
    try {
        const copied = copy(source);
        return [copied, name === 'result' ? placesInResult(copied, degraded) : degraded, undefined, undefined];
    } catch (error) {
        return [undefined, [], error.path, error.message];
    }
}

/** Places in what a tool gave as places in the message that is made of it, as far as they are kept. */
function placesInResult(given, places) {
    if (Array.isArray(given?.content)) return places.filter((place) => /^(content|details)\b/.test(place));
    // A text that became null is an empty content; anything else is shown as JSON.
    return places.slice(0, 1).map(() => (given === null ? 'content' : 'content[0].text'));
}

/** What came out of a database, frozen all the way down as it was when it went in. */
export function refrozen(value) {
    if (typeof value !== 'object' || value === null || isBytes(value)) return value;
    for (const key of Object.keys(value)) refrozen(value[key]);
    return Object.freeze(value);
}

/** A copy whose bytes are copies too. Without bytes inside, the frozen value itself. */
export function copyOut(value) {
    if (!hasBytes(value)) return value;
    if (isBytes(value)) return new Uint8Array(value);
    if (Array.isArray(value)) return Object.freeze(value.map(copyOut));
    const object = {};
    for (const key of Object.keys(value)) set(object, key, copyOut(value[key]));
    return Object.freeze(object);
}

/** Whether nobody changed the bytes of what {@link copyOut} made. */
export function intact(copy, value) {
    if (!hasBytes(value)) return true;
    if (isBytes(value)) return sameBytes(copy, value);
    return Object.keys(value).every((key) => intact(copy[key], value[key]));
}

/** A loop: for a picture of some megabytes, one call per byte is what a person would notice. */
function sameBytes(one, other) {
    if (one.length !== other.length) return false;
    for (let at = 0; at < one.length; at++) if (one[at] !== other[at]) return false;
    return true;
}

/** The bytes of a `Uint8Array`, a copy. Those that were handed to somebody else are none. */
export function bytesOf(value) {
    try {
        return new Uint8Array(value);
    } catch {
        return new Uint8Array();
    }
}

export function hasBytes(value) {
    if (typeof value !== 'object' || value === null) return false;
    if (isBytes(value)) return true;
    return Array.isArray(value) ? value.some(hasBytes) : Object.keys(value).some((key) => hasBytes(value[key]));
}

/** Null 0, boolean 1, number 2, string 3, bytes 4, list 5, object 6. */
export function kind(value) {
    switch (typeof value) {
        case 'boolean':
            return 1;
        case 'number':
            return 2;
        case 'string':
            return 3;
        case 'object':
            if (value === null) return 0;
            return isBytes(value) ? 4 : Array.isArray(value) ? 5 : 6;
        default:
            return 0;
    }
}

// With the u flag a pair is one code point, so that only halves match.
const LONE_SURROGATE = /\p{Surrogate}/u;

/** Whether a string holds no lone surrogate. */
export const wellFormed = String.prototype.isWellFormed ? (string) => string.isWellFormed() : (string) => !LONE_SURROGATE.test(string);

/** A string without lone surrogates, else undefined. */
export function text(value) {
    return typeof value === 'string' && wellFormed(value) ? value : undefined;
}

/** The path of the first string with a lone surrogate, else undefined. */
export function notUnicode(value, path) {
    if (typeof value === 'string') return wellFormed(value) ? undefined : path;
    if (typeof value !== 'object' || value === null || isBytes(value)) return undefined;
    for (const key of Object.keys(value)) {
        const inner = Array.isArray(value) ? `${path}[${key}]` : member(path, key);
        const found = wellFormed(key) ? notUnicode(value[key], inner) : inner;
        if (found !== undefined) return found;
    }
    return undefined;
}

export const length = (value) => (typeof value === 'string' ? value.length : 0);

// What a unit of a text costs where it begins a run of what is alike, and anywhere, in thousandths of a token. The rule is that of
// `src/message/tokens.rs`, and is here once more so that no text is copied for it.
const weight = (run, begins, each) => ({ run, begins, each });
const LOWER_CASE = weight('letters', 560, 145);
const UPPER_CASE = weight('letters', 0, 660);
const DIGIT = weight('digits', 1800, 340);
const BREAK = weight('breaks', 1000, 0);
const BLANK = weight('blanks', 0, 95);
const TAB = weight('tabs', 1450, 0);
const MARK = weight('marks', 330, 250);
const ACCENTED = weight('other', 0, 2500);
const CYRILLIC = weight('other', 0, 650);
const HALF = weight('other', 0, 1500);
const OTHER = weight('other', 0, 1200);

const within = (unit, from, to) => unit >= from && unit <= to;

function weightOf(unit) {
    if (within(unit, 0x61, 0x7a)) return LOWER_CASE;
    if (within(unit, 0x41, 0x5a)) return UPPER_CASE;
    if (within(unit, 0x30, 0x39)) return DIGIT;
    if (unit === 0x0a || unit === 0x0d) return BREAK;
    if (unit === 0x20) return BLANK;
    if (unit === 0x09) return TAB;
    if (unit <= 0x7f) return MARK;
    if (unit <= 0x2ff) return ACCENTED;
    if (within(unit, 0x400, 0x52f)) return CYRILLIC;
    return within(unit, 0xd800, 0xdfff) ? HALF : OTHER;
}

/** Estimated tokens of a string, rounded up; 0 for anything else. */
export function tokens(value) {
    let before = OTHER;
    let thousandths = 0;
    for (let at = 0; at < length(value); at++) {
        const own = weightOf(value.charCodeAt(at));
        thousandths += own.each + (own.run === before.run ? 0 : own.begins);
        before = own;
    }
    return Math.ceil(thousandths / 1000);
}

export const field = (value, name) =>
    typeof value === 'object' && value !== null && hasOwn(value, name) ? value[name] : undefined;

export const keys = (value) => Object.keys(value);

/** JSON text of plain data; bytes become base64. */
export function jsonText(value) {
    return JSON.stringify(value, (_, inner) => (isBytes(inner) ? base64(inner) : inner)) ?? 'null';
}

/** A copy of what JSON text says, undefined for anything else. */
export function parsed(text) {
    try {
        return typeof text === 'string' ? copyIn(JSON.parse(text), '', false)[0] : undefined;
    } catch {
        return undefined;
    }
}

export function base64(bytes) {
    let binary = '';
    for (let i = 0; i < bytes.length; i += 8192) binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
    return btoa(binary);
}

/** Strings joined, code unit for code unit. */
export const joined = (parts, separator) =>
    parts.map((part) => (typeof part === 'string' ? part : '')).join(separator);

export const list = (items) => Object.freeze([...items]);

/** Messages that requests show, kept from one to the next, and where those are that hold bytes: each is looked at once. */
export const growing = () => ({ messages: [], withBytes: [] });

/** Puts messages at the end. */
export function add({ messages, withBytes }, more) {
    for (const message of more) {
        if (hasBytes(message)) withBytes.push(messages.length);
        messages.push(message);
    }
}

/** All of them as they are now, in a frozen list of its own; bytes are copies. */
export function handedOut({ messages, withBytes }) {
    const list = messages.slice();
    for (const at of withBytes) list[at] = copyOut(list[at]);
    return Object.freeze(list);
}

/**
 * Freezes an object of JSON, which then also has members of these names, with spaces between them: made once, all of them, when one
 * is read. They are members of the object itself, so that JSON, a structured clone and a spread have them too.
 */
export function lazily(object, names, maker) {
    let made;
    const read = () => (made ??= refrozen(maker.make()));
    Object.values(object).forEach(refrozen);
    for (const name of names.split(' ')) Object.defineProperty(object, name, { enumerable: true, get: () => read()[name] });
    return Object.freeze(object);
}

/** A frozen object of alternating names and values. */
export function object(entries) {
    const result = {};
    for (let i = 0; i < entries.length; i += 2) set(result, entries[i], entries[i + 1]);
    return Object.freeze(result);
}

export function withField(value, name, inner) {
    const result = {};
    for (const key of Object.keys(value)) set(result, key, value[key]);
    set(result, name, inner);
    return Object.freeze(result);
}

/** What an error says. Never throws. */
export function errorText(error) {
    try {
        if (error instanceof Error) return String(error.message || error.name);
        return typeof error === 'string' ? error : (JSON.stringify(error) ?? String(error));
    } catch {
        return 'unknown error';
    }
}

/** What stands in a list of sessions for a record that cannot be read: where it is, and that it is damaged. */
export function damagedRecord({ id, cwd, updatedAt, messageCount, counters, settings }) {
    const time = Number.isFinite(updatedAt) ? updatedAt : 0;
    const count = (name) => (Number.isSafeInteger(counters?.[name]) ? Math.max(counters[name], 0) : 0);
    return {
        id: String(id), cwd: String(cwd ?? ''), createdAt: time, updatedAt: time,
        messageCount: Number.isInteger(messageCount) && messageCount >= 0 && messageCount < 2 ** 32 ? messageCount : 0,
        counters: { conversation: count('conversation'), settings: count('settings') }, settings: { ...(isRecord(settings) && recordText(settings) && settings), damaged: true },
    };
}

/** JSON text of what came out of a database, where somebody may have edited it; undefined where it holds what JSON cannot. */
export function recordText(record) {
    try {
        return JSON.stringify(record);
    } catch {
        return undefined;
    }
}

/** Records of sessions as JSON text, with no more than a list needs: of their settings, which may be long, those of these names. */
export function listedText(records, names) {
    const pick = (settings) => {
        const picked = {};
        for (const name of names) picked[name] = field(settings, name) ?? undefined;
        return picked;
    };
    const listed = ({ id, cwd, createdAt, updatedAt, messageCount, counters, settings }) => ({
        id, cwd, createdAt, updatedAt, messageCount, counters, settings: isRecord(settings) ? pick(settings) : settings,
    });
    return recordText(records.map(listed));
}

/** Tells a listener of an event. What it throws, or what a promise that it returns rejects with, is told to `failed`. */
export function hear(listener, event, failed) {
    const tell = (error) => failed(errorText(error));
    try {
        const heard = listener(event);
        // A promise of our own: one of the host's may have a `then` of any kind.
        if (typeof heard === 'object' && heard !== null) (async () => await heard)().catch(tell).catch(() => {});
    } catch (error) {
        tell(error);
    }
}

/** Calls a function of the host and waits for what it returns, a promise or not. Whatever it does, this is a promise of ours. */
export const settled = async (target, method, args) => await method.apply(target, args);

// The last time that a calendar has.
const LAST = 8.64e15;

/** A time in ISO 8601. */
export const iso = (time) => new Date(Math.max(-LAST, Math.min(time, LAST))).toISOString();

/** Text as names are compared where a difference must not open anything. */
export const fold = (text) =>
    // Which sigma a name ends with depends on what comes behind it: for the beginning of a name nobody knows.
    text.normalize('NFC').toUpperCase().toLowerCase().normalize('NFC').replaceAll('\u03c2', '\u03c3');

/** Milliseconds by a clock that nobody can set, where there is one. */
export const monotonic = () => globalThis.performance?.now();
