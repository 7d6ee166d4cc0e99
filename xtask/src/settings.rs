//! `wasm-pack.toml`: the one place of the build's settings.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::places;

/// The whole file. A key that is not known is an error, so that a typing mistake is never a silent default.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    pub tools: Tools,
    pub cargo: Cargo,
    pub wasm_bindgen: Flags,
    pub wasm_opt: Flags,
    pub budget: Budget,
}

/// Versions of the tools that setup installs.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tools {
    pub wasm_bindgen: String,
    pub binaryen: String,
    pub geckodriver: String,
    pub schemathesis: String,
}

/// How cargo builds the module.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Cargo {
    pub rustflags: Vec<String>,
    pub profile: toml::Table,
}

/// Arguments of one tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flags {
    pub flags: Vec<String>,
}

/// Sizes in bytes over which the build fails.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// By feature.
    pub gzip: BTreeMap<String, u64>,
}

/// Reads the file and checks what must agree with the rest of the project.
pub fn read() -> Result<Settings> {
    let path = places::root().join("wasm-pack.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let settings: Settings = toml::from_str(&text).context("wasm-pack.toml is malformed")?;
    ensure!(
        !settings.cargo.profile.contains_key("strip"),
        "wasm-pack.toml must not set `strip`: it removes the `target_features` section that wasm-bindgen needs"
    );
    let locked = locked_version("wasm-bindgen")?;
    ensure!(
        locked == settings.tools.wasm_bindgen,
        "wasm-bindgen is {locked} in Cargo.lock and {} in wasm-pack.toml: make them equal",
        settings.tools.wasm_bindgen
    );
    Ok(settings)
}

/// The version of a crate in `Cargo.lock`.
fn locked_version(name: &str) -> Result<String> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        version: String,
    }
    let text = fs::read_to_string(places::root().join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let lock: Lock = toml::from_str(&text).context("Cargo.lock is malformed")?;
    match lock.package.into_iter().find(|package| package.name == name) {
        Some(package) => Ok(package.version),
        None => bail!("`{name}` is not in Cargo.lock"),
    }
}
