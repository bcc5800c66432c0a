//! PUBLISH: from the packet to the shard's fan-out.

use super::{OpOutcome, Session};
use crate::log::Level as LogLevel;
use crate::mqtt_message::message_len;
use crate::mqtt_nats_side::NatsSide;
use crate::protocol_log::Direction;
use crate::session::SessionState;
use crate::shard::{MqttPublish, Published, Publisher, Shard};
use myelin_mqtt::packet::{PublishPacket, Qos};
use myelin_mqtt::sparkplug;
use myelin_wire::error::{CloseReason, ErrorText, Quoted};
use std::time::Instant;

impl Session {
    /// Budget: with a cached route no allocation, no lock, no system call.
    pub(super) fn publish_packet(
        &mut self,
        shard: &mut Shard,
        packet: &PublishPacket<'_>,
        now: Instant,
    ) -> OpOutcome {
        if self.logs_protocol {
            self.log_publish_packet(packet);
        }
        if self.speaks_5() {
            return self.publish5_packet(shard, packet, now);
        }
        let qos = packet.exchange.qos();
        if !self.takes_size(shard, message_len(packet.payload)) {
            return OpOutcome::Close(CloseReason::MaximumPayload);
        }
        self.batch.0 += 1;
        self.batch.1 += packet.payload.len() as u64;
        if qos == Qos::AtMostOnce && !packet.retain && !sparkplug::is_birth(packet.topic) {
            self.publish_topic(shard, packet.topic, qos, packet.payload, now);
        } else {
            self.publish_stored(shard, packet, &NatsSide::plain(packet.retain), now);
        }
        OpOutcome::Continue
    }

    /// Whether a message of so many bytes is small enough.
    #[inline]
    pub(super) fn takes_size(&self, shard: &Shard, size: usize) -> bool {
        let max = self.limits.max_payload.unwrap_or(shard.settings().max_payload);
        let is_small = size <= max as usize;
        if !is_small {
            self.log(LogLevel::Error, format_args!("maximum payload exceeded: {size} vs {max}"));
        }
        is_small
    }

    /// Publishes a message of MQTT 3.1.1 to a topic for those who listen now. Compat: whoever may
    /// not is not told.
    fn publish_topic(&mut self, shard: &mut Shard, topic: &str, qos: Qos, payload: &[u8], now: Instant) {
        let message = MqttPublish { topic, qos, payload, reply: &[], lines: &[] };
        self.publish_message(shard, message, now);
    }

    /// Publishes a message for those who listen now. Answers whether the client may publish it.
    pub(super) fn publish_message(
        &mut self,
        shard: &mut Shard,
        message: MqttPublish<'_>,
        now: Instant,
    ) -> bool {
        let SessionState::Ready(ready) = &self.state else { return false };
        let from = Publisher {
            logs_protocol: self.logs_protocol,
            ..Publisher::mqtt(&self.conn, &ready.account, ready.permissions.as_ref(), now)
        };
        match shard.publish_mqtt(from, message) {
            Ok(Published::Done { stalled, .. }) => {
                self.stalled |= stalled;
                true
            }
            Ok(Published::Refused(text)) => {
                self.refuse_topic(&text, now);
                false
            }
            // A topic that has no subject does not come so far.
            Err(fault) => {
                self.log(LogLevel::Error, format_args!("{fault}"));
                false
            }
        }
    }

    #[cold]
    pub(super) fn refuse_topic(&self, text: &ErrorText, now: Instant) {
        self.log_sent(format_args!("-ERR {text}"));
        self.note_refused(text, now);
        if let ErrorText::PublishViolation(subject) = text {
            self.log(LogLevel::Error, format_args!("Publish Violation - Subject {}", Quoted(subject)));
        }
    }

    #[cold]
    fn log_publish_packet(&self, packet: &PublishPacket<'_>) {
        let PublishPacket { topic, dup, retain, payload, .. } = packet;
        let id = packet.exchange.packet_id().map(|id| format!(" pi={id}")).unwrap_or_default();
        let (qos, size) = (packet.exchange.qos() as u8, payload.len());
        let line = format_args!("PUBLISH {topic} dup={dup} QoS={qos} retain={retain} size={size}{id}");
        self.broker.log_protocol_line(&self.conn, Direction::In, line);
        self.broker.log_payload(&self.conn, Direction::In, payload, 0);
    }
}
