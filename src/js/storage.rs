//! An adapter of the host: its methods are called, and what they answer is read as somebody else's data. Nothing is decided
//! here.

use std::{cell::RefCell, rc::Rc};

use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use super::{
    foreign::Foreign,
    host::Timer,
    plain::{error_text, json_of},
};
use crate::{
    Error, ErrorCode, Result,
    runtime::{Signal, World},
    storage::{
        LocalFuture, OLD, StorageEvent, StorageInfo, StorageListener, apply::missing, closed, damaged,
        unanswered,
    },
    untyped::FromJson,
};

#[wasm_bindgen(module = "/src/js/storage.js")]
extern "C" {
    #[wasm_bindgen(catch, js_name = "encoded")]
    fn js_encoded(value: &JsValue) -> std::result::Result<JsValue, JsValue>;
    #[wasm_bindgen(catch, js_name = "answered")]
    fn js_answered(question: &str, answer: &JsValue) -> std::result::Result<JsValue, JsValue>;
    #[wasm_bindgen(js_name = "failure")]
    fn js_failure(error: &JsValue) -> JsValue;
}

#[wasm_bindgen(module = "/pkg-template/storage/memory.js")]
extern "C" {
    #[wasm_bindgen(js_name = "memoryStorage")]
    pub(crate) fn memory_storage() -> JsValue;
}

// The file that `memory.js` imports has to come along.
#[wasm_bindgen(module = "/pkg-template/storage/commit.js")]
extern "C" {
    fn coded(code: &str, message: &str) -> JsValue;
}

/// Whom a call is for.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    /// `session(id)`.
    Session(&'a str),
    /// `shared`.
    Shared,
    /// `directory`.
    Directory,
}

/// A call of a method. The question says how the answer is read.
pub(crate) struct Call<'a> {
    pub(crate) part: Part<'a>,
    pub(crate) method: &'static str,
    pub(crate) question: &'static str,
    pub(crate) arguments: Vec<JsValue>,
}

/// What a call that fails means for those behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    /// They are not made.
    Stops,
    /// Nothing.
    GoesOn,
}

/// So many seconds a call may take.
const PATIENCE: u32 = 30;

/// A `StorageAdapter`. Members are looked up when they are called: they may be anybody's, and change.
pub(crate) struct Adapter {
    whole: Foreign,
    shared: Foreign,
    directory: Foreign,
    pub(crate) info: StorageInfo,
    closed: Signal,
    /// What the runtime lends, once there is one.
    pub(crate) lent: RefCell<Option<Rc<dyn World>>>,
    /// Who hears what happens to it.
    pub(crate) listener: RefCell<Option<StorageListener>>,
}

impl Adapter {
    /// Reads the option `storage`.
    ///
    /// # Errors
    /// `invalid_argument` that names what is missing.
    pub(crate) fn new(given: &JsValue, path: &str) -> Result<Self> {
        let whole = Foreign::record(given, path)?;
        let part = |name: &str, methods: &[&str]| {
            let part = whole
                .object(name)?
                .ok_or_else(|| whole.wrong(name, "must be an object"))?;
            for method in methods {
                part.needs(method)?;
            }
            Ok(part)
        };
        whole.needs("session")?;
        let info = StorageInfo {
            kind: whole
                .text("kind")?
                .ok_or_else(|| whole.wrong("kind", "must be a text"))?,
            persistent: whole
                .flag("persistent")?
                .ok_or_else(|| whole.wrong("persistent", "must be true or false"))?,
            reason: None,
            data_loss: None,
        };
        Ok(Self {
            shared: part("shared", &["policyVersion", "get", "list", "write"])?,
            directory: part("directory", &["put", "remove", "list"])?,
            whole,
            info,
            closed: Signal::default(),
            lent: RefCell::default(),
            listener: RefCell::default(),
        })
    }

    /// Whether this time is long ago. Never, where nobody says what time it is.
    pub(crate) fn is_old(&self, time: f64) -> bool {
        let lent = self.lent.borrow();
        lent.as_ref().is_some_and(|world| world.now() - time > OLD)
    }

    /// Tells why something was left out.
    pub(crate) fn leaves_out(&self, error: Error) {
        let listener = self.listener.borrow().clone();
        if let Some(listener) = listener {
            listener(StorageEvent::LeftOut(error));
        }
    }

    /// Does this in the background, and waits for it a while: whoever waits has what it came for.
    pub(crate) async fn meanwhile(&self, work: LocalFuture<'static, ()>) {
        let world = self.lent.borrow().clone();
        let Some(world) = world else {
            return work.await;
        };
        let over = Signal::default();
        let done = over.clone();
        world.spawn(Box::pin(async move {
            work.await;
            done.fire();
        }));
        let _in_time = over.unless_fired(world.a_while()).await;
    }

    /// Calls are refused from now on, and those under way are not waited for.
    pub(crate) fn close(&self) {
        self.closed.fire();
    }

    /// Makes calls one after another; gives the answer to the last one that was made. Where the connection is lost a call is
    /// made once more, but for one of which nobody knows whether it came through: a commit has a name. What would be deleted the
    /// second time may be another's.
    pub(crate) fn ask<'a>(
        &'a self,
        calls: Vec<Call<'a>>,
        failed: Failed,
    ) -> LocalFuture<'a, Result<JsValue>> {
        Box::pin(async move {
            let mut answer = Ok(JsValue::UNDEFINED);
            for call in &calls {
                let mut again = !matches!(call.method, "write" | "delete");
                loop {
                    answer = self.attempt(call).await;
                    let lost = |error: &Error| error.code() == ErrorCode::StorageLost;
                    if !again || !answer.as_ref().is_err_and(lost) {
                        break;
                    }
                    again = false;
                }
                if failed == Failed::Stops && answer.is_err() {
                    break;
                }
            }
            answer
        })
    }

    async fn attempt(&self, call: &Call<'_>) -> Result<JsValue> {
        if self.closed.has_fired() {
            return Err(closed());
        }
        let over = Signal::default();
        let fired = over.clone();
        let hook = self.closed.on_fire(move || fired.fire());
        // An answer that comes later is nobody's: a commit is sent again, under its name.
        let timer = Timer::new(PATIENCE * 1_000, &over);
        let settled = over.unless_fired(self.call(call)).await;
        drop(timer);
        self.closed.forget(hook);
        match settled {
            None if self.closed.has_fired() => Err(closed()),
            None => {
                let text = format!(
                    "the storage `{}` gave no answer to `{}` within {PATIENCE} seconds; try again",
                    self.info.kind, call.method
                );
                Err(unanswered(&text))
            }
            Some(Err(thrown)) => Err(self.failed(call, &thrown)),
            Some(Ok(answer)) => js_answered(call.question, &answer).map_err(|thrown| match call.part {
                Part::Session(id) if thrown.is_string() => damaged(id, "a value is not as it was stored"),
                _ => self.malformed(call.method, &error_text(&thrown)),
            }),
        }
    }

    async fn call(&self, call: &Call<'_>) -> std::result::Result<JsValue, JsValue> {
        let session;
        let owner = match call.part {
            Part::Session(id) => {
                let find = self.whole.needs("session")?;
                session = Foreign::new(&self.whole.call_now(&find, &[id.into()])?, "session")?;
                &session
            }
            Part::Shared => &self.shared,
            Part::Directory => &self.directory,
        };
        owner.call(&owner.needs(call.method)?, &call.arguments).await
    }

    fn failed(&self, call: &Call<'_>, thrown: &JsValue) -> Error {
        let told = json_of(&js_failure(thrown));
        let member = |name: &str| told.get(name).cloned().unwrap_or_default();
        let failed = format!("failed in `{}`; try again", call.method);
        let (code, what) = match (member("code").as_str(), call.part) {
            (Some("not_found"), Part::Session(id)) => return missing(id),
            (Some("storage_quota"), _) => (
                ErrorCode::StorageQuota,
                "is full; free some space, then save again",
            ),
            (Some("storage_lost"), _) => (ErrorCode::StorageLost, "lost its connection; try again"),
            (Some("storage_blocked"), _) => (
                ErrorCode::StorageBlocked,
                "is kept busy by somebody else; try again later",
            ),
            (Some("storage_schema_newer"), _) => (
                ErrorCode::StorageSchemaNewer,
                "was written by a newer version; load that version",
            ),
            _ => (ErrorCode::StorageFailed, failed.as_str()),
        };
        let text = format!("the storage `{}` {what}", self.info.kind);
        let mut error = Error::new(code, text).with("cause", member("cause"));
        for name in ["usage", "quota"] {
            if code == ErrorCode::StorageQuota && member(name).is_number() {
                error = error.with(name, member(name));
            }
        }
        error
    }

    /// An answer that is of no use.
    pub(crate) fn malformed(&self, method: &str, why: &str) -> Error {
        let text = format!(
            "the storage `{}` gave an answer to `{method}` that is none; correct the adapter",
            self.info.kind
        );
        Error::new(ErrorCode::StorageFailed, text).with("cause", why)
    }

    /// An answer, read.
    ///
    /// # Errors
    /// `storage_failed` where it is none.
    pub(crate) fn read<T: FromJson>(&self, method: &str, answer: &JsValue) -> Result<T> {
        T::from_json(&json_of(answer), "answer").map_err(|error| self.malformed(method, error.message()))
    }
}

/// A value as it is stored.
///
/// # Errors
/// `storage_failed` for one that is too large for a text.
pub(crate) fn encoded(value: &JsValue) -> Result<JsValue> {
    js_encoded(value).map_err(|error| {
        let text = "a value cannot be stored; nothing was saved";
        Error::new(ErrorCode::StorageFailed, text).with("cause", error_text(&error))
    })
}
