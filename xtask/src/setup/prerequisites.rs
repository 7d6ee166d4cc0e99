//! What has to be there before: Node and npm, for tests also clippy and rustfmt. Cargo is, or this would not run.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::{report, run};

const OLDEST_NODE: u32 = 20;

pub fn check() -> Result<()> {
    let Some(node) = run::version(Path::new("node")) else {
        bail!(
            "node is missing: install Node {OLDEST_NODE} or newer with npm, for example with `nvm install {OLDEST_NODE}`"
        );
    };
    let major: u32 = node
        .trim_start_matches('v')
        .split('.')
        .next()
        .and_then(|digits| digits.parse().ok())
        .with_context(|| format!("`node --version` says `{node}`, which is no version"))?;
    if major < OLDEST_NODE {
        bail!(
            "node is {node}, older than {OLDEST_NODE}: bring a newer one, for example with `nvm install {OLDEST_NODE}`"
        );
    }
    let Some(npm) = run::version(Path::new("npm")) else {
        bail!("npm is missing: it comes with Node, or with `apt-get install npm`");
    };
    report::already("prerequisites", &format!("node {node}, npm {npm}"));
    Ok(())
}

pub fn check_for_tests() -> Result<()> {
    for (command, component) in [("clippy", "clippy"), ("fmt", "rustfmt")] {
        if run::output(&mut run::program("cargo", [command, "--version"])).is_err() {
            bail!("`cargo {command}` is missing: bring it with `rustup component add {component}`");
        }
    }
    Ok(())
}
