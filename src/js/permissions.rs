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
use crate::{Result, runtime, untyped::field_error};

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

fn listed(found: Result<impl Serialize>) -> Result<JsValue> {
    found.map(|found| to_js(&found))
}

fn done(outcome: Result<()>) -> Result<JsValue> {
    outcome.map(|()| JsValue::UNDEFINED)
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

    fn change<K: 'static>(
        &self,
        key: Result<K>,
        given: Result<Value>,
        change: impl AsyncFnOnce(&runtime::PermissionStore, K, Value) -> Result<JsValue> + 'static,
    ) -> Promise {
        let inner = self.inner.clone();
        let read = key.and_then(|key| Ok((key, given?)));
        promised(read.map(|(key, given)| async move { change(inner.permissions(), key, given).await }))
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
        self.change(Ok(()), json_in(&group, "group"), async |store, (), group| {
            done(store.create_group(&group).await)
        })
    }

    /// Gives a group another name and description.
    #[wasm_bindgen(js_name = "updateGroup", unchecked_return_type = "Promise<void>")]
    pub fn update_group(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue,
        #[wasm_bindgen(unchecked_param_type = "{ name: string; description?: string }")] group: JsValue,
    ) -> Promise {
        self.change(
            text(&id, "id"),
            json_in(&group, "group"),
            async |store, id, group| done(store.update_group(&id, &group).await),
        )
    }

    /// Deletes a group with its rules. `default` cannot be deleted, nor a group that a project, ticket or job names.
    #[wasm_bindgen(js_name = "deleteGroup", unchecked_return_type = "Promise<void>")]
    pub fn delete_group(&self, #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue) -> Promise {
        self.change(text(&id, "id"), Ok(Value::Null), async |store, id, _| {
            done(store.delete_group(&id).await)
        })
    }

    /// Creates a group with copies of the rules of another one.
    #[wasm_bindgen(js_name = "duplicateGroup", unchecked_return_type = "Promise<void>")]
    pub fn duplicate_group(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string")] source: JsValue,
        #[wasm_bindgen(unchecked_param_type = "PermissionGroup")] to: JsValue,
    ) -> Promise {
        self.change(
            text(&source, "source"),
            json_in(&to, "to"),
            async |store, source, to| done(store.duplicate_group(&source, &to).await),
        )
    }

    /// The rules of a group, or of all groups, in the order in which they are looked at. What is built in comes first, and
    /// has negative ids.
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
        self.change(Ok(()), json_in(&rule, "rule"), async |store, (), rule| {
            Ok(JsValue::from_f64(store.add_rule(&rule).await? as f64))
        })
    }

    /// Changes the members of a rule that are given; null takes one away.
    #[wasm_bindgen(js_name = "updateRule", unchecked_return_type = "Promise<void>")]
    pub fn update_rule(
        &self,
        #[wasm_bindgen(unchecked_param_type = "number")] id: JsValue,
        #[wasm_bindgen(unchecked_param_type = "Partial<ApprovalRule>")] rule: JsValue,
    ) -> Promise {
        self.change(rule_id(&id), json_in(&rule, "rule"), async |store, id, rule| {
            done(store.update_rule(id, &rule).await)
        })
    }

    /// Deletes a rule.
    #[wasm_bindgen(js_name = "deleteRule", unchecked_return_type = "Promise<void>")]
    pub fn delete_rule(&self, #[wasm_bindgen(unchecked_param_type = "number")] id: JsValue) -> Promise {
        self.change(rule_id(&id), Ok(Value::Null), async |store, id, _| {
            done(store.delete_rule(id).await)
        })
    }

    /// What is odd about the rules that sessions of a group look at, or about each group by itself.
    #[wasm_bindgen(unchecked_return_type = "Promise<LintFinding[]>")]
    pub fn lint(&self, #[wasm_bindgen(unchecked_optional_param_type = "string")] group: JsValue) -> Promise {
        self.of_group(&group, async |store, group| listed(store.lint(group).await))
    }
}
