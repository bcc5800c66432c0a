//! Whole streams that are made, filled, changed, purged and deleted, and backups that nobody takes
//! to their end.

use super::{Load, Loads, next};
use crate::Error;
use crate::world::{World, api, create_consumer, create_stream};
use async_nats::Client;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(500);
const MESSAGES: u64 = 50;

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    for (name, storage) in [("streams", "file"), ("streams-memory", "memory")] {
        if loads.wants(name) {
            let client = loads.world().client(name).await?;
            loads.add(name, EVERY, Streams { world: Arc::clone(loads.world()), client, storage });
        }
    }
    Ok(())
}

struct Streams {
    world: Arc<World>,
    client: Client,
    storage: &'static str,
}

impl Streams {
    async fn fill(&self, name: &str) -> Result<(), Error> {
        for i in 0..MESSAGES {
            self.client.publish(format!("{name}.{i}"), Bytes::from_static(&[b'x'; 1024])).await?;
        }
        Ok(self.client.flush().await?)
    }

    async fn change(&self, name: &str) -> Result<(), Error> {
        let storage = self.storage;
        let body = format!(
            "{{\"name\":\"{name}\",\"subjects\":[\"{name}.>\",\"also-{name}.>\"],\"storage\":\"{storage}\",\"max_msgs\":30}}"
        );
        api(&self.client, &format!("STREAM.UPDATE.{name}"), &body).await?;
        api(&self.client, &format!("STREAM.PURGE.{name}"), "{\"keep\":10}").await.map(drop)
    }

    async fn live(&self, name: &str, number: u64) -> Result<(), Error> {
        create_stream(&self.client, name, &format!("\"storage\":\"{}\"", self.storage)).await?;
        create_consumer(&self.client, name, "reader", r#""durable_name":"reader","ack_policy":"explicit""#)
            .await?;
        self.fill(name).await?;
        // The reference backs up no stream in memory.
        if self.storage == "file" && number.is_multiple_of(4) {
            self.begin_backup(name).await?;
        }
        self.change(name).await
    }

    /// Takes the first piece of a backup, and no more.
    async fn begin_backup(&self, name: &str) -> Result<(), Error> {
        let inbox = self.client.new_inbox();
        let mut pieces = self.client.subscribe(inbox.clone()).await?;
        let body = format!("{{\"deliver_subject\":\"{inbox}\",\"no_consumers\":false}}");
        api(&self.client, &format!("STREAM.SNAPSHOT.{name}"), &body).await?;
        next(&mut pieces).await?;
        Ok(())
    }
}

impl Load for Streams {
    async fn turn(&mut self) -> Result<(), Error> {
        let number = self.world.number();
        let name = format!("stream-{number}");
        let lived = self.live(&name, number).await;
        // Whatever happened to it: nobody else deletes it.
        api(&self.client, &format!("STREAM.DELETE.{name}"), "").await?;
        lived
    }
}
