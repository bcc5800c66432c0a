//! Messages that waited without being kept ([`super::waiting`]) are read again.

use super::api::{self, MessageAnswer};
use super::outgoing::ACK;
use super::state::{Matter, Step};
use crate::session::Session;
use crate::shard::Shard;
use myelin_mqtt::streams;
use myelin_wire::message_buf::MessageRef;
use std::time::Instant;

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
        let Some(next) = stored.in_flight.take_postponed() else { return Ok(()) };
        let (subject, reply) = (&next.subject[..], &next.reply[..]);
        match found {
            Some(message) => {
                let (headers, payload) = (&message.headers[..], &message.payload[..]);
                debug_assert!(message.sequence == next.sequence, "it was asked for");
                stored.in_flight.keep(MessageRef {
                    subject,
                    reply,
                    headers,
                    payload,
                    ..MessageRef::default()
                });
            }
            // It has expired, or somebody has removed it.
            None => self.tell_consumer(shard, reply, ACK, now),
        }
        self.deliver_held(shard, now);
        Ok(())
    }
}
