//! The catalogue: every skill there is, in one order, with what stands in its way.

use std::cmp::Ordering;

use serde::Serialize;

use super::diagnostic::{Diagnostic, Severity};
use super::manifest::{ParseOutcome, parse_skill, parse_skill_bytes, revision};
use super::mention::Mentionable;
use crate::{
    Error, ErrorCode, Result,
    list::Listed,
    untyped::{Numbered, ToJson},
};

/// Scopes from the strongest to the weakest, unless told otherwise.
const SCOPE_ORDER: [&str; 3] = ["project", "personal", "bundled"];

/// Whether a skill's plain name means this skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub enum SkillStatus {
    /// It does.
    Active,
    /// A stronger scope has a skill of that name.
    Shadowed,
    /// Its own scope has another skill of that name, so the name means neither.
    Ambiguous,
    /// It was switched off.
    Disabled,
    /// Its file gives no skill; see its diagnostics.
    Invalid,
}

/// A skill in the catalogue. Serialised, it is the public `SkillInfo`: everything but `content`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify), tsify(rename = "SkillInfo"))]
pub struct SkillEntry {
    /// `scope:location`.
    pub id: String,
    /// The name; `""` where the file gives none.
    pub name: String,
    /// What it is for; `""` where the file does not say.
    pub description: String,
    /// Where it comes from: `project`, `personal`, `bundled` or a host's own.
    pub scope: String,
    /// Where the file is, as shown to the model.
    pub location: String,
    /// SHA-256 of the file's text, lower-case hex.
    pub revision: String,
    /// The whole text of the file.
    #[serde(skip_serializing)]
    pub content: String,
    /// Whether it is switched on.
    pub enabled: bool,
    /// What its plain name means.
    pub status: SkillStatus,
    /// Whether a person may choose it.
    pub user_invocable: bool,
    /// Whether the model may load it by itself.
    pub model_invocable: bool,
    /// What is remarkable about the file.
    pub diagnostics: Vec<Diagnostic>,
}

/// The id of a skill: `scope:location`.
pub fn skill_id(scope: &str, location: &str) -> String {
    format!("{scope}:{location}")
}

impl SkillEntry {
    /// An entry for a file, also for one that gives no skill: such an entry is listed as [`SkillStatus::Invalid`].
    ///
    /// # Errors
    /// `invalid_argument` for a blank scope or location, or a scope with a colon: ids would no longer be unique.
    pub fn new(scope: &str, location: &str, content: &str) -> Result<Self> {
        Self::from_outcome(
            scope,
            location,
            content.to_owned(),
            parse_skill(content, Some(location)),
        )
    }

    /// The same for a file given as bytes. Of bytes that are not UTF-8 the entry keeps a readable rendition.
    ///
    /// # Errors
    /// As [`SkillEntry::new`].
    pub fn from_bytes(scope: &str, location: &str, bytes: &[u8]) -> Result<Self> {
        let content = String::from_utf8_lossy(bytes).into_owned();
        Self::from_outcome(scope, location, content, parse_skill_bytes(bytes, Some(location)))
    }

    fn from_outcome(scope: &str, location: &str, content: String, outcome: ParseOutcome) -> Result<Self> {
        if scope.trim().is_empty() || scope.bytes().any(|byte| byte == b':') {
            return Err(Error::invalid(format!(
                "`{scope}` is no scope; use a name without colons, such as `project`"
            )));
        }
        if location.trim().is_empty() {
            return Err(Error::invalid(
                "a skill needs a `location`; give the path or address of its file",
            ));
        }
        let ParseOutcome { skill, diagnostics } = outcome;
        let usable = skill.is_some();
        Ok(Self {
            id: skill_id(scope, location),
            scope: scope.to_owned(),
            location: location.to_owned(),
            revision: revision(&content),
            content,
            enabled: true,
            status: if usable {
                SkillStatus::Active
            } else {
                SkillStatus::Invalid
            },
            user_invocable: skill.as_ref().is_some_and(|skill| skill.user_invocable()),
            model_invocable: skill.as_ref().is_some_and(|skill| skill.model_invocable()),
            diagnostics,
            name: skill.as_ref().map(|skill| skill.name.clone()).unwrap_or_default(),
            description: skill.map(|skill| skill.description).unwrap_or_default(),
        })
    }

    /// The error for a file that gives no skill.
    ///
    /// # Errors
    /// `skill_invalid`, with the `id` and the `diagnostics`.
    pub fn require_usable(&self) -> Result<()> {
        if self.status != SkillStatus::Invalid {
            return Ok(());
        }
        let why = self
            .diagnostics
            .iter()
            .find(|diagnostic| diagnostic.severity == Severity::Error);
        let why = why.map_or("it gives no skill", |diagnostic| diagnostic.message.as_str());
        Err(Error::new(
            ErrorCode::SkillInvalid,
            format!("skill `{}` cannot be used: {why}", self.id),
        )
        .with("id", self.id.as_str())
        .with("diagnostics", self.diagnostics.to_json()))
    }
}

/// Skills in memory, in catalogue order: scope, then name, then location, each by code point, the scopes
/// in their own order first.
#[derive(Clone, Debug)]
pub struct Catalog {
    scope_order: Vec<String>,
    entries: Vec<SkillEntry>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self::new(SCOPE_ORDER.map(str::to_owned).to_vec())
    }
}

impl Catalog {
    /// An empty catalogue with its own order of scopes, the strongest first. Scopes that are not among them are weaker than
    /// those that are, and stand by code point. [`Catalog::default`] has `project`, `personal`, `bundled`.
    pub fn new(scope_order: Vec<String>) -> Self {
        Self {
            scope_order,
            entries: Vec::new(),
        }
    }

    /// Puts an entry in, in place of one with the same id, whose `enabled` it keeps: what was switched off stays off until
    /// somebody switches it on.
    pub fn add(&mut self, mut entry: SkillEntry) {
        if let Some(old) = self.remove(&entry.id) {
            entry.enabled = old.enabled;
        }
        let at = self
            .entries
            .partition_point(|other| self.order(other, &entry).is_lt());
        self.entries.insert(at, entry);
        self.refresh();
    }

    /// Takes an entry out.
    pub fn remove(&mut self, id: &str) -> Option<SkillEntry> {
        let at = self.entries.iter().position(|entry| entry.id == id)?;
        let entry = self.entries.remove(at);
        self.refresh();
        Some(entry)
    }

    /// Switches a skill on or off.
    ///
    /// # Errors
    /// `not_found` for an unknown id.
    pub fn set_enabled(&mut self, id: &str, enabled: bool) -> Result<()> {
        let entry = self
            .entries
            .iter_mut()
            .find(|entry| entry.id == id)
            .ok_or_else(|| {
                Error::new(
                    ErrorCode::NotFound,
                    format!("there is no skill `{id}`; list the catalogue for those there are"),
                )
                .with("id", id)
            })?;
        entry.enabled = enabled;
        self.refresh();
        Ok(())
    }

    /// Every entry, in catalogue order.
    pub fn list(&self) -> &[SkillEntry] {
        &self.entries
    }

    /// The entry with this id.
    pub fn get(&self, id: &str) -> Option<&SkillEntry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// What a person can mention, in catalogue order: skills that are usable, switched on and not hidden from the person.
    pub fn mentionable(&self) -> Vec<Mentionable> {
        self.entries
            .iter()
            .filter(|entry| {
                entry.user_invocable && !matches!(entry.status, SkillStatus::Disabled | SkillStatus::Invalid)
            })
            .map(|entry| Mentionable {
                id: entry.id.clone(),
                name: entry.name.clone(),
                location: Some(entry.location.clone()),
                shadowed: entry.status == SkillStatus::Shadowed,
            })
            .listed()
    }

    fn rank(&self, scope: &str) -> usize {
        self.scope_order
            .iter()
            .position(|known| known == scope)
            .unwrap_or(self.scope_order.len())
    }

    fn order(&self, a: &SkillEntry, b: &SkillEntry) -> Ordering {
        let scope = |entry: &SkillEntry| self.rank(&entry.scope);
        scope(a)
            .cmp(&scope(b))
            .then_with(|| a.scope.cmp(&b.scope))
            .then_with(|| a.name.cmp(&b.name))
            .then_with(|| a.location.cmp(&b.location))
    }

    /// Works out every status again. Only usable, enabled skills compete for a name; the strongest scope wins it, and
    /// two of them in that scope make it ambiguous.
    fn refresh(&mut self) {
        // Entries stand by scope, the strongest first, so the first competitor for a name has the scope that wins it.
        let mut winners = Numbered::default();
        let mut won: Vec<(&str, u32)> = Vec::new();
        for entry in &self.entries {
            if !entry.enabled || entry.status == SkillStatus::Invalid {
                continue;
            }
            winners.add(&entry.name, won.len());
            let at = winners.get(&entry.name).unwrap_or(won.len());
            match won.get_mut(at) {
                None => won.push((&entry.scope, 1)),
                Some((scope, count)) if *scope == entry.scope => *count += 1,
                Some(_) => {}
            }
        }
        let winner = |entry: &SkillEntry| won.get(winners.get(&entry.name)?);
        let status = |entry: &SkillEntry| match (entry.status, winner(entry)) {
            (SkillStatus::Invalid, _) => SkillStatus::Invalid,
            _ if !entry.enabled => SkillStatus::Disabled,
            (_, Some((scope, _))) if *scope != entry.scope => SkillStatus::Shadowed,
            (_, Some((_, count))) if *count > 1 => SkillStatus::Ambiguous,
            _ => SkillStatus::Active,
        };
        let statuses: Vec<SkillStatus> = self.entries.iter().map(status).listed();
        for (entry, status) in self.entries.iter_mut().zip(statuses) {
            entry.status = status;
        }
    }
}
