//! What the model is shown: snapshots of runtime context, compactions, the projection, its budget and how it
//! differs from the request before.

mod budget;
mod compaction;
mod divergence;
mod projection;
mod snapshot;

pub use crate::message::text_tokens;
pub use budget::{BudgetParts, ContextBudget};
pub use compaction::{CompactionCheckpoint, Summary, plan_compaction};
pub use divergence::{DeclaredEvent, Divergence, DivergenceClass, RequestTrace, divergence};
pub use projection::{
    Notice, NoticeCode, Projection, SkillExpansion, SkillRevision, SkillSpan, Source, SourceMap, materialise,
    project,
};
pub(crate) use projection::{Plan, look_up};
pub use snapshot::{LoadedSkill, Placement, RuntimeContextSnapshot};
