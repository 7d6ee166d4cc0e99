//! What happens to a session, as data: made from a seed, run by `run.rs`, and made smaller step by step where it shows a fault.
//! Each step can be taken in any state, so that any of them can be dropped.

use runcontext::{message::Dialect, session::Outcome};

use crate::{random::Random, spoken::ALL};

/// A message that was stored by somebody else: an import, an older version, another tab.
#[derive(Clone, Debug)]
pub enum Said {
    /// By a person; `counts` where it began a turn.
    Typed { blocks: bool, counts: bool },
    /// By the model, with calls of these ids.
    Answer { calls: Vec<u8>, ends: Ends },
    /// Results of these ids, late ones and those of no call too.
    Results { calls: Vec<u8>, together: bool },
    /// Results and typed text in one message, where a dialect has that.
    Mixed { calls: Vec<u8> },
    /// A role that nobody knows.
    Note,
}

/// How an answer of the model ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    Well,
    InError,
    Aborted,
}

/// How a session comes to show what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// In the place of what is here; what could not be saved is dropped.
    InPlace,
    /// By a page that died, in the middle of a turn too, and what it had not saved with it.
    Reopened { from_cut: bool },
    /// What could not be saved goes on in a new session.
    Fork,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Step {
    /// A person says something. A turn that runs is ended before.
    Prompt {
        blocks: bool,
        skills: usize,
        offered: usize,
        cancelled: bool,
    },
    /// The model answers, with calls of these ids.
    Answer {
        calls: Vec<u8>,
        ends: Ends,
    },
    /// So many of the open calls get their results, from one of them on.
    Results {
        first: usize,
        count: usize,
        together: bool,
        failed: bool,
    },
    /// Results that answer nothing, and messages of another dialect, are refused.
    Refused,
    /// The model has said something, and goes on.
    Partial {
        calls: Vec<u8>,
    },
    /// The turn ends.
    Settle(Outcome),
    /// Another preset.
    Preset(usize),
    /// Another preamble.
    Preamble(usize),
    /// A summary stands for all but so many of the last turns.
    Compact {
        keep: usize,
    },
    /// Somebody else stores messages and snapshots of version 2.
    Elsewhere {
        said: Vec<Said>,
        old_snapshots: usize,
        cut: Option<usize>,
    },
    /// Nothing can be saved from here on.
    Offline,
    /// It can again.
    Flush,
    Reload(Reload),
    /// A turn that was cut off goes on, or is given up.
    Resume {
        abandon: bool,
    },
}

/// A session and all that happens to it.
#[derive(Clone, Debug)]
pub struct History {
    pub dialect: Dialect,
    pub steps: Vec<Step>,
}

impl History {
    /// The same for the same seed.
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let dialect = ALL[random.below(ALL.len())];
        let mut steps = Vec::new();
        if random.one_in(2) {
            steps.push(elsewhere(&mut random));
            steps.push(Step::Reload(reload(&mut random)));
        }
        for _ in 0..random.below(10) + 10 {
            let next = step(&mut random);
            steps.push(next);
            follow(&mut random, &mut steps);
        }
        Self { dialect, steps }
    }

    /// The smallest part of it that still fails: no step of it can be dropped.
    pub fn smallest(mut self, fails: &dyn Fn(&Self) -> bool) -> Self {
        let mut at = self.steps.len();
        while at > 0 {
            at -= 1;
            let mut smaller = self.clone();
            smaller.steps.remove(at);
            if fails(&smaller) {
                self = smaller;
                // What could not be dropped before may be now.
                at = self.steps.len();
            }
        }
        self
    }
}

fn step(random: &mut Random) -> Step {
    match random.below(40) {
        0..=6 => Step::Prompt {
            blocks: random.one_in(2),
            skills: random.below(5).saturating_sub(2),
            offered: random.below(9).saturating_sub(6),
            cancelled: random.one_in(12),
        },
        7..=14 => Step::Answer {
            calls: ids(random, 4),
            ends: ends(random),
        },
        15..=20 => Step::Results {
            first: random.below(3),
            count: random.below(3) + 1,
            together: random.one_in(2),
            failed: random.one_in(4),
        },
        21 => Step::Refused,
        22..=24 => Step::Settle([Outcome::Success, Outcome::Error, Outcome::Cancelled][random.below(3)]),
        25 => Step::Preset(random.below(4)),
        26 => Step::Preamble(random.below(3)),
        27 | 28 => Step::Compact {
            keep: random.below(3) + 1,
        },
        29 => elsewhere(random),
        30..=33 => Step::Offline,
        34 => Step::Flush,
        35 | 36 => Step::Reload(reload(random)),
        37 | 38 => Step::Partial {
            calls: ids(random, 3),
        },
        _ => Step::Resume {
            abandon: random.one_in(2),
        },
    }
}

/// What is seldom met by chance: unsaved messages that a reload loses or forks, a page that dies in the middle of a turn, an answer
/// that is cut off.
fn follow(random: &mut Random, steps: &mut Vec<Step>) {
    match steps.last() {
        Some(Step::Offline) => steps.extend([
            Step::Answer {
                calls: ids(random, 4),
                ends: ends(random),
            },
            Step::Reload(match random.one_in(2) {
                true => Reload::Fork,
                false => reload(random),
            }),
        ]),
        Some(Step::Answer { .. }) if random.one_in(4) => steps.extend([
            Step::Reload(Reload::Reopened {
                from_cut: random.one_in(2),
            }),
            Step::Resume {
                abandon: random.one_in(2),
            },
        ]),
        Some(Step::Partial { .. }) => steps.push(Step::Settle(match random.one_in(2) {
            true => Outcome::Error,
            false => Outcome::Cancelled,
        })),
        _ => {}
    }
}

fn elsewhere(random: &mut Random) -> Step {
    let said = (0..random.below(9)).map(|_| said(random)).collect();
    Step::Elsewhere {
        said,
        old_snapshots: random.below(4),
        cut: random.one_in(5).then(|| random.below(9)),
    }
}

fn said(random: &mut Random) -> Said {
    match random.below(12) {
        0..=2 => Said::Typed {
            blocks: random.one_in(2),
            counts: !random.one_in(4),
        },
        3..=6 => Said::Answer {
            calls: ids(random, 4),
            ends: ends(random),
        },
        7..=9 => Said::Results {
            calls: at_least_one(random),
            together: random.one_in(2),
        },
        10 => Said::Mixed {
            calls: at_least_one(random),
        },
        _ => Said::Note,
    }
}

/// Ids are few, so that they come again.
fn ids(random: &mut Random, below: usize) -> Vec<u8> {
    (0..random.below(below)).map(|_| random.below(5) as u8).collect()
}

fn at_least_one(random: &mut Random) -> Vec<u8> {
    let mut all = ids(random, 3);
    all.push(random.below(5) as u8);
    all
}

fn ends(random: &mut Random) -> Ends {
    match random.below(10) {
        0 => Ends::InError,
        1 => Ends::Aborted,
        _ => Ends::Well,
    }
}

fn reload(random: &mut Random) -> Reload {
    match random.below(5) {
        0 | 1 => Reload::InPlace,
        2 => Reload::Fork,
        3 => Reload::Reopened { from_cut: true },
        _ => Reload::Reopened { from_cut: false },
    }
}
