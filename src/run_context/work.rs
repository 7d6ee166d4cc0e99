//! Projects, tickets and scheduled jobs: what sessions are opened for, as rows of their stores, and what becomes of a row when
//! somebody wants it changed.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::RunContext;
use crate::{
    Error, ErrorCode, Result,
    paths::{AbsolutePath, PathStyle},
    storage::keys,
    untyped::{Reader, ToJson, field_error, fits_id, join, object, optional},
};

/// What sessions are opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkKind {
    /// A directory with a name.
    Project,
    /// Something to do in a project.
    Ticket,
    /// Something to do at set times.
    Job,
}

impl WorkKind {
    /// What it is called.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Ticket => "ticket",
            Self::Job => "job",
        }
    }

    /// Where its rows are.
    pub fn store(self) -> &'static str {
        match self {
            Self::Project => keys::PROJECTS,
            Self::Ticket => keys::TICKETS,
            Self::Job => keys::JOBS,
        }
    }
}

/// A project, ticket or job. Columns of its row that nothing here looks at are kept as they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Its id, among those of its kind.
    pub id: String,
    /// For people and for the model: `name`, of a ticket `title`.
    pub name: String,
    /// The same.
    pub description: Option<String>,
    /// Of a project its directory, `path`; of a ticket its project, `project_id`.
    pub home: Option<String>,
    /// What sessions for it run as. A row knows no absent columns: null is that it says nothing.
    pub run_context: Option<RunContext>,
    row: Map<String, Value>,
}

/// What somebody wants changed. Rows are as they came in: untyped JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkChange {
    /// A new row. Without an `id` it gets one.
    Create(Value),
    /// The columns that are given are changed; null empties one.
    Update(String, Value),
    /// A row goes; that of a project with those of its tickets.
    Delete(String),
    /// Another run context, or null for none.
    SetRunContext(String, Value),
}

impl Work {
    /// Reads a row.
    ///
    /// # Errors
    /// `invalid_argument` with the `field`.
    pub fn read(kind: WorkKind, row: &Value, path: &str) -> Result<Self> {
        let mut reader = Reader::new(row, path);
        reader.no_misspelt(&["run_context"]);
        let (name, home) = match kind {
            WorkKind::Project => ("name", Some("path")),
            WorkKind::Ticket => ("title", Some("project_id")),
            WorkKind::Job => ("name", None),
        };
        let mut work = Self {
            id: reader.read("id"),
            name: reader.filled(name),
            description: reader.read("description"),
            home: home.map(|home| reader.filled(home)),
            run_context: reader.read("run_context"),
            row: reader.others(&[]),
        };
        if !fits_id(&work.id) {
            let problem = "must have 1 to 128 letters, digits, `_` or `-`";
            reader.taken::<()>(Err(field_error(&join(path, "id"), problem)));
        }
        // One way to write it, whichever of its members came.
        if let Some(context) = &work.run_context {
            work.row.insert("run_context".to_owned(), context.to_json());
        }
        reader.finish(work)
    }

    /// What is wrong with it on a host that writes paths like this.
    ///
    /// # Errors
    /// `invalid_argument` with the `field`.
    fn check(&self, kind: WorkKind, style: PathStyle) -> Result<()> {
        if let (WorkKind::Project, Some(path)) = (kind, &self.home)
            && AbsolutePath::parse(style, path).is_none_or(|path| path.is_root())
        {
            let problem = "must be an absolute path, and not the root of a file system";
            return Err(field_error("project.path", problem));
        }
        match &self.run_context {
            Some(context) => context.check(style, &join(kind.as_str(), "run_context")),
            None => Ok(()),
        }
    }

    /// Members of its run context that are kept and not looked at, as paths.
    pub fn unknown_fields(&self) -> Vec<String> {
        let context = self.run_context.as_ref();
        context.map_or_else(Vec::new, |context| context.unknown_fields("run_context"))
    }
}

impl ToJson for Work {
    fn to_json(&self) -> Value {
        Value::Object(self.row.clone())
    }
}

impl Serialize for Work {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        self.to_json().serialize(to)
    }
}

impl WorkChange {
    /// Whose row it is; none for a new one that brings no id.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Create(row) => row.get("id").and_then(Value::as_str),
            Self::Update(id, _) | Self::Delete(id) | Self::SetRunContext(id, _) => Some(id),
        }
    }

    /// What becomes of the row with this id; none where it goes.
    pub(crate) fn decide(
        &self,
        kind: WorkKind,
        id: &str,
        stored: Option<&Value>,
        style: PathStyle,
    ) -> Result<Option<Work>> {
        let what = kind.as_str();
        let mut row = match (self, stored) {
            (Self::Create(row), None) => object(row, what)?.clone(),
            (Self::Create(_), Some(_)) => {
                let text = format!("a {what} with the id `{id}` exists; choose another id");
                return Err(Error::new(ErrorCode::Conflict, text).with("id", id));
            }
            (Self::Delete(_), Some(_)) => return Ok(None),
            (_, None) => return Err(no_work(kind, id)),
            // What is damaged is repaired by what is given.
            (_, Some(stored)) => stored.as_object().cloned().unwrap_or_default(),
        };
        match self {
            Self::Update(_, given) => {
                for (column, value) in object(given, what)? {
                    row.insert(column.clone(), value.clone());
                }
            }
            Self::SetRunContext(_, context) => {
                row.insert("run_context".to_owned(), context.clone());
            }
            Self::Create(_) | Self::Delete(_) => {}
        }
        match optional(&row, "id").map(Value::as_str) {
            None => drop(row.insert("id".to_owned(), id.into())),
            Some(Some(given)) if given != id => {
                let problem = format!("must be that of the {what} that is changed, or absent");
                return Err(field_error(&join(what, "id"), &problem));
            }
            Some(_) => {}
        }
        let work = Work::read(kind, &Value::Object(row), what)?;
        work.check(kind, style)?;
        Ok(Some(work))
    }
}

/// There is nothing with this id.
pub(crate) fn no_work(kind: WorkKind, id: &str) -> Error {
    let what = kind.as_str();
    let text = format!("there is no {what} `{id}`; list what there is");
    Error::new(ErrorCode::NotFound, text).with(what, id)
}
