//! Lists of sessions: which ones are asked for, and what is told of each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ListFilter, SessionRecord};
use crate::{
    Error, Result,
    untyped::{FromJson, Reader},
};

/// What a list says of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct SessionInfo {
    /// The session's id.
    pub id: String,
    /// Its working directory, empty where it has none.
    pub cwd: String,
    /// What a person calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether a person pinned it.
    pub pinned: bool,
    /// How many messages it has.
    pub message_count: u32,
    /// How many of them a person has not seen.
    pub unread: u32,
    /// Milliseconds since the epoch.
    pub created_at: f64,
    /// Milliseconds since the epoch, of the last change.
    pub updated_at: f64,
    /// How its last turn ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<crate::session::Outcome>,
    /// Whether its record cannot be read. What can be read of it is here; it can be opened to be read, and deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub damaged: bool,
    /// Give it as `before` to list what comes after this entry.
    pub cursor: String,
}

/// Entries of a list where the caller names no limit.
const DEFAULT_LIMIT: u32 = 50;

/// More entries than this are never listed at once.
const MAX_LIMIT: u32 = 500;

impl ListFilter {
    /// Reads a filter as a caller gives it; `null` asks for the newest sessions.
    ///
    /// # Errors
    /// `invalid_argument` that names the field.
    pub fn parse(filter: &Value) -> Result<Self> {
        if filter.is_null() {
            return Ok(Self {
                limit: DEFAULT_LIMIT,
                ..Self::default()
            });
        }
        let mut filter = Reader::new(filter, "filter");
        let limit = filter.optional_integer("limit", 1).unwrap_or(DEFAULT_LIMIT);
        let before: Option<String> = filter.read("before");
        let before = before.map(|cursor| position(&cursor)).transpose();
        let read = Self {
            limit: limit.min(MAX_LIMIT),
            cwd: filter.read("cwd"),
            before: filter.taken(before),
        };
        filter.finish(read)
    }
}

fn position(cursor: &str) -> Result<(f64, String)> {
    let parts = cursor.split_once(':');
    let place = parts.and_then(|(time, id)| Some((time.parse::<u64>().ok()? as f64, id.to_owned())));
    place.ok_or_else(|| {
        Error::invalid("`filter.before` must be the `cursor` of an entry that was listed")
            .with("field", "filter.before")
    })
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// Settings that a list tells something of.
pub(super) const LISTED: [&str; 5] = ["title", "pinned", "readCount", "outcome", "damaged"];

impl SessionRecord {
    /// As much of it as a list needs.
    pub fn listed(&self) -> Self {
        let mut settings = BTreeMap::new();
        for name in LISTED {
            if let Some(value) = self.settings.get(name) {
                settings.insert(name.to_owned(), value.clone());
            }
        }
        Self {
            id: self.id.clone(),
            cwd: self.cwd.clone(),
            settings,
            ..*self
        }
    }

    /// What a list says of it.
    pub fn info(&self) -> SessionInfo {
        let setting = |name: &str| self.settings.get(name).filter(|value| !value.is_null());
        let read = setting("readCount").and_then(Value::as_f64).unwrap_or(0.0) as u32;
        SessionInfo {
            id: self.id.clone(),
            cwd: self.cwd.clone(),
            title: setting("title").and_then(Value::as_str).map(str::to_owned),
            pinned: setting("pinned").and_then(Value::as_bool).unwrap_or(false),
            message_count: self.message_count,
            unread: self.message_count.saturating_sub(read),
            created_at: self.created_at,
            updated_at: self.updated_at,
            outcome: setting("outcome").and_then(|value| FromJson::from_json(value, "outcome").ok()),
            damaged: setting("damaged").is_some(),
            cursor: format!("{}:{}", self.updated_at as u64, self.id),
        }
    }
}
