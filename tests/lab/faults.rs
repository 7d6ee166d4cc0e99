//! Storage that fails on demand, and writes down what it was asked.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
};

use runcontext::{
    Error, ErrorCode, Result,
    runtime::Signal,
    storage::{
        Commit, CommitStatus, Counters, DirectoryStorage, LocalFuture, SessionRecord, SessionStorage,
        SharedStorage, Standing, Storage, StorageInfo, StoredApproval, StoredSession, memory::MemoryStorage,
    },
};
use serde_json::Value;

/// What goes wrong with a commit.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It is not applied, and fails.
    Refuse,
    /// It is applied, and reported as failed.
    LoseAcknowledgement,
    /// It is applied once the signal fires.
    Wait(Signal),
    /// It is applied, and answered once the signal fires.
    WaitForAnswer(Signal),
    /// It was given up: it is not applied, and nobody knows.
    NoAnswer,
    /// Somebody else wrote first.
    Conflict,
}

/// Memory, with faults in front.
pub struct FaultyStorage {
    pub memory: MemoryStorage<Value>,
    state: Rc<State>,
}

#[derive(Default)]
struct State {
    attempts: Cell<usize>,
    faults: RefCell<HashMap<usize, Fault>>,
    always: RefCell<Option<Fault>>,
    refuse_deletion: Cell<bool>,
    refuse_looks: Cell<bool>,
    refuse_loads: Cell<bool>,
    reads_wait: RefCell<Option<Signal>>,
    applied: RefCell<Vec<Rc<Commit<Value>>>>,
}

impl FaultyStorage {
    pub fn new(memory: MemoryStorage<Value>) -> Self {
        Self {
            memory,
            state: Rc::default(),
        }
    }

    /// Lets a coming attempt at a commit fail: the next one is 1.
    pub fn fail(&self, attempt: usize, fault: Fault) {
        let at = self.state.attempts.get() + attempt;
        self.state.faults.borrow_mut().insert(at, fault);
    }

    /// Takes a fault back: of the next attempt is 1.
    pub fn forgive(&self, attempt: usize) {
        let at = self.state.attempts.get() + attempt;
        self.state.faults.borrow_mut().remove(&at);
    }

    /// Lets every commit fail from now on, or none.
    pub fn always(&self, fault: Option<Fault>) {
        *self.state.always.borrow_mut() = fault;
    }

    /// Lets deletions fail.
    pub fn refuse_deletion(&self, refuse: bool) {
        self.state.refuse_deletion.set(refuse);
    }

    /// Lets looks at a session's counters fail, and loading it.
    pub fn refuse_reads(&self, looks: bool, loads: bool) {
        self.state.refuse_looks.set(looks);
        self.state.refuse_loads.set(loads);
    }

    /// Lets reads of messages wait for a signal.
    pub fn hold_reads(&self, until: &Signal) {
        *self.state.reads_wait.borrow_mut() = Some(until.clone());
    }

    /// How many commits were tried.
    pub fn attempts(&self) -> usize {
        self.state.attempts.get()
    }

    /// Every commit that was applied, in order.
    pub fn applied(&self) -> Vec<Rc<Commit<Value>>> {
        self.state.applied.borrow().clone()
    }
}

impl Storage<Value> for FaultyStorage {
    fn info(&self) -> StorageInfo {
        self.memory.info()
    }

    fn session(&self, id: &str) -> Rc<dyn SessionStorage<Value>> {
        Rc::new(FaultySession {
            inner: self.memory.session(id),
            state: self.state.clone(),
        })
    }

    fn shared(&self) -> Rc<dyn SharedStorage> {
        self.memory.shared()
    }

    fn staged(&self) -> LocalFuture<'_, Result<Vec<SessionRecord>>> {
        self.memory.staged()
    }

    fn approvals(&self) -> LocalFuture<'_, Result<Vec<StoredApproval<Value>>>> {
        self.memory.approvals()
    }

    fn directory(&self) -> Rc<dyn DirectoryStorage> {
        self.memory.directory()
    }

    fn close(&self) {
        self.memory.close();
    }
}

struct FaultySession {
    inner: Rc<dyn SessionStorage<Value>>,
    state: Rc<State>,
}

fn failure() -> Error {
    Error::new(
        ErrorCode::StorageFailed,
        "the disk is on fire; call the fire brigade",
    )
}

impl SessionStorage<Value> for FaultySession {
    fn approvals(&self) -> LocalFuture<'_, Result<Vec<StoredApproval<Value>>>> {
        self.inner.approvals()
    }

    fn counters(&self) -> LocalFuture<'_, Result<Option<Standing>>> {
        if self.state.refuse_looks.get() {
            return Box::pin(async { Err(failure()) });
        }
        self.inner.counters()
    }

    fn load(&self) -> LocalFuture<'_, Result<Option<StoredSession>>> {
        if self.state.refuse_loads.get() {
            return Box::pin(async { Err(failure()) });
        }
        self.inner.load()
    }

    fn read_messages(&self, from: u32, to: u32) -> LocalFuture<'_, Result<Vec<Value>>> {
        Box::pin(async move {
            let wait = self.state.reads_wait.borrow().clone();
            if let Some(signal) = wait {
                signal.fired().await;
            }
            self.inner.read_messages(from, to).await
        })
    }

    fn commit(&self, commit: Rc<Commit<Value>>) -> LocalFuture<'_, Result<CommitStatus>> {
        Box::pin(async move {
            let attempt = self.state.attempts.get() + 1;
            self.state.attempts.set(attempt);
            let one = self.state.faults.borrow_mut().remove(&attempt);
            let fault = one.or_else(|| self.state.always.borrow().clone());
            match &fault {
                Some(Fault::Refuse) => return Err(failure()),
                Some(Fault::NoAnswer) => return Err(failure().with("unanswered", true)),
                Some(Fault::Conflict) => return Ok(CommitStatus::Conflict(Counters::default())),
                Some(Fault::Wait(signal)) => signal.fired().await,
                Some(Fault::LoseAcknowledgement | Fault::WaitForAnswer(_)) | None => {}
            }
            let status = self.inner.commit(commit.clone()).await?;
            if let CommitStatus::Applied(_) = status {
                self.state.applied.borrow_mut().push(commit);
            }
            match fault {
                Some(Fault::LoseAcknowledgement) => return Err(failure()),
                Some(Fault::WaitForAnswer(signal)) => signal.fired().await,
                _ => {}
            }
            Ok(status)
        })
    }

    fn delete(&self) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.state.refuse_deletion.get() {
                return Err(failure());
            }
            self.inner.delete().await
        })
    }
}
