//! The built-in estimate of tokens: the rule by hand, and what tokenizers count. In the browser the same rule over JavaScript's
//! own strings too.
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

use runcontext::message::{MessageView, text_tokens};
use serde_json::{Value, json};

#[path = "lab/random.rs"]
pub mod random;
#[path = "lab/tokens.rs"]
pub mod tokens;

use random::Random;

fn vectors(kind: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("vectors/tokens.json")).unwrap();
    all[kind].as_array().unwrap().clone()
}

/// What a text costs, wherever it is.
fn estimated(text: &str) -> u32 {
    let tokens = text_tokens(text);
    assert_eq!(json!(text).tokens(), tokens, "{text:?}");
    #[cfg(target_family = "wasm")]
    assert_eq!(wasm_bindgen::JsValue::from_str(text).tokens(), tokens, "{text:?}");
    tokens
}

#[test]
fn a_text_costs_what_the_rule_says() {
    let exact = vectors("exact");
    assert_eq!(exact.len(), 24);
    for vector in exact {
        let (text, tokens) = (
            vector["text"].as_str().unwrap(),
            vector["tokens"].as_u64().unwrap(),
        );
        assert_eq!(
            vector["thousandths"].as_u64().unwrap().div_ceil(1_000),
            tokens,
            "{vector}"
        );
        assert_eq!(u64::from(estimated(text)), tokens, "{vector}");
    }
    for other in [json!(12), json!(null), json!(["text"]), json!({ "text": "text" })] {
        assert_eq!(other.tokens(), 0);
    }
}

#[test]
fn a_text_costs_about_what_tokenizers_count() {
    let reference = vectors("reference");
    assert_eq!(reference.len(), 14);
    for vector in reference {
        let count = |name: &str| vector[name].as_u64().unwrap();
        let counted = count("o200k").max(count("cl100k"));
        let estimate = u64::from(estimated(vector["text"].as_str().unwrap()));
        assert!(
            estimate * 10 >= counted * 9 && estimate * 10 <= counted * 17,
            "{estimate} for {vector}"
        );
    }
}

#[test]
fn texts_of_every_make_cost_the_same_wherever_they_are() {
    let pieces = [
        "a", "Z", "word", "Word", "WORD", "7", "1234", "\n", "\r\n", " ", "    ", "\t", "{\"", "=>", "\u{0}",
        "\u{7f}", "\u{80}", "ß", "\u{2ff}", "\u{300}", "Ж", "\u{3ff}", "\u{52f}", "\u{530}", "—", "字",
        "\u{d7ff}", "\u{e000}", "🦀",
    ];
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let count = random.below(40);
        let text: String = (0..count).map(|_| pieces[random.below(pieces.len())]).collect();
        assert_eq!(estimated(&text), tokens::tokens(&text), "{text:?}");
    }
}
