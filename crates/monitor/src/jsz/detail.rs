//! One account in `/jsz`, and its streams when they were asked for.

use serde::Serialize;

use crate::snapshot::{ApiStats, JetStreamAccount, JetStreamStats, Json, PageHeader, StreamSnapshot};
use crate::text::utc;

#[derive(Serialize)]
pub(super) struct AccountDetail<'a> {
    name: &'a str,
    id: &'a str,
    #[serde(flatten)]
    stats: JetStreamStats,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stream_detail: Vec<StreamDetail<'a>>,
}

impl<'a> AccountDetail<'a> {
    pub(super) fn of(
        account: &'a JetStreamAccount,
        streams: Vec<StreamSnapshot>,
        page_header: &'a PageHeader,
    ) -> Self {
        let name = if account.tag.is_empty() { &account.name } else { &account.tag };
        Self {
            name,
            id: &account.name,
            stats: stats(account),
            stream_detail: streams.into_iter().map(|stream| StreamDetail::of(stream, page_header)).collect(),
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
struct StreamDetail<'a> {
    name: String,
    created: String,
    cluster: Cluster<'a>,
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
}

/// Compat: a single server leads a cluster, be it one without a name.
#[derive(Serialize)]
struct Cluster<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    leader: &'a str,
}

impl<'a> StreamDetail<'a> {
    fn of(stream: StreamSnapshot, page_header: &'a PageHeader) -> Self {
        Self {
            name: stream.name,
            created: utc(stream.created),
            cluster: Cluster { name: &page_header.cluster, leader: &page_header.server_name },
            config: stream.config,
            state: stream.state,
            consumer_detail: stream.consumers,
            direct_consumer_detail: stream.direct_consumers,
            mirror: stream.mirror,
            sources: stream.sources,
        }
    }
}
