//! Lame duck mode: clients are told to leave, then closed one after the other, leaf nodes among
//! them, so that they do not all come to the next server at once.

use crate::leaf::RunningLeafNodes;
use crate::logging::Logger;
use crate::shard::{Mail, ShardThread};
use myelin_broker::{Broker, Conn};
use myelin_mesh::Mesh;
use myelin_mesh::leaf::LeafNodes;
use myelin_stdx::entropy::{Entropy, OsEntropy};
use myelin_stdx::rng::Rng;
use myelin_wire::error::CloseReason;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait between two of them: few do not make the server linger.
const LONGEST_STEP: Duration = Duration::from_secs(1);

/// Pauses between the ends of connections, and the order in which they end: both are drawn, so that
/// clients of servers that leave together do not come to the others in step.
struct Departure {
    rng: Rng,
    /// Share of each in the whole time, [`LONGEST_STEP`] at most.
    step: Duration,
}

impl Departure {
    fn new(time: Duration, count: usize, rng: Rng) -> Self {
        let count = u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        Self { rng, step: (time / count).min(LONGEST_STEP) }
    }

    /// Puts connections into the order in which they end.
    fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            all.swap(at, self.rng.below(at as u64 + 1) as usize);
        }
    }

    /// The next pause.
    ///
    /// Compat: a time below the step, but half of it at least: five eighths of it on average.
    fn pause(&mut self) -> Duration {
        let drawn = self.rng.below(self.step.as_nanos() as u64);
        Duration::from_nanos(drawn).max(self.step / 2)
    }
}

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
        let mut all = self.connections();
        let mut seed = [0; 8];
        OsEntropy.fill(&mut seed);
        let rng = Rng::seeded(u64::from_le_bytes(seed));
        let mut departure = Departure::new(duration.saturating_sub(grace), all.len(), rng);
        departure.shuffle(&mut all);
        for (at, conn) in all.iter().enumerate() {
            // Whoever was the last does not keep the server.
            if at > 0 {
                tokio::time::sleep(departure.pause()).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_half_of_the_step_or_more_and_shorter_than_the_step() {
        // As in 2m of lame duck mode after 10s of grace: the step would be 1.1 s.
        let time = Duration::from_secs(110);
        for (count, step) in [(100, LONGEST_STEP), (1000, Duration::from_millis(110))] {
            let mut departure = Departure::new(time, count, Rng::seeded(7));
            let pauses: Vec<Duration> = (0..count).map(|_| departure.pause()).collect();
            assert!(pauses.iter().all(|pause| (step / 2..step).contains(pause)), "{pauses:?}");
            let at_half = pauses.iter().filter(|pause| **pause == step / 2).count();
            assert!((count * 2 / 5..count * 3 / 5).contains(&at_half), "{at_half} of {count}");
            let all: Duration = pauses.iter().sum();
            assert!((all / count as u32).abs_diff(step * 5 / 8) < step / 20, "{all:?}");
        }
    }

    #[test]
    fn connections_end_in_an_order_that_is_drawn() {
        let order = |seed| {
            let mut all: Vec<u32> = (0..100).collect();
            Departure::new(Duration::from_secs(1), all.len(), Rng::seeded(seed)).shuffle(&mut all);
            all
        };
        let (one, other) = (order(1), order(2));
        assert_ne!(one, other);
        let mut sorted = one.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..100) && sorted != one);
    }
}
