//! Interest of an account as leaf nodes and hubs are told it, and that of leaf nodes for routes.
//!
//! Beside the counts of this server's own interest (`announcements.rs`) there are, where a server
//! has leaf nodes or hubs, the remote subscriptions of each subject, those of routes included. What
//! a link is told of a subject is the sum of all that its other side may hear of: of queue groups
//! their members, of the rest whether there is any. All is decided under the lock of the subject's
//! part, so that the last word on a link is the last state.
//!
//! Budget: one entry for each subject, however many links hear of it; a change looks at the links
//! of its account.

use super::announcements::{Announced, Counts, InterestPart};
use super::leaf::{LeafEnd, LeafRole};
use super::remote_interest::RemoteSub;
use crate::account::Account;
use crate::conn::{Conn, lock};
use hashbrown::HashMap;
use myelin_subject::Subscribed;
use myelin_wire::peer::NO_ORIGIN;
use myelin_wire::peer::leaf::{self, LOOP_DETECTION};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Interest in the subjects of a part that only leaf nodes and hubs hear of.
#[derive(Default)]
pub(super) struct LeafPart {
    /// Subjects that the account imports or maps: that is done here for leaf nodes, as for clients.
    only: Counts,
    /// Wishes of other servers, by subject and queue group.
    remote: HashMap<Box<[u8]>, SmallVec<[Arc<RemoteSub>; 1]>>,
}

/// A change of what other servers want.
#[derive(Clone, Copy)]
pub(crate) enum RemoteChange {
    Added,
    Removed,
    /// Another number of members.
    Weight(u32),
}

/// A subject and a queue group, as one key.
#[derive(Clone, Copy)]
pub(super) struct InterestKey<'a> {
    pub(super) subject: &'a [u8],
    pub(super) queue: Option<&'a [u8]>,
}

impl<'a> InterestKey<'a> {
    pub(super) fn of_key(key: &'a [u8]) -> Self {
        match key.iter().position(|byte| *byte == b' ') {
            Some(at) => Self { subject: &key[..at], queue: Some(&key[at + 1..]) },
            None => Self { subject: key, queue: None },
        }
    }

    pub(super) fn key(&self) -> Vec<u8> {
        [self.subject, if self.queue.is_some() { b" " } else { b"" }, self.queue.unwrap_or_default()].concat()
    }
}

/// Whether the other side of a link hears of what another server wants.
fn hears_of(conn: &Arc<Conn>, leaf: &LeafEnd, sub: &RemoteSub) -> bool {
    let of_leaf = sub.conn().leaf();
    let is_leaf = of_leaf.is_some() || sub.is_leaf();
    let origin = sub.origin();
    let is_other = origin.is_empty() || origin != leaf.cluster.as_bytes();
    if Arc::ptr_eq(conn, sub.conn()) || !is_other || (is_leaf && leaf.is_isolated) {
        return false;
    }
    match leaf.role {
        LeafRole::Hub => true,
        LeafRole::Spoke => {
            let is_own = of_leaf.is_some_and(|of| of.role == LeafRole::Hub);
            is_own || Subscribed::subject(sub).starts_with(LOOP_DETECTION)
        }
    }
}

/// Writes what a link is told when the sum that it hears of has changed.
fn tell(out: &mut Vec<u8>, wish: InterestKey<'_>, (before, now): (u32, u32)) {
    let is_news = if wish.queue.is_some() { before != now } else { (before == 0) != (now == 0) };
    if !is_news {
        return;
    }
    match now {
        0 => leaf::no_interest(out, wish.subject, wish.queue),
        _ => leaf::interest(out, wish.subject, wish.queue.map(|queue| (queue, now))),
    }
}

impl LeafPart {
    /// Sum of what a link hears of beside this server's own clients and services.
    fn others(&self, key: &[u8], conn: &Arc<Conn>, leaf: &LeafEnd) -> u32 {
        let remote = self.remote.get(key).into_iter().flatten();
        let weights = remote.filter(|sub| hears_of(conn, leaf, sub)).map(|sub| sub.weight());
        weights.fold(self.only.get(key).copied().unwrap_or(0), u32::saturating_add)
    }

    /// Members behind leaf nodes of one origin, as routes hear of them.
    fn of_origin(&self, key: &[u8], origin: &[u8]) -> u32 {
        let remote = self.remote.get(key).into_iter().flatten();
        let is_of = |sub: &&Arc<RemoteSub>| is_announced_to_routes(sub) && sub.origin() == origin;
        remote.filter(is_of).map(|sub| sub.weight()).fold(0, u32::saturating_add)
    }

    fn origins(&self, key: &[u8]) -> SmallVec<[&[u8]; 4]> {
        let mut origins = SmallVec::<[&[u8]; 4]>::new();
        for sub in self.remote.get(key).into_iter().flatten().filter(|sub| is_announced_to_routes(sub)) {
            if !origins.contains(&sub.origin()) {
                origins.push(sub.origin());
            }
        }
        origins
    }
}

fn is_announced_to_routes(sub: &Arc<RemoteSub>) -> bool {
    sub.conn().leaf().is_some_and(|leaf| leaf.role == LeafRole::Hub)
}

impl Announced {
    /// Whether anything is kept for leaf nodes and hubs.
    #[inline]
    fn has_leaf_nodes(&self) -> bool {
        self.cluster.has_leaf_nodes()
    }

    /// Whether the account has links with leaf nodes or hubs now.
    #[inline]
    pub(crate) fn has_leafs(&self) -> bool {
        !self.leafs.load().is_empty()
    }

    /// Links of the account with leaf nodes and hubs.
    pub(crate) fn leafs(&self) -> arc_swap::Guard<Arc<Vec<Arc<Conn>>>> {
        self.leafs.load()
    }

    pub(super) fn add_leaf(&self, conn: &Arc<Conn>) {
        self.change_leafs(|leafs| leafs.push(Arc::clone(conn)));
    }

    pub(super) fn remove_leaf(&self, conn: &Arc<Conn>) {
        self.change_leafs(|leafs| leafs.retain(|other| !Arc::ptr_eq(other, conn)));
    }

    fn change_leafs(&self, change: impl Fn(&mut Vec<Arc<Conn>>)) {
        self.leafs.rcu(|leafs| {
            let mut leafs = Vec::clone(leafs);
            change(&mut leafs);
            leafs
        });
    }

    /// The subject that finds circles; `id` makes one for an account that has none.
    fn loop_subject(&self, id: String) -> &[u8] {
        self.loop_subject.get_or_init(|| [LOOP_DETECTION, id.as_bytes()].concat().into_boxed_slice())
    }

    /// Whether it is this.
    pub(super) fn is_own_loop(&self, subject: &[u8]) -> bool {
        self.loop_subject.get().is_some_and(|own| **own == *subject)
    }

    /// Counts one more subject that the account imports or maps, or one less.
    pub(crate) fn only_leafs_changed(&self, subject: &[u8], is_new: bool) {
        if !self.has_leaf_nodes() {
            return;
        }
        let wish = InterestKey { subject, queue: None };
        let key = wish.key();
        let mut part = lock(self.part(&key));
        let before: SmallVec<[u32; 4]> = self.leafs().iter().map(|conn| sum(&part, &key, conn)).collect();
        let only = &mut part.leaf.get_or_insert_default().only;
        let count = only.get(&key[..]).copied().unwrap_or(0);
        let count = if is_new { count + 1 } else { count.saturating_sub(1) };
        match count {
            0 => drop(only.remove(&key[..])),
            _ => drop(only.insert(key.clone().into_boxed_slice(), count)),
        }
        self.tell_leafs(&part, &key, &before);
    }

    /// Tells leaf nodes and hubs of a change of this server's own interest, under the part's lock.
    pub(super) fn tell_leafs_of_own(&self, part: &InterestPart, key: &[u8], (before, now): (u32, u32)) {
        for conn in self.leafs().iter() {
            let Some(leaf) = conn.leaf() else { continue };
            let others = part.leaf.as_ref().map_or(0, |part| part.others(key, conn, leaf));
            say(conn, leaf, key, (others.saturating_add(before), others.saturating_add(now)));
        }
    }

    fn tell_leafs(&self, part: &InterestPart, key: &[u8], before: &[u32]) {
        for (conn, before) in self.leafs().iter().zip(before) {
            if let Some(leaf) = conn.leaf() {
                say(conn, leaf, key, (*before, sum(part, key, conn)));
            }
        }
    }

    /// Another server wants something from now on, or no more, or with other members.
    pub(crate) fn remote_changed(&self, account: &Account, sub: &Arc<RemoteSub>, change: RemoteChange) {
        if !self.has_leaf_nodes() {
            if let RemoteChange::Weight(weight) = change {
                sub.set_weight(weight);
            }
            return;
        }
        let wish = InterestKey { subject: Subscribed::subject(&**sub), queue: Subscribed::queue(&**sub) };
        let key = wish.key();
        let mut part = lock(self.part(&key));
        // A link that comes or goes meanwhile must not be told what another was.
        let leafs = self.leafs.load_full();
        let before: SmallVec<[u32; 4]> = leafs.iter().map(|conn| sum(&part, &key, conn)).collect();
        let is_routed = is_announced_to_routes(sub);
        let leaf_part = part.leaf.get_or_insert_default();
        let routed = leaf_part.of_origin(&key, sub.origin());
        match change {
            RemoteChange::Added => {
                leaf_part.remote.entry(key.clone().into_boxed_slice()).or_default().push(Arc::clone(sub));
            }
            RemoteChange::Removed => {
                if let Some(subs) = leaf_part.remote.get_mut(&key[..]) {
                    subs.retain(|other| !Arc::ptr_eq(other, sub));
                    if subs.is_empty() {
                        leaf_part.remote.remove(&key[..]);
                    }
                }
            }
            RemoteChange::Weight(weight) => sub.set_weight(weight),
        }
        let routed = (routed, leaf_part.of_origin(&key, sub.origin()));
        for (conn, before) in leafs.iter().zip(&before) {
            if let Some(leaf) = conn.leaf() {
                say(conn, leaf, &key, (*before, sum(&part, &key, conn)));
            }
        }
        if is_routed {
            self.tell_routes(account, wish, sub.origin(), routed);
        }
    }

    /// Tells routes what the leaf nodes of one cluster want.
    fn tell_routes(&self, account: &Account, wish: InterestKey<'_>, origin: &[u8], counts: (u32, u32)) {
        for conn in self.cluster.links().iter() {
            Self::tell(account, conn, |link, out| {
                if link.may_announce(wish.subject) {
                    tell_route(out, (origin, link.named(account)), wish, counts);
                }
            });
        }
    }

    /// Writes what a new route has to hear of leaf nodes, for a key of a part.
    pub(super) fn write_for_route(
        part: &InterestPart,
        key: &[u8],
        named: Option<&[u8]>,
        is_wanted: bool,
        out: &mut Vec<u8>,
    ) {
        let Some(part) = &part.leaf else { return };
        for origin in part.origins(key) {
            let count = part.of_origin(key, origin);
            let counts = if is_wanted { (0, count) } else { (count, 0) };
            tell_route(out, (origin, named), InterestKey::of_key(key), counts);
        }
    }

    /// Subjects that only leaf nodes have.
    pub(super) fn leaf_keys(part: &InterestPart) -> impl Iterator<Item = &[u8]> {
        part.leaf.iter().flat_map(|part| part.remote.keys().map(|key| &**key))
    }

    /// Subjects for which a new link takes so many lines at most.
    fn leaf_len(&self) -> usize {
        let len =
            |part: &InterestPart| part.leaf.as_ref().map_or(0, |leaf| leaf.remote.len() + leaf.only.len());
        self.parts().map(|part| lock(part)).map(|part| part.local.len() + len(&part)).sum()
    }
}

fn tell_route(
    out: &mut Vec<u8>,
    (origin, named): (&[u8], Option<&[u8]>),
    wish: InterestKey<'_>,
    (before, now): (u32, u32),
) {
    let is_news = if wish.queue.is_some() { before != now } else { (before == 0) != (now == 0) };
    let origin = if origin.is_empty() { NO_ORIGIN.as_bytes() } else { origin };
    match now {
        _ if !is_news => {}
        0 => leaf::no_routed_interest(out, (origin, named), wish.subject, wish.queue),
        _ => {
            let queue = wish.queue.map(|queue| (queue, now));
            leaf::routed_interest(out, (origin, named), wish.subject, queue);
        }
    }
}

/// Sum of all that a link hears of a subject.
fn sum(part: &InterestPart, key: &[u8], conn: &Arc<Conn>) -> u32 {
    let Some(leaf) = conn.leaf() else { return 0 };
    let own = part.local.get(key).copied().unwrap_or(0);
    own.saturating_add(part.leaf.as_ref().map_or(0, |part| part.others(key, conn, leaf)))
}

fn say(conn: &Arc<Conn>, leaf: &LeafEnd, key: &[u8], counts: (u32, u32)) {
    let wish = InterestKey::of_key(key);
    if counts.0 != counts.1 && leaf.may_tell(wish.subject) {
        let mut line = Vec::with_capacity(64);
        tell(&mut line, wish, counts);
        if !line.is_empty() {
            conn.say(&line);
        }
    }
}

/// The interest that a new link with a leaf node or a hub has to be told.
pub struct LeafAnnouncing {
    account: Arc<Account>,
    conn: Arc<Conn>,
}

impl LeafAnnouncing {
    /// Count of subjects that can be announced on a shard without its clients noticing.
    const SMALL: usize = 10_000;

    /// `id`: of the account's own subject that finds circles, unless it has one.
    pub(super) fn new(account: &Arc<Account>, conn: &Arc<Conn>, id: String) -> Self {
        account.announced.loop_subject(id);
        Self { account: Arc::clone(account), conn: Arc::clone(conn) }
    }

    /// Whether it takes long to tell it.
    pub fn is_long(&self) -> bool {
        self.account.announced.leaf_len() > Self::SMALL
    }

    /// Tells it.
    pub fn run(self) {
        let (announced, conn) = (&self.account.announced, &self.conn);
        let Some(leaf) = conn.leaf() else { return };
        let mut lines = Vec::new();
        if let Some(own) = announced.loop_subject.get() {
            leaf::interest(&mut lines, own, None);
            conn.say(&lines);
        }
        for part in announced.parts() {
            let part = lock(part);
            lines.clear();
            let of_leafs = part.leaf.iter().flat_map(|leaf| leaf.only.keys().chain(leaf.remote.keys()));
            for key in part.local.keys().chain(of_leafs.filter(|key| !part.local.contains_key(&key[..]))) {
                let wish = InterestKey::of_key(key);
                if leaf.may_tell(wish.subject) {
                    tell(&mut lines, wish, (0, sum(&part, key, conn)));
                }
            }
            if !lines.is_empty() && conn.close_requested().is_none() {
                conn.say(&lines);
            }
        }
    }
}

impl RemoteSub {
    fn set_weight(&self, weight: u32) {
        self.weight.store(weight, Relaxed);
    }
}
