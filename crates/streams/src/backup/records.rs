//! Blocks of nats-server's store on their way into a stream that is being filled.
//!
//! A block says which messages there were, a later one which of them clients deleted. What limits
//! had taken is said by the index alone, where one is there that is not older than the blocks.

use super::backup_reader::{RestoreError, RestoreTarget, check_message};
use super::stream_builder::{RestoredMessage, StreamBuilder};
use myelin_natsfiles::block::{BadRecord, Record, Records};
use myelin_natsfiles::index::NatsIndex;
use myelin_store::{Seq, Timestamp};

/// Messages that are deleted at once.
const DELETIONS: usize = 4096;

/// State of reading blocks.
#[derive(Debug, Default)]
pub(super) struct BlockReplay {
    /// The last sequence that any record names.
    pub(super) last: Seq,
    /// Deletions of messages that are in the stream.
    doomed: Vec<Seq>,
    /// The last block, and the checksum of its last record.
    pub(super) last_record: (u32, [u8; 8]),
    /// Messages that were read.
    pub(super) messages: u64,
}

/// End of a block, with what it has brought.
pub(super) enum BlockEnd {
    Whole,
    /// Its end cannot be read, which is as it is with a server that was killed.
    Cut(BadRecord),
}

impl BlockReplay {
    /// Takes in a readable block. Where there is an index, what it does not know is left out.
    pub(super) fn block(
        &mut self,
        bytes: &[u8],
        (stream, number): (&str, u32),
        index: Option<&NatsIndex>,
        builder: &mut StreamBuilder,
        target: &mut dyn RestoreTarget,
        now: Timestamp,
    ) -> Result<BlockEnd, RestoreError> {
        let mut records = Records::new(bytes, stream, number);
        let read = loop {
            match records.next() {
                Some(Ok(record)) => self.record(&record, index, builder, target, now)?,
                None => break BlockEnd::Whole,
                Some(Err(bad)) => break BlockEnd::Cut(bad),
            }
        };
        self.last_record = (number, records.checksum());
        self.delete(builder, now)?;
        Ok(read)
    }

    fn record(
        &mut self,
        record: &Record<'_>,
        index: Option<&NatsIndex>,
        builder: &mut StreamBuilder,
        target: &mut dyn RestoreTarget,
        now: Timestamp,
    ) -> Result<(), RestoreError> {
        match *record {
            Record::Deleted(seq) => {
                self.last = self.last.max(seq);
                if index.is_none() {
                    self.doomed.push(seq);
                    if self.doomed.len() >= DELETIONS {
                        self.delete(builder, now)?;
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
                if !is_there || seq <= builder.last() {
                    return Ok(());
                }
                check_message(seq, subject)?;
                self.messages += 1;
                builder.push(RestoredMessage { seq, timestamp, subject, headers, payload }, now)?;
                target.admit(builder.stored_bytes())?;
            }
        }
        Ok(())
    }

    fn delete(&mut self, builder: &mut StreamBuilder, now: Timestamp) -> Result<(), RestoreError> {
        let result = builder.delete(&self.doomed, now);
        self.doomed.clear();
        Ok(result?)
    }

    /// Applies an index that was found behind the blocks, if it is not older than they are. Answers
    /// whether it was.
    pub(super) fn apply_index(
        &mut self,
        index: &NatsIndex,
        builder: &mut StreamBuilder,
        now: Timestamp,
    ) -> Result<bool, RestoreError> {
        if !self.knows(index) {
            return Ok(false);
        }
        // By what there is, not by what is named: that may be anything.
        builder.delete_where(&|seq| index.deleted.contains(seq), now)?;
        builder.trim(index.first_seq, now)?;
        self.last = self.last.max(index.last_seq);
        Ok(true)
    }

    /// Whether an index was written after the last record of the blocks.
    pub(super) fn knows(&self, index: &NatsIndex) -> bool {
        self.last_record == (index.last_block, index.checksum)
    }
}
