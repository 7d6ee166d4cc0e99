//! System prompt sections and their checkpoints.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What changed in the system prompt when a prompt was dispatched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// Stored messages, the new user message included.
    pub message_count: u32,
    /// Milliseconds since the epoch.
    pub timestamp: f64,
    /// Changed sections; `null` for a removed one.
    pub sections: BTreeMap<String, Option<String>>,
}
