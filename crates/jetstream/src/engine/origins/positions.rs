//! How far the sources of a stream are.
//!
//! Every sourced message says in its header where it comes from, so what is stored and how far a source is are one write.
//! But messages go: by limits, by purges, because consumers had them. So after each run of a source, still in the turn, its
//! position is written to the log of the stream's consumers. What a crash may cut off between the two writes is the position
//! of one run, whose messages are the last of the stream: at the start they are read. What it may cut off of the stream alone
//! leaves positions that are newer: they are forgotten when the stream is opened.

use super::render::read_source;
use crate::engine::LiveStream;
use crate::engine::consumers::StreamConsumers;
use myelin_store::consumer::{AckPolicy, Rules};
use myelin_store::{Filter, ReadError, Reader, Seq, Wait};
use myelin_wire::header;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire};

/// What their names in that log begin with. No consumer's name can have a blank.
const PREFIX: &str = "source of: ";

const RULES: Rules = Rules { acks: AckPolicy::None, max_deliver: None };

/// Whether a name in the log of consumers is that of a position.
pub(in crate::engine) fn is_position(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// How far a source is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// The last sequence of the origin that was looked at; 0: none.
    pub(super) seq: Seq,
    /// Which stream that was: one that is made anew under its name begins anew.
    pub(super) identity: String,
    /// The stream's own last sequence then.
    pub(super) local: Seq,
}

/// See the head of this file.
#[derive(Clone)]
pub(super) struct Positions {
    consumers: Arc<StreamConsumers>,
    /// What [`forget_beyond`] has answered last.
    looked_through: Arc<AtomicU64>,
}

impl Positions {
    pub(super) fn of(stream: &LiveStream, looked_through: &Arc<AtomicU64>) -> Self {
        Self { consumers: Arc::clone(stream.consumers()), looked_through: Arc::clone(looked_through) }
    }

    /// Notes how far a source is. An error is the disk's: the next one that is written writes this one, too.
    pub(super) fn write(&self, index: &str, position: &Position) {
        let Ok(blob) = serde_json::to_vec(position) else { return };
        self.consumers.note_position(&name(index), RULES, Some(&blob));
    }

    /// Forgets a source.
    pub(super) fn remove(&self, index: &str) {
        self.consumers.note_position(&name(index), RULES, None);
    }

    /// How far a source is, by what was written and by what the stream has. Reads the stream; only for threads that may wait.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub(super) fn read(&self, index: &str, reader: &Reader) -> Result<Position, ReadError> {
        let known = all(&self.consumers);
        let written = known.into_iter().find(|(name, _)| name == index).map(|(_, position)| position);
        // Not as far as others have come meanwhile: what this one had stored last may be before that.
        let from = if written.is_some() { self.looked_through.load(Acquire) + 1 } else { 0 };
        let found = find(index, reader, from)?;
        let is_newer = |found: &Position| written.as_ref().is_none_or(|written| found.local > written.local);
        Ok(found.filter(is_newer).or(written).unwrap_or_default())
    }
}

/// Forgets positions that are newer than a stream that was opened and ends at `last`: after a loss of power, or a failure, it
/// may have lost what they tell of. Answers how far the others have looked. Before anything is added to the stream.
pub(super) fn forget_beyond(consumers: &StreamConsumers, last: Seq) -> Seq {
    let known = all(consumers);
    let (lost, looked_through) = sift(&known, last);
    lost.into_iter().for_each(|index| consumers.note_position(&name(index), RULES, None));
    looked_through
}

/// The sources whose positions are beyond `last`, and the furthest of the others.
fn sift(known: &[(String, Position)], last: Seq) -> (Vec<&str>, Seq) {
    let (mut lost, mut looked_through) = (Vec::new(), 0);
    for (index, position) in known {
        if position.local > last {
            lost.push(index.as_str());
        } else {
            looked_through = position.local.max(looked_through);
        }
    }
    (lost, looked_through)
}

fn all(consumers: &StreamConsumers) -> Vec<(String, Position)> {
    consumers.positions(PREFIX, |blob| serde_json::from_slice(blob).ok())
}

fn name(index: &str) -> String {
    format!("{PREFIX}{index}")
}

/// The position that the last message of a source says, of those from `from` on.
fn find(index: &str, reader: &Reader, from: Seq) -> Result<Option<Position>, ReadError> {
    let mut found = None;
    let mut cursor = reader.cursor(Filter::All, from);
    loop {
        let at = cursor.position();
        match cursor.next(Wait::Allowed) {
            Ok(Some(message)) => {
                if let Some(value) = header::get(message.headers, b"Nats-Stream-Source")
                    && let Some((source, seq, identity)) = read_source(value)
                    && source == index
                {
                    found = Some(Position { seq, identity, local: message.seq });
                }
            }
            Ok(None) | Err(ReadError::Unreleased) => return Ok(found),
            Err(ReadError::WouldWait | ReadError::More) => {}
            Err(error @ ReadError::Io(_)) => return Err(error),
            // A message that is damaged says nothing.
            Err(ReadError::Damaged(_)) => cursor.skip(at.max(cursor.position())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_beyond_the_end_of_the_stream_is_forgotten() {
        let at = |index: &str, local| (index.to_owned(), Position { local, ..Position::default() });
        let known = [at("A > >", 90), at("B > >", 91), at("C > >", 7)];
        assert_eq!(sift(&known, 90), (vec!["B > >"], 90));
        assert_eq!(sift(&known, 91), (vec![], 91));
        assert_eq!(sift(&known, 0), (vec!["A > >", "B > >", "C > >"], 0));
        assert_eq!(sift(&[], 5), (vec![], 0));
    }
}
