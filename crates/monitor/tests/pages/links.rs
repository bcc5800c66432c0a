//! `/routez`, `/gatewayz`, `/leafz`, `/jsz` and `/raftz` of a server that has none of it.

use serde_json::json;

use crate::fixture::{Fixed, text};

#[test]
fn without_links_the_lists_are_empty() {
    let source = Fixed::default();
    let routez = source.page("/routez?subs=Detail");
    assert_eq!((&routez["server_name"], &routez["num_routes"]), (&json!("name"), &json!(0)));
    assert_eq!(routez["routes"], json!([]));
    let gatewayz = source.page("/gatewayz?gw_name=nope&acc_name=A&subs=1");
    assert_eq!((&gatewayz["outbound_gateways"], &gatewayz["inbound_gateways"]), (&json!({}), &json!({})));
    assert_eq!((gatewayz.get("name"), gatewayz.get("port")), (None, None));
    let leafz = source.page("/leafz?acc=nope");
    assert_eq!((&leafz["leafnodes"], &leafz["leafs"]), (&json!(0), &json!([])));
}

#[test]
fn without_jetstream_all_is_zero() {
    let page = Fixed::default().page("/jsz?streams=1&consumers=1&config=1&limit=3");
    assert_eq!(page["disabled"], true);
    assert_eq!(page["config"], json!({"max_memory": 0, "max_storage": 0}));
    assert_eq!(page["api"], json!({"level": 0, "total": 0, "errors": 0}));
    assert_eq!(page.get("account_details"), None);
}

#[test]
fn without_jetstream_nobody_leads() {
    let source = Fixed::default();
    assert_eq!(source.refusal("/jsz?leader-only=1"), "filtered response: not leader");
    assert_eq!(source.ask("/jsz?leader-only=0").status, 200);
}

#[test]
fn without_raft_there_is_no_group() {
    let answer = Fixed::default().ask("/raftz?acc=A");
    assert_eq!((answer.status, text(&answer).as_str()), (404, "No Raft nodes registered"));
    assert_eq!(answer.headers, [("content-type", "text/plain; charset=utf-8")]);
}

#[test]
fn of_two_unreadable_values_the_references_first_is_reported() {
    let source = Fixed::default();
    for (request, name) in [
        ("/gatewayz?accs=x&subs=x", "subs"),
        ("/gatewayz?accs=x", "accs"),
        ("/jsz?raft=x&leader-only=x&limit=x", "limit"),
        ("/jsz?raft=x&leader-only=x", "leader-only"),
        ("/jsz?stream-leader-only=x&raft=x", "raft"),
        ("/jsz?accounts=x&streams=x", "accounts"),
        ("/jsz?config=x&direct-consumers=x", "direct-consumers"),
        ("/leafz?subs=detail", "subs"),
        ("/routez?subs=details", "subs"),
        ("/accstatz?unused=-1", "unused"),
        ("/ipqueuesz?all=yes", "all"),
    ] {
        let text = source.refusal(request);
        assert!(text.contains(&format!(" for '{name}': ")), "{request}: {text}");
    }
}
