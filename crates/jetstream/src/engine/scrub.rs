//! Scrub: what streams have stored is read now and then, so that damage is found while others have
//! what it has taken, and before somebody needs it.
//!
//! A replica is read when it has become a member of its group, every stream once a week, and any of
//! them when somebody asks. Whoever meets damage tells of it as any reader does: nothing here knows
//! what follows. Reads so little at a time, with pauses, that nobody else waits for the disk.

use super::host::{Host, Timer};
use myelin_stdx::sync::lock;
use myelin_store::Timestamp;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

/// Nanoseconds between two slices.
const PAUSE: Timestamp = 50_000_000;
/// Bytes that are read in one slice: some 20 MB in a second.
const SLICE: u64 = 1 << 20;
/// Streams of which some is read in one slice.
const STREAMS: usize = 64;

/// Stream of which what is stored can be read as a whole.
pub(in crate::engine) trait Scrubbed: Send + Sync {
    /// Begins a pass over what it has stored. Answers whether there is something to read, and
    /// nobody does already.
    fn begin_pass(&self) -> bool;

    /// Reads on in its pass, about so many bytes, so that damage is found. Answers whether there is
    /// more, and how many bytes it was. A panic ends the pass. Only for threads that may wait.
    fn read_on(&self, bytes: u64) -> (bool, u64);
}

/// Reader of what streams have stored.
pub(in crate::engine) struct Scrubber {
    host: Arc<dyn Host>,
    unread: Mutex<Unread>,
    me_weak: Weak<Self>,
}

/// Streams whose pass goes on.
#[derive(Default)]
struct Unread {
    streams: VecDeque<Weak<dyn Scrubbed>>,
    /// Whether a slice is read soon, or is being read.
    is_under_way: bool,
}

impl Scrubber {
    pub(super) fn new(host: &Arc<dyn Host>) -> Arc<Self> {
        let host = Arc::clone(host);
        Arc::new_cyclic(|me_weak| Self { host, unread: Mutex::default(), me_weak: Weak::clone(me_weak) })
    }

    /// Has a stream read from its beginning, unless it is being read. Answers whether it was begun.
    pub(in crate::engine) fn read(&self, stream: &Arc<dyn Scrubbed>) -> bool {
        let begins = stream.begin_pass();
        if begins {
            let mut unread = lock(&self.unread);
            unread.streams.push_back(Arc::downgrade(stream));
            if !std::mem::replace(&mut unread.is_under_way, true) {
                drop(unread);
                self.arm();
            }
        }
        begins
    }

    fn arm(&self) {
        self.host.schedule(self.host.now() + PAUSE, Weak::clone(&self.me_weak) as Weak<dyn Timer>);
    }

    /// Reads a slice. Only for threads that may wait.
    fn read_slice(&self) {
        let _end = SliceEnd(self);
        let mut left = SLICE;
        for _ in 0..STREAMS {
            let Some(next) = lock(&self.unread).streams.pop_front() else { break };
            let Some(stream) = next.upgrade() else { continue };
            let (is_more, bytes) = stream.read_on(left);
            if is_more {
                lock(&self.unread).streams.push_back(next);
            }
            left = left.saturating_sub(bytes);
            if left == 0 {
                break;
            }
        }
    }
}

/// End of a slice, which has the next one read, whatever has ended this one: a stream that cannot
/// be read without a panic is not read on, and others are.
struct SliceEnd<'a>(&'a Scrubber);

impl Drop for SliceEnd<'_> {
    fn drop(&mut self) {
        let mut unread = lock(&self.0.unread);
        unread.is_under_way = !unread.streams.is_empty();
        if unread.is_under_way {
            drop(unread);
            self.0.arm();
        }
    }
}

impl Timer for Scrubber {
    fn fire(&self) {
        let me = Weak::clone(&self.me_weak);
        self.host
            .spawn_backup(Box::new(move || me.upgrade().iter().for_each(|scrubber| scrubber.read_slice())));
    }
}
