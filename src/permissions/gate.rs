//! The gate: what may run, what a person is asked about, what never runs.
//!
//! It is asked twice. [`Question::queries`] lists the paths that the host has to resolve, [`Question::decide`] takes the
//! answers. Nothing is remembered between two questions.

use serde_json::Value;

use super::{
    bypass::Bypass,
    decision::{DecidedPath, Decision, Reason, TraceStep},
    policy::{Files, Forms, Group, Policy, Subject},
    preset::{Access, Cell, Location, Preset, cell},
    rule::{Action, ApprovalRule},
    tool::{PathAccess, PathRequest, Requested, ToolPolicy},
};
use crate::{
    Result,
    list::{Listed, joined},
    paths::{AbsolutePath, PathStyle, may_hold_short_name, unsafe_shape, within},
    run_context::{Grants, RunContext, grant_path, granted_in},
    untyped::{self, FromJson, field_error},
};

/// Where a session stands in its host's file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    style: PathStyle,
    cwd: AbsolutePath,
    workspace: String,
}

impl Place {
    /// # Errors
    /// `invalid_argument` where one of them is not absolute.
    pub fn new(style: PathStyle, cwd: &str, workspace_root: Option<&str>) -> Result<Self> {
        let absolute = |path: &str, field: &str| {
            AbsolutePath::parse(style, path)
                .filter(|_| unsafe_shape(style, path).is_none())
                .ok_or_else(|| field_error(field, "must be an absolute path"))
        };
        let cwd = absolute(cwd, "cwd")?;
        let workspace = match workspace_root {
            None => cwd.text(),
            Some(root) => {
                absolute(root, "workspaceRoot")?;
                root.to_owned()
            }
        };
        Ok(Self {
            style,
            cwd,
            workspace,
        })
    }

    /// The root of the host's file system, for a session that has no place.
    pub fn root(style: PathStyle) -> Self {
        let path = match style {
            PathStyle::Posix => "/",
            PathStyle::Windows => "C:\\",
        };
        Self {
            style,
            cwd: AbsolutePath::root(style),
            workspace: path.to_owned(),
        }
    }

    /// How its paths are written.
    pub fn style(&self) -> PathStyle {
        self.style
    }
}

/// A path that the host has to resolve.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Query {
    /// Absolute: what a relative path is relative to.
    pub base: String,
    /// The path.
    pub path: String,
}

/// What a host says of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedPath {
    /// Where it really leads.
    Canonical(String),
    /// Why that is not known.
    Unresolved(String),
}

impl FromJson for ResolvedPath {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let object = untyped::object(value, path)?;
        let read = |key: &str| -> Result<Option<String>> { untyped::member(object, path, key) };
        match (read("canonical")?, read("unresolved")?) {
            (Some(canonical), None) => Ok(ResolvedPath::Canonical(canonical)),
            (None, Some(why)) => Ok(ResolvedPath::Unresolved(why)),
            _ => Err(field_error(path, "must have `canonical` or `unresolved`")),
        }
    }
}

/// What a call is judged by, beside the rules.
#[derive(Clone, Debug)]
pub struct Circumstances<'a> {
    /// Where the session stands.
    pub place: &'a Place,
    /// A person's choice.
    pub preset: Option<Preset>,
    /// Its grants and its working directory.
    pub run_context: Option<&'a RunContext>,
    /// The permission group.
    pub group: Option<&'a str>,
    /// The groups that exist, where they are not those of the policy.
    pub groups: Option<&'a [String]>,
    /// Whose session it is.
    pub agent_id: Option<&'a str>,
    /// Where it comes from.
    pub source: Option<&'a str>,
    /// What a person does not want to be asked about.
    pub bypasses: &'a [Bypass],
    /// Whether nobody is there to be asked.
    pub headless: bool,
    /// Names that are closed below the roots, folded.
    pub protected: &'a [String],
    /// Why the rules or the run context may not be the ones in force.
    pub unverified: Option<&'a str>,
    /// Milliseconds since the epoch.
    pub now: f64,
}

/// One call, and what it is judged by. It stands on its own, so that the host can be asked in between.
#[derive(Clone, Debug)]
pub struct Inquiry {
    /// The tool's name.
    pub tool_name: String,
    /// What the tool declares; none for one that nobody declared.
    pub tool: Option<ToolPolicy>,
    /// The paths that the call asks for.
    pub requests: Vec<PathRequest>,
    /// The texts in the arguments of a tool that declares no paths.
    pub texts: Vec<String>,
    /// Where the session stands.
    pub place: Place,
    /// A person's choice.
    pub preset: Option<Preset>,
    /// Its grants and its working directory.
    pub run_context: Option<RunContext>,
    /// The permission group.
    pub group: Option<String>,
    /// The groups that exist, where they are not those of the policy.
    pub groups: Option<Vec<String>>,
    /// Whose session it is.
    pub agent_id: Option<String>,
    /// Where it comes from.
    pub source: Option<String>,
    /// What a person does not want to be asked about.
    pub bypasses: Vec<Bypass>,
    /// Whether nobody is there to be asked.
    pub headless: bool,
    /// Names that are closed below the roots, folded.
    pub protected: Vec<String>,
    /// Why the rules or the run context may not be the ones in force.
    pub unverified: Option<String>,
    /// Milliseconds since the epoch.
    pub now: f64,
}

impl Inquiry {
    /// What relative paths are relative to; absolute, otherwise as it was configured.
    pub fn working_directory(&self) -> String {
        let cwd = self.place.cwd.text();
        let context = self.run_context.as_ref();
        let own = context.map_or(cwd.as_str(), |context| context.effective_working_dir(&cwd));
        within(self.place.style, &cwd, own)
    }

    /// The question as the gate takes it.
    pub fn question(&self) -> Question<'_> {
        Question {
            tool_name: &self.tool_name,
            tool: self.tool.as_ref(),
            requests: &self.requests,
            texts: &self.texts,
            circumstances: Circumstances {
                place: &self.place,
                preset: self.preset,
                run_context: self.run_context.as_ref(),
                group: self.group.as_deref(),
                groups: self.groups.as_deref(),
                agent_id: self.agent_id.as_deref(),
                source: self.source.as_deref(),
                bypasses: &self.bypasses,
                headless: self.headless,
                protected: &self.protected,
                unverified: self.unverified.as_deref(),
                now: self.now,
            },
        }
    }
}

/// One call, and what it is judged by.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The tool's name.
    pub tool_name: &'a str,
    /// What the tool declares; none for one that nobody declared.
    pub tool: Option<&'a ToolPolicy>,
    /// The paths that it asks for.
    pub requests: &'a [PathRequest],
    /// The texts in the arguments of a tool that declares no paths.
    pub texts: &'a [String],
    /// What it is judged by.
    pub circumstances: Circumstances<'a>,
}

/// What the host has to be asked: roots, grants, paths of the call, in this order.
#[derive(Debug)]
struct Queries {
    directory: AbsolutePath,
    all: Vec<Query>,
    grants: usize,
}

const ROOTS: usize = 2;

/// In bytes: more than any file system takes.
const LONGEST_PATH: usize = 3 * 32_767;

/// A path in both forms.
#[derive(Debug)]
struct Resolved {
    lexical: AbsolutePath,
    canonical: std::result::Result<AbsolutePath, String>,
}

impl Resolved {
    fn new(lexical: AbsolutePath, answer: Option<&ResolvedPath>, style: PathStyle) -> Self {
        let canonical = match answer {
            Some(ResolvedPath::Canonical(path)) => AbsolutePath::parse_canonical(style, path)
                .ok_or_else(|| "the host gave no canonical path".to_owned()),
            Some(ResolvedPath::Unresolved(why)) => Err(why.clone()),
            None => Err("the host gave no answer".to_owned()),
        };
        Self { lexical, canonical }
    }

    fn canonical(&self) -> Option<&AbsolutePath> {
        self.canonical.as_ref().ok()
    }
}

/// What a call is judged by, after the host was asked.
struct Ground<'q> {
    policy: &'q Policy,
    chain: Vec<&'q Group>,
    workspace: Resolved,
    directory: Resolved,
    grants: Grants,
    notes: Vec<String>,
    traced: bool,
}

impl Question<'_> {
    fn queries_and_more(&self) -> Queries {
        let place = self.circumstances.place;
        let cwd = place.cwd.text();
        let own = match self.circumstances.run_context {
            Some(context) => context.effective_working_dir(&cwd),
            None => &cwd,
        };
        let directory = place.cwd.join(own);
        // As it is written: what `..` behind a link means, the host knows.
        let base = within(place.style, &cwd, own);
        let query = |base: &str, path: &str| Query {
            base: base.to_owned(),
            path: path.to_owned(),
        };
        let mut all = vec![query(&base, &place.workspace), query(&base, &base)];
        if let Some(context) = self.circumstances.run_context {
            for (entry, _) in context.entries() {
                all.push(query(&base, grant_path(place.style, entry)));
            }
        }
        let grants = all.len() - ROOTS;
        for request in self.requests {
            if let Requested::Path(path) = &request.requested {
                all.push(query(&base, if path.is_empty() { "." } else { path }));
            }
        }
        Queries {
            directory,
            all,
            grants,
        }
    }

    /// The paths that the host has to resolve, in this order, in one go.
    pub fn queries(&self) -> Vec<Query> {
        self.queries_and_more().all
    }

    /// Decides. `answers` are those to [`Question::queries`], in order; one that is missing is unresolved.
    pub fn decide(&self, policy: &Policy, answers: &[ResolvedPath]) -> Decision {
        self.judge(policy, answers, false)
    }

    /// The same decision, and how it came about.
    pub fn explain(&self, policy: &Policy, answers: &[ResolvedPath]) -> Decision {
        self.judge(policy, answers, true)
    }

    /// Whether a tool that goes on below a tree by itself must not show what it finds at `path`: where rules deny it, or speak of
    /// it and ask; where it is a link; where it is not below a tree that the call reads. `resolved` is what the host says of it,
    /// none where it cannot say so at once: then it is hidden, since it may be a link.
    pub fn hides(
        &self,
        policy: &Policy,
        answers: &[ResolvedPath],
        path: &str,
        resolved: Option<ResolvedPath>,
    ) -> bool {
        let style = self.circumstances.place.style;
        if unsafe_shape(style, path).is_some() {
            return true;
        }
        let queries = self.queries_and_more();
        let ground = self.ground(policy, &queries, answers, false);
        let lexical = queries.directory.join(path);
        let mut known = answers.iter().skip(ROOTS + queries.grants);
        let mut expected = None;
        for request in self.requests {
            let Requested::Path(tree) = &request.requested else {
                continue;
            };
            let tree = Resolved::new(queries.directory.join(tree), known.next(), style);
            let reads = request.tree && request.access.access() == Access::Read;
            if let Some(canonical) = tree.canonical().filter(|_| reads) {
                expected = expected.or_else(|| lexical.moved(&tree.lexical, canonical));
            }
        }
        let Some(expected) = expected else { return true };
        let found = match resolved {
            // Whether it is a link is not known.
            None => None,
            Some(ResolvedPath::Canonical(path)) => AbsolutePath::parse_canonical(style, &path),
            Some(ResolvedPath::Unresolved(_)) => None,
        };
        if found.as_ref() != Some(&expected) {
            return true;
        }
        let request = PathRequest {
            argument: String::new(),
            access: PathAccess::Read,
            tree: false,
            requested: Requested::Path(path.to_owned()),
        };
        let path = Resolved {
            lexical,
            canonical: Ok(expected),
        };
        let part = Part {
            access: Access::Read,
            path: Some((&request, Some(&path), 0)),
        };
        let walks = Walks::new(self, &ground, &part);
        if walks.locked(Action::Deny).is_some() || walks.locked(Action::Require).is_some() {
            return true;
        }
        match walks.first() {
            Some((Action::Deny, _)) => true,
            // A question about every path was answered when the tree was allowed; one about this path was not.
            Some((Action::Require, rule)) => rule.row(policy).is_some_and(|rule| rule.path_pattern.is_some()),
            Some((Action::Allow, _)) | None => false,
        }
    }

    /// The outcome alone, and the step that set it.
    pub fn outcome(&self, policy: &Policy, answers: &[ResolvedPath]) -> (Action, Reason) {
        let (verdict, ..) = self.verdict(policy, answers, false);
        (verdict.outcome, verdict.reason)
    }

    fn judge(&self, policy: &Policy, answers: &[ResolvedPath], traced: bool) -> Decision {
        let (verdict, paths, trace) = self.verdict(policy, answers, traced);
        let decided = self.requests.iter().zip(&paths).map(|(request, path)| {
            let requested = match &request.requested {
                Requested::Path(path) => path.clone(),
                Requested::NoPath => String::new(),
            };
            DecidedPath {
                argument: request.argument.clone(),
                access: request.access,
                requested,
                lexical: path.as_ref().map(|path| path.lexical.text()).unwrap_or_default(),
                canonical: path
                    .as_ref()
                    .and_then(|path| path.canonical().map(AbsolutePath::text)),
                unresolved: match path {
                    None => Some("it is no path".to_owned()),
                    Some(path) => path.canonical.as_ref().err().cloned(),
                },
            }
        });
        let paths = decided.listed();
        Decision {
            outcome: verdict.outcome,
            reason: verdict.reason,
            message: self.message(&verdict, &paths),
            request_id: None,
            rule: verdict.rule.and_then(|rule| rule.row(policy)),
            paths,
            trace,
        }
    }

    fn verdict(
        &self,
        policy: &Policy,
        answers: &[ResolvedPath],
        traced: bool,
    ) -> (Verdict, Vec<Option<Resolved>>, Vec<TraceStep>) {
        let queries = self.queries_and_more();
        let ground = self.ground(policy, &queries, answers, traced);
        let place = self.circumstances.place;
        let mut answers = answers.iter().skip(ROOTS + queries.grants);
        let paths: Vec<Option<Resolved>> = self
            .requests
            .iter()
            .map(|request| match &request.requested {
                Requested::NoPath => None,
                Requested::Path(path) => Some(Resolved::new(
                    queries.directory.join(path),
                    answers.next(),
                    place.style,
                )),
            })
            .listed();

        let mut trace = Vec::new();
        for note in ground.notes.iter().filter(|_| traced) {
            trace.push(TraceStep {
                step: "run_context",
                outcome: Action::Require,
                note: Some(note.clone()),
                rule: None,
                path: None,
            });
        }
        let mut strictest: Option<Verdict> = None;
        for part in self.parts(&paths) {
            let verdict = self.judge_part(&ground, &part, &mut trace);
            if strictest
                .as_ref()
                .is_none_or(|other| verdict.outcome > other.outcome)
            {
                strictest = Some(verdict);
            }
        }
        // A call has a part at least; without one nobody could say what it does.
        let verdict = strictest.unwrap_or(Verdict {
            outcome: Action::Require,
            reason: Reason::NoMatch,
            rule: None,
            path: None,
            detail: None,
        });
        (verdict, paths, trace)
    }

    fn ground<'q>(
        &self,
        policy: &'q Policy,
        queries: &Queries,
        answers: &[ResolvedPath],
        traced: bool,
    ) -> Ground<'q> {
        let place = self.circumstances.place;
        let mut given = answers.iter();
        let workspace = Resolved::new(place.cwd.join(&place.workspace), given.next(), place.style);
        let directory = Resolved::new(queries.directory.clone(), given.next(), place.style);
        let (mut grants, mut notes) = (Grants::default(), Vec::new());
        if let Some(context) = self.circumstances.run_context {
            for (entry, write) in context.entries() {
                let bare = grant_path(place.style, entry);
                let grant = Resolved::new(queries.directory.join(bare), given.next(), place.style);
                let Some(canonical) = grant.canonical() else {
                    continue;
                };
                if AbsolutePath::parse(place.style, bare).is_none() {
                    let own = directory
                        .canonical()
                        .and_then(|directory| granted_in(directory, place.style, bare));
                    if own.as_ref() != Some(canonical) {
                        notes.push(format!("grant_through_link: `{entry}` opens nothing"));
                        continue;
                    }
                }
                let list = if write {
                    &mut grants.writes
                } else {
                    &mut grants.reads
                };
                list.push(canonical.clone());
            }
        }
        // The working directory may be read, with or without a run context.
        directory
            .canonical()
            .cloned()
            .into_iter()
            .append_to(&mut grants.reads);
        Ground {
            chain: policy.chain(self.circumstances.group, place.style),
            policy,
            workspace,
            directory,
            grants,
            notes,
            traced,
        }
    }

    /// What is decided one by one: every path, and what the tool does beside.
    fn parts<'p>(&'p self, paths: &'p [Option<Resolved>]) -> Vec<Part<'p>> {
        let mut parts = Vec::new();
        for ((request, path), at) in self.requests.iter().zip(paths).zip(0u32..) {
            parts.push(Part {
                access: request.access.access(),
                path: Some((request, path.as_ref(), at)),
            });
        }
        let declared = self.tool.and_then(|tool| tool.access);
        let beside = match declared {
            Some(Access::Execute | Access::Network) => declared,
            // Declared paths say what a tool does; what it finds in its arguments itself does not.
            None if self.tool.is_none_or(|tool| tool.paths.is_empty()) => Some(Access::Unclassified),
            Some(access) if parts.is_empty() => Some(access),
            _ => None,
        };
        if let Some(access) = beside {
            parts.push(Part { access, path: None });
        }
        parts
    }

    fn judge_part(&self, ground: &Ground<'_>, part: &Part<'_>, trace: &mut Vec<TraceStep>) -> Verdict {
        let at = part.path.map(|(_, _, at)| at);
        let mut steps = Steps {
            policy: ground.policy,
            verdict: Verdict {
                outcome: Action::Require,
                reason: Reason::NoMatch,
                rule: None,
                path: at,
                detail: None,
            },
            trace: ground.traced.then_some(trace),
        };
        self.walk_steps(ground, part, &mut steps);
        if steps.verdict.outcome == Action::Require && self.circumstances.headless {
            let rule = steps.verdict.rule;
            steps.set("headless", Action::Deny, Reason::Headless, rule, None);
        }
        steps.verdict
    }

    fn walk_steps(&self, ground: &Ground<'_>, part: &Part<'_>, steps: &mut Steps<'_>) {
        let circumstances = &self.circumstances;
        let style = circumstances.place.style;

        // 0 shape
        if let Some((request, path, _)) = part.path {
            let wrong = match &request.requested {
                Requested::NoPath => Some("it is no path"),
                Requested::Path(requested) if requested.len() > LONGEST_PATH => {
                    Some("it is longer than a path can be")
                }
                Requested::Path(requested) => unsafe_shape(style, requested),
            };
            if let Some(wrong) = wrong.or_else(|| path.is_none().then_some("it is no path")) {
                steps.set(
                    "shape",
                    Action::Deny,
                    Reason::PathUnsafe,
                    None,
                    Some(wrong.to_owned()),
                );
                return;
            }
        }
        let walks = Walks::new(self, ground, part);

        // 1 locked
        if let Some(rule) = walks.locked(Action::Deny) {
            steps.set("locked", Action::Deny, Reason::LockedRule, Some(rule), None);
            return;
        }

        // 2 rules
        match walks.first() {
            None => steps.set("rules", Action::Require, Reason::NoMatch, None, None),
            Some((action, rule)) => steps.set("rules", action, Reason::Rule, Some(rule), None),
        }
        if steps.trace.is_some() {
            walks.shadowed(steps);
        }
        if steps.verdict.outcome == Action::Deny {
            return;
        }
        if let Some((reason, rule, detail)) = self.insisting(ground, &walks) {
            steps.set("insisting", Action::Require, reason, rule, detail);
            return;
        }
        let unresolved = part.path.and_then(|(_, path, _)| {
            let path = path.and_then(|path| path.canonical.as_ref().err());
            let roots = [&ground.workspace, &ground.directory];
            path.or_else(|| roots.iter().find_map(|root| root.canonical.as_ref().err()))
        });
        let allow = |steps: &mut Steps<'_>, step: &'static str, reason: Reason| {
            if unresolved.is_none() {
                steps.set(step, Action::Allow, reason, None, None);
            }
        };
        if steps.verdict.outcome == Action::Allow
            && let Some(why) = unresolved
        {
            steps.set(
                "rules",
                Action::Require,
                Reason::PathUnresolved,
                None,
                Some(why.clone()),
            );
        }

        // 3 ceiling
        let canonical = part.path.and_then(|(_, path, _)| path?.canonical());
        let location = match (canonical, ground.directory.canonical()) {
            (Some(path), Some(directory)) if path.is_in(directory) => Location::WorkingDirectory,
            _ => Location::Elsewhere,
        };
        let verb = cell(circumstances.preset, part.access, location);
        if verb == Cell::AtMostAsk && steps.verdict.outcome == Action::Allow {
            steps.set("ceiling", Action::Require, Reason::Ceiling, None, None);
        }
        if steps.verdict.outcome == Action::Allow {
            return;
        }

        // 4 memory, 5 run context
        let lexical = part.path.and_then(|(_, path, _)| Some(&path?.lexical));
        if let (Some(path), Some(lexical)) = (canonical, lexical) {
            if ground.is_memory(path, lexical) {
                allow(steps, "memory", Reason::Memory);
            } else if self.granted(ground, part.access, path) {
                allow(steps, "run_context", Reason::RunContext);
            }
        }
        if steps.verdict.outcome == Action::Allow {
            return;
        }

        // 6 bypass
        let covers = |bypass: &Bypass| bypass.covers(self.tool, circumstances.now);
        if circumstances.bypasses.iter().any(covers) {
            allow(steps, "bypass", Reason::Bypass);
        }

        // 7 floor
        if steps.verdict.outcome == Action::Require && verb == Cell::Allow {
            allow(steps, "preset", Reason::Preset);
        }
    }

    fn granted(&self, ground: &Ground<'_>, access: Access, path: &AbsolutePath) -> bool {
        let none = RunContext::default();
        let context = self.circumstances.run_context.unwrap_or(&none);
        match access {
            Access::Read => context.is_read_allowed(path, &ground.grants),
            Access::Write => {
                self.circumstances.preset != Some(Preset::ReadOnly)
                    && context.is_write_allowed(path, &ground.grants)
            }
            _ => false,
        }
    }

    /// What nothing relaxes.
    fn insisting(
        &self,
        ground: &Ground<'_>,
        walks: &Walks<'_>,
    ) -> Option<(Reason, Option<RuleRef>, Option<String>)> {
        if let Some(rule) = walks.locked(Action::Require) {
            return Some((Reason::LockedRule, Some(rule), None));
        }
        if let Some(group) = self.circumstances.group
            && !ground.policy.has_group(group, self.circumstances.groups)
        {
            return Some((Reason::GroupMissing, None, Some(format!("`{group}`"))));
        }
        if let Some(why) = self.circumstances.unverified {
            return Some((Reason::PolicyUnverified, None, Some(why.to_owned())));
        }
        // Nothing longer is a path anywhere.
        let mut texts = self.texts.iter().filter(|text| text.len() <= LONGEST_PATH);
        let text = texts.find(|text| self.may_be_locked(ground, text))?;
        Some((Reason::PossiblePath, None, Some(format!("`{text}`"))))
    }

    /// Whether a locked rule would speak of a text, were it a path.
    fn may_be_locked(&self, ground: &Ground<'_>, text: &str) -> bool {
        let lexical = ground.directory.lexical.join(text);
        let forms = Forms::new(&lexical, ground.roots(), Some(ground.policy.fold()));
        if self.is_protected(&forms) {
            return true;
        }
        // A shape that the file system may read as another name; a short name may stand for any.
        let style = self.circumstances.place.style;
        if unsafe_shape(style, text).is_some() {
            let named = (ground.policy.fold())(text);
            let named = (!may_hold_short_name(style, text)).then_some(named.as_str());
            let mut protected = self.circumstances.protected.iter();
            let mut chain = ground.chain.iter();
            if protected.any(|name| named.is_none_or(|text| text.contains(name.as_str())))
                || chain.any(|group| group.locks_paths(ground.policy, &self.subject(), named))
            {
                return true;
            }
        }
        let subject = Subject {
            files: Some(Files::Any),
            folded: Some(&forms),
            ..self.subject()
        };
        let locked = |group: &&Group| {
            [Action::Deny, Action::Require].into_iter().any(|action| {
                let rule = group.locked(ground.policy, action, &subject);
                rule.and_then(|rule| ground.policy.rule(rule))
                    .is_some_and(|rule| rule.path_pattern.is_some())
            })
        };
        ground.chain.iter().any(locked)
    }

    fn is_protected(&self, forms: &Forms) -> bool {
        let protected = |path: &String| {
            path.split('/')
                .any(|segment| self.circumstances.protected.iter().any(|name| name == segment))
        };
        forms.relative().iter().any(protected)
    }

    /// Whether a tree may hold protected names: they are closed below every root.
    fn holds_protected(&self, forms: &Forms) -> bool {
        !self.circumstances.protected.is_empty() && forms.holds_a_root()
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            tool: self.tool_name,
            agent_id: self.circumstances.agent_id,
            source: self.circumstances.source,
            files: None,
            folded: None,
            exact: None,
            tree: false,
        }
    }

    fn message(&self, verdict: &Verdict, paths: &[DecidedPath]) -> String {
        let path = verdict.path.and_then(|at| paths.get(at as usize));
        let what = match path {
            Some(path) if !path.requested.is_empty() => {
                format!("`{}` on `{}`", self.tool_name, path.requested)
            }
            _ => format!("`{}`", self.tool_name),
        };
        let outcome = match verdict.outcome {
            Action::Allow => "is allowed",
            Action::Require => "needs a person's approval",
            Action::Deny => "is denied",
        };
        let why = match verdict.reason {
            Reason::LockedRule => "a locked rule says so",
            Reason::Rule => "a rule says so",
            Reason::NoMatch => "no rule speaks of it",
            Reason::GroupMissing => "the session's permission group does not exist",
            Reason::PolicyUnverified => "the rules in force could not be read",
            Reason::PathUnsafe => "the path may mean something else than it says",
            Reason::PathUnresolved => "where the path leads is not known",
            Reason::PossiblePath => "a text in its arguments may be a protected path",
            Reason::Ceiling => "the preset asks about it",
            Reason::Memory => "it is in the memory directory",
            Reason::RunContext => "the run context grants it",
            Reason::Bypass => "a person chose not to be asked",
            Reason::Preset => "the preset allows it",
            Reason::Headless => "nobody can be asked",
        };
        let mut parts = vec![
            what,
            " ".to_owned(),
            outcome.to_owned(),
            ": ".to_owned(),
            why.to_owned(),
        ];
        if let Some(detail) = &verdict.detail {
            parts.push(format!(" ({detail})"));
        }
        joined(&parts, "")
    }
}

impl Ground<'_> {
    /// Whether a path is in the memory directory, by name and in truth: never through a link.
    fn is_memory(&self, canonical: &AbsolutePath, lexical: &AbsolutePath) -> bool {
        let Some(root) = self.workspace.canonical() else {
            return false;
        };
        let memory = root.join("memory");
        let named = lexical.is_in(&memory) || lexical.is_in(&self.workspace.lexical.join("memory"));
        named && canonical.is_in(&memory)
    }

    /// What relative patterns of `deny` and `require` count from.
    fn roots(&self) -> impl Iterator<Item = &AbsolutePath> {
        let all = [
            Some(&self.workspace.lexical),
            self.workspace.canonical(),
            Some(&self.directory.lexical),
            self.directory.canonical(),
        ];
        all.into_iter().flatten()
    }
}

/// One part of a call: a path, or what the tool does beside.
struct Part<'p> {
    access: Access,
    path: Option<(&'p PathRequest, Option<&'p Resolved>, u32)>,
}

/// A rule of the policy, or the one that is code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleRef {
    Row(usize),
    Protected,
}

/// The id of the code rule that closes protected names.
pub const PROTECTED_RULE: i64 = -1;

/// The code rule that closes protected names, as a row of a list.
pub fn protected_rule(names: &[String]) -> ApprovalRule {
    ApprovalRule {
        note: Some(format!(
            "paths with the name `{}` below the workspace root or the working directory are closed",
            joined(names, "` or `")
        )),
        priority: 0,
        locked: true,
        ..ApprovalRule::new(PROTECTED_RULE, "*", Action::Deny)
    }
}

impl RuleRef {
    fn row(self, policy: &Policy) -> Option<ApprovalRule> {
        match self {
            RuleRef::Row(at) => policy.rule(at).cloned(),
            RuleRef::Protected => Some(protected_rule(&[])),
        }
    }

    fn id(self, policy: &Policy) -> Option<i64> {
        match self {
            RuleRef::Row(at) => policy.rule(at).map(|rule| rule.id),
            RuleRef::Protected => Some(PROTECTED_RULE),
        }
    }
}

struct Verdict {
    outcome: Action,
    reason: Reason,
    rule: Option<RuleRef>,
    path: Option<u32>,
    detail: Option<String>,
}

struct Steps<'t> {
    policy: &'t Policy,
    verdict: Verdict,
    trace: Option<&'t mut Vec<TraceStep>>,
}

impl Steps<'_> {
    fn set(
        &mut self,
        step: &'static str,
        outcome: Action,
        reason: Reason,
        rule: Option<RuleRef>,
        detail: Option<String>,
    ) {
        self.verdict.outcome = outcome;
        self.verdict.reason = reason;
        // Where another step only relaxes or repeats what a rule said, the rule goes with it.
        self.verdict.rule = rule;
        let path = self.verdict.path;
        if let Some(trace) = &mut self.trace {
            let note = match &detail {
                Some(detail) => format!("{}: {detail}", reason.as_str()),
                None => reason.as_str().to_owned(),
            };
            trace.push(TraceStep {
                step,
                outcome,
                note: Some(note),
                rule: rule.and_then(|rule| rule.id(self.policy)),
                path,
            });
        }
        self.verdict.detail = detail;
    }
}

/// The forms of a part's path, and the rules that speak of them.
struct Walks<'w> {
    ground: &'w Ground<'w>,
    question: &'w Question<'w>,
    files: Option<Files>,
    tree: bool,
    /// Folded, against both kinds of roots; the canonical one first.
    folded: Vec<Forms>,
    /// As they are, canonical, against the workspace root.
    exact: Option<Forms>,
    has_path: bool,
}

impl<'w> Walks<'w> {
    fn new(question: &'w Question<'w>, ground: &'w Ground<'w>, part: &Part<'_>) -> Self {
        let fold = Some(ground.policy.fold());
        let mut walks = Self {
            ground,
            question,
            files: None,
            tree: false,
            folded: Vec::new(),
            exact: None,
            has_path: part.path.is_some(),
        };
        let Some((request, Some(path), _)) = part.path else {
            return walks;
        };
        walks.files = Some(Files::Only(request.access));
        walks.tree = request.tree && part.access == Access::Write;
        if let Some(canonical) = path.canonical() {
            let roots = [ground.workspace.canonical(), ground.directory.canonical()];
            walks
                .folded
                .push(Forms::new(canonical, roots.into_iter().flatten(), fold));
            walks.exact = Some(Forms::new(canonical, ground.workspace.canonical(), None));
        }
        let lexical = Forms::new(&path.lexical, ground.roots(), fold);
        if !walks.folded.contains(&lexical) {
            walks.folded.push(lexical);
        }
        walks
    }

    /// The question as rules see it, once for every form of the path.
    fn subjects(&self) -> Vec<Subject<'_>> {
        let subject = Subject {
            files: self.files,
            exact: self.exact.as_ref(),
            tree: self.tree,
            ..self.question.subject()
        };
        if !self.has_path {
            return vec![subject];
        }
        self.folded
            .iter()
            .map(|forms| Subject {
                folded: Some(forms),
                ..subject.clone()
            })
            .listed()
    }

    fn locked(&self, action: Action) -> Option<RuleRef> {
        if action == Action::Deny
            && self.folded.iter().any(|forms| {
                self.question.is_protected(forms) || self.tree && self.question.holds_protected(forms)
            })
        {
            return Some(RuleRef::Protected);
        }
        let subjects = self.subjects();
        let groups = self.ground.chain.iter();
        groups
            .flat_map(|group| subjects.iter().map(move |subject| (group, subject)))
            .find_map(|(group, subject)| group.locked(self.ground.policy, action, subject))
            .map(RuleRef::Row)
    }

    /// The first rule of each walk, and of those the one that counts.
    fn first(&self) -> Option<(Action, RuleRef)> {
        let policy = self.ground.policy;
        let mut strictest: Option<(Action, RuleRef)> = None;
        for (walk, subject) in self.subjects().iter().enumerate() {
            let found = self
                .ground
                .chain
                .iter()
                .find_map(|group| group.first(policy, subject));
            let Some(rule) = found else { continue };
            let Some(action) = policy.rule(rule).map(|rule| rule.action) else {
                continue;
            };
            let canonical = walk == 0 && self.exact.is_some();
            // A lexical walk can only make it stricter, unless there is no other.
            let counts = match strictest {
                None => canonical || self.exact.is_none() || action != Action::Allow,
                Some((other, _)) => action > other,
            };
            if counts {
                strictest = Some((action, RuleRef::Row(rule)));
            }
        }
        strictest
    }

    /// Notes the rules that speak of the part, those too that come too late.
    fn shadowed(&self, steps: &mut Steps<'_>) {
        const SHOWN: usize = 32;

        let policy = self.ground.policy;
        let decided = steps.verdict.rule;
        let mut seen: Vec<usize> = Vec::new();
        for subject in self.subjects().iter() {
            for group in &self.ground.chain {
                for rule in group.every(policy, subject) {
                    if !seen.contains(&rule) {
                        seen.push(rule);
                    }
                }
            }
        }
        let path = steps.verdict.path;
        let Some(trace) = &mut steps.trace else { return };
        let shadowed = seen.iter().filter(|rule| decided != Some(RuleRef::Row(**rule)));
        let count = shadowed.clone().count();
        for rule in shadowed.take(SHOWN).filter_map(|rule| policy.rule(*rule)) {
            trace.push(TraceStep {
                step: "rules",
                outcome: rule.action,
                note: Some("shadowed".to_owned()),
                rule: Some(rule.id),
                path,
            });
        }
        if count > SHOWN {
            trace.push(TraceStep {
                step: "rules",
                outcome: steps.verdict.outcome,
                note: Some(format!("and {} more", count - SHOWN)),
                rule: None,
                path,
            });
        }
    }
}
