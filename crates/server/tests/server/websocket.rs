//! Clients over WebSocket: the upgrade, frames, compression, credentials, and official clients.
//!
//! Where nats-server is here, it is told the same and has to say the same.

mod clients;
mod credentials;
mod frames;
mod hostile;
mod operation;
pub(crate) mod peer;
mod upgrade;

use crate::process::{Server, Setup};
use myelin_compat::implementation::reference_program;
use std::net::SocketAddr;

/// Where a server speaks WebSocket without TLS.
pub(crate) fn address(server: &Server) -> SocketAddr {
    server.monitor("Listening for websocket clients on ws://")
}

/// A configuration with this in its block, and this around it.
pub(crate) fn config(block: &str, around: &str) -> String {
    format!("websocket {{ host: \"127.0.0.1\", port: -1, no_tls: true, {block} }}\n{around}")
}

fn server(block: &str, around: &str) -> Server {
    Server::with_config(&config(block, around))
}

/// Ours, and the reference if it is here.
fn servers(block: &str, around: &str) -> Vec<Server> {
    let setup = Setup::default().config(&config(block, around)).flags(&["-D"]);
    let reference = reference_program().map(|program| setup.clone().program(&program).start());
    [setup.start()].into_iter().chain(reference).collect()
}
