//! The runtime around sessions: finding them, deleting them, skills that stay.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::{cell::RefCell, rc::Rc};

use runcontext::{
    ErrorCode,
    context::CompactionCheckpoint,
    message::MessageIndex,
    runtime::{PromptOptions, RuntimeEvent, Signal},
    session::{Machine, NewSession, Outcome, Pending, Surroundings},
    skills::SkillStatus,
    storage::{Commit, ListFilter, SharedChange, Storage},
};
use serde_json::{Value, json};

use crate::{
    expect::{HAIKU, HAIKU_BLOCK, HAIKU_ID, HAIKU_LOCATION, HAIKU_REVISION, Way, long_turn},
    lab::{ID, Lab, Step, refused, says, waits},
};

fn named(id: &str, cwd: &str) -> NewSession {
    NewSession {
        id: Some(id.to_owned()),
        cwd: Some(cwd.to_owned()),
        ..NewSession::default()
    }
}

/// Makes a setting of a stored session one that cannot be read. The session keeps its place in the list.
fn damage(lab: &Lab, id: &str) {
    let records = lab
        .storage
        .memory
        .dump(Value::clone)
        .remove("chat_sessions")
        .unwrap();
    let mut records = records.into_iter().map(|(_, record)| record);
    let record = records.find(|record| record["id"] == id).unwrap();
    if record["settings"]["pinned"] == "perhaps" {
        return;
    }
    let commit = Commit {
        session_id: id.to_owned(),
        operation_id: format!("damage {id}"),
        timestamp: record["updatedAt"].as_f64().unwrap(),
        create: None,
        origin: record["settings"]["origin"].as_str().unwrap().to_owned(),
        approvals: Vec::new(),
        expected: None,
        messages: Vec::new(),
        outline_packs: Vec::new(),
        snapshots: Vec::new(),
        checkpoints: Vec::new(),
        compactions: Vec::new(),
        settings: [("pinned".to_owned(), json!("perhaps"))].into(),
    };
    lab.run(lab.storage.memory.session(id).commit(commit.into()))
        .unwrap();
}

#[test]
fn the_session_that_was_used_last_is_continued() {
    let lab = Lab::empty();
    for (id, cwd, at) in [("a", "/w", 1.0), ("b", "/x", 2.0), ("c", "/w", 3.0)] {
        lab.world.at(at);
        lab.create_with(named(id, cwd));
    }
    let recent = |cwd: Option<&str>| {
        let found = lab
            .runtime
            .continue_recent(cwd.map(str::to_owned), NewSession::default());
        lab.run(found).unwrap().machine().id().to_owned()
    };
    assert_eq!(recent(None), "c");
    assert_eq!(recent(Some("/x")), "b");
    lab.world.at(4.0);
    let first = lab.run(lab.runtime.open_session("a")).unwrap();
    lab.run(first.set_title("t".to_owned())).unwrap();
    assert_eq!(recent(Some("/w")), "a");
    // Where there is none, one is made.
    lab.world.at(5.0);
    let made = recent(Some("/nowhere"));
    assert!(!["a", "b", "c"].contains(&made.as_str()));
    assert_eq!(recent(Some("/nowhere")), made);
    let listed = lab.run(lab.runtime.list_sessions(ListFilter {
        limit: 9,
        ..ListFilter::default()
    }));
    let ids: Vec<String> = listed.unwrap().into_iter().map(|record| record.id).collect();
    assert_eq!(ids, [made.as_str(), "a", "c", "b"]);
}

#[test]
fn the_session_that_is_continued_is_the_newest_that_can_be_read() {
    let lab = Lab::empty();
    let ids: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    for (at, id) in ids.iter().enumerate() {
        lab.world.at(at as f64);
        lab.create_with(named(id, "/w")).dispose().unwrap();
    }
    let recent = || {
        lab.world.at(100.0);
        let found = lab
            .runtime
            .continue_recent(Some("/w".to_owned()), NewSession::default());
        lab.run(found)
    };
    let listed = || {
        let filter = ListFilter {
            limit: 50,
            ..ListFilter::default()
        };
        lab.run(lab.runtime.list_sessions(filter)).unwrap().len()
    };
    damage(&lab, "s19");
    assert_eq!(recent().unwrap().machine().id(), "s18");
    for id in &ids[3..] {
        damage(&lab, id);
    }
    assert_eq!(recent().unwrap().machine().id(), "s2");
    assert_eq!(listed(), 20);
    // A storage that fails damages nothing, and makes nobody a new session.
    lab.storage.refuse_reads(false, true);
    assert_eq!(refused(recent().map(drop)).code(), ErrorCode::StorageFailed);
    lab.storage.refuse_reads(false, false);
    assert_eq!(listed(), 20);
    // Where none can be read there is a new one, and every other stays in the list.
    for id in &ids[..3] {
        damage(&lab, id);
    }
    let made = recent().unwrap().machine().id().to_owned();
    assert!(!ids.contains(&made));
    assert_eq!(listed(), 21);
    let damaged = lab.run(lab.runtime.open_session("s0")).unwrap();
    let error = refused(lab.run(damaged.set_pinned(true)));
    assert_eq!(error.code(), ErrorCode::StorageFailed);
    assert_eq!(error.data()["sessionId"], "s0");
}

#[test]
fn opening_a_session_twice_at_a_time_gives_one_object() {
    let lab = Lab::empty();
    lab.create().dispose().unwrap();
    let released = Signal::default();
    lab.storage.hold_reads(&released);
    let mut first = waits(&lab.world, lab.runtime.open_session(ID));
    let second = waits(&lab.world, lab.runtime.open_session(ID));
    assert!(!first.go_on());
    released.fire();
    assert!(Rc::ptr_eq(&first.done().unwrap(), &second.done().unwrap()));
}

#[test]
fn a_session_that_is_still_being_opened_when_the_runtime_closes_is_not_handed_out() {
    let lab = Lab::empty();
    lab.create().dispose().unwrap();
    let released = Signal::default();
    lab.storage.hold_reads(&released);
    let open = waits(&lab.world, lab.runtime.open_session(ID));
    lab.runtime.close().unwrap();
    released.fire();
    assert_eq!(refused(open.done()).code(), ErrorCode::Disposed);
}

#[test]
fn sessions_of_one_runtime_run_side_by_side() {
    let lab = Lab::empty();
    let (one, two) = (lab.create(), lab.create_with(named("two", "/w")));
    let (content, options) = (json!("hello"), PromptOptions::default());
    lab.model.then(Step::silence()).answers(says("hi"));
    let waiting = waits(&lab.world, one.prompt(&content, &options));
    assert!(lab.prompt(&two, "hello").unwrap().saved);
    drop(waits(&lab.world, two.abort()));
    assert!(one.machine().is_running() && !two.machine().is_running());
    drop(waits(&lab.world, one.abort()));
    assert_eq!(waiting.done().unwrap().end.outcome, Outcome::Cancelled);
    // One that is busy keeps all of them.
    lab.model.then(Step::silence());
    let waiting = waits(&lab.world, two.prompt(&content, &options));
    assert_eq!(refused(lab.runtime.close()).code(), ErrorCode::SessionBusy);
    assert!(!one.machine().is_disposed());
    drop(waits(&lab.world, two.abort()));
    waiting.done().unwrap();
    lab.runtime.close().unwrap();
    assert!(one.machine().is_disposed() && two.machine().is_disposed());
}

#[test]
fn deleting_a_session_removes_all_of_it_and_lets_go_of_it() {
    let lab = Lab::empty();
    let session = lab.create();
    let other = lab.create_with(named("two", "/w"));
    let before = lab.stored();
    lab.run(lab.runtime.delete_session(ID)).unwrap();
    assert_eq!(refused(lab.prompt(&session, "hello")).code(), ErrorCode::Disposed);
    assert_eq!(
        refused(lab.run(lab.runtime.open_session(ID))).code(),
        ErrorCode::NotFound
    );
    assert!(!other.machine().is_disposed());
    // The id is free again, and nothing of the old one comes back.
    let session = lab.create();
    assert_eq!(lab.stored(), before);
    long_turn(&lab, &session, Way::Prompt);
    // One that is not open is deleted as well.
    session.dispose().unwrap();
    lab.run(lab.runtime.delete_session(ID)).unwrap();
    let left = lab.stored();
    assert!(
        left.values()
            .flat_map(|records| records.keys())
            .all(|key| key.contains("two"))
    );
}

#[test]
fn a_turn_that_comes_to_a_session_deleted_elsewhere_is_pending_and_not_lost() {
    let lab = Lab::empty();
    let session = lab.create();
    let other = Lab::on(lab.storage.memory.clone(), true);
    other.run(other.runtime.delete_session(ID)).unwrap();
    lab.model.answers(says("hi"));
    let report = lab.prompt(&session, "hello").unwrap();
    assert_eq!(report.save_error.unwrap().code(), ErrorCode::NotFound);
    assert_eq!(session.machine().message_count(), 2);
    assert!(lab.stored().is_empty());
    for error in [
        refused(lab.run(session.flush())),
        refused(lab.prompt(&session, "more")),
    ] {
        let way_out = "call `reload` with `pending` set to `fork`";
        assert!(error.message().contains(way_out), "{error}");
    }
    let fork = lab.run(session.reload(Some(Pending::Fork))).unwrap().unwrap();
    let fork = lab.run(lab.runtime.open_session(&fork)).unwrap();
    assert_eq!(fork.machine().message_count(), 2);
    session.dispose().unwrap();
}

#[test]
fn a_stored_skill_that_cannot_be_read_is_listed_as_invalid_and_can_be_removed() {
    let lab = Lab::empty();
    lab.run(lab.runtime.add_skill(HAIKU, HAIKU_LOCATION, "project"))
        .unwrap();
    let changes = [
        ("project:broken", json!(5)),
        ("odd", json!({ "scope": "", "location": "", "content": "" })),
    ];
    let changes = changes.map(|(key, value)| SharedChange {
        store: "skills",
        key: key.to_owned(),
        value: Some(value),
    });
    lab.run(lab.storage.memory.shared().write(changes.to_vec(), None))
        .unwrap();
    let other = Lab::on(lab.storage.memory.clone(), true);
    let listed = |lab: &Lab| -> Vec<_> {
        let skills = lab.runtime.skills().into_iter();
        skills
            .map(|skill| (skill.id, skill.status, skill.diagnostics.len()))
            .collect()
    };
    let haiku = (HAIKU_ID.to_owned(), SkillStatus::Active, 0);
    let broken = ("project:broken".to_owned(), SkillStatus::Invalid, 1);
    assert_eq!(listed(&other)[..2], [broken, haiku.clone()]);
    other.run(other.runtime.remove_skill("project:broken")).unwrap();
    let third = Lab::on(lab.storage.memory.clone(), true);
    assert_eq!(listed(&third)[0], haiku);
    assert_eq!(listed(&third).len(), 2);
}

#[test]
fn skills_stay_and_are_replaced_and_removed() {
    let lab = Lab::empty();
    let session = lab.create();
    let told = Rc::new(RefCell::new(Vec::new()));
    let tell = told.clone();
    let number = lab.runtime.subscribe(Rc::new(move |event: &RuntimeEvent| {
        tell.borrow_mut().push(event.clone());
        Ok(())
    }));
    let add = |content: &str, scope: &str| {
        lab.run(lab.runtime.add_skill(content, HAIKU_LOCATION, scope))
            .unwrap()
    };
    let added = add(HAIKU, "project");
    assert_eq!(
        (added.id.as_str(), added.revision.as_str()),
        (HAIKU_ID, HAIKU_REVISION)
    );
    add(HAIKU, "personal");
    assert_eq!(
        refused(lab.run(lab.runtime.add_skill("nothing", "x", "project"))).code(),
        ErrorCode::SkillInvalid
    );
    assert_eq!(told.borrow_mut().drain(..).count(), 2);

    // A restart finds them, in their order, the personal one in the shadow.
    let lab = Lab::on(lab.storage.memory.clone(), true);
    let found: Vec<(String, SkillStatus)> = lab
        .runtime
        .skills()
        .into_iter()
        .map(|skill| (skill.id, skill.status))
        .collect();
    assert_eq!(
        found,
        [
            (HAIKU_ID.to_owned(), SkillStatus::Active),
            (format!("personal:{HAIKU_LOCATION}"), SkillStatus::Shadowed)
        ]
    );
    drop(session);
    let session = lab.open();
    lab.model.answers(says("hi"));
    lab.prompt(&session, "$haiku").unwrap();
    assert_eq!(
        lab.model.seen()[0].request.messages()[0]["content"],
        format!("{HAIKU_BLOCK}\n\n$haiku")
    );
    lab.run(lab.runtime.remove_skill(HAIKU_ID)).unwrap();
    assert_eq!(
        refused(lab.run(lab.runtime.remove_skill(HAIKU_ID))).code(),
        ErrorCode::NotFound
    );
    assert_eq!(lab.runtime.skills().len(), 1);
    assert_eq!(lab.stored()["skills"].len(), 1);
    assert_eq!(session.machine().snapshots().len(), 1);
    lab.runtime.unsubscribe(number);
}

#[test]
fn the_runtime_tells_of_sessions_until_nobody_listens() {
    let lab = Lab::empty();
    let told = Rc::new(RefCell::new(Vec::new()));
    let tell = told.clone();
    let number = lab.runtime.subscribe(Rc::new(move |event: &RuntimeEvent| {
        tell.borrow_mut().push(event.clone());
        Err("never mind".to_owned())
    }));
    lab.create();
    lab.run(lab.runtime.delete_session(ID)).unwrap();
    lab.runtime.unsubscribe(number);
    lab.create();
    assert_eq!(
        *told.borrow(),
        [
            RuntimeEvent::SessionCreated(ID.to_owned()),
            RuntimeEvent::SessionDeleted(ID.to_owned())
        ]
    );
}

#[test]
fn a_stored_summary_that_keeps_more_than_there_is_is_damage_and_nothing_goes_on_by_it() {
    for (first_kept, had) in [(3, 3), (2, 3), (2, 1)] {
        let lab = Lab::empty();
        let session = lab.create();
        lab.model.answers(says("hi"));
        lab.prompt(&session, "one").unwrap();
        let summary = CompactionCheckpoint {
            id: "k".to_owned(),
            first_kept_message_index: MessageIndex(first_kept),
            history_message_count: had,
            summary: "so far".to_owned(),
            timestamp: 1.0,
            provider: "p".to_owned(),
            model: "m".to_owned(),
            usage: None,
        };
        let commit = Commit {
            session_id: ID.to_owned(),
            operation_id: "summary".to_owned(),
            timestamp: 1.0,
            create: None,
            origin: session.machine().origin().to_owned(),
            approvals: Vec::new(),
            expected: lab.stored()["chat_sessions"][&json!(ID).to_string()]["counters"]["conversation"]
                .as_u64(),
            messages: Vec::new(),
            outline_packs: Vec::new(),
            snapshots: Vec::new(),
            checkpoints: Vec::new(),
            compactions: vec![(0, summary)],
            settings: [("counts".to_owned(), json!([0, 1, 1]))].into(),
        };
        let memory = lab.storage.memory.clone();
        lab.run(memory.session(ID).commit(commit.into())).unwrap();
        let stored = lab.stored();
        let lab = Lab::on(memory, true);
        let session = lab.run(lab.runtime.open_session(ID)).unwrap();
        let machine = session.machine();
        let damage: Vec<(&str, Option<u32>)> = machine
            .damage()
            .iter()
            .map(|damage| (damage.store.as_str(), damage.key))
            .collect();
        assert_eq!(damage, [("compactions", Some(0))]);
        assert_eq!(machine.bodies().len(), 2);
        drop(machine);
        let error = refused(lab.prompt(&session, "two"));
        assert_eq!(error.code(), ErrorCode::StorageFailed);
        assert_eq!(lab.stored(), stored);
    }
}

#[test]
fn a_stored_session_that_lost_what_decides_for_it_is_damaged() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.model.answers(says("hi"));
    lab.prompt(&session, "one").unwrap();
    let memory = lab.storage.memory.clone();
    let damage = |name: Option<&str>| {
        let mut stored = lab.run(memory.session(ID).load()).unwrap().unwrap();
        if let Some(name) = name {
            assert!(stored.record.settings.remove(name).is_some());
        }
        let bodies = lab.run(memory.session(ID).read_messages(0, 2)).unwrap();
        let surroundings = Surroundings {
            tools: Rc::new([]),
            load_tool: None,
            strict: true,
        };
        Machine::open(stored, 0, bodies, surroundings)
            .unwrap()
            .damage()
            .len()
    };
    assert_eq!(damage(None), 0);
    for name in [
        "dialect",
        "permissionPreset",
        "presetChosen",
        "agentId",
        "source",
        "headless",
        "runContext",
    ] {
        assert_eq!(damage(Some(name)), 1, "{name}");
    }
    // What has a meaning where it is absent.
    assert_eq!(damage(Some("outcome")), 0);
}
