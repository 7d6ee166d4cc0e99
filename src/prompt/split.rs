//! Taking foreign system prompts apart, for looking at them.

use super::section::{PREAMBLE, Section, check_name};
use crate::{
    list::{Listed, joined},
    untyped::Numbered,
};

/// Splits a prompt at lines of the form `<name>` … `</name>`, in the order in which they stand.
///
/// This is advice for people who look at a prompt: a text cannot say whether a line was a tag or content. A section
/// ends at the first line that closes it; a tag that is never closed is text. All text outside of sections becomes one
/// `preamble` in front, its pieces trimmed of line breaks and joined by a blank line. A session never calls this, it keeps
/// its sections.
pub fn split_system_prompt(prompt: &str) -> Vec<Section> {
    let lines: Vec<&str> = prompt.split('\n').listed();
    // Closing tags by name: where the names' lists are, and the lists.
    let mut names = Numbered::default();
    let mut closings: Vec<Vec<usize>> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if let Some(name) = tag(line, "</") {
            if names.add(name, closings.len()) {
                closings.push(Vec::new());
            }
            if let Some(list) = names.get(name).and_then(|at| closings.get_mut(at)) {
                list.push(index);
            }
        }
    }

    let mut outside: Vec<String> = Vec::new();
    let mut sections = Vec::new();
    let mut text_from = 0;
    let mut index = 0;
    while let Some(line) = lines.get(index) {
        let closing = tag(line, "<").and_then(|name| {
            let candidates = closings.get(names.get(name)?)?;
            let end = *candidates.get(candidates.partition_point(|at| *at <= index))?;
            Some((name, end))
        });
        if let Some((name, end)) = closing {
            outside.push(piece(&lines, text_from, index));
            sections.push(Section::new(name, join(&lines, index + 1, end)));
            text_from = end + 1;
            index = end;
        }
        index += 1;
    }
    outside.push(piece(&lines, text_from, lines.len()));
    outside.retain(|piece| !piece.trim().is_empty());
    if !outside.is_empty() {
        sections.insert(0, Section::new(PREAMBLE, joined(&outside, "\n\n")));
    }
    sections
}

/// The section name of a line that is nothing but a tag.
fn tag<'a>(line: &'a str, open: &str) -> Option<&'a str> {
    let name = line.trim_end().strip_prefix(open)?.strip_suffix('>')?;
    (check_name(name).is_ok() && name != PREAMBLE).then_some(name)
}

fn join(lines: &[&str], from: usize, to: usize) -> String {
    joined(lines.get(from..to).unwrap_or_default(), "\n")
}

fn piece(lines: &[&str], from: usize, to: usize) -> String {
    join(lines, from, to).trim_matches(['\n', '\r']).to_owned()
}
