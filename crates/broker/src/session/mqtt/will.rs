//! A will, from CONNECT to the end of the connection.

use super::nats_side::NatsSide;
use myelin_mqtt::packet::{Qos, Will};

/// A will that is kept for the end.
pub(super) struct StoredWill {
    pub(super) topic: Box<str>,
    pub(super) payload: Box<[u8]>,
    pub(super) qos: Qos,
    pub(super) is_retained: bool,
    /// Properties, as NATS has them.
    pub(super) nats: NatsSide,
}

impl StoredWill {
    pub(super) fn new(will: Will<'_>, nats: NatsSide) -> Self {
        let (topic, payload) = (will.topic.into(), will.payload.into());
        Self { topic, payload, qos: will.qos, is_retained: will.retain, nats }
    }
}
