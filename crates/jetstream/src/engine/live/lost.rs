//! Messages that a stream had stored and has not any more, as its opening found it or as they were
//! to be read: in the log, and in what the API and monitoring show of the stream.

use std::ops::RangeInclusive;

use super::LiveStream;
use myelin_broker::Level;
use myelin_jsapi::api::info;
use myelin_store::{Lost, Notice, Seq, StreamId, StreamReport};

/// Sequences in one answer, at most. The log has all of them.
const LISTED: usize = 1000;
/// Messages of one stream that are damaged and get a line of the log each when they are met.
const LOGGED: usize = 100;

impl LiveStream {
    /// Keeps what an opening found missing, and says it.
    pub(in crate::engine) fn note_lost(&self, id: StreamId, report: &StreamReport) {
        report.lost.iter().for_each(|lost| self.log_lost(&words(lost, id)));
        self.health.set_lost(&report.lost);
        // Before anybody could be told.
        let met = self.reader().met_damage();
        met.iter().for_each(|lost| self.log_lost(&words(lost, id)));
        // An entry of a group's log that nobody had released has no message that is known, and one
        // of a consumer, or a purge, has none at all. It may have been confirmed: others are not to
        // get what is left of it.
        let is_damaged = |notice: &Notice| matches!(notice, Notice::DamagedEntries { .. });
        let lacks_entries =
            self.consumers.is_of_group() && (report.lacks_log || report.notices.iter().any(is_damaged));
        if !report.lost.is_empty() || !met.is_empty() || lacks_entries {
            self.note_damage();
        }
    }

    /// Says what was to be read and is damaged: for the first time, and `count` messages with
    /// these.
    pub(super) fn note_damaged(&self, id: StreamId, lost: &Lost, count: usize) {
        let before = count - (lost.sequences.end() - lost.sequences.start() + 1).min(count as u64) as usize;
        if before < LOGGED {
            self.log_lost(&words(lost, id));
        }
        if before < LOGGED && count >= LOGGED {
            self.log_lost(
                "has more damaged messages than are told here: its state lists those that were to be read",
            );
        }
        self.note_damage();
    }

    fn log_lost(&self, what: &str) {
        let (account, name) = (self.scope.account.name(), &self.scope.name);
        self.scope.host.log(Level::Error, format_args!("JetStream stream '{account} > {name}' {what}"));
    }

    /// Messages that were missing when its log was opened, and those that were found damaged since.
    /// Compat: as the reference does, all of it until the next start, also what was purged since.
    pub(super) fn lost(&self) -> Option<info::Lost> {
        let mut all = self.health.lost();
        all.extend(self.reader().met_damage());
        shown(&all)
    }

    /// Sequences of messages that were missing when its log was opened, or were found damaged
    /// since, in no order: all of them, where `state.lost` in the stream's info lists a thousand.
    pub fn lost_sequences(&self) -> Vec<RangeInclusive<Seq>> {
        let (opened, met) = (self.health.lost(), self.reader().met_damage());
        opened.into_iter().chain(met).map(|lost| lost.sequences).collect()
    }

    /// Messages that `state.lost` in the stream's info tells of.
    pub fn lost_messages(&self) -> u64 {
        self.lost().map_or(0, |lost| (lost.msgs.len() as u64).saturating_add(lost.unlisted))
    }
}

fn words(lost: &Lost, id: StreamId) -> String {
    let (first, last) = (lost.sequences.start(), lost.sequences.end());
    let place = format!("streams/{:016x}/{}", id.0, lost.file);
    let why = match lost.bytes {
        0 => format!("{place} is missing in part or as a whole"),
        1 => format!("1 byte of {place} is damaged or missing"),
        bytes => format!("{bytes} bytes of {place} are damaged or missing"),
    };
    format!("has lost messages {first} to {last}: {why}; it goes on behind them")
}

fn shown(lost: &[Lost]) -> Option<info::Lost> {
    let mut ranges: Vec<_> = lost.iter().collect();
    ranges.sort_by_key(|lost| *lost.sequences.start());
    let mut shown = info::Lost { bytes: ranges.iter().map(|lost| lost.bytes).sum(), ..info::Lost::default() };
    let mut next: Seq = 0;
    for range in &ranges {
        let (from, to) = (next.max(*range.sequences.start()), *range.sequences.end());
        if from > to {
            continue;
        }
        let room = (LISTED - shown.msgs.len()) as u64;
        let count = (to - from).saturating_add(1);
        shown.msgs.extend((from..=to).take(count.min(room) as usize));
        shown.unlisted = shown.unlisted.saturating_add(count.saturating_sub(room));
        next = to.saturating_add(1);
    }
    (!shown.msgs.is_empty()).then_some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(sequences: std::ops::RangeInclusive<Seq>, bytes: u64) -> Lost {
        Lost { file: "0000000000000001.seg".to_owned(), sequences, bytes }
    }

    #[test]
    fn each_sequence_is_listed_once() {
        let all = [lost(8..=9, 70), lost(2..=4, 100), lost(4..=5, 30)];
        let shown = shown(&all).map(|lost| (lost.msgs, lost.bytes, lost.unlisted));
        assert_eq!(shown, Some((vec![2, 3, 4, 5, 8, 9], 200, 0)));
        assert_eq!(super::shown(&[]), None);
    }

    #[test]
    fn a_long_list_says_how_much_it_leaves_out() {
        let shown = shown(&[lost(1..=900, 1), lost(901..=u64::MAX, 1)]).expect("much is lost");
        assert_eq!((shown.msgs.len(), shown.msgs.last()), (1000, Some(&1000)));
        assert_eq!(shown.unlisted, u64::MAX - 1000);
    }

    #[test]
    fn the_log_names_file_sequences_and_bytes() {
        assert_eq!(
            words(&lost(7..=7, 61), StreamId(255)),
            "has lost messages 7 to 7: 61 bytes of streams/00000000000000ff/0000000000000001.seg are damaged or missing; \
             it goes on behind them"
        );
    }
}
