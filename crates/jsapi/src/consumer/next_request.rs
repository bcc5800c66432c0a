//! The body of a request for messages, and what a consumer's configuration says to it.

use super::config::{ConsumerConfig, PriorityPolicy};
use crate::json::{self, atoi, go_duration, object};
use std::fmt;

/// Request for next messages, as a client makes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NextRequest {
    /// Nanoseconds that it waits; `None`: for ever, or not at all with `no_wait`. Compat: less than
    /// 0 is over at once.
    pub expires: Option<i64>,
    /// Messages. Compat: with 0 and less, one is delivered, and statuses count from what was said
    /// here.
    pub batch: i64,
    /// Bytes of all messages; 0 and less: any.
    pub max_bytes: i64,
    /// Not to wait for messages that are not there.
    pub no_wait: bool,
    /// Nanoseconds between signs of life; 0 and less: none.
    pub heartbeat: i64,
    /// Whether it was written as an object: only then groups matter. Compat: a number, or nothing,
    /// passes where a group would have to be named.
    pub is_object: bool,
    /// Its group; empty: none.
    pub group: String,
    /// Serve it only when so many messages were never delivered; 0: not said.
    pub min_pending: i64,
    /// Serve it only when so many messages wait for their acknowledgement; 0: not said.
    pub min_ack_pending: i64,
    /// The pin that it has; empty: none.
    pub id: String,
    /// The lower the sooner, 0 to 9.
    pub priority: i64,
}

/// Why a request is turned down at once: status and description of the answer, which has no body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRefusal {
    /// 400 or 409.
    pub status: u16,
    /// For people, and for clients that know it by heart.
    pub description: String,
}

/// `400 Bad Request - Priority Group missing`, as it stands behind `NATS/1.0 `.
impl fmt::Display for RequestRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.description)
    }
}

/// Members of the object, before they mean anything.
#[derive(Default)]
struct NextBody {
    expires: i64,
    batch: i64,
    max_bytes: i64,
    no_wait: bool,
    idle_heartbeat: i64,
    group: Group,
}

#[derive(Default)]
struct Group {
    group: String,
    min_pending: i64,
    min_ack_pending: i64,
    id: String,
    priority: i64,
}

object! { Group, "PriorityGroup":
    "group" group "string",
    "min_pending" min_pending "int64",
    "min_ack_pending" min_ack_pending "int64",
    "id" id "string",
    "priority" priority "int",
}

object! { NextBody, "JSApiConsumerGetNextRequest":
    "expires" expires "time.Duration",
    "batch" batch "int",
    "max_bytes" max_bytes "int",
    "no_wait" no_wait "bool",
    "idle_heartbeat" idle_heartbeat "time.Duration",
    embeds group
}

impl NextRequest {
    /// Reads a body: nothing is one message, a number is so many, an object says more. Compat:
    /// anything else is one message, and unknown fields are ignored.
    ///
    /// # Errors
    /// 400, with Go's words for what is no JSON or no such object.
    pub fn read(body: &[u8]) -> Result<Self, RequestRefusal> {
        let body = trimmed(body);
        if body.first() != Some(&b'{') {
            let batch = atoi(body).unwrap_or(1);
            return Ok(Self { batch, ..Self::default() });
        }
        let mut read = NextBody::default();
        json::lenient(body, "server.JSApiConsumerGetNextRequest", &mut read).map_err(bad)?;
        if read.idle_heartbeat > 0 && read.idle_heartbeat.wrapping_mul(2) > read.expires {
            return Err(bad("heartbeat value too large"));
        }
        let Group { group, min_pending, min_ack_pending, id, priority } = read.group;
        Ok(Self {
            expires: Some(read.expires).filter(|expires| *expires != 0),
            batch: read.batch,
            max_bytes: read.max_bytes,
            no_wait: read.no_wait,
            heartbeat: read.idle_heartbeat,
            is_object: true,
            group,
            min_pending,
            min_ack_pending,
            id,
            priority,
        })
    }

    /// Holds the request against the configuration of a consumer, in the reference's order. Which
    /// client is pinned comes after this, and whether there is room for the request.
    ///
    /// # Errors
    /// The first reason to turn it down.
    pub fn check(&self, config: &ConsumerConfig) -> Result<(), RequestRefusal> {
        if config.is_push() {
            return Err(conflict("Consumer is push based"));
        }
        self.check_limits(config)?;
        if self.is_object { self.check_priorities(config) } else { Ok(()) }
    }

    fn check_limits(&self, config: &ConsumerConfig) -> Result<(), RequestRefusal> {
        let exceeds = |asked: i64, limit: i64| limit > 0 && asked > limit;
        if exceeds(self.batch, config.max_batch) {
            return Err(conflict(format_args!("Exceeded MaxRequestBatch of {}", config.max_batch)));
        }
        if self.expires.is_some_and(|expires| exceeds(expires, config.max_expires)) {
            let limit = go_duration(config.max_expires);
            return Err(conflict(format_args!("Exceeded MaxRequestExpires of {limit}")));
        }
        if exceeds(self.max_bytes, config.max_bytes) {
            return Err(conflict(format_args!("Exceeded MaxRequestMaxBytes of {}", config.max_bytes)));
        }
        Ok(())
    }

    fn check_priorities(&self, config: &ConsumerConfig) -> Result<(), RequestRefusal> {
        let policy = config.priority_policy;
        let has_minimum = self.min_pending != 0 || self.min_ack_pending != 0;
        if has_minimum && policy != PriorityPolicy::Overflow {
            return Err(bad("Not a Overflow Priority consumer"));
        }
        if !self.id.is_empty() && policy != PriorityPolicy::PinnedClient {
            return Err(bad("Not a Pinned Client Priority consumer"));
        }
        if !(0..=9).contains(&self.priority) {
            return Err(bad("Priority must be between 0 and 9"));
        }
        if policy == PriorityPolicy::None {
            return Ok(());
        }
        if self.group.is_empty() {
            return Err(bad("Priority Group missing"));
        }
        if !config.priority_groups.contains(&self.group) {
            return Err(bad("Invalid Priority Group"));
        }
        Ok(())
    }
}

fn bad(reason: impl fmt::Display) -> RequestRefusal {
    RequestRefusal { status: 400, description: format!("Bad Request - {reason}") }
}

fn conflict(reason: impl fmt::Display) -> RequestRefusal {
    RequestRefusal { status: 409, description: reason.to_string() }
}

/// Without blanks around it, those of Unicode too, as far as the ends are text.
fn trimmed(body: &[u8]) -> &[u8] {
    let body = body.trim_ascii();
    std::str::from_utf8(body).map_or(body, |text| text.trim().as_bytes())
}
