//! The wasm-bindgen surface: one file per exported class, no decisions.

mod error;

pub use error::RunContextError;

use wasm_bindgen::prelude::wasm_bindgen;

/// The version of this module, which the loaders compare with the package's.
#[wasm_bindgen(js_name = "__moduleVersion", skip_typescript)]
pub fn module_version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}
