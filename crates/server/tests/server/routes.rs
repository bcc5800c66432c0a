//! Servers that form a cluster, with each other and with nats-server: what clients of one see of
//! those of another.

pub(crate) mod accounts;
mod callouts;
mod corners;
mod discovery;
mod hostile;
mod interest;
pub(crate) mod messages;
mod older;
mod operators;
mod pages;
mod permissions;
mod reloading;
pub(crate) mod secure;
mod shapes;
pub(crate) mod tokens;
mod without_jetstream;

use crate::eventually;
use crate::process::{PROGRAM, Server, Setup};
use crate::raw::{Message, Raw};
use myelin_compat::implementation::reference_program;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Which program a server of a cluster is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Ours,
    Reference,
}

impl ServerKind {
    pub(crate) fn program(self) -> Option<PathBuf> {
        match self {
            Self::Ours => Some(PathBuf::from(PROGRAM)),
            Self::Reference => reference_program(),
        }
    }
}

pub(crate) use ServerKind::{Ours, Reference};

/// A port that is free now, and below those that the system gives to others.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let at = std::process::id().wrapping_mul(131).wrapping_add(NEXT.fetch_add(1, Relaxed)) % 20_000;
        let port = u16::try_from(10_000 + at).expect("below 30,000");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// One server of a cluster.
struct Member {
    server: Server,
    port: u16,
}

impl Member {
    /// A server that dials those on `routes`.
    fn start(kind: ServerKind, name: &str, port: u16, routes: &[u16], more: &str) -> Option<Self> {
        let server = Self::setup(&kind.program()?, name, port, routes, more).start();
        Some(Self { server, port })
    }

    fn setup(program: &Path, name: &str, port: u16, routes: &[u16], more: &str) -> Setup {
        Setup::default().program(program).config(&config(name, port, routes, "", more))
    }

    /// A server with more in its `cluster{}`, and in its log.
    fn with(kind: ServerKind, name: &str, port: u16, routes: &[u16], inner: &str) -> Option<Self> {
        let text = config(name, port, routes, inner, "");
        let setup = Setup::default().program(&kind.program()?).config(&text).flags(&["-D"]);
        Some(Self { server: setup.start(), port })
    }

    /// Values that are shown of all links under one name.
    fn shown(&self, field: &str) -> Vec<String> {
        let page = self.server.page("/routez");
        let routes = page["routes"].as_array().cloned().unwrap_or_default();
        routes.iter().map(|route| route[field].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Names of other servers to which it has links.
    fn knows(&self) -> Vec<String> {
        let page = self.server.page("/routez");
        let mut names: Vec<String> = page["routes"]
            .as_array()
            .map(|routes| {
                routes
                    .iter()
                    .map(|route| route["remote_name"].as_str().unwrap_or_default().to_owned())
                    .collect()
            })
            .unwrap_or_default();
        names.sort();
        names.dedup();
        names
    }

    /// Links of all kinds.
    fn links(&self) -> u64 {
        self.server.page("/routez")["num_routes"].as_u64().unwrap_or(0)
    }

    fn client(&self) -> Raw {
        Raw::connect(&self.server)
    }
}

/// A configuration file. Where `inner` has routes, those on the ports are left out.
fn config(name: &str, port: u16, routes: &[u16], inner: &str, more: &str) -> String {
    let routes: Vec<_> = routes.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
    let routes =
        if inner.contains("routes:") { String::new() } else { format!("routes: [{}]", routes.join(", ")) };
    format!(
        "server_name: {name}\ncluster {{ name: C, listen: \"127.0.0.1:{port}\"\n{routes}\n{inner} }}\n{more}"
    )
}

/// Two servers, of which the second dials the first, with these in their `cluster{}`.
fn two(kinds: [ServerKind; 2], inner: [&str; 2]) -> Option<[Member; 2]> {
    let ports = [free_port(), free_port()];
    let a = Member::with(kinds[0], "S0", ports[0], &[], inner[0])?;
    let b = Member::with(kinds[1], "S1", ports[1], &[ports[0]], inner[1])?;
    Some([a, b])
}

/// The mixes of two servers.
pub(crate) const MIXES: [[ServerKind; 2]; 3] = [[Ours, Ours], [Ours, Reference], [Reference, Ours]];

/// Servers of these kinds that all know each other; `None` where there is no nats-server to be one
/// of them.
fn cluster(kinds: &[ServerKind], more: &str) -> Option<Vec<Member>> {
    let ports: Vec<u16> = kinds.iter().map(|_| free_port()).collect();
    let members: Vec<_> = kinds
        .iter()
        .enumerate()
        .map(|(at, kind)| Member::start(*kind, &format!("S{at}"), ports[at], &ports[..at], more))
        .collect::<Option<_>>()?;
    settle(&members);
    Some(members)
}

/// Waits until every server has all its links to all others: three of the pool and the system
/// account's.
fn settle(members: &[Member]) {
    let others = members.len() as u64 - 1;
    for member in members {
        eventually("links to all others", || member.links() == others * 4);
    }
}

/// Clusters of two in all mixes that can be had.
fn pairs(more: &str) -> Vec<Vec<Member>> {
    MIXES.iter().filter_map(|kinds| cluster(kinds, more)).collect()
}

/// Waits until `from`'s server knows what `to` has subscribed to so far: then a probe comes
/// through. Interest is announced in the order in which it came.
pub(crate) fn wait_for_interest(from: &mut Raw, to: &mut Raw) {
    static PROBES: AtomicU32 = AtomicU32::new(0);
    // A subject of its own each time: that of a probe before may still be on its way out.
    let probe = format!("probe.{}", PROBES.fetch_add(1, Relaxed));
    to.send(&format!("SUB {probe} 999999\r\n"));
    to.barrier();
    eventually("interest is known elsewhere", || {
        from.publish(&probe, "");
        from.barrier();
        // Something else may be on its way to it, too.
        to.barrier().iter().any(|message| message.subject == probe)
    });
    // What is still on its way comes before a message that goes the same way.
    from.publish(&probe, "last");
    from.barrier();
    eventually("the last probe", || to.barrier().iter().any(|message| message.text() == "last"));
    to.send("UNSUB 999999\r\n");
    to.barrier();
}

/// The next `count` messages.
pub(crate) fn take(client: &mut Raw, count: usize) -> Vec<Message> {
    (0..count).map(|_| client.message()).collect()
}
