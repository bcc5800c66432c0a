//! A remote subscription: what clients of another server want.

use crate::conn::Conn;
use myelin_subject::Subscribed;
use myelin_wire::peer::parser::PeerInterest;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Memory of one remote subscription beside its texts, about.
const EACH: usize = 160;

/// A wish of another server's clients: one for all of them that want the same.
pub(crate) struct RemoteSub {
    conn: Arc<Conn>,
    /// Subject, queue, origin of leaf nodes.
    text: Box<[u8]>,
    subject_len: u32,
    queue_len: Option<u32>,
    is_leaf: bool,
    weight: AtomicU32,
    /// Where it stands in the link's table: the account may be gone when that grows.
    hash: u64,
}

impl RemoteSub {
    pub(super) fn new(conn: &Arc<Conn>, interest: &PeerInterest<'_>, hash: u64) -> Self {
        let parts = [interest.subject, interest.queue.unwrap_or_default(), interest.leaf.unwrap_or_default()];
        Self {
            conn: Arc::clone(conn),
            text: parts.concat().into_boxed_slice(),
            subject_len: interest.subject.len() as u32,
            queue_len: interest.queue.map(|queue| queue.len() as u32),
            is_leaf: interest.leaf.is_some(),
            weight: AtomicU32::new(interest.weight),
            hash,
        }
    }

    /// The link over which it came.
    pub(crate) fn conn(&self) -> &Arc<Conn> {
        &self.conn
    }

    /// Members of the queue group over there.
    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Relaxed)
    }

    /// Whether it is of leaf nodes.
    pub(crate) fn is_leaf(&self) -> bool {
        self.is_leaf
    }

    fn origin(&self) -> &[u8] {
        &self.text[self.subject_len as usize + self.queue_len.unwrap_or(0) as usize..]
    }

    /// Takes another weight; answers the one before.
    pub(super) fn set_weight(&self, weight: u32) -> u32 {
        self.weight.swap(weight, Relaxed)
    }

    /// Hash of it in the link's table.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Whether this is what `interest` says, in whatever account.
    pub(super) fn says(&self, interest: &PeerInterest<'_>) -> bool {
        Subscribed::subject(self) == interest.subject
            && Subscribed::queue(self) == interest.queue
            && self.is_leaf == interest.leaf.is_some()
            && self.origin() == interest.leaf.unwrap_or_default()
    }

    /// Memory that it takes, about.
    pub(super) fn cost(&self) -> usize {
        self.text.len() + EACH
    }
}

impl Subscribed for RemoteSub {
    fn subject(&self) -> &[u8] {
        &self.text[..self.subject_len as usize]
    }

    fn queue(&self) -> Option<&[u8]> {
        self.queue_len.map(|len| &self.text[self.subject_len as usize..][..len as usize])
    }
}
