//! The permission store of a runtime: groups and rules in storage, looked at anew for every question.
//!
//! Storage says by a number whether somebody changed something. What was read stays, with its number, and is read again
//! only where that differs. A change is decided on what was read and written only where the number is still the same.

use std::{cell::RefCell, fmt, rc::Rc};

use super::{
    Listeners, RuntimeEvent, Tabs, World,
    signal::{OneAtATime, Turn},
};
use crate::{
    Error, ErrorCode, Result,
    paths::Fold,
    permissions::{
        ApprovalRule, LintFinding, PermissionChange, PermissionGroup, Policy, RowChange, Rows,
        protected_rule, users_of,
    },
    session::Hint,
    storage::{SharedChange, SharedStorage, SharedWrite, keys},
};

/// So often somebody else may be faster, one time after another.
pub(super) const PATIENCE: u32 = 64;

/// Groups and rules, kept in storage.
pub struct PermissionStore {
    storage: Rc<dyn SharedStorage>,
    fold: Fold,
    protected: Vec<String>,
    listeners: Rc<Listeners<RuntimeEvent>>,
    tabs: Option<Rc<dyn Tabs>>,
    read: RefCell<Option<Read>>,
    changing: OneAtATime,
}

/// What was read, and what was made of it.
struct Read {
    version: u64,
    rows: Rows,
    policy: Option<Rc<Policy>>,
}

impl fmt::Debug for PermissionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermissionStore").finish_non_exhaustive()
    }
}

impl PermissionStore {
    pub(super) fn new(
        storage: Rc<dyn SharedStorage>,
        fold: Fold,
        protected: &[String],
        listeners: Rc<Listeners<RuntimeEvent>>,
        tabs: Option<Rc<dyn Tabs>>,
        world: Rc<dyn World>,
    ) -> Self {
        Self {
            storage,
            fold,
            protected: protected.to_vec(),
            listeners,
            tabs,
            read: RefCell::default(),
            changing: OneAtATime::new(world),
        }
    }

    /// The rules in force.
    ///
    /// # Errors
    /// Those of the storage; `storage_failed` where a record cannot be read.
    pub async fn policy(&self) -> Result<Rc<Policy>> {
        match self.in_force().await? {
            (policy, None) => Ok(policy),
            (_, Some(damage)) => Err(damage),
        }
    }

    /// The rules that can be read, and why others cannot.
    pub(super) async fn in_force(&self) -> Result<(Rc<Policy>, Option<Error>)> {
        self.refresh().await?;
        let mut read = self.read.borrow_mut();
        let read = read.as_mut().ok_or_else(unsettled)?;
        let damage = read.rows.damage().cloned();
        if let Some(policy) = &read.policy {
            return Ok((policy.clone(), damage));
        }
        let mut groups = Vec::new();
        for group in read.rows.groups() {
            groups.push(group.id.clone());
        }
        let rules = read.rows.rules().to_vec();
        let policy = Rc::new(Policy::compile(rules, Some(groups), self.fold)?);
        read.policy = Some(policy.clone());
        Ok((policy, damage))
    }

    /// Every group, by id.
    ///
    /// # Errors
    /// As [`PermissionStore::policy`].
    pub async fn list_groups(&self) -> Result<Vec<PermissionGroup>> {
        self.refresh().await?;
        self.look(&|rows| Ok(rows.groups().to_vec()))
    }

    /// The rules of a group, or of all, in the order in which they are looked at. Those that are code come first, then those
    /// that cannot be read, as what they come to: a locked question about every call.
    ///
    /// # Errors
    /// `not_found` where there is no such group; as [`PermissionStore::policy`].
    pub async fn list_rules(&self, group: Option<&str>) -> Result<Vec<ApprovalRule>> {
        self.refresh().await?;
        let mut rules = vec![protected_rule(&self.protected)];
        rules.append(&mut self.look(&|rows| Ok(rows.damaged_rules().to_vec()))?);
        rules.append(&mut self.look(&|rows| rows.in_order(group))?);
        Ok(rules)
    }

    /// What is odd about the rules that sessions of a group look at, or about each group by itself.
    ///
    /// # Errors
    /// As [`PermissionStore::list_rules`].
    pub async fn lint(&self, group: Option<&str>) -> Result<Vec<LintFinding>> {
        let policy = self.policy().await?;
        if let Some(group) = group {
            self.look(&|rows| rows.group(group).map(drop))?;
        }
        Ok(policy.lint(group))
    }

    fn look<T>(&self, look: &dyn Fn(&Rows) -> Result<T>) -> Result<T> {
        match &*self.read.borrow() {
            Some(read) => look(&read.rows),
            None => Err(unsettled()),
        }
    }

    /// Reads again what somebody else changed, and seeds the group `default` where there is none.
    pub(super) async fn refresh(&self) -> Result<()> {
        for _ in 0..PATIENCE {
            let version = self.storage.policy_version().await?;
            if self
                .read
                .borrow()
                .as_ref()
                .is_some_and(|read| read.version == version)
            {
                return Ok(());
            }
            let groups = self.storage.list(keys::GROUPS).await?;
            let rules = self.storage.list(keys::RULES).await?;
            // Both stores as they were at one time.
            if self.storage.policy_version().await? != version {
                continue;
            }
            let rows = Rows::read(&groups, &rules);
            let seed = rows.seed();
            if !seed.is_empty() {
                // Where somebody else was faster, theirs is there now.
                self.storage.write(rows.records(&seed), Some(version)).await?;
                continue;
            }
            let mut held = self.read.borrow_mut();
            // What shares the version with groups and rules was written.
            if let Some(read) = held.as_mut().filter(|read| read.rows == rows) {
                read.version = version;
                return Ok(());
            }
            let read = Read {
                version,
                rows,
                policy: None,
            };
            let is_change = held.replace(read).is_some();
            drop(held);
            if is_change {
                self.listeners.emit(&RuntimeEvent::PermissionsChanged);
            }
            return Ok(());
        }
        Err(unsettled())
    }

    /// Takes nothing that was read for what is stored.
    pub(super) fn forget(&self) {
        self.read.take();
    }

    /// The policy version of what was read just now.
    pub(super) async fn version(&self) -> Result<u64> {
        self.refresh().await?;
        let read = self.read.borrow();
        read.as_ref().map(|read| read.version).ok_or_else(unsettled)
    }

    /// Writes what depends on other records than groups and rules: where nothing that shares the policy version was written since
    /// it had this value. Says whether it was.
    pub(super) async fn write_beside(&self, mut records: Vec<SharedChange>, version: u64) -> Result<bool> {
        records.append(&mut self.look(&|rows| Ok(rows.records(&[])))?);
        let written = self.storage.write(records, Some(version)).await?;
        if let SharedWrite::Applied(now) = written {
            self.took(version, now, Vec::new());
        }
        Ok(matches!(written, SharedWrite::Applied(_)))
    }

    /// One change at a time: those of one page would otherwise only get in each other's way.
    pub(super) async fn turn_to_change(&self) -> Turn<'_> {
        self.changing.turn().await
    }

    /// Changes groups or rules, and answers the id of a rule that was added.
    ///
    /// What is decided is written; where somebody else wrote first, it is decided once more on what is there then.
    ///
    /// # Errors
    /// `invalid_argument` with the `field`; `not_found` where there is no such group or rule; `conflict` where a group's id
    /// is taken, or a row was deleted meanwhile; `rule_conflict` where the group has a rule for every call that says
    /// something else; `group_protected` for `default` and for rules that are code; `group_in_use` where the run context of
    /// a project, ticket or job names the group; as [`PermissionStore::policy`].
    pub async fn change(&self, change: &PermissionChange) -> Result<Option<i64>> {
        Ok(match (change, self.write(change).await?) {
            (PermissionChange::AddRule(_), Some(RowChange::PutRule(rule))) => Some(rule.id),
            _ => None,
        })
    }

    /// The same; answers what became of the first row that was changed.
    pub(super) async fn write(&self, change: &PermissionChange) -> Result<Option<RowChange>> {
        let one_at_a_time = self.turn_to_change().await;
        let mut lost = false;
        for _ in 0..PATIENCE {
            let version = self.version().await?;
            let mut users = Vec::new();
            // Whoever uses it from now on raises the version.
            if let PermissionChange::DeleteGroup(id) = change {
                for store in keys::WITH_RUN_CONTEXT {
                    users.append(&mut users_of(id, store, &self.storage.list(store).await?));
                }
            }
            let (changes, records) = self.look(&|rows| {
                let changes = rows.decide(change, &users).map_err(|error| gone(error, lost))?;
                let records = rows.records(&changes);
                Ok((changes, records))
            })?;
            match self.storage.write(records, Some(version)).await? {
                SharedWrite::Conflict(_) => lost = true,
                SharedWrite::Applied(now) => {
                    let first = changes.first().cloned();
                    self.took(version, now, changes);
                    drop(one_at_a_time);
                    if let Some(tabs) = &self.tabs {
                        tabs.say(&Hint::Rules.to_text());
                    }
                    self.listeners.emit(&RuntimeEvent::PermissionsChanged);
                    return Ok(first);
                }
            }
        }
        Err(unsettled())
    }

    /// What was read becomes what was written, unless it was read again already.
    fn took(&self, version: u64, now: u64, changes: Vec<RowChange>) {
        let mut held = self.read.borrow_mut();
        if held.as_ref().is_some_and(|read| read.rows.damage().is_some()) {
            // What is damaged still is found out by reading again.
            *held = None;
        }
        if let Some(read) = held.as_mut().filter(|read| read.version == version) {
            if !changes.is_empty() {
                read.policy = None;
            }
            for change in changes {
                read.rows.apply(change);
            }
            read.version = now;
        }
    }
}

/// What was there at first and is gone now was deleted by somebody else.
fn gone(error: Error, lost: bool) -> Error {
    if !lost || error.code() != ErrorCode::NotFound {
        return error;
    }
    let text = format!("somebody else changed the rules at the same time: {error}");
    let mut conflict = Error::new(ErrorCode::Conflict, text);
    for (name, value) in error.data() {
        conflict = conflict.with(name, value.clone());
    }
    conflict
}

pub(super) fn unsettled() -> Error {
    Error::new(
        ErrorCode::Conflict,
        "somebody else keeps changing what is shared; try again",
    )
}
