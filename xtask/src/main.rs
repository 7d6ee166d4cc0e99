//! The project's own commands: `cargo xtask setup | build | package | test | bench | demo`.
//!
//! | file | subject |
//! |---|---|
//! | `settings` | `wasm-pack.toml`, the build's settings |
//! | `places` | folders of the project and of the user's cache |
//! | `run` | starting other programs |
//! | `report` | what is printed: steps, their times |
//! | `setup` | what the machine needs, installed once |
//! | `build` | crate to `pkg/` |
//! | `package` | `pkg/` to an npm tarball |
//! | `test` | every check and suite, with one closing line |
//! | `bench` | ratios to a baseline, measured in one run |
//! | `demo` | the demo site on 127.0.0.1 |

mod bench;
mod build;
mod demo;
mod package;
mod places;
mod report;
mod run;
mod settings;
mod setup;
mod test;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask <command>

  setup                     install what build and test need; a second run repeats nothing
  build                     build pkg/, the npm package
  package                   build, then pack pkg/ into target/package/
  test [--deep] [SUITE...] [-- ARGS]
                            every check and test, or the named suites:
                            fmt clippy clippy-wasm native wasm firefox webkit package hosts browser e2e
                            ARGS go to the one named suite (cargo test arguments, or test file names)
  bench [SUBJECT]           measure ratios: gate (natively and in Node), storage (in Chromium)
  demo [--port N] [--no-build]
                            build the package and serve the demo site on 127.0.0.1
";

fn main() -> ExitCode {
    run::end_children_on_signal();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match command(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn command(arguments: &[String]) -> Result<ExitCode> {
    let Some((name, rest)) = arguments.split_first() else {
        bail!("no command given\n\n{USAGE}");
    };
    match name.as_str() {
        "setup" => none_left(rest).and_then(|()| setup::everything()),
        "build" => none_left(rest).and_then(|()| build::command()),
        "package" => none_left(rest).and_then(|()| package::command()),
        "bench" => bench::command(rest),
        "demo" => demo::command(rest),
        "test" => return test::command(rest),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(())
        }
        other => bail!("unknown command `{other}`\n\n{USAGE}"),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn none_left(arguments: &[String]) -> Result<()> {
    match arguments.first() {
        None => Ok(()),
        Some(argument) => bail!("unexpected argument `{argument}`\n\n{USAGE}"),
    }
}
