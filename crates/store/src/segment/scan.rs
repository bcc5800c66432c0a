//! Reading a segment entry by entry, which is what recovery does with the one that was not sealed.
//!
//! Owns the judgement of what is behind an invalid place. Bytes that were proven to be synced are
//! damaged: they are reported and passed over, and everything else is still read. Bytes without
//! proof are the tail of a write that did not survive: the scan ends before their batch, and tells
//! where valid entries follow. Changes nothing.
//!
//! Perf: one checksum per entry over a buffer of 1 MiB, no copy, no allocation. Measured by
//! `scan_speed`.

use std::ops::Range;

use myelin_disk::File;

use super::SegmentHeader;
use super::resync::{Probe, probe};
use super::window::ScanWindow;
use crate::damage::Damage;
use crate::record::{self, Control, Decoded, Entry, FileContext, HEAD_BYTES};
use crate::{Seq, Timestamp};

/// Extent of a file that a scan looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where a batch begins: behind the header, or where an earlier scan ended cleanly.
    pub from: u64,
    /// Where the file ends, or its entries do.
    pub to: u64,
    /// Everything before this offset is known to have been synced: 0 if nothing is known, `to` in a
    /// sealed segment. `Durable` entries that the scan meets say it, too.
    pub durable: u64,
}

/// An entry where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned<'a> {
    /// Its file offset.
    pub offset: u64,
    /// Bytes it takes.
    pub size: usize,
    /// When it was written.
    pub timestamp: Timestamp,
    /// Content of the entry.
    pub entry: Entry<'a>,
}

/// Bytes that were written and synced, and are no longer what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Where in the file.
    pub bytes: Range<u64>,
    /// Messages that were in it have this sequence or a later one.
    pub first_seq: Seq,
    /// Messages that were in it have this sequence or an earlier one; less than `first_seq` if no
    /// message can have been in it. `None`: nothing that follows says it.
    pub last_seq: Option<Seq>,
}

/// Where a scan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanEnd {
    /// At the end of the last batch: zeros follow, or nothing.
    Clean {
        /// Where the next batch goes.
        end: u64,
    },
    /// Before a batch of which a part is missing and which nothing proves to have been synced.
    Torn {
        /// Where that batch begins, and the file is to be cut.
        at: u64,
        /// Valid entries behind the invalid place, in runs. They are worth keeping aside.
        valid_after: Vec<Range<u64>>,
    },
}

impl ScanEnd {
    /// Where the next batch goes.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        match self {
            Self::Clean { end } => *end,
            Self::Torn { at, .. } => *at,
        }
    }
}

/// Result of a scan, besides entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Where it ended.
    pub end: ScanEnd,
    /// Damaged places, in order.
    pub damaged: Vec<Damaged>,
}

/// Reads the entries of a file in order and gives them to `visit`, batch by batch: nothing of a
/// batch that is not whole, unless its bytes are damaged and were synced. The file is not a packed
/// one.
///
/// Bytes that the device cannot read are damaged if all of the extent is known to be synced.
/// Otherwise they are an error: behind a wrong guess about the end, a file would be cut.
///
/// # Errors
/// `Io`, or `Locked` if the file is encrypted and `context` has no key. Damaged bytes are no error
/// but a report.
pub fn scan(
    file: &dyn File,
    header: &SegmentHeader,
    context: &FileContext,
    extent: Extent,
    visit: &mut dyn FnMut(Scanned<'_>),
) -> Result<Scan, Damage> {
    if header.encryption.is_some() && context.cipher.is_none() {
        return Err(Damage::Locked("segment"));
    }
    let to = extent.to.min(file.len()?);
    let mut scanner = Scanner {
        window: ScanWindow::new(file, to, extent.durable >= to),
        header,
        context,
        durable: extent.durable.min(to),
        probed: None,
        next_seq: header.first_seq,
        damaged: Vec::new(),
        undated: 0,
        visit,
    };
    let end = scanner.run(extent.from)?;
    if extent.durable > to {
        // The file has lost its end.
        let (bytes, first_seq) = (to..extent.durable, scanner.next_seq);
        scanner.report(Damaged { bytes, first_seq, last_seq: None });
    }
    Ok(Scan { end, damaged: scanner.damaged })
}

struct Scanner<'a> {
    window: ScanWindow<'a>,
    header: &'a SegmentHeader,
    context: &'a FileContext,
    /// Everything before it was synced.
    durable: u64,
    /// Probe behind the first invalid place without proof: made once.
    probed: Option<Probe>,
    /// Where the sequences go on.
    next_seq: Seq,
    damaged: Vec<Damaged>,
    /// The first of `damaged` whose last sequence is not known yet.
    undated: usize,
    visit: &'a mut dyn FnMut(Scanned<'_>),
}

/// How a batch ends.
enum Reach {
    /// With an entry that says so; the next batch begins here.
    Whole(u64),
    /// At a place where no entry begins.
    Broken(u64),
}

impl Scanner<'_> {
    fn run(&mut self, from: u64) -> Result<ScanEnd, Damage> {
        let mut at = from;
        loop {
            match self.reach(at)? {
                Reach::Whole(end) => {
                    self.deliver(at, end)?;
                    at = end;
                }
                Reach::Broken(place) => {
                    if place >= self.durable && self.window.is_zero_from(place)? {
                        return self.run_out(at, place);
                    }
                    match self.pass_over(at, place)? {
                        Ok(next) => at = next,
                        Err(end) => return Ok(end),
                    }
                }
            }
        }
    }

    /// Checks the entries of the batch at `at`.
    fn reach(&mut self, at: u64) -> Result<Reach, Damage> {
        let mut place = at;
        loop {
            let Some(head) = self.window.entry(at, place, self.context)? else {
                return Ok(Reach::Broken(place));
            };
            place += head.size() as u64;
            if !head.continues() || myelin_stdx::planted::bug(2) {
                return Ok(Reach::Whole(place));
            }
        }
    }

    /// Gives the entries between two places to the visitor. All of them have been checked. They are
    /// decrypted where they are in the window, so nothing may look at them afterwards.
    fn deliver(&mut self, from: u64, to: u64) -> Result<(), Damage> {
        let mut place = from;
        while place < to {
            let bytes = self.window.bytes(place, place, HEAD_BYTES)?;
            let Some(head) = record::peek(bytes) else { break };
            let bytes = &mut self.window.bytes(place, place, head.size())?[..head.size()];
            let opened = record::open(bytes, place, &head, self.context);
            let next = place + head.size() as u64;
            match opened.and_then(|()| record::assemble(bytes, head, self.context)) {
                Ok(decoded) => {
                    let last = follow(&decoded.entry, &mut self.next_seq);
                    date(&mut self.damaged, &mut self.undated, last);
                    let Decoded { size, timestamp, entry, .. } = decoded;
                    (self.visit)(Scanned { offset: place, size, timestamp, entry });
                }
                Err(_) => {
                    let seq = if head.kind == record::EntryKind::Message { Some(head.seq) } else { None };
                    let (first_seq, last_seq) = (seq.unwrap_or(self.next_seq), seq.or(Some(0)));
                    self.report(Damaged { bytes: place..next, first_seq, last_seq });
                }
            }
            place = next;
        }
        Ok(())
    }

    /// Only zeros from `place` on: the usual end, unless it cuts a batch.
    fn run_out(&mut self, at: u64, place: u64) -> Result<ScanEnd, Damage> {
        if at == place {
            return Ok(ScanEnd::Clean { end: at });
        }
        if at < self.durable {
            self.deliver(at, place)?;
            return Ok(ScanEnd::Clean { end: place });
        }
        Ok(ScanEnd::Torn { at, valid_after: Vec::new() })
    }

    /// Decides about the invalid `place` in the batch at `at`: where to go on, or that it is the
    /// end.
    fn pass_over(&mut self, at: u64, place: u64) -> Result<Result<u64, ScanEnd>, Damage> {
        if place >= self.durable && self.probed.is_none() {
            let probe = probe(&mut self.window, self.header, self.context, place)?;
            self.durable = self.durable.max(probe.durable.min(self.window.end()));
            self.probed = Some(probe);
        }
        if at < self.durable {
            self.deliver(at, place)?;
        }
        if place >= self.durable {
            let runs = self.probed.as_ref().map_or(&[][..], |probe| &probe.runs);
            let valid_after = runs.iter().filter(|run| run.start > place).cloned().collect();
            let at = if at < self.durable { place } else { at };
            return Ok(Err(ScanEnd::Torn { at, valid_after }));
        }
        let found = self.window.next_entry(place + 1, self.context)?;
        let next = found.map_or(self.durable, |found| found.min(self.durable));
        self.report(Damaged { bytes: place..next, first_seq: self.next_seq, last_seq: None });
        Ok(Ok(next))
    }

    fn report(&mut self, damaged: Damaged) {
        self.damaged.push(damaged);
    }
}

/// Moves `next_seq` behind an entry; answers the last sequence that a hole before the entry can
/// have held.
fn follow(entry: &Entry<'_>, next_seq: &mut Seq) -> Option<Seq> {
    match entry {
        Entry::Message(record::Message { seq, .. }) | Entry::Erased { seq } => {
            *next_seq = seq.saturating_add(1);
            Some(seq.saturating_sub(1))
        }
        Entry::Control(Control::Skip { last }) => {
            *next_seq = (*next_seq).max(last.saturating_add(1));
            Some(*last)
        }
        Entry::Control(Control::Trim { first }) => {
            *next_seq = (*next_seq).max(*first);
            None
        }
        // What it cut off may have been in the hole: its sequences are given out again.
        Entry::Control(Control::Truncate { last }) => {
            *next_seq = last.saturating_add(1);
            None
        }
        Entry::Control(_) => None,
    }
}

/// Tells the holes that are still open where they end at the latest.
fn date(damaged: &mut [Damaged], undated: &mut usize, last: Option<Seq>) {
    if *undated == damaged.len() {
        return;
    }
    let Some(last) = last else { return };
    for hole in &mut damaged[*undated..] {
        hole.last_seq.get_or_insert(last);
    }
    *undated = damaged.len();
}
