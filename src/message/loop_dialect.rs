//! The `loop` dialect: roles `user`, `assistant`, `toolResult`; blocks `text`, `image`, `thinking`, `toolCall`.

use super::{Call, Kind, MessageData, MessageOutline, MessageView, Role, StopKind};
use crate::{Error, Result, list::Listed};

/// A picture costs about this many tokens, whatever its size in bytes.
const IMAGE_TOKENS: usize = 1_200;

/// What the model is told of a call that never got its result.
pub(crate) const INTERRUPTED: &str = "The tool call was interrupted before it finished. It may be retried.";

/// Reads a message once. Fails where it has no role, or a role's own fields are missing.
///
/// `user_turn` says that the message came in through `prompt` or `begin`. What the outline does not understand
/// (unknown roles and blocks, other content or none) is left in the body, counts no text, and costs tokens by its
/// JSON length.
pub fn outline<M: MessageView>(message: &M, user_turn: bool) -> Result<MessageOutline> {
    if message.kind() != Kind::Object {
        return Err(Error::invalid("a message must be an object with a `role`"));
    }
    let Some(role) = message.field_text("role") else {
        return Err(Error::invalid(
            "a message must have a `role`, for example `user`, `assistant` or `toolResult`",
        ));
    };
    let mut outline = MessageOutline {
        role: match role.as_str() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "toolResult" => Role::ToolResult,
            _ => Role::Other,
        },
        user_turn: false,
        calls: Vec::new(),
        answers: Vec::new(),
        stop: None,
        is_error: false,
        text_len: 0,
        tokens: 0,
        bytes: message.has_bytes(),
    };
    outline.user_turn = user_turn && outline.role == Role::User;
    match outline.role {
        Role::Other => {
            outline.tokens = tokens(message.json_len());
            return Ok(outline);
        }
        Role::ToolResult => {
            let Some(id) = message.field_text("toolCallId") else {
                return Err(Error::invalid(
                    "a message with role `toolResult` must have a `toolCallId`",
                ));
            };
            let name = message.field_text("toolName").unwrap_or_default();
            outline.answers.push(Call { id, name });
            outline.is_error = message
                .field("isError")
                .and_then(|flag| flag.boolean())
                .unwrap_or(false);
        }
        Role::Assistant => {
            outline.stop = match message.field_text("stopReason").as_deref() {
                Some("error") => Some(StopKind::Error),
                Some("aborted") => Some(StopKind::Aborted),
                _ => None,
            };
        }
        Role::User => {}
    }
    let (mut text, mut other_tokens) = (0, 0);
    match message.field("content") {
        Some(content) if content.kind() == Kind::String => text = content.text_len(),
        Some(content) if content.kind() == Kind::List => {
            for block in content.items() {
                match block.field_text("type").as_deref() {
                    Some("text") => text += block.field("text").map_or(0, |value| value.text_len()),
                    Some("thinking") => {
                        other_tokens += tokens(block.field("thinking").map_or(0, |value| value.text_len()));
                    }
                    Some("image") => other_tokens += IMAGE_TOKENS as u32,
                    Some("toolCall") if outline.role == Role::Assistant => {
                        outline.calls.push(call(&block));
                        other_tokens += tokens(block.json_len());
                    }
                    _ => other_tokens += tokens(block.json_len()),
                }
            }
        }
        Some(content) => other_tokens = tokens(content.json_len()),
        // Whatever it says, it says elsewhere.
        None => other_tokens = tokens(message.json_len()),
    }
    outline.text_len = u32::try_from(text).unwrap_or(u32::MAX);
    outline.tokens = tokens(text).saturating_add(other_tokens);
    Ok(outline)
}

/// Four UTF-16 units to a token, rounded up.
fn tokens(units: usize) -> u32 {
    u32::try_from(units.div_ceil(4)).unwrap_or(u32::MAX)
}

fn call<M: MessageView>(block: &M) -> Call {
    Call {
        id: block.field_text("id").unwrap_or_default(),
        name: block.field_text("name").unwrap_or_default(),
    }
}

/// The arguments of every call inside an assistant message, where they are there, in the order of the outline's calls.
pub fn call_arguments<M: MessageView>(message: &M) -> Vec<Option<M>> {
    let blocks = message.field("content").map(|content| content.items());
    let calls = blocks
        .iter()
        .flatten()
        .filter(|block| block.field_text("type").as_deref() == Some("toolCall"));
    calls.map(|block| block.field("arguments")).listed()
}

/// The message with text in front of its content: a string stays a string, blocks get one text block first, and so does
/// whatever else stands there.
pub fn with_text_before<M: MessageData>(message: &M, text: &M) -> M {
    let content = match message.field("content") {
        Some(content) if content.kind() == Kind::String => M::joined(&[text.clone(), content], "\n\n"),
        Some(content) if content.kind() != Kind::Null => {
            let mut blocks = vec![text_block(text.clone())];
            if content.kind() == Kind::List {
                blocks.append(&mut content.items());
            } else {
                blocks.push(content);
            }
            M::list(blocks)
        }
        _ => text.clone(),
    };
    message.with_field("content", content)
}

/// A user message that holds one text.
pub fn user_message<M: MessageData>(text: M, timestamp: f64) -> M {
    M::object(vec![
        ("role", M::string("user")),
        ("content", text),
        ("timestamp", M::from_number(timestamp)),
    ])
}

/// The user message that was typed: given as its content, or whole. Gets `timestamp` where it has none.
pub fn typed_message<M: MessageData>(content: &M, timestamp: f64) -> Result<M> {
    let message = match content.kind() {
        Kind::String | Kind::List => {
            M::object(vec![("role", M::string("user")), ("content", content.clone())])
        }
        Kind::Object => content.clone(),
        _ => {
            return Err(Error::invalid(
                "a prompt must be text, a list of content blocks or a user message",
            ));
        }
    };
    if message.field_text("role").as_deref() != Some("user") {
        return Err(Error::invalid(
            "a prompt given as a message must have the role `user`",
        ));
    }
    match message.field("content").map(|content| content.kind()) {
        Some(Kind::String) => {}
        Some(Kind::List) => {
            let blocks = message
                .field("content")
                .map(|content| content.items())
                .unwrap_or_default();
            if let Some(at) = blocks.iter().position(|block| block.kind() != Kind::Object) {
                return Err(Error::invalid(format!(
                    "content block {at} must be an object with a `type`"
                )));
            }
        }
        _ => {
            return Err(Error::invalid(
                "a user message must have `content`: text or a list of content blocks",
            ));
        }
    }
    match message.field("timestamp").map(|value| value.kind()) {
        None => Ok(message.with_field("timestamp", M::from_number(timestamp))),
        Some(Kind::Number) if is_time(&message) => Ok(message),
        Some(_) => Err(Error::invalid(
            "`timestamp` of a message must be an integer number of milliseconds from 0 up",
        )),
    }
}

fn is_time<M: MessageView>(message: &M) -> bool {
    let time = message.field("timestamp").and_then(|value| value.number());
    time.is_some_and(|time| time.fract() == 0.0 && (0.0..=9_007_199_254_740_991.0).contains(&time))
}

/// The typed texts of a message: its string, or each of its text blocks.
pub fn texts<M: MessageView>(message: &M) -> Vec<M> {
    match message.field("content") {
        Some(content) if content.kind() == Kind::String => vec![content],
        Some(content) => content
            .items()
            .iter()
            .filter(|block| block.field_text("type").as_deref() == Some("text"))
            .filter_map(|block| block.field("text"))
            .filter(|text| text.kind() == Kind::String)
            .listed(),
        None => Vec::new(),
    }
}

/// The error result for a call that was cut off. Its time is that of the message that holds the call.
pub fn interrupted_result<M: MessageData>(call: &Call, call_message: &M) -> M {
    let text = text_block(M::string(INTERRUPTED));
    let mut members = vec![
        ("role", M::string("toolResult")),
        ("toolCallId", M::string(&call.id)),
        ("toolName", M::string(&call.name)),
        ("content", M::list(vec![text])),
        ("isError", M::from_bool(true)),
    ];
    if let Some(timestamp) = call_message.field("timestamp") {
        members.push(("timestamp", timestamp));
    }
    M::object(members)
}

/// A tool's answer as a message. Text becomes a text block; an object with a list `content` gives its `content`,
/// `details` and `isError`; anything else is shown as JSON.
pub fn tool_result<M: MessageData>(call: &Call, value: &M, failed: bool, timestamp: f64) -> M {
    let content = value
        .field("content")
        .filter(|content| content.kind() == Kind::List);
    let mut is_error = failed;
    let mut details = None;
    let blocks = match (value.kind(), content) {
        (Kind::Object, Some(content)) => {
            is_error |= value
                .field("isError")
                .and_then(|flag| flag.boolean())
                .unwrap_or(false);
            details = value.field("details");
            content
        }
        (Kind::String, _) => M::list(vec![text_block(value.clone())]),
        (Kind::Null, _) => M::list(Vec::new()),
        _ => M::list(vec![text_block(value.to_json_text())]),
    };
    let mut members = vec![
        ("role", M::string("toolResult")),
        ("toolCallId", M::string(&call.id)),
        ("toolName", M::string(&call.name)),
        ("content", blocks),
        ("isError", M::from_bool(is_error)),
        ("timestamp", M::from_number(timestamp)),
    ];
    if let Some(details) = details {
        members.insert(4, ("details", details));
    }
    M::object(members)
}

/// The last partial answer with the reason why it is the last.
pub fn stopped<M: MessageData>(partial: &M, stop: StopKind, error: Option<&str>) -> M {
    let reason = match stop {
        StopKind::Error => "error",
        StopKind::Aborted => "aborted",
    };
    let message = partial.with_field("stopReason", M::string(reason));
    match error {
        Some(text) if message.field("errorMessage").is_none() => {
            message.with_field("errorMessage", M::string(text))
        }
        _ => message,
    }
}

fn text_block<M: MessageData>(text: M) -> M {
    M::object(vec![("type", M::string("text")), ("text", text)])
}

/// Estimated tokens of [`interrupted_result`].
pub fn interrupted_tokens() -> u32 {
    tokens(INTERRUPTED.len())
}
