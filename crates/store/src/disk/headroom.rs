//! Space kept back for bad times: a file that is allocated and never written.
//!
//! When the disk is full, the store gives this space up, so that deletes, acknowledgements and manifests still fit and can
//! make room; when there is room again, it is taken back. It must never be the reason why a disk is full: it is taken
//! only while twice as much is free. The file's length is the whole state, so a restart finds it as it was.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, File};

/// How many bytes are kept back unless the caller says otherwise.
pub const DEFAULT_BYTES: u64 = 16 << 20;

/// The space kept back.
#[derive(Debug)]
pub struct Headroom {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn File>,
    bytes: u64,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Held,
    Released,
}

impl Headroom {
    /// Opens or creates the file at `path` and takes `bytes` of space if there is room; that there is none is no error.
    pub fn open(disk: Arc<dyn Disk>, path: &Path, bytes: u64) -> io::Result<Self> {
        let file = match disk.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => disk.create(path)?,
            opened => opened?,
        };
        let headroom = Self { disk, path: path.to_owned(), file, bytes, state: Mutex::new(State::Released) };
        headroom.take_up()?;
        Ok(headroom)
    }

    /// Whether the space is kept back now.
    #[must_use]
    pub fn is_held(&self) -> bool {
        *self.state() == State::Held
    }

    /// How many bytes are kept back while it is held.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the space up. True if it was held until now, so that trying again what failed has a point.
    pub fn release(&self) -> io::Result<bool> {
        let mut state = self.state();
        if *state == State::Released {
            return Ok(false);
        }
        self.file.set_len(0)?;
        *state = State::Released;
        Ok(true)
    }

    /// Takes the space again if more than twice as much is free. True if it is held afterwards.
    pub fn restore(&self) -> bool {
        let mut state = self.state();
        if *state == State::Released && self.has_room() && self.allocate().is_ok() {
            *state = State::Held;
        }
        *state == State::Held
    }

    /// What the last process left: the whole file, nothing, or (it was killed, or had other wishes) something else.
    fn take_up(&self) -> io::Result<()> {
        let length = self.file.len()?;
        if length > self.bytes {
            self.file.set_len(self.bytes)?;
        }
        // A file of the right length may have come from a backup, with holes: only `allocate` knows.
        if length >= self.bytes && self.allocate().is_ok() {
            *self.state() = State::Held;
        } else {
            self.file.set_len(0)?;
            self.restore();
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.disk.free_bytes(&self.path).is_ok_and(|free| free / 2 > self.bytes)
    }

    /// All or nothing.
    fn allocate(&self) -> io::Result<()> {
        let done = self.file.allocate(self.bytes);
        if done.is_err() {
            // What was got in part is given back; should that fail, too, the next restore or restart comes here again.
            let _ = self.file.set_len(0);
        }
        done
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
