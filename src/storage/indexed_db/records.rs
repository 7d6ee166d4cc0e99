//! Records as JavaScript values. Metadata crosses as JSON text, so that every name is an own member and every number a
//! number; message bodies are put as they are.

use js_sys::{Array, JSON, Object, Reflect};
use serde::Serialize;
use serde_json::Value;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::IdbKeyRange;

use super::{database::given, failure, packs};
use crate::{
    Error, Result,
    js::{
        json::{self, json},
        plain::{listed_text, record_text, refrozen},
    },
    list::Listed,
    message::MessageOutline,
    storage::{AppendedMessage, OutlinePack, StoredApproval, damaged, kept::Placed, listing::LISTED},
    untyped::FromJson,
};

/// A record made of metadata.
pub fn write(record: &impl Serialize) -> Result<JsValue> {
    parsed(&json(record))
}

/// A record that is text. A text that the browser cannot read fails the commit.
pub fn parsed(text: &str) -> Result<JsValue> {
    JSON::parse(text).map_err(|exception| failure::of_js(&exception))
}

/// One record of a list: its position, and what it holds.
pub fn positioned(session: &str, position: u32, record: &impl Serialize) -> Result<JsValue> {
    let record = write(record)?;
    set(&record, "sessionId", &session.into())?;
    set(&record, "position", &position.into())?;
    Ok(record)
}

/// A record of a session, read.
pub fn read<T: FromJson>(session: &str, record: &JsValue) -> Result<T> {
    T::from_json(&value_of(record), "record").map_err(|error| unreadable(session, &error))
}

fn value_of(record: &JsValue) -> Value {
    json_of(&record_text(record))
}

/// What a text of the browser's says; null where it could write none.
fn json_of(text: &JsValue) -> Value {
    let text = text.as_string().unwrap_or_default();
    json::read(&text).unwrap_or_default()
}

fn unreadable(session: &str, error: &Error) -> Error {
    damaged(session, &format!("a record cannot be read ({error})"))
}

/// Records of sessions as far as a list tells of them, in one text. Empty where one of them is no JSON.
pub fn listed(records: &Array) -> Vec<Value> {
    let settings = Array::new();
    for name in LISTED {
        settings.push(&JsValue::from_str(name));
    }
    match json_of(&listed_text(records, &settings)) {
        Value::Array(records) => records,
        _ => Vec::new(),
    }
}

/// Records that were found, each with the member that says its position.
pub fn placed(found: &JsValue) -> Placed<Value> {
    let found = found.unchecked_ref::<Array>().iter();
    found
        .map(|record| (member(&record, "position").as_f64(), value_of(&record)))
        .listed()
}

/// What packs say, each with the member that says which it is.
pub fn packs(found: &JsValue) -> Placed<Result<Vec<MessageOutline>>> {
    let found = found.unchecked_ref::<Array>().iter();
    found
        .map(|pack| {
            (
                member(&pack, "pack").as_f64(),
                packs::read(&member(&pack, "outlines")),
            )
        })
        .listed()
}

/// A message as it is stored.
pub fn message(session: &str, message: &AppendedMessage<JsValue>) -> Result<JsValue> {
    object(&[
        ("sessionId", session.into()),
        ("index", message.index.0.into()),
        ("body", message.body.clone()),
    ])
}

/// A pack of outlines as it is stored.
pub fn pack(session: &str, pack: &OutlinePack) -> Result<JsValue> {
    object(&[
        ("sessionId", session.into()),
        ("pack", pack.pack.into()),
        ("outlines", packs::write(&pack.outlines)),
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

/// An approval as it is stored. Its body is put as it is.
pub fn approval(session: &str, request: &str, version: u64, body: &JsValue) -> Result<JsValue> {
    object(&[
        ("sessionId", session.into()),
        ("requestId", request.into()),
        ("version", (version as f64).into()),
        ("approval", body.clone()),
    ])
}

/// The version of an approval; 0 where there is none.
pub fn version(record: &JsValue) -> u64 {
    let version = (!record.is_undefined()).then(|| member(record, "version").as_f64());
    version.flatten().unwrap_or_default() as u64
}

/// Approvals, read.
pub fn approvals(found: Option<&JsValue>) -> Vec<StoredApproval<JsValue>> {
    let records = found
        .and_then(|found| found.dyn_ref::<Array>())
        .map(Array::to_vec);
    let text = |record: &JsValue, name: &str| member(record, name).as_string().unwrap_or_default();
    let read = |record: JsValue| StoredApproval {
        session_id: text(&record, "sessionId"),
        id: text(&record, "requestId"),
        version: version(&record),
        body: refrozen(member(&record, "approval")),
    };
    records.into_iter().flatten().map(read).listed()
}

/// An object with these members.
pub fn object(members: &[(&str, JsValue)]) -> Result<JsValue> {
    let object = Object::new();
    for (name, value) in members {
        set(&object, name, value)?;
    }
    Ok(object.into())
}

fn set(object: &JsValue, name: &str, value: &JsValue) -> Result<()> {
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
pub fn of_session(session: &str) -> Result<JsValue> {
    let (first, last) = beginning(session);
    range(IdbKeyRange::bound(&first, &last))
}

/// A range of keys as it is given to a request.
pub fn range(made: std::result::Result<IdbKeyRange, JsValue>) -> Result<JsValue> {
    given(made).map(JsValue::from)
}
