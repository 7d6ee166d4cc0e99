//! The wasm-bindgen surface: one file per exported class, no decisions.
//!
//! Every argument is copied to plain data before anything else happens, and every method that waits returns a
//! promise that also carries what is wrong with the arguments.

mod approvals;
mod error;
mod foreign;
mod gate;
pub(crate) mod host;
mod http;
pub(crate) mod json;
mod permissions;
pub(crate) mod plain;
mod projects;
mod pure;
mod runtime;
mod session;
mod skills;
pub(crate) mod storage;
mod tabs;
mod transfer;
mod turn;
mod types;

use std::future::Future;

pub use approvals::ApprovalInbox;
pub use error::RunContextError;
pub use gate::*;
pub use permissions::PermissionStore;
pub use projects::{JobStore, ProjectStore};
pub use pure::*;
pub use runtime::Runtime;
pub use session::Session;
pub use skills::SkillCatalog;
pub use turn::Turn;

use js_sys::Promise;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};
use wasm_bindgen_futures::future_to_promise;

use crate::{Result, storage::LocalFuture};

/// Memory: two kilobytes of gzip smaller than the standard library's allocator.
#[global_allocator]
static ALLOCATOR: rlsf::SmallGlobalTlsf = rlsf::SmallGlobalTlsf::new();

/// The version of this module, which the loaders compare with the package's.
#[wasm_bindgen(js_name = "__moduleVersion", skip_typescript)]
pub fn module_version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// The promise of an operation whose arguments were read; a wrong argument rejects it.
fn promised<F: Future<Output = Result<JsValue>> + 'static>(operation: Result<F>) -> Promise {
    promised_for(JsValue::UNDEFINED, operation)
}

/// The same for what was typed: it is handed back where it is too large.
fn promised_for<F: Future<Output = Result<JsValue>> + 'static>(
    content: JsValue,
    operation: Result<F>,
) -> Promise {
    match operation {
        Ok(future) => boxed_promise(content, Box::pin(future)),
        Err(error) => Promise::reject(&JsValue::from(error)),
    }
}

/// Apart, so that the module holds the machinery of a promise once and not once per method.
fn boxed_promise(content: JsValue, future: LocalFuture<'static, Result<JsValue>>) -> Promise {
    future_to_promise(async move {
        let refused = |error| RunContextError::with_content(&error, &content).into();
        future.await.map_err(refused)
    })
}
