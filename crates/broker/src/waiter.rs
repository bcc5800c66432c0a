//! Waiters: whoever wants to send more when little waits in an outbox.
//!
//! The outbox keeps them and hands them back; what they are, and how they are woken, is known to
//! those who let them wait (`shard/congestion.rs`).

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A handle that waits. Equal when the address is the same.
#[derive(Clone)]
pub(crate) struct Waiter {
    address: usize,
    handle: Arc<dyn Any + Send + Sync>,
}

impl Waiter {
    /// Lets `handle` wait, which stands for what is at `address`.
    pub(crate) fn new(address: usize, handle: impl Any + Send + Sync) -> Self {
        Self { address, handle: Arc::new(handle) }
    }

    /// The handle, if it is one of this type.
    pub(crate) fn handle<T: Any>(&self) -> Option<&T> {
        self.handle.downcast_ref()
    }
}

impl PartialEq for Waiter {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl Eq for Waiter {}

impl PartialOrd for Waiter {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiter {
    fn cmp(&self, other: &Self) -> Ordering {
        self.address.cmp(&other.address)
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Waiter({:#x})", self.address)
    }
}
