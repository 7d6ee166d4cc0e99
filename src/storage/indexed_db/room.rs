//! How much room there is, and whether the browser keeps it for us.

use js_sys::Promise;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};
use wasm_bindgen_futures::JsFuture;

use super::records::member;
use crate::{Error, ErrorCode, storage::Persistence};

#[wasm_bindgen(module = "/src/js/room.js")]
extern "C" {
    #[wasm_bindgen(js_name = "estimate")]
    fn js_estimate() -> Promise;
    #[wasm_bindgen(js_name = "persist")]
    fn js_persist() -> Promise;
}

async fn estimate() -> Persistence {
    let found = asked(js_estimate()).await;
    Persistence {
        persisted: false,
        usage: member(&found, "usage").as_f64(),
        quota: member(&found, "quota").as_f64(),
    }
}

/// Asks the browser to clear nothing by itself.
pub async fn persist() -> Persistence {
    Persistence {
        persisted: asked(js_persist()).await.is_truthy(),
        ..estimate().await
    }
}

/// Says of an error that the quota is used up what there is of it.
pub async fn measured(mut error: Error) -> Error {
    if error.code() == ErrorCode::StorageQuota {
        let Persistence { usage, quota, .. } = estimate().await;
        for (name, bytes) in [("usage", usage), ("quota", quota)] {
            if let Some(bytes) = bytes {
                error = error.with(name, bytes);
            }
        }
    }
    error
}

/// The promises never reject.
async fn asked(promise: Promise) -> JsValue {
    JsFuture::from(promise).await.unwrap_or_default()
}
