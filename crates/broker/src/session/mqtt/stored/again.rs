//! Requests that are sent again: to a stream that has no leader now, and for streams of which
//! nobody has said anything yet.
//!
//! A request is kept until it is answered. Where nobody takes it, because the leader of a stream or
//! of the cluster has just gone, it is sent again under its number within the time that JetStream
//! has to answer, so that a change of leader ends no session and refuses no message. Messages that
//! come behind one that waits wait, too: they keep their order.

use super::api;
use super::settled;
use super::state::{Matter, StoredSession};
use crate::session::Session;
use crate::shard::Shard;
use myelin_wire::message_buf::MessageRef;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Time after which a request is sent again that nobody has taken.
const AGAIN: Duration = Duration::from_millis(250);

/// Time after which one about streams is sent again that has no answer, for the first time; then
/// as long again as it has waited. A cluster that begins does not hear requests before it has a
/// leader.
const UNHEARD: Duration = Duration::from_millis(500);

/// Bytes that may wait for answers before the client is not listened to.
const MOST_BYTES: usize = 1 << 20;

/// Requests of one session that may be sent again.
#[derive(Default)]
pub(in crate::session::mqtt) struct KeptRequests {
    by_number: BTreeMap<u64, KeptRequest>,
    /// When requests are sent again, by their numbers.
    due: BTreeSet<(Instant, u64)>,
    /// Whether a message waits that is to be stored: others wait behind it.
    holds_up: bool,
    bytes: usize,
}

struct KeptRequest {
    subject: Box<[u8]>,
    headers: Box<[u8]>,
    payload: Box<[u8]>,
    due: Option<Instant>,
}

impl KeptRequest {
    fn size(&self) -> usize {
        self.subject.len() + self.headers.len() + self.payload.len()
    }
}

impl KeptRequests {
    fn keep(&mut self, number: u64, msg: &MessageRef<'_>) {
        let (subject, headers, payload) = (msg.subject.into(), msg.headers.into(), msg.payload.into());
        let request = KeptRequest { subject, headers, payload, due: None };
        self.bytes += request.size();
        let before = self.by_number.insert(number, request);
        debug_assert!(before.is_none(), "each request has a number of its own");
    }

    fn forget(&mut self, number: u64) {
        let Some(request) = self.by_number.remove(&number) else { return };
        self.bytes -= request.size();
        if let Some(due) = request.due {
            self.due.remove(&(due, number));
        }
        self.holds_up &= !self.due.is_empty();
    }

    /// Has a request sent again at that time, but not before others that wait.
    fn await_again(&mut self, number: u64, due: Instant, holds_up: bool) {
        let Some(request) = self.by_number.get_mut(&number) else { return };
        if let Some(before) = request.due.replace(due) {
            self.due.remove(&(before, number));
        }
        self.due.insert((due, number));
        self.holds_up |= holds_up;
    }

    /// When those that wait are sent again that do so longest.
    fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// All that wait, once one of them is due: in this order they were asked.
    fn take_due(&mut self, now: Instant) -> Vec<u64> {
        if self.next_due().is_none_or(|due| now < due) {
            return Vec::new();
        }
        self.holds_up = false;
        let due: Vec<_> = std::mem::take(&mut self.due).into_iter().map(|(_, number)| number).collect();
        for number in &due {
            if let Some(request) = self.by_number.get_mut(number) {
                request.due = None;
            }
        }
        due
    }
}

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
    fn what_nobody_takes_is_sent_again_in_its_order() {
        let (now, mut kept) = (Instant::now(), KeptRequests::default());
        let msg = MessageRef { subject: b"a", payload: b"12345", ..MessageRef::default() };
        (1..=3).for_each(|number| kept.keep(number, &msg));
        assert_eq!((kept.bytes, kept.next_due()), (18, None));
        kept.await_again(1, now + AGAIN, true);
        kept.await_again(3, now + AGAIN * 2, true);
        assert_eq!((kept.take_due(now), kept.next_due()), (vec![], Some(now + AGAIN)));
        assert_eq!((kept.take_due(now + AGAIN), kept.next_due()), (vec![1, 3], None));
        kept.await_again(2, now + AGAIN, true);
        // It is answered meanwhile.
        kept.forget(2);
        assert_eq!((kept.bytes, kept.next_due(), kept.holds_up), (12, None, false));
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
