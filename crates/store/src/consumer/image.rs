//! Writes a log anew: the states of all consumers, and nothing of how they came about.
//!
//! Owns the order that makes it safe: the whole file under another name, a sync, the rename, a sync
//! of the directory. Until then the file before is the valid one, afterwards this one is.

use std::io;
use std::path::Path;
use std::sync::Arc;

use myelin_disk::{Disk, File};
use myelin_stdx::varint;

use super::entry::{LogContext, LogEntryKind};
use super::header::{HEADER_BYTES, LogHeader};
use super::payload::{self, Definition};
use super::{ConsumerId, ConsumerState};

/// Bytes of changes below which it is not worth to write the file anew.
pub(super) const LEAST_DUE: u64 = 256 << 10;

/// An image that is being drawn.
#[derive(Debug)]
pub(super) struct Image {
    header: LogHeader,
    file: Vec<u8>,
    payload: Vec<u8>,
}

impl Image {
    /// `header` says all but how many consumers there are and where the image ends.
    pub(super) fn begin(header: LogHeader) -> Self {
        Self { header, file: vec![0; HEADER_BYTES], payload: Vec::new() }
    }

    /// Adds a consumer, with everything that was applied to it.
    pub(super) fn add(
        &mut self,
        frame: &LogContext,
        id: ConsumerId,
        definition: &Definition,
        state: &ConsumerState,
    ) {
        let Self { header, file, payload } = self;
        payload.clear();
        varint::put(0, payload);
        payload::put_definition(payload, definition);
        frame.seal(file, file.len() as u64, id, LogEntryKind::Define, payload);
        payload.clear();
        varint::put(1, payload);
        payload::put_state(payload, state);
        frame.seal(file, file.len() as u64, id, LogEntryKind::Checkpoint, payload);
        header.consumers = header.consumers.saturating_add(1);
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> usize {
        self.file.len()
    }

    /// Ends it as a log that has no image, with the states as changes: where all of it may be
    /// missing after a loss of power, because nobody was told of it, what is left is a torn end and
    /// no damage.
    pub(super) fn end_as_changes(&mut self) -> &[u8] {
        self.header.consumers = 0;
        self.header.image_end = HEADER_BYTES as u64;
        self.file[..HEADER_BYTES].copy_from_slice(&self.header.encode());
        &self.file
    }

    /// The whole of it.
    pub(super) fn end(&mut self) -> &[u8] {
        debug_assert!(self.file.len() >= HEADER_BYTES, "an image begins with its header");
        self.header.image_end = self.file.len() as u64;
        self.file[..HEADER_BYTES].copy_from_slice(&self.header.encode());
        &self.file
    }
}

/// The number of a consumer's first entry behind the image.
pub(super) const SERIAL_AFTER: u64 = 2;

/// Writes `image` and syncs it.
pub(super) fn write(disk: &dyn Disk, temporary: &Path, image: &[u8]) -> io::Result<Arc<dyn File>> {
    let file = match disk.create(temporary) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // An earlier attempt that did not get its name: nothing refers to it.
            disk.remove_file(temporary)?;
            disk.create(temporary)?
        }
        created => created?,
    };
    if let Err(error) = file.write_at(image, 0).and_then(|()| file.sync()) {
        // To give the room back. If that fails, the next start finds it.
        let _ = disk.remove_file(temporary);
        return Err(error);
    }
    Ok(file)
}

/// Gives a file that was written its name. After an error it may have it or not.
pub(super) fn name(disk: &dyn Disk, temporary: &Path, path: &Path) -> io::Result<()> {
    disk.rename(temporary, path)?;
    // The directory may be as new as the file.
    path.ancestors().skip(1).take(2).try_for_each(|directory| disk.sync_directory(directory))
}
