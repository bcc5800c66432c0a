//! Consumers of a stream whose log is the log of a group: their states as of an index of that log,
//! and the file from which a start goes on.
//!
//! What changes a consumer is a record of the stream's log (`record/consumer_record.rs`). Whoever
//! leads decides on consumers that are ahead of it ([`GroupConsumers::lead`]) and proposes what
//! they say; every replica, the leader as well, applies what is committed, entry by entry. The file
//! `consumers.NNNN` is an image then: written anew as a whole now and then, and never appended to.
//! Entries that it does not know are applied again from the stream's log.

use std::io;
use std::path::PathBuf;

use super::bytes::ByteReader;
use super::entry::{LogContext, LogEntryKind};
use super::header::{self, HEADER_BYTES};
use super::image::{Image, LEAST_DUE};
use super::open::{self, Fate, LogStorage, Obsolete, OpenError, Stated};
use super::report::LogReport;
use super::resume::{Belief, ConsumerTable, Resumed};
use super::rewrite::Rewrite;
use super::{AckRules, ConsumerId, ConsumerState, Consumers, image, payload};
use crate::record::ConsumerRecord;

/// Consumers of a group's stream, as of an index.
#[derive(Debug)]
pub struct GroupConsumers {
    table: ConsumerTable,
    applied: u64,
    /// `None` for a stream in memory.
    file: Option<ImageFile>,
    /// Bytes of changes that the image does not know.
    behind: u64,
    /// How many of these there have to be.
    due_from: u64,
    /// Whether an image was [drawn](Self::draw_image) and nobody has said what became of it.
    is_drawn: bool,
}

/// Where the image is.
#[derive(Debug)]
struct ImageFile {
    place: LogStorage,
    /// The highest number that a file has had.
    highest: u64,
    /// Bytes of the last image.
    size: u64,
    /// Files that become obsolete with the next image, and those that are.
    current: Vec<Obsolete>,
    obsolete: Vec<Obsolete>,
}

/// An image of a group's consumers that is to be written.
#[derive(Debug)]
pub struct DrawnImage {
    rewrite: Rewrite,
    path: PathBuf,
    applied: u64,
    behind: u64,
}

/// Outcome of writing an image, for [`GroupConsumers::image_written`].
#[derive(Debug)]
pub struct WrittenImage {
    image: DrawnImage,
    /// Whether the file may have its name, after an error too.
    may_be_named: bool,
    result: io::Result<()>,
}

impl DrawnImage {
    /// Writes it. Takes two syncs: for a thread on which a slow disk is in nobody's way.
    #[must_use = "whoever has drawn it has to know"]
    pub fn write(mut self) -> WrittenImage {
        let written = self.rewrite.write().map(drop);
        let may_be_named = written.is_ok();
        let result = written.and_then(|()| {
            image::name(&*self.rewrite.disk, &self.rewrite.temporary, &self.path)?;
            self.rewrite.tails.replaced();
            Ok(())
        });
        WrittenImage { image: self, may_be_named, result }
    }
}

/// A record that does not fit the states of this replica: they are not those of its group, and have
/// to be taken from another replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diverged {
    /// The entry.
    pub index: u64,
    /// The consumer.
    pub consumer: ConsumerId,
}

impl GroupConsumers {
    /// Of a stream in memory: none, as of `applied`.
    #[must_use]
    pub fn in_memory(applied: u64) -> Self {
        Self::new(ConsumerTable::new(1), applied, None)
    }

    fn new(table: ConsumerTable, applied: u64, file: Option<ImageFile>) -> Self {
        Self { table, applied, file, behind: 0, due_from: LEAST_DUE, is_drawn: false }
    }

    /// Reads the image. A log of the consumers' own, from before the stream was in a group, is one
    /// as of index 0. Nothing may be applied to what the report says was damaged.
    ///
    /// # Errors
    /// [`OpenError`], as for a log.
    pub fn open(place: LogStorage) -> Result<(Self, LogReport), OpenError> {
        let opened = open::open(&place, Stated::default())?;
        let read = opened.read;
        let mut table = ConsumerTable::new(read.next_consumer);
        table.consumers = read.consumers;
        let (highest, current, obsolete) = (opened.highest, opened.current, opened.obsolete);
        let file = ImageFile { place, highest, size: read.end, current, obsolete };
        let applied = read.applied.unwrap_or(0);
        Ok((Self::new(table, applied, Some(file)), read.report))
    }

    /// Takes over consumers that were of no group, as of its entry `index`: its log begins behind
    /// that. What they change from here on is for [`Self::lead_with`].
    pub fn take_over(&mut self, consumers: &Consumers, index: u64) {
        self.table = consumers.table();
        self.applied = index;
        // The next start reads them from the log that they had, if it comes before the image.
        self.behind = self.due_from.max(self.file.as_ref().map_or(0, |file| file.size.saturating_mul(2)));
    }

    /// The index of the last entry that was applied.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Applies the records of an entry that is committed. One that was applied before is passed
    /// over.
    ///
    /// # Errors
    /// [`Diverged`]: a part of the entry is applied, and nothing may be any more.
    pub fn apply(&mut self, index: u64, records: &[ConsumerRecord<'_>]) -> Result<(), Diverged> {
        if index <= self.applied {
            return Ok(());
        }
        for record in records {
            let consumer = ConsumerId(record.consumer);
            self.apply_record(consumer, record).ok_or(Diverged { index, consumer })?;
            self.behind += record.payload.len() as u64;
        }
        self.applied = index;
        Ok(())
    }

    fn apply_record(&mut self, id: ConsumerId, record: &ConsumerRecord<'_>) -> Option<()> {
        let kind = LogEntryKind::from_code(record.kind)?;
        (kind == LogEntryKind::Define || self.table.consumers.contains_key(&id)).then_some(())?;
        self.table.apply((id, kind), None, ByteReader::new(&record.payload), 0).ok()?;
        let consumer = self.table.consumers.get(&id);
        consumer.is_none_or(|consumer| consumer.belief == Belief::Sound).then_some(())
    }

    /// Entries up to `index` hold no record of a consumer but those that were applied.
    pub fn pass(&mut self, index: u64) {
        self.applied = self.applied.max(index);
    }

    /// States of all consumers as records, for a replica that has none of them:
    /// [`Self::take_image`].
    #[must_use]
    pub fn image_records(&self) -> Vec<ConsumerRecord<'static>> {
        let record = |id: ConsumerId, kind: LogEntryKind, payload: Vec<u8>| ConsumerRecord {
            consumer: id.0,
            kind: kind.code(),
            payload: payload.into(),
        };
        let both = |(id, consumer): (&ConsumerId, &Resumed)| {
            let (mut definition, mut state) = (Vec::new(), Vec::new());
            payload::put_definition(&mut definition, &consumer.definition);
            payload::put_state(&mut state, &consumer.state);
            [record(*id, LogEntryKind::Define, definition), record(*id, LogEntryKind::Checkpoint, state)]
        };
        self.table.consumers.iter().flat_map(both).collect()
    }

    /// How many consumers there are, and about so many bytes of what they are, from a consumer on
    /// that `draw` draws, and round.
    pub(crate) fn sample(&self, draw: u64, bytes: usize) -> Vec<u8> {
        let consumers = &self.table.consumers;
        let mut sample = (consumers.len() as u64).to_le_bytes().to_vec();
        let last = consumers.last_key_value().map_or(0, |(id, _)| id.0);
        let from = ConsumerId(draw % (last + 1));
        for (id, Resumed { definition, state, .. }) in consumers.range(from..).chain(consumers.range(..from))
        {
            if sample.len() >= bytes {
                break;
            }
            sample.extend_from_slice(&id.0.to_le_bytes());
            payload::put_definition(&mut sample, definition);
            payload::put_state(&mut sample, state);
        }
        sample
    }

    /// The id of the next consumer that is made.
    #[must_use]
    pub fn next_consumer(&self) -> ConsumerId {
        ConsumerId(self.table.next)
    }

    /// Takes states of another replica, as of `index`, where there are none: all that
    /// [`Self::image_records`] has given, in order and perhaps in several parts. `next`:
    /// [`Self::next_consumer`] of that replica.
    ///
    /// # Errors
    /// [`Diverged`]: they are no such records.
    pub fn take_image(
        &mut self,
        (index, next): (u64, ConsumerId),
        records: &[ConsumerRecord<'_>],
    ) -> Result<(), Diverged> {
        for record in records {
            let consumer = ConsumerId(record.consumer);
            self.apply_record(consumer, record).ok_or(Diverged { index, consumer })?;
        }
        self.table.next = self.table.next.max(next.0);
        self.applied = index;
        Ok(())
    }

    /// Consumers to decide on, as far as the group has come: nothing that is decided on them
    /// changes anything here before it is committed and [applied](Self::apply).
    #[must_use]
    pub fn lead(&self) -> Consumers {
        Consumers::leading(self.table.clone())
    }

    /// Has `consumers` be what is decided on from here on, as far as the group has come. What was
    /// decided on them before and is not among that is forgotten: proposals that are not committed
    /// never will be, as far as [`Consumers::is_released`] knows.
    pub fn lead_with(&self, consumers: &mut Consumers) {
        consumers.begin_anew(self.table.clone());
    }

    /// All consumers, in the order of their ids: names, rules, configurations and states.
    pub fn iter(&self) -> impl Iterator<Item = (ConsumerId, (&str, AckRules, &[u8], &ConsumerState))> {
        self.table.consumers.iter().map(|(id, consumer)| {
            let definition = &consumer.definition;
            (*id, (&*definition.name, definition.rules, &*definition.config, &consumer.state))
        })
    }

    /// Rules and state of a consumer.
    #[must_use]
    pub fn state(&self, id: ConsumerId) -> Option<(AckRules, &ConsumerState)> {
        let consumer = self.table.consumers.get(&id)?;
        Some((consumer.definition.rules, &consumer.state))
    }

    /// Whether it pays to write the image anew: then a start applies less, and the stream can seal
    /// more.
    #[must_use]
    pub fn image_due(&self) -> bool {
        let is_due = |file: &ImageFile| self.behind >= self.due_from.max(file.size.saturating_mul(2));
        !self.is_drawn && self.file.as_ref().is_some_and(is_due)
    }

    /// Bytes of changes that the image does not know.
    #[cfg(test)]
    pub(super) fn behind_image(&self) -> u64 {
        self.behind
    }

    /// Draws the image, as far as the group has come. `None` in memory, and while another one is
    /// being written: what was drawn has to come back with [`Self::image_written`].
    pub fn draw_image(&mut self) -> Option<DrawnImage> {
        let file = self.file.as_mut().filter(|_| !self.is_drawn)?;
        self.is_drawn = true;
        Some(file.draw(&self.table, self.applied, self.behind))
    }

    /// Takes over an image that was drawn and written. Answers the index as of which it is, for
    /// [`Stream::consumers_imaged`](crate::Stream::consumers_imaged).
    ///
    /// # Errors
    /// It could not be written. The image before is the valid one, or this one is: the next start
    /// finds out. It is due again after as many changes as make a first one due.
    pub fn image_written(&mut self, written: WrittenImage) -> io::Result<u64> {
        self.is_drawn = false;
        let Some(file) = &mut self.file else { return Ok(self.applied) };
        let WrittenImage { image, may_be_named, result } = written;
        let DrawnImage { rewrite, path, applied, behind } = image;
        let this = may_be_named.then_some(Obsolete { path, fate: Fate::Remove });
        if let Err(error) = result {
            file.current.extend(this);
            self.due_from = self.behind + LEAST_DUE;
            return Err(error);
        }
        file.obsolete.append(&mut file.current);
        file.current.extend(this);
        file.size = (rewrite.image.len() - HEADER_BYTES) as u64;
        self.behind -= behind;
        self.due_from = LEAST_DUE;
        Ok(applied)
    }

    /// Files that are needed no more, for the caller to remove or to keep for an operator. Named
    /// once.
    pub fn take_obsolete(&mut self) -> Vec<Obsolete> {
        self.file.as_mut().map(|file| std::mem::take(&mut file.obsolete)).unwrap_or_default()
    }
}

impl ImageFile {
    fn draw(&mut self, table: &ConsumerTable, applied: u64, behind: u64) -> DrawnImage {
        // Whatever becomes of it, its number and its salt are used up.
        self.highest += 1;
        let number = self.highest;
        let header = self.place.new_header(number, table.next, Some(applied));
        let frame = LogContext::new(&header, self.place.cipher(&header));
        let mut image = Image::begin(header);
        for (id, consumer) in &table.consumers {
            image.add(&frame, *id, &consumer.definition, &consumer.state);
        }
        let (disk, tails) = (self.place.disk.clone(), self.place.tails.clone());
        let temporary = self.place.directory.join(header::temporary_name(number));
        let (rest, next) = (Vec::new(), table.next);
        let rewrite = Rewrite { disk, tails, number, frame, image, rest, temporary, next };
        DrawnImage { rewrite, path: self.place.directory.join(header::file_name(number)), applied, behind }
    }
}
