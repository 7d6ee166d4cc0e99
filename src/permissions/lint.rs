//! What rules say that their author can hardly have meant.

use serde::Serialize;

use super::{
    policy::Policy,
    rule::{ApprovalRule, DEFAULT_GROUP, check_catch_all},
};
use crate::{list::Listed, untyped::insert_sorted};

/// Something odd about rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct LintFinding {
    /// `shadowed`, `conflicting_catch_alls`, `wide_prefix` or `literal_star`.
    pub code: &'static str,
    /// The ids: first the rule that it is about, then the one that comes before it.
    #[cfg_attr(target_family = "wasm", tsify(type = "number[]"))]
    pub rules: Vec<i64>,
    /// The same for people.
    pub message: String,
}

/// What ends a segment of a tool's name.
const SEPARATORS: [char; 5] = ['_', '-', '.', ':', '/'];

impl Policy {
    /// What is odd about the rules that a session of this group looks at; without one, about each group by itself. In the
    /// order in which the rules are looked at.
    pub fn lint(&self, group: Option<&str>) -> Vec<LintFinding> {
        let in_chain = |rule: &ApprovalRule| {
            group.is_none_or(|group| rule.group_id == group || rule.group_id == DEFAULT_GROUP)
        };
        let order = |(_, a): &(usize, &ApprovalRule), (_, b): &(usize, &ApprovalRule)| {
            let groups = match group {
                Some(_) => (a.group_id == DEFAULT_GROUP).cmp(&(b.group_id == DEFAULT_GROUP)),
                None => a.group_id.cmp(&b.group_id),
            };
            groups.then_with(|| a.order().cmp(&b.order()))
        };
        let mut chain = Vec::new();
        for (at, rule) in self.rules().iter().enumerate() {
            if in_chain(rule) {
                insert_sorted(&mut chain, (at, rule), &order);
            }
        }
        let forms = chain.iter().map(|(at, _)| self.forms_of(*at)).listed();

        let mut findings = Vec::new();
        for (place, (_, rule)) in chain.iter().enumerate() {
            let mut find = |code, other: Option<&ApprovalRule>, message| {
                findings.push(LintFinding {
                    code,
                    rules: [Some(*rule), other]
                        .into_iter()
                        .flatten()
                        .map(|rule| rule.id)
                        .listed(),
                    message,
                });
            };
            let before = || {
                let others = chain.iter().zip(&forms).take(place);
                others.filter(|((_, other), _)| group.is_some() || other.group_id == rule.group_id)
            };
            let conflict = rule
                .is_catch_all()
                .then(|| before().find(|((_, other), _)| check_catch_all(rule, [*other]).is_err()));
            let conflict = conflict.flatten();
            // A locked rule counts wherever it stands.
            let shadow = forms.get(place).filter(|_| !rule.locked).and_then(|own| {
                before().find(|(_, other)| other.iter().zip(own).all(|(other, own)| other.covers(self, own)))
            });
            if let Some(((_, other), _)) = conflict {
                let text = format!(
                    "rules {} and {} of the group `{}` both speak of every call, and say `{}` and `{}`; delete one",
                    other.id,
                    rule.id,
                    rule.group_id,
                    other.action.as_str(),
                    rule.action.as_str()
                );
                find("conflicting_catch_alls", Some(*other), text);
            } else if let Some(((_, other), _)) = shadow {
                let text = format!(
                    "rule {} never decides: rule {} comes first, and speaks of every call that it speaks of",
                    rule.id, other.id
                );
                find("shadowed", Some(*other), text);
            }
            let tool = rule.tool_pattern.as_str();
            let prefix = tool.strip_suffix('*').unwrap_or_default();
            if !prefix.is_empty() && !prefix.ends_with(SEPARATORS) {
                let text = format!(
                    "`{tool}` speaks of every tool whose name begins with `{prefix}`, whatever its next letter; end it at \
                     `_`, `-`, `.`, `:` or `/`, or name the tool"
                );
                find("wide_prefix", None, text);
            }
            let path = rule.path_pattern.as_deref().unwrap_or_default();
            let star = [tool, path]
                .into_iter()
                .find(|pattern| body(pattern).contains('*'));
            if let Some(pattern) = star {
                let text = format!(
                    "a `*` of `{pattern}` is an ordinary character there; only one at the end stands for more"
                );
                find("literal_star", None, text);
            }
        }
        findings
    }
}

/// A pattern without the end that stands for more.
fn body(pattern: &str) -> &str {
    let ends = ["/**", "\\**", "*"];
    let bare = ends.iter().find_map(|end| pattern.strip_suffix(end));
    if pattern == "**" {
        ""
    } else {
        bare.unwrap_or(pattern)
    }
}
