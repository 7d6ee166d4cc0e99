//! Where the store is tried: runtimes on one storage, with somebody who writes in between.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    pin::pin,
    rc::Rc,
    task::Poll,
};

use runcontext::{
    Error, ErrorCode, Result,
    permissions::PermissionChange,
    run_context::Defaults,
    runtime::{
        CompactionOptions, Parts, PermissionStore, Runtime, Signal, SkillOptions, ToolContext, Tools, World,
    },
    session::{Incoming, ToolCall},
    storage::{
        DirectoryStorage, LocalFuture, SessionStorage, SharedChange, SharedStorage, SharedWrite, Storage,
        StorageInfo, StoredApproval,
    },
};
use serde_json::Value;

/// A message's body, as storage of this target keeps it.
#[cfg(not(target_family = "wasm"))]
pub type Body = Value;
/// A message's body, as storage of this target keeps it.
#[cfg(target_family = "wasm")]
pub type Body = wasm_bindgen::JsValue;

/// A kind of storage, with records of its own.
pub trait Place: Sized {
    /// Nothing stored.
    fn empty() -> Self;
    /// One more connection to the same records.
    async fn connect(&self) -> Rc<dyn Storage<Body>>;

    /// One more runtime on them, and what happens around it.
    async fn open(&self) -> (Rc<Runtime<Body>>, Rc<Around>) {
        let around = Rc::new(Around {
            inner: self.connect().await,
            before_write: RefCell::default(),
            before_rules: RefCell::default(),
            broken: Cell::new(false),
            lists: Cell::new(0),
        });
        let parts = Parts {
            storage: Rc::new(Watched(around.clone())),
            tabs: None,
            world: Rc::new(Still),
            model: None,
            tools: Rc::new(Still),
            declarations: Vec::new(),
            strict: true,
            host: None,
            fold: |name| name.to_lowercase(),
            protected: vec!["secrets".to_owned()],
            defaults: Defaults::default(),
            data_dir: None,
            skills: SkillOptions::default(),
            count_tokens: None,
            compaction: CompactionOptions::default(),
        };
        (Runtime::open(parts).await.unwrap(), around)
    }
}

/// What happens around the storage of a runtime.
pub struct Around {
    pub inner: Rc<dyn Storage<Body>>,
    before_write: RefCell<Vec<Vec<SharedChange>>>,
    /// Somebody else writes this just before the runtime reads rules.
    pub before_rules: RefCell<Vec<SharedChange>>,
    pub broken: Cell<bool>,
    /// How often rules were read.
    pub lists: Cell<usize>,
}

impl Around {
    /// Somebody else writes this just before the next write of the runtime that is due to come.
    pub fn before_write(&self, changes: Vec<SharedChange>) {
        self.before_write.borrow_mut().push(changes);
    }

    /// Everything that is shared.
    pub async fn stored(&self) -> Vec<Vec<(String, Value)>> {
        let mut stored = Vec::new();
        for store in runcontext::storage::keys::SHARED {
            stored.push(self.inner.shared().list(store).await.unwrap());
        }
        stored
    }

    /// Writes past the runtime.
    pub async fn write(&self, changes: Vec<SharedChange>) {
        self.inner.shared().write(changes, None).await.unwrap();
    }
}

struct Watched(Rc<Around>);

impl Storage<Body> for Watched {
    fn info(&self) -> StorageInfo {
        self.0.inner.info()
    }

    fn session(&self, id: &str) -> Rc<dyn SessionStorage<Body>> {
        self.0.inner.session(id)
    }

    fn approvals(&self) -> LocalFuture<'_, Result<Vec<StoredApproval<Body>>>> {
        Box::pin(async { self.0.inner.approvals().await })
    }

    fn shared(&self) -> Rc<dyn SharedStorage> {
        Rc::new(WatchedShared(self.0.clone()))
    }

    fn directory(&self) -> Rc<dyn DirectoryStorage> {
        self.0.inner.directory()
    }

    fn close(&self) {
        self.0.inner.close();
    }
}

struct WatchedShared(Rc<Around>);

impl WatchedShared {
    /// Others get their turn first.
    async fn ready(&self) -> Result<Rc<dyn SharedStorage>> {
        let mut waited = false;
        poll_fn(|context| {
            if std::mem::replace(&mut waited, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        if self.0.broken.get() {
            return Err(Error::new(
                ErrorCode::StorageLost,
                "the cable was pulled; plug it in",
            ));
        }
        Ok(self.0.inner.shared())
    }
}

impl SharedStorage for WatchedShared {
    fn policy_version(&self) -> LocalFuture<'_, Result<u64>> {
        Box::pin(async move { self.ready().await?.policy_version().await })
    }

    fn get(&self, store: &str, key: &str) -> LocalFuture<'_, Result<Option<Value>>> {
        let (store, key) = (store.to_owned(), key.to_owned());
        Box::pin(async move { self.ready().await?.get(&store, &key).await })
    }

    fn list(&self, store: &str) -> LocalFuture<'_, Result<Vec<(String, Value)>>> {
        let store = store.to_owned();
        Box::pin(async move {
            if store == "approval_rules" {
                self.0.lists.set(self.0.lists.get() + 1);
                let first = self.0.before_rules.take();
                self.0.write(first).await;
            }
            self.ready().await?.list(&store).await
        })
    }

    fn write(
        &self,
        changes: Vec<SharedChange>,
        expected_policy_version: Option<u64>,
    ) -> LocalFuture<'_, Result<SharedWrite>> {
        Box::pin(async move {
            let shared = self.ready().await?;
            let first = self.0.before_write.borrow_mut().pop();
            if let Some(first) = first {
                shared.write(first, None).await?;
            }
            shared.write(changes, expected_policy_version).await
        })
    }
}

/// No clock, no tools.
struct Still;

impl World for Still {
    fn now(&self) -> f64 {
        0.0
    }

    fn new_id(&self) -> String {
        "id".to_owned()
    }

    fn spawn(&self, _: LocalFuture<'static, ()>) {}
}

impl Tools<Body> for Still {
    fn run(
        &self,
        _: ToolCall<Body>,
        _: ToolContext,
        _: Signal,
    ) -> LocalFuture<'_, std::result::Result<Incoming<Body>, Body>> {
        Box::pin(async { Err(Body::from("there are no tools")) })
    }
}

/// Runs two futures side by side.
pub async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    poll_fn(move |context| {
        if first.is_none()
            && let Poll::Ready(done) = a.as_mut().poll(context)
        {
            first = Some(done);
        }
        if second.is_none()
            && let Poll::Ready(done) = b.as_mut().poll(context)
        {
            second = Some(done);
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (first, second) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

/// Changes by their names.
pub trait Named {
    async fn done(&self, change: PermissionChange) -> Result<()>;
    async fn create_group(&self, group: &Value) -> Result<()> {
        self.done(PermissionChange::CreateGroup(group.clone())).await
    }
    async fn update_group(&self, id: &str, group: &Value) -> Result<()> {
        self.done(PermissionChange::UpdateGroup(id.to_owned(), group.clone()))
            .await
    }
    async fn delete_group(&self, id: &str) -> Result<()> {
        self.done(PermissionChange::DeleteGroup(id.to_owned())).await
    }
    async fn duplicate_group(&self, source: &str, to: &Value) -> Result<()> {
        self.done(PermissionChange::DuplicateGroup(source.to_owned(), to.clone()))
            .await
    }
    async fn add_rule(&self, rule: &Value) -> Result<i64>;
    async fn update_rule(&self, id: i64, rule: &Value) -> Result<()> {
        self.done(PermissionChange::UpdateRule(id, rule.clone())).await
    }
    async fn delete_rule(&self, id: i64) -> Result<()> {
        self.done(PermissionChange::DeleteRule(id)).await
    }
}

impl Named for PermissionStore {
    /// Only a rule that is added has an id to answer.
    async fn done(&self, change: PermissionChange) -> Result<()> {
        assert_eq!(self.change(&change).await?, None);
        Ok(())
    }

    async fn add_rule(&self, rule: &Value) -> Result<i64> {
        let added = self.change(&PermissionChange::AddRule(rule.clone())).await?;
        Ok(added.unwrap())
    }
}
