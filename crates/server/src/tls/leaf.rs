//! TLS between leaf nodes and hubs, for either side.

use super::files::CertifiedKeys;
use super::links::{Borrowed, LINK_TIMEOUT};
use super::outbound::link_config;
use super::{Offer, Peers, Staple, TlsTerms, offer};
use myelin_conf::options::{HandshakeFirst, LeafNodeOptions, LeafRemoteOptions, TlsOptions};
use rustls::ClientConfig;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// TLS as a hub offers it to leaf nodes.
#[derive(Debug)]
pub(crate) struct LeafOffer {
    pub(crate) terms: TlsTerms,
    /// Time for the handshake.
    pub(crate) timeout: Duration,
    /// When the handshake comes.
    pub(crate) first: HandshakeFirst,
    /// SHA-256 of the public keys that are accepted, in hex; empty for all.
    pub(crate) pinned: BTreeSet<String>,
    /// Note for the operator.
    pub(crate) note: Option<String>,
}

impl LeafOffer {
    /// `None` where no leaf nodes are accepted, or without a `tls{}` for them.
    ///
    /// # Errors
    /// When its certificates are no good.
    pub(crate) fn of(options: &LeafNodeOptions) -> Result<Option<Self>, String> {
        let tls = options.tls.as_ref().filter(|_| options.listener.port.is_some());
        let Some(tls) = tls else { return Ok(None) };
        let Offer { terms, note } = offer(tls, Peers::AsConfigured)?;
        Ok(Some(Self {
            terms,
            timeout: tls.timeout.unwrap_or(LINK_TIMEOUT),
            first: tls.handshake_first,
            pinned: tls.pinned_certs.clone(),
            note,
        }))
    }
}

/// TLS of this server for one hub.
#[derive(Debug)]
pub(crate) struct HubTls {
    pub(crate) config: Arc<ClientConfig>,
    /// Time for the handshake.
    pub(crate) timeout: Duration,
    /// Whether the handshake comes before INFO.
    pub(crate) is_first: bool,
    /// SHA-256 of the public keys that are accepted, in hex; empty for all.
    pub(crate) pinned: BTreeSet<String>,
    /// The first host name of its addresses.
    pub(crate) borrowed: Borrowed,
}

impl HubTls {
    /// TLS as the remote has it; without a `tls{}` for a hub that asks for TLS by itself.
    ///
    /// # Errors
    /// When the files that the options name are no good.
    pub(crate) fn of(remote: &LeafRemoteOptions) -> Result<Self, String> {
        let default = TlsOptions::default();
        let tls = remote.tls.as_ref().unwrap_or(&default);
        Ok(Self {
            // Of a proof nothing is asked: `leaf/options.rs` refuses OCSP here.
            config: Arc::new(link_config(tls, &Staple::new(&CertifiedKeys::open(&tls.identity)?))?),
            timeout: tls.timeout.unwrap_or(LINK_TIMEOUT),
            // Below a WebSocket TLS comes before everything else.
            is_first: tls.handshake_first != HandshakeFirst::No
                || remote.urls.iter().any(myelin_conf::Url::is_web_socket),
            pinned: tls.pinned_certs.clone(),
            borrowed: Borrowed::of(&remote.urls),
        })
    }
}
