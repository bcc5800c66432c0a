//! Changes of an account's interest as its leaf nodes and hubs hear of them, and routes of what
//! leaf nodes want.
//!
//! All is decided under the lock of the subject's part (`interest_part.rs`), so that the last word
//! on a link is the last state.
//!
//! Budget: a change looks at the links of its account.

use super::announced::Announced;
use super::gateway_announcements::others;
use super::interest_part::{
    InterestKey, InterestPart, LeafPart, RemoteChange, counts_for_gateways, hears_of, is_announced_to_routes,
    say, say_anyway, sum,
};
use super::remote_sub::RemoteSub;
use crate::account::Account;
use crate::closed::PastTraffic;
use crate::cluster::InterestChange;
use crate::conn::Conn;
use myelin_stdx::sync::lock;
use myelin_wire::peer::leaf::LOOP_DETECTION;
use smallvec::SmallVec;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Whether anybody of this cluster, or a leaf node of it, wants what a key says.
fn is_wanted_in_cluster(part: &InterestPart, key: &[u8]) -> bool {
    part.local.contains_key(key) || others(part, key)
}

impl Account {
    /// Has leaf nodes and hubs told that `subject` is wanted here, until [`Account::withdraw`]:
    /// services whose reach is [`Reach::Offered`](crate::Reach::Offered) receive what comes of it.
    pub fn offer(&self, subject: &[u8]) {
        self.announced.offer(subject);
    }

    /// Ends what [`Account::offer`] began.
    pub fn withdraw(&self, subject: &[u8]) {
        self.announced.withdraw(subject);
    }
}

impl Announced {
    /// Whether anything is kept for leaf nodes and hubs.
    #[inline]
    pub(crate) fn has_leaf_nodes(&self) -> bool {
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
        let mut past = lock(&self.past_leafs);
        past.join(&PastTraffic::of(conn));
        self.change_leafs(|leafs| leafs.retain(|other| !Arc::ptr_eq(other, conn)));
    }

    /// Traffic of the account's links with leaf nodes and hubs, those that have ended included.
    pub(crate) fn leaf_traffic(&self) -> PastTraffic {
        let past = lock(&self.past_leafs);
        let mut sum = *past;
        self.leafs().iter().for_each(|conn| sum.join(&PastTraffic::of(conn)));
        sum
    }

    fn change_leafs(&self, change: impl Fn(&mut Vec<Arc<Conn>>)) {
        self.leafs.rcu(|leafs| {
            let mut leafs = Vec::clone(leafs);
            change(&mut leafs);
            leafs
        });
    }

    /// The subject that finds circles; `id` makes one for an account that has none.
    pub(super) fn loop_subject(&self, id: String) -> &[u8] {
        self.loop_subject.get_or_init(|| [LOOP_DETECTION, id.as_bytes()].concat().into_boxed_slice())
    }

    /// Whether a subject is the one by which this account finds circles.
    pub(super) fn is_own_loop(&self, subject: &[u8]) -> bool {
        self.loop_subject.get().is_some_and(|own| **own == *subject)
    }

    /// Has leaf nodes and hubs told of a subject.
    pub(crate) fn offer(&self, subject: &[u8]) {
        lock(&self.offers).push(subject.into());
        self.only_leafs_changed(subject, true);
    }

    /// Has them told no more.
    pub(crate) fn withdraw(&self, subject: &[u8]) {
        let mut offers = lock(&self.offers);
        if let Some(at) = offers.iter().position(|offer| **offer == *subject) {
            offers.swap_remove(at);
            drop(offers);
            self.only_leafs_changed(subject, false);
        }
    }

    /// Counts what was offered before there was anything about leaf nodes.
    pub(crate) fn count_offers(&self) {
        lock(&self.offers).iter().for_each(|subject| self.only_leafs_changed(subject, true));
    }

    /// Counts one more subject that the account imports, maps or offers, or one less.
    pub(crate) fn only_leafs_changed(&self, subject: &[u8], is_new: bool) {
        if !self.has_leaf_nodes() {
            return;
        }
        let wish = InterestKey { subject, queue: None };
        let key = wish.key();
        let mut part = lock(self.part(&key));
        // A link that comes or goes meanwhile must not be told what another was.
        let leafs = self.leafs.load_full();
        let before: SmallVec<[u32; 4]> = leafs.iter().map(|conn| sum(&part, &key, conn)).collect();
        let only = &mut part.leaf_mut().only;
        let count = only.get(&key[..]).copied().unwrap_or(0);
        let count = if is_new { count + 1 } else { count.saturating_sub(1) };
        match count {
            0 => drop(only.remove(&key[..])),
            _ => drop(only.insert(key[..].into(), count)),
        }
        for (conn, before) in leafs.iter().zip(before) {
            if conn.leaf().is_some_and(|leaf| leaf.may_tell_import(subject)) {
                say_anyway(conn, wish, (before, sum(&part, &key, conn)));
            }
        }
    }

    /// Tells leaf nodes and hubs of a change of this server's own interest, under the part's lock.
    pub(super) fn tell_leafs_of_own(&self, part: &InterestPart, key: &[u8], (before, now): (u32, u32)) {
        // Perf: of a plain subject only the first and the last are told, and with a thousand leaf
        // nodes it takes long to add up what others want.
        let is_plain = InterestKey::of_key(key).queue.is_none();
        if !self.has_leaf_nodes() || (is_plain && (before > 0) == (now > 0)) {
            return;
        }
        for conn in self.leafs().iter() {
            let Some(leaf) = conn.leaf() else { continue };
            let others = part.leaf.as_ref().map_or(0, |part| part.others(key, conn, leaf));
            say(conn, leaf, key, (others.saturating_add(before), others.saturating_add(now)));
        }
    }

    /// Another server wants something from now on, or no more, or with other members.
    #[inline]
    pub(crate) fn remote_changed(&self, account: &str, sub: &Arc<RemoteSub>, change: RemoteChange) {
        let is_for_gateways = || self.has_gateways() && counts_for_gateways(sub);
        if self.has_leaf_nodes() || is_for_gateways() {
            self.tell_of_remote(account, sub, change);
        } else if let RemoteChange::Weight(weight) = change {
            let _ = sub.set_weight(weight);
        }
    }

    /// Tells leaf nodes, hubs and routes of a change of what another server wants.
    #[inline(never)]
    fn tell_of_remote(&self, account: &str, sub: &Arc<RemoteSub>, change: RemoteChange) {
        let wish = InterestKey::of_sub(sub);
        let key = wish.key();
        let hash = self.cluster.hashing().hash_one(&key[..]);
        let mut part = lock(self.part_of_hash(hash));
        // A link that comes or goes meanwhile must not be told what another was.
        let leafs = self.leafs.load();
        // Perf: of a thousand isolated leaf nodes none is told, and nothing is added up for any.
        let hears = |conn: &&Arc<Conn>| conn.leaf().is_some_and(|leaf| hears_of(conn, leaf, sub));
        let told: SmallVec<[(&Arc<Conn>, u32); 4]> =
            leafs.iter().filter(hears).map(|conn| (conn, sum(&part, &key, conn))).collect();
        // Perf: nor is anything added up for routes where there are none.
        let is_routed = self.cluster.is_formed() && is_announced_to_routes(sub);
        let leaf_part = part.leaf_mut();
        let of_origin = |part: &LeafPart| if is_routed { part.of_origin(&key, sub.origin()) } else { 0 };
        let routed = of_origin(leaf_part);
        let is_for_gateways = self.has_gateways() && counts_for_gateways(sub);
        let of_cluster = is_for_gateways && is_wanted_in_cluster(&part, &key);
        part.leaf_mut().change(hash, sub, change);
        let routed = (routed, part.leaf.as_deref().map_or(0, of_origin));
        if is_for_gateways && of_cluster != is_wanted_in_cluster(&part, &key) {
            self.tell_gateways(account, &key, !of_cluster);
        }
        for (conn, before) in told {
            if let Some(leaf) = conn.leaf() {
                say(conn, leaf, &key, (before, sum(&part, &key, conn)));
            }
        }
        if is_routed {
            self.tell_routes(account, wish, sub.origin(), routed);
        }
    }

    /// Counts what another server wants since before anything was kept for leaf nodes. `is_there`:
    /// whether it still does.
    pub(crate) fn count_remote(&self, sub: &Arc<RemoteSub>, is_there: impl Fn() -> bool) {
        let hash = self.cluster.hashing().hash_one(&InterestKey::of_sub(sub).key()[..]);
        let mut part = lock(self.part_of_hash(hash));
        // Whoever takes it out of the index comes here afterwards.
        if is_there() {
            part.leaf_mut().change(hash, sub, RemoteChange::Added);
        }
    }

    /// Tells routes what the leaf nodes of one cluster want.
    fn tell_routes(
        &self,
        account: &str,
        InterestKey { subject, queue }: InterestKey<'_>,
        origin: &[u8],
        (before, count): (u32, u32),
    ) {
        if before != count && (queue.is_some() || before == 0 || count == 0) {
            let (place, origin) = (self.place(account), Some(origin));
            self.cluster.announce(&InterestChange { account, place, subject, queue, count, origin });
        }
    }

    /// Subjects for which a new link takes so many lines at most.
    pub(super) fn leaf_len(&self) -> usize {
        let len =
            |part: &InterestPart| part.leaf.as_ref().map_or(0, |leaf| leaf.remote.len() + leaf.only.len());
        self.parts().map(|part| lock(part)).map(|part| part.local.len() + len(&part)).sum()
    }
}
