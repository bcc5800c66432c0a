//! Tells of a clock that is not as those of most servers: JetStream does not go by it, and whoever
//! operates the server mends it.

use super::Meta;
use crate::engine::JetStream;
use crate::engine::group_clock::GUARD;
use myelin_broker::Level;
use myelin_jsapi::advisory::damage::clock_off;
use myelin_stdx::histogram::HistogramCounts;
use myelin_stdx::sync::lock;
use std::time::{Duration, Instant};

/// Between two lines of the log about one clock.
const EVERY: Duration = Duration::from_secs(3600);

impl Meta {
    /// Looks at this server's clock beside those of the others.
    pub(super) fn look_at_clock(&self, jetstream: &JetStream) {
        let ahead = self.groups.clock_ahead();
        let now = jetstream.host.instant();
        let mut told = lock(&self.members.clock_told);
        if ahead.abs() <= GUARD {
            if told.take().is_some() {
                jetstream
                    .host
                    .log(Level::Info, format_args!("JetStream: the clock is as on most servers again"));
            }
            return;
        }
        let is_due = |at: &Instant| now.saturating_duration_since(*at) >= EVERY;
        if told.as_ref().is_some_and(|at| !is_due(at)) {
            return;
        }
        *told = Some(now);
        drop(told);
        let (seconds, way) = (ahead.abs() as f64 / 1e9, if ahead > 0 { "ahead of" } else { "behind" });
        let line = format_args!(
            "JetStream: the clock of this server is {seconds:.1} s {way} those of most servers: JetStream does \
             not go by it"
        );
        jetstream.host.log(Level::Error, line);
        let (server, cluster) = (&jetstream.settings.server_name, jetstream.host.cluster());
        jetstream.tell_system(|header| clock_off(header, ahead, (server, &cluster)));
    }
}

impl JetStream {
    /// Nanoseconds by which the clock of this server is ahead of the median of all that share
    /// groups; below 0: it is behind. 0 where fewer than three are heard.
    #[must_use]
    pub fn clock_ahead(&self) -> i64 {
        self.cluster.groups.get().map_or(0, |groups| groups.clock_ahead())
    }

    /// Nanoseconds that entries of groups which this server leads have waited until they were
    /// committed, of one entry at a time of each group; `None` where it is in no cluster.
    #[must_use]
    pub fn commit_waits(&self) -> Option<HistogramCounts> {
        Some(self.cluster.groups.get()?.commit_waits().counts())
    }
}
