//! JetStream of a hub and of its leaf node: whose API answers a request, by which name.

use super::Site;
use crate::eventually;
use crate::raw::Raw;
use crate::routes::{MIXES, Ours, ServerKind};

/// A pair of servers with JetStream.
struct Row {
    shares_system: bool,
    /// Domains of hub and leaf node; empty for none.
    domains: [&'static str; 2],
    /// Whether the account has JetStream.
    is_on: bool,
}

/// Servers that answer requests of hub and leaf node by the plain name, by that of D and of E.
type Answers = [[Option<&'static str>; 2]; 3];

const H: Option<&str> = Some("HUB");
const S: Option<&str> = Some("EDGE");

/// As nats-server 2.15.2 has it, with the system account shared or not.
const EXPECTED: [([&str; 2], Answers); 3] = [
    (["D", "D"], [[H, S], [H, S], [None, None]]),
    (["D", "E"], [[H, S], [H, H], [S, S]]),
    (["", ""], [[H, S], [None, None], [None, None]]),
];

fn rows() -> impl Iterator<Item = (Row, Answers)> {
    let systems = [true, false].into_iter();
    systems.flat_map(|shares_system| {
        EXPECTED.into_iter().flat_map(move |(domains, answers)| {
            let row = move |is_on| Row { shares_system, domains, is_on };
            [(row(true), answers), (row(false), [[None; 2]; 3])]
        })
    })
}

impl Row {
    fn more(&self, side: usize, store: &std::path::Path) -> String {
        let domain = match self.domains[side] {
            "" => String::new(),
            domain => format!(", domain: {domain}"),
        };
        let jetstream = if self.is_on { "jetstream: enabled, " } else { "" };
        format!(
            "jetstream {{ store_dir: {store:?}{domain} }}\nsystem_account: SYS\n\
             accounts {{ A {{ {jetstream}users: [{{user: a, password: a}}] }}, \
             SYS {{ users: [{{user: sys, password: sys}}] }} }}"
        )
    }

    fn start(&self, kinds: [ServerKind; 2], stores: [&std::path::Path; 2]) -> Option<[Site; 2]> {
        let hub = Site::hub(kinds[0], "HUB", "", &self.more(0, stores[0]))?;
        let port = hub.port;
        let system = format!(", {{ url: \"nats://sys:sys@127.0.0.1:{port}\", account: SYS }}");
        let system = if self.shares_system { &system } else { "" };
        let remotes = format!("remotes: [{{ url: \"nats://a:a@127.0.0.1:{port}\", account: A }}{system}]");
        let leaf = Site::start(kinds[1], "EDGE", None, &remotes, &self.more(1, stores[1]))?;
        let links = if self.shares_system { 2 } else { 1 };
        hub.linked(links);
        leaf.linked(links);
        Some([hub, leaf])
    }
}

fn client(site: &Site) -> Raw {
    let mut raw = Raw::open(site.server.address());
    raw.send(
        "CONNECT {\"user\":\"a\",\"pass\":\"a\",\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\n\
         SUB inbox.> 1\r\n",
    );
    raw.barrier();
    raw
}

/// Has a server make a stream of its own name.
fn make_stream(client: &mut Raw, name: &str) {
    let body = format!("{{\"name\":\"{name}\",\"subjects\":[\"of.{name}\"]}}");
    let len = body.len();
    client.send(&format!("PUB $JS.API.STREAM.CREATE.{name} inbox.made {len}\r\n{body}\r\n"));
    let made = client.message();
    assert!(made.text().contains("stream_create_response") && !made.text().contains("\"error\""), "{made:?}");
}

/// Servers whose streams are named to whoever asks by this prefix.
fn answers(asking: &mut Raw, other: &mut Raw, prefix: &str, number: usize) -> Vec<&'static str> {
    asking.send(&format!("PUB {prefix}.STREAM.NAMES inbox.api.{number} 0\r\n\r\n"));
    // A round over the link, and one through the API here: what would have come has come.
    asking.send(&format!("PUB echo inbox.echo.{number} 0\r\n\r\n"));
    let asked = other.message();
    other.publish(&asked.reply.expect("it is asked"), "");
    let (mut all, mut is_over) = (Vec::new(), false);
    while !is_over {
        let message = asking.message();
        is_over = message.subject.starts_with("inbox.echo.");
        all.push(message);
    }
    let of_api = |message: &&crate::raw::Message| message.subject == format!("inbox.api.{number}");
    if all.iter().filter(of_api).count() == 0 {
        // The answer may be slower than the round.
        all.extend(asking.barrier());
    }
    let names = |text: &str| ["HUB", "EDGE"].into_iter().find(|name| text.contains(&format!("\"{name}\"")));
    all.iter().filter(of_api).filter_map(|message| names(message.text())).collect()
}

fn check(row: &Row, expected: Answers, kinds: [ServerKind; 2]) {
    let stores = [tempfile::tempdir(), tempfile::tempdir()].map(|dir| dir.expect("a folder"));
    let Some(sites) = row.start(kinds, [stores[0].path(), stores[1].path()]) else { return };
    let mut clients = sites.each_ref().map(client);
    if row.is_on {
        make_stream(&mut clients[0], "HUB");
        make_stream(&mut clients[1], "EDGE");
    }
    for side in [0, 1] {
        let [hub, leaf] = &mut clients;
        let (asking, other) = if side == 0 { (hub, leaf) } else { (leaf, hub) };
        other.send("SUB echo 2\r\n");
        other.barrier();
        crate::routes::wait_for_interest(asking, other);
        for (number, prefix) in ["$JS.API", "$JS.D.API", "$JS.E.API"].into_iter().enumerate() {
            let expected: Vec<_> = expected[number][side].into_iter().collect();
            let mut got = Vec::new();
            if expected.is_empty() {
                got = answers(asking, other, prefix, number);
            } else {
                let mut attempt = 10;
                eventually("an answer of the API", || {
                    attempt += 1;
                    got = answers(asking, other, prefix, number + attempt * 10);
                    !got.is_empty()
                });
            }
            let what = (row.shares_system, row.domains, row.is_on, kinds, prefix, side);
            assert_eq!(got, expected, "{what:?}");
        }
        other.send("UNSUB 2\r\n");
        other.barrier();
    }
}

#[test]
fn each_side_answers_for_its_own_domain() {
    for (row, expected) in rows() {
        check(&row, expected, [Ours, Ours]);
    }
}

#[test]
fn domains_keep_apart_with_the_reference_at_either_end() {
    for kinds in MIXES.into_iter().skip(1) {
        for (row, expected) in rows().filter(|(row, _)| row.is_on && !row.shares_system) {
            check(&row, expected, kinds);
        }
    }
}

/// An account without JetStream uses that of a domain, and what is put into a bucket by the name of
/// the domain is in the bucket.
#[test]
fn an_account_may_use_another_domain_by_default() {
    let store = tempfile::tempdir().expect("a folder");
    let row = Row { shares_system: false, domains: ["D", ""], is_on: true };
    let hub = Site::hub(Ours, "HUB", "", &row.more(0, store.path())).expect("it is built");
    let port = hub.port;
    let remotes = format!("remotes: [{{ url: \"nats://a:a@127.0.0.1:{port}\", account: A }}]");
    let more = "default_js_domain { A: D }\naccounts { A { users: [{user: a, password: a}] } }";
    let leaf = Site::start(Ours, "EDGE", None, &remotes, more).expect("it is built");
    hub.linked(1);
    leaf.linked(1);
    let (mut here, mut there) = (client(&leaf), client(&hub));
    make_stream(&mut there, "HUB");
    let body = "{\"name\":\"KV_b\",\"subjects\":[\"$KV.b.>\"]}";
    there.send(&format!("PUB $JS.API.STREAM.CREATE.KV_b inbox.kv {}\r\n{body}\r\n", body.len()));
    assert!(there.message().text().contains("\"KV_b\""));
    there.send("SUB echo 2\r\n");
    there.barrier();
    crate::routes::wait_for_interest(&mut here, &mut there);
    let mut number = 0;
    eventually("the API of the hub", || {
        number += 1;
        answers(&mut here, &mut there, "$JS.API", number) == ["HUB"]
    });
    here.send("PUB $KV.b.key inbox.put 5\r\nvalue\r\n");
    let put = here.message();
    assert!(put.text().contains("\"stream\":\"KV_b\""), "{put:?}");
}
