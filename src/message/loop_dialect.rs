//! The `loop` dialect: roles `user`, `assistant`, `toolResult`; blocks `text`, `image`, `thinking`, `toolCall`.

use super::{
    Answer, Call, Kind, MessageData, MessageView, StopKind,
    dialect::{Given, text_block},
};
use crate::{Error, Result};

/// The call that a `toolResult` answers.
pub(super) fn answer<M: MessageView>(message: &M) -> Result<Answer> {
    let Some(id) = message.field_text("toolCallId") else {
        return Err(Error::invalid(
            "a message with role `toolResult` must have a `toolCallId`",
        ));
    };
    Ok(Answer {
        id,
        name: message.field_text("toolName").unwrap_or_default(),
        is_error: message.flag("isError"),
    })
}

pub(super) fn stop<M: MessageView>(message: &M) -> Option<StopKind> {
    match message.field_text("stopReason").as_deref() {
        Some("error") => Some(StopKind::Error),
        Some("aborted") => Some(StopKind::Aborted),
        _ => None,
    }
}

/// Whether a message has a time; an error where it is none.
pub(super) fn has_time<M: MessageView>(message: &M) -> Result<bool> {
    let Some(timestamp) = message.field("timestamp") else {
        return Ok(false);
    };
    let is_time = |time: f64| time.fract() == 0.0 && (0.0..=9_007_199_254_740_991.0).contains(&time);
    if timestamp.kind() == Kind::Number && timestamp.number().is_some_and(is_time) {
        return Ok(true);
    }
    Err(Error::invalid(
        "`timestamp` of a message must be an integer number of milliseconds from 0 up",
    ))
}

pub(super) fn result<M: MessageData>(call: &Call, given: Given<M>) -> M {
    let content = match given.value.kind() {
        Kind::Null => M::list(Vec::new()),
        _ => M::list(vec![text_block(given.text())]),
    };
    let mut members = vec![
        ("role", M::string("toolResult")),
        ("toolCallId", M::string(&call.id)),
        ("toolName", M::string(&call.name)),
        ("content", given.blocks.unwrap_or(content)),
    ];
    members.extend(given.details.map(|details| ("details", details)));
    members.push(("isError", M::from_bool(given.failed)));
    members.extend(given.time.map(|time| ("timestamp", time)));
    M::object(members)
}

pub(super) fn stopped<M: MessageData>(partial: &M, stop: StopKind, error: Option<&str>) -> M {
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
