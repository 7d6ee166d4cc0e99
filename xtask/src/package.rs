//! `pkg/` to an npm tarball.
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::setup::Builder;

/// The packed package.
#[derive(Debug)]
pub struct Package {
    pub tarball: PathBuf,
}
pub fn command() -> Result<()> {
    Ok(())
}
pub fn make(_: &Builder) -> Result<Package> {
    bail!("later")
}
