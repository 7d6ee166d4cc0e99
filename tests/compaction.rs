//! Which turns a compaction leaves, over outlines made by hand.
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

use runcontext::{
    Error, ErrorCode,
    context::{CompactionCheckpoint, RuntimeContextSnapshot, plan_compaction, project},
    message::{Answer, Call, MessageIndex, MessageOutline, Role, StopKind},
};

#[path = "lab/random.rs"]
pub mod random;

use random::Random;

fn outline(role: Role, tokens: u32) -> MessageOutline {
    MessageOutline {
        role,
        user_turn: role == Role::User,
        calls: Vec::new(),
        answers: Vec::new(),
        stop: None,
        text_len: 0,
        tokens,
        bytes: false,
        usage: None,
    }
}

/// A question and an answer, which take that much together.
fn turn(tokens: u32) -> [MessageOutline; 2] {
    [
        outline(Role::User, tokens / 2),
        outline(Role::Assistant, tokens - tokens / 2),
    ]
}

/// Results and what was typed beside them.
fn typed_beside(id: &str, tokens: u32) -> MessageOutline {
    let answers = vec![Answer {
        id: id.to_owned(),
        name: String::new(),
        is_error: false,
    }];
    MessageOutline {
        answers,
        ..outline(Role::User, tokens)
    }
}

fn calling(id: &str, tokens: u32) -> MessageOutline {
    let calls = vec![Call {
        id: id.to_owned(),
        name: "n".to_owned(),
    }];
    MessageOutline {
        calls,
        ..outline(Role::Assistant, tokens)
    }
}

fn checkpoint(first: u32, had: u32) -> CompactionCheckpoint {
    CompactionCheckpoint {
        id: "k".to_owned(),
        first_kept_message_index: MessageIndex(first),
        history_message_count: had,
        summary: "so far".to_owned(),
        timestamp: 1.0,
        provider: String::new(),
        model: String::new(),
        usage: None,
    }
}

fn first_kept(outlines: &[MessageOutline], keep: u32) -> Option<u32> {
    plan_compaction(outlines, &[], None, keep)
        .ok()
        .map(|first| first.0)
}

fn nothing(outlines: &[MessageOutline], previous: Option<&CompactionCheckpoint>, keep: u32) -> Error {
    let error = plan_compaction(outlines, &[], previous, keep).unwrap_err();
    assert_eq!(error.code(), ErrorCode::NothingToCompact);
    error
}

#[test]
fn whole_turns_stay_from_the_newest_backwards_as_long_as_they_fit() {
    let outlines = [turn(100), turn(200), turn(50), turn(30)].concat();
    let cases = [
        (0, Some(6)),
        (30, Some(6)),
        (79, Some(6)),
        (80, Some(4)),
        (279, Some(4)),
        (280, Some(2)),
        (379, Some(2)),
        (380, None),
        (u32::MAX, None),
    ];
    for (keep, first) in cases {
        assert_eq!(first_kept(&outlines, keep), first, "{keep}");
    }
}

#[test]
fn the_newest_turn_stays_whatever_it_takes() {
    let outlines = [turn(10), turn(1_000_000)].concat();
    assert_eq!(first_kept(&outlines, 20), Some(2));
    assert_eq!(first_kept(&[turn(10), turn(u32::MAX)].concat(), u32::MAX), None);
}

#[test]
fn where_nothing_can_go_the_error_says_why() {
    let within =
        "what is not summarised yet takes about 60 tokens, and `keepRecentTokens` keeps 60; keep fewer";
    let newest =
        "only the newest turn is not summarised yet, and that one always stays; go on with the conversation";
    let none = "everything is summarised; go on with the conversation";
    let two = [turn(30), turn(30)].concat();
    let cases = [
        (nothing(&two, None, 60), within.to_owned(), 60),
        (nothing(&turn(60), None, 0), newest.to_owned(), 60),
        (nothing(&two, Some(&checkpoint(2, 4)), 0), newest.to_owned(), 30),
        (nothing(&[], None, 0), none.to_owned(), 0),
        (nothing(&two, Some(&checkpoint(4, 4)), 0), none.to_owned(), 0),
    ];
    for (error, message, tokens) in cases {
        assert_eq!(error.message(), message);
        assert_eq!(error.data()["tokens"], tokens);
    }
}

#[test]
fn a_compaction_starts_where_the_previous_one_ended() {
    let outlines = [turn(100), turn(100), turn(100), turn(100)].concat();
    let planned = |previous: u32, keep| {
        let plan = plan_compaction(&outlines, &[], Some(&checkpoint(previous, 8)), keep);
        plan.ok().map(|first| first.0)
    };
    assert_eq!(planned(2, 0), Some(6));
    assert_eq!(planned(2, 200), Some(4));
    // Everything since then fits, and what is before it takes nothing any more.
    assert_eq!(planned(2, 300), None);
    assert_eq!(planned(6, 0), None);
}

#[test]
fn a_compaction_of_another_conversation_is_refused() {
    let outlines = [turn(100), turn(100)].concat();
    for (first, had) in [(2, 5), (5, 5), (3, 2), (u32::MAX, u32::MAX)] {
        let previous = checkpoint(first, had);
        let planned = plan_compaction(&outlines, &[], Some(&previous), 0);
        let projected = project(&outlines, &[], Some(&previous));
        for error in [planned.unwrap_err(), projected.unwrap_err()] {
            assert_eq!(error.code(), ErrorCode::InvalidArgument);
            assert_eq!(
                error.message(),
                format!(
                    "the compaction keeps message {first} of {had}, but there are 4; pass the last compaction of this conversation, and all of its messages"
                )
            );
        }
    }
    plan_compaction(&outlines, &[], Some(&checkpoint(0, 4)), 0).unwrap();
    project(&outlines, &[], Some(&checkpoint(0, 4))).unwrap();
}

#[test]
fn what_is_shown_with_a_message_counts_with_its_turn() {
    let outlines = [turn(100), turn(100), turn(100)].concat();
    let snapshot = |user_turn| RuntimeContextSnapshot {
        user_turn,
        content: "word ".repeat(1_000),
        timestamp: 1.0,
        skills: None,
        placement: None,
    };
    let planned = |user_turn| {
        let plan = plan_compaction(&outlines, &[snapshot(user_turn)], None, 200);
        plan.unwrap().0
    };
    assert_eq!(first_kept(&outlines, 200), Some(2));
    // The skill of the second turn takes it out; that of the first, and one without a turn, change nothing.
    assert_eq!(planned(1), 4);
    assert_eq!(planned(0), 2);
    assert_eq!(planned(7), 2);
}

#[test]
fn answers_that_failed_take_nothing_for_they_are_not_shown() {
    let mut outlines = [turn(100), turn(100), turn(100)].concat();
    assert_eq!(first_kept(&outlines, 150), Some(4));
    outlines[3].stop = Some(StopKind::Error);
    assert_eq!(first_kept(&outlines, 150), Some(2));
}

#[test]
fn what_was_typed_beside_results_is_not_cut_off_from_the_call() {
    let outlines = [
        turn(100).to_vec(),
        vec![
            outline(Role::User, 10),
            calling("a", 10),
            typed_beside("a", 10),
            outline(Role::Assistant, 10),
        ],
    ]
    .concat();
    // The newest turn begins at 4, and the call that it answers is of the turn before.
    assert_eq!(first_kept(&outlines, 0), Some(2));
    assert_eq!(nothing(&outlines[2..], None, 0).data()["tokens"], 40);
}

#[test]
fn what_stands_before_the_first_turn_goes_like_a_turn() {
    let mut outlines = vec![outline(Role::Other, 500), outline(Role::Assistant, 500)];
    outlines.extend(turn(100));
    assert_eq!(first_kept(&outlines, 1_099), Some(2));
    assert_eq!(first_kept(&outlines, 1_100), None);
}

#[test]
fn in_any_conversation_as_many_turns_stay_as_fit() {
    let mut random = Random::new(11);
    let (mut cuts, mut refusals) = (0, 0);
    for _ in 0..2_000 {
        let mut outlines = Vec::new();
        for _ in 0..random.below(20) {
            let tokens = random.below(100) as u32;
            outlines.push(match random.below(5) {
                0 | 1 => outline(Role::User, tokens),
                2 => outline(Role::ToolResult, tokens),
                3 => typed_beside("a", tokens),
                _ => calling("a", tokens),
            });
        }
        let count = outlines.len() as u32;
        let from = random.below(outlines.len() + 1) as u32;
        let keep = random.below(600) as u32;
        let takes = |at: u32| {
            outlines[at as usize..]
                .iter()
                .map(|outline| outline.tokens)
                .sum::<u32>()
        };
        // By the words of the design: of all places before a whole turn, behind the previous end, the first from which on
        // everything fits; where nothing fits, the last place.
        let places: Vec<u32> = (from + 1..count)
            .filter(|at| {
                let begins = &outlines[*at as usize];
                begins.role == Role::User && begins.answers.is_empty()
            })
            .collect();
        let expected = match places.iter().find(|at| takes(**at) <= keep) {
            _ if takes(from) <= keep => None,
            Some(at) => Some(*at),
            None => places.last().copied(),
        };
        let previous = checkpoint(from, count);
        let planned = plan_compaction(&outlines, &[], Some(&previous), keep);
        match planned {
            Ok(first) => {
                cuts += 1;
                assert_eq!(Some(first.0), expected, "{outlines:?} {from} {keep}");
            }
            Err(error) => {
                refusals += 1;
                assert_eq!(error.code(), ErrorCode::NothingToCompact);
                assert_eq!(None, expected, "{outlines:?} {from} {keep}");
            }
        }
    }
    assert!(cuts > 500 && refusals > 200, "{cuts} {refusals}");
}
