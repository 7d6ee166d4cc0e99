//! `Runtime.fetch`: requests and answers as JavaScript has them. Nothing is decided here.

use std::rc::Rc;

use js_sys::{Array, Function};
use serde_json::Value;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::{
    foreign::{Abort, Foreign},
    json::json,
    plain::{bytes_in, error_text, object},
    transfer::{TEXTS, js_open},
};
use crate::{
    Error, ErrorCode, Result,
    http::{Answer, Asked, Body, read_body, take},
    runtime::Runtime,
    untyped::field_error,
};

#[wasm_bindgen(module = "/src/js/http.js")]
extern "C" {
    #[wasm_bindgen(catch, js_name = "parts")]
    fn js_parts(request: &JsValue) -> std::result::Result<Array, JsValue>;
    #[wasm_bindgen(js_name = "response")]
    fn js_response(status: u16, allow: Option<String>, text: Option<String>) -> JsValue;
}

/// The host's `authorize`, and the options that it is a member of.
pub(super) type Authorize = Rc<(Foreign, Function)>;

/// What a request comes to.
///
/// # Errors
/// `invalid_argument` for what is no `Request`: whatever a client sends is answered.
pub(super) async fn fetched(
    runtime: &Rc<Runtime<JsValue>>,
    authorize: Option<Authorize>,
    request: &JsValue,
) -> Result<JsValue> {
    let none = |_| field_error("request", "must be a `Request`");
    let parts = js_parts(request).map_err(none)?;
    let request = Foreign::new(request, "request")?;
    let abort = match request.object("signal")? {
        Some(signal) => Abort::of(&signal)?,
        None => Abort::default(),
    };
    let answer = answer(runtime, authorize, &request, &parts, &abort).await;
    let Answer { status, allow, body } = answer.unwrap_or_else(|refused| refused);
    Ok(js_response(status, allow, body.as_ref().map(json)))
}

async fn answer(
    runtime: &Rc<Runtime<JsValue>>,
    authorize: Option<Authorize>,
    request: &Foreign,
    parts: &Array,
    abort: &Abort,
) -> Result<Answer, Answer> {
    // Who lets nobody in says nothing more.
    let authorize = authorize.ok_or_else(Answer::unauthorized)?;
    let part = |at| parts.get(at).as_string();
    let asked = Asked::of(&part(0).unwrap_or_default(), &part(1).unwrap_or_default())?;
    let body = abort.signal.unless_fired(async {
        if !is_authorized(runtime, &authorize, request, &asked).await {
            return Err(Answer::unauthorized());
        }
        if asked.route.body == Body::Nothing {
            return Ok(Value::Null);
        }
        asked.check_type(part(2).as_deref())?;
        Ok(read_body(body_of(request).await?, &TEXTS)?)
    });
    // From here on it is done, whoever goes away.
    let body = body
        .await
        .unwrap_or_else(|| Err(gone("the request was aborted; nothing was changed")))?;
    Ok(asked.answer(runtime.perform(&asked, body, &TEXTS).await?))
}

/// What the host's `authorize` throws is for the host alone.
async fn is_authorized(
    runtime: &Runtime<JsValue>,
    authorize: &(Foreign, Function),
    request: &Foreign,
    asked: &Asked,
) -> bool {
    let string = JsValue::from_str;
    let mut operation = vec![
        ("operation", string(asked.route.name)),
        ("method", string(asked.route.method)),
        ("route", string(asked.route.path)),
    ];
    operation.extend(asked.ids.iter().map(|(name, id)| (*name, string(id))));
    let (options, function) = authorize;
    match options
        .call(function, &[request.value(), object(&operation)])
        .await
    {
        Ok(said) => said == JsValue::TRUE,
        Err(error) => {
            let text = format!("`authorize` failed: {}", error_text(&error));
            runtime.listener_errors().add(text);
            false
        }
    }
}

/// The bytes of a body. One that is too long is not read further, and not cancelled: on some servers nobody would be answered then.
async fn body_of(request: &Foreign) -> Result<Vec<u8>, Answer> {
    let mut body = Vec::new();
    let Some(stream) = request.get("body")? else {
        return Ok(body);
    };
    let locked = |_| {
        let text = "the body was read before; let `authorize` read a `request.clone()`";
        Error::new(ErrorCode::HostFailed, text)
    };
    let reader = Foreign::new(&js_open(&stream).map_err(locked)?, "request.body")?;
    let next = reader.needs("next")?;
    loop {
        let part = reader.call(&next, &[]).await;
        let part = part.map_err(|_| gone("the body broke off; nothing was changed"))?;
        if part.is_undefined() {
            return Ok(body);
        }
        let bytes = bytes_in(&part, "request.body")?;
        take(
            &mut body,
            &bytes.ok_or_else(|| field_error("request.body", "must be a stream of bytes"))?,
        )?;
    }
}

fn gone(what: &str) -> Answer {
    Error::new(ErrorCode::Aborted, what).into()
}
