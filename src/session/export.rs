//! The header line of a session file: what a session is, written as fields of loop-session version 2.
//!
//! An imported header has fields that mean nothing here, and ways of writing that are not ours. They are kept beside what was
//! written for them when they came in, and stand in its place for as long as that is still what would be written.

use serde_json::{Map, Value};

use super::{Header, import::Came, lines::may_hold_half};
use crate::{
    Result,
    message::{Dialect, Role, StopKind},
    storage::StoredSession,
    untyped::to_object,
};

/// What a file of a session says of itself.
pub(super) const FORMAT: &str = "loop-session";
/// The version that is read and written.
pub(super) const VERSION: u32 = 2;
/// The field of the header with the settings that the format has no field for.
pub(super) const OWN: &str = "runcontext";
/// In it: the messages are written with tags, because some hold bytes.
pub(super) const TAGGED: &str = "tagged";
/// In it: which messages are not what their bodies say to a reader of the file, as `[position, what]`, in order.
pub(super) const APART: &str = "apart";
/// A user message that no person sent as one.
pub(super) const APPENDED: &str = "appended";
/// An answer that failed, or was aborted. Only `loop` has a word for it in the message.
pub(super) const FAILED: &str = "failed";
pub(super) const ABORTED: &str = "aborted";
/// The name among the settings of what is kept of an imported header. Nothing but the export looks at it.
pub(super) const IMPORTED: &str = "imported";

/// Settings that the format has no field for.
pub(super) const OWN_SETTINGS: [&str; 12] = [
    "dialect",
    "presetChosen",
    "agentId",
    "source",
    "runContext",
    "contextLabel",
    "headless",
    "systemPrompt",
    "projectInstructions",
    "sections",
    "outcome",
    "error",
];

/// JSON text and times, as they are read and written here: by a crate natively, by the host itself in wasm.
#[derive(Clone, Copy, Debug)]
pub struct Texts<M> {
    /// The plain data that JSON text says, with or without tags for what JSON lacks, and how many members its objects have, all
    /// together. None where it is no JSON, or more than plain data may be.
    pub read: fn(&str, bool) -> Option<(M, u32)>,
    /// Plain data as our own, with U+FFFD for halves of pairs.
    pub value: fn(&M) -> Value,
    /// The snapshots, compactions and checkpoints of a session.
    pub lists: fn(&StoredSession) -> [Value; 3],
    /// A value as JSON text.
    pub written: fn(&Value) -> String,
    /// Milliseconds since the epoch in ISO 8601.
    pub iso: fn(f64) -> String,
}

impl<M> Texts<M> {
    /// The header line of a stored session, without an end. `tagged` says that messages hold bytes.
    pub fn header_line(&self, stored: &StoredSession, tagged: bool) -> Result<String> {
        let header = Header::from_settings(&stored.record.settings)?;
        let members = self.members(stored, &header, tagged);
        let none = Map::new();
        let kept = stored.record.settings.get(IMPORTED);
        let kept = kept.and_then(Value::as_object).unwrap_or(&none);
        let mut line = String::new();
        let mut put = |name: &str, text: Option<String>| {
            if let Some(text) = text {
                line.push(if line.is_empty() { '{' } else { ',' });
                line.push_str(&(self.written)(&Value::from(name)));
                line.push(':');
                line.push_str(&text);
            }
        };
        for (name, value) in &members {
            let text = (self.written)(value);
            match kept.get(name) {
                Some(kept) => put(name, self.as_it_came(kept, value, text)),
                None => put(name, Some(text)),
            }
        }
        for (name, kept) in kept {
            if !members.contains_key(name) {
                put(name, self.as_it_came(kept, &Value::Null, String::new()));
            }
        }
        line.push('}');
        Ok(line)
    }

    /// The fields of the header.
    fn members(&self, stored: &StoredSession, header: &Header, tagged: bool) -> Map<String, Value> {
        let record = &stored.record;
        let settings = header.to_settings();
        let mut own = Map::new();
        for name in OWN_SETTINGS {
            own.insert(name.to_owned(), settings.get(name).cloned().unwrap_or_default());
        }
        own.insert(TAGGED.to_owned(), Value::from(tagged));
        let mut apart = Vec::new();
        for (at, outline) in stored.outlines.iter().enumerate() {
            let what = match outline.stop.filter(|_| header.dialect != Dialect::Loop) {
                Some(StopKind::Error) => FAILED,
                Some(StopKind::Aborted) => ABORTED,
                None if outline.role == Role::User && !outline.user_turn => APPENDED,
                None => continue,
            };
            apart.push(Value::Array(vec![Value::from(at), Value::from(what)]));
        }
        if !apart.is_empty() {
            own.insert(APART.to_owned(), Value::Array(apart));
        }
        let updated_at = (self.iso)(record.updated_at);
        let unread = record.message_count.saturating_sub(header.read_count);
        let [snapshots, compactions, checkpoints] = (self.lists)(stored);
        let members = to_object(&[
            ("format", &FORMAT.to_owned()),
            ("version", &VERSION),
            ("id", &record.id),
            ("cwd", &record.cwd),
            ("createdAt", &(self.iso)(record.created_at)),
            ("updatedAt", &updated_at),
            ("permissionPreset", &header.preset()),
            ("unread", &unread),
            // When it was pinned is not known.
            ("pinnedAt", &header.pinned.then_some(updated_at.clone())),
            ("title", &header.title),
            ("model", &header.model),
            ("runtimeContexts", &snapshots),
            ("compactions", &compactions),
            ("systemPromptCheckpoints", &checkpoints),
            (OWN, &Value::Object(own)),
        ]);
        match members {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }

    /// What a field is written as: the text that came in, where what would be written is what it was then. Lists only grow.
    fn as_it_came(&self, kept: &Value, value: &Value, text: String) -> Option<String> {
        let member = |at: usize| kept.get(at).unwrap_or(&Value::Null);
        let came = member(1).as_str().map(str::to_owned);
        let Some(count) = member(0).as_u64() else {
            let is_same = member(0).as_str().unwrap_or_default() == text;
            return if is_same { came } else { Some(text) };
        };
        let came = came.as_deref().and_then(|came| came.strip_suffix(']'));
        let (Some(came), Some(list)) = (came, value.as_array()) else {
            return Some(text);
        };
        if list.len() < count as usize {
            return Some(text);
        }
        let mut grown = came.to_owned();
        for (at, item) in list.iter().enumerate().skip(count as usize) {
            if at > 0 {
                grown.push(',');
            }
            grown.push_str(&(self.written)(item));
        }
        grown.push(']');
        Some(grown)
    }

    /// The fields of a header that came in and would not be written alike, each with what was written for it.
    pub(super) fn kept(
        &self,
        stored: &StoredSession,
        header: &Header,
        came: &Came,
        tagged: bool,
    ) -> Option<Value> {
        let members = self.members(stored, header, tagged);
        let mut kept = Map::new();
        for (name, text) in &came.texts {
            let written = members.get(name);
            let is_fixed = matches!(name.as_str(), "format" | "version" | "id");
            if is_fixed || written.is_some() && written == came.value.get(name) && !may_hold_half(text) {
                continue;
            }
            let was = match written {
                Some(Value::Array(list)) if text.ends_with(']') => Value::from(list.len()),
                Some(value) => Value::from((self.written)(value)),
                None => Value::Null,
            };
            kept.insert(name.clone(), Value::Array(vec![was, Value::from(text.as_str())]));
        }
        for (name, value) in &members {
            if came.value.get(name).is_none() {
                let was = Value::from((self.written)(value));
                kept.insert(name.clone(), Value::Array(vec![was, Value::Null]));
            }
        }
        (!kept.is_empty()).then_some(Value::Object(kept))
    }
}
