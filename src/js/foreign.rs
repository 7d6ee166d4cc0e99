//! Objects that somebody else made and that stay theirs: options, models, tools, signals. Looking at a member may run
//! foreign code, which may throw; that is an error like any other.

use js_sys::{Function, Promise, Reflect};
use wasm_bindgen::{
    closure::Closure,
    prelude::{JsCast, JsValue, wasm_bindgen},
};
use wasm_bindgen_futures::JsFuture;

use super::plain::{error_text, object};
use crate::{Error, Result, message::MessageView, runtime::Signal, untyped::field_error};

#[wasm_bindgen(module = "/src/js/plain.js")]
extern "C" {
    #[wasm_bindgen(js_name = "isRecord")]
    fn js_is_record(value: &JsValue) -> bool;
    #[wasm_bindgen(js_name = "listLength")]
    fn js_list_length(value: &JsValue) -> f64;
    #[wasm_bindgen(js_name = "settled")]
    fn js_settled(target: &JsValue, method: &Function, arguments: &JsValue) -> Promise;
}

/// An object of the caller's, and what the caller calls it.
#[derive(Clone, Debug)]
pub(super) struct Foreign {
    object: JsValue,
    path: String,
}

impl Foreign {
    /// An object or a function.
    ///
    /// # Errors
    /// `invalid_argument` where it is neither.
    pub(super) fn new(value: &JsValue, path: &str) -> Result<Self> {
        if !value.is_object() && !value.is_function() {
            return Err(field_error(path, "must be an object"));
        }
        Ok(Self {
            object: value.clone(),
            path: path.to_owned(),
        })
    }

    /// An object of named members, which a list, a `Map` or the like is not.
    ///
    /// # Errors
    /// `invalid_argument`.
    pub(super) fn record(value: &JsValue, path: &str) -> Result<Self> {
        if !js_is_record(value) {
            return Err(field_error(path, "must be an object of named members"));
        }
        Self::new(value, path)
    }

    /// Options that may be absent.
    ///
    /// # Errors
    /// `invalid_argument`.
    pub(super) fn options(value: &JsValue, path: &str) -> Result<Option<Self>> {
        if value.is_undefined() || value.is_null() {
            return Ok(None);
        }
        Self::record(value, path).map(Some)
    }

    /// The object itself.
    pub(super) fn value(&self) -> JsValue {
        self.object.clone()
    }

    /// What the caller calls it.
    pub(super) fn name(&self) -> &str {
        &self.path
    }

    /// What a member is called.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }

    /// A member that is there and not null.
    ///
    /// # Errors
    /// `invalid_argument` where it cannot be read.
    pub(super) fn get(&self, name: &str) -> Result<Option<JsValue>> {
        let value = self.get_as_is(name)?;
        Ok((!value.is_undefined() && !value.is_null()).then_some(value))
    }

    /// A member, whatever it is.
    ///
    /// # Errors
    /// `invalid_argument` where it cannot be read.
    pub(super) fn get_as_is(&self, name: &str) -> Result<JsValue> {
        read(&self.object, &JsValue::from_str(name), &self.path(name))
    }

    /// A member that is an object or a function.
    ///
    /// # Errors
    /// `invalid_argument`.
    pub(super) fn object(&self, name: &str) -> Result<Option<Self>> {
        self.get(name)?
            .map(|value| Self::new(&value, &self.path(name)))
            .transpose()
    }

    /// A member that is a function.
    ///
    /// # Errors
    /// `invalid_argument`.
    pub(super) fn method(&self, name: &str) -> Result<Option<Function>> {
        let value = self.get(name)?;
        value
            .map(|value| {
                value
                    .dyn_into()
                    .map_err(|_| self.wrong(name, "must be a function"))
            })
            .transpose()
    }

    /// A member that has to be a function.
    ///
    /// # Errors
    /// `invalid_argument`.
    pub(super) fn needs(&self, name: &str) -> Result<Function> {
        self.method(name)?
            .ok_or_else(|| self.wrong(name, "must be a function"))
    }

    /// A member that is a text.
    ///
    /// # Errors
    /// `invalid_argument`.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>> {
        self.get(name)?
            .map(|value| text(&value, &self.path(name)))
            .transpose()
    }

    /// A member that is true or false.
    ///
    /// # Errors
    /// `invalid_argument`.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>> {
        let value = self.get(name)?;
        value
            .map(|value| {
                value
                    .as_bool()
                    .ok_or_else(|| self.wrong(name, "must be true or false"))
            })
            .transpose()
    }

    /// An error about a member.
    pub(super) fn wrong(&self, name: &str, problem: &str) -> Error {
        field_error(&self.path(name), problem)
    }

    /// Calls a method of the object that answers at once.
    pub(super) fn call_now(
        &self,
        method: &Function,
        arguments: &[JsValue],
    ) -> std::result::Result<JsValue, JsValue> {
        let given = js_sys::Array::new();
        for argument in arguments {
            given.push(argument);
        }
        method.apply(&self.object, &given)
    }

    /// Calls a method of the object and waits for what it returns, a promise or not.
    pub(super) async fn call(
        &self,
        method: &Function,
        arguments: &[JsValue],
    ) -> std::result::Result<JsValue, JsValue> {
        let given = js_sys::Array::new();
        for argument in arguments {
            given.push(argument);
        }
        // A promise of our own: one of the host's may have a `then` of any kind.
        JsFuture::from(js_settled(&self.object, method, &given)).await
    }
}

fn read(owner: &JsValue, key: &JsValue, path: &str) -> Result<JsValue> {
    Reflect::get(owner, key).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &str, error: &JsValue) -> Error {
    field_error(path, &format!("cannot be read: {}", error_text(error)))
}

/// The length of a list.
///
/// # Errors
/// `invalid_argument` where it is no list.
pub(super) fn length(list: &JsValue, path: &str) -> Result<u32> {
    let length = js_list_length(list);
    if length < 0.0 {
        return Err(field_error(path, "must be a list"));
    }
    Ok(length as u32)
}

/// The items of a list, read one by one, with what each is called.
///
/// # Errors
/// `invalid_argument` where it is no list.
pub(super) fn items<'a>(
    list: &'a JsValue,
    path: &'a str,
) -> Result<impl Iterator<Item = Result<(String, JsValue)>> + 'a> {
    Ok((0..length(list, path)?).map(move |at| {
        let path = format!("{path}[{at}]");
        let item = read(list, &at.into(), &path)?;
        Ok((path, item))
    }))
}

/// A text argument.
pub(super) fn text(value: &JsValue, path: &str) -> Result<String> {
    check_length(value.text_len(), path)?;
    value
        .text()
        .ok_or_else(|| field_error(path, "must be a well-formed text"))
}

/// More than this of one argument would only exhaust the memory.
const MAX_LENGTH: usize = 32 * 1024 * 1024;

/// Refuses what is too long before it is copied.
pub(super) fn check_length(length: usize, path: &str) -> Result<()> {
    if length > MAX_LENGTH {
        return Err(field_error(path, "is larger than 32 MiB; pass less"));
    }
    Ok(())
}

/// A text argument that may be absent.
pub(super) fn optional_text(value: &JsValue, path: &str) -> Result<Option<String>> {
    if value.is_undefined() || value.is_null() {
        Ok(None)
    } else {
        text(value, path).map(Some)
    }
}

/// A function argument.
pub(super) fn callback(value: JsValue) -> Result<Function> {
    value
        .dyn_into()
        .map_err(|_| field_error("listener", "must be a function"))
}

/// The caller's `AbortSignal` as a signal of ours. It stops listening when it is dropped: the caller's may live long.
#[derive(Debug, Default)]
pub(super) struct Abort {
    pub(super) signal: Signal,
    listening: Option<(JsValue, Function, JsValue)>,
}

impl Abort {
    /// # Errors
    /// `invalid_argument` where it is no `AbortSignal`.
    pub(super) fn of(signal: &Foreign) -> Result<Self> {
        let none = || field_error(&signal.path, "must be an `AbortSignal`");
        let listen = signal.method("addEventListener")?.ok_or_else(none)?;
        let unlisten = signal.method("removeEventListener")?.ok_or_else(none)?;
        let mut abort = Self::default();
        if signal.flag("aborted")?.ok_or_else(none)? {
            abort.signal.fire();
            return Ok(abort);
        }
        let fired = abort.signal.clone();
        let listener = Closure::<dyn Fn()>::new(move || fired.fire()).into_js_value();
        let (target, event) = (&signal.object, JsValue::from_str("abort"));
        listen
            .call3(target, &event, &listener, &object(&[("once", JsValue::TRUE)]))
            .map_err(|error| field_error(&signal.path, &format!("cannot be used: {}", error_text(&error))))?;
        abort.listening = Some((target.clone(), unlisten, listener));
        Ok(abort)
    }
}

impl Drop for Abort {
    fn drop(&mut self) {
        if let Some((target, unlisten, listener)) = self.listening.take() {
            // Should it throw, it goes on listening, to nobody.
            let _thrown = unlisten.call2(&target, &JsValue::from_str("abort"), &listener);
        }
    }
}

/// What a tool's `extractPaths` says of arguments. It must answer at once.
///
/// # Errors
/// `host_failed` where it throws.
pub(super) fn found_paths(tool: &Foreign, extract: &Function, arguments: &JsValue) -> Result<JsValue> {
    let failed = |why: &str| {
        let text = format!("`extractPaths` of a tool failed: {why}");
        Error::new(crate::ErrorCode::HostFailed, text)
    };
    let found = extract
        .call1(&tool.object, arguments)
        .map_err(|error| failed(&error_text(&error)))?;
    // Nothing is no list: a tool that looked and found no path says so by an empty one.
    if found.is_undefined() || found.is_null() {
        return Err(failed("it gave nothing; return a list"));
    }
    Ok(found)
}
