//! Topics and filters of MQTT, and the subjects that they are in NATS.
//!
//! | in a topic | in a subject |
//! |---|---|
//! | `/` between levels | `.` |
//! | an empty level: a leading `/`, `//`, a trailing `/` | the token `/` |
//! | `.` | `//` |
//! | `+`, `#` in a filter | `*`, `>` |
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
    /// A wildcard in the topic of a message.
    Wildcard,
    /// A blank or a control character.
    Character,
}

impl fmt::Display for TopicFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}

/// Whether messages can be published to the topic.
///
/// # Errors
/// Why not.
pub fn check_name(topic: &str) -> Result<(), TopicFault> {
    todo!()
}

/// Appends the subject of a message's topic. After an error nothing was appended.
///
/// # Errors
/// When the topic has no subject.
pub fn name_to_subject(topic: &str, out: &mut Vec<u8>) -> Result<(), TopicFault> {
    todo!()
}

/// Appends the subject pattern of a filter. After an error nothing was appended.
///
/// # Errors
/// When the filter has no subject.
pub fn filter_to_subject(filter: &str, out: &mut Vec<u8>) -> Result<(), TopicFault> {
    todo!()
}

/// Pattern of the level above `#`, which the filter matches as well: `foo` for `foo.>`.
pub fn level_above(pattern: &[u8]) -> Option<&[u8]> {
    todo!()
}

/// Whether subscriptions to the pattern do not get messages whose topic begins with `$`: it begins
/// with a wildcard.
pub fn leaves_out_dollar(pattern: &[u8]) -> bool {
    todo!()
}

/// Bytes of the topic that `subject` is.
pub fn topic_len(subject: &[u8]) -> usize {
    todo!()
}

/// Appends the topic of a subject: [`topic_len`] bytes.
pub fn subject_to_topic(subject: &[u8], out: &mut Vec<u8>) {
    todo!()
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
/// When it begins as one, and has no group or no filter, or the group is no name.
pub fn shared(filter: &str) -> Result<Option<SharedFilter<'_>>, TopicFault> {
    todo!()
}
