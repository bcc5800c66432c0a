//! How far the sources of a stream are.
//!
//! Every sourced message says in its header where it comes from, so what is stored and how far a source is are one write.
//! But messages go: by limits, by purges, because consumers had them. So after each run of a source, still in the turn, its
//! position is written to the log of the stream's consumers. What a crash may cut off between the two writes is the position
//! of one run, whose messages are the last of the stream: at the start they are read.

use super::render::read_source;
use crate::engine::LiveStream;
use crate::engine::consumers::StreamConsumers;
use myelin_store::consumer::{AckPolicy, Rules};
use myelin_store::{Filter, ReadError, Reader, Seq, Wait};
use myelin_wire::header;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
}

impl Positions {
    pub(super) fn of(stream: &LiveStream) -> Self {
        Self { consumers: Arc::clone(stream.consumers()) }
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
        let last = reader.state().totals.last_seq;
        // After a loss of power what was written here may be newer than the stream.
        let mut known: Vec<(String, Position)> = self.consumers.positions(PREFIX, |blob| {
            serde_json::from_slice::<Position>(blob).ok().filter(|position| position.local <= last)
        });
        let through = known.iter().map(|(_, position)| position.local).max().unwrap_or(0);
        let written = known.iter().position(|(name, _)| name == index).map(|at| known.swap_remove(at).1);
        let from = if written.is_some() { through + 1 } else { 0 };
        Ok(find(index, reader, from)?.or(written).unwrap_or_default())
    }
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
            Ok(None) => return Ok(found),
            // A message that is damaged says nothing.
            Err(ReadError::WouldWait | ReadError::More) => {}
            Err(_) => cursor.skip(at.max(cursor.position())),
        }
    }
}
