//! How many tests ran, read from what the test runners print.

/// The tests of one suite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    /// Ignored and skipped tests, by name.
    pub skipped: Vec<String>,
    /// Tests that were begun and never reported on, as when a test binary dies.
    pub lost: u64,
}

/// The output of `cargo test`: test binaries, doc tests, and wasm-bindgen's runner, which prints the same lines.
pub fn of_libtest(text: &str) -> Counts {
    let mut counts = Counts::default();
    let mut announced = 0;
    let mut reported = 0;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("running ")
            && let Some((number, "test" | "tests")) = rest.split_once(' ')
        {
            announced += number.parse::<u64>().unwrap_or(0);
        } else if let Some((_, numbers)) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        {
            let number = |what: &str| {
                let part = numbers.split("; ").find_map(|part| part.strip_suffix(what));
                part.and_then(|digits| digits.trim().parse::<u64>().ok())
                    .unwrap_or(0)
            };
            counts.passed += number("passed");
            counts.failed += number("failed");
            reported += number("passed") + number("failed") + number("ignored");
        } else if let Some((name, outcome)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.rsplit_once(" ... "))
            && let Some(reason) = outcome
                .strip_prefix("ignored")
                .or_else(|| outcome.strip_prefix("ignore"))
        {
            counts.skipped.push(format!("{name}{reason}"));
        } else if let Some((_, reason)) = line.split_once("SKIPPED: ") {
            // A test that lacks its data says so; to the harness it passed.
            counts.skipped.push(reason.to_owned());
        }
    }
    counts.lost = announced.saturating_sub(reported);
    counts
}

/// The TAP output of `node --test`. What tests print is in it too, as comments; the totals are the last ones.
pub fn of_tap(text: &str) -> Counts {
    let mut counts = Counts::default();
    let totals = text.rfind("\n# tests ").unwrap_or(text.len());
    let (tests, totals) = text.split_at(totals);
    for line in totals.lines() {
        let number = |what: &str| {
            line.strip_prefix(what)
                .and_then(|digits| digits.trim().parse::<u64>().ok())
        };
        counts.passed += number("# pass ").unwrap_or(0);
        counts.failed += number("# fail ").or_else(|| number("# cancelled ")).unwrap_or(0);
    }
    for line in tests.lines() {
        if let Some((test, mark)) = line.trim_start().rsplit_once(" # ")
            && (test.starts_with("ok ") || test.starts_with("not ok "))
            && (mark.starts_with("SKIP") || mark.starts_with("TODO"))
        {
            let name = test.split_once(" - ").map_or(test, |(_, name)| name);
            counts.skipped.push(format!("{name} ({})", mark.trim()));
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtest_results_are_added_up_over_binaries_and_doc_tests() {
        let text = "\nrunning 3 tests\ntest a ... ok\ntest b ... ignored, needs a disk\ntest c ... FAILED\n\n\
            test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n\
            running 1 test\ntest src/lib.rs - f (line 3) ... ok\n\n\
            test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s\n";
        let skipped = vec!["b, needs a disk".to_owned()];
        assert_eq!(
            of_libtest(text),
            Counts {
                passed: 2,
                failed: 1,
                skipped,
                lost: 0
            }
        );
    }

    #[test]
    fn a_test_that_says_it_was_skipped_is_counted() {
        let text = "running 2 tests\nSKIPPED: there is no folder x\ntest a ... ok\ntest b ... SKIPPED: no y\nok\n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 filtered out; finished in 0.00s\n";
        assert_eq!(
            of_libtest(text),
            Counts {
                passed: 2,
                skipped: vec!["there is no folder x".to_owned(), "no y".to_owned()],
                ..Counts::default()
            }
        );
    }

    #[test]
    fn tests_of_a_binary_that_died_are_lost() {
        let text = "running 3 tests\ntest a ... ok\nrunning 1 test\ntest b ... ok\n\
            test result: ok. 1 passed; 0 failed; 0 ignored; 0 filtered out; finished in 0.00s\n";
        assert_eq!(
            of_libtest(text),
            Counts {
                passed: 1,
                lost: 3,
                ..Counts::default()
            }
        );
    }

    #[test]
    fn tap_totals_and_skipped_names_are_read_and_cancelled_is_failed() {
        let text = "TAP version 13\n# Subtest: a\n    # Subtest: b\n    ok 1 - b # SKIP no browser\n    1..1\nok 1 - a\n\
            # fail 7\n1..4\n# tests 4\n# suites 0\n# pass 1\n# fail 1\n# cancelled 1\n# skipped 1\n# todo 0\n# duration_ms 3.5\n";
        let skipped = vec!["b (SKIP no browser)".to_owned()];
        assert_eq!(
            of_tap(text),
            Counts {
                passed: 1,
                failed: 2,
                skipped,
                lost: 0
            }
        );
    }
}
