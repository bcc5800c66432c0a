//! The log of a stream's consumers. The input is what follows the header of a log that is not
//! encrypted; its first byte says whether the checksums of entries are made right, so that
//! mutations reach what entries say.
//!
//! Promised: any bytes are read without a panic, in bounded time and memory. What is read is a
//! possible state: the floor is not above what was delivered, and what is pending lies between
//! them. Writing it anew and reading that gives the same.

use std::io;
use std::path::Path;
use std::sync::Arc;

use myelin_disk::Disk;
use myelin_disk::File;
use myelin_disk::memory::MemoryDisk;
use myelin_store::consumer::{Consumers, LogReplay, LogStorage, Tail, Tails, replay};
use myelin_store::entropy::SeededEntropy;
use myelin_store::{FileId, StreamId};

const STREAM: StreamId = StreamId(1);
const HEADER: usize = 128;

/// Any bytes as the entries of a consumer log.
pub fn store_consumer(data: &[u8]) {
    let (mode, entries) = data.split_first().unwrap_or((&0, &[]));
    let mut file = header();
    file.extend_from_slice(entries);
    if mode & 1 == 1 {
        mend(&mut file);
    }
    let read = replay(file.clone(), STREAM, 1).expect("the header is one");
    check(&read);
    rewrite(&file, &read);
}

/// A log without an image.
fn header() -> Vec<u8> {
    let mut header = vec![0; HEADER];
    header[..8].copy_from_slice(b"MYELCON1");
    header[8] = 1;
    header[16] = 1;
    header[24] = 1;
    header[32] = 1;
    header[40] = HEADER as u8;
    let crc = crc32c::crc32c(&header[..124]);
    header[124..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Gives each entry, as the sizes say where they are, the checksum that it should have.
fn mend(file: &mut [u8]) {
    let seed = crc32c::crc32c_append(crc32c::crc32c(&1u64.to_le_bytes()), &1u64.to_le_bytes());
    let seed = crc32c::crc32c_append(seed, &[0; 16]);
    let mut at = HEADER;
    while let Some(size) = file.get(at..).and_then(|rest| rest.first_chunk()) {
        let size = u32::from_le_bytes(*size) as usize;
        if size < 17 || size > file.len() - at {
            return;
        }
        let crc = crc32c::crc32c_append(seed, &file[at..at + 4]);
        let crc = crc32c::crc32c_append(crc, &file[at + 8..at + size]);
        file[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
        at += size;
    }
}

fn check(read: &LogReplay) {
    for consumer in &read.consumers {
        let (floor, last) = (consumer.state.ack_floor(), consumer.state.delivered());
        assert!(floor.consumer <= last.consumer && floor.stream <= last.stream, "{consumer:?}");
        for (seq, _) in consumer.state.pending().iter() {
            assert!(seq > floor.stream && seq <= last.stream, "{consumer:?}");
        }
    }
}

/// Opens the log as a stream does, writes it anew, and opens that.
fn rewrite(file: &[u8], read: &LogReplay) {
    let disk = Arc::new(MemoryDisk::new());
    let directory = Path::new("/stream");
    let place = LogStorage {
        disk: disk.clone(),
        directory: directory.to_owned(),
        stream: STREAM,
        tails: Arc::new(NoTails),
        entropy: Arc::new(SeededEntropy::new(1)),
        key: None,
    };
    disk.make_directory(directory).expect("it is memory");
    let log = disk.create(&directory.join("consumers.00000001")).expect("it is memory");
    log.write_at(file, 0).expect("it is memory");
    let (mut consumers, report) = Consumers::open(place.clone()).expect("damage is no error");
    assert_eq!(report, read.report);
    // The log is written although nothing can be appended to it.
    let _ = consumers.checkpoint();
    let (again, report) = Consumers::open(place).expect("it was just written");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(again.len(), read.consumers.len());
    for consumer in &read.consumers {
        assert_eq!(again.state(consumer.id), Some(&consumer.state));
    }
}

#[derive(Debug)]
struct NoTails;

impl Tails for NoTails {
    fn attach(&self, _: FileId, _: &Path, _: Arc<dyn File>, _: u64) -> io::Result<Box<dyn Tail>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
