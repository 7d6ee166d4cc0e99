//! Projects, tickets and jobs in any kind of storage, seen by several runtimes at a time.

use std::{cell::RefCell, rc::Rc};

use runcontext::{
    ErrorCode, Result,
    run_context::{Work, WorkChange, WorkKind},
    runtime::{Runtime, RuntimeEvent},
    storage::StorageEvent,
};
use serde_json::{Value, json};

use crate::{
    place::{Body, Named, Place, both},
    suite::{change, refused},
};

use WorkKind::{Job, Project, Ticket};

/// A row of each kind, with the project that the ticket needs first.
fn rows() -> [(WorkKind, Value); 3] {
    [
        (Project, json!({ "id": "p", "name": "Shop", "path": "/srv/shop" })),
        (Ticket, json!({ "id": "t", "project_id": "p", "title": "Prices" })),
        (
            Job,
            json!({ "id": "j", "name": "Nightly", "schedule": "0 3 * * *" }),
        ),
    ]
}

async fn done(runtime: &Runtime<Body>, kind: WorkKind, change: WorkChange) -> Result<Option<Work>> {
    runtime.change_work(kind, None, &change).await
}

async fn create(runtime: &Runtime<Body>, kind: WorkKind, row: &Value) -> Work {
    let created = done(runtime, kind, WorkChange::Create(row.clone())).await;
    created.unwrap().unwrap()
}

async fn filled<P: Place>(place: &P) -> (Rc<Runtime<Body>>, Rc<crate::place::Around>) {
    let (runtime, around) = place.open().await;
    for (kind, row) in rows() {
        create(&runtime, kind, &row).await;
    }
    (runtime, around)
}

fn row(work: &Work) -> Value {
    serde_json::to_value(work).unwrap()
}

async fn listed(runtime: &Runtime<Body>, kind: WorkKind) -> Vec<Value> {
    let works = runtime.list_work(kind, None).await.unwrap();
    works.iter().map(row).collect()
}

fn set(id: &str, context: Value) -> WorkChange {
    WorkChange::SetRunContext(id.to_owned(), context)
}

fn update(id: &str, row: Value) -> WorkChange {
    WorkChange::Update(id.to_owned(), row)
}

fn delete(id: &str) -> WorkChange {
    WorkChange::Delete(id.to_owned())
}

/// All members of a run context, with these.
fn whole(members: &Value) -> Value {
    let mut whole = json!({
        "security_group": null, "system_prompt": [], "allow_fs_writes": [], "allow_fs_reads": [], "working_directory": null,
    });
    for (name, value) in members.as_object().unwrap() {
        whole[name] = value.clone();
    }
    whole
}

pub async fn rows_are_there_for_every_runtime_until_they_are_deleted<P: Place>() {
    let place = P::empty();
    let (one, _) = filled(&place).await;
    let (two, _) = place.open().await;
    for (kind, given) in rows() {
        assert_eq!(listed(&two, kind).await, std::slice::from_ref(&given));
        let id = given["id"].as_str().unwrap();
        assert_eq!(row(&two.read_work(kind, None, id).await.unwrap()), given);
        let updated = update(id, json!({ "description": "why", "owner": { "of": ["it"] } }));
        let updated = done(&two, kind, updated).await.unwrap().unwrap();
        let mut expected = given.clone();
        expected["description"] = json!("why");
        expected["owner"] = json!({ "of": ["it"] });
        assert_eq!(row(&updated), expected);
        assert_eq!(row(&one.read_work(kind, None, id).await.unwrap()), expected);
    }
    for (kind, id) in [(Job, "j"), (Ticket, "t"), (Project, "p")] {
        assert_eq!(done(&one, kind, delete(id)).await.unwrap(), None);
        assert_eq!(listed(&two, kind).await, [] as [Value; 0]);
        let error = refused(two.read_work(kind, None, id).await, ErrorCode::NotFound);
        assert_eq!(error.data()[kind.as_str()], id);
        refused(done(&two, kind, delete(id)).await, ErrorCode::NotFound);
    }
}

pub async fn run_contexts_are_set_replaced_cleared_and_read<P: Place>() {
    let place = P::empty();
    let (one, _) = filled(&place).await;
    let (two, _) = place.open().await;
    for (kind, given) in rows() {
        let id = given["id"].as_str().unwrap();
        for context in [
            json!({ "security_group": "g", "colour": { "of": 1 } }),
            json!({ "allow_fs_writes": ["logs/*"] }),
            json!({}),
        ] {
            let saved = done(&one, kind, set(id, context.clone())).await.unwrap().unwrap();
            let unknown: &[&str] = if context.get("colour").is_some() {
                &["run_context.colour"]
            } else {
                &[]
            };
            assert_eq!(saved.unknown_fields(), unknown);
            let read = two.read_work(kind, None, id).await.unwrap();
            assert_eq!(serde_json::to_value(&read.run_context).unwrap(), whole(&context));
        }
        done(&one, kind, set(id, Value::Null)).await.unwrap();
        let read = two.read_work(kind, None, id).await.unwrap();
        assert_eq!(read.run_context, None);
    }
}

pub async fn a_row_without_an_id_gets_one_and_an_id_is_given_once<P: Place>() {
    let place = P::empty();
    let (runtime, around) = filled(&place).await;
    let row = json!({ "name": "Shop", "path": "/srv/shop" });
    // The world of these tests knows one.
    assert_eq!(create(&runtime, Project, &row).await.id, "id");
    let before = around.stored().await;
    for id in ["p", "id"] {
        let mut taken = row.clone();
        taken["id"] = json!(id);
        let error = refused(
            done(&runtime, Project, WorkChange::Create(taken)).await,
            ErrorCode::Conflict,
        );
        assert_eq!(error.data()["id"], id);
    }
    assert_eq!(around.stored().await, before);
}

pub async fn a_row_that_is_refused_changes_nothing<P: Place>() {
    let place = P::empty();
    let (runtime, around) = filled(&place).await;
    let before = around.stored().await;
    let mut tried = 0;
    for (kind, change, field) in [
        (Project, WorkChange::Create(json!(5)), "project"),
        (
            Project,
            WorkChange::Create(json!({ "id": 5, "name": "x", "path": "/x" })),
            "project.id",
        ),
        (
            Project,
            WorkChange::Create(json!({ "id": "a/b", "name": "x", "path": "/x" })),
            "project.id",
        ),
        (
            Project,
            WorkChange::Create(json!({ "name": "x" })),
            "project.path",
        ),
        (
            Project,
            WorkChange::Create(json!({ "name": "x", "path": "x" })),
            "project.path",
        ),
        (
            Project,
            WorkChange::Create(json!({ "name": "x", "path": "//" })),
            "project.path",
        ),
        (
            Project,
            WorkChange::Create(json!({ "name": ["x"], "path": "/x" })),
            "project.name",
        ),
        (Project, update("p", json!({ "name": null })), "project.name"),
        (Project, update("p", json!({ "id": "q" })), "project.id"),
        (
            Project,
            update("p", json!({ "runContext": {} })),
            "project.runContext",
        ),
        (Project, update("p", json!([])), "project"),
        (Project, set("p", json!("{}")), "project.run_context"),
        (
            Ticket,
            set("t", json!({ "allow_fs_reads": [1] })),
            "ticket.run_context.allow_fs_reads[0]",
        ),
        (Ticket, update("t", json!({ "title": " " })), "ticket.title"),
        (
            Ticket,
            update("t", json!({ "project_id": 5 })),
            "ticket.project_id",
        ),
        (
            Job,
            set("j", json!({ "allow_fs_writes": ["/"] })),
            "job.run_context.allow_fs_writes[0]",
        ),
        (Job, WorkChange::Create(json!({ "description": "x" })), "job.name"),
    ] {
        let error = refused(done(&runtime, kind, change).await, ErrorCode::InvalidArgument);
        assert_eq!(error.data()["field"], field, "{error}");
        tried += 1;
    }
    for (kind, change) in [
        (Project, update("nowhere", json!({}))),
        (Project, set("nowhere", json!({}))),
        (Ticket, update("t", json!({ "project_id": "nowhere" }))),
        (
            Ticket,
            WorkChange::Create(json!({ "title": "x", "project_id": "nowhere" })),
        ),
    ] {
        let error = refused(done(&runtime, kind, change).await, ErrorCode::NotFound);
        assert!(error.message().contains("`nowhere`"), "{error}");
        tried += 1;
    }
    assert_eq!(around.stored().await, before);
    assert_eq!(tried, 21);
}

pub async fn a_project_goes_with_its_tickets<P: Place>() {
    let place = P::empty();
    let (runtime, _) = filled(&place).await;
    create(
        &runtime,
        Project,
        &json!({ "id": "q", "name": "Farm", "path": "/srv/farm" }),
    )
    .await;
    create(
        &runtime,
        Ticket,
        &json!({ "id": "u", "title": "Apples", "project_id": "q" }),
    )
    .await;
    create(
        &runtime,
        Ticket,
        &json!({ "id": "v", "title": "Pears", "project_id": "p" }),
    )
    .await;
    let of = async |project| {
        let works = runtime.list_work(Ticket, Some(project)).await.unwrap();
        works.into_iter().map(|work| work.id).collect::<Vec<String>>()
    };
    assert_eq!(of("p").await, ["t", "v"]);
    done(&runtime, Project, delete("p")).await.unwrap();
    refused(runtime.list_work(Ticket, Some("p")).await, ErrorCode::NotFound);
    assert_eq!(of("q").await, ["u"]);
    assert_eq!(listed(&runtime, Ticket).await.len(), 1);
    assert_eq!(listed(&runtime, Job).await.len(), 1);
}

pub async fn a_ticket_is_not_there_for_whoever_names_another_project<P: Place>() {
    let place = P::empty();
    let (runtime, around) = filled(&place).await;
    create(
        &runtime,
        Project,
        &json!({ "id": "q", "name": "Farm", "path": "/srv/farm" }),
    )
    .await;
    let before = around.stored().await;
    refused(
        runtime.read_work(Ticket, Some("q"), "t").await,
        ErrorCode::NotFound,
    );
    for change in [
        set("t", json!({})),
        delete("t"),
        update("t", json!({ "project_id": "q" })),
    ] {
        refused(
            runtime.change_work(Ticket, Some("q"), &change).await,
            ErrorCode::NotFound,
        );
    }
    assert_eq!(around.stored().await, before);
    let read = runtime.read_work(Ticket, Some("p"), "t").await.unwrap();
    assert_eq!(read.name, "Prices");
    runtime
        .change_work(Ticket, Some("p"), &set("t", json!({})))
        .await
        .unwrap();
}

pub async fn runtimes_that_change_rows_side_by_side_lose_nothing_to_each_other<P: Place>() {
    let place = P::empty();
    let (one, _) = filled(&place).await;
    let (two, _) = place.open().await;
    let columns = async |runtime: &Runtime<Body>, name: &str| {
        for at in 0..8 {
            let column = format!("{name}{at}");
            let (a, b) = both(
                done(runtime, Project, update("p", json!({ column: at }))),
                done(runtime, Project, set("p", json!({ "security_group": name }))),
            )
            .await;
            a.unwrap();
            b.unwrap();
        }
    };
    both(columns(&one, "a"), columns(&two, "b")).await;
    let read = row(&one.read_work(Project, None, "p").await.unwrap());
    assert_eq!(read, row(&two.read_work(Project, None, "p").await.unwrap()));
    for (name, at) in ["a", "b"]
        .into_iter()
        .flat_map(|name| (0..8).map(move |at| (name, at)))
    {
        assert_eq!(read[format!("{name}{at}")], at, "{read}");
    }
    let group = read["run_context"]["security_group"].as_str().unwrap();
    assert_eq!(read["run_context"], whole(&json!({ "security_group": group })));
}

/// Somebody else's write, as a runtime makes it: it raises the policy version.
async fn as_a_runtime(around: &crate::place::Around, store: &'static str, key: &str, value: Option<Value>) {
    let next = around.inner.shared().get("approval_rules", "next").await.unwrap();
    around.before_write(vec![
        change(store, key, value),
        change("approval_rules", "next", next),
    ]);
}

pub async fn a_ticket_of_a_project_that_is_deleted_at_the_same_time_is_refused<P: Place>() {
    let place = P::empty();
    let (runtime, around) = filled(&place).await;
    as_a_runtime(&around, "projects", "p", None).await;
    let ticket = WorkChange::Create(json!({ "id": "late", "title": "Late", "project_id": "p" }));
    let error = refused(done(&runtime, Ticket, ticket).await, ErrorCode::NotFound);
    assert_eq!(error.data()["project"], "p");
    assert_eq!(
        around
            .inner
            .shared()
            .get("project_tickets", "late")
            .await
            .unwrap(),
        None
    );
}

pub async fn a_group_that_is_named_while_it_is_deleted_is_in_use<P: Place>() {
    let place = P::empty();
    let (runtime, around) = filled(&place).await;
    let store = runtime.permissions();
    store
        .create_group(&json!({ "id": "g", "name": "G" }))
        .await
        .unwrap();
    let names_it = json!({ "id": "j", "name": "Nightly", "run_context": { "security_group": "g" } });
    as_a_runtime(&around, "scheduled_jobs", "j", Some(names_it)).await;
    let error = refused(store.delete_group("g").await, ErrorCode::GroupInUse);
    assert_eq!(error.data()["usedBy"], json!(["scheduled_jobs/j"]));
    done(&runtime, Job, set("j", Value::Null)).await.unwrap();
    store.delete_group("g").await.unwrap();
}

pub async fn a_row_that_changes_makes_nobody_compile_rules_again<P: Place>() {
    let place = P::empty();
    let ((one, _), (two, _)) = (filled(&place).await, place.open().await);
    let told = Rc::new(RefCell::new(0));
    for runtime in [&one, &two] {
        let tell = told.clone();
        runtime.subscribe(Rc::new(move |_: &RuntimeEvent| {
            *tell.borrow_mut() += 1;
            Ok(())
        }));
    }
    let (here, there) = (one.policy().await.unwrap(), two.policy().await.unwrap());
    done(&one, Job, set("j", json!({ "security_group": "g" })))
        .await
        .unwrap();
    assert!(Rc::ptr_eq(&one.policy().await.unwrap(), &here));
    assert!(Rc::ptr_eq(&two.policy().await.unwrap(), &there));
    assert_eq!(*told.borrow(), 0);
    let deny = json!({ "tool_pattern": "x", "action": "deny" });
    one.permissions().add_rule(&deny).await.unwrap();
    assert!(!Rc::ptr_eq(&two.policy().await.unwrap(), &there));
    assert_eq!(*told.borrow(), 2);
}

pub async fn a_row_that_cannot_be_read_is_left_out_and_told_until_it_is_repaired<P: Place>() {
    let place = P::empty();
    let (runtime, around) = filled(&place).await;
    create(&runtime, Job, &json!({ "id": "k", "name": "Weekly" })).await;
    let told = Rc::new(RefCell::new(Vec::new()));
    let tell = told.clone();
    runtime.subscribe(Rc::new(move |event: &RuntimeEvent| {
        match event {
            RuntimeEvent::Storage(StorageEvent::LeftOut(error)) => {
                tell.borrow_mut().push(error.data()["job"].clone())
            }
            RuntimeEvent::PermissionsChanged => {}
            other => panic!("{other:?}"),
        }
        Ok(())
    }));
    let damaged = json!({ "id": "j", "name": "Nightly", "run_context": { "allow_fs_writes": 5 } });
    around
        .write(vec![change("scheduled_jobs", "j", Some(damaged))])
        .await;
    let ids: Vec<Value> = listed(&runtime, Job)
        .await
        .iter()
        .map(|job| job["id"].clone())
        .collect();
    assert_eq!(ids, ["k"]);
    assert_eq!(*told.borrow(), ["j"]);
    let error = refused(runtime.read_work(Job, None, "j").await, ErrorCode::StorageFailed);
    assert!(
        error.message().contains("`job.run_context.allow_fs_writes`"),
        "{error}"
    );
    done(&runtime, Job, set("j", json!({}))).await.unwrap();
    assert_eq!(listed(&runtime, Job).await.len(), 2);
    around
        .write(vec![change("scheduled_jobs", "j", Some(json!("text")))])
        .await;
    assert_eq!(listed(&runtime, Job).await.len(), 1);
    done(&runtime, Job, delete("j")).await.unwrap();
    listed(&runtime, Job).await;
    assert_eq!(*told.borrow(), ["j", "j"]);
}

pub async fn storage_that_fails_fails_the_change<P: Place>() {
    let place = P::empty();
    let (runtime, around) = filled(&place).await;
    around.broken.set(true);
    refused(
        done(&runtime, Project, set("p", json!({}))).await,
        ErrorCode::StorageLost,
    );
    refused(
        runtime.read_work(Project, None, "p").await,
        ErrorCode::StorageLost,
    );
    refused(runtime.list_work(Job, None).await, ErrorCode::StorageLost);
    around.broken.set(false);
    assert_eq!(
        runtime.read_work(Project, None, "p").await.unwrap().run_context,
        None
    );
}
