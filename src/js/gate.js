// Decisions as they are handed out, and inputs that repeat the one before. What is compared here is only whether an input is the
// same text again; what it means is decided elsewhere.

import { isPlainObject, wellFormed } from './plain.js';

/** JSON with everything in it frozen. */
function frozen(value) {
    if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(frozen);
    return value;
}

/** A decision of which only the outcome is known yet; the rest is found out when it is read, all of it at once. */
class Decision {
    #explainer;
    #given;
    #details;
    #trace;

    constructor(outcome, reason, explainer, given) {
        this.outcome = outcome;
        this.reason = reason;
        this.#explainer = explainer;
        this.#given = given;
    }

    static detail(decision, name) {
        return (decision.#details ??= frozen(decision.#explainer.details(decision.#given)))[name];
    }

    static trace(decision) {
        return (decision.#trace ??= frozen(decision.#explainer.trace(decision.#given)));
    }
}

// Members of the decision itself, so that JSON, a structured clone and a spread have them too.
const detail = (name) => ({
    enumerable: true,
    get() {
        return Decision.detail(this, name);
    },
});
const [MESSAGE, PATHS, RULE, DIRECTORY] = ['message', 'paths', 'rule', 'workingDirectory'].map(detail);
const TRACE = {
    enumerable: true,
    get() {
        return Decision.trace(this);
    },
};

/** What a policy keeps here: the words of decisions by their numbers, and the last input, once there is one. */
export const memory = (outcomes, reasons) => ({ outcomes, reasons, last: undefined });

/** A decision by its number, on what was given to whoever explains it. */
export function decisionOf({ outcomes, reasons }, code, explainer, given) {
    const decision = new Decision(outcomes[(code >> 1) & 3], reasons[(code >> 3) & 31], explainer, given);
    Object.defineProperty(decision, 'message', MESSAGE);
    Object.defineProperty(decision, 'paths', PATHS);
    Object.defineProperty(decision, 'workingDirectory', DIRECTORY);
    Object.defineProperty(decision, 'trace', TRACE);
    // What no rule decided has none.
    if (code >> 8) Object.defineProperty(decision, 'rule', RULE);
    return Object.freeze(decision);
}

/** Longer arguments are read as any other input. */
const MOST = 1024 * 1024;
const DEEPEST = 16;

/** How much of the arguments is there, in code units and values; NaN for what has to be read with more care. */
function plainSize(value, depth) {
    switch (typeof value) {
        case 'string':
            return wellFormed(value) ? value.length : NaN;
        case 'number':
            return Number.isFinite(value) ? 1 : NaN;
        case 'boolean':
            return 1;
        case 'object':
            break;
        default:
            return NaN;
    }
    if (value === null) return 1;
    if (depth > DEEPEST) return NaN;
    let size = 1;
    if (Array.isArray(value)) {
        for (let at = 0; at < value.length && size < MOST; at++) size += plainSize(value[at], depth + 1);
    } else if (isPlainObject(value)) {
        for (const name of Object.keys(value)) {
            size += plainSize(name, depth) + plainSize(value[name], depth + 1);
            if (!(size < MOST)) break;
        }
    } else {
        return NaN;
    }
    return size;
}

/** Whether a value is what a copy was made from, member by member in their order. In doubt it is not. */
function same(value, copy) {
    if (value === copy) return true;
    if (typeof value !== 'object' || value === null || typeof copy !== 'object' || copy === null) return false;
    if (Array.isArray(value)) {
        if (!Array.isArray(copy) || value.length !== copy.length) return false;
        for (let at = 0; at < copy.length; at++) if (!same(value[at], copy[at])) return false;
        return true;
    }
    if (Array.isArray(copy) || !isPlainObject(value)) return false;
    const [names, known] = [Object.keys(value), Object.keys(copy)];
    if (names.length !== known.length) return false;
    for (let at = 0; at < known.length; at++) {
        if (names[at] !== known[at] || !same(value[known[at]], copy[known[at]])) return false;
    }
    return true;
}

function sameTool(tool, copy) {
    if (typeof tool !== 'object' || tool === null || copy === undefined) return false;
    const { name, access, category, mcpServer, paths, advisory, extractPaths } = tool;
    return (
        extractPaths === undefined &&
        name === copy.name &&
        access === copy.access &&
        category === copy.category &&
        mcpServer === copy.mcpServer &&
        same(paths, copy.paths) &&
        same(advisory, copy.advisory)
    );
}

/**
 * Keeps an input, to compare the next one with.
 *
 * @param {object} memory
 * @param {object} copy the input as it was read
 * @param {string[]} members which of its arguments hold its paths
 * @param {{ base: string, path: string }[]} standing what the host resolves whatever the call is
 * @param {{ outcome(text: string): number }} repeated answers for inputs that differ by a text
 */
export function remember(memory, copy, members, standing, repeated) {
    const { base } = standing[0];
    const paths = standing.map(({ path }) => path);
    const known = paths.map((path) => answerTo(copy.resolved?.find((entry) => entry.base === base && entry.path === path), base, path));
    // Where the host did not answer one, each input is read whole.
    if (known.includes(NO_ANSWER)) return;
    memory.last = { copy, members, base, standing: paths, known, repeated };
}

/** The decision on an input that differs in little from the one before; undefined where it has to be read. */
function again(memory, given) {
    const { last } = memory;
    const text = last && difference(last, given);
    const code = text && last.repeated.outcome(text);
    return code ? decisionOf(memory, code, last.repeated, text) : undefined;
}

/** A policy that reads what is not like the input before. Compared here, an input crosses into the module once, as its text. */
export function comparing(policy, memory) {
    const { decide } = policy;
    return Object.defineProperty(policy, 'decide', { value: (input) => again(memory, input) ?? decide.call(policy, input) });
}

const NO_ANSWER = Object.freeze({});

/** What the host says of a path, if that and nothing else stands in the entry. */
function answerTo(entry, base, path) {
    if (typeof entry !== 'object' || entry === null || !isPlainObject(entry)) return NO_ANSWER;
    const names = Object.keys(entry);
    if (names.length !== 3 || names[0] !== 'base' || names[1] !== 'path' || names[2] !== 'result') return NO_ANSWER;
    const { result } = entry;
    if (entry.base !== base || entry.path !== path || typeof result !== 'object' || result === null || !isPlainObject(result)) return NO_ANSWER;
    const kinds = Object.keys(result);
    return kinds.length === 1 && (kinds[0] === 'canonical' || kinds[0] === 'unresolved') ? result : NO_ANSWER;
}

/**
 * What differs from the input before, as one text: the name of the tool, its paths, and what the host says of them, with NUL behind
 * each. Undefined where the input differs in more, or has to be read with more care.
 */
function difference({ copy, members, base, standing, known }, given) {
    try {
        if (!isPlainObject(given)) return undefined;
        const { call, tool, now, resolved } = given;
        const { group, groups, preset, runContext, agentId, source, bypasses, headless, protectedNames, cwd, workspaceRoot, pathStyle } = given;
        if (
            !sameTool(tool, copy.tool) ||
            group !== copy.group ||
            preset !== copy.preset ||
            agentId !== copy.agentId ||
            source !== copy.source ||
            headless !== copy.headless ||
            cwd !== copy.cwd ||
            workspaceRoot !== copy.workspaceRoot ||
            pathStyle !== copy.pathStyle ||
            !same(groups, copy.groups) ||
            !same(runContext, copy.runContext) ||
            !same(bypasses, copy.bypasses) ||
            !same(protectedNames, copy.protectedNames)
        ) {
            return undefined;
        }
        if (now !== undefined && !Number.isFinite(now)) return undefined;
        if (!isPlainObject(call) || !Array.isArray(resolved)) return undefined;
        let size = 0;
        let toolName;
        let args;
        for (const name of Object.keys(call)) {
            const value = call[name];
            if (name === 'toolName') toolName = value;
            else if (name === 'arguments') args = value;
            else size += plainSize(name, 0) + plainSize(value, 1);
        }
        if (typeof toolName !== 'string' || toolName.includes('\0') || typeof args !== 'object' || args === null || !isPlainObject(args)) return undefined;

        let found = 0;
        const paths = [];
        for (const name of Object.keys(args)) {
            const value = args[name];
            size += plainSize(name, 0) + plainSize(value, 1);
            const at = members.indexOf(name);
            if (at < 0) continue;
            if (typeof value !== 'string' || value.includes('\0')) return undefined;
            paths[at] = value;
            found += 1;
        }
        if (!(size < MOST) || found !== members.length) return undefined;

        // As many answers as questions, each to its own: anything else is looked up one by one.
        if (resolved.length !== standing.length + paths.length) return undefined;
        for (let at = 0; at < standing.length; at++) {
            const { canonical, unresolved } = answerTo(resolved[at], base, standing[at]);
            if (canonical !== known[at].canonical || unresolved !== known[at].unresolved) return undefined;
        }
        let text = `${toolName}\0`;
        let answers = '';
        for (let at = 0; at < paths.length; at++) {
            const path = paths[at];
            // Of two answers to one question the first counts; no path is the working directory.
            if (path === '' || standing.includes(path) || paths.indexOf(path) !== at) return undefined;
            const { canonical, unresolved } = answerTo(resolved[standing.length + at], base, path);
            const answer = canonical ?? unresolved;
            if ((canonical === undefined) === (unresolved === undefined) || typeof answer !== 'string' || answer.includes('\0')) return undefined;
            text += `${path}\0`;
            answers += `${canonical === undefined ? 'u' : 'c'}${answer}\0`;
        }
        text += answers;
        return wellFormed(text) ? text : undefined;
    } catch {
        return undefined;
    }
}
