//! What the machine needs. Each step looks first, so that a second run repeats nothing, and finishes with a rename
//! or a stamp written last, so that one that was cut off is done again.

mod apt;
mod bindgen;
mod browser;
mod cargo_tool;
mod npm;
mod postgres;
mod prerequisites;
mod schemathesis;
mod stamp;
mod wasm_target;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{places, settings};

pub use bindgen::Bindgen;
pub use browser::{Browser, Firefox, WebKit};
pub use wasm_target::{TARGET, Toolchain};

/// What building the package needs.
#[derive(Debug)]
pub struct Builder {
    pub toolchain: Toolchain,
    pub bindgen: Bindgen,
    pub wasm_opt: PathBuf,
}

/// What testing needs on top.
#[derive(Debug)]
pub struct Tester {
    pub builder: Builder,
    pub browser: Browser,
    /// The folder with PostgreSQL's programs.
    pub postgres: PathBuf,
    pub firefox: Firefox,
    pub webkit: WebKit,
    /// Where there is a Python for it.
    pub schemathesis: Option<PathBuf>,
}

/// The `setup` command.
pub fn everything() -> Result<()> {
    for_tests().map(|_| ())
}

/// All that `build`, `package` and `demo` need: no browser.
pub fn for_build() -> Result<Builder> {
    let settings = settings::read()?;
    let _lock = lock()?;
    prerequisites::check()?;
    let toolchain = wasm_target::ensure()?;
    let bindgen = bindgen::ensure(&settings.tools.wasm_bindgen)?;
    let wasm_opt = npm::ensure_binaryen(&settings.tools.binaryen)?;
    Ok(Builder {
        toolchain,
        bindgen,
        wasm_opt,
    })
}

/// What the JavaScript in a folder needs from npm.
pub fn packages_of(folder: &str) -> Result<()> {
    let _lock = lock()?;
    npm::ensure_packages(folder)
}

/// All that `test` needs.
pub fn for_tests() -> Result<Tester> {
    let builder = for_build()?;
    let _lock = lock()?;
    prerequisites::check_for_tests()?;
    let postgres = postgres::ensure()?;
    let browser = browser::chromium()?;
    let firefox = browser::firefox(&settings::read()?.tools.geckodriver)?;
    let webkit = browser::webkit()?;
    npm::ensure_packages("tests")?;
    let schemathesis = schemathesis::ensure(&settings::read()?.tools.schemathesis)?;
    Ok(Tester {
        builder,
        browser,
        postgres,
        firefox,
        webkit,
        schemathesis,
    })
}

/// Two clones that set up the same machine take turns.
fn lock() -> Result<File> {
    let tools = places::tools()?;
    fs::create_dir_all(&tools).with_context(|| format!("cannot make {}", tools.display()))?;
    let file = File::create(tools.join(".lock")).context("cannot make the lock file of set-up")?;
    if file.try_lock().is_err() {
        println!("== another set-up is under way, waiting for it");
        file.lock().context("cannot lock set-up")?;
    }
    remove_unfinished(&tools)?;
    Ok(file)
}

/// Folders named `<what>.tmp-<process>` are of set-ups that were cut off: with the lock held there is no other one.
fn remove_unfinished(folder: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().contains(".tmp-") {
            fs::remove_dir_all(entry.path())
                .with_context(|| format!("cannot remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}
