//! The store's own directory: markers, names, quarantine; and what a check of streams needs of the
//! store.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_disk::Disk;
use myelin_disk::claim::ClaimSet;
use myelin_disk::handles::Handles;
use myelin_disk::headroom::Headroom;

use crate::StreamId;
use crate::config::Unsealed;
use crate::entropy::SeededEntropy;
use crate::journal::{Journal, JournalConfig};
use crate::keys::Keys;
use crate::meta::{MARKER, Marker};
use crate::recovery::{Notice, QUARANTINE, stream_directory};
use crate::register::{self, Register, RegisterContents};
use crate::store::{
    COPY, OURS, find_misplaced, hide_removed, is_unfinished, number, register_notices, restore_registered,
    stream_number,
};
use crate::stream::{Blocks, StoreEnv, TableCache};
use crate::watermarks::{self, After, Mark, Reserve, Statement, Watermarks};

use super::overlay::Overlay;
use super::{Finding, Reporter, journal};

/// Memory for tables while streams are recovered.
const TABLE_BYTES: usize = 64 << 20;
const OPEN_FILES: usize = 64;

/// Tools with which every stream is looked at.
pub(super) struct Looking<'a> {
    /// The store as the next start would find it, with the journal replayed.
    pub(super) disk: Arc<dyn Disk>,
    pub(super) root: &'a Path,
    pub(super) keys: Option<&'a Keys>,
    /// Environment for recovery; `None` if the journal cannot be used.
    pub(super) store_env: Option<Arc<StoreEnv>>,
}

impl Looking<'_> {
    /// Statement about a stream from elsewhere.
    pub(super) fn statement(&self, id: StreamId) -> Statement {
        let known = self.store_env.as_ref().map(|store_env| store_env.watermarks.statement(id));
        known.unwrap_or(Statement::nothing(After::Unknown, Mark::Found))
    }
}

/// The disk as the next start leaves it when it has moved away what is of the wrong kind.
pub(super) fn without_misplaced(
    disk: &Arc<dyn Disk>,
    root: &Path,
    reporter: &mut Reporter<'_>,
) -> io::Result<Arc<dyn Disk>> {
    let misplaced = find_misplaced(&**disk, root)?;
    if misplaced.is_empty() {
        return Ok(Arc::clone(disk));
    }
    let overlay = Overlay::new(Arc::clone(disk));
    for one in misplaced {
        overlay.hide(&one.path);
        let meaning = "The next start moves it to quarantine; what belongs there is missing.";
        reporter.emit(Finding::damage(one.path.clone(), one.why(), meaning));
    }
    Ok(Arc::new(overlay))
}

/// Looks at everything but the streams.
pub(super) fn check_root<'a>(
    disk: &Arc<dyn Disk>,
    root: &'a Path,
    keys: Option<&'a Keys>,
    reporter: &mut Reporter<'_>,
) -> io::Result<Looking<'a>> {
    let names = disk.list(root)?;
    if !names.iter().any(|entry| [MARKER, COPY, "streams"].contains(&entry.name.as_str())) {
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no store in this directory"));
    }
    let store = markers(&**disk, root, reporter);
    for entry in &names {
        let path = root.join(&entry.name);
        if entry.name.ends_with(".tmp") {
            reporter.emit(Finding::note(path, "it was not finished", UNFINISHED));
        } else if !OURS.contains(&entry.name.as_str()) {
            reporter.emit(Finding::note(path, "it is none of the store's", "The server leaves it alone."));
        }
    }
    quarantine(&**disk, root, reporter)?;
    let overlay = Arc::new(Overlay::new(Arc::clone(disk)));
    let disk_above: Arc<dyn Disk> = Arc::clone(&overlay) as Arc<dyn Disk>;
    let store_env = store.and_then(|store| {
        journal::check(&**disk, root, store, reporter);
        store_env(&disk_above, root, store, keys, reporter)
    });
    for (path, range) in overlay.replaced()? {
        if path.starts_with(root.join("streams")) {
            let what = "the journal holds other bytes for it";
            let meaning = "The next start writes those of the journal, and nothing is lost.";
            reporter.emit(Finding::note(path, what, meaning).at(range));
        }
    }
    Ok(Looking { disk: disk_above, root, keys, store_env })
}

pub(super) const UNFINISHED: &str = "Left by a crash while it was written; the next start removes it.";

/// Both markers. The store's number, unless neither can be read.
fn markers(disk: &dyn Disk, root: &Path, reporter: &mut Reporter<'_>) -> Option<u64> {
    let mut valid: Vec<Marker> = Vec::new();
    let mut faults = Vec::new();
    for name in [MARKER, COPY] {
        match Marker::read(disk, root, name) {
            Ok(marker) => valid.push(marker),
            Err(damage) => faults.push((name, damage)),
        }
    }
    let meaning = if valid.is_empty() {
        "The server does not start with this store: restore one of the two files from a backup."
    } else {
        "The other copy is good; the next start writes this one again."
    };
    for (name, damage) in faults {
        reporter.emit(Finding::damage(root.join(name), damage.to_string(), meaning));
    }
    if let [first, second] = &valid[..]
        && first.id != second.id
    {
        let meaning = "One of them came from another store: the journal belongs to the one that opens it.";
        reporter.emit(Finding::damage(root.join(COPY), "it differs from the other copy", meaning));
    }
    valid.first().map(number)
}

fn quarantine(disk: &dyn Disk, root: &Path, reporter: &mut Reporter<'_>) -> io::Result<()> {
    let directory = root.join(QUARANTINE);
    let entries = match disk.list(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let meaning =
            "An earlier start moved it here; nothing reads it, and you may remove it once it is understood.";
        reporter.emit(Finding::note(directory.join(entry.name), "it is in quarantine", meaning));
    }
    Ok(())
}

/// Replays the journal into the overlay and makes what recovery works with.
fn store_env(
    overlay: &Arc<dyn Disk>,
    root: &Path,
    store: u64,
    keys: Option<&Keys>,
    reporter: &mut Reporter<'_>,
) -> Option<Arc<StoreEnv>> {
    let config = JournalConfig { store_id: store, ..JournalConfig::default() };
    let directory = root.join("journal");
    let (contents, register) = read_register(overlay, root, store, reporter)?;
    let opened = Journal::open(Arc::clone(overlay), &directory, config).and_then(|(journal, mut replay)| {
        hide_removed(&**overlay, &root.join("streams"), &contents)?;
        for restored in restore_registered(&**overlay, root, &register, &contents, false)? {
            let meaning = "The register has what it said; the next start writes it again.";
            let path = stream_directory(root, restored.meta.stream).join(restored.name);
            reporter.emit(Finding::damage(path, restored.fault, meaning));
        }
        let without_files = register.without_files();
        let report = crate::store::replay_journal(&**overlay, root, &register, &mut replay)?;
        let headroom = Headroom::open(Arc::clone(overlay), &root.join("headroom"), 0..=0)?;
        let directories = crate::store::directories(&**overlay, root, &contents, without_files)?;
        let watermarks = Watermarks::open(overlay, root, (store, Reserve::Nothing), &directories);
        let (watermarks, notices) = watermarks.map_err(|error| io::Error::other(error.to_string()))?;
        if let Some(missed) = watermarks.misses_journal(&report) {
            let meaning =
                "Messages that were acknowledged just before the end may be lost; all others are not.";
            reporter.emit(Finding::damage(&directory, missed.to_string(), meaning));
        }
        restore_registered(&**overlay, root, &register, &contents, true)?;
        Ok((journal, headroom, report, watermarks, notices))
    });
    match opened {
        Ok((journal, headroom, report, watermarks, notices)) => {
            journal::judge(&report, &directory, reporter);
            notices.iter().for_each(|notice| stated(notice, root, reporter));
            Some(Arc::new(StoreEnv {
                disk: Arc::clone(overlay),
                handles: Arc::new(Handles::new(Arc::clone(overlay), OPEN_FILES)),
                slots: Arc::new(TableCache::new(TABLE_BYTES)),
                blocks: Arc::new(Blocks::new(0)),
                journal,
                headroom: Arc::new(headroom),
                watermarks: Arc::new(watermarks),
                register,
                // What it is needed for is written to the overlay only.
                entropy: Arc::new(SeededEntropy::new(store)),
                keys: keys.cloned(),
                unsealed: Unsealed::default(),
                segment_bytes: None,
                claims: ClaimSet::default(),
                _lock: Box::new(()),
            }))
        }
        Err(error) => {
            let meaning = "The server does not start with this journal.";
            reporter.emit(Finding::damage(directory, format!("it cannot be replayed: {error}"), meaning));
            None
        }
    }
}

/// Reads the register, and reports what is wrong with it. `None`: nobody can go on with it.
fn read_register(
    overlay: &Arc<dyn Disk>,
    root: &Path,
    store: u64,
    reporter: &mut Reporter<'_>,
) -> Option<(RegisterContents, Register)> {
    let contents = match register::read(&**overlay, root, store, is_announced(&**overlay, root)) {
        Ok(contents) => contents,
        Err(damage) => {
            let meaning = "The server does not start with it.";
            reporter.emit(Finding::damage(root.join(register::NAMES[0]), damage.to_string(), meaning));
            return None;
        }
    };
    for notice in register_notices(&contents) {
        stated_streams(&notice, root, reporter);
    }
    let register = Register::resume(overlay, root, store, &contents, true);
    Some((contents, register))
}

/// Whether the marker says that there is a register.
fn is_announced(disk: &dyn Disk, root: &Path) -> bool {
    let markers = [MARKER, COPY].map(|name| Marker::read(disk, root, name));
    markers.into_iter().flatten().any(|marker| marker.has_register)
}

/// Reports what is wrong with the register.
fn stated_streams(notice: &Notice, root: &Path, reporter: &mut Reporter<'_>) {
    let (file, what, meaning) = match notice {
        Notice::Repaired { file, what } => {
            (file.as_str(), what.clone(), "The other copy is good; the next start writes both again.")
        }
        other => (
            register::NAMES[0],
            other.to_string(),
            "What had stored nothing and is not found otherwise is lost unless the file can be restored from a backup.",
        ),
    };
    reporter.emit(Finding::damage(root.join(file), what, meaning));
}

/// Reports what is wrong with the watermarks, or with what they say.
fn stated(notice: &Notice, root: &Path, reporter: &mut Reporter<'_>) {
    match notice {
        Notice::Damaged { file, what } if file.starts_with("streams/") => {
            let meaning = "All of the stream is lost unless its directory can be restored from a backup.";
            reporter.emit(Finding::damage(root.join(file), what.as_str(), meaning));
        }
        Notice::Damaged { file, what } => {
            let meaning = "The next start writes it again from the other copy, as far as that goes.";
            reporter.emit(Finding::damage(root.join(file), what.as_str(), meaning));
        }
        other => {
            let meaning = "Without it, messages that are missing at the end of a stream are not missed.";
            reporter.emit(Finding::note(root.join(watermarks::NAMES[0]), other.to_string(), meaning));
        }
    }
}

/// The streams' directories, in order.
pub(super) fn streams(
    looking: &Looking<'_>,
    reporter: &mut Reporter<'_>,
) -> io::Result<Vec<(StreamId, PathBuf)>> {
    let directory = looking.root.join("streams");
    let entries = match looking.disk.list(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut streams = Vec::new();
    for entry in entries {
        let path = directory.join(&entry.name);
        match stream_number(&entry.name).filter(|_| entry.is_directory) {
            Some(id) => streams.push((id, path)),
            None if is_unfinished(&entry.name) => {
                reporter.emit(Finding::note(path, "a stream that was being made or removed", UNFINISHED))
            }
            None => reporter.emit(Finding::suspicious(
                path,
                "it is not the directory of a stream",
                "The next start moves it to quarantine.",
            )),
        }
    }
    Ok(streams)
}
