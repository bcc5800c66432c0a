//! Limits of an account, which hold for all clusters together.

use super::{Site, joined, login, pairs};
use crate::eventually;
use crate::process::{Server, Setup};
use crate::routes::accounts::{Held, LIMITED, is_full, wait_for_room};
use crate::routes::{MIXES, Ours, Reference, ServerKind, free_port};

#[test]
fn a_limit_of_connections_holds_for_all_clusters() {
    for [a, mut b] in pairs(LIMITED) {
        joined(&mut login("s", &a), &mut login("s", &b));
        let mut held = Held::default();
        for at in [0, 1] {
            held.wait_until_full([&a.server, &b.server], at);
        }
        held.leave(1);
        wait_for_room(&a.server);
        // A cluster that has gone counts no longer.
        held.wait_until_full([&a.server, &b.server], 0);
        b.server.signal(rustix::process::Signal::TERM);
        b.server.wait();
        wait_for_room(&a.server);
    }
}

/// Clients that a cluster has let in alone count in one that joins it.
#[test]
fn a_cluster_that_joins_learns_what_there_is() {
    // The reference learns it half a minute later.
    for first in [Ours, Reference] {
        let ports = [free_port(), free_port()];
        let names = [("A1", "A", ports[0]), ("B1", "B", ports[1])];
        let Some(a) = Site::start(first, names[0], &[], "", LIMITED) else { continue };
        let _clients = [login("a", &a), login("a", &a), login("a", &a)];
        let Some(b) = Site::start(Ours, names[1], &[("A", ports[0])], "", LIMITED) else { continue };
        eventually("the account is full", || {
            // What came too early was let in, and the first cluster has ended one for it.
            a.server.page("/connz?acc=A")["num_connections"] != 3 || is_full(&b.server)
        });
    }
}

const ONE: &str = "system_account: \"$SYS\"\naccounts { $SYS { users [{user: s, password: s}] }\n\
    A { users [{user: a, password: a}], limits { max_leafnodes: 1 } } }";
const REFUSAL: &str = "maximum account active connections exceeded";

/// A server of the cluster `name` that takes leaf nodes at this port.
fn hub(kind: ServerKind, name: (&str, &str, u16), remotes: &[(&str, u16)], leafs: u16) -> Option<Site> {
    Site::start(kind, name, remotes, "", &format!("{ONE}\nleafnodes {{ listen: \"127.0.0.1:{leafs}\" }}"))
}

fn edge(name: &str, hub: u16) -> Server {
    let text = format!(
        "server_name: {name}\nleafnodes {{ reconnect: \"100ms\", remotes: [{{ url: \"nats://a:a@127.0.0.1:{hub}\" }}] }}"
    );
    Setup::default().config(&text).flags(&["-D"]).start()
}

fn is_linked(edge: &Server) -> bool {
    edge.page("/leafz")["leafs"].as_array().is_some_and(|links| !links.is_empty())
}

#[test]
fn a_limit_of_leaf_nodes_holds_for_all_clusters() {
    for [first, second] in MIXES {
        let (ports, leafs) = ([free_port(), free_port()], [free_port(), free_port()]);
        let a = hub(first, ("A1", "A", ports[0]), &[("B", ports[1])], leafs[0]);
        let b = hub(second, ("B1", "B", ports[1]), &[("A", ports[0])], leafs[1]);
        let (Some(a), Some(b)) = (a, b) else { continue };
        joined(&mut login("s", &a), &mut login("s", &b));
        let mut edges = vec![edge("EDGE0", leafs[0]), edge("EDGE1", leafs[1])];
        // Clusters that have let in one each at the same time both end it.
        eventually("one of both is refused", || edges.iter().any(|edge| edge.log().contains(REFUSAL)));
        let mut at = 0;
        eventually("one of both is let in", || {
            let linked: Vec<usize> = (0..2).filter(|at| is_linked(&edges[*at])).collect();
            at = linked.first().copied().unwrap_or_default();
            linked.len() == 1
        });
        drop(edges.remove(at));
        eventually("there is room", || is_linked(&edges[0]));
    }
}
