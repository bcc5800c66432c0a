//! Reading an append-only file, and what a round of the journal does with it.
//!
//! Only the journal calls what is `pub(crate)` here, one thread at a time, holding its lock of
//! rounds.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use myelin_disk::Disk;

use super::tail::{self, FileState, Flight, Patch, Tail};
use super::{AppendFile, OnDurable, WriteFailed};

/// Share of a dirty file in a round.
pub(crate) struct RoundInput {
    pub(crate) file: Arc<AppendFile>,
    /// When the oldest of it was appended.
    pub(crate) since: u64,
    /// Appended and not durable.
    pub(crate) range: Range<u64>,
    pub(crate) patches: Vec<Patch>,
}

impl RoundInput {
    pub(crate) fn pending(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// Takes back what is in flight where writing it panics: who waits for it would wait for ever.
struct Landing<'a>(&'a AppendFile);

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        self.0.lock().call_back();
        self.0.flushed.notify_all();
    }
}

impl AppendFile {
    /// Reads what was appended, from memory or the file; fewer bytes than asked for only at the
    /// end.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let length = self.readable(buffer.len(), offset);
        self.read(&mut buffer[..length], offset, |part, at| {
            exactly(self.file.read_at(part, at)?, part.len())
        })?;
        Ok(length)
    }

    /// As [`AppendFile::read_at`], but `None` where it would have to wait for the device.
    pub fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let length = self.readable(buffer.len(), offset);
        let mut complete = true;
        self.read(&mut buffer[..length], offset, |part, at| {
            match self.file.read_cached_at(part, at)? {
                Some(count) => exactly(count, part.len())?,
                None => complete = false,
            }
            Ok(())
        })?;
        Ok(complete.then_some(length))
    }

    fn readable(&self, length: usize, offset: u64) -> usize {
        self.end().saturating_sub(offset).min(length as u64) as usize
    }

    fn read(
        &self,
        buffer: &mut [u8],
        offset: u64,
        mut from_file: impl FnMut(&mut [u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let in_file = offset + buffer.len() as u64 <= self.written();
        if in_file && !self.patched.load(Ordering::Acquire) {
            return from_file(buffer, offset);
        }
        // Bytes that are in the file do not change, save by patches, and these are laid over what
        // is read.
        let (parts, patches) = {
            let tail = self.lock();
            (tail.gather(buffer, offset), tail.patches.clone())
        };
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let at = offset + part.start as u64;
            from_file(&mut buffer[part], at)?;
        }
        for patch in patches {
            patch.lay_over(buffer, offset);
        }
        Ok(())
    }

    /// Leaves the dirty state. `None` if nothing can or needs to become durable.
    pub(crate) fn take(self: &Arc<Self>) -> Option<RoundInput> {
        let since = self.marks.since.load(Ordering::Acquire);
        self.marks.dirty.swap(false, Ordering::AcqRel);
        let tail = self.lock();
        tail.check_kept().ok()?;
        let taken = RoundInput {
            file: Arc::clone(self),
            since,
            range: self.durable.load(Ordering::Acquire)..tail.end(),
            patches: tail.patches.clone(),
        };
        debug_assert!(taken.range.start <= taken.range.end, "what is durable was appended");
        (!taken.range.is_empty() || !taken.patches.is_empty()).then_some(taken)
    }

    /// When the oldest append came that is not durable, if there is one.
    pub(crate) fn dirty_since(&self) -> Option<u64> {
        self.marks.dirty.load(Ordering::Acquire).then(|| self.marks.since.load(Ordering::Acquire))
    }

    /// Enters it among those whose end is to be stated; whether it was not there yet.
    pub(crate) fn enlist(&self) -> bool {
        !self.marks.listed.swap(true, Ordering::AcqRel)
    }

    /// Takes it out again. Answers whether it has to be looked at once more: whatever is appended
    /// to a dirty file does not enlist it.
    pub(crate) fn delist(&self) -> bool {
        self.marks.listed.store(false, Ordering::Release);
        self.marks.dirty.load(Ordering::Acquire)
    }

    /// Where everything that a process found after this one was killed would end: in the file, or
    /// in the journal.
    pub(crate) fn kept(&self) -> u64 {
        self.written().max(self.durable())
    }

    /// As [`AppendFile::append`] does when it finds the file clean; for a round that could not take
    /// everything.
    pub(crate) fn remain_dirty(self: &Arc<Self>, since: u64) {
        self.mark_dirty(since);
    }

    /// Adds the bytes of `range` to `target`, as they were appended (without patches).
    pub(crate) fn copy_into(&self, range: Range<u64>, target: &mut Vec<u8>) -> io::Result<()> {
        let start = target.len();
        target.resize(start + (range.end - range.start) as usize, 0);
        let buffer = &mut target[start..];
        let parts = self.lock().gather(buffer, range.start);
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let at = range.start + part.start as u64;
            let buffer = &mut buffer[part];
            exactly(self.file.read_at(buffer, at)?, buffer.len())?;
        }
        Ok(())
    }

    /// Writes the tail and syncs the file, and the directory of a new one. Gives the position that
    /// is durable now. `number` is the current journal file.
    pub(crate) fn sync_directly(&self, disk: &dyn Disk, number: u64) -> Result<u64, WriteFailed> {
        let failed = |error: io::Error| WriteFailed::new(&self.path, &error);
        let (end, is_new, is_noted) = self.launch_and(|tail| {
            let is_noted = !tail.is_new && !tail.unsettled && tail.synced_in == number;
            (tail.start, tail.is_new, is_noted)
        })?;
        debug_assert!(end <= self.end(), "what is synced was appended");
        if !myelin_stdx::planted::bug(1) {
            self.file.sync().map_err(failed)?;
        }
        if is_new {
            // The directory of a stream's first file is as new as the file.
            let mut above = self.path.ancestors().skip(1).take(2);
            above.try_for_each(|directory| disk.sync_directory(directory)).map_err(failed)?;
        }
        // Perf: appends hold this lock as well, and each wait for it makes the round longer.
        if !is_noted {
            let mut tail = self.lock();
            tail.is_new = false;
            tail.unsettled = false;
            tail.synced_in = number;
        }
        self.durable.fetch_max(end, Ordering::AcqRel);
        Ok(end)
    }

    /// Writes the tail while appends go on. Gives what `look` sees then: `start` is where the file
    /// is written to.
    fn launch_and<T>(&self, look: impl FnOnce(&Tail) -> T) -> Result<T, WriteFailed> {
        let tail = self.without_flight(self.lock());
        tail.check_kept()?;
        let (tail, outcome) = self.launch(tail);
        match outcome {
            Ok(()) => Ok(look(&tail)),
            Err(error) => Err(self.lost_by(tail, &error)),
        }
    }

    /// Writes the tail while appends go on.
    pub(crate) fn launch_tail(&self) -> Result<(), WriteFailed> {
        self.launch_and(|_| ())
    }

    /// As [`AppendFile::launch_tail`], for the thread that appends: what cannot be written stays in
    /// memory, and may be written later. A round that comes meanwhile does not wait for the lock.
    ///
    /// Perf: with 4,096 messages in flight the lock that was held for the write made rounds wait
    /// until nothing more was to be appended, and appends wait for one long sync then.
    pub(super) fn spill<'a>(
        &'a self,
        tail: MutexGuard<'a, Tail>,
    ) -> Result<MutexGuard<'a, Tail>, WriteFailed> {
        let tail = self.without_flight(tail);
        tail.check()?;
        let (mut tail, outcome) = self.launch(tail);
        let Err(error) = outcome else { return Ok(tail) };
        let failed = WriteFailed::new(&self.path, &error);
        // Nothing was appended behind it: whoever appends is here.
        debug_assert!(tail.flight.is_none() || tail.bytes.is_empty(), "nobody else appends");
        tail.call_back();
        if tail.check_kept().is_ok() {
            tail.state = FileState::Refusing(failed.clone());
        }
        drop(tail);
        self.flushed.notify_all();
        Err(failed)
    }

    /// Writes what the tail holds without holding its lock. After an error it is still in flight.
    fn launch<'a>(&'a self, mut tail: MutexGuard<'a, Tail>) -> (MutexGuard<'a, Tail>, io::Result<()>) {
        debug_assert!(tail.flight.is_none(), "one part of a tail is written at a time");
        let start = tail.start;
        if tail.bytes.is_empty() {
            return (tail, Ok(()));
        }
        let spare = std::mem::take(&mut tail.spare);
        let bytes = Arc::new(std::mem::replace(&mut tail.bytes, spare));
        let length = bytes.len() as u64;
        tail.start += length;
        tail.flight = Some(Flight { start, bytes: Arc::clone(&bytes) });
        drop(tail);
        let landing = Landing(self);
        let outcome = self.file.write_at(&bytes, start);
        std::mem::forget(landing);
        drop(bytes);
        let mut tail = self.lock();
        if let Err(error) = outcome {
            return (tail, Err(error));
        }
        let flight = tail.flight.take().and_then(|flight| Arc::try_unwrap(flight.bytes).ok());
        tail.spare = tail::reusable(flight.unwrap_or_default());
        self.written.store(tail.written(), Ordering::Release);
        self.count_tail(|counter| counter.fetch_sub(length, Ordering::Relaxed));
        self.flushed.notify_all();
        (tail, Ok(()))
    }

    fn lost_by(&self, mut tail: MutexGuard<'_, Tail>, error: &io::Error) -> WriteFailed {
        let failed = WriteFailed::new(&self.path, error);
        tail.state = FileState::Lost(failed.clone());
        drop(tail);
        self.flushed.notify_all();
        failed
    }

    /// The tail when nothing of it is being written by another thread. What is in flight of a lost
    /// file stays there.
    pub(super) fn without_flight<'a>(&'a self, mut tail: MutexGuard<'a, Tail>) -> MutexGuard<'a, Tail> {
        while tail.flight.is_some() && tail.check_kept().is_ok() {
            tail = self.flushed.wait(tail).unwrap_or_else(PoisonError::into_inner);
        }
        tail
    }

    /// The journal holds everything before `end` and `patches`, durably. Puts the patches into the
    /// file.
    pub(crate) fn journaled(&self, end: u64, patches: &[Patch]) -> Result<(), WriteFailed> {
        let mut tail = self.lock();
        if !patches.is_empty() {
            // They must not be overtaken by older bytes for the same place.
            tail = self.without_flight(tail);
            tail.check_kept()?;
        }
        debug_assert!(end <= tail.end(), "what the journal holds was appended");
        tail.unsettled |= !tail.is_whole || !patches.is_empty();
        tail.patchings += u64::from(!patches.is_empty());
        for patch in patches {
            let patch_end = patch.offset + patch.bytes.len() as u64;
            debug_assert!(patch_end <= tail.end(), "only what was appended is replaced");
            let in_file = tail.start.clamp(patch.offset, patch_end);
            let (file_part, tail_part) = patch.bytes.split_at((in_file - patch.offset) as usize);
            if let Err(error) = self.file.write_at(file_part, patch.offset) {
                let failed = WriteFailed::new(&self.path, &error);
                tail.state = FileState::Lost(failed.clone());
                return Err(failed);
            }
            if !tail_part.is_empty() {
                let place = (in_file - tail.start) as usize;
                tail.bytes[place..place + tail_part.len()].copy_from_slice(tail_part);
            }
        }
        tail.patches.drain(..patches.len());
        self.patched.store(!tail.patches.is_empty(), Ordering::Release);
        let is_settled = matches!(tail.state, FileState::Replaced) || !tail.unsettled;
        drop(tail);
        if is_settled {
            // The round has just entered it into the journal.
            self.notify_settled();
        }
        self.durable.fetch_max(end, Ordering::AcqRel);
        Ok(())
    }

    /// Notes that journal file `number` holds bytes of it; whether it did not before.
    pub(crate) fn enter_journal(&self, number: u64) -> bool {
        let mut tail = self.lock();
        debug_assert!(number > 0, "journal files are numbered from 1");
        let is_first = tail.journaled_in != number;
        tail.journaled_in = number;
        is_first
    }

    /// Writes what is in memory only, and takes part in nothing any more: another takes over the
    /// file. The journal must not have a round on its way. An error says that released bytes are in
    /// memory or in the journal only.
    pub(crate) fn leave(&self) -> Result<(), WriteFailed> {
        let mut tail = self.lock();
        if matches!(tail.state, FileState::Abandoned) {
            return Ok(());
        }
        let kept = tail.check_kept().and_then(|()| self.write_tail(&mut tail));
        if self.written() < self.releasable().max(self.durable()) {
            kept?;
        }
        tail.state = FileState::Abandoned;
        drop(tail);
        self.notify_settled();
        Ok(())
    }

    /// Counts rounds that have left bytes that replace others to a later sync of the file: for
    /// [`AppendFile::mark_synced`].
    pub(crate) fn patchings(&self) -> u64 {
        self.lock().patchings
    }

    /// Another than the journal has written all of the closed file and synced it, after `patchings`
    /// was asked. The journal lets go of it, also a round that is on its way with bytes of it.
    pub(crate) fn mark_synced(&self, patchings: u64) {
        let mut tail = self.lock();
        if !matches!(tail.state, FileState::Closed) {
            return;
        }
        tail.is_whole = true;
        let is_settled = tail.patchings == patchings;
        if is_settled {
            tail.unsettled = false;
        }
        let end = tail.end();
        drop(tail);
        if is_settled {
            self.notify_settled();
        }
        self.synced_by_another(end);
    }

    /// A round has nothing to do for the file now, but for bytes that replace others: who waits for
    /// one hears of it here.
    fn synced_by_another(&self, end: u64) {
        if self.durable.fetch_max(end, Ordering::AcqRel) < end
            && let Some(listener) = self.listener()
        {
            listener.durable(self.id, end);
        }
    }

    /// Another file that is durable has taken the place of this closed one. The journal lets go of
    /// it.
    pub(crate) fn replace(&self) {
        let mut tail = self.lock();
        if matches!(tail.state, FileState::Closed) {
            tail.state = FileState::Replaced;
            let end = tail.end();
            drop(tail);
            self.notify_settled();
            self.synced_by_another(end);
        }
    }

    /// Writes what memory has of a lost file, as far as it was appended.
    pub(crate) fn write_memory(&self) -> io::Result<()> {
        let tail = self.lock();
        if let Some(flight) = &tail.flight {
            self.file.write_at(&flight.bytes, flight.start)?;
        }
        self.file.write_at(&tail.bytes, tail.start)
    }

    /// Whether journal file `number` holds nothing of it that could be needed again.
    pub(crate) fn is_settled(&self, number: u64) -> bool {
        self.lock().is_settled(number)
    }

    /// As [`AppendFile::is_settled`]; if so, journal file `number` may forget it: it enters anew
    /// with its next bytes.
    pub(crate) fn leave_journal(&self, number: u64) -> bool {
        let mut tail = self.lock();
        let is_settled = tail.is_settled(number);
        if is_settled && tail.journaled_in == number {
            tail.journaled_in = 0;
        }
        is_settled
    }

    /// Whether the file itself may lose bytes that count: the journal has them, and forgets them
    /// with it, or they are released and no round has taken them yet.
    pub(crate) fn needs_sync(&self) -> bool {
        let tail = self.lock();
        (tail.unsettled || self.durable() < self.releasable()) && tail.check_kept().is_ok()
    }

    /// Whether nothing of it counts any more: it is to be removed, or another has taken it over.
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self.lock().state, FileState::Abandoned)
    }

    /// Whether its bytes can never be settled.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.lock().state, FileState::Lost(_))
    }

    /// Nothing can be said about the file any more.
    pub(crate) fn lose(&self, failed: &WriteFailed) {
        let mut tail = self.lock();
        if !matches!(tail.state, FileState::Abandoned) {
            tail.state = FileState::Lost(failed.clone());
        }
        drop(tail);
        self.flushed.notify_all();
    }

    pub(crate) fn listener(&self) -> Option<Arc<dyn OnDurable>> {
        self.on_durable.as_ref()?.upgrade()
    }
}

fn exactly(count: usize, wanted: usize) -> io::Result<()> {
    if count == wanted { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
