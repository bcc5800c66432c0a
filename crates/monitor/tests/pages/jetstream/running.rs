//! A JetStream with fixed values, made from what the real server shows of one.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use myelin_monitor::{
    ApiStats, Health, JetStreamAccount, JetStreamConfig, JetStreamSnapshot, JetStreamStats, Json,
    StorageAllowance, StoredAccount, StreamParts, StreamSnapshot, VarzJetStreamLimits,
};
use serde_json::Value;

use crate::fixture::Fixed;

/// JetStream of the fixed source: the values that its pages are made of.
#[derive(Default)]
pub(crate) struct Running {
    pub(crate) snapshot: JetStreamSnapshot,
    pub(crate) accounts: Vec<JetStreamAccount>,
    pub(crate) stored: Vec<StoredAccount>,
    pub(crate) waits_for_room: Option<String>,
    /// The `stream_detail` of each account.
    pub(crate) details: HashMap<String, Vec<Value>>,
    /// The accounts whose streams were asked for.
    pub(crate) asked: Mutex<Vec<(String, StreamParts)>>,
}

impl Running {
    /// From a page that shows everything. What the situation of the tests decides is not taken from
    /// there.
    pub(crate) fn of(page: &Value) -> Self {
        let details = page["account_details"].as_array().unwrap();
        Self {
            snapshot: snapshot(page),
            accounts: details.iter().map(account).collect(),
            details: details.iter().map(|one| (text(&one["name"]), streams(one).to_vec())).collect(),
            ..Self::default()
        }
    }

    /// A source in which this runs.
    pub(crate) fn source(self) -> Fixed {
        Fixed { jetstream: Some(self), health: Health::WithJetStream, ..Fixed::default() }
    }

    pub(crate) fn streams(&self, account: &str, parts: StreamParts) -> Vec<StreamSnapshot> {
        self.asked.lock().unwrap().push((account.to_owned(), parts));
        let details = self.details.get(account).map_or(&[][..], Vec::as_slice);
        details.iter().map(|detail| stream(detail, parts)).collect()
    }

    pub(crate) fn stored_accounts(&self, account: Option<&str>) -> Vec<StoredAccount> {
        let accounts = self.stored.iter();
        accounts.filter(|stored| account.is_none_or(|name| stored.name == name)).cloned().collect()
    }

    pub(crate) fn has_consumer(&self, account: &str, stream: &str, consumer: &str) -> bool {
        let mut streams = self.details.get(account).into_iter().flatten();
        let stream = streams.find(|detail| detail["name"] == stream);
        stream.is_some_and(|detail| list(&detail["consumer_detail"]).iter().any(|c| c["name"] == consumer))
    }
}

fn snapshot(page: &Value) -> JetStreamSnapshot {
    let config = JetStreamConfig {
        max_memory: 64 << 20,
        max_storage: 1 << 30,
        store_dir: text(&page["config"]["store_dir"]),
        sync_interval: Duration::from_secs(120),
        sync_always: true,
        domain: "hub".to_owned(),
        compress_ok: true,
        unique_tag: "az:".to_owned(),
        strict: true,
    };
    let limits = VarzJetStreamLimits {
        max_request_batch: 250,
        max_ack_pending: 5_000,
        max_ha_assets: 7,
        max_duplicate_window: Duration::from_secs(300),
        max_batch_inflight_per_stream: 3,
        max_batch_inflight_total: 4,
        max_batch_size: 5,
        max_batch_timeout: Duration::from_secs(6),
        default_max_consumers: 1_000,
    };
    JetStreamSnapshot { config, limits, stats: stats(page, 5), meta: None, leads_meta: true }
}

fn stats(of: &Value, level: u32) -> JetStreamStats {
    let count = |name: &str| of["api"][name].as_u64().unwrap();
    JetStreamStats {
        memory: number(&of["memory"]),
        storage: number(&of["storage"]),
        reserved_memory: number(&of["reserved_memory"]),
        reserved_storage: number(&of["reserved_storage"]),
        accounts: number(&of["accounts"]) as usize,
        ha_assets: 0,
        api: ApiStats { level, total: count("total"), errors: count("errors"), inflight: 0 },
    }
}

fn account(detail: &Value) -> JetStreamAccount {
    let stats = stats(detail, 0);
    let sum = |what: &str| streams(detail).iter().map(|stream| number(&stream["state"][what])).sum::<u64>();
    JetStreamAccount {
        name: text(&detail["id"]),
        tag: text(&detail["name"]),
        memory: stats.memory,
        storage: stats.storage,
        allowance: Some(StorageAllowance {
            memory: stats.reserved_memory as i64,
            storage: stats.reserved_storage as i64,
        }),
        api_total: stats.api.total,
        api_errors: stats.api.errors,
        streams: streams(detail).len(),
        streams_led: streams(detail).len(),
        consumers_led: sum("consumer_count") as usize,
        consumers: sum("consumer_count") as usize,
        messages: sum("messages"),
        bytes: sum("bytes"),
    }
}

/// A stream as the server would hand it out: on one line, and only with what was asked for.
fn stream(detail: &Value, parts: StreamParts) -> StreamSnapshot {
    let consumers = |key: &str, wanted: bool| {
        let all = list(&detail[key]).iter().filter(|_| wanted);
        all.map(|info| encoded(&without_config(info, parts))).collect()
    };
    StreamSnapshot {
        name: text(&detail["name"]),
        created: text(&detail["created"]).parse().unwrap(),
        config: parts.config.then(|| encoded(&detail["config"])),
        cluster: encoded(&detail["cluster"]),
        is_led_here: true,
        raft_group: String::new(),
        consumer_raft_groups: Vec::new(),
        state: encoded(&detail["state"]),
        mirror: detail.get("mirror").map(encoded),
        sources: list(&detail["sources"]).iter().map(encoded).collect(),
        consumers: consumers("consumer_detail", parts.consumers),
        direct_consumers: consumers("direct_consumer_detail", parts.direct_consumers),
    }
}

fn without_config(info: &Value, parts: StreamParts) -> Value {
    let mut info = info.clone();
    if !parts.config {
        info.as_object_mut().unwrap().shift_remove("config");
    }
    info
}

fn encoded(value: &Value) -> Json {
    serde_json::value::to_raw_value(value).unwrap()
}

fn streams(detail: &Value) -> &[Value] {
    list(&detail["stream_detail"])
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}
