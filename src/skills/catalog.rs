//! The catalogue: every skill there is, in one order, with what stands in its way.

use std::cmp::Ordering;

use serde::Serialize;

use super::diagnostic::{Diagnostic, DiagnosticCode, Position, Severity};
use super::manifest::{ParseOutcome, parse_skill, parse_skill_bytes, revision};
use super::mention::Mentionable;
use crate::{
    Error, ErrorCode, Result,
    context::LoadedSkill,
    list::{Listed, positions_in_order},
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

/// A skill in the catalogue. Serialised, it is the public `SkillInfo`. The text of its file is not kept: it is read when the skill
/// is chosen.
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
    /// SHA-256 of the file's text as it was read last, lower-case hex; `""` where it never could be read.
    pub revision: String,
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

/// Refuses what is no name of a scope: ids would no longer be unique.
///
/// # Errors
/// `invalid_argument` for a blank one, or one with a colon.
pub fn check_scope(scope: &str) -> Result<()> {
    if scope.trim().is_empty() || scope.bytes().any(|byte| byte == b':') {
        return Err(Error::invalid(format!(
            "`{scope}` is no scope; use a name without colons, such as `project`"
        )));
    }
    Ok(())
}

impl SkillEntry {
    /// An entry for a file, also for one that gives no skill: such an entry is listed as [`SkillStatus::Invalid`].
    ///
    /// # Errors
    /// `invalid_argument` for a blank scope or location, or a scope with a colon.
    pub fn new(scope: &str, location: &str, content: &str) -> Result<Self> {
        let outcome = parse_skill(content, Some(location));
        Self::from_outcome(scope, location, revision(content), outcome)
    }

    /// The same for a file given as bytes.
    ///
    /// # Errors
    /// As [`SkillEntry::new`].
    pub fn from_bytes(scope: &str, location: &str, bytes: &[u8]) -> Result<Self> {
        let revision = revision(&String::from_utf8_lossy(bytes));
        Self::from_outcome(
            scope,
            location,
            revision,
            parse_skill_bytes(bytes, Some(location)),
        )
    }

    fn from_outcome(scope: &str, location: &str, revision: String, outcome: ParseOutcome) -> Result<Self> {
        check_scope(scope)?;
        if location.trim().is_empty() {
            return Err(Error::invalid(
                "a skill needs a `location`; give the path or address of its file",
            ));
        }
        let ParseOutcome { skill, diagnostics } = outcome;
        let mut entry = Self::blank(skill_id(scope, location), scope, location);
        entry.revision = revision;
        entry.diagnostics = diagnostics;
        if let Some(skill) = skill {
            entry.status = SkillStatus::Active;
            entry.user_invocable = skill.user_invocable();
            entry.model_invocable = skill.model_invocable();
            entry.name = skill.name;
            entry.description = skill.description;
        }
        Ok(entry)
    }

    fn blank(id: String, scope: &str, location: &str) -> Self {
        Self {
            id,
            name: String::new(),
            description: String::new(),
            scope: scope.to_owned(),
            location: location.to_owned(),
            revision: String::new(),
            enabled: true,
            status: SkillStatus::Invalid,
            user_invocable: false,
            model_invocable: false,
            diagnostics: Vec::new(),
        }
    }

    /// An entry for a file that could not be read.
    pub fn unreadable(id: String, scope: &str, location: &str) -> Self {
        let mut entry = Self::blank(id, scope, location);
        entry.remark(
            DiagnosticCode::Unreadable,
            Severity::Error,
            "the file could not be read; see that it is there, and refresh the catalogue",
        );
        entry
    }

    /// Says something about the file as a whole, once.
    fn remark(&mut self, code: DiagnosticCode, severity: Severity, message: &str) {
        self.unsay(code);
        self.diagnostics
            .insert(0, Diagnostic::new(code, severity, Position::START, message));
    }

    fn unsay(&mut self, code: DiagnosticCode) {
        self.diagnostics.retain(|other| other.code != code);
    }

    /// The skill as it is chosen: this entry is of that very text.
    pub fn load(self, content: String) -> LoadedSkill {
        LoadedSkill {
            id: self.id,
            name: self.name,
            path: self.location,
            content,
            revision: self.revision,
            description: Some(self.description),
        }
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

/// Every skill there is, in catalogue order: scope, then name, then location, each by code point, the scopes in their own
/// order first.
///
/// Skills come from origins: 0 is what people added, the others are sources in the order in which they were added. Where several
/// list the same id, the first of them counts.
#[derive(Clone, Debug)]
pub struct Catalog {
    scope_order: Vec<String>,
    /// What each origin lists.
    origins: Vec<Vec<SkillEntry>>,
    /// Ids that are switched off, in order. They stay when their skill goes: it may come back.
    off: Vec<String>,
    /// Which origin's which entries stand in the catalogue, in its order.
    order: Vec<(usize, usize)>,
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
            origins: vec![Vec::new()],
            off: Vec::new(),
            order: Vec::new(),
        }
    }

    /// Puts in everything that an origin lists, in place of what it listed before.
    pub fn set_origin(&mut self, origin: usize, entries: Vec<SkillEntry>) {
        while self.origins.len() <= origin {
            self.origins.push(Vec::new());
        }
        if let Some(listed) = self.origins.get_mut(origin) {
            *listed = entries;
        }
        self.settle();
    }

    /// Says which ids are switched off.
    pub fn set_off(&mut self, ids: Vec<String>) {
        self.off.clear();
        for id in ids {
            if let Err(at) = self.off.binary_search(&id) {
                self.off.insert(at, id);
            }
        }
        self.settle();
    }

    /// Puts in what a person adds, in place of what a person added with the same id. What was switched off stays off.
    pub fn add(&mut self, entry: SkillEntry) {
        self.take(&entry.id);
        if let Some(added) = self.origins.first_mut() {
            added.push(entry);
        }
        self.settle();
    }

    /// Takes out what a person added. Added again, it is switched on, unless a source lists the same id: that stays off.
    pub fn remove(&mut self, id: &str) -> Option<SkillEntry> {
        let taken = self.take(id);
        if taken.is_some() {
            if !self.is_of_source(id) {
                self.off.retain(|other| other != id);
            }
            self.settle();
        }
        taken
    }

    /// Whether a source lists this id, also behind what a person added.
    pub fn is_of_source(&self, id: &str) -> bool {
        let mut sources = self.origins.iter().skip(1).flatten();
        sources.any(|entry| entry.id == id)
    }

    fn take(&mut self, id: &str) -> Option<SkillEntry> {
        let added = self.origins.first_mut()?;
        let at = added.iter().position(|entry| entry.id == id)?;
        Some(added.remove(at))
    }

    /// Switches a skill on or off.
    ///
    /// # Errors
    /// `not_found` for an unknown id.
    pub fn set_enabled(&mut self, id: &str, enabled: bool) -> Result<()> {
        self.find(id)?;
        match self.off.binary_search_by(|other| other.as_str().cmp(id)) {
            Ok(at) if enabled => drop(self.off.remove(at)),
            Err(at) if !enabled => self.off.insert(at, id.to_owned()),
            _ => return Ok(()),
        }
        self.settle();
        Ok(())
    }

    /// Every entry, in catalogue order.
    pub fn list(&self) -> Vec<&SkillEntry> {
        self.order
            .iter()
            .filter_map(|(origin, at)| self.origins.get(*origin)?.get(*at))
            .listed()
    }

    /// The entry with this id.
    pub fn get(&self, id: &str) -> Option<&SkillEntry> {
        self.list().into_iter().find(|entry| entry.id == id)
    }

    /// Where the skill with this id comes from, with its entry.
    ///
    /// # Errors
    /// `not_found` for an unknown id.
    pub fn find(&self, id: &str) -> Result<(usize, &SkillEntry)> {
        let mut standing = self.order.iter().zip(self.list());
        let found = standing.find(|(_, entry)| entry.id == id);
        found.map(|((origin, _), entry)| (*origin, entry)).ok_or_else(|| {
            let text = format!("there is no skill `{id}`; list the catalogue for those there are");
            Error::new(ErrorCode::NotFound, text).with("id", id)
        })
    }

    /// What stands for a file that an origin lists and that cannot be read now: what is known of it from before, so that its
    /// name does not suddenly mean another.
    pub fn unread(&self, origin: usize, scope: &str, location: &str) -> SkillEntry {
        let listed = self.origins.get(origin).into_iter().flatten();
        let before = listed
            .filter(|entry| entry.status != SkillStatus::Invalid)
            .find(|entry| entry.location == location);
        match before {
            None => SkillEntry::unreadable(skill_id(scope, location), scope, location),
            Some(before) => {
                let mut entry = before.clone();
                entry.remark(
                    DiagnosticCode::Unreadable,
                    Severity::Warning,
                    "the file could not be read again; what is shown is from before",
                );
                entry
            }
        }
    }

    /// What a person can mention, in catalogue order: skills that are usable, switched on and not hidden from the person.
    pub fn mentionable(&self) -> Vec<Mentionable> {
        self.list()
            .into_iter()
            .filter_map(|entry| {
                let skill = Mentionable {
                    id: entry.id.clone(),
                    name: entry.name.clone(),
                    location: Some(entry.location.clone()),
                    shadowed: false,
                };
                skill.standing(entry.status, entry.user_invocable)
            })
            .listed()
    }

    fn rank(&self, scope: &str) -> usize {
        self.scope_order
            .iter()
            .position(|known| known == scope)
            .unwrap_or(self.scope_order.len())
    }

    fn compare(&self, a: &SkillEntry, b: &SkillEntry) -> Ordering {
        let scope = |entry: &SkillEntry| self.rank(&entry.scope);
        scope(a)
            .cmp(&scope(b))
            .then_with(|| a.scope.cmp(&b.scope))
            .then_with(|| a.name.cmp(&b.name))
            .then_with(|| a.location.cmp(&b.location))
    }

    /// Works out again which entries stand, where, and with which status. Only usable, enabled skills compete for a name; the
    /// strongest scope wins it, and two of them in that scope make it ambiguous.
    fn settle(&mut self) {
        let mut ids = Numbered::default();
        let mut standing: Vec<(usize, usize, &SkillEntry)> = Vec::new();
        let mut twice: Vec<(usize, usize)> = Vec::new();
        for (origin, entries) in self.origins.iter().enumerate() {
            for (at, entry) in entries.iter().enumerate() {
                if ids.add(&entry.id, standing.len()) {
                    standing.push((origin, at, entry));
                } else if let Some((origin, at, _)) = ids.get(&entry.id).and_then(|at| standing.get(at)) {
                    twice.push((*origin, *at));
                }
            }
        }
        let order = positions_in_order(standing.len(), &|a, b| match (standing.get(a), standing.get(b)) {
            (Some((.., a)), Some((.., b))) => self.compare(a, b),
            _ => Ordering::Equal,
        });
        let mut sorted: Vec<&(usize, usize, &SkillEntry)> = Vec::with_capacity(standing.len());
        for at in order {
            sorted.extend(standing.get(at));
        }

        // They stand by scope, the strongest first, so the first competitor for a name has the scope that wins it.
        let is_off = |entry: &SkillEntry| self.off.binary_search(&entry.id).is_ok();
        let mut winners = Numbered::default();
        let mut won: Vec<(&str, u32)> = Vec::new();
        for (.., entry) in &sorted {
            if is_off(entry) || entry.status == SkillStatus::Invalid {
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
            _ if is_off(entry) => SkillStatus::Disabled,
            (_, Some((scope, _))) if *scope != entry.scope => SkillStatus::Shadowed,
            (_, Some((_, count))) if *count > 1 => SkillStatus::Ambiguous,
            _ => SkillStatus::Active,
        };
        let mut settled = Vec::with_capacity(sorted.len());
        for (origin, at, entry) in sorted {
            settled.push((*origin, *at, status(entry), !is_off(entry)));
        }
        self.order.clear();
        for (origin, at, status, enabled) in settled {
            self.order.push((origin, at));
            let Some(entry) = self.origins.get_mut(origin).and_then(|it| it.get_mut(at)) else {
                continue;
            };
            (entry.status, entry.enabled) = (status, enabled);
            entry.unsay(DiagnosticCode::ListedTwice);
            if twice.contains(&(origin, at)) {
                entry.remark(
                    DiagnosticCode::ListedTwice,
                    Severity::Warning,
                    "its location is listed twice in this scope; what a person added counts, then what was listed first",
                );
            }
        }
    }
}
