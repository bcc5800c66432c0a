//! Listeners of clients beside their own: for WebSocket and for MQTT.

use super::links::TlsOffers;
use crate::logging::Logger;
use crate::monitoring::Addresses;
use crate::mqtt::MqttListening;
use crate::shard::{Mailbox, Permits};
use crate::websocket;
use myelin_conf::options::Options;
use std::net::SocketAddr;
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
        offers: &mut TlsOffers,
        (shards, permits): (&[Mailbox], &Permits),
        log: &Arc<Logger>,
    ) -> Result<Self, String> {
        let (websocket, mqtt) = (offers.websocket.take(), offers.mqtt.take());
        let websocket = websocket::Listening::start(options, websocket, shards.to_vec(), permits, log)?;
        let mqtt = MqttListening::start(options, mqtt, shards, log)?;
        Ok(Self { websocket, mqtt })
    }

    /// Where WebSocket is spoken.
    pub(super) fn websocket_address(&self) -> Option<SocketAddr> {
        self.websocket.as_ref().map(|listening| listening.address)
    }

    /// Ports for monitoring; `client`: of the clients' own listener.
    pub(super) fn ports(&self, client: u16) -> Addresses {
        let websocket = self.websocket_address().map(|address| address.port());
        let mqtt = self.mqtt.as_ref().map(|listening| listening.address.port());
        Addresses { client, websocket, mqtt }
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
