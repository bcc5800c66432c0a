//! Blocks of nats-server's store on their way into a stream that is being filled.
//!
//! A block says which messages there were, a later one which of them clients deleted. What limits had taken is said by the
//! index alone, where one is there that is not older than the blocks.

use super::filling::{Filling, Kept};
use super::intake::{Fault, Target, check_message};
use myelin_store::nats::block::{BadRecord, Record, Records};
use myelin_store::nats::index::Index;
use myelin_store::{Seq, Timestamp};

/// Messages that are deleted at once.
const DELETIONS: usize = 4096;

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// The last sequence that any record names.
    pub(super) last: Seq,
    /// Deletions of messages that are in the stream.
    doomed: Vec<Seq>,
    /// The last block, and the checksum of its last record.
    pub(super) last_record: (u32, [u8; 8]),
    /// Messages that were read.
    pub(super) messages: u64,
}

/// What a block has brought.
pub(super) enum Read {
    Whole,
    /// Its end cannot be read, which is as it is with a server that was killed.
    Cut(BadRecord),
}

impl Replay {
    /// Takes in a readable block. Where there is an index, what it does not know is left out.
    pub(super) fn block(
        &mut self,
        bytes: &[u8],
        (stream, number): (&str, u32),
        index: Option<&Index>,
        filling: &mut Filling,
        target: &mut dyn Target,
        now: Timestamp,
    ) -> Result<Read, Fault> {
        let mut records = Records::new(bytes, stream, number);
        let read = loop {
            match records.next() {
                Some(Ok(record)) => self.record(&record, index, filling, target, now)?,
                None => break Read::Whole,
                Some(Err(bad)) => break Read::Cut(bad),
            }
        };
        self.last_record = (number, records.checksum());
        self.delete(filling, now)?;
        Ok(read)
    }

    fn record(
        &mut self,
        record: &Record<'_>,
        index: Option<&Index>,
        filling: &mut Filling,
        target: &mut dyn Target,
        now: Timestamp,
    ) -> Result<(), Fault> {
        match *record {
            Record::Deleted(seq) => {
                self.last = self.last.max(seq);
                if index.is_none() {
                    self.doomed.push(seq);
                    if self.doomed.len() >= DELETIONS {
                        self.delete(filling, now)?;
                    }
                }
            }
            Record::Nothing(seq) => self.last = self.last.max(seq),
            Record::Message { seq, timestamp, subject, headers, payload } => {
                self.last = self.last.max(seq);
                let is_there = index.is_none_or(|index| {
                    seq >= index.first_seq && seq <= index.last_seq && !index.deleted.contains(seq)
                });
                // One that comes twice was written anew, and is deleted.
                if !is_there || seq <= filling.last() {
                    return Ok(());
                }
                check_message(seq, subject)?;
                self.messages += 1;
                filling.push(Kept { seq, timestamp, subject, headers, payload }, now)?;
                target.admit(filling.stored_bytes())?;
            }
        }
        Ok(())
    }

    fn delete(&mut self, filling: &mut Filling, now: Timestamp) -> Result<(), Fault> {
        let result = filling.delete(&self.doomed, now);
        self.doomed.clear();
        Ok(result?)
    }

    /// Applies an index that was found behind the blocks, if it is not older than they are. Answers whether it was.
    pub(super) fn settle(
        &mut self,
        index: &Index,
        filling: &mut Filling,
        now: Timestamp,
    ) -> Result<bool, Fault> {
        if !self.knows(index) {
            return Ok(false);
        }
        // By what there is, not by what is named: that may be anything.
        filling.delete_where(&|seq| index.deleted.contains(seq), now)?;
        filling.trim(index.first_seq, now)?;
        self.last = self.last.max(index.last_seq);
        Ok(true)
    }

    /// Whether an index was written after the last record of the blocks.
    pub(super) fn knows(&self, index: &Index) -> bool {
        self.last_record == (index.last_block, index.checksum)
    }
}
