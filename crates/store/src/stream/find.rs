//! Finding messages and reading them, where both must see the same stream.
//!
//! Between [`StreamReader::last_seq`] and [`StreamReader::get`] a writer may replace the message:
//! of a key-value store, whose every new value takes the old one away, the key would seem to be
//! missing. Here a message is located under the lock under which it was found; its bytes stay
//! readable for whoever holds a [`FoundMessage`], though it be removed meanwhile.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::RwLockReadGuard;

use myelin_subject::has_wildcard;

use crate::Seq;
use crate::index::SubjectId;
use crate::record::Message;

use super::catalog::{Catalog, Located};
use super::errors::ReadError;
use super::lookup::{self, Filter};
use super::reader::{StreamReader, fetch};
use super::table::Table;
use super::wait::Wait;

/// A message that was found and can be read later, see [`StreamReader::fetch`]. Keeps the segment's
/// file or memory.
#[derive(Clone, Debug)]
pub struct FoundMessage {
    seq: Seq,
    located: Located,
}

impl FoundMessage {
    /// Its sequence.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.seq
    }
}

impl StreamReader {
    /// Reads a message that was found before.
    ///
    /// # Errors
    /// It cannot be read, or was erased meanwhile.
    pub fn fetch<'b>(
        &self,
        found: &FoundMessage,
        wait: Wait,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Message<'b>, ReadError> {
        let read = fetch(&self.shared, &found.located, found.seq, wait, buffer);
        self.shared.told(self.shared.watched(found.seq, read))
    }

    /// The last message of a literal subject: one look-up in the index, however many subjects there
    /// are.
    ///
    /// # Errors
    /// The message cannot be read.
    pub fn last_of<'b>(
        &self,
        subject: &[u8],
        wait: Wait,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<Message<'b>>, ReadError> {
        let catalog = self.shared.whole_catalog()?;
        let Some(id) = catalog.index().find(subject) else { return Ok(None) };
        let last = self.shared.told(lookup::last_of(&catalog, id))?;
        self.read(catalog, last, wait, buffer)
    }

    /// The newest message that passes.
    ///
    /// # Errors
    /// As [`StreamReader::last_of`].
    pub fn last<'b>(
        &self,
        filter: &Filter,
        wait: Wait,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<Message<'b>>, ReadError> {
        let catalog = self.shared.whole_catalog()?;
        let last = self.shared.told(lookup::last(&catalog, filter))?;
        self.read(catalog, last, wait, buffer)
    }

    /// The first message from `from` to `to` that passes.
    ///
    /// # Errors
    /// The message cannot be read.
    pub fn next<'b>(
        &self,
        filter: &Filter,
        (from, to): (Seq, Seq),
        wait: Wait,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<Message<'b>>, ReadError> {
        let catalog = self.shared.whole_catalog()?;
        let next = lookup::next(&catalog, filter, from, to.min(self.shared.release.seq()));
        let next = self.shared.told(next)?;
        self.read(catalog, next, wait, buffer)
    }

    /// Adds up to `limit` messages from `from` to `to` that pass to `found`, oldest first.
    ///
    /// # Errors
    /// A table of the stream cannot be read.
    pub fn find(
        &self,
        filter: &Filter,
        (from, to): (Seq, Seq),
        limit: usize,
        found: &mut Vec<FoundMessage>,
    ) -> Result<(), ReadError> {
        let catalog = self.shared.whole_catalog()?;
        let to = to.min(self.shared.release.seq());
        for seq in lookup::collect(&catalog, filter, from, to, limit)? {
            found.extend(locate(&catalog, seq)?);
        }
        Ok(())
    }

    /// Of each subject that any of the patterns matches, the last message at or before `to`; oldest
    /// first. `None` if these are more than `limit`.
    ///
    /// # Errors
    /// A table of the stream cannot be read.
    pub fn find_last<P: AsRef<[u8]>>(
        &self,
        patterns: &[P],
        to: Seq,
        limit: usize,
    ) -> Result<Option<Vec<FoundMessage>>, ReadError> {
        let catalog = self.shared.whole_catalog()?;
        let seqs = if to >= catalog.totals().last_seq {
            let Some(ids) = subjects_of(&catalog, patterns, limit) else { return Ok(None) };
            let seqs = ids.into_iter().filter_map(|id| lookup::last_of(&catalog, id).transpose());
            seqs.collect::<Result<Vec<Seq>, ReadError>>()?
        } else {
            let ids = subjects_of(&catalog, patterns, usize::MAX).unwrap_or_default();
            last_before(&catalog, ids, to, limit)?
        };
        if seqs.len() > limit {
            return Ok(None);
        }
        let mut seqs = seqs;
        seqs.sort_unstable();
        let found = seqs.into_iter().filter_map(|seq| locate(&catalog, seq).transpose());
        found.collect::<Result<_, _>>().map(Some)
    }

    fn read<'b>(
        &self,
        catalog: RwLockReadGuard<'_, Catalog>,
        seq: Option<Seq>,
        wait: Wait,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<Message<'b>>, ReadError> {
        let Some(seq) = seq else { return Ok(None) };
        let Some(found) = locate(&catalog, seq)? else { return Ok(None) };
        drop(catalog);
        self.fetch(&found, wait, buffer).map(Some)
    }
}

fn locate(catalog: &Catalog, seq: Seq) -> Result<Option<FoundMessage>, ReadError> {
    Ok(catalog.locate(seq)?.map(|located| FoundMessage { seq, located }))
}

/// The subjects that any of the patterns matches. `None` if one pattern alone matches more than
/// `limit`.
fn subjects_of<P: AsRef<[u8]>>(
    catalog: &Catalog,
    patterns: &[P],
    limit: usize,
) -> Option<HashSet<SubjectId>> {
    let mut ids = HashSet::new();
    for pattern in patterns.iter().map(AsRef::as_ref) {
        if !has_wildcard(pattern) {
            ids.extend(catalog.index().find(pattern));
            continue;
        }
        let mut matched = 0;
        catalog.index().for_each_matching(pattern, None, &mut |id, _| {
            matched += 1;
            if matched > limit {
                return ControlFlow::Break(());
            }
            ids.insert(id);
            ControlFlow::Continue(())
        });
        if matched > limit {
            return None;
        }
    }
    Some(ids)
}

/// The last messages of these subjects at or before `to`, no more than one beyond `limit`.
///
/// Perf: one walk back for all of them, which asks of each row only whether its number within the
/// segment is still of interest; a walk for each subject would see the same rows a thousand times.
fn last_before(
    catalog: &Catalog,
    mut wanted: HashSet<SubjectId>,
    to: Seq,
    limit: usize,
) -> Result<Vec<Seq>, ReadError> {
    #[expect(clippy::disallowed_methods, reason = "each is looked at by itself")]
    wanted.retain(|&id| catalog.index().state(id).first <= to);
    let mut seqs = Vec::new();
    let behind = catalog.segments().partition_point(|view| view.first_seq <= to);
    for at in (0..behind).rev() {
        let view = &catalog.segments()[at];
        let table = catalog.table(at)?;
        let base = view.segment.first_seq;
        let end = to.min(view.last_seq);
        let mut seen = SeenSubjects::new(&table);
        let rows = end.checked_sub(base).map_or(0, |delta| table.row_from(delta + 1));
        for row in (0..rows).rev() {
            if wanted.is_empty() || seqs.len() > limit {
                return Ok(seqs);
            }
            let seq = base + u64::from(table.delta(row));
            if seq < catalog.totals().first_seq {
                return Ok(seqs);
            }
            let number = table.subject(row);
            if seen.contains(number) || catalog.deleted().contains(seq) {
                continue;
            }
            if table.subject_in(row, catalog.index()).is_some_and(|id| wanted.remove(&id)) {
                seqs.push(seq);
            }
            seen.insert(number);
        }
    }
    Ok(seqs)
}

/// Numbers of subjects of one sealed table that are found or were never wanted. A growing table has
/// the stream's own numbers, for which the wanted ones themselves answer as fast.
struct SeenSubjects(Vec<bool>);

impl SeenSubjects {
    fn new(table: &Table<'_>) -> Self {
        Self(if let Table::Sealed(slots) = table {
            vec![false; slots.dictionary().len()]
        } else {
            Vec::new()
        })
    }

    fn contains(&self, number: u32) -> bool {
        self.0.get(number as usize) == Some(&true)
    }

    fn insert(&mut self, number: u32) {
        if let Some(seen) = self.0.get_mut(number as usize) {
            *seen = true;
        }
    }
}
