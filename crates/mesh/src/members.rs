//! Servers that take part in groups of replicas, and the links for the internal accounts by which
//! they talk to each other ([`groups`]).
//!
//! Whether another server takes part stands in its INFO. Only when such an INFO has come on a link
//! of the pool does the side that has dialled that link dial one more for each internal account,
//! and goes on to dial as long as there are links of the pool. A server that takes no part never
//! sees one. These links are beside the pool: it does not matter how large that is, and whether
//! there is one.
//!
//! A server dials only if it has no such link and is dialling none. So a new link of the same
//! dialler is there because the one before has ended for it, and takes its place, although this
//! server may not have heard of the end. Where both have dialled at once, both keep the link of the
//! server with the lesser id.
//!
//! Servers of other clusters are linked in the same way, through their gateways: INFO of a gateway
//! names those of its cluster that take part. Both sides dial, as each knows of the other.

use crate::config::{MeshConfig, RouteUrl};
use crate::gossip::DialPlace;
use crate::peers::{Dial, DialCause, Entered, LinkFacts, LinkState, Mesh, Refused};
use myelin_broker::{LinkScope, LinkedPeer, SaidPeer};
use myelin_stdx::sync::lock;
use myelin_wire::error::CloseReason;
use myelin_wire::peer::groups::{self, GroupAddress, INTERNAL_ACCOUNTS};
use myelin_wire::peer::info::{GossipMode, PeerInfo};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Servers of another cluster at most that are dialled: a peer can tell of as many as it likes.
const MOST_FOREIGN: usize = 1024;

/// Links for internal accounts, and the servers to which there are to be some.
#[derive(Default)]
pub(crate) struct MemberLinks {
    /// By account and the other server's id.
    links: BTreeMap<(String, String), MemberLink>,
    /// Servers that have said on a link of the pool that they take part, by id.
    members: BTreeSet<String>,
    /// Servers of other clusters that take part, with their addresses: by cluster and id.
    foreign: BTreeMap<String, BTreeMap<String, RouteUrl>>,
}

struct MemberLink {
    link: Arc<LinkState>,
    peer: LinkedPeer,
}

impl MemberLinks {
    /// All links that have a place.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<LinkState>> {
        self.links.values().map(|entry| &entry.link)
    }

    /// Takes a server for gone: there is no link of the pool to it any more.
    pub(crate) fn forget(&mut self, id: &str) {
        self.members.remove(id);
    }

    fn to(&self, id: &str) -> Vec<Arc<LinkState>> {
        let to = self.links.iter().filter(|((_, of), _)| of == id);
        to.map(|(_, entry)| Arc::clone(&entry.link)).collect()
    }

    /// Whether a link for an account is to be dialled to a server.
    fn lacks(&self, account: &str, id: &str) -> bool {
        let is_foreign = || self.foreign.values().any(|servers| servers.contains_key(id));
        (self.members.contains(id) || is_foreign())
            && !self.links.contains_key(&(account.to_owned(), id.to_owned()))
    }

    /// Whether a server of this cluster takes part.
    pub(crate) fn has_member(&self, id: &str) -> bool {
        self.members.contains(id)
    }
}

/// Whether the other server is one of ours, which says who has sent requests to JetStream, whether
/// it takes part in groups or not.
pub(crate) fn is_kin(info: &PeerInfo) -> bool {
    info.myelin.is_some() || info.go.starts_with("myelin ")
}

impl MeshConfig {
    /// Internal accounts of this server: none where it takes no part in groups.
    fn internal(&self) -> &'static [&'static str] {
        if self.info.myelin.is_some() { &INTERNAL_ACCOUNTS } else { &[] }
    }

    /// Whether links for this account are those of servers that take part in groups.
    pub(crate) fn is_internal(&self, account: Option<&str>) -> bool {
        account.is_some_and(|account| self.internal().contains(&account))
    }
}

impl Mesh {
    /// Servers to which there are links for an internal account now.
    pub fn linked_peers(&self, account: &str) -> Vec<LinkedPeer> {
        let state = self.state();
        let of_account = state.internal.links.iter().filter(|((of, _), _)| of == account);
        of_account.map(|(_, entry)| entry.peer.clone()).collect()
    }

    /// A route leads to this server itself.
    pub fn leads_to_self(&self, url: &RouteUrl) {
        self.host().route_is_own(url);
    }

    /// Whether a server is still to be dialled. Who dials it again and again asks each time.
    pub fn is_wanted(&self, dial: &Dial) -> bool {
        match (&dial.server, &dial.account) {
            (Some(id), Some(account)) => self.state().internal.lacks(account, id),
            // A reload has put it back into the pool.
            (None, Some(account)) if !self.state().dedicated.contains_key(account) => false,
            _ => !(dial.is_explicit && self.has_removed(&dial.url)),
        }
    }

    /// Enters a link for an internal account.
    pub(crate) fn enter_internal(
        &self,
        link: &Arc<LinkState>,
        info: &PeerInfo,
        account: &str,
    ) -> Result<Entered, Refused> {
        let Some(server) = &info.myelin else {
            link.update(|facts| facts.is_surplus = true);
            return Err(Refused::Protocol(format!(
                "Not possible to have a route for account {account:?} with a server that takes no part in groups"
            )));
        };
        let said = SaidPeer {
            account: account.to_owned(),
            name: info.name.clone(),
            cluster: link.foreign().cloned().unwrap_or_else(|| self.cluster().0),
            is_foreign: link.foreign().is_some(),
            id: info.id.clone(),
            store: server.store.clone(),
            incarnation: server.incarnation,
        };
        if self.is_double(&said) {
            link.update(|facts| facts.is_surplus = true);
            return Err(Refused::Protocol(format!("Remote server has a duplicate name: {:?}", said.name)));
        }
        let peer = LinkedPeer::new(link.conn(), said);
        // Until the server is told: what it hears is in the order of what happens.
        let _in_order = lock(&self.telling);
        let before = {
            let mut state = self.state();
            let links = &mut state.internal.links;
            let key = (account.to_owned(), info.id.clone());
            let other = links.get(&key).map(|entry| entry.link.facts());
            if let Some(other) = other
                && !self.takes_over(&link.facts(), &other, info)
            {
                drop(state);
                link.update(|facts| facts.is_surplus = true);
                return Err(Refused::Duplicate);
            }
            if state.is_stopping {
                return Err(Refused::Duplicate);
            }
            let entry = MemberLink { link: Arc::clone(link), peer: peer.clone() };
            state.internal.links.insert(key, entry)
        };
        before.iter().for_each(|before| end_for_good(&before.link, CloseReason::DuplicateRoute));
        self.host().peer_linked(&peer);
        Ok(Entered { scope: LinkScope::Internal(account.to_owned()), place: 0, next: Vec::new() })
    }

    /// Whether this server, or one of another cluster than the given one, has the same store: it is
    /// called after the server's name.
    fn is_double(&self, said: &SaidPeer) -> bool {
        let is_own = self.config().info.myelin.as_ref().is_some_and(|own| own.store == said.store);
        let is_other = |other: &SaidPeer| {
            other.store == said.store && other.cluster != said.cluster && other.id != said.id
        };
        is_own || self.state().internal.links.values().any(|entry| is_other(entry.peer.said()))
    }

    /// Whether a new link takes the place of another to the same server.
    fn takes_over(&self, new: &LinkFacts, other: &LinkFacts, info: &PeerInfo) -> bool {
        let is_own_preferred = self.config().info.id < info.id;
        new.did_solicit == other.did_solicit || new.did_solicit == is_own_preferred
    }

    /// Another server has said on a link of the pool whether it takes part. Answers with what is to
    /// be dialled when it has let this one in.
    pub(crate) fn hear_of_part(&self, link: &Arc<LinkState>, info: &PeerInfo) -> Vec<Dial> {
        let config = self.config();
        if config.internal().is_empty() {
            return Vec::new();
        }
        if info.myelin.is_none() {
            let ended = {
                let mut state = self.state();
                state.internal.forget(&info.id);
                state.internal.to(&info.id)
            };
            ended.iter().for_each(|link| end_for_good(link, CloseReason::RouteRemoved));
            return Vec::new();
        }
        self.state().internal.members.insert(info.id.clone());
        let facts = link.facts();
        let Some(url) = facts.url.filter(|_| facts.did_solicit) else { return Vec::new() };
        let dial = |account: &&'static str| {
            Some(Dial {
                url: url.clone(),
                is_explicit: facts.is_explicit,
                cause: DialCause::New,
                mode: GossipMode::Default,
                account: Some((*account).to_owned()),
                place: Some(self.begin_to_dial(account, &info.id)?),
                server: Some(info.id.clone()),
                cluster: None,
            })
        };
        config.internal().iter().filter_map(dial).collect()
    }

    /// A link for an internal account has ended, or has never had its place.
    pub(crate) fn leave_internal(&self, link: &Arc<LinkState>, account: &str) {
        let facts = link.facts();
        {
            let _in_order = lock(&self.telling);
            let key = (account.to_owned(), facts.remote_id.clone());
            let removed = {
                let mut state = self.state();
                let entry = state.internal.links.get(&key);
                let has_place = entry.is_some_and(|entry| Arc::ptr_eq(&entry.link, link));
                if has_place { state.internal.links.remove(&key) } else { None }
            };
            removed.iter().for_each(|removed| self.host().peer_unlinked(&removed.peer));
        }
        let (Some(id), Some(url)) = (link.sought(), facts.url) else { return };
        if facts.is_surplus || self.is_stopping() {
            return;
        }
        if let Some(place) = self.begin_to_dial(account, id) {
            self.host().dial(Dial {
                url,
                is_explicit: facts.is_explicit,
                cause: DialCause::Ended,
                mode: GossipMode::Default,
                account: Some(account.to_owned()),
                place: Some(place),
                server: Some(id.to_owned()),
                cluster: link.foreign().cloned(),
            });
        }
    }

    /// Another cluster has said which of its servers take part: those that are not linked are
    /// dialled, at their gateways, and nobody else goes on to be.
    pub(crate) fn hear_of_cluster(&self, cluster: &str, servers: &[GroupAddress]) {
        let config = self.config();
        if config.internal().is_empty() || self.is_stopping() {
            return;
        }
        let read = |server: &GroupAddress| {
            Some((server.id.clone(), RouteUrl::of_gossip(&server.url)?))
                .filter(|(id, _)| *id != config.info.id)
        };
        let known: BTreeMap<_, _> = servers.iter().take(MOST_FOREIGN).filter_map(read).collect();
        self.host().cluster_heard(cluster, !known.is_empty());
        self.state().internal.foreign.insert(cluster.to_owned(), known.clone());
        let accounts = config.internal().iter();
        for (account, (id, url)) in accounts.flat_map(|account| known.iter().map(move |to| (*account, to))) {
            if let Some(place) = self.begin_to_dial(account, id) {
                self.host().dial(Dial {
                    url: url.clone(),
                    is_explicit: false,
                    cause: DialCause::New,
                    mode: GossipMode::Default,
                    account: Some(account.to_owned()),
                    place: Some(place),
                    server: Some(id.clone()),
                    cluster: Some(cluster.to_owned()),
                });
            }
        }
    }

    /// There is no gateway to another cluster any more: links to its servers that end are not
    /// dialled again.
    pub(crate) fn forget_cluster(&self, cluster: &str) {
        self.state().internal.foreign.remove(cluster);
    }

    /// Ends links with servers of other clusters that have shown other keys than these.
    pub(crate) fn end_foreign_strangers(&self, pinned: &BTreeSet<String>) {
        let links: Vec<_> =
            self.state().internal.all().filter(|link| link.foreign().is_some()).cloned().collect();
        let is_stranger = |link: &&Arc<LinkState>| link.facts().key.is_none_or(|key| !pinned.contains(&key));
        links.iter().filter(is_stranger).for_each(|link| link.conn().close(CloseReason::TlsHandshake));
    }

    /// Takes the place of a dial, if one is due.
    fn begin_to_dial(&self, account: &str, id: &str) -> Option<Arc<DialPlace>> {
        // In this order: the dial before gives its place back when its link has been entered.
        let place = self.member_dials.begin(id, account)?;
        self.state().internal.lacks(account, id).then_some(place)
    }
}

/// Whether an account's links are of servers that take part in groups, wherever it is named.
pub(crate) fn is_name_of_internal(account: &str) -> bool {
    groups::INTERNAL_ACCOUNTS.contains(&account)
}

fn end_for_good(link: &Arc<LinkState>, reason: CloseReason) {
    link.update(|facts| facts.is_surplus = true);
    link.conn().close(reason);
}
