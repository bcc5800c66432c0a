//! Our pages have the shape that the real server's have in the same situation.
//!
//! The situation: account A (user a) has one client with a name, a plain subscription that has
//! received one message and a queue subscription that ends after five; another of its clients with
//! a subscription has left.

use std::path::PathBuf;

use myelin_monitor::{ClientLibrary, ConnSnapshot, SubSnapshot};
use serde_json::Value;

use crate::fixture::{Fixed, client, gone, sub};
use crate::shape::differences;

/// Golden files, each with the request that it answers.
pub(crate) const REQUESTS: &[(&str, &str)] = &[
    ("varz.json", "/varz"),
    ("connz.json", "/connz"),
    ("connz_subs.json", "/connz?subs=1"),
    ("connz_detail_auth.json", "/connz?subs=detail&auth=1"),
    ("connz_closed.json", "/connz?state=closed"),
    ("connz_closed_detail_auth.json", "/connz?state=closed&subs=detail&auth=1"),
    ("connz_any.json", "/connz?state=any&sort=cid"),
    ("connz_unknown_account.json", "/connz?acc=nope"),
    ("connz_unknown_cid.json", "/connz?cid=77"),
    ("subsz.json", "/subsz"),
    ("subsz_test.json", "/subsz?subs=1&acc=A&test=foo.x"),
    ("subsz_unknown_account.json", "/subscriptionsz?subs=1&acc=nope"),
    ("healthz.json", "/healthz"),
    ("routez.json", "/routez?subs=detail"),
    ("gatewayz.json", "/gatewayz?accs=1&gw_name=nope"),
    ("leafz.json", "/leafz?subs=1&acc=nope"),
    ("jsz.json", "/jsz?acc=A&accounts=1&consumers=1&config=1&raft=1&limit=5&offset=7"),
    ("accountz.json", "/accountz"),
    ("accstatz.json", "/accstatz"),
    ("ipqueuesz.json", "/ipqueuesz"),
];

/// The file that holds an answer of the real server.
pub(crate) fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

pub(crate) fn recorded(name: &str) -> Value {
    let text = std::fs::read(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_slice(&text).unwrap()
}

fn situation() -> Fixed {
    let one = ConnSnapshot {
        name: "<one>&".to_owned(),
        library: ClientLibrary { lang: "rust".to_owned(), version: "1.2.3".to_owned() },
        subscriptions: 2,
        ..client(7)
    };
    let queue = SubSnapshot { queue: "q".to_owned(), max: 5, ..sub(7, "A", "bar") };
    Fixed {
        open: vec![one],
        closed: vec![ConnSnapshot { subscriptions: 1, ..gone(8, 3, "Client Closed") }],
        accounts: vec!["$G", "$SYS", "A"],
        subs: vec![SubSnapshot { msgs: 1, ..sub(7, "A", "foo.*") }, queue, sub(8, "A", "z")],
        ..Fixed::default()
    }
}

#[test]
fn pages_have_the_recorded_shapes() {
    let source = situation();
    // The recording waited for the second client to leave by asking for this page.
    source.page("/connz");
    for (name, request) in REQUESTS {
        let ours = source.page(request);
        let theirs = recorded(name);
        // The order of subscriptions is a hash table's in the reference; the files were recorded
        // with ours.
        assert_eq!(differences(&ours, &theirs), Vec::<String>::new(), "{name} {request}");
    }
}
