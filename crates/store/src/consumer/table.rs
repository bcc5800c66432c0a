//! The consumers that entries tell of: the one way in which an entry changes them, whether it is
//! read from a log at a start or was decided by the leader of a group.

use std::collections::{BTreeMap, BTreeSet};

use super::ConsumerId;
use super::bytes::{ByteReader, MalformedBytes};
use super::entry::LogEntryKind;
use super::payload;
use super::resume::{Belief, Resumed};

/// Consumers as entries tell of them.
#[derive(Clone, Debug)]
pub(super) struct ConsumerTable {
    pub(super) consumers: BTreeMap<ConsumerId, Resumed>,
    /// Consumers of which there were entries, but no definition.
    pub(super) orphans: BTreeSet<ConsumerId>,
    /// The id of the next consumer to be created.
    pub(super) next: u64,
}

impl ConsumerTable {
    pub(super) fn new(next: u64) -> Self {
        Self { consumers: BTreeMap::new(), orphans: BTreeSet::new(), next: next.max(1) }
    }

    /// Applies an entry. `serial`: its number among those of its consumer, where some may be
    /// missing before it. `room`: how many messages may become pending.
    ///
    /// # Errors
    /// The entry says nothing that a consumer's entry can say. Some of it may have happened.
    pub(super) fn apply(
        &mut self,
        (id, kind): (ConsumerId, LogEntryKind),
        serial: Option<u64>,
        mut reader: ByteReader<'_>,
        room: usize,
    ) -> Result<(), MalformedBytes> {
        self.next = self.next.max(id.0.saturating_add(1));
        if kind == LogEntryKind::Define {
            return self.define(id, serial, &mut reader, room);
        }
        let Some(consumer) = self.consumers.get_mut(&id) else {
            if kind == LogEntryKind::Remove {
                self.orphans.remove(&id);
            } else {
                self.orphans.insert(id);
            }
            return Ok(());
        };
        match kind {
            LogEntryKind::Checkpoint => {
                let state = payload::read_state(&mut reader, room)?;
                consumer.count(serial);
                consumer.replace(state);
            }
            LogEntryKind::Remove => {
                self.consumers.remove(&id);
            }
            LogEntryKind::Delta | LogEntryKind::Define => {
                consumer.count(serial);
                consumer.change(reader)?;
            }
        }
        Ok(())
    }

    fn define(
        &mut self,
        id: ConsumerId,
        serial: Option<u64>,
        reader: &mut ByteReader<'_>,
        room: usize,
    ) -> Result<(), MalformedBytes> {
        let definition = payload::read_definition(reader)?;
        self.orphans.remove(&id);
        match self.consumers.get_mut(&id) {
            Some(consumer) => {
                consumer.count(serial);
                consumer.definition = definition;
            }
            None => {
                let serial = serial.unwrap_or(0);
                let mut consumer = Resumed::new(definition, serial, room);
                // Its first entry, unless what came before is lost: then nothing is certain but
                // what follows.
                if serial != 0 {
                    consumer.belief = Belief::Doubt { certain: 0 };
                }
                self.consumers.insert(id, consumer);
            }
        }
        Ok(())
    }
}
