//! One account in `/jsz`, and its streams when they were asked for.

use serde::Serialize;

use crate::snapshot::{ApiStats, JetStreamAccount, JetStreamStats, Json, StreamSnapshot};
use crate::text::utc;

#[derive(Serialize)]
pub(super) struct AccountDetail<'a> {
    name: &'a str,
    id: &'a str,
    #[serde(flatten)]
    stats: JetStreamStats,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stream_detail: Vec<StreamDetail>,
}

impl<'a> AccountDetail<'a> {
    pub(super) fn of(account: &'a JetStreamAccount, streams: Vec<StreamSnapshot>, with_groups: bool) -> Self {
        let name = if account.tag.is_empty() { &account.name } else { &account.tag };
        Self {
            name,
            id: &account.name,
            stats: stats(account),
            stream_detail: streams.into_iter().map(|stream| StreamDetail::of(stream, with_groups)).collect(),
        }
    }
}

/// Compat: an account has the keys of the whole server, some of which say nothing of it, and what
/// it may use at most is called reserved. No limit is -1, shown as an unsigned number.
fn stats(account: &JetStreamAccount) -> JetStreamStats {
    let (memory, storage) = account.allowance.map_or((0, 0), |most| (most.memory, most.storage));
    JetStreamStats {
        memory: account.memory,
        storage: account.storage,
        reserved_memory: memory.cast_unsigned(),
        reserved_storage: storage.cast_unsigned(),
        api: ApiStats { total: account.api_total, errors: account.api_errors, ..ApiStats::default() },
        ..JetStreamStats::default()
    }
}

#[derive(Serialize)]
struct StreamDetail {
    name: String,
    created: String,
    cluster: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<Json>,
    state: Json,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    consumer_detail: Vec<Json>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    direct_consumer_detail: Vec<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirror: Option<Json>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sources: Vec<Json>,
    #[serde(skip_serializing_if = "String::is_empty")]
    stream_raft_group: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    consumer_raft_groups: Vec<ConsumerGroup>,
}

/// Consumer with the name of its group.
#[derive(Serialize)]
struct ConsumerGroup {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    raft_group: String,
}

impl StreamDetail {
    fn of(stream: StreamSnapshot, with_groups: bool) -> Self {
        let groups = stream.consumer_raft_groups.into_iter().filter(|_| with_groups);
        Self {
            name: stream.name,
            created: utc(stream.created),
            cluster: stream.cluster,
            config: stream.config,
            state: stream.state,
            consumer_detail: stream.consumers,
            direct_consumer_detail: stream.direct_consumers,
            mirror: stream.mirror,
            sources: stream.sources,
            stream_raft_group: if with_groups { stream.raft_group } else { String::new() },
            consumer_raft_groups: groups
                .map(|(name, raft_group)| ConsumerGroup { name, raft_group })
                .collect(),
        }
    }
}
