//! "Approve and don't ask again".

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use runcontext::{ErrorCode, permissions::Action, runtime::ApprovalOutcome, session::ToolCall};
use serde_json::{Value, json};

use super::{Page, called, known, turn_with, writes_file};
use crate::lab::refused;

fn shell(id: &str) -> ToolCall<Value> {
    called(id, "run", json!({}))
}

fn fetches(id: &str) -> ToolCall<Value> {
    called(id, "fetch", json!({}))
}

#[test]
fn an_approval_may_say_what_is_not_asked_about_from_now_on() {
    // The tool that is asked about, the scope, and which of shell, web and file need no question then.
    let cases: [(ToolCall<Value>, &str, [bool; 3]); 8] = [
        // Without a scope it is the tool's own.
        (shell("c1"), "", [true, false, false]),
        (fetches("c1"), "", [false, true, false]),
        (shell("c1"), "all", [true, true, true]),
        (shell("c1"), "category", [true, false, false]),
        (writes_file("c1", "a.txt"), "category", [false, false, true]),
        (fetches("c1"), "mcp_server", [false, true, false]),
        // A tool without a server, or without a category, is approved for this once.
        (shell("c1"), "mcp_server", [false, false, false]),
        (fetches("c1"), "category", [false, false, false]),
    ];
    for (call, scope, unasked) in cases {
        let page = Page::empty();
        let session = page.create();
        let turn = turn_with(&page, &session, std::slice::from_ref(&call));
        let id = page.asks(&turn, &call);
        let told = page.approve_further(&id, scope, None).unwrap();
        assert_eq!(told.outcome, ApprovalOutcome::Approved);
        let outcomes = [shell("x1"), fetches("x2"), writes_file("x3", "b.txt")].map(|call| {
            let decided = page.lab.run(session.explain(&call)).unwrap();
            decided.decision.outcome == Action::Allow
        });
        assert_eq!(outcomes, unasked, "{} {scope}", call.name);
        // It is nowhere in storage: another page asks.
        let other = page.beside();
        let there = other.lab.open();
        let decided = other.lab.run(there.explain(&shell("x1"))).unwrap();
        assert_eq!(decided.decision.outcome, Action::Require);
        session.clear_bypass();
        let decided = page.lab.run(session.explain(&shell("x1"))).unwrap();
        assert_eq!(decided.decision.outcome, Action::Require);
    }
}

#[test]
fn it_ends_after_the_seconds_that_were_given() {
    let page = Page::empty();
    let session = page.create();
    let turn = turn_with(&page, &session, &[shell("c1")]);
    let id = page.asks(&turn, &shell("c1"));
    page.approve_further(&id, "category", Some(60.0)).unwrap();
    let outcome_at = |now: f64| {
        page.lab.world.at(now);
        page.lab
            .run(session.explain(&shell("x1")))
            .unwrap()
            .decision
            .outcome
    };
    assert_eq!(outcome_at(61_999.0), Action::Allow);
    assert_eq!(outcome_at(62_000.0), Action::Require);
}

#[test]
fn seconds_that_make_no_sense_answer_nothing() {
    let page = Page::empty();
    let session = page.create();
    let turn = turn_with(&page, &session, &[shell("c1")]);
    let id = page.asks(&turn, &shell("c1"));
    for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = refused(page.approve_further(&id, "all", Some(seconds)));
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert_eq!(page.stored(), known(&[("c1", "pending")]));
    }
    page.approve(&id).unwrap();
}

#[test]
fn an_answer_that_did_not_approve_adds_no_bypass() {
    let page = Page::empty();
    let session = page.create();
    let turn = turn_with(&page, &session, &[shell("c1")]);
    let id = page.asks(&turn, &shell("c1"));
    page.add_rule(json!({ "tool_pattern": "run", "action": "deny" }));
    let told = page.approve_further(&id, "all", None).unwrap();
    assert_eq!(told.outcome, ApprovalOutcome::Rejected);
    let decided = page.lab.run(session.explain(&fetches("x1"))).unwrap();
    assert_eq!(decided.decision.outcome, Action::Require);
}

#[test]
fn a_bypass_that_was_given_while_the_session_was_not_open_holds_when_it_is() {
    let page = Page::empty();
    let session = page.create();
    let turn = turn_with(&page, &session, &[shell("c1")]);
    page.asks(&turn, &shell("c1"));
    let other = page.beside();
    other.approve_further(&other.only(), "category", None).unwrap();
    let there = other.lab.open();
    let decided = other.lab.run(there.explain(&shell("x1"))).unwrap();
    assert_eq!(decided.decision.outcome, Action::Allow);
    let decided = other.lab.run(there.explain(&fetches("x2"))).unwrap();
    assert_eq!(decided.decision.outcome, Action::Require);
}
