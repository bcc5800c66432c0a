//! A store: a directory with streams and one journal for all of them.
//!
//! Owns the directory, who is in it and how a stream comes and goes. The embedder owns the threads:
//! one calls [`Store::journal`]'s rounds, some run jobs.
//!
//! ```text
//! ROOT/store, store.copy    who this store is
//! ROOT/lock                 locked while a process has the store open
//! ROOT/journal/             rounds that are not in the streams' files yet
//! ROOT/headroom             space for what must still be written on a full disk
//! ROOT/register             which streams there are that have stored nothing yet, and a copy
//! ROOT/streams/ID/          one directory per stream that has
//! ROOT/quarantine/          what was moved aside; never read, never removed
//! ```

mod consumers;
mod directories;
mod identity;
mod lifecycle;
mod metas;
mod misplaced;
mod registered;
mod removed_files;
mod replay;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use myelin_disk::claim::ClaimSet;
use myelin_disk::handles::Handles;
use myelin_disk::headroom::{self, Headroom};
use myelin_disk::{Disk, Lock};

use crate::config::{StreamConfig, Unsealed};
use crate::damage::Damage;
use crate::entropy::Entropy;
use crate::flipped;
use crate::hard_file::{self, HardFile};
use crate::id::StreamPart;
use crate::journal::{Journal, JournalConfig, JournalFailed, ReplayReport, SyncInterval};
use crate::keys::{Keys, NeedsReseal, StreamKey};
use crate::lengths::in_memory;
use crate::meta::{Marker, Meta};
use crate::recovery::{self, Notice, OpenError, ReplayVisitor, StreamReport, place_aside, stream_directory};
use crate::register::{self, Register, RegisterContents};
use crate::stream::{Blocks, Claimed, Files, StoreEnv, Stream, StreamReader, TableCache};
pub use crate::watermarks::Reserve;
use crate::watermarks::{self, Watermarks};
use crate::{StreamId, Timestamp};

pub(crate) use directories::Directories;
pub(crate) use identity::{COPY, number};
pub use lifecycle::RemovalRefused;
pub(crate) use misplaced::{find as find_misplaced, set_all_aside, set_lock_aside};
pub(crate) use registered::{hide_removed, notices as register_notices, restore as restore_registered};
pub use removed_files::RemovedFiles;
pub(crate) use replay::run as replay_journal;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Its directory; created if it is missing.
    pub root: PathBuf,
    /// How often what nobody waits for is synced.
    pub interval: SyncInterval,
    /// Keys for encryption at rest. Without them what is encrypted stays closed.
    pub keys: Option<Keys>,
    /// Bytes kept free for deletes, acknowledgements and manifests on a full disk, at most: it
    /// begins with less and grows with what is stored ([`Headroom::fit`]).
    pub headroom_bytes: u64,
    /// Memory for tables of sealed segments.
    pub table_bytes: usize,
    /// Memory for what single reads of sealed, uncompressed segments ask for again and again. 0:
    /// none.
    pub block_bytes: usize,
    /// Sealed segment files kept open.
    pub open_files: usize,
    /// Length that a journal file may grow to.
    pub journal_file_bytes: u64,
    /// How sequences are kept from being given out twice after a loss of power.
    pub reserve: Reserve,
    /// Limit of what each stream may have waiting to be sealed.
    pub unsealed: Unsealed,
    /// Bytes at which streams close a segment whose configuration does not say it: for tests.
    pub segment_bytes: Option<u32>,
}

impl StoreOptions {
    /// The defaults, for a store in `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            interval: SyncInterval::default(),
            keys: None,
            headroom_bytes: *headroom::DEFAULT_BYTES.end(),
            table_bytes: 64 << 20,
            block_bytes: 32 << 20,
            open_files: 512,
            journal_file_bytes: 64 << 20,
            reserve: Reserve::default(),
            unsealed: Unsealed::default(),
            segment_bytes: None,
        }
    }
}

/// A stream that is in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundStream {
    /// Its number.
    pub id: StreamId,
    /// Identity of the stream, and what its owner wrote about it.
    pub meta: Meta,
}

/// Report of opening a store.
#[derive(Clone, Debug, Default)]
pub struct StoreReport {
    /// Streams that can be opened.
    pub streams: Vec<FoundStream>,
    /// Streams whose `meta` cannot be read: they stay as they are.
    pub unreadable: Vec<(StreamId, String)>,
    /// Work that the journal had to do.
    pub replay: ReplayReport,
    /// Whatever else an operator should know.
    pub notices: Vec<Notice>,
}

/// Store: a directory with streams, and one journal for all of them.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    store_env: Arc<StoreEnv>,
    index_seed: u64,
    /// Whether something was answered for that only a round of the journal makes durable.
    owes_round: AtomicBool,
    /// Streams that were deleted and may still be read by somebody.
    gone: Mutex<Vec<StreamReader>>,
}

impl Store {
    /// Opens a store: after this everything that was durable is in the streams' files, which can be
    /// opened one by one.
    ///
    /// # Errors
    /// The directory or the journal cannot be used, or another process uses them: a store is open
    /// for as long as it or one of its streams is there. Damaged streams are no error but in the
    /// report.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: StoreOptions,
        entropy: Arc<dyn Entropy>,
    ) -> Result<(Self, StoreReport), OpenError> {
        let StoreOptions { root, interval, keys, headroom_bytes, journal_file_bytes, reserve, .. } = options;
        let io = |what: &'static str| move |error: io::Error| OpenError::new(what, error);
        let streams = root.join("streams");
        let (lock, notices) = take_possession(&*disk, &root)?;
        disk.make_directory(&streams).map_err(io("streams"))?;
        let marker = identity::load(&*disk, &root, &*entropy)?;
        let store_id = number(&marker);
        sync_names(&*disk, &root, &streams)?;
        let mut report = StoreReport { notices, ..StoreReport::default() };
        let sizes = (*headroom::DEFAULT_BYTES.start()).min(headroom_bytes)..=headroom_bytes;
        let headroom = Headroom::open(Arc::clone(&disk), &root.join("headroom"), sizes);
        let headroom = headroom.map_err(io("headroom"))?;
        let (contents, register, without_files) =
            find_streams(&disk, &root, (&marker, &headroom), &mut report)?;
        let config =
            JournalConfig { store_id, interval, file_bytes: journal_file_bytes, ..JournalConfig::default() };
        let open_journal = || {
            let (journal, mut replay) = Journal::open(Arc::clone(&disk), &root.join("journal"), config)?;
            replay::run(&*disk, &root, &register, &mut replay).map(|report| (journal, report))
        };
        let (journal, replayed) = headroom.with_room(open_journal).map_err(io("journal"))?;
        report.notices.extend(corrected(&replayed));
        report.replay = replayed;
        let directories = directories(&*disk, &root, &contents, without_files).map_err(io("streams"))?;
        let (watermarks, notices) = Watermarks::open(&disk, &root, (store_id, reserve), &directories)?;
        report.notices.extend(notices);
        report.notices.extend(watermarks.misses_journal(&report.replay));
        let watermarks = Arc::new(watermarks);
        journal.set_marks(&watermarks);
        // Only now: their names say that the streams were deleted, and not lost.
        remove_unfinished(&*disk, &streams, &mut report).map_err(io("streams"))?;
        let found = (&register, &contents);
        registered::finish(&*disk, &root, found, &watermarks, (&*entropy, &headroom), &mut report)
            .map_err(io("the register of streams"))?;
        let store_env = Arc::new(StoreEnv {
            handles: Arc::new(Handles::new(Arc::clone(&disk), options.open_files)),
            slots: Arc::new(TableCache::new(options.table_bytes)),
            blocks: Arc::new(Blocks::new(options.block_bytes)),
            disk,
            journal,
            headroom: Arc::new(headroom),
            watermarks,
            register,
            entropy,
            keys,
            unsealed: options.unsealed,
            segment_bytes: options.segment_bytes,
            claims: ClaimSet::default(),
            _lock: lock,
        });
        Ok((Self::new(root, store_env), report))
    }

    fn new(root: PathBuf, store_env: Arc<StoreEnv>) -> Self {
        let index_seed = seed(&*store_env.entropy);
        Self { root, index_seed, store_env, gone: Mutex::default(), owes_round: AtomicBool::new(false) }
    }

    /// Opens the file of what members of groups must remember, and reads all of it.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn open_hard_file(&self) -> io::Result<(HardFile, Vec<u8>)> {
        let headroom = Some(Arc::clone(&self.store_env.headroom));
        HardFile::open(Arc::clone(&self.store_env.disk), &self.root, headroom)
    }

    /// The journal: its rounds make appends durable.
    #[must_use]
    pub fn journal(&self) -> &Arc<Journal> {
        &self.store_env.journal
    }

    /// Sleeps until something was appended that the watermarks do not state yet, or `timeout` has
    /// passed. For the thread that calls [`Store::write_watermarks`].
    pub fn wait_for_changes(&self, timeout: Duration) {
        self.store_env.journal.shared().changed().wait(timeout);
    }

    /// Ends a [`Store::wait_for_changes`], or the next one.
    pub fn wake_watermarks(&self) {
        self.store_env.journal.shared().changed().wake();
    }

    /// States, in files of their own, how far each stream has come that has changed since the last
    /// call. What was appended before is then missed by the next start if it is gone, where the
    /// process is killed. Syncs nothing and waits for no round. To be called about every 50 ms
    /// while there are changes.
    ///
    /// # Errors
    /// Some of it is not stated; the next call tries again.
    pub fn write_watermarks(&self) -> io::Result<()> {
        self.store_env.watermarks.write(self.store_env.journal.shared().changed())
    }

    /// Makes everything durable in the streams' files, and states durably that nothing is missing.
    /// Nothing may be appended any more. `clock` is as that of [`Journal::round`].
    ///
    /// # Errors
    /// The next start finds what was promised, in the journal. What the watermarks say is a lower
    /// bound.
    pub fn close(&self, clock: &dyn Fn() -> u64) -> Result<(), JournalFailed> {
        self.store_env.journal.close(clock)?;
        let stated = self.store_env.watermarks.write(self.store_env.journal.shared().changed());
        stated
            .and_then(|()| self.store_env.register.close())
            .and_then(|()| self.store_env.watermarks.close())
            .map_err(|error| JournalFailed::at_stop(&self.root.join(watermarks::NAMES[0]), &error))
    }

    /// The space kept for a full disk. [`Headroom::restore`] from time to time takes it back.
    #[must_use]
    pub fn headroom(&self) -> &Headroom {
        &self.store_env.headroom
    }

    /// Bytes that tables of sealed segments take in memory.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.store_env.slots.bytes()
    }

    /// Bytes of sealed segments that are in memory because they are read again and again.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.store_env.blocks.bytes()
    }

    /// Opens a stream that the report of [`Store::open`] names, or one whose [`Stream`] was dropped
    /// since: what that one had accepted is there, written or not, unless it had failed. Then only
    /// what was released is. Waits for a round that is on its way.
    ///
    /// # Errors
    /// It is open, or a job of it still runs. Or it cannot be read, or is encrypted and the key is
    /// wrong. Nothing was changed. Or what a dropped one had in memory could not be written to its
    /// files: this may be repeated.
    pub fn open_stream(
        &self,
        id: StreamId,
        config: StreamConfig,
        now: Timestamp,
    ) -> Result<(Stream, StreamReport), OpenError> {
        self.open_stream_before(id, config, now, &mut |_, _| {})
    }

    /// Opens a stream, as [`Store::open_stream`] does, and shows a [`ReplayVisitor`] what is read.
    ///
    /// # Errors
    /// As [`Store::open_stream`].
    pub fn open_stream_before(
        &self,
        id: StreamId,
        config: StreamConfig,
        now: Timestamp,
        visitor: &mut ReplayVisitor<'_>,
    ) -> Result<(Stream, StreamReport), OpenError> {
        let claim = self.claim(id, StreamPart::Messages)?;
        let directory = stream_directory(&self.root, id);
        let key = self.open_key(&directory, id)?;
        // Only the journal knows what a stream that was dropped had not written yet.
        let left = self.store_env.journal.leave(id, StreamPart::Messages, Vec::new());
        left.map_err(|error| OpenError::new("what the stream had in memory", error.to_io()))?;
        if self.store_env.register.is_without_files(id) {
            let config = self.in_files(config);
            return Ok((self.begin_stream(id, config, key, claim, now), StreamReport::default()));
        }
        let files = Files { store_env: Arc::clone(&self.store_env), directory, key, _claim: claim };
        let config = self.in_files(config);
        recovery::open_stream(id, files, config, (self.index_seed, now), visitor)
    }

    /// Opens a stream anew that has failed, from what is on disk: what was released is there, and
    /// the batch that failed is not, unless the device has written all of it and said that it had
    /// not. Takes the place of the old one in `stream`; readers and cursors have to be made anew.
    /// Waits for a round that is on its way.
    ///
    /// # Errors
    /// As [`Store::open_stream`]; or a job of the stream has not come back to [`Stream::finish`];
    /// or released bytes could not be written to the stream's files. `stream` is still the old one,
    /// has failed, and this may be repeated: until it succeeds, memory or the journal may have the
    /// only copy of released bytes. The next start of the process brings back those of the journal.
    pub fn reopen_stream(&self, stream: &mut Stream, now: Timestamp) -> Result<StreamReport, OpenError> {
        self.reopen_stream_before(stream, now, &mut |_, _| {})
    }

    /// Opens a failed stream anew, as [`Store::reopen_stream`] does, and shows a [`ReplayVisitor`]
    /// what is read.
    ///
    /// # Errors
    /// As [`Store::reopen_stream`].
    pub fn reopen_stream_before(
        &self,
        stream: &mut Stream,
        now: Timestamp,
        visitor: &mut ReplayVisitor<'_>,
    ) -> Result<StreamReport, OpenError> {
        let (id, config) = (stream.id(), *stream.config());
        let refused = |why| OpenError::new("a failed stream", io::Error::other(why));
        if stream.has_job_out() {
            return Err(refused("a job still works on its files: give it back to the stream first"));
        }
        let Some(files) = stream.files().cloned() else { return Err(refused("it is in memory only")) };
        stream.leave().map_err(|error| OpenError::new("a failed stream", error.into_io()))?;
        // What has failed may have been its first file.
        let made = self.store_env.make_files(id);
        // The sync that would have made the directory's name durable may be the one that failed:
        // of a file that is found nobody syncs more than its bytes.
        let made = made.and_then(|()| self.store_env.register.make_name_safe(id));
        made.map_err(|error| OpenError::new("a failed stream", error))?;
        let (mut anew, report) = recovery::open_stream(id, files, config, (self.index_seed, now), visitor)?;
        stream.hand_on(&mut anew);
        *stream = anew;
        Ok(report)
    }

    /// The right to write files of a stream.
    fn claim(&self, id: StreamId, part: StreamPart) -> Result<Claimed, OpenError> {
        let busy = || {
            let (what, why) = match part {
                StreamPart::Messages => ("stream", "it is open already, or a job still works on its files"),
                StreamPart::Consumers => ("consumers of stream", "they are open already"),
            };
            OpenError::new(format!("{what} {:016x}", id.0), io::Error::new(io::ErrorKind::ResourceBusy, why))
        };
        self.store_env.claims.take((id, part)).map(Arc::new).ok_or_else(busy)
    }

    /// The key of the stream in `directory`. If it was sealed with the previous master key it is
    /// sealed anew.
    fn open_key(&self, directory: &Path, id: StreamId) -> Result<Option<StreamKey>, OpenError> {
        let meta = self.meta(directory, id)?;
        if meta.sealed_keys.is_empty() {
            return Ok(None);
        }
        let Some(keys) = &self.store_env.keys else {
            return Err(OpenError::new("meta", Damage::Locked("stream")));
        };
        let opened = StreamKey::open(&meta.sealed_keys, meta.stream, keys);
        let (key, reseal) =
            opened.map_err(|error| OpenError::new("meta", io::Error::other(error.to_string())))?;
        if reseal == NeedsReseal::Yes {
            let sealed_keys = key.seal(keys.kind, &keys.current, meta.stream, &*self.store_env.entropy);
            self.write_meta(directory, Meta { sealed_keys, ..meta })?;
        }
        Ok(Some(key))
    }

    /// Replaces what a stream's owner wrote about it.
    ///
    /// # Errors
    /// The old text is still there, unless the disk failed in the last step: then it is the old one
    /// or the new one.
    pub fn write_blob(&self, id: StreamId, blob: &[u8]) -> Result<(), OpenError> {
        let directory = stream_directory(&self.root, id);
        let meta = self.meta(&directory, id)?;
        self.write_meta(&directory, Meta { config: blob.to_vec(), ..meta })
    }

    /// Text that is written about a stream.
    fn meta(&self, directory: &Path, id: StreamId) -> Result<Meta, OpenError> {
        match self.store_env.register.meta(id) {
            Some(meta) => Ok(meta),
            None => Meta::read(&*self.store_env.disk, directory, id)
                .map_err(|damage| OpenError::new("meta", damage)),
        }
    }

    /// Makes it what is written about a stream. Durable on return.
    fn write_meta(&self, directory: &Path, meta: Meta) -> Result<(), OpenError> {
        let StoreEnv { register, disk, entropy, .. } = &*self.store_env;
        let written = if register.meta(meta.stream).is_some() {
            let next = Meta { generation: meta.generation + 1, ..meta };
            register.state_stream(&next, &**entropy)
        } else {
            meta.write(&**disk, directory)
        };
        written.map_err(|error| OpenError::new("meta", error))
    }
}

/// Names in the root that are ours.
pub(crate) const OURS: [&str; 13] = [
    "store",
    "store.copy",
    LOCK,
    "journal",
    "headroom",
    "streams",
    recovery::QUARANTINE,
    watermarks::NAMES[0],
    watermarks::NAMES[1],
    register::NAMES[0],
    register::NAMES[1],
    hard_file::NAMES[0],
    hard_file::NAMES[1],
];

/// The file in the root that an open store has locked.
pub(crate) const LOCK: &str = "lock";

/// A number that nobody can guess, for hashes of subjects.
fn seed(entropy: &dyn Entropy) -> u64 {
    let mut seed = [0; 8];
    entropy.fill(&mut seed);
    u64::from_le_bytes(seed)
}

/// Locks the store, and moves away what is of the wrong kind.
fn take_possession(disk: &dyn Disk, root: &Path) -> Result<(Box<dyn Lock>, Vec<Notice>), OpenError> {
    let io = |error: io::Error| OpenError::new("the store directory", error);
    disk.make_directory(root).map_err(io)?;
    let mut notices = misplaced::set_lock_aside(disk, root).map_err(io)?;
    let lock = disk.lock(&root.join(LOCK));
    let lock = lock.map_err(|error| OpenError::new(format!("the store in {}", root.display()), error))?;
    notices.append(&mut set_all_aside(disk, root).map_err(io)?);
    Ok((lock, notices))
}

/// Makes the names in the store's directories durable, and that of the store.
fn sync_names(disk: &dyn Disk, root: &Path, streams: &Path) -> Result<(), OpenError> {
    let io = |what: &'static str| move |error: io::Error| OpenError::new(what, error);
    disk.sync_directory(root).map_err(io("the store directory"))?;
    if let Some(parent) = root.parent() {
        // Its own name has to survive as well.
        match disk.sync_directory(parent) {
            // A directory that may not be opened is not new either.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced.map_err(io("the directory above the store"))?,
        }
    }
    // So have those of streams that a process made or removed before it was killed.
    disk.sync_directory(streams).map_err(io("streams"))
}

/// Streams of the root and of the register before the journal is replayed, and which of them have
/// no files.
fn find_streams(
    disk: &Arc<dyn Disk>,
    root: &Path,
    (marker, headroom): (&Marker, &Headroom),
    report: &mut StoreReport,
) -> Result<(RegisterContents, Register, BTreeSet<StreamId>), OpenError> {
    let io = |what: &'static str| move |error: io::Error| OpenError::new(what, error);
    list_root(&**disk, root, report).map_err(io("the store directory"))?;
    let store = number(marker);
    let contents = register::read(&**disk, root, store, marker.has_register)
        .map_err(|damage| OpenError::new("the register of streams", damage))?;
    report.notices.extend(registered::notices(&contents));
    let register = Register::resume(disk, root, store, &contents, marker.has_register);
    registered::hide_removed(&**disk, &root.join("streams"), &contents).map_err(io("streams"))?;
    list_streams(&**disk, root, (&register, headroom), report).map_err(io("streams"))?;
    let without_files = register.without_files();
    Ok((contents, register, without_files))
}

/// Bits of the journal that were not what was written.
fn corrected(replayed: &ReplayReport) -> impl Iterator<Item = Notice> {
    replayed.corrected.iter().map(|(path, bit)| Notice::Repaired {
        file: path.display().to_string(),
        what: format!("{}; it was read as it was", flipped::words(in_memory(*bit))),
    })
}

fn list_root(disk: &dyn Disk, root: &Path, report: &mut StoreReport) -> io::Result<()> {
    for entry in disk.list(root)? {
        if !OURS.contains(&entry.name.as_str()) && !entry.name.ends_with(".tmp") {
            let what = format!("{} is none of ours and was left alone", root.join(&entry.name).display());
            report.notices.push(Notice::Left { what });
        }
    }
    Ok(())
}

fn list_streams(
    disk: &dyn Disk,
    root: &Path,
    (register, headroom): (&Register, &Headroom),
    report: &mut StoreReport,
) -> io::Result<()> {
    let streams = root.join("streams");
    for entry in disk.list(&streams)? {
        let path = streams.join(&entry.name);
        let Some(id) = stream_number(&entry.name).filter(|_| entry.is_directory) else {
            if !is_unfinished(&entry.name) {
                let to = place_aside(disk, root, "", &entry.name)?;
                disk.rename(&path, &to)?;
                let why = "it is not the directory of a stream";
                report.notices.push(Notice::SetAside { name: entry.name, to, why });
            }
            continue;
        };
        register.note_files(id);
        metas::list(disk, &path, id, (register, headroom), report);
    }
    Ok(())
}

pub(crate) fn stream_number(name: &str) -> Option<StreamId> {
    let id = u64::from_str_radix(name, 16).ok()?;
    // As it is written: without a sign, in lower case.
    (format!("{id:016x}") == name).then_some(StreamId(id))
}

/// A stream that was being made or removed.
pub(crate) fn is_unfinished(name: &str) -> bool {
    unfinished_number(name).is_some()
}

fn unfinished_number(name: &str) -> Option<StreamId> {
    stream_number(name.strip_suffix(".tmp")?)
}

/// Lists them; there are none where the store has no `streams`.
pub(crate) fn directories(
    disk: &dyn Disk,
    root: &Path,
    contents: &RegisterContents,
    without_files: BTreeSet<StreamId>,
) -> io::Result<Directories> {
    let entries = match disk.list(&root.join("streams")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        entries => entries?,
    };
    let named =
        |number: fn(&str) -> Option<StreamId>| entries.iter().filter_map(move |entry| number(&entry.name));
    Ok(Directories {
        there: named(stream_number).collect(),
        unfinished: named(unfinished_number).chain(contents.removed.iter().copied()).collect(),
        registered: contents.ids().collect(),
        without_files,
    })
}

fn remove_unfinished(disk: &dyn Disk, streams: &Path, report: &mut StoreReport) -> io::Result<()> {
    for entry in disk.list(streams)?.iter().filter(|entry| is_unfinished(&entry.name)) {
        let path = streams.join(&entry.name);
        if let Err(error) = remove_files(disk, &path) {
            report.notices.push(Notice::Left { what: format!("cannot remove {}: {error}", path.display()) });
        }
    }
    Ok(())
}

fn remove_files(disk: &dyn Disk, directory: &Path) -> io::Result<()> {
    for entry in disk.list(directory)? {
        disk.remove_file(&directory.join(&entry.name))?;
    }
    disk.remove_directory(directory)
}
