//! How many handshakes may begin in a second (`connection_rate_limit`).

use myelin_stdx::sync::lock;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time in which attempts are counted together.
const WINDOW: Duration = Duration::from_secs(1);

/// Counts handshakes of the current second, and those that were refused.
#[derive(Debug, Default)]
pub(super) struct Rate(Mutex<Count>);

#[derive(Debug, Default)]
struct Count {
    /// When the current window ends; `None` before the first.
    end: Option<Instant>,
    begun: u64,
    refused: u64,
}

impl Rate {
    /// Whether another one may begin at `now`. Compat: a window begins with the first handshake
    /// after the last one.
    pub(super) fn allows(&self, limit: u64, now: Instant) -> bool {
        let mut count = lock(&self.0);
        if count.end.is_none_or(|end| now > end) {
            (count.end, count.begun) = (Some(now + WINDOW), 0);
        }
        let is_allowed = count.begun < limit;
        count.begun += u64::from(is_allowed);
        count.refused += u64::from(!is_allowed);
        is_allowed
    }

    /// How many were refused since this was last asked.
    pub(super) fn take_refused(&self) -> u64 {
        std::mem::take(&mut lock(&self.0).refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_takes_as_many_as_allowed() {
        let (rate, begin) = (Rate::default(), Instant::now());
        let at = |millis| begin + Duration::from_millis(millis);
        let answers: Vec<_> = [0, 1, 2, 1000, 1001, 1001, 1002].map(|ms| rate.allows(2, at(ms))).into();
        assert_eq!(answers, [true, true, false, false, true, true, false]);
        assert_eq!((rate.take_refused(), rate.take_refused()), (3, 0));
    }
}
