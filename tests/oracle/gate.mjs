// An independent decider for the approval gate, written from the tables of the design alone.
//
// What is decided are cells. A read and a write are one cell, the path at the location. `execute` writes a path at the
// location and runs something; `network` reads a path there and reaches out: two cells each, the path first. `none` has
// no path, so that the location does not matter. `unclassified` is a tool without declared paths: a path is one of its
// argument strings, and only a protected one is noticed. The strictest cell wins; among equals the first is the reason.

const CELLS = {
    read: ['read'], write: ['write'], execute: ['write', 'execute'], network: ['read', 'network'], none: ['none'], unclassified: ['unclassified'],
};
const STRICTNESS = ['allow', 'require', 'deny'];

/** One row per preset: `-` what the rules left, `?` at most ask, `+` allow. */
const COLUMNS = ['read in wd', 'read elsewhere', 'write in wd', 'write elsewhere', 'execute', 'network', 'none', 'unclassified'];
const TABLE = {
    'null': '--------',
    'read-only': '--????-?',
    'workspace-write': '+-+---+-',
    'danger-full-access': '++++++++',
};

/**
 * @param {object} call
 * @param {'read-only' | 'workspace-write' | 'danger-full-access' | null} call.preset
 * @param {'read' | 'write' | 'execute' | 'network' | 'none' | 'unclassified'} call.access
 * @param {'workspace' | 'wd' | 'grant' | 'grant-link' | 'memory' | 'protected' | 'outside' | 'unresolved'} call.location
 * @param {'allow' | 'deny' | 'require' | 'none' | 'locked-deny' | 'locked-require'} call.ruleOutcome
 * @param {boolean} call.bypass
 * @param {boolean} call.headless
 */
export function oracle(call) {
    const decided = CELLS[call.access].map((access) => decideCell({ ...call, access }));
    const strictest = Math.max(...decided.map(({ outcome }) => STRICTNESS.indexOf(outcome)));
    return decided.find(({ outcome }) => outcome === STRICTNESS[strictest]);
}

function decideCell({ preset, access, location, ruleOutcome, bypass, headless }) {
    const path = access === 'read' || access === 'write';
    const column = path ? `${access} ${location === 'wd' ? 'in wd' : 'elsewhere'}` : access;
    const cell = TABLE[preset][COLUMNS.indexOf(column)];
    const asked = (reason) => (headless ? { outcome: 'deny', reason: 'headless' } : { outcome: 'require', reason });

    // Steps 1 and 2: what is final.
    if (ruleOutcome === 'locked-deny' || (path && location === 'protected')) return { outcome: 'deny', reason: 'locked_rule' };
    if (ruleOutcome === 'deny') return { outcome: 'deny', reason: 'rule' };
    // What insists on a question.
    if (ruleOutcome === 'locked-require') return asked('locked_rule');
    if (access === 'unclassified' && location === 'protected') return asked('possible_path');

    let question = { allow: undefined, require: 'rule', none: 'no_match' }[ruleOutcome];
    // Nothing allows a path that nobody resolved.
    if (path && location === 'unresolved') return asked(question ?? 'path_unresolved');
    if (cell === '?') question ??= 'ceiling';
    if (question === undefined) return { outcome: 'allow', reason: 'rule' };

    // Steps 4 to 7: the first that turns the question into leave.
    const readable = access === 'read' && (location === 'wd' || location === 'grant');
    const writable = access === 'write' && location === 'grant' && preset !== 'read-only';
    if (path && location === 'memory') return { outcome: 'allow', reason: 'memory' };
    if (readable || writable) return { outcome: 'allow', reason: 'run_context' };
    if (bypass) return { outcome: 'allow', reason: 'bypass' };
    if (cell === '+') return { outcome: 'allow', reason: 'preset' };
    return asked(question);
}
