// @ts-check
// From bytes to a running instance: absent -> ready -> failed -> ready. There is at most one instance.

import { __adopt, __imports, __moduleVersion } from './glue.js';
import { absent, guarded, onFirstUse, phase, setPhase } from './guard.js';
import { RunContextError } from './shim.js';
import { version } from './version.js';

/** The last module that ran: a new instance after a trap needs no second download. */
/** @type {WebAssembly.Module | undefined} */
let lastModule;

/** The start that is under way. Calls in the meantime share it; it is forgotten at its end, so that a failure can be retried. */
/** @type {Promise<void> | undefined} */
let starting;

/**
 * @param {any} input what the caller gave to `init`, or undefined
 * @param {() => WebAssembly.Module | Promise<WebAssembly.Module>} load the module of this package
 * @returns {Promise<void>}
 */
export function start(input, load) {
    if (starting !== undefined || phase() === 'ready') {
        // Not needed, and its failure is nobody's.
        Promise.resolve(input).catch(() => {});
    }
    starting ??= startOnce(input, load).finally(() => {
        starting = undefined;
    });
    return starting;
}

/**
 * @param {any} input
 * @param {() => WebAssembly.Module | Promise<WebAssembly.Module>} load
 */
async function startOnce(input, load) {
    // From here on no call into an older instance is on the stack.
    await undefined;
    if (phase() === 'ready') return;
    const module = input !== undefined ? await compile(input) : (lastModule ?? (await loaded(load)));
    const instance = await WebAssembly.instantiate(module, imports()).catch(notLoaded);
    // On Node a call may have started the module in the meantime.
    if (phase() !== 'ready') adopt(instance, module);
}

/**
 * Where the module can be loaded synchronously, its first use starts it.
 *
 * @param {() => WebAssembly.Module} load
 */
export function startWhenUsed(load) {
    onFirstUse(() => {
        try {
            const module = load();
            adopt(new WebAssembly.Instance(module, imports()), module);
        } catch (cause) {
            notLoaded(cause);
        }
    });
}

/** @returns {any} */
const imports = () => __imports();

/**
 * @param {WebAssembly.Instance} instance
 * @param {WebAssembly.Module} module
 */
function adopt(instance, module) {
    const before = phase();
    __adopt(guarded(instance.exports, () => __adopt(absent)));
    setPhase('ready');
    try {
        /** @type {any} */ (instance.exports).__wbindgen_start();
        const found = __moduleVersion();
        if (found !== version) {
            throw new RunContextError(
                'invalid_argument',
                `the module given to init() is of version \`${found}\`, this package is \`${version}\`: use the file of this package`,
            );
        }
    } catch (error) {
        __adopt(absent);
        setPhase(before);
        throw error;
    }
    lastModule = module;
}

/**
 * @param {any} input
 * @returns {Promise<WebAssembly.Module>}
 */
export async function compile(input) {
    try {
        const source = await input;
        if (source instanceof WebAssembly.Module) return source;
        if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) {
            return await WebAssembly.compile(/** @type {BufferSource} */ (source));
        }
        if (typeof Response === 'function' && source instanceof Response) return await compileResponse(source);
        const isAddress = typeof source === 'string' || source instanceof URL;
        if (isAddress || (typeof Request === 'function' && source instanceof Request)) {
            return await compileResponse(await fetch(source));
        }
    } catch (cause) {
        return notLoaded(cause);
    }
    throw new RunContextError(
        'invalid_argument',
        'init() takes a URL, Request, Response, BufferSource or WebAssembly.Module, or a promise of one',
    );
}

/** @param {Response} response */
async function compileResponse(response) {
    if (!response.ok) {
        throw new RunContextError(
            'module_failed',
            `the server answered ${response.status} for \`${response.url}\`: call init() again when it can serve the module`,
            { url: response.url, status: response.status },
        );
    }
    const type = response.headers.get('content-type') ?? '';
    // Streaming compilation insists on the type. A server that does not know it still gets its module compiled.
    if (typeof WebAssembly.compileStreaming === 'function' && /^application\/wasm\s*(;|$)/i.test(type)) {
        return await WebAssembly.compileStreaming(response);
    }
    return await WebAssembly.compile(await response.arrayBuffer());
}

/** @param {() => WebAssembly.Module | Promise<WebAssembly.Module>} load */
async function loaded(load) {
    try {
        return await load();
    } catch (cause) {
        return notLoaded(cause);
    }
}

/**
 * @param {unknown} cause
 * @returns {never}
 */
function notLoaded(cause) {
    if (cause instanceof RunContextError) throw cause;
    const text = cause instanceof Error ? cause.message : String(cause);
    const error = new RunContextError('module_failed', `the module could not be loaded, call init() again: ${text}`);
    error.cause = cause;
    throw error;
}
