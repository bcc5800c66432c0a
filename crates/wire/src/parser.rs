//! The client protocol's parser: a buffer in, one operation at a time out.
//!
//! Pure and without state: [`next`] looks at a buffer that begins at an operation and either
//! returns one whole operation that borrows it, says how many bytes it needs, or refuses. The
//! caller keeps what is incomplete and calls again, so the result cannot depend on how the network
//! split the bytes (a property test holds that for every split).
//!
//! Budget of a PUB: one pass over the control line, no allocation, no copy.
//!
//! `Compat:` verbs are case-insensitive, a bare LF ends a line, blanks and tabs may repeat, text
//! after `PING`, `PONG` and `+OK` is ignored: as the reference. Safer than the reference: a CR that
//! is not followed by LF is refused wherever it stands (there it becomes part of a subject, or
//! vanishes when a read ends behind it), and the tail of a `PING` line counts against the control
//! line limit.

/// Limits of a connection that the parser needs to know.
#[derive(Debug, Clone, Copy)]
pub struct ParserLimits {
    /// Longest argument part of a control line, in bytes.
    pub max_control_line: usize,
    /// Largest payload (headers included) in bytes; `None` is unlimited.
    pub max_payload: Option<u32>,
    /// Whether HPUB is allowed: both sides announced headers.
    pub headers: bool,
}

/// One message as the publisher framed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pub<'a> {
    /// The subject, not validated: the reference routes it literally.
    pub subject: &'a [u8],
    /// The reply subject, empty when there is none.
    pub reply: &'a [u8],
    /// Length of the header block at the front of `body`; 0 for none.
    pub header_len: u32,
    /// Header block and payload, without the trailing CRLF.
    pub body: &'a [u8],
    /// The digits of `header_len` and of the size as they were written, for subscribers get those:
    /// the first is empty for PUB.
    pub digits: (&'a [u8], &'a [u8]),
    /// `[reply ][header_len ]size CRLF body CRLF` as it stands in the buffer, which is exactly what
    /// follows the sid in the MSG or HMSG that subscribers get. Empty when the line had odd spacing
    /// and the tail must be rendered anew.
    pub tail: &'a [u8],
}

/// One operation of the client protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op<'a> {
    /// PUB or HPUB.
    Pub(Pub<'a>),
    /// `SUB <subject> [queue] <sid>`
    Sub {
        /// Not validated.
        subject: &'a [u8],
        /// Queue group, when the subscription belongs to one.
        queue: Option<&'a [u8]>,
        /// Chosen by the client, echoed in every MSG.
        sid: &'a [u8],
    },
    /// `UNSUB <sid> [max]`
    Unsub {
        /// Which subscription.
        sid: &'a [u8],
        /// Deliveries after which it ends, counted from its start; `None` or 0 is now.
        max: Option<u32>,
    },
    /// CONNECT with its JSON.
    Connect(&'a [u8]),
    /// PING
    Ping,
    /// PONG
    Pong,
    /// INFO from a client: ignored when its argument is JSON.
    Info(&'a [u8]),
    /// `+OK` from a client: ignored.
    Ok,
    /// `-ERR` from a client, which ends the connection.
    PeerError(&'a [u8]),
}

/// The outcome of [`next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A whole operation and the bytes that it took.
    Op(Op<'a>, usize),
    /// The operation needs at least this many bytes from the start of the buffer.
    Need(usize),
}

/// Why bytes were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseError {
    /// Unknown verb, stray CR, or a payload without CRLF: answered with `-ERR` and closed.
    UnknownOperation,
    /// Wrong count of arguments or a bad number: closed without a word, as the reference.
    BadArguments,
    /// The argument part is longer than allowed: answered and closed.
    ControlLineTooLong,
    /// The announced size exceeds the limit: answered and closed before the payload is read.
    PayloadTooLarge {
        /// The announced size.
        size: u32,
        /// The limit it exceeds.
        limit: u32,
    },
    /// HPUB without negotiated headers: closed without a word.
    HeadersNotSupported,
}

/// Reads the operation at the front of `buf`.
///
/// # Errors
/// A [`ParseError`] ends the connection: there is no way to find the next operation.
pub fn next<'a>(buf: &'a [u8], limits: &ParserLimits) -> Result<Parsed<'a>, ParseError> {
    let Some((verb, len)) = verb(buf)? else {
        return Ok(Parsed::Need(buf.len() + 1));
    };
    match verb {
        OpVerb::Pub => publish(buf, after_blank(buf, len)?, Shape::Pub, limits),
        OpVerb::Hpub => publish(buf, after_blank(buf, len)?, Shape::Hpub, limits),
        OpVerb::Sub | OpVerb::Unsub | OpVerb::Err => {
            let start = after_blank(buf, len)?;
            with_line(buf, start, limits, |line| arguments(verb, line))
        }
        OpVerb::Connect => with_line(buf, len, limits, |line| Ok(Op::Connect(line))),
        OpVerb::Ping => with_line(buf, len, limits, |_| Ok(Op::Ping)),
        OpVerb::Pong => with_line(buf, len, limits, |_| Ok(Op::Pong)),
        OpVerb::Info => with_line(buf, len, limits, |line| Ok(Op::Info(line))),
        OpVerb::Ok => with_line(buf, len, limits, |_| Ok(Op::Ok)),
    }
}

/// The publish at the front of `buf` and its length, if it is whole, within the limits and spaced
/// as clients space it: `PUB subject [reply] size CRLF`. Whatever else stands there is for
/// [`next`], which says the same of such a publish (a property test holds that).
///
/// Perf: nearly all operations of a busy connection; row `pub-16` costs half of what it does
/// through the general path.
#[inline(always)]
pub fn plain_publish<'a>(buf: &'a [u8], limits: &ParserLimits) -> Option<(Pub<'a>, usize)> {
    let line = buf.strip_prefix(b"PUB ")?;
    let subject = word_len(line)?;
    let mut tail = subject + 1;
    let mut reply: &[u8] = &[];
    let first = tail;
    let (mut total, mut digits) = leading_number(&line[tail..]);
    if *line.get(tail + digits)? != b'\r' {
        let len = word_len(&line[tail..])?;
        reply = &line[tail..tail + len];
        tail += len + 1;
        (total, digits) = leading_number(&line[tail..]);
    }
    let line_len = tail + digits;
    let body = line_len + 2;
    let end = body + total as usize + 2;
    let fits = line_len <= limits.max_control_line && limits.max_payload.is_none_or(|max| total <= max);
    let fits = fits && SIZE_DIGITS.contains(&digits);
    if !fits || line.get(line_len..body)? != b"\r\n" || line.get(end - 2..end)? != b"\r\n" {
        return None;
    }
    let message = Pub {
        subject: &line[..subject],
        reply,
        header_len: 0,
        body: &line[body..end - 2],
        digits: (&[], &line[tail..line_len]),
        tail: &line[first..end],
    };
    Some((message, end + 4))
}

/// Length of the word in front of a single blank, unless it is empty or holds another control
/// character.
#[inline(always)]
pub(crate) fn word_len(line: &[u8]) -> Option<usize> {
    let len = up_to_blank(line)?;
    (len > 0 && line[len] == b' ').then_some(len)
}

/// How many bytes stand in front of the first that is a blank or a control character.
///
/// Perf: eight bytes at a time; subjects and inboxes have 10 to 40.
#[inline(always)]
pub(crate) fn up_to_blank(line: &[u8]) -> Option<usize> {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    let mut at = 0;
    while let Some(eight) = line[at..].first_chunk::<8>() {
        let eight = u64::from_le_bytes(*eight);
        // The lowest bit that is set stands in the first byte below 0x21: what is borrowed goes
        // upwards only.
        let low = eight.wrapping_sub(EACH * 0x21) & !eight & (EACH * 0x80);
        if low != 0 {
            return Some(at + low.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    line[at..].iter().position(|b| *b <= b' ').map(|len| at + len)
}

/// The number at the front, which means something if it has [`SIZE_DIGITS`], and how many it has.
#[inline(always)]
pub(crate) fn leading_number(line: &[u8]) -> (u32, usize) {
    let (mut number, mut digits) = (0_u32, 0);
    while let Some(digit @ b'0'..=b'9') = line.get(digits) {
        number = number.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'));
        digits += 1;
    }
    (number, digits)
}

/// How many digits a [`size`] may have.
pub(crate) const SIZE_DIGITS: std::ops::RangeInclusive<usize> = 1..=9;

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Pub,
    Hpub,
}

#[derive(Clone, Copy)]
enum OpVerb {
    Pub,
    Hpub,
    Sub,
    Unsub,
    Connect,
    Ping,
    Pong,
    Info,
    Ok,
    Err,
}

const VERBS: [(&[u8], OpVerb); 10] = [
    (b"PUB", OpVerb::Pub),
    (b"HPUB", OpVerb::Hpub),
    (b"SUB", OpVerb::Sub),
    (b"UNSUB", OpVerb::Unsub),
    (b"CONNECT", OpVerb::Connect),
    (b"PING", OpVerb::Ping),
    (b"PONG", OpVerb::Pong),
    (b"INFO", OpVerb::Info),
    (b"+OK", OpVerb::Ok),
    (b"-ERR", OpVerb::Err),
];

/// The verb at the front, `None` while it may still become one.
fn verb(buf: &[u8]) -> Result<Option<(OpVerb, usize)>, ParseError> {
    let mut possible = buf.is_empty();
    for (text, verb) in VERBS {
        let n = text.len().min(buf.len());
        if buf[..n].eq_ignore_ascii_case(&text[..n]) {
            if n == text.len() {
                return Ok(Some((verb, n)));
            }
            possible = true;
        }
    }
    if possible { Ok(None) } else { Err(ParseError::UnknownOperation) }
}

/// The position behind the blank that must follow a verb with arguments.
fn after_blank(buf: &[u8], at: usize) -> Result<usize, ParseError> {
    match buf.get(at) {
        None => Ok(at),
        Some(b' ' | b'\t') => Ok(at + 1),
        Some(_) => Err(ParseError::UnknownOperation),
    }
}

/// Finds the line that starts at `start` and hands its trimmed argument part to `op`.
fn with_line<'a>(
    buf: &'a [u8],
    start: usize,
    limits: &ParserLimits,
    op: impl FnOnce(&'a [u8]) -> Result<Op<'a>, ParseError>,
) -> Result<Parsed<'a>, ParseError> {
    let begin = start + blanks(&buf[start.min(buf.len())..]);
    let rest = &buf[begin.min(buf.len())..];
    let end = line_end(rest);
    let seen = match end {
        Ok(Some(lf)) => strip_cr(&rest[..lf]).len(),
        // A trailing CR may be the first half of the line's end and does not count yet.
        Ok(None) => strip_cr(rest).len(),
        Err(StrayCr(at)) => at,
    };
    if seen > limits.max_control_line || begin - start > limits.max_control_line {
        return Err(ParseError::ControlLineTooLong);
    }
    match end {
        Ok(Some(lf)) => Ok(Parsed::Op(op(strip_cr(&rest[..lf]))?, begin + lf + 1)),
        Ok(None) => Ok(Parsed::Need(buf.len() + 1)),
        Err(StrayCr(_)) => Err(ParseError::UnknownOperation),
    }
}

/// Where a CR stands that no LF follows. It is refused, but only if the line was not too long
/// before it: otherwise the answer would depend on where a read ended.
struct StrayCr(usize);

fn blanks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| matches!(b, b' ' | b'\t')).count()
}

/// Position of the LF.
fn line_end(bytes: &[u8]) -> Result<Option<usize>, StrayCr> {
    for (i, b) in bytes.iter().enumerate() {
        match b {
            b'\n' => return Ok(Some(i)),
            b'\r' if bytes.get(i + 1).is_some_and(|next| *next != b'\n') => {
                return Err(StrayCr(i));
            }
            _ => {}
        }
    }
    Ok(None)
}

fn strip_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn arguments<'a>(verb: OpVerb, line: &'a [u8]) -> Result<Op<'a>, ParseError> {
    if let OpVerb::Err = verb {
        return Ok(Op::PeerError(line));
    }
    let mut words = line.split(|b| matches!(b, b' ' | b'\t')).filter(|w| !w.is_empty());
    let first = words.next().ok_or(ParseError::BadArguments)?;
    let (second, third, more) = (words.next(), words.next(), words.next());
    if more.is_some() {
        return Err(ParseError::BadArguments);
    }
    match (verb, second, third) {
        (OpVerb::Sub, Some(sid), None) => Ok(Op::Sub { subject: first, queue: None, sid }),
        (OpVerb::Sub, Some(queue), Some(sid)) => Ok(Op::Sub { subject: first, queue: Some(queue), sid }),
        // Compat: a malformed count ends the subscription at once, as if none had been given.
        (OpVerb::Unsub, max, None) => Ok(Op::Unsub { sid: first, max: max.and_then(size) }),
        _ => Err(ParseError::BadArguments),
    }
}

/// A size: one to nine ASCII digits and nothing else.
#[inline]
pub fn size(digits: &[u8]) -> Option<u32> {
    let (number, len) = leading_number(digits);
    (len == digits.len() && SIZE_DIGITS.contains(&len)).then_some(number)
}

/// Where the words of a publish line stand, found in one pass.
struct Words {
    at: [(usize, usize); 4],
    count: usize,
    /// Position of the LF.
    lf: usize,
    crlf: bool,
    has_tab: bool,
}

impl Words {
    /// Scans from `start`; `None` when the line has no end yet.
    #[inline]
    fn scan(buf: &[u8], start: usize) -> Result<Option<Self>, StrayCr> {
        let mut words = Self { at: [(0, 0); 4], count: 0, lf: 0, crlf: false, has_tab: false };
        let mut i = start;
        let mut begin = start;
        while let Some(&b) = buf.get(i) {
            // Perf: one comparison for the bytes of which subjects and numbers are made.
            if b > b' ' {
                i += 1;
                continue;
            }
            match b {
                b' ' | b'\t' => {
                    words.push(begin, i);
                    words.has_tab |= b == b'\t';
                    begin = i + 1;
                }
                b'\n' => {
                    words.push(begin, i);
                    words.lf = i;
                    return Ok(Some(words));
                }
                b'\r' => match buf.get(i + 1) {
                    None => return Ok(None),
                    Some(b'\n') => {
                        words.push(begin, i);
                        words.lf = i + 1;
                        words.crlf = true;
                        return Ok(Some(words));
                    }
                    Some(_) => return Err(StrayCr(i)),
                },
                _ => {}
            }
            i += 1;
        }
        Ok(None)
    }

    /// From the first word to the end of the line: what the control line limit measures.
    #[inline]
    fn argument_len(&self) -> usize {
        let end = self.lf - usize::from(self.crlf);
        if self.count == 0 { 0 } else { end - self.at[0].0 }
    }

    /// Blanks in front of the first word.
    #[inline]
    fn leading(&self, start: usize) -> usize {
        if self.count == 0 { self.lf - usize::from(self.crlf) - start } else { self.at[0].0 - start }
    }

    #[inline]
    fn push(&mut self, begin: usize, end: usize) {
        if begin < end {
            if let Some(slot) = self.at.get_mut(self.count) {
                *slot = (begin, end);
            }
            self.count += 1;
        }
    }
}

/// A publish line that has no end, or a stray CR before it.
#[cold]
fn unfinished<'a>(
    buf: &'a [u8],
    start: usize,
    stray: Option<StrayCr>,
    limits: &ParserLimits,
) -> Result<Parsed<'a>, ParseError> {
    let start = start.min(buf.len());
    let end = stray.as_ref().map_or(strip_cr(buf).len(), |stray| stray.0);
    let line = &buf[start..end.max(start)];
    let leading = blanks(line);
    if leading.max(line.len() - leading) > limits.max_control_line {
        return Err(ParseError::ControlLineTooLong);
    }
    if stray.is_some() { Err(ParseError::UnknownOperation) } else { Ok(Parsed::Need(buf.len() + 1)) }
}

fn publish<'a>(
    buf: &'a [u8],
    start: usize,
    shape: Shape,
    limits: &ParserLimits,
) -> Result<Parsed<'a>, ParseError> {
    let words = match Words::scan(buf, start) {
        Ok(Some(words)) => words,
        Ok(None) => return unfinished(buf, start, None, limits),
        Err(stray) => return unfinished(buf, start, Some(stray), limits),
    };
    if words.argument_len() > limits.max_control_line || words.leading(start) > limits.max_control_line {
        return Err(ParseError::ControlLineTooLong);
    }
    if shape == Shape::Hpub && !limits.headers {
        return Err(ParseError::HeadersNotSupported);
    }
    let fixed = if shape == Shape::Hpub { 3 } else { 2 };
    if words.count != fixed && words.count != fixed + 1 {
        return Err(ParseError::BadArguments);
    }
    let word = |i: usize| &buf[words.at[i].0..words.at[i].1];
    let last = words.count - 1;
    let total = size(word(last)).ok_or(ParseError::BadArguments)?;
    let header_len = match shape {
        Shape::Pub => 0,
        Shape::Hpub => size(word(last - 1)).filter(|h| *h <= total).ok_or(ParseError::BadArguments)?,
    };
    if let Some(limit) = limits.max_payload
        && total > limit
    {
        return Err(ParseError::PayloadTooLarge { size: total, limit });
    }
    let body = words.lf + 1;
    let end = body + total as usize + 2;
    if buf.len() < end {
        return incomplete(buf, end);
    }
    if buf[end - 2..end] != *b"\r\n" {
        return Err(ParseError::UnknownOperation);
    }
    let reply = if words.count > fixed { word(1) } else { &[] };
    let tail = if regular(&words) && (shape == Shape::Pub || header_len > 0) {
        &buf[words.at[1].0..end]
    } else {
        &[]
    };
    let header_digits = if shape == Shape::Hpub { word(last - 1) } else { &[] };
    let digits = (header_digits, word(last));
    let op = Pub { subject: word(0), reply, header_len, body: &buf[body..end - 2], digits, tail };
    Ok(Parsed::Op(Op::Pub(op), end))
}

/// Words one blank apart, the last right before CRLF: the tail can be copied as it stands.
#[inline]
fn regular(words: &Words) -> bool {
    let apart = (1..words.count).all(|i| words.at[i].0 == words.at[i - 1].1 + 1);
    apart && !words.has_tab && words.crlf && words.at[words.count - 1].1 + 1 == words.lf
}

/// Payloads up to this size are looked at again when the first byte of their trailer is there.
const EAGER_TRAILER: usize = 32 * 1024;

/// Tells what a publish needs whose end at `end` has not come. A wrong first byte of the trailer is
/// refused before the second has come; for large payloads that second look would cost a copy, and
/// is left out.
fn incomplete<'a>(buf: &[u8], end: usize) -> Result<Parsed<'a>, ParseError> {
    match buf.get(end - 2) {
        Some(b'\r') => Ok(Parsed::Need(end)),
        Some(_) => Err(ParseError::UnknownOperation),
        None if end > EAGER_TRAILER => Ok(Parsed::Need(end)),
        None => Ok(Parsed::Need(end - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: ParserLimits = ParserLimits { max_control_line: 64, max_payload: Some(100), headers: true };

    fn one(bytes: &[u8]) -> Op<'_> {
        match next(bytes, &LIMITS) {
            Ok(Parsed::Op(op, used)) => {
                assert_eq!(used, bytes.len());
                op
            }
            other => panic!("{other:?} for {:?}", String::from_utf8_lossy(bytes)),
        }
    }

    fn refused(bytes: &[u8]) -> ParseError {
        next(bytes, &LIMITS).unwrap_err()
    }

    #[test]
    fn a_publish_keeps_its_tail() {
        let Op::Pub(p) = one(b"PUB foo.bar inbox 5\r\nhello\r\n") else { panic!() };
        assert_eq!((p.subject, p.reply, p.body), (&b"foo.bar"[..], &b"inbox"[..], &b"hello"[..]));
        assert_eq!(p.tail, b"inbox 5\r\nhello\r\n");
    }

    #[test]
    fn the_short_way_is_taken() {
        for bytes in [
            &b"PUB foo 2\r\nhi\r\n"[..],
            b"PUB foo in.1 0\r\n\r\n",
            b"PUB foo 7 2\r\nhi\r\n",
            b"PUB 1 1a 1\r\nx\r\n",
        ] {
            let (message, len) = plain_publish(bytes, &LIMITS).unwrap();
            assert_eq!(next(bytes, &LIMITS), Ok(Parsed::Op(Op::Pub(message), len)));
        }
        for bytes in [
            &b"PUB foo 2\nhi\r\n"[..],
            b"PUB  foo 2\r\nhi\r\n",
            b"PUB foo 101\r\n",
            b"PUB foo 2\r\nhi\r",
            b"PUB foo 1\r2\r\n",
        ] {
            assert_eq!(plain_publish(bytes, &LIMITS), None);
        }
    }

    #[test]
    fn odd_spacing_and_bare_lf_lose_only_the_tail() {
        for line in [&b"pub\tfoo   2 \r\nhi\r\n"[..], b"PUB foo 2\nhi\r\n", b"Pub  foo 2\r\nhi\r\n"] {
            let Op::Pub(p) = one(line) else { panic!() };
            assert_eq!((p.subject, p.body), (&b"foo"[..], &b"hi"[..]));
            assert!(p.tail.is_empty() || p.tail == b"2\r\nhi\r\n");
        }
    }

    #[test]
    fn headers_are_counted_in_the_size() {
        let Op::Pub(p) = one(b"HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n") else { panic!() };
        assert_eq!((p.header_len, p.body.len()), (12, 14));
        assert_eq!(p.tail, b"12 14\r\nNATS/1.0\r\n\r\nhi\r\n");
        assert_eq!(refused(b"HPUB a 3 2\r\n"), ParseError::BadArguments);
        let plain = ParserLimits { headers: false, ..LIMITS };
        assert_eq!(next(b"HPUB a 0 0\r\n\r\n", &plain), Err(ParseError::HeadersNotSupported));
    }

    #[test]
    fn an_empty_header_block_is_no_header() {
        let Op::Pub(p) = one(b"HPUB a 0 2\r\nhi\r\n") else { panic!() };
        assert_eq!((p.header_len, p.tail), (0, &b""[..]));
    }

    #[test]
    fn sizes_have_one_to_nine_digits() {
        for bad in [
            "PUB a\r\n",
            "PUB a +1\r\n",
            "PUB a -1\r\n",
            "PUB a 1234567890\r\n",
            "PUB a b c 1\r\n",
            "PUB a 1x\r\n",
        ] {
            assert_eq!(refused(bad.as_bytes()), ParseError::BadArguments, "{bad}");
        }
        assert_eq!(refused(b"PUB a 101\r\n"), ParseError::PayloadTooLarge { size: 101, limit: 100 });
    }

    #[test]
    fn subscriptions_and_counts() {
        assert_eq!(one(b"SUB a 1\r\n"), Op::Sub { subject: b"a", queue: None, sid: b"1" });
        assert_eq!(one(b"sub a q 1\n"), Op::Sub { subject: b"a", queue: Some(b"q"), sid: b"1" });
        assert_eq!(refused(b"SUB a b c d\r\n"), ParseError::BadArguments);
        assert_eq!(refused(b"SUB\r\n"), ParseError::UnknownOperation);
        assert_eq!(one(b"UNSUB 1 5\r\n"), Op::Unsub { sid: b"1", max: Some(5) });
        assert_eq!(one(b"UNSUB 1 x\r\n"), Op::Unsub { sid: b"1", max: None });
    }

    #[test]
    fn a_stray_cr_is_refused_wherever_the_read_ends() {
        for bad in [&b"PUB abc\r 2\r\n"[..], b"PUB a\rbc 2\r\n", b"SUB a\rb 1\r\n", b"PING\rx\r\n"] {
            assert_eq!(refused(bad), ParseError::UnknownOperation);
        }
    }

    #[test]
    fn wrong_trailer_and_unknown_verbs() {
        assert_eq!(refused(b"PUB a 2\r\nhixx"), ParseError::UnknownOperation);
        assert_eq!(refused(b"PUB a 2\r\nhi\rx"), ParseError::UnknownOperation);
        for bad in ["F", "PX", "MSG a 1 2\r\n", "RS+ a\r\n", "\r\n", "HM"] {
            assert_eq!(refused(bad.as_bytes()), ParseError::UnknownOperation, "{bad}");
        }
    }

    #[test]
    fn the_control_line_limit_counts_the_argument_part() {
        let fits = format!("SUB {} 1\r\n", "a".repeat(62));
        assert!(matches!(next(fits.as_bytes(), &LIMITS), Ok(Parsed::Op(..))));
        let long = format!("SUB {} 1\r\n", "a".repeat(63));
        assert_eq!(refused(long.as_bytes()), ParseError::ControlLineTooLong);
        assert_eq!(refused(format!("PUB {}", "a".repeat(65)).as_bytes()), ParseError::ControlLineTooLong);
        assert_eq!(refused(format!("PING{}", "x".repeat(65)).as_bytes()), ParseError::ControlLineTooLong);
        assert_eq!(refused(format!("PUB{}", " ".repeat(70)).as_bytes()), ParseError::ControlLineTooLong);
    }

    #[test]
    fn connect_keeps_its_json_and_peer_errors_end_it() {
        assert_eq!(one(b"CONNECT {\"a\":1}\r\n"), Op::Connect(b"{\"a\":1}"));
        assert_eq!(one(b"connect{}\r\n"), Op::Connect(b"{}"));
        assert_eq!(one(b"-ERR 'x'\r\n"), Op::PeerError(b"'x'"));
        assert_eq!(one(b"+OK\r\n"), Op::Ok);
        assert_eq!(one(b"INFO {}\r\n"), Op::Info(b"{}"));
    }

    /// Everything the parser says of a byte string that arrives in pieces ending at `cuts`.
    fn replay(bytes: &[u8], cuts: &[usize]) -> Vec<String> {
        let mut said = Vec::new();
        let mut held: Vec<u8> = Vec::new();
        let mut from = 0;
        for cut in cuts.iter().copied().chain([bytes.len()]) {
            let cut = cut.clamp(from, bytes.len());
            held.extend_from_slice(&bytes[from..cut]);
            from = cut;
            loop {
                match next(&held, &LIMITS) {
                    Ok(Parsed::Op(op, used)) => {
                        said.push(format!("{op:?}"));
                        held.drain(..used);
                    }
                    Ok(Parsed::Need(n)) => {
                        assert!(n > held.len(), "must ask for more than it has");
                        break;
                    }
                    Err(e) => {
                        said.push(format!("{e:?}"));
                        return said;
                    }
                }
            }
        }
        said
    }

    fn fragment() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            Just(b"PUB a.b 3\r\nxyz\r\n".to_vec()),
            Just(b"PUB a r 0\r\n\r\n".to_vec()),
            Just(b"HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n".to_vec()),
            Just(b"PING\r\n".to_vec()),
            Just(b"sub foo 1\n".to_vec()),
            Just(b"UNSUB 1 3\r\n".to_vec()),
            Just(b"CONNECT {}\r\n".to_vec()),
            Just(b"PUB abc\r 2\r\nhi\r\n".to_vec()),
            Just(b"PUB  a\t1 \r\nx\r\n".to_vec()),
            proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b' '), any::<u8>()], 0..12),
            (40usize..80).prop_map(|n| format!("SUB {} 1\r\n", "s".repeat(n)).into_bytes()),
        ]
    }

    proptest! {
        #[test]
        fn the_short_way_says_what_the_long_way_says(
            subject in "[a-c.0-9]{1,4}", reply in "( [a-b0-9]{1,3})?", blank in "[ \t]?",
            digits in "[0-9]{0,3}", cr in "\r?", body in "[xy\r\n]{0,12}",
        ) {
            let bytes = format!("PUB {subject}{reply} {digits}{blank}{cr}\n{body}\r\n").into_bytes();
            if let Some((message, len)) = plain_publish(&bytes, &LIMITS) {
                prop_assert_eq!(next(&bytes, &LIMITS), Ok(Parsed::Op(Op::Pub(message), len)));
            }
        }

        #[test]
        fn the_split_never_changes_the_result(
            parts in proptest::collection::vec(fragment(), 0..6),
            cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let bytes = parts.concat();
            let mut cuts = cuts;
            cuts.sort_unstable();
            let every: Vec<usize> = (0..bytes.len()).collect();
            let whole = replay(&bytes, &[]);
            prop_assert_eq!(&whole, &replay(&bytes, &cuts));
            prop_assert_eq!(&whole, &replay(&bytes, &every));
        }
    }
}
