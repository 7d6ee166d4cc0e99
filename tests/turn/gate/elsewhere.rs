//! What another page stores decides the very next call here, and what cannot be read opens nothing.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::rc::Rc;

use runcontext::{
    permissions::{Action, BypassScope, PermissionChange, Preset, Reason},
    runtime::Session,
    session::Outcome,
    storage::{SharedChange, Storage},
};
use serde_json::{Value, json};

use super::{call, context, gated, lab, outcome, page, reads, reason, session, turn_with, writes};
use crate::lab::{Fault, ID, Lab, refused};

/// Two pages on one storage, and the session of each.
fn pages(more: Value) -> [(Lab, Rc<Session<Value>>); 2] {
    let (here, _) = lab();
    let mine = session(&here, more);
    let (there, _) = page(here.storage.memory.clone());
    let theirs = there.open();
    [(here, mine), (there, theirs)]
}

#[test]
fn a_run_context_that_another_page_tightened_decides_the_very_next_call() {
    let [(here, mine), (there, theirs)] = pages(json!({ "runContext": { "allow_fs_writes": ["logs"] } }));
    let call = writes("logs/x");
    assert_eq!(outcome(&here, &mine, &call), Action::Allow);
    there.run(theirs.set_run_context(None)).unwrap();
    assert_eq!(outcome(&here, &mine, &call), Action::Require);
    assert_eq!(mine.machine().run_context(), None);
    there
        .run(theirs.set_run_context(context(json!({ "allow_fs_writes": ["logs"] }))))
        .unwrap();
    assert_eq!(outcome(&here, &mine, &call), Action::Allow);
    // In a turn as well.
    let turn = turn_with(&here, &mine, &call);
    there
        .run(theirs.set_run_context(context(json!({ "security_group": "nowhere" }))))
        .unwrap();
    let decision = here.run(turn.gate(&call)).unwrap().decision;
    assert_eq!(
        (decision.outcome, decision.reason),
        (Action::Require, Reason::GroupMissing)
    );
}

#[test]
fn a_preset_that_another_page_chose_decides_the_very_next_call() {
    let [(here, mine), (there, theirs)] = pages(json!({ "permissionPreset": "workspace-write" }));
    assert_eq!(outcome(&here, &mine, &writes("x")), Action::Allow);
    there.run(theirs.set_preset(Some(Preset::ReadOnly))).unwrap();
    assert_eq!(outcome(&here, &mine, &writes("x")), Action::Require);
    there
        .run(theirs.set_preset(Some(Preset::DangerFullAccess)))
        .unwrap();
    assert_eq!(outcome(&here, &mine, &writes("/far/x")), Action::Allow);
}

#[test]
fn what_another_page_loosened_loosens_nothing_until_the_turn_here_settles() {
    let [(here, mine), (there, theirs)] = pages(json!({ "permissionPreset": null }));
    let call = writes("logs/x");
    let turn = turn_with(&here, &mine, &call);
    there
        .run(theirs.set_run_context(context(json!({ "allow_fs_writes": ["logs"] }))))
        .unwrap();
    for _ in 0..2 {
        assert_eq!(
            here.run(turn.gate(&call)).unwrap().decision.outcome,
            Action::Require
        );
    }
    here.run(turn.finish(Outcome::Success, None)).unwrap();
    assert_eq!(outcome(&here, &mine, &call), Action::Allow);
}

#[test]
fn a_preset_that_another_page_loosened_loosens_nothing_until_the_turn_here_settles() {
    let [(here, mine), (there, theirs)] = pages(json!({ "permissionPreset": "read-only" }));
    let call = writes("x");
    let turn = turn_with(&here, &mine, &call);
    // The other page does not know of the turn here: it was opened before.
    there
        .run(theirs.set_preset(Some(Preset::DangerFullAccess)))
        .unwrap();
    assert_eq!(
        here.run(turn.gate(&call)).unwrap().decision.outcome,
        Action::Require
    );
    here.run(turn.finish(Outcome::Success, None)).unwrap();
    assert_eq!(outcome(&here, &mine, &call), Action::Allow);
}

#[test]
fn what_waits_here_to_be_saved_is_not_undone_by_what_another_page_stored() {
    let [(here, mine), (there, theirs)] = pages(json!({ "runContext": { "allow_fs_writes": ["logs"] } }));
    let call = writes("logs/x");
    here.storage.always(Some(Fault::Refuse));
    refused(here.run(mine.set_run_context(None)));
    there.run(theirs.set_title("theirs".to_owned())).unwrap();
    there
        .run(theirs.set_run_context(context(json!({ "allow_fs_writes": ["logs", "more"] }))))
        .unwrap();
    for call in [&call, &writes("more/x")] {
        assert_eq!(outcome(&here, &mine, call), Action::Require);
    }
    here.storage.always(None);
    here.run(mine.flush()).unwrap();
    // The last write wins, and both pages see it.
    assert_eq!(outcome(&here, &mine, &call), Action::Require);
    assert_eq!(outcome(&there, &theirs, &call), Action::Require);
    assert_eq!(theirs.machine().run_context(), None);
}

#[test]
fn two_pages_that_change_the_run_context_by_turns_agree_after_each_change() {
    let [(here, mine), (there, theirs)] = pages(json!({ "permissionPreset": null }));
    for number in 0..12 {
        let opens = number % 3 == 0;
        let new = context(json!({ "allow_fs_writes": [if opens { "logs" } else { "other" }] }));
        let expected = if opens { Action::Allow } else { Action::Require };
        match number % 2 {
            0 => here.run(mine.set_run_context(new)).unwrap(),
            _ => there.run(theirs.set_run_context(new)).unwrap(),
        }
        if number % 4 == 0 {
            here.run(mine.set_title(format!("title {number}"))).unwrap();
        }
        assert_eq!(outcome(&here, &mine, &writes("logs/x")), expected, "{number}");
        assert_eq!(outcome(&there, &theirs, &writes("logs/x")), expected, "{number}");
    }
}

#[test]
fn every_call_that_is_not_denied_asks_while_storage_cannot_be_read() {
    let [(here, mine), (there, theirs)] = pages(json!({ "permissionPreset": "danger-full-access" }));
    mine.bypass(BypassScope::All, None).unwrap();
    let calls = [
        reads("x"),
        writes("x"),
        writes("/ws/memory/x"),
        call("fetch", json!({})),
        call("add", json!({})),
        call("unknown", json!({})),
    ];
    here.storage.refuse_reads(true, false);
    for call in &calls {
        let decided = gated(&here, &mine, call);
        let found = (decided.decision.outcome, decided.decision.reason);
        assert_eq!(found, (Action::Require, Reason::PolicyUnverified), "{call:?}");
        let trace = json!(decided.trace()).to_string();
        assert!(trace.contains("the disk is on fire"), "{trace}");
    }
    assert_eq!(
        reason(&here, &mine, &reads("secrets/x")),
        (Action::Deny, Reason::LockedRule)
    );
    assert_eq!(
        reason(&here, &mine, &writes("x\0")),
        (Action::Deny, Reason::PathUnsafe)
    );
    here.storage.refuse_reads(false, false);
    for call in &calls {
        assert_eq!(outcome(&here, &mine, call), Action::Allow, "{call:?}");
    }
    // Something changed, but what cannot be read.
    there.run(theirs.set_title("theirs".to_owned())).unwrap();
    here.storage.refuse_reads(false, true);
    assert_eq!(
        reason(&here, &mine, &writes("x")),
        (Action::Require, Reason::PolicyUnverified)
    );
    here.storage.refuse_reads(false, false);
    assert_eq!(outcome(&here, &mine, &writes("x")), Action::Allow);
}

#[test]
fn every_call_that_is_not_denied_asks_while_a_rule_cannot_be_read() {
    let rule = |id: u32, more: Value| {
        let mut rule = json!({ "id": id, "tool_pattern": "read_file", "action": "deny", "priority": 1, "group_id": "default" });
        for (name, value) in more.as_object().unwrap() {
            rule[name] = value.clone();
        }
        rule
    };
    for damage in [
        ("approval_rules", "9", rule(9, json!({ "action": "perhaps" }))),
        ("approval_rules", "9", json!(null)),
        ("tool_permission_groups", "g", json!("g")),
    ] {
        let (here, _) = lab();
        let mine = session(&here, json!({ "permissionPreset": "danger-full-access" }));
        mine.bypass(BypassScope::All, None).unwrap();
        let (store, key, value) = damage;
        let write = |changes: Vec<(&'static str, &str, Option<Value>)>| {
            let changes = changes.into_iter().map(|(store, key, value)| SharedChange {
                store,
                key: key.to_owned(),
                value,
            });
            let shared = here.storage.memory.shared();
            here.run(shared.write(changes.collect(), None)).unwrap();
        };
        assert_eq!(outcome(&here, &mine, &writes("x")), Action::Allow);
        write(vec![
            (
                "approval_rules",
                "7",
                Some(rule(7, json!({ "tool_pattern": "copy" }))),
            ),
            (
                "approval_rules",
                "8",
                Some(rule(8, json!({ "path_pattern": "private/*" }))),
            ),
            (store, key, Some(value)),
        ]);
        // In this page, and in one that opens on it.
        let (there, _) = page(here.storage.memory.clone());
        let theirs = there.open();
        let visible = theirs.visible_tools();
        assert!(visible.iter().all(|tool| tool["name"] != "copy"), "{visible:?}");
        theirs.bypass(BypassScope::All, None).unwrap();
        for (lab, session) in [(&here, &mine), (&there, &theirs)] {
            for call in [
                reads("x"),
                writes("x"),
                writes("/ws/memory/x"),
                call("fetch", json!({})),
                call("add", json!({})),
                call("unknown", json!({})),
            ] {
                let decided = gated(lab, session, &call);
                let found = (decided.decision.outcome, decided.decision.reason);
                assert_eq!(found, (Action::Require, Reason::PolicyUnverified), "{call:?}");
                let trace = json!(decided.trace()).to_string();
                assert!(trace.contains(&format!("`{key}` cannot be read")), "{trace}");
            }
            // What can be read is in force.
            assert_eq!(
                reason(lab, session, &reads("private/x")),
                (Action::Deny, Reason::Rule)
            );
            assert_eq!(
                reason(lab, session, &reads("secrets/x")),
                (Action::Deny, Reason::LockedRule)
            );
        }
        let delete = match key.parse() {
            Ok(id) => PermissionChange::DeleteRule(id),
            Err(_) => PermissionChange::DeleteGroup(key.to_owned()),
        };
        there.run(there.runtime.permissions().change(&delete)).unwrap();
        for (lab, session) in [(&here, &mine), (&there, &theirs)] {
            assert_eq!(outcome(lab, session, &writes("x")), Action::Allow);
            assert_eq!(outcome(lab, session, &reads("private/x")), Action::Deny);
        }
    }
}

#[test]
fn every_call_asks_where_another_page_deleted_the_session_or_damaged_it() {
    let [(here, mine), (there, theirs)] = pages(json!({ "permissionPreset": "danger-full-access" }));
    assert_eq!(outcome(&here, &mine, &writes("x")), Action::Allow);
    theirs.dispose().unwrap();
    there.run(there.runtime.delete_session(ID)).unwrap();
    assert_eq!(
        reason(&here, &mine, &writes("x")),
        (Action::Require, Reason::PolicyUnverified)
    );
    assert_eq!(
        reason(&here, &mine, &call("add", json!({}))),
        (Action::Require, Reason::PolicyUnverified)
    );
}

#[test]
fn every_call_of_a_turn_asks_where_another_page_deleted_the_session_and_made_one_with_its_id_and_counters() {
    let full = json!({ "permissionPreset": "danger-full-access" });
    let [(here, mine), (there, theirs)] = pages(full.clone());
    let call = writes("x");
    let turn = turn_with(&here, &mine, &call);
    let counters = || here.stored()["chat_sessions"]["\"s1\""]["counters"].clone();
    let before = counters();
    theirs.dispose().unwrap();
    there.run(there.runtime.delete_session(ID)).unwrap();
    let again = session(&there, full);
    turn_with(&there, &again, &call);
    assert_eq!(counters(), before);
    let decision = here.run(turn.gate(&call)).unwrap().decision;
    assert_eq!(
        (decision.outcome, decision.reason),
        (Action::Require, Reason::PolicyUnverified)
    );
    assert_eq!(outcome(&there, &again, &call), Action::Allow);
}

#[test]
fn in_a_headless_session_what_cannot_be_verified_is_denied() {
    let [(here, mine), _] = pages(json!({ "permissionPreset": "danger-full-access", "headless": true }));
    assert_eq!(outcome(&here, &mine, &writes("x")), Action::Allow);
    here.storage.refuse_reads(true, false);
    assert_eq!(
        reason(&here, &mine, &writes("x")),
        (Action::Deny, Reason::Headless)
    );
}
