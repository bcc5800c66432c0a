//! Full disks of servers with replicas: whoever has room goes on, the others say so, and have all
//! soon after there is room.

use super::*;
use crate::jetstream::disk::SmallDisk;

/// Three servers whose disks are small.
struct SmallTrio {
    trio: Trio,
    disks: Vec<SmallDisk>,
}

impl SmallTrio {
    /// None where nothing may be mounted.
    fn start() -> Option<Self> {
        let disks: Vec<SmallDisk> = (0..3).map_while(|_| SmallDisk::new(64)).collect();
        if disks.len() < 3 {
            return None;
        }
        let mut trio = Trio::prepare("");
        for (at, disk) in disks.iter().enumerate() {
            trio.store_in(at, disk.path());
            trio.start_node(at);
        }
        Some(Self { trio, disks })
    }

    /// Fills the disk of a server that has a replica, and publishes until it says so.
    async fn fill(&self, client: &Client, at: usize, stored: &mut u64) {
        self.disks[at].fill();
        until("its disk has no room", async || {
            self.store_some(client, 10, stored).await;
            self.says_why(at).then_some(())
        })
        .await;
    }

    fn says_why(&self, at: usize) -> bool {
        let server = self.trio.nodes[at].server.as_ref().expect("it runs");
        server.page("/healthz")["error"]
            .as_str()
            .is_some_and(|why| why.contains("'$G > S' is not current: no space left"))
    }

    async fn store_some(&self, client: &Client, count: u64, stored: &mut u64) {
        let large = "x".repeat(20_000);
        for _ in 0..count {
            store(client, "S.x", &format!("{stored} {large}")).await;
            *stored += 1;
        }
    }

    async fn is_well(&self, client: &Client) {
        settled(client, "S").await;
        for node in &self.trio.nodes {
            let server = node.server.as_ref().expect("it runs");
            until("it is healthy", async || (server.page("/healthz")["status"] == "ok").then_some(())).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_with_the_disk_of_a_follower_or_of_its_leader_full() {
    let Some(small) = SmallTrio::start() else { return };
    let client = small.trio.client(0).await;
    create(&client, &stream("S", 3)).await;
    let mut stored = 0;
    small.store_some(&client, 5, &mut stored).await;
    for leads in [false, true] {
        let led = leader(&client, "S").await;
        let victim = if leads { small.trio.at(&led) } else { small.trio.running_but(small.trio.at(&led))[0] };
        small.fill(&client, victim, &mut stored).await;
        small.store_some(&client, 20, &mut stored).await;
        assert_ne!(leader(&client, "S").await, small.trio.nodes[victim].name);
        let server = small.trio.nodes[victim].server.as_ref().expect("it runs");
        server.wait_for_log("JetStream out of space: '$G' > 'S'");
        small.disks[victim].free();
        small.is_well(&client).await;
        server.wait_for_log("JetStream stream '$G > S' has room on the disk again");
    }
    let all = contents(&client, "S").await;
    assert_eq!(all.len() as u64, stored);
    assert_eq!(same_everywhere(&client, "S").await as u64, stored);
}
