//! Servers of one or two programs, with a proxy in front of each.

use crate::links::{LinkState, Links};
use crate::proxy::Proxy;
use crate::server::{Ports, Server};
use crate::wait::wait_for;
use crate::{Client, Error};
use myelin_stdx::rng::Rng;
use serde_json::Value;
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
    /// How many servers.
    pub servers: usize,
    /// Whether a server is told of all others, or only of the first, and hears of the rest.
    pub knows_all: bool,
    /// Text inside of `cluster { }` of each server, in turns.
    pub cluster: Vec<String>,
    /// Text beside that block in each configuration.
    pub beside: String,
}

impl ClusterPlan {
    /// Servers that are told of all others.
    #[must_use]
    pub fn of(programs: &[PathBuf], servers: usize) -> Self {
        Self {
            programs: programs.to_vec(),
            servers,
            knows_all: true,
            cluster: vec!["name: test".to_owned()],
            beside: String::new(),
        }
    }
}

/// A cluster; servers are numbers from 0.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<Server>,
    links: Arc<Links>,
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
        let names: Vec<String> = (0..plan.servers).map(|n| format!("server-{n}-{token:x}")).collect();
        let links = Arc::new(Links::default());
        let (mut servers, mut proxies) = (Vec::new(), Vec::new());
        for (n, name) in names.iter().enumerate() {
            let ports = Ports::free(&mut rng)?;
            proxies.push(Proxy::start(n, ports.routes, names.clone(), &links)?);
            let program = plan.programs.get(n % plan.programs.len().max(1)).ok_or("no program")?;
            servers.push(Server::new(program, name.clone(), ports, folder.path()));
        }
        for (n, server) in servers.iter().enumerate() {
            let routes: Vec<String> = proxies
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != n && (plan.knows_all || *other == 0))
                .map(|(_, proxy)| format!("\"nats-route://{}\"", proxy.address))
                .collect();
            let more = &plan.cluster[n % plan.cluster.len()];
            let address = proxies[n].address;
            let routes = routes.join(", ");
            let cluster = format!("  advertise: \"{address}\"\n  routes: [ {routes} ]\n  {more}");
            server.configure(&cluster, &plan.beside)?;
        }
        Ok(Self { servers, links, folder, fresh: 0 })
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
        for n in 0..plan.servers {
            cluster.start_server(n)?;
        }
        cluster.wait_until_linked()?;
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

    /// Whether both servers run and bytes may pass between them, now or later.
    #[must_use]
    pub fn is_linked(&self, one: usize, other: usize) -> bool {
        self.servers[one].is_running()
            && self.servers[other].is_running()
            && (one == other || self.links.state(one, other) != LinkState::Cut)
    }

    /// Names of the servers to which a server has routes, each once, as `/routez` says.
    ///
    /// # Errors
    /// The page cannot be read.
    pub fn peers(&self, server: usize) -> Result<Vec<String>, Error> {
        let page = self.page(server, "/routez")?;
        let routes = page["routes"].as_array().cloned().unwrap_or_default();
        let mut names: Vec<String> =
            routes.iter().filter_map(|route| route["remote_name"].as_str().map(ToOwned::to_owned)).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Waits until each running server has routes to exactly those that it is linked to.
    ///
    /// # Errors
    /// A server has others.
    pub fn wait_until_linked(&self) -> Result<(), Error> {
        for server in self.running() {
            let mut expected: Vec<String> = (0..self.servers.len())
                .filter(|other| *other != server && self.is_linked(server, *other))
                .map(|other| self.name(other).to_owned())
                .collect();
            expected.sort();
            let mut found = Vec::new();
            let waited = wait_for("routes", || {
                found = self.peers(server).unwrap_or_default();
                (found == expected).then_some(())
            });
            if waited.is_err() {
                let name = self.name(server);
                return Err(format!("{name} has routes to {found:?}, not to {expected:?}").into());
            }
        }
        Ok(())
    }
}
