// What a place to keep sessions looks like, for hosts that bring their own. `runcontext/storage/conformance` is a suite
// that any adapter can run.

/**
 * A value as it is stored: UTF-8 JSON text. An adapter keeps the bytes as they are and never reads them. What JSON lacks is an
 * object whose only member is `$`: `{"$":"-0"}`, `{"$":{"bytes":"<base64>"}}`, and `{"$":{"object":{"$":...}}}` for such an object.
 */
export type Encoded = Uint8Array;

/** Version counters of a session. A turn depends on `conversation` alone. */
export interface Counters {
    conversation: number;
    settings: number;
}

/** Which session has an id, and where it stands. */
export interface Standing extends Counters {
    /**
     * The operation that created it. Counters alone do not tell it from one that had its id before: where this is not said, all
     * of the session is loaded to know it.
     */
    origin?: string;
}

/** The lists of records that a session has. */
export type RecordStore =
    | 'messages'
    | 'message_outlines'
    | 'runtime_contexts'
    | 'system_prompt_checkpoints'
    | 'compactions';

/** One atomic change of one session: plain data, so that it can travel. */
export interface EncodedCommit {
    sessionId: string;
    /** Names this change for ever. At least the last 1,024 of a session are remembered. */
    operationId: string;
    /** Milliseconds since the epoch; becomes the session's `updatedAt`. Below 0 while an import is under way: nobody is shown it. */
    timestamp: number;
    /** The operation that created the session that is meant: its id may be another's by now. */
    origin: string;
    /** In a session's first commit alone: what never changes of it, and its first settings. */
    create?: { header: Encoded; settings: Record<string, Encoded> };
    /** The `conversation` counter that the change builds on. Absent in a change of settings and approvals alone. */
    expected?: number;
    /** How many messages the session has afterwards, where there are more than before. */
    messageCount?: number;
    /** New records. Those of `message_outlines` replace the one at their position; any other position is free. */
    records: { store: RecordStore; position: number; value: Encoded }[];
    /** Approvals that are asked for, answered, or ended (`null`). `expected` is the version, 0 for one that is not there. */
    approvals: { id: string; expected?: number; value: Encoded | null }[];
    /** Changed settings, one by one: the last write of a field wins. */
    settings: Record<string, Encoded>;
}

/** What became of a commit. */
export type CommitResult = { status: 'applied' | 'already-applied' | 'conflict'; counters: Counters };

/** Everything of a session but its messages. */
export interface StoredSession {
    header: Encoded;
    origin: string;
    /** Milliseconds since the epoch, of the last commit. */
    updatedAt: number;
    messageCount: number;
    counters: Counters;
    settings: Record<string, Encoded>;
    /** The records of `message_outlines`, by position, rising. */
    outlines: Encoded[];
    /** Those of `runtime_contexts`. */
    snapshots: Encoded[];
    /** Those of `system_prompt_checkpoints`. */
    checkpoints: Encoded[];
    compactions: Encoded[];
    approvals: { id: string; version: number; value: Encoded }[];
}

/**
 * One session. Methods reject with an error whose `code` is `storage_quota`, `storage_lost` (the connection is gone: a call
 * is tried once more, but for `delete` and a write of what sessions share), `storage_blocked` or `storage_schema_newer`; any
 * other error counts as `storage_failed`. So does no answer within 30 seconds: a commit is then sent again, with its operation id,
 * perhaps while the first one is still on its way.
 */
export interface SessionStorage {
    /** Undefined where there is no such session. */
    counters(): Promise<Standing | undefined>;
    /** Undefined where there is no such session. All parts are of one moment. */
    load(): Promise<StoredSession | undefined>;
    /** The messages at `from` up to, but not including, `to`, in order: those that are there. */
    readMessages(page: { from: number; to: number }): Promise<Encoded[]>;
    /**
     * Applies a commit whole or not at all; when it resolves with `applied`, the change is durable. In this order, all in the
     * transaction that writes:
     *
     * 1. The session remembers the operation: `already-applied`.
     * 2. `create`, and the session is there; or its origin, its `conversation` counter where `expected` is given, or the version
     *    of an approval that names one is another: `conflict`. Nothing is written.
     * 3. No `create`, and there is no session: it rejects with the code `not_found`.
     * 4. Everything is written. `conversation` rises by one where `expected` is given, `settings` where `settings` has a field;
     *    both begin at 0. The version of an approval rises by one, from 1. A position that is taken rejects and writes nothing.
     */
    commit(commit: EncodedCommit): Promise<CommitResult>;
    /** Removes all that belongs to the session. Removing what is not there is no error. */
    delete(): Promise<void>;
}

/** A store that sessions share: values by key. */
export type SharedStore =
    | 'skills'
    | 'scheduled_jobs'
    | 'projects'
    | 'project_tickets'
    | 'tool_permission_groups'
    | 'approval_rules';

/** What sessions share. Keys may hold any code unit, NUL and half a pair too. A write is seen by whoever reads afterwards, wherever they are: the gate trusts the policy version. */
export interface SharedStorage {
    /**
     * How many writes changed `tool_permission_groups` or `approval_rules`. What was read at a version decides until the version is
     * another: each decision asks for this number and no more. So it must never come back with other contents. Who puts a backup
     * back while runtimes are open raises it above all that were ever given, or restarts them.
     */
    policyVersion(): Promise<number>;
    get(store: SharedStore, key: string): Promise<Encoded | undefined>;
    /** By key, in the order of their UTF-16 code units, as JavaScript compares them. A prefix is no pattern. */
    list(store: SharedStore, prefix?: string): Promise<[string, Encoded][]>;
    /** All of the changes or none; with an expected version only where it is still that. */
    write(
        changes: { store: SharedStore; key: string; value: Encoded | null }[],
        expectedPolicyVersion?: number,
    ): Promise<{ policyVersion: number } | { conflict: number }>;
}

/** A session, or an approval that waits, where it can be listed without opening its session. */
export interface DirectoryEntry {
    kind: 'session' | 'approval';
    /**
     * Unique over both kinds: a session's id, or `SESSION/REQUEST` for an approval. `SESSION//OPERATION` is put before a session is
     * created, and removed when the session's own entry is there.
     */
    id: string;
    sessionId: string;
    /** The session's working directory. It may hold any code unit, NUL and half a pair too. */
    cwd: string;
    /** Milliseconds since the epoch. */
    updatedAt: number;
    value: Encoded;
}

/** The list of sessions and of approvals that wait. It may be behind: whoever opens a session corrects its entries. */
export interface DirectoryStorage {
    /** Puts an entry in the place of the one with its id. One that is older than the one that is there changes nothing. */
    put(entry: DirectoryEntry): Promise<void>;
    /** Removing what is not there is no error. */
    remove(id: string): Promise<void>;
    /** By `updatedAt`, then id, both descending. `before` is `updatedAt:id` of the last entry of the page before. */
    list(filter: {
        kind: 'session' | 'approval';
        cwd?: string;
        limit: number;
        before?: string;
    }): Promise<DirectoryEntry[]>;
}

/** A place to keep sessions, in three parts, so that one object per session is possible. */
export interface StorageAdapter {
    /** What `storageInfo` says. */
    kind: string;
    /** Whether what is saved is there after a restart. */
    persistent: boolean;
    session(id: string): SessionStorage;
    shared: SharedStorage;
    directory: DirectoryStorage;
}
