//! The pure functions: the same code that a session uses, without a runtime.

use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::{
    foreign::{self, optional_text, text},
    plain::{bytes_in, copy_out, json_in, json_of, list, message_in, object, to_js},
};
use crate::{
    Error, Result,
    context::{self, CompactionCheckpoint, Projection, RuntimeContextSnapshot, materialise, project},
    list::{Listed, TryListed},
    message::{Dialect, MessageData, MessageOutline},
    prompt::{self, Checkpoint},
    run_context::{Defaults, RunContext, RunContextInput},
    skills::{self, Mentionable},
    untyped::{self, FromJson, Reader, ToJson, field_error},
};

/// A run context as it stands in a column of a table that was made JSON: null, JSON text, or an object. What it has beside the five
/// fields is kept.
#[wasm_bindgen(js_name = "parseRunContext", unchecked_return_type = "RunContext | null")]
pub fn parse_run_context(
    #[wasm_bindgen(unchecked_param_type = "string | RunContext | null")] column: JsValue,
) -> Result<JsValue> {
    let column = json_in(&column, "column")?;
    let said = match column.as_str() {
        Some(text) => JsValue::from_str(text).parsed().map(|said| json_of(&said)),
        None => Some(column),
    };
    let said = said.ok_or_else(|| {
        field_error(
            "column",
            "is no JSON text; pass null where there is no run context",
        )
    })?;
    Option::<RunContext>::from_json(&said, "column")?;
    Ok(to_js(&said))
}

/// The run context that a session begins with: `explicit` as it is, null included; or else that of the ticket, of the project, of the
/// agent or of the source in `defaults`, the first that is there, whole; or else null. In a project `explicit` aside, the project's
/// directory is the working directory, it and `dataDir` may be written, and a fragment about project and ticket comes first.
#[wasm_bindgen(js_name = "resolveRunContext", unchecked_return_type = "RunContext | null")]
pub fn resolve_run_context(
    #[wasm_bindgen(unchecked_param_type = "ResolveRunContextInput")] input: JsValue,
) -> Result<JsValue> {
    let (input, defaults) = RunContextInput::parse(&json_in(&input, "input")?)?;
    Ok(to_js(&input.resolve(&defaults).to_json()))
}

/// Reads the defaults of a runtime, or the text of a `config.yml` with them. `unknownFields` are the members that are kept and not
/// looked at, as paths. A text that cannot be read is `invalid_argument` with `line` and `column`.
#[wasm_bindgen(
    js_name = "parseRunContextDefaults",
    unchecked_return_type = "{ defaults: RunContextDefaults; unknownFields: string[] }"
)]
pub fn parse_run_context_defaults(
    #[wasm_bindgen(unchecked_param_type = "RunContextDefaults | string")] defaults: JsValue,
) -> Result<JsValue> {
    let defaults = Defaults::parse(&json_in(&defaults, "defaults")?, "defaults")?;
    Ok(object(&[
        ("defaults", to_js(defaults.config())),
        ("unknownFields", to_js(defaults.unknown_fields())),
    ]))
}

/// What the model sees of a conversation, with the map of it. Every message with the role `user` counts as an actual
/// user message.
#[wasm_bindgen(
    js_name = "projectModelInput",
    unchecked_return_type = "{ messages: Message[]; projection: ModelInputProjection; notices: Notice[] }"
)]
pub fn project_model_input(
    #[wasm_bindgen(unchecked_param_type = "readonly Message[]")] messages: JsValue,
    #[wasm_bindgen(unchecked_param_type = "readonly RuntimeContextSnapshot[]")] snapshots: JsValue,
    #[wasm_bindgen(
        unchecked_optional_param_type = "{ compaction?: CompactionCheckpoint; dialect?: Dialect }"
    )]
    options: JsValue,
) -> Result<JsValue> {
    let options = json_in(&options, "options")?;
    let (mut dialect, mut compaction) = (None, None);
    if !options.is_null() {
        let options = untyped::object(&options, "options")?;
        dialect = untyped::member(options, "options", "dialect")?;
        compaction = untyped::member(options, "options", "compaction")?;
    }
    let given = Conversation::read(&messages, &snapshots, dialect, compaction)?;
    let (projection, notices) = project(&given.outlines, &given.snapshots, given.compaction.as_ref())?;
    let shown = given.shown(&projection)?;
    Ok(object(&[
        ("messages", list(shown.iter().map(copy_out))),
        ("projection", to_js(&projection)),
        ("notices", to_js(&notices)),
    ]))
}

/// About how many tokens a message has for the model, by the built-in estimate: its texts and calls, 1,600 for a picture, 3,000 for
/// any other attachment, and what is not understood as its JSON. For texts of some length it is at most a tenth under what
/// `o200k_base` and `cl100k_base` count, and on average a fifth above.
#[wasm_bindgen(js_name = "estimateTokens")]
pub fn estimate_tokens(
    #[wasm_bindgen(unchecked_param_type = "Message")] message: JsValue,
    #[wasm_bindgen(unchecked_optional_param_type = "Dialect")] dialect: JsValue,
) -> Result<u32> {
    let message = message_in(&message, "message")?;
    let dialect: Option<Dialect> = FromJson::from_json(&json_in(&dialect, "dialect")?, "dialect")?;
    Ok(dialect.unwrap_or_default().outline(&message, false)?.tokens)
}

/// Which messages a summary may stand for: whole turns, those that are older than what `keepRecentTokens` keeps, from the end of
/// the `previous` compaction on. The newest turn always stays, and a result stays with its call. `messages` is what is to be
/// summarised, as the model sees it: the previous summary first, chosen skills in front of their messages; one that is shown as
/// it is stored is the very message that was passed. Every message with the role `user` counts as an actual user message.
///
/// Throws `nothing_to_compact`, with the reason, where everything stays.
#[wasm_bindgen(
    js_name = "planCompaction",
    unchecked_return_type = "{ firstKeptMessageIndex: number; messages: Message[] }"
)]
pub fn plan_compaction(
    #[wasm_bindgen(unchecked_param_type = "readonly Message[]")] messages: JsValue,
    #[wasm_bindgen(unchecked_param_type = "readonly RuntimeContextSnapshot[]")] snapshots: JsValue,
    #[wasm_bindgen(
        unchecked_param_type = "{ previous?: CompactionCheckpoint; keepRecentTokens: number; dialect?: Dialect }"
    )]
    options: JsValue,
) -> Result<JsValue> {
    let options = json_in(&options, "options")?;
    let mut options = Reader::new(&options, "options");
    let read = (
        options.read("dialect"),
        options.read("previous"),
        options.integer("keepRecentTokens", 0),
    );
    let (dialect, previous, keep) = options.finish(read)?;
    let given = Conversation::read(&messages, &snapshots, dialect, previous)?;
    let (outlines, snapshots, previous) = (&given.outlines, &given.snapshots, given.compaction.as_ref());
    let first = context::plan_compaction(outlines, snapshots, previous, keep)?;
    let projection = project(outlines, snapshots, previous)?.0.before(first);
    let mut shown = given.shown(&projection)?;
    for (source, shown) in projection.sources.iter().zip(&mut shown) {
        let at = source.message_index().offset();
        if let Some((stored, own)) = given.bodies.get(at).zip(given.own.get(at))
            && *shown == *stored
        {
            *shown = own.clone();
        } else {
            *shown = copy_out(shown);
        }
    }
    Ok(object(&[
        ("firstKeptMessageIndex", first.0.into()),
        ("messages", list(shown)),
    ]))
}

/// A conversation as a caller gives it, copied and read.
struct Conversation {
    /// The caller's own messages.
    own: Vec<JsValue>,
    bodies: Vec<JsValue>,
    outlines: Vec<MessageOutline>,
    snapshots: Vec<RuntimeContextSnapshot>,
    dialect: Dialect,
    compaction: Option<CompactionCheckpoint>,
}

impl Conversation {
    fn read(
        messages: &JsValue,
        snapshots: &JsValue,
        dialect: Option<Dialect>,
        compaction: Option<CompactionCheckpoint>,
    ) -> Result<Self> {
        let mut given = Self {
            own: Vec::new(),
            bodies: Vec::new(),
            outlines: Vec::new(),
            snapshots: RuntimeContextSnapshot::parse_list(&json_in(snapshots, "snapshots")?)?,
            dialect: dialect.unwrap_or_default(),
            compaction,
        };
        for item in foreign::items(messages, "messages")? {
            let (path, own) = item?;
            let body = message_in(&own, &path)?;
            let outline = given.dialect.outline(&body, true).map_err(|error| {
                let text = format!("`{path}`: {error}");
                Error::new(error.code(), text).with("field", path)
            })?;
            given.own.push(own);
            given.bodies.push(body);
            given.outlines.push(outline);
        }
        Ok(given)
    }

    /// What a plan of it shows.
    fn shown(&self, projection: &Projection) -> Result<Vec<JsValue>> {
        materialise(
            self.dialect,
            projection,
            |index| self.bodies.get(index.offset()).cloned(),
            &self.outlines,
            &self.snapshots,
            self.compaction.as_ref(),
        )
    }
}

/// The retained checkpoints, and one more where the sections differ from what they replay to.
#[wasm_bindgen(
    js_name = "diffSystemPrompt",
    unchecked_return_type = "SystemPromptCheckpoint[]"
)]
pub fn diff_system_prompt(
    #[wasm_bindgen(unchecked_param_type = "readonly SystemPromptCheckpoint[]")] retained: JsValue,
    #[wasm_bindgen(unchecked_param_type = "readonly Section[]")] sections: JsValue,
    #[wasm_bindgen(js_name = "messageCount", unchecked_param_type = "number")] message_count: JsValue,
    #[wasm_bindgen(unchecked_param_type = "number")] timestamp: JsValue,
) -> Result<JsValue> {
    let retained = Checkpoint::parse_list(&json_in(&retained, "retained")?)?;
    let sections: Vec<prompt::Section> = Vec::from_json(&json_in(&sections, "sections")?, "sections")?;
    let count = super::session::integer(&message_count, "messageCount")?;
    let timestamp = untyped::check_milliseconds(timestamp.as_f64().unwrap_or(f64::NAN), "timestamp")?;
    Ok(to_js(&prompt::diff_system_prompt(
        &retained, &sections, count, timestamp,
    )?))
}

/// The sections of the system prompt after this many messages, in the order they are rendered.
#[wasm_bindgen(js_name = "replaySystemPrompt", unchecked_return_type = "Section[]")]
pub fn replay_system_prompt(
    #[wasm_bindgen(unchecked_param_type = "readonly SystemPromptCheckpoint[]")] checkpoints: JsValue,
    #[wasm_bindgen(js_name = "messageCount", unchecked_param_type = "number")] message_count: JsValue,
) -> Result<JsValue> {
    let checkpoints = Checkpoint::parse_list(&json_in(&checkpoints, "checkpoints")?)?;
    let count = super::session::integer(&message_count, "messageCount")?;
    Ok(to_js(&prompt::replay_system_prompt(&checkpoints, count)?))
}

/// The system prompt of these sections; `preamble` comes first, without tags.
#[wasm_bindgen(js_name = "renderSystemPrompt")]
pub fn render_system_prompt(
    #[wasm_bindgen(unchecked_param_type = "readonly Section[]")] sections: JsValue,
) -> Result<String> {
    prompt::render_system_prompt(&Vec::from_json(&json_in(&sections, "sections")?, "sections")?)
}

/// The sections of a foreign system prompt, for looking at it. A session never parses its own.
#[wasm_bindgen(js_name = "splitSystemPrompt", unchecked_return_type = "Section[]")]
pub fn split_system_prompt(
    #[wasm_bindgen(unchecked_param_type = "string")] prompt: JsValue,
) -> Result<JsValue> {
    Ok(to_js(&prompt::split_system_prompt(&text(&prompt, "prompt")?)))
}

/// Reads a `SKILL.md`. What is wrong with it is in the diagnostics; without a usable name or description there is
/// no skill.
#[wasm_bindgen(
    js_name = "parseSkill",
    unchecked_return_type = "{ skill?: ParsedSkill; diagnostics: Diagnostic[] }"
)]
pub fn parse_skill(
    #[wasm_bindgen(unchecked_param_type = "string | Uint8Array")] content: JsValue,
    #[wasm_bindgen(unchecked_optional_param_type = "string")] location: JsValue,
) -> Result<JsValue> {
    let location = optional_text(&location, "location")?;
    let outcome = match bytes_in(&content, "content")? {
        Some(bytes) => skills::parse_skill_bytes(&bytes, location.as_deref()),
        None => skills::parse_skill(&text(&content, "content")?, location.as_deref()),
    };
    Ok(to_js(&outcome))
}

/// Where a text mentions skills, as `$name` or `[$name](location)`. Positions are UTF-16 units. Give it `runtime.skills.list()`
/// for what a session would find: entries that are switched off, invalid or not for the person are not found, and shadowed ones
/// by their location alone. A skill without `status` and `userInvocable` counts as active.
#[wasm_bindgen(
    js_name = "findSkillMentions",
    unchecked_return_type = "{ id: string; start: number; end: number }[]"
)]
pub fn find_skill_mentions(
    #[wasm_bindgen(js_name = "text", unchecked_param_type = "string")] searched: JsValue,
    #[wasm_bindgen(
        unchecked_param_type = "readonly { id: string; name: string; location?: string; status?: SkillStatus; userInvocable?: boolean }[]"
    )]
    skills: JsValue,
) -> Result<JsValue> {
    super::foreign::check_length(crate::message::MessageView::text_len(&searched), "text")?;
    let Some(searched) = searched.as_string() else {
        return Err(field_error("text", "must be a text"));
    };
    let given = json_in(&skills, "skills")?;
    let read = untyped::array(&given, "skills")?
        .iter()
        .enumerate()
        .map(|(at, skill)| Mentionable::read(skill, &format!("skills[{at}]")));
    let mentionable = read.try_listed()?.into_iter().flatten().listed();
    Ok(to_js(&skills::find_mentions(&searched, &mentionable).mentions))
}
