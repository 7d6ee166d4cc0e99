//! The dialect `openai-chat`, messages of Chat Completions: roles `user`, `assistant` with `tool_calls` beside its content, and
//! `tool`. Roles `system`, `developer` and the old `function` are kept as they are. A result cannot say that its tool failed,
//! and holds text alone.

use super::{
    Answer, Call, Kind, MessageData, MessageView,
    dialect::{Given, picture, text_block},
};
use crate::{Error, Result, list::Listed};

/// What stands in `tool_calls`.
pub(super) fn calls<M: MessageView>(message: &M) -> Vec<M> {
    let calls = message.field("tool_calls");
    calls.map(|calls| calls.items()).unwrap_or_default()
}

/// A call of a function, or of a custom tool, whose input is any text.
pub(super) fn call<M: MessageView>(call: &M) -> Call {
    let called = function(call).or_else(|| call.field("custom"));
    Call {
        id: call.field_text("id").unwrap_or_default(),
        name: called.and_then(|it| it.field_text("name")).unwrap_or_default(),
    }
}

fn function<M: MessageView>(call: &M) -> Option<M> {
    call.field("function").filter(|it| it.kind() == Kind::Object)
}

/// The arguments of a function are JSON as text. Models write such texts; one that is no JSON stays the text that it is.
pub(super) fn arguments<M: MessageData>(call: &M) -> Option<M> {
    let Some(function) = function(call) else {
        return call.field("custom")?.field("input");
    };
    let text = function.field("arguments")?;
    let blank = text.text().is_some_and(|text| text.trim().is_empty());
    (!blank).then(|| text.parsed().unwrap_or(text))
}

/// The call that a `tool` message answers.
pub(super) fn answer<M: MessageView>(message: &M) -> Result<Answer> {
    let Some(id) = message.field_text("tool_call_id") else {
        return Err(Error::invalid(
            "a message with role `tool` must have a `tool_call_id`",
        ));
    };
    Ok(Answer {
        id,
        name: String::new(),
        is_error: false,
    })
}

pub(super) fn result<M: MessageData>(call: &Call, given: Given<M>) -> M {
    let content = match given.blocks.as_ref().map(M::items) {
        Some(blocks) if !blocks.is_empty() => M::list(blocks.iter().map(text_of).listed()),
        Some(_) => M::string(""),
        None => given.text(),
    };
    M::object(vec![
        ("role", M::string("tool")),
        ("tool_call_id", M::string(&call.id)),
        ("content", content),
    ])
}

fn text_of<M: MessageData>(block: &M) -> M {
    if block
        .field("text")
        .is_some_and(|text| text.kind() == Kind::String)
    {
        return block.clone();
    }
    text_block(match picture(block) {
        Some(_) => M::string("[a picture, which results of tools cannot hold here]"),
        None => block.to_json_text(),
    })
}
