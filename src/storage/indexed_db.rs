//! Sessions in IndexedDB.
//!
//! A commit is one transaction: everything is made ready first, then the session's record and the operation id are
//! read, and then there are only puts. It is saved when the transaction is complete, not before.

mod connection;
mod database;
mod failure;
pub(super) mod packs;
mod records;
mod room;
mod schema;
mod session;

use std::{
    cell::{Cell, RefCell},
    fmt,
    iter::repeat,
    rc::Rc,
};

use js_sys::{Array, Math};
use serde_json::Value;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{IdbCursorDirection, IdbCursorWithValue, IdbKeyRange};

use self::{
    connection::{Connection, Next, Task},
    database::{Asked, Work, given},
    session::Session,
};
use super::{
    DirectoryStorage, ListFilter, LocalFuture, Persistence, SessionRecord, SessionStorage, SharedChange,
    SharedStorage, SharedWrite, Storage, StorageInfo, StorageListener, StoredApproval, closed, keys,
    known_store, raises_version,
};
use crate::{
    Error, Result,
    js::plain::damaged_record,
    list::TryListed,
    untyped::{FromJson, insert_sorted},
};

/// The name of the database where none is given.
pub const DEFAULT_NAME: &str = "runcontext";

/// When a transaction counts as complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When its records have reached the disk.
    #[default]
    Strict,
    /// When the operating system has its records. A crash of the machine may lose them, never halve them.
    Relaxed,
}

/// Storage in IndexedDB. Message bodies are JavaScript values and are put as they are.
pub struct IndexedDb(Rc<Connection>);

impl IndexedDb {
    /// Opens a database, and makes it where there is none.
    ///
    /// Fails with `storage_blocked` where another tab is in the way, `storage_schema_newer` where a newer version
    /// wrote the database, `storage_quota`, `storage_lost` or `storage_failed`. A failed attempt leaves nothing
    /// behind. [`is_unavailable`] tells an absent or forbidden IndexedDB from the rest.
    pub async fn open(name: &str, durability: Durability) -> Result<Self> {
        Ok(Self(Rc::new(Connection::open(name, durability).await?)))
    }
}

/// Whether an error of [`IndexedDb::open`] says that there is no IndexedDB here, or that the browser forbids it.
/// Nothing else is a reason to keep sessions in memory.
pub fn is_unavailable(error: &Error) -> bool {
    error.data().contains_key(failure::UNAVAILABLE)
}

impl fmt::Debug for IndexedDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IndexedDb").field(&self.0.name()).finish()
    }
}

impl Storage<JsValue> for IndexedDb {
    fn info(&self) -> StorageInfo {
        StorageInfo {
            kind: "indexeddb".to_owned(),
            persistent: true,
            reason: None,
            data_loss: self.0.data_loss(),
        }
    }

    fn watch(&self, listener: StorageListener) {
        self.0.watch(listener);
    }

    fn persist(&self) -> LocalFuture<'_, Persistence> {
        Box::pin(room::persist())
    }

    fn session(&self, id: &str) -> Rc<dyn SessionStorage<JsValue>> {
        Rc::new(Session::new(&self.0, id))
    }

    fn shared(&self) -> Rc<dyn SharedStorage> {
        Rc::new(Shared(Rc::clone(&self.0)))
    }

    fn approvals(&self) -> LocalFuture<'_, Result<Vec<StoredApproval<JsValue>>>> {
        Box::pin(async move {
            let ask = |work: &Work| Ok(vec![work.ask(work.store(keys::APPROVALS)?.get_all())?]);
            let found = self.0.read(&[keys::APPROVALS], &ask).await?;
            Ok(records::approvals(found.first()))
        })
    }

    fn directory(&self) -> Rc<dyn DirectoryStorage> {
        Rc::new(Directory(Rc::clone(&self.0)))
    }

    fn staged(&self) -> LocalFuture<'_, Result<Vec<SessionRecord>>> {
        Box::pin(async move {
            let ask = |work: &Work| {
                let index = given(work.store(keys::SESSIONS)?.index(schema::BY_UPDATED))?;
                let range = records::range(IdbKeyRange::upper_bound(&shown()))?;
                Ok(vec![work.ask(index.get_all_with_key(&range))?])
            };
            let found = self.0.read(&[keys::SESSIONS], &ask).await?;
            let found: Array = found.into_iter().next().unwrap_or_default().unchecked_into();
            entries(&found)
        })
    }

    fn close(&self) {
        self.0.close();
    }
}

struct Shared(Rc<Connection>);

impl SharedStorage for Shared {
    fn get(&self, store: &str, key: &str) -> LocalFuture<'_, Result<Option<Value>>> {
        let (name, key) = (store.to_owned(), JsValue::from_str(key));
        Box::pin(async move {
            known_store(&name)?;
            let ask = |work: &Work| Ok(vec![work.ask(work.store(&name)?.get(&key))?]);
            let found = self.0.read(&[&name], &ask).await?;
            let found = found.first().filter(|value| !value.is_undefined());
            found.map(|value| records::read(&name, value)).transpose()
        })
    }

    fn list(&self, store: &str) -> LocalFuture<'_, Result<Vec<(String, Value)>>> {
        let name = store.to_owned();
        Box::pin(async move {
            known_store(&name)?;
            let ask = |work: &Work| {
                let store = work.store(&name)?;
                Ok(vec![work.ask(store.get_all_keys())?, work.ask(store.get_all())?])
            };
            listed(&name, &self.0.read(&[&name], &ask).await?)
        })
    }

    fn policy_version(&self) -> LocalFuture<'_, Result<u64>> {
        Box::pin(async move {
            let ask = |work: &Work| ask_version(work);
            Ok(version(&self.0.read(&[keys::GROUPS], &ask).await?).0)
        })
    }

    fn write(
        &self,
        changes: Vec<SharedChange>,
        expected_policy_version: Option<u64>,
    ) -> LocalFuture<'_, Result<SharedWrite>> {
        Box::pin(async move {
            let mut stores = vec![keys::GROUPS];
            let mut ready = Vec::new();
            for SharedChange { store, key, value } in &changes {
                known_store(store)?;
                if !stores.contains(store) {
                    stores.push(store);
                }
                let value = value.as_ref().map(records::write).transpose()?;
                ready.push((*store, JsValue::from_str(key), value));
            }
            let raises = raises_version(&changes);
            let mark = Math::random();
            let answer = Cell::new(None);
            let task = Task {
                stores: &stores,
                writes: true,
                ask: &ask_version,
                then: &|work, found| {
                    let (stored, writer) = version(&found);
                    // Written already, and the connection lost before we heard of it.
                    if writer == Some(mark) {
                        answer.set(Some(SharedWrite::Applied(stored)));
                        return Ok(Next::Done);
                    }
                    if expected_policy_version.is_some_and(|expected| expected != stored) {
                        answer.set(Some(SharedWrite::Conflict(stored)));
                        return Ok(Next::Done);
                    }
                    change(work, &ready)?;
                    let next = stored + u64::from(raises);
                    if raises {
                        let members = [("version", (next as f64).into()), ("mark", mark.into())];
                        let store = work.store(keys::GROUPS)?;
                        work.sent(store.put_with_key(&records::object(&members)?, &version_key()))?;
                    }
                    answer.set(Some(SharedWrite::Applied(next)));
                    Ok(Next::Commit)
                },
            };
            self.0.run(&task).await?;
            answer.take().ok_or_else(closed)
        })
    }
}

/// The policy version is a record among the groups. Their keys are texts, and this one is not.
fn version_key() -> JsValue {
    JsValue::from_f64(0.0)
}

fn ask_version(work: &Work) -> Result<Vec<Asked>> {
    Ok(vec![work.ask(work.store(keys::GROUPS)?.get(&version_key()))?])
}

/// The policy version, and the mark of the write that made it.
fn version(found: &[JsValue]) -> (u64, Option<f64>) {
    let member = |name| found.first().and_then(|it| records::member(it, name).as_f64());
    (member("version").unwrap_or(0.0) as u64, member("mark"))
}

/// The values of a shared store by their keys; both were asked for.
fn listed(name: &str, found: &[JsValue]) -> Result<Vec<(String, Value)>> {
    let mut list = Vec::new();
    let [keys, values] = found else {
        return Ok(list);
    };
    let (keys, values) = (keys.unchecked_ref::<Array>(), values.unchecked_ref::<Array>());
    for (key, value) in keys.iter().zip(values.iter()) {
        let Some(key) = key.as_string() else { continue };
        // IndexedDB sorts by UTF-16 units, other storage by code point.
        insert_sorted(
            &mut list,
            (key, records::read(name, &value)?),
            &|(a, _), (b, _)| a.cmp(b),
        );
    }
    Ok(list)
}

fn change(work: &Work, changes: &[(&str, JsValue, Option<JsValue>)]) -> Result<()> {
    for (store, key, value) in changes {
        let store = work.store(store)?;
        match value {
            Some(value) => work.sent(store.put_with_key(value, key))?,
            None => work.sent(store.delete(key))?,
        }
    }
    Ok(())
}

struct Directory(Rc<Connection>);

impl DirectoryStorage for Directory {
    fn list(&self, filter: ListFilter) -> LocalFuture<'_, Result<Vec<SessionRecord>>> {
        Box::pin(async move {
            if filter.limit == 0 {
                return Ok(Vec::new());
            }
            let found = RefCell::new(Array::new());
            let task = Task {
                stores: &[keys::SESSIONS],
                writes: false,
                ask: &|work| {
                    found.replace(Array::new());
                    Ok(vec![ask_newest(work, &filter)?])
                },
                then: &|_, results| take(&found, filter.limit, results),
            };
            self.0.run(&task).await?;
            entries(&found.take())
        })
    }
}

/// What a list tells of records.
fn entries(found: &Array) -> Result<Vec<SessionRecord>> {
    let told = records::listed(found);
    let entries = (0..found.length()).zip(told.into_iter().map(Some).chain(repeat(None)));
    entries
        .map(|(at, told)| entry(told.as_ref(), found, at))
        .try_listed()
}

/// A record of the list, of which `told` was read already. One that cannot be read is listed as damaged, so that it can be deleted.
fn entry(told: Option<&Value>, found: &Array, at: u32) -> Result<SessionRecord> {
    let read = told.map(|told| SessionRecord::from_json(told, "record"));
    read.unwrap_or_else(|| records::read("", &found.get(at)))
        .or_else(|_| records::read("", &damaged_record(&found.get(at))))
}

/// Asks for a page at once. A browser that cannot give one from its end takes what it should do for a key, and refuses it: there
/// a cursor goes from record to record.
fn ask_newest(work: &Work, filter: &ListFilter) -> Result<Asked> {
    let name = if filter.cwd.is_some() {
        schema::BY_CWD
    } else {
        schema::BY_UPDATED
    };
    let index = given(work.store(keys::SESSIONS)?.index(name))?;
    let range = before(filter)?;
    let page = records::object(&[
        ("query", range.clone()),
        ("count", filter.limit.into()),
        ("direction", "prev".into()),
    ])?;
    let newest_first = IdbCursorDirection::Prev;
    work.ask(
        index
            .get_all_with_key(&page)
            .or_else(|_| index.open_cursor_with_range_and_direction(&range, newest_first)),
    )
}

/// Takes a whole page, or the record that a cursor stands at, and moves on while there is room for more.
fn take(found: &RefCell<Array>, limit: u32, results: Vec<JsValue>) -> Result<Next> {
    let result = results.into_iter().next().unwrap_or_default();
    let cursor = match result.dyn_into::<IdbCursorWithValue>() {
        Ok(cursor) => cursor,
        Err(page) => {
            // A cursor behind the last record is null.
            if let Ok(page) = page.dyn_into() {
                found.replace(page);
            }
            return Ok(Next::Done);
        }
    };
    let found = found.borrow();
    found.push(&given(cursor.value())?);
    if found.length() >= limit {
        return Ok(Next::Done);
    }
    given(cursor.continue_())?;
    Ok(Next::Again)
}

/// Comes before every session that is shown, and behind those that are staged, whose times are before all times.
fn shown() -> JsValue {
    Array::of1(&0.into()).into()
}

/// The part of an index that comes before the last entry of the page before.
fn before(filter: &ListFilter) -> Result<JsValue> {
    let (first, last) = match &filter.cwd {
        Some(cwd) => (records::key(cwd, 0), records::beginning(cwd).1),
        None => (shown(), Array::of1(&Array::new()).into()),
    };
    let last = match &filter.before {
        Some((updated_at, id)) => {
            let position = Array::new();
            if let Some(cwd) = &filter.cwd {
                position.push(&cwd.as_str().into());
            }
            position.push(&JsValue::from_f64(*updated_at));
            position.push(&JsValue::from_str(id));
            position.into()
        }
        None => last,
    };
    records::range(IdbKeyRange::bound_with_lower_open_and_upper_open(
        &first, &last, false, true,
    ))
}
