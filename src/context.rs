//! What the model is shown: snapshots of runtime context, and the projection.

mod snapshot;

pub use snapshot::{LoadedSkill, Placement, RuntimeContextSnapshot};
