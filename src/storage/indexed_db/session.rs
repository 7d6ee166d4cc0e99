//! One session in IndexedDB.

use std::rc::Rc;

use js_sys::Array;
use serde::Serialize;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::IdbKeyRange;

use super::{
    connection::Connection,
    database::{Asked, Handle, Work, given},
    records, schema,
};
use crate::{
    Result,
    list::{Listed, TryListed},
    message::MessageOutline,
    storage::{
        Commit, CommitStatus, Counters, LocalFuture, SessionStorage, StoredSession,
        apply::{Decision, StoredRecord, decide},
        damaged, keys,
    },
    untyped::FromJson,
};

pub struct Session {
    pub connection: Rc<Connection>,
    pub id: String,
}

/// Records that a commit adds whatever its session holds, made before the transaction begins.
struct Prepared {
    messages: Vec<JsValue>,
    packs: Vec<JsValue>,
    /// Of snapshots, checkpoints and compactions, by their stores.
    lists: [(&'static str, Vec<JsValue>); 3],
}

impl Prepared {
    fn new(id: &str, commit: &Commit<JsValue>) -> Result<Self> {
        let messages = commit
            .messages
            .iter()
            .map(|message| records::message(id, message));
        let packs = commit.outline_packs.iter().map(|pack| records::pack(id, pack));
        Ok(Self {
            messages: messages.try_listed()?,
            packs: packs.try_listed()?,
            lists: [
                (keys::SNAPSHOTS, positioned(id, &commit.snapshots)?),
                (keys::CHECKPOINTS, positioned(id, &commit.checkpoints)?),
                (keys::COMPACTIONS, positioned(id, &commit.compactions)?),
            ],
        })
    }
}

fn positioned(session_id: &str, list: &[(u32, impl Serialize)]) -> Result<Vec<JsValue>> {
    list.iter()
        .map(|(position, record)| records::positioned(session_id, *position, record))
        .try_listed()
}

impl Session {
    async fn record(&self, work: &Work) -> Result<Option<StoredRecord>> {
        let record = self.ask_record(work)?;
        self.stored(&work.result(&record).await?)
    }

    fn ask_record(&self, work: &Work) -> Result<Asked> {
        work.ask(work.store(keys::SESSIONS)?.get(&JsValue::from_str(&self.id)))
    }

    fn stored(&self, record: &JsValue) -> Result<Option<StoredRecord>> {
        if record.is_undefined() {
            return Ok(None);
        }
        records::read(&self.id, record).map(Some)
    }

    /// The session's record, and whether the ring holds an operation id.
    async fn read(&self, work: &Work, operation: &str) -> Result<(Option<StoredRecord>, bool)> {
        let index = given(work.store(keys::COMMITS)?.index(schema::BY_OPERATION))?;
        // Both requests are on their way before the first is waited for.
        let remembered = work.ask(index.get_key(&records::key(&self.id, operation)))?;
        let record = self.ask_record(work)?;
        let remembered = !work.result(&remembered).await?.is_undefined();
        Ok((self.stored(&work.result(&record).await?)?, remembered))
    }

    async fn apply(&self, work: Work, commit: &Commit<JsValue>, prepared: &Prepared) -> Result<CommitStatus> {
        let (stored, remembered) = self.read(&work, &commit.operation_id).await?;
        let (next, slot) = match decide(&self.id, commit, stored.as_ref(), remembered)? {
            Decision::Answer(status) => return Ok(status),
            Decision::Apply { next, slot } => (next, slot),
        };

        put(&work, keys::SESSIONS, &records::write(&next)?)?;
        put(
            &work,
            keys::COMMITS,
            &records::operation(&self.id, slot, &commit.operation_id)?,
        )?;
        for pack in &prepared.packs {
            put(&work, keys::OUTLINES, pack)?;
        }
        // What is stored is never overwritten: a position that is taken fails the commit.
        let messages = [(keys::MESSAGES, &prepared.messages)];
        let lists = prepared.lists.iter().map(|(name, list)| (*name, list));
        for (name, list) in messages.into_iter().chain(lists) {
            let store = work.store(name)?;
            for record in list {
                work.sent(store.add(record))?;
            }
        }
        work.commit().await?;
        Ok(CommitStatus::Applied(next.record.counters))
    }

    async fn load_from(&self, handle: &Handle) -> Result<Option<StoredSession>> {
        let work = handle.read(keys::OF_SESSIONS)?;
        // Every request is on its way before the first is waited for.
        let record = self.ask_record(&work)?;
        let packs = self.all(&work, keys::OUTLINES)?;
        let snapshots = self.all(&work, keys::SNAPSHOTS)?;
        let checkpoints = self.all(&work, keys::CHECKPOINTS)?;
        let compactions = self.all(&work, keys::COMPACTIONS)?;

        let Some(StoredRecord { record, .. }) = self.stored(&work.result(&record).await?)? else {
            return Ok(None);
        };
        let mut outlines = Vec::new();
        for pack in found(&work, packs).await? {
            let text = records::member(&pack, "outlines").as_string().unwrap_or_default();
            outlines.extend(records::parse::<Vec<MessageOutline>>(&self.id, &text)?);
        }
        if outlines.len() != record.message_count as usize {
            let what = format!(
                "it has {} messages and {} outlines",
                record.message_count,
                outlines.len()
            );
            return Err(damaged(&self.id, &what));
        }
        Ok(Some(StoredSession {
            record,
            outlines,
            snapshots: self.list(found(&work, snapshots).await?)?,
            checkpoints: self.list(found(&work, checkpoints).await?)?,
            compactions: self.list(found(&work, compactions).await?)?,
        }))
    }

    /// Asks for every record of a store that belongs to this session, in order.
    fn all(&self, work: &Work, store: &str) -> Result<Asked> {
        all(work, store, &records::of_session(&self.id)?)
    }

    fn list<T: FromJson>(&self, found: Vec<JsValue>) -> Result<Vec<T>> {
        found
            .iter()
            .map(|record| records::read(&self.id, record))
            .try_listed()
    }

    async fn messages(&self, handle: &Handle, from: u32, to: u32) -> Result<Vec<JsValue>> {
        let work = handle.read(&[keys::MESSAGES])?;
        let (from_key, to_key) = (records::key(&self.id, from), records::key(&self.id, to));
        let made = IdbKeyRange::bound_with_lower_open_and_upper_open(&from_key, &to_key, false, true);
        let asked = all(&work, keys::MESSAGES, &records::range(made)?)?;
        let found = found(&work, asked).await?;
        // Keys are unique and sorted: as many as were asked for are exactly those.
        if found.len() != (to - from) as usize {
            return Err(damaged(
                &self.id,
                &format!("a message of {from} to {to} is missing"),
            ));
        }
        Ok(found
            .iter()
            .map(|record| records::member(record, "body"))
            .listed())
    }

    async fn remove(&self, work: Work) -> Result<()> {
        for name in keys::OF_SESSIONS {
            let range = match *name {
                keys::SESSIONS => JsValue::from_str(&self.id),
                _ => records::of_session(&self.id)?,
            };
            work.sent(work.store(name)?.delete(&range))?;
        }
        work.commit().await
    }
}

/// Asks for the records of a range.
fn all(work: &Work, store: &str, range: &JsValue) -> Result<Asked> {
    work.ask(work.store(store)?.get_all_with_key(range))
}

/// Records that were asked for.
async fn found(work: &Work, asked: Asked) -> Result<Vec<JsValue>> {
    let found: Array = work.result(&asked).await?.unchecked_into();
    Ok(found.to_vec())
}

fn put(work: &Work, store: &str, record: &JsValue) -> Result<()> {
    work.sent(work.store(store)?.put(record))
}

impl SessionStorage<JsValue> for Session {
    fn counters(&self) -> LocalFuture<'_, Result<Option<Counters>>> {
        Box::pin(async move {
            let read = async |handle: &Handle| self.record(&handle.read(&[keys::SESSIONS])?).await;
            Ok(self
                .connection
                .run(read)
                .await?
                .map(|stored| stored.record.counters))
        })
    }

    fn load(&self) -> LocalFuture<'_, Result<Option<StoredSession>>> {
        Box::pin(
            self.connection
                .run(async |handle: &Handle| self.load_from(handle).await),
        )
    }

    fn read_messages(&self, from: u32, to: u32) -> LocalFuture<'_, Result<Vec<JsValue>>> {
        Box::pin(async move {
            if from >= to {
                return Ok(Vec::new());
            }
            self.connection
                .run(async |handle: &Handle| self.messages(handle, from, to).await)
                .await
        })
    }

    fn commit(&self, commit: Rc<Commit<JsValue>>) -> LocalFuture<'_, Result<CommitStatus>> {
        Box::pin(async move {
            let prepared = Prepared::new(&self.id, &commit)?;
            // Tried once more when the connection is lost: the operation id says whether it was applied.
            let apply = async |handle: &Handle| {
                let work = self.connection.write(handle, keys::OF_SESSIONS)?;
                self.apply(work, &commit, &prepared).await
            };
            self.connection.run(apply).await
        })
    }

    fn delete(&self) -> LocalFuture<'_, Result<()>> {
        Box::pin(self.connection.run(async |handle: &Handle| {
            self.remove(self.connection.write(handle, keys::OF_SESSIONS)?)
                .await
        }))
    }
}
