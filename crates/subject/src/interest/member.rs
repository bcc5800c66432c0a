//! Members of the index, as far as it needs to know them.

use std::sync::Arc;

/// A handle to a subscription: cheap to clone, in practice an [`Arc`].
///
/// `subject`, `queue` and `id` must not change while the member is in an index: the index keeps no
/// copy of them.
pub trait Member: Clone {
    /// The pattern subscribed to.
    fn subject(&self) -> &[u8];

    /// The queue group, if it is a queue subscription.
    fn queue(&self) -> Option<&[u8]>;

    /// A number by which this member is found among many on one subject, equal for members that are
    /// the same and seldom for others: for instance the address of what an [`Arc`] points to.
    fn id(&self) -> u64;

    /// Whether both are handles to one subscription.
    fn same(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

/// Description of a member by which [`Interest::find`](super::Interest::find) finds it.
pub trait Sought<M> {
    /// Its pattern.
    fn subject(&self) -> &[u8];

    /// Its queue group, if it is a queue subscription.
    fn queue(&self) -> Option<&[u8]>;

    /// Its [number](Member::id).
    fn id(&self) -> u64;

    /// Whether `m` is it, its pattern and its group included.
    fn is(&self, m: &M) -> bool;
}

/// Content of a member, for the usual case that members are [`Arc`]s of it: [`Arc<S>`] is then a
/// [`Member`] whose identity is its address.
pub trait Subscribed {
    /// The pattern subscribed to. Must not change.
    fn subject(&self) -> &[u8];

    /// The queue group, if it is a queue subscription. Must not change.
    fn queue(&self) -> Option<&[u8]>;

    /// Number by which it is found among many on one subject: its address, where that serves. Must
    /// not change.
    fn id(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }
}

impl<S: Subscribed> Member for Arc<S> {
    fn subject(&self) -> &[u8] {
        S::subject(self)
    }

    fn queue(&self) -> Option<&[u8]> {
        S::queue(self)
    }

    fn id(&self) -> u64 {
        S::id(self)
    }

    fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other)
    }
}
