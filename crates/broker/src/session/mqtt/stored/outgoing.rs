//! Messages that are stored for a session, and their way to the client: PUBLISH, PUBACK, PUBREC,
//! PUBREL, PUBCOMP.
//!
//! The consumer of the session remembers what is not acknowledged. A message has a packet
//! identifier that follows from where it is stored, so that it is the same one when the message
//! comes again, also after a restart: a client knows a message of QoS 2 by it.

use super::api;
use super::delivery::ConsumerDelivery;
use super::numbers::packet_id;
use super::pubrels::PubRels;
use super::state::{InFlight, Matter, Sent, Step, StoredSession};
use crate::log::Level as LogLevel;
use crate::session::{Session, SessionState};
use crate::shard::{Mqtt5Packet, Shard, StagedPublish};
use myelin_auth::Permissions;
use myelin_mqtt::headers::{self, TimeLeft};
use myelin_mqtt::packet::{
    AckPacket, Exchange, PacketId, Properties, Property, PropertyBuf, ProtocolLevel, PublishHeader, Qos,
    ReasonCode, ServerPacket, SubscriptionId,
};
use myelin_mqtt::records::{MessageMark, pubrel_ack, pubrel_header, pubrel_id};
use myelin_mqtt::sparkplug::{self, Lifecycle};
use myelin_mqtt::{shares, streams, topic};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

/// Acknowledgements that a consumer takes.
pub(super) const ACK: &[u8] = b"+ACK";
pub(super) const AGAIN: &[u8] = b"-NAK";
pub(super) const AGAIN_LATER: &[u8] = b"-NAK {\"delay\": 1000000000}";

pub(super) fn exchange_of(qos: Qos, id: PacketId) -> Exchange {
    if qos == Qos::ExactlyOnce { Exchange::ExactlyOnce(id) } else { Exchange::AtLeastOnce(id) }
}

/// The share that has brought a message.
fn share_of<'m>(msg: &MessageRef<'m>) -> Option<&'m str> {
    shares::share_of_consumer(ConsumerDelivery::of(msg.reply)?.consumer)
}

impl Session {
    /// A consumer has delivered something.
    pub(super) fn stored_delivery(&mut self, shard: &mut Shard, msg: &MessageRef<'_>, now: Instant) -> Step {
        if let Some(subject) = msg.subject.strip_prefix(streams::MESSAGES.subject_prefix.as_bytes()) {
            match share_of(msg) {
                Some(share) => self.count_pulled(share),
                None => self.count_own(subject, msg),
            }
            self.deliver_message(shard, subject, msg, now);
        } else if self.pull_ended(msg, now) {
        } else if let Some(id) = pubrel_id(msg.headers).and_then(PacketId::new) {
            let Some(stored) = self.stored_mut() else { return Ok(()) };
            let of = pubrel_ack(msg.headers).and_then(|ack| Some((ack, ConsumerDelivery::of(ack)?.sequence)));
            // Another connection has said it, and nobody knows whether that was heard.
            let said = of.filter(|(_, sequence)| !stored.pubrels.has_had(*sequence));
            stored.pubrels.open(id, msg.reply, of.map(|(_, sequence)| sequence));
            // It is stored, although that was not said yet: the message is not to come again.
            let sent = stored.in_flight.remove_received(id);
            let ack = sent.as_ref().map(|sent| &*sent.reply).or(said.map(|(ack, _)| ack));
            match (ack, of) {
                (Some(ack), Some(_)) => self.settle(shard, id, ack, now),
                (Some(ack), None) => self.tell_consumer(shard, ack, ACK, now),
                (None, _) => {}
            }
            self.answer(shard, &ServerPacket::PubRel(AckPacket::success(id)), format_args!("PUBREL pi={id}"));
        }
        Ok(())
    }

    /// Delivers a message of a share or of the session's own consumer.
    fn deliver_message(&mut self, shard: &mut Shard, subject: &[u8], msg: &MessageRef<'_>, now: Instant) {
        match share_of(msg) {
            Some(share) => self.deliver_shared(shard, share, (subject, msg), now),
            None => self.deliver_stored(shard, subject, msg, now),
        }
    }

    fn deliver_stored(&mut self, shard: &mut Shard, subject: &[u8], msg: &MessageRef<'_>, now: Instant) {
        let Some(delivery) = ConsumerDelivery::of(msg.reply) else { return };
        let (speaks_5, left) = (self.speaks_5(), headers::time_left(msg.headers, self.unix_ms(now)));
        let permissions = self.permissions();
        let Some(stored) = self.stored_mut() else { return };
        let is_own = headers::publisher(msg.headers) == Some(stored.hash.as_bytes());
        let (subject, wanted) = match shares::own_message(subject) {
            // One that a share has brought.
            Some((session, share, subject)) => {
                (subject, Some(stored.wanted_of_share(share)).filter(|_| session == &*stored.hash))
            }
            None => (subject, stored.wanted(subject, delivery.sequence, is_own, permissions.as_deref())),
        };
        let Some(wanted) = wanted.filter(|_| left != TimeLeft::Expired) else {
            return self.tell_consumer(shard, msg.reply, ACK, now);
        };
        // The client has released it: its acknowledgement was lost.
        if stored.pubrels.has_had(delivery.sequence) {
            return self.tell_consumer(shard, msg.reply, ACK, now);
        }
        let known = stored.in_flight.number_of(&delivery);
        let most = shard.settings().max_backlog();
        let has_to_wait = stored.in_flight.is_full(most) || stored.has_sent_all();
        // Nothing is sent twice with MQTT 5, and to nobody what has come, or may have by then.
        if let Some(sent) = known.and_then(|id| stored.in_flight.sent.get_mut(&id))
            && (sent.is_received || speaks_5 || has_to_wait)
        {
            sent.reply = msg.reply.into();
            return;
        }
        if has_to_wait {
            return stored.in_flight.hold(msg, &delivery, most);
        }
        let published = MessageMark::of(msg.headers).map_or(Qos::AtLeastOnce, |mark| mark.qos);
        let qos = published.min(wanted.qos).max(Qos::AtLeastOnce);
        let Some(id) = known.or_else(|| stored.free_number(delivery.sequence, qos)) else {
            // What comes behind it waits, too: messages keep their order.
            stored.in_flight.hold(msg, &delivery, most);
            return stored.in_flight.wait_for_number(packet_id(delivery.sequence));
        };
        if !self.may_get(subject) {
            return self.tell_consumer(shard, msg.reply, ACK, now);
        }
        let is_again = delivery.times > 1 || known.is_some();
        let exchange = exchange_of(qos, id);
        let flags = (is_again, wanted.as_published && headers::is_retained(msg.headers));
        let properties = self.properties(msg.headers, left, &wanted.ids);
        let payload = self.payload_now(subject, msg.payload, now);
        let staged = self.send_publish(shard, (subject, &payload), exchange, flags, &properties);
        if staged != StagedPublish::Staged {
            return self.not_sent(shard, staged, (msg, &delivery), now);
        }
        let Some(stored) = self.stored_mut() else { return };
        let (sequence, reply, size) = (delivery.sequence, msg.reply.into(), msg.payload.len());
        stored
            .in_flight
            .insert(id, Sent { sequence, is_shared: false, qos, reply, is_received: false, size });
    }

    /// Properties of a stored message, for a client of MQTT 5: of version 3.1.1 it has none.
    pub(super) fn properties(&self, block: &[u8], left: TimeLeft, ids: &[SubscriptionId]) -> PropertyBuf {
        let mut properties = PropertyBuf::default();
        if self.speaks_5() {
            headers::read_stored(block, left, &mut properties);
            for id in ids {
                // Every number of a subscription has a form.
                let _ = properties.push(Property::SubscriptionId(*id));
            }
        }
        properties
    }

    /// Payload of a stored message as it is delivered: a death of Sparkplug B gets the time.
    /// Compat: not one that is retained, for those who subscribe later.
    pub(super) fn payload_now<'m>(&self, subject: &[u8], payload: &'m [u8], now: Instant) -> Cow<'m, [u8]> {
        if Lifecycle::of_subject(subject) != Some(Lifecycle::Death) {
            return Cow::Borrowed(payload);
        }
        let mut dated = Vec::new();
        sparkplug::dated_death(payload, self.unix_ms(now), &mut dated);
        Cow::Owned(dated)
    }

    /// Permissions of the client as they are now; `None` allows everything.
    pub(super) fn permissions(&self) -> Option<Arc<Permissions>> {
        let SessionState::Ready(ready) = &self.state else { return None };
        ready.permissions.clone()
    }

    /// Whether the client may get what is published there now.
    pub(super) fn may_get(&self, subject: &[u8]) -> bool {
        let SessionState::Ready(ready) = &self.state else { return false };
        ready.permissions.as_ref().is_none_or(|permissions| permissions.can_deliver(subject, None))
    }

    /// Sends a message to the client; `(is_again, is_retained)` are its flags.
    pub(super) fn send_publish(
        &self,
        shard: &mut Shard,
        (subject, payload): (&[u8], &[u8]),
        exchange: Exchange,
        (is_again, is_retained): (bool, bool),
        properties: &PropertyBuf,
    ) -> StagedPublish {
        let staged = if let Some(client) = self.conn.mqtt5() {
            let packet = Mqtt5Packet { subject, payload: payload.len(), exchange, is_again, is_retained };
            shard.stage_mqtt5_publish((&self.conn, client), packet, payload, properties.clone())
        } else {
            let (level, none) = (ProtocolLevel::V3, Properties::EMPTY);
            let Some(header) = PublishHeader::new(level, exchange, subject, none, payload.len()) else {
                return StagedPublish::NotTaken;
            };
            let header = header.flagged(is_again, is_retained);
            let mut head = Vec::with_capacity(header.header_len());
            header.write(&mut head);
            shard.stage_mqtt_publish(&self.conn, &head, payload)
        };
        if staged == StagedPublish::Staged && self.logs_protocol {
            let mut name = Vec::new();
            topic::subject_to_topic(subject, &mut name);
            let (name, qos, size) = (String::from_utf8_lossy(&name), exchange.qos() as u8, payload.len());
            let id = exchange.packet_id().map(|id| format!(" pi={id}")).unwrap_or_default();
            self.log_sent(format_args!(
                "PUBLISH {name} dup={is_again} QoS={qos} retain={is_retained} size={size}{id}"
            ));
        }
        staged
    }

    /// Has a message wait that the client would have lost, so far behind is it; ends one that is
    /// no packet for it.
    pub(super) fn not_sent(
        &mut self,
        shard: &mut Shard,
        staged: StagedPublish,
        (msg, delivery): (&MessageRef<'_>, &ConsumerDelivery<'_>),
        now: Instant,
    ) {
        if staged == StagedPublish::NotTaken {
            return self.tell_consumer(shard, msg.reply, ACK, now);
        }
        self.await_client(shard);
        let most = shard.settings().max_backlog();
        if let Some(stored) = self.stored_mut() {
            stored.in_flight.hold(msg, delivery, most);
        }
    }

    /// Has the session's inbox woken when the client is not behind any more.
    pub(super) fn await_client(&self, shard: &mut Shard) {
        if !self.is_client_behind(shard) && self.conn.close_requested().is_none() {
            // It has caught up meanwhile.
            self.conn.sink().has_mqtt_mail(&self.conn);
        }
    }

    /// A number for a message that is not stored for this session.
    pub(super) fn spare_packet_id(&mut self, qos: Qos) -> Option<PacketId> {
        let stored = self.stored_mut()?;
        let id = stored.spare_number()?;
        let (sequence, reply) = (0, Box::default());
        let sent = Sent { sequence, is_shared: false, qos, reply, is_received: false, size: 0 };
        stored.in_flight.insert(id, sent);
        Some(id)
    }

    /// The client has a message of QoS 1.
    pub(in crate::session::mqtt) fn puback(&mut self, shard: &mut Shard, id: PacketId, now: Instant) {
        self.log_step("PUBACK", id);
        let Some(stored) = self.stored_mut() else { return };
        if stored.in_flight.sent.get(&id).is_some_and(|sent| sent.qos == Qos::AtLeastOnce)
            && let Some(sent) = stored.in_flight.remove(id)
        {
            self.tell_consumer(shard, &sent.reply, ACK, now);
            self.deliver_held(shard, now);
        }
    }

    /// Sends what has waited for acknowledgements.
    pub(super) fn deliver_held(&mut self, shard: &mut Shard, now: Instant) {
        self.send_waiting_retained(shard, now);
        let most = shard.settings().max_backlog();
        let may_go_on = |stored: &&mut StoredSession| !stored.has_sent_all() && !stored.waits_for_number();
        let Some(stored) = self.stored_mut().filter(may_go_on) else { return };
        let held = stored.in_flight.begin_drain(most);
        for msg in held.iter() {
            if let Some(subject) = msg.subject.strip_prefix(streams::MESSAGES.subject_prefix.as_bytes()) {
                self.deliver_message(shard, subject, &msg, now);
            }
        }
        self.stored_mut().into_iter().for_each(|stored| stored.in_flight.end_drain());
        self.pull_shares(shard, now);
        self.read_postponed(shard, now);
    }

    /// The client has a message of QoS 2. Its PUBREL comes when it is stored that the message is
    /// not to come again; at once where nothing is known of it.
    pub(in crate::session::mqtt) fn pubrec(
        &mut self,
        shard: &mut Shard,
        id: PacketId,
        reason: ReasonCode,
        now: Instant,
    ) {
        self.log_step("PUBREC", id);
        if reason.is_error() {
            return self.refused_by_client(shard, id, now);
        }
        let sent = self.stored_mut().and_then(|stored| stored.in_flight.sent.get_mut(&id));
        match sent {
            Some(sent) if sent.qos == Qos::ExactlyOnce && sent.is_received => {}
            Some(sent) if sent.qos == Qos::ExactlyOnce => {
                sent.is_received = true;
                let mut headers = Vec::new();
                // One of a share is acknowledged.
                let ack = if sent.is_shared { &[][..] } else { &sent.reply };
                pubrel_header(id.get(), ack, &mut headers);
                let Some(stored) = self.stored() else { return };
                let subject = format!("{}{}", streams::PUBREL_PREFIX, stored.hash);
                let subject = subject.as_bytes();
                let msg = MessageRef { subject, headers: &headers, ..MessageRef::default() };
                self.ask(shard, msg, Matter::PubRel(id), now);
            }
            _ => {
                let release = AckPacket { reason: ReasonCode::PacketIdNotFound, ..AckPacket::success(id) };
                self.answer(shard, &ServerPacket::PubRel(release), format_args!("PUBREL pi={id}"));
            }
        }
    }

    /// A client of MQTT 5 does not want a message of QoS 2: the exchange is over.
    fn refused_by_client(&mut self, shard: &mut Shard, id: PacketId, now: Instant) {
        let Some(stored) = self.stored_mut() else { return };
        let is_sent = |sent: &Sent| sent.qos == Qos::ExactlyOnce && !sent.is_received;
        if stored.in_flight.sent.get(&id).is_some_and(is_sent)
            && let Some(sent) = stored.in_flight.remove(id)
        {
            self.tell_consumer(shard, &sent.reply, ACK, now);
            self.deliver_held(shard, now);
        }
    }

    pub(super) fn pubrel_stored(
        &mut self,
        shard: &mut Shard,
        id: PacketId,
        answer: &[u8],
        now: Instant,
    ) -> Step {
        api::outcome(answer).map_err(|fault| self.refused_by_storage(&fault))?;
        let Some(stored) = self.stored_mut() else { return Ok(()) };
        if let Some(sent) = stored.in_flight.remove_received(id) {
            // It is on its way, and the exchange counts until the client has answered it.
            let own = Some(sent.sequence).filter(|sequence| *sequence > 0 && !sent.is_shared);
            stored.pubrels.open(id, &[], own);
            match own {
                Some(_) => self.settle(shard, id, &sent.reply, now),
                None => self.tell_consumer(shard, &sent.reply, ACK, now),
            }
            self.deliver_held(shard, now);
        }
        Ok(())
    }

    /// The exchange about a message of QoS 2 is over.
    pub(in crate::session::mqtt) fn pubcomp(&mut self, shard: &mut Shard, id: PacketId, now: Instant) {
        self.log_step("PUBCOMP", id);
        if let Some(reply) = self.stored_mut().and_then(|stored| stored.pubrels.close(id)) {
            self.tell_consumer(shard, &reply, ACK, now);
            self.deliver_held(shard, now);
        }
    }

    pub(super) fn tell_consumer(&self, shard: &mut Shard, reply: &[u8], what: &[u8], now: Instant) {
        if !reply.is_empty() {
            self.tell(shard, MessageRef { subject: reply, payload: what, ..MessageRef::default() }, now);
        }
    }

    /// Has what is in flight delivered again at once to whoever is the client next.
    /// Answers the rest of what has come to the session.
    pub(super) fn give_back_in_flight(&mut self, shard: &mut Shard, now: Instant) -> MessageBuf {
        let Some(stored) = self.stored_mut() else { return MessageBuf::default() };
        let held = stored.in_flight.take_waiting();
        let InFlight { sent, .. } = std::mem::take(&mut stored.in_flight);
        let pubrels = std::mem::take(&mut stored.pubrels);
        // Of a session that ends, only what others may get instead.
        let is_clean = stored.record.clean;
        let pubrels = if is_clean { PubRels::default() } else { pubrels };
        // In the order in which they were stored.
        let is_given_back = |sent: &Sent| !is_clean || sent.is_shared;
        let sent = sent.into_values().filter(is_given_back);
        // What the client has does not come again: the PUBREL is on its way to the stream. Nor does
        // another member of a share get what this one may have.
        let is_over = |sent: &Sent| sent.is_received || (sent.is_shared && sent.qos == Qos::ExactlyOnce);
        let what = |sent: &Sent| if is_over(sent) { ACK } else { AGAIN };
        let mut sent: Vec<_> = sent.map(|sent| (sent.sequence, what(&sent), sent.reply)).collect();
        sent.sort_unstable();
        pubrels.replies().for_each(|reply| self.tell_consumer(shard, reply, AGAIN, now));
        sent.iter().for_each(|(_, what, reply)| self.tell_consumer(shard, reply, what, now));
        // These were not sent.
        let inbox = self.stored().map(|stored| stored.inbox.take()).unwrap_or_default();
        let is_given_back = |msg: &MessageRef<'_>| {
            ConsumerDelivery::of(msg.reply).is_some() && (!is_clean || share_of(msg).is_some())
        };
        for msg in held.iter().chain(inbox.iter()).filter(is_given_back) {
            self.tell_consumer(shard, msg.reply, AGAIN, now);
        }
        if !is_clean {
            self.log(LogLevel::Debug, format_args!("Session is stored"));
        }
        inbox
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_consumers_are_read_with_and_without_a_domain() {
        let replies = [
            "$JS.ACK.$MQTT_msgs.name.2.40.7.1795963618634825642.0",
            "$JS.ACK.hub.hash.$MQTT_msgs.name.2.40.7.1795963618634825642.0",
            "$JS.ACK.hub.hash.$MQTT_msgs.name.2.40.7.1795963618634825642.0.random",
        ];
        for reply in replies {
            let delivery = ConsumerDelivery::of(reply.as_bytes()).unwrap();
            assert_eq!((delivery.times, delivery.sequence), (2, 40), "{reply}");
        }
        assert!(ConsumerDelivery::of(b"$MQTT.JSA.x.1.2").is_none());
    }
}
