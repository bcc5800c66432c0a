//! Origin of a connection that speaks MQTT: what its listener asks of it, and who it says it is.

use crate::listener_info::WebSocketOrigin;
use crate::mqtt5_client::Mqtt5Client;
use myelin_auth::ConnectionType;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Terms of the listener for MQTT, for the sessions behind it.
#[derive(Debug, Clone, Default)]
pub struct MqttTerms {
    /// Time for a client to authenticate, if not as usual.
    pub auth_timeout: Option<Duration>,
    /// Whether a PUBLISH or a will of QoS 2 ends the connection.
    pub refuses_qos_2: bool,
    /// Whether a client may speak MQTT 5.
    pub accepts_5: bool,
    /// Other servers, for clients of MQTT 5 that are to leave.
    pub elsewhere: Option<Arc<str>>,
}

/// Origin of a connection that speaks MQTT.
#[derive(Debug)]
pub struct MqttOrigin {
    /// Terms as they were when the connection was accepted.
    pub terms: MqttTerms,
    /// Where it came over WebSocket. Boxed: an idle connection must stay small.
    pub websocket: Option<Box<WebSocketOrigin>>,
    /// Part of a client that speaks MQTT 5 which deliveries have to know, once it has sent CONNECT.
    five: OnceLock<Box<Mqtt5Client>>,
}

impl MqttOrigin {
    /// Origin of a connection of a listener with these terms.
    pub fn new(terms: MqttTerms, websocket: Option<WebSocketOrigin>) -> Self {
        Self { terms, websocket: websocket.map(Box::new), five: OnceLock::new() }
    }

    /// The client, if it speaks MQTT 5.
    #[inline]
    pub(crate) fn five(&self) -> Option<&Mqtt5Client> {
        self.five.get().map(|client| &**client)
    }

    /// The client speaks MQTT 5. Only the first call counts.
    pub(crate) fn speaks_5(&self, client: Mqtt5Client) {
        let _ = self.five.set(Box::new(client));
    }

    /// Which kind of connection it is.
    pub(crate) fn via(&self) -> ConnectionType {
        if self.websocket.is_some() { ConnectionType::MqttWs } else { ConnectionType::Mqtt }
    }

    /// Name of the connection in the log.
    pub(crate) fn name(&self, peer: SocketAddr, cid: u64) -> String {
        match &self.websocket {
            Some(websocket) => format!("{} - mid_ws:{cid}", websocket.peer_name(peer)),
            None => format!("{peer} - mid:{cid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each connection of MQTT has one.
    #[test]
    fn an_origin_is_small() {
        assert!(size_of::<MqttOrigin>() <= 64, "{}", size_of::<MqttOrigin>());
    }
}
