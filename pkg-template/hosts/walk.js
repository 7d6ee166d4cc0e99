// @ts-check
// Follows a path name by name, as a kernel does: `..` is where the links before it led, a link to nothing leads to
// where its file would be made. It looks at nothing itself: it asks, and whoever has the files answers.

import * as reason from './reasons.js';

/** As many links as Linux follows. */
const MOST_LINKS = 40;

/** @typedef {import('./styles.js').Location} Location */
/** @typedef {import('./styles.js').Style} Style */
/** @typedef {import('./styles.js').Unresolved} Unresolved */

/**
 * What is somewhere: `at` is how its owner calls it, `name` its stored spelling where that can be another.
 *
 * @template At
 * @typedef {{ kind: 'directory' | 'file', at: At, name?: string } | { kind: 'link', target: string }} Entry
 */

/**
 * A question: what is `name` in the directory `at`? Without `at` it is about a root.
 *
 * @template At
 * @typedef {{ at?: At, name: string }} Question
 */

/**
 * Where a path led. The first `known` of its names exist, and `last` is what the last of them is, or the root.
 *
 * @template At
 * @typedef {{ root: string, names: string[], known: number, last: { kind: 'directory' | 'file', at: At } }} Place
 */

/**
 * @template At
 * @param {Style} style
 * @param {Location} location
 * @returns {Generator<Question<At>, Place<At> | Unresolved, Entry<At> | undefined>}
 */
function* walk(style, location) {
    /** From the root down. What does not exist has no entry. @type {{ name: string, entry?: { kind: 'directory' | 'file', at: At } }[]} */
    let trail = [];
    /** Names that are still to go, the next one last. */
    const left = location.names.slice().reverse();
    /** @type {string | undefined} */
    let root = location.root;
    let links = 0;
    for (;;) {
        if (root) {
            const entry = yield { name: root };
            if (entry === undefined || entry.kind === 'link') return { unresolved: reason.NO_ROOT };
            trail = [{ name: entry.name ?? root, entry }];
        } else if (root === '') {
            trail.length = 1;
        }
        root = undefined;
        const name = left.pop();
        const here = trail[trail.length - 1];
        if (name === undefined) break;
        if (here.entry?.kind === 'file') return { unresolved: reason.NOT_A_DIRECTORY };
        if (name === '.') continue;
        if (name === '..') {
            if (trail.length > 1) trail.pop();
            continue;
        }
        const entry = here.entry && (yield { at: here.entry.at, name });
        if (entry?.kind !== 'link') {
            trail.push({ name: entry?.name ?? name, entry });
            continue;
        }
        if (++links > MOST_LINKS) return { unresolved: reason.TOO_MANY_LINKS };
        const target = style.parse(entry.target);
        if ('unresolved' in target) return target;
        for (let at = target.names.length - 1; at >= 0; at--) left.push(target.names[at]);
        root = target.root;
    }
    const [top, ...below] = trail;
    const known = below.filter(({ entry }) => entry !== undefined).length;
    const last = /** @type {{ kind: 'directory' | 'file', at: At }} */ (trail[known].entry);
    return { root: top.name, names: below.map(({ name }) => name), known, last };
}

/**
 * @template At
 * @param {Style} style
 * @param {Location} location
 * @param {(question: Question<At>) => Entry<At> | undefined} look
 * @returns {Place<At> | Unresolved}
 */
export function follow(style, location, look) {
    const walker = walk(style, location);
    let step = walker.next();
    while (!step.done) step = walker.next(look(step.value));
    return step.value;
}

/**
 * The same where looking takes time.
 *
 * @template At
 * @param {Style} style
 * @param {Location} location
 * @param {(question: Question<At>) => Promise<Entry<At> | undefined>} look
 * @returns {Promise<Place<At> | Unresolved>}
 */
export async function followLater(style, location, look) {
    const walker = walk(style, location);
    let step = walker.next();
    while (!step.done) step = walker.next(await look(step.value));
    return step.value;
}
