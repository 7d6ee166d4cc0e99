//! Writes that fail while a person is asked: nothing runs that storage does not know to be claimed, and nothing twice.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::rc::Rc;

use runcontext::{
    ErrorCode, Result,
    runtime::{Session, Signal, TurnReport},
    session::Outcome,
};
use serde_json::Value;

use super::{Page, conversation, known, message, turn_with, waiting, writes_file};
use crate::lab::{Fault, Stored, Waits, refused, says};

/// Commits after the session's first: dispatched, the call, asked, answered, claimed, the result, the last words, settled.
const COMMITS: usize = 8;
const CLAIM: usize = 5;

/// Where the page and its turn stand.
fn script(page: &Page) -> Rc<Session<Value>> {
    let session = page.create();
    page.lab
        .model
        .answers(message(&[writes_file("c1", "a.txt")]))
        .answers(says("done"));
    session
}

/// A person who answers whatever is asked, again where it did not work.
fn answer_all(page: &Page, session: &Session<Value>, prompting: &mut Waits<'_, Result<TurnReport>>) {
    for _ in 0..4 {
        if prompting.go_on() {
            return;
        }
        let asked: Vec<String> = session
            .machine()
            .waiting_approvals()
            .map(|it| it.id.clone())
            .collect();
        for id in asked {
            let _told = page.approve(&id);
        }
    }
}

/// What is stored where nothing fails.
fn without_fault() -> Stored {
    let page = Page::empty();
    let session = script(&page);
    let mut prompting = page.prompting(&session);
    answer_all(&page, &session, &mut prompting);
    assert!(prompting.done().unwrap().saved);
    assert_eq!(
        (page.ran(), page.lab.storage.attempts()),
        (vec!["c1".to_owned()], COMMITS + 1)
    );
    page.lab.stored()
}

#[test]
fn a_write_that_fails_at_any_commit_of_the_flow_is_made_up_for() {
    let whole = without_fault();
    for fault in [Fault::Refuse, Fault::LoseAcknowledgement] {
        for at in 1..=COMMITS {
            let page = Page::empty();
            let session = script(&page);
            page.lab.storage.fail(at, fault.clone());
            let mut prompting = page.prompting(&session);
            answer_all(&page, &session, &mut prompting);
            let report = prompting.done().unwrap();
            assert_eq!(report.end.outcome, Outcome::Success, "{fault:?} {at}");
            let asked = (page.lab.model.calls(), page.lab.tools.calls());
            page.lab.run(session.flush()).unwrap();
            assert_eq!((page.lab.model.calls(), page.lab.tools.calls()), asked);
            assert_eq!(page.stored(), []);
            assert_eq!(session.machine().approvals(), []);
            if at == CLAIM {
                // Nobody knows whether it is claimed: it does not run, and the model is told.
                assert_eq!(page.ran(), [] as [&str; 0], "{fault:?}");
                let result = conversation(&page)[2].clone();
                assert_eq!(result["isError"], true);
                assert_eq!(
                    result["content"][0]["text"],
                    "the disk is on fire; call the fire brigade"
                );
            } else {
                assert_eq!(page.ran(), ["c1"], "{fault:?} {at}");
                assert_eq!(page.lab.stored(), whole, "{fault:?} {at}");
            }
        }
    }
}

#[test]
fn a_write_that_is_slow_at_any_commit_of_the_flow_changes_nothing() {
    let whole = without_fault();
    for heard_late in [false, true] {
        for at in 1..=COMMITS {
            let page = Page::empty();
            let session = script(&page);
            let slow = Signal::default();
            let fault = match heard_late {
                true => Fault::WaitForAnswer(slow.clone()),
                false => Fault::Wait(slow.clone()),
            };
            page.lab.storage.fail(at, fault);
            let mut prompting = page.prompting(&session);
            let ids = |session: &Session<Value>| -> Vec<String> {
                session
                    .machine()
                    .waiting_approvals()
                    .map(|it| it.id.clone())
                    .collect()
            };
            // Answers that are begun while the write is slow wait with it.
            let runtime = &page.lab.runtime;
            let mut answering: Vec<_> = ids(&session)
                .into_iter()
                .map(|id| {
                    crate::lab::waits(&page.lab.world, async move {
                        runtime
                            .answer(&id, runcontext::runtime::Answer::Approve, None)
                            .await
                    })
                })
                .collect();
            prompting.go_on();
            assert_eq!(page.ran().len(), usize::from(at > CLAIM), "{heard_late} {at}");
            slow.fire();
            for answer in &mut answering {
                answer.go_on();
            }
            answer_all(&page, &session, &mut prompting);
            assert!(prompting.done().unwrap().saved);
            assert_eq!(page.ran(), ["c1"], "{heard_late} {at}");
            assert_eq!(page.lab.stored(), whole, "{heard_late} {at}");
        }
    }
}

#[test]
fn while_every_write_fails_nothing_runs_that_is_not_claimed_and_flush_finishes_the_rest() {
    let whole = without_fault();
    for at in 1..=COMMITS {
        let page = Page::empty();
        let session = script(&page);
        for attempt in at..200 {
            page.lab.storage.fail(attempt, Fault::Refuse);
        }
        let mut prompting = page.prompting(&session);
        answer_all(&page, &session, &mut prompting);
        assert_eq!(page.ran().len(), usize::from(at > CLAIM), "{at}");
        let ended = prompting.go_on();
        assert_eq!(
            ended,
            at >= CLAIM,
            "a person who could not answer is still asked: {at}"
        );
        for attempt in 1..200 {
            page.lab.storage.forgive(attempt);
        }
        answer_all(&page, &session, &mut prompting);
        let report = prompting.done().unwrap();
        assert_eq!(report.end.outcome, Outcome::Success);
        page.lab.run(session.flush()).unwrap();
        assert_eq!(page.stored(), []);
        if at == CLAIM {
            assert_eq!(page.ran(), [] as [&str; 0]);
        } else {
            assert_eq!(page.ran(), ["c1"]);
            assert_eq!(page.lab.stored(), whole, "{at}");
        }
    }
}

#[test]
fn an_answer_that_could_not_be_saved_is_no_answer_and_may_be_given_again() {
    let page = Page::empty();
    let session = page.create();
    let call = writes_file("c1", "a.txt");
    let turn = turn_with(&page, &session, std::slice::from_ref(&call));
    let id = page.asks(&turn, &call);
    let mut asking = waiting(&page, &turn, &id);
    page.lab.storage.fail(1, Fault::Refuse);
    assert_eq!(refused(page.approve(&id)).code(), ErrorCode::StorageFailed);
    assert!(!asking.go_on());
    assert_eq!(page.stored(), known(&[("c1", "pending")]));
    page.reject(&id, "no").unwrap();
    assert_eq!(asking.done().unwrap().note.as_deref(), Some("no"));
}

#[test]
fn an_answer_whose_acknowledgement_was_lost_reaches_who_waits_when_somebody_looks() {
    let page = Page::empty();
    let session = page.create();
    let call = writes_file("c1", "a.txt");
    let turn = turn_with(&page, &session, std::slice::from_ref(&call));
    let id = page.asks(&turn, &call);
    let mut asking = waiting(&page, &turn, &id);
    page.lab.storage.fail(1, Fault::LoseAcknowledgement);
    assert_eq!(refused(page.reject(&id, "no")).code(), ErrorCode::StorageFailed);
    assert!(!asking.go_on());
    assert_eq!(refused(page.approve(&id)).code(), ErrorCode::ApprovalNotFound);
    assert_eq!(asking.done().unwrap().note.as_deref(), Some("no"));
}

#[test]
fn what_is_read_while_a_write_is_on_its_way_is_not_taken_for_newer_than_it_is() {
    // The question about the second call is saved, and not yet heard of, when the first is answered and the second after it.
    let page = Page::empty();
    let session = page.create();
    let of = [writes_file("c1", "a.txt"), writes_file("c2", "b.txt")];
    let turn = turn_with(&page, &session, &of);
    let first = page.asks(&turn, &of[0]);
    let slow = Signal::default();
    page.lab.storage.fail(1, Fault::WaitForAnswer(slow.clone()));
    let asking = crate::lab::waits(&page.lab.world, turn.gate(&of[1]));
    let runtime = &page.lab.runtime;
    let answering = crate::lab::waits(
        &page.lab.world,
        runtime.answer(&first, runcontext::runtime::Answer::Approve, None),
    );
    slow.fire();
    let second = asking.done().unwrap().decision.request_id.unwrap();
    answering.done().unwrap();
    let versions: Vec<u64> = session
        .machine()
        .approvals()
        .iter()
        .map(|it| it.version)
        .collect();
    assert_eq!(versions, [2, 1]);
    page.approve(&second).unwrap();
    assert_eq!(page.stored(), known(&[("c1", "approved"), ("c2", "approved")]));
}

#[test]
fn an_approval_that_is_not_saved_yet_is_shown_and_saved_with_the_answer() {
    let page = Page::empty();
    let session = page.create();
    let call = writes_file("c1", "a.txt");
    let turn = turn_with(&page, &session, std::slice::from_ref(&call));
    page.lab.storage.fail(1, Fault::Refuse);
    let id = page.asks(&turn, &call);
    assert_eq!((page.asked(), page.stored()), (Vec::<String>::new(), known(&[])));
    let shown: Vec<String> = session
        .machine()
        .waiting_approvals()
        .map(|it| it.id.clone())
        .collect();
    assert_eq!(shown, std::slice::from_ref(&id));
    page.approve(&id).unwrap();
    assert_eq!(page.stored(), known(&[("c1", "approved")]));
}
