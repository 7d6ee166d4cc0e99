//! Approval rules: which calls are allowed, denied or asked about.

use serde::Serialize;
use serde_json::Value;

use crate::{
    Error, Result,
    list::Listed,
    untyped::{self, FromJson, Reader, ToJson, field_error, one_of, to_object},
};

/// What the gate says of a call, from the mildest to the strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub enum Action {
    /// The call may run.
    Allow,
    /// A person is asked first.
    Require,
    /// The call must not run.
    Deny,
}

impl Action {
    /// Every action.
    pub const ALL: &[Action] = &[Action::Allow, Action::Require, Action::Deny];

    /// The text form.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Require => "require",
            Action::Deny => "deny",
        }
    }
}

impl FromJson for Action {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let all = [Action::Allow, Action::Deny, Action::Require].map(|action| (action.as_str(), action));
        one_of(value, path, &all)
    }
}

/// The group that every session has, and whose rules come last.
pub const DEFAULT_GROUP: &str = "default";

/// The largest priority.
const LAST_PRIORITY: u32 = 1_000_000;

/// One rule. The names of its fields are those of the stored rows and of the HTTP routes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct ApprovalRule {
    /// Among rules of one priority the smaller id comes first. Negative for what is code.
    #[cfg_attr(target_family = "wasm", tsify(type = "number"))]
    pub id: i64,
    /// Only sessions of this agent.
    #[cfg_attr(target_family = "wasm", tsify(optional, type = "string | null"))]
    pub agent_id: Option<String>,
    /// Only sessions of this source.
    #[cfg_attr(target_family = "wasm", tsify(optional, type = "string | null"))]
    pub source: Option<String>,
    /// A tool's name, the beginning of names and `*`, or `@fs_read`, `@fs_write`, `@fs_any` for paths that a call
    /// reads, writes or touches.
    pub tool_pattern: String,
    /// `<dir>/*` for a directory and everything below it, the beginning of a name and `*`, or a path. A relative one
    /// counts from the workspace root, and, where it denies or requires, from the working directory too.
    #[cfg_attr(target_family = "wasm", tsify(optional, type = "string | null"))]
    pub path_pattern: Option<String>,
    /// What it says.
    pub action: Action,
    /// For people.
    #[cfg_attr(target_family = "wasm", tsify(optional, type = "string | null"))]
    pub note: Option<String>,
    /// From 0 to 1,000,000; the smaller comes first.
    pub priority: u32,
    /// The group that it belongs to.
    pub group_id: String,
    /// Whether it counts wherever it stands, and nothing relaxes it. Never with `allow`.
    #[cfg_attr(target_family = "wasm", tsify(optional))]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub locked: bool,
}

impl ApprovalRule {
    /// A rule of the group `default` with the priority 100.
    pub fn new(id: i64, tool_pattern: &str, action: Action) -> Self {
        Self {
            id,
            agent_id: None,
            source: None,
            tool_pattern: tool_pattern.to_owned(),
            path_pattern: None,
            action,
            note: None,
            priority: 100,
            group_id: DEFAULT_GROUP.to_owned(),
            locked: false,
        }
    }

    /// Reads a list of rules from untyped JSON.
    ///
    /// # Errors
    /// `invalid_argument` with the path of the `field`, such as `rules[2].action`.
    pub fn parse_list(value: &Value) -> Result<Vec<Self>> {
        Vec::from_json(value, "rules")
    }

    /// What the types leave open.
    ///
    /// # Errors
    /// `invalid_argument` with the `field`.
    pub fn check(&self, path: &str) -> Result<()> {
        let wrong = |field: &str, problem: &str| Err(field_error(&untyped::join(path, field), problem));
        let tool = self.tool_pattern.as_str();
        if tool.trim().is_empty() {
            return wrong("tool_pattern", "is empty; name a tool, or write `*` for all");
        }
        if tool.starts_with('@') && !FILE_PATTERNS.iter().any(|(known, ..)| *known == tool) {
            return wrong(
                "tool_pattern",
                "must be `@fs_read`, `@fs_write` or `@fs_any` where it begins with `@`",
            );
        }
        if let Some(pattern) = &self.path_pattern {
            if pattern.trim().is_empty() {
                return wrong(
                    "path_pattern",
                    "is empty; name a path, or leave it out for every call",
                );
            }
            if pattern.contains('\0') {
                return wrong("path_pattern", "holds a NUL character; no path does");
            }
            if pattern.split(['/', '\\']).any(|segment| segment == "..") {
                return wrong("path_pattern", "holds `..`; write the path that is meant");
            }
        }
        if self.priority > LAST_PRIORITY {
            return wrong("priority", "must be an integer from 0 to 1,000,000");
        }
        if self.group_id.trim().is_empty() {
            return wrong("group_id", "is empty; name a group, for example `default`");
        }
        if self.locked && self.action == Action::Allow {
            return wrong("locked", "is only for rules that deny or require");
        }
        Ok(())
    }

    /// The order in which rules of one group are looked at.
    pub fn order(&self) -> (u32, i64) {
        (self.priority, self.id)
    }

    /// Whether it speaks of every call of its agent and source.
    pub fn is_catch_all(&self) -> bool {
        self.tool_pattern == "*" && self.path_pattern.is_none()
    }
}

/// Patterns for what a call does with paths: whether reads count, whether writes count.
pub(crate) const FILE_PATTERNS: [(&str, bool, bool); 3] = [
    ("@fs_read", true, false),
    ("@fs_write", false, true),
    ("@fs_any", true, true),
];

impl FromJson for ApprovalRule {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut object = Reader::new(value, path);
        object.no_misspelt(&[
            "agent_id",
            "source",
            "tool_pattern",
            "path_pattern",
            "action",
            "note",
            "priority",
            "group_id",
            "locked",
        ]);
        let action = object.taken(match object.get("action") {
            Some(action) => Action::from_json(action, &untyped::join(path, "action")).map(Some),
            None => Err(field_error(
                &untyped::join(path, "action"),
                "must be one of `allow`, `deny`, `require`",
            )),
        });
        let id = object.optional("id").map(|id| {
            let id = id
                .as_f64()
                .filter(|id| id.fract() == 0.0 && (0.0..9e15).contains(id));
            id.map(|id| id as i64)
                .ok_or_else(|| field_error(&untyped::join(path, "id"), "must be an integer from 0 up"))
        });
        let rule = Self {
            id: object.taken(id.unwrap_or(Ok(0))),
            agent_id: object.read("agent_id"),
            source: object.read("source"),
            tool_pattern: object.read("tool_pattern"),
            path_pattern: object.read("path_pattern"),
            action: action.unwrap_or(Action::Deny),
            note: object.read("note"),
            priority: object.optional_integer("priority", 0).unwrap_or(100),
            group_id: object
                .read::<Option<String>>("group_id")
                .unwrap_or_else(|| DEFAULT_GROUP.to_owned()),
            locked: object.read_or_default("locked"),
        };
        let rule = object.finish(rule)?;
        rule.check(path)?;
        Ok(rule)
    }
}

impl ToJson for ApprovalRule {
    fn to_json(&self) -> Value {
        let mut members: Vec<(&str, &dyn ToJson)> = vec![
            ("agent_id", &self.agent_id),
            ("source", &self.source),
            ("tool_pattern", &self.tool_pattern),
            ("path_pattern", &self.path_pattern),
            ("note", &self.note),
            ("priority", &self.priority),
            ("group_id", &self.group_id),
        ];
        if self.locked {
            members.push(("locked", &self.locked));
        }
        let mut object = to_object(&members);
        if let Some(object) = object.as_object_mut() {
            object.insert("id".to_owned(), Value::from(self.id));
            object.insert("action".to_owned(), Value::from(self.action.as_str()));
        }
        object
    }
}

/// The rows that a new group `default` begins with.
pub fn seeded_rules() -> Vec<ApprovalRule> {
    use Action::{Allow, Require};

    let rows = [
        (1, "execute_cmd", Require, 100, "commands are asked about"),
        (2, "restart", Require, 100, "a restart is asked about"),
        (
            3,
            "load_skill",
            Allow,
            100,
            "reading a skill's instructions changes nothing",
        ),
        (4, "*", Require, 1000, "what no other rule decides is asked about"),
    ];
    let rules = rows.map(|(id, tool, action, priority, note)| ApprovalRule {
        priority,
        note: Some(note.to_owned()),
        ..ApprovalRule::new(id, tool, action)
    });
    rules.into_iter().listed()
}

/// Refuses a catch-all where the group has one that says something else: the later one would never be reached.
///
/// # Errors
/// `rule_conflict` with the `rule` that is there.
pub fn check_catch_all<'a>(
    rule: &ApprovalRule,
    others: impl IntoIterator<Item = &'a ApprovalRule>,
) -> Result<()> {
    let conflict = others.into_iter().find(|other| {
        other.id != rule.id
            && other.group_id == rule.group_id
            && other.agent_id == rule.agent_id
            && other.source == rule.source
            && other.is_catch_all()
            && other.action != rule.action
    });
    match conflict.filter(|_| rule.is_catch_all()) {
        None => Ok(()),
        Some(other) => {
            let text = format!(
                "the group `{}` has a rule for every call that says `{}`; change rule {} instead",
                rule.group_id,
                other.action.as_str(),
                other.id
            );
            Err(Error::new(crate::ErrorCode::RuleConflict, text).with("rule", other.id))
        }
    }
}
