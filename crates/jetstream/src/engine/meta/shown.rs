//! Part of a server in its cluster, as monitoring shows it beside the groups themselves: names of
//! groups of one member, which no answer of the API has, and what is known without asking anybody.

use super::peer_of;
use crate::engine::account::AccountStreams;
use crate::engine::{JetStream, LiveStream};
use myelin_jsapi::api::info::{AccountInfo, ClusterInfo};
use myelin_jsapi::config::{Storage, StreamConfig};
use myelin_jsapi::consumer::config::ConsumerConfig;

impl JetStream {
    /// Name of a stream's group, which one without replicas has, too; empty where the server is
    /// alone.
    pub fn shown_group_of(&self, live: &LiveStream) -> String {
        let assignment = self.meta().and_then(|meta| meta.view().get(live.account_name(), live.name()));
        assignment.map(|assignment| assignment.group.name.clone()).unwrap_or_default()
    }

    /// Name of the group of a consumer that is at `place`; empty where its stream's group,
    /// `of_stream`, is.
    ///
    /// Compat: one without replicas has a group as well. Tools know consumers by these names, so
    /// that no two may have the same.
    pub fn shown_group_of_consumer(
        &self,
        (name, place): (&str, &ClusterInfo),
        of_stream: &str,
        (stream, config): (&StreamConfig, &ConsumerConfig),
    ) -> String {
        if of_stream.is_empty() || !place.raft_group.is_empty() {
            return place.raft_group.clone();
        }
        let is_in_memory = config.mem_storage || stream.storage == Storage::Memory;
        let (replicas, storage) = (config.replicas(stream), if is_in_memory { 'M' } else { 'F' });
        let id = peer_of(&format!("{of_stream} > {name}")).map(|id| id.to_string()).unwrap_or_default();
        format!("C-R{replicas}{storage}-{id}")
    }

    /// Whether the cluster has streams of an account, on whichever of its servers.
    pub fn has_assigned(&self, account: &str) -> bool {
        self.meta().is_some_and(|meta| !meta.view().of_account(account).is_empty())
    }

    /// Bytes that streams of accounts take, in memory and in files: without the meta group's log,
    /// which counts in what the server may use.
    pub fn used_by_accounts(&self) -> [u64; 2] {
        let [memory, files] = self.used();
        let own = self.meta().map_or(0, |meta| meta.live().reader().state().totals.bytes);
        [memory, files.saturating_sub(own)]
    }

    /// Info of an account as this server knows it: its own part, and of an account with limits of
    /// storage what others take and were asked, as they have said last.
    pub fn known_info(&self, account: &AccountStreams) -> AccountInfo {
        let mut info = account.info(&self.settings.domain);
        if let Some(meta) = self.meta() {
            meta.add_known_use(account.account().name(), &mut info);
        }
        info
    }
}
