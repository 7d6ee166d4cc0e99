//! The life of a connection: opened when it is needed, forgotten when it is lost, and tried once more.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use wasm_bindgen::JsValue;

use super::{
    Durability,
    database::{self, Asked, Handle, PATIENCE_MS, Work},
    room,
    schema::STEPS,
};
use crate::{
    ErrorCode, Result,
    list::Listed,
    storage::{StorageEvent, StorageListener, closed},
};

/// Makes requests, all of them before the first is waited for.
pub type Ask<'a> = &'a dyn Fn(&Work) -> Result<Vec<Asked>>;

/// What to do with the results of requests.
pub type Then<'a> = &'a dyn Fn(&Work, Vec<JsValue>) -> Result<Next>;

/// What to do in one transaction. It may be done twice: where the connection is lost, the first attempt has come to
/// nothing, or is found by its operation id.
pub struct Task<'a> {
    pub stores: &'a [&'a str],
    pub writes: bool,
    pub ask: Ask<'a>,
    pub then: Then<'a>,
}

/// What comes after the results of requests.
pub enum Next {
    /// Nothing: what was read was read, and what was changed is taken back.
    Done,
    /// The changes that were asked for are kept.
    Commit,
    /// The same requests are answered once more: a cursor was moved.
    Again,
}

/// A database by its name. Neither a lost connection nor a failed attempt is remembered.
pub struct Connection {
    name: String,
    durability: Durability,
    current: RefCell<Option<Rc<Handle>>>,
    listener: Rc<RefCell<Option<StorageListener>>>,
    data_loss: RefCell<Option<String>>,
    closed: Cell<bool>,
}

impl Connection {
    /// Opens the database.
    pub async fn open(name: &str, durability: Durability) -> Result<Self> {
        let connection = Self {
            name: name.to_owned(),
            durability,
            current: RefCell::new(None),
            listener: Rc::default(),
            data_loss: RefCell::default(),
            closed: Cell::new(false),
        };
        match connection.handle().await {
            Ok(_) => Ok(connection),
            Err(error) => Err(room::measured(error).await),
        }
    }

    /// Tells what happens to the connection.
    pub fn watch(&self, listener: StorageListener) {
        self.listener.replace(Some(listener));
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the browser said of a loss.
    pub fn data_loss(&self) -> Option<String> {
        self.data_loss.borrow().clone()
    }

    /// Closes for good.
    pub fn close(&self) {
        self.closed.set(true);
        if let Some(handle) = self.current.take() {
            handle.close();
        }
    }

    /// Carries a task out; where the connection was lost, once more in a new one.
    pub async fn run(&self, task: &Task<'_>) -> Result<()> {
        let done = match self.attempt(task).await {
            Err(error) if error.code() == ErrorCode::StorageLost => self.attempt(task).await,
            first => first,
        };
        match done {
            Err(error) => Err(room::measured(error).await),
            Ok(()) => Ok(()),
        }
    }

    /// The results of the requests that `ask` makes, in one transaction.
    pub async fn read(&self, stores: &[&str], ask: Ask<'_>) -> Result<Vec<JsValue>> {
        let found = RefCell::new(Vec::new());
        let then = |_: &Work, results| {
            found.replace(results);
            Ok(Next::Done)
        };
        let writes = false;
        self.run(&Task {
            stores,
            writes,
            ask,
            then: &then,
        })
        .await?;
        Ok(found.take())
    }

    /// Makes the changes that `ask` asks for, in one transaction.
    pub async fn write(&self, stores: &[&str], ask: Ask<'_>) -> Result<()> {
        let writes = true;
        self.run(&Task {
            stores,
            writes,
            ask,
            then: &|_, _| Ok(Next::Commit),
        })
        .await
    }

    async fn attempt(&self, task: &Task<'_>) -> Result<()> {
        let handle = self.handle().await?;
        let done = self.carry_out(task, &handle).await;
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

    async fn carry_out(&self, task: &Task<'_>, handle: &Handle) -> Result<()> {
        let work = if task.writes {
            handle.write(task.stores, self.durability)?
        } else {
            handle.read(task.stores)?
        };
        let mut asked = (task.ask)(&work)?;
        work.begins(&asked).await?;
        loop {
            let results = work.results(&asked).await?;
            match (task.then)(&work, results)? {
                Next::Done => {
                    if !task.writes {
                        work.leave();
                    }
                    return Ok(());
                }
                Next::Commit => return work.commit().await,
                Next::Again => asked = asked.into_iter().map(Asked::again).listed(),
            }
        }
    }

    async fn handle(&self) -> Result<Rc<Handle>> {
        if let Some(handle) = self.usable()? {
            return Ok(handle);
        }
        let listener = Rc::clone(&self.listener);
        let tell: StorageListener = Rc::new(move |event| {
            let listener = listener.borrow().clone();
            if let Some(listener) = listener {
                listener(event);
            }
        });
        let opened = match database::open(&self.name, STEPS, PATIENCE_MS, Rc::clone(&tell)).await {
            Ok(opened) => Rc::new(opened),
            Err(error) => {
                if error.code() == ErrorCode::StorageBlocked {
                    tell(StorageEvent::Blocked);
                }
                return Err(error);
            }
        };
        if let Some(said) = opened.data_loss() {
            self.data_loss.replace(Some(said));
        }
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
