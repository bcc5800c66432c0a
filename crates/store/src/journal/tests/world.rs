//! A store in small: files of known content, a journal, and what was reported durable of each.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use myelin_disk::Disk;
use myelin_disk::faulty::FaultyDisk;
use myelin_stdx::rng::Rng;

use super::super::{Journal, JournalConfig, JournalFailed, ReplayReport, ReplayTarget, Resolution};
use crate::{
    AppendFile, AppendFileOptions, Durability, FileId, FileKind, OnDurable, SegmentNo, StreamId, WriteFailed,
};

pub(super) const DATA: &str = "/store/data";
pub(super) const JOURNAL: &str = "/store/journal";

/// Small, so that a short script fills journal files and writes rounds of several parts.
pub(super) fn small() -> JournalConfig {
    JournalConfig {
        store_id: 77,
        file_bytes: 24 * 1024,
        files: 3,
        direct_files_max: 2,
        direct_bytes_per_file: 6000,
        tail_bytes: 20_000,
        ..JournalConfig::default()
    }
}

/// Notices that listeners got about one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    pub(super) durable: u64,
    pub(super) failed: bool,
}

#[derive(Default)]
pub(super) struct Listener {
    heard: Mutex<BTreeMap<FileId, Heard>>,
}

impl Listener {
    pub(super) fn of(&self, id: FileId) -> Heard {
        self.heard.lock().unwrap().get(&id).cloned().unwrap_or_default()
    }
}

impl OnDurable for Listener {
    fn durable(&self, file: FileId, offset: u64) {
        let mut heard = self.heard.lock().unwrap();
        let heard = heard.entry(file).or_default();
        assert!(!heard.failed, "durable after failed");
        heard.durable = heard.durable.max(offset);
    }

    fn failed(&self, file: FileId, _: &io::Error) {
        self.heard.lock().unwrap().entry(file).or_default().failed = true;
    }
}

/// One file: what it should hold.
#[derive(Clone, Debug)]
pub(super) struct Twin {
    pub(super) id: FileId,
    pub(super) generation: u64,
    /// All that was appended and accepted, with what was overwritten and is sure.
    pub(super) content: Vec<u8>,
    /// Overwrites that may or may not have survived.
    pub(super) unsure: Vec<(usize, Vec<u8>)>,
    /// Removed on purpose, or the attempt began.
    pub(super) is_gone: bool,
    /// Being rewritten as the next generation: either may be found.
    pub(super) rewriting: bool,
}

pub(super) struct World {
    pub(super) disk: FaultyDisk,
    pub(super) journal: Arc<Journal>,
    pub(super) listener: Arc<Listener>,
    pub(super) files: Vec<(Twin, Arc<AppendFile>)>,
    pub(super) clock: Cell<u64>,
    rng: Rng,
}

pub(super) fn id(stream: u64, number: u64) -> FileId {
    FileId { stream: StreamId(stream), kind: FileKind::Segment(SegmentNo(number)) }
}

pub(super) fn path_of(id: FileId) -> PathBuf {
    let name = match id.kind {
        FileKind::Segment(number) => format!("{}.{}.seg", id.stream.0, number.0),
        FileKind::Consumers(number) => format!("{}.{number}.con", id.stream.0),
    };
    Path::new(DATA).join(name)
}

/// Resolves a target as recovery does: a file's first 8 bytes are its generation.
pub(super) fn resolve(disk: &FaultyDisk, target: &ReplayTarget) -> io::Result<Resolution> {
    let path = path_of(target.file);
    let directory = Some(PathBuf::from(DATA));
    match disk.open(&path) {
        Ok(file) => {
            let mut head = [0; 8];
            file.read_at(&mut head, 0)?;
            let is_newer = u64::from_le_bytes(head) > target.generation;
            Ok(if is_newer { Resolution::Skip } else { Resolution::Apply(file, directory) })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && target.offset == 0 => {
            Ok(Resolution::Apply(disk.create(&path)?, directory))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Resolution::Unknown),
        Err(error) => Err(error),
    }
}

pub(super) fn recover(disk: &FaultyDisk, config: JournalConfig) -> io::Result<(Arc<Journal>, ReplayReport)> {
    let (journal, mut replay) = Journal::open(Arc::new(disk.clone()), Path::new(JOURNAL), config)?;
    let report = replay.run(&mut |target| resolve(disk, target))?;
    Ok((journal, report))
}

impl World {
    pub(super) fn new(disk: FaultyDisk, config: JournalConfig, seed: u64) -> io::Result<Self> {
        disk.make_directory(Path::new(DATA))?;
        disk.sync_directory(Path::new("/store"))?;
        disk.sync_directory(Path::new("/"))?;
        let (journal, report) = recover(&disk, config)?;
        assert_eq!(report.problems, []);
        Ok(Self {
            disk,
            journal,
            listener: Arc::default(),
            files: Vec::new(),
            clock: Cell::new(1_000_000_000),
            rng: Rng::seeded(seed),
        })
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.set(self.clock.get() + 1_000);
        self.clock.get()
    }

    pub(super) fn round(&self) -> Result<super::super::RoundSummary, JournalFailed> {
        self.journal.round_now(&|| self.now())
    }

    /// A new file, its generation appended.
    pub(super) fn create(&mut self, id: FileId, durability: Durability) -> io::Result<usize> {
        let path = path_of(id);
        let file = self.disk.create(&path)?;
        let options = AppendFileOptions {
            id,
            generation: 1,
            file,
            path,
            end: 0,
            is_new: true,
            durability,
            bound: 1 << 20,
            on_durable: Some(Arc::clone(&self.listener) as Arc<dyn OnDurable>),
        };
        let file = AppendFile::new(&self.journal, options);
        let twin = Twin {
            id,
            generation: 1,
            content: Vec::new(),
            unsure: Vec::new(),
            is_gone: false,
            rewriting: false,
        };
        self.files.push((twin, file));
        let index = self.files.len() - 1;
        self.append_bytes(index, &1_u64.to_le_bytes())?;
        Ok(index)
    }

    pub(super) fn append_bytes(&mut self, index: usize, bytes: &[u8]) -> Result<(), WriteFailed> {
        let now = self.now();
        let (twin, file) = &mut self.files[index];
        let end = file.append(bytes, now)?;
        twin.content.extend_from_slice(bytes);
        assert_eq!(end, twin.content.len() as u64);
        Ok(())
    }

    pub(super) fn append(&mut self, index: usize, length: usize) -> Result<(), WriteFailed> {
        let bytes: Vec<u8> = (0..length).map(|_| self.rng.below(256) as u8).collect();
        self.append_bytes(index, &bytes)
    }

    pub(super) fn overwrite(
        &mut self,
        index: usize,
        offset: usize,
        length: usize,
    ) -> Result<(), WriteFailed> {
        let bytes: Vec<u8> = (0..length).map(|_| self.rng.below(256) as u8).collect();
        let now = self.now();
        let (twin, file) = &mut self.files[index];
        twin.unsure.push((offset, bytes.clone()));
        file.overwrite(offset as u64, &bytes, now)
    }

    /// After a round: overwrites are sure now.
    pub(super) fn note_overwrites(&mut self) {
        for (twin, file) in &mut self.files {
            if file.has_overwrites() || twin.is_gone {
                continue;
            }
            for (offset, bytes) in twin.unsure.drain(..) {
                twin.content[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
        }
    }

    /// Deletes a stream, as a store does it.
    pub(super) fn drop_stream(&mut self, stream: StreamId) -> io::Result<()> {
        for (twin, _) in self.files.iter_mut().filter(|(twin, _)| twin.id.stream == stream) {
            twin.is_gone = true;
        }
        self.journal.note_dropped(stream).map_err(|failed| io::Error::other(failed.to_string()))?;
        for (twin, file) in self.files.iter().filter(|(twin, _)| twin.id.stream == stream) {
            file.abandon();
            self.disk.remove_file(&path_of(twin.id))?;
        }
        self.disk.sync_directory(Path::new(DATA))
    }

    /// Replaces a closed file by other bytes under the next generation.
    pub(super) fn rewrite(&mut self, index: usize) -> io::Result<()> {
        let (twin, file) = &mut self.files[index];
        file.close()?;
        twin.rewriting = true;
        let path = path_of(twin.id);
        let temporary = path.with_extension("tmp");
        let new = self.disk.create(&temporary)?;
        let content = rewritten(&twin.content, twin.generation + 1);
        new.write_at(&content, 0)?;
        new.sync()?;
        self.disk.rename(&temporary, &path)?;
        self.disk.sync_directory(Path::new(DATA))?;
        file.abandon();
        twin.content = content;
        twin.generation += 1;
        twin.rewriting = false;
        twin.unsure.clear();
        Ok(())
    }

    pub(super) fn twins(&self) -> Vec<(Twin, Heard)> {
        self.files.iter().map(|(twin, _)| (twin.clone(), self.listener.of(twin.id))).collect()
    }
}

pub(super) fn rewritten(content: &[u8], generation: u64) -> Vec<u8> {
    let mut content: Vec<u8> = content.iter().map(|byte| !byte).collect();
    content[..8].copy_from_slice(&generation.to_le_bytes());
    content
}

/// Nothing that was reported durable is missing.
pub(super) fn check(disk: &FaultyDisk, twins: &[(Twin, Heard)], context: &str) {
    for (twin, heard) in twins.iter().filter(|(twin, _)| !twin.is_gone) {
        let durable = if twin.generation > 1 { twin.content.len() } else { heard.durable as usize };
        if durable == 0 {
            continue;
        }
        let found = disk.read_all(&path_of(twin.id));
        let found = found.unwrap_or_else(|error| panic!("{context}: {:?}: {error}", twin.id));
        assert!(found.len() >= durable, "{context}: {:?} is {} of {durable} long", twin.id, found.len());
        if twin.rewriting && found.starts_with(&(twin.generation + 1).to_le_bytes()) {
            let expected = rewritten(&twin.content, twin.generation + 1);
            assert!(found == expected, "{context}: {:?} after a rewrite", twin.id);
            continue;
        }
        check_content(twin, &found, durable, context);
    }
}

fn check_content(twin: &Twin, found: &[u8], durable: usize, context: &str) {
    // Every prefix of the unsure overwrites is right, each one as a whole.
    let mut expected = twin.content.clone();
    let mut candidates = vec![expected.clone()];
    for (offset, bytes) in &twin.unsure {
        expected[*offset..offset + bytes.len()].copy_from_slice(bytes);
        candidates.push(expected.clone());
    }
    let is_right = candidates.iter().any(|candidate| found[..durable] == candidate[..durable]);
    let place = (0..durable).find(|place| found[*place] != twin.content[*place]);
    assert!(
        is_right,
        "{context}: {:?} differs at {place:?} of {durable} (unsure: {})",
        twin.id,
        twin.unsure.len()
    );
}
