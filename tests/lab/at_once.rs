//! Futures of what waits for nobody: storage in memory, above all.

use std::{
    future::Future,
    task::{Context, Poll, Waker},
};

/// What a future brings that waits for nothing and nobody.
pub fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}
