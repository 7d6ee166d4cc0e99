//! YAML read from events: nothing is expanded or executed. Frontmatter is a tree of strings; in configuration scalars without quotes
//! are what they look like.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};
use serde_json::{Map, Value};

use super::{
    diagnostic::{DiagnosticCode, Finding, Position},
    frontmatter::without_mark,
};
use crate::{Error, Result, list::split_at_text};

/// How much is read, and as what.
struct Reading {
    /// The longest block, in bytes.
    bytes: usize,
    /// Lists and mappings inside each other, the outermost mapping included.
    depth: usize,
    /// What a scalar without quotes is.
    plain: fn(String) -> Value,
}

/// The largest block of 1,900 real ones has 1,344 bytes.
const FRONTMATTER: Reading = Reading {
    bytes: 16 * 1024,
    depth: 8,
    plain: Value::String,
};

const CONFIGURATION: Reading = Reading {
    bytes: 1024 * 1024,
    depth: 32,
    plain,
};

/// The text of a configuration file as an object.
///
/// # Errors
/// `invalid_argument` with the `field`, and the `line` and `column`, both from 1, from which on it is not read.
pub(crate) fn configuration(text: &str, path: &str) -> Result<Value> {
    let read = read(without_mark(text), Position::START, &CONFIGURATION);
    let fields = read.map_err(|(code, Position { line, column })| {
        let text = format!(
            "`{path}` cannot be read from line {line}, column {column}, on ({code}); write a mapping in plain YAML, without anchors, \
             aliases, tags and directives"
        );
        let error = Error::invalid(text).with("field", path);
        error.with("line", line).with("column", column)
    })?;
    Ok(Value::Object(fields.values))
}

/// A scalar by the core schema of YAML. Numbers that are not decimal, or not exact, stay text.
fn plain(text: String) -> Value {
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(&text).unwrap_or(Value::String(text)),
    }
}

/// Digits and a power of ten that are exact make a number that is; the standard library's reader costs the module 8 kB.
fn number(text: &str) -> Option<Value> {
    const EXACT: u32 = 22;
    let bare = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = bare.split_once(['e', 'E']).unwrap_or((bare, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let digits = digits.parse::<i64>().ok().filter(|digits| *digits < 1 << 53)?;
    let digits = if text.starts_with('-') { -digits } else { digits };
    if mantissa.len() == bare.len() && whole.len() == bare.len() {
        return Some(Value::from(digits));
    }
    let scale = exponent.parse::<i64>().ok()?.checked_sub(fraction.len() as i64)?;
    let power = u32::try_from(scale.unsigned_abs())
        .ok()
        .filter(|power| *power <= EXACT)?;
    let power = (0..power).fold(1.0, |power, _| power * 10.0);
    let digits = digits as f64;
    Some(Value::from(if scale < 0 {
        digits / power
    } else {
        digits * power
    }))
}

/// The fields of a block, and where each begins.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) values: Map<String, Value>,
    /// In the order of the file.
    pub(super) positions: Vec<(String, Position)>,
}

impl Fields {
    pub(super) fn put(&mut self, name: &str, at: Position, value: Value) {
        self.values.insert(name.to_owned(), value);
        self.positions.push((name.to_owned(), at));
    }

    /// Where a field begins; the start of the file for one that is not there.
    pub(super) fn position(&self, field: &str) -> Position {
        let found = self.positions.iter().find(|(name, _)| name == field);
        found.map_or(Position::START, |(_, at)| *at)
    }
}

/// A list or mapping that is not closed yet.
enum Open {
    List(Vec<Value>),
    Map {
        entries: Map<String, Value>,
        key: Option<String>,
    },
}

/// Reads a block of frontmatter that begins at `begin` in its file.
///
/// # Errors
/// Why it is refused, and where.
pub(super) fn parse(block: &str, begin: Position) -> std::result::Result<Fields, Finding> {
    read(block, begin, &FRONTMATTER)
}

fn read(block: &str, begin: Position, reading: &Reading) -> std::result::Result<Fields, Finding> {
    if block.len() > reading.bytes {
        return Err((DiagnosticCode::FrontmatterTooLarge, begin));
    }
    let position = |marker: &Marker| begin.further(marker.line().saturating_sub(1), marker.col());
    if let Some(line) = directive(block) {
        return Err((DiagnosticCode::DirectiveRefused, begin.further(line, 0)));
    }

    // YAML has no control characters; the parser lets some of them through.
    if let Some((before, _)) =
        block.split_once(|c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}'))
    {
        return Err((DiagnosticCode::InvalidYaml, begin.behind(before)));
    }

    let mut fields = Fields::default();
    let mut stack: Vec<Open> = Vec::new();
    let mut documents = 0;
    for next in Parser::new_from_str(block) {
        let (event, span) = next.map_err(|error| (refusal_of(error.info()), position(error.marker())))?;
        let at = position(&span.start);
        let refuse = |code| Err((code, at));
        let value = match event {
            Event::Alias(_) => return refuse(DiagnosticCode::AliasRefused),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if anchor != 0 =>
            {
                return refuse(DiagnosticCode::AnchorRefused);
            }
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => {
                return refuse(DiagnosticCode::TagRefused);
            }
            Event::SequenceStart(..) | Event::MappingStart(..) if stack.len() == reading.depth => {
                return refuse(DiagnosticCode::TooDeep);
            }
            Event::DocumentStart(_) if documents > 0 => return refuse(DiagnosticCode::InvalidYaml),
            Event::DocumentStart(_) => {
                documents += 1;
                continue;
            }
            Event::SequenceStart(..) if stack.is_empty() => return refuse(DiagnosticCode::NotAMapping),
            Event::SequenceStart(..) => {
                stack.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                stack.push(Open::Map {
                    entries: Map::new(),
                    key: None,
                });
                continue;
            }
            Event::Scalar(text, style, ..) => {
                let is_name = matches!(stack.last(), Some(Open::Map { key: None, .. }));
                if style == ScalarStyle::Plain && !is_name {
                    (reading.plain)(text.into_owned())
                } else {
                    Value::String(text.into_owned())
                }
            }
            Event::SequenceEnd | Event::MappingEnd => match stack.pop() {
                Some(Open::List(items)) => Value::Array(items),
                Some(Open::Map { entries, .. }) => Value::Object(entries),
                None => return refuse(DiagnosticCode::InvalidYaml),
            },
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => continue,
        };

        let outermost = stack.len() == 1;
        match stack.last_mut() {
            None => match value {
                Value::Object(values) => fields.values = values,
                _ => return refuse(DiagnosticCode::NotAMapping),
            },
            Some(Open::List(items)) => items.push(value),
            Some(Open::Map { entries, key }) => match (key.take(), value) {
                (Some(key), value) => {
                    entries.insert(key, value);
                }
                (None, Value::String(name)) => {
                    if entries.contains_key(&name) {
                        return refuse(DiagnosticCode::DuplicateField);
                    }
                    if outermost {
                        fields.positions.push((name.clone(), at));
                    }
                    *key = Some(name);
                }
                (None, _) => return refuse(DiagnosticCode::InvalidYaml),
            },
        }
    }
    Ok(fields)
}

/// The zero-based line of a directive, which can only stand before anything else.
fn directive(block: &str) -> Option<usize> {
    let (index, line) = block
        .lines()
        .enumerate()
        .find(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))?;
    line.starts_with('%').then_some(index)
}

/// The parser reports an alias without an anchor as an error of its own; to us it is an alias.
fn refusal_of(info: &str) -> DiagnosticCode {
    if split_at_text(info, "unknown anchor").is_some() {
        DiagnosticCode::AliasRefused
    } else {
        DiagnosticCode::InvalidYaml
    }
}
