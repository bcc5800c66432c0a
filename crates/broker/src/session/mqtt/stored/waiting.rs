//! Messages that wait until the client has acknowledged others: as many as are small together are
//! kept. Of those behind them only is known where they are stored, and they are read again in their
//! turn (`postponed.rs`): so a session does not keep what its consumer has delivered.

use super::delivery::ConsumerDelivery;
use super::state::InFlight;
use myelin_mqtt::packet::PacketId;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::collections::VecDeque;

/// Messages that wait: those that are kept, and those that are read again behind them.
#[derive(Default)]
pub(in crate::session::mqtt) struct WaitingMessages {
    held: MessageBuf,
    postponed: Postponed,
    /// Number of the first one, if that is another message's.
    number: Option<PacketId>,
}

/// Messages that are read again.
#[derive(Default)]
struct Postponed {
    queue: VecDeque<PostponedMessage>,
    /// The first one is being read.
    is_reading: bool,
    /// Set while what is kept is sent: it is not behind these.
    is_draining: bool,
}

/// One that is read again.
pub(super) struct PostponedMessage {
    pub(super) sequence: u64,
    pub(super) subject: Box<[u8]>,
    pub(super) reply: Box<[u8]>,
}

impl InFlight {
    /// Has a message wait, unless it does already. Where `most` bytes wait, it is read again.
    pub(super) fn hold(&mut self, msg: &MessageRef<'_>, delivery: &ConsumerDelivery<'_>, most: usize) {
        let is_it = |reply: &[u8]| {
            ConsumerDelivery::of(reply).is_some_and(|other| {
                (other.consumer, other.sequence) == (delivery.consumer, delivery.sequence)
            })
        };
        let WaitingMessages { held, postponed, .. } = &mut **self.waiting.get_or_insert_default();
        let queue = &mut postponed.queue;
        if delivery.times > 1
            && (held.iter().any(|held| is_it(held.reply)) || queue.iter().any(|next| is_it(&next.reply)))
        {
            return;
        }
        let size = msg.subject.len() + msg.reply.len() + msg.headers.len() + msg.payload.len();
        let has_room = held.is_empty() || held.bytes() + size <= most;
        if postponed.is_draining || (queue.is_empty() && has_room) {
            held.push(*msg);
        } else {
            let (subject, reply) = (msg.subject.into(), msg.reply.into());
            queue.push_back(PostponedMessage { sequence: delivery.sequence, subject, reply });
        }
    }

    /// Whether a message has to wait.
    pub(in crate::session::mqtt) fn is_full(&self, most: usize) -> bool {
        let waits = |WaitingMessages { held, postponed, .. }: &WaitingMessages| {
            !held.is_empty() || (!postponed.is_draining && !postponed.queue.is_empty())
        };
        self.bytes >= most || self.waiting.as_deref().is_some_and(waits)
    }

    /// Has all that wait do so until this number is free.
    pub(super) fn wait_for_number(&mut self, number: PacketId) {
        self.waiting.get_or_insert_default().number = Some(number);
    }

    /// Number for which those wait that do.
    pub(super) fn number_waited_for(&self) -> Option<PacketId> {
        self.waiting.as_ref()?.number
    }

    /// Messages that have waited long enough. Until [`Self::end_drain`] none that waits is in front
    /// of them.
    pub(in crate::session::mqtt) fn begin_drain(&mut self, most: usize) -> MessageBuf {
        let Some(waiting) = &mut self.waiting else { return MessageBuf::default() };
        (waiting.postponed.is_draining, waiting.number) = (true, None);
        if self.bytes < most / 2 { std::mem::take(&mut waiting.held) } else { MessageBuf::default() }
    }

    pub(super) fn end_drain(&mut self) {
        let Some(WaitingMessages { held, postponed, .. }) = self.waiting.as_deref_mut() else { return };
        postponed.is_draining = false;
        if held.is_empty() && postponed.queue.is_empty() {
            self.waiting = None;
        }
    }

    /// Sequence of the message that is read again now.
    pub(super) fn next_postponed(&mut self, most: usize) -> Option<u64> {
        let WaitingMessages { held, postponed, .. } = self.waiting.as_deref_mut()?;
        let has_room = held.is_empty() && self.bytes < most / 2;
        let next = postponed.queue.front().filter(|_| has_room && !postponed.is_reading)?;
        postponed.is_reading = true;
        Some(next.sequence)
    }

    /// Takes the message out that was read again.
    pub(super) fn take_postponed(&mut self) -> Option<PostponedMessage> {
        let postponed = &mut self.waiting.as_deref_mut()?.postponed;
        postponed.is_reading = false;
        postponed.queue.pop_front()
    }

    /// Keeps a message that was read again, behind those that are kept.
    pub(super) fn keep(&mut self, msg: MessageRef<'_>) {
        self.waiting.get_or_insert_default().held.push(msg);
    }

    /// Everything that waits, in order; payloads only as far as they are kept.
    pub(super) fn take_waiting(&mut self) -> MessageBuf {
        let WaitingMessages { held: mut all, postponed, .. } =
            self.waiting.take().map(|all| *all).unwrap_or_default();
        for PostponedMessage { subject, reply, .. } in postponed.queue {
            all.push(MessageRef { subject: &subject, reply: &reply, ..MessageRef::default() });
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(sequence: u64, times: u64) -> String {
        format!("$JS.ACK.$MQTT_msgs.c.{times}.{sequence}.7.1795963618634825642.0")
    }

    /// Holds a message where a hundred bytes may wait: one message.
    fn hold(in_flight: &mut InFlight, sequence: u64, times: u64) {
        let reply = reply(sequence, times);
        let msg =
            MessageRef { subject: b"s", reply: reply.as_bytes(), payload: &[0; 10], ..MessageRef::default() };
        let delivery = ConsumerDelivery::of(reply.as_bytes()).unwrap();
        in_flight.hold(&msg, &delivery, 100);
    }

    fn sequences(msgs: &MessageBuf) -> Vec<u64> {
        msgs.iter().map(|msg| ConsumerDelivery::of(msg.reply).unwrap().sequence).collect()
    }

    #[test]
    fn what_does_not_fit_is_read_again_in_its_turn() {
        let mut in_flight = InFlight::default();
        (1..=5).for_each(|sequence| hold(&mut in_flight, sequence, 1));
        (1..=5).for_each(|sequence| hold(&mut in_flight, sequence, 2));
        let held = in_flight.waiting.as_ref().map(|waiting| waiting.held.bytes());
        assert!(held.is_some_and(|held| held <= 100) && in_flight.is_full(100));
        assert_eq!(in_flight.next_postponed(100), None, "others are in front of it");
        let kept = in_flight.begin_drain(100);
        let kept = sequences(&kept);
        assert!(!in_flight.is_full(100), "these are sent");
        in_flight.end_drain();
        assert!(in_flight.is_full(100), "what comes is behind those that are read");
        let next = kept.len() as u64 + 1;
        assert_eq!([in_flight.next_postponed(100), in_flight.next_postponed(100)], [Some(next), None]);
        // It comes again meanwhile.
        hold(&mut in_flight, next, 3);
        let left = sequences(&in_flight.take_waiting());
        assert_eq!([kept, left].concat(), [1, 2, 3, 4, 5]);
        assert!(!in_flight.is_full(100));
    }
}
