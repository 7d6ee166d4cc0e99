//! Projects, tickets and jobs of a runtime. They are read from storage whenever somebody asks. A change is decided on what is there
//! and written only where nobody wrote rows, groups or rules in between, so that two tabs lose nothing to each other.

use super::{
    Runtime, RuntimeEvent,
    permissions::{PATIENCE, unsettled},
};
use crate::{
    Error, ErrorCode, Result,
    message::MessageData,
    run_context::{RunContextInput, Work, WorkChange, WorkKind, no_work},
    session::NewSession,
    storage::{SharedChange, StorageEvent, keys},
    untyped::{ToJson, field_error},
};
use serde_json::Value;

impl<M: MessageData + 'static> Runtime<M> {
    /// Every project or job, or the tickets of a project, by id. A row that cannot be read is left out, and told as an event.
    ///
    /// # Errors
    /// `not_found` where there is no such project; those of the storage.
    pub async fn list_work(&self, kind: WorkKind, project: Option<&str>) -> Result<Vec<Work>> {
        self.check_open()?;
        if let Some(project) = project {
            self.row(WorkKind::Project, project).await?;
        }
        let mut works = Vec::new();
        for (id, row) in self.parts.storage.shared().list(kind.store()).await? {
            match read(kind, &id, &row) {
                Ok(work) if project.is_none() || project == work.home.as_deref() => works.push(work),
                Ok(_) => {}
                Err(error) => {
                    let event = StorageEvent::LeftOut(error);
                    self.listeners.emit(&RuntimeEvent::Storage(event));
                }
            }
        }
        Ok(works)
    }

    /// A project, ticket or job; of tickets those of a project, where one is named. Its run context is among its fields.
    ///
    /// # Errors
    /// `not_found`; `storage_failed` where its row cannot be read; those of the storage.
    pub async fn read_work(&self, kind: WorkKind, project: Option<&str>, id: &str) -> Result<Work> {
        self.check_open()?;
        let work = read(kind, id, &self.row(kind, id).await?)?;
        is_of(project, work.home.as_deref(), kind, id)?;
        Ok(work)
    }

    async fn row(&self, kind: WorkKind, id: &str) -> Result<Value> {
        let row = self.parts.storage.shared().get(kind.store(), id).await?;
        row.ok_or_else(|| no_work(kind, id))
    }

    /// Changes a row, and answers what it is then; none where it is gone. Sessions that were opened for it stay as they are.
    ///
    /// # Errors
    /// `invalid_argument` with the `field`; `not_found`, also where a ticket's project is not there; `conflict` where the id is
    /// taken, or others keep writing; those of the storage.
    pub async fn change_work(
        &self,
        kind: WorkKind,
        project: Option<&str>,
        change: &WorkChange,
    ) -> Result<Option<Work>> {
        self.check_open()?;
        let id = change
            .id()
            .map_or_else(|| self.parts.world.new_id(), str::to_owned);
        let one_at_a_time = self.permissions.turn_to_change().await;
        for _ in 0..PATIENCE {
            let version = self.permissions.version().await?;
            let (work, records) = self.decide_work(kind, project, &id, change).await?;
            if self.permissions.write_beside(records, version).await? {
                drop(one_at_a_time);
                return Ok(work);
            }
        }
        Err(unsettled())
    }

    async fn decide_work(
        &self,
        kind: WorkKind,
        project: Option<&str>,
        id: &str,
        change: &WorkChange,
    ) -> Result<(Option<Work>, Vec<SharedChange>)> {
        let shared = self.parts.storage.shared();
        let stored = shared.get(kind.store(), id).await?;
        if let Some(stored) = &stored {
            let home = stored.get("project_id").and_then(Value::as_str);
            is_of(project, home, kind, id)?;
        }
        let work = change.decide(kind, id, stored.as_ref(), self.path_style())?;
        let record = |store, key, value| SharedChange { store, key, value };
        let row = work.as_ref().map(ToJson::to_json);
        let mut records = vec![record(kind.store(), id.to_owned(), row)];
        match (&work, kind) {
            (Some(work), WorkKind::Ticket) => {
                let home = work.home.as_deref().unwrap_or_default();
                is_of(project, Some(home), kind, id)?;
                self.row(WorkKind::Project, home).await?;
            }
            // Its tickets go with it.
            (None, WorkKind::Project) => {
                for (ticket, row) in shared.list(keys::TICKETS).await? {
                    if row.get("project_id").and_then(Value::as_str) == Some(id) {
                        records.push(record(keys::TICKETS, ticket, None));
                    }
                }
            }
            _ => {}
        }
        Ok((work, records))
    }

    /// Puts into the options of a new session what it runs as, and what it is for.
    pub(super) async fn resolve(&self, options: &mut NewSession) -> Result<()> {
        let read = async |kind: WorkKind, id: &Option<String>| match id {
            Some(id) => self.read_work(kind, None, id).await.map(Some),
            None => Ok(None),
        };
        let ticket = read(WorkKind::Ticket, &options.ticket_id).await?;
        let home = ticket.as_ref().and_then(|ticket| ticket.home.clone());
        if home.is_some() && options.project_id.is_some() && home != options.project_id {
            return Err(field_error("options.ticketId", "is a ticket of another project"));
        }
        let project = read(WorkKind::Project, &home.or_else(|| options.project_id.clone())).await?;
        let job = read(WorkKind::Job, &options.job_id).await?;
        let of_job = job.as_ref().and_then(|job| job.run_context.clone());
        let names = [&job, &ticket, &project].into_iter().flatten();
        options.context_label = names.map(|work| work.name.clone()).next();
        let input = RunContextInput {
            // A job is one session's work: what it runs as is given, and nothing is laid over it.
            explicit: options.run_context.take().or_else(|| of_job.map(Some)),
            agent_id: options.agent_id.clone(),
            source: options.source.clone(),
            project,
            ticket,
            data_dir: self.parts.data_dir.clone(),
        };
        options.run_context = Some(input.resolve(&self.parts.defaults));
        Ok(())
    }
}

fn read(kind: WorkKind, id: &str, row: &Value) -> Result<Work> {
    Work::read(kind, row, kind.as_str()).map_err(|cause| {
        let what = kind.as_str();
        let text = format!("the stored {what} `{id}` cannot be read, change or delete it: {cause}");
        Error::new(ErrorCode::StorageFailed, text).with(what, id)
    })
}

/// A ticket of another project is not there for whoever names its project.
fn is_of(project: Option<&str>, home: Option<&str>, kind: WorkKind, id: &str) -> Result<()> {
    if project.is_some() && project != home {
        return Err(no_work(kind, id));
    }
    Ok(())
}
