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
    untyped::{FromJson, ToJson, field_error},
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

/// What a machine keeps for the gate. Only approvals are stored.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GateState<M> {
    bypasses: Vec<HeldBypass>,
    /// Run contexts that were in force before, with their presets, and still count: until the turn settles, and until the new
    /// one is saved.
    earlier: Vec<(StoredRunContext, Option<Preset>)>,
    /// Calls of the running turn that may run: ids, tools and digests.
    allowed: Vec<(String, String, String)>,
    /// Calls that a person is asked about.
    pub(super) approvals: Vec<Approval<M>>,
}

impl<M> Default for GateState<M> {
    fn default() -> Self {
        Self {
            bypasses: Vec::new(),
            earlier: Vec::new(),
            allowed: Vec::new(),
            approvals: Vec::new(),
        }
    }
}

impl<M: MessageData> Machine<M> {
    /// How often settings were saved, as far as this session knows: what waits to be saved aside.
    fn saved_settings(&self) -> u64 {
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
        if behind == 0 && record.origin() == self.origin() {
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

    fn in_force(&self) -> (StoredRunContext, Option<Preset>) {
        (self.header().run_context.clone(), self.header().preset())
    }

    /// The run context.
    pub fn run_context(&self) -> Option<&RunContext> {
        self.header().run_context.run_context()
    }

    /// The effective working directory, as it is configured.
    pub fn working_directory(&self) -> String {
        // A turn stays where it began.
        let began = self.gate_view().earlier.first().map(|(context, _)| context);
        let context = began.unwrap_or(&self.header().run_context).run_context();
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
        let now_in_force = self.in_force();
        let contexts = self.gate_view().earlier.iter().chain([&now_in_force]);
        // Every context judges the same files: a relative path is one from where the turn began.
        let directory = (!self.gate_view().earlier.is_empty()).then(|| self.working_directory());
        let inquiry = |(context, preset): &(StoredRunContext, Option<Preset>)| Inquiry {
            tool_name: call.name.clone(),
            tool: tool.clone(),
            requests: requests.clone(),
            texts: texts.clone(),
            place: place.clone(),
            preset: *preset,
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
        contexts.map(inquiry).listed()
    }

    /// Whether the session has an absolute directory in an absolute workspace, so that its host can be asked about paths.
    pub fn has_place(&self, style: PathStyle, workspace_root: Option<&str>) -> bool {
        Place::new(style, self.cwd(), workspace_root).is_ok()
    }

    fn held_bypasses(&self) -> impl Iterator<Item = &HeldBypass> {
        self.gate_view().bypasses.iter()
    }

    /// A call of the running turn may run, on exactly these arguments.
    pub fn allow(&mut self, call: &ToolCall<M>) {
        let allowed = (call.id.clone(), call.name.clone(), self.digest(call));
        let state = self.gate_state();
        if !state.allowed.contains(&allowed) {
            state.allowed.push(allowed);
        }
    }

    /// Whether a call may have run: it was allowed, or a person agreed and it was claimed; on these arguments, where they count.
    pub(super) fn was_allowed(&self, id: &str, tool: &str, digest: Option<&str>) -> bool {
        let mut allowed = self.gate_view().allowed.iter();
        allowed.any(|(other, name, its)| {
            other == id && name == tool && digest.is_none_or(|digest| digest == its)
        })
    }

    /// A turn begins, or is over: nothing is allowed yet, or any more.
    pub(super) fn forget_allowed(&mut self) {
        self.gate_state().allowed.clear();
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
