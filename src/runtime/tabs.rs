//! Other tabs and workers on the same storage: who runs a turn, and what they say. All of it may be missing, late or wrong:
//! the counters of storage decide.

use std::rc::Rc;

use super::{Runtime, RuntimeEvent, Session, SessionEvent, Signal, session::gone};
use crate::{
    ErrorCode, Result,
    message::MessageData,
    session::{Hint, Machine, Takes},
    storage::{LocalFuture, StoredSession},
};

/// How tabs and workers on one storage know of each other.
pub trait Tabs {
    /// Marks a session as one whose turn runs here, until the signal fires. Done when it is marked, or cannot be; nobody
    /// else is waited for.
    fn mark(&self, session: &str, until: Signal) -> LocalFuture<'static, ()>;
    /// Whether somebody has marked a session. False where nobody can say.
    fn is_marked(&self, session: &str) -> LocalFuture<'static, bool>;
    /// Has a session for an import until the signal fires, alone, and says so. False where somebody else has it, in this page too;
    /// none where nobody can say.
    fn claim(&self, session: &str, until: Signal) -> LocalFuture<'static, Option<bool>>;
    /// Says something to all others.
    fn say(&self, hint: &str);
    /// Hears what others say, from now on.
    fn hear(&self, heard: Rc<dyn Fn(&str)>);
    /// Hears and says nothing any more.
    fn close(&self);
}

impl<M: MessageData + 'static> Runtime<M> {
    /// Tells others where something was stored.
    pub(super) fn tell(&self, hint: &Hint) {
        if let Some(tabs) = &self.parts.tabs {
            tabs.say(&hint.to_text());
        }
    }

    /// Hears others from now on.
    pub(super) fn hear_others(self: &Rc<Self>) {
        let Some(tabs) = &self.parts.tabs else { return };
        // Weak, so that a runtime that its host forgot does not stay.
        let me = Rc::downgrade(self);
        tabs.hear(Rc::new(move |text| {
            if let (Some(runtime), Some(hint)) = (me.upgrade(), Hint::parse(text)) {
                let world = runtime.parts.world.clone();
                world.spawn(Box::pin(async move { runtime.take(hint).await }));
            }
        }));
    }

    async fn take(&self, hint: Hint) {
        if self.closed.has_fired() {
            return;
        }
        match hint {
            // What cannot be read now is read when somebody looks.
            Hint::Rules => drop(self.permissions.refresh().await),
            Hint::Session(id) => {
                if let Some(session) = self.open_now(&id) {
                    session.look_again().await;
                }
                self.listeners.emit(&RuntimeEvent::SessionChanged(id));
            }
        }
    }

    /// Whether a turn of a session runs in another tab or worker.
    pub(super) async fn runs_elsewhere(&self, id: &str) -> bool {
        match &self.parts.tabs {
            Some(tabs) => tabs.is_marked(id).await,
            None => false,
        }
    }
}

impl<M: MessageData + 'static> Session<M> {
    /// A turn of this session runs here from now on. Fires when that is marked, or cannot be.
    pub(super) fn mark(&self) -> Signal {
        let (until, done) = (Signal::default(), Signal::default());
        let Some(tabs) = &self.runtime.parts.tabs else {
            done.fire();
            return done;
        };
        if let Some((_, done)) = &*self.marked.borrow() {
            return done.clone();
        }
        self.marked.replace(Some((until.clone(), done.clone())));
        let id = self.machine().id().to_owned();
        let (marked, over) = (tabs.mark(&id, until), done.clone());
        self.runtime.parts.world.spawn(Box::pin(async move {
            marked.await;
            over.fire();
        }));
        done
    }

    pub(super) fn unmark(&self) {
        let marked = self.marked.take();
        if let Some((until, _)) = marked {
            until.fire();
        }
    }

    /// Where the stored turn is open, looks whether it runs elsewhere, or has ended there. Not for longer than its caller wants.
    pub async fn look_around(&self, abort: &Signal) {
        if self.machine().has_open_turn() {
            let look: LocalFuture<'_, ()> = Box::pin(self.look_again());
            abort.unless_fired(look).await;
        }
    }

    /// Shows what others stored, as far as that can be now. Where it cannot be read, what is here stays.
    pub(super) async fn look_again(&self) {
        if self
            .look()
            .await
            .is_err_and(|error| error.code() == ErrorCode::NotFound)
        {
            self.is_gone();
        }
    }

    async fn look(&self) -> Result<()> {
        self.machine().check_live()?;
        // Not while something is being saved: what is read is then older than what is known here.
        let one_at_a_time = self.turn_to_save().await;
        let stored = self.storage().counters().await?.ok_or_else(gone)?;
        let takes = self.machine().takes(&stored);
        match takes {
            Takes::Everything => {
                let known = |stored: &StoredSession| self.machine().known_of(stored);
                let stored = self.runtime.load(self.storage(), &known).await?;
                let stored = stored.ok_or_else(gone)?;
                // A turn may have begun meanwhile, or a setting changed: then that goes on.
                if self.machine().rests() {
                    return self.show(stored, 0);
                }
            }
            Takes::Settings => self.catch_up().await?,
            Takes::Nothing => {}
        }
        drop(one_at_a_time);
        if self.machine().has_open_turn() {
            let id = self.machine().id().to_owned();
            let elsewhere = self.runtime.runs_elsewhere(&id).await;
            self.machine_mut().set_runs_elsewhere(elsewhere);
        }
        self.read_approvals().await
    }

    /// It was deleted elsewhere. One that has something of its own stays as it is, and says so at its next commit.
    fn is_gone(&self) {
        if self.machine().rests() {
            let id = self.machine().id().to_owned();
            self.release();
            self.runtime.listeners.emit(&RuntimeEvent::SessionDeleted(id));
        }
    }

    /// Shows what is stored, without the oldest `dropped` commits that wait.
    pub(super) fn show(&self, stored: Machine<M>, dropped: usize) -> Result<()> {
        let mut shown = Ok(());
        let told = self.changes(|machine| shown = machine.show(stored, dropped));
        shown?;
        self.tell(told);
        self.emit(&SessionEvent::Reloaded);
        Ok(())
    }
}

impl<M> Drop for Session<M> {
    fn drop(&mut self) {
        if let Some((until, _)) = self.marked.take() {
            until.fire();
        }
    }
}
