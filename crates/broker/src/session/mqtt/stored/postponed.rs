//! Messages that wait until the client has acknowledged others: as many as are small together are
//! kept. Of those behind them only is known where they are stored, and they are read again in their
//! turn: so a session does not keep what its consumer has delivered.

use super::api::{self, MessageAnswer};
use super::outgoing::{ACK, ConsumerDelivery};
use super::state::{InFlight, Matter, Step};
use crate::session::Session;
use crate::shard::Shard;
use myelin_mqtt::streams;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::collections::VecDeque;
use std::time::Instant;

/// Messages that wait: those that are kept, and those that are read again behind them.
#[derive(Default)]
pub(in crate::session::mqtt) struct Backlog {
    held: MessageBuf,
    postponed: Postponed,
}

/// Messages that are read again.
#[derive(Default)]
struct Postponed {
    queue: VecDeque<PostponedMessage>,
    /// The first one is being read.
    is_reading: bool,
    /// What is kept is sent: it is not behind these.
    is_draining: bool,
}

struct PostponedMessage {
    sequence: u64,
    subject: Box<[u8]>,
    reply: Box<[u8]>,
}

impl InFlight {
    /// Has a message wait, unless it does already. Where `most` bytes wait, it is read again.
    pub(super) fn hold(&mut self, msg: &MessageRef<'_>, delivery: &ConsumerDelivery<'_>, most: usize) {
        let is_it = |reply: &[u8]| {
            ConsumerDelivery::of(reply).is_some_and(|other| {
                (other.consumer, other.sequence) == (delivery.consumer, delivery.sequence)
            })
        };
        let Backlog { held, postponed } = &mut **self.backlog.get_or_insert_default();
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
        let waits = |Backlog { held, postponed }: &Backlog| {
            !held.is_empty() || (!postponed.is_draining && !postponed.queue.is_empty())
        };
        self.bytes >= most || self.backlog.as_deref().is_some_and(waits)
    }

    /// Messages that have waited long enough. Until [`Self::end_drain`] none that waits is in front
    /// of them.
    pub(in crate::session::mqtt) fn begin_drain(&mut self, most: usize) -> MessageBuf {
        let Some(backlog) = &mut self.backlog else { return MessageBuf::default() };
        backlog.postponed.is_draining = true;
        if self.bytes < most / 2 { std::mem::take(&mut backlog.held) } else { MessageBuf::default() }
    }

    pub(super) fn end_drain(&mut self) {
        let Some(Backlog { held, postponed }) = self.backlog.as_deref_mut() else { return };
        postponed.is_draining = false;
        if held.is_empty() && postponed.queue.is_empty() {
            self.backlog = None;
        }
    }

    /// Sequence of the message that is read again now.
    fn next_postponed(&mut self, most: usize) -> Option<u64> {
        let Backlog { held, postponed } = self.backlog.as_deref_mut()?;
        let has_room = held.is_empty() && self.bytes < most / 2;
        let next = postponed.queue.front().filter(|_| has_room && !postponed.is_reading)?;
        postponed.is_reading = true;
        Some(next.sequence)
    }

    /// Everything that waits, in order; payloads only as far as they are kept.
    pub(super) fn take_waiting(&mut self) -> MessageBuf {
        let Backlog { held: mut all, postponed } = self.backlog.take().map(|all| *all).unwrap_or_default();
        for PostponedMessage { subject, reply, .. } in postponed.queue {
            all.push(MessageRef { subject: &subject, reply: &reply, ..MessageRef::default() });
        }
        all
    }
}

impl Session {
    /// Reads the next message again, if the client takes one.
    pub(super) fn read_postponed(&mut self, shard: &mut Shard, now: Instant) {
        let most = shard.settings().max_backlog();
        let Some(stored) = self.stored_mut().filter(|stored| !stored.has_sent_all()) else { return };
        let Some(sequence) = stored.in_flight.next_postponed(most) else { return };
        let request = format!("STREAM.MSG.GET.{}", streams::MESSAGES.name);
        self.ask_api(shard, &request, &api::at(sequence), Matter::Postponed, now);
    }

    pub(super) fn postponed_read(&mut self, shard: &mut Shard, answer: &[u8], now: Instant) -> Step {
        let read = api::read(answer).and_then(MessageAnswer::message);
        let found = read.map_err(|fault| self.refused_by_storage(&fault))?;
        let Some(stored) = self.stored_mut() else { return Ok(()) };
        let Some(Backlog { held, postponed }) = stored.in_flight.backlog.as_deref_mut() else {
            return Ok(());
        };
        postponed.is_reading = false;
        let Some(next) = postponed.queue.pop_front() else { return Ok(()) };
        let (subject, reply) = (&next.subject[..], &next.reply[..]);
        match found {
            Some(message) => {
                let (headers, payload) = (&message.headers[..], &message.payload[..]);
                debug_assert!(message.sequence == next.sequence, "it was asked for");
                held.push(MessageRef { subject, reply, headers, payload, ..MessageRef::default() });
            }
            // It has expired, or somebody has removed it.
            None => self.tell_consumer(shard, reply, ACK, now),
        }
        self.deliver_held(shard, now);
        Ok(())
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
        let held = in_flight.backlog.as_ref().map(|backlog| backlog.held.bytes());
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
