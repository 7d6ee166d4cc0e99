//! The gate: what may run, what a person is asked about, what never runs.
//!
//! It is asked twice. [`Inquiry::queries`] lists the paths that the host has to resolve, [`Inquiry::decide`] takes the
//! answers. Nothing is remembered between two questions.

use super::{
    bypass::Bypass,
    decision::{DecidedPath, Decision, Reason, TraceStep},
    ground::{Answer, Ground, Place, Query, Resolved, ResolvedPath},
    judge::{Judge, Part, Verdict},
    policy::Policy,
    preset::{Access, Preset},
    rule::Action,
    tool::{PathAccess, PathRequest, Requested, ToolPolicy},
    walks::Walks,
};
use crate::{
    list::{Listed, joined},
    paths::{AbsolutePath, unsafe_shape, within},
    run_context::{RunContext, grant_path},
};

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
    /// What relative paths are relative to; absolute, otherwise as it was configured: what `..` behind a link means, the host
    /// knows.
    pub fn working_directory(&self) -> String {
        let cwd = self.place.cwd.text();
        within(self.place.style, &cwd, self.own_directory(&cwd))
    }

    /// The same, by text alone.
    pub(super) fn named_directory(&self) -> AbsolutePath {
        self.place.cwd.join(self.own_directory(&self.place.cwd.text()))
    }

    fn own_directory<'a>(&'a self, cwd: &'a str) -> &'a str {
        let context = self.run_context.as_ref();
        context.map_or(cwd, |context| context.effective_working_dir(cwd))
    }

    /// The same as the host resolved it, where it did. `answers` are those to [`Inquiry::queries`].
    pub fn resolved_directory(&self, answers: &[ResolvedPath]) -> String {
        // The second of what always stands.
        match answers.get(1) {
            Some(ResolvedPath::Canonical(directory)) => directory.clone(),
            _ => self.working_directory(),
        }
    }

    /// What the host has to resolve whatever the call is: the workspace root, the working directory, the grants.
    pub fn standing(&self) -> Vec<Query> {
        let base = self.working_directory();
        let query = |path: &str| Query {
            base: base.clone(),
            path: path.to_owned(),
        };
        let mut all = vec![query(&self.place.workspace), query(&base)];
        if let Some(context) = &self.run_context {
            for (entry, _) in context.entries() {
                all.push(query(grant_path(self.place.style, entry)));
            }
        }
        all
    }

    /// The paths that the host has to resolve, in this order, in one go.
    pub fn queries(&self) -> Vec<Query> {
        let mut all = self.standing();
        let base = self.working_directory();
        for request in &self.requests {
            all.extend(request.query().map(|path| Query {
                base: base.clone(),
                path: path.to_owned(),
            }));
        }
        all
    }

    /// Decides. `answers` are those to [`Inquiry::queries`], in order; one that is missing is unresolved.
    pub fn decide(&self, policy: &Policy, answers: &[ResolvedPath]) -> Decision {
        self.judge(policy, answers, None)
    }

    /// The outcome that holds whatever the host says of the roots; none where it may depend on that.
    pub fn outright(&self, policy: &Policy) -> Option<Action> {
        let (ground, paths) = self.resolved(policy, &[]);
        let judge = Judge::new(self, policy, &ground);
        let depends = !paths.is_empty() || judge.texts_depend_on_roots();
        (!depends).then(|| judge.verdict(&paths, &mut None).outcome)
    }

    /// The same decision, and how it came about.
    pub fn explain(&self, policy: &Policy, answers: &[ResolvedPath]) -> Decision {
        self.judge(policy, answers, Some(Vec::new()))
    }

    /// Where it is judged, and the paths of the call in both forms; none for what is no path.
    fn resolved(&self, policy: &Policy, answers: &[ResolvedPath]) -> (Ground, Vec<Option<Resolved>>) {
        let mut answers = answers.iter().map(ResolvedPath::answer);
        let ground = Ground::new(self, policy.fold(), &mut answers);
        let paths = self.paths(&ground, &mut answers);
        (ground, paths)
    }

    fn paths<'a>(
        &self,
        ground: &Ground,
        answers: &mut dyn Iterator<Item = Answer<'a>>,
    ) -> Vec<Option<Resolved>> {
        let mut paths = Vec::with_capacity(self.requests.len());
        for request in &self.requests {
            paths.push(match &request.requested {
                Requested::NoPath => None,
                Requested::Path(path) => {
                    Some(Resolved::new(ground.directory.lexical.join(path), answers.next()))
                }
            });
        }
        paths
    }

    /// The outcome alone, the step that set it, and whether a rule did. `answers` are those to what comes behind [`Inquiry::standing`].
    pub(super) fn outcome<'a>(
        &self,
        policy: &Policy,
        ground: &Ground,
        answers: &mut dyn Iterator<Item = Answer<'a>>,
    ) -> (Action, Reason, bool) {
        let paths = self.paths(ground, answers);
        let verdict = Judge::new(self, policy, ground).verdict(&paths, &mut None);
        (verdict.outcome, verdict.reason, verdict.rule.is_some())
    }

    fn judge(
        &self,
        policy: &Policy,
        answers: &[ResolvedPath],
        mut trace: Option<Vec<TraceStep>>,
    ) -> Decision {
        let (ground, paths) = self.resolved(policy, answers);
        let verdict = Judge::new(self, policy, &ground).verdict(&paths, &mut trace);
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
            rule: verdict.rule.and_then(|rule| rule.row(policy, &self.protected)),
            working_directory: self.working_directory(),
            paths,
            trace: trace.unwrap_or_default(),
        }
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
        let style = self.place.style;
        if unsafe_shape(style, path).is_some() {
            return true;
        }
        let (ground, paths) = self.resolved(policy, answers);
        let lexical = ground.directory.lexical.join(path);
        let mut expected = None;
        for (request, tree) in self.requests.iter().zip(&paths) {
            let reads = request.tree && request.access.access() == Access::Read;
            let Some(tree) = tree.as_ref().filter(|_| reads) else {
                continue;
            };
            if let Some(canonical) = tree.canonical() {
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
        let judge = Judge::new(self, policy, &ground);
        let walks = Walks::new(&judge, &part);
        if walks.locked(Action::Deny).is_some() || walks.locked(Action::Require).is_some() {
            return true;
        }
        match walks.first() {
            Some((Action::Deny, _)) => true,
            // A question about every path was answered when the tree was allowed; one about this path was not.
            Some((Action::Require, rule)) => rule
                .row(policy, &[])
                .is_some_and(|rule| rule.path_pattern.is_some()),
            Some((Action::Allow, _)) | None => false,
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
