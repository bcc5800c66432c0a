//! Requests of a session as they were sent, and when they are sent again.

use myelin_wire::message_buf::MessageRef;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Requests of one session that may be sent again.
#[derive(Default)]
pub(in crate::session::mqtt) struct KeptRequests {
    pub(super) by_number: BTreeMap<u64, KeptRequest>,
    /// When requests are sent again, by their numbers.
    pub(super) due: BTreeSet<(Instant, u64)>,
    /// Whether a message waits that is to be stored: others wait behind it.
    pub(super) holds_up: bool,
    pub(super) bytes: usize,
}

/// Request as it was sent.
pub(super) struct KeptRequest {
    pub(super) subject: Box<[u8]>,
    pub(super) headers: Box<[u8]>,
    pub(super) payload: Box<[u8]>,
    due: Option<Instant>,
}

impl KeptRequest {
    fn size(&self) -> usize {
        self.subject.len() + self.headers.len() + self.payload.len()
    }
}

impl KeptRequests {
    pub(super) fn keep(&mut self, number: u64, msg: &MessageRef<'_>) {
        let (subject, headers, payload) = (msg.subject.into(), msg.headers.into(), msg.payload.into());
        let request = KeptRequest { subject, headers, payload, due: None };
        self.bytes += request.size();
        let before = self.by_number.insert(number, request);
        debug_assert!(before.is_none(), "each request has a number of its own");
    }

    pub(super) fn forget(&mut self, number: u64) {
        let Some(request) = self.by_number.remove(&number) else { return };
        self.bytes -= request.size();
        if let Some(due) = request.due {
            self.due.remove(&(due, number));
        }
        self.holds_up &= !self.due.is_empty();
    }

    /// Has a request sent again at that time, but not before others that wait.
    pub(super) fn await_again(&mut self, number: u64, due: Instant, holds_up: bool) {
        let Some(request) = self.by_number.get_mut(&number) else { return };
        if let Some(before) = request.due.replace(due) {
            self.due.remove(&(before, number));
        }
        self.due.insert((due, number));
        self.holds_up |= holds_up;
    }

    /// When those that wait are sent again that do so longest.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// All that wait, once one of them is due: in this order they were asked.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const AGAIN: Duration = Duration::from_millis(250);

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
}
