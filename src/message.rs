//! Messages as plain data, and the small outline that the core keeps of each one.
//!
//! A message is JSON values plus byte strings. Its body stays opaque: the core reads it once, through
//! [`MessageView`], to make a [`MessageOutline`], and afterwards moves it by reference only. The few messages that
//! a projection makes up are built through [`MessageData`].

mod ai_sdk;
mod anthropic;
mod dialect;
mod json;
mod loop_dialect;
mod openai_chat;
mod outline;
mod tokens;

use serde::{Deserialize, Serialize};

pub(crate) use dialect::INTERRUPTED;
pub use dialect::{CountTokens, Dialect, texts};
pub(crate) use outline::OpenCalls;
pub use outline::{Answer, Call, MessageOutline, Role, StopKind, Usage, turn_count};
pub use tokens::text_tokens;

/// Position of a message in the stored conversation, from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct MessageIndex(pub u32);

/// Zero-based ordinal of an actual user message among the stored ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct UserTurn(pub u32);

impl MessageIndex {
    /// The index as an offset into a slice.
    pub fn offset(self) -> usize {
        self.0 as usize
    }
}

/// What kind of plain data a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`, or nothing.
    Null,
    /// `true` or `false`.
    Bool,
    /// A 64-bit float.
    Number,
    /// UTF-16 text, which may hold lone surrogates.
    String,
    /// A byte string.
    Bytes,
    /// An ordered list.
    List,
    /// Named members.
    Object,
}

/// Read access to plain data. Implemented for `serde_json::Value` and, in wasm, for JavaScript values that the
/// surface has copied to plain data first, so that reading runs no foreign code.
pub trait MessageView: Clone {
    /// What kind of value this is.
    fn kind(&self) -> Kind;
    /// The text of a string that is well-formed Unicode. A string with a lone surrogate has none: it can be
    /// shown and stored, but it never serves as a name or an id.
    fn text(&self) -> Option<String>;
    /// The text of a string, lone surrogates replaced by U+FFFD. For searching only, never for storing.
    fn text_lossy(&self) -> Option<String>;
    /// UTF-16 length of a string, 0 for anything else.
    fn text_len(&self) -> usize;
    /// Estimated tokens of a string, 0 for anything else; see [`text_tokens`].
    fn tokens(&self) -> u32;
    /// The value of a number.
    fn number(&self) -> Option<f64>;
    /// A number as JavaScript writes it.
    fn number_text(&self) -> String;
    /// The value of a boolean.
    fn boolean(&self) -> Option<bool>;
    /// An own member of an object.
    fn field(&self, name: &str) -> Option<Self>;
    /// The items of a list, empty for anything else.
    fn items(&self) -> Vec<Self>;
    /// The own members of an object, empty for anything else.
    fn members(&self) -> Vec<(String, Self)>;
    /// Whether all of it can be JSON: no byte strings, every text well-formed, names of members too.
    fn is_json(&self) -> bool;
    /// Whether a byte string stands anywhere inside.
    fn has_bytes(&self) -> bool;

    /// Whether a member is true.
    fn flag(&self, name: &str) -> bool {
        self.field(name).and_then(|value| value.boolean()) == Some(true)
    }

    /// The text of a member, where it is well-formed.
    fn field_text(&self, name: &str) -> Option<String> {
        self.field(name).and_then(|value| value.text())
    }
}

/// Making plain data, for the few messages that the core itself writes.
pub trait MessageData: MessageView {
    /// A string.
    fn string(text: &str) -> Self;
    /// A number.
    fn from_number(number: f64) -> Self;
    /// A boolean.
    fn from_bool(value: bool) -> Self;
    /// A list.
    fn list(items: Vec<Self>) -> Self;
    /// An object with these members, in this order.
    fn object(members: Vec<(&str, Self)>) -> Self;
    /// The same object with one member set; itself where it is no object.
    fn with_field(&self, name: &str, value: Self) -> Self;
    /// Strings joined with a separator, code unit for code unit. Anything else counts as empty.
    fn joined(parts: &[Self], separator: &str) -> Self;
    /// A list that grows and is never handed out itself; empty.
    fn growing() -> Self;
    /// Puts messages at the end of a list that grows.
    fn add(&mut self, messages: Vec<Self>);
    /// A list that grows, as it is now, for a host: whatever becomes of that changes nothing here.
    fn handed_out(&self) -> Self;
    /// The value written as JSON text, as a string value.
    fn to_json_text(&self) -> Self;
    /// What a string says that is JSON text, as plain data; nothing where it is not, or says what plain data cannot hold.
    fn parsed(&self) -> Option<Self>;
    /// What JSON text of our own says.
    fn of_json_text(text: &str) -> Self;
}
