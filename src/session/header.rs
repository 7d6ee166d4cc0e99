//! The settings of a session: one field each, saved one by one, so that the last write of each wins.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Error, ErrorCode, Result,
    list::Listed,
    message::Dialect,
    permissions::Preset,
    prompt::{InstructionFile, Section, validate_host_sections},
    run_context::RunContext,
    session::{OpenTurn, StoredRunContext},
    storage::ORIGIN,
    untyped::{self, FromJson, Reader, ToJson},
};

/// The model that a session talks to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct ModelRef {
    /// Who serves it.
    pub provider: String,
    /// Its name there.
    pub id: String,
    /// Tokens of input and output together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u32>,
    /// Tokens that an answer may have; kept free in the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub enum Outcome {
    /// The model finished.
    Success,
    /// The model failed, or the host said so.
    Error,
    /// A person stopped it.
    Cancelled,
}

/// What a new session begins with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewSession {
    /// Its id; a new one is made where absent.
    pub id: Option<String>,
    /// Its working directory.
    pub cwd: Option<String>,
    /// Its dialect.
    pub dialect: Option<Dialect>,
    /// Absent: nobody chose yet. `Some(None)`: a person chose to have none.
    pub permission_preset: Option<Option<Preset>>,
    /// What it runs as. Absent: what is configured. `Some(None)`: nothing, whatever is configured.
    pub run_context: Option<Option<RunContext>>,
    /// The agent it belongs to.
    pub agent_id: Option<String>,
    /// Where it comes from.
    pub source: Option<String>,
    /// The project that it is opened for.
    pub project_id: Option<String>,
    /// The ticket that it is opened for.
    pub ticket_id: Option<String>,
    /// The job that it is opened for.
    pub job_id: Option<String>,
    /// What it is for, in the inbox; found by the runtime.
    pub context_label: Option<String>,
    /// Whether nobody is there to be asked.
    pub headless: bool,
    /// The application's own instructions.
    pub system_prompt: String,
    /// Instruction files, read now and kept with the session.
    pub project_instructions: Vec<InstructionFile>,
    /// The host's own sections.
    pub sections: Vec<Section>,
    /// The model.
    pub model: Option<ModelRef>,
}

impl NewSession {
    /// Reads options as a caller gives them; `null` and nothing are no options.
    ///
    /// # Errors
    /// `invalid_argument` that names the field.
    pub fn parse(options: &Value) -> Result<Self> {
        if options.is_null() {
            return Ok(Self::default());
        }
        let mut options = Reader::new(options, "options");
        // Absent is not null here: null is a choice.
        let chosen = options.get("permissionPreset").is_some();
        let given = options.get("runContext").is_some();
        let read = Self {
            id: options.read("id"),
            cwd: options.read("cwd"),
            dialect: options.read("dialect"),
            permission_preset: chosen.then(|| options.read("permissionPreset")),
            run_context: given.then(|| options.read("runContext")),
            agent_id: options.read("agentId"),
            source: options.read("source"),
            project_id: options.read("projectId"),
            ticket_id: options.read("ticketId"),
            job_id: options.read("jobId"),
            context_label: None,
            headless: options.read_or_default("headless"),
            system_prompt: options.read_or_default("systemPrompt"),
            project_instructions: options.read_or_default("projectInstructions"),
            sections: options.read_or_default("sections"),
            model: options.read("model"),
        };
        options.finish(read)
    }
}

macro_rules! settings {
    ($($(#[$doc:meta])* $variant:ident($field:ident: $type:ty) = $name:literal,)*) => {
        /// The settings of a session, as they stand.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Header { $($(#[$doc])* pub $field: $type,)* }

        /// A change of one setting.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Setting { $($(#[$doc])* $variant($type),)* }

        impl Setting {
            /// The name of the field in storage and in JavaScript.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)* }
            }

            /// The value as it is stored.
            pub fn value(&self) -> Value {
                match self { $(Self::$variant(value) => value.to_json(),)* }
            }
        }

        impl Header {
            /// Sets one field.
            pub fn set(&mut self, setting: Setting) {
                match setting { $(Setting::$variant(value) => self.$field = value,)* }
            }

            /// Every field by name, as a new session's record holds it.
            pub fn to_settings(&self) -> BTreeMap<String, Value> {
                let fields: &[(&str, &dyn ToJson)] = &[$(($name, &self.$field),)*];
                let mut settings = BTreeMap::new();
                for (name, value) in fields {
                    settings.insert((*name).to_owned(), value.to_json());
                }
                settings
            }

            /// Reads a stored record's settings. A field that is absent has its default; one that cannot be read
            /// fails, so that nothing is overwritten by accident.
            pub fn from_settings(stored: &BTreeMap<String, Value>) -> Result<Self> {
                let (header, refusals) = Self::readable(stored);
                refusals.into_iter().next().map_or(Ok(header), Err)
            }

            /// What can be read of a stored record's settings, and why the others cannot.
            pub fn readable(stored: &BTreeMap<String, Value>) -> (Self, Vec<Error>) {
                let (header, refusals) = Self::read(stored);
                (header, refusals.iter().map(unreadable).listed())
            }

            /// The same of settings that need not be stored, with the name of each that is refused.
            pub(super) fn read(settings: &BTreeMap<String, Value>) -> (Self, Refusals) {
                let mut refusals = Vec::new();
                let header = Self { $($field: read(settings, $name, &mut refusals),)* };
                (header, refusals)
            }
        }
    };
}

settings! {
    /// The shape of the messages.
    Dialect(dialect: Dialect) = "dialect",
    /// What the model may do, at most and at least.
    PermissionPreset(permission_preset: Option<Preset>) = "permissionPreset",
    /// Whether a person chose the preset.
    PresetChosen(preset_chosen: bool) = "presetChosen",
    /// The agent it belongs to.
    AgentId(agent_id: Option<String>) = "agentId",
    /// Where it comes from.
    Source(source: Option<String>) = "source",
    /// What it runs as.
    RunContext(run_context: StoredRunContext) = "runContext",
    /// What the project, ticket or job is called that it was opened for.
    ContextLabel(context_label: Option<String>) = "contextLabel",
    /// Whether nobody is there to be asked.
    Headless(headless: bool) = "headless",
    /// The application's own instructions.
    SystemPrompt(system_prompt: String) = "systemPrompt",
    /// Instruction files as they were when the session was created.
    ProjectInstructions(project_instructions: Vec<InstructionFile>) = "projectInstructions",
    /// The host's own sections.
    Sections(sections: Vec<Section>) = "sections",
    /// The model.
    Model(model: Option<ModelRef>) = "model",
    /// What a person calls it.
    Title(title: Option<String>) = "title",
    /// Whether a person pinned it.
    Pinned(pinned: bool) = "pinned",
    /// How many messages a person has seen.
    ReadCount(read_count: u32) = "readCount",
    /// Set while a turn is under way. Still set on reopening, the turn was cut off.
    OpenTurn(open_turn: Option<OpenTurn>) = "openTurn",
    /// How the last turn ended.
    LastOutcome(last_outcome: Option<Outcome>) = "outcome",
    /// Why it failed.
    LastError(last_error: Option<String>) = "error",
}

/// Settings that say what became of the last turn. They belong to the conversation.
pub(super) const OF_TURN: [&str; 3] = ["openTurn", "outcome", "error"];

/// Settings that decide what a session may do, and that every session was stored with.
const DECIDING: [&str; 6] = [
    "dialect",
    "permissionPreset",
    "presetChosen",
    "agentId",
    "source",
    "headless",
];

/// Which of them are not there any more. Since sessions have an origin they have a run context too, or say that they have none.
pub(super) fn lost(stored: &BTreeMap<String, Value>) -> Vec<&'static str> {
    let run_context = stored.contains_key(ORIGIN).then_some("runContext");
    let names = DECIDING.into_iter().chain(run_context);
    names.filter(|name| !stored.contains_key(*name)).collect()
}

/// Settings that cannot be read, and why.
type Refusals = Vec<(&'static str, Error)>;

/// A stored setting; one that is not there, or cannot be read, has its default.
fn read<T: FromJson + Default>(
    stored: &BTreeMap<String, Value>,
    name: &'static str,
    refusals: &mut Refusals,
) -> T {
    let Some(value) = stored.get(name) else {
        return T::default();
    };
    T::from_json(value, name).unwrap_or_else(|cause| {
        refusals.push((name, cause));
        T::default()
    })
}

fn unreadable((name, cause): &(&str, Error)) -> Error {
    let text = format!(
        "a stored setting cannot be read: {cause}; repair it, or delete the session with `deleteSession`"
    );
    Error::new(ErrorCode::StorageFailed, text).with("field", *name)
}

impl FromJson for Preset {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        match value {
            Value::String(name) => name.parse().map_err(|error: Error| error.with("field", path)),
            _ => Err(untyped::field_error(
                path,
                "must be the name of a preset, or null",
            )),
        }
    }
}

impl FromJson for Outcome {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let known = [
            ("success", Self::Success),
            ("error", Self::Error),
            ("cancelled", Self::Cancelled),
        ];
        untyped::one_of(value, path, &known)
    }
}

impl FromJson for ModelRef {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut model = Reader::new(value, path);
        let read = Self {
            provider: model.read("provider"),
            id: model.read("id"),
            context_window: model.optional_integer("contextWindow", 1),
            max_tokens: model.optional_integer("maxTokens", 1),
        };
        model.finish(read)
    }
}

impl ToJson for Preset {
    fn to_json(&self) -> Value {
        Value::from(self.as_str())
    }
}

impl ToJson for Outcome {
    fn to_json(&self) -> Value {
        Value::from(match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        })
    }
}

impl ToJson for ModelRef {
    fn to_json(&self) -> Value {
        let mut model = Map::new();
        model.insert("provider".to_owned(), self.provider.to_json());
        model.insert("id".to_owned(), self.id.to_json());
        for (name, tokens) in [
            ("contextWindow", self.context_window),
            ("maxTokens", self.max_tokens),
        ] {
            if let Some(tokens) = tokens {
                model.insert(name.to_owned(), Value::from(tokens));
            }
        }
        Value::Object(model)
    }
}

impl ModelRef {
    /// `provider/id`, by which one model is told from another.
    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }

    /// Refuses a model that leaves no room for a request. One that is stored is taken as it is.
    pub(super) fn check_room(&self) -> Result<()> {
        match (self.context_window, self.max_tokens) {
            (Some(window), Some(reserved)) if reserved >= window => Err(untyped::field_error(
                "model.maxTokens",
                "must be less than `contextWindow`, which holds the request and the answer",
            )),
            _ => Ok(()),
        }
    }
}

impl Header {
    /// The settings of a new session.
    ///
    /// # Errors
    /// `invalid_argument` for sections with a reserved, bad or repeated name, and for a model that leaves no room for a request.
    pub fn new(options: &NewSession) -> Result<Self> {
        validate_host_sections(&options.sections)?;
        options.model.as_ref().map_or(Ok(()), ModelRef::check_room)?;
        Ok(Self {
            dialect: options.dialect.unwrap_or_default(),
            permission_preset: options.permission_preset.unwrap_or(Some(Preset::ReadOnly)),
            preset_chosen: options.permission_preset.is_some(),
            run_context: options.run_context.clone().flatten().into(),
            context_label: options.context_label.clone(),
            agent_id: options.agent_id.clone(),
            source: options.source.clone(),
            headless: options.headless,
            system_prompt: options.system_prompt.clone(),
            project_instructions: options.project_instructions.clone(),
            sections: options.sections.clone(),
            model: options.model.clone(),
            title: None,
            pinned: false,
            read_count: 0,
            open_turn: None,
            last_outcome: None,
            last_error: None,
        })
    }
}

/// Checks an id that a host made up.
///
/// # Errors
/// `invalid_argument` unless it matches `[A-Za-z0-9_-]{1,128}`.
pub fn check_id(id: &str) -> Result<()> {
    if untyped::fits_id(id) {
        return Ok(());
    }
    Err(Error::invalid("a session id must have 1 to 128 letters, digits, `_` or `-`").with("id", id))
}
