//! Exceptions of IndexedDB as typed errors. No JavaScript value leaves this module.

use wasm_bindgen::{JsCast, JsValue};
use web_sys::DomException;

use crate::{Error, ErrorCode, list::split_at_text, storage::unanswered};

/// The data field that tells an absent or forbidden IndexedDB from one that failed.
pub const UNAVAILABLE: &str = "unavailable";

/// What failed, by the name and the text that the browser gives.
fn classify(name: &str, text: &str) -> Error {
    let (code, message) = match name {
        "QuotaExceededError" => (
            ErrorCode::StorageQuota,
            "the storage quota of this site is used up; free some space, then save again",
        ),
        "VersionError" => (
            ErrorCode::StorageSchemaNewer,
            "the database was written by a newer version, or by another application; load the current version, or choose another `storage.name`",
        ),
        // Thrown by a connection that is closing, and the fate of a transaction that was not aborted by us.
        "InvalidStateError" | "AbortError" => return lost().with("cause", cause(name, text)),
        // WebKit has no name of its own for this one.
        "UnknownError" if mentions(text, "lost") => return lost().with("cause", cause(name, text)),
        "ConstraintError" => (
            ErrorCode::StorageFailed,
            "a record of the same key is stored already; nothing was saved",
        ),
        "DataCloneError" => (
            ErrorCode::StorageFailed,
            "a value cannot be stored; give plain data only; nothing was saved",
        ),
        "NotFoundError" => (
            ErrorCode::StorageFailed,
            "another application's database has this name; choose another `storage.name`",
        ),
        _ => (ErrorCode::StorageFailed, "the database failed; try again"),
    };
    Error::new(code, message).with("cause", cause(name, text))
}

fn mentions(text: &str, what: &str) -> bool {
    split_at_text(text, what).is_some()
}

fn cause(name: &str, text: &str) -> String {
    format!("{name}: {text}")
}

/// The connection is gone.
pub fn lost() -> Error {
    let message = "the connection to the database was lost; try again";
    Error::new(ErrorCode::StorageLost, message)
}

/// A database that does not open because somebody else is in its way.
pub fn blocked(name: &str) -> Error {
    let message = format!("another tab keeps the database `{name}` busy; close it, then try again");
    Error::new(ErrorCode::StorageBlocked, message)
}

/// A transaction that does not begin because somebody else is in its way.
pub fn waits(seconds: i32) -> Error {
    let text = format!(
        "the database gave no answer within {seconds} seconds, another tab may keep it busy; nothing was changed; try again"
    );
    unanswered(&text)
}

pub fn of_exception(exception: &DomException) -> Error {
    classify(&exception.name(), &exception.message())
}

/// Any thrown value.
pub fn of_js(value: &JsValue) -> Error {
    if let Some(exception) = value.dyn_ref::<DomException>() {
        return of_exception(exception);
    }
    match value.dyn_ref::<js_sys::Error>() {
        Some(error) => classify(&String::from(error.name()), &String::from(error.message())),
        None => classify("Error", "an exception that is no error"),
    }
}

/// What kept a database from opening, where IndexedDB itself answered.
pub fn of_open(error: &Error) -> Error {
    let cause = error
        .data()
        .get("cause")
        .and_then(|cause| cause.as_str())
        .unwrap_or_default();
    // Forbidden by the browser: a sandboxed or cross-site frame, site data turned off, an old private window.
    let forbidden = cause.starts_with("SecurityError")
        || cause.starts_with("InvalidStateError")
        || (cause.starts_with("UnknownError") && mentions(cause, "denied permission"));
    if forbidden {
        unavailable("the browser forbids IndexedDB here").with("cause", cause)
    } else {
        error.clone()
    }
}

/// There is no IndexedDB here.
pub fn absent() -> Error {
    unavailable("this environment has no IndexedDB")
}

fn unavailable(message: &str) -> Error {
    Error::new(ErrorCode::StorageFailed, message).with(UNAVAILABLE, true)
}
