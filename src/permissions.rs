//! What the user lets the agent do: permission presets, and the text that tells the model about them.

mod preset;
mod text;

pub use preset::{Access, Cell, Clause, Location, Preset, cell, clauses};
pub use text::permissions_text;
