//! The wasm-bindgen command and its test runner, built once for a user and kept by version.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{places, report, run};

/// The two programs.
#[derive(Debug)]
pub struct Bindgen {
    pub command: PathBuf,
    pub test_runner: PathBuf,
}

pub fn ensure(version: &str) -> Result<Bindgen> {
    const WHAT: &str = "wasm-bindgen";
    let kept = places::tools()?.join(format!("wasm-bindgen-{version}"));
    if let Some(found) = in_folder(&kept.join("bin"), version) {
        report::already(WHAT, &format!("there, {version}"));
        return Ok(found);
    }
    let on_path = places::on_path("wasm-bindgen").and_then(|file| in_folder(file.parent()?, version));
    if let Some(found) = on_path {
        report::already(WHAT, &format!("on the PATH, {version}"));
        return Ok(found);
    }
    let unfinished = places::tools()?.join(format!("wasm-bindgen-{version}.tmp-{}", std::process::id()));
    report::step(
        &format!("{WHAT}: cargo install wasm-bindgen-cli {version} (a few minutes, once)"),
        || {
            // Not --locked: the lock file in the package may name versions that a registry mirror does not serve.
            let mut cargo = run::program(
                "cargo",
                ["install", "wasm-bindgen-cli", "--version", version, "--root"],
            );
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
    in_folder(&kept.join("bin"), version).with_context(|| {
        format!(
            "wasm-bindgen {version} was installed in {} and does not run",
            kept.display()
        )
    })
}

fn in_folder(folder: &Path, version: &str) -> Option<Bindgen> {
    let command = folder.join("wasm-bindgen");
    let test_runner = folder.join("wasm-bindgen-test-runner");
    let says = run::version(&command)?;
    (says == format!("wasm-bindgen {version}") && test_runner.is_file())
        .then_some(Bindgen { command, test_runner })
}
