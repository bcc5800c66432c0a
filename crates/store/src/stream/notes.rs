//! What a stream of a group keeps beside its messages: its configuration, and small notes by key.
//!
//! Both are records of the group's log (kinds 10 and 12, `docs/formats/segment.md`). They count when
//! their entry is released, on every replica; of several with the same key the last one counts.
//! What is released is written to a small file of its own (`docs/formats/notes.md`) before the
//! segment that has it is sealed: a start reads that file, and the records behind it in segments
//! that are not sealed.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use myelin_disk::Disk;

use crate::Timestamp;
use crate::damage::Damage;
use crate::document::{DocumentFormat, Fields, put_blob};
use crate::jobs::NotesImage;
use crate::record::{Control, Entry, NoteRecord};

use super::Stream;
use super::errors::StoreError;
use super::remove::NOT_NOW;
use super::segment_storage::{CONTROL_ROOM, Files};

/// Name of the file that has them.
pub(crate) const NOTES_FILE: &str = "notes";
const FORMAT: DocumentFormat = DocumentFormat { magic: *b"MYELNOTE", version: 1, what: "notes" };

/// Bytes of a key, and of a value, at most.
const KEY_BYTES: usize = 1 << 10;
const VALUE_BYTES: usize = 64 << 10;
/// Bytes of all keys and values at most, waiting ones among them.
const ALL_BYTES: usize = 4 << 20;

/// One change of what is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoteChange {
    /// Another configuration.
    Config(Vec<u8>),
    /// Another value of a key; an empty one removes it.
    Note(Vec<u8>, Vec<u8>),
}

/// What a stream of a group keeps beside its messages.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    config: Option<Vec<u8>>,
    /// Entry that the configuration is from; 0 without one.
    config_index: u64,
    notes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// All entries up to here are in that.
    applied: u64,
    /// Changes of entries that are not released, in order.
    waiting: VecDeque<(u64, NoteChange)>,
    /// Indexes of released entries with changes that the file does not have, the first and the
    /// last.
    unwritten: Option<(u64, u64)>,
}

impl NoteChange {
    fn of(record: &Entry<'_>) -> Option<Self> {
        match record {
            Entry::Control(Control::Config(blob)) => Some(Self::Config(blob.to_vec())),
            Entry::Control(Control::Note(NoteRecord { key, value })) => {
                Some(Self::Note(key.to_vec(), value.to_vec()))
            }
            _ => None,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Config(blob) => blob.len(),
            Self::Note(key, value) => key.len() + value.len(),
        }
    }
}

impl Notes {
    /// A record of the entry `index`, which is the last one so far. One that the file has already is
    /// passed over.
    pub(crate) fn note(&mut self, index: u64, record: &Entry<'_>) {
        if index <= self.applied {
            return;
        }
        self.waiting.extend(NoteChange::of(record).map(|change| (index, change)));
    }

    /// Entries up to `index` are released.
    pub(crate) fn release(&mut self, index: u64) {
        while let Some((of, change)) = self.waiting.pop_front_if(|(of, _)| *of <= index) {
            match change {
                NoteChange::Config(blob) => (self.config, self.config_index) = (Some(blob), of),
                NoteChange::Note(key, value) if value.is_empty() => drop(self.notes.remove(&key)),
                NoteChange::Note(key, value) => drop(self.notes.insert(key, value)),
            }
            let first = self.unwritten.map_or(of, |(first, _)| first);
            self.unwritten = Some((first, of));
            self.applied = of;
        }
    }

    /// Entries from `first` on do not count.
    pub(crate) fn take_back(&mut self, first: u64) {
        self.waiting.truncate(self.waiting.partition_point(|(of, _)| *of < first));
    }

    /// The first entry whose changes the file does not have.
    pub(super) fn first_unwritten(&self) -> Option<u64> {
        let waiting = self.waiting.front().map(|(of, _)| *of);
        self.unwritten.map(|(first, _)| first).or(waiting)
    }

    /// Content of the file, if it lacks something of an entry up to `index`.
    pub(super) fn image(&self, index: u64) -> Option<NotesImage> {
        let (_, last) = self.unwritten.filter(|(first, _)| *first <= index)?;
        let mut body = Vec::new();
        body.extend_from_slice(&last.to_le_bytes());
        body.extend_from_slice(&self.config_index.to_le_bytes());
        put_blob(self.config.as_deref().unwrap_or_default(), &mut body);
        for (key, value) in &self.notes {
            put_blob(key, &mut body);
            put_blob(value, &mut body);
        }
        Some(NotesImage { body, through: last })
    }

    /// The file has what is released up to `index`.
    pub(super) fn written(&mut self, index: u64) {
        let rest = self.unwritten.filter(|(_, last)| *last > index);
        self.unwritten = rest.map(|(_, last)| (index + 1, last));
    }

    /// Reads the file of a stream.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(disk: &dyn Disk, directory: &Path) -> Result<Self, Damage> {
        let bytes = FORMAT.read(disk, &directory.join(NOTES_FILE))?;
        let mut fields = Fields(FORMAT.body(&bytes)?);
        Self::take(&mut fields).ok_or(Damage::Content(FORMAT.what))
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let (applied, config_index) = (fields.u64()?, fields.u64()?);
        let config = fields.blob()?.to_vec();
        let mut notes = BTreeMap::new();
        while !fields.0.is_empty() {
            notes.insert(fields.blob()?.to_vec(), fields.blob()?.to_vec());
        }
        let config = (config_index > 0).then_some(config);
        Some(Self { config, config_index, notes, applied, ..Self::default() })
    }

    /// Bytes of everything, behind all that is in the log.
    fn len(&self) -> usize {
        let notes = self.notes.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        notes + self.waiting.iter().map(|(_, change)| change.len()).sum::<usize>()
    }
}

impl NotesImage {
    /// Writes the file. Durable on return.
    pub(crate) fn write(&self, files: &Files) -> std::io::Result<()> {
        FORMAT.replace(&*files.store_env.disk, &files.directory, NOTES_FILE, &self.body)
    }
}

impl Stream {
    /// Proposes notes, as one entry of the group's log: values by key, an empty one removes it. A
    /// key has 1 to 1,024 bytes, a value at most 64 KiB, and all of them together at most 4 MiB.
    ///
    /// # Errors
    /// Nothing has changed, unless the stream has failed: it has no group, there is too much of
    /// it ([`StoreError::TooLarge`]), or the disk is full.
    pub fn propose_notes(&mut self, notes: &[(&[u8], &[u8])], now: Timestamp) -> Result<(), StoreError> {
        let is_bad = |(key, value): &(&[u8], &[u8])| {
            key.is_empty() || key.len() > KEY_BYTES || value.len() > VALUE_BYTES
        };
        let bytes = notes.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        let kept = self.group.as_ref().map_or(0, |group| group.notes.len());
        if notes.iter().any(is_bad) || kept + bytes > ALL_BYTES {
            return Err(StoreError::TooLarge);
        }
        let note = |(key, value): &(&[u8], &[u8])| {
            let (key, value) = (key.to_vec().into(), value.to_vec().into());
            Control::Note(NoteRecord { key, value })
        };
        self.propose(&notes.iter().map(note).collect::<Vec<_>>(), now)
    }

    /// Proposes another configuration of the stream, as an entry of the group's log: bytes for the
    /// caller to understand.
    ///
    /// # Errors
    /// As [`Stream::propose_notes`].
    pub fn propose_config(&mut self, blob: &[u8], now: Timestamp) -> Result<(), StoreError> {
        if blob.len() > ALL_BYTES {
            return Err(StoreError::TooLarge);
        }
        self.propose(&[Control::Config(blob.into())], now)
    }

    fn propose(&mut self, controls: &[Control<'_>], now: Timestamp) -> Result<(), StoreError> {
        self.check()?;
        if self.group.is_none() {
            return Err(StoreError::NotNext { expected: 0 });
        }
        if controls.is_empty() {
            return Ok(());
        }
        let bytes = controls.iter().map(|control| control.max_encoded_len() as u64).sum::<u64>();
        self.make_room_for_removal(2 * CONTROL_ROOM + bytes, now)?;
        self.log(controls, now, NOT_NOW)?;
        let Some(group) = &mut self.group else { return Ok(()) };
        let index = group.position().index;
        controls.iter().for_each(|control| group.notes.note(index, &Entry::Control(control.clone())));
        self.release_notes();
        Ok(())
    }

    /// The value of a key, as released; `None` without a group, too.
    #[must_use]
    pub fn note(&self, key: &[u8]) -> Option<&[u8]> {
        self.group.as_ref()?.notes.notes.get(key).map(Vec::as_slice)
    }

    /// The value of a key behind everything in the log, released or not.
    #[must_use]
    pub fn decided_note(&self, key: &[u8]) -> Option<&[u8]> {
        let notes = &self.group.as_ref()?.notes;
        let waiting = notes.waiting.iter().rev().find_map(|(_, change)| match change {
            NoteChange::Note(of, value) if of == key => Some(value.as_slice()),
            _ => None,
        });
        waiting.or_else(|| self.note(key)).filter(|value| !value.is_empty())
    }

    /// Keys and values, as released, in order of the keys.
    pub fn notes(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let notes = self.group.iter().flat_map(|group| &group.notes.notes);
        notes.map(|(key, value)| (key.as_slice(), value.as_slice()))
    }

    /// The configuration that an entry of the group's log says, as released, and the index of that
    /// entry. `None` if none does.
    #[must_use]
    pub fn decided_config(&self) -> Option<(u64, &[u8])> {
        let notes = &self.group.as_ref()?.notes;
        notes.config.as_deref().map(|blob| (notes.config_index, blob))
    }

    /// The file of notes, if the oldest segment that is to be sealed says something that it lacks.
    pub(super) fn notes_to_write(&self) -> Option<NotesImage> {
        let group = self.group.as_ref()?;
        let last = self.closed.first()?.last_index;
        if last > group.tail.releasable() { None } else { group.notes.image(last) }
    }

    /// The file of notes has everything up to an index.
    pub(super) fn notes_written(&mut self, through: u64) {
        if let Some(group) = &mut self.group {
            group.notes.written(through);
        }
    }

    /// Lets changes count whose entries are released.
    pub(super) fn release_notes(&mut self) {
        if let Some(group) = &mut self.group {
            group.notes.release(group.tail.releasable());
        }
    }
}
