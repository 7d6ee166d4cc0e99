//! Errors as JavaScript sees them.

use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::plain;
use crate::{Error, ErrorCode, message::MessageData};

#[wasm_bindgen(module = "/src/js/shim.js")]
extern "C" {
    /// The class of every error that this package throws.
    #[derive(Clone, Debug)]
    pub type RunContextError;

    #[wasm_bindgen(constructor)]
    fn new(code: &str, message: &str, data: JsValue) -> RunContextError;
}

impl From<&Error> for RunContextError {
    fn from(error: &Error) -> Self {
        Self::with_content(error, &JsValue::UNDEFINED)
    }
}

impl RunContextError {
    /// An error that hands back what was typed, where that is too large.
    pub(super) fn with_content(error: &Error, content: &JsValue) -> Self {
        let mut data = plain::to_js(error.data());
        if error.code() == ErrorCode::BudgetExceeded && !content.is_undefined() {
            data = data.with_field("content", content.clone());
        }
        Self::new(error.code().as_str(), error.message(), data)
    }
}

impl From<Error> for JsValue {
    fn from(error: Error) -> Self {
        RunContextError::from(&error).into()
    }
}

#[wasm_bindgen(typescript_custom_section)]
const CODES: &str = crate::error::CODES_IN_TYPESCRIPT;

#[wasm_bindgen(typescript_custom_section)]
const CLASS: &str = "
/** Every error of this package. `message` says what to do next. */
export class RunContextError extends Error {
    private constructor();
    /** Which one. */
    readonly code: RunContextErrorCode;
    /** The fields of this code. */
    readonly data: Record<string, unknown>;
}
";
