//! View of a stream: what everybody may look at without its turn.
//!
//! Brought up to date whenever the core comes back from a thread that could have changed it.

use arc_swap::ArcSwap;
use myelin_jsapi::config::StreamConfig;
use myelin_stdx::sync::lock;
use myelin_store::{Seq, StreamReader};
use myelin_streams::ReplicaRole;
use myelin_streams::stream::StreamCore;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};

/// A stream's configuration and a reader of its log.
pub(super) struct StreamView {
    config: ArcSwap<StreamConfig>,
    /// Perf: a lock that is never held for longer than a copy. Each turn looks at it: an `ArcSwap`
    /// would cost more there.
    reader: Mutex<StreamReader>,
    /// Whether it decides, and hears what is published and asked.
    leads: AtomicBool,
    /// Whether others have what is damaged here.
    is_mended: AtomicBool,
    /// Consumers of its group, where it follows, when that was looked at last.
    consumers: AtomicUsize,
}

impl StreamView {
    /// The view of a core.
    pub(super) fn of(core: &StreamCore) -> Self {
        let leads = AtomicBool::new(core.role().leads());
        Self {
            config: ArcSwap::new(Arc::clone(core.config())),
            reader: Mutex::new(core.reader()),
            leads,
            is_mended: AtomicBool::new(false),
            consumers: AtomicUsize::new(0),
        }
    }

    /// Shows what the core has now.
    pub(super) fn update(&self, core: &StreamCore) {
        self.config.store(Arc::clone(core.config()));
        self.set_reader(core.reader());
        self.set_role(core.role());
    }

    /// Shows another role.
    pub(super) fn set_role(&self, role: ReplicaRole) {
        self.leads.store(role.leads(), Release);
    }

    /// Whether it decides.
    pub(super) fn leads(&self) -> bool {
        self.leads.load(Acquire)
    }

    /// Shows another log.
    pub(super) fn set_reader(&self, reader: StreamReader) {
        reader.set_mended(self.is_mended.load(Acquire));
        *lock(&self.reader) = reader;
    }

    /// Others have what is damaged here, and are to give it, or nobody does.
    pub(super) fn set_mended(&self, is_mended: bool) {
        self.is_mended.store(is_mended, Release);
        lock(&self.reader).set_mended(is_mended);
    }

    /// The configuration in force.
    pub(super) fn config(&self) -> Arc<StreamConfig> {
        self.config.load_full()
    }

    /// A reader of what is released.
    pub(super) fn reader(&self) -> StreamReader {
        lock(&self.reader).clone()
    }

    /// Shows how many consumers its group has.
    pub(super) fn note_consumers(&self, count: usize) {
        self.consumers.store(count, Relaxed);
    }

    /// Consumers of its group when that was looked at last.
    pub(super) fn consumers(&self) -> usize {
        self.consumers.load(Relaxed)
    }

    /// The last message that can be read.
    pub(super) fn released(&self) -> Seq {
        lock(&self.reader).release().seq()
    }
}
