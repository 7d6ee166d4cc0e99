//! Two pages on one store: whoever answers, the page that waits hears of it, and one of them runs the call.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use runcontext::{
    ErrorCode,
    runtime::{Answer, ApprovalOutcome},
    session::Outcome,
};

use super::{Page, conversation, known, message, told, turn_with, waiting, writes_file};
use crate::lab::{refused, says, waits};

/// A page in which a prompt waits for an answer about `c1`.
fn asking() -> (Page, std::rc::Rc<runcontext::runtime::Session<serde_json::Value>>) {
    let page = Page::empty();
    let session = page.create();
    page.lab
        .model
        .answers(message(&[writes_file("c1", "a.txt")]))
        .answers(says("done"));
    (page, session)
}

#[test]
fn an_answer_that_is_given_in_another_page_reaches_the_one_that_waits() {
    for (answer, event) in [(Answer::Approve, "approved"), (Answer::Reject(None), "rejected")] {
        let (page, session) = asking();
        let mut prompting = page.prompting(&session);
        let other = page.beside();
        other.answer(&other.only(), answer).unwrap();
        page.lab.events();
        page.lab.world.a_while_later();
        assert!(prompting.go_on());
        prompting.done().unwrap();
        assert_eq!(page.ran().len(), usize::from(event == "approved"));
        assert_eq!(page.lab.events()[0], event);
        assert_eq!(other.lab.tools.calls(), 0);
        assert_eq!(page.stored(), []);
    }
}

#[test]
fn who_has_waited_for_long_looks_less_often_and_hears_of_an_answer_all_the_same() {
    let (page, session) = asking();
    let mut prompting = page.prompting(&session);
    for _ in 0..99 {
        page.lab.world.a_while_later();
        prompting.go_on();
    }
    let other = page.beside();
    other.answer(&other.only(), Answer::Approve).unwrap();
    let mut later = 99;
    while page.ran().is_empty() && later < 200 {
        later += 1;
        page.lab.world.a_while_later();
        prompting.go_on();
    }
    // The first multiple of 1 + 102 / 20.
    assert_eq!(later, 102);
    prompting.done().unwrap();
}

#[test]
fn of_two_pages_that_answer_one_counts_and_the_other_is_told_so() {
    for other_first in [false, true] {
        let (page, session) = asking();
        let prompting = page.prompting(&session);
        let (other, id) = (page.beside(), page.only());
        let pages = if other_first {
            [&other, &page]
        } else {
            [&page, &other]
        };
        assert_eq!(pages[0].approve(&id).unwrap().outcome, ApprovalOutcome::Approved);
        assert_eq!(
            refused(pages[1].reject(&id, "no")).code(),
            ErrorCode::ApprovalNotFound
        );
        page.lab.world.a_while_later();
        prompting.done().unwrap();
        assert_eq!(page.ran(), ["c1"]);
        assert_eq!(page.stored(), []);
    }
}

#[test]
fn of_two_answers_that_are_saved_at_once_in_two_pages_one_counts() {
    let (page, session) = asking();
    let prompting = page.prompting(&session);
    let (other, id) = (page.beside(), page.only());
    let held = runcontext::runtime::Signal::default();
    let wait = || crate::lab::Fault::Wait(held.clone());
    page.lab.storage.fail(1, wait());
    other.lab.storage.fail(1, wait());
    let mut here = waits(
        &page.lab.world,
        page.lab.runtime.answer(&id, Answer::Approve, None),
    );
    let mut there = waits(
        &other.lab.world,
        other.lab.runtime.answer(&id, Answer::Reject(None), None),
    );
    assert!(!here.go_on() && !there.go_on());
    held.fire();
    assert_eq!(there.done().unwrap().outcome, ApprovalOutcome::Rejected);
    assert_eq!(refused(here.done()).code(), ErrorCode::ApprovalNotFound);
    prompting.done().unwrap();
    assert_eq!(page.lab.tools.calls(), 0);
    assert_eq!(page.stored(), []);
}

#[test]
fn two_pages_that_resume_one_turn_run_its_call_once() {
    let (page, session) = asking();
    drop(page.prompting(&session));
    let pages = [page.beside(), page.beside()];
    let sessions = [0, 1].map(|at| pages[at].lab.open());
    let mut resuming = [0, 1].map(|at| {
        pages[at].lab.model.answers(says("done"));
        pages[at].resuming(&sessions[at])
    });
    let id = pages[0].only();
    assert_eq!(pages[1].only(), id);
    pages[1].approve(&id).unwrap();
    for _ in 0..3 {
        for (page, resuming) in pages.iter().zip(&mut resuming) {
            page.lab.world.a_while_later();
            resuming.go_on();
        }
    }
    let ran: usize = pages.iter().map(|page| page.ran().len()).sum();
    assert_eq!(ran, 1);
    let outcomes = resuming.map(|it| it.done().unwrap().end.outcome);
    assert!(outcomes.contains(&Outcome::Success) && outcomes.contains(&Outcome::Error));
    assert_eq!(pages[0].stored(), []);
}

#[test]
fn what_another_page_asks_about_again_is_what_this_one_waits_for() {
    let (page, session) = asking();
    let mut prompting = page.prompting(&session);
    let (other, first) = (page.beside(), page.only());
    page.host.link("/ws/a.txt", "/etc/a.txt");
    other.host.link("/ws/a.txt", "/etc/a.txt");
    assert_eq!(
        other.approve(&first).unwrap().outcome,
        ApprovalOutcome::Superseded
    );
    page.lab.world.a_while_later();
    assert!(!prompting.go_on());
    let second = page.only();
    assert_ne!(second, first);
    other.approve(&second).unwrap();
    page.lab.world.a_while_later();
    assert!(prompting.go_on());
    assert_eq!(page.ran(), ["c1"]);
    assert_eq!(page.stored(), []);
}

#[test]
fn an_approval_that_another_page_made_as_the_turn_ended_is_gone_once_the_session_is_opened() {
    let (page, session) = asking();
    let prompting = page.prompting(&session);
    let (other, first) = (page.beside(), page.only());
    other.host.link("/ws/a.txt", "/etc/a.txt");
    other.approve(&first).unwrap();
    // This page has not heard of it.
    drop(waits(&page.lab.world, session.abort()));
    prompting.done().unwrap();
    assert_eq!(page.stored(), known(&[("c1", "pending")]));
    let third = page.beside();
    let left = third.only();
    assert_eq!(refused(third.approve(&left)).code(), ErrorCode::ApprovalNotFound);
    assert_eq!(page.stored(), []);
}

#[test]
fn opening_a_session_whose_turn_runs_elsewhere_ends_none_of_its_approvals() {
    let (page, session) = asking();
    let mut prompting = page.prompting(&session);
    let other = page.beside();
    let there = other.lab.open();
    assert_eq!(
        there.machine().interrupted().unwrap().pending_approvals,
        other.asked()
    );
    assert_eq!(page.stored(), known(&[("c1", "pending")]));
    page.approve(&page.only()).unwrap();
    assert!(prompting.go_on());
    assert_eq!(page.ran(), ["c1"]);
}

#[test]
fn a_turn_that_another_page_abandons_tells_the_one_that_waits() {
    let (page, session) = asking();
    let mut prompting = page.prompting(&session);
    let other = page.beside();
    let there = other.lab.open();
    other.lab.run(there.abandon()).unwrap();
    page.lab.world.a_while_later();
    assert!(prompting.go_on());
    let report = prompting.done().unwrap();
    assert_eq!(report.end.outcome, Outcome::Error);
    assert_eq!(report.save_error.unwrap().code(), ErrorCode::Conflict);
    assert_eq!(page.lab.tools.calls(), 0);
    assert_eq!(conversation(&page).len(), 3);
    assert_eq!(page.stored(), []);
    let ended = "the question about this call has ended without an answer";
    assert_eq!(
        session.machine().bodies()[2],
        told("c1", "write_file", ended, true)
    );
}

#[test]
fn abandoning_ends_also_what_another_page_has_asked_since() {
    let (page, session) = asking();
    let _dies = page.prompting(&session);
    let (one, two) = (page.beside(), page.beside());
    let there = one.lab.open();
    two.host.link("/ws/a.txt", "/etc/a.txt");
    let first = two.only();
    assert_eq!(two.approve(&first).unwrap().outcome, ApprovalOutcome::Superseded);
    one.lab.run(there.abandon()).unwrap();
    assert_eq!(page.stored(), []);
}

#[test]
fn a_host_that_waits_hears_of_an_answer_given_elsewhere() {
    let page = Page::empty();
    let session = page.create();
    let call = writes_file("c1", "a.txt");
    let turn = turn_with(&page, &session, std::slice::from_ref(&call));
    let id = page.asks(&turn, &call);
    let mut asking = waiting(&page, &turn, &id);
    let other = page.beside();
    other.reject(&id, "from there").unwrap();
    assert!(!asking.go_on());
    page.lab.world.a_while_later();
    let told = asking.done().unwrap();
    assert_eq!(
        (told.outcome, told.note.as_deref()),
        (ApprovalOutcome::Rejected, Some("from there"))
    );
}
