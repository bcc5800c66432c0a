//! Shares of MQTT 5 (`$share/NAME/FILTER`): names of what is stored for one.
//!
//! | what | where |
//! |---|---|
//! | the consumer that all members read | [`streams::MESSAGES`], [`consumer_name`] |
//! | each session that is a member, with its expiry | [`streams::SESSIONS`], [`member_subject`] |
//! | a message of QoS 2 that is one member's | [`streams::MESSAGES`], [`own_subject`] |

use crate::records::{ConsumerRecord, FOR_EVER, session_hash};
use crate::streams;
use std::time::Duration;

/// Beginning of the names of consumers of shares; the share's hash follows.
const CONSUMER_PREFIX: &str = "$MQTT_SHARE_";

/// Beginning of the subjects of members behind that of sessions. No session's hash has a dollar.
const MEMBERS: &str = "$share.";

/// Beginning of the subjects, behind the stream's, of messages that are one member's. No client
/// publishes or subscribes there.
const OWN: &str = "$MQTT.to.";

/// Requests of members that may wait at a share's consumer.
const MAX_WAITING: i64 = 10_000;

/// Time that a consumer outlives the sessions that are its members.
const OUTLIVES: Duration = Duration::from_secs(60);

/// Name of a share in subjects and names, made of its filter with `$share/NAME/`.
pub fn share_hash(filter: &str) -> String {
    session_hash(filter)
}

/// Name of the consumer that the members of a share read.
pub fn consumer_name(share: &str) -> String {
    format!("{CONSUMER_PREFIX}{share}")
}

/// The share that a consumer of this name is of.
pub fn share_of_consumer(name: &str) -> Option<&str> {
    name.strip_prefix(CONSUMER_PREFIX)
}

/// The consumer that the members of a share read, with the patterns of its filter.
pub fn consumer(share: &str, patterns: impl IntoIterator<Item = String>) -> ConsumerRecord {
    let prefix = streams::MESSAGES.subject_prefix;
    let filter_subjects = patterns.into_iter().map(|pattern| format!("{prefix}{pattern}")).collect();
    let consumer = ConsumerRecord::new(consumer_name(share), String::new(), String::new());
    ConsumerRecord { filter_subjects, max_waiting: MAX_WAITING, ..consumer }
}

/// A session that is a member of a share, as a subject says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// Hash of its client id.
    pub session: &'a str,
    /// Seconds that it outlives its connection.
    pub expiry: u32,
}

/// Subject of the record that a session is a member.
pub fn member_subject(domain: &str, share: &str, member: Member<'_>) -> String {
    let Member { session, expiry } = member;
    format!("{}{domain}{MEMBERS}{share}.{session}.{expiry}", streams::SESSIONS.subject_prefix)
}

/// Pattern of the records of all members of a share, or of one session's.
pub fn members_pattern(domain: &str, share: &str, session: Option<&str>) -> String {
    let session = session.map(|session| format!("{session}.")).unwrap_or_default();
    format!("{}{domain}{MEMBERS}{share}.{session}>", streams::SESSIONS.subject_prefix)
}

/// The member that a subject is about.
pub fn member_of(subject: &str) -> Option<Member<'_>> {
    let (rest, expiry) = subject.rsplit_once('.')?;
    let (_, session) = rest.rsplit_once('.')?;
    Some(Member { session, expiry: expiry.parse().ok()? })
}

/// Nanoseconds after which the consumer of members with these expiries is removed, if nobody has
/// asked it for anything; 0 is never.
pub fn inactive_threshold(expiries: impl IntoIterator<Item = u32>) -> i64 {
    let longest = expiries.into_iter().max().unwrap_or_default();
    let time = Duration::from_secs(longest.into()) + OUTLIVES;
    if longest == FOR_EVER { 0 } else { i64::try_from(time.as_nanos()).unwrap_or(i64::MAX) }
}

/// Where a message of a share is stored that is the session's alone.
pub fn own_subject(session: &str, share: &str, subject: &[u8]) -> Vec<u8> {
    let prefix = format!("{}{OWN}{session}.{share}.", streams::MESSAGES.subject_prefix);
    [prefix.as_bytes(), subject].concat()
}

/// Pattern of the messages of shares that are the session's alone, without the stream's prefix.
pub fn own_pattern(session: &str) -> String {
    format!("{OWN}{session}.>")
}

/// Session, share and subject of a message of a share that is a session's alone.
pub fn own_message(subject: &[u8]) -> Option<(&str, &str, &[u8])> {
    let rest = subject.strip_prefix(OWN.as_bytes())?;
    let mut parts = rest.splitn(3, |byte| *byte == b'.');
    let mut name = || parts.next().and_then(|part| std::str::from_utf8(part).ok());
    let (session, share) = (name()?, name()?);
    Some((session, share, parts.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_say_who_is_a_member() {
        let member = Member { session: "hash", expiry: 30 };
        let subject = member_subject("hub.", "name", member);
        assert_eq!(subject, "$MQTT.sess.hub.$share.name.hash.30");
        assert_eq!(member_of(&subject), Some(member));
        for session in [None, Some("hash")] {
            let pattern = members_pattern("hub.", "name", session);
            assert!(myelin_subject::matches(pattern.as_bytes(), subject.as_bytes()), "{pattern}");
        }
        let other = members_pattern("hub.", "name", Some("other"));
        assert!(!myelin_subject::matches(other.as_bytes(), subject.as_bytes()));
        assert_eq!(["", "a", "a.b", "a.b.c"].map(member_of), [None; 4]);
    }

    #[test]
    fn a_message_says_whose_it_is() {
        let subject = own_subject("hash", "name", b"a.b");
        let own = subject.strip_prefix(streams::MESSAGES.subject_prefix.as_bytes()).unwrap();
        assert_eq!(own_message(own), Some(("hash", "name", &b"a.b"[..])));
        assert!(myelin_subject::matches(own_pattern("hash").as_bytes(), own));
        assert_eq!(own_message(b"a.b"), None);
        assert_eq!(own_message(b"$MQTT.to.hash.name"), None);
    }

    #[test]
    fn a_consumer_outlives_its_longest_member() {
        assert_eq!(inactive_threshold([0]), 60_000_000_000);
        assert_eq!(inactive_threshold([0, 1000, 3]), 1_060_000_000_000);
        assert_eq!(inactive_threshold([0, FOR_EVER]), 0);
        assert_eq!(share_of_consumer(&consumer("x", []).durable_name), Some("x"));
    }
}
