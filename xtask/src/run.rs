//! Starting other programs.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use anyhow::{Context, Result, bail};

/// Process groups of the programs that `watch` started and that are still running.
static GROUPS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Programs that `watch` starts live in groups of their own, so that one that hangs is ended with all it started.
/// The terminal's ctrl-c does not reach those, so it is handed on.
pub fn end_children_on_signal() {
    let handler = || {
        for group in GROUPS.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            end_group(group);
        }
        std::process::exit(130);
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        eprintln!("warning: no handler for ctrl-c: {error}");
    }
}

fn end_group(group: u32) {
    let _ = Command::new("kill")
        .args(["-KILL", "--", &format!("-{group}")])
        .stderr(Stdio::null())
        .status();
}

/// A program with arguments.
pub fn program<S: AsRef<OsStr>>(name: impl AsRef<OsStr>, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The command as a person would type it, without its environment.
pub fn shown(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs it with our own output; anything but success is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs it and gives its standard output; anything but success is an error that carries its standard error.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!(
            "`{}` ended with {}: {}",
            shown(command),
            output.status,
            text.trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The first line that a program prints for `--version`, or nothing when it does not run.
pub fn version(file: &Path) -> Option<String> {
    let text = output(&mut program(file, ["--version"])).ok()?;
    Some(text.lines().next().unwrap_or_default().to_owned())
}

/// How a watched program ended.
#[derive(Debug)]
pub struct Watched {
    /// Nothing when it ran out of time and was ended.
    pub status: Option<ExitStatus>,
    /// Standard output, then standard error: together they would break into each other's lines.
    pub text: String,
    pub time: Duration,
}

/// Runs it, shows its output and keeps it too; ends it, with all it started, when it takes longer than `limit`.
pub fn watch(command: &mut Command, limit: Duration) -> Result<Watched> {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    let group = child.id();
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner).push(group);

    let (output, errors) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (closed, all_closed) = mpsc::channel::<()>();
    if let Some(stream) = child.stdout.take() {
        copy(stream, io::stdout(), &output, &closed);
    }
    if let Some(stream) = child.stderr.take() {
        copy(stream, io::stderr(), &errors, &closed);
    }
    drop(closed);

    let timed_out = all_closed.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
    if timed_out {
        end_group(group);
        let _ = child.kill();
    }
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for `{}`", shown(command)))?;
    // Whatever it left behind, a browser for example, ends with it.
    end_group(group);
    GROUPS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .retain(|&other| other != group);
    let mut text = String::new();
    for kept in [output, errors] {
        let bytes = kept.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(&String::from_utf8_lossy(&bytes));
        text.push('\n');
    }
    Ok(Watched {
        status: (!timed_out).then_some(status),
        text,
        time: start.elapsed(),
    })
}

fn copy(
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    kept: &Arc<Mutex<Vec<u8>>>,
    closed: &mpsc::Sender<()>,
) {
    let kept = Arc::clone(kept);
    let closed = closed.clone();
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(length) = from.read(&mut buffer) {
            let Some(bytes) = buffer.get(..length).filter(|bytes| !bytes.is_empty()) else {
                break;
            };
            let _ = to.write_all(bytes).and_then(|()| to.flush());
            kept.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend_from_slice(bytes);
        }
        drop(closed);
    });
}
