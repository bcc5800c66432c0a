//! Parser of what a peer says: a buffer in, one operation at a time out.
//!
//! Pure and without state, as the [client protocol's](crate::parser): [`next`] looks at a buffer
//! that begins at an operation and returns one whole operation that borrows the buffer, says how
//! many bytes that takes, or refuses. How the network splits the bytes never matters.
//!
//! Budget of a message: one pass over its line, no allocation, no copy.
//!
//! `Compat:` verbs are case-insensitive, a bare LF ends a line, blanks and tabs may repeat.

use crate::parser::{SIZE_DIGITS, leading_number, size, up_to_blank, word_len};

/// Properties of a link that the parser depends on.
#[derive(Debug, Clone, Copy)]
pub struct PeerLimits {
    /// Longest line in bytes.
    pub max_line: usize,
    /// Largest message, headers included, in bytes.
    pub max_payload: u32,
    /// The link is dedicated to one account, whose name is left out.
    pub is_dedicated: bool,
    /// `LS-` names the origin.
    pub names_origin: bool,
    /// The other side is a leaf node, or this one is: there is one account, which is left out, and
    /// so is the origin. `is_dedicated` has to be set, too.
    pub is_leaf: bool,
}

/// Interest in what matches a subject, of some server's clients or leaf nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerInterest<'a> {
    /// The account's name; empty on a dedicated link.
    pub account: &'a [u8],
    /// Not validated.
    pub subject: &'a [u8],
    /// The queue group, if it is one of those.
    pub queue: Option<&'a [u8]>,
    /// How many members of the group there are; 1 where that makes no sense.
    pub weight: u32,
    /// Of leaf nodes: the cluster that they come from, or nothing where that is not said.
    pub leaf: Option<&'a [u8]>,
}

/// One message as the peer framed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routed<'a> {
    /// Cluster of the leaf node that has published it; mostly empty.
    pub origin: &'a [u8],
    /// The account's name; empty on a dedicated link.
    pub account: &'a [u8],
    /// Subject, not validated.
    pub subject: &'a [u8],
    /// The reply subject, empty when there is none.
    pub reply: &'a [u8],
    /// Queue groups of which one member here gets the message.
    pub queues: QueueNames<'a>,
    /// Length of the header block at the front of `body`; 0 for none.
    pub header_len: u32,
    /// Header block and payload, without the trailing CRLF.
    pub body: &'a [u8],
    /// The digits of `header_len`, where it is not 0, and of the size.
    pub digits: (&'a [u8], &'a [u8]),
    /// `[reply ][header_len ]size CRLF body CRLF` as it stands in the buffer; empty when it does
    /// not stand there like that and must be rendered.
    pub tail: &'a [u8],
}

/// Word among the names of queue groups by which a server says that it passes a message on: it was
/// chosen for the groups, and no member there took the message. Who else wants it has it already.
/// Other servers take it for a group that they do not have.
pub const PASSED_ON: &[u8] = b"_myelin.passed_on_";

/// Names of queue groups, as they stand in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueNames<'a>(&'a [u8]);

impl<'a> QueueNames<'a> {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names one after the other.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        words(self.0)
    }

    /// Whether this group is named.
    pub fn contains(&self, queue: &[u8]) -> bool {
        self.iter().any(|name| name == queue)
    }
}

/// One operation of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerOp<'a> {
    /// RMSG, HMSG or LMSG.
    Message(Routed<'a>),
    /// RS+ or LS+.
    Interest(PeerInterest<'a>),
    /// RS- or LS-.
    NoInterest(PeerInterest<'a>),
    /// A+ or A-, which only gateways heed: the account's name, and whether it is A+.
    Account(&'a [u8], bool),
    /// INFO with its JSON.
    Info(&'a [u8]),
    /// CONNECT with its JSON.
    Connect(&'a [u8]),
    /// PING
    Ping,
    /// PONG
    Pong,
    /// `+OK`
    Ok,
    /// `-ERR`, which ends the link.
    PeerError(&'a [u8]),
}

/// The outcome of [`next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A whole operation and the bytes that it took.
    Op(PeerOp<'a>, usize),
    /// The operation needs at least this many bytes from the start of the buffer.
    Need(usize),
}

/// Why bytes were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerError {
    /// Unknown verb, or a payload without CRLF.
    UnknownOperation,
    /// Wrong count of arguments or a bad number.
    BadArguments,
    /// The line is longer than allowed.
    LineTooLong,
    /// The message is larger than allowed.
    PayloadTooLarge,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PeerVerb {
    Rmsg,
    Hmsg,
    Lmsg,
    Interest,
    NoInterest,
    LeafInterest,
    NoLeafInterest,
    Account,
    NoAccount,
    Info,
    Connect,
    Ping,
    Pong,
    Ok,
    Err,
}

const VERBS: [(&[u8], PeerVerb); 15] = [
    (b"RMSG", PeerVerb::Rmsg),
    (b"HMSG", PeerVerb::Hmsg),
    (b"RS+", PeerVerb::Interest),
    (b"RS-", PeerVerb::NoInterest),
    (b"PING", PeerVerb::Ping),
    (b"PONG", PeerVerb::Pong),
    (b"LMSG", PeerVerb::Lmsg),
    (b"LS+", PeerVerb::LeafInterest),
    (b"LS-", PeerVerb::NoLeafInterest),
    (b"A+", PeerVerb::Account),
    (b"A-", PeerVerb::NoAccount),
    (b"INFO", PeerVerb::Info),
    (b"CONNECT", PeerVerb::Connect),
    (b"+OK", PeerVerb::Ok),
    (b"-ERR", PeerVerb::Err),
];

/// Reads the operation at the front of `buf`.
///
/// # Errors
/// A [`PeerError`] ends the link: there is no way to find the next operation.
pub fn next<'a>(buf: &'a [u8], limits: &PeerLimits) -> Result<Parsed<'a>, PeerError> {
    match plain_interest(buf, limits) {
        Some((interest, len)) => Ok(Parsed::Op(PeerOp::Interest(interest), len)),
        None => next_of_any_form(buf, limits),
    }
}

/// The operation at the front of `buf`, however it is spaced.
pub(super) fn next_of_any_form<'a>(buf: &'a [u8], limits: &PeerLimits) -> Result<Parsed<'a>, PeerError> {
    let Some((verb, len)) = verb(buf)? else { return Ok(Parsed::Need(buf.len() + 1)) };
    let Some(end) = buf[len..].iter().position(|byte| *byte == b'\n') else {
        // A CR at the end may belong to the line's end.
        let is_long = buf.len() - len > limits.max_line + 1;
        return if is_long { Err(PeerError::LineTooLong) } else { Ok(Parsed::Need(buf.len() + 1)) };
    };
    let line = &buf[len..len + end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > limits.max_line {
        return Err(PeerError::LineTooLong);
    }
    let after = len + end + 1;
    let op = match verb {
        PeerVerb::Rmsg | PeerVerb::Hmsg | PeerVerb::Lmsg => {
            return message(buf, verb, (blank_first(line)?, after), limits);
        }
        PeerVerb::Interest | PeerVerb::LeafInterest => {
            let has_origin = verb == PeerVerb::LeafInterest && !limits.is_leaf;
            PeerOp::Interest(interest(blank_first(line)?, has_origin, limits)?)
        }
        PeerVerb::NoInterest | PeerVerb::NoLeafInterest => {
            let is_leaf = verb == PeerVerb::NoLeafInterest && !limits.is_leaf;
            match no_interest(blank_first(line)?, is_leaf, limits) {
                Ok(interest) => PeerOp::NoInterest(interest),
                // Compat: a leaf node may take back what it never said.
                Err(_) if limits.is_leaf => PeerOp::Ok,
                Err(error) => return Err(error),
            }
        }
        PeerVerb::Account => PeerOp::Account(trim(blank_first(line)?), true),
        PeerVerb::NoAccount => PeerOp::Account(trim(blank_first(line)?), false),
        PeerVerb::Info => PeerOp::Info(trim(blank_first(line)?)),
        // Compat: of a leaf node this is one that cannot be read.
        PeerVerb::Connect if limits.is_leaf && line.is_empty() => PeerOp::Connect(line),
        PeerVerb::Connect => PeerOp::Connect(trim(blank_first(line)?)),
        PeerVerb::Ping => PeerOp::Ping,
        PeerVerb::Pong => PeerOp::Pong,
        PeerVerb::Ok => PeerOp::Ok,
        PeerVerb::Err => PeerOp::PeerError(trim(line)),
    };
    Ok(Parsed::Op(op, after))
}

/// The message at the front of `buf` and its length, if it is whole, within the limits, for no
/// queue groups, and spaced as servers space it: `RMSG [account ]subject [reply ]size CRLF` (of
/// leaf nodes `LMSG`), or the same with headers. Whatever else stands there is for [`next`], which
/// says the same of such a message (a property test holds that).
///
/// Perf: nearly all operations of a busy link; the general path takes a fifth of what a message of
/// 16 bytes costs both servers together.
#[inline(always)]
pub fn plain_message<'a>(buf: &'a [u8], limits: &PeerLimits) -> Option<(Routed<'a>, usize)> {
    let has_headers = match buf.first_chunk::<5>()? {
        b"RMSG " if !limits.is_leaf => false,
        b"LMSG " if limits.is_leaf => false,
        b"HMSG " => true,
        _ => return None,
    };
    let line = &buf[5..];
    let account = if limits.is_dedicated { 0 } else { word_len(line)? };
    let first = if limits.is_dedicated { 0 } else { account + 1 };
    let subject = &line[first..first + word_len(&line[first..])?];
    let begin = first + subject.len() + 1;
    let (reply, sizes_at, sizes) = match plain_sizes(&line[begin..], has_headers) {
        Some(sizes) => (&[][..], begin, sizes),
        None => {
            let reply = &line[begin..begin + word_len(&line[begin..])?];
            let at = begin + reply.len() + 1;
            (reply, at, plain_sizes(&line[at..], has_headers)?)
        }
    };
    let ((header_digits, header_len), (digits, total)) = sizes;
    let line_len = sizes_at + header_digits.len() + usize::from(has_headers) + digits.len();
    if has_headers && (!SIZE_DIGITS.contains(&header_digits.len()) || !(1..=total).contains(&header_len)) {
        return None;
    }
    let body = line_len + 2;
    let end = body + total as usize + 2;
    // The line begins with the blank behind its verb.
    let fits =
        SIZE_DIGITS.contains(&digits.len()) && line_len < limits.max_line && total <= limits.max_payload;
    if !fits || line.get(line_len..body)? != b"\r\n" || line.get(end - 2..end)? != b"\r\n" {
        return None;
    }
    let message = Routed {
        origin: &[],
        account: &line[..account],
        subject,
        reply,
        queues: QueueNames::default(),
        header_len,
        body: &line[body..end - 2],
        digits: (header_digits, digits),
        tail: &line[begin..end],
    };
    Some((message, end + 5))
}

/// The interest at the front of `buf` and its length, if it is whole, within the limits, of no
/// queue group, and spaced as servers space it: `RS+ [account ]subject CRLF` over a route, `LS+
/// subject CRLF` over a link of a leaf node. Whatever else stands there is for
/// [`next_of_any_form`], which says the same of such a line.
///
/// Perf: a server that joins is told of a million; one that a leaf node comes back to spent a
/// sixth of its time in the general form.
#[inline(always)]
fn plain_interest<'a>(buf: &'a [u8], limits: &PeerLimits) -> Option<(PeerInterest<'a>, usize)> {
    let line = buf.strip_prefix(if limits.is_leaf { b"LS+ " } else { b"RS+ " })?;
    let account = if limits.is_dedicated { 0 } else { word_len(line)? };
    let first = if limits.is_dedicated { 0 } else { account + 1 };
    let end = first + up_to_blank(&line[first..])?;
    // The line begins with the blank behind its verb.
    if end == first || end >= limits.max_line || line.get(end..end + 2)? != b"\r\n" {
        return None;
    }
    let (account, subject) = (&line[..account], &line[first..end]);
    Some((PeerInterest { account, subject, queue: None, weight: 1, leaf: None }, end + 6))
}

/// Digits of a number, and the number.
type Number<'a> = (&'a [u8], u32);

/// The numbers `[header_len ]size` in front of a CR.
#[inline(always)]
fn plain_sizes(line: &[u8], has_headers: bool) -> Option<(Number<'_>, Number<'_>)> {
    let (first, len) = leading_number(line);
    if !has_headers {
        return (*line.get(len)? == b'\r').then(|| ((&[][..], 0), (&line[..len], first)));
    }
    let rest = line[len..].strip_prefix(b" ")?;
    let (second, rest_len) = leading_number(rest);
    (*rest.get(rest_len)? == b'\r').then(|| ((&line[..len], first), (&rest[..rest_len], second)))
}

/// The verb at the front, `None` while it may still become one.
#[inline]
fn verb(buf: &[u8]) -> Result<Option<(PeerVerb, usize)>, PeerError> {
    let mut is_possible = buf.is_empty();
    for (text, verb) in VERBS {
        let n = text.len().min(buf.len());
        if buf[..n].eq_ignore_ascii_case(&text[..n]) {
            if n == text.len() {
                return Ok(Some((verb, n)));
            }
            is_possible = true;
        }
    }
    if is_possible { Ok(None) } else { Err(PeerError::UnknownOperation) }
}

/// A verb with arguments ends at a blank.
fn blank_first(line: &[u8]) -> Result<&[u8], PeerError> {
    match line.first() {
        Some(b' ' | b'\t') => Ok(&line[1..]),
        _ => Err(PeerError::UnknownOperation),
    }
}

#[inline]
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

fn trim(line: &[u8]) -> &[u8] {
    let begin = line.iter().position(|byte| !is_blank(*byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_blank(*byte)).map_or(begin, |at| at + 1);
    &line[begin..end]
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| is_blank(*byte)).filter(|word| !word.is_empty())
}

/// The words of a line of interest; one word more than any may have is too many.
fn fields<'a>(line: &'a [u8], into: &mut [&'a [u8]; 6]) -> Result<usize, PeerError> {
    let mut count = 0;
    for word in words(line) {
        *into.get_mut(count).ok_or(PeerError::BadArguments)? = word;
        count += 1;
    }
    Ok(count)
}

fn interest<'a>(line: &'a [u8], is_leaf: bool, limits: &PeerLimits) -> Result<PeerInterest<'a>, PeerError> {
    let mut all = [&[][..]; 6];
    let count = fields(line, &mut all)?;
    let (leaf, account, at) = front(&all, is_leaf, limits);
    let (queue, weight) = match count.checked_sub(at) {
        Some(1) => (None, 1),
        // Compat: a weight that is none counts as one member.
        Some(3) => (Some(all[at + 1]), size(all[at + 2]).unwrap_or(1).max(1)),
        _ => return Err(PeerError::BadArguments),
    };
    Ok(PeerInterest { account, subject: all[at], queue, weight, leaf })
}

fn no_interest<'a>(
    line: &'a [u8],
    is_leaf: bool,
    limits: &PeerLimits,
) -> Result<PeerInterest<'a>, PeerError> {
    let mut all = [&[][..]; 6];
    let count = fields(line, &mut all)?;
    let (leaf, account, at) = front(&all, is_leaf && limits.names_origin, limits);
    let queue = match count.checked_sub(at) {
        Some(1) => None,
        Some(2) => Some(all[at + 1]),
        _ => return Err(PeerError::BadArguments),
    };
    let leaf = leaf.or(is_leaf.then_some(&[]));
    Ok(PeerInterest { account, subject: all[at], queue, weight: 1, leaf })
}

/// The origin and the account in front of a subject, and where that stands.
fn front<'a>(
    all: &[&'a [u8]; 6],
    has_origin: bool,
    limits: &PeerLimits,
) -> (Option<&'a [u8]>, &'a [u8], usize) {
    let origin = has_origin.then_some(all[0]);
    let at = usize::from(has_origin);
    if limits.is_dedicated { (origin, &[], at) } else { (origin, all[at], at + 1) }
}

/// Where the words of a message's line stand: the first and the last of them, found in one pass.
#[derive(Default)]
struct LineWords {
    first: [(usize, usize); 6],
    last: [(usize, usize); 2],
    count: usize,
}

impl LineWords {
    #[inline]
    fn of(line: &[u8]) -> Self {
        let mut found = Self::default();
        let mut begin = 0;
        for (at, byte) in line.iter().enumerate() {
            // Perf: one comparison for the bytes of which words are made.
            if *byte <= b' ' && is_blank(*byte) {
                found.push(begin, at);
                begin = at + 1;
            }
        }
        found.push(begin, line.len());
        found
    }

    #[inline]
    fn push(&mut self, begin: usize, end: usize) {
        if begin < end {
            if let Some(slot) = self.first.get_mut(self.count) {
                *slot = (begin, end);
            }
            self.last = [self.last[1], (begin, end)];
            self.count += 1;
        }
    }
}

fn message<'a>(
    buf: &'a [u8],
    verb: PeerVerb,
    (line, body_at): (&'a [u8], usize),
    limits: &PeerLimits,
) -> Result<Parsed<'a>, PeerError> {
    let words = LineWords::of(line);
    let word = |at: usize| &line[words.first[at].0..words.first[at].1];
    // Between a leaf node and its hub LMSG is what RMSG is on a route.
    let verb = if limits.is_leaf && verb == PeerVerb::Lmsg { PeerVerb::Rmsg } else { verb };
    let sizes = if verb == PeerVerb::Rmsg { 1 } else { 2 };
    let account_at = usize::from(verb == PeerVerb::Lmsg);
    let subject_at = account_at + usize::from(!limits.is_dedicated);
    let between = words.count.checked_sub(subject_at + 1 + sizes).ok_or(PeerError::BadArguments)?;
    let digits = |(begin, end): (usize, usize)| &line[begin..end];
    let total_digits = digits(words.last[1]);
    let header_digits = if sizes == 2 { digits(words.last[0]) } else { &[] };
    let total = size(total_digits).ok_or(PeerError::BadArguments)?;
    let header_len = if sizes == 2 { size(header_digits).ok_or(PeerError::BadArguments)? } else { 0 };
    if header_len > total {
        return Err(PeerError::BadArguments);
    }
    if total > limits.max_payload {
        return Err(PeerError::PayloadTooLarge);
    }
    let sizes_at = words.last[2 - sizes].0;
    let (reply, queues, tail_at) = reply_and_queues((line, &words), subject_at + 1, between, sizes_at)?;
    let end = body_at + total as usize + 2;
    if buf.len() < end {
        return Ok(Parsed::Need(end));
    }
    if buf[end - 2..end] != *b"\r\n" {
        return Err(PeerError::UnknownOperation);
    }
    // The line ends where the body begins, so what stands from here on is told by its distance.
    let line_at = body_at - 2 - line.len().min(body_at - 2);
    let has_crlf = buf[body_at - 2] == b'\r' && buf[line_at..body_at - 2] == *line;
    let is_header_told = sizes == 1 || header_len > 0;
    let tail = match tail_at {
        Some(at) if has_crlf && is_header_told && is_regular(&line[at..]) => &buf[line_at + at..end],
        _ => &[],
    };
    let routed = Routed {
        origin: if verb == PeerVerb::Lmsg { word(0) } else { &[] },
        account: if limits.is_dedicated { &[] } else { word(account_at) },
        subject: word(subject_at),
        reply,
        queues,
        header_len,
        body: &buf[body_at..end - 2],
        digits: (if header_len > 0 { header_digits } else { &[] }, total_digits),
        tail,
    };
    Ok(Parsed::Op(PeerOp::Message(routed), end))
}

/// Reply and queue groups of a message's line, `count` words from the one at `first` on, and where
/// in the line its tail begins, if it stands there like one.
#[inline]
fn reply_and_queues<'a>(
    (line, words): (&'a [u8], &LineWords),
    first: usize,
    count: usize,
    sizes_at: usize,
) -> Result<(&'a [u8], QueueNames<'a>, Option<usize>), PeerError> {
    let word = |at: usize| &line[words.first[at].0..words.first[at].1];
    let names = |at: usize| QueueNames(trim(&line[words.first[at].0.min(sizes_at)..sizes_at]));
    Ok(match count {
        0 => (&[], QueueNames::default(), Some(sizes_at)),
        1 => (word(first), QueueNames::default(), Some(words.first[first].0)),
        _ => match word(first) {
            b"+" if count == 2 => (word(first + 1), QueueNames::default(), None),
            b"+" => (word(first + 1), names(first + 2), None),
            b"|" => (&[], names(first + 1), Some(sizes_at)),
            _ => return Err(PeerError::BadArguments),
        },
    })
}

/// Words one blank apart: they can be copied as they stand.
fn is_regular(line: &[u8]) -> bool {
    let is_apart = line.windows(2).all(|two| two != b"  ");
    is_apart && !line.iter().any(|byte| matches!(byte, b'\t' | b'\r')) && line.last() != Some(&b' ')
}
