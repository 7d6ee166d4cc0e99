//! A clock that stands still, ids in order, and a background.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::atomic::{AtomicU32, Ordering},
};

use runcontext::{
    runtime::{Signal, World},
    storage::LocalFuture,
};

/// How many there were, so that no two make the same id.
static WORLDS: AtomicU32 = AtomicU32::new(1);

/// The surroundings of a runtime.
pub struct TestWorld {
    now: Cell<f64>,
    monotonic: Cell<Option<f64>>,
    number: u32,
    ids: Cell<u32>,
    spawned: RefCell<Vec<LocalFuture<'static, ()>>>,
    on_now: RefCell<Option<Rc<dyn Fn()>>>,
    later: RefCell<Signal>,
}

impl Default for TestWorld {
    fn default() -> Self {
        Self {
            now: Cell::new(1_000.0),
            monotonic: Cell::new(None),
            number: WORLDS.fetch_add(1, Ordering::SeqCst),
            ids: Cell::new(0),
            spawned: RefCell::default(),
            on_now: RefCell::default(),
            later: RefCell::default(),
        }
    }
}

impl TestWorld {
    /// Sets the clock.
    pub fn at(&self, now: f64) {
        self.now.set(now);
    }

    /// Sets the clock that nobody can set, or takes it away.
    pub fn monotonic_at(&self, now: Option<f64>) {
        self.monotonic.set(now);
    }

    /// Lets a while go by for those who wait for that.
    pub fn a_while_later(&self) {
        self.later.take().fire();
    }

    /// What the clock calls whenever it is read.
    pub fn on_now(&self, call: Option<Rc<dyn Fn()>>) {
        *self.on_now.borrow_mut() = call;
    }

    pub fn take_spawned(&self) -> Vec<LocalFuture<'static, ()>> {
        std::mem::take(&mut *self.spawned.borrow_mut())
    }

    pub fn put_back(&self, future: LocalFuture<'static, ()>) {
        self.spawned.borrow_mut().push(future);
    }
}

impl World for TestWorld {
    fn now(&self) -> f64 {
        // Not called again from inside itself.
        let call = self.on_now.borrow_mut().take();
        if let Some(call) = call {
            call();
            self.on_now.borrow_mut().get_or_insert(call);
        }
        self.now.get()
    }

    fn monotonic(&self) -> Option<f64> {
        self.monotonic.get()
    }

    fn new_id(&self) -> String {
        self.ids.set(self.ids.get() + 1);
        format!("operation-{}-{}", self.number, self.ids.get())
    }

    fn a_while(&self) -> LocalFuture<'static, ()> {
        let later = self.later.borrow().clone();
        Box::pin(async move { later.fired().await })
    }

    fn spawn(&self, future: LocalFuture<'static, ()>) {
        self.spawned.borrow_mut().push(future);
    }
}
