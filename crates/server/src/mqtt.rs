//! The listener for clients that speak MQTT: each goes to a shard, where it is a client like
//! others.
//!
//! Packets are `mqtt`'s, what they do is `broker/src/session/mqtt/`. The shard's preamble does the
//! TLS handshake, as for clients; MQTT has no greeting, so the handshake always comes first.

use crate::listener;
use crate::logging::Logger;
use crate::os_error;
use crate::setup;
use crate::shard::{Mail, Mailbox};
use crate::supervise;
use crate::tls::{ClientOffer, ClientTls, Staple};
use myelin_conf::options::{HandshakeFirst, Options};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// TLS that clients are offered: `None` where there is no MQTT, or no TLS for it.
///
/// # Errors
/// When its certificates are no good.
pub(crate) fn offer(options: &Options) -> Result<Option<ClientOffer>, String> {
    let mqtt = &options.mqtt;
    let Some(tls) = mqtt.tls.as_ref().filter(|_| mqtt.listener.port.is_some()) else { return Ok(None) };
    // Whoever need not encrypt shows by its first byte that it does.
    let first = if options.allow_non_tls { HandshakeFirst::No } else { HandshakeFirst::Yes };
    ClientOffer::new(tls, first, options.allow_non_tls).map(Some)
}

/// A running listener.
pub(crate) struct MqttListening {
    tls: Arc<ClientTls>,
    pub(crate) address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl MqttListening {
    /// Listens where the options say so, with this TLS. To be called on the control runtime.
    ///
    /// # Errors
    /// Why the server cannot start.
    pub(crate) fn start(
        options: &Options,
        offer: Option<ClientOffer>,
        shards: &[Mailbox],
        log: &Arc<Logger>,
    ) -> Result<Option<Self>, String> {
        let (Some(port), Some(terms)) = (options.mqtt.listener.port, setup::mqtt_terms(options)) else {
            return Ok(None);
        };
        let (host, port) = (options.mqtt.listener.host.as_str(), port.to_bind());
        let listener = listener::bind(host, port).map_err(|error| {
            let reason = os_error::listening(host, port, &error);
            format!("Unable to listen for MQTT connections: {reason}")
        })?;
        let address = listener.local_addr().map_err(|error| format!("no MQTT address: {error}"))?;
        let scheme = if offer.is_some() { "tls" } else { "mqtt" };
        let place = os_error::with_port(host, address.port());
        log.info(format_args!("Listening for MQTT clients on {scheme}://{place}"));
        offer.iter().filter_map(|offer| offer.note.as_ref()).for_each(|note| log.warn(note));
        let tls = ClientTls::new(false);
        tls.set(offer);
        let offered = Arc::clone(&tls);
        let mail = move |stream, peer| Mail::AcceptMqtt(stream, peer, terms.clone(), Arc::clone(&offered));
        let accepting = listener::accept(listener, shards.to_vec(), ("MQTT", Arc::clone(log)), mail);
        Ok(Some(Self { tls, address, accepting: supervise::spawn_guarding(accepting) }))
    }

    /// Proof that is shown to new connections.
    pub(crate) fn staple(&self) -> Option<Arc<Staple>> {
        Some(Arc::clone(&self.tls.get()?.terms.staple))
    }

    /// Offers this TLS to new connections from now on.
    pub(crate) fn set_offer(&self, offer: Option<ClientOffer>) {
        self.tls.set(offer);
    }

    /// Takes no more connections.
    pub(crate) fn abort(&self) {
        self.accepting.abort();
    }
}
