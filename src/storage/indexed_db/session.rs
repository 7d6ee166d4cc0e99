//! One session in IndexedDB.

use std::rc::Rc;

use indexed_db_futures::{BuildPrimitive, KeyRange, future::GetAllPrimitiveRequest, prelude::QuerySource};
use serde::Serialize;
use wasm_bindgen::JsValue;

use super::{
    connection::Connection,
    database::{Handle, Work},
    failure, records, schema,
};
use crate::{
    Result,
    message::MessageOutline,
    storage::{
        Commit, CommitStatus, Counters, LocalFuture, Positioned, SessionStorage, StoredSession,
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
            messages: messages.collect::<Result<_>>()?,
            packs: packs.collect::<Result<_>>()?,
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
        .map(|(position, record)| {
            let position = *position;
            records::write(&Positioned {
                session_id,
                position,
                record,
            })
        })
        .collect()
}

impl Session {
    async fn record(&self, work: &Work<'_>) -> Result<Option<StoredRecord>> {
        let store = work.store(keys::SESSIONS)?;
        let record = store.get::<JsValue, _, _>(self.id.as_str()).primitive();
        self.stored(work.result(record).await?)
    }

    fn stored(&self, record: Option<JsValue>) -> Result<Option<StoredRecord>> {
        let Some(record) = record else {
            return Ok(None);
        };
        records::read(&self.id, &record).map(Some)
    }

    /// The session's record, and whether the ring holds an operation id.
    async fn read(&self, work: &Work<'_>, operation: &str) -> Result<(Option<StoredRecord>, bool)> {
        let (sessions, commits) = (work.store(keys::SESSIONS)?, work.store(keys::COMMITS)?);
        let index = commits
            .index(schema::BY_OPERATION)
            .map_err(|error| failure::of_crate(&error))?;
        // Both requests are on their way before the first is waited for.
        let remembered = index
            .get_key::<JsValue, _>(records::key(&self.id, operation))
            .primitive();
        let record = sessions.get::<JsValue, _, _>(self.id.as_str()).primitive();
        let remembered = work.result(remembered).await?.is_some();
        Ok((self.stored(work.result(record).await?)?, remembered))
    }

    async fn apply(
        &self,
        work: Work<'_>,
        commit: &Commit<JsValue>,
        prepared: &Prepared,
    ) -> Result<CommitStatus> {
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
                work.sent(store.add(record.clone()).primitive())?;
            }
        }
        work.commit().await?;
        Ok(CommitStatus::Applied(next.record.counters))
    }

    async fn load_from(&self, handle: &Handle) -> Result<Option<StoredSession>> {
        let work = handle.read(keys::OF_SESSIONS)?;
        let store = work.store(keys::SESSIONS)?;
        // Every request is on its way before the first is waited for.
        let record = store.get::<JsValue, _, _>(self.id.as_str()).primitive();
        let packs = self.all(&work, keys::OUTLINES)?;
        let snapshots = self.all(&work, keys::SNAPSHOTS)?;
        let checkpoints = self.all(&work, keys::CHECKPOINTS)?;
        let compactions = self.all(&work, keys::COMPACTIONS)?;

        let Some(StoredRecord { record, .. }) = self.stored(work.result(record).await?)? else {
            return Ok(None);
        };
        let mut outlines = Vec::new();
        for pack in packs.found(&work).await? {
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
            snapshots: self.list(snapshots.found(&work).await?)?,
            checkpoints: self.list(checkpoints.found(&work).await?)?,
            compactions: self.list(compactions.found(&work).await?)?,
        }))
    }

    /// Asks for every record of a store that belongs to this session, in order.
    fn all(&self, work: &Work<'_>, store: &str) -> Result<Asked> {
        Asked::new(work, store, records::of_session(&self.id))
    }

    fn list<T: FromJson>(&self, found: Vec<JsValue>) -> Result<Vec<T>> {
        found
            .iter()
            .map(|record| records::read(&self.id, record))
            .collect()
    }

    async fn messages(&self, handle: &Handle, from: u32, to: u32) -> Result<Vec<JsValue>> {
        let work = handle.read(&[keys::MESSAGES])?;
        let range = KeyRange::Bound(
            records::key(&self.id, from),
            false,
            records::key(&self.id, to),
            true,
        );
        let found = Asked::new(&work, keys::MESSAGES, range)?.found(&work).await?;
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
            .collect())
    }

    async fn remove(&self, work: Work<'_>) -> Result<()> {
        for name in keys::OF_SESSIONS {
            let range = match *name {
                keys::SESSIONS => KeyRange::Only(JsValue::from_str(&self.id)),
                _ => records::of_session(&self.id),
            };
            work.sent(work.store(name)?.delete::<JsValue, _>(range).primitive())?;
        }
        work.commit().await
    }
}

/// Records that were asked for.
struct Asked(GetAllPrimitiveRequest<JsValue>);

impl Asked {
    fn new(work: &Work<'_>, store: &str, range: KeyRange<JsValue>) -> Result<Self> {
        let store = work.store(store)?;
        let request = store
            .get_all::<JsValue>()
            .with_query::<JsValue, _>(range)
            .primitive();
        request.map(Self).map_err(|error| failure::of_crate(&error))
    }

    async fn found(self, work: &Work<'_>) -> Result<Vec<JsValue>> {
        let found = work.result(Ok(self.0)).await?;
        found
            .collect::<Result<_, _>>()
            .map_err(|error| failure::of_crate(&error))
    }
}

fn put(work: &Work<'_>, store: &str, record: &JsValue) -> Result<()> {
    work.sent(work.store(store)?.put(record.clone()).primitive())
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
