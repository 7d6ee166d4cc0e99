//! What a permission store holds, and what becomes of it, or why not, when somebody wants something changed.

use serde::Serialize;
use serde_json::Value;

use super::rule::{Action, ApprovalRule, DEFAULT_GROUP, check_catch_all, seeded_rules};
use crate::{
    Error, ErrorCode, Result,
    list::Listed,
    storage::{SharedChange, keys},
    untyped::{
        self, FromJson, Numbered, Reader, ToJson, field_error, fits_id, insert_sorted, join, to_object,
    },
};

/// A set of rules with a name. A session looks at those of its own group, then at those of `default`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct PermissionGroup {
    /// 1 to 128 letters, digits, `_` or `-`.
    pub id: String,
    /// For people.
    pub name: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(target_family = "wasm", tsify(optional))]
    pub description: Option<String>,
}

impl PermissionGroup {
    /// Reads a group from untyped JSON. One that is there already keeps its id.
    fn parse(value: &Value, path: &str, id: Option<&str>) -> Result<Self> {
        let mut object = Reader::new(value, path);
        let given = match id.filter(|_| object.optional("id").is_none()) {
            Some(id) => id.to_owned(),
            None => object.read("id"),
        };
        let group = Self {
            id: given,
            name: object.read("name"),
            description: object.read("description"),
        };
        let group = object.finish(group)?;
        let wrong = |field: &str, problem: &str| Err(field_error(&untyped::join(path, field), problem));
        if !fits_id(&group.id) {
            return wrong("id", "must have 1 to 128 letters, digits, `_` or `-`");
        }
        if id.is_some_and(|id| id != group.id) {
            return wrong("id", "must be that of the group that is changed, or absent");
        }
        if group.name.trim().is_empty() {
            return wrong("name", "is blank; give the group a name");
        }
        Ok(group)
    }
}

impl ToJson for PermissionGroup {
    fn to_json(&self) -> Value {
        to_object(&[
            ("id", &self.id),
            ("name", &self.name),
            ("description", &self.description),
        ])
    }
}

/// What somebody wants changed. Groups and rules are as they came in: untyped JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum PermissionChange {
    /// A new group, without rules: `{ id, name, description? }`.
    CreateGroup(Value),
    /// Another name and description for a group: `{ name, description? }`.
    UpdateGroup(String, Value),
    /// A group goes with its rules.
    DeleteGroup(String),
    /// A new group, `{ id, name }`, with copies of another one's rules.
    DuplicateGroup(String, Value),
    /// A new rule. Its id is given here, whatever it brings.
    AddRule(Value),
    /// The members of a rule that are given are changed.
    UpdateRule(i64, Value),
    /// A rule goes.
    DeleteRule(i64),
    /// Rows of another store, `{ groups, rules }`. A group among them takes the place of the one with its id, with its rules; a rule
    /// keeps its id where that is free.
    Import(Value),
}

/// One row that is written or removed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RowChange {
    PutGroup(PermissionGroup),
    RemoveGroup(String),
    PutRule(ApprovalRule),
    RemoveRule(i64),
}

type Changes = Result<Vec<RowChange>>;

/// The key of the number that the next rule gets: a rule that is gone does not give its number back.
const NEXT: &str = "next";

/// Every group and rule.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Rows {
    /// By id.
    groups: Vec<PermissionGroup>,
    /// In no order.
    rules: Vec<ApprovalRule>,
    next: i64,
    /// Why the first record that cannot be read cannot be.
    damage: Option<Error>,
    /// What is listed for rules that cannot be read: as long as one of them is there, every call that is not denied asks.
    damaged_rules: Vec<ApprovalRule>,
}

impl Rows {
    /// Reads what is stored. What cannot be read is damage, and stays listed, so that a person can delete it.
    pub(crate) fn read(groups: &[(String, Value)], rules: &[(String, Value)]) -> Self {
        let mut rows = Self {
            next: 1,
            ..Self::default()
        };
        for (key, value) in groups {
            let read = PermissionGroup::parse(value, "group", Some(key));
            let group = read.unwrap_or_else(|cause| PermissionGroup {
                id: key.clone(),
                name: key.clone(),
                description: Some(rows.is_damaged("group", key, "change or delete it", &cause)),
            });
            rows.apply(RowChange::PutGroup(group));
        }
        for (key, value) in rules {
            if key == NEXT {
                match u64::from_json(value, NEXT) {
                    Ok(next) => rows.next = rows.next.max(next as i64),
                    // Numbers of rules that are gone may be given again: nothing is left that says which they were.
                    Err(cause) => {
                        rows.is_damaged("number", key, "any change of the rules repairs it", &cause);
                    }
                }
                continue;
            }
            let read = ApprovalRule::from_json(value, "rule").and_then(|rule| {
                if rule.id.to_string() == *key {
                    Ok(rule)
                } else {
                    Err(field_error("rule.id", "is not that of its record"))
                }
            });
            // Keys differ, so that no rule is there twice.
            match read {
                Ok(rule) => {
                    rows.next = rows.next.max(rule.id + 1);
                    rows.rules.push(rule);
                }
                Err(cause) => {
                    let note = rows.is_damaged("rule", key, "delete it", &cause);
                    let id = key
                        .parse::<i64>()
                        .ok()
                        .filter(|id| *id >= 0 && id.to_string() == *key);
                    rows.damaged_rules.extend(id.map(|id| ApprovalRule {
                        priority: 0,
                        locked: true,
                        note: Some(note),
                        ..ApprovalRule::new(id, "*", Action::Require)
                    }));
                }
            }
        }
        for rule in &rows.damaged_rules {
            rows.next = rows.next.max(rule.id.saturating_add(1));
        }
        rows
    }

    fn is_damaged(&mut self, what: &str, key: &str, remedy: &str, cause: &Error) -> String {
        let text = format!("the stored {what} `{key}` cannot be read, {remedy}: {cause}");
        self.damage
            .get_or_insert_with(|| Error::new(ErrorCode::StorageFailed, text.clone()).with("id", key));
        text
    }

    /// Why not everything could be read.
    pub(crate) fn damage(&self) -> Option<&Error> {
        self.damage.as_ref()
    }

    /// What is listed for rules that cannot be read. Their groups are not known: they are listed with those of each.
    pub(crate) fn damaged_rules(&self) -> &[ApprovalRule] {
        &self.damaged_rules
    }

    pub(crate) fn groups(&self) -> &[PermissionGroup] {
        &self.groups
    }

    pub(crate) fn rules(&self) -> &[ApprovalRule] {
        &self.rules
    }

    /// The rules of a group, or of all groups one after another, in the order in which they are looked at.
    pub(crate) fn in_order(&self, group: Option<&str>) -> Result<Vec<ApprovalRule>> {
        if let Some(group) = group {
            self.group(group)?;
        }
        let mut found: Vec<&ApprovalRule> = Vec::new();
        for rule in &self.rules {
            if group.is_none_or(|group| group == rule.group_id) {
                insert_sorted(&mut found, rule, &|a, b| {
                    a.group_id
                        .cmp(&b.group_id)
                        .then_with(|| a.order().cmp(&b.order()))
                });
            }
        }
        Ok(found.into_iter().cloned().listed())
    }

    /// A group that is there.
    pub(crate) fn group(&self, id: &str) -> Result<&PermissionGroup> {
        let found = self.groups.iter().find(|group| group.id == id);
        found.ok_or_else(|| {
            let text = format!("there is no permission group `{id}`; list them with `listGroups`");
            Error::new(ErrorCode::NotFound, text).with("group", id)
        })
    }

    fn rule(&self, id: i64) -> Result<&ApprovalRule> {
        if id < 0 {
            let text = format!("rule {id} is built in; it is neither changed nor deleted");
            return Err(Error::new(ErrorCode::GroupProtected, text).with("rule", id));
        }
        let of = |rules: &[ApprovalRule]| rules.iter().position(|rule| rule.id == id);
        if of(&self.damaged_rules).is_some() {
            let text = format!("the stored rule {id} cannot be read; delete it, and add another");
            return Err(Error::new(ErrorCode::StorageFailed, text).with("id", id.to_string()));
        }
        let found = of(&self.rules).and_then(|at| self.rules.get(at));
        found.ok_or_else(|| {
            let text = format!("there is no rule {id}; list them with `listRules`");
            Error::new(ErrorCode::NotFound, text).with("rule", id)
        })
    }

    fn free(&self, id: &str) -> Result<()> {
        match self.group(id) {
            Err(_) => Ok(()),
            Ok(_) => {
                let text = format!("a permission group with the id `{id}` exists; choose another id");
                Err(Error::new(ErrorCode::Conflict, text).with("group", id))
            }
        }
    }

    /// These rules, with numbers of their own, in a group.
    fn numbered(&self, rules: Vec<ApprovalRule>, group: &str, changes: &mut Vec<RowChange>) {
        for (id, rule) in (self.next..).zip(rules) {
            changes.push(RowChange::PutRule(ApprovalRule {
                id,
                group_id: group.to_owned(),
                ..rule
            }));
        }
    }

    /// The group `default` with its first rules, unless it is there.
    pub(crate) fn seed(&self) -> Vec<RowChange> {
        let mut changes = Vec::new();
        if self.group(DEFAULT_GROUP).is_err() {
            changes.push(RowChange::PutGroup(PermissionGroup {
                id: DEFAULT_GROUP.to_owned(),
                name: "Default".to_owned(),
                description: Some("its rules come last, for every session".to_owned()),
            }));
            self.numbered(seeded_rules(), DEFAULT_GROUP, &mut changes);
        }
        changes
    }

    /// What becomes of the rows. `users` are the records whose run contexts name the group that goes.
    pub(crate) fn decide(&self, change: &PermissionChange, users: &[String]) -> Changes {
        match change {
            PermissionChange::CreateGroup(group) => self.create_group(group),
            PermissionChange::UpdateGroup(id, group) => self.update_group(id, group),
            PermissionChange::DeleteGroup(id) => self.delete_group(id, users),
            PermissionChange::DuplicateGroup(source, to) => self.duplicate_group(source, to),
            PermissionChange::AddRule(rule) => self.add_rule(rule),
            PermissionChange::UpdateRule(id, rule) => self.update_rule(*id, rule),
            PermissionChange::DeleteRule(id) => {
                let damaged = self.damaged_rules.iter().any(|rule| rule.id == *id);
                let id = if damaged { *id } else { self.rule(*id)?.id };
                Ok(vec![RowChange::RemoveRule(id)])
            }
            PermissionChange::Import(rows) => self.import(rows),
        }
    }

    fn create_group(&self, given: &Value) -> Changes {
        let group = PermissionGroup::parse(given, "group", None)?;
        self.free(&group.id)?;
        Ok(vec![RowChange::PutGroup(group)])
    }

    fn update_group(&self, id: &str, given: &Value) -> Changes {
        self.group(id)?;
        let group = PermissionGroup::parse(given, "group", Some(id))?;
        Ok(vec![RowChange::PutGroup(group)])
    }

    fn delete_group(&self, id: &str, users: &[String]) -> Changes {
        if id == DEFAULT_GROUP {
            let text = "the group `default` is every session's; change its rules instead of deleting it";
            return Err(Error::new(ErrorCode::GroupProtected, text).with("group", id));
        }
        self.group(id)?;
        if let Some(first) = users.first() {
            let text = format!(
                "the permission group `{id}` is used by {} run contexts, that of `{first}` among them; give them \
                 another group first",
                users.len()
            );
            let error = Error::new(ErrorCode::GroupInUse, text).with("group", id);
            return Err(error.with("usedBy", users.to_vec().to_json()));
        }
        let mut changes = vec![RowChange::RemoveGroup(id.to_owned())];
        for rule in self.rules.iter().filter(|rule| rule.group_id == id) {
            changes.push(RowChange::RemoveRule(rule.id));
        }
        Ok(changes)
    }

    /// Where the new group brings no description, it has the other's.
    fn duplicate_group(&self, source: &str, given: &Value) -> Changes {
        // A copy would lack what cannot be read.
        if let Some(damage) = &self.damage {
            return Err(damage.clone());
        }
        let source = self.group(source)?;
        let mut to = PermissionGroup::parse(given, "to", None)?;
        self.free(&to.id)?;
        to.description = to.description.or_else(|| source.description.clone());
        let id = to.id.clone();
        let mut changes = vec![RowChange::PutGroup(to)];
        self.numbered(self.in_order(Some(&source.id))?, &id, &mut changes);
        Ok(changes)
    }

    fn add_rule(&self, given: &Value) -> Changes {
        let rule = ApprovalRule::from_json(given, "rule")?;
        self.fitting(ApprovalRule {
            id: self.next,
            ..rule
        })
    }

    fn update_rule(&self, id: i64, given: &Value) -> Changes {
        let mut whole = self.rule(id)?.to_json();
        let given = untyped::object(given, "rule")?;
        if let Some(members) = whole.as_object_mut() {
            for (name, value) in given {
                members.insert(name.clone(), value.clone());
            }
        }
        let rule = ApprovalRule::from_json(&whole, "rule")?;
        if rule.id != id {
            return Err(field_error(
                "rule.id",
                "must be that of the rule that is changed, or absent",
            ));
        }
        self.fitting(rule)
    }

    fn import(&self, given: &Value) -> Changes {
        let mut rows = Reader::new(given, "rows");
        let groups: Vec<Value> = rows.read_or_default("groups");
        let given: Vec<Value> = rows.read_or_default("rules");
        rows.finish(())?;
        let mut changes = Vec::new();
        // What is there afterwards. Numbers of rules are given behind every number that was given, or that is brought.
        let mut after = Self {
            groups: self.groups.clone(),
            rules: self.rules.clone(),
            next: self.next,
            ..Self::default()
        };
        let mut replaced: Vec<String> = Vec::new();
        for (at, group) in groups.iter().enumerate() {
            let path = format!("rows.groups[{at}]");
            let group = PermissionGroup::parse(group, &path, None)?;
            if replaced.contains(&group.id) {
                return Err(field_error(
                    &join(&path, "id"),
                    "is that of another group among these",
                ));
            }
            replaced.push(group.id.clone());
            after.apply(RowChange::PutGroup(group.clone()));
            changes.push(RowChange::PutGroup(group));
        }
        after.rules.retain(|rule| !replaced.contains(&rule.group_id));
        let mut rules = Vec::new();
        let mut ids = Numbered::default();
        for (at, row) in given.iter().enumerate() {
            let path = format!("rows.rules[{at}]");
            let mut row = row.clone();
            // SQLite has no other truth.
            if let Some(locked) = row.get_mut("locked")
                && let Some(number @ (0.0 | 1.0)) = locked.as_f64()
            {
                *locked = Value::from(number == 1.0);
            }
            let has_id = untyped::object(&row, &path)?
                .get("id")
                .is_some_and(|id| !id.is_null());
            let mut rule = ApprovalRule::from_json(&row, &path)?;
            if has_id && !ids.add(&rule.id.to_string(), at) {
                return Err(field_error(
                    &join(&path, "id"),
                    "is that of another rule among these",
                ));
            }
            let is_taken = |taken: &ApprovalRule| taken.id == rule.id;
            if !has_id || after.rules.iter().chain(&self.damaged_rules).any(is_taken) {
                rule.id = -1;
            }
            after.next = after.next.max(rule.id + 1);
            rules.push(rule);
        }
        for mut rule in rules {
            if rule.id < 0 {
                rule.id = after.next;
            }
            changes.append(&mut after.fitting(rule.clone())?);
            after.apply(RowChange::PutRule(rule));
        }
        for rule in &self.rules {
            if !after.rules.iter().any(|kept| kept.id == rule.id) {
                changes.push(RowChange::RemoveRule(rule.id));
            }
        }
        Ok(changes)
    }

    fn fitting(&self, rule: ApprovalRule) -> Changes {
        self.group(&rule.group_id)?;
        check_catch_all(&rule, &self.rules)?;
        Ok(vec![RowChange::PutRule(rule)])
    }

    /// These changes as storage knows them.
    pub(crate) fn records(&self, changes: &[RowChange]) -> Vec<SharedChange> {
        let mut next = self.next;
        let record = |change: &RowChange| {
            let (store, key, value) = match change {
                RowChange::PutGroup(group) => (keys::GROUPS, group.id.clone(), Some(group.to_json())),
                RowChange::RemoveGroup(id) => (keys::GROUPS, id.clone(), None),
                RowChange::PutRule(rule) => {
                    next = next.max(rule.id + 1);
                    (keys::RULES, rule.id.to_string(), Some(rule.to_json()))
                }
                RowChange::RemoveRule(id) => (keys::RULES, id.to_string(), None),
            };
            SharedChange { store, key, value }
        };
        let mut records = changes.iter().map(record).listed();
        // Where nothing else is written it raises the policy version all the same.
        if next > self.next || self.damage.is_some() || changes.is_empty() {
            records.push(SharedChange {
                store: keys::RULES,
                key: NEXT.to_owned(),
                value: Some(Value::from(next)),
            });
        }
        records
    }

    /// What they are after a change that was written.
    pub(crate) fn apply(&mut self, change: RowChange) {
        match change {
            RowChange::PutGroup(group) => {
                self.groups.retain(|other| other.id != group.id);
                insert_sorted(&mut self.groups, group, &|a, b| a.id.cmp(&b.id));
            }
            RowChange::RemoveGroup(id) => self.groups.retain(|group| group.id != id),
            RowChange::PutRule(rule) => {
                self.next = self.next.max(rule.id + 1);
                match self.rules.iter_mut().find(|other| other.id == rule.id) {
                    Some(other) => *other = rule,
                    None => self.rules.push(rule),
                }
            }
            RowChange::RemoveRule(id) => self.rules.retain(|rule| rule.id != id),
        }
    }
}

/// The records of a store whose run contexts name a group.
pub(crate) fn users_of(group: &str, store: &str, records: &[(String, Value)]) -> Vec<String> {
    let mut users = Vec::new();
    for (key, record) in records {
        let named = record
            .get("run_context")
            .and_then(|context| context.get("security_group"));
        if named.and_then(Value::as_str) == Some(group) {
            users.push(format!("{store}/{key}"));
        }
    }
    users
}
