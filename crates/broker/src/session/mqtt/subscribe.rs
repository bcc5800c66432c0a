//! SUBSCRIBE and UNSUBSCRIBE.

use super::options5::{WantedSub, reason_of};
use super::stored::state::AddedSub;
use super::{OpOutcome, Session};
use crate::log::Level as LogLevel;
use crate::mqtt5_client::Wishes;
use crate::session::SessionState;
use crate::session::subscribe::SubRequest;
use crate::shard::Shard;
use myelin_mqtt::packet::{PacketId, Qos, ReasonCode, SubscribePacket, UnsubscribePacket};
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
        if self.speaks_5() {
            return self.subscribe5(shard, packet, now);
        }
        let (mut codes, mut granted) = (Vec::new(), Vec::new());
        for (filter, options) in packet.filters.iter() {
            let mut subject = Vec::new();
            let is_valid = self.subject_of(filter, &mut subject);
            let pattern = String::from_utf8(subject).unwrap_or_default();
            let qos = options.max_qos.min(self.most_qos());
            let wanted =
                WantedSub { leaves_stored: qos > Qos::AtMostOnce, ..WantedSub::plain(pattern.as_bytes()) };
            let is_granted = is_valid && self.listen(shard, wanted, now).is_ok();
            codes.push(if is_granted { qos as u8 } else { FAILURE });
            if is_granted {
                granted.push(AddedSub::plain(pattern, qos));
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
    pub(super) fn subject_of(&self, filter: &str, out: &mut Vec<u8>) -> bool {
        let made = topic::filter_to_subject(filter, out);
        if let Err(fault) = made {
            let filter = Quoted(filter.as_bytes());
            self.log(LogLevel::Error, format_args!("invalid topic {filter}: {fault}"));
        }
        made.is_ok()
    }

    /// Subscribes to a pattern, and to the level above it where it ends with `#`.
    ///
    /// # Errors
    /// When that is not allowed.
    pub(super) fn listen(
        &self,
        shard: &mut Shard,
        wanted: WantedSub<'_>,
        now: Instant,
    ) -> Result<(), ReasonCode> {
        let WantedSub { pattern, sid, .. } = wanted;
        if is_internal(pattern) {
            return Err(ReasonCode::NotAuthorized);
        }
        let had_it = self.conn.subscription(sid).is_some();
        self.listen_once(shard, wanted, now)?;
        let Some(above) = topic::level_above(pattern) else { return Ok(()) };
        let above =
            WantedSub { pattern: above, sid: &sid_above(sid, above, wanted.queue.is_some()), ..wanted };
        let listens = self.listen_once(shard, above, now);
        if listens.is_err() && !had_it {
            self.forget(shard, sid);
        }
        listens
    }

    fn listen_once(&self, shard: &mut Shard, wanted: WantedSub<'_>, now: Instant) -> Result<(), ReasonCode> {
        let WantedSub { pattern, queue, sid, wishes, leaves_stored } = wanted;
        let before = self.conn.subscription(sid);
        let are_new = self.set_wishes(sid, wishes);
        let request = SubRequest { subject: pattern, queue, sid, leaves_stored };
        let added = self.add_subscription(shard, request, now);
        if let Err(text) = &added {
            self.refuse_subscription(shard, text, sid, now);
            if before.is_none() {
                self.set_wishes(sid, Wishes::default());
            }
            return Err(reason_of(text));
        }
        // Routes know the wishes as they were.
        if let (Some(sub), SessionState::Ready(ready)) = (before.filter(|_| are_new), &self.state) {
            ready.account.touch(&sub);
        }
        Ok(())
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
        if self.speaks_5() {
            return self.unsubscribe5(shard, packet, now);
        }
        let mut patterns = Vec::new();
        for filter in packet.filters.iter() {
            let mut subject = Vec::new();
            if self.subject_of(filter, &mut subject) {
                self.forget_filter(shard, WantedSub::plain(&subject));
                patterns.extend(String::from_utf8(subject));
            }
        }
        OpOutcome::of(self.store_unsubscriptions(shard, (id, Vec::new()), &patterns, now))
    }

    /// Ends a subscription, and that to the level above it; `false` if there was none.
    pub(super) fn forget_filter(&self, shard: &mut Shard, wanted: WantedSub<'_>) -> bool {
        let WantedSub { pattern, sid, queue, .. } = wanted;
        let was_there = self.forget(shard, sid);
        if let Some(above) = topic::level_above(pattern) {
            self.forget(shard, &sid_above(sid, above, queue.is_some()));
        }
        was_there
    }

    /// Ends a subscription; `false` if there is none of that name.
    fn forget(&self, shard: &mut Shard, sid: &[u8]) -> bool {
        let SessionState::Ready(ready) = &self.state else { return false };
        let Some(sub) = self.conn.subscription(sid) else { return false };
        shard.apply_counts();
        ready.account.end(&sub, Some(shard));
        self.set_wishes(sid, Wishes::default());
        if self.logs_protocol {
            self.broker.log_delsub(&sub);
        }
        true
    }
}

/// Name of the subscription to the level above that of `sid`. Compat: nats-server names it by its
/// subject.
fn sid_above(sid: &[u8], above: &[u8], is_shared: bool) -> Vec<u8> {
    [if is_shared { sid } else { above }, LEVEL_ABOVE_SUFFIX.as_bytes()].concat()
}
