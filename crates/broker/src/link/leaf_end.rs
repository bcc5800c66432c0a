//! Terms that only a link with a leaf node or a hub has: this server's part on it, and what may
//! cross it.

use arc_swap::ArcSwap;
use myelin_auth::{InvalidRule, Permissions, SubjectRules};
use myelin_wire::peer::leaf::LOOP_DETECTION;
use std::sync::Arc;

/// Part of this server on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafRole {
    /// The other side is a leaf node of this one.
    Hub,
    /// This server is a leaf node of the other side.
    Spoke,
}

/// Server that has dialled a link with a leaf node or a hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafDialler {
    /// This server, which has logged in at the other side.
    Here,
    /// The other side: it has logged in here.
    There,
}

/// Terms of a link with a leaf node or a hub, known when its handshake is over.
#[derive(Debug, Clone)]
pub struct LeafTerms {
    /// Part of this server.
    pub role: LeafRole,
    /// The other side does not hear of what leaf nodes want.
    pub is_isolated: bool,
    /// The other side's cluster; empty for none.
    pub cluster: String,
    /// Subjects that may cross the link.
    pub permissions: LeafPermissions,
}

/// Subjects that may cross a link with a leaf node or a hub.
#[derive(Debug, Clone)]
pub struct LeafPermissions {
    pub(super) dialler: LeafDialler,
    /// Permissions of the user as whom the server that has dialled is logged in, whichever of both
    /// is the hub: it publishes what it sends. `None` allows everything. Where it has dialled, this
    /// server has them from INFO.
    granted: Option<Arc<Permissions>>,
    /// Subjects that are not sent, and not asked for, whatever is granted.
    denied: Permissions,
    /// Subjects that are not taken.
    refused: Permissions,
    /// Subjects that are not sent although the other side may ask for them.
    kept: Permissions,
}

/// Subjects that do not cross a link, whatever is granted.
#[derive(Debug, Default)]
pub struct LeafDenials {
    /// Subjects that are not sent: a leaf node that asks for one is cut off.
    pub not_sent: Vec<String>,
    /// Subjects that are not taken, nor asked for.
    pub not_taken: Vec<String>,
    /// Subjects that are not asked for, and that are taken all the same.
    pub not_asked: Vec<String>,
    /// Subjects that are not sent, and that the other side may ask for all the same.
    pub kept: Vec<String>,
}

impl LeafPermissions {
    /// Permissions of a link.
    ///
    /// # Errors
    /// If a subject is no valid pattern.
    pub fn new(
        dialler: LeafDialler,
        granted: Option<Arc<Permissions>>,
        denials: LeafDenials,
    ) -> Result<Self, InvalidRule> {
        let LeafDenials { not_sent, not_taken, mut not_asked, kept } = denials;
        let deny = |deny| Some(SubjectRules { allow: Vec::new(), deny });
        not_asked.extend(not_taken.iter().cloned());
        let denied = Permissions::new(deny(not_sent), deny(not_asked), None)?;
        let refused = Permissions::new(None, deny(not_taken), None)?;
        Ok(Self { dialler, granted, denied, refused, kept: Permissions::new(deny(kept), None, None)? })
    }

    /// Whether a message may go to the other side, for members of `queue` if that is one.
    ///
    /// Compat: what a user may not hear as one queue group is asked for all the same, and held back
    /// here.
    fn may_send(&self, subject: &[u8], queue: Option<&[u8]>) -> bool {
        let is_for = |granted: &Arc<Permissions>| match self.dialler {
            LeafDialler::There => granted.can_deliver(subject, queue),
            LeafDialler::Here => true,
        };
        self.may_be_asked(subject)
            && self.kept.can_publish(subject)
            && (queue.is_none() || self.granted.as_ref().is_none_or(is_for))
    }

    /// Whether the other side may ask for a subject.
    pub(super) fn may_be_asked(&self, subject: &[u8]) -> bool {
        let is_granted = |granted: &Arc<Permissions>| match self.dialler {
            LeafDialler::There => granted.can_subscribe(subject, None),
            LeafDialler::Here => granted.can_publish(subject),
        };
        self.granted.as_ref().is_none_or(is_granted) && self.denied.can_publish(subject)
    }

    /// Whether the other side is told of interest here. Compat: a part of a pattern with wildcards
    /// is enough.
    fn may_tell(&self, pattern: &[u8]) -> bool {
        let is_granted = |granted: &Arc<Permissions>| match self.dialler {
            LeafDialler::There => granted.can_publish_some(pattern),
            LeafDialler::Here => granted.can_subscribe_some(pattern),
        };
        self.granted.as_ref().is_none_or(is_granted) && self.denied.can_subscribe(pattern, None)
    }

    /// Whether a message of the other side is taken.
    ///
    /// Compat: answers of services and acknowledgements are.
    pub(super) fn may_take(&self, subject: &[u8]) -> bool {
        if subject.starts_with(b"_R_.") || subject.starts_with(b"$JS.ACK.") {
            return true;
        }
        let is_granted = |granted: &Arc<Permissions>| match self.dialler {
            LeafDialler::There => granted.can_publish(subject),
            LeafDialler::Here => granted.can_subscribe(subject, None),
        };
        self.granted.as_ref().is_none_or(is_granted) && self.refused.can_subscribe(subject, None)
    }
}

/// The part of a link that only leaf nodes and hubs have.
pub(crate) struct LeafEnd {
    pub(crate) role: LeafRole,
    /// The other side has dialled.
    pub(crate) is_accepted: bool,
    pub(crate) is_isolated: bool,
    /// The other side's cluster; empty for none.
    pub(crate) cluster: Box<str>,
    pub(super) permissions: ArcSwap<LeafPermissions>,
}

impl LeafEnd {
    pub(crate) fn may_send(&self, subject: &[u8], queue: Option<&[u8]>) -> bool {
        self.permissions.load().may_send(subject, queue)
    }

    /// Whether the other side is told of what the account imports, maps or offers. Compat: a hub
    /// tells all of that, also what it does not take.
    pub(super) fn may_tell_import(&self, pattern: &[u8]) -> bool {
        self.role == LeafRole::Hub || self.may_tell(pattern)
    }

    /// Whether the other side is told of interest. Compat: of what finds circles always.
    pub(crate) fn may_tell(&self, pattern: &[u8]) -> bool {
        pattern.starts_with(LOOP_DETECTION) || self.permissions.load().may_tell(pattern)
    }
}
