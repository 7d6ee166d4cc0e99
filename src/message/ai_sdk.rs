//! The dialect `ai-sdk`, its `ModelMessage`: roles `user`, `assistant` and `tool`; parts `text`, `image`, `file`, `reasoning`,
//! `tool-call` and `tool-result`. Calls that the provider executes are its own. What a message says of approvals is kept as it
//! is, and decides nothing.

use super::{
    Answer, Call, Kind, MessageData, MessageView,
    dialect::{Block, Given, picture, texts, typed},
};
use crate::list::Listed;

/// Whether a file is of such a media type.
pub(super) fn holds<M: MessageView>(part: &M, media: &str) -> bool {
    let kind = part.field_text("mediaType");
    kind.is_some_and(|kind| kind.starts_with(media))
}

/// A `tool-result`: which call it answers, and what it says.
pub(super) fn answer<M: MessageView>(part: &M) -> Block<M> {
    let Call { id, name } = Call::of(part, "toolCallId", "toolName");
    let output = part.field("output");
    let kind = output.as_ref().and_then(|output| output.field_text("type"));
    let kind = kind.unwrap_or_default();
    let answer = Answer {
        id,
        name,
        is_error: matches!(kind.as_str(), "error-text" | "error-json" | "execution-denied"),
    };
    let says = match kind.as_str() {
        "text" | "error-text" | "content" => output.and_then(|output| output.field("value")),
        _ => output,
    };
    Block::Result(answer, says)
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
