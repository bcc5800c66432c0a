//! Lame duck mode: clients are told to leave, then closed one after the other, leaf nodes among
//! them, so that they do not all come to the next server at once.

use crate::logging::Logger;
use myelin_broker::{Broker, Conn};
use myelin_mesh::leaf::LeafNodes;
use myelin_wire::error::CloseReason;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait between two of them: few do not make the server linger.
const LONGEST_STEP: Duration = Duration::from_secs(1);

/// Clients, and links with leaf nodes and hubs, in the order in which they came.
fn all(broker: &Broker, leaf_nodes: Option<&LeafNodes>) -> Vec<Arc<Conn>> {
    let mut all = broker.connections();
    let links = leaf_nodes.map(LeafNodes::links).unwrap_or_default();
    all.extend(links.iter().map(|link| Arc::clone(link.conn())));
    all.sort_by_key(|conn| conn.cid());
    all
}

/// Waits `grace`, then closes all clients and leaf nodes spread over what `duration` leaves.
pub(crate) async fn run(
    (broker, leaf_nodes): (&Broker, Option<&LeafNodes>),
    log: &Logger,
    duration: Duration,
    grace: Duration,
) {
    if all(broker, leaf_nodes).is_empty() {
        return;
    }
    tokio::time::sleep(grace).await;
    log.info("Closing existing clients");
    // Hubs are not dialled again.
    leaf_nodes.iter().for_each(|nodes| nodes.stop());
    let leaving = all(broker, leaf_nodes);
    if leaving.is_empty() {
        return;
    }
    let step = (duration.saturating_sub(grace) / leaving.len() as u32).min(LONGEST_STEP);
    for conn in &leaving {
        conn.close(CloseReason::ServerShutdown);
        tokio::time::sleep(step).await;
    }
}
