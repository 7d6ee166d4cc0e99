//! Results of calls that were not allowed are refused; so is a gate that is asked about another call than the open one.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::rc::Rc;

use runcontext::{
    ErrorCode,
    permissions::{Action, BypassScope, PermissionChange},
    runtime::{PromptOptions, Session, Signal, Turn},
    session::ToolCall,
    storage::memory::MemoryStorage,
};
use serde_json::{Value, json};

use super::{call, lab, options, outcome, session, tools, turn_with, writes};
use crate::{
    expect::dispatched,
    lab::{Lab, Says, TestHost, calls, incoming, refused, result, waits},
};

fn answer(lab: &Lab, turn: &Turn<Value>, id: &str, tool: &str) -> runcontext::Result<()> {
    lab.run(turn.append(vec![incoming(result(id, tool, "done"))]))
}

fn not_gated(lab: &Lab, turn: &Turn<Value>, id: &str, tool: &str) {
    let before = lab.stored();
    let error = refused(answer(lab, turn, id, tool));
    assert_eq!(error.code(), ErrorCode::ToolNotGated);
    assert_eq!(json!(error.data()), json!({ "toolCallId": id, "toolName": tool }));
    assert_eq!(lab.stored(), before);
    assert!(turn.open_calls().iter().any(|call| call.id == id));
}

fn ready() -> (Lab, Rc<Session<Value>>) {
    let (lab, _) = lab();
    let session = session(&lab, json!({ "permissionPreset": "workspace-write" }));
    (lab, session)
}

#[test]
fn a_result_of_a_call_that_was_allowed_is_taken_and_of_one_that_was_not_it_is_refused() {
    let (lab, session) = ready();
    let turn = turn_with(&lab, &session, &writes("a"));
    not_gated(&lab, &turn, "c1", "write_file");
    // Who only asks why has not asked whether.
    assert_eq!(
        lab.run(session.explain(&writes("a"))).unwrap().decision.outcome,
        Action::Allow
    );
    not_gated(&lab, &turn, "c1", "write_file");
    assert_eq!(
        lab.run(turn.gate(&writes("a"))).unwrap().decision.outcome,
        Action::Allow
    );
    answer(&lab, &turn, "c1", "write_file").unwrap();
    assert!(turn.open_calls().is_empty());
}

#[test]
fn the_gate_of_the_session_counts_as_that_of_its_turn() {
    let (lab, session) = ready();
    let turn = turn_with(&lab, &session, &writes("a"));
    assert_eq!(outcome(&lab, &session, &writes("a")), Action::Allow);
    answer(&lab, &turn, "c1", "write_file").unwrap();
}

#[test]
fn a_result_of_a_call_that_asks_or_is_denied_is_refused_unless_it_is_an_error() {
    for (path, expected) in [("/far/a", Action::Require), ("secrets/a", Action::Deny)] {
        let (lab, session) = ready();
        let turn = turn_with(&lab, &session, &writes(path));
        assert_eq!(
            lab.run(turn.gate(&writes(path))).unwrap().decision.outcome,
            expected
        );
        not_gated(&lab, &turn, "c1", "write_file");
        let mut error = result("c1", "write_file", "refused");
        error["isError"] = json!(true);
        lab.run(turn.append(vec![incoming(error)])).unwrap();
    }
}

#[test]
fn what_asked_before_and_is_allowed_now_is_taken() {
    let (lab, session) = ready();
    let turn = turn_with(&lab, &session, &writes("/far/a"));
    assert_eq!(
        lab.run(turn.gate(&writes("/far/a"))).unwrap().decision.outcome,
        Action::Require
    );
    not_gated(&lab, &turn, "c1", "write_file");
    session.bypass(BypassScope::All, None).unwrap();
    assert_eq!(
        lab.run(turn.gate(&writes("/far/a"))).unwrap().decision.outcome,
        Action::Allow
    );
    answer(&lab, &turn, "c1", "write_file").unwrap();
}

#[test]
fn of_a_batch_with_one_result_that_is_not_gated_nothing_is_kept() {
    let (lab, session) = ready();
    let turn = lab.run(dispatched(&session, "go on"));
    let asked = calls(&[
        ("c1", "write_file", json!({ "path": "a" })),
        ("c2", "write_file", json!({ "path": "/far" })),
        ("c3", "add", json!({})),
    ]);
    lab.run(turn.append(vec![incoming(asked)])).unwrap();
    lab.run(turn.gate(&writes("a"))).unwrap();
    let add = runcontext::session::ToolCall {
        id: "c3".to_owned(),
        ..call("add", json!({}))
    };
    assert_eq!(lab.run(turn.gate(&add)).unwrap().decision.outcome, Action::Allow);
    let before = lab.stored();
    let results = [("c1", "write_file"), ("c3", "add"), ("c2", "write_file")];
    let batch = results.map(|(id, tool)| incoming(result(id, tool, "done")));
    assert_eq!(
        refused(lab.run(turn.append(batch.to_vec()))).code(),
        ErrorCode::ToolNotGated
    );
    assert_eq!(lab.stored(), before);
    lab.run(turn.append(batch[..2].to_vec())).unwrap();
    not_gated(&lab, &turn, "c2", "write_file");
}

#[test]
fn a_call_with_the_id_of_an_open_one_and_another_tool_is_refused() {
    let (lab, session) = ready();
    let turn = turn_with(&lab, &session, &writes("/far/a"));
    for other in [
        call("read_file", json!({ "path": "a" })),
        call("add", json!({})),
        call("unknown", json!({})),
    ] {
        let other = ToolCall {
            id: "c1".to_owned(),
            ..other
        };
        for gate in [lab.run(turn.gate(&other)), lab.run(session.gate(&other))] {
            let error = refused(gate.map(|_| ()));
            assert_eq!(error.code(), ErrorCode::InvalidArgument);
            assert_eq!(error.data()["toolCallId"], json!("c1"));
        }
    }
    not_gated(&lab, &turn, "c1", "write_file");
}

#[test]
fn leave_that_was_given_before_the_call_arrived_counts_for_exactly_that_call() {
    let (lab, session) = ready();
    let turn = lab.run(dispatched(&session, "go on"));
    for id in ["c1", "c2", "c3"] {
        let call = ToolCall {
            id: id.to_owned(),
            ..writes("a")
        };
        assert_eq!(lab.run(turn.gate(&call)).unwrap().decision.outcome, Action::Allow);
    }
    let asked = calls(&[
        ("c1", "write_file", json!({ "path": "a" })),
        ("c2", "fetch", json!({})),
        ("c3", "write_file", json!({ "path": "/far/a" })),
    ]);
    lab.run(turn.append(vec![incoming(asked)])).unwrap();
    answer(&lab, &turn, "c1", "write_file").unwrap();
    not_gated(&lab, &turn, "c2", "fetch");
    not_gated(&lab, &turn, "c3", "write_file");
}

#[test]
fn leave_for_other_arguments_is_none_for_the_open_call() {
    for (open, expected) in [("secrets/a", Action::Deny), ("/far/a", Action::Require)] {
        let (lab, session) = ready();
        let turn = turn_with(&lab, &session, &writes(open));
        assert_eq!(
            lab.run(turn.gate(&writes(open))).unwrap().decision.outcome,
            expected
        );
        assert_eq!(
            lab.run(turn.gate(&writes("a"))).unwrap().decision.outcome,
            Action::Allow
        );
        not_gated(&lab, &turn, "c1", "write_file");
    }
}

#[test]
fn the_last_decision_about_a_call_counts() {
    let stricter = [
        (json!({ "action": "deny" }), Action::Deny),
        (json!({ "action": "require", "locked": true }), Action::Require),
    ];
    for (mut rule, expected) in stricter {
        let (lab, session) = ready();
        let turn = turn_with(&lab, &session, &writes("a"));
        let decided = || lab.run(turn.gate(&writes("a"))).unwrap().decision.outcome;
        assert_eq!(decided(), Action::Allow);
        rule["tool_pattern"] = json!("write_file");
        rule["priority"] = json!(0);
        let change = |change| lab.run(lab.runtime.permissions().change(&change)).unwrap();
        change(PermissionChange::AddRule(rule));
        assert_eq!(decided(), expected);
        not_gated(&lab, &turn, "c1", "write_file");
        // The first rule that is added has this id.
        change(PermissionChange::DeleteRule(5));
        assert_eq!(decided(), Action::Allow);
        answer(&lab, &turn, "c1", "write_file").unwrap();
    }
}

#[test]
fn leave_is_used_up_by_its_result() {
    let (lab, session) = ready();
    let turn = turn_with(&lab, &session, &writes("a"));
    lab.run(turn.gate(&writes("a"))).unwrap();
    let again = || incoming(asks_for(&[writes("a")]));
    let done = || incoming(result("c1", "write_file", "done"));
    // Of a batch that holds the call once more nothing is kept.
    let before = lab.stored();
    let batch = lab.run(turn.append(vec![done(), again(), done()]));
    assert_eq!(refused(batch).code(), ErrorCode::ToolNotGated);
    assert_eq!(lab.stored(), before);
    lab.run(turn.append(vec![done(), again()])).unwrap();
    not_gated(&lab, &turn, "c1", "write_file");
    lab.run(turn.gate(&writes("a"))).unwrap();
    answer(&lab, &turn, "c1", "write_file").unwrap();
}

#[test]
fn leave_for_a_call_that_was_interrupted_is_used_up_too() {
    let (lab, session) = ready();
    let turn = turn_with(&lab, &session, &writes("a"));
    lab.run(turn.gate(&writes("a"))).unwrap();
    lab.run(turn.append(vec![incoming(asks_for(&[writes("a")]))]))
        .unwrap();
    not_gated(&lab, &turn, "c1", "write_file");
}

#[test]
fn leave_for_one_of_two_equal_calls_is_leave_for_both() {
    let (lab, session) = ready();
    let turn = lab.run(dispatched(&session, "go on"));
    lab.run(turn.append(vec![incoming(asks_for(&twins(["a", "a"])))]))
        .unwrap();
    lab.run(turn.gate(&writes("a"))).unwrap();
    answer(&lab, &turn, "c1", "write_file").unwrap();
    answer(&lab, &turn, "c1", "write_file").unwrap();
    lab.run(turn.append(vec![incoming(asks_for(&[writes("a")]))]))
        .unwrap();
    not_gated(&lab, &turn, "c1", "write_file");
}

#[test]
fn leave_of_an_earlier_turn_counts_no_longer() {
    let (lab, session) = ready();
    let turn = turn_with(&lab, &session, &writes("a"));
    lab.run(turn.gate(&writes("a"))).unwrap();
    lab.run(turn.cancel()).unwrap();
    refused(lab.run(turn.gate(&writes("a"))).map(|_| ()));
    // Nor does what was decided between the turns.
    assert_eq!(outcome(&lab, &session, &writes("a")), Action::Allow);
    let turn = turn_with(&lab, &session, &writes("a"));
    not_gated(&lab, &turn, "c1", "write_file");
}

#[test]
fn leave_that_comes_after_its_turn_ended_counts_for_no_other() {
    let host = Rc::new(TestHost::at("/ws"));
    let lab = Lab::with(MemoryStorage::new(), true, tools(), Some(host.clone()));
    let session = lab.create_with(options(json!({ "permissionPreset": "workspace-write" })));
    let turn = turn_with(&lab, &session, &writes("a"));
    let late = Signal::default();
    host.once(Says::Later(late.clone()));
    let call = writes("a");
    let mut hanging = waits(&lab.world, session.gate(&call));
    assert!(!hanging.go_on());
    lab.run(turn.cancel()).unwrap();
    let turn = turn_with(&lab, &session, &writes("a"));
    late.fire();
    assert_eq!(hanging.done().unwrap().decision.outcome, Action::Allow);
    not_gated(&lab, &turn, "c1", "write_file");
}

#[test]
fn a_runtime_that_is_not_strict_takes_every_result() {
    let lab = Lab::with(
        MemoryStorage::new(),
        false,
        tools(),
        Some(Rc::new(TestHost::at("/ws"))),
    );
    let session = lab.create_with(options(json!({})));
    let turn = turn_with(&lab, &session, &writes("/far/a"));
    answer(&lab, &turn, "c1", "write_file").unwrap();
}

#[test]
fn a_prompt_runs_every_declared_tool_that_the_gate_allows() {
    let (lab, _) = lab();
    let session = session(&lab, json!({ "permissionPreset": "danger-full-access" }));
    session.bypass(BypassScope::All, None).unwrap();
    let asked = calls(&[
        ("c1", "write_file", json!({ "path": "a" })),
        ("c2", "add", json!({})),
        ("c3", "unknown", json!({})),
    ]);
    lab.model.answers(asked).answers(crate::lab::says("done"));
    assert!(lab.prompt(&session, "go on").unwrap().saved);
    let ran: Vec<String> = lab.tools.called().into_iter().map(|(_, name, _)| name).collect();
    assert_eq!(ran, ["write_file", "add"]);
}

#[test]
fn every_declared_tool_is_visible_as_it_was_declared_while_no_rule_denies_it() {
    let (lab, session) = ready();
    let declared: Vec<Value> = tools().into_iter().map(|tool| tool.declaration).collect();
    assert_eq!(session.visible_tools(), declared);
    let turn = turn_with(&lab, &session, &writes("a"));
    assert_eq!(session.visible_tools(), declared);
    lab.run(turn.cancel()).unwrap();
}

/// Two calls with one id: of `write_file` on these paths.
fn twins(paths: [&str; 2]) -> [ToolCall<Value>; 2] {
    paths.map(|path| ToolCall {
        id: "c1".to_owned(),
        ..writes(path)
    })
}

fn asks_for(calls_of: &[ToolCall<Value>]) -> Value {
    let calls_of = calls_of
        .iter()
        .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.clone()));
    calls(&calls_of.collect::<Vec<_>>())
}

#[test]
fn of_calls_that_share_an_id_a_result_answers_the_first_and_only_where_that_one_was_allowed() {
    for first_is_allowed in [false, true] {
        let (lab, session) = ready();
        let twins = twins(["a", "b"]);
        let turn = lab.run(dispatched(&session, "go on"));
        lab.run(turn.append(vec![incoming(asks_for(&twins))])).unwrap();
        let [first, second] = &twins;
        let allowed = if first_is_allowed { first } else { second };
        assert_eq!(
            lab.run(turn.gate(allowed)).unwrap().decision.outcome,
            Action::Allow
        );
        if first_is_allowed {
            answer(&lab, &turn, "c1", "write_file").unwrap();
            assert_eq!(turn.open_calls(), std::slice::from_ref(second));
            // The other one was not allowed.
            not_gated(&lab, &turn, "c1", "write_file");
        } else {
            not_gated(&lab, &turn, "c1", "write_file");
            assert_eq!(turn.open_calls(), twins);
        }
    }
}

#[test]
fn a_result_that_names_no_tool_answers_none_of_several_unless_each_was_allowed() {
    let (lab, session) = ready();
    let file = writes("a");
    let look = ToolCall {
        id: "c1".to_owned(),
        ..call("add", json!({}))
    };
    let turn = lab.run(dispatched(&session, "go on"));
    let asked = asks_for(&[file.clone(), look.clone()]);
    lab.run(turn.append(vec![incoming(asked)])).unwrap();
    let mut nameless = result("c1", "", "done");
    nameless.as_object_mut().unwrap().remove("toolName");
    let append = || lab.run(turn.append(vec![incoming(nameless.clone())]));
    lab.run(turn.gate(&look)).unwrap();
    assert_eq!(refused(append()).code(), ErrorCode::ToolNotGated);
    // Leave for another file is none.
    lab.run(turn.gate(&writes("b"))).unwrap();
    assert_eq!(refused(append()).code(), ErrorCode::ToolNotGated);
    lab.run(turn.gate(&file)).unwrap();
    append().unwrap();
    assert_eq!(turn.open_calls(), [look]);
}

#[test]
fn of_calls_of_a_stopped_prompt_that_share_an_id_each_has_its_own_result() {
    for finishes in ["a", "b"] {
        let (lab, session) = ready();
        lab.tools.on("c1", move |call, _| async move {
            if call.arguments["path"] != finishes {
                std::future::pending::<()>().await;
            }
            Ok(json!(format!("{finishes} is written")))
        });
        lab.model.answers(asks_for(&twins(["a", "b"])));
        let (content, options) = (json!("go on"), PromptOptions::default());
        let mut prompting = waits(&lab.world, session.prompt(&content, &options));
        assert!(!prompting.go_on());
        drop(waits(&lab.world, session.abort()));
        prompting.done().unwrap();
        let machine = session.machine();
        let results: Vec<String> = machine.bodies()[2..]
            .iter()
            .map(|body| body["content"][0]["text"].as_str().unwrap().to_owned())
            .collect();
        let interrupted = "The tool call was interrupted before it finished. It may be retried.".to_owned();
        let written = format!("{finishes} is written");
        let expected = if finishes == "a" {
            [written, interrupted]
        } else {
            [interrupted, written]
        };
        assert_eq!(results, expected);
    }
}
