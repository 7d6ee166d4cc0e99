// Assertions that run in the browser and in Node alike.

import { rc, outcome, toText } from './kit.mjs';

/** The closed list of the contract. */
export const CODES = new Set([
    'not_initialized', 'module_failed', 'invalid_argument', 'not_found', 'session_busy', 'session_interrupted',
    'pending_approvals', 'pending_save', 'disposed', 'aborted', 'budget_exceeded', 'message_not_storable',
    'dialect_mismatch', 'skill_unavailable', 'skill_invalid', 'conflict', 'storage_blocked', 'storage_quota',
    'storage_lost', 'storage_schema_newer', 'storage_failed', 'nothing_to_compact', 'approval_not_found',
    'approval_changed', 'tool_not_gated', 'group_protected', 'group_in_use', 'rule_conflict', 'import_invalid',
    'unauthorized', 'host_failed', 'model_failed',
]);

export function fail(message) {
    throw new Error(message);
}

export function ok(condition, what = 'it is not so') {
    if (!condition) fail(what);
}

/** Equal to the last code unit, member and prototype. */
export function same(actual, expected, what = '') {
    const where = difference(actual, expected, 'it');
    if (where) fail(`${what && `${what}: `}${where}\n  got ${show(actual)}\n  not ${show(expected)}`);
}

const show = (value) => {
    const text = toText(value);
    return text.length > 2000 ? `${text.slice(0, 2000)}...` : text;
};

function difference(a, b, path) {
    if (Object.is(a, b)) return undefined;
    if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return `${path} differs`;
    if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return `${path} is of another kind`;
    const names = Reflect.ownKeys(a);
    const missing = Reflect.ownKeys(b).find((name) => !Object.hasOwn(a, name));
    if (missing !== undefined) return `${path}.${String(missing)} is missing`;
    for (const name of names) {
        if (!Object.hasOwn(b, name)) return `${path}.${String(name)} is too much`;
        const found = difference(a[name], b[name], `${path}.${String(name)}`);
        if (found) return found;
    }
    return undefined;
}

/** What is wrong with an error of the package, as far as style and kind go; undefined where nothing is. */
export function faultOf({ typed, code, message, data }) {
    if (!typed) return `it is no RunContextError: ${code} ${message}`;
    if (!CODES.has(code)) return `\`${code}\` is no code`;
    if (/recursive use|unreachable|borrow|panick|null pointer/i.test(message)) return `it speaks of the machinery: ${message}`;
    if (/^[A-Z]/.test(message) && !/^SKILL/.test(message)) return `it begins with a capital: ${message}`;
    if (/[.!]$/.test(message)) return `it ends with a period: ${message}`;
    if (/^\s*$/.test(message) || /\[object|undefined `|JsValue|Rust|serde/.test(message)) return `it says nothing: ${message}`;
    if (typeof data !== 'object' || data === null) return 'it has no data';
    return undefined;
}

/** The error that a call ends with, which has this code. `how` is `rejected` or `threw`. */
export async function fails(work, code, how = 'rejected') {
    const found = await outcome(work);
    const error = found[how];
    if (!error) fail(`it should have ${how} with ${code}: ${show(found)}`);
    const fault = faultOf(error);
    if (fault) fail(fault);
    same(error.code, code, error.message);
    return error;
}

/** Waits for something that has to come. */
export function soon(promise, what, milliseconds = 10_000) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`${what} never came`)), milliseconds);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
