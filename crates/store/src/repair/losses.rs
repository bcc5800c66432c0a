//! Messages that are lost: which of them a repair tells, and which it has done with.
//!
//! What earlier starts have told is said once more, and forgotten. What the repair itself is the
//! first to find, it names, and leaves to the starts that follow: the new manifest may be all that
//! they see.

use std::io;
use std::ops::RangeInclusive;

use crate::ranges::Ranges;
use crate::recovery::{
    LOST_COPIES, Lost, Notice, StreamReport, forget_losses, read_losses, stream_directory,
};
use crate::store::FoundStream;
use crate::stream::segment_name;
use crate::{Seq, StreamId};

use super::{RepairAction, RepairOutcome, Repairing};

/// Acknowledges what earlier starts have told as lost: it is said once more, and forgotten. Answers
/// which sequences these are.
pub(super) fn acknowledge(repairing: &mut Repairing<'_>, found: &FoundStream) -> io::Result<Ranges> {
    let directory = stream_directory(repairing.root, found.id);
    let Some(told) = read_losses(&*repairing.disk, &directory, found.id).best else {
        return Ok(Ranges::default());
    };
    // A repair that is killed in between has said it.
    for Lost { file, sequences, .. } in &told.lost {
        let (first, last) = (sequences.start(), sequences.end());
        let what = format!(
            "messages {first} to {last} were lost with {file}, as earlier starts have told: later ones tell only what they \
             find again"
        );
        let action = RepairAction::new(RepairOutcome::Repaired, directory.join(LOST_COPIES[0]), what);
        repairing.emit(action.of(found.id, &found.meta.account, &found.meta.name));
    }
    forget(repairing, found.id)?;
    Ok(Ranges::from_ranges(told.lost.iter().map(|lost| lost.sequences.clone())))
}

/// Forgets what starts have written down as lost.
pub(super) fn forget(repairing: &Repairing<'_>, id: StreamId) -> io::Result<()> {
    forget_losses(&*repairing.disk, &stream_directory(repairing.root, id))
}

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

/// Tells each loss whose sequences no notice names.
pub(super) fn tell(repairing: &mut Repairing<'_>, found: &FoundStream, lost: &[Lost], notices: &[Notice]) {
    let directory = stream_directory(repairing.root, found.id);
    for one in lost.iter().filter(|one| !notices.iter().any(|notice| names(notice, &one.sequences))) {
        let action = RepairAction::new(RepairOutcome::Lost, directory.join(&one.file), words(one));
        repairing.emit(action.of(found.id, &found.meta.account, &found.meta.name));
    }
}

fn names(notice: &Notice, lost: &RangeInclusive<Seq>) -> bool {
    match notice {
        Notice::DamagedEntries { sequences: Some(sequences), .. } | Notice::EndLost { sequences } => {
            sequences.contains(lost.start()) && sequences.contains(lost.end())
        }
        _ => false,
    }
}

fn words(lost: &Lost) -> String {
    let (first, last) = (lost.sequences.start(), lost.sequences.end());
    let why = match lost.bytes {
        0 => "it is missing in part or as a whole".to_owned(),
        1 => "1 byte of it is damaged or missing".to_owned(),
        bytes => format!("{bytes} bytes of it are damaged or missing"),
    };
    format!("messages {first} to {last} are lost: {why}")
}
