//! The gate as pure functions: the vectors, the index of a policy against a plain scan, and the `<permissions>` text
//! against what is decided.
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

mod ask;
mod length;
mod outright;
mod paths;
mod patterns;
#[path = "../lab/random.rs"]
mod random;
mod rules;
mod scan;
mod text;
mod vectors;
