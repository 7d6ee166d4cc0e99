//! IndexedDB passes the suite, keeps what JSON cannot, and outlives what a browser does to it.

use std::{
    rc::Rc,
    sync::atomic::{AtomicU32, Ordering},
};

use js_sys::Array;
use runcontext::{
    ErrorCode,
    storage::{
        Commit, CommitStatus, Counters, SessionStorage, SharedWrite, Storage,
        indexed_db::{Durability, IndexedDb, is_unavailable},
        memory::{Dump, MemoryStorage},
    },
};
use serde_json::json;
use wasm_bindgen::{JsValue, closure::Closure, prelude::wasm_bindgen};
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::{
    conformance::{Place, conformance},
    make::{Body, append, asks, checkpoint, create, dispatch, floats, put, seen, set, snapshot},
};

#[wasm_bindgen(module = "/tests/storage/raw.js")]
extern "C" {
    #[wasm_bindgen(catch)]
    async fn dump(name: &str, outlines_of: &JsValue) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(catch, js_name = openAt)]
    async fn open_at(name: &str, version: u32) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(catch)]
    async fn remove(name: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(catch)]
    async fn exists(name: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(js_name = awkwardBody)]
    fn awkward_body() -> JsValue;
    fn same(a: &JsValue, b: &JsValue) -> bool;
    fn unstorable() -> JsValue;
    #[wasm_bindgen(js_name = pageErrors)]
    fn page_errors() -> String;
    fn calm();
    fn forbid(name: &str, text: &str);
    fn hide();
    fn closing(times: u32);
    #[wasm_bindgen(js_name = loseAnswer)]
    fn lose_answer();
    fn fail(name: &str);
    fn watch() -> Array;
}

#[wasm_bindgen(module = "/tests/support/cases/outlines.js")]
extern "C" {
    #[wasm_bindgen(js_name = outlinesOf)]
    fn outlines_of(pack: JsValue) -> JsValue;
}

/// A database of a test's own.
struct Named(String);

impl Named {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(format!("storage-test-{}", NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    async fn connect(&self) -> runcontext::Result<IndexedDb> {
        IndexedDb::open(&self.0, Durability::Strict).await
    }

    /// A connection to one session.
    async fn session(&self, id: &str) -> Rc<dyn SessionStorage<Body>> {
        self.connect().await.unwrap().session(id)
    }
}

impl Place for Named {
    async fn empty() -> Self {
        Self::new()
    }

    async fn open(&self) -> Rc<dyn Storage<Body>> {
        Rc::new(self.connect().await.unwrap())
    }

    async fn dump(&self) -> Dump {
        let outlines_of = Closure::<dyn Fn(JsValue) -> JsValue>::new(outlines_of);
        let text = dump(&self.0, outlines_of.as_ref()).await.unwrap();
        serde_json::from_str(&text.as_string().unwrap()).unwrap()
    }
}

conformance!(Named);

fn at(conversation: u64, settings: u64) -> Counters {
    Counters {
        conversation,
        settings,
    }
}

async fn commit(session: &Rc<dyn SessionStorage<Body>>, commit: Commit<Body>) -> CommitStatus {
    session.commit(Rc::new(commit)).await.unwrap()
}

#[test]
async fn lone_surrogates_nuls_floats_and_bytes_survive() {
    let place = Named::new();
    let s = place.session("s").await;
    let mut first = dispatch("s", "op-0");
    first.messages[1].body = awkward_body();
    commit(&s, first).await;
    let found = place.session("s").await.read_messages(0, 3).await.unwrap();
    assert!(same(&found[1], &awkward_body()));
    assert!(!same(&found[1], &found[0]));
}

#[test]
async fn memory_keeps_the_same_records() {
    let place = Named::new();
    let (kept, memory) = (place.connect().await.unwrap(), MemoryStorage::new());
    let commits = [
        dispatch("s", "op-0"),
        append("s", "op-1", 1, 3, 130),
        set("s", "op-2", "title", json!("t")),
        append("s", "op-0", 0, 0, 1),
        append("s", "op-3", 1, 3, 4),
        asks("s", "op-4", "r", Some(0)),
        asks("s", "op-5", "r", Some(1)),
        asks("s", "op-6", "q", Some(0)),
        dispatch("t", "op-0"),
    ];
    for change in commits {
        let id = change.session_id.clone();
        let status = commit(&memory.session(&id), change.clone()).await;
        assert_eq!(commit(&kept.session(&id), change).await, status);
    }
    for storage in [&kept as &dyn Storage<Body>, &memory] {
        let change = put("skills", "k", json!({ "a": [1, null] }));
        storage.shared().write(vec![change], None).await.unwrap();
    }
    let even = |dump: Dump| -> Dump {
        let even = |(key, record)| (key, floats(record));
        dump.into_iter()
            .map(|(store, records)| (store, records.into_iter().map(even).collect()))
            .collect()
    };
    assert_eq!(even(place.dump().await), even(memory.dump(seen)));
}

#[test]
async fn a_body_that_cannot_be_cloned_leaves_nothing_of_its_commit() {
    let place = Named::new();
    let s = place.session("s").await;
    commit(&s, dispatch("s", "op-0")).await;
    let before = place.dump().await;

    let mut bad = append("s", "op-1", 1, 3, 7);
    bad.snapshots = vec![(1, snapshot(1))];
    bad.messages[2].body = unstorable();
    let error = s.commit(Rc::new(bad)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::StorageFailed);
    assert_eq!(
        error.message(),
        "a value cannot be stored; give plain data only; nothing was saved"
    );
    assert_eq!(place.dump().await, before);
    assert_eq!(
        commit(&s, append("s", "op-1", 1, 3, 7)).await,
        CommitStatus::Applied(at(2, 1))
    );
}

#[test]
async fn several_failing_records_raise_no_error_in_the_page() {
    let place = Named::new();
    let s = place.session("s").await;
    commit(&s, dispatch("s", "op-0")).await;
    page_errors();
    let bad = Commit {
        snapshots: vec![(0, snapshot(1)), (1, snapshot(1))],
        checkpoints: vec![(0, checkpoint(4))],
        ..append("s", "op-1", 1, 3, 9)
    };
    let error = s.commit(Rc::new(bad)).await.unwrap_err();
    assert_eq!(
        error.message(),
        "a record of the same key is stored already; nothing was saved"
    );
    assert_eq!(page_errors(), "");
}

#[test]
async fn a_commit_asks_for_the_durability_that_was_chosen() {
    for (durability, text) in [(Durability::Strict, "strict"), (Durability::Relaxed, "relaxed")] {
        let place = Named::new();
        let storage = IndexedDb::open(&place.0, durability).await.unwrap();
        let seen = watch();
        commit(&storage.session("s"), dispatch("s", "op-0")).await;
        storage.session("s").load().await.unwrap();
        calm();
        assert_eq!(
            String::from(seen.join(", ")),
            format!("readwrite {text}, readonly undefined")
        );
    }
}

#[test]
async fn an_exceeded_quota_is_told_from_other_failures() {
    let place = Named::new();
    let s = place.session("s").await;
    commit(&s, dispatch("s", "op-0")).await;
    let before = place.dump().await;
    let causes = [
        ("QuotaExceededError", ErrorCode::StorageQuota),
        ("UnknownError", ErrorCode::StorageFailed),
    ];
    for (cause, code) in causes {
        fail(cause);
        let outcome = s.commit(Rc::new(append("s", "op-1", 1, 3, 4))).await;
        calm();
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), code);
        assert_eq!(error.data()["cause"], format!("{cause}: no more"));
        assert_eq!(place.dump().await, before);
    }
    assert_eq!(
        commit(&s, append("s", "op-1", 1, 3, 4)).await,
        CommitStatus::Applied(at(2, 1))
    );
}

#[test]
async fn a_lost_connection_is_opened_again_and_the_commit_made_once() {
    let place = Named::new();
    let s = place.session("s").await;
    commit(&s, dispatch("s", "op-0")).await;

    closing(1);
    let status = commit(&s, append("s", "op-1", 1, 3, 4)).await;
    calm();
    assert_eq!(status, CommitStatus::Applied(at(2, 1)));

    lose_answer();
    let status = commit(&s, append("s", "op-2", 2, 4, 5)).await;
    calm();
    assert_eq!(status, CommitStatus::AlreadyApplied(at(3, 1)));
    assert_eq!(s.read_messages(0, 5).await.unwrap().len(), 5);
}

#[test]
async fn a_shared_write_whose_answer_is_lost_is_not_a_conflict_with_itself() {
    let place = Named::new();
    let shared = place.connect().await.unwrap().shared();
    let rule = |key: &str| vec![put("approval_rules", key, json!(1))];
    assert_eq!(
        shared.write(rule("a"), Some(0)).await,
        Ok(SharedWrite::Applied(1))
    );
    lose_answer();
    let outcome = shared.write(rule("b"), Some(1)).await;
    calm();
    assert_eq!(outcome, Ok(SharedWrite::Applied(2)));
    assert_eq!(shared.policy_version().await, Ok(2));
    assert_eq!(shared.list("approval_rules").await.unwrap().len(), 2);
    // Somebody else's write is one all the same.
    let other = place.connect().await.unwrap().shared();
    assert_eq!(other.write(rule("c"), Some(2)).await, Ok(SharedWrite::Applied(3)));
    assert_eq!(
        shared.write(rule("d"), Some(2)).await,
        Ok(SharedWrite::Conflict(3))
    );
}

#[test]
async fn a_connection_that_is_lost_twice_fails_and_the_next_commit_starts_afresh() {
    let place = Named::new();
    let s = place.session("s").await;
    commit(&s, dispatch("s", "op-0")).await;
    closing(2);
    let outcome = s.commit(Rc::new(append("s", "op-1", 1, 3, 4))).await;
    let again = commit(&s, append("s", "op-1", 1, 3, 4)).await;
    calm();
    let error = outcome.unwrap_err();
    assert_eq!(error.code(), ErrorCode::StorageLost);
    assert_eq!(
        error.message(),
        "the connection to the database was lost; try again"
    );
    assert_eq!(again, CommitStatus::Applied(at(2, 1)));
}

#[test]
async fn a_newer_schema_is_refused_and_left_as_it_is() {
    let place = Named::new();
    assert_eq!(open_at(&place.0, 99).await.unwrap(), "99");
    let error = place.connect().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::StorageSchemaNewer);
    assert!(!is_unavailable(&error));
    assert_eq!(
        dump(&place.0, &JsValue::UNDEFINED).await.map_err(drop),
        Err(()),
        "it has no stores to read"
    );
    assert_eq!(open_at(&place.0, 99).await.unwrap(), "99");
}

#[test]
async fn another_tab_upgrades_and_both_settle() {
    let place = Named::new();
    let s = place.session("s").await;
    commit(&s, dispatch("s", "op-0")).await;
    assert_eq!(open_at(&place.0, 4).await.unwrap(), "4");
    let error = s.commit(Rc::new(append("s", "op-1", 1, 3, 4))).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::StorageSchemaNewer);
    assert_eq!(place.dump().await["messages"].len(), 3);
}

#[test]
async fn an_upgrade_lets_a_running_commit_finish() {
    let place = Named::new();
    let s = place.session("s").await;
    commit(&s, create("s", "op-0")).await;
    let running = s.commit(Rc::new(append("s", "op-1", 0, 0, 500)));
    let (status, version) = crate::make::both(running, open_at(&place.0, 4)).await;
    assert_eq!(status, Ok(CommitStatus::Applied(at(1, 0))));
    assert!(version.unwrap().as_string().unwrap().ends_with('4'));
    assert_eq!(place.dump().await["messages"].len(), 500);
}

#[test]
async fn another_tab_deletes_the_database_and_the_session_is_gone() {
    let place = Named::new();
    let s = place.session("s").await;
    commit(&s, dispatch("s", "op-0")).await;
    assert_eq!(remove(&place.0).await.unwrap(), "free");
    let error = s.commit(Rc::new(append("s", "op-1", 1, 3, 4))).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotFound);
    assert_eq!(s.load().await, Ok(None));
    assert_eq!(
        commit(&s, dispatch("s", "op-0")).await,
        CommitStatus::Applied(at(1, 1))
    );
}

#[test]
async fn a_dropped_storage_is_in_nobodys_way() {
    let place = Named::new();
    let storage = place.connect().await.unwrap();
    let s = storage.session("s");
    commit(&s, dispatch("s", "op-0")).await;
    drop((storage, s));
    assert_eq!(remove(&place.0).await.unwrap(), "free");
}

#[test]
async fn only_an_absent_or_forbidden_indexed_db_is_unavailable() {
    let place = Named::new();
    let refusals = [
        ("SecurityError", "access is denied for this document", true),
        ("InvalidStateError", "mutations are not allowed", true),
        (
            "UnknownError",
            "The user denied permission to access the database.",
            true,
        ),
        ("UnknownError", "Internal error", false),
        ("QuotaExceededError", "full", false),
    ];
    for (name, text, expected) in refusals {
        forbid(name, text);
        let outcome = place.connect().await;
        calm();
        let error = outcome.unwrap_err();
        assert_eq!(is_unavailable(&error), expected, "{name}: {text}");
        assert_eq!(error.data()["cause"], format!("{name}: {text}"));
    }

    hide();
    let outcome = place.connect().await;
    calm();
    let error = outcome.unwrap_err();
    assert!(is_unavailable(&error));
    assert_eq!(error.message(), "this environment has no IndexedDB");

    assert_eq!(exists(&place.0).await.unwrap(), false);
    assert!(place.connect().await.is_ok(), "a refusal is not remembered");
}
