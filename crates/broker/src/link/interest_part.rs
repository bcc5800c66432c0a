//! One part of an account's interest: that in the subjects of one lock.
//!
//! What this server's own clients and services want is counted. Where there are leaf nodes or hubs,
//! a part also has what other servers want, whichever kind of link has told of it: of each subject
//! a leaf node or a hub is told the sum of what its side may hear of. For a queue group that is the
//! number of its members, for all others only whether there is anybody.
//!
//! Budget: one entry for each subject, however many links hear of it.

use super::leaf_end::{LeafEnd, LeafRole};
use super::remote_groups::RemoteGroups;
use super::remote_sub::RemoteSub;
use crate::conn::Conn;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use myelin_subject::Subscribed;
use myelin_wire::peer::NO_ORIGIN;
use myelin_wire::peer::leaf::{self, LOOP_DETECTION};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::hash::BuildHasher;
use std::sync::Arc;

/// By `subject`, or `subject queue`: subjects have no blanks.
pub(super) type Counts = HashMap<Box<[u8]>, u32, FixedState>;

/// One part of an account's interest.
pub(super) struct InterestPart {
    /// Clients and services of this server.
    pub(super) local: Counts,
    /// Where there are leaf nodes or hubs.
    pub(super) leaf: Option<Box<LeafPart>>,
}

/// Interest in the subjects of one part that only leaf nodes and hubs hear of.
pub(super) struct LeafPart {
    /// Subjects that the account imports or maps: that is done here for leaf nodes, as for clients.
    pub(super) only: Counts,
    /// Remote subscriptions, by subject and queue group.
    pub(super) remote: RemoteGroups,
}

impl InterestPart {
    /// A part without interest.
    pub(super) fn new(hashing: &FixedState) -> Self {
        Self { local: Counts::with_hasher(hashing.clone()), leaf: None }
    }

    /// Interest that only leaf nodes and hubs hear of, from now on.
    pub(super) fn leaf_mut(&mut self) -> &mut LeafPart {
        let hashing = self.local.hasher();
        self.leaf.get_or_insert_with(|| {
            let only = Counts::with_hasher(hashing.clone());
            Box::new(LeafPart { only, remote: RemoteGroups::default() })
        })
    }
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
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct InterestKey<'a> {
    pub(super) subject: &'a [u8],
    pub(super) queue: Option<&'a [u8]>,
}

impl<'a> InterestKey<'a> {
    pub(super) fn of_sub(sub: &'a RemoteSub) -> Self {
        Self { subject: Subscribed::subject(sub), queue: Subscribed::queue(sub) }
    }

    pub(super) fn of_key(key: &'a [u8]) -> Self {
        match key.iter().position(|byte| *byte == b' ') {
            Some(at) => Self { subject: &key[..at], queue: Some(&key[at + 1..]) },
            None => Self { subject: key, queue: None },
        }
    }

    pub(super) fn key(&self) -> Cow<'a, [u8]> {
        match self.queue {
            Some(queue) => Cow::Owned([self.subject, b" ", queue].concat()),
            None => Cow::Borrowed(self.subject),
        }
    }
}

/// Whether the other side of a link hears of what another server wants.
pub(super) fn hears_of(conn: &Arc<Conn>, leaf: &LeafEnd, sub: &RemoteSub) -> bool {
    if Arc::ptr_eq(conn, sub.conn()) {
        return false;
    }
    let of_leaf = sub.conn().leaf();
    let is_leaf = of_leaf.is_some() || sub.is_leaf();
    let origin = sub.origin();
    let is_other = origin.is_empty() || origin != leaf.cluster.as_bytes();
    if !is_other || (is_leaf && leaf.is_isolated) {
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
pub(super) fn tell(out: &mut Vec<u8>, wish: InterestKey<'_>, (before, now): (u32, u32)) {
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
    /// Makes a change of what another server wants. Who is there already is not added again.
    /// `hash`: that of its [key](InterestKey::key).
    pub(super) fn change(&mut self, hash: u64, sub: &Arc<RemoteSub>, change: RemoteChange) {
        match change {
            RemoteChange::Added => self.remote.add(hash, sub),
            RemoteChange::Removed => self.remote.remove(hash, sub),
            RemoteChange::Weight(weight) => drop(sub.set_weight(weight)),
        }
    }

    /// Subjects and queue groups that only leaf nodes and hubs hear of. Some come twice.
    #[expect(clippy::disallowed_methods, reason = "the seed of the hash comes from outside")]
    pub(super) fn keys(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        let only = self.only.keys().map(|key| Cow::Borrowed(&**key));
        only.chain(self.remote.keys())
    }

    /// Remote subscriptions with this key.
    pub(super) fn remote(&self, key: &[u8]) -> &[Arc<RemoteSub>] {
        if self.remote.is_empty() {
            return &[];
        }
        self.remote.get(self.only.hasher().hash_one(key), InterestKey::of_key(key))
    }

    /// Sum of what a link hears of beside this server's own clients and services; of a plain
    /// subject one at most.
    ///
    /// Perf: where a thousand leaf nodes want one subject, a change asks this of each of them.
    pub(super) fn others(&self, key: &[u8], conn: &Arc<Conn>, leaf: &LeafEnd) -> u32 {
        let mut weights =
            self.remote(key).iter().filter(|sub| hears_of(conn, leaf, sub)).map(|sub| sub.weight());
        let only = self.only.get(key).copied().unwrap_or(0);
        if InterestKey::of_key(key).queue.is_none() {
            return u32::from(only > 0 || weights.any(|weight| weight > 0));
        }
        weights.fold(only, u32::saturating_add)
    }

    /// Members behind leaf nodes of one origin, as routes hear of them.
    pub(super) fn of_origin(&self, key: &[u8], origin: &[u8]) -> u32 {
        let is_of = |sub: &&Arc<RemoteSub>| is_announced_to_routes(sub) && sub.origin() == origin;
        self.remote(key).iter().filter(is_of).map(|sub| sub.weight()).fold(0, u32::saturating_add)
    }

    fn origins(&self, key: &[u8]) -> SmallVec<[&[u8]; 4]> {
        let mut origins = SmallVec::<[&[u8]; 4]>::new();
        for sub in self.remote(key).iter().filter(|sub| is_announced_to_routes(sub)) {
            if !origins.contains(&sub.origin()) {
                origins.push(sub.origin());
            }
        }
        origins
    }
}

/// Whether routes hear of it with its origin.
pub(super) fn is_announced_to_routes(sub: &Arc<RemoteSub>) -> bool {
    sub.conn().leaf().is_some_and(|leaf| leaf.role == LeafRole::Hub)
}

/// Whether other clusters hear of it: not what comes from a third one, or from a hub.
pub(super) fn counts_for_gateways(sub: &Arc<RemoteSub>) -> bool {
    let is_of_hub = || sub.conn().leaf().is_some_and(|leaf| leaf.role == LeafRole::Spoke);
    sub.conn().gateway().is_none() && !is_of_hub()
}

/// Writes that so many of the leaf nodes of one cluster want it now.
pub(super) fn tell_route(
    out: &mut Vec<u8>,
    (origin, named): (&[u8], Option<&[u8]>),
    InterestKey { subject, queue }: InterestKey<'_>,
    count: u32,
) {
    let origin = if origin.is_empty() { NO_ORIGIN.as_bytes() } else { origin };
    match count {
        0 => leaf::no_routed_interest(out, (origin, named), subject, queue),
        _ => leaf::routed_interest(out, (origin, named), subject, queue.map(|queue| (queue, count))),
    }
}

/// Sum of all that a link hears of a subject.
pub(super) fn sum(part: &InterestPart, key: &[u8], conn: &Arc<Conn>) -> u32 {
    let Some(leaf) = conn.leaf() else { return 0 };
    let own = part.local.get(key).copied().unwrap_or(0);
    own.saturating_add(part.leaf.as_ref().map_or(0, |part| part.others(key, conn, leaf)))
}

/// Subjects of answers to requests of other clusters, as they travel between servers.
pub(super) const MAPPED_ANSWERS: &[u8] = b"_GR_.>";

/// Tells a link of a change of the sum that it hears of.
pub(super) fn say(conn: &Arc<Conn>, leaf: &LeafEnd, key: &[u8], counts: (u32, u32)) {
    let wish = InterestKey::of_key(key);
    if counts.0 != counts.1 && leaf.may_tell(wish.subject) {
        say_anyway(conn, wish, counts);
    }
}

/// Tells a link of such a change, whether or not the subject may cross it.
pub(super) fn say_anyway(conn: &Arc<Conn>, wish: InterestKey<'_>, counts: (u32, u32)) {
    let is_hub = || conn.leaf().is_some_and(|leaf| leaf.role == LeafRole::Hub);
    if counts.1 == 0 && wish.subject == MAPPED_ANSWERS && is_hub() {
        // Answers for other clusters are wanted whatever clients want.
        return;
    }
    let mut line = Vec::with_capacity(64);
    tell(&mut line, wish, counts);
    if !line.is_empty() {
        conn.say(&line);
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
        let count = if is_wanted { part.of_origin(key, origin) } else { 0 };
        tell_route(out, (origin, named), InterestKey::of_key(key), count);
    }
}

/// Subjects that only leaf nodes have.
pub(super) fn leaf_keys(part: &InterestPart) -> impl Iterator<Item = Cow<'_, [u8]>> {
    part.leaf.iter().flat_map(|part| part.remote.keys())
}
