//! What sessions share: groups and rules, projects, tickets and jobs, in every kind of storage, seen by several runtimes at a time.
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

mod place;
mod suite;
mod work;

use std::rc::Rc;

use runcontext::storage::{Storage, memory::MemoryStorage};

use crate::{
    place::{Body, Place},
    suite::suite,
};

struct Memory(MemoryStorage<Body>);

impl Place for Memory {
    fn empty() -> Self {
        Self(MemoryStorage::new())
    }

    async fn connect(&self) -> Rc<dyn Storage<Body>> {
        Rc::new(self.0.clone())
    }
}

mod in_memory {
    use super::{Memory, suite};
    suite!(Memory);
}

#[cfg(target_family = "wasm")]
mod in_indexed_db {
    use std::{
        rc::Rc,
        sync::atomic::{AtomicU32, Ordering},
    };

    use runcontext::storage::{
        Storage,
        indexed_db::{Durability, IndexedDb},
    };

    use super::{Body, Place, suite};

    struct Named(String);

    impl Place for Named {
        fn empty() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            Self(format!(
                "permissions-test-{}",
                NEXT.fetch_add(1, Ordering::Relaxed)
            ))
        }

        async fn connect(&self) -> Rc<dyn Storage<Body>> {
            Rc::new(IndexedDb::open(&self.0, Durability::Strict).await.unwrap())
        }
    }

    suite!(Named);
}
