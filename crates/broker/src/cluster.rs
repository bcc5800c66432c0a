//! The server's cluster: its name, which a reload may change, and the links to its other servers.
//! One for the broker and all its accounts.

use crate::conn::{Conn, lock};
use crate::imports::{AnsweredRequest, LatencyParts};
use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

/// The cluster of the server, as far as all accounts have to know it.
#[derive(Default)]
pub(crate) struct Cluster {
    /// Empty for none.
    name: ArcSwap<String>,
    node: OnceLock<String>,
    terms: ArcSwapOption<LinkTerms>,
    links: ArcSwap<Vec<Arc<Conn>>>,
    /// Addresses of all servers for clients of WebSocket.
    websocket_urls: ArcSwap<Vec<String>>,
    /// Parts of reports on latencies that were measured on two servers.
    pub(crate) latency_parts: LatencyParts<AnsweredRequest>,
    changing: Mutex<()>,
    /// The server has leaf nodes, or is one.
    has_leaf_nodes: AtomicBool,
}

/// Terms by which accounts are spread over the links to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTerms {
    /// Links that share the accounts without one of their own; 1 where there is no pool.
    pub pool_size: u32,
    /// Accounts that have a link of their own.
    pub dedicated: Vec<String>,
}

impl Cluster {
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
    pub(crate) fn form(&self, terms: LinkTerms) {
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
        self.has_leaf_nodes() || self.terms().is_some()
    }

    /// `None` where there are no other servers and never will be.
    #[inline]
    pub(crate) fn terms(&self) -> Guard<Option<Arc<LinkTerms>>> {
        self.terms.load()
    }

    /// Short name by which other servers find this one; `None` without a system account.
    pub(crate) fn node(&self) -> Option<&str> {
        self.node.get().map(String::as_str)
    }

    /// Its short name, if there are servers that may measure latencies together with this one.
    pub(crate) fn measuring_node(&self) -> Option<&str> {
        self.node().filter(|_| self.terms().is_some())
    }

    /// Whether there is any other server now.
    pub(crate) fn has_links(&self) -> bool {
        !self.links.load().is_empty()
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

    /// Links that hear of changes of interest.
    pub(crate) fn links(&self) -> Guard<Arc<Vec<Arc<Conn>>>> {
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
