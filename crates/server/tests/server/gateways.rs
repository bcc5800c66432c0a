//! Clusters that are joined by gateways, of Myelin and of nats-server: what clients of one see of
//! those of another.

mod advisories;
mod answers;
mod changes;
mod clusters;
mod documented;
mod events;
mod handshake;
mod leafs;
mod limits;
mod messages;
mod pages;
mod schedule;
mod secure;
mod streams;
mod three;
mod tokens;

use crate::process::{Server, Setup};
use crate::raw::Raw;
use crate::routes::{MIXES, ServerKind, free_port, wait_for_interest};

/// One server with a gateway.
struct Site {
    server: Server,
    /// Port for other clusters.
    port: u16,
}

impl Site {
    /// A server of the gateway `gateway`, which dials the others.
    fn start(
        kind: ServerKind,
        (name, gateway, port): (&str, &str, u16),
        remotes: &[(&str, u16)],
        inner: &str,
        more: &str,
    ) -> Option<Self> {
        let remotes = remotes
            .iter()
            .map(|(name, port)| format!("{{ name: {name}, urls: [\"nats://127.0.0.1:{port}\"] }}"));
        let remotes: Vec<_> = remotes.collect();
        let text = format!(
            "server_name: {name}\n{more}\n\
             gateway {{ name: {gateway}, listen: \"127.0.0.1:{port}\"\n{inner}\ngateways: [{}] }}",
            remotes.join(", ")
        );
        let setup = Setup::default().program(&kind.program()?).config(&text).flags(&["-D"]);
        Some(Self { server: setup.start(), port })
    }

    fn client(&self) -> Raw {
        Raw::connect(&self.server)
    }

    fn dial(&self) -> Raw {
        Raw::open(std::net::SocketAddr::from(([127, 0, 0, 1], self.port)))
    }
}

/// Two clusters of one server each, which dial each other.
fn two(kinds: [ServerKind; 2], inner: [&str; 2], more: &str) -> Option<[Site; 2]> {
    let ports = [free_port(), free_port()];
    let a = Site::start(kinds[0], ("A1", "A", ports[0]), &[("B", ports[1])], inner[0], more)?;
    let b = Site::start(kinds[1], ("B1", "B", ports[1]), &[("A", ports[0])], inner[1], more)?;
    Some([a, b])
}

/// Two clusters in all mixes that can be had.
fn pairs(more: &str) -> Vec<[Site; 2]> {
    MIXES.iter().filter_map(|kinds| two(*kinds, [""; 2], more)).collect()
}

/// A server of the cluster A, which has another one. Clients are not told of it: that could come
/// between what they wait for when they connect.
fn routed(own: u16, other: u16) -> String {
    format!(
        "cluster {{ name: A, listen: \"127.0.0.1:{own}\", no_advertise: true, \
         routes: [\"nats://127.0.0.1:{other}\"] }}"
    )
}

/// Waits until interest is known both ways.
fn joined(a: &mut Raw, b: &mut Raw) {
    wait_for_interest(a, b);
    wait_for_interest(b, a);
}

/// A client of this user, whose password is its name.
fn login(user: &str, site: &Site) -> Raw {
    let mut raw = Raw::open(site.server.address());
    raw.send(&format!(
        "CONNECT {{\"verbose\":false,\"headers\":true,\"no_responders\":true,\"user\":\"{user}\",\"pass\":\"{user}\"}}\r\n"
    ));
    raw.barrier();
    raw
}
