//! Two pages of one browser: a turn that runs in one is no interrupted turn in the other, and what one stores the other shows.
//! Marks and hints may be missing; the counters of storage decide.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::{cell::RefCell, rc::Rc};

use runcontext::{
    ErrorCode,
    context::{DeclaredEvent, DivergenceClass},
    permissions::{Action, PermissionChange, Preset},
    prompt::Section,
    run_context::RunContext,
    runtime::{Answer, ApprovalOutcome, PromptOptions, RuntimeEvent, Session, Signal, Turn},
    session::{Hint, Machine, NewSession, Outcome, Pending, Stamp, Surroundings, Takes, ToolCall},
    storage::{Counters, Standing, memory::MemoryStorage},
};
use serde_json::{Value, json};

use crate::{
    expect::{Way, allow, dispatched, long_turn},
    lab::{
        Browser, Fault, ID, Lab, Page, Step, at_once, calls, incoming, model_ref, refused, result, says,
        waits,
    },
};

/// A page with the session open.
struct Open {
    lab: Lab,
    page: Rc<Page>,
    session: Rc<Session<Value>>,
}

/// Two pages of a browser with one session open.
fn two_pages() -> (Rc<Browser>, Open, Open) {
    let browser = Rc::<Browser>::default();
    let memory = MemoryStorage::new();
    let page = browser.page();
    let lab = Lab::in_browser(memory.clone(), &page);
    let session = lab.create();
    let one = Open { lab, page, session };
    let two = another(&browser, memory);
    browser.said();
    (browser, one, two)
}

/// One more.
fn another(browser: &Rc<Browser>, memory: MemoryStorage<Value>) -> Open {
    let page = browser.page();
    let lab = Lab::in_browser(memory, &page);
    let session = lab.open();
    Open { lab, page, session }
}

impl Open {
    /// Lets what is in the background come to its end.
    fn settles(&self) {
        self.lab.run(async {});
    }

    fn prompt(&self, text: &str) -> bool {
        self.lab.model.answers(says("hi"));
        self.lab.prompt(&self.session, text).unwrap().saved
    }

    /// What is refused while a turn runs elsewhere, without any change.
    fn is_busy_elsewhere(&self) {
        let (lab, session) = (&self.lab, &self.session);
        assert!(session.machine().runs_elsewhere());
        assert_eq!(session.machine().interrupted(), None);
        let before = lab.stored();
        lab.events();
        let errors = [
            refused(lab.prompt(session, "more")),
            refused(at_once(session.begin(&json!("more"), &PromptOptions::default()))),
            refused(lab.run(session.resume())),
            refused(lab.run(session.resume_prompt(&Signal::default()))),
            refused(lab.run(session.abandon())),
            refused(lab.run(session.set_preset(Some(Preset::WorkspaceWrite)))),
            refused(lab.run(session.configure(None, Some("other".to_owned()), None))),
        ];
        for error in errors {
            assert_eq!(error.code(), ErrorCode::SessionBusy);
            assert_eq!(
                error.message(),
                "a turn of this session runs in another tab or worker; wait for it to end there"
            );
            assert_eq!(error.data()["elsewhere"], true);
        }
        assert_eq!(lab.stored(), before);
        assert_eq!(lab.events(), [] as [&str; 0]);
        assert_eq!((lab.model.calls(), lab.model.checks()), (0, 0));
    }
}

fn call(id: &str, name: &str) -> ToolCall<Value> {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: json!({}),
    }
}

/// A turn that waits for a person's answer about `w1`.
fn asking(open: &Open) -> (Turn<Value>, String) {
    open.lab.run(async {
        let turn = dispatched(&open.session, "write").await;
        let message = calls(&[("w1", "write_file", json!({}))]);
        turn.append(vec![incoming(message)]).await.unwrap();
        let decision = turn.gate(&call("w1", "write_file")).await.unwrap().decision;
        assert_eq!(decision.outcome, Action::Require);
        (turn, decision.request_id.unwrap())
    })
}

// ---- a turn that runs elsewhere -----------------------------------------------------------------------------------

#[test]
fn a_turn_that_runs_in_another_page_is_not_taken_for_interrupted() {
    let (browser, one, two) = two_pages();
    assert_eq!(browser.marks(), [] as [&str; 0]);
    let turn = one.lab.run(dispatched(&one.session, "hello"));
    assert_eq!(browser.marks(), [ID]);
    assert!(!one.session.machine().runs_elsewhere());
    // One page had the session open, another opens it now, a third hears nothing.
    two.settles();
    two.is_busy_elsewhere();
    let late = another(&browser, one.lab.storage.memory.clone());
    late.is_busy_elsewhere();
    // It ends there, and both go on.
    one.lab.run(turn.append(vec![incoming(says("hi"))])).unwrap();
    assert!(one.lab.run(turn.finish(Outcome::Success, None)).unwrap().saved);
    assert_eq!(browser.marks(), [] as [&str; 0]);
    for page in [&two, &late] {
        page.settles();
        assert!(!page.session.machine().runs_elsewhere());
        assert!(page.prompt("more"));
    }
    assert_eq!(one.lab.stored()["messages"].len(), 6);
}

#[test]
fn a_turn_that_has_ended_in_another_page_is_no_hindrance_though_nobody_said_so() {
    let (browser, one, two) = two_pages();
    let turn = one.lab.run(dispatched(&one.session, "hello"));
    two.settles();
    browser.silence();
    one.lab.run(turn.append(vec![incoming(says("hi"))])).unwrap();
    one.lab.run(turn.finish(Outcome::Success, None)).unwrap();
    two.settles();
    assert!(two.session.machine().runs_elsewhere());
    assert_eq!(
        refused(two.lab.run(two.session.resume())).code(),
        ErrorCode::InvalidArgument
    );
    assert_eq!(two.session.machine().message_count(), 2);
    assert!(two.prompt("more"));
}

#[test]
fn a_turn_whose_page_died_can_be_resumed_or_abandoned_in_another() {
    for resumes in [true, false] {
        let (browser, one, two) = two_pages();
        let turn = one.lab.run(dispatched(&one.session, "hello"));
        two.settles();
        two.is_busy_elsewhere();
        browser.dies(&one.page);
        let next = refused(two.lab.prompt(&two.session, "more"));
        assert_eq!(next.code(), ErrorCode::SessionInterrupted);
        assert!(two.session.machine().interrupted().is_some());
        if resumes {
            two.lab.model.answers(says("hi"));
            let resumed = two
                .lab
                .run(two.session.resume_prompt(&Signal::default()))
                .unwrap();
            assert_eq!((resumed.end.outcome, resumed.saved), (Outcome::Success, true));
        } else {
            let abandoned = two.lab.run(two.session.abandon()).unwrap();
            assert_eq!(
                (abandoned.end.outcome, abandoned.saved),
                (Outcome::Cancelled, true)
            );
        }
        assert_eq!(browser.marks(), [] as [&str; 0]);
        drop(turn);
    }
}

#[test]
fn a_turn_that_is_resumed_runs_in_its_page_alone() {
    let (browser, one, two) = two_pages();
    let _turn = one.lab.run(dispatched(&one.session, "hello"));
    two.settles();
    browser.dies(&one.page);
    let three = another(&browser, one.lab.storage.memory.clone());
    let resumed = two.lab.run(two.session.resume()).unwrap();
    assert_eq!(browser.marks(), [ID]);
    let busy = refused(three.lab.run(three.session.resume()));
    assert_eq!(busy.code(), ErrorCode::SessionBusy);
    assert_eq!(busy.data()["elsewhere"], true);
    two.lab.run(resumed.cancel()).unwrap();
    assert_eq!(browser.marks(), [] as [&str; 0]);
}

#[test]
fn a_mark_ends_with_the_turn_however_it_ends() {
    let (browser, one, _two) = two_pages();
    let session = &one.session;
    assert!(one.prompt("hello"));
    assert_eq!(browser.marks(), [] as [&str; 0]);
    one.lab.model.then(Step::fail("overloaded"));
    assert!(one.lab.prompt(session, "hello").unwrap().saved);
    assert_eq!(browser.marks(), [] as [&str; 0]);
    let turn = at_once(session.begin(&json!("hello"), &PromptOptions::default())).unwrap();
    assert_eq!(browser.marks(), [] as [&str; 0]);
    // It is marked while its request is made, so that it is by the time it is stored.
    turn.request().unwrap();
    assert_eq!(browser.marks(), [ID]);
    one.lab.run(turn.cancel()).unwrap();
    assert_eq!(browser.marks(), [] as [&str; 0]);
    let turn = one.lab.run(dispatched(session, "hello"));
    assert_eq!(browser.marks(), [ID]);
    turn.request().unwrap();
    one.lab.run(turn.dispatched()).unwrap();
    assert_eq!(browser.marks(), [ID]);
    // Its end cannot be saved: it does not run any more.
    one.lab.storage.fail(1, Fault::Refuse);
    assert!(!one.lab.run(turn.cancel()).unwrap().saved);
    assert_eq!(browser.marks(), [] as [&str; 0]);
    one.lab.run(session.flush()).unwrap();
    // A host that forgets its turn lets go of the session, and of the mark.
    let (browser, one, _two) = two_pages();
    let turn = one.lab.run(dispatched(&one.session, "hello"));
    assert_eq!(browser.marks(), [ID]);
    drop(turn);
    drop(one);
    assert_eq!(browser.marks(), [] as [&str; 0]);
}

// ---- hints ---------------------------------------------------------------------------------------------------------

#[test]
fn a_turn_of_one_page_is_shown_by_the_other_at_once() {
    let (browser, one, two) = two_pages();
    two.lab.events();
    long_turn(&one.lab, &one.session, Way::Prompt);
    // Five commits; a hint for each.
    assert_eq!(browser.said(), ["session:s1"; 5]);
    two.settles();
    let events = two.lab.events();
    assert!(!events.is_empty() && events.iter().all(|event| event == "reloaded"));
    assert_eq!(two.session.machine().bodies(), one.session.machine().bodies());
    assert_eq!(two.session.machine().header(), one.session.machine().header());
    assert!(two.prompt("more"));
    one.settles();
    assert_eq!(one.session.machine().message_count(), 7);
}

#[test]
fn titles_pins_marks_presets_and_run_contexts_of_one_page_are_shown_by_the_other_at_once() {
    let (_browser, one, two) = two_pages();
    long_turn(&one.lab, &one.session, Way::Prompt);
    two.settles();
    let run_context: Option<RunContext> = {
        let options = json!({ "runContext": { "allow_fs_writes": ["logs"] } });
        NewSession::parse(&options).unwrap().run_context.flatten()
    };
    let session = &one.session;
    two.lab.events();
    one.lab.run(session.set_title("t".to_owned())).unwrap();
    one.lab.run(session.set_pinned(true)).unwrap();
    one.lab.run(session.mark_read(3)).unwrap();
    one.lab
        .run(session.set_preset(Some(Preset::WorkspaceWrite)))
        .unwrap();
    one.lab
        .run(session.configure(None, Some("Be loud.".to_owned()), None))
        .unwrap();
    one.lab.run(session.set_run_context(run_context)).unwrap();
    two.settles();
    assert_eq!(
        two.lab.events(),
        ["settings"],
        "six hints, and all of it was there at the first"
    );
    assert_eq!(two.session.machine().header(), session.machine().header());
    // The next prompt says what changed, wherever it was changed.
    two.lab.model.answers(says("hi"));
    two.lab.prompt(&two.session, "more").unwrap();
    assert_eq!(two.session.machine().checkpoints().len(), 2);
}

#[test]
fn what_another_page_changes_during_a_turn_is_declared_in_the_request_that_shows_it() {
    let (_browser, one, two) = two_pages();
    long_turn(&one.lab, &one.session, Way::Prompt);
    two.settles();
    let turn = at_once(one.session.begin(&json!("go on"), &PromptOptions::default())).unwrap();
    turn.request().unwrap();
    let theirs = &two.session;
    two.lab
        .run(theirs.set_preset(Some(Preset::WorkspaceWrite)))
        .unwrap();
    let style = Some(vec![Section::new("style", "plain")]);
    two.lab
        .run(theirs.configure(Some(Some(model_ref("m2"))), None, style))
        .unwrap();
    one.settles();
    one.lab.run(turn.dispatched()).unwrap();
    let call = calls(&[("x", "add", json!({}))]);
    one.lab.run(turn.append(vec![incoming(call)])).unwrap();
    one.lab.run(allow(&one.session, &["x"]));
    one.lab
        .run(turn.append(vec![incoming(result("x", "add", "3"))]))
        .unwrap();
    // The prompt stands for the whole turn, and the model is another at once.
    let continued = turn.request().unwrap().1.divergence;
    assert_eq!(continued.class, DivergenceClass::None);
    assert_eq!(continued.events, [DeclaredEvent::Model]);
    one.lab.run(turn.dispatched()).unwrap();
    one.lab.run(turn.append(vec![incoming(says("3"))])).unwrap();
    one.lab.run(turn.finish(Outcome::Success, None)).unwrap();
    one.lab.model.answers(says("hi"));
    one.lab.prompt(&one.session, "more").unwrap();
    let next = one.lab.model.seen().pop().unwrap().report.divergence;
    assert_eq!(next.class, DivergenceClass::System);
    assert_eq!(next.events, [DeclaredEvent::Preset, DeclaredEvent::Sections]);
}

#[test]
fn a_question_and_its_answer_are_known_in_both_pages_at_once() {
    let (_browser, one, two) = two_pages();
    let (turn, id) = asking(&one);
    two.lab.events();
    two.settles();
    assert!(two.lab.events().contains(&"asked".to_owned()));
    assert_eq!(two.session.machine().approvals().len(), 1);
    // No time goes by in these tests: only what was said wakes who waits.
    let signal = Signal::default();
    let waiting = waits(&one.lab.world, turn.approval(&id, &signal));
    let answered = two
        .lab
        .run(two.session.answer(&id, Answer::Approve, None))
        .unwrap();
    assert_eq!(answered.outcome, ApprovalOutcome::Approved);
    assert_eq!(waiting.done().unwrap().outcome, ApprovalOutcome::Approved);
    one.lab.run(turn.cancel()).unwrap();
    two.settles();
    assert_eq!(two.session.machine().approvals(), []);
    assert_eq!(two.session.machine().interrupted(), None);
}

#[test]
fn a_rule_of_one_page_is_known_in_the_other_at_once() {
    let (browser, one, two) = two_pages();
    let heard = Rc::new(RefCell::new(Vec::new()));
    let events = heard.clone();
    two.lab.runtime.subscribe(Rc::new(move |event| {
        events.borrow_mut().push(event.clone());
        Ok(())
    }));
    let rule = json!({ "tool_pattern": "add", "action": "deny" });
    let change = PermissionChange::AddRule(rule);
    one.lab
        .run(one.lab.runtime.permissions().change(&change))
        .unwrap();
    assert_eq!(browser.said(), ["rules"]);
    two.settles();
    assert_eq!(*heard.borrow(), [RuntimeEvent::PermissionsChanged]);
}

#[test]
fn while_a_turn_runs_here_settings_and_answers_of_another_page_are_taken_and_its_commits_meet_none() {
    let (_browser, one, two) = two_pages();
    let (turn, id) = asking(&one);
    two.settles();
    two.lab.run(two.session.set_title("theirs".to_owned())).unwrap();
    assert!(two.lab.run(two.session.mark_read(1)).unwrap());
    let tight = NewSession::parse(&json!({ "runContext": { "working_directory": "/w/sub" } }));
    two.lab
        .run(two.session.set_run_context(tight.unwrap().run_context.flatten()))
        .unwrap();
    two.lab
        .run(
            two.session
                .answer(&id, Answer::Reject(Some("no".to_owned())), None),
        )
        .unwrap();
    one.settles();
    assert_eq!(one.session.machine().header().title.as_deref(), Some("theirs"));
    assert_eq!(one.session.machine().header().read_count, 1);
    let signal = Signal::default();
    let told = one.lab.run(turn.approval(&id, &signal)).unwrap();
    assert_eq!(told.outcome, ApprovalOutcome::Rejected);
    one.lab.run(turn.append(vec![incoming(says("well"))])).unwrap();
    assert!(one.lab.run(turn.finish(Outcome::Success, None)).unwrap().saved);
    let settings = one.lab.stored()["chat_sessions"]["\"s1\""]["settings"].clone();
    assert_eq!(
        (&settings["title"], &settings["readCount"]),
        (&json!("theirs"), &json!(1))
    );
    assert_eq!(settings["runContext"]["working_directory"], "/w/sub");
    assert_eq!(settings["outcome"], "success");
}

#[test]
fn a_turn_that_begins_while_a_hint_is_followed_is_not_disturbed() {
    let (_browser, one, two) = two_pages();
    let released = Signal::default();
    two.lab.storage.hold_reads(&released);
    assert!(one.prompt("hello"));
    two.settles();
    let turn = at_once(two.session.begin(&json!("hello"), &PromptOptions::default())).unwrap();
    turn.request().unwrap();
    released.fire();
    two.settles();
    assert_eq!(two.session.machine().message_count(), 0);
    // What the other page stored is met at the first commit.
    two.lab.run(turn.dispatched()).unwrap();
    let report = two.lab.run(turn.cancel()).unwrap();
    assert_eq!(report.save_error.unwrap().code(), ErrorCode::Conflict);
    assert!(
        two.lab
            .run(two.session.reload(Some(Pending::Fork)))
            .unwrap()
            .is_some()
    );
    assert_eq!(two.session.machine().message_count(), 2);
    assert_eq!(one.lab.stored()["chat_sessions"].len(), 2);
}

#[test]
fn a_pending_save_is_not_disturbed_by_hints() {
    let (_browser, one, two) = two_pages();
    two.lab.storage.always(Some(Fault::Refuse));
    assert!(!two.prompt("mine"));
    assert!(one.prompt("theirs"));
    two.settles();
    assert_eq!(two.session.machine().bodies()[0]["content"], "mine");
    assert!(two.session.machine().save_error().is_some());
    two.lab.storage.always(None);
    assert_eq!(
        refused(two.lab.run(two.session.flush())).code(),
        ErrorCode::Conflict
    );
    let forked = two
        .lab
        .run(two.session.reload(Some(Pending::Fork)))
        .unwrap()
        .unwrap();
    // The other page hears of the new session.
    let heard = Rc::new(RefCell::new(Vec::new()));
    let events = heard.clone();
    one.lab.runtime.subscribe(Rc::new(move |event| {
        events.borrow_mut().push(event.clone());
        Ok(())
    }));
    one.settles();
    assert!(heard.borrow().contains(&RuntimeEvent::SessionChanged(forked)));
}

#[test]
fn both_pages_run_a_turn_at_a_time_and_one_is_stored_and_the_other_forked() {
    let (browser, one, two) = two_pages();
    let begin = |open: &Open| {
        let turn = at_once(open.session.begin(&json!("hello"), &PromptOptions::default())).unwrap();
        turn.request().unwrap();
        turn
    };
    let turns = [begin(&one), begin(&two)];
    one.lab.run(turns[0].dispatched()).unwrap();
    two.lab.run(turns[1].dispatched()).unwrap();
    // Both run; a mark excludes nobody.
    assert_eq!(browser.marks(), [ID, ID]);
    let end = |open: &Open, turn: &Turn<Value>| {
        open.lab.run(turn.append(vec![incoming(says("hi"))])).unwrap();
        open.lab.run(turn.finish(Outcome::Success, None)).unwrap()
    };
    assert!(end(&one, &turns[0]).saved);
    let report = end(&two, &turns[1]);
    assert_eq!(report.save_error.unwrap().code(), ErrorCode::Conflict);
    let id = two
        .lab
        .run(two.session.reload(Some(Pending::Fork)))
        .unwrap()
        .unwrap();
    let stored = one.lab.stored();
    for id in [ID, &id] {
        for at in 0..2 {
            assert!(stored["messages"].contains_key(&format!("[\"{id}\",{at}]")));
        }
    }
    assert_eq!(stored["messages"].len(), 4);
}

#[test]
fn a_session_that_is_deleted_in_one_page_is_let_go_of_in_the_other() {
    let (_browser, one, two) = two_pages();
    let heard = Rc::new(RefCell::new(Vec::new()));
    let events = heard.clone();
    two.lab.runtime.subscribe(Rc::new(move |event| {
        events.borrow_mut().push(event.clone());
        Ok(())
    }));
    one.lab.run(one.lab.runtime.delete_session(ID)).unwrap();
    two.settles();
    assert_eq!(heard.borrow()[0], RuntimeEvent::SessionDeleted(ID.to_owned()));
    assert_eq!(
        refused(two.lab.prompt(&two.session, "more")).code(),
        ErrorCode::Disposed
    );
    // One that has something of its own stays.
    let (_browser, one, two) = two_pages();
    two.lab.storage.always(Some(Fault::Refuse));
    assert!(!two.prompt("mine"));
    one.lab.run(one.lab.runtime.delete_session(ID)).unwrap();
    two.settles();
    assert!(!two.session.machine().is_disposed());
    assert_eq!(two.session.machine().message_count(), 2);
}

#[test]
fn a_session_that_was_deleted_and_made_again_is_shown_as_it_is_by_now_though_its_counters_are_the_same() {
    let (_browser, one, two) = two_pages();
    one.lab.run(one.lab.runtime.delete_session(ID)).unwrap();
    let again = one.lab.create();
    two.settles();
    assert_eq!(two.session.machine().origin(), again.machine().origin());
    assert!(two.prompt("hello"));
}

#[test]
fn what_is_no_hint_and_what_cannot_be_read_changes_nothing() {
    let (browser, one, two) = two_pages();
    assert!(one.prompt("hello"));
    two.settles();
    let before = two.session.machine().bodies().to_vec();
    for text in [
        "",
        "rules:",
        "session",
        "session:",
        "session:other",
        "skills",
        "session:s1\u{0}",
    ] {
        browser.says(text);
    }
    two.settles();
    assert_eq!(two.session.machine().bodies(), before);
    two.lab.storage.refuse_reads(true, true);
    assert!(one.prompt("more"));
    two.settles();
    assert_eq!(two.session.machine().bodies(), before);
    two.lab.storage.refuse_reads(false, false);
    browser.says("session:s1");
    two.settles();
    assert_eq!(two.session.machine().message_count(), 4);
    // A page that is closed hears nothing.
    two.session.dispose().unwrap();
    two.lab.runtime.close().unwrap();
    browser.says("session:s1");
    two.settles();
}

#[test]
fn hints_are_read_as_they_are_written_and_nothing_else_is_one() {
    for (hint, text) in [
        (Hint::Session("s1".to_owned()), "session:s1"),
        (Hint::Session("a:b".to_owned()), "session:a:b"),
        (Hint::Rules, "rules"),
    ] {
        assert_eq!(hint.to_text(), text);
        assert_eq!(Hint::parse(text), Some(hint));
    }
    for text in ["", "rules ", "Rules", "session", "skills:x"] {
        assert_eq!(Hint::parse(text), None);
    }
}

#[test]
fn what_a_session_takes_depends_on_what_it_does() {
    let stamp = |number: u32| Stamp {
        now: 1_000.0,
        operation_id: format!("o{number}"),
    };
    let surroundings = Surroundings {
        tools: Vec::new().into(),
        strict: true,
        load_tool: None,
    };
    let new = NewSession::default();
    let mut machine = Machine::<Value>::create(&new, ID.to_owned(), surroundings, &stamp(1)).unwrap();
    let counters = |conversation, settings| Counters {
        conversation,
        settings,
    };
    let origin = machine.origin().to_owned();
    let stored = |conversation, settings| Standing {
        origin: origin.clone(),
        counters: counters(conversation, settings),
    };
    let another = Standing {
        origin: "o9".to_owned(),
        ..stored(1, 0)
    };
    machine.saved(counters(1, 0));
    assert_eq!(machine.takes(&stored(1, 0)), Takes::Nothing);
    assert_eq!(machine.takes(&stored(1, 1)), Takes::Settings);
    assert_eq!(machine.takes(&stored(2, 0)), Takes::Everything);
    assert_eq!(machine.takes(&stored(2, 1)), Takes::Everything);
    assert_eq!(machine.takes(&another), Takes::Everything);
    // A setting waits to be saved: the conversation has to wait too.
    machine.set_title("t".to_owned(), &stamp(2));
    assert_eq!(machine.takes(&stored(1, 0)), Takes::Nothing);
    assert_eq!(machine.takes(&stored(2, 0)), Takes::Nothing);
    assert_eq!(machine.takes(&stored(2, 1)), Takes::Settings);
    assert_eq!(machine.takes(&another), Takes::Settings);
    machine.saved(counters(1, 1));
    assert_eq!(machine.takes(&stored(2, 1)), Takes::Everything);
}
