//! Storage: one suite that every kind of storage passes, and what only some of them can be asked.
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

mod conformance;
mod decision;
#[cfg(target_family = "wasm")]
mod host;
#[cfg(target_family = "wasm")]
mod indexed_db;
mod make;
mod memory;
