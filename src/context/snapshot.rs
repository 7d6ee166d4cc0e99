//! Runtime-context snapshots: the text that was shown in front of (or, in older sessions, after) a user message.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::untyped::{self, FromJson, field_error, join};
use crate::{Result, untyped::Reader};

/// A skill as it was when it was chosen: the file's text and its revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
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
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub enum Placement {
    /// In front of the user message it belongs to.
    User,
}

/// Text for the model that belongs to one user turn and is stored beside the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct RuntimeContextSnapshot {
    /// Zero-based ordinal of the actual user message it belongs to.
    pub user_turn: u32,
    /// The rendered text.
    pub content: String,
    /// Milliseconds since the epoch, of the dispatch; an integer from 0 up.
    #[serde(serialize_with = "untyped::serialize_milliseconds")]
    pub timestamp: f64,
    /// The skills that `content` renders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<LoadedSkill>>,
    /// Where it is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
}

impl FromJson for LoadedSkill {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut skill = Reader::new(value, path);
        let read = Self {
            id: skill.read("id"),
            name: skill.read("name"),
            path: skill.read("path"),
            content: skill.read("content"),
            revision: skill.read("revision"),
            description: skill.read("description"),
        };
        skill.finish(read)
    }
}

impl RuntimeContextSnapshot {
    /// Reads one snapshot from untyped JSON. Members it does not know are ignored; an optional member that is `null`
    /// counts as absent.
    ///
    /// # Errors
    /// `invalid_argument` with the path of the offending `field`: a `userTurn` that is no integer from 0 up, blank
    /// `content`, a `timestamp` that is no integer from 0 up, skills without their five strings, another `placement` than
    /// `user`.
    pub fn parse(value: &Value) -> Result<Self> {
        Self::from_json(value, "snapshot")
    }

    /// Reads a list of snapshots from untyped JSON, as [`RuntimeContextSnapshot::parse`] does.
    ///
    /// # Errors
    /// `invalid_argument` with the path of the offending `field`, such as `snapshots[2].skills[0].revision`.
    pub fn parse_list(value: &Value) -> Result<Vec<Self>> {
        Vec::from_json(value, "snapshots")
    }
}

impl FromJson for RuntimeContextSnapshot {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut snapshot = Reader::new(value, path);
        let user_turn = snapshot.integer("userTurn", 0);
        let content = snapshot.filled("content");
        let placement = snapshot.optional("placement").map(|value| match value.as_str() {
            Some("user") => Ok(Placement::User),
            _ => Err(field_error(
                &join(path, "placement"),
                "must be `user`, or be left out",
            )),
        });
        let read = Self {
            user_turn,
            content,
            timestamp: snapshot.milliseconds("timestamp"),
            skills: snapshot.read("skills"),
            placement: snapshot.taken(placement.transpose()),
        };
        snapshot.finish(read)
    }
}
