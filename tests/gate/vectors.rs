//! The cases that were written by hand, and inputs that are refused.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::collections::BTreeMap;

use runcontext::permissions::{Action, Decision, PROTECTED_RULE, Reason, TraceStep};
use serde_json::{Value, json};

use crate::ask::decide;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../vectors/gate.json")).unwrap()
}

fn list<'a>(vectors: &'a Value, name: &str) -> &'a Vec<Value> {
    vectors[name].as_array().unwrap()
}

/// The input of a case: the defaults, with the members of its own.
fn input(vectors: &Value, case: &Value) -> Value {
    let mut input = vectors["defaults"].clone();
    for (name, value) in case["input"].as_object().unwrap() {
        input[name] = value.clone();
    }
    for name in case["without"].as_array().into_iter().flatten() {
        input.as_object_mut().unwrap().remove(name.as_str().unwrap());
    }
    input
}

fn decided(vectors: &Value, case: &Value, traced: bool) -> runcontext::Result<Decision> {
    let found = case.get("extracted").unwrap_or(&Value::Null);
    decide(&input(vectors, case), found, &case["resolves"], traced)
}

/// What is wrong with a decision, by what the case expects.
fn wrong(case: &Value, decision: &Decision) -> Option<String> {
    let found = json!([decision.outcome, decision.reason.as_str()]);
    if found != json!([case["outcome"], case["reason"]]) {
        return Some(format!("it was {found}"));
    }
    let id = decision.rule.as_ref().map(|rule| rule.id);
    let expected = match case.get("rule") {
        Some(Value::String(_)) => Some(Some(PROTECTED_RULE)),
        Some(rule) => Some(rule.as_i64()),
        None => None,
    };
    if expected.is_some_and(|expected| expected != id) {
        return Some(format!("the rule was {id:?}"));
    }
    let paths = json!(decision.paths);
    let members = case["paths"].as_array().into_iter().flatten().enumerate();
    for (at, path) in members {
        for (name, expected) in path.as_object().unwrap() {
            if paths[at].get(name) != Some(expected) {
                return Some(format!("path {at} was {}", paths[at]));
            }
        }
    }
    (case.get("paths").is_some() && case["paths"].as_array().unwrap().len() != decision.paths.len())
        .then(|| format!("the paths were {paths}"))
}

#[test]
fn every_case_is_decided_as_it_says() {
    let vectors = vectors();
    let mut all = Vec::new();
    for case in list(&vectors, "cases") {
        let wrong = match decided(&vectors, case, false) {
            Ok(decision) => wrong(case, &decision),
            Err(error) => Some(error.to_string()),
        };
        all.extend(wrong.map(|wrong| format!("{}: {}: {wrong}", case["topic"], case["name"])));
    }
    assert!(all.is_empty(), "{} are wrong:\n{}", all.len(), all.join("\n"));
}

#[test]
fn every_input_that_is_wrong_is_refused_by_the_name_of_its_field() {
    let vectors = vectors();
    for case in list(&vectors, "errors") {
        let error = decide(&input(&vectors, case), &Value::Null, &Value::Null, false).unwrap_err();
        assert_eq!(json!(error.code().as_str()), case["code"], "{}", case["name"]);
        let field = error.data().get("field").and_then(Value::as_str).unwrap();
        let last = field.rsplit('.').next().unwrap().split('[').next().unwrap();
        if let Some(expected) = case["field"].as_str() {
            assert_eq!(last, expected, "{}: {field}", case["name"]);
        }
        let text = error.message();
        assert!(text.contains('`') && !text.ends_with('.'), "{text}");
    }
}

/// What the steps of a trace came to, part by part: those that say what came too late, or to nothing, aside.
fn ends(trace: &[TraceStep]) -> BTreeMap<Option<u32>, &TraceStep> {
    let aside = |step: &TraceStep| {
        let note = step.note.as_deref().unwrap_or_default();
        // A step that would have allowed a path that is not known comes to nothing.
        let unknown = step.step != "rules" && note.starts_with("path_unresolved");
        unknown || note == "shadowed" || note.starts_with("and ") || note.starts_with("grant_through_link")
    };
    let steps = trace.iter().filter(|step| !aside(step));
    steps.map(|step| (step.path, step)).collect()
}

/// The steps in their order.
const STEPS: [&str; 10] = [
    "shape",
    "locked",
    "rules",
    "insisting",
    "ceiling",
    "memory",
    "run_context",
    "bypass",
    "preset",
    "headless",
];

#[test]
fn explaining_gives_the_same_decision_and_a_trace_that_comes_to_it() {
    let vectors = vectors();
    let mut steps = BTreeMap::new();
    for case in list(&vectors, "cases") {
        let name = format!("{}: {}", case["topic"], case["name"]);
        let (plain, mut explained) = (
            decided(&vectors, case, false).unwrap(),
            decided(&vectors, case, true).unwrap(),
        );
        assert_eq!(plain.trace, Vec::new(), "{name}");
        let trace = std::mem::take(&mut explained.trace);
        assert_eq!(explained, plain, "{name}");

        let ends = ends(&trace);
        // Every path has a part of its own.
        for at in 0..plain.paths.len() {
            assert!(
                ends.contains_key(&Some(at as u32)),
                "{name}: no step for path {at}"
            );
        }
        let strictest = ends.values().map(|step| step.outcome).max().unwrap();
        assert_eq!(json!(strictest), case["outcome"], "{name}: {trace:?}");
        // The decision's reason is that of a part that is as strict.
        let reasons = ends
            .values()
            .filter(|step| step.outcome == strictest)
            .map(|step| step.note.as_deref().unwrap().split(':').next().unwrap());
        let reasons: Vec<&str> = reasons.collect();
        let reason = case["reason"].as_str().unwrap();
        assert!(reasons.contains(&reason), "{name}: {reasons:?}");
        if let Some(noted) = case["noted"].as_str() {
            assert!(json!(trace).to_string().contains(noted), "{name}: {trace:?}");
        }

        let ids: Vec<i64> = input(&vectors, case)["rules"]
            .as_array()
            .unwrap()
            .iter()
            .map(|rule| rule["id"].as_i64().unwrap())
            .collect();
        let mut last = BTreeMap::new();
        for step in &trace {
            let at = STEPS.iter().position(|name| *name == step.step).unwrap();
            let is_note = step.note.as_deref().unwrap().starts_with("grant_through_link");
            let before = last.insert((step.path, is_note), at).unwrap_or_default();
            assert!(before <= at, "{name}: {} comes too late", step.step);
            assert!(
                step.rule
                    .is_none_or(|id| id == PROTECTED_RULE || ids.contains(&id)),
                "{name}"
            );
            *steps.entry(step.step).or_insert(0) += 1;
        }
    }
    println!("steps in the traces: {steps:?}");
    for step in STEPS {
        assert!(
            steps.get(step).is_some_and(|count| *count >= 5),
            "`{step}`: {steps:?}"
        );
    }
}

#[test]
fn at_most_thirty_two_rules_that_came_too_late_are_named_and_the_rest_counted() {
    let vectors = vectors();
    for (rules, named, more) in [
        (1, 0, None),
        (33, 32, None),
        (34, 32, Some("and 1 more")),
        (90, 32, Some("and 57 more")),
    ] {
        let rules: Vec<Value> = (1..=rules)
            .map(|id| json!({ "id": id, "tool_pattern": "run*", "action": "require" }))
            .collect();
        let case = json!({ "input": { "call": { "toolName": "run_it", "arguments": {} }, "rules": rules } });
        let decision = decided(&vectors, &case, true).unwrap();
        assert_eq!(decision.rule.unwrap().id, 1);
        let late = decision
            .trace
            .iter()
            .filter(|step| step.note.as_deref() == Some("shadowed"));
        let late: Vec<Option<i64>> = late.map(|step| step.rule).collect();
        let expected: Vec<Option<i64>> = (2..2 + named).map(Some).collect();
        assert_eq!(late, expected);
        let count = decision
            .trace
            .iter()
            .filter_map(|step| step.note.as_deref())
            .find(|note| note.starts_with("and "));
        assert_eq!(count, more);
    }
}

#[test]
fn what_a_decision_says_to_people_names_the_tool_the_path_and_the_outcome() {
    let vectors = vectors();
    let mut reasons = BTreeMap::new();
    for case in list(&vectors, "cases") {
        let decision = decided(&vectors, case, false).unwrap();
        let text = &decision.message;
        let tool = case["input"]["call"]["toolName"].as_str().unwrap();
        let says = match decision.outcome {
            Action::Allow => "is allowed: ",
            Action::Require => "needs a person's approval: ",
            Action::Deny => "is denied: ",
        };
        assert!(
            text.starts_with(&format!("`{tool}` ")) && text.contains(says),
            "{text}"
        );
        assert!(!text.ends_with('.'), "{text}");
        let why = text
            .split(says)
            .nth(1)
            .unwrap()
            .split(" (")
            .next()
            .unwrap()
            .to_owned();
        reasons.entry(decision.reason.as_str()).or_insert(why);
    }
    // Every reason has words of its own.
    let mut words: Vec<&String> = reasons.values().collect();
    words.sort();
    words.dedup();
    assert_eq!(words.len(), reasons.len(), "{reasons:?}");
    // A policy that is not verified is no case of the vectors: a session says so.
    assert_eq!(reasons.len(), 13, "{reasons:?}");
    assert!(!reasons.contains_key(Reason::PolicyUnverified.as_str()));
}
