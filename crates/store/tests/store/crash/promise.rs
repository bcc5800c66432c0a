//! Promises about each stream, and whether what is left keeps them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use myelin_store::{Durability, Filter, Seq, Stream, StreamId, Wait};

use crate::enumeration::Loss;
use crate::twin::{Kept, Twin};

/// Promises of one run of the script, by the streams' names.
#[derive(Clone, Default)]
pub(super) struct Promises {
    pub(super) streams: BTreeMap<&'static str, Promise>,
}

/// Promises about one stream.
#[derive(Clone)]
pub(super) struct Promise {
    pub(super) life: Life,
    /// Once it is there.
    pub(super) id: Option<StreamId>,
    pub(super) durability: Durability,
    /// All states it had, the newest perhaps begun only.
    pub(super) history: Vec<Arc<Twin>>,
    /// Index of the state that survives the process.
    pub(super) released: usize,
    /// Index of the state that survives a loss of power.
    pub(super) durable: usize,
}

/// Whether a stream is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Creation has begun: the stream may be there.
    Begun,
    There,
    /// Deletion has begun: the stream may still be there.
    Ending,
    Gone,
}

impl fmt::Debug for Promises {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, promise) in &self.streams {
            let Promise { life, history, released, durable, .. } = promise;
            let states = history.len();
            write!(f, "\n{name}: {life:?}, {states} states, released {released}, durable {durable}")?;
        }
        Ok(())
    }
}

impl Promise {
    pub(super) fn new(durability: Durability, first: Twin) -> Self {
        Self {
            life: Life::Begun,
            id: None,
            durability,
            history: vec![Arc::new(first)],
            released: 0,
            durable: 0,
        }
    }

    pub(super) fn newest(&self) -> usize {
        self.history.len() - 1
    }

    /// Which state the stream is in, if it is one that it may be in.
    pub(super) fn find(&self, shown: &Shown, loss: Loss) -> Result<usize, String> {
        let least = match loss {
            Loss::Process | Loss::ProcessOnFullDisk => self.released,
            Loss::Power(_) => self.durable,
        };
        let states = self.history.iter().enumerate().skip(least);
        states.rev().find(|(_, twin)| shown.is(twin)).map(|(at, _)| at).ok_or_else(|| {
            let older = self.history.iter().position(|twin| shown.is(twin));
            let wanted: Vec<_> = self.history[least..].iter().map(|twin| brief(twin)).collect();
            format!("it shows {shown:?}, as in state {older:?}, and may show {wanted:#?}")
        })
    }

    /// Notes that state `at` was shown: it must not vanish any more.
    pub(super) fn is_shown(&mut self, at: usize) {
        self.life = Life::There;
        self.released = self.released.max(at);
        self.durable = self.durable.max(at);
    }
}

fn brief(twin: &Twin) -> String {
    format!("{}..={}: {:?}", twin.first_seq(), twin.last_seq, twin.messages.keys().collect::<Vec<_>>())
}

/// Everything that a stream shows.
#[derive(PartialEq)]
pub(super) struct Shown {
    pub(super) messages: BTreeMap<Seq, Kept>,
    first: Seq,
    last: Seq,
    count: u64,
    bytes: u64,
    subjects: Vec<(Vec<u8>, u64)>,
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { messages, first, last, count, bytes, subjects } = self;
        let subjects: u64 = subjects.iter().map(|(_, count)| count).sum();
        write!(f, "{first}..={last}: {:?} ({count}, {bytes} bytes, {subjects} by subject)", messages.keys())
    }
}

impl Shown {
    pub(super) fn of(stream: &Stream) -> Result<Self, String> {
        let reader = stream.reader();
        let mut messages = BTreeMap::new();
        let mut cursor = reader.cursor(Filter::All, 0);
        while let Some(message) = cursor.next(Wait::Allowed).map_err(|error| error.to_string())? {
            messages.insert(message.seq, Kept::of(&message));
        }
        let totals = stream.state().totals;
        let subjects = reader.subjects(b">", None, usize::MAX);
        Ok(Self {
            messages,
            first: totals.first_seq,
            last: totals.last_seq,
            count: totals.messages,
            bytes: totals.bytes,
            subjects: subjects.into_iter().map(|(text, count)| (text.to_vec(), count)).collect(),
        })
    }

    fn is(&self, twin: &Twin) -> bool {
        self.last == twin.last_seq
            && self.first == twin.first_seq()
            && self.messages == twin.messages
            && self.count == twin.messages.len() as u64
            && self.bytes == twin.bytes()
            && self.subjects.iter().cloned().eq(twin.subjects(&Filter::All))
    }
}
