//! Messages at planned times, and what a server needs for them.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use myelin_loadgen::connection::address::Address;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::jetstream::stream::LoadStorage;
use myelin_loadgen::latency;
use myelin_loadgen::meter::Meter;
use serde::Deserialize;

use crate::servers::process::{Server, Syncing};
use crate::servers::scratch::Scratch;

/// Path of a message whose latency is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FromTo {
    /// A request and its answer of the same size.
    Request,
    /// A message from its publisher to a subscriber, without a stream.
    Subscriber,
    /// A message from its publisher into a stream, and its acknowledgement.
    Ack,
    /// A message from its publisher through a stream to a consumer.
    Consumer,
}

/// Messages at planned times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Latency {
    pub(crate) from_to: FromTo,
    /// Messages per second, all connections together.
    pub(crate) rate: u64,
    pub(crate) connections: usize,
    pub(crate) storage: LoadStorage,
    pub(crate) synced: bool,
    /// Bytes of every payload.
    pub(crate) size: usize,
}

/// Divisor of the measured time: messages warm up for one such part before they are counted.
const WARMING: u32 = 10;

impl Latency {
    /// Starts a NATS server that is as the load needs it.
    pub(crate) fn server(&self, binary: &Path, scratch: &Scratch) -> Result<Server, BenchError> {
        match self.from_to {
            FromTo::Request | FromTo::Subscriber => Server::start(binary),
            FromTo::Ack | FromTo::Consumer => {
                let syncing = if self.synced { Syncing::Always } else { Syncing::AsItLikes };
                Server::with_streams(binary, scratch, syncing)
            }
        }
    }

    /// Name of such a load without a server, and the latencies that the driver alone adds to it.
    pub(crate) fn null(&self) -> Result<(String, String), BenchError> {
        let settings = self.settings(&Address::loopback(0), latency::null::LONGEST, None);
        Ok((format!("driver alone, {}", settings.load()), latency::null::of(&settings)?))
    }

    /// A run of this long against a NATS server.
    pub(crate) fn settings(
        &self,
        server: &Address,
        duration: Duration,
        meter: Option<Meter>,
    ) -> latency::LatencySettings {
        let mode = match self.from_to {
            FromTo::Request => latency::LatencyMode::Request,
            FromTo::Subscriber => latency::LatencyMode::PubSub,
            FromTo::Ack => latency::LatencyMode::JsAck,
            FromTo::Consumer => latency::LatencyMode::JsConsume,
        };
        latency::LatencySettings {
            server: server.into(),
            mode,
            size: self.size,
            rate: self.rate,
            connections: self.connections,
            outstanding: mode.usual_outstanding(),
            warming: duration / WARMING,
            duration,
            subject: "latency".into(),
            storage: self.storage,
            responders: 1,
            meter,
        }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from_to, rate, connections, storage, synced, size } = self;
        let synced = if *synced { ", synced before acknowledgements" } else { "" };
        let place = match from_to {
            FromTo::Request => "request to answer".to_owned(),
            FromTo::Subscriber => "publisher to subscriber".to_owned(),
            FromTo::Ack => format!("publisher to acknowledgement, {storage:?}{synced}"),
            FromTo::Consumer => format!("publisher to consumer, {storage:?}{synced}"),
        };
        write!(f, "latency, {place}, {rate}/s over {connections} connections, {size} B")
    }
}
