//! A signal that fires once: for aborting, and for waiting until something is over.

use std::{
    cell::{Cell, RefCell},
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    rc::Rc,
    task::{Poll, Waker},
};

/// Fires once; clones fire together.
#[derive(Clone, Default)]
pub struct Signal(Rc<Inner>);

#[derive(Default)]
struct Inner {
    fired: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
    hooks: RefCell<Vec<Box<dyn FnOnce()>>>,
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signal").field(&self.0.fired.get()).finish()
    }
}

impl Signal {
    /// Whether it fired.
    pub fn has_fired(&self) -> bool {
        self.0.fired.get()
    }

    /// Fires, unless it has.
    pub fn fire(&self) {
        if self.0.fired.replace(true) {
            return;
        }
        let hooks = std::mem::take(&mut *self.0.hooks.borrow_mut());
        for hook in hooks {
            hook();
        }
        let wakers = std::mem::take(&mut *self.0.wakers.borrow_mut());
        for waker in wakers {
            waker.wake();
        }
    }

    /// Runs `hook` when it fires; at once where it has.
    pub fn on_fire(&self, hook: impl FnOnce() + 'static) {
        if self.has_fired() {
            hook();
        } else {
            self.0.hooks.borrow_mut().push(Box::new(hook));
        }
    }

    /// Waits until it fires.
    pub async fn fired(&self) {
        poll_fn(|context| {
            if self.has_fired() {
                return Poll::Ready(());
            }
            let mut wakers = self.0.wakers.borrow_mut();
            if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                wakers.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// The future's output, or nothing where the signal fires first. The signal goes first: once it has fired,
    /// what the future would still bring is not waited for.
    pub async fn unless_fired<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let mut fired = pin!(self.fired());
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            fired.as_mut().poll(context).map(|()| None)
        })
        .await
    }
}
