//! The page dies, and another opens on what is stored: what waited still waits, and what may have run is never run again.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::rc::Rc;

use runcontext::{
    ErrorCode,
    permissions::{Action, BypassScope, Preset},
    runtime::{Answer, ApprovalOutcome, PromptOptions, Session, Signal},
    session::Outcome,
    storage::{Storage, memory::MemoryStorage},
};
use serde_json::{Value, json};

use super::{Page, called, conversation, known, message, told, turn_with, waiting, writes_file};
use crate::lab::{ID, at_once, incoming, interrupted, refused, run, says, user};

/// What a page finds that died after the first `count` commits.
fn dead_after(page: &Page, count: usize) -> MemoryStorage<Value> {
    let memory = MemoryStorage::new();
    for commit in &page.lab.storage.applied()[..count] {
        run(&page.lab.world, memory.session(ID).commit(commit.clone())).unwrap();
    }
    memory
}

/// What a page finds that died now.
pub fn copied(page: &Page) -> MemoryStorage<Value> {
    dead_after(page, page.lab.storage.applied().len())
}

/// The same as a version before this one stored it: that said of a turn where it began, and nothing more.
pub fn of_an_earlier_version(page: &Page) -> MemoryStorage<Value> {
    let memory = MemoryStorage::new();
    for commit in page.lab.storage.applied() {
        let mut commit = (*commit).clone();
        if let Some(turn) = commit.settings.get_mut("openTurn").filter(|turn| !turn.is_null()) {
            *turn = json!(0);
        }
        run(&page.lab.world, memory.session(ID).commit(Rc::new(commit))).unwrap();
    }
    memory
}

/// A turn with one call that a person was asked about, to its end.
fn whole(answer: Answer) -> Page {
    let page = Page::empty();
    let session = page.create();
    page.lab
        .model
        .answers(message(&[writes_file("c1", "a.txt")]))
        .answers(says("done"));
    let prompting = page.prompting(&session);
    page.answer(&page.only(), answer).unwrap();
    assert!(prompting.done().unwrap().saved);
    drop(session);
    page
}

// Commits of that turn, the session's first included: created, dispatched, the call, asked, answered, and where it was
// approved claimed; then the result, the last words, settled.
const CALLED: usize = 3;
const ASKED: usize = 4;
const ANSWERED: usize = 5;
const CLAIMED: usize = 6;
const LAST_WORDS: usize = 8;

fn reopened(page: &Page, count: usize) -> (Page, Rc<Session<Value>>) {
    let page = Page::on(dead_after(page, count));
    let session = page.lab.open();
    (page, session)
}

fn ids(session: &Session<Value>) -> Vec<String> {
    session.machine().interrupted().unwrap().pending_approvals
}

#[test]
fn a_turn_that_died_at_any_commit_is_resumed_and_its_tool_runs_at_most_once() {
    let first = whole(Answer::Approve);
    assert_eq!(first.lab.storage.applied().len(), LAST_WORDS + 1);
    for count in 2..=LAST_WORDS {
        let (page, session) = reopened(&first, count);
        let interrupted_turn = session.machine().interrupted().unwrap();
        let is_open = (CALLED..=CLAIMED).contains(&count);
        assert_eq!(interrupted_turn.unanswered.len(), usize::from(is_open), "{count}");
        let waits = [ASKED, ANSWERED].contains(&count);
        assert_eq!(
            interrupted_turn.pending_approvals.len(),
            usize::from(waits),
            "{count}"
        );
        assert_eq!(page.asked(), if count == ASKED { ids(&session) } else { vec![] });
        if count < LAST_WORDS {
            page.lab.model.answers(says("done"));
        }
        let mut resuming = page.resuming(&session);
        assert_eq!(resuming.go_on(), count != ASKED, "{count}");
        if count == ASKED {
            assert_eq!(page.lab.tools.calls(), 0);
            page.approve(&page.only()).unwrap();
        }
        let report = resuming.done().unwrap();
        assert_eq!((report.end.outcome, report.saved), (Outcome::Success, true));
        assert_eq!(page.ran().len(), usize::from(waits), "{count}");
        let mut expected = vec![user("go on", 2_000), message(&[writes_file("c1", "a.txt")])];
        match count {
            2 => _ = expected.pop(),
            ASKED | ANSWERED => {
                let mut result = told("c1", "write_file", "done", false);
                result["timestamp"] = json!(3_000);
                expected.push(result);
            }
            CALLED | CLAIMED => expected.push(interrupted("c1", "write_file", 6)),
            _ => expected.push(told("c1", "write_file", "done", false)),
        }
        expected.push(says("done"));
        assert_eq!(conversation(&page), expected, "{count}");
        assert_eq!(page.stored(), []);
        assert_eq!(session.machine().interrupted(), None);
        // And on it goes.
        page.lab.model.answers(says("hi"));
        assert!(page.lab.prompt(&session, "hello").unwrap().saved);
    }
}

#[test]
fn an_answer_may_be_given_before_the_turn_is_resumed_by_whoever_opens_the_page() {
    let first = whole(Answer::Approve);
    for session_is_open in [false, true] {
        for (answer, runs) in [(Answer::Approve, 1), (Answer::Reject(Some("no".to_owned())), 0)] {
            let page = Page::on(dead_after(&first, ASKED));
            let held = session_is_open.then(|| page.lab.open());
            page.answer(&page.only(), answer).unwrap();
            drop(held);
            let session = page.lab.open();
            assert_eq!(ids(&session).len(), runs);
            page.lab.model.answers(says("done"));
            page.resuming(&session).done().unwrap();
            assert_eq!(page.ran().len(), runs);
            let refusal = "User rejected this tool call. Reason: no";
            let mut result = match runs {
                1 => told("c1", "write_file", "done", false),
                _ => told("c1", "write_file", refusal, true),
            };
            result["timestamp"] = json!(3_000);
            assert_eq!(conversation(&page)[2], result);
            assert_eq!(page.lab.model.seen()[0].request.messages()[2], result);
            assert_eq!(page.stored(), []);
        }
    }
}

#[test]
fn a_call_that_was_rejected_before_the_page_died_is_told_the_model_at_any_later_commit() {
    let first = whole(Answer::Reject(Some("no".to_owned())));
    for count in ANSWERED..first.lab.storage.applied().len() {
        let (page, session) = reopened(&first, count);
        assert_eq!(ids(&session), [] as [&str; 0]);
        page.lab.model.answers(says("done"));
        page.resuming(&session).done().unwrap();
        assert_eq!(page.lab.tools.calls(), 0);
        let refusal = "User rejected this tool call. Reason: no";
        let mut result = told("c1", "write_file", refusal, true);
        result["timestamp"] = json!(if count == ANSWERED { 3_000 } else { 2_000 });
        assert_eq!(conversation(&page)[2], result);
        assert_eq!(page.stored(), []);
    }
}

#[test]
fn abandoning_ends_every_approval_and_runs_nothing() {
    for answer in [Answer::Approve, Answer::Reject(None)] {
        let first = whole(answer);
        for count in 2..first.lab.storage.applied().len() {
            let (page, session) = reopened(&first, count);
            let asked = page.asked();
            assert!(page.lab.run(session.abandon()).unwrap().saved);
            assert_eq!(page.stored(), []);
            assert_eq!(session.machine().approvals(), []);
            for id in asked {
                assert_eq!(refused(page.approve(&id)).code(), ErrorCode::ApprovalNotFound);
            }
            assert_eq!((page.lab.tools.calls(), page.lab.model.calls()), (0, 0));
            if (CALLED..=ANSWERED).contains(&count) {
                assert_eq!(session.machine().bodies()[2], interrupted("c1", "write_file", 6));
            }
        }
    }
}

#[test]
fn a_host_goes_on_with_what_waits_and_finds_the_rest_answered() {
    let page = Page::empty();
    let session = page.create();
    let of = [
        writes_file("c1", "a.txt"),
        called("c2", "run", json!({})),
        called("c3", "fetch", json!({})),
    ];
    let turn = turn_with(&page, &session, &of);
    let [first, second, third] = [0, 1, 2].map(|at| page.asks(&turn, &of[at]));
    page.approve(&first).unwrap();
    assert_eq!(
        waiting(&page, &turn, &first).done().unwrap().outcome,
        ApprovalOutcome::Approved
    );
    page.approve(&third).unwrap();

    let page = Page::on(copied(&page));
    let session = page.lab.open();
    let left = session.machine().interrupted().unwrap();
    assert_eq!(left.unanswered, of);
    assert_eq!(left.pending_approvals, [second.clone(), third.clone()]);
    let turn = page.lab.run(session.resume()).unwrap();
    assert_eq!(turn.open_calls(), of[1..], "what was claimed may have run");
    assert_eq!(session.machine().bodies()[2], interrupted("c1", "write_file", 6));
    assert_eq!(page.stored(), known(&[("c2", "pending"), ("c3", "approved")]));

    // The ids of before are good, and gating again gives the same.
    assert_eq!(page.asks(&turn, &of[1]), second);
    assert_eq!(
        waiting(&page, &turn, &third).done().unwrap().outcome,
        ApprovalOutcome::Approved
    );
    let asking = waiting(&page, &turn, &second);
    page.approve(&second).unwrap();
    assert_eq!(asking.done().unwrap().outcome, ApprovalOutcome::Approved);
    let results = [
        told("c2", "run", "done", false),
        told("c3", "fetch", "done", false),
    ];
    page.lab.run(turn.append(results.map(incoming).to_vec())).unwrap();
    page.lab.run(turn.finish(Outcome::Success, None)).unwrap();
    assert_eq!(page.stored(), []);
}

#[test]
fn a_deny_rule_that_is_added_before_an_approved_turn_is_resumed_wins() {
    for by_prompt in [false, true] {
        let page = Page::on(dead_after(&whole(Answer::Approve), ANSWERED));
        let session = page.lab.open();
        let id = ids(&session)[0].clone();
        page.add_rule(json!({ "tool_pattern": "write_file", "action": "deny", "priority": 1 }));
        if by_prompt {
            page.lab.model.answers(says("pity"));
            page.resuming(&session).done().unwrap();
        } else {
            let turn = page.lab.run(session.resume()).unwrap();
            let told = waiting(&page, &turn, &id).done().unwrap();
            assert_eq!(told.outcome, ApprovalOutcome::Rejected);
            page.lab.run(turn.cancel()).unwrap();
        }
        assert_eq!(page.lab.tools.calls(), 0);
        assert_eq!(page.stored(), []);
    }
}

#[test]
fn a_link_that_was_moved_before_an_approved_turn_is_resumed_is_asked_about_again() {
    for by_prompt in [false, true] {
        let page = Page::on(dead_after(&whole(Answer::Approve), ANSWERED));
        let session = page.lab.open();
        let id = ids(&session)[0].clone();
        page.host.link("/ws/a.txt", "/etc/passwd");
        if by_prompt {
            page.lab.model.answers(says("done"));
            let resuming = page.resuming(&session);
            assert_eq!(page.lab.tools.calls(), 0);
            let second = page.only();
            assert_ne!(second, id);
            page.approve(&second).unwrap();
            resuming.done().unwrap();
            assert_eq!(page.ran(), ["c1"]);
        } else {
            let turn = page.lab.run(session.resume()).unwrap();
            let told = waiting(&page, &turn, &id).done().unwrap();
            assert_eq!(told.outcome, ApprovalOutcome::Superseded);
            assert_ne!(page.only(), id);
            page.lab.run(turn.cancel()).unwrap();
        }
        assert_eq!(page.stored(), []);
    }
}

#[test]
fn a_call_that_is_allowed_when_the_turn_is_resumed_is_not_run_again_after_another_death() {
    let page = Page::on(dead_after(&whole(Answer::Approve), ASKED));
    let session = page.lab.open();
    session.bypass(BypassScope::All, None).unwrap();
    let never = Signal::default();
    page.counts("c1", Some(never));
    let mut resuming = page.resuming(&session);
    assert!(!resuming.go_on());
    assert_eq!(page.ran(), ["c1"]);

    // The page dies while the tool runs.
    let page = page.beside();
    let session = page.lab.open();
    assert_eq!(ids(&session), [] as [&str; 0]);
    page.lab.model.answers(says("done"));
    page.resuming(&session).done().unwrap();
    assert_eq!(page.lab.tools.calls(), 0);
    assert_eq!(conversation(&page)[2], interrupted("c1", "write_file", 6));
}

#[test]
fn a_page_that_dies_while_an_approved_tool_runs_does_not_run_it_again() {
    let page = Page::empty();
    let session = page.create();
    let never = Signal::default();
    page.counts("c1", Some(never));
    page.lab.model.answers(message(&[writes_file("c1", "a.txt")]));
    let mut prompting = page.prompting(&session);
    page.approve(&page.only()).unwrap();
    assert!(!prompting.go_on());
    assert_eq!(page.ran(), ["c1"]);

    let page = page.beside();
    let session = page.lab.open();
    page.lab.model.answers(says("done"));
    page.resuming(&session).done().unwrap();
    assert_eq!(page.lab.tools.calls(), 0);
    assert_eq!(conversation(&page)[2], interrupted("c1", "write_file", 6));
    assert_eq!(page.stored(), []);
}

#[test]
fn while_an_approval_waits_nothing_else_begins_before_the_turn_goes_on() {
    let page = Page::on(dead_after(&whole(Answer::Approve), ASKED));
    let session = page.lab.open();
    let refusals = |code: ErrorCode| {
        let before = page.lab.stored();
        let codes = [
            refused(page.lab.prompt(&session, "more")).code(),
            refused(at_once(session.begin(&json!("more"), &PromptOptions::default()))).code(),
            refused(page.lab.run(session.set_preset(Some(Preset::DangerFullAccess)))).code(),
            refused(
                page.lab
                    .run(session.configure(None, Some("other".to_owned()), None)),
            )
            .code(),
        ];
        assert_eq!(codes, [code; 4]);
        assert_eq!(page.lab.stored(), before);
    };
    refusals(ErrorCode::SessionInterrupted);
    let turn = page.lab.run(session.resume()).unwrap();
    refusals(ErrorCode::SessionBusy);
    page.lab.run(turn.cancel()).unwrap();
    page.lab
        .run(session.set_preset(Some(Preset::DangerFullAccess)))
        .unwrap();
}

#[test]
fn a_session_that_is_let_go_of_keeps_its_approval_and_one_that_is_deleted_does_not() {
    let page = Page::on(dead_after(&whole(Answer::Approve), ASKED));
    let session = page.lab.open();
    let id = page.only();
    session.dispose().unwrap();
    assert_eq!(page.only(), id);
    // It may be answered all the same.
    page.approve(&id).unwrap();
    assert_eq!(page.stored(), known(&[("c1", "approved")]));
    page.lab.run(page.lab.runtime.delete_session(ID)).unwrap();
    assert_eq!((page.asked(), page.stored()), (Vec::<String>::new(), known(&[])));
    assert_eq!(refused(page.approve(&id)).code(), ErrorCode::ApprovalNotFound);
}

#[test]
fn resuming_a_turn_is_stopped_like_any_other() {
    let page = Page::on(dead_after(&whole(Answer::Approve), ASKED));
    let session = page.lab.open();
    let stop = Signal::default();
    let mut resuming = crate::lab::waits(&page.lab.world, session.resume_prompt(&stop));
    assert!(!resuming.go_on());
    stop.fire();
    let report = resuming.done().unwrap();
    assert_eq!((report.end.outcome, report.saved), (Outcome::Cancelled, true));
    assert_eq!(page.stored(), []);
    assert_eq!(session.machine().bodies()[2], interrupted("c1", "write_file", 6));
    let fired = Signal::default();
    fired.fire();
    let (page, session) = reopened(&whole(Answer::Approve), ASKED);
    let before = page.lab.stored();
    assert_eq!(
        refused(page.lab.run(session.resume_prompt(&fired))).code(),
        ErrorCode::Aborted
    );
    assert_eq!(page.lab.stored(), before);
    assert_eq!(ids(&session).len(), 1);
}

#[test]
fn of_calls_that_share_an_id_each_goes_on_for_itself_after_a_restart() {
    let asked = |page: &Page| {
        let asked = page.lab.run(page.lab.runtime.pending_approvals()).unwrap();
        let mut asked: Vec<(String, String)> = asked
            .into_iter()
            .map(|(_, approval)| (approval.paths[0].requested.clone(), approval.id))
            .collect();
        asked.sort();
        asked
    };
    for what in ["it runs", "it was rejected"] {
        let first = Page::empty();
        // The tool goes on until the page dies.
        first.counts("c1", Some(Signal::default()));
        let session = first.create();
        let twins = [writes_file("c1", "a.txt"), writes_file("c1", "b.txt")];
        first.lab.model.answers(message(&twins));
        let mut dies = first.prompting(&session);
        let id = asked(&first)[0].1.clone();
        match what {
            "it runs" => drop(first.approve(&id).unwrap()),
            _ => drop(first.reject(&id, "no").unwrap()),
        }
        assert!(!dies.go_on());

        let page = Page::on(copied(&first));
        let session = page.lab.open();
        page.lab.model.answers(says("done"));
        let resuming = page.resuming(&session);
        let waits = asked(&page);
        assert_eq!(waits.len(), 1, "{what}");
        assert_eq!(waits[0].0, "b.txt", "{what}");
        page.approve(&waits[0].1).unwrap();
        assert!(resuming.done().unwrap().saved);
        let ran: Vec<Value> = page.lab.tools.called().into_iter().map(|(.., it)| it).collect();
        assert_eq!(ran, [json!({ "path": "b.txt" })], "{what}");
        let results = &conversation(&page)[2..4];
        let text = match what {
            "it runs" => "The tool call was interrupted before it finished. It may be retried.",
            _ => "User rejected this tool call. Reason: no",
        };
        assert_eq!(results[0]["content"][0]["text"], text);
        assert_eq!(results[1]["content"][0]["text"], "done");
        assert_eq!(page.stored(), [], "{what}");
    }
}

#[test]
fn a_run_context_that_was_loosened_in_mid_turn_loosens_nothing_after_a_restart_either() {
    let first = Page::empty();
    let session = first.create_with(json!({ "runContext": {} }));
    let call = writes_file("c1", "out/a.txt");
    first.lab.model.answers(message(std::slice::from_ref(&call)));
    let mut dies = first.prompting(&session);
    let id = first.only();
    let looser = || crate::lab::run_context(json!({ "allow_fs_writes": ["out"] }));
    first.lab.run(session.set_run_context(Some(looser()))).unwrap();
    assert!(!dies.go_on());

    let outcome = |page: &Page, session: &Session<Value>| {
        page.lab.run(session.explain(&call)).unwrap().decision.outcome
    };
    for end in ["resumed", "abandoned"] {
        let page = Page::on(copied(&first));
        let session = page.lab.open();
        assert_eq!(outcome(&page, &session), Action::Require, "{end}");
        // Showing what is stored makes no difference.
        page.lab.run(session.reload(None)).unwrap();
        assert_eq!(outcome(&page, &session), Action::Require, "{end}");
        if end == "resumed" {
            page.lab.model.answers(says("done"));
            let mut resuming = page.resuming(&session);
            assert!(!resuming.go_on());
            assert_eq!(page.lab.tools.calls(), 0);
            assert_eq!(page.only(), id);
            page.approve(&id).unwrap();
            assert!(resuming.done().unwrap().saved);
            assert_eq!(page.ran(), ["c1"]);
        } else {
            page.lab.run(session.abandon()).unwrap();
        }
        // Then it counts.
        assert_eq!(outcome(&page, &session), Action::Allow, "{end}");
    }
}

#[test]
fn what_another_page_loosens_in_mid_turn_loosens_nothing_after_a_restart_either() {
    let first = Page::empty();
    let session = first.create_with(json!({ "runContext": {} }));
    let call = writes_file("c1", "out/a.txt");
    first.lab.model.answers(message(std::slice::from_ref(&call)));
    let _dies = first.prompting(&session);
    let other = first.beside();
    let theirs = other.lab.open();
    let looser = crate::lab::run_context(json!({ "allow_fs_writes": ["out"] }));
    other.lab.run(theirs.set_run_context(Some(looser))).unwrap();
    let last = first.beside();
    let session = last.lab.open();
    let decided = last.lab.run(session.explain(&call)).unwrap();
    assert_eq!(decided.decision.outcome, Action::Require);
    last.lab.run(session.abandon()).unwrap();
    let decided = last.lab.run(session.explain(&call)).unwrap();
    assert_eq!(decided.decision.outcome, Action::Allow);
}
