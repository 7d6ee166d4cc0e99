//! Reading untyped JSON from callers and stores: every refusal names the field.

use serde_json::{Map, Value};

use crate::{Error, Result};

/// The largest integer that a JavaScript number holds exactly.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// An error about one field, with the field's path as data.
pub(crate) fn field_error(path: &str, problem: &str) -> Error {
    Error::invalid(format!("`{path}` {problem}")).with("field", path)
}

/// The object at `path`.
pub(crate) fn object<'a>(value: &'a Value, path: &str) -> Result<&'a Map<String, Value>> {
    value
        .as_object()
        .ok_or_else(|| field_error(path, "must be an object"))
}

/// The array at `path`.
pub(crate) fn array<'a>(value: &'a Value, path: &str) -> Result<&'a Vec<Value>> {
    value
        .as_array()
        .ok_or_else(|| field_error(path, "must be an array"))
}

/// The string member `key` of the object at `path`.
pub(crate) fn string(object: &Map<String, Value>, path: &str, key: &str) -> Result<String> {
    match object.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(field_error(&join(path, key), "must be a string")),
    }
}

/// A member that may be absent. Stores that know no absent members write `null`, so that counts as absent too.
pub(crate) fn optional<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

/// The member `key` as an integer from `min` up. JSON has one kind of number, so `1.0` is an integer.
pub(crate) fn integer(object: &Map<String, Value>, path: &str, key: &str, min: u32) -> Result<u32> {
    object
        .get(key)
        .and_then(Value::as_f64)
        .filter(|number| number.fract() == 0.0 && *number >= f64::from(min) && *number <= f64::from(u32::MAX))
        .map(|number| number as u32)
        .ok_or_else(|| field_error(&join(path, key), &format!("must be an integer from {min} up")))
}

/// The member `key` as a time.
pub(crate) fn milliseconds(object: &Map<String, Value>, path: &str, key: &str) -> Result<f64> {
    let number = object.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN);
    check_milliseconds(number, &join(path, key))
}

/// A time as callers give it: an integer number of milliseconds from 0 up.
pub(crate) fn check_milliseconds(number: f64, path: &str) -> Result<f64> {
    if number.fract() == 0.0 && (0.0..=MAX_SAFE_INTEGER).contains(&number) {
        // Adding zero turns -0.0, which JSON text would keep, into 0.0.
        Ok(number + 0.0)
    } else {
        Err(field_error(
            path,
            "must be an integer number of milliseconds from 0 up",
        ))
    }
}

/// The path of a member.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Writes a time the way it was given: as an integer, not as `1.0`.
pub(crate) fn serialize_milliseconds<S: serde::Serializer>(number: &f64, to: S) -> Result<S::Ok, S::Error> {
    if number.fract() == 0.0 && (0.0..=MAX_SAFE_INTEGER).contains(number) {
        to.serialize_u64(*number as u64)
    } else {
        to.serialize_f64(*number)
    }
}
