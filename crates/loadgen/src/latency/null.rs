//! Share of the driver itself in a latency: a run's load as round trips with a server that does
//! nothing but answer.
//!
//! The server is a thread for each connection in this process. What remains is the driver, the
//! wake-up of another thread and the kernel's loopback twice; no server can be seen to be faster
//! than that.

use std::time::Duration;

use crate::connection::address::Address;
use crate::error::BenchError;
use crate::latency::{LatencyMode, LatencySettings, run};
use crate::workloads::null::Answering;

/// Longer runs say no more.
pub const LONGEST: Duration = Duration::from_secs(1);

/// Latencies of this load as round trips with a server that does nothing, in words.
pub fn of(settings: &LatencySettings) -> Result<String, BenchError> {
    let server = Answering::start()?;
    let outcome = run(&LatencySettings {
        server: (&Address::loopback(server.port())).into(),
        mode: LatencyMode::Request,
        warming: settings.warming.min(LONGEST / 4),
        duration: settings.duration.min(LONGEST),
        responders: 0,
        meter: None,
        ..settings.clone()
    })?;
    let at = |quantile| outcome.from_planned.microseconds(quantile);
    Ok(format!(
        "round trips with a server that does nothing: p50 {:.1} us, p99 {:.1} us, longest {:.1} us",
        at(0.5),
        at(0.99),
        at(1.0)
    ))
}
