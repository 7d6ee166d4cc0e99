//! The one error type: a code from a closed list, a message that says what to do next, and data fields per code.

use std::fmt;

use serde_json::{Map, Value};

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// What went wrong, as a closed list. The text form is the `code` that JavaScript sees.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode { $($(#[$doc])* $variant,)* }

        impl ErrorCode {
            /// Every code, in the order of the contract.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$variant,)*];

            /// The text form, for example `invalid_argument`.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$variant => $text,)* }
            }
        }

        /// The closed list as a TypeScript type.
        #[cfg(target_family = "wasm")]
        pub const CODES_IN_TYPESCRIPT: &str = concat!(
            "/** The closed list of error codes. */\nexport type RunContextErrorCode =",
            $("\n    | '", $text, "'",)*
            ";\n"
        );
    };
}

codes! {
    /// A call before `init()` had finished.
    NotInitialized = "not_initialized",
    /// The WebAssembly instance trapped; `init()` makes a new one.
    ModuleFailed = "module_failed",
    /// An argument has the wrong type, shape or value.
    InvalidArgument = "invalid_argument",
    /// No such session, turn or record.
    NotFound = "not_found",
    /// An exclusive operation is under way.
    SessionBusy = "session_busy",
    /// A stored turn was cut off; resume or abandon it first.
    SessionInterrupted = "session_interrupted",
    /// A tool call waits for a person's answer.
    PendingApprovals = "pending_approvals",
    /// A write failed and is retained; flush it first.
    PendingSave = "pending_save",
    /// The session or runtime was disposed.
    Disposed = "disposed",
    /// The caller's signal aborted the operation.
    Aborted = "aborted",
    /// The request does not fit the model's context window.
    BudgetExceeded = "budget_exceeded",
    /// A message holds a value that is not plain data.
    MessageNotStorable = "message_not_storable",
    /// A message of another dialect than the session's.
    DialectMismatch = "dialect_mismatch",
    /// A chosen skill is unknown, disabled or unreadable.
    SkillUnavailable = "skill_unavailable",
    /// A `SKILL.md` cannot be used.
    SkillInvalid = "skill_invalid",
    /// Somebody else wrote first, or an id is taken.
    Conflict = "conflict",
    /// Another tab holds an older database open.
    StorageBlocked = "storage_blocked",
    /// The storage quota is used up.
    StorageQuota = "storage_quota",
    /// The connection to storage was lost.
    StorageLost = "storage_lost",
    /// The database was written by a newer version.
    StorageSchemaNewer = "storage_schema_newer",
    /// Storage failed in another way.
    StorageFailed = "storage_failed",
    /// There is nothing to compact.
    NothingToCompact = "nothing_to_compact",
    /// No such pending approval.
    ApprovalNotFound = "approval_not_found",
    /// The approval no longer matches the call.
    ApprovalChanged = "approval_changed",
    /// A tool result for a call that was never allowed.
    ToolNotGated = "tool_not_gated",
    /// The permission group is protected.
    GroupProtected = "group_protected",
    /// The permission group is in use.
    GroupInUse = "group_in_use",
    /// Another rule already says the opposite.
    RuleConflict = "rule_conflict",
    /// The imported session is malformed.
    ImportInvalid = "import_invalid",
    /// The request was not authorized.
    Unauthorized = "unauthorized",
    /// A host callback failed.
    HostFailed = "host_failed",
    /// The model client failed before the prompt was dispatched.
    ModelFailed = "model_failed",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A typed error. `message` is lower case, has no final period, puts user input in backticks and says what to do.
///
/// Errors are rare and results are everywhere, so that an error is one pointer wide.
#[derive(Clone, Debug, PartialEq)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug, PartialEq)]
struct Inner {
    code: ErrorCode,
    message: String,
    data: Map<String, Value>,
}

impl Error {
    /// An error with a code and a message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            message: message.into(),
            data: Map::new(),
        }))
    }

    /// The commonest one: an argument that cannot be used.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArgument, message)
    }

    /// The same error with one more data field.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.data.insert(key.to_owned(), value.into());
        self
    }

    /// The code.
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// The text for a developer.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The data fields of this code.
    pub fn data(&self) -> &Map<String, Value> {
        &self.0.data
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Error {}
