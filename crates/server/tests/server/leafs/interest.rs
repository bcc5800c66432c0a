//! Lines that a leaf node and its hub say to each other: a test plays one of them.

use super::Site;
use super::shapes::cluster;
use crate::raw::Raw;
use crate::routes::{MIXES, Ours, Reference, ServerKind};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};

/// A leaf node that a test plays.
struct Played {
    raw: Raw,
}

impl Played {
    /// Dials a hub with this CONNECT; what comes up to the answer is taken.
    fn dial(hub: &Site, connect: &str) -> Self {
        let mut raw = Raw::open(SocketAddr::from(([127, 0, 0, 1], hub.port)));
        raw.send(&format!("CONNECT {connect}\r\n"));
        Self { raw }
    }

    /// Lines up to the PONG of a PING that is sent now, without the loop's subject and `$SYS`.
    fn said(&mut self) -> BTreeSet<String> {
        self.raw.send("PING\r\n");
        let mut lines = BTreeSet::new();
        loop {
            let line = self.raw.line();
            match line.trim_end() {
                "PONG" => return lines,
                "PING" => self.raw.send("PONG\r\n"),
                line if line.contains("$SYS.") || line.contains("$LDS.") => {}
                line if line.starts_with("INFO ") => {}
                line => drop(lines.insert(line.to_owned())),
            }
        }
    }
}

fn lines(expected: &[&str]) -> BTreeSet<String> {
    expected.iter().map(|line| (*line).to_owned()).collect()
}

/// Hubs of both kinds that can be had, without compression.
fn hubs(inner: &str, more: &str) -> Vec<Site> {
    let hub = |kind: ServerKind| Site::hub(kind, "HUB", &format!("compression: off\n{inner}"), more);
    [Ours, Reference].into_iter().filter_map(hub).collect()
}

#[test]
fn a_leaf_node_hears_what_clients_and_other_leaf_nodes_want() {
    for hub in hubs("", "") {
        let mut client = hub.client();
        client.send("SUB own 1\r\nSUB work q 2\r\nSUB work q 3\r\n");
        client.barrier();
        let mut one = Played::dial(&hub, r#"{"name":"one","cluster":"one","headers":true}"#);
        assert_eq!(one.said(), lines(&["LS+ own", "LS+ work q 2"]));
        let mut two = Played::dial(&hub, r#"{"name":"two","cluster":"two","headers":true}"#);
        assert_eq!(two.said(), lines(&["LS+ own", "LS+ work q 2"]));
        two.raw.send("LS+ far\r\nLS+ work q 3\r\nLS+ own\r\n");
        assert!(two.said().is_empty(), "nobody hears of what it wants itself");
        assert_eq!(one.said(), lines(&["LS+ far", "LS+ work q 5"]));
        client.send("UNSUB 1\r\nUNSUB 2\r\n");
        client.barrier();
        assert_eq!(one.said(), lines(&["LS+ work q 4"]), "the other leaf node still wants the rest");
        assert_eq!(two.said(), lines(&["LS- own", "LS+ work q 1"]));
        two.raw.send("LS- far\r\nLS- work q\r\nLS- own\r\n");
        two.said();
        assert_eq!(one.said(), lines(&["LS- far", "LS- own", "LS+ work q 1"]));
        // A leaf node of the same cluster is told what others want, not what the first does.
        two.raw.send("LS+ mine\r\n");
        two.said();
        let mut twin = Played::dial(&hub, r#"{"name":"twin","cluster":"two","headers":true}"#);
        assert_eq!(twin.said(), lines(&["LS+ work q 1"]));
        drop(two);
        crate::eventually("what it wanted is taken back", || one.said().contains("LS- mine"));
    }
}

#[test]
fn an_isolated_leaf_node_hears_of_clients_only() {
    let isolated = r#"{"name":"one","cluster":"one","headers":true,"isolate":true}"#;
    let plain = r#"{"name":"one","cluster":"one","headers":true}"#;
    for (inner, connect) in [("", isolated), ("isolate_leafnode_interest: true", plain)] {
        for hub in hubs(inner, "") {
            let mut one = Played::dial(&hub, connect);
            assert!(one.said().is_empty());
            let mut two = Played::dial(&hub, r#"{"name":"two","cluster":"two","headers":true}"#);
            two.raw.send("LS+ far\r\nLS+ both\r\n");
            two.said();
            let mut client = hub.client();
            client.send("SUB both 1\r\n");
            client.barrier();
            assert_eq!(one.said(), lines(&["LS+ both"]), "{inner}");
            let links = hub.links();
            let row = links.iter().find(|row| row["name"] == "one").expect("it is listed");
            assert_eq!(row["is_isolated"], true);
        }
    }
}

#[test]
fn messages_name_the_queue_groups_that_were_chosen() {
    for hub in hubs("", "") {
        let mut leaf = Played::dial(&hub, r#"{"name":"one","cluster":"one","headers":true}"#);
        leaf.raw.send("LS+ work q 1\r\nLS+ work r 2\r\nLS+ plain\r\n");
        leaf.said();
        let mut client = hub.client();
        client.send("PUB work 2\r\nhi\r\nPUB work reply 2\r\nhi\r\nPUB plain reply 2\r\nhi\r\n");
        client.send("HPUB plain 12 14\r\nNATS/1.0\r\n\r\nhi\r\n");
        client.barrier();
        let expected = [
            "LMSG work | q r 2\r\nhi\r\n",
            "LMSG work + reply q r 2\r\nhi\r\n",
            "LMSG plain reply 2\r\nhi\r\n",
            "HMSG plain 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
        ];
        let mut got = String::new();
        while got.len() < expected.concat().len() {
            let line = leaf.raw.line();
            if !line.starts_with("PING") {
                got.push_str(&line);
                got.push_str("\r\n");
            }
        }
        assert_eq!(got.replace("| r q", "| q r").replace("reply r q", "reply q r"), expected.concat());
        // What it sends without a group is for no group here.
        client.send("SUB back 1\r\nSUB back g 2\r\n");
        client.barrier();
        leaf.raw.send("LMSG back 1\r\na\r\nLMSG back | g 1\r\nb\r\n");
        leaf.said();
        let got: Vec<_> =
            (0..3).map(|_| client.message()).map(|m| (m.sid.clone(), m.text().to_owned())).collect();
        let one = |sid: &str, text: &str| (sid.to_owned(), text.to_owned());
        assert_eq!(got, [one("1", "a"), one("1", "b"), one("2", "b")]);
        assert!(client.barrier().is_empty());
    }
}

/// A hub that a test plays, for one leaf node of each kind.
#[test]
fn a_leaf_node_tells_its_hub_of_its_own_clients() {
    for kind in [Ours, Reference] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let remotes = format!(
            "remotes: [{{ url: \"nats://u:p@127.0.0.1:{port}\", deny_imports: [no.take], deny_exports: [no.send] }}]"
        );
        let Some(leaf) = Site::start(kind, "EDGE", None, &format!("compression: off\n{remotes}"), "") else {
            continue;
        };
        let mut client = leaf.client();
        client.send("SUB own 1\r\nSUB no.take 2\r\nSUB work q 3\r\n");
        client.barrier();
        let (stream, _) = listener.accept().expect("it dials");
        let mut out = stream.try_clone().expect("a socket");
        let mut hub = Played { raw: Raw::over(stream) };
        let info = r#"INFO {"server_id":"H","server_name":"HUB","version":"2.15.2","proto":3,"headers":true,"max_payload":1000,"client_id":5,"nonce":"abc","info_on_connect":true,"leafnode_urls":["127.0.0.1:1"]}"#;
        out.write_all(format!("{info}\r\n").as_bytes()).expect("it reads");
        let connect = hub.raw.line();
        let expected = [
            r#""user":"u","pass":"p""#,
            r#""name":"EDGE","cluster":"EDGE","headers":true"#,
            r#""deny_pub":["no.take"]"#,
            r#""remote_account":"$G","protocol":3}"#,
        ];
        assert!(expected.iter().all(|part| connect.contains(part)), "{connect}");
        let answer = r#"INFO {"server_id":"H","server_name":"HUB","proto":3,"client_id":5,"connect_info":true,"remote_account":"X","export":{"deny":["secret"]}}"#;
        out.write_all(format!("{answer}\r\n").as_bytes()).expect("it reads");
        assert_eq!(hub.said(), lines(&["LS+ own", "LS+ work q 1"]));
        hub.raw.send("LS+ >\r\n");
        hub.said();
        client.send("PUB no.send 1\r\nx\r\nPUB secret 1\r\nx\r\nPUB other 1\r\nx\r\n");
        client.barrier();
        assert_eq!([hub.raw.line(), hub.raw.line()], ["LMSG other 1", "x"]);
        hub.raw.send("LMSG no.take 1\r\nx\r\nLMSG own 1\r\ny\r\n");
        hub.said();
        assert_eq!(client.message().text(), "y");
    }
}

#[test]
fn more_members_than_can_be_said_are_the_most() {
    for hub in hubs("", "") {
        let mut hears = Played::dial(&hub, r#"{"name":"one","cluster":"one","headers":true}"#);
        hears.said();
        let mut many: Vec<Played> = ["a", "b", "c"]
            .iter()
            .map(|name| Played::dial(&hub, &format!("{{\"name\":\"{name}\",\"cluster\":\"{name}\"}}")))
            .collect();
        for leaf in &mut many {
            leaf.raw.send("LS+ work q 999999999\r\n");
            leaf.said();
        }
        assert_eq!(hears.said(), lines(&["LS+ work q 999999999"]));
        many.truncate(1);
        hub.linked(2);
        let said = hears.said();
        assert!(said.is_subset(&lines(&["LS+ work q 999999999"])), "one leaf node still wants it: {said:?}");
        drop(many);
        crate::eventually("nobody is left", || hears.said().contains("LS- work q"));
    }
}

/// Counts messages for a member behind a leaf node, until a probe says that it is the last.
fn work_of(leaf: &mut Played) -> usize {
    let mut work = 0;
    loop {
        match &*leaf.raw.line() {
            "end" => return work,
            "PING" => leaf.raw.send("PONG\r\n"),
            line => work += usize::from(line.starts_with("LMSG work ")),
        }
    }
}

#[test]
fn what_comes_over_a_route_goes_to_leaf_nodes_by_their_members() {
    const COUNT: usize = 2000;
    for kinds in MIXES {
        let Some([one, two]) = cluster(kinds, "C", ["compression: off"; 2], "") else { continue };
        let mut leafs = [9, 1].map(|members| {
            let connect = format!("{{\"name\":\"L{members}\",\"cluster\":\"L{members}\",\"headers\":true}}");
            let mut leaf = Played::dial(&two, &connect);
            leaf.raw.send(&format!("LS+ work q {members}\r\nLS+ probe\r\n"));
            leaf.said();
            leaf
        });
        let mut from = one.client();
        for leaf in &mut leafs {
            crate::eventually("interest is known", || {
                from.publish("probe", "");
                from.barrier();
                leaf.said().iter().any(|line| line.starts_with("LMSG probe "))
            });
        }
        from.send(&"PUB work 1\r\nx\r\n".repeat(COUNT));
        from.publish("probe", "end");
        let [more, less] = leafs.each_mut().map(work_of);
        assert_eq!(more + less, COUNT, "{kinds:?}");
        assert!((COUNT * 85 / 100..COUNT * 95 / 100).contains(&more), "{kinds:?}: {more} and {less}");
    }
}
