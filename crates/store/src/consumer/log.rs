//! The log behind a stream's consumers: what waits to be appended, and the file it is appended to.
//!
//! Owns the order of entries, and that a place of an encrypted file is written once: a batch that
//! found no room is offered again as it is, and a file that refused a write is replaced. It begins
//! a file by writing all states into it (`image`), so a log that cannot be appended to, or must not
//! be, is simply written anew.

use std::io;
use std::sync::Arc;

use hashbrown::HashMap;
use myelin_disk::{File, write_again};

use super::ConsumerId;
use super::entry::{LogContext, LogEntryKind};
use super::header::{self, HEADER_BYTES};
use super::image::{self, Image, LEAST_DUE, SERIAL_AFTER};
use super::open::{Fate, LogStorage, Obsolete, OpenedConsumers, OpenedLog};
use super::queue::ChangeQueue;
use super::rewrite::{Drawn, Map, Queued, Rewrite, Serials, Since, most_since, note, seal};
use super::tail::Tail;
use crate::{FileId, FileKind, Timestamp};

/// Bytes of an image that are drawn at a time: some 10,000 pending messages. A consumer is drawn as
/// a whole.
const SLICE_BYTES: usize = if cfg!(test) { 1 } else { 64 << 10 };

/// A position in a stream's consumer logs. Later positions are greater, also across files. In a
/// group it is the number of a proposal, and `file` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flushed {
    /// The number of the log.
    pub file: u64,
    /// The end of what was appended.
    pub end: u64,
}

/// The log of one stream.
#[derive(Debug)]
pub(super) struct ConsumerLog {
    place: LogStorage,
    /// The highest number that a file has had.
    highest: u64,
    state: LogState,
    /// Logs that become obsolete with the next complete file.
    current: Vec<Obsolete>,
    pub(super) changes: ChangeQueue,
    obsolete: Vec<Obsolete>,
    /// Where it pays to look again whether a checkpoint is due.
    look_at: u64,
    /// While somebody writes the log anew.
    since: Option<Since>,
}

/// State of the file: what can be done with it.
#[derive(Debug)]
enum LogState {
    /// The file is appended to.
    Open(Writable),
    /// There is none, or it must not be appended to: the next flush that has something to write
    /// begins one.
    Closed,
    /// As `Closed`, and the states in memory hold changes that wait nowhere else.
    Behind,
}

#[derive(Debug)]
struct Writable {
    number: u64,
    frame: LogContext,
    tail: Box<dyn Tail>,
    /// A batch for which there was no room. It must not change: it is sealed for its place.
    unsent: Vec<u8>,
}

impl ConsumerLog {
    /// Goes on with what was found. If it cannot be appended to, it is written anew by the next
    /// flush.
    pub(super) fn resume(place: LogStorage, opened: OpenedConsumers) -> Self {
        let OpenedConsumers { read, log, current, highest, obsolete } = opened;
        let state = match log.and_then(|log| attach(&place, log, read.end)) {
            Some(file) => LogState::Open(file),
            // What was read is shown from now on, and nobody knows whether it was synced: it has to
            // be written anew.
            None if read.report.file.is_some() => LogState::Behind,
            None => LogState::Closed,
        };
        Self {
            place,
            highest,
            state,
            current,
            changes: ChangeQueue::default(),
            obsolete,
            look_at: LEAST_DUE,
            since: None,
        }
    }

    pub(super) fn is_dirty(&self) -> bool {
        let behind = match &self.state {
            LogState::Open(file) => !file.unsent.is_empty(),
            LogState::Closed => false,
            LogState::Behind => true,
        };
        behind || !self.changes.is_empty()
    }

    /// A consumer is gone, which would take about so many bytes in a new log. `serial` as in
    /// [`ChangeQueue::remove`].
    pub(super) fn remove(&mut self, id: ConsumerId, serial: u64, size: u64) {
        // A log that was as long as many consumers need is worth a look when they are gone.
        self.look_at = self.look_at.saturating_sub(size.saturating_mul(2)).max(LEAST_DUE);
        self.changes.remove(id, serial);
    }

    pub(super) fn take_obsolete(&mut self) -> Vec<Obsolete> {
        std::mem::take(&mut self.obsolete)
    }

    pub(super) fn is_released(&self, position: Flushed) -> bool {
        self.is_at(position, |tail| tail.releasable())
    }

    pub(super) fn is_synced(&self, position: Flushed) -> bool {
        self.is_at(position, |tail| tail.durable())
    }

    fn is_at(&self, position: Flushed, come: impl Fn(&dyn Tail) -> u64) -> bool {
        match &self.state {
            LogState::Open(file) if position.file == file.number => position.end <= come(&*file.tail),
            // A log that was begun later holds all of it, and was synced.
            LogState::Open(file) => position.file < file.number,
            LogState::Closed | LogState::Behind => false,
        }
    }

    /// Whether the file that is appended to may have lost something.
    pub(super) fn has_failed(&self) -> bool {
        matches!(&self.state, LogState::Open(file) if file.tail.has_failed())
    }

    /// Has the next flush begin another file, if this one may have lost something. Answers whether
    /// one is to be begun: the one before may have failed since it was let go of.
    pub(super) fn give_up_failed(&mut self) -> bool {
        if self.has_failed() {
            self.state = LogState::Behind;
            self.since = None;
        }
        matches!(self.state, LogState::Behind)
    }

    /// Closes the file, of which nothing is needed any more.
    pub(super) fn let_go(&mut self) {
        self.since = None;
        if let LogState::Open(file) = &mut self.state {
            file.tail.abandon();
            self.state = LogState::Behind;
        }
    }

    /// Has the next flush begin another file, if there was one, or `is_needed`. What the one before
    /// has is as durable as it was until then.
    pub(super) fn fall_behind(&mut self, is_needed: bool) {
        self.since = None;
        if is_needed || matches!(self.state, LogState::Open(_)) {
            self.state = LogState::Behind;
        }
    }

    pub(super) fn flush(&mut self, consumers: &mut Map, next: u64, now: Timestamp) -> io::Result<Flushed> {
        self.flush_as(consumers, next, now, false)
    }

    /// As [`ConsumerLog::flush`]. `is_shared`: a log that is begun is safe when what was noted in
    /// the store is made durable.
    pub(super) fn flush_as(
        &mut self,
        consumers: &mut Map,
        next: u64,
        now: Timestamp,
        is_shared: bool,
    ) -> io::Result<Flushed> {
        if !matches!(self.state, LogState::Open(_)) {
            if !self.is_dirty() {
                return Ok(Flushed { file: self.highest, end: 0 });
            }
            if self.highest == 0 && self.current.is_empty() {
                return self.begin_first(consumers, next, is_shared);
            }
            return self.checkpoint(consumers, next);
        }
        let sent = self.send(now).and_then(|_| {
            self.gather(consumers);
            self.send(now)
        });
        match sent {
            // The file may have failed long ago, in a round, and nobody has appended to it since:
            // that is no reason to refuse what comes now.
            Err(_) if matches!(self.state, LogState::Behind) => self.checkpoint(consumers, next),
            sent => sent,
        }
    }

    /// Begins the first log that there ever was: without a sync of its own, if somebody vouches
    /// for what it begins with.
    fn begin_first(&mut self, consumers: &mut Map, next: u64, is_shared: bool) -> io::Result<Flushed> {
        let mut rewrite = self.begin(consumers, next);
        rewrite.draw(consumers, usize::MAX);
        let path = self.place.directory.join(header::file_name(rewrite.number));
        match self.place.tails.begin(&path, rewrite.image.end_as_changes(), is_shared) {
            Ok(Some(file)) => self.go_on_with(&rewrite, file, 0, &HashMap::default(), consumers),
            Ok(None) => {
                let file = rewrite.write()?;
                self.take_over(rewrite, file, Vec::new(), HashMap::default(), consumers)
            }
            Err(error) => {
                // If it could not be removed.
                self.current.push(Obsolete { path, fate: Fate::Remove });
                Err(error)
            }
        }
    }

    /// Appends the batch, if there is one.
    fn send(&mut self, now: Timestamp) -> io::Result<Flushed> {
        let LogState::Open(file) = &mut self.state else { return Err(io::ErrorKind::NotConnected.into()) };
        if !file.unsent.is_empty() {
            file.tail.reserve(file.unsent.len() as u64)?;
            if let Err(error) = file.tail.append(&file.unsent, now) {
                self.state = LogState::Behind;
                self.since = None;
                return Err(error);
            }
            debug_assert!(file.tail.releasable() <= file.tail.end(), "what is released was appended");
            file.unsent.clear();
        }
        Ok(Flushed { file: file.number, end: file.tail.end() })
    }

    /// Seals everything that waits into the batch.
    fn gather(&mut self, consumers: &mut Map) {
        let LogState::Open(file) = &mut self.state else { return };
        let was_noted = self.since.is_some();
        let since = &mut self.since;
        self.changes.drain(consumers, |(id, kind, serial), payload| {
            file.seal(id, kind, serial, payload);
            note(since, id, || Queued { id, kind, serial: None, payload: payload.to_vec() });
        });
        if was_noted && self.since.is_none() {
            let end = file.tail.end() + file.unsent.len() as u64;
            self.look_at = end.saturating_mul(2);
        }
    }

    /// `fresh` says about how long a new log would be, and may take a while.
    pub(super) fn checkpoint_due(&mut self, fresh: impl FnOnce() -> u64) -> bool {
        let LogState::Open(file) = &self.state else { return false };
        let end = file.tail.end();
        if end < self.look_at {
            return false;
        }
        self.look_at = (HEADER_BYTES as u64 + fresh()).saturating_mul(2).max(LEAST_DUE);
        end >= self.look_at
    }

    pub(super) fn checkpoint(&mut self, consumers: &mut Map, next: u64) -> io::Result<Flushed> {
        let mut rewrite = self.begin(consumers, next);
        rewrite.draw(consumers, usize::MAX);
        let file = rewrite.write()?;
        self.take_over(rewrite, file, Vec::new(), HashMap::default(), consumers)
    }

    /// Begins an image, which whoever calls has drawn and written; what is appended meanwhile is
    /// kept for [`ConsumerLog::finish_rewrite`]. `None` if the log cannot be appended to: then the
    /// next flush writes it anew.
    pub(super) fn begin_rewrite(
        &mut self,
        consumers: &mut Map,
        next: u64,
        now: Timestamp,
    ) -> io::Result<Option<Rewrite>> {
        self.flush(consumers, next, now)?;
        let LogState::Open(file) = &self.state else { return Ok(None) };
        let end = file.tail.end();
        // If nothing comes of it.
        self.look_at = end.saturating_mul(2);
        let rewrite = self.begin(consumers, next);
        let (through, next) = (ConsumerId(0), ConsumerId(next));
        let (number, most) = (rewrite.number, most_since(end));
        self.since = Some(Since { number, through, next, queued: Vec::new(), bytes: 0, most });
        Ok(Some(rewrite))
    }

    /// Draws a slice of the image.
    pub(super) fn draw(
        &mut self,
        rewrite: &mut Rewrite,
        consumers: &mut Map,
        next: u64,
        now: Timestamp,
    ) -> io::Result<Drawn> {
        // What is drawn has no changes that are still to be written: they would come twice.
        if let Err(error) = self.flush(consumers, next, now) {
            self.since = None;
            return Err(error);
        }
        let Some(since) = self.since.as_mut().filter(|since| since.number == rewrite.number) else {
            return Ok(Drawn::Overtaken);
        };
        rewrite.draw(consumers, SLICE_BYTES);
        // In the order of their ids.
        let left = rewrite.rest.last().map(|id| id.0).unwrap_or(rewrite.next);
        since.through = ConsumerId(left - 1);
        Ok(if rewrite.rest.is_empty() { Drawn::Whole } else { Drawn::More })
    }

    /// Adds to the file what was appended since its image was taken, and goes on with it. `None` if
    /// another one was begun meanwhile, or too much was appended.
    pub(super) fn finish_rewrite(
        &mut self,
        rewrite: Rewrite,
        file: io::Result<Arc<dyn File>>,
        consumers: &mut Map,
        next: u64,
        now: Timestamp,
    ) -> io::Result<Option<Flushed>> {
        let flushed = self.flush(consumers, next, now);
        let since = self.since.take_if(|since| rewrite.number == since.number);
        let file = file?;
        let written = match (flushed, since) {
            (Ok(_), Some(since)) => rewrite.append(&*file, &since.queued).map(Some),
            (flushed, _) => flushed.map(|_| None),
        };
        let Ok(Some((tail, serials))) = written else {
            // To give the room back. If that fails, the next start finds it.
            let _ = rewrite.disk.remove_file(&rewrite.temporary);
            return written.map(|_| None);
        };
        self.take_over(rewrite, file, tail, serials, consumers).map(Some)
    }

    /// Begins a new file. Whatever becomes of it, its number and its salt are used up.
    fn begin(&mut self, consumers: &Map, next: u64) -> Rewrite {
        self.since = None;
        let number = self.highest + 1;
        let header = self.place.new_header(number, next, None);
        let frame = LogContext::new(&header, self.place.cipher(&header));
        #[expect(clippy::disallowed_methods, reason = "they are sorted")]
        let mut rest: Vec<ConsumerId> = consumers.keys().copied().collect();
        rest.sort_unstable_by_key(|id| std::cmp::Reverse(*id));
        debug_assert!(rest.is_sorted_by(|one, next| one > next), "each consumer is drawn once");
        self.highest = number;
        let temporary = self.place.directory.join(header::temporary_name(number));
        let (disk, tails) = (Arc::clone(&self.place.disk), Arc::clone(&self.place.tails));
        Rewrite { disk, tails, number, frame, image: Image::begin(header), rest, temporary, next }
    }

    /// Gives the file its name and goes on with it. `tail` stands in it behind the image, and is
    /// synced, too.
    fn take_over(
        &mut self,
        rewrite: Rewrite,
        file: Arc<dyn File>,
        tail: Vec<u8>,
        serials: Serials,
        consumers: &mut Map,
    ) -> io::Result<Flushed> {
        let path = self.place.directory.join(header::file_name(rewrite.number));
        if let Err(error) = image::name(&*self.place.disk, &rewrite.temporary, &path) {
            // Either file may be the valid one after a loss of power, so neither is appended to.
            self.state = LogState::Behind;
            self.current.push(Obsolete { path, fate: Fate::Remove });
            return Err(error);
        }
        self.place.tails.replaced();
        self.go_on_with(&rewrite, file, tail.len(), &serials, consumers)
    }

    /// Goes on with a file that holds all that waited: an image, and so many bytes behind it.
    fn go_on_with(
        &mut self,
        rewrite: &Rewrite,
        file: Arc<dyn File>,
        behind: usize,
        serials: &Serials,
        consumers: &mut Map,
    ) -> io::Result<Flushed> {
        let number = rewrite.number;
        let path = self.place.directory.join(header::file_name(number));
        self.retire();
        #[expect(clippy::disallowed_methods, reason = "each is changed by itself")]
        for (id, consumer) in consumers.iter_mut() {
            consumer.written();
            consumer.serial = serials.get(id).copied().unwrap_or(SERIAL_AFTER);
        }
        let end = (rewrite.image.len() + behind) as u64;
        self.look_at = end.saturating_mul(2).max(LEAST_DUE);
        self.current.push(Obsolete { path: path.clone(), fate: Fate::Remove });
        let tail = self.place.tails.attach(self.file_id(number), &path, file, end)?;
        let frame = rewrite.frame.clone();
        self.state = LogState::Open(Writable { number, frame, tail, unsent: Vec::new() });
        Ok(Flushed { file: number, end })
    }

    /// Another file has taken the place of the one before, and holds all that waited.
    fn retire(&mut self) {
        if let LogState::Open(mut file) = std::mem::replace(&mut self.state, LogState::Closed) {
            file.tail.abandon();
        }
        self.obsolete.append(&mut self.current);
        self.changes.clear();
        debug_assert!(!self.is_dirty() && self.current.is_empty(), "another file holds all that waited");
    }

    fn file_id(&self, number: u64) -> FileId {
        FileId { stream: self.place.stream, kind: FileKind::Consumers(number) }
    }
}

impl Writable {
    fn seal(&mut self, id: ConsumerId, kind: LogEntryKind, serial: u64, payload: &[u8]) {
        let offset = self.tail.end();
        seal(&self.frame, &mut self.unsent, offset, (id, kind, serial), payload);
    }
}

/// Attaches to the file of a log that was read, and has its changes written again: they are written
/// already, but perhaps not synced, and whoever carries the file on believes that they are. The
/// image was synced before the file got its name. What somebody vouches for needs neither, nor does
/// what is known to have been synced.
fn attach(place: &LogStorage, log: OpenedLog, end: u64) -> Option<Writable> {
    let OpenedLog { header, file, is_synced } = log;
    let vouched = place.tails.vouched(header.number);
    if vouched > end {
        return None;
    }
    if vouched < end && !is_synced {
        write_again(&*file, header.image_end.max(vouched), end).ok()?;
        place.disk.sync_directory(&place.directory).ok()?;
    }
    let id = FileId { stream: place.stream, kind: FileKind::Consumers(header.number) };
    let path = place.directory.join(header::file_name(header.number));
    let tail = place.tails.attach(id, &path, file, end).ok()?;
    Some(Writable { number: header.number, frame: LogContext::new(&header, None), tail, unsent: Vec::new() })
}
