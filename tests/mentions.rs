//! Finding `$name` mentions in what a person typed.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

use runcontext::skills::{Mentionable, find_mentions};
use serde_json::{Value, json};

fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors/mentions.json")).unwrap()
}

fn skills(vectors: &Value, case: &Value) -> Vec<Mentionable> {
    serde_json::from_value(vectors["skills"][case["skills"].as_str().unwrap()].clone()).unwrap()
}

#[test]
fn mentions_are_found_as_the_vectors_say() {
    let vectors = vectors();
    for case in vectors["cases"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        let scan = json!(find_mentions(text, &skills(&vectors, case)));
        assert_eq!(scan["mentions"], case["mentions"], "{}: {text:?}", case["name"]);
        assert_eq!(scan["notices"], case["notices"], "{}: {text:?}", case["name"]);
    }
}

#[test]
fn long_texts_are_read_in_one_go() {
    let vectors = vectors();
    for case in vectors["long"].as_array().unwrap() {
        let times = usize::try_from(case["times"].as_u64().unwrap()).unwrap();
        let text = case["repeat"].as_str().unwrap().repeat(times) + case["then"].as_str().unwrap();
        let scan = find_mentions(&text, &skills(&vectors, case));
        assert_eq!(json!(scan.mentions.len()), case["mentions"], "{}", case["name"]);
        assert_eq!(json!(scan.notices.len()), case["notices"], "{}", case["name"]);
    }
}

#[test]
fn a_mention_spans_exactly_what_was_typed() {
    let skills = [Mentionable {
        id: "i".into(),
        name: "a-1".into(),
        location: Some("/l".into()),
        shadowed: false,
    }];
    let text = "\u{1f600}é $a-1, [$a-1]( /l ) and $a-1";
    let units: Vec<u16> = text.encode_utf16().collect();
    let typed: Vec<String> = find_mentions(text, &skills)
        .mentions
        .iter()
        .map(|mention| String::from_utf16(&units[mention.start..mention.end]).unwrap())
        .collect();
    assert_eq!(typed, ["$a-1", "[$a-1]( /l )", "$a-1"]);
}
