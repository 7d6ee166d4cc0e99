//! Types of the public contract that no Rust type spells out: what a host hands in, and what is made of values that
//! stay in JavaScript.

use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen(typescript_custom_section)]
const DIAGNOSTIC_CODES: &str = crate::skills::DiagnosticCode::IN_TYPESCRIPT;

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** A message in the session's dialect: plain data, that is JSON values and `Uint8Array`. */
export type Message = Record<string, unknown>;
/** A field of a skill's frontmatter: every scalar is a text. */
export type FieldValue = string | FieldValue[] | { [name: string]: FieldValue };
/** What a person typed: text, or content blocks. */
export type Content = string | Record<string, unknown>[];
/** What a person typed, as a whole message. */
export type UserMessage = { role: "user"; content: Content; timestamp?: number } & Record<string, unknown>;

/** A tool as the model sees it. */
export interface ToolDeclaration {
    name: string;
    description?: string;
    /** JSON Schema of the arguments. */
    parameters?: unknown;
}

/** A tool of the host. */
export interface Tool extends ToolDeclaration {
    /** What a call touches. Absent: not classified; `paths` imply reads and writes. */
    access?: "read" | "write" | "execute" | "network" | "none";
    /** A group of tools that a person may stop being asked about. */
    category?: string;
    /** The MCP server it comes from. */
    mcpServer?: string;
    /**
     * The arguments that hold paths: a JSON pointer, `*` for every item of a list. A tool that goes on below a directory by
     * itself declares a `tree`. An argument that is not there stands for the working directory.
     */
    paths?: { argument: string; access: "read" | "write"; kind?: "file" | "tree" }[];
    /** The paths inside a text, such as a patch. Answers at once. */
    extractPaths?(args: any): { path: string; access: "read" | "write" }[];
    /** JSON pointers to arguments that an approval does not cover; none of them holds a path. */
    advisory?: string[];
    /**
     * Runs one call. A tool with a `tree` shows nothing for which `isHidden` is true: what rules deny, or ask about, and links.
     * A text becomes the result's text; an object with a list `content` gives its `content` (texts, and pictures with `data` and
     * `mimeType`), `isError` and, in the dialect `loop`, `details`; anything else is shown to the model as JSON. What is thrown
     * becomes a failed result.
     */
    execute?(
        args: any,
        context: { signal: AbortSignal; decision: Decision; workingDirectory: string; isHidden(path: string): boolean },
    ): Promise<unknown> | unknown;
}

/** Where a path really leads, or why that is not known. */
export type ResolvedPath = { canonical: string } | { unresolved: string };

/** What one decision depends on, but the rules. */
export interface DecideInput {
    call: ToolCall;
    /** Absent: a tool that nobody declared. */
    tool?: Tool;
    /** The permission group; by default that of the run context, null for none. */
    group?: string | null;
    /** The groups that exist; by default `default` and those of the rules. */
    groups?: string[];
    preset?: PermissionPreset | null;
    runContext?: RunContext | null;
    agentId?: string;
    source?: string;
    /** What a person does not want to be asked about; `expiresAt` in milliseconds since the epoch. */
    bypasses?: { scope: "all" | { category: string } | { mcpServer: string }; expiresAt?: number }[];
    /** Whether nobody is there to be asked. */
    headless?: boolean;
    /** Names that are closed below the roots, whatever the rules say. By default `secrets`. */
    protectedNames?: string[];
    /** The session's working directory, absolute. */
    cwd: string;
    /** By default `cwd`. */
    workspaceRoot?: string;
    pathStyle?: "posix" | "windows";
    /** Milliseconds since the epoch; without it every bypass that ends has ended. */
    now?: number;
    /** The host's answers to `pathsToResolve`. One that is missing is unresolved. */
    resolved: { base: string; path: string; result: ResolvedPath }[];
}

/** What the gate answers, and why. */
export interface Decision {
    outcome: Action;
    /** The step that set the outcome. */
    reason: Reason;
    /** The same for people. */
    message: string;
    /** The pending approval that waits for a person. */
    requestId?: string;
    /** The rule that decided, where one did. */
    rule?: ApprovalRule;
    /** How it came about; made when it is read. */
    trace: TraceStep[];
    paths: DecidedPath[];
    /** Absolute: what its relative paths are relative to, and where a command runs. */
    workingDirectory: string;
}

/** A call that a person is asked about. */
export interface PendingApproval {
    requestId: string;
    sessionId: string;
    toolCallId: string;
    toolName: string;
    arguments: unknown;
    /** Empty where the session has none. */
    agentId: string;
    /** Empty where the session has none. */
    source: string;
    /** What the session is called, or else the job, ticket or project that it was opened for. */
    contextLabel?: string;
    /** ISO 8601, UTC. */
    createdAt: string;
    toolCategory?: string;
    mcpServer?: string;
    /** The paths of the call, as requested and as resolved. */
    paths: DecidedPath[];
    /** Where the call runs, as it was resolved. An answer is for this directory alone. */
    workingDirectory: string;
    /** Why a person is asked. */
    reason: string;
    message: string;
    status: string;
}

/** How asking a person ended. */
export interface ApprovalResult {
    requestId: string;
    outcome: "approved" | "rejected" | "cancelled" | "superseded";
    /** What the person said. */
    note?: string;
    /** For the model, or for the person. */
    message?: string;
}

/** A tool call of the model. */
export interface ToolCall {
    toolCallId: string;
    toolName: string;
    arguments: any;
}

/** What goes to the model, and nothing else. */
export interface ModelRequest {
    systemPrompt: string;
    messages: Message[];
    tools: ToolDeclaration[];
}

/** The map and the measures of a request; it stays with the host. */
export interface RequestReport {
    /** What each message of the request is. Made when it is read: it is as long as the conversation. */
    projection: ModelInputProjection;
    /** Estimated tokens against the window. */
    budget: ContextBudget;
    /** Where it differs from the last dispatched request. */
    divergence: Divergence;
    /** Estimated tokens per source: of what it says alone, whatever a provider reported. Made when they are read. */
    tokens: number[];
    /** What was left out, and why. */
    notices: Notice[];
}

/** The host's model client, for `Session.prompt`. */
export interface ModelClient {
    /** Preflight, before anything is stored: a rejection rejects the prompt with `model_failed`. */
    check?(model: ModelRef | undefined): Promise<void> | void;
    /** One answer, an assistant message. A rejection ends the turn; the last `onUpdate` is kept then. */
    complete(
        request: ModelRequest,
        options: { signal: AbortSignal; onUpdate(partial: Message): void; report: RequestReport },
    ): Promise<Message>;
}

/** Where tools work. `runcontext/hosts/node`, `runcontext/hosts/opfs` and `runcontext/hosts/virtual` make some. */
export interface Host {
    /** The working directory of sessions that name none; absolute. */
    cwd: string;
    /** By default `cwd`. */
    workspaceRoot?: string;
    /** The user's data directory: absolute. Sessions of projects may write it, and are told so. */
    dataDir?: string;
    pathStyle?: "posix" | "windows";
    /** What `resolvePaths` answers, at once, where the host can: `isHidden` then knows links. */
    resolvePathsSync?(base: string, paths: string[]): ResolvedPath[];
    /**
     * Real, absolute paths: `..` and links are resolved, and a path that does not exist yet is its nearest existing
     * ancestor, resolved, plus the rest. One answer per path, in their order. Relative paths are relative to `base`.
     * Asked once for each decision; without it no path is known, and no call with one is allowed.
     */
    resolvePaths?(base: string, paths: string[]): ResolvedPath[] | Promise<ResolvedPath[]>;
    /** The same at once, where the host can: `isHidden` then knows links. Without it a listing is shown nothing. */
    resolvePathsSync?(base: string, paths: string[]): ResolvedPath[];
}

/** How a runtime is opened. Everything is optional. */
export interface RuntimeOptions {
    /** Where sessions are kept: in storage of your own, too. By default IndexedDB where there is one, else memory, said in `storageInfo`. */
    storage?:
        | "indexeddb"
        | "memory"
        | { kind: "indexeddb"; name?: string; durability?: "strict" | "relaxed" }
        | StorageAdapter;
    /**
     * Whether a request to `Runtime.fetch` may do what it asks for; asked before its body is read. Anything but `true` refuses it with
     * 403, and so does an error, which `Runtime.listenerErrors` has. Without it everything is refused.
     */
    authorize?: (request: Request, operation: HttpOperation) => boolean | Promise<boolean>;
    /** Where paths lead. Without `resolvePaths` no path is known, and no call with one is allowed. */
    host?: Host;
    /** What sessions run as that are given nothing else: an object, or the text of a `config.yml`. See `runtime.unknownFields`. */
    defaults?: RunContextDefaults | string;
    /** Names that are closed below the workspace root and the working directory, whatever the rules say. By default `secrets`. */
    protectedNames?: string[];
    /** Tools of every session. */
    tools?: Tool[];
    /** Needed for `Session.prompt` only. */
    model?: ModelClient;
    /** Milliseconds since the epoch; by default the machine's clock, which also stands in for one that throws or gives no time. */
    now?: () => number;
    /**
     * How many tokens a text has, for a tokenizer of your own: at once, a whole number from 0 up. Asked once for each text of a
     * message as it comes in, and for system prompt, tools, skills and summary of a request. Where it throws or gives anything
     * else, `prompt`, `begin` and `Turn.request` reject with `invalid_argument`, and a new summary is refused with `host_failed`;
     * what the model or a tool answered, and what is stored already, has the built-in estimate, and `state.listenerErrors` says why.
     * By default tokens are estimated, as `estimateTokens` does.
     */
    countTokens?: (text: string) => number;
    /** Whether results of calls that were not allowed are refused. By default true. */
    strict?: boolean;
    /**
     * Lets `Session.prompt` summarise older turns by itself, before a request and between its continuations, at most twice in a
     * row. The new message and its turn always stay, and nothing is summarised where they alone do not fit; older turns, the
     * last stored one among them, may be. Without `summarize` it does not. Where that fails, listeners hear
     * `compaction-failed`, and the turn goes on with what there is. A host with a loop of its own calls `Session.compact` between turns.
     */
    compaction?: {
        /** The part of the input limit, over 0 and up to 1, over which a request is compacted first. By default 0.9. */
        pressure?: number;
        summarize?: Summarize;
    };
    skills?: {
        /**
         * At most so many tokens of the system prompt list the skills that the model may load. By default 2,000; with 0 none is
         * offered to it.
         */
        tokenCap?: number;
        /** Scopes from the strongest to the weakest. By default `project`, `personal`, `bundled`. */
        scopeOrder?: string[];
    };
}

/** What a request to `Runtime.fetch` asks for, with the ids of its path, decoded. */
export type HttpOperation =
    | { operation: "getSessionRunContext"; method: "GET"; route: "/api/sessions/{id}/run_context"; id: string }
    | { operation: "setSessionRunContext"; method: "POST"; route: "/api/sessions/{id}/run_context"; id: string }
    | { operation: "getProjectRunContext"; method: "GET"; route: "/api/projects/{id}/run_context"; id: string }
    | { operation: "setProjectRunContext"; method: "POST"; route: "/api/projects/{id}/run_context"; id: string }
    | {
          operation: "getTicketRunContext";
          method: "GET";
          route: "/api/projects/{project_id}/tickets/{ticket_id}/run_context";
          project_id: string;
          ticket_id: string;
      }
    | {
          operation: "setTicketRunContext";
          method: "POST";
          route: "/api/projects/{project_id}/tickets/{ticket_id}/run_context";
          project_id: string;
          ticket_id: string;
      }
    | { operation: "getJobRunContext"; method: "GET"; route: "/api/jobs/{id}/run_context"; id: string }
    | { operation: "setJobRunContext"; method: "POST"; route: "/api/jobs/{id}/run_context"; id: string }
    | { operation: "listRules"; method: "GET"; route: "/api/approval/rules" }
    | { operation: "addRule"; method: "POST"; route: "/api/approval/rules" }
    | { operation: "updateRule"; method: "PUT"; route: "/api/approval/rules/{id}"; id: string }
    | { operation: "deleteRule"; method: "DELETE"; route: "/api/approval/rules/{id}"; id: string }
    | { operation: "listGroups"; method: "GET"; route: "/api/permission-groups" }
    | { operation: "createGroup"; method: "POST"; route: "/api/permission-groups" }
    | { operation: "updateGroup"; method: "PUT"; route: "/api/permission-groups/{id}"; id: string }
    | { operation: "deleteGroup"; method: "DELETE"; route: "/api/permission-groups/{id}"; id: string }
    | { operation: "duplicateGroup"; method: "POST"; route: "/api/permission-groups/{id}/duplicate"; id: string }
    | { operation: "listApprovals"; method: "GET"; route: "/api/inbox" }
    | { operation: "resolveApproval"; method: "POST"; route: "/api/inbox/approvals/{request_id}/resolve"; request_id: string };

/** A host's place where skills are. */
export interface SkillSource {
    /** `project`, `personal`, `bundled` or a name of your own without colons. */
    scope: string;
    /**
     * The files that are there now; asked when the source is added, and by `refresh()`. Each file is read then, for its name and
     * description, and again whenever its skill is chosen. `location` is shown to the model.
     */
    list(): Promise<SkillFile[]> | SkillFile[];
}

/** A `SKILL.md` that a source lists. */
export interface SkillFile {
    location: string;
    /** Its text or its bytes, as they are now. */
    read(): Promise<string | Uint8Array> | string | Uint8Array;
}

/** How sources are read. */
export interface RefreshOptions {
    /** Stops it; the catalogue stays as it is. */
    signal?: AbortSignal;
    /** Hears how many files were read, and how many there are as far as that is known. */
    onProgress?: (progress: { read: number; files: number }) => void;
}

/** Rows of the tables `tool_permission_groups` and `approval_rules`. */
export interface PermissionRows {
    groups?: { id: string; name: string; description?: string | null; [column: string]: unknown }[];
    rules?: {
        id?: number | null;
        agent_id?: string | null;
        source?: string | null;
        tool_pattern: string;
        path_pattern?: string | null;
        action: string;
        note?: string | null;
        priority?: number | null;
        group_id?: string | null;
        locked?: boolean | number | null;
        [column: string]: unknown;
    }[];
}

/** What sessions run as that are given nothing else, as it may stand in a `config.yml`. Other members are kept. */
export interface RunContextDefaults {
    /** By the session's `agentId`. */
    agents?: Record<string, RunContextDefault | null> | null;
    /** By the session's `source`, where its agent has none. */
    sources?: Record<string, RunContextDefault | null> | null;
    /** The same as `sources.tic`, which comes before it. */
    tic?: RunContextDefault | null;
    [other: string]: unknown;
}

/** A section of the defaults: null says that there is none, whatever else is configured. Absent says nothing. */
export interface RunContextDefault {
    run_context?: RunContext | null;
    [other: string]: unknown;
}

/** What decides which run context a session begins with. */
export interface ResolveRunContextInput {
    /** Null: none, whatever else is there. */
    explicit?: RunContext | null;
    agentId?: string;
    source?: string;
    /** An object, or the text of a `config.yml`. */
    defaults?: RunContextDefaults | string;
    project?: Project;
    ticket?: Ticket;
    /** The person's data directory. */
    dataDir?: string;
}

/** A row of `projects`. Other columns are kept as they are. */
export interface Project {
    /** 1 to 128 letters, digits, `_` or `-`. */
    id: string;
    /** For people, and for the model. */
    name: string;
    /** The same. */
    description?: string | null;
    /** Its directory: absolute, and not the root of a file system. */
    path: string;
    /** What its sessions run as where their ticket does not say. Null says nothing. */
    run_context?: RunContext | null;
    [column: string]: unknown;
}

/** A row of `project_tickets`. Other columns are kept as they are. */
export interface Ticket {
    /** 1 to 128 letters, digits, `_` or `-`; no two tickets have the same. */
    id: string;
    /** The project that it belongs to. */
    project_id: string;
    /** For people, and for the model. */
    title: string;
    /** The same. */
    description?: string | null;
    /** What its sessions run as. Null says nothing: then the project's counts. */
    run_context?: RunContext | null;
    [column: string]: unknown;
}

/** A row of `scheduled_jobs`. Other columns, such as when it runs, are kept as they are. */
export interface Job {
    /** 1 to 128 letters, digits, `_` or `-`. */
    id: string;
    /** For people. */
    name: string;
    /** The same. */
    description?: string | null;
    /** What its sessions run as, as it is. Null says nothing. */
    run_context?: RunContext | null;
    [column: string]: unknown;
}

/** A row that may leave its id to the store. */
export type NewWork<Row> = { [Column in keyof Row as Column extends "id" ? never : Column]: Row[Column] } & { id?: string };

/** What became of a row. */
export interface SavedWork {
    id: string;
    /** Members of its run context that are kept and not looked at, such as `run_context.colour`. */
    unknownFields: string[];
}

/** How a session file is imported. */
export interface ImportOptions {
    /** Whether the session keeps its id, which is the default, or gets a new one. */
    id?: "keep" | "new";
    /** Stops it; then nothing is stored. */
    signal?: AbortSignal;
    /** Hears how many bytes were read, and how many messages were stored. */
    onProgress?: (progress: { bytes: number; messages: number }) => void;
}

/** What a session begins with. */
export interface SessionOptions {
    /** 1 to 128 letters, digits, `_` or `-`; by default a UUID. */
    id?: string;
    cwd?: string;
    /** The shape of its messages, from now on; by default `loop`. */
    dialect?: Dialect;
    /** A person's choice. Absent: nobody chose yet, and `read-only` counts. */
    permissionPreset?: PermissionPreset | null;
    /** Group, prompt fragments, grants and working directory; null for none. Absent: what job, ticket, project or `defaults` say. */
    runContext?: RunContext | null;
    agentId?: string;
    source?: string;
    /** The project that it is opened for. */
    projectId?: string;
    /** The ticket that it is opened for, of whatever project. */
    ticketId?: string;
    /** The job that it is opened for. Its run context counts as if it was given here. */
    jobId?: string;
    /** Whether nobody is there to be asked. */
    headless?: boolean;
    /** The application's own instructions. */
    systemPrompt?: string;
    /** Instruction files, kept with the session as they are now. */
    projectInstructions?: InstructionFile[];
    /** Further sections of the system prompt. */
    sections?: Section[];
    model?: ModelRef;
}

/** What `Session.configure` changes; what is absent stays. */
export interface SessionChange {
    model?: ModelRef | null;
    systemPrompt?: string;
    sections?: Section[];
}

/** How a prompt is meant. */
export interface PromptOptions {
    /** Ids of skills that were chosen for this message. */
    skills?: string[];
    /** Whether `$name` in the text chooses a skill. By default true. */
    mentions?: boolean;
    signal?: AbortSignal;
}

/**
 * Writes a text that stands for these messages, which are as the model sees them. It may say who wrote it and what it cost; by
 * default the session's provider and model are recorded.
 */
export type Summarize = (messages: Message[], options: { signal: AbortSignal }) => Promise<Summary> | Summary;
export type Summary = string | { summary: string; provider?: string; model?: string; usage?: unknown };

/** How a session is compacted. */
export interface CompactOptions {
    /** About so many tokens of the latest turns stay, and always the newest turn. By default a quarter of what the model takes, or 20,000. */
    keepRecentTokens?: number;
    /** By default the runtime's. */
    summarize?: Summarize;
}

/** How a turn ended, and whether all of it is saved. */
export interface TurnResult {
    outcome: Outcome;
    /** Why it failed. */
    error?: string;
    /** False: `flush()` finishes it. */
    saved: boolean;
    saveError?: RunContextError;
    /** Values that could not be stored and became null; each `path` is a place in the stored message. */
    degraded?: { messageIndex: number; path: string }[];
}

/** A skill that was shown to the model. */
export interface SkillLoad {
    userTurn: number;
    id: string;
    name: string;
    revision: string;
}

/** The state of a session, as a copy. */
export interface SessionState {
    /** The same list as `Session.messages`. */
    messages: readonly Message[];
    messageCount: number;
    /** Position of the first message of `messages`. */
    loadedFrom: number;
    isRunning: boolean;
    /** A turn of this session runs in another tab or worker, where the browser has Web Locks to say so. */
    runsElsewhere: boolean;
    /** How the last turn ended. */
    outcome: Outcome | undefined;
    error: string | undefined;
    /** A write failed and is kept; `flush()` finishes it. */
    hasPendingSave: boolean;
    unread: number;
    permissionPreset: PermissionPreset | null;
    runContext: RunContext | null;
    /** Members of the run context that are kept and not looked at, such as `runContext.colour`. */
    unknownFields: string[];
    /** The estimate of the last request. */
    contextBudget: ContextBudget | undefined;
    /** Calls that a person is asked about, oldest first. */
    pendingApprovals: PendingApproval[];
    /** Skills that were chosen, oldest first. */
    skillLoads: SkillLoad[];
    title: string | undefined;
    pinned: boolean;
    /** What listeners threw, and why a skill that the model asked for could not be loaded. */
    listenerErrors: string[];
    /**
     * Stored records that cannot be read, or are not there. A session with any can be read and deleted; everything else is refused
     * with `storage_failed`. A message that is not there is `{ role: "missing" }`.
     */
    damage: Damage[];
}

/** Settings and metadata of a session, as a copy. */
export interface SessionHeader {
    type: "session";
    version: 2;
    id: string;
    cwd: string;
    /** ISO 8601, UTC. */
    createdAt: string;
    /** ISO 8601, UTC. */
    updatedAt: string;
    dialect: Dialect;
    permissionPreset: PermissionPreset | null;
    runContext: RunContext | null;
    agentId: string | null;
    source: string | null;
    headless: boolean;
    systemPrompt: string;
    projectInstructions: InstructionFile[];
    sections: Section[];
    model: ModelRef | null;
    title: string | null;
    pinned: boolean;
    outcome: Outcome | null;
    error: string | null;
    messageCount: number;
    runtimeContexts: RuntimeContextSnapshot[];
    systemPromptCheckpoints: SystemPromptCheckpoint[];
    compactions: CompactionCheckpoint[];
}

/** Something that happened to a session. */
export type SessionEvent =
    | { type: "turn-start"; userTurn: number }
    | { type: "message"; messageIndex: number; message: Message }
    | { type: "update"; message: Message }
    /** The estimate of a request, once it is built, or is too large to be one. */
    | { type: "budget"; budget: ContextBudget }
    | { type: "turn-end"; result: TurnResult }
    | { type: "approval-requested"; requestId: string }
    | { type: "approval-resolved"; result: ApprovalResult }
    /** Older turns are being summarised; the messages from `firstKeptMessageIndex` on stay. */
    | { type: "compaction-start"; firstKeptMessageIndex: number }
    /** A summary stands for them from now on. */
    | { type: "compaction-end"; compaction: CompactionCheckpoint }
    /** There is no summary, and the conversation is as it was. */
    | { type: "compaction-failed"; error: RunContextError }
    | { type: "settings" }
    /** What is stored took the place of what was shown: look again. */
    | { type: "reloaded" }
    | { type: "saved" }
    | { type: "save-failed"; error: RunContextError };

/** Something that happened to the runtime. */
export type RuntimeEvent =
    | { type: "session-created"; sessionId: string }
    | { type: "session-deleted"; sessionId: string }
    /** Another tab or worker stored something of this session. */
    | { type: "session-changed"; sessionId: string }
    /** Skills were added, removed, switched on or off, or are others after a refresh. */
    | { type: "skills-changed" }
    /** Permission groups or rules changed: here, or elsewhere, which is noticed when they are looked at. */
    | { type: "permissions-changed" }
    /**
     * The connection to the database was closed from outside. `upgraded`: a newer version of the page runs in another tab, and
     * nothing more is saved here; load this page again. `deleted`: another tab deleted the database. `lost`: the browser closed it,
     * as when a person clears the site's data. After the last two it is opened again when it is needed.
     */
    | { type: "storage-closed"; reason: "upgraded" | "deleted" | "lost" }
    /** The database could not be opened again, because another tab is in the way; what needed it failed with `storage_blocked`. */
    | { type: "storage-blocked" }
    /** A session, an approval or a row that cannot be read was left out of a list; the rest was listed. */
    | { type: "list-incomplete"; error: RunContextError };
"#;
