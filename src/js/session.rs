//! `Session`: one conversation with its settings and metadata.

use std::{cell::RefCell, rc::Rc};

use js_sys::{Array, Promise};
use wasm_bindgen::{
    closure::Closure,
    prelude::{JsValue, wasm_bindgen},
};

use super::{
    approvals::{approvals_to_js, result_to_js},
    foreign::{Abort, Foreign, callback, text},
    gate::decided_to_js,
    host::{self, JsSummarizer, calls_to_js},
    plain::{self, copy_out, field, intact, iso, json_in, list, message_in, object, to_js},
    promised, promised_for,
    turn::Turn,
};
use crate::{
    Error, Result,
    list::TryListed,
    message::MessageView,
    runtime::{self, PromptOptions, SessionEvent, TurnReport},
    session::{Incoming, Machine},
    untyped::{FromJson, Reader, ToJson, field_error},
};

/// The settings that a header shows, in its order.
static SHOWN_SETTINGS: [&str; 14] = [
    "dialect",
    "permissionPreset",
    "runContext",
    "agentId",
    "source",
    "headless",
    "systemPrompt",
    "projectInstructions",
    "sections",
    "model",
    "title",
    "pinned",
    "outcome",
    "error",
];

/// One conversation. What its getters return are copies or frozen.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Session {
    inner: Rc<runtime::Session<JsValue>>,
    /// The list of messages as it was last given out, with its length and the number of reloads: it is the same list until
    /// there are more, or others.
    shown: RefCell<Option<(usize, u64, JsValue)>>,
}

impl Session {
    pub(super) fn new(inner: Rc<runtime::Session<JsValue>>) -> Self {
        Self {
            inner,
            shown: RefCell::new(None),
        }
    }
}

#[wasm_bindgen]
impl Session {
    /// The session's id.
    #[wasm_bindgen(getter)]
    pub fn id(&self) -> String {
        self.inner.machine().id().to_owned()
    }

    /// The stored conversation from `state.loadedFrom` on, frozen, exactly as it was typed and answered.
    #[wasm_bindgen(getter, unchecked_return_type = "readonly Message[]")]
    pub fn messages(&self) -> JsValue {
        let (bodies, reloads, bytes) = {
            let machine = self.inner.machine();
            let loaded = machine.outlines().iter().skip(machine.loaded_from() as usize);
            let bytes = loaded.into_iter().any(|outline| outline.bytes);
            (machine.bodies().to_vec(), machine.times_reloaded(), bytes)
        };
        let shown = self.shown.borrow().clone();
        if let Some((count, then, messages)) = shown
            && (count, then) == (bodies.len(), reloads)
            // Bytes cannot be frozen: where a holder of the list changed some, it is made anew.
            && (!bytes || intact(&messages, &list(bodies.iter().cloned())))
        {
            return messages;
        }
        let messages = list(bodies.iter().map(copy_out));
        *self.shown.borrow_mut() = Some((bodies.len(), reloads, messages.clone()));
        messages
    }

    /// Reads a page of the conversation: at most `limit` messages before the position `before`, by default the end.
    #[wasm_bindgen(js_name = "readMessages", unchecked_return_type = "Promise<Message[]>")]
    pub fn read_messages(
        &self,
        #[wasm_bindgen(unchecked_param_type = "{ before?: number; limit: number }")] page: JsValue,
    ) -> Promise {
        let inner = self.inner.clone();
        let page = json_in(&page, "page").and_then(|page| {
            let mut page = Reader::new(&page, "page");
            let read = (page.read("before"), page.integer("limit", 1));
            page.finish(read)
        });
        promised(page.map(|(before, limit)| async move {
            let messages = inner.read_messages(before, limit).await?;
            Ok(list(messages.iter().map(copy_out)))
        }))
    }

    /// A copy of the state.
    #[wasm_bindgen(getter, unchecked_return_type = "SessionState")]
    pub fn state(&self) -> JsValue {
        let messages = self.messages();
        let errors = self.inner.listener_errors().all();
        let machine = self.inner.machine();
        let header = machine.header();
        let loads = machine.snapshots().iter().flat_map(|snapshot| {
            let turn = snapshot.user_turn;
            snapshot.skills.iter().flatten().map(move |skill| {
                object(&[
                    ("userTurn", turn.into()),
                    ("id", JsValue::from_str(&skill.id)),
                    ("name", JsValue::from_str(&skill.name)),
                    ("revision", JsValue::from_str(&skill.revision)),
                ])
            })
        });
        object(&[
            ("messages", messages),
            ("messageCount", machine.message_count().into()),
            ("loadedFrom", machine.loaded_from().into()),
            ("isRunning", machine.is_running().into()),
            ("runsElsewhere", machine.runs_elsewhere().into()),
            (
                "outcome",
                optional(header.last_outcome.map(|outcome| to_js(&outcome))),
            ),
            (
                "error",
                optional(header.last_error.as_deref().map(JsValue::from_str)),
            ),
            ("hasPendingSave", machine.save_error().is_some().into()),
            (
                "unread",
                machine.message_count().saturating_sub(header.read_count).into(),
            ),
            ("permissionPreset", to_js(&header.preset())),
            ("runContext", run_context_of(&machine)),
            ("unknownFields", to_js(&machine.unknown_fields())),
            (
                "contextBudget",
                optional(machine.budget().map(|budget| to_js(&budget))),
            ),
            (
                "pendingApprovals",
                approvals_to_js(machine.id(), machine.waiting_approvals()),
            ),
            ("skillLoads", list(loads)),
            ("title", optional(header.title.as_deref().map(JsValue::from_str))),
            ("pinned", header.pinned.into()),
            ("listenerErrors", to_js(&errors)),
            ("damage", to_js(machine.damage())),
        ])
    }

    /// A copy of the header: settings, snapshots, checkpoints and compactions.
    #[wasm_bindgen(getter, unchecked_return_type = "SessionHeader")]
    pub fn header(&self) -> JsValue {
        let machine = self.inner.machine();
        let mut settings = machine.header().to_settings();
        // What is shown is what is in force.
        let preset = machine.header().preset();
        settings.insert(
            "permissionPreset".to_owned(),
            preset.map_or(serde_json::Value::Null, |it| it.to_json()),
        );
        let settings = to_js(&settings);
        let mut members = vec![
            ("type", JsValue::from_str("session")),
            ("version", 2.into()),
            ("id", JsValue::from_str(machine.id())),
            ("cwd", JsValue::from_str(machine.cwd())),
            ("createdAt", iso(machine.created_at())),
            ("updatedAt", iso(machine.updated_at())),
        ];
        for name in SHOWN_SETTINGS {
            members.push((name, field(&settings, name)));
        }
        members.push(("messageCount", machine.message_count().into()));
        members.push(("runtimeContexts", to_js(machine.snapshots())));
        members.push(("systemPromptCheckpoints", to_js(machine.checkpoints())));
        members.push(("compactions", to_js(machine.compactions())));
        object(&members)
    }

    /// Changes model, preamble or host sections of an idle session; what is absent stays.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn configure(
        &self,
        #[wasm_bindgen(unchecked_param_type = "SessionChange")] change: JsValue,
    ) -> Promise {
        let inner = self.inner.clone();
        let change = json_in(&change, "change").and_then(|change| {
            let mut change = Reader::new(&change, "change");
            // Absent is not null here: null takes the model away.
            let named = change.get("model").is_some();
            let model = named.then(|| change.read("model"));
            let read = (model, change.read("systemPrompt"), change.read("sections"));
            change.finish(read)
        });
        promised(change.map(|(model, system_prompt, sections)| async move {
            inner.configure(model, system_prompt, sections).await?;
            Ok(JsValue::UNDEFINED)
        }))
    }

    /// What a person chose that the model may do, or null.
    #[wasm_bindgen(
        getter,
        js_name = "permissionPreset",
        unchecked_return_type = "PermissionPreset | null"
    )]
    pub fn permission_preset(&self) -> JsValue {
        to_js(&self.inner.machine().header().preset())
    }

    /// A person's choice, for an idle session. The next dispatched prompt shows it.
    #[wasm_bindgen(js_name = "setPermissionPreset", unchecked_return_type = "Promise<void>")]
    pub fn set_permission_preset(
        &self,
        #[wasm_bindgen(unchecked_param_type = "PermissionPreset | null")] preset: JsValue,
    ) -> Promise {
        let inner = self.inner.clone();
        let preset = if preset.is_undefined() {
            Err(field_error("preset", "must be the name of a preset, or null"))
        } else {
            json_in(&preset, "preset").and_then(|preset| FromJson::from_json(&preset, "preset"))
        };
        promised(preset.map(|preset| async move {
            inner.set_preset(preset).await?;
            Ok(JsValue::UNDEFINED)
        }))
    }

    /// What the session runs as, or null.
    #[wasm_bindgen(getter, js_name = "runContext", unchecked_return_type = "RunContext | null")]
    pub fn run_context(&self) -> JsValue {
        run_context_of(&self.inner.machine())
    }

    /// Another run context, or null for none: saved, and live at once. Until a running turn settles, and until it is saved,
    /// it opens nothing that the earlier one did not open.
    #[wasm_bindgen(js_name = "setRunContext", unchecked_return_type = "Promise<void>")]
    pub fn set_run_context(
        &self,
        #[wasm_bindgen(js_name = "runContext", unchecked_param_type = "RunContext | null")]
        run_context: JsValue,
    ) -> Promise {
        let inner = self.inner.clone();
        let context = if run_context.is_undefined() {
            Err(field_error(
                "runContext",
                "must be a run context, or null for none",
            ))
        } else {
            json_in(&run_context, "runContext").and_then(|it| FromJson::from_json(&it, "runContext"))
        };
        promised(context.map(|context| async move {
            inner.set_run_context(context).await?;
            Ok(JsValue::UNDEFINED)
        }))
    }

    /// Decides a call by everything that is in force now. In a turn, a call that is allowed may run from then on. Where the host
    /// never answers, it rejects with `disposed` once the session is let go of.
    #[wasm_bindgen(unchecked_return_type = "Promise<Decision>")]
    pub fn gate(&self, #[wasm_bindgen(unchecked_param_type = "ToolCall")] call: JsValue) -> Promise {
        let inner = self.inner.clone();
        promised(host::call_in(&call).map(|call| async move { Ok(decided_to_js(inner.gate(&call).await?)) }))
    }

    /// The same decision; nothing follows from it.
    #[wasm_bindgen(unchecked_return_type = "Promise<Decision>")]
    pub fn explain(&self, #[wasm_bindgen(unchecked_param_type = "ToolCall")] call: JsValue) -> Promise {
        let inner = self.inner.clone();
        promised(
            host::call_in(&call).map(|call| async move { Ok(decided_to_js(inner.explain(&call).await?)) }),
        )
    }

    /// The tools that the rules, as they were last read, do not deny outright.
    #[wasm_bindgen(js_name = "visibleTools", unchecked_return_type = "ToolDeclaration[]")]
    pub fn visible_tools(&self) -> JsValue {
        list(self.inner.visible_tools())
    }

    /// A person does not want to be asked about these calls: for so many seconds, or until this page or worker restarts.
    pub fn bypass(
        &self,
        #[wasm_bindgen(unchecked_param_type = "\"all\" | { category: string } | { mcpServer: string }")]
        scope: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "number")] seconds: JsValue,
    ) -> Result<()> {
        let scope = FromJson::from_json(&json_in(&scope, "scope")?, "scope")?;
        let seconds = if seconds.is_undefined() {
            None
        } else {
            Some(seconds.as_f64().unwrap_or(f64::NAN))
        };
        self.inner.bypass(scope, seconds)
    }

    /// A person wants to be asked again.
    #[wasm_bindgen(js_name = "clearBypass")]
    pub fn clear_bypass(&self) {
        self.inner.clear_bypass();
    }

    /// Snapshots that were dispatched, also those whose save is pending.
    #[wasm_bindgen(
        js_name = "getRuntimeContexts",
        unchecked_return_type = "RuntimeContextSnapshot[]"
    )]
    pub fn runtime_contexts(&self) -> JsValue {
        to_js(self.inner.machine().snapshots())
    }

    /// Checkpoints of dispatched prompts, also those whose save is pending.
    #[wasm_bindgen(
        js_name = "getSystemPromptCheckpoints",
        unchecked_return_type = "SystemPromptCheckpoint[]"
    )]
    pub fn system_prompt_checkpoints(&self) -> JsValue {
        to_js(self.inner.machine().checkpoints())
    }

    /// Compactions.
    #[wasm_bindgen(js_name = "getCompactions", unchecked_return_type = "CompactionCheckpoint[]")]
    pub fn compactions(&self) -> JsValue {
        to_js(self.inner.machine().compactions())
    }

    /// The system prompt that the model saw at a message, replayed from checkpoints.
    #[wasm_bindgen(js_name = "systemPromptAt")]
    pub fn system_prompt_at(
        &self,
        #[wasm_bindgen(js_name = "messageIndex", unchecked_param_type = "number")] message_index: JsValue,
    ) -> Result<String> {
        let index = integer(&message_index, "messageIndex")?;
        self.inner.machine().system_prompt_at(index)
    }

    /// The source map of the last dispatched request.
    #[wasm_bindgen(
        getter,
        js_name = "modelInputProjection",
        unchecked_return_type = "ModelInputProjection | undefined"
    )]
    pub fn model_input_projection(&self) -> JsValue {
        let shown = self.inner.machine().projection();
        optional(shown.map(|projection| to_js(&projection)))
    }

    /// Sends a message and drives the turn to its end. Rejects only before the message is on its way, and then
    /// nothing is stored.
    #[wasm_bindgen(unchecked_return_type = "Promise<TurnResult>")]
    pub fn prompt(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Content | UserMessage")] content: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "PromptOptions")] options: JsValue,
    ) -> Promise {
        let inner = self.inner.clone();
        promised_for(
            content.clone(),
            prompt_arguments(&content, &options).map(|(content, options, abort)| async move {
                let report = inner.prompt(&content, &options).await;
                drop(abort);
                Ok(report_to_js(&report?))
            }),
        )
    }

    /// Begins a turn for a host with a loop of its own.
    #[wasm_bindgen(unchecked_return_type = "Promise<Turn>")]
    pub fn begin(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Content | UserMessage")] content: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "PromptOptions")] options: JsValue,
    ) -> Promise {
        let inner = self.inner.clone();
        let given = content.clone();
        promised(
            prompt_arguments(&content, &options).map(|(content, options, abort)| async move {
                Ok(Turn::new(inner.begin(&content, &options).await?, abort, given).into())
            }),
        )
    }

    /// The turn that a restart cut off.
    #[wasm_bindgen(
        getter,
        unchecked_return_type = "{ unanswered: ToolCall[]; pendingApprovals: string[] } | undefined"
    )]
    pub fn interrupted(&self) -> JsValue {
        let interrupted = self.inner.machine().interrupted();
        optional(interrupted.map(|turn| {
            object(&[
                ("unanswered", calls_to_js(&turn.unanswered)),
                (
                    "pendingApprovals",
                    list(turn.pending_approvals.iter().map(|id| JsValue::from_str(id))),
                ),
            ])
        }))
    }

    /// Goes on with a turn that a restart cut off. Calls that a person is still asked about stay open; every other open call is
    /// answered as interrupted, and never run again.
    #[wasm_bindgen(unchecked_return_type = "Promise<Turn>")]
    pub fn resume(&self) -> Promise {
        let inner = self.inner.clone();
        promised(Ok(async move {
            Ok(Turn::new(inner.resume().await?, Abort::default(), JsValue::UNDEFINED).into())
        }))
    }

    /// The same, driven to its end.
    #[wasm_bindgen(js_name = "resumePrompt", unchecked_return_type = "Promise<TurnResult>")]
    pub fn resume_prompt(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "{ signal?: AbortSignal }")] options: JsValue,
    ) -> Promise {
        let inner = self.inner.clone();
        promised(signal_of(&options).map(|abort| async move {
            let report = inner.resume_prompt(&abort.signal).await;
            drop(abort);
            Ok(report_to_js(&report?))
        }))
    }

    /// Ends a turn that a restart cut off: open calls are answered as interrupted.
    #[wasm_bindgen(unchecked_return_type = "Promise<TurnResult>")]
    pub fn abandon(&self) -> Promise {
        let inner = self.inner.clone();
        promised(Ok(async move { Ok(report_to_js(&inner.abandon().await?)) }))
    }

    /// Lets a summary stand for older turns, between turns, and saves that. What is summarised is what the model sees of them, the
    /// summary before this one first. `keepRecentTokens` is about how many tokens of the latest turns stay, by default a quarter of
    /// what the model takes; the newest turn always stays. `summarize` is by default the runtime's. `abort()` stops it.
    ///
    /// Rejects, and changes nothing, with `nothing_to_compact` where everything stays, with `host_failed` where `summarize` throws,
    /// or gives something else than a text, a blank one, or one that is no shorter than what it stands for, and with `aborted`.
    /// Where it cannot be saved it rejects with the storage's error: the summary is shown then, and `flush()` saves it.
    #[wasm_bindgen(unchecked_return_type = "Promise<CompactionCheckpoint>")]
    pub fn compact(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "CompactOptions")] options: JsValue,
    ) -> Promise {
        let inner = self.inner.clone();
        let options = Foreign::options(&options, "options").and_then(|options| {
            let Some(options) = options else {
                return Ok((None, None));
            };
            let keep = options.get("keepRecentTokens")?;
            let keep = keep.map(|keep| integer(&keep, "options.keepRecentTokens"));
            Ok((keep.transpose()?, JsSummarizer::of(&options)?))
        });
        promised(
            options
                .map(|(keep, summarizer)| async move { Ok(to_js(&inner.compact(keep, summarizer).await?)) }),
        )
    }

    /// Stops the running turn or compaction, and resolves when it is over. Does nothing where none runs.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn abort(&self) -> Promise {
        let inner = self.inner.clone();
        // Nothing starts any more once this was called. What was called just before has not begun yet, and is stopped then.
        inner.stop();
        promised(Ok(async move {
            inner.abort().await;
            Ok(JsValue::UNDEFINED)
        }))
    }

    /// Saves what is pending, without a call of the model or a tool.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn flush(&self) -> Promise {
        let inner = self.inner.clone();
        promised(Ok(async move {
            inner.flush().await?;
            Ok(JsValue::UNDEFINED)
        }))
    }

    /// Shows what is stored. `pending` says what becomes of commits that could not be saved: `fork` makes them a new session,
    /// behind what was saved before them, and `forked` is its id; `discard` drops them. Without it a pending save refuses.
    #[wasm_bindgen(unchecked_return_type = "Promise<{ forked?: string }>")]
    pub fn reload(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "{ pending?: \"fork\" | \"discard\" }")]
        options: JsValue,
    ) -> Promise {
        let inner = self.inner.clone();
        let pending = json_in(&options, "options").and_then(|options| {
            if options.is_null() {
                return Ok(None);
            }
            let mut options = Reader::new(&options, "options");
            let pending = options.read("pending");
            options.finish(pending)
        });
        promised(pending.map(|pending| async move {
            let forked = inner.reload(pending).await?;
            let members = forked.map(|id| ("forked", JsValue::from_str(&id)));
            Ok(object(members.as_slice()))
        }))
    }

    /// What a person calls the session.
    #[wasm_bindgen(js_name = "setTitle", unchecked_return_type = "Promise<void>")]
    pub fn set_title(&self, #[wasm_bindgen(unchecked_param_type = "string")] title: JsValue) -> Promise {
        let inner = self.inner.clone();
        promised(text(&title, "title").map(|title| async move {
            inner.set_title(title).await?;
            Ok(JsValue::UNDEFINED)
        }))
    }

    /// Whether a person pinned it.
    #[wasm_bindgen(js_name = "setPinned", unchecked_return_type = "Promise<void>")]
    pub fn set_pinned(&self, #[wasm_bindgen(unchecked_param_type = "boolean")] pinned: JsValue) -> Promise {
        let inner = self.inner.clone();
        let pinned = pinned
            .as_bool()
            .ok_or_else(|| Error::invalid("`pinned` must be true or false"));
        promised(pinned.map(|pinned| async move {
            inner.set_pinned(pinned).await?;
            Ok(JsValue::UNDEFINED)
        }))
    }

    /// A person has seen this many messages. Says whether that is more than before.
    #[wasm_bindgen(js_name = "markRead", unchecked_return_type = "Promise<boolean>")]
    pub fn mark_read(
        &self,
        #[wasm_bindgen(js_name = "messageCount", unchecked_param_type = "number")] message_count: JsValue,
    ) -> Promise {
        let inner = self.inner.clone();
        promised(
            integer(&message_count, "messageCount")
                .map(|count| async move { Ok(inner.mark_read(count).await?.into()) }),
        )
    }

    /// The typed text of each actual user message from `state.loadedFrom` on, oldest first. Where that is not 0, which only a
    /// compacted session of over 1,000 messages that was opened again has, `readMessages` reads those before it.
    #[wasm_bindgen(js_name = "titleInputs", unchecked_return_type = "string[]")]
    pub fn title_inputs(&self) -> JsValue {
        list(self.inner.machine().title_inputs())
    }

    /// Calls `listener` with what happens to the session. Returns a function that ends it.
    #[wasm_bindgen(unchecked_return_type = "() => void")]
    pub fn subscribe(
        &self,
        #[wasm_bindgen(unchecked_param_type = "(event: SessionEvent) => void")] listener: JsValue,
    ) -> Result<JsValue> {
        let function = callback(listener)?;
        let errors = self.inner.listener_errors();
        let number = self
            .inner
            .subscribe(host::listener(function, errors, event_to_js));
        let inner = self.inner.clone();
        Ok(Closure::<dyn Fn()>::new(move || inner.unsubscribe(number)).into_js_value())
    }

    /// Lets go of the session, once what is on its way is saved. Refused while a turn runs or a save is pending. A turn that was cut
    /// off stays, with its approvals, for whoever opens the session again.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn dispose(&self) -> Promise {
        let inner = self.inner.clone();
        promised(Ok(async move {
            inner.at_rest().await;
            inner.dispose()?;
            Ok(JsValue::UNDEFINED)
        }))
    }
}

/// Copies what was typed and reads the options, before anything else happens.
/// The signal among options.
pub(super) fn signal_of(given: &JsValue) -> Result<Abort> {
    match Foreign::options(given, "options")? {
        Some(given) => match given.object("signal")? {
            Some(signal) => Abort::of(&signal),
            None => Ok(Abort::default()),
        },
        None => Ok(Abort::default()),
    }
}

fn prompt_arguments(content: &JsValue, given: &JsValue) -> Result<(JsValue, PromptOptions, Abort)> {
    let content = message_in(content, "content")?;
    let mut options = PromptOptions::default();
    let mut abort = Abort::default();
    if let Some(given) = Foreign::options(given, "options")? {
        if let Some(skills) = given.get("skills")? {
            options.skills = FromJson::from_json(&json_in(&skills, "options.skills")?, "options.skills")?;
        }
        options.mentions = given.flag("mentions")?.unwrap_or(options.mentions);
        if let Some(signal) = given.object("signal")? {
            abort = Abort::of(&signal)?;
        }
    }
    options.abort = abort.signal.clone();
    Ok((content, options, abort))
}

fn run_context_of(machine: &Machine<JsValue>) -> JsValue {
    to_js(&machine.run_context().cloned().to_json())
}

pub(super) fn optional(value: Option<JsValue>) -> JsValue {
    value.unwrap_or(JsValue::UNDEFINED)
}

pub(super) fn integer(value: &JsValue, name: &str) -> Result<u32> {
    let number = value
        .number()
        .filter(|number| number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(number));
    let number = number.ok_or_else(|| field_error(name, "must be an integer from 0 up"))?;
    Ok(number as u32)
}

/// How a turn ended, as JavaScript sees it. Absent members are absent.
pub(super) fn report_to_js(report: &TurnReport) -> JsValue {
    let mut members = vec![("outcome", to_js(&report.end.outcome))];
    if let Some(text) = &report.end.error {
        members.push(("error", JsValue::from_str(text)));
    }
    members.push(("saved", report.saved.into()));
    if let Some(error) = &report.save_error {
        members.push(("saveError", JsValue::from(error.clone())));
    }
    if !report.degraded.is_empty() {
        let places = report.degraded.iter().map(|place| {
            object(&[
                ("messageIndex", place.message_index.0.into()),
                ("path", JsValue::from_str(&place.path)),
            ])
        });
        members.push(("degraded", list(places)));
    }
    object(&members)
}

fn event_to_js(event: &SessionEvent<JsValue>) -> JsValue {
    let kind = |name: &str| ("type", JsValue::from_str(name));
    match event {
        SessionEvent::TurnStarted { user_turn } => {
            object(&[kind("turn-start"), ("userTurn", user_turn.0.into())])
        }
        SessionEvent::Message {
            message_index,
            message,
        } => object(&[
            kind("message"),
            ("messageIndex", message_index.0.into()),
            ("message", copy_out(message)),
        ]),
        SessionEvent::Update { message } => object(&[kind("update"), ("message", copy_out(message))]),
        SessionEvent::Budget { budget } => object(&[kind("budget"), ("budget", to_js(budget))]),
        SessionEvent::TurnEnded { report } => object(&[kind("turn-end"), ("result", report_to_js(report))]),
        SessionEvent::ApprovalAsked { request_id } => object(&[
            kind("approval-requested"),
            ("requestId", JsValue::from_str(request_id)),
        ]),
        SessionEvent::ApprovalAnswered { result } => {
            object(&[kind("approval-resolved"), ("result", result_to_js(result))])
        }
        SessionEvent::CompactionStarted { first_kept } => object(&[
            kind("compaction-start"),
            ("firstKeptMessageIndex", first_kept.0.into()),
        ]),
        SessionEvent::CompactionEnded { compaction } => {
            object(&[kind("compaction-end"), ("compaction", to_js(compaction))])
        }
        SessionEvent::CompactionFailed { error } => {
            object(&[kind("compaction-failed"), ("error", JsValue::from(error.clone()))])
        }
        SessionEvent::SettingsChanged => object(&[kind("settings")]),
        SessionEvent::Reloaded => object(&[kind("reloaded")]),
        SessionEvent::Saved => object(&[kind("saved")]),
        SessionEvent::SaveFailed { error } => {
            object(&[kind("save-failed"), ("error", JsValue::from(error.clone()))])
        }
    }
}

/// Messages of a turn, in order; what cannot be stored in them becomes null.
pub(super) fn messages_in(messages: &Array) -> Result<Vec<Incoming<JsValue>>> {
    let given = messages.iter().enumerate();
    given
        .map(|(at, message)| plain::incoming(&message, &format!("messages[{at}]")))
        .try_listed()
}
