//! Notes and configuration of a stream of a group: proposed as entries of its log, and read.

use crate::Timestamp;
use crate::notes::{ALL_BYTES, NotesImage};
use crate::record::{Control, Entry, NoteRecord};

use super::Stream;
use super::errors::StoreError;

impl Stream {
    /// Proposes notes, as one entry of the group's log: values by key, an empty one removes it. A
    /// key has 1 to 1,024 bytes, a value at most 64 KiB, and all of them together at most 4 MiB.
    ///
    /// # Errors
    /// Nothing has changed, unless the stream has failed: it has no group, there is too much of
    /// it ([`StoreError::TooLarge`]), or the disk is full.
    pub fn propose_notes(&mut self, notes: &[(&[u8], &[u8])], now: Timestamp) -> Result<(), StoreError> {
        if self.group.as_ref().is_some_and(|group| !group.notes.takes(notes)) {
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
        let index = self.propose_controls(controls, now)?;
        if let (Some(group), Some(index)) = (&mut self.group, index) {
            controls.iter().for_each(|control| group.notes.note(index, &Entry::Control(control.clone())));
            self.release_notes();
        }
        Ok(())
    }

    /// The value of a key, as released; `None` without a group, too.
    #[must_use]
    pub fn note(&self, key: &[u8]) -> Option<&[u8]> {
        self.group.as_ref()?.notes.get(key)
    }

    /// The value of a key behind everything in the log, released or not.
    #[must_use]
    pub fn decided_note(&self, key: &[u8]) -> Option<&[u8]> {
        self.group.as_ref()?.notes.decided(key)
    }

    /// Keys and values, as released, in order of the keys.
    pub fn notes(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.group.iter().flat_map(|group| group.notes.iter())
    }

    /// The configuration that an entry of the group's log says, as released, and the index of that
    /// entry. `None` if none does.
    #[must_use]
    pub fn decided_config(&self) -> Option<(u64, &[u8])> {
        self.group.as_ref()?.notes.config()
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
