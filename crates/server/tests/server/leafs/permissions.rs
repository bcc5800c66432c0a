//! Permissions of a link that the hub has dialled: those of the user as whom it is logged in at its
//! leaf node. Answers, for which clients need none.

use super::Site;
use crate::eventually;
use crate::raw::Raw;
use crate::routes::{MIXES, Ours, Reference, wait_for_interest};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

const USERS: &str = "accounts { A { users: [{user: a, password: a, permissions { publish { allow: [\"pub.>\"], \
                     deny: [pub.no] }, subscribe: [\"sub.>\"] }}, {user: c, password: c}] } }";

/// A client of this site that may do everything.
fn free_client(site: &Site) -> Raw {
    let mut raw = Raw::open(site.server.address());
    raw.send("CONNECT {\"user\":\"c\",\"pass\":\"c\",\"verbose\":false}\r\n");
    raw.barrier();
    raw
}

#[test]
fn permissions_hold_for_a_hub_that_dials() {
    for kinds in MIXES {
        let Some(leaf) = Site::hub(kinds[0], "EDGE", "", USERS) else { continue };
        let port = leaf.port;
        let remotes = format!("remotes: [{{ url: \"nats://a:a@127.0.0.1:{port}\", hub: true }}]");
        let Some(hub) = Site::start(kinds[1], "HUB", None, &remotes, "") else { continue };
        leaf.linked(1);
        hub.linked(1);
        let (mut there, mut here) = (free_client(&leaf), hub.client());
        there.send("SUB > 1\r\n");
        there.barrier();
        eventually("a message may come from the hub", || {
            here.send("PUB other 1\r\nx\r\nPUB sub.a 1\r\nx\r\nPUB pub.no 1\r\nx\r\nPUB pub.yes 1\r\nx\r\n");
            here.barrier();
            let got = there.barrier();
            assert!(got.iter().all(|message| message.subject == "pub.yes"), "{kinds:?}: {got:?}");
            !got.is_empty()
        });
        // The reference takes as a hub by what it may send, and ends the link for all else.
        if kinds[1] == Reference {
            continue;
        }
        here.send("SUB > 1\r\nSUB sub.a 2\r\nSUB other 3\r\n");
        here.barrier();
        there.send("UNSUB 1\r\n");
        there.barrier();
        eventually("a message may go to the hub", || {
            there.send("PUB other 1\r\nx\r\nPUB pub.yes 1\r\nx\r\nPUB sub.a 1\r\nx\r\n");
            there.barrier();
            let got = here.barrier();
            assert!(got.iter().all(|message| message.subject == "sub.a"), "{kinds:?}: {got:?}");
            !got.is_empty()
        });
    }
}

/// Compat: `allow_responses` is for clients; a leaf node does not send what the rest of its
/// permissions does not allow.
#[test]
fn answers_need_permissions_of_their_own() {
    let rules = "publish: [\"up.>\"], subscribe: [\"svc\"], allow_responses: true";
    let users = format!(
        "accounts {{ A {{ users: [{{user: a, password: a, permissions {{ {rules} }}}}, \
         {{user: c, password: c}}] }} }}"
    );
    for kinds in MIXES {
        let Some(hub) = Site::hub(kinds[0], "HUB", "", &users) else { continue };
        let remotes = format!("remotes: [{{ url: \"nats://a:a@127.0.0.1:{}\" }}]", hub.port);
        let Some(leaf) = Site::start(kinds[1], "EDGE", None, &remotes, "") else { continue };
        leaf.linked(1);
        let (mut asks, mut service) = (free_client(&hub), leaf.client());
        asks.send("SUB answers 1\r\nSUB up.> 2\r\n");
        asks.barrier();
        service.send("SUB svc 1\r\n");
        service.barrier();
        eventually("a request reaches the service", || {
            asks.send("PUB svc answers 2\r\nhi\r\n");
            asks.barrier();
            !service.barrier().is_empty()
        });
        service.send("PUB answers 3\r\nyes\r\nPUB up.behind 0\r\n\r\n");
        assert_eq!(asks.message().subject, "up.behind", "{kinds:?}");
    }
}

#[test]
fn what_a_hub_that_dials_may_not_send_is_not_taken() {
    for kind in [Ours, Reference] {
        let Some(leaf) = Site::hub(kind, "EDGE", "", USERS) else { continue };
        let mut there = free_client(&leaf);
        there.send("SUB > 1\r\n");
        there.barrier();
        let mut played = Raw::open(SocketAddr::from(([127, 0, 0, 1], leaf.port)));
        played.send("CONNECT {\"user\":\"a\",\"pass\":\"a\",\"is_hub\":true,\"cluster\":\"H\"}\r\n");
        played.send("LMSG sub.a 1\r\nx\r\nLMSG pub.no 1\r\nx\r\nLMSG pub.yes 1\r\nx\r\n");
        let got = there.message();
        assert_eq!(got.subject, "pub.yes", "{kind:?}");
        // A leaf node passes over what a hub may not ask for, and keeps the link.
        played.send("LS+ other\r\nLS+ sub.b\r\nLMSG pub.last 1\r\nx\r\n");
        assert_eq!(there.message().subject, "pub.last");
        there.send("PUB other 1\r\nx\r\nPUB sub.b 1\r\nx\r\n");
        there.barrier();
        let is_message = |line: &String| line.starts_with("LMSG");
        let first = std::iter::from_fn(|| Some(played.line())).find(is_message);
        assert_eq!(first.as_deref(), Some("LMSG sub.b 1"), "{kind:?}");
    }
}

#[test]
fn a_hub_that_dials_does_not_take_what_its_remote_denies() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("nats://{}", listener.local_addr().expect("bound"));
    let hub = super::dialling(Ours, &url, "hub: true, deny_imports: [\"no.>\"]").expect("ours");
    let (mut socket, _) = listener.accept().expect("it dials");
    let mut said = BufReader::new(socket.try_clone().expect("a socket"));
    let mut wait_for = |verb: &str| {
        let mut line = String::new();
        while !line.starts_with(verb) {
            line.clear();
            assert!(said.read_line(&mut line).expect("it says so") > 0, "the link has ended");
        }
        line
    };
    let info = "INFO {\"client_id\":1,\"leafnode_urls\":[\"h:1\"],\"info_on_connect\":true}\r\n";
    socket.write_all(info.as_bytes()).expect("it reads");
    assert!(wait_for("CONNECT").contains("\"deny_pub\":[\"no.>\"]"));
    let answer = "INFO {\"client_id\":1,\"connect_info\":true}\r\nPING\r\n";
    socket.write_all(answer.as_bytes()).expect("it reads");
    wait_for("PONG");
    let mut here = hub.client();
    here.send("SUB > 1\r\n");
    here.barrier();
    socket.write_all(b"LMSG yes 1\r\nx\r\nLMSG no.a 1\r\nx\r\n").expect("it reads");
    wait_for("-ERR 'Permissions Violation for Publish to \"no.a\"'");
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("it ends the link");
    assert_eq!(here.message().subject, "yes");
    assert!(here.barrier().is_empty());
}

fn client(site: &Site, user: &str) -> Raw {
    let mut raw = Raw::open(site.server.address());
    raw.send(&format!("CONNECT {{\"user\":\"{user}\",\"pass\":\"{user}\",\"verbose\":false}}\r\n"));
    raw.barrier();
    raw
}

/// Permissions of a link are about the names under which messages go over it.
#[test]
fn what_an_import_names_otherwise_is_allowed_by_its_new_name() {
    let accounts = "accounts { L { users: [{user: l, password: l}], exports: [{stream: \"data.>\"}] }, \
         S { users: [{user: s, password: s}], \
             imports: [{stream: {account: L, subject: \"data.>\"}, to: \"leaf.data.>\"}] } }";
    for (kinds, (allowed, passes)) in MIXES
        .into_iter()
        .flat_map(|kinds| [("leaf.>", true), ("data.>", false), ("other.>", false)].map(|case| (kinds, case)))
    {
        let users = format!(
            "accounts {{ S {{ users: [{{user: s, password: s}}, {{user: edge, password: edge, \
             permissions {{ publish: [\"{allowed}\", \"probe.>\", \"end\"] }}}}] }} }}"
        );
        let Some(hub) = Site::hub(kinds[0], "HUB", "", &users) else { continue };
        let remotes =
            format!("remotes: [{{ url: \"nats://edge:edge@127.0.0.1:{}\", account: S }}]", hub.port);
        let Some(leaf) = Site::start(kinds[1], "EDGE", None, &remotes, accounts) else { continue };
        leaf.linked(1);
        let (mut there, mut of_s, mut of_l) = (client(&hub, "s"), client(&leaf, "s"), client(&leaf, "l"));
        there.send("SUB leaf.> 1\r\nSUB data.> 2\r\nSUB end 3\r\n");
        there.barrier();
        wait_for_interest(&mut of_s, &mut there);
        (0..5).for_each(|_| of_l.publish("data.foo", ""));
        of_l.barrier();
        of_s.publish("end", "");
        let all = std::iter::repeat_with(|| there.message().subject);
        let got: Vec<_> = all.take_while(|subject| subject != "end").collect();
        let expected = if passes { vec!["leaf.data.foo"; 5] } else { vec![] };
        assert_eq!(got, expected, "{kinds:?} {allowed}");
    }
}

/// Queue groups that a user may not hear as hear nothing; other groups of a leaf node do.
#[test]
fn a_denied_queue_group_hears_nothing_and_others_do() {
    let rules = "subscribe { allow: [\">\"], deny: [\"broad.secret work\", \"exact.secret work\"] }";
    let users = format!(
        "accounts {{ A {{ users: [{{user: edge, password: edge, permissions {{ {rules} }}}}, \
         {{user: c, password: c}}] }} }}"
    );
    for kinds in MIXES {
        let Some(hub) = Site::hub(kinds[0], "HUB", "", &users) else { continue };
        let remotes = format!("remotes: [{{ url: \"nats://edge:edge@127.0.0.1:{}\" }}]", hub.port);
        let Some(leaf) = Site::start(kinds[1], "EDGE", None, &remotes, "") else { continue };
        leaf.linked(1);
        let (mut from, mut to) = (client(&hub, "c"), leaf.client());
        to.send("SUB broad.* work 1\r\nSUB broad.* audit 2\r\n");
        to.send("SUB exact.secret work 3\r\nSUB exact.secret audit 4\r\nSUB end 5\r\n");
        to.barrier();
        wait_for_interest(&mut from, &mut to);
        for subject in ["broad.secret", "broad.public", "exact.secret", "end"] {
            from.publish(subject, "");
        }
        let all = std::iter::repeat_with(|| to.message());
        let mut got: Vec<_> = all
            .take_while(|message| message.subject != "end")
            .map(|message| (message.sid, message.subject))
            .collect();
        got.sort();
        let expected =
            [("1", "broad.public"), ("2", "broad.public"), ("2", "broad.secret"), ("4", "exact.secret")];
        let expected = expected.map(|(sid, subject)| (sid.to_owned(), subject.to_owned()));
        assert_eq!(got, expected, "{kinds:?}");
    }
}
