//! Connections that come, subscribe and go, with and without a farewell.

use super::raw::Raw;
use super::{Load, Loads, next};
use crate::Error;
use crate::world::World;
use bytes::Bytes;
use myelin_stdx::rng::Rng;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const NAME: &str = "visitors";
const EVERY: Duration = Duration::from_millis(100);

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    if loads.wants(NAME) {
        let world = Arc::clone(loads.world());
        loads.add(NAME, EVERY, Visitors { rng: world.rng(NAME), world, owed: 0.0 });
    }
    Ok(())
}

struct Visitors {
    world: Arc<World>,
    rng: Rng,
    /// Visitors that are due, and the part of one.
    owed: f64,
}

impl Load for Visitors {
    async fn turn(&mut self) -> Result<(), Error> {
        self.owed += f64::from(self.world.plan().visitors) * EVERY.as_secs_f64();
        let mut visits = JoinSet::new();
        while self.owed >= 1.0 {
            self.owed -= 1.0;
            visits.spawn(visit(Arc::clone(&self.world), self.rng.next_u64()));
        }
        while let Some(visit) = visits.join_next().await {
            visit??;
        }
        Ok(())
    }
}

async fn visit(world: Arc<World>, choice: u64) -> Result<(), Error> {
    let number = world.number();
    match choice % 6 {
        0 | 1 => official(&world, number).await,
        2 => killed(&world, number).await,
        3 => cut_off(&world, number).await,
        4 => stranger(&world).await,
        _ => other_account(&world, number).await,
    }
}

/// Subjects of its own, a wildcard, a group, a request to itself; then it goes as the official
/// client does.
async fn official(world: &World, number: u64) -> Result<(), Error> {
    let client = world.client("visitor").await?;
    let mut own = client.subscribe(format!("visit.{number}")).await?;
    let _wild = client.subscribe(format!("visit.{number}.*.>")).await?;
    let _group = client.queue_subscribe("visit.group", format!("group-{}", number % 7)).await?;
    let mut mapped = client.subscribe(format!("visit.mapped.{number}")).await?;
    client.publish(format!("mapped.{number}"), Bytes::from_static(b"mapped")).await?;
    client.publish(format!("visit.{number}"), Bytes::from_static(b"own")).await?;
    client.publish("visit.group", Bytes::from_static(b"one of us")).await?;
    next(&mut own).await?;
    next(&mut mapped).await?;
    mapped.unsubscribe().await?;
    Ok(client.drain().await?)
}

/// Many subscriptions, and the connection is reset.
async fn killed(world: &World, number: u64) -> Result<(), Error> {
    let mut raw = Raw::connect(world, "a").await?;
    for sid in 1..20 {
        raw.send(&format!("SUB visit.{number}.{sid}.> {sid}\r\nSUB visit.group group-{sid} 1{sid}\r\n"))
            .await?;
    }
    raw.send("UNSUB 3 5\r\nUNSUB 4\r\n").await?;
    raw.barrier().await?;
    raw.send(&format!("PUB visit.{number}.1.x 2\r\nhi\r\n")).await?;
    raw.kill()
}

/// Gone in the middle of a message.
async fn cut_off(world: &World, number: u64) -> Result<(), Error> {
    let mut raw = Raw::connect(world, "a").await?;
    raw.send(&format!("SUB visit.{number} 1\r\nPUB visit.{number} 100000\r\n{}", "half".repeat(5000)))
        .await?;
    if number.is_multiple_of(2) { raw.kill() } else { Ok(()) }
}

/// Gone before anybody knows who that was.
async fn stranger(world: &World) -> Result<(), Error> {
    let mut raw = Raw::open(world).await?;
    raw.send("CONNECT {\"verbose\":true,\"user\":\"a").await?;
    raw.kill()
}

/// A client of the account that imports: its subscriptions reach into the other one.
async fn other_account(world: &World, number: u64) -> Result<(), Error> {
    let mut raw = Raw::connect(world, "b").await?;
    raw.send(&format!("SUB feed.> 1\r\nSUB feed.{number} 2\r\nSUB feed.* group 3\r\nUNSUB 2\r\n")).await?;
    raw.barrier().await?;
    let mut other = Raw::connect(world, "a").await?;
    other.send(&format!("PUB feed.{number} 2\r\nhi\r\n")).await?;
    other.barrier().await?;
    raw.barrier().await?;
    if number.is_multiple_of(2) { raw.kill() } else { Ok(()) }
}
