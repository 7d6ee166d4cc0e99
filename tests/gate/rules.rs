//! Random rules, as structures.

use runcontext::paths::PathStyle;
use serde_json::{Value, json};

use crate::{paths::pick, patterns::Pattern, random::Random, scan::Call};

#[derive(Clone, Debug)]
pub enum Tool {
    Any,
    Named(String),
    Beginning(String),
    Files(bool, bool),
}

pub const TOOLS: [&str; 8] = [
    "t",
    "tool",
    "tool_x",
    "tools",
    "mcp__a__b",
    "\u{e9}t\u{e9}",
    "*",
    "@fs_read",
];

#[derive(Clone, Debug)]
pub struct Rule {
    pub id: i64,
    pub priority: u32,
    pub own_group: bool,
    pub action: &'static str,
    pub locked: bool,
    pub agent: Option<&'static str>,
    pub tool: Tool,
    pub path: Option<Pattern>,
}

impl Rule {
    pub fn random(random: &mut Random, id: i64, style: PathStyle, paths_in: usize, call: &Call) -> Self {
        let action = ["allow", "deny", "require"][random.below(3)];
        let tool = match random.below(8) {
            0 => Tool::Any,
            1..3 => Tool::Named(pick(random, &TOOLS[..6]).to_owned()),
            3..6 => {
                let name: Vec<char> = pick(random, &TOOLS[..6]).chars().collect();
                Tool::Beginning(name[..=random.below(name.len())].iter().collect())
            }
            _ => [
                Tool::Files(true, false),
                Tool::Files(false, true),
                Tool::Files(true, true),
            ][random.below(3)]
            .clone(),
        };
        Self {
            id,
            priority: [0, 100, 100, 1_000_000][random.below(4)],
            own_group: random.one_in(3),
            action,
            locked: action != "allow" && random.one_in(40),
            agent: [None, None, None, Some("main"), Some("other")][random.below(5)],
            tool,
            path: match random.below(paths_in) {
                0 => None,
                number if number % 8 == 1 => Some(Pattern::near(random, style, call)),
                _ => Some(Pattern::random(random, style)),
            },
        }
    }

    pub fn row(&self, random: &mut Random, style: PathStyle) -> Value {
        let tool = match &self.tool {
            Tool::Any => "*".to_owned(),
            Tool::Named(name) => name.clone(),
            Tool::Beginning(name) => format!("{name}*"),
            Tool::Files(true, true) => "@fs_any".to_owned(),
            Tool::Files(true, _) => "@fs_read".to_owned(),
            Tool::Files(..) => "@fs_write".to_owned(),
        };
        json!({
            "id": self.id, "priority": self.priority, "action": self.action, "locked": self.locked, "agent_id": self.agent,
            "group_id": if self.own_group { "own" } else { "default" },
            "tool_pattern": tool, "path_pattern": self.path.as_ref().map(|path| path.text(random, style)),
        })
    }
}
