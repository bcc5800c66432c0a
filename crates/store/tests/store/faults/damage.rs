//! Damage that is done to a file, and the messages that lie where it is done.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use myelin_store::Seq;
use myelin_store::record::{self, EntryKind, HEAD_BYTES};
use myelin_store::segment::{HEADER_BYTES, SegmentHeader};

use super::image::{Images, write_sparse};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Damage {
    FlippedHead,
    FlippedMiddle,
    FlippedTail,
    CutByAByte,
    CutByHalf,
    Emptied,
    Removed,
    Older,
    ZeroedSector,
    DoubledSector,
    Garbage,
    Exchanged,
}

/// Bytes that a disk loses at least.
const SECTOR: usize = 512;

impl Damage {
    pub(super) const ALL: [Self; 12] = [
        Self::FlippedHead,
        Self::FlippedMiddle,
        Self::FlippedTail,
        Self::CutByAByte,
        Self::CutByHalf,
        Self::Emptied,
        Self::Removed,
        Self::Older,
        Self::ZeroedSector,
        Self::DoubledSector,
        Self::Garbage,
        Self::Exchanged,
    ];

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::FlippedHead => "bit flipped in the head",
            Self::FlippedMiddle => "bit flipped in the middle",
            Self::FlippedTail => "bit flipped in the tail",
            Self::CutByAByte => "cut by a byte",
            Self::CutByHalf => "cut by half",
            Self::Emptied => "emptied",
            Self::Removed => "removed",
            Self::Older => "replaced by an older copy",
            Self::ZeroedSector => "a sector of zeros in the middle",
            Self::DoubledSector => "a sector twice in the middle",
            Self::Garbage => "garbage behind its end",
            Self::Exchanged => "a directory in its place",
        }
    }

    /// Bytes after the damage, and where they are not what they were; `None`: there is no file.
    /// Ends count from the last byte that is not zero, if there is one.
    fn of(self, bytes: &[u8], older: Option<Vec<u8>>) -> Option<(Option<Vec<u8>>, Range<usize>)> {
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(bytes.len(), |last| last + 1);
        let flip = |at: usize| {
            let mut flipped = bytes.to_vec();
            *flipped.get_mut(at)? ^= 1 << (at % 8);
            Some((Some(flipped), at..at + 1))
        };
        let middle = used / 2 / SECTOR * SECTOR;
        let over = |part: &[u8], at: usize| {
            let mut changed = bytes.to_vec();
            let place = at..bytes.len().min(at + part.len());
            changed[place.clone()].copy_from_slice(&part[..place.len()]);
            Some((Some(changed), place))
        };
        let cut = |at: usize| Some((Some(bytes[..at].to_vec()), at..bytes.len()));
        match self {
            Self::FlippedHead => flip(9),
            Self::FlippedMiddle => flip(used / 2),
            Self::FlippedTail => flip(used.checked_sub(1)?),
            Self::CutByAByte => cut(used.checked_sub(1)?),
            Self::CutByHalf => (used > 1).then(|| cut(used / 2))?,
            Self::Emptied => (!bytes.is_empty()).then(|| cut(0))?,
            Self::Removed | Self::Exchanged => Some((None, 0..bytes.len())),
            Self::Older => {
                let older = older?;
                let same = bytes.iter().zip(&older).take_while(|(one, other)| one == other).count();
                Some((Some(older), same..bytes.len()))
            }
            Self::ZeroedSector => over(&[0; SECTOR], middle),
            Self::DoubledSector => over(bytes.get(middle.checked_sub(SECTOR)?..middle)?, middle),
            Self::Garbage => {
                let garbage = (0..700_u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8);
                Some((Some(bytes[..used].iter().copied().chain(garbage).collect()), used..used))
            }
        }
    }

    /// Damages `file` below `root`. Answers which messages had bytes in the place, or `None` if
    /// there is nothing to do.
    pub(super) fn apply(self, root: &Path, file: &Target, images: &Images) -> Option<BTreeSet<Seq>> {
        let path = root.join(&file.below);
        let bytes = fs::read(&path).ok()?;
        let (left, place) = self.of(&bytes, images.older(&file.below, &bytes))?;
        if left.as_ref() == Some(&bytes) {
            return None;
        }
        match left {
            None => {
                fs::remove_file(&path).ok()?;
                if self == Self::Exchanged {
                    fs::create_dir(&path).ok()?;
                }
            }
            Some(left) => write_sparse(&path, &left).ok()?,
        }
        Some(if file.below.extension().is_some_and(|end| end == "seg") {
            messages_in(&bytes, &place)
        } else {
            BTreeSet::new()
        })
    }
}

/// The messages of a segment that have bytes in `place`. Of a packed one all that it has, for they
/// are in one frame.
fn messages_in(bytes: &[u8], place: &Range<usize>) -> BTreeSet<Seq> {
    let Ok(header) = SegmentHeader::decode(bytes) else { return BTreeSet::new() };
    if header.packed {
        return (header.first_seq..header.first_seq + 100).collect();
    }
    let mut touched = BTreeSet::new();
    let mut at = HEADER_BYTES;
    while let Some(head) = bytes.get(at..at + HEAD_BYTES).and_then(record::peek) {
        let end = at + head.size();
        // Without its header, nothing says what the rest belongs to.
        let is_in = (place.start < end && at < place.end) || place.start < HEADER_BYTES;
        if is_in && head.kind == EntryKind::Message {
            touched.insert(head.seq);
        }
        at = end;
    }
    touched
}

/// A file that is damaged.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// Name of its kind in the table.
    pub(super) kind: &'static str,
    /// Name of its stream, if it is of one.
    pub(super) stream: Option<&'static str>,
    /// Path below the store's directory.
    pub(super) below: PathBuf,
}

/// One file of each kind, as far as the store in `root` has it.
pub(super) fn targets(root: &Path) -> Vec<Target> {
    let mut targets = Vec::new();
    let roots = [
        ("`store`", "store"),
        ("`store.copy`", "store.copy"),
        ("`lock`", "lock"),
        ("`headroom`", "headroom"),
        ("`watermarks`", "watermarks"),
        ("`watermarks.copy`", "watermarks.copy"),
        ("`register`", "register"),
        ("`register.copy`", "register.copy"),
    ];
    for (kind, below) in roots {
        targets.push(Target { kind, stream: None, below: below.into() });
    }
    let slots = slots(root);
    let journal = |kind, number: Option<&(u64, PathBuf)>| {
        number.map(|(_, below)| Target { kind, stream: None, below: below.clone() })
    };
    targets.extend(journal("journal slot", slots.first()));
    targets.extend(journal("journal slot, newest", slots.last()));
    let of_streams = [
        ("`meta`", "PLAIN", "meta", Pick::First),
        ("`meta.copy`", "PLAIN", "meta.copy", Pick::First),
        ("`meta`, encrypted", "SECRET", "meta", Pick::First),
        ("`manifest.a`", "PLAIN", "manifest.a", Pick::First),
        ("`manifest.b`", "PLAIN", "manifest.b", Pick::First),
        ("`index.N`", "PLAIN", "index.", Pick::First),
        ("segment, sealed", "PLAIN", ".seg", Pick::First),
        ("segment, sealed, newest", "PLAIN", ".seg", Pick::BeforeLast),
        ("segment, packed", "PACKED", ".seg", Pick::First),
        ("segment, sealed, encrypted", "SECRET", ".seg", Pick::First),
        ("segment, first, none sealed, encrypted", "YOUNG", ".seg", Pick::First),
        ("segment, active", "PLAIN", ".seg", Pick::Last),
        ("segment, active, `always`", "SYNCED", ".seg", Pick::Last),
        ("segment, active, encrypted", "SECRET", ".seg", Pick::Last),
        ("`consumers.N`", "PLAIN", "consumers.", Pick::Last),
        ("`consumers.N`, encrypted", "SECRET", "consumers.", Pick::Last),
    ];
    for (kind, stream, part, pick) in of_streams {
        if let Some(below) = find(root, stream, part, pick) {
            targets.push(Target { kind, stream: Some(stream), below });
        }
    }
    targets.retain(|target| root.join(&target.below).exists());
    targets
}

/// Files of the journal by the number under which they were begun, ascending.
fn slots(root: &Path) -> Vec<(u64, PathBuf)> {
    let entries = fs::read_dir(root.join("journal")).expect("there is a journal");
    let number = |name: &Path| {
        let bytes = fs::read(root.join(name)).ok()?;
        Some(u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?))
    };
    let names = entries.map(|entry| Path::new("journal").join(entry.expect("an entry").file_name()));
    let mut slots: Vec<_> = names.filter_map(|name| Some((number(&name)?, name))).collect();
    slots.sort();
    slots
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pick {
    First,
    BeforeLast,
    Last,
}

/// The directory of a stream, below the root.
fn directory(root: &Path, stream: &str) -> PathBuf {
    let entries = fs::read_dir(root.join("streams")).expect("there are streams");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    // The name stands in the clear, and in no other stream's.
    let has = |bytes: Vec<u8>| bytes.windows(stream.len()).any(|part| part == stream.as_bytes());
    let is_it = |path: &PathBuf| fs::read(path.join("meta")).is_ok_and(has);
    let found = paths.into_iter().find(is_it).expect("the stream was made");
    found.strip_prefix(root).expect("it is below").to_owned()
}

fn find(root: &Path, stream: &str, part: &str, pick: Pick) -> Option<PathBuf> {
    let directory = directory(root, stream);
    let entries = fs::read_dir(root.join(&directory)).expect("it is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    let is_exact = part.starts_with("meta") || part.starts_with("manifest");
    names.retain(|name| if is_exact { name == part } else { name.contains(part) });
    names.sort();
    let name = match pick {
        Pick::First => names.first(),
        Pick::BeforeLast => names.iter().rev().nth(1),
        Pick::Last => names.last(),
    };
    Some(directory.join(name?))
}
