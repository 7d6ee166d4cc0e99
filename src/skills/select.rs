//! From choices to skills in the catalogue, a person's and the model's.

use super::catalog::{Catalog, SkillEntry, SkillStatus};
use super::offer::{handle, quoted};
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
                (SkillStatus::Disabled, _) => Some(OFF),
                (SkillStatus::Ambiguous, true) => Some(several),
                (SkillStatus::Active | SkillStatus::Ambiguous, false) => Some(HIDDEN),
                // It has another name there.
                (SkillStatus::Active, true) | (SkillStatus::Shadowed | SkillStatus::Invalid, _) => None,
            });
            why.unwrap_or(("unknown", "is unknown; use a name as it stands in `<skills>`"))
        }
    };
    Err(refused(name, (reason, advice)))
}

/// A reason, and what the model is told.
type Refusal = (&'static str, &'static str);

const OFF: Refusal = ("disabled", "is switched off; go on without it");
const HIDDEN: Refusal = (
    "hidden",
    "can only be chosen by the user; go on without it, or ask for it",
);

/// What the model is told where it may not load what it asked for by this name: a text of ours, which names the skill as the
/// model did.
fn refused(name: &str, (reason, advice): Refusal) -> Error {
    unavailable(&quoted(name), reason, advice).with("id", name)
}

/// The same for a file that says by now that the model may not load it.
pub fn hidden(name: &str) -> Error {
    refused(name, HIDDEN)
}

/// The same where a skill cannot be read. What the host said is not for the model: nobody checked it. A person finds it in the data,
/// as `detail`, with the `id`.
pub fn not_loaded(name: &str, error: &Error) -> Error {
    let off = error.data().get("reason").is_some_and(|reason| reason == OFF.0);
    let broken = (
        "unreadable",
        "cannot be loaded; go on without it, and tell the user",
    );
    let mut told = refused(name, if off { OFF } else { broken });
    for (key, value) in error.data() {
        told = told.with(key, value.clone());
    }
    told.with("detail", error.message())
}

/// The error for a skill that cannot be loaded.
pub fn unavailable(id: &str, reason: &str, why: &str) -> Error {
    Error::new(ErrorCode::SkillUnavailable, format!("skill `{id}` {why}"))
        .with("id", id)
        .with("reason", reason)
}
