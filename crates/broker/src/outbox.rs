//! The outbox: bytes that wait for one connection's socket.
//!
//! Any shard appends; whoever takes the claim writes (contracts.md C6). A socket that would block
//! leaves the claim with the owner shard, which goes on when the socket takes bytes again. The lock
//! is held for a push or a swap, never over a system call.

use bytes::Bytes;
use myelin_stdx::backlog::Backlog;
use myelin_stdx::claim::{Append, Claimed, Finish};
use myelin_stdx::mem::{Accountant, MemKind};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Slices per write call: enough for a tick's worth of chunks, below IOV_MAX.
const MAX_SLICES: usize = 128;

/// Small appends to a queue that already waits are copied together, so that a slow receiver's
/// memory is close to its accounted bytes.
const COALESCE: usize = 4 * 1024;
const COALESCED_CHUNK: usize = 32 * 1024;

/// A run of bytes for a socket.
#[derive(Debug)]
pub enum Segment {
    /// Written for this connection only.
    Own(Vec<u8>),
    /// Shared with other connections: a fan-out block or a large payload.
    Shared(Bytes),
}

impl Segment {
    /// Bytes that only this connection holds.
    fn own_len(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.len(),
            Self::Shared(_) => 0,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// The segments that one shard has staged for one connection in one tick: mostly one.
pub(crate) type Staged = SmallVec<[Segment; 2]>;

/// Counts that an append adds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AppendCounts {
    /// Bytes on the wire.
    pub(crate) wire: usize,
    /// Bytes of them that no other connection shares.
    pub(crate) own: usize,
    pub(crate) msgs: u64,
    /// Payload bytes.
    pub(crate) payload: u64,
}

/// Result of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queued {
    /// The caller holds the claim and must [`drain`].
    Claimed,
    /// Someone else will write it.
    Left,
    /// The connection takes nothing any more.
    Closed,
}

#[derive(Debug, Default)]
struct SegmentQueue {
    segments: VecDeque<Segment>,
    /// Bytes of the first segment that are written already.
    written: usize,
    /// The connection has ended while someone held the claim: what comes back is given up.
    closed: bool,
}

impl SegmentQueue {
    /// Adds a segment; returns how many shared bytes became this connection's own by being copied.
    fn push(&mut self, segment: Segment) -> usize {
        let bytes = segment.bytes();
        if bytes.len() <= COALESCE && !self.segments.is_empty() {
            let copied = bytes.len() - segment.own_len();
            if let Some(Segment::Own(last)) = self.segments.back_mut()
                && last.capacity() - last.len() >= bytes.len()
            {
                last.extend_from_slice(bytes);
                return copied;
            }
            let mut chunk = Vec::with_capacity(COALESCED_CHUNK);
            chunk.extend_from_slice(bytes);
            self.segments.push_back(Segment::Own(chunk));
            return copied;
        }
        self.segments.push_back(segment);
        0
    }
}

/// How far a drain came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Everything is written and the claim given back.
    Empty,
    /// The socket takes nothing more; the claim is still held. `progress` says whether any byte
    /// went out.
    Blocked {
        /// Whether this call wrote anything.
        progress: bool,
    },
    /// The socket failed; the claim is given back and the connection must end.
    Failed(ErrorKind),
}

/// Bytes that wait for one connection's socket, with their claim. `W` is what waits for room.
#[derive(Debug)]
pub(crate) struct Outbox<W> {
    queue: Claimed<SegmentQueue>,
    /// Bytes that wait, and those that want to send more when these are few.
    pub(crate) backlog: Backlog<W>,
    out_msgs: AtomicU64,
    out_bytes: AtomicU64,
}

impl<W: Ord + Clone> Default for Outbox<W> {
    fn default() -> Self {
        Self {
            queue: Claimed::default(),
            backlog: Backlog::default(),
            out_msgs: AtomicU64::new(0),
            out_bytes: AtomicU64::new(0),
        }
    }
}

impl<W: Ord + Clone> Outbox<W> {
    pub(crate) fn pending(&self) -> usize {
        self.backlog.level()
    }

    pub(crate) fn chunks(&self) -> usize {
        self.queue.inspect(|queue| queue.segments.len())
    }

    pub(crate) fn sent(&self) -> (u64, u64) {
        (self.out_msgs.load(Relaxed), self.out_bytes.load(Relaxed))
    }

    /// Moves `segments` in. They are gone afterwards whatever the outcome.
    pub(crate) fn append(&self, segments: &mut Staged, load: AppendCounts, memory: &Accountant) -> Queued {
        debug_assert_eq!(
            segments.iter().map(|segment| segment.bytes().len()).sum::<usize>(),
            load.wire,
            "an append counts the bytes that it brings"
        );
        debug_assert_eq!(
            segments.iter().map(Segment::own_len).sum::<usize>(),
            load.own,
            "an append counts the bytes that nobody shares"
        );
        debug_assert!(load.payload as usize <= load.wire, "a payload is on the wire with its head");
        self.backlog.raise(load.wire);
        memory.charge(MemKind::Outbox, load.own);
        // Charged under the lock: a holder on another thread may write and release them right
        // after.
        let outcome = self.queue.with_queue(|queue| {
            let copied: usize = segments.drain(..).map(|s| queue.push(s)).sum();
            if copied > 0 {
                memory.charge(MemKind::Outbox, copied);
            }
        });
        if let Append::Closed = outcome {
            segments.clear();
            self.backlog.lower(load.wire);
            memory.release(MemKind::Outbox, load.own);
            return Queued::Closed;
        }
        if load.msgs > 0 {
            self.out_msgs.fetch_add(load.msgs, Relaxed);
            self.out_bytes.fetch_add(load.payload, Relaxed);
        }
        if let Append::Claimed = outcome { Queued::Claimed } else { Queued::Left }
    }

    pub(crate) fn close(&self, memory: &Accountant) {
        let take = |queue: &mut SegmentQueue| {
            queue.closed = true;
            (std::mem::take(&mut queue.segments), std::mem::take(&mut queue.written))
        };
        let (segments, written) = self.queue.close(take);
        self.forget(segments, written, memory);
    }

    /// Gives up segments of which the first has `written` bytes out already.
    fn forget(&self, segments: VecDeque<Segment>, written: usize, memory: &Accountant) {
        let own: usize = segments.iter().map(Segment::own_len).sum();
        let all: usize = segments.iter().map(|s| s.bytes().len()).sum();
        debug_assert!(written <= all, "no more is written than there was");
        memory.release(MemKind::Outbox, own);
        self.backlog.lower(all.saturating_sub(written));
    }

    /// Writes everything by `write`. The caller holds the claim. Emptied buffers go to `recycle`.
    pub(crate) fn drain(
        &self,
        mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
        memory: &Accountant,
        recycle: &mut dyn FnMut(Vec<u8>),
    ) -> Drained {
        let mut progress = false;
        loop {
            let (mut segments, mut written) =
                self.queue.take(|q| (std::mem::take(&mut q.segments), std::mem::take(&mut q.written)));
            let outcome = self.write_segments(&mut write, (&mut segments, &mut written), memory, recycle);
            match outcome {
                Wrote::All(n) => {
                    debug_assert!(segments.is_empty() && written == 0, "everything was written");
                    progress |= n > 0;
                }
                Wrote::Blocked(n) => {
                    let refused = self.queue.take(|q| put_back(q, segments, written));
                    let Some(rest) = refused else {
                        return Drained::Blocked { progress: progress || n > 0 };
                    };
                    self.forget(rest, written, memory);
                    let _ = self.queue.finish(|_| true);
                    return Drained::Empty;
                }
                Wrote::Failed(error) => {
                    // The rest can never be written; whatever arrives meanwhile goes with the
                    // close.
                    self.forget(segments, written, memory);
                    let _ = self.queue.finish(|_| true);
                    return Drained::Failed(error);
                }
            }
            if let Finish::Released = self.queue.finish(|q| q.segments.is_empty()) {
                return Drained::Empty;
            }
        }
    }

    fn write_segments(
        &self,
        write: &mut impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
        (segments, written): (&mut VecDeque<Segment>, &mut usize),
        memory: &Accountant,
        recycle: &mut dyn FnMut(Vec<u8>),
    ) -> Wrote {
        let mut total = 0;
        while !segments.is_empty() {
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let mut count = 0;
            for (slice, segment) in slices.iter_mut().zip(segments.iter()) {
                let skip = if count == 0 { *written } else { 0 };
                *slice = IoSlice::new(&segment.bytes()[skip..]);
                count += 1;
            }
            match write(&slices[..count]) {
                Ok(0) => return Wrote::Failed(ErrorKind::WriteZero),
                Ok(n) => {
                    debug_assert!(
                        n <= slices[..count].iter().map(|slice| slice.len()).sum(),
                        "a transport takes no more than it is given"
                    );
                    total += n;
                    self.backlog.lower(n);
                    advance(segments, written, n, memory, recycle);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Wrote::Blocked(total),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Wrote::Failed(e.kind()),
            }
        }
        Wrote::All(total)
    }
}

/// Returns what could not be written to the front, ahead of what arrived meanwhile; a queue that
/// was closed meanwhile refuses it.
fn put_back(
    queue: &mut SegmentQueue,
    mut rest: VecDeque<Segment>,
    written: usize,
) -> Option<VecDeque<Segment>> {
    if queue.closed {
        return Some(rest);
    }
    debug_assert!(queue.written == 0, "nobody writes but the holder of the claim");
    debug_assert!(
        rest.front().is_none_or(|first| written < first.bytes().len()),
        "a segment that is put back is not written as a whole"
    );
    rest.append(&mut queue.segments);
    queue.segments = rest;
    queue.written = written;
    None
}

enum Wrote {
    All(usize),
    Blocked(usize),
    Failed(ErrorKind),
}

/// Drops `n` bytes from the front.
fn advance(
    segments: &mut VecDeque<Segment>,
    written: &mut usize,
    n: usize,
    memory: &Accountant,
    recycle: &mut dyn FnMut(Vec<u8>),
) {
    *written += n;
    while let Some(first) = segments.front() {
        let len = first.bytes().len();
        if *written < len {
            return;
        }
        *written -= len;
        if let Some(Segment::Own(buffer)) = segments.pop_front() {
            memory.release(MemKind::Outbox, len);
            recycle(buffer);
        }
    }
    debug_assert_eq!(*written, 0, "what is written was there");
}
