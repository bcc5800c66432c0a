//! Whether a member of an account's index is counted among what other servers hear of.
//!
//! Servers without others count nothing. One that gets its first hub from a reload counts what is
//! there while clients come and go: each member knows whether it was counted, so that none is
//! counted twice or for ever.

use std::sync::atomic::{AtomicU8, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

const UNCOUNTED: u8 = 0;
const COUNTED: u8 = 1;
const GONE: u8 = 2;

/// State of one member.
#[derive(Default)]
pub(crate) struct CountMark(AtomicU8);

impl CountMark {
    /// The member is about to come into the index.
    pub(crate) fn comes(&self) {
        self.0.store(UNCOUNTED, Release);
    }

    /// Whether the caller has to count the member, which is in the index, or was.
    pub(crate) fn is_due(&self) -> bool {
        self.0.compare_exchange(UNCOUNTED, COUNTED, AcqRel, Acquire).is_ok()
    }

    /// The member is out of the index: whether it was counted.
    pub(crate) fn goes(&self) -> bool {
        self.0.swap(GONE, AcqRel) == COUNTED
    }
}

#[cfg(test)]
mod tests {
    use super::CountMark;

    #[test]
    fn nobody_is_counted_twice_or_after_the_end() {
        let member = CountMark::default();
        member.comes();
        assert!(member.is_due() && !member.is_due());
        assert!(member.goes());
        assert!(!member.is_due() && !member.goes(), "whoever comes late finds it gone");
        member.comes();
        assert!(!member.goes(), "it was in and out before anybody counted");
    }
}
