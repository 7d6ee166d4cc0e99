//! The standard library for wasm32-unknown-unknown, and the toolchain that has it.
//!
//! On an ordinary machine rustup brings it. Where rustup can download nothing, Debian's own Rust builds it from the
//! library sources that Debian ships, and becomes the rustup toolchain `wasm-system`. Native builds, tests and
//! rustfmt stay on the toolchain that runs this program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{apt, stamp};
use crate::{places, report, run};

pub const TARGET: &str = "wasm32-unknown-unknown";
const LINKED: &str = "wasm-system";
const PACKAGES: &[&str] = &[
    "rustc-web",
    "cargo-web",
    "rust-web-src",
    "rust-web-clippy",
    "lld-22",
];
const LINKER: &str = "/usr/bin/lld-22";
const RUSTC: &str = "/usr/bin/rustc";
const CARGO: &str = "/usr/bin/cargo";
const RUSTLIB: &str = "/usr/lib/rustlib";
/// Raised when the recipe below changes what it makes.
const RECIPE: u32 = 1;

/// Which cargo builds for the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// The one that runs this program.
    Active,
    /// Debian's, as the rustup toolchain `wasm-system`.
    System,
}

impl Toolchain {
    /// `cargo`, ready for a subcommand.
    pub fn cargo(self) -> Command {
        let mut command = match self {
            Toolchain::Active => run::program("cargo", [] as [&str; 0]),
            Toolchain::System => {
                let mut command = run::program("rustup", ["run", LINKED, "cargo"]);
                // Both were set for the toolchain that runs this program.
                command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
                command
            }
        };
        command.current_dir(places::root());
        command
    }
}

pub fn ensure() -> Result<Toolchain> {
    const WHAT: &str = "wasm32 target";
    if active_has_it() {
        report::already(WHAT, "there, in the active toolchain");
        return Ok(Toolchain::Active);
    }
    if system_has_it() {
        report::already(WHAT, &format!("there, in the toolchain `{LINKED}`"));
        return Ok(Toolchain::System);
    }
    let has_rustup = places::on_path("rustup").is_some();
    if has_rustup {
        let mut add = run::program("rustup", ["target", "add", TARGET]);
        let added = report::step(&format!("{WHAT}: rustup target add {TARGET}"), || {
            run::run(&mut add)
        });
        if added.is_ok() && active_has_it() {
            return Ok(Toolchain::Active);
        }
        println!("   rustup could not bring it");
    }
    if !apt::usable() {
        bail!("the {TARGET} target is missing: bring it with `rustup target add {TARGET}`");
    }
    report::step(&format!("{WHAT}: Debian's Rust ({})", PACKAGES.join(" ")), || {
        apt::install(PACKAGES)
    })?;
    report::step(
        &format!("{WHAT}: build the standard library"),
        build_standard_library,
    )?;
    if has_rustup {
        run::run(&mut run::program("rustup", ["toolchain", "link", LINKED, "/usr"]))?;
    }
    if active_has_it() {
        Ok(Toolchain::Active)
    } else if system_has_it() {
        Ok(Toolchain::System)
    } else {
        bail!("the {TARGET} standard library was built, and cargo still does not find it")
    }
}

fn active_has_it() -> bool {
    let mut query = run::program("rustc", ["--print", "target-libdir", "--target", TARGET]);
    run::output(&mut query).is_ok_and(|folder| has_std(Path::new(&folder)))
}

fn has_std(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut files| {
        files.any(|file| file.is_ok_and(|file| file.file_name().to_string_lossy().starts_with("libstd-")))
    })
}

fn system_has_it() -> bool {
    let linked = run::output(&mut run::program("rustup", ["toolchain", "list"])).is_ok_and(|text| {
        text.lines()
            .any(|line| line.split_whitespace().next() == Some(LINKED))
    });
    linked
        && apt::installed(PACKAGES)
        && stamp_content().is_ok_and(|content| stamp::holds(&installed().join(STAMP), &content))
        && linker_link().is_ok_and(|link| fs::read_link(link).is_ok_and(|to| to == Path::new(LINKER)))
}

const STAMP: &str = "runcontext-stamp";

fn installed() -> PathBuf {
    Path::new(RUSTLIB).join(TARGET)
}

/// The standard library belongs to one compiler: another version makes it worthless.
fn stamp_content() -> Result<String> {
    let compiler = run::output(&mut run::program(RUSTC, ["-vV"]))?;
    Ok(format!("recipe {RECIPE}\n{compiler}\n"))
}

fn linker_link() -> Result<PathBuf> {
    let compiler = run::output(&mut run::program(RUSTC, ["-vV"]))?;
    let host = compiler
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("`rustc -vV` names no host")?;
    Ok(Path::new(RUSTLIB).join(host).join("bin").join("rust-lld"))
}

fn build_standard_library() -> Result<()> {
    let link = linker_link()?;
    if let Some(folder) = link.parent() {
        fs::create_dir_all(folder)?;
    }
    if fs::symlink_metadata(&link).is_ok() {
        fs::remove_file(&link)?;
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(LINKER, &link)?;

    let crate_folder = places::tools()?.join(format!("std.tmp-{}", std::process::id()));
    fs::create_dir_all(crate_folder.join("src"))?;
    fs::write(crate_folder.join("src/lib.rs"), "")?;
    fs::write(
        crate_folder.join("Cargo.toml"),
        "[package]\nname = \"nothing\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[profile.release]\npanic = \"abort\"\n\n[workspace]\n",
    )?;
    let built = crate_folder.join("target");
    // Without embedded bitcode a build with link-time optimisation fails. `test` is for the crate's own tests.
    let mut cargo = run::program(CARGO, ["build", "--release", "--target", TARGET]);
    cargo
        .arg("-Zbuild-std=std,panic_abort,test,proc_macro")
        .current_dir(&crate_folder)
        .env("CARGO_TARGET_DIR", &built)
        .env("RUSTC", RUSTC)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Cembed-bitcode=yes");
    for name in [
        "RUSTUP_TOOLCHAIN",
        "CARGO",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_TARGET",
        "RUSTC_WRAPPER",
        "LD_LIBRARY_PATH",
    ] {
        cargo.env_remove(name);
    }
    run::run(&mut cargo)?;

    super::remove_unfinished(Path::new(RUSTLIB))?;
    let unfinished = Path::new(RUSTLIB).join(format!("{TARGET}.tmp-{}", std::process::id()));
    fs::create_dir_all(unfinished.join("lib"))?;
    for file in fs::read_dir(built.join(TARGET).join("release/deps"))? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        if name.ends_with(".rlib") && !name.starts_with("libnothing-") {
            fs::copy(file.path(), unfinished.join("lib").join(&name))?;
        }
    }
    stamp::write(&unfinished.join(STAMP), &stamp_content()?)?;
    if installed().exists() {
        fs::remove_dir_all(installed())?;
    }
    fs::rename(&unfinished, installed())?;
    fs::remove_dir_all(&crate_folder)?;
    // Cargo does not notice that the standard library is another one.
    let stale = places::target().join(TARGET);
    if stale.exists() {
        fs::remove_dir_all(&stale).with_context(|| format!("cannot remove {}", stale.display()))?;
    }
    Ok(())
}
