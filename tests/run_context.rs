//! Run contexts: which one a session begins with, and what configuration may say of it.
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

use runcontext::{
    ErrorCode,
    paths::PathStyle,
    run_context::{Defaults, RunContextInput, Work, WorkKind, build_runtime_run_context},
};
use serde_json::{Value, json};

/// A run context without the members that say nothing.
fn said(context: &impl serde::Serialize) -> Value {
    let mut said = serde_json::to_value(context).unwrap();
    if let Some(members) = said.as_object_mut() {
        members.retain(|_, value| !value.is_null() && *value != json!([]));
    }
    said
}

#[test]
fn every_vector_resolves_as_it_says() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("vectors/run_context.json")).unwrap();
    let mut failed = Vec::new();
    for vector in &vectors {
        let outcome = match RunContextInput::parse(&vector["input"]) {
            Ok((input, defaults)) => json!({ "is": said(&input.resolve(&defaults)) }),
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::InvalidArgument);
                json!({ "wrong": error.data() })
            }
        };
        let expected = match vector.get("wrong") {
            Some(wrong) => json!({ "wrong": wrong }),
            None => json!({ "is": vector["expected"] }),
        };
        if outcome != expected {
            failed.push(format!("{}: {outcome}\n    expected {expected}", vector["name"]));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(vectors.len(), 47);
}

fn config(text: &str) -> Value {
    let defaults = Defaults::parse(&json!(text), "defaults").unwrap();
    defaults.config().clone()
}

#[test]
fn scalars_of_a_file_are_what_yaml_says() {
    let text = "nothing: [~, null, NULL, ]\ntruths: [true, False]\nwhole: [0, -7, +7, 007, 9007199254740991]\n\
        real: [0.5, -1.25e2, 1e3, .5, 5.]\n\
        text: [0x10, 1_000, 9007199254740993, 1e400, 0.1e-30, .inf, .nan, yes, 1.2.3, 'true', \"5\"]\n5: a name\ntrue: another\n";
    assert_eq!(
        config(text),
        json!({
            "nothing": [null, null, null],
            "truths": [true, false],
            "whole": [0, -7, 7, 7, 9_007_199_254_740_991_i64],
            "real": [0.5, -125.0, 1000.0, 0.5, 5.0],
            "text": ["0x10", "1_000", "9007199254740993", "1e400", "0.1e-30", ".inf", ".nan", "yes", "1.2.3", "true", "5"],
            "5": "a name",
            "true": "another",
        })
    );
}

#[test]
fn what_a_configuration_has_beside_run_contexts_is_kept_and_reported() {
    let given = json!({
        "model": { "name": "small" },
        "agents": { "writer": { "run_context": { "colour": "red", "security_group": "g" }, "model": 1 }, "other": null },
        "tic": { "run_context": null, "interval": 5 },
    });
    let defaults = Defaults::parse(&given, "options.defaults").unwrap();
    let mut unknown = defaults.unknown_fields().to_vec();
    unknown.sort();
    assert_eq!(
        unknown,
        [
            "options.defaults.agents.writer.model",
            "options.defaults.agents.writer.run_context.colour",
            "options.defaults.model",
            "options.defaults.tic.interval",
        ]
    );
    assert_eq!(*defaults.config(), given);
    let of_writer = defaults.of(Some("writer"), None).unwrap();
    assert_eq!(said(of_writer), json!({ "colour": "red", "security_group": "g" }));
    assert_eq!(of_writer.unknown_fields("runContext"), ["runContext.colour"]);
}

#[test]
fn an_error_in_a_file_says_where_it_is_and_what_to_do() {
    let error = Defaults::parse(&json!("tic: {}\ntic: {}"), "options.defaults").unwrap_err();
    assert_eq!(
        error.message(),
        "`options.defaults` cannot be read from line 2, column 1, on (duplicate_field); write a mapping in plain YAML, without anchors, \
         aliases, tags and directives"
    );
    let deep = format!("{}x", "- ".repeat(40));
    for text in [&format!("a:\n  {deep}"), &"x".repeat(1024 * 1024 + 1)] {
        assert!(
            Defaults::parse(&json!(text), "defaults")
                .unwrap_err()
                .data()
                .contains_key("line")
        );
    }
}

#[test]
fn a_default_that_opens_a_file_system_is_refused_by_its_place() {
    let given = json!({ "sources": { "cron": { "run_context": { "allow_fs_writes": ["logs", "/**"] } } } });
    let defaults = Defaults::parse(&given, "options.defaults").unwrap();
    assert_eq!(
        defaults.check(PathStyle::Posix).unwrap_err().data()["field"],
        "options.defaults.sources.cron.run_context.allow_fs_writes[1]"
    );
}

#[test]
fn ten_thousand_grants_are_taken_into_a_project_once_each() {
    let mut grants: Vec<String> = (0..10_000).map(|at| format!("/srv/{at}/*")).collect();
    grants.extend_from_within(..);
    let row =
        json!({ "id": "p", "name": "Shop", "path": "/srv/7", "run_context": { "allow_fs_writes": grants } });
    let project = Work::read(WorkKind::Project, &row, "project").unwrap();
    let context = build_runtime_run_context(&project, None, None, project.run_context.clone());
    let writes = said(&context)["allow_fs_writes"].clone();
    assert_eq!(writes.as_array().unwrap().len(), 10_000);
    assert_eq!(writes[0], "/srv/7");
    assert_eq!(writes[1], "/srv/0/*");
}
