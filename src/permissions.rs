//! What the user lets the agent do: permission presets, the text that tells the model about them, approval rules, and the
//! gate that answers allow, deny or require for each tool call.

mod bypass;
mod decision;
mod digest;
mod forms;
mod gate;
mod ground;
mod input;
mod judge;
mod lint;
mod policy;
mod preset;
mod rule;
mod store;
mod text;
mod tool;
mod walks;

pub use bypass::{Bypass, BypassScope};
pub use decision::{DecidedPath, Decision, Reason, TraceStep};
pub use digest::{call_digest, definition_digest};
pub use gate::Inquiry;
pub use ground::{Ground, Place, Query, ResolvedPath};
pub use input::{DecideInput, PROTECTED_NAMES, Repeated, protected_names};
pub use judge::{PROTECTED_RULE, protected_rule};
pub use lint::LintFinding;
pub use policy::Policy;
pub use preset::{Access, Cell, Clause, Location, Preset, cell, clauses};
pub use rule::{Action, ApprovalRule, DEFAULT_GROUP, check_catch_all, seeded_rules};
pub use store::{PermissionChange, PermissionGroup};
pub(crate) use store::{RowChange, Rows, users_of};
pub(crate) use text::REPLACES;
pub use text::permissions_text;
pub use tool::{
    ExtractedPath, PathAccess, PathArgument, PathRequest, Requested, ToolPolicy, extracted, texts_in,
};
