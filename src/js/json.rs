//! Our own types as JSON text. A writer that cannot fail, with nothing but one text to write to, is a third of
//! `serde_json`'s in the module: every type that is written brings code per field.

use std::fmt::{self, Display, Write};

use js_sys::JSON;
use serde::{
    Serialize,
    ser::{
        self, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
        SerializeTupleStruct, SerializeTupleVariant,
    },
};
use wasm_bindgen::JsValue;

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
    for c in value.chars() {
        match c {
            '"' | '\\' => {
                text.push('\\');
                text.push(c);
            }
            '\0'..' ' => escaped(text, c),
            _ => text.push(c),
        }
    }
    text.push('"');
}

fn escaped(text: &mut String, c: char) {
    // A text takes everything that is written to it.
    let _ = write!(text, "\\u{:04x}", c as u32);
}

/// Whole numbers; JavaScript reads those that it can hold.
fn integer(text: &mut String, value: i64) {
    let _ = write!(text, "{value}");
}

/// Other numbers as JavaScript writes them: the standard library's way costs 17 kB. What is no number is null.
fn float(text: &mut String, value: f64) {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
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
}
