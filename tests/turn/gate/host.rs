//! The host: asked once, and whatever it does wrong, nothing is allowed by it.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::rc::Rc;

use runcontext::{
    ErrorCode,
    permissions::{Action, BypassScope, PermissionChange, Reason, ResolvedPath},
    runtime::{PromptOptions, Session, Signal, Turn},
    session::Outcome,
    storage::memory::MemoryStorage,
};
use serde_json::{Value, json};

use super::{call, context, gated, lab, outcome, page, reads, reason, session, tools, turn_with, writes};
use crate::lab::{Fault, ID, Lab, Says, TestHost, calls, refused, waits};

#[test]
fn the_host_is_asked_once_for_a_decision_with_every_path_in_one_batch() {
    let (lab, host) = lab();
    let session = session(
        &lab,
        json!({ "runContext": { "working_directory": "sub", "allow_fs_writes": ["logs/*", "/data/in/"], "allow_fs_reads": ["docs"] } }),
    );
    host.asked();
    let copy = call("copy", json!({ "from": "a.txt", "to": "../b.txt" }));
    for _ in 0..2 {
        let decided = gated(&lab, &session, &copy);
        let expected = [
            "/ws",
            "/ws/app/sub",
            "logs",
            "/data/in",
            "docs",
            "a.txt",
            "../b.txt",
        ];
        assert_eq!(
            host.asked(),
            [("/ws/app/sub".to_owned(), expected.map(str::to_owned).to_vec())]
        );
        assert_eq!(decided.decision.paths.len(), 2);
        // The trace is made of the same answers.
        assert!(!decided.trace().is_empty());
        assert_eq!(host.asked(), []);
    }
    lab.run(session.explain(&copy)).unwrap();
    assert_eq!(host.asked().len(), 1);
    // An argument that is not there stands for the working directory.
    gated(&lab, &session, &call("list", json!({})));
    assert_eq!(host.asked()[0].1.last().unwrap(), ".");
    // In mid-turn, when two run contexts count, it is one batch as well.
    let turn = turn_with(&lab, &session, &copy);
    lab.run(session.set_run_context(context(json!({ "allow_fs_reads": ["/other"] }))))
        .unwrap();
    host.asked();
    lab.run(turn.gate(&copy)).unwrap();
    let asked = host.asked();
    assert_eq!(asked.len(), 1);
    let (base, paths) = &asked[0];
    // A turn stays where it began.
    assert_eq!(base, "/ws/app/sub");
    let expected = [
        "/ws",
        "/ws/app/sub",
        "logs",
        "/data/in",
        "docs",
        "a.txt",
        "../b.txt",
        "/ws",
        "/ws/app/sub",
        "/other",
        "a.txt",
        "../b.txt",
    ];
    assert_eq!(*paths, expected);
}

#[test]
fn a_decision_shows_paths_as_requested_as_written_and_as_they_are() {
    let (lab, host) = lab();
    host.link("/ws/app/link", "/real/place");
    let session = session(&lab, json!({}));
    let decided = gated(
        &lab,
        &session,
        &call("copy", json!({ "from": "link/a", "to": "x/../b" })),
    );
    let shown: Vec<_> = decided.decision.paths.iter().map(|path| json!(path)).collect();
    assert_eq!(
        shown,
        [
            json!({ "argument": "/from", "access": "read", "requested": "link/a", "lexical": "/ws/app/link/a", "canonical": "/real/place/a" }),
            json!({ "argument": "/to", "access": "write", "requested": "x/../b", "lexical": "/ws/app/b", "canonical": "/ws/app/b" }),
        ]
    );
}

/// What a host says that says nothing of where a path leads.
fn wrongs() -> Vec<(&'static str, Says)> {
    let canonical = |path: &str| Says::Instead(ResolvedPath::Canonical(path.to_owned()), None);
    vec![
        ("fails", Says::Failure),
        ("says nothing", Says::Only(0)),
        ("knows the workspace alone", Says::Only(1)),
        ("knows the roots alone", Says::Only(2)),
        (
            "does not know",
            Says::Instead(ResolvedPath::Unresolved("gone".to_owned()), None),
        ),
        (
            "does not know the workspace",
            Says::Instead(ResolvedPath::Unresolved("gone".to_owned()), Some(0)),
        ),
        (
            "does not know the working directory",
            Says::Instead(ResolvedPath::Unresolved("gone".to_owned()), Some(1)),
        ),
        (
            "does not know the path",
            Says::Instead(ResolvedPath::Unresolved("gone".to_owned()), Some(2)),
        ),
        ("says an empty text", canonical("")),
        ("says a relative path", canonical("ws/app/a")),
        ("says what is not resolved", canonical("/ws/app/../app/a")),
        ("says a NUL", canonical("/ws/app/a\0")),
        ("says a windows path", canonical("C:\\ws\\app")),
    ]
}

#[test]
fn whatever_a_host_does_wrong_no_path_is_allowed_and_what_has_no_path_runs_on() {
    for (what, says) in wrongs() {
        let (lab, host) = lab();
        let session = session(&lab, json!({ "permissionPreset": "danger-full-access" }));
        session.bypass(BypassScope::All, None).unwrap();
        let paths = [
            reads("a"),
            writes("a"),
            reads("memory/a"),
            call("list", json!({})),
        ];
        for call in &paths {
            assert_eq!(
                outcome(&lab, &session, call),
                Action::Allow,
                "before the host {what}"
            );
            host.once(says.clone());
            let decided = gated(&lab, &session, call);
            assert_eq!(
                decided.decision.outcome,
                Action::Require,
                "a host that {what}: {call:?}"
            );
            let trace = json!(decided.trace()).to_string();
            // Why, where the path itself is not known; else the root is named in the step.
            assert!(!trace.contains("\"allow\""), "{trace}");
            assert!(
                decided
                    .decision
                    .paths
                    .iter()
                    .all(|path| path.canonical.is_none() != path.unresolved.is_none())
            );
        }
        host.always(says);
        for tool in ["fetch", "add"] {
            assert_eq!(
                outcome(&lab, &session, &call(tool, json!({ "n": 1 }))),
                Action::Allow,
                "a host that {what}: {tool}"
            );
        }
        // What is closed by its name stays closed.
        assert_eq!(
            outcome(&lab, &session, &reads("secrets/key")),
            Action::Deny,
            "a host that {what}"
        );
    }
}

#[test]
fn what_a_host_does_wrong_is_said() {
    let (lab, host) = lab();
    let session = session(&lab, json!({ "permissionPreset": "danger-full-access" }));
    for (says, why) in [
        (Says::Failure, "the host failed: the disk is gone"),
        (Says::Only(2), "the host gave no answer"),
        (
            Says::Instead(ResolvedPath::Unresolved("a loop of links".to_owned()), Some(2)),
            "a loop of links",
        ),
        (
            Says::Instead(ResolvedPath::Canonical("a".to_owned()), Some(2)),
            "the host gave no canonical path",
        ),
    ] {
        host.once(says);
        let decided = gated(&lab, &session, &writes("a"));
        assert_eq!(decided.decision.paths[0].unresolved.as_deref(), Some(why));
        // The step that would have allowed it says why it does not; the reason stays what asked first.
        assert_eq!(decided.decision.reason, Reason::Rule);
        let step = json!(decided.trace()).as_array().unwrap().last().unwrap().clone();
        let note = format!("path_unresolved: {why}");
        assert_eq!(
            step,
            json!({ "step": "preset", "outcome": "require", "note": note, "path": 0 })
        );
    }
}

#[test]
fn a_root_that_is_not_known_is_named_by_every_step_that_would_have_allowed_the_call() {
    for (at, root) in [(0, "/ws"), (1, "/ws/app")] {
        let (lab, host) = lab();
        let session = session(
            &lab,
            json!({ "permissionPreset": "danger-full-access", "runContext": { "allow_fs_writes": ["/far"] } }),
        );
        session.bypass(BypassScope::All, None).unwrap();
        let gone = ResolvedPath::Unresolved("gone".to_owned());
        host.once(Says::Instead(gone.clone(), Some(at)));
        let decided = gated(&lab, &session, &writes("/far/a"));
        assert_eq!(
            (decided.decision.outcome, decided.decision.reason),
            (Action::Require, Reason::Rule)
        );
        assert_eq!(decided.decision.paths[0].unresolved, None);
        let trace = json!(decided.trace());
        let steps = trace.as_array().unwrap().iter();
        let told: Vec<_> = steps
            .filter(|step| step["note"] == json!(format!("path_unresolved: the root `{root}`: gone")))
            .map(|step| step["step"].as_str().unwrap())
            .collect();
        assert_eq!(told, ["run_context", "bypass", "preset"], "{trace}");
        // A rule that would have allowed it says so, too, and then that is the reason.
        let rule = json!({ "tool_pattern": "write_file", "action": "allow", "priority": 1 });
        lab.run(lab.runtime.permissions().change(&PermissionChange::AddRule(rule)))
            .unwrap();
        host.once(Says::Instead(gone, Some(at)));
        let decision = gated(&lab, &session, &writes("/far/a")).decision;
        assert_eq!(
            (decision.outcome, decision.reason),
            (Action::Require, Reason::PathUnresolved)
        );
        assert!(
            decision.message.contains(&format!("the root `{root}`: gone")),
            "{}",
            decision.message
        );
    }
}

#[test]
fn nobody_can_be_asked_about_a_path_that_is_not_known_in_a_headless_session() {
    let (lab, host) = lab();
    let session = session(
        &lab,
        json!({ "permissionPreset": "danger-full-access", "headless": true }),
    );
    host.once(Says::Failure);
    let decision = gated(&lab, &session, &writes("a")).decision;
    assert_eq!(
        (decision.outcome, decision.reason),
        (Action::Deny, Reason::Headless)
    );
    assert_eq!(outcome(&lab, &session, &writes("a")), Action::Allow);
}

#[test]
fn without_a_host_no_path_is_allowed_and_what_has_no_path_runs_on() {
    let lab = Lab::with(MemoryStorage::new(), true, tools(), None);
    let session = session(&lab, json!({ "permissionPreset": "danger-full-access" }));
    session.bypass(BypassScope::All, None).unwrap();
    for call in [
        reads("a"),
        writes("/ws/app/a"),
        reads("memory/a"),
        call("list", json!({})),
    ] {
        let decision = gated(&lab, &session, &call).decision;
        assert_eq!(decision.outcome, Action::Require);
        assert_eq!(decision.paths[0].unresolved.as_deref(), Some("there is no host"));
    }
    for tool in ["fetch", "add"] {
        assert_eq!(outcome(&lab, &session, &call(tool, json!({}))), Action::Allow);
    }
    assert_eq!(outcome(&lab, &session, &reads("secrets/key")), Action::Deny);
}

#[test]
fn without_an_absolute_working_directory_no_path_is_allowed_and_the_host_is_not_asked() {
    for cwd in ["", "app", "./app", "../app"] {
        let (lab, host) = lab();
        let session = session(
            &lab,
            json!({ "cwd": cwd, "permissionPreset": "danger-full-access" }),
        );
        session.bypass(BypassScope::All, None).unwrap();
        for call in [reads("a"), writes("/ws/app/a"), call("list", json!({}))] {
            let decision = gated(&lab, &session, &call).decision;
            assert_eq!(decision.outcome, Action::Require, "{cwd:?}");
            let why = decision.paths[0].unresolved.as_deref();
            assert_eq!(
                why,
                Some("the session's `cwd` or the workspace's root is not absolute"),
                "{cwd:?}"
            );
        }
        assert_eq!(
            outcome(&lab, &session, &call("fetch", json!({}))),
            Action::Allow,
            "{cwd:?}"
        );
        assert_eq!(
            outcome(&lab, &session, &reads("/ws/secrets/key")),
            Action::Deny,
            "{cwd:?}"
        );
        assert_eq!(host.asked(), [], "{cwd:?}");
    }
}

#[test]
fn with_a_workspace_root_that_is_not_absolute_no_path_is_allowed_and_the_host_is_not_asked() {
    for root in ["", "ws", "./ws", "../ws", "/ws\0"] {
        let host = Rc::new(TestHost::at(root));
        let lab = Lab::with(MemoryStorage::new(), true, tools(), Some(host.clone()));
        let session = session(&lab, json!({ "permissionPreset": "workspace-write" }));
        for call in [reads("a"), writes("a"), writes("/etc/passwd"), writes("memory/a")] {
            assert_eq!(
                outcome(&lab, &session, &call),
                Action::Require,
                "{root:?}: {call:?}"
            );
        }
        assert_eq!(host.asked(), [], "{root:?}");
    }
}

#[test]
fn a_host_that_hangs_holds_up_neither_another_decision_nor_another_session() {
    let (lab, host) = lab();
    let first = session(&lab, json!({ "permissionPreset": "workspace-write" }));
    let second = session(&lab, json!({ "id": "s2", "permissionPreset": "workspace-write" }));
    let answer = Signal::default();
    host.once(Says::Later(answer.clone()));
    let call = writes("a");
    let mut hanging = waits(&lab.world, first.gate(&call));
    assert!(!hanging.go_on());
    for session in [&first, &second] {
        assert_eq!(outcome(&lab, session, &call), Action::Allow);
    }
    // Settings can be changed meanwhile.
    lab.run(first.set_title("t".to_owned())).unwrap();
    answer.fire();
    assert_eq!(hanging.done().unwrap().decision.outcome, Action::Allow);
}

#[test]
fn what_a_person_takes_back_while_the_host_is_asked_is_not_given_any_more() {
    type Change = fn(&Lab, &Session<Value>);
    let changes: [(&str, Value, Change); 5] = [
        (
            "the preset",
            json!({ "permissionPreset": "workspace-write" }),
            |lab, session| {
                lab.run(session.set_preset(None)).unwrap();
            },
        ),
        (
            "a grant",
            json!({ "runContext": { "allow_fs_writes": ["logs"] } }),
            |lab, session| {
                lab.run(session.set_run_context(None)).unwrap();
            },
        ),
        (
            "a grant, for another",
            json!({ "runContext": { "allow_fs_writes": ["logs"] } }),
            |lab, session| {
                lab.run(session.set_run_context(context(json!({ "allow_fs_writes": ["log"] }))))
                    .unwrap();
            },
        ),
        ("a bypass", json!({ "permissionPreset": null }), |_, session| {
            session.clear_bypass()
        }),
        (
            "a bypass, by its end",
            json!({ "permissionPreset": null }),
            |lab, _| lab.world.at(61_000.0),
        ),
    ];
    for (what, more, change) in changes {
        let (lab, host) = lab();
        let session = session(&lab, more);
        if what.starts_with("a bypass") {
            session.bypass(BypassScope::All, Some(60.0)).unwrap();
        }
        let call = writes("logs/a");
        assert_eq!(outcome(&lab, &session, &call), Action::Allow, "{what}");
        let answer = Signal::default();
        host.once(Says::Later(answer.clone()));
        let mut hanging = waits(&lab.world, session.gate(&call));
        assert!(!hanging.go_on());
        change(&lab, &session);
        answer.fire();
        assert_eq!(
            hanging.done().unwrap().decision.outcome,
            Action::Require,
            "{what}"
        );
    }
}

#[test]
fn rules_and_groups_that_change_while_the_host_is_asked_decide() {
    let change = |lab: &Lab, change: PermissionChange| {
        lab.run(lab.runtime.permissions().change(&change)).unwrap();
    };
    let rule = |action: &str, group: &str| {
        PermissionChange::AddRule(
            json!({ "tool_pattern": "write_file", "action": action, "group_id": group, "priority": 1 }),
        )
    };
    let own = || PermissionChange::CreateGroup(json!({ "id": "own", "name": "Own" }));
    // What is there before, and what changes; the first rule that is added has the id 5.
    type Case = (
        &'static str,
        Vec<PermissionChange>,
        PermissionChange,
        (Action, Reason),
    );
    let cases: [Case; 5] = [
        (
            "a deny rule comes",
            vec![rule("allow", "own")],
            PermissionChange::AddRule(
                json!({ "tool_pattern": "*", "path_pattern": "app/logs/*", "action": "deny", "group_id": "own", "priority": 0 }),
            ),
            (Action::Deny, Reason::Rule),
        ),
        (
            "a locked rule comes",
            vec![rule("allow", "own")],
            PermissionChange::AddRule(json!({ "tool_pattern": "*", "action": "require", "locked": true })),
            (Action::Require, Reason::LockedRule),
        ),
        (
            "an allow rule goes",
            vec![rule("allow", "own")],
            PermissionChange::DeleteRule(5),
            (Action::Require, Reason::Rule),
        ),
        (
            "an allow rule comes",
            Vec::new(),
            rule("allow", "own"),
            (Action::Allow, Reason::Rule),
        ),
        (
            "the group goes",
            vec![rule("allow", "own")],
            PermissionChange::DeleteGroup("own".to_owned()),
            (Action::Require, Reason::GroupMissing),
        ),
    ];
    for (what, before, meanwhile, expected) in cases {
        for elsewhere in [false, true] {
            let (lab, host) = lab();
            let session = session(&lab, json!({ "runContext": { "security_group": "own" } }));
            for first in [vec![own()], before.clone()].concat() {
                change(&lab, first);
            }
            let call = writes("logs/a");
            assert_ne!(reason(&lab, &session, &call), expected, "{what}");
            let answer = Signal::default();
            host.once(Says::Later(answer.clone()));
            let mut hanging = waits(&lab.world, session.gate(&call));
            assert!(!hanging.go_on());
            if elsewhere {
                let (other, _) = page(lab.storage.memory.clone());
                change(&other, meanwhile.clone());
            } else {
                change(&lab, meanwhile.clone());
            }
            answer.fire();
            let decision = hanging.done().unwrap().decision;
            assert_eq!((decision.outcome, decision.reason), expected, "{what}");
        }
    }
}

#[test]
fn a_host_that_changes_what_it_is_asked_about_is_not_asked_for_ever() {
    let (lab, host) = lab();
    let session = session(&lab, json!({ "permissionPreset": "workspace-write" }));
    let answers: Vec<Signal> = (0..9).map(|_| Signal::default()).collect();
    for answer in &answers {
        host.once(Says::Later(answer.clone()));
    }
    let call = writes("a");
    host.asked();
    let mut hanging = waits(&lab.world, session.gate(&call));
    let mut times = 0;
    for (number, answer) in answers.iter().enumerate() {
        if hanging.go_on() {
            break;
        }
        times += 1;
        lab.run(session.set_run_context(context(json!({ "allow_fs_reads": [format!("/r{number}")] }))))
            .unwrap();
        answer.fire();
    }
    assert_eq!(hanging.done().unwrap().decision.outcome, Action::Require);
    assert!((1..9).contains(&times), "{times}");
}

#[test]
fn a_clock_that_calls_everything_disturbs_no_decision() {
    let (lab, _) = lab();
    let session = session(&lab, json!({ "permissionPreset": "workspace-write" }));
    let inner = session.clone();
    let world = lab.world.clone();
    lab.world.on_now(Some(Rc::new(move || {
        inner.clear_bypass();
        inner
            .bypass(BypassScope::Category("none".to_owned()), None)
            .unwrap();
        waits(&world, inner.set_run_context(None)).done().unwrap();
        waits(&world, inner.set_title("t".to_owned())).done().unwrap();
    })));
    assert_eq!(outcome(&lab, &session, &writes("a")), Action::Allow);
    session.bypass(BypassScope::All, None).unwrap();
    lab.world.on_now(None);
}

/// An answer that never comes.
fn hangs() -> Says {
    Says::Later(Signal::default())
}

#[test]
fn nobody_has_to_wait_for_a_host_that_hangs() {
    let (lab, host) = lab();
    let session = session(&lab, json!({ "permissionPreset": "workspace-write" }));
    host.once(hangs());
    lab.model.answers(calls(&[
        ("c1", "write_file", json!({ "path": "a" })),
        ("c2", "add", json!({})),
    ]));
    let (content, options) = (json!("go on"), PromptOptions::default());
    let mut prompting = waits(&lab.world, session.prompt(&content, &options));
    assert!(!prompting.go_on());
    let mut stopping = waits(&lab.world, session.abort());
    let report = prompting.done().unwrap();
    assert_eq!((report.end.outcome, report.saved), (Outcome::Cancelled, true));
    assert!(stopping.go_on());
    let ran: Vec<String> = lab.tools.called().into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ran, ["c2"]);
    session.dispose().unwrap();
}

#[test]
fn what_depends_on_no_path_is_decided_while_the_host_hangs() {
    let (lab, host) = lab();
    let session = session(&lab, json!({ "permissionPreset": "workspace-write" }));
    let rule = |rule: Value| {
        lab.run(lab.runtime.permissions().change(&PermissionChange::AddRule(rule)))
            .unwrap();
    };
    rule(json!({ "tool_pattern": "fetch", "action": "allow" }));
    rule(json!({ "tool_pattern": "closed", "action": "deny" }));
    host.always(hangs());
    let turn = turn_with(&lab, &session, &writes("a"));
    for (tool, arguments, expected) in [
        ("add", json!({}), (Action::Allow, Reason::Preset)),
        (
            "add",
            json!({ "n": [1, null, true], "": "two words" }),
            (Action::Allow, Reason::Preset),
        ),
        ("fetch", json!({}), (Action::Allow, Reason::Rule)),
        (
            "fetch",
            json!({ "url": "https://example.org/a?b" }),
            (Action::Allow, Reason::Rule),
        ),
        ("closed", json!({ "url": "a" }), (Action::Deny, Reason::Rule)),
    ] {
        let call = call(tool, arguments);
        let decision = lab.run(turn.gate(&call)).unwrap().decision;
        assert_eq!((decision.outcome, decision.reason), expected, "{call:?}");
        let explained = lab.run(session.explain(&call)).unwrap().decision;
        assert_eq!((explained.outcome, explained.reason), expected, "{call:?}");
    }
    assert_eq!(host.asked(), []);
    // What has a path waits, and so does a question: where a command runs is a part of it.
    for call in [
        writes("a"),
        reads("a"),
        call("list", json!({})),
        call("unknown", json!({})),
    ] {
        assert!(!waits(&lab.world, turn.gate(&call)).go_on(), "{call:?}");
    }
    // A group that does not exist, as every other question.
    lab.run(session.set_run_context(context(json!({ "security_group": "gone" }))))
        .unwrap();
    assert!(!waits(&lab.world, turn.gate(&call("fetch", json!({})))).go_on());
}

#[test]
fn a_text_that_may_be_a_protected_path_by_where_the_roots_lead_waits_for_the_host() {
    let locked = |pattern: &str| json!({ "tool_pattern": "*", "path_pattern": pattern, "action": "deny", "locked": true });
    for (text, rule) in [
        ("/data/secrets/key", None),
        ("/data/SECRETS/key", None),
        ("/data/private/key", Some(locked("private/*"))),
        ("key", Some(locked("key"))),
    ] {
        let (lab, host) = lab();
        host.link("/ws", "/data");
        let session = session(&lab, json!({ "permissionPreset": "danger-full-access" }));
        if let Some(rule) = rule {
            lab.run(lab.runtime.permissions().change(&PermissionChange::AddRule(rule)))
                .unwrap();
        }
        let answer = Signal::default();
        host.once(Says::Later(answer.clone()));
        let call = call("fetch", json!({ "file": text }));
        let mut hanging = waits(&lab.world, session.gate(&call));
        assert!(!hanging.go_on(), "{text}");
        answer.fire();
        let decision = hanging.done().unwrap().decision;
        assert_eq!(
            (decision.outcome, decision.reason),
            (Action::Require, Reason::PossiblePath),
            "{text}"
        );
    }
}

#[test]
fn no_tool_starts_after_the_abort_and_a_result_that_is_there_is_kept() {
    let (lab, host) = lab();
    let session = session(&lab, json!({ "permissionPreset": "workspace-write" }));
    let (answer, finishes) = (Signal::default(), Signal::default());
    host.once(Says::Later(answer.clone()));
    let until = finishes.clone();
    lab.tools.on("c2", move |_, _| {
        let until = until.clone();
        async move {
            until.fired().await;
            Ok(json!("three"))
        }
    });
    lab.model.answers(calls(&[
        ("c1", "write_file", json!({ "path": "a" })),
        ("c2", "add", json!({})),
    ]));
    let (content, options) = (json!("go on"), PromptOptions::default());
    let mut prompting = waits(&lab.world, session.prompt(&content, &options));
    assert!(!prompting.go_on());
    // All in the same moment.
    answer.fire();
    finishes.fire();
    drop(waits(&lab.world, session.abort()));
    let report = prompting.done().unwrap();
    assert_eq!(report.end.outcome, Outcome::Cancelled);
    let ran: Vec<String> = lab.tools.called().into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ran, ["c2"]);
    let machine = session.machine();
    let text = |at: usize| machine.bodies()[at]["content"][0]["text"].clone();
    let mut results = [text(2), text(3)];
    results.sort_by_key(|text| text.to_string());
    let interrupted = "The tool call was interrupted before it finished. It may be retried.";
    assert_eq!(results, [json!(interrupted), json!("three")]);
}

#[test]
fn a_decision_that_waits_for_the_host_ends_with_its_session() {
    type End = fn(&Lab, &Session<Value>);
    let ends: [(&str, End); 3] = [
        ("let go of", |_, session| session.dispose().unwrap()),
        ("closed with its runtime", |lab, _| lab.runtime.close().unwrap()),
        ("deleted", |lab, _| {
            lab.run(lab.runtime.delete_session(ID)).unwrap()
        }),
    ];
    for (what, end) in ends {
        let (lab, host) = lab();
        let session = session(&lab, json!({ "permissionPreset": "workspace-write" }));
        host.always(Says::Later(Signal::default()));
        let call = writes("a");
        let mut gating = waits(&lab.world, session.gate(&call));
        let mut explaining = waits(&lab.world, session.explain(&call));
        assert!(!gating.go_on() && !explaining.go_on());
        end(&lab, &session);
        for decided in [gating.done(), explaining.done()] {
            assert_eq!(refused(decided).code(), ErrorCode::Disposed, "{what}");
        }
    }
}

#[test]
fn a_call_whose_turn_ends_while_the_host_is_asked_is_not_decided() {
    type End = fn(&Lab, &Session<Value>, &Turn<Value>);
    let ends: [(&str, End); 3] = [
        ("cancelled", |lab, _, turn| drop(lab.run(turn.cancel()).unwrap())),
        ("finished", |lab, _, turn| {
            drop(lab.run(turn.finish(Outcome::Success, None)).unwrap())
        }),
        ("stopped", |lab, session, _| lab.run(session.abort())),
    ];
    for (what, end) in ends {
        let (lab, host) = lab();
        let session = session(&lab, json!({ "permissionPreset": "workspace-write" }));
        let call = writes("a");
        let turn = turn_with(&lab, &session, &call);
        host.once(Says::Later(Signal::default()));
        let mut hanging = waits(&lab.world, turn.gate(&call));
        assert!(!hanging.go_on());
        end(&lab, &session, &turn);
        assert_eq!(refused(hanging.done()).code(), ErrorCode::Aborted, "{what}");
        let turn = turn_with(&lab, &session, &call);
        assert_eq!(
            lab.run(turn.gate(&call)).unwrap().decision.outcome,
            Action::Allow,
            "{what}"
        );
    }
}

#[test]
fn a_host_that_answers_when_the_turn_is_over_decides_nothing() {
    type End = fn(&Lab, &Session<Value>, &Turn<Value>);
    let ends: [(&str, End); 4] = [
        ("cancelled", |lab, _, turn| drop(lab.run(turn.cancel()).unwrap())),
        ("finished", |lab, _, turn| {
            drop(lab.run(turn.finish(Outcome::Success, None)).unwrap())
        }),
        ("stopped", |lab, session, _| lab.run(session.abort())),
        ("stopped, and that is not saved yet", |lab, session, _| {
            lab.storage.fail(1, Fault::Wait(Signal::default()));
            drop(waits(&lab.world, session.abort()));
        }),
    ];
    for answers in [true, false] {
        for (what, end) in ends {
            let (lab, host) = lab();
            let session = session(&lab, json!({ "permissionPreset": "workspace-write" }));
            let call = writes("a");
            let turn = turn_with(&lab, &session, &call);
            let answer = Signal::default();
            host.once(Says::Later(answer.clone()));
            let mut hanging = waits(&lab.world, turn.gate(&call));
            assert!(!hanging.go_on());
            // Before anybody looks at the answer.
            if answers {
                answer.fire();
            }
            end(&lab, &session, &turn);
            assert_eq!(
                refused(hanging.done()).code(),
                ErrorCode::Aborted,
                "{what}, and the host answers: {answers}"
            );
        }
    }
}

#[test]
fn sixteen_decisions_at_once_ask_sixteen_times_and_each_gets_its_own_answer() {
    let (lab, host) = lab();
    let session = session(&lab, json!({ "permissionPreset": "workspace-write" }));
    let answer = Signal::default();
    let calls: Vec<_> = (0..16)
        .map(|number| {
            writes(&if number % 3 == 0 {
                format!("/far/{number}")
            } else {
                format!("near/{number}")
            })
        })
        .collect();
    for _ in &calls {
        host.once(Says::Later(answer.clone()));
    }
    let gates: Vec<_> = calls
        .iter()
        .map(|call| waits(&lab.world, session.gate(call)))
        .collect();
    assert_eq!(host.asked().len(), 16);
    answer.fire();
    for (number, gate) in gates.into_iter().enumerate() {
        let decision = gate.done().unwrap().decision;
        let expected = if number % 3 == 0 {
            Action::Require
        } else {
            Action::Allow
        };
        assert_eq!(
            (decision.outcome, &decision.paths[0].requested),
            (
                expected,
                &calls[number].arguments["path"].as_str().unwrap().to_owned()
            )
        );
    }
}
