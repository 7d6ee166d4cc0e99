//! Conversations of the `loop` dialect as other dialects would have them.

use runcontext::message::Dialect::{self, AiSdk, Anthropic, Loop, OpenAiChat};
use serde_json::{Value, json};

/// How results that follow each other are put into messages, where one message can hold several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Each in its own.
    One,
    /// All in one.
    All,
    /// All in one, and what a person types next beside them, where the dialect has that.
    WithTyped,
}

/// The conversation in a dialect. Answers that failed, which only `loop` can say in the message, are left out.
pub fn converted(dialect: Dialect, messages: &[Value], grouping: Grouping) -> Vec<Value> {
    if dialect == Loop {
        return messages.to_vec();
    }
    let mut all: Vec<Value> = Vec::new();
    let mut behind_results = false;
    for message in messages {
        let failed = message["stopReason"] == "error" || message["stopReason"] == "aborted";
        let role = message["role"].as_str().unwrap_or_default();
        let next = match role {
            "assistant" if failed => continue,
            "assistant" => assistant(dialect, message),
            "user" => json!({ "role": "user", "content": content(dialect, &message["content"]) }),
            "toolResult" => result(dialect, message),
            _ => message.clone(),
        };
        let joins = match role {
            "toolResult" => behind_results && grouping != Grouping::One && dialect != OpenAiChat,
            "user" => behind_results && grouping == Grouping::WithTyped && dialect == Anthropic,
            _ => false,
        };
        match all.last_mut().filter(|_| joins) {
            Some(last) => {
                let blocks = match next["content"].as_str() {
                    Some(text) => vec![json!({ "type": "text", "text": text })],
                    None => next["content"].as_array().cloned().unwrap_or_default(),
                };
                last["content"].as_array_mut().unwrap().extend(blocks);
            }
            None => all.push(next),
        }
        behind_results = role == "toolResult";
    }
    all
}

fn picture(dialect: Dialect, block: &Value) -> Value {
    let (data, kind) = (&block["data"], &block["mimeType"]);
    match dialect {
        Loop => block.clone(),
        OpenAiChat => {
            let url = format!(
                "data:{};base64,{}",
                kind.as_str().unwrap(),
                data.as_str().unwrap()
            );
            json!({ "type": "image_url", "image_url": { "url": url } })
        }
        Anthropic => {
            json!({ "type": "image", "source": { "type": "base64", "media_type": kind, "data": data } })
        }
        AiSdk => json!({ "type": "image", "image": data, "mediaType": kind }),
    }
}

/// What a person typed, or a tool said.
fn content(dialect: Dialect, content: &Value) -> Value {
    let Some(blocks) = content.as_array() else {
        return content.clone();
    };
    let blocks = blocks.iter().map(|block| match block["type"].as_str() {
        Some("image") => picture(dialect, block),
        _ => block.clone(),
    });
    blocks.collect()
}

fn assistant(dialect: Dialect, message: &Value) -> Value {
    let blocks = message["content"].as_array().cloned().unwrap_or_default();
    let of = |kind: &'static str| blocks.iter().filter(move |block| block["type"] == kind);
    if dialect == OpenAiChat {
        let text: String = of("text").filter_map(|block| block["text"].as_str()).collect();
        let calls: Vec<Value> = of("toolCall")
            .map(|call| {
                let function = json!({ "name": call["name"], "arguments": call["arguments"].to_string() });
                json!({ "id": call["id"], "type": "function", "function": function })
            })
            .collect();
        let mut message = json!({ "role": "assistant", "content": text });
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        return message;
    }
    let blocks: Vec<Value> = blocks
        .iter()
        .map(|block| match (block["type"].as_str(), dialect) {
            (Some("toolCall"), Anthropic) => {
                json!({ "type": "tool_use", "id": block["id"], "name": block["name"], "input": block["arguments"] })
            }
            (Some("toolCall"), _) => {
                json!({ "type": "tool-call", "toolCallId": block["id"], "toolName": block["name"], "input": block["arguments"] })
            }
            (Some("thinking"), Anthropic) => {
                json!({ "type": "thinking", "thinking": block["thinking"], "signature": block["thinkingSignature"] })
            }
            (Some("thinking"), _) => json!({ "type": "reasoning", "text": block["thinking"] }),
            _ => block.clone(),
        })
        .collect();
    json!({ "role": "assistant", "content": blocks })
}

fn result(dialect: Dialect, message: &Value) -> Value {
    let id = &message["toolCallId"];
    let blocks = message["content"].as_array().cloned().unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    let failed = message["isError"] == true;
    match dialect {
        OpenAiChat => json!({ "role": "tool", "tool_call_id": id, "content": texts.join("\n") }),
        Anthropic => {
            let said = content(Anthropic, &message["content"]);
            let block =
                json!({ "type": "tool_result", "tool_use_id": id, "content": said, "is_error": failed });
            json!({ "role": "user", "content": [block] })
        }
        Loop | AiSdk => {
            let kind = if failed { "error-text" } else { "text" };
            let part = json!({
                "type": "tool-result", "toolCallId": id, "toolName": message["toolName"],
                "output": { "type": kind, "value": texts.join("\n") }
            });
            json!({ "role": "tool", "content": [part] })
        }
    }
}
