//! Whole sessions, in and out, as session files. Messages pass through a part at a time.

use std::rc::Rc;

use super::{Listener, Runtime, RuntimeEvent, Signal, not_found};
use crate::{
    Error, ErrorCode, Result,
    message::MessageData,
    session::{Hint, Import, Texts},
    storage::{
        CommitStatus, LocalFuture, OLD, SessionRecord, SessionStorage, StoredSession, closed, damaged,
    },
};

/// Messages that are read at once on the way out.
const PAGE: u32 = 32;

/// A session file that is read.
pub trait Source {
    /// The next bytes; none at the end.
    fn next(&self) -> LocalFuture<'_, Result<Option<Vec<u8>>>>;
}

/// How far an import is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImportProgress {
    /// Bytes that were read.
    pub bytes: f64,
    /// Messages that were stored.
    pub messages: u32,
}

/// How a session file is stored.
#[derive(Clone, Default)]
pub struct ImportOptions {
    /// Whether the session gets a new id.
    pub is_new: bool,
    /// Stops it; then nothing is stored.
    pub abort: Signal,
    /// Hears how far it is.
    pub progress: Option<Listener<ImportProgress>>,
}

impl std::fmt::Debug for ImportOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImportOptions")
            .field("is_new", &self.is_new)
            .finish_non_exhaustive()
    }
}

/// A part of a session file.
#[derive(Debug)]
pub enum Part<M> {
    /// The header line, without its end.
    Header(String),
    /// Messages, one to a line.
    Messages(Vec<M>),
}

/// A session on its way out.
pub struct Export<M> {
    storage: Rc<dyn SessionStorage<M>>,
    header: Option<String>,
    tagged: bool,
    next: u32,
    count: u32,
}

impl<M> std::fmt::Debug for Export<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Export")
            .field("next", &self.next)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl<M> Export<M> {
    /// Whether messages are written with tags for what JSON lacks: some hold bytes.
    pub fn is_tagged(&self) -> bool {
        self.tagged
    }

    /// The next part; none at the end.
    ///
    /// # Errors
    /// Those of the storage.
    pub async fn next(&mut self) -> Result<Option<Part<M>>> {
        if let Some(header) = self.header.take() {
            return Ok(Some(Part::Header(header)));
        }
        let from = self.next;
        if from >= self.count {
            return Ok(None);
        }
        let to = from.saturating_add(PAGE).min(self.count);
        let messages = self.storage.read_messages(from, to).await?;
        self.next = to;
        Ok(Some(Part::Messages(messages)))
    }
}

impl<M: MessageData + 'static> Runtime<M> {
    /// Stores a session file as a session, whole or not at all. It keeps its id, or gets a new one.
    ///
    /// # Errors
    /// `import_invalid` with the `line`; `conflict` where the id is taken; `aborted`; `disposed` where the runtime is closed
    /// meanwhile; those of the source and of the storage.
    pub async fn import_session(
        &self,
        source: &dyn Source,
        texts: Texts<M>,
        options: &ImportOptions,
    ) -> Result<SessionRecord> {
        self.check_open()?;
        let _running = Running::new(self, &options.abort);
        let new_id = options.is_new.then(|| self.parts.world.new_id());
        let mut import = Import::new(texts, self.path_style(), new_id);
        // Held to the end: what is staged is somebody's for as long.
        let mut claim = None;
        let read = self.read_all(source, &mut import, &mut claim, options).await;
        let Some(record) = import.record().cloned() else {
            return Err(read.err().unwrap_or_else(closed));
        };
        if let Err(error) = read
            && !self.is_stored(&record).await
        {
            return Err(error);
        }
        self.tell(&Hint::Session(record.id.clone()));
        let created = RuntimeEvent::SessionCreated(record.id.clone());
        self.listeners.emit(&created);
        Ok(record)
    }

    /// Whether an import that failed has stored its session all the same, and only the answer was lost. What it staged goes;
    /// where that fails too it is left over, and the next who opens clears it away.
    async fn is_stored(&self, record: &SessionRecord) -> bool {
        let storage = self.parts.storage.session(&record.id);
        let is_own = |stored: &StoredSession| stored.record.origin() == record.origin();
        match storage.load().await {
            // Before the first commit there is no origin.
            Ok(Some(stored)) if is_own(&stored) && !record.origin().is_empty() => {
                if stored.record.is_staged() {
                    drop(storage.delete().await);
                }
                !stored.record.is_staged()
            }
            _ => false,
        }
    }

    async fn read_all(
        &self,
        source: &dyn Source,
        import: &mut Import<M>,
        claim: &mut Option<Claim<M>>,
        options: &ImportOptions,
    ) -> Result<()> {
        let mut bytes = 0.0;
        let told = |import: &Import<M>, bytes| {
            let messages = import.record().map_or(0, |record| record.message_count);
            if let Some(progress) = &options.progress {
                // A listener collects its own errors.
                drop(progress(&ImportProgress { bytes, messages }));
            }
        };
        loop {
            let read = options.abort.unless_fired(source.next()).await;
            self.check_open()?;
            let Some(read) = read.filter(|_| !options.abort.has_fired()) else {
                let text = "the import was aborted; nothing was imported";
                return Err(Error::new(ErrorCode::Aborted, text));
            };
            let Some(read) = read? else { break };
            bytes += read.len() as f64;
            import.take(&read)?;
            if import.is_full() {
                self.store(import, claim, false).await?;
                told(import, bytes);
            }
        }
        import.end()?;
        self.store(import, claim, true).await?;
        told(import, bytes);
        Ok(())
    }

    async fn store(&self, import: &mut Import<M>, claim: &mut Option<Claim<M>>, is_last: bool) -> Result<()> {
        let stamp = self.stamp();
        let commit = import.commit(stamp.operation_id, stamp.now, is_last);
        let commit = commit.ok_or_else(closed)?;
        let id = commit.session_id.clone();
        let claimed = match claim {
            Some(claimed) => claimed,
            None => claim.insert(self.claim(&id).await?),
        };
        match claimed.storage.commit(Rc::new(commit)).await? {
            CommitStatus::Applied(_) | CommitStatus::AlreadyApplied(_) => Ok(()),
            CommitStatus::Conflict(_) => Err(taken(&id)),
        }
    }

    /// Has an id for an import, alone, and clears away what another import left under it. Where nobody can say whether that one
    /// still runs, it is left over when it is old.
    async fn claim(&self, id: &str) -> Result<Claim<M>> {
        let claim = Claim {
            storage: self.parts.storage.session(id),
            until: Signal::default(),
        };
        let alone = match &self.parts.tabs {
            Some(tabs) => tabs.claim(id, claim.until.clone()).await,
            None => None,
        };
        if alone == Some(false) {
            return Err(taken(id));
        }
        if let Ok(Some(StoredSession { record, .. })) = claim.storage.load().await
            && record.is_staged()
            && (alone == Some(true) || self.parts.world.now() + record.updated_at > OLD)
        {
            claim.storage.delete().await?;
        }
        Ok(claim)
    }

    /// Clears away what imports left that were cut off.
    pub(super) async fn clear_leftovers(&self) {
        // What cannot be cleared away now is the next time.
        for record in self.parts.storage.staged().await.unwrap_or_default() {
            drop(self.claim(&record.id).await);
        }
    }

    /// A stored session as a session file. What is pending is not in it.
    ///
    /// # Errors
    /// `not_found`; `storage_failed` for one that is damaged; those of the storage.
    pub async fn export_session(&self, id: &str, texts: Texts<M>) -> Result<Export<M>> {
        self.check_open()?;
        let storage = self.parts.storage.session(id);
        let stored = storage.load().await?.filter(|stored| !stored.record.is_staged());
        let stored = stored.ok_or_else(|| not_found(id))?;
        if let Some(damage) = stored.damage.first() {
            return Err(damaged(id, &damage.message));
        }
        let tagged = stored.outlines.iter().any(|outline| outline.bytes);
        Ok(Export {
            header: Some(texts.header_line(&stored, tagged)?),
            storage,
            tagged,
            next: 0,
            count: stored.record.message_count,
        })
    }
}

/// An import that runs. Closing the runtime aborts it.
struct Running<'a, M: MessageData + 'static>(&'a Runtime<M>, u64);

impl<'a, M: MessageData + 'static> Running<'a, M> {
    fn new(runtime: &'a Runtime<M>, abort: &Signal) -> Self {
        runtime.imports.set(runtime.imports.get() + 1);
        let abort = abort.clone();
        Self(runtime, runtime.closed.on_fire(move || abort.fire()))
    }
}

impl<M: MessageData + 'static> Drop for Running<'_, M> {
    fn drop(&mut self) {
        let Self(runtime, hook) = self;
        runtime.closed.forget(*hook);
        runtime.imports.set(runtime.imports.get().saturating_sub(1));
        runtime.leave();
    }
}

/// An id that an import has, until it is dropped.
struct Claim<M> {
    storage: Rc<dyn SessionStorage<M>>,
    until: Signal,
}

impl<M> Drop for Claim<M> {
    fn drop(&mut self) {
        self.until.fire();
    }
}

fn taken(id: &str) -> Error {
    let text =
        format!("a session with the id `{id}` exists or is being imported; import it with the id `new`");
    Error::new(ErrorCode::Conflict, text).with("id", id)
}
