//! State of the shares of a session: plain data.

use crate::service::Binding;
use myelin_mqtt::packet::Qos;
use myelin_mqtt::records::SubscriptionRecord;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Shares by their hashes.
#[derive(Default)]
pub(in crate::session::mqtt) struct Shares {
    pub(in crate::session::mqtt) joined: BTreeMap<String, JoinedShare>,
    /// Number of the last pull.
    pub(in crate::session::mqtt) last_pull: u64,
    /// Messages of shares that are stored for the session alone. Boxed: few sessions have any.
    own: Option<Box<OwnMessages>>,
}

/// Messages of shares that are stored for one session.
#[derive(Default)]
struct OwnMessages {
    /// Count of those that are being stored.
    assigning: usize,
    /// Sequences of stored ones, which are awaited from the session's consumer until then.
    coming: BTreeMap<u64, Instant>,
    /// Sequence of the last one that has come from there.
    last: u64,
}

impl Shares {
    /// A message is being stored for the session alone.
    pub(in crate::session::mqtt) fn begin_assignment(&mut self) {
        self.own.get_or_insert_default().assigning += 1;
    }

    pub(in crate::session::mqtt) fn end_assignment(&mut self) {
        if let Some(own) = &mut self.own {
            own.assigning = own.assigning.saturating_sub(1);
        }
    }

    /// Awaits a message that is stored for the session alone, unless it has come.
    pub(in crate::session::mqtt) fn await_own(&mut self, sequence: u64, until: Instant) {
        let own = self.own.get_or_insert_default();
        if sequence > own.last {
            own.coming.insert(sequence, until);
        }
    }

    /// A message that is the session's alone has come: in their order, but for those that come
    /// again.
    pub(in crate::session::mqtt) fn own_came(&mut self, sequence: u64) {
        let own = self.own.get_or_insert_default();
        own.last = own.last.max(sequence);
        own.coming.retain(|awaited, _| *awaited > sequence);
    }

    /// Messages that are being stored for the session alone, or are to come to it.
    pub(in crate::session::mqtt) fn count_own(&self) -> usize {
        self.own.as_ref().map_or(0, |own| own.assigning + own.coming.len())
    }

    /// Times until which they are awaited.
    pub(in crate::session::mqtt) fn awaited_until(&self) -> impl Iterator<Item = Instant> + '_ {
        self.own.iter().flat_map(|own| own.coming.values().copied())
    }

    /// Awaits nothing any more whose time is over.
    pub(in crate::session::mqtt) fn give_up_own(&mut self, now: Instant) {
        if let Some(own) = &mut self.own {
            own.coming.retain(|_, until| now < *until);
        }
    }
}

/// A share whose messages come.
pub(in crate::session::mqtt) struct JoinedShare {
    /// Pattern of its filter.
    pub(in crate::session::mqtt) pattern: String,
    pub(in crate::session::mqtt) qos: Qos,
    pub(in crate::session::mqtt) options: SubscriptionRecord,
    /// Where pulled messages come, in front of the number of the pull.
    pub(in crate::session::mqtt) inbox: String,
    pub(in crate::session::mqtt) binding: Arc<Binding>,
    pub(in crate::session::mqtt) pull: Option<SharePull>,
    /// When its consumer was last asked for something.
    pub(in crate::session::mqtt) asked: Instant,
}

/// A request for messages of a share.
#[derive(Clone, Copy)]
pub(in crate::session::mqtt) struct SharePull {
    pub(in crate::session::mqtt) number: u64,
    /// Messages that it may still bring.
    pub(in crate::session::mqtt) left: u64,
    pub(in crate::session::mqtt) stage: PullStage,
    /// When the stage is over.
    pub(in crate::session::mqtt) until: Instant,
}

/// Stage of a request, in order; behind the last one there is another request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session::mqtt) enum PullStage {
    /// Waiting for messages.
    Waits,
    /// Ended by the consumer, which may be gone.
    Refused,
    /// The consumer is being made, if it is not there.
    Mended,
}

/// A share that a change joins or leaves.
pub(in crate::session::mqtt) struct ShareChange {
    pub(in crate::session::mqtt) share: String,
    pub(in crate::session::mqtt) pattern: String,
    /// `None`: the session leaves.
    pub(in crate::session::mqtt) joins: Option<(Qos, SubscriptionRecord)>,
    /// Whether it was a member before.
    pub(in crate::session::mqtt) was_member: bool,
    /// Expiries of the others.
    pub(in crate::session::mqtt) others: Vec<u32>,
}

impl ShareChange {
    /// Name of the share, and its pattern.
    pub(in crate::session::mqtt) fn named(&self) -> (&str, &str) {
        (&self.share, &self.pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_assigned_is_awaited_until_it_comes() {
        let (mut shares, now) = (Shares::default(), Instant::now());
        shares.own_came(4);
        [3, 5, 7, 9].into_iter().for_each(|sequence| shares.await_own(sequence, now));
        assert_eq!(shares.count_own(), 3);
        // One that comes again.
        shares.own_came(3);
        assert_eq!(shares.count_own(), 3);
        shares.own_came(7);
        assert_eq!(shares.count_own(), 1);
    }
}
