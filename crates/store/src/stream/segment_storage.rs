//! Where a stream's segments are made: in memory, or as files of a store.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use myelin_disk::claim::{Claim, ClaimSet};
use myelin_disk::handles::Handles;
use myelin_disk::headroom::Headroom;
use myelin_disk::memory::MemoryFile;
use myelin_disk::{Disk, Lock};

use crate::append_file::{AppendFile, AppendFileOptions, OnDurable};
use crate::cipher::CipherKind;
use crate::config::{Durability, Unsealed};
use crate::entropy::Entropy;
use crate::id::{StreamPart, nanos};
use crate::journal::Journal;
use crate::keys::{Keys, StreamKey};
use crate::record::FileContext;
use crate::register::Register;
use crate::segment::SegmentHeader;
use crate::watermarks::Watermarks;
use crate::{FileId, FileKind, SegmentNo, Seq, StreamId, Timestamp};

use super::active::Active;
use super::blocks::Blocks;
use super::errors::StoreError;
use super::group_log::GroupPosition;
use super::segment_view::{Segment, SegmentFile, segment_name};
use super::shared::StreamShared;
use super::table_cache::TableCache;

/// Bytes that the entry of a removal takes at most, unless it names many sequences.
pub(super) const CONTROL_ROOM: u64 = 256;

/// The right to write a part of a stream's files. Two writers of one log would write over each
/// other, and so would a job of one that is gone: so the stream itself and a job that is out share
/// it, and it ends with the last of them.
pub(crate) type Claimed = Arc<Claim<(StreamId, StreamPart)>>;

/// Environment that all streams of a store share.
#[derive(Debug)]
pub(crate) struct StoreEnv {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) handles: Arc<Handles>,
    pub(crate) slots: Arc<TableCache>,
    pub(crate) blocks: Arc<Blocks>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) headroom: Arc<Headroom>,
    pub(crate) watermarks: Arc<Watermarks>,
    pub(crate) register: Register,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) keys: Option<Keys>,
    pub(crate) unsealed: Unsealed,
    pub(crate) segment_bytes: Option<u32>,
    /// Claims on the parts of its streams that are open.
    pub(crate) claims: ClaimSet<(StreamId, StreamPart)>,
    /// On the store's directory, for as long as anything of the store may write.
    pub(crate) _lock: Box<dyn Lock>,
}

impl StoreEnv {
    /// Gives a stream its directory, if it has none, and has it stated from now on: whoever comes
    /// second, as a first message beside the first consumer, finds that done.
    pub(crate) fn make_files(&self, id: StreamId) -> io::Result<()> {
        self.register.renew_for(id, &*self.entropy)?;
        self.register.make_files_and(id, || self.watermarks.begin_stating(id))
    }
}

/// Storage in which a stream's segments are made.
#[derive(Debug)]
pub(crate) enum SegmentStorage {
    /// Nothing reaches a disk.
    Memory,
    /// A directory of a store.
    Files(Files),
}

/// A stream's directory, and what is needed to make files in it.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) store_env: Arc<StoreEnv>,
    pub(crate) directory: PathBuf,
    /// The stream's own key, if the store encrypts or the stream was encrypted when it was made.
    pub(crate) key: Option<StreamKey>,
    /// Held for as long as anybody may write there.
    pub(crate) _claim: Claimed,
}

impl SegmentStorage {
    pub(crate) fn is_memory(&self) -> bool {
        matches!(self, Self::Memory)
    }

    pub(crate) fn files(&self) -> Option<&Files> {
        match self {
            Self::Memory => None,
            Self::Files(files) => Some(files),
        }
    }

    /// Makes segment `no` and gives it its header.
    pub(crate) fn begin_segment(
        &self,
        stream: StreamId,
        at: Beginning,
        durability: Durability,
        listener: Option<Arc<StreamShared>>,
        now: Timestamp,
    ) -> Result<Active, StoreError> {
        match self {
            Self::Memory => Ok(begin_in_memory(stream, at, now)),
            Self::Files(files) => files.begin_segment(stream, at, durability, listener, now),
        }
    }
}

/// Where a new segment stands in its log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    pub(crate) no: SegmentNo,
    pub(crate) first_seq: Seq,
    /// Where the entries of the segment before it end.
    pub(crate) before: u64,
    /// Where the log of the stream's group ends.
    pub(crate) group: Option<GroupPosition>,
    /// Whether that is within a decision.
    pub(crate) is_within: bool,
}

impl Beginning {
    /// The first segment of a log, or one of which others know where it stands.
    pub(crate) fn anew(no: SegmentNo, first_seq: Seq) -> Self {
        Self { no, first_seq, before: 0, group: None, is_within: false }
    }
}

/// Segments in memory have a header like those in files, so that offsets mean the same and 0 is
/// never a message's. A stream in files begins with one that is never written to.
pub(crate) fn begin_in_memory(stream: StreamId, at: Beginning, now: Timestamp) -> Active {
    let header = header(stream, at, [0; 16], None);
    let id = FileId { stream, kind: FileKind::Segment(at.no) };
    let file = AppendFile::in_memory(id, Arc::new(MemoryFile::new()));
    file.append(&header.encode(), nanos(now)).expect("memory takes what is written");
    active(&header, header.context(None), file)
}

fn header(
    stream: StreamId,
    Beginning { no, first_seq, before, group, is_within }: Beginning,
    salt: [u8; 16],
    encryption: Option<CipherKind>,
) -> SegmentHeader {
    SegmentHeader {
        stream,
        segment: no,
        generation: 0,
        through: no,
        first_seq,
        before,
        epoch: group.map_or(0, |group| group.epoch),
        term: group.map_or(0, |group| group.term),
        salt,
        encryption,
        packed: false,
        group: group.map(|group| group.next_place(is_within)),
    }
}

fn active(header: &SegmentHeader, context: FileContext, file: Arc<AppendFile>) -> Active {
    let segment = Segment {
        stream: header.stream,
        no: header.segment,
        generation: header.generation,
        first_seq: header.first_seq,
        context,
        source: SegmentFile::Appended(Arc::clone(&file)),
        header: OnceLock::new(),
    };
    Active { segment: Arc::new(segment), file }
}

impl Files {
    pub(crate) fn segment_path(&self, no: SegmentNo) -> PathBuf {
        self.directory.join(segment_name(no))
    }

    /// The header of a new segment.
    pub(crate) fn header(&self, stream: StreamId, at: Beginning) -> SegmentHeader {
        let mut salt = [0; 16];
        self.store_env.entropy.fill(&mut salt);
        let encryption = self.key.as_ref().and(self.store_env.keys.as_ref()).map(|keys| keys.kind);
        header(stream, at, salt, encryption)
    }

    /// Context that reads and writes entries of the segment with this header. `None` if it is
    /// encrypted and there is no key.
    pub(crate) fn context(&self, header: &SegmentHeader) -> Option<FileContext> {
        let Some(kind) = header.encryption else { return Some(header.context(None)) };
        let key = self.key.as_ref()?;
        Some(header.context(Some(key.file_cipher(kind, "segment", header.segment.0, &header.salt))))
    }

    pub(crate) fn begin_segment(
        &self,
        stream: StreamId,
        at: Beginning,
        durability: Durability,
        listener: Option<Arc<StreamShared>>,
        now: Timestamp,
    ) -> Result<Active, StoreError> {
        let header = self.header(stream, at);
        let no = at.no;
        let context = self.context(&header).expect("a new segment is encrypted with the key at hand");
        let path = self.segment_path(no);
        let made = self.store_env.make_files(stream).and_then(|()| self.store_env.disk.create(&path));
        let made = made.map_err(StoreError::from_io)?;
        let id = FileId { stream, kind: FileKind::Segment(no) };
        let on_durable = listener.map(|shared| shared as Arc<dyn OnDurable>);
        let journal = &self.store_env.journal;
        let options = AppendFileOptions {
            id,
            generation: header.generation,
            file: made,
            path: path.clone(),
            end: 0,
            is_new: true,
            durability,
            bound: u64::from(u32::MAX),
            on_durable,
        };
        let file = AppendFile::new(journal, options);
        // And for the entry of a truncation, which must not find the disk full between the two.
        let begun = file.reserve(crate::segment::HEADER_BYTES as u64 + CONTROL_ROOM);
        let begun = begun.and_then(|_| Ok(file.append(&header.encode(), nanos(now))?));
        if let Err(error) = begun {
            file.abandon();
            // One that stays may end the segments before it, when the stream is opened again.
            self.store_env.disk.remove_file(&path).map_err(|left| {
                StoreError::Failed(format!(
                    "segment {} could not be begun ({error}) nor removed: {left}",
                    no.0
                ))
            })?;
            return Err(StoreError::from_io(error));
        }
        Ok(active(&header, context, file))
    }
}
