//! Report of reading a consumer log.
//!
//! Owns facts only: where bytes were not what they should be, and which consumers that concerns.

use std::fmt;
use std::ops::Range;

use super::ConsumerId;

/// Faults that reading a stream's consumer logs brought to light. Empty when all was well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// The log that was read; `None` if there was none.
    pub file: Option<u64>,
    /// Where its entries end.
    pub end: u64,
    /// Changes that the log had, and has not any more.
    pub set_back: Option<SetBack>,
    /// Bytes that were cut off its end.
    pub torn: Option<Torn>,
    /// Ranges that are not what was written: damaged, or never synced before the power failed.
    pub bad: Vec<BadRange>,
    /// Consumers that these ranges concern, or may concern.
    pub affected: Vec<(ConsumerId, Box<str>, Affected)>,
    /// Consumers that are mentioned but not defined: their names and configurations are lost.
    pub orphans: Vec<ConsumerId>,
    /// Consumers that the log began with and that are not there any more.
    pub missing: u32,
    /// Logs that could not be read at all.
    pub unusable: Vec<String>,
    /// Bits that were not what was written, where it could be told which: counted from the start of
    /// the file. Nothing is lost by them.
    pub corrected: Vec<u64>,
}

impl LogReport {
    /// Whether it is not known what consumers were there, and in which state.
    #[must_use]
    pub fn has_losses(&self) -> bool {
        let Self {
            file: _,
            end: _,
            torn: _,
            corrected: _,
            set_back,
            bad,
            affected,
            orphans,
            missing,
            unusable,
        } = self;
        let is_whole = bad.is_empty() && affected.is_empty() && orphans.is_empty() && unusable.is_empty();
        !is_whole || set_back.is_some() || *missing > 0
    }

    /// Whether nothing has to be told.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        !self.has_losses() && self.torn.is_none() && self.corrected.is_empty()
    }
}

impl LogReport {
    /// Lists the facts that an operator should know, a line for each; none when all was well.
    pub fn notices(&self) -> Vec<String> {
        let log = self.file.map_or_else(|| "the consumer log".to_owned(), |no| format!("consumer log {no}"));
        let mut lines = Vec::new();
        if let Some(Torn { offset, bytes }) = self.torn {
            lines.push(format!(
                "{log} ends at byte {offset}: the {bytes} bytes behind were not complete when the server or the \
                 machine stopped"
            ));
        }
        lines.extend(self.set_back.as_ref().map(ToString::to_string));
        for BadRange { range, fault } in &self.bad {
            lines.push(format!("{log} is damaged: bytes {} to {} {fault}", range.start, range.end));
        }
        lines.extend(self.affected.iter().map(|(_, name, affected)| format!("consumer '{name}' {affected}")));
        if !self.orphans.is_empty() {
            let count = self.orphans.len();
            lines.push(format!(
                "{count} consumers whose names and configurations are lost with the damage: create them again"
            ));
        }
        if self.missing > 0 {
            let count = self.missing;
            lines.push(format!(
                "{count} consumers that {log} began with are lost with the damage: create them again"
            ));
        }
        lines.extend(self.corrected.iter().map(|bit| {
            format!("{log}: bit {bit} had changed and was corrected; nothing is lost, but look at the disk")
        }));
        lines.extend(self.unusable.iter().map(|what| format!("a consumer log cannot be used: {what}")));
        lines
    }
}

/// A log that is missing, empty or shorter than the watermarks say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetBack {
    /// The log.
    pub log: u64,
    /// Where it had come to.
    pub end: u64,
    /// Where it ends now; `None` if it is missing or cannot be read, so that an older one is in
    /// force or none.
    pub now: Option<u64>,
    /// How many consumers there were.
    pub consumers: u32,
    /// How many of these are missing at least.
    pub lost: u32,
}

impl fmt::Display for SetBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { log, end, now, consumers, lost } = self;
        match now {
            Some(now) => write!(f, "consumer log {log} had {end} bytes and has {now}")?,
            None => write!(f, "consumer log {log}, which had {end} bytes, is missing or cannot be read")?,
        }
        match lost {
            0 => f.write_str(": its consumers may deliver messages again"),
            _ => write!(f, ": {lost} of {consumers} consumers are lost: create them again"),
        }
    }
}

/// An end that was being written when the process or the power failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Where it begins.
    pub offset: u64,
    /// Up to the last byte that is not 0.
    pub bytes: u64,
}

/// A part of a log that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRange {
    /// Where, in bytes of the file.
    pub range: Range<u64>,
    /// Fault of the range.
    pub fault: BadBytes,
}

/// Fault of a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBytes {
    /// No entry begins there, or its checksum is wrong.
    Unreadable,
    /// An entry with the right checksum that was sealed with another key, or says what cannot be.
    Impossible,
}

/// How a bad range concerns a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affected {
    /// Changes are missing. It is set back to what is certain: messages may be delivered again.
    Rewound,
    /// Nothing of it follows the range, so changes may be missing. Its state is that before the
    /// range.
    Perhaps,
}

impl fmt::Display for BadBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "cannot be read",
            Self::Impossible => "say what cannot be, or were encrypted with another key",
        })
    }
}

impl fmt::Display for Affected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rewound => {
                "has lost changes: it goes on from the last state that is certain, and may deliver messages again"
            }
            Self::Perhaps => {
                "may have lost changes: it goes on from its state before the damage, and may deliver messages again"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_is_a_line_in_plain_words() {
        assert_eq!(LogReport::default().notices(), [""; 0]);
        let report = LogReport {
            file: Some(3),
            end: 400,
            set_back: Some(SetBack { log: 3, end: 500, now: Some(400), consumers: 5, lost: 2 }),
            torn: Some(Torn { offset: 400, bytes: 20 }),
            bad: vec![
                BadRange { range: 100..140, fault: BadBytes::Unreadable },
                BadRange { range: 200..240, fault: BadBytes::Impossible },
            ],
            affected: vec![
                (ConsumerId(1), "one".into(), Affected::Rewound),
                (ConsumerId(2), "two".into(), Affected::Perhaps),
            ],
            orphans: vec![ConsumerId(9)],
            missing: 2,
            unusable: vec!["consumers.0007: no header".to_owned()],
            corrected: vec![300],
        };
        let lines = report.notices();
        let begins = [
            "consumer log 3 ends at byte 400: the 20 bytes behind were not complete",
            "consumer log 3 had 500 bytes and has 400: 2 of 5 consumers are lost",
            "consumer log 3 is damaged: bytes 100 to 140 cannot be read",
            "consumer log 3 is damaged: bytes 200 to 240 say what cannot be",
            "consumer 'one' has lost changes",
            "consumer 'two' may have lost changes",
            "1 consumers whose names",
            "2 consumers that consumer log 3 began with",
            "consumer log 3: bit 300 had changed and was corrected",
            "a consumer log cannot be used: consumers.0007: no header",
        ];
        assert_eq!(lines.len(), begins.len(), "{lines:#?}");
        for (line, begin) in lines.iter().zip(begins) {
            assert!(line.starts_with(begin), "{line}");
        }
    }
}
