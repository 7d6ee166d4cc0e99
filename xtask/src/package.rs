//! `pkg/` to an npm tarball.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::report::{kilobytes, step};
use crate::setup::{self, Builder};
use crate::{build, places, run};

/// The packed package.
#[derive(Debug)]
pub struct Package {
    pub tarball: PathBuf,
}

/// What `npm pack --json` says of one package.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Packed {
    filename: String,
    size: u64,
    unpacked_size: u64,
    files: Vec<PackedFile>,
}

#[derive(Deserialize)]
struct PackedFile {
    path: String,
    size: u64,
}

/// The `package` command.
pub fn command() -> Result<()> {
    make(&setup::for_build()?).map(|_| ())
}

/// Builds and packs.
pub fn make(builder: &Builder) -> Result<Package> {
    build::make(builder)?;
    step("npm pack", pack)
}

fn pack() -> Result<Package> {
    let folder = places::target().join("package");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let mut npm = run::program(
        "npm",
        [
            "pack",
            "--json",
            "--ignore-scripts",
            "--loglevel=error",
            "--pack-destination",
        ],
    );
    let text = run::output(npm.arg(&folder).current_dir(places::package()))?;
    let mut packed: Vec<Packed> =
        serde_json::from_str(&text).context("`npm pack --json` printed something else")?;
    let packed = packed.pop().context("`npm pack --json` named no package")?;
    for file in &packed.files {
        println!("   {:>10}  {}", kilobytes(file.size), file.path);
    }
    let modules = packed
        .files
        .iter()
        .filter(|file| file.path.ends_with(".wasm"))
        .count();
    ensure!(modules == 1, "the package holds {modules} .wasm files, not one");
    let tarball = folder.join(&packed.filename);
    println!(
        "{}: {} packed, {} unpacked, {} files",
        tarball.display(),
        kilobytes(packed.size),
        kilobytes(packed.unpacked_size),
        packed.files.len()
    );
    Ok(Package { tarball })
}
