//! The fields that mean something: those the format defines, and those by which clients restrict a skill.

use serde_json::{Map, Value};

/// The fields the format defines.
static FORMAT: [&str; 6] = [
    "name",
    "description",
    "license",
    "compatibility",
    "metadata",
    GRANT,
];
/// The field that asks for permissions. It is shown, not obeyed.
pub(super) const GRANT: &str = "allowed-tools";
/// The fields of clients that restrict who may invoke a skill, all of them obeyed.
pub(super) static FLAGS: [&str; 3] = ["disable-model-invocation", "user-invocable", "user-invokable"];

/// The name of a field that means something. It is text of ours, so a message may hold it.
pub(super) fn known(name: &str) -> Option<&'static str> {
    let among = |names: &[&'static str]| names.iter().find(|known| **known == name).copied();
    among(&FORMAT).or_else(|| among(&FLAGS))
}

/// What a flag says, in the spellings of YAML 1.1 and 1.2, or as 1 and 0; none where it is absent or says neither yes nor no.
pub(super) fn flag(fields: &Map<String, Value>, name: &str) -> Option<bool> {
    yes_or_no(fields.get(name)?.as_str()?)
}

/// Whether a flag restricts the skill: it is there, and does not clearly say that it does not.
pub(super) fn restricts(fields: &Map<String, Value>, name: &str) -> bool {
    fields.contains_key(name) && flag(fields, name) != Some(is_open_when(name))
}

/// What a flag says where it does not restrict.
pub(super) fn is_open_when(name: &str) -> bool {
    name != "disable-model-invocation"
}

/// The name of the field that a line begins with, and what follows its colon. A blank or the line's end comes behind the
/// colon, as in YAML, though behind a name that means something it may be missing. A name begins with a small letter:
/// sentences do not.
pub(super) fn field_in(line: &str) -> Option<(&str, &str)> {
    let end = line.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.'))?;
    let (name, behind) = line.split_at_checked(end)?;
    let value = behind.trim_start_matches([' ', '\t']).strip_prefix(':')?;
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    let ends = value.is_empty() || value.starts_with(char::is_whitespace) || known(name).is_some();
    (begins && ends).then_some((name, value))
}

/// What a value of a flag says.
pub(super) fn yes_or_no(text: &str) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(text.trim()));
    if is(&["true", "yes", "on", "y", "1"]) {
        Some(true)
    } else if is(&["false", "no", "off", "n", "0"]) {
        Some(false)
    } else {
        None
    }
}
