// Bad input ends in a typed error and changes nothing: every parameter of every method gets every piece of junk. What is
// accepted is listed, so that nothing is accepted by accident.

import { faultOf, fail, fails, ok, same } from './check.mjs';
import { hostile, values } from './junk.mjs';
import { assistant, calling, outcome, rc, resultOf, scripted, skillFile, toText } from './kit.mjs';
import { world } from './world.mjs';

const NONE = ['undefined', 'null'];
const TEXTS = ['empty text', 'text'];
const FLAGS = ['true', 'false'];
/** Objects that hold no option of ours, or one that is never looked at. */
const RECORDS = [
    'empty object', 'instance', 'without prototype', 'cyclic', 'more than 32 MiB', 'member that is a function',
    'member that is a bigint', 'member that is not a number', 'member that is a map', 'own __proto__',
    'a getter that throws a RangeError',
];
/** Objects that are copied whole, and hold no option of ours. */
const PLAIN_RECORDS = ['empty object', 'without prototype', 'own __proto__'];
/** What a tool's declaration may hold as JSON Schema: any plain data but nothing at all. */
const PLAIN = [
    '0', ...FLAGS, '-1', '1.5', '2 ** 32', ...TEXTS, ...PLAIN_RECORDS, 'empty list', 'list of null', 'list of a list', 'list of texts',
];
const FUNCTIONS = ['function', 'class'];
/** What arguments of a call may be: what JSON has. */
const ARGUMENTS = [...NONE, ...PLAIN];
/** What is no list of ours, but a list: each of its items is refused by itself. */
const LISTS = ['empty list', 'list of texts'];
const file = () => skillFile('demo', 'Do.');

const CALL = { toolCallId: 'c', toolName: 'write_file', arguments: { path: 'a' } };
const QUESTION = { call: CALL, cwd: '/w', rules: [], resolved: [] };

/** Objects whose members are looked at by name, whatever they are; a function may be one. */
const OBJECTS = [
    ...RECORDS, ...FUNCTIONS, 'text object', 'number object', 'empty list', 'list of null', 'list of a list', 'list of texts', 'map', 'set', 'date',
    'expression', 'error', 'promise', 'bytes', 'other bytes', 'buffer', 'cyclic list', '129 levels', '100,000 levels', 'with holes',
    'of 2 ** 32 - 1 holes', 'more than 32 MiB of bytes',
];

/** Each parameter: how it gets a value, and what it accepts. `threw` says that the call is no promise. */
const PARAMETERS = {
    'Runtime.open': [(at, value) => rc.Runtime.open(value), [...NONE, ...RECORDS]],
    'Runtime.open storage': [(at, value) => rc.Runtime.open({ storage: value }), NONE],
    'Runtime.open skills': [(at, value) => rc.Runtime.open({ storage: 'memory', skills: value }), [...NONE, ...PLAIN_RECORDS]],
    'Runtime.open skills.tokenCap': [(at, value) => rc.Runtime.open({ storage: 'memory', skills: { tokenCap: value } }), ['0', ...NONE]],
    'Runtime.open skills.scopeOrder': [(at, value) => rc.Runtime.open({ storage: 'memory', skills: { scopeOrder: value } }), [...NONE, ...LISTS]],
    createSession: [(at, value) => at.runtime.createSession(value), [...NONE, ...PLAIN_RECORDS]],
    openSession: [(at, value) => at.runtime.openSession(value), []],
    continueRecent: [(at, value) => at.runtime.continueRecent(value), [...NONE, ...TEXTS]],
    listSessions: [(at, value) => at.runtime.listSessions(value), [...NONE, ...PLAIN_RECORDS]],
    'listSessions cwd': [(at, value) => at.runtime.listSessions({ cwd: value }), [...NONE, ...TEXTS]],
    'listSessions limit': [(at, value) => at.runtime.listSessions({ limit: value }), NONE],
    'listSessions before': [(at, value) => at.runtime.listSessions({ before: value }), NONE],
    deleteSession: [(at, value) => at.runtime.deleteSession(value), []],
    'runtime.subscribe': [(at, value) => at.runtime.subscribe(value), FUNCTIONS, 'threw'],
    'skills.add': [(at, value) => at.runtime.skills.add(value), []],
    'skills.add content': [(at, value) => at.runtime.skills.add({ content: value, location: '/l' }), []],
    'skills.add location': [(at, value) => at.runtime.skills.add({ content: file(), location: value }), ['text']],
    'skills.add scope': [(at, value) => at.runtime.skills.add({ content: file(), location: '/l', scope: value }), [...NONE, 'text']],
    'skills.remove': [(at, value) => at.runtime.skills.remove(value), []],
    'skills.setEnabled': [(at, value) => at.runtime.skills.setEnabled(value, false), []],
    'skills.setEnabled enabled': [(at, value) => at.runtime.skills.setEnabled(at.skill.id, value), FLAGS],
    'skills.addSource': [(at, value) => at.runtime.skills.addSource(value), []],
    'skills.addSource scope': [(at, value) => at.runtime.skills.addSource({ scope: value, list: () => [] }), ['text']],
    'skills.addSource list': [(at, value) => at.runtime.skills.addSource({ scope: 's', list: value }), []],
    'skills.addSource file': [(at, value) => at.runtime.skills.addSource({ scope: 's', list: () => [value] }), []],
    'skills.addSource options': [(at, value) => at.runtime.skills.addSource({ scope: 's', list: () => [] }, value), [...NONE, ...RECORDS, 'a getter that throws']],
    'skills.refresh': [(at, value) => at.runtime.skills.refresh(value), [...NONE, ...RECORDS, 'a getter that throws']],
    'skills.refresh signal': [(at, value) => at.runtime.skills.refresh({ signal: value }), NONE],
    'skills.refresh onProgress': [(at, value) => at.runtime.skills.refresh({ onProgress: value }), [...NONE, ...FUNCTIONS]],
    'skills.loadTool arguments': [(at, value) => at.runtime.skills.loadTool().execute(value), []],
    'permissions.listRules': [(at, value) => at.runtime.permissions.listRules(value), NONE],
    'permissions.lint': [(at, value) => at.runtime.permissions.lint(value), NONE],
    'permissions.createGroup': [(at, value) => at.runtime.permissions.createGroup(value), []],
    'permissions.createGroup name': [(at, value) => at.runtime.permissions.createGroup({ id: crypto.randomUUID(), name: value }), ['text']],
    'permissions.createGroup description': [
        (at, value) => at.runtime.permissions.createGroup({ id: crypto.randomUUID(), name: 'n', description: value }), [...NONE, ...TEXTS],
    ],
    'permissions.updateGroup': [(at, value) => at.runtime.permissions.updateGroup(value, { name: 'n' }), []],
    'permissions.updateGroup group': [(at, value) => at.runtime.permissions.updateGroup('default', value), []],
    'permissions.deleteGroup': [(at, value) => at.runtime.permissions.deleteGroup(value), []],
    'permissions.duplicateGroup': [(at, value) => at.runtime.permissions.duplicateGroup(value, { id: 'd', name: 'n' }), []],
    'permissions.duplicateGroup to': [(at, value) => at.runtime.permissions.duplicateGroup('default', value), []],
    'permissions.addRule': [(at, value) => at.runtime.permissions.addRule(value), []],
    'permissions.updateRule': [(at, value) => at.runtime.permissions.updateRule(value, {}), []],
    'permissions.updateRule rule': [(at, value) => at.runtime.permissions.updateRule(1, value), PLAIN_RECORDS],
    'permissions.deleteRule': [(at, value) => at.runtime.permissions.deleteRule(value), []],
    'projects.listTickets': [(at, value) => at.runtime.projects.listTickets(value), NONE],
    'projects.getProject': [(at, value) => at.runtime.projects.getProject(value), []],
    'projects.createProject': [(at, value) => at.runtime.projects.createProject(value), []],
    'projects.updateProject': [(at, value) => at.runtime.projects.updateProject(value, {}), []],
    'projects.updateProject project': [(at, value) => at.runtime.projects.updateProject('p', value), []],
    'projects.deleteProject': [(at, value) => at.runtime.projects.deleteProject(value), []],
    'projects.getProjectRunContext': [(at, value) => at.runtime.projects.getProjectRunContext(value), []],
    'projects.setProjectRunContext': [(at, value) => at.runtime.projects.setProjectRunContext(value, null), []],
    'projects.setProjectRunContext runContext': [(at, value) => at.runtime.projects.setProjectRunContext('p', value), []],
    'projects.getTicket': [(at, value) => at.runtime.projects.getTicket(value), []],
    'projects.createTicket': [(at, value) => at.runtime.projects.createTicket(value), []],
    'projects.updateTicket': [(at, value) => at.runtime.projects.updateTicket(value, {}), []],
    'projects.deleteTicket': [(at, value) => at.runtime.projects.deleteTicket(value), []],
    'projects.getTicketRunContext': [(at, value) => at.runtime.projects.getTicketRunContext(value, 't'), []],
    'projects.setTicketRunContext': [(at, value) => at.runtime.projects.setTicketRunContext('p', value, null), []],
    'jobs.getJob': [(at, value) => at.runtime.jobs.getJob(value), []],
    'jobs.createJob': [(at, value) => at.runtime.jobs.createJob(value), []],
    'jobs.createJob name': [(at, value) => at.runtime.jobs.createJob({ name: value }), ['text']],
    'jobs.createJob id': [(at, value) => at.runtime.jobs.createJob({ id: typeof value === 'string' ? `${value}-${crypto.randomUUID()}` : value, name: 'n' }), [...NONE, 'text', 'empty text']],
    'jobs.createJob description': [(at, value) => at.runtime.jobs.createJob({ name: 'n', description: value }), [...NONE, ...TEXTS]],
    'jobs.createJob run_context': [(at, value) => at.runtime.jobs.createJob({ name: 'n', run_context: value }), [...NONE, ...PLAIN_RECORDS]],
    'jobs.createJob schedule': [(at, value) => at.runtime.jobs.createJob({ name: 'n', schedule: value }), ARGUMENTS],
    'jobs.updateJob': [(at, value) => at.runtime.jobs.updateJob(value, {}), []],
    'jobs.deleteJob': [(at, value) => at.runtime.jobs.deleteJob(value), []],
    'jobs.getJobRunContext': [(at, value) => at.runtime.jobs.getJobRunContext(value), []],
    'jobs.setJobRunContext': [(at, value) => at.runtime.jobs.setJobRunContext(value, null), []],
    resolveRunContext: [(at, value) => rc.resolveRunContext(value), PLAIN_RECORDS, 'threw'],
    parseRunContextDefaults: [(at, value) => rc.parseRunContextDefaults(value), [...NONE, ...PLAIN_RECORDS, 'empty text'], 'threw'],
    readMessages: [(at, value) => at.session.readMessages(value), []],
    'readMessages limit': [(at, value) => at.session.readMessages({ limit: value }), []],
    'readMessages before': [(at, value) => at.session.readMessages({ limit: 1, before: value }), ['0', ...NONE]],
    configure: [(at, value) => at.session.configure(value), PLAIN_RECORDS],
    'configure model': [(at, value) => at.session.configure({ model: value }), NONE],
    'configure systemPrompt': [(at, value) => at.session.configure({ systemPrompt: value }), [...NONE, ...TEXTS]],
    'configure sections': [(at, value) => at.session.configure({ sections: value }), [...NONE, 'empty list']],
    setPermissionPreset: [(at, value) => at.session.setPermissionPreset(value), ['null']],
    systemPromptAt: [(at, value) => at.session.systemPromptAt(value), [], 'threw'],
    prompt: [(at, value) => at.session.prompt(value), [...TEXTS, 'half a pair', 'empty list']],
    'prompt options': [(at, value) => at.session.prompt('x', value), [...NONE, ...RECORDS]],
    'prompt skills': [(at, value) => at.session.prompt('x', { skills: value }), [...NONE, 'empty list']],
    'prompt mentions': [(at, value) => at.session.prompt('x', { mentions: value }), [...NONE, ...FLAGS]],
    'prompt signal': [(at, value) => at.session.prompt('x', { signal: value }), NONE],
    begin: [async (at, value) => (await at.session.begin(value)).cancel(), [...TEXTS, 'half a pair', 'empty list']],
    'begin options': [async (at, value) => (await at.session.begin('x', value)).cancel(), [...NONE, ...RECORDS]],
    setRunContext: [(at, value) => at.session.setRunContext(value), ['null', ...PLAIN_RECORDS]],
    gate: [(at, value) => at.session.gate(value), []],
    'gate toolCallId': [(at, value) => at.session.gate({ ...CALL, toolCallId: value }), ['text']],
    'gate toolName': [(at, value) => at.session.gate({ ...CALL, toolName: value }), ['text']],
    'gate arguments': [(at, value) => at.session.gate({ ...CALL, arguments: value }), ARGUMENTS],
    'gate of a turn': [async (at, value) => {
        const turn = await at.session.begin('x');
        return turn.gate(value).finally(() => turn.cancel());
    }, []],
    explain: [(at, value) => at.session.explain(value), []],
    'explain arguments': [(at, value) => at.session.explain({ ...CALL, arguments: value }), ARGUMENTS],
    bypass: [(at, value) => at.session.bypass(value), [], 'threw'],
    'bypass category': [(at, value) => at.session.bypass({ category: value }), TEXTS, 'threw'],
    'bypass mcpServer': [(at, value) => at.session.bypass({ mcpServer: value }), TEXTS, 'threw'],
    'bypass seconds': [(at, value) => at.session.bypass('all', value), ['undefined', '1.5', '2 ** 32'], 'threw'],
    compilePolicy: [(at, value) => rc.compilePolicy(value), ['empty list'], 'threw'],
    decide: [(at, value) => rc.decide(value), [], 'threw'],
    'decide rules': [(at, value) => rc.decide({ ...QUESTION, rules: value }), ['empty list'], 'threw'],
    'decide resolved': [(at, value) => rc.decide({ ...QUESTION, resolved: value }), [...NONE, 'empty list'], 'threw'],
    'Policy.decide': [(at, value) => rc.compilePolicy([]).decide(value), [], 'threw'],
    pathsToResolve: [(at, value) => rc.pathsToResolve(value), [], 'threw'],
    compact: [(at, value) => at.session.compact(value), []],
    'compact keepRecentTokens': [(at, value) => at.session.compact({ keepRecentTokens: value, summarize: () => 's' }), []],
    'compact summarize': [(at, value) => at.session.compact({ summarize: value }), []],
    setTitle: [(at, value) => at.session.setTitle(value), TEXTS],
    setPinned: [(at, value) => at.session.setPinned(value), FLAGS],
    markRead: [(at, value) => at.session.markRead(value), ['0']],
    'session.subscribe': [(at, value) => at.session.subscribe(value), FUNCTIONS, 'threw'],
    projectModelInput: [(at, value) => rc.projectModelInput(value, []), ['empty list'], 'threw'],
    'projectModelInput snapshots': [(at, value) => rc.projectModelInput([], value), ['empty list'], 'threw'],
    'projectModelInput options': [(at, value) => rc.projectModelInput([], [], value), [...NONE, ...PLAIN_RECORDS], 'threw'],
    planCompaction: [(at, value) => rc.planCompaction(value, [], { keepRecentTokens: 0 }), [], 'threw'],
    'planCompaction snapshots': [(at, value) => rc.planCompaction([], value, { keepRecentTokens: 0 }), [], 'threw'],
    'planCompaction options': [(at, value) => rc.planCompaction([], [], value), [], 'threw'],
    'diffSystemPrompt retained': [(at, value) => rc.diffSystemPrompt(value, [], 1, 1), ['empty list'], 'threw'],
    'diffSystemPrompt sections': [(at, value) => rc.diffSystemPrompt([], value, 1, 1), ['empty list'], 'threw'],
    'diffSystemPrompt messageCount': [(at, value) => rc.diffSystemPrompt([], [], value, 1), [], 'threw'],
    'diffSystemPrompt timestamp': [(at, value) => rc.diffSystemPrompt([], [], 1, value), ['0', '2 ** 32'], 'threw'],
    replaySystemPrompt: [(at, value) => rc.replaySystemPrompt(value, 1), ['empty list'], 'threw'],
    'replaySystemPrompt messageCount': [(at, value) => rc.replaySystemPrompt([], value), ['0'], 'threw'],
    renderSystemPrompt: [(at, value) => rc.renderSystemPrompt(value), ['empty list'], 'threw'],
    estimateTokens: [(at, value) => rc.estimateTokens(value), [], 'threw'],
    'estimateTokens dialect': [(at, value) => rc.estimateTokens({ role: 'user', content: 'x' }, value), NONE, 'threw'],
    splitSystemPrompt: [(at, value) => rc.splitSystemPrompt(value), TEXTS, 'threw'],
    parseSkill: [(at, value) => rc.parseSkill(value), [...TEXTS, 'bytes'], 'threw'],
    'parseSkill location': [(at, value) => rc.parseSkill('x', value), [...NONE, ...TEXTS], 'threw'],
    'findSkillMentions text': [(at, value) => rc.findSkillMentions(value, []), [...TEXTS, 'half a pair'], 'threw'],
    'findSkillMentions skills': [(at, value) => rc.findSkillMentions('$a', value), ['empty list'], 'threw'],
};

/** Members of a question, for each of the three functions that take one. */
const QUESTIONS = {
    call: [], tool: [...NONE, ...OBJECTS], group: [...NONE, ...TEXTS], groups: [...NONE, ...LISTS], preset: NONE,
    runContext: [...NONE, ...PLAIN_RECORDS], agentId: [...NONE, ...TEXTS], source: [...NONE, ...TEXTS], bypasses: [...NONE, 'empty list'],
    headless: [...NONE, ...FLAGS], protectedNames: [...NONE, ...LISTS], cwd: [], workspaceRoot: NONE, pathStyle: NONE,
    now: [...NONE, '0', '-1', '1.5', '2 ** 32'],
};
for (const [name, accepted] of Object.entries(QUESTIONS)) {
    PARAMETERS[`decide ${name}`] = [(at, value) => rc.decide({ ...QUESTION, [name]: value }), accepted, 'threw'];
    PARAMETERS[`Policy.decide ${name}`] = [(at, value) => rc.compilePolicy([]).decide({ ...QUESTION, [name]: value }), accepted, 'threw'];
    PARAMETERS[`pathsToResolve ${name}`] = [(at, value) => rc.pathsToResolve({ ...QUESTION, [name]: value }), accepted, 'threw'];
}
const CALLS = { toolName: TEXTS, arguments: ARGUMENTS };
for (const [name, accepted] of Object.entries(CALLS)) {
    PARAMETERS[`decide call.${name}`] = [(at, value) => rc.decide({ ...QUESTION, call: { ...CALL, [name]: value } }), accepted, 'threw'];
}
const RUN_CONTEXT = {
    security_group: [...NONE, ...TEXTS], system_prompt: [...NONE, ...LISTS], allow_fs_writes: [...NONE, ...LISTS], allow_fs_reads: [...NONE, ...LISTS],
    working_directory: [...NONE, ...TEXTS],
};
for (const [name, accepted] of Object.entries(RUN_CONTEXT)) {
    PARAMETERS[`setRunContext ${name}`] = [(at, value) => at.session.setRunContext({ [name]: value }), accepted];
    PARAMETERS[`createSession runContext.${name}`] = [(at, value) => at.runtime.createSession({ runContext: { [name]: value } }), accepted];
    PARAMETERS[`decide runContext.${name}`] = [(at, value) => rc.decide({ ...QUESTION, runContext: { [name]: value } }), accepted, 'threw'];
}
/** A rule but for one member. */
const RULE = {
    id: [...NONE, '0', '2 ** 32'], agent_id: [...NONE, ...TEXTS], source: [...NONE, ...TEXTS], tool_pattern: ['text'], path_pattern: [...NONE, 'text'],
    action: [], note: [...NONE, ...TEXTS], priority: [...NONE, '0'], group_id: [...NONE, 'text'], locked: [...NONE, ...FLAGS],
};
for (const [name, accepted] of Object.entries(RULE)) {
    PARAMETERS[`compilePolicy rules[0].${name}`] = [
        (at, value) => rc.compilePolicy([{ tool_pattern: 'x', action: 'deny', [name]: value }]), accepted, 'threw',
    ];
}

const SESSION_OPTIONS = {
    id: [...NONE, 'text'], cwd: [...NONE, ...TEXTS], dialect: NONE, permissionPreset: NONE, agentId: [...NONE, ...TEXTS],
    source: [...NONE, ...TEXTS], headless: [...NONE, ...FLAGS], systemPrompt: [...NONE, ...TEXTS],
    projectInstructions: [...NONE, 'empty list'], sections: [...NONE, 'empty list'], model: NONE,
    runContext: [...NONE, ...PLAIN_RECORDS], projectId: NONE, ticketId: NONE, jobId: NONE,
};
const RESOLVING = {
    explicit: [...NONE, ...PLAIN_RECORDS], agentId: [...NONE, ...TEXTS], source: [...NONE, ...TEXTS], defaults: [...NONE, ...PLAIN_RECORDS, 'empty text'],
    project: NONE, ticket: NONE, dataDir: [...NONE, ...TEXTS],
};
for (const [name, accepted] of Object.entries(RESOLVING)) {
    PARAMETERS[`resolveRunContext ${name}`] = [(at, value) => rc.resolveRunContext({ [name]: value }), accepted, 'threw'];
}
for (const [name, accepted] of Object.entries(SESSION_OPTIONS)) {
    PARAMETERS[`createSession ${name}`] = [(at, value) => at.runtime.createSession({ [name]: value }), accepted];
}
const RUNTIME_OPTIONS = {
    // It may be without `cwd`.
    host: [...NONE, ...OBJECTS, 'a getter that throws'],
    defaults: [...NONE, ...PLAIN_RECORDS, 'empty text'],
    compaction: [...NONE, ...RECORDS, 'a getter that throws'], protectedNames: [...NONE, ...LISTS], tools: [...NONE, 'empty list'], model: NONE, now: [...NONE, ...FUNCTIONS], strict: [...NONE, ...FLAGS],
};
for (const [name, accepted] of Object.entries(RUNTIME_OPTIONS)) {
    PARAMETERS[`Runtime.open ${name}`] = [(at, value) => rc.Runtime.open({ storage: 'memory', [name]: value }), accepted];
}
for (const [name, accepted] of Object.entries({ pressure: NONE, summarize: [...NONE, ...FUNCTIONS] })) {
    PARAMETERS[`Runtime.open compaction.${name}`] = [(at, value) => rc.Runtime.open({ storage: 'memory', compaction: { [name]: value } }), accepted];
}
// A group that is not there is not found.
for (const [name, accepted] of Object.entries({ ...RULE, group_id: NONE })) {
    PARAMETERS[`permissions.addRule ${name}`] = [
        (at, value) => at.runtime.permissions.addRule({ tool_pattern: 't', action: 'deny', [name]: value }), accepted,
    ];
}
const HOST = {
    cwd: [...NONE, ...TEXTS], workspaceRoot: NONE, dataDir: NONE, pathStyle: NONE, resolvePaths: [...NONE, ...FUNCTIONS],
};
for (const [name, accepted] of Object.entries(HOST)) {
    PARAMETERS[`Runtime.open host.${name}`] = [
        (at, value) => rc.Runtime.open({ storage: 'memory', host: { cwd: '/w', resolvePaths: () => [], [name]: value } }), accepted,
    ];
}
const TOOL = {
    name: ['text'], access: NONE, paths: [...NONE, 'empty list'], category: [...NONE, ...TEXTS], mcpServer: [...NONE, ...TEXTS],
    advisory: [...NONE, 'empty list'], extractPaths: [...NONE, ...FUNCTIONS], description: [...NONE, ...TEXTS], parameters: [...NONE, ...PLAIN],
    execute: [...NONE, ...FUNCTIONS],
};
for (const [name, accepted] of Object.entries(TOOL)) {
    PARAMETERS[`Runtime.open tools[0].${name}`] = [
        (at, value) => rc.Runtime.open({ storage: 'memory', tools: [{ name: 't', [name]: value }] }), accepted,
    ];
}

export const cases = {};

const groups = new Map();
for (const name of Object.keys(PARAMETERS)) {
    const method = name.split(/ |\[/)[0];
    const group = ['Runtime.open', 'createSession', 'prompt', 'begin'].includes(method)
        ? method
        : method.startsWith('skills.') ? 'skills' : PARAMETERS[name][2] === 'threw' ? 'calls that answer at once' : 'the other methods';
    groups.set(group, [...(groups.get(group) ?? []), name]);
}

for (const [group, names] of groups) {
    cases[`${group}: every parameter refuses junk with a typed error, and nothing changes`] = async () => {
        const at = await world();
        const opened = [];
        let before = await at.stored();
        for (const name of names) {
            const [call, accepts, how = 'rejected'] = PARAMETERS[name];
            const accepted = [];
            for (const [label, make] of Object.entries(values)) {
                const found = await outcome(() => call(at, make()));
                const error = found[how];
                if (error) {
                    const fault = faultOf(error) ?? (error.code === 'module_failed' ? 'the module failed' : undefined);
                    if (fault) fail(`${name}: ${label}: ${fault}`);
                    continue;
                }
                if (!('gave' in found)) fail(`${name}: ${label}: it should have ${how}: ${toText(found)}`);
                accepted.push(label);
                if (found.gave instanceof rc.Runtime) opened.push(found.gave);
            }
            same(accepted.sort(), [...accepts].sort(), `${name} accepted`);
            // What was accepted may have changed something: once more, without it.
            if (accepted.length > 0) before = await at.stored();
            for (const [label, make] of Object.entries(values)) {
                if (accepted.length > 0 && !accepts.includes(label)) await outcome(() => call(at, make()));
            }
            same(await at.stored(), before, name);
            same(at.session.state.isRunning, false, name);
        }
        for (const runtime of opened) await runtime.close();
        // The session and the module are as good as before.
        await at.session.setPermissionPreset('workspace-write');
        same((await at.session.prompt('Hello')).outcome, 'success');
        await at.close();
    };
}

// ---- messages ----------------------------------------------------------------------------------------------------------------

const nested = (levels) => {
    let value = {};
    for (let level = 1; level < levels; level++) value = { a: value };
    return value;
};

/** A message that cannot be stored: where, and a word of why. */
const UNSTORABLE = {
    'a function': [{ role: 'user', content: [{ type: 'text', then() {} }] }, 'content.content[0].then', /function/],
    'a symbol': [{ role: 'user', content: 'x', 'a b': Symbol('x') }, 'content["a b"]', /symbol/],
    'a bigint': [{ role: 'user', content: 'x', big: 1n }, 'content.big', /bigint/],
    NaN: [{ role: 'user', content: 'x', n: NaN }, 'content.n', /NaN/],
    Infinity: [{ role: 'user', content: 'x', n: [-Infinity] }, 'content.n[0]', /-Infinity/],
    'a Map': [{ role: 'user', content: [new Map()] }, 'content.content[0]', /Map/],
    'a Set': [{ role: 'user', content: new Set() }, 'content.content', /Set/],
    'a Date': [{ role: 'user', content: 'x', at: new Date(0) }, 'content.at', /Date/],
    'a RegExp': [{ role: 'user', content: 'x', at: /x/ }, 'content.at', /RegExp/],
    'an Error': [{ role: 'user', content: 'x', at: new TypeError('x') }, 'content.at', /TypeError/],
    'an instance of a class': [new (class Message {
        role = 'user';
    })(), 'content', /Message/],
    'an instance of a class without a name': [new (class {
        role = 'user';
    })(), 'content', /special object/],
    'other typed arrays': [[{ type: 'image', data: new Float64Array(1) }], 'content[0].data', /Float64Array/],
    'an ArrayBuffer': [[{ type: 'image', data: new ArrayBuffer(1) }], 'content[0].data', /ArrayBuffer/],
    'a hole': [[, { type: 'text' }], 'content[0]', /undefined/],
    'undefined in a list': [[{ type: 'text' }, undefined], 'content[1]', /undefined/],
    undefined: [undefined, 'content', /undefined/],
    '129 levels': [{ role: 'user', content: [{ deep: nested(126) }] }, `content.content[0].deep${'.a'.repeat(125)}`, /deeper than 128/],
    'what only looks like bytes': [[{ data: Object.create(Uint8Array.prototype) }], 'content[0].data', /Uint8Array|cannot be read/],
};
cases['a message that cannot be stored is message_not_storable, and names the place'] = async () => {
    const at = await world();
    const before = await at.stored();
    for (const [what, [message, path, why]] of Object.entries(UNSTORABLE)) {
        for (const work of [() => at.session.prompt(message), () => at.session.begin(message)]) {
            const error = await fails(work, 'message_not_storable');
            same(error.data, { path }, what);
            ok(error.message.startsWith(`\`${path}\` `) && why.test(error.message), `${what}: ${error.message}`);
        }
    }
    same(await at.stored(), before);
    await at.close();
};

cases['cycles are found wherever they close, and what is only there twice is no cycle'] = async () => {
    const at = await world();
    const self = { role: 'user', content: 'x' };
    self.self = self;
    const list = [];
    list.push({ type: 'text', list });
    const twins = { shared: true };
    for (const [message, path] of [[self, 'content.self'], [list, 'content[0].list']]) {
        const error = await fails(() => at.session.prompt(message), 'message_not_storable');
        same(error.data, { path });
    }
    same((await at.session.prompt([{ one: twins, two: twins, list: [twins, twins] }])).outcome, 'success');
    await at.close();
};

cases['128 levels and 32 MiB are the end, and what is just below goes through'] = async () => {
    const at = await world({ model: { complete: async () => assistant('Done.') } });
    same((await at.session.prompt({ role: 'user', content: [{ deep: nested(125) }] })).outcome, 'success');
    const MiB = 1024 * 1024;
    const almost = { role: 'user', content: [{ type: 'image', data: new Uint8Array(32 * MiB - 200) }] };
    same((await at.session.prompt(almost)).outcome, 'success');
    same(at.session.messages.at(-2).content[0].data.length, 32 * MiB - 200);
    for (const [message, path] of [
        ['x'.repeat(32 * MiB), 'content'],
        [[{ type: 'text', text: 'x'.repeat(16 * MiB) }, { type: 'text', text: 'x'.repeat(16 * MiB) }], 'content[1].text'],
        [[{ type: 'image', data: new Uint8Array(32 * MiB) }], 'content[0].data'],
        [{ role: 'user', content: 'x', many: Array(5 * MiB).fill(0) }, undefined],
    ]) {
        const error = await fails(() => at.session.prompt(message), 'message_not_storable');
        ok(/32 MiB/.test(error.message), error.message);
        if (path) same(error.data, { path });
    }
    same(at.session.state.messageCount, 4);
    await at.close();
};

cases['a message with something inside that throws is refused with a typed error'] = async () => {
    const at = await world();
    const before = await at.stored();
    for (const [what, make] of Object.entries(hostile)) {
        for (const message of [make(), { role: 'user', content: [make()] }, [{ type: 'text', text: make() }]]) {
            const error = await fails(() => at.session.prompt(message), 'message_not_storable');
            ok(/cannot be read/.test(error.message), `${what}: ${error.message}`);
        }
    }
    same(await at.stored(), before);
    await at.close();
};

cases['a message that is none is invalid_argument'] = async () => {
    const at = await world();
    const before = await at.stored();
    for (const message of [
        {}, { content: 'x' }, { role: 'assistant', content: 'x' }, { role: 'system', content: 'x' }, { role: 1, content: 'x' },
        { role: null, content: 'x' }, { role: 'USER', content: 'x' }, { role: '\ud83d', content: 'x' }, { role: 'user' },
        { role: 'user', content: null }, { role: 'user', content: 5 }, { role: 'user', content: {} }, { role: 'user', content: [null] },
        { role: 'user', content: ['text'] }, { role: 'user', content: [['x']] }, { role: 'user', content: new Uint8Array(1) },
        { role: 'user', content: 'x', timestamp: 'now' }, { role: 'user', content: 'x', timestamp: [] },
        { role: 'toolResult', toolCallId: 'c', content: [] }, ['text'], [1], new Uint8Array(1), 5, true, null,
    ]) {
        await fails(() => at.session.prompt(message), 'invalid_argument');
        await fails(() => at.session.begin(message), 'invalid_argument');
    }
    same(await at.stored(), before);
    await at.close();
};

cases['what a turn does not take is refused, the whole batch with it, and the turn goes on'] = async () => {
    const at = await world({ strict: false });
    const { session } = at;
    const early = await session.begin('Hello');
    await fails(() => early.dispatched(), 'invalid_argument');
    await fails(() => early.append(assistant('Hi')), 'invalid_argument');
    await early.request();
    await fails(() => early.append(assistant('Hi')), 'invalid_argument');
    await early.dispatched();
    const before = await at.stored();
    const call = calling(['c1', 'look']);
    for (const [code, ...batch] of [
        ['invalid_argument', null], ['invalid_argument', 'text'], ['invalid_argument', {}], ['invalid_argument', []], ['invalid_argument', 5],
        ['invalid_argument', { role: 'user', content: 'x' }], ['invalid_argument', { role: 'system', content: 'x' }],
        ['invalid_argument', { role: 'toolResult', content: [] }], ['invalid_argument', resultOf('c1', 'look', 'x')],
        ['invalid_argument', call, resultOf('c2', 'look', 'x')], ['invalid_argument', call, resultOf('c1', 'look', 'x'), resultOf('c1', 'look', 'x')],
        ['invalid_argument', assistant('Hi'), { role: 'user', content: 'x' }], ['invalid_argument', assistant('Hi'), undefined],
    ]) {
        await fails(() => early.append(...batch), code);
    }
    same(await at.stored(), before);
    await early.append();
    same(await at.stored(), before);
    await early.append(call);
    await fails(() => early.request(), 'invalid_argument');
    await early.append(resultOf('c1', 'look', 'seen'), assistant('Done.'));
    for (const outcome of [{}, { outcome: 'cancelled' }, { outcome: null }, { outcome: 'error', error: 5 }, [], 'error', new Map()]) {
        await fails(() => early.finish(outcome), 'invalid_argument');
    }
    same(await early.finish(), Object.freeze({ outcome: 'success', saved: true }));
    for (const work of [() => early.request(), () => early.dispatched(), () => early.append(call), () => early.finish(), () => early.cancel()]) {
        await fails(work, 'invalid_argument');
    }
    same(early.openCalls, Object.freeze([]));
    same(session.messages.map((message) => message.role), ['user', 'assistant', 'toolResult', 'assistant']);
    await at.close();
};

cases['a result of a call that was not allowed is tool_not_gated, unless it is an error or the runtime is not strict'] = async () => {
    const at = await world({ tools: [{ name: 'free', access: 'none' }, { name: 'writes', access: 'write' }] });
    const turn = await at.session.begin('Hello');
    await turn.request();
    await turn.dispatched();
    await turn.append(calling(['c1', 'free'], ['c2', 'writes'], ['c3', 'unknown']));
    same((await turn.gate({ toolCallId: 'c1', toolName: 'free', arguments: {} })).outcome, 'allow');
    const before = await at.stored();
    for (const [id, name] of [['c2', 'writes'], ['c3', 'unknown']]) {
        const error = await fails(() => turn.append(resultOf(id, name, 'done')), 'tool_not_gated');
        same(error.data, { toolCallId: id, toolName: name });
    }
    await fails(() => turn.append(resultOf('c1', 'free', 'done'), resultOf('c2', 'writes', 'done')), 'tool_not_gated');
    same(await at.stored(), before);
    await turn.append(resultOf('c1', 'free', 'done'), resultOf('c2', 'writes', 'no', { isError: true }), resultOf('c3', 'unknown', 'no', { isError: true }));
    same((await turn.finish()).outcome, 'success');
    await at.close();
};

cases['what is wrong about the gate\'s input is invalid_argument, names the field, and changes nothing'] = async () => {
    const at = await world({ asks: true, host: { cwd: '/w', resolvePaths: (base, paths) => paths.map((canonical) => ({ canonical })) } });
    const before = await at.stored();
    const memory = (more) => rc.Runtime.open({ storage: 'memory', ...more });
    const rule = (more) => rc.compilePolicy([{ tool_pattern: 'x', action: 'deny' }, { tool_pattern: 'x', action: 'deny', ...more }]);
    for (const [work, field, how] of [
        [() => memory({ host: { cwd: '/w', pathStyle: 'dos' } }), 'options.host.pathStyle'],
        [() => memory({ host: { cwd: '/w', workspaceRoot: 'w', resolvePaths() {} } }), 'options.host.workspaceRoot'],
        [() => memory({ host: { cwd: 'C:\\w', workspaceRoot: '/w', pathStyle: 'windows', resolvePaths() {} } }), 'options.host.workspaceRoot'],
        ...['', ' ', 'a/b', 'a\\b', '.', '..'].map((name) => [() => memory({ protectedNames: ['a', name] }), 'options.protectedNames']),
        [() => memory({ tools: [{ name: 't' }, { name: 'u', access: 'none', paths: [{ argument: '/p', access: 'read' }] }] }), 'options.tools[1].paths'],
        [() => memory({ tools: [{ name: 't', access: 'none', extractPaths() {} }] }), 'options.tools[0].extractPaths'],
        [() => memory({ tools: [{ name: 't', paths: [{ argument: 'p', access: 'read' }] }] }), 'options.tools[0].paths[0].argument'],
        [() => memory({ tools: [{ name: 't', paths: [{ argument: '/p' }] }] }), 'options.tools[0].paths[0].access'],
        [() => memory({ tools: [{ name: 't', advisory: ['/a', '/b~'] }] }), 'options.tools[0].advisory[1]'],
        [() => memory({ tools: [{ name: 't', advisory: ['/a'], paths: [{ argument: '/a/p', access: 'write' }] }] }), 'options.tools[0].advisory'],
        [() => at.session.gate({ ...CALL, toolCallId: '' }), 'call.toolCallId'],
        [() => at.session.gate({ ...CALL, arguments: { a: { b: [1n] } } }), 'call.arguments.a.b[0]'],
        [() => at.session.explain({ ...CALL, arguments: new Uint8Array(1) }), 'call.arguments'],
        [() => at.session.bypass('everything'), 'scope', 'threw'],
        [() => at.session.bypass({ category: 'a', mcpServer: 'b' }), 'scope', 'threw'],
        ...[0, -1, NaN, Infinity, '60', null].map((seconds) => [() => at.session.bypass('all', seconds), 'seconds', 'threw']),
        [() => at.session.setRunContext(), 'runContext'],
        [() => at.session.setRunContext({ allow_fs_writes: ['a', '/'] }), 'runContext.allow_fs_writes[1]'],
        [() => at.session.setRunContext({ allow_fs_reads: [' '] }), 'runContext.allow_fs_reads[0]'],
        [() => at.session.setRunContext({ allow_fs_reads: ['a', null] }), 'runContext.allow_fs_reads[1]'],
        [() => at.runtime.createSession({ runContext: { allow_fs_writes: ['/**'] } }), 'options.runContext.allow_fs_writes[0]'],
        [() => rule({ priority: 1_000_001 }), 'rules[1].priority', 'threw'],
        [() => rule({ tool_pattern: '@' }), 'rules[1].tool_pattern', 'threw'],
        [() => rule({ action: 'allow', locked: true }), 'rules[1].locked', 'threw'],
        [() => rule({ path_pattern: 'a/../b' }), 'rules[1].path_pattern', 'threw'],
        [() => rc.decide({ ...QUESTION, cwd: 'w' }), 'cwd', 'threw'],
        [() => rc.decide({ ...QUESTION, resolved: [{ base: '/w', path: 'a', result: {} }] }), 'input.resolved[0].result', 'threw'],
        [() => rc.decide({ ...QUESTION, bypasses: [{ scope: 'all', expiresAt: 'never' }] }), 'input.bypasses[0].expiresAt', 'threw'],
    ]) {
        const error = await fails(work, 'invalid_argument', how);
        same(error.data.field.split('.').pop(), field.split('.').pop(), error.message);
        ok(error.message.includes('`'), error.message);
    }
    same(await at.stored(), before);
    same(at.session.runContext, null);
    same((await at.session.gate(CALL)).outcome, 'require');
    await at.close();
};

// ---- options, metadata and files ---------------------------------------------------------------------------------------------------

cases['half of a surrogate pair in options, metadata and files is invalid_argument, and names the field'] = async () => {
    const at = await world();
    const before = await at.stored();
    const half = 'a\ud83d';
    for (const [work, field, how] of [
        [() => at.runtime.createSession({ systemPrompt: half }), 'options.systemPrompt'],
        [() => at.runtime.createSession({ cwd: half }), 'options.cwd'],
        [() => at.runtime.createSession({ sections: [{ name: 'a', content: half }] }), 'options.sections[0].content'],
        [() => at.runtime.createSession({ [half]: 1 }), 'options["a\\ud83d"]'],
        [() => at.runtime.openSession(half), 'id'],
        [() => at.runtime.skills.add({ content: half, location: '/l' }), 'skill.content'],
        [() => at.runtime.skills.add({ content: file(), location: half }), 'skill.location'],
        [() => at.session.setTitle(half), 'title'],
        [() => at.session.prompt('x', { skills: [half] }), 'options.skills[0]'],
        [() => at.session.gate({ ...CALL, arguments: { a: [half] } }), 'call.arguments.a[0]'],
        [() => at.session.gate({ ...CALL, toolName: half }), 'call.toolName'],
        [() => at.session.setRunContext({ allow_fs_reads: ['a', half] }), 'runContext.allow_fs_reads[1]'],
        [() => at.session.bypass({ category: half }), 'scope.category', 'threw'],
        [() => rc.Runtime.open({ storage: 'memory', protectedNames: [half] }), 'options.protectedNames[0]'],
        [() => rc.decide({ ...QUESTION, cwd: half }), 'input.cwd', 'threw'],
        [() => rc.decide({ ...QUESTION, call: { ...CALL, arguments: { a: half } } }), 'input.call.arguments.a', 'threw'],
        [() => rc.compilePolicy([{ tool_pattern: half, action: 'deny' }]), 'rules[0].tool_pattern', 'threw'],
        [() => at.session.configure({ systemPrompt: half }), 'change.systemPrompt'],
        [() => rc.Runtime.open({ storage: 'memory', tools: [{ name: half }] }), 'options.tools[0].name'],
        [() => rc.Runtime.open({ storage: 'memory', tools: [{ name: 't', parameters: { a: [half] } }] }), 'options.tools[0].parameters.a[0]'],
        [() => rc.Runtime.open({ storage: { kind: 'indexeddb', name: half } }), 'options.storage.name'],
        [() => rc.renderSystemPrompt([{ name: 'a', content: half }]), 'sections[0].content', 'threw'],
        [() => rc.parseSkill(half), 'content', 'threw'],
        [() => rc.projectModelInput([], [{ userTurn: 0, content: half, timestamp: 0 }]), 'snapshots[0].content', 'threw'],
    ]) {
        const error = await fails(work, 'invalid_argument', how);
        same(error.data.field, field, error.message);
    }
    same(await at.stored(), before);
    await at.close();
};

cases['sections with a reserved, bad or repeated name are invalid_argument'] = async () => {
    const at = await world();
    const before = await at.stored();
    for (const name of [
        'preamble', 'project_instructions', 'skills', 'skill', 'cwd', 'run_context', 'permissions', '', 'A', 'a b', '1a', '_a', 'ä', 'a.b',
        '<a>', 'a\n', '__proto__', 'toString',
    ]) {
        const sections = [{ name, content: 'x' }];
        await fails(() => at.runtime.createSession({ sections }), 'invalid_argument');
        await fails(() => at.session.configure({ sections }), 'invalid_argument');
    }
    const twice = [{ name: 'a', content: 'x' }, { name: 'a', content: 'y' }];
    await fails(() => at.session.configure({ sections: twice }), 'invalid_argument');
    await fails(() => rc.renderSystemPrompt(twice), 'invalid_argument', 'threw');
    await fails(() => rc.renderSystemPrompt([{ name: 'skill', content: 'x' }]), 'invalid_argument', 'threw');
    same(await at.stored(), before);
    await at.close();
};

cases['presets, dialects and ids that do not exist are refused, and known ones in another spelling too'] = async () => {
    const at = await world();
    const before = await at.stored();
    for (const preset of ['full', 'READ-ONLY', 'read_only', '', 'read-only ', 1, {}, ['read-only']]) {
        await fails(() => at.session.setPermissionPreset(preset), 'invalid_argument');
        await fails(() => at.runtime.createSession({ permissionPreset: preset }), 'invalid_argument');
    }
    await fails(() => at.session.setPermissionPreset(), 'invalid_argument');
    for (const dialect of ['openai', 'LOOP', '']) await fails(() => at.runtime.createSession({ dialect }), 'invalid_argument');
    for (const id of ['', 'a b', 'ä', 'a/b', '..', 'x'.repeat(129), '\u0000', 'a\n']) {
        await fails(() => at.runtime.createSession({ id }), 'invalid_argument');
    }
    await fails(() => at.runtime.createSession({ id: 's' }), 'conflict');
    await fails(() => at.runtime.openSession('nobody'), 'not_found');
    await fails(() => at.runtime.deleteSession('nobody'), 'not_found');
    await fails(() => at.runtime.skills.remove('nobody'), 'not_found');
    await fails(() => at.session.prompt('x', { skills: ['nobody'] }), 'skill_unavailable');
    same(await at.stored(), before);
    await (await at.runtime.createSession({ id: 'x'.repeat(128) })).dispose();
    await at.close();
};

cases['a SKILL.md that is none is skill_invalid, says why, and is not kept'] = async () => {
    const at = await world();
    const before = await at.stored();
    for (const content of [
        'No frontmatter.', '', '---\nname: a\n', '---\nname: a\n---\nNo description.', '---\n- a\n---\n', '---\nname: [\n---\n', new Uint8Array([0xff, 0xfe]), new TextEncoder().encode('No frontmatter.'),
    ]) {
        const error = await fails(() => at.runtime.skills.add({ content, location: '/bad/SKILL.md' }), 'skill_invalid');
        ok(error.message.length > 20, error.message);
    }
    for (const skill of [{}, { content: file() }, { location: '/l' }, { content: file(), location: ' ' }, { content: file(), location: '/l', scope: 'a:b' }]) {
        await fails(() => at.runtime.skills.add(skill), 'invalid_argument');
    }
    same(await at.stored(), before);
    same(at.runtime.skills.list().length, 1);
    await at.close();
};

const SNAPSHOT = { userTurn: 0, content: 'x', timestamp: 1 };
const LOADED = { id: 'i', name: 'n', path: 'p', content: 'c', revision: 'r' };
const without = (object, name) => Object.fromEntries(Object.entries(object).filter(([key]) => key !== name));

cases['malformed snapshots are invalid_argument, and name the field'] = async () => {
    const messages = [{ role: 'user', content: 'Hi' }];
    for (const [snapshot, field] of [
        [null, ''], ['x', ''], [[], ''], [{}, '.userTurn'], [without(SNAPSHOT, 'userTurn'), '.userTurn'],
        ...[-1, 1.5, '0', null, 2 ** 32].map((userTurn) => [{ ...SNAPSHOT, userTurn }, '.userTurn']),
        ...['', ' \n', 5, null].map((content) => [{ ...SNAPSHOT, content }, '.content']),
        ...[-1, 1.5, '0', null, 2 ** 53].map((timestamp) => [{ ...SNAPSHOT, timestamp }, '.timestamp']),
        [{ ...SNAPSHOT, placement: 'system' }, '.placement'], [{ ...SNAPSHOT, placement: 1 }, '.placement'],
        [{ ...SNAPSHOT, skills: {} }, '.skills'], [{ ...SNAPSHOT, skills: [null] }, '.skills[0]'],
        ...Object.keys(LOADED).map((name) => [{ ...SNAPSHOT, skills: [LOADED, without(LOADED, name)] }, `.skills[1].${name}`]),
        [{ ...SNAPSHOT, skills: [{ ...LOADED, revision: 5 }] }, '.skills[0].revision'],
        [{ ...SNAPSHOT, skills: [{ ...LOADED, description: 5 }] }, '.skills[0].description'],
    ]) {
        const error = await fails(() => rc.projectModelInput(messages, [SNAPSHOT, snapshot]), 'invalid_argument', 'threw');
        same(error.data.field, `snapshots[1]${field}`, error.message);
    }
    same(rc.projectModelInput(messages, [SNAPSHOT, { ...SNAPSHOT, skills: null, placement: null }]).messages.length, 3);
};

const CHECKPOINT = { messageCount: 2, timestamp: 1, sections: { a: 'b' } };

cases['malformed checkpoints are invalid_argument, and name the field'] = async () => {
    for (const [checkpoint, field] of [
        [null, ''], ['x', ''], [{}, '.messageCount'], ...[0, -1, 1.5, '1', null, 1].map((messageCount) => [{ ...CHECKPOINT, messageCount }, '.messageCount']),
        ...[-1, 1.5, '0', null].map((timestamp) => [{ ...CHECKPOINT, timestamp }, '.timestamp']),
        ...[null, [], 'x', {}].map((sections) => [{ ...CHECKPOINT, sections }, '.sections']),
        [{ ...CHECKPOINT, sections: { A: 'x' } }, '.sections.A'], [{ ...CHECKPOINT, sections: { skill: 'x' } }, '.sections.skill'],
        [{ ...CHECKPOINT, sections: { a: 5 } }, '.sections.a'], [{ ...CHECKPOINT, sections: { a: ['x'] } }, '.sections.a'],
        [{ ...CHECKPOINT, sections: JSON.parse('{"__proto__": "x"}') }, '.sections.__proto__'],
    ]) {
        for (const work of [
            () => rc.replaySystemPrompt([CHECKPOINT, checkpoint], 5), () => rc.diffSystemPrompt([CHECKPOINT, checkpoint], [], 5, 5),
        ]) {
            const error = await fails(work, 'invalid_argument', 'threw');
            ok(typeof error.data.field === 'string' && error.data.field.endsWith(`[1]${field}`), `${error.data.field}: ${error.message}`);
        }
    }
    await fails(() => rc.diffSystemPrompt([CHECKPOINT], [], 1, 5), 'invalid_argument', 'threw');
    await fails(() => rc.diffSystemPrompt([], [], 0, 5), 'invalid_argument', 'threw');
};

cases['systemPromptAt() out of range is invalid_argument'] = async () => {
    const at = await world();
    await fails(() => at.session.systemPromptAt(0), 'invalid_argument', 'threw');
    await at.session.prompt('Hi');
    ok(at.session.systemPromptAt(1).includes('<permissions>'), 'no permissions');
    for (const index of [2, -1, 0.5, 2 ** 40]) await fails(() => at.session.systemPromptAt(index), 'invalid_argument', 'threw');
    await at.close();
};

// ---- the world around ----------------------------------------------------------------------------------------------------------------

cases['a clock that gives no time, throws or is far off is replaced, and every time can be shown'] = async () => {
    for (const now of [
        () => NaN, () => -1, () => Infinity, () => 1e300, () => 8.64e15 + 2, () => 'soon', () => undefined, () => new Date(5), () => 5n,
        () => ({}), () => Symbol('now'), () => {
            throw new Error('no clock');
        }, () => {
            throw new RangeError('no clock');
        },
    ]) {
        const at = await world({ now });
        const begun = Date.now();
        await at.session.prompt('Hi $demo');
        const { header } = at.session;
        ok(Math.abs(Date.parse(header.updatedAt) - begun) < 60_000, header.updatedAt);
        ok(Math.abs(at.session.messages[0].timestamp - begun) < 60_000, 'timestamp');
        same((await at.runtime.listSessions())[0].updatedAt, Date.parse(header.updatedAt));
        await at.close();
    }
    const at = await world({ now: () => 8.64e15 });
    await at.session.prompt('Hi');
    same(at.session.header.createdAt, '+275760-09-13T00:00:00.000Z');
    await at.close();
    const fraction = await world({ now: () => 5.9 });
    await fraction.session.prompt('Hi');
    same(fraction.session.messages[0].timestamp, 5);
    await fraction.close();
};

/** Runs with members added to Object.prototype and Array.prototype, which every object of the page then has. */
async function polluted(members, work) {
    const added = [];
    for (const [name, descriptor] of Object.entries(members)) {
        Object.defineProperty(Object.prototype, name, { configurable: true, ...descriptor });
        added.push(name);
    }
    try {
        return await work();
    } finally {
        for (const name of added) delete Object.prototype[name];
    }
}

cases['members added to Object.prototype, setters among them, reach neither messages nor options'] = async () => {
    const at = await world();
    const caught = [];
    const trap = (name) => ({
        get: () => undefined,
        set(value) {
            caught.push([name, value]);
        },
    });
    const names = ['role', 'content', 'type', 'text', 'timestamp', 'outcome', 'messages', 'systemPrompt', 'toolCallId', 'isError'];
    const members = Object.fromEntries(names.map((name) => [name, trap(name)]));
    members.stray = { value: () => {}, enumerable: true };
    members.inherited = { value: 'x', enumerable: true };
    await polluted(members, async () => {
        await at.session.prompt({ role: 'user', content: [{ type: 'text', text: 'Hi $demo' }] });
        await at.session.configure({ systemPrompt: 'Be.' });
        await at.runtime.createSession({ id: 'other' });
    });
    same(caught, []);
    same(toText(at.session.messages), toText([
        { role: 'user', content: [{ type: 'text', text: 'Hi $demo' }], timestamp: 1000 }, { role: 'assistant', content: 'Done.' },
    ]));
    same(Object.keys(at.session.messages[0]), ['role', 'content', 'timestamp']);
    same(at.session.header.systemPrompt, 'Be.');
    await at.close();
};

cases['a frozen Object.prototype is no hindrance, whatever members are called'] = async () => {
    // What freezing does to assignments, without what cannot be undone.
    const names = ['constructor', 'toString', 'valueOf', 'hasOwnProperty'];
    const before = names.map((name) => Object.getOwnPropertyDescriptor(Object.prototype, name));
    const message = { role: 'user', content: 'x' };
    names.forEach((name) => Object.defineProperty(message, name, { value: name, enumerable: true }));
    const at = await world();
    names.forEach((name) => Object.defineProperty(Object.prototype, name, { writable: false }));
    try {
        await at.session.prompt(message);
    } finally {
        names.forEach((name, index) => Object.defineProperty(Object.prototype, name, before[index]));
    }
    same(names.map((name) => at.session.messages[0][name]), names);
    await at.close();
};

cases['keys from JSON.parse that are called __proto__ stay data'] = async () => {
    const at = await world();
    await at.session.prompt(JSON.parse('{"role": "user", "content": [{"type": "text", "__proto__": {"text": "evil"}}]}'));
    const [block] = at.session.messages[0].content;
    ok(Object.hasOwn(block, '__proto__') && Object.getPrototypeOf(block) === Object.prototype, 'the prototype was set');
    same(block.text, undefined);
    await fails(() => at.session.prompt(JSON.parse('{"__proto__": {"role": "user", "content": "x"}}')), 'invalid_argument');
    await at.runtime.createSession(JSON.parse('{"id": "p", "__proto__": {"systemPrompt": "evil"}}'));
    same((await at.runtime.openSession('p')).header.systemPrompt, '');
    await at.close();
};

cases['calls with the wrong `this`, and objects that were made by hand, end in a typed error'] = async () => {
    for (const [type, names] of [
        [rc.Session, ['prompt', 'dispose', 'setTitle']], [rc.Runtime, ['createSession', 'close']], [rc.Turn, ['request', 'append']],
    ]) {
        for (const name of names) {
            for (const self of [{}, undefined, new type(), Object.create(type.prototype)]) {
                const found = await outcome(() => type.prototype[name].call(self));
                ok(found.threw || found.rejected, `${name} gave something`);
            }
        }
    }
    same(rc.renderSystemPrompt([]), '');
};
