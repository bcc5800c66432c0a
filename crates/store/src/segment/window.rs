//! A part of a file in memory that moves forward as a scan does.
//!
//! Owns one buffer. It grows beyond 1 MiB only for an entry or a batch that is longer, and never
//! beyond the file.

use crate::lengths::in_memory;
use std::io;

use myelin_disk::File;

use crate::record::{self, EntryHead, FileContext, HEAD_BYTES};

/// Bytes that are read at once, beyond what is needed.
const PIECE: usize = 1 << 20;

/// Bytes that are given up at once where the device cannot read.
const SECTOR: usize = 4096;

#[derive(Debug)]
pub(super) struct ScanWindow<'a> {
    file: &'a dyn File,
    /// Where the scan ends. Less than it was told, if the file is shorter.
    end: u64,
    /// The file offset of the buffer.
    start: u64,
    /// Whether what cannot be read becomes bytes that are no entry.
    tolerant: bool,
    buffer: Vec<u8>,
    /// Bytes that a search may still spend on checksums. Payloads can be made of what looks like
    /// heads of long entries.
    budget: u64,
}

impl<'a> ScanWindow<'a> {
    pub(super) fn new(file: &'a dyn File, end: u64, tolerant: bool) -> Self {
        let budget = end.saturating_mul(16).saturating_add(64 << 20);
        Self { file, end, start: 0, tolerant, buffer: Vec::new(), budget }
    }

    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// The file from `place` on: at least `wanted` bytes, or all there are. What is before `keep`
    /// is given up.
    #[inline]
    pub(super) fn bytes(&mut self, keep: u64, place: u64, wanted: usize) -> io::Result<&mut [u8]> {
        let held = self.start..self.start + self.buffer.len() as u64;
        if place < held.start || place + wanted as u64 > held.end {
            self.fetch(keep, place, wanted)?;
        }
        let begin = in_memory(place - self.start);
        Ok(self.buffer.get_mut(begin..).unwrap_or_default())
    }

    #[cold]
    fn fetch(&mut self, keep: u64, place: u64, wanted: usize) -> io::Result<()> {
        let held_end = self.start + self.buffer.len() as u64;
        if keep < self.start || keep >= held_end {
            self.buffer.clear();
            self.start = keep;
        } else {
            self.buffer.drain(..in_memory(keep - self.start));
            self.start = keep;
        }
        let have = self.buffer.len();
        let ahead = in_memory(place - keep) + wanted + PIECE;
        let most = usize::try_from(self.end.saturating_sub(keep)).unwrap_or(usize::MAX);
        let target = ahead.min(most);
        if target <= have {
            return Ok(());
        }
        self.buffer.resize(target, 0);
        let read = match self.file.read_at(&mut self.buffer[have..], keep + have as u64) {
            Err(_) if self.tolerant => self.read_what_can_be_read(have),
            read => read?,
        };
        self.buffer.truncate(have + read);
        Ok(())
    }

    /// Reads sector by sector. An unreadable one is filled with bytes that no head has, and that
    /// are not zeros, which might pass for the end.
    fn read_what_can_be_read(&mut self, have: usize) -> usize {
        let mut offset = self.start + have as u64;
        for piece in self.buffer[have..].chunks_mut(SECTOR) {
            let read = self.file.read_at(piece, offset).unwrap_or(0);
            piece[read..].fill(0xff);
            offset += piece.len() as u64;
        }
        self.buffer.len() - have
    }

    /// The head of the entry at `place`, if a valid one stands there.
    #[inline]
    pub(super) fn entry(
        &mut self,
        keep: u64,
        place: u64,
        context: &FileContext,
    ) -> io::Result<Option<EntryHead>> {
        let Some(head) = record::peek(self.bytes(keep, place, HEAD_BYTES)?) else { return Ok(None) };
        if place + head.size() as u64 > self.end {
            return Ok(None);
        }
        let bytes = self.bytes(keep, place, head.size())?;
        Ok(record::verify_behind(&head, bytes, context).is_ok().then_some(head))
    }

    /// The first place at or behind `from` where a valid entry stands. `None` too if the search
    /// becomes too long.
    pub(super) fn next_entry(&mut self, from: u64, context: &FileContext) -> io::Result<Option<u64>> {
        let mut place = from;
        while place < self.end {
            let bytes = self.bytes(place, place, HEAD_BYTES)?;
            let heads = bytes.windows(HEAD_BYTES);
            let scanned = heads.len().max(1) as u64;
            let found = (0u64..).zip(heads).find_map(|(skip, window)| Some((skip, record::peek(window)?)));
            let Some((skip, head)) = found else {
                place += scanned;
                continue;
            };
            place += skip;
            let size = head.size() as u64;
            if place + size <= self.end {
                let Some(left) = self.budget.checked_sub(size) else { return Ok(None) };
                self.budget = left;
                if self.entry(place, place, context)?.is_some() {
                    return Ok(Some(place));
                }
            }
            place += 1;
        }
        Ok(None)
    }

    /// Whether there are only zeros from `place` to the end.
    pub(super) fn is_zero_from(&mut self, place: u64) -> io::Result<bool> {
        let mut place = place;
        while place < self.end {
            let bytes = self.bytes(place, place, 1)?;
            if bytes.is_empty() || bytes.iter().fold(0, |all, byte| all | byte) != 0 {
                return Ok(bytes.is_empty());
            }
            place += bytes.len() as u64;
        }
        Ok(true)
    }
}
