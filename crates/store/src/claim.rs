//! Things that only one may hold at a time, by name.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which are held.
#[derive(Debug)]
pub(crate) struct Claims<K>(Arc<Mutex<HashSet<K>>>);

/// One that is held, until this is dropped.
pub(crate) struct Claim<K: Eq + Hash> {
    what: K,
    claims: Claims<K>,
}

impl<K: Eq + Hash + Clone> Claims<K> {
    /// `None` while somebody else has it.
    pub(crate) fn take(&self, what: K) -> Option<Claim<K>> {
        self.lock().insert(what.clone()).then(|| Claim { what, claims: self.clone() })
    }
}

impl<K> Claims<K> {
    fn lock(&self) -> MutexGuard<'_, HashSet<K>> {
        // Nobody panics between two steps here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Default for Claims<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K> Clone for Claims<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Eq + Hash> Drop for Claim<K> {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.what);
    }
}

impl<K: Eq + Hash + fmt::Debug> fmt::Debug for Claim<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claim").field(&self.what).finish()
    }
}
