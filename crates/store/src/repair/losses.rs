//! Messages that are lost: which of them a repair has to tell.
//!
//! What earlier starts have told is said once more, and forgotten. What the repair itself is the
//! first to find, it names, and leaves to the starts that follow: the new manifest may be all that
//! they see.

use std::ops::RangeInclusive;

use crate::Seq;
use crate::ranges::Ranges;
use crate::recovery::{Lost, Notice, StreamReport};
use crate::stream::segment_name;

/// Losses of a stream that gets a new manifest and now begins with `first`, as far as there is more
/// to say of them. No later start finds one before its first message, so where it was acknowledged
/// it is done with.
pub(super) fn left_to_tell(report: &StreamReport, acknowledged: &Ranges, first: Seq) -> Vec<Lost> {
    let is_done =
        |sequences: &RangeInclusive<Seq>| *sequences.end() < first && acknowledged.covers(sequences);
    report.lost.iter().filter(|lost| !is_done(&lost.sequences)).cloned().collect()
}

/// Whether a notice is to be told of a stream without a manifest. Segments that were removed long
/// ago are missing, too: they are told of if messages of theirs were not removed.
pub(super) fn is_to_be_told(notice: &Notice, lost: &[Lost]) -> bool {
    match notice {
        Notice::Missing { segments } => {
            let name = segment_name(*segments.start());
            lost.iter().any(|lost| lost.file == name)
        }
        _ => true,
    }
}

/// Losses whose sequences no notice names.
pub(super) fn unnamed<'a>(lost: &'a [Lost], notices: &'a [Notice]) -> impl Iterator<Item = &'a Lost> {
    lost.iter().filter(|one| !notices.iter().any(|notice| names(notice, &one.sequences)))
}

fn names(notice: &Notice, lost: &RangeInclusive<Seq>) -> bool {
    match notice {
        Notice::DamagedEntries { sequences: Some(sequences), .. } | Notice::EndLost { sequences } => {
            sequences.contains(lost.start()) && sequences.contains(lost.end())
        }
        _ => false,
    }
}

/// Words of a repair about a loss.
pub(super) fn words(lost: &Lost) -> String {
    let (first, last) = (lost.sequences.start(), lost.sequences.end());
    let why = match lost.bytes {
        0 => "it is missing in part or as a whole".to_owned(),
        1 => "1 byte of it is damaged or missing".to_owned(),
        bytes => format!("{bytes} bytes of it are damaged or missing"),
    };
    format!("messages {first} to {last} are lost: {why}")
}
