//! Which tools the rules deny whatever their arguments are.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use runcontext::{
    paths::PathStyle,
    permissions::{Action, ApprovalRule, DecideInput, Policy, ResolvedPath},
};
use serde_json::{Value, json};

use crate::{
    ask::fold,
    paths::names,
    random::Random,
    rules::{Rule, TOOLS},
    scan::Call,
};

fn policy(rules: Value) -> Policy {
    let rules = ApprovalRule::parse_list(&rules).unwrap();
    Policy::compile(rules, Some(vec!["own".to_owned()]), fold).unwrap()
}

/// Whether it is denied outright for the agent `main` of the source `chat`, in a group.
fn denied(policy: &Policy, tool: &str, group: Option<&str>) -> bool {
    policy.denies_outright(tool, group, Some("main"), Some("chat"), PathStyle::Posix)
}

#[test]
fn a_tool_is_denied_outright_where_a_rule_for_all_its_calls_comes_before_any_that_could_let_one_through() {
    let deny = |id: u32, tool: &str| json!({ "id": id, "tool_pattern": tool, "action": "deny" });
    let rule = |id: u32, tool: &str, path: Option<&str>, action: &str| json!({ "id": id, "tool_pattern": tool, "path_pattern": path, "action": action });
    let of = |mut rule: Value, name: &str, value: Value| {
        rule[name] = value;
        rule
    };
    for (what, rules, expected) in [
        ("no rule", json!([]), false),
        ("its name", json!([deny(1, "run")]), true),
        ("the beginning of its name", json!([deny(1, "ru*")]), true),
        ("every tool", json!([deny(1, "*")]), true),
        ("another tool", json!([deny(1, "run_it")]), false),
        ("some paths", json!([rule(1, "run", Some("/*"), "deny")]), false),
        ("what has a path", json!([deny(1, "@fs_any")]), false),
        ("a question", json!([rule(1, "run", None, "require")]), false),
        (
            "leave before",
            json!([rule(1, "run", None, "allow"), deny(2, "run")]),
            false,
        ),
        (
            "a question before",
            json!([rule(1, "*", None, "require"), deny(2, "run")]),
            false,
        ),
        (
            "leave behind",
            json!([deny(1, "run"), rule(2, "run", None, "allow")]),
            true,
        ),
        (
            "leave for some paths before",
            json!([rule(1, "run", Some("docs/*"), "allow"), deny(2, "run")]),
            false,
        ),
        (
            "leave for reads before",
            json!([rule(1, "@fs_read", None, "allow"), deny(2, "*")]),
            false,
        ),
        (
            "some paths denied before",
            json!([rule(1, "run", Some("docs/*"), "deny"), deny(2, "run")]),
            true,
        ),
        (
            "leave for some paths behind",
            json!([deny(1, "run"), rule(2, "run", Some("docs/*"), "allow")]),
            true,
        ),
        (
            "leave for paths of another tool before",
            json!([rule(1, "read", Some("docs/*"), "allow"), deny(2, "run")]),
            true,
        ),
        (
            "leave for paths of tools with another beginning",
            json!([rule(1, "re*", Some("docs/*"), "allow"), deny(2, "run")]),
            true,
        ),
        (
            "leave of another agent before",
            json!([
                of(rule(1, "run", Some("x"), "allow"), "agent_id", json!("other")),
                deny(2, "run")
            ]),
            true,
        ),
        (
            "leave of another source before",
            json!([
                of(rule(1, "run", None, "allow"), "source", json!("tic")),
                deny(2, "run")
            ]),
            true,
        ),
        (
            "denied to another agent",
            json!([of(deny(1, "run"), "agent_id", json!("other"))]),
            false,
        ),
        (
            "denied to this agent",
            json!([of(deny(1, "run"), "agent_id", json!("main"))]),
            true,
        ),
        (
            "denied to this source",
            json!([of(deny(1, "run"), "source", json!("chat"))]),
            true,
        ),
        (
            "a lock behind leave",
            json!([
                rule(1, "run", None, "allow"),
                of(deny(2, "run"), "locked", json!(true))
            ]),
            true,
        ),
        (
            "a lock on some paths",
            json!([of(rule(1, "run", Some("x"), "deny"), "locked", json!(true))]),
            false,
        ),
        (
            "a locked question",
            json!([of(rule(1, "run", None, "require"), "locked", json!(true))]),
            false,
        ),
    ] {
        assert_eq!(denied(&policy(rules), "run", None), expected, "{what}");
    }
}

#[test]
fn the_rules_of_the_group_come_before_those_of_default() {
    let rules = |own: &str, default: &str| {
        policy(json!([
            { "id": 1, "tool_pattern": "run", "action": default, "priority": 0 },
            { "id": 2, "tool_pattern": "run", "action": own, "group_id": "own" },
        ]))
    };
    for (own, default, in_group, outside) in [
        ("deny", "allow", true, false),
        ("deny", "require", true, false),
        ("allow", "deny", false, true),
        ("require", "deny", false, true),
        ("deny", "deny", true, true),
    ] {
        let policy = rules(own, default);
        assert_eq!(
            denied(&policy, "run", Some("own")),
            in_group,
            "{own} before {default}"
        );
        for group in [None, Some("default"), Some("nowhere")] {
            assert_eq!(denied(&policy, "run", group), outside, "{group:?}: {default}");
        }
    }
    // What `default` says of some paths comes too late, and what another group says does not count.
    let policy = policy(json!([
        { "id": 1, "tool_pattern": "run", "path_pattern": "docs/*", "action": "allow", "priority": 0 },
        { "id": 2, "tool_pattern": "run", "action": "deny", "group_id": "own" },
        { "id": 3, "tool_pattern": "run", "path_pattern": "docs/*", "action": "allow", "group_id": "other" },
    ]));
    assert!(denied(&policy, "run", Some("own")));
    assert!(!denied(&policy, "run", None));
}

#[test]
fn no_call_of_a_tool_that_is_denied_outright_is_anything_but_denied() {
    let mut random = Random::new(11);
    let (mut outright, mut calls) = (0, 0);
    for _ in 0..600 {
        let style = [PathStyle::Posix, PathStyle::Windows][random.below(2)];
        let call = Call::random(&mut random, style);
        let rows: Vec<Value> = (1..=1 + random.below(12) as i64)
            .map(|id| Rule::random(&mut random, id, style, 3, &call).row(&mut random, style))
            .collect();
        let policy = policy(Value::Array(rows.clone()));
        for tool in TOOLS {
            if !policy.denies_outright(tool, Some("own"), Some("main"), None, style) {
                continue;
            }
            outright += 1;
            for declared in [
                json!({}),
                json!({ "access": "none" }),
                json!({ "access": "execute" }),
                json!({ "paths": [{ "argument": "/p", "access": "read" }] }),
                json!({ "paths": [{ "argument": "/p", "access": "write", "kind": "tree" }] }),
            ] {
                let path = call.workspace.0.below(names(&mut random, 3)).text(style);
                let input = json!({
                    "call": { "toolName": tool, "arguments": { "p": path } }, "tool": declared, "agentId": "main", "group": "own",
                    "cwd": call.directory.0.text(style), "workspaceRoot": call.workspace.0.text(style),
                    "pathStyle": if style == PathStyle::Windows { "windows" } else { "posix" },
                    "preset": "danger-full-access", "bypasses": [{ "scope": "all" }],
                });
                let question = DecideInput::parse(&input, &Value::Null, fold).unwrap();
                let asked = question.inquiry;
                let answers = asked
                    .queries()
                    .into_iter()
                    .map(|query| ResolvedPath::Canonical(query.path));
                let decision = asked.decide(&policy, &answers.collect::<Vec<_>>());
                assert_eq!(decision.outcome, Action::Deny, "{input}\n{rows:#?}");
                calls += 1;
            }
        }
    }
    println!("{outright} tools denied outright, {calls} calls");
    assert!(outright > 100, "{outright}");
}
