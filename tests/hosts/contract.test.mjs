// The types against what there is: every method and every type is used by a strict consumer, and what the package hands
// out has exactly the members that its types name.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { installed } from '../support/project.mjs';

/** Uses every export, every method and every type. */
const CONSUMER = `
import * as rc from 'runcontext';
import type {
    Action, ApprovalResult, ApprovalRule, BudgetParts, CompactionCheckpoint, CompactOptions, Content, ContextBudget, Damage, DecidedPath, DecideInput, Decision, DeclaredEvent, Diagnostic, DiagnosticCode, Dialect, Divergence, DivergenceClass,
    FieldValue, Host, HttpOperation, ImportOptions, InstructionFile, Job, LintFinding, LoadedSkill, Message, MessageIndex, ModelClient, ModelInputProjection, ModelRef, ModelRequest, NewWork, Notice, NoticeCode,
    Outcome, ParsedSkill, PathAccess, PendingApproval, PermissionGroup, PermissionPreset, PermissionRows, Persistence, Placement, Project, PromptOptions, Reason, RequestReport, ResolvedPath, ResolveRunContextInput, RunContext,
    RunContextDefault, RunContextDefaults, SavedWork, Ticket,
    RefreshOptions, RunContextErrorCode, RuntimeContextSnapshot, RuntimeEvent,
    RuntimeOptions, Section, SessionChange, SessionEvent, SessionHeader, SessionInfo, SessionOptions, SessionState, Severity, SkillExpansion, SkillFile, SkillInfo,
    SkillLoad, SkillRevision, SkillSource, SkillSpan, SkillStatus, Source, StorageInfo, Summarize, Summary, SystemPromptCheckpoint, Tool, ToolCall, ToolDeclaration, TraceStep, TurnResult,
    UserMessage, UserTurn,
    CommitResult, Counters, DirectoryEntry, DirectoryStorage, Encoded, EncodedCommit, RecordStore, SessionStorage, SharedStorage, SharedStore, Standing, StorageAdapter, StoredSession,
} from 'runcontext';

const model: ModelClient = {
    async check(model: ModelRef | undefined): Promise<void> { void model?.provider; },
    async complete(request: ModelRequest, { signal, onUpdate, report }): Promise<Message> {
        const tools: ToolDeclaration[] = request.tools;
        const aborted: boolean = signal.aborted;
        onUpdate({ role: 'assistant', content: [] });
        const given: RequestReport = report;
        const parts: BudgetParts = given.budget.parts;
        const shown: ModelInputProjection = given.projection;
        const divergence: Divergence = given.divergence;
        const why: [DivergenceClass, DeclaredEvent[]] = [divergence.class, divergence.events];
        const notices: [NoticeCode, MessageIndex | undefined][] = given.notices.map((notice: Notice) => [notice.code, notice.messageIndex]);
        for (const source of shown.sources as Source[]) {
            if (source.type === 'history') void (source.messageIndex satisfies number), void (source.resultsLeftOut satisfies number[] | undefined);
            else if (source.type === 'runtime-context') void (source.userTurn satisfies UserTurn), void (source.skills satisfies SkillRevision[]);
            else if (source.type === 'compaction') void (source.summarizedBefore satisfies number);
            else void (source.toolCallId satisfies string);
        }
        const spans: SkillSpan[] = (shown.skillExpansions ?? []).flatMap((expansion: SkillExpansion) => expansion.skills);
        void [tools, aborted, parts, why, notices, spans, given.tokens satisfies number[]];
        return { role: 'assistant', content: 'Done.', bytes: new Uint8Array(1) };
    },
};
const tool: Tool = {
    name: 'look', description: 'Looks.', parameters: { type: 'object' }, access: 'none',
    category: 'c', mcpServer: 'm', advisory: ['/why'],
    async execute(args: { at: string }, context) {
        void [context.signal satisfies AbortSignal, context.decision satisfies Decision];
        return args.at + context.workingDirectory;
    },
};
const reader: Tool = {
    name: 'read', paths: [{ argument: '/files/*', access: 'read', kind: 'file' }], extractPaths: (args: { patch: string }) => [{ path: args.patch, access: 'write' }],
};
const resolved: ResolvedPath[] = [{ canonical: '/w/a' }, { unresolved: 'why' }];
const host: Host = { cwd: '/w', workspaceRoot: '/w', dataDir: '/d', pathStyle: 'posix', resolvePaths: (base, paths) => (base === paths[0] ? [] : resolved) };
const options: RuntimeOptions = {
    storage: { kind: 'indexeddb', name: 'mine', durability: 'relaxed' }, host, tools: [tool, reader], model, now: () => Date.now(), strict: false, protectedNames: ['secrets'],
    skills: { tokenCap: 500, scopeOrder: ['personal', 'project'] }, countTokens: (text) => text.length,
    authorize: async (request: Request, operation: HttpOperation) =>
        operation.operation === 'setSessionRunContext' ? operation.id === request.headers.get('x-session') : operation.method === 'GET',
    defaults: 'tic: {run_context: {security_group: g}}',
    compaction: { pressure: 0.8, summarize: async (messages: Message[]) => String(messages.length) },
};
const summarize: Summarize = async (messages, { signal }): Promise<Summary> => {
    void (signal satisfies AbortSignal);
    return { summary: String(messages.length), provider: 'p', model: 'm', usage: { input: 1 } };
};
const inner: StorageAdapter = rc.memoryStorage();
const wrapped: StorageAdapter = {
    ...inner,
    session(id: string): SessionStorage {
        const parts = inner.session(id);
        return {
            counters: async (): Promise<Standing | undefined> => parts.counters(),
            load: async (): Promise<StoredSession | undefined> => parts.load(),
            readMessages: async ({ from, to }): Promise<Encoded[]> => parts.readMessages({ from, to }),
            async commit(commit: EncodedCommit): Promise<CommitResult> {
                const stores: RecordStore[] = commit.records.map(({ store }) => store);
                void stores;
                const result = await parts.commit(commit);
                void (result.counters satisfies Counters);
                return result;
            },
            delete: () => parts.delete(),
        };
    },
    shared: {
        policyVersion: () => inner.shared.policyVersion(),
        get: (store: SharedStore, key) => inner.shared.get(store, key),
        list: (store, prefix) => inner.shared.list(store, prefix),
        write: (changes, expectedPolicyVersion) => inner.shared.write(changes, expectedPolicyVersion),
    } satisfies SharedStorage,
    directory: {
        put: (entry: DirectoryEntry) => inner.directory.put(entry),
        remove: (id) => inner.directory.remove(id),
        list: (filter): Promise<DirectoryEntry[]> => inner.directory.list(filter),
    } satisfies DirectoryStorage,
};

export async function use(): Promise<void> {
    await rc.init();
    const version: string = rc.version;
    const runtime: rc.Runtime = await rc.Runtime.open(options);
    const info: StorageInfo = runtime.storageInfo;
    await (await rc.Runtime.open({ storage: wrapped })).close();
    const preset: PermissionPreset = 'workspace-write';
    const [dialect = 'loop']: Dialect[] = ['openai-chat', 'anthropic', 'ai-sdk', 'loop'];
    const file: InstructionFile = { path: 'A.md', content: 'x' };
    const section: Section = { name: 'house', content: 'x' };
    const reference: ModelRef = { provider: 'p', id: 'm', contextWindow: 1, maxTokens: 1 };
    const created: SessionOptions = {
        id: 's', cwd: '/w', dialect, permissionPreset: preset, agentId: 'a', source: 's', headless: true, systemPrompt: 'x', projectInstructions: [file],
        sections: [section], model: reference,
        runContext: { security_group: 'g', system_prompt: ['x'], allow_fs_writes: ['logs/*'], allow_fs_reads: ['docs/'], working_directory: '/w' },
    };
    const session: rc.Session = await runtime.createSession(created);
    const opened: rc.Session[] = [await runtime.openSession('s'), await runtime.continueRecent(), await runtime.continueRecent('/w')];
    const listed: SessionInfo[] = await runtime.listSessions({ cwd: '/w', limit: 1, before: 'x' });
    await runtime.deleteSession('x');
    const importing: ImportOptions = { id: 'new', signal: new AbortController().signal, onProgress: ({ bytes, messages }) => void (bytes + messages) };
    const answered: Response = await runtime.fetch(new Request('http://h/api/inbox'));
    void answered;
    const imported: SessionInfo[] = [await runtime.importSession('', importing), await runtime.importSession(new Uint8Array()), await runtime.importSession(new Blob([]), {})];
    const whole: ReadableStream<Uint8Array> = runtime.exportSession('x');
    await runtime.importSession(whole);
    const dumped: PermissionRows = { groups: [{ id: 'g', name: 'G', description: null }], rules: [{ tool_pattern: 'a', action: 'deny', locked: 1 }] };
    await runtime.permissions.import(dumped);
    const column: RunContext | null = rc.parseRunContext('null');
    void [imported, column];
    const stop: () => void = runtime.subscribe((event: RuntimeEvent) => {
        if (event.type === 'storage-closed') void (event.reason satisfies 'upgraded' | 'deleted' | 'lost');
        else if (event.type === 'list-incomplete') void (event.error satisfies rc.RunContextError);
        else if (event.type !== 'storage-blocked' && event.type !== 'skills-changed' && event.type !== 'permissions-changed') void (event.sessionId satisfies string);
    });
    stop();
    void (runtime.listenerErrors satisfies string[]);
    const persistence: Persistence = await runtime.requestPersistence();
    void [persistence.persisted satisfies boolean, persistence.usage satisfies number | undefined, persistence.quota satisfies number | undefined];

    const catalog: rc.SkillCatalog = runtime.skills;
    const skill: SkillInfo = await catalog.add({ content: new Uint8Array(1), location: '/x', scope: 'project' });
    const [status, found]: [SkillStatus, Diagnostic[]] = [skill.status, skill.diagnostics];
    const codes: [DiagnosticCode, Severity][] = found.map((diagnostic) => [diagnostic.code, diagnostic.severity]);
    const skills: SkillInfo[] = catalog.list();
    await catalog.remove('x');
    await catalog.setEnabled('x', false);
    const skillFile: SkillFile = { location: '/x', read: async () => new Uint8Array(1) };
    const source: SkillSource = { scope: 'own', list: () => [skillFile, { location: '/y', read: () => 'x' }] };
    const refresh: RefreshOptions = { signal: new AbortController().signal, onProgress: ({ read, files }) => void (read / files) };
    await catalog.addSource(source, refresh);
    await catalog.refresh();
    void (catalog.loadTool() satisfies Tool);

    const store: rc.PermissionStore = runtime.permissions;
    const group: PermissionGroup = { id: 'g', name: 'G', description: 'x' };
    await store.createGroup(group);
    await store.updateGroup('g', { name: 'H' });
    await store.duplicateGroup('g', { id: 'h', name: 'H' });
    await store.deleteGroup('g');
    const groups: PermissionGroup[] = await store.listGroups();
    const number: number = await store.addRule({ tool_pattern: 't', action: 'deny', path_pattern: null });
    await store.updateRule(number, { priority: 5 });
    await store.deleteRule(number);
    const rules: ApprovalRule[] = [...await store.listRules(), ...await store.listRules('h')];
    const odd: LintFinding[] = [...await store.lint(), ...await store.lint('h')];

    const projects: rc.ProjectStore = runtime.projects;
    const jobs: rc.JobStore = runtime.jobs;
    const newProject: NewWork<Project> = { name: 'P', path: '/p', description: null, run_context: { security_group: 'g' }, owner: { name: 'x' } };
    const newTicket: NewWork<Ticket> = { id: 't', project_id: 'p', title: 'T', run_context: null };
    const newJob: NewWork<Job> = { name: 'J', schedule: '0 3 * * *' };
    const saved: SavedWork[] = [
        await projects.createProject(newProject), await projects.updateProject('p', { description: 'x' }), await projects.setProjectRunContext('p', null),
        await projects.createTicket(newTicket), await projects.updateTicket('t', { title: 'U' }), await projects.setTicketRunContext('p', 't', {}),
        await jobs.createJob(newJob), await jobs.updateJob('j', { schedule: null }), await jobs.setJobRunContext('j', { working_directory: null }),
    ];
    void (saved.map(({ id, unknownFields }) => id + unknownFields.join()) satisfies string[]);
    const works: [Project[], Ticket[], Job[]] = [
        [...await projects.listProjects(), await projects.getProject('p')],
        [...await projects.listTickets(), ...await projects.listTickets('p'), await projects.getTicket('t')],
        [...await jobs.listJobs(), await jobs.getJob('j')],
    ];
    const contexts: (RunContext | null)[] = [
        await projects.getProjectRunContext('p'), await projects.getTicketRunContext('p', 't'), await jobs.getJobRunContext('j'),
    ];
    await projects.deleteTicket('t');
    await projects.deleteProject('p');
    await jobs.deleteJob('j');
    await runtime.createSession({ projectId: 'p', ticketId: 't' });
    await runtime.createSession({ jobId: 'j', runContext: null });
    const section1: RunContextDefault = { run_context: null, model: 'x' };
    const defaults: RunContextDefaults = { agents: { a: section1, b: null }, sources: { cron: { run_context: {} } }, tic: {}, more: [1] };
    const resolving: ResolveRunContextInput = { explicit: null, agentId: 'a', source: 's', defaults, project: works[0][0]!, ticket: works[1][0]!, dataDir: '/d' };
    contexts.push(rc.resolveRunContext(resolving), rc.resolveRunContext({ defaults: 'tic:' }));
    const read: { defaults: RunContextDefaults; unknownFields: string[] } = rc.parseRunContextDefaults('tic:');
    void [read, contexts, runtime.unknownFields satisfies string[], session.state.unknownFields satisfies string[]];

    const inbox: rc.ApprovalInbox = runtime.approvals;
    const pending: PendingApproval[] = await inbox.list();
    const answers: ApprovalResult[] = [
        await inbox.resolve('x', { action: 'reject', note: 'no' }),
        await inbox.resolve('x', { action: 'approve', bypassSeconds: 600, bypassScope: 'category' }),
        await inbox.resolve('x', { action: 'approve', bypassSeconds: 'until-restart' }),
    ];
    const asked: ToolCall = { toolCallId: 'c', toolName: 'look', arguments: {} };
    const decisions: Decision[] = [await session.gate(asked), await session.explain(asked)];
    const told: [Action, Reason, TraceStep[]][] = decisions.map((decision) => [decision.outcome, decision.reason, decision.trace]);
    const led: [PathAccess, string | undefined][] = decisions.flatMap(({ paths }) => paths.map((path: DecidedPath) => [path.access, path.canonical]));
    session.bypass('all');
    session.bypass({ category: 'c' }, 5);
    session.bypass({ mcpServer: 'm' });
    session.clearBypass();
    const visible: ToolDeclaration[] = session.visibleTools();
    await session.setRunContext(null);
    const context: RunContext | null = session.runContext;

    const messages: readonly Message[] = session.messages;
    const page: Message[] = await session.readMessages({ before: 1, limit: 1 });
    const state: SessionState = session.state;
    for (const damage of state.damage satisfies Damage[]) void [damage.store satisfies string, damage.key satisfies number | undefined, damage.message satisfies string];
    const loads: SkillLoad[] = state.skillLoads;
    const budget: ContextBudget | undefined = state.contextBudget;
    const header: SessionHeader = session.header;
    const change: SessionChange = { model: null, systemPrompt: 'x', sections: [section] };
    await session.configure(change);
    await session.setPermissionPreset(null);
    const chosen: PermissionPreset | null = session.permissionPreset;
    const snapshots: RuntimeContextSnapshot[] = session.getRuntimeContexts();
    const loaded: [LoadedSkill[] | undefined, Placement | undefined][] = snapshots.map((snapshot) => [snapshot.skills, snapshot.placement]);
    const checkpoints: SystemPromptCheckpoint[] = session.getSystemPromptCheckpoints();
    const compacting: CompactOptions = { keepRecentTokens: 1000, summarize };
    const compactions: CompactionCheckpoint[] = [...session.getCompactions(), await session.compact(), await session.compact(compacting)];
    const prompt: string = session.systemPromptAt(0);
    const projection: ModelInputProjection | undefined = session.modelInputProjection;
    const promptOptions: PromptOptions = { skills: ['x'], mentions: false, signal: new AbortController().signal };
    const typed: UserMessage = { role: 'user', content: 'x', timestamp: 1, more: true };
    const content: Content = [{ type: 'text', text: 'x' }];
    const result: TurnResult = await session.prompt(typed, promptOptions);
    const outcome: Outcome = result.outcome;
    const places: { messageIndex: number; path: string }[] | undefined = result.degraded;
    const saveError: rc.RunContextError | undefined = result.saveError;
    const turn: rc.Turn = await session.begin(content);
    const { request, report }: { request: ModelRequest; report: RequestReport } = await turn.request();
    await turn.dispatched();
    await turn.append({ role: 'assistant' }, { role: 'toolResult' });
    const calls: ToolCall[] = turn.openCalls;
    const gated: Decision = await turn.gate(asked);
    answers.push(await turn.approval('x'), await turn.approval('x', { signal: new AbortController().signal }));
    const ends: TurnResult[] = [await turn.finish(), await turn.finish({ outcome: 'error', error: 'x' }), await turn.cancel()];
    const cut: { unanswered: ToolCall[]; pendingApprovals: string[] } | undefined = session.interrupted;
    ends.push(await session.abandon(), await session.resumePrompt(), await session.resumePrompt({ signal: new AbortController().signal }));
    const forks: { forked?: string }[] = [await session.reload(), await session.reload({ pending: 'fork' })];
    const resumed: rc.Turn = await session.resume();
    await session.abort();
    await session.flush();
    await session.setTitle('x');
    await session.setPinned(true);
    const more: boolean = await session.markRead(1);
    const titles: string[] = session.titleInputs();
    session.subscribe((event: SessionEvent) => {
        switch (event.type) {
            case 'turn-start': return void (event.userTurn satisfies number);
            case 'budget': return void (event.budget satisfies ContextBudget);
            case 'message': return void (event.message satisfies Message);
            case 'update': return void (event.message satisfies Message);
            case 'turn-end': return void (event.result satisfies TurnResult);
            case 'save-failed': return void (event.error.code satisfies RunContextErrorCode);
            case 'approval-requested': return void (event.requestId satisfies string);
            case 'approval-resolved': return void (event.result satisfies ApprovalResult);
            case 'compaction-start': return void (event.firstKeptMessageIndex satisfies number);
            case 'compaction-end': return void (event.compaction satisfies CompactionCheckpoint);
            case 'compaction-failed': return void (event.error.code satisfies RunContextErrorCode);
            case 'settings': case 'saved': return;
        }
    })();
    const id: string = session.id;
    await session.dispose();
    await runtime.close();

    const projected: { messages: Message[]; projection: ModelInputProjection; notices: Notice[] } =
        rc.projectModelInput(messages, snapshots, { dialect: 'loop' });
    const planned: { firstKeptMessageIndex: number; messages: Message[] } =
        rc.planCompaction(messages, snapshots, { keepRecentTokens: 0, previous: compactions[0]!, dialect: 'loop' });
    const retained: SystemPromptCheckpoint[] = rc.diffSystemPrompt(checkpoints, [section], 1, 1);
    const replayed: Section[] = rc.replaySystemPrompt(retained, 1);
    void [rc.estimateTokens(messages[0]!) satisfies number, rc.estimateTokens({ role: 'user', content: 'x' }, 'anthropic') satisfies number];
    const texts: string[] = [rc.renderSystemPrompt(replayed), rc.splitSystemPrompt('x')[0]!.content];
    const parsed: { skill?: ParsedSkill; diagnostics: Diagnostic[] } = rc.parseSkill('x', '/x');
    const fields: Record<string, FieldValue> = parsed.skill?.fields ?? {};
    const mentions: { id: string; start: number; end: number }[] = rc.findSkillMentions('$x', [{ id: 'i', name: 'x', location: '/x' }]);
    const input: DecideInput = { call: asked, tool, preset: 'read-only', cwd: '/w', resolved: [{ base: '/w', path: 'a', result: { canonical: '/w/a' } }] };
    const policy: rc.Policy = rc.compilePolicy(rc.seededRules());
    const alone: Decision[] = [policy.decide(input), rc.decide({ ...input, rules })];
    const wanted: { base: string; path: string }[] = rc.pathsToResolve(input);
    odd.push(...policy.lint());
    void [
        pending, answers, told, led, visible, context, gated, resumed, alone, wanted, groups, rules, odd, version, info, opened, listed, status, codes, skills, page, loads, budget, header, chosen, loaded, compactions, prompt, projection, outcome, places,
        saveError, request, report, calls, cut, forks, more, titles, id, projected, planned, texts, fields, mentions,
    ];
}
`;

/** Must not compile, line by line. */
const WRONG = `
import { Runtime, Session, Turn, type SessionOptions, type TurnResult } from 'runcontext';
declare const session: Session;
declare const runtime: Runtime;
declare const turn: Turn;
declare const result: TurnResult;
// @ts-expect-error a session is opened or created
new Session();
// @ts-expect-error a runtime is opened
new Runtime();
// @ts-expect-error no such preset
void session.setPermissionPreset('full');
// @ts-expect-error a preset is named, or null
void session.setPermissionPreset();
// @ts-expect-error messages are read-only
session.messages.push({ role: 'user' });
// @ts-expect-error messages cannot be replaced
session.messages = [];
// @ts-expect-error a message of a person
void session.prompt({ role: 'assistant', content: 'x' });
// @ts-expect-error a page has a limit
void session.readMessages({});
// @ts-expect-error an outcome of the host's
void turn.finish({ outcome: 'cancelled' });
// @ts-expect-error no such storage
void Runtime.open({ storage: 'disk' });
// @ts-expect-error half an adapter
void Runtime.open({ storage: { kind: 'mine', persistent: true } });
// @ts-expect-error no such option
void runtime.createSession({ presets: [] });
// @ts-expect-error no such outcome
export const compare = result.outcome === 'failed';
export const fine: SessionOptions = {};
`;

/** Every kind of value that is handed out, as the lists of its members. */
const RUNNER = `
import * as rc from 'runcontext';
const seen = {};
const keys = (value) => Object.keys(value).sort();
const note = (type, value) => { (seen[type] ??= []).push(keys(value)); };
let call = 0;
const model = { async complete(request, { report }) {
    note('ModelRequest', request); note('ToolDeclaration', request.tools[0]); note('RequestReport', report); note('ContextBudget', report.budget);
    note('BudgetParts', report.budget.parts); note('Divergence', report.divergence); note('ModelInputProjection', report.projection);
    for (const notice of report.notices) note('Notice', notice);
    for (const expansion of report.projection.skillExpansions ?? []) { note('SkillExpansion', expansion); note('SkillSpan', expansion.skills[0]); }
    if (call++ === 0) return { role: 'assistant', content: [{ type: 'toolCall', id: 'c', name: 'look', arguments: {} }] };
    return { role: 'assistant', content: 'x', bad() {} };
} };
const tools = [{ name: 'look', description: 'x', parameters: {}, paths: [{ argument: '/at', access: 'write' }], execute: () => 'x' }];
const runtime = await rc.Runtime.open({ storage: 'memory', model, tools });
note('StorageInfo', runtime.storageInfo);
note('SavedWork', await runtime.projects.createProject({ id: 'p', name: 'P', path: '/p' }));
note('Project', await runtime.projects.getProject('p'));
const skill = await runtime.skills.add({ content: '---\\nname: demo\\ndescription: y\\nodd: z\\n---\\nDo.', location: '/demo/SKILL.md' });
note('SkillInfo', skill);
await runtime.permissions.createGroup({ id: 'g', name: 'G' });
for (const group of await runtime.permissions.listGroups()) note('PermissionGroup', group);
for (const tool_pattern of ['read*', '*']) await runtime.permissions.addRule({ tool_pattern, action: 'deny', locked: true, group_id: 'g' });
for (const rule of await runtime.permissions.listRules()) note('ApprovalRule', rule);
for (const finding of await runtime.permissions.lint()) note('LintFinding', finding);
for (const diagnostic of skill.diagnostics) note('Diagnostic', diagnostic);
const session = await runtime.createSession({ agentId: 'a', sections: [{ name: 'a', content: 'b' }], projectInstructions: [{ path: 'a', content: 'b' }], model: { provider: 'p', id: 'm', contextWindow: 5000, maxTokens: 1 } });
note('SessionState', session.state);
const asked = new Promise((resolve) => session.subscribe((event) => event.type === 'approval-requested' && resolve()));
const prompted = session.prompt('$demo $nobody');
await asked;
for (const approval of await runtime.approvals.list()) {
    note('PendingApproval', approval); note('PendingApproval', session.state.pendingApprovals[0]); note('DecidedPath', approval.paths[0]);
    note('ApprovalResult', await runtime.approvals.resolve(approval.requestId, { action: 'approve' }));
}
const result = await prompted;
note('TurnResult', result);
await session.setTitle('x');
note('SessionState', session.state); note('SessionHeader', session.header); note('ModelRef', session.header.model);
note('Section', session.header.sections[0]); note('InstructionFile', session.header.projectInstructions[0]); note('SkillLoad', session.state.skillLoads[0]);
const [snapshot] = session.getRuntimeContexts();
note('RuntimeContextSnapshot', snapshot); note('LoadedSkill', snapshot.skills[0]);
note('SystemPromptCheckpoint', session.getSystemPromptCheckpoints()[0]); note('SessionInfo', (await runtime.listSessions())[0]);
note('ModelInputProjection', session.modelInputProjection);
const turn = await session.begin('x');
await turn.request(); await turn.dispatched();
await turn.append({ role: 'assistant', content: [{ type: 'toolCall', id: 'c', name: 'look', arguments: {} }] });
note('ToolCall', turn.openCalls[0]);
const decision = await turn.gate(turn.openCalls[0]);
note('Decision', decision); note('TraceStep', decision.trace[0]);
const waiting = turn.approval(decision.requestId);
await runtime.approvals.resolve(decision.requestId, { action: 'reject', note: 'no' });
note('ApprovalResult', await waiting);
await session.setRunContext({ security_group: 'g' });
note('RunContext', session.runContext);
note('TurnResult', await turn.finish({ outcome: 'error', error: 'x' }));
note('CompactionCheckpoint', await session.compact({ keepRecentTokens: 0, summarize: () => ({ summary: 'scripted', usage: 1 }) }));
note('ParsedSkill', rc.parseSkill('---\\nname: demo\\ndescription: y\\n---\\nDo.').skill);
process.stdout.write('\\n' + JSON.stringify(seen));
`;

const SETTINGS = {
    compilerOptions: {
        strict: true, noEmit: true, skipLibCheck: false, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, noUnusedLocals: true,
        target: 'ES2022', module: 'NodeNext', moduleResolution: 'NodeNext', lib: ['ES2022', 'DOM'], types: [],
    },
    include: ['*.ts'],
};

let project, declarations;
before(async () => {
    project = await installed({ 'consumer.ts': CONSUMER, 'wrong.ts': WRONG, 'runner.mjs': RUNNER });
    await writeFile(path.join(project.folder, 'tsconfig.json'), JSON.stringify(SETTINGS));
    const types = ['index', 'storage/adapter', 'storage/memory'].map((file) => path.join(project.folder, `node_modules/runcontext/${file}.d.ts`));
    declarations = (await Promise.all(types.map((file) => readFile(file, 'utf8')))).join('\n');
});
after(() => project?.remove());

/** Without comments. */
const code = () => declarations.replace(/\/\*[\s\S]*?\*\//g, '');

test('a strict consumer of every method and type compiles, and misuse does not', async () => {
    await project.tsc('-p', '.');
});

test('the consumer leaves out no export, no method and no type', () => {
    const names = [...code().matchAll(/^export (?:abstract )?(?:class|function|const|interface|type) (\w+)/gm)].map((found) => found[1]);
    assert.ok(names.length > 60, `only ${names.length} names`);
    const used = (name) => new RegExp(`\\b${name}\\b`).test(CONSUMER);
    assert.deepEqual(names.filter((name) => !used(name)), []);
    const classes = [...code().matchAll(/^export class (\w+)[^{]*\{([\s\S]*?)^\}/gm)].filter(([, name]) => name !== 'RunContextError');
    assert.deepEqual(classes.map(([, name]) => name), ['ApprovalInbox', 'JobStore', 'PermissionStore', 'Policy', 'ProjectStore', 'Runtime', 'Session', 'SkillCatalog', 'Turn']);
    for (const [, name, body] of classes) {
        const members = [...body.matchAll(/^ {4}(?:static |readonly )*(\w+)[(:]/gm)].map((found) => found[1]);
        assert.ok(members.length >= 2, `${name}: ${members}`);
        assert.deepEqual(members.filter((member) => member !== 'constructor' && !new RegExp(`\\.${member}\\b`).test(CONSUMER)), [], name);
    }
});

test('the prototypes have what the types name, and nothing else that shows', async () => {
    const output = await project.node('--input-type=module', '--eval', `
        import * as rc from 'runcontext';
        const shown = {};
        for (const name of ['ApprovalInbox', 'JobStore', 'PermissionStore', 'Policy', 'ProjectStore', 'Runtime', 'Session', 'SkillCatalog', 'Turn']) {
            shown[name] = [...Object.getOwnPropertyNames(rc[name].prototype), ...Object.keys(rc[name])].sort();
        }
        process.stdout.write('\\n' + JSON.stringify([shown, Object.keys(rc).sort()]));
    `);
    const [shown, exported] = JSON.parse(output.split('\n').at(-1));
    for (const [, name, body] of code().matchAll(/^export class (\w+)[^{]*\{([\s\S]*?)^\}/gm)) {
        if (name === 'RunContextError') continue;
        const members = [...body.matchAll(/^ {4}(?:readonly )*(\w+)[(:]/gm)].map((found) => found[1]);
        assert.deepEqual(shown[name].filter((member) => member !== 'free' && !member.startsWith('__')), [...new Set([...members, 'constructor'])].sort(), name);
    }
    const values = [...code().matchAll(/^export (?:class|function|const) (\w+)/gm)].map((found) => found[1]);
    assert.deepEqual(exported, values.sort());
});

test('what is handed out has exactly the members that its type names', async () => {
    const seen = JSON.parse((await project.node('runner.mjs')).split('\n').at(-1));
    const interfaces = new Map([...code().matchAll(/^export interface (\w+)[^{]*\{([\s\S]*?)^\}/gm)].map(([, name, body]) => [
        name, [...body.matchAll(/^ {4}(\w+)(\??)[:(]/gm)].map(([, member, optional]) => ({ member, optional: optional === '?' })),
    ]));
    assert.ok(Object.keys(seen).length >= 30, Object.keys(seen).join(' '));
    for (const [type, values] of Object.entries(seen)) {
        const members = interfaces.get(type);
        assert.ok(members, `there is no interface ${type}`);
        for (const keys of values) {
            const known = members.map(({ member }) => member);
            assert.deepEqual(keys.filter((key) => !known.includes(key)), [], `${type} has more`);
            const needed = members.filter(({ optional }) => !optional).map(({ member }) => member);
            assert.deepEqual(needed.filter((member) => !keys.includes(member)), [], `${type} lacks`);
        }
    }
});

test('the codes of the types are the codes of the contract', () => {
    const [, listed] = /export type RunContextErrorCode =([^;]*);/.exec(code());
    const codes = [...listed.matchAll(/'(\w+)'/g)].map((found) => found[1]);
    assert.deepEqual(codes, [
        'not_initialized', 'module_failed', 'invalid_argument', 'not_found', 'session_busy', 'session_interrupted', 'pending_approvals', 'pending_save',
        'disposed', 'aborted', 'budget_exceeded', 'message_not_storable', 'dialect_mismatch', 'skill_unavailable', 'skill_invalid', 'conflict',
        'storage_blocked', 'storage_quota', 'storage_lost', 'storage_schema_newer', 'storage_failed', 'nothing_to_compact', 'approval_not_found',
        'approval_changed', 'tool_not_gated', 'group_protected', 'group_in_use', 'rule_conflict', 'import_invalid', 'unauthorized', 'host_failed', 'model_failed',
    ]);
});
