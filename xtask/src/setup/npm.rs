//! What comes from npm: wasm-opt for the build, and the packages of the tests.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::stamp;
use crate::{places, report, run};

/// The npm package `binaryen`, kept by version. Gives its `wasm-opt`.
pub fn ensure_binaryen(version: &str) -> Result<PathBuf> {
    const WHAT: &str = "binaryen";
    let kept = places::tools()?.join(format!("binaryen-{version}"));
    let wasm_opt = kept.join("node_modules/binaryen/bin/wasm-opt");
    if wasm_opt.is_file() {
        report::already(WHAT, &format!("there, {version}"));
        return Ok(wasm_opt);
    }
    let unfinished = places::tools()?.join(format!("binaryen-{version}.tmp-{}", std::process::id()));
    report::step(&format!("{WHAT}: npm install binaryen {version}"), || {
        fs::create_dir_all(&unfinished)?;
        fs::write(unfinished.join("package.json"), "{\"private\":true}\n")?;
        let mut npm = run::program(
            "npm",
            [
                "install",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--loglevel=error",
            ],
        );
        run::run(npm.arg(format!("binaryen@{version}")).current_dir(&unfinished))?;
        if kept.exists() {
            fs::remove_dir_all(&kept)?;
        }
        Ok(fs::rename(&unfinished, &kept)?)
    })?;
    ensure!(
        wasm_opt.is_file(),
        "the npm package binaryen {version} has no bin/wasm-opt"
    );
    Ok(wasm_opt)
}

/// `npm ci` in tests/ or benches/, again when the lock file or Node changes.
pub fn ensure_packages(of: &str) -> Result<()> {
    let what = format!("npm packages of the {of}");
    let folder = places::root().join(of);
    let lock = fs::read_to_string(folder.join("package-lock.json"))
        .with_context(|| format!("cannot read {of}/package-lock.json"))?;
    let node = run::version(Path::new("node")).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    lock.hash(&mut hasher);
    let wanted = format!("{:016x} node {node}\n", hasher.finish());
    // Inside node_modules, which `npm ci` removes first.
    let file = folder.join("node_modules/.runcontext-stamp");
    if stamp::holds(&file, &wanted) {
        report::already(&what, "there");
        return Ok(());
    }
    report::step(&format!("{what}: npm ci"), || {
        let mut npm = run::program(
            "npm",
            [
                "ci",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--loglevel=error",
            ],
        );
        run::run(npm.current_dir(&folder))?;
        stamp::write(&file, &wanted)
    })
}
