//! Functions of a destination, and what they do to the tokens that they are given.
//!
//! All of them count bytes, not characters.

use std::io::Write;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenAction {
    /// Writes one token, perhaps cut.
    Cut(Cut),
    /// Writes the number of one of so many partitions, by a hash of the given tokens or, if there
    /// are none, of the whole subject.
    Partition(u32),
    /// Writes a random number below this.
    Random(u32),
}

/// How a token is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    Whole,
    /// At each delimiter; at each character if that is empty.
    Split(Box<[u8]>),
    /// By a length, which leaves a token whole that is not longer.
    By(Knife, i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knife {
    SplitFromLeft,
    SplitFromRight,
    SliceFromLeft,
    SliceFromRight,
    Left,
    Right,
}

impl TokenAction {
    /// Whether it writes a token as it is.
    pub(super) fn is_wildcard(&self) -> bool {
        *self == Self::Cut(Cut::Whole)
    }

    pub(super) fn apply<'a>(
        &self,
        mut arguments: impl ExactSizeIterator<Item = &'a [u8]>,
        whole: &[u8],
        random: &mut impl FnMut() -> u32,
        out: &mut Vec<u8>,
    ) {
        match self {
            Self::Cut(cut) => cut.apply(arguments.next().unwrap_or_default(), out),
            Self::Partition(count) if arguments.len() == 0 => push_number(partition([whole], *count), out),
            Self::Partition(count) => push_number(partition(arguments, *count), out),
            // One bit less, as the reference draws it.
            Self::Random(below) => push_number((random() >> 1).checked_rem(*below).unwrap_or(0), out),
        }
    }
}

impl Cut {
    fn apply(&self, token: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Whole => out.extend_from_slice(token),
            Self::Split(delimiter) => split(token, delimiter, out),
            Self::By(knife, length) => match usize::try_from(*length) {
                Ok(length) if length > 0 && length < token.len() => knife.apply(token, length, out),
                _ => out.extend_from_slice(token),
            },
        }
    }
}

impl Knife {
    /// Cuts `token`, which is longer than `length`; that is not 0.
    fn apply(self, token: &[u8], length: usize, out: &mut Vec<u8>) {
        let (left, after) = token.split_at(length);
        let (before, right) = token.split_at(token.len() - length);
        match self {
            Self::SplitFromLeft => join([left, after], out),
            Self::SplitFromRight => join([before, right], out),
            Self::SliceFromLeft => join(token.chunks(length), out),
            Self::SliceFromRight => join(token.rchunks(length).rev(), out),
            Self::Left => out.extend_from_slice(left),
            Self::Right => out.extend_from_slice(right),
        }
    }
}

/// Joins parts by dots.
pub(super) fn join<'a>(parts: impl IntoIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    for (at, part) in parts.into_iter().enumerate() {
        if at > 0 {
            out.push(b'.');
        }
        out.extend_from_slice(part);
    }
}

/// Writes what is between the delimiters; with an empty delimiter, each character.
///
/// Compat: empty parts vanish, and a delimiter at the beginning with them, but where there are two,
/// a dot remains: `--a` becomes `.a`.
fn split(token: &[u8], delimiter: &[u8], out: &mut Vec<u8>) {
    let mut before = None;
    for (at, part) in parts(token, delimiter).enumerate() {
        let after_empty_start = at == 1 && before == Some(0);
        if at > 0 && !part.is_empty() && !after_empty_start {
            out.push(b'.');
        }
        out.extend_from_slice(part);
        before = Some(part.len());
    }
}

/// The parts of `token` between the delimiters; with an empty delimiter, each character.
fn parts<'a>(token: &'a [u8], delimiter: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = Some(token);
    std::iter::from_fn(move || {
        let token = rest.take_if(|token| !(delimiter.is_empty() && token.is_empty()))?;
        let end = if delimiter.is_empty() {
            Some(character(token))
        } else {
            token.windows(delimiter.len()).position(|window| window == delimiter)
        };
        rest = end.map(|end| &token[end + delimiter.len()..]);
        Some(&token[..end.unwrap_or(token.len())])
    })
}

/// How long the first character of `token` is. A byte that is not UTF-8 is a character of its own.
fn character(token: &[u8]) -> usize {
    let valid = token.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    valid.chars().next().map_or(1, char::len_utf8)
}

/// FNV-1a of all parts, one after the other, modulo `count`; 0 when there are no partitions.
fn partition<'a>(parts: impl IntoIterator<Item = &'a [u8]>, count: u32) -> u32 {
    let step = |hash: u32, &byte: &u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = parts.into_iter().flatten().fold(0x811c_9dc5, step);
    hash.checked_rem(count).unwrap_or(0)
}

fn push_number(number: u32, out: &mut Vec<u8>) {
    write!(out, "{number}").expect("a vector takes everything");
}
