//! PostgreSQL's programs. The tests make databases and start servers of their own.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::Result;

use super::apt;
use crate::{places, run};

/// Debian keeps each version in a folder of its own here, and puts none of them on the `PATH`.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The folder with `initdb` and `postgres`.
pub fn ensure() -> Result<PathBuf> {
    apt::ensure(
        "PostgreSQL",
        &["postgresql"],
        "install it and set POSTGRES_BIN to the folder with `initdb` and `postgres`",
        || {
            let folder = find()?;
            let version = run::version(&folder.join("postgres"))?;
            Some((folder, version))
        },
    )
}

fn find() -> Option<PathBuf> {
    let named = env::var_os("POSTGRES_BIN").map(PathBuf::from);
    // A link on the PATH leads to the folder with all of them.
    let on_path = places::on_path("initdb").and_then(|file| fs::canonicalize(file).ok());
    named
        .into_iter()
        .chain(on_path.as_deref().and_then(Path::parent).map(Path::to_owned))
        .chain(newest())
        .find(|folder| {
            ["initdb", "postgres"]
                .iter()
                .all(|name| run::version(&folder.join(name)).is_some())
        })
}

fn newest() -> Option<PathBuf> {
    let entries = fs::read_dir(DEBIAN).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let version = names.filter_map(|name| name.parse::<u32>().ok()).max()?;
    Some(Path::new(DEBIAN).join(version.to_string()).join("bin"))
}
