//! Where each message of a sealed segment stands, and which subject it has.
//!
//! Owns the sections `slots` and `dictionary` of a footer.
//!
//! Perf: loaded by bulk conversions and one pass that counts per subject; finding a sequence is one
//! comparison in a segment without gaps. Measured by `footer_speed` in the tests.

use crate::lengths::table_number;
use std::ops::Range;
use std::sync::OnceLock;

use super::Texts;
use super::column::{self, Form};
use crate::Seq;

/// One row per message that the segment was sealed with, in parallel arrays. Some may have been
/// deleted since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    first_seq: Seq,
    /// Sequence less `first_seq`; empty if that is the index.
    deltas: Vec<u32>,
    offsets: Vec<u32>,
    sizes: Vec<u32>,
    subjects: Vec<u32>,
    dictionary: Dictionary,
    successors: Successors,
    /// Whether messages that the segment was sealed with may have no row.
    is_partial: bool,
}

/// Row by row, the next one with the same subject, or `u32::MAX`. Made when it is first asked; says
/// nothing that the rows do not say.
#[derive(Clone, Debug, Default)]
struct Successors(OnceLock<Box<[u32]>>);

impl PartialEq for Successors {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Successors {}

/// The subjects of a segment, sorted, with what the segment alone holds of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dictionary {
    texts: Texts,
    locals: Vec<SegmentSubject>,
}

/// Messages that a segment holds of one subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentSubject {
    /// How many messages.
    pub count: u32,
    /// The index of the first; 0 if there is none.
    pub first: u32,
    /// The index of the last; 0 if there is none.
    pub last: u32,
}

impl Dictionary {
    /// How many subjects. Subjects of which the segment only deletes messages are among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The number of a subject.
    #[must_use]
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        self.texts.find(text).map(table_number)
    }

    /// The numbers of the subjects that begin with `prefix`: they are sorted.
    #[must_use]
    pub fn beginning_with(&self, prefix: &[u8]) -> Range<u32> {
        let first = self.texts.partition_point(|text| text < prefix);
        let behind = self.texts.partition_point(|text| text < prefix || text.starts_with(prefix));
        table_number(first)..table_number(behind)
    }

    /// The subject with this number.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn text(&self, number: u32) -> &[u8] {
        self.texts.get(number as usize)
    }

    /// Finds what the segment holds of the subject with this number.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn local(&self, number: u32) -> SegmentSubject {
        self.locals[number as usize]
    }

    /// The texts by number.
    #[must_use]
    pub fn texts(&self) -> &Texts {
        &self.texts
    }

    fn new(texts: Texts, subjects: &[u32]) -> Self {
        let mut locals = vec![SegmentSubject::default(); texts.len()];
        for (index, subject) in (0u32..).zip(subjects) {
            let local = &mut locals[*subject as usize];
            if local.count == 0 {
                local.first = index;
            }
            local.count += 1;
            local.last = index;
        }
        debug_assert_eq!(
            locals.iter().map(|local| local.count as usize).sum::<usize>(),
            subjects.len(),
            "each row has a subject"
        );
        Self { texts, locals }
    }
}

impl Slots {
    /// The slots of messages whose sequences are `first_seq` plus `deltas`, which grow. `subjects`
    /// are indices of `texts`, which may come in any order, but not twice.
    ///
    /// # Panics
    /// If the arrays differ in length, or a subject has no text.
    #[must_use]
    pub fn assemble(
        first_seq: Seq,
        deltas: Vec<u32>,
        offsets: Vec<u32>,
        sizes: Vec<u32>,
        mut subjects: Vec<u32>,
        texts: &Texts,
    ) -> Self {
        let lengths = [deltas.len(), offsets.len(), sizes.len(), subjects.len()];
        assert!(lengths.iter().all(|length| *length == lengths[0]), "arrays of different lengths");
        debug_assert!(deltas.is_sorted_by(|a, b| a < b), "sequences ascend");
        let mut order: Vec<u32> = (0..table_number(texts.len())).collect();
        order.sort_unstable_by(|a, b| texts.get(*a as usize).cmp(texts.get(*b as usize)));
        let mut numbers = vec![0u32; order.len()];
        let mut sorted = Texts::new();
        for (number, index) in (0u32..).zip(order) {
            numbers[index as usize] = number;
            sorted.push(texts.get(index as usize));
        }
        subjects.iter_mut().for_each(|subject| *subject = numbers[*subject as usize]);
        Self::of_rows(first_seq, deltas, offsets, sizes, subjects, sorted)
    }

    /// `subjects` are indices of `texts`, which are sorted.
    fn of_rows(
        first_seq: Seq,
        deltas: Vec<u32>,
        offsets: Vec<u32>,
        sizes: Vec<u32>,
        subjects: Vec<u32>,
        texts: Texts,
    ) -> Self {
        debug_assert!(offsets.len() == sizes.len() && sizes.len() == subjects.len(), "a row has all columns");
        debug_assert!(offsets.is_sorted_by(|a, b| a < b), "entries stand behind each other");
        let dictionary = Dictionary::new(texts, &subjects);
        let deltas = unless_counting(deltas);
        let (successors, is_partial) = (Successors::default(), false);
        Self { first_seq, deltas, offsets, sizes, subjects, dictionary, successors, is_partial }
    }

    /// Notes that not all messages of the segment can be read.
    #[must_use]
    pub fn partial(self) -> Self {
        Self { is_partial: true, ..self }
    }

    /// Whether messages that the segment was sealed with may have no row.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// How many messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The sequence of the first message.
    #[must_use]
    pub fn first_seq(&self) -> Seq {
        self.first_seq
    }

    /// The sequence of the message at `index`, less the first one.
    ///
    /// # Panics
    /// If there are not so many; so do the other accessors.
    #[must_use]
    pub fn delta(&self, index: usize) -> u32 {
        assert!(index < self.len(), "no such slot");
        self.deltas.get(index).map_or_else(|| table_number(index), |delta| *delta)
    }

    /// The sequence of the message at `index`.
    #[must_use]
    pub fn seq(&self, index: usize) -> Seq {
        self.first_seq + u64::from(self.delta(index))
    }

    /// Where its entry begins: in the file, or in what unpacking the file gives.
    #[must_use]
    pub fn offset(&self, index: usize) -> u32 {
        self.offsets[index]
    }

    /// Its stored size.
    #[must_use]
    pub fn size(&self, index: usize) -> u32 {
        self.sizes[index]
    }

    /// The number of its subject.
    #[must_use]
    pub fn subject(&self, index: usize) -> u32 {
        self.subjects[index]
    }

    /// The numbers of all subjects, by index: for scans.
    #[must_use]
    pub fn subjects(&self) -> &[u32] {
        &self.subjects
    }

    /// The index of the next message with the subject of the one at `index`, deleted or not.
    ///
    /// Perf: the first call goes through all messages.
    #[must_use]
    pub fn successor(&self, index: usize) -> Option<usize> {
        let next = self.successors.0.get_or_init(|| self.link())[index];
        (next != u32::MAX).then_some(next as usize)
    }

    fn link(&self) -> Box<[u32]> {
        let mut next = vec![u32::MAX; self.len()];
        let mut last = vec![u32::MAX; self.dictionary.len()];
        for (index, &subject) in (0u32..).zip(&self.subjects) {
            let before = std::mem::replace(&mut last[subject as usize], index);
            if let Some(before) = next.get_mut(before as usize) {
                *before = index;
            }
        }
        next.into_boxed_slice()
    }

    /// The segment's subjects.
    #[must_use]
    pub fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    /// Bytes of memory it takes, with what [`Slots::successor`] may need.
    #[must_use]
    pub fn memory(&self) -> usize {
        let texts = &self.dictionary.texts;
        4 * (self.deltas.len() + 4 * self.len()) + 16 * texts.len() + texts.total_bytes()
    }

    /// Where the message with this delta stands, if the segment has it.
    #[must_use]
    pub fn find(&self, delta: u32) -> Option<usize> {
        let index = self.lower_bound(delta);
        (index < self.len() && self.delta(index) == delta).then_some(index)
    }

    /// How many messages have a smaller delta: the index of the first one at or behind it.
    #[must_use]
    pub fn lower_bound(&self, delta: u32) -> usize {
        let guess = delta as usize;
        if self.deltas.is_empty() {
            return guess.min(self.len());
        }
        // Sequences are given out once, so a delta is never less than its index: what is looked for
        // stands at the guess or before it.
        let end = guess.saturating_add(1).min(self.len());
        if self.deltas.get(guess) == Some(&delta) {
            return guess;
        }
        self.deltas[..end].partition_point(|one| *one < delta)
    }

    /// The section `slots`. `numbers` are the subjects' new numbers in the dictionary that is
    /// written with it.
    pub(crate) fn encode(&self, numbers: &[u32]) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + 16 * self.len());
        out.extend_from_slice(
            &u32::try_from(self.len()).expect("a segment has fewer messages").to_le_bytes(),
        );
        column::encode_u32(&self.offsets, Form::Plain, &mut out);
        let deltas: Vec<u32> = (0..self.len()).map(|index| self.delta(index)).collect();
        column::encode_u32(&deltas, Form::Short, &mut out);
        column::encode_u32(&self.sizes, Form::Short, &mut out);
        let subjects: Vec<u32> = self.subjects.iter().map(|subject| numbers[*subject as usize]).collect();
        column::encode_u32(&subjects, Form::Short, &mut out);
        out
    }

    /// Reads the section. `None` if it is not one with this dictionary.
    pub(crate) fn decode(mut input: &[u8], texts: Texts, first_seq: Seq) -> Option<Self> {
        let (count, rest) = input.split_first_chunk()?;
        let count = u32::from_le_bytes(*count) as usize;
        input = rest;
        let offsets = column::decode_u32(count, Form::Plain, &mut input)?;
        let deltas = column::decode_u32(count, Form::Short, &mut input)?;
        let sizes = column::decode_u32(count, Form::Short, &mut input)?;
        let subjects = column::decode_u32(count, Form::Short, &mut input)?;
        let largest = subjects.iter().fold(None, |most, subject| most.max(Some(*subject)));
        let known = largest.is_none_or(|largest| (largest as usize) < texts.len());
        let grow = |values: &[u32]| values.windows(2).all(|pair| pair[0] < pair[1]);
        let last = deltas.last().map_or(0, |delta| u64::from(*delta));
        if !input.is_empty()
            || !known
            || !grow(&deltas)
            || !grow(&offsets)
            || first_seq.checked_add(last).is_none()
        {
            return None;
        }
        Some(Self::of_rows(first_seq, deltas, offsets, sizes, subjects, texts))
    }
}

/// Deltas that are their indices need no memory.
pub(super) fn unless_counting(deltas: Vec<u32>) -> Vec<u32> {
    let counting = deltas.iter().zip(0u32..).all(|(delta, index)| *delta == index);
    if counting { Vec::new() } else { deltas }
}
