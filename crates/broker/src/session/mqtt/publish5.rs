//! PUBLISH of MQTT 5: topic aliases, properties as headers, the response topic as reply subject,
//! and reasons in the acknowledgement.

use super::nats_side::{NatsSide, request_in};
use super::publish::PublishFate;
use super::state5::{RECEIVE_MAXIMUM, RETAINS};
use super::{OpOutcome, Session};
use crate::mqtt_message::message_len;
use crate::mqtt5_requests::{AwaitedRequest, INBOX_SID};
use crate::session::SessionState;
use crate::shard::{MqttPublish, Shard};
use crate::subscription::Subscription;
use myelin_mqtt::headers;
use myelin_mqtt::packet::{
    AckPacket, Exchange, PacketId, Properties, Property, PublishPacket, Qos, ReasonCode, ServerPacket,
};
use myelin_mqtt::topic;
use myelin_wire::error::CloseReason;
use std::sync::Arc;
use std::time::Instant;

impl Session {
    pub(super) fn publish5_packet(
        &mut self,
        shard: &mut Shard,
        packet: &PublishPacket<'_>,
        now: Instant,
    ) -> OpOutcome {
        let alias = packet.properties.iter().find_map(|property| match property {
            Property::TopicAlias(alias) => Some(alias),
            _ => None,
        });
        let Some(five) = self.five_mut() else { return OpOutcome::Continue };
        let aliased = match alias.map(|alias| five.topic(packet.topic, alias)) {
            Some(Err(reason)) => return self.dismiss(reason, "topic alias without a topic"),
            Some(Ok(topic)) => Some(topic),
            None => None,
        };
        if let Err(reason) = self.takes_publish(packet) {
            return self.dismiss(reason, format_args!("{}", reason.text()));
        }
        let topic = aliased.as_deref().unwrap_or(packet.topic);
        let nats = self.nats_side(shard, packet.properties, now);
        let size = message_len(packet.payload) + nats.lines.len();
        if !self.takes_size(shard, size) {
            return OpOutcome::Close(CloseReason::MaximumPayload);
        }
        let is_new = match (packet.exchange, self.five_mut()) {
            (Exchange::ExactlyOnce(id), Some(five)) => five.unreleased.insert(id),
            _ => true,
        };
        let mut fate = PublishFate::Delivered;
        if is_new {
            self.batch.0 += 1;
            self.batch.1 += packet.payload.len() as u64;
            let (reply, lines) = (&nats.reply[..], &nats.lines[..]);
            // It is not stored, so it is marked as one that comes to everybody from here.
            let (qos, payload) = (Qos::AtMostOnce, packet.payload);
            fate = self.publish_message(shard, MqttPublish { topic, qos, payload, reply, lines }, now);
        }
        self.acknowledge5(shard, packet.exchange, fate);
        OpOutcome::Continue
    }

    /// Whether the message is one that the client was told it may send.
    fn takes_publish(&self, packet: &PublishPacket<'_>) -> Result<(), ReasonCode> {
        if packet.retain && !RETAINS {
            return Err(ReasonCode::RetainNotSupported);
        }
        let Exchange::ExactlyOnce(id) = packet.exchange else { return Ok(()) };
        let five = self.mqtt.as_ref().and_then(|mqtt| mqtt.five.as_ref());
        let is_too_much = five.is_some_and(|five| {
            five.unreleased.len() >= usize::from(RECEIVE_MAXIMUM) && !five.unreleased.contains(&id)
        });
        if is_too_much { Err(ReasonCode::ReceiveMaximumExceeded) } else { Ok(()) }
    }

    fn acknowledge5(&mut self, shard: &mut Shard, exchange: Exchange, fate: PublishFate) {
        let reason = match fate {
            PublishFate::Delivered => ReasonCode::Success,
            PublishFate::Unheard => ReasonCode::NoMatchingSubscribers,
            PublishFate::Refused => ReasonCode::NotAuthorized,
        };
        let ack = |packet_id| AckPacket { packet_id, reason, properties: Properties::EMPTY };
        let code = reason as u8;
        match exchange {
            Exchange::AtMostOnce => {}
            Exchange::AtLeastOnce(id) => {
                self.answer(shard, &ServerPacket::PubAck(ack(id)), format_args!("PUBACK pi={id} rc={code}"));
            }
            Exchange::ExactlyOnce(id) => {
                if let Some(five) = self.five_mut().filter(|_| reason.is_error()) {
                    // The exchange ends with the refusal.
                    five.unreleased.remove(&id);
                }
                self.answer(shard, &ServerPacket::PubRec(ack(id)), format_args!("PUBREC pi={id} rc={code}"));
            }
        }
    }

    /// A message of QoS 2 will not come again.
    pub(super) fn release5(&mut self, shard: &mut Shard, id: PacketId) {
        self.log_step("PUBREL", id);
        let is_known = self.five_mut().is_some_and(|five| five.unreleased.remove(&id));
        let reason = if is_known { ReasonCode::Success } else { ReasonCode::PacketIdNotFound };
        let ack = AckPacket { reason, ..AckPacket::success(id) };
        self.answer(shard, &ServerPacket::PubComp(ack), format_args!("PUBCOMP pi={id}"));
    }

    /// Makes headers and the reply subject of properties.
    fn nats_side(&self, shard: &mut Shard, properties: Properties<'_>, now: Instant) -> NatsSide {
        let mut side = NatsSide::default();
        if properties.is_empty() {
            return side;
        }
        headers::write(properties, &mut side.lines);
        let (Some(topic), correlation) = request_in(properties) else { return side };
        let mut subject = Vec::with_capacity(topic.len());
        // One that has no subject cannot be answered to.
        if topic::name_to_subject(topic, &mut subject).is_err() {
            return side;
        }
        let is_kept = correlation.is_some_and(|correlation| {
            let request =
                AwaitedRequest { subject: subject.as_slice().into(), correlation: correlation.into() };
            self.await_answers(shard, request, &mut side.reply, now)
        });
        match is_kept {
            true => headers::write_response_topic(topic, &mut side.lines),
            false => side.reply = subject,
        }
        side
    }

    /// Listens for answers to a request, if the client may listen on its response topic, and
    /// appends the subject for them.
    fn await_answers(
        &self,
        shard: &mut Shard,
        request: AwaitedRequest,
        reply: &mut Vec<u8>,
        now: Instant,
    ) -> bool {
        let SessionState::Ready(ready) = &self.state else { return false };
        let may_listen = ready.permissions.as_ref().is_none_or(|p| p.can_subscribe(&request.subject, None));
        let Some(five) = self.conn.mqtt5().filter(|_| may_listen) else {
            return false;
        };
        let pattern = five.requests.pattern(|| self.broker.unique_id());
        if self.conn.subscription(INBOX_SID).is_none() {
            // The subject is the server's: what the client may hear was asked a moment ago.
            let sub = Arc::new(Subscription::new(Arc::clone(&self.conn), &pattern, None, INBOX_SID));
            self.conn.remember(Arc::clone(&sub));
            ready.account.subscribed_at(now);
            ready.account.subscribe(&sub, shard);
        }
        five.requests.keep(request, reply)
    }
}
