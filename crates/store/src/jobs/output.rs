//! A segment file that is written anew: as entries, or packed.
//!
//! Owns the new file until it has its name: a generation more than the file it replaces, a salt of
//! its own, and so other checksums and another key. Written beside the old one, synced, renamed
//! over it.
//!
//! Perf: one copy and one checksum per entry, writes of a megabyte.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use myelin_disk::File;

use super::{JobEnv, JobError, entries};
use crate::document::UNFINISHED;
use crate::pack::{FRAME_TARGET, FrameError, FrameTable, Packer};
use crate::record::{self, Control, EntryBatch, FileContext, Message};
use crate::segment::{Footer, HEADER_BYTES, SegmentHeader, encode_frames};
use crate::stream::{Beginning, SealedFile, Segment, SegmentFile, segment_name};
use crate::{Seq, Timestamp};

/// Bytes gathered before they are written.
const PIECE: usize = 1 << 20;

/// Whether entries are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Packed,
}

/// A segment file under construction. One that is dropped leaves a file that recovery removes.
pub(super) struct Output {
    env: JobEnv,
    header: SegmentHeader,
    context: FileContext,
    path: PathBuf,
    unfinished: PathBuf,
    file: Arc<dyn File>,
    /// Where `ready` goes in the file.
    at: u64,
    /// Bytes of the file.
    ready: Vec<u8>,
    /// Where `open` begins in the unpacked file. Plain: nothing is open.
    raw: u64,
    /// Entries of the frame that is being filled.
    open: Vec<u8>,
    packer: Option<Packer>,
}

impl Output {
    /// Begins the file that is to replace `old`'s.
    pub(super) fn begin(env: &JobEnv, old: &Segment, packing: Packing) -> Result<Self, JobError> {
        let before = entries::header(old)?;
        let header = SegmentHeader {
            generation: old.generation + 1,
            through: before.through,
            epoch: before.epoch,
            term: before.term,
            group: before.group,
            packed: packing == Packing::Packed,
            ..env.files.header(old.stream, Beginning::anew(old.no, old.first_seq))
        };
        let context = env.files.context(&header).expect("a new segment is encrypted with the key at hand");
        let name = segment_name(old.no);
        let path = env.files.directory.join(&name);
        let unfinished = env.files.directory.join(name + UNFINISHED);
        let disk = &env.files.store_env.disk;
        env.check()?;
        // What an attempt before left; nothing refers to it.
        let _ = disk.remove_file(&unfinished);
        let file = disk.create(&unfinished)?;
        let packer = header.packed.then(|| Packer::new(context.seed, context.cipher.clone()));
        Ok(Self {
            env: env.clone(),
            header,
            context,
            path,
            unfinished,
            file,
            at: 0,
            ready: header.encode().to_vec(),
            raw: HEADER_BYTES as u64,
            open: Vec::new(),
            packer,
        })
    }

    /// Adds a message; answers the offset that its row names.
    pub(super) fn message(&mut self, message: &Message<'_>) -> Result<u32, JobError> {
        self.push(|batch| batch.message(message))
    }

    /// Adds what stands for an erased message, as long as the log may still have to say that it is
    /// deleted; answers the offset that its row names.
    pub(super) fn erased(&mut self, seq: Seq, timestamp: Timestamp) -> Result<u32, JobError> {
        let nothing = Message { seq, timestamp, expires: None, subject: b"", headers: b"", payload: b"" };
        let mut entry = Vec::new();
        let (begin, buffer, context) = self.next();
        let at = begin + buffer.len() as u64;
        let mut batch = EntryBatch::begin(&mut entry, at, context);
        let offset = batch.message(&nothing);
        batch.finish();
        record::erase(&mut entry, context).expect("it was just made");
        buffer.extend_from_slice(&entry);
        self.pushed()?;
        Ok(offset)
    }

    /// Adds a control.
    pub(super) fn control(&mut self, control: &Control<'_>, timestamp: Timestamp) -> Result<(), JobError> {
        self.push(|batch| batch.control(control, timestamp)).map(drop)
    }

    /// Each entry is a batch of its own: the whole file is there, or none of it.
    fn push(&mut self, add: impl FnOnce(&mut EntryBatch<'_>) -> u32) -> Result<u32, JobError> {
        let (begin, buffer, context) = self.next();
        let at = begin + buffer.len() as u64;
        let mut batch = EntryBatch::begin(buffer, at, context);
        let offset = add(&mut batch);
        batch.finish();
        self.pushed()?;
        Ok(offset)
    }

    /// Where entries are gathered, and the offset of the first byte there.
    fn next(&mut self) -> (u64, &mut Vec<u8>, &FileContext) {
        /// Entries in frames are not encrypted themselves.
        const PLAIN: &FileContext = &FileContext { seed: 0, cipher: None };
        match self.packer {
            Some(_) => (self.raw, &mut self.open, PLAIN),
            None => (self.at, &mut self.ready, &self.context),
        }
    }

    fn pushed(&mut self) -> Result<(), JobError> {
        if self.packer.is_some() && self.open.len() >= FRAME_TARGET {
            self.close_frame()?;
        }
        if self.ready.len() >= PIECE { self.flush() } else { Ok(()) }
    }

    fn close_frame(&mut self) -> Result<(), JobError> {
        let Some(packer) = self.packer.as_mut().filter(|_| !self.open.is_empty()) else { return Ok(()) };
        let at = self.at + self.ready.len() as u64;
        packer.push_frame(self.raw, &self.open, &mut self.ready, at).map_err(too_large)?;
        self.raw += self.open.len() as u64;
        self.open.clear();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), JobError> {
        self.file.write_at(&self.ready, self.at)?;
        self.at += self.ready.len() as u64;
        self.ready.clear();
        Ok(())
    }

    /// Adds the footer, syncs the file, calls `before`, and gives the file its name. The segment
    /// that it is.
    pub(super) fn finish(
        mut self,
        footer: &Footer,
        before: impl FnOnce() -> Result<(), JobError>,
    ) -> Result<Segment, JobError> {
        self.close_frame()?;
        let frames = self.packer.take().map(Packer::finish);
        if let Some(frames) = &frames {
            encode_frames(frames, &self.context, &mut self.ready);
        }
        let records_end = self.at + self.ready.len() as u64;
        self.ready.extend_from_slice(&footer.encode(records_end, &self.context));
        self.flush()?;
        self.file.sync()?;
        self.env.check()?;
        before()?;
        self.publish()?;
        Ok(self.segment(records_end, frames))
    }

    /// Until the directory is synced a crash may leave the old file or the new one: both are whole,
    /// and say the same.
    fn publish(&self) -> Result<(), JobError> {
        let store_env = &self.env.files.store_env;
        self.env.check()?;
        store_env.disk.rename(&self.unfinished, &self.path)?;
        // Who opens the path from here on gets the new file; those that have the old one go on with
        // it.
        store_env.handles.forget(&self.path);
        store_env.disk.sync_directory(&self.env.files.directory)?;
        Ok(())
    }

    fn segment(self, records_end: u64, frames: Option<FrameTable>) -> Segment {
        let file = SealedFile::new(&self.path, &self.env.files.store_env.handles, records_end, self.at);
        Segment {
            stream: self.header.stream,
            no: self.header.segment,
            generation: self.header.generation,
            first_seq: self.header.first_seq,
            context: self.context,
            source: match frames {
                Some(frames) => SegmentFile::Packed(file, frames),
                None => SegmentFile::Plain(file),
            },
            header: OnceLock::new(),
        }
    }

    /// Gives up. What cannot be removed now is removed by recovery.
    pub(super) fn abandon(env: &JobEnv, segment: &Segment) {
        if env.check().is_err() {
            return;
        }
        let unfinished = env.files.directory.join(segment_name(segment.no) + UNFINISHED);
        let _ = env.files.store_env.disk.remove_file(&unfinished);
    }
}

fn too_large(error: FrameError) -> JobError {
    JobError::Io(std::io::Error::other(error.to_string()))
}
