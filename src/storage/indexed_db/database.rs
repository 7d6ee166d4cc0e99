//! IndexedDB as futures, no more of it than is needed here:
//!
//! - a blocked or stuck `open()` settles, and what it opens later is closed again;
//! - an upgrade reaches the stores that are there, and is synchronous, so that a failing one is taken back whole;
//! - a connection closes when it is dropped, and when another tab upgrades or deletes the database;
//! - the cause of an abort is read from the transaction, where a browser says that a quota was exceeded;
//! - a request that fails and is not waited for raises no exception.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::Rc,
    task::{Poll, Waker},
};

use js_sys::{Array, Function, Promise, Reflect};
use wasm_bindgen::{JsCast, JsValue, closure::Closure, prelude::wasm_bindgen};
use wasm_bindgen_futures::JsFuture;
use web_sys::{
    Event, IdbDatabase, IdbFactory, IdbObjectStore, IdbOpenDbRequest, IdbRequest, IdbTransaction,
    IdbVersionChangeEvent,
};

use super::{
    Durability, failure, records,
    schema::{Step, Upgrade},
};
use crate::{
    Error, Result,
    js::host::Timer,
    runtime::Signal,
    storage::{StorageEvent, StorageListener},
};

/// After so long an `open()` that neither succeeds nor fails is given up, and so is a transaction that does not begin: it waits
/// behind another tab.
pub const PATIENCE_MS: i32 = 10_000;

/// What a call of the browser gives.
type Given<T> = std::result::Result<T, JsValue>;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(callback: &Function, milliseconds: i32) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(timer: &JsValue);

    /// A transaction with its durability: `web-sys` has it as an unstable interface only.
    type Durable;
    #[wasm_bindgen(method, catch)]
    fn transaction(this: &Durable, stores: &Array, mode: &str, options: &JsValue) -> Given<IdbTransaction>;
}

/// An open connection. It closes when it is dropped.
pub struct Handle {
    database: IdbDatabase,
    open: Rc<Cell<bool>>,
    data_loss: Option<String>,
    _on_end: Closure<dyn FnMut(JsValue)>,
}

impl Handle {
    fn new(database: IdbDatabase, listener: StorageListener, data_loss: Option<String>) -> Self {
        let open = Rc::new(Cell::new(true));
        // Another tab upgrades or deletes the database, or the browser has closed it; closing again does nothing.
        let on_end = Closure::<dyn FnMut(JsValue)>::new({
            let (open, database) = (Rc::clone(&open), database.clone());
            move |event: JsValue| {
                database.close();
                if open.replace(false) {
                    listener(why_closed(&event));
                }
            }
        });
        let listener = Some(on_end.as_ref().unchecked_ref());
        database.set_onversionchange(listener);
        database.set_onclose(listener);
        Self {
            database,
            open,
            data_loss,
            _on_end: on_end,
        }
    }

    /// What the browser said where it threw away what was there before.
    pub fn data_loss(&self) -> Option<String> {
        self.data_loss.clone()
    }

    /// Whether a transaction can be begun.
    pub fn is_open(&self) -> bool {
        self.open.get()
    }

    /// Closes the connection; transactions that were begun end as they would.
    pub fn close(&self) {
        self.open.set(false);
        self.database.close();
    }

    /// Begins to read.
    pub fn read(&self, stores: &[&str]) -> Result<Work> {
        self.begin(stores, "readonly", &JsValue::UNDEFINED)
    }

    /// Begins to write.
    pub fn write(&self, stores: &[&str], durability: Durability) -> Result<Work> {
        let durability = match durability {
            Durability::Strict => "strict",
            Durability::Relaxed => "relaxed",
        };
        let options = records::object(&[("durability", durability.into())])?;
        self.begin(stores, "readwrite", &options)
    }

    fn begin(&self, stores: &[&str], mode: &str, options: &JsValue) -> Result<Work> {
        let names = Array::new();
        for store in stores {
            names.push(&JsValue::from_str(store));
        }
        let begun = self
            .database
            .unchecked_ref::<Durable>()
            .transaction(&names, mode, options);
        let transaction = given(begun)?;
        // Heard from the beginning, so that no end is missed.
        let ended = Promise::new(&mut |resolve, _| {
            transaction.set_oncomplete(Some(&resolve));
            transaction.set_onabort(Some(&resolve));
        });
        Ok(Work {
            transaction,
            ended,
            ended_by_itself: Cell::new(false),
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.database.set_onversionchange(None);
        self.database.set_onclose(None);
        self.database.close();
    }
}

/// Why a connection closes: another tab wants a version that the database is to have, or none.
fn why_closed(event: &JsValue) -> StorageEvent {
    match event.dyn_ref::<IdbVersionChangeEvent>() {
        Some(change) if change.new_version().is_some() => StorageEvent::Upgraded,
        Some(_) => StorageEvent::Deleted,
        None => StorageEvent::Lost,
    }
}

/// What the browser gave, or what it threw as an error of ours.
pub fn given<T>(outcome: Given<T>) -> Result<T> {
    outcome.map_err(|exception| failure::of_js(&exception))
}

/// A request that was made, and the promise that it has been answered.
pub struct Asked {
    request: IdbRequest,
    answered: Promise,
}

impl Asked {
    fn new(request: IdbRequest) -> Self {
        // It never rejects, so that nobody has to wait for it.
        let answered = Promise::new(&mut |resolve, _| {
            request.set_onsuccess(Some(&resolve));
            request.set_onerror(Some(&resolve));
        });
        Self { request, answered }
    }

    /// The same request once more, which moving a cursor answers anew.
    pub fn again(self) -> Self {
        Self::new(self.request)
    }
}

/// A transaction. Dropped before it has ended it is aborted: nothing of it is kept, now or later. Where that comes too late, the
/// name of the operation says that it was kept.
pub struct Work {
    transaction: IdbTransaction,
    /// Resolves with the event that ends it.
    ended: Promise,
    ended_by_itself: Cell<bool>,
}

impl Work {
    /// A store of this transaction.
    pub fn store(&self, name: &str) -> Result<IdbObjectStore> {
        given(self.transaction.object_store(name))
    }

    /// Makes sure that a request was made. If it fails later, the whole transaction does.
    pub fn sent(&self, request: Given<IdbRequest>) -> Result<()> {
        given(request).map(drop)
    }

    /// A request that will be waited for.
    pub fn ask(&self, request: Given<IdbRequest>) -> Result<Asked> {
        given(request).map(Asked::new)
    }

    /// The result of a request.
    async fn result(&self, asked: &Asked) -> Result<JsValue> {
        // The promise never rejects.
        JsFuture::from(asked.answered.clone()).await.ok();
        let outcome = match asked.request.error() {
            Ok(Some(exception)) => Err(exception.into()),
            Ok(None) => asked.request.result(),
            Err(exception) => Err(exception),
        };
        outcome.map_err(|exception| self.cause().unwrap_or_else(|| failure::of_js(&exception)))
    }

    /// Waits for the first answer. Once it is there, nobody else is in the way of the rest.
    pub async fn begins(&self, asked: &[Asked]) -> Result<()> {
        let Some(first) = asked.first() else {
            return Ok(());
        };
        let over = Signal::default();
        let _timer = Timer::new(PATIENCE_MS as u32, &over);
        match over.unless_fired(self.result(first)).await {
            Some(answered) => answered.map(drop),
            None => Err(failure::waits(PATIENCE_MS / 1_000)),
        }
    }

    /// The results of requests, in their order.
    pub async fn results(&self, asked: &[Asked]) -> Result<Vec<JsValue>> {
        let mut results = Vec::new();
        for asked in asked {
            results.push(self.result(asked).await?);
        }
        Ok(results)
    }

    /// Waits for the end of the transaction. `Ok` means that it is complete: durable, as far as it was asked to be.
    ///
    /// A transaction completes by itself when its last request is answered. The browser's own `commit()` would be sooner
    /// by an answer, but in Firefox it also completes what is left of a transaction of which a request then fails.
    pub async fn commit(self) -> Result<()> {
        let complete = JsFuture::from(self.ended.clone()).await.is_ok_and(|event| {
            let event: Event = event.unchecked_into();
            event.type_() == "complete"
        });
        self.ended_by_itself.set(true);
        if complete {
            Ok(())
        } else {
            Err(self.cause().unwrap_or_else(failure::lost))
        }
    }

    /// Nothing was changed: it ends by itself, which costs less than to abort it.
    pub fn leave(self) {
        self.ended_by_itself.set(true);
    }

    fn cause(&self) -> Option<Error> {
        let exception = self.transaction.error();
        exception.map(|exception| failure::of_exception(&exception))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if !self.ended_by_itself.get() {
            // It throws where the transaction has ended already.
            self.transaction.abort().ok();
        }
    }
}

/// The factory of databases, if there is one and the browser lets us have it.
fn factory() -> Result<IdbFactory> {
    let name = JsValue::from_str("indexedDB");
    let factory = Reflect::get(&js_sys::global(), &name)
        .map_err(|exception| failure::of_open(&failure::of_js(&exception)))?;
    if factory.is_object() {
        Ok(factory.unchecked_into())
    } else {
        Err(failure::absent())
    }
}

/// Opens a database at the version that `steps` lead to. The listener hears when somebody else closes it.
pub async fn open(
    name: &str,
    steps: &'static [Step],
    patience_ms: i32,
    listener: StorageListener,
) -> Result<Handle> {
    let version = u32::try_from(steps.len()).unwrap_or(u32::MAX);
    let request = factory()?
        .open_with_u32(name, version)
        .map_err(|exception| failure::of_open(&failure::of_js(&exception)))?;
    let opening = Rc::new(Opening {
        request: request.clone(),
        name: name.to_owned(),
        steps,
        listener,
        refused: RefCell::new(None),
        data_loss: RefCell::new(None),
        settled: Cell::new(false),
        answer: RefCell::new(None),
        waker: RefCell::new(None),
    });
    // Kept alive by the request: events come after the answer too.
    let listener = Closure::<dyn FnMut(JsValue)>::new({
        let opening = Rc::clone(&opening);
        move |event: JsValue| opening.happened(&event)
    });
    let listener: Function = listener.into_js_value().unchecked_into();
    request.set_onblocked(Some(&listener));
    request.set_onupgradeneeded(Some(&listener));
    request.set_onsuccess(Some(&listener));
    request.set_onerror(Some(&listener));
    // The timer calls without an event.
    let timer = set_timeout(&listener, patience_ms);
    let answer = opening.answer().await;
    clear_timeout(&timer);
    answer
}

/// An `open()` under way, and its answer: the first of success, failure, blocked, and too late.
struct Opening {
    request: IdbOpenDbRequest,
    name: String,
    steps: &'static [Step],
    listener: StorageListener,
    /// Why a step of the upgrade failed. The browser only says that the upgrade was aborted.
    refused: RefCell<Option<Error>>,
    data_loss: RefCell<Option<String>>,
    settled: Cell<bool>,
    answer: RefCell<Option<Result<Handle>>>,
    waker: RefCell<Option<Waker>>,
}

impl Opening {
    fn happened(&self, event: &JsValue) {
        let kind = event.dyn_ref::<Event>().map(Event::type_);
        self.settle(match kind.as_deref() {
            Some("upgradeneeded") => return self.upgrade(event.unchecked_ref()),
            // Whatever comes after the answer is dropped, and so closed.
            Some("success") => given(self.request.result()).map(|it| {
                Handle::new(
                    it.unchecked_into(),
                    Rc::clone(&self.listener),
                    self.data_loss.take(),
                )
            }),
            Some("error") => Err(self.failure()),
            _ => Err(failure::blocked(&self.name)),
        });
    }

    fn upgrade(&self, event: &IdbVersionChangeEvent) {
        let (Ok(database), Some(transaction)) = (self.request.result(), self.request.transaction()) else {
            return;
        };
        let upgrade = Upgrade {
            database: database.unchecked_into(),
            transaction,
        };
        // Chromium's own members.
        let said = |name| records::member(event, name).as_string();
        if said("dataLoss").as_deref() == Some("total") {
            self.data_loss.replace(said("dataLossMessage"));
        }
        let done = event.old_version() as usize;
        for step in self.steps.iter().skip(done) {
            if let Err(exception) = step(&upgrade) {
                self.refused.replace(Some(failure::of_js(&exception)));
                upgrade.transaction.abort().ok();
                return;
            }
        }
    }

    fn failure(&self) -> Error {
        let refused = self.refused.take();
        failure::of_open(&refused.unwrap_or_else(|| match self.request.error() {
            Ok(Some(exception)) => failure::of_exception(&exception),
            _ => failure::lost(),
        }))
    }

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

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

    use super::{open as opened, *};
    use crate::ErrorCode;

    wasm_bindgen_test_configure!(run_in_browser);

    const FIRST: Step = |upgrade| {
        let store = upgrade.database.create_object_store("things")?;
        store.put_with_key(&JsValue::from_str("kept"), &JsValue::from_str("k"))?;
        Ok(())
    };
    /// Reaches a store that an earlier version made.
    const SECOND: Step = |upgrade| {
        let store = upgrade.transaction.object_store("things")?;
        store.create_index_with_str("by_name", "name")?;
        Ok(())
    };
    const FAILING: Step = |upgrade| {
        upgrade.database.create_object_store("half")?;
        Err(js_sys::Error::new("the step failed").into())
    };

    async fn open(name: &str, steps: &'static [Step], patience_ms: i32) -> Result<Handle> {
        opened(name, steps, patience_ms, Rc::new(|_| {})).await
    }

    /// The same, and what it hears.
    async fn watched(name: &str, steps: &'static [Step]) -> (Handle, Rc<RefCell<Vec<StorageEvent>>>) {
        let heard = Rc::new(RefCell::new(Vec::new()));
        let listener = Rc::clone(&heard);
        let listener = Rc::new(move |event| listener.borrow_mut().push(event));
        (opened(name, steps, PATIENCE_MS, listener).await.unwrap(), heard)
    }

    async fn thing(handle: &Handle) -> Option<String> {
        let work = handle.read(&["things"]).unwrap();
        let store = work.store("things").unwrap();
        let asked = work.ask(store.get(&JsValue::from_str("k"))).unwrap();
        work.result(&asked).await.unwrap().as_string()
    }

    fn stores(handle: &Handle) -> Vec<String> {
        let names = handle.database.object_store_names();
        Array::from(&names)
            .iter()
            .filter_map(|name| name.as_string())
            .collect()
    }

    /// A connection of somebody who does not listen.
    fn deafen(handle: &Handle) {
        handle.database.set_onversionchange(None);
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
        let store = work.store("things").unwrap();
        assert!(store.index("by_name").is_ok());
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
        factory().unwrap().delete_database("stuck").unwrap();
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
        let (old, heard) = watched("polite", &[FIRST]).await;
        assert!(old.is_open());
        let new = open("polite", &[FIRST, SECOND], PATIENCE_MS).await.unwrap();
        assert!(!old.is_open());
        assert_eq!(*heard.borrow(), [StorageEvent::Upgraded]);
        assert!(new.is_open());
        let error = old.read(&["things"]).err().unwrap();
        assert_eq!(error.code(), ErrorCode::StorageLost);
        let error = open("polite", &[FIRST], PATIENCE_MS).await.err().unwrap();
        assert_eq!(error.code(), ErrorCode::StorageSchemaNewer);
    }

    #[wasm_bindgen_test]
    async fn a_forced_close_is_noticed_and_told_once() {
        let (handle, heard) = watched("forced", &[FIRST]).await;
        for _ in 0..2 {
            let close = web_sys::Event::new("close").unwrap();
            handle.database.dispatch_event(&close).unwrap();
        }
        assert!(!handle.is_open());
        assert_eq!(*heard.borrow(), [StorageEvent::Lost]);
    }

    #[wasm_bindgen_test]
    async fn a_connection_closes_for_a_deletion_and_says_so() {
        let (old, heard) = watched("deleted", &[FIRST]).await;
        factory().unwrap().delete_database("deleted").unwrap();
        let new = open("deleted", &[FIRST, SECOND], PATIENCE_MS).await.unwrap();
        assert_eq!((old.is_open(), new.is_open()), (false, true));
        assert_eq!(*heard.borrow(), [StorageEvent::Deleted]);
    }

    #[wasm_bindgen_test]
    async fn who_closes_a_connection_is_told_nothing() {
        let (handle, heard) = watched("closed", &[FIRST]).await;
        handle.close();
        drop(open("closed", &[FIRST, SECOND], PATIENCE_MS).await.unwrap());
        assert_eq!(*heard.borrow(), []);
    }

    #[wasm_bindgen_test]
    async fn a_dropped_transaction_keeps_nothing() {
        let handle = open("dropped", &[FIRST], PATIENCE_MS).await.unwrap();
        let work = handle.write(&["things"], Durability::Strict).unwrap();
        let store = work.store("things").unwrap();
        let put = store.put_with_key(&JsValue::from_str("changed"), &JsValue::from_str("k"));
        work.result(&work.ask(put).unwrap()).await.unwrap();
        drop(work);
        assert_eq!(thing(&handle).await.as_deref(), Some("kept"));
    }
}
