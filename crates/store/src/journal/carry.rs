//! Bytes of files whose sync failed: the journal has the only copy that is sure, and must not let
//! go of it.
//!
//! Nothing more is appended to such a file, so what the journal holds of it does not change. Before
//! an old journal file is written again, these bytes are copied into the one that is written now;
//! the next start replays them.

use crate::lengths::in_memory;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::block::{BlockChunk, BlockHeader, BlockStart, Chunks, PAGE};
use super::files::Files;
use super::scan::read_block;
use crate::{AppendFile, FileId};

/// A chunk of one of the files asked for.
struct Held<'a> {
    file: &'a Arc<AppendFile>,
    offset: u64,
    bytes: &'a [u8],
}

impl Files {
    /// Copies everything that the journal holds of `lost` into a round of its own, durably, in the
    /// order in which it was written. Gives the bytes of its blocks and how often it had to sync.
    /// An error for lack of space changes nothing.
    pub(super) fn carry(&mut self, lost: &[Arc<AppendFile>]) -> io::Result<(u64, u64)> {
        let mut writing = self.begin_round();
        let copied = self
            .each_chunk(lost, |files, held| {
                files.add(&mut writing, held.file, held.offset, held.bytes.len() as u64, |range, target| {
                    target.extend_from_slice(&held.bytes[in_memory(range.start)..in_memory(range.end)]);
                    Ok(())
                })
            })
            .and_then(|()| self.finish(&mut writing));
        if let Err(error) = copied {
            self.abandon(&writing);
            return Err(error);
        }
        debug_assert!(!lost.is_empty(), "a round of its own has something to copy");
        let syncs = self.sync(&writing)?;
        // What stands in older files is not needed any more.
        for live in self.live.iter_mut().filter(|live| live.number < writing.first_number) {
            live.holders.retain(|holder| !lost.iter().any(|file| Arc::ptr_eq(file, holder)));
            live.lost.clear();
        }
        Ok((writing.written, syncs))
    }

    /// Writes what the journal holds of `file` into it, without a sync.
    pub(super) fn restore(&mut self, file: &Arc<AppendFile>) -> io::Result<()> {
        let target = Arc::clone(file.file());
        self.each_chunk(std::slice::from_ref(file), |_, held| target.write_at(held.bytes, held.offset))
    }

    fn each_chunk(
        &mut self,
        wanted: &[Arc<AppendFile>],
        mut visit: impl FnMut(&mut Self, Held<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let wanted: HashMap<(FileId, u64), &Arc<AppendFile>> =
            wanted.iter().map(|file| ((file.id(), file.generation()), file)).collect();
        // As it is now: a visitor may write on.
        let written: Vec<_> = self.live.iter().map(|live| (Arc::clone(&live.slot.file), live.used)).collect();
        let (mut head, mut block) = (vec![0; PAGE], Vec::new());
        for (file, used) in written {
            let mut at = 0;
            while at < used {
                let header = read_header(&*file, &mut head, self.store, at)?;
                read_block(&*file, at, &header, &mut block)?;
                if !header.is_whole(&block) {
                    return Err(not_as_written());
                }
                for chunk in Chunks::new(&header, &block) {
                    let Ok(BlockChunk::Bytes { id, generation, offset, bytes }) = chunk else { continue };
                    if let Some(file) = wanted.get(&(id, generation)) {
                        visit(self, Held { file, offset, bytes })?;
                    }
                }
                at += header.length as u64;
            }
        }
        Ok(())
    }
}

fn read_header(
    file: &dyn myelin_disk::File,
    page: &mut [u8],
    store: u64,
    at: u64,
) -> io::Result<BlockHeader> {
    let count = file.read_at(page, at)?;
    match BlockHeader::parse(&page[..count], store, at) {
        BlockStart::BlockHeader(header) => Ok(header),
        BlockStart::Newer(_) | BlockStart::Nothing => Err(not_as_written()),
    }
}

fn not_as_written() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a block does not read as it was written")
}
