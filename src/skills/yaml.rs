//! Frontmatter as a tree of strings, read from YAML events: nothing is expanded, typed or executed.

use saphyr_parser::{Event, Marker, Parser};
use serde_json::{Map, Value};

use super::diagnostic::{DiagnosticCode, Position, narrow};
use crate::list::split_at_text;

/// Lists and mappings inside each other, the outermost mapping included.
const MAX_DEPTH: usize = 8;

/// The fields of a block, and where each begins.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) values: Map<String, Value>,
    /// In the order of the file.
    pub(super) positions: Vec<(String, Position)>,
}

/// Why a block was refused, and where.
pub(super) type Refusal = (DiagnosticCode, Position);

/// A list or mapping that is not closed yet.
enum Open {
    List(Vec<Value>),
    Map {
        entries: Map<String, Value>,
        key: Option<String>,
    },
}

/// Reads a block that begins on line `first_line` of its file.
pub(super) fn parse(block: &str, first_line: usize) -> Result<Fields, Refusal> {
    let position = |marker: &Marker| Position {
        line: narrow(first_line + marker.line().saturating_sub(1)),
        column: narrow(marker.col() + 1),
    };
    if let Some(line) = directive(block) {
        return Err((
            DiagnosticCode::DirectiveRefused,
            Position::line(narrow(first_line + line)),
        ));
    }

    // YAML has no control characters; the parser lets some of them through.
    if let Some((before, _)) =
        block.split_once(|c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}'))
    {
        let Position { line, column } = Position::behind(before);
        return Err((
            DiagnosticCode::InvalidYaml,
            Position {
                line: narrow(first_line).saturating_add(line - 1),
                column,
            },
        ));
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
