//! Requests that are sent again: to a stream that has no leader now, and for streams of which
//! nobody has said anything yet.
//!
//! A request is kept until it is answered. Where nobody takes it, because the leader of a stream or
//! of the cluster has just gone, it is sent again under its number within the time that JetStream
//! has to answer, so that a change of leader ends no session and refuses no message. Messages that
//! come behind one that waits wait, too: they keep their order.

use super::api;
use super::kept_requests::KeptRequest;
use super::settled;
use super::state::{Matter, StoredSession};
use crate::session::Session;
use crate::shard::Shard;
use myelin_wire::message_buf::MessageRef;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time after which a request is sent again that nobody has taken.
const AGAIN: Duration = Duration::from_millis(250);

/// Time after which one about streams is sent again that has no answer, for the first time; then
/// as long again as it has waited. A cluster that begins does not hear requests before it has a
/// leader.
const UNHEARD: Duration = Duration::from_millis(500);

/// Bytes that may wait for answers before the client is not listened to.
const MOST_BYTES: usize = 1 << 20;

/// Whether it is said that nobody takes the request: its stream, or the cluster, has no leader.
fn is_not_taken(msg: &MessageRef<'_>) -> bool {
    match msg.headers {
        b"" if msg.payload.is_empty() => true,
        b"" => api::is_unavailable(msg.payload),
        headers => headers.starts_with(b"NATS/1.0 503"),
    }
}

impl Matter {
    /// Whether a request is kept until it is answered. Confirmations have times of their own.
    fn is_kept(&self) -> bool {
        !matches!(self, Self::Settled(_) | Self::Nothing | Self::StreamsTurn)
    }

    /// Whether it is a message that keeps its order.
    fn is_ordered(&self) -> bool {
        matches!(self, Self::Stored(_) | Self::Removal(_) | Self::Released(_))
    }
}

impl StoredSession {
    /// When requests are sent again.
    pub(super) fn again_due(&self) -> Option<Instant> {
        self.asked.kept.as_ref()?.next_due()
    }

    /// Whether so many bytes wait for answers that the client has to.
    pub(super) fn keeps_much(&self) -> bool {
        self.asked.kept.as_ref().is_some_and(|kept| kept.bytes >= MOST_BYTES)
    }

    /// Keeps a request. False: it waits behind others, and is not sent now.
    pub(super) fn keep(&mut self, number: u64, msg: &MessageRef<'_>, matter: &Matter, now: Instant) -> bool {
        if !matter.is_kept() {
            return true;
        }
        let kept = self.asked.kept.get_or_insert_default();
        kept.keep(number, msg);
        if matches!(matter, Matter::Stream(..)) {
            kept.await_again(number, now + UNHEARD, false);
        }
        let Some((last, _)) = kept.due.last().copied().filter(|_| kept.holds_up && matter.is_ordered())
        else {
            return true;
        };
        kept.await_again(number, last, true);
        false
    }

    /// A request is answered, or given up.
    pub(super) fn is_over(&mut self, number: u64) {
        if let Some(kept) = &mut self.asked.kept {
            kept.forget(number);
        }
    }

    /// Has a request sent again that nobody has taken. False: it is another answer, or the time is
    /// over.
    pub(super) fn ask_again(
        &mut self,
        (number, asked): (u64, Instant),
        matter: &Matter,
        msg: &MessageRef<'_>,
        now: Instant,
    ) -> bool {
        let is_in_time = now + AGAIN < asked + self.storage.api_timeout;
        let Some(kept) = self.asked.kept.as_mut().filter(|_| is_in_time && matter.is_kept()) else {
            return false;
        };
        let waits = kept.by_number.contains_key(&number) && is_not_taken(msg);
        if waits {
            kept.await_again(number, now + AGAIN, matter.is_ordered());
        }
        waits
    }
}

impl Session {
    /// Sends requests again that are due. False where there are none.
    pub(super) fn send_again(&mut self, shard: &mut Shard, now: Instant) -> bool {
        let cid = self.conn.cid();
        let Some(stored) = self.stored_mut() else { return false };
        let Some(kept) = &mut stored.asked.kept else { return false };
        let due = kept.take_due(now);
        let mut msgs = shard.spare_buf();
        for number in &due {
            let Some(request) = kept.by_number.get(number) else { continue };
            let reply = stored.store.answer_subject(cid, *number);
            let KeptRequest { subject, headers, payload, .. } = request;
            msgs.push(MessageRef {
                subject,
                reply: reply.as_bytes(),
                headers,
                payload,
                ..MessageRef::default()
            });
            // One about streams goes on to be asked until it is heard.
            if let Some((asked, Matter::Stream(..))) = stored.awaited.get(number) {
                let pause = UNHEARD.max(now.saturating_duration_since(*asked));
                kept.await_again(*number, now + pause, false);
            }
        }
        let account = std::sync::Arc::clone(stored.store.account());
        shard.send(&account, &mut msgs, now);
        shard.keep_buf(msgs);
        !due.is_empty()
    }
}

/// When the first of these answers has to be there.
pub(super) fn first_due(
    awaited: &BTreeMap<u64, (Instant, Matter)>,
    is_reading: bool,
    patience: Duration,
) -> Option<Instant> {
    let due = |(asked, matter): &(Instant, Matter)| match matter {
        Matter::Settled(_) => *asked + settled::SETTLE_AGAIN,
        _ => *asked + patience,
    };
    // They are in the order of their requests, but for reads, which go on with their messages.
    let mut all = awaited.values().map(due);
    if is_reading { all.min() } else { all.next() }
}

#[cfg(test)]
mod tests {
    use super::super::state::{RetainedRead, RetainedWay};
    use super::*;
    use myelin_mqtt::packet::Qos;

    #[test]
    fn a_read_that_goes_on_hides_no_answer_that_is_lost() {
        let (now, patience) = (Instant::now(), Duration::from_secs(5));
        let (pattern, qos, way) = ("a".to_owned(), Qos::AtMostOnce, RetainedWay::Index);
        let read = Box::new(RetainedRead { pattern, qos, id: None, way });
        let later = now + Duration::from_secs(3);
        let mut awaited = BTreeMap::from([(2, (now, Matter::Nothing)), (3, (later, Matter::Nothing))]);
        assert_eq!(first_due(&awaited, false, patience), Some(now + patience));
        // Its last message has just come.
        awaited.insert(1, (later, Matter::Retained(read)));
        assert_eq!(first_due(&awaited, true, patience), Some(now + patience));
        assert_eq!(first_due(&BTreeMap::new(), false, patience), None);
    }

    #[test]
    fn a_status_and_an_error_say_that_nobody_takes_it() {
        let of = |headers, payload| is_not_taken(&MessageRef { headers, payload, ..MessageRef::default() });
        assert!(of(b"NATS/1.0 503\r\n\r\n", b"") && of(b"", b""));
        assert!(of(b"", br#"{"error":{"code":503,"err_code":10008,"description":"x"}}"#));
        assert!(!of(b"", br#"{"stream":"s","seq":10008}"#) && !of(b"NATS/1.0 404\r\n\r\n", b""));
        assert!(!of(b"", br#"{"error":{"code":404,"err_code":10059,"description":"x"}}"#));
    }
}
