//! Reads what the journal's files hold after a start: all valid blocks, in the order in which they
//! were written.
//!
//! A file is read page by page behind its last block, too: a valid block of a later round there
//! proves that what is before it was damaged and not merely torn. Memory: one window, one block,
//! and a few bytes per block.

use crate::lengths::in_memory;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_disk::{Disk, File};

use super::block::{self, BlockHeader, BlockStart, LONGEST_BLOCK, PAGE};

const WINDOW: usize = 256 * 1024;

/// A valid block.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScannedBlock {
    pub(super) offset: u64,
    pub(super) header: BlockHeader,
}

/// One file of the journal.
pub(super) struct Scanned {
    pub(super) file: Arc<dyn File>,
    pub(super) path: PathBuf,
    pub(super) length: u64,
    /// The number under which it was written last; 0 if it holds no valid block.
    pub(super) number: u64,
    /// Its blocks of that number.
    pub(super) blocks: Vec<ScannedBlock>,
    /// Whether it looks written, though not by this journal.
    pub(super) is_foreign: bool,
}

/// Contents of a directory of journal files.
pub(super) struct JournalScan {
    pub(super) files: Vec<Scanned>,
    /// Files that were set aside at an earlier time.
    pub(super) kept: Vec<PathBuf>,
    /// Names that are none of ours.
    pub(super) unknown: Vec<PathBuf>,
    pub(super) next_name: u64,
    /// A block of a version that this program cannot read.
    pub(super) newer: Option<(PathBuf, u32)>,
    /// Bits in headers of blocks that were not what was written, counted from the start of the
    /// file.
    pub(super) corrected: Vec<(PathBuf, u64)>,
}

pub(super) fn scan(disk: &dyn Disk, directory: &Path, store: u64) -> io::Result<JournalScan> {
    let mut scan = JournalScan {
        files: Vec::new(),
        kept: Vec::new(),
        unknown: Vec::new(),
        next_name: 1,
        newer: None,
        corrected: Vec::new(),
    };
    let mut reader = BlockReader::default();
    for entry in disk.list(directory)? {
        let path = directory.join(&entry.name);
        match number_of(&entry.name) {
            Some(number) if !entry.is_directory => {
                scan.next_name = scan.next_name.max(number.saturating_add(1));
                let scanned = reader.scan_file(disk.open(&path)?, path.clone(), store)?;
                scan.corrected.extend(reader.corrected.drain(..).map(|bit| (path.clone(), bit)));
                if let Some(version) = reader.newer.take() {
                    scan.newer = Some((path, version));
                }
                scan.files.push(scanned);
            }
            _ if entry.name.starts_with("kept-") => scan.kept.push(path),
            _ => scan.unknown.push(path),
        }
    }
    Ok(scan)
}

/// The blocks of one file.
pub(super) fn scan_one(file: Arc<dyn File>, path: PathBuf, store: u64) -> io::Result<Scanned> {
    BlockReader::default().scan_file(file, path, store)
}

/// The number in a name such as `00000001.jnl`.
fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".jnl")?;
    let is_number = (8..=18).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

#[derive(Default)]
struct BlockReader {
    window: Vec<u8>,
    /// Which bytes of the file it holds.
    held: Range<u64>,
    block: Vec<u8>,
    newer: Option<u32>,
    corrected: Vec<u64>,
}

impl BlockReader {
    fn scan_file(&mut self, file: Arc<dyn File>, path: PathBuf, store: u64) -> io::Result<Scanned> {
        let length = file.len()?;
        self.window.resize(usize::try_from(length).unwrap_or(WINDOW).min(WINDOW), 0);
        self.held = 0..0;
        let mut blocks: Vec<ScannedBlock> = Vec::new();
        let (mut offset, mut magics) = (0, 0);
        while offset + PAGE as u64 <= length {
            let found = self.block_at(&*file, offset, length, store)?;
            magics += usize::from(found.has_magic);
            offset += match found.header {
                Some(header) => {
                    blocks.push(ScannedBlock { offset, header });
                    header.length as u64
                }
                None => PAGE as u64,
            };
        }
        let number = blocks.iter().map(|block| block.header.head.number).max().unwrap_or(0);
        blocks.retain(|block| block.header.head.number == number);
        // One page may be a first block that was torn.
        let is_foreign = blocks.is_empty() && magics > 1;
        Ok(Scanned { file, path, length, number, blocks, is_foreign })
    }

    fn block_at(&mut self, file: &dyn File, offset: u64, length: u64, store: u64) -> io::Result<At> {
        let page = self.page(file, offset)?;
        let has_magic = block::has_magic(page);
        let (found, wrong) = BlockHeader::parse_corrected(page, store, offset);
        let header = match found {
            BlockStart::BlockHeader(header) if header.length as u64 <= length - offset => header,
            BlockStart::Newer(version) => {
                self.newer = Some(version);
                return Ok(At { has_magic, header: None });
            }
            _ => return Ok(At { has_magic, header: None }),
        };
        read_block(file, offset, &header, &mut self.block)?;
        let is_whole = header.is_whole(&self.block);
        self.corrected.extend(wrong.filter(|_| is_whole).map(|bit| offset * 8 + bit as u64));
        Ok(At { has_magic, header: is_whole.then_some(header) })
    }

    fn page(&mut self, file: &dyn File, offset: u64) -> io::Result<&[u8]> {
        if !(self.held.contains(&offset) && offset + PAGE as u64 <= self.held.end) {
            let count = file.read_at(&mut self.window, offset)?;
            self.held = offset..offset + count as u64;
        }
        let start = in_memory(offset - self.held.start);
        let end = in_memory(self.held.end - self.held.start);
        Ok(&self.window[start..end.min(start + PAGE)])
    }
}

struct At {
    has_magic: bool,
    header: Option<BlockHeader>,
}

/// Reads the whole block that `header` describes into `block`; shorter if the file ends before.
pub(super) fn read_block(
    file: &dyn File,
    offset: u64,
    header: &BlockHeader,
    block: &mut Vec<u8>,
) -> io::Result<()> {
    block.resize(header.length.min(LONGEST_BLOCK), 0);
    let count = file.read_at(block, offset)?;
    block.truncate(count);
    Ok(())
}
