//! PUBLISH of QoS 1 and 2, and retained messages: acknowledged when they are stored.

use super::api;
use super::state::{Matter, PendingAck, Step};
use crate::log::Level as LogLevel;
use crate::mqtt_copy::StoredCopy;
use crate::mqtt_nats_side::{KeptCopy, NatsSide};
use crate::mqtt_will::StoredWill;
use crate::session::{Session, SessionState};
use crate::shard::{MqttPublish, Publisher, Shard};
use myelin_mqtt::packet::{AckPacket, Exchange, PacketId, PublishPacket, Qos, ReasonCode, ServerPacket};
use myelin_mqtt::records::{HeldMark, MessageMark};
use myelin_mqtt::{sparkplug, streams, topic};
use myelin_wire::error::ErrorText;
use myelin_wire::message_buf::MessageRef;
use std::time::Instant;

/// Messages and requests that may wait for an answer.
const MOST_AWAITED: usize = 1024;

/// The number of an acknowledgement that nobody waits for.
pub(super) const UNACKNOWLEDGED: u64 = 0;

impl Session {
    /// Whether so much waits for JetStream that the client has to.
    pub(super) fn has_asked_much(&self) -> bool {
        self.stored().is_some_and(|stored| {
            stored.awaited.len() >= MOST_AWAITED
                || stored.keeps_much()
                || stored.held.as_ref().is_some_and(|held| held.releases_much())
        })
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
            if self.speaks_5() && !self.may_publish_to(shard, &subject, now) {
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
        let is_kept = sparkplug::is_retained(topic, is_retained);
        self.certify(shard, message, (is_retained, nats), now);
        if !self.publish_message(shard, message, now) {
            return self.refuse_stored(shard, packet.exchange);
        }
        let Some(stored) = self.stored_mut() else { return };
        let ack = match packet.exchange {
            Exchange::AtMostOnce => UNACKNOWLEDGED,
            exchange => stored.acks.push(exchange, 1 + u8::from(is_kept)),
        };
        let copy = StoredCopy { subject: &subject, qos, payload, is_retained, nats };
        if is_kept {
            self.retain(shard, copy, flags, ack, now);
        }
        if qos > Qos::AtMostOnce {
            self.store(shard, copy, None, Matter::Stored(ack), now);
        }
    }

    /// Keeps the certificate of a birth, which is published next. Compat: one that is to be
    /// retained itself has none, and is not retained.
    pub(in crate::session::mqtt) fn certify(
        &mut self,
        shard: &mut Shard,
        message: MqttPublish<'_>,
        (is_retained, nats): (bool, &NatsSide),
        now: Instant,
    ) {
        let SessionState::Ready(ready) = &self.state else { return };
        if is_retained || !sparkplug::is_birth(message.topic) {
            return;
        }
        let from = Publisher::mqtt(&self.conn, &ready.account, ready.permissions.as_ref(), now);
        let Some(subject) = shard.publish_certificate(from, message) else { return };
        let MqttPublish { qos, payload, .. } = message;
        let copy = StoredCopy { subject: &subject, qos, payload, is_retained: true, nats };
        self.retain(shard, copy, (qos as u8) << 1 | 1, UNACKNOWLEDGED, now);
    }

    /// Whether the client may publish there. If not, it is told in the log.
    fn may_publish_to(&self, shard: &Shard, subject: &[u8], now: Instant) -> bool {
        let SessionState::Ready(ready) = &self.state else { return false };
        let may = shard.may_publish(&ready.account, ready.permissions.as_ref(), subject);
        if !may {
            self.refuse_topic(&ErrorText::PublishViolation(subject.into()), now);
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
        if sparkplug::is_retained(topic, *is_retained) {
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
    pub(super) fn store(
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
        let lines = nats.stored_lines(KeptCopy::Held, self.unix_ms(now));
        let mut headers = Vec::new();
        mark.write(None, &lines, &mut headers);
        let Some(stored) = self.stored_mut() else { return };
        stored.acks.may_hold = true;
        stored.held.get_or_insert_default().hold(id, &headers, payload);
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
    pub(super) fn retain(
        &mut self,
        shard: &mut Shard,
        copy: StoredCopy<'_>,
        flags: u8,
        ack: u64,
        now: Instant,
    ) {
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
        let held = match pending.as_ref().map(|ack| ack.exchange) {
            Some(Exchange::ExactlyOnce(id)) => Some(id),
            _ => None,
        };
        let outcome = api::outcome(answer);
        match (held, &outcome) {
            (Some(id), Ok(sequence)) => stored.held.get_or_insert_default().stored(id, *sequence),
            (Some(id), Err(_)) => stored.held.get_or_insert_default().not_stored(id),
            (None, _) => {}
        }
        // One that is held and comes again is refused by the stream, which has it.
        let outcome =
            outcome.or_else(|fault| if held.is_some() && fault.is_kept_first() { Ok(0) } else { Err(fault) });
        // Nobody waits for what is retained with QoS 0, or by a release: it is told in the log.
        let goes_on = speaks_5 || pending.is_none();
        if let Some(pending) = pending {
            pending.missing = pending.missing.saturating_sub(1);
            if let Err(fault) = &outcome {
                pending.reason = fault.reason();
            }
        }
        match outcome {
            Err(fault) if goes_on => {
                self.log(LogLevel::Error, format_args!("MQTT storage: {fault}"));
                self.acknowledge_stored(shard);
                Ok(())
            }
            Err(fault) => Err(self.refused_by_storage(&fault)),
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
}
