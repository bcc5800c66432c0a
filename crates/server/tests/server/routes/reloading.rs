//! Reload of `cluster{}` while servers are linked, beside nats-server in both roles.

use super::{MIXES, Member, Ours, config, free_port, settle, two, wait_for_interest};
use crate::eventually;
use crate::tls::Lab;

fn has(lines: &[String], text: &str) -> bool {
    lines.iter().any(|line| line.contains(text))
}

#[test]
fn routes_come_and_go() {
    for kinds in MIXES {
        let ports = [free_port(), free_port()];
        let Some(a) = Member::with(kinds[0], "S0", ports[0], &[], "no_advertise: true") else { continue };
        let Some(b) = Member::with(kinds[1], "S1", ports[1], &[], "no_advertise: true") else { continue };
        assert_eq!(b.links(), 0);
        let lines = b.server.reload(&config("S1", ports[1], &[ports[0]], "no_advertise: true", ""));
        assert!(has(&lines, "Reloaded: cluster routes"), "{kinds:?}: {lines:?}");
        let members = [a, b];
        settle(&members);
        let lines = members[1].server.reload(&config("S1", ports[1], &[], "no_advertise: true", ""));
        assert!(has(&lines, "Removed route nats://127.0.0.1:"), "{kinds:?}: {lines:?}");
        members[1].server.wait_for_log("Router connection closed: Route Removed");
        eventually("no links", || members.iter().all(|member| member.links() == 0));
    }
}

/// A change that needs a restart is refused in the reference's words, and nothing else is changed.
#[test]
fn the_address_stays() {
    for kind in [Ours, super::Reference] {
        let (port, other) = (free_port(), free_port());
        let Some(member) = Member::with(kind, "S0", port, &[], "") else { continue };
        let lines = member.server.reload(&config("S0", other, &[], "", ""));
        let text = format!("config reload not supported for cluster port: old={port}, new={other}");
        assert!(has(&lines, &text), "{kind:?}: {lines:?}");
        let text = config("S0", port, &[], "", "").replace("127.0.0.1", "127.0.0.2");
        let lines = member.server.reload(&text);
        let text = "config reload not supported for cluster host: old=127.0.0.1, new=127.0.0.2";
        assert!(has(&lines, text), "{kind:?}: {lines:?}");
        let lines = member.server.reload(&config("S0", port, &[], "accounts: [\"NOBODY\"]", ""));
        let text = "unable to add account \"NOBODY\" to the list of dedicated routes: ";
        assert!(has(&lines, text), "{kind:?}: {lines:?}");
    }
}

/// Servers whose password holds no more have to go, and come back with the new one.
#[test]
fn passwords_change() {
    let login = |password: &str| format!("authorization {{ user: u, password: {password} }}");
    for kinds in MIXES {
        let ports = [free_port(), free_port()];
        let dialling = |password: &str| {
            format!("{}\nroutes: [\"nats://u:{password}@127.0.0.1:{}\"]", login(password), ports[0])
        };
        let Some(a) = Member::with(kinds[0], "S0", ports[0], &[], &login("a")) else { continue };
        let Some(b) = Member::with(kinds[1], "S1", ports[1], &[], &dialling("a")) else { continue };
        let members = [a, b];
        settle(&members);
        let from = members[0].server.log_len();
        members[0].server.reload(&config("S0", members[0].port, &[], &login("b"), ""));
        members[0].server.wait_for_log_after(from, "authentication error");
        eventually("nobody is let in", || members[0].links() == 0);
        members[1].server.reload(&config("S1", ports[1], &[], &dialling("b"), ""));
        settle(&members);
    }
}

#[test]
fn compression_changes() {
    let mode = |mode: &str| format!("compression: {mode}");
    for kinds in MIXES {
        let Some(members) = two(kinds, [&mode("s2_fast"), &mode("accept")]) else { continue };
        settle(&members);
        assert_eq!(members[0].shown("compression"), ["s2_fast"; 4], "{kinds:?}");
        let reload = |to: &str| {
            members[0].server.reload(&config("S0", members[0].port, &[], &mode(to), ""));
            eventually(to, || members[0].shown("compression") == vec![to; 4]);
        };
        // Without a new negotiation.
        let rids = |member: &Member| member.server.page("/routez")["routes"][0]["rid"].clone();
        let before = rids(&members[0]);
        reload("s2_best");
        assert_eq!(rids(&members[0]), before, "{kinds:?}");
        let (mut a, mut b) = (members[0].client(), members[1].client());
        b.subscribe("x", 1);
        wait_for_interest(&mut a, &mut b);
        a.publish("x", "text text text text text text text");
        assert_eq!(b.message().text(), "text text text text text text text");
        // With one.
        reload("off");
        settle(&members);
        assert_eq!(members[1].shown("compression"), ["off"; 4], "{kinds:?}");
    }
}

#[test]
fn pools_change() {
    for kinds in MIXES {
        let Some(members) = two(kinds, ["", ""]) else { continue };
        settle(&members);
        members[0].server.reload(&config("S0", members[0].port, &[], "pool_size: 5", ""));
        eventually("six links", || members.iter().all(|member| member.links() == 6));
        let (mut a, mut b) = (members[0].client(), members[1].client());
        b.subscribe("x", 1);
        wait_for_interest(&mut a, &mut b);
        a.publish("x", "1");
        assert_eq!(b.message().text(), "1");
        assert!(b.barrier().is_empty());
    }
}

const ACCOUNTS: &str = "accounts { A { users [{user: a, password: a}] } }";

/// An account gets links of its own, on one server after the other, and loses them again; messages
/// arrive once all the while.
#[test]
fn accounts_move() {
    for kinds in MIXES {
        let ports = [free_port(), free_port()];
        let start = |at: usize, routes: &[u16]| {
            let text = config(&format!("S{at}"), ports[at], routes, "", ACCOUNTS);
            let setup = crate::process::Setup::default().program(&kinds[at].program()?).config(&text);
            Some(Member { server: setup.start(), port: ports[at] })
        };
        let (Some(a), Some(b)) = (start(0, &[]), start(1, &[ports[0]])) else { continue };
        let members = [a, b];
        settle(&members);
        let mut clients = members.each_ref().map(|member| {
            let mut client = crate::raw::Raw::open(member.server.address());
            client.send("CONNECT {\"user\":\"a\",\"pass\":\"a\",\"verbose\":false}\r\n");
            client.barrier();
            client
        });
        clients.iter_mut().for_each(|client| client.subscribe("x", 1));
        let [one, other] = &mut clients;
        wait_for_interest(one, other);
        wait_for_interest(other, one);
        let mut once = |what: &str| {
            let [one, other] = &mut clients;
            for _ in 0..2 {
                eventually(what, || {
                    one.publish("x", "");
                    let here = one.barrier().len();
                    let there = other.barrier().len();
                    // What was on its way the last time may come late.
                    here == 1 && there == 1
                });
                std::mem::swap(one, other);
            }
        };
        let reload = |at: usize, inner: &str| {
            let routes = &[ports[0]][..at];
            members[at].server.reload(&config(&format!("S{at}"), ports[at], routes, inner, ACCOUNTS));
        };
        reload(1, "accounts: [A]");
        once("the second has a link for the account");
        reload(0, "accounts: [A]");
        once("both have");
        eventually("a link of its own", || {
            members
                .iter()
                .all(|member| member.shown("account").iter().filter(|name| *name == "A").count() == 1)
        });
        reload(1, "");
        reload(0, "");
        once("none has");
        settle(&members);
    }
}

/// New links get the new certificate; a reload may begin with TLS, and pin other keys.
#[test]
fn certificates_change() {
    let lab = Lab::new();
    let (plain, mut pins) = (lab.block("ca_file: \"@ca.pem\""), vec![lab.sign("server")]);
    for kinds in MIXES {
        let Some(members) = two(kinds, [&plain, &plain]) else { continue };
        settle(&members);
        pins.push(lab.sign("server"));
        let last = pins.last().expect("a pin");
        let pinned = lab.block(&format!("ca_file: \"@ca.pem\", pinned_certs: [\"{last}\"]"));
        // The first server shows the new certificate from now on, and the second wants it.
        members[0].server.reload(&config("S0", members[0].port, &[], &plain, ""));
        members[1].server.reload(&config("S1", members[1].port, &[members[0].port], &pinned, ""));
        members[1].server.wait_for_log("Disconnect 4 clients due to pinned certs reload");
        settle(&members);
    }
}
