//! SUBSCRIBE and UNSUBSCRIBE.

use super::Session;
use crate::log::Level as LogLevel;
use crate::session::SessionState;
use crate::shard::Shard;
use myelin_mqtt::packet::{
    Properties, Qos, ServerPacket, SubAckPacket, SubscribePacket, UnsubAckPacket, UnsubscribePacket,
};
use myelin_mqtt::topic;
use myelin_wire::error::Quoted;
use smallvec::SmallVec;
use std::time::Instant;

/// Code of a filter that is refused.
const FAILURE: u8 = 0x80;

/// Subjects of the server's own: nobody listens to them by MQTT.
const INTERNAL: &[u8] = b"$MQTT.";

/// Behind the name of the subscription to the level above a `#`.
const LEVEL_ABOVE: &[u8] = b" fwc";

impl Session {
    pub(super) fn subscribe_packet(&mut self, shard: &mut Shard, packet: &SubscribePacket<'_>, now: Instant) {
        let id = packet.packet_id;
        let mut codes = SmallVec::<[u8; 8]>::new();
        let mut line = String::from("SUBSCRIBE [");
        let mut subject = Vec::new();
        for (filter, options) in packet.filters.iter() {
            subject.clear();
            let is_valid = self.subject_of(filter, &mut subject);
            if self.logs_protocol {
                let separator = if codes.is_empty() { "" } else { ", " };
                let (shown, qos) = (String::from_utf8_lossy(&subject), options.max_qos as u8);
                line += &format!("{separator}{filter} ({shown}) QoS={qos}");
            }
            let is_granted = is_valid && self.listen(shard, &subject, now);
            codes.push(if is_granted { Qos::AtMostOnce as u8 } else { FAILURE });
        }
        self.log_packet(format_args!("{line}] pi={id}"));
        let ack = SubAckPacket { packet_id: id, properties: Properties::EMPTY, codes: &codes };
        self.answer(shard, &ServerPacket::SubAck(ack), format_args!("SUBACK pi={id}"));
    }

    /// Appends the subject of a filter. False: it has none.
    fn subject_of(&self, filter: &str, out: &mut Vec<u8>) -> bool {
        let made = topic::filter_to_subject(filter, out);
        if let Err(fault) = made {
            let filter = Quoted(filter.as_bytes());
            self.log(LogLevel::Error, format_args!("invalid topic {filter}: {fault}"));
        }
        made.is_ok()
    }

    /// Subscribes to a pattern, and to the level above it where it ends with `#`. Answers whether
    /// that is allowed.
    fn listen(&self, shard: &mut Shard, pattern: &[u8], now: Instant) -> bool {
        if pattern.starts_with(INTERNAL) {
            return false;
        }
        let had_it = self.conn.subscription(pattern).is_some();
        if !self.listen_once(shard, pattern, pattern, now) {
            return false;
        }
        let Some(above) = topic::level_above(pattern) else { return true };
        let is_allowed = self.listen_once(shard, above, &[above, LEVEL_ABOVE].concat(), now);
        if !is_allowed && !had_it {
            self.forget(shard, pattern);
        }
        is_allowed
    }

    fn listen_once(&self, shard: &mut Shard, pattern: &[u8], sid: &[u8], now: Instant) -> bool {
        let added = self.add_subscription(shard, pattern, None, sid, now);
        if let Err(text) = &added {
            self.refuse_subscription(shard, text, sid, now);
        }
        added.is_ok()
    }

    pub(super) fn unsubscribe_packet(&mut self, shard: &mut Shard, packet: &UnsubscribePacket<'_>) {
        let id = packet.packet_id;
        let mut line = String::from("UNSUBSCRIBE [");
        let mut subject = Vec::new();
        for (at, filter) in packet.filters.iter().enumerate() {
            subject.clear();
            let is_valid = self.subject_of(filter, &mut subject);
            if self.logs_protocol {
                let separator = if at == 0 { "" } else { ", " };
                line += &format!("{separator}{filter} ({})", String::from_utf8_lossy(&subject));
            }
            if is_valid {
                self.forget(shard, &subject);
                if let Some(above) = topic::level_above(&subject) {
                    self.forget(shard, &[above, LEVEL_ABOVE].concat());
                }
            }
        }
        self.log_packet(format_args!("{line}] pi={id}"));
        let ack = UnsubAckPacket { packet_id: id, properties: Properties::EMPTY, codes: &[] };
        self.answer(shard, &ServerPacket::UnsubAck(ack), format_args!("UNSUBACK pi={id}"));
    }

    /// Ends a subscription, if there is one of that name.
    fn forget(&self, shard: &mut Shard, sid: &[u8]) {
        let SessionState::Ready(ready) = &self.state else { return };
        if let Some(sub) = self.conn.subscription(sid) {
            shard.apply_counts();
            ready.account.end(&sub, Some(shard));
            if self.logs_protocol {
                self.broker.log_delsub(&sub);
            }
        }
    }
}
