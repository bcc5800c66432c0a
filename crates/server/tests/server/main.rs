//! The built program under test: a process on a free port, driven by the official Rust client and
//! by raw sockets.
//!
//! Every test starts its own server and waits for conditions, never for time; [`PATIENCE`] is only
//! what a failing test costs.

mod accounts;
mod advisories;
mod authentication;
mod budget;
mod cable;
mod callout;
mod capacity;
mod certificates;
mod client;
mod cluster;
mod cluster_jetstream;
mod commandline;
mod dashboard;
mod documented;
mod floods;
mod gateways;
mod hostile;
mod identity;
mod jetstream;
mod leafs;
mod lifecycle;
mod logging;
mod message_trace;
mod monitoring;
mod mqtt;
mod order;
#[cfg(debug_assertions)]
mod panics;
mod process;
mod proxied;
mod proxies;
mod queues;
mod raw;
mod reload;
mod resolving;
mod resources;
mod responder;
mod revocation;
mod routes;
mod slow;
mod supervised;
mod system;
mod tls;
mod websocket;
mod wording;

use std::time::{Duration, Instant};

/// How long anything may take that a server is expected to do, on a machine that is busy with other
/// things.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `condition` holds; `what` names it in the failure.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for a future as long as a test is patient; `what` names it in the failure.
async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {PATIENCE:?}: {what}"),
    }
}
