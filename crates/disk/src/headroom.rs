//! Space kept back for bad times: a file that is allocated and never written.
//!
//! When the disk is full, the store gives this space up, so that deletes, acknowledgements and
//! manifests still fit and can make room; when there is room again, it is taken back. It must never
//! be the reason why a disk is full: it is taken only while twice as much is free. The file's
//! length is the whole state, so a restart finds it as it was.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, File, is_full};

/// How many bytes are kept back unless the caller says otherwise.
pub const DEFAULT_BYTES: u64 = 16 << 20;

/// The space kept back.
#[derive(Debug)]
pub struct Headroom {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    bytes: u64,
    state: Mutex<HeadroomState>,
}

#[derive(Debug)]
enum HeadroomState {
    Held(Arc<dyn File>),
    /// The file is empty; there is none if the disk was too full to create one.
    Released(Option<Arc<dyn File>>),
}

impl Headroom {
    /// Opens or creates the file at `path` and takes `bytes` of space if there is room; that there
    /// is none is no error.
    pub fn open(disk: Arc<dyn Disk>, path: &Path, bytes: u64) -> io::Result<Self> {
        let headroom =
            Self { disk, path: path.to_owned(), bytes, state: Mutex::new(HeadroomState::Released(None)) };
        match headroom.disk.open(path) {
            Ok(file) => headroom.take_up(file)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        headroom.restore();
        Ok(headroom)
    }

    /// Whether the space is kept back now.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(*self.state(), HeadroomState::Held(_))
    }

    /// How many bytes are kept back while it is held.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the space up. True if it was held until now, so that trying again what failed has a
    /// point.
    pub fn release(&self) -> io::Result<bool> {
        let mut state = self.state();
        let HeadroomState::Held(file) = &*state else { return Ok(false) };
        file.set_len(0)?;
        *state = HeadroomState::Released(Some(Arc::clone(file)));
        Ok(true)
    }

    /// Does something that needs room on the disk: once more without this space, if the disk is
    /// full with it.
    pub fn with_room<T>(&self, mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        match act() {
            Err(error) if is_full(&error) && self.release().unwrap_or(false) => act(),
            done => done,
        }
    }

    /// Takes the space again if more than twice as much is free. True if it is held afterwards.
    pub fn restore(&self) -> bool {
        let mut state = self.state();
        let HeadroomState::Released(file) = &*state else { return true };
        let room = self.disk.free_bytes(self.directory()).is_ok_and(|free| free / 2 > self.bytes);
        if !room {
            return false;
        }
        let file = file.as_ref().map_or_else(|| self.disk.create(&self.path), |file| Ok(Arc::clone(file)));
        let Ok(file) = file else { return false };
        let held = self.allocate(&*file);
        *state = if held { HeadroomState::Held(file) } else { HeadroomState::Released(Some(file)) };
        held
    }

    /// Takes up what the last process left: the whole file, nothing, or (it was killed, or had
    /// other wishes) something else.
    fn take_up(&self, file: Arc<dyn File>) -> io::Result<()> {
        let length = file.len()?;
        if length > self.bytes {
            file.set_len(self.bytes)?;
        }
        // A file of the right length may have come from a backup, with holes: only `allocate`
        // knows.
        if length >= self.bytes && self.allocate(&*file) {
            *self.state() = HeadroomState::Held(file);
        } else {
            file.set_len(0)?;
            *self.state() = HeadroomState::Released(Some(file));
        }
        Ok(())
    }

    /// Takes all of it or nothing.
    fn allocate(&self, file: &dyn File) -> bool {
        let held = file.allocate(self.bytes).is_ok();
        if !held {
            // Should this fail, too, the next restore or restart comes by here again.
            let _ = file.set_len(0);
        }
        held
    }

    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    fn state(&self) -> MutexGuard<'_, HeadroomState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
