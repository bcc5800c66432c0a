//! A stream out of whose middle messages are deleted, and subjects purged.

use super::{Load, Loads};
use crate::Error;
use crate::world::{api, create_stream};
use async_nats::Client;
use bytes::Bytes;
use myelin_stdx::rng::Rng;
use std::time::Duration;

const NAME: &str = "removals";
const EVERY: Duration = Duration::from_millis(500);
const SUBJECTS: u64 = 20;
/// Messages and deletions of one turn.
const MESSAGES: u64 = 100;
const DELETIONS: u64 = 20;

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    if loads.wants(NAME) {
        let client = loads.world().client(NAME).await?;
        create_stream(&client, NAME, r#""max_msgs":1000,"max_bytes":8388608"#).await?;
        let rng = loads.world().rng(NAME);
        loads.add(NAME, EVERY, Removals { client, rng });
    }
    Ok(())
}

struct Removals {
    client: Client,
    rng: Rng,
}

impl Load for Removals {
    async fn turn(&mut self) -> Result<(), Error> {
        for _ in 0..MESSAGES {
            let subject = format!("{NAME}.{}", self.rng.below(SUBJECTS));
            self.client.publish(subject, Bytes::from_static(&[b'x'; 1024])).await?;
        }
        let state = api(&self.client, &format!("STREAM.INFO.{NAME}"), "").await?["state"].take();
        let (first, last) = (state["first_seq"].as_u64(), state["last_seq"].as_u64());
        let (first, last) = first.zip(last).ok_or("a stream without a state")?;
        for _ in 0..DELETIONS {
            let body = format!("{{\"seq\":{},\"no_erase\":true}}", first + self.rng.below(last - first + 1));
            // It may have been deleted before, or evicted.
            let _ = api(&self.client, &format!("STREAM.MSG.DELETE.{NAME}"), &body).await;
        }
        if self.rng.below(5) == 0 {
            let body = format!("{{\"filter\":\"{NAME}.{}\",\"keep\":2}}", self.rng.below(SUBJECTS));
            api(&self.client, &format!("STREAM.PURGE.{NAME}"), &body).await?;
        }
        Ok(())
    }
}
