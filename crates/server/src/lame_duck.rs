//! Lame duck mode: clients are told to leave, then closed one after the other, so that they do not
//! all come to the next server at once.

use crate::logging::Logger;
use myelin_broker::Broker;
use myelin_wire::error::CloseReason;
use std::time::Duration;

/// Longest wait between two clients: few clients do not make the server linger.
const LONGEST_STEP: Duration = Duration::from_secs(1);

/// Waits `grace`, then closes all clients spread over what `duration` leaves.
pub(crate) async fn run(broker: &Broker, log: &Logger, duration: Duration, grace: Duration) {
    if broker.connections().is_empty() {
        return;
    }
    tokio::time::sleep(grace).await;
    log.info("Closing existing clients");
    let clients = broker.connections();
    if clients.is_empty() {
        return;
    }
    let step = (duration.saturating_sub(grace) / clients.len() as u32).min(LONGEST_STEP);
    for conn in &clients {
        conn.close(CloseReason::ServerShutdown);
        tokio::time::sleep(step).await;
    }
}
