//! Sessions in memory: for tests, for hosts without a database, and to compare others with.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
    rc::Rc,
};

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Commit, CommitStatus, Counters, DirectoryStorage, ListFilter, LocalFuture, OutlinePack, Positioned,
    SessionRecord, SessionStorage, SharedStorage, Storage, StorageInfo, StoredSession,
    apply::{Decision, StoredRecord, decide},
    closed, damaged, keys, known_store, taken,
};
use crate::{
    Result,
    context::{CompactionCheckpoint, RuntimeContextSnapshot},
    prompt::Checkpoint,
};

/// Every record by store, in key order: the key as JSON text, and the record.
pub type Dump = BTreeMap<String, Vec<(String, Value)>>;

/// Storage that ends with the page. A clone is a second connection to the same records: it stays open when the
/// first is closed, and so stands for what a restarted program would find.
pub struct MemoryStorage<M> {
    records: Rc<RefCell<Records<M>>>,
    closed: Rc<Cell<bool>>,
}

struct Records<M> {
    sessions: BTreeMap<String, Session<M>>,
    shared: BTreeMap<String, BTreeMap<String, Value>>,
}

#[derive(Clone)]
struct Session<M> {
    stored: StoredRecord,
    messages: Vec<M>,
    outlines: Vec<OutlinePack>,
    snapshots: List<RuntimeContextSnapshot>,
    checkpoints: List<Checkpoint>,
    compactions: List<CompactionCheckpoint>,
    /// The ring of remembered operations: the place in it is the slot.
    operations: Vec<String>,
}

/// Records by position, in order.
type List<T> = Vec<(u32, T)>;

impl<M> MemoryStorage<M> {
    /// Empty storage.
    pub fn new() -> Self {
        Self {
            records: Rc::new(RefCell::new(Records {
                sessions: BTreeMap::new(),
                shared: BTreeMap::new(),
            })),
            closed: Rc::new(Cell::new(false)),
        }
    }

    /// The same connection, for the parts that are handed out.
    fn connection(&self) -> Self {
        Self {
            records: Rc::clone(&self.records),
            closed: Rc::clone(&self.closed),
        }
    }

    fn open(&self) -> Result<&RefCell<Records<M>>> {
        if self.closed.get() {
            Err(closed())
        } else {
            Ok(&self.records)
        }
    }
}

impl<M> Default for MemoryStorage<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M> Clone for MemoryStorage<M> {
    fn clone(&self) -> Self {
        Self {
            records: Rc::clone(&self.records),
            closed: Rc::new(Cell::new(false)),
        }
    }
}

impl<M> fmt::Debug for MemoryStorage<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStorage")
            .field("closed", &self.closed.get())
            .finish_non_exhaustive()
    }
}

impl<M: Clone + 'static> MemoryStorage<M> {
    /// Everything that is stored, record by record, as another kind of storage would keep it. `body` makes a
    /// message's body comparable.
    pub fn dump(&self, body: impl Fn(&M) -> Value) -> Dump {
        let (sessions, shared) = {
            let records = self.records.borrow();
            (records.sessions.clone(), records.shared.clone())
        };
        let names = keys::OF_SESSIONS.iter().chain(keys::SHARED);
        let mut dump: Dump = names.map(|name| ((*name).to_owned(), Vec::new())).collect();
        let mut put = |store: &str, key: Value, record: Value| {
            dump.entry(store.to_owned())
                .or_default()
                .push((key.to_string(), record));
        };
        for (id, session) in sessions {
            put(keys::SESSIONS, json!(id), plain(&session.stored));
            for (index, message) in session.messages.iter().enumerate() {
                let record = json!({ "sessionId": id, "index": index, "body": body(message) });
                put(keys::MESSAGES, json!([id, index]), record);
            }
            for OutlinePack { pack, outlines } in &session.outlines {
                let record = json!({ "sessionId": id, "pack": pack, "outlines": outlines });
                put(keys::OUTLINES, json!([id, pack]), record);
            }
            let lists = [
                (keys::SNAPSHOTS, positioned(&id, &session.snapshots)),
                (keys::CHECKPOINTS, positioned(&id, &session.checkpoints)),
                (keys::COMPACTIONS, positioned(&id, &session.compactions)),
            ];
            for (store, list) in lists {
                for (position, record) in list {
                    put(store, json!([id, position]), record);
                }
            }
            for (slot, operation) in session.operations.iter().enumerate() {
                let record = json!({ "sessionId": id, "slot": slot, "operationId": operation });
                put(keys::COMMITS, json!([id, slot]), record);
            }
        }
        for (store, values) in shared {
            for (key, value) in values {
                put(&store, json!(key), value);
            }
        }
        dump
    }
}

fn plain(record: &impl Serialize) -> Value {
    serde_json::to_value(record).unwrap_or_default()
}

fn positioned(id: &str, list: &List<impl Serialize>) -> Vec<(u32, Value)> {
    list.iter()
        .map(|(position, record)| {
            let position = *position;
            (
                position,
                plain(&Positioned {
                    session_id: id,
                    position,
                    record,
                }),
            )
        })
        .collect()
}

impl<M: Clone + 'static> Storage<M> for MemoryStorage<M> {
    fn info(&self) -> StorageInfo {
        StorageInfo {
            kind: "memory".to_owned(),
            persistent: false,
            reason: None,
        }
    }

    fn session(&self, id: &str) -> Rc<dyn SessionStorage<M>> {
        Rc::new(MemorySession {
            storage: self.connection(),
            id: id.to_owned(),
        })
    }

    fn shared(&self) -> Rc<dyn SharedStorage> {
        Rc::new(MemoryShared(self.connection()))
    }

    fn directory(&self) -> Rc<dyn DirectoryStorage> {
        Rc::new(MemoryDirectory(self.connection()))
    }

    fn close(&self) {
        self.closed.set(true);
    }
}

struct MemorySession<M> {
    storage: MemoryStorage<M>,
    id: String,
}

impl<M: Clone + 'static> MemorySession<M> {
    /// Reads the session, where there is one.
    fn read<T>(&self, read: impl FnOnce(&Session<M>) -> T) -> Result<Option<T>> {
        Ok(self.storage.open()?.borrow().sessions.get(&self.id).map(read))
    }

    fn apply(&self, commit: &Commit<M>) -> Result<CommitStatus> {
        let mut records = self.storage.open()?.borrow_mut();
        let session = records.sessions.get(&self.id);
        let remembered = session.is_some_and(|it| it.operations.contains(&commit.operation_id));
        let (next, slot) = match decide(&self.id, commit, session.map(|it| &it.stored), remembered)? {
            Decision::Answer(status) => return Ok(status),
            Decision::Apply { next, slot } => (*next, slot),
        };
        if let Some(session) = session {
            free(&session.snapshots, &commit.snapshots, keys::SNAPSHOTS)?;
            free(&session.checkpoints, &commit.checkpoints, keys::CHECKPOINTS)?;
            free(&session.compactions, &commit.compactions, keys::COMPACTIONS)?;
        }
        let counters = next.record.counters;

        // Nothing fails from here on.
        let session = records
            .sessions
            .entry(self.id.clone())
            .or_insert_with(|| Session {
                stored: next.clone(),
                messages: Vec::new(),
                outlines: Vec::new(),
                snapshots: Vec::new(),
                checkpoints: Vec::new(),
                compactions: Vec::new(),
                operations: Vec::new(),
            });
        session.stored = next;
        session
            .messages
            .extend(commit.messages.iter().map(|message| message.body.clone()));
        for pack in &commit.outline_packs {
            place(&mut session.outlines, pack.pack as usize, pack.clone());
        }
        insert(&mut session.snapshots, &commit.snapshots);
        insert(&mut session.checkpoints, &commit.checkpoints);
        insert(&mut session.compactions, &commit.compactions);
        place(
            &mut session.operations,
            slot as usize,
            commit.operation_id.clone(),
        );
        Ok(CommitStatus::Applied(counters))
    }
}

/// Puts a value in its place, or at the end where that place is the next one.
fn place<T>(list: &mut Vec<T>, at: usize, value: T) {
    match list.get_mut(at) {
        Some(held) => *held = value,
        None => list.push(value),
    }
}

fn insert<T: Clone>(stored: &mut List<T>, new: &[(u32, T)]) {
    for record in new {
        let at = stored.partition_point(|(position, _)| *position < record.0);
        stored.insert(at, record.clone());
    }
}

fn values<T: Clone>(list: &List<T>) -> Vec<T> {
    list.iter().map(|(_, record)| record.clone()).collect()
}

/// What is stored is never overwritten: new records take free positions.
fn free<T>(stored: &List<T>, new: &[(u32, T)], store: &str) -> Result<()> {
    let taken_by = |position: &u32| stored.binary_search_by_key(position, |(held, _)| *held).is_ok();
    match new.iter().find(|(position, _)| taken_by(position)) {
        Some((position, _)) => Err(taken(store, *position)),
        None => Ok(()),
    }
}

impl<M: Clone + 'static> SessionStorage<M> for MemorySession<M> {
    fn counters(&self) -> LocalFuture<'_, Result<Option<Counters>>> {
        Box::pin(async move { self.read(|session| session.stored.record.counters) })
    }

    fn load(&self) -> LocalFuture<'_, Result<Option<StoredSession>>> {
        Box::pin(async move {
            self.read(|session| StoredSession {
                record: session.stored.record.clone(),
                outlines: session
                    .outlines
                    .iter()
                    .flat_map(|pack| pack.outlines.iter().cloned())
                    .collect(),
                snapshots: values(&session.snapshots),
                checkpoints: values(&session.checkpoints),
                compactions: values(&session.compactions),
            })
        })
    }

    fn read_messages(&self, from: u32, to: u32) -> LocalFuture<'_, Result<Vec<M>>> {
        Box::pin(async move {
            if from >= to {
                return Ok(Vec::new());
            }
            let page =
                self.read(|session| Some(session.messages.get(from as usize..to as usize)?.to_vec()))?;
            page.flatten()
                .ok_or_else(|| damaged(&self.id, &format!("a message of {from} to {to} is missing")))
        })
    }

    fn commit(&self, commit: Rc<Commit<M>>) -> LocalFuture<'_, Result<CommitStatus>> {
        Box::pin(async move { self.apply(&commit) })
    }

    fn delete(&self) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            self.storage.open()?.borrow_mut().sessions.remove(&self.id);
            Ok(())
        })
    }
}

struct MemoryShared<M>(MemoryStorage<M>);

impl<M: Clone + 'static> SharedStorage for MemoryShared<M> {
    fn list(&self, store: &str) -> LocalFuture<'_, Result<Vec<(String, Value)>>> {
        let store = store.to_owned();
        Box::pin(async move {
            known_store(&store)?;
            let records = self.0.open()?.borrow();
            let values = records.shared.get(&store).into_iter().flatten();
            Ok(values.map(|(key, value)| (key.clone(), value.clone())).collect())
        })
    }

    fn write(&self, store: &str, changes: Vec<(String, Option<Value>)>) -> LocalFuture<'_, Result<()>> {
        let store = store.to_owned();
        Box::pin(async move {
            known_store(&store)?;
            let mut records = self.0.open()?.borrow_mut();
            let values = records.shared.entry(store).or_default();
            for (key, value) in changes {
                match value {
                    Some(value) => values.insert(key, value),
                    None => values.remove(&key),
                };
            }
            Ok(())
        })
    }
}

struct MemoryDirectory<M>(MemoryStorage<M>);

impl<M: Clone + 'static> DirectoryStorage for MemoryDirectory<M> {
    fn list(&self, filter: ListFilter) -> LocalFuture<'_, Result<Vec<SessionRecord>>> {
        Box::pin(async move {
            let records = self.0.open()?.borrow();
            let mut found: Vec<&SessionRecord> = records
                .sessions
                .values()
                .map(|session| &session.stored.record)
                .filter(|record| filter.cwd.as_ref().is_none_or(|cwd| *cwd == record.cwd))
                .filter(|record| {
                    filter.before.as_ref().is_none_or(|(updated_at, id)| {
                        record
                            .updated_at
                            .total_cmp(updated_at)
                            .then_with(|| record.id.cmp(id))
                            .is_lt()
                    })
                })
                .collect();
            found.sort_unstable_by(|a, b| {
                b.updated_at
                    .total_cmp(&a.updated_at)
                    .then_with(|| b.id.cmp(&a.id))
            });
            Ok(found.into_iter().take(filter.limit as usize).cloned().collect())
        })
    }
}
