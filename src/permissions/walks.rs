//! The rules that speak of a part of a call, in every form of its path.

use super::{
    decision::TraceStep,
    forms::Forms,
    judge::{Judge, Part, RuleRef, Steps},
    policy::{Files, Subject},
    preset::Access,
    rule::Action,
};

/// The forms of a part's path, and the rules that speak of them.
pub(super) struct Walks<'w> {
    judge: &'w Judge<'w>,
    /// The call as rules see it, but for the forms of its path.
    subject: Subject<'w>,
    has_path: bool,
    /// Folded: the canonical form against the roots in truth, the lexical one against all, where that is another.
    folded: [Option<Forms<'w>>; 2],
    /// As they are, canonical, against the workspace root.
    exact: Option<Forms<'w>>,
}

impl<'w> Walks<'w> {
    pub(super) fn new(judge: &'w Judge<'w>, part: &Part<'w>) -> Self {
        let mut walks = Self {
            judge,
            subject: judge.subject(),
            has_path: part.path.is_some(),
            folded: [None, None],
            exact: None,
        };
        let Some((request, Some(path), _)) = part.path else {
            return walks;
        };
        walks.subject.files = Some(Files::Only(request.access));
        walks.subject.tree = request.tree && part.access == Access::Write;
        let (ground, fold) = (judge.ground, Some(judge.policy.fold()));
        let canonical = path.canonical();
        walks.exact = canonical.map(|path| Forms::new(path, &ground.exact_root, None));
        // Where no link is anywhere, by name is in truth.
        let differs = !ground.no_link || canonical != Some(&path.lexical);
        let lexical = differs.then(|| Forms::new(&path.lexical, &ground.all_roots, fold));
        let canonical = canonical.map(|path| Forms::new(path, &ground.true_roots, fold));
        walks.folded = [canonical, lexical];
        walks
    }

    /// The call as rules see it, once for every form of its path; the canonical one first.
    fn subjects(&self) -> impl Iterator<Item = Subject<'_>> {
        let bare = (!self.has_path).then_some(self.subject);
        let forms = self.folded.iter().flatten().map(|forms| Subject {
            folded: Some(forms),
            exact: self.exact.as_ref(),
            ..self.subject
        });
        bare.into_iter().chain(forms)
    }

    /// The first locked rule of this action, in any form.
    pub(super) fn locked(&self, action: Action) -> Option<RuleRef> {
        let judge = self.judge;
        let closed = |forms: &Forms<'_>| {
            judge.is_protected(forms) || self.subject.tree && judge.holds_protected(forms)
        };
        if action == Action::Deny && self.folded.iter().flatten().any(closed) {
            return Some(RuleRef::Protected);
        }
        for group in judge.chain.iter().flatten() {
            for subject in self.subjects() {
                if let Some(rule) = group.locked(judge.policy, action, &subject) {
                    return Some(RuleRef::Row(rule));
                }
            }
        }
        None
    }

    /// The first rule of each walk, and of those the one that counts.
    pub(super) fn first(&self) -> Option<(Action, RuleRef)> {
        let policy = self.judge.policy;
        let mut strictest: Option<(Action, RuleRef)> = None;
        for (walk, subject) in self.subjects().enumerate() {
            let mut groups = self.judge.chain.iter().flatten();
            let found = groups.find_map(|group| group.first(policy, &subject));
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
    pub(super) fn shadowed(&self, steps: &mut Steps<'_>) {
        const SHOWN: usize = 32;

        let policy = self.judge.policy;
        let decided = steps.verdict.rule;
        let mut seen: Vec<usize> = Vec::new();
        for subject in self.subjects() {
            for group in self.judge.chain.iter().flatten() {
                for rule in group.every(policy, &subject) {
                    if !seen.contains(&rule) {
                        seen.push(rule);
                    }
                }
            }
        }
        let path = steps.verdict.path;
        let Some(trace) = steps.trace else { return };
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
