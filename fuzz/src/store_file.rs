//! A file that is bytes, and the header of the segment that the targets of the store read.

use std::io;
use std::sync::Mutex;

use myelin_disk::File;
use myelin_store::segment::SegmentHeader;
use myelin_store::{SegmentNo, StreamId};

/// Header of the segment that the bytes are read as a part of.
pub(crate) fn header() -> SegmentHeader {
    SegmentHeader {
        stream: StreamId(1),
        segment: SegmentNo(2),
        generation: 3,
        through: SegmentNo(2),
        first_seq: 7,
        before: 0,
        epoch: 0,
        term: 0,
        salt: [4; 16],
        encryption: None,
        packed: false,
        group: None,
    }
}

/// Bytes in memory.
#[derive(Debug)]
pub(crate) struct Memory(Mutex<Vec<u8>>);

impl Memory {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(Mutex::new(bytes.to_vec()))
    }
}

impl File for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().expect("nobody panics with it").len() as u64)
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.0.lock().expect("nobody panics with it");
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
