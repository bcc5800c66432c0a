//! The short way through the parser, for a publish that is spaced as clients space it.

use crate::parser::{ParserLimits, Pub, SIZE_DIGITS, up_to_blank};

/// The publish at the front of `buf` and its length, if it is whole, within the limits and spaced
/// as clients space it: `PUB subject [reply] size CRLF`. Whatever else stands there is for
/// [`next`](crate::parser::next), which says the same of such a publish (a property test holds
/// that).
///
/// Perf: nearly all operations of a busy connection; row `pub-16` costs half of what it does
/// through the general path.
#[inline(always)]
pub fn plain_publish<'a>(buf: &'a [u8], limits: &ParserLimits) -> Option<(Pub<'a>, usize)> {
    let line = buf.strip_prefix(b"PUB ")?;
    let (subject, first) = cut_word(line, up_to_blank(line)?)?;
    let (mut tail, mut reply): (&[u8], &[u8]) = (first, &[]);
    let (mut total, mut rest) = cut_number(tail);
    if *rest.first()? != b'\r' {
        (reply, tail) = cut_word(tail, up_to_far_blank(tail)?)?;
        (total, rest) = cut_number(tail);
    }
    let (digits, line_len) = (tail.len() - rest.len(), line.len() - rest.len());
    let (body, behind) = rest.strip_prefix(b"\r\n")?.split_at_checked(total as usize)?;
    let behind = behind.strip_prefix(b"\r\n")?;
    let fits = line_len <= limits.max_control_line && limits.max_payload.is_none_or(|max| total <= max);
    if !fits || !SIZE_DIGITS.contains(&digits) {
        return None;
    }
    let message = Pub {
        subject,
        reply,
        header_len: 0,
        body,
        digits: (&[], tail.get(..digits)?),
        tail: first.get(..first.len() - behind.len())?,
    };
    Some((message, buf.len() - behind.len()))
}

/// The word of this length in front of a single blank, and what stands behind that, unless the word
/// is empty or another control character ends it.
#[inline(always)]
fn cut_word(line: &[u8], len: usize) -> Option<(&[u8], &[u8])> {
    let (word, rest) = line.split_at_checked(len)?;
    match rest {
        [b' ', rest @ ..] if len > 0 => Some((word, rest)),
        _ => None,
    }
}

/// The number at the front, which means something if it has [`SIZE_DIGITS`], and what stands
/// behind it.
#[inline(always)]
fn cut_number(mut line: &[u8]) -> (u32, &[u8]) {
    let mut number = 0_u32;
    while let [digit @ b'0'..=b'9', rest @ ..] = line {
        number = number.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'));
        line = rest;
    }
    (number, line)
}

/// How many bytes stand in front of the first that is a blank or a control character, where these
/// are many.
///
/// Perf: sixteen bytes at a time, by one comparison of a vector; replies have 38 and more.
#[inline(always)]
fn up_to_far_blank(line: &[u8]) -> Option<usize> {
    let mut rest = line;
    while let Some((sixteen, behind)) = rest.split_first_chunk::<16>() {
        if sixteen.iter().fold(false, |has, b| has | (*b <= b' ')) {
            break;
        }
        rest = behind;
    }
    Some(line.len() - rest.len() + up_to_blank(rest)?)
}
