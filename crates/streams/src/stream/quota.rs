//! Quota of a stream: what it holds, as the budgets of its account and of the server were told.

use std::sync::Arc;

use super::settings::StorageBudget;

/// Bytes of one stream in two budgets. They leave the budgets with it.
pub(super) struct Quota {
    account: Arc<StorageBudget>,
    server: Arc<StorageBudget>,
    /// Bytes that the budgets were told of.
    charged: i64,
}

impl Quota {
    /// Tells the budgets nothing yet.
    pub(super) fn new(account: &Arc<StorageBudget>, server: &Arc<StorageBudget>) -> Self {
        Self { account: Arc::clone(account), server: Arc::clone(server), charged: 0 }
    }

    /// Moves what the stream holds to another budget of its account.
    pub(super) fn move_to(&mut self, account: &Arc<StorageBudget>) {
        account.add(self.charged);
        self.account.add(-self.charged);
        self.account = Arc::clone(account);
    }

    /// Tells the budgets that the stream holds `bytes` now, and so many other servers are to.
    pub(super) fn charge(&mut self, bytes: u64, elsewhere: i64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let grown = bytes - self.charged;
        if grown != 0 {
            self.account.add(grown);
            self.account.expect(grown.saturating_mul(elsewhere));
            self.server.add(grown);
            self.charged = bytes;
        }
        debug_assert!(
            self.account.used() >= self.charged,
            "an account holds no less than one of its streams"
        );
        debug_assert!(self.server.used() >= self.charged, "a server holds no less than one of its streams");
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        self.account.add(-self.charged);
        self.server.add(-self.charged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stream_held_leaves_with_it() {
        let (account, server) = (Arc::new(StorageBudget::new(-1)), Arc::new(StorageBudget::new(-1)));
        server.add(3);
        let mut quota = Quota::new(&account, &server);
        quota.charge(7, 0);
        quota.charge(5, 0);
        assert_eq!((account.used(), server.used()), (5, 8));
        let other = Arc::new(StorageBudget::new(-1));
        quota.move_to(&other);
        assert_eq!((account.used(), other.used(), server.used()), (0, 5, 8));
        drop(quota);
        assert_eq!((account.used(), other.used(), server.used()), (0, 0, 3));
    }

    #[test]
    fn what_others_are_about_to_store_counts_until_they_say_what_they_do() {
        let (account, server) = (Arc::new(StorageBudget::new(30)), Arc::new(StorageBudget::new(10)));
        let mut quota = Quota::new(&account, &server);
        quota.charge(7, 2);
        assert!(account.admits(9) && !account.admits(10));
        assert!(server.admits(3), "the server has one of them");
        account.expect_nothing();
        assert!(account.admits(23) && !account.admits(24));
        quota.charge(5, 2);
        assert!(account.admits(25) && !account.admits(26), "others have not lost it yet");
        quota.charge(8, 2);
        assert!(account.admits(20) && !account.admits(21));
    }
}
