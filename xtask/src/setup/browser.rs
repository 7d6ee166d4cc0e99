//! A real Chromium and its driver.

use std::env;
use std::path::PathBuf;

use anyhow::{Result, bail};

use super::apt;
use crate::{places, report, run};

const PACKAGES: &[&str] = &["chromium", "chromium-driver"];

/// The browser and the program that tests steer it with.
#[derive(Debug)]
pub struct Browser {
    pub chromium: PathBuf,
    pub driver: PathBuf,
}

pub fn ensure() -> Result<Browser> {
    const WHAT: &str = "Chromium";
    if let Some(found) = find() {
        let version = run::version(&found.chromium).unwrap_or_default();
        report::already(WHAT, &format!("there, {}", version.trim()));
        return Ok(found);
    }
    if !apt::usable() {
        bail!(
            "Chromium or its chromedriver is missing: on Debian `sudo apt-get install {}`; elsewhere install both and set CHROMIUM and CHROMEDRIVER to them",
            PACKAGES.join(" ")
        );
    }
    report::step(&format!("{WHAT}: apt-get install {}", PACKAGES.join(" ")), || {
        apt::install(PACKAGES)
    })?;
    match find() {
        Some(found) => Ok(found),
        None => bail!(
            "Chromium was installed and does not run: try `chromium --version` and `chromedriver --version`"
        ),
    }
}

fn find() -> Option<Browser> {
    let chromium = pick(
        "CHROMIUM",
        &[
            "chromium",
            "chromium-browser",
            "google-chrome",
            "google-chrome-stable",
        ],
    )?;
    let driver = pick("CHROMEDRIVER", &["chromedriver"])?;
    Some(Browser { chromium, driver })
}

fn pick(variable: &str, names: &[&str]) -> Option<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from);
    named
        .into_iter()
        .chain(names.iter().filter_map(|name| places::on_path(name)))
        .find(|file| run::version(file).is_some())
}
