//! Origin of a connection that speaks MQTT: what its listener asks of it, and who it says it is.

use crate::listener_info::WebSocketOrigin;
use myelin_auth::ConnectionType;
use std::net::SocketAddr;
use std::time::Duration;

/// Terms of the listener for MQTT, for the sessions behind it.
#[derive(Debug, Clone, Copy, Default)]
pub struct MqttTerms {
    /// Time for a client to authenticate, if not as usual.
    pub auth_timeout: Option<Duration>,
    /// Whether a PUBLISH or a will of QoS 2 ends the connection.
    pub refuses_qos_2: bool,
}

/// Origin of a connection that speaks MQTT.
#[derive(Debug)]
pub struct MqttOrigin {
    /// Terms as they were when the connection was accepted.
    pub terms: MqttTerms,
    /// Where it came over WebSocket.
    pub websocket: Option<WebSocketOrigin>,
}

impl MqttOrigin {
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
