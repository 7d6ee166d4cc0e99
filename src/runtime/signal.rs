//! A signal that fires once: for aborting, for waiting until something is over, and for going one at a time.

use std::{
    cell::{Cell, RefCell},
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    rc::Rc,
    task::{Poll, Waker},
};

use super::World;

/// What runs when a signal fires.
type Hook = Box<dyn FnOnce()>;

/// Fires once; clones fire together.
#[derive(Clone, Default)]
pub struct Signal(Rc<Inner>);

#[derive(Default)]
struct Inner {
    fired: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
    hooks: RefCell<Vec<(u64, Hook)>>,
    numbered: Cell<u64>,
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
        for (_, hook) in hooks {
            hook();
        }
        let wakers = std::mem::take(&mut *self.0.wakers.borrow_mut());
        for waker in wakers {
            waker.wake();
        }
    }

    /// Runs `hook` when it fires; at once where it has. The number is for [`Signal::forget`].
    pub fn on_fire(&self, hook: impl FnOnce() + 'static) -> u64 {
        let number = self.0.numbered.get();
        self.0.numbered.set(number.wrapping_add(1));
        if self.has_fired() {
            hook();
        } else {
            self.0.hooks.borrow_mut().push((number, Box::new(hook)));
        }
        number
    }

    /// Lets go of a hook that did not run yet: a signal may outlive many turns.
    pub fn forget(&self, number: u64) {
        let mut kept = self.0.hooks.borrow_mut();
        let gone = kept.iter().position(|(other, _)| *other == number);
        let gone = gone.map(|at| kept.remove(at));
        drop(kept);
        // What the hook held may run code of its own when it goes.
        drop(gone);
    }

    /// Whether both are clones of one signal.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
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

    /// The future's output, or nothing where the signal fires first. An output that is there when the signal fires
    /// is taken; once it has fired, what the future would still bring is not waited for.
    pub fn unless_fired<T>(&self, future: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
        unless(self.fired(), future)
    }
}

/// The future's output, or nothing where `over` is first.
pub(super) async fn unless<T>(over: impl Future<Output = ()>, future: impl Future<Output = T>) -> Option<T> {
    let (mut over, mut future) = (pin!(over), pin!(future));
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        over.as_mut().poll(context).map(|()| None)
    })
    .await
}

/// Lets one through at a time, in the order in which they come.
pub(super) struct OneAtATime {
    world: Rc<dyn World>,
    /// The end of the turn that is.
    over: RefCell<Option<Signal>>,
}

/// Whose turn it is; over when it is dropped.
pub(super) struct Turn<'a>(&'a OneAtATime);

impl OneAtATime {
    pub(super) fn new(world: Rc<dyn World>) -> Self {
        Self {
            world,
            over: RefCell::default(),
        }
    }

    pub(super) async fn turn(&self) -> Turn<'_> {
        loop {
            let other = self.over.borrow().clone();
            match other {
                Some(over) => self.world.fired(over).await,
                None => break,
            }
        }
        *self.over.borrow_mut() = Some(Signal::default());
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let over = self.0.over.take();
        if let Some(over) = over {
            over.fire();
        }
    }
}
