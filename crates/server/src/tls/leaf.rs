//! TLS between leaf nodes and hubs, for either side.

use super::links::{Borrowed, LINK_TIMEOUT};
use super::outbound::hub_config;
use super::{Offer, Peers, TlsTerms, offer};
use crate::ocsp::PeerCheck;
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
    /// Whether its certificate was revoked, where that is asked.
    pub(crate) revocation: Option<Arc<PeerCheck>>,
    /// The first host name of its addresses.
    pub(crate) borrowed: Borrowed,
}

impl HubTls {
    /// TLS as the remote has it; without a `tls{}` for a hub that asks for TLS by itself.
    /// `revocation`: of its certificate, where that is asked.
    ///
    /// # Errors
    /// When the files that the options name are no good.
    pub(crate) fn of(remote: &LeafRemoteOptions, revocation: Option<Arc<PeerCheck>>) -> Result<Self, String> {
        let default = TlsOptions::default();
        let tls = remote.tls.as_ref().unwrap_or(&default);
        Ok(Self {
            config: Arc::new(hub_config(tls)?),
            timeout: tls.timeout.unwrap_or(LINK_TIMEOUT),
            // Below a WebSocket TLS comes before everything else.
            is_first: tls.handshake_first != HandshakeFirst::No
                || remote.urls.iter().any(myelin_conf::Url::is_web_socket),
            pinned: tls.pinned_certs.clone(),
            revocation,
            borrowed: Borrowed::of(&remote.urls),
        })
    }
}
