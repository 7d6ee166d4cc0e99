//! From choices to skills in the catalogue, a person's and the model's.

use super::catalog::{Catalog, SkillEntry, SkillStatus};
use super::offer::handle;
use crate::{Error, ErrorCode, Result, list::Listed, untyped::Numbered};

/// What was chosen by id and what was mentioned: each skill once, in catalogue order.
///
/// A choice by id means that very skill, also a shadowed or an ambiguous one. A mention of a skill that is no longer there
/// stays text.
///
/// # Errors
/// `skill_unavailable`, with the `id` and the `reason` (`unknown`, `disabled` or `invalid`), for the first explicit id
/// that cannot be loaded.
pub fn select<'a>(
    catalog: &'a Catalog,
    explicit: &[String],
    mentioned: &[String],
) -> Result<Vec<&'a SkillEntry>> {
    for id in explicit {
        let (reason, advice) = match catalog.get(id).map(|entry| entry.status) {
            None => ("unknown", "list the catalogue for the ids there are"),
            Some(SkillStatus::Disabled) => ("disabled", "enable it, or choose another"),
            Some(SkillStatus::Invalid) => ("invalid", "see its diagnostics, or choose another"),
            Some(SkillStatus::Active | SkillStatus::Shadowed | SkillStatus::Ambiguous) => continue,
        };
        return Err(unavailable(id, reason, &format!("is {reason}; {advice}")));
    }
    let mut chosen = Numbered::default();
    for (at, id) in explicit.iter().chain(mentioned).enumerate() {
        chosen.add(id, at);
    }
    let usable = |entry: &SkillEntry| !matches!(entry.status, SkillStatus::Disabled | SkillStatus::Invalid);
    let entries = catalog.list().into_iter();
    Ok(entries
        .filter(|entry| chosen.get(&entry.id).is_some() && usable(entry))
        .listed())
}

/// The skill that the model means by a name out of `<skills>`. It may load only what stands there, or would with more room.
///
/// # Errors
/// `skill_unavailable`, with the name as `id` and the `reason`: `disabled`, `hidden`, `ambiguous` or `unknown`. The message is for
/// the model.
pub fn named<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a SkillEntry> {
    let entries = catalog.list();
    let offered = entries
        .iter()
        .filter(|entry| handle(entry).as_deref() == Some(name));
    let several = (
        "ambiguous",
        "means several; use the name as it stands in `<skills>`",
    );
    let (reason, advice) = match offered.listed().as_slice() {
        [entry] => return Ok(entry),
        [_, ..] => several,
        [] => {
            let mut meant = entries
                .iter()
                .filter(|entry| entry.name == name || entry.id == name);
            let why = meant.find_map(|entry| match (entry.status, entry.model_invocable) {
                (SkillStatus::Disabled, _) => Some(("disabled", "is switched off; go on without it")),
                (SkillStatus::Ambiguous, true) => Some(several),
                (SkillStatus::Active | SkillStatus::Ambiguous, false) => Some((
                    "hidden",
                    "can only be chosen by the user; go on without it, or ask for it",
                )),
                // It has another name there.
                (SkillStatus::Active, true) | (SkillStatus::Shadowed | SkillStatus::Invalid, _) => None,
            });
            why.unwrap_or(("unknown", "is unknown; use a name as it stands in `<skills>`"))
        }
    };
    Err(unavailable(name, reason, advice))
}

/// The error for a skill that cannot be loaded.
pub fn unavailable(id: &str, reason: &str, why: &str) -> Error {
    Error::new(ErrorCode::SkillUnavailable, format!("skill `{id}` {why}"))
        .with("id", id)
        .with("reason", reason)
}
