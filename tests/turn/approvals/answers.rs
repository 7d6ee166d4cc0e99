//! A host with its own loop asks, waits, runs and appends.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use runcontext::{
    ErrorCode,
    permissions::Action,
    runtime::{Answer, ApprovalOutcome, Signal},
    session::Outcome,
};
use serde_json::json;

use super::{Page, called, known, told, turn_with, waiting, writes_file};
use crate::lab::{Fault, incoming, interrupted, refused, waits};

#[test]
fn a_host_asks_waits_and_appends_the_result_of_what_was_approved() {
    let page = Page::empty();
    let session = page.create();
    let call = writes_file("c1", "a.txt");
    let turn = turn_with(&page, &session, std::slice::from_ref(&call));
    let decided = page.gated(&turn, &call);
    assert_eq!(decided.decision.outcome, Action::Require);
    let id = decided.decision.request_id.unwrap();
    assert_eq!(page.only(), id);
    let result = told("c1", "write_file", "done", false);
    let append = || page.lab.run(turn.append(vec![incoming(result.clone())]));
    assert_eq!(refused(append()).code(), ErrorCode::ToolNotGated);
    let mut asking = waiting(&page, &turn, &id);
    assert!(!asking.go_on());
    page.approve(&id).unwrap();
    assert_eq!(page.stored(), known(&[("c1", "approved")]));
    assert_eq!(
        refused(append()).code(),
        ErrorCode::ToolNotGated,
        "nobody has claimed it"
    );
    assert_eq!(asking.done().unwrap().outcome, ApprovalOutcome::Approved);
    assert_eq!(page.stored(), known(&[("c1", "claimed")]));
    append().unwrap();
    assert_eq!(page.stored(), []);
    page.lab.run(turn.finish(Outcome::Success, None)).unwrap();
    assert_eq!(session.machine().bodies()[2], result);
}

#[test]
fn the_result_of_a_call_that_was_rejected_is_refused_unless_it_is_an_error() {
    let page = Page::empty();
    let session = page.create();
    let call = writes_file("c1", "a.txt");
    let turn = turn_with(&page, &session, std::slice::from_ref(&call));
    let id = page.asks(&turn, &call);
    let asking = waiting(&page, &turn, &id);
    page.reject(&id, "no").unwrap();
    let rejected = asking.done().unwrap();
    assert_eq!(
        (
            rejected.outcome,
            rejected.note.as_deref(),
            rejected.message.as_deref()
        ),
        (
            ApprovalOutcome::Rejected,
            Some("no"),
            Some("User rejected this tool call. Reason: no")
        )
    );
    let ran = told("c1", "write_file", "done", false);
    let error = refused(page.lab.run(turn.append(vec![incoming(ran)])));
    assert_eq!(error.code(), ErrorCode::ToolNotGated);
    let refusal = told(
        "c1",
        "write_file",
        "User rejected this tool call. Reason: no",
        true,
    );
    page.lab.run(turn.append(vec![incoming(refusal)])).unwrap();
    assert_eq!(page.stored(), []);
}

#[test]
fn asking_twice_about_a_call_is_one_approval_whatever_became_of_it() {
    let page = Page::empty();
    let session = page.create();
    let call = writes_file("c1", "a.txt");
    let other = writes_file("c2", "b.txt");
    let turn = turn_with(&page, &session, &[call.clone(), other.clone()]);
    let id = page.asks(&turn, &call);
    assert_eq!(page.asks(&turn, &call), id);
    let sixteen: Vec<_> = (0..16)
        .map(|_| waits(&page.lab.world, turn.gate(&call)))
        .map(|gate| gate.done().unwrap().decision.request_id.unwrap())
        .collect();
    assert!(sixteen.iter().all(|other| *other == id));
    assert_eq!(page.only(), id);
    assert_eq!(
        page.lab.events().iter().filter(|event| *event == "asked").count(),
        1
    );

    page.approve(&id).unwrap();
    assert_eq!(page.asks(&turn, &call), id, "approved");
    assert_eq!(
        waiting(&page, &turn, &id).done().unwrap().outcome,
        ApprovalOutcome::Approved
    );
    assert_eq!(page.asks(&turn, &call), id, "it runs");
    assert_eq!(
        refused(waiting(&page, &turn, &id).done()).code(),
        ErrorCode::ApprovalNotFound
    );
    assert_eq!(page.stored(), known(&[("c1", "claimed")]));

    let id = page.asks(&turn, &other);
    page.reject(&id, "no").unwrap();
    assert_eq!(page.asks(&turn, &other), id, "rejected");
    for _ in 0..2 {
        let again = waiting(&page, &turn, &id).done().unwrap();
        assert_eq!(again.outcome, ApprovalOutcome::Rejected);
    }
    assert_eq!(page.asked(), [] as [&str; 0]);
}

#[test]
fn of_two_that_wait_for_one_answer_one_may_run_the_call() {
    let page = Page::empty();
    let session = page.create();
    let call = writes_file("c1", "a.txt");
    let turn = turn_with(&page, &session, std::slice::from_ref(&call));
    let id = page.asks(&turn, &call);
    let (one, two) = (waiting(&page, &turn, &id), waiting(&page, &turn, &id));
    page.approve(&id).unwrap();
    assert_eq!(one.done().unwrap().outcome, ApprovalOutcome::Approved);
    assert_eq!(refused(two.done()).code(), ErrorCode::ApprovalNotFound);
}

#[test]
fn of_two_answers_at_once_one_counts() {
    let page = Page::empty();
    let session = page.create();
    let call = writes_file("c1", "a.txt");
    let turn = turn_with(&page, &session, std::slice::from_ref(&call));
    let id = page.asks(&turn, &call);
    let held = Signal::default();
    for attempt in [1, 2] {
        page.lab.storage.fail(attempt, Fault::Wait(held.clone()));
    }
    let runtime = &page.lab.runtime;
    let mut yes = waits(&page.lab.world, runtime.answer(&id, Answer::Approve, None));
    let mut no = waits(&page.lab.world, runtime.answer(&id, Answer::Reject(None), None));
    assert!(!yes.go_on() && !no.go_on());
    held.fire();
    assert_eq!(yes.done().unwrap().outcome, ApprovalOutcome::Approved);
    assert_eq!(refused(no.done()).code(), ErrorCode::ApprovalNotFound);
    assert_eq!(
        waiting(&page, &turn, &id).done().unwrap().outcome,
        ApprovalOutcome::Approved
    );
}

#[test]
fn a_turn_that_is_cancelled_tells_who_waits_and_leaves_no_approval() {
    let page = Page::empty();
    let session = page.create();
    let call = writes_file("c1", "a.txt");
    let turn = turn_with(&page, &session, std::slice::from_ref(&call));
    let id = page.asks(&turn, &call);
    let asking = waiting(&page, &turn, &id);
    page.lab.run(turn.cancel()).unwrap();
    assert_eq!(asking.done().unwrap().outcome, ApprovalOutcome::Cancelled);
    assert_eq!(page.stored(), []);
    assert_eq!(session.machine().bodies()[2], interrupted("c1", "write_file", 6));
    assert_eq!(refused(page.approve(&id)).code(), ErrorCode::ApprovalNotFound);
}

#[test]
fn a_host_that_waits_no_longer_leaves_the_approval_as_it_is() {
    let page = Page::empty();
    let session = page.create();
    let call = writes_file("c1", "a.txt");
    let turn = turn_with(&page, &session, std::slice::from_ref(&call));
    let id = page.asks(&turn, &call);
    let stop = Signal::default();
    let mut asking = waits(&page.lab.world, turn.approval(&id, &stop));
    assert!(!asking.go_on());
    stop.fire();
    assert_eq!(asking.done().unwrap().outcome, ApprovalOutcome::Cancelled);
    assert_eq!(page.stored(), known(&[("c1", "pending")]));
    page.approve(&id).unwrap();
    assert_eq!(
        waiting(&page, &turn, &id).done().unwrap().outcome,
        ApprovalOutcome::Approved
    );
}

#[test]
fn an_answer_that_is_being_saved_while_the_turn_ends_brings_no_approval_back() {
    // The answer is stored and not yet heard of, or stored only after the turn has ended.
    for heard_late in [false, true] {
        for answer in [Answer::Approve, Answer::Reject(None)] {
            let page = Page::empty();
            let session = page.create();
            let call = writes_file("c1", "a.txt");
            let turn = turn_with(&page, &session, std::slice::from_ref(&call));
            let id = page.asks(&turn, &call);
            let held = Signal::default();
            let fault = match heard_late {
                true => Fault::WaitForAnswer(held.clone()),
                false => Fault::Wait(held.clone()),
            };
            page.lab.storage.fail(1, fault);
            let runtime = &page.lab.runtime;
            let mut answering = waits(&page.lab.world, runtime.answer(&id, answer, None));
            assert!(!answering.go_on());
            let cancelling = waits(&page.lab.world, turn.cancel());
            held.fire();
            let told = answering.done().unwrap();
            assert_eq!(told.outcome, ApprovalOutcome::Cancelled);
            assert!(cancelling.done().unwrap().saved);
            assert_eq!(session.machine().approvals(), []);
            assert_eq!(page.stored(), []);
        }
    }
}

#[test]
fn a_question_that_is_asked_again_while_the_turn_ends_does_not_stay() {
    for heard_late in [false, true] {
        let page = Page::empty();
        let session = page.create();
        let call = writes_file("c1", "a.txt");
        let turn = turn_with(&page, &session, std::slice::from_ref(&call));
        let id = page.asks(&turn, &call);
        page.host.link("/ws/a.txt", "/etc/a.txt");
        let held = Signal::default();
        let fault = match heard_late {
            true => Fault::WaitForAnswer(held.clone()),
            false => Fault::Wait(held.clone()),
        };
        page.lab.storage.fail(1, fault);
        let runtime = &page.lab.runtime;
        let mut answering = waits(&page.lab.world, runtime.answer(&id, Answer::Approve, None));
        assert!(!answering.go_on());
        let cancelling = waits(&page.lab.world, turn.cancel());
        held.fire();
        assert_eq!(answering.done().unwrap().outcome, ApprovalOutcome::Cancelled);
        assert!(cancelling.done().unwrap().saved);
        assert_eq!(session.machine().approvals(), []);
        assert_eq!(page.stored(), []);
    }
}

#[test]
fn a_claim_that_is_being_saved_while_the_turn_ends_lets_nothing_run() {
    for heard_late in [false, true] {
        let page = Page::empty();
        let session = page.create();
        let call = writes_file("c1", "a.txt");
        let turn = turn_with(&page, &session, std::slice::from_ref(&call));
        let id = page.asks(&turn, &call);
        page.approve(&id).unwrap();
        let held = Signal::default();
        let fault = match heard_late {
            true => Fault::WaitForAnswer(held.clone()),
            false => Fault::Wait(held.clone()),
        };
        page.lab.storage.fail(1, fault);
        let mut claiming = waiting(&page, &turn, &id);
        assert!(!claiming.go_on());
        let cancelling = waits(&page.lab.world, turn.cancel());
        held.fire();
        assert_eq!(claiming.done().unwrap().outcome, ApprovalOutcome::Cancelled);
        assert!(cancelling.done().unwrap().saved);
        assert_eq!(session.machine().approvals(), []);
        assert_eq!(page.stored(), []);
    }
}

#[test]
fn a_deny_rule_that_comes_between_an_answer_and_the_claim_wins() {
    let page = Page::empty();
    let session = page.create();
    let call = called("c1", "run", json!({}));
    let turn = turn_with(&page, &session, std::slice::from_ref(&call));
    let id = page.asks(&turn, &call);
    page.approve(&id).unwrap();
    page.add_rule(json!({ "tool_pattern": "run", "action": "deny" }));
    let told = waiting(&page, &turn, &id).done().unwrap();
    assert_eq!(
        (told.outcome, told.message.as_deref()),
        (ApprovalOutcome::Rejected, Some("`run` is denied: a rule says so"))
    );
    assert_eq!(page.stored(), known(&[("c1", "rejected")]));
}

#[test]
fn the_result_of_a_call_leaves_the_question_about_another_one_with_its_id() {
    let page = Page::empty();
    let session = page.create();
    let twins = [writes_file("c1", "a.txt"), writes_file("c1", "b.txt")];
    let turn = turn_with(&page, &session, &twins);
    let [first, second] = [page.asks(&turn, &twins[0]), page.asks(&turn, &twins[1])];
    assert_ne!(first, second);
    page.approve(&first).unwrap();
    assert_eq!(
        waiting(&page, &turn, &first).done().unwrap().outcome,
        ApprovalOutcome::Approved
    );
    let mut asking = waiting(&page, &turn, &second);
    let ran = told("c1", "write_file", "done", false);
    page.lab.run(turn.append(vec![incoming(ran.clone())])).unwrap();
    assert!(!asking.go_on());
    assert_eq!(page.only(), second);
    // What was approved for the one is not approved for the other.
    let error = refused(page.lab.run(turn.append(vec![incoming(ran.clone())])));
    assert_eq!(error.code(), ErrorCode::ToolNotGated);
    page.approve(&second).unwrap();
    assert_eq!(asking.done().unwrap().outcome, ApprovalOutcome::Approved);
    page.lab.run(turn.append(vec![incoming(ran)])).unwrap();
    assert_eq!(page.stored(), []);
}

#[test]
fn who_waits_for_a_call_that_its_host_gave_up_is_not_sent_to_another_one_with_its_id() {
    let page = Page::empty();
    let session = page.create();
    let twins = [writes_file("c1", "a.txt"), writes_file("c1", "b.txt")];
    let turn = turn_with(&page, &session, &twins);
    let [first, second] = [page.asks(&turn, &twins[0]), page.asks(&turn, &twins[1])];
    let asking = waiting(&page, &turn, &first);
    let given_up = told("c1", "write_file", "not any more", true);
    page.lab.run(turn.append(vec![incoming(given_up)])).unwrap();
    page.lab.world.a_while_later();
    let ended = asking.done().unwrap();
    assert_eq!((ended.outcome, ended.message), (ApprovalOutcome::Cancelled, None));
    assert_eq!(page.only(), second);
}
