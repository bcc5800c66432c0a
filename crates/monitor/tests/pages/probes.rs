//! `/livez`, `/startupz`, `/readyz` and `/stopz`: who is restarted, gets clients, may be stopped.

use myelin_monitor::{
    Effort, Health, JetStreamAccount, Pages, RaftGroup, RaftGroupSnapshot, RaftPeer, StoredAccount,
    StoredStream, StreamFailure, StreamFigures,
};
use serde_json::{Value, json};

use crate::fixture::{Fixed, Scraped, text};
use crate::jetstream::running::Running;

fn ask(source: &Fixed, page: &str) -> (u16, Value) {
    let answer = source.ask(page);
    assert_eq!(answer.headers[0], ("content-type", "application/json"));
    (answer.status, serde_json::from_str(&text(&answer)).unwrap())
}

/// Statuses of being alive, started and ready.
fn statuses(source: &Fixed) -> [u16; 3] {
    ["/livez", "/startupz", "/readyz"].map(|page| ask(source, page).0)
}

#[test]
fn a_server_that_is_well_is_so_in_every_way() {
    let source = Fixed::default();
    for page in ["/livez", "/startupz", "/readyz", "/stopz"] {
        assert_eq!(ask(&source, page), (200, json!({ "status": "ok" })), "{page}");
    }
    assert_eq!(source.requests.lock().unwrap()["/stopz"], 1);
    assert!(source.warnings.lock().unwrap().is_empty());
}

/// Whoever is told nothing in time draws conclusions, so probes must not wait behind pages.
#[test]
fn probes_are_no_pages() {
    for base in ["", "mon"] {
        let pages = Pages::under(base);
        let effort = |page: &str| {
            let below = if base.is_empty() { String::new() } else { format!("/{base}") };
            pages.effort(&format!("{below}{page}"))
        };
        assert_eq!(["/livez", "/startupz"].map(effort), [Effort::None; 2]);
        assert_eq!(["/readyz", "/stopz"].map(effort), [Effort::Probe; 2]);
        assert_eq!(["/", "/jsz", "/metrics", "/healthz", "/livezz"].map(effort), [Effort::Page; 5]);
    }
}

#[test]
fn a_server_without_listeners_or_jetstream_lives_and_says_what_it_waits_for() {
    let not_ready = Health::NotReady("no listener yet".to_owned());
    for (health, said) in
        [(not_ready, "no listener yet"), (Health::WithoutJetStream, "JetStream not enabled")]
    {
        let source = Fixed { health, ..Fixed::default() };
        assert_eq!(statuses(&source), [200, 503, 503]);
        let (_, body) = ask(&source, "/startupz");
        assert_eq!((&body["status"], &body["seconds"]), (&json!("unavailable"), &json!(93_784)));
        assert!(body["waits"][0]["error"].as_str().unwrap().contains(said), "{body}");
        assert!(ask(&source, "/readyz").1["waits"][0]["error"].as_str().unwrap().contains(said));
    }
}

#[test]
fn an_ailing_stream_is_named_and_takes_no_clients_away() {
    let failure = Some(StreamFailure::Write("no space".to_owned()));
    let streams = vec![
        StoredStream { name: "S".to_owned(), failure, lost: 0 },
        StoredStream { name: "L".to_owned(), failure: None, lost: 3 },
    ];
    let stored = vec![StoredAccount { name: "A".to_owned(), streams, ..StoredAccount::default() }];
    let source = Running { stored, waits_for_room: Some("JetStream waits".to_owned()), ..Running::default() };
    let source = source.source();
    assert_eq!(source.ask("/healthz").status, 503);
    assert_eq!(statuses(&source), [200, 200, 200]);
    let (_, body) = ask(&source, "/readyz");
    assert_eq!(body["status"], "ok");
    assert_eq!((&body["ailing"][0]["account"], &body["ailing"][0]["stream"]), (&json!("A"), &json!("S")));
    assert_eq!(body["ailing"][1]["error"], "JetStream waits");
    assert_eq!(body["lost"], json!([{ "account": "A", "stream": "L", "messages": 3 }]));
}

fn group(name: &str, peers: &[(&str, u64, bool)]) -> RaftGroupSnapshot {
    let size = peers.len() + 1;
    let peers = peers.iter().map(|&(name, lag, is_offline)| {
        let is_current = lag == 0 && !is_offline;
        (
            name.to_owned(),
            RaftPeer { name: name.to_owned(), lag, is_offline, is_current, ..RaftPeer::default() },
        )
    });
    let group =
        RaftGroup { size, quorum_needed: size / 2 + 1, peers: peers.collect(), ..RaftGroup::default() };
    RaftGroupSnapshot { account: "A".to_owned(), name: name.to_owned(), group }
}

fn member(groups: Vec<RaftGroupSnapshot>, figures: Vec<StreamFigures>) -> Fixed {
    let account = JetStreamAccount { name: "A".to_owned(), ..JetStreamAccount::default() };
    let source = Running { accounts: vec![account], ..Running::default() }.source();
    Fixed { scraped: Scraped { groups, figures, ..Scraped::default() }, ..source }
}

#[test]
fn a_server_without_which_a_group_has_no_majority_is_not_stopped() {
    let stream = |name: &str, group: &str| StreamFigures {
        name: name.to_owned(),
        raft_group: group.to_owned(),
        ..StreamFigures::default()
    };
    let streams = vec![stream("S", "S-1"), stream("T", "S-2")];
    let good = group("S-1", &[("N2", 0, false), ("N3", 0, false)]);
    let five = group("S-2", &[("N2", 0, false), ("N3", 0, false), ("N4", 0, false), ("N5", 9, true)]);
    let source = member(vec![good.clone(), five], streams.clone());
    assert_eq!(ask(&source, "/stopz"), (200, json!({ "status": "ok" })));
    let behind = group("S-2", &[("N2", 17, false), ("N3", 0, false)]);
    let (code, body) = ask(&member(vec![good.clone(), behind], streams.clone()), "/stopz");
    let needed = json!([{
        "account": "A", "stream": "T", "group": "S-2", "current": 1, "needed": 2,
        "behind": [{ "name": "N2", "offline": false, "lag": 17 }],
    }]);
    assert_eq!((code, body), (503, json!({ "status": "unavailable", "needed_here": needed })));
    let meta = group("_meta_", &[("N2", 0, true), ("N3", 0, false)]);
    let source = member(vec![meta, good], streams);
    let (code, body) = ask(&source, "/stopz");
    assert_eq!((code, &body["needed_here"][0]["group"]), (503, &json!("_meta_")));
    assert_eq!(
        (body["needed_here"][0].get("stream"), &body["needed_here"][0]["behind"][0]["offline"]),
        (None, &json!(true))
    );
    // That others miss it is no reason to end it, nor to send it no clients.
    assert_eq!(statuses(&source), [200, 200, 200]);
}

#[test]
fn what_pauses_whoever_waits_does_not_hold_a_server_back_and_is_counted() {
    let in_memory =
        StreamFigures { name: "M".to_owned(), is_in_memory: true, messages: 5, ..StreamFigures::default() };
    let on_disk = StreamFigures { name: "F".to_owned(), messages: 7, ..StreamFigures::default() };
    let of_two =
        StreamFigures { name: "T".to_owned(), raft_group: "S-2".to_owned(), ..StreamFigures::default() };
    let pair = group("S-2", &[("N2", 0, true)]);
    let source = member(vec![pair], vec![on_disk, in_memory, of_two]);
    let expected = json!({ "status": "ok", "pausing": 3, "memory_messages": 5 });
    assert_eq!(ask(&source, "/stopz"), (200, expected));
}
