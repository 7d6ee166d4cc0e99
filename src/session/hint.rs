//! Hints: what one tab or worker tells the others, and what an open session makes of it. A hint says where to look, never what is
//! there: that is in storage.

use super::Machine;
use crate::{message::MessageData, storage::Standing};

/// Where something was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// In a session: its conversation, settings or approvals. Or it was created or deleted.
    Session(String),
    /// Among permission groups and rules.
    Rules,
}

const SESSION: &str = "session:";
const RULES: &str = "rules";

impl Hint {
    /// The text form.
    pub fn to_text(&self) -> String {
        match self {
            Hint::Session(id) => [SESSION, id].concat(),
            Hint::Rules => RULES.to_owned(),
        }
    }

    /// Reads the text form. What another version says and this one does not know is no hint.
    pub fn parse(text: &str) -> Option<Self> {
        if text == RULES {
            return Some(Hint::Rules);
        }
        text.strip_prefix(SESSION).map(|id| Hint::Session(id.to_owned()))
    }
}

/// What an open session takes of what others stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// All of it is known.
    Nothing,
    /// Settings. The conversation is known, or cannot be shown now: its next commit meets the other's.
    Settings,
    /// The conversation too.
    Everything,
}

impl<M: MessageData> Machine<M> {
    /// What to take of a session that stands like this; another that has the id by now is shown as it is.
    pub fn takes(&self, stored: &Standing) -> Takes {
        let is_another = stored.origin != self.origin();
        let is_behind = self.saved_conversation() != stored.counters.conversation;
        if (is_another || is_behind) && self.rests() {
            Takes::Everything
        } else if is_another || self.is_behind(stored.counters) {
            Takes::Settings
        } else {
            Takes::Nothing
        }
    }

    /// How often the conversation was saved, as far as this session knows: what waits to be saved aside.
    fn saved_conversation(&self) -> u64 {
        let waiting = self.queue().filter(|commit| commit.expected.is_some()).count() as u64;
        self.counters().conversation.saturating_sub(waiting)
    }
}
