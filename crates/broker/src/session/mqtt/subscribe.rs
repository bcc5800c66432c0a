//! SUBSCRIBE and UNSUBSCRIBE.

use super::{OpOutcome, Session};
use crate::log::Level as LogLevel;
use crate::session::SessionState;
use crate::shard::Shard;
use myelin_mqtt::packet::{PacketId, Qos, SubscribePacket, UnsubscribePacket};
use myelin_mqtt::records::LEVEL_ABOVE_SUFFIX;
use myelin_mqtt::streams::is_internal;
use myelin_mqtt::topic;
use myelin_wire::error::Quoted;
use std::time::Instant;

/// Code of a filter that is refused.
pub(super) const FAILURE: u8 = 0x80;

impl Session {
    pub(super) fn subscribe_packet(
        &mut self,
        shard: &mut Shard,
        packet: &SubscribePacket<'_>,
        now: Instant,
    ) -> OpOutcome {
        let id = packet.packet_id;
        if self.logs_protocol {
            let filters = packet.filters.iter().map(|(filter, options)| (filter, Some(options.max_qos)));
            self.log_filters("SUBSCRIBE", filters, id);
        }
        let (mut codes, mut granted) = (Vec::new(), Vec::new());
        for (filter, options) in packet.filters.iter() {
            let mut subject = Vec::new();
            let is_valid = self.subject_of(filter, &mut subject);
            let pattern = String::from_utf8(subject).unwrap_or_default();
            let is_granted = is_valid && self.listen(shard, pattern.as_bytes(), now);
            let qos = options.max_qos.min(self.most_qos());
            codes.push(if is_granted { qos as u8 } else { FAILURE });
            if is_granted {
                granted.push((pattern, qos));
            }
        }
        OpOutcome::of(self.store_subscriptions(shard, (id, codes), granted, now))
    }

    #[cold]
    fn log_filters<'p>(
        &self,
        name: &str,
        filters: impl Iterator<Item = (&'p str, Option<Qos>)>,
        id: PacketId,
    ) {
        let shown = filters.map(|(filter, qos)| {
            let mut subject = Vec::new();
            // One that has no subject is shown without.
            let _ = topic::filter_to_subject(filter, &mut subject);
            let qos = qos.map(|qos| format!(" QoS={}", qos as u8)).unwrap_or_default();
            format!("{filter} ({}){qos}", String::from_utf8_lossy(&subject))
        });
        let shown = shown.collect::<Vec<_>>().join(", ");
        self.log_packet(format_args!("{name} [{shown}] pi={id}"));
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
    pub(super) fn listen(&self, shard: &mut Shard, pattern: &[u8], now: Instant) -> bool {
        if is_internal(pattern) {
            return false;
        }
        let had_it = self.conn.subscription(pattern).is_some();
        if !self.listen_once(shard, pattern, pattern, now) {
            return false;
        }
        let Some(above) = topic::level_above(pattern) else { return true };
        let is_allowed =
            self.listen_once(shard, above, &[above, LEVEL_ABOVE_SUFFIX.as_bytes()].concat(), now);
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

    pub(super) fn unsubscribe_packet(
        &mut self,
        shard: &mut Shard,
        packet: &UnsubscribePacket<'_>,
        now: Instant,
    ) -> OpOutcome {
        let id = packet.packet_id;
        if self.logs_protocol {
            self.log_filters("UNSUBSCRIBE", packet.filters.iter().map(|filter| (filter, None)), id);
        }
        let mut patterns = Vec::new();
        for filter in packet.filters.iter() {
            let mut subject = Vec::new();
            if self.subject_of(filter, &mut subject) {
                self.forget_filter(shard, &subject);
                patterns.extend(String::from_utf8(subject));
            }
        }
        OpOutcome::of(self.store_unsubscriptions(shard, id, &patterns, now))
    }

    /// Ends a subscription, and that to the level above it.
    pub(super) fn forget_filter(&self, shard: &mut Shard, pattern: &[u8]) {
        self.forget(shard, pattern);
        if let Some(above) = topic::level_above(pattern) {
            self.forget(shard, &[above, LEVEL_ABOVE_SUFFIX.as_bytes()].concat());
        }
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
