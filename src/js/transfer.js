// Session files: where their bytes come from, their lines, and where they go. Nothing is decided here.

import { copyIn, isBytes, wellFormed } from './plain.js';
import { tagged, untagged } from './storage.js';

/** So many bytes are handed on at once, at most. */
const PART = 1024 * 1024;

const HALVES = /\p{Surrogate}/gu;

/**
 * What reads a source in parts; undefined where it is none.
 *
 * @returns {{ next(): Promise<unknown>, cancel(): void } | undefined}
 */
export function open(source) {
    let stream = source;
    if (typeof source === 'string') {
        // Half of a pair has no bytes. A NUL, which JSON text cannot hold either, has its line refused.
        stream = new Blob([wellFormed(source) ? source : source.replace(HALVES, '\0')]).stream();
    } else if (isBytes(source)) {
        stream = new Blob([source]).stream();
    } else if (typeof source?.stream === 'function') {
        stream = source.stream();
    }
    if (typeof stream?.getReader !== 'function') return undefined;
    const reader = stream.getReader();
    let part = new Uint8Array();
    return {
        /** Undefined at the end. What is no bytes is given as it is. */
        async next() {
            while (part.length === 0) {
                const { done, value } = await reader.read();
                if (done) return undefined;
                if (!isBytes(value)) return value ?? null;
                // A copy: the next one takes a while, and these are somebody else's.
                part = new Uint8Array(value);
            }
            const next = part.subarray(0, PART);
            part = part.subarray(PART);
            return next;
        },
        cancel() {
            reader.cancel().catch(() => {});
        },
    };
}

/**
 * What JSON text says, as plain data, and how many members its objects have, all together. Nothing where it is no JSON, or more than
 * plain data may be.
 *
 * @returns {[unknown, number] | []}
 */
export function line(text, hasTags) {
    try {
        const value = JSON.parse(text);
        const members = memberCount(value);
        const [copy, , refused] = copyIn(hasTags ? untagged(value) : value, '', false);
        return refused === undefined ? [copy, members] : [];
    } catch {
        return [];
    }
}

function memberCount(value) {
    if (typeof value !== 'object' || value === null) return 0;
    const keys = Object.keys(value);
    const inner = keys.reduce((count, key) => count + memberCount(value[key]), 0);
    return Array.isArray(value) ? inner : inner + keys.length;
}

/** A line of ours. */
export const bytes = (line) => new TextEncoder().encode(`${line}\n`);

/** Messages as lines. */
export const lines = (messages, hasTags) =>
    bytes(messages.map((message) => JSON.stringify(hasTags ? tagged(message) : message)).join('\n'));

/** A stream of what `next` gives, one part for each that is asked for. */
export function stream(next) {
    const pull = async (controller) => {
        const part = await next();
        if (part === undefined) controller.close();
        else controller.enqueue(part);
    };
    return new ReadableStream({ pull }, { highWaterMark: 0 });
}
