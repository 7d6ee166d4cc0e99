//! The wasm-bindgen command and its test runner.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::cargo_tool;
use crate::{places, report, run};

/// The two programs.
#[derive(Debug)]
pub struct Bindgen {
    pub command: PathBuf,
    pub test_runner: PathBuf,
}

pub fn ensure(version: &str) -> Result<Bindgen> {
    const WHAT: &str = "wasm-bindgen";
    let on_path = places::on_path(WHAT).and_then(|file| in_folder(file.parent()?, version));
    if let Some(found) = on_path {
        report::already(WHAT, &format!("on the PATH, {version}"));
        return Ok(found);
    }
    cargo_tool::ensure(WHAT, "wasm-bindgen-cli", version, |folder| {
        in_folder(folder, version)
    })
}

fn in_folder(folder: &Path, version: &str) -> Option<Bindgen> {
    let command = folder.join("wasm-bindgen");
    let test_runner = folder.join("wasm-bindgen-test-runner");
    let says = run::version(&command)?;
    (says == format!("wasm-bindgen {version}") && test_runner.is_file())
        .then_some(Bindgen { command, test_runner })
}
