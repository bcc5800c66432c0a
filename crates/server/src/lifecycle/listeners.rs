//! Listeners of clients beside their own: for WebSocket and for MQTT.

use super::links::WebSocketOffer;
use crate::logging::Logger;
use crate::mqtt::MqttListening;
use crate::shard::{Mailbox, Permits};
use crate::tls::ClientOffer;
use crate::websocket;
use myelin_conf::options::Options;
use std::sync::Arc;

/// Listeners that are there if the options want them.
pub(crate) struct OtherListeners {
    pub(crate) websocket: Option<websocket::Listening>,
    pub(crate) mqtt: Option<MqttListening>,
}

impl OtherListeners {
    /// Listens with these offers of TLS.
    ///
    /// # Errors
    /// Why the server cannot start.
    pub(super) fn start(
        options: &Options,
        (websocket, mqtt): (Option<WebSocketOffer>, Option<ClientOffer>),
        (shards, permits): (&[Mailbox], &Permits),
        log: &Arc<Logger>,
    ) -> Result<Self, String> {
        let websocket = websocket::Listening::start(options, websocket, shards.to_vec(), permits, log)?;
        let mqtt = MqttListening::start(options, mqtt, shards, log)?;
        Ok(Self { websocket, mqtt })
    }

    /// Ports of WebSocket and MQTT.
    pub(super) fn ports(&self) -> [Option<u16>; 2] {
        let websocket = self.websocket.as_ref().map(|listening| listening.address);
        let mqtt = self.mqtt.as_ref().map(|listening| listening.address);
        [websocket, mqtt].map(|address| address.map(|address| address.port()))
    }

    /// Takes no more connections. Those that are being upgraded come to their end.
    pub(super) async fn close(&mut self) {
        if let Some(websocket) = &mut self.websocket {
            websocket.close().await;
        }
        self.mqtt.iter().for_each(MqttListening::abort);
    }

    /// Takes no more connections, and waits for nothing.
    pub(super) fn abort(&self) {
        self.websocket.iter().for_each(websocket::Listening::abort);
        self.mqtt.iter().for_each(MqttListening::abort);
    }
}
