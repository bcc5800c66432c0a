//! Memory of a stream in memory: segments that are mostly removed are copied together.
//!
//! What files leave to jobs on workers, memory does at once: its segments are small, and so is a
//! copy.

use std::sync::{Arc, OnceLock};

use myelin_disk::memory::MemoryFile;

use crate::append_file::AppendFile;
use crate::segment::HEADER_BYTES;
use crate::{FileId, FileKind};

use super::catalog::Catalog;
use super::segment_view::{Segment, SegmentFile, SegmentView};
use super::table::Rows;
use super::{ReadError, Stream};

impl Stream {
    /// Copies one segment in memory of which more than half was removed. Answers whether there was
    /// one.
    ///
    /// # Errors
    /// Its messages cannot be read; nothing has changed.
    pub fn reclaim(&mut self) -> Result<bool, ReadError> {
        // A replica may need the log as it was written.
        if !self.segment_storage.is_memory() || self.is_form_kept() {
            return Ok(false);
        }
        let mut catalog = self.shared.catalog_mut();
        let Some(at) = catalog.segments().iter().position(SegmentView::is_mostly_removed) else {
            return Ok(false);
        };
        let (segment, rows) = copy_live(&catalog, at)?;
        catalog.replace_sparse(at, segment, rows);
        Ok(true)
    }
}

/// The messages of a segment that are still there, in a file of their own.
fn copy_live(catalog: &Catalog, at: usize) -> Result<(Segment, Rows), ReadError> {
    let view = &catalog.segments()[at];
    let table = catalog.table(at)?;
    let old = &view.segment;
    let id = FileId { stream: old.stream, kind: FileKind::Segment(old.no) };
    let file = AppendFile::in_memory(id, Arc::new(MemoryFile::new()));
    let mut bytes = vec![0; HEADER_BYTES];
    let mut rows = Rows::default();
    let mut entry = Vec::new();
    for row in 0..table.len() {
        let seq = old.first_seq + u64::from(table.delta(row));
        if seq > view.last_seq || !catalog.contains(seq) {
            continue;
        }
        super::reader::read_entry(old, table.offset(row), table.size(row), &mut entry)?;
        let offset = u32::try_from(bytes.len()).expect("a copy is no longer than what is copied");
        let size = u32::try_from(table.size(row)).expect("messages are smaller than 4 GiB");
        bytes.extend_from_slice(&entry);
        rows.push(table.delta(row), offset, size, table.subject(row));
    }
    debug_assert!(rows.len() <= table.len(), "a copy has no more messages");
    file.append(&bytes, 0).expect("memory takes what is written");
    let source = SegmentFile::Appended(file);
    let Segment { stream, no, generation, first_seq, .. } = **old;
    let context = old.context.clone();
    let (generation, header) = (generation + 1, OnceLock::new());
    Ok((Segment { stream, no, generation, first_seq, context, source, header }, rows))
}
