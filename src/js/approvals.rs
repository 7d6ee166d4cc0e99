//! `ApprovalInbox`: the calls that people are asked about, in every session.

use std::rc::Rc;

use js_sys::Promise;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::{
    foreign::{Foreign, text},
    plain::{copy_out, iso, list, object, to_js},
    promised,
};
use crate::{
    Result,
    runtime::{self, Answer, ApprovalResult, FurtherBypass},
    session::Approval,
};

/// Calls that wait for a person's answer.
#[wasm_bindgen]
#[derive(Debug)]
pub struct ApprovalInbox {
    inner: Rc<runtime::Runtime<JsValue>>,
}

impl ApprovalInbox {
    pub(super) fn new(inner: Rc<runtime::Runtime<JsValue>>) -> Self {
        Self { inner }
    }
}

#[wasm_bindgen]
impl ApprovalInbox {
    /// Every approval that waits, oldest first, in whatever session.
    #[wasm_bindgen(unchecked_return_type = "Promise<PendingApproval[]>")]
    pub fn list(&self) -> Promise {
        let inner = self.inner.clone();
        promised(Ok(async move {
            let pending = inner.pending_approvals().await?;
            Ok(list(
                pending
                    .iter()
                    .map(|(session, approval)| approval_to_js(session, approval)),
            ))
        }))
    }

    /// A person's answer. Approving looks again at the rules, at where the paths lead and the call runs, and at the call; what has changed is asked
    /// again, and the answer is `superseded`. `bypassSeconds` adds "don't ask again", by default within the tool's MCP server or
    /// else its category; a tool that has neither is approved for this once.
    #[wasm_bindgen(unchecked_return_type = "Promise<ApprovalResult>")]
    pub fn resolve(
        &self,
        #[wasm_bindgen(js_name = "requestId", unchecked_param_type = "string")] request_id: JsValue,
        #[wasm_bindgen(
            unchecked_param_type = "{ action: \"approve\" | \"reject\"; note?: string; bypassSeconds?: number | \"until-restart\"; bypassScope?: \"all\" | \"category\" | \"mcp_server\" }"
        )]
        decision: JsValue,
    ) -> Promise {
        let inner = self.inner.clone();
        let read = text(&request_id, "requestId").and_then(|id| Ok((id, answer(&decision)?)));
        promised(read.map(|(id, (answer, bypass))| async move {
            Ok(result_to_js(&inner.answer(&id, answer, bypass).await?))
        }))
    }
}

fn answer(given: &JsValue) -> Result<(Answer, Option<FurtherBypass>)> {
    let given = Foreign::record(given, "decision")?;
    let note = given.text("note")?;
    let answer = match given.text("action")?.as_deref() {
        Some("approve") => Answer::Approve,
        Some("reject") => Answer::Reject(note),
        _ => return Err(given.wrong("action", "must be `approve` or `reject`")),
    };
    let scope = given.text("bypassScope")?;
    let known = |scope: &str| ["all", "category", "mcp_server"].contains(&scope);
    if scope.as_deref().is_some_and(|scope| !known(scope)) {
        return Err(given.wrong("bypassScope", "must be `all`, `category` or `mcp_server`"));
    }
    let Some(seconds) = given.get("bypassSeconds")? else {
        return Ok((answer, None));
    };
    let seconds = match seconds.as_string().as_deref() {
        Some("until-restart") => None,
        _ => {
            let number = seconds
                .as_f64()
                .filter(|seconds| *seconds > 0.0 && seconds.is_finite());
            let wrong = || given.wrong("bypassSeconds", "must be a number above 0, or `until-restart`");
            Some(number.ok_or_else(wrong)?)
        }
    };
    Ok((answer, Some(FurtherBypass { scope, seconds })))
}

/// How asking ended.
pub(super) fn result_to_js(result: &ApprovalResult) -> JsValue {
    let mut members = vec![
        ("requestId", JsValue::from_str(&result.request_id)),
        ("outcome", JsValue::from_str(result.outcome.as_str())),
    ];
    let texts = [("note", &result.note), ("message", &result.message)];
    members.extend(
        texts
            .into_iter()
            .filter_map(|(name, text)| Some((name, JsValue::from_str(text.as_ref()?)))),
    );
    object(&members)
}

/// Approvals of a session.
pub(super) fn approvals_to_js<'a>(
    session: &str,
    approvals: impl Iterator<Item = &'a Approval<JsValue>>,
) -> JsValue {
    list(approvals.map(|approval| approval_to_js(session, approval)))
}

fn approval_to_js(session: &str, approval: &Approval<JsValue>) -> JsValue {
    let string = JsValue::from_str;
    let mut members = vec![
        ("requestId", string(&approval.id)),
        ("sessionId", string(session)),
        ("toolCallId", string(&approval.call.id)),
        ("toolName", string(&approval.call.name)),
        ("arguments", copy_out(&approval.call.arguments)),
        (
            "agentId",
            string(approval.agent_id.as_deref().unwrap_or_default()),
        ),
        ("source", string(approval.source.as_deref().unwrap_or_default())),
        ("createdAt", iso(approval.created_at)),
        ("paths", to_js(&approval.paths)),
        ("workingDirectory", string(&approval.directory)),
        ("reason", string(&approval.reason)),
        ("message", string(&approval.message)),
        ("status", string(approval.status.as_str())),
    ];
    let texts = [
        ("contextLabel", &approval.label),
        ("toolCategory", &approval.category),
        ("mcpServer", &approval.mcp_server),
    ];
    members.extend(
        texts
            .into_iter()
            .filter_map(|(name, text)| Some((name, string(text.as_ref()?)))),
    );
    object(&members)
}
