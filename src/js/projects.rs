//! `ProjectStore` and `JobStore`: what sessions are opened for, and what those run as.

use std::rc::Rc;

use js_sys::Promise;
use serde_json::Value;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::{
    foreign::{optional_text, text},
    plain::{json_in, object, to_js},
    promised,
};
use crate::{
    Result,
    list::Listed,
    run_context::{Work, WorkChange, WorkKind},
    runtime,
    untyped::{ToJson, field_error},
};

type Inner = Rc<runtime::Runtime<JsValue>>;

/// Projects and their tickets, kept in storage. Every question sees what other tabs have changed.
#[wasm_bindgen]
#[derive(Debug)]
pub struct ProjectStore {
    inner: Inner,
}

/// Scheduled jobs, kept in storage. Nothing here runs them.
#[wasm_bindgen]
#[derive(Debug)]
pub struct JobStore {
    inner: Inner,
}

fn all(inner: &Inner, kind: WorkKind, project: Result<Option<String>>) -> Promise {
    let inner = inner.clone();
    promised(project.map(|project| async move {
        let works = inner.list_work(kind, project.as_deref()).await?;
        let rows = works.iter().map(Work::to_json).listed();
        Ok(to_js(&Value::Array(rows)))
    }))
}

/// Whose row is meant: its id, and for a ticket that is named with its project that.
type Named = Result<(Option<String>, String)>;

fn by_id(id: &JsValue) -> Named {
    Ok((None, text(id, "id")?))
}

fn of_project(project: &JsValue, ticket: &JsValue) -> Named {
    Ok((Some(text(project, "projectId")?), text(ticket, "ticketId")?))
}

fn one(inner: &Inner, kind: WorkKind, named: Named, shown: fn(&Work) -> JsValue) -> Promise {
    let inner = inner.clone();
    promised(named.map(|(project, id)| async move {
        let work = inner.read_work(kind, project.as_deref(), &id).await?;
        Ok(shown(&work))
    }))
}

fn whole(work: &Work) -> JsValue {
    to_js(&work.to_json())
}

fn run_context(work: &Work) -> JsValue {
    to_js(&work.run_context.to_json())
}

fn change(inner: &Inner, kind: WorkKind, change: Result<(Option<String>, WorkChange)>) -> Promise {
    let inner = inner.clone();
    promised(change.map(|(project, change)| async move {
        let work = inner.change_work(kind, project.as_deref(), &change).await?;
        Ok(work.map_or(JsValue::UNDEFINED, |work| {
            object(&[
                ("id", JsValue::from_str(&work.id)),
                ("unknownFields", to_js(&work.unknown_fields())),
            ])
        }))
    }))
}

fn created(kind: WorkKind, row: &JsValue) -> Result<(Option<String>, WorkChange)> {
    Ok((None, WorkChange::Create(json_in(row, kind.as_str())?)))
}

fn updated(kind: WorkKind, id: &JsValue, row: &JsValue) -> Result<(Option<String>, WorkChange)> {
    let row = json_in(row, kind.as_str())?;
    Ok((None, WorkChange::Update(text(id, "id")?, row)))
}

fn deleted(id: &JsValue) -> Result<(Option<String>, WorkChange)> {
    Ok((None, WorkChange::Delete(text(id, "id")?)))
}

fn set(named: Named, run_context: &JsValue) -> Result<(Option<String>, WorkChange)> {
    let (project, id) = named?;
    if run_context.is_undefined() {
        let problem = "must be a run context, or null for none";
        return Err(field_error("runContext", problem));
    }
    Ok((
        project,
        WorkChange::SetRunContext(id, json_in(run_context, "runContext")?),
    ))
}

impl ProjectStore {
    pub(super) fn new(inner: Inner) -> Self {
        Self { inner }
    }
}

impl JobStore {
    pub(super) fn new(inner: Inner) -> Self {
        Self { inner }
    }
}

#[wasm_bindgen]
impl ProjectStore {
    /// Every project, by id. One that cannot be read is left out, and told as `list-incomplete`.
    #[wasm_bindgen(js_name = "listProjects", unchecked_return_type = "Promise<Project[]>")]
    pub fn list_projects(&self) -> Promise {
        all(&self.inner, WorkKind::Project, Ok(None))
    }

    /// A project.
    #[wasm_bindgen(js_name = "getProject", unchecked_return_type = "Promise<Project>")]
    pub fn get_project(&self, #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue) -> Promise {
        one(&self.inner, WorkKind::Project, by_id(&id), whole)
    }

    /// Creates a project. Without an `id` it gets a UUID.
    #[wasm_bindgen(js_name = "createProject", unchecked_return_type = "Promise<SavedWork>")]
    pub fn create_project(
        &self,
        #[wasm_bindgen(unchecked_param_type = "NewWork<Project>")] project: JsValue,
    ) -> Promise {
        let kind = WorkKind::Project;
        change(&self.inner, kind, created(kind, &project))
    }

    /// Changes the columns of a project that are given; null empties one.
    #[wasm_bindgen(js_name = "updateProject", unchecked_return_type = "Promise<SavedWork>")]
    pub fn update_project(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue,
        #[wasm_bindgen(unchecked_param_type = "Partial<Project>")] project: JsValue,
    ) -> Promise {
        let kind = WorkKind::Project;
        change(&self.inner, kind, updated(kind, &id, &project))
    }

    /// Deletes a project with its tickets. Sessions that were opened for it stay as they are.
    #[wasm_bindgen(js_name = "deleteProject", unchecked_return_type = "Promise<void>")]
    pub fn delete_project(&self, #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue) -> Promise {
        change(&self.inner, WorkKind::Project, deleted(&id))
    }

    /// What sessions of a project run as where their ticket does not say; null where it says nothing.
    #[wasm_bindgen(
        js_name = "getProjectRunContext",
        unchecked_return_type = "Promise<RunContext | null>"
    )]
    pub fn get_project_run_context(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue,
    ) -> Promise {
        one(&self.inner, WorkKind::Project, by_id(&id), run_context)
    }

    /// Another one, whole, or null for none. Sessions that are there already stay as they are.
    #[wasm_bindgen(
        js_name = "setProjectRunContext",
        unchecked_return_type = "Promise<SavedWork>"
    )]
    pub fn set_project_run_context(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue,
        #[wasm_bindgen(js_name = "runContext", unchecked_param_type = "RunContext | null")]
        run_context: JsValue,
    ) -> Promise {
        change(&self.inner, WorkKind::Project, set(by_id(&id), &run_context))
    }

    /// Every ticket, or those of a project, by id.
    #[wasm_bindgen(js_name = "listTickets", unchecked_return_type = "Promise<Ticket[]>")]
    pub fn list_tickets(
        &self,
        #[wasm_bindgen(js_name = "projectId", unchecked_optional_param_type = "string")] project_id: JsValue,
    ) -> Promise {
        let project = optional_text(&project_id, "projectId");
        all(&self.inner, WorkKind::Ticket, project)
    }

    /// A ticket.
    #[wasm_bindgen(js_name = "getTicket", unchecked_return_type = "Promise<Ticket>")]
    pub fn get_ticket(&self, #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue) -> Promise {
        one(&self.inner, WorkKind::Ticket, by_id(&id), whole)
    }

    /// Creates a ticket of a project. Without an `id` it gets a UUID.
    #[wasm_bindgen(js_name = "createTicket", unchecked_return_type = "Promise<SavedWork>")]
    pub fn create_ticket(
        &self,
        #[wasm_bindgen(unchecked_param_type = "NewWork<Ticket>")] ticket: JsValue,
    ) -> Promise {
        let kind = WorkKind::Ticket;
        change(&self.inner, kind, created(kind, &ticket))
    }

    /// Changes the columns of a ticket that are given; null empties one.
    #[wasm_bindgen(js_name = "updateTicket", unchecked_return_type = "Promise<SavedWork>")]
    pub fn update_ticket(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue,
        #[wasm_bindgen(unchecked_param_type = "Partial<Ticket>")] ticket: JsValue,
    ) -> Promise {
        let kind = WorkKind::Ticket;
        change(&self.inner, kind, updated(kind, &id, &ticket))
    }

    /// Deletes a ticket. Sessions that were opened for it stay as they are.
    #[wasm_bindgen(js_name = "deleteTicket", unchecked_return_type = "Promise<void>")]
    pub fn delete_ticket(&self, #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue) -> Promise {
        change(&self.inner, WorkKind::Ticket, deleted(&id))
    }

    /// What sessions of a ticket run as; null where the ticket says nothing, so that its project does.
    #[wasm_bindgen(
        js_name = "getTicketRunContext",
        unchecked_return_type = "Promise<RunContext | null>"
    )]
    pub fn get_ticket_run_context(
        &self,
        #[wasm_bindgen(js_name = "projectId", unchecked_param_type = "string")] project_id: JsValue,
        #[wasm_bindgen(js_name = "ticketId", unchecked_param_type = "string")] ticket_id: JsValue,
    ) -> Promise {
        let named = of_project(&project_id, &ticket_id);
        one(&self.inner, WorkKind::Ticket, named, run_context)
    }

    /// Another one, whole, or null for none. Sessions that are there already stay as they are.
    #[wasm_bindgen(js_name = "setTicketRunContext", unchecked_return_type = "Promise<SavedWork>")]
    pub fn set_ticket_run_context(
        &self,
        #[wasm_bindgen(js_name = "projectId", unchecked_param_type = "string")] project_id: JsValue,
        #[wasm_bindgen(js_name = "ticketId", unchecked_param_type = "string")] ticket_id: JsValue,
        #[wasm_bindgen(js_name = "runContext", unchecked_param_type = "RunContext | null")]
        run_context: JsValue,
    ) -> Promise {
        let named = of_project(&project_id, &ticket_id);
        change(&self.inner, WorkKind::Ticket, set(named, &run_context))
    }
}

#[wasm_bindgen]
impl JobStore {
    /// Every job, by id. One that cannot be read is left out, and told as `list-incomplete`.
    #[wasm_bindgen(js_name = "listJobs", unchecked_return_type = "Promise<Job[]>")]
    pub fn list_jobs(&self) -> Promise {
        all(&self.inner, WorkKind::Job, Ok(None))
    }

    /// A job.
    #[wasm_bindgen(js_name = "getJob", unchecked_return_type = "Promise<Job>")]
    pub fn get_job(&self, #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue) -> Promise {
        one(&self.inner, WorkKind::Job, by_id(&id), whole)
    }

    /// Creates a job. Without an `id` it gets a UUID.
    #[wasm_bindgen(js_name = "createJob", unchecked_return_type = "Promise<SavedWork>")]
    pub fn create_job(&self, #[wasm_bindgen(unchecked_param_type = "NewWork<Job>")] job: JsValue) -> Promise {
        let kind = WorkKind::Job;
        change(&self.inner, kind, created(kind, &job))
    }

    /// Changes the columns of a job that are given; null empties one.
    #[wasm_bindgen(js_name = "updateJob", unchecked_return_type = "Promise<SavedWork>")]
    pub fn update_job(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue,
        #[wasm_bindgen(unchecked_param_type = "Partial<Job>")] job: JsValue,
    ) -> Promise {
        let kind = WorkKind::Job;
        change(&self.inner, kind, updated(kind, &id, &job))
    }

    /// Deletes a job. Sessions that were opened for it stay as they are.
    #[wasm_bindgen(js_name = "deleteJob", unchecked_return_type = "Promise<void>")]
    pub fn delete_job(&self, #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue) -> Promise {
        change(&self.inner, WorkKind::Job, deleted(&id))
    }

    /// What sessions of a job run as; null where it says nothing.
    #[wasm_bindgen(
        js_name = "getJobRunContext",
        unchecked_return_type = "Promise<RunContext | null>"
    )]
    pub fn get_job_run_context(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue,
    ) -> Promise {
        one(&self.inner, WorkKind::Job, by_id(&id), run_context)
    }

    /// Another one, whole, or null for none. Sessions that are there already stay as they are.
    #[wasm_bindgen(js_name = "setJobRunContext", unchecked_return_type = "Promise<SavedWork>")]
    pub fn set_job_run_context(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue,
        #[wasm_bindgen(js_name = "runContext", unchecked_param_type = "RunContext | null")]
        run_context: JsValue,
    ) -> Promise {
        change(&self.inner, WorkKind::Job, set(by_id(&id), &run_context))
    }
}
