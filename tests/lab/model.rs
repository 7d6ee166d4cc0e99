//! A model that answers by a script, and counts.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use runcontext::{
    runtime::{Model, OnUpdate, Signal},
    session::{Incoming, ModelRef, ModelRequest, RequestReport},
    storage::LocalFuture,
};
use serde_json::Value;

use super::incoming;

/// What a model says, or why it does not.
pub type Answer = Result<Value, String>;

/// One answer of the script.
pub struct Step(Box<dyn FnOnce(OnUpdate<Value>, Signal) -> LocalFuture<'static, Answer>>);

impl Step {
    /// Anything.
    pub fn new<F: Future<Output = Answer> + 'static>(
        make: impl FnOnce(OnUpdate<Value>, Signal) -> F + 'static,
    ) -> Self {
        Self(Box::new(move |on_update, abort| Box::pin(make(on_update, abort))))
    }

    /// A message.
    pub fn answer(message: Value) -> Self {
        Self::new(move |_, _| async move { Ok(message) })
    }

    /// A failure.
    pub fn fail(text: &str) -> Self {
        let text = text.to_owned();
        Self::new(move |_, _| async move { Err(text) })
    }

    /// Partial answers, then what the other step brings.
    pub fn updates(partials: Vec<Value>, then: Step) -> Self {
        Self::new(move |on_update, abort| async move {
            for partial in partials {
                on_update(incoming(partial)).map_err(|error| error.to_string())?;
            }
            (then.0)(on_update, abort).await
        })
    }

    /// Nothing, ever.
    pub fn silence() -> Self {
        Self::new(|_, _| std::future::pending())
    }
}

/// What a model was asked.
#[derive(Clone, Debug)]
pub struct Seen {
    pub request: ModelRequest<Value>,
    pub report: RequestReport,
}

/// What a preflight says.
pub type Check = Rc<dyn Fn() -> LocalFuture<'static, Result<(), String>>>;

/// A scripted model.
#[derive(Default)]
pub struct Script {
    steps: RefCell<VecDeque<Step>>,
    seen: RefCell<Vec<Seen>>,
    checks: Cell<usize>,
    check: RefCell<Option<Check>>,
    updates: RefCell<Option<OnUpdate<Value>>>,
}

impl Script {
    /// Adds to the script.
    pub fn then(&self, step: Step) -> &Self {
        self.steps.borrow_mut().push_back(step);
        self
    }

    /// Adds a message.
    pub fn answers(&self, message: Value) -> &Self {
        self.then(Step::answer(message))
    }

    /// What the preflight does from now on.
    pub fn on_check(&self, check: Check) {
        *self.check.borrow_mut() = Some(check);
    }

    /// How often it was called.
    pub fn calls(&self) -> usize {
        self.seen.borrow().len()
    }

    /// How often it was checked.
    pub fn checks(&self) -> usize {
        self.checks.get()
    }

    /// What it was asked, call by call.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.borrow().clone()
    }

    /// Where the last call takes its partial answers, also when it is long over.
    pub fn last_updates(&self) -> OnUpdate<Value> {
        self.updates.borrow().clone().unwrap()
    }

    /// Lets go of that.
    pub fn forget_updates(&self) {
        *self.updates.borrow_mut() = None;
    }
}

impl Model<Value> for Script {
    fn check(&self, _model: Option<ModelRef>) -> LocalFuture<'_, Result<(), String>> {
        self.checks.set(self.checks.get() + 1);
        let check = self.check.borrow().clone();
        match check {
            Some(check) => check(),
            None => Box::pin(async { Ok(()) }),
        }
    }

    fn complete(
        &self,
        request: ModelRequest<Value>,
        report: RequestReport,
        on_update: OnUpdate<Value>,
        abort: Signal,
    ) -> LocalFuture<'_, Result<Incoming<Value>, String>> {
        self.seen.borrow_mut().push(Seen { request, report });
        *self.updates.borrow_mut() = Some(on_update.clone());
        let step = self.steps.borrow_mut().pop_front();
        let step = step.expect("the model is asked once more than the script says");
        Box::pin(async move { (step.0)(on_update, abort).await.map(incoming) })
    }
}
