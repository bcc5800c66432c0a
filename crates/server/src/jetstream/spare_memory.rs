//! Memory that a thread's allocator keeps: goes back to the system when the thread has nothing to
//! do.
//!
//! Perf: a merge holds what footers of several segments say of their subjects, tens of bytes for
//! each. The allocator keeps pages that became free for 10 ms (100 ms what it has from the system
//! as a whole), and looks for those whose time is over only when the thread that had them allocates
//! again. So the thread of upkeep, waiting for its next job, kept a third of what a million
//! subjects cost (docs/results/streams.md). A look takes less than a millisecond.

use std::hint::black_box;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError};
use std::time::Duration;

/// How long nothing has come when memory is given back: longer than the allocator keeps it.
const RESTS_AFTER: Duration = Duration::from_millis(200);

/// Allocations beyond its small sizes after which the allocator looks on their thread for pages to
/// give back; and the hundred in whose steps it counts them.
const LOOKS_AFTER: usize = 10_000 + 100;
/// Bytes that are beyond its small sizes, which are up to 1 KiB.
const BEYOND_SMALL: usize = 2 << 10;

/// Receives as `queue` itself does. After a while without an item, memory that this thread has
/// freed goes back to the system.
pub(super) fn receive<T>(queue: &Receiver<T>) -> Result<T, RecvError> {
    match queue.recv_timeout(RESTS_AFTER) {
        Err(RecvTimeoutError::Timeout) => {
            give_back();
            queue.recv()
        }
        received => received.map_err(|_| RecvError),
    }
}

fn give_back() {
    for _ in 0..LOOKS_AFTER {
        drop(black_box(Vec::<u8>::with_capacity(BEYOND_SMALL)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn what_waits_is_received_and_a_queue_that_is_closed_says_so() {
        let (sender, queue) = channel();
        sender.send(1).expect("somebody receives");
        assert_eq!(receive(&queue), Ok(1));
        drop(sender);
        assert_eq!(receive(&queue), Err(RecvError));
    }

    #[test]
    fn what_comes_after_memory_was_given_back_is_received() {
        let (sender, queue) = channel();
        let (asking, asked) = channel::<()>();
        let late = thread::spawn(move || {
            // Nobody sends here: a wait with an end, longer than that of the receiver.
            assert_eq!(asked.recv_timeout(2 * RESTS_AFTER), Err(RecvTimeoutError::Timeout));
            sender.send(1).expect("somebody receives");
        });
        assert_eq!(receive(&queue), Ok(1));
        assert_eq!(receive(&queue), Err(RecvError), "the sender is gone");
        drop(asking);
        late.join().expect("nothing panicked");
    }
}
