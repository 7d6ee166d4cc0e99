//! Sessions in memory, for native programs and their tests, and to compare others with. In wasm they are in `memory.js`.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
    rc::Rc,
};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    ApprovalChange, Commit, CommitStatus, DirectoryStorage, ListFilter, LocalFuture, OutlinePack, Positioned,
    SessionRecord, SessionStorage, SharedChange, SharedStorage, SharedWrite, Standing, Storage, StorageInfo,
    StoredApproval, StoredSession,
    apply::{Decision, StoredRecord, decide},
    closed, damaged, keys, known_store, raises_version, taken,
};
use crate::{
    Result,
    context::{CompactionCheckpoint, RuntimeContextSnapshot},
    list::Listed,
    prompt::Checkpoint,
    untyped::insert_sorted,
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
    /// By id.
    sessions: Vec<Session<M>>,
    /// Stores by name, values by key.
    shared: BTreeMap<String, Value>,
    policy_version: u64,
}

/// Records by their positions, rising.
type Positions<T> = Vec<(u32, T)>;

#[derive(Clone)]
struct Session<M> {
    stored: StoredRecord,
    messages: Vec<M>,
    /// By pack, all there.
    outlines: Vec<OutlinePack>,
    snapshots: Positions<RuntimeContextSnapshot>,
    checkpoints: Positions<Checkpoint>,
    compactions: Positions<CompactionCheckpoint>,
    /// By request: version and body.
    approvals: Vec<(String, u64, M)>,
    /// By slot, all there.
    operations: Vec<String>,
}

impl<M> Records<M> {
    /// Where a session is, or where it would be.
    fn place_of(&self, id: &str) -> std::result::Result<usize, usize> {
        self.sessions
            .binary_search_by(|session| session.stored.record.id.as_str().cmp(id))
    }
}

impl<M> MemoryStorage<M> {
    /// Empty storage.
    pub fn new() -> Self {
        Self {
            records: Rc::new(RefCell::new(Records {
                sessions: Vec::new(),
                shared: BTreeMap::new(),
                policy_version: 0,
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
        let (sessions, shared, policy_version) = {
            let records = self.records.borrow();
            (
                records.sessions.clone(),
                records.shared.clone(),
                records.policy_version,
            )
        };
        let names = keys::OF_SESSIONS.iter().chain(keys::SHARED);
        let mut dump: Dump = names.map(|name| ((*name).to_owned(), Vec::new())).collect();
        let mut put = |store: &str, key: Value, record: Value| {
            dump.entry(store.to_owned())
                .or_default()
                .push((key.to_string(), record));
        };
        for session in sessions {
            let id = session.stored.record.id.clone();
            put(keys::SESSIONS, json!(id), plain(&session.stored));
            for (index, message) in session.messages.iter().enumerate() {
                let record = json!({ "sessionId": id, "index": index, "body": body(message) });
                put(keys::MESSAGES, json!([id, index]), record);
            }
            for held in &session.outlines {
                let record = json!({ "sessionId": id, "pack": held.pack, "outlines": held.outlines });
                put(keys::OUTLINES, json!([id, held.pack]), record);
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
            for (request, version, approval) in &session.approvals {
                let record = json!({
                    "sessionId": id, "requestId": request, "version": version, "approval": body(approval)
                });
                put(keys::APPROVALS, json!([id, request]), record);
            }
            for (slot, operation) in session.operations.iter().enumerate() {
                let record = json!({ "sessionId": id, "slot": slot, "operationId": operation });
                put(keys::COMMITS, json!([id, slot]), record);
            }
        }
        if policy_version > 0 {
            put(keys::GROUPS, json!(0), json!({ "version": policy_version }));
        }
        for (store, values) in shared {
            for (key, value) in values.as_object().into_iter().flatten() {
                put(&store, json!(key), value.clone());
            }
        }
        dump
    }
}

fn plain(record: &impl Serialize) -> Value {
    serde_json::to_value(record).unwrap_or_default()
}

fn positioned(id: &str, list: &[(u32, impl Serialize)]) -> Vec<(u32, Value)> {
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
        .listed()
}

impl<M: Clone + 'static> Storage<M> for MemoryStorage<M> {
    fn info(&self) -> StorageInfo {
        StorageInfo {
            kind: "memory".to_owned(),
            persistent: false,
            reason: None,
            data_loss: None,
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

    fn approvals(&self) -> LocalFuture<'_, Result<Vec<StoredApproval<M>>>> {
        Box::pin(async move {
            let records = self.open()?.borrow();
            let mut all = Vec::new();
            for session in &records.sessions {
                all.append(&mut held(session));
            }
            Ok(all)
        })
    }

    fn directory(&self) -> Rc<dyn DirectoryStorage> {
        Rc::new(MemoryDirectory(self.connection()))
    }

    fn staged(&self) -> LocalFuture<'_, Result<Vec<SessionRecord>>> {
        Box::pin(async move {
            let records = self.open()?.borrow();
            let all = records.sessions.iter().map(|session| &session.stored.record);
            Ok(all.filter(|record| record.is_staged()).cloned().listed())
        })
    }

    fn close(&self) {
        self.closed.set(true);
    }
}

fn held<M: Clone>(session: &Session<M>) -> Vec<StoredApproval<M>> {
    let approvals = session.approvals.iter();
    let stored = approvals.map(|(id, version, body)| StoredApproval {
        session_id: session.stored.record.id.clone(),
        id: id.clone(),
        version: *version,
        body: body.clone(),
    });
    stored.listed()
}

struct MemorySession<M> {
    storage: MemoryStorage<M>,
    id: String,
}

impl<M: Clone + 'static> MemorySession<M> {
    /// Reads the session, where there is one.
    fn read<T>(&self, read: impl FnOnce(&Session<M>) -> T) -> Result<Option<T>> {
        let records = self.storage.open()?.borrow();
        let at = records.place_of(&self.id).ok();
        Ok(at.and_then(|at| records.sessions.get(at)).map(read))
    }

    fn apply(&self, commit: &Commit<M>) -> Result<CommitStatus> {
        let mut records = self.storage.open()?.borrow_mut();
        let place = records.place_of(&self.id);
        let session = place.ok().and_then(|at| records.sessions.get(at));
        let remembered = session.is_some_and(|it| it.operations.contains(&commit.operation_id));
        let version = |change: &ApprovalChange<M>| {
            let mut held = session.iter().flat_map(|session| &session.approvals);
            held.find(|(id, ..)| *id == change.id)
                .map_or(0, |(_, version, _)| *version)
        };
        let versions: Vec<u64> = commit.approvals.iter().map(version).listed();
        let stored = session.map(|session| &session.stored);
        let (next, slot) = match decide(&self.id, commit, stored, remembered, &versions)? {
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
        if let Err(at) = place {
            let new = Session {
                stored: next.clone(),
                messages: Vec::new(),
                outlines: Vec::new(),
                snapshots: Vec::new(),
                checkpoints: Vec::new(),
                compactions: Vec::new(),
                approvals: Vec::new(),
                operations: Vec::new(),
            };
            records.sessions.insert(at, new);
        }
        let (Ok(at) | Err(at)) = place;
        if let Some(session) = records.sessions.get_mut(at) {
            session.stored = next;
            for message in &commit.messages {
                session.messages.push(message.body.clone());
            }
            for held in &commit.outline_packs {
                session.outlines.truncate(held.pack as usize);
                session.outlines.push(held.clone());
            }
            place_all(&mut session.snapshots, &commit.snapshots);
            place_all(&mut session.checkpoints, &commit.checkpoints);
            place_all(&mut session.compactions, &commit.compactions);
            for (change, version) in commit.approvals.iter().zip(versions) {
                session.approvals.retain(|(id, ..)| *id != change.id);
                if let Some(body) = &change.body {
                    let held = (change.id.clone(), version + 1, body.clone());
                    insert_sorted(&mut session.approvals, held, &|(a, ..), (b, ..)| a.cmp(b));
                }
            }
            match session.operations.get_mut(slot as usize) {
                Some(oldest) => oldest.clone_from(&commit.operation_id),
                None => session.operations.push(commit.operation_id.clone()),
            }
        }
        Ok(CommitStatus::Applied(counters))
    }
}

fn place_all<T: Clone>(stored: &mut Positions<T>, new: &[(u32, T)]) {
    for item in new {
        insert_sorted(stored, item.clone(), &|(a, _), (b, _)| a.cmp(b));
    }
}

/// What is stored is never overwritten: new records take free positions, one each.
fn free<T>(stored: &[(u32, T)], new: &[(u32, T)], store: &str) -> Result<()> {
    let is_taken = |position: u32| stored.binary_search_by(|(other, _)| other.cmp(&position)).is_ok();
    match new.iter().find(|(position, _)| is_taken(*position)) {
        Some((position, _)) => Err(taken(store, *position)),
        None => Ok(()),
    }
}

fn items<T: Clone>(stored: &[(u32, T)]) -> Vec<T> {
    stored.iter().map(|(_, item)| item.clone()).listed()
}

impl<M: Clone + 'static> SessionStorage<M> for MemorySession<M> {
    fn counters(&self) -> LocalFuture<'_, Result<Option<Standing>>> {
        Box::pin(async move { self.read(|session| session.stored.record.standing()) })
    }

    fn load(&self) -> LocalFuture<'_, Result<Option<StoredSession>>> {
        Box::pin(async move {
            self.read(|session| StoredSession {
                record: session.stored.record.clone(),
                outlines: session
                    .outlines
                    .iter()
                    .flat_map(|held| held.outlines.iter().cloned())
                    .listed(),
                snapshots: items(&session.snapshots),
                checkpoints: items(&session.checkpoints),
                compactions: items(&session.compactions),
                damage: Vec::new(),
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

    fn approvals(&self) -> LocalFuture<'_, Result<Vec<StoredApproval<M>>>> {
        Box::pin(async move { Ok(self.read(held)?.unwrap_or_default()) })
    }

    fn commit(&self, commit: Rc<Commit<M>>) -> LocalFuture<'_, Result<CommitStatus>> {
        Box::pin(async move { self.apply(&commit) })
    }

    fn delete(&self) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut records = self.storage.open()?.borrow_mut();
            if let Ok(at) = records.place_of(&self.id) {
                records.sessions.remove(at);
            }
            Ok(())
        })
    }
}

struct MemoryShared<M>(MemoryStorage<M>);

impl<M: Clone + 'static> SharedStorage for MemoryShared<M> {
    fn get(&self, store: &str, key: &str) -> LocalFuture<'_, Result<Option<Value>>> {
        let (store, key) = (store.to_owned(), key.to_owned());
        Box::pin(async move {
            known_store(&store)?;
            let records = self.0.open()?.borrow();
            let values = records.shared.get(&store);
            Ok(values.and_then(|values| values.get(&key)).cloned())
        })
    }

    fn list(&self, store: &str) -> LocalFuture<'_, Result<Vec<(String, Value)>>> {
        let store = store.to_owned();
        Box::pin(async move {
            known_store(&store)?;
            let records = self.0.open()?.borrow();
            let mut values = Vec::new();
            for (key, value) in records
                .shared
                .get(&store)
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                insert_sorted(&mut values, (key.clone(), value.clone()), &|(a, _), (b, _)| {
                    a.cmp(b)
                });
            }
            Ok(values)
        })
    }

    fn policy_version(&self) -> LocalFuture<'_, Result<u64>> {
        Box::pin(async move { Ok(self.0.open()?.borrow().policy_version) })
    }

    fn write(
        &self,
        changes: Vec<SharedChange>,
        expected_policy_version: Option<u64>,
    ) -> LocalFuture<'_, Result<SharedWrite>> {
        Box::pin(async move {
            for change in &changes {
                known_store(change.store)?;
            }
            let mut records = self.0.open()?.borrow_mut();
            if expected_policy_version.is_some_and(|version| version != records.policy_version) {
                return Ok(SharedWrite::Conflict(records.policy_version));
            }
            records.policy_version += u64::from(raises_version(&changes));
            for store in keys::SHARED {
                if changes.iter().all(|change| change.store != *store) {
                    continue;
                }
                let mut values = match records.shared.get_mut(*store) {
                    Some(Value::Object(values)) => std::mem::take(values),
                    _ => Map::new(),
                };
                let removed = |key: &String| {
                    changes
                        .iter()
                        .any(|it| it.store == *store && it.value.is_none() && it.key == *key)
                };
                // Made anew: removing from a map costs the module 5 kB.
                if values.keys().any(removed) {
                    let mut left = Map::new();
                    for (key, value) in &values {
                        if !removed(key) {
                            left.insert(key.clone(), value.clone());
                        }
                    }
                    values = left;
                }
                for change in &changes {
                    if let Some(value) = change.value.as_ref().filter(|_| change.store == *store) {
                        values.insert(change.key.clone(), value.clone());
                    }
                }
                records.shared.insert((*store).to_owned(), Value::Object(values));
            }
            Ok(SharedWrite::Applied(records.policy_version))
        })
    }
}

struct MemoryDirectory<M>(MemoryStorage<M>);

impl<M: Clone + 'static> DirectoryStorage for MemoryDirectory<M> {
    fn list(&self, filter: ListFilter) -> LocalFuture<'_, Result<Vec<SessionRecord>>> {
        Box::pin(async move {
            let records = self.0.open()?.borrow();
            let newest_first = |a: &&SessionRecord, b: &&SessionRecord| {
                b.updated_at
                    .total_cmp(&a.updated_at)
                    .then_with(|| b.id.cmp(&a.id))
            };
            let mut found = Vec::new();
            for session in &records.sessions {
                let record = &session.stored.record;
                let here = filter.cwd.as_ref().is_none_or(|cwd| *cwd == record.cwd);
                let behind = filter.before.as_ref().is_none_or(|(updated_at, id)| {
                    record
                        .updated_at
                        .total_cmp(updated_at)
                        .then_with(|| record.id.cmp(id))
                        .is_lt()
                });
                if here && behind && !record.is_staged() {
                    insert_sorted(&mut found, record, &newest_first);
                    found.truncate(filter.limit as usize);
                }
            }
            Ok(found.into_iter().cloned().listed())
        })
    }
}
