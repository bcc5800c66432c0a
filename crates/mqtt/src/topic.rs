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
    let is_fault = |byte: u8| is_refused(byte) | (byte == b'+') | (byte == b'#');
    // Perf: no early exit, so that it runs on vectors.
    if !topic.bytes().fold(false, |any, byte| any | is_fault(byte)) {
        return Ok(());
    }
    match topic.bytes().find(|byte| is_fault(*byte)) {
        Some(b'+' | b'#') => Err(TopicFault::Wildcard),
        _ => Err(TopicFault::Character),
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
#[inline]
fn to_subject(topic: &[u8], out: &mut Vec<u8>) {
    if !is_plain(topic) {
        return to_subject_with_slashes(topic, out);
    }
    let start = out.len();
    out.extend_from_slice(topic);
    for byte in &mut out[start..] {
        *byte = match *byte {
            b'/' => b'.',
            b'+' => b'*',
            b'#' => b'>',
            other => other,
        };
    }
}

/// Whether no level is empty or has a dot in it, as in nearly all topics: their subjects are as
/// long as they are.
///
/// Perf: no early exit, so that it runs on vectors.
#[inline]
fn is_plain(topic: &[u8]) -> bool {
    let ends = topic.first() == Some(&b'/') || topic.last() == Some(&b'/');
    let has_dot = topic.iter().fold(false, |any, byte| any | (*byte == b'.'));
    let pairs = topic.iter().zip(topic.iter().skip(1));
    !pairs.fold(ends | has_dot, |any, (a, b)| any | ((*a == b'/') & (*b == b'/')))
}

fn to_subject_with_slashes(topic: &[u8], out: &mut Vec<u8>) {
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
    match subject.contains(&b'/') {
        true => out.extend(topic_bytes(subject)),
        false => plain_to_topic(subject, out),
    }
}

/// Appends the topic of a subject without a `/`, for which [`topic_len`] is the subject's length.
#[inline]
pub(crate) fn plain_to_topic(subject: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(subject);
    for byte in &mut out[start..] {
        *byte = if *byte == b'.' { b'/' } else { *byte };
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

/// Whether the subject of a NATS publisher is a topic that MQTT clients take: UTF-8, not empty, no
/// wildcards and no U+0000 in it. Clients end their connection over others.
pub fn is_topic(subject: &[u8]) -> bool {
    std::str::from_utf8(subject).is_ok()
        && !subject.iter().any(|byte| matches!(byte, 0 | b'+' | b'#'))
        && topic_len(subject) > 0
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

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_subject::{has_empty_token, is_well_formed, matches};
    use proptest::prelude::*;

    /// Topics, and their subjects as nats-server 2.15.2 publishes them.
    const NAMES: &[(&str, &str)] = &[
        ("foo", "foo"),
        ("foo/bar", "foo.bar"),
        ("/foo", "/.foo"),
        ("foo/", "foo./"),
        ("foo//bar", "foo./.bar"),
        ("foo///bar", "foo././.bar"),
        ("//foo", "/./.foo"),
        ("foo//", "foo././"),
        ("/", "/./"),
        ("//", "/././"),
        ("///", "/./././"),
        (".", "//"),
        ("..", "////"),
        ("a.b", "a//b"),
        ("a/.b", "a.//b"),
        ("a./b", "a//.b"),
        ("foo/.", "foo.//"),
        ("./foo", "//.foo"),
        ("/.", "/.//"),
        ("a/./b", "a.//.b"),
        ("/././", "/.//.//./"),
        ("a/*/b", "a.*.b"),
        (">", ">"),
        ("a*", "a*"),
        ("é/ö", "é.ö"),
        ("a\u{85}b", "a\u{85}b"),
        ("a\u{feff}b", "a\u{feff}b"),
        ("$SYS/x", "$SYS.x"),
        ("$share/g/x", "$share.g.x"),
    ];

    fn subject(topic: &str) -> Result<String, TopicFault> {
        let mut out = b"before ".to_vec();
        let outcome = name_to_subject(topic, &mut out);
        let written = String::from_utf8(out.split_off(7)).unwrap();
        assert!(outcome.is_ok() || written.is_empty(), "nothing is appended after an error");
        outcome.map(|()| written)
    }

    fn pattern(filter: &str) -> Result<String, TopicFault> {
        let mut out = Vec::new();
        filter_to_subject(filter, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    fn topic(subject: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        subject_to_topic(subject, &mut out);
        assert_eq!(out.len(), topic_len(subject));
        out
    }

    #[test]
    fn topics_are_the_subjects_of_nats_server() {
        for (name, wanted) in NAMES {
            assert_eq!(subject(name).as_deref(), Ok(*wanted));
            assert_eq!(topic(wanted.as_bytes()), name.as_bytes());
            assert!(is_topic(wanted.as_bytes()));
        }
    }

    #[test]
    fn subjects_that_no_topic_leads_to_lose_their_slashes() {
        for (subject, wanted) in [("a/b", "ab"), ("/a", "a"), ("a/", "a"), ("/", ""), ("a///b", "a.b")] {
            assert_eq!(topic(subject.as_bytes()), wanted.as_bytes(), "{subject}");
        }
        assert!(!is_topic(b"/"));
        for bytes in [&b"a+"[..], b"#", b"a\0", b"\xff", b""] {
            assert!(!is_topic(bytes), "{bytes:?}");
        }
    }

    #[test]
    fn topics_with_faults() {
        for (name, fault) in [
            ("", TopicFault::Empty),
            ("a/+", TopicFault::Wildcard),
            ("#", TopicFault::Wildcard),
            ("a b", TopicFault::Character),
            ("a\tb+", TopicFault::Character),
            ("a+b\t", TopicFault::Wildcard),
            ("\u{7f}", TopicFault::Character),
        ] {
            assert_eq!(subject(name), Err(fault), "{name:?}");
        }
    }

    #[test]
    fn filters_are_the_patterns_of_nats_server() {
        for (filter, wanted) in [
            ("#", ">"),
            ("+", "*"),
            ("a/#", "a.>"),
            ("+/#", "*.>"),
            ("a/+/b", "a.*.b"),
            ("/#", "/.>"),
            ("a//#", "a./.>"),
            ("+/", "*./"),
            ("a.b/#", "a//b.>"),
            // Granted by nats-server, and read as it stands.
            ("a+", "a*"),
            ("a#", "a>"),
            ("a/>", "a.>"),
            ("*", "*"),
        ] {
            assert_eq!(pattern(filter).as_deref(), Ok(wanted));
        }
        for (filter, fault) in [
            ("", TopicFault::Empty),
            ("#/a", TopicFault::Wildcard),
            ("a/#/b", TopicFault::Wildcard),
            (">/a", TopicFault::Wildcard),
            ("a b", TopicFault::Character),
            ("a/\r\nPUB x 0\r\n\r\n", TopicFault::Character),
        ] {
            assert_eq!(pattern(filter), Err(fault), "{filter:?}");
        }
    }

    #[test]
    fn misplaced_wildcards_are_found() {
        for filter in ["+", "#", "a/+/b", "+/+/#", "a", "/+/", "+//#", "*", ">"] {
            assert!(!has_misplaced_wildcard(filter), "{filter}");
        }
        for filter in ["a+", "+a", "#a", "a#", "#/", "#/a", "a/#/b", "++", "+#", "##", "a/b+/c"] {
            assert!(has_misplaced_wildcard(filter), "{filter}");
        }
    }

    #[test]
    fn the_level_above_belongs_to_a_filter() {
        assert_eq!(level_above(b"foo.>"), Some(&b"foo"[..]));
        assert_eq!(level_above(b"a./.>"), Some(&b"a./"[..]));
        for pattern in [&b">"[..], b"foo", b"a>", b".>", b"*"] {
            assert_eq!(level_above(pattern), None);
        }
    }

    #[test]
    fn wildcards_in_front_leave_out_dollars() {
        for pattern in [&b">"[..], b"*", b"*.foo", b"*.>"] {
            assert!(leaves_out_dollar(pattern));
        }
        for pattern in [&b"$SYS.>"[..], b"foo.*", b"*a", b">a", b""] {
            assert!(!leaves_out_dollar(pattern));
        }
    }

    #[test]
    fn shared_filters_have_a_group() {
        let parts = |group, filter| Ok(Some(SharedFilter { group, filter }));
        assert_eq!(shared("$share/g/a/#"), parts("g", "a/#"));
        assert_eq!(shared("$share/g//"), parts("g", "/"));
        assert_eq!(shared("$share"), Ok(None));
        assert_eq!(shared("a/$share/g/b"), Ok(None));
        for filter in ["$share/", "$share//a", "$share/g", "$share/g/", "$share/+/a", "$share/g#/a"] {
            assert_eq!(shared(filter), Err(TopicFault::Share), "{filter}");
        }
        assert_eq!(shared("$share/g h/a"), Err(TopicFault::Character));
    }

    /// Whether a filter matches a topic, by the specification: level by level.
    fn is_matched(filter: &str, name: &str) -> bool {
        let mut filters = filter.split('/').peekable();
        let is_dollar = name.starts_with('$') && filter.starts_with(['+', '#']);
        let mut names = name.split('/');
        while let Some(level) = filters.next() {
            if level == "#" {
                return !is_dollar;
            }
            match names.next() {
                None => return false,
                Some(name) if level == "+" || level == name => {}
                Some(_) => return false,
            }
            if names.clone().next().is_none() && filters.peek() == Some(&"#") {
                return !is_dollar;
            }
        }
        names.next().is_none() && !is_dollar
    }

    fn some_topic() -> impl Strategy<Value = String> {
        "[$]?([a-c.]{0,2}/){0,4}[a-c.]{0,2}"
    }

    fn some_filter() -> impl Strategy<Value = String> {
        ("[$]?(([a-c.]{0,2}|\\+)/){0,4}", "[a-c.]{0,2}|\\+|#").prop_map(|(front, last)| front + &last)
    }

    proptest! {
        #[test]
        fn topics_come_back(name in some_topic()) {
            prop_assume!(!name.is_empty());
            let subject = subject(&name).unwrap();
            prop_assert!(is_well_formed(subject.as_bytes()));
            prop_assert_eq!(topic(subject.as_bytes()), name.as_bytes());
        }

        #[test]
        fn no_topic_ends_a_line(name in "[a/#+>*. \r\n\t\0]{0,9}|\\PC{0,9}") {
            for subject in [subject(&name), pattern(&name)].into_iter().flatten() {
                prop_assert!(subject.bytes().all(|byte| byte > b' ' && byte != 0x7f));
                prop_assert!(!has_empty_token(subject.as_bytes()));
            }
            if let Ok(pattern) = pattern(&name) {
                prop_assert!(is_well_formed(pattern.as_bytes()));
            }
        }

        #[test]
        fn any_subject_has_a_topic_of_its_length(subject in prop::collection::vec(
            prop_oneof![Just(b'/'), Just(b'.'), Just(b'a'), any::<u8>()], 0..20)) {
            topic(&subject);
        }

        #[test]
        fn plain_topics_are_no_exception(name in "[a/.+#]{1,12}") {
            let (mut quick, mut slow) = (Vec::new(), Vec::new());
            to_subject(name.as_bytes(), &mut quick);
            to_subject_with_slashes(name.as_bytes(), &mut slow);
            prop_assert_eq!(quick, slow);
        }

        /// Patterns match in NATS what filters match in MQTT, with the level above and without
        /// messages whose topic begins with a dollar.
        #[test]
        fn patterns_match_what_filters_match(filter in some_filter(), name in some_topic()) {
            prop_assume!(!name.is_empty() && !filter.is_empty());
            let (pattern, subject) = (pattern(&filter).unwrap(), subject(&name).unwrap());
            let (pattern, subject) = (pattern.as_bytes(), subject.as_bytes());
            let is_above = level_above(pattern).is_some_and(|above| matches(above, subject));
            let is_left_out = leaves_out_dollar(pattern) && name.starts_with('$');
            let is_met = (matches(pattern, subject) || is_above) && !is_left_out;
            prop_assert_eq!(is_met, is_matched(&filter, &name), "{} {}", filter, name);
        }
    }
}
