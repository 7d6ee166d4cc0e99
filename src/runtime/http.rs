//! The HTTP routes, carried out: each by what the runtime does for JavaScript too.

use std::rc::Rc;

use serde_json::Value;

use super::{Answer, FurtherBypass, Runtime};
use crate::{
    Error, ErrorCode, Result,
    http::{Asked, Body, Operation},
    list::Listed,
    message::MessageData,
    permissions::{DecidedPath, PermissionChange, RowChange},
    run_context::{RunContext, WorkChange, WorkKind},
    session::{Approval, StoredRunContext, Texts},
    untyped::{FromJson, Reader, ToJson, field_error, one_of, to_object},
};

impl<M: MessageData + 'static> Runtime<M> {
    /// Does what a request asks for, and gives what is answered.
    ///
    /// # Errors
    /// `invalid_argument` for a body that cannot be used, `not_found`, and those of what is done.
    pub async fn perform(self: &Rc<Self>, asked: &Asked, body: Value, texts: &Texts<M>) -> Result<Value> {
        self.check_open()?;
        let id = || asked.id().to_owned();
        let change = match asked.route.operation {
            Operation::GetSessionRunContext => return self.session_run_context(asked.id()).await,
            Operation::SetSessionRunContext => return self.set_session_run_context(asked.id(), &body).await,
            Operation::GetProjectRunContext | Operation::SetProjectRunContext => {
                return self.work_run_context(WorkKind::Project, asked, body).await;
            }
            Operation::GetTicketRunContext | Operation::SetTicketRunContext => {
                return self.work_run_context(WorkKind::Ticket, asked, body).await;
            }
            Operation::GetJobRunContext | Operation::SetJobRunContext => {
                return self.work_run_context(WorkKind::Job, asked, body).await;
            }
            Operation::ListRules => return Ok(self.permissions().list_rules(None).await?.to_json()),
            Operation::ListGroups => return Ok(self.permissions().list_groups().await?.to_json()),
            Operation::ListApprovals => {
                let pending = self.pending_approvals().await?;
                let pending = pending
                    .iter()
                    .map(|(session, it)| pending_json(session, it, texts));
                return Ok(Value::Array(pending.listed()));
            }
            Operation::ResolveApproval => {
                let (answer, bypass) = decision(&body)?;
                let result = self.answer(asked.id(), answer, bypass).await?;
                let outcome = result.outcome.as_str().to_owned();
                return Ok(to_object(&[
                    ("request_id", &result.request_id),
                    ("outcome", &outcome),
                    ("note", &result.note),
                    ("message", &result.message),
                ]));
            }
            Operation::AddRule => PermissionChange::AddRule(body),
            Operation::UpdateRule => PermissionChange::UpdateRule(rule_id(asked.id())?, body),
            Operation::DeleteRule => PermissionChange::DeleteRule(rule_id(asked.id())?),
            Operation::CreateGroup => PermissionChange::CreateGroup(body),
            Operation::UpdateGroup => PermissionChange::UpdateGroup(id(), body),
            Operation::DeleteGroup => PermissionChange::DeleteGroup(id()),
            Operation::DuplicateGroup => PermissionChange::DuplicateGroup(id(), body),
        };
        Ok(match self.permissions().write(&change).await? {
            Some(RowChange::PutRule(rule)) => rule.to_json(),
            Some(RowChange::PutGroup(group)) => group.to_json(),
            _ => Value::Null,
        })
    }

    /// One that is not open is opened, and let go of again.
    async fn session_run_context(self: &Rc<Self>, id: &str) -> Result<Value> {
        let session = self.open_session(id).await?;
        session.catch_up().await?;
        match &session.machine().header().run_context {
            StoredRunContext::Damaged(_) => {
                let text = "the run context of the session cannot be read; set another";
                Err(Error::new(ErrorCode::StorageFailed, text).with("id", id))
            }
            readable => Ok(readable.to_json()),
        }
    }

    /// Reads what sessions for a row run as, or sets it where a body came.
    async fn work_run_context(&self, kind: WorkKind, asked: &Asked, body: Value) -> Result<Value> {
        let id = asked.id();
        let project = match asked.ids.as_slice() {
            [(_, project), _] => Some(project.as_str()),
            _ => None,
        };
        let work = if asked.route.body == Body::Nothing {
            Some(self.read_work(kind, project, id).await?)
        } else {
            let change = WorkChange::SetRunContext(id.to_owned(), body);
            self.change_work(kind, project, &change).await?
        };
        Ok(work.and_then(|work| work.run_context).to_json())
    }

    async fn set_session_run_context(self: &Rc<Self>, id: &str, body: &Value) -> Result<Value> {
        let context: Option<RunContext> = FromJson::from_json(body, "runContext")?;
        let set = context.to_json();
        let session = self.open_session(id).await?;
        // What is set is compared with what is stored, and somebody else may have set it.
        session.catch_up().await?;
        session.set_run_context(context).await?;
        Ok(set)
    }
}

fn rule_id(text: &str) -> Result<i64> {
    let id = text.parse::<i64>().ok().filter(|id| id.to_string() == text);
    id.ok_or_else(|| {
        let error = Error::new(
            ErrorCode::NotFound,
            format!("there is no rule `{text}`; list them"),
        );
        error.with("rule", text)
    })
}

/// `{ action, note?, bypass_secs?, bypass_scope? }`.
fn decision(body: &Value) -> Result<(Answer, Option<FurtherBypass>)> {
    let mut given = Reader::new(body, "decision");
    given.no_others(&["action", "note", "bypass_secs", "bypass_scope"]);
    let note: Option<String> = given.read("note");
    let scope: Option<String> = given.read("bypass_scope");
    let seconds: Option<f64> = given.read("bypass_secs");
    let actions = [("approve", true), ("reject", false)];
    let action = given.get("action").unwrap_or(&Value::Null);
    let approves = given.taken(one_of(action, "decision.action", &actions));
    if let Some(scope) = given.optional("bypass_scope") {
        let scopes = ["all", "category", "mcp_server"].map(|scope| (scope, true));
        given.taken(one_of(scope, "decision.bypass_scope", &scopes));
    }
    let problem = match seconds {
        Some(seconds) if seconds < 0.0 => Some("must be a number of seconds, or 0 for until a restart"),
        Some(_) if !approves => Some("goes with `approve` alone"),
        None if scope.is_some() => Some("is needed beside `bypass_scope`"),
        _ => None,
    };
    if let Some(problem) = problem {
        given.taken::<()>(Err(field_error("decision.bypass_secs", problem)));
    }
    given.finish((
        if approves {
            Answer::Approve
        } else {
            Answer::Reject(note)
        },
        seconds.map(|seconds| FurtherBypass {
            scope,
            seconds: (seconds > 0.0).then_some(seconds),
        }),
    ))
}

/// What JavaScript is shown of one, under the names of stored rows.
fn pending_json<M: MessageData>(session: &str, approval: &Approval<M>, texts: &Texts<M>) -> Value {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let path = |path: &DecidedPath| {
        to_object(&[
            ("argument", &path.argument),
            ("access", &path.access.as_str().to_owned()),
            ("requested", &path.requested),
            ("lexical", &path.lexical),
            ("canonical", &path.canonical),
            ("unresolved", &path.unresolved),
        ])
    };
    to_object(&[
        ("request_id", &approval.id),
        ("session_id", &session.to_owned()),
        ("tool_call_id", &approval.call.id),
        ("tool_name", &approval.call.name),
        ("arguments", &(texts.value)(&approval.call.arguments)),
        ("agent_id", &text(&approval.agent_id)),
        ("source", &text(&approval.source)),
        ("context_label", &approval.label),
        ("created_at", &(texts.iso)(approval.created_at)),
        ("tool_category", &approval.category),
        ("mcp_server", &approval.mcp_server),
        ("paths", &Value::Array(approval.paths.iter().map(path).listed())),
        ("working_directory", &approval.directory),
        ("reason", &approval.reason),
        ("message", &approval.message),
        ("status", &approval.status.as_str().to_owned()),
    ])
}
