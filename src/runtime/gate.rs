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
    storage::is_unanswered,
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
    /// `disposed`, also where the session is let go of before the host has answered; `invalid_argument` where an open call with
    /// this id is one of another tool; `host_failed` where the tool's `extractPaths` fails; those of the storage where a call that
    /// was asked about is allowed by now.
    pub async fn gate(&self, call: &ToolCall<M>) -> Result<Decided> {
        let turn = self.machine().current_turn();
        check_same_call(call, &self.machine().open_tool_calls())?;
        let mut decided = loop {
            let decided = self.explain(call).await?;
            let may_run = decided.decision.outcome == Action::Allow && turn.is_some();
            // A question that is still open ends before the call may run, and then what holds by then decides.
            if !may_run || !self.end_question(call).await? {
                break decided;
            }
        };
        if turn.is_none() || self.machine().current_turn() != turn {
            return Ok(decided);
        }
        let outcome = decided.decision.outcome;
        if outcome == Action::Allow {
            self.machine_mut().allow(call, false);
            return Ok(decided);
        }
        let message = &decided.decision.message;
        self.machine_mut()
            .take_back(call, outcome == Action::Deny, message);
        if outcome == Action::Require && self.machine().is_dispatched() {
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
        self.machine().check_whole()?;
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
        self.machine().check_whole()?;
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
        let style = self.runtime.path_style();
        let root = self.runtime.workspace_root();
        let placed = self.machine().has_place(style, root.as_deref());
        let host = parts.host.as_ref().filter(|_| placed);
        let mut asked = None;
        let mut times = 0;
        loop {
            // What is stored may have changed since; what was taken back while the host was asked, here or elsewhere, is not given
            // any more.
            let stale = self.catch_up().await.err();
            // Storage that does not answer is not waited for twice.
            let (policy, unread) = match stale.as_ref().is_some_and(is_unanswered) {
                true => (self.runtime.last_policy(), None),
                false => self.runtime.policy_in_force().await,
            };
            let unverified = stale.or(unread).map(|error| error.to_string());
            // The clock is the host's and may call anything: first the time, then the look at where we are.
            let now = self.now();
            let mut inquiries =
                self.machine()
                    .inquiries(call, found.clone(), style, root.as_deref(), &parts.protected, now);
            for inquiry in &mut inquiries {
                inquiry.unverified = inquiry.unverified.take().or_else(|| unverified.clone());
            }
            // A question is about where the call runs, too, and that is known from the host alone.
            let is_decided = |inquiry: &Inquiry| {
                let outcome = inquiry.outright(&policy);
                outcome.is_some_and(|outcome| outcome != Action::Require)
            };
            let queries = queries_of(&inquiries);
            let answers = match (asked.take(), host) {
                (Some((same, answers)), _) if same == queries => answers,
                (_, None) if parts.host.is_none() => unresolved(&queries, "there is no host"),
                (_, None) => unresolved(
                    &queries,
                    "the session's `cwd` or the workspace's root is not absolute",
                ),
                _ if inquiries.iter().all(is_decided) => unresolved(&queries, "it does not depend on that"),
                (_, Some(_)) if times == ASKED_AT_MOST => unresolved(
                    &queries,
                    "what the host has to resolve changed while it was asked",
                ),
                (_, Some(host)) => {
                    times += 1;
                    let answers = self.gone.unless_fired(resolve(&**host, &queries)).await;
                    asked = Some((queries, answers.unwrap_or_default()));
                    continue;
                }
            };
            return Ok(Asked {
                policy,
                inquiries,
                answers,
            });
        }
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
        self.machine().check_whole()?;
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
        self.machine().check_whole()?;
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
