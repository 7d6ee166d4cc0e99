//! Sections: what they may be called, in which order they stand, and how they become one string.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::neutralise::neutralise;
use crate::untyped::{self, FromJson, ToJson, insert_sorted};
use crate::{Error, Result, untyped::Reader};

/// The application's own instructions; rendered first, without tags, exactly as given.
pub const PREAMBLE: &str = "preamble";
/// The project's instruction files.
pub const PROJECT_INSTRUCTIONS: &str = "project_instructions";
/// The catalogue of skills the model may load.
pub const SKILLS: &str = "skills";
/// The working directory.
pub const CWD: &str = "cwd";
/// What the RunContext adds.
pub const RUN_CONTEXT: &str = "run_context";
/// What the model may do; last, because it changes most often.
pub const PERMISSIONS: &str = "permissions";

/// Not a section: the tag of a skill block in a user message. Reserved, so that no section can look like one.
const SKILL: &str = "skill";

/// The tags that only this library may write.
pub(super) const TAGS: [&str; 6] = [PROJECT_INSTRUCTIONS, SKILLS, CWD, RUN_CONTEXT, PERMISSIONS, SKILL];

/// One part of the system prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct Section {
    /// `[a-z][a-z0-9_-]*`, unique within a prompt; `preamble` for the part without tags.
    pub name: String,
    /// The text between the tags.
    pub content: String,
}

impl Section {
    /// A section.
    pub fn new(name: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            content: content.into(),
        }
    }
}

/// Whether a character can be part of a section name, at any place but the first.
pub(super) fn is_name_char(c: char) -> bool {
    matches!(c, 'a'..='z' | '0'..='9' | '_' | '-')
}

/// The error, where a name cannot be that of any section, a built-in one included.
pub(super) fn check_name(name: &str) -> Result<()> {
    if name == SKILL {
        return Err(bad_name(name, "is reserved; choose another name for the section"));
    }
    if name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_name_char) {
        Ok(())
    } else {
        Err(bad_name(
            name,
            "is no section name; use a to z, 0 to 9, `_` and `-`, beginning with a letter",
        ))
    }
}

impl FromJson for Section {
    fn from_json(value: &serde_json::Value, path: &str) -> Result<Self> {
        let mut section = Reader::new(value, path);
        let read = Self {
            name: section.read("name"),
            content: section.read("content"),
        };
        section.finish(read)
    }
}

impl ToJson for Section {
    fn to_json(&self) -> serde_json::Value {
        untyped::to_object(&[("name", &self.name), ("content", &self.content)])
    }
}

fn bad_name(name: &str, problem: &str) -> Error {
    Error::invalid(format!("`{name}` {problem}")).with("section", name)
}

fn check_unique(sections: &[Section]) -> Result<()> {
    let mut names: Vec<&str> = Vec::with_capacity(sections.len());
    for Section { name, .. } in sections {
        match names.binary_search(&name.as_str()) {
            Ok(_) => return Err(bad_name(name, "names two sections; give each its own name")),
            Err(at) => names.insert(at, name),
        }
    }
    Ok(())
}

/// Checks sections that a host gives: well-formed names, no built-in or reserved one, none twice.
///
/// # Errors
/// `invalid_argument`, with the name as `section`.
pub fn validate_host_sections(sections: &[Section]) -> Result<()> {
    for section in sections {
        check_name(&section.name)?;
        if section.name == PREAMBLE || TAGS.contains(&section.name.as_str()) {
            return Err(bad_name(
                &section.name,
                "is a built-in section; choose another name for yours",
            ));
        }
    }
    check_unique(sections)
}

/// Checks the sections of a whole prompt: well-formed names, none twice. Built-in ones are allowed.
pub(super) fn check_sections(sections: &[Section]) -> Result<()> {
    sections
        .iter()
        .try_for_each(|section| check_name(&section.name))?;
    check_unique(sections)
}

/// Where a name stands: most stable first. Host sections share a rank and stand by code point.
fn rank(name: &str) -> u8 {
    match name {
        PREAMBLE => 0,
        PROJECT_INSTRUCTIONS => 1,
        SKILLS => 3,
        CWD => 4,
        RUN_CONTEXT => 5,
        PERMISSIONS => 6,
        _ => 2,
    }
}

/// The order of two sections in a prompt.
pub(super) fn order(a: &str, b: &str) -> Ordering {
    rank(a).cmp(&rank(b)).then_with(|| a.cmp(b))
}

/// The body of a section as it stands in the prompt; none where the section is empty.
pub(super) fn body<'a>(name: &str, content: &'a str) -> Option<Cow<'a, str>> {
    if content.trim().is_empty() {
        None
    } else if name == PREAMBLE {
        Some(Cow::Borrowed(content))
    } else {
        Some(neutralise(content))
    }
}

/// Renders sections as a system prompt.
///
/// The preamble comes first, without tags and exactly as given; then `project_instructions`, the host's sections by
/// code point, `skills`, `cwd`, `run_context` and `permissions`, each as `<name>`, its neutralised content (see
/// [`neutralise`]) and `</name>` on lines of their own, joined by a blank line. Empty sections are left out. The order of the
/// input does not matter, and rendering what [`replay_system_prompt`](super::replay_system_prompt) gives is
/// byte for byte the same.
///
/// ```
/// use runcontext::prompt::{Section, render_system_prompt};
/// let prompt = render_system_prompt(&[Section::new("cwd", "/w"), Section::new("preamble", "Be brief.")])?;
/// assert_eq!(prompt, "Be brief.\n\n<cwd>\n/w\n</cwd>");
/// # Ok::<(), runcontext::Error>(())
/// ```
///
/// # Errors
/// `invalid_argument` for a name that is malformed, reserved (`skill`) or used twice, with the name as `section`.
pub fn render_system_prompt(sections: &[Section]) -> Result<String> {
    check_sections(sections)?;
    let mut sorted = Vec::with_capacity(sections.len());
    for section in sections {
        insert_sorted(&mut sorted, section, &|a: &&Section, b: &&Section| {
            order(&a.name, &b.name)
        });
    }
    let mut prompt = String::new();
    for Section { name, content } in sorted {
        let Some(body) = body(name, content) else { continue };
        if !prompt.is_empty() {
            prompt.push_str("\n\n");
        }
        if name == PREAMBLE {
            prompt.push_str(&body);
        } else {
            for part in ["<", name, ">\n", &body, "\n</", name, ">"] {
                prompt.push_str(part);
            }
        }
    }
    Ok(prompt)
}
