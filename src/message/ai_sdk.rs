//! The dialect `ai-sdk`, its `ModelMessage`: roles `user`, `assistant` and `tool`; parts `text`, `image`, `file`, `reasoning`,
//! `tool-call` and `tool-result`. Calls that the provider executes are its own. What a message says of approvals is kept as it
//! is, and decides nothing.

use super::{
    Answer, Call, Kind, MessageData, MessageView, Role,
    dialect::{Block, Given, picture, texts, typed},
};
use crate::list::Listed;

pub(super) fn block<M: MessageView>(role: Role, kind: &str, part: &M) -> Block<M> {
    let is_own = part.field("providerExecuted").and_then(|flag| flag.boolean()) != Some(true);
    match kind {
        "text" => Block::Text("text"),
        "reasoning" => Block::Thinking("text"),
        "image" | "image-data" | "image-url" => Block::Image,
        "file" | "file-data" | "media" => match part.field_text("mediaType") {
            Some(kind) if kind.starts_with("image") => Block::Image,
            _ => Block::Other,
        },
        "tool-call" if role == Role::Assistant && is_own => {
            Block::Call(Call::of(part, "toolCallId", "toolName"))
        }
        "tool-result" if role != Role::User => {
            let Call { id, name } = Call::of(part, "toolCallId", "toolName");
            let output = part.field("output");
            let kind = output.as_ref().and_then(|output| output.field_text("type"));
            let kind = kind.unwrap_or_default();
            let answer = Answer {
                id,
                name,
                is_error: matches!(kind.as_str(), "error-text" | "error-json" | "execution-denied"),
            };
            Block::Result(
                answer,
                match kind.as_str() {
                    "text" | "error-text" | "content" => output.and_then(|output| output.field("value")),
                    _ => output,
                },
            )
        }
        _ => Block::Other,
    }
}

pub(super) fn result<M: MessageData>(call: &Call, given: Given<M>) -> M {
    let (kind, value) = match &given.blocks {
        Some(_) if given.failed => ("text", M::joined(&texts(&given.value), "\n")),
        Some(blocks) => ("content", M::list(blocks.items().iter().map(shown).listed())),
        None if given.value.kind() == Kind::String => ("text", given.value),
        None => ("json", given.value),
    };
    let kind = match (kind, given.failed) {
        ("text", true) => "error-text",
        ("json", true) => "error-json",
        _ => kind,
    };
    let part = typed(
        "tool-result",
        vec![
            ("toolCallId", M::string(&call.id)),
            ("toolName", M::string(&call.name)),
            ("output", typed(kind, vec![("value", value)])),
        ],
    );
    M::object(vec![
        ("role", M::string("tool")),
        ("content", M::list(vec![part])),
    ])
}

/// A block of a tool as a part of its output.
fn shown<M: MessageData>(block: &M) -> M {
    match picture(block) {
        Some((data, media_type)) => typed("image-data", vec![("data", data), ("mediaType", media_type)]),
        None => block.clone(),
    }
}
