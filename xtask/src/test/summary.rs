//! The table of suites, the skipped tests by name, and the closing line.

use std::process::ExitCode;
use std::time::Duration;

use super::counts::Counts;
use crate::report::seconds;

/// One suite or check, finished.
#[derive(Debug)]
pub struct Row {
    name: &'static str,
    time: Duration,
    /// Nothing for a check, which counts no tests.
    counts: Option<Counts>,
    problem: Option<String>,
}

impl Row {
    pub fn check(name: &'static str, time: Duration, problem: Option<String>) -> Self {
        Self {
            name,
            time,
            counts: None,
            problem,
        }
    }

    /// A suite that gave no counts.
    pub fn dead(name: &'static str, time: Duration, problem: &str) -> Self {
        Self::check(name, time, Some(problem.to_owned()))
    }

    /// A suite that ran. It has to have run at least one test, to have reported on every one, and to have ended well
    /// unless it counted a failure.
    pub fn tests(name: &'static str, time: Duration, counts: Counts, ended_badly: Option<String>) -> Self {
        let problem = if counts.lost > 0 {
            Some(format!("{} tests were begun and never reported on", counts.lost))
        } else if ended_badly.is_some() && counts.failed == 0 {
            ended_badly
        } else if counts.passed + counts.failed == 0 {
            Some("ran no tests".to_owned())
        } else {
            None
        };
        Self {
            name,
            time,
            counts: Some(counts),
            problem,
        }
    }

    fn passed(&self) -> u64 {
        self.counts.as_ref().map_or(0, |counts| counts.passed)
    }

    /// A problem of the suite as a whole is one more failure, so that the closing line cannot be all well.
    fn failed(&self) -> u64 {
        self.counts.as_ref().map_or(0, |counts| counts.failed) + u64::from(self.problem.is_some())
    }

    fn skipped(&self) -> &[String] {
        self.counts
            .as_ref()
            .map_or(&[], |counts| counts.skipped.as_slice())
    }

    fn line(&self) -> String {
        let Row { name, time, .. } = self;
        let time = seconds(*time);
        let head = match &self.counts {
            Some(counts) => {
                let Counts {
                    passed,
                    failed,
                    skipped,
                    ..
                } = counts;
                format!(
                    "{name:<12} {passed:>7} {failed:>7} {:>8} {time:>10}",
                    skipped.len()
                )
            }
            None => {
                let word = if self.problem.is_none() { "ok" } else { "failed" };
                format!("{name:<12} {word:>7} {:>7} {:>8} {time:>10}", "", "")
            }
        };
        match &self.problem {
            Some(problem) => format!("{head}  {problem}"),
            None => head,
        }
    }
}

/// Prints everything; the exit code says whether all is well.
pub fn print(rows: &[Row], time: Duration) -> ExitCode {
    println!(
        "\n{:<12} {:>7} {:>7} {:>8} {:>10}",
        "suite", "passed", "failed", "skipped", "time"
    );
    for row in rows {
        println!("{}", row.line());
    }
    println!("{:<12} {:>35}\n", "all", seconds(time));
    for row in rows {
        for name in row.skipped() {
            println!("skipped in {}: {name}", row.name);
        }
    }
    let passed: u64 = rows.iter().map(Row::passed).sum();
    let failed: u64 = rows.iter().map(Row::failed).sum();
    let skipped: usize = rows.iter().map(|row| row.skipped().len()).sum();
    if skipped == 0 {
        println!("{passed} passed, {failed} failed");
    } else {
        println!("{passed} passed, {failed} failed, {skipped} skipped");
    }
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_that_ran_no_test_has_failed() {
        let row = Row::tests("native", Duration::ZERO, Counts::default(), None);
        assert_eq!((row.passed(), row.failed()), (0, 1));
    }

    #[test]
    fn a_suite_that_died_has_failed_whatever_it_counted() {
        let counts = Counts {
            passed: 3,
            ..Counts::default()
        };
        let row = Row::tests(
            "native",
            Duration::ZERO,
            counts,
            Some("ended with signal 11".to_owned()),
        );
        assert_eq!((row.passed(), row.failed()), (3, 1));
    }

    #[test]
    fn failing_tests_are_counted_once() {
        let counts = Counts {
            passed: 3,
            failed: 2,
            ..Counts::default()
        };
        let row = Row::tests(
            "native",
            Duration::ZERO,
            counts,
            Some("ended with exit status: 101".to_owned()),
        );
        assert_eq!((row.passed(), row.failed()), (3, 2));
    }
}
