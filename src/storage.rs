//! Where sessions are kept: three small traits, so that one object per session is possible, and the values that
//! cross them. A commit is all or nothing, and costs what is new.

pub mod apply;
#[cfg(target_family = "wasm")]
pub mod host;
#[cfg(target_family = "wasm")]
pub mod indexed_db;
#[cfg(target_family = "wasm")]
mod kept;
pub mod keys;
mod listing;
pub mod memory;

use std::{collections::BTreeMap, future::Future, pin::Pin, rc::Rc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Error, ErrorCode, Result,
    context::{CompactionCheckpoint, RuntimeContextSnapshot},
    message::{MessageIndex, MessageOutline},
    prompt::Checkpoint,
    runtime::World,
    untyped::{self, FromJson, Reader},
};

pub use listing::SessionInfo;

/// A future of one thread: everything here runs beside one user interface or one request.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Outlines are stored this many to a record, so that a long session opens with few reads.
pub const OUTLINES_PER_PACK: u32 = 128;

/// At least this many operation ids are remembered per session.
pub const REMEMBERED_OPERATIONS: u64 = 1_024;

/// Version counters of a session. A turn depends on `conversation` alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Raised by one by each commit that has an `expected` counter.
    pub conversation: u64,
    /// Raised by one by each commit that changes settings.
    pub settings: u64,
}

/// Which session has an id, and where it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Its [`SessionRecord::origin`]: another session may have the id by now, with the same counters.
    pub origin: String,
    /// Version counters.
    pub counters: Counters,
}

/// The record of a session: who and where it is, its counters, and its settings, one field each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRecord {
    /// The session's id.
    pub id: String,
    /// Working directory, for listing by it.
    pub cwd: String,
    /// Milliseconds since the epoch.
    pub created_at: f64,
    /// Milliseconds since the epoch, of the last commit.
    pub updated_at: f64,
    /// How many messages are stored.
    pub message_count: u32,
    /// Version counters.
    pub counters: Counters,
    /// Every setting by name, by its name in JavaScript.
    pub settings: BTreeMap<String, Value>,
}

impl FromJson for Counters {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut counters = Reader::new(value, path);
        let read = Self {
            conversation: counters.read("conversation"),
            settings: counters.read("settings"),
        };
        counters.finish(read)
    }
}

impl FromJson for Standing {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let counters = Counters::from_json(value, path)?;
        let mut standing = Reader::new(value, path);
        let origin = standing.read("origin");
        standing.finish(Self { origin, counters })
    }
}

impl FromJson for SessionRecord {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut record = Reader::new(value, path);
        let stored = record.get("settings").unwrap_or(&Value::Null);
        let stored = record.taken(untyped::object(stored, "settings").map(Some));
        let mut settings = BTreeMap::new();
        for (name, value) in stored.into_iter().flatten() {
            settings.insert(name.clone(), value.clone());
        }
        let read = Self {
            id: record.read("id"),
            cwd: record.read("cwd"),
            created_at: record.read("createdAt"),
            updated_at: record.read("updatedAt"),
            message_count: record.read("messageCount"),
            counters: record.read("counters"),
            settings,
        };
        record.finish(read)
    }
}

/// The name among the settings of how many snapshots, checkpoints and compactions there are; not there before the first.
pub(crate) const COUNTS: &str = "counts";

/// The name among the settings of the operation that created the session.
pub(crate) const ORIGIN: &str = "origin";

/// What leads nowhere stays for an hour, in milliseconds: what it was put for may be about to be stored.
pub(crate) const OLD: f64 = 3_600_000.0;

/// The time of a session that is staged: it was begun at this one, and no session has a time before the epoch.
pub(crate) fn staged_time(now: f64) -> f64 {
    -now.max(1.0)
}

impl SessionRecord {
    /// Whether an import has not shown it yet: no list shows it, and nothing opens it.
    pub fn is_staged(&self) -> bool {
        self.updated_at < 0.0
    }

    /// Tells the session from one that had its id before: the operation that created it. Empty where that is not known.
    pub fn origin(&self) -> &str {
        self.settings
            .get(ORIGIN)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Which session it is of, and where that stands.
    pub fn standing(&self) -> Standing {
        Standing {
            origin: self.origin().to_owned(),
            counters: self.counters,
        }
    }
}

/// A message that a commit appends.
#[derive(Clone, Debug, PartialEq)]
pub struct AppendedMessage<M> {
    /// Its position.
    pub index: MessageIndex,
    /// Its body, as it came.
    pub body: M,
}

/// All outlines of the messages from `pack * OUTLINES_PER_PACK` on, as far as they are known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutlinePack {
    /// Which pack.
    pub pack: u32,
    /// At most [`OUTLINES_PER_PACK`].
    pub outlines: Vec<MessageOutline>,
}

/// One atomic change of one session: conversation and metadata together.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit<M> {
    /// The session.
    pub session_id: String,
    /// Names this change for ever: storage that has applied it says so instead of applying it again.
    pub operation_id: String,
    /// Milliseconds since the epoch; becomes the session's `updated_at`.
    pub timestamp: f64,
    /// Set in a session's first commit: the record to begin with (its counters zero). It fails where one exists.
    pub create: Option<SessionRecord>,
    /// The [`SessionRecord::origin`] of the session that is meant: its id may be another's by now.
    pub origin: String,
    /// The `conversation` counter that this change builds on. None for a change of settings alone.
    pub expected: Option<u64>,
    /// New messages, in order, without gaps.
    pub messages: Vec<AppendedMessage<M>>,
    /// The packs that hold the new messages' outlines, whole.
    pub outline_packs: Vec<OutlinePack>,
    /// New snapshots with their positions.
    pub snapshots: Vec<(u32, RuntimeContextSnapshot)>,
    /// New checkpoints with their positions.
    pub checkpoints: Vec<(u32, Checkpoint)>,
    /// New compactions with their positions.
    pub compactions: Vec<(u32, CompactionCheckpoint)>,
    /// Approvals that are asked for, answered or ended.
    pub approvals: Vec<ApprovalChange<M>>,
    /// Changed settings; the last write of a field wins.
    pub settings: BTreeMap<String, Value>,
}

/// A change of one approval. Each has a counter of its own, so that it is answered once, whoever answers.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalChange<M> {
    /// The request's id.
    pub id: String,
    /// The version that it builds on, 0 for one that is not there; none where any will do.
    pub expected: Option<u64>,
    /// What is stored; none where it has ended.
    pub body: Option<M>,
}

/// An approval that has not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredApproval<M> {
    /// Its session.
    pub session_id: String,
    /// The request's id.
    pub id: String,
    /// Raised by one with each change, from 1.
    pub version: u64,
    /// What was stored.
    pub body: M,
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitStatus {
    /// Written, durably.
    Applied(Counters),
    /// Its operation id was applied before; nothing was done.
    AlreadyApplied(Counters),
    /// Somebody else wrote the conversation, or created the session; nothing was done.
    Conflict(Counters),
}

/// A stored record of a session that cannot be read, or is not there.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct Damage {
    /// The store it belongs to, one of [`keys::OF_SESSIONS`].
    pub store: String,
    /// Its position there, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<u32>,
    /// What is wrong with it.
    pub message: String,
}

impl Damage {
    /// Of a record.
    pub fn new(store: &str, key: Option<u32>, message: impl ToString) -> Self {
        Self {
            store: store.to_owned(),
            key,
            message: message.to_string(),
        }
    }
}

/// Everything of a session but its message bodies.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredSession {
    /// The record.
    pub record: SessionRecord,
    /// One outline per message.
    pub outlines: Vec<MessageOutline>,
    /// Snapshots in order.
    pub snapshots: Vec<RuntimeContextSnapshot>,
    /// Checkpoints in order.
    pub checkpoints: Vec<Checkpoint>,
    /// Compactions in order.
    pub compactions: Vec<CompactionCheckpoint>,
    /// What is missing above. Where it is not empty, the outlines may be fewer than the messages.
    pub damage: Vec<Damage>,
}

/// What a session's setting `counts` says of its lists of snapshots, checkpoints and compactions.
pub(crate) fn counts(lengths: [usize; 3]) -> Value {
    lengths.into_iter().map(Value::from).collect()
}

impl StoredSession {
    /// Lists that are shorter or longer than the session says, and show nothing else of it: they may have been emptied. And summaries
    /// and checkpoints of more than there is.
    pub fn miscounted(&self) -> Vec<Damage> {
        let counts = self.record.settings.get(COUNTS).and_then(Value::as_array);
        let lists = [
            (keys::SNAPSHOTS, self.snapshots.len()),
            (keys::CHECKPOINTS, self.checkpoints.len()),
            (keys::COMPACTIONS, self.compactions.len()),
        ];
        let mut miscounted = Vec::new();
        for ((store, there), count) in lists.into_iter().zip(counts.into_iter().flatten()) {
            let is_known = self.damage.iter().any(|damage| damage.store == store);
            if !is_known && count.as_f64() != Some(there as f64) {
                let text = format!("there are {there} records, and the session counts another number");
                miscounted.push(Damage::new(store, None, text));
            }
        }
        let outlined = u32::try_from(self.outlines.len()).unwrap_or(u32::MAX);
        let ends = self.record.message_count.max(outlined);
        for (compaction, at) in self.compactions.iter().zip(0..) {
            if !compaction.is_within(ends) {
                let text = "it keeps messages that are not there";
                miscounted.push(Damage::new(keys::COMPACTIONS, Some(at), text));
            }
        }
        for (checkpoint, at) in self.checkpoints.iter().zip(0..) {
            if checkpoint.message_count > ends {
                let text = "it is of messages that are not there";
                miscounted.push(Damage::new(keys::CHECKPOINTS, Some(at), text));
            }
        }
        miscounted
    }

    /// Whether nothing is missing, as far as can be seen here.
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty() && self.outlines.len() == self.record.message_count as usize
    }
}

/// A session and its approvals.
pub type Opened<M> = (StoredSession, Vec<StoredApproval<M>>);

/// One session's storage.
pub trait SessionStorage<M> {
    /// The session's origin and counters, or none where there is no such session.
    fn counters(&self) -> LocalFuture<'_, Result<Option<Standing>>>;
    /// Everything but the message bodies, or none where there is no such session.
    fn load(&self) -> LocalFuture<'_, Result<Option<StoredSession>>>;
    /// The same, and the approvals as they were then or before.
    fn open<'a>(&'a self) -> LocalFuture<'a, Result<Option<Opened<M>>>>
    where
        M: 'a,
    {
        Box::pin(async move {
            let asked = self.approvals().await?;
            Ok(self.load().await?.map(|stored| (stored, asked)))
        })
    }
    /// Bodies of the messages `from..to`, in order. A missing one is `storage_failed`.
    fn read_messages(&self, from: u32, to: u32) -> LocalFuture<'_, Result<Vec<M>>>;
    /// The session's approvals that have not ended, by request.
    fn approvals(&self) -> LocalFuture<'_, Result<Vec<StoredApproval<M>>>>;
    /// Applies a commit whole or not at all. `Ok` means that it is durable.
    fn commit(&self, commit: Rc<Commit<M>>) -> LocalFuture<'_, Result<CommitStatus>>;
    /// Removes every record of the session. Removing what is not there is no error.
    fn delete(&self) -> LocalFuture<'_, Result<()>>;
}

/// A record that is written, or with no value removed, among those that sessions share.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedChange {
    /// One of [`keys::SHARED`].
    pub store: &'static str,
    /// Its key.
    pub key: String,
    /// What it becomes.
    pub value: Option<Value>,
}

/// What became of a write to what sessions share, with the policy version after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedWrite {
    /// Written, durably.
    Applied(u64),
    /// Somebody else changed a policy store first; nothing was done.
    Conflict(u64),
}

/// What sessions share.
pub trait SharedStorage {
    /// How often one of [`keys::OF_POLICY`] was written.
    fn policy_version(&self) -> LocalFuture<'_, Result<u64>>;
    /// A value of a store, or none where there is no such key.
    fn get(&self, store: &str, key: &str) -> LocalFuture<'_, Result<Option<Value>>>;
    /// All values of a store by key, in key order.
    fn list(&self, store: &str) -> LocalFuture<'_, Result<Vec<(String, Value)>>>;
    /// Changes values of any of the stores, all or nothing; with an expected policy version only where it is still that.
    fn write(
        &self,
        changes: Vec<SharedChange>,
        expected_policy_version: Option<u64>,
    ) -> LocalFuture<'_, Result<SharedWrite>>;
}

/// Which sessions to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListFilter {
    /// Only sessions with exactly this working directory.
    pub cwd: Option<String>,
    /// At most this many.
    pub limit: u32,
    /// Only sessions after this position: the last entry's `(updated_at, id)` of the page before.
    pub before: Option<(f64, String)>,
}

/// The list of sessions.
pub trait DirectoryStorage {
    /// Records by `updated_at`, then id, both descending.
    fn list(&self, filter: ListFilter) -> LocalFuture<'_, Result<Vec<SessionRecord>>>;
}

/// What kind of storage this is, and whether it outlives the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct StorageInfo {
    /// `indexeddb`, `memory`, or what an adapter of the host says.
    pub kind: String,
    /// Whether what is saved is there after a restart.
    pub persistent: bool,
    /// Why it is not the kind that would be used by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the browser says where it found its own files damaged and threw all of them away: what was stored is gone. Only
    /// Chromium says so, and only to whoever opens the database first.
    #[serde(rename = "dataLoss", default, skip_serializing_if = "Option::is_none")]
    pub data_loss: Option<String>,
}

/// Whether what is saved stays until somebody deletes it, and how much room there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct Persistence {
    /// Whether the browser promised to clear nothing by itself. Where there is no such promise: false.
    pub persisted: bool,
    /// Bytes that this site uses, as far as the browser says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<f64>,
    /// Bytes that this site may use, as far as the browser says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<f64>,
}

/// Something that happened to a storage as a whole.
#[derive(Clone, Debug, PartialEq)]
pub enum StorageEvent {
    /// A newer version upgrades it, in another tab: what runs here can use it no more.
    Upgraded,
    /// Another tab deletes it.
    Deleted,
    /// The connection was cut from outside; it is opened again when it is needed.
    Lost,
    /// It could not be opened again: another tab is in the way.
    Blocked,
    /// Something was left out of a list, and the rest listed.
    LeftOut(Error),
}

/// Hears of them.
pub type StorageListener = Rc<dyn Fn(StorageEvent)>;

/// A place to keep sessions.
pub trait Storage<M> {
    /// What it is.
    fn info(&self) -> StorageInfo;
    /// Tells `listener` what happens to it, from now on.
    fn watch(&self, listener: StorageListener) {
        drop(listener);
    }
    /// Lends it the time and a place for work.
    fn lend(&self, world: Rc<dyn World>) {
        drop(world);
    }
    /// Asks that what is saved is never cleared but by somebody who deletes it.
    fn persist(&self) -> LocalFuture<'_, Persistence> {
        Box::pin(std::future::ready(Persistence::default()))
    }
    /// One session's part.
    fn session(&self, id: &str) -> Rc<dyn SessionStorage<M>>;
    /// The shared part.
    fn shared(&self) -> Rc<dyn SharedStorage>;
    /// Approvals of every session that have not ended, by session and request.
    fn approvals(&self) -> LocalFuture<'_, Result<Vec<StoredApproval<M>>>>;
    /// The session that asks for an approval, by the request's id; it may have ended.
    fn asker<'a>(&'a self, approval: &'a str) -> LocalFuture<'a, Result<Option<String>>>
    where
        M: 'a,
    {
        Box::pin(async move {
            let mut stored = self.approvals().await?.into_iter();
            let found = stored.find(|stored| stored.id == approval);
            Ok(found.map(|found| found.session_id))
        })
    }
    /// The list of sessions.
    fn directory(&self) -> Rc<dyn DirectoryStorage>;
    /// Sessions that are staged, where they can be found without a look at every other.
    fn staged(&self) -> LocalFuture<'_, Result<Vec<SessionRecord>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
    /// Ends the connection. Later calls fail with `disposed`.
    fn close(&self);
}

/// A record of a list that belongs to a session: a snapshot, a checkpoint, a compaction.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Positioned<'a, T> {
    session_id: &'a str,
    position: u32,
    #[serde(flatten)]
    record: &'a T,
}

pub(crate) fn closed() -> Error {
    Error::new(ErrorCode::Disposed, "the storage is closed; open a new runtime")
}

pub(crate) fn damaged(session: &str, what: &str) -> Error {
    Error::new(
        ErrorCode::StorageFailed,
        format!(
            "stored session `{session}` is damaged: {what}; repair it, or delete it with `deleteSession`"
        ),
    )
    .with(DAMAGED_SESSION, session)
}

/// The session that is damaged, in the data of an error that says so.
const DAMAGED_SESSION: &str = "sessionId";

/// Whether an error says that what is stored of a session cannot be read.
pub(crate) fn is_damage(error: &Error) -> bool {
    error.code() == ErrorCode::StorageFailed && error.data().contains_key(DAMAGED_SESSION)
}

/// The storage gave no answer in time: what it was asked to do may be done or not.
pub(crate) fn unanswered(text: &str) -> Error {
    Error::new(ErrorCode::StorageFailed, text).with(UNANSWERED, true)
}

const UNANSWERED: &str = "unanswered";

/// Whether an error says that the storage gave no answer.
pub(crate) fn is_unanswered(error: &Error) -> bool {
    error.data().contains_key(UNANSWERED)
}

fn taken(store: &str, position: u32) -> Error {
    let message = format!("position {position} of `{store}` is taken; nothing was saved");
    Error::new(ErrorCode::StorageFailed, message)
}

/// Whether these changes raise the policy version.
fn raises_version(changes: &[SharedChange]) -> bool {
    changes
        .iter()
        .any(|change| keys::OF_POLICY.contains(&change.store))
}

fn known_store(store: &str) -> Result<()> {
    if keys::SHARED.contains(&store) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "there is no shared store `{store}`; use one of storage::keys::SHARED"
    )))
}
