//! How far each stream had come, stated in two small files that are none of the streams' own.
//!
//! Recovery compares it with what it finds: what is missing is reported and never taken for a torn
//! end, and no sequence is given out twice. A slot is written in place, without a sync, some 50 ms
//! after its stream has changed ([`Watermarks::write`]); a clean stop makes all of them exact and
//! durable. A statement is a lower bound that stays true: a log only grows. It must never say more
//! than a process that comes after can find on an undamaged disk.
//!
//! Besides, it states *ahead* up to which sequence each stream may have released messages, durably
//! (`marks`): what a loss of power takes of them is then not given out again.
//!
//! What is looked at here is atomic numbers of files and streams: appends neither wait for this nor
//! know of it, unless they have come to the mark.

mod copies;
mod format;
mod marks;
mod statement;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::append_file::AppendFile;
use crate::journal::{ChangedFiles, ReplayReport};
use crate::recovery::{Notice, OpenError};
use crate::store::Directories;
use crate::stream::StreamShared;
use crate::{FileKind, SegmentNo, StreamId};

use copies::Copies;
pub(crate) use copies::{NAMES, read, store_number};
pub(crate) use format::{LogPosition, WatermarkHead, WatermarkSlot};
pub(crate) use marks::OpenedStream;
pub use marks::Reserve;
use marks::{MarkRequests, MarkState};
use myelin_disk::{Disk, is_full};
use myelin_stdx::sync::lock;
pub(crate) use statement::{After, Mark, Statement};

/// Watermarks of all streams: how far each had come, in two files of the store.
#[derive(Debug)]
pub(crate) struct Watermarks {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    boot: u64,
    reserve: Reserve,
    /// Whether the process before had the store open when it ended.
    was_in_use: bool,
    state: Mutex<WatermarkState>,
    /// Marks that have to move. Its lock is a leaf.
    asked: Mutex<MarkRequests>,
    /// One moves them at a time.
    turn: Mutex<()>,
}

#[derive(Debug)]
struct WatermarkState {
    copies: Copies,
    head: WatermarkHead,
    slots: Vec<WatermarkSlot>,
    slot_of: BTreeMap<StreamId, usize>,
    /// Slots of no stream.
    free: BTreeSet<usize>,
    /// Statements that were found, of streams that were not opened since.
    found: BTreeMap<StreamId, Statement>,
    /// For streams without a slot.
    otherwise: Statement,
    open: BTreeMap<StreamId, OpenStream>,
    /// Slots that the files do not have yet.
    unwritten: BTreeSet<usize>,
    must_write_head: bool,
    /// Whether it is durable that the store is in use.
    has_begun: bool,
    /// Why marks could not be moved, if nobody was told yet.
    trouble: Option<io::Error>,
}

/// A stream that is open.
#[derive(Debug)]
struct OpenStream {
    /// Neither is kept alive by this.
    stream: Weak<StreamShared>,
    /// Ascending: the active one, and closed ones that may not be whole on the disk.
    segments: Vec<(SegmentNo, Weak<AppendFile>)>,
    log: Option<(u64, Weak<AppendFile>)>,
    /// How many consumers there are.
    consumers: Weak<AtomicU32>,
    marked: MarkState,
    /// How it was opened, if it is not stated as long as it has no files.
    unstated: Option<OpenedStream>,
}

impl Watermarks {
    /// Reads what is there, and says durably that the store is in use.
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        root: &Path,
        (store, reserve): (u64, Reserve),
        streams: &Directories,
    ) -> Result<(Self, Vec<Notice>), OpenError> {
        let mut notices = Vec::new();
        let read = read(&**disk, root, store).map_err(|damage| OpenError::new(NAMES[0], damage))?;
        for (name, what) in &read.faults {
            notices.push(Notice::Damaged { file: (*name).to_owned(), what: what.clone() });
        }
        if read.head.is_none() && !streams.there.is_empty() {
            let what = "how far the streams had come was stated nowhere (an earlier version wrote the store, or both \
                        files are gone): what is missing at the streams' ends cannot be told";
            notices.push(Notice::Left { what: what.to_owned() });
        }
        let boot = disk.boot().unwrap_or(0);
        let serial = read.serial();
        // What was not stopped may still depend on what its head said.
        let in_use = read.head.filter(|head| !head.is_clean);
        let before = in_use.map_or(0, |head| head.ahead);
        let mut state = WatermarkState::found(read, boot);
        let ahead = reserve.ahead().max(before);
        state.head = WatermarkHead { is_clean: false, store, serial: serial + 1, boot, ahead };
        for vanished in state.forget_vanished(streams) {
            notices.push(vanished);
        }
        state.keep_doubts(streams);
        let marks = Self {
            disk: Arc::clone(disk),
            root: root.to_path_buf(),
            boot,
            reserve,
            was_in_use: in_use.is_some(),
            state: Mutex::new(state),
            asked: Mutex::default(),
            turn: Mutex::default(),
        };
        let begun = marks.begin();
        match begun {
            Err(error) if is_full(&error) => {
                let what = format!("cannot write {}: {error}; it is tried again", NAMES[0]);
                notices.push(Notice::Left { what });
            }
            begun => begun.map_err(|error| OpenError::new(NAMES[0], error))?,
        }
        Ok((marks, notices))
    }

    /// A notice where the journal has no block although a process had it open: it was begun before
    /// anything was stated here.
    pub(crate) fn misses_journal(&self, replay: &ReplayReport) -> Option<Notice> {
        (replay.is_blank && self.was_in_use).then(|| Notice::Damaged {
            file: "journal".to_owned(),
            what: "its files are missing or cannot be read, and the server had not been stopped: what was acknowledged \
                   just before may be lost"
                .to_owned(),
        })
    }

    /// From here on nothing is exact any more.
    fn begin(&self) -> io::Result<()> {
        let mut state = self.lock();
        self.write_out(&mut state)?;
        state.copies.sync()?;
        state.has_begun = true;
        Ok(())
    }

    /// Statement about a stream that is to be opened.
    pub(crate) fn statement(&self, id: StreamId) -> Statement {
        let state = self.lock();
        if let (Some(_), Some(at)) = (state.open.get(&id), state.slot_of.get(&id)) {
            // It was open in this process, which cannot have lost what it had written.
            let slot = WatermarkSlot { boot: 1, ..state.slots[*at] };
            return Statement::of(&slot, &state.head, 1).of_this_process();
        }
        state.found.get(&id).copied().unwrap_or(state.otherwise)
    }

    /// A stream was opened: it is stated from now on, first of all as it is. `files` are its
    /// segments that are not sealed, in order.
    pub(crate) fn attach(
        &self,
        id: StreamId,
        stream: &Arc<StreamShared>,
        files: &[&Arc<AppendFile>],
        opened: OpenedStream,
    ) {
        let mut state = self.lock();
        let found = state.found.remove(&id);
        let at = state.place(id);
        let before = state.open.remove(&id);
        let known = before.as_ref().map(|open| &open.marked);
        let marked = self.begin_mark(&mut state, at, (stream, opened), known);
        let (log, consumers) = before.map(|open| (open.log, open.consumers)).unwrap_or_default();
        let segments =
            files.iter().filter_map(|file| Some((segment_of(file)?, Arc::downgrade(file)))).collect();
        state.open.insert(
            id,
            OpenStream { stream: Arc::downgrade(stream), segments, log, consumers, marked, unstated: None },
        );
        if let Some(found) = found {
            // What is no fact now must not be taken for one when the consumers are opened.
            state.slots[at].log_written = found.log.1;
        }
        let before = state.slots[at].written;
        (state.slots[at].written, state.slots[at].synced) = (LogPosition::START, LogPosition::START);
        state.sample(id, self.boot);
        let is_back = state.slots[at].written < before;
        // What cannot be written now is written with what comes.
        let written = self.write_out(&mut state);
        if is_back && written.is_ok() {
            // An older statement that a loss of power brings back would be taken for damage.
            let _ = state.copies.sync();
        }
    }

    /// A stream without files was opened: it is stated once it has some.
    pub(crate) fn attach_without_files(
        &self,
        id: StreamId,
        stream: &Arc<StreamShared>,
        opened: OpenedStream,
    ) {
        let stream = Arc::downgrade(stream);
        let marked = MarkState::resting();
        let (segments, log, consumers, unstated) = (Vec::new(), None, Weak::new(), Some(opened));
        let open = OpenStream { stream, segments, log, consumers, marked, unstated };
        self.lock().open.insert(id, open);
    }

    /// A stream gets its first file. Its first message waits until its mark is stated: as long as
    /// no slot states the stream, nothing of it was given out.
    pub(crate) fn begin_stating(&self, id: StreamId) {
        let mut state = self.lock();
        let Some(open) = state.open.get_mut(&id) else { return };
        // One that nobody has open any more is stated by whoever opens it next.
        let Some(stream) = open.stream.upgrade() else { return };
        let Some(opened) = open.unstated.take() else { return };
        let at = state.place(id);
        state.slots[at].reserved = Some(opened.found);
        let marked = self.begin_mark(&mut state, at, (&stream, opened), None);
        if let Some(open) = state.open.get_mut(&id) {
            open.marked = marked;
        }
        state.sample(id, self.boot);
        // What cannot be written now is written with what comes.
        let _ = self.write_out(&mut state);
    }

    /// Whether a slot states a stream.
    pub(crate) fn is_stated(&self, id: StreamId) -> bool {
        self.lock().slot_of.contains_key(&id)
    }

    /// The consumers of a stream are open: they are counted from now on.
    pub(crate) fn count(&self, id: StreamId, consumers: &Arc<AtomicU32>) {
        let mut state = self.lock();
        if let Some(open) = state.open.get_mut(&id) {
            open.consumers = Arc::downgrade(consumers);
        }
    }

    /// A stream was deleted.
    pub(crate) fn remove(&self, id: StreamId) {
        let mut state = self.lock();
        state.forget(id);
        // The next write does it.
        let _ = self.write_out(&mut state);
    }

    /// States what has changed. What only the journal and memory hold of a file is written to it
    /// first, so that it does not go with the journal.
    pub(crate) fn write(&self, changed: &ChangedFiles) -> io::Result<()> {
        let files: Vec<Arc<AppendFile>> = changed.take().iter().filter_map(Weak::upgrade).collect();
        let mut again = Vec::new();
        let mut streams = BTreeSet::new();
        for file in files {
            if file.delist() {
                again.push(Arc::clone(&file));
            }
            if file.is_abandoned() || file.is_lost() {
                continue;
            }
            if file.durable() > file.written() {
                // What cannot be written is told to whoever appends next.
                let _ = file.flush();
            }
            streams.insert(file.id().stream);
            self.lock().enter(&file);
        }
        let written = {
            let mut state = self.lock();
            streams.iter().for_each(|id| state.sample(*id, self.boot));
            self.write_out(&mut state)
        };
        again.iter().for_each(|file| changed.push(file));
        written?;
        self.lock().trouble.take().map_or(Ok(()), Err)
    }

    /// Nothing is appended any more, and everything is synced: states all exactly, and says so.
    /// Both are durable then.
    pub(crate) fn close(&self) -> io::Result<()> {
        let mut state = self.lock();
        let ids: Vec<StreamId> = state.slot_of.keys().copied().collect();
        for id in ids {
            state.finalize(id, self.boot);
        }
        self.write_out(&mut state)?;
        state.copies.sync()?;
        state.head = WatermarkHead { is_clean: true, serial: state.next_serial(), ..state.head };
        state.must_write_head = true;
        self.write_out(&mut state)?;
        state.copies.sync()
    }

    fn write_out(&self, state: &mut WatermarkState) -> io::Result<()> {
        if state.unwritten.is_empty() && !state.must_write_head {
            return Ok(());
        }
        let is_new = state.copies.open(&*self.disk, &self.root, state.slots.len())?;
        if is_new {
            // At a start, or where that found no room for them.
            state.unwritten.extend(0..state.slots.len());
            state.must_write_head = true;
        }
        let head = state.must_write_head.then_some(&state.head);
        state.copies.write(state.head.store, head, &state.slots, &state.unwritten)?;
        if is_new {
            state.copies.sync()?;
        }
        state.unwritten.clear();
        state.must_write_head = false;
        state.check();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, WatermarkState> {
        // Whatever is half done is written again with the next change.
        lock(&self.state)
    }
}

impl WatermarkState {
    fn check(&self) {
        debug_assert!(
            self.slot_of.values().all(|at| *at < self.slots.len() && !self.free.contains(at)),
            "a stream has a slot of its own"
        );
        debug_assert!(
            self.free.last().is_none_or(|at| *at < self.slots.len()),
            "a free slot is one of the file"
        );
        debug_assert!(
            self.open.iter().all(|(id, open)| open.unstated.is_some() || self.slot_of.contains_key(id)),
            "a stream that is open and has files is stated"
        );
        debug_assert!(
            self.found.keys().all(|id| !self.open.contains_key(id)),
            "what was found is forgotten when its stream is opened"
        );
    }

    fn found(read: copies::WatermarkContents, boot: u64) -> Self {
        let otherwise = match &read.head {
            Some(head) if !head.is_clean => statement::after(false, head.boot, boot),
            _ => After::Unknown,
        };
        let head = read.head.unwrap_or_default();
        let mark = Mark::Ahead(head.ahead);
        let mut state = Self {
            copies: Copies::default(),
            head,
            slots: read.slots,
            slot_of: BTreeMap::new(),
            free: BTreeSet::new(),
            found: BTreeMap::new(),
            otherwise: Statement::nothing(otherwise, mark),
            open: BTreeMap::new(),
            unwritten: BTreeSet::new(),
            must_write_head: true,
            has_begun: false,
            trouble: None,
        };
        for at in 0..state.slots.len() {
            let slot = state.slots[at];
            if slot.stream.0 != 0 {
                state.slot_of.insert(slot.stream, at);
                state.found.insert(slot.stream, Statement::of(&slot, &head, boot));
            } else {
                state.free.insert(at);
            }
            // Without the head's word for it, what was exact is so as long as the machine runs.
            if head.is_clean && slot.is_clean {
                state.slots[at].boot = boot;
            }
            state.slots[at].is_clean = false;
        }
        if read.must_write {
            state.unwritten.extend(0..state.slots.len());
        }
        state
    }

    /// Frees the slots of streams that have no directory, or that only a replay gave one. One that
    /// was deleted has none either, but its slot is free, or its directory still has the name under
    /// which it is removed.
    fn forget_vanished(&mut self, streams: &Directories) -> Vec<Notice> {
        let is_gone = |id: &StreamId| !streams.there.contains(id) || streams.without_files.contains(id);
        let gone: BTreeMap<StreamId, Statement> =
            self.found.iter().filter(|(id, _)| is_gone(id)).map(|(id, one)| (*id, *one)).collect();
        let mut notices = Vec::new();
        for (id, stated) in gone {
            let was_deleted = streams.unfinished.contains(&id);
            if !was_deleted && matches!(stated.after, After::Stop | After::Kill) {
                let what = format!("its directory is missing; its last message was {}", stated.last_seq);
                notices.push(Notice::Damaged { file: format!("streams/{:016x}", id.0), what });
            }
            // Of one that is there without its directory, who opens it misses what is stated.
            if !streams.registered.contains(&id) {
                self.forget(id);
            }
        }
        notices
    }

    /// After a loss of power, streams without a slot get one that says so: the head will speak of
    /// this run of the machine, and this process may be killed before it has opened them.
    fn keep_doubts(&mut self, streams: &Directories) {
        if self.otherwise.after != After::PowerLoss {
            return;
        }
        for id in &streams.there {
            if !self.slot_of.contains_key(id) {
                let at = self.place(*id);
                self.mark_unwritten(at);
                self.found.insert(*id, self.otherwise);
            }
        }
    }

    fn forget(&mut self, id: StreamId) {
        self.open.remove(&id);
        self.found.remove(&id);
        if let Some(at) = self.slot_of.remove(&id) {
            self.slots[at] = WatermarkSlot::new(StreamId(0));
            let is_new = self.free.insert(at);
            debug_assert!(is_new, "a slot is given back once");
            self.mark_unwritten(at);
        }
    }

    fn next_serial(&mut self) -> u64 {
        self.head.serial += 1;
        self.head.serial
    }

    fn mark_unwritten(&mut self, at: usize) {
        self.slots[at].serial = self.next_serial();
        self.unwritten.insert(at);
    }

    /// The slot of a stream.
    fn place(&mut self, id: StreamId) -> usize {
        if let Some(&at) = self.slot_of.get(&id) {
            return at;
        }
        let at = self.free.pop_first().unwrap_or(self.slots.len());
        if at == self.slots.len() {
            self.slots.push(WatermarkSlot::new(id));
        }
        debug_assert!(self.slots[at].stream.0 == 0 || self.slots[at].stream == id, "a free slot is nobody's");
        self.slots[at] = WatermarkSlot::new(id);
        self.slot_of.insert(id, at);
        at
    }

    /// A file of an open stream was appended to.
    fn enter(&mut self, file: &Arc<AppendFile>) {
        let Some(open) = self.open.get_mut(&file.id().stream) else { return };
        match file.id().kind {
            FileKind::Segment(no) => {
                if let Err(at) = open.segments.binary_search_by_key(&no, |(no, _)| *no) {
                    open.segments.insert(at, (no, Arc::downgrade(file)));
                }
            }
            FileKind::Consumers(number) => {
                if open.log.as_ref().is_none_or(|(known, _)| *known <= number) {
                    open.log = Some((number, Arc::downgrade(file)));
                }
            }
        }
    }

    /// Looks where an open stream ends, and whether its slot says so.
    fn sample(&mut self, id: StreamId, boot: u64) {
        let (Some(open), Some(&at)) = (self.open.get_mut(&id), self.slot_of.get(&id)) else { return };
        let Some(stream) = open.stream.upgrade().filter(|stream| stream.failure().is_none()) else { return };
        let mut slot = WatermarkSlot { boot, is_clean: false, ..self.slots[at] };
        // Before the positions: what is released was written before.
        slot.last_seq = stream.release.seq();
        open.sample(&mut slot);
        if slot != self.slots[at] || slot.serial == 0 {
            self.slots[at] = slot;
            self.mark_unwritten(at);
        }
    }

    /// The last word on a stream, at a stop.
    fn finalize(&mut self, id: StreamId, boot: u64) {
        self.sample(id, boot);
        let Some(&at) = self.slot_of.get(&id) else { return };
        let is_exact = match self.open.get(&id) {
            None => self.found.get(&id).is_some_and(|found| found.after == After::Stop),
            Some(open) => {
                let messages = open.stream.upgrade().and_then(|stream| {
                    let is_whole = stream.is_whole() && open.is_synced();
                    is_whole.then(|| stream.catalog().totals().messages)
                });
                self.slots[at].messages = messages.unwrap_or(0);
                messages.is_some()
            }
        };
        self.slots[at].is_clean = is_exact;
        if is_exact && let Some(open) = self.open.get(&id) {
            self.slots[at].reserved = open.marked.at_stop(self.slots[at].last_seq, self.slots[at].reserved);
        }
        self.mark_unwritten(at);
    }
}

impl OpenStream {
    fn files(&self) -> impl Iterator<Item = (SegmentNo, Arc<AppendFile>)> {
        self.segments.iter().filter_map(|(no, file)| Some((*no, file.upgrade()?)))
    }

    /// Whether all of it is on the disk.
    fn is_synced(&self) -> bool {
        let log = self.log.as_ref().and_then(|(_, file)| file.upgrade());
        self.files().map(|(_, file)| file).chain(log).all(|file| file.durable() == file.end())
    }

    /// The first place where something may be missing: in a closed segment whose tail is in memory,
    /// or at the end.
    fn sample(&mut self, slot: &mut WatermarkSlot) {
        let files: Vec<_> = self.files().collect();
        let (mut written, mut synced) = (None, None);
        for (at, (no, file)) in files.iter().enumerate() {
            let is_last = at + 1 == files.len();
            // Nothing is appended to any but the last one.
            let (durable, kept, end) = (file.durable(), file.kept(), file.end());
            if written.is_none() && (is_last || kept < end) {
                written = Some((LogPosition { segment: *no, offset: kept }, file.generation()));
            }
            if synced.is_none() && (is_last || durable < end) {
                synced = Some(LogPosition { segment: *no, offset: durable });
            }
        }
        if let Some((position, generation)) = written
            && position >= slot.written
        {
            (slot.written, slot.generation) = (position, generation);
        }
        if let Some(position) = synced {
            slot.synced = position.max(slot.synced);
            self.segments.retain(|(no, _)| *no >= position.segment);
        }
        if let Some((number, file)) = self.log.as_ref().and_then(|(no, file)| Some((*no, file.upgrade()?))) {
            (slot.log, slot.log_written, slot.log_synced) = (number, file.kept(), file.durable());
            slot.consumers = self.consumers.upgrade().map_or(slot.consumers, |count| count.load(Relaxed));
        }
    }
}

fn segment_of(file: &AppendFile) -> Option<SegmentNo> {
    match file.id().kind {
        FileKind::Segment(no) => Some(no),
        FileKind::Consumers(_) => None,
    }
}
