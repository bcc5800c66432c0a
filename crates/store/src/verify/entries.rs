//! The entries of a segment, whatever its form, for a visitor.

use std::ops::Range;

use myelin_disk::File;

use crate::damage::Damage;
use crate::pack::{self, FrameTable};
use crate::record::{self, FileContext};
use crate::segment::{self, Damaged, Extent, HEADER_BYTES, ScanEnd, Scanned, SegmentHeader};

/// Sum of what a walk passed by.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// Ranges that were synced and are not what was written.
    pub(super) damaged: Vec<Damaged>,
    /// Where an end without proof begins, and whether whole entries stand behind it.
    pub(super) torn: Option<(u64, bool)>,
    /// Whether the table of frames is not what the frames say.
    pub(super) is_table_wrong: bool,
}

/// Gives every entry up to `to` to `visit`; what is before `durable` was synced.
///
/// # Errors
/// `Io`, and `Locked` without a key.
pub(super) fn walk(
    file: &dyn File,
    header: &SegmentHeader,
    context: &FileContext,
    (to, durable): (u64, u64),
    visit: &mut dyn FnMut(Scanned<'_>),
) -> Result<Walked, Damage> {
    if header.packed {
        return unpack(file, header, context, to, visit);
    }
    let extent = Extent { from: HEADER_BYTES as u64, to, durable };
    let scan = segment::scan(file, header, context, extent, visit)?;
    let torn = match scan.end {
        ScanEnd::Clean { .. } => None,
        ScanEnd::Torn { at, valid_after } => Some((at, !valid_after.is_empty())),
    };
    Ok(Walked { damaged: scan.damaged, torn, is_table_wrong: false })
}

/// The frames of a packed segment, and their entries.
fn unpack(
    file: &dyn File,
    header: &SegmentHeader,
    context: &FileContext,
    to: u64,
    visit: &mut dyn FnMut(Scanned<'_>),
) -> Result<Walked, Damage> {
    if header.encryption.is_some() && context.cipher.is_none() {
        return Err(Damage::Locked("segment"));
    }
    let (table, damaged, is_table_wrong) = frames(file, context, to)?;
    let mut walked = Walked { is_table_wrong, ..Walked::default() };
    let unknown = |bytes: Range<u64>| Damaged { bytes, first_seq: header.first_seq, last_seq: None };
    walked.damaged = damaged.into_iter().map(unknown).collect();
    let mut buffer = Vec::new();
    for frame in table.frames() {
        let read = pack::read_frame(
            file,
            &table,
            frame.raw_offset,
            context.seed,
            context.cipher.as_ref(),
            &mut buffer,
        );
        let is_whole = match read {
            Ok(begin) => unpack_entries(&buffer, begin, visit),
            Err(pack::FrameError::Io(error)) => return Err(error.into()),
            Err(_) => false,
        };
        if !is_whole {
            walked.damaged.push(unknown(frame.file()));
        }
    }
    Ok(walked)
}

fn unpack_entries(raw: &[u8], begin: u64, visit: &mut dyn FnMut(Scanned<'_>)) -> bool {
    let mut at = 0;
    while at < raw.len() {
        let Ok(decoded) = record::decode_trusted(&raw[at..]) else { return false };
        let (offset, size) = (begin + at as u64, decoded.size);
        visit(Scanned { offset, size, timestamp: decoded.timestamp, entry: decoded.entry });
        at += size;
    }
    true
}

/// The frames before `to`, the ranges between them that are none, and whether the table behind them
/// is not theirs.
pub(super) fn frames(
    file: &dyn File,
    context: &FileContext,
    to: u64,
) -> Result<(FrameTable, Vec<Range<u64>>, bool), Damage> {
    let rebuilt = pack::rebuild(file, context.seed, HEADER_BYTES as u64..to)?;
    let mut damaged = rebuilt.damaged;
    let mut expected = Vec::new();
    segment::encode_frames(&rebuilt.table, context, &mut expected);
    let begin = to.saturating_sub(expected.len() as u64);
    // What is no frame at the end is the table; where a frame is damaged the table has one more,
    // and a range before it is damaged, too.
    let last = rebuilt.table.frames().last().map_or(HEADER_BYTES as u64, |frame| frame.file().end);
    let mut found = vec![0; expected.len()];
    let read = file.read_at(&mut found, begin)?;
    let is_right = read == found.len() && found == expected && begin >= last;
    match damaged.last_mut() {
        Some(range) if range.end == to && is_right => range.end = begin,
        Some(range) if range.end == to => damaged.retain(|range| range.end != to),
        _ => {}
    }
    damaged.retain(|range| !range.is_empty());
    Ok((rebuilt.table, damaged, !is_right))
}
