//! What the model is told of the skills that it may load by itself: the section `<skills>`.

use super::catalog::{Catalog, SkillEntry, SkillStatus};
use crate::{list::Listed, prompt::neutralise};

/// The name of the tool by which the model loads a skill.
pub const LOAD_SKILL: &str = "load_skill";

/// The first line.
const HEAD: &str = "Instructions for certain tasks. Before a task that one of them is for, call `load_skill` with its name as it stands here.";

/// UTF-16 units that the tags of the section take.
const TAGS: usize = "<skills>\n\n</skills>".len();

/// UTF-16 units to a token, as everywhere.
const UNITS_PER_TOKEN: usize = 4;

/// Longer descriptions than the format allows are cut here, in code points.
const MAX_DESCRIPTION: usize = 1024;

/// What the model calls a skill; none where it may not load it. A name that means no single skill, or that is not one line of plain
/// text, is replaced by the id.
pub(super) fn handle(entry: &SkillEntry) -> Option<String> {
    let name = one_line(&entry.name);
    match entry.status {
        _ if !entry.model_invocable => None,
        SkillStatus::Active if name == entry.name => Some(name),
        SkillStatus::Active | SkillStatus::Ambiguous => Some(one_line(&entry.id)),
        SkillStatus::Shadowed | SkillStatus::Disabled | SkillStatus::Invalid => None,
    }
}

/// The body of the section: one line for each skill that the model may load, in catalogue order. With its tags it takes at most so
/// many tokens; a skill whose line does not fit is left out, and a last line says how many were. Empty where there is none, or no
/// room to say anything.
///
/// Names and descriptions come out of files that nobody checked: each is one line without control characters, and cannot write a
/// tag of ours.
pub fn skills_section(catalog: &Catalog, token_cap: u32) -> String {
    let room = (token_cap as usize).saturating_mul(UNITS_PER_TOKEN);
    let lines = catalog.list().into_iter().filter_map(line).listed();
    let all = lines
        .iter()
        .fold(TAGS + HEAD.len(), |sum, (_, units)| sum + 1 + units);
    // Fewer left out make a shorter line.
    let reserved = if all <= room {
        0
    } else {
        1 + left_out(lines.len()).len()
    };
    let mut used = TAGS + HEAD.len() + reserved;
    if lines.is_empty() || used > room {
        return String::new();
    }
    let mut section = HEAD.to_owned();
    let mut left = 0;
    for (line, units) in lines {
        if used + 1 + units > room {
            left += 1;
            continue;
        }
        used += 1 + units;
        section.push('\n');
        section.push_str(&line);
    }
    if left > 0 {
        section.push('\n');
        section.push_str(&left_out(left));
    }
    section
}

/// A skill's line, with its length in UTF-16 units.
fn line(entry: &SkillEntry) -> Option<(String, usize)> {
    let mut line = format!("- {}: ", handle(entry)?);
    let description = one_line(&entry.description);
    match description.char_indices().nth(MAX_DESCRIPTION) {
        None => line.push_str(&description),
        Some((cut, _)) => {
            line.push_str(description.get(..cut).unwrap_or_default());
            line.push('…');
        }
    }
    let line = neutralise(&line).into_owned();
    let units = line.encode_utf16().count();
    Some((line, units))
}

fn left_out(count: usize) -> String {
    let skills = if count == 1 { "skill is" } else { "skills are" };
    format!("{count} more {skills} not listed here, to save room.")
}

/// Every run of blanks, line breaks and control characters as one blank.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if !line.is_empty() && !word.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}
