//! Debian's packages, where we may install them.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{places, report, run};

/// What `find` finds, with what is to be said of it; installed where it finds nothing.
pub fn ensure<T>(
    what: &str,
    packages: &[&str],
    elsewhere: &str,
    find: impl Fn() -> Option<(T, String)>,
) -> Result<T> {
    if let Some((found, detail)) = find() {
        report::already(what, &format!("there, {}", detail.trim()));
        return Ok(found);
    }
    let packages_named = packages.join(" ");
    if !usable() {
        bail!(
            "{what}: missing, or not whole: on Debian `sudo apt-get install {packages_named}`; elsewhere {elsewhere}"
        );
    }
    report::step(&format!("{what}: apt-get install {packages_named}"), || {
        install(packages)
    })?;
    match find() {
        Some((found, _)) => Ok(found),
        None => bail!("{what}: installed by apt-get, and not found or not running: try to run them"),
    }
}

/// Whether this is a machine with apt, and we are its administrator.
pub fn usable() -> bool {
    places::on_path("apt-get").is_some()
        && run::output(&mut run::program("id", ["-u"])).is_ok_and(|user| user == "0")
}

/// Whether every one of these packages is installed, whole.
pub fn installed(packages: &[&str]) -> bool {
    let mut query = run::program("dpkg-query", ["--show", "--showformat=${Status}\\n"]);
    run::output(query.args(packages)).is_ok_and(|text| {
        let whole = text.lines().filter(|&line| line == "install ok installed");
        whole.count() == packages.len()
    })
}

/// Installs packages. A bare machine has no package lists, and old lists name files that are gone: then the lists are
/// fetched. A package that an earlier run left half installed is finished first.
pub fn install(packages: &[&str]) -> Result<()> {
    if packages.iter().any(|&package| !known(package)) {
        run::run(&mut apt(&["update"]))?;
    } else if run::run(apt(&["install", "--no-install-recommends"]).args(packages)).is_ok() {
        return Ok(());
    } else {
        run::run(&mut run::program("dpkg", ["--configure", "-a"]))?;
        run::run(&mut apt(&["update"]))?;
    }
    run::run(apt(&["install", "--no-install-recommends"]).args(packages))
}

fn known(package: &str) -> bool {
    run::output(&mut run::program("apt-cache", ["policy", package])).is_ok_and(|text| {
        text.lines()
            .any(|line| line.contains("Candidate:") && !line.contains("(none)"))
    })
}

fn apt(arguments: &[&str]) -> Command {
    let mut command = run::program("apt-get", ["-y", "-qq", "-o", "DPkg::Lock::Timeout=600"]);
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}
