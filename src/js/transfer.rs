//! Session files as JavaScript has them: sources, lines, streams. Nothing is decided here.

use std::{cell::RefCell, rc::Rc};

use js_sys::{Array, Function, Promise};
use serde_json::Value;
use wasm_bindgen::{
    closure::Closure,
    prelude::{JsValue, wasm_bindgen},
};

use super::{
    foreign::{Abort, Foreign},
    host,
    json::json,
    plain::{bytes_in, error_text, iso, json_of, object, to_js},
    promised,
    session::signal_of,
};
use crate::{
    Error, ErrorCode, Result,
    runtime::{Export, ImportOptions, ImportProgress, ListenerErrors, Part, Runtime, Source},
    session::Texts,
    storage::{LocalFuture, SessionRecord},
    untyped::field_error,
};

#[wasm_bindgen(module = "/src/js/transfer.js")]
extern "C" {
    #[wasm_bindgen(catch, js_name = "open")]
    pub(super) fn js_open(source: &JsValue) -> std::result::Result<JsValue, JsValue>;
    #[wasm_bindgen(js_name = "line")]
    fn js_line(text: &str, has_tags: bool) -> Array;
    #[wasm_bindgen(js_name = "lines")]
    fn js_lines(messages: &Array, has_tags: bool) -> JsValue;
    #[wasm_bindgen(js_name = "bytes")]
    fn js_bytes(line: &str) -> JsValue;
    #[wasm_bindgen(js_name = "stream")]
    fn js_stream(next: &JsValue) -> JsValue;
}

/// Texts as the browser reads and writes them.
pub(super) const TEXTS: Texts<JsValue> = Texts {
    read: |text, has_tags| {
        let read = js_line(text, has_tags);
        let members = read.get(1).as_f64()?;
        Some((read.get(0), members as u32))
    },
    value: json_of,
    lists: |stored| {
        [
            json_of(&to_js(&stored.snapshots)),
            json_of(&to_js(&stored.compactions)),
            json_of(&to_js(&stored.checkpoints)),
        ]
    },
    written: |value: &Value| json(value),
    iso: |time| iso(time).as_string().unwrap_or_default(),
};

/// The bytes of a source of the caller's. They are not read further when it is dropped.
struct JsSource {
    reader: Foreign,
    next: Function,
    cancel: Function,
}

impl Source for JsSource {
    fn next(&self) -> LocalFuture<'_, Result<Option<Vec<u8>>>> {
        Box::pin(async move {
            let read = self.reader.call(&self.next, &[]).await.map_err(|error| {
                let text = format!(
                    "the source of the import failed: {}; import it again",
                    error_text(&error)
                );
                Error::new(ErrorCode::HostFailed, text)
            })?;
            if read.is_undefined() {
                return Ok(None);
            }
            let bytes = bytes_in(&read, "source")?;
            let wrong = || {
                field_error(
                    "source",
                    "gave something that is no `Uint8Array`; pass a stream of bytes",
                )
            };
            bytes.map(Some).ok_or_else(wrong)
        })
    }
}

impl Drop for JsSource {
    fn drop(&mut self) {
        drop(self.reader.call_now(&self.cancel, &[]));
    }
}

/// An import that is about to begin.
pub(super) struct Importing {
    source: JsSource,
    options: ImportOptions,
    _abort: Abort,
}

impl Importing {
    /// Reads what the caller gave.
    ///
    /// # Errors
    /// `invalid_argument`.
    pub(super) fn new(source: &JsValue, given: &JsValue, errors: ListenerErrors) -> Result<Self> {
        let abort = signal_of(given)?;
        let mut options = ImportOptions {
            abort: abort.signal.clone(),
            ..ImportOptions::default()
        };
        if let Some(given) = Foreign::options(given, "options")? {
            options.is_new = match given.text("id")?.as_deref() {
                None | Some("keep") => false,
                Some("new") => true,
                Some(_) => return Err(given.wrong("id", "must be `keep` or `new`")),
            };
            let told = |progress: &ImportProgress| {
                object(&[
                    ("bytes", progress.bytes.into()),
                    ("messages", progress.messages.into()),
                ])
            };
            let progress = given.method("onProgress")?;
            options.progress = progress.map(|progress| host::listener(progress, errors, told));
        }
        let reader = js_open(source).map_err(|error| {
            let problem = format!("cannot be read: {}", error_text(&error));
            field_error("source", &problem)
        })?;
        let reader = Foreign::new(&reader, "source").map_err(|_| {
            let problem = "must be a text, a `Uint8Array`, a `Blob` or a `ReadableStream` of bytes";
            field_error("source", problem)
        })?;
        Ok(Self {
            source: JsSource {
                next: reader.needs("next")?,
                cancel: reader.needs("cancel")?,
                reader,
            },
            options,
            _abort: abort,
        })
    }

    /// Stores it.
    ///
    /// # Errors
    /// As [`Runtime::import_session`].
    pub(super) async fn run(self, runtime: &Runtime<JsValue>) -> Result<SessionRecord> {
        runtime.import_session(&self.source, TEXTS, &self.options).await
    }
}

/// A session as a stream of its file, which is begun when it is read.
pub(super) fn exported(runtime: Rc<Runtime<JsValue>>, id: String) -> JsValue {
    let export: Rc<RefCell<Option<Export<JsValue>>>> = Rc::default();
    let next = move || -> Promise {
        let (runtime, id, export) = (runtime.clone(), id.clone(), export.clone());
        promised(Ok(async move {
            // A stream asks for one part at a time.
            let begun = export.take();
            let mut begun = match begun {
                Some(begun) => begun,
                None => runtime.export_session(&id, TEXTS).await?,
            };
            let part = match begun.next().await? {
                None => return Ok(JsValue::UNDEFINED),
                Some(Part::Header(line)) => js_bytes(&line),
                Some(Part::Messages(messages)) => {
                    let list = Array::new();
                    for message in &messages {
                        list.push(message);
                    }
                    js_lines(&list, begun.is_tagged())
                }
            };
            export.replace(Some(begun));
            Ok(part)
        }))
    };
    js_stream(&Closure::<dyn Fn() -> Promise>::new(next).into_js_value())
}
