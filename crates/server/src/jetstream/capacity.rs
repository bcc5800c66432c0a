//! Where JetStream stores, and how much.

use crate::{os_error, process};
use myelin_conf::options::JetStreamOptions;
use myelin_disk::real::RealDisk;
use myelin_disk::{Disk as _, Lock};
use rustix::fs::{Access, StatVfs};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a default place that another server holds is waited for, and how often it is looked at.
const PATIENCE: Duration = Duration::from_millis(300);
const POLL: Duration = Duration::from_millis(10);

/// Bytes of memory and of disk where the system does not say what it has.
const UNKNOWN_MEMORY: u64 = 256 * 1024 * 1024;
const UNKNOWN_DISK: u64 = 1024 * 1024 * 1024 * 1024;

/// The folder that operators know, and ours in it: what else is there belongs to another server.
const FOLDER: &str = "jetstream";
const STORE: &str = "myelin";

/// File of a default place by which one server claims it, as long as it runs.
const CLAIM: &str = "myelin.lock";

/// Default places beside the usual one that are tried.
const PLACES_BESIDE: u32 = 999;

/// The directory under which everything of JetStream is, as operators are told: without the `./`
/// and `../` that they may have written. Compat: `x/../y` is `y`, be there an `x` or not.
pub(crate) fn directory(options: &JetStreamOptions) -> PathBuf {
    let parent =
        options.store_dir.as_ref().unwrap_or_else(|| &DEFAULT.get_or_init(DefaultPlace::claim).parent);
    let mut clean = PathBuf::new();
    for part in parent.join(FOLDER).components() {
        let last = clean.components().next_back();
        match (part, last) {
            (Component::CurDir, _) | (Component::ParentDir, Some(Component::RootDir)) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => drop(clean.pop()),
            _ => clean.push(part),
        }
    }
    clean
}

/// Where everything is when nobody has said where, found once.
static DEFAULT: OnceLock<DefaultPlace> = OnceLock::new();

/// A folder that no other server takes for its default place.
struct DefaultPlace {
    parent: PathBuf,
    /// None where it could not be claimed: the start says why.
    _claim: Option<Box<dyn Lock>>,
}

/// Whether nobody has said where everything is, and the usual place is another server's.
pub(crate) fn is_beside(options: &JetStreamOptions) -> bool {
    options.store_dir.is_none() && directory(options) != usual_parent().join(FOLDER)
}

fn usual_parent() -> PathBuf {
    std::env::temp_dir().join("nats")
}

impl DefaultPlace {
    /// `nats` in the folder for what may go, or the first of `nats-2`, `nats-3` and so on that is
    /// free. Compat: several servers that are only tried out, as tests start them, may run at once;
    /// nats-server lets them write over each other there, here a later one gets a place of its own.
    /// There are as many as servers ran at once, and whoever is started again finds one of them.
    fn claim() -> Self {
        let parent = usual_parent();
        // One that is about to end is waited for: a restart finds its streams again.
        let end = Instant::now() + PATIENCE;
        loop {
            match claim(&parent) {
                Err(error) if error.kind() == ErrorKind::ResourceBusy => {}
                claimed => return Self { parent, _claim: claimed.ok() },
            }
            if Instant::now() >= end {
                break;
            }
            std::thread::sleep(POLL);
        }
        let beside = |number: u32| {
            let parent = std::env::temp_dir().join(format!("nats-{number}"));
            claim(&parent).ok().map(|claim| Self { parent, _claim: Some(claim) })
        };
        (2..2 + PLACES_BESIDE).find_map(beside).unwrap_or(Self { parent, _claim: None })
    }
}

/// Claims a default place, which is made if it is not there.
///
/// # Errors
/// Another server has it ([`ErrorKind::ResourceBusy`]), or it cannot be written to.
fn claim(parent: &Path) -> io::Result<Box<dyn Lock>> {
    match std::fs::create_dir(parent) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let claim = RealDisk.lock(&parent.join(CLAIM))?;
    // A server that was told to store there has the store only.
    let store = parent.join(FOLDER).join(STORE).join("lock");
    if store.exists() {
        RealDisk.lock(&store)?;
    }
    Ok(claim)
}

/// The store's own directory.
pub(super) fn store_directory(options: &JetStreamOptions) -> PathBuf {
    directory(options).join(STORE)
}

/// Makes the directory, or sees that the one that is there can be written to. Before this, nobody
/// knows how much can be stored in it.
///
/// # Errors
/// The reference's words for why not.
pub(crate) fn prepare(directory: &Path) -> Result<(), String> {
    match std::fs::metadata(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => make(directory),
        Ok(found) if found.is_dir() => {
            is_writable(directory).then_some(()).ok_or_else(|| "storage directory is not writable".to_owned())
        }
        _ => Err("storage directory is not a directory".to_owned()),
    }
}

/// Makes the directory and what is missing above it.
fn make(directory: &Path) -> Result<(), String> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let missing = directory.ancestors().take_while(is_missing).collect::<Vec<_>>();
    missing.into_iter().rev().try_for_each(|path| {
        std::fs::create_dir(path).map_err(|error| {
            let reason = os_error::words(&error);
            format!("could not create storage directory - mkdir {}: {reason}", path.display())
        })
    })
}

fn is_writable(directory: &Path) -> bool {
    rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Bytes that may be stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) memory: u64,
    pub(crate) disk: u64,
}

impl Capacity {
    /// As configured, else three quarters of what this machine has. Of a directory that could not
    /// be [prepared](prepare) nobody knows. What the store occupies already counts as free: a limit
    /// that did not count it would refuse messages after a restart that it took before.
    pub(crate) fn of(options: &JetStreamOptions) -> Self {
        let memory = || process::memory_of_machine().map_or(UNKNOWN_MEMORY, most);
        let disk = || {
            let free = free_space(&directory(options));
            free.map_or(UNKNOWN_DISK, |free| most(free + occupied(&store_directory(options))))
        };
        Self {
            memory: options.max_memory_store.unwrap_or_else(memory),
            disk: options.max_file_store.unwrap_or_else(disk),
        }
    }
}

/// The part of memory, or of a disk, that is used if nobody says how much.
pub(super) fn most(bytes: u64) -> u64 {
    bytes / 4 * 3
}

/// Bytes that the files under `directory` occupy, also those of messages that are gone. Whatever
/// cannot be read counts as nothing.
fn occupied(directory: &Path) -> u64 {
    let mut directories = vec![directory.to_owned()];
    let mut bytes = 0;
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => directories.push(entry.path()),
                Ok(found) => bytes += found.blocks() * 512,
                Err(_) => {}
            }
        }
    }
    bytes
}

/// Space that is kept back on a disk for deletes and purges once it is full: no more than a
/// sixteenth of it, so that a small disk has some, too. Without any, a disk that is full could not
/// be emptied, nor the server started on it.
pub(super) fn headroom(options: &JetStreamOptions, most: u64) -> u64 {
    let whole = disk_of(&directory(options)).map(|disk| disk.f_blocks * disk.f_frsize);
    whole.map_or(most, |whole| most.min(whole / 16))
}

/// Free bytes of the disk that holds `path`.
fn free_space(path: &Path) -> Option<u64> {
    disk_of(path).map(|disk| disk.f_bavail * disk.f_frsize)
}

fn disk_of(path: &Path) -> Option<StatVfs> {
    rustix::fs::statvfs(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_told_without_what_says_nothing() {
        for (given, told) in [
            ("./data", "data/jetstream"),
            ("/a/./b/", "/a/b/jetstream"),
            (".", "jetstream"),
            ("x/../y", "y/jetstream"),
            ("../../y", "../../y/jetstream"),
            ("/../y", "/y/jetstream"),
        ] {
            let options = JetStreamOptions { store_dir: Some(given.into()), ..JetStreamOptions::default() };
            assert_eq!(directory(&options), Path::new(told));
        }
    }

    #[test]
    fn a_directory_is_made_and_a_file_in_its_place_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("a/b");
        assert_eq!(prepare(&directory), Ok(()));
        assert!(directory.is_dir());
        assert_eq!(prepare(&directory), Ok(()));
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let refused = Err("storage directory is not a directory".to_owned());
        assert_eq!(prepare(&file), refused);
        assert_eq!(prepare(&file.join("jetstream")), refused);
    }

    #[test]
    fn a_directory_that_is_made_has_what_its_disk_has() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("a/b/jetstream");
        assert_eq!(free_space(&absent), None);
        prepare(&absent).unwrap();
        // The same disk, however much others write to it meanwhile.
        assert!(free_space(&absent).unwrap() > 0);
    }
}
