//! Calls that a person is asked about: the answer, what changes while it is waited for, writes that fail, restarts, and two
//! pages on one store. Whatever happens, no tool runs whose approval is still open in storage, and none runs twice.

mod answers;
mod asking;
mod bypass;
mod changed;
mod pages;
mod restart;
mod writes;

use std::{cell::RefCell, rc::Rc};

use runcontext::{
    Result,
    permissions::{DecideInput, definition_digest},
    runtime::{
        Answer, ApprovalResult, Decided, FurtherBypass, PromptOptions, Session, Signal, Turn, TurnReport,
    },
    session::{NewSession, ToolCall, ToolDeclaration},
    storage::memory::MemoryStorage,
};
use serde_json::{Value, json};

use crate::{
    expect::dispatched,
    lab::{ID, Lab, TestHost, Waits, calls, declaration, incoming, run, waits},
};

/// A tool with what it declares.
fn tool(name: &str, declared: Value) -> ToolDeclaration<Value> {
    let input = json!({ "call": { "toolName": name }, "cwd": "/", "tool": declared });
    let parsed = DecideInput::parse(&input, &Value::Null, crate::lab::runcontext_fold).unwrap();
    ToolDeclaration {
        policy: parsed.inquiry.tool.unwrap(),
        digest: definition_digest(&json!({ "name": name, "declared": declared })),
        ..declaration(name, false)
    }
}

/// The tools of these tests. Nobody is asked about `add`.
fn tools() -> Vec<ToolDeclaration<Value>> {
    let paths = json!([{ "argument": "/path", "access": "write" }]);
    vec![
        tool(
            "write_file",
            json!({ "paths": paths, "category": "files", "advisory": ["/why"] }),
        ),
        tool("run", json!({ "access": "execute", "category": "shell" })),
        tool("fetch", json!({ "access": "network", "mcpServer": "web" })),
        tool("add", json!({ "access": "none", "category": "safe" })),
    ]
}

/// A call that ran, and where its approval stood in storage when it began.
type Ran = (String, Option<String>);

/// A page that opens on what is stored, with the workspace `/ws`.
struct Page {
    lab: Lab,
    host: Rc<TestHost>,
    /// The calls that ran, in order.
    ran: Rc<RefCell<Vec<Ran>>>,
}

impl Page {
    fn empty() -> Self {
        Self::on(MemoryStorage::new())
    }

    fn on(memory: MemoryStorage<Value>) -> Self {
        Self::with(memory, tools())
    }

    fn with(memory: MemoryStorage<Value>, tools: Vec<ToolDeclaration<Value>>) -> Self {
        let host = Rc::new(TestHost::at("/ws"));
        let lab = Lab::with(memory, true, tools, Some(host.clone()));
        let page = Self {
            lab,
            host,
            ran: Rc::default(),
        };
        for id in ["c1", "c2", "c3"] {
            page.counts(id, None);
        }
        page
    }

    /// Another page on the same store.
    fn beside(&self) -> Self {
        Self::on(self.lab.storage.memory.clone())
    }

    /// Notes when the call runs. Its tool ends at once, or when the signal fires.
    fn counts(&self, id: &str, end: Option<Signal>) {
        let (ran, memory) = (self.ran.clone(), self.lab.storage.memory.clone());
        self.lab.tools.on(id, move |call, _| {
            let known = approvals(&memory).into_iter().find(|(id, _)| *id == call.id);
            let known = known.map(|(_, status)| status);
            ran.borrow_mut().push((call.id, known));
            let end = end.clone();
            async move {
                if let Some(end) = end {
                    end.fired().await;
                }
                Ok(json!("done"))
            }
        });
    }

    /// The calls that ran, in order. Each was claimed in storage, or needed no approval.
    fn ran(&self) -> Vec<String> {
        let ran = self.ran.borrow();
        for (id, known) in ran.iter() {
            assert!(
                known.as_deref().is_none_or(|status| status == "claimed"),
                "`{id}` ran while its approval was {known:?}"
            );
        }
        ran.iter().map(|(id, _)| id.clone()).collect()
    }

    fn create(&self) -> Rc<Session<Value>> {
        self.create_with(json!({}))
    }

    fn create_with(&self, more: Value) -> Rc<Session<Value>> {
        let mut options = json!({ "id": ID, "cwd": "/ws", "systemPrompt": "Be brief." });
        for (name, value) in more.as_object().unwrap() {
            options[name] = value.clone();
        }
        self.lab.create_with(NewSession::parse(&options).unwrap())
    }

    /// Prompts, and runs as far as that comes.
    fn prompting<'a>(&'a self, session: &'a Rc<Session<Value>>) -> Waits<'a, Result<TurnReport>> {
        self.lab.world.at(2_000.0);
        waits(&self.lab.world, async move {
            session.prompt(&json!("go on"), &PromptOptions::default()).await
        })
    }

    /// Goes on with the turn that was cut off, and runs as far as that comes.
    fn resuming<'a>(&'a self, session: &'a Rc<Session<Value>>) -> Waits<'a, Result<TurnReport>> {
        self.lab.world.at(3_000.0);
        waits(&self.lab.world, async move {
            session.resume_prompt(&Signal::default()).await
        })
    }

    /// The ids of the approvals that wait for an answer, in whatever session.
    fn asked(&self) -> Vec<String> {
        let asked = self.lab.run(self.lab.runtime.pending_approvals()).unwrap();
        asked.into_iter().map(|(_, approval)| approval.id).collect()
    }

    /// The only approval that waits.
    fn only(&self) -> String {
        let asked = self.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        asked[0].clone()
    }

    fn answer(&self, id: &str, answer: Answer) -> Result<ApprovalResult> {
        self.lab.run(self.lab.runtime.answer(id, answer, None))
    }

    fn approve(&self, id: &str) -> Result<ApprovalResult> {
        self.answer(id, Answer::Approve)
    }

    fn reject(&self, id: &str, note: &str) -> Result<ApprovalResult> {
        self.answer(id, Answer::Reject(Some(note.to_owned())))
    }

    fn approve_further(&self, id: &str, scope: &str, seconds: Option<f64>) -> Result<ApprovalResult> {
        let further = FurtherBypass {
            scope: Some(scope.to_owned()).filter(|scope| !scope.is_empty()),
            seconds,
        };
        let answer = self.lab.runtime.answer(id, Answer::Approve, Some(further));
        self.lab.run(answer)
    }

    fn gated(&self, turn: &Turn<Value>, call: &ToolCall<Value>) -> Decided {
        self.lab.run(turn.gate(call)).unwrap()
    }

    /// Gates a call that a person is asked about.
    fn asks(&self, turn: &Turn<Value>, call: &ToolCall<Value>) -> String {
        self.gated(turn, call).decision.request_id.unwrap()
    }

    /// Calls and statuses of the approvals in storage.
    fn stored(&self) -> Vec<(String, String)> {
        approvals(&self.lab.storage.memory)
    }

    fn add_rule(&self, rule: Value) {
        self.lab
            .run(
                self.lab
                    .runtime
                    .permissions()
                    .change(&runcontext::permissions::PermissionChange::AddRule(rule)),
            )
            .unwrap();
    }
}

/// Calls and statuses of the approvals in storage.
fn approvals(memory: &MemoryStorage<Value>) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let records = memory.dump(Value::clone).remove("approvals").unwrap_or_default();
    let mut known: Vec<_> = records
        .into_iter()
        .map(|(_, record)| {
            let approval = &record["approval"];
            (text(&approval["toolCallId"]), text(&approval["status"]))
        })
        .collect();
    known.sort();
    known
}

fn known(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter()
        .map(|(id, status)| ((*id).to_owned(), (*status).to_owned()))
        .collect()
}

fn writes_file(id: &str, path: &str) -> ToolCall<Value> {
    called(id, "write_file", json!({ "path": path }))
}

fn called(id: &str, name: &str, arguments: Value) -> ToolCall<Value> {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments,
    }
}

/// The message in which the model asks for these calls.
fn message(of: &[ToolCall<Value>]) -> Value {
    let of: Vec<_> = of
        .iter()
        .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.clone()))
        .collect();
    calls(&of)
}

/// A turn of a host with its own loop, in which the model has asked for these calls.
fn turn_with(page: &Page, session: &Rc<Session<Value>>, of: &[ToolCall<Value>]) -> Turn<Value> {
    page.lab.world.at(2_000.0);
    let turn = page.lab.run(dispatched(session, "go on"));
    page.lab.run(turn.append(vec![incoming(message(of))])).unwrap();
    turn
}

/// Starts waiting for the answer about a call.
fn waiting<'a>(page: &'a Page, turn: &'a Turn<Value>, id: &str) -> Waits<'a, Result<ApprovalResult>> {
    let id = id.to_owned();
    waits(&page.lab.world, async move {
        turn.approval(&id, &Signal::default()).await
    })
}

/// A result as the driver stores it, at 2,000.
fn told(id: &str, name: &str, text: &str, is_error: bool) -> Value {
    json!({
        "role": "toolResult", "toolCallId": id, "toolName": name,
        "content": [{ "type": "text", "text": text }], "isError": is_error, "timestamp": 2_000
    })
}

/// The stored messages, read by another page.
fn conversation(page: &Page) -> Vec<Value> {
    let other = page.beside();
    let session = run(&other.lab.world, other.lab.runtime.open_session(ID)).unwrap();
    session.machine().bodies().to_vec()
}
