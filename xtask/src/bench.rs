//! Benchmarks: how long a thing takes against another in the same run. They are no tests: they print, and judge nothing.

use anyhow::{Result, bail};

use crate::report::step;
use crate::{build, places, run, setup};

/// What can be measured: `benches/NAME.rs` natively, `benches/NAME.mjs` in Node.
const SUBJECTS: [&str; 1] = ["gate"];

/// The `bench` command.
pub fn command(arguments: &[String]) -> Result<()> {
    let subjects = match arguments {
        [] => SUBJECTS.to_vec(),
        [subject] if SUBJECTS.contains(&subject.as_str()) => vec![subject.as_str()],
        _ => bail!("bench takes one of: {}", SUBJECTS.join(" ")),
    };
    let builder = setup::for_build()?;
    setup::packages_of("benches")?;
    build::make(&builder)?;
    for subject in subjects {
        step(&format!("bench {subject}, native"), || {
            run::run(
                run::program("cargo", ["bench", "--package", "runcontext", "--bench", subject])
                    .current_dir(places::root()),
            )
        })?;
        step(&format!("bench {subject}, in Node"), || {
            let script = places::root().join("benches").join(format!("{subject}.mjs"));
            run::run(run::program("node", [script]).env("RUNCONTEXT_PKG", places::package()))
        })?;
    }
    Ok(())
}
