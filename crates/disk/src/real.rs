//! The operating system's files.
//!
//! What is created here belongs to the server's user alone: files are 0600, directories 0700.
//! Errors are the operating system's own, with their number. Nothing is buffered: each call is one
//! or a few system calls.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::lock::is_held;
use super::{DirectoryEntry, Disk, File, Lock};

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Arc::new(RealFile { file }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Arc::new(RealFile { file }))
    }

    fn open_read_only(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        // To open a pipe would wait for its other end, and to open a device may be an order to it.
        if !fs::metadata(path)?.is_file() {
            return Err(not_regular());
        }
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        // It may be another one by now.
        if file.metadata()?.is_file() { Ok(Arc::new(RealFile { file })) } else { Err(not_regular()) }
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let entry = |entry: io::Result<fs::DirEntry>| {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            Ok(DirectoryEntry { name, is_directory: entry.file_type()?.is_dir() })
        };
        let mut entries = fs::read_dir(directory)?.map(entry).collect::<io::Result<Vec<_>>>()?;
        entries.sort();
        Ok(entries)
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        fs::File::open(directory)?.sync_all()
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let device = retry_on_intr(|| rustix::fs::statvfs(path))?;
        Ok(device.f_bavail.saturating_mul(device.f_frsize))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => Ok(Box::new(RealLock { file })),
            Err(Errno::WOULDBLOCK) => Err(is_held()),
            Err(error) => Err(error.into()),
        }
    }

    /// Random, and new with each start of the kernel. Other systems than Linux have no such number.
    fn boot(&self) -> Option<u64> {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
        u64::from_str_radix(&digits, 16).ok().filter(|boot| *boot != 0)
    }
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")
}

/// The lock belongs to the open file: closing it, as the end of the process does, ends the lock.
#[derive(Debug)]
struct RealLock {
    file: fs::File,
}

impl Lock for RealLock {}

impl Drop for RealLock {
    /// Closing is not enough: another thread may just be starting a program, and until that has
    /// begun the open file is the child's, too.
    fn drop(&mut self) {
        // What is not unlocked here is when the last descriptor is closed.
        let _ = retry_on_intr(|| rustix::fs::flock(&self.file, FlockOperation::Unlock));
    }
}

#[derive(Debug)]
struct RealFile {
    file: fs::File,
}

impl RealFile {
    /// Where the device cannot promise room, the length at least is as asked.
    fn extend(&self, length: u64) -> io::Result<()> {
        if self.len()? < length { self.file.set_len(length) } else { Ok(()) }
    }
}

impl File for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_on(&self.file, buffer, offset, 0)
    }

    #[cfg(target_os = "linux")]
    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        use rustix::io::ReadWriteFlags;

        let mut done = 0;
        // A page that is missing behind pages that are there ends the call early: only the next
        // call says why.
        while done < buffer.len() {
            let at = offset.saturating_add(done as u64);
            let rest = &mut [io::IoSliceMut::new(&mut buffer[done..])];
            match retry_on_intr(|| rustix::io::preadv2(&self.file, rest, at, ReadWriteFlags::NOWAIT)) {
                Ok(0) => break,
                Ok(length) => done += length,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    return read_on(&self.file, buffer, offset, done).map(Some);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(done))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        if length == 0 || (cfg!(target_vendor = "apple") && self.len()? >= length) {
            return Ok(());
        }
        // From the beginning, because a longer file may have holes; what is there already costs
        // next to nothing.
        match retry_on_intr(|| rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, length)) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => self.extend(length),
            Err(error) => Err(error.into()),
        }
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Fills `buffer` from `done` on; gives back how much of it is filled.
fn read_on(file: &fs::File, buffer: &mut [u8], offset: u64, mut done: usize) -> io::Result<usize> {
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(length) => done += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_although_a_child_has_its_descriptor() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let file = OpenOptions::new().write(true).create_new(true).open(&path).expect("it is new");
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).expect("nobody has it");
        // What a child has between its beginning and that of its program.
        let inherited = file.try_clone().expect("there are descriptors");
        drop(RealLock { file });
        RealDisk.lock(&path).expect("it was given up");
        drop(inherited);
    }
}
