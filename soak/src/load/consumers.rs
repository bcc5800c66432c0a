//! Consumers of a stream that lives: abandoned ones, deleted ones, and ones whose messages are not
//! acknowledged.

use super::{Load, Loads, next};
use crate::Error;
use crate::world::{World, api, create_consumer, create_stream};
use async_nats::Client;
use async_nats::jetstream::{self, AckKind, consumer::PullConsumer};
use bytes::Bytes;
use futures_util::StreamExt as _;
use std::sync::Arc;
use std::time::Duration;

const STREAM: &str = "consumed";
const EVERY: Duration = Duration::from_millis(250);
/// Official clients have their ordered consumers last 30 s after them: few, so that as many come as
/// go by the third round of two minutes.
const ORDERED_EVERY: Duration = Duration::from_secs(1);
/// Consumers of each kind in one turn.
const COUNT: u64 = 3;
/// After this an abandoned consumer is to be gone.
const INACTIVE: &str = r#""inactive_threshold":1000000000"#;

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    let kinds = [
        ("consumers-abandoned", Kind::Abandoned, EVERY),
        ("consumers-durable", Kind::Durable, EVERY),
        ("consumers-unacknowledged", Kind::Unacknowledged, EVERY),
        ("consumers-ordered", Kind::Ordered, ORDERED_EVERY),
    ];
    let is_wanted = kinds.iter().any(|(name, ..)| loads.wants(name));
    if is_wanted {
        let client = loads.world().client(STREAM).await?;
        create_stream(&client, STREAM, r#""max_msgs":1000,"max_bytes":8388608,"max_consumers":-1"#).await?;
    }
    for (name, kind, every) in kinds {
        if loads.wants(name) {
            let client = loads.world().client(name).await?;
            let world = Arc::clone(loads.world());
            loads.add(name, every, Consumers { world, client, kind });
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Nobody deletes them.
    Abandoned,
    /// Deleted, with messages on the way.
    Durable,
    /// One that gets its messages again, up to twice.
    Unacknowledged,
    /// Consumer as the official client makes it for itself, which nobody deletes.
    Ordered,
}

struct Consumers {
    world: Arc<World>,
    client: Client,
    kind: Kind,
}

impl Consumers {
    async fn publish(&self, count: u64) -> Result<(), Error> {
        for _ in 0..count {
            let subject = format!("{STREAM}.{}", self.world.number() % 50);
            self.client.publish(subject, Bytes::from_static(&[b'x'; 256])).await?;
        }
        Ok(self.client.flush().await?)
    }

    async fn abandon(&self) -> Result<(), Error> {
        for _ in 0..COUNT {
            let name = format!("a{}", self.world.number());
            let config = format!("\"name\":\"{name}\",\"ack_policy\":\"explicit\",{INACTIVE}");
            create_consumer(&self.client, STREAM, &name, &config).await?;
            self.pull(&name, 5).await?;
            let name = format!("p{}", self.world.number());
            let inbox = self.client.new_inbox();
            let mut heard = self.client.subscribe(inbox.clone()).await?;
            let config = format!(
                "\"name\":\"{name}\",\"deliver_subject\":\"{inbox}\",\"ack_policy\":\"none\",{INACTIVE}"
            );
            create_consumer(&self.client, STREAM, &name, &config).await?;
            next(&mut heard).await?;
            heard.unsubscribe().await?;
        }
        Ok(())
    }

    /// Takes up to `count` messages that stay unacknowledged.
    async fn pull(&self, name: &str, count: usize) -> Result<Vec<jetstream::Message>, Error> {
        let context = jetstream::new(self.client.clone());
        let consumer: PullConsumer = context.get_consumer_from_stream(name, STREAM).await?;
        let mut messages = consumer.fetch().max_messages(count).messages().await?;
        let mut taken = Vec::new();
        while let Some(message) = messages.next().await {
            taken.push(message?);
        }
        Ok(taken)
    }

    async fn make_and_delete(&self) -> Result<(), Error> {
        for _ in 0..COUNT {
            let name = format!("d{}", self.world.number());
            let config = format!("\"durable_name\":\"{name}\",\"ack_policy\":\"explicit\"");
            create_consumer(&self.client, STREAM, &name, &config).await?;
            for message in self.pull(&name, 6).await?.iter().step_by(2) {
                message.ack().await?;
            }
            // A pull that waits when its consumer is deleted.
            let inbox = self.client.new_inbox();
            let next = format!("$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{name}");
            let body = Bytes::from_static(b"{\"batch\":10000,\"expires\":60000000000}");
            self.client.publish_with_reply(next, inbox, body).await?;
            api(&self.client, &format!("CONSUMER.DELETE.{STREAM}.{name}"), "").await?;
        }
        Ok(())
    }

    async fn leave_unacknowledged(&self) -> Result<(), Error> {
        const NAME: &str = "unacknowledged";
        let config = format!(
            "\"durable_name\":\"{NAME}\",\"ack_policy\":\"explicit\",\"ack_wait\":500000000,\"max_deliver\":2,\
             \"max_ack_pending\":500,\"deliver_policy\":\"new\""
        );
        create_consumer(&self.client, STREAM, NAME, &config).await?;
        self.publish(30).await?;
        for (i, message) in self.pull(NAME, 40).await?.iter().enumerate() {
            match i % 5 {
                0 => message.ack().await?,
                1 => message.ack_with(AckKind::Nak(Some(Duration::from_millis(100)))).await?,
                2 => message.ack_with(AckKind::Term).await?,
                3 => message.ack_with(AckKind::Progress).await?,
                _ => {}
            }
        }
        Ok(())
    }

    async fn order(&self) -> Result<(), Error> {
        let context = jetstream::new(self.client.clone());
        let stream = context.get_stream_no_info(STREAM).await?;
        let config = jetstream::consumer::push::OrderedConfig {
            deliver_subject: self.client.new_inbox(),
            ..Default::default()
        };
        let mut messages = stream.create_consumer(config).await?.messages().await?;
        for _ in 0..20 {
            next(&mut messages).await??;
        }
        Ok(())
    }
}

impl Load for Consumers {
    async fn turn(&mut self) -> Result<(), Error> {
        match self.kind {
            Kind::Abandoned => {
                self.publish(20).await?;
                self.abandon().await
            }
            Kind::Durable => {
                self.publish(20).await?;
                self.make_and_delete().await
            }
            Kind::Unacknowledged => self.leave_unacknowledged().await,
            Kind::Ordered => {
                self.publish(40).await?;
                self.order().await
            }
        }
    }
}
