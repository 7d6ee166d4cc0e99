//! Our own types as JSON text. A writer that cannot fail, with nothing but one text to write to, is a third of
//! `serde_json`'s in the module: every type that is written brings code per field. And a reader of what that writer or the
//! browser wrote: one text crosses faster than every value of a record.

use std::fmt::{self, Display, Write};

use js_sys::JSON;
use serde::{
    Serialize,
    ser::{
        self, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
        SerializeTupleStruct, SerializeTupleVariant,
    },
};
use serde_json::{Map, Value};
use wasm_bindgen::JsValue;

use crate::message::MessageData;

/// A value as JSON text.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> String {
    let mut text = String::new();
    let Ok(()) = value.serialize(Json(&mut text));
    text
}

/// What is never wrong with our types: they hold what JSON holds, and the keys of their maps are texts.
#[derive(Debug)]
enum Never {}

impl Display for Never {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for Never {}

impl ser::Error for Never {
    fn custom<T: Display>(_: T) -> Self {
        // No type of this crate refuses to be written.
        std::process::abort()
    }
}

type Written = Result<(), Never>;

/// Writes one value.
struct Json<'a>(&'a mut String);

/// Writes the parts of a list or an object.
struct Parts<'a> {
    text: &'a mut String,
    empty: bool,
    /// What closes it.
    end: &'static str,
}

impl<'a> Parts<'a> {
    fn list(text: &'a mut String) -> Self {
        text.push('[');
        Self {
            text,
            empty: true,
            end: "]",
        }
    }

    fn object(text: &'a mut String) -> Self {
        text.push('{');
        Self {
            text,
            empty: true,
            end: "}",
        }
    }

    /// The list or object of an enum's variant, which stands in an object under the variant's name.
    fn variant(text: &'a mut String, name: &str, open: char, end: &'static str) -> Self {
        text.push('{');
        string(text, name);
        text.push(':');
        text.push(open);
        Self {
            text,
            empty: true,
            end,
        }
    }

    fn next(&mut self) -> Json<'_> {
        if !self.empty {
            self.text.push(',');
        }
        self.empty = false;
        Json(self.text)
    }

    fn member(&mut self, name: &str) -> Json<'_> {
        string(self.next().0, name);
        self.value()
    }

    fn value(&mut self) -> Json<'_> {
        self.text.push(':');
        Json(self.text)
    }

    fn close(self) {
        self.text.push_str(self.end);
    }
}

fn string(text: &mut String, value: &str) {
    text.push('"');
    let mut written = 0;
    for (at, byte) in value.bytes().enumerate() {
        if !matches!(byte, b'"' | b'\\' | 0..b' ') {
            continue;
        }
        text.push_str(value.get(written..at).unwrap_or_default());
        written = at + 1;
        if byte < b' ' {
            // A text takes everything that is written to it.
            let _ = write!(text, "\\u{byte:04x}");
        } else {
            text.push('\\');
            text.push(byte.into());
        }
    }
    text.push_str(value.get(written..).unwrap_or_default());
    text.push('"');
}

/// Whole numbers; JavaScript reads those that it can hold.
fn integer(text: &mut String, value: i64) {
    let _ = write!(text, "{value}");
}

/// Other numbers as JavaScript writes them: the standard library's way costs 17 kB. What is no number is null.
fn float(text: &mut String, value: f64) {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return integer(text, value as i64);
    }
    let written = JSON::stringify(&JsValue::from_f64(value));
    text.push_str(&written.map(String::from).unwrap_or_default());
}

impl<'a> ser::Serializer for Json<'a> {
    type Ok = ();
    type Error = Never;
    type SerializeSeq = Parts<'a>;
    type SerializeTuple = Parts<'a>;
    type SerializeTupleStruct = Parts<'a>;
    type SerializeTupleVariant = Parts<'a>;
    type SerializeMap = Parts<'a>;
    type SerializeStruct = Parts<'a>;
    type SerializeStructVariant = Parts<'a>;

    fn serialize_bool(self, value: bool) -> Written {
        self.0.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Written {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Written {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Written {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Written {
        integer(self.0, value);
        Ok(())
    }

    fn serialize_u8(self, value: u8) -> Written {
        self.serialize_i64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Written {
        self.serialize_i64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Written {
        self.serialize_i64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Written {
        match i64::try_from(value) {
            Ok(value) => self.serialize_i64(value),
            Err(_) => self.serialize_f64(value as f64),
        }
    }

    fn serialize_f32(self, value: f32) -> Written {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Written {
        float(self.0, value);
        Ok(())
    }

    fn serialize_char(self, value: char) -> Written {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Written {
        string(self.0, value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Written {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Written {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Written {
        self.0.push_str("null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Written {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Written {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Written {
        let mut parts = Parts::object(self.0);
        value.serialize(parts.member(variant))?;
        parts.close();
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Parts<'a>, Never> {
        Ok(Parts::list(self.0))
    }

    fn serialize_tuple(self, _: usize) -> Result<Parts<'a>, Never> {
        Ok(Parts::list(self.0))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Parts<'a>, Never> {
        Ok(Parts::list(self.0))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Parts<'a>, Never> {
        Ok(Parts::variant(self.0, variant, '[', "]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Parts<'a>, Never> {
        Ok(Parts::object(self.0))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Parts<'a>, Never> {
        Ok(Parts::object(self.0))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Parts<'a>, Never> {
        Ok(Parts::variant(self.0, variant, '{', "}}"))
    }
}

impl SerializeMap for Parts<'_> {
    type Ok = ();
    type Error = Never;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Written {
        key.serialize(self.next())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        value.serialize(self.value())
    }

    fn end(self) -> Written {
        self.close();
        Ok(())
    }
}

/// The traits of `serde` for the parts of lists.
macro_rules! of_lists {
    ($($trait:ident::$method:ident)*) => {$(
        impl $trait for Parts<'_> {
            type Ok = ();
            type Error = Never;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
                value.serialize(self.next())
            }

            fn end(self) -> Written {
                self.close();
                Ok(())
            }
        }
    )*};
}

of_lists! {
    SerializeSeq::serialize_element
    SerializeTuple::serialize_element
    SerializeTupleStruct::serialize_field
    SerializeTupleVariant::serialize_field
}

/// The traits of `serde` for the fields of structs.
macro_rules! of_structs {
    ($($trait:ident)*) => {$(
        impl $trait for Parts<'_> {
            type Ok = ();
            type Error = Never;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Written {
                value.serialize(self.member(name))
            }

            fn end(self) -> Written {
                self.close();
                Ok(())
            }
        }
    )*};
}

of_structs! { SerializeStruct SerializeStructVariant }

/// What JSON text without spaces between its parts says; nothing where it is none, or nested deeper than anything of ours.
pub(crate) fn read(text: &str) -> Option<Value> {
    let mut text = Text { text, at: 0 };
    let value = text.value(128)?;
    (text.at == text.text.len()).then_some(value)
}

/// JSON text that is read, and how far.
struct Text<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Text<'a> {
    fn next(&mut self) -> Option<u8> {
        let next = self.text.as_bytes().get(self.at).copied();
        self.at += 1;
        next
    }

    fn value(&mut self, depth: u8) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        match self.next()? {
            b'"' => self.string().map(Value::String),
            b'[' => {
                let mut items = Vec::new();
                while self.goes_on(items.is_empty(), b']')? {
                    items.push(self.value(depth)?);
                }
                Some(Value::Array(items))
            }
            b'{' => {
                let mut members = Map::new();
                while self.goes_on(members.is_empty(), b'}')? {
                    let name = (self.next()? == b'"').then(|| self.string())??;
                    let value = (self.next()? == b':').then(|| self.value(depth))??;
                    members.insert(name, value);
                }
                Some(Value::Object(members))
            }
            _ => {
                self.at -= 1;
                self.word()
            }
        }
    }

    /// Whether a list or an object goes on with another part.
    fn goes_on(&mut self, first: bool, end: u8) -> Option<bool> {
        match self.next()? {
            next if next == end => Some(false),
            b',' if !first => Some(true),
            _ if first => {
                self.at -= 1;
                Some(true)
            }
            _ => None,
        }
    }

    /// Passes what is before a byte that `ends` it, and gives that.
    fn pass(&mut self, ends: impl Fn(u8) -> bool) -> &'a str {
        let from = self.at;
        while self.text.as_bytes().get(self.at).is_some_and(|byte| !ends(*byte)) {
            self.at += 1;
        }
        self.text.get(from..self.at).unwrap_or_default()
    }

    /// The rest of a string. One with escapes is left to the browser.
    fn string(&mut self) -> Option<String> {
        let ends = |byte| byte == b'"' || byte == b'\\';
        let from = self.at - 1;
        let plain = self.pass(ends);
        if self.next()? == b'"' {
            return Some(plain.to_owned());
        }
        loop {
            // What is escaped.
            self.at += 1;
            self.pass(ends);
            if self.next()? == b'"' {
                return JSON::parse(self.text.get(from..self.at)?).ok()?.as_string();
            }
        }
    }

    /// A number or a name. A number that is no short integer is left to the browser.
    fn word(&mut self) -> Option<Value> {
        let word = self.pass(|byte| matches!(byte, b',' | b']' | b'}'));
        match word {
            "null" => return Some(Value::Null),
            "true" => return Some(Value::Bool(true)),
            "false" => return Some(Value::Bool(false)),
            _ => {}
        }
        let mut integer = 0;
        for byte in word.bytes() {
            if !byte.is_ascii_digit() || word.len() > 15 {
                return JSON::parse(word).ok()?.as_f64().map(Value::from_number);
            }
            integer = integer * 10 + u64::from(byte - b'0');
        }
        (!word.is_empty()).then(|| Value::from(integer))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

    use super::*;

    wasm_bindgen_test_configure!(run_in_browser);

    #[derive(Serialize)]
    enum Shape {
        Unit,
        Newtype(u8),
        Tuple(u8, char),
        Struct { field: Option<()> },
    }

    /// What is written is read as what `serde_json` would have written.
    fn same(value: &(impl Serialize + ?Sized)) {
        let read: Value = serde_json::from_str(&json(value)).unwrap();
        assert_eq!(read, serde_json::to_value(value).unwrap());
    }

    #[wasm_bindgen_test]
    fn what_is_written_reads_as_what_serde_json_writes() {
        same(&json!({ "a": [1, -2, 0.5, 1e300, null, true, false, "t"], "": {}, "__proto__": [] }));
        same(&(1u8, "tuple", [Some(2i16), None]));
        same(&[
            Shape::Unit,
            Shape::Newtype(1),
            Shape::Tuple(2, 'x'),
            Shape::Struct { field: None },
        ]);
        let every: String = (0..=0x10_ffff).filter_map(char::from_u32).collect();
        same(every.as_str());
    }

    #[wasm_bindgen_test]
    fn numbers_are_written_as_javascript_writes_them() {
        let texts = [
            (json(&1.0), "1"),
            (json(&0.1), "0.1"),
            (json(&f64::NAN), "null"),
            (json(&f64::INFINITY), "null"),
            (json(&i64::MIN), "-9223372036854775808"),
            (json(&u64::MAX), "18446744073709552000"),
        ];
        for (written, expected) in texts {
            assert_eq!(written, expected);
        }
    }
    #[wasm_bindgen_test]
    fn what_the_browser_writes_is_read_as_serde_json_reads_it() {
        let texts = r#"null true false 0 7 -7 0.5 -0 1e300 999999999999999 9007199254740992 "" "a\"b\\" "\u0000\n\t\/" "\ud83d\ude00" "é😀" [] {} [[],[[1]]] [1,"two",null,{"a":[{}],"":0,"__proto__":{"b":false}}] {"a\\":1,"a":2}"#;
        for text in texts.split(' ') {
            let expected: Value = serde_json::from_str(text).unwrap();
            let found = read(text).unwrap();
            assert_eq!(json(&found), json(&expected), "{text}");
        }
        // Half of a pair is what a text with it becomes.
        assert_eq!(read(r#""a\ud800""#), Some(json!("a\u{fffd}")));
        assert_eq!(
            read(&format!("{}1{}", "[".repeat(127), "]".repeat(127))).map(|_| ()),
            Some(())
        );
    }

    #[wasm_bindgen_test]
    fn what_is_no_json_text_is_nothing() {
        let texts = r#" 1, nul nulll tru 0x10 --1 [ ] [1 [1, [1,] [,1] [1"a"] [1} { } {1:2} {"a"} {"a":} {"a":1,} {,"a":1} {"a":1] " "a "a\ "a\" "\x" "a"b undefined NaN"#;
        for text in texts.split(' ') {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read(&"[".repeat(1_000_000)), None);
        assert_eq!(read(&format!("{}1{}", "[".repeat(128), "]".repeat(128))), None);
    }
}
