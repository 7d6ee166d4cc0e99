//! The life of a connection: opened when it is needed, forgotten when it is lost, and tried once more.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use super::{
    Durability,
    database::{self, Handle, PATIENCE_MS, Work},
    schema::STEPS,
};
use crate::{
    ErrorCode, Result,
    storage::{LocalFuture, closed},
};

/// A database by its name. Neither a lost connection nor a failed attempt is remembered.
pub struct Connection {
    name: String,
    durability: Durability,
    current: RefCell<Option<Rc<Handle>>>,
    closed: Cell<bool>,
}

impl Connection {
    /// Opens the database.
    pub async fn open(name: &str, durability: Durability) -> Result<Self> {
        let connection = Self {
            name: name.to_owned(),
            durability,
            current: RefCell::new(None),
            closed: Cell::new(false),
        };
        connection.handle().await?;
        Ok(connection)
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Closes for good.
    pub fn close(&self) {
        self.closed.set(true);
        if let Some(handle) = self.current.take() {
            handle.close();
        }
    }

    /// Does some work in a connection; where that was lost, once more in a new one. The work must be one transaction
    /// that can be repeated.
    pub async fn run<T>(&self, work: impl AsyncFn(&Handle) -> Result<T>) -> Result<T> {
        let done = RefCell::new(None);
        let attempt = |handle: Rc<Handle>| -> LocalFuture<'_, Result<()>> {
            Box::pin(async {
                let handle = handle;
                let result = work(&handle).await?;
                done.replace(Some(result));
                Ok(())
            })
        };
        self.repeat(&attempt).await?;
        done.take().ok_or_else(closed)
    }

    /// The part of it that is the same for every kind of work, and is there once.
    async fn repeat<'a>(
        &self,
        work: &'a (dyn Fn(Rc<Handle>) -> LocalFuture<'a, Result<()>> + 'a),
    ) -> Result<()> {
        let first = self.attempt(work).await;
        match first {
            Err(error) if error.code() == ErrorCode::StorageLost => self.attempt(work).await,
            first => first,
        }
    }

    /// Begins to write, as durably as this connection was asked to.
    pub fn write(&self, handle: &Handle, stores: &[&str]) -> Result<Work> {
        handle.write(stores, self.durability)
    }

    async fn attempt<'a>(
        &self,
        work: &'a (dyn Fn(Rc<Handle>) -> LocalFuture<'a, Result<()>> + 'a),
    ) -> Result<()> {
        let handle = self.handle().await?;
        let done = work(Rc::clone(&handle)).await;
        if done
            .as_ref()
            .is_err_and(|error| error.code() == ErrorCode::StorageLost)
        {
            let current = self
                .current
                .take()
                .filter(|current| !Rc::ptr_eq(current, &handle));
            self.current.replace(current);
        }
        done
    }

    async fn handle(&self) -> Result<Rc<Handle>> {
        if let Some(handle) = self.usable()? {
            return Ok(handle);
        }
        let opened = Rc::new(database::open(&self.name, STEPS, PATIENCE_MS).await?);
        // Somebody else may have been faster, or has closed.
        if let Some(handle) = self.usable()? {
            return Ok(handle);
        }
        self.current.replace(Some(Rc::clone(&opened)));
        Ok(opened)
    }

    fn usable(&self) -> Result<Option<Rc<Handle>>> {
        if self.closed.get() {
            return Err(closed());
        }
        Ok(self
            .current
            .borrow()
            .as_ref()
            .filter(|handle| handle.is_open())
            .cloned())
    }
}
