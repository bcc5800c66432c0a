//! `/accountz` and `/accstatz`.

use myelin_monitor::{AccountSnapshot, InterestSnapshot, Volume};
use serde_json::{Value, json};

use crate::fixture::Fixed;

fn busy() -> Fixed {
    let account = AccountSnapshot {
        clients: 2,
        received: Volume { msgs: 3, bytes: 30 },
        sent: Volume { msgs: 4, bytes: 40 },
        received_from_leafs: Volume { msgs: 1, bytes: 5 },
        sent_to_leafs: Volume { msgs: 2, bytes: 6 },
        slow_consumers: 1,
        updated: crate::fixture::ago(60),
        ..AccountSnapshot::default()
    };
    let interest = InterestSnapshot { num_subscriptions: 5, num_inserts: 7, ..InterestSnapshot::default() };
    Fixed { account, interest, ..Fixed::default() }
}

#[test]
fn accountz_lists_names() {
    let page = Fixed::default().page("/accountz");
    assert_eq!(page["accounts"], json!(["$G", "$SYS", "A", "B"]));
    assert_eq!((&page["system_account"], page.get("account_detail")), (&json!("$SYS"), None));
    let page = Fixed { accounts: vec!["$G"], ..Fixed::default() }.page("/accountz?acc=");
    assert_eq!((&page["accounts"], page.get("system_account")), (&json!(["$G"]), None));
}

#[test]
fn accountz_tells_of_one_account() {
    let page = busy().page("/accountz?acc=A");
    assert_eq!(page.get("accounts"), None);
    let detail = &page["account_detail"];
    assert_eq!(
        keys(detail),
        [
            "account_name",
            "update_time",
            "expired",
            "complete",
            "jetstream_enabled",
            "leafnode_connections",
            "client_connections",
            "subscriptions",
            "name_tag",
            "sublist_stats"
        ]
    );
    assert_eq!(detail["client_connections"], 2);
    assert_eq!((&detail["subscriptions"], &detail["sublist_stats"]["num_inserts"]), (&json!(5), &json!(7)));
    assert_eq!(busy().page("/accountz?acc=$SYS")["account_detail"]["is_system"], true);
}

#[test]
fn accountz_does_not_know_an_account() {
    assert_eq!(busy().refusal("/accountz?acc=nope"), "Account nope does not exist");
}

#[test]
fn accstatz_leaves_out_accounts_without_connections() {
    assert_eq!(Fixed::default().page("/accstatz")["account_statz"], json!([]));
    let all = Fixed::default().page("/accstatz?unused=1");
    let names: Vec<_> = all["account_statz"].as_array().unwrap().iter().map(|row| &row["acc"]).collect();
    assert_eq!(names, ["$G", "$SYS", "A", "B"]);
}

#[test]
fn accstatz_counts_traffic() {
    let page = busy().page("/accstatz");
    let row = &page["account_statz"][2];
    let none = json!({"msgs": 0, "bytes": 0});
    let expected = json!({
        "acc": "A",
        "name": "A",
        "conns": 2,
        "leafnodes": 0,
        "total_conns": 2,
        "num_subscriptions": 5,
        "sent": {"msgs": 6, "bytes": 46, "gateways": none, "routes": none, "leafs": {"msgs": 2, "bytes": 6}},
        "received": {"msgs": 4, "bytes": 35, "gateways": none, "routes": none, "leafs": {"msgs": 1, "bytes": 5}},
        "slow_consumers": 1,
    });
    assert_eq!(row, &expected);
    assert_eq!(keys(row), keys(&expected));
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}
