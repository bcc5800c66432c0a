//! Packet identifiers of messages on their way to a client. Those of stored messages follow from
//! where they are stored, and others are counted from the end: so they seldom meet.

use super::delivery::ConsumerDelivery;
use super::state::{InFlight, Sent, StoredSession};
use myelin_mqtt::packet::{PacketId, Qos};

/// Packet identifier of the message with this sequence.
pub(super) fn packet_id(sequence: u64) -> PacketId {
    let number = u16::try_from(sequence.wrapping_sub(1) % u64::from(u16::MAX)).unwrap_or_default();
    PacketId::new(number + 1).unwrap_or(PacketId::MIN)
}

/// The next number that is free below the last one, then from the end: what was given before the
/// last one is seldom free again, so a number is found at once however many are in use.
fn next_spare(last: u16, is_free: impl FnMut(&PacketId) -> bool) -> Option<PacketId> {
    let last = last.max(1);
    let numbers = (1..last).rev().chain((last..=u16::MAX).rev());
    numbers.filter_map(PacketId::new).find(is_free)
}

impl InFlight {
    /// Number under which the client has this message of the session's own consumer already.
    pub(super) fn number_of(&self, delivery: &ConsumerDelivery<'_>) -> Option<PacketId> {
        let is_it = |sent: &Sent| (sent.sequence, sent.is_shared) == (delivery.sequence, false);
        let own = packet_id(delivery.sequence);
        if self.sent.get(&own).is_some_and(is_it) {
            return Some(own);
        }
        // It may have another one; what comes for the first time is not looked for.
        let mut others = self.sent.iter().filter(|_| delivery.times > 1);
        others.find(|(_, sent)| is_it(sent)).map(|(id, _)| *id)
    }
}

impl StoredSession {
    /// Whether no message has this number that the client has not let go.
    pub(super) fn is_free(&self, id: PacketId) -> bool {
        !self.in_flight.sent.contains_key(&id) && !self.pubrels.contains(id)
    }

    /// A number that no message has.
    pub(super) fn spare_number(&mut self) -> Option<PacketId> {
        let spare = next_spare(self.in_flight.last_spare, |id| self.is_free(*id))?;
        self.in_flight.last_spare = spare.get();
        Some(spare)
    }

    /// Number for the stored message at this sequence. Where its own one is another message's, one
    /// of QoS 1 has any; a client knows a message of QoS 2 by it, also on another connection.
    pub(super) fn free_number(&mut self, sequence: u64, qos: Qos) -> Option<PacketId> {
        let own = Some(packet_id(sequence)).filter(|id| self.is_free(*id));
        let may_be_any = qos < Qos::ExactlyOnce;
        own.or_else(|| self.spare_number().filter(|_| may_be_any))
    }

    /// Whether what waits does so for a number that is another message's.
    pub(super) fn waits_for_number(&self) -> bool {
        self.in_flight.number_waited_for().is_some_and(|id| !self.is_free(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_at_once_however_many_are_in_use() {
        let (mut used, mut last, mut looks) = (std::collections::BTreeSet::new(), 0, 0);
        for _ in 0..u16::MAX {
            let is_free = |id: &PacketId| {
                looks += 1;
                !used.contains(id)
            };
            let id = next_spare(last, is_free).unwrap();
            last = id.get();
            used.insert(id);
        }
        assert_eq!((used.len(), looks), (65_535, 65_535));
        assert_eq!(next_spare(last, |id| !used.contains(id)), None);
        let freed = packet_id(40_000);
        assert_eq!(next_spare(last, |id| *id == freed), Some(freed));
    }

    #[test]
    fn numbers_follow_from_sequences() {
        for (sequence, id) in [(1, 1), (65_535, 65_535), (65_536, 1), (131_070, 65_535)] {
            assert_eq!(packet_id(sequence).get(), id);
        }
    }
}
