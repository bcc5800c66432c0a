//! Which streams of a store are open, and the consumers of which: none may be twice.
//!
//! Two writers of one log would write over each other, and so would a job of one that is gone. So whoever writes a
//! stream's segments (the stream itself, and a job that is out) shares one [`Claim`], which ends with the last of them;
//! and so do a stream's consumers and their logs.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::StreamId;
use crate::id::Part;

/// What of a store is open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims(Arc<Mutex<HashSet<(StreamId, Part)>>>);

/// The right to write a part of a stream's files.
#[derive(Debug)]
pub(crate) struct Claim {
    what: (StreamId, Part),
    claims: Claims,
}

impl Claims {
    /// `None` while somebody else has it.
    pub(crate) fn take(&self, stream: StreamId, part: Part) -> Option<Arc<Claim>> {
        let what = (stream, part);
        self.lock().insert(what).then(|| Arc::new(Claim { what, claims: self.clone() }))
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<(StreamId, Part)>> {
        // Nobody panics between two steps here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.what);
    }
}
