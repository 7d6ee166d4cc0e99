//! Sessions that are opened for a project, a ticket or a job: what they run as, from the rows to the gate and to the system prompt.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::rc::Rc;

use runcontext::{
    ErrorCode,
    permissions::{Action, PermissionChange, Reason},
    run_context::{Defaults, WorkChange, WorkKind},
    runtime::{PromptOptions, Session},
    storage::memory::MemoryStorage,
};
use serde_json::{Value, json};

use super::{call, options, outcome, reads, reason, session, tools, writes};
use crate::lab::{Configured, ID, Lab, TestHost, refused};

/// A runtime on what is stored, with a data directory, configured like this.
fn configured(memory: MemoryStorage<Value>, defaults: Value) -> (Lab, Rc<TestHost>) {
    let host = Rc::new(TestHost::at("/ws"));
    let configured = Configured {
        defaults: Defaults::parse(&defaults, "options.defaults").unwrap(),
        data_dir: Some("/data/ann".to_owned()),
        ..Configured::default()
    };
    (Lab::configured(memory, tools(), host.clone(), configured), host)
}

/// The same with a project, one of its tickets, and a job.
fn lab(defaults: Value) -> Lab {
    let (lab, _) = configured(MemoryStorage::new(), defaults);
    create(
        &lab,
        WorkKind::Project,
        json!({ "id": "p", "name": "Shop", "description": "Sells apples.", "path": "/srv/shop", "run_context": { "security_group": "project" } }),
    );
    create(
        &lab,
        WorkKind::Ticket,
        json!({ "id": "t", "project_id": "p", "title": "New prices", "run_context": { "allow_fs_writes": ["data/migrations/", "logs/*"] } }),
    );
    create(
        &lab,
        WorkKind::Job,
        json!({ "id": "j", "name": "Nightly", "run_context": { "security_group": "cron_restrictive", "allow_fs_writes": ["logs/*"], "working_directory": "/tmp" } }),
    );
    lab
}

fn create(lab: &Lab, kind: WorkKind, row: Value) {
    change(lab, kind, WorkChange::Create(row));
}

fn change(lab: &Lab, kind: WorkKind, change: WorkChange) {
    lab.run(lab.runtime.change_work(kind, None, &change)).unwrap();
}

fn group(lab: &Lab, id: &str, rules: Value) {
    let store = lab.runtime.permissions();
    let group = json!({ "id": id, "name": id });
    lab.run(store.change(&PermissionChange::CreateGroup(group)))
        .unwrap();
    for mut rule in rules.as_array().unwrap().clone() {
        rule["group_id"] = json!(id);
        lab.run(store.change(&PermissionChange::AddRule(rule))).unwrap();
    }
}

/// A section of the system prompt that the next request shows.
fn shown(lab: &Lab, session: &Rc<Session<Value>>, name: &str) -> Option<String> {
    let turn = lab
        .run(session.begin(&json!("go"), &PromptOptions::default()))
        .unwrap();
    let prompt = turn.request().unwrap().0.system_prompt;
    lab.run(turn.cancel()).unwrap();
    let (_, rest) = prompt.split_once(&format!("<{name}>\n"))?;
    Some(rest.split_once(&format!("\n</{name}>")).unwrap().0.to_owned())
}

/// The group that decides for a session.
fn security_group(session: &Session<Value>) -> Option<String> {
    session
        .machine()
        .run_context()?
        .tool_group_id()
        .map(str::to_owned)
}

#[test]
fn a_restricted_job_writes_its_logs_and_nothing_else() {
    let lab = lab(Value::Null);
    let options = json!({ "jobId": "j", "source": "cron", "headless": true });
    let session = session(&lab, options);
    // The group is missing as yet.
    for call in [writes("/tmp/logs/a"), reads("/tmp/a"), call("add", json!({}))] {
        assert_eq!(outcome(&lab, &session, &call), Action::Deny);
    }
    group(
        &lab,
        "cron_restrictive",
        json!([
            { "tool_pattern": "@fs_read", "path_pattern": "/tmp/*", "action": "allow" },
            { "tool_pattern": "@fs_read", "action": "deny", "priority": 200 },
            { "tool_pattern": "fetch", "action": "deny" },
        ]),
    );
    assert_eq!(
        reason(&lab, &session, &writes("/tmp/logs/today.txt")),
        (Action::Allow, Reason::RunContext)
    );
    assert_eq!(
        outcome(&lab, &session, &writes("logs/deep/er.txt")),
        Action::Allow
    );
    for path in ["/tmp/logs-old/x", "/tmp/x", "/ws/app/logs/x", "/tmp/logs/../x"] {
        assert_eq!(outcome(&lab, &session, &writes(path)), Action::Deny, "{path}");
    }
    assert_eq!(outcome(&lab, &session, &reads("/tmp/x")), Action::Allow);
    assert_eq!(
        reason(&lab, &session, &reads("/ws/app/x")),
        (Action::Deny, Reason::Rule)
    );
    assert_eq!(
        reason(&lab, &session, &call("fetch", json!({}))),
        (Action::Deny, Reason::Rule)
    );
    assert_eq!(shown(&lab, &session, "run_context"), None);
    assert_eq!(
        shown(&lab, &session, "cwd").unwrap(),
        "Current working directory: /tmp"
    );
    let permissions = shown(&lab, &session, "permissions").unwrap();
    for line in [
        "Working directory: /tmp",
        "Permission group: cron_restrictive",
        "Granted for reading and writing: logs/*",
    ] {
        assert!(permissions.lines().any(|it| it == line), "{permissions}");
    }
}

#[test]
fn a_ticket_of_a_project_writes_the_project_the_data_directory_and_its_own_grants() {
    let lab = lab(json!({ "sources": { "web": { "run_context": { "security_group": "nowhere" } } } }));
    let session = session(
        &lab,
        json!({ "projectId": "p", "ticketId": "t", "source": "web" }),
    );
    for path in [
        "data/migrations/1.sql",
        "logs/x",
        "/srv/shop/src/main.rs",
        "/data/ann/notes",
        "/data/ann",
    ] {
        assert_eq!(
            reason(&lab, &session, &writes(path)),
            (Action::Allow, Reason::RunContext),
            "{path}"
        );
        assert_eq!(outcome(&lab, &session, &reads(path)), Action::Allow, "{path}");
    }
    for path in ["/srv/shop-old/x", "/data/bob/notes", "/ws/app/x", "../x"] {
        assert_eq!(outcome(&lab, &session, &writes(path)), Action::Require, "{path}");
    }
    assert_eq!(
        reason(&lab, &session, &reads("secrets/key")),
        (Action::Deny, Reason::LockedRule)
    );
    assert_eq!(
        shown(&lab, &session, "run_context").unwrap(),
        "Project: Shop\nSells apples.\nTicket: New prices\n\
         Data directory: /data/ann (writable; for what belongs to the user and not to the project)"
    );
    assert_eq!(
        shown(&lab, &session, "cwd").unwrap(),
        "Current working directory: /srv/shop"
    );
    let permissions = shown(&lab, &session, "permissions").unwrap();
    for line in [
        "Working directory: /srv/shop",
        "Granted for reading and writing: /srv/shop, /data/ann, data/migrations/, logs/*",
    ] {
        assert!(permissions.lines().any(|it| it == line), "{permissions}");
    }
}

#[test]
fn a_session_about_which_nothing_is_said_reads_its_directory_and_asks_before_it_writes() {
    let lab = lab(json!({ "tic": { "run_context": { "security_group": "nowhere" } } }));
    let session = session(&lab, json!({ "permissionPreset": null }));
    for path in ["/ws/app/x", "docs/a.md", "skills/b/SKILL.md"] {
        assert_eq!(outcome(&lab, &session, &reads(path)), Action::Allow, "{path}");
        assert_eq!(outcome(&lab, &session, &writes(path)), Action::Require, "{path}");
    }
    assert_eq!(outcome(&lab, &session, &reads("/srv/shop/x")), Action::Require);
    assert_eq!(
        reason(&lab, &session, &reads("secrets/key")),
        (Action::Deny, Reason::LockedRule)
    );
    assert_eq!(session.machine().run_context(), None);
    assert_eq!(shown(&lab, &session, "run_context"), None);
    assert_eq!(
        shown(&lab, &session, "cwd").unwrap(),
        "Current working directory: /ws/app"
    );
}

#[test]
fn a_session_takes_the_first_run_context_that_there_is_for_it() {
    let defaults = "agents: {writer: {run_context: {security_group: agent}}, idle: {run_context: null}}\n\
        sources: {cron: {run_context: {security_group: source}}}\ntic: {run_context: {security_group: tic}}\n";
    let lab = lab(json!(defaults));
    for (given, group) in [
        (json!({}), None),
        (json!({ "source": "cron" }), Some("source")),
        (json!({ "source": "tic" }), Some("tic")),
        (json!({ "source": "tic", "agentId": "writer" }), Some("agent")),
        (json!({ "source": "tic", "agentId": "idle" }), None),
        (json!({ "source": "tic", "runContext": null }), None),
        (
            json!({ "source": "tic", "runContext": { "security_group": "own" } }),
            Some("own"),
        ),
        (json!({ "agentId": "writer", "projectId": "p" }), Some("project")),
        (
            json!({ "agentId": "writer", "projectId": "p", "runContext": null }),
            None,
        ),
        (json!({ "agentId": "writer", "ticketId": "t" }), None),
        (
            json!({ "agentId": "writer", "jobId": "j" }),
            Some("cron_restrictive"),
        ),
        (
            json!({ "projectId": "p", "jobId": "j" }),
            Some("cron_restrictive"),
        ),
        (
            json!({ "jobId": "j", "runContext": { "security_group": "own" } }),
            Some("own"),
        ),
    ] {
        let mut more = given.clone();
        more["id"] = Value::Null;
        let session = lab.run(lab.runtime.create_session(options(more))).unwrap();
        assert_eq!(security_group(&session).as_deref(), group, "{given}");
        assert_eq!(
            session.machine().working_directory(),
            match (
                given.get("runContext"),
                given.get("jobId"),
                given.get("projectId").or(given.get("ticketId"))
            ) {
                (Some(_), ..) | (None, None, None) => "/ws/app",
                (None, Some(_), _) => "/tmp",
                (None, None, Some(_)) => "/srv/shop",
            },
            "{given}"
        );
    }
}

#[test]
fn what_a_session_runs_as_is_stored_with_it_and_stays() {
    let memory = MemoryStorage::new();
    let expected = {
        let (lab, _) = configured(
            memory.clone(),
            json!({ "tic": { "run_context": { "colour": "red" } } }),
        );
        create(
            &lab,
            WorkKind::Project,
            json!({ "id": "p", "name": "Shop", "path": "/srv/shop" }),
        );
        let session = session(&lab, json!({ "projectId": "p", "source": "tic" }));
        assert_eq!(session.machine().unknown_fields(), ["runContext.colour"]);
        session.machine().run_context().unwrap().clone()
    };
    let record = memory
        .dump(Value::clone)
        .into_iter()
        .find(|(store, _)| store == "chat_sessions")
        .and_then(|(_, records)| records.into_iter().next())
        .map(|(_, record)| record)
        .unwrap();
    assert_eq!(
        record["settings"]["runContext"],
        serde_json::to_value(&expected).unwrap()
    );
    assert_eq!(record["settings"]["runContext"]["colour"], "red");
    // Its first commit was the only one.
    assert_eq!(record["counters"], json!({ "conversation": 1, "settings": 0 }));
    let (lab, _) = configured(memory, Value::Null);
    change(&lab, WorkKind::Project, WorkChange::Delete("p".to_owned()));
    let session = lab.open();
    assert_eq!(session.machine().run_context(), Some(&expected));
    assert_eq!(session.machine().unknown_fields(), ["runContext.colour"]);
}

#[test]
fn a_session_for_what_is_not_there_is_refused_and_nothing_is_stored() {
    let lab = lab(Value::Null);
    create(
        &lab,
        WorkKind::Project,
        json!({ "id": "q", "name": "Farm", "path": "/srv/farm" }),
    );
    let before = lab.stored();
    for (given, code, name, value) in [
        (json!({ "projectId": "x" }), ErrorCode::NotFound, "project", "x"),
        (json!({ "ticketId": "p" }), ErrorCode::NotFound, "ticket", "p"),
        (json!({ "jobId": "t" }), ErrorCode::NotFound, "job", "t"),
        (
            json!({ "projectId": "x", "runContext": {} }),
            ErrorCode::NotFound,
            "project",
            "x",
        ),
        (
            json!({ "projectId": "q", "ticketId": "t" }),
            ErrorCode::InvalidArgument,
            "field",
            "options.ticketId",
        ),
    ] {
        let error = refused(lab.run(lab.runtime.create_session(options(given))));
        assert_eq!(
            (error.code(), &error.data()[name]),
            (code, &json!(value)),
            "{error}"
        );
    }
    assert_eq!(lab.stored(), before);
    assert!(
        lab.run(lab.runtime.list_sessions(Default::default()))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn an_approval_says_what_its_session_is_for_until_a_person_gives_it_a_title() {
    let lab = lab(Value::Null);
    for (more, label) in [
        (json!({ "jobId": "j" }), "Nightly"),
        (json!({ "ticketId": "t" }), "New prices"),
        (json!({ "projectId": "p" }), "Shop"),
    ] {
        let session = session(&lab, more);
        let turn = lab
            .run(session.begin(&json!("go"), &PromptOptions::default()))
            .unwrap();
        turn.request().unwrap();
        lab.run(turn.dispatched()).unwrap();
        let asks = crate::lab::calls(&[("c1", "write_file", json!({ "path": "/elsewhere/x" }))]);
        lab.run(turn.append(vec![crate::lab::incoming(asks)])).unwrap();
        lab.run(turn.gate(&writes("/elsewhere/x"))).unwrap();
        let pending = lab.run(lab.runtime.pending_approvals()).unwrap();
        let labels: Vec<_> = pending
            .iter()
            .map(|(_, approval)| approval.label.as_deref())
            .collect();
        assert_eq!(labels, [Some(label)]);
        lab.run(turn.cancel()).unwrap();
        lab.run(lab.runtime.delete_session(ID)).unwrap();
    }
}

#[test]
fn ten_thousand_grants_are_one_question_to_the_host() {
    let (lab, host) = configured(MemoryStorage::new(), Value::Null);
    let grants: Vec<String> = (0..10_000).map(|at| format!("/srv/{at}/*")).collect();
    let session = session(&lab, json!({ "runContext": { "allow_fs_writes": grants } }));
    host.asked();
    assert_eq!(outcome(&lab, &session, &writes("/srv/9999/x")), Action::Allow);
    assert_eq!(outcome(&lab, &session, &writes("/srv/10000/x")), Action::Require);
    let asked = host.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked[0].1.len() < 10_010, "{}", asked[0].1.len());
}
