//! Work queues and streams kept by interest, whose consumers come and go.

use super::{Load, Loads};
use crate::Error;
use crate::world::{World, api, create_consumer, create_stream};
use async_nats::Client;
use async_nats::jetstream::{self, consumer::PullConsumer};
use bytes::Bytes;
use futures_util::StreamExt as _;
use std::sync::Arc;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(200);
/// Messages of one turn.
const MESSAGES: usize = 40;
/// Turns that a durable consumer lives.
const LIFE: u64 = 20;
/// How long a fetch may wait for what is there.
const FETCH: Duration = Duration::from_secs(2);

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    let kinds = [
        ("workqueue", r#""retention":"workqueue","max_msgs":5000,"max_bytes":8388608"#, 1),
        (
            "workqueue-memory",
            r#""retention":"workqueue","max_msgs":5000,"max_bytes":8388608,"storage":"memory""#,
            1,
        ),
        ("interest", r#""retention":"interest","max_msgs":5000,"max_bytes":8388608"#, 2),
        (
            "interest-memory",
            r#""retention":"interest","max_msgs":5000,"max_bytes":8388608,"storage":"memory""#,
            2,
        ),
    ];
    for (name, config, readers) in kinds {
        if loads.wants(name) {
            let client = loads.world().client(name).await?;
            create_stream(&client, name, config).await?;
            let world = Arc::clone(loads.world());
            loads.add(name, EVERY, Retained { world, client, name, readers, turns: 0 });
        }
    }
    Ok(())
}

struct Retained {
    world: Arc<World>,
    client: Client,
    name: &'static str,
    /// Consumers that each get every message; the last one is ephemeral if there are several.
    readers: u64,
    turns: u64,
}

impl Retained {
    fn reader(&self, number: u64) -> String {
        format!("reader-{number}")
    }

    async fn make_readers(&self) -> Result<(), Error> {
        for number in 0..self.readers {
            let name = self.reader(number);
            let life = match number {
                0 => format!("\"durable_name\":\"{name}\""),
                _ => format!("\"name\":\"{name}\",\"inactive_threshold\":60000000000"),
            };
            let config = format!("{life},\"ack_policy\":\"explicit\",\"max_ack_pending\":2000");
            create_consumer(&self.client, self.name, &name, &config).await?;
        }
        Ok(())
    }

    async fn end_readers(&self) -> Result<(), Error> {
        for number in 0..self.readers {
            let call = format!("CONSUMER.DELETE.{}.{}", self.name, self.reader(number));
            api(&self.client, &call, "").await?;
        }
        Ok(())
    }

    async fn read(&self, number: u64) -> Result<(), Error> {
        let context = jetstream::new(self.client.clone());
        let consumer: PullConsumer = context.get_consumer_from_stream(self.reader(number), self.name).await?;
        let mut messages = consumer.fetch().max_messages(MESSAGES).expires(FETCH).messages().await?;
        let mut came = 0;
        while let Some(message) = messages.next().await {
            message?.ack().await?;
            came += 1;
        }
        if came == 0 { Err(format!("nothing came to {}", self.reader(number)).into()) } else { Ok(()) }
    }
}

impl Load for Retained {
    async fn turn(&mut self) -> Result<(), Error> {
        if self.turns.is_multiple_of(LIFE) {
            // At the first turn there is none, and a turn that failed may have ended them.
            let _ = self.end_readers().await;
            self.make_readers().await?;
        }
        self.turns += 1;
        for _ in 0..MESSAGES {
            let subject = format!("{}.{}", self.name, self.world.number());
            self.client.publish(subject, Bytes::from_static(&[b'x'; 512])).await?;
        }
        for number in 0..self.readers {
            self.read(number).await?;
        }
        Ok(())
    }
}
