//! Batches: atomic ones and fast ones that nobody commits, beside some that are.

use super::{Load, Loads};
use crate::Error;
use crate::world::{World, create_stream};
use async_nats::{Client, HeaderMap};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "batches";
const EVERY: Duration = Duration::from_millis(500);
/// Batches of each kind in one turn. The server gives one up after two seconds, so that 12 of each
/// are open.
const BATCHES: u64 = 3;
const MESSAGES: u64 = 10;

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    for (name, storage) in [(NAME, "file"), ("batches-memory", "memory")] {
        if loads.wants(name) {
            let client = loads.world().client(name).await?;
            let config = format!(
                "\"allow_atomic\":true,\"allow_batched\":true,\"max_msgs\":1000,\"max_bytes\":8388608,\"storage\":\"{storage}\""
            );
            create_stream(&client, name, &config).await?;
            loads.add(name, EVERY, Batches { world: Arc::clone(loads.world()), client, name });
        }
    }
    Ok(())
}

struct Batches {
    world: Arc<World>,
    client: Client,
    name: &'static str,
}

impl Batches {
    fn subject(&self, i: u64) -> String {
        format!("{}.{i}", self.name)
    }

    fn body() -> Bytes {
        Bytes::from_static(&[b'x'; 2000])
    }

    async fn atomic(&self, is_committed: bool) -> Result<(), Error> {
        let id = format!("atomic-{}", self.world.number());
        for i in 1..=MESSAGES {
            let mut headers = HeaderMap::new();
            headers.insert("Nats-Batch-Id", id.as_str());
            headers.insert("Nats-Batch-Sequence", i.to_string().as_str());
            let is_last = i == MESSAGES;
            if is_last && is_committed {
                headers.insert("Nats-Batch-Commit", "1");
            }
            if i == 1 || is_last {
                let answer = self.client.request_with_headers(self.subject(i), headers, Self::body()).await?;
                is_well(&answer.payload)?;
            } else {
                self.client.publish_with_headers(self.subject(i), headers, Self::body()).await?;
            }
        }
        Ok(())
    }

    /// One after which a message is missing, or one that just ends.
    async fn fast(&self, has_gap: bool) -> Result<(), Error> {
        let inbox = self.client.new_inbox();
        for i in 1..=MESSAGES {
            let operation = if i == 1 { 0 } else { 1 };
            let sequence = if has_gap && i > 5 { i + 1 } else { i };
            let reply = format!("{inbox}.{MESSAGES}.ok.{sequence}.{operation}.$FI");
            self.client.publish_with_reply(self.subject(i), reply, Self::body()).await?;
        }
        Ok(())
    }
}

impl Load for Batches {
    async fn turn(&mut self) -> Result<(), Error> {
        for i in 0..BATCHES {
            self.atomic(false).await?;
            self.fast(i == 0).await?;
        }
        self.atomic(true).await
    }
}

fn is_well(answer: &[u8]) -> Result<(), Error> {
    let text = String::from_utf8_lossy(answer);
    if text.contains("\"error\"") { Err(text.into()) } else { Ok(()) }
}
