//! Writes that fail: before they are applied, after, or never coming back. Nothing is lost, nothing is written twice.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::rc::Rc;

use runcontext::{
    ErrorCode,
    permissions::Preset,
    runtime::{PromptOptions, Session, Signal},
    session::{NewSession, Outcome},
};
use serde_json::{Value, json};

use crate::{
    expect::{BOTH, Expected, LONG_TURN_COMMITS, Way, dispatched, long_turn, long_turn_after, two_calls},
    lab::{Fault, ID, Lab, Step, at_once, incoming, random::Random, refused, says, waits},
    random_turns::random_turns,
};

/// What must not work while a save is pending, and changes nothing.
fn refused_while_pending(lab: &Lab, session: &Rc<Session<Value>>) {
    let attempts = lab.storage.attempts();
    let events = lab.events.borrow().len();
    let codes = [
        refused(lab.prompt(session, "more")).code(),
        refused(at_once(session.begin(&json!("more"), &PromptOptions::default()))).code(),
        refused(lab.run(session.set_preset(Some(Preset::WorkspaceWrite)))).code(),
        refused(lab.run(session.configure(None, Some("other".to_owned()), None))).code(),
        refused(session.dispose()).code(),
        refused(lab.runtime.close()).code(),
    ];
    assert_eq!(codes, [ErrorCode::PendingSave; 6]);
    assert_eq!(lab.storage.attempts(), attempts);
    assert_eq!(lab.events.borrow().len(), events);
}

#[test]
fn a_refused_write_at_any_commit_is_made_up_for_by_the_next_or_by_flush() {
    for way in BOTH {
        for at in 1..LONG_TURN_COMMITS {
            let lab = Lab::empty();
            let session = lab.create();
            lab.storage.fail(at, Fault::Refuse);
            let report = long_turn(&lab, &session, way);
            assert_eq!(report.end.outcome, Outcome::Success);
            let last = at == LONG_TURN_COMMITS - 1;
            assert_eq!(report.saved, !last, "{way:?} {at}");
            assert_eq!(
                report.save_error.map(|error| error.code()),
                last.then_some(ErrorCode::StorageFailed)
            );
            if last {
                assert_eq!(lab.stored(), long_turn_after(LONG_TURN_COMMITS - 1).stored());
                refused_while_pending(&lab, &session);
            }
            let asked = (lab.model.calls(), lab.tools.calls());
            lab.run(session.flush()).unwrap();
            assert_eq!((lab.model.calls(), lab.tools.calls()), asked);
            assert_eq!(session.machine().save_error(), None);
            assert_eq!(
                lab.stored(),
                long_turn_after(LONG_TURN_COMMITS).stored(),
                "{way:?} {at}"
            );
        }
    }
}

#[test]
fn writes_that_are_refused_from_any_commit_on_wait_in_order_for_flush() {
    for way in BOTH {
        for at in 1..LONG_TURN_COMMITS {
            let lab = Lab::empty();
            let session = lab.create();
            for attempt in at..100 {
                lab.storage.fail(attempt, Fault::Refuse);
            }
            let report = long_turn(&lab, &session, way);
            assert_eq!(report.end.outcome, Outcome::Success);
            assert!(!report.saved);
            assert_eq!(report.save_error.unwrap().code(), ErrorCode::StorageFailed);
            assert_eq!(lab.stored(), long_turn_after(at).stored(), "{way:?} {at}");
            // The conversation in memory is whole, and so are its metadata.
            let expected = long_turn_after(LONG_TURN_COMMITS);
            let whole: Vec<Value> = expected.messages.iter().map(|(body, _)| body.clone()).collect();
            assert_eq!(session.machine().bodies(), whole);
            assert_eq!(session.machine().checkpoints().len(), 1);
            refused_while_pending(&lab, &session);

            let asked = (lab.model.calls(), lab.tools.calls());
            let error = refused(lab.run(session.flush()));
            assert_eq!(error.code(), ErrorCode::StorageFailed);
            assert_eq!(lab.stored(), long_turn_after(at).stored());
            refused_while_pending(&lab, &session);

            for attempt in 1..100 {
                lab.storage.forgive(attempt);
            }
            lab.events();
            lab.run(session.flush()).unwrap();
            assert_eq!(lab.events(), ["saved"]);
            assert_eq!((lab.model.calls(), lab.tools.calls()), asked);
            assert_eq!(lab.stored(), expected.stored(), "{way:?} {at}");
            // And on it goes.
            lab.model.answers(says("hi"));
            assert!(lab.prompt(&session, "hello").unwrap().saved);
        }
    }
}

#[test]
fn a_lost_acknowledgement_at_any_commit_is_applied_once_and_the_queue_follows_in_order() {
    for way in BOTH {
        for at in 1..LONG_TURN_COMMITS {
            let lab = Lab::empty();
            let session = lab.create();
            lab.storage.fail(at, Fault::LoseAcknowledgement);
            let report = long_turn(&lab, &session, way);
            assert_eq!(report.saved, at != LONG_TURN_COMMITS - 1);
            lab.run(session.flush()).unwrap();
            assert_eq!(lab.stored(), long_turn_after(LONG_TURN_COMMITS).stored());
            let names: Vec<String> = lab
                .storage
                .applied()
                .iter()
                .map(|commit| commit.operation_id.clone())
                .collect();
            assert_eq!(names.len(), LONG_TURN_COMMITS);
            let counters: Vec<Option<u64>> = lab
                .storage
                .applied()
                .iter()
                .map(|commit| commit.expected)
                .collect();
            assert_eq!(counters, [0, 1, 2, 3, 4, 5].map(Some), "{way:?} {at}");
            // One attempt more than there are commits: the repeated one.
            assert_eq!(lab.storage.attempts(), LONG_TURN_COMMITS + 1);
        }
    }
}

#[test]
fn acknowledgements_that_are_lost_from_any_commit_on_hold_the_queue_and_flush_finishes_it() {
    for way in BOTH {
        for at in 1..LONG_TURN_COMMITS {
            let lab = Lab::empty();
            let session = lab.create();
            for attempt in at..100 {
                lab.storage.fail(attempt, Fault::LoseAcknowledgement);
            }
            let report = long_turn(&lab, &session, way);
            assert!(!report.saved);
            // Only the first of them was ever tried, and it was applied.
            assert_eq!(lab.stored(), long_turn_after(at + 1).stored(), "{way:?} {at}");
            for attempt in 1..100 {
                lab.storage.forgive(attempt);
            }
            lab.run(session.flush()).unwrap();
            assert_eq!(lab.stored(), long_turn_after(LONG_TURN_COMMITS).stored());
        }
    }
}

#[test]
fn a_first_write_that_fails_leaves_no_session() {
    let lab = Lab::empty();
    lab.storage.fail(1, Fault::Refuse);
    let options = NewSession {
        id: Some(ID.to_owned()),
        ..NewSession::default()
    };
    let error = refused(lab.run(lab.runtime.create_session(options)));
    assert_eq!(error.code(), ErrorCode::StorageFailed);
    assert!(lab.stored().is_empty());
    assert_eq!(
        refused(lab.run(lab.runtime.open_session(ID))).code(),
        ErrorCode::NotFound
    );
    // The same id is free.
    lab.create();
    assert_eq!(lab.stored(), Expected::created().stored());
}

#[test]
fn a_write_that_failed_shows_as_pending_at_once_and_the_turn_goes_on() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.storage.always(Some(Fault::Refuse));
    lab.world.at(2_000.0);
    lab.run(async {
        let turn = dispatched(&session, "add one and two").await;
        let code = session.machine().save_error().map(|error| error.code());
        assert_eq!(code, Some(ErrorCode::StorageFailed));
        turn.append(vec![incoming(two_calls())]).await.unwrap();
        // Flushing is for a session that rests.
        assert_eq!(refused(session.flush().await).code(), ErrorCode::SessionBusy);
        lab.storage.always(None);
        turn.append(vec![incoming(says("three"))]).await.unwrap();
        assert_eq!(session.machine().save_error(), None);
        assert!(turn.finish(Outcome::Success, None).await.unwrap().saved);
    });
    assert_eq!(
        lab.events(),
        [
            "started 0",
            "message 0 user",
            "save failed storage_failed",
            "message 1 assistant",
            "save failed storage_failed",
            "message 2 toolResult",
            "message 3 toolResult",
            "message 4 assistant",
            "saved",
            "saved",
            "ended success"
        ]
    );
}

#[test]
fn while_a_write_hangs_the_session_answers_and_refuses_and_then_goes_on() {
    for at in 1..LONG_TURN_COMMITS {
        let lab = Lab::empty();
        let session = lab.create();
        lab.world.at(2_000.0);
        let released = Signal::default();
        lab.storage.fail(at, Fault::Wait(released.clone()));
        lab.model.answers(two_calls()).answers(says("three"));
        let (content, options) = (json!("add one and two"), PromptOptions::default());
        let prompt = waits(&lab.world, session.prompt(&content, &options));
        assert_eq!(lab.stored(), long_turn_after(at).stored());
        assert!(session.machine().is_running(), "{at}");
        assert_eq!(
            session.machine().save_error(),
            None,
            "it has not failed, it takes its time"
        );
        let codes = [
            refused(lab.prompt(&session, "more")).code(),
            refused(at_once(session.begin(&content, &options))).code(),
            refused(lab.run(session.set_preset(None))).code(),
            refused(lab.run(session.flush())).code(),
            refused(lab.run(session.abandon())).code(),
            refused(session.dispose()).code(),
            refused(lab.runtime.close()).code(),
            refused(lab.run(lab.runtime.delete_session(ID))).code(),
        ];
        assert_eq!(codes, [ErrorCode::SessionBusy; 8], "{at}");
        released.fire();
        assert!(prompt.done().unwrap().saved);
        assert_eq!(lab.stored(), long_turn_after(LONG_TURN_COMMITS).stored(), "{at}");
    }
}

#[test]
fn storage_that_did_not_answer_holds_up_the_rest_of_a_turn_for_a_while_and_flush_until_it_is_given_up() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    let turn = lab.run(session.begin(&json!("add one and two"), &PromptOptions::default()));
    let turn = turn.unwrap();
    turn.request().unwrap();
    lab.storage.fail(1, Fault::NoAnswer);
    lab.run(turn.dispatched()).unwrap();
    lab.storage.always(Some(Fault::Wait(Signal::default())));
    let mut append = waits(&lab.world, turn.append(vec![incoming(says("three"))]));
    assert!(!append.go_on());
    lab.world.a_while_later();
    append.done().unwrap();
    let mut finish = waits(&lab.world, turn.finish(Outcome::Success, None));
    assert!(!finish.go_on());
    lab.world.a_while_later();
    assert!(!finish.done().unwrap().saved);

    let answers = Signal::default();
    lab.storage.always(Some(Fault::Wait(answers.clone())));
    let mut flush = waits(&lab.world, session.flush());
    lab.world.a_while_later();
    assert!(!flush.go_on(), "a person asked for it, and may be patient");
    answers.fire();
    flush.done().unwrap();
    assert_eq!(lab.storage.applied().len(), 4);
    assert_eq!(session.machine().save_error(), None);
}

#[test]
fn while_the_end_of_a_turn_is_saved_the_session_is_busy() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    let turn = lab.run(dispatched(&session, "hello"));
    let released = Signal::default();
    lab.storage.fail(1, Fault::Wait(released.clone()));
    let finish = waits(&lab.world, turn.finish(Outcome::Success, None));
    assert!(session.machine().is_running());
    assert_eq!(
        refused(at_once(session.begin(&json!("more"), &PromptOptions::default()))).code(),
        ErrorCode::SessionBusy
    );
    assert_eq!(refused(session.dispose()).code(), ErrorCode::SessionBusy);
    assert_eq!(
        refused(lab.run(turn.finish(Outcome::Success, None))).code(),
        ErrorCode::InvalidArgument
    );
    // Whoever stops it now waits for that save.
    let mut abort = waits(&lab.world, session.abort());
    assert!(!abort.go_on());
    released.fire();
    assert!(finish.done().unwrap().saved);
    abort.done();
    assert!(!session.machine().is_running());
    session.dispose().unwrap();
}

#[test]
fn saves_stand_in_line_and_none_is_sent_before_the_one_in_front_is_answered() {
    let lab = Lab::empty();
    let session = lab.create();
    let released = Signal::default();
    lab.storage.fail(1, Fault::Wait(released.clone()));
    let sent = lab.storage.attempts() + 1;
    let mut title = waits(&lab.world, session.set_title("t".to_owned()));
    let mut pinned = waits(&lab.world, session.set_pinned(true));
    let turn = at_once(session.begin(&json!("hello"), &PromptOptions::default())).unwrap();
    turn.request().unwrap();
    let dispatched = waits(&lab.world, turn.dispatched());
    assert_eq!(lab.storage.attempts(), sent);
    released.fire();
    assert!(title.go_on() && pinned.go_on());
    assert_eq!(lab.storage.attempts(), sent + 2);
    dispatched.done().unwrap();
    let names: Vec<Vec<String>> = lab.storage.applied()[1..]
        .iter()
        .map(|commit| commit.settings.keys().cloned().collect())
        .collect();
    let expected: [&[&str]; 3] = [&["title"], &["pinned"], &["counts", "openTurn"]];
    assert_eq!(names, expected);
}

#[test]
fn a_pending_save_stays_pending_until_the_last_of_its_queue_is_saved() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.storage.always(Some(Fault::Refuse));
    assert!(!long_turn(&lab, &session, Way::Begin).saved);
    lab.storage.always(None);
    let released = Signal::default();
    // The last of five.
    lab.storage.fail(5, Fault::Wait(released.clone()));
    let flush = waits(&lab.world, session.flush());
    assert_eq!(lab.stored(), long_turn_after(LONG_TURN_COMMITS - 1).stored());
    assert!(session.machine().save_error().is_some());
    released.fire();
    flush.done().unwrap();
    assert_eq!(session.machine().save_error(), None);
    assert_eq!(lab.stored(), long_turn_after(LONG_TURN_COMMITS).stored());
}

#[test]
fn of_two_pages_that_write_one_conversation_the_second_keeps_its_turn_in_memory() {
    let lab = Lab::empty();
    let session = lab.create();
    let other = Lab::on(lab.storage.memory.clone(), true);
    let second = other.open();
    long_turn(&lab, &session, Way::Prompt);
    // A title is no part of the conversation.
    other.world.at(2_500.0);
    other.run(second.set_title("t".to_owned())).unwrap();
    let before = other.stored();
    other.model.answers(says("hi"));
    let report = other.prompt(&second, "hello").unwrap();
    assert_eq!(report.save_error.unwrap().code(), ErrorCode::Conflict);
    assert_eq!(other.stored(), before);
    assert_eq!(second.machine().message_count(), 2);
    assert_eq!(other.model.calls(), 1);
    refused_while_pending(&other, &second);
    // The first page goes on.
    lab.model.answers(says("hi"));
    assert!(lab.prompt(&session, "more").unwrap().saved);
    assert_eq!(lab.stored()["chat_sessions"]["\"s1\""]["settings"]["title"], "t");
}

#[test]
fn a_turn_and_a_title_of_a_deleted_session_are_not_saved_in_another_of_its_id() {
    let lab = Lab::empty();
    let session = lab.create();
    let third = Lab::on(lab.storage.memory.clone(), true);
    let opened = third.open();
    let other = Lab::on(lab.storage.memory.clone(), true);
    other.run(other.runtime.delete_session(ID)).unwrap();
    // As many commits at the same times: counters and clocks tell nothing apart.
    other.create();
    let before = other.stored();
    lab.model.answers(says("hi"));
    let report = lab.prompt(&session, "hello").unwrap();
    assert_eq!(report.save_error.unwrap().code(), ErrorCode::Conflict);
    let error = refused(third.run(opened.set_title("mine".to_owned())));
    assert_eq!(error.code(), ErrorCode::Conflict);
    assert_eq!(other.stored(), before);
}

#[test]
fn a_session_is_not_let_go_of_while_a_title_is_being_saved() {
    let lab = Lab::empty();
    let session = lab.create();
    let released = Signal::default();
    lab.storage.fail(1, Fault::Wait(released.clone()));
    let title = waits(&lab.world, session.set_title("t".to_owned()));
    assert_eq!(refused(session.dispose()).code(), ErrorCode::SessionBusy);
    assert_eq!(refused(lab.runtime.close()).code(), ErrorCode::SessionBusy);
    // A turn may begin all the same: saves stand in line.
    lab.model.answers(says("hi"));
    let (content, options) = (json!("hello"), PromptOptions::default());
    let prompt = waits(&lab.world, session.prompt(&content, &options));
    released.fire();
    title.done().unwrap();
    assert!(prompt.done().unwrap().saved);
    let settings = lab.stored()["chat_sessions"]["\"s1\""]["settings"].clone();
    assert_eq!(
        (&settings["title"], &settings["outcome"]),
        (&json!("t"), &json!("success"))
    );
    session.dispose().unwrap();
    lab.runtime.close().unwrap();
}

#[test]
fn who_waits_until_a_title_is_saved_can_let_go_of_the_session() {
    let lab = Lab::empty();
    let session = lab.create();
    let released = Signal::default();
    lab.storage.fail(1, Fault::Wait(released.clone()));
    let mut preset = waits(&lab.world, session.set_preset(Some(Preset::WorkspaceWrite)));
    let mut title = waits(&lab.world, session.set_title("t".to_owned()));
    let mut gone = waits(&lab.world, async {
        lab.runtime.at_rest().await;
        session.dispose()
    });
    assert!(!gone.go_on());
    released.fire();
    assert!(preset.go_on() && title.go_on());
    gone.done().unwrap();
    assert_eq!(lab.stored()["chat_sessions"]["\"s1\""]["settings"]["title"], "t");
    // What cannot be saved, and a turn that runs, are not waited for.
    for runs in [true, false] {
        let lab = Lab::empty();
        let session = lab.create();
        let turn = runs.then(|| lab.run(dispatched(&session, "hello")));
        if !runs {
            lab.storage.always(Some(Fault::Refuse));
            refused(lab.run(session.set_title("t".to_owned())));
        }
        lab.run(lab.runtime.at_rest());
        let code = refused(session.dispose()).code();
        let expected = if runs {
            ErrorCode::SessionBusy
        } else {
            ErrorCode::PendingSave
        };
        assert_eq!(code, expected);
        drop(turn);
    }
}

#[test]
fn a_setting_that_could_not_be_saved_is_pending_and_is_flushed() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    lab.storage.fail(1, Fault::Refuse);
    let error = refused(lab.run(session.set_preset(Some(Preset::WorkspaceWrite))));
    assert_eq!(error.code(), ErrorCode::StorageFailed);
    assert_eq!(lab.events(), ["settings", "save failed storage_failed"]);
    assert_eq!(lab.stored(), Expected::created().stored());
    assert_eq!(
        session.machine().header().permission_preset,
        Some(Preset::WorkspaceWrite)
    );
    refused_while_pending(&lab, &session);
    lab.run(session.flush()).unwrap();
    let expected = Expected::created().with(|it| {
        it.updated_at = 2_000.0;
        (it.commits, it.settings) = (2, 1);
        it.changed = json!({ "permissionPreset": "workspace-write", "presetChosen": true });
    });
    assert_eq!(lab.stored(), expected.stored());
    // Flushing what is saved is no error, and no event.
    lab.events();
    lab.run(session.flush()).unwrap();
    assert_eq!(lab.events(), [] as [&str; 0]);
}

#[test]
fn titles_pins_and_marks_wait_behind_what_is_pending() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.storage.always(Some(Fault::Refuse));
    let report = long_turn(&lab, &session, Way::Begin);
    assert!(!report.saved);
    let codes = [
        refused(lab.run(session.set_title("t".to_owned()))).code(),
        refused(lab.run(session.set_pinned(true))).code(),
        refused(lab.run(session.mark_read(2))).code(),
    ];
    assert_eq!(codes, [ErrorCode::StorageFailed; 3]);
    assert_eq!(lab.stored(), Expected::created().stored());
    lab.storage.always(None);
    assert!(lab.run(session.mark_read(4)).unwrap());
    let expected = long_turn_after(LONG_TURN_COMMITS).with(|it| {
        it.commits += 4;
        it.settings += 4;
        it.changed = json!({ "outcome": "success", "title": "t", "pinned": true, "readCount": 4 });
    });
    assert_eq!(lab.stored(), expected.stored());
    assert!(!lab.run(session.mark_read(3)).unwrap());
}

#[test]
fn a_conflict_lets_the_turn_run_on_in_memory_and_is_reported_at_its_end() {
    for at in 1..LONG_TURN_COMMITS {
        let lab = Lab::empty();
        let session = lab.create();
        for attempt in at..100 {
            lab.storage.fail(attempt, Fault::Conflict);
        }
        let report = long_turn(&lab, &session, Way::Prompt);
        assert!(!report.saved);
        assert_eq!(report.save_error.unwrap().code(), ErrorCode::Conflict);
        assert_eq!(report.end.outcome, Outcome::Error);
        assert_eq!(session.machine().header().last_outcome, Some(Outcome::Error));
        assert_eq!(lab.stored(), long_turn_after(at).stored());
        assert_eq!(session.machine().message_count(), 5);
        assert_eq!((lab.model.calls(), lab.tools.calls()), (2, 2));
        refused_while_pending(&lab, &session);
    }
}

#[test]
fn a_deletion_that_fails_keeps_the_session_and_what_is_pending() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.storage.always(Some(Fault::Refuse));
    assert!(!long_turn(&lab, &session, Way::Begin).saved);
    lab.storage.refuse_deletion(true);
    let error = refused(lab.run(lab.runtime.delete_session(ID)));
    assert_eq!(error.code(), ErrorCode::StorageFailed);
    lab.storage.always(None);
    lab.run(session.flush()).unwrap();
    assert_eq!(lab.stored(), long_turn_after(LONG_TURN_COMMITS).stored());
    lab.storage.refuse_deletion(false);
    lab.run(lab.runtime.delete_session(ID)).unwrap();
    assert!(lab.stored().is_empty());
    assert_eq!(refused(lab.prompt(&session, "more")).code(), ErrorCode::Disposed);
}

#[test]
fn what_is_pending_goes_with_a_session_that_is_deleted() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.storage.always(Some(Fault::Refuse));
    assert!(!long_turn(&lab, &session, Way::Begin).saved);
    lab.storage.always(None);
    lab.run(lab.runtime.delete_session(ID)).unwrap();
    assert!(lab.stored().is_empty());
    assert_eq!(refused(lab.run(session.flush())).code(), ErrorCode::Disposed);
    assert!(lab.stored().is_empty());
}

#[test]
fn an_interrupted_turn_can_be_abandoned_once_its_save_is_flushed() {
    let lab = Lab::empty();
    let session = lab.create();
    // The page dies while calls are open.
    lab.world.at(2_000.0);
    lab.run(async {
        let turn = dispatched(&session, "add one and two").await;
        turn.append(vec![incoming(two_calls())]).await.unwrap();
    });
    let lab = Lab::on(lab.storage.memory.clone(), true);
    let session = lab.open();
    lab.storage.fail(1, Fault::Refuse);
    let report = lab.run(session.abandon()).unwrap();
    assert!(!report.saved);
    assert_eq!(session.machine().interrupted(), None);
    assert_eq!(lab.stored(), long_turn_after(3).stored());
    assert_eq!(
        refused(lab.run(session.abandon())).code(),
        ErrorCode::InvalidArgument
    );
    lab.run(session.flush()).unwrap();
    assert_eq!(lab.stored()["messages"].len(), 4);
    assert_eq!(lab.model.calls(), 0);
}

#[test]
fn a_clock_that_fails_in_mid_turn_keeps_nothing_from_being_saved() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    let turn = lab.run(dispatched(&session, "add one and two"));
    lab.world.at(f64::NAN);
    lab.run(turn.append(vec![incoming(two_calls())])).unwrap();
    assert!(lab.run(turn.cancel()).unwrap().saved);
    lab.run(session.set_title("t".to_owned())).unwrap();
    assert_eq!(lab.stored()["messages"].len(), 4);
    assert_eq!(lab.stored()["chat_sessions"]["\"s1\""]["updatedAt"], 2_000.0);
}

#[test]
fn random_turns_with_random_failures_store_what_they_store_without() {
    let (mut failures, mut flushes) = (0, 0);
    for seed in 1..=60 {
        let undisturbed = Lab::empty();
        let session = undisturbed.create();
        random_turns(&undisturbed, &session, seed, &mut || {});

        let lab = Lab::empty();
        let session = lab.create();
        let mut random = Random::new(seed + 1_000);
        random_turns(&lab, &session, seed, &mut || {
            // At rest between turns: what is pending is flushed, perhaps not at once.
            while session.machine().save_error().is_some() {
                flushes += 1;
                let _failed = lab.run(session.flush());
            }
            for attempt in 1..30 {
                lab.storage.forgive(attempt);
                let fault = match random.below(6) {
                    0 => Fault::Refuse,
                    1 => Fault::LoseAcknowledgement,
                    _ => continue,
                };
                failures += 1;
                lab.storage.fail(attempt, fault);
            }
        });
        while session.machine().save_error().is_some() {
            flushes += 1;
            let _failed = lab.run(session.flush());
        }
        assert_eq!(lab.stored(), undisturbed.stored(), "seed {seed}");
        let counters: Vec<u64> = lab
            .storage
            .applied()
            .iter()
            .filter_map(|it| it.expected)
            .collect();
        assert!(
            counters.windows(2).all(|pair| pair[0] + 1 == pair[1]),
            "seed {seed}"
        );
    }
    println!("{failures} failures planned, {flushes} flushes");
    assert!(failures > 500 && flushes > 50);
}

#[test]
fn a_model_failure_and_a_failed_write_are_both_reported() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.storage.always(Some(Fault::Refuse));
    lab.model.then(Step::fail("overloaded"));
    let report = lab.prompt(&session, "hello").unwrap();
    assert_eq!(
        (report.end.outcome, report.end.error.as_deref()),
        (Outcome::Error, Some("overloaded"))
    );
    assert_eq!(report.save_error.unwrap().code(), ErrorCode::StorageFailed);
    assert_eq!(
        lab.events(),
        [
            "started 0",
            "message 0 user",
            "save failed storage_failed",
            "save failed storage_failed",
            "ended error unsaved"
        ]
    );
}

#[test]
fn a_session_with_a_pending_save_is_there_again_although_nobody_held_it() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.storage.always(Some(Fault::Refuse));
    let report = lab.run(session.set_title("kept".to_owned()));
    assert_eq!(refused(report).code(), ErrorCode::StorageFailed);
    drop(session);

    let again = lab.open();
    assert!(again.machine().save_error().is_some());
    assert_eq!(again.machine().header().title.as_deref(), Some("kept"));
}
