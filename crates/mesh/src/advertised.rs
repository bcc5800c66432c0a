//! Addresses of the cluster's servers that clients and leaf nodes are told, so that they know where
//! to go when theirs ends.

use crate::peers::{LinkState, Mesh, Servers};
use myelin_stdx::sync::lock;
use myelin_wire::peer::info::{GossipMode, PeerInfo};

impl Mesh {
    /// Tells all other servers that this one lets its clients leave, which are not told of it any
    /// more from the next [`Mesh::advertise`] on.
    pub fn enter_lame_duck(&self) {
        let info = PeerInfo { ldm: true, ..self.info(0, None, GossipMode::Default) };
        self.state().is_lame_duck = true;
        let line = info.line();
        self.links().iter().filter(|link| link.facts().account.is_none()).for_each(|link| link.tell(&line));
    }

    /// Tells clients and leaf nodes which servers there are; answers whether that is news for
    /// clients. Compat: `no_advertise` concerns clients only.
    pub fn advertise(&self) -> bool {
        let _one_after_another = lock(&self.advertising);
        let mut others = [Vec::new(), Vec::new()];
        let mut leaf_urls = Vec::new();
        let mut links = self.links();
        links.sort_by_key(|link| link.conn().cid());
        for link in links {
            link.update(|facts| {
                let of_link = &facts.urls.clients;
                others.iter_mut().zip(of_link).for_each(|(all, more)| extend(all, more));
                extend(&mut leaf_urls, facts.urls.leaf_nodes.as_slice());
            });
        }
        let is_told = self.config().advertises;
        let web_sockets = if is_told { others[1].clone() } else { Vec::new() };
        self.host.advertise_leaf_nodes([leaf_urls, web_sockets]);
        if !is_told {
            return false;
        }
        let [urls, websocket_urls] = self.state().with_own_urls(others);
        self.host.advertise(urls, websocket_urls)
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

impl Servers {
    /// Addresses of this server and then of others. Compat: this server is not named before there
    /// has been another to name, nor in lame duck mode.
    fn with_own_urls(&mut self, others: [Vec<String>; 2]) -> [Vec<String>; 2] {
        let own = if self.is_lame_duck { Default::default() } else { self.own_urls.clone() };
        let has_named = self.has_named.iter_mut();
        let mut all = own.into_iter().zip(others).zip(has_named).map(|((mut all, others), has_named)| {
            *has_named |= !others.is_empty();
            extend(&mut all, &others);
            if *has_named { all } else { Vec::new() }
        });
        std::array::from_fn(|_| all.next().expect("two kinds of clients"))
    }
}

fn extend(all: &mut Vec<String>, more: &[String]) {
    for url in more {
        if !all.contains(url) {
            all.push(url.clone());
        }
    }
}
