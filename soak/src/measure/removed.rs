//! Time for which removed files stay open.

use super::REMOVED_FILES_STAY;
use super::process::RemovedFile;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A removed file that stayed open for too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    /// Where it was.
    pub(crate) path: PathBuf,
    /// Time from the first to the last look that found the removed file open.
    pub(crate) open_for: Duration,
}

/// Which descriptor shows which file, and where it was: each may be used again for something else,
/// not all of them.
type Key = (u32, u64, PathBuf);

#[derive(Debug, Clone, Copy)]
struct Sighting {
    first: Instant,
    last: Instant,
}

/// Removed files by when they were seen.
#[derive(Debug, Default)]
pub(super) struct Removed {
    open: HashMap<Key, Sighting>,
    /// Files that were too long open and are closed now.
    past: Vec<Held>,
}

impl Removed {
    /// Takes what is open now.
    pub(super) fn saw(&mut self, files: &[RemovedFile]) {
        self.saw_at(Instant::now(), files);
    }

    fn saw_at(&mut self, now: Instant, files: &[RemovedFile]) {
        for file in files {
            let key = (file.descriptor, file.inode, file.path.clone());
            self.open.entry(key).or_insert(Sighting { first: now, last: now }).last = now;
        }
        let past = &mut self.past;
        self.open.retain(|(_, _, path), sighting| {
            let is_open = sighting.last == now;
            if !is_open {
                past.extend(sighting.held(path));
            }
            is_open
        });
    }

    /// Files that were open for too long, closed or not, the longest first.
    pub(super) fn held(&self) -> Vec<Held> {
        let mut held = self.past.clone();
        held.extend(self.open.iter().filter_map(|((_, _, path), sighting)| sighting.held(path)));
        held.sort_by_key(|held| std::cmp::Reverse(held.open_for));
        held
    }

    /// Time for which the oldest of those that are open now has been so.
    pub(super) fn longest_open(&self) -> Duration {
        self.open.values().map(|sighting| sighting.open_for()).max().unwrap_or_default()
    }
}

impl Sighting {
    fn open_for(self) -> Duration {
        self.last - self.first
    }

    fn held(self, path: &Path) -> Option<Held> {
        let open_for = self.open_for();
        (open_for > REMOVED_FILES_STAY).then(|| Held { path: path.to_owned(), open_for })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(descriptor: u32, inode: u64) -> RemovedFile {
        RemovedFile::sample(descriptor, inode)
    }

    #[test]
    fn who_stays_too_long_is_told_even_when_gone() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut removed = Removed::default();
        removed.saw_at(at(0), &[file(1, 1), file(2, 2)]);
        removed.saw_at(at(10), &[file(1, 1), file(2, 3)]);
        assert_eq!(removed.held(), []);
        assert_eq!(removed.longest_open(), Duration::from_secs(10));
        removed.saw_at(at(12), &[file(1, 1), file(2, 3)]);
        removed.saw_at(at(13), &[]);
        let held: Vec<Duration> = removed.held().iter().map(|held| held.open_for).collect();
        assert_eq!(held, [Duration::from_secs(12)]);
        assert_eq!(removed.longest_open(), Duration::ZERO);
    }
}
