//! Environment of a consumer's turn: who listens around it, and who is behind.

use crate::engine::host::Host;
use myelin_broker::{Account, AwaitedReceiver, Service, ServiceShard};
use myelin_streams::consumer::{Env, SlowReceiver};
use std::sync::Arc;

/// Answers to the questions of a turn.
pub(super) struct ShardEnv<'a> {
    pub(super) account: &'a Arc<Account>,
    pub(super) host: &'a dyn Host,
    pub(super) shard: Option<&'a mut ServiceShard>,
    pub(super) me: Option<Arc<dyn Service>>,
}

impl Env for ShardEnv<'_> {
    fn has_interest(&self, subject: &[u8]) -> bool {
        self.account.has_interest(subject)
    }

    fn listens(&self, subject: &[u8], group: Option<&[u8]>) -> bool {
        self.account.has_listener(subject, group)
    }

    fn is_congested(&mut self, subject: &[u8]) -> bool {
        match (&mut self.shard, &self.me) {
            (Some(shard), Some(me)) => shard.is_congested(self.account, subject, me),
            // Only shards deliver.
            _ => true,
        }
    }

    fn awaited_receiver(&self, subject: &[u8]) -> Option<SlowReceiver> {
        let AwaitedReceiver { cid, pending, bound } =
            self.account.awaited_receiver(subject, self.me.as_ref()?)?;
        Some(SlowReceiver { conn: cid, bytes: pending as u64, bound: bound as u64 })
    }

    fn unique_id(&self) -> String {
        self.host.unique_id()
    }
}
