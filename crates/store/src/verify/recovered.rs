//! Stream that the next start would make, against the count: the server's own recovery, run on the
//! overlay. And what earlier starts have told as lost, which it tells, too.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::config::StreamConfig;
use crate::damage::Damage;
use crate::id::StreamPart;
use crate::recovery::{self, LOST_COPIES, Notice, OpenError, StreamReport, read_losses};
use crate::segment::SubjectChange;
use crate::stream::{Files, Stream};
use crate::{SegmentNo, StreamId};

use super::Finding;
use super::apply::Counting;
use super::base::is_told;
use super::root::Looking;
use super::state::{Sum, Tally};
use super::stream::Checking;

const OTHER_COPY: &str = "The other copy is good; the next start writes this one again.";
const NO_COPY: &str =
    "The next start moves it to quarantine: what earlier ones have told as lost is not told any more.";
const TOLD: &str = "Each start tells it, until they are back, none is left of the messages that were there then, or \
                    `myelin store repair --apply` was run.";
const DISAGREE: &str = "The server would show another state than that of the messages it has.";

/// Recovers the stream, and compares.
pub(super) fn check(checking: &mut Checking<'_, '_>, counting: &Counting) {
    if checking.is_locked {
        return;
    }
    let first = checking.header(SegmentNo(1)).map_or(1, |header| header.first_seq);
    let key = checking.key.clone();
    let (stream, report) = match recover(checking.looking, checking.id(), checking.directory, key, first) {
        None => return,
        Some(Ok(recovered)) => recovered,
        Some(Err(error)) => {
            let (what, meaning) =
                (format!("it cannot be opened: {error}"), "The server starts without this stream.");
            return checking.emit(Finding::damage(checking.directory, what, meaning));
        }
    };
    if let Some(lost) = report.notices.iter().find(|notice| matches!(notice, Notice::EndLost { .. })) {
        let meaning = "They are lost unless the file that held them can be restored from a backup; the stream goes on behind \
                       them.";
        let finding = Finding::damage(checking.directory, lost.to_string(), meaning);
        let Notice::EndLost { sequences } = lost else { return };
        checking.emit(finding.messages(*sequences.start(), *sequences.end()));
    }
    if let Some(uncertain) = &report.uncertain {
        let (first, last) = (*uncertain.start(), *uncertain.end());
        let what = format!(
            "whether sequences {first} to {last} were given out before the machine stopped is not known"
        );
        let meaning = "The next start goes on behind them, unless the stream is a mirror.";
        checking.emit(Finding::note(checking.directory, what, meaning).messages(first, last));
    }
    if counting.is_trusted && checking.faults == 0 {
        compare(checking, &stream, counting);
        if report.is_damaged() && checking.faults == 0 {
            let what = report.notices.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            let meaning = "The server reports damage that this check did not find: please report this.";
            checking.emit(Finding::suspicious(checking.directory, what, meaning));
        }
    }
}

/// Opens a stream on the overlay, as a start does. `None` if the journal cannot be used, or the
/// stream is still open.
pub(super) fn recover(
    looking: &Looking<'_>,
    id: StreamId,
    directory: &std::path::Path,
    key: Option<crate::keys::StreamKey>,
    first_seq: u64,
) -> Option<Result<(Stream, StreamReport), OpenError>> {
    let store_env = Arc::clone(looking.store_env.as_ref()?);
    // Streams are looked at one after the other.
    let claim = store_env.claims.take((id, StreamPart::Messages)).map(Arc::new)?;
    let files = Files { store_env, directory: directory.to_owned(), key, _claim: claim };
    // What is passed over is told and not done: what is found is compared with the files.
    let config = StreamConfig { first_seq, is_copy: true, ..StreamConfig::default() };
    Some(recovery::open_stream(id, files, config, (0, 0), &mut |_, _| {}))
}

fn compare(checking: &mut Checking<'_, '_>, stream: &Stream, counting: &Counting) {
    let state = &counting.state;
    let shared = stream.shared();
    let mut catalog = shared.catalog_mut();
    let mut wrong = Vec::new();
    // What is in the files was counted, committed or not.
    if let Err(error) = catalog.release_to(u64::MAX) {
        wrong.push(format!("what is not committed cannot be read: {error}"));
    }
    let totals = &catalog.totals();
    let told = (totals.first_seq, totals.last_seq, totals.messages, totals.bytes);
    let counted = (state.first_seq, state.last_seq, state.messages, state.bytes);
    if told != counted {
        wrong.push(format!("recovered are {}, counted were {}", Sum(told), Sum(counted)));
    }
    let tallies = state.tallies();
    if catalog.index().len() != tallies.len() {
        wrong.push(format!(
            "recovered subjects are {}, counted were {}",
            catalog.index().len(),
            tallies.len()
        ));
    }
    catalog.index().for_each_matching(b">", None, &mut |id, text| {
        let found = catalog.index().state(id);
        let change = SubjectChange {
            text,
            count: found.count,
            first: found.first,
            last: found.last,
            first_exact: found.first_exact,
            last_exact: found.last_exact,
        };
        let tally = tallies.get(text).copied().unwrap_or_default();
        if is_told(&change, tally) {
            return ControlFlow::Continue(());
        }
        wrong.push(format!(
            "recovered of {} are {}, counted were {tally}",
            String::from_utf8_lossy(text),
            Tally { count: found.count, first: found.first, last: found.last }
        ));
        ControlFlow::Break(())
    });
    let gaps: u64 =
        catalog.deleted().ranges().map(|range| (range.end() - range.start()).saturating_add(1)).sum();
    let span = state.last_seq.saturating_add(1).saturating_sub(state.first_seq);
    if state.messages > 0 && gaps != span.saturating_sub(state.messages) {
        wrong.push(format!("recovered {gaps} sequences without a message in a span of {span}"));
    }
    drop(catalog);
    for what in wrong {
        checking.emit(Finding::damage(checking.directory, what, DISAGREE));
    }
}

/// Checks both copies of what earlier starts have told as lost.
pub(super) fn check_losses(checking: &mut Checking<'_, '_>) {
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
