//! Sealing: a closed segment gets the footer that spares reading its entries, and is packed if its
//! stream compresses.
//!
//! Owns what a footer says of a segment that was closed here. All of it is as of the moment of
//! closing; the stream has gone on since, and later segments say how.
//!
//! An encrypted segment that was found on disk is written again, not added to: a footer would stand
//! where a torn batch stood, sealed with the same nonces, and the batch may still lie in the
//! journal or in quarantine. So is a packed one that has lost its footer: what can be read of it,
//! while the damaged file goes to quarantine.
//!
//! Perf: subjects' texts are copied out of the catalog a thousand at a time, so that an append
//! waits for some 20 us.

use std::io;
use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use myelin_disk::is_full;

use super::entries;
use super::output::{Output, Packing};
use super::{JobEnv, JobError};
use crate::damage::Damage;
use crate::index::SubjectId;
use crate::ranges::Ranges;
use crate::record::{Control, Entry, EntryBatch};
use crate::recovery::{QUARANTINE, place_aside};
use crate::segment::{Changes, Footer, Slots, SubjectChange, SubjectChanges, TRAILER_BYTES, Texts, Totals};
use crate::stream::{
    Active, Closed, Rows, SealedFile, Segment, SegmentFile, SegmentOrigin, Times, segment_name,
};
use crate::{Seq, Timestamp, WriteFailed};

/// Texts read under one lock of the catalog.
const SLICE: usize = 1000;

/// Bytes copied at once.
const PIECE: usize = 1 << 20;

/// A segment to be sealed.
#[derive(Debug)]
pub(crate) struct Sealing {
    pub(crate) closed: Closed,
    pub(crate) packing: Packing,
}

/// Care for a damaged file: what is to be made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Care {
    /// Nothing.
    Whole,
    /// A file with what can be read of it; the damaged one is kept in quarantine.
    Salvage,
}

/// A segment with its footer on disk.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) segment: Arc<Segment>,
    pub(crate) slots: Arc<Slots>,
    /// Subjects that it changed.
    pub(crate) subjects: u64,
    /// How far the file was synced as it was appended.
    pub(crate) appended: u64,
}

/// Changes while the segment was active, with the numbers that its subjects have there.
struct NumberedChanges {
    changes: Changes,
    numbers: HashMap<SubjectId, u32, foldhash::fast::RandomState>,
}

impl Sealing {
    pub(super) fn run(&self, env: &JobEnv) -> Result<Sealed, JobError> {
        let names = self.names(env);
        if self.has_lost_footer() {
            let sealed = self.rewrite(env, &names, Care::Salvage);
            if sealed.is_err() {
                Output::abandon(env, &self.closed.active.segment);
            }
            return sealed;
        }
        if self.packing == Packing::Plain && self.may_be_added_to() {
            return self.seal_in_place(env, &names);
        }
        let mut sealed = self.rewrite(env, &names, Care::Whole);
        let is_full = matches!(&sealed, Err(JobError::Io(error)) if is_full(error));
        if is_full && self.may_be_added_to() {
            // A footer takes less than a copy, and what was allocated ahead is given back.
            Output::abandon(env, &self.closed.active.segment);
            return self.seal_in_place(env, &names);
        }
        if matches!(sealed, Err(JobError::Damage(..))) {
            if self.may_be_added_to() {
                // What cannot be read now stays where it is: as it is, it can still be looked at.
                Output::abandon(env, &self.closed.active.segment);
                return self.seal_in_place(env, &names);
            }
            sealed = self.rewrite(env, &names, Care::Salvage);
        }
        if sealed.is_err() {
            Output::abandon(env, &self.closed.active.segment);
        }
        sealed
    }

    /// Whether the segment was sealed before: a packed one, of which recovery has read what it
    /// could.
    fn has_lost_footer(&self) -> bool {
        self.closed.active.segment.is_sealed()
    }

    /// Whether nothing was ever encrypted for a place behind the entries.
    fn may_be_added_to(&self) -> bool {
        let Closed { active, origin, .. } = &self.closed;
        active.segment.context.cipher.is_none() || *origin == SegmentOrigin::Written
    }

    /// After a failure the journal must keep what it holds of the file: another sync would save
    /// nothing.
    fn sync_entries(&self) -> Result<(), JobError> {
        let file = &self.closed.active.file;
        file.file().sync().map_err(|error| {
            file.lose(&WriteFailed::new(file.path(), &error));
            JobError::Lost(error)
        })
    }

    /// Three syncs, so that at no moment a loss of power leaves what could be taken for something
    /// else: first the entries with a mark behind them that says that no more follow, then the
    /// sections, then the trailer that makes them count.
    fn seal_in_place(&self, env: &JobEnv, names: &NumberedChanges) -> Result<Sealed, JobError> {
        let Closed { active, rows, .. } = &self.closed;
        let file = &active.file;
        file.flush().map_err(io::Error::from)?;
        let mark = self.mark();
        let end = file.end() + mark.len() as u64;
        let footer = self.footer(names, rows, self.closed.times);
        let bytes = footer.encode(end, &active.segment.context);
        let length = end + bytes.len() as u64;
        let (sections, trailer) = bytes.split_at(bytes.len() - TRAILER_BYTES);
        let raw = file.file();
        if file.durable() < file.end() {
            // The mark says so, and may be found without what it speaks of.
            self.sync_entries()?;
        }
        self.write(env, &mark, file.end())?;
        self.sync_entries()?;
        env.files.store_env.disk.sync_directory(&env.files.directory)?;
        self.write(env, sections, end)?;
        if let Err(error) = raw.set_len(length) {
            let _ = raw.set_len(file.end());
            return Err(error.into());
        }
        raw.sync().map_err(JobError::Lost)?;
        self.write(env, trailer, length - TRAILER_BYTES as u64)?;
        let patchings = file.patchings();
        raw.sync().map_err(JobError::Lost)?;
        file.mark_synced(patchings);
        let sealed = SealedFile::new(file.path(), &env.files.store_env.handles, end, length);
        let before = &*active.segment;
        let segment = Segment {
            stream: before.stream,
            no: before.no,
            generation: before.generation,
            first_seq: before.first_seq,
            context: before.context.clone(),
            source: SegmentFile::Plain(sealed),
            header: OnceLock::new(),
        };
        Ok(self.sealed(segment, footer))
    }

    /// The mark that ends the entries: that all before it was synced, in a batch of its own, which
    /// nothing else writes. Recovery knows by it that what follows is a footer that was not
    /// finished. It says the same at each attempt.
    fn mark(&self) -> Vec<u8> {
        let active = &self.closed.active;
        let (segment, offset) = (active.segment.no, active.file.end());
        let mut mark = Vec::new();
        let mut batch = EntryBatch::begin(&mut mark, offset, &active.segment.context);
        batch.control(&Control::Durable { segment, offset }, self.closed.totals.last_timestamp);
        batch.finish();
        mark
    }

    fn write(&self, env: &JobEnv, bytes: &[u8], offset: u64) -> Result<(), JobError> {
        env.check()?;
        let file = &self.closed.active.file;
        file.file().write_at(bytes, offset).map_err(|error| {
            // What was written of it is nothing yet.
            let _ = file.file().set_len(file.end());
            JobError::Io(error)
        })
    }

    /// The stream goes on with the sealed segment: lets go of the file that was appended to if that
    /// is another one.
    pub(crate) fn leave(&self, sealed: &Segment) {
        let Active { segment, file } = &self.closed.active;
        if segment.generation != sealed.generation {
            file.replace();
        }
    }

    /// The new file has all entries and syncs itself: the one that was appended to need not become
    /// durable.
    fn rewrite(&self, env: &JobEnv, names: &NumberedChanges, care: Care) -> Result<Sealed, JobError> {
        let before = &*self.closed.active.segment;
        let mut output = Output::begin(env, before, self.packing)?;
        let (rows, mut kept) = (&*self.closed.rows, Rows::default());
        let (mut row, mut times) = (0, Times::NONE);
        let walk = match care {
            Care::Whole => entries::walk,
            Care::Salvage => entries::walk_sound,
        };
        walk(before, &mut |scanned| {
            if let Entry::Control(control) = &scanned.entry {
                return output.control(control, scanned.timestamp);
            }
            if care == Care::Salvage {
                let lost = |offset: &&u32| u64::from(**offset) < scanned.offset;
                row += rows.offsets[row..].iter().take_while(lost).count();
            }
            // Without a row: from before a purge of everything.
            if rows.offsets.get(row).is_none_or(|offset| u64::from(*offset) != scanned.offset) {
                return Ok(());
            }
            let offset = match &scanned.entry {
                Entry::Message(message) => output.message(message)?,
                Entry::Erased { seq } => output.erased(*seq, scanned.timestamp)?,
                Entry::Control(control) => return output.control(control, scanned.timestamp),
            };
            kept.push(rows.delta(row), offset, rows.sizes[row], rows.subjects[row]);
            times.add(scanned.timestamp);
            row += 1;
            Ok(())
        })?;
        if row < rows.len() && care == Care::Whole {
            return Err(JobError::Damage(before.no, Damage::Content("segment")));
        }
        let footer = self.footer(names, &kept, times);
        let segment = output.finish(&footer, || match care {
            Care::Whole => Ok(()),
            Care::Salvage => self.keep_damaged(env),
        })?;
        Ok(self.sealed(segment, footer))
    }

    /// Copies the file to quarantine, as it is: the one that replaces it has less.
    fn keep_damaged(&self, env: &JobEnv) -> Result<(), JobError> {
        let active = &self.closed.active;
        let disk = &*env.files.store_env.disk;
        let root = env.files.directory.ancestors().nth(2).unwrap_or(&env.files.directory);
        let stream = format!("{:016x}", active.segment.stream.0);
        let name = format!("{}.damaged", segment_name(active.segment.no));
        let path = place_aside(disk, root, &stream, &name)?;
        let copied = disk.create(&path).and_then(|copy| {
            let (mut at, mut piece) = (0, vec![0; PIECE]);
            while at < active.file.end() {
                let wanted = PIECE.min((active.file.end() - at) as usize);
                let read = active.file.read_at(&mut piece[..wanted], at)?;
                if read == 0 {
                    break;
                }
                copy.write_at(&piece[..read], at)?;
                at += read as u64;
            }
            copy.sync()?;
            disk.sync_directory(&root.join(QUARANTINE))
        });
        copied.map_err(|error| {
            let _ = disk.remove_file(&path);
            JobError::Io(error)
        })
    }

    fn sealed(&self, segment: Segment, footer: Footer) -> Sealed {
        Sealed {
            segment: Arc::new(segment),
            slots: Arc::new(footer.slots),
            subjects: footer.changes.subjects.len() as u64,
            appended: self.closed.active.file.end(),
        }
    }

    fn footer(&self, names: &NumberedChanges, rows: &Rows, times: Times) -> Footer {
        let first_seq = self.closed.active.segment.first_seq;
        let (first_timestamp, last_timestamp) = times.told();
        let summary = Totals {
            // What the table's deltas are relative to.
            first_seq,
            last_seq: rows.last_delta().map_or(first_seq - 1, |delta| first_seq + u64::from(delta)),
            messages: rows.len() as u64,
            bytes: rows.sizes.iter().map(|size| u64::from(*size)).sum(),
            first_timestamp,
            last_timestamp,
        };
        Footer { summary, changes: names.changes.clone(), slots: names.slots(first_seq, rows) }
    }

    fn names(&self, env: &JobEnv) -> NumberedChanges {
        let closed = &self.closed;
        let mut texts = Texts::new();
        for slice in closed.touched.chunks(SLICE) {
            let catalog = env.shared.catalog();
            let index = catalog.index_at(closed.index_epoch);
            slice.iter().for_each(|(id, _)| texts.push(index.text(*id)));
        }
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_unstable_by(|a, b| texts.get(*a).cmp(texts.get(*b)));
        let mut subjects = SubjectChanges::new();
        let mut numbers = HashMap::with_capacity_and_hasher(order.len(), Default::default());
        for (number, at) in (0u32..).zip(order) {
            let (id, state) = closed.touched[at];
            numbers.insert(id, number);
            subjects.push(SubjectChange {
                text: texts.get(at),
                count: state.count,
                first: state.first,
                last: state.last,
                first_exact: state.first_exact,
                last_exact: state.last_exact,
            });
        }
        NumberedChanges { changes: self.changes(subjects), numbers }
    }

    fn changes(&self, subjects: SubjectChanges) -> Changes {
        let Closed { totals, deleted, expiries, active, .. } = &self.closed;
        let there = totals.first_seq..=totals.last_seq;
        let deleted = Ranges::from_ranges(deleted.iter().cloned()).within(there.clone());
        let is_there = |(seq, _): &&(Seq, Timestamp)| there.contains(seq) && !deleted.contains(*seq);
        let expiries = expiries.iter().filter(is_there).copied().collect();
        // True of every segment: sequences of older ones end before its own begin, or were cut off,
        // also by a truncation that ends this one.
        let truncated_to = Some((active.segment.first_seq - 1).min(totals.last_seq));
        Changes { totals: *totals, truncated_to, subjects, deleted, expiries }
    }
}

impl NumberedChanges {
    fn slots(&self, first_seq: Seq, rows: &Rows) -> Slots {
        let number = |id: &SubjectId| *self.numbers.get(id).expect("a message touches its subject");
        let subjects = rows.subjects.iter().map(number).collect();
        let texts = self.changes.subjects.texts();
        let Rows { offsets, sizes, .. } = rows;
        Slots::assemble(first_seq, rows.all_deltas(), offsets.clone(), sizes.clone(), subjects, texts)
    }
}
