//! `/gatewayz` and what other pages say of gateways, of Myelin and of nats-server.

use super::{Site, joined, pairs};
use crate::eventually;
use crate::routes::{Ours, Reference, free_port};
use serde_json::{Value, json};

/// The names of a page, and the values of what is the same whoever answers.
fn shape(page: &Value) -> Value {
    match page {
        Value::Object(fields) => {
            let told = ["name", "interest_mode", "interest_only_threshold", "num_subs", "num_queue_subs"];
            let shaped = fields.iter().map(|(name, value)| {
                let is_told = told.contains(&&**name) && value.as_str().is_none_or(|text| text.len() < 50);
                (name.clone(), if is_told { value.clone() } else { shape(value) })
            });
            Value::Object(shaped.collect())
        }
        Value::Array(items) => items.iter().map(shape).collect(),
        _ => json!("some"),
    }
}

/// Waits until the page about `other` counts so many plain and queue subscriptions of `$G`.
fn wait_for(site: &Site, other: &str, counts: [u64; 2]) -> Value {
    let mut page = Value::Null;
    eventually("the other cluster's interest", || {
        page = site.server.page(&format!("/gatewayz?gw_name={other}&acc_name=$G&subs=detail"));
        let account = &page["outbound_gateways"][other]["accounts"][0];
        let is_complete = page["inbound_gateways"][other][0]["accounts"].is_array();
        is_complete
            && account["interest_mode"] == "Interest-Only"
            && account["num_subs"] == counts[0]
            && account["num_queue_subs"] == counts[1]
    });
    page
}

#[test]
fn the_page_of_gateways_has_the_names_of_the_reference() {
    let mut shapes: Vec<(String, Value)> = Vec::new();
    for [one, two] in pairs("http: \"127.0.0.1:-1\"") {
        let mut wanting = two.client();
        wanting.send("SUB plain 1\r\nSUB work group 2\r\n");
        wanting.barrier();
        let page = wait_for(&one, "B", [2, 1]);
        assert_eq!((&page["name"], &page["port"]), (&json!("A"), &json!(one.port)), "{page}");
        let outbound = &page["outbound_gateways"]["B"];
        assert_eq!(
            (&outbound["configured"], &outbound["connection"]["kind"]),
            (&json!(true), &json!("Gateway"))
        );
        let details = outbound["accounts"][0]["subscriptions_list_detail"].as_array().unwrap();
        let mut told: Vec<_> = details.iter().map(|sub| [&sub["subject"], &sub["qgroup"]]).collect();
        told.sort_by_key(|sub| sub[0].to_string());
        assert_eq!(told, [[&json!("plain"), &Value::Null], [&json!("work"), &json!("group")]]);
        let mut all = shape(&page);
        all["outbound_gateways"]["B"]["accounts"][0]["subscriptions_list_detail"] = Value::Null;
        shapes.push(("gatewayz".to_owned(), all));
        let varz = &one.server.page("/varz")["gateway"];
        assert_eq!(varz["gateways"], json!([{"name": "B", "urls": [format!("127.0.0.1:{}", two.port)]}]));
        assert_eq!((&varz["port"], &varz["auth_timeout"]), (&json!(one.port), &json!(2)), "{varz}");
        shapes.push(("varz".to_owned(), shape(varz)));
        for path in ["/gatewayz?gw_name=nope", "/gatewayz?acc_name=nope"] {
            shapes.push((path.to_owned(), shape(&one.server.page(path))));
        }
    }
    for (page, shape) in &shapes {
        let first = shapes.iter().find(|(other, _)| other == page).map(|(_, shape)| shape);
        assert_eq!(Some(shape), first, "{page}");
    }
}

#[test]
fn the_statistics_count_what_crosses() {
    for [one, two] in
        pairs("http: \"127.0.0.1:-1\"\naccounts { $SYS { users: [{ user: sys, password: p }] } }")
    {
        let (mut a, mut b) = (one.client(), two.client());
        joined(&mut a, &mut b);
        let mut system = one.client();
        system.send("CONNECT {\"user\":\"sys\",\"pass\":\"p\",\"verbose\":false}\r\nSUB answers 1\r\n");
        system.barrier();
        let mut gateways = Value::Null;
        eventually("the statistics", || {
            system.send("PUB $SYS.REQ.SERVER.PING.STATSZ answers 20\r\n{\"server_name\":\"A1\"}\r\n");
            let answer: Value = serde_json::from_slice(&system.message().body).unwrap();
            gateways = answer["statsz"]["gateways"].clone();
            gateways[0]["inbound_connections"] == 1
                && gateways[0]["sent"]["msgs"].as_u64() > Some(0)
                // Tools wait for as many answers.
                && answer["statsz"]["active_servers"] == 2
        });
        let names: Vec<_> = gateways[0].as_object().unwrap().keys().cloned().collect();
        assert_eq!(names, ["gwid", "name", "sent", "received", "inbound_connections"], "{gateways}");
        assert_eq!(gateways[0]["name"], "B");
    }
}

#[test]
fn the_server_s_page_has_what_is_configured() {
    let inner = "connect_retries: 3\nconnect_backoff: true\nreject_unknown: true\nadvertise: \"gate.example:7222\"\n\
                 authorization { user: u, password: p, timeout: 3 }\nwrite_deadline: \"4s\"\nwrite_timeout: close";
    let other = free_port();
    let mut shown = Vec::new();
    for kind in [Ours, Reference] {
        let Some(site) = Site::start(kind, ("A1", "A", free_port()), &[("B", other)], inner, "") else {
            continue;
        };
        let mut gateway = site.server.page("/varz")["gateway"].take();
        assert_eq!(gateway["port"].take(), json!(site.port), "{kind:?}");
        let page = site.server.page("/gatewayz");
        assert_eq!(
            [&page["host"], &page["port"]],
            [&json!("gate.example"), &json!(7222)],
            "{kind:?}: {page}"
        );
        shown.push(gateway);
    }
    assert_eq!(shown[0]["gateways"], json!([{"name": "B", "urls": [format!("127.0.0.1:{other}")]}]));
    assert!(shown.windows(2).all(|two| two[0] == two[1]), "{shown:#?}");
}

/// Subscriptions of another cluster are none of the server's, on the page of the server.
#[test]
fn the_interest_of_another_cluster_is_not_counted() {
    for [one, two] in pairs("system_account: none\naccounts { none {} }") {
        let (mut a, mut b) = (one.client(), two.client());
        joined(&mut a, &mut b);
        let count = |site: &Site| site.server.page("/varz")["subscriptions"].as_u64();
        let before = count(&one);
        b.send(&(1..=50).map(|at| format!("SUB many.{at} {at}\r\n")).collect::<String>());
        crate::routes::wait_for_interest(&mut a, &mut b);
        assert_eq!(count(&one), before);
        b.send(&(1..=50).map(|at| format!("UNSUB {at}\r\n")).collect::<String>());
        crate::routes::wait_for_interest(&mut a, &mut b);
        assert_eq!(count(&one), before);
    }
}

/// A trace names the kind of the links over which a message goes to other clusters, and has come.
#[test]
fn a_trace_shows_gateways() {
    for [one, two] in pairs("") {
        let (mut a, mut b) = (one.client(), two.client());
        b.subscribe("traced", 1);
        a.subscribe("story", 2);
        joined(&mut a, &mut b);
        a.send("HPUB traced 36 37\r\nNATS/1.0\r\nNats-Trace-Dest: story\r\n\r\n!\r\n");
        b.message();
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let story: Value = serde_json::from_slice(&a.message().body).unwrap();
            let events = story["events"].as_array().unwrap();
            let of =
                |what: &str| events.iter().find(|one| one["type"] == what).map(|one| one["kind"].clone());
            kinds.push([of("in"), of("eg")]);
        }
        kinds.sort_by_key(|kinds| format!("{kinds:?}"));
        assert_eq!(kinds, [[Some(json!(0)), Some(json!(2))], [Some(json!(2)), Some(json!(0))]]);
    }
}
