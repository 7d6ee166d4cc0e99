//! A small executor that knows when everybody waits for nobody.

use std::{
    future::Future,
    pin::Pin,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use super::TestWorld;

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A future that may stand still for now.
pub struct Waits<'a, T> {
    world: Rc<TestWorld>,
    future: Pin<Box<dyn Future<Output = T> + 'a>>,
    result: Option<T>,
}

/// Starts a future, and runs it as far as it comes.
pub fn waits<'a, T>(world: &Rc<TestWorld>, future: impl Future<Output = T> + 'a) -> Waits<'a, T> {
    let mut started = Waits {
        world: world.clone(),
        future: Box::pin(future),
        result: None,
    };
    started.go_on();
    started
}

impl<T> Waits<'_, T> {
    /// Runs it, and what is in the background, as far as they come. Says whether it is done.
    pub fn go_on(&mut self) -> bool {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        loop {
            let mut moved = woken.0.swap(false, Ordering::SeqCst);
            if self.result.is_none()
                && let Poll::Ready(result) = self.future.as_mut().poll(&mut context)
            {
                self.result = Some(result);
                moved = true;
            }
            for mut background in self.world.take_spawned() {
                match background.as_mut().poll(&mut context) {
                    Poll::Ready(()) => moved = true,
                    Poll::Pending => self.world.put_back(background),
                }
            }
            if !moved && !woken.0.load(Ordering::SeqCst) {
                return self.result.is_some();
            }
        }
    }

    /// Its result, now.
    pub fn done(mut self) -> T {
        assert!(self.go_on(), "everybody waits for nobody");
        self.result.unwrap()
    }
}

/// Runs a future, and what is in the background, to the end.
pub fn run<T>(world: &Rc<TestWorld>, future: impl Future<Output = T>) -> T {
    waits(world, future).done()
}
