//! A will, from CONNECT until it is published or thrown away. One with a delay outlives its
//! connection: it waits in the inbox of its session ([`crate::mqtt_inbox`]), from where whoever
//! takes the session up takes it.

use crate::account::Account;
use crate::conn::Conn;
use crate::mqtt_nats_side::NatsSide;
use myelin_auth::Permissions;
use myelin_mqtt::packet::{Properties, Property, Qos, Will};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A will that is kept for the end.
pub(crate) struct StoredWill {
    pub(crate) topic: Box<str>,
    pub(crate) payload: Box<[u8]>,
    pub(crate) qos: Qos,
    pub(crate) is_retained: bool,
    /// Time between the end of the connection and the will, if its session lasts as long.
    pub(crate) delay: Duration,
    /// Properties, as NATS has them.
    pub(crate) nats: NatsSide,
}

impl StoredWill {
    pub(crate) fn new(will: Will<'_>, nats: NatsSide) -> Self {
        let (topic, payload) = (will.topic.into(), will.payload.into());
        let delay = delay(will.properties);
        Self { topic, payload, qos: will.qos, is_retained: will.retain, delay, nats }
    }
}

fn delay(properties: Properties<'_>) -> Duration {
    let seconds = properties.iter().find_map(|property| match property {
        Property::WillDelay(seconds) => Some(seconds),
        _ => None,
    });
    Duration::from_secs(seconds.unwrap_or_default().into())
}

/// A will that waits, with everything of its session that it is published with.
pub(crate) struct DelayedWill {
    pub(crate) will: Box<StoredWill>,
    pub(crate) due: Instant,
    pub(crate) conn: Arc<Conn>,
    pub(crate) account: Arc<Account>,
    pub(crate) permissions: Option<Arc<Permissions>>,
    /// User who has left it.
    pub(crate) user: Box<str>,
    /// Node name of this server.
    pub(crate) node: String,
}
