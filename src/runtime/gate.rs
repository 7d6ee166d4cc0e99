//! The gate of an open session: the host is asked once, storage is looked at each time, and the strictest answer counts.

use std::rc::Rc;

use super::{Host, Session};
use crate::{
    Error, ErrorCode, Result,
    list::Listed,
    message::MessageData,
    permissions::{Action, BypassScope, Decision, Inquiry, Policy, Query, ResolvedPath, TraceStep},
    run_context::RunContext,
    session::{Now, ToolCall, check_same_call},
};

/// What was found out about a call.
struct Asked {
    policy: Rc<Policy>,
    inquiries: Vec<Inquiry>,
    answers: Vec<Vec<ResolvedPath>>,
}

/// A decision, and what it came from.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The decision, without its trace.
    pub decision: Decision,
    policy: Rc<Policy>,
    inquiry: Inquiry,
    answers: Vec<ResolvedPath>,
}

impl Decided {
    /// Whether a tool that goes on below a tree by itself must not show this path.
    pub(super) fn hides(&self, path: &str, resolved: Option<ResolvedPath>) -> bool {
        self.inquiry.hides(&self.policy, &self.answers, path, resolved)
    }

    /// Where the call runs: absolute, and what its relative paths were judged from.
    pub(super) fn working_directory(&self) -> String {
        self.inquiry.working_directory()
    }

    /// The same as it was resolved, where that is known.
    pub(super) fn directory(&self) -> String {
        self.inquiry.resolved_directory(&self.answers)
    }

    /// How it came about: found out now.
    pub fn trace(&self) -> Vec<TraceStep> {
        self.inquiry.explain(&self.policy, &self.answers).trace
    }
}

impl<M: MessageData + 'static> Session<M> {
    fn now(&self) -> Now {
        let world = &self.runtime.parts.world;
        Now {
            wall: world.now(),
            monotonic: world.monotonic(),
        }
    }

    /// Decides a call. In a turn a call that is allowed may run from then on; without that its result is refused.
    ///
    /// # Errors
    /// `disposed`, also where the session is let go of before the host has answered; `invalid_argument` where an open call with this id is one of another tool; `host_failed` where the
    /// tool's `extractPaths` fails; those of the storage where a call that was asked about is allowed by now.
    pub async fn gate(&self, call: &ToolCall<M>) -> Result<Decided> {
        let turn = self.machine().current_turn();
        check_same_call(call, &self.machine().open_tool_calls())?;
        let mut decided = self.explain(call).await?;
        let dispatched = self.machine().is_dispatched();
        if decided.decision.outcome == Action::Require && dispatched && self.machine().current_turn() == turn
        {
            let (stamp, new_id) = (self.stamp(), self.runtime.parts.world.new_id());
            let (mut id, directory) = (String::new(), decided.directory());
            let told =
                self.changes(|machine| id = machine.ask(call, &decided.decision, directory, new_id, &stamp));
            decided.decision.request_id = Some(id);
            if !told.is_empty() {
                self.save_later().await;
                self.tell(told);
            }
        }
        if decided.decision.outcome == Action::Allow && turn.is_some() {
            self.end_question(call).await?;
            if self.machine().current_turn() == turn {
                self.machine_mut().allow(call);
            }
        }
        Ok(decided)
    }

    /// The same decision; nothing follows from it.
    ///
    /// # Errors
    /// As [`Session::gate`].
    pub async fn explain(&self, call: &ToolCall<M>) -> Result<Decided> {
        let Asked {
            policy,
            inquiries,
            answers,
        } = self.ask(call).await?;
        // It may have been let go of while the host or the storage was asked.
        self.machine().check_live()?;
        let decisions = inquiries
            .into_iter()
            .zip(answers)
            .map(|(inquiry, answers)| Decided {
                decision: inquiry.decide(&policy, &answers),
                policy: policy.clone(),
                inquiry,
                answers,
            });
        // Of equals the last, which is by the run context in force.
        let strictest = decisions.reduce(|a, b| {
            if a.decision.outcome > b.decision.outcome {
                a
            } else {
                b
            }
        });
        strictest.ok_or_else(|| Error::invalid("there is nothing to decide"))
    }

    async fn ask(&self, call: &ToolCall<M>) -> Result<Asked> {
        self.machine().check_live()?;
        if !call.arguments.is_json() {
            let text = format!(
                "the arguments of the call `{}` hold bytes or text that is not well-formed; such a call is never run",
                call.id
            );
            return Err(Error::invalid(text).with("toolCallId", call.id.clone()));
        }
        let parts = &self.runtime.parts;
        let found = parts.tools.found_paths(call).map_err(|text| {
            let text = format!("`extractPaths` of the tool `{}` failed: {text}", call.name);
            Error::new(ErrorCode::HostFailed, text)
        })?;
        // What is stored may have changed since; it is looked at before anything is decided.
        let stale = self.catch_up().await.err();
        let style = self.runtime.path_style();
        let root = self.runtime.workspace_root();
        let mut unverified = stale.map(|error| error.to_string());
        let inquire = |unverified: &Option<String>| {
            // The clock is the host's and may call anything: first the time, then the look at where we are.
            let now = self.now();
            let machine = self.machine();
            let mut inquiries =
                machine.inquiries(call, found.clone(), style, root.as_deref(), &parts.protected, now);
            for inquiry in &mut inquiries {
                inquiry.unverified = inquiry.unverified.take().or_else(|| unverified.clone());
            }
            inquiries
        };
        let placed = self.machine().has_place(style, root.as_deref());
        let host = parts.host.as_ref().filter(|_| placed);
        let mut inquiries = inquire(&unverified);
        let mut queries = queries_of(&inquiries);
        for _ in 0..ASKED_AT_MOST {
            let Some(host) = host else { break };
            let answers = self.gone.unless_fired(resolve(&**host, &queries)).await;
            let answers = answers.unwrap_or_default();
            // What was taken back while the host was asked, here or elsewhere, is not given any more.
            let stale = self.catch_up().await.err();
            let (policy, unread) = self.runtime.policy_in_force().await;
            unverified = stale.or(unread).map(|error| error.to_string());
            inquiries = inquire(&unverified);
            let asked = std::mem::replace(&mut queries, queries_of(&inquiries));
            if asked == queries {
                return Ok(Asked {
                    policy,
                    inquiries,
                    answers,
                });
            }
        }
        let why = match (&parts.host, host) {
            (None, _) => "there is no host",
            (_, None) => "the session's `cwd` or the workspace's root is not absolute",
            _ => "what the host has to resolve changed while it was asked",
        };
        let stale = self.catch_up().await.err();
        let (policy, unread) = self.runtime.policy_in_force().await;
        unverified = stale.or(unread).map(|error| error.to_string());
        let inquiries = inquire(&unverified);
        let queries = queries_of(&inquiries);
        Ok(Asked {
            policy,
            inquiries,
            answers: unresolved(&queries, why),
        })
    }

    /// The tools that the rules, as they were last read, do not deny outright.
    pub fn visible_tools(&self) -> Vec<M> {
        let policy = self.runtime.last_policy();
        let machine = self.machine();
        let group = machine.run_context().and_then(|context| context.tool_group_id());
        let header = machine.header();
        let style = self.runtime.path_style();
        let denied = |name: &str| {
            policy.denies_outright(
                name,
                group,
                header.agent_id.as_deref(),
                header.source.as_deref(),
                style,
            )
        };
        let tools = machine.tools(!self.runtime.skills.section().is_empty());
        let visible = tools.into_iter().filter(|tool| !denied(&tool.name));
        visible.map(|tool| tool.declaration.clone()).listed()
    }

    /// Another run context, or none: saved, and live at once. See [`crate::session::Machine::set_run_context`].
    ///
    /// # Errors
    /// `disposed`, `invalid_argument`, and those of the storage; a failed write is pending.
    pub async fn set_run_context(&self, context: Option<RunContext>) -> Result<()> {
        self.machine().check_live()?;
        let stamp = self.stamp();
        let style = self.runtime.path_style();
        self.machine_mut().set_run_context(context, style, &stamp)?;
        self.save_settings().await
    }

    /// A person does not want to be asked for a while.
    ///
    /// # Errors
    /// `disposed`; `invalid_argument` for seconds that are no number above 0.
    pub fn bypass(&self, scope: BypassScope, seconds: Option<f64>) -> Result<()> {
        self.machine().check_live()?;
        let now = self.now();
        self.machine_mut().bypass(scope, seconds, now)
    }

    /// A person wants to be asked again.
    pub fn clear_bypass(&self) {
        self.machine_mut().clear_bypass();
    }
}

/// So often the host is asked again where what it has to resolve changed while it was asked.
const ASKED_AT_MOST: usize = 3;

fn queries_of(inquiries: &[Inquiry]) -> Vec<Vec<Query>> {
    let queries = inquiries.iter().map(|inquiry| inquiry.queries());
    queries.listed()
}

fn unresolved(queries: &[Vec<Query>], why: &str) -> Vec<Vec<ResolvedPath>> {
    let answer = |_: &Query| ResolvedPath::Unresolved(why.to_owned());
    queries
        .iter()
        .map(|queries| queries.iter().map(answer).listed())
        .listed()
}

/// Asks the host, once. A path of another base is given whole.
async fn resolve(host: &dyn Host, queries: &[Vec<Query>]) -> Vec<Vec<ResolvedPath>> {
    let base = queries
        .iter()
        .flatten()
        .map(|query| query.base.clone())
        .next_back()
        .unwrap_or_default();
    let style = host.path_style();
    let paths = queries.iter().flatten().map(|query| {
        if query.base == base {
            query.path.clone()
        } else {
            crate::paths::within(style, &query.base, &query.path)
        }
    });
    let paths = paths.listed();
    let mut answers = match host.resolve(base, paths).await {
        Ok(answers) => answers.into_iter(),
        Err(why) => return unresolved(queries, &format!("the host failed: {why}")),
    };
    let answer = |_: &Query| {
        answers
            .next()
            .unwrap_or_else(|| ResolvedPath::Unresolved("the host gave no answer".to_owned()))
    };
    let mut answer = answer;
    queries
        .iter()
        .map(|queries| queries.iter().map(&mut answer).listed())
        .listed()
}

impl<M: MessageData + 'static> super::Runtime<M> {
    /// The rules in force. Where none can be read, those that were in force before, and why; where some can, those, and why.
    pub(super) async fn policy_in_force(&self) -> (Rc<Policy>, Option<Error>) {
        match self.permissions().in_force().await {
            Ok((policy, damage)) => {
                *self.policy.borrow_mut() = policy.clone();
                (policy, damage)
            }
            Err(error) => (self.last_policy(), Some(error)),
        }
    }

    fn last_policy(&self) -> Rc<Policy> {
        self.policy.borrow().clone()
    }
}
