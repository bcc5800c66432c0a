//! The links with other clusters, and what this server is called there.

use crate::cluster::Cluster;
use crate::conn::Conn;
use arc_swap::{ArcSwap, Guard};
use myelin_stdx::sync::lock;
use myelin_wire::peer::gateway::{self, ShortName};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Short names of this server, and the text in front of its mapped replies.
pub(crate) struct OwnGateway {
    name: Box<str>,
    pub(crate) cluster: ShortName,
    pub(crate) server: ShortName,
    pub(crate) prefix: Box<[u8]>,
}

/// The links with other clusters.
pub(crate) struct GatewayLinks {
    own: OwnGateway,
    /// Links that hear of changes of interest.
    inbound: ArcSwap<Vec<Arc<Conn>>>,
    /// Links over which messages go.
    outbound: ArcSwap<Vec<Arc<Conn>>>,
    changing: Mutex<()>,
    /// Moments are told by their distance from here.
    epoch: OnceLock<Instant>,
}

impl GatewayLinks {
    /// No links yet, of a gateway of this name.
    pub(crate) fn new(name: &str, server_id: &str) -> Self {
        let (cluster, server) = (gateway::short_name(name), gateway::short_name(server_id));
        let prefix = gateway::reply_prefix(cluster, server).into();
        Self {
            own: OwnGateway { name: name.into(), cluster, server, prefix },
            inbound: ArcSwap::default(),
            outbound: ArcSwap::default(),
            changing: Mutex::default(),
            epoch: OnceLock::new(),
        }
    }

    /// Links of a server that has a gateway.
    #[inline]
    pub(crate) fn of(cluster: &Cluster) -> Option<&Self> {
        cluster.gateways()?.downcast_ref()
    }

    /// Name of this server's gateway.
    pub(crate) fn name(&self) -> &str {
        &self.own.name
    }

    pub(crate) fn own(&self) -> &OwnGateway {
        &self.own
    }

    pub(crate) fn inbound(&self) -> Guard<Arc<Vec<Arc<Conn>>>> {
        self.inbound.load()
    }

    pub(crate) fn outbound(&self) -> Guard<Arc<Vec<Arc<Conn>>>> {
        self.outbound.load()
    }

    /// The link over which messages go to a cluster of this short name.
    pub(crate) fn outbound_to(&self, cluster: &[u8]) -> Option<Arc<Conn>> {
        let is_it = |conn: &&Arc<Conn>| conn.gateway().is_some_and(|gateway| gateway.short == cluster);
        self.outbound.load().iter().find(is_it).cloned()
    }

    pub(super) fn add(&self, conn: &Arc<Conn>, is_outbound: bool) {
        self.change(is_outbound, |links| links.push(Arc::clone(conn)));
    }

    pub(super) fn remove(&self, conn: &Arc<Conn>, is_outbound: bool) {
        self.change(is_outbound, |links| links.retain(|other| !Arc::ptr_eq(other, conn)));
    }

    fn change(&self, is_outbound: bool, change: impl FnOnce(&mut Vec<Arc<Conn>>)) {
        let _one_at_a_time = lock(&self.changing);
        let list = if is_outbound { &self.outbound } else { &self.inbound };
        let mut links = Vec::clone(&list.load());
        change(&mut links);
        list.store(Arc::new(links));
    }

    /// Time of a moment since the first that was asked for.
    pub(crate) fn time(&self, now: Instant) -> Duration {
        now.saturating_duration_since(*self.epoch.get_or_init(|| now))
    }
}
