// Plain data: JSON values plus Uint8Array. Everything that comes in is copied once, here, and frozen; everything the
// core reads afterwards is such a copy, so that reading it runs no foreign code.

const MAX_DEPTH = 128;
const MAX_SIZE = 32 * 1024 * 1024;
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

function isPlainObject(value) {
    const prototype = Object.getPrototypeOf(value);
    // An object of another frame or realm has that realm's Object.prototype, whose own prototype is null too.
    return prototype === null || Object.getPrototypeOf(prototype) === null;
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

function set(object, name, value) {
    // Assigning what Object.prototype has would call its setter, or fail: `__proto__`, or what a page added or froze there.
    if (name in object) {
        Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
    } else {
        object[name] = value;
    }
}

const member = (path, key) => (/^[A-Za-z_$][\w$]*$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`);

/** Stands for a member whose getter threw. */
const UNREADABLE = Symbol('unreadable');

/**
 * Copies a value that somebody else made.
 *
 * @param {unknown} source
 * @param {string} name what the caller calls it, the root of paths
 * @param {boolean} degrade whether what cannot be kept becomes `null` (and its path is listed) instead of refusing all
 * @returns {[unknown, string[], string | undefined, string | undefined]} copy, degraded paths, path and reason of a refusal
 */
export function copyIn(source, name, degrade) {
    const degraded = [];
    /** Objects that are being copied, from the outermost in, and the names of the members that lead on. */
    const above = new Set();
    const trail = [];
    let size = 0;
    let thrown;

    const here = () => trail.reduce(member, name);
    const give = (why) => {
        if (!degrade) throw new NotPlain(here(), why);
        if (degraded.length >= MAX_DEGRADED) {
            throw new NotPlain(name, `holds more than ${MAX_DEGRADED} values that cannot be stored; use plain JSON values and Uint8Array`);
        }
        degraded.push(here());
        return null;
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
    const copyMember = (value, key) => {
        trail.push(key);
        const copied = copy(value);
        trail.pop();
        return copied;
    };
    const copyList = (list) => {
        const copies = [];
        // Without an end in sight, a list that is too large ends here.
        for (let i = 0; i < list.length && size <= MAX_SIZE; i++) copies.push(copyMember(read(list, i), i));
        return Object.freeze(copies);
    };
    const copyObject = (object) => {
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
            set(copied, key, copyMember(inner, key));
        }
        return Object.freeze(copied);
    };
    const copy = (value) => {
        size += 8;
        if (size > MAX_SIZE) return tooLarge();
        switch (typeof value) {
            case 'string':
                size += value.length;
                return size > MAX_SIZE ? tooLarge() : value;
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
        if (isBytes(value)) {
            size += lengthOfTypedArray.call(value);
            return size > MAX_SIZE ? tooLarge() : new Uint8Array(value);
        }
        if (above.has(value)) return give('contains itself; remove the cycle');
        if (above.size >= MAX_DEPTH) return give(`is nested deeper than ${MAX_DEPTH} levels; flatten it`);
        const depth = trail.length;
        above.add(value);
        try {
            return Array.isArray(value) ? copyList(value) : copyObject(value);
        } catch (error) {
            if (error instanceof NotPlain) throw error;
            trail.length = depth;
            return unreadable(error);
        } finally {
            above.delete(value);
        }
    };
    try {
        return [copy(source), degraded, undefined, undefined];
    } catch (error) {
        return [undefined, [], error.path, error.message];
    }
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

/** A string without lone surrogates, else undefined. */
export function text(value) {
    return typeof value === 'string' && !LONE_SURROGATE.test(value) ? value : undefined;
}

/** The path of the first string with a lone surrogate, else undefined. */
export function notUnicode(value, path) {
    if (typeof value === 'string') return LONE_SURROGATE.test(value) ? path : undefined;
    if (typeof value !== 'object' || value === null || isBytes(value)) return undefined;
    for (const key of Object.keys(value)) {
        const inner = Array.isArray(value) ? `${path}[${key}]` : member(path, key);
        const found = LONE_SURROGATE.test(key) ? inner : notUnicode(value[key], inner);
        if (found !== undefined) return found;
    }
    return undefined;
}

export const length = (value) => (typeof value === 'string' ? value.length : 0);

export const field = (value, name) =>
    typeof value === 'object' && value !== null && hasOwn(value, name) ? value[name] : undefined;

export const keys = (value) => Object.keys(value);

/** Length as JSON text; bytes count as base64. */
export function jsonLength(value) {
    switch (typeof value) {
        case 'string':
            return JSON.stringify(value).length;
        case 'number':
        case 'boolean':
            return String(value).length;
        case 'object':
            break;
        default:
            return 0;
    }
    if (value === null) return 4;
    if (isBytes(value)) return 2 + 4 * Math.ceil(value.length / 3);
    if (Array.isArray(value)) return value.reduce((sum, item) => sum + jsonLength(item) + 1, 1 + (value.length === 0));
    const keys = Object.keys(value);
    return keys.reduce((sum, key) => sum + jsonLength(key) + jsonLength(value[key]) + 2, 1 + (keys.length === 0));
}

/** JSON text of plain data; bytes become base64. */
export function jsonText(value) {
    return JSON.stringify(value, (_, inner) => (isBytes(inner) ? base64(inner) : inner)) ?? 'null';
}

function base64(bytes) {
    let binary = '';
    for (let i = 0; i < bytes.length; i += 8192) binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
    return btoa(binary);
}

/** Strings joined, code unit for code unit. */
export const joined = (parts, separator) =>
    parts.map((part) => (typeof part === 'string' ? part : '')).join(separator);

export const list = (items) => Object.freeze([...items]);

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

/** Calls a function of the host and waits for what it returns, a promise or not. Whatever it does, this is a promise of ours. */
export const settled = async (target, method, args) => await method.apply(target, args);

// The last time that a calendar has.
const LAST = 8.64e15;

/** A time in ISO 8601. */
export const iso = (time) => new Date(Math.max(-LAST, Math.min(time, LAST))).toISOString();

/** Text as names are compared where a difference must not open anything. */
export const fold = (text) => text.normalize('NFC').toUpperCase().toLowerCase().normalize('NFC');

/** A frozen decision whose trace is made when it is read. */
export function withTrace(decision, policy, input) {
    let trace;
    frozen(decision.rule);
    frozen(decision.paths);
    Object.defineProperty(decision, 'trace', {
        enumerable: true,
        get: () => (trace ??= frozen(policy.trace(input))),
    });
    return Object.freeze(decision);
}

/** JSON with everything in it frozen. */
function frozen(value) {
    if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(frozen);
    return value;
}

/** Milliseconds by a clock that nobody can set, where there is one. */
export const monotonic = () => globalThis.performance?.now();
