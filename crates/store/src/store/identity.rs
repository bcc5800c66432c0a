//! Identity of a store: a random number, part of every checksum in its journal. Kept twice, because
//! without it the journal could not be told from another store's.

use std::io;
use std::path::Path;

use myelin_disk::Disk;

use crate::damage::Damage;
use crate::entropy::Entropy;
use crate::meta::{MARKER, Marker};
use crate::recovery::OpenError;
use crate::register;

pub(crate) use crate::meta::MARKER_COPY as COPY;

/// The store's marker; a new store gets one. A missing copy is made again, and one that does not
/// know of the register yet.
pub(super) fn load(disk: &dyn Disk, root: &Path, entropy: &dyn Entropy) -> Result<Marker, OpenError> {
    let copies = [MARKER, COPY].map(|name| Marker::read(disk, root, name));
    let is_new = copies.iter().all(|copy| matches!(copy, Err(error) if is_missing(error)));
    let marker = match copies {
        [Ok(marker), Ok(copy)] if marker.has_register == copy.has_register => return Ok(marker),
        [Ok(marker), Ok(_)] => Marker { has_register: true, ..marker },
        [Ok(marker), Err(_)] | [Err(_), Ok(marker)] => marker,
        [Err(damage), Err(_)] if !is_new => {
            let what = "both copies of the store's marker, which `myelin store repair` makes again";
            return Err(OpenError::new(what, damage));
        }
        [Err(_), Err(_)] => {
            if has_streams(disk, root).map_err(|error| OpenError::new("streams", error))? {
                return Err(OpenError::new(
                    "the store's marker",
                    Damage::Short("it is missing beside streams"),
                ));
            }
            let mut id = [0; 16];
            entropy.fill(&mut id);
            Marker { id, has_register: false }
        }
    };
    for name in [MARKER, COPY] {
        marker.write(disk, root, name).map_err(|error| OpenError::new("the store's marker", error))?;
    }
    Ok(marker)
}

fn is_missing(damage: &Damage) -> bool {
    matches!(damage, Damage::Io(error) if error.kind() == io::ErrorKind::NotFound)
}

fn has_streams(disk: &dyn Disk, root: &Path) -> io::Result<bool> {
    let has_register = disk.list(root)?.iter().any(|entry| register::NAMES.contains(&entry.name.as_str()));
    Ok(has_register || !disk.list(&root.join("streams"))?.is_empty())
}

pub(crate) fn number(marker: &Marker) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&marker.id[..8]);
    u64::from_le_bytes(first)
}
