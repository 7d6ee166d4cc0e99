//! `prompt`: a turn that is driven by us. The machine says what comes next; this carries it out.

use std::{future::poll_fn, rc::Rc, task::Poll};

use serde_json::Value;

use super::{
    ApprovalOutcome, Model, PromptOptions, Session, Signal, ToolContext, TurnReport, session::aborted,
};
use crate::{
    Error, ErrorCode, Result,
    list::Listed,
    message::{Call, INTERRUPTED, MessageData},
    permissions::Action,
    session::{Exclusive, Incoming, Next, Outcome, ToolCall},
    storage::LocalFuture,
};

impl<M: MessageData + 'static> Session<M> {
    /// Sends a message and drives the turn to its end.
    ///
    /// # Errors
    /// Only before the message is on its way, and then nothing is kept: `disposed`, `session_busy`,
    /// `session_interrupted`, `pending_save`, `invalid_argument`, `skill_unavailable`, `model_failed` (preflight),
    /// `budget_exceeded`, `aborted`.
    pub async fn prompt(self: &Rc<Self>, content: &M, options: &PromptOptions) -> Result<TurnReport> {
        self.look_around(&options.abort).await;
        let exclusive = self.exclusive(Exclusive::AtRest)?;
        let Some(model) = self.runtime.parts.model.clone() else {
            return Err(Error::invalid(
                "`prompt` needs a model; open the runtime with `model`, or use `begin`",
            ));
        };
        let driven = self.driven(&options.abort);
        let abort = driven.abort();
        if abort.has_fired() {
            return Err(aborted());
        }
        let input = self.input(content, options, abort).await?;
        let reference = self.machine().header().model.clone();
        let ready = abort.unless_fired(model.check(reference)).await;
        // A model that fails because it was stopped was stopped.
        if abort.has_fired() {
            return Err(aborted());
        }
        if let Some(Err(text)) = ready {
            let text = format!("the model is not ready: {text}");
            return Err(Error::new(ErrorCode::ModelFailed, text));
        }
        let turn = self.machine_mut().prepare(input)?;
        driven.drives(turn);
        // From here on the turn itself keeps the session busy, until it ends.
        drop(exclusive);
        match self.drive(turn, &*model, abort, true).await {
            Ok((outcome, error)) => self.settle(turn, outcome, error).await,
            Err(error) if self.machine().is_dispatched() => {
                self.settle(turn, Outcome::Error, Some(error.to_string())).await
            }
            Err(error) => {
                let stamp = self.stamp();
                self.machine_mut().settle(Outcome::Cancelled, None, &stamp)?;
                Err(error)
            }
        }
    }

    /// Goes on with a turn that a restart cut off, and drives it to its end.
    ///
    /// # Errors
    /// As [`Session::resume`]; `invalid_argument` without a model; `aborted`.
    pub async fn resume_prompt(self: &Rc<Self>, abort: &Signal) -> Result<TurnReport> {
        let Some(model) = self.runtime.parts.model.clone() else {
            return Err(Error::invalid(
                "`resumePrompt` needs a model; open the runtime with `model`, or use `resume`",
            ));
        };
        if abort.has_fired() {
            return Err(Error::new(
                ErrorCode::Aborted,
                "the turn was not resumed; nothing was changed",
            ));
        }
        self.look_around(abort).await;
        let exclusive = self.exclusive(Exclusive::Interrupted)?;
        let driven = self.driven(abort);
        let turn = self.resumed().await?;
        driven.drives(turn);
        drop(exclusive);
        let (outcome, error) = match self.drive(turn, &*model, driven.abort(), false).await {
            Ok(end) => end,
            Err(error) => (Outcome::Error, Some(error.to_string())),
        };
        self.settle(turn, outcome, error).await
    }

    async fn drive(
        self: &Rc<Self>,
        turn: u64,
        model: &dyn Model<M>,
        abort: &Signal,
        begins: bool,
    ) -> Result<(Outcome, Option<String>)> {
        let mut first = begins;
        loop {
            let next = if first {
                Next::CallModel
            } else {
                self.machine().next()
            };
            if abort.has_fired() && !first {
                return Ok(match next {
                    Next::Settle(outcome, error) => (outcome, error),
                    Next::CallModel | Next::RunTools(_) => (Outcome::Cancelled, None),
                });
            }
            match next {
                Next::Settle(outcome, error) => return Ok((outcome, error)),
                Next::CallModel => {
                    let request = self.compacted_request(turn, abort).await;
                    if abort.has_fired() && first {
                        return Err(aborted());
                    }
                    if abort.has_fired() {
                        return Ok((Outcome::Cancelled, None));
                    }
                    let (request, report) = request?;
                    self.dispatch(turn).await?;
                    first = false;
                    if abort.has_fired() {
                        return Ok((Outcome::Cancelled, None));
                    }
                    let session = Rc::clone(self);
                    let answered = Signal::default();
                    let over = answered.clone();
                    let on_update = Rc::new(move |partial| {
                        // Of an answer that is complete, or that was not waited for, nothing more is taken.
                        if over.has_fired() {
                            return Err(Error::invalid(
                                "this answer is complete; its updates are no longer taken",
                            ));
                        }
                        session.update(turn, partial)
                    });
                    let answer = model.complete(request, report, on_update, abort.clone());
                    let answer = abort.unless_fired(answer).await;
                    answered.fire();
                    match answer {
                        Some(Ok(message)) => self.append(turn, vec![message]).await?,
                        Some(Err(text)) if !abort.has_fired() => return Ok((Outcome::Error, Some(text))),
                        // A model that fails because it was stopped was stopped.
                        Some(Err(_)) | None => return Ok((Outcome::Cancelled, None)),
                    }
                }
                Next::RunTools(calls) => {
                    let results = self.run_tools(turn, calls, abort).await;
                    self.append(turn, results).await?;
                }
            }
        }
    }

    /// Runs a call that the gate allows, and waits for a person where one has to be asked. What is refused is told the model.
    async fn run_tool(
        &self,
        turn: u64,
        call: ToolCall<M>,
        abort: &Signal,
    ) -> std::result::Result<Incoming<M>, M> {
        if !self.machine().is_offered(&call.name) {
            let text = format!("there is no tool named `{}`", call.name);
            return Err(M::string(&text));
        }
        let told = |error: Error| M::string(error.message());
        loop {
            let mut decided = self.gate(&call).await.map_err(told)?;
            match decided.decision.outcome {
                Action::Allow => {}
                Action::Deny => return Err(M::string(&decided.decision.message)),
                Action::Require => {
                    let id = decided.decision.request_id.clone().unwrap_or_default();
                    match self.claim(turn, &id, abort).await.map_err(told)? {
                        // What was claimed is what runs.
                        (_, Some(claimed)) => decided = claimed,
                        (answer, None) if answer.outcome == ApprovalOutcome::Superseded => continue,
                        (answer, None) => {
                            return Err(M::string(answer.message.as_deref().unwrap_or(UNANSWERED)));
                        }
                    }
                }
            }
            // Everything may have come in the same moment. What is told here nobody hears: the call was interrupted.
            if abort.has_fired() {
                return Err(M::string(UNANSWERED));
            }
            let context = ToolContext {
                working_directory: decided.working_directory(),
                decided,
                host: self.runtime.parts.host.clone(),
            };
            if self.machine().is_load_tool(&call.name) {
                let loaded = abort.unless_fired(self.runtime.run_load_skill(&call)).await;
                let body = loaded.unwrap_or_else(|| Err(aborted())).map_err(|error| {
                    // What is not for the model, a person finds there.
                    if let Some(Value::String(detail)) = error.data().get("detail") {
                        self.listener_errors().add(detail.clone());
                    }
                    told(error)
                })?;
                return Ok(Incoming {
                    body,
                    degraded: Vec::new(),
                    failed: false,
                    tokens: None,
                });
            }
            return self.runtime.parts.tools.run(call, context, abort.clone()).await;
        }
    }

    /// Runs a batch of calls side by side. On abort, what has finished is kept.
    async fn run_tools(&self, turn: u64, calls: Vec<ToolCall<M>>, abort: &Signal) -> Vec<Incoming<M>> {
        let mut running: Vec<CallUnderWay<'_, M>> = calls
            .into_iter()
            .map(|call| {
                let named = Call {
                    id: call.id.clone(),
                    name: call.name.clone(),
                };
                let future: LocalFuture<'_, _> = Box::pin(self.run_tool(turn, call, abort));
                CallUnderWay {
                    call: named,
                    future,
                    result: None,
                }
            })
            .listed();
        let all = poll_fn(|context| {
            let mut pending = false;
            for tool in &mut running {
                if tool.result.is_none() {
                    match tool.future.as_mut().poll(context) {
                        // A tool that fails because it was stopped was interrupted.
                        Poll::Ready(Err(_)) if abort.has_fired() => pending = true,
                        Poll::Ready(result) => tool.result = Some(result),
                        Poll::Pending => pending = true,
                    }
                }
            }
            if pending { Poll::Pending } else { Poll::Ready(()) }
        });
        let _finished = abort.unless_fired(all).await;
        let dialect = self.machine().dialect();
        let now = M::from_number(self.runtime.parts.world.now());
        let mut results = Vec::new();
        let mut rest = running.into_iter();
        while let Some(CallUnderWay { call, result, .. }) = rest.next() {
            let mut twins = rest.as_slice().iter().filter(|other| other.call == call);
            // The result of a call with the same id must not answer this one.
            let cut_off = result.is_none() && twins.any(|twin| twin.result.is_some());
            let result = match cut_off {
                true => Some(Err(M::string(INTERRUPTED))),
                false => result,
            };
            results.extend(result.map(|result| {
                let (value, degraded, failed) = match result {
                    Ok(value) => {
                        let places = value.degraded.into_iter();
                        let places = places.filter_map(|place| dialect.place_in_result(place));
                        (value.body, places.listed(), false)
                    }
                    Err(text) => (text, Vec::new(), true),
                };
                Incoming {
                    body: dialect.tool_result(&call, &value, failed, Some(now.clone())),
                    degraded,
                    failed,
                    tokens: None,
                }
            }));
        }
        results
    }
}

/// What the model is told where a question ended elsewhere.
const UNANSWERED: &str = "the question about this call has ended without an answer";

/// A call under way.
struct CallUnderWay<'a, M> {
    call: Call,
    future: LocalFuture<'a, std::result::Result<Incoming<M>, M>>,
    result: Option<std::result::Result<Incoming<M>, M>>,
}
