//! A screen that nobody sees, for a browser that cannot do without one.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};

use crate::run;

/// An X server of our own. It ends when this is dropped.
#[derive(Debug)]
pub struct Display {
    server: Child,
    /// What `DISPLAY` is set to.
    pub name: String,
}

impl Display {
    pub fn start(xvfb: &Path) -> Result<Self> {
        // The kernel ends it with us, however we end. It takes a number that is free, and says which.
        let mut command = run::program("setpriv", ["--pdeathsig", "KILL"]);
        command.arg(xvfb).args(["-displayfd", "1", "-nolisten", "tcp"]);
        let mut server = command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{}`", run::shown(&command)))?;
        let output = server.stdout.take().context("Xvfb has no output")?;
        let mut display = Self {
            server,
            name: ":".to_owned(),
        };
        BufReader::new(output).read_line(&mut display.name)?;
        display.name.truncate(display.name.trim_end().len());
        ensure!(display.name != ":", "Xvfb did not start");
        Ok(display)
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
