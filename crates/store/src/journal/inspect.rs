//! Inspection of the journal's files, for a tool that changes nothing.
//!
//! The replay judges what is missing between rounds. What it cannot see is the last block of all,
//! if that is damaged: it looks like a write that did not happen. Here it is told apart from free
//! space.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use myelin_disk::{Disk, File};

use super::block::{BlockHeader, BlockStart, PAGE, has_magic};
use super::scan::{Scanned, scan};

/// One file of the journal.
#[derive(Debug)]
pub(crate) struct JournalFile {
    pub(crate) path: PathBuf,
    /// The number under which it was written last; 0 if no block of it is valid.
    pub(crate) number: u64,
    pub(crate) length: u64,
    /// The last round with a part in it.
    pub(crate) round: u64,
    /// Where a block of this store begins that is not whole, behind the last valid one.
    pub(crate) broken: Option<Range<u64>>,
}

/// Looks at all files in `directory`, which belongs to `store`.
pub(crate) fn inspect(disk: &dyn Disk, directory: &Path, store: u64) -> io::Result<Vec<JournalFile>> {
    let scan = scan(disk, directory, store)?;
    scan.files.iter().map(|scanned| inspect_file(scanned, store)).collect()
}

fn inspect_file(scanned: &Scanned, store: u64) -> io::Result<JournalFile> {
    let end = scanned.blocks.last().map_or(0, |block| block.offset + block.header.length as u64);
    Ok(JournalFile {
        path: scanned.path.clone(),
        number: scanned.number,
        length: scanned.length,
        round: scanned.blocks.iter().map(|block| block.header.head.round).max().unwrap_or(0),
        broken: broken(&*scanned.file, end, scanned, store)?,
    })
}

/// A block that was begun at `at`. What an earlier use of the file left there is none.
fn broken(file: &dyn File, at: u64, scanned: &Scanned, store: u64) -> io::Result<Option<Range<u64>>> {
    let mut page = vec![0; PAGE];
    let read = file.read_at(&mut page, at)?;
    page.truncate(read);
    if !has_magic(&page) {
        return Ok(None);
    }
    let head = match BlockHeader::parse(&page, store, at) {
        BlockStart::BlockHeader(header) if header.head.number >= scanned.number => Some(header),
        // A block of an earlier use, whole or not, is sound as far as anyone needs to know.
        BlockStart::BlockHeader(_) | BlockStart::Newer(_) => return Ok(None),
        BlockStart::Nothing => None,
    };
    let number = page.as_chunks::<8>().0.get(2).map_or(0, |bytes| u64::from_le_bytes(*bytes));
    if head.is_none() && number != scanned.number && scanned.number != 0 {
        return Ok(None);
    }
    let length = head.map_or(PAGE as u64, |header| header.length as u64);
    Ok(Some(at..(at + length).min(scanned.length)))
}
