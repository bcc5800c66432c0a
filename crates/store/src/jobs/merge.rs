//! Merging: the effects of sealed segments go into a new base and a new manifest, which makes a
//! restart short and gives the files of retired segments free.
//!
//! Owns the order that lets a crash come at any time: the base is a new file under a new name,
//! durable before the manifest that counts on it; the manifest replaces the old one copy by copy;
//! and only what neither copy lists any more is doomed, to be removed by a job of its own
//! ([`super::Removal`]).

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::state::{Newer, Visible, live_rows, read_footer, read_table};
use super::{JobEnv, JobError, entries};
use crate::base::{self, BaseReader, BaseWriter};
use crate::damage::Damage;
use crate::manifest::{BaseFile, Manifest, SegmentEntry};
use crate::record::FileContext;
use crate::recovery::base_name;
use crate::segment::{self, Changes, SubjectChange};
use crate::stream::Segment;
use crate::{SegmentNo, Seq, StreamId, Timestamp};

/// Segments that are to be merged.
#[derive(Debug)]
pub(crate) struct Merging {
    pub(crate) stream: StreamId,
    /// The manifest on disk.
    pub(crate) old: Option<Arc<Manifest>>,
    /// All sealed segments up to the last one to be covered, in order: those that the manifest
    /// lists, and those behind it. What is missing among them could not be read when the stream was
    /// opened.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Whether to look at every segment for what is worth compacting, not only at those that have
    /// changed.
    pub(crate) survey: bool,
}

/// A manifest that is on disk.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) manifest: Arc<Manifest>,
    /// Segments whose files no manifest lists any more.
    pub(crate) retired: Vec<SegmentNo>,
    /// A base that no manifest names any more.
    pub(crate) old_base: Option<PathBuf>,
    /// Listed segments of which less than half is left.
    pub(crate) sparse: Vec<SegmentNo>,
}

impl Merging {
    pub(super) fn run(&self, env: &JobEnv) -> Result<Merged, JobError> {
        let newer = self.read_newer()?;
        let visible = Visible::after(self.old.as_deref(), &newer);
        let mut list = List { visible: &visible, entries: Vec::new(), sparse: Vec::new() };
        self.list(&mut list, &newer)?;
        let List { entries: segments, sparse, .. } = list;
        let last =
            self.segments.last().ok_or(JobError::Damage(SegmentNo(0), Damage::Short("list of segments")))?;
        let covers = last.no;
        let header = entries::header(last)?;
        let generation = self.old.as_ref().map_or(0, |old| old.generation) + 1;
        env.check()?;
        let base = NewBase { env, stream: self.stream, covers, generation };
        let base = self.write_base(&base, newer, &segments, &visible)?;
        let retired = self.retired(&segments);
        let Visible { totals, deleted, .. } = visible;
        let manifest = Manifest {
            generation,
            stream: self.stream,
            covers,
            base: Some(base),
            totals,
            epoch: header.epoch,
            term: header.term,
            deleted,
            segments,
        };
        env.check()?;
        manifest.write(&*env.files.store_env.disk, &env.files.directory)?;
        let old_base = self.old.as_ref().and_then(|old| old.base).filter(|old| old.number != covers);
        let old_base = old_base.map(|old| env.files.directory.join(base_name(old.number)));
        Ok(Merged { manifest: Arc::new(manifest), retired, old_base, sparse })
    }

    fn read_newer(&self) -> Result<Vec<Newer>, JobError> {
        let covered = self.old.as_ref().map_or(SegmentNo(0), |old| old.covers);
        let newer = self.segments.iter().filter(|segment| segment.no > covered);
        newer
            .map(|segment| {
                let changes = read_footer(segment, |file, trailer| {
                    segment::read_changes(file, &trailer, &segment.context)
                })?;
                Ok(Newer { segment: Arc::clone(segment), changes })
            })
            .collect()
    }

    /// The segments that still show something.
    fn list(&self, list: &mut List<'_>, newer: &[Newer]) -> Result<(), JobError> {
        for entry in self.old.iter().flat_map(|old| &old.segments) {
            let unchanged = list.visible.unchanged(entry);
            match (self.find(entry.no), unchanged) {
                // The file is not there or cannot be read, as was reported when the stream was
                // opened. It stays listed while it would show something: an operator may bring it
                // back.
                (None, _) => list.entries.extend(list.visible.clipped(entry)),
                (Some(segment), Some(entry)) if !self.survey && entry.sealed => {
                    let (generation, file_len) = (segment.generation, segment.file_bytes());
                    list.entries.push(SegmentEntry { generation, file_len, ..entry });
                }
                (Some(segment), _) => match list.count(segment, Some(entry)) {
                    Err(JobError::Damage(..)) => list.entries.extend(list.visible.clipped(entry)),
                    counted => counted?,
                },
            }
        }
        let old = self.old.as_ref().map(|old| (old.covers, old.totals.last_seq));
        let (mut before, mut last_seq) = old.unwrap_or((SegmentNo(0), 0));
        for Newer { segment, changes } in newer {
            // Whoever brings one of those back finds that it is waited for.
            for no in (before.0 + 1..segment.no.0).map(SegmentNo) {
                let lost = SegmentEntry::lost(no, last_seq + 1, segment.first_seq - 1);
                list.entries.extend(list.visible.clipped(&lost));
            }
            list.count(segment, None)?;
            (before, last_seq) = (segment.no, changes.totals.last_seq);
        }
        Ok(())
    }

    /// Whether a segment is there that no base knows.
    fn has_come_back(&self) -> bool {
        let listed = self.old.iter().flat_map(|old| &old.segments);
        listed.filter(|entry| !entry.sealed).any(|entry| self.find(entry.no).is_some())
    }

    fn find(&self, no: SegmentNo) -> Option<&Arc<Segment>> {
        let at = self.segments.binary_search_by_key(&no, |segment| segment.no).ok()?;
        Some(&self.segments[at])
    }

    /// Numbers of files that are there and not listed any more.
    fn retired(&self, listed: &[SegmentEntry]) -> Vec<SegmentNo> {
        let numbers = self.segments.iter().map(|segment| segment.no);
        numbers.filter(|no| listed.binary_search_by_key(no, |entry| entry.no).is_err()).collect()
    }

    fn write_base(
        &self,
        base: &NewBase<'_>,
        newer: Vec<Newer>,
        listed: &[SegmentEntry],
        visible: &Visible,
    ) -> Result<BaseFile, JobError> {
        if self.has_come_back() {
            return self.rebuild_base(base, listed, visible);
        }
        let (is_emptied, newer) = behind_the_last_purge(newer);
        let old = self.old.as_ref().and_then(|old| old.base).filter(|_| !is_emptied);
        let merged = base.write(|writer| {
            let mut reader = old.map(|old| base.open(old.number)).transpose()?;
            base::merge(reader.as_mut(), &newer, writer)
        });
        match merged {
            Err(Damage::Io(error)) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            // A base is a shortcut: it can be made again from what the segments hold.
            Err(_) if old.is_some() => self.rebuild_base(base, listed, visible),
            merged => merged.map_err(|damage| JobError::Damage(base.covers, damage)),
        }
    }

    fn rebuild_base(
        &self,
        base: &NewBase<'_>,
        listed: &[SegmentEntry],
        visible: &Visible,
    ) -> Result<BaseFile, JobError> {
        let mut rebuilt = Rebuilt::default();
        for entry in listed {
            if let Some(segment) = self.find(entry.no) {
                rebuilt.add(segment, entry, visible)?;
            }
        }
        let written = base.write(|writer| rebuilt.write(writer));
        written.map_err(|damage| JobError::Damage(base.covers, damage))
    }
}

/// A manifest's list under construction.
struct List<'a> {
    visible: &'a Visible,
    entries: Vec<SegmentEntry>,
    /// Listed segments of which less than half is left.
    sparse: Vec<SegmentNo>,
}

impl List<'_> {
    /// Adds a segment, unless it has nothing to show.
    fn count(&mut self, segment: &Segment, listed: Option<&SegmentEntry>) -> Result<(), JobError> {
        let table = read_table(segment)?;
        if let Some(entry) = self.visible.count(segment, listed, &table) {
            if entry.bytes * 2 < table.trailer.summary.bytes {
                self.sparse.push(entry.no);
            }
            self.entries.push(entry);
        }
        Ok(())
    }
}

/// The changes that make the new base, and whether the old one counts for nothing: where all
/// messages that are left were appended in one segment, its footer names every subject that there
/// is.
fn behind_the_last_purge(newer: Vec<Newer>) -> (bool, Vec<Changes>) {
    let says_all = |one: &Newer| {
        let totals = &one.changes.totals;
        totals.messages == 0 || totals.first_seq >= one.segment.first_seq
    };
    let from = newer.iter().rposition(says_all);
    let changes = newer.into_iter().skip(from.unwrap_or(0)).map(|one| one.changes);
    (from.is_some(), changes.collect())
}

/// A base that is to be written.
struct NewBase<'a> {
    env: &'a JobEnv,
    stream: StreamId,
    covers: SegmentNo,
    generation: u64,
}

impl NewBase<'_> {
    /// Writes it under its name, which no manifest knows so far. It is durable on return.
    fn write(&self, fill: impl FnOnce(&mut BaseWriter) -> Result<(), Damage>) -> Result<BaseFile, Damage> {
        let (files, store_env) = (&self.env.files, &self.env.files.store_env);
        let path = files.directory.join(base_name(self.covers));
        // What an attempt before left.
        let _ = store_env.disk.remove_file(&path);
        let mut salt = [0; 16];
        store_env.entropy.fill(&mut salt);
        let key = files.key.as_ref().zip(store_env.keys.as_ref());
        let encryption = key.map(|(_, keys)| keys.kind);
        let Self { stream, covers, generation, .. } = *self;
        let header = base::BaseHeader { stream, covers, generation, salt, encryption };
        let context = self.context(&header)?;
        let file = store_env.disk.create(&path)?;
        let mut writer = BaseWriter::begin(file, &header, context)?;
        fill(&mut writer)?;
        let summary = writer.finish()?;
        store_env.disk.sync_directory(&files.directory)?;
        Ok(BaseFile { number: covers, generation, file_len: summary.file_len })
    }

    fn open(&self, number: SegmentNo) -> Result<BaseReader, Damage> {
        let files = &self.env.files;
        let file = files.store_env.disk.open(&files.directory.join(base_name(number)))?;
        let header = base::BaseHeader::read(&*file)?;
        let context = self.context(&header)?;
        BaseReader::open(file, &header, context)
    }

    fn context(&self, header: &base::BaseHeader) -> Result<FileContext, Damage> {
        let Some(kind) = header.encryption else { return Ok(header.context(None)) };
        let key = self.env.files.key.as_ref().ok_or(Damage::Locked("base"))?;
        Ok(header.context(Some(key.file_cipher(kind, "index", header.covers.0, &header.salt))))
    }
}

/// Contents of the segments that a manifest lists, by subject.
#[derive(Default)]
struct Rebuilt {
    subjects: BTreeMap<Box<[u8]>, (u64, Seq, Seq)>,
    expiries: Vec<(Seq, Timestamp)>,
}

impl Rebuilt {
    /// Adds a segment; the next one has later messages.
    fn add(&mut self, segment: &Segment, entry: &SegmentEntry, visible: &Visible) -> Result<(), JobError> {
        let slots = read_table(segment)?.slots;
        for row in live_rows(&slots, entry.first_seq, entry.last_seq, &visible.deleted) {
            let (seq, text) = (slots.seq(row), slots.dictionary().text(slots.subject(row)));
            match self.subjects.get_mut(text) {
                Some((count, _, last)) => (*count, *last) = (*count + 1, seq),
                None => drop(self.subjects.insert(text.into(), (1, seq, seq))),
            }
        }
        let changes =
            read_footer(segment, |file, trailer| segment::read_changes(file, &trailer, &segment.context))?;
        let there = entry.first_seq..=entry.last_seq;
        let is_there = |(seq, _): &(Seq, Timestamp)| there.contains(seq) && !visible.deleted.contains(*seq);
        self.expiries.extend(changes.expiries.into_iter().filter(is_there));
        Ok(())
    }

    fn write(&self, writer: &mut BaseWriter) -> Result<(), Damage> {
        for (text, &(count, first, last)) in &self.subjects {
            writer.subject(SubjectChange {
                text,
                count,
                first,
                last,
                first_exact: true,
                last_exact: true,
            })?;
        }
        self.expiries.iter().try_for_each(|&(seq, expires)| writer.expiry(seq, expires))
    }
}
