//! PostgreSQL's programs. The tests make databases and start servers of their own.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Result, bail};

use super::apt;
use crate::{places, report, run};

const PACKAGE: &str = "postgresql";

/// Debian keeps each version in a folder of its own here, and puts none of them on the `PATH`.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The folder with `initdb` and `postgres`.
pub fn ensure() -> Result<PathBuf> {
    const WHAT: &str = "PostgreSQL";
    if let Some(found) = find() {
        let version = run::version(&found.join("postgres")).unwrap_or_default();
        report::already(WHAT, &format!("there, {version}"));
        return Ok(found);
    }
    if !apt::usable() {
        bail!(
            "PostgreSQL is missing: on Debian `sudo apt-get install {PACKAGE}`; elsewhere install it and set POSTGRES_BIN to the folder with `initdb` and `postgres`"
        );
    }
    report::step(&format!("{WHAT}: apt-get install {PACKAGE}"), || {
        apt::install(&[PACKAGE])
    })?;
    match find() {
        Some(found) => Ok(found),
        None => bail!("PostgreSQL was installed and does not run: look at {DEBIAN}"),
    }
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
