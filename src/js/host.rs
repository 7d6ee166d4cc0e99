//! What a host brings, as the shell knows it: clock, ids, model client and tools.

use std::rc::Rc;

use js_sys::{Array, Date, Function, Promise, Reflect};
use wasm_bindgen::{
    closure::Closure,
    prelude::{JsCast, JsValue, wasm_bindgen},
};
use wasm_bindgen_futures::{JsFuture, spawn_local};

use super::plain::{self, copy_out, error_text, list, object, to_js};
use crate::{
    Error, Result,
    list::Listed,
    message::{Kind, MessageView},
    runtime::{Listener, Model, OnUpdate, Signal, Tools, World},
    session::{Incoming, ModelRef, ModelRequest, RequestReport, ToolCall, ToolDeclaration},
    storage::LocalFuture,
    untyped::field_error,
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

type TextResult<T> = std::result::Result<T, String>;

/// The caller's `AbortSignal` as a signal of ours.
///
/// # Errors
/// `invalid_argument` where it is no `AbortSignal`.
pub(super) fn abort_of(signal: &JsValue) -> Result<Signal> {
    let abort = Signal::default();
    if signal.is_undefined() || signal.is_null() {
        return Ok(abort);
    }
    let listen = method(signal, "addEventListener")
        .ok_or_else(|| field_error("signal", "must be an `AbortSignal`"))?;
    if get(signal, "aborted").is_truthy() {
        abort.fire();
        return Ok(abort);
    }
    let fired = abort.clone();
    let listener = Closure::<dyn Fn()>::new(move || fired.fire()).into_js_value();
    listen
        .call3(
            signal,
            &JsValue::from_str("abort"),
            &listener,
            &object(&[("once", JsValue::TRUE)]),
        )
        .map_err(|error| Error::invalid(format!("`signal` cannot be used: {}", error_text(&error))))?;
    Ok(abort)
}

/// An `AbortSignal` that fires with ours.
fn abort_signal(abort: &Signal) -> JsValue {
    let controller = AbortController::new();
    let signal = controller.signal();
    abort.on_fire(move || controller.abort());
    signal
}

/// A member of an object of the host; whatever goes wrong, it is not there.
pub(super) fn get(target: &JsValue, name: &str) -> JsValue {
    if !target.is_object() && !target.is_function() {
        return JsValue::UNDEFINED;
    }
    Reflect::get(target, &JsValue::from_str(name)).unwrap_or(JsValue::UNDEFINED)
}

/// A method of an object of the host.
pub(super) fn method(target: &JsValue, name: &str) -> Option<Function> {
    get(target, name).dyn_into().ok()
}

/// Waits for what a callback of the host returned, a promise or not.
async fn settled(returned: std::result::Result<JsValue, JsValue>) -> TextResult<JsValue> {
    let value = returned.map_err(|error| error_text(&error))?;
    JsFuture::from(Promise::resolve(&value))
        .await
        .map_err(|error| error_text(&error))
}

/// Clock and ids. A clock of the host that throws, or gives no number, is replaced by the machine's.
pub(super) struct JsWorld {
    pub(super) now: Option<Function>,
}

impl World for JsWorld {
    fn now(&self) -> f64 {
        let given = self
            .now
            .as_ref()
            .and_then(|now| now.call0(&JsValue::UNDEFINED).ok())
            .and_then(|it| it.as_f64());
        let time = given
            .filter(|time| time.is_finite() && *time >= 0.0)
            .unwrap_or_else(Date::now);
        time.floor()
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

    fn spawn(&self, future: LocalFuture<'static, ()>) {
        spawn_local(future);
    }
}

/// 122 random bits as a UUID, version 4.
fn uuid_v4(bytes: [u8; 16]) -> String {
    let number = u128::from_be_bytes(bytes) & !(0xf << 76 | 0x3 << 62) | (0x4 << 76 | 0x2 << 62);
    let hex = format!("{number:032x}");
    let mut text = String::with_capacity(36);
    for (at, digit) in hex.chars().enumerate() {
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
        ("messages", list(request.messages.iter().map(copy_out))),
        ("tools", list(request.tools.iter().cloned())),
    ])
}

/// The host's model client.
pub(super) struct JsModel {
    client: JsValue,
    complete: Function,
}

impl JsModel {
    /// Reads the option `model`.
    ///
    /// # Errors
    /// `invalid_argument` where it has no `complete`.
    pub(super) fn new(client: JsValue) -> Result<Self> {
        let complete = method(&client, "complete").ok_or_else(|| {
            Error::invalid("`model` must have a method `complete`").with("field", "model.complete")
        })?;
        Ok(Self { client, complete })
    }
}

impl Model<JsValue> for JsModel {
    fn check(&self, model: Option<ModelRef>) -> LocalFuture<'_, TextResult<()>> {
        Box::pin(async move {
            let Some(check) = method(&self.client, "check") else {
                return Ok(());
            };
            let model = model.map_or(JsValue::UNDEFINED, |model| to_js(&model));
            settled(check.call1(&self.client, &model)).await.map(|_| ())
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
                ("report", to_js(&report)),
            ]);
            let answer = self
                .complete
                .call2(&self.client, &request_to_js(&request), &options);
            let message = settled(answer).await?;
            plain::incoming(&message, "message").map_err(|error| error.to_string())
        })
    }
}

/// The host's tools.
#[derive(Default)]
pub(super) struct JsTools {
    tools: Vec<JsTool>,
}

struct JsTool {
    tool: JsValue,
    declared: ToolDeclaration<JsValue>,
    execute: Option<Function>,
    working_directory: String,
}

impl JsTools {
    /// Reads the option `tools`.
    ///
    /// # Errors
    /// `invalid_argument` that names the field.
    pub(super) fn new(tools: &JsValue, working_directory: &str) -> Result<Self> {
        if tools.is_undefined() || tools.is_null() {
            return Ok(Self::default());
        }
        let Some(given) = tools.dyn_ref::<Array>() else {
            return Err(field_error("tools", "must be a list of tools"));
        };
        let mut tools: Vec<JsTool> = Vec::new();
        for (at, tool) in given.iter().enumerate() {
            let path = format!("tools[{at}]");
            let declared = declaration(&tool, &path)?;
            if tools.iter().any(|other| other.declared.name == declared.name) {
                let text = format!(
                    "`{path}.name` is `{}`, which another tool has; names must differ",
                    declared.name
                );
                return Err(Error::invalid(text).with("field", format!("{path}.name")));
            }
            let execute = method(&tool, "execute");
            tools.push(JsTool {
                tool,
                declared,
                execute,
                working_directory: working_directory.to_owned(),
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
fn declaration(tool: &JsValue, path: &str) -> Result<ToolDeclaration<JsValue>> {
    let wrong = |name: &str, text: &str| {
        let field = format!("{path}.{name}");
        Err(Error::invalid(format!("`{field}` {text}")).with("field", field))
    };
    let Some(name) = get(tool, "name").text().filter(|name| !name.trim().is_empty()) else {
        return wrong("name", "must be a text that is not blank");
    };
    let access = get(tool, "access");
    let known = ["read", "write", "execute", "network", "none"];
    let access = match access.text() {
        _ if access.is_undefined() => None,
        Some(text) if known.contains(&text.as_str()) => Some(text),
        _ => {
            return wrong(
                "access",
                "must be `read`, `write`, `execute`, `network`, `none` or absent",
            );
        }
    };
    let paths = get(tool, "paths");
    if access.as_deref() == Some("none") && paths.dyn_ref::<Array>().is_some_and(|paths| paths.length() > 0) {
        return wrong("paths", "must be absent where `access` is `none`");
    }
    let mut members = vec![("name", JsValue::from_str(&name))];
    let description = get(tool, "description");
    if !description.is_undefined() {
        if description.kind() != Kind::String {
            return wrong("description", "must be a text");
        }
        members.push(("description", description));
    }
    let parameters = get(tool, "parameters");
    if !parameters.is_undefined() {
        members.push((
            "parameters",
            plain::metadata_in(&parameters, &format!("{path}.parameters"))?,
        ));
    }
    let declaration = object(&members);
    let json = plain::json_text(&declaration);
    Ok(ToolDeclaration {
        name,
        declaration,
        json,
        access_none: access.as_deref() == Some("none"),
    })
}

impl Tools<JsValue> for JsTools {
    fn run(&self, call: ToolCall<JsValue>, abort: Signal) -> LocalFuture<'_, TextResult<Incoming<JsValue>>> {
        Box::pin(async move {
            let tool = self.tools.iter().find(|tool| tool.declared.name == call.name);
            let Some((tool, execute)) = tool.and_then(|tool| tool.execute.as_ref().map(|run| (tool, run)))
            else {
                return Err(format!(
                    "the tool `{}` cannot be run here: it has no `execute`",
                    call.name
                ));
            };
            let context = object(&[
                ("signal", abort_signal(&abort)),
                ("workingDirectory", JsValue::from_str(&tool.working_directory)),
            ]);
            let returned = execute.call2(&tool.tool, &copy_out(&call.arguments), &context);
            let value = settled(returned).await?;
            // A tool that answers nothing has an empty result.
            let value = if value.is_undefined() {
                JsValue::NULL
            } else {
                value
            };
            plain::incoming(&value, "result").map_err(|error| error.to_string())
        })
    }
}

/// What a listener of the host throws, as text.
pub(super) fn listener<E: 'static>(
    listener: Function,
    to_js: impl Fn(&E) -> JsValue + 'static,
) -> Listener<E> {
    Rc::new(
        move |event| match listener.call1(&JsValue::UNDEFINED, &to_js(event)) {
            Ok(_) => Ok(()),
            Err(error) => Err(error_text(&error)),
        },
    )
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

/// The options a caller gave, if any.
///
/// # Errors
/// `invalid_argument` where options are given that are no object.
pub(super) fn options(given: &JsValue, name: &str) -> Result<Option<JsValue>> {
    if given.is_undefined() || given.is_null() {
        return Ok(None);
    }
    if !given.is_object() {
        return Err(field_error(name, "must be an object"));
    }
    Ok(Some(given.clone()))
}
