//! Real browsers, and the programs that tests steer them with.

use std::env;
use std::path::PathBuf;

use anyhow::Result;

use super::{apt, cargo_tool};
use crate::{places, report, run};

#[derive(Debug)]
pub struct Browser {
    pub chromium: PathBuf,
    pub driver: PathBuf,
}

#[derive(Debug)]
pub struct Firefox {
    pub firefox: PathBuf,
    pub driver: PathBuf,
}

/// WebKitGTK, the engine of Safari on Linux. The driver knows where its browser is.
#[derive(Debug)]
pub struct WebKit {
    pub driver: PathBuf,
    /// A screen that nobody sees: this browser cannot do without one.
    pub xvfb: PathBuf,
}

pub fn chromium() -> Result<Browser> {
    apt::ensure(
        "Chromium and its chromedriver",
        &["chromium", "chromium-driver"],
        "install both and set CHROMIUM and CHROMEDRIVER to them",
        || {
            let chromium = pick(
                "CHROMIUM",
                &[
                    "chromium",
                    "chromium-browser",
                    "google-chrome",
                    "google-chrome-stable",
                ],
                VERSION,
            )?;
            let driver = pick("CHROMEDRIVER", &["chromedriver"], VERSION)?;
            let version = run::version(&chromium)?;
            Some((Browser { chromium, driver }, version))
        },
    )
}

/// Debian has the browser and no driver: cargo builds one of this version, unless there is any.
pub fn firefox(driver_version: &str) -> Result<Firefox> {
    const DRIVER: &str = "geckodriver";
    let firefox = apt::ensure(
        "Firefox",
        &["firefox-esr"],
        "install it and set FIREFOX to it",
        || {
            let firefox = pick("FIREFOX", &["firefox-esr", "firefox"], VERSION)?;
            let version = run::version(&firefox)?;
            Some((firefox, version))
        },
    )?;
    let driver = match pick("GECKODRIVER", &[DRIVER], VERSION) {
        Some(driver) => {
            report::already(DRIVER, &run::version(&driver).unwrap_or_default());
            driver
        }
        None => cargo_tool::ensure(DRIVER, DRIVER, driver_version, |folder| {
            let driver = folder.join(DRIVER);
            run::version(&driver).map(|_| driver)
        })?,
    };
    Ok(Firefox { firefox, driver })
}

pub fn webkit() -> Result<WebKit> {
    apt::ensure(
        "WebKitGTK, its WebKitWebDriver and Xvfb",
        &["webkit2gtk-driver", "xvfb"],
        "install them and set WEBKIT_WEBDRIVER to the driver",
        || {
            let driver = pick("WEBKIT_WEBDRIVER", &["WebKitWebDriver"], "--help")?;
            let xvfb = places::on_path("Xvfb")?;
            let shown = driver.display().to_string();
            Some((WebKit { driver, xvfb }, shown))
        },
    )
}

const VERSION: &str = "--version";

/// The first of these programs that is there and runs: with `option` it does nothing and ends well.
fn pick(variable: &str, names: &[&str], option: &str) -> Option<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from);
    named
        .into_iter()
        .chain(names.iter().filter_map(|name| places::on_path(name)))
        .find(|file| run::output(&mut run::program(file, [option])).is_ok())
}
