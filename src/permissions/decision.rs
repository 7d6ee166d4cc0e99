//! What the gate answers, and why.

use serde::Serialize;

use super::{
    rule::{Action, ApprovalRule},
    tool::PathAccess,
};

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The step that set an outcome. A closed list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
        pub enum Reason { $($(#[$doc])* $variant,)* }

        impl Reason {
            /// Every reason.
            pub const ALL: &[Reason] = &[$(Reason::$variant,)*];

            /// The text form.
            pub fn as_str(self) -> &'static str {
                match self { $(Reason::$variant => $text,)* }
            }
        }
    };
}

reasons! {
    /// A locked rule.
    LockedRule = "locked_rule",
    /// A rule.
    Rule = "rule",
    /// No rule speaks of the call.
    NoMatch = "no_match",
    /// The session's permission group does not exist.
    GroupMissing = "group_missing",
    /// Whether the rules are the ones in force could not be seen.
    PolicyUnverified = "policy_unverified",
    /// The path may mean something else than it says.
    PathUnsafe = "path_unsafe",
    /// The host did not say where the path leads.
    PathUnresolved = "path_unresolved",
    /// A text in the arguments may be a path that a locked rule speaks of.
    PossiblePath = "possible_path",
    /// The preset's ceiling.
    Ceiling = "ceiling",
    /// The `memory/` directory of the workspace.
    Memory = "memory",
    /// The run context's grants.
    RunContext = "run_context",
    /// A person's bypass.
    Bypass = "bypass",
    /// The preset's floor.
    Preset = "preset",
    /// Nobody can be asked.
    Headless = "headless",
}

/// One step on the way to a decision.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct TraceStep {
    /// `shape`, `locked`, `rules`, `insisting`, `ceiling`, `memory`, `run_context`, `bypass`, `preset` or `headless`.
    pub step: &'static str,
    /// What holds after it.
    pub outcome: Action,
    /// What it found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The id of the rule that it found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(target_family = "wasm", tsify(type = "number"))]
    pub rule: Option<i64>,
    /// The place in `paths` of the path that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<u32>,
}

/// A path of a call, in the forms in which it was decided on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct DecidedPath {
    /// Where in the arguments, as a JSON pointer.
    pub argument: String,
    /// What is done with it.
    pub access: PathAccess,
    /// As the arguments name it.
    pub requested: String,
    /// Absolute, by text alone.
    pub lexical: String,
    /// Where it really leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical: Option<String>,
    /// Why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unresolved: Option<String>,
}

/// What the gate answers. The same question gives the same answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// Whether the call may run.
    pub outcome: Action,
    /// The step that set the outcome.
    pub reason: Reason,
    /// The same for people.
    pub message: String,
    /// The approval that waits for a person.
    #[serde(rename = "requestId", skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The rule, where one decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<ApprovalRule>,
    /// The paths of the call.
    pub paths: Vec<DecidedPath>,
    /// Absolute: what its relative paths are relative to, and where a command runs.
    #[serde(rename = "workingDirectory")]
    pub working_directory: String,
    /// How it came about; empty unless it was asked for.
    #[serde(skip)]
    pub trace: Vec<TraceStep>,
}
