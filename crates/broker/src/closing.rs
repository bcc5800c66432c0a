//! Whether a connection is to end, and why.

use myelin_stdx::sync::lock;
use myelin_wire::error::CloseReason;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The end of a connection, as any thread may ask for it.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    reason: Mutex<Option<CloseReason>>,
    /// Perf: whoever only asks whether the connection is to end takes no lock.
    is_closing: AtomicBool,
}

impl Closing {
    /// The connection is to end. The first reason stays; false when there was one.
    pub(crate) fn begin(&self, reason: CloseReason) -> bool {
        let mut held = lock(&self.reason);
        let is_first = held.is_none();
        held.get_or_insert(reason);
        self.is_closing.store(true, Relaxed);
        is_first
    }

    /// Why the connection is to end, once someone has asked for it.
    #[inline(always)]
    pub(crate) fn reason(&self) -> Option<CloseReason> {
        if self.is_closing.load(Relaxed) { self.held() } else { None }
    }

    /// Perf: apart, so that whoever only asks has no lock among its code.
    #[cold]
    #[inline(never)]
    fn held(&self) -> Option<CloseReason> {
        let reason = *lock(&self.reason);
        debug_assert!(reason.is_some(), "a connection that ends has a reason");
        reason
    }
}
