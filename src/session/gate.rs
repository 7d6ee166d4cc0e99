//! What a session brings to the gate: its preset, run context, tools and bypasses, and which calls were allowed.

use super::{Approval, Header, Machine, Setting, Stamp, ToolCall, ToolDeclaration, header::OF_TURN};
use crate::{
    Error, Result,
    context::DeclaredEvent,
    list::Listed,
    message::MessageData,
    paths::PathStyle,
    permissions::{Bypass, BypassScope, Inquiry, PathRequest, Place, Preset, texts_in},
    run_context::RunContext,
    storage::{Counters, SessionRecord},
    untyped::{FromJson, ToJson, field_error, to_object},
};
use serde_json::Value;

/// A run context as it is stored. One that cannot be read stays as it is, and makes the gate ask for everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum StoredRunContext {
    /// None.
    #[default]
    Absent,
    /// One.
    Present(RunContext),
    /// Something that is none.
    Damaged(Value),
}

impl StoredRunContext {
    /// What can be used of it.
    pub fn run_context(&self) -> Option<&RunContext> {
        match self {
            StoredRunContext::Present(context) => Some(context),
            StoredRunContext::Absent | StoredRunContext::Damaged(_) => None,
        }
    }
}

impl From<Option<RunContext>> for StoredRunContext {
    fn from(context: Option<RunContext>) -> Self {
        context.map_or(StoredRunContext::Absent, StoredRunContext::Present)
    }
}

impl FromJson for StoredRunContext {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        Ok(match Option::from_json(value, path) {
            Ok(context) => Option::<RunContext>::into(context),
            Err(_) => StoredRunContext::Damaged(value.clone()),
        })
    }
}

impl ToJson for StoredRunContext {
    fn to_json(&self) -> Value {
        match self {
            StoredRunContext::Absent => Value::Null,
            StoredRunContext::Present(context) => context.to_json(),
            StoredRunContext::Damaged(value) => value.clone(),
        }
    }
}

impl Header {
    /// The preset in force. Until a person chose one, a session with a run context has none.
    pub fn preset(&self) -> Option<Preset> {
        match (self.preset_chosen, &self.run_context) {
            (false, StoredRunContext::Present(_) | StoredRunContext::Damaged(_)) => None,
            _ => self.permission_preset,
        }
    }
}

/// A run context and a preset that are in force together.
#[derive(Clone, Debug, PartialEq)]
pub struct InForce {
    /// The run context.
    pub run_context: StoredRunContext,
    /// The preset; none is as configured.
    pub preset: Option<Preset>,
}

/// A turn under way, as it is stored: still there on reopening, it was cut off.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenTurn {
    /// The position of its user message.
    pub user_message: u32,
    /// What was in force as it began. Earlier versions did not store it.
    pub began: Option<InForce>,
}

impl FromJson for OpenTurn {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let member = |name: &str| value.get(name).unwrap_or(&Value::Null);
        let is_position = value.is_number();
        let position = if is_position { value } else { member("userMessage") };
        let began = InForce {
            run_context: StoredRunContext::from_json(member("runContext"), path)?,
            preset: Option::from_json(member("permissionPreset"), path)?,
        };
        Ok(Self {
            user_message: u32::from_json(position, path)?,
            began: (!is_position).then_some(began),
        })
    }
}

impl ToJson for OpenTurn {
    fn to_json(&self) -> Value {
        let Some(began) = &self.began else {
            return self.user_message.to_json();
        };
        to_object(&[
            ("userMessage", &self.user_message),
            ("runContext", &began.run_context),
            ("permissionPreset", &began.preset),
        ])
    }
}

/// A bypass, and when it ends by a clock that nobody can set.
#[derive(Clone, Debug, PartialEq)]
struct HeldBypass {
    bypass: Bypass,
    monotonic_end: Option<f64>,
}

/// Now, by the calendar and by a clock that nobody can set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Now {
    /// Milliseconds since the epoch.
    pub wall: f64,
    /// Milliseconds since some moment before.
    pub monotonic: Option<f64>,
}

/// What may run: a call with this id, on these arguments, until its result is there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Leave {
    call_id: String,
    digest: String,
    /// A person agreed, and it was claimed: it is leave for one call, also where another one is equal.
    claimed: bool,
}

/// What a machine keeps for the gate. Only approvals are stored; what was in force as a turn began is stored with that.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GateState<M> {
    bypasses: Vec<HeldBypass>,
    /// What was in force before and still counts: until the turn settles, and until the new is saved.
    earlier: Vec<InForce>,
    /// Calls of the running turn that may run.
    leaves: Vec<Leave>,
    /// What was said of calls of the running turn that may not: id and text.
    refusals: Vec<(String, String)>,
    /// Calls that a person is asked about.
    pub(super) approvals: Vec<Approval<M>>,
}

impl<M> Default for GateState<M> {
    fn default() -> Self {
        Self {
            bypasses: Vec::new(),
            earlier: Vec::new(),
            leaves: Vec::new(),
            refusals: Vec::new(),
            approvals: Vec::new(),
        }
    }
}

impl<M: MessageData> Machine<M> {
    /// How often settings were saved, as far as this session knows: what waits to be saved aside.
    pub(crate) fn saved_settings(&self) -> u64 {
        let waiting = self.queue().filter(|commit| !commit.settings.is_empty()).count() as u64;
        self.counters().settings.saturating_sub(waiting)
    }

    /// Whether somebody else changed settings.
    pub fn is_behind(&self, stored: Counters) -> bool {
        stored.settings != self.saved_settings()
    }

    /// Takes the settings of a stored record; what waits to be saved stays, and what belongs to the turn. What somebody else
    /// loosened loosens nothing until the turn is over. Says whether any setting is another than before.
    ///
    /// # Errors
    /// `storage_failed` where the settings cannot be read.
    pub fn catch_up(&mut self, record: &SessionRecord) -> Result<bool> {
        let behind = record.counters.settings.saturating_sub(self.saved_settings());
        // It was read before something of this session was saved.
        if behind == 0 {
            return Ok(false);
        }
        let mut settings = self.header().to_settings();
        let mut changed = false;
        for (name, value) in &record.settings {
            let known = settings.get(name).is_none_or(|known| known == value);
            let waits = self.queue().any(|commit| commit.settings.contains_key(name));
            if !known && !waits && !OF_TURN.contains(&name.as_str()) {
                settings.insert(name.clone(), value.clone());
                changed = true;
            }
        }
        let header = Header::from_settings(&settings)?;
        let before = self.in_force();
        self.takes_settings(header, behind);
        if self.in_force() != before && self.is_running() {
            self.gate_state().earlier.push(before);
        }
        Ok(changed)
    }

    fn in_force(&self) -> InForce {
        InForce {
            run_context: self.header().run_context.clone(),
            preset: self.header().preset(),
        }
    }

    /// Everything that counts, the oldest first: what was in force as the turn began, also where a restart came in between, then
    /// what was in force since, then what is. What any of them would not give is not given.
    fn counting(&self) -> Vec<InForce> {
        let turn = self.header().open_turn.as_ref();
        let began = turn.and_then(|turn| turn.began.as_ref());
        let mut all: Vec<InForce> = Vec::new();
        let now = self.in_force();
        for each in began.into_iter().chain(&self.gate_view().earlier).chain([&now]) {
            if all.last() != Some(each) {
                all.push(each.clone());
            }
        }
        all
    }

    /// What is stored of a turn that is dispatched now.
    pub(super) fn opened_turn(&self, user_message: u32) -> OpenTurn {
        OpenTurn {
            user_message,
            began: self.counting().into_iter().next(),
        }
    }

    /// The run context.
    pub fn run_context(&self) -> Option<&RunContext> {
        self.header().run_context.run_context()
    }

    /// Members of the run context that are kept and not looked at, as paths.
    pub fn unknown_fields(&self) -> Vec<String> {
        let context = self.run_context();
        context.map_or_else(Vec::new, |context| context.unknown_fields("runContext"))
    }

    /// The effective working directory, as it is configured.
    pub fn working_directory(&self) -> String {
        // A turn stays where it began.
        let began = self.counting().into_iter().next();
        let context = began.as_ref().and_then(|it| it.run_context.run_context());
        let own = context.map(|context| context.effective_working_dir(self.cwd()));
        own.unwrap_or(self.cwd()).to_owned()
    }

    /// Another run context, or none. It is live at once, in a running turn too; but until the turn settles and it is saved,
    /// what the earlier one would not have given is not given.
    ///
    /// # Errors
    /// `invalid_argument` where a grant is empty or a file system's root.
    pub fn set_run_context(
        &mut self,
        context: Option<RunContext>,
        style: PathStyle,
        stamp: &Stamp,
    ) -> Result<()> {
        if let Some(context) = &context {
            context.check(style, "runContext")?;
        }
        let new = StoredRunContext::from(context);
        if new == self.header().run_context {
            return Ok(());
        }
        // Until a person chose a preset, it depends on the run context.
        let old = self.in_force();
        self.gate_state().earlier.push(old);
        self.declare(DeclaredEvent::RunContext);
        self.commit_settings(vec![Setting::RunContext(new)], stamp);
        Ok(())
    }

    /// What an earlier run context would have refused counts no longer, once the turn is over and everything saved.
    pub(super) fn forget_earlier(&mut self) {
        if !self.is_running() && self.next_commit().is_none() {
            self.gate_state().earlier.clear();
        }
    }

    /// Not to be asked: within a scope, for `seconds`, or until the page or worker restarts.
    ///
    /// # Errors
    /// `invalid_argument` for seconds that are no number above 0.
    pub fn bypass(&mut self, scope: BypassScope, seconds: Option<f64>, now: Now) -> Result<()> {
        check_seconds(seconds)?;
        let end = |from: f64| seconds.map(|seconds| from + seconds * 1_000.0);
        let held = HeldBypass {
            bypass: Bypass {
                scope,
                expires_at: end(now.wall),
            },
            monotonic_end: now.monotonic.and_then(end),
        };
        let bypasses = &mut self.gate_state().bypasses;
        bypasses.retain(|other| other.bypass.scope != held.bypass.scope);
        bypasses.push(held);
        Ok(())
    }

    /// Asks again.
    pub fn clear_bypass(&mut self) {
        self.gate_state().bypasses.clear();
    }

    /// A declared tool.
    pub fn tool(&self, name: &str) -> Option<&ToolDeclaration<M>> {
        self.tools(true).into_iter().find(|tool| tool.name == name)
    }

    /// What the gate is asked about a call, once for every run context that counts. `found` is what the tool found in the
    /// arguments itself.
    pub fn inquiries(
        &self,
        call: &ToolCall<M>,
        found: Option<Vec<PathRequest>>,
        style: PathStyle,
        workspace_root: Option<&str>,
        protected: &[String],
        now: Now,
    ) -> Vec<Inquiry> {
        let tool = self.tool(&call.name).map(|tool| tool.policy.clone());
        let (requests, texts) = match tool.as_ref().filter(|tool| tool.declares_paths()) {
            Some(tool) => {
                let mut requests = tool.requests(&call.arguments);
                found.into_iter().flatten().append_to(&mut requests);
                (requests, Vec::new())
            }
            None => (Vec::new(), texts_in(&call.arguments)),
        };
        let live = |held: &&HeldBypass| match (held.monotonic_end, now.monotonic) {
            (Some(end), Some(now)) => now < end,
            _ => true,
        };
        let bypasses = self
            .held_bypasses()
            .filter(live)
            .map(|held| held.bypass.clone())
            .listed();
        // A session without an absolute directory has no place: then the host is not asked, and no path is known.
        let placed = Place::new(style, self.cwd(), workspace_root);
        let place = placed.unwrap_or_else(|_| Place::root(style));
        let header = self.header();
        let counting = self.counting();
        // Each judges the same files: a relative path is one from where the turn began.
        let directory = (counting.len() > 1).then(|| self.working_directory());
        let inquiry = |InForce {
                           run_context: context,
                           preset,
                       }: InForce| Inquiry {
            tool_name: call.name.clone(),
            tool: tool.clone(),
            requests: requests.clone(),
            texts: texts.clone(),
            place: place.clone(),
            preset,
            run_context: match (&directory, context.run_context()) {
                (Some(directory), context) if context.is_some() || directory != self.cwd() => {
                    Some(context.cloned().unwrap_or_default().in_directory(directory))
                }
                (_, context) => context.cloned(),
            },
            group: context
                .run_context()
                .and_then(|context| context.tool_group_id().map(str::to_owned)),
            groups: None,
            agent_id: header.agent_id.clone(),
            source: header.source.clone(),
            bypasses: bypasses.clone(),
            headless: header.headless,
            protected: protected.to_vec(),
            unverified: matches!(context, StoredRunContext::Damaged(_))
                .then(|| "the stored run context cannot be read".to_owned()),
            now: now.wall,
        };
        counting.into_iter().map(inquiry).listed()
    }

    /// Whether the session has an absolute directory in an absolute workspace, so that its host can be asked about paths.
    pub fn has_place(&self, style: PathStyle, workspace_root: Option<&str>) -> bool {
        Place::new(style, self.cwd(), workspace_root).is_ok()
    }

    fn held_bypasses(&self) -> impl Iterator<Item = &HeldBypass> {
        self.gate_view().bypasses.iter()
    }

    /// A call of the running turn may run, on exactly these arguments; `claimed` where a person agreed.
    pub fn allow(&mut self, call: &ToolCall<M>, claimed: bool) {
        let leave = Leave {
            call_id: call.id.clone(),
            digest: self.digest(call),
            claimed,
        };
        let leaves = &mut self.gate_state().leaves;
        if !leaves.contains(&leave) {
            leaves.push(leave);
        }
    }

    /// The last decision counts: a call that was allowed is asked about now, or denied. What a person agreed to and is claimed
    /// ends only where it is denied. `text` is what is said of it.
    pub fn take_back(&mut self, call: &ToolCall<M>, denied: bool, text: &str) {
        let refusal = (call.id.clone(), text.to_owned());
        let refusals = &mut self.gate_state().refusals;
        if !refusals.contains(&refusal) {
            refusals.push(refusal);
        }
        let digest = self.digest(call);
        let gone = |leave: &Leave| leave.call_id == call.id && leave.digest == digest;
        let leaves = &mut self.gate_state().leaves;
        leaves.retain(|leave| !gone(leave) || leave.claimed && !denied);
    }

    /// Nothing was decided yet.
    pub(super) fn forget_decisions(&mut self) {
        let gate = self.gate_state();
        gate.leaves.clear();
        gate.refusals.clear();
    }

    /// Whether a text is what was said of a call that may not run, by the gate or by the person who was asked.
    pub(super) fn is_refusal(&self, id: &str, text: &str) -> bool {
        let mut said = self.gate_view().refusals.iter();
        let mut asked = self.approvals().iter();
        said.any(|(call, said)| call == id && said == text)
            || asked.any(|asked| asked.call.id == id && asked.message == text)
    }

    /// Another list of what may run.
    pub(super) fn set_leaves(&mut self, leaves: Vec<Leave>) {
        self.gate_state().leaves = leaves;
    }

    /// What may run.
    pub(super) fn leaves(&self) -> &[Leave] {
        &self.gate_view().leaves
    }
}

impl Leave {
    /// Whether it is for this call.
    pub(super) fn is_for(&self, id: &str, digest: &str) -> bool {
        self.call_id == id && self.digest == digest
    }

    /// Whether it is used up.
    pub(super) fn is_over(&self, answered: &Answered) -> bool {
        answered.ends(&self.call_id, &self.digest, self.claimed)
    }
}

/// A call that has its result.
pub(super) struct Answered {
    /// Its id.
    pub id: String,
    /// What tells it from another call with that id.
    pub digest: String,
    /// The same of those with that id that have no result yet.
    pub waiting: Vec<String>,
}

impl Answered {
    /// Whether what is about a call with this id and digest is over with it. What was claimed is one call, also where an equal
    /// one waits.
    pub(super) fn ends(&self, id: &str, digest: &str, claimed: bool) -> bool {
        let waits = self.waiting.iter().any(|other| other == digest);
        self.id == id && (!waits || claimed && self.digest == digest)
    }
}

/// How long a bypass lasts: above no time at all, or none for until the page or worker restarts.
///
/// # Errors
/// `invalid_argument`.
pub fn check_seconds(seconds: Option<f64>) -> Result<()> {
    if seconds.is_none_or(|seconds| seconds > 0.0 && seconds.is_finite()) {
        return Ok(());
    }
    let problem = "must be a number above 0, or absent for until this page or worker restarts";
    Err(field_error("seconds", problem))
}

/// Refuses a call that names another tool than the open call with its id.
///
/// # Errors
/// `invalid_argument`.
pub fn check_same_call<M>(call: &ToolCall<M>, open: &[ToolCall<M>]) -> Result<()> {
    let mut same = open.iter().filter(|other| other.id == call.id).peekable();
    if same.peek().is_none() || same.any(|other| other.name == call.name) {
        return Ok(());
    }
    let text = format!(
        "the open call `{}` is not this one of the tool `{}`; pass the call as it stands in the message",
        call.id, call.name
    );
    Err(Error::invalid(text).with("toolCallId", call.id.clone()))
}
