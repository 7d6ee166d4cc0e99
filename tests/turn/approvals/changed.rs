//! What a person agrees to is what runs: what changes while the answer is waited for is asked about again.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use runcontext::{
    ErrorCode,
    permissions::{Action, DecideInput, PermissionChange},
    runtime::{ApprovalOutcome, Signal},
};
use serde_json::json;

use super::{Page, called, conversation, known, message, told, tool, tools, turn_with, waiting, writes_file};
use crate::lab::{Fault, refused, says};

#[test]
fn other_arguments_are_asked_about_again_and_an_advisory_one_is_not() {
    let page = Page::empty();
    let session = page.create();
    let call = writes_file("c1", "a.txt");
    let turn = turn_with(&page, &session, std::slice::from_ref(&call));
    let first = page.asks(&turn, &call);
    let asking = waiting(&page, &turn, &first);

    let explained = called(
        "c1",
        "write_file",
        json!({ "path": "a.txt", "why": "it is wanted" }),
    );
    assert_eq!(page.asks(&turn, &explained), first);

    let other = called("c1", "write_file", json!({ "path": "a.txt", "mode": "append" }));
    let second = page.asks(&turn, &other);
    assert_ne!(second, first);
    assert_eq!(asking.done().unwrap().outcome, ApprovalOutcome::Superseded);
    assert_eq!(
        (page.only(), page.stored()),
        (second.clone(), known(&[("c1", "pending")]))
    );
    assert_eq!(refused(page.approve(&first)).code(), ErrorCode::ApprovalNotFound);

    // What was approved for one is not approved for the other.
    page.approve(&second).unwrap();
    let third = page.asks(&turn, &call);
    assert!(third != first && third != second);
    assert_eq!(
        refused(waiting(&page, &turn, &second).done()).code(),
        ErrorCode::ApprovalNotFound
    );
    assert_eq!(page.stored(), known(&[("c1", "pending")]));
}

#[test]
fn other_arguments_for_a_call_that_runs_are_no_new_question() {
    let page = Page::empty();
    let session = page.create();
    let call = writes_file("c1", "a.txt");
    let turn = turn_with(&page, &session, std::slice::from_ref(&call));
    let id = page.asks(&turn, &call);
    page.approve(&id).unwrap();
    assert_eq!(
        waiting(&page, &turn, &id).done().unwrap().outcome,
        ApprovalOutcome::Approved
    );
    assert_eq!(page.asks(&turn, &writes_file("c1", "b.txt")), id);
    assert_eq!(page.stored(), known(&[("c1", "claimed")]));
}

#[test]
fn a_tool_that_is_defined_otherwise_after_a_restart_is_asked_about_again() {
    let other_tool = || {
        let mut tools = tools();
        tools[1] = tool(
            "run",
            json!({ "access": "execute", "category": "shell", "advisory": ["/why"] }),
        );
        tools
    };
    let first = Page::empty();
    let session = first.create();
    first
        .lab
        .model
        .answers(message(&[called("c1", "run", json!({}))]));
    let _dies = first.prompting(&session);
    let id = first.only();
    // One page asks again by resuming, the other by approving.
    for approves in [false, true] {
        let memory = crate::approvals::restart::copied(&first);
        let page = Page::with(memory, other_tool());
        let session = page.lab.open();
        page.lab.model.answers(says("done"));
        if approves {
            let told = page.approve(&id).unwrap();
            assert_eq!(told.outcome, ApprovalOutcome::Superseded);
        }
        let resuming = page.resuming(&session);
        let second = page.only();
        assert_ne!(second, id);
        assert_eq!(page.lab.tools.calls(), 0);
        page.approve(&second).unwrap();
        assert!(resuming.done().unwrap().saved);
        assert_eq!(page.ran(), ["c1"]);
        assert_eq!(page.stored(), []);
    }
}

#[test]
fn a_deny_rule_that_is_added_while_a_person_is_asked_wins() {
    let page = Page::empty();
    let session = page.create();
    page.lab
        .model
        .answers(message(&[writes_file("c1", "private/a.txt")]))
        .answers(says("pity"));
    let prompting = page.prompting(&session);
    page.add_rule(
        json!({ "tool_pattern": "*", "path_pattern": "private/*", "action": "deny", "priority": 1 }),
    );
    let answered = page.approve(&page.only()).unwrap();
    let refusal = "`write_file` on `private/a.txt` is denied: a rule says so";
    assert_eq!(
        (answered.outcome, answered.message.as_deref()),
        (ApprovalOutcome::Rejected, Some(refusal))
    );
    prompting.done().unwrap();
    assert_eq!(page.lab.tools.calls(), 0);
    assert_eq!(conversation(&page)[2], told("c1", "write_file", refusal, true));
    assert_eq!(page.stored(), []);
}

#[test]
fn a_link_that_leads_elsewhere_by_the_time_of_the_answer_is_asked_about_again() {
    let page = Page::empty();
    let session = page.create();
    page.host.link("/ws/link", "/ws/docs");
    page.lab
        .model
        .answers(message(&[writes_file("c1", "link/a.txt")]))
        .answers(says("done"));
    let mut prompting = page.prompting(&session);
    let first = page.only();
    page.host.link("/ws/link", "/etc");
    let answered = page.approve(&first).unwrap();
    assert_eq!(answered.outcome, ApprovalOutcome::Superseded);
    assert!(!prompting.go_on());
    assert_eq!(page.lab.tools.calls(), 0);
    let second = page.only();
    assert_ne!(second, first);
    let asked = page.lab.run(page.lab.runtime.pending_approvals()).unwrap();
    assert_eq!(asked[0].1.paths[0].canonical.as_deref(), Some("/etc/a.txt"));
    assert_eq!(refused(page.approve(&first)).code(), ErrorCode::ApprovalNotFound);
    page.approve(&second).unwrap();
    prompting.done().unwrap();
    assert_eq!(page.ran(), ["c1"]);
    assert_eq!(page.stored(), []);
}

#[test]
fn a_link_that_is_moved_to_a_denied_place_while_a_person_is_asked_is_denied() {
    let page = Page::empty();
    let session = page.create();
    page.host.link("/ws/link", "/ws/docs");
    page.lab
        .model
        .answers(message(&[writes_file("c1", "link/a.txt")]))
        .answers(says("pity"));
    let prompting = page.prompting(&session);
    page.host.link("/ws/link", "/ws/secrets");
    assert_eq!(
        page.approve(&page.only()).unwrap().outcome,
        ApprovalOutcome::Rejected
    );
    prompting.done().unwrap();
    assert_eq!(page.lab.tools.calls(), 0);
    assert_eq!(page.stored(), []);
}

#[test]
fn a_call_that_is_allowed_by_now_runs_when_it_is_gated_again_and_its_approval_has_ended_before() {
    let page = Page::empty();
    let session = page.create();
    page.host.link("/ws/link", "/ws/docs");
    page.lab
        .model
        .answers(message(&[writes_file("c1", "link/a.txt")]))
        .answers(says("done"));
    let prompting = page.prompting(&session);

    page.host.link("/ws/link", "/ws/docs/other");
    page.add_rule(json!({ "tool_pattern": "write_file", "action": "allow", "priority": 1 }));
    session
        .bypass(runcontext::permissions::BypassScope::All, None)
        .unwrap();
    assert_eq!(
        page.approve(&page.only()).unwrap().outcome,
        ApprovalOutcome::Superseded
    );
    prompting.done().unwrap();
    // `ran` looks at what storage knew when the tool began.
    assert_eq!(page.ran(), ["c1"]);
    assert_eq!(page.stored(), []);
}

#[test]
fn a_call_that_is_allowed_by_now_and_whose_approval_cannot_be_ended_does_not_run() {
    let page = Page::empty();
    let session = page.create();
    let call = called("c1", "run", json!({}));
    let turn = turn_with(&page, &session, std::slice::from_ref(&call));
    page.asks(&turn, &call);
    session
        .bypass(runcontext::permissions::BypassScope::All, None)
        .unwrap();
    page.lab.storage.always(Some(Fault::Refuse));
    let error = refused(page.lab.run(turn.gate(&call)).map(|decided| decided.decision));
    assert_eq!(error.code(), ErrorCode::StorageFailed);
    let result = told("c1", "run", "done", false);
    let append = || {
        page.lab
            .run(turn.append(vec![crate::lab::incoming(result.clone())]))
    };
    assert_eq!(refused(append()).code(), ErrorCode::ToolNotGated);
    page.lab.storage.always(None);
    let decided = page.gated(&turn, &call);
    assert_eq!(decided.decision.outcome, Action::Allow);
    assert_eq!(page.stored(), []);
    append().unwrap();
    assert_eq!(session.machine().approvals(), []);
}

#[test]
fn a_command_whose_working_directory_has_changed_is_asked_about_again_where_the_record_does_not_say_where_its_turn_began()
 {
    let first = Page::empty();
    let session = first.create();
    first
        .lab
        .model
        .answers(message(&[called("c1", "run", json!({ "command": "ls" }))]));
    let _dies = first.prompting(&session);
    let id = first.only();
    // It changes before the answer, or between the answer and the call.
    for approved_before in [false, true] {
        let page = Page::on(crate::approvals::restart::of_an_earlier_version(&first));
        let session = page.lab.open();
        page.lab.model.answers(says("done"));
        if approved_before {
            assert_eq!(page.approve(&id).unwrap().outcome, ApprovalOutcome::Approved);
        }
        let elsewhere = json!({ "working_directory": "/elsewhere" });
        let elsewhere = crate::lab::run_context(elsewhere);
        page.lab.run(session.set_run_context(Some(elsewhere))).unwrap();
        if !approved_before {
            assert_eq!(page.approve(&id).unwrap().outcome, ApprovalOutcome::Superseded);
        }
        let resuming = page.resuming(&session);
        assert_eq!(page.lab.tools.calls(), 0);
        let second = page.only();
        assert_ne!(second, id);
        let directory = session.machine().approval(&second).unwrap().directory.clone();
        assert_eq!(directory, "/elsewhere");
        page.approve(&second).unwrap();
        assert!(resuming.done().unwrap().saved);
        assert_eq!(page.lab.tools.directories(), ["/elsewhere"]);
        assert_eq!(page.stored(), []);
    }
}

#[test]
fn a_command_whose_working_directory_is_a_link_that_leads_elsewhere_by_then_is_asked_about_again() {
    let page = Page::empty();
    page.host.link("/ws", "/data/one");
    let session = page.create();
    page.lab
        .model
        .answers(message(&[called("c1", "run", json!({}))]))
        .answers(says("done"));
    let prompting = page.prompting(&session);
    let first = page.only();
    page.host.link("/ws", "/data/two");
    assert_eq!(page.approve(&first).unwrap().outcome, ApprovalOutcome::Superseded);
    assert_eq!(page.lab.tools.calls(), 0);
    let directory = session.machine().approvals()[0].directory.clone();
    assert_eq!(directory, "/data/two");
    page.approve(&page.only()).unwrap();
    prompting.done().unwrap();
    assert_eq!(page.ran(), ["c1"]);
}

#[test]
fn a_command_that_is_asked_about_stays_in_the_directory_where_its_turn_began() {
    let page = Page::empty();
    let session = page.create();
    page.lab
        .model
        .answers(message(&[called("c1", "run", json!({}))]))
        .answers(says("done"));
    let prompting = page.prompting(&session);
    let elsewhere = crate::lab::run_context(json!({ "working_directory": "/elsewhere" }));
    page.lab.run(session.set_run_context(Some(elsewhere))).unwrap();
    assert_eq!(
        page.approve(&page.only()).unwrap().outcome,
        ApprovalOutcome::Approved
    );
    prompting.done().unwrap();
    assert_eq!(page.lab.tools.directories(), ["/ws"]);
}

#[test]
fn after_a_restart_it_still_stays_there() {
    let first = Page::empty();
    let session = first.create();
    first
        .lab
        .model
        .answers(message(&[called("c1", "run", json!({}))]));
    let _dies = first.prompting(&session);
    let id = first.only();
    let elsewhere = || crate::lab::run_context(json!({ "working_directory": "/elsewhere" }));
    // It changes before the page dies, or after that.
    for before in [false, true] {
        if before {
            first.lab.run(session.set_run_context(Some(elsewhere()))).unwrap();
        }
        let page = Page::on(crate::approvals::restart::copied(&first));
        let session = page.lab.open();
        page.lab.model.answers(says("done"));
        page.lab.run(session.set_run_context(Some(elsewhere()))).unwrap();
        assert_eq!(page.approve(&id).unwrap().outcome, ApprovalOutcome::Approved);
        assert!(page.resuming(&session).done().unwrap().saved);
        assert_eq!(page.lab.tools.directories(), ["/ws"]);
    }
}

#[test]
fn a_group_that_changes_while_a_person_is_asked_decides() {
    let group = |id: &str| PermissionChange::CreateGroup(json!({ "id": id, "name": id }));
    let rule = |action: &str, group: &str| {
        PermissionChange::AddRule(
            json!({ "tool_pattern": "run", "action": action, "group_id": group, "priority": 1 }),
        )
    };
    let change = |page: &Page, change: PermissionChange| {
        page.lab
            .run(page.lab.runtime.permissions().change(&change))
            .unwrap();
    };
    for what in ["the run context names another", "it is deleted", "it denies"] {
        let page = Page::empty();
        for first in [
            group("own"),
            group("closed"),
            rule("require", "own"),
            rule("deny", "closed"),
        ] {
            change(&page, first);
        }
        let session = page.create_with(json!({ "runContext": { "security_group": "own" } }));
        page.lab
            .model
            .answers(message(&[called("c1", "run", json!({}))]))
            .answers(says("pity"));
        let prompting = page.prompting(&session);
        match what {
            "the run context names another" => {
                let closed = crate::lab::run_context(json!({ "security_group": "closed" }));
                page.lab.run(session.set_run_context(Some(closed))).unwrap();
            }
            // What the group asked about hid what `default` says.
            "it is deleted" => {
                change(&page, rule("deny", "default"));
                change(&page, PermissionChange::DeleteGroup("own".to_owned()));
            }
            _ => change(
                &page,
                PermissionChange::AddRule(
                    json!({ "tool_pattern": "*", "action": "deny", "group_id": "own", "priority": 0 }),
                ),
            ),
        }
        assert_eq!(
            page.approve(&page.only()).unwrap().outcome,
            ApprovalOutcome::Rejected,
            "{what}"
        );
        prompting.done().unwrap();
        assert_eq!(page.lab.tools.calls(), 0, "{what}");
        let refusal = "`run` is denied: a rule says so";
        assert_eq!(conversation(&page)[2], told("c1", "run", refusal, true));
    }
}

#[test]
fn a_deny_rule_that_comes_while_the_claim_is_saved_wins() {
    let page = Page::empty();
    let session = page.create();
    page.lab
        .model
        .answers(message(&[called("c1", "run", json!({}))]))
        .answers(says("pity"));
    let mut prompting = page.prompting(&session);
    page.approve(&page.only()).unwrap();
    let claimed = Signal::default();
    page.lab.storage.fail(1, Fault::WaitForAnswer(claimed.clone()));
    assert!(!prompting.go_on());
    assert_eq!(page.stored(), known(&[("c1", "claimed")]));
    page.add_rule(json!({ "tool_pattern": "run", "action": "deny", "priority": 1 }));
    claimed.fire();
    prompting.done().unwrap();
    assert_eq!(page.lab.tools.calls(), 0);
    let refusal = "`run` is denied: a rule says so";
    assert_eq!(conversation(&page)[2], told("c1", "run", refusal, true));
    assert_eq!(page.stored(), []);
}

#[test]
fn a_path_that_leads_elsewhere_while_the_claim_is_saved_is_asked_about_again() {
    for (call, from, to) in [
        (writes_file("c1", "link/a.txt"), "/ws/link", ["/ws/docs", "/etc"]),
        (called("c1", "run", json!({})), "/ws", ["/data/one", "/data/two"]),
    ] {
        let page = Page::empty();
        page.host.link(from, to[0]);
        let session = page.create();
        page.lab
            .model
            .answers(message(std::slice::from_ref(&call)))
            .answers(says("done"));
        let mut prompting = page.prompting(&session);
        let first = page.only();
        page.approve(&first).unwrap();
        let claimed = Signal::default();
        page.lab.storage.fail(1, Fault::WaitForAnswer(claimed.clone()));
        assert!(!prompting.go_on());
        assert_eq!(page.stored(), known(&[("c1", "claimed")]));
        page.host.link(from, to[1]);
        claimed.fire();
        assert!(!prompting.go_on());
        assert_eq!(page.lab.tools.calls(), 0);
        let second = page.only();
        assert_ne!(second, first);
        let asked = session.machine().approval(&second).unwrap().clone();
        match asked.paths.first() {
            Some(path) => assert_eq!(path.canonical.as_deref(), Some("/etc/a.txt")),
            None => assert_eq!(asked.directory, "/data/two"),
        }
        page.approve(&second).unwrap();
        assert!(prompting.done().unwrap().saved);
        assert_eq!(page.ran(), ["c1"]);
        assert_eq!(page.stored(), []);
    }
}

#[test]
fn what_a_host_with_its_own_loop_has_claimed_is_looked_at_once_more_before_it_may_run() {
    for (to, expected, stored) in [
        ("/etc", ApprovalOutcome::Superseded, "pending"),
        ("/ws/secrets", ApprovalOutcome::Rejected, "rejected"),
    ] {
        let page = Page::empty();
        page.host.link("/ws/link", "/ws/docs");
        let session = page.create();
        let call = writes_file("c1", "link/a.txt");
        let turn = turn_with(&page, &session, std::slice::from_ref(&call));
        let id = page.asks(&turn, &call);
        let mut asking = waiting(&page, &turn, &id);
        page.approve(&id).unwrap();
        let claimed = Signal::default();
        page.lab.storage.fail(1, Fault::WaitForAnswer(claimed.clone()));
        assert!(!asking.go_on());
        page.host.link("/ws/link", to);
        claimed.fire();
        assert_eq!(asking.done().unwrap().outcome, expected);
        assert_eq!(page.stored(), known(&[("c1", stored)]));
        let result = crate::lab::incoming(told("c1", "write_file", "done", false));
        let appended = page.lab.run(turn.append(vec![result]));
        assert_eq!(refused(appended).code(), ErrorCode::ToolNotGated);
    }
}

#[test]
fn a_claim_is_for_the_arguments_that_were_asked_about_and_for_one_result() {
    let page = Page::empty();
    let session = page.create();
    let call = writes_file("c1", "a.txt");
    let turn = turn_with(&page, &session, std::slice::from_ref(&call));
    let append = |messages: &[serde_json::Value]| {
        let messages = messages.iter().cloned().map(crate::lab::incoming);
        page.lab.run(turn.append(messages.collect()))
    };
    let claims = |call: &runcontext::session::ToolCall<serde_json::Value>| {
        let id = page.asks(&turn, call);
        page.approve(&id).unwrap();
        let answer = waiting(&page, &turn, &id).done().unwrap();
        assert_eq!(answer.outcome, ApprovalOutcome::Approved);
    };
    let result = told("c1", "write_file", "done", false);
    let refusal = || refused(append(std::slice::from_ref(&result))).code();
    // Claimed for another file.
    claims(&writes_file("c1", "harmless.txt"));
    assert_eq!(refusal(), ErrorCode::ToolNotGated);
    let mut error = result.clone();
    error["isError"] = json!(true);
    append(&[error, message(std::slice::from_ref(&call))]).unwrap();
    assert_eq!(page.stored(), []);
    assert_eq!(refusal(), ErrorCode::ToolNotGated);
    claims(&call);
    append(&[result.clone(), message(std::slice::from_ref(&call))]).unwrap();
    assert_eq!(page.stored(), []);
    // The same call once more is another one.
    assert_eq!(refusal(), ErrorCode::ToolNotGated);
    // Of two equal calls one was claimed.
    let interrupted = [message(&[call.clone(), call.clone()])];
    append(&interrupted).unwrap();
    claims(&call);
    append(std::slice::from_ref(&result)).unwrap();
    assert_eq!(page.stored(), []);
    assert_eq!(refusal(), ErrorCode::ToolNotGated);
    claims(&call);
    append(std::slice::from_ref(&result)).unwrap();
}

#[test]
fn a_call_that_is_denied_after_it_was_claimed_is_not_allowed_any_more() {
    let page = Page::empty();
    let session = page.create();
    let call = called("c1", "run", json!({}));
    let turn = turn_with(&page, &session, std::slice::from_ref(&call));
    let id = page.asks(&turn, &call);
    page.approve(&id).unwrap();
    waiting(&page, &turn, &id).done().unwrap();
    // Who asks again hears of the same question.
    assert_eq!(page.asks(&turn, &call), id);
    page.add_rule(json!({ "tool_pattern": "run", "action": "deny", "priority": 1 }));
    assert_eq!(page.gated(&turn, &call).decision.outcome, Action::Deny);
    let result = crate::lab::incoming(told("c1", "run", "done", false));
    let appended = page.lab.run(turn.append(vec![result]));
    assert_eq!(refused(appended).code(), ErrorCode::ToolNotGated);
}

#[test]
fn an_argument_that_holds_a_path_is_never_advisory() {
    let declared = |path: &str, advisory: &str| {
        let tool =
            json!({ "paths": [{ "argument": path, "access": "write" }], "advisory": ["/why", advisory] });
        let input = json!({ "call": { "toolName": "t" }, "cwd": "/", "tool": tool });
        DecideInput::parse(&input, &serde_json::Value::Null, crate::lab::runcontext_fold).map(|_| ())
    };
    for (path, advisory) in [
        ("/path", "/path"),
        ("/files/*/path", "/files/*/path"),
        ("/files/*/path", "/files/0"),
        ("/files/0/path", "/files/*"),
        ("/files/0/path", "/files"),
    ] {
        let error = refused(declared(path, advisory));
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{path} {advisory}");
        assert_eq!(error.data()["field"], json!("input.tool.advisory"));
    }
    for (path, advisory) in [
        ("/path", "/paths"),
        ("/files/0/path", "/files/0/why"),
        ("/path", "/path/why"),
    ] {
        declared(path, advisory).unwrap();
    }
}
