//! Compaction: which turns a summary may stand for, and the checkpoints that say for which it does.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{RuntimeContextSnapshot, text_tokens};
use crate::{
    Error, ErrorCode, Result,
    message::{MessageIndex, MessageOutline, turn_count},
    prompt::neutralise,
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

impl CompactionCheckpoint {
    /// The summary as the model sees it. What a request costs is counted by this.
    pub fn shown(&self) -> Cow<'_, str> {
        neutralise(&self.summary)
    }

    /// Whether it can be of a conversation with so many messages.
    pub(crate) fn is_within(&self, count: u32) -> bool {
        self.first_kept_message_index.0 <= self.history_message_count && self.history_message_count <= count
    }

    /// The first message that is not summarised, in the conversation that this is of.
    ///
    /// # Errors
    /// `invalid_argument` where it is of more messages than there are.
    pub(super) fn end_in(&self, outlines: &[MessageOutline]) -> Result<u32> {
        let (first, had, count) = (
            self.first_kept_message_index.0,
            self.history_message_count,
            message_count(outlines),
        );
        if self.is_within(count) {
            return Ok(first);
        }
        Err(Error::invalid(format!(
            "the compaction keeps message {first} of {had}, but there are {count}; pass the last compaction of this conversation, and all of its messages"
        )))
    }
}

impl FromJson for CompactionCheckpoint {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut checkpoint = Reader::new(value, path);
        let read = Self {
            id: checkpoint.read("id"),
            first_kept_message_index: MessageIndex(checkpoint.integer("firstKeptMessageIndex", 0)),
            history_message_count: checkpoint.integer("historyMessageCount", 0),
            summary: checkpoint.filled("summary"),
            timestamp: checkpoint.milliseconds("timestamp"),
            provider: checkpoint.read("provider"),
            model: checkpoint.read("model"),
            usage: checkpoint.optional("usage").cloned(),
        };
        checkpoint.finish(read)
    }
}

/// What a host's summariser gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The text.
    pub summary: String,
    /// Who served the model that wrote it; the session's provider where nothing is said.
    pub provider: Option<String>,
    /// The model that wrote it; the session's where nothing is said.
    pub model: Option<String>,
    /// What it cost.
    pub usage: Option<Value>,
}

impl FromJson for Summary {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        if let Value::String(text) = value {
            return Ok(Self {
                summary: text.clone(),
                ..Self::default()
            });
        }
        let mut given = Reader::new(value, path);
        let read = Self {
            summary: given.read("summary"),
            provider: given.read("provider"),
            model: given.read("model"),
            usage: given.optional("usage").cloned(),
        };
        given.finish(read)
    }
}

/// Plans a compaction: the first message that stays. Whole turns stay, from the newest backwards, as long as all of them are
/// within `keep_recent_tokens`, by the outlines and the snapshots that are shown with them; the newest stays whatever it takes.
/// What goes begins where `previous` ended.
///
/// # Errors
/// `nothing_to_compact` where all of it stays, with the reason; `invalid_argument` where `previous` is of another conversation.
pub fn plan_compaction(
    outlines: &[MessageOutline],
    snapshots: &[RuntimeContextSnapshot],
    previous: Option<&CompactionCheckpoint>,
    keep_recent_tokens: u32,
) -> Result<MessageIndex> {
    let from = previous.map_or(Ok(0), |previous| previous.end_in(outlines))?;
    let mut turn = turn_count(outlines) as usize;
    let mut shown = vec![0u32; turn];
    for snapshot in snapshots {
        if let Some(tokens) = shown.get_mut(snapshot.user_turn as usize) {
            *tokens = tokens.saturating_add(text_tokens(&snapshot.content));
        }
    }
    let (mut first, mut used) = (None, 0u32);
    for at in (from..message_count(outlines)).rev() {
        let Some(outline) = outlines.get(at as usize) else {
            break;
        };
        if outline.is_projected() {
            used = used.saturating_add(outline.tokens);
        }
        if !outline.user_turn {
            continue;
        }
        turn = turn.saturating_sub(1);
        used = used.saturating_add(shown.get(turn).copied().unwrap_or_default());
        if first.is_some() && used > keep_recent_tokens {
            break;
        }
        // What was typed beside results stays with the calls that they answer.
        if outline.answers.is_empty() {
            first = Some(at);
        }
    }
    let all_stays = used <= keep_recent_tokens;
    if let Some(first) = first.filter(|first| *first > from && !all_stays) {
        return Ok(MessageIndex(first));
    }
    let text = match all_stays {
        true if used > 0 => format!(
            "what is not summarised yet takes about {used} tokens, and `keepRecentTokens` keeps {keep_recent_tokens}; keep fewer"
        ),
        true => "everything is summarised; go on with the conversation".to_owned(),
        false => "only the newest turn is not summarised yet, and that one always stays; go on with the conversation".to_owned(),
    };
    Err(Error::new(ErrorCode::NothingToCompact, text).with("tokens", used))
}

fn message_count(outlines: &[MessageOutline]) -> u32 {
    u32::try_from(outlines.len()).unwrap_or(u32::MAX)
}
