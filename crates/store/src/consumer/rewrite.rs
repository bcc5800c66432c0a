//! A log that is written anew while another one is appended to.
//!
//! Owns the image that is drawn meanwhile, a slice of the consumers at a time, and what is appended
//! of those that are in it already: it goes behind the image. Nobody waits but for a slice, and for
//! the end.
//!
//! Drawing a slice of the image and taking the file over need the consumers; writing it does not,
//! and happens on the thread for backups. If more is appended meanwhile than is to be held, the
//! rewrite is given up and tried again when the log is twice as long.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use myelin_disk::{Disk, File, is_full};
use myelin_stdx::varint;

use super::entry::{LogContext, LogEntryKind};
use super::image::{self, Image, SERIAL_AFTER};
use super::tail::Tails;
use super::{Consumer, ConsumerId};

/// Bytes that may be appended while a log is written anew, or an eighth of the log: what there is
/// to write takes longer the longer that is. If more are appended, it is given up, for these would
/// have to be written and synced while everybody waits. It is tried again when the log is twice as
/// long.
const LEAST_SINCE: u64 = 1 << 20;

/// How much may be appended while a log of `end` bytes is written anew.
pub(super) fn most_since(end: u64) -> usize {
    usize::try_from(LEAST_SINCE.max(end / 8)).unwrap_or(usize::MAX)
}

/// The consumers of a stream.
pub(super) type Map = HashMap<ConsumerId, Consumer, RandomState>;

/// An entry that waits, without its number.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub(super) id: ConsumerId,
    pub(super) kind: LogEntryKind,
    /// Of a consumer that exists no more.
    pub(super) serial: Option<u64>,
    pub(super) payload: Vec<u8>,
}

/// A log that is written anew while another one is appended to: only drawing a slice of the image
/// and taking it over hold anybody up.
#[derive(Debug)]
pub struct Rewrite {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) tails: Arc<dyn Tails>,
    pub(super) number: u64,
    pub(super) frame: LogContext,
    pub(super) image: Image,
    /// Consumers that are still to be drawn, the next one last.
    pub(super) rest: Vec<ConsumerId>,
    pub(super) temporary: PathBuf,
    /// The id of the next consumer to be created when it was begun.
    pub(super) next: u64,
}

/// How far an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// There is more to draw.
    More,
    /// The whole log can be written.
    Whole,
    /// Too much was appended meanwhile, or the log was written anew otherwise: this is nothing any
    /// more.
    Overtaken,
}

impl Rewrite {
    /// Writes and syncs the image, when it is whole. May take as long as the disk does.
    ///
    /// # Errors
    /// Of the disk.
    pub fn write(&mut self) -> io::Result<Arc<dyn File>> {
        debug_assert!(self.rest.is_empty(), "it was drawn");
        match self.tails.prepare() {
            Err(error) if is_full(&error) && self.tails.give_room() => self.tails.prepare()?,
            prepared => prepared?,
        }
        let image = self.image.end();
        match image::write(&*self.disk, &self.temporary, image) {
            Err(error) if is_full(&error) && self.tails.give_room() => {
                image::write(&*self.disk, &self.temporary, image)
            }
            written => written,
        }
    }

    /// Draws consumers, at least one and about so many bytes.
    pub(super) fn draw(&mut self, consumers: &Map, bytes: usize) {
        let end = self.image.len().saturating_add(bytes);
        while self.image.len() < end
            && let Some(id) = self.rest.pop()
        {
            // It may be gone by now.
            let Some(Consumer { definition, state, .. }) = consumers.get(&id) else { continue };
            self.image.add(&self.frame, id, definition, state);
        }
    }
}

/// Entries that were appended of consumers which are in the image already of a log that is written
/// anew.
#[derive(Debug)]
pub(super) struct Since {
    /// The log that is written anew.
    pub(super) number: u64,
    /// Up to here consumers are in the image,
    pub(super) through: ConsumerId,
    /// and from here on they were created since it was begun.
    pub(super) next: ConsumerId,
    pub(super) queued: Vec<Queued>,
    pub(super) bytes: usize,
    /// Bytes from which there are too many.
    pub(super) most: usize,
}

impl Since {
    /// Keeps what the image does not know. Answers whether that is not too much.
    fn note(&mut self, queued: impl FnOnce() -> Queued, id: ConsumerId) -> bool {
        if id <= self.through || id >= self.next {
            let queued = queued();
            self.bytes += size_of::<Queued>() + queued.payload.len();
            self.queued.push(queued);
        }
        self.bytes <= self.most
    }
}

/// Keeps what is appended while the log is written anew, or gives that up.
pub(super) fn note(since: &mut Option<Since>, id: ConsumerId, queued: impl FnOnce() -> Queued) {
    if since.as_mut().is_some_and(|since| !since.note(queued, id)) {
        *since = None;
    }
}

/// Appends an entry to `out`, which begins at `offset` of the file.
pub(super) fn seal(
    frame: &LogContext,
    out: &mut Vec<u8>,
    offset: u64,
    (id, kind, serial): (ConsumerId, LogEntryKind, u64),
    payload: &[u8],
) {
    let mut numbered = Vec::with_capacity(payload.len() + 10);
    varint::put(serial, &mut numbered);
    numbered.extend_from_slice(payload);
    let offset = offset + out.len() as u64;
    frame.seal(out, offset, id, kind, &numbered);
}

/// The numbers of next entries, where they are not the one behind an image.
pub(super) type Serials = HashMap<ConsumerId, u64, RandomState>;

impl Rewrite {
    /// Writes entries behind the image and syncs them. Consumers that were created since are not in
    /// it.
    pub(super) fn append(&self, file: &dyn File, since: &[Queued]) -> io::Result<(Vec<u8>, Serials)> {
        debug_assert!(self.rest.is_empty(), "entries stand behind the whole image");
        let (mut out, mut serials) = (Vec::new(), Serials::default());
        for Queued { id, kind, payload, .. } in since {
            let first = if id.0 < self.next { SERIAL_AFTER } else { 0 };
            let serial = serials.entry(*id).or_insert(first);
            seal(&self.frame, &mut out, self.image.len() as u64, (*id, *kind, *serial), payload);
            *serial += 1;
        }
        if !out.is_empty() {
            file.write_at(&out, self.image.len() as u64)?;
            file.sync()?;
        }
        Ok((out, serials))
    }
}
