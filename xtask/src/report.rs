//! What is printed: each step, and how long it took.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Says what is about to be done, does it, says how long it took.
pub fn step<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("== {what}");
    let start = Instant::now();
    let result = work().with_context(|| format!("{what}: failed after {}", seconds(start.elapsed())))?;
    println!("   {what}: {}", seconds(start.elapsed()));
    Ok(result)
}

/// Says that there was nothing to do.
pub fn already(what: &str, detail: &str) {
    println!("== {what}: {detail}");
}

/// A time for people, for example `3.2 s`.
pub fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// A size for people, for example `75.3 kB` (of 1,000 bytes).
#[expect(clippy::cast_precision_loss, reason = "sizes of files are far below 2^52")]
pub fn kilobytes(bytes: u64) -> String {
    format!("{:.1} kB", bytes as f64 / 1000.0)
}
