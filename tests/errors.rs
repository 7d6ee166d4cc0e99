//! Errors: bad input gets a typed one that says what to do, and changes nothing.
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

#[path = "lab/mod.rs"]
pub mod lab;

use std::{collections::BTreeSet, rc::Rc};

use runcontext::{
    Error, ErrorCode, Result,
    context::{CompactionCheckpoint, RuntimeContextSnapshot, project},
    message::{Dialect, MessageIndex},
    permissions::Preset,
    prompt::{self, Checkpoint, Section},
    runtime::{PromptOptions, Session, Turn},
    session::{NewSession, Outcome},
    storage::keys,
};
use serde_json::{Value, json};

use lab::{Fault, ID, Lab, at_once, calls, check_style, incoming, refused, result, says};

/// Errors that were provoked, by what was done.
#[derive(Default)]
struct Provoked(Vec<(String, Error)>);

impl Provoked {
    fn add<T: std::fmt::Debug>(&mut self, what: &str, result: Result<T>) {
        self.0.push((what.to_owned(), refused(result)));
    }
}

fn dispatched(lab: &Lab, session: &Rc<Session<Value>>) -> Turn<Value> {
    let turn = at_once(session.begin(&json!("hello"), &PromptOptions::default())).unwrap();
    turn.request().unwrap();
    lab.run(turn.dispatched()).unwrap();
    turn
}

/// One of each that can be had from sessions and runtimes.
fn of_sessions() -> Vec<(String, Error)> {
    let mut all = Provoked::default();
    let default = PromptOptions::default();
    let text = json!("hello");

    let lab = Lab::empty();
    let session = lab.create();
    all.add(
        "taken id",
        lab.run(lab.runtime.create_session(NewSession {
            id: Some(ID.to_owned()),
            ..NewSession::default()
        })),
    );
    all.add(
        "bad id",
        lab.run(lab.runtime.create_session(NewSession {
            id: Some("no blanks".to_owned()),
            ..NewSession::default()
        })),
    );
    all.add(
        "bad section",
        lab.run(lab.runtime.create_session(NewSession {
            sections: vec![Section::new("permissions", "all of them")],
            ..NewSession::default()
        })),
    );
    all.add("unknown session", lab.run(lab.runtime.open_session("nowhere")));
    all.add(
        "deleting an unknown session",
        lab.run(lab.runtime.delete_session("nowhere")),
    );
    all.add(
        "unknown skill to remove",
        lab.run(lab.runtime.remove_skill("project:nowhere")),
    );
    all.add(
        "no skill",
        lab.run(lab.runtime.add_skill("no frontmatter", "x/SKILL.md", "project")),
    );
    let skill = "---\nname: s\ndescription: d\n---\nbody\n";
    all.add(
        "no scope",
        lab.run(lab.runtime.add_skill(skill, "x/SKILL.md", "a:b")),
    );
    all.add(
        "no location",
        lab.run(lab.runtime.add_skill(skill, " ", "project")),
    );
    all.add("no content", at_once(session.begin(&json!(1), &default)));
    all.add(
        "another role",
        at_once(session.begin(&json!({ "role": "system", "content": "x" }), &default)),
    );
    all.add(
        "content of another kind",
        at_once(session.begin(&json!({ "role": "user", "content": 1 }), &default)),
    );
    all.add(
        "a block of another kind",
        at_once(session.begin(&json!(["x"]), &default)),
    );
    all.add(
        "a time of another kind",
        at_once(session.begin(
            &json!({ "role": "user", "content": "x", "timestamp": "now" }),
            &default,
        )),
    );
    let chosen = PromptOptions {
        skills: vec!["project:nowhere".to_owned()],
        ..PromptOptions::default()
    };
    all.add("unknown skill", at_once(session.begin(&text, &chosen)));
    let stopped = PromptOptions::default();
    stopped.abort.fire();
    all.add("stopped prompt", lab.run(session.prompt(&text, &stopped)));
    all.add("stopped turn", at_once(session.begin(&text, &stopped)));
    lab.model
        .on_check(Rc::new(|| Box::pin(async { Err("no key".to_owned()) })));
    all.add("preflight", lab.run(session.prompt(&text, &default)));
    all.add("nothing to abandon", lab.run(session.abandon()));
    all.add("no such message", session.machine().system_prompt_at(0));
    all.add(
        "bad sections",
        lab.run(session.configure(None, None, Some(vec![Section::new("A", "")]))),
    );

    let turn = at_once(session.begin(&text, &default)).unwrap();
    all.add("nothing requested", lab.run(turn.dispatched()));
    all.add("not dispatched", lab.run(turn.append(vec![incoming(says("hi"))])));
    turn.request().unwrap();
    lab.run(turn.dispatched()).unwrap();
    all.add("busy", at_once(session.begin(&text, &default)));
    all.add("busy to delete", lab.run(lab.runtime.delete_session(ID)));
    all.add("busy to close", lab.runtime.close());
    let message = calls(&[("c1", "write_file", json!({})), ("c2", "add", json!({}))]);
    lab.run(turn.append(vec![incoming(message)])).unwrap();
    all.add("open calls", turn.request());
    all.add(
        "no such call",
        lab.run(turn.append(vec![incoming(result("c9", "add", "x"))])),
    );
    all.add(
        "not gated",
        lab.run(turn.append(vec![incoming(result("c1", "write_file", "x"))])),
    );
    all.add(
        "a user message",
        lab.run(turn.append(vec![incoming(json!({ "role": "user", "content": "x" }))])),
    );
    all.add("no message", lab.run(turn.append(vec![incoming(json!("x"))])));
    all.add("no role", lab.run(turn.append(vec![incoming(json!({}))])));
    all.add(
        "no id",
        lab.run(turn.append(vec![incoming(json!({ "role": "toolResult" }))])),
    );
    lab.storage.always(Some(Fault::Refuse));
    lab.run(turn.finish(Outcome::Success, None)).unwrap();
    all.add("ended", turn.request());
    all.add("pending", at_once(session.begin(&text, &default)));
    all.add("storage", lab.run(session.flush()));
    lab.storage.always(Some(Fault::Conflict));
    all.add("somebody else", lab.run(session.flush()));
    lab.storage.always(None);
    lab.run(session.flush()).unwrap();
    let released = runcontext::runtime::Signal::default();
    lab.storage.fail(1, Fault::Wait(released.clone()));
    let title = lab::waits(&lab.world, session.set_title("t".to_owned()));
    all.add("being saved", session.dispose());
    released.fire();
    title.done().unwrap();
    dispatched(&lab, &session);
    let lab = Lab::on(lab.storage.memory.clone(), true);
    let session = lab.open();
    all.add("interrupted", at_once(session.begin(&text, &default)));
    session.dispose().unwrap();
    all.add("let go of", at_once(session.begin(&text, &default)));
    all.add("let go of, and named", lab.run(session.set_title("t".to_owned())));
    lab.runtime.close().unwrap();
    all.add("closed", lab.run(lab.runtime.open_session(ID)));

    // A late answer.
    let lab = Lab::empty();
    let session = lab.create();
    lab.model.answers(says("hi"));
    lab.run(session.prompt(&text, &default)).unwrap();
    all.add("late", lab.model.last_updates()(incoming(says("late"))));
    // A stored record that makes no sense.
    let lab = Lab::empty();
    lab.create().dispose().unwrap();
    let mut commit = (*lab.storage.applied()[0]).clone();
    commit.create = None;
    commit.expected = None;
    commit.operation_id = "damage".to_owned();
    commit
        .settings
        .insert("permissionPreset".to_owned(), json!("root"));
    lab.run(async {
        use runcontext::storage::Storage;
        let stored = lab.storage.memory.session(ID);
        stored.commit(Rc::new(commit)).await.unwrap();
    });
    let damaged = lab.run(lab.runtime.open_session(ID)).unwrap();
    all.add("damaged", lab.run(damaged.set_pinned(true)));
    all.0
}

/// One of each that can be had from functions.
fn of_functions() -> Vec<(String, Error)> {
    let mut all = Provoked::default();
    all.add("preset", "root".parse::<Preset>());
    for (what, options) in [
        ("options", json!([])),
        (
            "run context",
            json!({ "runContext": { "allow_fs_reads": "docs" } }),
        ),
        ("id", json!({ "id": 1 })),
        ("headless", json!({ "headless": "yes" })),
        ("instructions", json!({ "projectInstructions": [{}] })),
        ("preset in options", json!({ "permissionPreset": "root" })),
        ("preset of another kind", json!({ "permissionPreset": 1 })),
        ("dialect", json!({ "dialect": "smoke-signals" })),
        ("model", json!({ "model": { "provider": "p" } })),
        (
            "model's window",
            json!({ "model": { "provider": "p", "id": "m", "contextWindow": -1 } }),
        ),
        (
            "model's window is zero",
            json!({ "model": { "provider": "p", "id": "m", "contextWindow": 0 } }),
        ),
        ("sections", json!({ "sections": [{ "name": "a" }] })),
    ] {
        all.add(what, NewSession::parse(&options));
    }
    let checkpoint = |value: Value| Checkpoint::parse(&value);
    for (what, value) in [
        ("checkpoint", json!(1)),
        (
            "messageCount",
            json!({ "messageCount": 0, "timestamp": 0, "sections": { "a": "x" } }),
        ),
        (
            "timestamp",
            json!({ "messageCount": 1, "timestamp": 0.5, "sections": { "a": "x" } }),
        ),
        (
            "no sections",
            json!({ "messageCount": 1, "timestamp": 0, "sections": {} }),
        ),
        (
            "section name",
            json!({ "messageCount": 1, "timestamp": 0, "sections": { "A": "x" } }),
        ),
        (
            "section value",
            json!({ "messageCount": 1, "timestamp": 0, "sections": { "a": 1 } }),
        ),
    ] {
        all.add(what, checkpoint(value));
    }
    let one = |count: u32| json!({ "messageCount": count, "timestamp": 0, "sections": { "a": "x" } });
    all.add("falling", Checkpoint::parse_list(&json!([one(2), one(1)])));
    all.add("no list", Checkpoint::parse_list(&json!({})));
    all.add(
        "two of a name",
        prompt::render_system_prompt(&[Section::new("a", "x"), Section::new("a", "y")]),
    );
    all.add(
        "reserved",
        prompt::render_system_prompt(&[Section::new("skill", "x")]),
    );
    all.add(
        "built in",
        prompt::validate_host_sections(&[Section::new("cwd", "x")]),
    );
    let snapshot = |change: Value| {
        let mut value = json!({ "userTurn": 0, "content": "x", "timestamp": 0 });
        for (name, field) in change.as_object().unwrap() {
            value[name] = field.clone();
        }
        RuntimeContextSnapshot::parse(&value)
    };
    for change in [
        json!({ "userTurn": -1 }),
        json!({ "userTurn": 0.5 }),
        json!({ "content": " \n" }),
        json!({ "content": 1 }),
        json!({ "timestamp": -1 }),
        json!({ "placement": "system" }),
        json!({ "skills": {} }),
        json!({ "skills": [{ "id": "x" }] }),
    ] {
        all.add(&format!("snapshot with {change}"), snapshot(change));
    }
    let parsed = CompactionCheckpoint {
        id: "k".to_owned(),
        first_kept_message_index: MessageIndex(1),
        history_message_count: 1,
        summary: "s".to_owned(),
        timestamp: 1.0,
        provider: "p".to_owned(),
        model: "m".to_owned(),
        usage: None,
    };
    all.add("nothing kept", project(&[], &[], Some(&parsed)));
    for message in [json!(null), json!([]), json!({}), json!({ "role": "toolResult" })] {
        all.add(&format!("{message}"), Dialect::Loop.outline(&message, true));
    }
    for content in [
        json!(1),
        json!({ "role": "tool" }),
        json!({ "role": "user" }),
        json!([1]),
    ] {
        all.add(&format!("{content}"), Dialect::Loop.typed_message(&content, 0.0));
    }
    all.0
}

#[test]
fn every_code_of_sessions_can_be_had_and_no_other() {
    let codes: BTreeSet<&str> = of_sessions()
        .iter()
        .chain(&of_functions())
        .map(|(_, error)| error.code().as_str())
        .collect();
    let expected = BTreeSet::from([
        "aborted",
        "conflict",
        "disposed",
        "invalid_argument",
        "model_failed",
        "not_found",
        "pending_save",
        "session_busy",
        "session_interrupted",
        "skill_invalid",
        "skill_unavailable",
        "storage_failed",
        "tool_not_gated",
    ]);
    assert_eq!(codes, expected);
}

#[test]
fn every_message_is_one_lower_case_line_that_says_what_to_do() {
    let all = [of_sessions(), of_functions()].concat();
    println!("{} errors", all.len());
    assert!(all.len() >= 80);
    for (what, error) in &all {
        check_style(error);
        let text = error.message();
        assert_eq!(text.matches('`').count() % 2, 0, "{what}: {text}");
        assert_eq!(text.trim(), text, "{what}");
        assert!(text.len() < 300, "{what}: {text}");
        assert_eq!(text, error.to_string(), "{what}");
    }
    // No two sessions' errors say the same of different things.
    let texts: BTreeSet<&str> = all.iter().map(|(_, error)| error.message()).collect();
    assert!(texts.len() >= 55, "{}", texts.len());
}

#[test]
fn the_texts_are_these() {
    let all = [of_sessions(), of_functions()].concat();
    for (what, code, text) in [
        (
            "taken id",
            ErrorCode::Conflict,
            "a session with the id `s1` exists; open it or choose another id",
        ),
        (
            "unknown session",
            ErrorCode::NotFound,
            "there is no session `nowhere`; list them with `listSessions`",
        ),
        (
            "unknown skill",
            ErrorCode::SkillUnavailable,
            "skill `project:nowhere` is unknown; list the catalogue for the ids there are",
        ),
        (
            "stopped prompt",
            ErrorCode::Aborted,
            "the prompt was aborted before it was sent; nothing was stored",
        ),
        (
            "preflight",
            ErrorCode::ModelFailed,
            "the model is not ready: no key",
        ),
        (
            "busy",
            ErrorCode::SessionBusy,
            "the session is busy with another turn or operation; wait for it to end or call `abort()`",
        ),
        (
            "being saved",
            ErrorCode::SessionBusy,
            "the session is being saved; wait for that to end",
        ),
        (
            "interrupted",
            ErrorCode::SessionInterrupted,
            "a turn of this session was cut off; call `resume()` or `abandon()` first",
        ),
        (
            "pending",
            ErrorCode::PendingSave,
            "a save of this session is pending; call `flush()` first",
        ),
        (
            "let go of",
            ErrorCode::Disposed,
            "the session was disposed; open it again with `openSession`",
        ),
        (
            "no such call",
            ErrorCode::InvalidArgument,
            "no open tool call has the id `c9`; append results after the message that holds their call",
        ),
        (
            "not gated",
            ErrorCode::ToolNotGated,
            "the call `c1` of tool `write_file` was not allowed; ask `gate` before it runs, or open the runtime with `strict: false`",
        ),
        (
            "nothing kept",
            ErrorCode::InvalidArgument,
            "the compaction keeps message 1 of 1, but there are 0; pass the last compaction of this conversation, and all of its messages",
        ),
        (
            "preset",
            ErrorCode::InvalidArgument,
            "`root` is no permission preset; use `read-only`, `workspace-write`, `danger-full-access`, or null for none",
        ),
    ] {
        let (_, error) = all.iter().find(|(name, _)| name == what).unwrap();
        assert_eq!((error.code(), error.message()), (code, text), "{what}");
    }
}

#[test]
fn errors_name_what_they_are_about_in_their_data() {
    let all = [of_sessions(), of_functions()].concat();
    for (what, field, value) in [
        ("taken id", "id", "s1"),
        ("bad id", "id", "no blanks"),
        ("bad section", "section", "permissions"),
        ("unknown session", "id", "nowhere"),
        ("unknown skill", "id", "project:nowhere"),
        ("unknown skill", "reason", "unknown"),
        ("no skill", "id", "project:x/SKILL.md"),
        ("no such call", "toolCallId", "c9"),
        ("not gated", "toolCallId", "c1"),
        ("not gated", "toolName", "write_file"),
        ("damaged", "sessionId", ID),
        ("run context", "field", "options.runContext.allow_fs_reads"),
        ("headless", "field", "options.headless"),
        ("instructions", "field", "options.projectInstructions[0].path"),
        ("model", "field", "options.model.id"),
        ("model's window", "field", "options.model.contextWindow"),
        ("model's window is zero", "field", "options.model.contextWindow"),
        ("sections", "field", "options.sections[0].content"),
        ("section value", "field", "checkpoint.sections.a"),
        ("falling", "field", "checkpoints[1].messageCount"),
    ] {
        let (_, error) = all.iter().find(|(name, _)| name == what).unwrap();
        assert_eq!(error.data().get(field), Some(&json!(value)), "{what}: {error:?}");
    }
}

#[test]
fn a_damaged_record_is_left_as_it_is() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(session.set_pinned(true)).unwrap();
    session.dispose().unwrap();
    let mut commit = (*lab.storage.applied()[1]).clone();
    commit.operation_id = "damage".to_owned();
    commit.settings = [("openTurn".to_owned(), json!("yes"))].into();
    lab.run(async {
        use runcontext::storage::Storage;
        lab.storage
            .memory
            .session(ID)
            .commit(Rc::new(commit))
            .await
            .unwrap();
    });
    let before = lab.stored();
    let session = lab.run(lab.runtime.open_session(ID)).unwrap();
    assert_eq!(session.machine().damage().len(), 1);
    let error = refused(lab.run(session.set_pinned(false)));
    assert_eq!(error.code(), ErrorCode::StorageFailed);
    assert_eq!(lab.stored(), before);
    // It can be listed, and deleted.
    let listed = lab.run(lab.runtime.list_sessions(Default::default()));
    drop(listed);
    lab.run(lab.runtime.delete_session(ID)).unwrap();
    assert!(!lab.stored().contains_key(keys::SESSIONS));
}
