//! From entries to a count: what each entry of a segment does to the stream, and what the segment's
//! table says of it.

use std::collections::HashSet;

use crate::config::Storage;
use crate::manifest::{Manifest, SegmentEntry};
use crate::record::{Control, Entry, stored_size};
use crate::segment::{Scanned, SegmentHeader, Slots};
use crate::stream::Times;
use crate::{Seq, Timestamp};

use super::MOST_MESSAGES;
use super::state::CountedStream;

/// Role of a segment's entries in the count.
#[derive(Clone, Copy, Debug)]
pub(super) enum SegmentRole<'m> {
    /// The file stands for nothing any more.
    Ignored,
    /// Entries are walked like on the day they were written.
    Replayed,
    /// Of what it holds only what the manifest says is visible counts: the rest of the log may be
    /// gone.
    Visible(&'m Manifest, &'m SegmentEntry),
}

/// The count of a stream.
#[derive(Debug)]
pub(super) struct Counting {
    pub(super) state: CountedStream,
    /// Whether everything up to here could be read: if not, a comparison would only repeat what was
    /// told.
    pub(super) is_trusted: bool,
    /// Whether a segment was written again after messages of it were erased: footers from there on
    /// count some that are not in the files, until the one that says that they are deleted.
    pub(super) is_ahead: bool,
    /// Whether there are more messages than are counted.
    pub(super) is_too_large: bool,
}

impl Counting {
    pub(super) fn new(next: Seq) -> Self {
        Self { state: CountedStream::new(next), is_trusted: true, is_ahead: false, is_too_large: false }
    }

    /// A file that was written again has been walked, whose footer names `last_seq` as the last
    /// sequence.
    pub(super) fn passed_rewritten(&mut self, has_gap: bool, last_seq: Seq) {
        self.is_ahead |= has_gap || self.state.last_seq < last_seq;
        self.state.skip(last_seq);
    }

    /// The next segment begins with `first_seq`. A stream is truncated first and gets a new segment
    /// then, so a footer is that of the truncated stream.
    pub(super) fn before(&mut self, first_seq: Seq) {
        if first_seq <= self.state.last_seq {
            self.state.truncate(first_seq.saturating_sub(1));
        }
    }

    /// Something that the count needs cannot be read.
    pub(super) fn distrust(&mut self) {
        self.is_trusted = false;
    }

    pub(super) fn apply(
        &mut self,
        role: SegmentRole<'_>,
        scanned: &Scanned<'_>,
        slots: Option<&Slots>,
        slot: Option<usize>,
    ) {
        if !self.is_trusted {
            return;
        }
        if self.state.rows() >= MOST_MESSAGES {
            (self.is_trusted, self.is_too_large) = (false, true);
            return;
        }
        match role {
            SegmentRole::Ignored => {}
            SegmentRole::Replayed => self.replay(&scanned.entry, slots.zip(slot)),
            SegmentRole::Visible(manifest, entry) => {
                if let Some(seq) = sequence(&scanned.entry)
                    && (entry.first_seq..=entry.last_seq).contains(&seq)
                    && (manifest.totals.first_seq..=manifest.totals.last_seq).contains(&seq)
                    && !manifest.deleted.contains(seq)
                {
                    self.replay(&scanned.entry, slots.zip(slot));
                }
            }
        }
    }

    fn replay(&mut self, entry: &Entry<'_>, slot: Option<(&Slots, usize)>) {
        let state = &mut self.state;
        match entry {
            Entry::Message(message) => {
                let size = size_of(message.subject, message.headers, message.payload);
                state.append(message.seq, message.subject, size, message.expires);
            }
            // What it was stands in the table only.
            Entry::Erased { seq } => match slot {
                Some((slots, at)) => {
                    state.append(*seq, slots.dictionary().text(slots.subject(at)), slots.size(at), None);
                }
                None => state.skip(*seq),
            },
            Entry::Control(Control::Delete(ranges)) => {
                ranges.iter().for_each(|range| state.remove_range(*range.start(), *range.end()));
            }
            Entry::Control(Control::Trim { first }) => state.trim(*first),
            Entry::Control(Control::Truncate { last }) => state.truncate(*last),
            Entry::Control(Control::Skip { last }) => state.skip(*last),
            Entry::Control(
                Control::Durable { .. }
                | Control::Term { .. }
                | Control::LogEntry(_)
                | Control::Consumer(_)
                | Control::Config(_)
                | Control::Note(_)
                | Control::TakenBack { .. },
            ) => {}
        }
    }
}

fn size_of(subject: &[u8], headers: &[u8], payload: &[u8]) -> u32 {
    u32::try_from(stored_size(Storage::File, subject.len(), headers.len(), payload.len())).unwrap_or(u32::MAX)
}

fn sequence(entry: &Entry<'_>) -> Option<Seq> {
    match entry {
        Entry::Message(message) => Some(message.seq),
        Entry::Erased { seq } => Some(*seq),
        Entry::Control(_) => None,
    }
}

/// The messages of one segment, held against its table.
#[derive(Debug)]
pub(super) struct TableCheck<'a> {
    first_seq: Seq,
    slots: Option<&'a Slots>,
    /// By index in the table.
    matched: Vec<bool>,
    /// Messages that the table should have and has not.
    pub(super) unlisted: Vec<Seq>,
    /// The first message whose row is another's, with what differs.
    pub(super) wrong: Option<(Seq, &'static str)>,
    /// The first message whose sequence does not grow.
    pub(super) disorder: Option<Seq>,
    /// Sequences that are passed over without a word, as the first and the last of each.
    pub(super) gaps: Vec<(Seq, Seq)>,
    /// The last sequence that is used.
    pub(super) last_seq: Seq,
    /// Messages with a lifetime of their own.
    pub(super) expiries: Vec<(Seq, Timestamp)>,
    /// Messages that were erased in place: what else is known of them is from before or from after
    /// that.
    pub(super) erased: HashSet<Seq>,
    /// When the messages of the table were accepted.
    pub(super) times: Times,
}

impl<'a> TableCheck<'a> {
    pub(super) fn new(header: &SegmentHeader, slots: Option<&'a Slots>) -> Self {
        Self {
            first_seq: header.first_seq,
            slots,
            matched: vec![false; slots.map_or(0, Slots::len)],
            unlisted: Vec::new(),
            wrong: None,
            disorder: None,
            gaps: Vec::new(),
            last_seq: header.first_seq.saturating_sub(1),
            expiries: Vec::new(),
            erased: HashSet::new(),
            times: Times::NONE,
        }
    }

    /// Takes the next entry; answers its row.
    pub(super) fn note(&mut self, scanned: &Scanned<'_>) -> Option<usize> {
        match &scanned.entry {
            Entry::Message(message) => {
                let size = size_of(message.subject, message.headers, message.payload);
                if let Some(at) = message.expires {
                    self.expiries.push((message.seq, at));
                }
                self.message(message.seq, scanned, Some((message.subject, size)))
            }
            Entry::Erased { seq } => {
                self.erased.insert(*seq);
                self.message(*seq, scanned, None)
            }
            Entry::Control(control) => {
                match control {
                    // All that came before is gone, and the table begins anew.
                    Control::Trim { first } if *first > self.last_seq => {
                        self.unlisted.clear();
                        self.expiries.clear();
                        self.last_seq = first - 1;
                    }
                    Control::Skip { last } => self.last_seq = self.last_seq.max(*last),
                    _ => {}
                }
                None
            }
        }
    }

    fn message(&mut self, seq: Seq, scanned: &Scanned<'_>, what: Option<(&[u8], u32)>) -> Option<usize> {
        if seq <= self.last_seq {
            self.disorder.get_or_insert(seq);
            return None;
        }
        if seq > self.last_seq + 1 {
            self.gaps.push((self.last_seq + 1, seq - 1));
        }
        self.last_seq = seq;
        let slots = self.slots?;
        let at = u32::try_from(seq - self.first_seq).ok().and_then(|delta| slots.find(delta));
        let Some(at) = at else {
            // A message that was erased before the segment was closed need not have a row.
            if what.is_some() {
                self.unlisted.push(seq);
            }
            return None;
        };
        self.matched[at] = true;
        self.times.add(scanned.timestamp);
        let is_subject = |(subject, _)| slots.dictionary().text(slots.subject(at)) == subject;
        if u64::from(slots.offset(at)) != scanned.offset {
            self.wrong.get_or_insert((seq, "the table names another place"));
        } else if !what.is_none_or(is_subject) {
            self.wrong.get_or_insert((seq, "the table names another subject"));
        } else if what.is_some_and(|(_, size)| slots.size(at) != size) {
            self.wrong.get_or_insert((seq, "the table names another size"));
        }
        Some(at)
    }

    /// Rows without a message, as the sequences of the first and the last one.
    pub(super) fn lost(&self) -> Option<(Seq, Seq)> {
        let slots = self.slots?;
        let first = self.matched.iter().position(|found| !found)?;
        let last = self.matched.iter().rposition(|found| !found)?;
        Some((slots.seq(first), slots.seq(last)))
    }
}
