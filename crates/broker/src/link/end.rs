//! The end of a link that all shards share: its scope and rules, and the control bytes that wait
//! for the next flush.

use crate::outbox::{AppendCounts, Outbox, Queued, Segment, Staged};
use arc_swap::ArcSwapOption;
use myelin_auth::Permissions;
use myelin_stdx::mem::Accountant;
use myelin_stdx::sync::lock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

/// Accounts that a link is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkScope {
    /// Accounts that this server puts at this place of its pool.
    Pooled(u32),
    /// One account only, whose name is left out of what is said.
    Dedicated(String),
    /// All: there is but one link to the other server.
    All,
}

/// The part of a connection that only links have.
#[derive(Default)]
pub(crate) struct LinkEnd {
    /// Known once the handshake is over.
    pub(super) scope: OnceLock<LinkScope>,
    /// Rules for what may cross the link; `None` where everything may.
    pub(super) rules: ArcSwapOption<Permissions>,
    /// Whoever has this lock may take that of the outbox, and no other.
    control: Mutex<Vec<u8>>,
    /// The owner shard was told to flush it and has not begun to: it is not told again.
    pub(super) is_woken: AtomicBool,
    /// The other side tells what becomes of traced messages.
    pub(super) traces: AtomicBool,
}

impl LinkEnd {
    /// Adds control bytes; true when the owner shard is to be woken for them.
    pub(super) fn say(&self, bytes: &[u8]) -> bool {
        let mut control = lock(&self.control);
        control.extend_from_slice(bytes);
        // Under the lock: who finds it set adds before the owner takes what is there.
        !self.is_woken.swap(true, Relaxed)
    }

    /// Moves control bytes and then what a shard has staged into the outbox, in one step.
    pub(crate) fn queue<W: Ord + Clone>(
        &self,
        outbox: &Outbox<W>,
        memory: &Accountant,
        segments: &mut Staged,
        mut load: AppendCounts,
    ) -> Queued {
        let mut control = lock(&self.control);
        if !control.is_empty() {
            let control = std::mem::take(&mut *control);
            load.wire += control.len();
            load.own += control.len();
            segments.insert(0, Segment::Own(control));
        }
        outbox.append(segments, load, memory)
    }

    /// Whether the other side tells what becomes of traced messages.
    pub(crate) fn traces(&self) -> bool {
        self.traces.load(Relaxed)
    }
}
