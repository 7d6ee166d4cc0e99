//! Texts that are longer than a path can be: as a path they are refused, as an argument of a tool without paths passed over.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use runcontext::permissions::{Action, Reason};
use serde_json::{Value, json};

use crate::ask::decide;

/// The longest path that any file system takes: 32,767 characters of three bytes.
const LONGEST: usize = 98_301;

/// What becomes of a call of a tool, with more of the input.
fn decided(tool: Value, arguments: Value, more: Value) -> (Action, Reason) {
    let mut input = json!({
        "call": { "toolName": "t", "arguments": arguments }, "tool": tool, "cwd": "/ws", "preset": "danger-full-access", "rules": []
    });
    for (name, value) in more.as_object().unwrap() {
        input[name] = value.clone();
    }
    let decision = decide(&input, &Value::Null, &json!({}), false).unwrap();
    (decision.outcome, decision.reason)
}

#[test]
fn a_declared_path_that_is_longer_than_a_path_can_be_is_refused() {
    let reads = || json!({ "name": "t", "paths": [{ "argument": "/path", "access": "read" }] });
    let of = |path: String| decided(reads(), json!({ "path": path }), json!({}));
    assert_eq!(of("a".repeat(LONGEST)), (Action::Allow, Reason::RunContext));
    assert_eq!(of("a".repeat(LONGEST + 1)), (Action::Deny, Reason::PathUnsafe));
    // Bytes are counted: of two each there are half as many.
    assert_eq!(
        of("\u{e9}".repeat(LONGEST / 2 + 1)),
        (Action::Deny, Reason::PathUnsafe)
    );
    // What it comes to does not count.
    assert_eq!(
        of(format!("{}a", "./".repeat(LONGEST / 2))),
        (Action::Allow, Reason::RunContext)
    );
    assert_eq!(
        of(format!("{}aa", "./".repeat(LONGEST / 2))),
        (Action::Deny, Reason::PathUnsafe)
    );
}

#[test]
fn a_text_that_is_longer_than_a_path_can_be_is_no_possible_path() {
    let text = |length: usize| format!("secrets/{}", "a".repeat(length - 8));
    let of = |text: String| decided(Value::Null, json!({ "x": text }), json!({}));
    assert_eq!(of(text(LONGEST)), (Action::Require, Reason::PossiblePath));
    assert_eq!(of(text(LONGEST + 1)), (Action::Allow, Reason::Preset));
}

#[test]
fn a_long_text_that_is_short_once_a_tool_has_normalised_it_may_be_a_path() {
    let long = "a".repeat(LONGEST + 1);
    for text in [
        format!("{long}/../secrets/key"),
        format!("secrets/{long}/../key"),
        format!("{}secrets/key", "./".repeat(LONGEST)),
    ] {
        let decided = decided(Value::Null, json!({ "x": text }), json!({}));
        assert_eq!(decided, (Action::Require, Reason::PossiblePath));
    }
}

#[test]
fn a_text_that_is_passed_over_lets_nothing_run_that_would_have_asked() {
    let long = "a".repeat(LONGEST + 1);
    let rule = |action: &str| json!({ "rules": [{ "id": 1, "tool_pattern": "*", "action": action, "locked": true }] });
    for (arguments, more, expected) in [
        (
            json!([long]),
            json!({ "preset": null }),
            (Action::Require, Reason::NoMatch),
        ),
        (
            json!([long]),
            json!({ "preset": "read-only" }),
            (Action::Require, Reason::NoMatch),
        ),
        (
            json!([long]),
            json!({ "preset": null, "headless": true }),
            (Action::Deny, Reason::Headless),
        ),
        (
            json!([long]),
            json!({ "group": "nowhere" }),
            (Action::Require, Reason::GroupMissing),
        ),
        (
            json!([long]),
            rule("require"),
            (Action::Require, Reason::LockedRule),
        ),
        (json!([long]), rule("deny"), (Action::Deny, Reason::LockedRule)),
        // The others are looked at, before it and behind it.
        (
            json!([long, "secrets/key"]),
            json!({}),
            (Action::Require, Reason::PossiblePath),
        ),
        (
            json!({ "a": "secrets/key", "b": long }),
            json!({}),
            (Action::Require, Reason::PossiblePath),
        ),
    ] {
        assert_eq!(decided(Value::Null, arguments, more.clone()), expected, "{more}");
    }
}
