//! Reloads of servers whose clusters are joined by gateways.

use super::{Site, joined, login, pairs};
use crate::eventually;
use crate::routes::{Ours, Reference, free_port};

fn file(site: &Site) -> String {
    std::fs::read_to_string(site.server.config_file()).expect("it is there")
}

const ACCOUNTS: &str = "accounts { X { users: [{user: x, password: x}] } }";

/// An account in front of the others.
const Z: &str = "\nZ { users: [{user: z, password: z}] }\n";

/// Clients of an account that a reload brings hear each other at once, and of one that a reload
/// takes away and brings back, too.
#[test]
fn accounts_that_a_reload_brings_reach_other_clusters() {
    for sites in pairs(ACCOUNTS) {
        let (mut x, mut far) = (login("x", &sites[0]), login("x", &sites[1]));
        joined(&mut x, &mut far);
        for turn in 0..2 {
            for site in &sites {
                let text = file(site).replace("accounts {", &format!("accounts {{{Z}"));
                site.server.reload(&text);
            }
            let (mut a, mut b) = (login("z", &sites[0]), login("z", &sites[1]));
            joined(&mut a, &mut b);
            b.subscribe("news", 1);
            crate::routes::wait_for_interest(&mut a, &mut b);
            a.publish("news", &turn.to_string());
            assert_eq!(b.message().text(), turn.to_string());
            drop((a, b));
            for site in &sites {
                site.server.reload(&file(site).replace(Z, ""));
            }
        }
        joined(&mut x, &mut far);
    }
}

/// Where an account is taken away nobody wants anything in it: whoever asks in another cluster is
/// told so, and does not wait.
#[test]
fn what_was_wanted_in_an_account_that_a_reload_takes_away_is_not_any_more() {
    for sites in pairs(&ACCOUNTS.replace("accounts {", &format!("accounts {{{Z}"))) {
        for (gone, stays) in [(0, 1), (1, 0)] {
            let (mut serves, mut asks) = (login("z", &sites[gone]), login("z", &sites[stays]));
            serves.send("SUB svc 1\r\nSUB svc group 2\r\n");
            joined(&mut serves, &mut asks);
            let text = file(&sites[gone]);
            sites[gone].server.reload(&text.replace(Z, ""));
            serves.rest();
            asks.subscribe("inbox", 1);
            eventually("nobody serves it", || {
                asks.send("PUB svc inbox 0\r\n\r\n");
                asks.barrier().iter().any(|message| message.text().starts_with("NATS/1.0 503"))
            });
            sites[gone].server.reload(&text);
        }
    }
}

/// A reload that changes `gateway{}` says what the reference says.
#[test]
fn a_reload_that_changes_the_gateway_is_refused() {
    for kind in [Ours, Reference] {
        let inner = "connect_retries: 1";
        let Some(site) = Site::start(kind, ("A1", "A", free_port()), &[], inner, "") else { continue };
        let text = file(&site);
        for (old, new) in [
            ("connect_retries: 1", "connect_retries: 2"),
            ("connect_retries: 1", "connect_backoff: true"),
            ("connect_retries: 1", "reject_unknown: true"),
            ("connect_retries: 1", "write_deadline: \"3s\""),
            ("gateways: []", "gateways: [{ name: B, url: \"nats://127.0.0.1:1\" }]"),
            ("name: A,", "name: C,"),
        ] {
            let lines = site.server.reload(&text.replace(old, new)).join("\n");
            let expected = "config reload not supported for Gateway: old=";
            assert!(lines.contains(expected), "{kind:?} {new}: {lines}");
        }
        let lines = site.server.reload(&text).join("\n");
        assert!(lines.contains("Reloaded server configuration"), "{kind:?}: {lines}");
    }
}
