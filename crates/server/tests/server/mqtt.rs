//! Clients that speak MQTT: packets, login, deliveries, lives of connections, what is stored,
//! WebSocket, attacks.
//!
//! Where nats-server is here, it is told the same and has to say the same.

mod connections5;
mod deliveries;
mod filters;
mod hostile;
mod leafs;
mod lives;
mod login;
mod messages5;
mod moments;
mod packets;
mod passed_on;
mod peer;
mod peer5;
mod retained;
mod retained5;
mod sessions;
mod sessions5;
mod shares5;
mod sparkplug;
mod storage;
mod stored;
mod stored5;
mod subscriptions5;
mod transports;
mod versions;
mod wills5;

use crate::process::{Server, Setup};
use crate::routes::free_port;
use myelin_compat::implementation::reference_program;
use std::net::SocketAddr;
use tempfile::TempDir;

/// Where a server speaks MQTT without TLS.
fn address(server: &Server) -> SocketAddr {
    server.monitor("Listening for MQTT clients on mqtt://")
}

/// A server, and the folder of its streams.
struct Stored {
    server: Server,
    /// Whether it is nats-server.
    is_reference: bool,
    _store: TempDir,
}

impl std::ops::Deref for Stored {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// A configuration with this in its block, and this around it.
fn config(block: &str, around: &str, store: &TempDir) -> String {
    let store = store.path().display();
    format!(
        "server_name: m\njetstream {{ store_dir: \"{store}\" }}\n\
         mqtt {{ host: \"127.0.0.1\", port: -1, {block} }}\n{around}"
    )
}

fn start(setup: Setup, block: &str, around: &str) -> Stored {
    let store = tempfile::tempdir().expect("a temporary folder");
    let server = setup.config(&config(block, around, &store)).start();
    Stored { server, is_reference: false, _store: store }
}

fn server(block: &str, around: &str) -> Stored {
    start(Setup::default().flags(&["-DV"]), block, around)
}

/// Ours, and the reference if it is here.
fn servers(block: &str, around: &str) -> Vec<Stored> {
    let setup = Setup::default().flags(&["-DV"]);
    let reference = reference_program().map(|program| setup.clone().program(&program));
    let reference = reference.map(|setup| Stored { is_reference: true, ..start(setup, block, around) });
    [server(block, around)].into_iter().chain(reference).collect()
}

/// Two servers of a cluster, and the folders of their streams.
fn cluster() -> [(Server, TempDir); 2] {
    cluster_of()
}

/// Servers of a cluster, and the folders of their streams.
fn cluster_of<const N: usize>() -> [(Server, TempDir); N] {
    let ports: [u16; N] = std::array::from_fn(|_| free_port());
    let routes = ports.map(|port| format!("\"nats://127.0.0.1:{port}\"")).join(", ");
    std::array::from_fn(|at| {
        let port = ports[at];
        let cluster = format!("cluster {{ name: C, host: \"127.0.0.1\", port: {port}, routes: [{routes}] }}");
        let store = tempfile::tempdir().expect("a temporary folder");
        let config = config("", &cluster, &store).replace("server_name: m", &format!("server_name: m{at}"));
        (Setup::default().config(&config).start(), store)
    })
}
