//! Subjects with what is known of each, packed into a few arrays.
//!
//! Owns two encodings that footers and bases share: sorted texts, and the numbers that belong to
//! them. A million subjects are five allocations here, not a million.

use super::column::{self, Form};
use crate::Seq;

/// Texts one behind the other. Those that come from a file are sorted, and none of them is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Texts {
    /// No texts.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), ends: Vec::new() }
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all texts together.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a text behind the others.
    ///
    /// # Panics
    /// If the texts reach 4 GiB.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(u32::try_from(self.bytes.len()).expect("the subjects of a file are below 4 GiB"));
    }

    /// The text with this index.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn get(&self, index: usize) -> &[u8] {
        let begin = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.bytes[begin..self.ends[index] as usize]
    }

    /// All texts in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    /// The last text.
    #[must_use]
    pub fn last(&self) -> Option<&[u8]> {
        self.len().checked_sub(1).map(|index| self.get(index))
    }

    /// Where `text` stands in sorted texts.
    #[must_use]
    pub fn find(&self, text: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.get(middle).cmp(text) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// The index of the first of sorted texts that is not `before`, which all before it are.
    #[must_use]
    pub fn partition_point(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if before(self.get(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Forgets all texts and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Appends sorted texts: their number, their bytes together, a column of lengths, the bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            &u32::try_from(self.len()).expect("a segment has fewer subjects").to_le_bytes(),
        );
        out.extend_from_slice(
            &u32::try_from(self.bytes.len()).expect("texts of a segment are shorter than it").to_le_bytes(),
        );
        let lengths: Vec<u64> = self.iter().map(|text| text.len() as u64).collect();
        column::encode(&lengths, Form::Short, out);
        out.extend_from_slice(&self.bytes);
    }

    /// Takes sorted texts off the front of `input`. `None` if they are cut, one is empty, or they
    /// are not sorted.
    pub(crate) fn decode(input: &mut &[u8]) -> Option<Self> {
        let (head, mut rest) = input.split_first_chunk::<8>()?;
        let (count, total) = head.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let total = u32::from_le_bytes(*total.first_chunk()?) as usize;
        // No text is empty: the bytes that are there justify the number.
        if count > total || total > rest.len() {
            return None;
        }
        let lengths = column::decode(count, Form::Short, &mut rest)?;
        let (bytes, rest) = rest.split_at_checked(total)?;
        let mut ends = Vec::with_capacity(count);
        let mut end = 0u64;
        for length in lengths {
            end = end.checked_add(length)?;
            if length == 0 || end > total as u64 {
                return None;
            }
            ends.push(u32::try_from(end).ok()?);
        }
        let texts = Self { bytes: bytes.to_vec(), ends };
        *input = rest;
        (end == total as u64 && texts.is_sorted()).then_some(texts)
    }

    fn is_sorted(&self) -> bool {
        (1..self.len()).all(|index| self.get(index - 1) < self.get(index))
    }
}

/// State of one subject in a stream. Absolute: nothing older counts besides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubjectChange<'a> {
    /// The subject.
    pub text: &'a [u8],
    /// How many messages; with 0 the subject is gone, and the rest means nothing.
    pub count: u64,
    /// The first message's sequence, or a sequence before it.
    pub first: Seq,
    /// The last message's sequence, or a sequence behind it.
    pub last: Seq,
    /// Whether `first` is that of a message.
    pub first_exact: bool,
    /// Whether `last` is that of a message.
    pub last_exact: bool,
}

/// Many of them, sorted by text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubjectChanges {
    texts: Texts,
    counts: Vec<u64>,
    firsts: Vec<Seq>,
    lasts: Vec<Seq>,
    exact: Vec<u8>,
}

const FIRST_EXACT: u8 = 1;
const LAST_EXACT: u8 = 2;

impl SubjectChanges {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a subject behind the others.
    ///
    /// # Panics
    /// If its text is empty, or not behind all others.
    pub fn push(&mut self, change: SubjectChange<'_>) {
        assert!(!change.text.is_empty(), "a subject without a text");
        assert!(self.texts.last().is_none_or(|last| last < change.text), "subjects out of order");
        self.texts.push(change.text);
        let gone = change.count == 0;
        self.counts.push(change.count);
        self.firsts.push(if gone { 0 } else { change.first });
        self.lasts.push(if gone { 0 } else { change.last });
        let exact = u8::from(change.first_exact) * FIRST_EXACT + u8::from(change.last_exact) * LAST_EXACT;
        self.exact.push(if gone { FIRST_EXACT | LAST_EXACT } else { exact });
    }

    /// How many subjects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Their texts, in the same order.
    #[must_use]
    pub fn texts(&self) -> &Texts {
        &self.texts
    }

    /// The subject with this index.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn get(&self, index: usize) -> SubjectChange<'_> {
        SubjectChange {
            text: self.texts.get(index),
            count: self.counts[index],
            first: self.firsts[index],
            last: self.lasts[index],
            first_exact: self.exact[index] & FIRST_EXACT != 0,
            last_exact: self.exact[index] & LAST_EXACT != 0,
        }
    }

    /// All of them, sorted by text.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SubjectChange<'_>> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Forgets all and keeps the memory.
    pub fn clear(&mut self) {
        self.texts.clear();
        self.counts.clear();
        self.firsts.clear();
        self.lasts.clear();
        self.exact.clear();
    }

    /// Appends the numbers as four columns; the texts are written elsewhere.
    pub(crate) fn encode_numbers(&self, out: &mut Vec<u8>) {
        column::encode(&self.counts, Form::Short, out);
        column::encode(&self.without_gone(&self.firsts), Form::Short, out);
        column::encode(&self.without_gone(&self.lasts), Form::Short, out);
        let exact: Vec<u64> = self.exact.iter().map(|bits| u64::from(*bits)).collect();
        column::encode(&exact, Form::Short, out);
    }

    /// The zeros of subjects that are gone would make the column wide: they get the least of the
    /// others.
    fn without_gone(&self, values: &[Seq]) -> Vec<Seq> {
        let pairs = || values.iter().zip(&self.counts);
        let least = pairs().filter(|(_, count)| **count > 0).map(|(value, _)| *value).min().unwrap_or(0);
        pairs().map(|(value, count)| if *count > 0 { *value } else { least }).collect()
    }

    /// Takes the numbers for `texts` off the front of `input`. `None` if they are cut or cannot be.
    pub(crate) fn decode_numbers(texts: Texts, input: &mut &[u8]) -> Option<Self> {
        let len = texts.len();
        let counts = column::decode(len, Form::Short, input)?;
        let mut firsts = column::decode(len, Form::Short, input)?;
        let mut lasts = column::decode(len, Form::Short, input)?;
        let exact = column::decode(len, Form::Short, input)?;
        let exact: Option<Vec<u8>> =
            exact.into_iter().map(|bits| u8::try_from(bits).ok().filter(|bits| *bits <= 3)).collect();
        let exact = exact?;
        if firsts.iter().zip(&lasts).any(|(first, last)| first > last) {
            return None;
        }
        for index in (0..len).filter(|index| counts[*index] == 0) {
            (firsts[index], lasts[index]) = (0, 0);
        }
        Some(Self { texts, counts, firsts, lasts, exact })
    }
}
