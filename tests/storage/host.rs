//! Storage of the host passes what can be seen of any storage, on the adapter in memory that comes with the package.

use std::rc::Rc;

use runcontext::storage::{Storage, host::HostStorage, memory::Dump};
use wasm_bindgen::{JsValue, prelude::wasm_bindgen};

use crate::{
    conformance::{Place, answers},
    make::Body,
};

#[wasm_bindgen(module = "/tests/storage/raw.js")]
extern "C" {
    #[wasm_bindgen(js_name = watchedMemory)]
    fn watched_memory() -> JsValue;
    #[wasm_bindgen(js_name = dumpAdapter)]
    async fn dump(adapter: &JsValue) -> JsValue;
}

struct Host(JsValue);

impl Place for Host {
    async fn empty() -> Self {
        Self(watched_memory())
    }

    async fn open(&self) -> Rc<dyn Storage<Body>> {
        Rc::new(HostStorage::new(&self.0, "adapter").unwrap())
    }

    async fn dump(&self) -> Dump {
        let text = dump(&self.0).await.as_string().unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

answers!(Host);
