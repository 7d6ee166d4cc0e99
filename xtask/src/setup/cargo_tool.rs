//! Programs that `cargo install` builds: once for a user, kept by version.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::{places, report, run};

/// Installs a package, unless it is there. `find` looks for its programs in a folder.
pub fn ensure<T>(what: &str, package: &str, version: &str, find: impl Fn(&Path) -> Option<T>) -> Result<T> {
    let kept = places::tools()?.join(format!("{what}-{version}"));
    if let Some(found) = find(&kept.join("bin")) {
        report::already(what, &format!("there, {version}"));
        return Ok(found);
    }
    let unfinished = places::tools()?.join(format!("{what}-{version}.tmp-{}", std::process::id()));
    report::step(
        &format!("{what}: cargo install {package} {version} (a few minutes, once)"),
        || {
            // Not --locked: the lock file in the package may name versions that a registry mirror does not serve.
            let mut cargo = run::program("cargo", ["install", package, "--version", version, "--root"]);
            cargo
                .arg(&unfinished)
                .current_dir(places::tools()?)
                .env("CARGO_TARGET_DIR", unfinished.join("target"));
            run::run(&mut cargo)?;
            fs::remove_dir_all(unfinished.join("target"))?;
            if kept.exists() {
                fs::remove_dir_all(&kept)?;
            }
            Ok(fs::rename(&unfinished, &kept)?)
        },
    )?;
    find(&kept.join("bin")).with_context(|| {
        format!(
            "{what} {version} was installed in {} and does not run",
            kept.display()
        )
    })
}
