//! The journal's files: which is written, which are still needed, which can be written again.
//!
//! A file is numbered anew each time it is begun. It is needed until every append-only file whose
//! bytes it holds was synced itself, and it must not be written again before a durable block says
//! that it is not needed: a replay after a torn first block would otherwise look for what is gone.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_disk::{Disk, File, is_full};

use super::block::{BLOCK_BYTES, BlockAddress, Builder, PAGE, RoundInfo};
use crate::{AppendFile, FileId, FileKind, SegmentNo, StreamId};

/// Length of a journal file that is made. It is doubled as often as it is too short, so that a
/// store that is hardly used takes little space.
const FIRST_BYTES: u64 = 128 << 10;

/// A file of the journal that may be written from its beginning.
pub(super) struct FreeFile {
    pub(super) file: Arc<dyn File>,
    pub(super) path: PathBuf,
    pub(super) capacity: u64,
}

/// A file of the journal that is or was written, under a number.
pub(super) struct Live {
    pub(super) slot: FreeFile,
    pub(super) number: u64,
    pub(super) used: u64,
    /// Files whose bytes it holds and that may not have been synced since.
    pub(super) holders: Vec<Arc<AppendFile>>,
    /// Files of them that can never be synced: the only sure copy of their bytes is here.
    pub(super) lost: Vec<Arc<AppendFile>>,
    pub(super) streams: HashSet<StreamId>,
}

impl FreeFile {
    /// Whether it takes `length` bytes, or could be made longer for them, up to `most`. On a full
    /// disk it stays as it is.
    fn grow(&mut self, length: u64, most: u64) -> bool {
        if self.capacity >= length {
            return true;
        }
        let longer = (self.capacity * 2).max(length).min(most);
        let has_grown = longer >= length && self.file.allocate(longer).is_ok();
        if has_grown {
            self.capacity = longer;
        }
        has_grown
    }
}

impl Live {
    fn room(&self) -> u64 {
        self.room_to(0)
    }

    /// Bytes that it takes once it has grown to `length`.
    fn room_to(&self, length: u64) -> u64 {
        self.slot.capacity.max(length).saturating_sub(self.used)
    }
}

/// A round on its way into blocks.
pub(super) struct Writing {
    round: u64,
    part: u32,
    /// Files of the block that is being filled.
    files: Vec<Arc<AppendFile>>,
    /// Bytes written in blocks.
    pub(super) written: u64,
    pub(super) first_number: u64,
    /// Where an abandoned round is to be taken back to.
    began_in: usize,
    began_at: u64,
}

pub(super) struct Files {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) directory: PathBuf,
    pub(super) store: u64,
    pub(super) file_bytes: u64,
    /// How many files the journal wants to have.
    pub(super) wanted: usize,
    pub(super) free: Vec<FreeFile>,
    /// Not needed, but no durable block says so yet.
    pub(super) retired: Vec<Live>,
    /// The oldest first; the last is the one that is written.
    pub(super) live: VecDeque<Live>,
    pub(super) next_number: u64,
    pub(super) next_round: u64,
    /// The last completed round.
    pub(super) previous: u64,
    /// First file that the last durable block said is needed.
    pub(super) recorded: u64,
    /// Numbers in the names of files: for the next one.
    pub(super) next_name: u64,
    pub(super) builder: Builder,
    /// Where [`Files::forget_settled`] goes on: the number of a file, and which of its holders.
    pub(super) looked_at: (u64, usize),
}

impl Files {
    /// Checks what must hold between two rounds.
    fn check(&self) {
        debug_assert!(
            self.live.iter().zip(self.live.iter().skip(1)).all(|(one, next)| one.number < next.number),
            "files are numbered upwards"
        );
        debug_assert!(self.current() < self.next_number, "a number is given out once");
        debug_assert!(self.previous < self.next_round, "a round that ended was begun");
        debug_assert!(self.recorded <= self.needed(), "a file that is not needed stays that");
        debug_assert!(
            self.live.iter().all(|live| live.used <= live.slot.capacity),
            "a file holds no more than it has room for"
        );
        debug_assert!(
            self.retired.iter().all(|live| live.number >= self.recorded),
            "what a durable block calls not needed is free"
        );
    }

    /// The number of the file that is written.
    pub(super) fn current(&self) -> u64 {
        self.live.back().map_or(0, |live| live.number)
    }

    pub(super) fn needed(&self) -> u64 {
        self.live.front().map_or(self.next_number, |live| live.number)
    }

    fn block_limit(&self) -> usize {
        usize::try_from(self.file_bytes).map_or(BLOCK_BYTES, |bytes| bytes.min(BLOCK_BYTES))
    }

    /// Bytes that can be written before a file would have to be added.
    pub(super) fn room(&self) -> u64 {
        let current = self.live.back().map_or(0, |live| live.room_to(self.file_bytes));
        let files = self.wanted.saturating_sub(self.live.len()) as u64;
        current + files * self.file_bytes
    }

    /// Whether a replay would find bytes of `stream`.
    pub(super) fn may_hold(&self, stream: StreamId) -> bool {
        self.live.iter().chain(&self.retired).any(|live| live.streams.contains(&stream))
    }

    /// Files of `stream` whose bytes the journal holds and that may not have been synced since.
    pub(super) fn holders_of(&self, stream: StreamId) -> impl Iterator<Item = &Arc<AppendFile>> {
        let live = self.live.iter().filter(move |live| live.streams.contains(&stream));
        live.flat_map(|live| live.holders.iter().chain(&live.lost))
            .filter(move |file| file.id().stream == stream)
    }

    /// Nothing of `stream` is needed any more.
    pub(super) fn abandon_stream(&mut self, stream: StreamId) {
        for live in self.live.iter_mut().filter(|live| live.streams.contains(&stream)) {
            for files in [&mut live.holders, &mut live.lost] {
                let dropped = files.extract_if(.., |file| file.id().stream == stream);
                dropped.for_each(|file| file.abandon());
            }
        }
    }

    /// Segments of `stream` with these numbers, which are sorted, are gone.
    pub(super) fn forget_segments(&mut self, stream: StreamId, numbers: &[SegmentNo]) {
        debug_assert!(numbers.is_sorted(), "numbers are searched");
        for live in self.live.iter_mut().filter(|live| live.streams.contains(&stream)) {
            for files in [&mut live.holders, &mut live.lost] {
                let gone = files.extract_if(.., |file| is_segment_of(file, stream, numbers));
                gone.for_each(|file| file.abandon());
            }
        }
    }

    /// Files whose bytes the journal holds.
    pub(super) fn held(&self) -> usize {
        self.live.iter().map(|live| live.holders.len() + live.lost.len()).sum()
    }

    /// Looks at all holders: see [`Files::forget_settled`].
    pub(super) fn forget_all_settled(&mut self) {
        self.looked_at = (0, 0);
        self.forget_settled(usize::MAX);
        self.looked_at = (0, 0);
    }

    /// Looks at the next `count` holders, and forgets those that were settled by others than the
    /// journal: it would keep them open until it comes to its file.
    pub(super) fn forget_settled(&mut self, count: usize) {
        for _ in 0..count {
            let (number, at) = self.looked_at;
            let next = self.live.partition_point(|live| live.number < number);
            let Some(live) = self.live.get_mut(next) else {
                self.looked_at = (0, 0);
                return;
            };
            let at = if live.number == number { at } else { 0 };
            self.looked_at = match live.holders.get(at) {
                None => (live.number + 1, 0),
                Some(file) if file.leave_journal(live.number) => {
                    live.holders.swap_remove(at);
                    (live.number, at)
                }
                Some(_) => (live.number, at + 1),
            };
        }
    }

    pub(super) fn begin_round(&mut self) -> Writing {
        let round = self.next_round;
        debug_assert!(round > self.previous, "rounds are numbered upwards");
        self.next_round += 1;
        self.builder.clear();
        Writing {
            round,
            part: 0,
            files: Vec::new(),
            written: 0,
            first_number: self.current(),
            began_in: self.live.len(),
            began_at: self.live.back().map_or(0, |live| live.used),
        }
    }

    /// Adds bytes of `file` that belong at `offset`; `fill` appends the given range of them to the
    /// block.
    pub(super) fn add(
        &mut self,
        writing: &mut Writing,
        file: &Arc<AppendFile>,
        offset: u64,
        length: u64,
        mut fill: impl FnMut(std::ops::Range<u64>, &mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < length {
            let room = self.builder.room(self.block_limit());
            if room == 0 {
                self.write_part(writing, false)?;
                continue;
            }
            let count = (length - done).min(room as u64);
            let chunk = u32::try_from(count).expect("a chunk fits into a block");
            let target = self.builder.begin_bytes(file.id(), file.generation(), offset + done, chunk);
            let before = target.len() as u64;
            fill(done..done + count, target)?;
            debug_assert_eq!(target.len() as u64 - before, count, "a chunk has the length that it says");
            done += count;
            writing.files.push(Arc::clone(file));
        }
        Ok(())
    }

    pub(super) fn add_dropped(&mut self, stream: StreamId) {
        self.builder.push_dropped(stream);
    }

    fn write_part(&mut self, writing: &mut Writing, is_last: bool) -> io::Result<()> {
        let length = self.builder.sealed_length() as u64;
        if !self.fits(length) {
            self.begin_file(length)?;
        }
        let head = RoundInfo {
            number: self.current(),
            round: writing.round,
            previous: self.previous,
            needed: self.needed(),
            part: writing.part,
            is_last,
        };
        let live = self.live.back_mut().expect("a file was begun above");
        assert!(live.room() >= length, "a block fits into its journal file");
        assert!(live.used.is_multiple_of(PAGE as u64), "blocks begin on pages");
        debug_assert!(writing.round > self.previous, "rounds are numbered upwards");
        let place = BlockAddress { store: self.store, number: live.number, offset: live.used };
        live.slot.file.write_at(self.builder.seal(place, head), live.used)?;
        live.used += length;
        for file in writing.files.drain(..) {
            if file.enter_journal(live.number) {
                live.streams.insert(file.id().stream);
                live.holders.push(file);
            }
        }
        self.builder.clear();
        writing.written += length;
        writing.part += 1;
        Ok(())
    }

    /// Writes the rest of a round.
    pub(super) fn finish(&mut self, writing: &mut Writing) -> io::Result<()> {
        self.write_part(writing, true)
    }

    /// Syncs what a round has written; how many files that were.
    pub(super) fn sync(&mut self, writing: &Writing) -> io::Result<u64> {
        let mut syncs = 0;
        for live in self.live.iter().filter(|live| live.number >= writing.first_number) {
            if !myelin_stdx::planted::bug(9) {
                live.slot.file.sync()?;
            }
            syncs += 1;
        }
        debug_assert!(writing.part > 0, "a round has a block");
        debug_assert!(self.previous < writing.round, "rounds end in order");
        debug_assert!(self.recorded <= self.needed(), "a file that is not needed stays that");
        self.previous = writing.round;
        self.recorded = self.needed();
        let recorded = self.recorded;
        let (free, retired) = self.retired.drain(..).partition(|live| live.number < recorded);
        self.retired = retired;
        self.free.extend(Vec::into_iter(free).map(|live: Live| {
            debug_assert!(live.number < recorded, "a file is free when a durable block does not need it");
            live.slot
        }));
        debug_assert!(syncs > 0, "a round has a file");
        self.check();
        Ok(syncs)
    }

    /// Takes back a round that did not fit. Its number is not used again, so that what it left is
    /// nobody's.
    pub(super) fn abandon(&mut self, writing: &Writing) {
        while self.live.len() > writing.began_in.max(1) {
            if let Some(live) = self.live.pop_back() {
                self.retired.push(live);
            }
        }
        if let Some(live) = self.live.back_mut().filter(|_| writing.began_in > 0) {
            debug_assert!(live.used >= writing.began_at, "a round only adds");
            live.used = writing.began_at;
        }
        debug_assert!(self.live.len() <= writing.began_in.max(1), "files of a round go with it");
        self.builder.clear();
    }

    /// Whether the file that is written takes a block of `length` bytes, or has grown for it.
    fn fits(&mut self, length: u64) -> bool {
        let Some(live) = self.live.back_mut() else { return false };
        live.room() >= length || live.slot.grow(live.used + length, self.file_bytes)
    }

    /// Begins the next file, one with room for `length` bytes.
    fn begin_file(&mut self, length: u64) -> io::Result<()> {
        let most = self.file_bytes;
        let slot = match self.free.iter_mut().position(|slot| slot.grow(length, most)) {
            Some(index) => self.free.swap_remove(index),
            None => self.create_file(FIRST_BYTES.min(most).max(length))?,
        };
        let number = self.next_number;
        self.next_number += 1;
        debug_assert!(slot.capacity >= length, "a file has room for its first block");
        debug_assert!(self.live.back().is_none_or(|last| last.number < number), "files are numbered upwards");
        self.live.push_back(Live {
            slot,
            number,
            used: 0,
            holders: Vec::new(),
            lost: Vec::new(),
            streams: HashSet::new(),
        });
        Ok(())
    }

    fn create_file(&mut self, length: u64) -> io::Result<FreeFile> {
        let path = self.directory.join(format!("{:08}.jnl", self.next_name));
        let file = self.disk.create(&path)?;
        self.next_name += 1;
        let outcome = file.allocate(length).and_then(|()| self.disk.sync_directory(&self.directory));
        if let Err(error) = outcome {
            // It holds nothing yet.
            let _ = self.disk.remove_file(&path);
            return Err(error);
        }
        Ok(FreeFile { file, path, capacity: length })
    }

    /// Begins the first file of this run, after a replay: with a block that says that no older file
    /// is needed. On a full disk a single page will do, of an older file if there is no other.
    pub(super) fn begin_anew(&mut self) -> io::Result<()> {
        let mut writing = self.begin_round();
        match self.finish(&mut writing) {
            Err(error) if is_full(&error) => {
                let slot = self.create_file(PAGE as u64);
                let slot = match slot {
                    Err(error) if is_full(&error) => self.take_page_of_old(error)?,
                    slot => slot?,
                };
                self.free.push(slot);
                // It may have been sealed already.
                self.builder.clear();
                self.finish(&mut writing)?;
            }
            outcome => outcome?,
        }
        self.sync(&writing)?;
        Ok(())
    }

    /// A page of an older file, where the disk has none: what these hold is safe where it belongs.
    /// The newest goes, for what is left is a journal in itself then; a crash before there is a new
    /// one has it replayed, which changes nothing but bytes that were erased since. Of the last one
    /// the beginning is written over: a crash within that leaves a journal whose start is missing,
    /// and that nobody needs.
    fn take_page_of_old(&mut self, full: io::Error) -> io::Result<FreeFile> {
        let newest = (0..self.retired.len()).max_by_key(|index| self.retired[*index].number);
        let Some(old) = newest.map(|index| self.retired.swap_remove(index)) else { return Err(full) };
        if self.retired.is_empty() {
            return Ok(old.slot);
        }
        // An open file keeps its space.
        let path = old.slot.path.clone();
        drop(old);
        self.disk.remove_file(&path)?;
        self.disk.sync_directory(&self.directory)?;
        self.create_file(PAGE as u64)
    }

    /// Takes over a file of an earlier run, whose bytes were replayed.
    pub(super) fn adopt(&mut self, slot: FreeFile, number: u64) {
        if number < self.recorded {
            self.free.push(slot);
            return;
        }
        self.retired.push(Live {
            slot,
            number,
            used: 0,
            holders: Vec::new(),
            lost: Vec::new(),
            streams: HashSet::new(),
        });
    }

    /// A number that no file has.
    pub(super) fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        debug_assert!(self.next_number - 1 > self.current(), "a number is given out once");
        self.next_number - 1
    }

    /// The oldest file is not needed any more.
    pub(super) fn retire_oldest(&mut self) {
        debug_assert!(
            self.live.front().is_none_or(|live| live.holders.is_empty() && live.lost.is_empty()),
            "a file that holds the only sure copy of something is needed"
        );
        self.retired.extend(self.live.pop_front());
    }
}

/// Whether a file is one of these segments of a stream, the numbers of which are sorted.
pub(super) fn is_segment_of(file: &AppendFile, stream: StreamId, numbers: &[SegmentNo]) -> bool {
    match file.id() {
        FileId { stream: of, kind: FileKind::Segment(no) } => {
            of == stream && numbers.binary_search(&no).is_ok()
        }
        FileId { kind: FileKind::Consumers(_), .. } => false,
    }
}

/// Renames a journal file that may hold the only copy of something. Nothing here touches it again.
pub(super) fn set_aside(disk: &dyn Disk, directory: &Path, path: &Path, number: u64) -> io::Result<PathBuf> {
    let kept = directory.join(format!("kept-{number:08}.jnl"));
    disk.rename(path, &kept)?;
    disk.sync_directory(directory)?;
    Ok(kept)
}
