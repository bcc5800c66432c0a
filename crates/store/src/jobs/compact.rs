//! Compacting: a sealed segment is written again with what is left of it; erasing, which is the
//! same with care for what the old file held.
//!
//! Owns the choice of rows that stay. For a segment that the manifest covers these are the
//! manifest's: what was deleted since is still in its state, and a restart may find no more than
//! that. Of one behind the manifest all stay, and its footer goes on to say what it changed. What
//! is erased leaves an entry without content.

use std::sync::Arc;

use myelin_disk::File;

use super::entries;
use super::output::{Output, Packing};
use super::overwrite::Overwriting;
use super::state::{live_rows, read_table};
use super::{JobEnv, JobError};
use crate::damage::Damage;
use crate::manifest::Manifest;
use crate::ranges::Ranges;
use crate::record::{self, Entry, HEAD_BYTES};
use crate::segment::{
    self, Changes, Dictionary, Footer, Slots, SubjectChange, SubjectChanges, Texts, Totals,
};
use crate::stream::{SealedFile, Segment, SegmentFile, Times};
use crate::{Seq, Timestamp};

/// A segment to be written again.
#[derive(Debug)]
pub(crate) struct Compaction {
    pub(crate) segment: Arc<Segment>,
    /// The manifest on disk.
    pub(crate) manifest: Option<Arc<Manifest>>,
    /// Messages whose bytes must not stay anywhere. That they are deleted is durable.
    pub(crate) erased: Ranges,
}

/// The segment in its new file.
#[derive(Debug)]
pub(crate) struct Compacted {
    pub(crate) segment: Arc<Segment>,
    pub(crate) slots: Arc<Slots>,
    /// Overwriting that is left to do for what was erased.
    pub(crate) rest: Option<Overwriting>,
}

/// Rows of a table, as they are gathered.
#[derive(Default)]
struct LiveRows {
    deltas: Vec<u32>,
    offsets: Vec<u32>,
    sizes: Vec<u32>,
    subjects: Vec<u32>,
}

/// Remainder of a segment.
struct LiveTable {
    rows: LiveRows,
    times: Times,
    expiries: Vec<(Seq, Timestamp)>,
}

impl Compaction {
    pub(super) fn run(&self, env: &JobEnv) -> Result<Compacted, JobError> {
        let compacted = self.compact(env);
        if compacted.is_err() {
            Output::abandon(env, &self.segment);
        }
        compacted
    }

    fn compact(&self, env: &JobEnv) -> Result<Compacted, JobError> {
        let before = &*self.segment;
        let sealed = before.sealed().ok_or(JobError::Damage(before.no, Damage::Content("segment")))?;
        // Who reads the old file goes on to read it.
        let old = sealed.pin()?;
        let footer = self.read_footer(&*old)?;
        let packing =
            if matches!(before.source, SegmentFile::Packed(..)) { Packing::Packed } else { Packing::Plain };
        let mut output = Output::begin(env, before, packing)?;
        let rest = self.copy(&footer.slots, &mut output)?;
        let new = self.footer(&footer, rest);
        let segment = output.finish(&new, || self.erase_entries(&footer.slots, &*old))?;
        // Nobody needs what the journal may still hold of the file that was replaced.
        env.files.store_env.journal.forget_segments(env.shared.id, &[before.no]);
        if !self.erased.is_empty() {
            env.shared.blocks.forget(before);
        }
        let rest = self.erased_frames(&footer.slots);
        Ok(Compacted { segment: Arc::new(segment), slots: Arc::new(new.slots), rest })
    }

    fn read_footer(&self, file: &dyn File) -> Result<Footer, JobError> {
        let table = read_table(&self.segment)?;
        let changes = segment::read_changes(file, &table.trailer, &self.segment.context)
            .map_err(|damage| JobError::of(&self.segment, damage))?;
        Ok(Footer { summary: table.trailer.summary, changes, slots: table.slots })
    }

    /// Whether the manifest holds all effects of the segment.
    fn covering(&self) -> Option<&Manifest> {
        self.manifest.as_deref().filter(|manifest| self.segment.no <= manifest.covers)
    }

    /// Rows that stay, in order.
    fn kept(&self, slots: &Slots) -> Vec<usize> {
        let listed = self.covering().map(|manifest| {
            let entry = manifest.segments.iter().find(|entry| entry.no == self.segment.no);
            let (first, last) = entry.map_or((1, 0), |entry| (entry.first_seq, entry.last_seq));
            (first, last, &manifest.deleted)
        });
        let nothing = Ranges::new();
        let (first, last, deleted) = listed.unwrap_or((0, Seq::MAX, &nothing));
        let mut kept: Vec<usize> = live_rows(slots, first, last, deleted).collect();
        if myelin_stdx::planted::bug(6) {
            kept.pop();
        }
        kept
    }

    fn copy(&self, slots: &Slots, output: &mut Output) -> Result<LiveTable, JobError> {
        let kept = self.kept(slots);
        let mut kept = kept.into_iter().peekable();
        let mut rest = LiveTable { rows: LiveRows::default(), times: Times::NONE, expiries: Vec::new() };
        let is_covered = self.covering().is_some();
        entries::walk(&self.segment, &mut |scanned| {
            if let Entry::Control(control) = &scanned.entry {
                // What it did is in the manifest.
                return if is_covered { Ok(()) } else { output.control(control, scanned.timestamp) };
            }
            let row = kept.next_if(|row| u64::from(slots.offset(*row)) == scanned.offset);
            let Some(row) = row else { return Ok(()) };
            let offset = match &scanned.entry {
                Entry::Message(message) if !self.erased.contains(message.seq) => {
                    rest.expiries.extend(message.expires.map(|expires| (message.seq, expires)));
                    output.message(message)?
                }
                // It stays a row: a restart finds it in the state of before, and then its deletion
                // in the log.
                _ => output.erased(slots.seq(row), scanned.timestamp)?,
            };
            rest.rows.push(slots, row, offset);
            rest.times.add(scanned.timestamp);
            Ok(())
        })?;
        match kept.peek() {
            None => Ok(rest),
            Some(_) => Err(JobError::Damage(self.segment.no, Damage::Content("segment"))),
        }
    }

    fn footer(&self, old: &Footer, rest: LiveTable) -> Footer {
        let LiveTable { rows, times, expiries } = rest;
        let first_seq = self.segment.first_seq;
        let (first_timestamp, last_timestamp) = times.told();
        let summary = Totals {
            first_seq,
            last_seq: rows.deltas.last().map_or(first_seq - 1, |delta| first_seq + u64::from(*delta)),
            messages: rows.deltas.len() as u64,
            bytes: rows.sizes.iter().map(|size| u64::from(*size)).sum(),
            first_timestamp,
            last_timestamp,
        };
        let LiveRows { deltas, offsets, sizes, subjects } = rows;
        let dictionary = old.slots.dictionary();
        if self.covering().is_none() {
            let slots = Slots::assemble(first_seq, deltas, offsets, sizes, subjects, dictionary.texts());
            return Footer { summary, changes: old.changes.clone(), slots };
        }
        let (subjects, texts) = without_idle(subjects, dictionary);
        let slots = Slots::assemble(first_seq, deltas, offsets, sizes, subjects, &texts);
        let changes = Changes {
            totals: old.changes.totals,
            truncated_to: old.changes.truncated_to,
            subjects: local_subjects(&slots),
            deleted: Ranges::new(),
            expiries,
        };
        Footer { summary, changes, slots }
    }

    fn erased_rows<'a>(&'a self, slots: &'a Slots) -> impl Iterator<Item = u64> + 'a {
        let rows = (0..slots.len()).filter(|row| self.erased.contains(slots.seq(*row)));
        rows.map(|row| u64::from(slots.offset(row)))
    }

    /// Turns the erased entries of the old file into zeros while the file still has its name: a
    /// crash after this finds the deleted messages erased, and all others.
    fn erase_entries(&self, slots: &Slots, old: &dyn File) -> Result<(), JobError> {
        let SegmentFile::Plain(file) = &self.segment.source else { return Ok(()) };
        let mut any = false;
        for offset in self.erased_rows(slots) {
            any |= self.erase_entry(file, offset, old)?;
        }
        if any {
            old.sync()?;
        }
        Ok(())
    }

    fn erase_entry(&self, file: &SealedFile, offset: u64, old: &dyn File) -> Result<bool, JobError> {
        let mut head = [0; HEAD_BYTES];
        let read = old.read_at(&mut head, offset)?;
        let Some(head) = record::peek(&head[..read]) else { return Ok(false) };
        if offset + head.size() as u64 > file.records_end {
            return Ok(false);
        }
        let mut entry = vec![0; head.size()];
        if old.read_at(&mut entry, offset)? < entry.len()
            || record::erase(&mut entry, &self.segment.context).is_err()
        {
            return Ok(false);
        }
        old.write_at(&entry, offset)?;
        Ok(true)
    }

    /// Frames of the old file that hold erased messages. Others of their messages are read there
    /// until the new file is in the catalog, and by whoever has the old one: so they are
    /// overwritten by a job of their own, after that.
    fn erased_frames(&self, slots: &Slots) -> Option<Overwriting> {
        let SegmentFile::Packed(_, frames) = &self.segment.source else { return None };
        let found = self.erased_rows(slots).filter_map(|offset| frames.find(offset));
        let mut ranges: Vec<_> = found.map(|frame| frame.file()).collect();
        ranges.dedup();
        let (segment, messages) = (Arc::clone(&self.segment), self.erased.count());
        (!ranges.is_empty()).then_some(Overwriting { segment, ranges, messages })
    }
}

impl LiveRows {
    fn push(&mut self, slots: &Slots, row: usize, offset: u32) {
        self.deltas.push(slots.delta(row));
        self.offsets.push(offset);
        self.sizes.push(slots.size(row));
        self.subjects.push(slots.subject(row));
    }
}

/// Numbers of subjects as indices of only those texts that are used.
fn without_idle(mut subjects: Vec<u32>, dictionary: &Dictionary) -> (Vec<u32>, Texts) {
    const IDLE: u32 = u32::MAX;
    let mut numbers = vec![IDLE; dictionary.len()];
    let mut texts = Texts::new();
    for subject in &mut subjects {
        let number = &mut numbers[*subject as usize];
        if *number == IDLE {
            *number = texts.len() as u32;
            texts.push(dictionary.text(*subject));
        }
        *subject = *number;
    }
    (subjects, texts)
}

/// The subjects of a segment by its own messages. Nobody lays them over anything.
fn local_subjects(slots: &Slots) -> SubjectChanges {
    let mut subjects = SubjectChanges::new();
    for number in 0..slots.dictionary().len() as u32 {
        let local = slots.dictionary().local(number);
        subjects.push(SubjectChange {
            text: slots.dictionary().text(number),
            count: u64::from(local.count),
            first: slots.seq(local.first as usize),
            last: slots.seq(local.last as usize),
            first_exact: true,
            last_exact: true,
        });
    }
    subjects
}
