//! Topologies: which servers form a cluster, which are leaf nodes of which others, which clusters
//! are joined by gateways, and so who hears of whose interest.
//!
//! A server tells of interest by these rules (`told`), which are nats-server's: a hub tells its
//! leaf nodes of everything, a leaf node tells its hub of its own clients and its own leaf nodes,
//! what came over a route goes to leaf nodes only, what came from a hub never to a route, nothing
//! back to the cluster it came from; over a link that is isolated goes no interest of other leaf
//! nodes. Over a gateway goes the interest of clients, routes and leaf nodes, to the servers of
//! other clusters that have dialled this one. What came by a gateway goes to leaf nodes only.

use myelin_stdx::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// A remote in the configuration of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafLink {
    /// The server that has the remote.
    pub dialer: usize,
    /// The server that is dialled.
    pub acceptor: usize,
    /// Whether the server that dials is the hub.
    pub is_hub: bool,
    /// Whether the server that dials keeps the interest of other leaf nodes to itself.
    pub isolates: bool,
    /// Whether it asks the other side for that.
    pub requests_isolation: bool,
}

/// To which server each server has its gateway, by the cluster that it leads to.
pub type Outbound = BTreeMap<(usize, usize), usize>;

/// Links that are up at the moment.
#[derive(Clone, Copy)]
pub struct Ways<'a> {
    /// Whether bytes pass between two servers.
    pub is_up: &'a dyn Fn(usize, usize) -> bool,
    /// Gateways.
    pub outbound: &'a Outbound,
}

/// Clusters, and the links between them. Two clusters have at most one way to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Number of the cluster of each server.
    pub clusters: Vec<usize>,
    /// Links of leaf nodes.
    pub links: Vec<LeafLink>,
    /// Servers whose block for leaf nodes has `isolate_leafnode_interest`.
    pub isolated: BTreeSet<usize>,
    /// Clusters that are joined by gateways, each with each other. None is a leaf node of another.
    pub joined: BTreeSet<usize>,
}

/// Where interest, or a message, has come from. Numbers are clusters at the other end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Client,
    /// Another server of the cluster, where it came from this cluster over a link, or a client.
    Route(Option<usize>),
    Hub(usize),
    Spoke(usize),
    Gateway,
}

/// A link as the server at one end sees it.
struct Side {
    other: usize,
    is_spoke: bool,
    is_isolated: bool,
}

impl Topology {
    /// One cluster.
    #[must_use]
    pub fn cluster(servers: usize) -> Self {
        Self { clusters: vec![0; servers], ..Self::default() }
    }

    /// Clusters that are joined by gateways, without leaf nodes.
    #[must_use]
    pub fn super_cluster(clusters: &[usize]) -> Self {
        Self { clusters: clusters.to_vec(), joined: clusters.iter().copied().collect(), ..Self::default() }
    }

    /// Clusters of one or two servers, most of which are leaf nodes of earlier ones. Where
    /// nats-server is among the programs, leaf nodes isolate nothing themselves. With gateways the
    /// first two or three clusters are joined by them.
    ///
    /// Compat: nats-server tells of everything when a link begins that it has dialled and isolates.
    /// One of several servers of a leaf node may give a queue group's message, which another has
    /// chosen for its own leaf nodes, to the hub: others who want it there get it a second time.
    pub fn random(rng: &mut Rng, servers: usize, has_reference: bool, has_gateways: bool) -> Self {
        let mut it = Self::default();
        while it.clusters.len() < servers {
            let cluster = it.clusters.last().map_or(0, |last| last + 1);
            let size = if rng.below(3) == 0 { 2 } else { 1 };
            it.clusters.extend(std::iter::repeat_n(cluster, size.min(servers - it.clusters.len())));
        }
        // Clusters that have a way to each other have one number here.
        let count = it.clusters.last().map_or(0, |last| last + 1);
        let mut joined: Vec<usize> = (0..count).collect();
        if has_gateways {
            it.joined = (0..count.min(2 + rng.below(2) as usize)).collect();
            it.joined.iter().for_each(|cluster| joined[*cluster] = 0);
        }
        for cluster in it.joined.len().max(1)..count {
            // Now and then one stands alone, or has two hubs.
            let hubs = [0, 1, 1, 1, 1, 1, 1, 2][rng.below(8) as usize];
            for _ in 0..hubs {
                let hub = rng.below(cluster as u64) as usize;
                let sends_twice = has_reference && it.is_group_of_leafs(hub);
                if joined[hub] != joined[cluster] && !sends_twice {
                    let (old, new) = (joined[hub], joined[cluster]);
                    joined.iter_mut().filter(|one| **one == old).for_each(|one| *one = new);
                    it.join(rng, cluster, hub, has_reference);
                }
            }
        }
        for server in 0..servers {
            let has_dialled = it.links.iter().any(|link| link.dialer == server);
            if rng.below(6) == 0 && !(has_reference && has_dialled) {
                it.isolated.insert(server);
            }
        }
        it
    }

    fn members(&self, cluster: usize) -> Vec<usize> {
        (0..self.clusters.len()).filter(|server| self.clusters[*server] == cluster).collect()
    }

    /// Whether a cluster has several servers that are leaf nodes.
    fn is_group_of_leafs(&self, cluster: usize) -> bool {
        let spoke = |link: &LeafLink| if link.is_hub { link.acceptor } else { link.dialer };
        self.members(cluster).len() > 1 && self.links.iter().any(|link| self.clusters[spoke(link)] == cluster)
    }

    /// Makes every server of a cluster a leaf node of one of another.
    fn join(&mut self, rng: &mut Rng, spoke: usize, hub: usize, has_reference: bool) {
        let (spokes, hubs) = (self.members(spoke), self.members(hub));
        let is_hub = spokes.len() == 1 && hubs.len() == 1 && rng.below(6) == 0;
        for spoke in spokes {
            let hub = hubs[rng.below(hubs.len() as u64) as usize];
            let (dialer, acceptor) = if is_hub { (hub, spoke) } else { (spoke, hub) };
            let isolates = rng.below(8) == 0 && !has_reference;
            let requests_isolation = rng.below(8) == 0;
            self.links.push(LeafLink { dialer, acceptor, is_hub, isolates, requests_isolation });
        }
    }

    /// Number of servers.
    #[must_use]
    pub fn size(&self) -> usize {
        self.clusters.len()
    }

    /// Whether two servers are of one cluster.
    #[must_use]
    pub fn has_route(&self, one: usize, other: usize) -> bool {
        one != other && self.clusters[one] == self.clusters[other]
    }

    /// Whether one of two servers is a leaf node of the other.
    #[must_use]
    pub fn has_leaf_link(&self, one: usize, other: usize) -> bool {
        self.links.iter().any(|link| [(one, other), (other, one)].contains(&(link.dialer, link.acceptor)))
    }

    /// Whether two servers are of clusters that are joined by gateways.
    #[must_use]
    pub fn has_gateway(&self, one: usize, other: usize) -> bool {
        let clusters = [self.clusters[one], self.clusters[other]];
        clusters[0] != clusters[1] && clusters.iter().all(|cluster| self.joined.contains(cluster))
    }

    /// Pairs of servers that have, or may have, a link of any kind.
    #[must_use]
    pub fn pairs(&self) -> Vec<(usize, usize)> {
        let size = self.size();
        (0..size)
            .flat_map(|one| (one + 1..size).map(move |other| (one, other)))
            .filter(|(one, other)| {
                let has_gateway = self.has_gateway(*one, *other);
                has_gateway || self.has_route(*one, *other) || self.has_leaf_link(*one, *other)
            })
            .collect()
    }

    /// Links of leaf nodes that a server has.
    fn sides(&self, server: usize) -> impl Iterator<Item = Side> + '_ {
        self.links.iter().filter_map(move |link| {
            let has_dialled = link.dialer == server;
            if !has_dialled && link.acceptor != server {
                return None;
            }
            let asked = if has_dialled { link.isolates } else { link.requests_isolation };
            Some(Side {
                other: if has_dialled { link.acceptor } else { link.dialer },
                is_spoke: has_dialled != link.is_hub,
                is_isolated: self.isolated.contains(&server) || asked,
            })
        })
    }

    /// Servers that hear of the interest of a server's clients, while these links are up. A message
    /// published there must come to it.
    #[must_use]
    pub fn hearers(&self, server: usize, ways: Ways<'_>) -> BTreeSet<usize> {
        let goes = |source, side: &Side| self.told(source, side);
        let to_routes = |source| matches!(source, Source::Client | Source::Spoke(_));
        self.walk(server, ways, &goes, &to_routes, &|at, source| {
            let is_told = !matches!(source, Source::Hub(_) | Source::Gateway);
            let own = self.clusters[at];
            let dialled = |((_, to), there): &(&(usize, usize), &usize)| *to == own && **there == at;
            let all = ways.outbound.iter().filter(|link| is_told && dialled(link));
            all.map(|((from, _), _)| *from).collect()
        })
    }

    /// Servers to which a message of a server's client may come at all.
    ///
    /// Interest that is kept from a server keeps no message from going on that goes there for
    /// somebody else. So this is more than the servers that must be reached.
    #[must_use]
    pub fn reachable(&self, server: usize, ways: Ways<'_>) -> BTreeSet<usize> {
        let goes = |source, side: &Side| self.passed(source, side);
        let to_routes = |source| !matches!(source, Source::Route(_) | Source::Hub(_));
        self.walk(server, ways, &goes, &to_routes, &|at, source| {
            let goes = matches!(source, Source::Client | Source::Spoke(_));
            let all = ways.outbound.iter().filter(|((from, _), _)| goes && *from == at);
            all.map(|(_, there)| *there).collect()
        })
    }

    fn walk(
        &self,
        server: usize,
        ways: Ways<'_>,
        goes: &dyn Fn(Source, &Side) -> bool,
        goes_to_routes: &dyn Fn(Source) -> bool,
        by_gateways: &dyn Fn(usize, Source) -> Vec<usize>,
    ) -> BTreeSet<usize> {
        let is_up = ways.is_up;
        let mut seen = BTreeSet::new();
        let mut next = vec![(server, Source::Client)];
        while let Some((at, source)) = next.pop() {
            if !seen.insert((at, source)) {
                continue;
            }
            let origin = match source {
                Source::Spoke(cluster) | Source::Hub(cluster) => Some(cluster),
                _ => None,
            };
            if goes_to_routes(source) {
                let mates = (0..self.size()).filter(|mate| self.has_route(at, *mate) && is_up(at, *mate));
                next.extend(mates.map(|mate| (mate, Source::Route(origin))));
            }
            let there = by_gateways(at, source).into_iter().filter(|there| is_up(at, *there));
            next.extend(there.map(|there| (there, Source::Gateway)));
            let own = self.clusters[at];
            for side in self.sides(at).filter(|side| is_up(at, side.other) && goes(source, side)) {
                let source = if side.is_spoke { Source::Spoke(own) } else { Source::Hub(own) };
                next.push((side.other, source));
            }
        }
        seen.into_iter().map(|(at, _)| at).collect()
    }

    /// Whether a server tells the other side of a link of interest that came from there.
    fn told(&self, source: Source, side: &Side) -> bool {
        let is_of_leaf = !matches!(source, Source::Client | Source::Route(None) | Source::Gateway);
        let is_for_hub = matches!(source, Source::Client | Source::Spoke(_));
        self.is_elsewhere(source, side) && !(is_of_leaf && side.is_isolated) && (is_for_hub || !side.is_spoke)
    }

    /// Whether a server passes a message that came from there on over a link.
    fn passed(&self, source: Source, side: &Side) -> bool {
        self.is_elsewhere(source, side) && !(matches!(source, Source::Route(_)) && side.is_spoke)
    }

    /// Whether the other side of a link is another cluster than it came from.
    fn is_elsewhere(&self, source: Source, side: &Side) -> bool {
        let there = self.clusters[side.other];
        !matches!(source, Source::Route(Some(from)) | Source::Hub(from) | Source::Spoke(from) if from == there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(dialer: usize, acceptor: usize) -> LeafLink {
        LeafLink { dialer, acceptor, is_hub: false, isolates: false, requests_isolation: false }
    }

    fn of(clusters: &[usize], links: &[LeafLink]) -> Topology {
        Topology { clusters: clusters.to_vec(), links: links.to_vec(), ..Topology::default() }
    }

    fn cut(it: &Topology, server: usize, is_up: &dyn Fn(usize, usize) -> bool) -> Vec<usize> {
        it.hearers(server, Ways { is_up, outbound: &Outbound::new() }).into_iter().collect()
    }

    fn hearers(it: &Topology, server: usize) -> Vec<usize> {
        cut(it, server, &|_, _| true)
    }

    #[test]
    fn a_chain_hears_of_everybody() {
        let chain = of(&[0, 1, 2, 3], &[link(1, 0), link(2, 1), link(3, 2)]);
        for server in 0..4 {
            assert_eq!(hearers(&chain, server), [0, 1, 2, 3]);
            let expected = if server < 2 { [0, 1] } else { [2, 3] };
            let found = cut(&chain, server, &|one, other| one.min(other) != 1 || one.max(other) != 2);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn two_hubs_of_one_leaf_node_do_not_hear_of_each_other() {
        let hubs = of(&[0, 1, 2], &[link(2, 0), link(2, 1)]);
        assert_eq!(hearers(&hubs, 0), [0, 2]);
        assert_eq!(hearers(&hubs, 2), [0, 1, 2]);
        // What goes to the leaf node for its own clients goes on.
        let ways = Ways { is_up: &|_, _| true, outbound: &Outbound::new() };
        assert_eq!(hubs.reachable(0, ways).len(), 3);
    }

    #[test]
    fn each_server_of_a_cluster_that_is_a_leaf_node_hears_for_itself() {
        let site = of(&[0, 1, 1], &[link(1, 0), link(2, 0)]);
        assert_eq!(hearers(&site, 0), [0, 1, 2]);
        assert_eq!(hearers(&site, 1), [0, 1, 2]);
        let is_up = |one: usize, other: usize| (one.min(other), one.max(other)) != (0, 2);
        assert_eq!(cut(&site, 0, &is_up), [0, 1]);
        assert_eq!(cut(&site, 2, &is_up), [1, 2]);
    }

    #[test]
    fn leaf_nodes_of_a_cluster_hear_of_each_other_unless_they_are_isolated() {
        let mut it = of(&[0, 0, 1, 2], &[link(2, 0), link(3, 1)]);
        assert_eq!(hearers(&it, 2), [0, 1, 2, 3]);
        it.links[1].requests_isolation = true;
        assert_eq!(hearers(&it, 2), [0, 1, 2]);
        assert_eq!(hearers(&it, 3), [0, 1, 2, 3]);
        it.isolated.insert(0);
        assert_eq!(hearers(&it, 3), [0, 1, 3]);
        assert_eq!(hearers(&it, 0), [0, 1, 2, 3], "clients are heard of");
    }

    #[test]
    fn clusters_hear_of_each_other_by_the_servers_that_gateways_lead_to() {
        // Two servers in the first cluster, one in the second, which has a leaf node, and a third.
        let mut it = of(&[0, 0, 1, 2, 3], &[link(4, 2)]);
        it.joined = [0, 1, 2].into();
        let mut outbound: Outbound =
            [((0, 1), 2), ((1, 1), 2), ((2, 0), 1), ((0, 2), 3), ((1, 2), 3), ((3, 0), 0), ((2, 2), 3)]
                .into();
        let all = |outbound: &Outbound, server, is_up: &dyn Fn(usize, usize) -> bool| {
            let ways = Ways { is_up, outbound };
            let of = |all: BTreeSet<usize>| all.into_iter().collect::<Vec<_>>();
            (of(it.hearers(server, ways)), of(it.reachable(server, ways)))
        };
        let whole = |_: usize, _: usize| true;
        assert_eq!(all(&outbound, 0, &whole), (vec![0, 1, 2, 3, 4], vec![0, 1, 2, 3, 4]));
        // The third has no gateway to the second: nothing goes by way of the first.
        assert_eq!(all(&outbound, 4, &whole), (vec![0, 1, 2, 4], vec![0, 1, 2, 3, 4]));
        outbound.insert((3, 1), 2);
        assert_eq!(all(&outbound, 4, &whole).0, [0, 1, 2, 3, 4]);
        // Gateways lead to different servers of a cluster whose route is cut.
        let is_up = |one: usize, other: usize| one + other != 1;
        assert_eq!(all(&outbound, 0, &is_up), (vec![0, 3], vec![0, 2, 3, 4]));
        assert_eq!(all(&outbound, 1, &is_up), (vec![1, 2, 4], vec![1, 2, 3, 4]));
    }

    #[test]
    fn random_super_clusters_have_gateways_and_leaf_nodes() {
        let (mut sizes, mut leafs) = ([0; 4], 0);
        for seed in 0..200 {
            let it = Topology::random(&mut Rng::seeded(seed), 5, false, true);
            sizes[it.joined.len()] += 1;
            let is_leaf = |link: &LeafLink| {
                let spoke = if link.is_hub { link.acceptor } else { link.dialer };
                assert!(!it.joined.contains(&it.clusters[spoke]), "{it:?}");
            };
            it.links.iter().for_each(is_leaf);
            leafs += usize::from(!it.links.is_empty());
        }
        assert!(sizes[2] > 30 && sizes[3] > 30 && leafs > 50, "{sizes:?} {leafs}");
    }

    #[test]
    fn random_topologies_have_no_circles_and_every_shape() {
        let (mut chains, mut hubs, mut pairs) = (0, 0, 0);
        for seed in 0..200 {
            let it = Topology::random(&mut Rng::seeded(seed), 5, false, false);
            assert_eq!(it.size(), 5);
            let clusters = it.clusters.last().map_or(0, |last| last + 1);
            let mut between: Vec<_> =
                it.links.iter().map(|one| (it.clusters[one.dialer], it.clusters[one.acceptor])).collect();
            between.sort_unstable();
            between.dedup();
            assert!(between.len() < clusters, "as many ways as clusters: {it:?}");
            let dials = |server| it.links.iter().filter(|one| one.dialer == server).count();
            chains += usize::from(it.links.iter().any(|one| dials(one.acceptor) > 0));
            hubs += usize::from((0..5).any(|server| dials(server) > 1));
            pairs += usize::from(clusters < 5);
        }
        assert!(chains > 50 && hubs > 10 && pairs > 50, "{chains} {hubs} {pairs}");
    }
}
