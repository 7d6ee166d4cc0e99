//! What the model is shown: snapshots of runtime context, compactions, and the projection.

mod compaction;
mod snapshot;

pub use compaction::CompactionCheckpoint;
pub use snapshot::{LoadedSkill, Placement, RuntimeContextSnapshot};
