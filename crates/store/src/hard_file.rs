//! The file `hard` of a store: what members of groups must remember of elections.
//!
//! Owns the file, its name and its syncs; the form of what is in it belongs to who writes it
//! (`replica`). A store without groups has none: the file is made when there is something to
//! remember. On a disk that is full it takes what is kept free there: who cannot vote elects nobody
//! who could make room. Must never call something durable that a loss of power can take.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_disk::headroom::Headroom;
use myelin_disk::{Disk, File, write_again};

use crate::document::write_new;
use crate::recovery::place_aside;

/// Names of the file, and of one that is not complete, which a start does not look at.
pub(crate) const NAMES: [&str; 2] = ["hard", "hard.tmp"];

/// The file, for whoever knows what is in it. One at a time.
#[derive(Debug)]
pub struct HardFile {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    /// None in a test.
    headroom: Option<Arc<Headroom>>,
    file: Option<Arc<dyn File>>,
    end: u64,
    /// Whether a write has failed: what the file has since then nobody knows.
    has_failed: bool,
}

impl HardFile {
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        root: &Path,
        headroom: Option<Arc<Headroom>>,
    ) -> io::Result<(Self, Vec<u8>)> {
        let file = match disk.open(&root.join(NAMES[0])) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        if let Some(file) = &file {
            bytes.resize(usize::try_from(file.len()?).unwrap_or(usize::MAX), 0);
            read_all(&**file, &mut bytes)?;
            // A process that was killed may have left what is seen and not safe.
            write_again(&**file, 0, bytes.len() as u64)?;
            disk.sync_directory(root)?;
        }
        let end = bytes.len() as u64;
        Ok((Self { disk, root: root.to_owned(), headroom, file, end, has_failed: false }, bytes))
    }

    /// Bytes that count.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.end
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Whether [`HardFile::append`] is refused until it was written anew.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Keeps these bytes, which were the file's, in quarantine. Answers where.
    ///
    /// # Errors
    /// Of the disk.
    pub fn keep_aside(&self, bytes: &[u8]) -> io::Result<PathBuf> {
        self.with_room(|| {
            let place = place_aside(&*self.disk, &self.root, "", NAMES[0])?;
            write_new(&*self.disk, &place, bytes)?;
            Ok(place)
        })
    }

    /// Takes off what is behind the first `end` bytes: the torn end of a write.
    ///
    /// # Errors
    /// Of the disk.
    pub fn cut(&mut self, end: u64) -> io::Result<()> {
        if let Some(file) = self.file.as_ref().filter(|_| end < self.end) {
            file.set_len(end)?;
            file.sync()?;
            self.end = end;
        }
        Ok(())
    }

    /// Appends bytes, and makes them durable before it returns.
    ///
    /// # Errors
    /// Of the disk: some of the bytes may be in the file. From then on only
    /// [`HardFile::write_anew`] is taken, because what a sync has lost no later one saves.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.has_failed {
            return Err(io::Error::other("an earlier write of the file has failed"));
        }
        let Some(file) = self.file.clone() else { return self.write_anew(bytes) };
        // What a write had no room for another one in its place writes; what a sync has lost none
        // does.
        let written = self.with_room(|| file.write_at(bytes, self.end)).and_then(|()| file.sync());
        match written {
            Ok(()) => self.end += bytes.len() as u64,
            Err(_) => self.has_failed = true,
        }
        written
    }

    /// Writes another file with these bytes in its place. After a loss of power there is one or
    /// the other.
    ///
    /// # Errors
    /// Of the disk: which of the two is there is not known, and it is to be done again.
    pub fn write_anew(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (path, unfinished) = (self.root.join(NAMES[0]), self.root.join(NAMES[1]));
        self.has_failed = true;
        let file = self.with_room(|| {
            let file = write_new(&*self.disk, &unfinished, bytes)?;
            self.disk.rename(&unfinished, &path)?;
            self.disk.sync_directory(&self.root)?;
            Ok(file)
        })?;
        (self.file, self.end, self.has_failed) = (Some(file), bytes.len() as u64, false);
        Ok(())
    }

    fn with_room<T>(&self, mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        match &self.headroom {
            Some(headroom) => headroom.with_room(act),
            None => act(),
        }
    }
}

fn read_all(file: &dyn File, bytes: &mut [u8]) -> io::Result<()> {
    let mut at = 0;
    while at < bytes.len() {
        match file.read_at(&mut bytes[at..], at as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => at += read,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_disk::faulty::{DiskFault, FaultyDisk, Survival};
    use std::io::ErrorKind;

    fn open(disk: &FaultyDisk) -> (HardFile, Vec<u8>) {
        let (file, bytes) = HardFile::open(Arc::new(disk.clone()), Path::new("/"), None).unwrap();
        assert_eq!((file.len(), file.is_empty()), (bytes.len() as u64, bytes.is_empty()));
        (file, bytes)
    }

    #[test]
    fn what_was_appended_outlives_a_loss_of_power() {
        let mut disk = FaultyDisk::new(1);
        let (mut file, bytes) = open(&disk);
        assert!(bytes.is_empty() && disk.files().is_empty(), "nobody has anything to remember");
        for (written, expected) in [("one", "one"), ("two", "onetwo")] {
            file.append(written.as_bytes()).unwrap();
            disk = disk.power_cycle(Survival::None);
            let (next, bytes) = open(&disk);
            assert_eq!(bytes, expected.as_bytes());
            file = next;
        }
        file.write_anew(b"three").unwrap();
        file.append(b"four").unwrap();
        disk = disk.power_cycle(Survival::None);
        let (mut file, bytes) = open(&disk);
        assert_eq!(bytes, b"threefour");
        file.cut(7).unwrap();
        file.append(b"x").unwrap();
        assert_eq!(open(&disk.power_cycle(Survival::None)).1, b"threefox");
    }

    /// A process that is killed leaves what is in the page cache: whoever reads it counts on it.
    #[test]
    fn what_a_start_has_read_outlives_a_loss_of_power() {
        for point in 0..12 {
            let disk = FaultyDisk::new(point);
            let (mut file, _) = open(&disk);
            disk.fail_at(point, DiskFault::ErrorsFrom(ErrorKind::Other));
            let _ =
                file.append(b"one").and_then(|()| file.append(b"two")).and_then(|()| file.write_anew(b"x"));
            let disk = disk.kill();
            let (_, bytes) = open(&disk);
            let (_, after) = open(&disk.power_cycle(Survival::None));
            assert_eq!(after, bytes, "{point}");
        }
    }

    /// At each point of a write anew power is lost, or an error comes: one of the two is there.
    #[test]
    fn there_is_one_file_or_the_other() {
        let error = DiskFault::Error(ErrorKind::Other);
        for fault in [DiskFault::Crash, error] {
            let mut is_through = false;
            for point in 0..20 {
                let disk = FaultyDisk::new(point);
                let (mut file, _) = open(&disk);
                file.append(b"before").unwrap();
                disk.fail_at(disk.points() + point, fault);
                let written = file.write_anew(b"after");
                if fault == error {
                    disk.heal();
                }
                if written.is_err() && fault == error {
                    assert!(file.has_failed() && file.append(b"more").is_err());
                    file.write_anew(b"after").unwrap();
                    file.append(b"").unwrap();
                }
                let is_after = written.is_ok() || fault == error;
                for survival in [Survival::None, Survival::All, Survival::Random(point)] {
                    let (_, bytes) = open(&disk.power_cycle(survival));
                    assert!(bytes == b"after" || (!is_after && bytes == b"before"), "{point}: {bytes:?}");
                }
                is_through |= written.is_ok();
            }
            assert!(is_through, "all points were tried");
        }
    }

    /// Bytes that a sync has refused are perhaps not there, whatever a later one says.
    #[test]
    fn a_failed_append_is_not_followed_by_another() {
        let disk = FaultyDisk::new(1);
        let (mut file, _) = open(&disk);
        file.append(b"before").unwrap();
        // The write, then its sync.
        disk.fail_at(disk.points() + 1, DiskFault::Error(ErrorKind::Other));
        assert!(file.append(b"lost").is_err());
        assert!(file.append(b"more").is_err() && file.has_failed());
        assert_eq!(file.len(), 6);
    }

    /// Who could not vote on a full disk would elect nobody who makes room.
    #[test]
    fn a_full_disk_has_room_for_votes() {
        let disk = FaultyDisk::new(1);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let kept = 64 << 10..=64 << 10;
        let headroom = Arc::new(Headroom::open(Arc::clone(&shared), Path::new("/headroom"), kept).unwrap());
        let open = || HardFile::open(Arc::clone(&shared), Path::new("/"), Some(Arc::clone(&headroom)));
        let (mut file, _) = open().unwrap();
        file.append(&[1; 60]).unwrap();
        for act in 0..3 {
            disk.set_capacity(None);
            assert!(headroom.restore());
            disk.set_capacity(Some(disk.used()));
            match act {
                0 => (0..100).for_each(|_| file.append(&[2; 60]).unwrap()),
                1 => file.write_anew(&[3; 9_000]).unwrap(),
                _ => drop(file.keep_aside(&[4; 9_000]).unwrap()),
            }
            assert!(!headroom.is_held() && !file.has_failed(), "{act}");
        }
        assert_eq!(open().unwrap().1, [3; 9_000]);
    }
}
