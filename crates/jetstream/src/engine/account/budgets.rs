//! Bytes that streams of an account store, and may: all together, or tier by tier.
//!
//! What is stored in a stream that is led here counts with its other replicas until their servers
//! have said what they store.

use myelin_jsapi::config::{AccountLimits, Storage, StreamConfig, tier_name};
use myelin_stdx::sync::{read_lock, write_lock};
use myelin_streams::stream::StorageBudget;
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

/// Bytes in memory and in files.
pub(in crate::engine) type Bytes = [i64; 2];

/// Budgets of an account's streams on this server.
///
/// Limits count what all servers of a cluster store. So what is left of them here is what others do
/// not use, as far as they have told. Compat: limits by tier are those of the data, each replica
/// may take as much; others are those of all replicas together.
pub(in crate::engine) struct AccountBudgets(RwLock<BudgetTable>);

/// A budget in memory and one in files.
#[derive(Clone)]
struct Budgets([Arc<StorageBudget>; 2]);

struct BudgetTable {
    /// `None`: the account may not use JetStream, and what it stores has no limit.
    limits: Option<AccountLimits>,
    whole: Budgets,
    tiers: BTreeMap<String, Budgets>,
    /// Bytes that other servers store, by tier.
    elsewhere: BTreeMap<String, Bytes>,
}

impl Budgets {
    fn unlimited() -> Self {
        Self([Arc::default(), Arc::default()])
    }

    /// Leaves so much to streams of this server: `copies` times the limits, but for what is
    /// elsewhere.
    fn limit(&self, limits: Bytes, copies: i64, elsewhere: Bytes) {
        for ((budget, limit), elsewhere) in self.0.iter().zip(limits).zip(elsewhere) {
            let left = limit.saturating_mul(copies).saturating_sub(elsewhere).max(0);
            budget.set_limit(if limit < 0 { -1 } else { left });
        }
    }

    /// Others have said what they store.
    fn expect_nothing(&self) {
        self.0.iter().for_each(|budget| budget.expect_nothing());
    }

    fn used(&self) -> Bytes {
        [self.0[0].used(), self.0[1].used()]
    }
}

impl BudgetTable {
    fn apply(&self) {
        let Some(limits) = &self.limits else {
            let all = self.tiers.values().chain([&self.whole]);
            return all.for_each(|budgets| budgets.limit([-1, -1], 1, [0, 0]));
        };
        let whole = self.elsewhere.values().copied().fold([0, 0], add);
        self.whole.limit([limits.max_memory, limits.max_storage], 1, whole);
        for (tier, budgets) in &self.tiers {
            let Some(of_tier) = limits.tiers.get(tier) else {
                budgets.0.iter().for_each(|budget| budget.set_absent());
                continue;
            };
            let of_tier = [of_tier.max_memory, of_tier.max_storage];
            let copies = tier.strip_prefix('R').and_then(|count| count.parse().ok()).unwrap_or(1);
            let elsewhere = self.elsewhere.get(tier).copied().unwrap_or_default();
            budgets.limit(of_tier, copies, elsewhere);
        }
    }
}

fn add(one: Bytes, other: Bytes) -> Bytes {
    [one[0].saturating_add(other[0]), one[1].saturating_add(other[1])]
}

impl AccountBudgets {
    /// Nothing is stored yet.
    pub(super) fn new(limits: Option<AccountLimits>) -> Self {
        let (tiers, elsewhere) = (BTreeMap::new(), BTreeMap::new());
        let table = BudgetTable { limits, whole: Budgets::unlimited(), tiers, elsewhere };
        table.apply();
        Self(RwLock::new(table))
    }

    /// Other limits, from now on. Streams that are here may count in other budgets then: see
    /// [`AccountBudgets::of`].
    pub(super) fn set_limits(&self, limits: Option<AccountLimits>) {
        let mut table = write_lock(&self.0);
        table.limits = limits;
        table.tiers.values().chain([&table.whole]).for_each(Budgets::expect_nothing);
        table.apply();
    }

    /// Takes note of what other servers store, by tier.
    pub(in crate::engine) fn set_elsewhere(&self, elsewhere: BTreeMap<String, Bytes>) {
        let mut table = write_lock(&self.0);
        table.elsewhere = elsewhere;
        table.tiers.values().chain([&table.whole]).for_each(Budgets::expect_nothing);
        table.apply();
    }

    /// The budget in which a stream counts.
    pub(in crate::engine) fn of(&self, config: &StreamConfig) -> Arc<StorageBudget> {
        let mut table = write_lock(&self.0);
        let at = usize::from(config.storage == Storage::File);
        if table.limits.as_ref().is_none_or(|limits| limits.tiers.is_empty()) {
            return Arc::clone(&table.whole.0[at]);
        }
        let tier = table.tiers.entry(tier_name(config.num_replicas)).or_insert_with(Budgets::unlimited);
        let budget = Arc::clone(&tier.0[at]);
        table.apply();
        budget
    }

    /// Bytes that streams of this server store.
    pub(in crate::engine) fn used(&self) -> Bytes {
        let table = read_lock(&self.0);
        table.tiers.values().chain([&table.whole]).map(Budgets::used).fold([0, 0], add)
    }

    /// Whether what is stored has a limit.
    pub(in crate::engine) fn has_limit(&self) -> bool {
        let is_limited = |limits: &AccountLimits| limits.max_memory >= 0 || limits.max_storage >= 0;
        let table = read_lock(&self.0);
        table.limits.iter().any(|limits| {
            if limits.tiers.is_empty() { is_limited(limits) } else { limits.tiers.values().any(is_limited) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(max_storage: i64) -> AccountLimits {
        AccountLimits { max_storage, ..AccountLimits::default() }
    }

    fn stream(num_replicas: i64) -> StreamConfig {
        StreamConfig { num_replicas, storage: Storage::File, ..StreamConfig::default() }
    }

    #[test]
    fn limits_count_replicas_on_all_servers_together() {
        let budgets = AccountBudgets::new(Some(limits(100)));
        let (one, three) = (budgets.of(&stream(1)), budgets.of(&stream(3)));
        assert!(Arc::ptr_eq(&one, &three));
        one.add(30);
        assert!(one.admits(70) && !one.admits(71));
        budgets.set_elsewhere([("R1".to_owned(), [0, 10]), ("R3".to_owned(), [0, 20])].into());
        assert!(one.admits(40) && !one.admits(41));
        budgets.set_limits(Some(limits(50)));
        assert!(!one.admits(1), "what is there stays");
        budgets.set_limits(Some(limits(-1)));
        assert!(one.admits(1_000) && !budgets.has_limit());
        budgets.set_limits(None);
        assert!(one.admits(1_000));
    }

    #[test]
    fn limits_by_tier_are_those_of_the_data() {
        let tiers = [("R1".to_owned(), limits(10)), ("R3".to_owned(), limits(100))];
        let budgets = AccountBudgets::new(Some(AccountLimits::by_tier(tiers.into())));
        let [one, three, five] = [1, 3, 5].map(|replicas| budgets.of(&stream(replicas)));
        one.add(10);
        three.add(90);
        budgets.set_elsewhere([("R3".to_owned(), [0, 180])].into());
        assert!(one.admits(0) && !one.admits(1));
        assert!(three.admits(30) && !three.admits(31), "of 300 with all replicas");
        assert!(!five.admits(1), "a tier that the account does not have");
        assert_eq!(budgets.used(), [0, 100]);
        assert!(budgets.has_limit());
    }
}
