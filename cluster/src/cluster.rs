//! Servers of one or two programs, with a proxy in front of each and of each remote of a leaf node.

use crate::links::{LinkState, Links};
use crate::model::Reach;
use crate::proxy::{Dialer, Proxy};
use crate::server::{Ports, Server};
use crate::topology::{Outbound, Topology, Ways};
use crate::wait::wait_for;
use crate::{Client, Error};
use myelin_stdx::rng::Rng;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// How often other ports are tried.
const ATTEMPTS: u32 = 3;

/// Parts of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterPlan {
    /// The programs of the servers, in turns.
    pub programs: Vec<PathBuf>,
    /// Servers, and which of them are a cluster.
    pub topology: Topology,
    /// Whether a server is told of all others of its cluster, or only of the first, and hears of
    /// the rest.
    pub knows_all: bool,
    /// Text inside of `cluster { }` of each server, in turns.
    pub cluster: Vec<String>,
    /// Text inside of `gateway { }` of each server, in turns.
    pub gateways: Vec<String>,
    /// Text inside of `leafnodes { }` of each server, and of its remotes, in turns.
    pub leafs: Vec<String>,
    /// Text beside that block in each configuration.
    pub beside: String,
}

impl ClusterPlan {
    /// Servers of one cluster that are told of all others.
    #[must_use]
    pub fn of(programs: &[PathBuf], servers: usize) -> Self {
        Self::shaped(programs, Topology::cluster(servers))
    }

    /// Servers of any topology.
    #[must_use]
    pub fn shaped(programs: &[PathBuf], topology: Topology) -> Self {
        Self {
            programs: programs.to_vec(),
            topology,
            knows_all: true,
            cluster: vec![String::new()],
            gateways: vec![String::new()],
            leafs: vec![String::new()],
            beside: String::new(),
        }
    }
}

/// A cluster; servers are numbers from 0.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) servers: Vec<Server>,
    pub(crate) topology: Topology,
    pub(crate) links: Arc<Links>,
    /// Gateways, as they were when all had settled.
    pub(crate) outbound: Outbound,
    folder: TempDir,
    /// Counts what has to differ, such as subjects of probes.
    pub(crate) fresh: u64,
}

impl Cluster {
    /// Makes everything ready and starts no server.
    ///
    /// # Errors
    /// No ports, no folder.
    pub fn prepare(plan: &ClusterPlan) -> Result<Self, Error> {
        let folder = tempfile::Builder::new().prefix("myelin-cluster-").tempdir()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut rng = Rng::seeded(now.as_nanos() as u64 ^ u64::from(std::process::id()));
        let token = rng.below(1 << 30);
        let size = plan.topology.size();
        let names: Vec<String> = (0..size).map(|n| format!("server-{n}-{token:x}")).collect();
        let links = Arc::new(Links::default());
        let (mut servers, mut proxies) = (Vec::new(), Vec::new());
        for (n, name) in names.iter().enumerate() {
            let ports = Ports::free(&mut rng)?;
            proxies.push(Proxy::start(n, ports.routes, Dialer::Named(names.clone()), &links)?.address);
            let program = plan.programs.get(n % plan.programs.len().max(1)).ok_or("no program")?;
            servers.push(Server::new(program, name.clone(), ports, folder.path()));
        }
        let (topology, outbound) = (plan.topology.clone(), Outbound::new());
        let this = Self { servers, topology, links, outbound, folder, fresh: 0 };
        let gateways = this.gateway_proxies(&names)?;
        for n in 0..size {
            let cluster = this.cluster_block(plan, n, &proxies);
            let text = [cluster, this.leaf_block(plan, n)?, this.gateway_block(plan, n, &gateways)].concat();
            this.servers[n].configure(&format!("{}\n{text}", plan.beside))?;
        }
        Ok(this)
    }

    /// Configuration of a server's cluster, where it has one.
    fn cluster_block(&self, plan: &ClusterPlan, n: usize, proxies: &[SocketAddr]) -> String {
        let topology = &self.topology;
        let others = (0..topology.size()).filter(|other| topology.has_route(n, *other));
        let first = topology.clusters.iter().position(|one| *one == topology.clusters[n]);
        let routes: Vec<String> = others
            .filter(|other| plan.knows_all || Some(*other) == first)
            .map(|other| format!("\"nats-route://{}\"", proxies[other]))
            .collect();
        let is_alone = !(0..topology.size()).any(|other| topology.has_route(n, other));
        if is_alone && !(topology.links.is_empty() && topology.joined.is_empty()) {
            return String::new();
        }
        let more = &plan.cluster[n % plan.cluster.len()];
        let (name, routes) = (topology.clusters[n], routes.join(", "));
        let (listen, address) = (self.servers[n].ports.routes, proxies[n]);
        format!(
            "cluster {{\n  name: test{name}\n  listen: \"{listen}\"\n  advertise: \"{address}\"\n  \
             routes: [ {routes} ]\n  {more}\n}}\n"
        )
    }

    /// Configuration of a server's leaf nodes and hubs, where there are any.
    fn leaf_block(&self, plan: &ClusterPlan, n: usize) -> Result<String, Error> {
        let topology = &self.topology;
        if topology.links.is_empty() {
            return Ok(String::new());
        }
        let more = &plan.leafs[n % plan.leafs.len()];
        let mut remotes = String::new();
        for link in topology.links.iter().filter(|link| link.dialer == n) {
            let there = self.servers[link.acceptor].ports.leafs;
            let address = Proxy::start(link.acceptor, there, Dialer::Known(n), &self.links)?.address;
            // Addresses that the hub tells of would lead past the proxy.
            remotes.push_str(&format!(
                "    {{ url: \"nats-leaf://{address}\", ignore_discovered_servers: true, hub: {}, \
                 isolate_leafnode_interest: {}, request_isolation: {}, {more} }}\n",
                link.is_hub, link.isolates, link.requests_isolation
            ));
        }
        let (listen, is_isolated) = (self.servers[n].ports.leafs, topology.isolated.contains(&n));
        Ok(format!(
            "leafnodes {{\n  listen: \"{listen}\"\n  reconnect: \"200ms\"\n  \
             isolate_leafnode_interest: {is_isolated}\n  {more}\n  remotes: [\n{remotes}  ]\n}}\n"
        ))
    }

    /// Starts all servers and waits until each has a link to each other.
    ///
    /// # Errors
    /// One does not start, or a link does not come up.
    pub fn start(plan: &ClusterPlan) -> Result<Self, Error> {
        let mut attempt = 1;
        loop {
            // Somebody else may have taken a port between the choice and the start.
            match Self::try_start(plan) {
                Err(why) if attempt < ATTEMPTS && why.to_string().contains("already in use") => attempt += 1,
                settled => return settled,
            }
        }
    }

    fn try_start(plan: &ClusterPlan) -> Result<Self, Error> {
        let mut cluster = Self::prepare(plan)?;
        for n in 0..plan.topology.size() {
            cluster.start_server(n)?;
        }
        cluster.wait_until_linked().and_then(|()| cluster.wait_for_gateways()).map_err(|why| {
            let folder = cluster.keep_folder();
            format!("{why}\nlogs: {}", folder.display())
        })?;
        Ok(cluster)
    }

    /// Links between servers.
    #[must_use]
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Number of servers, running or not.
    #[must_use]
    pub fn size(&self) -> usize {
        self.servers.len()
    }

    /// Servers that run.
    #[must_use]
    pub fn running(&self) -> Vec<usize> {
        (0..self.servers.len()).filter(|n| self.servers[*n].is_running()).collect()
    }

    /// Name of a server.
    #[must_use]
    pub fn name(&self, server: usize) -> &str {
        &self.servers[server].name
    }

    /// Process of a server, if it runs.
    #[must_use]
    pub fn pid(&self, server: usize) -> Option<u32> {
        self.servers[server].pid()
    }

    /// The folder of configurations and logs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves configurations and logs where they are.
    pub fn keep_folder(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    /// Starts a server, again or for the first time.
    ///
    /// # Errors
    /// The program does not start.
    pub fn start_server(&mut self, server: usize) -> Result<(), Error> {
        self.servers[server].start()
    }

    /// Ends a server without giving it the time to say so.
    pub fn kill(&mut self, server: usize) {
        self.servers[server].kill();
    }

    /// Has a server end in its own way.
    ///
    /// # Errors
    /// The process goes on.
    pub fn stop(&mut self, server: usize) -> Result<(), Error> {
        self.servers[server].stop()
    }

    /// Has a server be another program from its next start on, with the same configuration.
    pub fn replace(&mut self, server: usize, program: &Path) {
        self.servers[server].replace(program);
    }

    /// Connects a client to a server.
    ///
    /// # Errors
    /// The server does not take it.
    pub fn client(&self, server: usize) -> Result<Client, Error> {
        Client::connect(self.servers[server].ports.clients)
    }

    /// Where a server listens for routes, with no proxy in between.
    #[must_use]
    pub fn route_address(&self, server: usize) -> SocketAddr {
        self.servers[server].ports.routes
    }

    /// A monitoring page of a server.
    ///
    /// # Errors
    /// There is none.
    pub fn page(&self, server: usize, path: &str) -> Result<Value, Error> {
        self.servers[server].page(path)
    }

    /// Log of a server.
    #[must_use]
    pub fn log(&self, server: usize) -> String {
        self.servers[server].log()
    }

    /// Servers that should run and have ended by themselves.
    pub fn crashed(&mut self) -> Vec<usize> {
        (0..self.servers.len()).filter(|n| self.servers[*n].has_crashed()).collect()
    }

    /// Clusters and leaf nodes.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Whether two servers have a link, both run, and bytes may pass between them, now or later.
    #[must_use]
    pub fn is_linked(&self, one: usize, other: usize) -> bool {
        let topology = &self.topology;
        let has_gateway = [(one, other), (other, one)].iter().any(|(from, to)| self.has_outbound(*from, *to));
        let has_link = topology.has_route(one, other) || topology.has_leaf_link(one, other);
        (has_link || has_gateway) && self.is_up(one, other)
    }

    pub(crate) fn is_up(&self, one: usize, other: usize) -> bool {
        self.servers[one].is_running()
            && self.servers[other].is_running()
            && self.links.state(one, other) != LinkState::Cut
    }

    /// Servers, this one among them, on which the interest of this server's clients is known.
    #[must_use]
    pub fn hearers(&self, server: usize) -> BTreeSet<usize> {
        self.hearers_by(server, &self.outbound)
    }

    fn hearers_by(&self, server: usize, outbound: &Outbound) -> BTreeSet<usize> {
        self.topology.hearers(server, Ways { is_up: &|one, other| self.is_up(one, other), outbound })
    }

    /// Servers, this one among them, to which a message from this server must come, and those to
    /// which it may.
    #[must_use]
    pub fn reach(&self, server: usize) -> Reach {
        let outbound = &self.outbound;
        let hear = |outbound: &Outbound| -> BTreeSet<usize> {
            let hears = |other: &usize| self.hearers_by(*other, outbound).contains(&server);
            self.running().into_iter().filter(hears).collect()
        };
        // A leaf node that has several ways takes any of them.
        let has_gateways = self.topology.joined.contains(&self.topology.clusters[server]);
        Reach {
            must: hear(outbound),
            may: self
                .topology
                .reachable(server, Ways { is_up: &|one, other| self.is_up(one, other), outbound }),
            near: if has_gateways { hear(&Outbound::new()) } else { BTreeSet::new() },
        }
    }

    /// Names of the servers to which a server has routes, and then those of its leaf nodes and
    /// hubs, each once, as `/routez` and `/leafz` say.
    ///
    /// # Errors
    /// A page cannot be read.
    pub fn peers(&self, server: usize) -> Result<Vec<String>, Error> {
        let names = |path: &str, list: &str, name: &str| -> Result<Vec<String>, Error> {
            let page = self.page(server, path)?;
            let all = page[list].as_array().cloned().unwrap_or_default();
            let mut names: Vec<_> =
                all.iter().filter_map(|one| one[name].as_str().map(ToOwned::to_owned)).collect();
            names.sort();
            names.dedup();
            Ok(names)
        };
        Ok([names("/routez", "routes", "remote_name")?, names("/leafz", "leafs", "name")?].concat())
    }

    /// Names of the servers to which a server should have links, as [`Cluster::peers`] lists them.
    fn expected_peers(&self, server: usize) -> Vec<String> {
        let names = |is_of: &dyn Fn(usize) -> bool| {
            let others =
                (0..self.servers.len()).filter(|other| is_of(*other) && self.is_linked(server, *other));
            let mut names: Vec<String> = others.map(|other| self.name(other).to_owned()).collect();
            names.sort();
            names
        };
        let topology = &self.topology;
        let routes = names(&|other| topology.has_route(server, other));
        [routes, names(&|other| topology.has_leaf_link(server, other))].concat()
    }

    /// Waits until each running server has links to exactly those that it should have.
    ///
    /// # Errors
    /// A server has others.
    pub fn wait_until_linked(&self) -> Result<(), Error> {
        for server in self.running() {
            let expected = self.expected_peers(server);
            let mut found = Vec::new();
            let waited = wait_for("links", || {
                found = self.peers(server).unwrap_or_default();
                (found == expected).then_some(())
            });
            if waited.is_err() {
                let name = self.name(server);
                return Err(format!("{name} has links to {found:?}, not to {expected:?}").into());
            }
        }
        Ok(())
    }
}
