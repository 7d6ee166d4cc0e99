//! What a commit does to its session: one pure decision, so that every kind of storage decides alike.

use serde::Serialize;
use serde_json::Value;

use super::{Commit, CommitStatus, Counters, OUTLINES_PER_PACK, REMEMBERED_OPERATIONS, SessionRecord};
use crate::{
    Error, ErrorCode, Result,
    untyped::{FromJson, Reader},
};

/// A session's record as storage keeps it: with the number of its commits, which says where the next operation id
/// goes in the ring of remembered ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredRecord {
    /// The record.
    #[serde(flatten)]
    pub record: SessionRecord,
    /// How many commits were applied.
    pub commit_count: u64,
}

impl StoredRecord {
    /// Reads the JSON that serialising gives.
    ///
    /// # Errors
    /// `invalid_argument` that names the field.
    pub fn parse(value: &Value) -> Result<Self> {
        Self::from_json(value, "record")
    }
}

impl FromJson for StoredRecord {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let record = SessionRecord::from_json(value, path)?;
        let mut stored = Reader::new(value, path);
        let commit_count = stored.read("commitCount");
        stored.finish(Self { record, commit_count })
    }
}

/// What to do with a commit.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Write nothing and answer this.
    Answer(CommitStatus),
    /// Write what the commit brings, and these.
    Apply {
        /// The session's next record.
        next: Box<StoredRecord>,
        /// The slot of the ring that takes the operation id, in the place of the oldest one.
        slot: u64,
    },
}

/// Decides on a commit to `session`. `stored` is the session's record, `remembered` says whether the ring holds the operation id;
/// `approvals` has the version of each approval that the commit
/// changes, 0 for one that is not there; all must be read in the transaction that then writes.
///
/// An operation id that was applied before is answered first, whatever else is true of the commit. An error means
/// that the commit fits no session like this one, and that nothing may be written.
pub fn decide<M>(
    session: &str,
    commit: &Commit<M>,
    stored: Option<&StoredRecord>,
    remembered: bool,
    approvals: &[u64],
) -> Result<Decision> {
    check_session(session, commit)?;
    if remembered {
        let counters = stored.map(|stored| stored.record.counters).unwrap_or_default();
        return Ok(Decision::Answer(CommitStatus::AlreadyApplied(counters)));
    }
    let before = match (&commit.create, stored) {
        (Some(_), Some(stored)) => return Ok(conflict(stored)),
        (Some(first), None) => &StoredRecord {
            record: begin(commit, first)?,
            commit_count: 0,
        },
        (None, Some(stored))
            if stored.record.origin() != commit.origin
                || commit
                    .expected
                    .is_some_and(|it| it != stored.record.counters.conversation) =>
        {
            return Ok(conflict(stored));
        }
        (None, Some(stored)) if !approvals_match(commit, approvals) => return Ok(conflict(stored)),
        (None, Some(stored)) => stored,
        (None, None) => return Err(missing(session)),
    };
    let next = StoredRecord {
        record: after(commit, &before.record)?,
        commit_count: before.commit_count.saturating_add(1),
    };
    Ok(Decision::Apply {
        next: Box::new(next),
        slot: before.commit_count % REMEMBERED_OPERATIONS,
    })
}

/// There is no such session, or not any more.
pub fn missing(session: &str) -> Error {
    let message = format!("there is no session `{session}`; it may have been deleted");
    Error::new(ErrorCode::NotFound, message)
}

/// The record of a session after a commit that builds on this one. Its time never goes back, though a clock may: a list keeps
/// the newer of two entries.
///
/// # Errors
/// `storage_failed` for a commit that fits no session like this one.
pub fn after<M>(commit: &Commit<M>, before: &SessionRecord) -> Result<SessionRecord> {
    let message_count = appended(commit, before.message_count)?;
    if !commit.timestamp.is_finite() {
        return Err(malformed(commit, "has no time"));
    }
    let mut record = SessionRecord {
        message_count,
        updated_at: commit.timestamp.max(before.updated_at),
        ..before.clone()
    };
    let Counters {
        conversation,
        settings,
    } = &mut record.counters;
    if commit.expected.is_some() {
        *conversation = conversation.saturating_add(1);
    }
    if !commit.settings.is_empty() {
        *settings = settings.saturating_add(1);
    }
    for (name, value) in &commit.settings {
        record.settings.insert(name.clone(), value.clone());
    }
    Ok(record)
}

/// Refuses a commit that is another session's.
///
/// # Errors
/// `storage_failed`.
pub fn check_session<M>(session: &str, commit: &Commit<M>) -> Result<()> {
    if commit.session_id != session {
        return Err(malformed(commit, &format!("is not for session `{session}`")));
    }
    Ok(())
}

/// Whether every approval is still the one that the commit builds on.
fn approvals_match<M>(commit: &Commit<M>, stored: &[u64]) -> bool {
    let mut changes = commit.approvals.iter().zip(stored);
    changes.all(|(change, version)| change.expected.is_none_or(|expected| expected == *version))
}

fn conflict(stored: &StoredRecord) -> Decision {
    Decision::Answer(CommitStatus::Conflict(stored.record.counters))
}

fn malformed<M>(commit: &Commit<M>, what: &str) -> Error {
    let Commit {
        operation_id,
        session_id,
        ..
    } = commit;
    Error::new(
        ErrorCode::StorageFailed,
        format!("commit `{operation_id}` of session `{session_id}` {what}; nothing was saved"),
    )
}

/// The record that a session's first commit begins with.
///
/// # Errors
/// `storage_failed` for one that no session can begin with.
pub fn begin<M>(commit: &Commit<M>, first: &SessionRecord) -> Result<SessionRecord> {
    if first.id != commit.session_id {
        return Err(malformed(commit, "creates a session of another name"));
    }
    if !first.created_at.is_finite() {
        return Err(malformed(commit, "has no time"));
    }
    if commit.expected.is_some_and(|expected| expected != 0) {
        return Err(malformed(commit, "builds on a conversation that it creates"));
    }
    Ok(SessionRecord {
        message_count: 0,
        counters: Counters::default(),
        ..first.clone()
    })
}

/// The message count after the commit, where its messages follow the `stored` ones without a gap and its packs hold
/// exactly their outlines.
fn appended<M>(commit: &Commit<M>, stored: u32) -> Result<u32> {
    let conversation = commit.messages.len()
        + commit.outline_packs.len()
        + commit.snapshots.len()
        + commit.checkpoints.len()
        + commit.compactions.len();
    if conversation > 0 && commit.expected.is_none() {
        return Err(malformed(
            commit,
            "changes the conversation and names no counter that it builds on",
        ));
    }

    let mut count = stored;
    for message in &commit.messages {
        if message.index.0 != count {
            let what = format!("appends message {} where {count} comes next", message.index.0);
            return Err(malformed(commit, &what));
        }
        count = count
            .checked_add(1)
            .ok_or_else(|| malformed(commit, "appends too many messages"))?;
    }

    let rising =
        ascending(&commit.snapshots) && ascending(&commit.checkpoints) && ascending(&commit.compactions);
    if !rising {
        return Err(malformed(commit, "gives one position to two records"));
    }

    let packs = if count > stored {
        stored / OUTLINES_PER_PACK..count.div_ceil(OUTLINES_PER_PACK)
    } else {
        0..0
    };
    let whole = commit.outline_packs.len() == packs.len()
        && commit.outline_packs.iter().zip(packs).all(|(held, pack)| {
            let outlines = (count - pack * OUTLINES_PER_PACK).min(OUTLINES_PER_PACK);
            held.pack == pack && held.outlines.len() == outlines as usize
        });
    if !whole {
        return Err(malformed(
            commit,
            "does not hold the outlines of its messages, whole packs of them",
        ));
    }
    Ok(count)
}

fn ascending<T>(records: &[(u32, T)]) -> bool {
    records
        .iter()
        .zip(records.iter().skip(1))
        .all(|((before, _), (after, _))| before < after)
}
