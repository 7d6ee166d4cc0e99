//! The gate as pure functions: rules, one question, one answer.

use std::{
    cell::{OnceCell, RefCell},
    rc::Rc,
};

use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::{
    foreign::{self, Foreign},
    plain::{fold, json_in, lazily, object, to_js},
};
use crate::{
    Error, Result,
    list::Listed,
    permissions::{self, Action, ApprovalRule, DecideInput, Decision, Reason, Repeated},
    runtime,
};

#[wasm_bindgen(module = "/src/js/gate.js")]
extern "C" {
    #[wasm_bindgen(js_name = "memory")]
    fn js_memory(outcomes: &JsValue, reasons: &JsValue) -> JsValue;
    #[wasm_bindgen(js_name = "decisionOf")]
    fn js_decision(memory: &JsValue, code: u32, explainer: &JsValue, given: &JsValue) -> JsValue;
    #[wasm_bindgen(js_name = "comparing")]
    fn js_comparing(policy: &JsValue, memory: &JsValue) -> JsValue;
    #[wasm_bindgen(js_name = "remember")]
    fn js_remember(
        memory: &JsValue,
        copy: &JsValue,
        members: &JsValue,
        standing: &JsValue,
        repeated: &JsValue,
    );
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

fn decided(policy: &permissions::Policy, input: &DecideInput, traced: bool) -> Decision {
    let answers = input.answers(&input.inquiry.queries());
    if traced {
        input.inquiry.explain(policy, &answers)
    } else {
        input.inquiry.decide(policy, &answers)
    }
}

/// Outcome, reason and whether a rule decided, as one number above 0.
fn code((outcome, reason, ruled): (Action, Reason, bool)) -> u32 {
    1 | (outcome as u32) << 1 | (reason as u32) << 3 | u32::from(ruled) << 8
}

/// Rules, compiled once.
#[wasm_bindgen]
pub struct Policy {
    inner: Rc<permissions::Policy>,
    explainer: OnceCell<JsValue>,
    /// The last input, as JavaScript compares the next one with it.
    memory: OnceCell<JsValue>,
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policy").finish_non_exhaustive()
    }
}

/// Answers again for whoever reads more of a decision than its outcome.
#[wasm_bindgen(skip_typescript, js_name = "__Explainer")]
#[derive(Debug)]
pub struct Explainer(Rc<permissions::Policy>);

#[wasm_bindgen(js_class = "__Explainer")]
impl Explainer {
    /// Everything about the decision on this input, but its trace.
    pub fn details(&self, input: &JsValue) -> Result<JsValue> {
        Ok(to_js(&decided(&self.0, &read(input)?, false)))
    }

    /// The trace of the decision on this input.
    pub fn trace(&self, input: &JsValue) -> Result<JsValue> {
        Ok(to_js(&decided(&self.0, &read(input)?, true).trace))
    }
}

/// Answers for inputs that differ from one that was read by a text.
#[wasm_bindgen(skip_typescript, js_name = "__Repeated")]
#[derive(Debug)]
pub struct RepeatedInput {
    policy: Rc<permissions::Policy>,
    /// Not there while it is at work: comparing names asks JavaScript, and whatever runs there may come back here.
    input: RefCell<Option<Box<Repeated>>>,
}

impl RepeatedInput {
    fn with<T>(&self, work: impl FnOnce(&mut Repeated) -> Option<T>) -> Option<T> {
        let mut input = self.input.take()?;
        let done = work(&mut input);
        self.input.replace(Some(input));
        done
    }

    fn decided(&self, text: &str, traced: bool) -> Result<Decision> {
        let decision = self.with(|input| input.decide(&self.policy, text, traced));
        decision
            .ok_or_else(|| Error::invalid("this decision is being explained already; read it again later"))
    }
}

#[wasm_bindgen(js_class = "__Repeated")]
impl RepeatedInput {
    /// The decision as a number; 0 where the text is none of such an input.
    pub fn outcome(&self, text: &str) -> u32 {
        self.with(|input| input.outcome(&self.policy, text))
            .map_or(0, code)
    }

    /// Everything about the decision, but its trace.
    pub fn details(&self, text: &str) -> Result<JsValue> {
        Ok(to_js(&self.decided(text, false)?))
    }

    /// The trace of the decision.
    pub fn trace(&self, text: &str) -> Result<JsValue> {
        Ok(to_js(&self.decided(text, true)?.trace))
    }
}

impl Policy {
    fn new(policy: permissions::Policy) -> Self {
        Self {
            inner: Rc::new(policy),
            explainer: OnceCell::new(),
            memory: OnceCell::new(),
        }
    }

    fn memory(&self) -> &JsValue {
        self.memory.get_or_init(|| {
            let outcomes = Action::ALL.iter().map(|action| action.as_str());
            let reasons = Reason::ALL.iter().map(|reason| reason.as_str());
            js_memory(&to_js(&outcomes.listed()), &to_js(&reasons.listed()))
        })
    }

    fn answer(&self, copy: &JsValue, input: &DecideInput) -> JsValue {
        let Decision {
            outcome,
            reason,
            rule,
            ..
        } = decided(&self.inner, input, false);
        let explainer = self
            .explainer
            .get_or_init(|| JsValue::from(Explainer(self.inner.clone())));
        js_decision(
            self.memory(),
            code((outcome, reason, rule.is_some())),
            explainer,
            copy,
        )
    }
}

#[wasm_bindgen]
impl Policy {
    /// Decides one call. What is said beside the outcome and its reason is found out when it is read.
    // An input like the one before does not come here: `comparing` in gate.js.
    #[wasm_bindgen(unchecked_return_type = "Decision")]
    pub fn decide(
        &self,
        #[wasm_bindgen(unchecked_param_type = "DecideInput")] input: JsValue,
    ) -> Result<JsValue> {
        let copy = input_in(&input)?;
        let input = read(&copy)?;
        let decision = self.answer(&copy, &input);
        if let Some(repeated) = Repeated::new(input, &self.inner) {
            let (members, standing) = (to_js(&repeated.members()), to_js(&repeated.standing()));
            let repeated = RepeatedInput {
                policy: self.inner.clone(),
                input: RefCell::new(Some(Box::new(repeated))),
            };
            js_remember(self.memory(), &copy, &members, &standing, &repeated.into());
        }
        Ok(decision)
    }

    /// What is odd about the rules, group by group.
    #[wasm_bindgen(unchecked_return_type = "LintFinding[]")]
    pub fn lint(&self) -> JsValue {
        to_js(&self.inner.lint(None))
    }
}

/// A decision of a session, whose trace is made when it is read.
pub(super) fn decided_to_js(decided: runtime::Decided) -> JsValue {
    let decision = to_js(&decided.decision);
    lazily(&decision, "trace", move || {
        object(&[("trace", to_js(&decided.trace()))])
    })
}

/// Compiles rules, for many decisions. Where an input names no groups, those that exist are `default` and those of the rules.
#[wasm_bindgen(js_name = "compilePolicy", unchecked_return_type = "Policy")]
pub fn compile_policy(
    #[wasm_bindgen(unchecked_param_type = "readonly ApprovalRule[]")] rules: JsValue,
) -> Result<JsValue> {
    let rules = ApprovalRule::parse_list(&json_in(&rules, "rules")?)?;
    let policy = Policy::new(permissions::Policy::compile(rules, None, fold)?);
    let memory = policy.memory().clone();
    Ok(js_comparing(&policy.into(), &memory))
}

/// Decides one call by these rules.
#[wasm_bindgen(unchecked_return_type = "Decision")]
pub fn decide(
    #[wasm_bindgen(unchecked_param_type = "DecideInput & { rules: readonly ApprovalRule[] }")] input: JsValue,
) -> Result<JsValue> {
    let rules = Foreign::record(&input, "input")?.get("rules")?;
    let rules = ApprovalRule::parse_list(&json_in(&rules.unwrap_or(JsValue::NULL), "rules")?)?;
    let copy = input_in(&input)?;
    let input = read(&copy)?;
    Ok(Policy::new(permissions::Policy::compile(rules, None, fold)?).answer(&copy, &input))
}

/// The paths that the host has to resolve before this call can be decided, in one go.
#[wasm_bindgen(
    js_name = "pathsToResolve",
    unchecked_return_type = "{ base: string; path: string }[]"
)]
pub fn paths_to_resolve(
    #[wasm_bindgen(unchecked_param_type = "Omit<DecideInput, 'resolved'>")] input: JsValue,
) -> Result<JsValue> {
    Ok(to_js(&read(&input_in(&input)?)?.inquiry.queries()))
}

/// The rows that a new group `default` begins with.
#[wasm_bindgen(js_name = "seededRules", unchecked_return_type = "ApprovalRule[]")]
pub fn seeded_rules() -> JsValue {
    to_js(&permissions::seeded_rules())
}
