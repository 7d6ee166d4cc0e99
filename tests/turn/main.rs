//! The turn: every row of the design's table, driven through `prompt` and through `begin`, and what is stored after each.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    missing_debug_implementations,
    reason = "a test fails by panicking, and is no library"
)]

#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

#[path = "../lab/mod.rs"]
pub mod lab;

mod abort;
mod callbacks;
mod expect;
mod interrupted;
mod refusals;
mod rows;
mod shown;
#[cfg(not(target_family = "wasm"))]
mod size;
mod writes;
