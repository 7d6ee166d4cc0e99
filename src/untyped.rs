//! Reading untyped JSON from callers and stores: every refusal names the field.

use serde_json::{Map, Value};

use crate::{
    Error, Result,
    list::{Listed, joined},
};

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
        .ok_or_else(|| {
            let problem = format!("must be an integer from {min} up, below 2 to the power of 32");
            field_error(&join(path, key), &problem)
        })
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

/// Whether a text is an id that a host may make up.
pub(crate) fn fits_id(id: &str) -> bool {
    let fits = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-');
    (1..=128).contains(&id.len()) && id.bytes().all(fits)
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

/// What can be read from JSON that somebody else may have written. Written by hand: one reader of JSON and small
/// readers of values are a fifth of the module size of a derived reader per type, and name the field that is wrong.
pub(crate) trait FromJson: Sized {
    /// Reads the value at `path`.
    fn from_json(value: &Value, path: &str) -> Result<Self>;
}

/// The member `key` of the object at `path`; where it is absent, what `null` reads as.
pub(crate) fn member<T: FromJson>(object: &Map<String, Value>, path: &str, key: &str) -> Result<T> {
    T::from_json(object.get(key).unwrap_or(&Value::Null), &join(path, key))
}

/// Reads the members of an object one after another. The first refusal is kept and told at the end; what comes after it is
/// read as nothing. So no member needs a way out of its own, which would let go of everything that was read before.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    object: Option<&'a Map<String, Value>>,
    path: &'a str,
    refusal: Option<Error>,
}

impl<'a> Reader<'a> {
    /// Reads the object at `path`.
    pub(crate) fn new(value: &'a Value, path: &'a str) -> Self {
        let mut reader = Self {
            object: None,
            path,
            refusal: None,
        };
        reader.object = reader.taken(object(value, path).map(Some));
        reader
    }

    /// The member `key`; where it is absent, what `null` reads as.
    pub(crate) fn read<T: FromJson + Default>(&mut self, key: &str) -> T {
        let read = self.object.map(|object| member(object, self.path, key));
        self.taken(read.unwrap_or_else(|| Ok(T::default())))
    }

    /// The member `key`; where it is absent or `null`, the default.
    pub(crate) fn read_or_default<T: FromJson + Default>(&mut self, key: &str) -> T {
        self.read::<Option<T>>(key).unwrap_or_default()
    }

    /// The member `key` as an integer from `min` up.
    pub(crate) fn integer(&mut self, key: &str, min: u32) -> u32 {
        let read = self.object.map(|object| integer(object, self.path, key, min));
        self.taken(read.unwrap_or(Ok(0)))
    }

    /// The member `key` as an integer from `min` up, where it is there.
    pub(crate) fn optional_integer(&mut self, key: &str, min: u32) -> Option<u32> {
        self.optional(key)?;
        Some(self.integer(key, min))
    }

    /// The member `key` as a time.
    pub(crate) fn milliseconds(&mut self, key: &str) -> f64 {
        let read = self.object.map(|object| milliseconds(object, self.path, key));
        self.taken(read.unwrap_or(Ok(0.0)))
    }

    /// A member that is there and not `null`.
    pub(crate) fn optional(&self, key: &str) -> Option<&'a Value> {
        optional(self.object?, key)
    }

    /// A member as it is.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.object?.get(key)
    }

    /// Refuses a member whose name is nearly one of these: whoever wrote it meant that one, and would never learn that it is not
    /// looked at.
    pub(crate) fn no_misspelt(&mut self, names: &[&str]) {
        let plain = |name: &str| {
            let letters = name.chars().filter(|c| *c != '_' && *c != '-');
            let mut plain = String::new();
            letters.for_each(|c| plain.push(c.to_ascii_lowercase()));
            plain.trim_end_matches('s').to_owned()
        };
        for key in self.object.into_iter().flat_map(Map::keys) {
            let meant = names.iter().find(|name| plain(name) == plain(key));
            if let Some(meant) = meant.filter(|name| **name != key.as_str()) {
                let problem = format!("is no member that is looked at; did you mean `{meant}`");
                self.taken::<()>(Err(field_error(&join(self.path, key), &problem)));
            }
        }
    }

    /// A text that is not blank.
    pub(crate) fn filled(&mut self, name: &str) -> String {
        let text: String = self.read(name);
        if text.trim().is_empty() {
            let blank = field_error(&join(self.path, name), "must not be blank");
            self.taken(Err::<(), _>(blank));
        }
        text
    }

    /// The members that are none of these.
    pub(crate) fn others(&self, names: &[&str]) -> Map<String, Value> {
        let mut others = Map::new();
        for (name, value) in self.object.into_iter().flatten() {
            if !names.contains(&name.as_str()) {
                others.insert(name.clone(), value.clone());
            }
        }
        others
    }

    /// Refuses every member but these.
    pub(crate) fn no_others(&mut self, names: &[&str]) {
        for key in self.object.into_iter().flat_map(Map::keys) {
            if !names.contains(&key.as_str()) {
                let problem = format!(
                    "is no member here; leave it out, or write one of `{}`",
                    joined(names, "`, `")
                );
                self.taken::<()>(Err(field_error(&join(self.path, key), &problem)));
            }
        }
    }

    /// What was read in another way.
    pub(crate) fn taken<T: Default>(&mut self, read: Result<T>) -> T {
        read.unwrap_or_else(|error| {
            self.refusal.get_or_insert(error);
            T::default()
        })
    }

    /// What was made of the members, unless one was refused.
    pub(crate) fn finish<T>(self, made: T) -> Result<T> {
        match self.refusal {
            None => Ok(made),
            Some(error) => Err(error),
        }
    }
}

impl<T: FromJson> FromJson for Option<T> {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        if value.is_null() {
            Ok(None)
        } else {
            T::from_json(value, path).map(Some)
        }
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let items = array(value, path)?;
        let mut read = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            read.push(T::from_json(item, &format!("{path}[{at}]"))?);
        }
        Ok(read)
    }
}

impl FromJson for String {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        match value {
            Value::String(text) => Ok(text.clone()),
            _ => Err(field_error(path, "must be a string")),
        }
    }
}

impl FromJson for bool {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        value
            .as_bool()
            .ok_or_else(|| field_error(path, "must be true or false"))
    }
}

impl FromJson for f64 {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        value
            .as_f64()
            .ok_or_else(|| field_error(path, "must be a number"))
    }
}

impl FromJson for u64 {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let number = value
            .as_f64()
            .filter(|number| number.fract() == 0.0 && (0.0..=MAX_SAFE_INTEGER).contains(number));
        number
            .map(|number| number as u64)
            .ok_or_else(|| field_error(path, "must be an integer from 0 up"))
    }
}

impl FromJson for u32 {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let number = u64::from_json(value, path)?;
        u32::try_from(number).map_err(|_| field_error(path, "must be an integer below 2 to the power of 32"))
    }
}

impl FromJson for Value {
    fn from_json(value: &Value, _path: &str) -> Result<Self> {
        Ok(value.clone())
    }
}

/// One of these texts.
pub(crate) fn one_of<T: Copy>(value: &Value, path: &str, known: &[(&str, T)]) -> Result<T> {
    let found = known.iter().find(|(name, _)| value.as_str() == Some(*name));
    found.map(|(_, it)| *it).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).listed();
        field_error(path, &format!("must be one of `{}`", joined(&names, "`, `")))
    })
}

/// What is kept as JSON inside other JSON: a setting, a skill, a diagnostic in an error.
pub(crate) trait ToJson {
    /// The value that [`FromJson`] reads again.
    fn to_json(&self) -> Value;
}

impl<T: ToJson> ToJson for Option<T> {
    fn to_json(&self) -> Value {
        self.as_ref().map_or(Value::Null, ToJson::to_json)
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn to_json(&self) -> Value {
        Value::Array(self.iter().map(ToJson::to_json).listed())
    }
}

impl ToJson for String {
    fn to_json(&self) -> Value {
        Value::from(self.as_str())
    }
}

impl ToJson for bool {
    fn to_json(&self) -> Value {
        Value::from(*self)
    }
}

impl ToJson for u32 {
    fn to_json(&self) -> Value {
        Value::from(*self)
    }
}

impl ToJson for Value {
    fn to_json(&self) -> Value {
        self.clone()
    }
}

/// An object with these members.
pub(crate) fn to_object(members: &[(&str, &dyn ToJson)]) -> Value {
    let mut object = Map::new();
    for (name, value) in members {
        object.insert((*name).to_owned(), value.to_json());
    }
    Value::Object(object)
}

/// Puts an item where it belongs in a sorted list, behind its equals.
pub(crate) fn insert_sorted<T>(list: &mut Vec<T>, item: T, order: &dyn Fn(&T, &T) -> std::cmp::Ordering) {
    let at = list.partition_point(|other| order(other, &item).is_le());
    list.insert(at, item);
}

/// Numbers by name. The module holds one kind of map, that of JSON objects, and this is made of it: another kind costs
/// 3 kB.
#[derive(Debug, Default)]
pub(crate) struct Numbered(Map<String, Value>);

impl Numbered {
    /// The number of a name.
    pub(crate) fn get(&self, name: &str) -> Option<usize> {
        self.0.get(name)?.as_u64().map(|number| number as usize)
    }

    /// Gives a name a number, unless it has one. Says whether it had none.
    pub(crate) fn add(&mut self, name: &str, number: usize) -> bool {
        if self.0.contains_key(name) {
            return false;
        }
        self.0.insert(name.to_owned(), Value::from(number));
        true
    }
}
