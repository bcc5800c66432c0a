//! Reports of a stream that come at most once in a while, however often there is something to
//! report.

use myelin_store::Timestamp;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64};

/// Nanoseconds between two reports of one kind.
const EVERY: i64 = 1_000_000_000;

/// The time of the last report of one kind.
#[derive(Default)]
pub(super) struct ReportLimit(AtomicI64);

impl ReportLimit {
    /// Takes the right to report now, if it is time for that.
    ///
    /// # Errors
    /// The last report was a moment ago: when it is time for the next.
    pub(super) fn pass(&self, now: Timestamp) -> Result<(), Timestamp> {
        let next = self.0.load(Relaxed).saturating_add(EVERY);
        if now < next {
            return Err(next);
        }
        self.0.store(now, Relaxed);
        Ok(())
    }
}

/// Rate limits of what one stream reports.
#[derive(Default)]
pub(super) struct RateLimitedReports {
    /// Advisories about dropped messages.
    pub(super) drops: ReportLimit,
    /// Lines and advisories about a full disk.
    pub(super) full_disk: ReportLimit,
    /// Lines about messages that found no room.
    pub(super) overload: ReportLimit,
    /// Whether messages were dropped that no advisory has told of.
    has_unreported_drops: AtomicBool,
}

impl RateLimitedReports {
    /// Notes that messages were dropped that no advisory has told of.
    pub(super) fn put_off_drops(&self) {
        self.has_unreported_drops.store(true, Relaxed);
    }

    /// Takes the order to tell of dropped messages that was put off.
    pub(super) fn take_put_off_drops(&self) -> bool {
        self.has_unreported_drops.swap(false, Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_report_a_second() {
        let limit = ReportLimit::default();
        assert_eq!(limit.pass(5 * EVERY), Ok(()));
        assert_eq!(limit.pass(5 * EVERY), Err(6 * EVERY));
        assert_eq!(limit.pass(6 * EVERY - 1), Err(6 * EVERY));
        assert_eq!(limit.pass(6 * EVERY), Ok(()));
    }
}
