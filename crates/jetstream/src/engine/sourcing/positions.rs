//! How far the sources of a stream are.
//!
//! Every sourced message says in its header where it comes from, so what is stored and how far a
//! source is are one write. But messages go: by limits, by purges, because consumers had them. So
//! after each run of a source, still in the turn, its position is written to the log of the
//! stream's consumers. A crash may leave more of one log than of the other:
//!
//! - More of the stream: what it says of sources is taken from the messages that are read when it
//!   is opened, also those that are gone again (`SeenPositions`), and from those that it still has
//!   (`position_search`). What is gone from a sealed segment is not read any more: before one is
//!   sealed, the positions are synced ([`upkeep`]).
//! - More of the positions: each has those before it along, back to one whose messages survive
//!   anything. The last one that the stream can have is believed.
//!
//! A source of which nothing is known is noted as it is found, before anything is copied: later it
//! could not be told from one whose messages are gone again.

use super::render::SourceHeader;
use crate::engine::consumers::{POSITION_PREFIX, StreamConsumers, is_position};
use myelin_jsapi::config::StreamConfig;
use myelin_stdx::sync::lock;
use myelin_store::consumer::{AckPolicy, AckRules, Consumers};
use myelin_store::journal::Journal;
use myelin_store::{Done, Job, Seq, Timestamp};
use myelin_wire::header;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Acquire};
use std::sync::{Arc, Mutex};

pub(super) const RULES: AckRules = AckRules { acks: AckPolicy::None, max_deliver: None };

/// The header that says it.
pub(super) const SOURCE: &[u8] = b"Nats-Stream-Source";

/// The log that positions are kept in.
pub(super) trait PositionStore {
    /// Keeps something under a name; `None`: no longer.
    fn note(&self, name: &str, blob: Option<&[u8]>);
    /// The positions, by what follows the prefix of their names.
    fn kept(&self) -> Vec<(String, SourcePosition)>;
}

impl PositionStore for StreamConsumers {
    fn note(&self, name: &str, blob: Option<&[u8]>) {
        self.report_position_writes(&self.note_position(name, RULES, blob));
    }

    fn kept(&self) -> Vec<(String, SourcePosition)> {
        self.positions(POSITION_PREFIX, read)
    }
}

/// How far a source is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SourcePosition {
    /// The last sequence of the origin that was looked at; 0: none.
    pub(super) seq: Seq,
    /// Which stream that was: one that is made anew under its name begins anew.
    pub(super) identity: String,
    /// The stream's own last sequence then.
    pub(super) local: Seq,
    /// `seq` and `local` as they were before, oldest first: more than a loss of power can take of
    /// the stream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) before: Vec<(Seq, Seq)>,
    /// Whether it is an earlier position, of which not all are kept: the stream may have messages
    /// of this source behind `local`, until there is another position.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) thrown_back: bool,
    /// Time of the last message that the stream had before anything was known of the source: older
    /// ones of the origin are taken to be here, or to be gone. `None`: none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
}

impl SourcePosition {
    /// The position when the stream ended at `last`; `None`: it says nothing of that.
    fn at(mut self, last: Seq) -> Option<Self> {
        while self.local > last {
            (self.seq, self.local) = self.before.pop()?;
            self.thrown_back = true;
        }
        Some(self)
    }
}

/// Positions of sources, as messages that were read when the stream was opened say, by the source:
/// the last of each counts.
#[derive(Default)]
pub(in crate::engine) struct SeenPositions(BTreeMap<String, SourcePosition>);

impl SeenPositions {
    /// A message was read.
    pub(in crate::engine) fn see(&mut self, local: Seq, headers: &[u8]) {
        let Some(origin) = header::get(headers, SOURCE).and_then(SourceHeader::read) else { return };
        let identity = origin.identity.to_owned();
        let position = SourcePosition { seq: origin.seq, identity, local, ..SourcePosition::default() };
        if !myelin_stdx::planted::bug(16) {
            self.0.insert(origin.index(), position);
        }
    }
}

/// Positions of a stream's sources, as the log of its consumers keeps them.
#[derive(Clone)]
pub(super) struct Positions {
    consumers: Arc<StreamConsumers>,
    /// Sequence that [`reconcile`] has answered last.
    looked_through: Arc<AtomicU64>,
    /// The last sequence that was passed over in a stream that had nothing; else 0.
    passed: Arc<AtomicU64>,
}

impl Positions {
    pub(super) fn of(
        consumers: &Arc<StreamConsumers>,
        looked_through: &Arc<AtomicU64>,
        passed: &Arc<AtomicU64>,
    ) -> Self {
        Self {
            consumers: Arc::clone(consumers),
            looked_through: Arc::clone(looked_through),
            passed: Arc::clone(passed),
        }
    }

    /// The first sequence that a message of the stream could have, where all before it were passed
    /// over without one.
    pub(super) fn first(&self) -> Seq {
        self.passed.load(Acquire) + 1
    }

    /// Notes how far a source is. An error is the disk's: the next one that is written writes this
    /// one, too.
    pub(super) fn write(&self, index: &str, position: &SourcePosition) {
        write(&*self.consumers, index, position);
    }

    /// Forgets a source.
    pub(super) fn remove(&self, index: &str) {
        remove(&*self.consumers, index);
    }

    /// Positions that were written of sources, and up to where in the stream that is all there is
    /// to know of them.
    pub(super) fn written(&self) -> (BTreeMap<String, SourcePosition>, Seq) {
        // Not as far as others have come meanwhile: what one had stored last may be before that.
        (self.consumers.kept().into_iter().collect(), self.looked_through.load(Acquire))
    }
}

/// Brings the positions of a stream that was opened and ends at `last` into line with it. Answers
/// how far they tell of the stream: what is behind may say more. Before anything is added to the
/// stream.
pub(super) fn reconcile(
    store: &impl PositionStore,
    config: &StreamConfig,
    last: Seq,
    seen: SeenPositions,
) -> Seq {
    let wanted: Vec<String> = config.sources.iter().map(super::render::index_name).collect();
    let (mut looked_through, mut thrown_back) = (0, Seq::MAX);
    let mut known = BTreeMap::new();
    for (index, written) in store.kept() {
        // A source that was taken away may be here still, after a loss of power.
        let believed = written.clone().at(last).filter(|_| wanted.contains(&index));
        match believed {
            Some(position) => {
                looked_through = looked_through.max(position.local);
                if position.thrown_back {
                    thrown_back = thrown_back.min(position.local);
                }
                if position != written {
                    write(store, &index, &position);
                }
                known.insert(index, position);
            }
            None => remove(store, &index),
        }
    }
    for (index, position) in seen.0 {
        let is_newer = known.get(&index).is_none_or(|known| position.local > known.local);
        if is_newer && position.local <= last && wanted.contains(&index) {
            write(store, &index, &position);
        }
    }
    looked_through.min(thrown_back)
}

/// Does a job of the stream whose consumers' log this is. Only for threads that may wait.
///
/// The job was given out in the stream's turn, so the positions of all messages of a closed segment
/// were noted before.
pub(in crate::engine) fn upkeep(
    job: Job,
    states: &Mutex<Consumers>,
    journal: &Journal,
    now: Timestamp,
) -> Done {
    if job.seals() { job.run_after(|| sync(states, journal, now)) } else { job.run() }
}

/// Has the positions that were noted survive a loss of power.
fn sync(states: &Mutex<Consumers>, journal: &Journal, now: Timestamp) -> io::Result<()> {
    let mut held = lock(states);
    if !held.iter().any(|(_, kept)| is_position(kept.name())) {
        return Ok(());
    }
    let Some(noted) = held.flush(now)? else { return Ok(()) };
    if held.is_synced(noted) {
        return Ok(());
    }
    drop(held);
    journal.round_now(&|| now.unsigned_abs()).map_err(io::Error::other)?;
    let mut held = lock(states);
    // A file that could not be synced will not be: another one takes its place, which is.
    if held.is_synced(noted) { Ok(()) } else { held.checkpoint().map(drop) }
}

pub(super) fn write(store: &impl PositionStore, index: &str, position: &SourcePosition) {
    let Ok(blob) = serde_json::to_vec(position) else { return };
    store.note(&name(index), Some(&blob));
}

fn remove(store: &impl PositionStore, index: &str) {
    store.note(&name(index), None);
}

/// Reads a position out of a blob.
pub(super) fn read(blob: &[u8]) -> Option<SourcePosition> {
    serde_json::from_slice(blob).ok()
}

fn name(index: &str) -> String {
    format!("{POSITION_PREFIX}{index}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(seq: Seq, local: Seq, before: &[(Seq, Seq)]) -> SourcePosition {
        let before = before.to_vec();
        SourcePosition { seq, identity: "i".into(), local, before, ..SourcePosition::default() }
    }

    fn thrown_back(to: SourcePosition) -> SourcePosition {
        SourcePosition { thrown_back: true, ..to }
    }

    #[test]
    fn a_position_beyond_the_end_of_the_stream_gives_way_to_one_before() {
        let written = position(30, 90, &[(10, 50), (20, 70)]);
        assert_eq!(written.clone().at(90), Some(written.clone()));
        assert_eq!(written.clone().at(89), Some(thrown_back(position(20, 70, &[(10, 50)]))));
        assert_eq!(written.clone().at(69), Some(thrown_back(position(10, 50, &[]))));
        assert_eq!(written.at(49), None);
    }

    /// A store in memory.
    #[derive(Default)]
    struct Book(std::cell::RefCell<BTreeMap<String, SourcePosition>>);

    impl PositionStore for Book {
        fn note(&self, name: &str, blob: Option<&[u8]>) {
            let index = name.strip_prefix(POSITION_PREFIX).expect("the name of a position").to_owned();
            match blob.and_then(read) {
                Some(position) => self.0.borrow_mut().insert(index, position),
                None => self.0.borrow_mut().remove(&index),
            };
        }

        fn kept(&self) -> Vec<(String, SourcePosition)> {
            self.0.borrow().clone().into_iter().collect()
        }
    }

    /// Between the one that is believed and the one that is lost there were others, and what they
    /// told of may be stored.
    #[test]
    fn behind_a_position_that_was_thrown_back_the_stream_is_searched() {
        let source =
            |name: &str| myelin_jsapi::config::StreamSource { name: name.to_owned(), ..Default::default() };
        let config = StreamConfig { sources: vec![source("A"), source("B")], ..Default::default() };
        let index = |at: usize| super::super::render::index_name(&config.sources[at]);
        let book = Book::default();
        write(&book, &index(0), &position(9, 120, &[(3, 70), (8, 110)]));
        write(&book, &index(1), &position(5, 89, &[]));
        assert_eq!(reconcile(&book, &config, 120, SeenPositions::default()), 120);
        assert_eq!(reconcile(&book, &config, 89, SeenPositions::default()), 70);
        // Also when it is opened once more before there is another position.
        assert_eq!(reconcile(&book, &config, 89, SeenPositions::default()), 70);
        write(&book, &index(0), &position(7, 90, &[]));
        assert_eq!(reconcile(&book, &config, 90, SeenPositions::default()), 90);
    }

    #[test]
    fn a_position_of_before_there_were_others_is_read() {
        let old = r#"{"seq":5,"identity":"i","local":7}"#;
        assert_eq!(serde_json::from_str::<SourcePosition>(old).unwrap(), position(5, 7, &[]));
        assert_eq!(serde_json::to_string(&position(5, 7, &[])).unwrap(), old);
    }

    #[test]
    fn of_each_source_the_last_message_counts() {
        let mut seen = SeenPositions::default();
        let headers = |value: &str| format!("NATS/1.0\r\nNats-Stream-Source: {value}\r\n\r\n");
        seen.see(3, headers("A 7 > > a.1 ident").as_bytes());
        seen.see(4, headers("B 1 b.* > b.1 ident").as_bytes());
        seen.see(5, headers("A 8 > > a.1 other").as_bytes());
        seen.see(6, b"");
        let a = SourcePosition { seq: 8, identity: "other".into(), local: 5, ..SourcePosition::default() };
        assert_eq!(seen.0.get("A > >"), Some(&a));
        assert_eq!(seen.0.get("B b.* >").map(|position| position.local), Some(4));
    }
}
