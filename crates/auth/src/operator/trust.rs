//! Whom the server believes, where users come with tokens.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::secret::Secret;

/// Whom the server believes.
#[derive(Debug, Default)]
pub struct Trust {
    /// Public keys of operators that may sign accounts.
    keys: HashSet<String>,
    /// Keys of these that belong to operators whose accounts must not sign users with their own
    /// keys.
    strict: HashSet<String>,
    /// The token of whoever brings none.
    pub(super) sentinel: Option<Secret>,
    /// The only accounts that may be used.
    pub(super) pinned: Option<HashSet<String>>,
    /// How often somebody came from another account than those.
    pub(super) pinned_failures: AtomicU64,
}

impl Trust {
    /// Operators with these `keys` are trusted.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = String>) -> Self {
        Self { keys: keys.into_iter().collect(), ..Self::default() }
    }

    /// Accounts that one of these keys signs must have signing keys.
    #[must_use]
    pub fn with_strict(self, keys: impl IntoIterator<Item = String>) -> Self {
        Self { strict: keys.into_iter().collect(), ..self }
    }

    /// Lets a client without a token be the user of this one.
    #[must_use]
    pub fn with_sentinel(self, token: Option<Secret>) -> Self {
        Self { sentinel: token, ..self }
    }

    /// No other accounts may be used.
    #[must_use]
    pub fn with_pinned(self, accounts: Option<HashSet<String>>) -> Self {
        Self { pinned: accounts, ..self }
    }

    /// Takes over from an earlier one: what was counted goes on.
    pub fn take_over(&self, earlier: &Self) {
        self.pinned_failures.fetch_add(earlier.pinned_failures(), Relaxed);
    }

    /// Whether `issuer` may sign accounts.
    #[must_use]
    pub fn has(&self, issuer: &str) -> bool {
        self.keys.contains(issuer)
    }

    pub(crate) fn is_strict(&self, issuer: &str) -> bool {
        self.strict.contains(issuer)
    }

    /// How often somebody came from an account that is not pinned.
    #[must_use]
    pub fn pinned_failures(&self) -> u64 {
        self.pinned_failures.load(Relaxed)
    }
}
