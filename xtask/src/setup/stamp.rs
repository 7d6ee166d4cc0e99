//! Stamp files: the last thing that a step writes. What they hold says what the step was done for.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Whether the step was finished, and for the same thing.
pub fn holds(file: &Path, content: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text == content)
}

/// Says that the step is finished.
pub fn write(file: &Path, content: &str) -> Result<()> {
    fs::write(file, content).with_context(|| format!("cannot write {}", file.display()))
}
