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

use super::end::LinkScope;
use super::leaf_announcements::LeafAnnouncing;
use super::leaf_end::{LeafDialler, LeafEnd, LeafPermissions, LeafRole, LeafTerms};
use super::{Link, lossy};
use crate::account::Account;
use crate::log::Level;
use crate::shard::Shard;
use arc_swap::ArcSwap;
use bytes::Bytes;
use myelin_wire::error::CloseReason;
use myelin_wire::peer::gateway::MappedReply;
use myelin_wire::peer::leaf::LOOP_DETECTION;
use myelin_wire::peer::parser::{PeerInterest, Routed};
use std::sync::Arc;
use std::time::Instant;

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

/// Terms for what the other side wants to hear, looked up once for all that has come at once.
pub(super) struct InterestTerms {
    permissions: Arc<LeafPermissions>,
    max_subscriptions: Option<usize>,
}

impl Link {
    /// The handshake with a leaf node or a hub is over. What wants to be announced is returned.
    pub fn begin_leaf(&mut self, account: &Arc<Account>, terms: LeafTerms, headers: bool) -> LeafAnnouncing {
        let LeafTerms { role, is_isolated, cluster, permissions } = terms;
        self.account = Some(Arc::clone(account));
        self.conn.set_headers(headers);
        self.conn.update_details(|details| details.account = Arc::clone(account.shared_name()));
        if let Some(link) = self.conn.link() {
            let is_accepted = permissions.dialler == LeafDialler::There;
            let permissions = ArcSwap::from_pointee(permissions);
            let end = LeafEnd { role, is_accepted, is_isolated, cluster: cluster.into(), permissions };
            let _ = link.leaf.set(Box::new(end));
            let _ = link.scope.set(LinkScope::Dedicated(account.name().to_owned()));
        }
        account.announced.add_leaf(&self.conn);
        if role == LeafRole::Hub {
            self.broker.client_events().iter().for_each(|events| events.leaf_node_joined(account));
        }
        LeafAnnouncing::new(account, &self.conn, self.broker.unique_id())
    }

    /// Exchanges the permissions: messages obey them from now on.
    pub fn set_leaf_permissions(&mut self, permissions: LeafPermissions) {
        if let Some(leaf) = self.conn.link().and_then(|link| link.leaf()) {
            leaf.permissions.store(Arc::new(permissions));
            self.told_under = None;
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
        let subject = interest.subject;
        let (Some(account), Some(leaf)) = (&self.account, self.conn.leaf()) else { return Ok(()) };
        let terms = self.told_under.get_or_insert_with(|| InterestTerms {
            permissions: leaf.permissions.load_full(),
            max_subscriptions: self.login_limits.max_subscriptions(&self.broker, account),
        });
        if account.announced.is_own_loop(subject) {
            return Err(LeafFault::Loop);
        }
        let is_free = [LOOP_DETECTION, b"$GR.", b"_GR_."].iter().any(|prefix| subject.starts_with(prefix));
        if !is_free && !terms.permissions.may_be_asked(subject) && myelin_subject::is_literal(subject) {
            let subject = lossy(subject);
            let line = format_args!("Permissions Violation for Subscription to {subject:?}");
            let kind = "Permissions Violation for Subscription";
            self.broker.complain(Level::Debug, &self.conn, kind, line);
            return if leaf.role == LeafRole::Hub { Err(LeafFault::Denied) } else { Ok(()) };
        }
        if !myelin_subject::is_well_formed(subject) {
            let line = format_args!("Could not insert subscription: sublist: invalid subject");
            self.broker.complain(Level::Error, &self.conn, "Could not insert subscription", line);
            self.complain_to_peer(b"-ERR 'Invalid Subscription'\r\n");
            return Ok(());
        }
        if terms.max_subscriptions.is_some_and(|most| self.interest.len() >= most) {
            // Compat: the link stays, without this.
            let what = "maximum subscriptions exceeded";
            self.broker.complain(Level::Error, &self.conn, what, format_args!("{what}"));
            self.complain_to_peer(b"-ERR 'maximum subscriptions exceeded'\r\n");
            return Ok(());
        }
        let interest = PeerInterest { leaf: Some(leaf.cluster.as_bytes()), ..*interest };
        self.young.subscribed(account);
        self.interest.add(account, &interest).map_err(LeafFault::TooMuch)
    }

    /// The other side is interested no more.
    pub fn unsubscribe_leaf(&mut self, interest: &PeerInterest<'_>) {
        if let (Some(account), Some(leaf)) = (&self.account, self.conn.leaf()) {
            let interest = PeerInterest { leaf: Some(leaf.cluster.as_bytes()), ..*interest };
            self.interest.remove(account, &interest);
        }
    }

    /// A message has come from the other side.
    ///
    /// # Errors
    /// When a leaf node may not send that, which ends its link. What a hub may not send is passed
    /// over, and the link stays.
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
        // Whoever may answer may do so under the subject that another cluster has for the answer.
        let subject = MappedReply::of(message.subject).map_or(message.subject, |mapped| mapped.reply);
        if !leaf.permissions.load().may_take(subject) {
            return if leaf.role == LeafRole::Hub { Err(LeafFault::Denied) } else { Ok(()) };
        }
        self.young.note(now);
        shard.publish_leaf((&self.conn, leaf), account, (message, backing), &mut self.buffers, now);
        Ok(())
    }
}
