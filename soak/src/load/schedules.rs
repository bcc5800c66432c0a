//! Schedules: once, again and again, replaced, and taken back before their time.

use super::{Load, Loads};
use crate::Error;
use crate::world::{World, api};
use async_nats::{Client, HeaderMap};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "schedules";
const EVERY: Duration = Duration::from_millis(500);
/// Subjects that repeat.
const REPEATING: u64 = 5;
/// Messages of one turn that are due once, and as many that never are.
const ONCE: u64 = 10;

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    if loads.wants(NAME) {
        let client = loads.world().client(NAME).await?;
        let config = r#"{"name":"schedules","subjects":["schedules.>","due.>"],"allow_msg_schedules":true,
            "allow_msg_ttl":true,"max_msgs_per_subject":1,"max_bytes":8388608}"#;
        api(&client, "STREAM.CREATE.schedules", config).await?;
        loads.add(NAME, EVERY, Schedules { world: Arc::clone(loads.world()), client, turns: 0 });
    }
    Ok(())
}

struct Schedules {
    world: Arc<World>,
    client: Client,
    turns: u64,
}

impl Schedules {
    async fn schedule(&self, name: &str, when: &str) -> Result<(), Error> {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Schedule", when);
        headers.insert("Nats-Schedule-Target", format!("due.{name}").as_str());
        headers.insert("Nats-Schedule-TTL", "1s");
        let body = Bytes::from_static(&[b'x'; 100]);
        let answer = self.client.request_with_headers(format!("{NAME}.{name}"), headers, body).await?;
        let text = String::from_utf8_lossy(&answer.payload);
        if text.contains("\"error\"") { Err(text.into()) } else { Ok(()) }
    }
}

impl Load for Schedules {
    async fn turn(&mut self) -> Result<(), Error> {
        let soon = format!("@at {}", rounded(Timestamp::now() + SignedDuration::from_secs(1)));
        let late = format!("@at {}", rounded(Timestamp::now() + SignedDuration::from_hours(24)));
        for _ in 0..ONCE {
            self.schedule(&format!("once.{}", self.world.number()), &soon).await?;
            self.schedule(&format!("never.{}", self.world.number()), &late).await?;
        }
        self.schedule(&format!("every.{}", self.turns % REPEATING), "@every 1s").await?;
        self.turns += 1;
        api(&self.client, "STREAM.PURGE.schedules", r#"{"filter":"schedules.never.>"}"#).await?;
        Ok(())
    }
}

/// The second that it is in.
fn rounded(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
