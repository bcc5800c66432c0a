//! The dashboard: its files, its socket, and who sees what through it.

mod browser;
mod devtools;
mod files;
mod letters;
mod socket;
mod views;

use crate::jetstream::Home;
use crate::process::{Server, Setup};
use std::net::SocketAddr;

/// Two accounts with JetStream, and an operator.
const ACCOUNTS: &str = r#"
accounts {
    A { jetstream: enabled, users: [
        { user: ann, password: "ann's" },
        { user: amy, password: "amy's", permissions: { publish: ["$JS.API.STREAM.NAMES"], subscribe: ["_INBOX.>"] } },
    ] }
    B { jetstream: enabled, users: [{ user: bob, password: "bob's" }] }
    SYS { users: [{ user: sys, password: "sys's" }] }
}
system_account: SYS
"#;

/// A server with a dashboard, and these lines.
fn start(home: &Home, lines: &str) -> Server {
    let text = format!("dashboard: true\njetstream {{ store_dir: {:?} }}\n{lines}\n", home.path());
    Setup::default().config(&text).start()
}

/// Where the server's pages are.
fn pages(server: &Server) -> SocketAddr {
    server.monitor("Starting http monitor on ")
}
