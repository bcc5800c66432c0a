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

    /// Reads from a sequence on. Answers where to go on, if there is more, and how many bytes it
    /// was. What is damaged the cursor reports.
    fn read_from(&self, from: Seq, budget: u64) -> (Option<Seq>, u64) {
        if self.is_damaged() && self.reader().is_mended() {
            // It gets all of it anew.
            return (None, 0);
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
                Ok(None) | Err(_) => return (None, bytes),
            }
        }
        (Some(cursor.position()), bytes)
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
        let mut end = SliceOfPass { live: self, next: None, bytes: 0 };
        (end.next, end.bytes) = self.read_from(from, budget);
        (end.next.is_some(), end.bytes)
    }
}

/// Slice of a pass, whose end says how far that is. One that ends with a panic ends the pass: the
/// next one may begin.
struct SliceOfPass<'a> {
    live: &'a LiveStream,
    next: Option<Seq>,
    bytes: u64,
}

impl Drop for SliceOfPass<'_> {
    fn drop(&mut self) {
        let mut pass = lock(&self.live.health.pass);
        (pass.next, pass.bytes) = (self.next, pass.bytes + self.bytes);
        if self.next.is_none() {
            pass.ended = self.live.scope.host.now();
        }
    }
}
