//! How many messages awaited their acknowledgement at once, by consumer, as a log tells it.
//!
//! Perf: a ring that grows while a log is read leaves its smaller selves behind, and what an
//! allocator keeps of them after a start is as much as the ring itself: 24 bytes for each of a
//! million schedules that wait. So they are counted first. It is a guess, and needs nothing but the
//! rows of a log that is not encrypted: never more than one for each byte of them.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::bytes::{ByteReader, MalformedBytes};
use super::delta::{Operations, ReadDelta};
use super::entry::{FoundEntry, HEAD_BYTES, LogContext, LogEntryKind};
use super::header::HEADER_BYTES;
use super::{AckPolicy, ConsumerId, Delta, payload};
use crate::Seq;

/// Messages for which nobody needs to be asked.
const FEW: usize = 1024;

/// Pending messages of one consumer, as a look at the log counts them.
#[derive(Default)]
struct Room {
    is_explicit: bool,
    delivered: Seq,
    pending: usize,
    most: usize,
}

/// Looks at a log up to its first damage. Consumers of which little is to be expected are not among
/// the answers.
pub(super) fn rooms(file: &[u8], frame: &LogContext) -> HashMap<ConsumerId, usize, RandomState> {
    let mut rooms: HashMap<ConsumerId, Room, RandomState> = HashMap::default();
    let mut at = HEADER_BYTES;
    while let Some(entry) = frame.find(file, at).filter(|_| !frame.is_encrypted()) {
        at = entry.end();
        // What cannot be understood is told when it is read in earnest.
        let _ = rooms.entry(entry.id).or_default().read(&entry, &file[entry.at + HEAD_BYTES..at]);
    }
    let large = rooms.into_iter().filter(|(_, room)| room.is_explicit && room.most > FEW);
    large.map(|(id, room)| (id, room.most)).collect()
}

impl Room {
    fn read(&mut self, entry: &FoundEntry, payload: &[u8]) -> Result<(), MalformedBytes> {
        let mut reader = ByteReader::new(payload);
        reader.number()?;
        match entry.kind {
            LogEntryKind::Define => {
                self.is_explicit = payload::read_definition(&mut reader)?.rules.acks == AckPolicy::Explicit;
            }
            LogEntryKind::Checkpoint => {
                (self.delivered, self.pending) = payload::read_head_of_state(&mut reader)?;
            }
            LogEntryKind::Delta if self.is_explicit => {
                let floors = payload::read_floors(&mut reader)?;
                let mut operations = Operations::new(reader, floors.before);
                while let Some(operation) = operations.next()? {
                    self.operate(operation);
                }
            }
            LogEntryKind::Delta | LogEntryKind::Remove => {}
        }
        self.most = self.most.max(self.pending);
        Ok(())
    }

    fn operate(&mut self, operation: ReadDelta) {
        match operation {
            ReadDelta::One(Delta::Delivered { seq, .. }) if seq > self.delivered => {
                self.delivered = seq;
                self.pending += 1;
                self.most = self.most.max(self.pending);
            }
            ReadDelta::One(Delta::Acknowledged { .. } | Delta::Forget { .. }) => {
                self.pending = self.pending.saturating_sub(1);
            }
            ReadDelta::Row { more, .. } => {
                let done = usize::try_from(more).unwrap_or(usize::MAX).saturating_add(1);
                self.pending = self.pending.saturating_sub(done);
            }
            ReadDelta::One(Delta::Reset { seq }) => (self.delivered, self.pending) = (seq, 0),
            ReadDelta::One(Delta::CutAbove { seq }) => self.delivered = self.delivered.min(seq),
            ReadDelta::One(_) => {}
        }
    }
}
