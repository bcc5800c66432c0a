//! Things that only one part of the process may hold at a time, by name.

use myelin_stdx::sync::lock;
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};

/// Names of what is held. Clones are the same set.
#[derive(Debug)]
pub struct ClaimSet<K>(Arc<Mutex<HashSet<K>>>);

/// A name that is held, until this is dropped.
pub struct Claim<K: Eq + Hash> {
    what: K,
    claims: ClaimSet<K>,
}

impl<K: Eq + Hash + Clone> ClaimSet<K> {
    /// Takes a name. `None` while somebody else has it.
    pub fn take(&self, what: K) -> Option<Claim<K>> {
        self.lock().insert(what.clone()).then(|| Claim { what, claims: self.clone() })
    }
}

impl<K> ClaimSet<K> {
    fn lock(&self) -> MutexGuard<'_, HashSet<K>> {
        // Nobody panics between two steps here.
        lock(&self.0)
    }
}

impl<K> Default for ClaimSet<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K> Clone for ClaimSet<K> {
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
