//! `Turn`: a turn that a host with its own loop drives.

use std::{cell::RefCell, rc::Rc};

use js_sys::{Array, Promise};
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::{
    approvals::result_to_js,
    foreign::{Abort, Foreign, text},
    gate::decided_to_js,
    host::{call_in, calls_to_js, request_report_to_js, request_to_js},
    plain::object,
    promised, promised_for,
    session::{messages_in, report_to_js, signal_of},
};
use crate::{Result, runtime, session::Outcome};

/// One turn of a session, driven by the host: request, send, append, finish.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Turn {
    inner: runtime::Turn<JsValue>,
    /// The caller's signal, as long as the turn is.
    abort: Rc<RefCell<Abort>>,
    /// What it began with, as the caller gave it.
    content: JsValue,
}

impl Turn {
    pub(super) fn new(inner: runtime::Turn<JsValue>, abort: Abort, content: JsValue) -> Self {
        Self {
            inner,
            abort: Rc::new(RefCell::new(abort)),
            content,
        }
    }
}

#[wasm_bindgen]
impl Turn {
    /// What to send to the model now, and the map of it. Asking again before `dispatched()` gives the same. A request that does
    /// not fit rejects with `budget_exceeded`; the turn stays, to be cancelled or finished. Before the first dispatch nothing of it
    /// is stored, and `data.content` is what it began with.
    #[wasm_bindgen(unchecked_return_type = "Promise<{ request: ModelRequest; report: RequestReport }>")]
    pub fn request(&self) -> Promise {
        let inner = self.inner.clone();
        // What is stored is not handed back.
        let content = match inner.is_dispatched() {
            true => JsValue::UNDEFINED,
            false => self.content.clone(),
        };
        promised_for(
            content,
            Ok(async move {
                let (request, report) = inner.request()?;
                Ok(object(&[
                    ("request", request_to_js(&request)),
                    ("report", request_report_to_js(report)),
                ]))
            }),
        )
    }

    /// The request is on its way: the user message, its skills and the checkpoint are kept and saved. Does not
    /// reject for a write that fails: that is pending, and `finish` reports it.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn dispatched(&self) -> Promise {
        let inner = self.inner.clone();
        promised(Ok(async move {
            inner.dispatched().await?;
            Ok(JsValue::UNDEFINED)
        }))
    }

    /// Keeps assistant messages and results of open calls, in order, in one commit. A result that does not say that its tool
    /// failed counts for a call that was allowed, or is the very text with which the gate or a person refused it.
    #[wasm_bindgen(variadic, unchecked_return_type = "Promise<void>")]
    pub fn append(&self, #[wasm_bindgen(unchecked_param_type = "Message[]")] messages: Array) -> Promise {
        let inner = self.inner.clone();
        promised(messages_in(&messages).map(|messages| async move {
            inner.append(messages).await?;
            Ok(JsValue::UNDEFINED)
        }))
    }

    /// Decides an open call, as it stands in the message. One that is allowed may run from then on; the result of any other, and
    /// of one with other arguments, is refused. The last decision about a call counts, for one result. Where the turn ends before
    /// the host has answered, it rejects with `aborted`.
    #[wasm_bindgen(unchecked_return_type = "Promise<Decision>")]
    pub fn gate(&self, #[wasm_bindgen(unchecked_param_type = "ToolCall")] call: JsValue) -> Promise {
        let inner = self.inner.clone();
        promised(call_in(&call).map(|call| async move { Ok(decided_to_js(inner.gate(&call).await?)) }))
    }

    /// Waits for a person's answer about a call. `approved`: it is claimed, and may run now, once.
    #[wasm_bindgen(unchecked_return_type = "Promise<ApprovalResult>")]
    pub fn approval(
        &self,
        #[wasm_bindgen(js_name = "requestId", unchecked_param_type = "string")] request_id: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "{ signal?: AbortSignal }")] options: JsValue,
    ) -> Promise {
        let inner = self.inner.clone();
        let read = text(&request_id, "requestId").and_then(|id| Ok((id, signal_of(&options)?)));
        promised(read.map(|(id, abort)| async move {
            let result = inner.approval(&id, &abort.signal).await;
            drop(abort);
            Ok(result_to_js(&result?))
        }))
    }

    /// Calls that have no result yet.
    #[wasm_bindgen(getter, js_name = "openCalls", unchecked_return_type = "ToolCall[]")]
    pub fn open_calls(&self) -> JsValue {
        calls_to_js(&self.inner.open_calls())
    }

    /// Ends the turn, by default with success. One that was not dispatched can only be cancelled.
    #[wasm_bindgen(unchecked_return_type = "Promise<TurnResult>")]
    pub fn finish(
        &self,
        #[wasm_bindgen(
            unchecked_optional_param_type = "{ outcome: \"success\" | \"error\"; error?: string }"
        )]
        outcome: JsValue,
    ) -> Promise {
        let (inner, abort) = (self.inner.clone(), self.abort.clone());
        promised(ending(&outcome).map(|(outcome, error)| async move {
            let report = inner.finish(outcome, error).await?;
            drop(abort.take());
            Ok(report_to_js(&report))
        }))
    }

    /// Ends the turn as cancelled.
    #[wasm_bindgen(unchecked_return_type = "Promise<TurnResult>")]
    pub fn cancel(&self) -> Promise {
        let (inner, abort) = (self.inner.clone(), self.abort.clone());
        promised(Ok(async move {
            let report = inner.cancel().await?;
            drop(abort.take());
            Ok(report_to_js(&report))
        }))
    }
}

fn ending(given: &JsValue) -> Result<(Outcome, Option<String>)> {
    let Some(given) = Foreign::options(given, "outcome")? else {
        return Ok((Outcome::Success, None));
    };
    let outcome = match given.text("outcome")?.as_deref() {
        Some("success") => Outcome::Success,
        Some("error") => Outcome::Error,
        _ => {
            let text = "must be `success` or `error`; use `cancel()` for a cancelled turn";
            return Err(given.wrong("outcome", text));
        }
    };
    Ok((outcome, given.text("error")?))
}
