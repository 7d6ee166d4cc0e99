//! What a commit does, as a pure decision.

use runcontext::{
    ErrorCode,
    storage::{
        Commit, CommitStatus, Counters, REMEMBERED_OPERATIONS,
        apply::{self, Decision, StoredRecord},
    },
};
use serde_json::json;
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::make::{append, create, dispatch, record, set};

fn stored(commit_count: u64, conversation: u64, message_count: u32) -> StoredRecord {
    let mut record = record("s", "/work");
    record.counters = Counters {
        conversation,
        settings: 4,
    };
    record.message_count = message_count;
    StoredRecord { record, commit_count }
}

/// Decides on a commit that changes no approvals.
fn decide<M>(
    session: &str,
    commit: &Commit<M>,
    stored: Option<&StoredRecord>,
    remembered: bool,
) -> runcontext::Result<Decision> {
    apply::decide(session, commit, stored, remembered, &[])
}

fn applied(decision: runcontext::Result<Decision>) -> Option<(StoredRecord, u64)> {
    match decision {
        Ok(Decision::Apply { next, slot }) => Some((*next, slot)),
        _ => None,
    }
}

#[test]
fn a_remembered_operation_is_applied_whatever_else_is_true() {
    let counters = Counters {
        conversation: 7,
        settings: 4,
    };
    for commit in [
        append("s", "op", 1, 90, 91),
        dispatch("s", "op"),
        set("s", "op", "a", json!(1)),
    ] {
        let decision = decide("s", &commit, Some(&stored(9, 7, 3)), true);
        assert_eq!(
            decision,
            Ok(Decision::Answer(CommitStatus::AlreadyApplied(counters)))
        );
    }
}

#[test]
fn a_conflict_explains_a_gap() {
    let decision = decide("s", &append("s", "op", 6, 2, 3), Some(&stored(9, 7, 3)), false);
    let counters = Counters {
        conversation: 7,
        settings: 4,
    };
    assert_eq!(decision, Ok(Decision::Answer(CommitStatus::Conflict(counters))));
}

#[test]
fn each_commit_takes_the_place_of_the_oldest_in_the_ring() {
    for (count, expected) in [
        (0, 0),
        (1, 1),
        (REMEMBERED_OPERATIONS - 1, REMEMBERED_OPERATIONS - 1),
        (REMEMBERED_OPERATIONS, 0),
        (3 * REMEMBERED_OPERATIONS + 5, 5),
    ] {
        let decision = decide(
            "s",
            &append("s", "op", 7, 3, 4),
            Some(&stored(count, 7, 3)),
            false,
        );
        let (next, slot) = applied(decision).unwrap();
        assert_eq!(slot, expected);
        assert_eq!(next.commit_count, count + 1);
        assert_eq!(
            next.record.counters,
            Counters {
                conversation: 8,
                settings: 4
            }
        );
        assert_eq!(next.record.message_count, 4);
    }
}

#[test]
fn a_first_commit_begins_at_zero_whatever_its_record_says() {
    let mut first = create("s", "op");
    first.create = Some(stored(9, 7, 3).record);
    let decision = decide("s", &first, None, false);
    let (next, slot) = applied(decision).unwrap();
    assert_eq!(slot, 0);
    assert_eq!(next.record.counters, Counters::default());
    assert_eq!(next.record.message_count, 0);
}

#[test]
fn a_first_commit_that_is_malformed_creates_nothing() {
    let mut late = dispatch("s", "op");
    late.expected = Some(1);
    let mut foreign = dispatch("s", "op");
    foreign.create = Some(record("t", "/work"));
    let mut timeless = dispatch("s", "op");
    timeless.create.as_mut().unwrap().created_at = f64::INFINITY;
    let mut doubled = dispatch("s", "op");
    doubled.snapshots.push(doubled.snapshots[0].clone());
    for commit in [late, foreign, timeless, doubled] {
        assert_eq!(
            decide("s", &commit, None, false).unwrap_err().code(),
            ErrorCode::StorageFailed
        );
    }
}

#[test]
fn a_message_count_at_its_end_is_refused() {
    let last = append("s", "op", 7, u32::MAX - 1, u32::MAX);
    assert!(decide("s", &last, Some(&stored(9, 7, u32::MAX - 1)), false).is_ok());
    let mut beyond = append("s", "op", 7, 0, 1);
    beyond.messages[0].index.0 = u32::MAX;
    assert!(decide("s", &beyond, Some(&stored(9, 7, u32::MAX)), false).is_err());
}

#[test]
fn a_stored_record_reads_what_it_wrote() {
    let before = stored(1_025, 7, 3);
    let text = serde_json::to_string(&before).unwrap();
    assert_eq!(
        StoredRecord::parse(&serde_json::from_str(&text).unwrap()).unwrap(),
        before
    );
    assert!(StoredRecord::parse(&serde_json::json!({ "id": "s" })).is_err());
}

#[test]
fn the_error_names_the_commit_and_says_what_is_wrong_with_it() {
    let commit: Commit<_> = append("s", "op-9", 7, 5, 6);
    let error = decide("s", &commit, Some(&stored(9, 7, 3)), false).unwrap_err();
    assert_eq!(
        error.message(),
        "commit `op-9` of session `s` appends message 5 where 3 comes next; nothing was saved"
    );
}

#[test]
fn a_commit_to_a_session_that_took_the_id_of_another_is_a_conflict_whatever_it_changes() {
    let mut later = stored(9, 7, 3);
    later.record.settings.insert("origin".to_owned(), json!("second"));
    let commits = [append("s", "op", 7, 3, 4), set("s", "op", "title", json!("mine"))];
    for commit in commits {
        let answer = Decision::Answer(CommitStatus::Conflict(later.record.counters));
        for origin in ["first", ""] {
            let commit = Commit {
                origin: origin.to_owned(),
                ..commit.clone()
            };
            assert_eq!(
                decide("s", &commit, Some(&later), false),
                Ok(answer.clone()),
                "{origin}"
            );
        }
        let commit = Commit {
            origin: "second".to_owned(),
            ..commit
        };
        assert!(applied(decide("s", &commit, Some(&later), false)).is_some());
    }
}
