//! Who may do what, and when: refusals, in their order, change nothing.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::rc::Rc;

use runcontext::{
    ErrorCode,
    permissions::Preset,
    run_context::Defaults,
    runtime::{CompactionOptions, Parts, PromptOptions, Runtime, Session, Signal, SkillOptions},
    session::{NewSession, Outcome},
    storage::memory::MemoryStorage,
};
use serde_json::{Value, json};

use crate::{
    expect::{
        Expected, LONG_TURN_COMMITS, Way, allow, answered, dispatched, long_turn, long_turn_after, two_calls,
        typed,
    },
    lab::{
        Fault, ID, Lab, Step, Stored, TestWorld, Toolbox, at_once, calls, incoming, interrupted, refused,
        result, run, says, waits,
    },
};

/// Everything that must stay as it is: what is stored, shown, pending, and what was told.
fn all(lab: &Lab, session: &Session<Value>) -> (Stored, Vec<Value>, String, usize, usize) {
    let machine = session.machine();
    let state = format!(
        "{:?} {:?} {:?} {:?} {:?}",
        machine.header(),
        machine.outlines(),
        machine.snapshots(),
        machine.checkpoints(),
        machine.save_error()
    );
    (
        lab.stored(),
        machine.bodies().to_vec(),
        state,
        lab.storage.attempts(),
        lab.events.borrow().len(),
    )
}

fn begin(session: &Rc<Session<Value>>) -> runcontext::Result<runcontext::runtime::Turn<Value>> {
    at_once(session.begin(&json!("more"), &PromptOptions::default()))
}

#[test]
fn a_session_that_was_let_go_of_refuses_everything_first_of_all() {
    let lab = Lab::empty();
    let session = lab.create();
    session.dispose().unwrap();
    session.dispose().unwrap();
    let before = all(&lab, &session);
    let options = PromptOptions::default();
    options.abort.fire();
    let codes = [
        refused(lab.prompt(&session, "more")).code(),
        // Before anything that is wrong with the arguments.
        refused(lab.prompt_with(&session, &json!(1), &options)).code(),
        refused(begin(&session)).code(),
        refused(lab.run(session.set_preset(None))).code(),
        refused(lab.run(session.configure(None, None, None))).code(),
        refused(lab.run(session.abandon())).code(),
        refused(lab.run(session.flush())).code(),
        refused(lab.run(session.set_title("t".to_owned()))).code(),
        refused(lab.run(session.set_pinned(true))).code(),
        refused(lab.run(session.mark_read(1))).code(),
        refused(lab.run(session.read_messages(None, 10))).code(),
    ];
    assert_eq!(codes, [ErrorCode::Disposed; 11]);
    lab.run(session.abort());
    assert_eq!(all(&lab, &session), before);
}

#[test]
fn a_session_is_busy_in_every_phase_of_a_turn() {
    let lab = Lab::empty();
    let session = lab.create();
    let (content, options) = (json!("add one and two"), PromptOptions::default());
    let busy = |what: &str| {
        let before = all(&lab, &session);
        let bad = PromptOptions {
            skills: vec!["nowhere".to_owned()],
            ..PromptOptions::default()
        };
        bad.abort.fire();
        let codes = [
            refused(lab.prompt(&session, "more")).code(),
            // Before anything that is wrong with the arguments.
            refused(lab.prompt_with(&session, &json!(1), &bad)).code(),
            refused(begin(&session)).code(),
            refused(lab.run(session.set_preset(None))).code(),
            refused(lab.run(session.configure(None, None, None))).code(),
            refused(lab.run(session.abandon())).code(),
            refused(lab.run(session.flush())).code(),
            refused(session.dispose()).code(),
            refused(lab.runtime.close()).code(),
            refused(lab.run(lab.runtime.delete_session(ID))).code(),
        ];
        assert_eq!(codes, [ErrorCode::SessionBusy; 10], "{what}");
        assert_eq!(all(&lab, &session), before, "{what}");
    };

    let gate = Signal::default();
    let open = gate.clone();
    lab.model.on_check(Rc::new(move || {
        let open = open.clone();
        Box::pin(async move {
            open.fired().await;
            Ok(())
        })
    }));
    let (model_gate, tool_gate) = (Signal::default(), Signal::default());
    let open = model_gate.clone();
    lab.model.then(Step::new(|_, _| async move {
        open.fired().await;
        Ok(two_calls())
    }));
    let open = tool_gate.clone();
    lab.tools.on("c1", move |_, _| {
        let open = open.clone();
        async move {
            open.fired().await;
            Ok(json!("add done"))
        }
    });
    lab.model.answers(says("three"));
    let mut prompt = waits(&lab.world, session.prompt(&content, &options));
    busy("preflight");
    gate.fire();
    prompt.go_on();
    assert_eq!((lab.model.calls(), lab.tools.calls()), (1, 0));
    busy("model");
    model_gate.fire();
    prompt.go_on();
    assert_eq!((lab.model.calls(), lab.tools.calls()), (1, 2));
    busy("tools");
    tool_gate.fire();
    assert!(prompt.done().unwrap().saved);

    let turn = begin(&session).unwrap();
    busy("prepared");
    turn.request().unwrap();
    busy("requested");
    lab.run(turn.dispatched()).unwrap();
    busy("dispatched");
    lab.run(turn.append(vec![incoming(two_calls())])).unwrap();
    busy("calls open");
    lab.run(turn.cancel()).unwrap();
    session.dispose().unwrap();
}

#[test]
fn busy_comes_before_interrupted_and_pending_and_interrupted_before_pending() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(dispatched(&session, "hello"));

    // Interrupted, and a save is pending.
    let lab = Lab::on(lab.storage.memory.clone(), true);
    let session = lab.open();
    lab.storage.fail(1, Fault::Refuse);
    refused(lab.run(session.set_title("t".to_owned())));
    let before = all(&lab, &session);
    assert_eq!(refused(begin(&session)).code(), ErrorCode::SessionInterrupted);
    assert_eq!(
        refused(lab.prompt(&session, "more")).code(),
        ErrorCode::SessionInterrupted
    );
    assert_eq!(
        refused(lab.run(session.set_preset(None))).code(),
        ErrorCode::SessionInterrupted
    );
    assert_eq!(refused(lab.run(session.abandon())).code(), ErrorCode::PendingSave);
    assert_eq!(refused(session.dispose()).code(), ErrorCode::PendingSave);
    assert_eq!(all(&lab, &session), before);

    // Busy as well: the abandoning hangs in its save.
    lab.run(session.flush()).unwrap();
    let released = Signal::default();
    lab.storage.fail(1, Fault::Wait(released.clone()));
    let abandon = waits(&lab.world, session.abandon());
    assert_eq!(refused(begin(&session)).code(), ErrorCode::SessionBusy);
    assert_eq!(refused(lab.run(session.abandon())).code(), ErrorCode::SessionBusy);
    assert_eq!(refused(session.dispose()).code(), ErrorCode::SessionBusy);
    assert!(session.machine().is_running());
    released.fire();
    abandon.done().unwrap();

    // Busy, with a save pending.
    lab.storage.always(Some(Fault::Refuse));
    let turn = lab.run(dispatched(&session, "more"));
    assert!(session.machine().save_error().is_some());
    assert_eq!(refused(begin(&session)).code(), ErrorCode::SessionBusy);
    assert_eq!(refused(lab.run(session.flush())).code(), ErrorCode::SessionBusy);
    lab.run(turn.cancel()).unwrap();
    assert_eq!(refused(begin(&session)).code(), ErrorCode::PendingSave);
    // Flushing, with a save that hangs: busy.
    lab.storage.always(None);
    let released = Signal::default();
    lab.storage.fail(1, Fault::Wait(released.clone()));
    let flush = waits(&lab.world, session.flush());
    assert_eq!(refused(begin(&session)).code(), ErrorCode::SessionBusy);
    assert_eq!(refused(lab.run(session.flush())).code(), ErrorCode::SessionBusy);
    assert_eq!(refused(session.dispose()).code(), ErrorCode::SessionBusy);
    assert!(
        session.machine().save_error().is_some(),
        "still pending until it is saved"
    );
    released.fire();
    flush.done().unwrap();
    begin(&session).unwrap();
}

#[test]
fn a_prompt_needs_a_model_and_a_turn_of_a_host_does_not() {
    let world = Rc::new(TestWorld::default());
    let parts = Parts {
        storage: Rc::new(MemoryStorage::new()),
        tabs: None,
        world: world.clone(),
        model: None,
        tools: Rc::new(Toolbox::default()),
        declarations: Vec::new(),
        strict: true,
        host: None,
        fold: crate::lab::runcontext_fold,
        protected: Vec::new(),
        defaults: Defaults::default(),
        data_dir: None,
        skills: SkillOptions::default(),
        count_tokens: None,
        compaction: CompactionOptions::default(),
    };
    let runtime = run(&world, Runtime::open(parts)).unwrap();
    let session = run(&world, runtime.create_session(NewSession::default())).unwrap();
    let error = refused(run(
        &world,
        session.prompt(&json!("hello"), &PromptOptions::default()),
    ));
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    begin(&session).unwrap();
}

#[test]
fn content_that_is_no_user_message_is_refused_and_changes_nothing() {
    let lab = Lab::empty();
    let session = lab.create();
    let before = all(&lab, &session);
    for content in [
        json!(null),
        json!(1),
        json!(true),
        json!({}),
        json!({ "content": "no role" }),
        json!({ "role": "assistant", "content": "x" }),
        json!({ "role": "system", "content": "x" }),
        json!({ "role": "User", "content": "x" }),
        json!({ "role": 1, "content": "x" }),
        json!({ "role": "user" }),
        json!({ "role": "user", "content": null }),
        json!({ "role": "user", "content": 1 }),
        json!({ "role": "user", "content": {} }),
        json!({ "role": "user", "content": ["x"] }),
        json!({ "role": "user", "content": [{ "type": "text", "text": "x" }, null] }),
        json!({ "role": "user", "content": "x", "timestamp": "now" }),
        json!({ "role": "user", "content": "x", "timestamp": null }),
        json!(["x"]),
        json!([[]]),
    ] {
        let options = PromptOptions::default();
        let error = refused(lab.prompt_with(&session, &content, &options));
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{content}");
        let error = refused(at_once(session.begin(&content, &options)));
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{content}");
    }
    assert_eq!(all(&lab, &session), before);
    assert_eq!((lab.model.calls(), lab.model.checks()), (0, 0));
    begin(&session).unwrap();
}

#[test]
fn a_turn_goes_in_its_order() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    let turn = at_once(session.begin(&json!("add one and two"), &PromptOptions::default())).unwrap();
    let invalid = |error: runcontext::Error| assert_eq!(error.code(), ErrorCode::InvalidArgument);
    let before = all(&lab, &session);
    invalid(refused(lab.run(turn.dispatched())));
    invalid(refused(lab.run(turn.append(vec![incoming(says("hi"))]))));
    invalid(refused(lab.run(turn.append(Vec::new()))));
    turn.request().unwrap();
    invalid(refused(lab.run(turn.append(vec![incoming(says("hi"))]))));
    assert_eq!(all(&lab, &session), before);
    assert!(!turn.is_dispatched());
    lab.run(turn.dispatched()).unwrap();
    assert!(turn.is_dispatched());
    let after = all(&lab, &session);
    assert_eq!(lab.stored(), long_turn_after(2).stored());
    // Twice is once.
    lab.run(turn.dispatched()).unwrap();
    lab.run(turn.append(Vec::new())).unwrap();
    assert_eq!(all(&lab, &session), after);
    lab.run(turn.append(vec![incoming(two_calls())])).unwrap();
    let before = all(&lab, &session);
    let error = refused(turn.request());
    assert_eq!(
        error.message(),
        "tool calls are open: `c1`, `c2`; append their results first"
    );
    invalid(error);
    assert_eq!(all(&lab, &session), before);
}

#[test]
fn a_batch_with_anything_invalid_changes_nothing() {
    let good = answered("c1", "add done", 2_000).0;
    let result_for = |id: &str| result(id, "add", "add done");
    let batches = [
        vec![json!({ "role": "user", "content": "x" })],
        vec![json!({ "role": "system", "content": "x" })],
        vec![json!({ "role": "custom" })],
        vec![json!("x")],
        vec![json!(null)],
        vec![json!([])],
        vec![json!({})],
        vec![json!({ "role": null })],
        // Results without a call, of an unknown call, of an answered one.
        vec![json!({ "role": "toolResult", "content": [] })],
        vec![json!({ "role": "toolResult", "toolCallId": 1, "content": [] })],
        vec![result_for("c3")],
        vec![result_for("c1"), result_for("c1")],
        vec![result_for("C1")],
        // A good one first, or behind.
        vec![good.clone(), json!({ "role": "user", "content": "x" })],
        vec![good.clone(), says("three"), result_for("c2")],
        vec![says("three"), result_for("c1")],
        vec![good.clone(), json!(1), says("three")],
        vec![result_for("c9"), good.clone()],
        // A call that only comes behind its result.
        vec![result_for("c4"), calls(&[("c4", "add", json!({}))])],
        // A call of an answer that failed.
        vec![
            json!({
                "role": "assistant", "stopReason": "error",
                "content": [{ "type": "toolCall", "id": "c4", "name": "add" }]
            }),
            result_for("c4"),
        ],
    ];
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    let turn = lab.run(dispatched(&session, "add one and two"));
    lab.run(turn.append(vec![incoming(two_calls())])).unwrap();
    lab.run(allow(&session, &["c1", "c2"]));
    let before = all(&lab, &session);
    for batch in batches {
        let error = refused(lab.run(turn.append(batch.iter().cloned().map(incoming).collect())));
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{batch:?}");
        assert_eq!(all(&lab, &session), before, "{batch:?}");
        let open: Vec<String> = turn.open_calls().into_iter().map(|call| call.id).collect();
        assert_eq!(open, ["c1", "c2"]);
    }
    // The turn goes on as if nothing had been.
    let results = ["c1", "c2"].map(|id| incoming(answered(id, "add done", 2_000).0));
    lab.run(turn.append(results.to_vec())).unwrap();
    turn.request().unwrap();
    lab.run(turn.append(vec![incoming(says("three"))])).unwrap();
    lab.run(turn.finish(Outcome::Success, None)).unwrap();
    assert_eq!(lab.stored(), long_turn_after(LONG_TURN_COMMITS).stored());
}

#[test]
fn results_may_come_in_any_order_and_in_several_batches() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(async {
        let turn = dispatched(&session, "add one and two").await;
        turn.append(vec![incoming(two_calls())]).await.unwrap();
        allow(&session, &["c1", "c2"]).await;
        turn.append(vec![incoming(result("c2", "add", "2"))])
            .await
            .unwrap();
        assert_eq!(turn.open_calls().len(), 1);
        let again = runcontext::session::ToolCall {
            id: "c3".to_owned(),
            name: "add".to_owned(),
            arguments: json!({ "n": 3 }),
        };
        turn.gate(&again).await.unwrap();
        turn.append(vec![
            incoming(result("c1", "add", "1")),
            incoming(calls(&[("c3", "add", json!({ "n": 3 }))])),
            incoming(result("c3", "add", "3")),
        ])
        .await
        .unwrap();
        assert!(turn.open_calls().is_empty());
        let (request, _) = turn.request().unwrap();
        let ids: Vec<Value> = request
            .messages()
            .iter()
            .map(|message| message["toolCallId"].clone())
            .collect();
        assert_eq!(
            ids,
            [
                json!(null),
                json!(null),
                json!("c2"),
                json!("c1"),
                json!(null),
                json!("c3")
            ]
        );
    });
}

#[test]
fn a_result_of_a_call_that_was_not_allowed_is_refused_unless_it_is_an_error() {
    let message = calls(&[
        ("c1", "write_file", json!({})),
        ("c2", "fly", json!({})),
        ("c3", "add", json!({})),
    ]);
    let ok = |id: &str, name: &str| incoming(result(id, name, "done"));
    let lab = Lab::empty();
    let session = lab.create();
    let turn = lab.run(dispatched(&session, "do it"));
    lab.run(turn.append(vec![incoming(message.clone())])).unwrap();
    lab.run(allow(&session, &["c3"]));
    let before = all(&lab, &session);
    for (batch, id, name) in [
        (vec![ok("c1", "write_file")], "c1", "write_file"),
        (vec![ok("c2", "fly")], "c2", "fly"),
        // The name is the call's, whatever the result says.
        (vec![ok("c1", "add")], "c1", "write_file"),
        // Nothing of the batch is kept.
        (vec![ok("c3", "add"), ok("c1", "write_file")], "c1", "write_file"),
    ] {
        let error = refused(lab.run(turn.append(batch)));
        assert_eq!(error.code(), ErrorCode::ToolNotGated);
        assert_eq!(error.data()["toolCallId"], id);
        assert_eq!(error.data()["toolName"], name);
        assert_eq!(all(&lab, &session), before);
    }
    let refusal = incoming(interrupted("c1", "write_file", 1));
    lab.run(turn.append(vec![ok("c3", "add"), refusal])).unwrap();
    let open: Vec<String> = turn.open_calls().into_iter().map(|call| call.id).collect();
    assert_eq!(open, ["c2"]);

    let lab = Lab::lenient();
    let session = lab.create();
    let turn = lab.run(dispatched(&session, "do it"));
    lab.run(turn.append(vec![incoming(message)])).unwrap();
    lab.run(turn.append(vec![ok("c1", "write_file"), ok("c2", "fly"), ok("c3", "add")]))
        .unwrap();
    assert!(turn.open_calls().is_empty());
}

#[test]
fn a_turn_that_has_ended_refuses_everything_also_while_another_runs() {
    for dispatched_first in [false, true] {
        let lab = Lab::empty();
        let session = lab.create();
        let turn = begin(&session).unwrap();
        turn.request().unwrap();
        if dispatched_first {
            lab.run(turn.dispatched()).unwrap();
            lab.run(turn.append(vec![incoming(two_calls())])).unwrap();
        }
        let copy = turn.clone();
        lab.run(turn.cancel()).unwrap();
        let stale = || {
            let before = all(&lab, &session);
            for turn in [&turn, &copy] {
                let codes = [
                    refused(turn.request()).code(),
                    refused(lab.run(turn.dispatched())).code(),
                    refused(lab.run(turn.append(vec![incoming(says("hi"))]))).code(),
                    refused(lab.run(turn.finish(Outcome::Success, None))).code(),
                    refused(lab.run(turn.cancel())).code(),
                ];
                assert_eq!(codes, [ErrorCode::InvalidArgument; 5]);
                assert!(turn.open_calls().is_empty() && !turn.is_dispatched());
            }
            assert_eq!(all(&lab, &session), before);
        };
        stale();
        let next = begin(&session).unwrap();
        stale();
        next.request().unwrap();
        stale();
        lab.run(next.dispatched()).unwrap();
        stale();
        lab.run(next.append(vec![incoming(two_calls())])).unwrap();
        stale();
        assert_eq!(next.open_calls().len(), 2);
        lab.run(next.cancel()).unwrap();
        stale();
        session.dispose().unwrap();
        stale();
    }
}

#[test]
fn a_second_prompt_is_refused_and_the_first_goes_on() {
    let lab = Lab::empty();
    let session = lab.create();
    let again = session.clone();
    let world = lab.world.clone();
    lab.tools.on("c1", move |_, _| {
        let (content, options) = (json!("more"), PromptOptions::default());
        let error = refused(waits(&world, again.prompt(&content, &options)).done());
        assert_eq!(error.code(), ErrorCode::SessionBusy);
        async { Ok(json!("add done")) }
    });
    long_turn(&lab, &session, Way::Prompt);
    assert_eq!(lab.stored(), long_turn_after(LONG_TURN_COMMITS).stored());
}

#[test]
fn settings_that_do_not_change_are_not_written_and_no_event_of_the_next_request() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(session.configure(None, Some("Be brief.".to_owned()), Some(Vec::new())))
        .unwrap();
    lab.run(session.configure(Some(None), None, None)).unwrap();
    assert_eq!(lab.stored(), Expected::created().stored());
    // Choosing what was the default is a choice, and is written; choosing it again is not.
    lab.run(session.set_preset(Some(Preset::ReadOnly))).unwrap();
    lab.run(session.set_preset(Some(Preset::ReadOnly))).unwrap();
    let expected = Expected::created().with(|it| {
        (it.commits, it.settings) = (2, 1);
        it.changed = json!({ "presetChosen": true });
    });
    assert_eq!(lab.stored(), expected.stored());
    let turn = begin(&session).unwrap();
    let (_, report) = turn.request().unwrap();
    assert!(report.divergence.events.is_empty());
}

#[test]
fn sections_that_cannot_be_used_are_refused_and_nothing_of_the_change_is_kept() {
    let lab = Lab::empty();
    let session = lab.create();
    let before = all(&lab, &session);
    for names in [
        vec!["permissions"],
        vec!["preamble"],
        vec!["skill"],
        vec!["skills"],
        vec!["Upper"],
        vec![""],
        vec!["1a"],
        vec!["a b"],
        vec!["mine", "mine"],
    ] {
        let sections = names
            .iter()
            .map(|name| runcontext::prompt::Section::new(*name, "x"))
            .collect();
        let change = session.configure(None, Some("Other.".to_owned()), Some(sections));
        assert_eq!(
            refused(lab.run(change)).code(),
            ErrorCode::InvalidArgument,
            "{names:?}"
        );
    }
    assert_eq!(all(&lab, &session), before);
}

#[test]
fn a_clock_that_gives_no_time_dispatches_nothing() {
    for now in [-1.0, 0.5, f64::NAN, f64::INFINITY] {
        let lab = Lab::empty();
        let session = lab.create();
        // The message brings its own time, so that only the dispatch reads the clock.
        let content = json!({ "role": "user", "content": "hello", "timestamp": 1 });
        lab.world.at(now);
        let error = refused(lab.prompt_with(&session, &content, &PromptOptions::default()));
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{now}");
        assert_eq!(lab.stored(), Expected::created().stored());
        assert!(!session.machine().is_running());
        assert_eq!(session.machine().message_count(), 0);
        assert!(session.machine().checkpoints().is_empty());
        assert_eq!(lab.model.calls(), 0);

        let turn = at_once(session.begin(&content, &PromptOptions::default())).unwrap();
        turn.request().unwrap();
        let error = refused(lab.run(turn.dispatched()));
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(!turn.is_dispatched());
        // The clock is set right, and it goes on.
        lab.world.at(2_000.0);
        turn.request().unwrap();
        lab.run(turn.dispatched()).unwrap();
        assert_eq!(lab.stored()["messages"].len(), 1);
        assert_eq!(session.machine().checkpoints().len(), 1);
        lab.run(turn.cancel()).unwrap();
    }
}

#[test]
fn a_closed_runtime_makes_opens_and_lists_nothing() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.runtime.close().unwrap();
    lab.runtime.close().unwrap();
    assert_eq!(refused(lab.prompt(&session, "hello")).code(), ErrorCode::Disposed);
    let runtime = &lab.runtime;
    let codes = [
        refused(lab.run(runtime.create_session(NewSession::default()))).code(),
        refused(lab.run(runtime.open_session(ID))).code(),
        refused(lab.run(runtime.continue_recent(None, NewSession::default()))).code(),
        refused(lab.run(runtime.list_sessions(Default::default()))).code(),
        refused(lab.run(runtime.delete_session(ID))).code(),
        refused(lab.run(runtime.add_skill("x", "y", "project"))).code(),
        refused(lab.run(runtime.remove_skill("x"))).code(),
    ];
    assert_eq!(codes, [ErrorCode::Disposed; 7]);
    assert_eq!(lab.stored(), Expected::created().stored());
}

#[test]
fn a_session_that_is_still_being_created_when_the_runtime_closes_is_not_handed_out() {
    // Whether it was written before, or would have been after.
    for applied in [false, true] {
        let lab = Lab::empty();
        let released = Signal::default();
        let fault = match applied {
            true => Fault::WaitForAnswer(released.clone()),
            false => Fault::Wait(released.clone()),
        };
        lab.storage.fail(1, fault);
        let options = NewSession {
            id: Some(ID.to_owned()),
            ..NewSession::default()
        };
        let create = waits(&lab.world, lab.runtime.create_session(options));
        lab.runtime.close().unwrap();
        released.fire();
        assert_eq!(refused(create.done()).code(), ErrorCode::Disposed);
        assert_eq!(lab.stored().contains_key("chat_sessions"), applied);
    }
}

#[test]
fn ids_are_checked_and_a_taken_one_is_a_conflict() {
    let lab = Lab::empty();
    lab.create();
    let before = lab.stored();
    let named = |id: &str| NewSession {
        id: Some(id.to_owned()),
        ..NewSession::default()
    };
    for id in ["", "a b", "a/b", "ä", "a.b", &"x".repeat(129)] {
        let error = refused(lab.run(lab.runtime.create_session(named(id))));
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{id}");
    }
    let error = refused(lab.run(lab.runtime.create_session(named(ID))));
    assert_eq!(error.code(), ErrorCode::Conflict);
    assert_eq!(error.data()["id"], ID);
    assert_eq!(lab.stored(), before);
    lab.run(lab.runtime.create_session(named(&"x".repeat(128))))
        .unwrap();
    let error = refused(lab.run(lab.runtime.open_session("nowhere")));
    assert_eq!(error.code(), ErrorCode::NotFound);
    let error = refused(lab.run(lab.runtime.delete_session("nowhere")));
    assert_eq!(error.code(), ErrorCode::NotFound);
}

#[test]
fn pages_of_the_conversation_are_read_without_a_write() {
    let lab = Lab::empty();
    let session = lab.create();
    long_turn(&lab, &session, Way::Prompt);
    let attempts = lab.storage.attempts();
    let page = |before, limit| lab.run(session.read_messages(before, limit)).unwrap();
    let all: Vec<Value> = long_turn_after(6)
        .messages
        .into_iter()
        .map(|(body, _)| body)
        .collect();
    assert_eq!(page(None, 100), all);
    assert_eq!(page(None, 2), all[3..]);
    assert_eq!(page(Some(3), 2), all[1..3]);
    assert_eq!(page(Some(1), 100), [typed("add one and two", 2_000).0]);
    assert_eq!(page(Some(0), 100), [] as [Value; 0]);
    assert_eq!(page(Some(99), 1), all[4..]);
    assert_eq!(page(None, 0), [] as [Value; 0]);
    assert_eq!(lab.storage.attempts(), attempts);
}
