//! Records as JavaScript values. Metadata crosses as JSON text, so that every name is an own member and every number a
//! number; message bodies are put as they are.

use indexed_db_futures::KeyRange;
use js_sys::{Array, JSON, Object, Reflect};
use serde::Serialize;
use wasm_bindgen::JsValue;

use super::failure;
use crate::{
    Result,
    js::plain::json_of,
    storage::{AppendedMessage, OutlinePack, damaged},
    untyped::FromJson,
};

/// A record made of metadata.
pub fn write(record: &impl Serialize) -> Result<JsValue> {
    JSON::parse(&json(record)?).map_err(|exception| failure::of_js(&exception))
}

fn json(value: &impl Serialize) -> Result<String> {
    // Only a map whose keys are no strings fails, and there is none.
    serde_json::to_string(value).map_err(|error| failure::of_js(&js_sys::Error::new(&error.to_string())))
}

/// A record of a session, read.
pub fn read<T: FromJson>(session: &str, record: &JsValue) -> Result<T> {
    T::from_json(&json_of(record), "record")
        .map_err(|error| damaged(session, &format!("a record cannot be read ({error})")))
}

/// JSON of a session, read.
pub fn parse<T: FromJson>(session: &str, text: &str) -> Result<T> {
    // What is no JSON reads as nothing, which is no record.
    read(session, &JSON::parse(text).unwrap_or_default())
}

/// A message as it is stored.
pub fn message(session: &str, message: &AppendedMessage<JsValue>) -> Result<JsValue> {
    object(&[
        ("sessionId", session.into()),
        ("index", message.index.0.into()),
        ("body", message.body.clone()),
    ])
}

/// A pack of outlines as it is stored: as text, which is cloned and read many times faster than an object tree.
pub fn pack(session: &str, pack: &OutlinePack) -> Result<JsValue> {
    object(&[
        ("sessionId", session.into()),
        ("pack", pack.pack.into()),
        ("outlines", json(&pack.outlines)?.into()),
    ])
}

/// A remembered operation as it is stored.
pub fn operation(session: &str, slot: u64, operation: &str) -> Result<JsValue> {
    object(&[
        ("sessionId", session.into()),
        ("slot", (slot as f64).into()),
        ("operationId", operation.into()),
    ])
}

fn object(members: &[(&str, JsValue)]) -> Result<JsValue> {
    let object = Object::new();
    for (name, value) in members {
        set(&object, name, value)?;
    }
    Ok(object.into())
}

fn set(object: &Object, name: &str, value: &JsValue) -> Result<()> {
    Reflect::set(object, &name.into(), value).map_err(|exception| failure::of_js(&exception))?;
    Ok(())
}

/// A member of a record, or undefined.
pub fn member(record: &JsValue, name: &str) -> JsValue {
    Reflect::get(record, &name.into()).unwrap_or_default()
}

/// The key of a record of a session.
pub fn key(session: &str, last: impl Into<JsValue>) -> JsValue {
    Array::of2(&session.into(), &last.into()).into()
}

/// Every key that begins with `first`: nothing sorts before the shorter list, and no key after the one that ends in a
/// list.
pub fn beginning(first: &str) -> (JsValue, JsValue) {
    (Array::of1(&first.into()).into(), key(first, Array::new()))
}

/// Every record of a session.
pub fn of_session(session: &str) -> KeyRange<JsValue> {
    let (first, last) = beginning(session);
    KeyRange::Bound(first, false, last, false)
}
