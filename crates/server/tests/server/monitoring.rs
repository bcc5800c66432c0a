//! The monitoring pages, ours and the reference's, of two servers in the same situation.
//!
//! Both are started with the same configuration and lived through by the same clients; then every
//! page is asked for with many queries. Status, headers, keys and their order, and JSON types must
//! agree; so must all values that do not belong to one process. Without a nats-server the test
//! passes and says so.

mod metrics;
mod otlp;
mod pair;
mod requests;
#[path = "../../../monitor/tests/pages/shape.rs"]
mod shape;
mod spans;

use crate::eventually;
use crate::jetstream::{Asker, Home};
use crate::process::{Server, Setup};
use crate::raw::Raw;
use pair::{Answer, Answers, Order, Pair, first_cid};
use requests::{SERVICES, requests};
use serde_json::{Value, json};

const CONFIG: &str = r#"
    server_name: pair
    server_tags: ["Zone:EU", "b"]
    server_metadata { zone: eu, "a b": "1" }
    feature_flags { js_ack_fc_v2: true }
    max_payload: 1000
    max_subscriptions: 50
    ping_interval: "5m"
    write_timeout: retry
    accounts {
        A { users [ { user: a, password: a } ] }
        B { users [ { user: b, password: b } ] }
    }
"#;

/// Three clients that stay, with different counts of everything, and five that have left or were
/// closed.
fn live(pair: &Pair) -> [[Raw; 2]; 3] {
    let one = pair.client(
        r#""user":"a","pass":"a","name":"one","lang":"rust","version":"1.2.3","headers":true"#,
        "SUB foo.* 1\r\nSUB bar q 2\r\nUNSUB 2 5\r\nSUB gone 3\r\nUNSUB 3\r\nPUB foo.x 2\r\nhi\r\n",
    );
    let two = pair.client(
        r#""user":"a","pass":"a","name":"two <&>","lang":"go","version":"0.0.1""#,
        "SUB foo.> 9\r\nPUB foo.y 5\r\nhello\r\nPUB bar 1\r\nx\r\nPUB nobody 3\r\nabc\r\n",
    );
    let three = pair.client(
        r#""user":"b","pass":"b","name":"three""#,
        "SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nPUB a 20\r\n01234567890123456789\r\nPUB a 0\r\n\r\n",
    );
    drop(pair.client(
        r#""user":"b","pass":"b","name":"left","lang":"c","version":"9""#,
        "SUB z 1\r\nSUB z.> q 2\r\nUNSUB 2 7\r\nPUB z 4\r\nzzzz\r\n",
    ));
    pair.await_closed(1);
    let who = r#"CONNECT {"user":"a","pass":"a","name":"offender"}"#;
    let long = "x".repeat(5000);
    for (count, text) in [
        (2, r#"CONNECT {"user":"a","pass":"wrong","name":"stranger"}"#.to_owned()),
        (3, format!("{who}\r\nPUB large 2000")),
        (4, format!("{who}\r\nNONSENSE")),
        (5, format!("{who}\r\nPUB {long}")),
    ] {
        pair.closed_for(&format!("{text}\r\n"));
        pair.await_closed(count);
    }
    [one, two, three]
}

#[test]
fn pages_agree_with_the_reference() {
    let Some(pair) = Pair::start(CONFIG) else { return };
    let _stay = live(&pair);
    for (request, order, ignored) in requests() {
        pair.agree(&request, |answers| answers.pages(order, ignored));
    }
}

#[test]
fn one_connection_is_found_by_its_id() {
    let Some(pair) = Pair::start(CONFIG) else { return };
    let _stay = live(&pair);
    let cids = pair.each().map(|server| first_cid(&server.page("/connz?sort=cid")));
    for query in ["", "&auth=1&subs=detail", "&state=closed", "&state=all", "&user=b", "&acc=A", "&limit=5"] {
        let [ours, reference] = [0, 1].map(|at| {
            let server = pair.each()[at];
            Answer::of(server, &format!("/connz?cid={}{query}", cids[at]))
        });
        assert_eq!(Answers { ours, reference }.pages(Order::Kept, &[]), Vec::<String>::new(), "{query}");
    }
}

#[test]
fn a_server_without_accounts_shows_the_global_one() {
    let Some(pair) = Pair::start("server_name: pair\nhttp_base_path: mon") else { return };
    let _stays = pair.client(r#""name":"one","lang":"rust""#, "SUB a 1\r\nPUB a 2\r\nhi\r\n");
    for (request, ignored) in [
        ("/mon/varz", ["subscriptions", "http_base_path"].as_slice()),
        ("/mon/connz?auth=1&subs=detail", &[]),
        ("/mon/connz?acc=$G&auth=1", &[]),
        ("/mon/accountz", &[]),
        ("/mon/accountz?acc=$G", SERVICES),
        ("/mon/accstatz?unused=1", SERVICES),
        ("/mon/healthz", &[]),
        ("/varz", &[]),
        ("/mon/", &[]),
        ("/", &[]),
    ] {
        pair.agree(request, |answers| answers.pages(Order::Any, ignored));
    }
    pair.agree("/mon", |answers| {
        let [ours, reference] = [&answers.ours, &answers.reference].map(|answer| links(&answer.body));
        if ours == reference { answers.framing() } else { vec![format!("{ours:?} are not {reference:?}")] }
    });
}

/// Mappings, exports and responses of an account on its page, and its imports from `account` and
/// the system account, sorted: the reference lists them in no order.
fn exchange(page: &Value, account: &str) -> Value {
    let detail = &page["account_detail"];
    let sorted = |list: &Value, keep: &dyn Fn(&Value) -> bool| {
        let mut list: Vec<Value> = list.as_array().cloned().unwrap_or_default();
        list.retain(keep);
        list.sort_by_key(|item| ["type", "subject", "to"].map(|name| item[name].to_string()));
        list
    };
    let responses = detail["responses"].as_object().cloned().unwrap_or_default();
    let responses: Vec<Value> = responses
        .into_iter()
        .map(|(key, mut response)| {
            assert_eq!(
                (&response["to"], &response["local_subject"]),
                (&key.as_str().into(), &key.as_str().into())
            );
            for name in ["to", "local_subject"] {
                response[name] = "_R_".into();
            }
            response
        })
        .collect();
    serde_json::json!({
        "mappings": detail["mappings"],
        "exports": sorted(&detail["exports"], &|_| true),
        "imports": sorted(&detail["imports"], &|import| import["account"] == account || import["account"] == "$SYS"),
        "responses": responses,
    })
}

#[test]
fn what_accounts_let_each_other_have_is_told_as_by_the_reference() {
    let config = r#"
        accounts {
            A {
                users [ { user: a, password: a } ]
                exports [
                    {stream: "ev.>"}, {service: "svc.>", response: stream}, {service: "one", accounts: [B]}
                    {service: "lat", latency: "l"}, {service: "hlat", latency: {subject: "l", sampling: headers}}
                ]
                mappings {
                    x: y, "w.*": [ {dest: "v.$1", weight: 20%}, {dest: "u.$1", weight: 30%} ]
                }
            }
            B {
                users [ { user: b, password: b } ]
                imports [
                    {stream: {account: A, subject: "ev.>"}, prefix: p}, {stream: {account: A, subject: "ev.*.*"}, to: "e.$2.$1"}
                    {service: {account: A, subject: "svc.>"}, share: true}, {service: {account: A, subject: "svc.*.*"}, to: "s.$2.$1"}
                    {service: {account: A, subject: "one"}, to: "two"}
                    {service: {account: A, subject: "lat"}}, {service: {account: A, subject: "hlat"}, to: h}
                ]
            }
        }
    "#;
    let Some(pair) = Pair::start(config) else { return };
    let _a = pair.client(r#""user":"a","pass":"a""#, "SUB svc.> 1\r\n");
    let _b = pair.client(r#""user":"b","pass":"b""#, "SUB in 1\r\nPUB svc.x in 0\r\n\r\n");
    for account in ["A", "B", "$SYS"] {
        pair.agree(&format!("/accountz?acc={account}"), |answers| {
            let [ours, reference] = [&answers.ours, &answers.reference].map(|answer| {
                let page = serde_json::from_str(&answer.body).unwrap_or_default();
                exchange(&page, if account == "A" { "B" } else { "A" })
            });
            if ours == reference { Vec::new() } else { vec![format!("{ours:#}\nis not\n{reference:#}")] }
        });
    }
}

/// Where the links of an index lead and what they are called.
fn links(html: &str) -> Vec<(String, String)> {
    let after = |text: &str, from: char| text.split_once(from).map_or("", |(_, rest)| rest).to_owned();
    let links = html.split("<a href=").skip(1).map(|link| {
        let target = link.trim_start_matches('"').split([' ', '>', '"']).next().unwrap_or_default();
        let label = after(link, '>');
        (target.to_owned(), label.split('<').next().unwrap_or_default().trim().to_owned())
    });
    // The reference also links to its source, with its version as a label.
    links.filter(|(target, _)| !target.contains("github.com")).collect()
}

/// SN 2026-14: the secrets of the command line were shown to whoever looked.
#[test]
fn sn_2026_14_no_secret_of_the_command_line_is_shown() {
    let lines: [&[&str]; 4] = [
        &["--user", "ann", "--pass", "s3cret"],
        &["-user=ann", "-pass=s3cret"],
        &["--auth", "s3cret"],
        &["-auth=s3cret"],
    ];
    for flags in lines {
        let server = Setup::default().flags(flags).start();
        let vars = server.page("/debug/vars");
        let line: Vec<_> = vars["cmdline"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(line.iter().any(|word| word.contains("[REDACTED]")), "{line:?}");
        for page in ["/debug/vars", "/varz", "/stacksz", "/"] {
            assert!(!server.exchange(page).1.contains("s3cret"), "{flags:?} {page}");
        }
    }
}

#[test]
fn the_process_is_shown_as_it_is() {
    let server = Server::start();
    let vars = server.page("/debug/vars");
    assert!(vars["memstats"]["HeapInuse"].as_u64() > Some(100_000), "{}", vars["memstats"]["HeapInuse"]);
    let (_, stacks) = server.exchange("/stacksz");
    assert!(stacks.contains("shard-0\n") && stacks.contains("control\n"), "{stacks}");
    let varz = server.page("/varz");
    assert!(varz["mem"].as_u64() > Some(1_000_000) && varz["cores"].as_u64() >= varz["gomaxprocs"].as_u64());
}

#[test]
fn the_mail_of_every_shard_is_counted_and_taken() {
    let server = Server::start();
    let mut raw = Raw::connect(&server);
    raw.barrier();
    let queues = server.page("/ipqueuesz?all=1");
    let mail: Vec<_> =
        queues.as_object().unwrap().iter().filter(|(name, _)| name.ends_with(" mail")).collect();
    let shards = server.page("/varz")["gomaxprocs"].as_u64().unwrap();
    let names: Vec<_> = mail.iter().map(|(name, _)| name.as_str()).collect();
    let expected: Vec<_> = (0..shards).map(|index| format!("Shard {index} mail")).collect();
    assert_eq!(names, expected);
    eventually("mailboxes that are empty", || {
        let queues = server.page("/ipqueuesz?all=1");
        expected.iter().all(|name| queues[name]["pending"] == 0)
    });
}

#[test]
fn what_a_loss_of_power_would_take_is_shown_with_jetstream_only() {
    let without = Server::start().page("/debug/vars");
    assert!(without.get("journal").is_none(), "{without}");
    let home = Home::new();
    let server = home.setup("").start();
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({}));
    asker.publish("S.a", "1");
    let journal = || server.page("/debug/vars")["journal"].clone();
    // Acknowledged before it was durable: until the next round that is what a loss of power would
    // take.
    eventually("a round", || journal()["loss_window_max"].as_u64() > Some(0));
    eventually("nothing to lose", || journal()["loss_window"] == 0);
    let shown = journal();
    for key in ["rounds", "positions_window", "positions_window_max"] {
        assert!(shown[key].is_u64(), "{key} in {shown}");
    }
}

#[test]
fn processor_time_is_that_of_the_last_second() {
    let server = Server::start();
    let mut raw = Raw::connect(&server);
    let batch = "PUB a 1\r\nx\r\n".repeat(10_000);
    let used = || server.page("/varz")["cpu"].as_f64().expect("a number");
    let mut peak = 0.0;
    eventually("a busy server", || {
        (0..20).for_each(|_| raw.send(&batch));
        raw.barrier();
        peak = used();
        peak > 10.0
    });
    // It is still asked, so it does not rest altogether.
    eventually("a server that is busy no longer", || used() < peak / 2.0);
}

#[test]
fn lame_duck_mode_is_not_healthy() {
    let config = "lame_duck_duration: 30s\nlame_duck_grace_period: 20s\n";
    let Some(pair) = Pair::start(config) else { return };
    let _stays = pair.client(r#""name":"one""#, "");
    for server in pair.each() {
        server.signal(rustix::process::Signal::USR2);
        server.wait_for_log("Entering lame duck mode");
    }
    for query in ["", "?details=1", "?js-server-only=1"] {
        pair.agree(&format!("/healthz{query}"), |answers| answers.pages(Order::Any, &[]));
    }
}

/// Whether a connection has ended for this reason.
fn has_closed(server: &Server, reason: &str) -> bool {
    let page = server.page("/connz?state=closed");
    page["connections"].as_array().is_some_and(|list| list.iter().any(|conn| conn["reason"] == reason))
}

#[test]
fn slow_consumers_are_counted() {
    let config = r#"
        server_name: pair
        max_pending: 1MB
        write_deadline: "5m"
        accounts { A { users [ { user: a, password: a } ] }, B { users [ { user: b, password: b } ] } }
    "#;
    let Some(pair) = Pair::start(config) else { return };
    let _stuck = pair.client(r#""user":"a","pass":"a","name":"stuck""#, "SUB flood 1\r\n");
    let mut publishers = pair.client(r#""user":"a","pass":"a","name":"publisher""#, "");
    let batch = format!("PUB flood 1000\r\n{}\r\n", "x".repeat(1000)).repeat(100);
    for (server, publisher) in pair.each().into_iter().zip(&mut publishers) {
        eventually("a slow consumer", || {
            publisher.send(&batch);
            publisher.barrier();
            has_closed(server, "Slow Consumer (Pending Bytes)")
        });
    }
    for query in ["/varz", "/accstatz?unused=1"] {
        pair.agree(query, |answers| answers.pages(Order::Any, UNEVEN));
    }
    let slow = |server: &Server| {
        let page = server.page("/accstatz?unused=1");
        let rows = page["account_statz"].as_array().cloned().unwrap_or_default();
        let of_a = rows.iter().find(|row| row["acc"] == "A").map(|row| row["slow_consumers"].clone());
        (server.page("/varz")["slow_consumer_stats"]["clients"].clone(), of_a)
    };
    for server in pair.each() {
        assert_eq!(slow(server), (Value::from(1), Some(Value::from(1))));
    }
}

/// Keys whose values depend on how far a consumer was behind. The reference counts one that was cut
/// off as connected until its blocked write ends.
const UNEVEN: &[&str] = &[
    "connections",
    "conns",
    "total_conns",
    "subscriptions",
    "num_subscriptions",
    "msgs",
    "bytes",
    "in_msgs",
    "in_bytes",
    "out_msgs",
    "out_bytes",
    "in_client_msgs",
    "in_client_bytes",
    "out_client_msgs",
    "out_client_bytes",
    "stalled_clients",
    "http_req_stats",
];

#[test]
fn stale_connections_are_counted() {
    let Some(pair) = Pair::start("server_name: pair\nping_interval: \"100ms\"\nping_max: 1\n") else {
        return;
    };
    let _silent = pair.client(r#""name":"silent""#, "");
    for server in pair.each() {
        eventually("a stale connection", || has_closed(server, "Stale Connection"));
    }
    pair.agree("/varz", |answers| answers.pages(Order::Any, UNEVEN));
    pair.agree("/connz?state=closed&sort=reason", |answers| answers.pages(Order::Kept, &[]));
    assert_eq!(pair.each().map(|server| server.page("/varz")["stale_connections"].clone()), [1, 1]);
}

#[test]
fn a_reload_is_shown() {
    let config = |rest: &str| {
        format!("server_name: pair\naccounts {{ A {{ users [ {{ user: a, password: a }} ] }} }}\n{rest}")
    };
    let Some(pair) = Pair::start(&config("max_payload: 1000\nserver_tags: [\"one\"]")) else { return };
    let _stays = pair.client(r#""user":"a","pass":"a","name":"one""#, "");
    let times = || pair.each().map(|server| server.page("/varz")["config_load_time"].clone());
    let before = times();
    for server in pair.each() {
        server.reload(&config(
            "max_payload: 5000\nserver_tags: [\"two\"]\nping_interval: \"50s\"\nping_max: 9",
        ));
    }
    pair.agree("/varz", |answers| answers.pages(Order::Any, &["subscriptions"]));
    assert_eq!(pair.each().map(|server| server.page("/varz")["ping_max"].clone()), [9, 9]);
    assert!(before.iter().zip(times()).all(|(before, after)| *before != after), "it was loaded again");
}

/// Compat: the reference's way to write that nobody may connect.
#[test]
fn a_server_for_nobody_says_so() {
    let server = Server::with_config("max_connections: 0");
    assert_eq!(server.page("/varz")["max_connections"], -1);
}

/// Ours alone: the reference takes no notice of `refused`.
#[test]
fn refusals_by_permissions_are_shown_to_whoever_asks() {
    let server = Server::with_config(
        r#"authorization { users: [ { user: a, password: a, permissions {
             publish { allow: ["orders.>"], deny: ["orders.old.>"] }, subscribe { deny: ["secret q", "hidden"] } } } ] }"#,
    );
    let mut client = Raw::open(server.address());
    client.send("CONNECT {\"user\":\"a\",\"pass\":\"a\",\"verbose\":false}\r\n");
    client.barrier();
    let shown =
        |query: &str| server.page(&format!("/connz?state=any{query}"))["connections"][0]["refused"].clone();
    assert_eq!(shown("&refused=1"), Value::Null);
    for n in 0..7 {
        client.publish(&format!("else.{n}"), "x");
    }
    client.send("PUB orders.old.1 1\r\nx\r\nSUB secret q 1\r\nSUB secret r 2\r\nSUB hidden 3\r\nPING\r\n");
    eventually("ten refusals", || shown("&refused=1")["count"] == 10);
    assert_eq!(shown(""), Value::Null);
    let last = shown("&refused=1")["last"].as_array().unwrap().clone();
    assert_eq!(last.len(), 8, "the oldest two are gone");
    let row = |at: usize| (last[at]["error"].as_str().unwrap(), last[at]["denied_by"].as_str());
    let publish = |subject: &str| format!("Permissions Violation for Publish to \"{subject}\"");
    let subscription = "Permissions Violation for Subscription to";
    assert_eq!(row(0), (publish("else.2").as_str(), None));
    assert_eq!(row(5), (publish("orders.old.1").as_str(), Some("orders.old.>")));
    assert_eq!(row(6), (format!("{subscription} \"secret\" using queue \"q\"").as_str(), Some("secret q")));
    assert_eq!(row(7), (format!("{subscription} \"hidden\"").as_str(), Some("hidden")));
    drop(client);
    eventually("the refusals of an ended connection", || {
        server.page("/connz?state=closed&refused=1")["connections"][0]["refused"]["count"] == 10
    });
}
