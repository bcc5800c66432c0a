//! Mapped replies of an account: requests that have come from other clusters, whose answers go
//! straight back to the server that has asked.
//!
//! A requester sees its own reply and a responder, too; between clusters both travel as one
//! subject. The mapping is remembered for two seconds, and holds for those who have got the request
//! and for services: what others publish on the same subject is no answer to it.
//!
//! Budget: an account that has none pays one load per publish. While there are some, a publish on a
//! subject that begins otherwise than each of them pays a hash and two loads more, and no lock.

use crate::conn::Conn;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use myelin_stdx::sync::lock;
use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

/// How long a mapping is remembered, and how long a subscription is young. Compat: both alike.
const KEPT: Duration = Duration::from_secs(2);
/// Mappings that are remembered at most; the oldest goes.
const MOST: usize = 64 * 1024;
/// Receivers of a request at most that are told apart: of more, whoever answers counts as one.
pub(crate) const MOST_RECEIVERS: usize = 64;
/// Bytes that the mappings of an account may take; the oldest goes.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// Bytes that a mapping takes beside its subjects and receivers, about.
const FIXED_BYTES: usize = 256;
/// Bytes of a reply at most that is remembered, for one not to crowd out many. Answers to longer
/// ones go as interest says.
const LONGEST: usize = 4 * 1024;
/// Bytes by which the beginnings of replies are told apart: the inboxes of two clients differ in
/// them, those of one often do not.
const BEGINNING: usize = 16;
/// Counts of mappings, by the hash of how their replies begin: 4 KiB in an account that had one.
const PLACES: usize = 1024;

/// Mapped replies of an account.
#[derive(Default)]
pub(crate) struct GatewayReplies {
    /// Mappings that are there.
    count: AtomicUsize,
    /// End of the time in which a subscription is young, in milliseconds since the epoch of the
    /// gateways; 0 for never.
    young_until: AtomicU64,
    beginnings: Beginnings,
    table: Mutex<MappingTable>,
}

/// Counts of the table's ends by how their replies begin, changed under its lock and read without:
/// what others publish meanwhile does not wait for it.
#[derive(Default)]
struct Beginnings(OnceLock<Box<[AtomicU32]>>);

#[derive(Default)]
struct MappingTable {
    mapped: HashMap<Box<[u8]>, Mapping>,
    /// In the order of their ends; some have been renewed.
    ends: VecDeque<MappingEnd>,
    /// Sum over `ends`.
    bytes: usize,
}

struct MappingEnd {
    until: Instant,
    reply: Box<[u8]>,
    /// Bytes of the mapping and of this.
    bytes: usize,
}

struct Mapping {
    whole: Box<[u8]>,
    until: Instant,
    /// Connections that have got the request; `None` where they are not known.
    receivers: Option<Box<[u64]>>,
    hub: Option<Weak<Conn>>,
}

/// A request that has come from another cluster, whose answers go back there.
pub(crate) struct MappedRequest<'a> {
    /// Subject of answers between clusters.
    pub(crate) whole: &'a [u8],
    /// Connections of clients that get it; `None` where they are not known.
    pub(crate) receivers: Option<Box<[u64]>>,
    /// The link with a leaf node or a hub over which it has come, if it has.
    pub(crate) hub: Option<&'a Arc<Conn>>,
}

/// Where an answer goes: its subject between clusters, and the link with a leaf node or a hub, if
/// it goes over one.
pub(crate) type AnswerPlace = (Box<[u8]>, Option<Weak<Conn>>);

impl Mapping {
    /// Whether answers go to the same place.
    fn is_alike(&self, other: &Self) -> bool {
        let is_same_hub = match (&self.hub, &other.hub) {
            (Some(hub), Some(other)) => Weak::ptr_eq(hub, other),
            (hub, other) => hub.is_none() && other.is_none(),
        };
        is_same_hub && self.whole == other.whole
    }

    /// Receivers of both; `None` where they are not known, or are many.
    fn receivers_with(&self, other: &Self) -> Option<Box<[u64]>> {
        let (mine, theirs) = (self.receivers.as_deref()?, other.receivers.as_deref()?);
        let mut all = mine.to_vec();
        all.extend(theirs.iter().filter(|cid| !mine.contains(cid)));
        (all.len() <= MOST_RECEIVERS).then(|| all.into())
    }

    /// Whether the connection may answer; `None` is a service.
    fn is_for(&self, responder: Option<u64>) -> bool {
        responder.is_none_or(|cid| self.receivers.as_ref().is_none_or(|known| known.contains(&cid)))
    }
}

impl Beginnings {
    #[inline]
    fn place(reply: &[u8]) -> usize {
        let beginning = &reply[..reply.len().min(BEGINNING)];
        FixedState::default().hash_one(beginning) as usize % PLACES
    }

    #[inline]
    fn may_have(&self, subject: &[u8]) -> bool {
        self.0.get().is_some_and(|counts| counts[Self::place(subject)].load(Relaxed) > 0)
    }

    fn comes(&self, reply: &[u8]) {
        let counts = self.0.get_or_init(|| (0..PLACES).map(|_| AtomicU32::new(0)).collect());
        counts[Self::place(reply)].fetch_add(1, Relaxed);
    }

    fn goes(&self, reply: &[u8]) {
        if let Some(counts) = self.0.get() {
            counts[Self::place(reply)].fetch_sub(1, Relaxed);
        }
    }
}

impl GatewayReplies {
    /// Whether anything is mapped.
    #[inline(always)]
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Whether a message on this subject may be an answer to what is mapped. False is certain: a
    /// mapping is counted before the request is delivered, and until it has been forgotten.
    #[inline]
    pub(crate) fn may_have(&self, subject: &[u8]) -> bool {
        self.is_any() && self.beginnings.may_have(subject)
    }

    /// Whether this reply is mapped. One that is over counts until it has been forgotten.
    pub(crate) fn has(&self, reply: &[u8]) -> bool {
        self.may_have(reply) && lock(&self.table).mapped.contains_key(reply)
    }

    /// A subscription was made, `since` the epoch.
    pub(crate) fn subscribed(&self, since: Duration) {
        self.young_until.fetch_max((since + KEPT).as_millis() as u64, Relaxed);
    }

    /// Whether a subscription of the account may be young, `since` the epoch.
    pub(crate) fn may_be_young(&self, since: Duration) -> bool {
        (since.as_millis() as u64) < self.young_until.load(Relaxed)
    }

    /// Remembers where answers to `reply` are to go. Several requests may have the same: who got
    /// one of them may answer. Answers whether nothing was mapped before.
    pub(crate) fn remember(&self, reply: &[u8], request: MappedRequest<'_>, now: Instant) -> bool {
        if reply.len() > LONGEST || request.whole.len() > LONGEST {
            return false;
        }
        let mut table = lock(&self.table);
        table.forget(now, &self.beginnings);
        let until = now + KEPT;
        let MappedRequest { whole, receivers, hub } = request;
        let mut mapping = Mapping { whole: whole.into(), until, receivers, hub: hub.map(Arc::downgrade) };
        let before = table.mapped.get(reply).filter(|before| now < before.until);
        if let Some(before) = before.filter(|before| before.is_alike(&mapping)) {
            mapping.receivers = before.receivers_with(&mapping);
        }
        let receivers = mapping.receivers.as_ref().map_or(0, |receivers| size_of_val(&**receivers));
        let bytes = FIXED_BYTES + 2 * reply.len() + mapping.whole.len() + receivers;
        table.mapped.insert(reply.into(), mapping);
        self.beginnings.comes(reply);
        table.ends.push_back(MappingEnd { until, reply: reply.into(), bytes });
        table.bytes += bytes;
        self.count.swap(table.mapped.len(), Relaxed) == 0
    }

    /// Forgets what is over, also where nobody asks any more; answers whether anything is left.
    pub(crate) fn forget(&self, now: Instant) -> bool {
        let mut table = lock(&self.table);
        table.forget(now, &self.beginnings);
        self.count.store(table.mapped.len(), Relaxed);
        !table.mapped.is_empty()
    }

    /// Where an answer to `reply` is to go that this connection gives, or a service.
    pub(crate) fn find(&self, reply: &[u8], responder: Option<u64>, now: Instant) -> Option<AnswerPlace> {
        let mut table = lock(&self.table);
        let found = table.mapped.get(reply).filter(|mapping| now < mapping.until);
        let Some(mapping) = found else {
            table.forget(now, &self.beginnings);
            self.count.store(table.mapped.len(), Relaxed);
            return None;
        };
        mapping.is_for(responder).then(|| (mapping.whole.clone(), mapping.hub.clone()))
    }
}

impl MappingTable {
    /// Forgets what is over, and the oldest where there is too much.
    fn forget(&mut self, now: Instant, beginnings: &Beginnings) {
        while let Some(end) = self.ends.front()
            && (end.until <= now || self.ends.len() >= MOST || self.bytes > MOST_BYTES)
        {
            let Some(end) = self.ends.pop_front() else { break };
            self.bytes -= end.bytes;
            beginnings.goes(&end.reply);
            if self.mapped.get(&end.reply).is_some_and(|mapping| mapping.until <= end.until) {
                self.mapped.remove(&end.reply);
            }
        }
        if self.ends.is_empty() {
            // A burst is not kept room for.
            (self.mapped, self.ends) = Default::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<'a>(whole: &'a [u8], receivers: Option<&[u64]>) -> MappedRequest<'a> {
        MappedRequest { whole, receivers: receivers.map(Into::into), hub: None }
    }

    fn found(replies: &GatewayReplies, reply: &[u8], responder: Option<u64>, now: Instant) -> String {
        let found = replies.find(reply, responder, now);
        found.map_or_else(String::new, |(whole, _)| String::from_utf8(whole.into()).unwrap())
    }

    #[test]
    fn a_mapping_holds_for_two_seconds() {
        let (replies, now) = (GatewayReplies::default(), Instant::now());
        assert!(!replies.is_any());
        replies.remember(b"r", request(b"_GR_.a.r", None), now);
        replies.remember(b"r", request(b"_GR_.b.r", None), now + Duration::from_secs(1));
        assert_eq!(found(&replies, b"r", Some(1), now + Duration::from_millis(2900)), "_GR_.b.r");
        assert_eq!(found(&replies, b"x", Some(1), now), "");
        assert_eq!(found(&replies, b"r", Some(1), now + Duration::from_secs(3)), "");
        assert!(!replies.is_any(), "what is over is forgotten");
    }

    #[test]
    fn a_mapping_is_for_those_who_were_asked() {
        let (replies, now) = (GatewayReplies::default(), Instant::now());
        replies.remember(b"r", request(b"_GR_.a.r", Some(&[7, 8])), now);
        let said = [Some(8), None, Some(9)].map(|responder| found(&replies, b"r", responder, now));
        assert_eq!(said, ["_GR_.a.r", "_GR_.a.r", ""]);
        assert!(replies.is_any(), "it is still there for the others");
    }

    #[test]
    fn who_got_one_of_several_requests_with_one_reply_may_answer() {
        let (replies, now) = (GatewayReplies::default(), Instant::now());
        replies.remember(b"r", request(b"_GR_.a.r", Some(&[7])), now);
        replies.remember(b"r", request(b"_GR_.a.r", Some(&[8])), now);
        let said = |responder| found(&replies, b"r", Some(responder), now);
        assert_eq!([7, 8, 9].map(said), ["_GR_.a.r", "_GR_.a.r", ""]);
        // Another place.
        replies.remember(b"r", request(b"_GR_.b.r", Some(&[9])), now);
        assert_eq!([7, 8, 9].map(said), ["", "", "_GR_.b.r"]);
        // Whoever answers, once it is not known of all.
        replies.remember(b"r", request(b"_GR_.b.r", None), now);
        assert_eq!(said(7), "_GR_.b.r");
    }

    /// Holds the lock while it is asked what may be an answer.
    #[test]
    fn what_begins_otherwise_is_known_without_the_lock() {
        let (replies, now) = (GatewayReplies::default(), Instant::now());
        let counted = || {
            let counts = replies.beginnings.0.get().unwrap();
            counts.iter().map(|count| count.load(Relaxed)).sum::<u32>()
        };
        assert!(!replies.may_have(b"_INBOX.a.1"));
        for reply in ["_INBOX.one.1", "_INBOX.one.2", "r", "r"] {
            replies.remember(reply.as_bytes(), request(b"_GR_.a.r", None), now);
        }
        let held = lock(&replies.table);
        assert!(["_INBOX.one.1", "_INBOX.one.2", "r"].iter().all(|reply| replies.may_have(reply.as_bytes())));
        let others = (0..1000).filter(|at| replies.may_have(format!("orders.{at}").as_bytes()));
        assert!(others.count() < 20, "few have the place of one of three");
        drop(held);
        assert_eq!(counted(), 4);
        assert!(!replies.forget(now + KEPT) && !replies.may_have(b"r"));
        assert_eq!(counted(), 0, "each that was counted has gone");
    }

    #[test]
    fn a_long_reply_is_not_remembered() {
        let (replies, now) = (GatewayReplies::default(), Instant::now());
        replies.remember(&[b'r'; LONGEST + 1], request(b"_GR_.a.r", None), now);
        assert!(!replies.is_any());
    }

    #[test]
    fn a_peer_cannot_have_everything_remembered() {
        let (replies, now) = (GatewayReplies::default(), Instant::now());
        for at in 0..MOST + 10 {
            replies.remember(at.to_string().as_bytes(), request(b"x", None), now);
        }
        assert!(lock(&replies.table).mapped.len() <= MOST);
        assert_eq!(found(&replies, b"1", None, now), "");
    }

    #[test]
    fn long_replies_take_no_more_than_the_bound() {
        let (replies, now) = (GatewayReplies::default(), Instant::now());
        let reply = |at: usize| format!("{at:0>LONGEST$}");
        let most = MOST_BYTES / (3 * LONGEST);
        for at in 0..2 * most {
            replies.remember(reply(at).as_bytes(), request(&[b'x'; LONGEST], None), now);
        }
        let held = |table: &MappingTable| {
            let mapped = table.mapped.iter().map(|(reply, mapping)| reply.len() + mapping.whole.len());
            mapped.sum::<usize>() + table.ends.iter().map(|end| end.reply.len()).sum::<usize>()
        };
        assert!((MOST_BYTES / 2..=MOST_BYTES).contains(&held(&lock(&replies.table))));
        assert_eq!(found(&replies, reply(0).as_bytes(), None, now), "", "the oldest has gone");
        assert_ne!(found(&replies, reply(2 * most - 1).as_bytes(), None, now), "");
        assert!(!replies.forget(now + KEPT) && !replies.is_any(), "without another request, too");
        let table = lock(&replies.table);
        assert_eq!((held(&table), table.bytes, table.ends.capacity()), (0, 0, 0));
    }
}
