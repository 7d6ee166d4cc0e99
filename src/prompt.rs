//! The system prompt: named sections, rendered in an order that is a function of their names alone, and
//! checkpoints of what changed, from which the prompt of any stored message can be replayed.
//!
//! A section is *empty* when its content is blank (white space alone). Empty sections are left out everywhere:
//! rendering skips them, a checkpoint records one as removed, and replaying does not bring it back.

mod checkpoint;
mod instructions;
mod neutralise;
mod section;
mod split;

pub use checkpoint::{Changes, Checkpoint, diff_system_prompt, replay_system_prompt, system_prompt_at};
pub use instructions::{InstructionFile, project_instructions_body};
pub use neutralise::neutralise;
pub use section::{
    CWD, PERMISSIONS, PREAMBLE, PROJECT_INSTRUCTIONS, RUN_CONTEXT, SKILLS, Section, render_system_prompt,
    validate_host_sections,
};
pub use split::split_system_prompt;
