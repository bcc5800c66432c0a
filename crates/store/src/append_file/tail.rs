//! The part of an append-only file that is in memory: bytes not written yet, and bytes that replace
//! others.
//!
//! Owned by its file's lock. It must never write or sync by itself.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::WriteFailed;

const SMALLEST_STEP: u64 = 4 * 1024;
pub(super) const LARGEST_STEP: u64 = 4 * 1024 * 1024;
/// A tail's buffer that has grown beyond this is given back when it was written, so that idle
/// streams hold little.
const KEPT_CAPACITY: usize = super::TAIL_BYTES;

/// State of a file: what may still be done with it.
pub(super) enum FileState {
    /// Appends are welcome.
    Open,
    /// Complete. It still has to become durable.
    Closed,
    /// A write failed: no more appends. What was appended before can still become durable.
    Refusing(WriteFailed),
    /// A sync failed: nothing can be said about its bytes any more.
    Lost(WriteFailed),
    /// Complete, and another file with all that it holds has taken its place: only bytes that
    /// replace others still count.
    Replaced,
    /// To be removed.
    Abandoned,
}

/// Bytes that replace others, until they are in the journal and in the file.
#[derive(Clone)]
pub(crate) struct Patch {
    pub(crate) offset: u64,
    pub(crate) bytes: Arc<[u8]>,
}

/// Bytes that a round is writing without holding the lock.
pub(super) struct Flight {
    pub(super) start: u64,
    pub(super) bytes: Arc<Vec<u8>>,
}

impl Flight {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

pub(super) struct Tail {
    /// Where `bytes` belong in the file.
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
    /// The buffer of the last flight, for the next one.
    pub(super) spare: Vec<u8>,
    pub(super) flight: Option<Flight>,
    pub(super) patches: Vec<Patch>,
    pub(super) state: FileState,
    /// Length up to which the file was allocated, and how far ahead the next time.
    pub(super) allocated: u64,
    pub(super) step: u64,
    /// Whether the directory does not know the file for sure.
    pub(super) is_new: bool,
    /// Whether the journal holds bytes that the file itself may lose.
    pub(super) unsettled: bool,
    /// Counts rounds after which that was so for bytes that replace others.
    pub(super) patchings: u64,
    /// Whether the file itself has all that was appended, durably, and no more can be: rounds that
    /// were on their way then have nothing to add but bytes that replace others.
    pub(super) is_whole: bool,
    /// The journal file that last took bytes of it (0: none), and the one that was current when it
    /// was last synced.
    pub(super) journaled_in: u64,
    pub(super) synced_in: u64,
}

impl Tail {
    pub(super) fn new(end: u64, is_new: bool) -> Self {
        Self {
            start: end,
            bytes: Vec::new(),
            spare: Vec::new(),
            flight: None,
            patches: Vec::new(),
            state: FileState::Open,
            allocated: end,
            step: SMALLEST_STEP,
            is_new,
            unsettled: false,
            patchings: 0,
            is_whole: false,
            journaled_in: 0,
            synced_in: 0,
        }
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Checks what must hold whenever the lock is free.
    pub(super) fn check_parts(&self) {
        debug_assert!(
            self.flight.as_ref().is_none_or(|flight| flight.end() == self.start),
            "what is being written comes right before what waits"
        );
        debug_assert!(self.spare.is_empty(), "spare memory is empty");
        debug_assert!(
            self.patches.iter().all(|patch| !patch.bytes.is_empty()),
            "bytes that replace others are some"
        );
        debug_assert!(
            self.patches.iter().all(|patch| patch.offset + patch.bytes.len() as u64 <= self.end()),
            "only what was appended is replaced"
        );
    }

    pub(super) fn written(&self) -> u64 {
        self.flight.as_ref().map_or(self.start, |flight| flight.start)
    }

    /// Bytes in memory.
    pub(super) fn held(&self) -> u64 {
        (self.bytes.len() + self.flight.as_ref().map_or(0, |flight| flight.bytes.len())) as u64
    }

    /// Takes what is in flight back into the tail, in front of what waits: as if nobody had tried
    /// to write it.
    pub(super) fn call_back(&mut self) {
        let Some(flight) = self.flight.take() else { return };
        let waiting = std::mem::replace(&mut self.bytes, Arc::unwrap_or_clone(flight.bytes));
        self.start = flight.start;
        self.bytes.extend_from_slice(&waiting);
    }

    /// Whether appends are welcome.
    pub(super) fn check(&self) -> Result<(), WriteFailed> {
        match &self.state {
            FileState::Open => Ok(()),
            FileState::Closed | FileState::Replaced | FileState::Abandoned => Err(closed()),
            FileState::Refusing(failed) | FileState::Lost(failed) => Err(failed.clone()),
        }
    }

    /// Whether what was appended can still be written.
    pub(super) fn check_kept(&self) -> Result<(), WriteFailed> {
        match &self.state {
            FileState::Open | FileState::Closed | FileState::Replaced | FileState::Refusing(_) => Ok(()),
            FileState::Abandoned => Err(closed()),
            FileState::Lost(failed) => Err(failed.clone()),
        }
    }

    /// Whether journal file `number` holds nothing of the file that could be needed again.
    pub(super) fn is_settled(&self, number: u64) -> bool {
        match self.state {
            FileState::Abandoned => true,
            FileState::Replaced => self.patches.is_empty(),
            FileState::Lost(_) => false,
            _ => !self.unsettled || self.synced_in > number,
        }
    }

    /// Forgets `bytes`, which are in the file now.
    pub(super) fn clear_written(&mut self, length: u64) {
        debug_assert_eq!(length, self.bytes.len() as u64, "a tail is written as a whole");
        debug_assert!(self.flight.is_none(), "one write at a time");
        self.start += length;
        self.bytes = reusable(std::mem::take(&mut self.bytes));
    }

    /// Copies what is in memory of `offset..` into `buffer`, and gives the ranges of `buffer` that
    /// only the file has.
    pub(super) fn gather(&self, buffer: &mut [u8], offset: u64) -> [Range<usize>; 2] {
        let end = offset + buffer.len() as u64;
        debug_assert!(end <= self.end(), "only what was appended is read");
        let place = |position: u64| (position.clamp(offset, end) - offset) as usize;
        let tail = place(self.start)..place(self.end());
        copy(&mut buffer[tail.clone()], &self.bytes, offset, self.start);
        let Some(flight) = &self.flight else {
            return [0..tail.start, tail.start..tail.start];
        };
        let flying = place(flight.start)..place(flight.end());
        debug_assert!(flying.end <= tail.start, "what is being written comes before what waits");
        copy(&mut buffer[flying.clone()], &flight.bytes, offset, flight.start);
        [0..flying.start, flying.end..tail.start]
    }
}

impl Patch {
    /// Copies what overlaps `buffer`, the bytes at `offset`.
    pub(super) fn lay_over(&self, buffer: &mut [u8], offset: u64) {
        let from = self.offset.max(offset);
        let to = (self.offset + self.bytes.len() as u64).min(offset + buffer.len() as u64);
        if from < to {
            let source = (from - self.offset) as usize..(to - self.offset) as usize;
            buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(&self.bytes[source]);
        }
    }
}

/// `bytes` to be filled again, unless they have grown too large to keep.
pub(super) fn reusable(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.clear();
    debug_assert!(bytes.is_empty(), "a buffer to be filled again is empty");
    if bytes.capacity() > KEPT_CAPACITY { Vec::new() } else { bytes }
}

/// Fills `target`, the part of a buffer beginning at `offset` that overlaps `source` beginning at
/// `start`.
fn copy(target: &mut [u8], source: &[u8], offset: u64, start: u64) {
    let skip = offset.saturating_sub(start) as usize;
    let length = target.len();
    if length > 0 {
        target.copy_from_slice(&source[skip..skip + length]);
    }
}

fn closed() -> WriteFailed {
    let error = io::Error::new(io::ErrorKind::InvalidInput, "the file is closed");
    WriteFailed::new(std::path::Path::new(""), &error)
}
