//! Figures of streams and consumers for `/metrics`.

use super::jetstream::enabled;
use crate::jetstream::now;
use jiff::Timestamp;
use myelin_conf::options::MetricsOptions;
use myelin_jetstream::{JetStream, LiveStream, WaitingSince};
use myelin_jsapi::api::consumer::ConsumerInfo;
use myelin_jsapi::api::info::SourceInfo;
use myelin_monitor::{ConsumerFigures, MetricsConfig, MostFigures, SourceFigures, StreamFigures};
use std::sync::Arc;
use std::time::Duration;

/// Configuration of the page.
pub(super) fn configured(options: &MetricsOptions) -> MetricsConfig {
    MetricsConfig {
        prefix: options.prefix.clone(),
        max_connections: options.max_connections as usize,
        max_accounts: options.max_accounts as usize,
        max_streams: options.max_streams as usize,
        max_consumers: options.max_consumers as usize,
    }
}

/// Figures of the streams of one account, no more than these.
pub(super) fn streams(jetstream: &JetStream, account: &str, most: MostFigures) -> Vec<StreamFigures> {
    let accounts = enabled(jetstream);
    let Some(account) = accounts.iter().find(|found| found.account().name() == account) else {
        return Vec::new();
    };
    let mut streams = account.streams();
    streams.sort_unstable_by(|a, b| a.name().cmp(b.name()));
    let mut consumers = most.consumers;
    let streams = streams.iter().take(most.streams).map(|stream| {
        let figures = one(jetstream, stream, consumers);
        consumers -= figures.consumers.len();
        figures
    });
    streams.collect()
}

fn one(jetstream: &JetStream, stream: &Arc<LiveStream>, most_consumers: usize) -> StreamFigures {
    let (config, state, place) = (stream.config(), stream.state(false), jetstream.place_of(stream));
    let (mirror, sources) = stream.sourcing_info();
    let mut all = if most_consumers > 0 { stream.known_standings() } else { Vec::new() };
    // Those by which mirrors and sources copy are shown to nobody.
    all.retain(|(config, _)| !config.direct);
    all.truncate(most_consumers);
    let waiting = stream.waiting_since(&all);
    let now = now();
    // Consumers are where their stream is, and go on where that does.
    let leader = jetstream.is_clustered().then_some(&place.leader);
    let consumers = all.into_iter().zip(waiting).map(|((config, info), waiting)| ConsumerFigures {
        leader: leader.cloned(),
        description: config.description.clone(),
        ..consumer(info, waiting, now)
    });
    StreamFigures {
        name: stream.name().to_owned(),
        consumers: consumers.collect(),
        leader: place.leader.clone(),
        raft_group: jetstream.raft_group_of(stream).unwrap_or_default(),
        is_in_memory: !stream.is_stored(),
        messages: state.messages,
        bytes: state.bytes,
        sequences: [state.first_seq, state.last_seq],
        oldest: (state.messages > 0)
            .then(|| Timestamp::from_nanosecond(state.first_ts.into()).ok())
            .flatten(),
        subjects: state.num_subjects,
        holes: state.num_deleted,
        lost: stream.lost_messages(),
        limits: [config.max_msgs, config.max_bytes],
        consumer_count: state.consumer_count,
        mirror: mirror.map(|mirror| source(mirror, now)),
        sources: sources.into_iter().map(|info| source(info, now)).collect(),
    }
}

/// Time that has passed since a moment; none if it is still to come.
fn age(moment: i64, now: i64) -> Duration {
    Duration::from_nanos(now.saturating_sub(moment).max(0).unsigned_abs())
}

/// How long messages wait that are so many, since a moment if it is known.
fn lag_time(messages: u64, since: Option<i64>, now: i64) -> Option<Duration> {
    if messages == 0 { Some(Duration::ZERO) } else { since.map(|since| age(since, now)) }
}

fn source(info: SourceInfo, now: i64) -> SourceFigures {
    let (api, deliver) = info.external.map(|external| (external.api, external.deliver)).unzip();
    SourceFigures {
        name: info.name,
        api: api.unwrap_or_default(),
        deliver: deliver.unwrap_or_default(),
        lag: info.lag,
        active: info.active,
        lag_time: lag_time(info.lag, info.waits_since, now),
    }
}

fn consumer(info: ConsumerInfo, waiting: WaitingSince, now: i64) -> ConsumerFigures {
    let since = |moment: Option<i64>| moment.map(|moment| age(moment, now));
    ConsumerFigures {
        name: info.name,
        delivered: [info.delivered.consumer_seq, info.delivered.stream_seq],
        ack_floor: [info.ack_floor.consumer_seq, info.ack_floor.stream_seq],
        since_delivery: since(info.delivered.last_active),
        since_ack: since(info.ack_floor.last_active),
        ack_pending: info.num_ack_pending,
        redelivered: info.num_redelivered,
        waiting: info.num_waiting,
        pending: info.num_pending,
        lag_time: lag_time(info.num_pending, waiting.delivery, now),
        unacknowledged_for: since(waiting.acknowledgement),
        is_paused: info.paused,
        ..ConsumerFigures::default()
    }
}
