// @ts-check
// What the adapters of this package have in common: how a commit is answered, and what raises the policy version.

/** @typedef {import('./adapter.js').Counters} Counters */

/** So many operation ids are remembered per session. */
export const REMEMBERED = 1024;

/**
 * The answer to a commit that is not to be written, or undefined for one that is.
 *
 * @param {import('./adapter.js').EncodedCommit} commit
 * @param {{ origin: string, counters: Counters } | undefined} stored the session, where there is one
 * @param {boolean} remembered whether it remembers the operation
 * @param {number[]} versions of the approvals that the commit changes, 0 for one that is not there
 * @returns {import('./adapter.js').CommitResult | undefined}
 */
export function answerTo(commit, stored, remembered, versions) {
    const counters = stored?.counters ?? { conversation: 0, settings: 0 };
    if (remembered) return { status: 'already-applied', counters };
    if (stored === undefined) {
        if (commit.create !== undefined) return undefined;
        throw coded('not_found', `there is no session \`${commit.sessionId}\`; it may have been deleted`);
    }
    const fits =
        commit.create === undefined &&
        commit.origin === stored.origin &&
        (commit.expected === undefined || commit.expected === counters.conversation) &&
        commit.approvals.every(({ expected }, at) => expected === undefined || expected === versions[at]);
    return fits ? undefined : { status: 'conflict', counters };
}

/**
 * The counters after a commit.
 *
 * @param {import('./adapter.js').EncodedCommit} commit
 * @param {Counters} [before]
 * @returns {Counters}
 */
export const countersAfter = (commit, { conversation, settings } = { conversation: 0, settings: 0 }) => ({
    conversation: conversation + Number(commit.expected !== undefined),
    settings: settings + Number(Object.keys(commit.settings).length > 0),
});

/** @param {{ store: string }[]} changes */
export const raisesPolicyVersion = (changes) =>
    changes.some(({ store }) => store === 'tool_permission_groups' || store === 'approval_rules');

/**
 * The position after which a page of a list begins.
 *
 * @param {string} before
 * @returns {[number, string]} `updatedAt` and id
 */
export const position = (before) => {
    const at = before.indexOf(':');
    return [Number(before.slice(0, at)), before.slice(at + 1)];
};

/**
 * @param {string} code
 * @param {string} message
 */
export const coded = (code, message) => Object.assign(new Error(message), { code });
