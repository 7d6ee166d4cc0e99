//! What any kind of storage does, written once.

use std::rc::Rc;

use runcontext::{
    Error, ErrorCode,
    storage::{
        Commit, CommitStatus, Counters, ListFilter, REMEMBERED_OPERATIONS, SessionRecord, SessionStorage,
        SharedWrite, Standing, Storage, StoredApproval, keys, memory::Dump,
    },
};
use serde_json::{Value, json};

use crate::make::{
    self, Body, append, asks, body, both, checkpoint, create, dispatch, empty, ends, floats, outline, put,
    record, remove, seen, set, snapshot,
};

/// A kind of storage to try, with records of its own.
pub trait Place: Sized {
    /// Nothing stored, and nobody else there.
    async fn empty() -> Self;
    /// One more connection to the same records.
    async fn open(&self) -> Rc<dyn Storage<Body>>;
    /// Everything stored, read past the storage where that can be done.
    async fn dump(&self) -> Dump;
}

/// Runs the whole suite on one place.
macro_rules! conformance {
    ($place:ty) => {
        crate::conformance::answers!($place);
        crate::conformance::tests! { $place:
            records_are_stored_in_these_stores_in_these_forms
            as_many_operations_are_kept_as_are_remembered
            deleting_removes_one_session_and_nothing_else
        }
    };
}
pub(crate) use conformance;

/// Runs on one place what can be seen without looking at how it stores records.
macro_rules! answers {
    ($place:ty) => {
        crate::conformance::tests! { $place:
            the_first_commit_creates_the_session_with_everything_in_it
            a_refused_record_leaves_nothing_of_its_commit
            a_commit_sent_twice_is_applied_once
            already_applied_is_answered_before_conflict
            a_conflict_changes_nothing
            of_two_commits_on_one_counter_exactly_one_is_applied
            a_setting_neither_conflicts_with_a_turn_nor_raises_its_counter
            what_another_connection_wrote_meanwhile_decides
            the_last_write_of_a_setting_wins_and_the_others_stay
            creating_a_session_twice_is_a_conflict
            a_commit_to_a_session_that_is_not_there_is_not_found
            a_commit_that_does_not_fit_changes_nothing
            replayed_operations_are_known_in_any_order
            an_operation_is_remembered_until_as_many_others_followed
            outlines_cross_the_borders_of_their_packs
            a_missing_message_is_an_error
            another_connection_sees_everything
            sessions_are_listed_newest_first_in_pages
            a_deleted_session_can_be_made_again
            awkward_settings_come_back_as_they_were
            an_approval_is_kept_with_a_version_that_each_change_raises
            a_commit_that_builds_on_another_version_of_an_approval_changes_nothing
            an_approval_ends_once_and_may_end_again
            of_two_answers_to_one_approval_exactly_one_is_applied
            approvals_are_listed_by_session_and_over_all_sessions
            shared_values_are_written_together_and_listed_in_key_order
            writes_to_groups_and_rules_raise_the_policy_version_and_no_others_do
            a_write_that_expects_another_policy_version_changes_nothing
            a_closed_storage_says_so
        }
    };
}
pub(crate) use answers;

macro_rules! tests {
    ($place:ty: $($name:ident)*) => {$(
        #[cfg(not(target_family = "wasm"))]
        #[test]
        fn $name() {
            pollster::block_on(crate::conformance::$name::<$place>());
        }

        #[cfg(target_family = "wasm")]
        #[wasm_bindgen_test::wasm_bindgen_test]
        async fn $name() {
            crate::conformance::$name::<$place>().await;
        }
    )*};
}
pub(crate) use tests;

async fn session<P: Place>(place: &P, id: &str) -> Rc<dyn SessionStorage<Body>> {
    place.open().await.session(id)
}

async fn commit(session: &Rc<dyn SessionStorage<Body>>, commit: Commit<Body>) -> CommitStatus {
    session.commit(Rc::new(commit)).await.unwrap()
}

async fn refused(session: &Rc<dyn SessionStorage<Body>>, commit: Commit<Body>) -> Error {
    session.commit(Rc::new(commit)).await.unwrap_err()
}

fn at(conversation: u64, settings: u64) -> Counters {
    Counters {
        conversation,
        settings,
    }
}

fn stands(origin: &str, counters: Counters) -> Standing {
    Standing {
        origin: origin.to_owned(),
        counters,
    }
}

pub async fn the_first_commit_creates_the_session_with_everything_in_it<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    assert_eq!(s.counters().await, Ok(None));
    assert_eq!(s.load().await, Ok(None));

    assert_eq!(
        commit(&s, dispatch("s", "op-0")).await,
        CommitStatus::Applied(at(1, 1))
    );

    let stored = s.load().await.unwrap().unwrap();
    let mut expected = record("s", "/work");
    expected.updated_at = 2_000.0;
    expected.message_count = 3;
    expected.counters = at(1, 1);
    expected.settings.insert("preset".to_owned(), json!("read-only"));
    assert_eq!(stored.record, expected);
    assert_eq!(stored.outlines, [outline(0), outline(1), outline(2)]);
    assert_eq!(stored.snapshots, [snapshot(0)]);
    assert_eq!(stored.checkpoints, [checkpoint(1)]);
    assert_eq!(stored.compactions, [make::compaction(0)]);
    assert_eq!(s.counters().await, Ok(Some(stands("op-0", at(1, 1)))));
    let bodies = s.read_messages(0, 3).await.unwrap();
    assert_eq!(
        bodies.iter().map(seen).collect::<Vec<_>>(),
        [0, 1, 2].map(|index| seen(&body(index)))
    );
}

pub async fn records_are_stored_in_these_stores_in_these_forms<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    commit(&s, dispatch("s", "op-0")).await;
    let stored = s.load().await.unwrap().unwrap();
    let dump = place.dump().await;
    let sizes: Vec<_> = dump
        .iter()
        .map(|(store, records)| (store.as_str(), records.len()))
        .collect();
    assert_eq!(
        sizes,
        [
            ("approval_rules", 0),
            ("approvals", 0),
            ("chat_sessions", 1),
            ("commits", 1),
            ("compactions", 1),
            ("message_outlines", 1),
            ("messages", 3),
            ("project_tickets", 0),
            ("projects", 0),
            ("runtime_contexts", 1),
            ("scheduled_jobs", 0),
            ("skills", 0),
            ("system_prompt_checkpoints", 1),
            ("tool_permission_groups", 0),
        ]
    );
    let found = |store: &str, n: usize| {
        let (key, record) = dump[store][n].clone();
        (key, floats(record))
    };
    let expected = |key: &str, record: Value| (key.to_owned(), floats(record));
    assert_eq!(
        found("chat_sessions", 0),
        expected(
            r#""s""#,
            json!({
                "id": "s", "cwd": "/work", "createdAt": 1000, "updatedAt": 2000, "messageCount": 3,
                "counters": { "conversation": 1, "settings": 1 },
                "settings": { "dialect": "loop", "origin": "op-0", "preset": "read-only" }, "commitCount": 1,
            })
        )
    );
    let message = json!({ "sessionId": "s", "index": 2, "body": seen(&body(2)) });
    assert_eq!(found("messages", 2), expected(r#"["s",2]"#, message));
    let pack = json!({ "sessionId": "s", "pack": 0, "outlines": plain(&stored.outlines) });
    assert_eq!(found("message_outlines", 0), expected(r#"["s",0]"#, pack));
    let mut row = plain(&snapshot(0));
    row["sessionId"] = json!("s");
    row["position"] = json!(0);
    assert_eq!(found("runtime_contexts", 0), expected(r#"["s",0]"#, row));
    let operation = json!({ "sessionId": "s", "slot": 0, "operationId": "op-0" });
    assert_eq!(found("commits", 0), expected(r#"["s",0]"#, operation));
}

pub async fn a_refused_record_leaves_nothing_of_its_commit<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    commit(&s, dispatch("s", "op-0")).await;
    let before = place.dump().await;

    // Messages, outlines and a first snapshot that could all be stored, then a position that is taken.
    let bad = Commit {
        snapshots: vec![(1, snapshot(1))],
        checkpoints: vec![(0, checkpoint(4))],
        settings: [("preset".to_owned(), json!("danger-full-access"))].into(),
        ..append("s", "op-1", 1, 3, 5)
    };
    let error = refused(&s, bad).await;
    assert_eq!(error.code(), ErrorCode::StorageFailed);
    assert_eq!(place.dump().await, before);

    assert_eq!(
        commit(&s, append("s", "op-1", 1, 3, 5)).await,
        CommitStatus::Applied(at(2, 1))
    );
}

pub async fn a_commit_sent_twice_is_applied_once<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    commit(&s, dispatch("s", "op-0")).await;
    let change = Commit {
        settings: [("title".to_owned(), json!("t"))].into(),
        ..append("s", "op-1", 1, 3, 4)
    };
    assert_eq!(commit(&s, change.clone()).await, CommitStatus::Applied(at(2, 2)));
    let before = place.dump().await;
    assert_eq!(
        commit(&s, change.clone()).await,
        CommitStatus::AlreadyApplied(at(2, 2))
    );
    assert_eq!(
        commit(&session(&place, "s").await, change).await,
        CommitStatus::AlreadyApplied(at(2, 2))
    );
    assert_eq!(
        commit(&s, dispatch("s", "op-0")).await,
        CommitStatus::AlreadyApplied(at(2, 2))
    );
    assert_eq!(place.dump().await, before);
}

pub async fn already_applied_is_answered_before_conflict<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    commit(&s, dispatch("s", "op-0")).await;
    commit(&s, append("s", "op-1", 1, 3, 4)).await;
    commit(&s, append("s", "op-2", 2, 4, 5)).await;
    let replay = append("s", "op-1", 1, 3, 4);
    assert_eq!(commit(&s, replay).await, CommitStatus::AlreadyApplied(at(3, 1)));
    let other = append("s", "op-3", 1, 3, 4);
    assert_eq!(commit(&s, other).await, CommitStatus::Conflict(at(3, 1)));
}

pub async fn a_conflict_changes_nothing<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    commit(&s, dispatch("s", "op-0")).await;
    let before = place.dump().await;
    for expected in [0, 2, u64::from(u32::MAX)] {
        let late = Commit {
            snapshots: vec![(1, snapshot(1))],
            settings: [("preset".to_owned(), json!("danger-full-access"))].into(),
            ..append("s", "op-1", expected, 3, 4)
        };
        assert_eq!(commit(&s, late).await, CommitStatus::Conflict(at(1, 1)));
    }
    assert_eq!(place.dump().await, before);
    assert_eq!(
        commit(&s, append("s", "op-1", 1, 3, 4)).await,
        CommitStatus::Applied(at(2, 1))
    );
}

pub async fn of_two_commits_on_one_counter_exactly_one_is_applied<P: Place>() {
    let place = P::empty().await;
    let (a, b) = (session(&place, "s").await, session(&place, "s").await);
    commit(&a, dispatch("s", "op-0")).await;
    let racing = both(
        commit(&a, append("s", "a", 1, 3, 5)),
        commit(&b, append("s", "b", 1, 3, 4)),
    );
    let (first, second) = racing.await;
    let applied = [first, second]
        .iter()
        .filter(|status| matches!(status, CommitStatus::Applied(_)))
        .count();
    assert_eq!(applied, 1, "{first:?} {second:?}");
    let stored = a.load().await.unwrap().unwrap();
    assert_eq!(stored.record.counters.conversation, 2);
    assert_eq!(stored.record.message_count as usize, stored.outlines.len());
}

pub async fn a_setting_neither_conflicts_with_a_turn_nor_raises_its_counter<P: Place>() {
    let place = P::empty().await;
    let (a, b) = (session(&place, "s").await, session(&place, "s").await);
    commit(&a, dispatch("s", "op-0")).await;
    assert_eq!(
        commit(&b, set("s", "b-0", "title", json!("from another tab"))).await,
        CommitStatus::Applied(at(1, 2))
    );
    assert_eq!(
        commit(&a, append("s", "op-1", 1, 3, 4)).await,
        CommitStatus::Applied(at(2, 2))
    );
    assert_eq!(
        commit(&b, set("s", "b-1", "read", json!(true))).await,
        CommitStatus::Applied(at(2, 3))
    );
    let stored = a.load().await.unwrap().unwrap();
    assert_eq!(stored.record.settings["title"], json!("from another tab"));
    assert_eq!(stored.record.settings["read"], json!(true));
}

pub async fn what_another_connection_wrote_meanwhile_decides<P: Place>() {
    let place = P::empty().await;
    let (a, b) = (session(&place, "s").await, session(&place, "s").await);
    commit(&a, dispatch("s", "op-0")).await;
    commit(&b, append("s", "b-0", 1, 3, 4)).await;
    let before = place.dump().await;
    assert_eq!(
        commit(&a, append("s", "a-0", 1, 3, 5)).await,
        CommitStatus::Conflict(at(2, 1))
    );
    assert_eq!(place.dump().await, before);

    commit(&a, set("s", "a-1", "title", json!("a"))).await;
    let change = set("s", "b-1", "title", json!("b"));
    assert_eq!(commit(&b, change.clone()).await, CommitStatus::Applied(at(2, 3)));
    let before = place.dump().await;
    assert_eq!(commit(&a, change).await, CommitStatus::AlreadyApplied(at(2, 3)));
    assert_eq!(place.dump().await, before);
}

pub async fn the_last_write_of_a_setting_wins_and_the_others_stay<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    commit(&s, create("s", "op-0")).await;
    commit(&s, set("s", "op-1", "preset", json!("read-only"))).await;
    commit(&s, set("s", "op-2", "preset", json!("workspace-write"))).await;
    commit(&s, set("s", "op-3", "title", Value::Null)).await;
    let stored = s.load().await.unwrap().unwrap();
    assert_eq!(
        Value::from_iter(stored.record.settings),
        json!({ "dialect": "loop", "origin": "op-0", "preset": "workspace-write", "title": null })
    );
}

pub async fn creating_a_session_twice_is_a_conflict<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    commit(&s, dispatch("s", "op-0")).await;
    let before = place.dump().await;
    assert_eq!(
        commit(&s, dispatch("s", "op-1")).await,
        CommitStatus::Conflict(at(1, 1))
    );
    assert_eq!(
        commit(&s, create("s", "op-2")).await,
        CommitStatus::Conflict(at(1, 1))
    );
    assert_eq!(place.dump().await, before);
}

pub async fn a_commit_to_a_session_that_is_not_there_is_not_found<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    let error = refused(&s, append("s", "op-0", 0, 0, 1)).await;
    assert_eq!(error.code(), ErrorCode::NotFound);
    assert_eq!(
        error.message(),
        "there is no session `s`; it may have been deleted"
    );
    assert!(place.dump().await.values().all(Vec::is_empty));
}

pub async fn a_commit_that_does_not_fit_changes_nothing<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    commit(&s, dispatch("s", "op-0")).await;
    let before = place.dump().await;

    let gap = append("s", "gap", 1, 4, 5);
    let overlap = append("s", "overlap", 1, 2, 5);
    let mut hole = append("s", "hole", 1, 3, 6);
    hole.messages.remove(1);
    let mut short = append("s", "short", 1, 3, 5);
    short.outline_packs = make::packs(0, 4);
    let mut unnamed = append("s", "unnamed", 1, 3, 4);
    unnamed.expected = None;
    let mut timeless = append("s", "timeless", 1, 3, 4);
    timeless.timestamp = f64::NAN;
    for bad in [
        gap,
        overlap,
        hole,
        short,
        unnamed,
        timeless,
        append("other", "foreign", 1, 3, 4),
    ] {
        let name = bad.operation_id.clone();
        let error = refused(&s, bad).await;
        assert_eq!(error.code(), ErrorCode::StorageFailed, "{name}");
        assert_eq!(place.dump().await, before, "{name}");
    }
}

pub async fn replayed_operations_are_known_in_any_order<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    commit(&s, create("s", "op-0")).await;
    let queue: Vec<_> = (0..12)
        .map(|n| append("s", &format!("op-{}", n + 1), n.into(), n, n + 1))
        .collect();
    for change in &queue {
        assert!(matches!(
            commit(&s, change.clone()).await,
            CommitStatus::Applied(_)
        ));
    }
    let before = place.dump().await;
    for step in [5, 7, 11] {
        for n in 0..queue.len() {
            let change = queue[n * step % queue.len()].clone();
            assert_eq!(commit(&s, change).await, CommitStatus::AlreadyApplied(at(12, 0)));
        }
    }
    assert_eq!(place.dump().await, before);
}

pub async fn an_operation_is_remembered_until_as_many_others_followed<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    commit(&s, dispatch("s", "op-0")).await;
    commit(&s, set("s", "first", "n", json!("first"))).await;
    for n in 1..REMEMBERED_OPERATIONS {
        commit(&s, set("s", &format!("n-{n}"), "n", json!(n))).await;
    }
    let first = set("s", "first", "n", json!("first"));
    let last = REMEMBERED_OPERATIONS;
    assert_eq!(
        commit(&s, first.clone()).await,
        CommitStatus::AlreadyApplied(at(1, last + 1))
    );
    commit(&s, set("s", "one more", "n", json!("one more"))).await;
    assert_eq!(commit(&s, first).await, CommitStatus::Applied(at(1, last + 3)));
}

pub async fn as_many_operations_are_kept_as_are_remembered<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    commit(&s, create("s", "op-0")).await;
    for n in 1..REMEMBERED_OPERATIONS {
        commit(&s, set("s", &format!("n-{n}"), "n", json!(n))).await;
    }
    assert_eq!(place.dump().await["commits"].len() as u64, REMEMBERED_OPERATIONS);
    commit(&s, set("s", "one more", "n", json!("one more"))).await;
    assert_eq!(place.dump().await["commits"].len() as u64, REMEMBERED_OPERATIONS);
}

pub async fn outlines_cross_the_borders_of_their_packs<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    commit(&s, create("s", "op-0")).await;
    commit(&s, append("s", "op-1", 0, 0, 130)).await;
    commit(&s, append("s", "op-2", 1, 130, 131)).await;
    commit(&s, append("s", "op-3", 2, 131, 256)).await;
    commit(&s, append("s", "op-4", 3, 256, 257)).await;
    let stored = s.load().await.unwrap().unwrap();
    assert_eq!(stored.outlines, (0..257).map(outline).collect::<Vec<_>>());
    assert_eq!(stored.record.message_count, 257);
    assert_eq!(place.dump().await["message_outlines"].len(), 3);

    let page = s.read_messages(126, 132).await.unwrap();
    let expected: Vec<_> = (126..132).map(|index| seen(&body(index))).collect();
    assert_eq!(page.iter().map(seen).collect::<Vec<_>>(), expected);
    assert!(s.read_messages(7, 7).await.unwrap().is_empty());
}

pub async fn a_missing_message_is_an_error<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    for (from, to) in [(0, 1), (2, 4), (u32::MAX - 1, u32::MAX)] {
        let error = s.read_messages(from, to).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::StorageFailed, "{from} to {to}");
        commit(&s, dispatch("s", "op-0")).await;
    }
    assert_eq!(s.read_messages(2, 3).await.unwrap().len(), 1);
}

pub async fn another_connection_sees_everything<P: Place>() {
    let place = P::empty().await;
    let first = place.open().await;
    let s = first.session("s");
    commit(&s, dispatch("s", "op-0")).await;
    let change = put("skills", "k", json!({ "a": 1 }));
    first.shared().write(vec![change], None).await.unwrap();
    let loaded = s.load().await;
    first.close();

    let second = place.open().await;
    let s = second.session("s");
    assert_eq!(s.load().await, loaded);
    assert_eq!(s.read_messages(0, 3).await.unwrap().len(), 3);
    assert_eq!(
        second.shared().list("skills").await,
        Ok(vec![("k".to_owned(), json!({ "a": 1 }))])
    );
    let listed = second.directory().list(page(9)).await.unwrap();
    let told: Vec<_> = listed.iter().map(SessionRecord::info).collect();
    assert_eq!(told, [loaded.unwrap().unwrap().record.info()]);
    assert_eq!(
        commit(&s, append("s", "op-1", 1, 3, 4)).await,
        CommitStatus::Applied(at(2, 1))
    );
}

fn page(limit: u32) -> ListFilter {
    ListFilter {
        limit,
        ..ListFilter::default()
    }
}

pub async fn sessions_are_listed_newest_first_in_pages<P: Place>() {
    let place = P::empty().await;
    let storage = place.open().await;
    assert_eq!(storage.directory().list(page(10)).await, Ok(Vec::new()));
    let sessions = [
        ("a", "/one", 1_010.0),
        ("b", "/two", 1_030.0),
        ("c", "/one", 1_020.0),
        ("d", "/one", 1_030.0),
        ("e", "/on", 1_020.5),
        ("E", "/one", 1_020.0),
    ];
    for (id, cwd, time) in sessions {
        let first = Commit {
            create: Some(record(id, cwd)),
            timestamp: time,
            ..empty(id, "op-0")
        };
        commit(&storage.session(id), first).await;
    }
    let directory = storage.directory();
    let list = async |filter: ListFilter| -> String {
        directory
            .list(filter)
            .await
            .unwrap()
            .into_iter()
            .map(|record| record.id)
            .collect()
    };
    assert_eq!(list(page(10)).await, "dbecEa");
    assert_eq!(list(page(0)).await, "");
    assert_eq!(list(page(2)).await, "db");

    let mut seen = String::new();
    let mut before = None;
    while let Some(last) = {
        let filter = ListFilter {
            before: before.clone(),
            ..page(2)
        };
        let found = directory.list(filter).await.unwrap();
        seen.extend(found.iter().map(|record| record.id.as_str()));
        found.last().cloned()
    } {
        before = Some((last.updated_at, last.id));
    }
    assert_eq!(seen, "dbecEa");

    let one = |before: Option<(f64, String)>| ListFilter {
        cwd: Some("/one".to_owned()),
        before,
        ..page(10)
    };
    assert_eq!(list(one(None)).await, "dcEa");
    assert_eq!(list(one(Some((1_020.0, "c".to_owned())))).await, "Ea");
    assert_eq!(list(one(Some((1_025.0, "not there".to_owned())))).await, "cEa");
    assert_eq!(list(one(Some((1_010.0, "a".to_owned())))).await, "");
    assert_eq!(
        list(ListFilter {
            cwd: Some("/".to_owned()),
            ..page(10)
        })
        .await,
        ""
    );

    let touched = Commit {
        timestamp: 1_040.0,
        ..set("a", "op-1", "title", json!("t"))
    };
    commit(&storage.session("a"), touched).await;
    assert_eq!(list(page(10)).await, "adbecE");

    // A clock that was set back.
    let earlier = Commit {
        timestamp: 5.0,
        ..set("a", "op-2", "title", json!("u"))
    };
    commit(&storage.session("a"), earlier).await;
    let newest = directory.list(page(1)).await.unwrap();
    let newest = newest
        .iter()
        .map(|record| (record.updated_at, &record.settings["title"]));
    assert_eq!(newest.collect::<Vec<_>>(), [(1_040.0, &json!("u"))]);
}

pub async fn deleting_removes_one_session_and_nothing_else<P: Place>() {
    let place = P::empty().await;
    let storage = place.open().await;
    let ids = ["s", "s1", "s-", "S", "r", "t", "s0000"];
    for id in ids {
        commit(&storage.session(id), dispatch(id, "op-0")).await;
        commit(&storage.session(id), asks(id, "op-1", "r", Some(0))).await;
    }
    let change = put("skills", "s", json!(1));
    storage.shared().write(vec![change], None).await.unwrap();
    let before = place.dump().await;

    storage.session("s").delete().await.unwrap();
    let after = place.dump().await;
    for (store, records) in &before {
        let left: Vec<_> = records
            .iter()
            .filter(|(key, _)| store == "skills" || (key != r#""s""# && !key.starts_with(r#"["s","#)))
            .cloned()
            .collect();
        assert_eq!(after[store], left, "{store}");
        let gone = records.len() - left.len();
        assert_eq!(gone > 0, keys::OF_SESSIONS.contains(&store.as_str()), "{store}");
    }
    assert_eq!(storage.session("s").load().await, Ok(None));
    storage.session("s").delete().await.unwrap();
    storage.session("never").delete().await.unwrap();
    assert_eq!(place.dump().await, after);
    assert!(storage.session("s1").load().await.unwrap().is_some());
}

pub async fn a_deleted_session_can_be_made_again<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    commit(&s, dispatch("s", "op-0")).await;
    s.delete().await.unwrap();
    let error = refused(&s, append("s", "op-1", 1, 3, 4)).await;
    assert_eq!(error.code(), ErrorCode::NotFound);
    let mut again = dispatch("s", "op-9");
    if let Some(first) = &mut again.create {
        first.settings.insert("origin".to_owned(), json!("op-9"));
    }
    assert_eq!(commit(&s, again).await, CommitStatus::Applied(at(1, 1)));
    assert_eq!(s.counters().await, Ok(Some(stands("op-9", at(1, 1)))));
    let of_the_old_one = append("s", "op-1", 1, 3, 4);
    assert_eq!(commit(&s, of_the_old_one).await, CommitStatus::Conflict(at(1, 1)));
}

/// Session, request, version, and what was asked.
fn told(approvals: &[StoredApproval<Body>]) -> Vec<(String, String, u64, Value)> {
    let told = |it: &StoredApproval<Body>| (it.session_id.clone(), it.id.clone(), it.version, seen(&it.body));
    approvals.iter().map(told).collect()
}

/// What [`told`] says of an approval that a commit of this name put.
fn asked(session: &str, request: &str, version: u64, operation: &str) -> (String, String, u64, Value) {
    let body = asks(session, operation, request, None).approvals.remove(0).body;
    (
        session.to_owned(),
        request.to_owned(),
        version,
        seen(&body.unwrap()),
    )
}

pub async fn an_approval_is_kept_with_a_version_that_each_change_raises<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    assert_eq!(told(&s.approvals().await.unwrap()), []);
    commit(&s, dispatch("s", "op-0")).await;
    assert_eq!(told(&s.approvals().await.unwrap()), []);
    let applied = CommitStatus::Applied(at(1, 1));
    assert_eq!(commit(&s, asks("s", "op-1", "r", Some(0))).await, applied);
    assert_eq!(commit(&s, asks("s", "op-2", "r", Some(1))).await, applied);
    // Where any version will do it rises all the same, and a commit sent twice raises it once.
    assert_eq!(commit(&s, asks("s", "op-3", "r", None)).await, applied);
    let again = commit(&s, asks("s", "op-3", "r", None)).await;
    assert_eq!(again, CommitStatus::AlreadyApplied(at(1, 1)));
    let other = session(&place, "s").await;
    assert_eq!(
        told(&other.approvals().await.unwrap()),
        [asked("s", "r", 3, "op-3")]
    );
    assert_eq!(s.load().await.unwrap().unwrap().record.message_count, 3);
}

pub async fn a_commit_that_builds_on_another_version_of_an_approval_changes_nothing<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    commit(&s, dispatch("s", "op-0")).await;
    commit(&s, asks("s", "op-1", "r", Some(0))).await;
    commit(&s, asks("s", "op-2", "r", Some(1))).await;
    let before = place.dump().await;
    let conflict = CommitStatus::Conflict(at(1, 1));
    for (request, expected) in [("r", 0), ("r", 1), ("r", 3), ("other", 1)] {
        // With a second approval, messages and a setting: none of them is kept.
        let mut change = append("s", "op-3", 1, 3, 5);
        change.settings = set("s", "op-3", "title", json!("t")).settings;
        change.approvals = asks("s", "op-3", "new", Some(0)).approvals;
        change
            .approvals
            .append(&mut asks("s", "op-3", request, Some(expected)).approvals);
        assert_eq!(commit(&s, change).await, conflict, "{request} {expected}");
        assert_eq!(
            commit(&s, ends("s", "op-3", request, Some(expected))).await,
            conflict
        );
        assert_eq!(place.dump().await, before);
    }
    // The operation was not applied, so its name is free.
    assert_eq!(
        commit(&s, asks("s", "op-3", "r", Some(2))).await,
        CommitStatus::Applied(at(1, 1))
    );
}

pub async fn an_approval_ends_once_and_may_end_again<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    commit(&s, dispatch("s", "op-0")).await;
    commit(&s, asks("s", "op-1", "q", Some(0))).await;
    commit(&s, asks("s", "op-2", "r", Some(0))).await;
    let applied = CommitStatus::Applied(at(1, 1));
    assert_eq!(commit(&s, ends("s", "op-3", "r", Some(1))).await, applied);
    assert_eq!(told(&s.approvals().await.unwrap()), [asked("s", "q", 1, "op-1")]);
    assert_eq!(
        commit(&s, ends("s", "op-4", "r", Some(1))).await,
        CommitStatus::Conflict(at(1, 1))
    );
    assert_eq!(commit(&s, ends("s", "op-5", "r", None)).await, applied);
    assert_eq!(told(&s.approvals().await.unwrap()), [asked("s", "q", 1, "op-1")]);
    assert_eq!(place.dump().await["approvals"].len(), 1);
    // One that ended is no longer there, so that it may begin anew.
    assert_eq!(commit(&s, asks("s", "op-6", "r", Some(0))).await, applied);
    // One commit may end an approval and begin another.
    let mut superseded = ends("s", "op-7", "r", Some(1));
    superseded
        .approvals
        .append(&mut asks("s", "op-7", "t", Some(0)).approvals);
    assert_eq!(commit(&s, superseded).await, applied);
    let left = [asked("s", "q", 1, "op-1"), asked("s", "t", 1, "op-7")];
    assert_eq!(told(&s.approvals().await.unwrap()), left);
}

pub async fn of_two_answers_to_one_approval_exactly_one_is_applied<P: Place>() {
    let place = P::empty().await;
    let (one, two) = (session(&place, "s").await, session(&place, "s").await);
    commit(&one, dispatch("s", "op-0")).await;
    commit(&one, asks("s", "op-1", "r", Some(0))).await;
    for round in 1..=10 {
        let (a, b) = (format!("a-{round}"), format!("b-{round}"));
        let answers = both(
            one.commit(Rc::new(asks("s", &a, "r", Some(round)))),
            two.commit(Rc::new(asks("s", &b, "r", Some(round)))),
        )
        .await;
        let statuses = [answers.0.unwrap(), answers.1.unwrap()];
        let applied = statuses
            .iter()
            .filter(|it| **it == CommitStatus::Applied(at(1, 1)));
        let conflicts = statuses
            .iter()
            .filter(|it| **it == CommitStatus::Conflict(at(1, 1)));
        assert_eq!((applied.count(), conflicts.count()), (1, 1), "{statuses:?}");
        let winner = if statuses[0] == CommitStatus::Applied(at(1, 1)) {
            &a
        } else {
            &b
        };
        let stored = told(&two.approvals().await.unwrap());
        assert_eq!(stored, [asked("s", "r", round + 1, winner)]);
    }
}

pub async fn approvals_are_listed_by_session_and_over_all_sessions<P: Place>() {
    let place = P::empty().await;
    let storage = place.open().await;
    assert_eq!(told(&storage.approvals().await.unwrap()), []);
    for id in ["t", "s", "s0", "S"] {
        commit(&storage.session(id), dispatch(id, "op-0")).await;
    }
    for (id, request) in [("t", "a"), ("s", "b"), ("s", "a"), ("s0", "a")] {
        let change = asks(id, &format!("op-{request}"), request, Some(0));
        commit(&storage.session(id), change).await;
    }
    let of = |id: &str, request: &str| asked(id, request, 1, &format!("op-{request}"));
    let all = [of("s", "a"), of("s", "b"), of("s0", "a"), of("t", "a")];
    assert_eq!(told(&place.open().await.approvals().await.unwrap()), all);
    for (id, expected) in [("s", &all[..2]), ("s0", &all[2..3]), ("t", &all[3..]), ("S", &[])] {
        assert_eq!(
            told(&storage.session(id).approvals().await.unwrap()),
            expected,
            "{id}"
        );
    }
    storage.session("s").delete().await.unwrap();
    assert_eq!(told(&storage.approvals().await.unwrap()), all[2..]);
    assert_eq!(told(&storage.session("s").approvals().await.unwrap()), []);
}

pub async fn awkward_settings_come_back_as_they_were<P: Place>() {
    let place = P::empty().await;
    let s = session(&place, "s").await;
    commit(&s, create("s", "op-0")).await;
    let awkward = json!({
        "__proto__": { "polluted": true },
        "constructor": 1,
        "toJSON": "text",
        "length": 3,
        "": [],
        "unicode": "\u{0}\u{1f980}\u{ffff}\u{2028}",
        "numbers": [0, 1.5, 1e300, 9_007_199_254_740_991_u64, -9_007_199_254_740_991_i64],
        "deep": [[[[[[{ "a": [null, true, false] }]]]]]],
    });
    commit(&s, set("s", "op-1", "__proto__", awkward.clone())).await;
    commit(&s, set("s", "op-2", "awkward", awkward.clone())).await;
    let stored = session(&place, "s").await.load().await.unwrap().unwrap();
    assert_eq!(stored.record.settings["awkward"], awkward);
    assert_eq!(stored.record.settings["__proto__"], awkward);
    assert_eq!(stored.record.settings.len(), 4);
}

pub async fn shared_values_are_written_together_and_listed_in_key_order<P: Place>() {
    let place = P::empty().await;
    let shared = place.open().await.shared();
    assert_eq!(shared.list("skills").await, Ok(Vec::new()));
    let values = ["b", "", "a", "\u{1f980}", "\u{ffee}", "__proto__"];
    let mut changes: Vec<_> = values
        .iter()
        .map(|key| put("skills", key, json!({ "value": key })))
        .collect();
    changes.push(put("projects", "a", json!(7)));
    shared.write(changes, None).await.unwrap();
    let keys = |list: Vec<(String, Value)>| list.into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    assert_eq!(
        keys(shared.list("skills").await.unwrap()),
        ["", "__proto__", "a", "b", "\u{ffee}", "\u{1f980}"]
    );

    let changes = vec![
        remove("skills", "a"),
        put("skills", "b", json!("new")),
        remove("skills", "never"),
    ];
    shared.write(changes, None).await.unwrap();
    let list = shared.list("skills").await.unwrap();
    assert_eq!(list[2], ("b".to_owned(), json!("new")));
    assert_eq!(list.len(), 5);
    assert_eq!(
        shared.list("projects").await,
        Ok(vec![("a".to_owned(), json!(7))])
    );
    let before = place.dump().await;

    for store in ["chat_sessions", "messages", "nothing"] {
        let changes = vec![put("skills", "z", json!(1)), put(store, "a", json!(1))];
        let error = shared.write(changes, None).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert_eq!(
            shared.list(store).await.unwrap_err().code(),
            ErrorCode::InvalidArgument
        );
    }
    assert_eq!(place.dump().await, before);
}

pub async fn writes_to_groups_and_rules_raise_the_policy_version_and_no_others_do<P: Place>() {
    let place = P::empty().await;
    let shared = place.open().await.shared();
    assert_eq!(shared.policy_version().await, Ok(0));
    let writes = [
        (vec![put("skills", "a", json!(1))], 0),
        (vec![put("tool_permission_groups", "a", json!(1))], 1),
        (
            vec![
                put("projects", "a", json!(1)),
                put("approval_rules", "a", json!(1)),
                put("tool_permission_groups", "a", json!(2)),
            ],
            2,
        ),
        (vec![remove("approval_rules", "never")], 3),
        (Vec::new(), 3),
    ];
    for (changes, version) in writes {
        assert_eq!(
            shared.write(changes, None).await,
            Ok(SharedWrite::Applied(version))
        );
        assert_eq!(place.open().await.shared().policy_version().await, Ok(version));
    }
    // The version is no group.
    assert_eq!(
        shared.list("tool_permission_groups").await,
        Ok(vec![("a".to_owned(), json!(2))])
    );
}

pub async fn a_write_that_expects_another_policy_version_changes_nothing<P: Place>() {
    let place = P::empty().await;
    let (one, two) = (place.open().await.shared(), place.open().await.shared());
    let rule = |value: u32| {
        vec![
            put("approval_rules", "r", json!(value)),
            put("skills", "s", json!(value)),
        ]
    };
    assert_eq!(one.write(rule(1), Some(0)).await, Ok(SharedWrite::Applied(1)));
    let before = place.dump().await;
    for stale in [0, 2] {
        assert_eq!(
            two.write(rule(2), Some(stale)).await,
            Ok(SharedWrite::Conflict(1))
        );
    }
    let skill = vec![put("skills", "s", json!(3))];
    assert_eq!(two.write(skill, Some(0)).await, Ok(SharedWrite::Conflict(1)));
    assert_eq!(place.dump().await, before);
    assert_eq!(two.write(rule(2), Some(1)).await, Ok(SharedWrite::Applied(2)));
    // Of two at the same time exactly one is written.
    let (a, b) = both(one.write(rule(4), Some(2)), two.write(rule(5), Some(2))).await;
    let (winner, mut answers) = (
        if a == Ok(SharedWrite::Applied(3)) { 4 } else { 5 },
        [a.unwrap(), b.unwrap()],
    );
    answers.sort_by_key(|answer| matches!(answer, SharedWrite::Conflict(_)));
    assert_eq!(answers, [SharedWrite::Applied(3), SharedWrite::Conflict(3)]);
    for store in ["approval_rules", "skills"] {
        assert_eq!(one.list(store).await.unwrap()[0].1, json!(winner));
    }
}

pub async fn a_closed_storage_says_so<P: Place>() {
    let place = P::empty().await;
    let storage = place.open().await;
    let (s, shared, directory) = (storage.session("s"), storage.shared(), storage.directory());
    commit(&s, dispatch("s", "op-0")).await;
    storage.close();
    storage.close();
    let codes = [
        s.counters().await.unwrap_err().code(),
        s.load().await.unwrap_err().code(),
        s.read_messages(0, 1).await.unwrap_err().code(),
        refused(&s, append("s", "op-1", 1, 3, 4)).await.code(),
        s.delete().await.unwrap_err().code(),
        shared.list("skills").await.unwrap_err().code(),
        shared.write(Vec::new(), None).await.unwrap_err().code(),
        shared.policy_version().await.unwrap_err().code(),
        directory.list(page(1)).await.unwrap_err().code(),
        storage.session("s").counters().await.unwrap_err().code(),
    ];
    assert_eq!(codes, [ErrorCode::Disposed; 10]);
    assert_eq!(place.dump().await["messages"].len(), 3);
}

fn plain(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}
