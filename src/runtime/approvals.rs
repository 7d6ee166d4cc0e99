//! Asking a person: who waits for an answer, and who gives it. The counters of storage decide who was first.

use std::rc::Rc;

use super::{Runtime, Session, SessionEvent, Signal, driver::cancelled_result};
use crate::{
    Result,
    message::MessageData,
    permissions::{Action, BypassScope},
    session::{Approval, ApprovalStatus, approval_not_found, rejection},
    storage::{Commit, CommitStatus},
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
    /// `all`, `category` or `mcp_server`: the last two are those of the tool.
    pub scope: String,
    /// For how long; none for until the page or worker restarts.
    pub seconds: Option<f64>,
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
    /// Reads the approvals anew.
    pub(super) async fn read_approvals(&self) -> Result<()> {
        let stored = self.storage().approvals().await?;
        self.machine_mut().take_approvals(&stored);
        Ok(())
    }

    /// Commits a change of approvals alone; false where somebody else was first, and what is stored has been read.
    async fn commit_approvals(&self, commit: Commit<M>) -> Result<bool> {
        match self.storage().commit(Rc::new(commit)).await? {
            CommitStatus::Applied(_) | CommitStatus::AlreadyApplied(_) => Ok(true),
            CommitStatus::Conflict(_) => {
                self.read_approvals().await?;
                Ok(false)
            }
        }
    }

    fn pending(&self, id: &str) -> Result<Approval<M>> {
        let machine = self.machine();
        let found = machine
            .approval(id)
            .filter(|it| it.status == ApprovalStatus::Pending);
        found.cloned().ok_or_else(|| approval_not_found(id))
    }

    /// A person's answer. Approving looks again at the rules, at where the paths lead, and at the call.
    ///
    /// # Errors
    /// `approval_not_found` where it was answered before; those of the storage, and then nothing is answered.
    pub async fn answer(
        &self,
        id: &str,
        answer: Answer,
        bypass: Option<FurtherBypass>,
    ) -> Result<ApprovalResult> {
        self.machine().check_live()?;
        // An approval that could not be saved yet is saved first.
        self.save().await?;
        self.read_approvals().await?;
        let approval = self.pending(id)?;
        let result = |outcome, note: Option<String>, message: Option<String>| ApprovalResult {
            request_id: id.to_owned(),
            outcome,
            note,
            message,
        };
        let (status, result) = match answer {
            Answer::Reject(note) => {
                let message = rejection(note.as_deref());
                (
                    ApprovalStatus::Rejected,
                    result(ApprovalOutcome::Rejected, note, Some(message)),
                )
            }
            Answer::Approve => {
                let decision = self.explain(&approval.call).await?.decision;
                let digest = self.machine().digest(&approval.call);
                if decision.outcome == Action::Deny {
                    (
                        ApprovalStatus::Rejected,
                        result(ApprovalOutcome::Rejected, None, Some(decision.message)),
                    )
                } else if digest != approval.digest || decision.paths != approval.paths {
                    let stamp = self.stamp();
                    let new_id = self.runtime.parts.world.new_id();
                    let (commit, new) = self.machine().superseded(&approval, &decision, new_id, &stamp);
                    if !self.commit_approvals(commit).await? {
                        return Err(approval_not_found(id));
                    }
                    self.machine_mut().forget_approval(id);
                    let message = format!("what was asked about has changed; answer `{}` instead", new.id);
                    self.machine_mut().approval_is(new);
                    let result = result(ApprovalOutcome::Superseded, None, Some(message));
                    self.answered(&result);
                    return Ok(result);
                } else {
                    (
                        ApprovalStatus::Approved,
                        result(ApprovalOutcome::Approved, None, None),
                    )
                }
            }
        };
        let stamp = self.stamp();
        let (note, message) = (result.note.clone(), result.message.clone());
        let (commit, next) = self.machine().moved_on(&approval, status, note, message, &stamp);
        if !self.commit_approvals(commit).await? {
            return Err(approval_not_found(id));
        }
        self.machine_mut().approval_is(next);
        if let Some(bypass) = bypass.filter(|_| result.outcome == ApprovalOutcome::Approved) {
            let scope = match (bypass.scope.as_str(), approval.category, approval.mcp_server) {
                ("category", Some(category), _) => Some(BypassScope::Category(category)),
                ("mcp_server", _, Some(server)) => Some(BypassScope::McpServer(server)),
                ("all", ..) => Some(BypassScope::All),
                // A tool without a category or a server has no such scope: the answer is for this call alone.
                _ => None,
            };
            if let Some(scope) = scope {
                self.bypass(scope, bypass.seconds)?;
            }
        }
        self.answered(&result);
        Ok(result)
    }

    fn answered(&self, result: &ApprovalResult) {
        self.wake_waiters();
        self.emit(&SessionEvent::ApprovalAnswered {
            result: result.clone(),
        });
    }

    /// Waits for the answer about a call of the running turn. `Approved` means that the call is claimed, in storage too:
    /// it may run now, once.
    ///
    /// # Errors
    /// `approval_not_found`; those of the storage, and then the call must not run.
    pub async fn approval(&self, turn: u64, id: &str, abort: &Signal) -> Result<ApprovalResult> {
        let result = |outcome, note, message| ApprovalResult {
            request_id: id.to_owned(),
            outcome,
            note,
            message,
        };
        let Some(first) = self.machine().approval(id).cloned() else {
            return Err(approval_not_found(id));
        };
        loop {
            if abort.has_fired() || !self.is_turn(turn) {
                return Ok(cancelled_result(id));
            }
            // Fires with the next answer; taken before looking, so that none is missed.
            let changed = self.next_answer();
            let approval = self.machine().approval(id).cloned();
            match approval {
                None => {
                    let again = self
                        .machine()
                        .approvals()
                        .iter()
                        .any(|other| other.call.id == first.call.id);
                    return Ok(match again {
                        true => result(ApprovalOutcome::Superseded, None, None),
                        false => cancelled_result(id),
                    });
                }
                Some(approval) => match approval.status {
                    ApprovalStatus::Pending => {
                        let _answered = abort.unless_fired(changed.fired()).await;
                    }
                    ApprovalStatus::Rejected => {
                        return Ok(result(
                            ApprovalOutcome::Rejected,
                            approval.note,
                            Some(approval.message),
                        ));
                    }
                    ApprovalStatus::Claimed => return Err(approval_not_found(id)),
                    ApprovalStatus::Approved => {
                        self.save().await?;
                        let stamp = self.stamp();
                        let (commit, next) =
                            self.machine()
                                .moved_on(&approval, ApprovalStatus::Claimed, None, None, &stamp);
                        if self.commit_approvals(commit).await? {
                            self.machine_mut().approval_is(next);
                            if !self.is_turn(turn) {
                                return Ok(cancelled_result(id));
                            }
                            self.machine_mut().allow(&approval.call.id, &approval.call.name);
                            return Ok(result(ApprovalOutcome::Approved, approval.note, None));
                        }
                    }
                },
            }
        }
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
                pending.push((stored.session_id, approval));
            }
        }
        pending.sort_by(|(_, a), (_, b)| {
            a.created_at
                .total_cmp(&b.created_at)
                .then_with(|| a.id.cmp(&b.id))
        });
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
        if let Some(session) = open
            .iter()
            .find(|session| session.machine().approval(id).is_some())
        {
            return session.answer(id, answer, bypass).await;
        }
        let stored = self.parts.storage.approvals().await?;
        let Some(found) = stored.iter().find(|approval| approval.id == id) else {
            return Err(approval_not_found(id));
        };
        let session = self.open_session(&found.session_id).await?;
        session.answer(id, answer, bypass).await
    }
}
