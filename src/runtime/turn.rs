//! A turn that a host with its own loop drives.

use std::{fmt, rc::Rc};

use super::{ApprovalResult, Decided, Session, Signal, TurnReport};
use crate::{
    Error, ErrorCode, Result,
    message::MessageData,
    session::{Incoming, ModelRequest, Outcome, RequestReport, ToolCall},
    storage::LocalFuture,
};

/// One turn of a session. After it has ended, every method fails.
pub struct Turn<M> {
    session: Rc<Session<M>>,
    number: u64,
}

impl<M> Clone for Turn<M> {
    fn clone(&self) -> Self {
        Self {
            session: self.session.clone(),
            number: self.number,
        }
    }
}

impl<M> fmt::Debug for Turn<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl<M: MessageData + 'static> Turn<M> {
    pub(super) fn new(session: &Rc<Session<M>>, number: u64) -> Self {
        Self {
            session: session.clone(),
            number,
        }
    }

    fn is_current(&self) -> bool {
        self.session.is_turn(self.number)
    }

    /// What to send to the model now.
    ///
    /// # Errors
    /// `invalid_argument` while calls are open, or after the turn has ended; `budget_exceeded`. The turn stays as it is.
    pub fn request(&self) -> Result<(ModelRequest<M>, RequestReport)> {
        self.session.request(self.number)
    }

    /// The request is on its way: the first time, the user message, snapshots and checkpoint are kept and saved.
    /// Does not fail for a write that fails; that is pending, and reported by [`Turn::finish`].
    ///
    /// # Errors
    /// `invalid_argument` before [`Turn::request`], or after the turn has ended.
    pub async fn dispatched(&self) -> Result<()> {
        self.session.dispatch(self.number).await
    }

    /// Keeps assistant messages and results of open calls, in order, in one commit.
    ///
    /// # Errors
    /// `invalid_argument` for other messages, `tool_not_gated` for a result of a call that was not allowed.
    pub async fn append(&self, messages: Vec<Incoming<M>>) -> Result<()> {
        self.session.append(self.number, messages).await
    }

    /// Decides an open call.
    ///
    /// # Errors
    /// As [`Session::gate`]; also after the turn has ended; `aborted` where it ends before the host has answered.
    pub async fn gate(&self, call: &ToolCall<M>) -> Result<Decided> {
        self.session.check_turn(self.number)?;
        let ends = self.session.turn_ends();
        let decided: LocalFuture<'_, _> = Box::pin(self.session.gate(call));
        let decided = ends.unless_fired(decided).await;
        // The host may have answered in the moment in which the turn ended.
        match decided.filter(|_| !ends.has_fired()) {
            Some(decided) => decided,
            None => Err(Error::new(
                ErrorCode::Aborted,
                "the turn has ended before its call was decided; begin a new one",
            )),
        }
    }

    /// Waits for a person's answer about a call. `Approved`: the call is claimed and may run now, once.
    ///
    /// # Errors
    /// `approval_not_found`; those of the storage, and then the call must not run.
    pub async fn approval(&self, request_id: &str, abort: &Signal) -> Result<ApprovalResult> {
        self.session.check_turn(self.number)?;
        self.session.approval(self.number, request_id, abort).await
    }

    /// Calls that have no result yet.
    pub fn open_calls(&self) -> Vec<ToolCall<M>> {
        if self.is_current() {
            self.session.machine().open_tool_calls()
        } else {
            Vec::new()
        }
    }

    /// Whether the turn was dispatched, so that what arrives for it is kept.
    pub fn is_dispatched(&self) -> bool {
        self.is_current() && self.session.machine().is_dispatched()
    }

    /// Ends the turn.
    ///
    /// # Errors
    /// `invalid_argument` before it was dispatched, unless it is cancelled, or after the turn has ended.
    pub async fn finish(&self, outcome: Outcome, error: Option<String>) -> Result<TurnReport> {
        self.session.settle(self.number, outcome, error).await
    }

    /// Ends the turn as cancelled.
    ///
    /// # Errors
    /// `invalid_argument` after the turn has ended.
    pub async fn cancel(&self) -> Result<TurnReport> {
        self.finish(Outcome::Cancelled, None).await
    }

    /// Cancels as soon as nobody else runs, and saves that in the background.
    pub(super) fn cancel_in_background(&self) {
        if !self.is_current() {
            return;
        }
        let turn = self.clone();
        self.session.runtime.parts.world.spawn(Box::pin(async move {
            // It may have ended in the meantime; then there is nothing to cancel.
            let _ended = turn.cancel().await;
        }));
    }
}
