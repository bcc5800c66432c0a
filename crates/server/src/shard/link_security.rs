//! TLS that a link has, or may have: with whom, which side this one is, when the handshake comes.

use crate::ocsp::PeerCheck;
use crate::tls::{HubTls, LeafOffer, LinkOffer, NO_HANDSHAKE, TlsTerms};
use myelin_broker::Level;
use myelin_conf::options::HandshakeFirst;
use myelin_mesh::PeerCertificate;
use rustls::ClientConfig;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// TLS for one link. The name is what the other server's certificate has to bear.
#[derive(Clone)]
pub(crate) enum LinkSecurity {
    /// With a server of the cluster; with a name where this one has dialled.
    Route(Arc<LinkOffer>, Option<String>),
    /// With a server of another cluster; with a name where this one has dialled.
    Gateway(Arc<LinkOffer>, Option<String>),
    /// With a leaf node that has dialled.
    LeafNode(Arc<LeafOffer>),
    /// With a hub that was dialled, if it comes to that.
    Hub(Arc<HubTls>, String),
}

/// Side of a handshake, with what it needs.
pub(super) enum Shaking {
    Accepted(TlsTerms),
    /// With the check of whether the other side's certificate was revoked, where that is asked.
    Dialled(Arc<ClientConfig>, String, Option<Arc<PeerCheck>>),
}

impl LinkSecurity {
    /// When the handshake comes.
    pub(super) fn first(&self) -> HandshakeFirst {
        match self {
            Self::Route(..) | Self::Gateway(..) => HandshakeFirst::Yes,
            Self::LeafNode(offer) => offer.first,
            Self::Hub(tls, _) if tls.is_first => HandshakeFirst::Yes,
            Self::Hub(..) => HandshakeFirst::No,
        }
    }

    /// Whether it is the session that says when the handshake comes, if it has not come first.
    pub(super) fn waits_for_session(&self) -> bool {
        matches!(self, Self::Hub(..))
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Route(..) => "route",
            Self::Gateway(..) => "gateway",
            Self::LeafNode(_) | Self::Hub(..) => "leafnode",
        }
    }

    pub(super) fn side(&self) -> &'static str {
        match self {
            Self::Route(_, Some(_)) | Self::Gateway(_, Some(_)) | Self::Hub(..) => "client",
            Self::Route(_, None) | Self::Gateway(_, None) | Self::LeafNode(_) => "server",
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        match self {
            Self::Route(offer, _) | Self::Gateway(offer, _) => offer.timeout,
            Self::LeafNode(offer) => offer.timeout,
            Self::Hub(tls, _) => tls.timeout,
        }
    }

    pub(super) fn shaking(&self) -> Shaking {
        match self {
            Self::Route(offer, None) | Self::Gateway(offer, None) => Shaking::Accepted(offer.terms.clone()),
            Self::Route(offer, Some(name)) | Self::Gateway(offer, Some(name)) => {
                Shaking::Dialled(Arc::clone(&offer.dialling), name.clone(), None)
            }
            Self::LeafNode(offer) => Shaking::Accepted(offer.terms.clone()),
            Self::Hub(tls, name) => {
                Shaking::Dialled(Arc::clone(&tls.config), name.clone(), tls.revocation.clone())
            }
        }
    }

    /// Whether the other side's key is one of those that are pinned, where any are.
    pub(super) fn accepts(&self, shown: Option<&PeerCertificate>) -> bool {
        let is_pinned = |pinned: &BTreeSet<String>| {
            pinned.is_empty() || shown.is_some_and(|shown| pinned.contains(&shown.key))
        };
        match self {
            Self::Route(offer, _) | Self::Gateway(offer, _) => offer.accepts(shown),
            Self::LeafNode(offer) => is_pinned(&offer.pinned),
            Self::Hub(tls, _) => is_pinned(&tls.pinned),
        }
    }

    /// The certificate does not bear the name.
    pub(super) fn is_not_called(&self) {
        match self {
            Self::Route(offer, Some(name)) | Self::Gateway(offer, Some(name)) => offer.is_not_called(name),
            Self::Hub(tls, name) => tls.borrowed.is_not_called(name),
            Self::Route(_, None) | Self::Gateway(_, None) | Self::LeafNode(_) => {}
        }
    }

    /// Compat: who has begun with something else than a handshake is no error for a leaf node.
    pub(super) fn level(&self, error: &str) -> Level {
        let is_route = matches!(self, Self::Route(..));
        if error == NO_HANDSHAKE && !is_route { Level::Debug } else { Level::Error }
    }
}
