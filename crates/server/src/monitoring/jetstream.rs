//! JetStream in monitoring's words.

use super::{Configured, cluster};
use crate::jetstream::now;
use jiff::Timestamp;
use myelin_broker::Broker;
use myelin_jetstream::{AccountStreams, JetStream, LiveStream};
use myelin_jsapi::api::consumer::ConsumerInfo;
use myelin_jsapi::api::info::ClusterInfo;
use myelin_monitor::{
    ApiStats, JetStreamAccount, JetStreamConfig, JetStreamSnapshot, JetStreamStats, JournalSnapshot, Json,
    StorageAllowance, StoredAccount, StoredStream, StreamFailure, StreamParts, StreamSnapshot,
};
use myelin_wire::json::compact;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;

/// How long something waits for room on the disk before the server is not healthy for it.
const WAITS_LONG: Duration = Duration::from_secs(10);

/// JetStream as a whole.
pub(super) fn snapshot(jetstream: &JetStream, configured: &Configured) -> JetStreamSnapshot {
    let accounts: Vec<_> = enabled(jetstream);
    let [memory, files] = jetstream.used();
    let [reserved_memory, reserved_storage] = jetstream.reserved().map(i64::unsigned_abs);
    let (total, errors) = jetstream.calls();
    let room = jetstream.limits();
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    JetStreamSnapshot {
        config: JetStreamConfig {
            max_memory: signed(room.max_memory),
            max_storage: signed(room.max_store),
            ..configured.jetstream.clone()
        },
        limits: configured.jetstream_limits.clone(),
        stats: JetStreamStats {
            memory,
            storage: files,
            reserved_memory,
            reserved_storage,
            accounts: accounts.len(),
            ha_assets: jetstream.ha_assets(),
            api: ApiStats { level: crate::lifecycle::API_LEVEL as u32, total, errors, inflight: 0 },
        },
        leads_meta: !jetstream.is_clustered() || jetstream.meta_group().is_some_and(|meta| meta.leads),
        meta: jetstream.meta_group().map(cluster::meta_group),
    }
}

/// State of the journal: what a loss of power would take.
pub(super) fn journal(jetstream: &JetStream) -> JournalSnapshot {
    let now = now().unsigned_abs();
    let counted = jetstream.journal().statistics(now);
    let waiting = jetstream.journal().waiting(now);
    JournalSnapshot {
        loss_window: counted.loss.now,
        loss_window_max: counted.loss.max,
        positions_window: counted.positions.now,
        positions_window_max: counted.positions.max,
        rounds: counted.rounds,
        waiting_erasures: waiting.map_or(0, |waiting| waiting.overwritten),
        carries_refused: counted.carries_refused,
        sync_times: counted.spread.syncs,
        round_times: counted.spread.rounds,
        round_bytes: counted.spread.bytes,
    }
}

/// Work that a full disk keeps from being done, in words; what has waited for a moment only is
/// none.
pub(super) fn waits_for_room(jetstream: &JetStream) -> Option<String> {
    let waiting = jetstream.journal().waiting(now().unsigned_abs())?;
    (Duration::from_nanos(waiting.age) >= WAITS_LONG).then(|| format!("JetStream {waiting}"))
}

/// All accounts that may use it.
pub(super) fn accounts(jetstream: &JetStream, broker: &Broker) -> Vec<JetStreamAccount> {
    let trusted = broker.trusted();
    let named = |sums: JetStreamAccount| {
        let account = trusted.as_ref().and_then(|trusted| trusted.get(&sums.name));
        JetStreamAccount { tag: account.map(|one| one.name_tag().to_owned()).unwrap_or(sums.tag), ..sums }
    };
    enabled(jetstream).iter().map(|account| named(sums(jetstream, account))).collect()
}

/// Accounts that may use it.
pub(super) fn enabled(jetstream: &JetStream) -> Vec<Arc<AccountStreams>> {
    let mut accounts = jetstream.accounts();
    accounts.retain(|account| account.limits().is_some());
    accounts
}

fn sums(jetstream: &JetStream, account: &AccountStreams) -> JetStreamAccount {
    let info = jetstream.known_info(account);
    let used = info.whole;
    let allowance = StorageAllowance { memory: used.limits.max_memory, storage: used.limits.max_storage };
    let mut sums = JetStreamAccount {
        name: account.account().name().to_owned(),
        tag: account.account().name().to_owned(),
        memory: used.memory,
        storage: used.storage,
        allowance: info.tiers.is_empty().then_some(allowance),
        api_total: info.api.total,
        api_errors: info.api.errors,
        streams: used.streams as usize,
        consumers: used.consumers as usize,
        ..JetStreamAccount::default()
    };
    for stream in account.streams() {
        let totals = stream.reader().state().totals;
        sums.messages += totals.messages;
        sums.bytes += totals.bytes;
        if jetstream.leads(&stream) {
            sums.streams_led += 1;
            sums.consumers_led += stream.consumers().count();
        }
    }
    sums
}

/// The streams of one account.
pub(super) fn streams(jetstream: &JetStream, account: &str, parts: StreamParts) -> Vec<StreamSnapshot> {
    let Some(account) = jetstream.account(account) else { return Vec::new() };
    account.streams().iter().filter_map(|stream| one(jetstream, stream, parts)).collect()
}

fn one(jetstream: &JetStream, stream: &LiveStream, parts: StreamParts) -> Option<StreamSnapshot> {
    let (mirror, sources) = stream.sourcing_info();
    let place = jetstream.place_of(stream);
    let config = stream.config();
    let consumers = ListedConsumers::of(stream, parts, |info| {
        let place = jetstream.place_of_known((&place, &config), info).filter(|_| jetstream.is_clustered());
        place.zip(jetstream.raft_group_of_consumer(stream, info))
    });
    Some(StreamSnapshot {
        cluster: json(compact(&place))?,
        is_led_here: jetstream.leads(stream),
        consumer_raft_groups: consumers.groups,
        raft_group: jetstream.raft_group_of(stream).unwrap_or_default(),
        name: stream.name().to_owned(),
        created: Timestamp::from_nanosecond(stream.created().into()).unwrap_or_default(),
        config: if parts.config { Some(json(compact(&*stream.config()))?) } else { None },
        state: json(compact(&stream.state(false)))?,
        mirror: mirror.and_then(|mirror| json(compact(&mirror))),
        sources: sources.iter().filter_map(|source| json(compact(source))).collect(),
        consumers: consumers.of_clients,
        direct_consumers: consumers.direct,
    })
}

/// Consumers of a stream as a page lists them.
#[derive(Default)]
struct ListedConsumers {
    of_clients: Vec<Json>,
    /// Consumers by which mirrors and sources copy.
    direct: Vec<Json>,
    /// Names of those of clients, and of their groups.
    groups: Vec<(String, String)>,
}

impl ListedConsumers {
    /// `place_of`: place of a consumer, and the name of its group, where the server is in a
    /// cluster.
    fn of(
        stream: &LiveStream,
        parts: StreamParts,
        place_of: impl Fn(&ConsumerInfo) -> Option<(ClusterInfo, String)>,
    ) -> Self {
        let mut listed = Self::default();
        let all = if parts.consumers { stream.known_consumers() } else { Vec::new() };
        for mut info in all {
            let is_direct = info.config.as_ref().is_some_and(|config| config.direct);
            if is_direct && !parts.direct_consumers {
                continue;
            }
            if let Some((place, group)) = place_of(&info) {
                info.cluster = Some(place);
                if !is_direct {
                    listed.groups.push((info.name.clone(), group));
                }
            }
            if !parts.config {
                info.config = None;
            }
            let list = if is_direct { &mut listed.direct } else { &mut listed.of_clients };
            list.extend(json(compact(&info)));
        }
        listed
    }
}

/// Whether a stream has a consumer of this name.
pub(super) fn has_consumer(jetstream: &JetStream, account: &str, stream: &str, consumer: &str) -> bool {
    let stream = jetstream.account(account).and_then(|account| account.stream(stream));
    stream.is_some_and(|stream| stream.has_consumer(consumer))
}

fn json(text: Vec<u8>) -> Option<Json> {
    String::from_utf8(text).ok().and_then(|text| RawValue::from_string(text).ok())
}

/// Accounts and streams in the store, beside those that run.
pub(super) fn stored(jetstream: &JetStream, account: Option<&str>) -> Vec<StoredAccount> {
    let mut accounts = enabled(jetstream);
    accounts.retain(|found| account.is_none_or(|wanted| found.account().name() == wanted));
    // Compat: one whose streams are all on other servers of the cluster is found here, too.
    let is_elsewhere = |account: &StoredAccount| jetstream.has_assigned(&account.name);
    let accounts = accounts.iter().map(|account| StoredAccount {
        name: account.account().name().to_owned(),
        streams: checked_streams(account, jetstream.is_clustered()),
        ..StoredAccount::default()
    });
    accounts.filter(|account| !account.streams.is_empty() || is_elsewhere(account)).collect()
}

/// Streams of an account that `/healthz` looks at.
///
/// Compat: a server alone looks at what lies in its store, one of a cluster at what it was
/// assigned, which streams in memory are as well.
fn checked_streams(account: &AccountStreams, is_clustered: bool) -> Vec<StoredStream> {
    let streams = account.streams();
    let running = streams.iter().filter(|stream| is_clustered || stream.is_stored());
    let running = running.map(|stream| StoredStream {
        name: stream.name().to_owned(),
        failure: stream.failure().map(StreamFailure::Write),
        lost: stream.lost_messages(),
    });
    let missing = account.unrestored().into_iter();
    let failure = Some(StreamFailure::NotRecovered);
    let missing = missing.map(|name| StoredStream { name, failure: failure.clone(), lost: 0 });
    let mut all: Vec<_> = running.chain(missing).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Whether an account may use JetStream.
pub(super) fn is_enabled(jetstream: &JetStream, account: &str) -> bool {
    jetstream.account(account).is_some_and(|account| account.limits().is_some())
}

/// A moment as Go's JSON writes it.
pub(super) fn rfc3339(moment: i64) -> String {
    Timestamp::from_nanosecond(moment.into()).unwrap_or_default().to_string()
}
