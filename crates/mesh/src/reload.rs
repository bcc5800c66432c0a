//! Another configuration while links run: which of them end, and what is dialled.
//!
//! What concerns a link that stays is found out by its session, when its shard tells it of the
//! reload ([`LinkSession::reload`](crate::LinkSession::reload)).

use crate::config::{MeshConfig, RouteUrl};
use crate::peers::{LinkState, Mesh};
use myelin_stdx::sync::write_lock;
use myelin_wire::error::CloseReason;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Mesh {
    /// Takes another configuration. The cluster keeps its name unless one is given.
    pub fn reload(&self, config: MeshConfig, name: Option<&str>) {
        let before = self.config();
        if let Some(name) = name {
            let mut state = self.state();
            name.clone_into(&mut state.cluster);
            state.is_dynamic = false;
        }
        let next = Arc::new(config);
        *write_lock(&self.config) = Arc::clone(&next);
        self.change_pool(&before, &next);
        let is_in = |routes: &[RouteUrl], url: &RouteUrl| routes.iter().any(|route| route == url);
        let without = |all: &[RouteUrl], others: &[RouteUrl]| {
            all.iter().filter(|url| !is_in(others, url)).cloned().collect::<Vec<_>>()
        };
        let removed = without(&before.routes, &next.routes);
        {
            let mut state = self.state();
            state.removed.extend(removed.iter().cloned());
            state.removed.retain(|url| !is_in(&next.routes, url));
        }
        removed.iter().for_each(|url| self.remove_route(url));
        self.dial_all(&without(&next.routes, &before.routes));
    }

    /// Whether a reload has taken the route away.
    pub(crate) fn has_removed(&self, url: &RouteUrl) -> bool {
        self.state().removed.contains(url)
    }

    /// Ends the links to a server that is not configured any more.
    fn remove_route(&self, url: &RouteUrl) {
        for link in self.links() {
            if link.facts().url.is_some_and(|of_link| of_link.is_same_place(url)) {
                end_for_good(&link);
            }
        }
    }

    /// Links whose place or account is another now end, and are dialled again by who has dialled:
    /// at once where this server has, see [`DialCause::Reloaded`](crate::peers::DialCause).
    fn change_pool(&self, before: &MeshConfig, next: &MeshConfig) {
        let gone: Vec<_> = {
            let mut state = self.state();
            for account in &next.dedicated {
                state.dedicated.entry(account.clone()).or_default();
            }
            let gone = before.dedicated.iter().filter(|account| !next.dedicated.contains(account));
            gone.filter_map(|account| state.dedicated.remove(account))
                .flat_map(BTreeMap::into_values)
                .collect()
        };
        self.spread_accounts(next.pool_size);
        gone.iter().for_each(end_for_good);
        if before.pool_size != next.pool_size {
            let pooled = self.links().into_iter().filter(|link| link.facts().account.is_none());
            pooled.for_each(|link| link.conn().close(CloseReason::RouteRemoved));
        }
        let added = next.dedicated.iter().filter(|account| !before.dedicated.contains(account));
        for account in added {
            self.dial_for(account);
        }
    }

    /// Another server gives an account a link of its own: it is let in, and the account is not a
    /// part of the pool any more.
    pub(crate) fn dedicate(&self, account: &str) {
        self.state().dedicated.entry(account.to_owned()).or_default();
        self.spread_accounts(self.config().pool_size);
    }

    fn spread_accounts(&self, pool_size: u32) {
        let dedicated = self.state().dedicated.keys().cloned().collect();
        self.host().spread(pool_size, dedicated);
    }

    /// Dials a link for an account to all servers that are configured, or known by a link that this
    /// server has dialled.
    fn dial_for(&self, account: &str) {
        use crate::peers::{Dial, DialCause};
        use myelin_wire::peer::info::GossipMode;
        let mut urls: Vec<(RouteUrl, bool)> =
            self.config().routes.iter().map(|url| (url.clone(), true)).collect();
        for facts in self.links().iter().map(|link| link.facts()).filter(|facts| facts.did_solicit) {
            if let Some(url) = facts.url
                && !urls.iter().any(|(known, _)| known.is_same_place(&url))
            {
                urls.push((url, facts.is_explicit));
            }
        }
        for (url, is_explicit) in urls {
            let account = Some(account.to_owned());
            let mode = GossipMode::Default;
            let (cause, place, server, cluster) = (DialCause::New, None, None, None);
            self.host().dial(Dial { url, is_explicit, cause, mode, account, place, server, cluster });
        }
    }
}

fn end_for_good(link: &Arc<LinkState>) {
    link.update(|facts| facts.is_surplus = true);
    link.conn().close(CloseReason::RouteRemoved);
}
