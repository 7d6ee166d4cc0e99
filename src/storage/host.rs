//! Sessions in storage that the host supplies.
//!
//! The adapter decides on commits, in its own transaction. Here they are checked and encoded, and the list of sessions and
//! of approvals that wait is kept, so that nothing is stored that no list leads to: the entry of an approval is put before the
//! commit that makes it true, and again after it. A session that is created has an entry in advance, with an id of its own;
//! that one goes when the session's entry is there. A write of the list that fails after a commit fails nothing; whoever opens
//! the session makes up for it.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt,
    rc::{Rc, Weak},
};

use js_sys::Array;
use serde::Serialize;
use serde_json::Value;
use wasm_bindgen::{JsCast, JsValue};

use super::{
    Commit, CommitStatus, Damage, DirectoryStorage, ListFilter, LocalFuture, ORIGIN, Opened, SessionRecord,
    SessionStorage, SharedChange, SharedStorage, SharedWrite, Standing, Storage, StorageInfo,
    StorageListener, StoredApproval, StoredSession,
    apply::{after, begin, check_session},
    damaged,
    indexed_db::packs,
    kept::Kept,
    keys, known_store,
};
use crate::{
    Error, Result,
    js::{
        plain::{field, json_of, list, object, to_js},
        storage::{
            Adapter, Call,
            Failed::{self, GoesOn, Stops},
            Part, encoded, memory_storage,
        },
    },
    list::Listed,
    message::MessageView,
    runtime::World,
    untyped::{FromJson, Reader, insert_sorted, one_of},
};

/// Storage of the host.
#[derive(Clone)]
pub struct HostStorage {
    adapter: Rc<Adapter>,
    /// Those that somebody has.
    sessions: Rc<RefCell<Vec<Weak<Session>>>>,
}

impl HostStorage {
    /// Storage by an adapter; `path` is what its host calls it.
    ///
    /// # Errors
    /// `invalid_argument` that names a member which is not what a `StorageAdapter` has.
    pub fn new(adapter: &JsValue, path: &str) -> Result<Self> {
        Ok(Self {
            adapter: Rc::new(Adapter::new(adapter, path)?),
            sessions: Rc::default(),
        })
    }

    /// Storage that ends with the page.
    ///
    /// # Errors
    /// None: the adapter comes with the package.
    pub fn memory() -> Result<Self> {
        Self::new(&memory_storage(), "memoryStorage")
    }

    /// One object per session, which knows the record that it saw last.
    fn find(&self, id: &str) -> Rc<Session> {
        let mut sessions = self.sessions.borrow_mut();
        sessions.retain(|session| session.strong_count() > 0);
        let mut known = sessions.iter().filter_map(Weak::upgrade);
        if let Some(session) = known.find(|session| session.id == id) {
            return session;
        }
        let session = Rc::new_cyclic(|me| Session {
            me: me.clone(),
            adapter: Rc::clone(&self.adapter),
            id: id.to_owned(),
            known: RefCell::default(),
        });
        sessions.push(Rc::downgrade(&session));
        session
    }

    /// Entries of the list, newest first, from behind `before`, which moves to the last of them. There are no more where it
    /// says so. One that is none is left out, and said.
    async fn page(
        &self,
        kind: &str,
        cwd: Option<&str>,
        limit: u32,
        before: &mut Option<(f64, String)>,
    ) -> Result<(Vec<Entry>, bool)> {
        let mut members = vec![("kind", kind.into()), ("limit", limit.into())];
        if let Some(cwd) = cwd {
            members.push(("cwd", cwd.into()));
        }
        if let Some((updated_at, id)) = before {
            let time = JsValue::from_f64(*updated_at).number_text();
            members.push(("before", [&time, ":", id].concat().into()));
        }
        let call = Call {
            part: Part::Directory,
            method: "list",
            question: "entries",
            arguments: vec![object(&members)],
        };
        let mut listed = items(&self.adapter.ask(vec![call], Stops).await?);
        listed.truncate(limit as usize);
        let (mut found, mut last) = (Vec::new(), None);
        for entry in &listed {
            if let (Some(time), Some(id)) = (field(entry, "updatedAt").as_f64(), field(entry, "id").text()) {
                last = Some((time, id));
            }
            match self.adapter.read::<Entry>("list", entry) {
                Ok(entry) => found.push(entry),
                Err(error) => self.adapter.leaves_out(error),
            }
        }
        let is_last = listed.len() < limit as usize || last.is_none() || last == *before;
        *before = last;
        Ok((found, is_last))
    }

    /// What was found in spite of errors, which are told. The first of them, where nothing was found.
    fn in_spite<T>(&self, errors: Vec<Error>, found: Vec<T>) -> Result<Vec<T>> {
        for error in errors {
            if found.is_empty() {
                return Err(error);
            }
            self.adapter.leaves_out(error);
        }
        Ok(found)
    }
}

impl fmt::Debug for HostStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostStorage").field(&self.adapter.info).finish()
    }
}

impl Storage<JsValue> for HostStorage {
    fn info(&self) -> StorageInfo {
        self.adapter.info.clone()
    }

    fn session(&self, id: &str) -> Rc<dyn SessionStorage<JsValue>> {
        self.find(id)
    }

    fn shared(&self) -> Rc<dyn SharedStorage> {
        Rc::new(Shared(Rc::clone(&self.adapter)))
    }

    fn approvals(&self) -> LocalFuture<'_, Result<Vec<StoredApproval<JsValue>>>> {
        Box::pin(async move {
            // Of each session the entries of its approvals.
            let mut listed: Vec<(String, Vec<Entry>)> = Vec::new();
            let mut before = None;
            loop {
                let (page, is_last) = self.page(APPROVAL, None, MOST, &mut before).await?;
                for entry in page {
                    match listed.binary_search_by(|(other, _)| other.cmp(&entry.session_id)) {
                        Ok(at) => {
                            if let Some((_, entries)) = listed.get_mut(at) {
                                entries.push(entry);
                            }
                        }
                        Err(at) => listed.insert(at, (entry.session_id.clone(), vec![entry])),
                    }
                }
                if is_last {
                    break;
                }
            }
            let (mut all, mut errors) = (Vec::new(), Vec::new());
            for (id, entries) in listed {
                match self.find(&id).waiting(entries).await {
                    Ok(mut found) => all.append(&mut found),
                    Err(error) => errors.push(error),
                }
            }
            self.in_spite(errors, all)
        })
    }

    fn asker<'a>(&'a self, approval: &'a str) -> LocalFuture<'a, Result<Option<String>>>
    where
        JsValue: 'a,
    {
        Box::pin(async move {
            let mut before = None;
            loop {
                let (page, is_last) = self.page(APPROVAL, None, MOST, &mut before).await?;
                for Entry { id, session_id, .. } in page {
                    if id.strip_prefix(&session_id) == Some(&["/", approval].concat()) {
                        return Ok(Some(session_id));
                    }
                }
                if is_last {
                    return Ok(None);
                }
            }
        })
    }

    fn directory(&self) -> Rc<dyn DirectoryStorage> {
        Rc::new(self.clone())
    }

    fn watch(&self, listener: StorageListener) {
        self.adapter.listener.replace(Some(listener));
    }

    fn lend(&self, world: Rc<dyn World>) {
        self.adapter.lent.replace(Some(world));
    }

    fn close(&self) {
        self.adapter.close();
    }
}

impl DirectoryStorage for HostStorage {
    fn list(&self, filter: ListFilter) -> LocalFuture<'_, Result<Vec<SessionRecord>>> {
        Box::pin(async move {
            let (mut errors, mut looked) = (Vec::new(), Vec::new());
            'anew: loop {
                let (mut found, mut before) = (Vec::new(), filter.before.clone());
                loop {
                    let wanted = filter.limit - found.len() as u32;
                    if wanted == 0 {
                        return self.in_spite(errors, found);
                    }
                    let (page, is_last) = self
                        .page(SESSION, filter.cwd.as_deref(), wanted, &mut before)
                        .await?;
                    for entry in page {
                        if entry.value != Value::Bool(false) {
                            found.push(entry.record());
                        } else if !looked.contains(&entry.id) {
                            let is_stored = self.find(&entry.session_id).arrives(&entry).await;
                            // Once each, so that this ends also where the list cannot be written.
                            looked.push(entry.id);
                            match is_stored {
                                // It has its place in the list now.
                                Ok(true) => continue 'anew,
                                Ok(false) => {}
                                Err(error) => errors.push(error),
                            }
                        }
                    }
                    if is_last {
                        return self.in_spite(errors, found);
                    }
                }
            }
        })
    }
}

// ---- the list of sessions ----------------------------------------------------------------------------------------

/// The kinds of entries.
const SESSION: &str = "session";
const APPROVAL: &str = "approval";

/// So many entries are asked for at once, at most.
const MOST: u32 = 500;

/// An entry as it is listed.
struct Entry {
    id: String,
    session_id: String,
    cwd: String,
    updated_at: f64,
    value: Value,
}

impl Entry {
    /// What it says of its session.
    fn record(self) -> SessionRecord {
        let record = SessionRecord::from_json(&self.value, "value").unwrap_or_else(|_| SessionRecord {
            created_at: self.updated_at,
            settings: [("damaged".to_owned(), Value::Bool(true))].into(),
            ..SessionRecord::default()
        });
        SessionRecord {
            id: self.session_id,
            cwd: self.cwd,
            updated_at: self.updated_at,
            ..record
        }
    }
}

impl FromJson for Entry {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut entry = Reader::new(value, path);
        let read = Self {
            id: entry.read("id"),
            session_id: entry.read("sessionId"),
            cwd: entry.read("cwd"),
            updated_at: entry.read("updatedAt"),
            value: entry.get("value").cloned().unwrap_or_default(),
        };
        entry.finish(read)
    }
}

// ---- sessions ----------------------------------------------------------------------------------------------------

struct Session {
    me: Weak<Self>,
    adapter: Rc<Adapter>,
    id: String,
    /// The record that was stored when this looked last, or wrote.
    known: RefCell<Option<SessionRecord>>,
}

impl Session {
    fn call(&self, method: &'static str, question: &'static str, arguments: Vec<JsValue>) -> Call<'_> {
        Call {
            part: Part::Session(&self.id),
            method,
            question,
            arguments,
        }
    }

    fn ask(
        &self,
        method: &'static str,
        question: &'static str,
        arguments: Vec<JsValue>,
    ) -> LocalFuture<'_, Result<JsValue>> {
        self.adapter
            .ask(vec![self.call(method, question, arguments)], Stops)
    }

    /// A session as it was answered.
    fn read(&self, answer: &JsValue) -> Result<Option<StoredSession>> {
        if answer.is_undefined() {
            return Ok(None);
        }
        let mut kept = Kept::default();
        let found = field(answer, "record");
        let read = SessionRecord::from_json(&json_of(&found), "record");
        let mut record = kept.record(read, &found)?;
        record.id = self.id.clone();
        for name in items(&field(answer, "unreadable")) {
            let text = format!(
                "the setting `{}` is not as it was stored",
                name.text().unwrap_or_default()
            );
            kept.0.push(Damage::new(keys::SESSIONS, None, text));
            record.settings.insert("damaged".to_owned(), Value::Bool(true));
        }
        let placed = |name| {
            let records = items(&field(answer, name)).into_iter();
            records
                .enumerate()
                .map(|(at, record)| (Some(at as f64), json_of(&record)))
                .listed()
        };
        let packs = items(&field(answer, "outlines")).into_iter().enumerate();
        let packs = packs.map(|(at, pack)| (Some(at as f64), packs::read(&pack)));
        Ok(Some(StoredSession {
            record,
            outlines: kept.outlines(packs.listed()),
            snapshots: kept.list(keys::SNAPSHOTS, placed("snapshots")),
            checkpoints: kept.list(keys::CHECKPOINTS, placed("checkpoints")),
            compactions: kept.list(keys::COMPACTIONS, placed("compactions")),
            damage: kept.0,
        }))
    }

    /// Approvals as they were answered, by request.
    fn asked(&self, answer: &JsValue) -> Result<Vec<StoredApproval<JsValue>>> {
        let mut found = Vec::new();
        for item in items(answer) {
            let approval = StoredApproval {
                session_id: self.id.clone(),
                id: self.adapter.read("load", &field(&item, "id"))?,
                version: self.adapter.read("load", &field(&item, "version"))?,
                body: field(&item, "value"),
            };
            insert_sorted(&mut found, approval, &|a, b| a.id.cmp(&b.id));
        }
        Ok(found)
    }

    /// The approvals that are listed with these entries. Those that are not there leave the list when they are old. What is
    /// found behind that is listed again: it may only just have been stored.
    async fn waiting(&self, mut entries: Vec<Entry>) -> Result<Vec<StoredApproval<JsValue>>> {
        let found = self.asked(&self.ask("load", "approvals", Vec::new()).await?)?;
        entries.retain(|entry| {
            self.adapter.is_old(entry.updated_at)
                && found
                    .iter()
                    .all(|approval| self.entry_of(&approval.id) != entry.id)
        });
        if entries.is_empty() {
            return Ok(found);
        }
        let mut calls = entries.iter().map(|entry| self.removes(&entry.id)).listed();
        calls.push(self.call("load", "approvals", Vec::new()));
        let found = self.asked(&self.adapter.ask(calls, GoesOn).await?)?;
        let _next_time = self.adapter.ask(self.lists_all(&found)?, GoesOn).await;
        Ok(found)
    }

    /// Lists approvals that are stored. When they were asked for is not known here: any time lists one that is not there, and
    /// changes nothing of one that is.
    fn lists_all(&self, found: &[StoredApproval<JsValue>]) -> Result<Vec<Call<'_>>> {
        let mut calls = Vec::new();
        for approval in found {
            calls.push(self.lists(APPROVAL, &self.entry_of(&approval.id), "", 0.0, &JsValue::NULL)?);
        }
        Ok(calls)
    }

    /// The entry of an approval.
    fn entry_of(&self, request: &str) -> String {
        [&self.id, "/", request].concat()
    }

    /// The entry that is put before a session is created, by the operation that creates it. No session and no request has such an id.
    fn in_advance(&self, origin: &str) -> String {
        self.entry_of(&["/", origin].concat())
    }

    fn lists(&self, kind: &str, id: &str, cwd: &str, updated_at: f64, value: &JsValue) -> Result<Call<'_>> {
        let entry = object(&[
            ("kind", kind.into()),
            ("id", id.into()),
            ("sessionId", self.id.as_str().into()),
            ("cwd", cwd.into()),
            ("updatedAt", updated_at.into()),
            ("value", encoded(value)?),
        ]);
        Ok(Call {
            part: Part::Directory,
            method: "put",
            question: "nothing",
            arguments: vec![entry],
        })
    }

    fn removes(&self, entry: &str) -> Call<'_> {
        Call {
            part: Part::Directory,
            method: "remove",
            question: "nothing",
            arguments: vec![entry.into()],
        }
    }

    /// Lists the session as it is stored.
    fn shows(&self, record: &SessionRecord) -> Result<Call<'_>> {
        self.known.replace(Some(record.clone()));
        let value = to_js(&record.listed());
        self.lists(SESSION, &self.id, &record.cwd, record.updated_at, &value)
    }

    /// Lists the approvals that a commit asks for. Once before it, and once behind: meanwhile somebody may have looked, seen
    /// none, and taken the entry away.
    fn announces<'a>(&'a self, commit: &Commit<JsValue>, cwd: &str, calls: &mut Vec<Call<'a>>) -> Result<()> {
        for change in &commit.approvals {
            if change.body.is_some() && change.expected.unwrap_or_default() == 0 {
                let id = self.entry_of(&change.id);
                calls.push(self.lists(APPROVAL, &id, cwd, commit.timestamp, &JsValue::NULL)?);
            }
        }
        Ok(())
    }

    /// What is stored, with the session's entry put as it is; one that is damaged is listed as such. Then the entry that was put
    /// in advance goes, where there is one.
    async fn look(&self, in_advance: Option<&str>) -> Result<Option<Opened<JsValue>>> {
        let answer = self.ask("load", "session", Vec::new()).await?;
        let Some(stored) = self.read(&answer)? else {
            self.known.take();
            return Ok(None);
        };
        if stored.record.is_staged() {
            // What was put in advance is all that leads to it.
            let own = self.in_advance(stored.record.origin());
            self.known.replace(Some(stored.record.clone()));
            if let Some(other) = in_advance.filter(|entry| **entry != own) {
                let _next_time = self.adapter.ask(vec![self.removes(other)], GoesOn).await;
            }
            return Ok(Some((stored, Vec::new())));
        }
        let mut calls = vec![self.shows(&stored.record)?];
        calls.extend(in_advance.map(|entry| self.removes(entry)));
        let _next_time = self.adapter.ask(calls, Stops).await;
        let asked = self.asked(&field(&answer, "approvals"))?;
        Ok(Some((stored, asked)))
    }

    /// What is stored. Where nothing is, the session leaves the list.
    async fn stored(&self) -> Result<Option<Opened<JsValue>>> {
        match self.look(None).await? {
            None => self.leaves(&self.id).await,
            stored => Ok(stored),
        }
    }

    /// Whether the session is stored that an entry was put for in advance. Where it is not, the entry goes when it is old; the
    /// session is looked up again behind that, since it may only just have been stored.
    async fn arrives(&self, entry: &Entry) -> Result<bool> {
        let in_advance = Some(entry.id.as_str()).filter(|id| *id != self.id);
        match self.look(in_advance).await {
            Ok(None) if self.adapter.is_old(entry.updated_at) => self.leaves(&entry.id).await,
            Ok(Some((staged, _))) if staged.record.is_staged() => {
                // Whoever imported it is gone.
                if self.adapter.is_old(entry.updated_at) {
                    self.delete().await?;
                }
                Ok(None)
            }
            found => found,
        }
        .map(|stored| stored.is_some())
    }

    /// Takes an entry that leads to nothing out of the list; then looks again.
    async fn leaves(&self, entry: &str) -> Result<Option<Opened<JsValue>>> {
        let _next_time = self.adapter.ask(vec![self.removes(entry)], GoesOn).await;
        self.look(None).await
    }

    /// Corrects the list after a commit.
    async fn correct(
        &self,
        commit: &Commit<JsValue>,
        record: Option<SessionRecord>,
        in_advance: Option<&str>,
    ) -> Result<()> {
        let record = match record {
            Some(record) => record,
            // Somebody else has changed it too.
            None => match self.load().await? {
                Some(stored) => stored.record,
                None => return Ok(()),
            },
        };
        if record.is_staged() {
            self.known.replace(Some(record));
            return Ok(());
        }
        let mut calls = vec![self.shows(&record)?];
        calls.extend(in_advance.map(|entry| self.removes(entry)));
        let shown = self.adapter.ask(calls, Stops).await.map(drop);
        let mut calls = Vec::new();
        self.announces(commit, &record.cwd, &mut calls)?;
        for change in &commit.approvals {
            if change.body.is_none() {
                calls.push(self.removes(&self.entry_of(&change.id)));
            }
        }
        shown.and(self.adapter.ask(calls, GoesOn).await.map(drop))
    }

    /// What a commit is sent as.
    fn encode(&self, commit: &Commit<JsValue>, next: &SessionRecord) -> Result<JsValue> {
        let mut records = Records(Array::new());
        for message in &commit.messages {
            records.add(keys::MESSAGES, message.index.0, &message.body)?;
        }
        for pack in &commit.outline_packs {
            records.add(keys::OUTLINES, pack.pack, &to_js(&pack.outlines))?;
        }
        records.add_all(keys::SNAPSHOTS, &commit.snapshots)?;
        records.add_all(keys::CHECKPOINTS, &commit.checkpoints)?;
        records.add_all(keys::COMPACTIONS, &commit.compactions)?;
        let approvals = Array::new();
        for change in &commit.approvals {
            let value = match &change.body {
                Some(body) => encoded(body)?,
                None => JsValue::NULL,
            };
            let mut members = vec![("id", change.id.as_str().into()), ("value", value)];
            add_expected(&mut members, change.expected);
            approvals.push(&object(&members));
        }
        let mut members = vec![
            ("sessionId", self.id.as_str().into()),
            ("operationId", commit.operation_id.as_str().into()),
            ("timestamp", next.updated_at.into()),
            ("origin", commit.origin.as_str().into()),
            ("records", list(records.0)),
            ("approvals", list(approvals)),
            ("settings", settings(&commit.settings)?),
        ];
        add_expected(&mut members, commit.expected);
        if let Some(first) = &commit.create {
            let header = object(&[
                ("cwd", first.cwd.as_str().into()),
                ("createdAt", first.created_at.into()),
            ]);
            let created = [
                ("header", encoded(&header)?),
                ("settings", settings(&first.settings)?),
            ];
            members.push(("create", object(&created)));
        }
        if !commit.messages.is_empty() {
            members.push(("messageCount", next.message_count.into()));
        }
        Ok(object(&members))
    }
}

/// The records that a commit brings.
struct Records(Array);

impl Records {
    fn add(&mut self, store: &str, position: u32, value: &JsValue) -> Result<()> {
        self.0.push(&object(&[
            ("store", store.into()),
            ("position", position.into()),
            ("value", encoded(value)?),
        ]));
        Ok(())
    }

    fn add_all(&mut self, store: &str, list: &[(u32, impl Serialize)]) -> Result<()> {
        for (position, record) in list {
            self.add(store, *position, &to_js(record))?;
        }
        Ok(())
    }
}

/// The counter that a change builds on, where it does.
fn add_expected(members: &mut Vec<(&str, JsValue)>, expected: Option<u64>) {
    if let Some(expected) = expected {
        members.push(("expected", (expected as f64).into()));
    }
}

/// Settings one by one. The origin has a place of its own.
fn settings(settings: &BTreeMap<String, Value>) -> Result<JsValue> {
    let mut members = Vec::new();
    for (name, value) in settings {
        if name != ORIGIN {
            members.push((name.as_str(), encoded(&to_js(value))?));
        }
    }
    Ok(object(&members))
}

/// The items of a list of ours.
fn items(list: &JsValue) -> Vec<JsValue> {
    list.dyn_ref::<Array>().map(Array::to_vec).unwrap_or_default()
}

impl SessionStorage<JsValue> for Session {
    fn counters(&self) -> LocalFuture<'_, Result<Option<Standing>>> {
        Box::pin(async move {
            let answer = self.ask("counters", "counters", Vec::new()).await?;
            // An adapter need not say the origin here: it says it with everything else.
            if field(&answer, "origin").is_undefined() {
                return Ok(self.load().await?.map(|stored| stored.record.standing()));
            }
            self.adapter.read("counters", &answer).map(Some)
        })
    }

    fn load(&self) -> LocalFuture<'_, Result<Option<StoredSession>>> {
        Box::pin(async move {
            let stored = self.stored().await?;
            Ok(stored.map(|(stored, _)| stored))
        })
    }

    fn open<'a>(&'a self) -> LocalFuture<'a, Result<Option<Opened<JsValue>>>>
    where
        JsValue: 'a,
    {
        Box::pin(async move {
            let stored = self.stored().await?;
            if let Some((_, asked)) = &stored {
                // An entry may be lost.
                let _next_time = self.adapter.ask(self.lists_all(asked)?, GoesOn).await;
            }
            Ok(stored)
        })
    }

    fn read_messages(&self, from: u32, to: u32) -> LocalFuture<'_, Result<Vec<JsValue>>> {
        Box::pin(async move {
            if from >= to {
                return Ok(Vec::new());
            }
            let page = object(&[("from", from.into()), ("to", to.into())]);
            let found = items(&self.ask("readMessages", "messages", vec![page]).await?);
            if found.len() != (to - from) as usize {
                let what = format!("a message of {from} to {to} is missing");
                return Err(damaged(&self.id, &what));
            }
            Ok(found)
        })
    }

    fn approvals(&self) -> LocalFuture<'_, Result<Vec<StoredApproval<JsValue>>>> {
        Box::pin(async move { self.asked(&self.ask("load", "approvals", Vec::new()).await?) })
    }

    fn commit(&self, commit: Rc<Commit<JsValue>>) -> LocalFuture<'_, Result<CommitStatus>> {
        Box::pin(async move {
            check_session(&self.id, &commit)?;
            let known = self.known.borrow().clone();
            let known = match &commit.create {
                Some(first) => Some(begin(&commit, first)?),
                None if known.is_none() => self.load().await?.map(|stored| stored.record),
                None => known,
            };
            let is_known = known.is_some();
            let mut before = known.unwrap_or_default();
            // Where this is not what the commit builds on, the adapter says what it is. The commit has to be right by itself.
            if let Some(first) = commit.messages.first()
                && commit.expected != Some(before.counters.conversation)
            {
                before.message_count = first.index.0;
            }
            let next = after(&commit, &before)?;

            let mut calls = Vec::new();
            // Whether it is stored is not known yet; who lists it looks. What is staged has this entry until it is shown.
            let is_first = commit.create.is_some();
            let in_advance = (is_first || before.is_staged() && !next.is_staged()).then(|| {
                self.in_advance(if is_first {
                    &commit.operation_id
                } else {
                    &commit.origin
                })
            });
            if let Some(id) = in_advance.as_ref().filter(|_| is_first) {
                let time = next.updated_at.abs();
                calls.push(self.lists(SESSION, id, &next.cwd, time, &JsValue::FALSE)?);
            }
            self.announces(&commit, &next.cwd, &mut calls)?;
            calls.push(self.call("commit", "commit", vec![self.encode(&commit, &next)?]));
            let answer = self.adapter.ask(calls, Stops).await;
            let status = answer.and_then(|answer| self.adapter.read::<CommitStatus>("commit", &answer));
            let record = match status {
                Ok(CommitStatus::Applied(counters)) => {
                    Some(next).filter(|next| is_known && next.counters == counters)
                }
                _ => None,
            };
            let correction: LocalFuture<'static, Result<()>> = match (self.me.upgrade(), &status) {
                (Some(me), Ok(CommitStatus::Applied(_) | CommitStatus::AlreadyApplied(_))) => {
                    Box::pin(async move { me.correct(&commit, record, in_advance.as_deref()).await })
                }
                (Some(me), _) if in_advance.is_some() => {
                    Box::pin(async move { me.look(in_advance.as_deref()).await.map(drop) })
                }
                _ => return status,
            };
            // What is stored is stored, also where the list cannot be written, or never answers.
            self.adapter
                .meanwhile(Box::pin(async move {
                    let _next_time = correction.await;
                }))
                .await;
            status
        })
    }

    fn delete(&self) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            // One that is damaged can be deleted; its entries go when they are looked at.
            let asked = self.approvals().await.unwrap_or_default();
            self.ask("delete", "nothing", Vec::new()).await?;
            let mut gone = asked
                .iter()
                .map(|approval| self.removes(&self.entry_of(&approval.id)))
                .listed();
            if let Some(staged) = self.known.borrow().as_ref().filter(|known| known.is_staged()) {
                gone.push(self.removes(&self.in_advance(staged.origin())));
            }
            let _next_time = self.adapter.ask(gone, GoesOn).await;
            // Somebody may have made another of its name meanwhile.
            let _next_time = self.leaves(&self.id).await;
            Ok(())
        })
    }
}

impl FromJson for CommitStatus {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut answer = Reader::new(value, path);
        let counters = answer.read("counters");
        let known = [
            ("applied", Self::Applied(counters)),
            ("already-applied", Self::AlreadyApplied(counters)),
            ("conflict", Self::Conflict(counters)),
        ];
        let status = answer.get("status").unwrap_or(&Value::Null);
        let status = one_of(status, "answer.status", &known)?;
        answer.finish(status)
    }
}

// ---- what sessions share -----------------------------------------------------------------------------------------

struct Shared(Rc<Adapter>);

impl Shared {
    fn ask(
        &self,
        method: &'static str,
        question: &'static str,
        arguments: Vec<JsValue>,
    ) -> LocalFuture<'_, Result<JsValue>> {
        let call = Call {
            part: Part::Shared,
            method,
            question,
            arguments,
        };
        self.0.ask(vec![call], Failed::Stops)
    }
}

impl SharedStorage for Shared {
    fn policy_version(&self) -> LocalFuture<'_, Result<u64>> {
        Box::pin(async move {
            let answer = self.ask("policyVersion", "version", Vec::new()).await?;
            self.0.read("policyVersion", &field(&answer, "policyVersion"))
        })
    }

    fn get(&self, store: &str, key: &str) -> LocalFuture<'_, Result<Option<Value>>> {
        let known = known_store(store);
        let arguments = vec![store.into(), key.into()];
        Box::pin(async move {
            known?;
            let answer = self.ask("get", "value", arguments).await?;
            Ok((!answer.is_undefined()).then(|| json_of(&answer)))
        })
    }

    fn list(&self, store: &str) -> LocalFuture<'_, Result<Vec<(String, Value)>>> {
        let known = known_store(store);
        let arguments = vec![store.into()];
        Box::pin(async move {
            known?;
            let mut found = Vec::new();
            for item in items(&self.ask("list", "values", arguments).await?) {
                let key: String = self.0.read("list", &field(&item, "key"))?;
                let value = json_of(&field(&item, "value"));
                insert_sorted(&mut found, (key, value), &|(a, _), (b, _)| a.cmp(b));
            }
            Ok(found)
        })
    }

    fn write(
        &self,
        changes: Vec<SharedChange>,
        expected_policy_version: Option<u64>,
    ) -> LocalFuture<'_, Result<SharedWrite>> {
        Box::pin(async move {
            let sent = Array::new();
            for SharedChange { store, key, value } in &changes {
                known_store(store)?;
                let value = match value {
                    Some(value) => encoded(&to_js(value))?,
                    None => JsValue::NULL,
                };
                sent.push(&object(&[
                    ("store", (*store).into()),
                    ("key", key.as_str().into()),
                    ("value", value),
                ]));
            }
            let mut arguments = vec![list(sent)];
            if let Some(version) = expected_policy_version {
                arguments.push((version as f64).into());
            }
            let answer = self.ask("write", "write", arguments).await?;
            let conflict = field(&answer, "conflict");
            if conflict.is_undefined() {
                let version = self.0.read("write", &field(&answer, "policyVersion"))?;
                return Ok(SharedWrite::Applied(version));
            }
            self.0.read("write", &conflict).map(SharedWrite::Conflict)
        })
    }
}
