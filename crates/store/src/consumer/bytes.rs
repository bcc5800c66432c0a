//! Numbers near others, texts, and a reader that ends in an error where bytes end.
//!
//! Owns the mapping of small negative numbers to small ones. Must never read past what it was
//! given, nor give a length that the bytes do not have.

use myelin_stdx::varint;

use super::SequencePair;
use crate::consumer::DeliverySeq;

/// Bytes that no writer of ours wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedBytes;

/// Appends `value - from`, which is short if both are near.
pub(super) fn put_near(out: &mut Vec<u8>, value: u64, from: u64) {
    let difference = value.wrapping_sub(from) as i64;
    varint::put(((difference << 1) ^ (difference >> 63)) as u64, out);
}

/// Appends `text` with its length.
pub(super) fn put_bytes(out: &mut Vec<u8>, text: &[u8]) {
    varint::put(text.len() as u64, out);
    out.extend_from_slice(text);
}

/// Appends a pair, near another.
pub(super) fn put_pair_near(out: &mut Vec<u8>, pair: SequencePair, from: SequencePair) {
    put_near(out, pair.consumer.0, from.consumer.0);
    put_near(out, pair.stream, from.stream);
}

/// Bytes that are left to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteReader<'a> {
    rest: &'a [u8],
}

impl<'a> ByteReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes left: no list can have more items.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn byte(&mut self) -> Result<u8, MalformedBytes> {
        let (first, rest) = self.rest.split_first().ok_or(MalformedBytes)?;
        self.rest = rest;
        Ok(*first)
    }

    /// A number as [`varint::put`] writes it.
    pub(super) fn number(&mut self) -> Result<u64, MalformedBytes> {
        varint::take(&mut self.rest).ok_or(MalformedBytes)
    }

    /// A number as [`put_near`] writes it.
    pub(super) fn near(&mut self, from: u64) -> Result<u64, MalformedBytes> {
        let zigzag = self.number()?;
        Ok(from.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg()))
    }

    pub(super) fn pair_near(&mut self, from: SequencePair) -> Result<SequencePair, MalformedBytes> {
        let consumer = DeliverySeq(self.near(from.consumer.0)?);
        Ok(SequencePair { consumer, stream: self.near(from.stream)? })
    }

    /// A text as [`put_bytes`] writes it.
    pub(super) fn text(&mut self) -> Result<&'a [u8], MalformedBytes> {
        let length = usize::try_from(self.number()?).map_err(|_| MalformedBytes)?;
        let (text, rest) = self.rest.split_at_checked(length).ok_or(MalformedBytes)?;
        self.rest = rest;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_put_is_read(value: u64, from: u64, text: Vec<u8>) {
            let mut out = Vec::new();
            varint::put(value, &mut out);
            put_near(&mut out, value, from);
            put_bytes(&mut out, &text);
            let mut reader = ByteReader::new(&out);
            prop_assert_eq!(reader.number(), Ok(value));
            prop_assert_eq!(reader.near(from), Ok(value));
            prop_assert_eq!(reader.text(), Ok(&text[..]));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn any_bytes_end(bytes: Vec<u8>) {
            let mut reader = ByteReader::new(&bytes);
            while reader.number().is_ok() || reader.text().is_ok() {}
        }
    }
}
