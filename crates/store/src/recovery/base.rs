//! The state that the manifest covers.

use std::sync::Arc;

use crate::base::{self, BaseReader};
use crate::damage::Damage;
use crate::manifest::{Manifest, SegmentEntry};
use crate::segment;
use crate::stream::{Form, Segment, SegmentView, Times, segment_name};
use crate::{SegmentNo, Seq, Timestamp};

use super::directory::{FoundFiles, base_name};
use super::{Notice, OpenError, Recovering};

impl Recovering<'_> {
    /// Takes over the state at the end of the segments that the manifest covers.
    pub(super) fn load_manifest(&mut self, manifest: &Manifest, found: &FoundFiles) -> Result<(), OpenError> {
        self.catalog.restore_totals(manifest);
        self.kept_from = self.catalog.totals().first_seq;
        let mut has_come_back = false;
        for entry in &manifest.segments {
            let segments = self.catalog.segments().len();
            self.add_listed(entry, found)?;
            has_come_back |= !entry.sealed && self.catalog.segments().len() > segments;
        }
        let loaded = match self.load_base(manifest) {
            // It cannot know the subjects of a segment that was missing when it was written.
            Ok(()) if has_come_back => self.rebuild_index(),
            Ok(()) => Ok(()),
            Err(Damage::Io(error)) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(OpenError::new("index", error))
            }
            Err(Damage::Locked(what)) => Err(OpenError::new("index", Damage::Locked(what))),
            Err(Damage::Unauthentic(what)) => Err(OpenError::new("index", Damage::Unauthentic(what))),
            Err(damage) => {
                let name = manifest.base.as_ref().map_or_else(String::new, |base| base_name(base.number));
                self.report.note(Notice::Damaged {
                    file: name,
                    what: format!("{damage}; rebuilt from the segments"),
                });
                self.rebuild_index()
            }
        };
        self.catalog.settle_lost();
        loaded
    }

    /// A segment that the manifest lists: its effects are in the base, only its table is needed.
    fn add_listed(&mut self, entry: &SegmentEntry, found: &FoundFiles) -> Result<(), OpenError> {
        let no = entry.no;
        if found.segments.binary_search(&no).is_err() {
            self.report.note(Notice::Missing { segments: no..=no });
            let sequences = (entry.first_seq <= entry.last_seq).then_some(entry.first_seq..=entry.last_seq);
            self.lose(segment_name(no), sequences, entry.file_len);
            return Ok(());
        }
        let ends = self.read_ends(no);
        let entry = &match &ends {
            // What it shows was not known when it was listed, only what it can show at most.
            Ok((header, trailer)) if !entry.sealed => SegmentEntry {
                first_seq: entry.first_seq.max(header.first_seq),
                last_seq: trailer
                    .as_ref()
                    .map_or(entry.last_seq, |trailer| trailer.summary.last_seq.min(entry.last_seq)),
                ..*entry
            },
            _ => *entry,
        };
        if entry.last_seq < entry.first_seq {
            return Ok(());
        }
        match ends {
            Ok((header, Some(trailer))) => {
                match self.sealed_segment(&header, &trailer) {
                    Ok(segment) => self.catalog.add_sealed(SegmentView {
                        segment: Arc::new(segment),
                        first_seq: entry.first_seq,
                        last_seq: entry.last_seq,
                        times: Times::of(&trailer.summary),
                        reached: Timestamp::MIN,
                        form: Form::Sealed,
                        removed: 0,
                    }),
                    Err(damage) => self.miss_listed(entry, &damage),
                }
                Ok(())
            }
            Ok((header, None)) => self.add_without_footer(&header, entry),
            Err(Damage::Io(error)) => Err(OpenError::new(format!("segment {}", no.0), error)),
            Err(damage @ (Damage::Locked(_) | Damage::Version(..))) => {
                Err(OpenError::new(format!("segment {}", no.0), damage))
            }
            Err(damage) => {
                self.miss_listed(entry, &damage);
                Ok(())
            }
        }
    }

    /// Nothing can be read of a segment that the manifest lists.
    fn miss_listed(&mut self, entry: &SegmentEntry, damage: &Damage) {
        self.note_damaged(entry.no, damage);
        self.lose(segment_name(entry.no), Some(entry.first_seq..=entry.last_seq), entry.file_len);
    }

    pub(super) fn note_damaged(&mut self, no: SegmentNo, damage: &Damage) {
        self.report.note(Notice::Damaged { file: segment_name(no), what: damage.to_string() });
    }

    fn load_base(&mut self, manifest: &Manifest) -> Result<(), Damage> {
        let Some(listed) = &manifest.base else { return Ok(()) };
        let file = self.files.store_env.disk.open(&self.files.directory.join(base_name(listed.number)))?;
        let header = base::BaseHeader::read(&*file)?;
        let cipher = match header.encryption {
            None => None,
            Some(kind) => {
                let key = self.files.key.as_ref().ok_or(Damage::Locked("index"))?;
                Some(key.file_cipher(kind, "index", header.covers.0, &header.salt))
            }
        };
        let mut reader = BaseReader::open(file, &header, header.context(cipher))?;
        while let Some(subjects) = reader.next_subjects()? {
            for change in subjects.iter() {
                self.catalog.restore_subject(&change);
            }
        }
        while let Some(expiries) = reader.next_expiries()? {
            for (seq, at) in expiries {
                self.catalog.restore_expiry(seq, at);
            }
        }
        self.catalog.forget_touched_subjects();
        Ok(())
    }

    /// Counts the subjects anew from the tables of all segments that the manifest covers.
    fn rebuild_index(&mut self) -> Result<(), OpenError> {
        self.catalog.rebuild_index().map_err(|(no, error)| {
            OpenError::new(segment_name(no), std::io::Error::other(error.to_string()))
        })?;
        self.rebuild_expiries();
        Ok(())
    }

    /// Lifetimes stand in the base and in footers. What was read from entries has told its own.
    fn rebuild_expiries(&mut self) {
        let sealed = self.catalog.segments().iter().filter(|view| matches!(view.form, Form::Sealed));
        let segments: Vec<_> = sealed.map(|view| Arc::clone(&view.segment)).collect();
        for segment in segments {
            match expiries_of(&segment) {
                Ok(expiries) => {
                    expiries.into_iter().for_each(|(seq, at)| self.catalog.restore_expiry(seq, at))
                }
                Err(damage) => self.note_damaged(segment.no, &damage),
            }
        }
    }
}

/// The lifetimes of messages in a sealed segment, when it was closed.
fn expiries_of(segment: &Segment) -> Result<Vec<(Seq, Timestamp)>, Damage> {
    let Some(sealed) = segment.sealed() else { return Ok(Vec::new()) };
    let file = sealed.open()?;
    let Some(trailer) = segment::read_trailer(&*file, &segment.context)? else { return Ok(Vec::new()) };
    Ok(segment::read_changes(&*file, &trailer, &segment.context)?.expiries)
}
