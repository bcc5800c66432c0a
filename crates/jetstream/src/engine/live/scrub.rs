//! Pass over what a stream has stored, which is read so that damage is found: how far it is, and
//! how the last one ended.

use super::LiveStream;
use super::health::ScrubPass;
use crate::engine::scrub::Scrubbed;
use myelin_stdx::sync::lock;
use myelin_store::{Filter, Message, ReadError, Seq, Wait};

/// Bytes that a damaged message counts for: whoever meets one reads, and does not know how long it
/// was.
const DAMAGED: u64 = 4096;

impl LiveStream {
    /// The pass that is under way, or the last one.
    pub(in crate::engine) fn scrub_pass(&self) -> ScrubPass {
        *lock(&self.health.pass)
    }

    /// Reads from a sequence on. What is damaged the cursor reports.
    fn read_from(&self, from: Seq, budget: u64) -> SliceEnd {
        if self.is_damaged() && self.reader().is_mended() {
            // It gets all of it anew.
            return SliceEnd::Through(0);
        }
        let (mut cursor, mut bytes) = (self.reader().cursor(Filter::All, from), 0);
        while bytes < budget {
            match cursor.next(Wait::Allowed) {
                Ok(Some(Message { subject, headers, payload, .. })) => {
                    bytes += (subject.len() + headers.len() + payload.len()) as u64;
                }
                Err(ReadError::Damaged(_)) => {
                    bytes += DAMAGED;
                    cursor.skip(cursor.position());
                }
                Ok(None) => return SliceEnd::Through(bytes),
                Err(_) => return SliceEnd::Stopped(cursor.position(), bytes),
            }
        }
        SliceEnd::More(cursor.position(), bytes)
    }
}

impl Scrubbed for LiveStream {
    fn begin_pass(&self) -> bool {
        let mut pass = lock(&self.health.pass);
        let begins = self.is_stored() && !self.is_gone() && pass.next.is_none();
        if begins {
            *pass = ScrubPass { next: Some(1), began: self.scope.host.now(), ..ScrubPass::default() };
        }
        begins
    }

    fn read_on(&self, budget: u64) -> (bool, u64) {
        let Some(from) = self.scrub_pass().next.filter(|_| !self.is_gone()) else { return (false, 0) };
        let mut slice = SliceOfPass { live: self, end: SliceEnd::Stopped(from, 0) };
        slice.end = self.read_from(from, budget);
        match slice.end {
            SliceEnd::More(_, bytes) => (true, bytes),
            SliceEnd::Through(bytes) | SliceEnd::Stopped(_, bytes) => (false, bytes),
        }
    }
}

/// How far a slice has come, with the bytes that were read.
#[derive(Clone, Copy)]
enum SliceEnd {
    /// Goes on here.
    More(Seq, u64),
    /// Everything is read.
    Through(u64),
    /// From here on it cannot be read.
    Stopped(Seq, u64),
}

/// Slice of a pass, whose end says how far that is. One that ends with a panic ends the pass: the
/// next one may begin.
struct SliceOfPass<'a> {
    live: &'a LiveStream,
    end: SliceEnd,
}

impl Drop for SliceOfPass<'_> {
    fn drop(&mut self) {
        let (next, stopped_at, bytes) = match self.end {
            SliceEnd::More(next, bytes) => (Some(next), None, bytes),
            SliceEnd::Through(bytes) => (None, None, bytes),
            SliceEnd::Stopped(at, bytes) => (None, Some(at), bytes),
        };
        let mut pass = lock(&self.live.health.pass);
        (pass.next, pass.stopped_at, pass.bytes) = (next, stopped_at, pass.bytes + bytes);
        if next.is_none() {
            pass.ended = self.live.scope.host.now();
        }
    }
}
