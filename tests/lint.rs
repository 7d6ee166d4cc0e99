//! What is odd about rules.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

use runcontext::permissions::{ApprovalRule, Policy, seeded_rules};
use serde_json::{Value, json};

/// Codes and ids of what is found about rules, which get the ids 1, 2, 3 and so on.
fn found(rules: Value, group: Option<&str>) -> Vec<(&'static str, Vec<i64>)> {
    let mut rules = ApprovalRule::parse_list(&rules).unwrap();
    for (at, rule) in rules.iter_mut().enumerate() {
        rule.id = at as i64 + 1;
    }
    let policy = Policy::compile(rules, None, |name| name.to_lowercase()).unwrap();
    let findings = policy.lint(group);
    for finding in &findings {
        assert!(!finding.message.ends_with('.') && finding.message.len() > 20);
    }
    findings
        .into_iter()
        .map(|finding| (finding.code, finding.rules))
        .collect()
}

/// A rule in short: action, tool, path.
fn rule(short: &str) -> Value {
    let mut words = short.split(' ');
    let mut rule =
        json!({ "action": words.next(), "tool_pattern": words.next(), "path_pattern": words.next() });
    for word in words {
        let (name, value) = word.split_once('=').unwrap();
        rule[name] = serde_json::from_str(value).unwrap_or(json!(value));
    }
    if rule["path_pattern"] == "-" {
        rule["path_pattern"] = Value::Null;
    }
    rule
}

/// Whether the first of two rules leaves nothing to the second.
fn shadows(first: &str, second: &str) -> bool {
    match found(json!([rule(first), rule(second)]), None).as_slice() {
        [] => false,
        [("shadowed", rules)] => {
            assert_eq!(*rules, [2, 1]);
            true
        }
        other => panic!("{first}, {second}: {other:?}"),
    }
}

#[test]
fn the_first_rules_are_not_odd() {
    let policy = Policy::compile(seeded_rules(), None, |name| name.to_lowercase()).unwrap();
    assert_eq!(policy.lint(None), []);
    assert_eq!(policy.lint(Some("default")), []);
}

#[test]
fn a_rule_is_shadowed_by_an_earlier_one_that_speaks_of_every_call_it_speaks_of() {
    for (first, second) in [
        ("allow read", "deny read"),
        ("deny read", "deny read"),
        ("require *", "deny read"),
        ("require *", "allow @fs_any"),
        ("require *", "allow read docs/*"),
        ("require read_*", "allow read_all"),
        ("require read_*", "allow read_all_*"),
        ("deny @fs_any", "allow @fs_read"),
        ("deny @fs_any", "allow @fs_write docs/*"),
        ("deny @fs_read", "require @fs_read"),
        ("allow read", "deny read secret/*"),
        // Paths.
        ("deny * a/*", "allow * a/b"),
        ("deny * a/*", "allow * a/b/*"),
        ("deny * a/*", "allow * a"),
        ("deny * a/*", "allow * a/n*"),
        ("deny * a/", "allow * ./a/**"),
        ("deny * **", "allow * a/b*"),
        ("deny * a", "require * A"),
        ("deny * A/*", "allow * a/b"),
        ("deny * a/n*", "allow * a/notes"),
        ("deny * a/n*", "allow * a/no*"),
        ("allow * a/*", "allow * a/b"),
        ("deny * /etc/*", "allow * /etc/passwd"),
        ("deny * /*", "allow * /etc/*"),
        // Agents and sources.
        ("deny t", "allow t - agent_id=a"),
        ("deny t - agent_id=a", "allow t - agent_id=a source=s"),
        ("deny t - locked=true", "allow t"),
    ] {
        assert!(shadows(first, second), "{first}, {second}");
    }
}

#[test]
fn a_rule_that_speaks_of_some_call_before_which_no_other_came_is_not_shadowed() {
    for (first, second) in [
        ("allow read", "deny write"),
        ("allow read_all", "deny read_*"),
        ("allow read_a_*", "deny read_*"),
        ("allow read", "deny *"),
        ("allow @fs_read", "deny @fs_any"),
        ("allow @fs_read", "deny @fs_write"),
        ("allow @fs_any", "deny read"),
        ("allow read", "deny @fs_read"),
        ("deny read docs/*", "allow read"),
        // Paths.
        ("deny * a/b", "allow * a/*"),
        ("deny * a/*", "allow * ab"),
        ("deny * a/*", "allow * a*"),
        ("deny * a/n*", "allow * a/n/x"),
        ("deny * a/n*", "allow * a/n/*"),
        ("deny * a/n*", "allow * n"),
        ("deny * a", "allow * a/b"),
        ("deny * a/*", "allow * /a/b"),
        ("deny * /*", "allow * a/b"),
        // What is compared exactly leaves other spellings to what is compared folded.
        ("allow * a/*", "deny * a/b"),
        ("allow * a/*", "allow * A/b"),
        // Agents and sources.
        ("deny t - agent_id=a", "allow t"),
        ("deny t - agent_id=a", "allow t - agent_id=b"),
        ("deny t - source=s", "allow t - agent_id=s"),
        // A locked rule counts wherever it stands.
        ("allow t", "deny t - locked=true"),
    ] {
        assert!(!shadows(first, second), "{first}, {second}");
    }
}

#[test]
fn what_comes_first_is_a_matter_of_priority_then_id() {
    let rules = |first: u32| json!([rule(&format!("allow t - priority={first}")), rule("deny t")]);
    assert_eq!(found(rules(100), None), [("shadowed", vec![2, 1])]);
    assert_eq!(found(rules(101), None), [("shadowed", vec![1, 2])]);
}

#[test]
fn groups_are_looked_at_by_themselves_or_as_a_session_does() {
    let rules = json!([
        rule("deny t"),
        rule("allow t - group_id=g priority=500"),
        rule("allow u - group_id=g"),
        rule("allow u - group_id=other"),
        rule("deny u - group_id=other"),
    ]);
    assert_eq!(found(rules.clone(), None), [("shadowed", vec![5, 4])]);
    assert_eq!(found(rules.clone(), Some("default")), []);
    // The rules of a group come before those of `default`, whatever their priority.
    assert_eq!(found(rules.clone(), Some("g")), [("shadowed", vec![1, 2])]);
    assert_eq!(found(rules, Some("other")), [("shadowed", vec![5, 4])]);
}

#[test]
fn catch_alls_that_say_different_things_are_a_conflict() {
    let rules = |second: &str| json!([rule("require *"), rule(second)]);
    let conflict = [("conflicting_catch_alls", vec![2, 1])];
    assert_eq!(found(rules("allow *"), None), conflict);
    assert_eq!(found(rules("deny * - locked=true"), None), conflict);
    assert_eq!(
        found(rules("allow * - priority=1"), None),
        [("conflicting_catch_alls", vec![1, 2])]
    );
    // The same once more is only superfluous; in another group it is how groups work.
    assert_eq!(found(rules("require *"), None), [("shadowed", vec![2, 1])]);
    assert_eq!(found(rules("allow * - group_id=g"), None), []);
    assert_eq!(
        found(rules("allow * - group_id=g"), Some("g")),
        [("shadowed", vec![1, 2])]
    );
    assert_eq!(
        found(rules("allow * - agent_id=a"), None),
        [("shadowed", vec![2, 1])]
    );
}

#[test]
fn a_beginning_of_names_that_ends_inside_a_word_is_wide() {
    for tool in ["read*", "a1*", "mcp__files*", "ä*"] {
        assert_eq!(
            found(json!([rule(&format!("allow {tool}"))]), None),
            [("wide_prefix", vec![1])],
            "{tool}"
        );
    }
    for tool in [
        "read_*", "read-*", "fs.*", "mcp:*", "server/*", "*", "read", "@fs_read",
    ] {
        assert_eq!(found(json!([rule(&format!("allow {tool}"))]), None), [], "{tool}");
    }
    assert_eq!(found(json!([rule("allow t notes*")]), None), []);
}

#[test]
fn a_star_that_stands_for_itself_is_told() {
    for (short, stars) in [
        ("deny *_delete", true),
        ("deny git_*_push", true),
        ("deny t *.env", true),
        ("deny t **/.env", true),
        ("deny t a/*/b", true),
        ("deny t a/*/*", true),
        ("deny t a***", true),
        ("deny t a/b*", false),
        ("deny t a/*", false),
        ("deny t a/**", false),
        ("deny t **", false),
        ("deny t *", false),
        ("deny read_*", false),
    ] {
        let expected = if stars {
            vec![("literal_star", vec![1])]
        } else {
            Vec::new()
        };
        assert_eq!(found(json!([rule(short)]), None), expected, "{short}");
    }
}
