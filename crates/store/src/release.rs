//! The release position of a stream: up to which sequence everything may be shown and acknowledged.
//!
//! Appends enter in order; durability is reported per segment, in any order of segments. The position moves only over
//! appends that are durable without a gap, so that a later segment that was synced first releases nothing early.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{SegmentNo, Seq};

/// An append that is not released.
#[derive(Clone, Copy, Debug)]
struct Pending {
    segment: SegmentNo,
    end: u64,
    last_seq: Seq,
}

#[derive(Debug, Default)]
struct State {
    pending: VecDeque<Pending>,
    /// How far each segment is durable, of those that were reported and may still have appends pending.
    durable: BTreeMap<SegmentNo, u64>,
}

/// The release position of a stream.
#[derive(Debug)]
pub struct Release {
    state: Mutex<State>,
    released: AtomicU64,
}

impl Release {
    /// Everything up to `released` is durable already.
    pub fn new(released: Seq) -> Self {
        Self { state: Mutex::default(), released: AtomicU64::new(released) }
    }

    /// Up to which sequence everything may be shown.
    pub fn released(&self) -> Seq {
        self.released.load(Ordering::Acquire)
    }

    /// Appends that wait.
    pub fn pending(&self) -> usize {
        self.lock().pending.len()
    }

    /// An append ends at `end` of `segment`; `last_seq` is the stream's last sequence after it. In the order of the
    /// log. Gives the new position if the append was durable before this was called.
    pub fn appended(&self, segment: SegmentNo, end: u64, last_seq: Seq) -> Option<Seq> {
        let mut state = self.lock();
        state.pending.push_back(Pending { segment, end, last_seq });
        self.advance(&mut state)
    }

    /// Everything before `offset` of `segment` is durable. Gives the new position if it moved.
    pub fn durable(&self, segment: SegmentNo, offset: u64) -> Option<Seq> {
        let mut state = self.lock();
        let durable = state.durable.entry(segment).or_default();
        *durable = offset.max(*durable);
        self.advance(&mut state)
    }

    fn advance(&self, state: &mut State) -> Option<Seq> {
        let mut moved = None;
        while let Some(first) = state.pending.front() {
            if state.durable.get(&first.segment).is_none_or(|durable| *durable < first.end) {
                break;
            }
            moved = Some(first.last_seq);
            state.pending.pop_front();
        }
        // What is before the first pending append is of no use any more; neither is all but the newest when none is.
        let oldest = match state.pending.front() {
            Some(first) => Some(first.segment),
            None => state.durable.last_key_value().map(|(segment, _)| *segment),
        };
        if let Some(oldest) = oldest {
            state.durable = state.durable.split_off(&oldest);
        }
        if let Some(released) = moved {
            self.released.store(released, Ordering::Release);
        }
        moved
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
