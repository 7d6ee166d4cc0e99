//! Makes commits and bodies for the tests.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use runcontext::{
    context::{CompactionCheckpoint, LoadedSkill, Placement, RuntimeContextSnapshot},
    message::{Call, MessageIndex, MessageOutline, Role},
    prompt::{Changes, Checkpoint},
    storage::{
        AppendedMessage, ApprovalChange, Commit, OUTLINES_PER_PACK, OutlinePack, SessionRecord, SharedChange,
    },
};
use serde_json::{Value, json};

/// A message's body, as storage of this target keeps it.
#[cfg(not(target_family = "wasm"))]
pub type Body = Value;
/// A message's body, as storage of this target keeps it.
#[cfg(target_family = "wasm")]
pub type Body = wasm_bindgen::JsValue;

#[cfg(not(target_family = "wasm"))]
pub fn body_of(value: Value) -> Body {
    value
}

#[cfg(target_family = "wasm")]
pub fn body_of(value: Value) -> Body {
    js_sys::JSON::parse(&value.to_string()).unwrap()
}

/// The body as something to compare.
#[cfg(not(target_family = "wasm"))]
pub fn seen(body: &Body) -> Value {
    body.clone()
}

/// The body as something to compare: its JSON text, which escapes lone surrogates.
#[cfg(target_family = "wasm")]
pub fn seen(body: &Body) -> Value {
    let text = js_sys::JSON::stringify(body).unwrap();
    Value::String(String::from(text))
}

/// The body of the message at `index`.
pub fn body(index: u32) -> Body {
    body_of(json!({ "role": "user", "content": format!("message {index}"), "timestamp": index }))
}

pub fn outline(index: u32) -> MessageOutline {
    MessageOutline {
        role: if index.is_multiple_of(2) {
            Role::User
        } else {
            Role::Assistant
        },
        user_turn: index.is_multiple_of(2),
        calls: match index % 3 {
            0 => vec![Call {
                id: format!("call-{index}"),
                name: "read".to_owned(),
            }],
            _ => Vec::new(),
        },
        answers: Vec::new(),
        stop: None,
        text_len: index,
        tokens: index / 4,
        usage: None,
        bytes: false,
    }
}

pub fn snapshot(turn: u32) -> RuntimeContextSnapshot {
    RuntimeContextSnapshot {
        user_turn: turn,
        content: format!("<skill name=\"s\" location=\"l\">\nturn {turn}\n</skill>"),
        timestamp: 1_800_000_000_000.0,
        skills: Some(vec![LoadedSkill {
            id: "project:s/SKILL.md".to_owned(),
            name: "s".to_owned(),
            path: "s/SKILL.md".to_owned(),
            content: "---\nname: s\ndescription: d\n---\nbody \u{1f980} \u{0}".to_owned(),
            revision: "0".repeat(64),
            description: None,
        }]),
        placement: Some(Placement::User),
    }
}

pub fn checkpoint(message_count: u32) -> Checkpoint {
    Checkpoint {
        message_count,
        timestamp: 1_800_000_000_001.0,
        sections: Changes::from_iter([
            ("permissions".to_owned(), Some("read only".to_owned())),
            ("skills".to_owned(), None),
        ]),
    }
}

pub fn compaction(index: u32) -> CompactionCheckpoint {
    CompactionCheckpoint {
        id: format!("c{index}"),
        first_kept_message_index: MessageIndex(index),
        history_message_count: index + 1,
        summary: "what happened".to_owned(),
        timestamp: 1_800_000_000_000.0,
        provider: "p".to_owned(),
        model: "m".to_owned(),
        usage: Some(json!({ "output": 12 })),
    }
}

/// A session's record to begin with.
pub fn record(id: &str, cwd: &str) -> SessionRecord {
    SessionRecord {
        id: id.to_owned(),
        cwd: cwd.to_owned(),
        created_at: 1_000.0,
        updated_at: 1_000.0,
        message_count: 0,
        counters: Default::default(),
        settings: [("dialect", "loop"), ("origin", FIRST)]
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .into(),
    }
}

/// The operation that creates a session in these tests.
const FIRST: &str = "op-0";

/// A commit that changes nothing yet.
pub fn empty(session: &str, operation: &str) -> Commit<Body> {
    Commit {
        session_id: session.to_owned(),
        operation_id: operation.to_owned(),
        timestamp: 2_000.0,
        create: None,
        origin: FIRST.to_owned(),
        expected: None,
        messages: Vec::new(),
        outline_packs: Vec::new(),
        snapshots: Vec::new(),
        checkpoints: Vec::new(),
        compactions: Vec::new(),
        approvals: Vec::new(),
        settings: Default::default(),
    }
}

/// A session's first commit, without messages.
pub fn create(session: &str, operation: &str) -> Commit<Body> {
    Commit {
        create: Some(record(session, "/work")),
        ..empty(session, operation)
    }
}

/// Asks a person, or changes what was asked; `expected` is the version that it builds on.
pub fn asks(session: &str, operation: &str, request: &str, expected: Option<u64>) -> Commit<Body> {
    Commit {
        approvals: vec![ApprovalChange {
            id: request.to_owned(),
            expected,
            body: Some(body_of(json!({ "asked": operation }))),
        }],
        ..empty(session, operation)
    }
}

/// Ends what was asked; `expected` is the version that it builds on.
pub fn ends(session: &str, operation: &str, request: &str, expected: Option<u64>) -> Commit<Body> {
    Commit {
        approvals: vec![ApprovalChange {
            id: request.to_owned(),
            expected,
            body: None,
        }],
        ..empty(session, operation)
    }
}

/// Appends the messages `from..to` to a conversation at counter `expected`.
pub fn append(session: &str, operation: &str, expected: u64, from: u32, to: u32) -> Commit<Body> {
    Commit {
        expected: Some(expected),
        messages: (from..to)
            .map(|index| AppendedMessage {
                index: MessageIndex(index),
                body: body(index),
            })
            .collect(),
        outline_packs: packs(from, to),
        ..empty(session, operation)
    }
}

/// The packs that hold the outlines of the messages `from..to`, whole.
pub fn packs(from: u32, to: u32) -> Vec<OutlinePack> {
    (from / OUTLINES_PER_PACK..to.div_ceil(OUTLINES_PER_PACK))
        .map(|pack| OutlinePack {
            pack,
            outlines: (pack * OUTLINES_PER_PACK..to.min((pack + 1).saturating_mul(OUTLINES_PER_PACK)))
                .map(outline)
                .collect(),
        })
        .collect()
}

/// A dispatch: everything that a commit can hold.
pub fn dispatch(session: &str, operation: &str) -> Commit<Body> {
    Commit {
        create: Some(record(session, "/work")),
        snapshots: vec![(0, snapshot(0))],
        checkpoints: vec![(0, checkpoint(1))],
        compactions: vec![(0, compaction(0))],
        settings: [("preset".to_owned(), json!("read-only"))].into(),
        ..append(session, operation, 0, 0, 3)
    }
}

/// Changes one setting.
pub fn set(session: &str, operation: &str, name: &str, value: Value) -> Commit<Body> {
    Commit {
        settings: [(name.to_owned(), value)].into(),
        ..empty(session, operation)
    }
}

/// Runs two futures side by side.
pub async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    poll_fn(move |cx| {
        if first.is_none()
            && let Poll::Ready(done) = a.as_mut().poll(cx)
        {
            first = Some(done);
        }
        if second.is_none()
            && let Poll::Ready(done) = b.as_mut().poll(cx)
        {
            second = Some(done);
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (first, second) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

/// The same value with every number a float, as JavaScript has them.
pub fn floats(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64().unwrap()),
        Value::Array(items) => items.into_iter().map(floats).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (name, floats(value)))
            .collect(),
        other => other,
    }
}

/// Writes a shared record.
pub fn put(store: &'static str, key: &str, value: Value) -> SharedChange {
    SharedChange {
        store,
        key: key.to_owned(),
        value: Some(value),
    }
}

/// Removes a shared record.
pub fn remove(store: &'static str, key: &str) -> SharedChange {
    SharedChange {
        store,
        key: key.to_owned(),
        value: None,
    }
}
