//! PUBLISH of QoS 1 and 2, and retained messages: acknowledged when they are stored.

use super::api::{self, MessageAnswer};
use super::state::{Matter, PendingAck, Release, ReleaseStage, Step};
use crate::log::Level as LogLevel;
use crate::mqtt_copy::StoredCopy;
use crate::mqtt_nats_side::{KeptCopy, NatsSide};
use crate::mqtt_will::StoredWill;
use crate::session::{Session, SessionState};
use crate::shard::{MqttPublish, Shard};
use myelin_mqtt::headers;
use myelin_mqtt::packet::{
    AckPacket, Exchange, PacketId, PropertyBuf, PublishPacket, Qos, ReasonCode, ServerPacket,
};
use myelin_mqtt::records::{HeldMark, MessageMark, released_id};
use myelin_mqtt::{streams, topic};
use myelin_wire::error::ErrorText;
use myelin_wire::message_buf::MessageRef;
use std::time::Instant;

/// Messages and requests that may wait for an answer.
const MOST_AWAITED: usize = 1024;

/// The number of an acknowledgement that nobody waits for.
const UNACKNOWLEDGED: u64 = 0;

impl Session {
    /// Whether so much waits for JetStream that the client has to.
    pub(super) fn has_asked_much(&self) -> bool {
        self.stored().is_some_and(|stored| stored.awaited.len() >= MOST_AWAITED)
    }

    /// Publishes a message that is stored.
    pub(in crate::session::mqtt) fn publish_stored(
        &mut self,
        shard: &mut Shard,
        packet: &PublishPacket<'_>,
        nats: &NatsSide,
        now: Instant,
    ) {
        let mut subject = Vec::new();
        // A topic that has no subject does not come so far.
        if topic::name_to_subject(packet.topic, &mut subject).is_err() {
            return;
        }
        let mapped = self.mapped(&subject);
        let qos = packet.exchange.qos();
        let flags = u8::from(packet.dup) << 3 | (qos as u8) << 1 | u8::from(packet.retain);
        if let Exchange::ExactlyOnce(id) = packet.exchange {
            if self.speaks_5() && !self.may_publish_to(shard, &subject) {
                return self.refuse_stored(shard, packet.exchange);
            }
            let Some(stored) = self.stored_mut() else { return };
            let ack = stored.acks.push(packet.exchange, 1);
            let (to, from) = mapped.as_ref().map_or((&subject, &[][..]), |mapped| (mapped, &subject));
            let held = HeldMark { flags, subject: to, mapped: from };
            let mark = MessageMark { qos, held: Some(held) };
            return self.hold(shard, (id, ack), mark, (packet.payload, nats), now);
        }
        let subject = mapped.unwrap_or(subject);
        let PublishPacket { topic, payload, retain: is_retained, .. } = *packet;
        let (reply, lines) = (&nats.reply[..], &nats.lines[..]);
        let message = MqttPublish { topic, qos, payload, reply, lines };
        if !self.publish_message(shard, message, now) {
            return self.refuse_stored(shard, packet.exchange);
        }
        let Some(stored) = self.stored_mut() else { return };
        let ack = match packet.exchange {
            Exchange::AtMostOnce => UNACKNOWLEDGED,
            exchange => stored.acks.push(exchange, 1 + u8::from(packet.retain)),
        };
        let copy = StoredCopy { subject: &subject, qos, payload, is_retained, nats };
        if is_retained {
            self.retain(shard, copy, flags, ack, now);
        }
        if qos > Qos::AtMostOnce {
            self.store(shard, copy, None, Matter::Stored(ack), now);
        }
    }

    /// Whether the client may publish there. If not, it is told in the log.
    fn may_publish_to(&self, shard: &Shard, subject: &[u8]) -> bool {
        let SessionState::Ready(ready) = &self.state else { return false };
        let may = shard.may_publish(&ready.account, ready.permissions.as_ref(), subject);
        if !may {
            self.refuse_topic(&ErrorText::PublishViolation(subject.into()));
        }
        may
    }

    /// Acknowledges a message that the client may not publish, in its turn.
    fn refuse_stored(&mut self, shard: &mut Shard, exchange: Exchange) {
        if let Some(stored) = self.stored_mut().filter(|_| exchange != Exchange::AtMostOnce) {
            stored.acks.push_refused(exchange, ReasonCode::NotAuthorized);
        }
        self.acknowledge_stored(shard);
    }

    /// Stores a will, and retains it, without waiting for it.
    pub(in crate::session::mqtt) fn store_will(
        &mut self,
        shard: &mut Shard,
        will: &StoredWill,
        now: Instant,
    ) {
        let StoredWill { topic, payload, qos, is_retained, nats, .. } = will;
        let (mut subject, qos) = (Vec::new(), *qos);
        if self.stored().is_none() || topic::name_to_subject(topic, &mut subject).is_err() {
            return;
        }
        let subject = self.mapped(&subject).unwrap_or(subject);
        let copy = StoredCopy { subject: &subject, qos, payload, is_retained: *is_retained, nats };
        if *is_retained {
            self.retain(shard, copy, (qos as u8) << 1 | 1, UNACKNOWLEDGED, now);
        }
        if qos > Qos::AtMostOnce {
            self.store(shard, copy, None, Matter::Nothing, now);
        }
    }

    /// The subject to which the account's mappings lead, if they do.
    fn mapped(&self, subject: &[u8]) -> Option<Vec<u8>> {
        self.stored()?.store.account().mqtt_mapped(subject)
    }

    /// Stores a message for sessions that subscribe with QoS 1 or 2.
    fn store(
        &mut self,
        shard: &mut Shard,
        copy: StoredCopy<'_>,
        id: Option<&str>,
        awaited: Matter,
        now: Instant,
    ) {
        let (subject, headers) = copy.message(id, self.unix_ms(now));
        let payload = copy.payload;
        let msg = MessageRef { subject: &subject, headers: &headers, payload, ..MessageRef::default() };
        self.ask(shard, msg, awaited, now);
    }

    fn hold(
        &mut self,
        shard: &mut Shard,
        (id, ack): (PacketId, u64),
        mark: MessageMark<'_>,
        (payload, nats): (&[u8], &NatsSide),
        now: Instant,
    ) {
        let subject = self.held_subject(&id.to_string());
        self.stored_mut().into_iter().for_each(|stored| stored.acks.may_hold = true);
        let lines = nats.stored_lines(KeptCopy::Held, self.unix_ms(now));
        let mut headers = Vec::new();
        mark.write(None, &lines, &mut headers);
        let subject = subject.as_bytes();
        let msg = MessageRef { subject, headers: &headers, payload, ..MessageRef::default() };
        self.ask(shard, msg, Matter::Stored(ack), now);
    }

    /// Where a message with this number is held. Compat: under the client id, if that is one part
    /// of a subject.
    pub(super) fn held_subject(&self, number: &str) -> String {
        let client_id = self.mqtt.as_deref().map_or("", |mqtt| &mqtt.client_id);
        let is_plain =
            myelin_subject::is_well_formed(client_id.as_bytes()) && !client_id.contains(['.', '*', '>']);
        let hash = self.stored().map_or("", |stored| &stored.hash);
        streams::held_subject(if is_plain { client_id } else { hash }, number)
    }

    /// Stores a retained message, or the end of one.
    fn retain(&mut self, shard: &mut Shard, copy: StoredCopy<'_>, flags: u8, ack: u64, now: Instant) {
        let SessionState::Ready(ready) = &self.state else { return };
        let Some(stored) = self.stored() else { return };
        let user = ready.user.as_deref().unwrap_or_default();
        let (subject, headers) = copy.retained(flags, (&stored.store.node, user), self.unix_ms(now));
        let (payload, removes) = (copy.payload, copy.payload.is_empty());
        let msg = MessageRef { subject: &subject, headers: &headers, payload, ..MessageRef::default() };
        let awaited = if removes { Matter::Removal(ack) } else { Matter::Stored(ack) };
        self.ask(shard, msg, awaited, now);
    }

    /// A record that removes a retained message is stored in its place, and goes too.
    pub(super) fn removal_stored(&self, shard: &mut Shard, answer: &[u8], now: Instant) {
        if let Ok(sequence) = api::outcome(answer) {
            let request = format!("STREAM.MSG.DELETE.{}", streams::RETAINED.name);
            self.tell_api(shard, &request, api::remove(sequence).as_bytes(), now);
        }
    }

    pub(super) fn message_stored(&mut self, shard: &mut Shard, ack: u64, answer: &[u8]) -> Step {
        let speaks_5 = self.speaks_5();
        let Some(stored) = self.stored_mut() else { return Ok(()) };
        let pending = stored.acks.find(ack);
        // One that is held and comes again is refused by the stream, which has it.
        let is_held = pending.as_ref().is_some_and(|ack| ack.exchange.qos() == Qos::ExactlyOnce);
        let outcome = api::outcome(answer)
            .or_else(|fault| if is_held && fault.is_kept_first() { Ok(0) } else { Err(fault) });
        let can_tell = speaks_5 && pending.is_some();
        if let Some(pending) = pending {
            pending.missing = pending.missing.saturating_sub(1);
            if let Err(fault) = &outcome {
                pending.reason = fault.reason();
            }
        }
        match outcome {
            Err(fault) if can_tell => {
                let what = format_args!("MQTT storage: {} ({})", fault.description, fault.err_code);
                self.log(LogLevel::Error, what);
                self.acknowledge_stored(shard);
                Ok(())
            }
            Err(fault) => {
                Err(self.storage_failed(format_args!("{} ({})", fault.description, fault.err_code)))
            }
            _ => {
                self.acknowledge_stored(shard);
                Ok(())
            }
        }
    }

    /// Sends the acknowledgements that are due.
    fn acknowledge_stored(&mut self, shard: &mut Shard) {
        while let Some(due) = self.stored_mut().and_then(|stored| stored.acks.pop()) {
            let PendingAck { exchange, reason, .. } = due;
            let ack = |id| AckPacket { reason, ..AckPacket::success(id) };
            match exchange {
                Exchange::AtMostOnce => {}
                Exchange::AtLeastOnce(id) => {
                    self.answer(shard, &ServerPacket::PubAck(ack(id)), format_args!("PUBACK pi={id}"));
                }
                Exchange::ExactlyOnce(id) => {
                    if let Some(five) = self.five_mut().filter(|_| reason.is_error()) {
                        // The exchange ends with the refusal.
                        five.unreleased.remove(&id);
                    }
                    self.answer(shard, &ServerPacket::PubRec(ack(id)), format_args!("PUBREC pi={id}"));
                }
            }
        }
    }

    /// A message of QoS 2 will not come again: it goes on to its receivers. One after the other, in
    /// the order of the releases.
    pub(in crate::session::mqtt) fn release(&mut self, shard: &mut Shard, id: PacketId, now: Instant) {
        self.log_step("PUBREL", id);
        let Some(stored) = self.stored_mut() else { return };
        stored.releases.push(Release { id, stage: ReleaseStage::Read, sequence: 0 });
        if stored.releases.len() == 1 {
            self.read_held(shard, now);
        }
    }

    /// Asks for the message of the first release.
    fn read_held(&mut self, shard: &mut Shard, now: Instant) {
        let Some(first) = self.stored().and_then(|stored| stored.releases.first()) else { return };
        let body = api::last_of(&self.held_subject(&first.id.to_string()));
        let request = format!("STREAM.MSG.GET.{}", streams::HELD.name);
        self.ask_api(shard, &request, &body, Matter::Release, now);
    }

    pub(super) fn release_answered(&mut self, shard: &mut Shard, answer: &[u8], now: Instant) -> Step {
        let first = self.stored().and_then(|stored| stored.releases.first());
        let Some(stage) = first.map(|first| first.stage) else { return Ok(()) };
        let fault = match stage {
            ReleaseStage::Read => match api::read(answer).and_then(MessageAnswer::message) {
                Ok(Some(held)) => return self.publish_held(shard, &held, now),
                // Released before.
                Ok(None) => return self.released(shard, ReasonCode::PacketIdNotFound, now),
                Err(fault) => fault,
            },
            ReleaseStage::Stored => match api::outcome(answer) {
                Ok(_) => return self.remove_held(shard, now),
                Err(fault) => fault,
            },
            // It cannot be released again: it is gone, or was.
            ReleaseStage::Removed => return self.released(shard, ReasonCode::Success, now),
        };
        Err(self.storage_failed(format_args!("{} ({})", fault.description, fault.err_code)))
    }

    fn publish_held(&mut self, shard: &mut Shard, held: &api::StoredMessage, now: Instant) -> Step {
        let first = self.stored_mut().and_then(|stored| stored.releases.first_mut());
        first.into_iter().for_each(|first| {
            (first.sequence, first.stage) = (held.sequence, ReleaseStage::Stored);
        });
        let mark = MessageMark::of(&held.headers);
        let Some(MessageMark { qos, held: Some(mark) }) = mark else {
            return self.remove_held(shard, now);
        };
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
        if is_over || !self.publish_message(shard, message, now) {
            return self.remove_held(shard, now);
        }
        let copy = StoredCopy { subject: mark.subject, qos, payload, is_retained, nats };
        if is_retained {
            self.retain(shard, copy, mark.flags, UNACKNOWLEDGED, now);
        }
        let id = released_id(held.sequence);
        self.store(shard, copy, Some(&id), Matter::Release, now);
        Ok(())
    }

    fn remove_held(&mut self, shard: &mut Shard, now: Instant) -> Step {
        let Some(first) = self.stored_mut().and_then(|stored| stored.releases.first_mut()) else {
            return Ok(());
        };
        first.stage = ReleaseStage::Removed;
        let body = api::remove(first.sequence);
        let request = format!("STREAM.MSG.DELETE.{}", streams::HELD.name);
        self.ask_api(shard, &request, body.as_bytes(), Matter::Release, now);
        Ok(())
    }

    /// The first release is done.
    fn released(&mut self, shard: &mut Shard, reason: ReasonCode, now: Instant) -> Step {
        let Some(stored) = self.stored_mut() else { return Ok(()) };
        let id = stored.releases.remove(0).id;
        self.five_mut().into_iter().for_each(|five| _ = five.unreleased.remove(&id));
        let ack = AckPacket { reason, ..AckPacket::success(id) };
        self.answer(shard, &ServerPacket::PubComp(ack), format_args!("PUBCOMP pi={id}"));
        self.read_held(shard, now);
        Ok(())
    }
}
