//! State of the shares of a session: plain data.

use crate::service::Binding;
use myelin_mqtt::packet::Qos;
use myelin_mqtt::records::SubscriptionRecord;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Shares of one session. Boxed: most sessions never have any.
#[derive(Default)]
pub(in crate::session::mqtt) struct Shares(Option<Box<SessionShares>>);

#[derive(Default)]
struct SessionShares {
    /// Shares whose messages come, by their hashes.
    joined: BTreeMap<String, JoinedShare>,
    /// Number of the last pull.
    last_pull: u64,
    /// Messages of shares that are stored for the session alone.
    own: OwnMessages,
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
    /// Shares whose messages come, with their hashes.
    pub(in crate::session::mqtt) fn joined(&self) -> impl Iterator<Item = (&str, &JoinedShare)> {
        let joined = self.0.iter().flat_map(|shares| &shares.joined);
        joined.map(|(share, joined)| (share.as_str(), joined))
    }

    pub(in crate::session::mqtt) fn joined_mut(&mut self) -> impl Iterator<Item = (&str, &mut JoinedShare)> {
        let joined = self.0.iter_mut().flat_map(|shares| &mut shares.joined);
        joined.map(|(share, joined)| (share.as_str(), joined))
    }

    pub(in crate::session::mqtt) fn count_joined(&self) -> usize {
        self.0.as_ref().map_or(0, |shares| shares.joined.len())
    }

    pub(in crate::session::mqtt) fn get(&self, share: &str) -> Option<&JoinedShare> {
        self.0.as_ref()?.joined.get(share)
    }

    pub(in crate::session::mqtt) fn get_mut(&mut self, share: &str) -> Option<&mut JoinedShare> {
        self.0.as_mut()?.joined.get_mut(share)
    }

    pub(in crate::session::mqtt) fn join(&mut self, share: String, joined: JoinedShare) {
        self.0.get_or_insert_default().joined.insert(share, joined);
    }

    pub(in crate::session::mqtt) fn leave(&mut self, share: &str) -> Option<JoinedShare> {
        self.0.as_mut()?.joined.remove(share)
    }

    /// Leaves all of them.
    pub(in crate::session::mqtt) fn leave_all(&mut self) -> impl Iterator<Item = JoinedShare> + use<> {
        let joined = self.0.as_mut().map(|shares| std::mem::take(&mut shares.joined));
        joined.unwrap_or_default().into_values()
    }

    /// A share from which messages are pulled now, with the number of the pull.
    pub(in crate::session::mqtt) fn next_pull(&mut self, share: &str) -> Option<(u64, &mut JoinedShare)> {
        let SessionShares { joined, last_pull, .. } = &mut **self.0.as_mut()?;
        let joined = joined.get_mut(share)?;
        *last_pull += 1;
        Some((*last_pull, joined))
    }

    fn own_mut(&mut self) -> &mut OwnMessages {
        &mut self.0.get_or_insert_default().own
    }

    /// A message is being stored for the session alone.
    pub(in crate::session::mqtt) fn begin_assignment(&mut self) {
        self.own_mut().assigning += 1;
    }

    pub(in crate::session::mqtt) fn end_assignment(&mut self) {
        let own = self.own_mut();
        own.assigning = own.assigning.saturating_sub(1);
    }

    /// Awaits a message that is stored for the session alone, unless it has come.
    pub(in crate::session::mqtt) fn await_own(&mut self, sequence: u64, until: Instant) {
        let own = self.own_mut();
        if sequence > own.last {
            own.coming.insert(sequence, until);
        }
    }

    /// A message that is the session's alone has come: in their order, but for those that come
    /// again.
    pub(in crate::session::mqtt) fn own_came(&mut self, sequence: u64) {
        let own = self.own_mut();
        own.last = own.last.max(sequence);
        own.coming.retain(|awaited, _| *awaited > sequence);
    }

    /// Messages that are being stored for the session alone, or are to come to it.
    pub(in crate::session::mqtt) fn count_own(&self) -> usize {
        self.0.as_ref().map_or(0, |shares| shares.own.assigning + shares.own.coming.len())
    }

    /// Times until which they are awaited.
    pub(in crate::session::mqtt) fn awaited_until(&self) -> impl Iterator<Item = Instant> + '_ {
        self.0.iter().flat_map(|shares| shares.own.coming.values().copied())
    }

    /// Awaits nothing any more whose time is over.
    pub(in crate::session::mqtt) fn give_up_own(&mut self, now: Instant) {
        if let Some(shares) = &mut self.0 {
            shares.own.coming.retain(|_, until| now < *until);
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
