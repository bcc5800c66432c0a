//! Accounts that are needed here although nobody of them has come: other servers of a cluster that
//! shares JetStream have clients of them, or streams that are to be here, too.

use myelin_stdx::sync::lock;
use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock};

/// Accounts that wait to be found at most: more are sought when they are named again.
const MOST_SOUGHT: usize = 16 * 1024;

/// Wakes whoever finds accounts.
type Wake = Box<dyn Fn() + Send + Sync>;

/// Public keys of accounts that are needed and not known.
#[derive(Default)]
pub struct SoughtAccounts {
    keys: Mutex<BTreeSet<String>>,
    wake: OnceLock<Wake>,
}

impl SoughtAccounts {
    /// Accounts are sought from now on: `wake` is called for each, on any thread and also under
    /// locks of links and streams, and must be short. There is one.
    pub fn begin(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.wake.get().is_some()
    }

    pub(crate) fn add(&self, key: &str) {
        let is_new = {
            let mut keys = lock(&self.keys);
            debug_assert!(keys.len() <= MOST_SOUGHT, "no more accounts wait than may");
            keys.len() < MOST_SOUGHT && keys.insert(key.to_owned())
        };
        self.wake.get().filter(|_| is_new).into_iter().for_each(|wake| wake());
    }

    /// Takes the keys that wait to be found.
    pub fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut lock(&self.keys))
    }
}
