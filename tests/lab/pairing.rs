//! Reads a model's input the way a strict provider does, without any help from the code under test.

use serde_json::Value;

/// What a model's input holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Tool calls.
    pub calls: usize,
    /// Answers that say that the call was interrupted.
    pub interrupted: usize,
}

/// The ids of the calls in a message of the `loop` dialect.
pub fn call_ids(message: &Value) -> Vec<String> {
    let blocks = message["content"].as_array();
    let blocks = blocks.into_iter().flatten();
    blocks
        .filter(|block| message["role"] == "assistant" && block["type"] == "toolCall")
        .filter_map(|block| block["id"].as_str().map(str::to_owned))
        .collect()
}

/// Every call is answered exactly once, directly behind its message, and no result stands anywhere else.
pub fn check_pairs(messages: &[Value]) -> Result<Pairs, String> {
    let mut pairs = Pairs::default();
    let mut at = 0;
    while at < messages.len() {
        let message = &messages[at];
        at += 1;
        if message["role"] == "toolResult" {
            return Err(format!("message {} is a result without a call", at - 1));
        }
        if message["stopReason"] == "error" || message["stopReason"] == "aborted" {
            return Err(format!("message {} ended in error", at - 1));
        }
        let mut calls = call_ids(message);
        pairs.calls += calls.len();
        while let Some(result) = messages.get(at).filter(|it| it["role"] == "toolResult") {
            let id = result["toolCallId"].as_str().unwrap_or_default();
            let Some(call) = calls.iter().position(|call| call == id) else {
                return Err(format!("message {at} answers `{id}`, which is not open"));
            };
            calls.remove(call);
            let text = result["content"][0]["text"].as_str().unwrap_or_default();
            pairs.interrupted += usize::from(text.starts_with("The tool call was interrupted"));
            at += 1;
        }
        if !calls.is_empty() {
            return Err(format!("{calls:?} are not answered before message {at}"));
        }
    }
    Ok(pairs)
}
