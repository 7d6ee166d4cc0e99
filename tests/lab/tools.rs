//! Tools that do as they are told, and count.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use runcontext::{
    runtime::{Signal, ToolContext, Tools},
    session::{Incoming, ToolCall},
    storage::LocalFuture,
};
use serde_json::{Value, json};

use super::{incoming, model::Answer};

/// What one call does.
type Run = Rc<dyn Fn(ToolCall<Value>, Signal) -> LocalFuture<'static, Answer>>;

/// The tools: by default each call answers `<name> done`.
#[derive(Default)]
pub struct Toolbox {
    by_call: RefCell<HashMap<String, Run>>,
    called: RefCell<Vec<(String, String, Value)>>,
    directories: RefCell<Vec<String>>,
}

impl Toolbox {
    /// What the call with this id does.
    pub fn on<F: Future<Output = Answer> + 'static>(
        &self,
        id: &str,
        run: impl Fn(ToolCall<Value>, Signal) -> F + 'static,
    ) {
        let run: Run = Rc::new(move |call, abort| Box::pin(run(call, abort)));
        self.by_call.borrow_mut().insert(id.to_owned(), run);
    }

    /// How often a tool ran.
    pub fn calls(&self) -> usize {
        self.called.borrow().len()
    }

    /// The working directory of every call that ran.
    pub fn directories(&self) -> Vec<String> {
        self.directories.borrow().clone()
    }

    /// Id, name and arguments of every call that ran.
    pub fn called(&self) -> Vec<(String, String, Value)> {
        self.called.borrow().clone()
    }
}

impl Tools<Value> for Toolbox {
    fn run(
        &self,
        call: ToolCall<Value>,
        context: ToolContext,
        abort: Signal,
    ) -> LocalFuture<'_, Result<Incoming<Value>, Value>> {
        self.directories.borrow_mut().push(context.working_directory);
        let seen = (call.id.clone(), call.name.clone(), call.arguments.clone());
        self.called.borrow_mut().push(seen);
        let run = self.by_call.borrow().get(&call.id).cloned();
        Box::pin(async move {
            let answer = match run {
                Some(run) => run(call, abort).await,
                None => Ok(json!(format!("{} done", call.name))),
            };
            answer.map(incoming).map_err(Value::from)
        })
    }
}
