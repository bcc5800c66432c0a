//! Losses that earlier starts have found and later ones tell.

use std::io;

use crate::damage::Damage;
use crate::recovery::{LOST_COPIES, read_losses};

use super::Finding;
use super::stream::Checking;

const OTHER_COPY: &str = "The other copy is good; the next start writes this one again.";
const NO_COPY: &str =
    "The next start moves it to quarantine: what earlier ones have told as lost is not told any more.";
const TOLD: &str = "Each start tells it, until they are back, none is left of the messages that were there then, or \
                    `myelin store repair --apply` was run.";

/// Checks both copies.
pub(super) fn check(checking: &mut Checking<'_, '_>) {
    let copies = read_losses(&*checking.looking.disk, checking.directory, checking.id());
    for (name, damage) in &copies.faults {
        let path = checking.path(name);
        let is_missing = matches!(damage, Damage::Io(error) if error.kind() == io::ErrorKind::NotFound);
        checking.emit(match (is_missing, copies.best.is_some()) {
            (true, true) => Finding::note(path, "it is missing", OTHER_COPY),
            (true, false) => continue,
            (false, has_other) => {
                Finding::damage(path, damage.to_string(), if has_other { OTHER_COPY } else { NO_COPY })
            }
        });
    }
    for lost in copies.best.iter().flat_map(|best| &best.lost) {
        let (first, last) = (*lost.sequences.start(), *lost.sequences.end());
        let what = format!("messages {first} to {last} were missing at an earlier start, with {}", lost.file);
        checking.emit(Finding::note(checking.path(LOST_COPIES[0]), what, TOLD).messages(first, last));
    }
}
