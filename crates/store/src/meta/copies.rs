//! The two copies of a stream's `meta`: which of them counts, and what is wrong with the other.
//!
//! Both are written in full before the first takes its name, so a crash leaves two whole files of
//! which one may be a generation behind. The one with the larger generation counts.

use std::fmt;
use std::io;
use std::path::Path;

use myelin_disk::Disk;

use super::{META_FILE, Meta};
use crate::StreamId;
use crate::damage::Damage;

/// The two names, in the order in which they are written.
pub const META_COPIES: [&str; 2] = ["meta", "meta.copy"];

/// Fault of one of the two while the other one counts.
#[derive(Debug)]
pub(crate) enum MetaFault {
    /// The copy is not there. `is_first` if the other one was written by a version that wrote only
    /// one.
    Missing { is_first: bool },
    /// The copy has an earlier generation than the other one.
    Older { generation: u64, newest: u64 },
    /// The copy is of the generation of the other one and says something else.
    Differs,
    /// The copy belongs to another stream.
    Elsewhere(StreamId),
    /// The copy cannot be read.
    Damaged(Damage),
}

impl fmt::Display for MetaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { .. } => f.write_str("it is missing"),
            Self::Older { generation, newest } => {
                write!(f, "it has generation {generation}, the other copy {newest}")
            }
            Self::Differs => f.write_str("it differs from the other copy"),
            Self::Elsewhere(stream) => write!(f, "it belongs to stream {:016x}", stream.0),
            // Whoever tells it names the file.
            Self::Damaged(damage) => {
                let words = damage.to_string();
                f.write_str(
                    words
                        .strip_prefix(META_FILE.what)
                        .and_then(|words| words.strip_prefix(": "))
                        .unwrap_or(&words),
                )
            }
        }
    }
}

/// Result of reading the two files.
#[derive(Debug)]
pub(crate) struct MetaCopies {
    /// The one that counts.
    pub(crate) best: Result<Meta, Damage>,
    /// Copies that do not agree; if none counts, all that are wrong.
    pub(crate) faults: Vec<(&'static str, MetaFault)>,
}

/// Reads both files of stream `id` in `directory`.
pub(crate) fn read(disk: &dyn Disk, directory: &Path, id: StreamId) -> MetaCopies {
    let mut valid: Vec<(&'static str, Meta)> = Vec::new();
    let mut faults = Vec::new();
    let mut newer = None;
    for name in META_COPIES {
        let bytes = META_FILE.read(disk, &directory.join(name));
        match bytes.and_then(|bytes| Meta::decode(&bytes)) {
            Ok(meta) if meta.stream == id => valid.push((name, meta)),
            Ok(meta) => faults.push((name, MetaFault::Elsewhere(meta.stream))),
            Err(damage) if is_missing(&damage) => faults.push((name, MetaFault::Missing { is_first: false })),
            Err(damage) => {
                if let Damage::Version(what, version) = damage {
                    newer = Some(Damage::Version(what, version));
                }
                faults.push((name, MetaFault::Damaged(damage)));
            }
        }
    }
    // Of two of one generation the first.
    let best = valid.iter().rev().max_by_key(|(_, meta)| meta.generation).map(|(_, meta)| meta.clone());
    if let Some(best) = &best {
        for (name, meta) in valid.iter().filter(|(_, meta)| meta != best) {
            let (generation, newest) = (meta.generation, best.generation);
            let older = MetaFault::Older { generation, newest };
            faults.push((name, if generation < newest { older } else { MetaFault::Differs }));
        }
        for (_, fault) in &mut faults {
            if let MetaFault::Missing { is_first } = fault {
                *is_first = best.generation == 0;
            }
        }
    }
    let best = match (newer, best) {
        // What a later version wrote is not written over.
        (Some(newer), _) => Err(newer),
        (None, Some(best)) => Ok(best),
        (None, None) => Err(why(&faults)),
    };
    MetaCopies { best, faults }
}

/// Why no copy counts: what is wrong with one that is there.
fn why(faults: &[(&'static str, MetaFault)]) -> Damage {
    let there = faults.iter().find(|(_, fault)| !matches!(fault, MetaFault::Missing { .. }));
    match there.map(|(_, fault)| fault) {
        None => io::Error::from(io::ErrorKind::NotFound).into(),
        Some(MetaFault::Damaged(Damage::Io(error))) => io::Error::new(error.kind(), error.to_string()).into(),
        Some(MetaFault::Damaged(Damage::Short(what))) => Damage::Short(what),
        Some(MetaFault::Damaged(Damage::Magic(what))) => Damage::Magic(what),
        Some(MetaFault::Damaged(Damage::Checksum(what))) => Damage::Checksum(what),
        Some(MetaFault::Elsewhere(_)) => Damage::Content("meta of another stream"),
        Some(_) => Damage::Content(META_FILE.what),
    }
}

fn is_missing(damage: &Damage) -> bool {
    matches!(damage, Damage::Io(error) if error.kind() == io::ErrorKind::NotFound)
}

impl MetaCopies {
    /// Both names with what is wrong with them, for a stream of which neither counts.
    pub(crate) fn words(&self) -> String {
        let words: Vec<String> = self.faults.iter().map(|(name, fault)| format!("{name}: {fault}")).collect();
        words.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use myelin_disk::memory::MemoryDisk;

    use super::*;

    const ID: StreamId = StreamId(4);

    fn meta(generation: u64, name: &str) -> Meta {
        Meta { generation, name: name.into(), ..super::super::tests::meta() }
    }

    fn put(disk: &MemoryDisk, name: &str, bytes: &[u8]) {
        let path = Path::new("/d").join(name);
        let _ = disk.remove_file(&path);
        disk.create(&path).unwrap().write_at(bytes, 0).unwrap();
    }

    fn disk(first: Option<Vec<u8>>, second: Option<Vec<u8>>) -> MemoryDisk {
        let disk = MemoryDisk::new();
        disk.make_directory(Path::new("/d")).unwrap();
        for (name, bytes) in META_COPIES.iter().zip([first, second]) {
            if let Some(bytes) = bytes {
                put(&disk, name, &bytes);
            }
        }
        disk
    }

    fn look(first: Option<Vec<u8>>, second: Option<Vec<u8>>) -> (Result<String, String>, String) {
        let copies = read(&disk(first, second), Path::new("/d"), ID);
        let words = copies.words();
        (copies.best.map(|meta| meta.name).map_err(|damage| damage.to_string()), words)
    }

    fn bad(meta: &Meta) -> Vec<u8> {
        let mut bytes = meta.encode();
        bytes[30] ^= 1;
        bytes
    }

    #[test]
    fn the_newer_valid_one_counts() {
        let (old, new) = (meta(3, "old"), meta(4, "new"));
        let (foreign, later) = (Meta { stream: StreamId(9), ..meta(8, "foreign") }, new.encode());
        let bytes = |meta: &Meta| Some(meta.encode());
        let ok = |name: &str| Ok(name.to_owned());
        assert_eq!(look(bytes(&new), bytes(&new)), (ok("new"), String::new()));
        let (best, words) = look(bytes(&old), bytes(&new));
        assert_eq!((best, words.as_str()), (ok("new"), "meta: it has generation 3, the other copy 4"));
        let (best, words) = look(bytes(&new), bytes(&old));
        assert_eq!((best, words.as_str()), (ok("new"), "meta.copy: it has generation 3, the other copy 4"));
        let (best, words) = look(bytes(&new), bytes(&meta(4, "same")));
        assert_eq!((best, words.as_str()), (ok("new"), "meta.copy: it differs from the other copy"));
        assert_eq!(look(Some(bad(&new)), bytes(&old)), (ok("old"), "meta: wrong checksum".into()));
        assert_eq!(look(bytes(&old), None), (ok("old"), "meta.copy: it is missing".into()));
        assert_eq!(look(bytes(&foreign), bytes(&old)).0, ok("old"));
        assert!(look(bytes(&foreign), None).0.unwrap_err().contains("another stream"));
        assert!(look(Some(bad(&new)), Some(bad(&new))).0.unwrap_err().contains("checksum"));
        assert!(look(None, None).0.is_err());
        // The checksum is right, and the version is one that nobody knows yet.
        let newer =
            super::super::DocumentFormat { version: 3, ..META_FILE }.frame(&later[16..later.len() - 4]);
        assert!(look(Some(newer), bytes(&old)).0.unwrap_err().contains("later version"));
    }
}
