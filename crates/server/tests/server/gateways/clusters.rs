//! Which clusters are linked: told of by others, restarted, cut off and back again.

use super::{Site, joined, routed};
use crate::eventually;
use crate::process::Setup;
use crate::raw::Raw;
use crate::routes::{MIXES, Ours, Reference, free_port, wait_for_interest};

/// A cluster that one side configures is linked both ways.
#[test]
fn a_cluster_that_dials_is_dialled_back() {
    for kinds in MIXES {
        let ports = [free_port(), free_port()];
        let one = Site::start(kinds[0], ("A1", "A", ports[0]), &[], "", "");
        let two = Site::start(kinds[1], ("B1", "B", ports[1]), &[("A", ports[0])], "", "");
        let (Some(one), Some(two)) = (one, two) else { continue };
        joined(&mut one.client(), &mut two.client());
    }
}

/// Clusters that know a common third one are linked with each other.
#[test]
fn clusters_hear_of_each_other() {
    for kinds in
        [[Ours, Ours, Ours], [Reference, Ours, Ours], [Ours, Reference, Reference], [Ours, Ours, Reference]]
    {
        let ports = [free_port(), free_port(), free_port()];
        let middle = Site::start(kinds[0], ("A1", "A", ports[0]), &[], "", "");
        let b = Site::start(kinds[1], ("B1", "B", ports[1]), &[("A", ports[0])], "", "");
        let c = Site::start(kinds[2], ("C1", "C", ports[2]), &[("A", ports[0])], "", "");
        let (Some(middle), Some(b), Some(c)) = (middle, b, c) else { continue };
        let mut clients = [middle.client(), b.client(), c.client()];
        for (from, to) in [(0, 1), (1, 2), (2, 0), (0, 2), (2, 1), (1, 0)] {
            let [from, to] = clients.get_disjoint_mut([from, to]).unwrap();
            wait_for_interest(from, to);
        }
        let [a, b, c] = &mut clients;
        b.send("SUB work group 1\r\nSUB all 2\r\n");
        c.send("SUB work group 1\r\nSUB all 2\r\n");
        wait_for_interest(a, b);
        wait_for_interest(a, c);
        for _ in 0..30 {
            a.publish("work", "x");
            a.publish("all", "x");
        }
        a.barrier();
        let (mut works, mut alls) = (0, [0, 0]);
        eventually("everything comes", || {
            for (at, client) in [&mut *b, &mut *c].into_iter().enumerate() {
                for message in client.barrier() {
                    match message.subject.as_str() {
                        "work" => works += 1,
                        _ => alls[at] += 1,
                    }
                }
            }
            works >= 30 && alls == [30, 30]
        });
        assert_eq!((works, alls), (30, [30, 30]), "of a queue group one gets it");
    }
}

#[test]
fn servers_of_a_cluster_hear_of_other_clusters_from_each_other() {
    for kinds in MIXES {
        let (ports, routes) = ([free_port(), free_port(), free_port()], [free_port(), free_port()]);
        let far = Site::start(kinds[1], ("B1", "B", ports[2]), &[], "", "");
        let first = Site::start(
            kinds[0],
            ("A1", "A", ports[0]),
            &[("B", ports[2])],
            "",
            &routed(routes[0], routes[1]),
        );
        // Nobody has told it of another cluster but the first.
        let second = Site::start(kinds[0], ("A2", "A", ports[1]), &[], "", &routed(routes[1], routes[0]));
        let (Some(first), Some(second), Some(far)) = (first, second, far) else { continue };
        let (mut a1, mut a2, mut b) = (first.client(), second.client(), far.client());
        joined(&mut a2, &mut b);
        joined(&mut a1, &mut b);
        b.subscribe("news", 1);
        wait_for_interest(&mut a2, &mut b);
        a1.subscribe("news", 2);
        a2.subscribe("news", 3);
        wait_for_interest(&mut b, &mut a1);
        wait_for_interest(&mut b, &mut a2);
        wait_for_interest(&mut a2, &mut a1);
        a2.publish("news", "of a2");
        b.publish("news", "of b");
        let texts = |client: &mut crate::raw::Raw, count: usize| {
            let mut texts: Vec<_> = (0..count).map(|_| client.message().text().to_owned()).collect();
            texts.extend(client.barrier().iter().map(|message| message.text().to_owned()));
            texts.sort();
            texts
        };
        for client in [&mut a1, &mut a2, &mut b] {
            assert_eq!(texts(client, 2), ["of a2", "of b"], "each message once");
        }
    }
}

#[test]
fn a_cluster_that_was_gone_is_found_again() {
    for kinds in MIXES {
        let ports = [free_port(), free_port()];
        let start_b = || Site::start(kinds[1], ("B1", "B", ports[1]), &[("A", ports[0])], "", "");
        let Some(a) = Site::start(kinds[0], ("A1", "A", ports[0]), &[("B", ports[1])], "", "") else {
            continue;
        };
        let mut here = a.client();
        here.subscribe("kept", 1);
        for _ in 0..2 {
            let Some(b) = start_b() else { break };
            let mut there = b.client();
            joined(&mut here, &mut there);
            there.publish("kept", "x");
            assert_eq!(here.message().text(), "x");
            drop(b);
        }
    }
}

/// A server has one link to each other cluster, and one from each of its servers.
#[test]
fn a_server_dials_one_server_of_another_cluster() {
    for kinds in MIXES {
        let (ports, routes) = ([free_port(), free_port(), free_port()], [free_port(), free_port()]);
        let far = Site::start(kinds[1], ("B1", "B", ports[2]), &[], "", "");
        let member = |at: usize| {
            let more = routed(routes[at], routes[1 - at]);
            Site::start(kinds[0], (["A1", "A2"][at], "A", ports[at]), &[("B", ports[2])], "", &more)
        };
        let (Some(far), Some(first), Some(second)) = (far, member(0), member(1)) else { continue };
        joined(&mut first.client(), &mut far.client());
        joined(&mut second.client(), &mut far.client());
        let links = |site: &Site, other: &str| {
            let page = site.server.page("/gatewayz");
            let there = usize::from(page["outbound_gateways"][other]["connection"].is_object());
            [there, page["inbound_gateways"][other].as_array().map_or(0, Vec::len)]
        };
        eventually("the far cluster is dialled by both", || links(&far, "A") == [1, 2]);
        let near = [links(&first, "B"), links(&second, "B")];
        assert!(matches!(near, [[1, one], [1, two]] if one + two == 1), "{kinds:?}: {near:?}");
    }
}

/// With a list that counts, and a password, who is in the list and knows it is let in.
#[test]
fn only_clusters_of_the_list_are_let_in() {
    for kinds in MIXES {
        let ports = [free_port(), free_port(), free_port()];
        let login = "authorization { user: gate, password: keep }";
        let strict = format!("reject_unknown_cluster: true\n{login}");
        let a = Site::start(kinds[0], ("A1", "A", ports[0]), &[("B", ports[1])], &strict, "");
        let b = Site::start(kinds[1], ("B1", "B", ports[1]), &[("A", ports[0])], login, "");
        let c = Site::start(kinds[1], ("C1", "C", ports[2]), &[("A", ports[0])], login, "");
        let (Some(a), Some(b), Some(c)) = (a, b, c) else { continue };
        joined(&mut a.client(), &mut b.client());
        a.server.wait_for_log("Rejecting connection from gateway \"C\"");
        c.server.wait_for_log("Connection to gateway \"A\" rejected");
        for page in [a.server.page("/gatewayz"), b.server.page("/gatewayz")] {
            assert!(page["inbound_gateways"]["C"].is_null(), "{kinds:?}: {page}");
        }
    }
}

/// The own cluster may stand in the list, so that all servers have one: it is not dialled.
#[test]
fn a_cluster_does_not_dial_itself() {
    for kinds in MIXES {
        let ports = [free_port(), free_port()];
        let all = [("A", ports[0]), ("B", ports[1])];
        let one = Site::start(kinds[0], ("A1", "A", ports[0]), &all, "", "");
        let two = Site::start(kinds[1], ("B1", "B", ports[1]), &all, "", "");
        let (Some(one), Some(two)) = (one, two) else { continue };
        joined(&mut one.client(), &mut two.client());
        for site in [&one, &two] {
            let page = site.server.page("/gatewayz");
            let count = |way: &str| page[way].as_object().map(serde_json::Map::len);
            assert_eq!([count("outbound_gateways"), count("inbound_gateways")], [Some(1); 2], "{kinds:?}");
        }
    }
}

/// Servers of other clusters have other names.
#[test]
fn a_server_with_a_name_that_is_taken_is_not_linked() {
    for kinds in MIXES {
        let ports = [free_port(), free_port()];
        let one = Site::start(kinds[0], ("S", "A", ports[0]), &[], "", "");
        let two = Site::start(kinds[1], ("S", "B", ports[1]), &[("A", ports[0])], "", "");
        let (Some(_one), Some(two)) = (one, two) else { continue };
        two.server.wait_for_log("Remote server has a duplicate name: \"S\"");
        two.server.wait_for_log("Gateway connection closed: Duplicate Server Name");
    }
}

/// A server of the cluster that has no gateway itself is told of other clusters and cannot dial
/// them. Its clients hear what comes to the others.
#[test]
fn a_server_without_a_gateway_hears_what_comes_to_its_cluster() {
    for kinds in MIXES {
        let (ports, routes) = ([free_port(), free_port()], [free_port(), free_port()]);
        let far = Site::start(kinds[1], ("B1", "B", ports[1]), &[], "", "");
        let remotes = [("B", ports[1])];
        let first = Site::start(kinds[0], ("A1", "A", ports[0]), &remotes, "", &routed(routes[0], routes[1]));
        let Some(program) = kinds[1].program() else { continue };
        let text = format!("server_name: A2\n{}", routed(routes[1], routes[0]));
        let second = Setup::default().program(&program).config(&text).flags(&["-D"]).start();
        let (Some(far), Some(first)) = (far, first) else { continue };
        let (mut a1, mut a2, mut b) = (first.client(), Raw::connect(&second), far.client());
        joined(&mut a1, &mut b);
        joined(&mut a1, &mut a2);
        wait_for_interest(&mut b, &mut a2);
        a2.subscribe("news", 1);
        wait_for_interest(&mut b, &mut a2);
        b.publish("news", "of b");
        assert_eq!(a2.message().text(), "of b", "{kinds:?}");
        second.wait_for_log("but gateway is not configured");
    }
}
