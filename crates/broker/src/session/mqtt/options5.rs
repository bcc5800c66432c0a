//! SUBSCRIBE of MQTT 5: groups, options, numbers of subscriptions, and reasons.

use super::Session;
use crate::mqtt5_client::Wishes;
use myelin_mqtt::packet::{Properties, Property, ReasonCode, SubscribeOptions, SubscriptionId};
use myelin_mqtt::topic;
use myelin_wire::error::ErrorText;

/// A filter without its group, if it has one.
pub(super) struct SplitFilter<'f> {
    /// Name of the group whose members share the messages: a queue group.
    pub(super) group: Option<&'f str>,
    pub(super) filter: &'f str,
}

/// A subscription in the terms of NATS.
#[derive(Clone, Copy)]
pub(super) struct WantedSub<'a> {
    pub(super) pattern: &'a [u8],
    pub(super) queue: Option<&'a [u8]>,
    pub(super) sid: &'a [u8],
    pub(super) wishes: Wishes,
}

/// The number that a SUBSCRIBE gives its subscriptions.
pub(super) fn subscription_id(properties: Properties<'_>) -> Option<SubscriptionId> {
    properties.iter().find_map(|property| match property {
        Property::SubscriptionId(id) => Some(id),
        _ => None,
    })
}

/// Wishes of a subscription. Nothing is retained, so nothing is asked of that.
pub(super) fn wishes(id: Option<SubscriptionId>, options: SubscribeOptions) -> Wishes {
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

    /// Splits a filter, which has no groups in version 3.1.1.
    ///
    /// # Errors
    /// When MQTT 5 has no such filter.
    pub(super) fn split_filter<'f>(&self, filter: &'f str) -> Result<SplitFilter<'f>, ReasonCode> {
        if !self.speaks_5() {
            return Ok(SplitFilter { group: None, filter });
        }
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

    /// Remembers the wishes of a subscription before messages come by it; answers whether they
    /// were others.
    pub(super) fn set_wishes(&self, sid: &[u8], wishes: Wishes) -> bool {
        let five = self.conn.mqtt5();
        five.is_some_and(|five| five.set_wishes(sid, wishes))
    }
}
