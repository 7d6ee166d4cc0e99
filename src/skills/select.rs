//! From choices to loaded skills.

use super::catalog::{Catalog, SkillEntry, SkillStatus};
use crate::context::LoadedSkill;
use crate::{Error, ErrorCode, Result, list::Listed, untyped::Numbered};

/// Loads what was chosen by id and what was mentioned: each skill once, in catalogue order, with its text and revision of
/// now.
///
/// A choice by id means that very skill, also a shadowed or an ambiguous one. A mention of a skill that is no longer there
/// stays text.
///
/// # Errors
/// `skill_unavailable`, with the `id` and the `reason` (`unknown`, `disabled` or `invalid`), for the first explicit id
/// that cannot be loaded.
pub fn select(catalog: &Catalog, explicit: &[String], mentioned: &[String]) -> Result<Vec<LoadedSkill>> {
    for id in explicit {
        let (reason, advice) = match catalog.get(id).map(|entry| entry.status) {
            None => ("unknown", "list the catalogue for the ids there are"),
            Some(SkillStatus::Disabled) => ("disabled", "enable it, or choose another"),
            Some(SkillStatus::Invalid) => ("invalid", "see its diagnostics, or choose another"),
            Some(SkillStatus::Active | SkillStatus::Shadowed | SkillStatus::Ambiguous) => continue,
        };
        let message = format!("skill `{id}` is {reason}; {advice}");
        return Err(Error::new(ErrorCode::SkillUnavailable, message)
            .with("id", id.as_str())
            .with("reason", reason));
    }
    let mut chosen = Numbered::default();
    for (at, id) in explicit.iter().chain(mentioned).enumerate() {
        chosen.add(id, at);
    }
    let loaded = catalog
        .list()
        .iter()
        .filter(|entry| chosen.get(&entry.id).is_some())
        .filter(|entry| !matches!(entry.status, SkillStatus::Disabled | SkillStatus::Invalid))
        .map(load);
    Ok(loaded.listed())
}

fn load(entry: &SkillEntry) -> LoadedSkill {
    LoadedSkill {
        id: entry.id.clone(),
        name: entry.name.clone(),
        path: entry.location.clone(),
        content: entry.content.clone(),
        revision: entry.revision.clone(),
        description: Some(entry.description.clone()),
    }
}
