//! What a session runs on in these tests: a clock that stands still, a scripted model, tools that count, and storage
//! that fails on demand.

mod at_once;
mod executor;
mod faults;
mod host;
mod model;
pub mod pairing;
pub mod random;
mod shelf;
pub mod spoken;
mod summaries;
mod tabs;
pub mod tokens;
mod tools;
mod world;

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use runcontext::permissions::{Access, BypassScope, ToolPolicy, definition_digest};
use runcontext::{
    Error, Result,
    message::CountTokens,
    run_context::{Defaults, RunContext},
    runtime::{
        CompactionOptions, Host, Parts, PromptOptions, Runtime, Session, SessionEvent, SkillOptions, Tabs,
        TurnReport,
    },
    session::{Incoming, ModelRef, NewSession, Outcome, ToolDeclaration},
    storage::{keys, memory::MemoryStorage},
};
use serde_json::{Value, json};

pub use at_once::at_once;
pub use executor::{Waits, run, waits};
pub use faults::{Fault, FaultyStorage};
pub use host::{Says, TestHost};
pub use model::{Script, Seen, Step};
pub use shelf::{Book, Shelf};
pub use summaries::Summaries;
pub use tabs::{Browser, Page};
pub use tools::Toolbox;
pub use world::TestWorld;

/// How a runtime is configured.
#[derive(Default)]
pub struct Configured {
    pub skills: SkillOptions,
    pub defaults: Defaults,
    pub data_dir: Option<String>,
}

/// Everything around one runtime.
pub struct Lab {
    pub world: Rc<TestWorld>,
    pub storage: Rc<FaultyStorage>,
    pub model: Rc<Script>,
    pub tools: Rc<Toolbox>,
    pub runtime: Rc<Runtime<Value>>,
    pub events: Rc<RefCell<Vec<String>>>,
}

/// Nobody wants to be asked about tools that touch nothing.
fn unasked(session: &Rc<Session<Value>>) {
    session
        .bypass(BypassScope::Category("safe".to_owned()), None)
        .unwrap();
}

/// How names are compared in these tests.
pub fn runcontext_fold(text: &str) -> String {
    text.to_lowercase()
}

/// The id of the session in most tests.
pub const ID: &str = "s1";

impl Lab {
    /// Nothing stored yet; results of calls that were not allowed are refused.
    pub fn empty() -> Self {
        Self::on(MemoryStorage::new(), true)
    }

    /// Nothing stored yet; any result is taken.
    pub fn lenient() -> Self {
        Self::on(MemoryStorage::new(), false)
    }

    /// A page that opens on what is stored.
    pub fn on(memory: MemoryStorage<Value>, strict: bool) -> Self {
        let tools = vec![declaration("add", true), declaration("write_file", false)];
        Self::with(memory, strict, tools, None)
    }

    /// The same with other tools, and with a file system.
    pub fn with(
        memory: MemoryStorage<Value>,
        strict: bool,
        declarations: Vec<ToolDeclaration<Value>>,
        host: Option<Rc<TestHost>>,
    ) -> Self {
        Self::listing(memory, strict, declarations, host, SkillOptions::default())
    }

    /// The same, with skills listed in another way.
    pub fn listing(
        memory: MemoryStorage<Value>,
        strict: bool,
        declarations: Vec<ToolDeclaration<Value>>,
        host: Option<Rc<TestHost>>,
        skills: SkillOptions,
    ) -> Self {
        let compaction = CompactionOptions::default();
        Self::beside(
            memory,
            strict,
            declarations,
            (host, None),
            Configured {
                skills,
                ..Configured::default()
            },
            compaction,
            None,
        )
    }

    /// The same with other tools and a file system, and configured in another way.
    pub fn configured(
        memory: MemoryStorage<Value>,
        declarations: Vec<ToolDeclaration<Value>>,
        host: Rc<TestHost>,
        configured: Configured,
    ) -> Self {
        let compaction = CompactionOptions::default();
        let host = (Some(host), None);
        Self::beside(memory, true, declarations, host, configured, compaction, None)
    }

    /// A page among those of a browser.
    pub fn in_browser(memory: MemoryStorage<Value>, page: &Rc<Page>) -> Self {
        let tools = vec![declaration("add", true), declaration("write_file", false)];
        let compaction = CompactionOptions::default();
        Self::beside(
            memory,
            true,
            tools,
            (None, Some(page.clone())),
            Configured::default(),
            compaction,
            None,
        )
    }

    /// A page whose conversations are compacted.
    pub fn compacting(memory: MemoryStorage<Value>, compaction: CompactionOptions<Value>) -> Self {
        let tools = vec![declaration("add", true), declaration("write_file", false)];
        let configured = Configured::default();
        Self::beside(memory, true, tools, (None, None), configured, compaction, None)
    }

    /// The same, where the host counts tokens.
    pub fn counting(
        memory: MemoryStorage<Value>,
        compaction: CompactionOptions<Value>,
        count: Rc<CountTokens<Value>>,
    ) -> Self {
        let tools = vec![declaration("add", true), declaration("write_file", false)];
        let configured = Configured::default();
        Self::beside(
            memory,
            true,
            tools,
            (None, None),
            configured,
            compaction,
            Some(count),
        )
    }

    fn beside(
        memory: MemoryStorage<Value>,
        strict: bool,
        declarations: Vec<ToolDeclaration<Value>>,
        (host, page): (Option<Rc<TestHost>>, Option<Rc<Page>>),
        configured: Configured,
        compaction: CompactionOptions<Value>,
        count_tokens: Option<Rc<CountTokens<Value>>>,
    ) -> Self {
        let world = Rc::new(TestWorld::default());
        let storage = Rc::new(FaultyStorage::new(memory));
        let model = Rc::new(Script::default());
        let tools = Rc::new(Toolbox::default());
        let parts = Parts {
            storage: storage.clone(),
            tabs: page.map(|page| page as Rc<dyn Tabs>),
            world: world.clone(),
            model: Some(model.clone()),
            tools: tools.clone(),
            declarations,
            strict,
            host: host.map(|host| host as Rc<dyn Host>),
            fold: runcontext_fold,
            protected: vec!["secrets".to_owned()],
            defaults: configured.defaults,
            data_dir: configured.data_dir,
            skills: configured.skills,
            count_tokens,
            compaction,
        };
        let runtime = run(&world, Runtime::open(parts)).unwrap();
        Self {
            world,
            storage,
            model,
            tools,
            runtime,
            events: Rc::default(),
        }
    }

    /// Drives a future, and everything in the background, to its end.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        run(&self.world, future)
    }

    /// A session with the working directory `/w`, watched.
    pub fn create(&self) -> Rc<Session<Value>> {
        self.create_with(Self::options())
    }

    /// What [`Lab::create`] begins with.
    pub fn options() -> NewSession {
        NewSession {
            id: Some(ID.to_owned()),
            cwd: Some("/w".to_owned()),
            system_prompt: "Be brief.".to_owned(),
            ..NewSession::default()
        }
    }

    /// A session with other options, watched.
    pub fn create_with(&self, options: NewSession) -> Rc<Session<Value>> {
        let session = self.run(self.runtime.create_session(options)).unwrap();
        unasked(&session);
        self.watch(&session);
        session
    }

    /// The stored session, watched.
    pub fn open(&self) -> Rc<Session<Value>> {
        let session = self.run(self.runtime.open_session(ID)).unwrap();
        unasked(&session);
        self.watch(&session);
        session
    }

    /// Writes down what happens to a session.
    pub fn watch(&self, session: &Rc<Session<Value>>) {
        let events = self.events.clone();
        session.subscribe(Rc::new(move |event| {
            // Of every request there is one; who is after them listens by itself.
            if !matches!(event, SessionEvent::Budget { .. }) {
                events.borrow_mut().push(told(event));
            }
            Ok(())
        }));
    }

    /// What happened since the last look.
    pub fn events(&self) -> Vec<String> {
        std::mem::take(&mut *self.events.borrow_mut())
    }

    /// Prompts with a text.
    pub fn prompt(&self, session: &Rc<Session<Value>>, text: &str) -> Result<TurnReport> {
        self.prompt_with(session, &json!(text), &PromptOptions::default())
    }

    /// Prompts.
    pub fn prompt_with(
        &self,
        session: &Rc<Session<Value>>,
        content: &Value,
        options: &PromptOptions,
    ) -> Result<TurnReport> {
        self.run(session.prompt(content, options))
    }

    /// Everything stored, by store and key, but the names of operations: how many, and that they differ.
    pub fn stored(&self) -> Stored {
        stored(&self.storage.memory)
    }
}

/// What is stored: by store, by key.
pub type Stored = BTreeMap<String, BTreeMap<String, Value>>;

/// Everything stored, by store and key, but groups and rules: `permission_store` looks at those. Of the names of
/// operations only the slots: names are random.
pub fn stored(memory: &MemoryStorage<Value>) -> Stored {
    let mut all = Stored::new();
    for (store, records) in memory.dump(Value::clone) {
        if keys::OF_POLICY.contains(&store.as_str()) {
            continue;
        }
        let mut names = Vec::new();
        let records: BTreeMap<String, Value> = records
            .into_iter()
            .map(|(key, record)| match record.get("operationId") {
                Some(name) => {
                    names.push(name.clone());
                    (key, json!("an operation"))
                }
                None => (key, without_origin(record)),
            })
            .collect();
        let count = names.len();
        names.sort_by_key(Value::to_string);
        names.dedup();
        assert_eq!(names.len(), count, "an operation is remembered twice");
        if !records.is_empty() {
            all.insert(store, records);
        }
    }
    all
}

/// What tells a session from others of its id is the name of an operation too.
fn without_origin(mut record: Value) -> Value {
    if let Some(settings) = record.get_mut("settings").and_then(Value::as_object_mut) {
        settings.remove("origin").expect("every session has its origin");
    }
    record
}

/// The declaration of a tool.
pub fn declaration(name: &str, access_none: bool) -> ToolDeclaration<Value> {
    let declaration = json!({ "name": name, "description": format!("the tool {name}") });
    ToolDeclaration {
        name: name.to_owned(),
        json: declaration.to_string(),
        digest: definition_digest(&declaration),
        declaration,
        policy: ToolPolicy {
            access: Some(if access_none { Access::None } else { Access::Write }),
            category: access_none.then(|| "safe".to_owned()),
            ..ToolPolicy::default()
        },
    }
}

/// A run context.
pub fn run_context(context: Value) -> RunContext {
    let options = NewSession::parse(&json!({ "runContext": context })).unwrap();
    options.run_context.flatten().unwrap()
}

/// A message as it comes in.
pub fn incoming(body: Value) -> Incoming<Value> {
    Incoming {
        body,
        degraded: Vec::new(),
        failed: false,
        tokens: None,
    }
}

/// An answer in words.
pub fn says(text: &str) -> Value {
    json!({ "role": "assistant", "content": [{ "type": "text", "text": text }], "stopReason": "stop", "timestamp": 5 })
}

/// An answer that calls tools: id, name and arguments of each.
pub fn calls(calls: &[(&str, &str, Value)]) -> Value {
    let blocks: Vec<Value> = calls
        .iter()
        .map(|(id, name, arguments)| json!({ "type": "toolCall", "id": id, "name": name, "arguments": arguments }))
        .collect();
    json!({ "role": "assistant", "content": blocks, "stopReason": "toolUse", "timestamp": 6 })
}

/// A tool's result.
pub fn result(id: &str, name: &str, text: &str) -> Value {
    json!({
        "role": "toolResult", "toolCallId": id, "toolName": name,
        "content": [{ "type": "text", "text": text }], "isError": false, "timestamp": 7
    })
}

/// What a call that was cut off is answered with; `timestamp` is that of the message with the call.
pub fn interrupted(id: &str, name: &str, timestamp: u64) -> Value {
    let text = "The tool call was interrupted before it finished. It may be retried.";
    json!({
        "role": "toolResult", "toolCallId": id, "toolName": name,
        "content": [{ "type": "text", "text": text }], "isError": true, "timestamp": timestamp
    })
}

/// A user message as it is kept.
pub fn user(text: &str, timestamp: u64) -> Value {
    json!({ "role": "user", "content": text, "timestamp": timestamp })
}

/// A model's window.
pub fn model_ref(id: &str) -> ModelRef {
    ModelRef {
        provider: "p".to_owned(),
        id: id.to_owned(),
        context_window: None,
        max_tokens: None,
    }
}

/// An event in a few words.
fn told(event: &SessionEvent<Value>) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match event {
        SessionEvent::TurnStarted { user_turn } => format!("started {}", user_turn.0),
        SessionEvent::Message {
            message_index,
            message,
        } => format!("message {} {}", message_index.0, text(&message["role"])),
        SessionEvent::Update { message } => format!("update {}", text(&message["content"][0]["text"])),
        SessionEvent::Budget { .. } => "budget".to_owned(),
        SessionEvent::TurnEnded { report } => {
            let outcome = match report.end.outcome {
                Outcome::Success => "success",
                Outcome::Error => "error",
                Outcome::Cancelled => "cancelled",
            };
            format!("ended {outcome}{}", if report.saved { "" } else { " unsaved" })
        }
        SessionEvent::ApprovalAsked { .. } => "asked".to_owned(),
        SessionEvent::ApprovalAnswered { result } => result.outcome.as_str().to_owned(),
        SessionEvent::CompactionStarted { first_kept } => format!("compacting {}", first_kept.0),
        SessionEvent::CompactionEnded { compaction } => {
            format!("compacted {}", compaction.first_kept_message_index.0)
        }
        SessionEvent::CompactionFailed { error } => format!("compaction failed {}", error.code()),
        SessionEvent::SettingsChanged => "settings".to_owned(),
        SessionEvent::Reloaded => "reloaded".to_owned(),
        SessionEvent::Saved => "saved".to_owned(),
        SessionEvent::SaveFailed { error } => format!("save failed {}", error.code()),
    }
}

/// The error of a refusal, checked for style: lower case, no final period.
pub fn refused<T: std::fmt::Debug>(result: Result<T>) -> Error {
    let error = result.unwrap_err();
    check_style(&error);
    error
}

/// A message is lower case, has no final period, and names no type of ours.
pub fn check_style(error: &Error) {
    let text = error.message();
    let first = text.chars().next().unwrap();
    assert!(
        first.is_lowercase() || first == '`',
        "starts with a capital: {text}"
    );
    assert!(!text.ends_with('.'), "ends with a period: {text}");
    assert!(!text.contains('\n'), "has several lines: {text}");
    assert!(!text.contains("::"), "names a type: {text}");
}
