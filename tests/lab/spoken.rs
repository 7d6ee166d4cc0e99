//! The same things said in each dialect, written by hand as their makers document them.

use runcontext::message::Dialect::{self, AiSdk, Anthropic, Loop, OpenAiChat};
use serde_json::{Value, json};

pub const ALL: [Dialect; 4] = [Loop, OpenAiChat, Anthropic, AiSdk];

/// What a call that was cut off is answered with.
pub const CUT_OFF: &str = "The tool call was interrupted before it finished. It may be retried.";

/// What a person typed. `timestamp` is when, where the dialect has that.
pub fn typed(dialect: Dialect, text: &str, timestamp: u64) -> Value {
    match dialect {
        Loop => json!({ "role": "user", "content": text, "timestamp": timestamp }),
        OpenAiChat | Anthropic | AiSdk => json!({ "role": "user", "content": text }),
    }
}

/// An answer in words.
pub fn says(dialect: Dialect, text: &str) -> Value {
    match dialect {
        Loop | Anthropic | AiSdk => {
            json!({ "role": "assistant", "content": [{ "type": "text", "text": text }] })
        }
        OpenAiChat => json!({ "role": "assistant", "content": text }),
    }
}

/// An answer that calls tools: id, name and arguments of each.
pub fn calls(dialect: Dialect, calls: &[(&str, &str, Value)]) -> Value {
    let block = |(id, name, arguments): &(&str, &str, Value)| match dialect {
        Loop => json!({ "type": "toolCall", "id": id, "name": name, "arguments": arguments }),
        Anthropic => json!({ "type": "tool_use", "id": id, "name": name, "input": arguments }),
        AiSdk => json!({ "type": "tool-call", "toolCallId": id, "toolName": name, "input": arguments }),
        OpenAiChat => json!({
            "type": "function", "id": id, "function": { "name": name, "arguments": arguments.to_string() }
        }),
    };
    let blocks: Vec<Value> = calls.iter().map(block).collect();
    match dialect {
        OpenAiChat => json!({ "role": "assistant", "content": null, "tool_calls": blocks }),
        Loop | Anthropic | AiSdk => json!({ "role": "assistant", "content": blocks }),
    }
}

/// A tool's result in words, or its failure.
pub fn result(dialect: Dialect, id: &str, name: &str, text: &str, failed: bool) -> Value {
    match dialect {
        Loop => json!({
            "role": "toolResult", "toolCallId": id, "toolName": name,
            "content": [{ "type": "text", "text": text }], "isError": failed
        }),
        OpenAiChat => json!({ "role": "tool", "tool_call_id": id, "content": text }),
        Anthropic => {
            let mut block = json!({ "type": "tool_result", "tool_use_id": id, "content": text });
            if failed {
                block["is_error"] = json!(true);
            }
            json!({ "role": "user", "content": [block] })
        }
        AiSdk => {
            let kind = if failed { "error-text" } else { "text" };
            json!({ "role": "tool", "content": [{
                "type": "tool-result", "toolCallId": id, "toolName": name, "output": { "type": kind, "value": text }
            }] })
        }
    }
}

/// The same with the time of the result, where the dialect has that.
pub fn result_at(dialect: Dialect, id: &str, name: &str, text: &str, failed: bool, timestamp: u64) -> Value {
    let mut message = result(dialect, id, name, text, failed);
    if dialect == Loop {
        message["timestamp"] = json!(timestamp);
    }
    message
}
