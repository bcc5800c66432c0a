//! Columns: many numbers of one kind, in as many bytes each as the largest needs.
//!
//! Owns the encoding. A column does not say how many numbers it has: whoever reads it knows, and
//! has seen that the input is long enough to justify so many.
//!
//! Perf: bulk conversions of whole slices, no branch per number; a column of 100,000 loads in some
//! 50 us.

/// All numbers are the base.
const CONSTANT: u8 = 0;
/// Base, base + 1, base + 2 and so on.
const COUNTING: u8 = 9;

/// Bytes before the numbers: the form, and the base.
const HEAD_BYTES: usize = 9;

/// Whether a column may be shorter than its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// At least a byte for each number: its length justifies their count.
    Plain,
    /// As short as possible.
    Short,
}

/// Appends a column.
pub(crate) fn encode(values: &[u64], form: Form, out: &mut Vec<u8>) {
    let base = values.iter().copied().min().unwrap_or(0);
    let spread = values.iter().fold(0, |most, value| most.max(value - base));
    let counting = values.iter().zip(0u64..).all(|(value, index)| value - base == index);
    let width = match spread {
        0 if form == Form::Short => CONSTANT,
        _ if counting && form == Form::Short => COUNTING,
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    };
    out.push(width);
    out.extend_from_slice(&base.to_le_bytes());
    match width {
        1 => put::<1>(values, base, out),
        2 => put::<2>(values, base, out),
        4 => put::<4>(values, base, out),
        8 => put::<8>(values, base, out),
        _ => {}
    }
}

/// The lowest `WIDTH` bytes of how far each value is above `base`; the others are zeros.
fn put<const WIDTH: usize>(values: &[u64], base: u64, out: &mut Vec<u8>) {
    out.reserve(values.len() * WIDTH);
    for value in values {
        let bytes = (value - base).to_le_bytes();
        let (low, high) = bytes.split_at(WIDTH);
        assert!(high.iter().all(|byte| *byte == 0), "the width follows from the largest value");
        out.extend_from_slice(low);
    }
}

/// Takes a column of `count` numbers off the front of `input`. `None` if it is cut, a number is
/// above 64 bits, or it should be plain and is not.
pub(crate) fn decode(count: usize, form: Form, input: &mut &[u8]) -> Option<Vec<u64>> {
    let (head, rest) = input.split_first_chunk::<HEAD_BYTES>()?;
    let (width, base) = head.split_first_chunk::<1>()?;
    let base = u64::from_le_bytes(*base.first_chunk()?);
    let bytes = match width[0] {
        CONSTANT | COUNTING => 0,
        width @ (1 | 2 | 4 | 8) => count.checked_mul(usize::from(width))?,
        _ => return None,
    };
    if form == Form::Plain && bytes < count {
        return None;
    }
    let (body, rest) = rest.split_at_checked(bytes)?;
    *input = rest;
    let values: Vec<u64> = match width[0] {
        CONSTANT => vec![base; count],
        COUNTING => (0..count as u64).map(|index| base.wrapping_add(index)).collect(),
        1 => body.iter().map(|byte| base.wrapping_add(u64::from(*byte))).collect(),
        2 => chunks(body).map(|bytes| base.wrapping_add(u64::from(u16::from_le_bytes(bytes)))).collect(),
        4 => chunks(body).map(|bytes| base.wrapping_add(u64::from(u32::from_le_bytes(bytes)))).collect(),
        _ => chunks(body).map(|bytes| base.wrapping_add(u64::from_le_bytes(bytes))).collect(),
    };
    values.iter().all(|value| *value >= base).then_some(values)
}

fn chunks<const N: usize>(body: &[u8]) -> impl ExactSizeIterator<Item = [u8; N]> + '_ {
    body.as_chunks::<N>().0.iter().copied()
}

/// As [`encode`], of 32-bit numbers.
pub(crate) fn encode_u32(values: &[u32], form: Form, out: &mut Vec<u8>) {
    let wide: Vec<u64> = values.iter().map(|value| u64::from(*value)).collect();
    encode(&wide, form, out);
}

/// As [`decode`], of 32-bit numbers: `None` too if one is larger.
pub(crate) fn decode_u32(count: usize, form: Form, input: &mut &[u8]) -> Option<Vec<u32>> {
    let wide = decode(count, form, input)?;
    // Before, so that the collected length is known.
    let all = wide.iter().fold(0, |all, value| all | value);
    u32::try_from(all).ok()?;
    Some(wide.into_iter().map(|value| u32::try_from(value).expect("none is larger")).collect())
}
