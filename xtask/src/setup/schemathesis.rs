//! Schemathesis, a program in Python, in an environment of its own: once for a user, kept by version.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use super::stamp;
use crate::{places, report, run};

/// Whether this Python is one that it runs on, and can make environments.
const USABLE: &str = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))";

/// The program; none where there is no Python for it, and then its tests are skipped.
pub fn ensure(version: &str) -> Result<Option<PathBuf>> {
    const WHAT: &str = "schemathesis";
    let kept = places::tools()?.join(format!("{WHAT}-{version}"));
    let (program, stamp) = (kept.join("bin").join(WHAT), kept.join(".runcontext-stamp"));
    if stamp::holds(&stamp, version) && run::version(&program).is_some() {
        report::already(WHAT, &format!("there, {version}"));
        return Ok(Some(program));
    }
    if run::output(&mut run::program("python3", ["-c", USABLE])).is_err() {
        report::already(
            WHAT,
            "not there: it needs python3, 3.10 or newer, with venv; its tests are skipped",
        );
        return Ok(None);
    }
    let installed = report::step(&format!("{WHAT}: pip install {WHAT} {version}"), || {
        // An environment knows its own folder, and cannot be renamed.
        if kept.exists() {
            fs::remove_dir_all(&kept)?;
        }
        run::run(run::program("python3", ["-m", "venv"]).arg(&kept))?;
        let mut pip = run::program(
            kept.join("bin/pip"),
            ["install", "--quiet", "--disable-pip-version-check"],
        );
        run::run(pip.arg(format!("{WHAT}=={version}")))?;
        stamp::write(&stamp, version)
    });
    if let Err(error) = installed {
        report::already(WHAT, &format!("not there, {error:#}; its tests are skipped"));
        return Ok(None);
    }
    Ok(Some(program))
}
