//! Benchmarks: how long a thing takes against another in the same run. They are no tests: they print, and judge nothing.

use anyhow::{Result, bail};

use crate::report::step;
use crate::{build, places, run, setup};

/// What can be measured: `gate` by `benches/gate.rs` natively and by `benches/gate.mjs` in Node, `projection` by
/// `benches/projection.mjs` in Node, `storage` by `benches/storage.mjs` in Chromium, `postgres` by `benches/postgres.mjs` on a server
/// of its own.
const SUBJECTS: [&str; 4] = ["gate", "projection", "storage", "postgres"];

/// Those that need neither a browser nor a server.
const IN_NODE: [&str; 2] = ["gate", "projection"];

/// The `bench` command.
pub fn command(arguments: &[String]) -> Result<()> {
    let subjects = match arguments {
        [] => SUBJECTS.to_vec(),
        [subject] if SUBJECTS.contains(&subject.as_str()) => vec![subject.as_str()],
        _ => bail!("bench takes one of: {}", SUBJECTS.join(" ")),
    };
    // Set-up says itself what it does; a browser and a server are needed for storage alone.
    let (builder, storage) = if subjects.iter().all(|subject| IN_NODE.contains(subject)) {
        (setup::for_build()?, None)
    } else {
        let tester = setup::for_tests()?;
        (tester.builder, Some((tester.browser.chromium, tester.postgres)))
    };
    setup::packages_of("benches")?;
    build::make(&builder)?;
    for subject in subjects {
        if subject == "gate" {
            step("bench gate, native", || {
                run::run(
                    run::program("cargo", ["bench", "--package", "runcontext", "--bench", subject])
                        .current_dir(places::root()),
                )
            })?;
        }
        step(&format!("bench {subject}, in JavaScript"), || {
            let script = places::root().join("benches").join(format!("{subject}.mjs"));
            let mut node = run::program("node", [script]);
            node.env("RUNCONTEXT_PKG", places::package());
            if let Some((chromium, postgres)) = &storage {
                node.env("RUNCONTEXT_CHROMIUM", chromium)
                    .env("RUNCONTEXT_POSTGRES", postgres);
            }
            run::run(&mut node)
        })?;
    }
    Ok(())
}
