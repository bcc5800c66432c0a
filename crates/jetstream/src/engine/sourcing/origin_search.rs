//! Search of a source reader for its origin: whether it is on, and whether it was in vain.
//!
//! One state, not three flags. While a search is about to begin it does not matter how the one
//! before ended: a stream that appears meanwhile is found by it. And whoever is over searches no
//! more, whatever it was at.
//!
//! ```text
//! Idle, InVain --begin--> Begun --look--> InVain --found--> Idle
//! Begun --abort--> InVain            any --end--> Over
//! ```

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// The origin is found, or was never looked for.
const IDLE: u8 = 0;
/// The search is about to look: who wants one relies on it.
const BEGUN: u8 = 1;
/// The search has looked and not found, as far as is known: a stream that appears is a reason to
/// begin another.
const IN_VAIN: u8 = 2;
/// Nothing is copied any more.
const OVER: u8 = 3;

/// State of the search for an origin.
#[derive(Debug)]
pub(super) struct OriginSearch(AtomicU8);

impl OriginSearch {
    /// A search that has not begun.
    pub(super) fn new() -> Self {
        Self(AtomicU8::new(IDLE))
    }

    /// Begins a search. False: one has begun that has not looked yet, or it is over.
    #[must_use = "whoever begins looks, or aborts"]
    pub(super) fn begin(&self) -> bool {
        self.step(|state| state == IDLE || state == IN_VAIN, BEGUN)
    }

    /// Notes that the search looks now: whoever makes the origin from here on begins another.
    /// False: it is over.
    pub(super) fn look(&self) -> bool {
        self.step(|state| state != OVER, IN_VAIN)
    }

    /// Notes that there is nothing to look for any more, unless another search has begun since.
    pub(super) fn found(&self) {
        self.step(|state| state == IN_VAIN, IDLE);
    }

    /// Ends a search that never came to an end. False: it is over.
    pub(super) fn abort(&self) -> bool {
        self.step(|state| state == BEGUN, IN_VAIN);
        !self.is_over()
    }

    /// Searches no more.
    pub(super) fn end(&self) {
        self.0.store(OVER, Release);
    }

    /// Whether the last search was in vain, as far as is known.
    pub(super) fn is_in_vain(&self) -> bool {
        self.0.load(Acquire) == IN_VAIN
    }

    /// Whether nothing is copied any more.
    pub(super) fn is_over(&self) -> bool {
        self.0.load(Acquire) == OVER
    }

    fn step(&self, may: impl Fn(u8) -> bool, to: u8) -> bool {
        self.0.fetch_update(AcqRel, Acquire, |state| may(state).then_some(to)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_search_at_a_time() {
        let search = OriginSearch::new();
        assert!(!search.is_in_vain(), "nothing was looked for");
        assert!(search.begin() && !search.begin());
        assert!(search.look() && search.is_in_vain());
        search.found();
        assert!(!search.is_in_vain() && search.begin());
    }

    #[test]
    fn what_was_found_does_not_end_the_search_that_has_begun_since() {
        let search = OriginSearch::new();
        assert!(search.begin() && search.look() && search.begin());
        search.found();
        assert!(!search.begin(), "it has begun and not looked");
        assert!(search.look() && search.is_in_vain());
    }

    #[test]
    fn a_search_that_was_aborted_begins_again() {
        let search = OriginSearch::new();
        assert!(search.begin() && search.abort());
        assert!(search.is_in_vain() && search.begin());
    }

    #[test]
    fn over_is_for_ever() {
        let search = OriginSearch::new();
        assert!(search.begin());
        search.end();
        assert!(!search.look() && !search.abort() && !search.begin());
        search.found();
        assert!(search.is_over() && !search.is_in_vain());
    }
}
