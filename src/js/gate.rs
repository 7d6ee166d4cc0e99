//! The gate as pure functions: rules, one question, one answer.

use std::{
    cell::{OnceCell, RefCell},
    rc::Rc,
};

use js_sys::{Array, Object};
use wasm_bindgen::prelude::{JsCast, JsValue, wasm_bindgen};

use super::{
    foreign::{self, Foreign},
    plain::{field, fold, json_in, object, to_js},
};
use crate::{
    Result,
    permissions::{self, ApprovalRule, DecideInput, Decision},
    runtime,
};

#[wasm_bindgen(module = "/src/js/plain.js")]
extern "C" {
    #[wasm_bindgen(js_name = "withTrace")]
    fn js_with_trace(decision: &JsValue, policy: &JsValue, input: &JsValue) -> JsValue;
    #[wasm_bindgen(js_name = "decisionOf")]
    fn js_decision(outcome: &str, reason: &str, explainer: &JsValue, input: &JsValue) -> JsValue;
    #[wasm_bindgen(js_name = "remember")]
    fn js_remember(shared: &Object, copy: &JsValue);
    #[wasm_bindgen(js_name = "again")]
    fn js_again(shared: &Object, given: &JsValue) -> JsValue;
}

/// The members of an input that are values. What else a caller has in it is not looked at.
const VALUES: [&str; 13] = [
    "call",
    "group",
    "groups",
    "preset",
    "runContext",
    "agentId",
    "source",
    "bypasses",
    "headless",
    "protectedNames",
    "cwd",
    "workspaceRoot",
    "pathStyle",
];

/// Those of a tool.
const TOOL: [&str; 6] = ["name", "access", "category", "mcpServer", "paths", "advisory"];

/// An input as a frozen copy, with what the tool found in the arguments: foreign code runs here and nowhere later.
fn input_in(given: &JsValue) -> Result<JsValue> {
    let input = Foreign::record(given, "input")?;
    let mut members = Vec::new();
    for name in VALUES.into_iter().chain(["now", "resolved"]) {
        // Null says something of its own here: no group at all.
        let value = input.get_as_is(name)?;
        if !value.is_undefined() {
            members.push((name, value));
        }
    }
    let mut found = JsValue::NULL;
    if let Some(tool) = input.object("tool")? {
        let mut declared = Vec::new();
        for name in TOOL {
            declared.extend(tool.get(name)?.map(|value| (name, value)));
        }
        if let Some(extract) = tool.method("extractPaths")? {
            let call = input.object("call")?;
            let arguments = call.map_or(Ok(None), |call| call.get("arguments"))?;
            found = foreign::found_paths(&tool, &extract, &arguments.unwrap_or(JsValue::NULL))?;
        }
        members.push(("tool", object(&declared)));
    }
    members.push(("found", found));
    super::plain::metadata_in(&object(&members), "input")
}

fn read(copy: &JsValue) -> Result<DecideInput> {
    let input = super::plain::json_of(copy);
    DecideInput::parse(
        &input,
        input.get("found").unwrap_or(&serde_json::Value::Null),
        fold,
    )
}

fn decided(policy: &permissions::Policy, copy: &JsValue, traced: bool) -> Result<Decision> {
    let input = read(copy)?;
    let question = input.inquiry.question();
    let answers = input.answers(&question.queries());
    Ok(if traced {
        question.explain(policy, &answers)
    } else {
        question.decide(policy, &answers)
    })
}

/// Rules, compiled once.
#[wasm_bindgen]
pub struct Policy {
    inner: Rc<Compiled>,
    explainer: OnceCell<JsValue>,
}

/// Rules, and the last input: most of the next one is often the same.
struct Compiled {
    policy: permissions::Policy,
    last: RefCell<Option<DecideInput>>,
    /// What the last input shared with others, as JavaScript compares it.
    shared: Object,
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policy").finish_non_exhaustive()
    }
}

/// Answers again for whoever reads more of a decision than its outcome.
#[wasm_bindgen(skip_typescript, js_name = "__Explainer")]
pub struct Explainer(Rc<Compiled>);

impl std::fmt::Debug for Explainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Explainer").finish_non_exhaustive()
    }
}

#[wasm_bindgen(js_class = "__Explainer")]
impl Explainer {
    /// Everything about the decision on this input, but its trace.
    pub fn details(&self, input: &JsValue) -> Result<JsValue> {
        Ok(to_js(&decided(&self.0.policy, input, false)?))
    }

    /// The trace of the decision on this input.
    pub fn trace(&self, input: &JsValue) -> Result<JsValue> {
        Ok(to_js(&decided(&self.0.policy, input, true)?.trace))
    }
}

impl Policy {
    fn new(policy: permissions::Policy) -> Self {
        Self {
            inner: Rc::new(Compiled {
                policy,
                last: RefCell::default(),
                shared: Object::new(),
            }),
            explainer: OnceCell::new(),
        }
    }

    fn explainer(&self) -> &JsValue {
        self.explainer
            .get_or_init(|| JsValue::from(Explainer(self.inner.clone())))
    }

    fn answer(&self, input: &JsValue) -> Result<JsValue> {
        let decision = decided(&self.inner.policy, input, false)?;
        Ok(js_decision(
            decision.outcome.as_str(),
            decision.reason.as_str(),
            self.explainer(),
            input,
        ))
    }

    /// Where all but the call, the time and the host's answers is as it was the last time, that is not read again.
    fn answer_again(&self, given: &JsValue) -> Option<JsValue> {
        let parts = js_again(&self.inner.shared, given);
        if parts.is_undefined() {
            return None;
        }
        let parts: Array = parts.unchecked_into();
        let mut last = self.inner.last.borrow_mut();
        let last = last.as_mut()?;
        let resolved = parts.get(3).as_string()?;
        last.changes(
            parts.get(0).as_string()?,
            &parts.get(1),
            parts.get(2).as_f64(),
            &resolved,
        );
        let question = last.inquiry.question();
        let answers = last.answers(&question.queries());
        let (outcome, reason) = question.outcome(&self.inner.policy, &answers);
        Some(js_decision(
            outcome.as_str(),
            reason.as_str(),
            self.explainer(),
            &parts.get(4),
        ))
    }
}

#[wasm_bindgen]
impl Policy {
    /// Decides one call. What is said beside the outcome and its reason is found out when it is read.
    #[wasm_bindgen(unchecked_return_type = "Decision")]
    pub fn decide(
        &self,
        #[wasm_bindgen(unchecked_param_type = "DecideInput")] input: JsValue,
    ) -> Result<JsValue> {
        if let Some(decision) = self.answer_again(&input) {
            return Ok(decision);
        }
        let copy = input_in(&input)?;
        let read = read(&copy)?;
        if field(&copy, "found").is_null() {
            js_remember(&self.inner.shared, &copy);
            *self.inner.last.borrow_mut() = Some(read);
        }
        self.answer(&copy)
    }

    /// What is odd about the rules, group by group.
    #[wasm_bindgen(unchecked_return_type = "LintFinding[]")]
    pub fn lint(&self) -> JsValue {
        to_js(&self.inner.policy.lint(None))
    }
}

/// A decision of a session, whose trace is made when it is read.
pub(super) fn decided_to_js(decided: runtime::Decided) -> JsValue {
    let decision = to_js(&decided.decision);
    js_with_trace(
        &decision,
        &JsValue::from(SessionExplainer(decided)),
        &JsValue::UNDEFINED,
    )
}

/// Answers again for whoever reads the trace of a session's decision.
#[wasm_bindgen(skip_typescript, js_name = "__SessionExplainer")]
#[derive(Debug)]
pub struct SessionExplainer(runtime::Decided);

#[wasm_bindgen(js_class = "__SessionExplainer")]
impl SessionExplainer {
    /// The trace.
    pub fn trace(&self) -> JsValue {
        to_js(&self.0.trace())
    }
}

/// Compiles rules, for many decisions. Where an input names no groups, those that exist are `default` and those of the rules.
#[wasm_bindgen(js_name = "compilePolicy")]
pub fn compile_policy(
    #[wasm_bindgen(unchecked_param_type = "readonly ApprovalRule[]")] rules: JsValue,
) -> Result<Policy> {
    let rules = ApprovalRule::parse_list(&json_in(&rules, "rules")?)?;
    Ok(Policy::new(permissions::Policy::compile(rules, None, fold)?))
}

/// Decides one call by these rules.
#[wasm_bindgen(unchecked_return_type = "Decision")]
pub fn decide(
    #[wasm_bindgen(unchecked_param_type = "DecideInput & { rules: readonly ApprovalRule[] }")] input: JsValue,
) -> Result<JsValue> {
    let rules = Foreign::record(&input, "input")?.get("rules")?;
    let rules = ApprovalRule::parse_list(&json_in(&rules.unwrap_or(JsValue::NULL), "rules")?)?;
    let copy = input_in(&input)?;
    Policy::new(permissions::Policy::compile(rules, None, fold)?).answer(&copy)
}

/// The paths that the host has to resolve before this call can be decided, in one go.
#[wasm_bindgen(
    js_name = "pathsToResolve",
    unchecked_return_type = "{ base: string; path: string }[]"
)]
pub fn paths_to_resolve(
    #[wasm_bindgen(unchecked_param_type = "Omit<DecideInput, 'resolved'>")] input: JsValue,
) -> Result<JsValue> {
    Ok(to_js(&read(&input_in(&input)?)?.inquiry.question().queries()))
}

/// The rows that a new group `default` begins with.
#[wasm_bindgen(js_name = "seededRules", unchecked_return_type = "ApprovalRule[]")]
pub fn seeded_rules() -> JsValue {
    to_js(&permissions::seeded_rules())
}
