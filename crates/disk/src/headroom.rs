//! Space kept back for bad times: a file that is allocated and never written.
//!
//! When the disk is full, the store gives this space up, so that deletes, acknowledgements and
//! manifests still fit and can make room; when there is room again, it is taken back. It must never
//! be the reason why a disk is full: it is taken only while twice as much is free. It grows with
//! what is stored, and before the disk is full ([`Headroom::fit`]). The file's length is the whole
//! state, so a restart finds it as it was.

use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use myelin_stdx::sync::lock;

use super::{Disk, File, is_full};

/// Bytes that are kept back at first, and at most, unless the caller says otherwise.
pub const DEFAULT_BYTES: RangeInclusive<u64> = (256 << 10)..=(16 << 20);
/// Which part of what is stored is kept back, between the two.
const SHARE: u64 = 100;
/// While less than so many times the most is free, the most is kept back: a disk that is small, or
/// will soon be full.
const SCARCE: u64 = 64;

/// The space kept back.
#[derive(Debug)]
pub struct Headroom {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// The least and the most that is kept back.
    range: RangeInclusive<u64>,
    /// How much is to be kept back now: changed under the lock of the state.
    bytes: AtomicU64,
    state: Mutex<HeadroomState>,
}

#[derive(Debug)]
enum HeadroomState {
    Held(Arc<dyn File>),
    /// The file is empty; there is none if the disk was too full to create one.
    Released(Option<Arc<dyn File>>),
}

impl Headroom {
    /// Opens or creates the file at `path` and takes as much space as the last process had, at
    /// first what a store that is empty needs, if there is room; that there is none is no error.
    pub fn open(disk: Arc<dyn Disk>, path: &Path, range: RangeInclusive<u64>) -> io::Result<Self> {
        let headroom = Self {
            disk,
            path: path.to_owned(),
            bytes: AtomicU64::new(*range.start()),
            range,
            state: Mutex::new(HeadroomState::Released(None)),
        };
        match headroom.disk.open(path) {
            Ok(file) => headroom.take_up(file)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if !headroom.is_held() {
            headroom.bytes.store(headroom.size_for(0), Ordering::Relaxed);
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
        self.bytes.load(Ordering::Relaxed)
    }

    /// Keeps back a hundredth of the bytes that are `stored`, within its range: a share that keeps
    /// pace with what removals and positions of consumers may have to write. All of the range where
    /// little is free. Grows only while twice as much is free; becomes smaller when a quarter would
    /// do. What was given up is taken again if there is room.
    pub fn fit(&self, stored: u64) {
        let wanted = self.size_for(stored);
        if !self.is_held() {
            // Room may have come back behind the job that made it: with the last reader of a file.
            self.bytes.store(wanted, Ordering::Relaxed);
            self.restore();
            return;
        }
        let is_fit = |bytes: u64| wanted <= bytes && wanted.saturating_mul(4) > bytes;
        if is_fit(self.bytes()) {
            return;
        }
        let mut state = self.state();
        let bytes = self.bytes();
        if is_fit(bytes) {
            return;
        }
        let HeadroomState::Held(file) = &*state else { return };
        let file = Arc::clone(file);
        if wanted < bytes {
            if file.set_len(wanted).is_ok() {
                self.bytes.store(wanted, Ordering::Relaxed);
            }
        } else if self.has_twice(wanted - bytes) {
            if file.allocate(wanted).is_ok() {
                self.bytes.store(wanted, Ordering::Relaxed);
            } else if file.set_len(bytes).is_err() {
                // How much of it is allocated is not known: the next restore looks.
                *state = HeadroomState::Released(Some(file));
            }
        }
    }

    /// The least, doubled as often as a hundredth of `stored` allows; the most on a disk that is
    /// nearly full.
    fn size_for(&self, stored: u64) -> u64 {
        let (least, most) = (*self.range.start(), *self.range.end());
        if self.free_bytes().is_ok_and(|free| free / SCARCE < most) {
            return most;
        }
        let mut size = least;
        while size > 0 && size * 2 <= (stored / SHARE).min(most) {
            size *= 2;
        }
        size.min(most)
    }

    /// Bytes that are free on the disk, beside this space.
    pub fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes(self.directory())
    }

    fn has_twice(&self, bytes: u64) -> bool {
        self.free_bytes().is_ok_and(|free| free / 2 > bytes)
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
        if !self.has_twice(self.bytes()) {
            return false;
        }
        let file = file.as_ref().map_or_else(|| self.disk.create(&self.path), |file| Ok(Arc::clone(file)));
        let Ok(file) = file else { return false };
        let held = self.allocate(&*file);
        *state = if held { HeadroomState::Held(file) } else { HeadroomState::Released(Some(file)) };
        held
    }

    /// Whether the space is held, taken again if there is room, and more than twice as much is free
    /// besides: the disk is full no more.
    pub fn is_spared(&self) -> bool {
        self.restore() && self.has_twice(self.bytes())
    }

    /// Takes up what the last process left: the whole file, nothing, or (it was killed, or had
    /// other wishes) something else.
    fn take_up(&self, file: Arc<dyn File>) -> io::Result<()> {
        let length = file.len()?;
        let (least, most) = (*self.range.start(), *self.range.end());
        if length > most {
            file.set_len(most)?;
        }
        self.bytes.store(length.clamp(least, most), Ordering::Relaxed);
        // A file of the right length may have come from a backup, with holes: only `allocate`
        // knows.
        if length >= least && self.allocate(&*file) {
            *self.state() = HeadroomState::Held(file);
        } else {
            file.set_len(0)?;
            *self.state() = HeadroomState::Released(Some(file));
        }
        Ok(())
    }

    /// Takes all of it or nothing.
    fn allocate(&self, file: &dyn File) -> bool {
        let held = file.allocate(self.bytes()).is_ok();
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
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests;
