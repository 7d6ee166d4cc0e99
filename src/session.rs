//! A session: its settings, its conversation, its turn, and the commits that wait to be saved.

mod approval;
mod export;
mod gate;
mod header;
mod hint;
mod import;
mod lines;
mod machine;
mod turn;

pub use approval::{Approval, ApprovalStatus, approval_not_found, rejection};
pub use export::Texts;
pub use gate::{InForce, Now, OpenTurn, StoredRunContext, check_same_call, check_seconds};
pub use header::{Header, ModelRef, NewSession, Outcome, Setting};
pub use hint::{Hint, Takes};
pub use import::Import;
pub(crate) use lines::look;
pub use machine::{
    Degraded, Exclusive, Incoming, Interrupted, Machine, Pending, Stamp, Surroundings, ToSummarise,
};
pub use turn::{ModelRequest, Next, RequestReport, ToolCall, ToolDeclaration, TurnEnd, TurnInput};
