//! The run context while it changes: tighter at once, looser only when the turn is over and everything is saved.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use runcontext::{
    ErrorCode,
    paths::PathStyle,
    permissions::{Action, BypassScope, Preset, Reason},
    runtime::{PromptOptions, Signal},
    session::{Now, Outcome},
    storage::{Commit, Storage},
};
use serde_json::{Value, json};

use super::{call, context, gated, lab, options, outcome, page, reads, reason, session, turn_with, writes};
use crate::lab::{Fault, ID, Lab, at_once, refused, says, waits};

const LOGS: &str = "/ws/app/logs/today.txt";

fn logs() -> Value {
    json!({ "runContext": { "allow_fs_writes": ["logs/*"] } })
}

/// The run context of these tests, or another.
fn set(lab: &Lab, session: &runcontext::runtime::Session<Value>, new: Value) -> runcontext::Result<()> {
    let new = if new.is_null() { None } else { context(new) };
    lab.run(session.set_run_context(new))
}

#[test]
fn the_run_context_in_force_decides_the_next_call() {
    let (lab, _) = lab();
    let session = session(&lab, json!({}));
    assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Require);
    set(&lab, &session, json!({ "allow_fs_writes": ["logs/*"] })).unwrap();
    assert_eq!(
        reason(&lab, &session, &writes(LOGS)),
        (Action::Allow, Reason::RunContext)
    );
    assert_eq!(
        outcome(&lab, &session, &writes("/ws/app/logs-old/x")),
        Action::Require
    );
    set(
        &lab,
        &session,
        json!({ "allow_fs_writes": ["logs/*"], "working_directory": "/tmp" }),
    )
    .unwrap();
    assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Require);
    assert_eq!(outcome(&lab, &session, &writes("logs/x")), Action::Allow);
    assert_eq!(outcome(&lab, &session, &reads("/tmp/x")), Action::Allow);
    assert_eq!(outcome(&lab, &session, &reads("/ws/app/x")), Action::Require);
    set(&lab, &session, Value::Null).unwrap();
    assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Require);
    assert_eq!(outcome(&lab, &session, &reads("/ws/app/x")), Action::Allow);
}

#[test]
fn a_tightened_run_context_is_live_at_once_in_a_running_turn() {
    let (lab, _) = lab();
    let session = session(&lab, logs());
    let turn = turn_with(&lab, &session, &writes(LOGS));
    assert_eq!(
        lab.run(turn.gate(&writes(LOGS))).unwrap().decision.outcome,
        Action::Allow
    );
    set(&lab, &session, json!({ "allow_fs_reads": ["logs/*"] })).unwrap();
    assert_eq!(
        lab.run(turn.gate(&writes(LOGS))).unwrap().decision.outcome,
        Action::Require
    );
    assert_eq!(outcome(&lab, &session, &reads(LOGS)), Action::Allow);
    set(&lab, &session, json!({ "security_group": "nowhere" })).unwrap();
    assert_eq!(
        reason(&lab, &session, &call("add", json!({}))),
        (Action::Require, Reason::GroupMissing)
    );
    lab.run(turn.finish(Outcome::Success, None)).unwrap();
    assert_eq!(
        reason(&lab, &session, &call("add", json!({}))),
        (Action::Require, Reason::GroupMissing)
    );
}

#[test]
fn a_loosened_run_context_loosens_nothing_until_the_turn_settles() {
    type End = fn(&Lab, runcontext::runtime::Turn<Value>);
    let ends: [(&str, End); 3] = [
        ("finished", |lab, turn| {
            drop(lab.run(turn.finish(Outcome::Success, None)).unwrap())
        }),
        ("failed", |lab, turn| {
            drop(lab.run(turn.finish(Outcome::Error, None)).unwrap())
        }),
        ("cancelled", |lab, turn| drop(lab.run(turn.cancel()).unwrap())),
    ];
    for (what, end) in ends {
        let (lab, _) = lab();
        let session = session(&lab, json!({ "runContext": { "security_group": "nowhere" } }));
        let turn = turn_with(&lab, &session, &writes(LOGS));
        set(&lab, &session, json!({ "allow_fs_writes": ["logs/*"] })).unwrap();
        // Everything is saved, and shown; but the turn goes on.
        assert!(session.machine().save_error().is_none());
        assert_eq!(
            session.machine().run_context(),
            context(json!({ "allow_fs_writes": ["logs/*"] })).as_ref()
        );
        assert_eq!(
            reason(&lab, &session, &writes(LOGS)),
            (Action::Require, Reason::GroupMissing),
            "{what}"
        );
        assert_eq!(
            outcome(&lab, &session, &reads("/ws/app/x")),
            Action::Require,
            "{what}"
        );
        end(&lab, turn);
        assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Allow, "{what}");
        assert_eq!(
            outcome(&lab, &session, &reads("/ws/app/x")),
            Action::Allow,
            "{what}"
        );
    }
}

#[test]
fn a_loosened_run_context_with_another_directory_loosens_and_moves_nothing_until_the_turn_settles() {
    let looser = || json!({ "working_directory": "/tmp", "allow_fs_writes": ["logs", "/data"] });
    for preset in [Value::Null, json!("workspace-write")] {
        let (lab, host) = lab();
        let mut more = logs();
        more["permissionPreset"] = preset.clone();
        let session = session(&lab, more);
        let turn = turn_with(&lab, &session, &writes(LOGS));
        set(&lab, &session, looser()).unwrap();
        host.asked();
        for (call, expected) in [
            (writes("/tmp/logs/x"), Action::Require),
            (writes("/tmp/x"), Action::Require),
            (writes("/data/x"), Action::Require),
            (reads("/tmp/x"), Action::Require),
            (writes("logs/x"), Action::Allow),
            (reads("x"), Action::Allow),
        ] {
            let decision = lab.run(session.explain(&call)).unwrap().decision;
            assert_eq!(decision.outcome, expected, "{preset}: {call:?}");
            let path = call.arguments["path"].as_str().unwrap();
            if expected == Action::Allow {
                assert_eq!(decision.paths[0].lexical, format!("/ws/app/{path}"));
            }
        }
        assert!(host.asked().iter().all(|(base, _)| base == "/ws/app"));
        lab.run(turn.cancel()).unwrap();
        for (call, expected) in [
            (writes("logs/x"), Action::Allow),
            (writes("/data/x"), Action::Allow),
            (reads("x"), Action::Allow),
            (writes(LOGS), Action::Require),
            (reads("/ws/app/x"), Action::Require),
        ] {
            let decision = lab.run(session.explain(&call)).unwrap().decision;
            assert_eq!(decision.outcome, expected, "{preset}: {call:?}");
            let path = call.arguments["path"].as_str().unwrap();
            if !path.starts_with('/') {
                assert_eq!(decision.paths[0].lexical, format!("/tmp/{path}"));
            }
        }
    }
}

#[test]
fn the_tools_of_a_turn_run_where_it_began_whatever_becomes_of_the_run_context() {
    let (lab, _) = lab();
    let session = session(&lab, json!({ "permissionPreset": "workspace-write" }));
    let changing = session.clone();
    lab.tools.on("c1", move |_, _| {
        let session = changing.clone();
        async move {
            let elsewhere = context(json!({ "working_directory": "/tmp" }));
            session.set_run_context(elsewhere).await.unwrap();
            Ok(json!("done"))
        }
    });
    let add = |id: &str| crate::lab::calls(&[(id, "add", json!({}))]);
    lab.model
        .answers(add("c1"))
        .answers(add("c2"))
        .answers(says("done"))
        .answers(add("c3"))
        .answers(says("done"));
    lab.prompt(&session, "go on").unwrap();
    assert_eq!(lab.tools.directories(), ["/ws/app", "/ws/app"]);
    lab.prompt(&session, "go on").unwrap();
    assert_eq!(lab.tools.directories(), ["/ws/app", "/ws/app", "/tmp"]);
}

#[test]
fn of_all_run_contexts_of_a_turn_the_strictest_counts_for_each_call() {
    let (lab, _) = lab();
    let session = session(
        &lab,
        json!({ "runContext": { "allow_fs_writes": ["a", "b", "c"] } }),
    );
    let turn = turn_with(&lab, &session, &writes("a"));
    let of =
        |lab: &Lab| ["a", "b", "c", "d"].map(|path| outcome(lab, &session, &writes(path)) == Action::Allow);
    assert_eq!(of(&lab), [true, true, true, false]);
    set(&lab, &session, json!({ "allow_fs_writes": ["b", "c", "d"] })).unwrap();
    assert_eq!(of(&lab), [false, true, true, false]);
    set(&lab, &session, json!({ "allow_fs_writes": ["a", "c"] })).unwrap();
    assert_eq!(of(&lab), [false, false, true, false]);
    // Back to the first.
    set(&lab, &session, json!({ "allow_fs_writes": ["a", "b", "c"] })).unwrap();
    assert_eq!(of(&lab), [false, false, true, false]);
    lab.run(turn.cancel()).unwrap();
    assert_eq!(of(&lab), [true, true, true, false]);
}

#[test]
fn a_run_context_that_takes_the_ceiling_away_leaves_it_until_the_turn_settles() {
    let (lab, _) = lab();
    // Nobody chose a preset: without a run context that is `read-only`, with one there is none.
    let session = session(&lab, json!({}));
    let presets = || -> Vec<Option<Preset>> {
        let now = Now {
            wall: 1_000.0,
            monotonic: None,
        };
        let machine = session.machine();
        let inquiries = machine.inquiries(&writes(LOGS), None, PathStyle::Posix, Some("/ws"), &[], now);
        inquiries.into_iter().map(|inquiry| inquiry.preset).collect()
    };
    assert_eq!(presets(), [Some(Preset::ReadOnly)]);
    let turn = turn_with(&lab, &session, &writes(LOGS));
    set(&lab, &session, json!({ "allow_fs_writes": ["logs/*"] })).unwrap();
    assert_eq!(presets(), [Some(Preset::ReadOnly), None]);
    lab.run(turn.cancel()).unwrap();
    assert_eq!(presets(), [None]);
}

#[test]
fn a_loosened_run_context_is_not_live_before_it_is_saved() {
    let (lab, _) = lab();
    let session = session(&lab, json!({ "permissionPreset": null }));
    let saved = Signal::default();
    lab.storage.fail(1, Fault::Wait(saved.clone()));
    let mut saving = waits(
        &lab.world,
        session.set_run_context(context(json!({ "allow_fs_writes": ["logs"] }))),
    );
    assert!(!saving.go_on());
    assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Require);
    saved.fire();
    saving.done().unwrap();
    assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Allow);
}

#[test]
fn a_loosened_run_context_whose_save_fails_stays_closed_until_it_is_saved() {
    let (lab, _) = lab();
    let session = session(&lab, json!({ "permissionPreset": null }));
    lab.storage.always(Some(Fault::Refuse));
    let error = refused(set(&lab, &session, json!({ "allow_fs_writes": ["logs"] })));
    assert_eq!(error.code(), ErrorCode::StorageFailed);
    assert!(session.machine().save_error().is_some());
    assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Require);
    refused(lab.run(session.flush()));
    assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Require);
    lab.storage.always(None);
    lab.run(session.flush()).unwrap();
    assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Allow);
}

#[test]
fn a_loosened_run_context_of_a_turn_waits_for_its_save_too() {
    let (lab, _) = lab();
    let session = session(&lab, json!({ "permissionPreset": null }));
    let turn = turn_with(&lab, &session, &writes(LOGS));
    lab.storage.always(Some(Fault::Refuse));
    refused(set(&lab, &session, json!({ "allow_fs_writes": ["logs"] })));
    let report = lab.run(turn.cancel()).unwrap();
    assert!(!report.saved);
    assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Require);
    lab.storage.always(None);
    lab.run(session.flush()).unwrap();
    assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Allow);
}

#[test]
fn a_tightened_run_context_whose_save_fails_is_live_and_pending() {
    let (lab, _) = lab();
    let session = session(&lab, logs());
    assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Allow);
    lab.storage.always(Some(Fault::Refuse));
    refused(set(&lab, &session, Value::Null));
    assert!(session.machine().save_error().is_some());
    assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Require);
    // What is stored is still the looser one; that another page sees, until this one has saved.
    let (other, _) = page(lab.storage.memory.clone());
    assert_eq!(outcome(&other, &other.open(), &writes(LOGS)), Action::Allow);
    lab.storage.always(None);
    lab.run(session.flush()).unwrap();
    assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Require);
    assert_eq!(outcome(&other, &other.open(), &writes(LOGS)), Action::Require);
}

#[test]
fn the_next_prompt_shows_a_changed_run_context_and_the_running_turn_stays_as_it_is() {
    let (lab, _) = lab();
    let session = session(&lab, logs());
    let turn = at_once(session.begin(&json!("hello"), &PromptOptions::default())).unwrap();
    let before = turn.request().unwrap().0.system_prompt;
    assert!(
        before.contains("Granted for reading and writing: logs/*"),
        "{before}"
    );
    lab.run(turn.dispatched()).unwrap();
    set(
        &lab,
        &session,
        json!({ "system_prompt": ["Mind the gap."], "working_directory": "/tmp" }),
    )
    .unwrap();
    lab.run(turn.append(vec![crate::lab::incoming(says("one"))]))
        .unwrap();
    assert_eq!(turn.request().unwrap().0.system_prompt, before);
    lab.run(turn.finish(Outcome::Success, None)).unwrap();
    let turn = at_once(session.begin(&json!("again"), &PromptOptions::default())).unwrap();
    let (request, report) = turn.request().unwrap();
    for text in [
        "<run_context>\nMind the gap.\n</run_context>",
        "Working directory: /tmp\n",
        "Current working directory: /tmp\n",
    ] {
        assert!(
            request.system_prompt.contains(text),
            "{text}: {}",
            request.system_prompt
        );
    }
    assert!(
        !request.system_prompt.contains("logs"),
        "{}",
        request.system_prompt
    );
    let told: Vec<String> = report
        .divergence
        .events
        .iter()
        .map(|event| json!(event).as_str().unwrap().to_owned())
        .collect();
    assert_eq!(told, ["run_context"]);
}

#[test]
fn a_run_context_survives_the_page_and_so_does_that_there_is_none() {
    let (lab, _) = lab();
    let session = session(&lab, logs());
    let (other, _) = page(lab.storage.memory.clone());
    let opened = other.open();
    assert_eq!(
        opened.machine().run_context(),
        context(json!({ "allow_fs_writes": ["logs/*"] })).as_ref()
    );
    assert_eq!(outcome(&other, &opened, &writes(LOGS)), Action::Allow);
    set(&lab, &session, Value::Null).unwrap();
    let (other, _) = page(lab.storage.memory.clone());
    assert_eq!(outcome(&other, &other.open(), &writes(LOGS)), Action::Require);
}

#[test]
fn a_session_with_a_run_context_has_no_preset_until_a_person_chooses_one() {
    let (lab, _) = lab();
    let session = session(&lab, json!({}));
    assert_eq!(session.machine().header().preset(), Some(Preset::ReadOnly));
    set(&lab, &session, json!({ "allow_fs_writes": ["logs"] })).unwrap();
    assert_eq!(session.machine().header().preset(), None);
    assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Allow);
    lab.run(session.set_preset(Some(Preset::ReadOnly))).unwrap();
    assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Require);
    set(&lab, &session, json!({ "allow_fs_writes": ["logs", "more"] })).unwrap();
    assert_eq!(session.machine().header().preset(), Some(Preset::ReadOnly));
    set(&lab, &session, Value::Null).unwrap();
    assert_eq!(session.machine().header().preset(), Some(Preset::ReadOnly));
}

#[test]
fn a_grant_of_everything_or_of_nothing_is_refused_and_changes_nothing() {
    let (lab, _) = lab();
    let session = session(&lab, logs());
    let before = lab.stored();
    for name in ["allow_fs_writes", "allow_fs_reads"] {
        for entry in ["", " ", "/", "/*", "/**", "//", "/.", "/..", "/a/.."] {
            let bad = json!({ name: ["fine", entry] });
            let error = refused(set(&lab, &session, bad.clone()));
            assert_eq!(error.code(), ErrorCode::InvalidArgument, "{entry:?}");
            assert_eq!(
                error.data()["field"],
                json!(format!("runContext.{name}[1]")),
                "{entry:?}"
            );
            let new = lab.run(
                lab.runtime
                    .create_session(options(json!({ "id": "s2", "runContext": bad }))),
            );
            let error = refused(new.map(|_| ()));
            assert_eq!(
                error.data()["field"],
                json!(format!("options.runContext.{name}[1]")),
                "{entry:?}"
            );
        }
    }
    assert_eq!(lab.stored(), before);
    assert_eq!(outcome(&lab, &session, &writes(LOGS)), Action::Allow);
    session.dispose().unwrap();
    assert_eq!(
        refused(set(&lab, &session, Value::Null)).code(),
        ErrorCode::Disposed
    );
}

#[test]
fn every_call_asks_while_the_stored_run_context_cannot_be_read() {
    for damage in [
        json!("x"),
        json!(5),
        json!(true),
        json!([]),
        json!({ "allow_fs_writes": "logs" }),
        json!({ "security_group": 1 }),
        json!({ "system_prompt": [null] }),
    ] {
        let (lab, _) = lab();
        session(&lab, json!({ "permissionPreset": "danger-full-access" }))
            .dispose()
            .unwrap();
        let dump = lab.storage.memory.dump(Value::clone);
        let settings = dump["chat_sessions"][0].1["settings"].clone();
        let commit = Commit {
            session_id: ID.to_owned(),
            operation_id: "damage".to_owned(),
            timestamp: 1_000.0,
            create: None,
            origin: settings["origin"].as_str().unwrap().to_owned(),
            approvals: Vec::new(),
            expected: None,
            messages: Vec::new(),
            outline_packs: Vec::new(),
            snapshots: Vec::new(),
            checkpoints: Vec::new(),
            compactions: Vec::new(),
            settings: [("runContext".to_owned(), damage.clone())].into(),
        };
        lab.run(lab.storage.memory.session(ID).commit(commit.into()))
            .unwrap();
        let stored = lab.stored();
        let (lab, _) = page(lab.storage.memory.clone());
        let session = lab.open();
        session.bypass(BypassScope::All, None).unwrap();
        for call in [
            reads("x"),
            writes("x"),
            writes("/ws/memory/x"),
            call("fetch", json!({})),
            call("add", json!({})),
            call("unknown", json!({})),
        ] {
            let decided = gated(&lab, &session, &call);
            let found = (decided.decision.outcome, decided.decision.reason);
            assert_eq!(
                found,
                (Action::Require, Reason::PolicyUnverified),
                "{damage}: {call:?}"
            );
            let trace = json!(decided.trace()).to_string();
            assert!(
                trace.contains("policy_unverified: the stored run context cannot be read"),
                "{trace}"
            );
        }
        assert_eq!(
            reason(&lab, &session, &reads("secrets/x")),
            (Action::Deny, Reason::LockedRule),
            "{damage}"
        );
        assert_eq!(session.machine().run_context(), None, "{damage}");
        // It stays as it is until a person sets another.
        assert_eq!(lab.stored(), stored);
        set(&lab, &session, json!({ "allow_fs_reads": ["/data"] })).unwrap();
        assert_eq!(outcome(&lab, &session, &writes("x")), Action::Allow, "{damage}");
    }
}
