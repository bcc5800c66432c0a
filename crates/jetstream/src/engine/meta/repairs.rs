//! Tells of replicas that have lost something, and of those that have got it back.

use super::Meta;
use crate::engine::JetStream;
use crate::engine::live::LiveStream;
use myelin_jsapi::advisory::damage::{ReplicaNews, stream_replica};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Meta {
    /// The replica of a stream on this server was found damaged.
    pub(super) fn report_damage(&self, jetstream: &Arc<JetStream>, account: &str, stream: &str) {
        jetstream.cluster.repairs.damaged.fetch_add(1, Relaxed);
        let live = match self.is_meta(account, stream) {
            true => Some(self.live()),
            false => jetstream.account(account).and_then(|account| account.stream(stream)),
        };
        live.into_iter().for_each(|live| jetstream.tell_of_replica(&live, ReplicaNews::Damaged));
    }
}

impl JetStream {
    /// A replica here that was damaged has all from another server.
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

    /// How many replicas of this server were found damaged since its start, and how many of those
    /// have got all from another server.
    #[must_use]
    pub fn damaged_and_repaired(&self) -> (u64, u64) {
        let counters = &self.cluster.repairs;
        (counters.damaged.load(Relaxed), counters.repaired.load(Relaxed))
    }
}
