//! PUBREL: a message of QoS 2 that is held goes on to its receivers, and is removed.
//!
//! Messages are published in the order of their releases, none of which waits until the one before
//! is stored; removed together; acknowledged with PUBCOMP when they are removed, for then their
//! numbers can be those of other messages. What a crash interrupts begins again with the client's
//! next PUBREL: a message that was stored before is a duplicate to the stream.

use super::api::{self, MessageAnswer, StoredMessage};
use super::held::{HeldRemoval, NextRelease, RemovedSequences};
use super::incoming::UNACKNOWLEDGED;
use super::state::{Matter, Step};
use crate::mqtt_copy::StoredCopy;
use crate::session::Session;
use crate::shard::{MqttPublish, Shard};
use myelin_mqtt::headers;
use myelin_mqtt::packet::{AckPacket, PacketId, PropertyBuf, ReasonCode, ServerPacket};
use myelin_mqtt::records::{MessageMark, released_id};
use myelin_mqtt::{sparkplug, streams, topic};
use std::time::Instant;

impl Session {
    /// A message of QoS 2 will not come again: it goes on to its receivers.
    pub(in crate::session::mqtt) fn release(&mut self, shard: &mut Shard, id: PacketId, now: Instant) {
        self.log_step("PUBREL", id);
        let Some(stored) = self.stored_mut() else { return };
        stored.held.get_or_insert_default().release(id);
        self.go_on_releasing(shard, now);
    }

    /// Publishes what is released, up to a message that has to be read.
    fn go_on_releasing(&mut self, shard: &mut Shard, now: Instant) {
        while let Some(next) = self.stored_mut().and_then(|stored| stored.held.get_or_insert_default().next())
        {
            match next {
                NextRelease::Publish(id, held) => self.publish_held(shard, id, &held, now),
                NextRelease::Read(id) => {
                    let body = api::last_of(&self.held_subject(&id.to_string()));
                    let request = format!("STREAM.MSG.GET.{}", streams::HELD.name);
                    self.ask_api(shard, &request, &body, Matter::HeldRead(id), now);
                }
            }
        }
        self.remove_published(shard, now);
    }

    pub(super) fn held_read(&mut self, shard: &mut Shard, id: PacketId, answer: &[u8], now: Instant) -> Step {
        match api::read(answer).and_then(MessageAnswer::message) {
            Ok(Some(message)) => {
                let Some(stored) = self.stored_mut() else { return Ok(()) };
                stored.held.get_or_insert_default().was_read(id, message.sequence);
                self.publish_held(shard, id, &message, now);
            }
            // Released before.
            Ok(None) => self.released(shard, id, ReasonCode::PacketIdNotFound),
            Err(fault) => return Err(self.refused_by_storage(&fault)),
        }
        self.go_on_releasing(shard, now);
        Ok(())
    }

    fn publish_held(&mut self, shard: &mut Shard, id: PacketId, held: &StoredMessage, now: Instant) {
        if !self.store_released(shard, id, held, now)
            && let Some(stored) = self.stored_mut()
        {
            stored.held.get_or_insert_default().was_published(id);
        }
    }

    /// Publishes a released message and has it stored. False: it is for nobody.
    fn store_released(
        &mut self,
        shard: &mut Shard,
        id: PacketId,
        held: &StoredMessage,
        now: Instant,
    ) -> bool {
        let mark = MessageMark::of(&held.headers);
        let Some(MessageMark { qos, held: Some(mark) }) = mark else { return false };
        let published = if mark.mapped.is_empty() { mark.subject } else { mark.mapped };
        let mut name = Vec::new();
        topic::subject_to_topic(published, &mut name);
        let name = String::from_utf8_lossy(&name);
        let (is_retained, payload) = (mark.is_retained(), &held.payload[..]);
        let mut properties = PropertyBuf::default();
        let left = headers::time_left(&held.headers, self.unix_ms(now));
        headers::read_stored(&held.headers, left, &mut properties);
        let nats = &self.nats_side(shard, properties.properties(), Some(is_retained), now);
        let (reply, lines) = (&nats.reply[..], &nats.lines[..]);
        let message = MqttPublish { topic: &name, qos, payload, reply, lines };
        let is_over = left == headers::TimeLeft::Expired;
        if is_over {
            return false;
        }
        self.certify(shard, message, (is_retained, nats), now);
        if !self.publish_message(shard, message, now) {
            return false;
        }
        let copy = StoredCopy { subject: mark.subject, qos, payload, is_retained, nats };
        if sparkplug::is_retained(&name, is_retained) {
            self.retain(shard, copy, mark.flags, UNACKNOWLEDGED, now);
        }
        let number = released_id(held.sequence);
        self.store(shard, copy, Some(&number), Matter::Released(id), now);
        true
    }

    /// A released message is stored for sessions.
    pub(super) fn released_stored(
        &mut self,
        shard: &mut Shard,
        id: PacketId,
        answer: &[u8],
        now: Instant,
    ) -> Step {
        api::outcome(answer).map_err(|fault| self.refused_by_storage(&fault))?;
        let Some(stored) = self.stored_mut() else { return Ok(()) };
        stored.held.get_or_insert_default().was_published(id);
        self.remove_published(shard, now);
        Ok(())
    }

    /// Removes what is published, as much at once as can be.
    fn remove_published(&mut self, shard: &mut Shard, now: Instant) {
        while let Some(removal) =
            self.stored_mut().and_then(|stored| stored.held.get_or_insert_default().removal())
        {
            let HeldRemoval { ids, which } = removal;
            let (verb, body) = match which {
                RemovedSequences::One(sequence) => ("MSG.DELETE", api::remove(sequence)),
                RemovedSequences::UpTo(last) => {
                    ("PURGE", api::purge_below(&self.held_subject("*"), last + 1))
                }
            };
            let request = format!("STREAM.{verb}.{}", streams::HELD.name);
            self.ask_api(shard, &request, body.as_bytes(), Matter::HeldRemoved(ids), now);
        }
    }

    /// Messages are removed. What says that one could not be removed says that it was before.
    pub(super) fn held_removed(
        &mut self,
        shard: &mut Shard,
        ids: &[PacketId],
        answer: &[u8],
        now: Instant,
    ) -> Step {
        if ids.len() > 1 {
            api::outcome(answer).map_err(|fault| self.refused_by_storage(&fault))?;
        }
        ids.iter().for_each(|id| self.released(shard, *id, ReasonCode::Success));
        self.remove_published(shard, now);
        Ok(())
    }

    /// The release is over.
    fn released(&mut self, shard: &mut Shard, id: PacketId, reason: ReasonCode) {
        let Some(stored) = self.stored_mut() else { return };
        stored.held.get_or_insert_default().was_released(id);
        self.five_mut().into_iter().for_each(|five| _ = five.unreleased.remove(&id));
        let ack = AckPacket { reason, ..AckPacket::success(id) };
        self.answer(shard, &ServerPacket::PubComp(ack), format_args!("PUBCOMP pi={id}"));
    }
}
