//! Named scenarios, each for every mix.

use crate::programs::mixes;
use myelin_cluster_test::{Client, Cluster, ClusterPlan, LinkState, wait_for};
use std::net::TcpListener;

/// Runs a scenario on clusters of `servers` of every mix.
fn on_clusters(servers: usize, scenario: impl Fn(&mut Cluster)) {
    on_plans(servers, |_| {}, scenario);
}

fn on_plans(servers: usize, change: impl Fn(&mut ClusterPlan), scenario: impl Fn(&mut Cluster)) {
    for mix in mixes() {
        println!("mix {}", mix.name);
        let mut plan = ClusterPlan::of(&mix.programs, servers);
        change(&mut plan);
        let mut cluster = Cluster::start(&plan).unwrap_or_else(|why| panic!("{}: {why}", mix.name));
        scenario(&mut cluster);
        assert!(cluster.crashed().is_empty(), "servers that ended by themselves");
    }
}

pub(crate) fn client(cluster: &Cluster, server: usize) -> Client {
    cluster.client(server).expect("the server takes clients")
}

/// A client of each server that subscribes to `subject`.
fn subscribers(cluster: &Cluster, subject: &str, queue: Option<&str>) -> Vec<Client> {
    cluster
        .running()
        .into_iter()
        .map(|server| {
            let mut one = client(cluster, server);
            one.subscribe(subject, queue);
            one.settle().expect("it answers");
            one
        })
        .collect()
}

pub(crate) fn payloads(client: &Client) -> Vec<String> {
    let all = client.deliveries(0);
    all.iter().map(|delivery| String::from_utf8_lossy(&delivery.payload).into_owned()).collect()
}

/// Everybody hears everybody, once.
pub(crate) fn all_hear_all(cluster: &mut Cluster) {
    let receivers = subscribers(cluster, "news.*", None);
    cluster.settle().expect("interest is known");
    let senders: Vec<Client> = cluster.running().into_iter().map(|server| client(cluster, server)).collect();
    for (n, sender) in senders.iter().enumerate() {
        sender.publish("news.a", None, format!("from {n}").as_bytes());
        sender.settle().expect("it answers");
    }
    for receiver in &receivers {
        receiver.wait_for("all news", |all| (all.len() >= senders.len()).then_some(())).expect("all news");
        let mut found = payloads(receiver);
        found.sort();
        let expected: Vec<String> = (0..senders.len()).map(|n| format!("from {n}")).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn two_servers_hear_each_other() {
    on_clusters(2, all_hear_all);
}

#[test]
fn three_servers_that_know_one_find_each_other() {
    on_plans(3, |plan| plan.knows_all = false, all_hear_all);
}

#[test]
fn five_servers_that_know_one_find_each_other() {
    on_plans(5, |plan| plan.knows_all = false, all_hear_all);
}

#[test]
fn a_server_that_was_killed_comes_back() {
    on_clusters(3, |cluster| {
        all_hear_all(cluster);
        cluster.kill(1);
        cluster.wait_until_linked().expect("the others notice");
        let (mut near, far) = (client(cluster, 0), client(cluster, 2));
        near.subscribe("while.away", None);
        near.settle().expect("it answers");
        cluster.settle().expect("interest");
        cluster.start_server(1).expect("it starts again");
        cluster.settle().expect("it is back");
        client(cluster, 1).publish("while.away", None, b"back");
        far.publish("while.away", None, b"far");
        near.wait_for("both", |all| (all.len() == 2).then_some(())).expect("both come");
        all_hear_all(cluster);
    });
}

/// While a server is down any program may take its ports: that is no server that runs.
#[test]
fn a_port_that_somebody_else_has_is_seen() {
    on_clusters(2, |cluster| {
        cluster.kill(1);
        let route = TcpListener::bind(cluster.route_address(1)).expect("it is free now");
        let why = cluster.start_server(1).expect_err("its port is taken").to_string();
        assert!(why.contains("already in use") && cluster.running() == [0], "{why}");
        drop(route);
        cluster.start_server(1).expect("it starts");
        all_hear_all(cluster);
    });
}

#[test]
fn a_late_server_is_told_of_all_interest() {
    for mix in mixes() {
        let mut plan = ClusterPlan::of(&mix.programs, 3);
        plan.knows_all = false;
        let mut cluster = Cluster::prepare(&plan).expect("ports");
        (0..2).for_each(|server| cluster.start_server(server).expect("it starts"));
        cluster.wait_until_linked().expect("two are linked");
        let mut receivers = [client(&cluster, 0), client(&cluster, 1)];
        for receiver in &mut receivers {
            for n in 0..500 {
                receiver.subscribe(&format!("early.{n}"), None);
            }
            for n in 0..50 {
                receiver.subscribe(&format!("early.{n}"), Some("q"));
            }
            receiver.settle().expect("it answers");
        }
        cluster.start_server(2).expect("it starts");
        cluster.settle().expect("three are linked");
        let late = client(&cluster, 2);
        (0..500).for_each(|n| late.publish(&format!("early.{n}"), None, b"late"));
        late.publish("early.0", None, b"last");
        let count = |receiver: &Client, sids: std::ops::RangeInclusive<u64>| {
            receiver.deliveries(0).iter().filter(|one| sids.contains(&one.sid)).count()
        };
        for receiver in &receivers {
            receiver
                .wait_for("the last", |all| all.iter().any(|one| one.payload == b"last").then_some(()))
                .expect("all come");
            wait_for("both of the last", || (count(receiver, 1..=500) == 501).then_some(()))
                .expect("each once");
        }
        let in_groups = || receivers.iter().map(|receiver| count(receiver, 501..=550)).sum::<usize>() == 51;
        wait_for("groups", || in_groups().then_some(())).expect("one member of each group");
    }
}

#[test]
fn members_of_a_queue_group_share_its_messages_wherever_they_are() {
    on_clusters(3, |cluster| {
        let mut members = subscribers(cluster, "work", Some("q"));
        // Two more on the third server: a server is chosen by how many it has.
        members.extend([client(cluster, 2), client(cluster, 2)]);
        for member in &mut members[3..] {
            member.subscribe("work", Some("q"));
            member.settle().expect("it answers");
        }
        cluster.settle().expect("interest");
        let sender = client(cluster, 0);
        (0..1000).for_each(|n| sender.publish("work", None, format!("{n}").as_bytes()));
        let counts = || members.iter().map(|member| member.deliveries(0).len()).collect::<Vec<_>>();
        wait_for("all work", || (counts().iter().sum::<usize>() >= 1000).then_some(())).expect("all work");
        // Compat: messages of clients prefer no member, not even one of their own server.
        assert!(counts().iter().all(|count| (120..280).contains(count)), "{:?}", counts());
        let mut all: Vec<String> = members.iter().flat_map(payloads).collect();
        all.sort_by_key(|text| text.parse::<u32>().unwrap_or(0));
        assert_eq!(all, (0..1000).map(|n| n.to_string()).collect::<Vec<_>>());
    });
}

#[test]
fn requests_are_answered_over_servers() {
    on_clusters(3, |cluster| {
        let mut service = client(cluster, 1);
        service.serve("add", "services");
        service.settle().expect("it answers");
        let mut requesters = [client(cluster, 0), client(cluster, 1), client(cluster, 2)];
        for (n, requester) in requesters.iter_mut().enumerate() {
            requester.subscribe(&format!("inbox.{n}.*"), None);
            requester.settle().expect("it answers");
        }
        cluster.settle().expect("interest");
        for (n, requester) in requesters.iter().enumerate() {
            for k in 0..50 {
                let payload = format!("question {k}");
                requester.publish("add", Some(&format!("inbox.{n}.{k}")), payload.as_bytes());
                requester.wait_for("an answer", |all| (all.len() > k).then_some(())).expect("an answer");
                let answer = requester.deliveries(k).remove(0);
                assert_eq!(
                    (answer.subject, answer.payload),
                    (format!("inbox.{n}.{k}"), payload.into_bytes())
                );
            }
        }
    });
}

#[test]
fn a_request_that_nobody_serves_is_told_so() {
    on_clusters(3, |cluster| {
        let mut requester = client(cluster, 0);
        requester.subscribe("inbox.*", None);
        let ask = |requester: &Client, count: usize| {
            requester.publish("ask", Some("inbox.1"), b"");
            requester.wait_for("a reply", |all| (all.len() > count).then_some(())).expect("a reply");
            requester.deliveries(count).remove(0).headers
        };
        assert!(ask(&requester, 0).starts_with("NATS/1.0 503"));
        let mut service = client(cluster, 2);
        let sid = service.serve("ask", "q");
        service.settle().expect("it answers");
        cluster.settle().expect("interest");
        assert_eq!(ask(&requester, 1), "");
        service.unsubscribe(sid, None);
        service.settle().expect("it answers");
        cluster.settle().expect("interest");
        assert!(ask(&requester, 2).starts_with("NATS/1.0 503"));
    });
}

#[test]
fn a_maximum_is_kept_over_a_link() {
    on_clusters(2, |cluster| {
        let mut receiver = client(cluster, 1);
        let sid = receiver.subscribe("few", None);
        receiver.unsubscribe(sid, Some(3));
        receiver.subscribe("few.end", None);
        receiver.settle().expect("it answers");
        cluster.settle().expect("interest");
        let sender = client(cluster, 0);
        (0..10).for_each(|n| sender.publish("few", None, format!("{n}").as_bytes()));
        sender.publish("few.end", None, b"end");
        receiver
            .wait_for("the end", |all| all.iter().any(|one| one.payload == b"end").then_some(()))
            .expect("the end");
        assert_eq!(payloads(&receiver), ["0", "1", "2", "end"]);
    });
}

#[test]
fn servers_that_are_cut_off_go_on_alone_and_messages_make_one_hop() {
    on_clusters(3, |cluster| {
        let receivers = subscribers(cluster, "island", None);
        cluster.links().set(0, 1, LinkState::Cut);
        cluster.settle().expect("two links are left");
        client(cluster, 0).publish("island", None, b"zero");
        client(cluster, 1).publish("island", None, b"one");
        receivers[2].wait_for("both", |all| (all.len() == 2).then_some(())).expect("both reach the third");
        cluster.links().set(0, 1, LinkState::Whole);
        cluster.settle().expect("all links are back");
        client(cluster, 2).publish("island", None, b"end");
        for (receiver, own) in receivers.iter().zip(["zero", "one"]) {
            receiver
                .wait_for("the end", |all| all.iter().any(|one| one.payload == b"end").then_some(()))
                .expect("the end");
            assert_eq!(payloads(receiver), [own, "end"]);
        }
    });
}

#[test]
fn a_link_that_stalls_loses_nothing() {
    on_clusters(2, |cluster| {
        let mut receiver = client(cluster, 1);
        receiver.subscribe("slow", None);
        receiver.settle().expect("it answers");
        cluster.settle().expect("interest");
        cluster.links().set(0, 1, LinkState::Stalled);
        let sender = client(cluster, 0);
        let body = ".".repeat(1000);
        (0..5000).for_each(|n| sender.publish("slow", None, format!("{n} {body}").as_bytes()));
        sender.settle().expect("the sender does not wait for the link");
        cluster.links().set(0, 1, LinkState::Whole);
        receiver.wait_for("all", |all| (all.len() == 5000).then_some(())).expect("all come");
        let first = |text: String| text.split(' ').next().unwrap_or_default().to_owned();
        let found: Vec<String> = payloads(&receiver).into_iter().map(first).collect();
        assert_eq!(found, (0..5000).map(|n| n.to_string()).collect::<Vec<_>>());
    });
}

#[test]
fn clients_are_told_where_else_they_can_connect() {
    on_clusters(3, |cluster| {
        let watcher = client(cluster, 0);
        let urls = || watcher.info().matches("127.0.0.1:").count();
        wait_for("three addresses", || (urls() == 3).then_some(())).expect("all are told");
        cluster.kill(2);
        wait_for("two addresses", || (urls() == 2).then_some(())).expect("one is withdrawn");
        cluster.start_server(2).expect("it starts");
        wait_for("three addresses", || (urls() == 3).then_some(())).expect("it is told again");
    });
}
