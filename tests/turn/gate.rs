//! The gate of an open session: what it asks the host and the storage, and what follows from its answer.

mod bypass;
mod elsewhere;
mod host;
mod projects;
mod run_context;
mod strict;

use std::rc::Rc;

use runcontext::{
    permissions::{Action, DecideInput, Reason},
    run_context::RunContext,
    runtime::{Decided, Session, Turn},
    session::{NewSession, ToolCall, ToolDeclaration},
    storage::memory::MemoryStorage,
};
use serde_json::{Value, json};

use crate::{
    expect::dispatched,
    lab::{ID, Lab, TestHost, calls, declaration, incoming},
};

/// A tool with what it declares.
fn tool(name: &str, declared: Value) -> ToolDeclaration<Value> {
    let input = json!({ "call": { "toolName": name }, "cwd": "/", "tool": declared });
    let parsed = DecideInput::parse(&input, &Value::Null, crate::lab::runcontext_fold).unwrap();
    ToolDeclaration {
        policy: parsed.inquiry.tool.unwrap(),
        ..declaration(name, false)
    }
}

/// The tools of these tests.
fn tools() -> Vec<ToolDeclaration<Value>> {
    let path = |access: &str| json!([{ "argument": "/path", "access": access }]);
    vec![
        tool("read_file", json!({ "paths": path("read"), "category": "files" })),
        tool(
            "write_file",
            json!({ "paths": path("write"), "category": "files" }),
        ),
        tool(
            "list",
            json!({ "paths": [{ "argument": "/path", "access": "read", "kind": "tree" }] }),
        ),
        tool(
            "copy",
            json!({ "paths": [{ "argument": "/from", "access": "read" }, { "argument": "/to", "access": "write" }] }),
        ),
        tool("fetch", json!({ "access": "network", "mcpServer": "web" })),
        tool("add", json!({ "access": "none" })),
    ]
}

/// A runtime with these tools and a file system with the workspace `/ws`.
fn lab() -> (Lab, Rc<TestHost>) {
    page(MemoryStorage::new())
}

/// A page that opens on what is stored.
fn page(memory: MemoryStorage<Value>) -> (Lab, Rc<TestHost>) {
    let host = Rc::new(TestHost::at("/ws"));
    (Lab::with(memory, true, tools(), Some(host.clone())), host)
}

/// Options of a session in `/ws/app`, with more of them.
fn options(more: Value) -> NewSession {
    let mut options = json!({ "id": ID, "cwd": "/ws/app" });
    for (name, value) in more.as_object().unwrap() {
        options[name] = value.clone();
    }
    NewSession::parse(&options).unwrap()
}

fn session(lab: &Lab, more: Value) -> Rc<Session<Value>> {
    lab.create_with(options(more))
}

fn context(context: Value) -> Option<RunContext> {
    options(json!({ "runContext": context })).run_context.flatten()
}

/// The call `c1` is that of `write_file`.
fn call(tool: &str, arguments: Value) -> ToolCall<Value> {
    ToolCall {
        id: if tool == "write_file" { "c1" } else { "other" }.to_owned(),
        name: tool.to_owned(),
        arguments,
    }
}

fn reads(path: &str) -> ToolCall<Value> {
    call("read_file", json!({ "path": path }))
}

fn writes(path: &str) -> ToolCall<Value> {
    call("write_file", json!({ "path": path }))
}

fn gated(lab: &Lab, session: &Session<Value>, call: &ToolCall<Value>) -> Decided {
    lab.run(session.gate(call)).unwrap()
}

fn outcome(lab: &Lab, session: &Session<Value>, call: &ToolCall<Value>) -> Action {
    gated(lab, session, call).decision.outcome
}

fn reason(lab: &Lab, session: &Session<Value>, call: &ToolCall<Value>) -> (Action, Reason) {
    let decision = gated(lab, session, call).decision;
    (decision.outcome, decision.reason)
}

/// A turn under way in which the model has asked for a call.
fn turn_with(lab: &Lab, session: &Rc<Session<Value>>, call: &ToolCall<Value>) -> Turn<Value> {
    let turn = lab.run(dispatched(session, "go on"));
    let message = calls(&[(&call.id, &call.name, call.arguments.clone())]);
    lab.run(turn.append(vec![incoming(message)])).unwrap();
    turn
}
