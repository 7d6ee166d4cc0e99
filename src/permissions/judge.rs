//! The steps of the gate: what each part of a call comes to.

use super::{
    bypass::Bypass,
    decision::{Reason, TraceStep},
    forms::Forms,
    gate::Inquiry,
    ground::{Ground, Resolved},
    policy::{Chain, Files, Group, Policy, Subject},
    preset::{Access, Cell, Location, Preset, cell},
    rule::{Action, ApprovalRule},
    tool::{PathRequest, Requested},
    walks::Walks,
};
use crate::{
    list::joined,
    paths::{AbsolutePath, PathStyle, may_hold_short_name, segments, unsafe_shape},
    run_context::RunContext,
};

/// In bytes: more than any file system takes.
const LONGEST_PATH: usize = 3 * 32_767;

/// An inquiry with everything that it is judged by.
pub(super) struct Judge<'j> {
    pub inquiry: &'j Inquiry,
    pub policy: &'j Policy,
    pub ground: &'j Ground,
    pub chain: Chain<'j>,
}

impl<'j> Judge<'j> {
    pub(super) fn new(inquiry: &'j Inquiry, policy: &'j Policy, ground: &'j Ground) -> Self {
        Self {
            inquiry,
            policy,
            ground,
            chain: policy.chain(inquiry.group.as_deref(), inquiry.place.style),
        }
    }

    /// The strictest of what the parts come to; each step goes into `trace`, where there is one.
    pub(super) fn verdict(&self, paths: &[Option<Resolved>], trace: &mut Option<Vec<TraceStep>>) -> Verdict {
        if let Some(trace) = trace {
            for note in &self.ground.notes {
                trace.push(TraceStep {
                    step: "run_context",
                    outcome: Action::Require,
                    note: Some(note.clone()),
                    rule: None,
                    path: None,
                });
            }
        }
        let mut strictest: Option<Verdict> = None;
        let mut judge = |part: Part<'_>| {
            let verdict = self.part(&part, trace);
            let stricter = |other: &Verdict| verdict.outcome > other.outcome;
            if strictest.as_ref().is_none_or(stricter) {
                strictest = Some(verdict);
            }
        };
        // Every path is decided by itself, and what the tool does beside.
        for ((request, path), at) in self.inquiry.requests.iter().zip(paths).zip(0u32..) {
            judge(Part {
                access: request.access.access(),
                path: Some((request, path.as_ref(), at)),
            });
        }
        if let Some(access) = self.beside() {
            judge(Part { access, path: None });
        }
        // A call has a part at least; without one nobody could say what it does.
        strictest.unwrap_or(Verdict {
            outcome: Action::Require,
            reason: Reason::NoMatch,
            rule: None,
            path: None,
            detail: None,
        })
    }

    /// What the tool does beside the paths that it asks for.
    fn beside(&self) -> Option<Access> {
        let tool = self.inquiry.tool.as_ref();
        let declared = tool.and_then(|tool| tool.access);
        match declared {
            Some(Access::Execute | Access::Network) => declared,
            // Declared paths say what a tool does; what it finds in its arguments itself does not.
            None if tool.is_none_or(|tool| tool.paths.is_empty()) => Some(Access::Unclassified),
            Some(access) if self.inquiry.requests.is_empty() => Some(access),
            _ => None,
        }
    }

    fn part(&self, part: &Part<'_>, trace: &mut Option<Vec<TraceStep>>) -> Verdict {
        let at = part.path.map(|(_, _, at)| at);
        let mut steps = Steps {
            policy: self.policy,
            verdict: Verdict {
                outcome: Action::Require,
                reason: Reason::NoMatch,
                rule: None,
                path: at,
                detail: None,
            },
            trace,
        };
        self.walk_steps(part, &mut steps);
        if steps.verdict.outcome == Action::Require && self.inquiry.headless {
            let rule = steps.verdict.rule;
            steps.set("headless", Action::Deny, Reason::Headless, rule, None);
        }
        steps.verdict
    }

    fn walk_steps(&self, part: &Part<'_>, steps: &mut Steps<'_>) {
        let (inquiry, ground) = (self.inquiry, self.ground);

        // 0 shape
        if let Some((request, path, _)) = part.path {
            let wrong = match &request.requested {
                Requested::NoPath => Some("it is no path"),
                Requested::Path(requested) if requested.len() > LONGEST_PATH => {
                    Some("it is longer than a path can be")
                }
                Requested::Path(requested) => unsafe_shape(inquiry.place.style, requested),
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
        let walks = Walks::new(self, part);

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
        if let Some((reason, rule, detail)) = self.insisting(&walks) {
            steps.set("insisting", Action::Require, reason, rule, detail);
            return;
        }
        let unresolved = part.path.and_then(|(_, path, _)| {
            let path = path.and_then(|path| path.canonical.as_ref().err());
            path.cloned().or_else(|| ground.unresolved())
        });
        // The reason stays what asked first; the trace says why the step does not allow.
        let allow = |steps: &mut Steps<'_>, step: &'static str, reason: Reason| match &unresolved {
            None => steps.set(step, Action::Allow, reason, None, None),
            Some(why) => steps.note(step, Reason::PathUnresolved, None, Some(why)),
        };
        if steps.verdict.outcome == Action::Allow && unresolved.is_some() {
            let why = unresolved.clone();
            steps.set("rules", Action::Require, Reason::PathUnresolved, None, why);
        }

        // 3 ceiling
        let canonical = part.path.and_then(|(_, path, _)| path?.canonical());
        let location = match (canonical, ground.directory.canonical()) {
            (Some(path), Some(directory)) if path.is_in(directory) => Location::WorkingDirectory,
            _ => Location::Elsewhere,
        };
        let verb = cell(inquiry.preset, part.access, location);
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
            } else if self.granted(part.access, path) {
                allow(steps, "run_context", Reason::RunContext);
            }
        }
        if steps.verdict.outcome == Action::Allow {
            return;
        }

        // 6 bypass
        let covers = |bypass: &Bypass| bypass.covers(inquiry.tool.as_ref(), inquiry.now);
        if inquiry.bypasses.iter().any(covers) {
            allow(steps, "bypass", Reason::Bypass);
        }

        // 7 floor
        if steps.verdict.outcome == Action::Require && verb == Cell::Allow {
            allow(steps, "preset", Reason::Preset);
        }
    }

    fn granted(&self, access: Access, path: &AbsolutePath) -> bool {
        let none = RunContext::default();
        let context = self.inquiry.run_context.as_ref().unwrap_or(&none);
        let grants = &self.ground.grants;
        match access {
            Access::Read => context.is_read_allowed(path, grants),
            Access::Write => {
                self.inquiry.preset != Some(Preset::ReadOnly) && context.is_write_allowed(path, grants)
            }
            _ => false,
        }
    }

    /// What nothing relaxes.
    fn insisting(&self, walks: &Walks<'_>) -> Option<(Reason, Option<RuleRef>, Option<String>)> {
        let inquiry = self.inquiry;
        if let Some(rule) = walks.locked(Action::Require) {
            return Some((Reason::LockedRule, Some(rule), None));
        }
        if let Some(group) = &inquiry.group
            && !self.policy.has_group(group, inquiry.groups.as_deref())
        {
            return Some((Reason::GroupMissing, None, Some(format!("`{group}`"))));
        }
        if let Some(why) = &inquiry.unverified {
            return Some((Reason::PolicyUnverified, None, Some(why.to_owned())));
        }
        let text = inquiry.texts.iter().find(|text| self.may_be_locked(text))?;
        Some((Reason::PossiblePath, None, Some(format!("`{text}`"))))
    }

    /// Whether a locked rule would speak of a text, were it a path.
    fn may_be_locked(&self, text: &str) -> bool {
        let fold = self.policy.fold();
        let lexical = self.ground.directory.lexical.join(text);
        // Nothing longer is a path anywhere; but a tool may shorten a path before it opens it.
        if text.len().min(lexical.key().len()) > LONGEST_PATH {
            return false;
        }
        let forms = Forms::new(&lexical, &self.ground.all_roots, Some(fold));
        if self.is_protected(&forms) {
            return true;
        }
        // A shape that the file system may read as another name; a short name may stand for any.
        let style = self.inquiry.place.style;
        if unsafe_shape(style, text).is_some() {
            let named = fold(text);
            let named = (!may_hold_short_name(style, text)).then_some(named.as_str());
            let mut protected = self.inquiry.protected.iter();
            let mut chain = self.chain.iter().flatten();
            if protected.any(|name| named.is_none_or(|text| text.contains(name.as_str())))
                || chain.any(|group| group.locks_paths(self.policy, &self.subject(), named))
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
                let rule = group.locked(self.policy, action, &subject);
                rule.and_then(|rule| self.policy.rule(rule))
                    .is_some_and(|rule| rule.path_pattern.is_some())
            })
        };
        self.chain.iter().flatten().any(locked)
    }

    /// Whether a text in the arguments may be locked by where the roots lead, and by nothing else.
    pub(super) fn texts_depend_on_roots(&self) -> bool {
        let mut texts = self
            .inquiry
            .texts
            .iter()
            .filter(|text| text.len() <= LONGEST_PATH);
        let mut chain = self.chain.iter().flatten();
        let locks = chain.any(|group| group.locks_paths(self.policy, &self.subject(), None));
        texts.any(|text| {
            let lexical = self.ground.directory.lexical.join(text);
            let forms = Forms::new(&lexical, &self.ground.all_roots, Some(self.policy.fold()));
            // A root may be any directory above.
            locks || self.holds_protected_name(forms.behind_root())
        })
    }

    /// Whether a path goes through a protected name below one of the roots.
    pub(super) fn is_protected(&self, forms: &Forms<'_>) -> bool {
        forms
            .longest_relative()
            .is_some_and(|path| self.holds_protected_name(path))
    }

    fn holds_protected_name(&self, path: &str) -> bool {
        let names = &self.inquiry.protected;
        // Forms have one separator, whatever their host writes.
        segments(PathStyle::Posix, path).any(|segment| names.iter().any(|name| name == segment))
    }

    /// Whether a tree may hold protected names: they are closed below every root.
    pub(super) fn holds_protected(&self, forms: &Forms<'_>) -> bool {
        !self.inquiry.protected.is_empty() && forms.holds_a_root()
    }

    pub(super) fn subject(&self) -> Subject<'_> {
        Subject {
            tool: &self.inquiry.tool_name,
            agent_id: self.inquiry.agent_id.as_deref(),
            source: self.inquiry.source.as_deref(),
            files: None,
            folded: None,
            exact: None,
            tree: false,
        }
    }
}

/// One part of a call: a path, or what the tool does beside.
pub(super) struct Part<'p> {
    pub access: Access,
    pub path: Option<(&'p PathRequest, Option<&'p Resolved>, u32)>,
}

/// A rule of the policy, or the one that is code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleRef {
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
    pub(super) fn row(self, policy: &Policy, protected: &[String]) -> Option<ApprovalRule> {
        match self {
            RuleRef::Row(at) => policy.rule(at).cloned(),
            RuleRef::Protected => Some(protected_rule(protected)),
        }
    }

    fn id(self, policy: &Policy) -> Option<i64> {
        match self {
            RuleRef::Row(at) => policy.rule(at).map(|rule| rule.id),
            RuleRef::Protected => Some(PROTECTED_RULE),
        }
    }
}

/// What a part came to, or the whole call.
pub(super) struct Verdict {
    pub outcome: Action,
    pub reason: Reason,
    pub rule: Option<RuleRef>,
    pub path: Option<u32>,
    pub detail: Option<String>,
}

/// What a part came to so far.
pub(super) struct Steps<'t> {
    policy: &'t Policy,
    pub verdict: Verdict,
    pub trace: &'t mut Option<Vec<TraceStep>>,
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
        self.note(step, reason, rule, detail.as_ref());
        self.verdict.detail = detail;
    }

    /// Writes down how it stands after a step.
    fn note(&mut self, step: &'static str, reason: Reason, rule: Option<RuleRef>, detail: Option<&String>) {
        let Verdict { outcome, path, .. } = self.verdict;
        if let Some(trace) = self.trace {
            let note = match detail {
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
    }
}
