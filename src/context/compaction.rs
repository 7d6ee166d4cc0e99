//! Compaction checkpoints: a summary that stands for the messages before it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::MessageIndex;

/// A summary of everything before `first_kept_message_index`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
    pub usage: Option<Value>,
}
