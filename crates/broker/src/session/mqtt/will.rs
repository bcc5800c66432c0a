//! A will, from CONNECT to the end of the connection.

use myelin_mqtt::packet::{Qos, Will};

/// A will that is kept for the end.
pub(super) struct StoredWill {
    pub(super) topic: Box<str>,
    pub(super) payload: Box<[u8]>,
    pub(super) qos: Qos,
    pub(super) is_retained: bool,
}

impl From<Will<'_>> for StoredWill {
    fn from(will: Will<'_>) -> Self {
        Self {
            topic: will.topic.into(),
            payload: will.payload.into(),
            qos: will.qos,
            is_retained: will.retain,
        }
    }
}
