//! What holds of every history of a session, natively and in wasm: made from seeds, run on the session machine, checked after
//! each step (`check.rs`). A seed that fails is printed with the smallest part of its history that still does;
//! `RUNCONTEXT_SEED=n cargo test --test histories` runs it alone.
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

mod check;
mod faults;
mod history;
mod run;
mod words;

#[path = "../lab/at_once.rs"]
pub mod at_once;
#[path = "../lab/pairing.rs"]
pub mod pairing;
#[path = "../lab/random.rs"]
pub mod random;
#[path = "../lab/spoken.rs"]
pub mod spoken;

use check::{Check, Truth, View};
use history::History;
use run::{Failed, Seen};

/// So many are hashed, natively and in wasm.
const HASHED: u64 = 1_000;

/// What the first histories came to, natively and in wasm: FNV-1a over every request, its map and its
/// divergence. HACKING.md says when it may change.
const HASH: u64 = 0x7833_55a7_6bc5_bb70;

fn histories() -> u64 {
    let deep = std::env::var_os("RUNCONTEXT_DEEP").is_some();
    match (cfg!(target_family = "wasm"), deep) {
        (true, _) => HASHED,
        (false, false) => 10_000,
        (false, true) => 100_000,
    }
}

fn outcome(history: &History, hashed: bool) -> Result<Seen, Failed> {
    let run = || run::run(history, hashed, &mut |_: &Truth, _: &mut View| {});
    // In wasm a panic ends the test; natively the same seed finds it.
    std::panic::catch_unwind(run).unwrap_or_else(|_| {
        Err(Failed {
            checks: Vec::new(),
            text: "it panics".to_owned(),
        })
    })
}

/// Runs the history of a seed, or says why it is wrong, in as few steps as it takes.
fn hold(seed: u64) -> Seen {
    let history = History::of(seed);
    outcome(&history, seed <= HASHED).unwrap_or_else(|_| {
        let smallest = history.smallest(&|history| outcome(history, false).is_err());
        let why = outcome(&smallest, false).unwrap_err();
        let steps = smallest.steps.iter().map(|step| format!("  {step:?}\n"));
        let steps: String = steps.collect();
        panic!("seed {seed}, {:?}: {}\n{steps}", smallest.dialect, why.text)
    })
}

/// What the histories of the first seeds came to. Natively all cores take part.
fn every(count: u64) -> Vec<Seen> {
    if cfg!(target_family = "wasm") {
        return (1..=count).map(hold).collect();
    }
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    std::thread::scope(|scope| {
        let part = |core: u64| 1 + count * core / cores..1 + count * (core + 1) / cores;
        let threads = (0..cores).map(|core| scope.spawn(move || part(core).map(hold).collect::<Vec<Seen>>()));
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    })
}

#[test]
fn every_history_holds_after_every_step() {
    if let Some(seed) = std::env::var("RUNCONTEXT_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
    {
        println!("{:?}", hold(seed));
        return;
    }
    let all = histories();
    let (mut requests, mut hash) = (0, 0_u64);
    let mut met = [0; 10];
    for (seen, seed) in every(all).into_iter().zip(1..) {
        requests += seen.requests;
        if seed <= HASHED {
            hash = seen.hash ^ hash.rotate_left(1);
        }
        let kinds = [
            seen.interrupted,
            seen.compacted,
            seen.old_snapshots,
            seen.reloads,
            seen.skills,
            seen.failures,
            seen.left_out,
            seen.cuts,
            seen.forks,
            seen.resumed,
        ];
        for (met, times) in met.iter_mut().zip(kinds) {
            *met += u64::from(times > 0);
        }
    }
    println!("{all} histories, {requests} requests");
    let names = [
        "interrupted results",
        "compactions",
        "snapshots of version 2",
        "reloads",
        "skills",
        "answers that failed",
        "results left out",
        "unsaved messages lost",
        "forks",
        "turns resumed",
    ];
    for (name, met) in names.iter().zip(met) {
        println!("{met:6} with {name}");
        assert!(
            met * 10 >= all,
            "{name} are in less than a tenth of the histories"
        );
    }
    assert_eq!(
        hash, HASH,
        "the first histories came to {hash:#018x}; see HACKING.md"
    );
}

/// See `faults.rs`.
#[test]
fn every_seeded_fault_is_found_by_the_check_that_is_meant_for_it() {
    for (name, meant, fault) in faults::ALL {
        let mut times = 0;
        for seed in 1..=HASHED {
            let mut made = false;
            let mut seam = |truth: &Truth, view: &mut View| {
                if !made {
                    made = fault(truth, view).is_some();
                }
            };
            let found = run::run(&History::of(seed), false, &mut seam);
            if !made {
                continue;
            }
            let found: Vec<Check> = found.err().map(|failed| failed.checks).unwrap_or_default();
            assert!(
                found.contains(&meant),
                "{name}: seed {seed} was found by {found:?}, not by {meant:?}"
            );
            times += 1;
            if times == 20 {
                break;
            }
        }
        println!("{name}: found {times} times by {meant:?}");
        assert_eq!(times, 20, "{name} is made too seldom");
    }
}
