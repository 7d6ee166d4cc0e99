//! Asking a person: who waits for an answer, and who gives it. The counters of storage decide who was first.

use std::rc::Rc;

use super::{Decided, Runtime, Session, SessionEvent, Signal};
use crate::{
    ErrorCode, Result,
    message::MessageData,
    permissions::{Action, BypassScope},
    session::{Approval, ApprovalStatus, Machine, ToolCall, approval_not_found, check_seconds, rejection},
    storage::{Commit, CommitStatus},
    untyped::insert_sorted,
};

/// What a person says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call may run.
    Approve,
    /// It must not, and why.
    Reject(Option<String>),
}

/// What a person does not want to be asked about from now on.
#[derive(Clone, Debug, PartialEq)]
pub struct FurtherBypass {
    /// `all`, `category` or `mcp_server`, the last two those of the tool; none for the narrower of these that the tool has.
    pub scope: Option<String>,
    /// For how long; none for until the page or worker restarts.
    pub seconds: Option<f64>,
}

impl FurtherBypass {
    /// The scope; none where the tool has no such: then the answer is for this call alone.
    fn scope_for(&self, category: Option<String>, server: Option<String>) -> Option<BypassScope> {
        let (category, server) = (
            category.map(BypassScope::Category),
            server.map(BypassScope::McpServer),
        );
        match self.scope.as_deref() {
            Some("all") => Some(BypassScope::All),
            Some("category") => category,
            Some("mcp_server") => server,
            _ => server.or(category),
        }
    }
}

/// How asking ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalOutcome {
    /// It may run.
    Approved,
    /// It must not run.
    Rejected,
    /// The turn is over.
    Cancelled,
    /// The call, or where its paths lead, has changed: a person is asked again.
    Superseded,
}

impl ApprovalOutcome {
    /// The text form.
    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalOutcome::Approved => "approved",
            ApprovalOutcome::Rejected => "rejected",
            ApprovalOutcome::Cancelled => "cancelled",
            ApprovalOutcome::Superseded => "superseded",
        }
    }
}

/// How asking ended, and what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalResult {
    /// Which.
    pub request_id: String,
    /// How.
    pub outcome: ApprovalOutcome,
    /// What the person said.
    pub note: Option<String>,
    /// For the model, or for the person.
    pub message: Option<String>,
}

impl<M: MessageData + 'static> Session<M> {
    /// Reads the approvals anew, and tells what others did to them.
    pub(super) async fn read_approvals(&self) -> Result<()> {
        // Not while something is being saved: what is read is then older than what is known here.
        let one_at_a_time = self.turn_to_save().await;
        let stored = self.storage().approvals().await?;
        drop(one_at_a_time);
        let told = self.changes(|machine| machine.take_approvals(&stored));
        self.tell(told);
        Ok(())
    }

    /// Changes approvals in memory; says what there is to tell of it.
    pub(super) fn changes<T>(&self, change: impl FnOnce(&mut Machine<M>) -> T) -> Vec<SessionEvent<M>> {
        let before = self.machine().approvals().to_vec();
        change(&mut self.machine_mut());
        let machine = self.machine();
        let mut told = Vec::new();
        for was in before.iter().filter(|was| was.status == ApprovalStatus::Pending) {
            if let Some(result) = became(&machine, was) {
                told.push(SessionEvent::ApprovalAnswered { result });
            }
        }
        for new in machine.approvals() {
            if before.iter().all(|was| was.id != new.id) {
                let request_id = new.id.clone();
                told.push(SessionEvent::ApprovalAsked { request_id });
            }
        }
        told
    }

    /// Whoever waits looks again, and listeners hear what happened.
    pub(super) fn tell(&self, told: Vec<SessionEvent<M>>) {
        self.wake_waiters();
        for event in told {
            self.emit(&event);
        }
    }

    /// Commits a change of approvals alone, then shows it; false where somebody else was first, and what is stored has been
    /// read. Where the turn has ended meanwhile nothing comes back.
    async fn commit_approvals(&self, commit: Commit<M>, show: impl FnOnce(&mut Machine<M>)) -> Result<bool> {
        let one_at_a_time = self.turn_to_save().await;
        let status = self.storage().commit(Rc::new(commit)).await?;
        drop(one_at_a_time);
        let told = match status {
            CommitStatus::Applied(_) | CommitStatus::AlreadyApplied(_) => {
                self.tell_others();
                self.changes(show)
            }
            CommitStatus::Conflict(_) => {
                self.read_approvals().await?;
                return Ok(false);
            }
        };
        self.tell(told);
        Ok(true)
    }

    async fn move_on(
        &self,
        approval: &Approval<M>,
        to: ApprovalStatus,
        note: Option<String>,
        message: Option<String>,
    ) -> Result<bool> {
        let stamp = self.stamp();
        let (commit, next) = self.machine().moved_on(approval, to, note, message, &stamp);
        self.commit_approvals(commit, |machine| machine.approval_is(next))
            .await
    }

    /// Looks again at the rules, at where the paths lead and the call runs, and at the call. What stands is moved on. False where
    /// somebody else was first.
    async fn advance(&self, approval: &Approval<M>, to: ApprovalStatus) -> Result<bool> {
        match self.judge_again(approval).await? {
            Look::Stands(_) => self.move_on(approval, to, None, None).await,
            Look::Falls { was_first } => Ok(was_first),
        }
    }

    /// Looks again at an approval.
    async fn judge_again(&self, approval: &Approval<M>) -> Result<Look> {
        let decided = self.explain(&approval.call).await?;
        if decided.decision.outcome == Action::Deny {
            let (rejected, message) = (ApprovalStatus::Rejected, decided.decision.message);
            let was_first = self.move_on(approval, rejected, None, Some(message)).await?;
            return Ok(Look::Falls { was_first });
        }
        let digest = self.machine().digest(&approval.call);
        let directory = decided.directory();
        if approval.asks_about(&digest, &decided.decision.paths, &directory) {
            return Ok(Look::Stands(Box::new(decided)));
        }
        let (stamp, new_id) = (self.stamp(), self.runtime.parts.world.new_id());
        let (commit, new) = self
            .machine()
            .superseded(approval, &decided.decision, directory, new_id, &stamp);
        let new_id = new.id.clone();
        let asked_again = |machine: &mut Machine<M>| machine.asked_again(&approval.id, new);
        let was_first = self.commit_approvals(commit, asked_again).await?;
        if was_first && self.machine().approval(&new_id).is_none() {
            // The turn ended meanwhile, and knew nothing of this one.
            let stamp = self.stamp();
            self.machine_mut().end_approval(&new_id, &stamp);
            self.save_later().await;
        }
        Ok(Look::Falls { was_first })
    }

    /// A person's answer. Approving looks again at the rules, at where the paths lead, and at the call.
    ///
    /// # Errors
    /// `approval_not_found` where it was answered before; `invalid_argument` for a bypass of no time; those of the storage,
    /// and then nothing is answered.
    pub async fn answer(
        &self,
        id: &str,
        answer: Answer,
        bypass: Option<FurtherBypass>,
    ) -> Result<ApprovalResult> {
        self.machine().check_whole()?;
        check_seconds(bypass.as_ref().and_then(|bypass| bypass.seconds))?;
        // An approval that could not be saved yet is saved first.
        self.save().await?;
        self.read_approvals().await?;
        let not_found = || approval_not_found(id);
        let found = self.machine().approval(id).cloned();
        let pending = found.filter(|it| it.status == ApprovalStatus::Pending);
        let approval = pending.ok_or_else(not_found)?;
        let was_first = match answer {
            Answer::Reject(note) => {
                let message = rejection(note.as_deref());
                let rejected = ApprovalStatus::Rejected;
                self.move_on(&approval, rejected, note, Some(message)).await?
            }
            Answer::Approve => self.advance(&approval, ApprovalStatus::Approved).await?,
        };
        let result = became(&self.machine(), &approval).filter(|_| was_first);
        let result = result.ok_or_else(not_found)?;
        if let Some(bypass) = bypass.filter(|_| result.outcome == ApprovalOutcome::Approved)
            && let Some(scope) = bypass.scope_for(approval.category, approval.mcp_server)
        {
            self.bypass(scope, bypass.seconds)?;
        }
        Ok(result)
    }

    /// A call is allowed without an answer: a question about it that is still open has to end before it runs, in storage too,
    /// or a restart would take it for one that did not run. Says whether one has ended: that took a while.
    ///
    /// # Errors
    /// Those of the storage, and then the call must not run.
    pub(super) async fn end_question(&self, call: &ToolCall<M>) -> Result<bool> {
        let mut waited = false;
        loop {
            let open = self.machine().open_question(call).map(|it| it.id.clone());
            let Some(id) = open else { break };
            waited = true;
            self.save().await?;
            let stamp = self.stamp();
            let commit = self.machine().question_ends(&id, &stamp);
            let Some(commit) = commit else { break };
            self.commit_approvals(commit, |machine| machine.forget_approval(&id))
                .await?;
        }
        Ok(waited)
    }

    /// Waits for the answer about a call of the running turn. `Approved` means that the call is claimed, in storage too:
    /// it may run now, once. Before that the rules, the paths and the call are looked at again.
    ///
    /// # Errors
    /// `approval_not_found`; those of the storage, and then the call must not run.
    pub async fn approval(&self, turn: u64, id: &str, abort: &Signal) -> Result<ApprovalResult> {
        let claimed = abort.unless_fired(self.claim(turn, id, abort));
        // Who stops waits for no storage. What is claimed by then is not run, and ends with the turn.
        match self.turn_ends().unless_fired(claimed).await.flatten() {
            Some(claimed) => Ok(claimed?.0),
            None => Ok(result(id, ApprovalOutcome::Cancelled)),
        }
    }

    /// The same, with the decision that stands where the call may run.
    pub(super) async fn claim(
        &self,
        turn: u64,
        id: &str,
        abort: &Signal,
    ) -> Result<(ApprovalResult, Option<Decided>)> {
        let Some(asked) = self.machine().approval(id).cloned() else {
            return Err(approval_not_found(id));
        };
        let mut waited = 0_u32;
        loop {
            if abort.has_fired() || !self.is_turn(turn) {
                return Ok((result(id, ApprovalOutcome::Cancelled), None));
            }
            // Fires with the next answer; taken before looking, so that none is missed.
            let changed = self.next_answer();
            let approval = self.machine().approval(id).cloned();
            match approval.as_ref().map(|it| it.status) {
                Some(ApprovalStatus::Pending) => {
                    let a_while = changed.unless_fired(self.runtime.parts.world.a_while());
                    if let Some(Some(())) = abort.unless_fired(a_while).await {
                        // Somebody elsewhere may have answered. Where that cannot be read we wait on. A look may load the whole
                        // session, since no counter tells of approvals: who has waited for long looks less often.
                        waited = waited.saturating_add(1);
                        if waited.is_multiple_of((1 + waited / 20).min(10)) {
                            let _read = self.read_approvals().await;
                        }
                    }
                }
                Some(ApprovalStatus::Claimed) => return Err(approval_not_found(id)),
                Some(ApprovalStatus::Approved) => {
                    let Some(approval) = approval else { continue };
                    self.save().await?;
                    if !self.advance(&approval, ApprovalStatus::Claimed).await? {
                        continue;
                    }
                    let claimed = self.machine().approval(id).cloned();
                    let claimed = claimed.filter(|it| it.status == ApprovalStatus::Claimed);
                    let Some(claimed) = claimed else { continue };
                    // What was agreed to is what runs, also where something changed while the claim was saved.
                    if let Look::Stands(mut decided) = self.judge_again(&claimed).await?
                        && self.is_turn(turn)
                        && !abort.has_fired()
                    {
                        self.machine_mut().allow(&claimed.call, true);
                        decided.decision.request_id = Some(id.to_owned());
                        return Ok((result(id, ApprovalOutcome::Approved), Some(*decided)));
                    }
                }
                Some(ApprovalStatus::Rejected) | None => {
                    let result = became(&self.machine(), &asked);
                    let result = result.ok_or_else(|| approval_not_found(id))?;
                    return Ok((result, None));
                }
            }
        }
    }
}

/// What another look at an approval shows.
enum Look {
    /// The same: that is what may run.
    Stands(Box<Decided>),
    /// It is denied by now, and rejected; or something else is asked about in its place; unless somebody else was first.
    Falls { was_first: bool },
}

fn result(id: &str, outcome: ApprovalOutcome) -> ApprovalResult {
    ApprovalResult {
        request_id: id.to_owned(),
        outcome,
        note: None,
        message: None,
    }
}

/// What became of an approval; none while it waits.
fn became<M: MessageData>(machine: &Machine<M>, asked: &Approval<M>) -> Option<ApprovalResult> {
    let result = |outcome| result(&asked.id, outcome);
    let Some(now) = machine.approval(&asked.id) else {
        return Some(match machine.asked_instead(asked) {
            Some(again) => ApprovalResult {
                message: Some(format!(
                    "what was asked about has changed; answer `{}` instead",
                    again.id
                )),
                ..result(ApprovalOutcome::Superseded)
            },
            None => result(ApprovalOutcome::Cancelled),
        });
    };
    match now.status {
        ApprovalStatus::Pending => None,
        ApprovalStatus::Approved | ApprovalStatus::Claimed => Some(result(ApprovalOutcome::Approved)),
        ApprovalStatus::Rejected => Some(ApprovalResult {
            note: now.note.clone(),
            message: Some(now.message.clone()),
            ..result(ApprovalOutcome::Rejected)
        }),
    }
}

impl<M: MessageData + 'static> Runtime<M> {
    /// Approvals of every session that wait for an answer, with their sessions.
    ///
    /// # Errors
    /// `disposed`, and those of the storage.
    pub async fn pending_approvals(&self) -> Result<Vec<(String, Approval<M>)>> {
        self.check_open()?;
        let mut pending = Vec::new();
        for stored in self.parts.storage.approvals().await? {
            if let Some(approval) = Approval::read(&stored)
                && approval.status == ApprovalStatus::Pending
            {
                let oldest_first = |(_, a): &(String, Approval<M>), (_, b): &(String, Approval<M>)| {
                    a.created_at
                        .total_cmp(&b.created_at)
                        .then_with(|| a.id.cmp(&b.id))
                };
                insert_sorted(&mut pending, (stored.session_id, approval), &oldest_first);
            }
        }
        Ok(pending)
    }

    /// A person's answer about a call of any session.
    ///
    /// # Errors
    /// As [`Session::answer`].
    pub async fn answer(
        self: &Rc<Self>,
        id: &str,
        answer: Answer,
        bypass: Option<FurtherBypass>,
    ) -> Result<ApprovalResult> {
        self.check_open()?;
        // One that could not be saved yet is known here alone.
        let open = self.open_sessions();
        let knows = |session: &&Rc<Session<M>>| {
            let machine = session.machine();
            !machine.is_disposed() && machine.approval(id).is_some()
        };
        if let Some(session) = open.iter().find(knows) {
            return session.answer(id, answer, bypass).await;
        }
        let Some(asker) = self.parts.storage.asker(id).await? else {
            return Err(approval_not_found(id));
        };
        let session = match self.open_session(&asker).await {
            Err(error) if error.code() == ErrorCode::NotFound => return Err(approval_not_found(id)),
            opened => opened?,
        };
        let lasts = bypass.is_some();
        let result = session.answer(id, answer, bypass).await?;
        if lasts {
            // What a person does not want to be asked about is kept nowhere but in the session.
            self.bypassed.borrow_mut().push(session);
        }
        Ok(result)
    }
}
