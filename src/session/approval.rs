//! Approvals of a session: calls that a person is asked about. `pending -> approved -> claimed`, or `rejected`; then the
//! result is stored and the approval ends. Each ends once, and what is claimed is stored before the tool starts.

use super::{Machine, Stamp, ToolCall, gate::Answered};
use crate::{
    Error, ErrorCode,
    list::{Listed, positions_in_order},
    message::MessageData,
    permissions::{DecidedPath, Decision, PathAccess, ToolPolicy, call_digest},
    storage::{ApprovalChange, Commit, Damage, StoredApproval, keys},
};

/// Where an approval stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalStatus {
    /// A person is asked.
    Pending,
    /// A person agreed; nobody has begun to run the call.
    Approved,
    /// A person, or a rule that came in between, refused.
    Rejected,
    /// The call runs, or ran.
    Claimed,
}

const STATUSES: [(&str, ApprovalStatus); 4] = [
    ("pending", ApprovalStatus::Pending),
    ("approved", ApprovalStatus::Approved),
    ("rejected", ApprovalStatus::Rejected),
    ("claimed", ApprovalStatus::Claimed),
];

impl ApprovalStatus {
    /// The text form.
    pub fn as_str(self) -> &'static str {
        let [pending, approved, rejected, claimed] = STATUSES.map(|(name, _)| name);
        match self {
            ApprovalStatus::Pending => pending,
            ApprovalStatus::Approved => approved,
            ApprovalStatus::Rejected => rejected,
            ApprovalStatus::Claimed => claimed,
        }
    }
}

/// One call that a person is asked about.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval<M> {
    /// Its id.
    pub id: String,
    /// The call.
    pub call: ToolCall<M>,
    /// What the answer is bound to.
    pub digest: String,
    /// Milliseconds since the epoch.
    pub created_at: f64,
    /// The tool's category.
    pub category: Option<String>,
    /// The tool's MCP server.
    pub mcp_server: Option<String>,
    /// Whose session it is.
    pub agent_id: Option<String>,
    /// Where the session comes from.
    pub source: Option<String>,
    /// What the session is called, or what it is for.
    pub label: Option<String>,
    /// The paths, as they were resolved.
    pub paths: Vec<DecidedPath>,
    /// Where the call runs, as it was resolved.
    pub directory: String,
    /// Why a person is asked, as a code.
    pub reason: String,
    /// Why a person is asked; for one that was rejected, what the model is told.
    pub message: String,
    /// Where it stands.
    pub status: ApprovalStatus,
    /// What the person said.
    pub note: Option<String>,
    /// Its version in storage; 0 as long as it is not there.
    pub version: u64,
}

/// An object of the members that are there.
fn object<M: MessageData>(members: Vec<(&str, Option<M>)>) -> M {
    let there = members
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    M::object(there.listed())
}

fn text<M: MessageData>(text: &Option<String>) -> Option<M> {
    text.as_ref().map(|text| M::string(text))
}

impl<M: MessageData> Approval<M> {
    /// As it is stored.
    fn body(&self) -> M {
        let text_of = |text: &str| Some(M::string(text));
        let path = |path: &DecidedPath| {
            object(vec![
                ("argument", text_of(&path.argument)),
                ("access", text_of(path.access.as_str())),
                ("requested", text_of(&path.requested)),
                ("lexical", text_of(&path.lexical)),
                ("canonical", text(&path.canonical)),
                ("unresolved", text(&path.unresolved)),
            ])
        };
        object(vec![
            ("toolCallId", text_of(&self.call.id)),
            ("toolName", text_of(&self.call.name)),
            ("arguments", Some(self.call.arguments.clone())),
            ("digest", text_of(&self.digest)),
            ("createdAt", Some(M::from_number(self.created_at))),
            ("toolCategory", text(&self.category)),
            ("mcpServer", text(&self.mcp_server)),
            ("agentId", text(&self.agent_id)),
            ("source", text(&self.source)),
            ("contextLabel", text(&self.label)),
            ("paths", Some(M::list(self.paths.iter().map(path).listed()))),
            ("workingDirectory", text_of(&self.directory)),
            ("reason", text_of(&self.reason)),
            ("message", text_of(&self.message)),
            ("status", text_of(self.status.as_str())),
            ("note", text(&self.note)),
        ])
    }

    /// Reads a stored one; none where it makes no sense.
    pub fn read(stored: &StoredApproval<M>) -> Option<Self> {
        let body = &stored.body;
        let status = body.field_text("status")?;
        let path = |path: M| {
            Some(DecidedPath {
                argument: path.field_text("argument")?,
                access: PathAccess::from_text(&path.field_text("access")?)?,
                requested: path.field_text("requested")?,
                lexical: path.field_text("lexical")?,
                canonical: path.field_text("canonical"),
                unresolved: path.field_text("unresolved"),
            })
        };
        let mut paths = Vec::new();
        for item in body.field("paths")?.items() {
            paths.push(path(item)?);
        }
        Some(Self {
            id: stored.id.clone(),
            call: ToolCall {
                id: body.field_text("toolCallId")?,
                name: body.field_text("toolName")?,
                arguments: body.field("arguments")?,
            },
            digest: body.field_text("digest")?,
            created_at: body.field("createdAt")?.number()?,
            category: body.field_text("toolCategory"),
            mcp_server: body.field_text("mcpServer"),
            agent_id: body.field_text("agentId"),
            source: body.field_text("source"),
            label: body.field_text("contextLabel"),
            paths,
            directory: body.field_text("workingDirectory").unwrap_or_default(),
            reason: body.field_text("reason")?,
            message: body.field_text("message")?,
            status: STATUSES
                .iter()
                .find(|(name, _)| *name == status)
                .map(|(_, it)| *it)?,
            note: body.field_text("note"),
            version: stored.version,
        })
    }

    /// Whether an answer is one about this: the same call, on the same files, in the same directory.
    pub fn asks_about(&self, digest: &str, paths: &[DecidedPath], directory: &str) -> bool {
        self.digest == digest && self.paths == paths && self.directory == directory
    }

    /// Whether it is over now that a call has its result.
    pub(super) fn is_over(&self, answered: &Answered) -> bool {
        let claimed = self.status == ApprovalStatus::Claimed;
        answered.ends(&self.call.id, &self.digest, claimed)
    }

    fn change(&self, expected: Option<u64>) -> ApprovalChange<M> {
        ApprovalChange {
            id: self.id.clone(),
            expected,
            body: Some(self.body()),
        }
    }

    fn end(&self, expected: Option<u64>) -> ApprovalChange<M> {
        ApprovalChange {
            id: self.id.clone(),
            expected,
            body: None,
        }
    }
}

/// What the model is told of a call that a person refused.
pub fn rejection(note: Option<&str>) -> String {
    match note.map(str::trim).filter(|note| !note.is_empty()) {
        Some(note) => format!("User rejected this tool call. Reason: {note}"),
        None => "User rejected this tool call.".to_owned(),
    }
}

/// No such approval, or one that was answered before.
pub fn approval_not_found(id: &str) -> Error {
    let text = format!("there is no approval `{id}` that waits; it was answered, or its call is over");
    Error::new(ErrorCode::ApprovalNotFound, text).with("requestId", id)
}

impl<M: MessageData> Machine<M> {
    /// Approvals that have not ended, oldest first.
    pub fn approvals(&self) -> &[Approval<M>] {
        &self.gate_view().approvals
    }

    /// One of them.
    pub fn approval(&self, id: &str) -> Option<&Approval<M>> {
        self.approvals().iter().find(|approval| approval.id == id)
    }

    /// Takes what is stored. What waits to be saved stays. One that cannot be read is damage: it is nobody's answer.
    pub fn take_approvals(&mut self, stored: &[StoredApproval<M>]) {
        let mut approvals = Vec::new();
        for stored in stored {
            match Approval::read(stored) {
                Some(approval) => approvals.push(approval),
                None => {
                    let text = format!("the approval `{}` is not as it was stored", stored.id);
                    self.is_damaged(Damage::new(keys::APPROVALS, None, text));
                }
            }
        }
        for own in &self.gate_view().approvals {
            if own.version == 0 && approvals.iter().all(|other| other.id != own.id) {
                approvals.push(own.clone());
            }
        }
        // One that was ended here, and waits to be saved, has ended.
        let ended = |id: &str| {
            let mut changes = self.queue().flat_map(|commit| &commit.approvals);
            changes.any(|change| change.id == id && change.body.is_none())
        };
        approvals.retain(|approval| !ended(&approval.id));
        let created = |at: usize| approvals.get(at).map_or(0.0, |it| it.created_at);
        let order = positions_in_order(approvals.len(), &|a, b| created(a).total_cmp(&created(b)));
        let ordered = order.into_iter().filter_map(|at| approvals.get(at).cloned());
        self.gate_state().approvals = ordered.listed();
    }

    /// What an answer about a call is bound to.
    pub fn digest(&self, call: &ToolCall<M>) -> String {
        let none = ToolPolicy::default();
        let tool = self.tool(&call.name);
        let policy = tool.map_or(&none, |tool| &tool.policy);
        let definition = tool.map_or("", |tool| &tool.digest);
        let server = policy.mcp_server.as_deref();
        call_digest(&call.name, server, definition, &call.arguments, &policy.advisory)
    }

    /// A person has to be asked about a call of the running turn. Asking again for the same call gives the same approval;
    /// for one that has changed, the earlier one ends.
    pub fn ask(
        &mut self,
        call: &ToolCall<M>,
        decision: &Decision,
        directory: String,
        id: String,
        stamp: &Stamp,
    ) -> String {
        let new = self.new_approval(call, decision, directory, id, stamp);
        let earlier = self.question(call).cloned();
        let mut commit = self.empty_commit(stamp);
        if let Some(earlier) = earlier {
            let same = earlier.asks_about(&new.digest, &new.paths, &new.directory);
            // A call that was claimed may run already: nothing is asked about it any more.
            if same || earlier.status == ApprovalStatus::Claimed {
                return earlier.id;
            }
            commit.approvals.push(earlier.end(None));
            self.forget_approval(&earlier.id);
        }
        let id = new.id.clone();
        commit.approvals.push(new.change(Some(0)));
        self.gate_state().approvals.push(new);
        self.queue_commit(commit, Vec::new());
        id
    }

    /// What was asked about a call. Where calls share an id, each has its own.
    pub(super) fn question(&self, call: &ToolCall<M>) -> Option<&Approval<M>> {
        let open = self.open_tool_calls();
        let shared = open.iter().filter(|other| other.id == call.id).count() > 1;
        let digest = self.digest(call);
        let mut approvals = self.approvals().iter();
        approvals.find(|it| it.call.id == call.id && (!shared || it.digest == digest))
    }

    /// The same, as long as nobody has begun to run the call.
    pub fn open_question(&self, call: &ToolCall<M>) -> Option<&Approval<M>> {
        self.question(call)
            .filter(|it| it.status != ApprovalStatus::Claimed)
    }

    /// What a person is asked in the place of an approval that has ended; none where the call is over.
    pub fn asked_instead(&self, ended: &Approval<M>) -> Option<&Approval<M>> {
        let calls = self.last_calls().iter();
        let shared = calls.filter(|call| call.id == ended.call.id).count() > 1;
        let mut approvals = self.approvals().iter();
        // Where calls share an id, what is asked about the other one is another question.
        approvals.find(|it| it.call.id == ended.call.id && (!shared || it.digest == ended.digest))
    }

    fn new_approval(
        &self,
        call: &ToolCall<M>,
        decision: &Decision,
        directory: String,
        id: String,
        stamp: &Stamp,
    ) -> Approval<M> {
        let policy = self
            .tool(&call.name)
            .map(|tool| tool.policy.clone())
            .unwrap_or_default();
        let header = self.header();
        Approval {
            id,
            digest: self.digest(call),
            call: call.clone(),
            created_at: stamp.now,
            category: policy.category,
            mcp_server: policy.mcp_server,
            agent_id: header.agent_id.clone(),
            source: header.source.clone(),
            label: header.title.clone().or_else(|| header.context_label.clone()),
            paths: decision.paths.clone(),
            directory,
            reason: decision.reason.as_str().to_owned(),
            message: decision.message.clone(),
            status: ApprovalStatus::Pending,
            note: None,
            version: 0,
        }
    }

    /// The commit that moves an approval on, and what it becomes. It builds on exactly what is known here.
    pub fn moved_on(
        &self,
        approval: &Approval<M>,
        status: ApprovalStatus,
        note: Option<String>,
        message: Option<String>,
        stamp: &Stamp,
    ) -> (Commit<M>, Approval<M>) {
        let mut next = approval.clone();
        next.status = status;
        next.note = note.or(next.note);
        next.message = message.unwrap_or(next.message);
        let mut commit = self.empty_commit(stamp);
        commit.approvals.push(next.change(Some(approval.version)));
        next.version += 1;
        (commit, next)
    }

    /// The commit in which a call that has changed is asked about again, and the new approval.
    pub fn superseded(
        &self,
        approval: &Approval<M>,
        decision: &Decision,
        directory: String,
        id: String,
        stamp: &Stamp,
    ) -> (Commit<M>, Approval<M>) {
        let mut new = self.new_approval(&approval.call, decision, directory, id, stamp);
        let mut commit = self.empty_commit(stamp);
        commit.approvals.push(approval.end(Some(approval.version)));
        commit.approvals.push(new.change(Some(0)));
        new.version = 1;
        (commit, new)
    }

    /// An approval is stored like this now. One that has ended here meanwhile does not come back.
    pub fn approval_is(&mut self, approval: Approval<M>) {
        let mut approvals = self.gate_state().approvals.iter_mut();
        if let Some(held) = approvals.find(|other| other.id == approval.id) {
            *held = approval;
        }
    }

    /// An approval was stored in the place of an earlier one, unless that has ended here meanwhile.
    pub fn asked_again(&mut self, earlier: &str, new: Approval<M>) {
        let mut approvals = self.gate_state().approvals.iter_mut();
        if let Some(held) = approvals.find(|other| other.id == earlier) {
            *held = new;
        }
    }

    /// The commit in which an approval ends, as it is known here; none where it has ended.
    pub fn question_ends(&self, id: &str, stamp: &Stamp) -> Option<Commit<M>> {
        let approval = self.approval(id)?;
        let mut commit = self.empty_commit(stamp);
        commit.approvals.push(approval.end(Some(approval.version)));
        Some(commit)
    }

    /// Queues the end of an approval that is stored and not known here.
    pub fn end_approval(&mut self, id: &str, stamp: &Stamp) {
        let commit = self.ends(&[id.to_owned()], stamp);
        self.queue_commit(commit, Vec::new());
    }

    /// Approvals whose turn is over: somebody else made them as it ended. `stored` was read before the session was, so that
    /// they are of no later turn. The commit in which they end.
    pub fn left_over(&self, stored: &[StoredApproval<M>], operation_id: String) -> Option<Commit<M>> {
        if stored.is_empty() || self.header().open_turn.is_some() {
            return None;
        }
        let ids = stored.iter().map(|approval| approval.id.clone()).listed();
        let stamp = Stamp {
            now: self.updated_at(),
            operation_id,
        };
        Some(self.ends(&ids, &stamp))
    }

    fn ends(&self, ids: &[String], stamp: &Stamp) -> Commit<M> {
        let mut commit = self.empty_commit(stamp);
        let end = |id: &String| ApprovalChange {
            id: id.clone(),
            expected: None,
            body: None,
        };
        commit.approvals = ids.iter().map(end).listed();
        commit
    }

    /// An approval is stored no longer.
    pub fn forget_approval(&mut self, id: &str) {
        self.gate_state().approvals.retain(|approval| approval.id != id);
    }

    /// Ends these approvals; where the turn is over, all.
    pub(super) fn end_approvals(&mut self, ended: &[String], over: bool) -> Vec<ApprovalChange<M>> {
        let ends = |approval: &Approval<M>| over || ended.contains(&approval.id);
        let approvals = &mut self.gate_state().approvals;
        let ended = approvals.iter().filter(|approval| ends(approval));
        let changes = ended.map(|approval| approval.end(None)).listed();
        approvals.retain(|approval| !ends(approval));
        changes
    }

    /// Those that wait for a person, or were approved and not begun.
    pub fn waiting_approvals(&self) -> impl Iterator<Item = &Approval<M>> {
        let waits = |approval: &&Approval<M>| {
            matches!(
                approval.status,
                ApprovalStatus::Pending | ApprovalStatus::Approved
            )
        };
        self.approvals().iter().filter(waits)
    }

    /// A commit that was saved brought approvals to storage.
    pub(super) fn approvals_saved(&mut self, commit: &Commit<M>) {
        for change in &commit.approvals {
            let approvals = &mut self.gate_state().approvals;
            if let Some(held) = approvals.iter_mut().find(|other| other.id == change.id) {
                // Somebody may have read it from there before we heard that it is saved.
                held.version = held.version.max(1);
            }
        }
    }
}
