//! Crate to `pkg/`, the npm package as it ships.

mod assemble;
mod glue;
mod order;
mod types;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::report::{kilobytes, step};
use crate::settings::{self, Settings};
use crate::setup::{self, Builder};
use crate::{places, run};

/// The `build` command.
pub fn command() -> Result<()> {
    make(&setup::for_build()?)
}

/// Builds, and fails over the size budget.
pub fn make(builder: &Builder) -> Result<()> {
    let settings = settings::read()?;
    let compiled = step("compile", || compile(builder, &settings))?;
    let bound = step("wasm-bindgen", || bind(builder, &settings, &compiled))?;
    let module = bound.join("runcontext.wasm");
    step("wasm-opt", || {
        optimise(builder, &settings, &bound.join("runcontext_bg.wasm"), &module)
    })?;
    step("assemble pkg/", || assemble::package(&bound, &module))?;
    check_size(&settings)
}

fn compile(builder: &Builder, settings: &Settings) -> Result<PathBuf> {
    let mut cargo = builder.toolchain.cargo();
    cargo.args([
        "build",
        "--package",
        "runcontext",
        "--lib",
        "--release",
        "--target",
        setup::TARGET,
    ]);
    for (key, value) in &settings.cargo.profile {
        cargo
            .arg("--config")
            .arg(format!("profile.release.{key}={value}"));
    }
    let mut flags = settings.cargo.rustflags.clone();
    flags.extend(remapped_paths()?);
    let flags = toml::Value::from(flags);
    cargo
        .arg("--config")
        .arg(format!("target.{}.rustflags={flags}", setup::TARGET));
    run::run(&mut cargo)?;
    Ok(places::target()
        .join(setup::TARGET)
        .join("release")
        .join("runcontext.wasm"))
}

/// Flags that leave of a source file's path what it is in its crate: panic messages hold it, and nobody else's folders
/// belong in the module.
fn remapped_paths() -> Result<Vec<String>> {
    let mut folders = vec![places::root().to_owned()];
    let registries = places::cargo_home()?.join("registry").join("src");
    // There is one folder per registry. With none, every dependency is in the project.
    if let Ok(entries) = fs::read_dir(&registries) {
        for entry in entries {
            folders.push(entry?.path());
        }
    }
    folders.sort();
    let flag = |folder: &PathBuf| format!("--remap-path-prefix={}/=", folder.display());
    Ok(folders.iter().map(flag).collect())
}

fn bind(builder: &Builder, settings: &Settings, compiled: &Path) -> Result<PathBuf> {
    let folder = places::target().join("wasm-bindgen");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let mut command = run::program(&builder.bindgen.command, &settings.wasm_bindgen.flags);
    run::run(
        command
            .args(["--out-name", "runcontext", "--out-dir"])
            .arg(&folder)
            .arg(compiled),
    )?;
    Ok(folder)
}

fn optimise(builder: &Builder, settings: &Settings, from: &Path, to: &Path) -> Result<()> {
    wasm_opt(builder, from, &settings.wasm_opt.flags, to)?;
    // Sorted last, since the order is found in what the functions have become.
    let mut sort = vec![
        "--reorder-functions-by-name".to_owned(),
        "--strip-debug".to_owned(),
    ];
    let features = settings.wasm_opt.flags.iter();
    sort.extend(features.filter(|flag| flag.starts_with("--enable-")).cloned());
    let named = from.with_file_name("named.wasm");
    fs::write(&named, order::named(&fs::read(to)?)?)?;
    wasm_opt(builder, &named, &sort, to)
}

fn wasm_opt(builder: &Builder, from: &Path, flags: &[String], to: &Path) -> Result<()> {
    // A script of Node, with no mode bits to rely on.
    let mut command = run::program("node", [&builder.wasm_opt]);
    run::run(command.arg(from).args(flags).arg("-o").arg(to))
}

fn check_size(settings: &Settings) -> Result<()> {
    let file = places::package().join("runcontext.wasm");
    let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let (raw, packed) = (bytes.len() as u64, gzip_size(&bytes)?);
    let budget: u64 = settings.budget.gzip.values().sum();
    println!(
        "runcontext.wasm: {raw} bytes ({}), gzip {packed} bytes ({})",
        kilobytes(raw),
        kilobytes(packed)
    );
    ensure!(
        packed <= budget,
        "the module is {packed} bytes of gzip, over the budget of {budget} in wasm-pack.toml"
    );
    println!(
        "   budget of wasm-pack.toml: gzip {budget} bytes, {} % used",
        packed * 100 / budget.max(1)
    );
    Ok(())
}

fn gzip_size(bytes: &[u8]) -> Result<u64> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len() as u64)
}
