//! What a host brings, as the shell knows it: clock, ids, model client and tools.

use std::rc::Rc;

use js_sys::{Date, Function, Promise};
use wasm_bindgen::{
    closure::Closure,
    prelude::{JsValue, wasm_bindgen},
};
use wasm_bindgen_futures::{JsFuture, spawn_local};

use super::{
    foreign::{self, Foreign},
    plain::{self, copy_out, error_text, error_value, hear, lazily, list, object, to_js},
};
use crate::{
    Result,
    context::Summary,
    list::{Listed, hex},
    paths::{AbsolutePath, PathStyle},
    permissions::{PathRequest, ResolvedPath, ToolPolicy, definition_digest, extracted},
    runtime::{
        Host, Listener, ListenerErrors, Model, OnUpdate, Signal, Summarizer, ToolContext, Tools, World,
    },
    session::{Incoming, ModelRef, ModelRequest, RequestReport, ToolCall, ToolDeclaration},
    storage::LocalFuture,
    untyped::{FromJson, field_error},
};

#[wasm_bindgen]
extern "C" {
    type AbortController;
    #[wasm_bindgen(constructor)]
    fn new() -> AbortController;
    #[wasm_bindgen(method, getter)]
    fn signal(this: &AbortController) -> JsValue;
    #[wasm_bindgen(method)]
    fn abort(this: &AbortController);
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(catch, js_name = "setTimeout")]
    fn set_timeout(then: &JsValue, milliseconds: u32) -> std::result::Result<JsValue, JsValue>;
    #[wasm_bindgen(js_name = "clearTimeout")]
    fn clear_timeout(timer: &JsValue);
}

/// Fires a signal after a time. Dropped before, it is taken back: a timer that runs on would keep a process of Node alive.
pub(crate) struct Timer {
    id: JsValue,
    _fires: Closure<dyn Fn()>,
}

impl Timer {
    /// Begins. Where there are no timers it never fires.
    pub(crate) fn new(milliseconds: u32, signal: &Signal) -> Self {
        let fired = signal.clone();
        let fires = Closure::<dyn Fn()>::new(move || fired.fire());
        Self {
            id: set_timeout(fires.as_ref(), milliseconds).unwrap_or_default(),
            _fires: fires,
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        clear_timeout(&self.id);
    }
}

/// Milliseconds from one look to the next at what other pages have answered.
const A_WHILE: u32 = 1_000;

type TextResult<T> = std::result::Result<T, String>;

/// An `AbortSignal` that fires with ours.
fn abort_signal(abort: &Signal) -> JsValue {
    let controller = AbortController::new();
    let signal = controller.signal();
    abort.on_fire(move || controller.abort());
    signal
}

/// The last time that a calendar of JavaScript has.
const LAST: f64 = 8.64e15;

/// Clock and ids. A clock of the host that throws, or gives no time, is replaced by the machine's.
pub(super) struct JsWorld {
    pub(super) now: Option<Function>,
}

/// What the host's `countTokens` says of a text.
///
/// # Errors
/// `invalid_argument` where it throws, or gives anything but a whole number from 0 up.
pub(super) fn counted(count: &Function, text: &JsValue) -> Result<u32> {
    let wrong = |problem: &str| field_error("options.countTokens", problem);
    let given = count
        .call1(&JsValue::UNDEFINED, text)
        .map_err(|error| wrong(&format!("threw: {}", plain::error_text(&error))))?;
    let whole = |tokens: &f64| tokens.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(tokens);
    match given.as_f64().filter(whole) {
        Some(tokens) => Ok(tokens as u32),
        None => Err(wrong(
            "must return how many tokens a text has, a whole number from 0 up",
        )),
    }
}

impl World for JsWorld {
    fn now(&self) -> f64 {
        let given = self
            .now
            .as_ref()
            .and_then(|now| now.call0(&JsValue::UNDEFINED).ok())
            .and_then(|it| it.as_f64());
        let time = given
            .filter(|time| (0.0..=LAST).contains(time))
            .unwrap_or_else(Date::now);
        time.floor()
    }

    fn monotonic(&self) -> Option<f64> {
        plain::monotonic()
    }

    fn new_id(&self) -> String {
        let mut bytes = [0u8; 16];
        // Every host has a random source; where it fails all the same, time and chance of JavaScript stand in.
        if getrandom::fill(&mut bytes).is_err() {
            for byte in &mut bytes {
                *byte = (js_sys::Math::random() * 256.0) as u8;
            }
        }
        uuid_v4(bytes)
    }

    fn a_while(&self) -> LocalFuture<'static, ()> {
        Box::pin(async {
            let over = Signal::default();
            let _timer = Timer::new(A_WHILE, &over);
            over.fired().await;
        })
    }

    /// On workerd the context of the request that fires it ends with that one, and takes with it whatever went on there: so this waits
    /// for a promise of its own, behind which workerd goes on where it was made.
    fn fired(&self, signal: Signal) -> LocalFuture<'static, ()> {
        let promise = Promise::new(&mut |resolve, _| {
            signal.on_fire(move || drop(resolve.call0(&JsValue::UNDEFINED)));
        });
        let fired = JsFuture::from(promise);
        Box::pin(async move { drop(fired.await) })
    }

    fn spawn(&self, future: LocalFuture<'static, ()>) {
        spawn_local(future);
    }
}

/// 122 random bits as a UUID, version 4.
fn uuid_v4(mut bytes: [u8; 16]) -> String {
    let [_, _, _, _, _, _, version, _, variant, ..] = &mut bytes;
    *version = *version & 0x0f | 0x40;
    *variant = *variant & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (at, digit) in hex(&bytes).chars().enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}

/// A model request as JavaScript sees it: these three members and nothing else.
pub(super) fn request_to_js(request: &ModelRequest<JsValue>) -> JsValue {
    object(&[
        ("systemPrompt", JsValue::from_str(&request.system_prompt)),
        ("messages", request.messages.clone()),
        ("tools", list(request.tools.iter().cloned())),
    ])
}

/// The report of a request, whose map is made when it is read: it is as long as the conversation.
pub(super) fn request_report_to_js(report: RequestReport) -> JsValue {
    let told = to_js(&report);
    lazily(&told, "projection tokens", move || {
        object(&[
            ("projection", to_js(&report.projection())),
            ("tokens", to_js(&report.tokens())),
        ])
    })
}

/// The host's model client.
pub(super) struct JsModel {
    client: Foreign,
    complete: Function,
}

impl JsModel {
    /// Reads the option `model`.
    ///
    /// # Errors
    /// `invalid_argument` where it has no `complete`.
    pub(super) fn new(client: Foreign) -> Result<Self> {
        let complete = client.needs("complete")?;
        Ok(Self { client, complete })
    }
}

impl Model<JsValue> for JsModel {
    fn check(&self, model: Option<ModelRef>) -> LocalFuture<'_, TextResult<()>> {
        Box::pin(async move {
            let check = self.client.method("check").map_err(|error| error.to_string())?;
            let Some(check) = check else {
                return Ok(());
            };
            let model = model.map_or(JsValue::UNDEFINED, |model| to_js(&model));
            let checked = self.client.call(&check, &[model]).await;
            checked.map(|_| ()).map_err(|error| error_text(&error))
        })
    }

    fn complete(
        &self,
        request: ModelRequest<JsValue>,
        report: RequestReport,
        on_update: OnUpdate<JsValue>,
        abort: Signal,
    ) -> LocalFuture<'_, TextResult<Incoming<JsValue>>> {
        Box::pin(async move {
            let take = move |partial: JsValue| -> std::result::Result<(), JsValue> {
                on_update(plain::incoming(&partial, "partial")?)?;
                Ok(())
            };
            let on_update =
                Closure::<dyn Fn(JsValue) -> std::result::Result<(), JsValue>>::new(take).into_js_value();
            let options = object(&[
                ("signal", abort_signal(&abort)),
                ("onUpdate", on_update),
                ("report", request_report_to_js(report)),
            ]);
            let arguments = [request_to_js(&request), options];
            let message = self.client.call(&self.complete, &arguments).await;
            let message = message.map_err(|error| error_text(&error))?;
            plain::incoming(&message, "message").map_err(|error| error.to_string())
        })
    }
}

/// A summariser of the host's: the function, and whose method it is.
pub(super) struct JsSummarizer {
    owner: Foreign,
    summarize: Function,
}

impl JsSummarizer {
    /// The member `summarize`, where it is there.
    ///
    /// # Errors
    /// `invalid_argument` where it is no function.
    pub(super) fn of(owner: &Foreign) -> Result<Option<Rc<dyn Summarizer<JsValue>>>> {
        let made = |summarize| -> Rc<dyn Summarizer<JsValue>> {
            Rc::new(Self {
                owner: owner.clone(),
                summarize,
            })
        };
        Ok(owner.method("summarize")?.map(made))
    }
}

impl Summarizer<JsValue> for JsSummarizer {
    fn summarize(&self, messages: Vec<JsValue>, abort: Signal) -> LocalFuture<'_, TextResult<Summary>> {
        Box::pin(async move {
            let messages = list(messages.iter().map(copy_out));
            let options = object(&[("signal", abort_signal(&abort))]);
            let summary = self.owner.call(&self.summarize, &[messages, options]).await;
            let summary = summary.map_err(|error| error_text(&error))?;
            let read = plain::json_in(&summary, "summary");
            let read = read.and_then(|summary| Summary::from_json(&summary, "summary"));
            read.map_err(|error| error.to_string())
        })
    }
}

/// The host's tools.
#[derive(Default)]
pub(super) struct JsTools {
    tools: Vec<JsTool>,
}

struct JsTool {
    tool: Foreign,
    declared: ToolDeclaration<JsValue>,
    execute: Option<Function>,
    extract: Option<Function>,
}

impl JsTools {
    /// Reads the option `tools`.
    ///
    /// # Errors
    /// `invalid_argument` that names the field.
    pub(super) fn new(given: &JsValue, path: &str) -> Result<Self> {
        let mut tools: Vec<JsTool> = Vec::new();
        for item in foreign::items(given, path)? {
            let (path, item) = item?;
            let tool = Foreign::new(&item, &path)?;
            let declared = declaration(&tool)?;
            if tools.iter().any(|other| other.declared.name == declared.name) {
                let text = format!(
                    "is `{}`, which another tool has; names must differ",
                    declared.name
                );
                return Err(tool.wrong("name", &text));
            }
            tools.push(JsTool {
                execute: tool.method("execute")?,
                extract: tool.method("extractPaths")?,
                tool,
                declared,
            });
        }
        Ok(Self { tools })
    }

    /// What the model is told of them.
    pub(super) fn declarations(&self) -> Vec<ToolDeclaration<JsValue>> {
        self.tools.iter().map(|tool| tool.declared.clone()).listed()
    }
}

/// What the model and the machine need to know of a tool.
fn declaration(tool: &Foreign) -> Result<ToolDeclaration<JsValue>> {
    let name = tool.text("name")?.filter(|name| !name.trim().is_empty());
    let Some(name) = name else {
        return Err(tool.wrong("name", "must be a text that is not blank"));
    };
    let (policy, declared) = tool_policy(tool)?;
    let mut members = vec![("name", JsValue::from_str(&name))];
    if let Some(description) = tool.text("description")? {
        members.push(("description", JsValue::from_str(&description)));
    }
    if let Some(parameters) = tool.get("parameters")? {
        let path = tool.path("parameters");
        members.push(("parameters", plain::metadata_in(&parameters, &path)?));
    }
    let declaration = object(&members);
    let json = plain::json_text(&declaration);
    Ok(ToolDeclaration {
        name,
        declaration: declaration.clone(),
        json,
        digest: definition_digest(&list([declaration.clone(), declared])),
        policy,
    })
}

/// What a tool declares for the gate, and the same as it was declared.
fn tool_policy(tool: &Foreign) -> Result<(ToolPolicy, JsValue)> {
    let mut members = Vec::new();
    for name in ["access", "category", "mcpServer", "paths", "advisory"] {
        members.extend(tool.get(name)?.map(|value| (name, value)));
    }
    let declared = plain::metadata_in(&object(&members), tool.name())?;
    let mut policy = ToolPolicy::from_json(&plain::json_of(&declared), tool.name())?;
    policy.extracts = tool.method("extractPaths")?.is_some();
    policy.check(tool.name())?;
    Ok((policy, declared))
}

impl Tools<JsValue> for JsTools {
    fn found_paths(&self, call: &ToolCall<JsValue>) -> TextResult<Option<Vec<PathRequest>>> {
        let tool = self.tools.iter().find(|tool| tool.declared.name == call.name);
        let Some((tool, extract)) = tool.and_then(|tool| Some((tool, tool.extract.as_ref()?))) else {
            return Ok(None);
        };
        let found = foreign::found_paths(&tool.tool, extract, &copy_out(&call.arguments));
        let found = found.and_then(|found| plain::json_in(&found, "extractPaths"));
        let paths = found.and_then(|found| extracted(&found));
        paths.map(Some).map_err(|error| error.to_string())
    }

    fn run(
        &self,
        call: ToolCall<JsValue>,
        context: ToolContext,
        abort: Signal,
    ) -> LocalFuture<'_, std::result::Result<Incoming<JsValue>, JsValue>> {
        Box::pin(async move {
            let tool = self.tools.iter().find(|tool| tool.declared.name == call.name);
            let Some((tool, execute)) = tool.and_then(|tool| tool.execute.as_ref().map(|run| (tool, run)))
            else {
                let text = format!("the tool `{}` cannot be run here: it has no `execute`", call.name);
                return Err(JsValue::from_str(&text));
            };
            let hidden = context.clone();
            let hidden = move |path: JsValue| path.as_string().is_none_or(|path| hidden.is_hidden(&path));
            let context = object(&[
                ("signal", abort_signal(&abort)),
                ("decision", super::gate::decided_to_js(context.decided)),
                ("workingDirectory", JsValue::from_str(&context.working_directory)),
                (
                    "isHidden",
                    Closure::<dyn Fn(JsValue) -> bool>::new(hidden).into_js_value(),
                ),
            ]);
            let arguments = [copy_out(&call.arguments), context];
            let value = tool.tool.call(execute, &arguments).await;
            // The text stays a value: it may hold half of a surrogate pair.
            let value = value.map_err(|error| error_value(&error))?;
            // A tool that answers nothing has an empty result.
            let value = if value.is_undefined() {
                JsValue::NULL
            } else {
                value
            };
            plain::incoming(&value, "result").map_err(|error| JsValue::from_str(error.message()))
        })
    }
}

/// The host's file system.
pub(super) struct JsHost {
    host: Foreign,
    resolve: Function,
    now: Option<Function>,
    style: PathStyle,
    workspace_root: Option<String>,
}

impl JsHost {
    /// Reads the option `host`; none where it cannot resolve paths.
    ///
    /// # Errors
    /// `invalid_argument` that names the field.
    pub(super) fn new(host: &Foreign) -> Result<Option<Self>> {
        let style = host.get("pathStyle")?.unwrap_or(JsValue::NULL);
        let style = Option::from_json(&plain::json_in(&style, "pathStyle")?, &host.path("pathStyle"))?;
        let style: PathStyle = Option::unwrap_or_default(style);
        let workspace_root = host.text("workspaceRoot")?;
        for (name, path) in [
            ("workspaceRoot", &workspace_root),
            ("dataDir", &host.text("dataDir")?),
        ] {
            let absolute = |path: &String| AbsolutePath::parse(style, path).is_some();
            if !path.as_ref().is_none_or(absolute) {
                return Err(host.wrong(name, "must be an absolute path"));
            }
        }
        let workspace_root = workspace_root.or(host.text("cwd")?);
        let now = host.method("resolvePathsSync")?;
        Ok(host.method("resolvePaths")?.map(|resolve| Self {
            host: host.clone(),
            resolve,
            now,
            style,
            workspace_root,
        }))
    }
}

impl Host for JsHost {
    fn path_style(&self) -> PathStyle {
        self.style
    }

    fn workspace_root(&self) -> Option<String> {
        self.workspace_root.clone()
    }

    fn resolve_now(&self, base: &str, path: &str) -> Option<ResolvedPath> {
        let resolve = self.now.as_ref()?;
        let paths = list([JsValue::from_str(path)]);
        // What cannot be said is not known.
        let unknown = |why: String| Some(ResolvedPath::Unresolved(why));
        let answers = match self.host.call_now(resolve, &[JsValue::from_str(base), paths]) {
            Ok(answers) => answers,
            Err(error) => return unknown(error_text(&error)),
        };
        let answers = plain::json_in(&answers, "resolvePathsSync").unwrap_or_default();
        match ResolvedPath::from_json(answers.get(0).unwrap_or(&serde_json::Value::Null), "answer") {
            Ok(answer) => Some(answer),
            Err(error) => unknown(error.to_string()),
        }
    }

    fn resolve(&self, base: String, paths: Vec<String>) -> LocalFuture<'_, TextResult<Vec<ResolvedPath>>> {
        Box::pin(async move {
            let paths = list(paths.iter().map(|path| JsValue::from_str(path)));
            let answers = self
                .host
                .call(&self.resolve, &[JsValue::from_str(&base), paths])
                .await
                .map_err(|error| error_text(&error))?;
            let answers = plain::json_in(&answers, "resolvePaths").map_err(|error| error.to_string())?;
            // An answer that is none leaves its path unknown, and the others as they are.
            let answer = |answer: &serde_json::Value| {
                ResolvedPath::from_json(answer, "answer").unwrap_or_else(|error| {
                    ResolvedPath::Unresolved(format!("the host gave no answer: {error}"))
                })
            };
            Ok(answers.as_array().into_iter().flatten().map(answer).listed())
        })
    }
}

/// A call as a host with its own loop gives it: arguments that JSON can hold, and nothing else.
///
/// # Errors
/// `invalid_argument` that names the field.
pub(super) fn call_in(given: &JsValue) -> Result<ToolCall<JsValue>> {
    let call = Foreign::record(given, "call")?;
    let text = |name: &str| {
        let text = call.text(name)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| call.wrong(name, "must be a text that is not empty"))
    };
    let arguments = call.get("arguments")?.unwrap_or(JsValue::NULL);
    Ok(ToolCall {
        id: text("toolCallId")?,
        name: text("toolName")?,
        arguments: plain::metadata_in(&arguments, "call.arguments")?,
    })
}

/// A listener of the host. What it throws, and what a promise of it rejects with, becomes a text among `errors`.
pub(super) fn listener<E: 'static>(
    listener: Function,
    errors: ListenerErrors,
    to_js: impl Fn(&E) -> JsValue + 'static,
) -> Listener<E> {
    let failed = adding_to(errors);
    Rc::new(move |event| {
        hear(&listener, &to_js(event), &failed);
        Ok(())
    })
}

/// A function that adds a text. Apart, because it is the same for every type of event.
fn adding_to(errors: ListenerErrors) -> JsValue {
    let add = move |text: JsValue| -> std::result::Result<(), JsValue> {
        errors.add(text.as_string().unwrap_or_default());
        Ok(())
    };
    Closure::<dyn Fn(JsValue) -> std::result::Result<(), JsValue>>::new(add).into_js_value()
}

/// Calls of a model as JavaScript sees them.
pub(super) fn calls_to_js(calls: &[ToolCall<JsValue>]) -> JsValue {
    list(calls.iter().map(|call| {
        object(&[
            ("toolCallId", JsValue::from_str(&call.id)),
            ("toolName", JsValue::from_str(&call.name)),
            ("arguments", copy_out(&call.arguments)),
        ])
    }))
}
