//! Pass over all streams of a server, once a week.

use super::JetStream;
use super::host::Timer;
use super::scrub::Scrubbed;
use myelin_store::Timestamp;
use std::sync::{Arc, Weak};

/// Nanoseconds between two passes.
const WEEK: Timestamp = 7 * 24 * 3600 * 1_000_000_000;

/// Begins a pass over all streams.
struct WeeklyScrub(Weak<JetStream>);

impl JetStream {
    /// Has all streams read once a week from now on. To be called once.
    pub fn scrub_weekly(self: &Arc<Self>) {
        let weekly = self.background.weekly.get_or_init(|| Arc::new(WeeklyScrub(Arc::downgrade(self))));
        self.host.schedule(self.host.now() + WEEK, Arc::downgrade(weekly));
    }
}

impl Timer for WeeklyScrub {
    fn fire(&self) {
        let Some(jetstream) = self.0.upgrade() else { return };
        let mut streams: Vec<_> = jetstream.accounts().iter().flat_map(|account| account.streams()).collect();
        streams.extend(jetstream.cluster.meta.get().map(|meta| meta.meta_stream()));
        for stream in streams {
            jetstream.background.scrubber.read(&(stream as Arc<dyn Scrubbed>));
        }
        jetstream.scrub_weekly();
    }
}
