//! Descriptions that nats-server writes of a stream and a consumer beside their messages:
//! `meta.inf`.

use super::state::{consumer_state, read_config};
use myelin_jsapi::config::StreamConfig;
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_jsapi::json::{self, parse_moment};
use myelin_natsfiles::consumer::NatsConsumerState;
use myelin_store::Timestamp;
use myelin_store::consumer::{ConsumerState, DeliverySeq, Pending, SequencePair};
use serde::Deserialize;

#[derive(Deserialize)]
struct Creation {
    #[serde(rename = "Created", default)]
    created: Option<String>,
}

/// When it was made; `None` if that is not said.
fn created(bytes: &[u8]) -> Option<Timestamp> {
    let creation: Creation = serde_json::from_slice(bytes).ok()?;
    let moment = parse_moment(creation.created?.as_bytes()).ok()?;
    Some(moment.timestamp()).filter(|nanos| *nanos > 0)
}

/// A stream's configuration, and when it was made.
pub(super) fn stream(bytes: &[u8]) -> Result<(StreamConfig, Option<Timestamp>), String> {
    let mut config = StreamConfig::default();
    json::lenient(bytes, "StreamConfig", &mut config)?;
    Ok((config, created(bytes)))
}

/// A consumer's configuration, and when it was made.
pub(super) fn consumer(bytes: &[u8]) -> Result<(ConsumerConfig, Option<Timestamp>), String> {
    Ok((read_config(bytes)?, created(bytes)))
}

/// A consumer's state; without one it begins where its stream does.
pub(super) fn state(state: Option<NatsConsumerState>) -> Result<ConsumerState, String> {
    let NatsConsumerState { delivered, ack_floor, pending, redelivered } = state.unwrap_or_default();
    let pair = |(consumer, stream)| SequencePair { consumer: DeliverySeq(consumer), stream };
    let pending = pending
        .into_iter()
        .map(|(seq, (delivery, timestamp))| (seq, Pending { delivery: DeliverySeq(delivery), timestamp }));
    consumer_state(pair(delivered), pair(ack_floor), pending, redelivered)
}
