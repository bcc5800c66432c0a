//! Lame duck mode: clients are told to leave, then closed one after the other, leaf nodes among
//! them, so that they do not all come to the next server at once.

use crate::leaf::RunningLeafNodes;
use crate::logging::Logger;
use crate::shard::{Mail, ShardThread};
use myelin_broker::{Broker, Conn};
use myelin_mesh::Mesh;
use myelin_mesh::leaf::LeafNodes;
use myelin_wire::error::CloseReason;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait between two of them: few do not make the server linger.
const LONGEST_STEP: Duration = Duration::from_secs(1);

/// Wait between two looks at who is still there.
const LOOK: Duration = Duration::from_millis(5);

/// Connections that are to leave: clients, leaf nodes and hubs.
pub(crate) struct Leaving {
    broker: Arc<Broker>,
    leaf_nodes: Option<Arc<LeafNodes>>,
}

impl Leaving {
    pub(crate) fn of(broker: &Arc<Broker>, leaf_nodes: Option<&RunningLeafNodes>) -> Self {
        let leaf_nodes = leaf_nodes.map(|running| Arc::clone(&running.nodes));
        Self { broker: Arc::clone(broker), leaf_nodes }
    }

    /// All of them, in the order in which they came.
    pub(crate) fn connections(&self) -> Vec<Arc<Conn>> {
        let mut all = self.broker.connections();
        let links = self.leaf_nodes.iter().flat_map(|nodes| nodes.links());
        all.extend(links.map(|link| Arc::clone(link.conn())));
        all.sort_by_key(|conn| conn.cid());
        all
    }

    /// Tells other servers, then clients, that the server lets its clients leave.
    pub(crate) fn announce(&self, mesh: Option<&Mesh>, shards: &[ShardThread]) {
        mesh.into_iter().for_each(Mesh::enter_lame_duck);
        self.broker.enter_lame_duck();
        // Clients were told whatever is news for them in a cluster.
        if !mesh.is_some_and(Mesh::advertise) {
            shards.iter().for_each(|shard| shard.mailbox.post(Mail::Announce));
        }
    }

    /// Waits `grace`, then closes all of them spread over what `duration` leaves.
    pub(crate) async fn run(self, log: &Logger, duration: Duration, grace: Duration) {
        tokio::time::sleep(grace).await;
        log.info("Closing existing clients");
        // Hubs are not dialled again.
        self.leaf_nodes.iter().for_each(|nodes| nodes.stop());
        let all = self.connections();
        let step = (duration.saturating_sub(grace) / all.len().max(1) as u32).min(LONGEST_STEP);
        for (at, conn) in all.iter().enumerate() {
            // Whoever was the last does not keep the server.
            if at > 0 {
                tokio::time::sleep(step).await;
            }
            conn.close(CloseReason::ServerShutdown);
        }
        self.wait_until_gone().await;
    }

    /// Waits for the ends of those that were closed, so that other servers hear what is wanted here
    /// no longer before they hear of the server's own end.
    async fn wait_until_gone(&self) {
        let gone = async {
            while !self.connections().is_empty() {
                tokio::time::sleep(LOOK).await;
            }
        };
        // Whoever has not gone by then is closed with the server.
        let _ = tokio::time::timeout(LONGEST_STEP, gone).await;
    }
}
