//! A whole stream as of an index of its group's log, for a replica that lacks what is no more in
//! the log.
//!
//! Owns the form in which it is sent: records in canonical form, in pieces. First the
//! configuration, notes and consumers, then the messages. [`InstallSource`] reads pieces while the
//! stream goes on: a message that was removed since is not sent, and the entry that removes it
//! finds nothing there. [`InstallTarget`] fills another stream with them, whose log goes on behind
//! that index. Must never make the other stream one of the group before it has everything.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use crate::consumer::{ConsumerId, GroupConsumers};
use crate::notes::Notes;
use crate::record::{ConsumerRecord, Control, Entry, NoteRecord, canonical};
use crate::{Seq, Timestamp};

use super::cursor::Cursor;
use super::errors::{ReadError, StoreError};
use super::group_log::GroupPosition;
use super::lookup::Filter;
use super::new_message::{Admission, GAP_MAX, NewMessage};
use super::wait::Wait;
use super::{Files, Stream};

/// Stream as of an entry of its group's log, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstallPoint {
    /// The entry, which is committed: the log goes on behind it.
    pub position: GroupPosition,
    /// Sequence of the first message, or of the next one where there is none.
    pub first_seq: Seq,
    /// The last sequence that was given out.
    pub last_seq: Seq,
    /// When it was.
    pub last_time: Timestamp,
    /// The id of the next consumer that is made.
    pub next_consumer: u64,
    /// The entry that the configuration is from; 0: none says one.
    pub config_index: u64,
}

/// Reader of a stream's pieces.
#[derive(Debug)]
pub struct InstallSource {
    point: InstallPoint,
    /// Records before the messages.
    head: VecDeque<Vec<u8>>,
    cursor: Cursor,
}

/// A stream that is being filled with pieces.
#[derive(Debug)]
pub struct InstallTarget {
    stream: Stream,
    consumers: GroupConsumers,
    point: InstallPoint,
    config: Option<Vec<u8>>,
    notes: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Stream {
    /// The stream as a whole, as far as it is released, with its group's `consumers`. `None`
    /// without a group, and before its first entry.
    #[must_use]
    pub fn install_source(&self, consumers: &GroupConsumers) -> Option<InstallSource> {
        let group = self.group.as_ref()?;
        let last = group.position();
        let index = group.tail.releasable().min(last.index);
        let position = group.tail.before(index + 1).map(|tail| tail.position()).filter(|_| index > 0)?;
        let position = GroupPosition { commit: index, ..position };
        let reader = self.reader();
        let totals = reader.state().totals;
        let config = self.decided_config();
        let point = InstallPoint {
            position,
            first_seq: totals.first_seq,
            last_seq: totals.last_seq,
            last_time: totals.last_timestamp,
            next_consumer: consumers.next_consumer().0,
            config_index: config.map_or(0, |(index, _)| index),
        };
        let mut head = VecDeque::new();
        let mut add = |control: &Control<'_>| {
            let mut record = Vec::new();
            canonical::write_control(control, 0, &mut record);
            head.push_back(record);
        };
        config.into_iter().for_each(|(_, blob)| add(&Control::Config(blob.into())));
        for (key, value) in self.notes() {
            add(&Control::Note(NoteRecord { key: Cow::Borrowed(key), value: Cow::Borrowed(value) }));
        }
        consumers.image_records().into_iter().for_each(|record| add(&Control::Consumer(record)));
        Some(InstallSource { point, head, cursor: reader.cursor(Filter::All, totals.first_seq) })
    }
}

impl InstallSource {
    /// As of which entry the pieces are.
    #[must_use]
    pub fn point(&self) -> InstallPoint {
        self.point
    }

    /// The next piece, of about so many bytes, or of one record that is larger. `None`: there was
    /// the last one. Reads from the disk.
    ///
    /// # Errors
    /// A message cannot be read.
    pub fn next_piece(&mut self, bytes: usize) -> Result<Option<Vec<u8>>, ReadError> {
        // With room for a last record that is over.
        let mut piece = Vec::with_capacity(bytes + bytes / 4);
        while piece.len() < bytes
            && let Some(mut record) = self.head.pop_front()
        {
            piece.append(&mut record);
        }
        while piece.len() < bytes && self.cursor.position() <= self.point.last_seq {
            match self.cursor.next(Wait::Allowed)? {
                Some(message) if message.seq <= self.point.last_seq => {
                    canonical::write_message(&message, &mut piece);
                }
                _ => {
                    self.cursor.skip(self.point.last_seq);
                    break;
                }
            }
        }
        self.cursor.pause();
        Ok((!piece.is_empty()).then_some(piece))
    }
}

impl InstallTarget {
    /// Fills `stream`, which has nothing, no group and no limits, and `consumers`, which are none.
    #[must_use]
    pub fn new(stream: Stream, consumers: GroupConsumers, point: InstallPoint) -> Self {
        Self { stream, consumers, point, config: None, notes: BTreeMap::new() }
    }

    /// The stream that is being filled, to remove it.
    pub fn stream_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// The piece is none ([`StoreError::NotNext`]), or the disk refuses it.
    pub fn take(&mut self, piece: &[u8]) -> Result<(), StoreError> {
        let malformed = StoreError::NotNext { expected: self.stream.shared.catalog().next_decided() };
        let Some(records) = canonical::read(piece) else { return Err(malformed) };
        let (mut messages, mut consumers) = (Vec::new(), Vec::new());
        for (record, _) in records {
            match record {
                Entry::Message(message) if message.seq <= self.point.last_seq => messages.push(NewMessage {
                    seq: message.seq,
                    timestamp: message.timestamp,
                    expires: message.expires,
                    subject: message.subject,
                    headers: message.headers,
                    payload: message.payload,
                    is_rollup: false,
                    ends: 0,
                }),
                Entry::Control(Control::Config(blob)) => self.config = Some(blob.into_owned()),
                Entry::Control(Control::Note(NoteRecord { key, value })) => {
                    self.notes.insert(key.into_owned(), value.into_owned());
                }
                Entry::Control(Control::Consumer(record)) => consumers.push(record),
                _ => return Err(malformed),
            }
        }
        self.take_consumers(&consumers)?;
        let mut rest = messages.as_slice();
        while let Some(first) = rest.first() {
            let next = self.stream.shared.catalog().next_decided();
            if first.seq > next.saturating_add(GAP_MAX) {
                self.stream.skip(first.seq - 1, first.timestamp)?;
            }
            let mut last = first.seq;
            let near = |message: &&NewMessage<'_>| {
                message.seq - std::mem::replace(&mut last, message.seq) <= GAP_MAX
            };
            if rest.windows(2).any(|pair| pair[0].seq >= pair[1].seq) || first.seq < next {
                return Err(malformed);
            }
            let (now, count) = (first.timestamp, rest.iter().take_while(near).count());
            let (these, others) = rest.split_at(count);
            let mut outcomes = Vec::new();
            self.stream.append(these, Admission::Granted, now, &mut outcomes)?;
            if outcomes.iter().any(Result::is_err) {
                return Err(malformed);
            }
            rest = others;
        }
        while let Some(job) = self.stream.next_job(self.point.last_time) {
            self.stream.finish(job.run(), self.point.last_time)?;
        }
        Ok(())
    }

    fn take_consumers(&mut self, records: &[ConsumerRecord<'_>]) -> Result<(), StoreError> {
        let InstallPoint { position, next_consumer, .. } = self.point;
        let at = (position.index, ConsumerId(next_consumer));
        let taken = self.consumers.take_image(at, records);
        taken.map_err(|_| StoreError::NotNext { expected: position.index })
    }

    /// There was the last piece: what comes next is the entry behind the point. `settle` makes all
    /// that was written durable, and is called twice. Waits for the disk.
    ///
    /// # Errors
    /// The disk, or `settle`.
    pub fn finish(
        mut self,
        settle: &dyn Fn() -> Result<(), StoreError>,
    ) -> Result<(Stream, GroupConsumers), (Box<Self>, StoreError)> {
        match self.try_finish(settle) {
            Ok(()) => Ok((self.stream, self.consumers)),
            Err(error) => Err((Box::new(self), error)),
        }
    }

    fn try_finish(&mut self, settle: &dyn Fn() -> Result<(), StoreError>) -> Result<(), StoreError> {
        let InstallPoint { position, last_seq, last_time, config_index, .. } = self.point;
        self.take_consumers(&[])?;
        self.stream.skip(last_seq, last_time)?;
        settle()?;
        let notes = Notes::installed(
            position.index,
            (config_index, self.config.take()),
            std::mem::take(&mut self.notes),
        );
        let image = notes.image(position.index);
        self.stream.join_group(position, last_time)?;
        if let (Some(image), Some(files)) = (image, self.stream.files()) {
            let Files { store_env, directory, .. } = files;
            image.write(&*store_env.disk, directory).map_err(StoreError::from_io)?;
        }
        if let Some(group) = &mut self.stream.group {
            group.notes = notes;
            group.notes.written(position.index);
        }
        self.stream.flush()?;
        settle()?;
        if let Some(image) = self.consumers.draw_image().filter(|_| !myelin_stdx::planted::bug(112)) {
            self.consumers.image_written(image.write()).map_err(StoreError::from_io)?;
        }
        Ok(())
    }
}
