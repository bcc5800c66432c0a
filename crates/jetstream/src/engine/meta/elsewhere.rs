//! Bytes that accounts store on other servers, which their limits count, too.
//!
//! Where an account has a limit and what it stores here has changed, others are asked, once in a
//! while; nobody waits for the answers. So a limit may be exceeded by what comes meanwhile, as with
//! nats-server, whose servers tell each other now and then. Of a server that does not answer counts
//! what it said last.

use super::Meta;
use super::account_use::AccountUse;
use crate::engine::JetStream;
use crate::engine::account::AccountStreams;
use crate::engine::account::budgets::Bytes;
use myelin_broker::{Binding, Service, ServiceBatch, ServiceShard};
use myelin_stdx::sync::lock;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

/// What other servers were asked about accounts, by the names of these.
#[derive(Default)]
pub(super) struct UsesElsewhere(Mutex<BTreeMap<String, AskedUse>>);

struct AskedUse {
    /// What the account stored here when others were asked.
    stored: Bytes,
    reply: String,
    binding: Arc<Binding>,
}

/// Takes what other servers say of one account.
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
    /// Asks other servers about accounts with limits of which more or less is stored here than when
    /// they were asked last.
    pub(super) fn look_at_uses(&self, jetstream: &JetStream) {
        let limited: BTreeMap<_, _> = jetstream
            .accounts()
            .into_iter()
            .filter(|account| account.budgets().has_limit())
            .map(|account| (account.account().name().to_owned(), account))
            .collect();
        let mut asked = lock(&self.uses.0);
        asked.retain(|name, one| {
            let is_limited = limited.contains_key(name);
            if !is_limited {
                self.groups.account.unbind(&one.binding);
            }
            is_limited
        });
        for (name, account) in limited {
            let stored = account.budgets().used();
            let one = asked.entry(name.clone()).or_insert_with(|| {
                let reply = format!("_answer_.{}.{}", self.groups.me, jetstream.host.unique_id());
                let by_server = Mutex::default();
                let service = Arc::new(UseElsewhere { account: Arc::downgrade(&account), by_server });
                let binding = self.groups.account.bind(reply.as_bytes(), service as Arc<dyn Service>);
                AskedUse { stored: [-1, -1], reply, binding }
            });
            if std::mem::replace(&mut one.stored, stored) != stored {
                self.ask_for_use(&name, &one.reply);
            }
        }
    }
}
