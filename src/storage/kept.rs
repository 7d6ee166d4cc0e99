//! What is loaded of a session is judged here, whatever storage it comes from: what can be read is kept, and what cannot is
//! taken down.

use serde_json::Value;
use wasm_bindgen::JsValue;

use super::{Damage, SessionRecord, keys};
use crate::{
    Result,
    js::plain::{damaged_record, json_of},
    message::MessageOutline,
    untyped::FromJson,
};

/// Records of a list, each with its position as it is stored.
pub type Placed<T> = Vec<(Option<f64>, T)>;

/// What could not be kept.
#[derive(Default)]
pub struct Kept(pub Vec<Damage>);

impl Kept {
    /// The session's record; where it cannot be read, as much of it as can.
    pub fn record(&mut self, read: Result<SessionRecord>, found: &JsValue) -> Result<SessionRecord> {
        read.or_else(|error| {
            self.0.push(Damage::new(keys::SESSIONS, None, error));
            SessionRecord::from_json(&json_of(&damaged_record(found)), "record")
        })
    }

    /// The records of a list, which have the positions from 0 on.
    pub fn list<T: FromJson>(&mut self, store: &str, found: Placed<Value>) -> Vec<T> {
        let mut list = Vec::new();
        for (at, record) in self.in_place(store, found) {
            match T::from_json(&record, "record") {
                Ok(read) => list.push(read),
                Err(error) => self.0.push(Damage::new(store, Some(at), error)),
            }
        }
        list
    }

    /// The outlines of all packs. Where one is missing they are fewer than the messages.
    pub fn outlines(&mut self, found: Placed<Result<Vec<MessageOutline>>>) -> Vec<MessageOutline> {
        let mut outlines = Vec::new();
        for (at, pack) in self.in_place(keys::OUTLINES, found) {
            match pack {
                Ok(mut pack) => outlines.append(&mut pack),
                Err(error) => self.0.push(Damage::new(keys::OUTLINES, Some(at), error)),
            }
        }
        outlines
    }

    /// The records in their places. One that is not there is missed at the one behind it.
    fn in_place<T>(&mut self, store: &str, found: Placed<T>) -> Vec<(u32, T)> {
        let mut records = Vec::new();
        let mut next = 0.0;
        for (at, record) in found {
            let key = at.map(|at| at as u32);
            match (at, key) {
                (Some(at), Some(key)) if at >= next && at.trunc() == at => {
                    if at > next {
                        self.0
                            .push(Damage::new(store, Some(key), "what comes before it is missing"));
                    }
                    next = at + 1.0;
                    records.push((key, record));
                }
                _ => self.0.push(Damage::new(store, key, "it does not belong here")),
            }
        }
        records
    }
}
