//! Counts that are gathered from all servers: `$SYS.DEBUG.SUBSCRIBERS`.
//!
//! Every server that has clients of the account is asked with `$SYS.REQ.ACCOUNT.NSUBS`, and the sum
//! is told when all have answered, or after half a second.

use super::System;
use super::gatherings::{Gathering, OpenGathering};
use super::schedule::EventSchedule;
use myelin_stdx::entropy::OsEntropy;
use myelin_wire::json::compact;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Time for other servers to answer.
const PATIENCE: Duration = Duration::from_millis(500);
/// Questions that wait for answers at most: beyond it what is known here is told.
const MOST: usize = 1024;

#[derive(Serialize)]
struct Question<'a> {
    acc: &'a str,
    subject: &'a str,
    /// Compat: bytes in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
}

impl System {
    /// Asks other servers, if there are any that could know something.
    pub(super) fn gather(&self, gathering: Gathering, pace: &mut EventSchedule) {
        let Gathering { account, subject, queue, reply, count } = gathering;
        let left = self.broker.account(&account).map_or(0, |account| account.servers_elsewhere());
        if left == 0 || pace.gatherings.0.len() >= MOST {
            return self.reply(&reply, &[], count.to_string().as_bytes());
        }
        let queue = queue.map(|queue| crate::ocsp::to_base64(queue.as_bytes()));
        let body = compact(&Question { acc: &account, subject: &subject, queue });
        let inbox = self.peers.inbox(&myelin_stdx::id::unique(&OsEntropy, 8));
        self.request("$SYS.REQ.ACCOUNT.NSUBS", &inbox, &body);
        pace.gatherings.0.insert(inbox, OpenGathering { reply, count, left, end: Instant::now() + PATIENCE });
    }

    /// Takes the answer of one server.
    pub(super) fn hear_gathered(&self, subject: &str, body: &[u8], pace: &mut EventSchedule) {
        let Some(waiting) = pace.gatherings.0.get_mut(subject) else { return };
        let said = std::str::from_utf8(body).ok().and_then(|text| text.parse::<i32>().ok());
        waiting.count = waiting.count.saturating_add(said.unwrap_or(0).into());
        waiting.left -= 1;
        if waiting.left == 0
            && let Some(waiting) = pace.gatherings.0.remove(subject)
        {
            self.reply(&waiting.reply, &[], waiting.count.to_string().as_bytes());
        }
    }

    /// Answers what has waited long enough with what is known.
    pub(super) fn end_gatherings(&self, pace: &mut EventSchedule, now: Instant) {
        let over = pace.gatherings.0.extract_if(|_, waiting| waiting.end <= now);
        over.for_each(|(_, waiting)| self.reply(&waiting.reply, &[], waiting.count.to_string().as_bytes()));
    }
}
