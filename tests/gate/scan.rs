//! Random rules and calls: the compiled policy against a plain scan that shares nothing with it. Patterns and paths are made
//! as structures and written down for the gate; the scan compares the structures.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::collections::BTreeMap;

use runcontext::{
    paths::PathStyle,
    permissions::{ApprovalRule, DecideInput, Decision, Policy, ResolvedPath, TraceStep},
};
use serde_json::{Value, json};

use crate::{
    ask::fold,
    paths::{Path, names, pick},
    patterns::Pattern,
    random::Random,
    rules::{Rule, TOOLS, Tool},
};

/// What is asked, and what the host says.
#[derive(Clone, Debug)]
pub struct Call {
    pub tool: &'static str,
    /// Whether it writes; none for a call without a path.
    pub writes: Option<bool>,
    pub tree: bool,
    pub lexical: Path,
    pub canonical: Option<Path>,
    pub workspace: (Path, Option<Path>),
    pub directory: (Path, Option<Path>),
}

fn led(random: &mut Random, style: PathStyle, path: &Path) -> Option<Path> {
    match random.below(12) {
        0 => None,
        1 | 2 => Some(Path::random(random, style, 3)),
        _ => Some(path.clone()),
    }
}

impl Call {
    pub fn random(random: &mut Random, style: PathStyle) -> Self {
        let workspace = Path::random(random, style, 1);
        let directory = if random.one_in(4) {
            Path::random(random, style, 2)
        } else {
            workspace.below(names(random, 1))
        };
        let workspace = (workspace.clone(), led(random, style, &workspace));
        let directory = (directory.clone(), led(random, style, &directory));
        let lexical = match random.below(6) {
            0 => Path::random(random, style, 4),
            1 | 2 => directory.0.below(names(random, 3)),
            // The way to a root, for trees that hold it.
            3 => Path {
                root: workspace.0.root.clone(),
                names: workspace.0.names[..random.below(workspace.0.names.len() + 1)].to_vec(),
            },
            _ => workspace.0.below(names(random, 3)),
        };
        let canonical = match (random.one_in(3), &directory.1, lexical.behind(&directory.0)) {
            (true, Some(canonical), Some(rest)) => Some(canonical.below(rest.to_vec())),
            _ => led(random, style, &lexical),
        };
        let writes = (!random.one_in(8)).then(|| random.one_in(2));
        Self {
            tool: pick(random, &TOOLS),
            writes,
            tree: writes == Some(true) && random.one_in(5),
            lexical,
            canonical,
            workspace,
            directory,
        }
    }

    fn matches(&self, rule: &Rule, canonical_walk: bool) -> bool {
        let tool = match &rule.tool {
            Tool::Any => true,
            Tool::Named(name) => name == self.tool,
            Tool::Beginning(name) => self.tool.starts_with(name.as_str()),
            Tool::Files(reads, writes) => self
                .writes
                .is_some_and(|write| if write { *writes } else { *reads }),
        };
        if !tool || rule.agent.is_some_and(|agent| agent != "main") {
            return false;
        }
        let Some(pattern) = &rule.path else { return true };
        if self.writes.is_none() {
            return false;
        }
        if rule.action == "allow" {
            let roots: Vec<&Path> = self.workspace.1.iter().collect();
            return self
                .canonical
                .as_ref()
                .is_some_and(|path| pattern.speaks_of(path, &roots, false));
        }
        let canonical = [&self.workspace.1, &self.directory.1].into_iter().flatten();
        let mut roots: Vec<Path> = canonical.map(Path::folded).collect();
        let path = if canonical_walk {
            self.canonical.clone().unwrap()
        } else {
            roots.extend([self.workspace.0.folded(), self.directory.0.folded()]);
            self.lexical.clone()
        };
        let roots: Vec<&Path> = roots.iter().collect();
        pattern.folded().speaks_of(&path.folded(), &roots, self.tree)
    }

    fn walks(&self) -> Vec<bool> {
        match (self.writes, &self.canonical) {
            (Some(_), Some(_)) => vec![true, false],
            _ => vec![false],
        }
    }
}

/// What steps 1 and 2 have to find.
#[derive(Debug)]
struct Found {
    /// Any of these may be named: the first locked deny rules of a walk and a group.
    locked_deny: Vec<i64>,
    locked_require: Vec<i64>,
    first: Option<(&'static str, i64)>,
    every: Vec<i64>,
}

fn scan(rules: &[Rule], call: &Call) -> Found {
    let mut sorted: Vec<&Rule> = rules.iter().collect();
    sorted.sort_by_key(|rule| (!rule.own_group, rule.priority, rule.id));
    let strictness = |action: &str| ["allow", "require", "deny"].iter().position(|it| *it == action);
    let mut found = Found {
        locked_deny: Vec::new(),
        locked_require: Vec::new(),
        first: None,
        every: Vec::new(),
    };
    for canonical in call.walks() {
        let matching: Vec<&&Rule> = sorted
            .iter()
            .filter(|rule| call.matches(rule, canonical))
            .collect();
        for own in [true, false] {
            let locked = |action: &str| {
                let it = matching
                    .iter()
                    .find(|rule| rule.locked && rule.own_group == own && rule.action == action);
                it.map(|rule| rule.id)
            };
            found.locked_deny.extend(locked("deny"));
            found.locked_require.extend(locked("require"));
        }
        found.every.extend(matching.iter().map(|rule| rule.id));
        let first = matching.first().map(|rule| (rule.action, rule.id));
        found.first = match (found.first, first) {
            (None, first) if canonical || call.walks().len() == 1 => first,
            (before, None) => before,
            // Beside the canonical walk the lexical one can only make it stricter.
            (None, Some((action, id))) => (action != "allow").then_some((action, id)),
            (Some(before), Some(first)) if strictness(first.0) > strictness(before.0) => Some(first),
            (before, _) => before,
        };
    }
    found.every.sort();
    found.every.dedup();
    found
}

/// The gate's own answer.
fn decided(rules: Vec<Value>, call: &Call, style: PathStyle) -> Decision {
    let text = |path: &Path| path.text(style);
    let (mut tool, mut arguments) = (json!({ "access": "execute" }), json!({}));
    if let Some(write) = call.writes {
        let kind = if call.tree { "tree" } else { "file" };
        tool = json!({ "paths": [{ "argument": "/p", "access": if write { "write" } else { "read" }, "kind": kind }] });
        arguments = json!({ "p": text(&call.lexical) });
    }
    let input = json!({
        "call": { "toolName": call.tool, "arguments": arguments }, "tool": tool, "agentId": "main", "group": "own",
        "cwd": text(&call.directory.0), "workspaceRoot": text(&call.workspace.0), "protectedNames": [],
        "pathStyle": if style == PathStyle::Windows { "windows" } else { "posix" },
    });
    let question = DecideInput::parse(&input, &Value::Null, fold).unwrap();
    let mut led = vec![&call.workspace.1, &call.directory.1];
    if call.writes.is_some() {
        led.push(&call.canonical);
    }
    let answer = |path: &Option<Path>| match path {
        Some(path) => ResolvedPath::Canonical(text(path)),
        None => ResolvedPath::Unresolved("nobody knows".to_owned()),
    };
    let answers: Vec<ResolvedPath> = led.into_iter().map(answer).collect();
    let asked = question.inquiry;
    assert_eq!(asked.queries().len(), answers.len());
    let rules = ApprovalRule::parse_list(&Value::Array(rules)).unwrap();
    let groups = vec!["own".to_owned()];
    let policy = Policy::compile(rules, Some(groups), fold).unwrap();
    asked.explain(&policy, &answers)
}

const CALLS: usize = if cfg!(target_family = "wasm") { 300 } else { 4_000 };

#[test]
fn a_compiled_policy_finds_the_rules_that_a_plain_scan_finds() {
    let calls = match std::env::var_os("RUNCONTEXT_DEEP") {
        Some(_) => CALLS * 50,
        None => CALLS,
    };
    let mut random = Random::new(3);
    let mut coverage: BTreeMap<String, usize> = BTreeMap::new();
    let mut count = |what: String| *coverage.entry(what).or_insert(0) += 1;
    for number in 0..calls {
        let style = [PathStyle::Posix, PathStyle::Windows][random.below(2)];
        let most = [12, 40, 160, 240][random.below(4)];
        // Rules without a path decide often, and hide the others.
        let paths_in = [3, 40, 400][random.below(3)];
        let call = Call::random(&mut random, style);
        let rules: Vec<Rule> = (1..=random.below(most + 1) as i64)
            .map(|id| Rule::random(&mut random, id, style, paths_in, &call))
            .collect();
        let mut rows: Vec<Value> = rules.iter().map(|rule| rule.row(&mut random, style)).collect();
        rows.reverse();
        let expected = scan(&rules, &call);
        let decision = decided(rows.clone(), &call, style);
        let what = || {
            let named = decision.trace.iter().filter_map(|step| step.rule);
            let named: Vec<i64> = named.chain(expected.every.clone()).collect();
            let rows = rows
                .iter()
                .filter(|row| named.contains(&row["id"].as_i64().unwrap()));
            let rows: Vec<String> = rows.map(Value::to_string).collect();
            format!(
                "call {number}: {call:?}\n{}\n{expected:?}\n{:?}",
                rows.join("\n"),
                decision.trace
            )
        };

        let step = |name: &str| {
            let late = |step: &&TraceStep| step.note.as_deref() != Some("shadowed");
            decision.trace.iter().find(|step| step.step == name && late(step))
        };
        let mark = format!(
            "{style:?}, {}",
            if rules.len() > 60 && !call.tree {
                "index"
            } else {
                "list"
            }
        );
        if let Some(locked) = step("locked") {
            assert!(expected.locked_deny.contains(&locked.rule.unwrap()), "{}", what());
            assert_eq!(locked.outcome.as_str(), "deny");
            assert_eq!(decision.outcome.as_str(), "deny", "{}", what());
            count(format!("{mark}: locked deny"));
            continue;
        }
        assert!(expected.locked_deny.is_empty(), "{}", what());
        let first = step("rules").unwrap();
        match expected.first {
            None => {
                assert_eq!(
                    (first.outcome.as_str(), first.rule),
                    ("require", None),
                    "{}",
                    what()
                );
                assert_eq!(first.note.as_deref(), Some("no_match"), "{}", what());
                count(format!("{mark}: no match"));
            }
            Some((action, id)) => {
                assert_eq!(
                    (first.outcome.as_str(), first.rule),
                    (action, Some(id)),
                    "{}",
                    what()
                );
                let rule = rules.iter().find(|rule| rule.id == id).unwrap();
                let tool = match &rule.tool {
                    Tool::Any => "any tool",
                    Tool::Named(_) => "named tool",
                    Tool::Beginning(_) => "beginning of tools",
                    Tool::Files(..) => "files",
                };
                count(format!("{mark}: {action} by {tool}"));
                let path = rule.path.as_ref().map_or("no path".to_owned(), Pattern::kind);
                count(format!("{mark}: {action} for {path}"));
                if call.canonical.as_ref() != Some(&call.lexical) && call.writes.is_some() {
                    let unknown = call.canonical.is_none();
                    count(format!(
                        "{mark}: {action} on {}",
                        if unknown { "an unknown path" } else { "a link" }
                    ));
                }
            }
        }
        if first.outcome.as_str() != "deny" {
            match step("insisting") {
                Some(insisting) => {
                    assert!(
                        expected.locked_require.contains(&insisting.rule.unwrap()),
                        "{}",
                        what()
                    );
                    assert_eq!(decision.outcome.as_str(), "require", "{}", what());
                    count(format!("{mark}: locked require"));
                }
                None => assert!(expected.locked_require.is_empty(), "{}", what()),
            }
        }
        // Whatever else speaks of the call is named as coming too late.
        let mut named: Vec<i64> = decision
            .trace
            .iter()
            .filter(|step| step.step == "rules")
            .filter_map(|step| step.rule)
            .collect();
        named.sort();
        named.dedup();
        if expected.every.len() <= 32 {
            assert_eq!(named, expected.every, "{}", what());
        }
        if call.tree {
            count(format!("{mark}: a tree"));
        }
    }
    for (what, times) in &coverage {
        println!("{times:6} {what}");
    }
    // Of every kind enough, by the index.
    if calls < 4_000 {
        return;
    }
    for style in ["Posix", "Windows"] {
        let mut kinds = vec![
            "locked deny".to_owned(),
            "locked require".to_owned(),
            "no match".to_owned(),
        ];
        for action in ["allow", "deny", "require"] {
            for tool in ["any tool", "named tool", "beginning of tools", "files"] {
                kinds.push(format!("{action} by {tool}"));
            }
            for path in [
                "no path",
                "absolute exact",
                "absolute tree",
                "absolute prefix",
                "relative exact",
                "relative tree",
                "relative prefix",
            ] {
                kinds.push(format!("{action} for {path}"));
            }
            kinds.push(format!("{action} on a link"));
        }
        if style == "Windows" {
            for action in ["allow", "deny", "require"] {
                kinds.extend(["exact", "tree", "prefix"].map(|end| format!("{action} for any drive {end}")));
            }
        }
        for kind in kinds {
            let mark = format!("{style}, index: {kind}");
            let times = coverage.get(&mark).copied().unwrap_or(0);
            assert!(times >= 2, "{mark}: {times}");
        }
    }
}
