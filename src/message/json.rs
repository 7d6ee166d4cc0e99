//! Plain data as `serde_json::Value`: the native form, without byte strings and lone surrogates.

use serde_json::{Map, Value};

use super::{Kind, MessageData, MessageView, text_tokens};

impl MessageView for Value {
    fn kind(&self) -> Kind {
        match self {
            Value::Null => Kind::Null,
            Value::Bool(_) => Kind::Bool,
            Value::Number(_) => Kind::Number,
            Value::String(_) => Kind::String,
            Value::Array(_) => Kind::List,
            Value::Object(_) => Kind::Object,
        }
    }

    fn text(&self) -> Option<String> {
        self.as_str().map(str::to_owned)
    }

    fn text_lossy(&self) -> Option<String> {
        self.text()
    }

    fn text_len(&self) -> usize {
        self.as_str().map_or(0, |text| text.encode_utf16().count())
    }

    fn tokens(&self) -> u32 {
        self.as_str().map_or(0, text_tokens)
    }

    fn number(&self) -> Option<f64> {
        self.as_f64()
    }

    fn number_text(&self) -> String {
        self.as_f64().map(number_text).unwrap_or_default()
    }

    fn boolean(&self) -> Option<bool> {
        self.as_bool()
    }

    fn field(&self, name: &str) -> Option<Self> {
        self.as_object().and_then(|members| members.get(name)).cloned()
    }

    fn items(&self) -> Vec<Self> {
        self.as_array().cloned().unwrap_or_default()
    }

    fn members(&self) -> Vec<(String, Self)> {
        let members = self.as_object().into_iter().flatten();
        members
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    fn is_json(&self) -> bool {
        true
    }

    fn has_bytes(&self) -> bool {
        false
    }
}

impl MessageData for Value {
    fn string(text: &str) -> Self {
        Value::from(text)
    }

    fn from_number(number: f64) -> Self {
        // Whole numbers stay whole, so that a timestamp is written as it is in JavaScript.
        if number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 {
            Value::from(number as i64)
        } else {
            Value::from(number)
        }
    }

    fn from_bool(value: bool) -> Self {
        Value::from(value)
    }

    fn list(items: Vec<Self>) -> Self {
        Value::Array(items)
    }

    fn object(members: Vec<(&str, Self)>) -> Self {
        Value::Object(
            members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Map<_, _>>(),
        )
    }

    fn with_field(&self, name: &str, value: Self) -> Self {
        let mut changed = self.clone();
        if let Value::Object(members) = &mut changed {
            members.insert(name.to_owned(), value);
        }
        changed
    }

    fn joined(parts: &[Self], separator: &str) -> Self {
        let texts: Vec<&str> = parts
            .iter()
            .map(|part| part.as_str().unwrap_or_default())
            .collect();
        Value::from(texts.join(separator))
    }

    fn growing() -> Self {
        Self::list(Vec::new())
    }

    fn add(&mut self, messages: Vec<Self>) {
        if let Value::Array(list) = self {
            list.extend(messages);
        }
    }

    fn handed_out(&self) -> Self {
        self.clone()
    }

    fn to_json_text(&self) -> Self {
        Value::from(self.to_string())
    }

    fn parsed(&self) -> Option<Self> {
        serde_json::from_str(self.as_str()?).ok()
    }

    fn of_json_text(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

/// A number as JavaScript writes it: the shortest digits that are it, without an exponent from 1e-6 to below 1e21.
fn number_text(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return "0".to_owned();
    }
    let written = format!("{:e}", number.abs());
    let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let count = digits.len() as i32;
    let sign = if number < 0.0 { "-" } else { "" };
    let zeros = |count: i32| "0".repeat(count.max(0) as usize);
    let (first, rest) = digits.split_at_checked(1).unwrap_or((&digits, ""));
    let text = match exponent {
        21.. | ..=-8 | -7 => {
            let point = if rest.is_empty() { "" } else { "." };
            let plus = if exponent > 0 { "+" } else { "" };
            format!("{first}{point}{rest}e{plus}{exponent}")
        }
        _ if exponent < 0 => format!("0.{}{digits}", zeros(-exponent - 1)),
        _ if exponent + 1 >= count => format!("{digits}{}", zeros(exponent + 1 - count)),
        _ => match digits.split_at_checked((exponent + 1) as usize) {
            Some((whole, part)) => format!("{whole}.{part}"),
            None => digits.clone(),
        },
    };
    format!("{sign}{text}")
}
