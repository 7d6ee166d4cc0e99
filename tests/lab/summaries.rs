//! A summariser that answers by a script, and counts. Where the script is silent it gives a short text that says so: nothing
//! here reads what it is given.

use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use runcontext::{
    context::Summary,
    runtime::{CompactionOptions, Signal, Summarizer},
    storage::LocalFuture,
};
use serde_json::Value;

type Said = Result<Summary, String>;
type Step = Box<dyn FnOnce(Signal) -> LocalFuture<'static, Said>>;

/// A scripted summariser.
#[derive(Default)]
pub struct Summaries {
    steps: RefCell<VecDeque<Step>>,
    seen: RefCell<Vec<Vec<Value>>>,
}

impl Summaries {
    /// Adds to the script.
    pub fn then<F: Future<Output = Said> + 'static>(
        &self,
        make: impl FnOnce(Signal) -> F + 'static,
    ) -> &Self {
        let step: Step = Box::new(move |abort| Box::pin(make(abort)));
        self.steps.borrow_mut().push_back(step);
        self
    }

    /// Adds a text.
    pub fn says(&self, text: &str) -> &Self {
        let summary = written(text);
        self.then(move |_| async move { Ok(summary) })
    }

    /// Adds a failure.
    pub fn fails(&self, text: &str) -> &Self {
        let text = text.to_owned();
        self.then(move |_| async move { Err(text) })
    }

    /// Adds one that never comes.
    pub fn is_silent(&self) -> &Self {
        self.then(|_| std::future::pending())
    }

    /// How often it was called.
    pub fn calls(&self) -> usize {
        self.seen.borrow().len()
    }

    /// What it was to summarise, call by call.
    pub fn seen(&self) -> Vec<Vec<Value>> {
        self.seen.borrow().clone()
    }

    /// Options of a runtime that has it.
    pub fn options(self: &Rc<Self>) -> CompactionOptions<Value> {
        CompactionOptions {
            summarizer: Some(self.clone()),
            ..CompactionOptions::default()
        }
    }
}

/// A summary of this text.
pub fn written(text: &str) -> Summary {
    Summary {
        summary: text.to_owned(),
        ..Summary::default()
    }
}

impl Summarizer<Value> for Summaries {
    fn summarize(&self, messages: Vec<Value>, abort: Signal) -> LocalFuture<'_, Said> {
        self.seen.borrow_mut().push(messages);
        let number = self.calls();
        match self.steps.borrow_mut().pop_front() {
            Some(step) => step(abort),
            None => Box::pin(async move { Ok(written(&format!("scripted summary {number}"))) }),
        }
    }
}
