//! Skills of a runtime: what people added is in storage, the rest comes from sources of the host. All of it is listed here, and read
//! when it is chosen.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::Rc,
    task::Poll,
};

use serde_json::Value;

use super::{Listener, Runtime, RuntimeEvent, Signal, World, signal::OneAtATime};
use crate::{
    Error, ErrorCode, Result,
    context::LoadedSkill,
    list::Listed,
    message::MessageData,
    permissions::{Access, ToolPolicy, definition_digest},
    session::{ToolCall, ToolDeclaration},
    skills::{
        Catalog, LOAD_SKILL, SkillEntry, check_scope, hidden, named, not_loaded, render_skills,
        skills_section, unavailable,
    },
    storage::{LocalFuture, SharedChange, SharedStorage, keys},
    untyped::{self, FromJson, Reader, to_object},
};

/// How skills are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillOptions {
    /// At most so many tokens of the system prompt list skills; with too few no skill is offered to the model.
    pub token_cap: u32,
    /// Scopes from the strongest to the weakest, where not the usual order.
    pub scope_order: Option<Vec<String>>,
}

impl Default for SkillOptions {
    fn default() -> Self {
        Self {
            token_cap: 2_000,
            scope_order: None,
        }
    }
}

impl FromJson for SkillOptions {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut options = Reader::new(value, path);
        let token_cap = options.optional_integer("tokenCap", 0);
        let scope_order: Option<Vec<String>> = options.read("scopeOrder");
        for scope in scope_order.iter().flatten() {
            options.taken(check_scope(scope));
        }
        let read = Self {
            token_cap: token_cap.unwrap_or(Self::default().token_cap),
            scope_order,
        };
        options.finish(read)
    }
}

/// A file of a skill. Errors are the host's own texts.
pub trait SkillFile {
    /// Its bytes, as they are now.
    fn read(&self) -> LocalFuture<'_, std::result::Result<Vec<u8>, String>>;
}

/// A host's place where skills are. Errors are its own texts.
pub trait SkillSource {
    /// The files that are there now, with where they are, as shown to the model.
    fn list(&self) -> LocalFuture<'_, std::result::Result<Vec<ListedFile>, String>>;
}

/// A file, and where it is.
pub type ListedFile = (String, Rc<dyn SkillFile>);

/// How far the reading of sources is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Files that were read.
    pub read: u32,
    /// Files that are listed, as far as that is known.
    pub files: u32,
}

/// How the catalogue is read anew.
#[derive(Clone, Default)]
pub struct Refreshing {
    /// Stops it; then nothing has changed.
    pub abort: Signal,
    /// Hears how far it is.
    pub progress: Option<Listener<Progress>>,
}

impl std::fmt::Debug for Refreshing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refreshing")
            .field("abort", &self.abort)
            .finish_non_exhaustive()
    }
}

/// A source, and what it listed last.
struct Source {
    scope: String,
    host: Rc<dyn SkillSource>,
    files: RefCell<Vec<ListedFile>>,
    /// The number of the reading that is shown: one that began earlier and ends later is not.
    shown: Cell<u64>,
}

/// What a source listed, with what could be read of each file.
struct Reading {
    files: Vec<ListedFile>,
    entries: Vec<Option<SkillEntry>>,
}

/// The skills of a runtime.
pub(super) struct Skills {
    pub(super) catalog: RefCell<Catalog>,
    token_cap: u32,
    sources: RefCell<Vec<Rc<Source>>>,
    /// Whoever writes, or reads what is stored, does so alone: the catalogue shows what was written last.
    storing: OneAtATime,
    readings: Cell<u64>,
}

impl Skills {
    pub(super) fn new(options: SkillOptions, stored: Stored, world: Rc<dyn World>) -> Self {
        let mut catalog = options.scope_order.map(Catalog::new).unwrap_or_default();
        stored.show(&mut catalog);
        Self {
            catalog: RefCell::new(catalog),
            token_cap: options.token_cap,
            sources: RefCell::default(),
            storing: OneAtATime::new(world),
            readings: Cell::new(0),
        }
    }

    /// The section `<skills>` as it stands.
    pub(super) fn section(&self) -> String {
        skills_section(&self.catalog.borrow(), self.token_cap)
    }
}

/// What storage keeps of skills.
pub(super) struct Stored {
    entries: Vec<SkillEntry>,
    off: Vec<String>,
}

impl Stored {
    /// Reads the records. One that cannot be read is listed as a skill that is not valid: all others stay usable.
    pub(super) fn read(records: &[(String, Value)]) -> Self {
        let mut stored = Self {
            entries: Vec::new(),
            off: Vec::new(),
        };
        for (key, value) in records {
            match key.split_once(':').unwrap_or(("unknown", key)) {
                ("", id) => stored.off.push(id.to_owned()),
                (scope, location) => {
                    let entry = content_of(value)
                        .and_then(|content| SkillEntry::from_bytes(scope, location, content.as_bytes()));
                    let damaged = |_| SkillEntry::unreadable(key.clone(), scope, location);
                    stored.entries.push(entry.unwrap_or_else(damaged));
                }
            }
        }
        stored
    }

    fn show(self, catalog: &mut Catalog) {
        catalog.set_off(self.off);
        catalog.set_origin(0, self.entries);
    }
}

/// The text of a stored skill. Its scope and location are its key, and stand beside the text for whoever reads the record.
fn content_of(record: &Value) -> Result<String> {
    let record = untyped::object(record, "skill")?;
    for name in ["scope", "location"] {
        untyped::member::<String>(record, "skill", name)?;
    }
    untyped::member(record, "skill", "content")
}

/// The file of a skill that was added.
struct StoredFile {
    storage: Rc<dyn SharedStorage>,
    id: String,
}

impl SkillFile for StoredFile {
    fn read(&self) -> LocalFuture<'_, std::result::Result<Vec<u8>, String>> {
        Box::pin(async move {
            let record = self.storage.get(keys::SKILLS, &self.id).await;
            let content = record.and_then(|record| match record {
                Some(record) => content_of(&record),
                None => Err(Error::invalid("it is not stored any more; refresh the catalogue")),
            });
            content.map(String::into_bytes).map_err(|error| error.to_string())
        })
    }
}

/// The key of the record which says that a skill is switched off. No scope is empty, so that it is no skill's own key.
fn off_key(id: &str) -> String {
    format!(":{id}")
}

/// What somebody wants changed of what is stored.
#[derive(Clone, Debug, PartialEq)]
pub enum SkillChange {
    /// A skill, with the text of its file, in place of one that was added with its id.
    Add(SkillEntry, String),
    /// A skill that was added goes.
    Remove(String),
    /// A skill is switched on or off, wherever it comes from.
    Enable(String, bool),
}

impl SkillChange {
    /// The records that change.
    fn records(&self, catalog: &Catalog) -> Result<Vec<SharedChange>> {
        let record = |key: String, value| SharedChange {
            store: keys::SKILLS,
            key,
            value,
        };
        match self {
            Self::Add(entry, content) => {
                entry.require_usable()?;
                let value = to_object(&[
                    ("scope", &entry.scope),
                    ("location", &entry.location),
                    ("content", content),
                ]);
                Ok(vec![record(entry.id.clone(), Some(value))])
            }
            Self::Remove(id) if catalog.find(id)?.0 > 0 => {
                let text = format!(
                    "skill `{id}` comes from a source; take it away there, or switch it off with `setEnabled`"
                );
                Err(Error::invalid(text).with("id", id.as_str()))
            }
            Self::Remove(id) => {
                let mut records = vec![record(id.clone(), None)];
                // What a source lists with this id stays off.
                if !catalog.is_of_source(id) {
                    records.push(record(off_key(id), None));
                }
                Ok(records)
            }
            Self::Enable(id, enabled) => {
                catalog.find(id)?;
                let off = (!enabled).then(|| to_object(&[("enabled", &false)]));
                Ok(vec![record(off_key(id), off)])
            }
        }
    }
}

impl<M: MessageData + 'static> Runtime<M> {
    /// The skills to choose from, in catalogue order.
    pub fn skills(&self) -> Vec<SkillEntry> {
        self.skills.catalog.borrow().list().into_iter().cloned().listed()
    }

    /// Adds a skill, or replaces the one that was added with the same scope and location; it is kept in storage.
    ///
    /// # Errors
    /// `skill_invalid` where the file is no skill, and those of the storage.
    pub async fn add_skill(&self, content: &str, location: &str, scope: &str) -> Result<SkillEntry> {
        let entry = SkillEntry::new(scope, location, content)?;
        let id = entry.id.clone();
        self.change_skills(SkillChange::Add(entry, content.to_owned()))
            .await?;
        let catalog = self.skills.catalog.borrow();
        catalog.find(&id).map(|(_, entry)| entry.clone())
    }

    /// Removes a skill that was added. What was said with it stays.
    ///
    /// # Errors
    /// `not_found`; `invalid_argument` for one that a source lists; those of the storage.
    pub async fn remove_skill(&self, id: &str) -> Result<()> {
        self.change_skills(SkillChange::Remove(id.to_owned()))
            .await
            .map(drop)
    }

    /// Switches a skill on or off, wherever it comes from; that is kept in storage.
    ///
    /// # Errors
    /// `not_found`, and those of the storage.
    pub async fn set_skill_enabled(&self, id: &str, enabled: bool) -> Result<()> {
        let change = SkillChange::Enable(id.to_owned(), enabled);
        self.change_skills(change).await.map(drop)
    }

    /// Changes what is stored of skills. Gives the entry of a skill that was added.
    ///
    /// # Errors
    /// As [`Runtime::add_skill`], [`Runtime::remove_skill`] and [`Runtime::set_skill_enabled`].
    pub async fn change_skills(&self, change: SkillChange) -> Result<Option<SkillEntry>> {
        self.check_open()?;
        let alone = self.skills.storing.turn().await;
        let records = change.records(&self.skills.catalog.borrow())?;
        self.parts.storage.shared().write(records, None).await?;
        let entry = {
            let catalog = &mut self.skills.catalog.borrow_mut();
            match change {
                SkillChange::Add(entry, _) => {
                    let id = entry.id.clone();
                    catalog.add(entry);
                    catalog.get(&id).cloned()
                }
                SkillChange::Remove(id) => {
                    catalog.remove(&id);
                    None
                }
                SkillChange::Enable(id, enabled) => {
                    catalog.set_enabled(&id, enabled)?;
                    None
                }
            }
        };
        drop(alone);
        self.listeners.emit(&RuntimeEvent::SkillsChanged);
        Ok(entry)
    }

    /// Lists the skills of a source from now on.
    ///
    /// # Errors
    /// `invalid_argument` for a bad scope; `host_failed` where the source cannot be listed; `aborted`. The source is not added then.
    pub async fn add_skill_source(
        &self,
        scope: &str,
        host: Rc<dyn SkillSource>,
        refreshing: &Refreshing,
    ) -> Result<()> {
        self.read_skills(Some((scope, host)), refreshing).await
    }

    /// Lists everything anew: what is stored, and every source. Where a source cannot be listed, what it listed before stays; a
    /// file that cannot be read says so in its diagnostics.
    ///
    /// # Errors
    /// `host_failed`, with the `scopes` of the sources that could not be listed; the others are shown. `aborted`, and those of the
    /// storage; then nothing has changed.
    pub async fn refresh_skills(&self, refreshing: &Refreshing) -> Result<()> {
        self.read_skills(None, refreshing).await
    }

    /// Reads a source that is new, or everything.
    pub(crate) async fn read_skills(
        &self,
        new: Option<(&str, Rc<dyn SkillSource>)>,
        refreshing: &Refreshing,
    ) -> Result<()> {
        self.check_open()?;
        let number = self.skills.readings.get() + 1;
        self.skills.readings.set(number);
        let new = new.map(|(scope, host)| Source::new(scope, host)).transpose()?;
        let sources = match &new {
            Some(new) => vec![new.clone()],
            None => self.skills.sources.borrow().clone(),
        };
        let read = refreshing
            .abort
            .unless_fired(read_all(&sources, refreshing))
            .await;
        let read = read.ok_or_else(|| {
            let text = "reading the skills was stopped; the catalogue is as it was";
            Error::new(ErrorCode::Aborted, text)
        });
        let (readings, failure) = read?;
        let before = self.skills();
        let alone = self.skills.storing.turn().await;
        let stored = match new {
            Some(_) => None,
            None => Some(self.parts.storage.shared().list(keys::SKILLS).await?),
        };
        self.check_open()?;
        {
            let catalog = &mut *self.skills.catalog.borrow_mut();
            if let Some(records) = stored {
                Stored::read(&records).show(catalog);
            }
            let mut shown = self.skills.sources.borrow_mut();
            if failure.is_none() {
                shown.extend(new);
            }
            for (source, reading) in sources.iter().zip(readings) {
                let origin = shown.iter().position(|other| Rc::ptr_eq(other, source));
                if let (Some(at), Some(reading)) = (origin, reading)
                    && source.shown.replace(number.max(source.shown.get())) < number
                {
                    source.show(at + 1, reading, catalog);
                }
            }
        }
        drop(alone);
        if self.skills() != before {
            self.listeners.emit(&RuntimeEvent::SkillsChanged);
        }
        failure.map_or(Ok(()), Err)
    }

    /// Reads what a person chose, as it is now, by these ids or by mentions. Also gives the names of mentions that mean nothing any
    /// more: what they named is switched off, hidden from the person, or has another name now.
    ///
    /// # Errors
    /// `skill_unavailable`, with the `id` and the `reason`: `disabled`, `unreadable` or `invalid`; those of the storage.
    pub(super) async fn open_chosen(
        &self,
        chosen: &[SkillEntry],
        by_id: &[String],
    ) -> Result<(Vec<LoadedSkill>, Vec<String>)> {
        let (mut opened, mut skills, mut meaningless) = (Vec::new(), Vec::new(), Vec::new());
        let off = |entry: &SkillEntry, error: &Error| {
            !by_id.contains(&entry.id) && error.data().get("reason").is_some_and(|why| why == "disabled")
        };
        for entry in chosen {
            match self.open_skill(entry).await {
                Ok(read) => opened.push((entry, read)),
                Err(error) if off(entry, &error) => meaningless.push(entry.name.clone()),
                Err(error) => return Err(error),
            }
        }
        // Reading takes its time.
        for (entry, read) in opened {
            match self.check_still_there(&read).await {
                Err(error) if off(entry, &error) => meaningless.push(entry.name.clone()),
                Err(error) => return Err(error),
                Ok(()) if by_id.contains(&entry.id) || read.is_called(&entry.name) => {
                    skills.push(read.entry.load(read.content));
                }
                Ok(()) => meaningless.push(entry.name.clone()),
            }
        }
        Ok((skills, meaningless))
    }

    /// Reads a skill that is switched on, as its file is now.
    async fn open_skill(&self, chosen: &SkillEntry) -> Result<Opened> {
        let id = chosen.id.as_str();
        let (origin, file) = self.file_of(chosen).ok_or_else(|| not_listed(id))?;
        self.check_on(id).await?;
        let bytes = file.read().await;
        let bytes = bytes.map_err(|why| unavailable(id, "unreadable", &format!("cannot be read: {why}")))?;
        let entry = SkillEntry::from_bytes(&chosen.scope, &chosen.location, &bytes)?;
        if let Err(error) = entry.require_usable() {
            let why = "is no skill any more; see its diagnostics";
            let diagnostics = error.data().get("diagnostics").cloned();
            return Err(unavailable(id, "invalid", why).with("diagnostics", diagnostics.unwrap_or_default()));
        }
        let content = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Opened {
            origin,
            entry,
            content,
        })
    }

    /// Refuses a skill that is switched off in storage: another page may have done that, which the catalogue does not know.
    async fn check_on(&self, id: &str) -> Result<()> {
        let off = self
            .parts
            .storage
            .shared()
            .get(keys::SKILLS, &off_key(id))
            .await?;
        match off {
            None => Ok(()),
            Some(_) => Err(unavailable(
                id,
                "disabled",
                "is disabled; enable it, or choose another",
            )),
        }
    }

    /// Refuses what was switched off or taken away while it was read.
    async fn check_still_there(&self, read: &Opened) -> Result<()> {
        let id = read.entry.id.as_str();
        self.check_on(id).await?;
        let stored = read.origin > 0 || self.parts.storage.shared().get(keys::SKILLS, id).await?.is_some();
        let catalog = self.skills.catalog.borrow();
        match catalog.find(id) {
            Ok((origin, _)) if origin == read.origin && stored => Ok(()),
            _ => Err(not_listed(id)),
        }
    }

    /// Where a skill is read from.
    fn file_of(&self, skill: &SkillEntry) -> Option<(usize, Rc<dyn SkillFile>)> {
        let catalog = self.skills.catalog.borrow();
        let (origin, _) = catalog.find(&skill.id).ok()?;
        let Some(at) = origin.checked_sub(1) else {
            let stored = StoredFile {
                storage: self.parts.storage.shared(),
                id: skill.id.clone(),
            };
            return Some((origin, Rc::new(stored)));
        };
        let sources = self.skills.sources.borrow();
        let files = sources.get(at)?.files.borrow();
        let mut found = files.iter().filter(|(location, _)| *location == skill.location);
        found.next().map(|(_, file)| (origin, file.clone()))
    }

    /// What the model gets to read when it loads a skill by its name in `<skills>`: the same block that a person's choice shows.
    ///
    /// # Errors
    /// `disposed`; `invalid_argument` and `skill_unavailable`. Their messages are for the model; why a file cannot be read is the
    /// `detail` in the data, for a person.
    pub async fn load_skill(&self, name: Option<&str>) -> Result<String> {
        self.check_open()?;
        let Some(name) = name else {
            return Err(Error::invalid(
                "`load_skill` needs `name`: the name of a skill as it stands in `<skills>`",
            ));
        };
        let chosen = named(&self.skills.catalog.borrow(), name)?.clone();
        let read = match self.open_skill(&chosen).await {
            Ok(read) => self.check_still_there(&read).await.map(|()| read),
            failed => failed,
        };
        let Opened { entry, content, .. } = read.map_err(|error| not_loaded(name, &error))?;
        if !entry.model_invocable {
            return Err(hidden(name));
        }
        Ok(render_skills(&[entry.load(content)]).content)
    }

    /// The result of a call of `load_skill`.
    pub(super) async fn run_load_skill(&self, call: &ToolCall<M>) -> Result<M> {
        let name = call.arguments.field_text("name");
        self.load_skill(name.as_deref())
            .await
            .map(|text| M::string(&text))
    }
}

/// A skill as it was read.
struct Opened {
    origin: usize,
    entry: SkillEntry,
    content: String,
}

impl Opened {
    /// Whether a person who mentions this name means it.
    fn is_called(&self, name: &str) -> bool {
        self.entry.user_invocable && self.entry.name == name
    }
}

fn not_listed(id: &str) -> Error {
    let why = "cannot be read: it is not listed any more; refresh the catalogue";
    unavailable(id, "unreadable", why)
}

/// What the model is told of the tool `load_skill`.
const LOAD_TOOL: &str = r#"{"name":"load_skill","description":"Loads the instructions of a skill that <skills> lists.","parameters":{"type":"object","properties":{"name":{"type":"string","description":"Its name as <skills> has it."}},"required":["name"]}}"#;

/// The declaration of the tool `load_skill`.
pub fn load_tool<M: MessageData>() -> ToolDeclaration<M> {
    let declaration = M::of_json_text(LOAD_TOOL);
    let declared = M::of_json_text(r#"{"access":"none"}"#);
    ToolDeclaration {
        name: LOAD_SKILL.to_owned(),
        json: LOAD_TOOL.to_owned(),
        digest: definition_digest(&M::list(vec![declaration.clone(), declared])),
        declaration,
        policy: ToolPolicy {
            access: Some(Access::None),
            ..ToolPolicy::default()
        },
    }
}

impl Source {
    fn new(scope: &str, host: Rc<dyn SkillSource>) -> Result<Rc<Self>> {
        check_scope(scope)?;
        Ok(Rc::new(Self {
            scope: scope.to_owned(),
            host,
            files: RefCell::default(),
            shown: Cell::new(0),
        }))
    }

    /// Lists the source and reads every file, some at a time. `before` files of other sources were read already.
    async fn read(&self, refreshing: &Refreshing, before: usize) -> std::result::Result<Reading, String> {
        let files = self.host.list().await?;
        if files.iter().any(|(location, _)| location.trim().is_empty()) {
            return Err("it lists a file without a `location`".to_owned());
        }
        let told = |read: usize| {
            let narrow = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
            if let Some(progress) = &refreshing.progress {
                // What it throws is kept with what other listeners threw.
                let _kept = progress(&Progress {
                    read: narrow(before + read),
                    files: narrow(before + files.len()),
                });
            }
        };
        told(0);
        let mut reads: Vec<LocalFuture<'_, Option<SkillEntry>>> = Vec::with_capacity(files.len());
        for (location, file) in &files {
            reads.push(Box::pin(async move {
                let bytes = file.read().await.ok()?;
                SkillEntry::from_bytes(&self.scope, location, &bytes).ok()
            }));
        }
        let entries = some_at_a_time(reads, &told).await;
        Ok(Reading { files, entries })
    }

    fn show(&self, origin: usize, reading: Reading, catalog: &mut Catalog) {
        let Reading { files, entries } = reading;
        let mut listed = Vec::with_capacity(files.len());
        for ((location, _), entry) in files.iter().zip(entries) {
            let entry = entry.unwrap_or_else(|| catalog.unread(origin, &self.scope, location));
            listed.push(entry);
        }
        catalog.set_origin(origin, listed);
        *self.files.borrow_mut() = files;
    }
}

/// What each source gave, and why some gave nothing.
async fn read_all(sources: &[Rc<Source>], refreshing: &Refreshing) -> (Vec<Option<Reading>>, Option<Error>) {
    let (mut readings, mut failed, mut scopes) = (Vec::new(), None, Vec::new());
    let mut before = 0;
    for source in sources {
        let reading = source.read(refreshing, before).await;
        if let Err(why) = &reading {
            let text = format!(
                "the source of the scope `{}` cannot be listed: {why}",
                source.scope
            );
            failed.get_or_insert(text);
            scopes.push(Value::from(source.scope.as_str()));
        }
        let reading = reading.ok();
        before += reading.as_ref().map_or(0, |reading| reading.files.len());
        readings.push(reading);
    }
    let failed =
        failed.map(|text| Error::new(ErrorCode::HostFailed, text).with("scopes", Value::Array(scopes)));
    (readings, failed)
}

/// So many files of a source are read at the same time.
const AT_ONCE: usize = 16;

/// Runs futures, some at a time, and gives what each brings, or that it brings nothing, in their order.
async fn some_at_a_time<T>(futures: Vec<LocalFuture<'_, Option<T>>>, done: &dyn Fn(usize)) -> Vec<Option<T>> {
    let mut brought = Vec::new();
    brought.resize_with(futures.len(), || None);
    let mut waiting = futures.into_iter().enumerate();
    let mut running = Vec::new();
    let mut count = 0;
    poll_fn(|context| {
        loop {
            while running.len() < AT_ONCE
                && let Some(next) = waiting.next()
            {
                running.push(next);
            }
            let before = count;
            let mut at = 0;
            while let Some((number, future)) = running.get_mut(at) {
                let Poll::Ready(output) = future.as_mut().poll(context) else {
                    at += 1;
                    continue;
                };
                if let Some(place) = brought.get_mut(*number) {
                    *place = output;
                }
                drop(running.swap_remove(at));
                count += 1;
                done(count);
            }
            if running.is_empty() && waiting.len() == 0 {
                return Poll::Ready(());
            }
            if count == before {
                return Poll::Pending;
            }
        }
    })
    .await;
    brought
}
