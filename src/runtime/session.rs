//! An open session: the machine, its saving in order, and who is told.

use std::{
    cell::{Cell, Ref, RefCell, RefMut},
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    rc::{Rc, Weak},
    task::Poll,
};

use super::{
    ApprovalResult, Listener, ListenerErrors, Listeners, Runtime, RuntimeEvent, Signal, Turn, mistaken,
    signal::{self, OneAtATime, unless},
};
use crate::{
    Error, ErrorCode, Result,
    context::{CompactionCheckpoint, ContextBudget, Notice, NoticeCode, text_tokens},
    list::Listed,
    message::{MessageData, MessageIndex, UserTurn, texts, turn_count},
    permissions::Preset,
    prompt::Section,
    session::{
        Degraded, Exclusive, Hint, Incoming, Machine, ModelRef, ModelRequest, Outcome, Pending,
        RequestReport, Stamp, TurnEnd, TurnInput,
    },
    skills::{self, MentionNoticeCode, SkillEntry},
    storage::{CommitStatus, LocalFuture, SessionStorage, StoredSession, damaged, is_unanswered, unanswered},
};

/// How a prompt is meant.
#[derive(Clone, Debug)]
pub struct PromptOptions {
    /// Ids of chosen skills.
    pub skills: Vec<String>,
    /// Whether `$name` in the text chooses a skill.
    pub mentions: bool,
    /// Aborts the turn.
    pub abort: Signal,
}

impl Default for PromptOptions {
    fn default() -> Self {
        Self {
            skills: Vec::new(),
            mentions: true,
            abort: Signal::default(),
        }
    }
}

/// How a turn ended, and whether all of it is saved.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnReport {
    /// How.
    pub end: TurnEnd,
    /// Whether everything is saved; else `flush` finishes it.
    pub saved: bool,
    /// Why not.
    pub save_error: Option<Error>,
    /// Values that could not be stored, and became `null`.
    pub degraded: Vec<Degraded>,
}

/// Something that happened to a session.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionEvent<M> {
    /// A turn was dispatched.
    TurnStarted {
        /// Which.
        user_turn: UserTurn,
    },
    /// A message was added to the conversation.
    Message {
        /// Where.
        message_index: MessageIndex,
        /// The message, as it was typed or answered.
        message: M,
    },
    /// The model's answer so far.
    Update {
        /// The partial answer.
        message: M,
    },
    /// A request was built, or is too large to be one.
    Budget {
        /// Its estimate.
        budget: ContextBudget,
    },
    /// A turn ended.
    TurnEnded {
        /// How.
        report: TurnReport,
    },
    /// A person is asked about a call.
    ApprovalAsked {
        /// The approval.
        request_id: String,
    },
    /// A person answered.
    ApprovalAnswered {
        /// What.
        result: ApprovalResult,
    },
    /// Older turns are being summarised.
    CompactionStarted {
        /// The first message that stays.
        first_kept: MessageIndex,
    },
    /// A summary stands for them from now on.
    CompactionEnded {
        /// Which.
        compaction: CompactionCheckpoint,
    },
    /// There is no summary; the conversation is as it was.
    CompactionFailed {
        /// Why.
        error: Error,
    },
    /// Preset, model, sections, title or the like changed.
    SettingsChanged,
    /// What is stored took the place of what was shown: look again.
    Reloaded,
    /// Everything is saved.
    Saved,
    /// A write failed; it is kept, and `flush` finishes it.
    SaveFailed {
        /// Why.
        error: Error,
    },
}

/// A prompt or turn under way: what stops it, and what fires when it is over.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(super) abort: Signal,
    over: Signal,
    /// Fires as soon as it is stopped or ends, before that is saved.
    ends: Signal,
    /// The caller's signal, which stops it too, and our hook there.
    caller: (Signal, u64),
}

/// An open session.
pub struct Session<M> {
    me: Weak<Self>,
    pub(super) runtime: Rc<Runtime<M>>,
    machine: RefCell<Machine<M>>,
    storage: Rc<dyn SessionStorage<M>>,
    saving: OneAtATime,
    /// Fires when a turn is stopped; another takes its place when that is over. Who saves meanwhile does not wait for long.
    hurry: RefCell<Signal>,
    running: RefCell<Option<Running>>,
    /// Fires with the next answer of a person, or the end of a turn.
    answers: RefCell<Signal>,
    /// Fires when the session is let go of: nobody waits any longer for what a host may never answer.
    pub(super) gone: Signal,
    /// The mark of a turn that runs here: what fires when none does any more, and what fires when others see it.
    pub(super) marked: RefCell<Option<(Signal, Signal)>>,
    listeners: Listeners<SessionEvent<M>>,
}

impl<M: fmt::Debug> fmt::Debug for Session<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("machine", &self.machine)
            .finish_non_exhaustive()
    }
}

/// Ends an exclusive operation when it goes out of scope.
pub(super) struct ExclusiveGuard<'a, M: MessageData>(&'a RefCell<Machine<M>>);

impl<M: MessageData> Drop for ExclusiveGuard<'_, M> {
    fn drop(&mut self) {
        self.0.borrow_mut().end_exclusive();
    }
}

/// A prompt that is driven by us. However it ends, also where nobody waits for it any more, its turn does not stay.
pub(super) struct Driven<'a, M: MessageData + 'static> {
    session: &'a Rc<Session<M>>,
    running: Running,
    turn: Cell<Option<u64>>,
}

impl<M: MessageData + 'static> Driven<'_, M> {
    pub(super) fn abort(&self) -> &Signal {
        &self.running.abort
    }

    pub(super) fn drives(&self, number: u64) {
        self.turn.set(Some(number));
    }
}

impl<M: MessageData + 'static> Drop for Driven<'_, M> {
    fn drop(&mut self) {
        match self.turn.get() {
            Some(number) if self.session.is_turn(number) => {
                Turn::new(self.session, number).cancel_in_background();
            }
            _ => self.session.stopped(&self.running),
        }
    }
}

/// A turn that has ended and is being saved.
struct Ending<'a, M: MessageData + 'static>(&'a Session<M>);

impl<M: MessageData + 'static> Drop for Ending<'_, M> {
    fn drop(&mut self) {
        self.0.machine_mut().ended();
        let running = self.0.running.borrow().clone();
        if let Some(running) = running {
            self.0.stopped(&running);
        }
    }
}

impl<M: MessageData + 'static> Session<M> {
    pub(super) fn new(runtime: &Rc<Runtime<M>>, machine: Machine<M>) -> Rc<Self> {
        let storage = runtime.parts.storage.session(machine.id());
        Rc::new_cyclic(|me| Self {
            me: me.clone(),
            runtime: runtime.clone(),
            machine: RefCell::new(machine),
            storage,
            saving: OneAtATime::new(runtime.parts.world.clone()),
            hurry: RefCell::default(),
            running: RefCell::default(),
            answers: RefCell::default(),
            gone: Signal::default(),
            marked: RefCell::default(),
            listeners: Listeners::default(),
        })
    }

    /// The state of the session. The borrow must end before any foreign code runs.
    pub fn machine(&self) -> Ref<'_, Machine<M>> {
        self.machine.borrow()
    }

    pub(super) fn machine_mut(&self) -> RefMut<'_, Machine<M>> {
        self.machine.borrow_mut()
    }

    pub(super) fn storage(&self) -> &dyn SessionStorage<M> {
        &*self.storage
    }

    pub(super) fn emit(&self, event: &SessionEvent<M>) {
        self.listeners.emit(event);
    }

    /// Fires with the next answer of a person, or the end of a turn.
    pub(super) fn next_answer(&self) -> Signal {
        self.answers.borrow().clone()
    }

    pub(super) fn wake_waiters(&self) {
        let fired = self.answers.replace(Signal::default());
        fired.fire();
    }

    pub(super) fn stamp(&self) -> Stamp {
        self.runtime.stamp()
    }

    pub(super) fn exclusive(&self, kind: Exclusive) -> Result<ExclusiveGuard<'_, M>> {
        self.machine_mut().begin_exclusive(kind)?;
        Ok(ExclusiveGuard(&self.machine))
    }

    // ---- saving ------------------------------------------------------------------------------------------------

    /// Waits until no other save is under way.
    pub(super) async fn turn_to_save(&self) -> signal::Turn<'_> {
        self.saving.turn().await
    }

    /// Saves the queue in order. What cannot be saved stays, and everything behind it. Storage is not waited for where two of
    /// these hold: it has had a while, the turn is stopped, it did not answer the last time either.
    pub(super) async fn save(&self) -> Result<()> {
        let (mut a_while, mut late) = (self.runtime.parts.world.a_while(), false);
        let hurry = self.hurry.borrow().clone();
        let enough = poll_fn(|context| {
            late = late || a_while.as_mut().poll(context).is_ready();
            let again = self.machine().save_error().is_some_and(is_unanswered);
            match late && again {
                true => Poll::Ready(()),
                false if late || again => pin!(hurry.fired()).poll(context),
                false => Poll::Pending,
            }
        });
        let saved: LocalFuture<'_, Result<()>> = Box::pin(self.save_in_turn());
        match unless(enough, saved).await {
            Some(saved) => saved,
            None if self.machine().next_commit().is_none() => Ok(()),
            None => {
                let text =
                    "the storage has not answered yet, and is not waited for any longer; call `flush()`";
                Err(self.save_fails(unanswered(text)))
            }
        }
    }

    /// The same, however long it takes.
    async fn save_in_turn(&self) -> Result<()> {
        let _one_at_a_time = self.turn_to_save().await;
        self.save_queue().await
    }

    /// The same, for whoever has the turn to save.
    async fn save_queue(&self) -> Result<()> {
        let mut wrote = false;
        loop {
            let Some(commit) = self.machine().next_commit() else {
                break;
            };
            let error = match self.storage.commit(commit).await {
                Ok(CommitStatus::Applied(stored) | CommitStatus::AlreadyApplied(stored)) => {
                    self.machine_mut().saved(stored);
                    self.tell_others();
                    wrote = true;
                    continue;
                }
                Ok(CommitStatus::Conflict(counters)) => Error::new(
                    ErrorCode::Conflict,
                    "another tab or worker wrote this conversation; call `reload` with `pending` set to `fork` or `discard`",
                )
                .with("conversation", counters.conversation),
                Err(error) if error.code() == ErrorCode::NotFound => Error::new(
                    ErrorCode::NotFound,
                    "the session was deleted elsewhere; call `reload` with `pending` set to `fork` to keep it as a new one, or to `discard`",
                ),
                Err(error) => error,
            };
            return Err(self.save_fails(error));
        }
        self.runtime.let_go(self);
        if wrote {
            self.listeners.emit(&SessionEvent::Saved);
        }
        Ok(())
    }

    /// What could not be saved is pending.
    fn save_fails(&self, error: Error) -> Error {
        self.machine_mut().save_failed(error.clone());
        // What is pending is nowhere else: the session stays, also where its last handle is let go of.
        self.runtime.hold(self.me.upgrade());
        self.listeners
            .emit(&SessionEvent::SaveFailed { error: error.clone() });
        error
    }

    /// Others hear that something of this session was stored.
    pub(super) fn tell_others(&self) {
        let id = self.machine().id().to_owned();
        self.runtime.tell(&Hint::Session(id));
    }

    /// Looks whether somebody else changed what the gate decides by, and takes it.
    ///
    /// # Errors
    /// `not_found` where the session was deleted, also where another has its id by now; `storage_failed` where the storage was put back to an earlier state; those of
    /// the storage.
    pub(super) async fn catch_up(&self) -> Result<()> {
        let saved = self.machine().saved_settings();
        let Some(stored) = self.storage.counters().await? else {
            return match self.machine().next_commit() {
                // It was never saved yet.
                Some(_) => Ok(()),
                None => Err(gone()),
            };
        };
        if stored.origin != self.machine().origin() {
            return Err(gone());
        }
        // What was saved before we looked can only be missing where it was taken back.
        if stored.counters.settings < saved {
            return Err(put_back());
        }
        if !self.machine().is_behind(stored.counters) {
            return Ok(());
        }
        let loaded = self.storage.load().await?;
        let is_own = |stored: &StoredSession| stored.record.origin() == self.machine().origin();
        let stored = loaded.filter(is_own).ok_or_else(gone)?;
        if self.machine_mut().catch_up(&stored.record)? {
            self.listeners.emit(&SessionEvent::SettingsChanged);
        }
        Ok(())
    }

    /// Saves what is pending, without a call of the model or a tool.
    ///
    /// # Errors
    /// `disposed`, `session_busy`, and the storage's own.
    pub async fn flush(&self) -> Result<()> {
        let _exclusive = self.exclusive(Exclusive::Flush)?;
        self.save_in_turn().await
    }

    /// Shows what is stored, and settles what becomes of commits that could not be saved. Where they were forked, says the id
    /// of the new session.
    ///
    /// # Errors
    /// `disposed`, `session_busy`; `pending_save` where a save is pending and nothing is said about it; `not_found` where
    /// what is needed is not stored any more; those of the storage. All that was pending stays pending then.
    pub async fn reload(&self, pending: Option<Pending>) -> Result<Option<String>> {
        let kind = if pending.is_some() {
            Exclusive::Flush
        } else {
            Exclusive::Reload
        };
        let _exclusive = self.exclusive(kind)?;
        let one_at_a_time = self.turn_to_save().await;
        // What is only on its way is saved. A save may have failed while this waited for its turn.
        let on_its_way = self.machine().save_error().is_none();
        if on_its_way || pending.is_none() {
            let saved = self.save_queue().await;
            if pending.is_none() {
                saved?;
            }
        }
        let waiting = self.machine().waiting_commits();
        let known = |stored: &StoredSession| self.machine().known_of(stored);
        let stored = self.runtime.load(&*self.storage, &known).await?;
        let forked = match pending {
            Some(Pending::Fork) => self.fork(stored.as_ref()).await?,
            Some(Pending::Discard) | None => None,
        };
        match stored {
            Some(stored) => self.show(stored, waiting)?,
            None if pending.is_none() => return Err(gone()),
            // There is nothing to show, and nothing pending any more.
            None => self.goes(),
        }
        self.runtime.let_go(self);
        drop(one_at_a_time);
        Ok(forked)
    }

    /// Makes a new session of this conversation and what is pending. `stored` is what is stored of this one.
    async fn fork(&self, stored: Option<&Machine<M>>) -> Result<Option<String>> {
        let (stamp, loaded_from) = (self.stamp(), self.machine().loaded_from());
        let same = stored.filter(|stored| stored.origin() == self.machine().origin());
        if loaded_from > 0 && same.is_none() {
            return Err(gone());
        }
        let earlier = self.storage.read_messages(0, loaded_from).await?;
        let Some(commit) = self.machine().fork(same, earlier, &stamp) else {
            return Ok(None);
        };
        let id = commit.session_id.clone();
        let storage = self.runtime.parts.storage.session(&id);
        match storage.commit(Rc::new(commit)).await? {
            CommitStatus::Applied(_) | CommitStatus::AlreadyApplied(_) => {}
            CommitStatus::Conflict(_) => {
                let text = format!("a session with the id `{id}` exists; nothing was forked, try again");
                return Err(Error::new(ErrorCode::Conflict, text).with("id", id));
            }
        }
        self.runtime.tell(&Hint::Session(id.clone()));
        self.runtime
            .listeners
            .emit(&RuntimeEvent::SessionCreated(id.clone()));
        Ok(Some(id))
    }

    // ---- turns -------------------------------------------------------------------------------------------------

    /// What a turn begins with: the message as it was typed, and the skills chosen for it, as their files are now.
    pub(super) async fn input(
        &self,
        content: &M,
        options: &PromptOptions,
        abort: &Signal,
    ) -> Result<TurnInput<M>> {
        let now = self.runtime.parts.world.now();
        let message = self.machine().dialect().typed_message(content, now)?;
        let (chosen, mut notices) = self.choices(&message, options)?;
        let read = self.runtime.open_chosen(&chosen, &options.skills);
        let read = abort.unless_fired(read).await;
        let (skills, meaningless) = read.unwrap_or_else(|| Err(aborted()))?;
        let at = MessageIndex(self.machine().message_count());
        meaningless
            .into_iter()
            .map(|name| Notice {
                code: NoticeCode::MentionUnknown,
                message_index: Some(at),
                detail: Some(name),
            })
            .append_to(&mut notices);
        Ok(TurnInput {
            tokens: self.counted(&message)?,
            message,
            skills,
            offered_skills: self.runtime.skills.section(),
            notices,
        })
    }

    /// The skills that are chosen for a message, by id or in its text, and what looks like a choice and is none.
    fn choices(&self, message: &M, options: &PromptOptions) -> Result<(Vec<SkillEntry>, Vec<Notice>)> {
        let catalog = self.runtime.skills.catalog.borrow();
        let (mut mentioned, mut notices) = (Vec::new(), Vec::new());
        if options.mentions {
            let mentionable = catalog.mentionable();
            for text in texts(message).iter().filter_map(|text| text.text_lossy()) {
                let scan = skills::find_mentions(&text, &mentionable);
                scan.mentions
                    .into_iter()
                    .map(|mention| mention.id)
                    .append_to(&mut mentioned);
                notices.extend(scan.notices);
            }
        }
        let at = MessageIndex(self.machine().message_count());
        let notices = notices.into_iter().map(|notice| Notice {
            code: match notice.code {
                MentionNoticeCode::MentionUnknown => NoticeCode::MentionUnknown,
                MentionNoticeCode::MentionAmbiguous => NoticeCode::MentionAmbiguous,
            },
            message_index: Some(at),
            detail: Some(notice.name),
        });
        let chosen = skills::select(&catalog, &options.skills, &mentioned)?;
        Ok((chosen.into_iter().cloned().listed(), notices.listed()))
    }

    /// Begins a turn for a host with a loop of its own.
    ///
    /// # Errors
    /// `disposed`, `session_busy`, `session_interrupted`, `pending_save`, `skill_unavailable`, `invalid_argument`,
    /// `aborted`.
    pub async fn begin(self: &Rc<Self>, content: &M, options: &PromptOptions) -> Result<Turn<M>> {
        self.look_around(&options.abort).await;
        let _exclusive = self.exclusive(Exclusive::AtRest)?;
        let preparing = self.driven(&options.abort);
        if preparing.abort().has_fired() {
            return Err(aborted());
        }
        let input = self.input(content, options, preparing.abort()).await?;
        drop(preparing);
        let number = self.machine_mut().prepare(input)?;
        self.begun(number, &options.abort);
        Ok(Turn::new(self, number))
    }

    /// A turn of a host can be stopped from now on.
    fn begun(self: &Rc<Self>, number: u64, abort: &Signal) {
        let running = self.running(abort);
        // Weak, so that a turn that its host forgot does not keep the session.
        let session = Rc::downgrade(self);
        let ends = running.ends.clone();
        running.abort.on_fire(move || {
            ends.fire();
            if let Some(session) = session.upgrade() {
                Turn::new(&session, number).cancel_in_background();
            }
        });
    }

    /// Something runs that `abort()` and the caller's signal can stop.
    fn running(&self, caller: &Signal) -> Running {
        let abort = Signal::default();
        let stopped = abort.clone();
        let hook = caller.on_fire(move || stopped.fire());
        let me = self.me.clone();
        abort.on_fire(move || {
            if let Some(session) = me.upgrade() {
                session.hurry.borrow().fire();
            }
        });
        let running = Running {
            abort,
            over: Signal::default(),
            ends: Signal::default(),
            caller: (caller.clone(), hook),
        };
        *self.running.borrow_mut() = Some(running.clone());
        running
    }

    pub(super) fn driven(self: &Rc<Self>, caller: &Signal) -> Driven<'_, M> {
        Driven {
            session: self,
            running: self.running(caller),
            turn: Cell::new(None),
        }
    }

    /// It runs no more, unless it is known to already.
    fn stopped(&self, running: &Running) {
        let mut current = self.running.borrow_mut();
        let ended = current.take_if(|current| current.over.is(&running.over));
        drop(current);
        if ended.is_some() {
            self.unmark();
            self.hurry.take();
            let (caller, hook) = &running.caller;
            caller.forget(*hook);
            running.over.fire();
        }
    }

    /// Stops the running prompt or turn, and waits until it is over. Does nothing where none runs.
    pub async fn abort(&self) {
        let running = self.stop();
        if let Some(running) = running {
            running.over.fired().await;
        }
    }

    /// Stops what runs now, at once.
    pub(crate) fn stop(&self) -> Option<Running> {
        let running = self.running.borrow().clone()?;
        running.abort.fire();
        Some(running)
    }

    pub(super) fn is_turn(&self, number: u64) -> bool {
        self.machine().current_turn() == Some(number)
    }

    pub(super) fn check_turn(&self, number: u64) -> Result<()> {
        if self.is_turn(number) {
            return Ok(());
        }
        Err(Error::invalid("this turn has ended; begin a new one"))
    }

    /// The messages from `from` on. They are looked up before anybody is told of the first: a listener may add more.
    fn messages_from(&self, from: u32) -> Vec<(u32, M)> {
        let machine = self.machine();
        let loaded = from.saturating_sub(machine.loaded_from()) as usize;
        (from..)
            .zip(machine.bodies().iter().skip(loaded).cloned())
            .listed()
    }

    fn announce(&self, messages: Vec<(u32, M)>) {
        for (at, message) in messages {
            self.listeners.emit(&SessionEvent::Message {
                message_index: MessageIndex(at),
                message,
            });
        }
    }

    /// Tokens of a message as the host counts them, where it does.
    fn counted(&self, message: &M) -> Result<Option<u32>> {
        let dialect = self.machine().dialect();
        let count = self.runtime.parts.count_tokens.as_ref();
        count.map(|count| dialect.tokens(message, &**count)).transpose()
    }

    /// Has the host count the texts that are no messages, where it counts. What is stored and cannot be counted is estimated, and
    /// that is said once: a session must not be stuck with it.
    pub(super) fn count_texts(&self) -> Result<()> {
        let Some(count) = &self.runtime.parts.count_tokens else {
            return Ok(());
        };
        let texts = self.machine().counted();
        let mut counted = Vec::new();
        for (text, known, stays) in texts {
            let tokens = match known.map_or_else(|| count(&M::string(&text)), Ok) {
                Err(error) if stays => {
                    self.listener_errors().add(error.message().to_owned());
                    text_tokens(&text)
                }
                tokens => tokens?,
            };
            counted.push((text, tokens));
        }
        self.machine_mut().set_counted(counted);
        Ok(())
    }

    /// What to send to the model now. Listeners hear of each request once.
    pub(super) fn request(&self, turn: u64) -> Result<(ModelRequest<M>, RequestReport)> {
        self.count_texts()?;
        self.check_turn(turn)?;
        // It takes a moment, which passes while the request is made.
        self.mark();
        let again = self.machine().is_asked();
        let request = self.machine_mut().request();
        let told = match &request {
            Ok(_) => !again,
            Err(error) => error.code() == ErrorCode::BudgetExceeded,
        };
        let budget = self.machine().budget().filter(|_| told);
        if let Some(budget) = budget {
            self.listeners.emit(&SessionEvent::Budget { budget });
        }
        request
    }

    /// The first request of a turn is on its way: it is kept, shown and saved. A failed save is kept as pending.
    pub(super) async fn dispatch(&self, turn: u64) -> Result<()> {
        // The clock is the host's and may call anything: first the stamp, then the look at where we are.
        let stamp = self.stamp();
        self.check_turn(turn)?;
        let before = self.machine().message_count();
        self.machine_mut().dispatched(&stamp)?;
        let new = self.messages_from(before);
        if !new.is_empty() {
            let user_turn = UserTurn(turn_count(self.machine().outlines()).saturating_sub(1));
            self.listeners.emit(&SessionEvent::TurnStarted { user_turn });
            self.announce(new);
        }
        // Who sees it stored sees that it runs.
        self.mark().fired().await;
        self.save_later().await;
        Ok(())
    }

    pub(super) async fn append(&self, turn: u64, mut messages: Vec<Incoming<M>>) -> Result<()> {
        for message in &mut messages {
            // What has arrived is kept, whatever becomes of its count.
            message.tokens = self.counted(&message.body).unwrap_or_else(|error| {
                self.listener_errors().add(error.message().to_owned());
                None
            });
        }
        let stamp = self.stamp();
        self.check_turn(turn)?;
        let before = self.machine().message_count();
        self.machine_mut().append(messages, &stamp)?;
        self.announce(self.messages_from(before));
        self.save_later().await;
        Ok(())
    }

    pub(super) fn update(&self, turn: u64, partial: Incoming<M>) -> Result<()> {
        self.check_turn(turn)?;
        let message = partial.body.clone();
        self.machine_mut().update(partial)?;
        self.listeners.emit(&SessionEvent::Update { message });
        Ok(())
    }

    pub(super) async fn settle(
        &self,
        turn: u64,
        outcome: Outcome,
        error: Option<String>,
    ) -> Result<TurnReport> {
        let stamp = self.stamp();
        self.check_turn(turn)?;
        let before = self.machine().message_count();
        let (end, degraded) = self.machine_mut().settle(outcome, error, &stamp)?;
        Ok(self.end_turn(before, end, degraded).await)
    }

    async fn end_turn(&self, before: u32, end: TurnEnd, degraded: Vec<Degraded>) -> TurnReport {
        let ending = Ending(self);
        self.turn_ends().fire();
        self.announce(self.messages_from(before));
        self.save_later().await;
        let save_error = self.machine().save_error().cloned();
        let mut end = end;
        if let Some(error) = save_error
            .as_ref()
            .filter(|error| error.code() == ErrorCode::Conflict)
        {
            // What this turn said stands beside another conversation: whatever the model says, that is no success.
            end = TurnEnd {
                outcome: Outcome::Error,
                error: Some(error.message().to_owned()),
            };
            self.machine_mut().end_shows(&end);
        }
        let report = TurnReport {
            end,
            saved: save_error.is_none(),
            save_error,
            degraded,
        };
        self.wake_waiters();
        // Who hears of the end may begin the next turn.
        drop(ending);
        self.listeners.emit(&SessionEvent::TurnEnded {
            report: report.clone(),
        });
        report
    }

    /// Ends a turn that a restart cut off.
    ///
    /// # Errors
    /// `disposed`, `session_busy`, `pending_save`, `invalid_argument` where no turn was cut off.
    pub async fn abandon(&self) -> Result<TurnReport> {
        self.look_around(&Signal::default()).await;
        let exclusive = self.exclusive(Exclusive::Interrupted)?;
        let stamp = self.stamp();
        self.read_approvals().await?;
        let before = self.machine().message_count();
        let end = self.machine_mut().abandon(&stamp)?;
        drop(exclusive);
        Ok(self.end_turn(before, end, Vec::new()).await)
    }

    /// Goes on with a turn that a restart cut off, for a host with its own loop.
    ///
    /// # Errors
    /// `disposed`, `session_busy`, `pending_save`, `invalid_argument` where no turn was cut off.
    pub async fn resume(self: &Rc<Self>) -> Result<Turn<M>> {
        self.look_around(&Signal::default()).await;
        let exclusive = self.exclusive(Exclusive::Interrupted)?;
        let number = self.resumed().await?;
        self.begun(number, &Signal::default());
        drop(exclusive);
        Ok(Turn::new(self, number))
    }

    pub(super) async fn resumed(&self) -> Result<u64> {
        self.mark().fired().await;
        let resumed = self.go_on().await;
        if resumed.is_err() {
            self.unmark();
        }
        resumed
    }

    async fn go_on(&self) -> Result<u64> {
        let stamp = self.stamp();
        // Somebody may have answered elsewhere.
        let hurry = self.hurry.borrow().clone();
        let read: LocalFuture<'_, Result<()>> = Box::pin(self.read_approvals());
        hurry.unless_fired(read).await.unwrap_or_else(|| Err(aborted()))?;
        let before = self.machine().message_count();
        let number = self.machine_mut().resume(&stamp)?;
        self.announce(self.messages_from(before));
        self.save_later().await;
        Ok(number)
    }

    /// Saves what can be saved now. A failure is not lost: it is pending, and reported when the turn ends.
    pub(super) async fn save_later(&self) {
        let _pending = self.save().await;
    }

    // ---- settings ----------------------------------------------------------------------------------------------

    pub(super) async fn save_settings(&self) -> Result<()> {
        self.listeners.emit(&SessionEvent::SettingsChanged);
        self.save().await
    }

    /// A person's choice of preset, for an idle session. The next dispatched prompt shows it.
    ///
    /// # Errors
    /// Those of [`Machine::begin_exclusive`] and of the storage; a failed write is pending.
    pub async fn set_preset(&self, preset: Option<Preset>) -> Result<()> {
        let _exclusive = self.exclusive(Exclusive::AtRest)?;
        let stamp = self.stamp();
        self.machine_mut().set_preset(preset, &stamp);
        self.save_settings().await
    }

    /// Another model, preamble or host sections, for an idle session; what is `None` stays.
    ///
    /// # Errors
    /// `invalid_argument` for bad sections; else as [`Session::set_preset`].
    pub async fn configure(
        &self,
        model: Option<Option<ModelRef>>,
        system_prompt: Option<String>,
        sections: Option<Vec<Section>>,
    ) -> Result<()> {
        let _exclusive = self.exclusive(Exclusive::AtRest)?;
        let stamp = self.stamp();
        self.machine_mut()
            .configure(model, system_prompt, sections, &stamp)?;
        self.save_settings().await
    }

    /// What a person calls the session.
    ///
    /// # Errors
    /// `disposed`, and those of the storage; a failed write is pending.
    pub async fn set_title(&self, title: String) -> Result<()> {
        self.machine().check_whole()?;
        let stamp = self.stamp();
        self.machine_mut().set_title(title, &stamp);
        self.save_settings().await
    }

    /// Whether a person pinned it.
    ///
    /// # Errors
    /// As [`Session::set_title`].
    pub async fn set_pinned(&self, pinned: bool) -> Result<()> {
        self.machine().check_whole()?;
        let stamp = self.stamp();
        self.machine_mut().set_pinned(pinned, &stamp);
        self.save_settings().await
    }

    /// A person has seen this many messages. Says whether that is more than before.
    ///
    /// # Errors
    /// As [`Session::set_title`].
    pub async fn mark_read(&self, message_count: u32) -> Result<bool> {
        self.machine().check_whole()?;
        let stamp = self.stamp();
        if !self.machine_mut().mark_read(message_count, &stamp) {
            return Ok(false);
        }
        self.save_settings().await?;
        Ok(true)
    }

    // ---- the rest ----------------------------------------------------------------------------------------------

    /// Messages before `before` (by default the end), at most `limit`, oldest first.
    ///
    /// # Errors
    /// `disposed`, and those of the storage.
    pub async fn read_messages(&self, before: Option<u32>, limit: u32) -> Result<Vec<M>> {
        self.machine().check_live()?;
        let (count, loaded_from) = (self.machine().message_count(), self.machine().loaded_from());
        let to = before.unwrap_or(count).min(count);
        let from = to.saturating_sub(limit);
        let mut page = if from < loaded_from {
            let page = self.storage.read_messages(from, to.min(loaded_from)).await?;
            let machine = self.machine();
            if let Some(wrong) = mistaken(machine.dialect(), machine.outlines(), from, &page).first() {
                let what = format!("message {}: {}", wrong.key.unwrap_or_default(), wrong.message);
                return Err(damaged(machine.id(), &what));
            }
            page
        } else {
            Vec::new()
        };
        let machine = self.machine();
        let (skip, end) = (
            from.max(loaded_from) - loaded_from,
            to.saturating_sub(loaded_from),
        );
        let loaded = machine.bodies().iter().take(end as usize);
        loaded.skip(skip as usize).cloned().append_to(&mut page);
        Ok(page)
    }

    /// Takes events until the returned number is given to [`Session::unsubscribe`].
    pub fn subscribe(&self, listener: Listener<SessionEvent<M>>) -> u32 {
        self.listeners.add(listener)
    }

    /// Ends a subscription.
    pub fn unsubscribe(&self, number: u32) {
        self.listeners.remove(number);
    }

    /// Texts of errors of listeners.
    pub fn listener_errors(&self) -> ListenerErrors {
        self.listeners.errors.clone()
    }

    pub(super) fn check_disposable(&self) -> Result<()> {
        if self.machine().is_disposed() {
            return Ok(());
        }
        self.exclusive(Exclusive::Dispose).map(|_| ())
    }

    /// Waits until what is on its way is saved, or could not be. A turn that runs is not waited for.
    pub async fn at_rest(&self) {
        let goes_on = || self.machine().is_running() || self.machine().save_error().is_some();
        if goes_on() {
            return;
        }
        let _one_at_a_time = self.turn_to_save().await;
        // What could not be saved meanwhile is pending, and not tried again.
        if !goes_on() {
            let _pending = self.save_queue().await;
        }
    }

    /// Lets go of the session. Letting go of it twice is no error. A turn that was cut off stays as it is stored, with its
    /// approvals: they are of the turn, which may be resumed by whoever opens the session again, and end when it is abandoned.
    ///
    /// # Errors
    /// `session_busy` and `pending_save`.
    pub fn dispose(&self) -> Result<()> {
        self.check_disposable()?;
        self.goes();
        Ok(())
    }

    /// Lets go of a session that was deleted: what is pending goes with it.
    pub(super) fn release(&self) {
        self.runtime.let_go(self);
        self.goes();
    }

    fn goes(&self) {
        self.machine_mut().dispose();
        self.gone.fire();
    }

    /// Fires when the turn that runs now is stopped or ends, before that is saved.
    pub(super) fn turn_ends(&self) -> Signal {
        let running = self.running.borrow();
        running.as_ref().map(|it| it.ends.clone()).unwrap_or_default()
    }
}

fn put_back() -> Error {
    Error::new(
        ErrorCode::StorageFailed,
        "the storage was put back to an earlier state than this session has; `reload()` it",
    )
}

pub(super) fn gone() -> Error {
    Error::new(ErrorCode::NotFound, "the session is not stored any more")
}

pub(super) fn aborted() -> Error {
    Error::new(
        ErrorCode::Aborted,
        "the prompt was aborted before it was sent; nothing was stored",
    )
}
