//! The page dies: what a turn leaves at every boundary between commits, and how it is abandoned.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::rc::Rc;

use runcontext::{
    ErrorCode,
    context::Source,
    permissions::Preset,
    runtime::{PromptOptions, Session},
    session::{Outcome, ToolCall},
    storage::{Commit, Storage, memory::MemoryStorage},
};
use serde_json::{Value, json};

use crate::{
    expect::{
        BOTH, Expected, HAIKU, HAIKU_BLOCK, HAIKU_ID, HAIKU_LOCATION, LONG_TURN_COMMITS, READ_ONLY, Way,
        allow, answered, called_twice, cut_off, dispatched, haiku_snapshot, long_turn, long_turn_after,
        open_turn, said, system_prompt, system_prompt_with_haiku, two_calls, typed,
    },
    lab::{ID, Lab, at_once, incoming, pairing::check_pairs, refused, run, says, stored},
    random_turns::random_turns,
};

/// What a page finds that died after the first `count` commits.
fn dead_after(lab: &Lab, commits: &[Rc<Commit<Value>>], count: usize) -> MemoryStorage<Value> {
    let memory = MemoryStorage::new();
    for commit in &commits[..count] {
        run(&lab.world, memory.session(ID).commit(commit.clone())).unwrap();
    }
    memory
}

fn call(id: &str, n: u32) -> ToolCall<Value> {
    ToolCall {
        id: id.to_owned(),
        name: "add".to_owned(),
        arguments: json!({ "n": n }),
    }
}

/// What an interrupted session refuses, without any change.
fn refused_while_interrupted(lab: &Lab, session: &Rc<Session<Value>>) {
    let before = lab.stored();
    let codes = [
        refused(lab.prompt(session, "more")).code(),
        refused(at_once(session.begin(&json!("more"), &PromptOptions::default()))).code(),
        refused(lab.run(session.set_preset(Some(Preset::WorkspaceWrite)))).code(),
        refused(lab.run(session.configure(None, Some("other".to_owned()), None))).code(),
    ];
    assert_eq!(codes, [ErrorCode::SessionInterrupted; 4]);
    assert_eq!(lab.stored(), before);
    assert_eq!(lab.events(), [] as [&str; 0]);
    assert_eq!((lab.model.calls(), lab.model.checks()), (0, 0));
}

#[test]
fn after_a_death_between_any_two_commits_the_session_says_what_is_open_and_can_be_abandoned() {
    for way in BOTH {
        let first = Lab::empty();
        let session = first.create();
        long_turn(&first, &session, way);
        let commits = first.storage.applied();
        assert_eq!(commits.len(), LONG_TURN_COMMITS);
        for count in 1..=LONG_TURN_COMMITS {
            let memory = dead_after(&first, &commits, count);
            assert_eq!(
                stored(&memory),
                long_turn_after(count).stored(),
                "{way:?} {count}"
            );
            let lab = Lab::on(memory, true);
            let session = lab.open();
            let unanswered = session.machine().interrupted().map(|it| it.unanswered);
            let expected = match count {
                1 | 6 => None,
                3 => Some(vec![call("c1", 1), call("c2", 2)]),
                _ => Some(Vec::new()),
            };
            assert_eq!(unanswered, expected, "{way:?} {count}");
            assert!(!session.machine().is_running());
            let whole = long_turn_after(count);
            let bodies: Vec<Value> = whole.messages.iter().map(|(body, _)| body.clone()).collect();
            assert_eq!(session.machine().bodies(), bodies);
            if expected.is_none() {
                assert_eq!(
                    refused(lab.run(session.abandon())).code(),
                    ErrorCode::InvalidArgument
                );
                lab.model.answers(says("hi"));
                assert!(lab.prompt(&session, "hello").unwrap().saved);
                continue;
            }
            refused_while_interrupted(&lab, &session);

            lab.world.at(3_000.0);
            let report = lab.run(session.abandon()).unwrap();
            assert_eq!(
                (report.end.outcome, report.end.error, report.saved),
                (Outcome::Cancelled, None, true)
            );
            let abandoned = long_turn_after(count).with(|it| {
                it.updated_at = 3_000.0;
                (it.commits, it.conversation, it.settings) = (count + 1, count as u64 + 1, 2);
                it.changed = json!({ "outcome": "cancelled" });
                if count == 3 {
                    it.messages.extend([cut_off("c1", "add"), cut_off("c2", "add")]);
                }
            });
            assert_eq!(lab.stored(), abandoned.stored(), "{way:?} {count}");
            assert_eq!((lab.model.calls(), lab.tools.calls()), (0, 0));
            let mut events = lab.events();
            assert_eq!(events.pop().unwrap(), "ended cancelled");
            assert_eq!(events.pop().unwrap(), "saved");
            assert_eq!(events.len(), if count == 3 { 2 } else { 0 });
            assert_eq!(session.machine().interrupted(), None);
            assert_eq!(
                refused(lab.run(session.abandon())).code(),
                ErrorCode::InvalidArgument
            );

            // What is left is a conversation that goes on: all of it is shown, and the new message.
            lab.model.answers(says("hi"));
            assert!(lab.prompt(&session, "hello").unwrap().saved);
            let mut shown: Vec<Value> = abandoned.messages.iter().map(|(body, _)| body.clone()).collect();
            shown.push(typed("hello", 3_000).0);
            assert_eq!(lab.model.seen()[0].request.messages(), shown);
            assert_eq!(
                lab.model.seen()[0].request.system_prompt,
                system_prompt(READ_ONLY)
            );
        }
    }
}

#[test]
fn random_turns_that_die_between_any_two_commits_leave_a_conversation_that_goes_on() {
    let (mut deaths, mut unanswered) = (0, 0);
    for seed in 1..=12 {
        let first = Lab::empty();
        let session = first.create();
        random_turns(&first, &session, seed, &mut || {});
        let commits = first.storage.applied();
        for count in 1..=commits.len() {
            let lab = Lab::on(dead_after(&first, &commits, count), true);
            let session = lab.open();
            let interrupted = session.machine().interrupted();
            let turn_is_open = lab.stored()["chat_sessions"]["\"s1\""]["settings"]["openTurn"] != json!(null);
            assert_eq!(interrupted.is_some(), turn_is_open);
            if let Some(interrupted) = interrupted {
                deaths += 1;
                unanswered += interrupted.unanswered.len();
                let before = session.machine().message_count() as usize;
                assert!(lab.run(session.abandon()).unwrap().saved);
                let added = session.machine().message_count() as usize - before;
                assert_eq!(added, interrupted.unanswered.len());
            }
            let turn = at_once(session.begin(&json!("next"), &PromptOptions::default())).unwrap();
            let (request, report) = turn.request().unwrap();
            let pairs = check_pairs(&request.messages()).unwrap();
            // Whatever was cut off is stored by now: nothing is made up on the way to the model.
            let projection = report.projection();
            let made_up = projection
                .sources
                .iter()
                .filter(|source| matches!(source, Source::InterruptedToolResult { .. }));
            assert_eq!(made_up.count(), 0);
            assert!(pairs.interrupted <= pairs.calls);
            assert!(report.notices.is_empty());
        }
    }
    println!("{deaths} deaths in mid-turn, {unanswered} calls unanswered");
    assert!(deaths > 100 && unanswered > 20);
}

#[test]
fn reopening_twice_says_the_same_and_changes_nothing() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    lab.run(async {
        let turn = dispatched(&session, "add one and two").await;
        turn.append(vec![incoming(two_calls())]).await.unwrap();
        allow(&session, &["c1"]).await;
        let result = answered("c1", "add done", 2_000).0;
        turn.append(vec![incoming(result)]).await.unwrap();
    });
    let mut memory = lab.storage.memory.clone();
    for _ in 0..2 {
        let lab = Lab::on(memory, true);
        let session = lab.open();
        let interrupted = session.machine().interrupted().unwrap();
        assert_eq!(interrupted.unanswered, [call("c2", 2)]);
        assert_eq!(lab.storage.attempts(), 0, "opening and looking writes nothing");
        memory = lab.storage.memory.clone();
    }
    let lab = Lab::on(memory, true);
    let session = lab.open();
    lab.world.at(3_000.0);
    lab.run(session.abandon()).unwrap();
    let bodies: Vec<Value> = session.machine().bodies().to_vec();
    assert_eq!(
        bodies,
        [
            typed("add one and two", 2_000).0,
            called_twice().0,
            answered("c1", "add done", 2_000).0,
            cut_off("c2", "add").0
        ]
    );
}

#[test]
fn a_session_whose_last_answer_failed_before_the_page_died_has_no_open_calls() {
    let lab = Lab::empty();
    let session = lab.create();
    let mut failed = two_calls();
    failed["stopReason"] = json!("error");
    lab.run(async {
        let turn = dispatched(&session, "add one and two").await;
        turn.append(vec![incoming(failed)]).await.unwrap();
    });
    let lab = Lab::on(lab.storage.memory.clone(), true);
    let session = lab.open();
    assert_eq!(session.machine().interrupted().unwrap().unanswered, []);
    lab.run(session.abandon()).unwrap();
    assert_eq!(session.machine().message_count(), 2);
}

#[test]
fn a_death_in_a_later_turn_leaves_the_earlier_ones_alone() {
    let lab = Lab::empty();
    let session = lab.create();
    long_turn(&lab, &session, Way::Begin);
    lab.world.at(3_000.0);
    lab.run(dispatched(&session, "more"));
    let dead = long_turn_after(LONG_TURN_COMMITS).with(|it| {
        it.updated_at = 3_000.0;
        (it.commits, it.conversation, it.settings) = (7, 7, 3);
        it.changed = json!({ "outcome": "success", "openTurn": open_turn(5) });
        it.messages.push(typed("more", 3_000));
    });
    assert_eq!(lab.stored(), dead.stored());
    let lab = Lab::on(lab.storage.memory.clone(), true);
    let session = lab.open();
    assert_eq!(session.machine().interrupted().unwrap().unanswered, []);
    lab.world.at(4_000.0);
    lab.run(session.abandon()).unwrap();
    let abandoned = dead.with(|it| {
        it.updated_at = 4_000.0;
        (it.commits, it.conversation, it.settings) = (8, 8, 4);
        it.changed = json!({ "outcome": "cancelled" });
    });
    assert_eq!(lab.stored(), abandoned.stored());
}

#[test]
fn a_turn_that_was_not_dispatched_leaves_nothing_to_abandon() {
    let lab = Lab::empty();
    let session = lab.create();
    let turn = at_once(session.begin(&json!("hello"), &PromptOptions::default())).unwrap();
    turn.request().unwrap();
    let lab = Lab::on(lab.storage.memory.clone(), true);
    let session = lab.open();
    assert_eq!(session.machine().interrupted(), None);
    assert_eq!(lab.stored(), Expected::created().stored());
}

#[test]
fn an_interrupted_session_takes_titles_and_flushes_and_can_be_let_go_of() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(dispatched(&session, "hello"));
    let lab = Lab::on(lab.storage.memory.clone(), true);
    let session = lab.open();
    lab.run(session.set_title("t".to_owned())).unwrap();
    lab.run(session.flush()).unwrap();
    session.dispose().unwrap();
    let session = lab.open();
    assert_eq!(session.machine().header().title.as_deref(), Some("t"));
    assert!(session.machine().interrupted().is_some());
}

#[test]
fn skills_and_system_prompt_of_an_interrupted_turn_survive() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(lab.runtime.add_skill(HAIKU, HAIKU_LOCATION, "project"))
        .unwrap();
    lab.world.at(2_000.0);
    let options = PromptOptions {
        skills: vec![HAIKU_ID.to_owned()],
        ..PromptOptions::default()
    };
    let turn = at_once(session.begin(&json!("hello"), &options)).unwrap();
    turn.request().unwrap();
    lab.run(turn.dispatched()).unwrap();
    lab.run(turn.append(vec![incoming(says("hi"))])).unwrap();

    let lab = Lab::on(lab.storage.memory.clone(), true);
    let session = lab.open();
    lab.run(session.abandon()).unwrap();
    // The source changes: what was said does not.
    lab.run(lab.runtime.remove_skill(HAIKU_ID)).unwrap();
    lab.model.answers(says("bye"));
    lab.prompt(&session, "goodbye").unwrap();
    let messages = lab.model.seen()[0].request.messages();
    assert_eq!(messages[0]["content"], format!("{HAIKU_BLOCK}\n\nhello"));
    assert_eq!(messages[1], said("hi").0);
    assert_eq!(messages[2]["content"], "goodbye");
    let machine = session.machine();
    let checkpoints = serde_json::to_value(machine.checkpoints()).unwrap();
    assert_eq!(checkpoints.as_array().unwrap().len(), 2);
    assert_eq!(checkpoints[1]["sections"], json!({ "skills": null }));
    assert_eq!(machine.system_prompt_at(0).unwrap(), system_prompt_with_haiku());
    assert_eq!(machine.system_prompt_at(3).unwrap(), system_prompt(READ_ONLY));
    assert_eq!(
        refused(machine.system_prompt_at(4)).code(),
        ErrorCode::InvalidArgument
    );
    let snapshots = serde_json::to_value(machine.snapshots()).unwrap();
    assert_eq!(snapshots, json!([haiku_snapshot(0, 2_000)]));
}

#[test]
fn two_pages_on_one_store_do_not_share_objects_and_one_page_does() {
    let lab = Lab::empty();
    let session = lab.create();
    assert!(Rc::ptr_eq(&session, &lab.open()));
    let other = Lab::on(lab.storage.memory.clone(), true);
    assert!(!Rc::ptr_eq(&session, &other.open()));
    session.dispose().unwrap();
    assert!(!Rc::ptr_eq(&session, &lab.open()));
}
