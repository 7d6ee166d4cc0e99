//! Compaction checkpoints: a summary that stands for the messages before it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Result,
    message::MessageIndex,
    untyped::{FromJson, Reader},
};

/// A summary of everything before `first_kept_message_index`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct CompactionCheckpoint {
    /// Its id.
    pub id: String,
    /// The first message that is still shown.
    pub first_kept_message_index: MessageIndex,
    /// How many messages the conversation had.
    pub history_message_count: u32,
    /// The summary, as the host wrote it.
    pub summary: String,
    /// Milliseconds since the epoch.
    pub timestamp: f64,
    /// The provider that summarised.
    pub provider: String,
    /// The model that summarised.
    pub model: String,
    /// What it cost, as the host reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(target_family = "wasm", tsify(type = "unknown"))]
    pub usage: Option<Value>,
}

impl FromJson for CompactionCheckpoint {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut checkpoint = Reader::new(value, path);
        let read = Self {
            id: checkpoint.read("id"),
            first_kept_message_index: MessageIndex(checkpoint.integer("firstKeptMessageIndex", 0)),
            history_message_count: checkpoint.integer("historyMessageCount", 0),
            summary: checkpoint.read("summary"),
            timestamp: checkpoint.milliseconds("timestamp"),
            provider: checkpoint.read("provider"),
            model: checkpoint.read("model"),
            usage: checkpoint.optional("usage").cloned(),
        };
        checkpoint.finish(read)
    }
}
