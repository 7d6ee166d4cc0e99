// What a database of the package holds, for comparing record by record with what was written down by hand.

const STORES = [
    'approval_rules', 'approvals', 'chat_sessions', 'commits', 'compactions', 'message_outlines', 'messages', 'project_tickets',
    'projects', 'runtime_contexts', 'scheduled_jobs', 'skills', 'system_prompt_checkpoints', 'tool_permission_groups',
];

/** So many outlines are in one record. */
const PACK = 128;

/** The settings of a new session. */
const SETTINGS = {
    agentId: null, contextLabel: null, dialect: 'loop', error: null, headless: false, model: null, openTurn: null, outcome: null,
    permissionPreset: 'read-only', pinned: false, presetChosen: false, projectInstructions: [], readCount: 0, runContext: null,
    sections: [], source: null, systemPrompt: '', title: null,
};

const DEMO = {
    content: '---\nname: demo\ndescription: What demo is for.\n---\n\nDo.\n', location: '/d/SKILL.md', scope: 'personal',
};

const rule = (id, tool_pattern, action, priority, note) => [String(id), {
    id, tool_pattern, action, priority, note, group_id: 'default', agent_id: null, source: null, path_pattern: null,
}];

/** What every runtime finds or makes: the group `default` with its first rules, the next rule's number, one write. */
const PERMISSIONS = {
    approval_rules: [
        rule(1, 'execute_cmd', 'require', 100, 'commands are asked about'),
        rule(2, 'restart', 'require', 100, 'a restart is asked about'),
        rule(3, 'load_skill', 'allow', 100, "reading a skill's instructions changes nothing"),
        rule(4, '*', 'require', 1000, 'what no other rule decides is asked about'),
        ['next', 5],
    ],
    tool_permission_groups: [
        [0, { version: 1, mark: 'some' }],
        ['default', { id: 'default', name: 'Default', description: 'its rules come last, for every session' }],
    ],
};

/**
 * The whole database of a runtime with the skill `demo` and one session, as `normal` shows it.
 *
 * @param {object} facts
 * @param {number} facts.commits how many were applied
 * @param {number} [facts.conversation] the counter
 * @param {number} [facts.settings] the counter
 * @param {object} [facts.set] settings that differ from a new session's
 * @param {[object, object][]} [facts.messages] bodies with their outlines
 */
export function session({
    id = 's', cwd = '/w', createdAt = 1000, updatedAt = 1000, commits, conversation = 1, settings = 0, set = {},
    messages = [], snapshots = [], checkpoints = [], compactions = [], skills = [['personal:/d/SKILL.md', DEMO]],
}) {
    const positioned = (records) =>
        records.map((record, position) => [[id, position], { sessionId: id, position, ...record }]);
    const outlines = messages.map(([, outline]) => outline);
    const counts = [snapshots, checkpoints, compactions].map((records) => records.length);
    const found = Object.fromEntries(STORES.map((store) => [store, []]));
    return {
        ...found,
        ...PERMISSIONS,
        chat_sessions: [[id, {
            id, cwd, createdAt, updatedAt, messageCount: messages.length,
            counters: { conversation, settings }, settings: { ...SETTINGS, ...(counts.some(Boolean) && { counts }), ...set }, commitCount: commits,
        }]],
        commits: Array.from({ length: commits }, (_, slot) => [[id, slot], { sessionId: id, slot, operationId: 'some' }]),
        message_outlines: Array.from({ length: Math.ceil(outlines.length / PACK) }, (_, pack) => [
            [id, pack], { sessionId: id, pack, outlines: outlines.slice(pack * PACK, (pack + 1) * PACK) },
        ]),
        messages: messages.map(([body], index) => [[id, index], { sessionId: id, index, body }]),
        runtime_contexts: positioned(snapshots),
        system_prompt_checkpoints: positioned(checkpoints),
        compactions: positioned(compactions),
        skills,
    };
}

/** The section that offers one skill to the model. */
export const offered = (name, description) =>
    `Instructions for certain tasks. Before a task that one of them is for, call \`load_skill\` with its name as it stands here.\n- ${name}: ${description}`;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/**
 * A dump without what differs from run to run: names of operations become `some`, of the permissions the first line stays, the
 * mark of the last write to the rules becomes `some`.
 */
export function normal(dump) {
    const shown = structuredClone(dump);
    const seen = new Set();
    for (const [id, { settings }] of shown.chat_sessions) {
        const first = shown.commits.find(([[session, slot]]) => session === id && slot === 0);
        if (settings.origin !== first[1].operationId) throw new Error(`session \`${id}\` does not name the commit that created it`);
        delete settings.origin;
    }
    for (const [, record] of shown.commits) {
        if (!UUID.test(record.operationId)) throw new Error(`\`${record.operationId}\` is no UUID, version 4`);
        if (seen.has(record.operationId)) throw new Error(`\`${record.operationId}\` names two commits`);
        seen.add(record.operationId);
        record.operationId = 'some';
    }
    for (const [key, record] of shown.tool_permission_groups) {
        if (key === 0 && typeof record.mark === 'number') record.mark = 'some';
    }
    for (const [, { sections }] of shown.system_prompt_checkpoints) {
        if (sections.permissions) sections.permissions = sections.permissions.split('\n')[0];
    }
    return shown;
}
