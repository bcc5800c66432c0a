//! Addresses of the cluster's servers that clients and leaf nodes are told, so that they know where
//! to go when theirs ends.

use crate::peers::{LinkState, Mesh};
use myelin_stdx::sync::lock;

impl Mesh {
    /// Tells clients and leaf nodes which servers there are. Compat: `no_advertise` concerns
    /// clients only.
    pub fn advertise(&self) {
        let _one_after_another = lock(&self.advertising);
        let [mut urls, mut websocket_urls] = self.state().own_urls.clone();
        let mut leaf_urls = Vec::new();
        let mut links = self.links();
        links.sort_by_key(|link| link.conn().cid());
        for link in links {
            link.update(|facts| {
                extend(&mut urls, &facts.urls.clients[0]);
                extend(&mut websocket_urls, &facts.urls.clients[1]);
                extend(&mut leaf_urls, facts.urls.leaf_nodes.as_slice());
            });
        }
        self.host.advertise_leaf_nodes(leaf_urls);
        if self.config().advertises {
            self.host.advertise(urls, websocket_urls);
        }
    }

    /// The other server lets its clients leave: they are told of it no more.
    pub(crate) fn is_leaving(&self, link: &LinkState) {
        let id = link.facts().remote_id;
        for other in self.links() {
            other.update(|facts| {
                if facts.remote_id == id {
                    facts.urls.clients.iter_mut().for_each(Vec::clear);
                }
            });
        }
        self.advertise();
    }
}

fn extend(all: &mut Vec<String>, more: &[String]) {
    for url in more {
        if !all.contains(url) {
            all.push(url.clone());
        }
    }
}
