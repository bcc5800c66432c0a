//! Leaf nodes and their hubs, with each other and with nats-server: what clients of one see of
//! those of another.

mod advisories;
mod callouts;
mod documented;
mod domains;
mod imports;
mod interest;
mod limits;
mod logins;
mod losses;
mod messages;
mod mirrors;
mod monitored;
mod operators;
mod permissions;
mod proxies;
mod reload;
mod revocation;
mod secure;
mod shapes;
mod times;
mod tokens;
mod trusted;
mod web_socket;
mod writes;

use crate::eventually;
use crate::process::{Server, Setup};
use crate::raw::Raw;
use crate::routes::{MIXES, ServerKind, free_port, wait_for_interest};

/// One server that is a hub, a leaf node, or both.
struct Site {
    server: Server,
    port: u16,
}

impl Site {
    /// A server with these in its `leafnodes{}` and beside it. `port`: for leaf nodes.
    fn start(kind: ServerKind, name: &str, port: Option<u16>, inner: &str, more: &str) -> Option<Self> {
        let listen = port.map_or_else(String::new, |port| format!("listen: \"127.0.0.1:{port}\""));
        let text = format!("server_name: {name}\nleafnodes {{ {listen}\n{inner} }}\n{more}");
        let setup = Setup::default().program(&kind.program()?).config(&text).flags(&["-D"]);
        Some(Self { server: setup.start(), port: port.unwrap_or(0) })
    }

    /// A server that a whole configuration describes, whose leaf nodes come to that port.
    fn configured(setup: Setup, kind: ServerKind, text: &str, port: u16) -> Option<Self> {
        let setup = setup.program(&kind.program()?).config(text).flags(&["-D"]);
        Some(Self { server: setup.start(), port })
    }

    /// A hub.
    fn hub(kind: ServerKind, name: &str, inner: &str, more: &str) -> Option<Self> {
        Self::start(kind, name, Some(free_port()), inner, more)
    }

    /// A leaf node of that hub, with these in its remote.
    fn leaf(kind: ServerKind, name: &str, hub: &Self, remote: &str, more: &str) -> Option<Self> {
        let port = hub.port;
        let remotes = format!("remotes: [{{ url: \"nats://127.0.0.1:{port}\"\n{remote} }}]");
        Self::start(kind, name, None, &remotes, more)
    }

    fn client(&self) -> Raw {
        Raw::connect(&self.server)
    }

    /// Rows of `/leafz`.
    fn links(&self) -> Vec<serde_json::Value> {
        self.server.page("/leafz")["leafs"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until it has so many links.
    fn linked(&self, count: usize) {
        eventually("links with leaf nodes and hubs", || self.links().len() == count);
    }
}

/// A hub and its leaf node in all mixes that can be had, linked.
fn pairs(hub: &str, remote: &str) -> Vec<[Site; 2]> {
    let pair = |kinds: &[ServerKind; 2]| {
        let hub = Site::hub(kinds[0], "HUB", hub, "")?;
        let leaf = Site::leaf(kinds[1], "EDGE", &hub, remote, "")?;
        hub.linked(1);
        leaf.linked(1);
        Some([hub, leaf])
    };
    MIXES.iter().filter_map(pair).collect()
}

/// A leaf node that dials this URL, with these in its remote.
fn dialling(kind: ServerKind, url: &str, remote: &str) -> Option<Site> {
    let remotes = format!("reconnect: \"200ms\"\nremotes: [{{ url: \"{url}\"\n{remote} }}]");
    Site::start(kind, "EDGE", None, &remotes, "")
}

/// Sends messages of these sizes each way over the link of two.
fn exchange([hub, leaf]: [&Site; 2], sizes: &[usize]) {
    hub.linked(1);
    leaf.linked(1);
    for (here, there) in [(hub, leaf), (leaf, hub)] {
        let (mut a, mut b) = (here.client(), there.client());
        b.subscribe("plain", 1);
        wait_for_interest(&mut a, &mut b);
        for len in sizes {
            let body: String = (0..*len).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
            a.publish("plain", &body);
            assert_eq!(b.message().text(), body);
        }
    }
}
