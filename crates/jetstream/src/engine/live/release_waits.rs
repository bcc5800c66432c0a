//! Waiting for the release of what a stream was given, without a thread that waits.

use myelin_jsapi::ApiError;
use myelin_stdx::sync::lock;
use myelin_store::{StreamReader, Ticket};
use std::future::poll_fn;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Poll, Waker};

/// Wakers of calls that go on when a stream has released more, or has failed.
#[derive(Default)]
pub(super) struct ReleaseWaits {
    waiting: Mutex<Vec<Waker>>,
    /// Perf: rounds look here, and mostly nobody waits.
    has_any: AtomicBool,
}

impl ReleaseWaits {
    /// Keeps somebody who waits, and who looks once more afterwards.
    fn add(&self, waker: &Waker) {
        lock(&self.waiting).push(waker.clone());
        self.has_any.store(true, SeqCst);
    }

    /// Has all look who wait.
    pub(super) fn wake(&self) {
        if self.has_any.swap(false, SeqCst) {
            std::mem::take(&mut *lock(&self.waiting)).into_iter().for_each(Waker::wake);
        }
    }

    /// Waits until what was done to the stream up to `ticket` counts as stored (contracts.md C1).
    /// `reader` is of the log that gave the ticket, which may be opened anew meanwhile.
    pub(super) async fn released_through(
        &self,
        reader: &StreamReader,
        ticket: Ticket,
    ) -> Result<(), ApiError> {
        let outcome = || match reader.failure() {
            Some(why) => Some(Err(ApiError::stream_general(why))),
            None => reader.release().is_released(ticket).then_some(Ok(())),
        };
        poll_fn(|context| {
            if let Some(outcome) = outcome() {
                return Poll::Ready(outcome);
            }
            self.add(context.waker());
            // It may have come just before somebody waited for it.
            outcome().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}
