//! PUBLISH of MQTT 5: topic aliases, properties as headers, the response topic as reply subject,
//! and reasons in the acknowledgement.

use super::state5::RECEIVE_MAXIMUM;
use super::{OpOutcome, Session};
use crate::mqtt_message::message_len;
use crate::mqtt_nats_side::{NatsSide, request_in};
use crate::mqtt5_requests::{AwaitedRequest, INBOX_SID};
use crate::session::SessionState;
use crate::shard::{MqttPublish, Shard};
use crate::subscription::Subscription;
use myelin_mqtt::headers;
use myelin_mqtt::packet::{Exchange, Properties, Property, PublishPacket, Qos, ReasonCode};
use myelin_mqtt::{sparkplug, topic};
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
        let is_sent_on = packet.exchange == Exchange::AtMostOnce && !packet.retain;
        let is_kept = !is_sent_on || sparkplug::is_birth(topic);
        let nats = match packet.exchange {
            // Whoever is asked gets the request when it is released.
            Exchange::ExactlyOnce(_) => {
                let hash = self.mqtt.as_ref().map_or("", |mqtt| mqtt.session_hash());
                NatsSide::kept(packet.properties, packet.retain, hash)
            }
            _ => self.nats_side(shard, packet.properties, is_kept.then_some(packet.retain), now),
        };
        let size = message_len(packet.payload) + nats.lines.len();
        if !self.takes_size(shard, size) {
            return OpOutcome::Close(CloseReason::MaximumPayload);
        }
        if let (Exchange::ExactlyOnce(id), Some(five)) = (packet.exchange, self.five_mut()) {
            five.unreleased.insert(id);
        }
        self.batch.0 += 1;
        self.batch.1 += packet.payload.len() as u64;
        if !is_kept {
            let (reply, lines) = (&nats.reply[..], &nats.lines[..]);
            let (qos, payload) = (Qos::AtMostOnce, packet.payload);
            self.publish_message(shard, MqttPublish { topic, qos, payload, reply, lines }, now);
        } else {
            self.publish_stored(shard, &PublishPacket { topic, ..*packet }, &nats, now);
        }
        OpOutcome::Continue
    }

    /// Whether the message is one that the client was told it may send. Of those with QoS 1 there
    /// are never too many: the client is not heard before enough of them are stored.
    fn takes_publish(&self, packet: &PublishPacket<'_>) -> Result<(), ReasonCode> {
        let Exchange::ExactlyOnce(id) = packet.exchange else { return Ok(()) };
        let is_too_much = self.five().is_some_and(|five| {
            five.unreleased.len() >= usize::from(RECEIVE_MAXIMUM) && !five.unreleased.contains(&id)
        });
        if is_too_much { Err(ReasonCode::ReceiveMaximumExceeded) } else { Ok(()) }
    }

    /// Makes headers and the reply subject of properties. `kept`: of a message that is stored,
    /// whether it is retained.
    pub(super) fn nats_side(
        &self,
        shard: &mut Shard,
        properties: Properties<'_>,
        kept: Option<bool>,
        now: Instant,
    ) -> NatsSide {
        let five = self.mqtt.as_ref().filter(|mqtt| mqtt.five.is_some());
        let mut side = match (five, kept) {
            (_, None) => NatsSide::live(properties),
            (Some(mqtt), Some(is_retained)) => NatsSide::kept(properties, is_retained, mqtt.session_hash()),
            (None, Some(is_retained)) => NatsSide::plain(is_retained),
        };
        if properties.is_empty() {
            return side;
        }
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
