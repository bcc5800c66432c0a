//! The look behind an invalid place: are there entries, and does one of them prove that the place
//! was synced?
//!
//! Owns the rules of proof. Only reads.

use std::borrow::Cow;
use std::ops::Range;

use super::SegmentHeader;
use super::window::ScanWindow;
use crate::damage::Damage;
use crate::record::{self, Control, Entry, EntryHead, EntryKind, FileContext};

/// Facts about what stands behind a place.
#[derive(Clone, Debug, Default)]
pub(super) struct Probe {
    /// Valid entries, in runs without gaps.
    pub(super) runs: Vec<Range<u64>>,
    /// The largest offset that one of them says to have been synced.
    pub(super) durable: u64,
}

/// Looks at everything behind `place`, where no entry begins.
pub(super) fn probe(
    window: &mut ScanWindow<'_>,
    header: &SegmentHeader,
    context: &FileContext,
    place: u64,
) -> Result<Probe, Damage> {
    let mut probe = Probe::default();
    let mut from = place + 1;
    while let Some(start) = window.next_entry(from, context)? {
        let mut end = start;
        while let Some(head) = window.entry(end, end, context)? {
            let bytes = &window.bytes(end, end, head.size())?[..head.size()];
            probe.durable = probe.durable.max(proof(bytes, head, end, header, context));
            end += head.size() as u64;
        }
        probe.runs.push(start..end);
        from = end + 1;
    }
    Ok(probe)
}

/// The offset in the file up to which the entry proves it to be synced.
fn proof(bytes: &[u8], head: EntryHead, at: u64, header: &SegmentHeader, context: &FileContext) -> u64 {
    if head.kind != EntryKind::Durable {
        return 0;
    }
    // A copy: the window's bytes stay as they are for whoever comes after.
    let mut copy = Cow::Borrowed(bytes);
    if context.cipher.is_some() && record::open(copy.to_mut(), at, &head, context).is_err() {
        return 0;
    }
    match record::assemble(&copy, head, context).map(|decoded| decoded.entry) {
        Ok(Entry::Control(Control::Durable { segment, .. })) if segment > header.through => u64::MAX,
        Ok(Entry::Control(Control::Durable { segment, offset })) if segment == header.segment => offset,
        _ => 0,
    }
}
