//! The pages of a server whose JetStream runs.

mod health;
mod recorded;
pub(crate) mod running;

use myelin_monitor::{JetStreamAccount, StreamParts};
use serde_json::{Value, json};

use crate::fixture::{Fixed, text};
use recorded::recorded_situation;

/// The names in `account_details`.
fn names(page: &Value) -> Vec<&str> {
    let details = page.get("account_details").and_then(Value::as_array).into_iter().flatten();
    details.filter_map(|detail| detail["name"].as_str()).collect()
}

#[test]
fn options_choose_accounts() {
    let mut source = recorded_situation();
    // Their order is not the source's business.
    source.jetstream.as_mut().unwrap().accounts.reverse();
    for (options, expected) in [
        ("", &[][..]),
        ("offset=1&limit=1", &[]),
        ("config=1&raft=1&direct-consumers=1", &[]),
        ("accounts=1", &["A", "B", "C"]),
        ("accounts=1&limit=-1&offset=2", &["A", "B", "C"]),
        ("accounts=1&limit=0&offset=2", &["C"]),
        ("accounts=1&offset=9", &[]),
        ("accounts=1&offset=-9&limit=2", &["A", "B"]),
        ("acc=B", &["B"]),
        ("acc=B&accounts=1&offset=9", &["B"]),
        ("acc=b", &[]),
        ("acc=b&streams=1", &[]),
        ("acc=b&accounts=1", &["A", "B", "C"]),
        ("acc=&consumers=1", &["A", "B", "C"]),
    ] {
        assert_eq!(names(&source.page(&format!("/jsz?{options}"))), expected, "{options}");
    }
}

#[test]
fn streams_are_walked_only_to_be_shown() {
    let config = StreamParts { config: true, ..StreamParts::default() };
    let consumers = StreamParts { consumers: true, ..StreamParts::default() };
    let all = StreamParts { config: true, consumers: true, direct_consumers: true };
    for (request, expected) in [
        ("/jsz", &[][..]),
        ("/jsz?accounts=1&config=1&raft=1", &[]),
        ("/jsz?acc=A", &[]),
        ("/varz", &[]),
        ("/healthz", &[]),
        ("/jsz?acc=A&streams=1&config=1", &[("A", config)]),
        ("/jsz?streams=1&offset=1&limit=1", &[("B", StreamParts::default())]),
        ("/jsz?acc=A&streams=1&direct-consumers=1", &[("A", StreamParts::default())]),
        ("/jsz?acc=B&consumers=1", &[("B", consumers)]),
        ("/jsz?acc=B&consumers=1&direct-consumers=1&config=1", &[("B", all)]),
    ] {
        let source = recorded_situation();
        source.ask(request);
        let asked = std::mem::take(&mut *source.jetstream.as_ref().unwrap().asked.lock().unwrap());
        let asked: Vec<_> = asked.iter().map(|(account, parts)| (account.as_str(), *parts)).collect();
        assert_eq!(asked, expected, "{request}");
    }
}

#[test]
fn bad_options_are_refused_as_without_jetstream() {
    let source = recorded_situation();
    for request in
        ["/jsz?streams=y&accounts=x", "/jsz?limit=1.5&raft=z", "/jsz?stream-leader-only=z&leader-only=1"]
    {
        assert_eq!(source.refusal(request), Fixed::default().refusal(request));
    }
    assert_eq!(
        source.refusal("/jsz?acc=nope&raft=2").split(':').next(),
        Some("Error decoding boolean for 'raft'")
    );
}

/// In this layout the reference has shown a mirror and a stream with sources, and the consumers
/// that feed them.
#[test]
fn mirrors_sources_and_hidden_consumers_have_their_place() {
    let mut source = recorded_situation();
    let details = source.jetstream.as_mut().unwrap().details.get_mut("A").unwrap();
    let stream = details[0].as_object_mut().unwrap();
    stream.insert("mirror".to_owned(), json!({"name": "M", "lag": 0, "active": -1}));
    stream.insert("sources".to_owned(), json!([{"name": "S", "error": {"code": 404}}, {"name": "T"}]));
    stream.insert("direct_consumer_detail".to_owned(), json!([{"name": "d", "config": {}, "ts": "x"}]));
    let page = text(&source.ask("/jsz?acc=A&consumers=1&direct-consumers=1"));
    let end = r#"
          "direct_consumer_detail": [
            {
              "name": "d",
              "ts": "x"
            }
          ],
          "mirror": {
            "name": "M",
            "lag": 0,
            "active": -1
          },
          "sources": [
            {
              "name": "S",
              "error": {
                "code": 404
              }
            },
            {
              "name": "T"
            }
          ]
        }
      ]
    }
  ],
  "total": 3
}"#;
    assert!(page.ends_with(end), "{page}");
}

#[test]
fn accounts_with_tiers_reserve_nothing_and_tags_are_shown() {
    let mut source = recorded_situation();
    source.jetstream.as_mut().unwrap().accounts = vec![JetStreamAccount {
        name: "ACKEY".to_owned(),
        tag: "Sales <&>".to_owned(),
        allowance: None,
        ..JetStreamAccount::default()
    }];
    let page = source.page("/jsz?acc=ACKEY");
    let detail = &page["account_details"][0];
    assert_eq!((&detail["name"], &detail["id"]), (&json!("Sales <&>"), &json!("ACKEY")));
    assert_eq!((&detail["reserved_memory"], &detail["reserved_storage"]), (&json!(0), &json!(0)));
    // The tag is no name.
    assert_eq!(names(&source.page("/jsz?acc=Sales%20%3C%26%3E")), Vec::<&str>::new());
}

#[test]
fn requests_in_flight_are_shown_while_there_are_some() {
    let mut source = recorded_situation();
    source.jetstream.as_mut().unwrap().snapshot.stats.api.inflight = 2;
    assert_eq!(source.page("/jsz")["api"]["inflight"], 2);
    assert_eq!(source.page("/varz")["jetstream"]["stats"]["api"]["inflight"], 2);
}

#[test]
fn accountz_says_whether_an_account_may_use_jetstream() {
    let mut source = recorded_situation();
    assert_eq!(source.page("/accountz?acc=A")["account_detail"]["jetstream_enabled"], false);
    source.account.jetstream = true;
    assert_eq!(source.page("/accountz?acc=A")["account_detail"]["jetstream_enabled"], true);
}
