//! Every option of `/connz`.

use std::time::Duration;

use jiff::tz::{Offset, TimeZone};
use myelin_monitor::ConnSnapshot;
use serde_json::{Value, json};

use crate::fixture::{Fixed, ago, client, gone, sub};

/// Three open clients of three accounts and two closed ones, out of order.
fn source() -> Fixed {
    let default_account = |conn| ConnSnapshot {
        account: "$G".to_owned(),
        account_tag: "$G".to_owned(),
        authorized_user: String::new(),
        ..conn
    };
    let of_b = |conn| ConnSnapshot {
        account: "B".to_owned(),
        account_tag: "Bees".to_owned(),
        authorized_user: "b".to_owned(),
        ..conn
    };
    Fixed {
        open: vec![of_b(client(3)), client(1), default_account(client(2))],
        closed: vec![gone(12, 3, "Stale Connection"), default_account(gone(11, 7, "Client Closed"))],
        subs: vec![sub(1, "A", "x"), sub(1, "A", "y"), sub(3, "B", "z"), sub(12, "A", "gone")],
        ..Fixed::default()
    }
}

fn cids(page: &Value) -> Vec<u64> {
    page["connections"].as_array().unwrap().iter().map(|conn| conn["cid"].as_u64().unwrap()).collect()
}

#[test]
fn states_choose_open_closed_or_both() {
    for (state, expected) in [
        ("", vec![1, 2, 3]),
        ("?state=open", vec![1, 2, 3]),
        ("?state=CLOSED", vec![11, 12]),
        ("?state=any", vec![1, 2, 3, 11, 12]),
        ("?state=all", vec![1, 2, 3, 11, 12]),
    ] {
        let page = source().page(&format!("/connz{state}"));
        assert_eq!(cids(&page), expected, "{state}");
        assert_eq!(page["total"], expected.len(), "{state}");
        assert_eq!(page["num_connections"], expected.len(), "{state}");
    }
    assert_eq!(source().refusal("/connz?state=Foo"), "Error decoding state for Foo");
}

#[test]
fn an_id_picks_one_connection() {
    let page = source().page("/connz?cid=2");
    assert_eq!(cids(&page), [2]);
    assert_eq!((&page["total"], &page["limit"]), (&json!(3), &json!(1)));
    assert!(cids(&source().page("/connz?cid=12")).is_empty());
    assert_eq!(cids(&source().page("/connz?cid=12&state=any")), [12]);
    assert_eq!(cids(&source().page("/connz?cid=12&state=closed")), [12]);
    assert!(cids(&source().page("/connz?cid=2&user=b")).is_empty());
}

#[test]
fn accounts_change_the_total_and_users_do_not() {
    let page = source().page("/connz?acc=A&state=any");
    assert_eq!((cids(&page), &page["total"]), (vec![1, 12], &json!(2)));
    let page = source().page("/connz?user=b");
    assert_eq!((cids(&page), &page["total"]), (vec![3], &json!(3)));
    assert!(cids(&source().page("/connz?mqtt_client=m")).is_empty());
    // The reference forgets that a closed client was in the default account.
    assert_eq!(cids(&source().page("/connz?acc=$G&state=any")), [2]);
}

#[test]
fn an_unknown_account_gives_an_answer_without_a_list() {
    let page = source().page("/connz?acc=nope&offset=3&limit=2");
    assert_eq!(page["server_id"], "");
    assert_eq!(page["connections"], Value::Null);
    assert_eq!((&page["total"], &page["offset"], &page["limit"]), (&json!(0), &json!(3), &json!(2)));
}

#[test]
fn offset_and_limit_cut_out_a_page() {
    let page = source().page("/connz?offset=1&limit=1");
    assert_eq!(cids(&page), [2]);
    assert_eq!((&page["offset"], &page["limit"], &page["total"]), (&json!(1), &json!(1), &json!(3)));
    assert!(cids(&source().page("/connz?offset=3")).is_empty());
    let huge = i64::MAX;
    assert_eq!(cids(&source().page(&format!("/connz?offset=1&limit={huge}"))), [2, 3]);
    assert!(cids(&source().page(&format!("/connz?offset={huge}&limit={huge}"))).is_empty());
}

#[test]
fn identity_is_shown_when_asked_for() {
    let page = source().page("/connz?state=any");
    for conn in page["connections"].as_array().unwrap() {
        assert!(conn.get("authorized_user").is_none() && conn.get("account").is_none(), "{conn}");
    }
    let page = source().page("/connz?auth=1&state=any");
    let shown: Vec<_> = page["connections"]
        .as_array()
        .unwrap()
        .iter()
        .map(|conn| {
            ["authorized_user", "account", "name_tag"].map(|key| conn.get(key).and_then(Value::as_str))
        })
        .collect();
    assert_eq!(
        shown,
        [
            [Some("a"), Some("A"), Some("A")],
            [None, None, Some("$G")],
            [Some("b"), Some("B"), Some("Bees")],
            [None, None, None],
            [Some("a"), Some("A"), Some("A")],
        ]
    );
}

#[test]
fn subscriptions_come_as_subjects_or_in_detail() {
    let page = source().page("/connz?subs=1");
    assert_eq!(page["connections"][0]["subscriptions_list"], json!(["x", "y"]));
    assert!(page["connections"][1].get("subscriptions_list").is_none());
    let page = source().page("/connz?subs=DETAIL&state=any");
    let open = json!({"subject": "z", "sid": "1", "msgs": 0, "cid": 3});
    assert_eq!(page["connections"][2]["subscriptions_list_detail"], json!([open]));
    let closed =
        json!({"account": "A", "account_tag": "A", "subject": "gone", "sid": "1", "msgs": 0, "cid": 12});
    assert_eq!(page["connections"][4]["subscriptions_list_detail"], json!([closed]));
}

#[test]
fn only_the_shown_connections_are_asked_for_subscriptions() {
    let source = source();
    source.page("/connz");
    assert!(source.asked.lock().unwrap().is_empty());
    source.page("/connz?subs=1&offset=1&limit=1");
    assert_eq!(*source.asked.lock().unwrap(), [2]);
}

#[test]
fn ages_of_a_closed_connection_end_with_it() {
    let page = source().page("/connz?cid=11&state=closed");
    let conn = &page["connections"][0];
    assert_eq!((&conn["uptime"], &conn["idle"]), (&json!("1m33s"), &json!("5s")));
    assert_eq!((&conn["stop"], &conn["reason"]), (&json!("2026-11-20T11:59:53.5Z"), &json!("Client Closed")));
    let page = source().page("/connz?cid=1");
    let conn = &page["connections"][0];
    assert_eq!((&conn["uptime"], &conn["idle"]), (&json!("1m40s"), &json!("10s")));
    assert_eq!(conn["rtt"], "496µs");
}

#[test]
fn only_connections_are_written_in_local_time() {
    let zone = TimeZone::fixed(Offset::from_seconds(3_600).unwrap());
    let page = Fixed { zone, ..source() }.page("/connz?cid=1");
    assert_eq!(page["now"], "2026-11-20T12:00:00.5Z");
    assert_eq!(page["connections"][0]["start"], "2026-11-20T12:58:20.5+01:00");
}

#[test]
fn values_that_are_zero_may_be_left_out() {
    let page = source().page("/connz?cid=1");
    for key in ["stalls", "name", "lang", "version", "stop", "reason", "mqtt_client"] {
        assert!(page["connections"][0].get(key).is_none(), "{key}");
    }
    let open = vec![ConnSnapshot { stalls: 2, rtt: Duration::ZERO, ..client(1) }];
    let page = Fixed { open, ..Fixed::default() }.page("/connz");
    assert_eq!(
        (&page["connections"][0]["stalls"], &page["connections"][0]["rtt"]),
        (&json!(2), &json!("0s"))
    );
}

/// Clients 1 to 3 with a value each in every field that can be sorted by: 1 has the middle one, 2
/// the largest, 3 the smallest.
fn ranked(make: fn(u64) -> ConnSnapshot) -> Vec<ConnSnapshot> {
    [(3, 10), (1, 20), (2, 30)]
        .into_iter()
        .map(|(cid, rank): (u64, u32)| {
            let wide = u64::from(rank);
            ConnSnapshot {
                subscriptions: rank,
                pending_bytes: wide,
                out_msgs: wide,
                in_msgs: wide,
                out_bytes: wide,
                in_bytes: wide,
                last_activity: ago(100 - i64::from(rank)),
                start: ago(200 + i64::from(rank)),
                rtt: Duration::from_micros(wide),
                ..make(cid)
            }
        })
        .collect()
}

#[test]
fn every_sort_key_has_its_direction() {
    let source = Fixed { open: ranked(client), ..Fixed::default() };
    for key in ["subs", "pending", "msgs_to", "msgs_from", "bytes_to", "bytes_from", "last", "rtt"] {
        assert_eq!(cids(&source.page(&format!("/connz?sort={key}"))), [2, 1, 3], "{key}");
    }
    for key in ["idle", "uptime"] {
        assert_eq!(cids(&source.page(&format!("/connz?sort={key}"))), [3, 1, 2], "{key}");
    }
    for key in ["", "cid", "start"] {
        assert_eq!(cids(&source.page(&format!("/connz?sort={key}"))), [1, 2, 3], "{key}");
    }
}

#[test]
fn equal_connections_follow_their_ids() {
    assert_eq!(cids(&source().page("/connz?sort=pending")), [1, 2, 3]);
}

#[test]
fn closed_connections_have_two_more_sort_keys() {
    assert_eq!(cids(&source().page("/connz?state=closed&sort=stop")), [12, 11]);
    assert_eq!(cids(&source().page("/connz?state=closed&sort=reason")), [11, 12]);
    for key in ["stop", "reason"] {
        for state in ["open", "any"] {
            assert_eq!(
                source().refusal(&format!("/connz?sort={key}&state={state}")),
                format!("sort by {key} only valid on closed connections")
            );
        }
    }
    assert_eq!(source().refusal("/connz?sort=x%3C%22"), "invalid sorting option: x<\"");
}

#[test]
fn unreadable_values_are_refused_in_the_reference_order() {
    for (options, culprit) in [
        ("auth=x&subs=x&offset=x", "auth"),
        ("subs=x&offset=x&limit=x", "subs"),
        ("limit=x&offset=x", "offset"),
        ("cid=x&limit=x", "limit"),
        ("state=x&cid=-1", "cid"),
        ("sort=x&cid=-1", "cid"),
    ] {
        let text = source().refusal(&format!("/connz?{options}"));
        assert!(text.contains(&format!(" for '{culprit}':")), "{options}: {text}");
    }
}
