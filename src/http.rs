//! The HTTP routes: which there are, what a request asks for, and how an answer looks. Nothing is read or done here.
//!
//! One table says everything: requests are matched by it, and `openapi` describes it.

#[cfg(not(target_family = "wasm"))]
pub mod openapi;

use serde_json::{Map, Value};

use crate::{
    Error, ErrorCode, Result,
    list::{joined, split_at_text},
    message::MessageView,
    session::{Texts, look},
    untyped::field_error,
};

/// No body is longer: 1 MiB.
pub const LONGEST_BODY: usize = 1024 * 1024;

/// What a request wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// What a session runs as.
    GetSessionRunContext,
    /// A session runs as something else, or as nothing.
    SetSessionRunContext,
    /// What sessions for a project run as.
    GetProjectRunContext,
    /// They run as something else, or a project says nothing about that.
    SetProjectRunContext,
    /// The same of a ticket.
    GetTicketRunContext,
    /// The same of a ticket.
    SetTicketRunContext,
    /// The same of a scheduled job.
    GetJobRunContext,
    /// The same of a scheduled job.
    SetJobRunContext,
    /// Every rule.
    ListRules,
    /// A new rule.
    AddRule,
    /// Members of a rule change.
    UpdateRule,
    /// A rule goes.
    DeleteRule,
    /// Every group.
    ListGroups,
    /// A new group.
    CreateGroup,
    /// A group has another name and description.
    UpdateGroup,
    /// A group goes with its rules.
    DeleteGroup,
    /// A new group with copies of another one's rules.
    DuplicateGroup,
    /// Every call that waits for a person.
    ListApprovals,
    /// A person's answer about a call.
    ResolveApproval,
}

/// What a body holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none, and none is read.
    Nothing,
    /// A whole run context, or null.
    RunContext,
    /// A rule without its id.
    NewRule,
    /// The members of a rule that change.
    RuleChange,
    /// A group.
    NewGroup,
    /// The name and the description of a group.
    GroupChange,
    /// `{ action, note?, bypass_secs?, bypass_scope? }`.
    Decision,
}

/// What is answered where all goes well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// A run context, or null.
    RunContext,
    /// Rules in the order in which they are looked at.
    Rules,
    /// One rule, as it is now.
    Rule,
    /// Groups by id.
    Groups,
    /// One group, as it is now.
    Group,
    /// Calls that wait, the oldest first.
    Approvals,
    /// How asking ended.
    Resolved,
    /// Nothing: what it was about is gone.
    Nothing,
}

/// One line of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Route {
    /// The method, in capitals.
    pub method: &'static str,
    /// The path. A part in braces stands for an id.
    pub path: &'static str,
    /// What it is for.
    pub operation: Operation,
    /// What that is called.
    pub name: &'static str,
    /// What comes in.
    pub body: Body,
    /// What goes out.
    pub given: Given,
    /// With which status.
    pub status: u16,
}

macro_rules! routes {
    ($($method:ident $path:literal $operation:ident $name:literal $body:ident -> $status:literal $given:ident;)*) => {
        /// Every route.
        pub const ROUTES: &[Route] = &[$(Route {
            method: stringify!($method),
            path: $path,
            operation: Operation::$operation,
            name: $name,
            body: Body::$body,
            given: Given::$given,
            status: $status,
        },)*];
    };
}

routes! {
    GET "/api/sessions/{id}/run_context" GetSessionRunContext "getSessionRunContext" Nothing -> 200 RunContext;
    POST "/api/sessions/{id}/run_context" SetSessionRunContext "setSessionRunContext" RunContext -> 200 RunContext;
    GET "/api/projects/{id}/run_context" GetProjectRunContext "getProjectRunContext" Nothing -> 200 RunContext;
    POST "/api/projects/{id}/run_context" SetProjectRunContext "setProjectRunContext" RunContext -> 200 RunContext;
    GET "/api/projects/{project_id}/tickets/{ticket_id}/run_context" GetTicketRunContext "getTicketRunContext" Nothing -> 200 RunContext;
    POST "/api/projects/{project_id}/tickets/{ticket_id}/run_context" SetTicketRunContext "setTicketRunContext" RunContext -> 200 RunContext;
    GET "/api/jobs/{id}/run_context" GetJobRunContext "getJobRunContext" Nothing -> 200 RunContext;
    POST "/api/jobs/{id}/run_context" SetJobRunContext "setJobRunContext" RunContext -> 200 RunContext;
    GET "/api/approval/rules" ListRules "listRules" Nothing -> 200 Rules;
    POST "/api/approval/rules" AddRule "addRule" NewRule -> 201 Rule;
    PUT "/api/approval/rules/{id}" UpdateRule "updateRule" RuleChange -> 200 Rule;
    DELETE "/api/approval/rules/{id}" DeleteRule "deleteRule" Nothing -> 204 Nothing;
    GET "/api/permission-groups" ListGroups "listGroups" Nothing -> 200 Groups;
    POST "/api/permission-groups" CreateGroup "createGroup" NewGroup -> 201 Group;
    PUT "/api/permission-groups/{id}" UpdateGroup "updateGroup" GroupChange -> 200 Group;
    DELETE "/api/permission-groups/{id}" DeleteGroup "deleteGroup" Nothing -> 204 Nothing;
    POST "/api/permission-groups/{id}/duplicate" DuplicateGroup "duplicateGroup" NewGroup -> 201 Group;
    GET "/api/inbox" ListApprovals "listApprovals" Nothing -> 200 Approvals;
    POST "/api/inbox/approvals/{request_id}/resolve" ResolveApproval "resolveApproval" Decision -> 200 Resolved;
}

impl Route {
    /// The ids of a path, where it is one of this route: what is in braces, and what stands there, as it came.
    fn ids<'a>(&self, path: &'a str) -> Option<Vec<(&'static str, &'a str)>> {
        let mut ids = Vec::new();
        let mut given = path.split('/');
        for part in self.path.split('/') {
            let segment = given.next()?;
            match part.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
                Some(name) if !segment.is_empty() => ids.push((name, segment)),
                _ if part == segment => {}
                _ => return None,
            }
        }
        given.next().is_none().then_some(ids)
    }
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    /// The route.
    pub route: &'static Route,
    /// The ids of the path, by their names, decoded.
    pub ids: Vec<(&'static str, String)>,
}

impl Asked {
    /// What a request asks for, by its method and its URL as it came: nothing of it is put in order before.
    ///
    /// # Errors
    /// An [`Answer`]: 404 for a path of no route, 405 for another method, 400 for an id that cannot be one.
    pub fn of(method: &str, url: &str) -> Result<Self, Answer> {
        let path = path_of(url);
        let mut allowed = Vec::new();
        for route in ROUTES {
            let Some(found) = route.ids(path) else { continue };
            if route.method != method {
                allowed.push(route.method);
                continue;
            }
            let mut ids = Vec::new();
            for (name, segment) in found {
                let decoded = decoded(segment).ok_or_else(|| {
                    let text =
                        format!("`{segment}` is no id; percent-encode the UTF-8 of one that has no slash");
                    Answer::from(Error::invalid(text).with("field", name))
                })?;
                ids.push((name, decoded));
            }
            return Ok(Self { route, ids });
        }
        if allowed.is_empty() {
            let text = "there is no such route; `openapi.json` of the package lists them";
            return Err(Error::new(ErrorCode::NotFound, text).into());
        }
        let allow = joined(&allowed, ", ");
        let text = format!("there is no such method here; use one of `{allow}`");
        Err(Answer {
            allow: Some(allow),
            ..Answer::refusing(405, &Error::invalid(text))
        })
    }

    /// The id of the last part of the path that is one.
    pub fn id(&self) -> &str {
        self.ids.last().map(|(_, id)| id.as_str()).unwrap_or_default()
    }

    /// Whether a body of this type can be read.
    ///
    /// # Errors
    /// An [`Answer`], 415.
    pub fn check_type(&self, content_type: Option<&str>) -> Result<(), Answer> {
        let told = content_type.unwrap_or_default().to_ascii_lowercase();
        let essence = told.split(';').next();
        let is_json = essence.is_some_and(|it| it.trim() == "application/json");
        let is_utf_8 = match split_at_text(&told, "charset=") {
            Some((_, charset)) => charset.starts_with("utf-8") || charset.starts_with("\"utf-8\""),
            None => true,
        };
        if is_json && is_utf_8 {
            return Ok(());
        }
        let text = "the body must be JSON in UTF-8; send it with the content type `application/json`";
        Err(Answer::refusing(415, &Error::invalid(text)))
    }

    /// The answer where all went well.
    pub fn answer(&self, body: Value) -> Answer {
        Answer {
            status: self.route.status,
            allow: None,
            body: (self.route.given != Given::Nothing).then_some(body),
        }
    }
}

/// The path of a URL, as it stands there.
fn path_of(url: &str) -> &str {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match split_at_text(url, "://") {
        Some((_, rest)) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/"),
        None => url,
    }
}

/// A part of a path without its percent signs. None where it is no id: where that is not UTF-8, holds a slash or what nobody sees,
/// or leads somewhere else by itself.
fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(match byte {
            b'%' => (digit()? << 4 | digit()?) as u8,
            _ => byte,
        });
    }
    let id = String::from_utf8(bytes).ok()?;
    let leads_away = |c: char| c.is_control() || c == '/' || c == '\\';
    (!id.contains(leads_away) && id != "." && id != "..").then_some(id)
}

/// Adds what came to a body.
///
/// # Errors
/// An [`Answer`], 413.
pub fn take(body: &mut Vec<u8>, part: &[u8]) -> Result<(), Answer> {
    if body.len() + part.len() > LONGEST_BODY {
        let text = "the body is longer than 1 MiB; send less";
        return Err(Answer::refusing(413, &Error::invalid(text)));
    }
    body.extend_from_slice(part);
    Ok(())
}

/// What a body says.
///
/// # Errors
/// `invalid_argument`.
pub fn read_body<M: MessageView>(body: Vec<u8>, texts: &Texts<M>) -> Result<Value> {
    let wrong = |problem: &str| field_error("body", problem);
    let text = String::from_utf8(body).map_err(|_| wrong("is not UTF-8; send it as UTF-8"))?;
    let number = |number: &str| (texts.read)(number, false).map(|(number, _)| number.number_text());
    let looked = look(&text, &number).map_err(|number| {
        let number = number.get(..64).unwrap_or(number);
        wrong(&format!(
            "holds the number `{number}`, which a double does not hold; write it as text"
        ))
    })?;
    let read = (texts.read)(&text, false).filter(|(value, _)| value.is_json());
    let (value, members) = read.ok_or_else(|| {
        wrong("is no JSON text, holds half of a surrogate pair, or is nested deeper than 128 levels")
    })?;
    // Who reads it another way would see the other one of two.
    if looked.members != members {
        return Err(wrong("names a member of an object twice; name it once"));
    }
    let value = (texts.value)(&value);
    match prototype_name(&value) {
        Some(name) => Err(wrong(&format!(
            "has a member `{name}`, which is a name of JavaScript's own; leave it out"
        ))),
        None => Ok(value),
    }
}

/// A name in it that leads to a prototype, for whoever is careless.
fn prototype_name(value: &Value) -> Option<&str> {
    for item in value.as_array().into_iter().flatten() {
        let found = prototype_name(item);
        if found.is_some() {
            return found;
        }
    }
    for (name, inner) in value.as_object().into_iter().flatten() {
        if matches!(name.as_str(), "__proto__" | "constructor" | "prototype") {
            return Some(name);
        }
        let found = prototype_name(inner);
        if found.is_some() {
            return found;
        }
    }
    None
}

/// What goes back.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The header `Allow`.
    pub allow: Option<String>,
    /// JSON; none for an answer without a body.
    pub body: Option<Value>,
}

impl Answer {
    /// `{ "error": { "code", "message", ... } }`.
    fn refusing(status: u16, error: &Error) -> Self {
        let mut members = error.data().clone();
        members.insert("code".to_owned(), Value::from(error.code().as_str()));
        members.insert("message".to_owned(), Value::from(error.message()));
        let mut body = Map::new();
        body.insert("error".to_owned(), Value::Object(members));
        Self {
            status,
            allow: None,
            body: Some(Value::Object(body)),
        }
    }

    /// Nobody said that this may be done.
    pub fn unauthorized() -> Self {
        let text = "nobody allows this; the host's `authorize` has to answer true";
        Error::new(ErrorCode::Unauthorized, text).into()
    }
}

impl From<Error> for Answer {
    fn from(error: Error) -> Self {
        Self::refusing(status_of(error.code()), &error)
    }
}

/// The status that says what a code says.
pub fn status_of(code: ErrorCode) -> u16 {
    use ErrorCode::{
        Aborted, ApprovalChanged, ApprovalNotFound, Conflict, Disposed, GroupInUse, GroupProtected,
        InvalidArgument, NotFound, PendingApprovals, PendingSave, RuleConflict, SessionBusy,
        SessionInterrupted, StorageBlocked, StorageFailed, StorageLost, StorageQuota, StorageSchemaNewer,
        Unauthorized,
    };
    match code {
        InvalidArgument => 400,
        Unauthorized => 403,
        NotFound | ApprovalNotFound => 404,
        // Nobody is there to read it.
        Aborted => 408,
        Conflict | RuleConflict | GroupInUse | GroupProtected | ApprovalChanged | SessionBusy
        | SessionInterrupted | PendingApprovals | PendingSave => 409,
        Disposed | StorageBlocked | StorageQuota | StorageLost | StorageSchemaNewer | StorageFailed => 503,
        _ => 500,
    }
}
