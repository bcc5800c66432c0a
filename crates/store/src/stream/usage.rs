//! Usage of a stream: files and memory.

use super::Stream;

/// Resources that a stream takes, besides what its messages count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamUsage {
    /// Segments with visible messages, the active one included.
    pub segments: u64,
    /// Bytes of their files; in a stream in memory, of memory.
    pub segment_bytes: u64,
    /// Segments without visible messages whose files are not removed yet.
    pub retired_segments: u64,
    /// Bytes of their files.
    pub retired_bytes: u64,
    /// Subjects that take memory: those with messages, and those without that were not given back
    /// yet.
    pub index_subjects: u64,
    /// Memory for subjects, texts included.
    pub index_bytes: u64,
    /// Memory for removed sequences and for lifetimes of messages.
    pub bookkeeping_bytes: u64,
}

impl Stream {
    /// Resources that the stream takes now.
    #[must_use]
    pub fn usage(&self) -> StreamUsage {
        let catalog = self.shared.catalog();
        let bytes = |segments: &mut dyn Iterator<Item = u64>| {
            segments.fold((0, 0), |(n, sum), one| (n + 1, sum + one))
        };
        let (segments, segment_bytes) =
            bytes(&mut catalog.segments().iter().map(|view| view.segment.file_bytes()));
        let (retired_segments, retired_bytes) =
            bytes(&mut catalog.retired().iter().map(|segment| segment.file_bytes()));
        StreamUsage {
            segments,
            segment_bytes,
            retired_segments,
            retired_bytes,
            index_subjects: catalog.index().held() as u64,
            index_bytes: catalog.index().memory_bytes() as u64,
            bookkeeping_bytes: catalog.bookkeeping_bytes() as u64,
        }
    }
}
