//! SUBSCRIBE and UNSUBSCRIBE of MQTT 5: groups, options, numbers of subscriptions, and reasons.

use super::stored::state::AddedSub;
use super::{OpOutcome, Session};
use crate::mqtt5_client::Wishes;
use crate::shard::Shard;
use myelin_mqtt::packet::{
    Properties, Property, Qos, ReasonCode, SubscribeOptions, SubscribePacket, SubscriptionId,
    UnsubscribePacket,
};
use myelin_mqtt::records::SubscriptionRecord;
use myelin_mqtt::topic;
use myelin_wire::error::ErrorText;
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
    /// Whether a new one leaves to the session's consumers what is stored. One that is there
    /// already stays as it is.
    pub(super) leaves_stored: bool,
}

impl<'a> WantedSub<'a> {
    /// A subscription of MQTT 3.1.1, whose name is its subject.
    pub(super) fn plain(pattern: &'a [u8]) -> Self {
        Self { pattern, queue: None, sid: pattern, wishes: Wishes::default(), leaves_stored: false }
    }
}

/// The number that a SUBSCRIBE gives its subscriptions.
fn subscription_id(properties: Properties<'_>) -> Option<SubscriptionId> {
    properties.iter().find_map(|property| match property {
        Property::SubscriptionId(id) => Some(id),
        _ => None,
    })
}

/// Options of a subscription, as they are stored.
fn options_of(id: Option<SubscriptionId>, options: SubscribeOptions) -> SubscriptionRecord {
    let SubscribeOptions { no_local, retain_as_published: as_published, .. } = options;
    SubscriptionRecord { id: id.map_or(0, SubscriptionId::get), no_local, as_published, qos: 0 }
}

/// Wishes of a subscription with these options.
pub(super) fn wishes(options: SubscriptionRecord) -> Wishes {
    let SubscriptionRecord { id, no_local, as_published, .. } = options;
    Wishes { id: SubscriptionId::new(id), no_local, as_published }
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
        &mut self,
        shard: &mut Shard,
        packet: &SubscribePacket<'_>,
        now: Instant,
    ) -> OpOutcome {
        let (mut codes, mut granted) = (Vec::new(), Vec::new());
        let (mut subject, number) = (Vec::new(), subscription_id(packet.properties));
        for (filter, options) in packet.filters.iter() {
            subject.clear();
            let (mut is_shared, mut stored_options) = (false, options_of(number, options));
            let qos = options.max_qos.min(self.most_qos());
            let listens = self.subscription_of(filter, &mut subject).and_then(|mut wanted| {
                (wanted.wishes, wanted.leaves_stored) = (wishes(stored_options), qos > Qos::AtMostOnce);
                is_shared = wanted.queue.is_some();
                self.listen(shard, wanted, now)
            });
            codes.push(listens.map_or_else(|reason| reason as u8, |()| qos as u8));
            if listens.is_ok() {
                let name = if is_shared { filter.as_bytes().to_vec() } else { std::mem::take(&mut subject) };
                let pattern = String::from_utf8(name).unwrap_or_default();
                let handling = options.retain_handling;
                stored_options.qos = if is_shared { qos as u8 } else { 0 };
                let (begins, options) = (false, stored_options);
                granted.push(AddedSub { pattern, qos, is_shared, begins, handling, options });
            }
        }
        OpOutcome::of(self.store_subscriptions(shard, (packet.packet_id, codes), granted, now))
    }

    pub(super) fn unsubscribe5(
        &mut self,
        shard: &mut Shard,
        packet: &UnsubscribePacket<'_>,
        now: Instant,
    ) -> OpOutcome {
        let (mut codes, mut names, mut subject) = (Vec::new(), Vec::new(), Vec::new());
        for filter in packet.filters.iter() {
            subject.clear();
            let ended = self.subscription_of(filter, &mut subject).map(|wanted| {
                names.extend(String::from_utf8(wanted.sid.to_vec()));
                self.forget_filter(shard, wanted)
            });
            codes.push(match ended {
                Ok(true) => ReasonCode::Success as u8,
                Ok(false) => ReasonCode::NoSubscriptionExisted as u8,
                Err(reason) => reason as u8,
            });
        }
        OpOutcome::of(self.store_unsubscriptions(shard, (packet.packet_id, codes), &names, now))
    }

    /// Ends a subscription by its name in the session's record.
    pub(super) fn forget_again(&self, shard: &mut Shard, name: &str) {
        let mut subject = Vec::new();
        match self.subscription_of(name, &mut subject) {
            Ok(wanted) if wanted.queue.is_some() => self.forget_filter(shard, wanted),
            _ => self.forget_filter(shard, WantedSub::plain(name.as_bytes())),
        };
    }

    /// Subscribes again to a filter of a group.
    pub(super) fn join_again(
        &self,
        shard: &mut Shard,
        filter: &str,
        options: SubscriptionRecord,
        now: Instant,
    ) -> bool {
        let mut subject = Vec::new();
        let wanted = self.subscription_of(filter, &mut subject);
        wanted.is_ok_and(|wanted| {
            let leaves_stored = options.qos > 0;
            self.listen(shard, WantedSub { wishes: wishes(options), leaves_stored, ..wanted }, now).is_ok()
        })
    }

    /// Pattern of the filter of a share.
    pub(super) fn shared_pattern(&self, filter: &str) -> Option<String> {
        let mut subject = Vec::new();
        self.subscription_of(filter, &mut subject).ok()?;
        String::from_utf8(subject).ok()
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
        Ok(WantedSub { pattern: out, queue, sid, wishes: Wishes::default(), leaves_stored: false })
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
