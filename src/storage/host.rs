//! Sessions in storage that the host supplies.
//!
//! The adapter decides on commits, in its own transaction. Here they are checked and encoded, and the list of sessions and
//! of approvals that wait is kept: an entry is put before the commit that makes it true, so that nothing is stored that no
//! list leads to, and put again or removed after it. A write of the list that fails after a commit fails nothing; whoever
//! opens the session makes up for it.

use std::{
    cell::RefCell,
    rc::{Rc, Weak},
};

use js_sys::Array;
use serde_json::Value;
use wasm_bindgen::{JsCast, JsValue};

use super::{
    Commit, CommitStatus, Counters, DirectoryStorage, ListFilter, LocalFuture, ORIGIN, SessionRecord,
    SessionStorage, SharedChange, SharedStorage, SharedWrite, Storage, StorageInfo, StoredApproval,
    StoredSession,
    apply::{after, begin, check_session},
    check_outlines, damaged, is_damage, keys, known_store,
};
use crate::{
    Result,
    js::{
        plain::{field, json_of, list, object, to_js},
        storage::{Adapter, Part, encoded, memory_storage},
    },
    list::{Listed, TryListed},
    message::{MessageOutline, MessageView},
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
        let session = Rc::new(Session {
            adapter: Rc::clone(&self.adapter),
            id: id.to_owned(),
            known: RefCell::default(),
        });
        sessions.push(Rc::downgrade(&session));
        session
    }
}

impl std::fmt::Debug for HostStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
            let mut entries: Vec<Entry> = Vec::new();
            let mut before = None;
            loop {
                let mut page = page(&self.adapter, APPROVAL, None, MOST, before.as_ref()).await?;
                let last = page.last().map(Entry::position);
                let is_last = page.len() < MOST as usize || last == before;
                before = last;
                entries.append(&mut page);
                if is_last {
                    break;
                }
            }
            let mut ids: Vec<&str> = Vec::new();
            for entry in &entries {
                if !ids.contains(&entry.session_id.as_str()) {
                    insert_sorted(&mut ids, &entry.session_id, &|a, b| a.cmp(b));
                }
            }
            let mut all = Vec::new();
            for id in ids {
                let entries = entries.iter().filter(|entry| entry.session_id == id);
                match self.find(id).waiting(entries.listed()).await {
                    Ok(mut found) => all.append(&mut found),
                    // Whoever opens it hears of it.
                    Err(error) if is_damage(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(all)
        })
    }

    fn directory(&self) -> Rc<dyn DirectoryStorage> {
        Rc::new(self.clone())
    }

    fn close(&self) {
        self.adapter.close();
    }
}

// ---- sessions ----------------------------------------------------------------------------------------------------

struct Session {
    adapter: Rc<Adapter>,
    id: String,
    /// The record that was stored when this looked last, or wrote.
    known: RefCell<Option<SessionRecord>>,
}

impl Session {
    async fn ask(&self, method: &str, question: &str, arguments: Vec<JsValue>) -> Result<JsValue> {
        let part = Part::Session(&self.id);
        self.adapter.ask(part, method, question, arguments).await
    }

    /// The session as it is stored.
    async fn read(&self) -> Result<Option<StoredSession>> {
        let answer = self.ask("load", "session", Vec::new()).await?;
        if answer.is_undefined() {
            return Ok(None);
        }
        let answer = json_of(&answer);
        let mut shape = Reader::new(&answer, "answer");
        let mut record = SessionRecord {
            id: self.id.clone(),
            updated_at: shape.read("updatedAt"),
            message_count: shape.read("messageCount"),
            counters: shape.read("counters"),
            ..SessionRecord::default()
        };
        let origin: String = shape.read("origin");
        let shape = shape.finish(());
        shape.map_err(|error| self.adapter.malformed("load", error.message()))?;
        record.settings.insert(ORIGIN.to_owned(), Value::from(origin));
        self.values(&answer, record)
            .map_err(|error| match is_damage(&error) {
                true => error,
                false => damaged(&self.id, &format!("a record cannot be read ({error})")),
            })
            .map(Some)
    }

    /// The same, with what is encoded in it.
    fn values(&self, answer: &Value, mut record: SessionRecord) -> Result<StoredSession> {
        let mut stored = Reader::new(answer, "session");
        let mut header = Reader::new(stored.get("header").unwrap_or(&Value::Null), "header");
        record.cwd = header.read("cwd");
        record.created_at = header.read("createdAt");
        header.finish(())?;
        for (name, value) in stored
            .get("settings")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            record.settings.insert(name.clone(), value.clone());
        }
        let packs: Vec<Vec<MessageOutline>> = stored.read("outlines");
        let mut outlines = Vec::new();
        for mut pack in packs {
            outlines.append(&mut pack);
        }
        let (snapshots, checkpoints) = (stored.read("snapshots"), stored.read("checkpoints"));
        let compactions = stored.read("compactions");
        stored.finish(())?;
        check_outlines(&record, &outlines)?;
        Ok(StoredSession {
            record,
            outlines,
            snapshots,
            checkpoints,
            compactions,
        })
    }

    async fn asked(&self) -> Result<Vec<StoredApproval<JsValue>>> {
        let answer = self.ask("load", "approvals", Vec::new()).await?;
        let mut found = Vec::new();
        for item in items(&answer) {
            let json = json_of(&item);
            let mut read = Reader::new(&json, "approval");
            let (id, version) = (read.read("id"), read.read("version"));
            let read = read.finish(());
            read.map_err(|error| self.adapter.malformed("load", error.message()))?;
            let approval = StoredApproval {
                session_id: self.id.clone(),
                id,
                version,
                body: field(&item, "value"),
            };
            insert_sorted(&mut found, approval, &|a, b| a.id.cmp(&b.id));
        }
        Ok(found)
    }

    /// The approvals that are listed with these entries. Those that are not there leave the list, and come back where they
    /// were only just asked for: who asks puts the entry again when it is stored.
    async fn waiting(&self, entries: Vec<&Entry>) -> Result<Vec<StoredApproval<JsValue>>> {
        let mut found = self.asked().await?;
        let is_there = |found: &[StoredApproval<JsValue>], entry: &Entry| {
            found.iter().any(|it| self.entry_id(&it.id) == entry.id)
        };
        let gone = entries
            .into_iter()
            .filter(|entry| !is_there(&found, entry))
            .listed();
        for entry in &gone {
            let _next_time = self.remove(&entry.id).await;
        }
        if !gone.is_empty() {
            found = self.asked().await?;
        }
        for entry in gone {
            if is_there(&found, entry) {
                let _next_time = self
                    .put(APPROVAL, &entry.id, &entry.cwd, entry.updated_at, &JsValue::NULL)
                    .await;
            }
        }
        Ok(found)
    }

    // ---- the list ----------------------------------------------------------------------------------------------

    /// The entry of an approval.
    fn entry_id(&self, request: &str) -> String {
        format!("{}/{request}", self.id)
    }

    async fn put(&self, kind: &str, id: &str, cwd: &str, updated_at: f64, value: &JsValue) -> Result<()> {
        let entry = object(&[
            ("kind", kind.into()),
            ("id", id.into()),
            ("sessionId", self.id.as_str().into()),
            ("cwd", cwd.into()),
            ("updatedAt", updated_at.into()),
            ("value", encoded(value)?),
        ]);
        let put = self.adapter.ask(Part::Directory, "put", "nothing", vec![entry]);
        put.await.map(drop)
    }

    async fn remove(&self, id: &str) -> Result<()> {
        let remove = self
            .adapter
            .ask(Part::Directory, "remove", "nothing", vec![id.into()]);
        remove.await.map(drop)
    }

    /// The session is listed as it is stored.
    async fn show(&self, record: &SessionRecord) {
        self.known.replace(Some(record.clone()));
        let value = to_js(&record.listed());
        let _next_time = self
            .put(SESSION, &self.id, &record.cwd, record.updated_at, &value)
            .await;
    }

    /// Sets the list right where it may lead to nothing. The session is looked up last: one that appears meanwhile is put
    /// by whoever made it.
    async fn settle(&self) -> Result<Option<StoredSession>> {
        self.known.take();
        let _next_time = self.remove(&self.id).await;
        let stored = self.read().await?;
        if let Some(stored) = &stored {
            self.show(&stored.record).await;
        }
        Ok(stored)
    }

    /// Lists the approvals that a commit asks for. Once before it, and once behind: meanwhile somebody may have looked, seen
    /// none, and taken the entry away.
    async fn announce(&self, commit: &Commit<JsValue>, cwd: &str) -> Result<()> {
        for change in &commit.approvals {
            if change.body.is_some() && change.expected.unwrap_or_default() == 0 {
                let id = self.entry_id(&change.id);
                self.put(APPROVAL, &id, cwd, commit.timestamp, &JsValue::NULL)
                    .await?;
            }
        }
        Ok(())
    }

    /// Corrects the list after a commit. Where somebody else has changed the session too, its record has to be read.
    async fn correct(&self, commit: &Commit<JsValue>, record: Option<SessionRecord>) {
        match record {
            Some(record) => self.show(&record).await,
            None => drop(self.load().await),
        }
        let cwd = self.known.borrow().as_ref().map(|record| record.cwd.clone());
        let _next_time = self.announce(commit, &cwd.unwrap_or_default()).await;
        for change in &commit.approvals {
            if change.body.is_none() {
                let _next_time = self.remove(&self.entry_id(&change.id)).await;
            }
        }
    }

    /// What a commit is sent as.
    fn encode(&self, commit: &Commit<JsValue>, message_count: u32) -> Result<JsValue> {
        let records = Array::new();
        let add = |store: &str, position: u32, value: &JsValue| {
            records.push(&object(&[
                ("store", store.into()),
                ("position", position.into()),
                ("value", encoded(value)?),
            ]));
            Ok(())
        };
        for message in &commit.messages {
            add(keys::MESSAGES, message.index.0, &message.body)?;
        }
        for pack in &commit.outline_packs {
            add(keys::OUTLINES, pack.pack, &to_js(&pack.outlines))?;
        }
        for (position, record) in &commit.snapshots {
            add(keys::SNAPSHOTS, *position, &to_js(record))?;
        }
        for (position, record) in &commit.checkpoints {
            add(keys::CHECKPOINTS, *position, &to_js(record))?;
        }
        for (position, record) in &commit.compactions {
            add(keys::COMPACTIONS, *position, &to_js(record))?;
        }
        let approval = |change: &super::ApprovalChange<JsValue>| {
            let value = match &change.body {
                Some(body) => encoded(body)?,
                None => JsValue::NULL,
            };
            let mut members = vec![("id", change.id.as_str().into()), ("value", value)];
            if let Some(expected) = change.expected {
                members.push(("expected", (expected as f64).into()));
            }
            Ok(object(&members))
        };
        let mut members = vec![
            ("sessionId", self.id.as_str().into()),
            ("operationId", commit.operation_id.as_str().into()),
            ("timestamp", commit.timestamp.into()),
            ("origin", commit.origin.as_str().into()),
            ("records", list(records)),
            (
                "approvals",
                list(commit.approvals.iter().map(approval).try_listed()?),
            ),
            ("settings", settings(&commit.settings)?),
        ];
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
        if let Some(expected) = commit.expected {
            members.push(("expected", (expected as f64).into()));
        }
        if !commit.messages.is_empty() {
            members.push(("messageCount", message_count.into()));
        }
        Ok(object(&members))
    }

    /// The record that a commit builds on, as far as it is known here.
    fn before(&self, commit: &Commit<JsValue>) -> Result<Option<SessionRecord>> {
        match &commit.create {
            Some(first) => begin(commit, first).map(Some),
            None => Ok(self.known.borrow().clone()),
        }
    }
}

/// Settings one by one. The origin has a place of its own.
fn settings(settings: &std::collections::BTreeMap<String, Value>) -> Result<JsValue> {
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
    fn counters(&self) -> LocalFuture<'_, Result<Option<Counters>>> {
        Box::pin(async move {
            let answer = self.ask("counters", "counters", Vec::new()).await?;
            if answer.is_undefined() {
                return Ok(self.settle().await?.map(|stored| stored.record.counters));
            }
            self.adapter.read("counters", &answer).map(Some)
        })
    }

    fn load(&self) -> LocalFuture<'_, Result<Option<StoredSession>>> {
        Box::pin(async move {
            let Some(stored) = self.read().await? else {
                return self.settle().await;
            };
            self.show(&stored.record).await;
            Ok(Some(stored))
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
        Box::pin(self.asked())
    }

    fn commit(&self, commit: Rc<Commit<JsValue>>) -> LocalFuture<'_, Result<CommitStatus>> {
        Box::pin(async move {
            check_session(&self.id, &commit)?;
            let mut before = self.before(&commit)?;
            if before.is_none() {
                self.load().await?;
                before = self.before(&commit)?;
            }
            let is_known = before.is_some();
            let mut before = before.unwrap_or_default();
            // Where this is not what the commit builds on, the adapter says what it is. The commit has to be right by itself.
            if let Some(first) = commit.messages.first()
                && commit.expected != Some(before.counters.conversation)
            {
                before.message_count = first.index.0;
            }
            let next = after(&commit, &before)?;
            let sent = self.encode(&commit, next.message_count)?;

            if commit.create.is_some() {
                // Whether it is stored is not known yet; who lists it looks.
                self.put(SESSION, &self.id, &next.cwd, next.updated_at, &JsValue::FALSE)
                    .await?;
            }
            self.announce(&commit, &next.cwd).await?;
            let answer = self.ask("commit", "commit", vec![sent]).await;
            let status = answer.and_then(|answer| self.adapter.read::<CommitStatus>("commit", &answer));
            match status {
                Ok(CommitStatus::Applied(counters)) => {
                    let next = Some(next).filter(|next| is_known && next.counters == counters);
                    self.correct(&commit, next).await;
                }
                Ok(CommitStatus::AlreadyApplied(_)) => self.correct(&commit, None).await,
                Ok(CommitStatus::Conflict(_)) | Err(_) if commit.create.is_some() => {
                    drop(self.settle().await)
                }
                Ok(CommitStatus::Conflict(_)) | Err(_) => {}
            }
            status
        })
    }

    fn delete(&self) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            // One that is damaged can be deleted; its entries go when they are looked at.
            let asked = self.asked().await.unwrap_or_default();
            self.ask("delete", "nothing", Vec::new()).await?;
            self.known.take();
            let _next_time = self.remove(&self.id).await;
            for approval in asked {
                let _next_time = self.remove(&self.entry_id(&approval.id)).await;
            }
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

impl SharedStorage for Shared {
    fn policy_version(&self) -> LocalFuture<'_, Result<u64>> {
        Box::pin(async move {
            let method = "policyVersion";
            let answer = self.0.ask(Part::Shared, method, "version", Vec::new()).await?;
            self.0.read(method, &field(&answer, method))
        })
    }

    fn get(&self, store: &str, key: &str) -> LocalFuture<'_, Result<Option<Value>>> {
        let known = known_store(store);
        let arguments = vec![store.into(), key.into()];
        Box::pin(async move {
            known?;
            let answer = self.0.ask(Part::Shared, "get", "value", arguments).await?;
            Ok((!answer.is_undefined()).then(|| json_of(&answer)))
        })
    }

    fn list(&self, store: &str) -> LocalFuture<'_, Result<Vec<(String, Value)>>> {
        let known = known_store(store);
        let arguments = vec![store.into()];
        Box::pin(async move {
            known?;
            let answer = self.0.ask(Part::Shared, "list", "values", arguments).await?;
            let mut found = Vec::new();
            for item in items(&answer) {
                let key = self.0.read("list", &field(&item, "key"))?;
                let value = json_of(&field(&item, "value"));
                insert_sorted(&mut found, (key, value), &|(a, _): &(String, _), (b, _)| a.cmp(b));
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
            let mut sent = Vec::new();
            for SharedChange { store, key, value } in &changes {
                known_store(store)?;
                let value = match value {
                    Some(value) => encoded(&to_js(value))?,
                    None => JsValue::NULL,
                };
                sent.push(object(&[
                    ("store", (*store).into()),
                    ("key", key.as_str().into()),
                    ("value", value),
                ]));
            }
            let expected =
                expected_policy_version.map_or(JsValue::UNDEFINED, |version| (version as f64).into());
            let arguments = vec![list(sent), expected];
            let answer = self.0.ask(Part::Shared, "write", "write", arguments).await?;
            match field(&answer, "conflict") {
                version if version.is_undefined() => {
                    let version = self.0.read("write", &field(&answer, "policyVersion"))?;
                    Ok(SharedWrite::Applied(version))
                }
                version => self.0.read("write", &version).map(SharedWrite::Conflict),
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

impl Entry {
    fn position(&self) -> (f64, String) {
        (self.updated_at, self.id.clone())
    }
}

/// A page of the list.
async fn page(
    adapter: &Adapter,
    kind: &str,
    cwd: Option<&str>,
    limit: u32,
    before: Option<&(f64, String)>,
) -> Result<Vec<Entry>> {
    let mut members = vec![("kind", kind.into()), ("limit", limit.into())];
    if let Some(cwd) = cwd {
        members.push(("cwd", cwd.into()));
    }
    if let Some((updated_at, id)) = before {
        let time = JsValue::from_f64(*updated_at).number_text();
        members.push(("before", [&time, ":", id].concat().into()));
    }
    let filter = vec![object(&members)];
    let answer = adapter.ask(Part::Directory, "list", "entries", filter).await?;
    let mut found: Vec<Entry> = adapter.read("list", &answer)?;
    found.truncate(limit as usize);
    Ok(found)
}

impl DirectoryStorage for HostStorage {
    fn list(&self, filter: ListFilter) -> LocalFuture<'_, Result<Vec<SessionRecord>>> {
        Box::pin(async move {
            let mut found = Vec::new();
            let mut before = filter.before;
            loop {
                let wanted = filter.limit - found.len() as u32;
                if wanted == 0 {
                    return Ok(found);
                }
                let page = page(
                    &self.adapter,
                    SESSION,
                    filter.cwd.as_deref(),
                    wanted,
                    before.as_ref(),
                )
                .await?;
                let last = page.last().map(Entry::position);
                let is_last = page.len() < wanted as usize || last == before;
                before = last;
                for entry in page {
                    found.extend(self.record(entry).await);
                }
                if is_last {
                    return Ok(found);
                }
            }
        })
    }
}

impl HostStorage {
    /// The record of an entry; none where the session was never stored, as far as one can see. It may be stored in the next
    /// moment, so that its entry stays.
    async fn record(&self, entry: Entry) -> Option<SessionRecord> {
        let record = if entry.value == Value::Bool(false) {
            let session = self.find(&entry.session_id);
            let counters = session.ask("counters", "counters", Vec::new()).await.ok()?;
            if counters.is_undefined() {
                return None;
            }
            session.settle().await.ok()??.record
        } else {
            SessionRecord::from_json(&entry.value, "value").unwrap_or_else(|_| SessionRecord {
                created_at: entry.updated_at,
                settings: [("damaged".to_owned(), Value::Bool(true))].into(),
                ..SessionRecord::default()
            })
        };
        Some(SessionRecord {
            id: entry.session_id,
            cwd: entry.cwd,
            updated_at: entry.updated_at,
            ..record
        })
    }
}
