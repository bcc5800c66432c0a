//! What a stream is called, and the marker that makes a directory a store.
//!
//! Owns the file `meta` of a stream: the only place that knows names. The configuration in it is bytes that the floor
//! above wrote and reads. Owns the marker `store`, too, which carries the store's random id.

use std::path::Path;

use std::io;

use crate::damage::Damage;
use crate::disk::Disk;
use crate::document::{Document, Fields, put_blob};
use crate::{StreamId, Timestamp};

/// The file of a stream.
pub const META: &str = "meta";
/// The file of a store.
pub const MARKER: &str = "store";

const META_FILE: Document = Document { magic: *b"MYELMETA", version: 1, what: "meta" };
const MARKER_FILE: Document = Document { magic: *b"MYELSTOR", version: 1, what: "store marker" };

/// What does not change with a stream's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The stream.
    pub stream: StreamId,
    /// When it was made.
    pub created: Timestamp,
    /// Whose it is.
    pub account: String,
    /// What it is called.
    pub name: String,
    /// What the floor above wants to know again.
    pub config: Vec<u8>,
    /// The stream's key, encrypted; empty without encryption.
    pub sealed_keys: Vec<u8>,
}

impl Meta {
    /// The file's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        META_FILE.frame(&self.body())
    }

    fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&self.stream.0.to_le_bytes());
        body.extend_from_slice(&self.created.to_le_bytes());
        for blob in [self.account.as_bytes(), self.name.as_bytes(), &self.config, &self.sealed_keys] {
            put_blob(blob, &mut body);
        }
        body
    }

    /// Reads the file's bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let mut fields = Fields(META_FILE.body(bytes)?);
        let meta = Self::take(&mut fields).filter(|_| fields.0.is_empty());
        meta.ok_or(Damage::Content(META_FILE.what))
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self {
            stream: StreamId(fields.u64()?),
            created: fields.u64()? as Timestamp,
            account: text(fields)?,
            name: text(fields)?,
            config: fields.blob()?.to_vec(),
            sealed_keys: fields.blob()?.to_vec(),
        })
    }

    /// Makes it the `meta` of a stream's directory. Durable on return.
    ///
    /// # Errors
    /// Those of the disk: the old one is in force then, or the new one.
    pub fn write(&self, disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        META_FILE.replace(disk, directory, META, &self.body())
    }

    /// Reads the `meta` of a stream's directory.
    ///
    /// # Errors
    /// What is wrong with it; `Io` with `NotFound` if there is none.
    pub fn read(disk: &dyn Disk, directory: &Path) -> Result<Self, Damage> {
        Self::decode(&META_FILE.read(disk, &directory.join(META))?)
    }
}

fn text(fields: &mut Fields<'_>) -> Option<String> {
    String::from_utf8(fields.blob()?.to_vec()).ok()
}

/// The marker of a store: 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Random, given when the store was made.
    pub id: [u8; 16],
}

impl Marker {
    /// The file's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        MARKER_FILE.frame(&self.body())
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
        let body = MARKER_FILE.body(bytes)?;
        match body.split_first_chunk() {
            Some((id, rest)) if rest == [0; 28] => Ok(Self { id: *id }),
            _ => Err(Damage::Content(MARKER_FILE.what)),
        }
    }

    /// Makes `directory` a store; `name` is [`MARKER`] or that of its copy. Durable on return.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn write(&self, disk: &dyn Disk, directory: &Path, name: &str) -> io::Result<()> {
        MARKER_FILE.replace(disk, directory, name, &self.body())
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

    fn meta() -> Meta {
        Meta {
            stream: StreamId(4),
            created: -9,
            account: "A".into(),
            name: "größe".into(),
            config: vec![0, 1, 2],
            sealed_keys: vec![7; 40],
        }
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
        let marker = Marker { id: *b"0123456789abcdef" };
        let good = marker.encode();
        assert_eq!(good.len(), 64);
        assert_eq!(Marker::decode(&good).unwrap(), marker);
        assert!(matches!(Marker::decode(&meta().encode()), Err(Damage::Magic(_))));
        let newer = Document { version: 2, ..MARKER_FILE }.frame(&marker.body());
        assert!(matches!(Marker::decode(&newer), Err(Damage::Version(_, 2))));
    }
}
