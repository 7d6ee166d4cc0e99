//! Sessions in IndexedDB.
//!
//! A commit is one transaction: everything is made ready first, then the session's record and the operation id are
//! read, and then there are only puts. It is saved when the transaction is complete, not before.

mod connection;
mod database;
mod failure;
mod records;
mod schema;
mod session;

use std::{fmt, rc::Rc};

use indexed_db_futures::{
    BuildPrimitive, KeyRange, cursor::CursorDirection, object_store::ObjectStore, prelude::QuerySource,
    transaction::TransactionDurability,
};
use js_sys::Array;
use serde_json::Value;
use wasm_bindgen::JsValue;

use self::{
    connection::Connection,
    database::{Handle, Work},
    session::Session,
};
use super::{
    DirectoryStorage, ListFilter, LocalFuture, SessionRecord, SessionStorage, SharedStorage, Storage,
    StorageInfo, keys, known_store,
};
use crate::{Error, Result, untyped::insert_sorted};

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
        let durability = match durability {
            Durability::Strict => TransactionDurability::Strict,
            Durability::Relaxed => TransactionDurability::Relaxed,
        };
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
        }
    }

    fn session(&self, id: &str) -> Rc<dyn SessionStorage<JsValue>> {
        Rc::new(Session {
            connection: Rc::clone(&self.0),
            id: id.to_owned(),
        })
    }

    fn shared(&self) -> Rc<dyn SharedStorage> {
        Rc::new(Shared(Rc::clone(&self.0)))
    }

    fn directory(&self) -> Rc<dyn DirectoryStorage> {
        Rc::new(Directory(Rc::clone(&self.0)))
    }

    fn close(&self) {
        self.0.close();
    }
}

struct Shared(Rc<Connection>);

impl SharedStorage for Shared {
    fn list(&self, store: &str) -> LocalFuture<'_, Result<Vec<(String, Value)>>> {
        let name = store.to_owned();
        Box::pin(async move {
            known_store(&name)?;
            self.0
                .run(async |handle: &Handle| list_shared(&handle.read(&[&name])?, &name).await)
                .await
        })
    }

    fn write(&self, store: &str, changes: Vec<(String, Option<Value>)>) -> LocalFuture<'_, Result<()>> {
        let name = store.to_owned();
        Box::pin(async move {
            known_store(&name)?;
            let ready = |(key, value): &(String, Option<Value>)| {
                Ok((
                    JsValue::from_str(key),
                    value.as_ref().map(records::write).transpose()?,
                ))
            };
            let changes: Vec<(JsValue, Option<JsValue>)> =
                changes.iter().map(ready).collect::<Result<_>>()?;
            let write = async |handle: &Handle| {
                let work = self.0.write(handle, &[&name])?;
                change(&work, &work.store(&name)?, &changes)?;
                work.commit().await
            };
            self.0.run(write).await
        })
    }
}

async fn list_shared(work: &Work<'_>, name: &str) -> Result<Vec<(String, Value)>> {
    let store = work.store(name)?;
    let keys = store.get_all_keys::<JsValue>().primitive();
    let values = store.get_all::<JsValue>().primitive();
    let (keys, values) = (work.result(keys).await?, work.result(values).await?);
    let mut list = Vec::new();
    for (key, value) in keys.zip(values) {
        let key = key.map_err(|error| failure::of_crate(&error))?;
        let key = key.as_string().unwrap_or_default();
        let value = value.map_err(|error| failure::of_crate(&error))?;
        // IndexedDB sorts by UTF-16 units, other storage by code point.
        insert_sorted(
            &mut list,
            (key, records::read(name, &value)?),
            &|(a, _), (b, _)| a.cmp(b),
        );
    }
    Ok(list)
}

fn change(work: &Work<'_>, store: &ObjectStore<'_>, changes: &[(JsValue, Option<JsValue>)]) -> Result<()> {
    for (key, value) in changes {
        match value {
            Some(value) => work.sent(store.put(value.clone()).with_key(key.clone()).primitive())?,
            None => work.sent(store.delete::<JsValue, _>(key.clone()).primitive())?,
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
            self.0
                .run(async |handle: &Handle| list_sessions(&handle.read(&[keys::SESSIONS])?, &filter).await)
                .await
        })
    }
}

async fn list_sessions(work: &Work<'_>, filter: &ListFilter) -> Result<Vec<SessionRecord>> {
    let store = work.store(keys::SESSIONS)?;
    let name = if filter.cwd.is_some() {
        schema::BY_CWD
    } else {
        schema::BY_UPDATED
    };
    let index = store.index(name).map_err(|error| failure::of_crate(&error))?;
    let open = index
        .open_cursor()
        .with_query::<JsValue, _>(before(filter))
        .with_direction(CursorDirection::Prev)
        .primitive();
    let found = Array::new();
    if let Some(mut cursor) = work.result(open).await? {
        while found.length() < filter.limit {
            match work.result(Ok(cursor.next_record::<JsValue>())).await? {
                Some(record) => found.push(&record),
                None => break,
            };
        }
    }
    records::read("", &found)
}

/// The part of an index that comes before the last entry of the page before.
fn before(filter: &ListFilter) -> KeyRange<JsValue> {
    let position = |first: &[JsValue]| -> Option<JsValue> {
        let (updated_at, id) = filter.before.as_ref()?;
        let rest = [JsValue::from_f64(*updated_at), JsValue::from_str(id)];
        Some(first.iter().cloned().chain(rest).collect::<Array>().into())
    };
    match &filter.cwd {
        Some(cwd) => {
            let (first, last) = records::beginning(cwd);
            match position(&[cwd.as_str().into()]) {
                Some(position) => KeyRange::Bound(first, false, position, true),
                None => KeyRange::Bound(first, false, last, false),
            }
        }
        None => match position(&[]) {
            Some(position) => KeyRange::UpperBound(position, true),
            None => KeyRange::LowerBound(Array::new().into(), false),
        },
    }
}
