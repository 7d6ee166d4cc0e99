//! `PermissionStore`: groups and rules.

use std::rc::Rc;

use js_sys::Promise;
use serde::Serialize;
use serde_json::Value;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::{
    foreign::{optional_text, text},
    plain::{json_in, to_js},
    promised,
};
use crate::{Result, permissions::PermissionChange, runtime, untyped::field_error};

/// Permission groups and approval rules, kept in storage. Every question sees what other tabs have changed.
#[wasm_bindgen]
#[derive(Debug)]
pub struct PermissionStore {
    inner: Rc<runtime::Runtime<JsValue>>,
}

/// The number of a rule. Those that are built in are negative.
fn rule_id(value: &JsValue) -> Result<i64> {
    let id = value.as_f64().filter(|id| id.fract() == 0.0 && id.abs() < 9e15);
    id.map(|id| id as i64)
        .ok_or_else(|| field_error("id", "must be the id of a rule, an integer"))
}

/// A change of a group that is named, by what is given.
fn named(
    id: &JsValue,
    name: &str,
    given: &JsValue,
    path: &str,
    change: fn(String, Value) -> PermissionChange,
) -> Result<PermissionChange> {
    Ok(change(text(id, name)?, json_in(given, path)?))
}

fn listed(found: Result<impl Serialize>) -> Result<JsValue> {
    found.map(|found| to_js(&found))
}

impl PermissionStore {
    pub(super) fn new(inner: Rc<runtime::Runtime<JsValue>>) -> Self {
        Self { inner }
    }

    fn of_group(
        &self,
        group: &JsValue,
        ask: impl AsyncFnOnce(&runtime::PermissionStore, Option<&str>) -> Result<JsValue> + 'static,
    ) -> Promise {
        let inner = self.inner.clone();
        promised(
            optional_text(group, "group")
                .map(|group| async move { ask(inner.permissions(), group.as_deref()).await }),
        )
    }

    fn change(&self, change: Result<PermissionChange>) -> Promise {
        let inner = self.inner.clone();
        promised(change.map(|change| async move {
            let added = inner.permissions().change(&change).await?;
            Ok(added.map_or(JsValue::UNDEFINED, |id| JsValue::from_f64(id as f64)))
        }))
    }
}

#[wasm_bindgen]
impl PermissionStore {
    /// Every group, by id.
    #[wasm_bindgen(js_name = "listGroups", unchecked_return_type = "Promise<PermissionGroup[]>")]
    pub fn list_groups(&self) -> Promise {
        self.of_group(&JsValue::UNDEFINED, async |store, _| {
            listed(store.list_groups().await)
        })
    }

    /// Creates a group, without rules.
    #[wasm_bindgen(js_name = "createGroup", unchecked_return_type = "Promise<void>")]
    pub fn create_group(
        &self,
        #[wasm_bindgen(unchecked_param_type = "PermissionGroup")] group: JsValue,
    ) -> Promise {
        self.change(json_in(&group, "group").map(PermissionChange::CreateGroup))
    }

    /// Gives a group another name and description.
    #[wasm_bindgen(js_name = "updateGroup", unchecked_return_type = "Promise<void>")]
    pub fn update_group(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue,
        #[wasm_bindgen(unchecked_param_type = "{ name: string; description?: string }")] group: JsValue,
    ) -> Promise {
        self.change(named(&id, "id", &group, "group", PermissionChange::UpdateGroup))
    }

    /// Deletes a group with its rules. `default` cannot be deleted, nor a group that a project, ticket or job names.
    #[wasm_bindgen(js_name = "deleteGroup", unchecked_return_type = "Promise<void>")]
    pub fn delete_group(&self, #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue) -> Promise {
        self.change(text(&id, "id").map(PermissionChange::DeleteGroup))
    }

    /// Creates a group with copies of the rules of another one.
    #[wasm_bindgen(js_name = "duplicateGroup", unchecked_return_type = "Promise<void>")]
    pub fn duplicate_group(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string")] source: JsValue,
        #[wasm_bindgen(unchecked_param_type = "PermissionGroup")] to: JsValue,
    ) -> Promise {
        self.change(named(
            &source,
            "source",
            &to,
            "to",
            PermissionChange::DuplicateGroup,
        ))
    }

    /// The rules of a group, or of all groups, in the order in which they are looked at. What is built in comes first, and
    /// has negative ids. A rule that cannot be read is listed as what it comes to until somebody deletes it: a locked question about
    /// every call.
    #[wasm_bindgen(js_name = "listRules", unchecked_return_type = "Promise<ApprovalRule[]>")]
    pub fn list_rules(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "string")] group: JsValue,
    ) -> Promise {
        self.of_group(&group, async |store, group| listed(store.list_rules(group).await))
    }

    /// Adds a rule and resolves to its id, which is given here and never given again.
    #[wasm_bindgen(js_name = "addRule", unchecked_return_type = "Promise<number>")]
    pub fn add_rule(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Partial<ApprovalRule>")] rule: JsValue,
    ) -> Promise {
        self.change(json_in(&rule, "rule").map(PermissionChange::AddRule))
    }

    /// Changes the members of a rule that are given; null takes one away.
    #[wasm_bindgen(js_name = "updateRule", unchecked_return_type = "Promise<void>")]
    pub fn update_rule(
        &self,
        #[wasm_bindgen(unchecked_param_type = "number")] id: JsValue,
        #[wasm_bindgen(unchecked_param_type = "Partial<ApprovalRule>")] rule: JsValue,
    ) -> Promise {
        self.change(rule_id(&id).and_then(|id| Ok(PermissionChange::UpdateRule(id, json_in(&rule, "rule")?))))
    }

    /// Deletes a rule.
    #[wasm_bindgen(js_name = "deleteRule", unchecked_return_type = "Promise<void>")]
    pub fn delete_rule(&self, #[wasm_bindgen(unchecked_param_type = "number")] id: JsValue) -> Promise {
        self.change(rule_id(&id).map(PermissionChange::DeleteRule))
    }

    /// Takes rows of another store, all or nothing, as they stand in a dump of SQLite that was made JSON: `locked` may be 0 or 1, what is
    /// null is absent, and other columns are not looked at. A group among them takes the place of the one with its id, with all of its
    /// rules; rules of other groups are added to them. A rule keeps its id where that is free.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn import(&self, #[wasm_bindgen(unchecked_param_type = "PermissionRows")] rows: JsValue) -> Promise {
        self.change(json_in(&rows, "rows").map(PermissionChange::Import))
    }

    /// What is odd about the rules that sessions of a group look at, or about each group by itself.
    #[wasm_bindgen(unchecked_return_type = "Promise<LintFinding[]>")]
    pub fn lint(&self, #[wasm_bindgen(unchecked_optional_param_type = "string")] group: JsValue) -> Promise {
        self.of_group(&group, async |store, group| listed(store.lint(group).await))
    }
}
