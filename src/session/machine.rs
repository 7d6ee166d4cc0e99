//! One session as a state machine: settings, conversation, the running turn, and the commits that wait.
//!
//! Everything here is synchronous and decides; nothing here waits, reads a clock or makes ids. A change shows in
//! memory at once and puts one commit at the end of the queue; the shell saves the queue in order.

mod compact;
mod reload;
mod shown;

use std::{
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use serde_json::Value;

use super::{
    ApprovalStatus, Header, ModelRef, ModelRequest, NewSession, Next, Outcome, RequestReport, Setting,
    ToolCall, ToolDeclaration, TurnEnd, TurnInput,
    gate::{Answered, GateState, Leave},
    header::{check_id, lost},
};
use crate::{
    Error, ErrorCode, Result,
    context::{
        BudgetParts, CompactionCheckpoint, ContextBudget, DeclaredEvent, Notice, Placement, Projection,
        RequestTrace, RuntimeContextSnapshot, Source, divergence, project, text_tokens,
    },
    list::{Listed, joined},
    message::{
        Answer, Call, Dialect, INTERRUPTED, MessageData, MessageIndex, MessageOutline, OpenCalls, Role,
        StopKind, Usage, texts, turn_count,
    },
    permissions::{Preset, REPLACES, permissions_text},
    prompt::{
        Checkpoint, PERMISSIONS, SKILLS, Section, diff_system_prompt, project_instructions_body,
        render_system_prompt, replay_system_prompt, system_prompt_at, validate_host_sections,
    },
    skills,
    storage::{
        AppendedMessage, ApprovalChange, COUNTS, Commit, Counters, Damage, ORIGIN, OUTLINES_PER_PACK,
        OutlinePack, SessionRecord, StoredSession, counts, damaged, keys,
    },
};

pub use compact::ToSummarise;
pub use reload::Pending;

/// When a change happened, and the name under which it is saved. Both come from the shell.
#[derive(Clone, Debug, PartialEq)]
pub struct Stamp {
    /// Milliseconds since the epoch, a whole number.
    pub now: f64,
    /// A new, unique id.
    pub operation_id: String,
}

/// What the machine needs to know of its surroundings.
#[derive(Clone, Debug)]
pub struct Surroundings<M> {
    /// The declared tools of the host.
    pub tools: Rc<[ToolDeclaration<M>]>,
    /// The tool to load a skill, unless the host has its own. The model is told of it while there are skills to load.
    pub load_tool: Option<ToolDeclaration<M>>,
    /// Whether results of calls that were not allowed are refused.
    pub strict: bool,
}

/// A message on its way in, with the places where it could not be kept as it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Incoming<M> {
    /// The message, as plain data.
    pub body: M,
    /// Paths of values that became `null` because they cannot be stored.
    pub degraded: Vec<String>,
    /// Whether it is a result of a tool that failed. Not every dialect has a member that says so.
    pub failed: bool,
    /// Its tokens as the host counts them, where it does.
    pub tokens: Option<u32>,
}

impl<M: MessageData> Incoming<M> {
    fn outline(&self, dialect: Dialect) -> Result<MessageOutline> {
        let mut outline = dialect.outline(&self.body, false)?;
        for answer in &mut outline.answers {
            answer.is_error |= self.failed;
        }
        outline.tokens = self.tokens.unwrap_or(outline.tokens);
        Ok(outline)
    }
}

/// A value that could not be stored, and became `null`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degraded {
    /// The message.
    pub message_index: MessageIndex,
    /// Where in it.
    pub path: String,
}

/// A stored turn that a restart cut off.
#[derive(Clone, Debug, PartialEq)]
pub struct Interrupted<M> {
    /// Calls without a result.
    pub unanswered: Vec<ToolCall<M>>,
    /// Approvals that wait for a person, or for the turn to go on.
    pub pending_approvals: Vec<String>,
}

/// What an exclusive operation needs before it may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusive {
    /// A new prompt or turn, a change of preset, model or sections: a session at rest, with everything saved.
    AtRest,
    /// Ending an interrupted turn: everything saved.
    Interrupted,
    /// Showing what is stored: everything saved.
    Reload,
    /// Saving what is pending, or saying what becomes of it.
    Flush,
    /// Letting go of the session: everything saved, and nothing under way.
    Dispose,
}

/// A running turn.
#[derive(Clone, Debug)]
struct Turn<M> {
    prepared: Option<Prepared<M>>,
    system_prompt: String,
    /// Whether the system prompt lists skills.
    offers_skills: bool,
    notices: Vec<Notice>,
    built: Option<RequestTrace>,
    /// Estimated tokens of the system prompt and the tools, as they were last asked with.
    overhead: Option<u32>,
    partial: Option<Incoming<M>>,
    degraded: Vec<Degraded>,
}

/// What a turn keeps once its first request is on its way, and forgets otherwise.
#[derive(Clone, Debug)]
struct Prepared<M> {
    message: M,
    outline: MessageOutline,
    snapshot: Option<RuntimeContextSnapshot>,
    sections: Vec<Section>,
}

/// A session.
#[derive(Debug)]
pub struct Machine<M> {
    id: String,
    origin: String,
    cwd: String,
    created_at: f64,
    updated_at: f64,
    header: Header,
    counters: Counters,
    surroundings: Surroundings<M>,
    loaded_from: u32,
    bodies: Vec<M>,
    outlines: Vec<MessageOutline>,
    snapshots: Vec<RuntimeContextSnapshot>,
    checkpoints: Vec<Checkpoint>,
    compactions: Vec<CompactionCheckpoint>,
    damage: Vec<Damage>,
    turn: Option<Turn<M>>,
    turns_begun: u64,
    times_reloaded: u64,
    runs_elsewhere: bool,
    ending: bool,
    exclusive: bool,
    disposed: bool,
    queue: VecDeque<Rc<Commit<M>>>,
    save_error: Option<Error>,
    dispatched: Option<RequestTrace>,
    /// What the last request showed.
    shown: Option<shown::Shown<M>>,
    budget: Option<ContextBudget>,
    /// What the host's tokenizer said of texts that requests hold beside the messages.
    counted: Vec<(String, u32)>,
    /// What the reports of the turn's next request say was declared.
    events: Vec<DeclaredEvent>,
    /// What was declared and shows in no request yet.
    declared: Vec<DeclaredEvent>,
    gate: GateState<M>,
}

impl<M: MessageData> Machine<M> {
    /// A new session; its first commit waits in the queue.
    ///
    /// # Errors
    /// `invalid_argument` for a bad id or bad sections.
    pub fn create(
        options: &NewSession,
        id: String,
        surroundings: Surroundings<M>,
        stamp: &Stamp,
    ) -> Result<Self> {
        check_id(&id)?;
        let header = Header::new(options)?;
        let cwd = options.cwd.clone().unwrap_or_default();
        let mut settings = header.to_settings();
        settings.insert(ORIGIN.to_owned(), Value::from(stamp.operation_id.as_str()));
        let record = SessionRecord {
            id: id.clone(),
            cwd: cwd.clone(),
            created_at: stamp.now,
            updated_at: stamp.now,
            message_count: 0,
            counters: Counters::default(),
            settings,
        };
        let stored = StoredSession {
            record: record.clone(),
            outlines: Vec::new(),
            snapshots: Vec::new(),
            checkpoints: Vec::new(),
            compactions: Vec::new(),
            damage: Vec::new(),
        };
        let mut machine = Self::open(stored, 0, Vec::new(), surroundings)?;
        let mut commit = machine.empty_commit(stamp);
        commit.create = Some(record);
        commit.expected = Some(0);
        machine.counters.conversation = 1;
        machine.queue.push_back(Rc::new(commit));
        Ok(machine)
    }

    /// A stored session, with its message bodies from `loaded_from` on.
    ///
    /// # Errors
    /// `storage_failed` where the number of bodies makes no sense.
    pub fn open(
        stored: StoredSession,
        loaded_from: u32,
        bodies: Vec<M>,
        surroundings: Surroundings<M>,
    ) -> Result<Self> {
        let mut damage = stored.damage;
        let (header, refusals) = Header::readable(&stored.record.settings);
        for refusal in refusals {
            damage.push(Damage::new(keys::SESSIONS, None, refusal));
        }
        // Of a record that cannot be read no setting is there.
        if !damage.iter().any(|damage| damage.store == keys::SESSIONS) {
            for name in lost(&stored.record.settings) {
                let text = format!("the setting `{name}`, which it was stored with, is not there");
                damage.push(Damage::new(keys::SESSIONS, None, text));
            }
        }
        let expected = stored.outlines.len().checked_sub(loaded_from as usize);
        if expected != Some(bodies.len()) || stored.outlines.len() != stored.record.message_count as usize {
            let text = "the stored session is damaged: its message count, outlines and messages disagree";
            return Err(Error::new(ErrorCode::StorageFailed, text).with("sessionId", stored.record.id));
        }
        Ok(Self {
            origin: stored.record.origin().to_owned(),
            id: stored.record.id,
            cwd: stored.record.cwd,
            created_at: stored.record.created_at,
            updated_at: stored.record.updated_at,
            header,
            counters: stored.record.counters,
            surroundings,
            loaded_from,
            bodies,
            outlines: stored.outlines,
            snapshots: stored.snapshots,
            checkpoints: stored.checkpoints,
            compactions: stored.compactions,
            damage,
            turn: None,
            turns_begun: 0,
            times_reloaded: 0,
            runs_elsewhere: false,
            ending: false,
            exclusive: false,
            disposed: false,
            queue: VecDeque::new(),
            save_error: None,
            dispatched: None,
            shown: None,
            budget: None,
            counted: Vec::new(),
            events: Vec::new(),
            declared: Vec::new(),
            gate: GateState::default(),
        })
    }

    /// Where a stored session's bodies are read from: all of a conversation of up to 1,000 messages, else from the
    /// last compaction on.
    pub fn first_to_load(stored: &StoredSession) -> u32 {
        if stored.outlines.len() <= 1_000 {
            return 0;
        }
        stored
            .compactions
            .last()
            .map_or(0, |compaction| compaction.first_kept_message_index.0)
            .min(stored.record.message_count)
    }

    // ---- who may do what -------------------------------------------------------------------------------------

    /// Begins an exclusive operation, or says why not.
    ///
    /// # Errors
    /// The first that applies: `disposed`, `session_busy`, `session_interrupted`, `pending_save`.
    pub fn begin_exclusive(&mut self, kind: Exclusive) -> Result<()> {
        self.check_live()?;
        if matches!(kind, Exclusive::AtRest | Exclusive::Interrupted) {
            self.check_whole()?;
        }
        if self.exclusive || self.is_running() {
            let text =
                "the session is busy with another turn or operation; wait for it to end or call `abort()`";
            return Err(Error::new(ErrorCode::SessionBusy, text));
        }
        if kind == Exclusive::Dispose && self.save_error.is_none() && !self.queue.is_empty() {
            let text = "the session is being saved; wait for that to end";
            return Err(Error::new(ErrorCode::SessionBusy, text));
        }
        if matches!(kind, Exclusive::AtRest | Exclusive::Interrupted) && self.runs_elsewhere() {
            let text = "a turn of this session runs in another tab or worker; wait for it to end there";
            return Err(Error::new(ErrorCode::SessionBusy, text).with("elsewhere", true));
        }
        if kind == Exclusive::AtRest && self.header.open_turn.is_some() {
            let text = "a turn of this session was cut off; call `resume()` or `abandon()` first";
            return Err(Error::new(ErrorCode::SessionInterrupted, text));
        }
        if kind == Exclusive::Interrupted && self.header.open_turn.is_none() {
            return Err(Error::invalid(
                "this session has no interrupted turn; there is nothing to resume or abandon",
            ));
        }
        if kind != Exclusive::Flush && self.save_error.is_some() {
            return Err(Error::new(ErrorCode::PendingSave, self.way_out()));
        }
        self.exclusive = true;
        Ok(())
    }

    /// What to do about a pending save.
    fn way_out(&self) -> &'static str {
        match self.save_error.as_ref().map(Error::code) {
            Some(ErrorCode::Conflict) => {
                "another tab or worker wrote this conversation and a save is pending; call `reload` with `pending` set to `fork` or `discard` first"
            }
            Some(ErrorCode::NotFound) => {
                "the session was deleted elsewhere and a save is pending; call `reload` with `pending` set to `fork` or `discard` first"
            }
            _ => "a save of this session is pending; call `flush()` first",
        }
    }

    /// Ends an exclusive operation.
    pub fn end_exclusive(&mut self) {
        self.exclusive = false;
    }

    /// Lets go of the session for good, and of what is pending.
    pub fn dispose(&mut self) {
        self.disposed = true;
        self.queue.clear();
        self.save_error = None;
    }

    /// Fails where the session was disposed, or something stored of it is damaged: then it can be read and deleted, and nothing
    /// is decided, sent or saved by what is left of it.
    ///
    /// # Errors
    /// `disposed`; `storage_failed`.
    pub fn check_whole(&self) -> Result<()> {
        self.check_live()?;
        if self.damage.is_empty() {
            return Ok(());
        }
        Err(damaged(
            &self.id,
            "it can only be read, and `state.damage` says what is wrong",
        ))
    }

    /// Something stored of it turned out to be damaged.
    pub(super) fn is_damaged(&mut self, damage: Damage) {
        if !self.damage.contains(&damage) {
            self.damage.push(damage);
        }
    }

    /// What is wrong with what is stored.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Fails where the session was disposed.
    ///
    /// # Errors
    /// `disposed`.
    pub fn check_live(&self) -> Result<()> {
        if self.disposed {
            return Err(Error::new(
                ErrorCode::Disposed,
                "the session was disposed; open it again with `openSession`",
            ));
        }
        Ok(())
    }

    // ---- the turn --------------------------------------------------------------------------------------------

    /// Prepares a turn, and numbers it. Nothing is kept until [`Machine::dispatched`].
    ///
    /// # Errors
    /// `invalid_argument` for a message that is no user message.
    pub fn prepare(&mut self, input: TurnInput<M>) -> Result<u64> {
        let mut outline = self.dialect().outline(&input.message, true)?;
        outline.tokens = input.tokens.unwrap_or(outline.tokens);
        if !outline.user_turn {
            return Err(Error::invalid(
                "a turn begins with a message of the role `user` that is more than tool results",
            ));
        }
        let snapshot = (!input.skills.is_empty()).then(|| RuntimeContextSnapshot {
            user_turn: turn_count(&self.outlines),
            content: skills::render_skills(&input.skills).content,
            timestamp: 0.0,
            skills: Some(input.skills),
            placement: Some(Placement::User),
        });
        let offers_skills = !input.offered_skills.is_empty();
        let (sections, system_prompt) = self.render(input.offered_skills)?;
        self.turn = Some(Turn {
            system_prompt,
            offers_skills,
            prepared: Some(Prepared {
                message: input.message,
                outline,
                snapshot,
                sections,
            }),
            notices: input.notices,
            built: None,
            overhead: None,
            partial: None,
            degraded: Vec::new(),
        });
        self.turns_begun += 1;
        self.forget_decisions();
        Ok(self.turns_begun)
    }

    /// The system prompt as it stands, with its sections. Declares what differs from the last dispatched prompt by nobody's change
    /// of a setting.
    fn render(&mut self, offered_skills: String) -> Result<(Vec<Section>, String)> {
        let legacy = self.shows_legacy_context()?;
        let skills_before = self.section_before(SKILLS)?.unwrap_or_default();
        let permissions_before = self.section_before(PERMISSIONS)?;
        self.show_declared(true);
        let changes = [
            (
                DeclaredEvent::Skills,
                !self.checkpoints.is_empty() && skills_before != offered_skills,
            ),
            (
                DeclaredEvent::LegacyContext,
                permissions_before.is_some_and(|before| before.ends_with(REPLACES) != legacy),
            ),
        ];
        for (event, happened) in changes {
            self.events.retain(|shown| *shown != event);
            if happened {
                note(&mut self.events, event);
            }
        }
        let sections = self.sections(offered_skills, legacy);
        let rendered = render_system_prompt(&sections)?;
        Ok((sections, rendered))
    }

    /// A section of the last dispatched prompt.
    fn section_before(&self, name: &str) -> Result<Option<String>> {
        let sections = replay_system_prompt(&self.checkpoints, u32::MAX)?;
        let section = sections.into_iter().find(|section| section.name == name);
        Ok(section.map(|section| section.content))
    }

    /// The sections of the system prompt, as they stand.
    fn sections(&self, offered_skills: String, shows_legacy_context: bool) -> Vec<Section> {
        let section = |name: &str, content: String| Section {
            name: name.to_owned(),
            content,
        };
        let mut sections = vec![section("preamble", self.header.system_prompt.clone())];
        sections.push(section(
            "project_instructions",
            project_instructions_body(&self.header.project_instructions),
        ));
        self.header.sections.iter().cloned().append_to(&mut sections);
        sections.push(section(SKILLS, offered_skills));
        let directory = self.working_directory();
        if !directory.is_empty() {
            sections.push(section("cwd", format!("Current working directory: {directory}")));
        }
        if let Some(context) = self.run_context() {
            sections.push(section("run_context", context.extra_system_prompt()));
        }
        let text = permissions_text(
            self.header.preset(),
            &directory,
            self.run_context(),
            shows_legacy_context,
        );
        sections.push(section(PERMISSIONS, text));
        sections
    }

    fn shows_legacy_context(&self) -> Result<bool> {
        if self.snapshots.iter().all(|snapshot| snapshot.placement.is_some()) {
            return Ok(false);
        }
        let (plan, _) = project(&self.outlines, &self.snapshots, self.compactions.last())?;
        Ok(plan
            .sources
            .iter()
            .any(|source| matches!(source, Source::RuntimeContext { .. })))
    }

    /// What to send to the model now. Asking again before [`Machine::dispatched`] gives the same.
    ///
    /// # Errors
    /// `invalid_argument` outside a turn and while calls are open; `budget_exceeded`, and then nothing was asked.
    pub fn request(&mut self) -> Result<(ModelRequest<M>, RequestReport)> {
        let Some(mut turn) = self.turn.take() else {
            return Err(no_turn());
        };
        let open = self.open_calls().0;
        let result = if turn.prepared.is_none() && !open.is_empty() {
            let ids: Vec<&str> = open.iter().map(|(_, call)| call.id.as_str()).listed();
            Err(Error::invalid(format!(
                "tool calls are open: `{}`; append their results first",
                joined(&ids, "`, `")
            )))
        } else {
            self.build_request(&mut turn)
        };
        self.turn = Some(turn);
        result
    }

    /// Builds the request of a turn, the user message that is not yet kept included.
    fn build_request(&mut self, turn: &mut Turn<M>) -> Result<(ModelRequest<M>, RequestReport)> {
        let Some(prepared) = turn.prepared.clone() else {
            return self.build_stored_request(turn);
        };
        self.show_prepared(&prepared);
        let result = self.build_stored_request(turn);
        self.hide_prepared(&prepared);
        result
    }

    /// Shows what a turn has prepared as if it were kept, until it is hidden again.
    fn show_prepared(&mut self, prepared: &Prepared<M>) {
        self.bodies.push(prepared.message.clone());
        self.outlines.push(prepared.outline.clone());
        prepared.snapshot.iter().cloned().append_to(&mut self.snapshots);
    }

    fn hide_prepared(&mut self, prepared: &Prepared<M>) {
        self.bodies.pop();
        self.outlines.pop();
        if prepared.snapshot.is_some() {
            self.snapshots.pop();
        }
    }

    fn build_stored_request(&mut self, turn: &mut Turn<M>) -> Result<(ModelRequest<M>, RequestReport)> {
        self.show_declared(false);
        let shown = self.shown_now()?;
        let tools = self.tools(turn.offers_skills);
        let texts: Vec<&str> = tools.iter().map(|tool| tool.json.as_str()).listed();
        let (of_prompt, of_tools) = self.overhead(turn);
        let budget = self.budget_of(shown.parts(of_prompt, of_tools));
        let trace = RequestTrace {
            tools: joined(&texts, ","),
            system_prompt: turn.system_prompt.clone(),
            map: shown.map(),
        };
        let mut notices = shown.notices();
        turn.notices.iter().cloned().append_to(&mut notices);
        let report = RequestReport {
            map: trace.map.clone(),
            budget,
            divergence: divergence(self.dispatched.as_ref(), &trace, &self.events),
            notices,
        };
        let request = ModelRequest {
            system_prompt: turn.system_prompt.clone(),
            messages: shown.messages(),
            tools: tools.iter().map(|tool| tool.declaration.clone()).listed(),
        };
        self.shown = Some(shown);
        self.budget = Some(budget);
        turn.built = None;
        budget.check()?;
        turn.built = Some(trace);
        turn.overhead = Some(of_prompt.saturating_add(of_tools));
        Ok((request, report))
    }

    /// Tokens of the system prompt, and of the tools.
    fn overhead(&self, turn: &Turn<M>) -> (u32, u32) {
        let tools = self.tools(turn.offers_skills).into_iter();
        let tools = tools.fold(0, |sum, tool| self.cost(&tool.json).saturating_add(sum));
        (self.cost(&turn.system_prompt), tools)
    }

    fn budget_of(&self, parts: BudgetParts) -> ContextBudget {
        let model = self.header.model.as_ref();
        ContextBudget::new(
            model.and_then(|model| model.context_window),
            model.and_then(|model| model.max_tokens),
            parts,
        )
    }

    /// The texts that a request holds beside messages, for a host that counts tokens, with what it said of them before, and
    /// whether they are there whatever it says: nobody could take them back.
    pub fn counted(&self) -> Vec<(String, Option<u32>, bool)> {
        let mut texts = Vec::new();
        if let Some(turn) = &self.turn {
            texts.push((turn.system_prompt.as_str(), false));
            for tool in self.tools(turn.offers_skills) {
                texts.push((&tool.json, false));
            }
            let prepared = turn.prepared.iter().filter_map(|it| it.snapshot.as_ref());
            prepared.for_each(|snapshot| texts.push((&snapshot.content, false)));
        }
        texts.push((INTERRUPTED, true));
        for snapshot in &self.snapshots {
            texts.push((&snapshot.content, true));
        }
        let summary = self.compactions.last().map(CompactionCheckpoint::shown);
        summary.iter().for_each(|summary| texts.push((summary, true)));
        let known = |(text, stays): (&str, bool)| (text.to_owned(), self.count_of(text), stays);
        texts.into_iter().map(known).listed()
    }

    /// What the host says of them now.
    pub fn set_counted(&mut self, counted: Vec<(String, u32)>) {
        self.counted = counted;
    }

    fn count_of(&self, text: &str) -> Option<u32> {
        let found = self.counted.iter().find(|(known, _)| known == text);
        found.map(|(_, tokens)| *tokens)
    }

    /// Tokens of a text that is no message: as the host counts them, else estimated.
    fn cost(&self, text: &str) -> u32 {
        self.count_of(text).unwrap_or_else(|| text_tokens(text))
    }

    fn model_key(&self) -> String {
        self.header.model.as_ref().map(ModelRef::key).unwrap_or_default()
    }

    /// Estimated tokens per source, from one on. Adds them to the parts of the messages.
    fn measure(
        &self,
        projection: &Projection,
        from: usize,
        compaction: Option<&CompactionCheckpoint>,
        parts: &mut BudgetParts,
    ) -> Vec<u32> {
        let snapshot_tokens = |at: u32| {
            self.snapshots
                .get(at as usize)
                .map_or(0, |it| self.cost(&it.content))
        };
        let sources = projection.sources.get(from..).unwrap_or_default();
        let tokens = sources.iter().map(|source| match source {
            Source::History { message_index, .. } => {
                let own = self
                    .outlines
                    .get(message_index.offset())
                    .map_or(0, |outline| outline.tokens);
                let shown = projection.shown_in_front(*message_index).iter();
                let skills = shown.fold(0u32, |sum, it| {
                    sum.saturating_add(snapshot_tokens(it.snapshot_index))
                });
                parts.messages = parts.messages.saturating_add(own);
                parts.skills = parts.skills.saturating_add(skills);
                own.saturating_add(skills)
            }
            Source::RuntimeContext { snapshot_index, .. } => {
                let own = snapshot_tokens(*snapshot_index);
                parts.legacy_context = parts.legacy_context.saturating_add(own);
                own
            }
            Source::Compaction { .. } => {
                let own = compaction.map_or(0, |checkpoint| self.cost(&checkpoint.shown()));
                parts.summary = parts.summary.saturating_add(own);
                own
            }
            Source::InterruptedToolResult { .. } => {
                let own = self.cost(INTERRUPTED);
                parts.messages = parts.messages.saturating_add(own);
                own
            }
        });
        tokens.listed()
    }

    /// The request is on its way. The first time, the user message, its snapshot and the checkpoint are kept, in
    /// one commit; later, only what "the last dispatched request" means changes.
    ///
    /// # Errors
    /// `invalid_argument` outside a turn and before [`Machine::request`].
    pub fn dispatched(&mut self, stamp: &Stamp) -> Result<()> {
        let base = self.lengths();
        let Some(turn) = &mut self.turn else {
            return Err(no_turn());
        };
        if turn.built.is_none() && turn.prepared.is_some() {
            return Err(Error::invalid(
                "nothing was requested yet; call `request()` before `dispatched()`",
            ));
        }
        // What can fail comes first.
        let checkpoints = match &turn.prepared {
            Some(prepared) => {
                let message_count = base.messages.saturating_add(1);
                diff_system_prompt(&self.checkpoints, &prepared.sections, message_count, stamp.now)?
            }
            None => Vec::new(),
        };
        let Some(trace) = turn.built.take() else {
            return Ok(());
        };
        if let Some(prepared) = turn.prepared.take() {
            self.checkpoints = checkpoints;
            if let Some(mut snapshot) = prepared.snapshot {
                snapshot.timestamp = stamp.now;
                self.snapshots.push(snapshot);
            }
            self.bodies.push(prepared.message);
            self.outlines.push(prepared.outline);
            let open = vec![Setting::OpenTurn(Some(self.opened_turn(base.messages)))];
            self.commit_conversation(&base, open, Vec::new(), stamp);
        }
        self.dispatched = Some(trace);
        self.events.clear();
        Ok(())
    }

    /// The answer so far. The last one is kept where the model fails or a person stops it.
    ///
    /// # Errors
    /// `invalid_argument` where it is no assistant message, or there is no dispatched turn.
    pub fn update(&mut self, partial: Incoming<M>) -> Result<()> {
        let outline = partial.outline(self.dialect())?;
        if outline.role != Role::Assistant {
            return Err(Error::invalid(
                "a partial answer must be a message with the role `assistant`",
            ));
        }
        self.running_turn()?.partial = Some(partial);
        Ok(())
    }

    /// Keeps assistant messages and results of open calls, in one commit. An assistant message that arrives while
    /// calls are open first gets interrupted results stored for them. One with a call that no result could answer is
    /// kept as one that failed.
    ///
    /// # Errors
    /// `invalid_argument` for anything else, or outside a dispatched turn; `tool_not_gated` for a result of a call
    /// that was not allowed. Nothing of the batch is kept then.
    pub fn append(&mut self, incoming: Vec<Incoming<M>>, stamp: &Stamp) -> Result<()> {
        self.running_turn()?;
        let mut batch = Batch::after(self);
        let mut answered = false;
        for message in incoming {
            let mut message = message;
            let mut outline = message.outline(self.dialect())?;
            match outline.role {
                Role::Assistant => {
                    batch.answer_open_calls(self);
                    outline.usage = self.usage(&message.body);
                    if outline.stop.is_none() && !outline.is_answerable() {
                        let body = self
                            .dialect()
                            .stopped(&message.body, StopKind::Error, Some(UNANSWERABLE));
                        message.body = body;
                        outline.stop = Some(StopKind::Error);
                    }
                    batch.push(message, outline);
                    answered = true;
                }
                Role::ToolResult => {
                    let said = texts(&message.body).first().and_then(|text| text.text());
                    for answer in &outline.answers {
                        // Not every dialect can say that a tool failed: there, words that refuse the call are known by what they say.
                        let mut answer = answer.clone();
                        answer.is_error |= said
                            .as_ref()
                            .is_some_and(|said| self.is_refusal(&answer.id, said));
                        let answer = &answer;
                        // It answers the first that it may mean: that one has to be allowed, as it stands in the message. One that
                        // says no tool may mean calls of several: each has to be.
                        let open = &batch.open;
                        let meant = open.0.iter().filter(|(_, call)| open.is_meant(call, answer));
                        let first = meant.clone().next();
                        for (at, call) in meant {
                            if first.is_some_and(|(first, its)| at == first || call.name != its.name) {
                                self.check_allowed(*at, call, &batch, answer)?;
                            }
                        }
                        if !batch.take(self, answer) {
                            let id = answer.id.as_str();
                            return Err(Error::invalid(format!(
                                "no open tool call has the id `{id}`; append results after the message that holds their call"
                            ))
                            .with("toolCallId", id));
                        }
                    }
                    batch.push(message, outline);
                }
                Role::User | Role::Other => {
                    return Err(Error::invalid(
                        "a turn takes assistant messages and tool results; begin another turn for a user message",
                    ));
                }
            }
        }
        // An answer means that the request it answers was sent.
        if answered && let Some(trace) = self.turn.as_mut().and_then(|turn| turn.built.take()) {
            self.dispatched = Some(trace);
        }
        self.keep(batch, Vec::new(), stamp);
        Ok(())
    }

    /// What the provider reported of the request that an answer of this turn is for.
    fn usage(&self, answer: &M) -> Option<Usage> {
        let overhead = self.turn.as_ref().and_then(|turn| turn.overhead);
        overhead
            .zip(self.dialect().usage(answer))
            .map(|(overhead, total)| Usage {
                total,
                overhead,
                model: self.model_key(),
            })
    }

    /// A result without an error means that the tool ran. It may only have run if exactly this call was allowed.
    fn check_allowed(&self, at: usize, call: &Call, batch: &Batch<M>, answer: &Answer) -> Result<()> {
        if !self.surroundings.strict || answer.is_error {
            return Ok(());
        }
        let digest = self.digest_of(at, call, &batch.arguments);
        if batch.leaves.iter().any(|leave| leave.is_for(&call.id, &digest)) {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::ToolNotGated,
            format!(
                "the call `{}` of tool `{}` was not allowed; ask `gate` before it runs, or open the runtime with `strict: false`",
                call.id, call.name
            ),
        )
        .with("toolCallId", call.id.clone())
        .with("toolName", call.name.clone()))
    }

    /// The digest of a call of a message.
    fn digest_of(&self, at: usize, call: &Call, arguments: &[Option<M>]) -> String {
        let arguments = arguments.get(at).cloned().flatten();
        self.digest(&ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: arguments.unwrap_or_else(|| M::object(Vec::new())),
        })
    }

    /// What a turn that is driven by us does next.
    pub fn next(&self) -> Next<M> {
        let open = self.open_tool_calls();
        if !open.is_empty() {
            return Next::RunTools(open);
        }
        match self.outlines.last() {
            Some(last) if last.role == Role::Assistant => match last.stop {
                Some(StopKind::Error) => {
                    let said = self.bodies.last().and_then(|body| self.dialect().failure(body));
                    let reason = if last.is_answerable() {
                        "the model failed"
                    } else {
                        UNANSWERABLE
                    };
                    Next::Settle(Outcome::Error, Some(said.unwrap_or_else(|| reason.to_owned())))
                }
                Some(StopKind::Aborted) => Next::Settle(Outcome::Cancelled, None),
                None => Next::Settle(Outcome::Success, None),
            },
            _ => Next::CallModel,
        }
    }

    /// Ends the turn. Before the first dispatch nothing is kept. After it, a failed or cancelled turn keeps the
    /// last partial answer, and every open call gets an interrupted result; the session stays busy until
    /// [`Machine::ended`].
    ///
    /// # Errors
    /// `invalid_argument` outside a turn; before the first dispatch for everything but `cancelled`.
    pub fn settle(
        &mut self,
        outcome: Outcome,
        error: Option<String>,
        stamp: &Stamp,
    ) -> Result<(TurnEnd, Vec<Degraded>)> {
        let dialect = self.dialect();
        let Some(turn) = &mut self.turn else {
            return Err(no_turn());
        };
        let end = TurnEnd { outcome, error };
        if turn.prepared.is_some() {
            if outcome != Outcome::Cancelled {
                return Err(Error::invalid("nothing was dispatched; call `cancel()`"));
            }
            self.turn = None;
            // It holds a message that nobody has.
            self.shown = None;
            return Ok((end, Vec::new()));
        }
        let unanswerable = self
            .outlines
            .last()
            .is_some_and(|last| last.stop == Some(StopKind::Error) && !last.is_answerable());
        let end = match outcome {
            // The host may not have noticed what became of that answer.
            Outcome::Success if unanswerable => TurnEnd {
                outcome: Outcome::Error,
                error: Some(UNANSWERABLE.to_owned()),
            },
            _ => end,
        };
        let stop = match end.outcome {
            Outcome::Success => None,
            Outcome::Error => Some(StopKind::Error),
            Outcome::Cancelled => Some(StopKind::Aborted),
        };
        let last = match (&turn.partial, stop) {
            (Some(partial), Some(stop)) => {
                let mut last = partial.clone();
                last.body = dialect.stopped(&partial.body, stop, end.error.as_deref());
                let mut outline = last.outline(dialect)?;
                // Not every dialect has a member that says so.
                outline.stop = Some(stop);
                Some((last, outline))
            }
            _ => None,
        };
        let mut batch = Batch::after(self);
        batch.answer_open_calls(self);
        if let Some((message, outline)) = last {
            batch.push(message, outline);
        }
        self.keep(batch, self.end_settings(&end), stamp);
        let degraded = self.turn.take().map(|turn| turn.degraded).unwrap_or_default();
        self.ending = true;
        Ok((end, degraded))
    }

    /// A turn that ended was saved, or could not be: the next may begin.
    pub fn ended(&mut self) {
        self.ending = false;
        self.forget_earlier();
    }

    /// Ends a turn that a restart cut off: open calls are answered as interrupted. The session stays busy until
    /// [`Machine::ended`].
    ///
    /// # Errors
    /// `invalid_argument` where no turn was cut off.
    pub fn abandon(&mut self, stamp: &Stamp) -> Result<TurnEnd> {
        self.check_interrupted()?;
        let end = TurnEnd {
            outcome: Outcome::Cancelled,
            error: None,
        };
        let mut batch = Batch::after(self);
        batch.answer_open_calls(self);
        self.keep(batch, self.end_settings(&end), stamp);
        self.ending = true;
        Ok(end)
    }

    /// Goes on with a turn that a restart cut off. Calls that a person is still asked about, or that were approved and not
    /// begun, stay open; one that a person refused is answered so, and every other as interrupted: what may have run is never
    /// run again. Numbers the turn.
    ///
    /// # Errors
    /// `invalid_argument` where no turn was cut off.
    pub fn resume(&mut self, stamp: &Stamp) -> Result<u64> {
        self.check_interrupted()?;
        let system_prompt = match self.message_count().checked_sub(1) {
            Some(last) => system_prompt_at(&self.checkpoints, last)?,
            None => String::new(),
        };
        let open = self.open_tool_calls();
        let mut batch = Batch::after(self);
        let becomes = |number: usize| {
            let asked = open.get(number).and_then(|call| self.question(call));
            match asked.map(|it| (it.status, &it.message)) {
                Some((ApprovalStatus::Pending | ApprovalStatus::Approved, _)) => Becomes::Open,
                Some((ApprovalStatus::Rejected, text)) => Becomes::Refused(text.clone()),
                Some((ApprovalStatus::Claimed, _)) | None => Becomes::Interrupted,
            }
        };
        batch.answer(self, &becomes, stamp.now);
        let offers_skills = self.section_before(SKILLS)?.is_some();
        self.turn = Some(Turn {
            prepared: None,
            system_prompt,
            offers_skills,
            notices: Vec::new(),
            built: None,
            overhead: None,
            partial: None,
            degraded: Vec::new(),
        });
        self.turns_begun += 1;
        self.forget_decisions();
        self.keep(batch, Vec::new(), stamp);
        Ok(self.turns_begun)
    }

    fn check_interrupted(&self) -> Result<()> {
        if self.has_open_turn() {
            return Ok(());
        }
        Err(Error::invalid(
            "this session has no interrupted turn; there is nothing to resume or abandon",
        ))
    }

    /// Shows another end than the one that waits to be saved.
    pub fn end_shows(&mut self, end: &TurnEnd) {
        self.header.set(Setting::LastOutcome(Some(end.outcome)));
        self.header.set(Setting::LastError(end.error.clone()));
    }

    fn end_settings(&self, end: &TurnEnd) -> Vec<Setting> {
        vec![
            Setting::OpenTurn(None),
            Setting::LastOutcome(Some(end.outcome)),
            Setting::LastError(end.error.clone()),
        ]
    }

    fn running_turn(&mut self) -> Result<&mut Turn<M>> {
        match &mut self.turn {
            None => Err(no_turn()),
            Some(turn) if turn.prepared.is_some() => Err(Error::invalid(
                "the turn was not dispatched yet; call `dispatched()` first",
            )),
            Some(turn) => Ok(turn),
        }
    }

    /// Calls of the last assistant message that have no result. Those of a message that failed are not open.
    fn open_calls(&self) -> OpenCalls {
        OpenCalls::after(&self.outlines, self.last_message())
    }

    /// The position of the message that the conversation ends in, results aside.
    fn last_message(&self) -> usize {
        let last = self
            .outlines
            .iter()
            .rposition(|outline| outline.role != Role::ToolResult);
        last.unwrap_or_default()
    }

    /// The body of the message that holds the open calls.
    fn call_message(&self) -> Option<M> {
        self.body(MessageIndex(
            u32::try_from(self.last_message()).unwrap_or(u32::MAX),
        ))
    }

    /// Every call of the last assistant message.
    pub(super) fn last_calls(&self) -> &[Call] {
        let last = self.outlines.get(self.last_message());
        last.map_or(&[], |outline| &outline.calls)
    }

    /// The open calls with their arguments.
    pub fn open_tool_calls(&self) -> Vec<ToolCall<M>> {
        let open = self.open_calls().0;
        if open.is_empty() {
            return Vec::new();
        }
        let arguments = self
            .call_message()
            .map(|message| self.dialect().call_arguments(&message))
            .unwrap_or_default();
        let call = |(position, call): (usize, Call)| ToolCall {
            arguments: arguments
                .get(position)
                .cloned()
                .flatten()
                .unwrap_or_else(|| M::object(Vec::new())),
            id: call.id,
            name: call.name,
        };
        open.into_iter().map(call).listed()
    }

    // ---- settings --------------------------------------------------------------------------------------------

    /// A person's choice of preset.
    pub fn set_preset(&mut self, preset: Option<Preset>, stamp: &Stamp) {
        if self.header.preset_chosen && self.header.permission_preset == preset {
            return;
        }
        if self.header.preset() != preset {
            self.declare(DeclaredEvent::Preset);
        }
        self.commit_settings(
            vec![Setting::PermissionPreset(preset), Setting::PresetChosen(true)],
            stamp,
        );
    }

    /// Another model, preamble or host sections; what is `None` stays.
    ///
    /// # Errors
    /// `invalid_argument` for bad sections, and for a model that leaves no room for a request.
    pub fn configure(
        &mut self,
        model: Option<Option<ModelRef>>,
        system_prompt: Option<String>,
        sections: Option<Vec<Section>>,
        stamp: &Stamp,
    ) -> Result<()> {
        if let Some(sections) = &sections {
            validate_host_sections(sections)?;
        }
        if let Some(Some(model)) = &model {
            model.check_room()?;
        }
        let mut changes = Vec::new();
        if let Some(model) = model.filter(|model| *model != self.header.model) {
            self.declare(DeclaredEvent::Model);
            changes.push(Setting::Model(model));
        }
        if let Some(text) = system_prompt.filter(|text| *text != self.header.system_prompt) {
            self.declare(DeclaredEvent::Sections);
            changes.push(Setting::SystemPrompt(text));
        }
        if let Some(sections) = sections.filter(|sections| *sections != self.header.sections) {
            self.declare(DeclaredEvent::Sections);
            changes.push(Setting::Sections(sections));
        }
        if !changes.is_empty() {
            self.commit_settings(changes, stamp);
        }
        Ok(())
    }

    /// Notes a change that may show in a later request.
    pub(super) fn declare(&mut self, event: DeclaredEvent) {
        note(&mut self.declared, event);
    }

    /// What was declared and shows from now on is reported. A system prompt stands for its whole turn: what shows in it waits
    /// until one is rendered.
    fn show_declared(&mut self, renders: bool) {
        self.declared.retain(|event| {
            let shows = renders || matches!(event, DeclaredEvent::Compaction | DeclaredEvent::Model);
            if shows {
                note(&mut self.events, *event);
            }
            !shows
        });
    }

    /// What a person calls the session.
    pub fn set_title(&mut self, title: String, stamp: &Stamp) {
        self.commit_settings(vec![Setting::Title(Some(title))], stamp);
    }

    /// Whether a person pinned it.
    pub fn set_pinned(&mut self, pinned: bool, stamp: &Stamp) {
        self.commit_settings(vec![Setting::Pinned(pinned)], stamp);
    }

    /// A person has seen this many messages. Says whether that is more than before.
    pub fn mark_read(&mut self, message_count: u32, stamp: &Stamp) -> bool {
        let seen = message_count.min(self.message_count());
        if seen <= self.header.read_count {
            return false;
        }
        self.commit_settings(vec![Setting::ReadCount(seen)], stamp);
        true
    }

    // ---- commits ---------------------------------------------------------------------------------------------

    /// The oldest commit that is not saved.
    pub fn next_commit(&self) -> Option<Rc<Commit<M>>> {
        self.queue.front().cloned()
    }

    /// The oldest commit is saved.
    pub fn saved(&mut self, stored: Counters) {
        if let Some(commit) = self.queue.pop_front() {
            self.approvals_saved(&commit);
        }
        // One whose answer was lost was taken for somebody else's in the meantime, and counted twice: we look once more.
        let ahead = self.saved_settings().saturating_sub(stored.settings);
        if ahead > 0 {
            self.counters.settings = self.counters.settings.saturating_sub(ahead + 1);
        }
        if self.queue.is_empty() {
            self.save_error = None;
        }
        self.forget_earlier();
    }

    /// The oldest commit could not be saved; it and all behind it stay.
    pub fn save_failed(&mut self, error: Error) {
        self.save_error = Some(error);
    }

    /// Why the last save failed, as long as something is pending.
    pub fn save_error(&self) -> Option<&Error> {
        self.save_error.as_ref()
    }

    pub(super) fn queue(&self) -> impl Iterator<Item = &Commit<M>> {
        self.queue.iter().map(|commit| &**commit)
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters
    }

    /// Shows settings that somebody else saved, in so many commits.
    pub(super) fn takes_settings(&mut self, header: Header, commits: u64) {
        self.counters.settings += commits;
        let before = std::mem::replace(&mut self.header, header);
        self.declare_changes(&before);
    }

    /// Notes what somebody else changed and may show in the next request.
    fn declare_changes(&mut self, before: &Header) {
        let now = &self.header;
        let events = [
            (DeclaredEvent::Preset, before.preset() != now.preset()),
            (DeclaredEvent::RunContext, before.run_context != now.run_context),
            (
                DeclaredEvent::Sections,
                before.system_prompt != now.system_prompt || before.sections != now.sections,
            ),
            (DeclaredEvent::Model, before.model != now.model),
        ];
        for (event, happened) in events {
            if happened {
                self.declare(event);
            }
        }
    }

    pub(super) fn gate_state(&mut self) -> &mut GateState<M> {
        &mut self.gate
    }

    pub(super) fn gate_view(&self) -> &GateState<M> {
        &self.gate
    }

    /// The tools that the model is told of while skills are offered to it, or while none are.
    pub fn tools(&self, offers_skills: bool) -> Vec<&ToolDeclaration<M>> {
        let own = self.surroundings.load_tool.as_ref();
        let own = own.filter(|_| offers_skills);
        self.surroundings.tools.iter().chain(own).listed()
    }

    /// Whether the model was told of this tool in the turn under way.
    pub fn is_offered(&self, name: &str) -> bool {
        let offers_skills = self.turn.as_ref().is_some_and(|turn| turn.offers_skills);
        let tools = self.tools(offers_skills);
        tools.iter().any(|tool| tool.name == name)
    }

    /// Whether calls of this tool load a skill, here.
    pub fn is_load_tool(&self, name: &str) -> bool {
        let own = self.surroundings.load_tool.as_ref();
        own.is_some_and(|tool| tool.name == name)
    }

    fn lengths(&self) -> Lengths {
        Lengths {
            messages: self.message_count(),
            snapshots: self.snapshots.len(),
            checkpoints: self.checkpoints.len(),
            compactions: self.compactions.len(),
        }
    }

    /// Shows a batch of messages, and queues its commit. A turn that ends without new messages still commits.
    fn keep(&mut self, batch: Batch<M>, settings: Vec<Setting>, stamp: &Stamp) {
        if batch.staged.is_empty() && settings.is_empty() {
            return;
        }
        let base = self.lengths();
        let over = settings
            .iter()
            .any(|setting| matches!(setting, Setting::OpenTurn(None)));
        let ended = self.end_approvals(&batch.questions_over, over);
        self.set_leaves(batch.leaves);
        for ((message, outline), at) in batch.staged.into_iter().zip(base.messages..) {
            if let Some(turn) = &mut self.turn {
                if outline.role == Role::Assistant {
                    turn.partial = None;
                }
                for path in message.degraded {
                    turn.degraded.push(Degraded {
                        message_index: MessageIndex(at),
                        path,
                    });
                }
            }
            self.bodies.push(message.body);
            self.outlines.push(outline);
        }
        self.commit_conversation(&base, settings, ended, stamp);
    }

    pub(super) fn empty_commit(&self, stamp: &Stamp) -> Commit<M> {
        Commit {
            session_id: self.id.clone(),
            operation_id: stamp.operation_id.clone(),
            // A commit without a time could never be saved, and would hold up all behind it.
            timestamp: if stamp.now.is_finite() {
                stamp.now
            } else {
                self.updated_at
            },
            create: None,
            origin: self.origin.clone(),
            expected: None,
            messages: Vec::new(),
            outline_packs: Vec::new(),
            snapshots: Vec::new(),
            checkpoints: Vec::new(),
            compactions: Vec::new(),
            approvals: Vec::new(),
            settings: BTreeMap::new(),
        }
    }

    /// Queues everything of the conversation that is newer than `base`.
    fn commit_conversation(
        &mut self,
        base: &Lengths,
        settings: Vec<Setting>,
        approvals: Vec<ApprovalChange<M>>,
        stamp: &Stamp,
    ) {
        let mut commit = self.empty_commit(stamp);
        commit.approvals = approvals;
        commit.expected = Some(self.counters.conversation);
        self.counters.conversation += 1;
        let loaded = base.messages.saturating_sub(self.loaded_from) as usize;
        let new = self.bodies.iter().skip(loaded).zip(base.messages..);
        commit.messages = new
            .map(|(body, at)| AppendedMessage {
                index: MessageIndex(at),
                body: body.clone(),
            })
            .listed();
        if !commit.messages.is_empty() {
            commit.outline_packs = packs_from(&self.outlines, base.messages / OUTLINES_PER_PACK);
        }
        commit.snapshots = numbered_from(&self.snapshots, base.snapshots);
        commit.checkpoints = numbered_from(&self.checkpoints, base.checkpoints);
        commit.compactions = numbered_from(&self.compactions, base.compactions);
        self.queue_commit(commit, settings);
    }

    /// How many records the lists have.
    fn counts(&self) -> Value {
        counts([
            self.snapshots.len(),
            self.checkpoints.len(),
            self.compactions.len(),
        ])
    }

    pub(super) fn commit_settings(&mut self, settings: Vec<Setting>, stamp: &Stamp) {
        let commit = self.empty_commit(stamp);
        self.queue_commit(commit, settings);
    }

    pub(super) fn queue_commit(&mut self, mut commit: Commit<M>, settings: Vec<Setting>) {
        for setting in settings {
            commit.settings.insert(setting.name().to_owned(), setting.value());
            self.header.set(setting);
        }
        if !(commit.snapshots.is_empty() && commit.checkpoints.is_empty() && commit.compactions.is_empty()) {
            commit.settings.insert(COUNTS.to_owned(), self.counts());
        }
        self.counters.settings += u64::from(!commit.settings.is_empty());
        self.updated_at = commit.timestamp;
        self.queue.push_back(Rc::new(commit));
    }

    // ---- looking -----------------------------------------------------------------------------------------------

    /// The session's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What tells it from another session of its id.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Its working directory, empty where it has none.
    pub fn cwd(&self) -> &str {
        &self.cwd
    }

    /// Milliseconds since the epoch.
    pub fn created_at(&self) -> f64 {
        self.created_at
    }

    /// Milliseconds since the epoch, of the last change.
    pub fn updated_at(&self) -> f64 {
        self.updated_at
    }

    /// The settings.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The shape of its messages.
    pub fn dialect(&self) -> Dialect {
        self.header.dialect
    }

    /// How many messages the conversation has.
    pub fn message_count(&self) -> u32 {
        u32::try_from(self.outlines.len()).unwrap_or(u32::MAX)
    }

    /// The position of the first loaded message.
    pub fn loaded_from(&self) -> u32 {
        self.loaded_from
    }

    /// The loaded messages.
    pub fn bodies(&self) -> &[M] {
        &self.bodies
    }

    /// Outlines of all messages.
    pub fn outlines(&self) -> &[MessageOutline] {
        &self.outlines
    }

    fn body(&self, index: MessageIndex) -> Option<M> {
        let at = index.0.checked_sub(self.loaded_from)?;
        self.bodies.get(at as usize).cloned()
    }

    /// Snapshots that were dispatched.
    pub fn snapshots(&self) -> &[RuntimeContextSnapshot] {
        &self.snapshots
    }

    /// Checkpoints of dispatched prompts.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        &self.checkpoints
    }

    /// Compactions.
    pub fn compactions(&self) -> &[CompactionCheckpoint] {
        &self.compactions
    }

    /// The system prompt that the model saw at a message.
    ///
    /// # Errors
    /// `invalid_argument` where there is no such message.
    pub fn system_prompt_at(&self, index: u32) -> Result<String> {
        if index >= self.message_count() {
            let text = format!(
                "there is no message {index}; the conversation has {}",
                self.message_count()
            );
            return Err(Error::invalid(text));
        }
        system_prompt_at(&self.checkpoints, index)
    }

    /// The source map of the last dispatched request.
    pub fn projection(&self) -> Option<Projection> {
        self.dispatched.as_ref().map(|trace| trace.map.projection())
    }

    /// The estimate of the last built request.
    pub fn budget(&self) -> Option<ContextBudget> {
        self.budget
    }

    /// Whether a request was built and is not on its way yet.
    pub fn is_asked(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.built.is_some())
    }

    /// The number of the turn under way.
    pub fn current_turn(&self) -> Option<u64> {
        self.turn.as_ref().map(|_| self.turns_begun)
    }

    /// Whether a turn is under way and its first request was dispatched.
    pub fn is_dispatched(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.prepared.is_none())
    }

    /// Whether a turn is under way, or has ended and is being saved.
    pub fn is_running(&self) -> bool {
        self.turn.is_some() || self.ending
    }

    /// Whether the session was disposed.
    pub fn is_disposed(&self) -> bool {
        self.disposed
    }

    /// Whether a turn is open that does not run here.
    pub fn has_open_turn(&self) -> bool {
        self.turn.is_none() && self.header.open_turn.is_some()
    }

    /// Whether such a turn runs in another tab or worker, as far as is known.
    pub fn runs_elsewhere(&self) -> bool {
        self.has_open_turn() && self.runs_elsewhere
    }

    /// Whether it does was looked up.
    pub fn set_runs_elsewhere(&mut self, runs: bool) {
        self.runs_elsewhere = runs;
    }

    /// Whether nothing goes on, and everything is saved.
    pub fn rests(&self) -> bool {
        !self.exclusive && !self.is_running() && self.queue.is_empty()
    }

    /// The turn that a restart cut off.
    pub fn interrupted(&self) -> Option<Interrupted<M>> {
        (self.has_open_turn() && !self.runs_elsewhere).then(|| Interrupted {
            unanswered: self.open_tool_calls(),
            pending_approvals: self.waiting_approvals().map(|it| it.id.clone()).listed(),
        })
    }

    /// The typed text of each loaded actual user message, oldest first, text blocks joined by a line break.
    pub fn title_inputs(&self) -> Vec<M> {
        let loaded = self
            .outlines
            .iter()
            .skip(self.loaded_from as usize)
            .zip(&self.bodies);
        let typed = loaded.filter(|(outline, _)| outline.user_turn);
        typed.map(|(_, body)| M::joined(&texts(body), "\n")).listed()
    }
}

/// Adds an event, each kind once, in the order of the contract.
fn note(events: &mut Vec<DeclaredEvent>, event: DeclaredEvent) {
    if let Err(at) = events.binary_search(&event) {
        events.insert(at, event);
    }
}

/// How much there was before a change.
struct Lengths {
    messages: u32,
    snapshots: usize,
    checkpoints: usize,
    compactions: usize,
}

/// Outlines in packs, from a pack on.
fn packs_from(outlines: &[MessageOutline], first: u32) -> Vec<OutlinePack> {
    let pack_size = OUTLINES_PER_PACK as usize;
    let tail = outlines.get(first as usize * pack_size..).unwrap_or_default();
    let packs = tail.chunks(pack_size).zip(first..);
    packs
        .map(|(outlines, pack)| OutlinePack {
            pack,
            outlines: outlines.to_vec(),
        })
        .listed()
}

pub(super) fn numbered_from<T: Clone>(items: &[T], from: usize) -> Vec<(u32, T)> {
    let numbered = items.iter().zip(0u32..).skip(from);
    numbered.map(|(item, at)| (at, item.clone())).listed()
}

/// Messages on their way in, with the calls that are open after them.
struct Batch<M> {
    dialect: Dialect,
    staged: Vec<(Incoming<M>, MessageOutline)>,
    open: OpenCalls,
    /// The message with the open calls, and the arguments of all of its calls.
    call_message: Option<M>,
    arguments: Vec<Option<M>>,
    /// What may run, and is not used up.
    leaves: Vec<Leave>,
    /// The approvals whose calls have a result by now.
    questions_over: Vec<String>,
}

/// What becomes of an open call.
enum Becomes {
    /// It stays open.
    Open,
    /// It was refused, with this text.
    Refused(String),
    /// It was cut off.
    Interrupted,
}

impl<M: MessageData> Batch<M> {
    fn after(machine: &Machine<M>) -> Self {
        let (dialect, call_message) = (machine.dialect(), machine.call_message());
        let arguments = call_message
            .as_ref()
            .map(|message| dialect.call_arguments(message));
        Self {
            dialect,
            staged: Vec::new(),
            open: machine.open_calls(),
            arguments: arguments.unwrap_or_default(),
            call_message,
            leaves: machine.leaves().to_vec(),
            questions_over: Vec::new(),
        }
    }

    /// A result answers the call that it means; false where there is none.
    fn take(&mut self, machine: &Machine<M>, answer: &Answer) -> bool {
        let Some((at, call)) = self.open.take(answer) else {
            return false;
        };
        self.ends(machine, at, call);
        true
    }

    /// A call has its result: leave for it is used up, and nobody is asked about it any more.
    fn ends(&mut self, machine: &Machine<M>, at: usize, call: Call) {
        let arguments = &self.arguments;
        let twins = self.open.0.iter().filter(|(_, other)| other.id == call.id);
        let answered = Answered {
            digest: machine.digest_of(at, &call, arguments),
            waiting: twins
                .map(|(at, other)| machine.digest_of(*at, other, arguments))
                .listed(),
            id: call.id,
        };
        self.leaves.retain(|leave| !leave.is_over(&answered));
        let questions = machine.approvals().iter();
        for over in questions.filter(|approval| approval.is_over(&answered)) {
            self.questions_over.push(over.id.clone());
        }
    }

    fn push(&mut self, message: Incoming<M>, outline: MessageOutline) {
        if outline.role == Role::Assistant {
            self.open = OpenCalls::of(&outline);
            self.call_message = Some(message.body.clone());
            self.arguments = self.dialect.call_arguments(&message.body);
        }
        self.staged.push((message, outline));
    }

    fn answer_open_calls(&mut self, machine: &Machine<M>) {
        self.answer(machine, &|_| Becomes::Interrupted, 0.0);
    }

    /// Answers open calls by what becomes of the first, the second and so on of them.
    fn answer(&mut self, machine: &Machine<M>, becomes: &dyn Fn(usize) -> Becomes, now: f64) {
        let Some(message) = self.call_message.clone() else {
            return;
        };
        let dialect = self.dialect;
        let mut answered = Vec::new();
        for (number, (at, call)) in std::mem::take(&mut self.open).0.into_iter().enumerate() {
            let body = match becomes(number) {
                Becomes::Open => {
                    self.open.0.push((at, call));
                    continue;
                }
                Becomes::Refused(text) => {
                    dialect.tool_result(&call, &M::string(&text), true, Some(M::from_number(now)))
                }
                Becomes::Interrupted => dialect.interrupted_result(&call, &message),
            };
            let message = Incoming {
                body,
                degraded: Vec::new(),
                failed: true,
                tokens: None,
            };
            if let Ok(outline) = message.outline(dialect) {
                self.staged.push((message, outline));
            }
            answered.push((at, call));
        }
        for (at, call) in answered {
            self.ends(machine, at, call);
        }
    }
}

/// Why an answer with a call that has no id is kept as one that failed.
const UNANSWERABLE: &str = "the answer has a tool call without an `id`; ask the model again";

fn no_turn() -> Error {
    Error::invalid("this turn has ended; begin a new one")
}
