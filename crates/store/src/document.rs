//! Small files that are replaced as a whole: manifests, `meta`, the marker of a store.
//!
//! Owns their frame and the order of steps by which one takes the place of another: at any moment,
//! also after a loss of power, the name stands for all of the old bytes or all of the new ones.
//!
//! ```text
//! 0 [8] magic  8 u32 version  12 u32 length of the file  16 body
//! length-4 u32 checksum of all that is before it
//! ```

use std::io;
use std::path::Path;
use std::sync::Arc;

use myelin_disk::{Disk, File};

use crate::damage::Damage;

const HEAD_BYTES: usize = 16;
const FRAME_BYTES: usize = HEAD_BYTES + 4;

/// Ending of a file's name while it is written.
pub(crate) const UNFINISHED: &str = ".tmp";

/// A kind of such files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DocumentFormat {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u32,
    /// Name of the document in errors.
    pub(crate) what: &'static str,
}

impl DocumentFormat {
    /// The file's bytes.
    pub(crate) fn frame(&self, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + FRAME_BYTES).expect("these files are far below 4 GiB");
        let mut bytes = Vec::with_capacity(body.len() + FRAME_BYTES);
        bytes.extend_from_slice(&self.magic);
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(body);
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The body in a file's bytes.
    pub(crate) fn body<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], Damage> {
        let (version, body) = self.versioned(bytes)?;
        if version == self.version { Ok(body) } else { Err(Damage::Version(self.what, version)) }
    }

    /// The body in the bytes of a file of this version or an earlier one, and which it is.
    pub(crate) fn versioned<'a>(&self, bytes: &'a [u8]) -> Result<(u32, &'a [u8]), Damage> {
        if bytes.len() < FRAME_BYTES {
            return Err(Damage::Short(self.what));
        }
        if bytes[..8] != self.magic {
            return Err(Damage::Magic(self.what));
        }
        let words = bytes.as_chunks::<4>().0;
        let (version, length) = (u32::from_le_bytes(words[2]), u32::from_le_bytes(words[3]) as usize);
        let whole = bytes.get(..length).ok_or(Damage::Short(self.what))?;
        let (framed, checksum) = whole.split_last_chunk::<4>().ok_or(Damage::Content(self.what))?;
        if crc32c::crc32c(framed).to_le_bytes() != *checksum {
            return Err(Damage::Checksum(self.what));
        }
        if !(1..=self.version).contains(&version) {
            return Err(Damage::Version(self.what, version));
        }
        match framed.get(HEAD_BYTES..) {
            Some(body) if length == bytes.len() => Ok((version, body)),
            _ => Err(Damage::Content(self.what)),
        }
    }

    /// Puts a file with this body at `directory/name`, in the place of an older one. Returns when
    /// it is durable.
    pub(crate) fn replace(
        &self,
        disk: &dyn Disk,
        directory: &Path,
        name: &str,
        body: &[u8],
    ) -> io::Result<()> {
        self.replace_all(disk, directory, &[name], body)
    }

    /// Puts equal files with this body at `directory`, in the place of older ones. All of them are
    /// written before the first one takes its place: then nothing is left that could find the disk
    /// full. Returns when they are durable.
    pub(crate) fn replace_all(
        &self,
        disk: &dyn Disk,
        directory: &Path,
        names: &[&str],
        body: &[u8],
    ) -> io::Result<()> {
        let unfinished = |name: &str| directory.join(format!("{name}{UNFINISHED}"));
        let bytes = self.frame(body);
        names.iter().try_for_each(|name| write_new(disk, &unfinished(name), &bytes).map(drop))?;
        names.iter().try_for_each(|name| disk.rename(&unfinished(name), &directory.join(name)))?;
        disk.sync_directory(directory)
    }

    /// The bytes of a whole file.
    pub(crate) fn read(&self, disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, Damage> {
        let file = disk.open(path)?;
        let length = file.len()?;
        let length = u32::try_from(length).map_err(|_| Damage::Content(self.what))?;
        let mut bytes = vec![0; length as usize];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

/// A synced file with these bytes at a path that nothing ever referred to: what a crash left there
/// goes.
pub(crate) fn write_new(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<Arc<dyn File>> {
    match disk.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create(path)?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    Ok(file)
}

/// Takes fixed numbers off the front of a body.
#[derive(Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.bytes::<1>().map(|[byte]| *byte)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.bytes().map(|bytes| u32::from_le_bytes(*bytes))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.bytes().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// A length in 32 bits, and so many bytes.
    pub(crate) fn blob(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        let (blob, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(blob)
    }
}

/// The counterpart of [`Fields::blob`].
pub(crate) fn put_blob(blob: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(blob.len()).expect("these files are far below 4 GiB");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(blob);
}
