//! Which streams of a store are open: none may be twice.
//!
//! Two writers of one log would write over each other, and so would a job of one that is gone. So whoever writes a
//! stream's files (the stream itself, and a job that is out) shares one [`Claim`], which ends with the last of them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::StreamId;

/// The streams of a store that are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims(Arc<Mutex<HashSet<StreamId>>>);

/// The right to write a stream's files.
#[derive(Debug)]
pub(crate) struct Claim {
    stream: StreamId,
    claims: Claims,
}

impl Claims {
    /// `None` while somebody else has it.
    pub(crate) fn take(&self, stream: StreamId) -> Option<Arc<Claim>> {
        self.lock().insert(stream).then(|| Arc::new(Claim { stream, claims: self.clone() }))
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<StreamId>> {
        // Nobody panics between two steps here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.stream);
    }
}
