//! Names of the stores, the same in every kind of storage.

/// One record per session, with its counters and settings.
pub const SESSIONS: &str = "chat_sessions";
/// One record per message: its body, by session and index.
pub const MESSAGES: &str = "messages";
/// Outlines of messages, many to a record, by session and pack.
pub const OUTLINES: &str = "message_outlines";
/// Runtime-context snapshots, by session and position.
pub const SNAPSHOTS: &str = "runtime_contexts";
/// System prompt checkpoints, by session and position.
pub const CHECKPOINTS: &str = "system_prompt_checkpoints";
/// Compactions, by session and position.
pub const COMPACTIONS: &str = "compactions";
/// Approvals that have not ended, by session and request.
pub const APPROVALS: &str = "approvals";
/// The last operation ids of each session, by session and slot.
pub const COMMITS: &str = "commits";

/// Every store whose records belong to one session.
pub const OF_SESSIONS: &[&str] = &[
    SESSIONS,
    MESSAGES,
    OUTLINES,
    SNAPSHOTS,
    CHECKPOINTS,
    COMPACTIONS,
    APPROVALS,
    COMMITS,
];

/// Skills that were added by content.
pub const SKILLS: &str = "skills";
/// Permission groups, by id.
pub const GROUPS: &str = "tool_permission_groups";
/// Approval rules, by id.
pub const RULES: &str = "approval_rules";
/// What a policy is made of: every write to one of these raises the policy version.
pub const OF_POLICY: &[&str] = &[GROUPS, RULES];
/// Projects, by id.
pub const PROJECTS: &str = "projects";
/// Tickets of projects, by id.
pub const TICKETS: &str = "project_tickets";
/// Scheduled jobs, by id.
pub const JOBS: &str = "scheduled_jobs";
/// What has a run context, and may name a permission group in it.
pub const WITH_RUN_CONTEXT: &[&str] = &[PROJECTS, TICKETS, JOBS];
/// Every store that sessions share: JSON values by key.
pub const SHARED: &[&str] = &[SKILLS, JOBS, PROJECTS, TICKETS, GROUPS, RULES];
