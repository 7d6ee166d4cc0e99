//! A private wrapper over `indexed_db_futures` that mends what the crate leaves open:
//!
//! - an exception of `open()` keeps its name (the crate calls each one "version zero");
//! - a blocked or stuck `open()` settles, and what it opens later is closed again (dropping the crate's future would
//!   leave an empty database behind, because the upgrade handler goes with it);
//! - an upgrade reaches the stores that are there, and is synchronous, so that a failing one is taken back whole;
//! - a connection closes when it is dropped, and when another tab upgrades or deletes the database;
//! - the cause of an abort is read from the transaction (the crate drops it, and with it an exceeded quota);
//! - several failing requests of one transaction raise no exception (the crate's error handler may run only once).

use std::{
    cell::{Cell, OnceCell, RefCell},
    future::{Future, poll_fn},
    rc::Rc,
    task::{Poll, Waker},
};

use indexed_db_futures::{
    Build, Result as DbResult,
    database::Database,
    error::OpenDbError,
    factory::DBFactory,
    internals::SystemRepr,
    object_store::ObjectStore,
    transaction::{Transaction, TransactionDurability, TransactionMode, TransactionOptions},
};
use js_sys::Function;
use wasm_bindgen::{JsCast, JsValue, closure::Closure, prelude::wasm_bindgen};
use web_sys::{IdbOpenDbRequest, IdbTransaction};

use super::{
    failure,
    schema::{Step, Upgrade},
};
use crate::{Error, Result};

/// After so long an `open()` that neither succeeds nor fails is given up: it waits behind another tab.
pub const PATIENCE_MS: i32 = 10_000;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(callback: &Function, milliseconds: i32) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(timer: &JsValue);
}

/// An open connection. It closes when it is dropped.
pub struct Handle {
    database: Database,
    open: Rc<Cell<bool>>,
    _on_version_change: Closure<dyn FnMut()>,
    _on_close: Closure<dyn FnMut()>,
}

impl Handle {
    fn new(database: Database) -> Self {
        let open = Rc::new(Cell::new(true));
        let on_version_change = Closure::new({
            let (open, connection) = (Rc::clone(&open), database.as_sys().clone());
            move || {
                open.set(false);
                connection.close();
            }
        });
        let on_close = Closure::new({
            let open = Rc::clone(&open);
            move || open.set(false)
        });
        let connection = database.as_sys();
        connection.set_onversionchange(Some(on_version_change.as_ref().unchecked_ref()));
        connection.set_onclose(Some(on_close.as_ref().unchecked_ref()));
        Self {
            database,
            open,
            _on_version_change: on_version_change,
            _on_close: on_close,
        }
    }

    /// Whether a transaction can be begun.
    pub fn is_open(&self) -> bool {
        self.open.get()
    }

    /// Closes the connection; transactions that were begun end as they would.
    pub fn close(&self) {
        self.open.set(false);
        self.database.as_sys().close();
    }

    /// Begins to read.
    pub fn read(&self, stores: &[&str]) -> Result<Work<'_>> {
        Work::begin(
            self.database
                .transaction(stores)
                .with_mode(TransactionMode::Readonly)
                .build(),
        )
    }

    /// Begins to write.
    pub fn write(&self, stores: &[&str], durability: TransactionDurability) -> Result<Work<'_>> {
        let options = TransactionOptions::new().with_durability(durability);
        let transaction = self
            .database
            .transaction(stores)
            .with_mode(TransactionMode::Readwrite);
        Work::begin(transaction.with_options(options).build())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let connection = self.database.as_sys();
        connection.set_onversionchange(None);
        connection.set_onclose(None);
        connection.close();
    }
}

/// A transaction. Dropped before [`Work::commit`] it is aborted: nothing of it is kept.
pub struct Work<'a> {
    transaction: Transaction<'a>,
    system: IdbTransaction,
}

impl<'a> Work<'a> {
    fn begin(transaction: DbResult<Transaction<'a>>) -> Result<Self> {
        let transaction = transaction.map_err(|error| failure::of_crate(&error))?;
        let system = IdbTransaction::clone(transaction.as_sys());
        // Every error that reaches this handler aborts the transaction, and the abort is listened to.
        system.set_onerror(None);
        Ok(Self { transaction, system })
    }

    /// A store of this transaction.
    pub fn store(&self, name: &str) -> Result<ObjectStore<'_>> {
        self.transaction
            .object_store(name)
            .map_err(|error| failure::of_crate(&error))
    }

    /// The result of a request that was made.
    pub async fn result<T>(&self, request: DbResult<impl Future<Output = DbResult<T>>>) -> Result<T> {
        let outcome = match request {
            Ok(request) => request.await,
            Err(error) => Err(error),
        };
        outcome.map_err(|error| self.cause().unwrap_or_else(|| failure::of_crate(&error)))
    }

    /// Makes sure that a request was made. If it fails, the whole transaction does.
    pub fn sent<F>(&self, request: DbResult<F>) -> Result<()> {
        match request {
            Ok(_) => Ok(()),
            Err(error) => Err(failure::of_crate(&error)),
        }
    }

    /// Ends the transaction. `Ok` means that it is complete: durable, as far as it was asked to be.
    pub async fn commit(self) -> Result<()> {
        let Self { transaction, system } = self;
        match transaction.commit().await {
            Ok(()) => Ok(()),
            Err(_) => Err(cause(&system).unwrap_or_else(failure::lost)),
        }
    }

    fn cause(&self) -> Option<Error> {
        cause(&self.system)
    }
}

fn cause(system: &IdbTransaction) -> Option<Error> {
    system.error().map(|exception| failure::of_exception(&exception))
}

/// Opens a database at the version that `steps` lead to.
pub async fn open(name: &str, steps: &'static [Step], patience_ms: i32) -> Result<Handle> {
    let opening = Rc::new(Opening::default());
    let request = Rc::new(OnceCell::<IdbOpenDbRequest>::new());
    let version = u32::try_from(steps.len()).unwrap_or(u32::MAX);

    let on_blocked = {
        let (opening, name) = (Rc::clone(&opening), name.to_owned());
        move |_| {
            opening.settle(Err(failure::blocked(&name)));
            Ok(())
        }
    };
    let on_upgrade = {
        let request = Rc::clone(&request);
        move |event: indexed_db_futures::database::VersionChangeEvent, database| {
            let Some(transaction) = request.get().and_then(|request| request.transaction()) else {
                return Err(js_sys::Error::new("an upgrade without its transaction").into());
            };
            let upgrade = Upgrade {
                database,
                transaction,
            };
            let done = (0..steps.len())
                .take_while(|step| (*step as f64) < event.old_version())
                .count();
            steps.iter().skip(done).try_for_each(|step| step(&upgrade))
        }
    };
    let builder = Database::open(name.to_owned()).with_version(version);
    let built = builder
        .with_on_blocked(on_blocked)
        .with_on_upgrade_needed(on_upgrade)
        .build();
    let future = built.map_err(|error| match error {
        OpenDbError::VersionZero => refusal(name, version),
        error => failure::of_factory(&error),
    })?;
    // Events come in a later task, so that the upgrade finds its request.
    request.set(future.as_sys().clone()).ok();

    let timer = Timer::new(patience_ms, {
        let (opening, name) = (Rc::clone(&opening), name.to_owned());
        move || opening.settle(Err(failure::blocked(&name)))
    });
    wasm_bindgen_futures::spawn_local({
        let opening = Rc::clone(&opening);
        async move {
            // Whatever comes after the answer is dropped, and so closed.
            opening.settle(match future.await {
                Ok(database) => Ok(Handle::new(database)),
                Err(OpenDbError::Base(error)) => Err(failure::of_open(&failure::of_crate(&error))),
                Err(error) => Err(failure::of_factory(&error)),
            });
        }
    });
    let answer = opening.answer().await;
    drop(timer);
    answer
}

/// The exception that `open()` throws. The crate hides it, so it is asked for once more; should the browser have
/// changed its mind, what it opens is left as it was.
fn refusal(name: &str, version: u32) -> Error {
    let factory = match DBFactory::new() {
        Ok(factory) => factory,
        Err(error) => return failure::of_factory(&error),
    };
    match factory.as_sys().open_with_u32(name, version) {
        Err(exception) => failure::of_open(&failure::of_js(&exception)),
        Ok(request) => {
            let upgrade = request.clone();
            let undo = Closure::once_into_js(move || {
                if let Some(transaction) = upgrade.transaction() {
                    transaction.abort().ok();
                }
            });
            request.set_onupgradeneeded(Some(undo.unchecked_ref()));
            let opened = request.clone();
            let close = Closure::once_into_js(move || {
                if let Ok(Ok(database)) = opened.result().map(JsCast::dyn_into::<web_sys::IdbDatabase>) {
                    database.close();
                }
            });
            request.set_onsuccess(Some(close.unchecked_ref()));
            failure::lost()
        }
    }
}

/// The answer to an `open()`: the first of success, failure, blocked, and too late.
#[derive(Default)]
struct Opening {
    settled: Cell<bool>,
    answer: RefCell<Option<Result<Handle>>>,
    waker: RefCell<Option<Waker>>,
}

impl Opening {
    fn settle(&self, answer: Result<Handle>) {
        if self.settled.replace(true) {
            return;
        }
        self.answer.replace(Some(answer));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    async fn answer(&self) -> Result<Handle> {
        poll_fn(|context| match self.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                self.waker.replace(Some(context.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }
}

/// Calls once after some time, unless it is dropped before.
struct Timer {
    timer: JsValue,
    _callback: Closure<dyn FnMut()>,
}

impl Timer {
    fn new(milliseconds: i32, callback: impl FnMut() + 'static) -> Self {
        let callback = Closure::new(callback);
        Self {
            timer: set_timeout(callback.as_ref().unchecked_ref(), milliseconds),
            _callback: callback,
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        clear_timeout(&self.timer);
    }
}

#[cfg(test)]
mod tests {
    use indexed_db_futures::{BuildPrimitive, prelude::QuerySource};
    use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

    use super::*;
    use crate::ErrorCode;

    wasm_bindgen_test_configure!(run_in_browser);

    const FIRST: Step = |upgrade| {
        let store = upgrade.database.create_object_store("things").build()?;
        store
            .put(JsValue::from_str("kept"))
            .with_key(JsValue::from_str("k"))
            .primitive()?;
        Ok(())
    };
    /// Reaches a store that an earlier version made.
    const SECOND: Step = |upgrade| {
        let store = upgrade.transaction.object_store("things")?;
        store.create_index_with_str("by_name", "name")?;
        Ok(())
    };
    const FAILING: Step = |upgrade| {
        upgrade.database.create_object_store("half").build()?;
        Err(js_sys::Error::new("the step failed").into())
    };

    async fn thing(handle: &Handle) -> Option<String> {
        let work = handle.read(&["things"]).unwrap();
        let store = work.store("things").unwrap();
        let found = work.result(store.get::<String, _, _>("k").primitive()).await;
        found.unwrap()
    }

    fn stores(handle: &Handle) -> Vec<String> {
        handle.database.object_store_names().collect()
    }

    /// A connection of somebody who does not listen.
    fn deafen(handle: &Handle) {
        handle.database.as_sys().set_onversionchange(None);
    }

    #[wasm_bindgen_test]
    async fn an_upgrade_reaches_the_stores_that_are_there() {
        let handle = open("upgrade", &[FIRST], PATIENCE_MS).await.unwrap();
        assert_eq!(handle.database.version(), 1.0);
        drop(handle);
        let handle = open("upgrade", &[FIRST, SECOND], PATIENCE_MS).await.unwrap();
        assert_eq!(handle.database.version(), 2.0);
        assert_eq!(thing(&handle).await.as_deref(), Some("kept"));
        let work = handle.read(&["things"]).unwrap();
        assert_eq!(
            work.store("things").unwrap().index_names().collect::<Vec<_>>(),
            ["by_name"]
        );
    }

    #[wasm_bindgen_test]
    async fn a_failing_upgrade_is_taken_back_whole() {
        drop(open("failing", &[FIRST], PATIENCE_MS).await.unwrap());
        let steps = &[FIRST, SECOND, FAILING];
        let error = open("failing", steps, PATIENCE_MS).await.err().unwrap();
        assert_eq!(error.code(), ErrorCode::StorageFailed);
        assert_eq!(error.data()["cause"], "Error: the step failed");

        let handle = open("failing", &[FIRST], PATIENCE_MS).await.unwrap();
        assert_eq!(handle.database.version(), 1.0);
        assert_eq!(stores(&handle), ["things"]);
        assert_eq!(thing(&handle).await.as_deref(), Some("kept"));
    }

    #[wasm_bindgen_test]
    async fn a_blocked_upgrade_settles_and_is_no_further_in_the_way() {
        let old = open("blocked", &[FIRST], PATIENCE_MS).await.unwrap();
        deafen(&old);
        let error = open("blocked", &[FIRST, SECOND], PATIENCE_MS)
            .await
            .err()
            .unwrap();
        assert_eq!(error.code(), ErrorCode::StorageBlocked);
        assert_eq!(
            error.message(),
            "another tab keeps the database `blocked` busy; close it, then try again"
        );
        assert_eq!(thing(&old).await.as_deref(), Some("kept"));

        drop(old);
        // What was asked for before opens late, upgrades, and closes again.
        let next = open("blocked", &[FIRST, SECOND, |_| Ok(())], PATIENCE_MS)
            .await
            .unwrap();
        assert_eq!(next.database.version(), 3.0);
        assert_eq!(thing(&next).await.as_deref(), Some("kept"));
    }

    #[wasm_bindgen_test]
    async fn an_open_that_waits_behind_a_blocked_deletion_settles() {
        let old = open("stuck", &[FIRST], PATIENCE_MS).await.unwrap();
        deafen(&old);
        DBFactory::new()
            .unwrap()
            .as_sys()
            .delete_database("stuck")
            .unwrap();
        let error = open("stuck", &[FIRST], 100).await.err().unwrap();
        assert_eq!(error.code(), ErrorCode::StorageBlocked);

        drop(old);
        let next = open("stuck", &[FIRST], PATIENCE_MS).await.unwrap();
        assert_eq!(
            thing(&next).await.as_deref(),
            Some("kept"),
            "made anew, with its store"
        );
    }

    #[wasm_bindgen_test]
    async fn a_connection_closes_for_an_upgrade_and_says_so() {
        let old = open("polite", &[FIRST], PATIENCE_MS).await.unwrap();
        assert!(old.is_open());
        let new = open("polite", &[FIRST, SECOND], PATIENCE_MS).await.unwrap();
        assert!(!old.is_open());
        assert!(new.is_open());
        let error = old.read(&["things"]).err().unwrap();
        assert_eq!(error.code(), ErrorCode::StorageLost);
        let error = open("polite", &[FIRST], PATIENCE_MS).await.err().unwrap();
        assert_eq!(error.code(), ErrorCode::StorageSchemaNewer);
    }

    #[wasm_bindgen_test]
    async fn a_forced_close_is_noticed() {
        let handle = open("forced", &[FIRST], PATIENCE_MS).await.unwrap();
        let close = web_sys::Event::new("close").unwrap();
        handle.database.as_sys().dispatch_event(&close).unwrap();
        assert!(!handle.is_open());
    }

    #[wasm_bindgen_test]
    async fn a_dropped_transaction_keeps_nothing() {
        let handle = open("dropped", &[FIRST], PATIENCE_MS).await.unwrap();
        let work = handle.write(&["things"], TransactionDurability::Strict).unwrap();
        let store = work.store("things").unwrap();
        let put = store
            .put(JsValue::from_str("changed"))
            .with_key(JsValue::from_str("k"))
            .primitive();
        work.result(put).await.unwrap();
        drop(store);
        drop(work);
        assert_eq!(thing(&handle).await.as_deref(), Some("kept"));
    }
}
