//! Showing what is stored in the place of what is here: what is known of it already, and what becomes of the commits that
//! could not be saved.

use std::{collections::BTreeMap, rc::Rc};

use serde_json::Value;

use super::{Machine, numbered_from, packs_from};
use crate::{
    Result,
    context::DeclaredEvent,
    list::Listed,
    message::{MessageData, MessageIndex},
    session::{Header, Stamp, header::OF_TURN},
    storage::{AppendedMessage, COUNTS, Commit, Counters, ORIGIN, SessionRecord, StoredSession},
    untyped::{self, FromJson},
};

/// What becomes of commits that could not be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// They go on in a new session, behind what was saved before them.
    Fork,
    /// They are dropped.
    Discard,
}

impl FromJson for Pending {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        untyped::one_of(value, path, &[("fork", Self::Fork), ("discard", Self::Discard)])
    }
}

impl<M: MessageData> Machine<M> {
    /// How many commits wait to be saved.
    pub fn waiting_commits(&self) -> usize {
        self.queue.len()
    }

    /// How often what is stored took the place of what was here.
    pub fn times_reloaded(&self) -> u64 {
        self.times_reloaded
    }

    /// What is known of a stored conversation: the position of the first loaded message, and the messages from there on
    /// that were saved. None where it is another's, or something here stands in the place of what was damaged.
    pub fn known_of(&self, stored: &StoredSession) -> Option<(u32, Vec<M>)> {
        let mut pending = self.queue().flat_map(|commit| &commit.messages);
        let saved = pending
            .next()
            .map_or(self.message_count(), |message| message.index.0);
        let known = saved.saturating_sub(self.loaded_from) as usize;
        let is_same = stored.record.origin() == self.origin
            && stored.record.message_count >= saved
            && self.damage.is_empty();
        is_same.then(|| (self.loaded_from, self.bodies.iter().take(known).cloned().listed()))
    }

    /// The first commit of a new session that holds this conversation, with its metadata and all that is pending: neither
    /// approvals nor bypasses. None where nothing is pending. `earlier` are the messages before the loaded ones; `stored` is this
    /// session as others see it, whose settings count.
    ///
    /// The names come from the last commit that waits: what was stored, and not heard of, is found when it is tried again.
    pub fn fork(&self, stored: Option<&Self>, earlier: Vec<M>, stamp: &Stamp) -> Option<Commit<M>> {
        let id = self.queue.back()?.operation_id.clone();
        let mut commit = self.empty_commit(stamp);
        commit.operation_id = format!("{id}-fork");
        let own = self.header.to_settings();
        let mut settings = stored.map_or_else(|| own.clone(), |stored| stored.header.to_settings());
        // How far a person has read, and what became of the last turn, is said of these messages.
        for name in OF_TURN.into_iter().chain(["readCount"]) {
            if let Some(value) = own.get(name) {
                settings.insert(name.to_owned(), value.clone());
            }
        }
        for pending in self.queue() {
            overlay(&mut settings, pending);
        }
        settings.insert(COUNTS.to_owned(), self.counts());
        settings.insert(ORIGIN.to_owned(), Value::from(commit.operation_id.as_str()));
        commit.create = Some(SessionRecord {
            id: id.clone(),
            cwd: self.cwd.clone(),
            created_at: commit.timestamp,
            updated_at: commit.timestamp,
            message_count: 0,
            counters: Counters::default(),
            settings,
        });
        commit.session_id = id;
        commit.origin = commit.operation_id.clone();
        commit.expected = Some(0);
        let bodies = earlier.into_iter().chain(self.bodies.iter().cloned());
        let numbered = bodies.zip(0..).map(|(body, at)| AppendedMessage {
            index: MessageIndex(at),
            body,
        });
        commit.messages = numbered.listed();
        commit.outline_packs = packs_from(&self.outlines, 0);
        commit.snapshots = numbered_from(&self.snapshots, 0);
        commit.checkpoints = numbered_from(&self.checkpoints, 0);
        commit.compactions = numbered_from(&self.compactions, 0);
        Some(commit)
    }

    /// Shows what is stored in the place of what is here. The oldest `dropped` commits of the queue are dropped; settings that
    /// were changed since then wait on.
    ///
    /// # Errors
    /// `storage_failed` where the settings make no sense; nothing is changed then.
    pub fn show(&mut self, stored: Self, dropped: usize) -> Result<()> {
        let mut shown = stored;
        let mut settings = shown.header.to_settings();
        for late in self.queue.iter().skip(dropped) {
            overlay(&mut settings, late);
            shown.counters.settings += u64::from(!late.settings.is_empty());
            shown.queue.push_back(Rc::clone(late));
        }
        shown.header = Header::from_settings(&settings)?;
        shown.turns_begun = self.turns_begun;
        shown.times_reloaded = self.times_reloaded + 1;
        shown.exclusive = self.exclusive;
        let is_same = shown.origin == self.origin;
        // What was sent stays what was sent, as long as nothing of it is dropped.
        if is_same && dropped == 0 {
            shown.dispatched = self.dispatched.take();
            shown.budget = self.budget;
            // A prompt that was not sent shows nothing: what it would have shown waits again.
            shown.declared = std::mem::take(&mut self.declared);
            for event in self.events.drain(..) {
                shown.declare(event);
            }
            shown.declare_changes(&self.header);
            if shown.compactions.len() != self.compactions.len() {
                shown.declare(DeclaredEvent::Compaction);
            }
        }
        // Of another session, that has the id by now, nothing was allowed.
        if is_same {
            let approvals = std::mem::take(&mut shown.gate.approvals);
            shown.gate = std::mem::take(&mut self.gate);
            shown.gate.approvals = approvals;
        }
        *self = shown;
        self.forget_earlier();
        Ok(())
    }
}

/// Puts the settings of a commit over others.
fn overlay<M>(settings: &mut BTreeMap<String, Value>, commit: &Commit<M>) {
    for (name, value) in &commit.settings {
        settings.insert(name.clone(), value.clone());
    }
}
