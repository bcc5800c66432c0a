//! Name of a stream, and the marker that makes a directory a store.
//!
//! Owns the files `meta` and `meta.copy` of a stream: the only place that knows names. The
//! configuration in them is bytes that the floor above wrote and reads. Owns the marker `store`,
//! too, which carries the store's random id.

mod copies;

use std::path::Path;

use std::io;

use myelin_disk::Disk;

use crate::damage::Damage;
use crate::document::{DocumentFormat, Fields, put_blob};
use crate::{StreamId, Timestamp};

pub use copies::META_COPIES;
pub(crate) use copies::{MetaCopies, MetaFault, read as read_copies};

/// The file of a store.
pub const MARKER: &str = "store";
/// Its second copy.
pub(crate) const MARKER_COPY: &str = "store.copy";

const META_FILE: DocumentFormat = DocumentFormat { magic: *b"MYELMETA", version: 2, what: "meta" };
const MARKER_FILE: DocumentFormat = DocumentFormat { magic: *b"MYELSTOR", version: 2, what: "store marker" };

/// The bytes of a copy of `meta`, whatever they are.
pub(crate) fn read_bytes(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, Damage> {
    META_FILE.read(disk, path)
}

/// Facts about a stream that do not change with its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The stream.
    pub stream: StreamId,
    /// When it was made.
    pub created: Timestamp,
    /// Account of the stream.
    pub account: String,
    /// Name of the stream.
    pub name: String,
    /// Text of the floor above, kept for it.
    pub config: Vec<u8>,
    /// The stream's key, encrypted; empty without encryption.
    pub sealed_keys: Vec<u8>,
    /// Grows each time it is written: of two copies the larger one counts. 0: a version wrote it
    /// that had one copy.
    pub generation: u64,
}

impl Meta {
    /// The file's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        META_FILE.frame(&self.body())
    }

    /// Content of the file, without its frame.
    pub(crate) fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&self.stream.0.to_le_bytes());
        body.extend_from_slice(&self.created.to_le_bytes());
        for blob in [self.account.as_bytes(), self.name.as_bytes(), &self.config, &self.sealed_keys] {
            put_blob(blob, &mut body);
        }
        body.extend_from_slice(&self.generation.to_le_bytes());
        body
    }

    /// Reads the file's bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let (version, body) = META_FILE.versioned(bytes)?;
        Self::of_body(body, version)
    }

    /// Reads what [`Meta::body`] gave.
    pub(crate) fn from_body(body: &[u8]) -> Result<Self, Damage> {
        Self::of_body(body, META_FILE.version)
    }

    fn of_body(body: &[u8], version: u32) -> Result<Self, Damage> {
        let mut fields = Fields(body);
        let meta = Self::take(&mut fields, version).filter(|_| fields.0.is_empty());
        meta.ok_or(Damage::Content(META_FILE.what))
    }

    fn take(fields: &mut Fields<'_>, version: u32) -> Option<Self> {
        Some(Self {
            stream: StreamId(fields.u64()?),
            created: fields.u64()? as Timestamp,
            account: text(fields)?,
            name: text(fields)?,
            config: fields.blob()?.to_vec(),
            sealed_keys: fields.blob()?.to_vec(),
            generation: if version == 1 { 0 } else { fields.u64()? },
        })
    }

    /// Makes it the next generation of both copies in a stream's directory. Durable on return.
    ///
    /// # Errors
    /// Those of the disk: the old one is in force then, or the new one.
    pub fn write(&self, disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        let next = Self { generation: self.generation + 1, ..self.clone() };
        META_FILE.replace_all(disk, directory, &META_COPIES, &next.body())
    }

    /// Makes it, as it is, one of the two copies. Durable on return.
    pub(crate) fn write_copy(&self, disk: &dyn Disk, directory: &Path, name: &str) -> io::Result<()> {
        META_FILE.replace(disk, directory, name, &self.body())
    }

    /// Reads the copy that counts in the directory of stream `id`.
    ///
    /// # Errors
    /// What is wrong if neither counts; `Io` with `NotFound` if there is none.
    pub fn read(disk: &dyn Disk, directory: &Path, id: StreamId) -> Result<Self, Damage> {
        read_copies(disk, directory, id).best
    }
}

/// Account and name that damaged bytes of a `meta` seem to say: nothing vouches for them.
pub(crate) fn names_in(bytes: &[u8]) -> Option<(String, String)> {
    let mut fields = Fields(bytes.get(16 + 16..)?);
    let (account, name) = (text(&mut fields)?, text(&mut fields)?);
    let is_name = |text: &str| !text.is_empty() && text.chars().all(|one| !one.is_control());
    (is_name(&account) && is_name(&name)).then_some((account, name))
}

fn text(fields: &mut Fields<'_>) -> Option<String> {
    String::from_utf8(fields.blob()?.to_vec()).ok()
}

/// The marker of a store: 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Random, given when the store was made.
    pub id: [u8; 16],
    /// Whether streams may stand in the store's register only: an earlier version, which does not
    /// know it, does not open the store then.
    pub has_register: bool,
}

impl Marker {
    /// The file's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.format().frame(&self.body())
    }

    /// Version 1 of the marker says that there is no register.
    fn format(&self) -> DocumentFormat {
        DocumentFormat { version: if self.has_register { 2 } else { 1 }, ..MARKER_FILE }
    }

    fn body(&self) -> [u8; 44] {
        let mut body = [0; 44];
        body[..16].copy_from_slice(&self.id);
        body
    }

    /// Reads the file's bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let (version, body) = MARKER_FILE.versioned(bytes)?;
        match body.split_first_chunk() {
            Some((id, rest)) if rest == [0; 28] => Ok(Self { id: *id, has_register: version == 2 }),
            _ => Err(Damage::Content(MARKER_FILE.what)),
        }
    }

    /// Makes `directory` a store; `name` is [`MARKER`] or that of its copy. Durable on return.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn write(&self, disk: &dyn Disk, directory: &Path, name: &str) -> io::Result<()> {
        self.format().replace(disk, directory, name, &self.body())
    }

    /// Reads the marker in `directory`.
    ///
    /// # Errors
    /// What is wrong with it; `Io` with `NotFound` if there is none.
    pub fn read(disk: &dyn Disk, directory: &Path, name: &str) -> Result<Self, Damage> {
        Self::decode(&MARKER_FILE.read(disk, &directory.join(name))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn meta() -> Meta {
        Meta {
            stream: StreamId(4),
            created: -9,
            account: "A".into(),
            name: "größe".into(),
            config: vec![0, 1, 2],
            sealed_keys: vec![7; 40],
            generation: 6,
        }
    }

    #[test]
    fn what_the_first_version_wrote_is_read() {
        let body = meta().body();
        let old = DocumentFormat { version: 1, ..META_FILE }.frame(&body[..body.len() - 8]);
        assert_eq!(Meta::decode(&old).unwrap(), Meta { generation: 0, ..meta() });
        let longer = DocumentFormat { version: 1, ..META_FILE }.frame(&body);
        assert!(Meta::decode(&longer).is_err());
    }

    #[test]
    fn a_meta_comes_back_and_changed_ones_do_not() {
        let good = meta().encode();
        assert_eq!(Meta::decode(&good).unwrap(), meta());
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Meta::decode(&bad).is_err(), "bit {bit}");
        }
        for cut in 0..good.len() {
            assert!(Meta::decode(&good[..cut]).is_err(), "cut at {cut}");
        }
        assert!(Meta::decode(&[&good[..], b"x"].concat()).is_err());
        let body = meta().body();
        for cut in 0..body.len() {
            assert!(matches!(Meta::decode(&META_FILE.frame(&body[..cut])), Err(Damage::Content(_))));
        }
    }

    #[test]
    fn a_marker_has_64_bytes() {
        let marker = Marker { id: *b"0123456789abcdef", has_register: false };
        for has_register in [false, true] {
            let marker = Marker { has_register, ..marker };
            assert_eq!(marker.encode().len(), 64);
            assert_eq!(Marker::decode(&marker.encode()).unwrap(), marker);
        }
        assert!(matches!(Marker::decode(&meta().encode()), Err(Damage::Magic(_))));
        let newer = DocumentFormat { version: 3, ..MARKER_FILE }.frame(&marker.body());
        assert!(matches!(Marker::decode(&newer), Err(Damage::Version(_, 3))));
    }
}
