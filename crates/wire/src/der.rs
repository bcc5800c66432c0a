//! DER, as much of it as OCSP and the frame of a certificate need: values one after another,
//! borrowed from the input.
//!
//! Strict about lengths: definite, as short as can be, and never beyond what is there.

/// Tags that are asked for here.
#[allow(missing_docs)]
pub mod tag {
    pub const BOOLEAN: u8 = 0x01;
    pub const INTEGER: u8 = 0x02;
    pub const BIT_STRING: u8 = 0x03;
    pub const OCTET_STRING: u8 = 0x04;
    pub const NULL: u8 = 0x05;
    pub const OID: u8 = 0x06;
    pub const ENUMERATED: u8 = 0x0a;
    pub const SEQUENCE: u8 = 0x30;
    pub const GENERALIZED_TIME: u8 = 0x18;
    /// `[n]`, with a value of any type within.
    pub const fn wrapped(n: u8) -> u8 {
        0xa0 | n
    }
    /// `[n]`, in the place of a plain value's own.
    pub const fn plain(n: u8) -> u8 {
        0x80 | n
    }
}

/// A value with its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DerValue<'a> {
    /// Tag of the value.
    pub tag: u8,
    /// Content of the value.
    pub content: &'a [u8],
    /// Tag, length and content, as they stand in the input.
    pub whole: &'a [u8],
}

/// Values that follow each other.
#[derive(Debug, Clone, Copy)]
pub struct DerReader<'a>(&'a [u8]);

impl<'a> DerReader<'a> {
    /// Reads what is in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether there is nothing left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next value, whatever it is; `None` at the end and where there is none that can be read.
    pub fn any(&mut self) -> Option<DerValue<'a>> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        // Tags of more than one byte do not occur in what is read here.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = bytes
                    .iter()
                    .try_fold(0usize, |sum, byte| sum.checked_mul(256)?.checked_add(usize::from(*byte)))?;
                let is_short = length >= 0x80 && bytes.first() != Some(&0);
                (Some(length).filter(|_| is_short)?, rest)
            }
            _ => return None,
        };
        let (content, after) = rest.split_at_checked(length)?;
        let whole = &self.0[..self.0.len() - after.len()];
        self.0 = after;
        Some(DerValue { tag, content, whole })
    }

    /// The next value if it has this tag.
    pub fn next(&mut self, tag: u8) -> Option<DerValue<'a>> {
        let mut ahead = *self;
        let value = ahead.any().filter(|value| value.tag == tag)?;
        *self = ahead;
        Some(value)
    }

    /// Content of the next value, if it has this tag.
    pub fn within(&mut self, tag: u8) -> Option<DerReader<'a>> {
        Some(DerReader(self.next(tag)?.content))
    }

    /// The next value, which is the last, if it has this tag.
    pub fn only(mut self, tag: u8) -> Option<DerValue<'a>> {
        let value = self.next(tag)?;
        self.is_empty().then_some(value)
    }
}

/// The bits of a BIT STRING that is made of whole bytes.
pub fn bits(content: &[u8]) -> Option<&[u8]> {
    content.strip_prefix(&[0])
}

/// Seconds since 1970 of a GeneralizedTime as certificates have it: `YYYYMMDDHHMMSSZ`.
pub fn seconds(content: &[u8]) -> Option<i64> {
    let digits = content.strip_suffix(b"Z").filter(|digits| digits.len() == 14)?;
    let number = |from: usize, to: usize| {
        digits[from..to]
            .iter()
            .try_fold(0i64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(8, 10)?, number(10, 12)?, number(12, 14)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Days since the first of March of the year 0, where leap days come last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 1
        - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Writes a value.
pub fn write(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    match u8::try_from(length) {
        Ok(short @ 0..=0x7f) => out.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            let bytes = &bytes[zeros..];
            out.push(0x80 | u8::try_from(bytes.len()).expect("a length has eight bytes at most"));
            out.extend_from_slice(bytes);
        }
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_are_as_short_as_can_be_and_never_too_long() {
        for length in [0, 1, 127, 128, 255, 256, 70_000] {
            let content = vec![7; length];
            let written = write(tag::OCTET_STRING, &[&content]);
            let value = DerReader::new(&written).only(tag::OCTET_STRING).expect("just written");
            assert_eq!((value.content, value.whole), (&content[..], &written[..]));
        }
        for bad in [
            &[][..],
            &[4],
            &[4, 1],
            &[4, 0x80, 0],
            &[4, 0x81, 5, 1, 2, 3, 4, 5],
            &[4, 0x82, 0, 0x80],
            &[4, 0x85, 0, 0, 0, 0, 1, 1],
            &[4, 0x84, 0xff, 0xff, 0xff, 0xff, 1],
            &[0x1f, 1, 1],
        ] {
            assert!(DerReader::new(bad).any().is_none(), "{bad:?}");
        }
        assert!(DerReader::new(&[4, 0, 5, 0]).only(4).is_none());
    }

    #[test]
    fn times_are_seconds() {
        for (text, expected) in [
            ("19700101000000Z", Some(0)),
            ("20261122141503Z", Some(1_795_356_903)),
            ("20000229235959Z", Some(951_868_799)),
            ("00010101000000Z", Some(-62_135_596_800)),
            ("20250229000000Z", None),
            ("20251301000000Z", None),
            ("20250100000000Z", None),
            ("20250101240000Z", None),
            ("20250101000000", None),
            ("2025010100000+Z", None),
            ("20250101000000.5Z", None),
        ] {
            assert_eq!(seconds(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_stands_in_the_input(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut reader = DerReader::new(&bytes);
            let mut at = 0;
            while let Some(value) = reader.any() {
                prop_assert_eq!(value.whole, &bytes[at..at + value.whole.len()]);
                prop_assert_eq!(&write(value.tag, &[value.content])[..], value.whole);
                at += value.whole.len();
            }
        }
    }
}
