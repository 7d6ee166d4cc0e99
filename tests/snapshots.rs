//! Stored snapshots: what is read and what is refused.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

use runcontext::ErrorCode;
use runcontext::context::{Placement, RuntimeContextSnapshot};
use serde_json::{Value, json};

fn good() -> Value {
    json!({
        "userTurn": 2, "content": "<skill>", "timestamp": 1767225600000_u64, "placement": "user",
        "skills": [{"id": "project:/a", "name": "a", "path": "/a", "content": "file", "revision": "00ff", "description": "d"}]
    })
}

/// The good snapshot with one member changed; `null` as a value takes it out.
fn with(pointer: &str, value: Value) -> Value {
    let mut snapshot = good();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = snapshot.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        parent.remove(key);
    } else {
        parent.insert(key.to_owned(), value);
    }
    snapshot
}

#[test]
fn a_snapshot_is_read_and_written_as_it_is() {
    let snapshot = RuntimeContextSnapshot::parse(&good()).unwrap();
    assert_eq!(snapshot.user_turn, 2);
    assert_eq!(snapshot.timestamp, 1_767_225_600_000.0);
    assert_eq!(snapshot.placement, Some(Placement::User));
    assert_eq!(snapshot.skills.as_ref().unwrap()[0].revision, "00ff");
    assert_eq!(json!(snapshot), good());
    let round: RuntimeContextSnapshot = serde_json::from_value(json!(snapshot)).unwrap();
    assert_eq!(round, snapshot);
}

#[test]
fn an_older_snapshot_needs_neither_skills_nor_placement() {
    let old = json!({"userTurn": 0, "content": "x", "timestamp": 0});
    let snapshot = RuntimeContextSnapshot::parse(&old).unwrap();
    assert_eq!((&snapshot.skills, snapshot.placement), (&None, None));
    assert_eq!(json!(snapshot), old);
    let nulls =
        json!({"userTurn": 0, "content": "x", "timestamp": 0, "skills": null, "placement": null, "other": 1});
    assert_eq!(RuntimeContextSnapshot::parse(&nulls).unwrap(), snapshot);
}

#[test]
fn integers_may_be_written_with_a_fraction_of_zero() {
    let text = r#"[{"userTurn": 1.0, "content": "x", "timestamp": 5.0}]"#;
    let list = RuntimeContextSnapshot::parse_list(&serde_json::from_str(text).unwrap()).unwrap();
    assert_eq!((list[0].user_turn, list[0].timestamp), (1, 5.0));
    let zero = r#"{"userTurn": -0.0, "content": "x", "timestamp": -0.0}"#;
    let zero = RuntimeContextSnapshot::parse(&serde_json::from_str(zero).unwrap()).unwrap();
    assert_eq!(
        json!(zero),
        json!({"userTurn": 0, "content": "x", "timestamp": 0})
    );
    assert!(zero.timestamp.is_sign_positive());
}

#[test]
fn malformed_snapshots_are_refused_and_the_field_is_named() {
    let cases = [
        ("/userTurn", json!(null), "userTurn"),
        ("/userTurn", json!(-1), "userTurn"),
        ("/userTurn", json!(1.5), "userTurn"),
        ("/userTurn", json!("1"), "userTurn"),
        ("/userTurn", json!(4_294_967_296_u64), "userTurn"),
        ("/content", json!(null), "content"),
        ("/content", json!(""), "content"),
        ("/content", json!(" \n\t"), "content"),
        ("/content", json!(["x"]), "content"),
        ("/timestamp", json!(null), "timestamp"),
        ("/timestamp", json!(-1), "timestamp"),
        ("/timestamp", json!(0.5), "timestamp"),
        ("/timestamp", json!(1e300), "timestamp"),
        ("/timestamp", json!("2026-01-01"), "timestamp"),
        ("/placement", json!("system"), "placement"),
        ("/placement", json!(1), "placement"),
        ("/skills", json!({}), "skills"),
        ("/skills", json!(["a"]), "skills[0]"),
        ("/skills/0/id", json!(null), "skills[0].id"),
        ("/skills/0/name", json!(7), "skills[0].name"),
        ("/skills/0/path", json!(null), "skills[0].path"),
        ("/skills/0/content", json!(null), "skills[0].content"),
        ("/skills/0/revision", json!({}), "skills[0].revision"),
        ("/skills/0/description", json!(1), "skills[0].description"),
    ];
    for (pointer, value, field) in cases {
        let changed = with(pointer, value.clone());
        let error = RuntimeContextSnapshot::parse_list(&json!([good(), changed])).expect_err(pointer);
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        let path = format!("snapshots[1].{field}");
        assert_eq!(error.data()["field"], path.as_str(), "{pointer} {value}");
        assert!(error.message().starts_with(&format!("`{path}` must ")), "{error}");
    }
    for not_a_list in [json!({}), json!("x"), json!(null)] {
        assert_eq!(
            RuntimeContextSnapshot::parse_list(&not_a_list)
                .unwrap_err()
                .data()["field"],
            "snapshots"
        );
    }
    let error = RuntimeContextSnapshot::parse_list(&json!([good(), 1])).unwrap_err();
    assert_eq!(error.message(), "`snapshots[1]` must be an object");
}
