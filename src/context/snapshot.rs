//! Runtime-context snapshots: the text that was shown in front of (or, in older sessions, after) a user message.

use serde::{Deserialize, Serialize};

/// A skill as it was when it was chosen: the file's text and its revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedSkill {
    /// `scope:location`.
    pub id: String,
    /// The manifest's name.
    pub name: String,
    /// The location, as shown to the model.
    pub path: String,
    /// The whole text of the `SKILL.md` file.
    pub content: String,
    /// SHA-256 of the UTF-8 of `content`, lower-case hex.
    pub revision: String,
    /// The manifest's description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Where a snapshot is shown. Version 2 and older have none: a user message of their own after the anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// In front of the user message it belongs to.
    User,
}

/// Text for the model that belongs to one user turn and is stored beside the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeContextSnapshot {
    /// Zero-based ordinal of the actual user message it belongs to.
    pub user_turn: u32,
    /// The rendered text.
    pub content: String,
    /// Milliseconds since the epoch, of the dispatch.
    pub timestamp: f64,
    /// The skills that `content` renders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<LoadedSkill>>,
    /// Where it is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
}
