//! One session in IndexedDB.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use js_sys::Array;
use serde::Serialize;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::IdbKeyRange;

use super::{
    connection::{Connection, Next, Task},
    database::{Asked, Work, given},
    records, schema,
};
use crate::{
    Error, Result,
    js::{json::json, plain::refrozen},
    list::Listed,
    storage::{
        Commit, CommitStatus, LocalFuture, Opened, SessionStorage, Standing, StoredApproval, StoredSession,
        apply::{Decision, StoredRecord, decide},
        closed, damaged,
        kept::Kept,
        keys,
    },
};

pub struct Session {
    connection: Rc<Connection>,
    id: String,
    /// The record as it was last written here. It may be another by now.
    known: RefCell<Option<StoredRecord>>,
}

/// A session's record as a commit writes it, as text, and the slot of the ring that takes its operation id.
type Written = (String, u64);

/// Records that a commit brings whatever its session holds, made before the transaction begins.
struct Prepared {
    packs: Vec<JsValue>,
    /// With their stores. What is stored is never overwritten: a position that is taken fails the commit.
    added: Vec<(&'static str, JsValue)>,
}

impl Prepared {
    fn new(id: &str, commit: &Commit<JsValue>) -> Result<Self> {
        let mut prepared = Self {
            packs: Vec::new(),
            added: Vec::new(),
        };
        for pack in &commit.outline_packs {
            prepared.packs.push(records::pack(id, pack)?);
        }
        for message in &commit.messages {
            prepared
                .added
                .push((keys::MESSAGES, records::message(id, message)?));
        }
        prepared.add(keys::SNAPSHOTS, id, &commit.snapshots)?;
        prepared.add(keys::CHECKPOINTS, id, &commit.checkpoints)?;
        prepared.add(keys::COMPACTIONS, id, &commit.compactions)?;
        Ok(prepared)
    }

    fn add(&mut self, store: &'static str, id: &str, list: &[(u32, impl Serialize)]) -> Result<()> {
        for (position, record) in list {
            self.added
                .push((store, records::positioned(id, *position, record)?));
        }
        Ok(())
    }
}

/// Stores whose records belong to a session, in the order in which they are loaded.
const LOADED: [&str; 5] = [
    keys::OUTLINES,
    keys::SNAPSHOTS,
    keys::CHECKPOINTS,
    keys::COMPACTIONS,
    keys::APPROVALS,
];

impl Session {
    pub fn new(connection: &Rc<Connection>, id: &str) -> Self {
        Self {
            connection: Rc::clone(connection),
            id: id.to_owned(),
            known: RefCell::new(None),
        }
    }

    fn ask_record(&self, work: &Work) -> Result<Asked> {
        work.ask(work.store(keys::SESSIONS)?.get(&JsValue::from_str(&self.id)))
    }

    fn stored(&self, record: Option<&JsValue>) -> Result<Option<StoredRecord>> {
        match record {
            Some(record) if !record.is_undefined() => records::read(&self.id, record).map(Some),
            _ => Ok(None),
        }
    }

    /// The session's record, its approvals, and everything that is loaded with it.
    fn ask_all(&self, work: &Work) -> Result<Vec<Asked>> {
        let range = records::of_session(&self.id)?;
        let mut asked = vec![self.ask_record(work)?];
        for store in LOADED {
            asked.push(work.ask(work.store(store)?.get_all_with_key(&range))?);
        }
        Ok(asked)
    }

    fn loaded(&self, found: &[JsValue]) -> Result<Option<StoredSession>> {
        let [record, packs, snapshots, checkpoints, compactions, ..] = found else {
            return Ok(None);
        };
        if record.is_undefined() {
            return Ok(None);
        }
        let mut kept = Kept::default();
        let read = records::read::<StoredRecord>(&self.id, record);
        Ok(Some(StoredSession {
            record: kept.record(read.map(|stored| stored.record), record)?,
            outlines: kept.outlines(records::packs(packs)),
            snapshots: kept.list(keys::SNAPSHOTS, records::placed(snapshots)),
            checkpoints: kept.list(keys::CHECKPOINTS, records::placed(checkpoints)),
            compactions: kept.list(keys::COMPACTIONS, records::placed(compactions)),
            damage: kept.0,
        }))
    }

    /// A message, where there is one.
    fn ask_left(&self, work: &Work) -> Result<Asked> {
        let messages = work.store(keys::MESSAGES)?;
        work.ask(messages.get_key(&records::of_session(&self.id)?))
    }

    fn orphaned(&self) -> Error {
        damaged(&self.id, "its messages are there, and its record is not")
    }

    /// The session's record, whether the ring holds an operation id, the approvals that a commit changes, and where it creates the
    /// session whether there are messages already.
    fn ask_before(&self, work: &Work, commit: &Commit<JsValue>) -> Result<Vec<Asked>> {
        let index = given(work.store(keys::COMMITS)?.index(schema::BY_OPERATION))?;
        let remembered = work.ask(index.get_key(&records::key(&self.id, &commit.operation_id)))?;
        let mut asked = vec![self.ask_record(work)?, remembered];
        for change in &commit.approvals {
            let approvals = work.store(keys::APPROVALS)?;
            asked.push(work.ask(approvals.get(&records::key(&self.id, &change.id)))?);
        }
        if commit.create.is_some() {
            asked.push(self.ask_left(work)?);
        }
        Ok(asked)
    }

    /// What a commit comes to where nobody else wrote the session since it was last written here.
    fn guess(&self, commit: &Commit<JsValue>) -> Option<Written> {
        let known = self.known.take().filter(|_| commit.approvals.is_empty())?;
        match decide(&self.id, commit, Some(&known), false, &[]) {
            Ok(Decision::Apply { next, slot }) => Some((json(&next), slot)),
            _ => None,
        }
    }

    /// Decides on a commit by what was found.
    fn decide(&self, commit: &Commit<JsValue>, found: &[JsValue], versions: &[u64]) -> Result<Decision> {
        let stored = self.stored(found.first())?;
        let remembered = found.get(1).is_some_and(|key| !key.is_undefined());
        let is_orphaned = found
            .get(2 + versions.len())
            .is_some_and(|key| !key.is_undefined());
        let decision = decide(&self.id, commit, stored.as_ref(), remembered, versions)?;
        match decision {
            Decision::Apply { .. } if is_orphaned => Err(self.orphaned()),
            decision => Ok(decision),
        }
    }

    /// Asks for what a commit changes; `versions` are those of its approvals.
    fn apply(
        &self,
        work: &Work,
        commit: &Commit<JsValue>,
        prepared: &Prepared,
        (record, slot): &Written,
        versions: &[u64],
    ) -> Result<()> {
        put(work, keys::SESSIONS, &records::parsed(record)?)?;
        let operation = records::operation(&self.id, *slot, &commit.operation_id)?;
        put(work, keys::COMMITS, &operation)?;
        for (change, version) in commit.approvals.iter().zip(versions) {
            match &change.body {
                Some(body) => put(
                    work,
                    keys::APPROVALS,
                    &records::approval(&self.id, &change.id, version + 1, body)?,
                )?,
                None => {
                    let key = records::key(&self.id, &change.id);
                    work.sent(work.store(keys::APPROVALS)?.delete(&key))?;
                }
            }
        }
        for pack in &prepared.packs {
            put(work, keys::OUTLINES, pack)?;
        }
        for (store, record) in &prepared.added {
            work.sent(work.store(store)?.add(record))?;
        }
        Ok(())
    }

    fn ask_messages(&self, work: &Work, from: u32, to: u32) -> Result<Vec<Asked>> {
        let (from, to) = (records::key(&self.id, from), records::key(&self.id, to));
        let range = IdbKeyRange::bound_with_lower_open_and_upper_open(&from, &to, false, true);
        let messages = work.store(keys::MESSAGES)?;
        Ok(vec![
            work.ask(messages.get_all_with_key(&records::range(range)?))?,
        ])
    }

    fn ask_removal(&self, work: &Work) -> Result<Vec<Asked>> {
        let mut asked = Vec::new();
        for name in keys::OF_SESSIONS {
            let range = match *name {
                keys::SESSIONS => JsValue::from_str(&self.id),
                _ => records::of_session(&self.id)?,
            };
            asked.push(work.ask(work.store(name)?.delete(&range))?);
        }
        Ok(asked)
    }
}

/// Records that were asked for together.
fn all(found: &JsValue) -> Vec<JsValue> {
    found.unchecked_ref::<Array>().to_vec()
}

fn put(work: &Work, store: &str, record: &JsValue) -> Result<()> {
    work.sent(work.store(store)?.put(record))
}

impl SessionStorage<JsValue> for Session {
    fn counters(&self) -> LocalFuture<'_, Result<Option<Standing>>> {
        Box::pin(async move {
            let ask = |work: &Work| Ok(vec![self.ask_record(work)?]);
            let found = self.connection.read(&[keys::SESSIONS], &ask).await?;
            if let Some(stored) = self.stored(found.first())? {
                return Ok(Some(stored.record.standing()));
            }
            let ask = |work: &Work| Ok(vec![self.ask_left(work)?]);
            let left = self.connection.read(&[keys::MESSAGES], &ask).await?;
            match left.first() {
                Some(key) if !key.is_undefined() => Err(self.orphaned()),
                _ => Ok(None),
            }
        })
    }

    fn load(&self) -> LocalFuture<'_, Result<Option<StoredSession>>> {
        Box::pin(async move { Ok(self.open().await?.map(|(stored, _)| stored)) })
    }

    fn open<'a>(&'a self) -> LocalFuture<'a, Result<Option<Opened<JsValue>>>>
    where
        JsValue: 'a,
    {
        Box::pin(async move {
            let ask = |work: &Work| self.ask_all(work);
            let found = self.connection.read(keys::OF_SESSIONS, &ask).await?;
            let stored = self.loaded(&found)?;
            Ok(stored.map(|stored| (stored, records::approvals(found.last()))))
        })
    }

    fn read_messages(&self, from: u32, to: u32) -> LocalFuture<'_, Result<Vec<JsValue>>> {
        Box::pin(async move {
            if from >= to {
                return Ok(Vec::new());
            }
            let ask = |work: &Work| self.ask_messages(work, from, to);
            let found = self.connection.read(&[keys::MESSAGES], &ask).await?;
            let found = found.first().map(all).unwrap_or_default();
            let bodies = found
                .iter()
                .map(|record| refrozen(records::member(record, "body")))
                .listed();
            // Keys are unique and sorted: as many as were asked for are exactly those.
            if bodies.len() != (to - from) as usize || !bodies.iter().all(JsValue::is_object) {
                let what = format!("a message of {from} to {to} is missing");
                return Err(damaged(&self.id, &what));
            }
            Ok(bodies)
        })
    }

    fn approvals(&self) -> LocalFuture<'_, Result<Vec<StoredApproval<JsValue>>>> {
        Box::pin(async move {
            let range = records::of_session(&self.id)?;
            let ask = |work: &Work| {
                Ok(vec![
                    work.ask(work.store(keys::APPROVALS)?.get_all_with_key(&range))?,
                ])
            };
            let found = self.connection.read(&[keys::APPROVALS], &ask).await?;
            Ok(records::approvals(found.first()))
        })
    }

    /// What is most likely to be written is asked for together with what decides, and kept where the decision is just that.
    fn commit(&self, commit: Rc<Commit<JsValue>>) -> LocalFuture<'_, Result<CommitStatus>> {
        Box::pin(async move {
            let prepared = Prepared::new(&self.id, &commit)?;
            let guess = RefCell::new(self.guess(&commit));
            let answer = Cell::new(None);
            let task = Task {
                stores: keys::OF_SESSIONS,
                writes: true,
                ask: &|work| {
                    // What is read is asked for first, and so answered before what is written: it is taken back in time.
                    let asked = self.ask_before(work, &commit)?;
                    if let Some(guess) = &*guess.borrow() {
                        self.apply(work, &commit, &prepared, guess, &[])?;
                    }
                    Ok(asked)
                },
                then: &|work, found| {
                    let versions = found.iter().skip(2).take(commit.approvals.len());
                    let versions = versions.map(records::version).listed();
                    let (next, slot) = match self.decide(&commit, &found, &versions)? {
                        Decision::Answer(status) => {
                            answer.set(Some(status));
                            return Ok(Next::Done);
                        }
                        Decision::Apply { next, slot } => (next, slot),
                    };
                    let written = (json(&next), slot);
                    match guess.take() {
                        Some(guess) if guess != written => return Ok(Next::Done),
                        Some(_) => {}
                        None => self.apply(work, &commit, &prepared, &written, &versions)?,
                    }
                    answer.set(Some(CommitStatus::Applied(next.record.counters)));
                    self.known.replace(Some(*next));
                    Ok(Next::Commit)
                },
            };
            self.connection.run(&task).await?;
            if answer.get().is_none() {
                // The guess was wrong, and was taken back. There is none any more.
                self.connection.run(&task).await?;
            }
            answer.take().ok_or_else(closed)
        })
    }

    fn delete(&self) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            let ask = |work: &Work| self.ask_removal(work);
            self.connection.write(keys::OF_SESSIONS, &ask).await
        })
    }
}
