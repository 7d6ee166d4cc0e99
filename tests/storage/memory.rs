//! Memory passes the suite.

use std::rc::Rc;

use runcontext::storage::{
    Storage,
    memory::{Dump, MemoryStorage},
};

use crate::{
    conformance::{Place, conformance},
    make::{Body, seen},
};

struct Memory(MemoryStorage<Body>);

impl Place for Memory {
    async fn empty() -> Self {
        Self(MemoryStorage::new())
    }

    async fn open(&self) -> Rc<dyn Storage<Body>> {
        Rc::new(self.0.clone())
    }

    async fn dump(&self) -> Dump {
        self.0.dump(seen)
    }
}

conformance!(Memory);
