//! A remote subscription: interest of clients of another server in a subject.
//!
//! It knows the account in whose index it is only as something that may be gone: so accounts can be
//! made of these.

use crate::conn::Conn;
use foldhash::fast::RandomState;
use myelin_subject::{Sought, Subscribed};
use myelin_wire::peer::parser::PeerInterest;
use std::any::Any;
use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Memory of one remote subscription, or of an account that has one, beside its texts, about.
pub(super) const EACH: usize = 160;

/// Source of interest: clients, or leaf nodes, of one account on the other side of a link.
pub(super) struct InterestSource {
    pub(super) conn: Arc<Conn>,
    pub(super) account: Weak<dyn Any + Send + Sync>,
    pub(super) is_leaf: bool,
    pub(super) hasher: RandomState,
}

impl InterestSource {
    /// The account, unless it is gone.
    pub(super) fn account<A: Any + Send + Sync>(&self) -> Option<Arc<A>> {
        self.account.upgrade()?.downcast().ok()
    }

    /// Whether the account is this one.
    pub(super) fn is_of<A>(&self, account: &Arc<A>) -> bool {
        std::ptr::addr_eq(self.account.as_ptr(), Arc::as_ptr(account))
    }
}

/// Texts of a subscription, one behind the other; most are so short that they need no memory of
/// their own.
enum Texts {
    Short(u8, [u8; 22]),
    Long(Box<[u8]>),
}

impl Texts {
    fn of(parts: [&[u8]; 3]) -> Self {
        let len = parts.iter().map(|part| part.len()).sum();
        let mut short = [0; 22];
        let Some(room) = short.get_mut(..len) else { return Self::Long(parts.concat().into_boxed_slice()) };
        let (subject, rest) = room.split_at_mut(parts[0].len());
        subject.copy_from_slice(parts[0]);
        let (queue, origin) = rest.split_at_mut(parts[1].len());
        queue.copy_from_slice(parts[1]);
        origin.copy_from_slice(parts[2]);
        Self::Short(len as u8, short)
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(len, bytes) => &bytes[..usize::from(*len)],
            Self::Long(bytes) => bytes,
        }
    }
}

/// Interest of another server's clients in a subject: one for all of them that want the same.
pub(crate) struct RemoteSub {
    source: Arc<InterestSource>,
    /// Subject, queue, origin of leaf nodes.
    texts: Texts,
    subject_len: u32,
    /// One more than the length of the queue group's name.
    queue_len: Option<NonZeroU32>,
    weight: AtomicU32,
    /// Where it stands in the list of its link, which alone looks at it.
    place: AtomicU32,
}

impl RemoteSub {
    #[inline]
    pub(super) fn new(source: Arc<InterestSource>, interest: &PeerInterest<'_>, place: u32) -> Self {
        let parts = [interest.subject, interest.queue.unwrap_or_default(), interest.leaf.unwrap_or_default()];
        Self {
            source,
            texts: Texts::of(parts),
            subject_len: interest.subject.len() as u32,
            queue_len: interest.queue.and_then(|queue| NonZeroU32::new(queue.len() as u32 + 1)),
            weight: AtomicU32::new(interest.weight),
            place: AtomicU32::new(place),
        }
    }

    /// The link over which it came.
    pub(crate) fn conn(&self) -> &Arc<Conn> {
        &self.source.conn
    }

    /// The account and the link's side of it.
    pub(super) fn source(&self) -> &Arc<InterestSource> {
        &self.source
    }

    /// Where it stands in the list of its link.
    pub(super) fn place(&self) -> u32 {
        self.place.load(Relaxed)
    }

    /// Takes another place in the list of its link.
    pub(super) fn move_to(&self, place: u32) {
        self.place.store(place, Relaxed);
    }

    /// Takes another weight; answers the one before.
    pub(super) fn set_weight(&self, weight: u32) -> u32 {
        self.weight.swap(weight, Relaxed)
    }

    /// Members of the queue group over there.
    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Relaxed)
    }

    /// Whether it is of leaf nodes.
    pub(crate) fn is_leaf(&self) -> bool {
        self.source.is_leaf
    }

    /// The account in whose index it is, unless that is gone.
    pub(super) fn account<A: Any + Send + Sync>(&self) -> Option<Arc<A>> {
        self.source.account()
    }

    fn queue_at(&self) -> std::ops::Range<usize> {
        let begin = self.subject_len as usize;
        begin..begin + self.queue_len.map_or(0, |len| len.get() as usize - 1)
    }

    /// Cluster of the leaf nodes; empty where there is none, or that was not said.
    pub(super) fn origin(&self) -> &[u8] {
        &self.texts.bytes()[self.queue_at().end..]
    }

    /// Memory that one takes which is told like this, about.
    pub(super) fn cost_of(interest: &PeerInterest<'_>) -> usize {
        let parts = [Some(interest.subject), interest.queue, interest.leaf];
        parts.into_iter().flatten().map(<[u8]>::len).sum::<usize>() + EACH
    }

    /// Memory that it takes, about.
    pub(super) fn cost(&self) -> usize {
        self.texts.bytes().len() + EACH
    }
}

impl Subscribed for RemoteSub {
    fn subject(&self) -> &[u8] {
        &self.texts.bytes()[..self.subject_len as usize]
    }

    fn queue(&self) -> Option<&[u8]> {
        self.queue_len.map(|_| &self.texts.bytes()[self.queue_at()])
    }

    fn id(&self) -> u64 {
        id(&self.source.hasher, &self.source.conn, self.is_leaf().then(|| self.origin()))
    }
}

/// Number by which one of many that want the same is found: the same link says it of several
/// origins.
fn id(hasher: &RandomState, conn: &Arc<Conn>, leaf: Option<&[u8]>) -> u64 {
    hasher.hash_one((conn.cid(), leaf))
}

/// Interest of one link that may be known already.
pub(super) struct SoughtInterest<'a> {
    pub(super) conn: &'a Arc<Conn>,
    pub(super) hasher: &'a RandomState,
    pub(super) interest: &'a PeerInterest<'a>,
}

impl Sought<Arc<RemoteSub>> for SoughtInterest<'_> {
    fn subject(&self) -> &[u8] {
        self.interest.subject
    }

    fn queue(&self) -> Option<&[u8]> {
        self.interest.queue
    }

    fn id(&self) -> u64 {
        id(self.hasher, self.conn, self.interest.leaf)
    }

    fn is(&self, sub: &Arc<RemoteSub>) -> bool {
        Arc::ptr_eq(sub.conn(), self.conn)
            && Subscribed::subject(&**sub) == self.interest.subject
            && Subscribed::queue(&**sub) == self.interest.queue
            && sub.is_leaf() == self.interest.leaf.is_some()
            && sub.origin() == self.interest.leaf.unwrap_or_default()
    }
}

/// Interest that is sought itself.
pub(crate) struct SoughtSub<'a>(pub(crate) &'a Arc<RemoteSub>);

impl Sought<Arc<RemoteSub>> for SoughtSub<'_> {
    fn subject(&self) -> &[u8] {
        Subscribed::subject(&**self.0)
    }

    fn queue(&self) -> Option<&[u8]> {
        Subscribed::queue(&**self.0)
    }

    fn id(&self) -> u64 {
        Subscribed::id(&**self.0)
    }

    fn is(&self, sub: &Arc<RemoteSub>) -> bool {
        Arc::ptr_eq(self.0, sub)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_what_they_were_in_place_or_not() {
        for lens in [[0, 0, 0], [22, 0, 0], [10, 5, 7], [23, 0, 0], [10, 5, 8], [300, 20, 10]] {
            let [subject, queue, origin] =
                [(b'a', lens[0]), (b'b', lens[1]), (b'c', lens[2])].map(|(byte, len)| vec![byte; len]);
            let texts = Texts::of([&subject, &queue, &origin]);
            assert_eq!(texts.bytes(), [subject, queue, origin].concat());
            assert_eq!(matches!(texts, Texts::Short(..)), lens.iter().sum::<usize>() <= 22);
        }
    }

    /// Memory of a million is what a server which joins takes first.
    #[test]
    fn a_subscription_is_small() {
        assert!(size_of::<RemoteSub>() <= 48, "{}", size_of::<RemoteSub>());
    }
}
