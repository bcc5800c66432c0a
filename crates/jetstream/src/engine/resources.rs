//! Resources of the server that are promised to accounts: together they must not be promised more
//! than the server has.
//!
//! Compat: a single server refuses an account, or new limits of one, whose promise it cannot keep.
//! What streams have reserved by `max_bytes` counts by itself, and not beside what their accounts
//! are promised. A limit of -1 promises nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use myelin_broker::Account;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::AccountLimits;

use super::JetStream;
use super::reservations::Reservations;
use myelin_stdx::sync::{lock, read_lock};

/// Bytes of the server that others may count on.
#[derive(Default)]
pub(super) struct Promises {
    /// Accounts whose limits the server cannot grant, by name: they are promised more than it has
    /// left.
    pub(super) refused: Mutex<BTreeMap<String, (Arc<Account>, AccountLimits)>>,
    /// Bytes that streams of all accounts have reserved.
    pub(super) reservations: Arc<Reservations>,
}

impl JetStream {
    /// Tries again to let those accounts use JetStream that were refused: others may have given
    /// something up.
    pub fn enable_refused(self: &Arc<Self>) {
        let waiting: Vec<_> = lock(&self.promises.refused).values().cloned().collect();
        for (account, limits) in waiting {
            if self.grant(&account, Some(&limits)).is_ok() {
                // Refused again if another account was quicker, and in the log then.
                let _ = self.enable(&account, Some(limits));
            }
        }
    }

    /// Whether the server has what these limits promise beyond those that the account has now.
    pub(super) fn grant(&self, account: &Account, limits: Option<&AccountLimits>) -> Result<(), ApiError> {
        let Some(limits) = limits else { return Ok(()) };
        let before = self.account(account.name()).and_then(|account| account.limits());
        let more = limits.promised_beyond(before.as_ref());
        let (reserved, promised) = (self.reserved(), self.promised());
        let server = self.limits();
        let most = [server.max_memory, server.max_store].map(super::saturated);
        let errors = [ApiError::MEMORY_RESOURCES_EXCEEDED, ApiError::STORAGE_RESOURCES_EXCEEDED];
        for (at, error) in errors.into_iter().enumerate() {
            let taken = reserved[at].max(promised[at]);
            if more[at] > 0 && taken.saturating_add(more[at]) > most[at] {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Bytes in memory and in files that all accounts are promised.
    fn promised(&self) -> [i64; 2] {
        let accounts = read_lock(&self.accounts);
        let each = accounts.values().filter_map(|account| Some(account.limits()?.promised()));
        each.fold([0_i64; 2], |sum, more| [0, 1].map(|at| sum[at].saturating_add(more[at])))
    }
}
