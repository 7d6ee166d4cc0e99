//! The wasm-bindgen surface: one file per exported class, no decisions.

use wasm_bindgen::prelude::wasm_bindgen;

/// The version of this package, for example `0.1.0`.
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}
