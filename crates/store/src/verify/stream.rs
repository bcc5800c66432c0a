//! One stream: its names, its key, which files are there, and the order in which they are looked
//! at.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_disk::File;

use crate::damage::Damage;
use crate::keys::{KeyError, StreamKey};
use crate::manifest::{COPIES, Manifest};
use crate::meta::META_COPIES;
use crate::notes::{NOTES_FILE, Notes};
use crate::record::FileContext;
use crate::recovery::{LOST_COPIES, base_name, base_number};
use crate::segment::SegmentHeader;
use crate::stream::{segment_name, segment_number};
use crate::{SegmentNo, StreamId};

use super::apply::{Counting, SegmentRole};
use super::finding::StreamName;
use super::root::{Looking, UNFINISHED};
use super::{
    Finding, MOST_MESSAGES, Reporter, Severity, base, consumers, manifests, metas, recovered, segment,
};

/// A stream that is being checked.
pub(super) struct Checking<'a, 'r> {
    pub(super) looking: &'a Looking<'a>,
    reporter: &'a mut Reporter<'r>,
    name: StreamName,
    pub(super) directory: &'a Path,
    pub(super) key: Option<StreamKey>,
    /// Whether it is encrypted and there is no key that opens it.
    pub(super) is_locked: bool,
    /// Findings that are more than notes.
    pub(super) faults: u64,
}

/// Files of the directory.
#[derive(Debug, Default)]
pub(super) struct DirectoryFiles {
    pub(super) segments: Vec<SegmentNo>,
    pub(super) bases: Vec<SegmentNo>,
    pub(super) logs: Vec<u64>,
    /// Whether there is a copy of what earlier starts have told as lost.
    has_losses: bool,
}

/// Checks the stream in `directory`.
pub(super) fn check(looking: &Looking<'_>, id: StreamId, directory: &Path, reporter: &mut Reporter<'_>) {
    reporter.summary.streams += 1;
    let name = StreamName { id, account: String::new(), name: String::new() };
    let mut checking =
        Checking { looking, reporter, name, directory, key: None, is_locked: false, faults: 0 };
    checking.meta();
    match checking.list() {
        Ok(found) => checking.files(&found),
        Err(error) => checking.unreadable(directory.to_owned(), &error.into()),
    }
}

impl Checking<'_, '_> {
    pub(super) fn id(&self) -> StreamId {
        self.name.id
    }

    /// Names the stream for findings.
    pub(super) fn call(&mut self, meta: &crate::meta::Meta) {
        (self.name.account, self.name.name) = (meta.account.clone(), meta.name.clone());
    }

    pub(super) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn emit(&mut self, finding: Finding) {
        self.faults += u64::from(finding.severity != Severity::Note);
        self.reporter.emit(Finding { stream: Some(self.name.clone()), ..finding });
    }

    pub(super) fn unreadable(&mut self, path: PathBuf, damage: &Damage) {
        self.emit(Finding::damage(
            path,
            damage.to_string(),
            "It cannot be read; what it holds is not known.",
        ));
    }

    pub(super) fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.looking.disk.open_read_only(&self.path(name))
    }

    /// All bytes of a small file.
    pub(super) fn read_whole(&self, name: &str) -> Result<Vec<u8>, Damage> {
        let file = self.open(name)?;
        let length = usize::try_from(file.len()?).map_err(|_| Damage::Content("file"))?;
        let mut bytes = vec![0; length];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Context that opens the entries of a segment: without its key, only what checks them.
    pub(super) fn context(&self, header: &SegmentHeader) -> FileContext {
        let cipher = header.encryption.zip(self.key.as_ref());
        header.context(
            cipher.map(|(kind, key)| key.file_cipher(kind, "segment", header.segment.0, &header.salt)),
        )
    }

    fn meta(&mut self) {
        if let Some(meta) = metas::check(self)
            && !meta.sealed_keys.is_empty()
        {
            self.open_key(&meta.sealed_keys);
        }
    }

    fn open_key(&mut self, sealed: &[u8]) {
        let path = self.path(META_COPIES[0]);
        let meaning = "Its structure was checked, its content could not be.";
        let opened = self.looking.keys.map(|keys| StreamKey::open(sealed, self.id(), keys));
        self.is_locked = !matches!(opened, Some(Ok(_)));
        self.reporter.summary.locked += u64::from(self.is_locked);
        match opened {
            Some(Ok((key, _))) => self.key = Some(key),
            None => self.emit(Finding::note(path, "the stream is encrypted, and no key was given", meaning)),
            Some(Err(error @ KeyError::Damaged { .. })) => {
                self.emit(Finding::damage(
                    path,
                    error.to_string(),
                    "The stream's messages cannot be decrypted.",
                ));
            }
            Some(Err(error)) => self.emit(Finding::suspicious(path, error.to_string(), meaning)),
        }
    }

    fn list(&mut self) -> io::Result<DirectoryFiles> {
        let mut found = DirectoryFiles::default();
        for entry in self.looking.disk.list(self.directory)? {
            let (name, path) = (entry.name.as_str(), self.path(&entry.name));
            if let Some(no) = segment_number(name) {
                found.segments.push(no);
            } else if let Some(no) = base_number(name) {
                found.bases.push(no);
            } else if let crate::consumer::LogFileName::Log(number) = crate::consumer::read_name(name) {
                found.logs.push(number);
            } else if name == NOTES_FILE {
                if let Err(damage) = Notes::read(&*self.looking.disk, self.directory) {
                    let meaning = "The stream cannot be opened: take it from another replica of its group.";
                    self.emit(Finding::damage(path, damage.to_string(), meaning));
                }
            } else if LOST_COPIES.contains(&name) {
                found.has_losses = true;
            } else if name.ends_with(".tmp") && !entry.is_directory {
                self.emit(Finding::note(path, "it was not finished", UNFINISHED));
            } else if !META_COPIES.contains(&name) && !COPIES.contains(&name) {
                let meaning = "The next start moves it to quarantine.";
                self.emit(Finding::suspicious(path, "it is not a file of a stream", meaning));
            }
        }
        found.segments.sort_unstable();
        Ok(found)
    }

    fn files(&mut self, found: &DirectoryFiles) {
        let manifest = manifests::check(self);
        let covers = manifest.as_ref().ok().and_then(Option::as_ref).map_or(SegmentNo(0), |one| one.covers);
        let known = manifest.as_ref().ok().and_then(Option::as_ref);
        let mut counting = Counting::new(1);
        if manifest.is_err() || self.is_locked {
            counting.distrust();
        }
        self.missing(found, known);
        self.segments(found, known, covers, &mut counting);
        consumers::check(self, &found.logs);
        if found.has_losses {
            recovered::check_losses(self);
        }
        if counting.is_too_large {
            let what = format!("it has more than {MOST_MESSAGES} messages");
            let meaning = "Each file was checked; whether they agree with each other was not.";
            self.emit(Finding::note(self.directory, what, meaning));
        }
        if counting.is_trusted {
            self.reporter.summary.messages += counting.state.messages;
        }
        recovered::check(self, &counting);
    }

    /// Segments and bases that should be there, and those that need not.
    fn missing(&mut self, found: &DirectoryFiles, manifest: Option<&Manifest>) {
        let Some(manifest) = manifest else {
            return found.bases.iter().for_each(|no| self.obsolete(base_name(*no)));
        };
        for entry in &manifest.segments {
            if found.segments.binary_search(&entry.no).is_err() {
                let meaning = "The messages in it are lost unless the file can be restored from a backup.";
                let finding =
                    Finding::damage(self.path(segment_name(entry.no)), "the segment is missing", meaning);
                self.emit(finding.messages(entry.first_seq, entry.last_seq));
            }
        }
        let is_listed = |no: SegmentNo| manifest.segments.iter().any(|entry| entry.no == no);
        for &no in found.segments.iter().filter(|no| **no <= manifest.covers && !is_listed(**no)) {
            self.obsolete(segment_name(no));
        }
        let base = manifest.base.map(|base| base.number);
        for &no in found.bases.iter().filter(|no| Some(**no) != base) {
            self.obsolete(base_name(no));
        }
        if !found.segments.iter().any(|no| *no > manifest.covers) {
            let no = SegmentNo(manifest.covers.0 + 1);
            let meaning = "Messages that were written last may be lost unless the file can be restored.";
            self.emit(Finding::suspicious(
                self.path(segment_name(no)),
                "the newest segment is missing",
                meaning,
            ));
        }
    }

    fn obsolete(&mut self, name: String) {
        let meaning = "A crash came before it was removed; the next start removes it.";
        self.emit(Finding::note(self.path(name), "no manifest needs it any more", meaning));
    }

    fn segments(
        &mut self,
        found: &DirectoryFiles,
        manifest: Option<&Manifest>,
        covers: SegmentNo,
        counting: &mut Counting,
    ) {
        let is_whole = covers.0 == 0 || self.has_whole_log(found, covers);
        let first = found.segments.first().and_then(|no| self.header(*no));
        if let Some(first) = first.filter(|_| is_whole) {
            counting.state = super::state::CountedStream::new(first.first_seq);
        }
        let mut at_covers = (covers.0 > 0).then_some(manifest).flatten();
        let mut next_seq = None;
        let mut next_no = covers.0 + 1;
        let taken_back = self.taken_back(&found.segments);
        for (at, &no) in found.segments.iter().enumerate() {
            if no > covers {
                if let Some(manifest) = at_covers.take() {
                    next_seq = self.covered(manifest, is_whole, counting);
                }
                if no.0 != next_no {
                    counting.distrust();
                    self.gap(no, next_no, next_seq);
                    next_seq = None;
                }
                next_no = no.0 + 1;
            }
            let listed = manifest.and_then(|one| one.segments.iter().find(|entry| entry.no == no));
            let role = match (no > covers || is_whole, manifest.zip(listed)) {
                (true, _) => SegmentRole::Replayed,
                (false, Some((manifest, entry))) => SegmentRole::Visible(manifest, entry),
                (false, None) => SegmentRole::Ignored,
            };
            self.reporter.summary.segments += 1;
            let before = at.checked_sub(1).map(|at| found.segments[at]);
            let place = segment::SegmentPosition {
                no,
                listed,
                role,
                before,
                behind: &found.segments[at + 1..],
                next_seq,
                taken_back: taken_back.get(at).copied().unwrap_or(u64::MAX),
            };
            next_seq = segment::check(self, &place, counting);
        }
        if let Some(manifest) = at_covers {
            self.covered(manifest, is_whole, counting);
        }
    }

    /// Of each segment the first index of the group's log that was taken back behind it, or at its
    /// end: as an entry says, or a later segment that gives it out again. Nothing in a stream
    /// without a group.
    fn taken_back(&self, segments: &[SegmentNo]) -> Vec<u64> {
        let first_index = |no: &SegmentNo| Some(self.header(*no)?.group?.first_index);
        if segments.last().and_then(first_index).is_none() {
            return Vec::new();
        }
        let mut least = u64::MAX;
        let behind = segments.iter().rev().map(|no| {
            let behind = least.min(segment::taken_back_in(self, *no));
            least = behind.min(first_index(no).unwrap_or(u64::MAX));
            behind
        });
        let mut taken_back: Vec<u64> = behind.collect();
        taken_back.reverse();
        taken_back
    }

    /// Everything up to the manifest has been walked. The sequence that comes next.
    fn covered(
        &mut self,
        manifest: &Manifest,
        is_whole: bool,
        counting: &mut Counting,
    ) -> Option<crate::Seq> {
        // One that was lost and has come back is counted in no index so far.
        let missing =
            |entry: &crate::manifest::SegmentEntry| !entry.sealed || self.header(entry.no).is_none();
        if manifest.segments.iter().any(missing) {
            counting.distrust();
        }
        if !is_whole {
            counting.state.set_ends(manifest.totals.first_seq, manifest.totals.last_seq);
        }
        base::check(self, manifest, counting);
        Some(manifest.totals.last_seq + 1)
    }

    /// Whether all entries that were ever written up to `covers` are still there.
    fn has_whole_log(&self, found: &DirectoryFiles, covers: SegmentNo) -> bool {
        let numbers = found.segments.iter().take_while(|no| **no <= covers);
        let is_original = |no: SegmentNo| {
            self.header(no).is_some_and(|header| header.generation == 0 && header.through == no)
        };
        numbers.clone().map(|no| no.0).eq(1..=covers.0) && numbers.copied().all(is_original)
    }

    pub(super) fn header(&self, no: SegmentNo) -> Option<SegmentHeader> {
        SegmentHeader::read(&*self.open(&segment_name(no)).ok()?).ok()
    }

    /// The sequences of a segment that cannot be read, as far as what is around it tells.
    pub(super) fn hidden(
        &self,
        no: SegmentNo,
        next_seq: Option<crate::Seq>,
        behind: &[SegmentNo],
    ) -> Option<(crate::Seq, crate::Seq)> {
        let first = next_seq.or((no.0 == 1).then_some(1))?;
        let next = behind.iter().find_map(|no| self.header(*no));
        let last = match next {
            Some(header) => header.first_seq.saturating_sub(1),
            None => self.looking.statement(self.id()).last_seq,
        };
        (first <= last).then_some((first, last))
    }

    fn gap(&mut self, no: SegmentNo, expected: u64, next_seq: Option<crate::Seq>) {
        let path = self.path(segment_name(SegmentNo(expected)));
        let begins = self.header(no).map(|header| header.first_seq);
        let next_seq = next_seq.or((expected == 1).then_some(1));
        let what = format!("segments {expected} to {} are missing", no.0.saturating_sub(1));
        if begins.is_some() && begins == next_seq {
            let meaning =
                "The messages around it follow each other: it can have held deletions only, or nothing.";
            return self.emit(Finding::suspicious(path, what, meaning));
        }
        let meaning = "The messages in it are lost unless the file can be restored from a backup.";
        let finding = Finding::damage(path, what, meaning);
        self.emit(match (next_seq, begins) {
            (Some(first), Some(begins)) => finding.messages(first, begins.saturating_sub(1)),
            _ => finding,
        });
    }
}
