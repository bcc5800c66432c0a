//! Topics and filters of MQTT, and the subjects that they are in NATS.
//!
//! | in a topic | in a subject |
//! |---|---|
//! | `/` between levels | `.` |
//! | an empty level: a leading `/`, `//`, a trailing `/` | the token `/` |
//! | `.` | `//` |
//! | `+`, `#` in a filter | `*`, `>` |
//! | `*`, `>` | themselves: a filter with such a level has NATS's wildcards |
//! | a blank, a control character | has none: refused |
//!
//! Nothing but these functions makes a subject of what an MQTT client has sent, and none of them
//! writes a byte at or below the blank, or DEL: no topic can end a line of the NATS protocol
//! (advisory 2026-22).
//!
//! Compat: nats-server refuses blank, tab, LF, CR, form feed and DEL; here all control characters
//! are refused.

use std::fmt;

/// Reason for which a topic or filter has no subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicFault {
    /// There is none.
    Empty,
    /// A wildcard in the topic of a message, or levels behind `#` in a filter.
    Wildcard,
    /// A blank or a control character.
    Character,
    /// A shared subscription without a group, or without a filter.
    Share,
}

impl fmt::Display for TopicFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "topic cannot be empty",
            Self::Wildcard => "wildcard where none is allowed",
            Self::Character => "character not supported for MQTT topics",
            Self::Share => "shared subscription without group or filter",
        })
    }
}

impl std::error::Error for TopicFault {}

/// Beginning of a shared subscription's filter.
pub const SHARED: &str = "$share/";

/// Whether no subject can have the byte.
#[inline]
pub(crate) fn is_refused(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f
}

/// Whether messages can be published to the topic.
///
/// # Errors
/// The first reason against it.
#[inline]
pub fn check_name(topic: &str) -> Result<(), TopicFault> {
    if topic.is_empty() {
        return Err(TopicFault::Empty);
    }
    match topic.bytes().find(|byte| is_refused(*byte) || matches!(byte, b'+' | b'#')) {
        None => Ok(()),
        Some(b'+' | b'#') => Err(TopicFault::Wildcard),
        Some(_) => Err(TopicFault::Character),
    }
}

/// Whether the filter has a subject pattern.
///
/// Compat: wildcards that are only a part of their level (`a+`, `a#`) are read as they stand, like
/// nats-server does; MQTT 5 has [`has_misplaced_wildcard`] for them.
///
/// # Errors
/// The first reason against it: [`TopicFault::Wildcard`] for levels behind `#`.
pub fn check_filter(filter: &str) -> Result<(), TopicFault> {
    let (above, last) = filter.rsplit_once('/').unwrap_or(("", filter));
    match filter {
        "" => Err(TopicFault::Empty),
        _ if filter.bytes().any(is_refused) => Err(TopicFault::Character),
        _ if last.len() < filter.len() && above.split('/').any(|level| matches!(level, "#" | ">")) => {
            Err(TopicFault::Wildcard)
        }
        _ => Ok(()),
    }
}

/// Whether a filter has a `+` that is not its whole level, or a `#` that is not its whole last
/// level: no filter in the words of either specification.
pub fn has_misplaced_wildcard(filter: &str) -> bool {
    let mut levels = filter.split('/').peekable();
    std::iter::from_fn(|| levels.next().map(|level| (level, levels.peek().is_none())))
        .any(|(level, is_last)| level.contains(['+', '#']) && level != "+" && !(level == "#" && is_last))
}

/// Appends the subject of a message's topic. After an error nothing was appended.
///
/// # Errors
/// When the topic has no subject.
pub fn name_to_subject(topic: &str, out: &mut Vec<u8>) -> Result<(), TopicFault> {
    check_name(topic)?;
    to_subject(topic.as_bytes(), out);
    Ok(())
}

/// Appends the subject pattern of a filter. After an error nothing was appended.
///
/// # Errors
/// When the filter has no subject.
pub fn filter_to_subject(filter: &str, out: &mut Vec<u8>) -> Result<(), TopicFault> {
    check_filter(filter)?;
    to_subject(filter.as_bytes(), out);
    Ok(())
}

/// Appends the subject of a topic or filter that is checked.
fn to_subject(topic: &[u8], out: &mut Vec<u8>) {
    out.reserve(topic.len());
    let mut is_empty = true;
    for byte in topic {
        match byte {
            b'/' => {
                if is_empty {
                    out.push(b'/');
                }
                out.push(b'.');
            }
            b'.' => out.extend_from_slice(b"//"),
            b'+' => out.push(b'*'),
            b'#' => out.push(b'>'),
            byte => out.push(*byte),
        }
        is_empty = *byte == b'/';
    }
    if is_empty {
        out.push(b'/');
    }
}

/// Pattern of the level above `#`, which the filter matches as well: `foo` for `foo.>`.
pub fn level_above(pattern: &[u8]) -> Option<&[u8]> {
    pattern.strip_suffix(b".>").filter(|above| !above.is_empty())
}

/// Whether subscriptions to the pattern do not get messages whose topic begins with `$`: its first
/// level is a wildcard.
pub fn leaves_out_dollar(pattern: &[u8]) -> bool {
    matches!(pattern, b">" | b"*" | [b'*', b'.', ..])
}

/// Bytes of the topic that `subject` is.
#[inline]
pub fn topic_len(subject: &[u8]) -> usize {
    match subject.contains(&b'/') {
        false => subject.len(),
        true => topic_bytes(subject).count(),
    }
}

/// Appends the topic of a subject: [`topic_len`] bytes.
///
/// Compat: a `/` in front of anything but `.` or `/`, which no topic leads to, is left out.
#[inline]
pub fn subject_to_topic(subject: &[u8], out: &mut Vec<u8>) {
    if subject.contains(&b'/') {
        return out.extend(topic_bytes(subject));
    }
    let start = out.len();
    out.extend_from_slice(subject);
    for byte in &mut out[start..] {
        if *byte == b'.' {
            *byte = b'/';
        }
    }
}

/// Bytes of the topic of a subject with a `/` in it.
fn topic_bytes(subject: &[u8]) -> impl Iterator<Item = u8> {
    let mut bytes = subject.iter().copied().peekable();
    std::iter::from_fn(move || {
        loop {
            match bytes.next()? {
                b'.' => return Some(b'/'),
                b'/' => match bytes.next_if(|byte| matches!(byte, b'.' | b'/')) {
                    Some(b'.') => return Some(b'/'),
                    Some(_) => return Some(b'.'),
                    None => {}
                },
                byte => return Some(byte),
            }
        }
    })
}

/// Whether the subject of a NATS publisher is a topic that MQTT clients take: UTF-8 without
/// wildcards and U+0000. Clients end their connection over others.
pub fn is_topic(subject: &[u8]) -> bool {
    std::str::from_utf8(subject).is_ok() && !subject.iter().any(|byte| matches!(byte, 0 | b'+' | b'#'))
}

/// Filter of a shared subscription, `$share/group/filter` (MQTT 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedFilter<'a> {
    /// Name of the group: a queue group's in NATS.
    pub group: &'a str,
    /// Filter that its members share.
    pub filter: &'a str,
}

/// The parts of a shared subscription's filter; `None` if it is not shared.
///
/// # Errors
/// [`TopicFault::Share`] when it begins as one, and has no group or no filter, or wildcards in the
/// group; [`TopicFault::Character`] when no queue group can have that name.
pub fn shared(filter: &str) -> Result<Option<SharedFilter<'_>>, TopicFault> {
    let Some(rest) = filter.strip_prefix(SHARED) else { return Ok(None) };
    let (group, filter) = rest.split_once('/').ok_or(TopicFault::Share)?;
    if group.is_empty() || filter.is_empty() || group.contains(['+', '#']) {
        return Err(TopicFault::Share);
    }
    match group.bytes().any(is_refused) {
        true => Err(TopicFault::Character),
        false => Ok(Some(SharedFilter { group, filter })),
    }
}
