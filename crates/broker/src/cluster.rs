//! The server's cluster, as far as all accounts have to know it: its name, which a reload may
//! change, how accounts are spread over links, and who tells other servers what is wanted here. One
//! for the broker and all its accounts.

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use foldhash::fast::FixedState;
use myelin_stdx::entropy::Entropy;
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The cluster of the server, as far as all accounts have to know it.
#[derive(Default)]
pub(crate) struct Cluster {
    /// Empty for none.
    name: ArcSwap<String>,
    node: OnceLock<String>,
    terms: ArcSwapOption<LinkTerms>,
    announcer: OnceLock<Arc<dyn Announcer>>,
    /// Links with other clusters, of which nothing is known here.
    gateways: OnceLock<Arc<dyn Any + Send + Sync>>,
    /// Addresses of all servers for clients of WebSocket.
    websocket_urls: ArcSwap<Vec<String>>,
    /// The server has leaf nodes, or is one.
    has_leaf_nodes: AtomicBool,
    /// Hash of subjects, which clients choose: a new link hears of them in its order. The seed
    /// comes from outside.
    hashing: OnceLock<FixedState>,
}

/// Terms by which accounts are spread over the links to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTerms {
    /// Links that share the accounts without one of their own; 1 where there is no pool.
    pub pool_size: u32,
    /// Accounts that have a link of their own.
    pub dedicated: Vec<String>,
}

/// The links that carry what concerns an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccountPlace {
    /// Links with this place in the pool.
    Pooled(u32),
    /// Links of its own, or the only one where there is no pool; or there are no other servers.
    Alone,
    /// Links of this internal account, and never another.
    Internal,
}

/// Tells other servers what is wanted here.
pub(crate) trait Announcer: Send + Sync {
    /// Tells a change. Called under the lock of a part of the account's interest, so that the last
    /// word is the last state.
    fn announce(&self, change: &InterestChange<'_>);
}

/// A change of what an account's clients and services, or its leaf nodes, want, of which other
/// servers hear.
pub(crate) struct InterestChange<'a> {
    pub(crate) account: &'a str,
    pub(crate) place: AccountPlace,
    pub(crate) subject: &'a [u8],
    pub(crate) queue: Option<&'a [u8]>,
    /// How many want it now.
    pub(crate) count: u32,
    /// Cluster of the leaf nodes that want it, empty for none; `None` for clients and services.
    pub(crate) origin: Option<&'a [u8]>,
}

impl Cluster {
    /// Has hashes follow from `entropy`. To be called before anything is announced.
    pub(crate) fn set_seed(&self, entropy: &dyn Entropy) {
        let mut seed = [0; 8];
        entropy.fill(&mut seed);
        let is_first = self.hashing.set(FixedState::with_seed(u64::from_le_bytes(seed))).is_ok();
        debug_assert!(is_first, "nothing was hashed with another seed");
    }

    /// Hash of subjects that are announced.
    pub(crate) fn hashing(&self) -> &FixedState {
        self.hashing.get_or_init(FixedState::default)
    }

    pub(crate) fn name(&self) -> Arc<String> {
        self.name.load_full()
    }

    /// For a look at the name: nothing is counted that other shards count, too.
    pub(crate) fn look(&self) -> Guard<Arc<String>> {
        self.name.load()
    }

    pub(crate) fn set_name(&self, name: &str) {
        self.name.store(Arc::new(name.to_owned()));
    }

    /// The server is one of a cluster from now on, by these terms, and keeps account of what it has
    /// to announce.
    pub(crate) fn form(&self, terms: LinkTerms, announcer: Arc<dyn Announcer>) {
        let _ = self.announcer.set(announcer);
        self.terms.store(Some(Arc::new(terms)));
    }

    /// The server takes leaf nodes, or becomes one, and keeps account of what it has to announce.
    pub(crate) fn form_leaf_nodes(&self) {
        self.has_leaf_nodes.store(true, Relaxed);
    }

    #[inline]
    pub(crate) fn has_leaf_nodes(&self) -> bool {
        self.has_leaf_nodes.load(Relaxed)
    }

    /// Whether anything is ever announced to another server.
    #[inline]
    pub(crate) fn keeps_account(&self) -> bool {
        self.has_leaf_nodes() || self.is_formed() || self.has_gateways()
    }

    /// The server has a gateway from now on, with these links.
    pub(crate) fn set_gateways(&self, links: Arc<dyn Any + Send + Sync>) {
        let _ = self.gateways.set(links);
    }

    /// Links with other clusters.
    #[inline]
    pub(crate) fn gateways(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.gateways.get().map(|links| &**links)
    }

    /// Whether the server has a gateway.
    #[inline]
    pub(crate) fn has_gateways(&self) -> bool {
        self.gateways.get().is_some()
    }

    /// Whether there may be other servers, of this cluster or of others.
    pub(crate) fn has_others(&self) -> bool {
        self.terms().is_some() || self.has_gateways()
    }

    /// Whether the server is one of a cluster.
    #[inline]
    pub(crate) fn is_formed(&self) -> bool {
        self.announcer.get().is_some()
    }

    /// `None` where there are no other servers and never will be.
    #[inline]
    pub(crate) fn terms(&self) -> Guard<Option<Arc<LinkTerms>>> {
        self.terms.load()
    }

    /// Tells other servers of a change, if there are any.
    pub(crate) fn announce(&self, change: &InterestChange<'_>) {
        if let Some(announcer) = self.announcer.get() {
            announcer.announce(change);
        }
    }

    /// Short name by which other servers find this one; `None` without a system account.
    pub(crate) fn node(&self) -> Option<&str> {
        self.node.get().map(String::as_str)
    }

    /// Its short name, if there are servers that may measure latencies together with this one.
    pub(crate) fn measuring_node(&self) -> Option<&str> {
        self.node().filter(|_| self.has_others())
    }

    pub(crate) fn set_node(&self, node: &str) {
        let _ = self.node.set(node.to_owned());
    }

    pub(crate) fn websocket_urls(&self) -> Guard<Arc<Vec<String>>> {
        self.websocket_urls.load()
    }

    pub(crate) fn set_websocket_urls(&self, urls: Vec<String>) {
        self.websocket_urls.store(Arc::new(urls));
    }
}
