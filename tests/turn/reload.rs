//! `reload`: what is stored takes the place of what is here, and what could not be saved is forked or dropped.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::rc::Rc;

use runcontext::{
    Error, ErrorCode,
    context::CompactionCheckpoint,
    message::MessageIndex,
    permissions::{Action, Preset},
    runtime::{PromptOptions, RuntimeEvent, Session, Signal},
    session::{NewSession, Outcome, Pending, ToolCall},
};
use serde_json::{Value, json};

use crate::{
    expect::{
        Expected, HAIKU, HAIKU_ID, HAIKU_LOCATION, LONG_TURN_COMMITS, Way, dispatched, first_checkpoint,
        haiku_record, haiku_snapshot, long_turn, long_turn_after, offering_haiku, said, typed,
    },
    lab::{Fault, ID, Lab, Stored, at_once, incoming, random::Random, refused, says, waits},
    shown::store,
};

/// Two pages with one session open, and the skill `haiku`.
fn two_pages() -> (Lab, Rc<Session<Value>>, Lab, Rc<Session<Value>>) {
    let one = Lab::empty();
    let first = one.create();
    let two = Lab::on(one.storage.memory.clone(), true);
    two.run(two.runtime.add_skill(HAIKU, HAIKU_LOCATION, "project"))
        .unwrap();
    let second = two.open();
    (one, first, two, second)
}

/// A prompt of the second page with a skill, after the first page ran the long turn.
fn conflict() -> (Lab, Rc<Session<Value>>, Lab, Rc<Session<Value>>) {
    let (one, first, two, second) = two_pages();
    long_turn(&one, &first, Way::Prompt);
    two.world.at(3_000.0);
    two.model.answers(says("hi"));
    let options = PromptOptions {
        skills: vec![HAIKU_ID.to_owned()],
        ..PromptOptions::default()
    };
    let report = two.prompt_with(&second, &json!("hello"), &options).unwrap();
    assert_eq!(report.save_error.unwrap().code(), ErrorCode::Conflict);
    two.events();
    (one, first, two, second)
}

/// The same records, of the session `id`.
fn of(id: &str, stored: &Stored) -> Stored {
    let text = serde_json::to_string(stored).unwrap();
    let text = text.replace(&format!("\\\"{ID}\\\""), &format!("\\\"{id}\\\""));
    serde_json::from_str(&text.replace(&format!("\"{ID}\""), &format!("\"{id}\""))).unwrap()
}

/// The records of several sessions.
fn together(all: &[Stored]) -> Stored {
    let mut together = Stored::new();
    for (store, records) in all.iter().flatten() {
        together.entry(store.clone()).or_default().extend(records.clone());
    }
    together
}

/// What the first page stored, and the skill.
fn stored_by_the_first() -> Expected {
    long_turn_after(LONG_TURN_COMMITS).with(|it| it.shared = vec![haiku_record()])
}

/// What the second page kept in memory, as a new session that was made at `now`.
fn forked(now: f64) -> Expected {
    Expected {
        updated_at: now,
        changed: json!({ "outcome": "success" }),
        messages: vec![typed("hello", 3_000), said("hi")],
        snapshots: vec![haiku_snapshot(0, 3_000)],
        checkpoints: vec![offering_haiku(first_checkpoint(1, 3_000))],
        ..Expected::created()
    }
}

/// The records of a fork that was made at `now`.
fn fork_records(id: &str, now: f64, expected: &Expected) -> Stored {
    let mut stored = of(id, &expected.stored());
    let record = stored.get_mut("chat_sessions").unwrap();
    record.get_mut(&format!("\"{id}\"")).unwrap()["createdAt"] = json!(now);
    stored
}

#[test]
fn a_session_shows_what_another_page_stored_once_it_is_reloaded() {
    let (one, first, two, second) = two_pages();
    long_turn(&one, &first, Way::Prompt);
    one.run(first.set_title("theirs".to_owned())).unwrap();
    assert_eq!(second.machine().message_count(), 0);
    two.events();
    assert_eq!(two.run(second.reload(None)).unwrap(), None);
    assert_eq!(two.events(), ["reloaded"]);
    let whole = long_turn_after(LONG_TURN_COMMITS).messages;
    let whole: Vec<Value> = whole.into_iter().map(|(body, _)| body).collect();
    assert_eq!(second.machine().bodies(), whole);
    assert_eq!(second.machine().header().title.as_deref(), Some("theirs"));
    assert_eq!(second.machine().checkpoints().len(), 1);
    assert_eq!(second.machine().header().last_outcome, Some(Outcome::Success));
    // And on it goes, from there.
    two.model.answers(says("hi"));
    assert!(two.prompt(&second, "more").unwrap().saved);
    assert_eq!(two.stored()["messages"].len(), 7);
}

#[test]
fn nothing_is_read_where_a_save_is_pending_and_nobody_says_what_becomes_of_it() {
    let (one, _first, two, second) = conflict();
    let error = refused(two.run(second.reload(None)));
    assert_eq!(error.code(), ErrorCode::PendingSave);
    assert_eq!(
        error.message(),
        "another tab or worker wrote this conversation and a save is pending; call `reload` with `pending` set to `fork` or `discard` first"
    );
    assert_eq!(second.machine().message_count(), 2);
    assert_eq!(two.events(), [] as [&str; 0]);
    assert_eq!(one.stored(), stored_by_the_first().stored());
    // Where a write failed for another reason, writing again may help.
    let lab = Lab::empty();
    let session = lab.create();
    lab.storage.always(Some(Fault::Refuse));
    assert!(!long_turn(&lab, &session, Way::Begin).saved);
    let error = refused(lab.run(session.reload(None)));
    assert_eq!(error.code(), ErrorCode::PendingSave);
    assert_eq!(
        error.message(),
        "a save of this session is pending; call `flush()` first"
    );
}

#[test]
fn what_is_pending_is_dropped_and_what_is_stored_is_shown() {
    let (one, first, two, second) = conflict();
    let asked = (two.model.calls(), two.tools.calls());
    assert_eq!(two.run(second.reload(Some(Pending::Discard))).unwrap(), None);
    assert_eq!(two.events(), ["reloaded"]);
    assert_eq!((two.model.calls(), two.tools.calls()), asked);
    assert_eq!(second.machine().save_error(), None);
    assert_eq!(second.machine().bodies(), first.machine().bodies());
    assert_eq!(second.machine().checkpoints(), first.machine().checkpoints());
    assert_eq!(second.machine().snapshots(), []);
    assert_eq!(second.machine().projection(), None);
    assert_eq!(one.stored(), stored_by_the_first().stored());
    two.model.answers(says("hi"));
    assert!(two.prompt(&second, "more").unwrap().saved);
    second.dispose().unwrap();
}

#[test]
fn what_is_pending_becomes_a_new_session_behind_what_was_saved_before() {
    let (one, first, two, second) = conflict();
    two.world.at(4_000.0);
    let created = Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = created.clone();
    two.runtime.subscribe(Rc::new(move |event| {
        seen.borrow_mut().push(event.clone());
        Ok(())
    }));
    let id = two.run(second.reload(Some(Pending::Fork))).unwrap().unwrap();
    assert_eq!(*created.borrow(), [RuntimeEvent::SessionCreated(id.clone())]);
    assert_eq!(two.events(), ["reloaded"]);
    let fork = fork_records(&id, 4_000.0, &forked(4_000.0));
    assert_eq!(one.stored(), together(&[stored_by_the_first().stored(), fork]));
    // This one shows what is stored; nothing is pending; both go on.
    assert_eq!(second.machine().bodies(), first.machine().bodies());
    assert_eq!(second.machine().save_error(), None);
    let opened = two.run(two.runtime.open_session(&id)).unwrap();
    assert_eq!(opened.machine().interrupted(), None);
    for session in [&second, &opened] {
        two.model.answers(says("hi"));
        assert!(two.prompt(session, "more").unwrap().saved);
    }
    assert_eq!(two.model.calls(), 3);
    // With the prompt that the model saw: the fork replays it.
    assert_eq!(
        opened.machine().system_prompt_at(1).unwrap(),
        opened.machine().system_prompt_at(3).unwrap()
    );
}

#[test]
fn a_conflict_at_any_commit_of_a_turn_forks_to_the_whole_turn() {
    for at in 1..LONG_TURN_COMMITS {
        let lab = Lab::empty();
        let session = lab.create();
        for attempt in at..100 {
            lab.storage.fail(attempt, Fault::Conflict);
        }
        assert!(!long_turn(&lab, &session, Way::Prompt).saved);
        for attempt in 1..100 {
            lab.storage.forgive(attempt);
        }
        let before = lab.stored();
        assert_eq!(before, long_turn_after(at).stored());
        let id = lab.run(session.reload(Some(Pending::Fork))).unwrap().unwrap();
        let whole = long_turn_after(LONG_TURN_COMMITS).with(|it| {
            (it.commits, it.conversation, it.settings) = (1, 1, 0);
        });
        let fork = fork_records(&id, 2_000.0, &whole);
        assert_eq!(lab.stored(), together(&[before, fork]), "{at}");
        // What is stored of this one is a turn that was cut off, unless nothing of it is.
        let interrupted = session.machine().interrupted().is_some();
        assert_eq!(interrupted, at > 1, "{at}");
        assert_eq!((lab.model.calls(), lab.tools.calls()), (2, 2));
    }
}

#[test]
fn a_fork_that_fails_leaves_all_of_it_pending_and_is_made_once_however_often_it_is_tried() {
    for fault in [Fault::Refuse, Fault::LoseAcknowledgement, Fault::Conflict] {
        let (one, first, two, second) = conflict();
        two.world.at(4_000.0);
        let shown = second.machine().bodies().to_vec();
        let lost = matches!(fault, Fault::LoseAcknowledgement);
        for _ in 0..3 {
            two.storage.fail(1, fault.clone());
            refused(two.run(second.reload(Some(Pending::Fork))));
            assert_eq!(second.machine().bodies(), shown);
            assert_eq!(
                second.machine().save_error().map(Error::code),
                Some(ErrorCode::Conflict)
            );
            assert_eq!(one.stored()["chat_sessions"].len(), if lost { 2 } else { 1 });
            assert_eq!(two.events(), [] as [&str; 0]);
        }
        let id = two.run(second.reload(Some(Pending::Fork))).unwrap().unwrap();
        let fork = fork_records(&id, 4_000.0, &forked(4_000.0));
        assert_eq!(one.stored(), together(&[stored_by_the_first().stored(), fork]));
        assert_eq!(second.machine().bodies(), first.machine().bodies());
    }
}

#[test]
fn a_read_that_fails_leaves_all_of_it_pending() {
    for pending in [None, Some(Pending::Fork), Some(Pending::Discard)] {
        let (one, first, two, second) = match pending {
            Some(_) => conflict(),
            None => two_pages(),
        };
        let before = one.stored();
        let shown = second.machine().bodies().to_vec();
        let failed = second.machine().save_error().cloned();
        two.storage.refuse_reads(false, true);
        let error = refused(two.run(second.reload(pending)));
        assert_eq!(error.code(), ErrorCode::StorageFailed);
        assert_eq!(second.machine().bodies(), shown);
        assert_eq!(second.machine().save_error(), failed.as_ref());
        assert_eq!(one.stored(), before);
        two.storage.refuse_reads(false, false);
        two.run(second.reload(pending)).unwrap();
        assert_eq!(second.machine().bodies(), first.machine().bodies());
    }
}

#[test]
fn a_session_that_is_being_reloaded_is_busy() {
    let (one, first, two, second) = conflict();
    let released = Signal::default();
    two.storage.hold_reads(&released);
    let mut reload = waits(&two.world, second.reload(Some(Pending::Fork)));
    assert!(!reload.go_on());
    let codes = [
        refused(two.run(second.reload(Some(Pending::Fork)))).code(),
        refused(two.run(second.reload(Some(Pending::Discard)))).code(),
        refused(two.run(second.reload(None))).code(),
        refused(two.prompt(&second, "more")).code(),
        refused(at_once(second.begin(&json!("more"), &PromptOptions::default()))).code(),
        refused(two.run(second.flush())).code(),
        refused(two.run(second.set_preset(None))).code(),
        refused(second.dispose()).code(),
        refused(two.run(two.runtime.delete_session(ID))).code(),
    ];
    assert_eq!(codes, [ErrorCode::SessionBusy; 9]);
    released.fire();
    assert!(reload.done().unwrap().is_some());
    assert_eq!(second.machine().bodies(), first.machine().bodies());
    // While a turn runs there is nothing to reload.
    let turn = one.run(dispatched(&first, "hello"));
    assert_eq!(
        refused(one.run(first.reload(Some(Pending::Discard)))).code(),
        ErrorCode::SessionBusy
    );
    one.run(turn.cancel()).unwrap();
    second.dispose().unwrap();
    assert_eq!(refused(two.run(second.reload(None))).code(), ErrorCode::Disposed);
}

#[test]
fn a_title_that_is_set_during_a_reload_is_kept_and_saved() {
    for pending in [Pending::Fork, Pending::Discard] {
        let (one, _first, two, second) = conflict();
        let released = Signal::default();
        two.storage.hold_reads(&released);
        let reload = waits(&two.world, second.reload(Some(pending)));
        let title = waits(&two.world, second.set_title("late".to_owned()));
        released.fire();
        assert_eq!(reload.done().unwrap().is_some(), pending == Pending::Fork);
        title.done().unwrap();
        assert_eq!(second.machine().header().title.as_deref(), Some("late"));
        assert_eq!(second.machine().message_count(), 5);
        let record = &one.stored()["chat_sessions"]["\"s1\""];
        assert_eq!(record["settings"]["title"], "late");
        assert_eq!(record["counters"], json!({ "conversation": 6, "settings": 3 }));
        two.model.answers(says("hi"));
        assert!(two.prompt(&second, "more").unwrap().saved);
    }
}

#[test]
fn a_title_that_is_on_its_way_is_saved_before_anything_is_read() {
    let lab = Lab::empty();
    let session = lab.create();
    let released = Signal::default();
    lab.storage.fail(1, Fault::Wait(released.clone()));
    let title = waits(&lab.world, session.set_title("t".to_owned()));
    let reload = waits(&lab.world, session.reload(None));
    released.fire();
    title.done().unwrap();
    assert_eq!(reload.done().unwrap(), None);
    assert_eq!(session.machine().header().title.as_deref(), Some("t"));
    // Where it cannot be saved, that is said, and nothing is read.
    let released = Signal::default();
    lab.storage.fail(1, Fault::Wait(released.clone()));
    for attempt in 2..5 {
        lab.storage.fail(attempt, Fault::Refuse);
    }
    let title = waits(&lab.world, session.set_title("u".to_owned()));
    let reload = waits(&lab.world, session.reload(None));
    let pinned = waits(&lab.world, session.set_pinned(true));
    released.fire();
    // Whoever saves says what it met, also of a change behind its own.
    assert_eq!(refused(title.done()).code(), ErrorCode::StorageFailed);
    assert_eq!(refused(reload.done()).code(), ErrorCode::StorageFailed);
    assert_eq!(refused(pinned.done()).code(), ErrorCode::StorageFailed);
    assert!(session.machine().header().pinned);
    assert!(session.machine().save_error().is_some());
}

#[test]
fn with_nothing_pending_there_is_nothing_to_fork() {
    let lab = Lab::empty();
    let session = lab.create();
    long_turn(&lab, &session, Way::Begin);
    let before = lab.stored();
    for pending in [Pending::Fork, Pending::Discard] {
        assert_eq!(lab.run(session.reload(Some(pending))).unwrap(), None);
        assert_eq!(lab.stored(), before);
    }
    assert_eq!(session.machine().message_count(), 5);
}

#[test]
fn what_was_saved_and_not_heard_of_is_shown_once_and_forked_once() {
    for at in 1..LONG_TURN_COMMITS {
        let lab = Lab::empty();
        let session = lab.create();
        for attempt in at..100 {
            lab.storage.fail(attempt, Fault::LoseAcknowledgement);
        }
        assert!(!long_turn(&lab, &session, Way::Begin).saved);
        for attempt in 1..100 {
            lab.storage.forgive(attempt);
        }
        let before = long_turn_after(at + 1);
        assert_eq!(lab.stored(), before.stored());
        let id = lab.run(session.reload(Some(Pending::Fork))).unwrap().unwrap();
        let bodies: Vec<Value> = before.messages.iter().map(|(body, _)| body.clone()).collect();
        assert_eq!(session.machine().bodies(), bodies, "{at}");
        let opened = lab.run(lab.runtime.open_session(&id)).unwrap();
        assert_eq!(opened.machine().message_count(), 5);
    }
}

#[test]
fn a_fork_has_neither_approvals_nor_bypasses_and_this_session_keeps_its_own() {
    let lab = Lab::empty();
    let session = lab.create();
    // The page dies while a person is asked.
    let asks = ToolCall {
        id: "w1".to_owned(),
        name: "write_file".to_owned(),
        arguments: json!({}),
    };
    lab.run(async {
        let turn = dispatched(&session, "write").await;
        let calls = crate::lab::calls(&[("w1", "write_file", json!({}))]);
        turn.append(vec![incoming(calls)]).await.unwrap();
        assert_eq!(turn.gate(&asks).await.unwrap().decision.outcome, Action::Require);
    });
    let lab = Lab::on(lab.storage.memory.clone(), true);
    let session = lab.open();
    let asked = lab.stored()["approvals"].clone();
    assert_eq!(asked.len(), 1);
    lab.storage.fail(1, Fault::Refuse);
    refused(lab.run(session.set_title("t".to_owned())));
    let id = lab.run(session.reload(Some(Pending::Fork))).unwrap().unwrap();
    assert_eq!(lab.stored()["approvals"], asked);
    assert_eq!(session.machine().approvals().len(), 1);
    let opened = lab.run(lab.runtime.open_session(&id)).unwrap();
    assert_eq!(opened.machine().approvals(), []);
    assert_eq!(opened.machine().header().title.as_deref(), Some("t"));
    // Both are a turn that was cut off.
    assert_eq!(
        session.machine().interrupted().unwrap().pending_approvals.len(),
        1
    );
    let interrupted = opened.machine().interrupted().unwrap();
    assert_eq!(interrupted.unanswered, [asks]);
    assert_eq!(interrupted.pending_approvals, [] as [String; 0]);
    let add = ToolCall {
        id: "a1".to_owned(),
        name: "add".to_owned(),
        arguments: json!({}),
    };
    let outcome = |session: &Rc<Session<Value>>| lab.run(session.explain(&add)).unwrap().decision.outcome;
    assert_eq!(
        (outcome(&session), outcome(&opened)),
        (Action::Allow, Action::Require)
    );
}

#[test]
fn a_fork_gives_no_more_than_what_another_page_has_left() {
    let (one, first, two, second) = conflict();
    let theirs = json!({ "runContext": { "allow_fs_writes": ["theirs"] } });
    let theirs = NewSession::parse(&theirs).unwrap().run_context.flatten();
    one.run(first.set_run_context(theirs)).unwrap();
    one.run(first.set_preset(Some(Preset::WorkspaceWrite))).unwrap();
    one.run(first.set_title("theirs".to_owned())).unwrap();
    refused(two.run(second.set_title("mine".to_owned())));
    let id = two.run(second.reload(Some(Pending::Fork))).unwrap().unwrap();
    let settings = one.stored()["chat_sessions"][&format!("\"{id}\"")]["settings"].clone();
    assert_eq!(settings["runContext"]["allow_fs_writes"], json!(["theirs"]));
    assert_eq!(settings["permissionPreset"], "workspace-write");
    // What was pending here counts, and is not written to the other conversation.
    assert_eq!(settings["title"], "mine");
    assert_eq!(second.machine().header().title.as_deref(), Some("theirs"));
}

#[test]
fn of_a_session_that_is_not_stored_any_more_what_is_pending_can_be_forked_or_dropped() {
    for pending in [Pending::Fork, Pending::Discard] {
        let (one, _first, two, second) = conflict();
        one.run(one.runtime.delete_session(ID)).unwrap();
        two.world.at(4_000.0);
        let id = two.run(second.reload(Some(pending))).unwrap();
        match (pending, &id) {
            (Pending::Fork, Some(id)) => {
                let fork = fork_records(
                    id,
                    4_000.0,
                    &forked(4_000.0).with(|it| it.shared = vec![haiku_record()]),
                );
                assert_eq!(one.stored(), fork);
            }
            (Pending::Discard, None) => assert_eq!(one.stored().len(), 1),
            other => panic!("{other:?}"),
        }
        // There is nothing to show, and nothing that is pending.
        assert_eq!(second.machine().save_error(), None);
        assert_eq!(second.machine().waiting_commits(), 0);
        assert_eq!(refused(two.prompt(&second, "more")).code(), ErrorCode::Disposed);
    }
    // With nothing pending that is an error, and changes nothing.
    let (one, first, two, second) = two_pages();
    long_turn(&one, &first, Way::Prompt);
    one.run(one.runtime.delete_session(ID)).unwrap();
    let error = refused(two.run(second.reload(None)));
    assert_eq!(error.code(), ErrorCode::NotFound);
    assert!(!second.machine().is_disposed());
}

#[test]
fn another_session_that_has_the_id_by_now_is_shown_as_it_is() {
    let (one, _first, two, second) = conflict();
    one.run(one.runtime.delete_session(ID)).unwrap();
    one.world.at(1_500.0);
    let other = one.create_with(NewSession {
        cwd: Some("/elsewhere".to_owned()),
        ..Lab::options()
    });
    two.world.at(4_000.0);
    let id = two.run(second.reload(Some(Pending::Fork))).unwrap().unwrap();
    assert_eq!(second.machine().message_count(), 0);
    assert_eq!(second.machine().origin(), other.machine().origin());
    assert_eq!(second.machine().cwd(), "/elsewhere");
    let add = ToolCall {
        id: "a1".to_owned(),
        name: "add".to_owned(),
        arguments: json!({}),
    };
    // In that one a person wants to be asked.
    let decided = two.run(second.explain(&add)).unwrap();
    assert_eq!(decided.decision.outcome, Action::Require);
    let stored = one.stored();
    let fork = fork_records(&id, 4_000.0, &forked(4_000.0));
    for (store, records) in fork {
        for (key, record) in records {
            assert_eq!(stored[&store][&key], record);
        }
    }
    two.model.answers(says("hi"));
    assert!(two.prompt(&second, "more").unwrap().saved);
}

/// Eleven hundred messages, of which the first thousand and more are summarised.
fn long_session(lab: &Lab, role_of_500: &str) {
    let messages: Vec<(Value, bool)> = (0..1_100)
        .map(|at| match at % 2 {
            0 => (typed(&format!("message {at}"), at).0, true),
            _ => (says(&format!("message {at}")), false),
        })
        .collect();
    store(lab, &messages, |commit| {
        let compaction = CompactionCheckpoint {
            id: "k".to_owned(),
            first_kept_message_index: MessageIndex(1_090),
            history_message_count: 1_100,
            summary: "so far".to_owned(),
            timestamp: 88.0,
            provider: "p".to_owned(),
            model: "m".to_owned(),
            usage: None,
        };
        commit.compactions = vec![(0, compaction)];
        // Somebody edited it by hand, and its outline not.
        commit.messages[500].body["role"] = json!(role_of_500);
    });
}

#[test]
fn a_message_of_another_role_than_its_outline_is_noticed_when_its_page_is_read() {
    let lab = Lab::empty();
    long_session(&lab, "assistant");
    let session = lab.open();
    assert_eq!(session.machine().damage(), []);
    let page = |before, limit| lab.run(session.read_messages(Some(before), limit));
    assert_eq!(page(500, 10).unwrap().len(), 10);
    let error = refused(page(501, 10));
    assert_eq!(error.code(), ErrorCode::StorageFailed);
    assert_eq!(
        error.message(),
        "stored session `s1` is damaged: message 500: its role is `assistant`, and its outline says something else; \
         repair it, or delete it with `deleteSession`"
    );
}

#[test]
fn titles_of_a_long_conversation_begin_with_the_first_message_that_is_loaded() {
    let lab = Lab::empty();
    long_session(&lab, "user");
    let session = lab.open();
    let machine = session.machine();
    assert_eq!(machine.loaded_from(), 1_090);
    let typed = [1_090, 1_092, 1_094, 1_096, 1_098].map(|at| json!(format!("message {at}")));
    assert_eq!(machine.title_inputs(), typed);
}

#[test]
fn a_long_conversation_is_forked_whole_though_only_its_end_is_loaded() {
    let lab = Lab::empty();
    long_session(&lab, "user");
    let session = lab.open();
    assert_eq!(session.machine().loaded_from(), 1_090);
    lab.storage.always(Some(Fault::Refuse));
    lab.model.answers(says("hi"));
    assert!(!lab.prompt(&session, "hello").unwrap().saved);
    lab.storage.always(None);
    let original = of(ID, &lab.stored());
    let id = lab.run(session.reload(Some(Pending::Fork))).unwrap().unwrap();
    let stored = lab.stored();
    assert_eq!(stored["messages"].len(), 1_100 + 1_102);
    for at in 0..1_100 {
        let (own, fork) = (format!("[\"{ID}\",{at}]"), format!("[\"{id}\",{at}]"));
        assert_eq!(stored["messages"][&own], original["messages"][&own]);
        assert_eq!(
            stored["messages"][&fork]["body"],
            original["messages"][&own]["body"]
        );
    }
    assert_eq!(
        stored["messages"][&format!("[\"{id}\",1100]")]["body"]["content"],
        "hello"
    );
    assert_eq!(
        stored["compactions"][&format!("[\"{id}\",0]")]["summary"],
        "so far"
    );
    assert_eq!(session.machine().message_count(), 1_100);
    assert_eq!(session.machine().loaded_from(), 1_090);
    let opened = lab.run(lab.runtime.open_session(&id)).unwrap();
    assert_eq!(
        (opened.machine().loaded_from(), opened.machine().message_count()),
        (1_090, 1_102)
    );
    // Where its beginning is gone, nothing is forked and all of it stays pending.
    lab.storage.always(Some(Fault::Refuse));
    lab.model.answers(says("hi"));
    assert!(!lab.prompt(&session, "hello").unwrap().saved);
    lab.storage.always(None);
    let other = Lab::on(lab.storage.memory.clone(), true);
    other.run(other.runtime.delete_session(ID)).unwrap();
    let error = refused(lab.run(session.reload(Some(Pending::Fork))));
    assert_eq!(error.code(), ErrorCode::NotFound);
    assert!(session.machine().save_error().is_some());
    assert_eq!(session.machine().message_count(), 1_102);
}

#[test]
fn random_turns_of_two_pages_lose_nothing_that_was_acknowledged_or_forked() {
    let (mut conflicts, mut forks) = (0, 0);
    for seed in 1..=40 {
        let one = Lab::empty();
        let first = one.create();
        let two = Lab::on(one.storage.memory.clone(), true);
        let sessions = [first, two.open()];
        let mut random = Random::new(seed);
        let mut kept: Vec<(String, usize)> = Vec::new();
        for round in 0..12 {
            let at = random.below(2);
            let (lab, session) = ([&one, &two][at], &sessions[at]);
            lab.world.at(f64::from(round) * 1_000.0 + 2_000.0);
            let said = format!("round {round}");
            lab.model.answers(says("hi"));
            let before = session.machine().message_count() as usize;
            let report = lab.prompt(session, &said).unwrap();
            let place = if report.saved {
                Some(ID.to_owned())
            } else {
                conflicts += 1;
                assert_eq!(report.save_error.unwrap().code(), ErrorCode::Conflict);
                let pending = if random.one_in(2) {
                    Pending::Fork
                } else {
                    Pending::Discard
                };
                lab.run(session.reload(Some(pending))).unwrap()
            };
            if let Some(id) = place {
                forks += usize::from(id != ID);
                kept.push((format!("[\"{id}\",{before}]"), round as usize));
            }
            assert_eq!(session.machine().save_error(), None);
        }
        let stored = one.stored();
        for (key, round) in &kept {
            assert_eq!(
                stored["messages"][key]["body"]["content"],
                format!("round {round}"),
                "seed {seed}"
            );
        }
        // Positions of each conversation have no gap, and its outlines are as many.
        for record in stored["chat_sessions"].values() {
            let (id, count) = (
                record["id"].as_str().unwrap(),
                record["messageCount"].as_u64().unwrap(),
            );
            for at in 0..count {
                assert!(stored["messages"].contains_key(&format!("[\"{id}\",{at}]")));
            }
            assert_eq!(
                count,
                stored["message_outlines"][&format!("[\"{id}\",0]")]["outlines"]
                    .as_array()
                    .unwrap()
                    .len() as u64
            );
        }
    }
    println!("{conflicts} conflicts, {forks} forks");
    assert!(conflicts > 50 && forks > 20);
}
