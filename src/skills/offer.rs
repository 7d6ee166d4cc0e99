//! What the model is told of the skills that it may load by itself: the section `<skills>`.

use super::catalog::{Catalog, SkillEntry, SkillStatus};
use crate::{list::Listed, message::text_tokens, prompt::neutralise};

/// The name of the tool by which the model loads a skill.
pub const LOAD_SKILL: &str = "load_skill";

/// The first line.
const HEAD: &str = "Instructions for certain tasks. Before a task that one of them is for, call `load_skill` with its name as it stands here.";

/// The tags of the section; its text stands between two line breaks.
const TAGS: &str = "<skills>\n</skills>";

/// What a line break costs between two lines.
const BREAK: u32 = 1;

/// Longer descriptions than the format allows are cut here, in code points.
const MAX_DESCRIPTION: usize = 1024;

/// The same for names; a longer one stands as its id.
const MAX_NAME: usize = 64;

/// Longer ids lose their beginning: locations differ at the end.
const MAX_ID: usize = 256;

/// What the model calls a skill; none where it may not load it. A name that means no single skill, that is longer than the format
/// allows, or that is not one line of plain text, is replaced by the id.
pub(super) fn handle(entry: &SkillEntry) -> Option<String> {
    let name = || entry.name.clone();
    match entry.status {
        _ if !entry.model_invocable => None,
        SkillStatus::Active if is_plain(&entry.name) => Some(name()),
        SkillStatus::Active | SkillStatus::Ambiguous => Some(plain_id(&entry.id)),
        SkillStatus::Shadowed | SkillStatus::Disabled | SkillStatus::Invalid => None,
    }
}

/// A name that the model gave, as it is told it again.
pub(super) fn quoted(name: &str) -> String {
    neutralise(&cut(one_line(name), MAX_ID)).into_owned()
}

/// The body of the section: one line for each skill that the model may load, in catalogue order. With its tags it takes at most so
/// many tokens; a skill whose line does not fit is left out, and a last line says how many were. Empty where there is none, or where
/// none fits.
///
/// Names and descriptions come out of files that nobody checked: each is one line of what can be seen, not too long, and cannot
/// write a tag of ours.
pub fn skills_section(catalog: &Catalog, token_cap: u32) -> String {
    let lines = catalog.list().into_iter().filter_map(line).listed();
    let mut used = text_tokens(TAGS) + BREAK + text_tokens(HEAD);
    let all = lines
        .iter()
        .fold(used, |sum, (_, tokens)| sum.saturating_add(*tokens));
    // Fewer left out make a shorter line.
    if all > token_cap {
        used += tokens_of_line(&left_out(lines.len()));
    }
    if lines.is_empty() || used > token_cap {
        return String::new();
    }
    let count = lines.len();
    let mut section = HEAD.to_owned();
    let mut left = 0;
    for (line, tokens) in lines {
        let with_it = used.saturating_add(tokens);
        if with_it > token_cap {
            left += 1;
            continue;
        }
        used = with_it;
        section.push('\n');
        section.push_str(&line);
    }
    if left == count {
        return String::new();
    }
    if left > 0 {
        section.push('\n');
        section.push_str(&left_out(left));
    }
    section
}

/// A skill's line, with what it costs.
fn line(entry: &SkillEntry) -> Option<(String, u32)> {
    let mut line = format!("- {}: ", handle(entry)?);
    line.push_str(&cut(one_line(&entry.description), MAX_DESCRIPTION));
    let line = neutralise(&line).into_owned();
    let tokens = tokens_of_line(&line);
    Some((line, tokens))
}

fn tokens_of_line(line: &str) -> u32 {
    text_tokens(line).saturating_add(BREAK)
}

fn left_out(count: usize) -> String {
    let skills = if count == 1 { "skill is" } else { "skills are" };
    format!("{count} more {skills} not listed here, to save room.")
}

/// Text of at most so many code points; what is longer ends in an ellipsis.
fn cut(mut text: String, max: usize) -> String {
    if let Some((at, _)) = text.char_indices().nth(max) {
        text.truncate(at);
        text.push('…');
    }
    text
}

/// Every run of blanks, line breaks and control characters as one blank, without what cannot be seen.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut gap = false;
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() {
            gap = true;
        } else if !is_invisible(c) {
            if gap && !line.is_empty() {
                line.push(' ');
            }
            gap = false;
            line.push(c);
        }
    }
    line
}

fn is_plain(name: &str) -> bool {
    name.chars().nth(MAX_NAME).is_none() && one_line(name) == name
}

/// An id on one line: what is not plain in it is written as `\u{...}`, so that different ids stay different.
fn plain_id(id: &str) -> String {
    let mut plain = String::with_capacity(id.len());
    for c in id.chars() {
        if c != ' ' && (c.is_whitespace() || c.is_control() || is_invisible(c)) {
            plain.extend(c.escape_unicode());
        } else {
            plain.push(c);
        }
    }
    let count = plain.chars().count();
    match plain.char_indices().nth(count.saturating_sub(MAX_ID)) {
        Some((from, _)) if from > 0 => format!("…{}", plain.get(from..).unwrap_or_default()),
        _ => plain,
    }
}

/// First and last of the characters that a person does not see and a model reads: those of format (Unicode Cf), with which text
/// also turns around, fillers, variation selectors and tags.
const INVISIBLE: [(char, char); 25] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

fn is_invisible(c: char) -> bool {
    INVISIBLE
        .iter()
        .any(|(first, last)| (*first..=*last).contains(&c))
}
