//! Every check and test, natively and in the browser, and one closing line over all of them.

mod counts;
mod display;
mod page_server;
mod summary;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::package::Package;
use crate::setup::{self, Tester};
use crate::{package, places, run};
use display::Display;
use page_server::PageServer;
use summary::Row;

/// How long one suite may take, so that one that hangs does not take everything with it.
const LIMIT: Duration = Duration::from_secs(15 * 60);
const LIMIT_DEEP: Duration = Duration::from_secs(150 * 60);
/// Seconds that one wasm test binary may take in the browser.
const WASM_LIMIT: u32 = 600;
const WASM_LIMIT_DEEP: u32 = 7200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suite {
    Fmt,
    Clippy,
    ClippyWasm,
    Native,
    Wasm,
    Firefox,
    Webkit,
    Package,
    Hosts,
    Browser,
    E2e,
}

impl Suite {
    const ALL: [Suite; 11] = [
        Suite::Fmt,
        Suite::Clippy,
        Suite::ClippyWasm,
        Suite::Native,
        Suite::Wasm,
        Suite::Firefox,
        Suite::Webkit,
        Suite::Package,
        Suite::Hosts,
        Suite::Browser,
        Suite::E2e,
    ];

    fn name(self) -> &'static str {
        match self {
            Suite::Fmt => "fmt",
            Suite::Clippy => "clippy",
            Suite::ClippyWasm => "clippy-wasm",
            Suite::Native => "native",
            Suite::Wasm => "wasm",
            Suite::Firefox => "firefox",
            Suite::Webkit => "webkit",
            Suite::Package => "package",
            Suite::Hosts => "hosts",
            Suite::Browser => "browser",
            Suite::E2e => "e2e",
        }
    }

    /// The suites of JavaScript, which test the packed package.
    fn needs_package(self) -> bool {
        matches!(self, Suite::Hosts | Suite::Browser | Suite::E2e)
    }
}

/// What was asked for on the command line.
struct Wanted {
    suites: Vec<Suite>,
    deep: bool,
    arguments: Vec<String>,
}

/// The `test` command.
pub fn command(arguments: &[String]) -> Result<ExitCode> {
    let wanted = parse(arguments)?;
    let start = Instant::now();
    let tester = setup::for_tests()?;
    println!("== set-up took {}", crate::report::seconds(start.elapsed()));

    let start = Instant::now();
    let mut rows = Vec::new();
    let mut packed = None;
    for &suite in &wanted.suites {
        println!("\n== {}", suite.name());
        let row = if suite == Suite::Package || (suite.needs_package() && packed.is_none()) {
            let begun = Instant::now();
            let result = package::make(&tester.builder);
            let failed = result.as_ref().err().map(|error| format!("{error:#}"));
            packed = Some(result.ok());
            (suite == Suite::Package || failed.is_some())
                .then(|| Row::check("package", begun.elapsed(), failed))
        } else {
            None
        };
        rows.extend(row);
        if suite == Suite::Package {
            continue;
        }
        rows.push(match &packed {
            Some(None) if suite.needs_package() => {
                Row::dead(suite.name(), Duration::ZERO, "not run: there is no package")
            }
            packed => run_suite(suite, &tester, packed.as_ref().and_then(Option::as_ref), &wanted),
        });
    }
    Ok(summary::print(&rows, start.elapsed()))
}

fn parse(arguments: &[String]) -> Result<Wanted> {
    let mut wanted = Wanted {
        suites: Vec::new(),
        deep: false,
        arguments: Vec::new(),
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--deep" => wanted.deep = true,
            "--" => wanted.arguments.extend(rest.by_ref().cloned()),
            name => match Suite::ALL.into_iter().find(|suite| suite.name() == name) {
                Some(suite) => wanted.suites.push(suite),
                None => bail!(
                    "there is no suite `{name}`: there are {}",
                    Suite::ALL.map(Suite::name).join(" ")
                ),
            },
        }
    }
    ensure!(
        wanted.arguments.is_empty() || wanted.suites.len() == 1,
        "arguments after `--` go to one suite: name it"
    );
    if wanted.suites.is_empty() {
        wanted.suites = Suite::ALL.to_vec();
    }
    Ok(wanted)
}

fn run_suite(suite: Suite, tester: &Tester, packed: Option<&Package>, wanted: &Wanted) -> Row {
    let begun = Instant::now();
    match outcome(suite, tester, packed, wanted) {
        Ok(row) => row,
        Err(error) => Row::dead(suite.name(), begun.elapsed(), &format!("{error:#}")),
    }
}

fn outcome(suite: Suite, tester: &Tester, packed: Option<&Package>, wanted: &Wanted) -> Result<Row> {
    let wasm = ["--package", "runcontext", "--target", setup::TARGET];
    match suite {
        Suite::Fmt => check(suite, native().args(["fmt", "--all", "--check"]), wanted),
        Suite::Clippy => check(
            suite,
            native().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
            wanted,
        ),
        Suite::ClippyWasm => check(
            suite,
            tester.builder.toolchain.cargo().arg("clippy").args(wasm).args([
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ]),
            wanted,
        ),
        Suite::Native => {
            let mut cargo = native();
            cargo.args(["test", "--workspace", "--no-fail-fast"]);
            if wanted.deep {
                // The large counts repay compiling longer; the checks of a development build stay.
                cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "2");
            }
            cargo_test(suite, &mut cargo, wanted)
        }
        Suite::Wasm | Suite::Firefox | Suite::Webkit => {
            let mut cargo = tester.builder.toolchain.cargo();
            cargo.arg("test").args(wasm).arg("--no-fail-fast");
            if wanted.arguments.is_empty() {
                cargo.args(match suite {
                    Suite::Wasm => ["--lib", "--tests"].as_slice(),
                    // Where browsers differ.
                    _ => &["--lib", "--test", "storage", "--", "indexed_db"],
                });
            }
            let _beside = in_browser(&mut cargo, suite, tester, wanted)?;
            cargo_test(suite, &mut cargo, wanted)
        }
        Suite::Package => bail!("the package is made elsewhere"),
        Suite::Hosts | Suite::Browser | Suite::E2e => {
            let packed = packed.context("there is no package")?;
            node_test(suite, tester, packed, wanted)
        }
    }
}

fn native() -> Command {
    let mut command = run::program("cargo", [] as [&str; 0]);
    command.current_dir(places::root());
    command
}

fn limit(wanted: &Wanted) -> Duration {
    if wanted.deep { LIMIT_DEEP } else { LIMIT }
}

/// A check has no tests to count: it is right or it is not.
fn check(suite: Suite, command: &mut Command, wanted: &Wanted) -> Result<Row> {
    let watched = run::watch(command, limit(wanted))?;
    Ok(Row::check(suite.name(), watched.time, why_not(watched.status)))
}

fn cargo_test(suite: Suite, command: &mut Command, wanted: &Wanted) -> Result<Row> {
    environment(command, wanted)?;
    let watched = run::watch(command.args(&wanted.arguments), limit(wanted))?;
    Ok(Row::tests(
        suite.name(),
        watched.time,
        counts::of_libtest(&watched.text),
        why_not(watched.status),
    ))
}

/// Nothing when it ended well.
fn why_not(status: Option<std::process::ExitStatus>) -> Option<String> {
    match status {
        None => Some("took too long and was ended".to_owned()),
        Some(status) if status.success() => None,
        Some(status) => Some(format!("ended with {status}")),
    }
}

/// What every suite finds in its environment.
fn environment(command: &mut Command, wanted: &Wanted) -> Result<()> {
    if wanted.deep {
        command.env("RUNCONTEXT_DEEP", "1");
    }
    let data = match env::var_os("RUNCONTEXT_DATA") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => places::root()
            .parent()
            .map(|folder| folder.join("shared").join("data"))
            .filter(|folder| folder.is_dir()),
    };
    if let Some(folder) = data {
        let folder =
            fs::canonicalize(&folder).with_context(|| format!("RUNCONTEXT_DATA: no {}", folder.display()))?;
        command.env("RUNCONTEXT_DATA", folder);
    }
    Ok(())
}

/// Arguments of a Chromium that talks to nobody and runs as any user.
const CHROMIUM_ARGUMENTS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// Has wasm-bindgen's runner run tests in a browser. What is given back has to live for as long as the tests run.
fn in_browser(
    command: &mut Command,
    suite: Suite,
    tester: &Tester,
    wanted: &Wanted,
) -> Result<(PageServer, Option<Display>)> {
    // The runner takes the first one that it finds.
    for variable in ["GECKODRIVER", "SAFARIDRIVER", "CHROMEDRIVER"] {
        command.env_remove(variable);
    }
    let server = PageServer::new()?;
    let mut display = None;
    let capabilities = match suite {
        Suite::Firefox => {
            command.env("GECKODRIVER", &tester.firefox.driver);
            json!({ "moz:firefoxOptions": { "binary": tester.firefox.firefox } })
        }
        Suite::Webkit => {
            // The runner knows this protocol by Safari's name, and gives its driver no capabilities.
            command.env("SAFARIDRIVER", &tester.webkit.driver);
            let started = Display::start(&tester.webkit.xvfb)?;
            command.env("DISPLAY", &started.name);
            display = Some(started);
            json!({})
        }
        _ => {
            command.env("CHROMEDRIVER", &tester.browser.driver);
            json!({ "goog:chromeOptions": { "binary": tester.browser.chromium, "args": CHROMIUM_ARGUMENTS } })
        }
    };
    let file = places::target().join(format!("webdriver-{}.json", suite.name()));
    fs::create_dir_all(places::target())?;
    fs::write(&file, format!("{capabilities:#}\n"))
        .with_context(|| format!("cannot write {}", file.display()))?;
    let seconds = if wanted.deep { WASM_LIMIT_DEEP } else { WASM_LIMIT };
    command
        .env(
            "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER",
            &tester.builder.bindgen.test_runner,
        )
        .env("WASM_BINDGEN_TEST_ADDRESS", server.address.to_string())
        .env("WASM_BINDGEN_TEST_WEBDRIVER_JSON", file)
        .env("WASM_BINDGEN_TEST_DRIVER_TIMEOUT", "60")
        .env("WASM_BINDGEN_TEST_TIMEOUT", seconds.to_string())
        .env("WASM_BINDGEN_USE_BROWSER", "1");
    Ok((server, display))
}

fn node_test(suite: Suite, tester: &Tester, packed: &Package, wanted: &Wanted) -> Result<Row> {
    let folder = places::root().join("tests").join(suite.name());
    let mut files = test_files(&folder)?;
    files.retain(|file| {
        let name = file.to_string_lossy();
        wanted.arguments.is_empty()
            || wanted
                .arguments
                .iter()
                .any(|argument| name.contains(argument.as_str()))
    });
    ensure!(
        !files.is_empty(),
        "there are no test files in {}",
        folder.display()
    );

    let tap = places::target().join(format!("{}.tap", suite.name()));
    fs::create_dir_all(places::target())?;
    // One file at a time: browsers that share two cores make each other's tests slow.
    let mut node = run::program("node", ["--test", "--test-concurrency=1", "--test-reporter=spec"]);
    node.args(["--test-reporter-destination=stdout", "--test-reporter=tap"])
        .arg(format!("--test-reporter-destination={}", tap.display()))
        .args(&files)
        .current_dir(places::root())
        .env("RUNCONTEXT_TARBALL", &packed.tarball)
        .env("RUNCONTEXT_PKG", places::package())
        .env("RUNCONTEXT_CHROMIUM", &tester.browser.chromium)
        .env("RUNCONTEXT_POSTGRES", &tester.postgres)
        .env("RUNCONTEXT_FIREFOX", &tester.firefox.firefox)
        .env("RUNCONTEXT_GECKODRIVER", &tester.firefox.driver)
        .env("RUNCONTEXT_WEBKIT_DRIVER", &tester.webkit.driver)
        .env("RUNCONTEXT_XTASK", env::current_exe()?);
    node.envs(
        tester
            .schemathesis
            .iter()
            .map(|file| ("RUNCONTEXT_SCHEMATHESIS", file)),
    );
    let display = match suite {
        Suite::Browser => Some(Display::start(&tester.webkit.xvfb)?),
        _ => None,
    };
    node.envs(display.iter().map(|display| ("DISPLAY", &display.name)));
    environment(&mut node, wanted)?;
    let watched = run::watch(&mut node, limit(wanted))?;
    let text = fs::read_to_string(&tap).unwrap_or_default();
    let _ = fs::remove_file(&tap);
    Ok(Row::tests(
        suite.name(),
        watched.time,
        counts::of_tap(&text),
        why_not(watched.status),
    ))
}

/// `**/*.test.mjs`, in the order of their names.
fn test_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() && name != "node_modules" {
                folders.push(entry.path());
            } else if name.ends_with(".test.mjs") {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}
