//! Other tabs and workers, by the browser's locks and its channels. Nothing is decided here.

use std::{cell::RefCell, rc::Rc};

use js_sys::{Function, Promise};
use wasm_bindgen::{
    closure::Closure,
    prelude::{JsCast, JsValue, wasm_bindgen},
};
use wasm_bindgen_futures::JsFuture;

use crate::{
    runtime::{Signal, Tabs},
    storage::LocalFuture,
};

#[wasm_bindgen(module = "/src/js/tabs.js")]
extern "C" {
    fn hold(name: &str) -> Promise;
    #[wasm_bindgen(js_name = "isHeld")]
    fn is_held(name: &str) -> Promise;
    fn claim(name: &str) -> Promise;
    fn join(name: &str, heard: &JsValue) -> JsValue;
    fn say(channel: &JsValue, text: &str);
    fn leave(channel: &JsValue);
}

/// Those who use a database.
pub(super) struct JsTabs {
    name: String,
    channel: RefCell<JsValue>,
}

impl JsTabs {
    /// Of the database with this name.
    pub(super) fn new(database: &str) -> Self {
        Self {
            name: ["runcontext:", database].concat(),
            channel: RefCell::new(JsValue::UNDEFINED),
        }
    }

    fn lock(&self, session: &str) -> String {
        [&self.name, ":", session].concat()
    }
}

impl Tabs for JsTabs {
    fn mark(&self, session: &str, until: Signal) -> LocalFuture<'static, ()> {
        let held = JsFuture::from(hold(&self.lock(session)));
        Box::pin(async move {
            if let Some(end) = held.await.ok().and_then(|end| end.dyn_into::<Function>().ok()) {
                until.on_fire(move || drop(end.call0(&JsValue::UNDEFINED)));
            }
        })
    }

    fn is_marked(&self, session: &str) -> LocalFuture<'static, bool> {
        let held = JsFuture::from(is_held(&self.lock(session)));
        Box::pin(async move { held.await.is_ok_and(|held| held.is_truthy()) })
    }

    fn claim(&self, session: &str, until: Signal) -> LocalFuture<'static, Option<bool>> {
        let claimed = JsFuture::from(claim(&[&self.name, ":import:", session].concat()));
        Box::pin(async move {
            let claimed = claimed.await.unwrap_or_default();
            match claimed.dyn_into::<Function>() {
                Ok(end) => {
                    until.on_fire(move || drop(end.call0(&JsValue::UNDEFINED)));
                    Some(true)
                }
                Err(answer) => answer.as_bool(),
            }
        })
    }

    fn say(&self, hint: &str) {
        say(&self.channel.borrow(), hint);
    }

    fn hear(&self, heard: Rc<dyn Fn(&str)>) {
        let heard = move |text: JsValue| heard(&text.as_string().unwrap_or_default());
        let heard = Closure::<dyn Fn(JsValue)>::new(heard).into_js_value();
        self.channel.replace(join(&self.name, &heard));
    }

    fn close(&self) {
        leave(&self.channel.take());
    }
}
