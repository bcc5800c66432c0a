//! Links of leaf nodes, as the broker sees them.
//!
//! Such a link is bound to one account here and to one over there, whose names are not said. One
//! side is the *hub*, the other its leaf node (the *spoke*): mostly the one that has dialled, or
//! the other way round if it says so. A leaf node tells its hub what its own clients and its own
//! leaf nodes want; a hub tells a leaf node what anybody else wants, unless that one is isolated
//! (`leaf_announcements.rs`). Routes hear of what leaf nodes of a hub want with the cluster that
//! they are of, their *origin*.
//!
//! There is no rule of one hop: what comes from a leaf node goes to clients, services, routes and
//! other leaf nodes, as if a client had published it here; what comes from a hub goes to all but
//! routes, for the other servers of this cluster have links of their own; what comes over a route
//! goes to this server's leaf nodes. Nothing goes back over its own link, nor to leaf nodes of the
//! cluster that it is from. A circle of leaf nodes is found by a subject that each account of a
//! server wants for itself, `$LDS.<id>`: where it comes back to, there is a circle.

use super::leaf_announcements::LeafAnnouncing;
use super::{Link, LinkScope, lossy};
use crate::account::Account;
use crate::conn::Conn;
use crate::log::Level;
use crate::shard::Shard;
use arc_swap::ArcSwap;
use bytes::Bytes;
use myelin_auth::{InvalidRule, Permissions, SubjectRules};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::leaf::LOOP_DETECTION;
use myelin_wire::peer::parser::{PeerInterest, Routed};
use std::sync::Arc;
use std::time::Instant;

/// Part of this server on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafRole {
    /// The other side is a leaf node of this one.
    Hub,
    /// This server is a leaf node of the other side.
    Spoke,
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
    role: LeafRole,
    /// Permissions of the leaf node's user; `None` allows everything. A hub has them from its
    /// users, a leaf node from the INFO of its hub.
    granted: Option<Arc<Permissions>>,
    /// Subjects that are not sent, and not taken nor asked for, whatever is granted.
    denied: Permissions,
}

impl LeafPermissions {
    /// Permissions of a link on which this server has this part.
    ///
    /// # Errors
    /// If a subject is no valid pattern.
    pub fn new(
        role: LeafRole,
        granted: Option<Arc<Permissions>>,
        not_sent: Vec<String>,
        not_taken: Vec<String>,
    ) -> Result<Self, InvalidRule> {
        let deny = |deny| Some(SubjectRules { allow: Vec::new(), deny });
        Ok(Self { role, granted, denied: Permissions::new(deny(not_sent), deny(not_taken), None)? })
    }

    /// Whether a message may go to the other side.
    fn may_send(&self, subject: &[u8]) -> bool {
        let is_granted = |granted: &Arc<Permissions>| match self.role {
            LeafRole::Hub => granted.can_subscribe(subject, None),
            LeafRole::Spoke => granted.can_publish(subject),
        };
        self.granted.as_ref().is_none_or(is_granted) && self.denied.can_publish(subject)
    }

    /// Whether the other side is told of interest here. Compat: a part of a pattern with wildcards
    /// is enough.
    fn may_tell(&self, pattern: &[u8]) -> bool {
        let is_granted = |granted: &Arc<Permissions>| match self.role {
            LeafRole::Hub => granted.can_publish_some(pattern),
            LeafRole::Spoke => granted.can_subscribe_some(pattern),
        };
        self.granted.as_ref().is_none_or(is_granted) && self.denied.can_subscribe(pattern, None)
    }

    /// Whether a message of the other side is taken.
    ///
    /// Compat: answers of services and acknowledgements are, and what a hub denies by itself is not
    /// asked.
    fn may_take(&self, subject: &[u8]) -> bool {
        if subject.starts_with(b"_R_.") || subject.starts_with(b"$JS.ACK.") {
            return true;
        }
        let granted = self.granted.as_ref();
        match self.role {
            LeafRole::Hub => granted.is_none_or(|granted| granted.can_publish(subject)),
            LeafRole::Spoke => {
                granted.is_none_or(|granted| granted.can_subscribe(subject, None))
                    && self.denied.can_subscribe(subject, None)
            }
        }
    }
}

/// The part of a link that only leaf nodes and hubs have.
pub(crate) struct LeafEnd {
    pub(crate) role: LeafRole,
    pub(crate) is_isolated: bool,
    /// The other side's cluster; empty for none.
    pub(crate) cluster: Box<str>,
    permissions: ArcSwap<LeafPermissions>,
}

impl LeafEnd {
    pub(crate) fn may_send(&self, subject: &[u8]) -> bool {
        self.permissions.load().may_send(subject)
    }

    /// Whether the other side is told of interest. Compat: of what finds circles always.
    pub(crate) fn may_tell(&self, pattern: &[u8]) -> bool {
        pattern.starts_with(LOOP_DETECTION) || self.permissions.load().may_tell(pattern)
    }
}

/// Why something of the other side is not taken, which ends the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafFault {
    /// Something that was said here has come back: there is a circle.
    Loop,
    /// The other side may not do that.
    Denied,
    /// The other side has brought more than a link may.
    TooMuch(CloseReason),
}

impl Link {
    /// The handshake with a leaf node or a hub is over. What wants to be announced is returned.
    pub fn begin_leaf(&mut self, account: &Arc<Account>, terms: LeafTerms, headers: bool) -> LeafAnnouncing {
        let LeafTerms { role, is_isolated, cluster, permissions } = terms;
        self.account = Some(Arc::clone(account));
        self.conn.set_headers(headers);
        self.conn.update_details(|details| account.name().clone_into(&mut details.account));
        if let Some(link) = self.conn.link() {
            let permissions = ArcSwap::from_pointee(permissions);
            let end = LeafEnd { role, is_isolated, cluster: cluster.into(), permissions };
            let _ = link.leaf.set(Box::new(end));
            let _ = link.scope.set(LinkScope::Dedicated(account.name().to_owned()));
        }
        account.announced.add_leaf(&self.conn);
        LeafAnnouncing::new(account, &self.conn, self.broker.unique_id())
    }

    /// Exchanges the permissions: messages obey them from now on.
    pub fn set_leaf_permissions(&mut self, permissions: LeafPermissions) {
        if let Some(leaf) = self.conn.link().and_then(|link| link.leaf()) {
            leaf.permissions.store(Arc::new(permissions));
            self.interest.outdate();
        }
    }

    /// The account of a link with a leaf node or a hub.
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.account.as_ref()
    }

    /// The other side has begun to be interested in something, or is so with another weight.
    ///
    /// # Errors
    /// When the link has to end for that.
    pub fn subscribe_leaf(&mut self, interest: &PeerInterest<'_>) -> Result<(), LeafFault> {
        let (conn, subject) = (Arc::clone(&self.conn), interest.subject);
        let (Some(account), Some(leaf)) = (self.account.clone(), conn.link().and_then(|link| link.leaf()))
        else {
            return Ok(());
        };
        if account.announced.is_own_loop(subject) {
            return Err(LeafFault::Loop);
        }
        let is_free = [LOOP_DETECTION, b"$GR.", b"_GR_."].iter().any(|prefix| subject.starts_with(prefix));
        if !is_free && myelin_subject::is_literal(subject) && !leaf.may_send(subject) {
            let line = format_args!("Permissions Violation for Subscription to {:?}", lossy(subject));
            self.broker.log_for(Level::Debug, &self.conn, line);
            return if leaf.role == LeafRole::Hub { Err(LeafFault::Denied) } else { Ok(()) };
        }
        if !myelin_subject::is_well_formed(subject) {
            let line = format_args!("Could not insert subscription: sublist: invalid subject");
            self.broker.log_for(Level::Error, &self.conn, line);
            self.say(b"-ERR 'Invalid Subscription'\r\n");
            return Ok(());
        }
        let interest = PeerInterest { leaf: Some(leaf.cluster.as_bytes()), ..*interest };
        self.interest.add(&self.conn, &account, &interest).map_err(LeafFault::TooMuch)
    }

    /// The other side is interested no more.
    pub fn unsubscribe_leaf(&mut self, interest: &PeerInterest<'_>) {
        let conn = Arc::clone(&self.conn);
        if let (Some(account), Some(leaf)) = (self.account.clone(), conn.link().and_then(|link| link.leaf()))
        {
            let interest = PeerInterest { leaf: Some(leaf.cluster.as_bytes()), ..*interest };
            self.interest.remove(&account, &interest);
        }
    }

    /// A message has come from the other side.
    ///
    /// # Errors
    /// When it may not send that. A hub's link ends then; what a hub sends is passed over.
    pub fn publish_leaf(
        &mut self,
        shard: &mut Shard,
        message: &Routed<'_>,
        backing: Option<&Bytes>,
        now: Instant,
    ) -> Result<(), LeafFault> {
        let (Some(account), Some(leaf)) =
            (self.account.as_ref(), self.conn.link().and_then(|link| link.leaf()))
        else {
            return Ok(());
        };
        if !leaf.permissions.load().may_take(message.subject) {
            return if leaf.role == LeafRole::Hub { Err(LeafFault::Denied) } else { Ok(()) };
        }
        shard.publish_leaf((&self.conn, leaf), account, (message, backing), &mut self.buffers, now);
        Ok(())
    }
}

impl Conn {
    /// The part that only links of leaf nodes and hubs have, once their handshake is over.
    #[inline]
    pub(crate) fn leaf(&self) -> Option<&LeafEnd> {
        self.link()?.leaf()
    }
}
