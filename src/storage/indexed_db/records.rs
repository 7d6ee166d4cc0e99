//! Records as JavaScript values. Metadata crosses as JSON text, so that every name is an own member and every number a
//! number; message bodies are put as they are.

use js_sys::{Array, JSON, Object, Reflect};
use serde::Serialize;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::IdbKeyRange;

use super::{database::given, failure};
use crate::{
    Error, Result,
    js::{
        json::json,
        plain::{json_of, refrozen},
    },
    list::Listed,
    message::MessageOutline,
    storage::{AppendedMessage, Damage, OutlinePack, StoredApproval, damaged, keys},
    untyped::FromJson,
};

/// A record made of metadata.
pub fn write(record: &impl Serialize) -> Result<JsValue> {
    parsed(&json(record))
}

/// Apart, because it is the same for every type of record. A text that the browser cannot read fails the commit.
fn parsed(text: &str) -> Result<JsValue> {
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
    T::from_json(&json_of(record), "record").map_err(|error| unreadable(session, &error))
}

fn unreadable(session: &str, error: &Error) -> Error {
    damaged(session, &format!("a record cannot be read ({error})"))
}

/// Reads what can be read, and takes down what cannot.
pub struct Kept<'a>(pub &'a mut Vec<Damage>);

impl Kept<'_> {
    /// The records of a list, which have the positions from 0 on.
    pub fn list<T: FromJson>(&mut self, store: &str, found: &JsValue) -> Vec<T> {
        let mut list = Vec::new();
        for record in self.in_place(store, "position", found) {
            match T::from_json(&json_of(&record), "record") {
                Ok(read) => list.push(read),
                Err(error) => self.damaged(store, &record, "position", &error.to_string()),
            }
        }
        list
    }

    /// The outlines of all packs. Where one is missing they are fewer than the messages.
    pub fn outlines(&mut self, found: &JsValue) -> Vec<MessageOutline> {
        let mut outlines = Vec::new();
        for pack in self.in_place(keys::OUTLINES, "pack", found) {
            let text = member(&pack, "outlines").as_string().unwrap_or_default();
            let read = JSON::parse(&text).unwrap_or_default();
            match Vec::<MessageOutline>::from_json(&json_of(&read), "outlines") {
                Ok(mut read) => outlines.append(&mut read),
                Err(error) => self.damaged(keys::OUTLINES, &pack, "pack", &error.to_string()),
            }
        }
        outlines
    }

    /// The records with a position. One that is not there is missed at the one behind it.
    fn in_place(&mut self, store: &str, name: &str, found: &JsValue) -> Vec<JsValue> {
        let mut records = Vec::new();
        let mut next = 0.0;
        for record in found.unchecked_ref::<Array>().iter() {
            match member(&record, name).as_f64() {
                Some(at) if at >= next && at.trunc() == at => {
                    if at > next {
                        self.damaged(store, &record, name, "what comes before it is missing");
                    }
                    next = at + 1.0;
                    records.push(record);
                }
                _ => self.damaged(store, &record, name, "it does not belong here"),
            }
        }
        records
    }

    fn damaged(&mut self, store: &str, record: &JsValue, name: &str, what: &str) {
        let key = member(record, name).as_f64().map(|key| key as u32);
        self.0.push(Damage::new(store, key, what));
    }
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
        ("outlines", json(&pack.outlines).into()),
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
