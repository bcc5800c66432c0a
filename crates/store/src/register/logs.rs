//! First logs of streams' consumers, as far as the register vouches for them.
//!
//! A log is made without a sync; the bytes with which it begins stand in the register, which shares
//! its sync with everything else that is made. What a loss of power takes of them is written again
//! from here before anybody reads the log.

use std::io;
use std::sync::Arc;

use myelin_disk::headroom::Headroom;
use myelin_disk::{Disk, File, write_again};

use crate::StreamId;
use crate::consumer::{FIRST_LOG, LogFileName, file_name, read_name};
use crate::entropy::Entropy;
use crate::recovery::stream_directory;

use super::format::RegisterEntry;
use super::{Register, log_bytes};

/// Bytes that a crash leaves or takes as a whole.
const SECTOR: usize = 512;

impl Register {
    /// States with which bytes the first log of a stream's consumers begins: durable on return, or
    /// with [`Register::complete`] if `is_shared`. Whether the register knows the stream.
    ///
    /// # Errors
    /// Of the disk: the register says of the log what it said before.
    pub(crate) fn state_log(
        &self,
        id: StreamId,
        bytes: &[u8],
        is_shared: bool,
        (entropy, headroom): (&dyn Entropy, &Headroom),
    ) -> io::Result<bool> {
        let set = |log: Option<Arc<[u8]>>| {
            self.streams().there.get_mut(&id).map(|stream| std::mem::replace(&mut stream.log, log))
        };
        let Some(before) = set(Some(bytes.into())) else { return Ok(false) };
        let dead = before.as_deref().map_or(0, log_bytes);
        let stated = self.write(&RegisterEntry::Log(id, bytes.to_vec()), dead, entropy, Some(headroom));
        let stated = stated.and_then(|written| if is_shared { Ok(()) } else { self.sync(written) });
        stated.inspect_err(|_| {
            set(before);
            self.take_back(entropy);
        })?;
        Ok(true)
    }

    /// Another log, complete and durable, has taken the place of the first one. That this is
    /// written here is not needed: who reads the register sees the later log.
    pub(crate) fn forget_log(&self, id: StreamId, entropy: &dyn Entropy) {
        let log = self.streams().there.get_mut(&id).and_then(|stream| stream.log.take());
        if let Some(log) = log {
            let _ = self.write(&RegisterEntry::Log(id, Vec::new()), log_bytes(&log), entropy, None);
        }
    }

    /// The bytes with which the first log of a stream's consumers begins.
    pub(crate) fn log(&self, id: StreamId) -> Option<Arc<[u8]>> {
        self.streams().there.get(&id)?.log.clone()
    }

    /// Whether the register knows a stream.
    pub(crate) fn has_stream(&self, id: StreamId) -> bool {
        self.streams().there.contains_key(&id)
    }

    /// Writes the beginning of the first log of a stream's consumers again, as far as a crash has
    /// left it unwritten and no later log is there. The stream has a directory.
    pub(crate) fn restore_log(&self, id: StreamId) -> io::Result<()> {
        let Some(bytes) = self.log(id).filter(|_| !self.is_log_whole(id)) else { return Ok(()) };
        let directory = stream_directory(&self.root, id);
        let path = directory.join(file_name(FIRST_LOG));
        let found = match self.disk.open(&path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(file) = &found
            && !is_unfinished(&**file, &bytes)?
        {
            self.note_whole_log(id);
            return Ok(());
        }
        let is_later = |name: &str| matches!(read_name(name), LogFileName::Log(number) if number > FIRST_LOG);
        if self.disk.list(&directory)?.iter().any(|entry| is_later(&entry.name)) {
            return Ok(());
        }
        let file = found.map_or_else(|| self.disk.create(&path), Ok)?;
        file.write_at(&bytes, 0)?;
        self.note_whole_log(id);
        Ok(())
    }

    /// Whether this process has seen that the first log begins with what the register has of it.
    fn is_log_whole(&self, id: StreamId) -> bool {
        self.streams().there.get(&id).is_some_and(|stream| stream.is_log_whole)
    }

    fn note_whole_log(&self, id: StreamId) {
        if let Some(stream) = self.streams().there.get_mut(&id) {
            stream.is_log_whole = true;
        }
    }

    /// Makes the first log of a stream's consumers durable, if the register vouches for one. The
    /// directory is synced by whoever calls.
    pub(crate) fn sync_log(&self, id: StreamId) -> io::Result<()> {
        let Some(bytes) = self.log(id) else { return Ok(()) };
        self.restore_log(id)?;
        match self.disk.open(&stream_directory(&self.root, id).join(file_name(FIRST_LOG))) {
            // Pages that look clean may not be on the disk.
            Ok(file) => write_again(&*file, 0, bytes.len() as u64),
            // A later one is there.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Whether a file is what a crash may leave of one that was to begin with these bytes: shorter, or
/// with sectors of zeros. All else is damage, which the log knows how to tell.
fn is_unfinished(file: &dyn File, bytes: &[u8]) -> io::Result<bool> {
    let mut found = vec![0; bytes.len()];
    let length = file.read_at(&mut found, 0)?;
    let pairs = found[..length].chunks(SECTOR).zip(bytes.chunks(SECTOR));
    let is_empty = |found: &[u8]| found.iter().all(|byte| *byte == 0);
    let mut holes = pairs.filter(|(found, bytes)| **found != bytes[..found.len()] && is_empty(found));
    let has_hole = holes.next().is_some();
    Ok(has_hole || (length < bytes.len() && bytes.starts_with(&found[..length])))
}

/// Makes a file with these bytes, without a sync, in the place of what a failed attempt has left.
pub(crate) fn write_log(disk: &dyn Disk, path: &std::path::Path, bytes: &[u8]) -> io::Result<Arc<dyn File>> {
    match disk.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create(path)?;
    file.write_at(bytes, 0)?;
    Ok(file)
}
