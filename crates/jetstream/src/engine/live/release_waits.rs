//! Waiting for the release of what a stream was given, without a thread that waits.

use crate::engine::waits::Waiters;
use myelin_jsapi::ApiError;
use myelin_store::{StreamReader, Ticket};

/// Calls that go on when a stream has released more, or has failed.
#[derive(Default)]
pub(super) struct ReleaseWaits(Waiters);

impl ReleaseWaits {
    /// Has all look who wait.
    pub(super) fn wake(&self) {
        self.0.wake();
    }

    /// Another replica leads: whether what is waited for is ever released, nobody here knows.
    pub(super) fn give_up(&self) {
        self.0.send_away();
    }

    /// Waits until what was done to the stream up to `ticket` counts as stored (contracts.md C1).
    /// `reader` is of the log that gave the ticket, which may be opened anew meanwhile. What was
    /// done while this replica does not `lead` any more may have been taken back, though later
    /// tickets are released.
    pub(super) async fn released_through(
        &self,
        reader: &StreamReader,
        ticket: Ticket,
        leads: impl Fn() -> bool,
    ) -> Result<(), ApiError> {
        let outcome = || {
            let is_released = reader.release().is_released(ticket);
            match reader.failure() {
                Some(why) => Some(Err(ApiError::stream_general(why))),
                // Asked behind the position: what was taken back before that counts for nothing.
                None if !leads() => Some(Err(ApiError::CLUSTER_NOT_AVAIL)),
                None => is_released.then_some(Ok(())),
            }
        };
        self.0.until(outcome).await.unwrap_or(Err(ApiError::CLUSTER_NOT_AVAIL))
    }
}
