//! Reads a model's input the way a strict provider does, without any help from the code under test.

use runcontext::message::Dialect::{self, AiSdk, Anthropic, Loop, OpenAiChat};
use serde_json::Value;

/// What a model's input holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Tool calls.
    pub calls: usize,
    /// Answers that say that the call was interrupted.
    pub interrupted: usize,
}

/// The objects of a member that is a list.
fn blocks<'a>(message: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> {
    message[member].as_array().into_iter().flatten()
}

fn id_in(block: &Value, member: &str) -> Option<String> {
    block[member].as_str().map(str::to_owned)
}

/// The ids of the calls in a message of the `loop` dialect.
pub fn call_ids(message: &Value) -> Vec<String> {
    call_ids_in(Loop, message)
}

/// The ids of the calls in a message that somebody here has to answer.
pub fn call_ids_in(dialect: Dialect, message: &Value) -> Vec<String> {
    if message["role"] != "assistant" {
        return Vec::new();
    }
    let content = |kind: &'static str, member: &'static str| {
        let of_kind = blocks(message, "content").filter(move |block| block["type"] == kind);
        let own = of_kind.filter(|block| block["providerExecuted"] != true);
        own.filter_map(|block| id_in(block, member)).collect()
    };
    match dialect {
        Loop => content("toolCall", "id"),
        Anthropic => content("tool_use", "id"),
        AiSdk => content("tool-call", "toolCallId"),
        OpenAiChat => blocks(message, "tool_calls")
            .filter_map(|call| id_in(call, "id"))
            .collect(),
    }
}

/// The ids that a message answers, and what each answer is, as text.
pub fn answers_in(dialect: Dialect, message: &Value) -> Vec<(String, String)> {
    let role = |name: &str| message["role"] == name;
    let content = |kind: &'static str, member: &'static str| {
        let of_kind = blocks(message, "content").filter(move |block| block["type"] == kind);
        of_kind
            .filter_map(|block| Some((id_in(block, member)?, block.to_string())))
            .collect()
    };
    let whole = |member: &str| vec![(id_in(message, member).unwrap_or_default(), message.to_string())];
    match dialect {
        Loop if role("toolResult") => whole("toolCallId"),
        OpenAiChat if role("tool") => whole("tool_call_id"),
        Anthropic if role("user") => content("tool_result", "tool_use_id"),
        AiSdk if role("tool") => content("tool-result", "toolCallId"),
        _ => Vec::new(),
    }
}

/// Whether a message is nothing but results.
pub fn is_results(dialect: Dialect, message: &Value) -> bool {
    match dialect {
        Loop => message["role"] == "toolResult",
        OpenAiChat | AiSdk => message["role"] == "tool",
        Anthropic => {
            let mut all = blocks(message, "content").peekable();
            message["role"] == "user"
                && all.peek().is_some()
                && all.all(|block| block["type"] == "tool_result")
        }
    }
}

/// Every call is answered exactly once, directly behind its message, and no result stands anywhere else.
pub fn check_pairs(messages: &[Value]) -> Result<Pairs, String> {
    check_pairs_in(Loop, messages)
}

/// The same in a dialect. What was typed in a message with results ends them.
pub fn check_pairs_in(dialect: Dialect, messages: &[Value]) -> Result<Pairs, String> {
    let mut pairs = Pairs::default();
    let mut open: Vec<String> = Vec::new();
    let mut behind_a_call = false;
    for (at, message) in messages.iter().enumerate() {
        if message["stopReason"] == "error" || message["stopReason"] == "aborted" {
            return Err(format!("message {at} ended in error"));
        }
        let answers = answers_in(dialect, message);
        for (id, text) in &answers {
            let Some(call) = open.iter().position(|call| call == id) else {
                return Err(format!("message {at} answers `{id}`, which is not open"));
            };
            open.remove(call);
            pairs.interrupted += usize::from(text.contains("The tool call was interrupted"));
        }
        if is_results(dialect, message) {
            if !behind_a_call {
                return Err(format!("message {at} is a result without a call"));
            }
            continue;
        }
        if !open.is_empty() {
            return Err(format!("{open:?} are not answered before message {at}"));
        }
        open = call_ids_in(dialect, message);
        pairs.calls += open.len();
        behind_a_call = message["role"] == "assistant";
    }
    if !open.is_empty() {
        return Err(format!("{open:?} are not answered at the end"));
    }
    Ok(pairs)
}
