//! SUBSCRIBE and UNSUBSCRIBE of MQTT 5: groups, options, numbers of subscriptions, and reasons.

use super::{OpOutcome, Session};
use crate::mqtt5_client::Wishes;
use crate::shard::Shard;
use myelin_mqtt::packet::{
    Properties, Property, Qos, ReasonCode, ServerPacket, SubAckPacket, SubscribeOptions, SubscribePacket,
    SubscriptionId, UnsubAckPacket, UnsubscribePacket,
};
use myelin_mqtt::topic;
use myelin_wire::error::ErrorText;
use smallvec::SmallVec;
use std::time::Instant;

/// A filter without its group, if it has one.
struct SplitFilter<'f> {
    /// Name of the group whose members share the messages: a queue group.
    group: Option<&'f str>,
    filter: &'f str,
}

/// A subscription in the terms of NATS.
#[derive(Clone, Copy)]
pub(super) struct WantedSub<'a> {
    pub(super) pattern: &'a [u8],
    pub(super) queue: Option<&'a [u8]>,
    pub(super) sid: &'a [u8],
    pub(super) wishes: Wishes,
}

impl<'a> WantedSub<'a> {
    /// A subscription of MQTT 3.1.1, whose name is its subject.
    pub(super) fn plain(pattern: &'a [u8]) -> Self {
        Self { pattern, queue: None, sid: pattern, wishes: Wishes::default() }
    }
}

/// The number that a SUBSCRIBE gives its subscriptions.
fn subscription_id(properties: Properties<'_>) -> Option<SubscriptionId> {
    properties.iter().find_map(|property| match property {
        Property::SubscriptionId(id) => Some(id),
        _ => None,
    })
}

/// Wishes of a subscription. Nothing is retained, so nothing is asked of that.
fn wishes(id: Option<SubscriptionId>, options: SubscribeOptions) -> Wishes {
    Wishes { id, no_local: options.no_local }
}

/// Reason for which a subscription was refused.
pub(super) fn reason_of(text: &ErrorText) -> ReasonCode {
    match text {
        ErrorText::SubscriptionViolation(..) => ReasonCode::NotAuthorized,
        ErrorText::MaximumSubscriptions => ReasonCode::QuotaExceeded,
        ErrorText::TooManyTokens(_) | ErrorText::InvalidSubject => ReasonCode::TopicFilterInvalid,
        _ => ReasonCode::UnspecifiedError,
    }
}

impl Session {
    /// Whether the client speaks MQTT 5.
    pub(super) fn speaks_5(&self) -> bool {
        self.mqtt.as_ref().is_some_and(|mqtt| mqtt.five.is_some())
    }

    pub(super) fn subscribe5(
        &self,
        shard: &mut Shard,
        packet: &SubscribePacket<'_>,
        now: Instant,
    ) -> OpOutcome {
        let mut codes = SmallVec::<[u8; 8]>::new();
        let (mut subject, number) = (Vec::new(), subscription_id(packet.properties));
        for (filter, options) in packet.filters.iter() {
            subject.clear();
            let granted = self.subscription_of(filter, &mut subject).and_then(|mut wanted| {
                wanted.wishes = wishes(number, options);
                self.listen(shard, wanted, now)
            });
            codes.push(granted.map_or_else(|reason| reason as u8, |()| Qos::AtMostOnce as u8));
        }
        let id = packet.packet_id;
        let ack = SubAckPacket { packet_id: id, properties: Properties::EMPTY, codes: &codes };
        self.answer(shard, &ServerPacket::SubAck(ack), format_args!("SUBACK pi={id}"));
        OpOutcome::Continue
    }

    pub(super) fn unsubscribe5(&self, shard: &mut Shard, packet: &UnsubscribePacket<'_>) -> OpOutcome {
        let mut codes = SmallVec::<[u8; 8]>::new();
        let mut subject = Vec::new();
        for filter in packet.filters.iter() {
            subject.clear();
            let wanted = self.subscription_of(filter, &mut subject);
            codes.push(match wanted.map(|wanted| self.forget_filter(shard, wanted)) {
                Ok(true) => ReasonCode::Success as u8,
                Ok(false) => ReasonCode::NoSubscriptionExisted as u8,
                Err(reason) => reason as u8,
            });
        }
        let id = packet.packet_id;
        let ack = UnsubAckPacket { packet_id: id, properties: Properties::EMPTY, codes: &codes };
        self.answer(shard, &ServerPacket::UnsubAck(ack), format_args!("UNSUBACK pi={id}"));
        OpOutcome::Continue
    }

    /// The subscription that a filter is, without wishes. Its subject is written into `out`.
    fn subscription_of<'f>(
        &self,
        filter: &'f str,
        out: &'f mut Vec<u8>,
    ) -> Result<WantedSub<'f>, ReasonCode> {
        let split = split_filter(filter)?;
        if !self.subject_of(split.filter, out) {
            return Err(ReasonCode::TopicFilterInvalid);
        }
        let queue = split.group.map(str::as_bytes);
        // No subject is the filter of a group.
        let sid = if queue.is_some() { filter.as_bytes() } else { &out[..] };
        Ok(WantedSub { pattern: out, queue, sid, wishes: Wishes::default() })
    }

    /// Remembers the wishes of a subscription before messages come by it; answers whether they
    /// were others.
    pub(super) fn set_wishes(&self, sid: &[u8], wishes: Wishes) -> bool {
        let five = self.conn.mqtt5();
        five.is_some_and(|five| five.set_wishes(sid, wishes))
    }
}

/// Splits a filter into its group, if it has one, and the filter itself.
///
/// # Errors
/// When MQTT 5 has no such filter.
fn split_filter<'f>(filter: &'f str) -> Result<SplitFilter<'f>, ReasonCode> {
    let shared = topic::shared(filter).map_err(|_| ReasonCode::TopicFilterInvalid)?;
    let split = match shared {
        None => SplitFilter { group: None, filter },
        Some(shared) => SplitFilter { group: Some(shared.group), filter: shared.filter },
    };
    match topic::has_misplaced_wildcard(split.filter) {
        true => Err(ReasonCode::TopicFilterInvalid),
        false => Ok(split),
    }
}
