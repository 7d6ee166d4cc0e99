//! The demo site.
use anyhow::Result;
pub fn command(_: &[String]) -> Result<()> {
    Ok(())
}
