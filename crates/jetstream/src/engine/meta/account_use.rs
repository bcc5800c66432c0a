//! Use of JetStream by an account, on all servers of the cluster together.
//!
//! Each server knows what its replicas take, how many consumers it leads, and how often it was
//! asked. Servers that do not answer count as nothing.
//!
//! Limits of the account count what other servers store, too. Where an account has a limit and what
//! it stores here has changed, others are asked, once in a while; nobody waits for the answers. So
//! a limit may be exceeded by what comes meanwhile, as with nats-server, whose servers tell each
//! other now and then. Of a server that does not answer counts what it said last.

use super::{Assignment, Meta};
use crate::engine::JetStream;
use crate::engine::account::AccountStreams;
use crate::engine::account::budgets::Bytes;
use myelin_broker::{Binding, Service, ServiceBatch, ServiceShard};
use myelin_jsapi::api::info::{AccountInfo, TierUsage};
use myelin_jsapi::config::{AccountLimits, Storage, StreamConfig, tier_name};
use myelin_stdx::sync::lock;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

/// Use by an account of one server, or of several.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AccountUse {
    /// By the name of the tier.
    tiers: BTreeMap<String, TierUse>,
    total: u64,
    errors: u64,
}

/// Use by streams with as many replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct TierUse {
    memory: u64,
    storage: u64,
    consumers: u64,
}

impl TierUse {
    fn add(&mut self, other: Self) {
        self.memory += other.memory;
        self.storage += other.storage;
        self.consumers += other.consumers;
    }
}

impl AccountUse {
    /// Use of this server.
    pub(super) fn of(account: &AccountStreams) -> Self {
        let (total, errors) = account.api_calls();
        let mut used = Self { total, errors, ..Self::default() };
        for live in account.streams() {
            let config = live.config();
            let bytes = live.reader().state().totals.bytes;
            let of_tier = used.tiers.entry(tier_of(&config)).or_default();
            match config.storage {
                Storage::Memory => of_tier.memory += bytes,
                Storage::File => of_tier.storage += bytes,
            }
            let counted = live.role().leads().then(|| live.consumers().count_by_replicas(&config));
            for (replicas, count) in counted.unwrap_or_default() {
                used.tiers.entry(tier_name(replicas)).or_default().consumers += count;
            }
        }
        used
    }

    /// Bytes in memory and in files, by tier.
    pub(super) fn bytes(&self) -> impl Iterator<Item = (String, Bytes)> {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.tiers.iter().map(move |(tier, of)| (tier.clone(), [signed(of.memory), signed(of.storage)]))
    }

    fn add(&mut self, other: Self) {
        for (tier, used) in other.tiers {
            self.tiers.entry(tier).or_default().add(used);
        }
        self.total += other.total;
        self.errors += other.errors;
    }
}

fn tier_of(config: &StreamConfig) -> String {
    tier_name(config.num_replicas)
}

/// Shows use of streams, and what they have reserved. Compat: for each of them, not for each
/// replica.
fn shown<'a>(streams: impl Iterator<Item = &'a Arc<Assignment>>, used: TierUse) -> TierUsage {
    let TierUse { memory, storage, consumers } = used;
    let mut shown = TierUsage { memory, storage, consumers, ..TierUsage::default() };
    for one in streams {
        let bytes = one.config.max_bytes.max(0).unsigned_abs();
        shown.streams += 1;
        match one.config.storage {
            Storage::Memory => shown.reserved_memory += bytes,
            Storage::File => shown.reserved_storage += bytes,
        }
    }
    shown
}

impl Meta {
    /// Response to `INFO`, of all servers that are there.
    pub(in crate::engine) async fn account_info(
        &self,
        jetstream: &JetStream,
        account: &AccountStreams,
    ) -> AccountInfo {
        let name = account.account().name();
        let mut used = AccountUse::of(account);
        for answer in self.uses_elsewhere(jetstream, name).await.into_values() {
            used.add(serde_json::from_str(answer.get()).unwrap_or_default());
        }
        let assigned = self.view().of_account(name);
        let mut info = account.info(&jetstream.settings.domain);
        let mut whole = TierUse::default();
        used.tiers.values().for_each(|one| whole.add(*one));
        info.whole = TierUsage { limits: info.whole.limits, ..shown(assigned.iter(), whole) };
        if !info.tiers.is_empty() {
            // Compat: what is in a tier that was taken away is shown, too.
            for tier in assigned.iter().map(|one| tier_of(&one.config)) {
                let none = || TierUsage { limits: AccountLimits::nothing(), ..TierUsage::default() };
                info.tiers.entry(tier).or_insert_with(none);
            }
        }
        for (tier, usage) in &mut info.tiers {
            let of_tier = assigned.iter().filter(|one| tier_of(&one.config) == *tier);
            let of_servers = used.tiers.get(tier).copied().unwrap_or_default();
            *usage = TierUsage { limits: usage.limits.clone(), ..shown(of_tier, of_servers) };
        }
        (info.api.total, info.api.errors) = (used.total, used.errors);
        info
    }
}

/// Others are asked at each so many looks, some two seconds apart, whatever has changed here.
const ASK_ANYWAY: u32 = 8;

/// Questions to other servers about accounts, by the names of these.
#[derive(Default)]
pub(super) struct UsesElsewhere(Mutex<BTreeMap<String, AskedUse>>);

struct AskedUse {
    /// Bytes that the account stored here when others were asked.
    stored: Bytes,
    /// How often nobody was asked since, at most.
    passes: u32,
    answers: Arc<UseElsewhere>,
    reply: String,
    binding: Arc<Binding>,
}

/// Takes the answers of other servers about one account.
struct UseElsewhere {
    account: Weak<AccountStreams>,
    by_server: Mutex<BTreeMap<String, AccountUse>>,
}

impl Service for UseElsewhere {
    fn serve(&self, batch: &mut ServiceBatch, _: &mut ServiceShard) {
        let mut by_server = lock(&self.by_server);
        for msg in batch.iter() {
            let answer: BTreeMap<String, Box<RawValue>> =
                serde_json::from_slice(msg.payload).unwrap_or_default();
            for (server, said) in answer {
                if let Ok(used) = serde_json::from_str(said.get()) {
                    by_server.insert(server, used);
                }
            }
        }
        batch.clear();
        let mut all = BTreeMap::<String, Bytes>::new();
        for (tier, bytes) in by_server.values().flat_map(AccountUse::bytes) {
            let sum = all.entry(tier).or_default();
            *sum = [0, 1].map(|at| sum[at].saturating_add(bytes[at]));
        }
        if let Some(account) = self.account.upgrade() {
            account.budgets().set_elsewhere(all);
        }
    }
}

impl Meta {
    /// Adds to what an account uses here what others have said last, if they were asked.
    pub(super) fn add_known_use(&self, account: &str, info: &mut AccountInfo) {
        let asked = lock(&self.watched.uses.0);
        let Some(one) = asked.get(account) else { return };
        for used in lock(&one.answers.by_server).values() {
            for of_tier in used.tiers.values() {
                info.whole.memory += of_tier.memory;
                info.whole.storage += of_tier.storage;
            }
            info.api.total += used.total;
            info.api.errors += used.errors;
        }
    }

    /// Asks other servers about accounts with limits of which more or less is stored here than when
    /// they were asked last, and now and then about all: elsewhere there may be more room.
    pub(super) fn look_at_uses(&self, jetstream: &JetStream) {
        let limited: BTreeMap<_, _> = jetstream
            .accounts()
            .into_iter()
            .filter(|account| account.budgets().has_limit())
            .map(|account| (account.account().name().to_owned(), account))
            .collect();
        let mut asked = lock(&self.watched.uses.0);
        asked.retain(|name, one| {
            let is_limited = limited.contains_key(name);
            if !is_limited {
                self.groups.account.unbind(&one.binding);
            }
            is_limited
        });
        let servers = self.servers();
        for (name, account) in limited {
            let stored = account.budgets().used();
            let one = asked.entry(name.clone()).or_insert_with(|| {
                let reply = format!("_answer_.{}.{}", self.groups.me, jetstream.host.unique_id());
                let by_server = Mutex::default();
                let answers = Arc::new(UseElsewhere { account: Arc::downgrade(&account), by_server });
                let service = Arc::clone(&answers) as Arc<dyn Service>;
                let binding = self.groups.account.bind(reply.as_bytes(), service);
                AskedUse { stored: [-1, -1], passes: 0, answers, reply, binding }
            });
            one.passes = (one.passes + 1) % ASK_ANYWAY;
            if std::mem::replace(&mut one.stored, stored) != stored || one.passes == 0 {
                // One that was removed stores nothing for the cluster.
                lock(&one.answers.by_server).retain(|name, _| servers.contains(name));
                self.ask_for_use(&name, &one.reply);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_of_servers_add_up_tier_by_tier() {
        let of = |tier: &str, storage, total| AccountUse {
            tiers: [(tier.to_owned(), TierUse { storage, ..TierUse::default() })].into(),
            total,
            errors: 1,
        };
        let mut used = of("R3", 10, 1);
        used.add(of("R3", 11, 2));
        used.add(of("R1", 5, 4));
        let expected = AccountUse {
            tiers: [of("R3", 21, 0), of("R1", 5, 0)].into_iter().flat_map(|one| one.tiers).collect(),
            total: 7,
            errors: 3,
        };
        assert_eq!(used, expected);
    }
}
