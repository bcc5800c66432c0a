//! Streams at each kind of limit, with subjects that are all different, and with few.

use super::{Load, Loads};
use crate::Error;
use crate::world::{World, create_stream};
use async_nats::Client;
use bytes::Bytes;
use myelin_stdx::rng::Rng;
use std::sync::Arc;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(100);

/// Subjects of a stream.
#[derive(Debug, Clone, Copy)]
enum LimitSubjects {
    /// A subject of its own for each message.
    Different,
    /// A number of subjects in rotation.
    Few(u64),
}

/// One stream.
#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    /// Members of its configuration.
    config: &'static str,
    subjects: LimitSubjects,
    /// Bytes of a message.
    size: usize,
    /// Whether it refuses messages, once it is full.
    refuses: bool,
}

/// Messages that each stream is given before the first round: more than any of them keeps.
const FILL: u64 = 3000;
/// How many of these are confirmed at once.
const SLICE: u64 = 100;

/// Three have segments of 16 MiB, and messages large enough to fill one in half a minute. Files of
/// the others are never larger than an eighth of 8 MiB: what slow streams take would grow for
/// minutes before it is as large as it gets.
const KINDS: [Kind; 16] = [
    kind("l-msgs", r#""max_msgs":2000,"max_bytes":8388608"#, LimitSubjects::Different, 512),
    kind("l-msgs-memory", r#""max_msgs":2000,"storage":"memory""#, LimitSubjects::Different, 128),
    kind("l-msgs-few", r#""max_msgs":2000,"allow_direct":true"#, LimitSubjects::Few(500), 4096),
    kind("l-msgs-s2", r#""max_msgs":1000,"compression":"s2""#, LimitSubjects::Different, 4096),
    kind("l-bytes", r#""max_bytes":2097152"#, LimitSubjects::Different, 1024),
    kind("l-bytes-memory", r#""max_bytes":2097152,"storage":"memory""#, LimitSubjects::Few(100), 1024),
    kind("l-age", r#""max_age":1000000000"#, LimitSubjects::Different, 4096),
    kind("l-age-few", r#""max_age":1000000000,"max_bytes":8388608"#, LimitSubjects::Few(100), 2048),
    kind("l-age-memory", r#""max_age":1000000000,"storage":"memory""#, LimitSubjects::Different, 128),
    kind(
        "l-age-s2",
        r#""max_age":1000000000,"compression":"s2","max_bytes":8388608"#,
        LimitSubjects::Few(100),
        1024,
    ),
    kind(
        "l-subject",
        r#""max_msgs_per_subject":1,"max_age":1000000000,"max_bytes":8388608"#,
        LimitSubjects::Different,
        512,
    ),
    kind("l-subject-few", r#""max_msgs_per_subject":2,"max_bytes":8388608"#, LimitSubjects::Few(100), 1024),
    kind("l-subject-memory", r#""max_msgs_per_subject":2,"storage":"memory""#, LimitSubjects::Few(100), 128),
    refusing(
        "l-size",
        r#""max_msg_size":600,"max_msgs":1000,"max_bytes":8388608"#,
        LimitSubjects::Few(100),
        700,
    ),
    refusing(
        "l-new",
        r#""discard":"new","max_msgs":1000,"max_age":2000000000,"max_bytes":8388608"#,
        LimitSubjects::Different,
        256,
    ),
    refusing(
        "l-new-subject",
        r#""discard":"new","discard_new_per_subject":true,"max_msgs_per_subject":1,"max_age":1000000000,"max_bytes":8388608"#,
        LimitSubjects::Few(5000),
        256,
    ),
];

const fn kind(name: &'static str, config: &'static str, subjects: LimitSubjects, size: usize) -> Kind {
    Kind { name, config, subjects, size, refuses: false }
}

const fn refusing(name: &'static str, config: &'static str, subjects: LimitSubjects, size: usize) -> Kind {
    Kind { name, config, subjects, size, refuses: true }
}

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    for kind in KINDS {
        if loads.wants(kind.name) {
            let limited = Limited::new(loads.world(), kind).await?;
            loads.add(kind.name, EVERY, limited);
        }
    }
    Ok(())
}

struct Limited {
    world: Arc<World>,
    kind: Kind,
    client: Client,
    rng: Rng,
    body: Bytes,
}

impl Limited {
    async fn new(world: &Arc<World>, kind: Kind) -> Result<Self, Error> {
        let client = world.client(kind.name).await?;
        create_stream(&client, kind.name, kind.config).await?;
        let body = Bytes::from(vec![b'x'; kind.size]);
        let mut limited = Self { world: Arc::clone(world), kind, client, rng: world.rng(kind.name), body };
        for _ in 0..FILL / SLICE {
            limited.publish(SLICE).await?;
        }
        Ok(limited)
    }

    fn subject(&mut self) -> String {
        match self.kind.subjects {
            LimitSubjects::Different => {
                format!("{}.{}.{:x}", self.kind.name, self.world.number(), self.rng.below(1 << 40))
            }
            LimitSubjects::Few(count) => format!("{}.{}", self.kind.name, self.rng.below(count)),
        }
    }

    /// Some sizes fit where others do not.
    fn body(&mut self) -> Bytes {
        let len = self.body.len() as u64;
        self.body.slice(..(len / 2 + self.rng.below(len / 2 + 1)) as usize)
    }

    /// Publishes so many, and waits for the answer to the last.
    async fn publish(&mut self, count: u64) -> Result<(), Error> {
        for _ in 1..count {
            let (subject, body) = (self.subject(), self.body());
            self.client.publish(subject, body).await?;
        }
        // The last one is confirmed, so that nobody runs ahead of the server.
        let (subject, body) = (self.subject(), self.body());
        let answer = self.client.request(subject, body).await?;
        let text = String::from_utf8_lossy(&answer.payload);
        match text.contains("\"error\"") && !self.kind.refuses {
            true => Err(text.into()),
            false => Ok(()),
        }
    }
}

impl Load for Limited {
    async fn turn(&mut self) -> Result<(), Error> {
        let count = u64::from(self.world.plan().rate) * EVERY.as_millis() as u64 / 1000;
        self.publish(count.max(1)).await
    }
}
