//! A disk over another one: reads go through, changes stay in memory.
//!
//! Owns what makes a check harmless: replaying the journal and recovering a stream write files, and
//! here they do it without touching any. Memory grows with what is written, not with what is there.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use myelin_disk::{DirectoryEntry, Disk, File, Lock};
use myelin_stdx::sync::lock;

const PAGE: u64 = 4096;

/// Disk that reads from another one and keeps all changes in memory.
#[derive(Debug)]
pub(crate) struct Overlay {
    below: Arc<dyn Disk>,
    changes: Arc<Mutex<Changes>>,
}

type Changes = BTreeMap<PathBuf, OverlayEntry>;

/// Entry of a path here, in place of what is below.
#[derive(Clone, Debug)]
enum OverlayEntry {
    Gone,
    Directory,
    File(Arc<OverlayContents>),
}

/// A file's bytes: pages that were written, over those below.
#[derive(Debug)]
struct OverlayContents {
    below: Option<Arc<dyn File>>,
    state: Mutex<OverlayPages>,
}

#[derive(Debug)]
struct OverlayPages {
    length: u64,
    /// From here on nothing is seen of the file below.
    cut: u64,
    pages: BTreeMap<u64, Box<[u8]>>,
}

/// A file opened here. It takes its name over when it is changed, so that files that are only read
/// are closed again.
#[derive(Debug)]
struct OverlayFile {
    contents: Arc<OverlayContents>,
    path: PathBuf,
    changes: Arc<Mutex<Changes>>,
}

impl Overlay {
    /// Nothing is changed yet.
    pub(crate) fn new(below: Arc<dyn Disk>) -> Self {
        Self { below, changes: Arc::default() }
    }

    fn file(&self, contents: Arc<OverlayContents>, path: &Path) -> Arc<dyn File> {
        Arc::new(OverlayFile { contents, path: path.to_owned(), changes: Arc::clone(&self.changes) })
    }

    fn contents(&self, path: &Path) -> io::Result<Arc<OverlayContents>> {
        match lock(&self.changes).get(path) {
            Some(OverlayEntry::File(contents)) => return Ok(Arc::clone(contents)),
            Some(OverlayEntry::Directory) => return Err(ErrorKind::IsADirectory.into()),
            Some(OverlayEntry::Gone) => return Err(ErrorKind::NotFound.into()),
            None => {}
        }
        let below = self.below.open_read_only(path)?;
        let length = below.len()?;
        let state = Mutex::new(OverlayPages { length, cut: length, pages: BTreeMap::new() });
        Ok(Arc::new(OverlayContents { below: Some(below), state }))
    }

    /// Where what was written here differs from what is below, other than by filling zeros.
    pub(super) fn replaced(&self) -> io::Result<Vec<(PathBuf, Range<u64>)>> {
        let mut replaced = Vec::new();
        for (path, change) in lock(&self.changes).iter() {
            let OverlayEntry::File(contents) = change else { continue };
            if let Some(range) = contents.replaced()? {
                replaced.push((path.clone(), range));
            }
        }
        Ok(replaced)
    }

    /// Has a name stand for nothing.
    pub(super) fn hide(&self, path: &Path) {
        self.set(path, OverlayEntry::Gone);
    }

    fn set(&self, path: &Path, change: OverlayEntry) {
        lock(&self.changes).insert(path.to_owned(), change);
    }
}

impl Disk for Overlay {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        match self.contents(path) {
            Ok(_) => return Err(ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
        let state = Mutex::new(OverlayPages { length: 0, cut: 0, pages: BTreeMap::new() });
        let contents = Arc::new(OverlayContents { below: None, state });
        self.set(path, OverlayEntry::File(Arc::clone(&contents)));
        Ok(self.file(contents, path))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.contents(path)?, path))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let changes = lock(&self.changes);
        if matches!(changes.get(directory), Some(OverlayEntry::Gone)) {
            return Err(ErrorKind::NotFound.into());
        }
        let mut names: BTreeMap<String, bool> = match self.below.list(directory) {
            Ok(entries) => entries.into_iter().map(|entry| (entry.name, entry.is_directory)).collect(),
            Err(_) if matches!(changes.get(directory), Some(OverlayEntry::Directory)) => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        // Paths below a directory stand together.
        let below =
            changes.range(directory.to_path_buf()..).take_while(|(path, _)| path.starts_with(directory));
        for (path, change) in below.filter(|(path, _)| path.parent() == Some(directory)) {
            let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else {
                continue;
            };
            match change {
                OverlayEntry::Gone => names.remove(&name),
                change => names.insert(name, matches!(change, OverlayEntry::Directory)),
            };
        }
        Ok(names.into_iter().map(|(name, is_directory)| DirectoryEntry { name, is_directory }).collect())
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        for path in path.ancestors() {
            if self.below.list(path).is_ok() {
                break;
            }
            self.set(path, OverlayEntry::Directory);
        }
        Ok(())
    }

    /// A directory goes with what is in it, which is not to be seen in its new place.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.list(from).is_ok() {
            self.set(to, OverlayEntry::Directory);
            self.set(from, OverlayEntry::Gone);
            return Ok(());
        }
        let contents = self.contents(from)?;
        self.set(to, OverlayEntry::File(contents));
        self.set(from, OverlayEntry::Gone);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.contents(path)?;
        self.set(path, OverlayEntry::Gone);
        Ok(())
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        if !self.list(path)?.is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        self.set(path, OverlayEntry::Gone);
        Ok(())
    }

    fn sync_directory(&self, _directory: &Path) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.below.free_bytes(path)
    }

    /// Locks nothing: what changes stays here, so nobody has to be kept out.
    fn lock(&self, _path: &Path) -> io::Result<Box<dyn Lock>> {
        Ok(Box::new(()))
    }

    fn boot(&self) -> Option<u64> {
        self.below.boot()
    }
}

impl OverlayContents {
    /// Reads within one page; the rest of the page behind the end reads as zeros.
    fn read_page(&self, state: &OverlayPages, page: u64, buffer: &mut [u8], skip: usize) -> io::Result<()> {
        if let Some(bytes) = state.pages.get(&page) {
            buffer.copy_from_slice(&bytes[skip..skip + buffer.len()]);
            return Ok(());
        }
        let at = page * PAGE + skip as u64;
        let seen = state.cut.saturating_sub(at).min(buffer.len() as u64) as usize;
        let (old, new) = buffer.split_at_mut(seen);
        let read = match &self.below {
            Some(file) if seen > 0 => file.read_at(old, at)?,
            _ => 0,
        };
        old[read..].fill(0);
        new.fill(0);
        Ok(())
    }
}

impl OverlayContents {
    fn replaced(&self) -> io::Result<Option<Range<u64>>> {
        let Some(file) = &self.below else { return Ok(None) };
        let state = lock(&self.state);
        let mut range: Option<Range<u64>> = None;
        let mut old = vec![0; PAGE as usize];
        for (page, new) in &state.pages {
            let read = file.read_at(&mut old, page * PAGE)?;
            let differs = |(old, new): (&u8, &u8)| *old != 0 && old != new;
            let pairs = || old[..read].iter().zip(new);
            if let (Some(first), Some(last)) = (pairs().position(differs), pairs().rposition(differs)) {
                let found = page * PAGE + first as u64..page * PAGE + last as u64 + 1;
                range = Some(range.map_or(found.clone(), |range| range.start..found.end));
            }
        }
        Ok(range)
    }
}

impl OverlayFile {
    fn take_name(&self) {
        let mut changes = lock(&self.changes);
        changes.entry(self.path.clone()).or_insert_with(|| OverlayEntry::File(Arc::clone(&self.contents)));
    }
}

/// The parts of `length` bytes at `offset` that lie in one page each: page, where in it, where in
/// the bytes.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let skip = (at % PAGE) as usize;
        let size = (length - done).min(PAGE as usize - skip);
        let range = done..done + size;
        done += size;
        (size > 0).then_some((at / PAGE, skip, range))
    })
}

impl File for OverlayFile {
    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.contents.state).length)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = lock(&self.contents.state);
        let length = state.length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let is_untouched = state.pages.is_empty() && offset.saturating_add(length as u64) <= state.cut;
        if let Some(below) = self.contents.below.as_ref().filter(|_| is_untouched) {
            return below.read_at(&mut buffer[..length], offset);
        }
        for (page, skip, range) in parts(offset, length) {
            self.contents.read_page(&state, page, &mut buffer[range], skip)?;
        }
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(ErrorKind::FileTooLarge)?;
        self.take_name();
        let mut state = lock(&self.contents.state);
        for (page, skip, range) in parts(offset, bytes.len()) {
            let mut whole = vec![0; PAGE as usize];
            self.contents.read_page(&state, page, &mut whole, 0)?;
            whole[skip..skip + range.len()].copy_from_slice(&bytes[range]);
            state.pages.insert(page, whole.into_boxed_slice());
        }
        state.length = state.length.max(end);
        Ok(())
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.take_name();
        let mut state = lock(&self.contents.state);
        state.length = state.length.max(length);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.take_name();
        let mut state = lock(&self.contents.state);
        state.cut = state.cut.min(length);
        let _ = state.pages.split_off(&length.div_ceil(PAGE));
        if let Some(last) = state.pages.get_mut(&(length / PAGE)) {
            last[(length % PAGE) as usize..].fill(0);
        }
        state.length = length;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use myelin_disk::memory::MemoryDisk;

    use super::*;

    #[test]
    fn what_is_below_stays_as_it_was() {
        let below = MemoryDisk::new();
        let (path, other) = (Path::new("/d/a"), Path::new("/d/b"));
        below.make_directory(Path::new("/d")).unwrap();
        below.create(path).unwrap().write_at(&[7; 5000], 0).unwrap();
        let overlay = Overlay::new(Arc::new(below.clone()));
        let file = overlay.open(path).unwrap();
        file.write_at(&[9; 10], 4090).unwrap();
        file.set_len(4095).unwrap();
        file.allocate(6000).unwrap();
        overlay.create(other).unwrap();
        assert!(overlay.create(other).is_err());
        let mut bytes = [1; 8000];
        assert_eq!(overlay.open(path).unwrap().read_at(&mut bytes, 0).unwrap(), 6000);
        assert_eq!((&bytes[4088..4096], bytes[4999]), (&[7, 7, 9, 9, 9, 9, 9, 0][..], 0));
        overlay.rename(path, Path::new("/d/c")).unwrap();
        let names: Vec<_> =
            overlay.list(Path::new("/d")).unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(below.list(Path::new("/d")).unwrap().len(), 1);
        assert_eq!(below.open(path).unwrap().read_at(&mut bytes, 0).unwrap(), 5000);
        assert_eq!(bytes[..5000], [7; 5000]);
    }
}
