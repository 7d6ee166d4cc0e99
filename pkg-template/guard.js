// @ts-check
// What stands between the generated glue and the instance. It turns a call at the wrong time into a typed error, and
// a trap into the end of the instance: everything that still waits for it is rejected, and nothing calls it again.

import { RunContextError } from './shim.js';
import { letGo } from './tabs.js';

/** @type {'new' | 'ready' | 'failed'} */
let current = 'new';
/** Why the last instance failed. @type {unknown} */
let trap;
/** Starts the module where that needs no waiting. @type {(() => void) | undefined} */
let startNow;
/** How the promises that the instance has not settled yet are rejected. @type {Set<(error: unknown) => void>} */
const unsettled = new Set();

export const phase = () => current;

/** @param {'new' | 'ready' | 'failed'} next */
export function setPhase(next) {
    current = next;
}

/** @param {() => void} start */
export function onFirstUse(start) {
    startNow = start;
}

/** In place of an instance's exports while there is none. The glue touches nothing else. */
export const absent = new Proxy(Object.create(null), {
    get(_, name) {
        // What a dead instance left behind needs no cleaning up.
        if (name === '__wbindgen_destroy_closure') return () => {};
        if (current === 'new' && startNow !== undefined) {
            startNow();
            return started[name];
        }
        throw unusable();
    },
});

/** The exports that are in use. @type {Record<PropertyKey, any>} */
let started;

function unusable() {
    if (current === 'new') {
        return new RunContextError('not_initialized', 'the module is not loaded: `await init()` first');
    }
    return moduleFailed('the module failed and its state is gone: `await init()` for a new one, what was saved is in storage');
}

/** @param {string} message */
function moduleFailed(message) {
    const error = new RunContextError('module_failed', message);
    if (trap !== undefined) error.cause = trap;
    return error;
}

/** For an object of an instance that is gone, whether or not there is a new one. */
export function stale() {
    return current === 'failed'
        ? unusable()
        : moduleFailed('this object belongs to a module that failed: open it again');
}

/**
 * For what the bindings refuse before our own code sees it.
 *
 * @param {string} message
 */
export function misuse(message) {
    return new RunContextError('invalid_argument', message);
}

/**
 * The exports of an instance, watched for traps.
 *
 * @param {WebAssembly.Exports} exports
 * @param {() => void} remove makes the glue let go of the instance
 * @returns {Record<PropertyKey, any>}
 */
export function guarded(exports, remove) {
    // Calls into this instance that are on the stack.
    let depth = 0;
    let alive = true;

    /** @param {unknown} error @param {boolean} quiet */
    const failed = (error, quiet) => {
        if (alive && endsInstance(error)) {
            alive = false;
            trap = error;
            current = 'failed';
            remove();
            letGo();
            const why = unusable();
            for (const reject of unsettled) reject(why);
            unsettled.clear();
            // Nobody called but the event loop, and it would take the error for an uncaught one. Whoever waits was told.
            if (quiet) return [];
            throw why;
        }
        throw error;
    };

    /** @type {Record<PropertyKey, any>} */
    const watched = Object.create(null);
    for (const [name, value] of Object.entries(exports)) {
        if (typeof value !== 'function') {
            watched[name] = value;
            continue;
        }
        // Some compilers put a hash behind the name of the crate.
        const quiet = /^wasm_bindgen\w*?__convert__closures/.test(name);
        const call = /** @type {(...args: any[]) => any} */ (value);
        // Fixed parameters, not a rest array: these are the hot calls, and WebAssembly ignores what is too many.
        /** @type {(...args: any[]) => any} */
        const few = (a, b, c, d, e, f, g, h) => {
            if (!alive) throw unusable();
            depth++;
            try {
                return call(a, b, c, d, e, f, g, h);
            } catch (error) {
                return failed(error, quiet && depth === 1);
            } finally {
                depth--;
            }
        };
        /** @type {(...args: any[]) => any} */
        const many = (...args) => {
            if (!alive) throw unusable();
            depth++;
            try {
                return call(...args);
            } catch (error) {
                return failed(error, quiet && depth === 1);
            } finally {
                depth--;
            }
        };
        watched[name] = call.length <= 8 ? few : many;
    }
    started = watched;
    return watched;
}

/**
 * A trap, or an exhausted stack (a RangeError, in Firefox an InternalError): the code stopped half way. Errors that
 * the code throws on purpose come back as return values and never get here.
 *
 * @param {unknown} error
 */
function endsInstance(error) {
    return (
        error instanceof WebAssembly.RuntimeError ||
        error instanceof RangeError ||
        (error instanceof Error && error.name === 'InternalError')
    );
}

/**
 * A promise that the instance settles, and that is rejected should the instance fail first.
 *
 * @param {(resolve: (value: unknown) => void, reject: (error: unknown) => void) => void} executor
 */
export function promise(executor) {
    return new Promise((resolve, reject) => {
        unsettled.add(reject);
        executor(
            (value) => {
                unsettled.delete(reject);
                resolve(value);
            },
            (error) => {
                unsettled.delete(reject);
                reject(error);
            },
        );
    });
}

/**
 * A function that returns a promise never throws.
 *
 * @template {(this: any, ...args: any[]) => any} F
 * @param {F} method
 */
export function settled(method) {
    /** @type {(this: any, ...args: any[]) => any} */
    const wrapped = function (...args) {
        try {
            return method.apply(this, args);
        } catch (error) {
            return Promise.reject(error);
        }
    };
    Object.defineProperty(wrapped, 'name', { value: method.name });
    Object.defineProperty(wrapped, 'length', { value: method.length });
    return /** @type {F} */ (wrapped);
}

/**
 * The same for methods, in place.
 *
 * @param {any} owner a class, or its prototype
 * @param {string[]} names
 */
export function settledMethods(owner, names) {
    for (const name of names) {
        const value = settled(owner[name]);
        Object.defineProperty(owner, name, { value, writable: true, configurable: true, enumerable: false });
    }
}
