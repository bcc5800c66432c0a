//! Tells of replicas that have lost something, and of those that have got it back.

use super::Meta;
use crate::engine::JetStream;
use crate::engine::cluster::RepairCounters;
use crate::engine::live::LiveStream;
use myelin_jsapi::advisory::damage::{ReplicaNews, stream_replica};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Counts of replicas of a server since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaRepairs {
    /// Replicas that were found damaged.
    pub damaged: u64,
    /// Replicas that were not as most of their group, though their logs are the same.
    pub disagreed: u64,
    /// Replicas of both kinds that have got all from another server.
    pub repaired: u64,
}

impl Meta {
    /// The replica of a stream on this server was found damaged, or not as most of its group are.
    pub(super) fn report_replica(
        &self,
        jetstream: &Arc<JetStream>,
        (account, stream): (&str, &str),
        news: ReplicaNews,
    ) {
        let RepairCounters { damaged, disagreed, .. } = &jetstream.cluster.repairs;
        let counter = if news == ReplicaNews::Disagreed { disagreed } else { damaged };
        counter.fetch_add(1, Relaxed);
        let live = match self.is_meta(account, stream) {
            true => Some(self.live()),
            false => jetstream.account(account).and_then(|account| account.stream(stream)),
        };
        live.into_iter().for_each(|live| jetstream.tell_of_replica(&live, news));
    }
}

impl JetStream {
    /// A replica here that was damaged, or not as others, has all from another server.
    pub(in crate::engine) fn is_repaired(&self, live: &LiveStream) {
        self.cluster.repairs.repaired.fetch_add(1, Relaxed);
        self.tell_of_replica(live, ReplicaNews::Repaired);
    }

    fn tell_of_replica(&self, live: &LiveStream, news: ReplicaNews) {
        let (server, cluster) = (&self.settings.server_name, self.host.cluster());
        self.tell_both(live.account(), |header, account| {
            stream_replica(header, news, (account, live.name()), (server, &cluster))
        });
    }

    /// Counts of what became of replicas of this server since its start.
    #[must_use]
    pub fn repairs(&self) -> ReplicaRepairs {
        let RepairCounters { damaged, disagreed, repaired } = &self.cluster.repairs;
        let [damaged, disagreed, repaired] = [damaged, disagreed, repaired].map(|count| count.load(Relaxed));
        ReplicaRepairs { damaged, disagreed, repaired }
    }
}
