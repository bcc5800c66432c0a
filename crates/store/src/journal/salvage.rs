//! Salvage from a journal that is not replayed: the store's number from checksums, bytes from files
//! that were set aside.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use myelin_disk::Disk;

use super::block::{self, BlockChunk, BlockHeader, BlockStart, Chunks, PAGE, implied_store};
use super::replay::ReplayTarget;
use super::scan::{read_block, scan_one};

/// Calls `each` with the bytes in the file at `path`, which was set aside, in the order in which
/// they were written.
pub(crate) fn each_kept(
    disk: &dyn Disk,
    path: &Path,
    store: u64,
    each: &mut dyn FnMut(ReplayTarget, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let scanned = scan_one(disk.open_read_only(path)?, path.to_owned(), store)?;
    let mut buffer = Vec::new();
    for found in &scanned.blocks {
        read_block(&*scanned.file, found.offset, &found.header, &mut buffer)?;
        if buffer.len() < found.header.used {
            continue;
        }
        for chunk in Chunks::new(&found.header, &buffer) {
            // Nonsense with a right checksum ends its block.
            let Ok(chunk) = chunk else { break };
            if let BlockChunk::Bytes { id, generation, offset, bytes } = chunk {
                each(ReplayTarget { file: id, generation, offset }, bytes)?;
            }
        }
    }
    Ok(())
}

/// The number of the store that wrote the blocks in `directory`: the one that most of them agree
/// on.
pub(crate) fn store_number(disk: &dyn Disk, directory: &Path) -> io::Result<Option<u64>> {
    let entries = match disk.list(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    let mut votes: HashMap<u64, u64> = HashMap::new();
    for entry in entries.iter().filter(|entry| entry.name.ends_with(".jnl") && !entry.is_directory) {
        count_votes(disk, directory.join(&entry.name), &mut votes)?;
    }
    let best = votes.into_iter().max_by_key(|(number, votes)| (*votes, *number));
    Ok(best.map(|(number, _)| number))
}

fn count_votes(disk: &dyn Disk, path: PathBuf, votes: &mut HashMap<u64, u64>) -> io::Result<()> {
    let file = disk.open_read_only(&path)?;
    let (length, mut offset) = (file.len()?, 0);
    let (mut page, mut buffer) = (vec![0; PAGE], Vec::new());
    while offset + PAGE as u64 <= length {
        let read = file.read_at(&mut page, offset)?;
        offset += PAGE as u64;
        if read < PAGE || !block::has_magic(&page) {
            continue;
        }
        let at = offset - PAGE as u64;
        let number = implied_store(&page, at);
        let BlockStart::BlockHeader(header) = BlockHeader::parse(&page, number, at) else { continue };
        if header.length as u64 > length - at {
            continue;
        }
        read_block(&*file, at, &header, &mut buffer)?;
        // Any header implies some number; only the right one fits the body, too.
        if header.is_whole(&buffer) {
            *votes.entry(number).or_default() += 1;
        }
    }
    Ok(())
}
