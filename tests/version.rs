//! The version that the package reports is the crate's.
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

use runcontext::ErrorCode;

#[test]
fn codes_have_distinct_texts() {
    let mut texts: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), ErrorCode::ALL.len());
}
