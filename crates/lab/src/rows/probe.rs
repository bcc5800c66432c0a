//! Messages at a steady rate: what clients see while something else is done to a server.

use std::time::Duration;

use myelin_loadgen::connection::address::Address;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::jetstream::stream::LoadStorage;
use myelin_loadgen::latency::{self, LatencyMode, LatencyOutcome, LatencySettings};

/// Messages a second.
const PROBED: u64 = 1000;

/// Latencies of messages between two clients of a server.
pub(crate) fn probe(address: &Address, duration: Duration) -> Result<LatencyOutcome, BenchError> {
    latency::run(&LatencySettings {
        server: address.into(),
        mode: LatencyMode::PubSub,
        size: 128,
        rate: PROBED,
        connections: 1,
        outstanding: None,
        warming: Duration::from_millis(200),
        duration,
        subject: "probe".into(),
        storage: LoadStorage::Memory,
        responders: 0,
        meter: None,
    })
}
