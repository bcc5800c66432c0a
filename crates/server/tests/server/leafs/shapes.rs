//! Shapes: chains of leaf nodes, several leaf nodes, hubs that dial, circles, clusters.

use super::Site;
use crate::eventually;
use crate::process::Setup;
use crate::raw::{Message, Raw};
use crate::routes::{MIXES, Ours, Reference, ServerKind, free_port, wait_for_interest};

/// Messages of one client reach the other once each, both ways. `what` is a subject that nobody had
/// before: interest that goes and comes again would be on its way twice.
fn talk(a: &mut Raw, b: &mut Raw, what: &str) {
    for turn in 0..2 {
        let subject = format!("{what}.{turn}");
        let (from, to) = if turn == 0 { (&mut *a, &mut *b) } else { (&mut *b, &mut *a) };
        to.subscribe(&format!("{subject}.>"), 77);
        to.barrier();
        let (mut count, mut got) = (0, Vec::new());
        eventually("interest is known", || {
            count += 1;
            from.publish(&format!("{subject}.{count}"), "");
            from.barrier();
            got.extend(to.barrier());
            !got.is_empty()
        });
        from.publish(&format!("{subject}.end"), "");
        from.barrier();
        eventually("the last message", || {
            got.extend(to.barrier());
            got.iter().any(|message| message.subject.ends_with(".end"))
        });
        let mut subjects: Vec<_> = got.iter().map(|message| &message.subject).collect();
        let all = subjects.len();
        subjects.sort();
        subjects.dedup();
        assert_eq!(subjects.len(), all, "each message once: {got:?}");
    }
}

pub(super) const TRIPLES: [[ServerKind; 3]; 4] =
    [[Ours, Ours, Ours], [Reference, Ours, Reference], [Ours, Reference, Ours], [Ours, Ours, Reference]];

#[test]
fn a_message_goes_through_a_chain_of_leaf_nodes() {
    for kinds in TRIPLES {
        let Some(top) = Site::hub(kinds[0], "TOP", "", "") else { continue };
        let remotes = format!("remotes: [{{ url: \"nats://127.0.0.1:{}\" }}]", top.port);
        let Some(middle) = Site::start(kinds[1], "MIDDLE", Some(free_port()), &remotes, "") else { continue };
        let Some(bottom) = Site::leaf(kinds[2], "BOTTOM", &middle, "", "") else { continue };
        middle.linked(2);
        top.linked(1);
        bottom.linked(1);
        talk(&mut top.client(), &mut bottom.client(), "ends");
        talk(&mut top.client(), &mut middle.client(), "upper");
    }
}

#[test]
fn leaf_nodes_of_one_hub_hear_each_other() {
    for kinds in TRIPLES {
        let Some(hub) = Site::hub(kinds[1], "HUB", "", "") else { continue };
        let Some(one) = Site::leaf(kinds[0], "ONE", &hub, "", "") else { continue };
        let Some(two) = Site::leaf(kinds[2], "TWO", &hub, "", "") else { continue };
        hub.linked(2);
        one.linked(1);
        two.linked(1);
        talk(&mut one.client(), &mut two.client(), "siblings");
    }
}

#[test]
fn a_hub_may_be_the_one_that_dials() {
    for kinds in MIXES {
        let Some(accepts) = Site::hub(kinds[0], "ACCEPTS", "", "") else { continue };
        let Some(dials) = Site::leaf(kinds[1], "DIALS", &accepts, "hub: true", "") else { continue };
        accepts.linked(1);
        dials.linked(1);
        assert_eq!(accepts.links()[0]["is_spoke"], true);
        assert_eq!(dials.links()[0]["is_spoke"], false);
        talk(&mut accepts.client(), &mut dials.client(), "turned");
    }
}

/// Circles are found also where nothing may be sent: what finds them is for the servers.
#[test]
fn a_circle_is_found_and_broken() {
    for (kinds, remote) in MIXES.into_iter().flat_map(|kinds| [(kinds, ""), (kinds, "deny_exports: [\">\"]")])
    {
        let ports = [free_port(), free_port()];
        let site = |at: usize| {
            let remotes = format!("remotes: [{{ url: \"nats://127.0.0.1:{}\"\n{remote} }}]", ports[1 - at]);
            Site::start(kinds[at], &format!("S{at}"), Some(ports[at]), &remotes, "")
        };
        let (Some(one), Some(two)) = (site(0), site(1)) else { continue };
        eventually("the circle is found", || {
            let found = |site: &Site| {
                site.server.log().contains(
                    "Loop detected for leafnode account=\"$G\". Delaying attempt to reconnect for 30s",
                )
            };
            found(&one) || found(&two)
        });
    }
}

#[test]
fn a_leaf_node_comes_back_when_its_hub_does() {
    for kinds in MIXES {
        let port = free_port();
        let Some(hub) = Site::start(kinds[0], "HUB", Some(port), "", "") else { continue };
        let remotes = format!("reconnect: \"100ms\"\nremotes: [{{ url: \"nats://127.0.0.1:{port}\" }}]");
        let Some(leaf) = Site::start(kinds[1], "EDGE", None, &remotes, "") else { continue };
        hub.linked(1);
        drop(hub);
        leaf.linked(0);
        let Some(hub) = Site::start(kinds[0], "HUB", Some(port), "", "") else { continue };
        hub.linked(1);
        leaf.linked(1);
        talk(&mut hub.client(), &mut leaf.client(), "again");
    }
}

/// Two servers of a cluster, with these in their `leafnodes{}`, and more beside it.
pub(super) fn cluster(kinds: [ServerKind; 2], name: &str, inner: [&str; 2], more: &str) -> Option<[Site; 2]> {
    let routes = [free_port(), free_port()];
    let site = |at: usize| {
        let (own, leafs) = (routes[at], free_port());
        // Only one of them dials: two that do may refuse each other's links for a second.
        let dials =
            if at == 0 { String::new() } else { format!("routes: [\"nats://127.0.0.1:{}\"]", routes[0]) };
        let text = format!(
            "server_name: {name}{at}\ncluster {{ name: {name}, listen: \"127.0.0.1:{own}\"\n{dials} }}\n\
             leafnodes {{ listen: \"127.0.0.1:{leafs}\"\n{} }}\n{more}",
            inner[at]
        );
        let setup = Setup::default().program(&kinds[at].program()?).config(&text).flags(&["-D"]);
        Some(Site { server: setup.start(), port: leafs })
    };
    let sites = [site(0)?, site(1)?];
    for site in &sites {
        eventually("routes", || site.server.page("/routez")["num_routes"].as_u64() == Some(4));
    }
    Some(sites)
}

#[test]
fn leaf_nodes_of_a_cluster_hear_everybody_once() {
    for kinds in TRIPLES {
        let Some([one, two]) = cluster([kinds[0], kinds[1]], "C", ["", ""], "") else { continue };
        let Some(edge) = Site::leaf(kinds[2], "EDGE", &one, "", "") else { continue };
        let Some(other) = Site::leaf(kinds[2], "OTHER", &two, "", "") else { continue };
        edge.linked(1);
        other.linked(1);
        talk(&mut edge.client(), &mut one.client(), "near");
        talk(&mut edge.client(), &mut two.client(), "far");
        talk(&mut edge.client(), &mut other.client(), "leafs");
    }
}

/// A message that comes over a route for a queue group with members behind a leaf node goes there
/// once, for those who are in no group, too.
#[test]
fn a_leaf_node_gets_a_message_once_for_a_group_and_for_others() {
    for kinds in TRIPLES {
        let Some([one, two]) = cluster([kinds[0], kinds[1]], "C", ["", ""], "") else { continue };
        let Some(edge) = Site::leaf(kinds[2], "EDGE", &two, "", "") else { continue };
        edge.linked(1);
        let (mut from, mut to) = (one.client(), edge.client());
        to.send("SUB work group 1\r\nSUB work 2\r\nSUB probe 3\r\n");
        to.barrier();
        eventually("interest is known", || {
            from.publish("probe", "");
            from.barrier();
            !to.barrier().is_empty()
        });
        from.send("PUB work 1\r\na\r\nPUB work 1\r\nb\r\nPUB probe 3\r\nend\r\n");
        let mut got = Vec::new();
        eventually("the last message", || {
            got.extend(to.barrier());
            got.iter().any(|message| message.text() == "end")
        });
        let mut got: Vec<_> = got.iter().filter(|one| one.subject == "work").map(Message::text).collect();
        got.sort_unstable();
        assert_eq!(got, ["a", "a", "b", "b"], "the group has each once, and so has who is in none");
    }
}

#[test]
fn a_leaf_node_goes_to_another_server_of_the_cluster_that_its_hub_has_told_of() {
    for kinds in TRIPLES {
        let Some([one, two]) = cluster([kinds[0], kinds[1]], "C", ["", ""], "") else { continue };
        let remotes =
            format!("reconnect: \"100ms\"\nremotes: [{{ url: \"nats://127.0.0.1:{}\" }}]", one.port);
        let Some(edge) = Site::start(kinds[2], "EDGE", None, &remotes, "") else { continue };
        one.linked(1);
        drop(one);
        two.linked(1);
        talk(&mut edge.client(), &mut two.client(), "moved");
    }
}

/// A leaf node that has gone to another server of its hub's cluster is forgotten there once its
/// client goes.
#[test]
fn interest_of_a_leaf_node_that_has_moved_goes_with_its_client() {
    for kinds in TRIPLES {
        let Some([one, two]) = cluster([kinds[0], kinds[1]], "C", ["", ""], "") else { continue };
        let (first, second) = (one.port, two.port);
        let moving = format!(
            "reconnect: \"100ms\"\nremotes: [{{ no_randomize: true, ignore_discovered_servers: true, \
             urls: [\"nats://127.0.0.1:{first}\", \"nats://127.0.0.1:{second}\"] }}]"
        );
        let Some(moving) = Site::start(kinds[2], "MOVING", None, &moving, "") else { continue };
        let Some(staying) = Site::leaf(kinds[2], "STAYING", &two, "", "") else { continue };
        one.linked(1);
        two.linked(1);
        let (mut to, mut from) = (moving.client(), staying.client());
        to.subscribe("foo", 1);
        wait_for_interest(&mut from, &mut to);
        drop(one);
        two.linked(2);
        moving.linked(1);
        wait_for_interest(&mut from, &mut to);
        from.publish("foo", "");
        assert_eq!(to.message().subject, "foo", "{kinds:?}");
        drop(to);
        from.subscribe("inbox", 1);
        eventually("nobody wants it any more", || {
            from.send("PUB foo inbox 0\r\n\r\n");
            from.barrier().iter().any(|message| message.text().starts_with("NATS/1.0 503"))
        });
    }
}

#[test]
fn a_cluster_may_be_a_leaf_node_on_each_of_its_servers() {
    for kinds in TRIPLES {
        let Some(hub) = Site::hub(kinds[2], "HUB", "", "") else { continue };
        let remotes = format!("remotes: [{{ url: \"nats://127.0.0.1:{}\" }}]", hub.port);
        let Some([one, two]) = cluster([kinds[0], kinds[1]], "EDGE", [&remotes, &remotes], "") else {
            continue;
        };
        hub.linked(2);
        one.linked(1);
        two.linked(1);
        talk(&mut one.client(), &mut hub.client(), "one");
        talk(&mut two.client(), &mut hub.client(), "two");
        talk(&mut one.client(), &mut two.client(), "cluster");
    }
}

/// A limit of leaf nodes holds for all servers of a cluster together.
#[test]
fn a_limit_of_leaf_nodes_holds_for_all_servers() {
    let accounts = "accounts { $SYS { users [{user: s, password: s}] }\n\
        A { users [{user: a, password: a}], limits { max_leafnodes: 1 } } }";
    for kinds in MIXES {
        let Some(hubs) = cluster(kinds, "C", ["", ""], accounts) else { continue };
        let mut edges: Vec<Site> = hubs
            .iter()
            .enumerate()
            .map(|(at, hub)| {
                let url = format!("nats://a:a@127.0.0.1:{}", hub.port);
                let remotes = format!("reconnect: \"100ms\"\nremotes: [{{ url: \"{url}\" }}]");
                Site::start(Ours, &format!("EDGE{at}"), None, &remotes, "").expect("it starts")
            })
            .collect();
        // Hubs that have let in one each, before they heard of each other, both end it.
        let refusal = "maximum account active connections exceeded";
        eventually("one of both is refused", || edges.iter().any(|edge| edge.server.log().contains(refusal)));
        let mut at = 0;
        eventually("one of both is let in", || {
            let linked: Vec<usize> = (0..2).filter(|at| !edges[*at].links().is_empty()).collect();
            at = linked.first().copied().unwrap_or_default();
            linked.len() == 1
        });
        drop(edges.remove(at));
        edges[0].server.wait_for_log(refusal);
        edges[0].linked(1);
    }
}

/// A leaf node of a hub and of one of that hub's own leaf nodes is a circle, too.
#[test]
fn two_ways_to_one_hub_are_a_circle() {
    for kinds in TRIPLES {
        let Some(top) = Site::hub(kinds[0], "TOP", "", "") else { continue };
        let to_top = format!("remotes: [{{ url: \"nats://127.0.0.1:{}\" }}]", top.port);
        let Some(middle) = Site::start(kinds[1], "MIDDLE", Some(free_port()), &to_top, "") else { continue };
        top.linked(1);
        let both = format!(
            "remotes: [{{ url: \"nats://127.0.0.1:{}\" }}, {{ url: \"nats://127.0.0.1:{}\" }}]",
            top.port, middle.port
        );
        let Some(bottom) = Site::start(kinds[2], "BOTTOM", None, &both, "") else { continue };
        eventually("the circle is found", || {
            [&top, &middle, &bottom].iter().any(|site| site.server.log().contains("Loop detected"))
        });
    }
}

/// Servers of a cluster that come to one server of their hub's cluster, when the other has gone,
/// are taken for no circle.
#[test]
fn a_cluster_moves_to_another_server_of_its_hub() {
    for kinds in TRIPLES {
        let Some([one, two]) = cluster([kinds[0], kinds[1]], "HUB", ["", ""], "") else { continue };
        let remotes = format!(
            "reconnect: \"100ms\"\nremotes: [{{ urls: [\"nats://127.0.0.1:{}\", \"nats://127.0.0.1:{}\"] }}]",
            one.port, two.port
        );
        let Some(edges) = cluster([kinds[2], kinds[0]], "EDGE", [&remotes, &remotes], "") else { continue };
        edges.iter().for_each(|edge| edge.linked(1));
        drop(one);
        two.linked(2);
        for (edge, what) in edges.iter().zip(["first", "second"]) {
            edge.linked(1);
            talk(&mut edge.client(), &mut two.client(), what);
            assert!(!edge.server.log().contains("Loop detected"), "{kinds:?}: {}", edge.server.log());
        }
        talk(&mut edges[0].client(), &mut edges[1].client(), "cluster");
    }
}

/// Two accounts of a leaf node may be one account of its hub.
#[test]
fn two_accounts_may_be_one_at_the_hub() {
    let accounts =
        "accounts { A { users: [{user: a, password: a}] }, C { users: [{user: c, password: c}] } }";
    for kinds in MIXES {
        let hub_accounts = "accounts { H { users: [{user: h, password: h}] } }";
        let Some(hub) = Site::hub(kinds[0], "HUB", "", hub_accounts) else { continue };
        let remote =
            |account| format!("{{ url: \"nats://h:h@127.0.0.1:{}\", account: {account} }}", hub.port);
        let remotes = format!("remotes: [{}, {}]", remote("A"), remote("C"));
        let Some(leaf) = Site::start(kinds[1], "EDGE", None, &remotes, accounts) else { continue };
        hub.linked(2);
        leaf.linked(2);
        let client = |site: &Site, user: &str| {
            let mut raw = Raw::open(site.server.address());
            raw.send(&format!("CONNECT {{\"user\":\"{user}\",\"pass\":\"{user}\",\"verbose\":false}}\r\n"));
            raw.barrier();
            raw
        };
        for user in ["a", "c"] {
            talk(&mut client(&hub, "h"), &mut client(&leaf, user), user);
        }
        assert!(!hub.server.log().contains("Duplicate Remote LeafNode Connection"), "{kinds:?}");
    }
}
