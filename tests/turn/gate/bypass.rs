//! Bypasses: a person's choice not to be asked, for a while and for this page.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use runcontext::{
    ErrorCode,
    permissions::{Action, BypassScope, Reason},
    runtime::Session,
};
use serde_json::{Value, json};

use super::{call, lab, outcome, page, reason, session, turn_with, writes};
use crate::lab::{Lab, refused};

fn all() -> BypassScope {
    BypassScope::All
}

fn allowed(lab: &Lab, session: &Session<Value>) -> bool {
    outcome(lab, session, &writes("/far/x")) == Action::Allow
}

/// A session in which that needs a person.
fn read_only() -> (Lab, std::rc::Rc<Session<Value>>) {
    let (lab, _) = lab();
    let session = session(&lab, json!({ "permissionPreset": "read-only" }));
    assert!(!allowed(&lab, &session));
    (lab, session)
}

#[test]
fn a_bypass_lasts_so_many_seconds_and_not_a_millisecond_longer() {
    for monotonic in [None, Some(500.0)] {
        let (lab, session) = read_only();
        lab.world.monotonic_at(monotonic);
        session.bypass(all(), Some(90.0)).unwrap();
        let later = |milliseconds: f64| {
            lab.world.at(1_000.0 + milliseconds);
            lab.world.monotonic_at(monotonic.map(|from| from + milliseconds));
            reason(&lab, &session, &writes("/far/x"))
        };
        for (milliseconds, expected) in [
            (0.0, true),
            (1.0, true),
            (89_999.0, true),
            (90_000.0, false),
            (90_001.0, false),
            (1e9, false),
        ] {
            let expected = if expected {
                (Action::Allow, Reason::Bypass)
            } else {
                (Action::Require, Reason::Rule)
            };
            assert_eq!(later(milliseconds), expected, "{milliseconds}");
        }
    }
}

#[test]
fn a_part_of_a_second_counts() {
    let (lab, session) = read_only();
    session.bypass(all(), Some(0.25)).unwrap();
    lab.world.at(1_249.0);
    assert!(allowed(&lab, &session));
    lab.world.at(1_250.0);
    assert!(!allowed(&lab, &session));
}

#[test]
fn a_clock_that_is_set_makes_no_bypass_longer() {
    let (lab, session) = read_only();
    lab.world.at(1_000_000.0);
    lab.world.monotonic_at(Some(5.0));
    session.bypass(all(), Some(60.0)).unwrap();
    // Set back by an hour: the time that passed counts.
    lab.world.at(1_000_000.0 - 3_600_000.0);
    lab.world.monotonic_at(Some(60_004.0));
    assert!(allowed(&lab, &session));
    lab.world.monotonic_at(Some(60_005.0));
    assert!(!allowed(&lab, &session));
    // Set forward, or a page that slept: by the calendar it is over.
    lab.world.monotonic_at(Some(6.0));
    lab.world.at(1_060_000.0);
    assert!(!allowed(&lab, &session));
}

#[test]
fn where_the_clock_that_nobody_can_set_is_gone_the_calendar_decides() {
    let (lab, session) = read_only();
    lab.world.monotonic_at(Some(5.0));
    session.bypass(all(), Some(60.0)).unwrap();
    lab.world.monotonic_at(None);
    assert!(allowed(&lab, &session));
    lab.world.at(61_000.0);
    assert!(!allowed(&lab, &session));
    // A calendar that shows no time shows none before the end.
    for odd in [f64::NAN, f64::INFINITY] {
        lab.world.at(odd);
        assert!(!allowed(&lab, &session), "{odd}");
    }
}

#[test]
fn a_bypass_without_an_end_lasts_until_the_page_restarts_and_is_never_stored() {
    let (lab, session) = read_only();
    let before = lab.stored();
    session.bypass(all(), None).unwrap();
    session
        .bypass(BypassScope::Category("files".to_owned()), Some(1e6))
        .unwrap();
    lab.world.at(1e12);
    assert!(allowed(&lab, &session));
    assert_eq!(lab.stored(), before);
    lab.run(session.set_title("t".to_owned())).unwrap();
    let text = format!("{:?}", lab.stored());
    assert!(
        !text.to_lowercase().contains("bypass") && !text.contains("files"),
        "{text}"
    );
    // Another page, and this one after it let go of the session.
    let (other, _) = page(lab.storage.memory.clone());
    assert!(!allowed(&other, &other.open()));
    session.dispose().unwrap();
    assert!(!allowed(&lab, &lab.open()));
}

#[test]
fn a_bypass_is_for_one_session() {
    let (lab, first) = read_only();
    let second = session(&lab, json!({ "id": "s2", "permissionPreset": "read-only" }));
    first.bypass(all(), None).unwrap();
    assert!(allowed(&lab, &first));
    assert!(!allowed(&lab, &second));
}

#[test]
fn a_bypass_opens_what_it_names_and_nothing_else() {
    let calls = [
        writes("/far/x"),
        call("fetch", json!({})),
        call("unknown", json!({})),
    ];
    for (scope, expected) in [
        (all(), [true, true, true]),
        (BypassScope::Category("files".to_owned()), [true, false, false]),
        (BypassScope::Category("Files".to_owned()), [false, false, false]),
        (BypassScope::Category("web".to_owned()), [false, false, false]),
        (BypassScope::McpServer("web".to_owned()), [false, true, false]),
        (BypassScope::McpServer("files".to_owned()), [false, false, false]),
    ] {
        let (lab, session) = read_only();
        session.bypass(scope.clone(), None).unwrap();
        let found = calls
            .each_ref()
            .map(|call| outcome(&lab, &session, call) == Action::Allow);
        assert_eq!(found, expected, "{scope:?}");
        // A rule that is final stays final.
        assert_eq!(outcome(&lab, &session, &writes("/ws/secrets/x")), Action::Deny);
    }
}

#[test]
fn the_last_word_about_a_scope_counts_and_scopes_stand_beside_each_other() {
    let (lab, session) = read_only();
    session.bypass(all(), None).unwrap();
    session.bypass(all(), Some(10.0)).unwrap();
    lab.world.at(11_000.0);
    assert!(!allowed(&lab, &session));
    session.bypass(all(), Some(10.0)).unwrap();
    session
        .bypass(BypassScope::Category("files".to_owned()), Some(20.0))
        .unwrap();
    lab.world.at(22_000.0);
    assert!(allowed(&lab, &session));
    assert_eq!(
        outcome(&lab, &session, &call("fetch", json!({}))),
        Action::Require
    );
    lab.world.at(31_000.0);
    assert!(!allowed(&lab, &session));
}

#[test]
fn clearing_takes_all_of_them_back_at_once_in_a_running_turn_too() {
    let (lab, session) = read_only();
    let turn = turn_with(&lab, &session, &writes("/far/x"));
    session.bypass(all(), None).unwrap();
    session
        .bypass(BypassScope::Category("files".to_owned()), None)
        .unwrap();
    assert_eq!(
        lab.run(turn.gate(&writes("/far/x"))).unwrap().decision.outcome,
        Action::Allow
    );
    session.clear_bypass();
    assert_eq!(
        lab.run(turn.gate(&writes("/far/x"))).unwrap().decision.outcome,
        Action::Require
    );
}

#[test]
fn seconds_that_are_none_are_refused_and_change_nothing() {
    let (lab, session) = read_only();
    for seconds in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let error = refused(session.bypass(all(), Some(seconds)));
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{seconds}");
        assert_eq!(error.data()["field"], json!("seconds"), "{seconds}");
        assert!(!allowed(&lab, &session), "{seconds}");
    }
    session.bypass(all(), Some(f64::MAX)).unwrap();
    assert!(allowed(&lab, &session));
    session.dispose().unwrap();
    assert_eq!(refused(session.bypass(all(), None)).code(), ErrorCode::Disposed);
}
