//! Crate to `pkg/`.
use anyhow::Result;
pub fn command() -> Result<()> {
    Ok(())
}
