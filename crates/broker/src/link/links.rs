//! The links of a server, and what it has measured together with the servers at their other ends.

use crate::conn::Conn;
use crate::imports::{AnsweredRequest, LatencyParts};
use crate::log::{Level, Log};
use arc_swap::{ArcSwap, Guard};
use myelin_stdx::sync::lock;
use std::sync::{Arc, Mutex};

/// Links to the other servers of the cluster, whose handshake is over.
pub(crate) struct Links {
    links: ArcSwap<Vec<Arc<Conn>>>,
    /// Parts of reports on latencies that were measured on two servers.
    pub(crate) latency_parts: LatencyParts<AnsweredRequest>,
    log: Arc<dyn Log>,
    changing: Mutex<()>,
}

impl Links {
    /// No links yet.
    pub(crate) fn new(log: Arc<dyn Log>) -> Arc<Self> {
        Arc::new(Self {
            links: ArcSwap::default(),
            latency_parts: LatencyParts::default(),
            log,
            changing: Mutex::default(),
        })
    }

    /// The log, while it has protocol lines.
    pub(super) fn protocol_log(&self) -> Option<&dyn Log> {
        Some(&*self.log).filter(|log| log.enabled(Level::Trace))
    }

    /// Whether there is any other server now.
    pub(crate) fn has_any(&self) -> bool {
        !self.links.load().is_empty()
    }

    /// Links that hear of changes of interest.
    pub(crate) fn all(&self) -> Guard<Arc<Vec<Arc<Conn>>>> {
        self.links.load()
    }

    pub(crate) fn add(&self, link: &Arc<Conn>) {
        self.change(|links| links.push(Arc::clone(link)));
    }

    pub(crate) fn remove(&self, link: &Arc<Conn>) {
        self.change(|links| links.retain(|other| !Arc::ptr_eq(other, link)));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Conn>>)) {
        let _one_at_a_time = lock(&self.changing);
        let mut links = Vec::clone(&self.links.load());
        change(&mut links);
        self.links.store(Arc::new(links));
    }
}
