//! Outlines as they are stored: bytes, a tenth of their JSON text. What it takes to open a long session is the time that reading
//! its outlines takes.

use js_sys::Uint8Array;
use wasm_bindgen::{JsCast, JsValue};

use crate::{
    Result,
    js::json,
    message::{Answer, Call, MessageOutline, Role, StopKind, Usage},
    untyped::{FromJson, field_error},
};

const ROLES: [Role; 4] = [Role::User, Role::Assistant, Role::ToolResult, Role::Other];
const STOPS: [Option<StopKind>; 3] = [None, Some(StopKind::Error), Some(StopKind::Aborted)];

// What the first number of an outline says beside its role.
const USER_TURN: usize = 4;
const BYTES: usize = 8;
/// Times the place among the stops.
const STOP: usize = 16;
const USAGE: usize = 64;

/// A pack: of each outline its kind, the length of its text, its tokens, how many calls and how many answers it has; then what was
/// reported, where its kind says so: total, overhead and model; then the id and the name of each call, then the id and the name of
/// each answer and whether the tool failed.
pub fn write(outlines: &[MessageOutline]) -> JsValue {
    let mut bytes = Vec::new();
    for outline in outlines {
        let role = ROLES.iter().position(|role| *role == outline.role);
        let stop = STOPS.iter().position(|stop| *stop == outline.stop);
        let kind = role.unwrap_or_default()
            + usize::from(outline.user_turn) * USER_TURN
            + usize::from(outline.bytes) * BYTES
            + stop.unwrap_or_default() * STOP
            + usize::from(outline.usage.is_some()) * USAGE;
        for number in [
            kind,
            outline.text_len as usize,
            outline.tokens as usize,
            outline.calls.len(),
            outline.answers.len(),
        ] {
            put_number(&mut bytes, number);
        }
        if let Some(usage) = &outline.usage {
            put_number(&mut bytes, usage.total as usize);
            put_number(&mut bytes, usage.overhead as usize);
            put_text(&mut bytes, &usage.model);
        }
        for call in &outline.calls {
            put_text(&mut bytes, &call.id);
            put_text(&mut bytes, &call.name);
        }
        for answer in &outline.answers {
            put_text(&mut bytes, &answer.id);
            put_text(&mut bytes, &answer.name);
            put_number(&mut bytes, answer.is_error.into());
        }
    }
    Uint8Array::from(bytes.as_slice()).into()
}

/// Seven bits to a byte, the lowest first; the eighth says that more come.
fn put_number(bytes: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// UTF-8 behind its length.
fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_number(bytes, text.len());
    bytes.extend_from_slice(text.as_bytes());
}

/// The outlines of a pack. Before version 3 of the schema it was JSON text.
///
/// # Errors
/// `invalid_argument` for what is no pack.
pub fn read(pack: &JsValue) -> Result<Vec<MessageOutline>> {
    let Some(bytes) = pack.dyn_ref::<Uint8Array>() else {
        let text = pack.as_string().unwrap_or_default();
        return FromJson::from_json(&json::read(&text).unwrap_or_default(), "outlines");
    };
    let bytes = bytes.to_vec();
    let mut rest = Rest(&bytes);
    let mut outlines = Vec::new();
    while !rest.0.is_empty() {
        let outline = rest.outline();
        outlines.push(outline.ok_or_else(|| field_error("outlines", "must hold whole outlines"))?);
    }
    Ok(outlines)
}

/// What was not read yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn outline(&mut self) -> Option<MessageOutline> {
        let kind = self.number()?;
        let (text_len, tokens) = (self.count()?, self.count()?);
        let (calls, answers) = (self.number()?, self.number()?);
        let mut outline = MessageOutline {
            role: *ROLES.get(kind % ROLES.len())?,
            user_turn: kind & USER_TURN != 0,
            calls: Vec::new(),
            answers: Vec::new(),
            stop: *STOPS.get((kind & !USAGE) / STOP)?,
            text_len,
            tokens,
            usage: None,
            bytes: kind & BYTES != 0,
        };
        if kind & USAGE != 0 {
            outline.usage = Some(Usage {
                total: self.count()?,
                overhead: self.count()?,
                model: self.text()?,
            });
        }
        for _ in 0..calls {
            let (id, name) = (self.text()?, self.text()?);
            outline.calls.push(Call { id, name });
        }
        for _ in 0..answers {
            let (id, name) = (self.text()?, self.text()?);
            let is_error = self.number()? != 0;
            outline.answers.push(Answer { id, name, is_error });
        }
        Some(outline)
    }

    fn count(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn number(&mut self) -> Option<usize> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= usize::from(byte & 0x7f).checked_shl(shift)?;
            if *byte < 0x80 {
                return Some(number);
            }
            shift += 7;
        }
    }

    fn text(&mut self) -> Option<String> {
        let length = self.number()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(str::from_utf8(text).ok()?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

    use super::*;

    wasm_bindgen_test_configure!(run_in_browser);

    #[wasm_bindgen_test]
    fn outlines_are_the_bytes_that_the_schema_says() {
        let outlines = [
            MessageOutline {
                role: Role::Assistant,
                user_turn: false,
                calls: vec![Call {
                    id: "c1".to_owned(),
                    name: "é".to_owned(),
                }],
                answers: Vec::new(),
                stop: Some(StopKind::Aborted),
                text_len: 300,
                tokens: u32::MAX,
                usage: Some(Usage {
                    total: 128,
                    overhead: 0,
                    model: "p/m".to_owned(),
                }),
                bytes: true,
            },
            MessageOutline {
                role: Role::ToolResult,
                user_turn: true,
                calls: Vec::new(),
                answers: vec![Answer {
                    id: "c1".to_owned(),
                    name: String::new(),
                    is_error: true,
                }],
                stop: None,
                text_len: 0,
                tokens: 1,
                usage: None,
                bytes: false,
            },
        ];
        let mut bytes = vec![1 + 8 + 32 + 64, 0xac, 2, 0xff, 0xff, 0xff, 0xff, 15, 1, 0];
        bytes.extend([0x80, 1, 0, 3, b'p', b'/', b'm', 2, b'c', b'1', 2, 0xc3, 0xa9]);
        bytes.extend([2 + 4, 0, 1, 0, 1, 2, b'c', b'1', 0, 1]);
        let written: Uint8Array = write(&outlines).unchecked_into();
        assert_eq!(written.to_vec(), bytes);
        let stored = Uint8Array::from(bytes.as_slice()).into();
        assert_eq!(read(&stored), Ok(outlines.to_vec()));
    }
}
