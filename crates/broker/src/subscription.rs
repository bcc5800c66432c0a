//! A subscription: a client's wish to receive what matches a subject pattern.
//!
//! One that reaches streams of other accounts has a *shadow* in the index of each: the same
//! connection, queue group and sid under the pattern by which the other account knows it. What is
//! counted is counted at the original.
//!
//! Perf: a million of them must fit into memory, so subject, queue and sid share one allocation.

use crate::conn::Conn;
use crate::imports::ImportedStream;
use crate::link::counted::CountMark;
use myelin_subject::Subscribed;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// One SUB of one connection.
pub struct Subscription {
    conn: Arc<Conn>,
    /// Subject, then queue name, then sid.
    text: Box<[u8]>,
    subject_len: u32,
    queue_len: u32,
    has_queue: bool,
    /// See [`leaves_stored`](Self::leaves_stored).
    leaves_stored: AtomicBool,
    counted: CountMark,
    delivered: AtomicU64,
    /// Deliveries after which it ends; 0 is never.
    max: AtomicU32,
    /// Subscription whose shadow this is, if it is one.
    shadowed: Option<Box<Shadowed>>,
}

/// Original of a shadow.
struct Shadowed {
    of: Arc<Subscription>,
    stream: Arc<ImportedStream>,
}

impl Subscription {
    pub(crate) fn new(conn: Arc<Conn>, subject: &[u8], queue: Option<&[u8]>, sid: &[u8]) -> Self {
        let parts = [subject, queue.unwrap_or_default(), sid];
        debug_assert!(!subject.is_empty() && !sid.is_empty(), "a subscription has a subject and a name");
        debug_assert!(
            parts.iter().all(|part| u32::try_from(part.len()).is_ok()),
            "a control line is shorter than 4 GiB"
        );
        Self {
            conn,
            text: parts.concat().into_boxed_slice(),
            subject_len: subject.len() as u32,
            queue_len: parts[1].len() as u32,
            has_queue: queue.is_some(),
            leaves_stored: AtomicBool::new(false),
            counted: CountMark::default(),
            delivered: AtomicU64::new(0),
            max: AtomicU32::new(0),
            shadowed: None,
        }
    }

    /// The shadow of `of` in the account from which `stream` is imported: there it is called
    /// `subject`.
    pub(crate) fn shadow(of: &Arc<Self>, stream: &Arc<ImportedStream>, subject: &[u8]) -> Self {
        debug_assert!(of.shadowed.is_none(), "a shadow is that of a client's own subscription");
        let shadowed = Shadowed { of: Arc::clone(of), stream: Arc::clone(stream) };
        Self {
            shadowed: Some(Box::new(shadowed)),
            ..Self::new(Arc::clone(&of.conn), subject, of.queue(), of.sid())
        }
    }

    /// The import by which it listens to another account, if it is a shadow.
    pub(crate) fn import(&self) -> Option<&Arc<ImportedStream>> {
        self.shadowed.as_ref().map(|shadowed| &shadowed.stream)
    }

    /// The client's own subscription, if it is a shadow, and the import by which it listens.
    pub(crate) fn shadowed(&self) -> Option<(&Arc<Self>, &ImportedStream)> {
        self.shadowed.as_ref().map(|shadowed| (&shadowed.of, &*shadowed.stream))
    }

    /// The client's own subscription: itself unless it is a shadow.
    #[inline]
    pub(crate) fn original(&self) -> &Self {
        match &self.shadowed {
            None => self,
            Some(shadowed) => &shadowed.of,
        }
    }

    /// The connection that it delivers to.
    pub fn conn(&self) -> &Arc<Conn> {
        &self.conn
    }

    /// The pattern.
    pub fn subject(&self) -> &[u8] {
        &self.text[..self.subject_len as usize]
    }

    /// The queue group, if any.
    pub fn queue(&self) -> Option<&[u8]> {
        self.has_queue.then(|| &self.text[self.subject_len as usize..][..self.queue_len as usize])
    }

    /// Whether other servers hear of it.
    pub(crate) fn counted(&self) -> &CountMark {
        &self.counted
    }

    /// The client's name for it.
    pub fn sid(&self) -> &[u8] {
        &self.text[(self.subject_len + self.queue_len) as usize..]
    }

    /// Whether what MQTT clients publish with QoS 1 and 2 is not for it: the client gets it from
    /// where it is stored.
    pub(crate) fn leaves_stored(&self) -> bool {
        self.original().leaves_stored.load(Relaxed)
    }

    /// Routes that know it must be [built anew](crate::account::Account::touch) after that.
    pub(crate) fn set_leaves_stored(&self, leaves: bool) {
        self.leaves_stored.store(leaves, Relaxed);
    }

    /// Messages delivered so far, as of the last flush of each shard.
    pub fn delivered(&self) -> u64 {
        (self.original().delivered.load(Relaxed) as i64).max(0) as u64
    }

    /// Deliveries after which it ends; 0 is never.
    pub fn max(&self) -> u64 {
        u64::from(self.original().max.load(Relaxed))
    }

    pub(crate) fn count(&self, messages: u64) {
        self.original().delivered.fetch_add(messages, Relaxed);
    }

    /// Takes back one message that was counted for all targets of a route but not delivered here.
    /// The count may be below zero until the route is settled.
    pub(crate) fn uncount(&self) {
        self.original().delivered.fetch_sub(1, Relaxed);
    }

    pub(crate) fn set_max(&self, max: u32) {
        debug_assert!(self.shadowed.is_none(), "limits are those of the client's own subscription");
        self.max.store(max, Relaxed);
    }

    /// Counts one delivery against `max`.
    pub(crate) fn admit(&self) -> Admission {
        let n = self.original().delivered.fetch_add(1, Relaxed).wrapping_add(1);
        match self.max() {
            0 => Admission::Deliver,
            max if n < max => Admission::Deliver,
            max if n == max => Admission::DeliverLast,
            _ => Admission::Exhausted,
        }
    }
}

/// Whether a subscription with a limit takes one more message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Deliver,
    /// Delivery of this message, and then the end of the subscription.
    DeliverLast,
    /// The subscription has ended already.
    Exhausted,
}

impl Subscribed for Subscription {
    fn subject(&self) -> &[u8] {
        Self::subject(self)
    }

    fn queue(&self) -> Option<&[u8]> {
        Self::queue(self)
    }
}
