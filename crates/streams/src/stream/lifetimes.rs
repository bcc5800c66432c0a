//! Lifetimes that messages have brought while the stream did not look at them: in copies of other
//! streams' messages, or in what a backup had, before `allow_msg_ttl` was switched on.
//!
//! The log does not have them, since a message is stored once. The headers do: they are looked for
//! when lifetimes begin to count, in slices, and again after a start, up to the last message in
//! which one was found.

use myelin_store::{Filter, Message, ReadError, Seq, Timestamp, Wait};

use super::core::StreamCore;
use super::msg_headers::{Key, MsgHeaders};
use super::next_times::{LifetimeSearch, RETRY};
use super::ttl::{self, Ttl};
use super::upkeep::SLICE;

impl StreamCore {
    /// The last message that may have a lifetime of which its header alone tells; 0: none has. To
    /// be kept, and said to [`seek_lifetimes`](Self::seek_lifetimes) after a start.
    #[must_use]
    pub fn lifetimes_until(&self) -> Seq {
        let search = &self.next.lifetimes;
        if search.goes_on { search.until } else { search.found }
    }

    /// Looks for lifetimes in the headers of messages up to `until`, with the next upkeep.
    pub fn seek_lifetimes(&mut self, until: Seq, now: Timestamp) {
        let until = until.min(self.store.totals().last_seq);
        self.next.lifetimes = LifetimeSearch { until, goes_on: until > 0, ..LifetimeSearch::default() };
        if until > 0 {
            self.next.maintenance = Some(now);
        }
    }

    /// Looks again for lifetimes, in a log that was opened anew.
    pub(super) fn seek_lifetimes_again(&mut self, now: Timestamp) {
        self.seek_lifetimes(self.lifetimes_until(), now);
    }

    /// Looks at a slice of messages. Answers when to go on, if it is not through.
    pub(super) fn run_lifetimes(&mut self, now: Timestamp) -> Option<Timestamp> {
        let LifetimeSearch { next, until, goes_on, .. } = self.next.lifetimes;
        if !goes_on {
            return None;
        }
        let mut cursor = self.reader.cursor(Filter::All, next);
        let (mut found, mut is_through) = (Vec::new(), false);
        // Asked first: what is released later was not looked for.
        let is_released = self.store.release().is_released(self.store.ticket());
        for _ in 0..SLICE {
            let at = cursor.position();
            let read = cursor.next(Wait::Allowed);
            match read.map(|message| message.map(|message| (message.seq, lifetime_of(&message)))) {
                Ok(Some((seq, _))) if seq > until => {
                    is_through = true;
                    break;
                }
                Ok(Some((seq, lifetime))) => found.extend(lifetime.map(|at| (seq, at))),
                // The end, or what was not released yet.
                Ok(None) => {
                    is_through = is_released;
                    break;
                }
                // It is tried again.
                Err(ReadError::Io(_)) => break,
                // What is damaged does not end.
                Err(_) => cursor.skip(at.max(cursor.position())),
            }
        }
        let at = cursor.position();
        let search = &mut self.next.lifetimes;
        (search.next, search.goes_on) = (at, !is_through);
        if let Some((last, _)) = found.last() {
            search.found = *last;
            self.next.expiry = Some(now);
        }
        found.into_iter().for_each(|(seq, at)| self.store.note_lifetime(seq, at));
        let again = if at > next { now } else { now.saturating_add(RETRY) };
        (!is_through).then_some(again)
    }
}

/// End of a message by its header, where its entry in the log has none.
///
/// Compat: as the header says, also where less than the markers' own time is asked for.
fn lifetime_of(message: &Message<'_>) -> Option<Timestamp> {
    if message.expires.is_some() || message.headers.is_empty() {
        return None;
    }
    match ttl::parse(MsgHeaders::scan(message.headers).get(Key::Ttl)) {
        Ok(Ttl::Seconds(seconds @ 1..)) => {
            Some(message.timestamp.saturating_add(seconds.saturating_mul(ttl::SECOND)))
        }
        Ok(Ttl::Never) => Some(Timestamp::MAX),
        _ => None,
    }
}
