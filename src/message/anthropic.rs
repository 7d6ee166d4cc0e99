//! The dialect `anthropic`, messages of the Messages API: roles `user` and `assistant`; blocks `text`, `image`, `thinking`,
//! `tool_use` and `tool_result`, which stands in a user message. `server_tool_use` and its results are the provider's own.

use super::{
    Answer, Call, MessageData, MessageView,
    dialect::{Block, Given, picture, typed, user},
};
use crate::list::Listed;

/// Whether a document is a file, and not a text that stands there.
pub(super) fn is_file<M: MessageView>(block: &M) -> bool {
    let kind = block.field("source").and_then(|source| source.field_text("type"));
    !matches!(kind.as_deref(), Some("text" | "content"))
}

/// A `tool_result`: which call it answers, and what it says.
pub(super) fn answer<M: MessageView>(block: &M) -> Block<M> {
    let answer = Answer {
        id: block.field_text("tool_use_id").unwrap_or_default(),
        name: String::new(),
        is_error: block.flag("is_error"),
    };
    Block::Result(answer, block.field("content"))
}

pub(super) fn result<M: MessageData>(call: &Call, given: Given<M>) -> M {
    let blocks = given.blocks.as_ref().map(M::items);
    let content = match blocks {
        Some(blocks) => M::list(blocks.iter().map(shown).listed()),
        None => given.text(),
    };
    let mut members = vec![("tool_use_id", M::string(&call.id)), ("content", content)];
    if given.failed {
        members.push(("is_error", M::from_bool(true)));
    }
    user(M::list(vec![typed("tool_result", members)]))
}

/// A block of a tool as the API takes it.
fn shown<M: MessageData>(block: &M) -> M {
    let Some((data, media_type)) = picture(block) else {
        return block.clone();
    };
    let source = typed("base64", vec![("media_type", media_type), ("data", data)]);
    typed("image", vec![("source", source)])
}
