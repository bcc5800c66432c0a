//! Memory of a stream in memory: segments that are mostly removed are copied together.
//!
//! What files leave to jobs on workers, memory does at once: its segments are small, and so is a copy.

use std::sync::Arc;

use crate::append_file::AppendFile;
use crate::disk::memory::MemoryFile;
use crate::segment::HEADER_BYTES;
use crate::{FileId, FileKind};

use super::catalog::Catalog;
use super::place::{Form, Place, Segment, Source};
use super::table::Rows;
use super::{ReadError, Stream};

impl Stream {
    /// Copies one segment in memory of which more than half was removed. Answers whether there was one.
    ///
    /// # Errors
    /// Its messages cannot be read; nothing has changed.
    pub fn reclaim(&mut self) -> Result<bool, ReadError> {
        if !self.home.is_memory() {
            return Ok(false);
        }
        let mut catalog = self.shared.catalog_mut();
        let Some(at) = catalog.places.iter().position(Place::is_mostly_removed) else { return Ok(false) };
        let (segment, rows) = copy_live(&catalog, at)?;
        let place = &mut catalog.places[at];
        place.segment = Arc::new(segment);
        place.form = Form::Closed(Arc::new(rows));
        place.removed = 0;
        catalog.forget_head();
        Ok(true)
    }
}

/// The messages of a place that are still there, in a file of their own.
fn copy_live(catalog: &Catalog, at: usize) -> Result<(Segment, Rows), ReadError> {
    let place = &catalog.places[at];
    let table = catalog.table(at)?;
    let old = &place.segment;
    let id = FileId { stream: old.stream, kind: FileKind::Segment(old.no) };
    let file = AppendFile::in_memory(id, Arc::new(MemoryFile::new()));
    let mut bytes = vec![0; HEADER_BYTES];
    let mut rows = Rows::default();
    let mut entry = Vec::new();
    for row in 0..table.len() {
        let seq = old.first_seq + u64::from(table.delta(row));
        if seq > place.last_seq || !catalog.contains(seq) {
            continue;
        }
        super::reader::read_entry(old, table.offset(row), table.size(row), &mut entry)?;
        let offset = u32::try_from(bytes.len()).expect("a copy is no longer than what is copied");
        let size = u32::try_from(table.size(row)).expect("messages are smaller than 4 GiB");
        bytes.extend_from_slice(&entry);
        rows.push(table.delta(row), offset, size, table.subject(row));
    }
    file.append(&bytes, 0).expect("memory takes what is written");
    let source = Source::Appended(file);
    let Segment { stream, no, generation, first_seq, .. } = **old;
    let context = old.context.clone();
    Ok((Segment { stream, no, generation: generation + 1, first_seq, context, source }, rows))
}
