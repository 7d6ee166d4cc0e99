//! Plain data as JavaScript values: copied and frozen on their way in, read without running foreign code.

use js_sys::{Array, Function, Uint8Array};
use serde::Serialize;
use serde_json::{Map, Value};
use wasm_bindgen::prelude::{JsCast, JsValue, wasm_bindgen};

use super::json::json;
use crate::{
    Error, ErrorCode, Result,
    list::Listed,
    message::{Kind, MessageData, MessageView},
    session::Incoming,
    untyped::field_error,
};

#[wasm_bindgen(module = "/src/js/plain.js")]
extern "C" {
    #[wasm_bindgen(js_name = "copyIn")]
    fn js_copy_in(source: &JsValue, name: &str, degrade: bool) -> Array;
    #[wasm_bindgen(js_name = "refrozen")]
    fn js_refrozen(value: JsValue) -> JsValue;
    #[wasm_bindgen(js_name = "copyOut")]
    fn js_copy_out(value: &JsValue) -> JsValue;
    #[wasm_bindgen(js_name = "hasBytes")]
    fn js_has_bytes(value: &JsValue) -> bool;
    #[wasm_bindgen(js_name = "kind")]
    fn js_kind(value: &JsValue) -> u8;
    #[wasm_bindgen(js_name = "text")]
    fn js_text(value: &JsValue) -> Option<String>;
    #[wasm_bindgen(js_name = "notUnicode")]
    fn js_not_unicode(value: &JsValue, path: &str) -> Option<String>;
    #[wasm_bindgen(js_name = "length")]
    fn js_length(value: &JsValue) -> u32;
    #[wasm_bindgen(js_name = "tokens")]
    fn js_tokens(value: &JsValue) -> u32;
    #[wasm_bindgen(js_name = "field")]
    fn js_field(value: &JsValue, name: &str) -> JsValue;
    #[wasm_bindgen(js_name = "keys")]
    fn js_keys(value: &JsValue) -> Array;
    #[wasm_bindgen(js_name = "field")]
    fn js_value(value: &JsValue, name: &JsValue) -> JsValue;
    #[wasm_bindgen(js_name = "jsonText")]
    fn js_json_text(value: &JsValue) -> JsValue;
    #[wasm_bindgen(js_name = "parsed")]
    fn js_parsed(text: &JsValue) -> JsValue;
    #[wasm_bindgen(js_name = "joined")]
    fn js_joined(parts: &Array, separator: &str) -> JsValue;
    #[wasm_bindgen(js_name = "list")]
    fn js_list(items: &Array) -> JsValue;
    #[wasm_bindgen(js_name = "growing")]
    fn js_growing() -> JsValue;
    #[wasm_bindgen(js_name = "add")]
    fn js_add(growing: &JsValue, messages: &Array);
    #[wasm_bindgen(js_name = "handedOut")]
    fn js_handed_out(growing: &JsValue) -> JsValue;
    #[wasm_bindgen(js_name = "lazily")]
    fn js_lazily(object: &JsValue, names: &str, maker: Maker) -> JsValue;
    #[wasm_bindgen(js_name = "object")]
    fn js_object(entries: &Array) -> JsValue;
    #[wasm_bindgen(js_name = "withField")]
    fn js_with_field(value: &JsValue, name: &str, inner: &JsValue) -> JsValue;
    #[wasm_bindgen(js_name = "isBytes")]
    fn js_is_bytes(value: &JsValue) -> bool;
    #[wasm_bindgen(js_name = "iso")]
    fn js_iso(time: f64) -> JsValue;
    #[wasm_bindgen(js_name = "monotonic")]
    fn js_monotonic() -> Option<f64>;
    #[wasm_bindgen(js_name = "fold")]
    fn js_fold(text: &str) -> String;
    #[wasm_bindgen(js_name = "errorText")]
    fn js_error_text(error: &JsValue) -> String;
    #[wasm_bindgen(js_name = "errorText")]
    pub(super) fn error_value(error: &JsValue) -> JsValue;
    #[wasm_bindgen(js_name = "intact")]
    pub(super) fn intact(copy: &JsValue, value: &JsValue) -> bool;
    #[wasm_bindgen(js_name = "bytesOf")]
    fn js_bytes_of(value: &JsValue) -> Uint8Array;
    #[wasm_bindgen(js_name = "damagedRecord")]
    pub(crate) fn damaged_record(record: &JsValue) -> JsValue;
    #[wasm_bindgen(js_name = "recordText")]
    pub(crate) fn record_text(record: &JsValue) -> JsValue;
    #[wasm_bindgen(js_name = "listedText")]
    pub(crate) fn listed_text(records: &Array, settings: &Array) -> JsValue;
    #[wasm_bindgen(js_name = "hear")]
    pub(super) fn hear(listener: &Function, event: &JsValue, failed: &JsValue);
}

/// What a thrown value says.
pub(super) fn error_text(error: &JsValue) -> String {
    js_error_text(error)
}

/// Milliseconds by a clock that nobody can set.
pub(super) fn monotonic() -> Option<f64> {
    js_monotonic()
}

/// Text as names are compared, see [`crate::paths::Fold`].
pub(super) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    js_fold(text)
}

/// A time in ISO 8601.
pub(super) fn iso(time: f64) -> JsValue {
    js_iso(time)
}

/// The bytes of a `Uint8Array`, whoever made it.
///
/// # Errors
/// `invalid_argument` for more than 32 MiB.
pub(super) fn bytes_in(value: &JsValue, path: &str) -> Result<Option<Vec<u8>>> {
    if !js_is_bytes(value) {
        return Ok(None);
    }
    let bytes = js_bytes_of(value);
    super::foreign::check_length(bytes.length() as usize, path)?;
    Ok(Some(bytes.to_vec()))
}

/// What came out of a database, frozen as it was when it went in.
pub(crate) fn refrozen(value: JsValue) -> JsValue {
    js_refrozen(value)
}

/// A copy whose byte strings are copies too.
pub(super) fn copy_out(value: &JsValue) -> JsValue {
    js_copy_out(value)
}

/// Copies a message; what is not plain data refuses the whole.
pub(super) fn message_in(source: &JsValue, name: &str) -> Result<JsValue> {
    Ok(copied(source, name, false)?.body)
}

/// Copies a message of a running turn; what is not plain data becomes `null` and is listed.
pub(super) fn incoming(source: &JsValue, name: &str) -> Result<Incoming<JsValue>> {
    copied(source, name, true)
}

fn copied(source: &JsValue, name: &str, degrade: bool) -> Result<Incoming<JsValue>> {
    let outcome = js_copy_in(source, name, degrade);
    if let (Some(path), Some(why)) = (outcome.get(2).as_string(), outcome.get(3).as_string()) {
        return Err(Error::new(ErrorCode::MessageNotStorable, format!("`{path}` {why}")).with("path", path));
    }
    let paths: Array = outcome.get(1).unchecked_into();
    Ok(Incoming {
        body: outcome.get(0),
        degraded: paths.iter().filter_map(|path| path.as_string()).listed(),
        failed: false,
        tokens: None,
    })
}

/// Copies options or metadata: plain data without byte strings whose texts are well-formed Unicode.
pub(super) fn metadata_in(source: &JsValue, name: &str) -> Result<JsValue> {
    let copy = message_in(source, name).map_err(|error| {
        let path = error.data().get("path").cloned().unwrap_or_default();
        Error::invalid(error.message().to_owned()).with("field", path)
    })?;
    if let Some(path) = js_not_unicode(&copy, name) {
        let text = format!("`{path}` holds half of a surrogate pair; pass well-formed text");
        return Err(Error::invalid(text).with("field", path));
    }
    if js_has_bytes(&copy) {
        return Err(field_error(name, "holds bytes; pass text and numbers"));
    }
    Ok(copy)
}

/// The same as JSON; what is absent is `null`.
pub(super) fn json_in(source: &JsValue, name: &str) -> Result<Value> {
    if source.is_undefined() {
        return Ok(Value::Null);
    }
    Ok(json_of(&metadata_in(source, name)?))
}

/// Plain data as JSON. Walking a value costs the module a tenth of a second reader of JSON text.
pub(crate) fn json_of(value: &JsValue) -> Value {
    match value.kind() {
        Kind::Null | Kind::Bytes => Value::Null,
        Kind::Bool => Value::from(value.is_truthy()),
        Kind::Number => Value::from_number(value.as_f64().unwrap_or_default()),
        Kind::String => Value::from(value.as_string().unwrap_or_default()),
        Kind::List => Value::Array(value.items().iter().map(json_of).listed()),
        Kind::Object => {
            let mut object = Map::new();
            for key in js_keys(value).iter() {
                object.insert(
                    key.as_string().unwrap_or_default(),
                    json_of(&js_value(value, &key)),
                );
            }
            Value::Object(object)
        }
    }
}

/// Plain data as JSON text.
pub(super) fn json_text(value: &JsValue) -> String {
    js_json_text(value).as_string().unwrap_or_default()
}

/// A value as plain JavaScript data, a copy.
pub(crate) fn to_js<T: Serialize + ?Sized>(value: &T) -> JsValue {
    parsed(&json(value))
}

/// Apart, because it is the same for every type.
fn parsed(text: &str) -> JsValue {
    js_sys::JSON::parse(text).unwrap_or(JsValue::NULL)
}

/// A frozen object of these members.
pub(crate) fn object(members: &[(&str, JsValue)]) -> JsValue {
    let entries = Array::new();
    for (name, value) in members {
        entries.push(&JsValue::from_str(name));
        entries.push(value);
    }
    js_object(&entries)
}

/// An own member, or undefined.
pub(crate) fn field(value: &JsValue, name: &str) -> JsValue {
    js_field(value, name)
}

/// A frozen list.
pub(crate) fn list(items: impl IntoIterator<Item = JsValue>) -> JsValue {
    js_list(&array(items))
}

fn array(items: impl IntoIterator<Item = JsValue>) -> Array {
    let array = Array::new();
    for item in items {
        array.push(&item);
    }
    array
}

/// Freezes an object, which then also has members of these names, with spaces between them. They are made once, all of them, when
/// one is read.
pub(super) fn lazily(object: &JsValue, names: &str, make: impl Fn() -> JsValue + 'static) -> JsValue {
    js_lazily(object, names, Maker(Box::new(make)))
}

/// Makes members of an object for whoever reads one.
#[wasm_bindgen(skip_typescript, js_name = "__Maker")]
pub struct Maker(Box<dyn Fn() -> JsValue>);

impl std::fmt::Debug for Maker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maker").finish_non_exhaustive()
    }
}

#[wasm_bindgen(js_class = "__Maker")]
impl Maker {
    /// The members.
    pub fn make(&self) -> JsValue {
        (self.0)()
    }
}

impl MessageView for JsValue {
    fn kind(&self) -> Kind {
        match js_kind(self) {
            1 => Kind::Bool,
            2 => Kind::Number,
            3 => Kind::String,
            4 => Kind::Bytes,
            5 => Kind::List,
            6 => Kind::Object,
            _ => Kind::Null,
        }
    }

    fn text(&self) -> Option<String> {
        js_text(self)
    }

    fn text_lossy(&self) -> Option<String> {
        self.as_string()
    }

    fn text_len(&self) -> usize {
        js_length(self) as usize
    }

    fn tokens(&self) -> u32 {
        js_tokens(self)
    }

    fn number(&self) -> Option<f64> {
        self.as_f64()
    }

    fn number_text(&self) -> String {
        json_text(self)
    }

    fn boolean(&self) -> Option<bool> {
        self.as_bool()
    }

    fn field(&self, name: &str) -> Option<Self> {
        let value = js_field(self, name);
        (!value.is_undefined()).then_some(value)
    }

    fn items(&self) -> Vec<Self> {
        self.dyn_ref::<Array>().map(Array::to_vec).unwrap_or_default()
    }

    fn members(&self) -> Vec<(String, Self)> {
        if self.kind() != Kind::Object {
            return Vec::new();
        }
        let member = |key: JsValue| (key.as_string().unwrap_or_default(), js_value(self, &key));
        js_keys(self).iter().map(member).listed()
    }

    fn is_json(&self) -> bool {
        !js_has_bytes(self) && js_not_unicode(self, "").is_none()
    }

    fn has_bytes(&self) -> bool {
        js_has_bytes(self)
    }
}

impl MessageData for JsValue {
    fn string(text: &str) -> Self {
        JsValue::from_str(text)
    }

    fn from_number(number: f64) -> Self {
        JsValue::from_f64(number)
    }

    fn from_bool(value: bool) -> Self {
        JsValue::from_bool(value)
    }

    fn list(items: Vec<Self>) -> Self {
        list(items)
    }

    fn object(members: Vec<(&str, Self)>) -> Self {
        object(&members)
    }

    fn with_field(&self, name: &str, value: Self) -> Self {
        if self.kind() == Kind::Object {
            js_with_field(self, name, &value)
        } else {
            self.clone()
        }
    }

    fn joined(parts: &[Self], separator: &str) -> Self {
        let array = Array::new();
        for part in parts {
            array.push(part);
        }
        js_joined(&array, separator)
    }

    fn growing() -> Self {
        js_growing()
    }

    fn add(&mut self, messages: Vec<Self>) {
        js_add(self, &array(messages));
    }

    fn handed_out(&self) -> Self {
        js_handed_out(self)
    }

    fn to_json_text(&self) -> Self {
        js_json_text(self)
    }

    fn parsed(&self) -> Option<Self> {
        let value = js_parsed(self);
        (!value.is_undefined()).then_some(value)
    }

    fn of_json_text(text: &str) -> Self {
        js_refrozen(parsed(text))
    }
}
