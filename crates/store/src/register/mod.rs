//! The register: which streams were made and removed, before they have files of their own.
//!
//! Owns `register` and `register.copy`. An entry is appended to both and synced in the first one,
//! one sync for all that wait; the copy is there for what damages the first one later. A stream
//! gets its directory and the two copies of its `meta` when it has something to store
//! ([`Register::make_files`]), without a sync: until a start has found them durable
//! ([`Register::settle`]), the register says what they have to.
//!
//! The register must never say that a stream is there before its entry is durable, nor let an entry
//! go whose stream has no durable `meta`.

mod format;
mod logs;
mod read;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use myelin_disk::headroom::Headroom;
use myelin_disk::{Disk, File};
use myelin_stdx::sync::lock;

use crate::StreamId;
use crate::consumer::{FIRST_LOG, LogFileName, read_name};
use crate::entropy::Entropy;
use crate::meta::{MARKER, MARKER_COPY, META_COPIES, Marker, Meta};
use crate::recovery::stream_directory;

use format::{RegisterEntry, RegisterHeader, VERSION};
pub(crate) use logs::write_log;
pub(crate) use read::{RegisterContents, read};

/// The two copies, in the order in which they are written.
pub(crate) const NAMES: [&str; 2] = ["register", "register.copy"];

/// Bytes that are allocated ahead, at first and at most.
const FIRST_STEP: u64 = 16 << 10;
const LARGEST_STEP: u64 = 1 << 20;
/// Bytes of entries that say nothing any more, beside as many that do, before both files are
/// written anew.
const MOST_DEAD: u64 = 1 << 20;

/// Streams with files of which a start lets go in any case, and bytes of entries beyond which it
/// lets go of others: those of 5,000 streams stay.
const SETTLED_AT_LEAST: usize = 16;
const MOST_KEPT: u64 = 8 << 20;

/// Which streams there are that may have no durable `meta`.
#[derive(Debug)]
pub(crate) struct Register {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    store: u64,
    /// Whether the start found one, or should have.
    is_there: bool,
    /// Files, and where they end. Not held over a sync of an entry.
    state: Mutex<RegisterState>,
    /// Streams. Its lock is a leaf.
    streams: Mutex<RegisteredStreams>,
    /// One makes the files of streams at a time.
    making: Mutex<()>,
    /// One syncs at a time; those who wait find theirs synced.
    syncing: Mutex<()>,
}

#[derive(Debug, Default)]
struct RegisterState {
    /// `None`: there are none, or none that can be gone on with.
    files: Option<[Arc<dyn File>; 2]>,
    /// Whether the marker of the store says that there is a register.
    is_announced: bool,
    number: u64,
    seed: u32,
    end: u64,
    allocated: u64,
    step: u64,
    next_serial: u64,
    /// Bytes of entries that say nothing any more.
    dead: u64,
    /// Up to here the first file is synced.
    synced: u64,
}

/// Streams in the order of their ids, in which they stand in a register that is written anew.
#[derive(Debug, Default)]
struct RegisteredStreams {
    there: BTreeMap<StreamId, RegisteredStream>,
    /// Streams that were removed, as long as files of theirs may be left.
    removed: BTreeSet<StreamId>,
}

#[derive(Clone, Debug)]
struct RegisteredStream {
    /// Body of its `meta`.
    body: Arc<[u8]>,
    /// Whether it has a directory with copies of its `meta`, durable or not.
    has_files: bool,
    /// Whether the directory is there after a loss of power.
    has_safe_name: bool,
    /// Bytes with which the first log of its consumers begins, durable there or not.
    log: Option<Arc<[u8]>>,
    /// Whether a start has found both copies of its `meta` to be what is stated here, and nobody
    /// has opened the stream since.
    has_stated_meta: bool,
    /// Whether that log was seen to begin so, by this process: it needs no second look.
    is_log_whole: bool,
    /// The entry with which it was made, if that was not synced at once.
    noted: Option<WrittenEntry>,
}

impl RegisteredStream {
    fn new(body: Vec<u8>) -> Self {
        Self {
            body: body.into(),
            has_files: false,
            has_safe_name: false,
            log: None,
            has_stated_meta: false,
            is_log_whole: false,
            noted: None,
        }
    }

    /// Bytes that its entries take.
    fn length(&self) -> u64 {
        entry_bytes(&self.body) + self.log.as_deref().map_or(0, log_bytes)
    }
}

/// Place of an entry that was written.
#[derive(Clone, Copy, Debug)]
struct WrittenEntry {
    number: u64,
    end: u64,
}

impl Register {
    /// Goes on with what was [read]; [`Register::settle`] writes it anew. `is_announced`: the
    /// marker of the store says that there is a register.
    pub(crate) fn resume(
        disk: &Arc<dyn Disk>,
        root: &Path,
        store: u64,
        contents: &RegisterContents,
        is_announced: bool,
    ) -> Self {
        let state = RegisterState {
            is_announced,
            number: contents.number,
            next_serial: contents.next_serial.max(1),
            step: FIRST_STEP,
            ..RegisterState::default()
        };
        let there = contents.streams.iter().map(|(id, body)| {
            let log = contents.logs.get(id).map(|bytes| bytes.as_slice().into());
            (*id, RegisteredStream { log, ..RegisteredStream::new(body.clone()) })
        });
        let streams = RegisteredStreams { there: there.collect(), removed: contents.removed.clone() };
        Self {
            disk: Arc::clone(disk),
            root: root.to_path_buf(),
            store,
            is_there: contents.is_there || is_announced,
            state: Mutex::new(state),
            streams: Mutex::new(streams),
            making: Mutex::default(),
            syncing: Mutex::default(),
        }
    }

    /// Statement about a stream, if that may not stand in a durable `meta`: then nothing newer
    /// does.
    pub(crate) fn meta(&self, id: StreamId) -> Option<Meta> {
        let body = Arc::clone(&self.streams().there.get(&id)?.body);
        Meta::from_body(&body).ok()
    }

    /// Statement about a stream that has no files.
    pub(crate) fn meta_without_files(&self, id: StreamId) -> Option<Meta> {
        if self.is_without_files(id) { self.meta(id) } else { None }
    }

    /// Whether a stream is there and has no files.
    pub(crate) fn is_without_files(&self, id: StreamId) -> bool {
        self.streams().there.get(&id).is_some_and(|stream| !stream.has_files)
    }

    /// Streams that are there and have no files.
    pub(crate) fn without_files(&self) -> BTreeSet<StreamId> {
        let streams = self.streams();
        streams.there.iter().filter(|(_, stream)| !stream.has_files).map(|(id, _)| *id).collect()
    }

    /// Whether it is stated that a stream was removed.
    pub(crate) fn is_removed(&self, id: StreamId) -> bool {
        self.streams().removed.contains(&id)
    }

    /// A stream has files, which were found.
    pub(crate) fn note_files(&self, id: StreamId) {
        if let Some(stream) = self.streams().there.get_mut(&id) {
            stream.has_files = true;
        }
    }

    /// A start has found this in both copies of a stream's `meta`.
    pub(crate) fn note_meta(&self, id: StreamId, found: &Meta) {
        if let Some(stream) = self.streams().there.get_mut(&id) {
            stream.has_stated_meta = *stream.body == *found.body();
        }
    }

    /// Whether a start would make again all files of a stream, which have these names, if a loss of
    /// power took them. For who opens the stream: only the first time, because this process may
    /// write others.
    pub(crate) fn vouches_for<'a>(&self, id: StreamId, mut names: impl Iterator<Item = &'a str>) -> bool {
        let mut streams = self.streams();
        let Some(stream) = streams.there.get_mut(&id) else { return false };
        let is_first_log = |name| matches!(read_name(name), LogFileName::Log(FIRST_LOG));
        let has_log = stream.log.is_some();
        std::mem::take(&mut stream.has_stated_meta)
            && names.all(|name| META_COPIES.contains(&name) || (has_log && is_first_log(name)))
    }

    /// States that a stream is there, or what it is like from now on; durable on return.
    ///
    /// # Errors
    /// Of the disk: what was stated before is, unless not even that could be written again.
    pub(crate) fn state_stream(&self, meta: &Meta, entropy: &dyn Entropy) -> io::Result<()> {
        self.enter_stream(meta, entropy, true)
    }

    /// As [`Register::state_stream`], but durable with [`Register::complete`] only.
    pub(crate) fn note_stream(&self, meta: &Meta, entropy: &dyn Entropy) -> io::Result<()> {
        self.enter_stream(meta, entropy, false)
    }

    /// A stream that was noted does not count.
    pub(crate) fn forget(&self, id: StreamId) {
        self.streams().there.remove(&id);
    }

    /// Whether all that was noted is durable.
    pub(crate) fn is_complete(&self) -> bool {
        let state = self.state();
        state.synced >= state.end
    }

    /// Makes durable what was noted. On a full disk it may use the headroom.
    ///
    /// # Errors
    /// Of the disk: nobody knows what is there.
    pub(crate) fn complete(&self, entropy: &dyn Entropy, headroom: &Headroom) -> io::Result<()> {
        let (written, is_synced) = {
            let state = self.state();
            (WrittenEntry { number: state.number, end: state.end }, state.synced >= state.end)
        };
        if is_synced {
            return Ok(());
        }
        let synced = self.sync(written);
        synced.or_else(|_| headroom.with_room(|| self.write_anew(&mut self.state(), entropy)))
    }

    fn enter_stream(&self, meta: &Meta, entropy: &dyn Entropy, is_durable: bool) -> io::Result<()> {
        let body = meta.body();
        let entry = RegisterEntry::Stream(body.clone());
        let before = {
            let mut streams = self.streams();
            let stream = match streams.there.get(&meta.stream) {
                Some(known) => RegisteredStream { body: body.into(), ..known.clone() },
                None => RegisteredStream::new(body),
            };
            streams.there.insert(meta.stream, stream)
        };
        let dead = before.as_ref().map_or(0, |before| entry_bytes(&before.body));
        let stated = self.write(&entry, dead, entropy, None);
        let stated = stated.and_then(|written| {
            if is_durable {
                return self.sync(written);
            }
            if let Some(stream) = self.streams().there.get_mut(&meta.stream) {
                stream.noted = Some(written);
            }
            Ok(())
        });
        stated.inspect_err(|_| {
            let mut streams = self.streams();
            match before {
                Some(before) => drop(streams.there.insert(meta.stream, before)),
                None => drop(streams.there.remove(&meta.stream)),
            }
            drop(streams);
            self.take_back(entropy);
        })
    }

    /// States that a stream was removed; durable on return. The entry stays until no file of the
    /// stream can be left.
    ///
    /// # Errors
    /// Of the disk. `true`: the stream is there as it was; `false`: the disk does not say.
    pub(crate) fn state_removed(
        &self,
        id: StreamId,
        entropy: &dyn Entropy,
        headroom: &Headroom,
    ) -> Result<(), (io::Error, bool)> {
        let before = {
            let mut streams = self.streams();
            streams.removed.insert(id);
            streams.there.remove(&id)
        };
        let dead = before.as_ref().map_or(0, RegisteredStream::length);
        let stated = self.write(&RegisterEntry::Removed(id), dead, entropy, Some(headroom));
        let stated = stated.and_then(|written| self.sync(written));
        stated.map_err(|error| {
            let mut streams = self.streams();
            streams.removed.remove(&id);
            streams.there.extend(before.map(|before| (id, before)));
            drop(streams);
            (error, self.take_back(entropy))
        })
    }

    /// Appends an entry.
    fn write(
        &self,
        entry: &RegisterEntry,
        dead: u64,
        entropy: &dyn Entropy,
        headroom: Option<&Headroom>,
    ) -> io::Result<WrittenEntry> {
        let mut state = self.state();
        let dead = state.dead + dead;
        let is_full_of_dead = dead > MOST_DEAD && dead > state.end / 2;
        if state.files.is_none() || is_full_of_dead {
            // The entry is among what is written, durably.
            in_room(headroom, || self.write_anew(&mut state, entropy))?;
            return Ok(WrittenEntry { number: state.number, end: state.end });
        }
        in_room(headroom, || state.reserve(entry.length() as u64))?;
        state.dead = dead;
        state.append(entry).inspect_err(|_| state.files = None)
    }

    /// Makes an entry durable that was written.
    fn sync(&self, written: WrittenEntry) -> io::Result<()> {
        let _turn = lock(&self.syncing);
        let (file, end) = {
            let state = self.state();
            match &state.files {
                // Another has synced it, or written all of it anew.
                Some(_) if state.number != written.number || state.synced >= written.end => return Ok(()),
                Some([first, _]) => (Arc::clone(first), state.end),
                None => return Err(io::Error::other("the register could not be written")),
            }
        };
        let synced = file.sync();
        let mut state = self.state();
        if state.number != written.number {
            // All of it was written anew meanwhile, durably.
            return Ok(());
        }
        match synced {
            Ok(()) => state.synced = state.synced.max(end),
            // What was written since the last sync may be gone, whatever later ones say.
            Err(_) => state.files = None,
        }
        synced
    }

    /// Takes back what was to be written last. If the files may have it, what counts is written
    /// anew; if there was no room for it they are as they were, and go on. Whether it is gone
    /// durably.
    fn take_back(&self, entropy: &dyn Entropy) -> bool {
        let mut state = self.state();
        state.files.is_some() || self.write_anew(&mut state, entropy).is_ok()
    }

    /// Writes both files with all that counts. Durable on return.
    fn write_anew(&self, state: &mut RegisterState, entropy: &dyn Entropy) -> io::Result<()> {
        let mut salt = [0; 16];
        entropy.fill(&mut salt);
        let (number, first) = (state.number + 1, state.next_serial);
        let header = RegisterHeader { version: VERSION, store: self.store, number, first, salt };
        let (bytes, next_serial) = self.image(&header);
        let unfinished = NAMES.map(|name| self.root.join(format!("{name}.tmp")));
        let mut files = Vec::with_capacity(NAMES.len());
        for path in &unfinished {
            match self.disk.remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = self.disk.create(path)?;
            file.write_at(&bytes, 0)?;
            file.sync()?;
            files.push(file);
        }
        // A number is not used again, whatever becomes of the names. Until all is done, nobody
        // knows which files have them: nothing is appended to either, and nothing is durable.
        (state.number, state.files) = (number, None);
        for (path, name) in unfinished.iter().zip(NAMES) {
            self.disk.rename(path, &self.root.join(name))?;
        }
        self.disk.sync_directory(&self.root)?;
        // Behind the files: where it is said that they are there, they are missed.
        if !state.is_announced {
            announce(&*self.disk, &self.root)?;
        }
        let end = bytes.len() as u64;
        *state = RegisterState {
            files: files.try_into().ok(),
            is_announced: true,
            number,
            seed: header.seed(),
            end,
            allocated: end,
            step: FIRST_STEP,
            next_serial,
            dead: 0,
            synced: end,
        };
        Ok(())
    }

    /// All that counts, as a file; and the serial of the next entry.
    fn image(&self, header: &RegisterHeader) -> (Vec<u8>, u64) {
        let mut bytes = header.encode().to_vec();
        let (seed, mut serial) = (header.seed(), header.first);
        let mut put = |entry: RegisterEntry| {
            entry.encode(seed, serial, &mut bytes);
            serial += 1;
        };
        let streams = self.streams();
        for (id, stream) in &streams.there {
            put(RegisterEntry::Stream(stream.body.to_vec()));
            stream.log.iter().for_each(|log| put(RegisterEntry::Log(*id, log.to_vec())));
        }
        for id in &streams.removed {
            put(RegisterEntry::Removed(*id));
        }
        (bytes, serial)
    }

    /// Writes a register anew that could not be written, if a stream counts on it that has no files
    /// of its own yet: nobody else would, until another stream is made.
    ///
    /// # Errors
    /// Of the disk: the next call tries it again.
    pub(crate) fn renew_for(&self, id: StreamId, entropy: &dyn Entropy) -> io::Result<()> {
        let is_noted = self.streams().there.get(&id).is_some_and(|stream| stream.noted.is_some());
        let mut state = self.state();
        if is_noted && state.files.is_none() { self.write_anew(&mut state, entropy) } else { Ok(()) }
    }

    /// Gives a stream a directory with its `meta`, if it has none: the register vouches for both
    /// until they are durable.
    pub(crate) fn make_files(&self, id: StreamId) -> io::Result<()> {
        self.make_files_and(id, || {})
    }

    /// As [`Register::make_files`]; `made` is called before anybody finds the stream to have files.
    pub(crate) fn make_files_and(&self, id: StreamId, made: impl FnOnce()) -> io::Result<()> {
        if !self.is_without_files(id) {
            return Ok(());
        }
        let _turn = lock(&self.making);
        let Some(meta) = self.meta_without_files(id) else { return Ok(()) };
        // Rarely more than a look: what is stored first may be promised before who made the stream
        // was answered, and there is no directory of which the register knows nothing.
        let noted = self.streams().there.get(&id).and_then(|stream| stream.noted);
        noted.map_or(Ok(()), |written| self.sync(written))?;
        write_files(&*self.disk, &self.root, &meta)?;
        made();
        self.note_files(id);
        Ok(())
    }

    /// Makes the name of a stream's directory durable, if it is new: before anything in it is
    /// called durable.
    pub(crate) fn make_name_safe(&self, id: StreamId) -> io::Result<()> {
        let is_new = |stream: &RegisteredStream| stream.has_files && !stream.has_safe_name;
        if !self.streams().there.get(&id).is_some_and(is_new) {
            return Ok(());
        }
        self.disk.sync_directory(&self.root.join("streams"))?;
        if let Some(stream) = self.streams().there.get_mut(&id) {
            stream.has_safe_name = true;
        }
        Ok(())
    }

    /// As [`Register::make_files`]; what was made is durable on return.
    pub(crate) fn make_durable_files(&self, id: StreamId) -> io::Result<()> {
        if self.meta_without_files(id).is_none() {
            return Ok(());
        }
        self.make_files(id)?;
        let directory = stream_directory(&self.root, id);
        for name in META_COPIES {
            self.disk.open(&directory.join(name))?.sync()?;
        }
        self.disk.sync_directory(&directory)?;
        self.disk.sync_directory(&self.root.join("streams"))
    }

    /// At a start, when the journal is empty: writes both files anew, so that what a killed process
    /// had not synced is durable. Lets go of removed streams that have left nothing, and of some
    /// whose files are durable (`is_settled` makes them so and says whether they are).
    pub(crate) fn settle(
        &self,
        (entropy, headroom): (&dyn Entropy, &Headroom),
        is_settled: &mut dyn FnMut(StreamId) -> bool,
        has_left: &dyn Fn(StreamId) -> bool,
    ) -> io::Result<()> {
        if !self.is_there {
            return Ok(());
        }
        let to_settle = self.to_settle();
        let settled: Vec<StreamId> = to_settle.into_iter().filter(|id| is_settled(*id)).collect();
        {
            let mut streams = self.streams();
            streams.removed.retain(|id| has_left(*id));
            for id in settled {
                streams.there.remove(&id);
            }
        }
        headroom.with_room(|| self.write_anew(&mut self.state(), entropy))
    }

    /// Streams whose files a start is to make durable: a few, and those beyond which the register
    /// would grow too long.
    ///
    /// Perf: each takes up to five syncs. A start that waited for those of 900 streams took seconds
    /// where a sync takes one millisecond; to read their entries again costs next to nothing.
    fn to_settle(&self) -> Vec<StreamId> {
        let streams = self.streams();
        let with_files = streams.there.iter().filter(|(_, stream)| stream.has_files);
        let mut with_files: Vec<_> = with_files.map(|(id, stream)| (*id, stream.length())).collect();
        with_files.sort_unstable();
        let mut left = with_files.iter().map(|(_, length)| length).sum::<u64>();
        let mut is_due = |at: usize, length: u64| {
            let is_due = at < SETTLED_AT_LEAST || left > MOST_KEPT;
            left -= if is_due { length } else { 0 };
            is_due
        };
        let due = with_files.iter().enumerate().filter(|(at, (_, length))| is_due(*at, *length));
        due.map(|(_, (id, _))| *id).collect()
    }

    /// Makes the copy as durable as the first file.
    pub(crate) fn close(&self) -> io::Result<()> {
        let files = self.state().files.clone();
        files.iter().flatten().try_for_each(|file| file.sync())
    }

    fn state(&self) -> MutexGuard<'_, RegisterState> {
        lock(&self.state)
    }

    fn streams(&self) -> MutexGuard<'_, RegisteredStreams> {
        lock(&self.streams)
    }
}

impl RegisterState {
    /// Makes room for `length` more bytes in both files.
    fn reserve(&mut self, length: u64) -> io::Result<()> {
        let needed = self.end + length;
        let Some(files) = self.files.as_ref().filter(|_| needed > self.allocated) else { return Ok(()) };
        let ahead = needed + self.step;
        if files.iter().try_for_each(|file| file.allocate(ahead)).is_err() {
            files.iter().try_for_each(|file| file.allocate(needed))?;
            self.allocated = needed;
            return Ok(());
        }
        self.allocated = ahead;
        self.step = (self.step * 2).min(LARGEST_STEP);
        Ok(())
    }

    fn append(&mut self, entry: &RegisterEntry) -> io::Result<WrittenEntry> {
        let mut bytes = Vec::with_capacity(entry.length());
        entry.encode(self.seed, self.next_serial, &mut bytes);
        for file in self.files.iter().flatten() {
            file.write_at(&bytes, self.end)?;
        }
        self.next_serial += 1;
        self.end += bytes.len() as u64;
        Ok(WrittenEntry { number: self.number, end: self.end })
    }
}

/// Writes the directory of a stream and both copies of its `meta`, without a sync.
pub(crate) fn write_files(disk: &dyn Disk, root: &Path, meta: &Meta) -> io::Result<()> {
    let directory = stream_directory(root, meta.stream);
    disk.make_directory(&directory)?;
    let bytes = meta.encode();
    for name in META_COPIES {
        let path = directory.join(name);
        match disk.remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        disk.create(&path)?.write_at(&bytes, 0)?;
    }
    Ok(())
}

/// From here on an earlier version does not open the store: it would miss the streams.
fn announce(disk: &dyn Disk, root: &Path) -> io::Result<()> {
    let marker = [MARKER, MARKER_COPY].iter().find_map(|name| Marker::read(disk, root, name).ok());
    let marker = marker.ok_or_else(|| io::Error::other("the store has no marker"))?;
    [MARKER, MARKER_COPY]
        .iter()
        .try_for_each(|name| Marker { has_register: true, ..marker }.write(disk, root, name))
}

fn in_room<T>(headroom: Option<&Headroom>, act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut act = act;
    match headroom {
        Some(headroom) => headroom.with_room(act),
        None => act(),
    }
}

/// Bytes of an entry about a log that begins with these.
fn log_bytes(bytes: &[u8]) -> u64 {
    RegisterEntry::Log(StreamId(0), bytes.to_vec()).length() as u64
}

/// Bytes of an entry with this body.
fn entry_bytes(body: &[u8]) -> u64 {
    RegisterEntry::Stream(body.to_vec()).length() as u64
}
