//! Clients that listen and do not read, until they are cut off or go.

use super::raw::Raw;
use super::{Load, Loads};
use crate::Error;
use crate::world::{World, create_consumer, create_stream};
use async_nats::Client;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "slow";
const EVERY: Duration = Duration::from_secs(2);
const BODY: &[u8] = &[b'x'; 64 * 1024];
/// Beyond what may wait for one client (4 MB) and what the kernel takes.
const FLOOD: usize = 200;
const STORED: usize = 30;

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    if loads.wants(NAME) {
        let world = Arc::clone(loads.world());
        let client = world.client(NAME).await?;
        create_stream(&client, NAME, r#""max_msgs":100,"storage":"memory""#).await?;
        loads.add(NAME, EVERY, Slow { world, client });
    }
    Ok(())
}

struct Slow {
    world: Arc<World>,
    client: Client,
}

impl Slow {
    async fn flood(&self) -> Result<(), Error> {
        let subject = format!("flood.{}", self.world.number());
        let mut deaf = Raw::connect(&self.world, "a").await?;
        deaf.send(&format!("SUB {subject} 1\r\n")).await?;
        deaf.barrier().await?;
        for _ in 0..FLOOD {
            self.client.publish(subject.clone(), Bytes::from_static(BODY)).await?;
        }
        // The answer to a ping comes behind everything.
        self.client.request("svc.nobody.slow", Bytes::new()).await.map_or(Ok(()), |_| Err("an answer"))?;
        Ok(())
    }

    /// Lets a consumer deliver to a client that does not read.
    async fn deliver(&self) -> Result<(), Error> {
        let number = self.world.number();
        let mut deaf = Raw::connect(&self.world, "a").await?;
        deaf.send(&format!("SUB deaf.{number} 1\r\n")).await?;
        deaf.barrier().await?;
        let config = format!(
            "\"name\":\"deaf-{number}\",\"deliver_subject\":\"deaf.{number}\",\"ack_policy\":\"none\",\
             \"inactive_threshold\":1000000000"
        );
        create_consumer(&self.client, NAME, &format!("deaf-{number}"), &config).await?;
        for i in 0..STORED {
            self.client.publish(format!("{NAME}.{i}"), Bytes::from_static(BODY)).await?;
        }
        self.client.flush().await?;
        deaf.kill()
    }
}

impl Load for Slow {
    async fn turn(&mut self) -> Result<(), Error> {
        self.flood().await?;
        self.deliver().await
    }
}
