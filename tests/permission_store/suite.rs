//! What the store does in any kind of storage, written once.

use std::{cell::RefCell, rc::Rc};

use runcontext::{
    Error, ErrorCode,
    permissions::{Action, ApprovalRule, PermissionChange, PermissionGroup},
    runtime::{PermissionStore, Runtime, RuntimeEvent},
    storage::SharedChange,
};
use serde_json::{Value, json};

use crate::place::{Body, Named, Place, both};

/// Runs the whole suite on one place.
macro_rules! suite {
    ($place:ty) => {
        crate::suite::suite! { $place:
            a_new_database_has_the_group_default_with_its_first_rules
            two_runtimes_that_open_at_the_same_time_seed_once
            a_seeded_rule_that_was_deleted_stays_deleted
            a_rule_added_in_one_runtime_is_listed_and_in_force_in_the_other_at_once
            rules_are_read_and_compiled_again_only_where_somebody_changed_them
            an_id_is_never_given_twice
            rules_are_listed_in_the_order_in_which_they_are_looked_at
            only_the_members_that_are_given_change
            what_is_refused_changes_nothing
            rows_of_another_store_come_in_as_they_stand
            rows_that_are_refused_change_nothing
            what_is_built_in_is_listed_first_and_stays
            a_second_catch_all_with_another_action_is_refused
            groups_are_created_renamed_and_deleted_with_their_rules
            a_duplicate_has_the_same_rules_under_ids_of_its_own
            a_group_that_a_run_context_names_is_in_use
            a_rule_that_is_added_while_somebody_else_writes_gets_the_next_id
            a_row_that_somebody_else_removed_at_the_same_time_is_a_conflict
            groups_and_rules_are_read_as_they_were_at_one_time
            two_runtimes_that_add_side_by_side_lose_nothing
            what_cannot_be_read_is_an_error_and_not_an_empty_policy
            a_rule_that_cannot_be_read_is_listed_as_a_locked_question_until_it_is_deleted
            a_group_that_cannot_be_read_is_listed_and_can_be_deleted_or_named_anew
            the_number_of_the_next_rule_is_found_again_where_it_cannot_be_read
            a_runtime_tells_of_changes_here_and_elsewhere
            rows_are_there_for_every_runtime_until_they_are_deleted
            run_contexts_are_set_replaced_cleared_and_read
            a_row_without_an_id_gets_one_and_an_id_is_given_once
            a_row_that_is_refused_changes_nothing
            a_project_goes_with_its_tickets
            a_ticket_is_not_there_for_whoever_names_another_project
            runtimes_that_change_rows_side_by_side_lose_nothing_to_each_other
            a_ticket_of_a_project_that_is_deleted_at_the_same_time_is_refused
            a_group_that_is_named_while_it_is_deleted_is_in_use
            a_row_that_changes_makes_nobody_compile_rules_again
            a_row_that_cannot_be_read_is_left_out_and_told_until_it_is_repaired
            storage_that_fails_fails_the_change
        }
    };
    ($place:ty: $($name:ident)*) => {$(
        #[cfg(not(target_family = "wasm"))]
        #[test]
        fn $name() {
            pollster::block_on(crate::suite::$name::<$place>());
        }

        #[cfg(target_family = "wasm")]
        #[wasm_bindgen_test::wasm_bindgen_test]
        async fn $name() {
            crate::suite::$name::<$place>().await;
        }
    )*};
}
pub(crate) use suite;

pub use crate::work::*;

/// The first rules, as the design has them.
fn first_rules() -> Vec<(i64, String, Action, u32)> {
    [
        (1, "execute_cmd", Action::Require, 100),
        (2, "restart", Action::Require, 100),
        (3, "load_skill", Action::Allow, 100),
        (4, "*", Action::Require, 1000),
    ]
    .map(|(id, tool, action, priority)| (id, tool.to_owned(), action, priority))
    .to_vec()
}

/// The rules that are rows, in a few words.
async fn rows(store: &PermissionStore, group: &str) -> Vec<(i64, String, Action, u32)> {
    let rules = store.list_rules(Some(group)).await.unwrap();
    assert!(rules.iter().all(|rule| rule.id < 0 || rule.group_id == group));
    rules
        .into_iter()
        .filter(|rule| rule.id > 0)
        .map(|rule| (rule.id, rule.tool_pattern, rule.action, rule.priority))
        .collect()
}

async fn ids(store: &PermissionStore, group: Option<&str>) -> Vec<i64> {
    let rules = store.list_rules(group).await.unwrap();
    rules.iter().map(|rule| rule.id).collect()
}

async fn groups(store: &PermissionStore) -> Vec<String> {
    let groups = store.list_groups().await.unwrap();
    groups.into_iter().map(|group| group.id).collect()
}

async fn rule(store: &PermissionStore, id: i64) -> ApprovalRule {
    let rules = store.list_rules(None).await.unwrap();
    rules.into_iter().find(|rule| rule.id == id).unwrap()
}

async fn in_force(runtime: &Runtime<Body>) -> Vec<i64> {
    let policy = runtime.policy().await.unwrap();
    let mut ids: Vec<i64> = policy.rules().iter().map(|rule| rule.id).collect();
    ids.sort_unstable();
    ids
}

pub fn refused<T: std::fmt::Debug>(outcome: Result<T, Error>, code: ErrorCode) -> Error {
    let error = outcome.unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    let text = error.message();
    let first = text.chars().next().unwrap();
    assert!(first.is_lowercase() || first == '`', "{text}");
    assert!(!text.ends_with('.') && !text.contains("::"), "{text}");
    error
}

pub fn change(store: &'static str, key: &str, value: Option<Value>) -> SharedChange {
    SharedChange {
        store,
        key: key.to_owned(),
        value,
    }
}

fn allow(tool: &str) -> Value {
    json!({ "tool_pattern": tool, "action": "allow" })
}

pub async fn a_new_database_has_the_group_default_with_its_first_rules<P: Place>() {
    let place = P::empty();
    let (runtime, _) = place.open().await;
    let store = runtime.permissions();
    assert_eq!(rows(store, "default").await, first_rules());
    assert_eq!(groups(store).await, ["default"]);
    assert_eq!(in_force(&runtime).await, [1, 2, 3, 4]);
    let policy = runtime.policy().await.unwrap();
    assert!(policy.has_group("default", None) && !policy.has_group("other", None));
}

pub async fn two_runtimes_that_open_at_the_same_time_seed_once<P: Place>() {
    let place = P::empty();
    let ((one, around), (two, _)) = both(place.open(), place.open()).await;
    let (a, b) = both(one.policy(), rows(two.permissions(), "default")).await;
    assert_eq!(a.unwrap().rules().len(), 4);
    assert_eq!(b, first_rules());
    assert_eq!(rows(one.permissions(), "default").await, first_rules());
    // Every write counts, so that there was one.
    assert_eq!(around.inner.shared().policy_version().await, Ok(1));
}

pub async fn a_seeded_rule_that_was_deleted_stays_deleted<P: Place>() {
    let place = P::empty();
    let (runtime, _) = place.open().await;
    for id in 1..=4 {
        runtime.permissions().delete_rule(id).await.unwrap();
    }
    let (again, _) = place.open().await;
    assert_eq!(rows(again.permissions(), "default").await, []);
    assert_eq!(groups(again.permissions()).await, ["default"]);
}

pub async fn a_rule_added_in_one_runtime_is_listed_and_in_force_in_the_other_at_once<P: Place>() {
    let place = P::empty();
    let ((one, _), (two, _)) = (place.open().await, place.open().await);
    assert_eq!(in_force(&two).await, [1, 2, 3, 4]);
    let deny = json!({ "tool_pattern": "rm", "action": "deny", "priority": 0 });
    assert_eq!(one.permissions().add_rule(&deny).await, Ok(5));
    assert_eq!(in_force(&two).await, [1, 2, 3, 4, 5]);
    assert_eq!(ids(two.permissions(), None).await, [-1, 5, 1, 2, 3, 4]);
    two.permissions()
        .update_rule(5, &json!({ "priority": 2000 }))
        .await
        .unwrap();
    assert_eq!(ids(one.permissions(), None).await, [-1, 1, 2, 3, 4, 5]);
    let group = json!({ "id": "g", "name": "G" });
    one.permissions().create_group(&group).await.unwrap();
    assert!(two.policy().await.unwrap().has_group("g", None));
    two.permissions().delete_rule(5).await.unwrap();
    assert_eq!(in_force(&one).await, [1, 2, 3, 4]);
}

pub async fn rules_are_read_and_compiled_again_only_where_somebody_changed_them<P: Place>() {
    let place = P::empty();
    let ((one, around), (two, _)) = (place.open().await, place.open().await);
    let first = one.policy().await.unwrap();
    let lists = around.lists.get();
    for _ in 0..3 {
        assert!(Rc::ptr_eq(&first, &one.policy().await.unwrap()));
        one.permissions().list_rules(None).await.unwrap();
    }
    // What is written here is known without reading it.
    one.permissions().add_rule(&allow("a")).await.unwrap();
    assert_eq!(in_force(&one).await, [1, 2, 3, 4, 5]);
    assert_eq!(around.lists.get(), lists);
    assert_eq!(first.rules().len(), 4, "a policy stays what it is");
    let second = one.policy().await.unwrap();
    // Other stores are no part of a policy.
    let skill = vec![change("skills", "s", Some(json!(1)))];
    around.write(skill).await;
    assert!(Rc::ptr_eq(&second, &one.policy().await.unwrap()));
    two.permissions().add_rule(&allow("b")).await.unwrap();
    assert_eq!(in_force(&one).await, [1, 2, 3, 4, 5, 6]);
    assert_eq!(around.lists.get(), lists + 1);
}

pub async fn an_id_is_never_given_twice<P: Place>() {
    let place = P::empty();
    let (runtime, _) = place.open().await;
    let store = runtime.permissions();
    assert_eq!(store.add_rule(&allow("a")).await, Ok(5));
    store.delete_rule(5).await.unwrap();
    // Whatever id it brings.
    let mut named = allow("b");
    named["id"] = json!(5);
    assert_eq!(store.add_rule(&named).await, Ok(6));
    let to = json!({ "id": "copy", "name": "Copy" });
    store.duplicate_group("default", &to).await.unwrap();
    store.delete_group("copy").await.unwrap();
    store.delete_rule(6).await.unwrap();
    let (again, _) = place.open().await;
    // Four first rules and one of its own were copied: 7 to 11.
    assert_eq!(again.permissions().add_rule(&allow("c")).await, Ok(12));
    refused(store.delete_rule(6).await, ErrorCode::NotFound);
}

pub async fn rules_are_listed_in_the_order_in_which_they_are_looked_at<P: Place>() {
    let place = P::empty();
    let (runtime, _) = place.open().await;
    let store = runtime.permissions();
    for id in ["b", "a"] {
        let group = json!({ "id": id, "name": "n" });
        store.create_group(&group).await.unwrap();
    }
    let put = async |group: &str, priority: u32| {
        let rule = json!({ "tool_pattern": "t", "action": "deny", "priority": priority, "group_id": group });
        store.add_rule(&rule).await.unwrap()
    };
    let made = [
        put("b", 7).await,
        put("a", 9).await,
        put("b", 0).await,
        put("b", 7).await,
    ];
    assert_eq!(made, [5, 6, 7, 8]);
    assert_eq!(ids(store, Some("b")).await, [-1, 7, 5, 8]);
    assert_eq!(ids(store, Some("a")).await, [-1, 6]);
    assert_eq!(ids(store, None).await, [-1, 6, 7, 5, 8, 1, 2, 3, 4]);
    refused(store.list_rules(Some("c")).await, ErrorCode::NotFound);
    assert_eq!(groups(store).await, ["a", "b", "default"]);
}

pub async fn only_the_members_that_are_given_change<P: Place>() {
    let place = P::empty();
    let (runtime, _) = place.open().await;
    let store = runtime.permissions();
    let whole = json!({
        "agent_id": "a", "source": "tic", "tool_pattern": "write_*", "path_pattern": "logs/*",
        "action": "deny", "note": "not there", "priority": 3, "group_id": "default", "locked": true
    });
    assert_eq!(store.add_rule(&whole).await, Ok(5));
    let mut expected = ApprovalRule {
        agent_id: Some("a".to_owned()),
        source: Some("tic".to_owned()),
        path_pattern: Some("logs/*".to_owned()),
        note: Some("not there".to_owned()),
        priority: 3,
        locked: true,
        ..ApprovalRule::new(5, "write_*", Action::Deny)
    };
    assert_eq!(rule(store, 5).await, expected);
    store.update_rule(5, &json!({})).await.unwrap();
    assert_eq!(rule(store, 5).await, expected);
    let given = json!({ "id": 5, "note": null, "source": null, "action": "require" });
    store.update_rule(5, &given).await.unwrap();
    expected.note = None;
    expected.source = None;
    expected.action = Action::Require;
    assert_eq!(rule(store, 5).await, expected);
    store
        .create_group(&json!({ "id": "g", "name": "G" }))
        .await
        .unwrap();
    store.update_rule(5, &json!({ "group_id": "g" })).await.unwrap();
    expected.group_id = "g".to_owned();
    assert_eq!(rule(store, 5).await, expected);
    // Another runtime reads the same.
    let (again, _) = place.open().await;
    assert_eq!(rule(again.permissions(), 5).await, expected);
}

pub async fn rows_of_another_store_come_in_as_they_stand<P: Place>() {
    let place = P::empty();
    let (runtime, _) = place.open().await;
    let store = runtime.permissions();
    store
        .change(&PermissionChange::CreateGroup(
            json!({ "id": "kept", "name": "K" }),
        ))
        .await
        .unwrap();
    let mut own = allow("own");
    own["group_id"] = json!("kept");
    let own = store.change(&PermissionChange::AddRule(own)).await.unwrap();
    assert_eq!(own, Some(5));

    // As a dump of SQLite says it.
    let rows_of_dump = json!({
        "groups": [
            { "id": "default", "name": "Everybody", "description": null, "created_at": "2025-01-01 10:00:00" },
            { "id": "team", "name": "Team", "description": "Ours" },
        ],
        "rules": [
            { "id": 2, "agent_id": null, "source": "tic", "tool_pattern": "*", "path_pattern": null, "action": "deny",
              "note": null, "priority": 1000, "group_id": "default", "locked": 0 },
            { "id": 5, "tool_pattern": "read*", "path_pattern": "docs/*", "action": "allow", "priority": null, "group_id": "team" },
            { "id": 40, "tool_pattern": "run", "action": "deny", "priority": 3, "group_id": "kept", "locked": 1 },
            { "id": null, "tool_pattern": "look", "action": "allow", "group_id": null },
        ],
    });
    assert_eq!(
        store
            .change(&PermissionChange::Import(rows_of_dump))
            .await
            .unwrap(),
        None
    );
    let expected = [
        (
            "default",
            vec![(42, "look", Action::Allow, 100), (2, "*", Action::Deny, 1000)],
        ),
        (
            "kept",
            vec![(40, "run", Action::Deny, 3), (5, "own", Action::Allow, 100)],
        ),
        ("team", vec![(41, "read*", Action::Allow, 100)]),
    ];
    let (other, _) = place.open().await;
    for store in [store, other.permissions()] {
        assert_eq!(groups(store).await, ["default", "kept", "team"]);
        for (group, rules) in &expected {
            let found = rows(store, group).await;
            let found: Vec<_> = found
                .iter()
                .map(|(id, tool, action, at)| (*id, tool.as_str(), *action, *at))
                .collect();
            assert_eq!(found, *rules, "{group}");
        }
        assert!(rule(store, 40).await.locked && !rule(store, 2).await.locked);
        assert_eq!(rule(store, 2).await.source.as_deref(), Some("tic"));
        let found = store.list_groups().await.unwrap();
        assert_eq!(
            (found[0].name.as_str(), &found[0].description),
            ("Everybody", &None)
        );
    }
    assert_eq!(
        store
            .change(&PermissionChange::AddRule(allow("next")))
            .await
            .unwrap(),
        Some(43)
    );
}

pub async fn rows_that_are_refused_change_nothing<P: Place>() {
    let place = P::empty();
    let (runtime, around) = place.open().await;
    let store = runtime.permissions();
    store.list_groups().await.unwrap();
    let before = around.stored().await;
    let group = json!({ "id": "g", "name": "G" });
    let good = json!({ "tool_pattern": "a", "action": "allow", "group_id": "g" });
    for (rows, field) in [
        (json!(null), "rows"),
        (json!({ "groups": {} }), "rows.groups"),
        (json!({ "groups": [group, { "id": "h" }] }), "rows.groups[1].name"),
        (json!({ "groups": [group, group] }), "rows.groups[1].id"),
        (json!({ "groups": [group], "rules": [good, 7] }), "rows.rules[1]"),
        (
            json!({ "groups": [group], "rules": [good, { "tool_pattern": "b", "action": "ask" }] }),
            "rows.rules[1].action",
        ),
        (
            json!({ "rules": [{ "tool_pattern": "b", "action": "deny", "locked": 2 }] }),
            "rows.rules[0].locked",
        ),
        (
            json!({ "rules": [{ "tool_pattern": "b", "action": "allow", "locked": 1 }] }),
            "rows.rules[0].locked",
        ),
        (
            json!({ "rules": [
                { "id": 9, "tool_pattern": "b", "action": "deny" },
                { "id": 9, "tool_pattern": "c", "action": "deny" },
            ] }),
            "rows.rules[1].id",
        ),
    ] {
        let outcome = store.change(&PermissionChange::Import(rows.clone())).await;
        let error = refused(outcome, ErrorCode::InvalidArgument);
        assert_eq!(error.data()["field"], field, "{rows}");
    }
    let catch_all = json!({ "rules": [{ "tool_pattern": "*", "action": "allow" }] });
    let outcome = store.change(&PermissionChange::Import(catch_all)).await;
    refused(outcome, ErrorCode::RuleConflict);
    let nowhere = json!({ "rules": [good] });
    let outcome = store.change(&PermissionChange::Import(nowhere)).await;
    assert_eq!(refused(outcome, ErrorCode::NotFound).data()["group"], "g");
    assert_eq!(around.stored().await, before);
}

pub async fn what_is_refused_changes_nothing<P: Place>() {
    let place = P::empty();
    let (runtime, around) = place.open().await;
    let store = runtime.permissions();
    store
        .create_group(&json!({ "id": "g", "name": "G" }))
        .await
        .unwrap();
    let version = around.inner.shared().policy_version().await;
    let before = around.stored().await;

    for (wrong, field) in [
        (json!(null), "rule"),
        (json!([]), "rule"),
        (json!({}), "rule.action"),
        (json!({ "action": "allow" }), "rule.tool_pattern"),
    ] {
        let error = refused(store.add_rule(&wrong).await, ErrorCode::InvalidArgument);
        assert_eq!(error.data()["field"], field, "{wrong}");
    }
    for (name, wrong) in [
        ("tool_pattern", json!(5)),
        ("tool_pattern", json!(" ")),
        ("tool_pattern", json!("@")),
        ("tool_pattern", json!("@fs_all")),
        ("action", json!("ask")),
        ("action", json!(null)),
        ("action", json!(["allow"])),
        ("path_pattern", json!("")),
        ("path_pattern", json!(7)),
        ("path_pattern", json!("a/../b")),
        ("path_pattern", json!("a\u{0}")),
        ("priority", json!(-1)),
        ("priority", json!(1.5)),
        ("priority", json!("1")),
        ("priority", json!(1_000_001)),
        ("agent_id", json!(1)),
        ("source", json!({})),
        ("note", json!(false)),
        ("group_id", json!(1)),
        ("group_id", json!("")),
        ("locked", json!("yes")),
        ("locked", json!(true)),
        ("id", json!("5")),
        ("id", json!(-1)),
    ] {
        let mut whole = allow("t");
        whole[name] = wrong;
        // Rule 3 allows.
        let part = json!({ name: whole[name] });
        for outcome in [
            store.add_rule(&whole).await.map(drop),
            store.update_rule(3, &part).await,
        ] {
            let error = refused(outcome, ErrorCode::InvalidArgument);
            assert_eq!(error.data()["field"], format!("rule.{name}"), "{part}");
        }
    }
    let error = refused(
        store.update_rule(3, &json!({ "id": 4 })).await,
        ErrorCode::InvalidArgument,
    );
    assert_eq!(error.data()["field"], "rule.id");

    let named = |id: &str| json!({ "id": id, "name": "n" });
    let long = "x".repeat(129);
    for (wrong, field) in [
        (json!("g"), "group"),
        (json!({ "name": "n" }), "group.id"),
        (json!({ "id": 5, "name": "n" }), "group.id"),
        (named(""), "group.id"),
        (named("a b"), "group.id"),
        (named("ä"), "group.id"),
        (named("a/b"), "group.id"),
        (named(&long), "group.id"),
        (json!({ "id": "a" }), "group.name"),
        (json!({ "id": "a", "name": " \n" }), "group.name"),
        (
            json!({ "id": "a", "name": "n", "description": 5 }),
            "group.description",
        ),
    ] {
        let error = refused(store.create_group(&wrong).await, ErrorCode::InvalidArgument);
        assert_eq!(error.data()["field"], field, "{wrong}");
        let error = refused(
            store.duplicate_group("g", &wrong).await,
            ErrorCode::InvalidArgument,
        );
        assert_eq!(error.data()["field"], field.replace("group", "to"), "{wrong}");
    }
    let error = refused(
        store.update_group("g", &named("h")).await,
        ErrorCode::InvalidArgument,
    );
    assert_eq!(error.data()["field"], "group.id");
    let error = refused(
        store.update_group("g", &json!({})).await,
        ErrorCode::InvalidArgument,
    );
    assert_eq!(error.data()["field"], "group.name");

    for id in ["g", "default"] {
        refused(store.create_group(&named(id)).await, ErrorCode::Conflict);
        refused(
            store.duplicate_group("default", &named(id)).await,
            ErrorCode::Conflict,
        );
    }
    let mut lost = allow("t");
    lost["group_id"] = json!("nobody");
    let missing = [
        store.add_rule(&lost).await.map(drop),
        store.update_rule(3, &json!({ "group_id": "nobody" })).await,
        store.update_rule(99, &json!({})).await,
        store.delete_rule(99).await,
        store.delete_rule(0).await,
        store.update_group("nobody", &named("nobody")).await,
        store.delete_group("nobody").await,
        store.duplicate_group("nobody", &named("n")).await,
        store.lint(Some("nobody")).await.map(drop),
    ];
    for outcome in missing {
        refused(outcome, ErrorCode::NotFound);
    }
    assert_eq!(around.stored().await, before);
    assert_eq!(around.inner.shared().policy_version().await, version);
    // The longest and the smallest that is right.
    store.create_group(&named(&"x".repeat(128))).await.unwrap();
    let last = json!({ "tool_pattern": "t", "action": "deny", "locked": true, "priority": 1_000_000 });
    store.add_rule(&last).await.unwrap();
}

pub async fn what_is_built_in_is_listed_first_and_stays<P: Place>() {
    let place = P::empty();
    let (runtime, around) = place.open().await;
    let store = runtime.permissions();
    let rules = store.list_rules(None).await.unwrap();
    let before = around.stored().await;
    assert_eq!(rules[0].id, -1);
    assert_eq!((rules[0].action, rules[0].locked), (Action::Deny, true));
    assert!(rules[0].note.as_ref().unwrap().contains("`secrets`"));
    for outcome in [
        store.delete_rule(-1).await,
        store.update_rule(-1, &json!({ "action": "allow" })).await,
        store.delete_rule(-7).await,
        store.delete_group("default").await,
    ] {
        refused(outcome, ErrorCode::GroupProtected);
    }
    assert_eq!(around.stored().await, before);
    // `default` may have another name.
    let renamed = json!({ "name": "For all" });
    store.update_group("default", &renamed).await.unwrap();
    let groups = store.list_groups().await.unwrap();
    let expected = PermissionGroup {
        id: "default".to_owned(),
        name: "For all".to_owned(),
        description: None,
    };
    assert_eq!(groups, [expected]);
}

pub async fn a_second_catch_all_with_another_action_is_refused<P: Place>() {
    let place = P::empty();
    let (runtime, around) = place.open().await;
    let store = runtime.permissions();
    let before = around.stored().await;
    // The first rules have one that requires.
    let error = refused(store.add_rule(&allow("*")).await, ErrorCode::RuleConflict);
    assert_eq!(error.data()["rule"], 4);
    let widened = json!({ "tool_pattern": "*" });
    refused(store.update_rule(3, &widened).await, ErrorCode::RuleConflict);
    assert_eq!(around.stored().await, before);
    // The same once more, for fewer calls, or elsewhere, is no conflict.
    store
        .create_group(&json!({ "id": "g", "name": "G" }))
        .await
        .unwrap();
    for more in [
        json!({ "action": "require" }),
        json!({ "path_pattern": "docs/*" }),
        json!({ "agent_id": "a" }),
        json!({ "source": "tic" }),
        json!({ "group_id": "g" }),
    ] {
        let mut given = allow("*");
        for (name, value) in more.as_object().unwrap() {
            given[name] = value.clone();
        }
        store.add_rule(&given).await.unwrap();
    }
    let moved = json!({ "group_id": "g" });
    refused(store.update_rule(4, &moved).await, ErrorCode::RuleConflict);
    // A rule is no conflict with itself.
    let same = json!({ "action": "require", "note": "still" });
    store.update_rule(4, &same).await.unwrap();
    store.delete_rule(5).await.unwrap();
    store.update_rule(4, &json!({ "action": "deny" })).await.unwrap();
}

pub async fn groups_are_created_renamed_and_deleted_with_their_rules<P: Place>() {
    let place = P::empty();
    let (runtime, around) = place.open().await;
    let store = runtime.permissions();
    let group = |name: &str, description: Option<&str>| PermissionGroup {
        id: "g".to_owned(),
        name: name.to_owned(),
        description: description.map(str::to_owned),
    };
    let given = json!({ "id": "g", "name": "G", "description": "d" });
    store.create_group(&given).await.unwrap();
    assert_eq!(store.list_groups().await.unwrap()[1], group("G", Some("d")));
    let given = json!({ "id": "g", "name": "H" });
    store.update_group("g", &given).await.unwrap();
    assert_eq!(store.list_groups().await.unwrap()[1], group("H", None));
    let before = around.stored().await;
    for tool in ["a", "b"] {
        let mut rule = allow(tool);
        rule["group_id"] = json!("g");
        store.add_rule(&rule).await.unwrap();
    }
    assert_eq!(ids(store, Some("g")).await, [-1, 5, 6]);
    store.delete_group("g").await.unwrap();
    refused(store.list_rules(Some("g")).await, ErrorCode::NotFound);
    assert_eq!(ids(store, None).await, [-1, 1, 2, 3, 4]);
    assert!(!runtime.policy().await.unwrap().has_group("g", None));
    // A new one with the same id is empty.
    store.create_group(&given).await.unwrap();
    assert_eq!(ids(store, Some("g")).await, [-1]);
    // All is as before, but for the number of the next rule.
    let rules = |stored: Vec<Vec<(String, Value)>>| -> Vec<_> {
        let all = stored.into_iter().flatten();
        all.filter(|(key, _)| key != "next").collect()
    };
    assert_eq!(rules(around.stored().await), rules(before));
}

pub async fn a_duplicate_has_the_same_rules_under_ids_of_its_own<P: Place>() {
    let place = P::empty();
    let (runtime, _) = place.open().await;
    let store = runtime.permissions();
    let given = json!({ "id": "one", "name": "One", "description": "d" });
    store.create_group(&given).await.unwrap();
    for (tool, priority) in [("late", 9), ("early", 1)] {
        let rule = json!({
            "tool_pattern": tool, "action": "deny", "priority": priority, "group_id": "one",
            "path_pattern": "a/*", "locked": true, "note": "n", "agent_id": "a", "source": "s"
        });
        store.add_rule(&rule).await.unwrap();
    }
    let to = json!({ "id": "two", "name": "Two" });
    store.duplicate_group("one", &to).await.unwrap();
    let copied = store.list_groups().await.unwrap().pop().unwrap();
    assert_eq!(
        (
            copied.id.as_str(),
            copied.name.as_str(),
            copied.description.as_deref()
        ),
        ("two", "Two", Some("d"))
    );
    assert_eq!(ids(store, Some("two")).await, [-1, 7, 8]);
    for (copy, original) in [(7, 6), (8, 5)] {
        let mut expected = rule(store, original).await;
        expected.id = copy;
        expected.group_id = "two".to_owned();
        assert_eq!(rule(store, copy).await, expected);
    }
    // They are two from then on.
    store.update_rule(7, &json!({ "note": "other" })).await.unwrap();
    assert_eq!(rule(store, 6).await.note.as_deref(), Some("n"));
}

pub async fn a_group_that_a_run_context_names_is_in_use<P: Place>() {
    let place = P::empty();
    let (runtime, around) = place.open().await;
    let store = runtime.permissions();
    store
        .create_group(&json!({ "id": "g", "name": "G" }))
        .await
        .unwrap();
    let users = [
        ("projects", "p"),
        ("project_tickets", "t"),
        ("scheduled_jobs", "j"),
    ];
    for (user, key) in users {
        let record = json!({ "name": "n", "run_context": { "security_group": "g" } });
        around.write(vec![change(user, key, Some(record))]).await;
        let before = around.stored().await;
        let error = refused(store.delete_group("g").await, ErrorCode::GroupInUse);
        assert_eq!(error.data()["usedBy"], json!([format!("{user}/{key}")]));
        assert_eq!(around.stored().await, before);
        around.write(vec![change(user, key, None)]).await;
    }
    // What names another group, or none, or is no run context, does not hold it.
    for (at, other) in [
        json!({ "run_context": { "security_group": "G" } }),
        json!({ "run_context": { "security_group": null } }),
        json!({ "run_context": null, "security_group": "g" }),
        json!("g"),
    ]
    .into_iter()
    .enumerate()
    {
        around
            .write(vec![change("projects", &at.to_string(), Some(other))])
            .await;
    }
    store.delete_group("g").await.unwrap();
}

pub async fn a_rule_that_is_added_while_somebody_else_writes_gets_the_next_id<P: Place>() {
    let place = P::empty();
    let ((one, around), (two, _)) = (place.open().await, place.open().await);
    one.policy().await.unwrap();
    let row = |id: i64, tool: &str| json!({ "id": id, "tool_pattern": tool, "action": "deny", "priority": 1, "group_id": "default" });
    around.before_write(vec![change("approval_rules", "6", Some(row(6, "second")))]);
    around.before_write(vec![change("approval_rules", "5", Some(row(5, "first")))]);
    assert_eq!(one.permissions().add_rule(&allow("mine")).await, Ok(7));
    assert_eq!(ids(two.permissions(), None).await, [-1, 5, 6, 1, 2, 3, 7, 4]);
    assert_eq!(rule(two.permissions(), 7).await.tool_pattern, "mine");
    assert_eq!(in_force(&one).await, [1, 2, 3, 4, 5, 6, 7]);
    // What somebody else wrote meanwhile is looked at: now there is a catch-all.
    one.permissions().delete_rule(4).await.unwrap();
    around.before_write(vec![change("approval_rules", "8", Some(row(8, "*")))]);
    refused(
        one.permissions().add_rule(&allow("*")).await,
        ErrorCode::RuleConflict,
    );
}

pub async fn a_row_that_somebody_else_removed_at_the_same_time_is_a_conflict<P: Place>() {
    let place = P::empty();
    let (runtime, around) = place.open().await;
    let store = runtime.permissions();
    store
        .create_group(&json!({ "id": "g", "name": "G" }))
        .await
        .unwrap();
    for id in [1, 2] {
        around.before_write(vec![change("approval_rules", &id.to_string(), None)]);
        let outcome = match id {
            1 => store.update_rule(id, &json!({ "priority": 5 })).await,
            _ => store.delete_rule(id).await,
        };
        let error = refused(outcome, ErrorCode::Conflict);
        assert_eq!(error.data()["rule"], id);
    }
    let gone = || vec![change("tool_permission_groups", "g", None)];
    around.before_write(gone());
    let mut rule = allow("t");
    rule["group_id"] = json!("g");
    let error = refused(store.add_rule(&rule).await, ErrorCode::Conflict);
    assert_eq!(error.data()["group"], "g");
    assert_eq!(ids(store, None).await, [-1, 3, 4]);
    // A row that was only changed is changed once more.
    let row =
        json!({ "id": 3, "tool_pattern": "theirs", "action": "deny", "priority": 1, "group_id": "default" });
    around.before_write(vec![change("approval_rules", "3", Some(row))]);
    store.update_rule(3, &json!({ "note": "ours" })).await.unwrap();
    let rule = self::rule(store, 3).await;
    assert_eq!(
        (rule.tool_pattern.as_str(), rule.note.as_deref()),
        ("theirs", Some("ours"))
    );
}

pub async fn groups_and_rules_are_read_as_they_were_at_one_time<P: Place>() {
    let place = P::empty();
    let ((one, _), (two, around)) = (place.open().await, place.open().await);
    let group = json!({ "id": "g", "name": "G" });
    one.permissions().create_group(&group).await.unwrap();
    let deny = json!({ "tool_pattern": "*", "action": "deny", "group_id": "g" });
    one.permissions().add_rule(&deny).await.unwrap();
    // Without its rule the group would leave everything to `default`.
    let gone = vec![
        change("tool_permission_groups", "g", None),
        change("approval_rules", "5", None),
    ];
    around.before_rules.replace(gone);
    let policy = two.policy().await.unwrap();
    assert!(!policy.has_group("g", None));
    assert_eq!(policy.rules().len(), 4);
}

pub async fn two_runtimes_that_add_side_by_side_lose_nothing<P: Place>() {
    let place = P::empty();
    let ((one, _), (two, around)) = (place.open().await, place.open().await);
    let add = async |runtime: &Runtime<Body>, count: usize| {
        let mut given = Vec::new();
        for _ in 0..count {
            let store = runtime.permissions();
            let (a, b) = both(store.add_rule(&ALIKE), store.add_rule(&ALIKE)).await;
            given.extend([a.unwrap(), b.unwrap()]);
        }
        given
    };
    let (mut given, others) = both(add(&one, 8), add(&two, 8)).await;
    given.extend(others);
    given.sort_unstable();
    assert_eq!(given, (5..37).collect::<Vec<i64>>());
    let listed = ids(one.permissions(), None).await;
    assert_eq!(listed.len(), 1 + 4 + 32);
    assert_eq!(listed, ids(two.permissions(), None).await);
    assert_eq!(in_force(&one).await, in_force(&two).await);
    assert_eq!(around.inner.shared().policy_version().await, Ok(33));
}

/// The same rule as often as somebody wants it.
static ALIKE: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| allow("alike"));

pub async fn what_cannot_be_read_is_an_error_and_not_an_empty_policy<P: Place>() {
    let place = P::empty();
    let (runtime, around) = place.open().await;
    let store = runtime.permissions();
    runtime.policy().await.unwrap();
    around.broken.set(true);
    let codes = [
        runtime.policy().await.map(drop),
        store.list_rules(None).await.map(drop),
        store.list_groups().await.map(drop),
        store.lint(None).await.map(drop),
        store.add_rule(&allow("t")).await.map(drop),
        store.delete_group("default").await,
    ];
    for outcome in codes {
        refused(outcome, ErrorCode::StorageLost);
    }
    around.broken.set(false);
    runtime.policy().await.unwrap();

    let whole =
        json!({ "id": 9, "tool_pattern": "t", "action": "deny", "priority": 1, "group_id": "default" });
    let with = |name: &str, value: Value| {
        let mut row = whole.clone();
        row[name] = value;
        row
    };
    for (key, row, store) in [
        ("9", with("action", json!("ask")), "approval_rules"),
        ("9", with("locked", json!(1)), "approval_rules"),
        ("9", with("id", json!(8)), "approval_rules"),
        ("x", whole.clone(), "approval_rules"),
        ("9", json!(null), "approval_rules"),
        ("next", json!("9"), "approval_rules"),
        ("g", json!({ "id": "g" }), "tool_permission_groups"),
        ("g", json!({ "id": "h", "name": "n" }), "tool_permission_groups"),
    ] {
        let before = around.inner.shared().list(store).await.unwrap();
        let found = before.into_iter().find(|(other, _)| other == key);
        around.write(vec![change(store, key, Some(row))]).await;
        let error = refused(runtime.policy().await, ErrorCode::StorageFailed);
        assert_eq!(error.data()["id"], key);
        around
            .write(vec![change(store, key, found.map(|(_, value)| value))])
            .await;
        runtime.policy().await.unwrap();
    }
    runtime.close().unwrap();
    refused(runtime.policy().await, ErrorCode::Disposed);
    refused(store.add_rule(&allow("t")).await, ErrorCode::Disposed);
}

pub async fn a_rule_that_cannot_be_read_is_listed_as_a_locked_question_until_it_is_deleted<P: Place>() {
    let place = P::empty();
    let (runtime, around) = place.open().await;
    let store = runtime.permissions();
    store
        .create_group(&json!({ "id": "g", "name": "G" }))
        .await
        .unwrap();
    let damaged = json!({ "id": 9, "tool_pattern": "t", "action": "perhaps", "group_id": "g" });
    let also = json!(null);
    around
        .write(vec![
            change("approval_rules", "9", Some(damaged)),
            change("approval_rules", "7", Some(also)),
        ])
        .await;
    // Here, and where it was never otherwise.
    let (other, _) = place.open().await;
    for store in [store, other.permissions()] {
        assert_eq!(ids(store, None).await, [-1, 7, 9, 1, 2, 3, 4]);
        assert_eq!(ids(store, Some("g")).await, [-1, 7, 9]);
        let listed = rule(store, 9).await;
        let what = (listed.tool_pattern.as_str(), listed.action, listed.locked);
        assert_eq!(what, ("*", Action::Require, true));
        assert_eq!((listed.priority, listed.path_pattern), (0, None));
        let note = listed.note.unwrap();
        assert!(
            note.starts_with("the stored rule `9` cannot be read, delete it: "),
            "{note}"
        );
        refused(store.lint(None).await, ErrorCode::StorageFailed);
    }
    // All else can be changed meanwhile; what would be a copy without it cannot.
    assert_eq!(store.add_rule(&allow("a")).await.unwrap(), 10);
    store.update_rule(10, &json!({ "priority": 5 })).await.unwrap();
    store
        .create_group(&json!({ "id": "h", "name": "H" }))
        .await
        .unwrap();
    let copy = json!({ "id": "copy", "name": "Copy" });
    let error = refused(store.duplicate_group("g", &copy).await, ErrorCode::StorageFailed);
    assert_eq!(error.data()["id"], "7");
    let error = refused(
        store.update_rule(9, &json!({ "action": "deny" })).await,
        ErrorCode::StorageFailed,
    );
    assert_eq!(error.data()["id"], "9");
    refused(runtime.policy().await, ErrorCode::StorageFailed);

    store.delete_rule(7).await.unwrap();
    let error = refused(runtime.policy().await, ErrorCode::StorageFailed);
    assert_eq!(error.data()["id"], "9");
    store.delete_rule(9).await.unwrap();
    refused(store.delete_rule(9).await, ErrorCode::NotFound);
    for runtime in [&runtime, &other] {
        assert_eq!(in_force(runtime).await, [1, 2, 3, 4, 10]);
    }
    store.duplicate_group("g", &copy).await.unwrap();
}

pub async fn a_group_that_cannot_be_read_is_listed_and_can_be_deleted_or_named_anew<P: Place>() {
    let place = P::empty();
    let (runtime, around) = place.open().await;
    let store = runtime.permissions();
    for (id, tool) in [("g", "a"), ("h", "b")] {
        store
            .create_group(&json!({ "id": id, "name": id }))
            .await
            .unwrap();
        let rule = json!({ "tool_pattern": tool, "action": "allow", "group_id": id });
        store.add_rule(&rule).await.unwrap();
    }
    for id in ["default", "g", "h"] {
        let damage = vec![change(
            "tool_permission_groups",
            id,
            Some(json!({ "id": id, "name": 5 })),
        )];
        around.write(damage).await;
    }
    let (other, _) = place.open().await;
    for store in [store, other.permissions()] {
        let listed = store.list_groups().await.unwrap();
        let names: Vec<_> = listed
            .iter()
            .map(|it| (it.id.as_str(), it.name.as_str()))
            .collect();
        assert_eq!(names, [("default", "default"), ("g", "g"), ("h", "h")]);
        for group in &listed {
            let why = group.description.as_deref().unwrap();
            let expected = format!(
                "the stored group `{}` cannot be read, change or delete it: ",
                group.id
            );
            assert!(why.starts_with(&expected), "{why}");
        }
    }
    let error = refused(runtime.policy().await, ErrorCode::StorageFailed);
    assert_eq!(error.data()["id"], "default");
    refused(store.delete_group("default").await, ErrorCode::GroupProtected);
    store
        .update_group("default", &json!({ "name": "Default" }))
        .await
        .unwrap();
    store.update_group("g", &json!({ "name": "G" })).await.unwrap();
    store.delete_group("h").await.unwrap();
    // Nothing was seeded again, and the rules of the group that was deleted went with it.
    for runtime in [&runtime, &other] {
        assert_eq!(in_force(runtime).await, [1, 2, 3, 4, 5]);
    }
    let named = PermissionGroup {
        id: "g".to_owned(),
        name: "G".to_owned(),
        description: None,
    };
    assert_eq!(store.list_groups().await.unwrap()[1], named);
}

pub async fn the_number_of_the_next_rule_is_found_again_where_it_cannot_be_read<P: Place>() {
    let place = P::empty();
    let (runtime, around) = place.open().await;
    let store = runtime.permissions();
    around
        .write(vec![change("approval_rules", "next", Some(json!("many")))])
        .await;
    let error = refused(runtime.policy().await, ErrorCode::StorageFailed);
    assert_eq!(error.data()["id"], "next");
    // Any change of the rules repairs it.
    store.delete_rule(3).await.unwrap();
    assert_eq!(in_force(&runtime).await, [1, 2, 4]);
    assert_eq!(store.add_rule(&allow("t")).await.unwrap(), 5);
    let (other, _) = place.open().await;
    assert_eq!(in_force(&other).await, [1, 2, 4, 5]);
}

pub async fn a_runtime_tells_of_changes_here_and_elsewhere<P: Place>() {
    let place = P::empty();
    let ((one, _), (two, _)) = (place.open().await, place.open().await);
    let told = Rc::new(RefCell::new(0));
    let tell = told.clone();
    two.subscribe(Rc::new(move |event: &RuntimeEvent| {
        assert_eq!(*event, RuntimeEvent::PermissionsChanged);
        *tell.borrow_mut() += 1;
        Ok(())
    }));
    two.policy().await.unwrap();
    assert_eq!(*told.borrow(), 0, "the first look changes nothing");
    two.permissions().add_rule(&allow("a")).await.unwrap();
    assert_eq!(*told.borrow(), 1);
    one.permissions().add_rule(&allow("b")).await.unwrap();
    assert_eq!(*told.borrow(), 1);
    two.policy().await.unwrap();
    two.policy().await.unwrap();
    assert_eq!(*told.borrow(), 2);
    refused(two.permissions().delete_rule(99).await, ErrorCode::NotFound);
    assert_eq!(*told.borrow(), 2);
}
