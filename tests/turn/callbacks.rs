//! Callbacks that call back: every one of them may look at everything and start everything, and sees a whole state.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
};

use runcontext::{
    Error, ErrorCode,
    permissions::Preset,
    runtime::{PromptOptions, Refreshing, Runtime, RuntimeEvent, Session, SessionEvent, Turn, World},
    session::{NewSession, Outcome},
    storage::ListFilter,
};
use serde_json::{Value, json};

use crate::{
    expect::{
        HAIKU, HAIKU_LOCATION, LONG_TURN_COMMITS, Way, dispatched, long_turn, long_turn_after, two_calls,
    },
    lab::{Fault, Lab, Step, TestWorld, at_once, check_style, incoming, says, waits},
};

/// Looks at everything, and sees that it fits together.
fn look(session: &Rc<Session<Value>>, runtime: &Runtime<Value>) {
    let machine = session.machine();
    assert_eq!(machine.message_count() as usize, machine.outlines().len());
    let loaded = machine.outlines().len() - machine.loaded_from() as usize;
    assert_eq!(machine.bodies().len(), loaded);
    let turns = machine
        .outlines()
        .iter()
        .filter(|outline| outline.user_turn)
        .count();
    assert_eq!(machine.title_inputs().len(), turns);
    for snapshot in machine.snapshots() {
        assert!((snapshot.user_turn as usize) < turns);
    }
    // Every prompt that is shown has its checkpoint.
    if turns > 0 {
        assert!(machine.system_prompt_at(0).unwrap().contains("<permissions>"));
        assert!(!machine.checkpoints().is_empty());
    } else {
        assert!(machine.checkpoints().is_empty() && machine.snapshots().is_empty());
    }
    if machine.current_turn().is_some() || machine.is_dispatched() {
        assert!(machine.is_running());
        assert_eq!(machine.interrupted(), None);
    }
    // Something pending has a reason only once a write failed, and no reason stays without something pending.
    if machine.save_error().is_some() {
        assert!(machine.next_commit().is_some());
    }
    assert!(machine.compactions().is_empty());
    let _seen = (
        machine.id().len(),
        machine.cwd().len(),
        machine.header().clone(),
        machine.projection(),
        machine.budget(),
        machine.open_tool_calls().len(),
        (machine.created_at(), machine.updated_at()),
    );
    drop(machine);
    let text = format!("{session:?} {runtime:?}");
    assert!(!text.contains("borrowed"), "somebody holds a borrow: {text}");
    let _seen = (
        runtime.skills().len(),
        runtime.storage_info(),
        session.listener_errors().all(),
    );
}

/// Everything that can be started, but what would stop the turn.
fn start_everything(
    world: &Rc<TestWorld>,
    session: &Rc<Session<Value>>,
    runtime: &Rc<Runtime<Value>>,
    turn: Option<&Turn<Value>>,
    refusals: &Rc<RefCell<Vec<Error>>>,
) {
    let busy = session.machine().is_running();
    let background = |future: runcontext::storage::LocalFuture<'static, Result<(), Error>>| {
        let refusals = refusals.clone();
        // At once as far as it comes, then behind everybody else.
        let mut future = future;
        let waker = std::task::Waker::noop();
        let first = future.as_mut().poll(&mut std::task::Context::from_waker(waker));
        match first {
            std::task::Poll::Ready(Ok(())) => {}
            std::task::Poll::Ready(Err(error)) => refusals.borrow_mut().push(error),
            std::task::Poll::Pending => world.spawn(Box::pin(async move {
                if let Err(error) = future.await {
                    refusals.borrow_mut().push(error);
                }
            })),
        }
    };
    macro_rules! start {
        ($kept:ident in $object:expr => $call:expr) => {{
            let $kept = $object.clone();
            background(Box::pin(async move { $call.await.map(|_| ()) }));
        }};
    }
    if busy {
        let content = json!("from inside");
        start!(it in session => it.prompt(&json!("from inside"), &PromptOptions::default()));
        match at_once(session.begin(&content, &PromptOptions::default())) {
            Ok(_) => panic!("a busy session began a turn"),
            Err(error) => refusals.borrow_mut().push(error),
        }
        start!(it in session => it.set_preset(Some(Preset::DangerFullAccess)));
        start!(it in session => it.configure(None, Some("x".to_owned()), None));
        start!(it in session => it.flush());
        start!(it in session => it.abandon());
        refusals.borrow_mut().push(session.dispose().unwrap_err());
        refusals.borrow_mut().push(runtime.close().unwrap_err());
        start!(it in runtime => it.delete_session("s1"));
    }
    start!(it in session => it.set_title("t".to_owned()));
    start!(it in session => it.set_pinned(true));
    start!(it in session => it.mark_read(1));
    start!(it in session => it.read_messages(None, 10));
    start!(it in runtime => it.create_session(NewSession::default()));
    start!(it in runtime => it.open_session("s1"));
    start!(it in runtime => it.continue_recent(None, NewSession::default()));
    start!(it in runtime => it.list_sessions(ListFilter { limit: 3, ..ListFilter::default() }));
    start!(it in runtime => it.add_skill(HAIKU, HAIKU_LOCATION, "project"));
    start!(it in runtime => it.remove_skill("nowhere"));
    start!(it in runtime => it.set_skill_enabled("nowhere", false));
    start!(it in runtime => it.refresh_skills(&Refreshing::default()));
    start!(it in runtime => it.delete_session("nowhere"));
    let number = session.subscribe(Rc::new(|_| Ok(())));
    session.unsubscribe(number);
    session.unsubscribe(number);
    let number = runtime.subscribe(Rc::new(|_| Ok(())));
    runtime.unsubscribe(number);
    if let Some(turn) = turn {
        let _seen = (turn.open_calls(), turn.is_dispatched());
        match turn.request() {
            Ok(_) => {}
            Err(error) => refusals.borrow_mut().push(error),
        }
        start!(it in turn => it.append(vec![incoming(json!({ "role": "user", "content": "x" }))]));
    }
}

/// What a callback does: look at everything, start everything, and look again.
struct Curious {
    world: Rc<TestWorld>,
    session: Rc<Session<Value>>,
    runtime: Rc<Runtime<Value>>,
    turn: RefCell<Option<Turn<Value>>>,
    refusals: Rc<RefCell<Vec<Error>>>,
    inside: Cell<bool>,
    times: Cell<usize>,
}

impl Curious {
    fn new(lab: &Lab, session: &Rc<Session<Value>>) -> Rc<Self> {
        Rc::new(Self {
            world: lab.world.clone(),
            session: session.clone(),
            runtime: lab.runtime.clone(),
            turn: RefCell::default(),
            refusals: Rc::default(),
            inside: Cell::new(false),
            times: Cell::new(0),
        })
    }

    fn act(&self) {
        look(&self.session, &self.runtime);
        // What it starts calls back as well: that only looks. And at some point everybody has seen enough.
        if self.times.get() > 300 || self.inside.replace(true) {
            return;
        }
        self.times.set(self.times.get() + 1);
        let turn = self.turn.borrow().clone();
        start_everything(
            &self.world,
            &self.session,
            &self.runtime,
            turn.as_ref(),
            &self.refusals,
        );
        look(&self.session, &self.runtime);
        self.inside.set(false);
    }

    /// Every refusal is one of these.
    fn check(&self) {
        assert!(self.times.get() > 0, "it was never called");
        for error in self.refusals.borrow().iter() {
            check_style(error);
            assert!(
                matches!(
                    error.code(),
                    ErrorCode::SessionBusy
                        | ErrorCode::InvalidArgument
                        | ErrorCode::NotFound
                        | ErrorCode::SessionInterrupted
                        | ErrorCode::StorageFailed
                        | ErrorCode::Aborted
                ),
                "{error:?}"
            );
        }
        assert!(
            self.refusals
                .borrow()
                .iter()
                .any(|error| error.code() == ErrorCode::SessionBusy)
        );
    }
}

/// The long turn's conversation, whatever else was written.
fn check_conversation(lab: &Lab) {
    let (mut stored, expected) = (lab.stored(), long_turn_after(LONG_TURN_COMMITS).stored());
    // The skill that is added meanwhile may be there already when the prompt is made.
    for checkpoint in stored.get_mut("system_prompt_checkpoints").unwrap().values_mut() {
        checkpoint["sections"].as_object_mut().unwrap().remove("skills");
    }
    for store in ["messages", "message_outlines", "system_prompt_checkpoints"] {
        assert_eq!(stored[store], expected[store]);
    }
}

#[test]
fn listeners_may_call_everything_at_every_event() {
    for way in [Way::Prompt, Way::Begin] {
        for fault in [None, Some(Fault::Refuse), Some(Fault::LoseAcknowledgement)] {
            let lab = Lab::empty();
            let session = lab.create();
            let curious = Curious::new(&lab, &session);
            let act = curious.clone();
            session.subscribe(Rc::new(move |_| {
                act.act();
                Ok(())
            }));
            let act = curious.clone();
            lab.runtime.subscribe(Rc::new(move |event: &RuntimeEvent| {
                if !matches!(event, RuntimeEvent::SessionCreated(_)) {
                    act.act();
                }
                Ok(())
            }));
            if let Some(fault) = fault {
                lab.storage.fail(1, fault.clone());
                lab.storage.fail(5, fault);
            }
            long_turn(&lab, &session, way);
            lab.run(async {});
            if session.machine().save_error().is_some() {
                lab.run(session.flush()).unwrap();
            }
            curious.check();
            check_conversation(&lab);
        }
    }
}

#[test]
fn the_clock_may_call_everything_whenever_it_is_read() {
    for way in [Way::Prompt, Way::Begin] {
        let lab = Lab::empty();
        let session = lab.create();
        let curious = Curious::new(&lab, &session);
        let act = curious.clone();
        lab.world.on_now(Some(Rc::new(move || act.act())));
        long_turn(&lab, &session, way);
        lab.world.on_now(None);
        curious.check();
        check_conversation(&lab);
    }
}

#[test]
fn model_and_tools_may_call_everything() {
    let lab = Lab::empty();
    let session = lab.create();
    let curious = Curious::new(&lab, &session);
    let act = curious.clone();
    lab.model.on_check(Rc::new(move || {
        act.act();
        let act = act.clone();
        Box::pin(async move {
            act.act();
            Ok(())
        })
    }));
    let act = curious.clone();
    let partial = json!({ "role": "assistant", "content": [] });
    lab.model.then(Step::new(move |on_update, _| async move {
        act.act();
        on_update(incoming(partial)).unwrap();
        act.act();
        Ok(two_calls())
    }));
    let act = curious.clone();
    lab.tools.on("c1", move |_, _| {
        act.act();
        let act = act.clone();
        async move {
            act.act();
            Ok(json!("add done"))
        }
    });
    lab.model.answers(says("three"));
    lab.world.at(2_000.0);
    lab.prompt(&session, "add one and two").unwrap();
    curious.check();
    check_conversation(&lab);
    assert_eq!((lab.model.calls(), lab.tools.calls()), (2, 2));
}

#[test]
fn callbacks_of_a_hosts_own_turn_may_use_the_turn() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    let turn = at_once(session.begin(&json!("add one and two"), &PromptOptions::default())).unwrap();
    let curious = Curious::new(&lab, &session);
    *curious.turn.borrow_mut() = Some(turn.clone());
    let act = curious.clone();
    session.subscribe(Rc::new(move |_| {
        act.act();
        Ok(())
    }));
    let act = curious.clone();
    lab.world.on_now(Some(Rc::new(move || act.act())));
    lab.run(async {
        turn.request().unwrap();
        turn.dispatched().await.unwrap();
        turn.append(vec![incoming(two_calls())]).await.unwrap();
        turn.finish(Outcome::Cancelled, None).await.unwrap();
    });
    curious.check();
    assert_eq!(session.machine().message_count(), 4);
}

#[test]
fn a_turn_that_ends_while_the_clock_is_read_takes_nothing_more() {
    // The clock cancels the turn that reads it, and begins another: what was on its way belongs to none.
    for call in ["dispatched", "append", "finish"] {
        let lab = Lab::empty();
        let session = lab.create();
        lab.world.at(2_000.0);
        let turn = at_once(session.begin(&json!("first"), &PromptOptions::default())).unwrap();
        turn.request().unwrap();
        if call != "dispatched" {
            lab.run(turn.dispatched()).unwrap();
        }
        let (again, ended, world) = (session.clone(), turn.clone(), lab.world.clone());
        let next = Rc::new(RefCell::new(None));
        let begun = next.clone();
        lab.world.on_now(Some(Rc::new(move || {
            if begun.borrow().is_none() {
                waits(&world, ended.cancel()).done().unwrap();
                let turn = at_once(again.begin(&json!("second"), &PromptOptions::default())).unwrap();
                turn.request().unwrap();
                waits(&world, turn.dispatched()).done().unwrap();
                *begun.borrow_mut() = Some(turn);
            }
        })));
        let error = match call {
            "dispatched" => lab.run(turn.dispatched()).unwrap_err(),
            "append" => lab
                .run(turn.append(vec![incoming(says("for the first"))]))
                .unwrap_err(),
            _ => lab.run(turn.finish(Outcome::Success, None)).unwrap_err(),
        };
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{call}");
        let contents: Vec<Value> = session
            .machine()
            .bodies()
            .iter()
            .map(|body| body["content"].clone())
            .collect();
        match call {
            "dispatched" => assert_eq!(contents, ["second"]),
            _ => assert_eq!(contents, ["first", "second"]),
        }
        assert!(next.borrow().as_ref().unwrap().is_dispatched());
    }
}

#[test]
fn messages_are_told_once_and_in_order_also_when_a_listener_adds_more() {
    let lab = Lab::empty();
    let session = lab.create();
    let turn = at_once(session.begin(&json!("hello"), &PromptOptions::default())).unwrap();
    turn.request().unwrap();
    let (added, world) = (turn.clone(), lab.world.clone());
    session.subscribe(Rc::new(move |event| {
        if let SessionEvent::TurnStarted { .. } = event {
            let added = added.clone();
            let mut append: runcontext::storage::LocalFuture<'static, ()> = Box::pin(async move {
                added.append(vec![incoming(says("quick"))]).await.unwrap();
            });
            let waker = std::task::Waker::noop();
            let first = append.as_mut().poll(&mut std::task::Context::from_waker(waker));
            if first.is_pending() {
                world.spawn(append);
            }
        }
        Ok(())
    }));
    lab.run(turn.dispatched()).unwrap();
    let mut events = lab.events();
    events.retain(|event| event.starts_with("message"));
    events.sort();
    assert_eq!(events, ["message 0 user", "message 1 assistant"]);
    assert_eq!(lab.stored()["messages"].len(), 2);
}

#[test]
fn every_event_shows_what_it_tells_of() {
    let lab = Lab::empty();
    let session = lab.create();
    let watched = Rc::downgrade(&session);
    let seen = Rc::new(Cell::new(0));
    let count = seen.clone();
    session.subscribe(Rc::new(move |event| {
        count.set(count.get() + 1);
        let session = watched.upgrade().unwrap();
        let machine = session.machine();
        match event {
            SessionEvent::TurnStarted { user_turn } => {
                let turns = machine.outlines().iter().filter(|outline| outline.user_turn);
                assert_eq!(turns.count(), user_turn.0 as usize + 1);
                assert!(machine.is_dispatched());
                assert_eq!(machine.checkpoints().len(), 1);
                assert_eq!(
                    machine.projection().unwrap().history_message_count,
                    machine.message_count()
                );
            }
            SessionEvent::Message {
                message_index,
                message,
            } => {
                assert_eq!(machine.bodies().get(message_index.offset()), Some(message));
                assert!(machine.is_running());
            }
            SessionEvent::Update { .. } => assert!(machine.is_dispatched()),
            SessionEvent::Budget { budget } => assert_eq!(machine.budget(), Some(*budget)),
            SessionEvent::ApprovalAsked { request_id } => assert!(machine.approval(request_id).is_some()),
            SessionEvent::ApprovalAnswered { .. } => assert!(machine.is_dispatched()),
            SessionEvent::Saved => {
                assert_eq!(machine.save_error(), None);
                assert!(machine.next_commit().is_none());
            }
            SessionEvent::SaveFailed { error } => {
                assert_eq!(machine.save_error(), Some(error));
                assert!(machine.next_commit().is_some());
            }
            SessionEvent::TurnEnded { report } => {
                assert!(!machine.is_running());
                assert_eq!(report.saved, machine.next_commit().is_none());
                assert_eq!(report.saved, machine.save_error().is_none());
                assert_eq!(machine.header().last_outcome, Some(report.end.outcome));
                assert!(machine.open_tool_calls().is_empty());
                assert_eq!(machine.interrupted(), None);
            }
            SessionEvent::CompactionStarted { first_kept } => {
                assert!(first_kept.0 <= machine.message_count())
            }
            SessionEvent::CompactionEnded { compaction } => {
                assert_eq!(machine.compactions().last(), Some(compaction));
            }
            SessionEvent::CompactionFailed { .. } => assert_eq!(machine.compactions(), []),
            SessionEvent::SettingsChanged | SessionEvent::Reloaded => {}
        }
        Ok(())
    }));
    let errors = |session: &Session<Value>| session.listener_errors().all();
    long_turn(&lab, &session, Way::Prompt);
    lab.storage.fail(2, Fault::Refuse);
    lab.storage.fail(4, Fault::Refuse);
    long_turn(&lab, &session, Way::Begin);
    lab.storage.always(Some(Fault::Refuse));
    let partial = json!({ "role": "assistant", "content": [] });
    lab.model
        .then(Step::updates(vec![partial], Step::fail("overloaded")));
    lab.prompt(&session, "more").unwrap();
    assert!(seen.get() > 30);
    assert_eq!(errors(&session), [] as [&str; 0]);
}

#[test]
fn errors_of_listeners_are_collected_and_stop_nobody() {
    let lab = Lab::empty();
    let session = lab.create();
    session.subscribe(Rc::new(|event| match event {
        SessionEvent::TurnStarted { .. } | SessionEvent::TurnEnded { .. } => Err("I am tired".to_owned()),
        _ => Ok(()),
    }));
    let after = Rc::new(Cell::new(0));
    let count = after.clone();
    let number = session.subscribe(Rc::new(move |_| {
        count.set(count.get() + 1);
        Ok(())
    }));
    long_turn(&lab, &session, Way::Prompt);
    assert_eq!(session.listener_errors().all(), ["I am tired", "I am tired"]);
    assert_eq!(lab.stored(), long_turn_after(LONG_TURN_COMMITS).stored());
    // The lab leaves the budgets of the two requests out.
    assert_eq!(after.get(), lab.events().len() + 2);
    session.unsubscribe(number);
    long_turn(&lab, &session, Way::Prompt);
    assert_eq!(after.get(), 14);
    // They do not pile up for ever.
    let noisy = session.subscribe(Rc::new(|_| Err("noise".to_owned())));
    for turn in 0..120 {
        lab.run(session.set_pinned(turn % 2 == 0)).unwrap();
    }
    session.unsubscribe(noisy);
    assert_eq!(session.listener_errors().all().len(), 100);
}

/// Every way to leave a session behind.
fn leave(lab: &Lab, how: &str, options: &PromptOptions) -> Weak<Session<Value>> {
    let session = lab.create();
    lab.events();
    match how {
        "created" => {}
        "prompted" => {
            lab.model.answers(two_calls()).answers(says("three"));
            lab.prompt_with(&session, &json!("hello"), options).unwrap();
        }
        "stopped" => {
            lab.model.then(Step::silence());
            let content = json!("hello");
            let prompt = waits(&lab.world, session.prompt(&content, options));
            drop(waits(&lab.world, session.abort()));
            prompt.done().unwrap();
        }
        "refused" => {
            lab.prompt_with(&session, &json!(1), options).unwrap_err();
            at_once(session.begin(&json!(1), options)).unwrap_err();
        }
        "forgotten" => drop(at_once(session.begin(&json!("hello"), options)).unwrap()),
        "finished" => {
            let turn = at_once(session.begin(&json!("hello"), options)).unwrap();
            turn.request().unwrap();
            lab.run(turn.dispatched()).unwrap();
            lab.run(turn.finish(Outcome::Success, None)).unwrap();
        }
        "cancelled" => {
            let turn = at_once(session.begin(&json!("hello"), options)).unwrap();
            turn.request().unwrap();
            lab.run(turn.dispatched()).unwrap();
            drop(waits(&lab.world, session.abort()));
            lab.run(async {});
            assert!(!turn.is_dispatched());
        }
        "interrupted" => {
            lab.run(dispatched(&session, "hello"));
        }
        "disposed" => session.dispose().unwrap(),
        _ => panic!("no such way"),
    }
    // A host's model may keep the function for updates; that is its own affair.
    lab.model.forget_updates();
    Rc::downgrade(&session)
}

#[test]
fn a_session_that_nobody_holds_is_gone_also_where_the_signal_of_its_turns_lives_on() {
    for how in [
        "created",
        "prompted",
        "stopped",
        "refused",
        "forgotten",
        "finished",
        "cancelled",
        "interrupted",
        "disposed",
    ] {
        let lab = Lab::empty();
        let options = PromptOptions::default();
        let left = leave(&lab, how, &options);
        if how == "pending" {
            // What is pending is nowhere else.
            assert!(left.upgrade().is_some());
            continue;
        }
        assert!(left.upgrade().is_none(), "{how}");
        // The signal fires into the void.
        options.abort.fire();
        lab.run(async {});
        let Lab { runtime, events, .. } = lab;
        drop(events);
        let gone = Rc::downgrade(&runtime);
        drop(runtime);
        assert!(gone.upgrade().is_none(), "{how}");
    }
}
