//! Frontmatter that is no YAML, read as a person reads it: top-level fields, one after another, line by line.

use serde_json::Value;

use super::diagnostic::{Diagnostic, DiagnosticCode, Finding, Position, Severity};
use super::field::{FLAGS, field_in, is_open_when, known, restricts, yes_or_no};
use super::frontmatter::Frame;
use super::yaml::{self, Fields};
use crate::list::split_at_text;

/// Reads each field of a block by itself: as YAML where it is that, as plain text where it is not. The latter is a
/// remark, as is a field that is there twice.
///
/// # Errors
/// What is refused in any file is refused in a field too: anchors, aliases, tags, and what is nested too deep. Where
/// `reason`, why the block is no YAML, is one of these, or where there is no field, the reason itself.
pub(super) fn fields(
    frame: &Frame<'_>,
    reason: Finding,
    remarks: &mut Vec<Diagnostic>,
) -> Result<Fields, Finding> {
    let starts = starts(frame);
    if starts.is_empty() || !is_repairable(reason.0) {
        return Err(reason);
    }
    let mut fields = Fields::default();
    for (index, (from, at)) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(frame.block.len(), |(next, _)| *next);
        let whole = frame.block.get(*from..end).unwrap_or_default();
        let (name, value) = field_in(whole).unwrap_or_default();
        if fields.values.contains_key(name) {
            let message = "the field is there twice; the first one counts, remove the other";
            remark(DiagnosticCode::DuplicateField, *at, message, remarks);
            continue;
        }
        let read = match yaml::parse(whole, *at) {
            Ok(alone) if alone.values.len() == 1 => alone.values.into_iter().next(),
            Err(refusal) if !is_repairable(refusal.0) => return Err(refusal),
            _ => None,
        };
        let read = read.filter(|(read, _)| read == name).map(|(_, value)| value);
        if read.is_none() {
            remark_repair(name, *at, remarks);
        }
        fields.put(
            name,
            *at,
            read.unwrap_or_else(|| Value::String(plain_text(value))),
        );
    }
    Ok(fields)
}

/// Whether fields can be read in spite of this. What is refused on purpose stays refused.
fn is_repairable(code: DiagnosticCode) -> bool {
    matches!(
        code,
        DiagnosticCode::InvalidYaml | DiagnosticCode::DuplicateField | DiagnosticCode::NotAMapping
    )
}

fn remark(code: DiagnosticCode, at: Position, message: &str, remarks: &mut Vec<Diagnostic>) {
    remarks.push(Diagnostic::new(code, Severity::Warning, at, message));
}

fn remark_repair(name: &str, at: Position, remarks: &mut Vec<Diagnostic>) {
    let known = known(name).map_or_else(|| "the field".to_owned(), |name| format!("`{name}`"));
    let message = known + " is no valid YAML, and was read as plain text; quote its value";
    remark(DiagnosticCode::FieldRepaired, at, &message, remarks);
}

/// Where fields begin: at lines that are indented no more than the first field; in the line that a formatter made, at the
/// fields that mean something, since nothing tells others from prose.
fn starts(frame: &Frame<'_>) -> Vec<(usize, Position)> {
    let in_one_line = frame.has(DiagnosticCode::FormattedFrontmatter);
    let mut starts = Vec::new();
    let mut most = usize::MAX;
    let (mut read, mut seen, mut at) = (0, 0, frame.at);
    for piece in frame.block.split_inclusive(if in_one_line { ' ' } else { '\n' }) {
        let begin = read + indent(piece);
        read += piece.len();
        let field = frame.block.get(begin..).and_then(field_in);
        let counts = field.is_some_and(|(name, _)| !in_one_line || known(name).is_some());
        if counts && indent(piece) <= most {
            if starts.is_empty() {
                most = indent(piece);
            }
            at = at.behind(frame.block.get(seen..begin).unwrap_or_default());
            seen = begin;
            starts.push((begin, at));
        }
    }
    starts
}

/// How many bytes of blanks a line begins with.
fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Sets the flags that restrict, wherever the text of the frontmatter names one and does not clearly say that it does not: how
/// a broken file is read is not what its author saw.
pub(super) fn restrict(frame: &Frame<'_>, fields: &mut Fields, remarks: &mut Vec<Diagnostic>) {
    for name in FLAGS.iter().copied() {
        let mut rest = frame.meant;
        while !restricts(&fields.values, name) {
            let Some((_, behind)) = split_at_text(rest, name) else {
                break;
            };
            rest = behind;
            if is_clearly_open(name, behind) {
                continue;
            }
            let begin = frame.meant.len() - name.len() - behind.len();
            let at = frame.at.behind(frame.meant.get(..begin).unwrap_or_default());
            let open = is_open_when(name);
            let message = format!(
                "`{name}` may be meant to restrict, so it does; if it is not, write `{name}: {open}` on a line"
            );
            remark(DiagnosticCode::FieldRepaired, at, &message, remarks);
            fields.put(name, at, Value::String((!open).to_string()));
        }
    }
}

/// Whether what stands behind the name of a flag is a colon and, in the same line, the one word that opens. Only a comment
/// may follow.
fn is_clearly_open(name: &str, behind: &str) -> bool {
    let line = behind.split('\n').next().unwrap_or_default();
    let key_end = line.strip_prefix(['"', '\'']).unwrap_or(line);
    let Some(value) = key_end.trim_start().strip_prefix(':') else {
        return false;
    };
    let value = value.trim_start();
    let (word, more) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
    let more = more.trim_start();
    let ends = more.is_empty() || more.starts_with('#');
    ends && yes_or_no(word.trim_matches(['"', '\''])) == Some(is_open_when(name))
}

/// A value that is no YAML, as a person reads it. Lines that go on are joined by blanks; literal blocks, lists and nested
/// fields keep their lines. Quotes around the whole are left out, characters that nobody sees become blanks.
fn plain_text(value: &str) -> String {
    let (head, rest) = value.split_once('\n').unwrap_or((value, ""));
    let head = head.trim();
    let (mark, behind) = head.split_once(' ').unwrap_or((head, ""));
    let is_block = mark.starts_with(['|', '>'])
        && mark
            .bytes()
            .all(|byte| matches!(byte, b'|' | b'>' | b'+' | b'-' | b'0'..=b'9'));
    let inner = rest.trim_start();
    let is_nested = head.is_empty() && (inner.starts_with("- ") || field_in(inner).is_some());
    let keeps_lines = is_nested || is_block && mark.starts_with('|');
    let before = rest.strip_suffix(inner).unwrap_or_default();
    let indent = before.rsplit('\n').next().unwrap_or_default();

    let mut text = if is_block { behind } else { head }.to_owned();
    for line in rest.split_inclusive('\n') {
        if keeps_lines {
            text.push('\n');
            text.push_str(line.strip_prefix(indent).unwrap_or(line).trim_end());
        } else if !line.trim().is_empty() {
            text.push(' ');
            text.push_str(line.trim());
        }
    }
    let text = text.trim();
    let text = if is_block || is_nested {
        text
    } else {
        unquoted(text)
    };
    let mut seen = String::new();
    for c in text.chars() {
        seen.push(if c.is_control() && c != '\n' { ' ' } else { c });
    }
    seen
}

/// A text without the quote that opens it and its partner at the end. Both stay where another quote ends a word before:
/// then they are part of what was meant.
fn unquoted(text: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(rest) = text.strip_prefix(quote) {
            let inner = rest.strip_suffix(quote).unwrap_or(rest);
            let ends_before = |(_, behind): (&str, &str)| !behind.starts_with(char::is_alphanumeric);
            return if inner.split_once(quote).is_some_and(ends_before) {
                text
            } else {
                inner
            };
        }
    }
    text
}
