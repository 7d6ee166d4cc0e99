//! Stopping: by `abort()`, by the caller's signal, at every moment of a turn.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use runcontext::{
    ErrorCode,
    runtime::{PromptOptions, Session, SessionEvent, Signal},
    session::Outcome,
};
use serde_json::{Value, json};

use crate::{
    expect::{
        Expected, allow, answered, called_twice, cut_off, dispatched, first_checkpoint, said, two_calls,
        typed,
    },
    lab::{Fault, Lab, Step, Stored, Waits, at_once, incoming, refused, says, tokens::tokens, waits},
};

/// How a person stops it.
#[derive(Clone, Copy, Debug)]
enum By {
    Abort,
    Signal,
}

const ALL: [By; 2] = [By::Abort, By::Signal];

fn stop(lab: &Lab, session: &Rc<Session<Value>>, options: &PromptOptions, by: By) {
    match by {
        By::Signal => options.abort.fire(),
        // It waits for the end, so that it only ends here if the turn does not need us.
        By::Abort => {
            let session = session.clone();
            let future = async move { session.abort().await };
            drop(waits(&lab.world, future));
        }
    }
}

/// What is stored of a turn `add one and two` that was cancelled after these messages, and the first commit.
fn cancelled(messages: Vec<(Value, Value)>, commits: usize) -> Stored {
    Expected::created()
        .with(|it| {
            it.updated_at = 2_000.0;
            (it.commits, it.conversation, it.settings) = (commits, commits as u64, 2);
            it.changed = json!({ "outcome": "cancelled" });
            it.messages = [vec![typed("add one and two", 2_000)], messages].concat();
            it.checkpoints = vec![first_checkpoint(1, 2_000)];
        })
        .stored()
}

fn partial(text: &str) -> Value {
    json!({ "role": "assistant", "content": [{ "type": "text", "text": text }] })
}

/// Starts a prompt `add one and two` at 2,000.
fn start<'a>(
    lab: &Lab,
    session: &'a Rc<Session<Value>>,
    content: &'a Value,
    options: &'a PromptOptions,
) -> Waits<'a, runcontext::Result<runcontext::runtime::TurnReport>> {
    lab.world.at(2_000.0);
    waits(&lab.world, session.prompt(content, options))
}

#[test]
fn a_signal_that_fired_before_keeps_nothing_and_asks_nobody() {
    let lab = Lab::empty();
    let session = lab.create();
    let options = PromptOptions::default();
    options.abort.fire();
    let error = refused(lab.prompt_with(&session, &json!("hello"), &options));
    assert_eq!(error.code(), ErrorCode::Aborted);
    let error = refused(at_once(session.begin(&json!("hello"), &options)));
    assert_eq!(error.code(), ErrorCode::Aborted);
    assert_eq!((lab.model.calls(), lab.model.checks()), (0, 0));
    assert_eq!(lab.stored(), Expected::created().stored());
    assert_eq!(lab.events(), [] as [&str; 0]);
    assert!(!session.machine().is_running());
}

#[test]
fn a_prompt_that_is_stopped_in_its_preflight_keeps_nothing() {
    for by in ALL {
        for fails in [false, true] {
            let lab = Lab::empty();
            let session = lab.create();
            let (content, options) = (json!("add one and two"), PromptOptions::default());
            // A preflight that never ends, or one that fails because it is stopped.
            let signal = options.abort.clone();
            lab.model.on_check(Rc::new(move || {
                let signal = signal.clone();
                Box::pin(async move {
                    if !fails {
                        return std::future::pending().await;
                    }
                    signal.fired().await;
                    Err("the check was stopped".to_owned())
                })
            }));
            let prompt = start(&lab, &session, &content, &options);
            assert_eq!(
                refused(lab.prompt(&session, "more")).code(),
                ErrorCode::SessionBusy
            );
            stop(&lab, &session, &options, by);
            assert_eq!(
                refused(prompt.done()).code(),
                ErrorCode::Aborted,
                "{by:?} {fails}"
            );
            assert_eq!((lab.model.calls(), lab.model.checks()), (0, 1));
            assert_eq!(lab.stored(), Expected::created().stored());
            assert_eq!(lab.events(), [] as [&str; 0]);
            lab.run(session.abort());
            session.dispose().unwrap();
        }
    }
}

#[test]
fn a_model_that_is_stopped_without_a_word_leaves_the_user_message() {
    for by in ALL {
        let lab = Lab::empty();
        let session = lab.create();
        let (content, options) = (json!("add one and two"), PromptOptions::default());
        lab.model.then(Step::silence());
        let prompt = start(&lab, &session, &content, &options);
        stop(&lab, &session, &options, by);
        let report = prompt.done().unwrap();
        assert_eq!((report.end.outcome, report.end.error), (Outcome::Cancelled, None));
        assert!(report.saved);
        assert_eq!(lab.stored(), cancelled(Vec::new(), 3), "{by:?}");
        assert_eq!((lab.model.calls(), lab.tools.calls()), (1, 0));
        let expected = ["started 0", "message 0 user", "saved", "saved", "ended cancelled"];
        assert_eq!(lab.events(), expected);
    }
}

#[test]
fn a_model_that_is_stopped_in_mid_answer_leaves_its_last_partial() {
    for by in ALL {
        let lab = Lab::empty();
        let session = lab.create();
        let (content, options) = (json!("add one and two"), PromptOptions::default());
        let partials = vec![partial("th"), partial("thre")];
        lab.model.then(Step::updates(partials, Step::silence()));
        let prompt = start(&lab, &session, &content, &options);
        stop(&lab, &session, &options, by);
        assert_eq!(prompt.done().unwrap().end.outcome, Outcome::Cancelled);
        let mut kept = partial("thre");
        kept["stopReason"] = json!("aborted");
        let outline =
            json!({ "role": "assistant", "stop": "aborted", "textLen": 4, "tokens": tokens("thre") });
        assert_eq!(lab.stored(), cancelled(vec![(kept, outline)], 3), "{by:?}");
    }
}

#[test]
fn calls_of_a_partial_answer_are_not_open_after_a_stop() {
    let lab = Lab::empty();
    let session = lab.create();
    let (content, options) = (json!("add one and two"), PromptOptions::default());
    lab.model.then(Step::updates(vec![two_calls()], Step::silence()));
    let prompt = start(&lab, &session, &content, &options);
    options.abort.fire();
    prompt.done().unwrap();
    let (mut kept, mut outline) = called_twice();
    kept["stopReason"] = json!("aborted");
    outline["stop"] = json!("aborted");
    assert_eq!(lab.stored(), cancelled(vec![(kept, outline)], 3));
    assert_eq!(lab.tools.calls(), 0);
}

#[test]
fn a_model_that_fails_because_it_is_stopped_was_stopped() {
    for by in ALL {
        let lab = Lab::empty();
        let session = lab.create();
        let (content, options) = (json!("add one and two"), PromptOptions::default());
        lab.model.then(Step::updates(
            vec![partial("thre")],
            Step::new(|_, abort| async move {
                abort.fired().await;
                Err("AbortError: the operation was aborted".to_owned())
            }),
        ));
        let prompt = start(&lab, &session, &content, &options);
        stop(&lab, &session, &options, by);
        let report = prompt.done().unwrap();
        assert_eq!((report.end.outcome, report.end.error), (Outcome::Cancelled, None));
        let mut kept = partial("thre");
        kept["stopReason"] = json!("aborted");
        let outline =
            json!({ "role": "assistant", "stop": "aborted", "textLen": 4, "tokens": tokens("thre") });
        assert_eq!(lab.stored(), cancelled(vec![(kept, outline)], 3), "{by:?}");
    }
}

#[test]
fn a_model_that_answers_a_stop_with_what_it_has_is_taken_at_its_word() {
    let lab = Lab::empty();
    let session = lab.create();
    let (content, options) = (json!("add one and two"), PromptOptions::default());
    let mut last = partial("three, n");
    last["stopReason"] = json!("aborted");
    let answer = last.clone();
    lab.model.then(Step::updates(
        vec![partial("thr")],
        Step::new(|_, abort| async move {
            abort.fired().await;
            Ok(answer)
        }),
    ));
    let prompt = start(&lab, &session, &content, &options);
    options.abort.fire();
    assert_eq!(prompt.done().unwrap().end.outcome, Outcome::Cancelled);
    let outline =
        json!({ "role": "assistant", "stop": "aborted", "textLen": 8, "tokens": tokens("three, n") });
    assert_eq!(lab.stored(), cancelled(vec![(last, outline)], 4));
}

#[test]
fn a_stop_while_tools_run_keeps_what_has_finished_and_answers_the_rest() {
    for by in ALL {
        for fails in [false, true] {
            let lab = Lab::empty();
            let session = lab.create();
            let (content, options) = (json!("add one and two"), PromptOptions::default());
            lab.model.answers(two_calls());
            // The first call does not end, or fails because it is stopped; the second is done.
            lab.tools.on("c1", move |_, abort| async move {
                if !fails {
                    return std::future::pending().await;
                }
                abort.fired().await;
                Err("AbortError: the operation was aborted".to_owned())
            });
            let prompt = start(&lab, &session, &content, &options);
            stop(&lab, &session, &options, by);
            assert_eq!(prompt.done().unwrap().end.outcome, Outcome::Cancelled);
            let messages = vec![
                called_twice(),
                answered("c2", "add done", 2_000),
                cut_off("c1", "add"),
            ];
            assert_eq!(lab.stored(), cancelled(messages, 5), "{by:?} {fails}");
            assert_eq!((lab.model.calls(), lab.tools.calls()), (1, 2));
        }
    }
}

#[test]
fn a_stop_while_every_tool_runs_answers_every_call() {
    let lab = Lab::empty();
    let session = lab.create();
    let (content, options) = (json!("add one and two"), PromptOptions::default());
    lab.model.answers(two_calls());
    for id in ["c1", "c2"] {
        lab.tools.on(id, |_, _| std::future::pending());
    }
    let prompt = start(&lab, &session, &content, &options);
    options.abort.fire();
    prompt.done().unwrap();
    let messages = vec![called_twice(), cut_off("c1", "add"), cut_off("c2", "add")];
    assert_eq!(lab.stored(), cancelled(messages, 4));
}

#[test]
fn model_and_tools_hear_of_the_stop_and_of_no_other() {
    let lab = Lab::empty();
    let session = lab.create();
    let (content, options) = (json!("add one and two"), PromptOptions::default());
    let heard: Rc<RefCell<Vec<Signal>>> = Rc::default();
    let (of_model, of_tool) = (heard.clone(), heard.clone());
    lab.model.then(Step::new(move |_, abort| {
        of_model.borrow_mut().push(abort);
        async { Ok(two_calls()) }
    }));
    lab.tools.on("c1", move |_, abort| {
        of_tool.borrow_mut().push(abort);
        std::future::pending()
    });
    let prompt = start(&lab, &session, &content, &options);
    let fired = || -> Vec<bool> { heard.borrow().iter().map(Signal::has_fired).collect() };
    assert_eq!(fired(), [false, false]);
    options.abort.fire();
    assert_eq!(fired(), [true, true]);
    prompt.done().unwrap();
    // A later turn has a signal of its own.
    let of_model = heard.clone();
    lab.model.then(Step::new(move |_, abort| {
        of_model.borrow_mut().push(abort);
        async { Ok(says("hi")) }
    }));
    lab.prompt(&session, "more").unwrap();
    assert_eq!(fired(), [true, true, false]);
}

#[test]
fn a_stop_while_the_dispatch_is_saved_calls_no_model() {
    for by in ALL {
        let lab = Lab::empty();
        let session = lab.create();
        let (content, options) = (json!("add one and two"), PromptOptions::default());
        let released = Signal::default();
        lab.storage.fail(1, Fault::Wait(released.clone()));
        let prompt = start(&lab, &session, &content, &options);
        stop(&lab, &session, &options, by);
        released.fire();
        assert_eq!(prompt.done().unwrap().end.outcome, Outcome::Cancelled);
        assert_eq!(lab.model.calls(), 0, "{by:?}");
        assert_eq!(lab.stored(), cancelled(Vec::new(), 3));
    }
}

#[test]
fn a_stop_between_results_and_the_next_request_calls_no_model() {
    let lab = Lab::empty();
    let session = lab.create();
    let (content, options) = (json!("add one and two"), PromptOptions::default());
    let released = Signal::default();
    // Dispatch, answer, results.
    lab.storage.fail(3, Fault::Wait(released.clone()));
    lab.model.answers(two_calls());
    let prompt = start(&lab, &session, &content, &options);
    options.abort.fire();
    released.fire();
    assert_eq!(prompt.done().unwrap().end.outcome, Outcome::Cancelled);
    assert_eq!((lab.model.calls(), lab.tools.calls()), (1, 2));
    let messages = vec![
        called_twice(),
        answered("c1", "add done", 2_000),
        answered("c2", "add done", 2_000),
    ];
    assert_eq!(lab.stored(), cancelled(messages, 5));
}

#[test]
fn a_stop_after_the_last_words_changes_nothing() {
    let lab = Lab::empty();
    let session = lab.create();
    let (content, options) = (json!("add one and two"), PromptOptions::default());
    let released = Signal::default();
    lab.storage.fail(2, Fault::Wait(released.clone()));
    lab.model.answers(says("three"));
    let prompt = start(&lab, &session, &content, &options);
    options.abort.fire();
    released.fire();
    assert_eq!(prompt.done().unwrap().end.outcome, Outcome::Success);
    assert_eq!(session.machine().bodies()[1], said("three").0);
}

#[test]
fn a_listener_can_stop_the_turn_at_every_event() {
    for (event, outcome, model_calls, tool_calls) in [
        ("started 0", "cancelled", 0, 0),
        ("message 0 user", "cancelled", 0, 0),
        ("update thr", "cancelled", 1, 0),
        ("message 1 assistant", "cancelled", 1, 0),
        ("message 2 toolResult", "cancelled", 1, 2),
        ("message 4 assistant", "success", 2, 2),
        ("saved", "cancelled", 0, 0),
    ] {
        let lab = Lab::empty();
        let session = lab.create();
        let (content, options) = (json!("add one and two"), PromptOptions::default());
        lab.model
            .then(Step::updates(vec![partial("thr")], Step::answer(two_calls())))
            .answers(says("three"));
        let (events, signal) = (lab.events.clone(), options.abort.clone());
        session.subscribe(Rc::new(move |_| {
            if events.borrow().last().is_some_and(|last| last == event) {
                signal.fire();
            }
            Ok(())
        }));
        let report = start(&lab, &session, &content, &options).done().unwrap();
        let events = lab.events();
        assert_eq!(events.last().unwrap(), &format!("ended {outcome}"), "{event}");
        assert_eq!(lab.model.calls(), model_calls, "{event}");
        assert_eq!(lab.tools.calls(), tool_calls, "{event}");
        assert!(report.saved);
        assert!(session.machine().open_tool_calls().is_empty());
        assert_eq!(session.machine().interrupted(), None);
    }
}

#[test]
fn model_and_tools_can_stop_their_own_turn() {
    // The model, before it answers.
    let lab = Lab::empty();
    let session = lab.create();
    let (content, options) = (json!("add one and two"), PromptOptions::default());
    let stopped = session.clone();
    lab.model.then(Step::new(move |_, _| async move {
        stopped.abort().await;
        Ok(says("never heard"))
    }));
    let report = start(&lab, &session, &content, &options).done().unwrap();
    assert_eq!(report.end.outcome, Outcome::Cancelled);
    assert_eq!(lab.stored(), cancelled(Vec::new(), 3));

    // A tool, that waits for the end of its own turn.
    let lab = Lab::empty();
    let session = lab.create();
    let options = PromptOptions::default();
    let stopped = session.clone();
    lab.model.answers(two_calls());
    lab.tools.on("c1", move |_, _| {
        let stopped = stopped.clone();
        async move {
            stopped.abort().await;
            Ok(json!("never heard"))
        }
    });
    let report = start(&lab, &session, &content, &options).done().unwrap();
    assert_eq!(report.end.outcome, Outcome::Cancelled);
    // The other one did not begin any more.
    assert_eq!(lab.tools.calls(), 1);
    let messages = vec![called_twice(), cut_off("c1", "add"), cut_off("c2", "add")];
    assert_eq!(lab.stored(), cancelled(messages, 4));
}

#[test]
fn the_clock_can_stop_a_turn() {
    // It is read before the dispatch, so that everything before is a refusal, and everything after a cancelled turn.
    let mut refusals = 0;
    for read in 1..20 {
        let lab = Lab::empty();
        let session = lab.create();
        let (content, options) = (json!("add one and two"), PromptOptions::default());
        lab.model.answers(two_calls()).answers(says("three"));
        let (count, signal) = (Cell::new(0), options.abort.clone());
        lab.world.on_now(Some(Rc::new(move || {
            count.set(count.get() + 1);
            if count.get() == read {
                signal.fire();
            }
        })));
        match start(&lab, &session, &content, &options).done() {
            Ok(report) => assert!(report.saved),
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::Aborted);
                assert_eq!(lab.stored(), Expected::created().stored());
                refusals += 1;
            }
        }
        assert!(session.machine().open_tool_calls().is_empty());
        assert!(!session.machine().is_running());
    }
    assert_eq!(refusals, 1);
}

#[test]
fn a_turn_of_a_host_is_cancelled_by_both() {
    for by in ALL {
        // Before the dispatch: nothing is kept.
        let lab = Lab::empty();
        let session = lab.create();
        lab.world.at(2_000.0);
        let options = PromptOptions::default();
        let turn = at_once(session.begin(&json!("add one and two"), &options)).unwrap();
        turn.request().unwrap();
        stop(&lab, &session, &options, by);
        lab.run(async {});
        assert_eq!(
            refused(lab.run(turn.dispatched())).code(),
            ErrorCode::InvalidArgument
        );
        assert_eq!(lab.stored(), Expected::created().stored());
        assert!(!session.machine().is_running());

        // After it, with open calls.
        let options = PromptOptions::default();
        let turn = at_once(session.begin(&json!("add one and two"), &options)).unwrap();
        turn.request().unwrap();
        lab.run(turn.dispatched()).unwrap();
        lab.run(turn.append(vec![incoming(two_calls())])).unwrap();
        lab.run(allow(&session, &["c2"]));
        lab.run(turn.append(vec![incoming(answered("c2", "add done", 2_000).0)]))
            .unwrap();
        stop(&lab, &session, &options, by);
        lab.run(async {});
        let messages = vec![
            called_twice(),
            answered("c2", "add done", 2_000),
            cut_off("c1", "add"),
        ];
        assert_eq!(lab.stored(), cancelled(messages, 5), "{by:?}");
        assert!(!session.machine().is_running());
        lab.run(session.abort());
    }
}

#[test]
fn stopping_waits_until_the_turn_is_over_and_saved() {
    let lab = Lab::empty();
    let session = lab.create();
    let (content, options) = (json!("hello"), PromptOptions::default());
    lab.model.then(Step::silence());
    let prompt = start(&lab, &session, &content, &options);
    let released = Signal::default();
    lab.storage.fail(1, Fault::Wait(released.clone()));
    let mut abort = waits(&lab.world, session.abort());
    let mut prompt = prompt;
    assert!(!prompt.go_on() && !abort.go_on());
    released.fire();
    assert!(prompt.done().unwrap().saved);
    abort.done();
    session.dispose().unwrap();
}

#[test]
fn stopping_a_session_at_rest_does_nothing() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(session.abort());
    lab.model.answers(says("hi"));
    assert_eq!(
        lab.prompt(&session, "hello").unwrap().end.outcome,
        Outcome::Success
    );
    lab.run(session.abort());
    assert_eq!(session.machine().header().last_outcome, Some(Outcome::Success));
}

#[test]
fn stopping_a_session_leaves_the_signal_of_the_caller_alone() {
    let lab = Lab::empty();
    let session = lab.create();
    let (content, options) = (json!("hello"), PromptOptions::default());
    lab.model.then(Step::silence()).answers(says("hi"));
    let prompt = start(&lab, &session, &content, &options);
    lab.run(async { drop(waits(&lab.world, session.abort())) });
    assert_eq!(prompt.done().unwrap().end.outcome, Outcome::Cancelled);
    assert!(!options.abort.has_fired());
    // So that it serves for the next one.
    let report = lab.prompt_with(&session, &content, &options).unwrap();
    assert_eq!(report.end.outcome, Outcome::Success);
    // A signal that fires when its turn is over stops no later turn, and nobody listens to it any more.
    let kept = Rc::new(RefCell::new(None));
    let keep = kept.clone();
    lab.model.then(Step::new(move |_, abort| {
        *keep.borrow_mut() = Some(abort);
        async { Ok(says("hi")) }
    }));
    lab.prompt_with(&session, &content, &options).unwrap();
    let turn = lab.run(dispatched(&session, "more"));
    options.abort.fire();
    lab.run(async {});
    assert!(turn.is_dispatched());
    assert!(!kept.borrow().as_ref().unwrap().has_fired());
}

#[test]
fn a_turn_that_its_host_forgot_is_ended_by_abort() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    drop(lab.run(dispatched(&session, "add one and two")));
    assert!(session.machine().is_running());
    lab.run(session.abort());
    assert!(!session.machine().is_running());
    assert_eq!(lab.stored(), cancelled(Vec::new(), 3));
}

#[test]
fn hooks_of_a_signal_run_once_and_in_order_unless_they_are_forgotten() {
    let (signal, ran) = (Signal::default(), Rc::new(RefCell::new(Vec::new())));
    let hook = |name: &'static str| {
        let ran = ran.clone();
        signal.on_fire(move || ran.borrow_mut().push(name))
    };
    let (_, second, _) = (hook("first"), hook("second"), hook("third"));
    signal.forget(second);
    signal.forget(second);
    assert_eq!(Rc::strong_count(&ran), 3, "what a forgotten hook held is gone");
    signal.fire();
    signal.fire();
    hook("at once");
    assert_eq!(*ran.borrow(), ["first", "third", "at once"]);
    assert_eq!(Rc::strong_count(&ran), 1);
    assert!(signal.is(&signal.clone()) && !signal.is(&Signal::default()));
}

#[test]
fn a_hook_may_fire_its_own_signal_and_add_hooks() {
    let (signal, ran) = (Signal::default(), Rc::new(Cell::new(0)));
    let (inner, count) = (signal.clone(), ran.clone());
    signal.on_fire(move || {
        inner.fire();
        inner.forget(0);
        let count = count.clone();
        inner.on_fire(move || count.set(count.get() + 1));
    });
    signal.fire();
    assert_eq!(ran.get(), 1);
}

#[test]
fn updates_of_an_answer_that_is_over_are_refused_and_not_kept() {
    let lab = Lab::empty();
    let session = lab.create();
    let (content, options) = (json!("add one and two"), PromptOptions::default());
    // The model goes on streaming while the tools run, and then a person stops it.
    let model = lab.model.clone();
    let refusals = Rc::new(RefCell::new(Vec::new()));
    let heard = refusals.clone();
    lab.model.answers(two_calls());
    lab.tools.on("c1", move |_, _| {
        let late = model.last_updates()(incoming(partial("late")));
        heard.borrow_mut().push(late.unwrap_err().code());
        std::future::pending()
    });
    let prompt = start(&lab, &session, &content, &options);
    options.abort.fire();
    prompt.done().unwrap();
    let messages = vec![
        called_twice(),
        answered("c2", "add done", 2_000),
        cut_off("c1", "add"),
    ];
    assert_eq!(lab.stored(), cancelled(messages, 5));
    // After the turn, and during the next one.
    let late = lab.model.last_updates();
    refusals
        .borrow_mut()
        .push(late(incoming(partial("late"))).unwrap_err().code());
    let turn = lab.run(dispatched(&session, "more"));
    refusals
        .borrow_mut()
        .push(late(incoming(partial("late"))).unwrap_err().code());
    lab.run(turn.cancel()).unwrap();
    assert_eq!(*refusals.borrow(), [ErrorCode::InvalidArgument; 3]);
    assert_eq!(session.machine().message_count(), 5);
    assert!(!lab.events().iter().any(|event| event.starts_with("update")));
}

#[test]
fn a_partial_answer_must_be_an_assistant_message() {
    let lab = Lab::empty();
    let session = lab.create();
    let (content, options) = (json!("add one and two"), PromptOptions::default());
    lab.model.then(Step::updates(
        vec![partial("thr"), json!({ "role": "user", "content": "x" })],
        Step::silence(),
    ));
    let report = start(&lab, &session, &content, &options).done().unwrap();
    assert_eq!(report.end.outcome, Outcome::Error);
    // The one before it is kept.
    assert_eq!(session.machine().bodies()[1]["content"][0]["text"], "thr");
}

#[test]
fn a_prompt_that_nobody_waits_for_any_more_is_cancelled() {
    let lab = Lab::empty();
    let session = lab.create();
    let (content, options) = (json!("add one and two"), PromptOptions::default());
    // In the preflight: as if it had never been.
    lab.model.on_check(Rc::new(|| Box::pin(std::future::pending())));
    drop(start(&lab, &session, &content, &options));
    lab.run(session.abort());
    assert_eq!(lab.stored(), Expected::created().stored());
    assert!(!session.machine().is_running());
    lab.model.on_check(Rc::new(|| Box::pin(async { Ok(()) })));
    // While the model answers.
    lab.model
        .then(Step::updates(vec![partial("thre")], Step::silence()));
    drop(start(&lab, &session, &content, &options));
    lab.run(async {});
    let mut kept = partial("thre");
    kept["stopReason"] = json!("aborted");
    let outline = json!({ "role": "assistant", "stop": "aborted", "textLen": 4, "tokens": tokens("thre") });
    assert_eq!(lab.stored(), cancelled(vec![(kept, outline)], 3));
    assert!(!session.machine().is_running());
    // While the end is saved: what is left is saved with the next change.
    lab.model.answers(says("hi"));
    let never = Signal::default();
    lab.storage.fail(3, Fault::Wait(never));
    let prompt = start(&lab, &session, &content, &options);
    assert!(session.machine().is_running());
    drop(prompt);
    assert!(!session.machine().is_running());
    lab.run(session.flush()).unwrap();
    let settings = lab.stored()["chat_sessions"]["\"s1\""]["settings"].clone();
    assert_eq!(
        (&settings["openTurn"], &settings["outcome"]),
        (&json!(null), &json!("success"))
    );
}

#[test]
fn whoever_hears_that_a_turn_has_ended_may_begin_the_next() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.model.answers(says("hi"));
    let begun = Rc::new(RefCell::new(None));
    let (again, turn) = (Rc::downgrade(&session), begun.clone());
    session.subscribe(Rc::new(move |event| {
        if let SessionEvent::TurnEnded { .. } = event
            && turn.borrow().is_none()
        {
            let session = again.upgrade().unwrap();
            assert!(!session.machine().is_running());
            *turn.borrow_mut() =
                Some(at_once(session.begin(&json!("more"), &PromptOptions::default())).unwrap());
        }
        Ok(())
    }));
    lab.prompt(&session, "hello").unwrap();
    // The end of the first turn did not end the second.
    assert!(session.machine().is_running());
    let turn = begun.borrow_mut().take().unwrap();
    turn.request().unwrap();
    lab.run(turn.dispatched()).unwrap();
    drop(waits(&lab.world, session.abort()));
    lab.run(async {});
    assert_eq!(session.machine().header().last_outcome, Some(Outcome::Cancelled));
}

#[test]
fn who_stops_a_turn_waits_for_storage_a_while_and_what_it_had_saved_all_the_same_is_saved_once() {
    for by in ALL {
        for is_applied in [false, true] {
            let lab = Lab::empty();
            let session = lab.create();
            let (content, options) = (json!("add one and two"), PromptOptions::default());
            let never = Signal::default();
            lab.storage.always(Some(match is_applied {
                true => Fault::WaitForAnswer(never),
                false => Fault::Wait(never),
            }));
            let mut prompt = start(&lab, &session, &content, &options);
            stop(&lab, &session, &options, by);
            assert!(!prompt.go_on(), "storage that works answers in a while");
            lab.world.a_while_later();
            let report = prompt.done().unwrap();
            assert_eq!((report.end.outcome, report.saved), (Outcome::Cancelled, false));
            let error = report.save_error.unwrap();
            assert_eq!(error.code(), ErrorCode::StorageFailed);
            assert_eq!(error.data()["unanswered"], true);
            lab.run(session.abort());
            assert_eq!(
                refused(session.dispose()).code(),
                ErrorCode::PendingSave,
                "{by:?} {is_applied}"
            );
            lab.storage.always(None);
            lab.run(session.flush()).unwrap();
            assert_eq!(lab.stored(), cancelled(Vec::new(), 3), "{by:?} {is_applied}");
            assert_eq!((lab.model.calls(), lab.tools.calls()), (0, 0));
            session.dispose().unwrap();
        }
    }
}

#[test]
fn a_turn_whose_storage_has_waited_for_a_while_already_is_stopped_at_once() {
    for by in ALL {
        let lab = Lab::empty();
        let session = lab.create();
        let (content, options) = (json!("add one and two"), PromptOptions::default());
        lab.storage.always(Some(Fault::Wait(Signal::default())));
        let mut prompt = start(&lab, &session, &content, &options);
        lab.world.a_while_later();
        assert!(!prompt.go_on(), "nobody wants to stop it");
        stop(&lab, &session, &options, by);
        assert!(!prompt.done().unwrap().saved, "{by:?}");
        lab.storage.always(None);
        lab.run(session.flush()).unwrap();
        assert_eq!(lab.stored(), cancelled(Vec::new(), 3), "{by:?}");
    }
}

#[test]
fn a_turn_of_a_host_is_stopped_while_storage_answers_nothing_that_it_waits_for() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    let options = PromptOptions::default();
    let turn = lab
        .run(session.begin(&json!("add one and two"), &options))
        .unwrap();
    turn.request().unwrap();
    lab.storage.always(Some(Fault::Wait(Signal::default())));
    let mut dispatched = waits(&lab.world, turn.dispatched());
    lab.world.a_while_later();
    assert!(!dispatched.go_on());
    let abort = waits(&lab.world, session.abort());
    dispatched.done().unwrap();
    abort.done();
    assert!(!session.machine().is_running());
    lab.storage.always(None);
    lab.run(session.flush()).unwrap();
    assert_eq!(lab.stored(), cancelled(Vec::new(), 3));
}
