//! Configuration and small notes by key of a stream of a group, beside its messages.
//!
//! Both are records of the group's log (kinds 10 and 12, `docs/formats/segment.md`). They count
//! when their entry is released, on every replica; of several with the same key the last one
//! counts.
//! What is released is written to a small file of its own (`docs/formats/notes.md`) before the
//! segment that has it is sealed: a start reads that file, and the records behind it in segments
//! that are not sealed.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;

use myelin_disk::Disk;

use crate::damage::Damage;
use crate::document::{DocumentFormat, Fields, put_blob};
use crate::record::{Control, Entry, NoteRecord};

/// Name of the file that has them.
pub(crate) const NOTES_FILE: &str = "notes";
const FORMAT: DocumentFormat = DocumentFormat { magic: *b"MYELNOTE", version: 1, what: "notes" };

/// Bytes of a key, and of a value, at most.
const KEY_BYTES: usize = 1 << 10;
const VALUE_BYTES: usize = 64 << 10;
/// Bytes of all keys and values at most, waiting ones among them.
pub(crate) const ALL_BYTES: usize = 4 << 20;

/// One change of what is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NoteChange {
    /// Another configuration.
    Config(Vec<u8>),
    /// Another value of a key; an empty one removes it.
    Note(Vec<u8>, Vec<u8>),
}

/// Configuration and notes of a stream of a group.
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
    /// Configuration and notes of another replica, as of the entry `index`.
    pub(crate) fn installed(
        index: u64,
        (config_index, config): (u64, Option<Vec<u8>>),
        notes: BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Self {
        let is_empty = config.is_none() && notes.is_empty();
        let unwritten = (!is_empty).then_some((index, index));
        Self { config, config_index, notes, applied: index, unwritten, ..Self::default() }
    }

    /// Keeps a record of the entry `index`, which is the last one so far. One that the file has
    /// already is passed over.
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
    pub(crate) fn first_unwritten(&self) -> Option<u64> {
        let waiting = self.waiting.front().map(|(of, _)| *of);
        self.unwritten.map(|(first, _)| first).or(waiting)
    }

    /// Content of the file, if it lacks something of an entry up to `index`.
    pub(crate) fn image(&self, index: u64) -> Option<NotesImage> {
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
    pub(crate) fn written(&mut self, index: u64) {
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

    /// The value of a key, as released.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.notes.get(key).map(Vec::as_slice)
    }

    /// The value of a key behind everything in the log.
    pub(crate) fn decided(&self, key: &[u8]) -> Option<&[u8]> {
        let waiting = self.waiting.iter().rev().find_map(|(_, change)| match change {
            NoteChange::Note(of, value) if of == key => Some(value.as_slice()),
            _ => None,
        });
        waiting.or_else(|| self.get(key)).filter(|value| !value.is_empty())
    }

    /// Keys and values, as released, in order of the keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.notes.iter().map(|(key, value)| (key.as_slice(), value.as_slice()))
    }

    /// The configuration as released, and the index of its entry.
    pub(crate) fn config(&self) -> Option<(u64, &[u8])> {
        self.config.as_deref().map(|blob| (self.config_index, blob))
    }

    /// Whether these may come, too.
    pub(crate) fn takes(&self, notes: &[(&[u8], &[u8])]) -> bool {
        let is_good = |(key, value): &(&[u8], &[u8])| {
            (1..=KEY_BYTES).contains(&key.len()) && value.len() <= VALUE_BYTES
        };
        let bytes = notes.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        notes.iter().all(is_good) && self.len() + bytes <= ALL_BYTES
    }

    /// Bytes of everything, behind all that is in the log.
    fn len(&self) -> usize {
        let notes = self.notes.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        notes + self.waiting.iter().map(|(_, change)| change.len()).sum::<usize>()
    }
}

/// The file of a stream's notes, as it is to be written.
#[derive(Debug)]
pub(crate) struct NotesImage {
    body: Vec<u8>,
    /// All entries are in it of the group's log up to this index.
    pub(crate) through: u64,
}

impl NotesImage {
    /// Writes the file. Durable on return.
    pub(crate) fn write(&self, disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        FORMAT.replace(disk, directory, NOTES_FILE, &self.body)
    }
}
