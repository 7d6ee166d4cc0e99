//! What must be stored, written by hand, and the two ways to drive a turn.

use std::{collections::BTreeMap, rc::Rc};

use runcontext::{
    permissions::Action,
    runtime::{PromptOptions, Session, Turn, TurnReport},
    session::{Outcome, ToolCall},
};
use serde_json::{Value, json};

use crate::lab::{
    ID, Lab, Stored, at_once, calls, incoming, says,
    tokens::{json_tokens, tokens},
    user,
};

/// The body of the section `permissions` under `read-only` in `/w`.
pub const READ_ONLY: &str = "\
Permission preset: read-only.
Working directory: /w
`memory/` in the workspace root may be read and written, though not through a link, unless a rule forbids it or insists on asking.
The working directory may be read, and what the run context grants for reading, though a relative grant not through a link, unless a rule forbids it or insists on asking; its grants for writing do not count under this preset.
Apart from that:
- as the rules decide, and asked about where no rule does: reading files in the working directory; reading files elsewhere; tools that touch no files, commands or network
- only with a person's approval, whatever the rules allow, and not at all where a rule forbids it: writing files in the working directory; writing files elsewhere; running commands; using the network; tools that do not say what they touch
Elsewhere is everything outside the working directory, inside the workspace root too.
A path that cannot be resolved is never used without asking.
Where nobody can be asked, what would be asked about is refused.
Commands are not inspected: what a command can reach is up to the host's sandbox, not to these permissions.";

/// The whole system prompt of the test's session, with another body of the section `permissions`.
pub fn system_prompt(permissions: &str) -> String {
    format!(
        "Be brief.\n\n<cwd>\nCurrent working directory: /w\n</cwd>\n\n<permissions>\n{permissions}\n</permissions>"
    )
}

/// The first checkpoint of the test's session.
pub fn first_checkpoint(message_count: u32, timestamp: u64) -> Value {
    json!({
        "messageCount": message_count,
        "timestamp": timestamp,
        "sections": {
            "preamble": "Be brief.",
            "cwd": "Current working directory: /w",
            "permissions": READ_ONLY,
        }
    })
}

/// What is stored of the test's session.
#[derive(Clone)]
pub struct Expected {
    pub updated_at: f64,
    pub commits: usize,
    /// How many commits changed the conversation, the first included.
    pub conversation: u64,
    /// How many commits changed settings, the first not included.
    pub settings: u64,
    /// Settings that are not as at the beginning.
    pub changed: Value,
    /// Messages with their outlines.
    pub messages: Vec<(Value, Value)>,
    pub snapshots: Vec<Value>,
    pub checkpoints: Vec<Value>,
    /// Shared records, by store and key.
    pub shared: Vec<(&'static str, String, Value)>,
}

impl Expected {
    /// A session that was only created.
    pub fn created() -> Self {
        Self {
            updated_at: 1_000.0,
            commits: 1,
            conversation: 1,
            settings: 0,
            changed: json!({}),
            messages: Vec::new(),
            snapshots: Vec::new(),
            checkpoints: Vec::new(),
            shared: Vec::new(),
        }
    }

    /// With some of it replaced.
    pub fn with(self, change: impl FnOnce(&mut Self)) -> Self {
        let mut changed = self;
        change(&mut changed);
        changed
    }

    /// All records, as a dump shows them.
    pub fn stored(&self) -> Stored {
        let mut settings = json!({
            "dialect": "loop", "permissionPreset": "read-only", "presetChosen": false, "agentId": null,
            "source": null, "headless": false, "systemPrompt": "Be brief.", "projectInstructions": [],
            "sections": [], "model": null, "runContext": null, "contextLabel": null, "title": null, "pinned": false, "readCount": 0, "openTurn": null,
            "outcome": null, "error": null
        });
        for (name, value) in self.changed.as_object().unwrap() {
            settings[name] = value.clone();
        }
        if !(self.snapshots.is_empty() && self.checkpoints.is_empty()) {
            settings["counts"] = json!([self.snapshots.len(), self.checkpoints.len(), 0]);
        }
        let record = json!({
            "id": ID, "cwd": "/w", "createdAt": 1_000.0, "updatedAt": self.updated_at,
            "messageCount": self.messages.len(),
            "counters": { "conversation": self.conversation, "settings": self.settings },
            "settings": settings, "commitCount": self.commits
        });
        let mut stored = Stored::new();
        let mut put = |store: &str, key: String, record: Value| {
            let records: &mut BTreeMap<_, _> = stored.entry(store.to_owned()).or_default();
            records.insert(key, record);
        };
        put("chat_sessions", format!("\"{ID}\""), record);
        for (index, (body, _)) in self.messages.iter().enumerate() {
            let record = json!({ "sessionId": ID, "index": index, "body": body });
            put("messages", format!("[\"{ID}\",{index}]"), record);
        }
        if !self.messages.is_empty() {
            let outlines: Vec<&Value> = self.messages.iter().map(|(_, outline)| outline).collect();
            let record = json!({ "sessionId": ID, "pack": 0, "outlines": outlines });
            put("message_outlines", format!("[\"{ID}\",0]"), record);
        }
        let lists = [
            ("runtime_contexts", &self.snapshots),
            ("system_prompt_checkpoints", &self.checkpoints),
        ];
        for (store, list) in lists {
            for (position, record) in list.iter().enumerate() {
                let mut record = record.clone();
                record["sessionId"] = json!(ID);
                record["position"] = json!(position);
                put(store, format!("[\"{ID}\",{position}]"), record);
            }
        }
        for slot in 0..self.commits {
            put("commits", format!("[\"{ID}\",{slot}]"), json!("an operation"));
        }
        for (store, key, record) in &self.shared {
            put(store, format!("\"{key}\""), record.clone());
        }
        stored
    }
}

/// A user message that began a turn, with its outline.
pub fn typed(text: &str, timestamp: u64) -> (Value, Value) {
    let units = text.len();
    let outline = json!({
        "role": "user", "userTurn": true, "textLen": units, "tokens": tokens(text)
    });
    (user(text, timestamp), outline)
}

/// An answer in words, with its outline.
pub fn said(text: &str) -> (Value, Value) {
    let units = text.len();
    (
        says(text),
        json!({ "role": "assistant", "textLen": units, "tokens": tokens(text) }),
    )
}

/// The answer of the long turn that calls `add` twice.
pub fn two_calls() -> Value {
    calls(&[("c1", "add", json!({ "n": 1 })), ("c2", "add", json!({ "n": 2 }))])
}

/// The same with its outline. What a call costs, its JSON does.
pub fn called_twice() -> (Value, Value) {
    let outline = json!({
        "role": "assistant", "calls": [{ "id": "c1", "name": "add" }, { "id": "c2", "name": "add" }],
        "textLen": 0, "tokens": json_tokens(&two_calls()["content"][0]) + json_tokens(&two_calls()["content"][1])
    });
    (two_calls(), outline)
}

/// A call's result in words, with its outline.
pub fn answered(id: &str, text: &str, timestamp: u64) -> (Value, Value) {
    let body = json!({
        "role": "toolResult", "toolCallId": id, "toolName": "add",
        "content": [{ "type": "text", "text": text }], "isError": false, "timestamp": timestamp
    });
    let units = text.len();
    let outline = json!({ "role": "toolResult", "answers": [{ "id": id, "name": "add" }], "textLen": units, "tokens": tokens(text) });
    (body, outline)
}

/// A call's failure, with its outline.
pub fn failed(id: &str, name: &str, text: &str, timestamp: u64) -> (Value, Value) {
    let body = json!({
        "role": "toolResult", "toolCallId": id, "toolName": name,
        "content": [{ "type": "text", "text": text }], "isError": true, "timestamp": timestamp
    });
    let units = text.len();
    let outline = json!({
        "role": "toolResult", "answers": [{ "id": id, "name": name, "isError": true }], "textLen": units, "tokens": tokens(text)
    });
    (body, outline)
}

/// The answer to a call that was cut off: 68 characters, 17 tokens.
pub fn cut_off(id: &str, name: &str) -> (Value, Value) {
    let outline = json!({ "role": "toolResult", "answers": [{ "id": id, "name": name, "isError": true }], "textLen": 68, "tokens": 17 });
    (crate::lab::interrupted(id, name, 6), outline)
}

/// How a turn is driven.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Prompt,
    Begin,
}

pub const BOTH: [Way; 2] = [Way::Prompt, Way::Begin];

/// What the long turn leaves after this many commits, the session's first included:
/// created, dispatched, two calls, their results, the last words, settled.
pub fn long_turn_after(commits: usize) -> Expected {
    let messages = [
        typed("add one and two", 2_000),
        called_twice(),
        answered("c1", "add done", 2_000),
        answered("c2", "add done", 2_000),
        said("three"),
    ];
    let kept = [0, 0, 1, 2, 4, 5, 5][commits];
    Expected {
        updated_at: if commits == 1 { 1_000.0 } else { 2_000.0 },
        commits,
        conversation: commits as u64,
        settings: [0, 0, 1, 1, 1, 1, 2][commits],
        changed: match commits {
            1 => json!({}),
            6 => json!({ "outcome": "success" }),
            _ => json!({ "openTurn": open_turn(0) }),
        },
        messages: messages[..kept].to_vec(),
        checkpoints: if commits == 1 {
            Vec::new()
        } else {
            vec![first_checkpoint(1, 2_000)]
        },
        ..Expected::created()
    }
}

/// The number of commits of the long turn, the session's first included.
pub const LONG_TURN_COMMITS: usize = 6;

/// The gate allows these calls of the tool `add`.
pub async fn allow(session: &Rc<Session<Value>>, ids: &[&str]) {
    for id in ids {
        let open = session.machine().open_tool_calls();
        let open = open.into_iter().find(|call| call.id == *id);
        let call = open.unwrap_or_else(|| ToolCall {
            id: (*id).to_owned(),
            name: "add".to_owned(),
            arguments: json!({}),
        });
        let decided = session.gate(&call).await.unwrap();
        assert_eq!(decided.decision.outcome, Action::Allow);
    }
}

/// Runs the long turn.
pub fn long_turn(lab: &Lab, session: &Rc<Session<Value>>, way: Way) -> TurnReport {
    lab.world.at(2_000.0);
    match way {
        Way::Prompt => {
            lab.model.answers(two_calls()).answers(says("three"));
            lab.prompt(session, "add one and two").unwrap()
        }
        Way::Begin => lab.run(async {
            let turn = dispatched(session, "add one and two").await;
            let message = incoming(two_calls());
            turn.append(vec![message]).await.unwrap();
            allow(session, &["c1", "c2"]).await;
            let results = ["c1", "c2"].map(|id| incoming(answered(id, "add done", 2_000).0));
            turn.append(results.to_vec()).await.unwrap();
            turn.request().unwrap();
            turn.dispatched().await.unwrap();
            turn.append(vec![incoming(says("three"))]).await.unwrap();
            turn.finish(Outcome::Success, None).await.unwrap()
        }),
    }
}

/// Begins a turn, and sends its first request.
pub async fn dispatched(session: &Rc<Session<Value>>, text: &str) -> Turn<Value> {
    let turn = at_once(session.begin(&json!(text), &PromptOptions::default())).unwrap();
    turn.request().unwrap();
    turn.dispatched().await.unwrap();
    turn
}

/// The skill `haiku`.
pub const HAIKU: &str = "---\nname: haiku\ndescription: Writes haiku\n---\nWrite a haiku.\n";
/// Where it is.
pub const HAIKU_LOCATION: &str = "skills/haiku/SKILL.md";
/// Its id.
pub const HAIKU_ID: &str = "project:skills/haiku/SKILL.md";
/// SHA-256 of its text.
pub const HAIKU_REVISION: &str = "a122097586f6596eb7c7d4a913bf2384180207287cf04b759c8ab5cf027205d7";
/// As the model sees it.
pub const HAIKU_BLOCK: &str =
    "<skill name=\"haiku\" location=\"skills/haiku/SKILL.md\">\nWrite a haiku.\n</skill>";

/// The section that offers it to the model.
pub const HAIKU_OFFERED: &str = "Instructions for certain tasks. Before a task that one of them is for, call `load_skill` with its name as it stands here.\n- haiku: Writes haiku";

/// The whole system prompt of the test's session where it is offered.
pub fn system_prompt_with_haiku() -> String {
    let skills = format!("Be brief.\n\n<skills>\n{HAIKU_OFFERED}\n</skills>");
    system_prompt(READ_ONLY).replacen("Be brief.", &skills, 1)
}

/// A checkpoint of the test's session which says that it was offered.
pub fn offering_haiku(mut checkpoint: Value) -> Value {
    checkpoint["sections"]["skills"] = json!(HAIKU_OFFERED);
    checkpoint
}

/// The snapshot of a turn that chose it.
pub fn haiku_snapshot(user_turn: u32, timestamp: u64) -> Value {
    json!({
        "userTurn": user_turn, "content": HAIKU_BLOCK, "timestamp": timestamp, "placement": "user",
        "skills": [{
            "id": HAIKU_ID, "name": "haiku", "path": HAIKU_LOCATION, "content": HAIKU,
            "revision": HAIKU_REVISION, "description": "Writes haiku"
        }]
    })
}

/// Its record among the shared ones.
pub fn haiku_record() -> (&'static str, String, Value) {
    let record = json!({ "scope": "project", "location": HAIKU_LOCATION, "content": HAIKU });
    ("skills", HAIKU_ID.to_owned(), record)
}

/// What is stored of a turn under way, in a session that nobody changed: where it began, and what was in force.
pub fn open_turn(user_message: u32) -> Value {
    json!({ "userMessage": user_message, "runContext": null, "permissionPreset": "read-only" })
}
