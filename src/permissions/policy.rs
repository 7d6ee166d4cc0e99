//! Rules, compiled once: what the first rule is that speaks of a call, found without looking at those that do not.

use std::cell::OnceCell;

use super::{
    forms::Forms,
    rule::{Action, ApprovalRule, DEFAULT_GROUP, FILE_PATTERNS},
    tool::PathAccess,
};
use crate::{
    Result,
    list::{Listed, positions_in_order},
    paths::{AbsolutePath, Fold, PathStyle, is_in, relative_key},
};

/// Rules that decide calls. It stays as it is; another set of rules is another policy.
#[derive(Debug)]
pub struct Policy {
    rules: Vec<ApprovalRule>,
    groups: Vec<String>,
    fold: Fold,
    /// What is an absolute path depends on the host, so that there is one of each style at most.
    compiled: [OnceCell<Vec<Group>>; 2],
}

/// The rules of one group.
#[derive(Debug)]
pub(super) struct Group {
    name: String,
    all: RuleSet,
    locked_deny: RuleSet,
    locked_require: RuleSet,
}

/// The groups whose rules a session looks at: its own, and `default`.
pub(super) type Chain<'p> = [Option<&'p Group>; 2];

impl Policy {
    /// A policy of these rules. Where `groups` is absent, the groups that exist are `default` and those of the rules.
    ///
    /// # Errors
    /// `invalid_argument` with the `field`, such as `rules[2].priority`.
    pub fn compile(rules: Vec<ApprovalRule>, groups: Option<Vec<String>>, fold: Fold) -> Result<Self> {
        for (at, rule) in rules.iter().enumerate() {
            rule.check(&format!("rules[{at}]"))?;
        }
        let groups = groups.unwrap_or_else(|| rules.iter().map(|rule| rule.group_id.clone()).listed());
        Ok(Self {
            rules,
            groups,
            fold,
            compiled: Default::default(),
        })
    }

    /// The rules, as they were given.
    pub fn rules(&self) -> &[ApprovalRule] {
        &self.rules
    }

    /// Whether every call of a tool is denied, whatever its arguments are.
    pub fn denies_outright(
        &self,
        tool: &str,
        group: Option<&str>,
        agent_id: Option<&str>,
        source: Option<&str>,
        style: PathStyle,
    ) -> bool {
        let call = Subject {
            tool,
            agent_id,
            source,
            files: None,
            folded: None,
            exact: None,
            tree: false,
        };
        let chain = self.chain(group, style);
        let chain = || chain.iter().flatten();
        let locked = chain().any(|group| group.locked(self, Action::Deny, &call).is_some());
        let rules = chain().flat_map(|group| group.all.rules.iter());
        // A deny for some paths hides nothing: what it leaves over comes to the rules behind it. The first other rule that may
        // speak of a call of this tool, whatever its paths are, decides.
        let first = rules
            .filter(|rule| rule.speaks_to(self, &call))
            .find(|rule| rule.matches(self, &call) || rule.action != Action::Deny && rule.may_name(tool));
        locked || first.is_some_and(|rule| rule.action == Action::Deny)
    }

    pub(super) fn rule(&self, at: usize) -> Option<&ApprovalRule> {
        self.rules.get(at)
    }

    /// A rule as it is compared with others, on hosts of each style.
    pub(super) fn forms_of(&self, at: usize) -> Vec<Compiled> {
        let styles = [PathStyle::Posix, PathStyle::Windows].into_iter();
        let compiled = styles.map(|style| Some(Compiled::new(at, self.rule(at)?, style, self.fold)));
        compiled.flatten().listed()
    }

    pub(super) fn fold(&self) -> Fold {
        self.fold
    }

    /// Whether a group exists: of these, or of those of the policy. `default` always does.
    pub fn has_group(&self, name: &str, groups: Option<&[String]>) -> bool {
        let groups = groups.unwrap_or(&self.groups);
        name == DEFAULT_GROUP || groups.iter().any(|group| group == name)
    }

    /// The rules that a session of this group looks at, in order.
    pub(super) fn chain(&self, group: Option<&str>, style: PathStyle) -> Chain<'_> {
        let [posix, windows] = &self.compiled;
        let compiled = match style {
            PathStyle::Posix => posix,
            PathStyle::Windows => windows,
        };
        let groups = compiled.get_or_init(|| self.groups_of(style));
        let find = |name: &str| groups.iter().find(|group| group.name == name);
        let own = group.filter(|name| *name != DEFAULT_GROUP).and_then(find);
        [own, find(DEFAULT_GROUP)]
    }

    fn groups_of(&self, style: PathStyle) -> Vec<Group> {
        let order_of = |at: usize| self.rules.get(at).map(ApprovalRule::order);
        let order = positions_in_order(self.rules.len(), &|a, b| order_of(a).cmp(&order_of(b)));
        let mut groups: Vec<Group> = Vec::new();
        for at in order {
            let Some(rule) = self.rules.get(at) else { continue };
            let known = groups.iter().position(|group| group.name == rule.group_id);
            let known = known.unwrap_or_else(|| {
                groups.push(Group {
                    name: rule.group_id.clone(),
                    all: RuleSet::default(),
                    locked_deny: RuleSet::default(),
                    locked_require: RuleSet::default(),
                });
                groups.len() - 1
            });
            let Some(group) = groups.get_mut(known) else {
                continue;
            };
            let compiled = || Compiled::new(at, rule, style, self.fold);
            group.all.push(compiled());
            match (rule.locked, rule.action) {
                (true, Action::Deny) => group.locked_deny.push(compiled()),
                (true, Action::Require) => group.locked_require.push(compiled()),
                _ => {}
            }
        }
        for group in &mut groups {
            for set in [&mut group.all, &mut group.locked_deny, &mut group.locked_require] {
                set.index();
            }
        }
        groups
    }
}

impl Group {
    /// The first rule that speaks of a call.
    pub(super) fn first(&self, policy: &Policy, call: &Subject<'_>) -> Option<usize> {
        self.all.first(policy, call)
    }

    /// The first locked rule of this action that speaks of a call.
    pub(super) fn locked(&self, policy: &Policy, action: Action, call: &Subject<'_>) -> Option<usize> {
        match action {
            Action::Deny => self.locked_deny.first(policy, call),
            Action::Require => self.locked_require.first(policy, call),
            Action::Allow => None,
        }
    }

    /// Whether a locked rule speaks of paths of this tool: of any, or of one whose last name stands in a folded text.
    pub(super) fn locks_paths(&self, policy: &Policy, call: &Subject<'_>, text: Option<&str>) -> bool {
        let named = |path: &PathPattern| {
            let name = path.key.rsplit('/').next().unwrap_or_default();
            text.is_none_or(|text| text.contains(name))
        };
        let sets = [&self.locked_deny, &self.locked_require].into_iter();
        sets.flat_map(|set| &set.rules).any(|rule| {
            rule.may_name(call.tool) && rule.speaks_to(policy, call) && rule.path.as_ref().is_some_and(named)
        })
    }

    /// Every rule that speaks of a call, in order.
    pub(super) fn every<'a>(
        &'a self,
        policy: &'a Policy,
        call: &'a Subject<'_>,
    ) -> impl Iterator<Item = usize> + 'a {
        let rules = self.all.rules.iter();
        rules
            .filter(|rule| rule.matches(policy, call))
            .map(|rule| rule.rule)
    }
}

/// What rules are held against: one part of a call, in one form of its path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub tool: &'a str,
    pub agent_id: Option<&'a str>,
    pub source: Option<&'a str>,
    /// What is done with a path; none for a part without one.
    pub files: Option<Files>,
    /// The forms that patterns of `deny` and `require` are tested on, folded.
    pub folded: Option<&'a Forms<'a>>,
    /// The forms that patterns of `allow` are tested on, as they are.
    pub exact: Option<&'a Forms<'a>>,
    /// Whether `deny` and `require` for anything below count too.
    pub tree: bool,
}

/// Which of the `@fs_` patterns speak of a part of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Files {
    Only(PathAccess),
    /// A text that may be a path: whatever is done with it.
    Any,
}

#[derive(Debug)]
enum ToolPattern {
    Any,
    Exact(String),
    Prefix(String),
    Files { reads: bool, writes: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    /// From the root of a file system.
    Absolute,
    /// From the root of any drive.
    AnyDrive,
    /// From the workspace root or the working directory.
    Relative,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// A directory and everything below it.
    Tree,
    /// One path.
    Exact,
    /// The beginning of one name.
    Prefix,
}

#[derive(Debug)]
struct PathPattern {
    anchor: Anchor,
    shape: Shape,
    /// Folded, but for `allow`.
    key: String,
}

impl PathPattern {
    fn new(pattern: &str, style: PathStyle, fold: Option<Fold>) -> Self {
        let slashed = match style {
            PathStyle::Posix => pattern.to_owned(),
            PathStyle::Windows => pattern.replace('\\', "/"),
        };
        let (body, shape) = if slashed == "**" {
            ("", Shape::Tree)
        } else if let Some(body) = ["/**", "/*", "/"]
            .iter()
            .find_map(|end| slashed.strip_suffix(end))
        {
            (body, Shape::Tree)
        } else if let Some(body) = slashed.strip_suffix('*') {
            (body, Shape::Prefix)
        } else {
            (slashed.as_str(), Shape::Exact)
        };
        // A name's beginning stays as it is written; what stands before it is a directory.
        let (directory, stem) = match shape {
            Shape::Prefix => body
                .rsplit_once('/')
                .map_or(("", body), |(directory, stem)| (directory, stem)),
            _ => (body, ""),
        };
        let rooted = slashed.starts_with('/');
        let named = AbsolutePath::parse(style, &slashed);
        let (anchor, mut key) = match (named, rooted) {
            // With an end slash a bare drive or root is absolute too.
            (Some(_), _) => {
                let parsed = AbsolutePath::parse(style, &format!("{directory}/"));
                (
                    Anchor::Absolute,
                    parsed.map(|path| path.key().to_owned()).unwrap_or_default(),
                )
            }
            (None, rooted) => {
                let key = relative_key(style, directory).unwrap_or_default();
                let anchor = if rooted {
                    Anchor::AnyDrive
                } else {
                    Anchor::Relative
                };
                (anchor, if key.is_empty() { key } else { format!("/{key}") })
            }
        };
        if shape == Shape::Prefix {
            key.push('/');
            key.push_str(stem);
        }
        Self {
            anchor,
            shape,
            key: fold.map_or_else(|| key.clone(), |fold| fold(&key)),
        }
    }

    fn matches(&self, forms: &Forms<'_>, below: bool) -> bool {
        match self.anchor {
            Anchor::Absolute => self.meets(forms.absolute(), below),
            Anchor::AnyDrive => self.meets(forms.behind_root(), below),
            Anchor::Relative => {
                forms.relative().any(|path| self.meets(path, below)) || below && forms.holds_a_root()
            }
        }
    }

    /// Whether it matches every path that the other one matches. `key` is the other one's, as this one compares.
    fn covers(&self, other: &PathPattern, key: &str) -> bool {
        let directory = || key.rsplit_once('/').map_or("", |(directory, _)| directory);
        self.anchor == other.anchor
            && match (self.shape, other.shape) {
                (Shape::Tree, Shape::Prefix) => is_in(directory(), &self.key),
                (Shape::Tree, _) => is_in(key, &self.key),
                (Shape::Exact, Shape::Exact) => key == self.key,
                (Shape::Prefix, Shape::Exact | Shape::Prefix) => self.meets(key, false),
                _ => false,
            }
    }

    fn meets(&self, path: &str, below: bool) -> bool {
        let itself = match self.shape {
            Shape::Tree => is_in(path, &self.key),
            Shape::Exact => path == self.key,
            Shape::Prefix => path
                .strip_prefix(&self.key)
                .is_some_and(|rest| !rest.contains('/')),
        };
        itself || below && is_in(&self.key, path)
    }
}

/// One rule, ready to be held against calls.
#[derive(Debug)]
pub(super) struct Compiled {
    /// Its place in the policy.
    rule: usize,
    action: Action,
    tool: ToolPattern,
    path: Option<PathPattern>,
}

impl Compiled {
    fn new(at: usize, rule: &ApprovalRule, style: PathStyle, fold: Fold) -> Self {
        let files = FILE_PATTERNS.iter().find(|(name, ..)| *name == rule.tool_pattern);
        let tool = match (files, rule.tool_pattern.strip_suffix('*')) {
            (Some((_, reads, writes)), _) => ToolPattern::Files {
                reads: *reads,
                writes: *writes,
            },
            (None, Some("")) => ToolPattern::Any,
            (None, Some(prefix)) => ToolPattern::Prefix(prefix.to_owned()),
            (None, None) => ToolPattern::Exact(rule.tool_pattern.clone()),
        };
        let fold = (rule.action != Action::Allow).then_some(fold);
        Self {
            rule: at,
            action: rule.action,
            tool,
            path: rule
                .path_pattern
                .as_ref()
                .map(|pattern| PathPattern::new(pattern, style, fold)),
        }
    }

    /// Whether it speaks of every call that the other one speaks of.
    pub(super) fn covers(&self, policy: &Policy, other: &Compiled) -> bool {
        let tool = match (&self.tool, &other.tool) {
            (ToolPattern::Any, _) => true,
            (ToolPattern::Exact(name), ToolPattern::Exact(other)) => name == other,
            (ToolPattern::Prefix(prefix), ToolPattern::Exact(other) | ToolPattern::Prefix(other)) => {
                other.starts_with(prefix.as_str())
            }
            (
                ToolPattern::Files { reads, writes },
                ToolPattern::Files {
                    reads: other_reads,
                    writes: other_writes,
                },
            ) => (*reads || !other_reads) && (*writes || !other_writes),
            _ => false,
        };
        let whose = || {
            let (Some(rule), Some(other)) = (policy.rule(self.rule), policy.rule(other.rule)) else {
                return false;
            };
            (rule.agent_id.is_none() || rule.agent_id == other.agent_id)
                && (rule.source.is_none() || rule.source == other.source)
        };
        let path = || match (&self.path, &other.path) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(path), Some(its)) => match (self.action, other.action) {
                (Action::Allow, Action::Allow) => path.covers(its, &its.key),
                // A path that `allow` compares exactly is less than what the others compare folded.
                (Action::Allow, _) => false,
                _ => path.covers(its, &(policy.fold)(&its.key)),
            },
        };
        tool && whose() && path()
    }

    /// Whether it speaks of some call of a tool.
    fn may_name(&self, tool: &str) -> bool {
        match &self.tool {
            ToolPattern::Any | ToolPattern::Files { .. } => true,
            ToolPattern::Exact(name) => name == tool,
            ToolPattern::Prefix(prefix) => tool.starts_with(prefix.as_str()),
        }
    }

    fn matches(&self, policy: &Policy, call: &Subject<'_>) -> bool {
        let tool = match &self.tool {
            ToolPattern::Any => true,
            ToolPattern::Exact(name) => name == call.tool,
            ToolPattern::Prefix(prefix) => call.tool.starts_with(prefix.as_str()),
            ToolPattern::Files { reads, writes } => match call.files {
                None => false,
                Some(Files::Any) => true,
                Some(Files::Only(PathAccess::Read)) => *reads,
                Some(Files::Only(PathAccess::Write)) => *writes,
            },
        };
        tool && self.speaks_to(policy, call) && self.meets(call)
    }

    fn speaks_to(&self, policy: &Policy, call: &Subject<'_>) -> bool {
        policy.rule(self.rule).is_some_and(|rule| {
            let only = |wanted: &Option<String>, is: Option<&str>| {
                wanted.as_deref().is_none_or(|wanted| is == Some(wanted))
            };
            only(&rule.agent_id, call.agent_id) && only(&rule.source, call.source)
        })
    }

    fn meets(&self, call: &Subject<'_>) -> bool {
        let Some(pattern) = &self.path else {
            return true;
        };
        let (forms, below) = match self.action {
            Action::Allow => (call.exact, false),
            Action::Deny | Action::Require => (call.folded, call.tree),
        };
        forms.is_some_and(|forms| pattern.matches(forms, below))
    }
}

/// Rules in the order in which they are looked at, and where to find those for a call.
#[derive(Debug, Default)]
struct RuleSet {
    rules: Vec<Compiled>,
    /// By tool, sorted: the kind of pattern, and the name or its beginning.
    tools: Vec<(Key, Places)>,
    /// Lengths of the beginnings of names.
    prefixes: Vec<usize>,
    /// Whether there are rules for any tool, and for files.
    any: bool,
    files: bool,
}

/// Places of the rules of one tool pattern.
#[derive(Debug, Default)]
struct Places {
    /// Looked at one after another: rules without a path, and few with one.
    listed: Vec<usize>,
    /// By path, sorted: the kind of pattern, and its key.
    by_path: Vec<(Key, Vec<usize>)>,
    /// The kinds of pattern there are.
    kinds: Vec<(bool, Anchor, Shape)>,
}

/// What an index is sorted by: a mark for the kind of pattern, and a text.
type Key = (char, String);

/// What stands under a key, which is found without making one.
fn under<'i, T>(index: &'i [(Key, T)], mark: char, text: &str) -> Option<&'i T> {
    let order = |(key, _): &(Key, T)| key.0.cmp(&mark).then_with(|| key.1.as_str().cmp(text));
    let at = index.binary_search_by(order).ok()?;
    index.get(at).map(|(_, found)| found)
}

/// Places by key, sorted; those of a key in the order in which they came.
fn grouped(places: &[(Key, usize)]) -> Vec<(Key, Vec<usize>)> {
    let key = |at: usize| places.get(at).map(|(key, _)| key);
    let mut groups: Vec<(Key, Vec<usize>)> = Vec::new();
    for at in positions_in_order(places.len(), &|a, b| key(a).cmp(&key(b))) {
        let Some((key, place)) = places.get(at) else {
            continue;
        };
        match groups.last_mut() {
            Some((last, places)) if last == key => places.push(*place),
            _ => groups.push((key.clone(), vec![*place])),
        }
    }
    groups
}

/// So many rules are looked at one after another faster than they are found.
const FEW: usize = 8;

/// The mark of a kind of path pattern.
fn kind_mark(allow: bool, anchor: Anchor, shape: Shape) -> char {
    let anchor = match anchor {
        Anchor::Absolute => 0,
        Anchor::AnyDrive => 1,
        Anchor::Relative => 2,
    };
    let shape = match shape {
        Shape::Tree => 0,
        Shape::Exact => 3,
        Shape::Prefix => 6,
    };
    let allow = if allow { 9 } else { 0 };
    char::from(anchor + shape + allow)
}

impl RuleSet {
    fn push(&mut self, rule: Compiled) {
        self.rules.push(rule);
    }

    fn index(&mut self) {
        let mut by_tool: Vec<(Key, usize)> = Vec::new();
        for (place, rule) in self.rules.iter().enumerate() {
            let key = match &rule.tool {
                ToolPattern::Any => {
                    self.any = true;
                    ('*', String::new())
                }
                ToolPattern::Exact(name) => ('=', name.clone()),
                ToolPattern::Prefix(prefix) => {
                    if let Err(at) = self.prefixes.binary_search(&prefix.len()) {
                        self.prefixes.insert(at, prefix.len());
                    }
                    ('^', prefix.clone())
                }
                ToolPattern::Files { .. } => {
                    self.files = true;
                    ('@', String::new())
                }
            };
            by_tool.push((key, place));
        }
        for (key, listed) in grouped(&by_tool) {
            let mut places = Places {
                listed,
                ..Places::default()
            };
            places.index(&self.rules);
            self.tools.push((key, places));
        }
    }

    fn first(&self, policy: &Policy, call: &Subject<'_>) -> Option<usize> {
        if self.rules.is_empty() {
            return None;
        }
        if call.tree || self.rules.len() <= FEW {
            return self
                .rules
                .iter()
                .find(|rule| rule.matches(policy, call))
                .map(|rule| rule.rule);
        }
        let mut first = usize::MAX;
        let mut look = |kind: char, name: &str| {
            if let Some(places) = under(&self.tools, kind, name) {
                places.first(self, policy, call, &mut first);
            }
        };
        look('=', call.tool);
        if self.any {
            look('*', "");
        }
        if self.files {
            look('@', "");
        }
        for length in &self.prefixes {
            if let Some(prefix) = call.tool.get(..*length) {
                look('^', prefix);
            }
        }
        self.rules.get(first).map(|rule| rule.rule)
    }
}

impl Places {
    /// Takes rules with a path out of the list, where they are many.
    fn index(&mut self, rules: &[Compiled]) {
        let pattern = |place: &usize| {
            rules
                .get(*place)
                .and_then(|rule| Some((rule, rule.path.as_ref()?)))
        };
        if self
            .listed
            .iter()
            .filter(|place| pattern(place).is_some())
            .count()
            <= FEW
        {
            return;
        }
        let mut by_path = Vec::new();
        for place in std::mem::take(&mut self.listed) {
            let Some((rule, path)) = pattern(&place) else {
                self.listed.push(place);
                continue;
            };
            let allow = rule.action == Action::Allow;
            let kind = (allow, path.anchor, path.shape);
            if !self.kinds.contains(&kind) {
                self.kinds.push(kind);
            }
            let mark = kind_mark(allow, path.anchor, path.shape);
            by_path.push(((mark, path.key.clone()), place));
        }
        self.by_path = grouped(&by_path);
    }

    /// Lowers `first` to the place of the first rule that matches, where that is lower.
    fn first(&self, set: &RuleSet, policy: &Policy, call: &Subject<'_>, first: &mut usize) {
        let mut take = |places: &[usize]| {
            let found = places.iter().take_while(|place| **place < *first).find(|place| {
                set.rules
                    .get(**place)
                    .is_some_and(|rule| rule.matches(policy, call))
            });
            if let Some(found) = found {
                *first = *found;
            }
        };
        take(&self.listed);
        for (allow, anchor, shape) in &self.kinds {
            let forms = if *allow { call.exact } else { call.folded };
            let Some(forms) = forms else { continue };
            let mark = kind_mark(*allow, *anchor, *shape);
            let mut look = |key: &str| {
                if let Some(places) = under(&self.by_path, mark, key) {
                    take(places);
                }
            };
            let mut look_from = |path: &str| match shape {
                Shape::Exact => look(path),
                Shape::Tree => {
                    look(path);
                    for (at, _) in path.match_indices('/') {
                        look(path.get(..at).unwrap_or_default());
                    }
                }
                Shape::Prefix => {
                    let name = path.rfind('/').map_or(0, |slash| slash + 1);
                    let ends = path.char_indices().map(|(at, _)| at).chain([path.len()]);
                    for end in ends.filter(|end| *end >= name) {
                        look(path.get(..end).unwrap_or_default());
                    }
                }
            };
            match anchor {
                Anchor::Absolute => look_from(forms.absolute()),
                Anchor::AnyDrive => look_from(forms.behind_root()),
                Anchor::Relative => forms.relative().for_each(&mut look_from),
            }
        }
    }
}
