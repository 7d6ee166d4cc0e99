//! Folders: of the project, and of the user's cache, which outlives a clone.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The top of the project.
pub fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// Where cargo builds. Follows `CARGO_TARGET_DIR`.
pub fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// The assembled npm package.
pub fn package() -> PathBuf {
    root().join("pkg")
}

/// Tools that are built or downloaded once for a user, in folders keyed by version.
pub fn tools() -> Result<PathBuf> {
    let cache = match env::var_os("XDG_CACHE_HOME").filter(|folder| Path::new(folder).is_absolute()) {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env::var_os("HOME").context("HOME is not set: set it, or XDG_CACHE_HOME")?)
            .join(".cache"),
    };
    Ok(cache.join("runcontext").join("tools"))
}

/// Where cargo keeps the sources of dependencies.
pub fn cargo_home() -> Result<PathBuf> {
    match env::var_os("CARGO_HOME") {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => Ok(
            PathBuf::from(env::var_os("HOME").context("HOME is not set: set it, or CARGO_HOME")?)
                .join(".cargo"),
        ),
    }
}

/// A program in the folders of `PATH`.
pub fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
