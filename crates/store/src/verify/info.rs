//! A store in numbers, from its files alone.

use std::io;
use std::path::Path;
use std::sync::Arc;

use myelin_disk::Disk;

use crate::damage::Damage;
use crate::keys::{Keys, StreamKey};
use crate::manifest;
use crate::meta::{MARKER, Marker, Meta};
use crate::segment::{SegmentHeader, Totals};
use crate::store::{COPY, number};
use crate::stream::{segment_name, segment_number};
use crate::{SegmentNo, StreamId, Timestamp};

use super::recovered::recover;
use super::root::{self, Looking};
use super::{Reporter, Summary};

/// Contents of a store.
#[derive(Clone, Debug, Default)]
pub struct StoreInfo {
    /// The store's random id.
    pub id: [u8; 16],
    /// Files of the journal.
    pub journal_files: u64,
    /// Bytes they take.
    pub journal_bytes: u64,
    /// The number of the last round in the journal; 0 if it holds none.
    pub last_round: u64,
    /// By number.
    pub streams: Vec<StreamDetails>,
}

/// Contents of a stream.
#[derive(Clone, Debug)]
pub struct StreamDetails {
    /// Its number.
    pub id: StreamId,
    /// Account of the stream; empty if its `meta` cannot be read.
    pub account: String,
    /// Name of the stream.
    pub name: String,
    /// When it was made.
    pub created: Timestamp,
    /// Whether its messages are encrypted.
    pub is_encrypted: bool,
    /// Messages, bytes, first and last, as the next start would find them; or why that is not
    /// known.
    pub totals: Result<Totals, String>,
    /// Distinct subjects, if `totals` are known.
    pub subjects: u64,
    /// Segment files.
    pub segments: u64,
    /// Bytes of all its files.
    pub file_bytes: u64,
}

/// Looks at the store in `root`. Nothing on `disk` is changed. `keys` open what is encrypted;
/// without them totals of encrypted streams are not known.
///
/// # Errors
/// There is no store in `root`, or the disk does not let it be read.
pub fn info(disk: &Arc<dyn Disk>, root: &Path, keys: Option<&Keys>) -> io::Result<StoreInfo> {
    let mut reporter = Reporter { root, progress: &mut |_| {}, summary: Summary::default() };
    let disk = &root::without_misplaced(disk, root, &mut reporter)?;
    let looking = root::check_root(disk, root, keys, &mut reporter)?;
    let mut info = StoreInfo::default();
    let markers = [MARKER, COPY].map(|name| Marker::read(&**disk, root, name));
    if let Some(marker) = markers.into_iter().find_map(Result::ok) {
        info.id = marker.id;
        journal(&**disk, root, number(&marker), &mut info);
    }
    for (id, directory) in root::streams(&looking, &mut reporter)? {
        info.streams.push(stream(&looking, id, &directory)?);
    }
    Ok(info)
}

fn journal(disk: &dyn Disk, root: &Path, store: u64, info: &mut StoreInfo) {
    let Ok(files) = crate::journal::inspect(disk, &root.join("journal"), store) else { return };
    info.journal_files = files.len() as u64;
    info.journal_bytes = files.iter().map(|file| file.length).sum();
    info.last_round = files.iter().map(|file| file.round).max().unwrap_or(0);
}

fn stream(looking: &Looking<'_>, id: StreamId, directory: &Path) -> io::Result<StreamDetails> {
    let (mut segments, mut file_bytes, mut first) = (0, 0, None);
    for entry in looking.disk.list(directory)?.iter().filter(|entry| !entry.is_directory) {
        if let Ok(file) = looking.disk.open_read_only(&directory.join(&entry.name)) {
            file_bytes += file.len()?;
        }
        if let Some(no) = segment_number(&entry.name) {
            segments += 1;
            first = Some(first.map_or(no, |least: SegmentNo| least.min(no)));
        }
    }
    let meta = Meta::read(&*looking.disk, directory, id);
    let (totals, subjects) = match &meta {
        Ok(meta) => totals(looking, meta, directory, first),
        Err(damage) => (Err(damage.to_string()), 0),
    };
    let unnamed = |_| Meta {
        stream: id,
        created: 0,
        account: String::new(),
        name: String::new(),
        config: Vec::new(),
        sealed_keys: Vec::new(),
        generation: 0,
    };
    let Meta { created, account, name, sealed_keys, .. } = meta.unwrap_or_else(unnamed);
    let is_encrypted = !sealed_keys.is_empty();
    Ok(StreamDetails { id, account, name, created, is_encrypted, totals, subjects, segments, file_bytes })
}

fn totals(
    looking: &Looking<'_>,
    meta: &Meta,
    directory: &Path,
    first: Option<SegmentNo>,
) -> (Result<Totals, String>, u64) {
    let key = match (meta.sealed_keys.is_empty(), looking.keys) {
        (true, _) => None,
        (false, None) => return (Err(Damage::Locked("stream").to_string()), 0),
        (false, Some(keys)) => match StreamKey::open(&meta.sealed_keys, meta.stream, keys) {
            Ok((key, _)) => Some(key),
            Err(error) => return (Err(error.to_string()), 0),
        },
    };
    let covers_none = manifest::read(&*looking.disk, directory).best.is_none();
    let begin = first.filter(|_| covers_none).and_then(|no| {
        let file = looking.disk.open_read_only(&directory.join(segment_name(no))).ok()?;
        SegmentHeader::read(&*file).ok()
    });
    let recovered = recover(looking, meta.stream, directory, key, begin.map_or(1, |header| header.first_seq));
    match recovered {
        None => (Err("the journal cannot be used".to_owned()), 0),
        Some(Err(error)) => (Err(error.to_string()), 0),
        Some(Ok((stream, _))) => {
            let state = stream.state();
            (Ok(state.totals), state.subjects)
        }
    }
}
