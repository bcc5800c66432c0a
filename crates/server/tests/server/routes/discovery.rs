//! Which servers find each other, and which links stay.

use super::hostile::{CONNECT, INFO, peer};
use super::{MIXES, Member, Ours, Reference, config, free_port, settle, two};
use crate::eventually;
use crate::raw::Raw;
use serde_json::Value;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The third server knows the first only, and ends connected to the second.
#[test]
fn a_server_is_told_of_others() {
    for kinds in
        [[Ours, Ours, Ours], [Ours, Reference, Ours], [Reference, Ours, Ours], [Ours, Ours, Reference]]
    {
        let ports = [free_port(), free_port(), free_port()];
        let start =
            |at: usize, routes: &[u16]| Member::start(kinds[at], &format!("S{at}"), ports[at], routes, "");
        let Some(a) = start(0, &[]) else { continue };
        let Some(b) = start(1, &[ports[0]]) else { continue };
        let Some(c) = start(2, &[ports[0]]) else { continue };
        let members = [a, b, c];
        settle(&members);
        assert_eq!(members[2].knows(), ["S0", "S1"]);
        assert_eq!(members[1].knows(), ["S0", "S2"]);
    }
}

/// Both dial: one link of each kind stays.
#[test]
fn servers_that_dial_each_other_have_each_link_once() {
    for kinds in [[Ours, Ours], [Ours, Reference]] {
        let ports = [free_port(), free_port()];
        let Some(a) = Member::start(kinds[0], "S0", ports[0], &[ports[1]], "") else { continue };
        let Some(b) = Member::start(kinds[1], "S1", ports[1], &[ports[0]], "") else { continue };
        settle(&[a, b]);
    }
}

#[test]
fn a_server_that_dials_itself_does_not_go_on() {
    let port = free_port();
    let member = Member::start(Ours, "S0", port, &[port], "").expect("it starts");
    let _ = member.client();
    assert_eq!(member.links(), 0);
}

#[test]
fn clients_are_told_which_servers_there_are() {
    let ports = [free_port(), free_port()];
    let a = Member::start(Ours, "S0", ports[0], &[], "").expect("it starts");
    let mut client = Raw::connect(&a.server);
    let mut urls = || loop {
        let line = client.line();
        let Some(info) = line.strip_prefix("INFO ") else {
            assert_eq!(line, "PING");
            client.send("PONG\r\n");
            continue;
        };
        let info: Value = serde_json::from_str(info).expect("INFO is JSON");
        assert_eq!(info["cluster"], "C");
        return info["connect_urls"].as_array().map_or(0, Vec::len);
    };
    let b = Member::start(Ours, "S1", ports[1], &[ports[0]], "").expect("it starts");
    assert_eq!(urls(), 2, "one for each server");
    drop(b);
    assert_eq!(urls(), 1, "the other one is gone");
}

#[test]
fn a_server_of_another_cluster_is_not_let_in() {
    let port = free_port();
    let a = Member::start(Ours, "S0", port, &[], "").expect("it starts");
    let other =
        format!("cluster {{ name: D, listen: \"127.0.0.1:-1\", routes: [\"nats://127.0.0.1:{port}\"] }}");
    let b = crate::process::Setup::default().config(&format!("server_name: S1\n{other}")).start();
    a.server.wait_for_log("Rejecting connection, cluster name \"D\" does not match \"C\"");
    b.wait_for_log("Router connection closed");
    assert_eq!(a.links(), 0);
}

#[test]
fn a_name_that_was_made_up_gives_way() {
    let port = free_port();
    let a = Member::start(Ours, "S0", port, &[], "").expect("it starts");
    let other = format!("cluster {{ listen: \"127.0.0.1:-1\", routes: [\"nats://127.0.0.1:{port}\"] }}");
    let b = crate::process::Setup::default().config(&format!("server_name: S1\n{other}")).start();
    eventually("the links are there", || a.links() == 4);
    assert_eq!(b.page("/varz")["cluster"]["name"], "C");
}

#[test]
fn a_password_is_asked_for() {
    let port = free_port();
    let config = |listen: u16, routes: &str| {
        format!(
            "cluster {{ name: C, listen: \"127.0.0.1:{listen}\", authorization {{ user: u, password: p }}\n\
             routes: [{routes}] }}"
        )
    };
    let setup = crate::process::Setup::default();
    let a = setup.clone().config(&config(port, "")).start();
    let with = |login: &str| {
        format!(
            "cluster {{ name: C, listen: \"127.0.0.1:-1\", routes: [\"nats://{login}127.0.0.1:{port}\"] }}"
        )
    };
    let wrong = setup.clone().config(&with("u:x@")).start();
    a.wait_for_log("authentication error");
    wrong.wait_for_log("Authorization Violation");
    drop(wrong);
    // Compat: the cluster's own user is not taken where the route names none.
    let unnamed = setup.clone().config(&config(free_port(), &format!("\"nats://127.0.0.1:{port}\""))).start();
    unnamed.wait_for_log("Authorization Violation");
    drop(unnamed);
    let right = setup.config(&with("u:p@")).start();
    eventually("the links are there", || right.page("/routez")["num_routes"] == 4);
}

#[test]
fn one_of_so_many_failed_attempts_is_an_error() {
    for (more, second) in [("connect_error_reports: 2", "[ERR]"), ("", "[DBG]")] {
        let setup =
            crate::process::Setup::default().config(&config("S0", free_port(), &[free_port()], "", more));
        let server = setup.flags(&["-D"]).start();
        for (attempt, level) in [(1, "[ERR]"), (2, second)] {
            server.wait_for_log(&format!("{level} Error trying to connect to route (attempt {attempt})"));
        }
    }
}

/// Clients of a server that does not advertise hear of no other, and those of the other not of it.
#[test]
fn a_server_that_does_not_advertise_is_not_told_of() {
    for kinds in MIXES {
        let Some(members) = two(kinds, ["no_advertise: true", ""]) else { continue };
        settle(&members);
        for member in &members {
            let own = member.server.address();
            let line = Raw::over(TcpStream::connect(own).expect("it listens")).line();
            let info: Value = serde_json::from_str(&line["INFO ".len()..]).expect("INFO is JSON");
            let urls = info["connect_urls"].as_array().cloned().unwrap_or_default();
            // Compat: a server names itself only where it has had others to name.
            assert!(urls.is_empty(), "{kinds:?}: {urls:?}");
        }
    }
}

#[test]
fn attempts_may_come_less_and_less_often() {
    for kind in [Ours, Reference] {
        let (port, nobody, begun) = (free_port(), free_port(), Instant::now());
        let inner = format!("connect_backoff: true, routes: [\"nats://127.0.0.1:{nobody}\"]");
        let Some(member) = Member::with(kind, "S0", port, &[], &inner) else { continue };
        member.server.wait_for_log("(attempt 3)");
        assert!(begun.elapsed() >= Duration::from_secs(3), "{kind:?}: after a second, and two more");
    }
}

/// A server of which another has told is dialled as often as is configured, and then no more,
/// until it is told of again.
#[test]
fn a_server_that_was_told_of_is_given_up() {
    let member =
        Member::with(Ours, "S0", free_port(), &[], "connect_retries: 1, pool_size: -1").expect("it starts");
    let mut stream = peer(&member);
    let info = INFO.replace("\"route_pool_size\":3,", "");
    stream.write_all(format!("{CONNECT}{info}").as_bytes()).expect("it reads");
    eventually("the link is there", || member.links() == 1);
    let gone = free_port();
    let gossip = format!(
        "INFO {{\"server_id\":\"ND\",\"server_name\":\"D\",\"cluster\":\"C\",\
         \"ip\":\"nats-route://127.0.0.1:{gone}/\",\"port\":{gone}}}\r\n"
    );
    let attempts = |number: u32| member.server.log().matches(&format!("(attempt {number})")).count();
    for told in 1..=2 {
        // What is told while it is being dialled is passed over.
        eventually("another row of attempts", || {
            stream.write_all(gossip.as_bytes()).expect("it reads");
            attempts(1) == told
        });
        eventually("a second attempt", || attempts(2) == told);
    }
    assert_eq!(attempts(3), 0);
}
