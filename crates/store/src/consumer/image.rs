//! Writes a log anew: the states of all consumers, and nothing of how they came about.
//!
//! Owns the order that makes it safe: the whole file under another name, a sync, the rename, a sync of the directory.
//! Until then the file before is the valid one, afterwards this one is.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::entry::{Frame, Kind};
use super::header::{HEADER_BYTES, Header};
use super::payload;
use super::{Consumer, ConsumerId};
use crate::disk::{Disk, File};
use crate::varint;

/// Builds the file: `header` says all but where the image ends.
pub(super) fn build<'a>(
    mut header: Header,
    frame: &Frame,
    consumers: impl Iterator<Item = (ConsumerId, &'a Consumer)>,
) -> Vec<u8> {
    let mut file = vec![0; HEADER_BYTES];
    let mut payload = Vec::new();
    for (id, consumer) in consumers {
        payload.clear();
        varint::put(0, &mut payload);
        payload::put_definition(&mut payload, &consumer.definition);
        let offset = file.len() as u64;
        frame.seal(&mut file, offset, id, Kind::Define, &payload);
        payload.clear();
        varint::put(1, &mut payload);
        payload::put_state(&mut payload, &consumer.state);
        let offset = file.len() as u64;
        frame.seal(&mut file, offset, id, Kind::Checkpoint, &payload);
    }
    header.image_end = file.len() as u64;
    file[..HEADER_BYTES].copy_from_slice(&header.encode());
    file
}

/// The number of a consumer's first entry behind the image.
pub(super) const SERIAL_AFTER: u64 = 2;

/// Writes `image` and syncs it.
pub(super) fn write(disk: &dyn Disk, temporary: &Path, image: &[u8]) -> io::Result<Arc<dyn File>> {
    let file = match disk.create(temporary) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // An earlier attempt that did not get its name: nothing refers to it.
            disk.remove_file(temporary)?;
            disk.create(temporary)?
        }
        created => created?,
    };
    if let Err(error) = file.write_at(image, 0).and_then(|()| file.sync()) {
        // To give the room back. If that fails, the next start finds it.
        let _ = disk.remove_file(temporary);
        return Err(error);
    }
    Ok(file)
}

/// Gives a file that was written its name. After an error it may have it or not.
pub(super) fn name(disk: &dyn Disk, temporary: &Path, path: &Path) -> io::Result<()> {
    disk.rename(temporary, path)?;
    match path.parent() {
        Some(directory) => disk.sync_directory(directory),
        None => Ok(()),
    }
}
