//! Three servers, or more, that share JetStream, with stores in files and direct links.

use crate::Error;
use crate::server::{Ports, Server};
use myelin_stdx::rng::Rng;
use std::path::Path;
use tempfile::TempDir;

pub(crate) const SERVERS: usize = 3;

/// The servers, and the folder of their configurations, logs and stores.
pub(crate) struct Trio {
    pub(crate) servers: Vec<Server>,
    pub(crate) folder: TempDir,
}

impl Trio {
    /// Starts three, with other ports even for a seed that another run has.
    pub(crate) fn start(program: &Path, seed: u64) -> Result<Self, Error> {
        Self::start_some(program, seed, SERVERS)
    }

    /// Starts so many of them.
    pub(crate) fn start_some(program: &Path, seed: u64, count: usize) -> Result<Self, Error> {
        Self::start_with(program, seed, count, |_| String::new())
    }

    /// Starts so many of them, with these lines in the configuration of each. One alone is in no
    /// cluster.
    pub(crate) fn start_with(
        program: &Path,
        seed: u64,
        count: usize,
        more: impl Fn(&Server) -> String,
    ) -> Result<Self, Error> {
        let folder = tempfile::Builder::new().prefix("myelin-trio-").tempdir()?;
        let mut rng = Rng::seeded(seed ^ u64::from(std::process::id()) << 32);
        let mut servers = Vec::new();
        for at in 0..count {
            let ports = Ports::free(&mut rng)?;
            servers.push(Server::new(program, format!("n{}", at + 1), ports, folder.path()));
        }
        let routes: Vec<_> =
            servers.iter().map(|server| format!("\"nats-route://{}\"", server.ports.routes)).collect();
        let routes = routes.join(", ");
        for server in &mut servers {
            let store = folder.path().join(format!("{}-store", server.name));
            let (store, listen) = (store.display(), server.ports.routes);
            let cluster = if count == 1 {
                String::new()
            } else {
                format!("cluster {{ name: trio, listen: \"{listen}\", routes: [ {routes} ] }}\n")
            };
            let more = more(server);
            server.configure(&format!("jetstream {{ store_dir: \"{store}\" }}\n{cluster}{more}"))?;
            server.start()?;
        }
        Ok(Self { servers, folder })
    }
}
