//! Frontmatter as a tree of strings, read from YAML events: nothing is expanded, typed or executed.

use saphyr_parser::{Event, Marker, Parser};
use serde_json::{Map, Value};

use super::diagnostic::{DiagnosticCode, Finding, Position};
use crate::list::split_at_text;

/// The longest block that is read, in bytes. The largest of 1,900 real ones has 1,344.
const MAX_BYTES: usize = 16 * 1024;
/// Lists and mappings inside each other, the outermost mapping included.
const MAX_DEPTH: usize = 8;

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

/// Reads a block that begins at `begin` in its file.
///
/// # Errors
/// Why it is refused, and where.
pub(super) fn parse(block: &str, begin: Position) -> Result<Fields, Finding> {
    if block.len() > MAX_BYTES {
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
            Event::SequenceStart(..) | Event::MappingStart(..) if stack.len() == MAX_DEPTH => {
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
            Event::Scalar(text, ..) => Value::String(text.into_owned()),
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
