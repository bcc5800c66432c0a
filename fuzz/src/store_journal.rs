//! Files of a journal. The input is a row of blocks: a header of 80 bytes (its byte 72 says in
//! which of four files), two bytes with the length of a body, and the body.
//!
//! Checksums, magic and version are put right unless the first bit of a header's last byte is set,
//! so that what is behind them is reached. Promised for any bytes: a replay ends with a report,
//! changes only files it was given, and leaves a journal that has nothing more to replay and works.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_disk::memory::MemoryDisk;
use myelin_disk::{Disk, File};
use myelin_store::journal::{Journal, JournalConfig, ReplayReport, ReplayTarget, Resolution};

const HEADER: usize = 80;
const PAGE: usize = 4096;
const STORE: u64 = 7;
const DIRECTORY: &str = "/journal";

/// Any bytes as the files of a journal.
pub fn store_journal(data: &[u8]) {
    let disk = MemoryDisk::new();
    disk.make_directory(Path::new(DIRECTORY)).expect("a directory in memory");
    for (index, bytes) in build(data) {
        let path = Path::new(DIRECTORY).join(format!("{index:08}.jnl"));
        let file = disk.create(&path).expect("a file in memory");
        file.write_at(&bytes, 0).expect("room in memory");
    }
    let Some(first) = replay(&disk) else { return };
    assert!(
        first.kept.len() >= usize::from(!first.problems.is_empty()),
        "a problem and nothing kept: {first:?}"
    );
    let second = replay(&disk).expect("what was replayed once can be read again");
    assert_eq!((second.bytes, second.skipped, second.problems.len()), (0, 0, 0), "{second:?}");
}

/// `None`: a version of tomorrow.
fn replay(disk: &MemoryDisk) -> Option<ReplayReport> {
    let config = JournalConfig { store_id: STORE, file_bytes: 64 * 1024, ..JournalConfig::default() };
    let opened = Journal::open(Arc::new(disk.clone()), Path::new(DIRECTORY), config);
    let (journal, mut replay) = opened.ok()?;
    let mut asked = BTreeMap::new();
    let report = replay.run(&mut |target| {
        let before = asked.insert((target.file, target.generation), ());
        assert!(before.is_none(), "asked twice for {target:?}");
        Ok(resolve(disk, target))
    });
    let report = report.expect("a disk in memory has no errors");
    assert!(journal.round(&|| 0).is_ok());
    Some(report)
}

fn resolve(disk: &MemoryDisk, target: &ReplayTarget) -> Resolution {
    let path = PathBuf::from(format!("/{:?}", target.file));
    match target.file.stream.0 % 4 {
        0 => Resolution::Unknown,
        1 => Resolution::Skip,
        _ => {
            let file: Arc<dyn File> = match disk.open(&path) {
                Ok(file) => file,
                Err(_) => disk.create(&path).expect("a file in memory"),
            };
            Resolution::Apply(file, Some(PathBuf::from("/")))
        }
    }
}

/// The files, by number.
fn build(mut data: &[u8]) -> BTreeMap<u8, Vec<u8>> {
    let mut files: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    while let Some((header, rest)) = data.split_at_checked(HEADER + 2) {
        let length = usize::from(u16::from_le_bytes([header[HEADER], header[HEADER + 1]]));
        let (body, rest) = rest.split_at(length.min(rest.len()));
        data = rest;
        let file = files.entry(header[72] % 4).or_default();
        let offset = file.len() as u64;
        let mut block = header[..HEADER].to_vec();
        let is_repaired = block[HEADER - 1] & 1 == 0;
        block.extend_from_slice(body);
        if is_repaired {
            repair(&mut block, offset);
        }
        block.resize(block.len().next_multiple_of(PAGE), 0);
        file.extend_from_slice(&block);
    }
    files
}

fn repair(block: &mut [u8], offset: u64) {
    let used = block.len();
    block[..8].copy_from_slice(b"MYELJNL1");
    block[8..12].copy_from_slice(&1_u32.to_le_bytes());
    block[56..60].copy_from_slice(&(used.next_multiple_of(PAGE) as u32).to_le_bytes());
    block[60..64].copy_from_slice(&(used as u32).to_le_bytes());
    let mut seed = STORE.to_le_bytes().to_vec();
    seed.extend_from_slice(&block[16..24]);
    seed.extend_from_slice(&offset.to_le_bytes());
    let seed = crc32c::crc32c(&seed);
    let body = crc32c::crc32c_append(seed, &block[HEADER..]);
    block[64..68].copy_from_slice(&body.to_le_bytes());
    let header = crc32c::crc32c_append(seed, &block[..HEADER - 4]);
    block[HEADER - 4..HEADER].copy_from_slice(&header.to_le_bytes());
}
